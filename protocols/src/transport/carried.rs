//! One-sided operations on memory of another rail than the one that the connection stands on: messages carry them, and the
//! owner's own adapter executes them.
//!
//! A node's memory is memory of its rail 0. Another adapter could be given a key to the same bytes, but two adapters'
//! atomics are not atomic among each other (IBA 9.4.5), and while one peer has lost rail 0, others still use it. So keys
//! are never exchanged for those of another rail. The owner executes the operation over its connection to itself, which
//! needs no cable, and answers with what its adapter answered.
//!
//! Atomics are carried, too, where the owner's adapter has none; its [processor](super::stand_in) executes them.
//!
//! An operation that is carried is in doubt only if its owner restarts: the session carries request and answer exactly
//! once, and an owner that loses the outcome of its own operation fixes it before it says so. Between operations that are carried
//! and messages there is no order but that of waiting for an operation's end.

use super::mesh::{BULK, Mesh, Shared};
use super::operations::{OpenList, refused, too_short};
use super::peer::{Life, Peer};
use super::stand_in::Atomic;
use super::{Channel, Lost, NotExecuted, OpError, Planted};
use crate::rt::{BufferGuard, WaitPoint};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use weft_verbs::{AccessFlags, Nanos, ProtectionDomain, RemoteSlice, Result, SendOp, Verbs, VerbsError};

/// The channel of requests and answers, where nodes have several rails.
pub(super) const CARRIED: Channel = Channel(255);

/// The rail of every node's memory.
pub(super) const MEMORY: u8 = 0;

/// Bytes before the content of a request: kind 1, zero 7, number 8, range 16.
const HEAD: usize = 32;

/// How many parts of an operation that one message cannot carry are asked for at a time, so that a part does not wait for
/// the round trip of the one before it.
const AHEAD: usize = 16;

/// How long an answer waits, or a look at a word, for which there is no memory. A peer waits for it: less than what is said unasked.
pub(super) const BEFORE_IT_IS_TRIED_AGAIN: Nanos = Nanos::from_micros(100);

/// The shortest largest message that can carry every operation.
pub(super) const LEAST_CARRIED: usize = 64;

/// What an owner is asked to execute, or has executed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Carriage {
    Read { at: RemoteSlice },
    Write { at: RemoteSlice, bytes: Vec<u8> },
    Atomic { at: RemoteSlice, atomic: Atomic },
    Answer(Answer),
}

/// What became of a carried operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Answer {
    /// It was executed; what it read.
    Done(Vec<u8>),
    /// It was not executed.
    Refused,
    /// It may have been executed, and will not be any more.
    Lost,
}

impl Carriage {
    fn encode(&self, number: u64) -> Vec<u8> {
        let none = RemoteSlice::default();
        let (kind, at, words, bytes): (u8, RemoteSlice, &[u64], &[u8]) = match self {
            Carriage::Read { at } => (1, *at, &[], &[]),
            Carriage::Write { at, bytes } => (2, *at, &[], bytes),
            Carriage::Atomic { at, atomic: Atomic::CompareSwap { compare, swap } } => {
                (3, *at, &[*compare, *swap], &[])
            }
            Carriage::Atomic { at, atomic: Atomic::FetchAdd { add } } => (4, *at, &[*add], &[]),
            Carriage::Answer(Answer::Done(bytes)) => (5, none, &[], bytes),
            Carriage::Answer(Answer::Refused) => (6, none, &[], &[]),
            Carriage::Answer(Answer::Lost) => (7, none, &[], &[]),
        };
        let mut b = vec![0; HEAD];
        b[0] = kind;
        b[8..16].copy_from_slice(&number.to_le_bytes());
        b[16..32].copy_from_slice(&at.to_bytes());
        words.iter().for_each(|word| b.extend(word.to_le_bytes()));
        b.extend(bytes);
        b
    }

