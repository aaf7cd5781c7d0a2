//! The untimed fabric: what an explorer drives.
//!
//! A world in [`Order::Untimed`](crate::Order::Untimed) has no event queue. What can happen next is read from its
//! state ([`Fabric::enabled`](crate::Fabric::enabled)), and the caller says which of it happens, and how
//! ([`Fabric::take`](crate::Fabric::take)):
//!
//! | actor | its next event | enabled when |
//! |---|---|---|
//! | a flow (a queue pair's packets to its peer) | the packet at its head is delivered | it has a packet |
//! | a packet out of order: a datagram, a connection manager's message, a delayed packet | it is delivered | it is there; such packets are in no order |
//! | a node | its program's step | it was woken, or its last step asked for another |
//! | a node's timer | its clock jumps to the deadline that it is parked with, and it steps | see [`Timers`] |
//! | a queue pair's timer | it sends again, or gives up | a packet of its connection was lost; receiver-not-ready: the receiver is ready again |
//! | the timer of a connection manager's connection | it sends again, or gives up | the connection waits for an answer, and a message about it was lost since it asked; or unprovoked, see [`Timers`] |
//! | a call of a disk | it takes effect and ends | it was begun; calls of one disk end in any order |
//! | a version of a sector that was not synced when its node crashed | it turns out to be there | the node has restarted, and no call of its disk has ended since |
//! | a repair | a link or a port is there again | it is not |
//!
//! A time-out after which nobody would hear what is repeated, because of a cut, a crash or a queue pair in error, uses up all
//! retries at once: the walk through them would show nothing new.
//!
//! Time stands still, but for a node's own clock, which its work moves, and which jumps to the deadline that wakes
//! it. So what a node does depends on what it saw and on nothing else. Deadlines come in any order, so that a protocol whose
//! safety depends on time, on a lease say, would be refuted wrongly: such a world bounds how far clocks differ
//! ([`Policy::drift`]).
//!
//! A fault is an alternative [`Outcome`] of the event that it hits. [`Enabled::faults`] says which outcomes make
//! sense; how many faults a run may have is the explorer's to count.
//!
//! # Identities
//!
//! An [`EventId`] is made of what the event is about and of how often that has happened, counted
//! by its own actor. So it is the same in every run in which the same happened *to that actor*, whatever happened
//! elsewhere in between, and no two events of a run have the same. The same holds for [`Object`]s.
//!
//! # Footprints
//!
//! [`Fabric::take`](crate::Fabric::take) can say what a transition touched. Two transitions next to each other, of
//! different actors, whose footprints do not [conflict](Footprint::conflicts), lead to the same state in either
//! order. A test walks at random through small worlds, with all faults, and holds every such pair to that.

mod footprint;
pub(crate) mod identity;
mod outcome;
pub(crate) mod state_hash;

pub use footprint::{AccessKind, Footprint, Object, Touch};
pub use outcome::{FaultSet, Outcome};

use crate::NodeId;
use crate::choice::EventId;
use crate::world::State;
use thiserror::Error;
use weft_verbs::Nanos;

/// Who acts: the events of one actor happen one after the other. Stable from run to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Actor(pub u64);

impl Actor {
    /// Whether its name says nothing of what happened before. That of a packet out of order, which is an actor of its own, does.
    pub const fn is_lasting(self) -> bool {
        identity::is_lasting(self)
    }
}

/// Something that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enabled {
    /// What, by its stable identity.
    pub event: EventId,
    /// Who does it.
    pub actor: Actor,
    /// In which ways it can go wrong, besides going right.
    pub faults: FaultSet,
    /// It can happen because nothing else can: a time-out that nothing provoked. Where one event has this, all have
    /// it. Such an event comes after everything that happened before it, and each of them is to be tried: it
    /// excludes the others, since something else can happen afterwards.
    pub quiescent: bool,
}

/// A message of the connection managers that has not arrived yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Underway {
    /// Its arrival, should it arrive.
    pub event: EventId,
    /// Whose manager sent it.
    pub from: NodeId,
    /// To whose.
    pub to: NodeId,
    /// What it is, as in the event log: `req`, `rep`, `rtu`, `rej`, `dreq` or `drep`.
    pub name: &'static str,
}

/// What an event was, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The node whose program was stepped.
    pub stepped: Option<NodeId>,
    /// The node that crashed.
    pub crashed: Option<NodeId>,
    /// The node that crashed and is there again, without a program. Its next step belongs to the one that is
    /// [mounted](crate::Fabric::mount) before anything else happens.
    pub restarted: Option<NodeId>,
    /// It was to go wrong, and nothing came of that: a step [without memory](Outcome::NoMemory) that asked for none. The same is
    /// there without the fault.
    pub in_vain: bool,
}

/// The event cannot happen now, or not in this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("event {:#x} with outcome {outcome} is not enabled", event.0)]
pub struct NotEnabled {
    /// The event.
    pub event: EventId,
    /// How it was to end.
    pub outcome: Outcome,
}

/// A fabric as it was, without its programs: what [`Fabric::reset_to`](crate::Fabric::reset_to) goes back to.
#[derive(Clone, Debug)]
pub struct Snapshot(pub(crate) Box<State>);

/// When something may happen that only time brings: time-outs that nothing provoked, those of programs and those of
/// connection managers; and repairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Timers {
    /// When nothing else can happen: for protocols whose correctness does not depend on time.
    #[default]
    WhenQuiescent,
    /// At any moment: any node may be slow enough for any time-out.
    Any,
    /// Never: what is broken stays broken.
    Never,
}

/// What an untimed world offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Policy {
    /// When unprovoked time-outs may happen.
    pub timers: Timers,
    /// When what is broken may be repaired. When quiescent it is repaired before any time-out that nothing provoked.
    pub repairs: Timers,
    /// The kinds of faults that [`Enabled::faults`] offers where they make sense. None at first.
    pub faults: FaultSet,
    /// Whether an adapter shows its node completions, connections' events and asynchronous events in the one order in
    /// which they came. Otherwise whatever is there can be seen.
    pub in_order: bool,
    /// By how much the clocks of two nodes differ at most. A node's deadline may come when no live node has one that is
    /// earlier by more than that, and every other live node's clock is then at most so far behind; a node that restarts keeps its
    /// clock. `None`, and at first: each clock runs by itself, from zero after a restart, and deadlines come in any order.
    pub drift: Option<Nanos>,
    /// The only node that crashes and restarts. `None`, and at first: any does.
    pub mortal: Option<NodeId>,
}
