//! What is posted on each queue: the caller's names for requests, and the memory that they hold until they end.
//!
//! The adapter is told a name of this crate's own for every request: which queue, which of its tenants, and the
//! request's number in it. So a completion finds its queue by an index, without hashing; a completion that a destroyed
//! or reset queue pair left behind is known by its tenant's number and dropped; and the places of unsignaled requests
//! come free with the next one that completes (IBA 10.8.6).

use crate::convert::wc_error;
use crate::ffi::{Ah, Mr, RawWc};
use crate::memory::HwMr;
use rdma_sys as sys;
use std::collections::BTreeSet;
use std::rc::Rc;
use weft_verbs::{Done, QpNum, Sge, UdSource, VerbsError, WcError, WcOp, WorkCompletion};

/// Memory and address handles that a request needs until it ends. One region, by far the most common, needs no
/// allocation.
#[derive(Default)]
#[allow(dead_code, reason = "held, not looked at")]
pub(crate) enum Hold {
    #[default]
    None,
    One(Rc<Mr>),
    More(Box<More>),
}

/// What the few requests hold that need more than one region.
#[allow(dead_code, reason = "held, not looked at")]
pub(crate) struct More {
    memory: Vec<Rc<Mr>>,
    address: Option<Rc<Ah>>,
}