    fn decode(b: &[u8]) -> Option<(u64, Carriage)> {
        let (head, rest) = b.split_first_chunk::<HEAD>()?;
        let number = u64::from_le_bytes(head[8..16].try_into().ok()?);
        let at = RemoteSlice::from_bytes(head[16..32].try_into().ok()?);
        let word = |n: usize| Some(u64::from_le_bytes(rest.get(8 * n..8 * n + 8)?.try_into().ok()?));
        let what = match head[0] {
            1 => Carriage::Read { at },
            2 => Carriage::Write { at, bytes: rest.to_vec() },
            3 => Carriage::Atomic { at, atomic: Atomic::CompareSwap { compare: word(0)?, swap: word(1)? } },
            4 => Carriage::Atomic { at, atomic: Atomic::FetchAdd { add: word(0)? } },
            5 => Carriage::Answer(Answer::Done(rest.to_vec())),
            6 => Carriage::Answer(Answer::Refused),
            7 => Carriage::Answer(Answer::Lost),
            _ => return None,
        };
        Some((number, what))
    }
}

/// An operation that was asked for: its answer once that is there, and who waits for it.
#[derive(Default)]
struct Asked {
    answer: Option<Answer>,
    waker: Option<Waker>,
    /// Nobody waits any more. It is kept all the same until its outcome is fixed.
    dropped: bool,
}

/// The operations that are carried to one peer.
#[derive(Default)]
pub(super) struct Carried {
    next: u64,
    asked: BTreeMap<u64, Asked>,
}

impl Carried {
    /// Whether an answer is owed.
    pub(super) fn awaits_answer(&self) -> bool {
        self.asked.values().any(|asked| asked.answer.is_none())
    }

    /// Operations whose answer is owed or not looked at.
    pub(super) fn len(&self) -> usize {
        self.asked.len()
    }

    /// The number of the next one.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Whether every operation before this number has a fixed outcome.
    pub(super) fn are_fixed_before(&self, number: u64) -> bool {
        !self.asked.range(..number).any(|(_, asked)| asked.answer.is_none())
    }

    fn begin(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.asked.insert(number, Asked::default());
        number
    }

    fn answered(&mut self, number: u64, answer: Answer) {
        let Some(asked) = self.asked.get_mut(&number).filter(|asked| asked.answer.is_none()) else { return };
        if asked.dropped {
            self.asked.remove(&number);
            return;
        }
        asked.answer = Some(answer);
        if let Some(waker) = asked.waker.take() {
            waker.wake();
        }
    }

    /// The peer's incarnation that was asked is gone, and its memory with it.
    pub(super) fn peer_restarted(&mut self) {
        let numbers: Vec<u64> = self.asked.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.answered(number, Answer::Lost));
    }

    /// Whoever waits looks again.
    pub(super) fn wake_all(&self) {
        self.asked.values().filter_map(|asked| asked.waker.as_ref()).for_each(Waker::wake_by_ref);
    }

    fn poll(&mut self, number: u64, cx: &Context<'_>) -> Poll<Answer> {
        let Some(asked) = self.asked.get_mut(&number) else { return Poll::Ready(Answer::Lost) };
        if let Some(answer) = asked.answer.take() {
            self.asked.remove(&number);
            return Poll::Ready(answer);
        }
        asked.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn dropped(&mut self, number: u64) {
        match self.asked.get_mut(&number) {
            Some(asked) if asked.answer.is_none() => asked.dropped = true,
            _ => drop(self.asked.remove(&number)),
        }
    }
}

impl Hash for Carried {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.next.hash(to);
        for (number, asked) in &self.asked {
            (number, &asked.answer, asked.dropped).hash(to);
        }
    }
}

/// An operation's place among those that are carried to a peer, until its answer or until nobody waits for it.
struct Waiting<'a, V: Verbs> {
    shared: &'a Shared<V>,
    index: usize,
    number: u64,
}

impl<V: Verbs> Waiting<'_, V> {
    /// Waits for the answer.
    async fn answer(self) -> std::result::Result<Vec<u8>, OpError> {
        let Waiting { shared, index, number } = &self;
        let answer = poll_fn(|cx| {
            if shared.closed.get() {
                return Poll::Ready(Answer::Lost);
            }
            shared.with_peer(*index, |peer| peer.carried.poll(*number, cx))
        })
        .at(("carried", index, number))
        .await;
        let peer = shared.rank_at(*index);
        match answer {
            Answer::Done(bytes) => Ok(bytes),
            Answer::Refused => Err(OpError::NotExecuted(NotExecuted::AtPeer(peer))),
            Answer::Lost => Err(OpError::Unknown(Lost::AtPeer(peer))),
        }
    }
}

