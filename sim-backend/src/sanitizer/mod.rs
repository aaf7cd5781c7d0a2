//! The sanitizer: accesses to registered memory that real adapters punish silently, or only under load.
//!
//! It watches every access as it happens, with the requests that are in flight at that moment, and reports a
//! [`Violation`] with both of its sides. It sees what no program can: all nodes at once. It changes nothing;
//! a run with it and one without are the same to the byte.
//!
//! A request is **in flight** from its post until its completion, or a later one of the same queue, was
//! *polled*, or its queue pair was reset or destroyed: the adapter's acknowledgement is not the program's
//! knowledge, and a retransmission reads memory again. Inline data is copied by the post and holds nothing.
//!
//! | rule | reported | not reported |
//! |---|---|---|
//! | [`Rule::PendingResult`] | the processor reads, writes or claims a byte of a receive buffer, or of the target of a read or an atomic, of a request in flight | |
//! | [`Rule::PendingSource`] | the processor writes or claims a byte that a send or write in flight reads | reading it; posting it again |
//! | [`Rule::MixedAtomics`] | the processor writes or claims a word that was ever the target of an atomic; reads it while an atomic on it is in flight and not executed; an adapter writes over it plainly by another living queue pair than an atomic came by, or an atomic comes in the middle of such a write | writing it before the first atomic; reading it at rest (a load is whole, and nothing can change it); any remote read; a plain write by the one queue pair of its atomics, or after the others are gone or in error, since these are in order |
//! | [`Rule::Unfinished`] | the processor, or a peer's read by another queue pair, touches bytes of a message of several packets (a peer's write, or a message or a read's answer that lands) between its first packet and its last | reading within one aligned word, which is never torn: that is how a flag is polled; messages that broke off with their queue pair |
//! | [`Rule::Deregistered`] | a peer's operation meets a region that was given up after the operation was posted | one that was posted afterwards, with a stale key: the adapter refuses that aloud, every time |
//!
//! A request of one's own holds its regions by the contract, so none can be deregistered under it. A copy that
//! is meant to be torn and is checked afterwards (a version before and behind) is reported like any other.
//!
//! The cost is bounded for every access and every request: leases are found by page, words by binary search,
//! unfinished messages in a list that is almost always empty; nothing looks at history.

mod check;
mod leases;
mod ledger;
mod violation;
mod words;

pub use violation::{Action, Party, Rule, Violation};

use crate::NodeId;
use crate::access::RegionId;
use crate::hca::{HcaId, Key, Remote, place_of};
use leases::{Lease, Leases};
use ledger::{Ledger, Place, Request};
use std::collections::VecDeque;
use std::ops::Range;
use verbs_trait::{Nanos, QpNum, WcOp};
use words::Words;

/// Most violations that are kept; all are counted.
pub const KEPT: usize = 64;
/// Most given-up regions that are remembered.
const GONE: usize = 256;

/// A region as it is registered.
#[derive(Clone, Copy, Debug)]
pub struct Registered {
    /// Its identity.
    pub id: RegionId,
    /// Its adapter.
    pub hca: HcaId,
    /// Its first byte's virtual address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
    /// Its key for peers. `None` where they have no right to it.
    pub rkey: Option<u32>,
}

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

/// Which side of a queue pair a message lands by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The requester's: an answer.
    Requester,
    /// The responder's: a message or a write.
    Responder,
}

/// A message of several packets that has begun to land.
#[derive(Clone, Debug)]
struct Landing {
    qp: u16,
    side: Side,
    range: Range<u64>,
    party: Party,
}

#[derive(Clone, Debug)]
struct Region {
    this: Registered,
    leases: Leases,
    words: Words,
    landings: Vec<Landing>,
}

/// A region that was given up, and by whom.
#[derive(Clone, Copy, Debug)]
struct Gone {
    this: Registered,
    rkey: u32,
    /// As a request's.
    order: u64,
    by: Party,
}

#[derive(Clone, Debug, Default)]
struct Pair {
    /// Once it has posted.
    num: Option<QpNum>,
    peer: Option<HcaId>,
    /// How often it was reset, destroyed or in error.
    life: u32,
    sends: Ledger,
    receives: Ledger,
    /// The regions that messages are landing in: few, and mostly none.
    landings: Vec<(Side, RegionId)>,
}

