//! Calls that a node has made of servers and that have not been answered.

use super::buffer::Buffer;
use super::error::Refusal;
use super::messages::{Answer, Request};
use super::wire::Wire;
use super::{FsError, FsStats};
use crate::rt::sync::{OneshotReceiver, OneshotSender, Signal, oneshot};
use crate::transport::Rank;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_verbs::Verbs;

/// What a server answers, or why it never will.
pub(super) type Answered = Result<Answer, FsError>;

/// What a call keeps until it is answered, whether or not somebody still waits: servers may use it.
pub(super) struct Held<V: Verbs> {
    pub buffer: Option<Buffer<V>>,
    pub file: Option<Rc<InUse>>,
}

impl<V: Verbs> Held<V> {
    pub(super) const NOTHING: Held<V> = Held { buffer: None, file: None };
}

/// How many calls of a file are not answered, and what of it may be lost.
#[derive(Default)]
pub(super) struct InUse {
    calls: Cell<u32>,
    fewer: Signal,
    /// Parts to which writes were answered that no sync has covered: the oldest epoch of the server in which one was.
    pub unsynced: RefCell<BTreeMap<u16, u64>>,
}

impl InUse {
    /// Waits until no call is open.
    pub(super) async fn idle(&self) {
        self.fewer.until(|| self.calls.get() == 0).await;
    }
}

struct Open<V: Verbs> {
    server: Rank,
    tell: OneshotSender<Answered>,
    held: Held<V>,
}

impl<V: Verbs> Open<V> {
    fn end(self, answer: Answered, fewer: &Signal) {
        let Open { tell, held, .. } = self;
        if let Some(file) = &held.file {
            file.calls.set(file.calls.get() - 1);
            file.fewer.notify();
        }
        drop(held);
        fewer.notify();
        // Nobody waits for it any more if the call was dropped.
        drop(tell.send(answer));
    }
}

/// The open calls of a node.
pub(super) struct Calls<V: Verbs> {
    /// Open calls of one server, at most.
    window: u32,
    open: RefCell<BTreeMap<u64, Open<V>>>,
    next: Cell<u64>,
    fewer: Signal,
}

impl<V: Verbs> Calls<V> {
    pub(super) fn new(window: u32) -> Calls<V> {
        let (open, next, fewer) = (RefCell::default(), Cell::new(0), Signal::new());
        Calls { window, open, next, fewer }
    }

    /// How many are not answered.
    pub(super) fn len(&self) -> usize {
        self.open.borrow().len()
    }

    fn has_room(&self, server: Rank) -> bool {
        self.open.borrow().values().filter(|open| open.server == server).count() < self.window as usize
    }

    /// Asks a server as soon as it has few enough calls of this node. What is held is given back with the answer.
    pub(super) async fn ask(
        &self,
        wire: &Wire<V>,
        server: Rank,
        request: Request,
        held: Held<V>,
        stats: &RefCell<FsStats>,
    ) -> Result<OneshotReceiver<Answered>, FsError> {
        self.fewer.until(|| self.has_room(server)).await;
        let (tell, told) = oneshot();
        let id = self.next.replace(self.next.get() + 1);
        if let Some(file) = &held.file {
            file.calls.set(file.calls.get() + 1);
        }
        self.open.borrow_mut().insert(id, Open { server, tell, held });
        stats.borrow_mut().asked += 1;
        match wire.ask(server, id, request).await {
            Ok(()) => Ok(told),
            // It was not sent, so nobody has the memory.
            Err(why) => {
                self.answered(id, Ok(Answer::Done));
                Err(why)
            }
        }
    }

    /// The memory of an open call of a server, if it offered any.
    pub(super) fn buffer_of(&self, id: u64, server: Rank) -> Option<Buffer<V>> {
        let open = self.open.borrow();
        open.get(&id).filter(|open| open.server == server)?.held.buffer.as_ref().map(Buffer::held)
    }

    /// Waits until a call has ended.
    pub(super) async fn ended(&self, id: u64) {
        self.fewer.until(|| !self.open.borrow().contains_key(&id)).await;
    }

    /// An answer has come; whether anything was asked.
    pub(super) fn answered(&self, id: u64, answer: Answered) -> bool {
        let open = self.open.borrow_mut().remove(&id);
        open.map(|open| open.end(answer, &self.fewer)).is_some()
    }

    /// A server began anew, and answers nothing of what it was asked before. Its old connection is fenced.
    pub(super) fn server_reset(&self, server: Rank) {
        let of = |open: &Open<V>| open.server == server;
        let gone: Vec<u64> =
            self.open.borrow().iter().filter(|(_, open)| of(open)).map(|(id, _)| *id).collect();
        for id in gone {
            self.answered(id, Err(FsError::Unknown));
        }
    }
}

/// Waits for an answer.
pub(super) async fn answer(told: OneshotReceiver<Answered>) -> Answered {
    match told.await.map_err(|_| FsError::Closed)?? {
        Answer::Refused(refusal) => Err(Refusal::into(refusal)),
        answer => Ok(answer),
    }
}