impl<V: Verbs> Drop for Waiting<'_, V> {
    fn drop(&mut self) {
        self.shared.with_peer(self.index, |peer| peer.carried.dropped(self.number));
    }
}

impl<V: Verbs> Mesh<V> {
    /// Has a peer, in that life of its, execute an operation on its memory. What it reads is put into the guard's memory, as
    /// the adapter would.
    pub(super) async fn carry(
        &self,
        to: (usize, Life),
        op: SendOp<'static, V>,
        guard: BufferGuard<V>,
    ) -> std::result::Result<BufferGuard<V>, OpError> {
        let shared = &*self.shared;
        shared.stats.borrow_mut().carried += 1;
        let most = (shared.config.max_message as usize - HEAD).min(BULK as usize) as u32;
        if let Some((at, atomic)) = Atomic::of(&op) {
            let old = self.begin(to, &Carriage::Atomic { at, atomic })?.answer().await?;
            guard.write_at(0, &old).map_err(refused)?;
            return Ok(guard);
        }
        // A part may be asked for long after the first one: who resolves what was asked for before waits for all of them.
        let _open = OpenList::new(shared, to.0);
        match op {
            SendOp::Read { from } => self.carry_read(to, from, &guard, most).await?,
            SendOp::Write { to: at, imm: None } => self.carry_write(to, at, &guard, most).await?,
            // Atomics are above, and nothing else is an operation.
            SendOp::CompareSwap { .. }
            | SendOp::FetchAdd { .. }
            | SendOp::Write { imm: Some(_), .. }
            | SendOp::Send { .. }
            | SendOp::SendTo { .. } => {
                return Err(refused(VerbsError::Invalid("messages carry one-sided operations only")));
            }
        }
        Ok(guard)
    }

    /// Reads in parts of at most so many bytes, several at a time.
    async fn carry_read(
        &self,
        to: (usize, Life),
        from: RemoteSlice,
        guard: &BufferGuard<V>,
        most: u32,
    ) -> std::result::Result<(), OpError> {
        let mut asked = VecDeque::with_capacity(AHEAD);
        let mut parts = (0..guard.len()).step_by(most as usize);
        loop {
            while asked.len() < AHEAD
                && let Some(first) = parts.next()
            {
                let end = guard.len().min(first.saturating_add(most));
                let at = from.slice(first..end).ok_or(too_short(guard.len() as usize, from))?;
                asked.push_back((first, self.begin(to, &Carriage::Read { at })?));
            }
            let Some((first, waiting)) = asked.pop_front() else { return Ok(()) };
            guard.write_at(first, &waiting.answer().await?).map_err(refused)?;
        }
    }

    /// Writes in parts of at most so many bytes, several at a time, and the last one alone: whoever watches the last byte of
    /// what an adapter writes finds the others there.
    async fn carry_write(
        &self,
        to: (usize, Life),
        range: RemoteSlice,
        guard: &BufferGuard<V>,
        most: u32,
    ) -> std::result::Result<(), OpError> {
        let mut asked: VecDeque<Waiting<'_, V>> = VecDeque::with_capacity(AHEAD);
        let (mut written, mut refusal) = (false, None);
        let mut first = 0;
        while refusal.is_none() && first < guard.len() || !asked.is_empty() {
            let end = guard.len().min(first.saturating_add(most));
            let allowed = if end == guard.len() { 1 } else { AHEAD };
            if refusal.is_none() && first < end && asked.len() < allowed {
                let mut bytes = vec![0; (end - first) as usize];
                guard.read_at(first, &mut bytes).map_err(refused)?;
                let at = range.slice(first..end).ok_or(too_short(guard.len() as usize, range));
                match at.and_then(|at| self.begin(to, &Carriage::Write { at, bytes })) {
                    Ok(waiting) => asked.push_back(waiting),
                    Err(why) => refusal = Some(why),
                }
                first = end;
            } else if let Some(waiting) = asked.pop_front() {
                match waiting.answer().await {
                    Ok(_) => written = true,
                    Err(why @ OpError::NotExecuted(_)) => refusal = Some(why),
                    Err(why) => return Err(why),
                }
            }
        }
        match refusal {
            Some(_) if written => Err(OpError::Unknown(Lost::AtPeer(self.shared.rank_at(to.0)))),
            Some(why) => Err(why),
            None => Ok(()),
        }
    }