impl Hold {
    #[inline]
    pub(crate) fn new(list: &[Sge<'_, HwMr>]) -> Hold {
        match list {
            [] => Hold::None,
            [sge] => Hold::One(Rc::clone(&sge.mr.0)),
            many => Hold::many(many, None),
        }
    }

    /// What a datagram needs.
    pub(crate) fn datagram(list: &[Sge<'_, HwMr>], ah: &Rc<Ah>) -> Hold {
        Hold::many(list, Some(Rc::clone(ah)))
    }

    #[cold]
    fn many(list: &[Sge<'_, HwMr>], address: Option<Rc<Ah>>) -> Hold {
        let memory = list.iter().map(|sge| Rc::clone(&sge.mr.0)).collect();
        Hold::More(Box::new(More { memory, address }))
    }

    /// Lets go of it. The same as dropping it, with the two cases of nearly all requests in line.
    #[inline]
    pub(crate) fn release(self) {
        #[cold]
        fn rest(_: Hold) {}
        match self {
            Hold::None => {}
            Hold::One(mr) => drop(mr),
            other => rest(other),
        }
    }
}

/// A request that is posted.
pub(crate) struct Posted {
    /// The caller's name for it.
    pub wr_id: u64,
    /// Payload in bytes.
    pub len: u32,
    pub op: WcOp,
    pub hold: Hold,
}

impl Posted {
    /// A place without a request.
    fn nothing() -> Posted {
        Posted { wr_id: 0, len: 0, op: WcOp::Send, hold: Hold::None }
    }

    /// Writes a request into an empty place.
    #[inline]
    pub(crate) fn fill(&mut self, wr_id: u64, op: WcOp, len: u32, hold: Hold) {
        (self.wr_id, self.len, self.op) = (wr_id, len, op);
        // The place holds nothing: ends and retractions take the hold out. Not dropped, for the drop of nothing costs a
        // call on every post.
        std::mem::forget(std::mem::replace(&mut self.hold, hold));
    }
}

/// A work queue's requests, oldest first.
struct Ring {
    places: Box<[Posted]>,
    /// Numbers of the oldest request and of the next one; they wrap.
    head: u32,
    tail: u32,
    depth: u32,
}

impl Ring {
    fn new(depth: u32) -> Ring {
        let places = (0..depth.max(1).next_power_of_two()).map(|_| Posted::nothing()).collect();
        Ring { places, head: 0, tail: 0, depth }
    }

    #[inline]
    fn len(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    #[inline]
    fn place(&mut self, number: u32) -> &mut Posted {
        let mask = self.places.len() - 1;
        &mut self.places[number as usize & mask]
    }

    /// Takes the next place, and its number.
    #[inline]
    fn push(&mut self) -> (&mut Posted, u32) {
        let number = self.tail;
        self.tail = number.wrapping_add(1);
        (self.place(number), number)
    }

    /// Ends all requests up to a number: the last one, or `None` where it had ended already. What it holds is left to
    /// the caller; what those before it held is put aside.
    #[inline]
    fn end_up_to(&mut self, number: u32, aside: &mut Vec<Hold>) -> Option<&mut Posted> {
        if number.wrapping_sub(self.head) >= self.len() {
            return None;
        }
        if self.head != number {
            self.skip_to(number, aside);
        }
        self.head = number.wrapping_add(1);
        Some(self.place(number))
    }

    /// Ends the requests before a number: they were not signaled.
    #[inline(never)]
    fn skip_to(&mut self, number: u32, aside: &mut Vec<Hold>) {
        while self.head != number {
            let head = self.head;
            release(self.place(head), aside);
            self.head = head.wrapping_add(1);
        }
    }

    /// Takes back the newest requests, which the adapter refused.
    fn retract(&mut self, count: u32, released: &mut Vec<Hold>) {
        for _ in 0..count {
            self.tail = self.tail.wrapping_sub(1);
            let tail = self.tail;
            release(self.place(tail), released);
        }
    }

    fn clear(&mut self, released: &mut Vec<Hold>) {
        self.retract(self.len(), released);
    }
}

fn release(posted: &mut Posted, released: &mut Vec<Hold>) {
    let hold = std::mem::take(&mut posted.hold);
    if !matches!(hold, Hold::None) {
        released.push(hold);
    }
}

/// A shared receive queue's requests: they end in any order.
struct Pool {
    places: Vec<Option<Posted>>,
    free: Vec<u32>,
}

/// Which work queue of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Send,
    Receive,
    Shared,
}

struct Entry {
    /// Which tenant of the place this is: counts destructions and resets.
    generation: u32,
    num: QpNum,
    /// Receives of an unreliable datagram queue pair name their sender.
    datagrams: bool,
    /// A request of it completed with an error, which puts a connection's queue pair in error.
    failed: bool,
    send: Ring,
    receive: Ring,
    shared: Option<Pool>,
}

/// The name of a queue within its context.
pub(crate) type QueueIndex = u32;

const INDEX_BITS: u32 = 20;
const GENERATION_BITS: u32 = 10;

/// The ledgers of a context.
#[derive(Default)]
pub(crate) struct Ledgers {
    entries: Vec<Entry>,
    free: Vec<QueueIndex>,
    /// The open queue pairs for datagrams: a completion of a shared receive queue names a queue pair by its number alone.
    datagrams: BTreeSet<QpNum>,
    /// What requests held that have ended with another one's completion. See [`Ledgers::put_aside`].
    aside: Vec<Hold>,
}

impl Ledgers {
    /// A ledger for a queue pair of so many send and receive requests.
    pub(crate) fn open(
        &mut self,
        num: QpNum,
        datagrams: bool,
        (sends, receives): (u32, u32),
    ) -> Result<QueueIndex, VerbsError> {
        let (send, receive) = (Ring::new(sends), Ring::new(receives));
        let index = self.insert(|generation| Entry {
            generation,
            num,
            datagrams,
            failed: false,
            send,
            receive,
            shared: None,
        })?;
        if datagrams {
            self.datagrams.insert(num);
        }
        Ok(index)
    }

    /// A ledger for a shared receive queue.
    pub(crate) fn open_shared(&mut self, depth: u32) -> Result<QueueIndex, VerbsError> {
        let pool = Pool { places: (0..depth).map(|_| None).collect(), free: (0..depth).rev().collect() };
        let (send, receive) = (Ring::new(0), Ring::new(0));
        let (num, shared) = (QpNum(0), Some(pool));
        self.insert(|generation| Entry {
            generation,
            num,
            datagrams: false,
            failed: false,
            send,
            receive,
            shared,
        })
    }

    fn insert(&mut self, entry: impl FnOnce(u32) -> Entry) -> Result<QueueIndex, VerbsError> {
        if let Some(index) = self.free.pop() {
            let place = &mut self.entries[index as usize];
            *place = entry(place.generation);
            return Ok(index);
        }
        let limit = 1 << INDEX_BITS;
        if self.entries.len() >= limit {
            return Err(VerbsError::Exhausted { what: "queue", limit: limit as u64 });
        }
        self.entries.push(entry(0));
        Ok(self.entries.len() as QueueIndex - 1)
    }

    /// Forgets a queue that is destroyed.
    pub(crate) fn close(&mut self, index: QueueIndex, released: &mut Vec<Hold>) {
        self.reset(index, released);
        let entry = &mut self.entries[index as usize];
        (entry.send, entry.receive, entry.shared) = (Ring::new(0), Ring::new(0), None);
        if std::mem::take(&mut entry.datagrams) {
            self.datagrams.remove(&entry.num);
        }
        self.free.push(index);
    }

    /// Forgets what is posted; completions of it that come later are nobody's.
    pub(crate) fn reset(&mut self, index: QueueIndex, released: &mut Vec<Hold>) {
        let entry = &mut self.entries[index as usize];
        entry.generation = (entry.generation + 1) & ((1 << GENERATION_BITS) - 1);
        entry.failed = false;
        entry.send.clear(released);
        entry.receive.clear(released);
        if let Some(pool) = &mut entry.shared {
            pool.places.iter_mut().filter_map(Option::take).for_each(|mut one| release(&mut one, released));
        }
    }

    /// Takes a place for a request, which the caller fills, and the request's name for the adapter. Refused where the
    /// queue is full.
    #[inline]
    pub(crate) fn post(&mut self, index: QueueIndex, side: Side) -> Result<(&mut Posted, u64), VerbsError> {
        let entry = &mut self.entries[index as usize];
        let ring = match side {
            Side::Send => &mut entry.send,
            Side::Receive => &mut entry.receive,
            Side::Shared => return entry.post_shared(index),
        };
        if ring.len() >= ring.depth {
            let queue = if side == Side::Send { "send" } else { "receive" };
            return Err(VerbsError::QueueFull { queue, depth: ring.depth });
        }
        let (place, number) = ring.push();
        Ok((place, name(side, entry.generation, index, number)))
    }

    /// Takes back the newest `count` requests of a queue pair, which the adapter refused.
    pub(crate) fn retract(&mut self, index: QueueIndex, side: Side, count: usize, released: &mut Vec<Hold>) {
        let entry = &mut self.entries[index as usize];
        match side {
            Side::Send => entry.send.retract(count as u32, released),
            Side::Receive => entry.receive.retract(count as u32, released),
            Side::Shared => {}
        }
    }

    /// Takes back one request of a shared receive queue, by its name.
    pub(crate) fn retract_shared(&mut self, index: QueueIndex, name: u64, released: &mut Vec<Hold>) {
        if let Some(pool) = &mut self.entries[index as usize].shared {
            pool.take(name as u32).iter_mut().for_each(|one| release(one, released));
        }
    }

    /// Ends the request of a completion, which is told in the contract's terms; of one whose queue pair is gone or was
    /// reset nothing is. What the request held is to be released when nothing is borrowed any more, and so is what is
    /// [put aside](Ledgers::put_aside) of requests that ended with it.
    #[inline]
    pub(crate) fn complete(&mut self, wc: &RawWc, out: &mut Vec<WorkCompletion>) -> Hold {
        let (side, generation, index, number) = parts(wc.wr_id);
        let Some(entry) = self.entries.get_mut(index as usize) else { return Hold::None };
        if entry.generation != generation {
            return Hold::None;
        }
        if wc.status != sys::ibv_wc_status::IBV_WC_SUCCESS {
            entry.failed = true;
        }
        let ring = match side {
            Side::Send => &mut entry.send,
            Side::Receive => &mut entry.receive,
            Side::Shared => return self.complete_shared(wc, index, number, out),
        };
        let Some(posted) = ring.end_up_to(number, &mut self.aside) else { return Hold::None };
        if side == Side::Send && wc.status == sys::ibv_wc_status::IBV_WC_SUCCESS {
            out.push(WorkCompletion { wr_id: posted.wr_id, qp: entry.num, result: Ok(sent(posted)) });
        } else {
            let result = outcome(wc, entry.datagrams);
            out.push(WorkCompletion { wr_id: posted.wr_id, qp: entry.num, result });
        }
        std::mem::take(&mut posted.hold)
    }

    /// The same for a receive on a shared queue.
    fn complete_shared(
        &mut self,
        wc: &RawWc,
        index: QueueIndex,
        number: u32,
        out: &mut Vec<WorkCompletion>,
    ) -> Hold {
        let pool = self.entries[index as usize].shared.as_mut();
        let Some(Posted { wr_id, hold, .. }) = pool.and_then(|pool| pool.take(number)) else {
            return Hold::None;
        };
        let qp = QpNum(wc.qp_num);
        let result = outcome(wc, self.datagrams.contains(&qp));
        out.push(WorkCompletion { wr_id, qp, result });
        hold
    }

    /// Takes what was put aside, in exchange for an empty list, if there is something.
    #[inline]
    pub(crate) fn put_aside(&mut self, empty: impl FnOnce() -> Vec<Hold>) -> Option<Vec<Hold>> {
        (!self.aside.is_empty()).then(|| std::mem::replace(&mut self.aside, empty()))
    }

    /// Whether a request of a queue pair is known to have failed.
    pub(crate) fn has_failed(&self, index: QueueIndex) -> bool {
        self.entries[index as usize].failed
    }
}

impl Entry {
    fn post_shared(&mut self, index: QueueIndex) -> Result<(&mut Posted, u64), VerbsError> {
        let generation = self.generation;
        let pool = self.shared.as_mut().ok_or(VerbsError::Invalid("not a shared receive queue"))?;
        let depth = pool.places.len() as u32;
        let place = pool.free.pop().ok_or(VerbsError::QueueFull { queue: "receive", depth })?;
        let posted = pool.places[place as usize].insert(Posted::nothing());
        Ok((posted, name(Side::Shared, generation, index, place)))
    }
}

impl Pool {
    fn take(&mut self, place: u32) -> Option<Posted> {
        let posted = self.places.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(posted)
    }
}

#[inline]
fn name(side: Side, generation: u32, index: QueueIndex, number: u32) -> u64 {
    let side = match side {
        Side::Send => 0,
        Side::Receive => 1,
        Side::Shared => 2u64,
    };
    side << 62
        | u64::from(generation) << (32 + INDEX_BITS)
        | u64::from(index) << 32
        | u64::from(number)
}

#[inline]
fn parts(name: u64) -> (Side, u32, QueueIndex, u32) {
    let side = match name >> 62 {
        0 => Side::Send,
        1 => Side::Receive,
        _ => Side::Shared,
    };
    let generation = (name >> (32 + INDEX_BITS)) as u32 & ((1 << GENERATION_BITS) - 1);
    let index = (name >> 32) as u32 & ((1 << INDEX_BITS) - 1);
    (side, generation, index, name as u32)
}

/// How a receive ended, or a send that failed. Not in line: a send's success is told without it, and quickly.
#[inline(never)]
fn outcome(wc: &RawWc, datagrams: bool) -> Result<Done, WcError> {
    match wc.status {
        sys::ibv_wc_status::IBV_WC_SUCCESS => Ok(received(wc, datagrams)),
        status => Err(wc_error(status)),
    }
}

/// A send request's success. Its length is as it was posted: adapters report one for some operations only.
#[inline]
fn sent(posted: &Posted) -> Done {
    Done { op: posted.op, len: posted.len, imm: None, from: None }
}

/// `IBV_WC_GRH` and `IBV_WC_WITH_IMM`.
const WITH_GRH: u32 = 1;
const WITH_IMM: u32 = 2;

#[inline]
fn received(wc: &RawWc, datagram: bool) -> Done {
    let op = match wc.opcode {
        sys::ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM => WcOp::RecvWriteImm,
        _ => WcOp::Recv,
    };
    let imm = (wc.flags & WITH_IMM != 0).then(|| u32::from_be(wc.imm));
    Done { op, len: wc.byte_len, imm, from: datagram.then(|| source(wc)) }
}

fn source(wc: &RawWc) -> UdSource {
    UdSource { qp: QpNum(wc.src_qp), lid: wc.slid, sl: wc.sl, grh: wc.flags & WITH_GRH != 0 }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
