//! The nodes of the world: their network, their processors, their applications.

use super::{Arrival, Asker, Atomic, KEY, Operation, Plan, Request, Shared};
use crate::locks::ncosed::messages::Message;
use crate::locks::ncosed::{OutcomeUnknown, Refused, Requester, Sharing, Wire, Word};
use crate::locks::stats::Counters;
use crate::locks::{LockKey, Mode, Scheme, dqnl};
use crate::transport::Rank;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use weft_verbs::RemoteSlice;

pub(super) struct NodeWire {
    me: Rank,
    scheme: Scheme,
    shared: Rc<RefCell<Shared>>,
    pub(super) counters: Counters,
}

impl NodeWire {
    async fn atomic(&self, at: RemoteSlice, operation: Operation) -> Result<Word, OutcomeUnknown> {
        let arrival = Rc::new(RefCell::new(Arrival::default()));
        let asker = Asker::Requester(self.me, Rc::clone(&arrival));
        self.shared.borrow_mut().atomics.push(Atomic { asker, at, operation, was: None });
        Arrival::wait(&arrival).await
    }
}

impl Wire for NodeWire {
    fn me(&self) -> Rank {
        self.me
    }

    fn view(&self) -> u64 {
        0
    }

    fn send(&self, to: Rank, key: LockKey, message: Message) {
        // Through its bytes, as on a real wire.
        let (read_key, read) =
            Message::decode(self.scheme, message.encode(self.scheme, key).bytes()).expect("what was encoded");
        assert_eq!((read_key, read), (KEY, message));
        self.shared.borrow_mut().send_as_member(self.me, to, message);
    }

    async fn compare_swap(
        &self,
        _home: Rank,
        at: RemoteSlice,
        compare: Word,
        swap: Word,
    ) -> Result<Word, OutcomeUnknown> {
        self.atomic(at, Operation::Swap { compare, swap }).await
    }

    async fn fetch_add(&self, _home: Rank, at: RemoteSlice, add: u64) -> Result<Word, OutcomeUnknown> {
        self.atomic(at, Operation::Add(add)).await
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

pub(in crate::locks::ncosed) struct Flag(pub(in crate::locks::ncosed) AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Where a node's application stands; the oracles look at this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::locks::ncosed) enum Doing {
    Thinking,
    Asking(Request),
    Holding(Mode),
}

pub(in crate::locks::ncosed) struct Application {
    pub(in crate::locks::ncosed) doing: Cell<Doing>,
    pub(in crate::locks::ncosed) let_go: Cell<bool>,
    /// This hold's place in the order has been looked at.
    pub(super) judged: Cell<bool>,
    pub(super) waker: RefCell<Option<Waker>>,
}

impl Application {
    pub(in crate::locks::ncosed) fn new() -> Application {
        Application {
            doing: Cell::new(Doing::Thinking),
            let_go: Cell::new(false),
            judged: Cell::new(false),
            waker: RefCell::new(None),
        }
    }

    /// Ends what it holds.
    pub(in crate::locks::ncosed) fn lets_go(&self) {
        self.let_go.set(true);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Whether it has asked to be queued.
    pub(super) fn queues(&self) -> bool {
        matches!(self.doing.get(), Doing::Asking(Request::Lock(_) | Request::Downgrade))
    }

    /// Holds until the world lets go.
    async fn hold(&self, mode: Mode) {
        self.let_go.set(false);
        self.doing.set(Doing::Holding(mode));
        std::future::poll_fn(|cx| {
            if self.let_go.get() {
                return Poll::Ready(());
            }
            *self.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

pub(super) struct WorldNode {
    pub(super) rank: Rank,
    pub(super) requester: Rc<Requester<NodeWire>>,
    pub(super) wire: Rc<NodeWire>,
    pub(super) application: Rc<Application>,
    pub(super) task: Option<Pin<Box<dyn Future<Output = ()>>>>,
    awake: Arc<Flag>,
}

impl WorldNode {
    pub(super) fn new(
        rank: Rank,
        requests: Vec<Request>,
        plan: &Plan,
        shared: &Rc<RefCell<Shared>>,
    ) -> WorldNode {
        let (shared, counters) = (Rc::clone(shared), Counters::default());
        let wire = Rc::new(NodeWire { me: rank, scheme: plan.scheme, shared, counters });
        let home = Rank::from_index(0);
        let requester = Rc::new(match plan.scheme {
            Scheme::Dqnl => dqnl::requester(Rc::clone(&wire), KEY, home),
            _ => Requester::new(Rc::clone(&wire), KEY, home, Sharing::UpTo(plan.shared_limit)),
        });
        let application = Rc::new(Application::new());
        let task = Box::pin(live(Rc::clone(&requester), Rc::clone(&application), requests));
        let awake = Arc::new(Flag(AtomicBool::new(true)));
        WorldNode { rank, requester, wire, application, task: Some(task), awake }
    }

    /// Whether its task has something to do.
    pub(super) fn is_awake(&self) -> bool {
        self.task.is_some() && self.awake.0.load(Ordering::Relaxed)
    }

    pub(super) fn run(&mut self) {
        self.awake.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&self.awake));
        if let Some(task) = &mut self.task
            && task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
        {
            self.task = None;
        }
    }

    pub(super) fn let_go(&self) {
        self.application.lets_go();
    }
}

/// A node's life: each request in turn, held until the world lets go.
pub(in crate::locks::ncosed) async fn live<W: Wire>(
    requester: Rc<Requester<W>>,
    application: Rc<Application>,
    requests: Vec<Request>,
) {
    for request in requests {
        application.doing.set(Doing::Asking(request));
        let mode = match request {
            Request::Lock(mode) => requester.lock(mode).await.map(Some),
            Request::Try(mode) => requester.try_lock(mode).await,
            Request::Downgrade => requester.lock(Mode::Exclusive).await.map(Some),
        };
        let mode = match mode {
            Ok(mode) => mode,
            Err(Refused::HomeFull | Refused::Busy | Refused::Over) => {
                unreachable!("this home always has words")
            }
        };
        if let Some(mode) = mode {
            // A try queues behind nobody, so it has no place in the order.
            application.judged.set(matches!(request, Request::Try(_)));
            application.hold(mode).await;
        }
        if request == Request::Downgrade {
            application.doing.set(Doing::Holding(Mode::Shared));
            requester.downgrade().await;
            application.hold(Mode::Shared).await;
        }
        application.doing.set(Doing::Thinking);
        if mode.is_some() {
            requester.unlock().await;
        }
    }
}