    /// Asks a peer to execute an operation, unless it is not there any more in the life that is meant: a part of an operation may be
    /// asked for long after the one before it.
    fn begin(
        &self,
        (index, life): (usize, Life),
        what: &Carriage,
    ) -> std::result::Result<Waiting<'_, V>, OpError> {
        let shared = &*self.shared;
        shared.with_peer(index, |peer| {
            shared.must_be(index, peer, life).map_err(OpError::NotExecuted)?;
            let number = peer.carried.begin();
            shared.keep_message(index, peer, CARRIED, &what.encode(number)).map_err(|why| {
                peer.carried.answered(number, Answer::Refused);
                peer.carried.dropped(number);
                refused(why)
            })?;
            Ok(Waiting { shared, index, number })
        })
    }

    /// Executes a peer's atomic: the word's old value, as bytes.
    async fn atomic_for(
        &self,
        by: (usize, Life),
        at: RemoteSlice,
        atomic: Atomic,
    ) -> std::result::Result<Vec<u8>, OpError> {
        let old = match self.shared.has_atomics() {
            true => self.atomic(Some(by), self.me(), at, |at| atomic.request(at)).await?,
            false => self.by_processor(Some(by), at, atomic).await?,
        };
        Ok(old.to_ne_bytes().to_vec())
    }

    /// Executes what a peer asked for, over this node's connection to itself. What has an effect is not posted once that peer was expelled or
    /// has begun anew; of what was posted before, [`Shared::acts_no_more`] sees to the rest.
    async fn execute(&self, by: (usize, Life), what: Carriage) -> Answer {
        let me = self.me();
        let mut done = self.try_execute(by, &what).await;
        while done.as_ref().is_err_and(OpError::lacks_memory) && self.is_asked_by(by) {
            self.shared.rt.sleep(BEFORE_IT_IS_TRIED_AGAIN).at(()).await;
            done = self.try_execute(by, &what).await;
        }
        match done {
            Ok(bytes) => Answer::Done(bytes),
            Err(OpError::NotExecuted(_)) => Answer::Refused,
            Err(OpError::Unknown(_)) => {
                // Whoever is told that it is lost may look at once, and must find what stays.
                let _ = self.resolve_posted(me).await;
                Answer::Lost
            }
        }
    }

    async fn try_execute(&self, by: (usize, Life), what: &Carriage) -> std::result::Result<Vec<u8>, OpError> {
        let me = self.me();
        match what {
            Carriage::Read { at } => {
                // Nobody asks for more than an answer can carry.
                let most = self.shared.config.max_message as usize - HEAD;
                let mut bytes = vec![0; most.min(at.len as usize)];
                self.read(me, *at, &mut bytes).await.map(|()| bytes)
            }
            Carriage::Write { at, bytes } => {
                self.write_for(Some(by), me, *at, bytes).await.map(|()| Vec::new())
            }
            Carriage::Atomic { at, atomic } => self.atomic_for(by, *at, *atomic).await,
            Carriage::Answer(_) => Err(OpError::NotExecuted(NotExecuted::AtPeer(me))),
        }
    }

    /// Whether a peer in a life of its still waits for what it asked this node for.
    fn is_asked_by(&self, (index, life): (usize, Life)) -> bool {
        let shared = &self.shared;
        !shared.closed.get() && shared.with_peer(index, |peer| peer.still_is(life))
    }
}

