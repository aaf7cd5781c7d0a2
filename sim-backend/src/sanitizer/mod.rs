//! The sanitizer: accesses to registered memory that real adapters punish silently, or only under load.
//!
//! It watches every access as it happens, with the requests that are in flight at that moment, and reports a
//! [`Violation`] with both of its sides. It sees what no program can: all nodes at once. It changes nothing;
//! a run with it and one without are the same to the byte.
//!
//! A request is **in flight** from its post until its completion, or a later one of the same queue, was
//! *polled*, or its queue was reset or destroyed: the adapter's acknowledgement is not the program's
//! knowledge, and a retransmission reads memory again. Inline data is copied by the post and holds nothing.
//!
//! | rule | reported | not reported |
//! |---|---|---|
//! | [`Rule::PendingResult`] | the processor reads, writes or claims a byte of a receive buffer, or of the target of a read or an atomic, of a request in flight | |
//! | [`Rule::PendingSource`] | the processor writes or claims a byte that a send or write in flight reads | reading it; posting it again |
//! | [`Rule::MixedAtomics`] | the processor writes or claims a word that was ever the target of an atomic; reads it while an atomic on it is in flight and not executed; an adapter writes over it plainly by another living queue pair than an atomic came by, or an atomic comes in the middle of such a write; an atomic comes by another device of the node than an earlier one of a living queue pair did (memory that is registered with both) | writing it before the first atomic; reading it at rest (a load is whole, and nothing can change it); any remote read; a plain write by the one queue pair of its atomics, or after the others are gone or in error, since these are in order |
//! | [`Rule::Unfinished`] | the processor, or a peer's read by another queue pair, touches bytes of a message of several packets (a peer's write, or a message or a read's answer that lands) between its first packet and its last | reading within one aligned word, which is never torn: that is how a flag is polled; a peer's read of a region with `AccessFlags::TORN_READS`, which says that readers check what they have read; messages that broke off with their queue pair |
//! | [`Rule::Deregistered`] | a peer's operation meets a region that was given up after the operation was posted | one that was posted afterwards, with a stale key: the adapter refuses that aloud, every time |
//!
//! A request of one's own holds its regions by the contract, so none can be deregistered under it. A copy by the
//! processor that is meant to be torn and is checked afterwards (a version before and behind) is reported like any other.
//!
//! The cost is bounded for every access and every request: leases are found by page, words by binary search,
//! unfinished messages in a list that is almost always empty; nothing looks at history.

mod check;
mod leases;
mod ledger;
mod requests;
mod violation;
mod words;

pub use requests::{Posted, Poster};
pub use violation::{Action, Party, Rule, Violation};

use crate::NodeId;
use crate::access::RegionId;
use crate::hca::{HcaId, Key, place_of};
use leases::Leases;
use ledger::{Ledger, Place};
use std::collections::VecDeque;
use std::ops::Range;
use weft_verbs::{Nanos, QpNum, WcOp};
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
    /// Whether peers that read it accept torn values ([`AccessFlags::TORN_READS`](weft_verbs::AccessFlags::TORN_READS)).
    pub torn_reads: bool,
    /// Where its first byte is in the host's memory, if other regions can have the same bytes. It is compared with
    /// those of others and shows nowhere: it differs from run to run.
    pub host: Option<usize>,
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
    /// Regions of other adapters of the node that have bytes of this one, and what to add to an offset in this one.
    aliases: Vec<(RegionId, i64)>,
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
    incarnation: u32,
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
    /// Shared receive queues by place.
    shared: Vec<Ledger>,
}

/// The sanitizer of a world, as plain data.
#[derive(Clone, Debug)]
pub struct Sanitizer {
    adapters: Vec<Adapter>,
    /// Regions by identity, which is never used again. Those without are gone.
    regions: Vec<Option<Box<Region>>>,
    /// Those of them that can share bytes with others.
    shared: Vec<RegionId>,
    gone: VecDeque<Gone>,
    /// Ranges on their way from one ledger to another; empty between calls.
    moving: Vec<Place>,
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
        let adapters: Vec<Adapter> =
            adapters.map(|node| Adapter { node, pairs: Vec::new(), shared: Vec::new() }).collect();
        let nodes = adapters.iter().map(|adapter| adapter.node.index() + 1).max().unwrap_or(0);
        Sanitizer {
            adapters,
            regions: Vec::new(),
            shared: Vec::new(),
            gone: VecDeque::new(),
            moving: Vec::new(),
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
        let aliases = if this.host.is_some() { self.link_aliases(&this) } else { Vec::new() };
        self.regions[place] = Some(Box::new(Region { this, leases, words, landings, aliases }));
    }

    /// Finds the regions of other adapters that share bytes with a new one, and tells them of it.
    fn link_aliases(&mut self, this: &Registered) -> Vec<(RegionId, i64)> {
        let Some(host) = this.host else { return Vec::new() };
        let mut aliases = Vec::new();
        let mut shared = std::mem::take(&mut self.shared);
        shared.retain(|&id| {
            let Some(other) = self.region(id) else { return false };
            let Some(its) = other.this.host.filter(|_| other.this.hca != this.hca) else { return true };
            let shift = host as i64 - its as i64;
            if shift < other.this.len as i64 && -shift < this.len as i64 {
                aliases.push((id, shift));
                other.aliases.push((this.id, -shift));
            }
            true
        });
        shared.push(this.id);
        self.shared = shared;
        aliases
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
        let adapter = &mut self.adapters[hca.0 as usize];
        adapter.shared.clear();
        self.tasks[adapter.node.index()] = 0;
    }

    fn region(&mut self, id: RegionId) -> Option<&mut Region> {
        self.regions.get_mut(id.0 as usize)?.as_deref_mut()
    }

    fn pair(&mut self, hca: HcaId, place: u32) -> &mut Pair {
        self.adapters[hca.0 as usize].pair(place)
    }

    /// A queue pair is in the error state: nothing lands by it any more, and what it brought is in order with
    /// what comes by others.
    pub fn failed(&mut self, hca: HcaId, key: Key) {
        let pair = self.pair(hca, key.index);
        pair.incarnation = pair.incarnation.wrapping_add(1);
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
