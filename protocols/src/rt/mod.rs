//! The runtime of a node: one thread, tasks that are not sent anywhere, one executor on both backends.
//!
//! [`Rt`] is a handle that every task may clone. [`Rt::program`] is what a driver steps. Time, randomness
//! and waiting come from here and from nowhere else.
//!
//! | module | idea |
//! |---|---|
//! | `executor` | tasks run in the order in which they were woken |
//! | `timers`, `wait` | deadlines, sleeping, letting others go first |
//! | `slots` | a posted request guards its memory until it has ended |
//! | `ledger` | what is outstanding on each queue pair, in order |
//! | `qp_handle`, `shared_receives` | a queue pair as tasks use it, and a receive queue that several share |
//! | `cqs` | completion queues that cannot overrun |
//! | `events` | connection management and asynchronous events, routed |
//! | `memory` | registered memory in blocks |
//! | `processors` | the time of a program that computes, in simulation |
//! | `labels` | what registered memory is, for logs and drawings |
//! | `wait_point` | what a task knows where it waits, for explorers |
//! | [`fingerprint`] | whether two states of a node are the same, for explorers |
//! | `program` | the node's step |
//! | [`sync`] | waiting for one another |
//! | `places` | waiting in line for one of so many places |

mod cqs;
mod events;
mod executor;
pub mod fingerprint;
mod labels;
mod ledger;
mod memory;
pub(crate) mod places;
mod processors;
mod program;
mod qp_handle;
mod shared_receives;
mod slots;
pub mod sync;
mod timers;
mod wait;
mod wait_point;

pub use events::Connector;
pub use executor::JoinHandle;
use labels::Labels;
pub use labels::{Label, LabelGuard, Labelled};
pub use memory::{Block, BufferPool, WeakPool};
use processors::Processors;
pub use processors::Receives;
pub use program::Program;
pub use qp_handle::{BrokenOff, Local, Pending, QpHandle};
pub use shared_receives::SharedReceives;
pub use slots::{BufferGuard, Completed, CompletionSink, Failed, Outcome};
pub use wait::{Elapsed, Sleep, Timed, Yield};
pub use wait_point::{At, WaitPoint};
pub(crate) use wait_point::{leaf, leaf_at};

use cqs::Cqs;
use events::Routes;
use executor::Executor;
use slots::Requests;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use sync::Mailbox;
use timers::Timers;
use weft_verbs::{
    AsyncEvent, Clock, CmEvent, Context, Host, Nanos, QpCaps, Service, Verbs, VerbsError, Wait, Work,
    WorkCompletion,
};

/// How a node's runtime behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtConfig {
    /// How the node learns of completions: by polling or by notification. Default: notification, as daemons
    /// do that share their machine.
    pub wait: Wait,
    /// How long a node that is notified looks at its completion queues before it arms them and sleeps: what comes within that time costs
    /// neither an interrupt nor a change of context. Default: not at all; `rsockets` does so for 10 us.
    pub spin: Nanos,
    /// Room in each completion queue, in completions; another queue is made when it is promised away.
    /// Default: 4,096 (a page-aligned 256 KB on common adapters); lowered to the device's limit.
    pub cqe: u32,
    /// Most completions taken from a queue at a time. Default: 32, as DPDK and SPDK poll.
    pub poll_batch: usize,
    /// Most rounds of polling and running within one step, so that a busy node returns to its driver.
    /// Default: 64.
    pub max_rounds: u32,
    /// Whether a step takes one completion or one event only, and none if a task is ready when it begins. Default: no.
    /// For explorers: to such a node it makes no difference whether a completion comes while another one waits to be
    /// taken, or after that.
    pub one_by_one: bool,
}

impl Default for RtConfig {
    fn default() -> RtConfig {
        RtConfig {
            wait: Wait::Notify,
            spin: Nanos::ZERO,
            cqe: 4_096,
            poll_batch: 32,
            max_rounds: 64,
            one_by_one: false,
        }
    }
}

/// Why a runtime could not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RtError {
    /// The device refused an object.
    #[error("the runtime could not start: {0}")]
    Verbs(#[from] VerbsError),
    /// A configuration in which nothing could ever run.
    #[error("{0} must not be zero")]
    Zero(&'static str),
}

/// What a runtime holds: for oracles that look for leaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtAudit {
    /// Tasks that have not ended.
    pub tasks: usize,
    /// Timers set.
    pub timers: usize,
    /// Requests posted whose end is not known or not looked at: the sum of the next three, and of those whose
    /// futures have not been polled since.
    pub slots: usize,
    /// Send requests outstanding that a later completion is not needed for.
    pub sends: usize,
    /// Unsignaled send requests that wait for a later signaled one to be posted. Not a leak: a bounded few a
    /// connection.
    pub unsignaled: usize,
    /// Receive requests posted.
    pub receives: usize,
    /// Slots that guard memory.
    pub guards: usize,
    /// Send requests that were ever posted to a queue pair that was known to be in error: they are flushed, and nobody need have lost
    /// sight of their outcome.
    pub in_vain: u64,
}

