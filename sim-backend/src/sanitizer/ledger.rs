//! What is posted to a queue and not settled.

use crate::access::RegionId;
use crate::hca::Remote;
use std::collections::VecDeque;
use verbs_trait::{Nanos, WcOp};

/// A request in flight: posted, and neither its completion polled nor a later one of its queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// How many posts and deregistrations had been before it, in the whole world.
    pub order: u64,
    pub wr_id: u64,
    pub at: Nanos,
    pub task: u32,
    pub op: WcOp,
    /// The peer's memory that it is aimed at, for one-sided requests.
    pub remote: Option<Remote>,
    /// Payload in bytes.
    pub len: u64,
    /// Whether it is an atomic that may still change its word.
    pub open: bool,
    /// How many ranges it holds.
    pub places: u32,
}

/// A range that a request in flight holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub region: RegionId,
    pub at: u32,
    pub len: u32,
}

/// The requests in flight of a queue, oldest first, with their ranges in the same order.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    requests: VecDeque<Request>,
    places: VecDeque<Place>,
    /// The oldest request's number.
    first: u32,
}

impl Ledger {
    /// The number that the next request will have.
    pub fn next(&self) -> u32 {
        self.first.wrapping_add(self.requests.len() as u32)
    }

    pub fn hold(&mut self, place: Place) {
        self.places.push_back(place);
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

    /// Takes the oldest request out; its ranges follow by [`Ledger::release`].
    pub fn settle(&mut self) -> Option<(u32, Request)> {
        let request = self.requests.pop_front()?;
        let number = self.first;
        self.first = self.first.wrapping_add(1);
        Some((number, request))
    }

    pub fn release(&mut self) -> Option<Place> {
        self.places.pop_front()
    }
}
