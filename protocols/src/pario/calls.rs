//! Calls that a node has made of servers and that have not been answered.
//!
//! A call's number is not one of an earlier life of the node: an answer to that life may reach this one.

use super::buffer::Buffer;
use super::error::Refusal;
use super::messages::{Answer, Request};
use super::slots::Slot;
use super::wire::Wire;
use super::{Distribution, FsError, FsStats, Handle};
use crate::rt::places::{Place, Places};
use crate::rt::sync::{Changed, OneshotReceiver, OneshotSender, Signal, oneshot};
use crate::transport::{Hold, Rank};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_verbs::{Nanos, Verbs};

/// What a server answers, or why it never will.
pub(super) type Answered = Result<Answer, FsError>;

/// What a call keeps until it is answered, whether or not somebody still waits: servers may use it.
pub(super) struct Held<V: Verbs> {
    pub buffer: Option<Buffer<V>>,
    pub file: Option<Rc<InUse>>,
    /// What takes the file that it opens.
    pub opening: Option<Rc<dyn Opens>>,
    /// Where the answer is kept until this is given back.
    pub _slot: Option<Rc<Slot>>,
}

impl<V: Verbs> Held<V> {
    pub(super) const NOTHING: Held<V> = Held { buffer: None, file: None, opening: None, _slot: None };
}

/// What takes a file as its home says that it is open, whether or not somebody still waits for that.
pub(super) trait Opens {
    /// It is open, in this life of its home.
    fn opened(&self, handle: Handle, layout: Distribution, epoch: u64);
}

/// How many calls of a file are not answered, and what of it may be lost.
#[derive(Default)]
pub(super) struct InUse {
    calls: Cell<u32>,
    fewer: Signal,
    /// Parts to which writes were answered that no sync has covered: the oldest epoch of the server in which one was.
    pub unsynced: RefCell<BTreeMap<u16, u64>>,
    /// How often it had been cut, as its home said last: in which of the home's lives, and how often in that.
    pub cuts: Cell<(u64, u64)>,
}

impl InUse {
    /// Waits until no call is open.
    pub(super) async fn idle(&self) {
        self.fewer.until(|| self.calls.get() == 0).await;
    }
}

struct Open<V: Verbs> {
    server: Rank,
    /// Its place among the calls of that server; none where others wait for it.
    place: Option<Place>,
    since: Nanos,
    /// To which life of the server it was sent, once it is.
    life: Option<u32>,
    tell: OneshotSender<Answered>,
    held: Held<V>,
    /// A guest is not to be forgotten before it is answered.
    _hold: Option<Hold<V>>,
}

impl<V: Verbs> Open<V> {
    fn end(self, answer: Answered, fewer: &Signal) {
        let Open { tell, held, place, .. } = self;
        if let Some(file) = &held.file {
            file.calls.set(file.calls.get() - 1);
            file.fewer.notify();
        }
        if let (Some(opening), Ok(Answer::Opened { handle, layout, epoch })) = (&held.opening, &answer) {
            opening.opened(*handle, *layout, *epoch);
        }
        drop((held, place));
        fewer.notify();
        // Nobody waits for it any more if the call was dropped.
        drop(tell.send(answer));
    }
}

/// A call for which there is no room yet. One that is dropped then has not been made.
struct Unsent<'a, V: Verbs> {
    calls: &'a Calls<V>,
    id: u64,
    is_sent: bool,
}

impl<V: Verbs> Drop for Unsent<'_, V> {
    fn drop(&mut self) {
        if !self.is_sent {
            self.calls.answered(self.id, Err(FsError::Unknown));
        }
    }
}

/// The number of the first call of an incarnation: the whole of it, but for the highest bit, which is one of the rank where it is not a
/// guest's. So two lives differ by as much as their incarnations, and no call has the number that means that nobody asked
/// ([`UNASKED`](super::wire::UNASKED)).
const fn first(incarnation: u64) -> u64 {
    incarnation & u64::MAX >> 1
}