/// The golden ratio's fraction, as 64 bits: multiples of it differ in all of them.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// One of the node's adapters, and what belongs to it alone.
struct Adapter<V: Verbs> {
    ctx: V::Context,
    channel: RefCell<Option<V::Channel>>,
    routes: RefCell<Routes<V>>,
}

struct Inner<V: Verbs> {
    rails: Vec<Adapter<V>>,
    host: V::Host,
    config: RtConfig,
    executor: Executor,
    timers: RefCell<Timers>,
    requests: RefCell<Requests<V>>,
    cqs: RefCell<Cqs<V>>,
    /// Completions just polled; kept for its allocation.
    batch: RefCell<Vec<WorkCompletion>>,
    /// Until when the node looks before it arms, since it last took a completion.
    spins: Cell<Option<Nanos>>,
    /// The last step found nothing to do and said so; the next one arms.
    arming: Cell<bool>,
    /// A poll has found nothing since the queues were armed last.
    looked: Cell<bool>,
    /// Steps since queues that only listen were looked at.
    unheard: Cell<u32>,
    /// How many identities were given.
    identities: Cell<u64>,
    closed: Cell<bool>,
    fatal: Cell<Option<VerbsError>>,
    processors: Processors,
    labels: Labels,
}

/// The runtime of one node. Clones are the same runtime.
///
/// A node may have several adapters, its **rails**. They share the executor, the timers and the step. Each has its own
/// queue pairs, regions, completion queues, connections and events, which do not mix. A handle is that of one rail
/// ([`Rt::rail`]): what it makes, and what it hears, belongs to that rail.
pub struct Rt<V: Verbs> {
    inner: Rc<Inner<V>>,
    rail: u8,
}

impl<V: Verbs> Clone for Rt<V> {
    fn clone(&self) -> Self {
        Rt { inner: Rc::clone(&self.inner), rail: self.rail }
    }
}

impl<V: Verbs> Rt<V> {
    /// A runtime on an open device.
    pub fn new(ctx: &V::Context, config: RtConfig) -> Result<Rt<V>, RtError> {
        Rt::over(std::slice::from_ref(ctx), config)
    }

    /// A runtime on several open devices of one node, its rails: the first is rail 0, whose handle this is. At most 255.
    pub fn over(contexts: &[V::Context], config: RtConfig) -> Result<Rt<V>, RtError> {
        for (what, number) in [
            ("cqe", u64::from(config.cqe)),
            ("poll_batch", config.poll_batch as u64),
            ("max_rounds", u64::from(config.max_rounds)),
            ("the number of devices", contexts.len() as u64),
        ] {
            if number == 0 {
                return Err(RtError::Zero(what));
            }
        }
        let adapter = |ctx: &V::Context| {
            let channel = match config.wait {
                Wait::Notify => Some(ctx.create_channel()?),
                Wait::Poll => None,
            };
            Ok(Adapter {
                ctx: ctx.clone(),
                channel: RefCell::new(channel),
                routes: RefCell::new(Routes::new()),
            })
        };
        let inner = Inner {
            rails: contexts
                .iter()
                .take(usize::from(u8::MAX))
                .map(adapter)
                .collect::<Result<_, VerbsError>>()?,
            host: contexts[0].host(),
            config,
            executor: Executor::default(),
            timers: RefCell::default(),
            requests: RefCell::default(),
            cqs: RefCell::new(Cqs::new()),
            batch: RefCell::default(),
            spins: Cell::new(None),
            arming: Cell::new(false),
            looked: Cell::new(true),
            identities: Cell::default(),
            unheard: Cell::new(0),
            closed: Cell::new(false),
            fatal: Cell::new(None),
            processors: Processors::default(),
            labels: Labels::default(),
        };
        Ok(Rt { inner: Rc::new(inner), rail: 0 })
    }

    /// How many rails the node has.
    pub fn rails(&self) -> u8 {
        self.inner.rails.len() as u8
    }

    /// The same runtime's handle of a rail, if there is one of this number, from 0.
    pub fn rail(&self, rail: u8) -> Option<Rt<V>> {
        (rail < self.rails()).then(|| Rt { inner: Rc::clone(&self.inner), rail })
    }

    /// Which rail this handle is of.
    pub fn on(&self) -> u8 {
        self.rail
    }

    fn adapter(&self) -> &Adapter<V> {
        &self.inner.rails[usize::from(self.rail)]
    }

    /// What a driver steps. One program a runtime; dropping it shuts the runtime down.
    pub fn program(&self) -> Program<V> {
        Program::new(self.clone())
    }

