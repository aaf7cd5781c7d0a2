//! What is posted to a queue and not settled.

use crate::access::RegionId;
use crate::hca::Remote;
use std::collections::VecDeque;
use weft_verbs::{Nanos, WcOp};

/// A range that a request in flight holds; none if it has no bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub region: RegionId,
    pub at: u32,
    pub len: u32,
}

impl Place {
    pub const NONE: Place = Place { region: RegionId(0), at: 0, len: 0 };
}

/// A request in flight: posted, and neither its completion polled nor a later one of its queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub wr_id: u64,
    pub at: Nanos,
    /// How many posts and deregistrations had been before it, in the whole world.
    pub order: u64,
    pub task: u32,
    pub op: WcOp,
    /// Whether it is an atomic that may still change its word.
    pub open: bool,
    /// Payload in bytes.
    pub len: u32,
    /// The peer's memory that it is aimed at, nothing for two-sided requests.
    pub aim: Aim,
    /// The first of the ranges that it holds.
    pub place: Place,
    /// How many more there are, in the ledger.
    pub more: u32,
}

/// A remote address without padding.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Aim {
    addr: [u32; 2],
    rkey: u32,
}

/// The ledgers of many queue pairs do not fit into a processor's caches: a request is one line of them.
const _: () = assert!(size_of::<Request>() == 64);

impl From<Option<Remote>> for Aim {
    fn from(remote: Option<Remote>) -> Aim {
        let Some(Remote { addr, rkey }) = remote else { return Aim::default() };
        Aim { addr: [addr as u32, (addr >> 32) as u32], rkey }
    }
}

impl Request {
    /// The peer's memory that it is aimed at.
    pub fn remote(&self) -> Option<Remote> {
        let Aim { addr: [low, high], rkey } = self.aim;
        let one_sided = !matches!(self.op, WcOp::Send | WcOp::Recv | WcOp::RecvWriteImm);
        one_sided.then_some(Remote { addr: u64::from(high) << 32 | u64::from(low), rkey })
    }
}

/// The requests in flight of a queue, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    requests: VecDeque<Request>,
    /// The ranges of each but its first, in the same order.
    more: VecDeque<Place>,
    /// The oldest request's number.
    first: u32,
}

impl Ledger {
    /// The number that the next request will have.
    pub fn next(&self) -> u32 {
        self.first.wrapping_add(self.requests.len() as u32)
    }

    /// Adds a range to a request that is about to be entered.
    #[inline]
    pub fn add(&mut self, request: &mut Request, place: Place) {
        if request.place.len == 0 {
            request.place = place;
        } else {
            self.more.push_back(place);
            request.more += 1;
        }
    }

    pub fn enter(&mut self, request: Request) {
        self.requests.push_back(request);
    }

    pub fn get(&self, number: u32) -> Option<&Request> {
        self.requests.get(number.wrapping_sub(self.first) as usize)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        self.requests.iter_mut()
    }

    /// Takes the oldest request out, with its number, and hands each of its ranges to `free`.
    #[inline]
    pub fn settle(&mut self, mut free: impl FnMut(u32, Place)) -> Option<Request> {
        let request = self.requests.pop_front()?;
        let number = self.first;
        self.first = self.first.wrapping_add(1);
        if request.place.len > 0 {
            free(number, request.place);
        }
        for place in self.more.drain(..request.more as usize) {
            free(number, place);
        }
        Some(request)
    }
}