#[derive(Clone, Debug)]
struct Adapter {
    node: NodeId,
    /// Queue pairs by place.
    pairs: Vec<Pair>,
}

/// The sanitizer of a world, as plain data.
#[derive(Clone, Debug)]
pub struct Sanitizer {
    adapters: Vec<Adapter>,
    /// Regions by identity, which is never used again. Those without are gone.
    regions: Vec<Option<Box<Region>>>,
    gone: VecDeque<Gone>,
    /// The task that runs, by node.
    tasks: Vec<u32>,
    /// Posts and deregistrations so far.
    order: u64,
    /// Atomics in flight that were not executed, of all queue pairs.
    open: u32,
    kept: Vec<Violation>,
    total: u64,
}

impl Sanitizer {
    /// The sanitizer of a world with adapters on these nodes.
    pub fn new(adapters: impl Iterator<Item = NodeId>) -> Sanitizer {
        let adapters: Vec<Adapter> = adapters.map(|node| Adapter { node, pairs: Vec::new() }).collect();
        let nodes = adapters.iter().map(|adapter| adapter.node.index() + 1).max().unwrap_or(0);
        Sanitizer {
            adapters,
            regions: Vec::new(),
            gone: VecDeque::new(),
            tasks: vec![0; nodes],
            order: 0,
            open: 0,
            kept: Vec::new(),
            total: 0,
        }
    }

    /// The first violations, at most [`KEPT`].
    pub fn violations(&self) -> &[Violation] {
        &self.kept
    }

    /// How many violations there were.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// From now on a node runs this task, or none with 0.
    #[inline]
    pub fn task(&mut self, node: NodeId, task: u32) {
        self.tasks[node.index()] = task;
    }

    // Regions.

    /// A region is there.
    pub fn registered(&mut self, this: Registered) {
        let place = this.id.0 as usize;
        if place >= self.regions.len() {
            self.regions.resize_with(place + 1, || None);
        }
        let (leases, words, landings) = (Leases::default(), Words::default(), Vec::new());
        self.regions[place] = Some(Box::new(Region { this, leases, words, landings }));
    }

    /// A program dropped its last handle on a region, at this time of its node.
    pub fn given_up(&mut self, id: RegionId, at: Nanos) {
        let Some(region) = self.regions.get_mut(id.0 as usize).and_then(Option::take) else { return };
        let this = region.this;
        let Some(rkey) = this.rkey else { return };
        let node = self.adapters[this.hca.0 as usize].node;
        let (task, action) = (self.running(node), Action::Deregister);
        if self.gone.len() == GONE {
            self.gone.pop_front();
        }
        let by = Party { node, task, action, addr: this.addr, len: this.len, at };
        self.order += 1;
        self.gone.push_back(Gone { this, rkey, order: self.order, by });
    }

    /// A node crashed: its regions are nobody's fault.
    pub fn crashed(&mut self, hca: HcaId) {
        for region in &mut self.regions {
            if region.as_ref().is_some_and(|region| region.this.hca == hca) {
                *region = None;
            }
        }
        self.tasks[self.adapters[hca.0 as usize].node.index()] = 0;
    }

    fn region(&mut self, id: RegionId) -> Option<&mut Region> {
        self.regions.get_mut(id.0 as usize)?.as_deref_mut()
    }

    // Requests.

    fn pair(&mut self, hca: HcaId, place: u32) -> &mut Pair {
        let pairs = &mut self.adapters[hca.0 as usize].pairs;
        if place as usize >= pairs.len() {
            pairs.resize_with(place as usize + 1, Pair::default);
        }
        &mut pairs[place as usize]
    }