/// A request or an answer arrived.
pub(super) fn arrived<V: Verbs>(shared: &Rc<Shared<V>>, index: usize, peer: &mut Peer<V>, bytes: &[u8]) {
    match Carriage::decode(bytes) {
        Some((number, Carriage::Answer(answer))) => {
            peer.carried.answered(number, answer);
            peer.wake_resolvers();
        }
        Some((number, what)) => {
            let (mesh, by) = (Mesh { shared: Rc::clone(shared) }, (index, peer.life()));
            drop(shared.rt.spawn(async move {
                let answer = mesh.execute(by, what).at(("executes", index, number)).await;
                let bytes = Carriage::Answer(answer).encode(number);
                while !mesh.shared.answers(by, &bytes) {
                    let pause = mesh.shared.rt.sleep(BEFORE_IT_IS_TRIED_AGAIN);
                    pause.at(("answers", index, &bytes)).await;
                }
            }));
        }
        None => shared.broken(index, peer),
    }
}

impl<V: Verbs> Shared<V> {
    /// Tells a peer in a life of its what became of what it asked for. False without memory for that: the session has the request
    /// and will not have it again, so that nobody would answer it if the answer were not kept.
    fn answers(&self, (index, life): (usize, Life), answer: &[u8]) -> bool {
        self.with_peer(index, |peer| {
            // Another incarnation of the peer has asked for nothing, and gives the same numbers. One that was expelled hears nothing.
            let is_over = self.closed.get() || !peer.still_is(life);
            is_over || self.keep_message(index, peer, CARRIED, answer).is_ok()
        })
    }

    /// Whether operations toward a peer are carried: its connection stands on another rail than its memory's.
    pub(super) fn carries(&self, peer: &Peer<V>) -> bool {
        peer.rail != MEMORY && !self.config.makes(Planted::OtherRailsKey)
    }
}

impl<V: Verbs> Shared<V> {
    /// For the mistake of posting on any rail: local memory that its adapter knows.
    pub(super) fn planted_guard(&self, index: usize, guard: BufferGuard<V>) -> Result<BufferGuard<V>> {
        let rail = self.with_peer(index, |peer| peer.rail);
        if rail == MEMORY || !self.config.makes(Planted::OtherRailsKey) {
            return Ok(guard);
        }
        let len = guard.len();
        let mr = self.rail(rail).pd.alloc_mr(len as usize, AccessFlags::LOCAL_WRITE)?;
        Ok(BufferGuard::Range { mr, at: 0, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(len: u32) -> RemoteSlice {
        RemoteSlice { addr: 1 << 44, len, rkey: 9 }
    }

    #[test]
    fn requests_and_answers_survive_the_wire_within_the_shortest_largest_message() {
        for what in [
            Carriage::Read { at: at(32) },
            Carriage::Write { at: at(3), bytes: vec![1, 2, 3] },
            Carriage::Atomic { at: at(8), atomic: Atomic::CompareSwap { compare: 1, swap: u64::MAX } },
            Carriage::Atomic { at: at(8), atomic: Atomic::FetchAdd { add: 7 } },
            Carriage::Answer(Answer::Done(vec![4; LEAST_CARRIED - HEAD])),
            Carriage::Answer(Answer::Refused),
            Carriage::Answer(Answer::Lost),
        ] {
            let bytes = what.encode(77);
            assert!(bytes.len() <= LEAST_CARRIED);
            assert_eq!(Carriage::decode(&bytes), Some((77, what)));
        }
        assert_eq!(Carriage::decode(&[0; HEAD]), None);
        let add = Carriage::Atomic { at: at(8), atomic: Atomic::FetchAdd { add: 7 } };
        assert_eq!(Carriage::decode(&add.encode(1)[..HEAD]), None);
        assert_eq!(Carriage::decode(&[5; 3]), None);
    }

    #[test]
    fn an_operation_that_nobody_waits_for_is_in_doubt_until_its_answer() {
        let mut carried = Carried::default();
        let [first, second] = [carried.begin(), carried.begin()];
        carried.dropped(first);
        assert!(carried.awaits_answer() && !carried.are_fixed_before(second));
        carried.answered(first, Answer::Done(Vec::new()));
        assert!(carried.are_fixed_before(second) && !carried.are_fixed_before(carried.next()));
        carried.peer_restarted();
        assert!(carried.are_fixed_before(carried.next()) && !carried.awaits_answer());
        assert_eq!(carried.len(), 1, "its outcome is there to be looked at");
    }
}