/// The open calls of a node.
pub(super) struct Calls<V: Verbs> {
    /// Open calls of one server, at most, beside those that wait for others there.
    window: u32,
    open: RefCell<BTreeMap<u64, Open<V>>>,
    /// Places for calls of each server, and for those that [wait for others](Request::waits_for_others) there.
    places: RefCell<BTreeMap<(Rank, bool), Places>>,
    next: Cell<u64>,
    fewer: Signal,
    more: Signal,
}

impl<V: Verbs> Calls<V> {
    /// Of a node in some incarnation.
    pub(super) fn new(window: u32, incarnation: u64) -> Calls<V> {
        let (open, places, next) = (RefCell::default(), RefCell::default(), Cell::new(first(incarnation)));
        Calls { window, open, places, next, fewer: Signal::new(), more: Signal::new() }
    }

    /// How many are not answered.
    pub(super) fn len(&self) -> usize {
        self.open.borrow().len()
    }

    /// A place among the calls of a server, as soon as one is free. Those that wait for other servers there have places of their own.
    async fn place(&self, server: Rank, waits_for_others: bool) -> Place {
        let of = (server, waits_for_others);
        let place = self.places.borrow_mut().entry(of).or_insert_with(|| Places::new(self.window)).take();
        place.await
    }

    /// Asks a server as soon as it has few enough calls of this node; at once for what [others wait for](Request::is_waited_for). What is
    /// held is given back with the answer.
    pub(super) async fn ask(
        &self,
        (now, wire): (impl Fn() -> Nanos, &Wire<V>),
        server: Rank,
        request: Request,
        held: Held<V>,
        stats: &RefCell<FsStats>,
    ) -> Result<OneshotReceiver<Answered>, FsError> {
        let place = match request.is_waited_for() {
            true => None,
            false => Some(self.place(server, request.waits_for_others()).await),
        };
        let (tell, told) = oneshot();
        let id = self.next.replace(self.next.get() + 1);
        if let Some(file) = &held.file {
            file.calls.set(file.calls.get() + 1);
        }
        let _hold = wire.hold(server);
        self.open
            .borrow_mut()
            .insert(id, Open { server, place, since: now(), life: None, tell, held, _hold });
        self.more.notify();
        stats.borrow_mut().asked += 1;
        let mut unsent = Unsent { calls: self, id, is_sent: false };
        wire.ask(server, id, request).await?;
        unsent.is_sent = true;
        let life = wire.life_of(server);
        self.open.borrow_mut().get_mut(&id).into_iter().for_each(|open| open.life = Some(life));
        Ok(told)
    }

    /// Whether a server owes an answer to a call.
    pub(super) fn is_open(&self, id: u64, server: Rank) -> bool {
        self.open.borrow().get(&id).is_some_and(|open| open.server == server)
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

    /// Since when each server has owed an answer.
    pub(super) fn owed(&self) -> BTreeMap<Rank, Nanos> {
        let mut owed = BTreeMap::new();
        for Open { server, since, .. } in self.open.borrow().values() {
            owed.entry(*server).or_insert(*since);
        }
        owed
    }

    /// Waits for one more call.
    pub(super) fn one_more(&self) -> Changed {
        self.more.changed()
    }

    /// Has whoever waits for one more call look again.
    pub(super) fn look_again(&self) {
        self.more.notify();
    }

    /// An answer has come; whether anything was asked.
    pub(super) fn answered(&self, id: u64, answer: Answered) -> bool {
        let open = self.open.borrow_mut().remove(&id);
        open.map(|open| open.end(answer, &self.fewer)).is_some()
    }

    /// A server is in a new life, and answers nothing of what an earlier one was asked. The old connection is fenced. What was sent to
    /// the new one before this node was told is its to answer, and what waits for room will be.
    pub(super) fn server_reset(&self, server: Rank, life: u32) {
        let of = |open: &Open<V>| open.server == server && open.life.is_some_and(|sent| sent < life);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_lives_whose_incarnations_differ_in_one_bit_number_their_calls_from_different_places() {
        let life = 7 << 44 | 2;
        for bit in 0..44 {
            assert_ne!(first(life), first(life ^ 1 << bit), "bit {bit}");
        }
        assert_eq!(first(u64::MAX), u64::MAX >> 1, "2^63 calls come before the one that nobody asked");
    }
}