    /// A request was accepted, with these ranges (region, first byte, length) of its own node's memory.
    #[inline]
    pub fn posted(&mut self, by: Poster, posted: Posted, ranges: impl Iterator<Item = (RegionId, u32, u32)>) {
        let Posted { at, wr_id, op, remote, len } = posted;
        let (receive, open) = (op == WcOp::Recv, is_atomic(op));
        let writes = receive || open || op == WcOp::Read;
        let task = self.tasks[self.adapters[by.hca.0 as usize].node.index()];
        let pairs = &mut self.adapters[by.hca.0 as usize].pairs;
        let place = by.key.index as usize;
        if place >= pairs.len() {
            pairs.resize_with(place + 1, Pair::default);
        }
        let pair = &mut pairs[place];
        (pair.num, pair.peer) = (Some(by.num), by.peer);
        let ledger = if receive { &mut pair.receives } else { &mut pair.sends };
        let (request, mut more) = (ledger.next(), 0);
        let mut first = Place { region: RegionId(0), at: 0, len: 0 };
        for (id, at, len) in ranges.filter(|range| range.2 > 0) {
            if let Some(Some(region)) = self.regions.get_mut(id.0 as usize) {
                region.leases.add(Lease { at, len, request, qp: place as u16, receive, writes });
            }
            if first.len == 0 {
                first = Place { region: id, at, len };
            } else {
                ledger.hold_more(Place { region: id, at, len });
                more += 1;
            }
        }
        self.order += 1;
        let order = self.order;
        let (aim, len, place) = (remote.into(), len.min(u64::from(u32::MAX)) as u32, first);
        ledger.enter(Request { order, wr_id, at, task, op, open, len, aim, place, more });
        self.open += u32::from(open);
    }

    /// A completion was polled that settles `sends` send requests, or one receive if that is 0.
    #[inline]
    pub fn polled(&mut self, hca: HcaId, key: Key, sends: u32) {
        for _ in 0..sends.max(1) {
            self.settle(hca, key.index, sends == 0);
        }
    }

    /// Settles the oldest request of a queue, if there is one.
    #[inline]
    fn settle(&mut self, hca: HcaId, place: u32, receive: bool) -> bool {
        let Some(pair) = self.adapters[hca.0 as usize].pairs.get_mut(place as usize) else { return false };
        let ledger = if receive { &mut pair.receives } else { &mut pair.sends };
        let regions = &mut self.regions;
        let settled = ledger.settle(|number, Place { region, at, len }| {
            if let Some(Some(region)) = regions.get_mut(region.0 as usize) {
                region.leases.end(at, len, (place as u16, receive, number));
            }
        });
        let Some(request) = settled else { return false };
        self.open -= u32::from(request.open);
        true
    }

    /// A queue pair was reset or destroyed: all that it held is free.
    pub fn ended(&mut self, hca: HcaId, key: Key) {
        while self.settle(hca, key.index, false) {}
        while self.settle(hca, key.index, true) {}
        self.failed(hca, key);
    }

    /// A queue pair is in the error state: nothing lands by it any more, and what it brought is in order with
    /// what comes by others.
    pub fn failed(&mut self, hca: HcaId, key: Key) {
        let pair = self.pair(hca, key.index);
        pair.life = pair.life.wrapping_add(1);
        self.landed(hca, key, Side::Requester);
        self.landed(hca, key, Side::Responder);
    }

    // Messages of several packets.

    /// The last packet of a message has come, or none will come.
    pub fn landed(&mut self, hca: HcaId, key: Key, side: Side) {
        let pair = self.pair(hca, key.index);
        let mut open = std::mem::take(&mut pair.landings);
        open.retain(|&(of, id)| {
            if of == side
                && let Some(region) = self.region(id)
            {
                region.landings.retain(|landing| (landing.qp, landing.side) != (key.index as u16, side));
            }
            of != side
        });
        self.pair(hca, key.index).landings = open;
    }

    fn running(&self, node: NodeId) -> Option<u32> {
        Some(self.tasks[node.index()]).filter(|&task| task > 0)
    }

    /// The queue pair of a number, if it ever posted.
    fn find(&self, hca: HcaId, num: QpNum) -> Option<&Pair> {
        self.adapters[hca.0 as usize].pairs.get(place_of(num)? as usize).filter(|pair| pair.num == Some(num))
    }

    #[cold]
    fn report(&mut self, violation: Violation) {
        self.total += 1;
        if self.kept.len() < KEPT {
            self.kept.push(violation);
        }
    }
}

fn is_atomic(op: WcOp) -> bool {
    matches!(op, WcOp::CompareSwap | WcOp::FetchAdd)
}