    /// The open device of this handle's rail.
    pub fn context(&self) -> &V::Context {
        &self.adapter().ctx
    }

    /// Starts a task. It runs when its turn comes, not within this call.
    pub fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
        self.inner.executor.spawn(future)
    }

    /// The node's clock.
    pub fn now(&self) -> Nanos {
        self.inner.host.now()
    }

    /// A random word; in simulation, from the run's only source of nondeterminism. In explored worlds it is 0, on each node.
    pub fn random(&self) -> u64 {
        self.inner.host.random()
    }

    /// A number other than zero that stands for something which nothing else is to be taken for: a random one, and never one that this
    /// runtime has given before, also where random words come again, as they do in worlds: there two nodes have the same ones.
    pub fn identity(&self) -> u64 {
        let nth = self.inner.identities.replace(self.inner.identities.get() + 1);
        // Odd, so that no two products are the same.
        (self.random() ^ nth.wrapping_mul(SPREAD)) | 1
    }

    /// Charges the processor for work; see [`Host::spend`].
    pub fn spend(&self, work: Work) {
        self.inner.processors.enters(work);
        self.inner.host.spend(work);
    }

    /// How many processors the node has, for programs that compute in simulation. Default: 1.
    pub fn set_processors(&self, number: u32) {
        self.inner.processors.set(number);
    }

    /// How many processes of others compute on the node all the time, in simulation. Default: 0.
    pub fn set_load(&self, processes: u32) {
        self.inner.processors.set_load(processes);
    }

    /// In which context the node takes in what has come, for simulations. Default: as soon as it is woken.
    pub fn set_receives(&self, receives: Receives) {
        self.inner.processors.set_receives(receives);
    }

    /// A thread of a simulation expects an answer and has nothing else to do, until the guard is dropped: see [`Receives::Polling`].
    pub fn expects(&self) -> impl Drop + '_ {
        self.inner.processors.expects()
    }

    /// Computes what takes this long on a processor of its own; for simulations. Other tasks go on beside it, and if no processor
    /// is idle, what the runtime does for them takes its time out of this.
    pub async fn compute(&self, work: Nanos) {
        let processors = &self.inner.processors;
        processors.pass(self.now(), 1);
        let computing = processors.begin(work);
        while let Some(left) = computing.left() {
            self.sleep(left).await;
            processors.pass(self.now(), 1);
        }
    }

    /// Waits for a span of time.
    pub fn sleep(&self, span: Nanos) -> Sleep<V> {
        self.sleep_until(self.now() + span)
    }

    /// Waits for a point in time. [`Nanos::MAX`] never comes.
    pub fn sleep_until(&self, at: Nanos) -> Sleep<V> {
        Sleep::new(self.clone(), at)
    }

    /// Awaits a future until a point in time, then drops it. Whatever it had posted goes on; see
    /// [`OpError`](crate::transport::OpError) for what that means.
    pub fn deadline<F: Future>(&self, at: Nanos, future: F) -> Timed<V, F> {
        Timed::new(self.sleep_until(at), future)
    }

    /// Awaits a future for so long at most, from the first look at it that finds nothing; then it is dropped, as behind a
    /// [deadline](Rt::deadline). Who need not wait has no need of a timer, nor of a look at the clock, and nothing is allocated.
    pub async fn within<F: Future>(&self, most: Nanos, future: F) -> Result<F::Output, Elapsed> {
        let (mut future, mut over) = (pin!(future), None);
        poll_fn(|cx| {
            // The result first, as of a deadline.
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(value));
            }
            let over = over.get_or_insert_with(|| self.sleep(most));
            Pin::new(over).poll(cx).map(|()| Err(Elapsed))
        })
        .await
    }

    /// Lets every other task run, and the world move, before this one goes on. Who looks in a loop for what others do
    /// [sleeps](Rt::sleep) between two looks instead: in explored worlds there is an order in which the next look always comes first.
    pub fn yield_now(&self) -> Yield<V> {
        Yield::new(self.clone())
    }

    /// Ready when no other task is ready to run: for work that others need not wait for. The task is woken as
    /// soon as that is so, or once it has never been so for long.
    pub(crate) fn poll_idle(&self, cx: &mut std::task::Context<'_>) -> Poll<()> {
        if !self.inner.executor.is_busy() {
            return Poll::Ready(());
        }
        self.inner.executor.wake_when_idle(cx.waker());
        Poll::Pending
    }

    /// Waits until all that has come by now was looked at: the completion queues were found empty and no other task is ready to run, or as
    /// much was taken out of them as they hold.
    pub(crate) async fn idle(&self) {
        // Of which queues there is news is asked at the begin of a step.
        self.yield_now().await;
        let mut asked = false;
        std::future::poll_fn(|cx| {
            if std::mem::replace(&mut asked, true) {
                return Poll::Ready(());
            }
            self.inner.executor.wake_when_idle(cx.waker());
            Poll::Pending
        })
        .await;
    }

    /// A queue pair of this rail for a reliable connection, in state Reset, on this runtime's completion queues.
    pub fn create_qp(&self, pd: &V::Pd, caps: QpCaps) -> Result<QpHandle<V>, VerbsError> {
        QpHandle::create(self, pd, caps)
    }

    /// A receive queue of this rail that many queue pairs draw from, for so many buffers. Needs
    /// [`Caps::SRQ`](weft_verbs::Caps::SRQ).
    pub fn create_shared_receives(&self, pd: &V::Pd, depth: u32) -> Result<SharedReceives<V>, VerbsError> {
        SharedReceives::create(self, pd, depth)
    }

    /// As [`Rt::create_qp`], with receives that are drawn from a shared queue: it posts none of its own. Whoever hears
    /// [`AsyncEvent::LastWqe`] of it says so by [`QpHandle::draws_no_more`].
    pub fn create_drawing_qp(
        &self,
        pd: &V::Pd,
        caps: QpCaps,
        from: &SharedReceives<V>,
    ) -> Result<QpHandle<V>, VerbsError> {
        QpHandle::create_drawing(self, pd, caps, Some(from))
    }

    /// Makes connections to services of other nodes on this rail, and takes none.
    pub fn connector(&self) -> Result<(Connector<V>, Mailbox<CmEvent>), VerbsError> {
        Connector::outgoing(self)
    }

    /// Listens for connections to a service on this rail, and makes them.
    pub fn listen(&self, service: Service) -> Result<(Connector<V>, Mailbox<CmEvent>), VerbsError> {
        Connector::listen(self, service)
    }

    /// The asynchronous events of this rail's device from now on.
    pub fn async_events(&self) -> Mailbox<AsyncEvent> {
        self.adapter().routes.borrow_mut().watch()
    }

    /// Ends the node: every task is dropped, everything posted is given up, and the program's next step
    /// answers [`Park::Done`](weft_verbs::Park::Done).
    pub fn shutdown(&self) {
        if self.inner.closed.replace(true) {
            return;
        }
        self.inner.executor.close();
        let wakers = self.inner.timers.borrow_mut().clear();
        drop(wakers);
        self.inner.rails.iter().for_each(|adapter| adapter.routes.borrow_mut().clear());
        self.inner.cqs.borrow_mut().clear();
        self.inner.rails.iter().for_each(|adapter| drop(adapter.channel.take()));
    }

    /// Whether the runtime was shut down.
    pub fn is_closed(&self) -> bool {
        self.inner.closed.get()
    }

    /// Says what a range of a region is, in logs and drawings, for as long as the guard is there.
    pub fn label(&self, region: &V::Mr, range: std::ops::Range<usize>, label: Label) -> LabelGuard {
        self.inner.labels.add(region, range.start, range.len(), label)
    }

    /// What is at an address of this node's memory, if somebody has said it.
    pub fn label_at(&self, address: u64) -> Option<Labelled> {
        self.inner.labels.at(address)
    }

    /// Why the runtime shut itself down: the first device, which has the node's memory, refused to be polled or armed, or said that it
    /// failed ([`AsyncEvent::DeviceFatal`]). Without another one a node goes on: if that refuses, it counts as having said so.
    pub fn fatal(&self) -> Option<VerbsError> {
        self.inner.fatal.get()
    }

    /// What the runtime holds now.
    pub fn audit(&self) -> RtAudit {
        let requests = self.inner.requests.borrow();
        let (sends, unsignaled, receives) = requests.ledgers.totals();
        RtAudit {
            tasks: self.inner.executor.alive(),
            timers: self.inner.timers.borrow().alive(),
            slots: requests.slots.in_use(),
            sends: sends - unsignaled,
            unsignaled,
            receives,
            guards: requests.slots.guards(),
            in_vain: requests.ledgers.in_vain(),
        }
    }

    /// Arms the completion queues that are not armed. The program does so by itself before it waits; this is for
    /// drivers that do more. Whoever arms polls once more afterwards (IBA 11.4.2.2), which is to step the program.
    pub fn arm(&self) -> Result<(), VerbsError> {
        self.inner.arm()
    }

    fn reserve_cq(&self, cqe: u32) -> Result<(usize, V::Cq), VerbsError> {
        let adapter = self.adapter();
        let channel = adapter.channel.borrow();
        let size = self.inner.config.cqe;
        self.inner.cqs.borrow_mut().reserve(self.rail, &adapter.ctx, channel.as_ref(), size, cqe)
    }

    fn release_cq(&self, index: usize, cqe: u32, rested: bool) {
        self.inner.cqs.borrow_mut().release(index, cqe, rested);
    }
}

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;
