//! Requests in flight: from their post until they are settled.

use super::leases::{Holder, Lease, Queue};
use super::ledger::{Ledger, Place, Request};
use super::{Adapter, Pair, Region, Sanitizer, is_atomic};
use crate::access::RegionId;
use crate::hca::{HcaId, Key, Remote};
use weft_verbs::{Nanos, QpNum, WcOp};

/// A queue pair that posts.
#[derive(Clone, Copy, Debug)]
pub struct Poster {
    /// Its adapter.
    pub hca: HcaId,
    /// Where it is.
    pub key: Key,
    /// Its number.
    pub num: QpNum,
    /// The adapter that it is connected with.
    pub peer: Option<HcaId>,
}

/// A request as it is posted.
#[derive(Clone, Copy, Debug)]
pub struct Posted {
    /// By the posting node's clock.
    pub at: Nanos,
    /// The poster's name for it.
    pub wr_id: u64,
    /// What it does.
    pub op: WcOp,
    /// The peer's memory that it is aimed at, for one-sided requests.
    pub remote: Option<Remote>,
    /// Payload in bytes.
    pub len: u64,
}

/// The regions of a world, by identity.
type Regions = [Option<Box<Region>>];

impl Adapter {
    /// The queue pair of a place.
    pub(super) fn pair(&mut self, place: u32) -> &mut Pair {
        if place as usize >= self.pairs.len() {
            self.pairs.resize_with(place as usize + 1, Pair::default);
        }
        &mut self.pairs[place as usize]
    }

    fn ledger_mut(&mut self, queue: Queue) -> &mut Ledger {
        match queue {
            Queue::Send(place) => &mut self.pair(place).sends,
            Queue::Receive(place) => &mut self.pair(place).receives,
            Queue::Shared(place) => {
                if place as usize >= self.shared.len() {
                    self.shared.resize_with(place as usize + 1, Ledger::default);
                }
                &mut self.shared[place as usize]
            }
        }
    }

    /// The ledger of a queue that something was posted to.
    pub(super) fn ledger(&self, queue: Queue) -> Option<&Ledger> {
        match queue {
            Queue::Send(place) => Some(&self.pairs.get(place as usize)?.sends),
            Queue::Receive(place) => Some(&self.pairs.get(place as usize)?.receives),
            Queue::Shared(place) => self.shared.get(place as usize),
        }
    }
}

impl Sanitizer {
    /// A request was accepted, with these ranges (region, first byte, length) of its own node's memory.
    #[inline]
    pub fn posted(&mut self, by: Poster, posted: Posted, ranges: impl Iterator<Item = (RegionId, u32, u32)>) {
        let place = by.key.index;
        let pair = self.adapters[by.hca.0 as usize].pair(place);
        (pair.num, pair.peer) = (Some(by.num), by.peer);
        let queue = if posted.op == WcOp::Recv { Queue::Receive(place) } else { Queue::Send(place) };
        self.enter(by.hca, queue, &posted, ranges);
    }

    /// A receive request was accepted by a shared queue.
    pub fn shared(
        &mut self,
        hca: HcaId,
        srq: Key,
        posted: Posted,
        ranges: impl Iterator<Item = (RegionId, u32, u32)>,
    ) {
        self.enter(hca, Queue::Shared(srq.index), &posted, ranges);
    }

    #[inline]
    fn enter(
        &mut self,
        hca: HcaId,
        queue: Queue,
        posted: &Posted,
        ranges: impl Iterator<Item = (RegionId, u32, u32)>,
    ) {
        let Posted { at, wr_id, op, remote, len } = *posted;
        let adapter = &mut self.adapters[hca.0 as usize];
        let task = self.tasks[adapter.node.index()];
        self.order += 1;
        let (aim, len, open) = (remote.into(), len.min(u64::from(u32::MAX)) as u32, is_atomic(op));
        self.open += u32::from(open);
        let mut request =
            Request { order: self.order, wr_id, at, task, op, open, len, aim, place: Place::NONE, more: 0 };
        let ledger = adapter.ledger_mut(queue);
        let by = Holder { queue, request: ledger.next() };
        for (region, at, len) in ranges.filter(|range| range.2 > 0) {
            let place = Place { region, at, len };
            hold(&mut self.regions, place, by, op);
            ledger.add(&mut request, place);
        }
        ledger.enter(request);
    }

    /// A queue pair drew the oldest request of a shared queue, and holds it as its own.
    pub fn drawn(&mut self, srq: Key, by: Poster) {
        let place = by.key.index;
        let adapter = &mut self.adapters[by.hca.0 as usize];
        let (from, to) = (Queue::Shared(srq.index), Queue::Receive(place));
        let (regions, moving) = (&mut self.regions, &mut self.moving);
        let settled = adapter.ledger_mut(from).settle(|request, place| {
            free(regions, place, Holder { queue: from, request });
            moving.push(place);
        });
        let Some(mut request) = settled else { return };
        (request.place, request.more) = (Place::NONE, 0);
        let pair = adapter.pair(place);
        (pair.num, pair.peer) = (Some(by.num), by.peer);
        let ledger = adapter.ledger_mut(to);
        let holder = Holder { queue: to, request: ledger.next() };
        for place in moving.drain(..) {
            hold(regions, place, holder, request.op);
            ledger.add(&mut request, place);
        }
        ledger.enter(request);
    }

    /// A completion was polled that settles `sends` send requests, or one receive if that is 0.
    #[inline]
    pub fn polled(&mut self, hca: HcaId, key: Key, sends: u32) {
        let queue = if sends > 0 { Queue::Send(key.index) } else { Queue::Receive(key.index) };
        for _ in 0..sends.max(1) {
            self.settle(hca, queue);
        }
    }

    /// Settles the oldest request of a queue, if there is one.
    #[inline]
    fn settle(&mut self, hca: HcaId, queue: Queue) -> bool {
        let regions = &mut self.regions;
        let ledger = self.adapters[hca.0 as usize].ledger_mut(queue);
        let settled = ledger.settle(|request, place| free(regions, place, Holder { queue, request }));
        let Some(request) = settled else { return false };
        self.open -= u32::from(request.open);
        true
    }

    /// A queue pair was reset or destroyed: all that it held is free.
    pub fn ended(&mut self, hca: HcaId, key: Key) {
        while self.settle(hca, Queue::Send(key.index)) {}
        while self.settle(hca, Queue::Receive(key.index)) {}
        self.failed(hca, key);
    }

    /// A shared receive queue was destroyed: all that it held is free.
    pub fn shared_ended(&mut self, hca: HcaId, srq: Key) {
        while self.settle(hca, Queue::Shared(srq.index)) {}
    }
}

#[inline]
fn hold(regions: &mut Regions, place: Place, by: Holder, op: WcOp) {
    let writes = op == WcOp::Recv || op == WcOp::Read || is_atomic(op);
    if let Some(Some(region)) = regions.get_mut(place.region.0 as usize) {
        region.leases.add(Lease { at: place.at, len: place.len, by, writes });
    }
}

#[inline]
fn free(regions: &mut Regions, place: Place, by: Holder) {
    if let Some(Some(region)) = regions.get_mut(place.region.0 as usize) {
        region.leases.end(place.at, place.len, by);
    }
}
