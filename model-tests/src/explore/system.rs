//! What the explorer asks of a transition system, and of what makes one.

use super::options::Reduction;
use super::size::Size;
use super::trace_event::TraceEvent;
use std::fmt;
use thiserror::Error;
use weft_sim::choice::EventId;
use weft_sim::explore::{Actor, Enabled, FaultSet, Footprint, NotEnabled, Outcome};

/// One execution, from its root: something whose every nondeterminism is which enabled event comes next, and how it
/// goes.
///
/// A transition system is deterministic: the same choices from the root lead to the same state, the same enabled events in the
/// same order, and the same footprints.
///
/// # What reductions rely on
///
/// Sleep sets and partial-order reduction leave out orders that cannot matter, and what cannot matter is decided by
/// footprints alone. So:
///
/// - What an event does must depend on nothing that is missing from its footprint, whatever its outcome, and what it
///   changes must be in it. What it does includes which events it enables: if its actor's next event is enabled or
///   not depending on a word, the event has looked at that word.
/// - Whether an event is enabled, and which faults could hit it, must depend on nothing that is missing from its
///   footprint, however it goes. An event that disables another changes something that the other looks at.
/// - What [`TransitionSystem::violation`] and [`TransitionSystem::finish`] judge by is touched too. Two grants on two nodes commute as far as
///   the nodes go; if an oracle cares which came first, both write what it looks at.
/// - Two touches of an object conflict unless both are reads. Events of one actor are always ordered.
/// - [`AccessKind::Cause`] orders, and is no race by itself. Two events that also conflict in another way are a race, unless
///   the later one was not enabled yet without the earlier one.
/// - An event that is enabled only in a quiescent state, because nothing else is, says so ([`Enabled::quiescent`]).
/// - How many faults there may be is the explorer's own business.
///
/// [`AccessKind::Cause`]: weft_sim::explore::AccessKind::Cause
pub trait TransitionSystem {
    /// Adds what can happen next to `out`, which is empty, in an order that depends on nothing but the state. If it
    /// adds nothing, the execution has come to its end.
    fn enabled(&mut self, out: &mut Vec<Enabled>);

    /// Lets an enabled event happen, and adds what it touched to `touched`.
    ///
    /// # Errors
    ///
    /// The event is not enabled, or cannot go that way.
    fn take(
        &mut self,
        event: EventId,
        outcome: Outcome,
        touched: Option<&mut Footprint>,
    ) -> Result<(), Stuck>;

    /// Whether the last event was to go wrong and nothing came of that: the same state is there without the fault, and what follows on
    /// it is explored from there.
    fn in_vain(&self) -> bool {
        false
    }

    /// What the events so far have broken. Asked after every event, so it must be cheap.
    fn violation(&mut self) -> Option<Violation>;

    /// Judges the end of an execution: every request ended, nothing is left over.
    ///
    /// # Errors
    ///
    /// The promise that was broken.
    fn finish(&mut self) -> Result<(), Violation>;

    /// The state by a fingerprint, if it can be told: equal states have equal ones, and different states have
    /// different ones but for chance. State caching needs it.
    fn fingerprint(&mut self) -> Option<Fingerprint> {
        None
    }

    /// Whether this actor's next event is the same one in all states that have the same fingerprint. If it is not (it is
    /// named by what happened before), state caching never leaves it out because it sleeps.
    fn is_lasting(&self, actor: Actor) -> bool {
        let _ = actor;
        true
    }

    /// Keeps the present state under a number, in place of what was kept under it. False if it cannot be kept.
    fn save(&mut self, number: usize) -> bool {
        let _ = number;
        false
    }

    /// Goes back to a state that was [saved](TransitionSystem::save). False if it is not there any more, and neither is any other: then
    /// there is only the root to go back to.
    fn restore(&mut self, number: usize) -> bool {
        let _ = number;
        false
    }

    /// Says which interesting branches this execution has reached. Asked once, at its end; in every execution all
    /// branches are named, in the same order.
    fn coverage(&mut self, sink: &mut Coverage) {
        let _ = sink;
    }

    /// The columns of a diagram: the nodes' names.
    fn columns(&self) -> Vec<String> {
        Vec::new()
    }

    /// Keeps a trace from now on, for people. Called at the root or never.
    fn record_trace(&mut self) {}

    /// Hands over what happened since the last call, if a trace is kept.
    fn take_trace(&mut self) -> Vec<TraceEvent> {
        Vec::new()
    }
}

/// What a model says of itself, before it is explored.
pub trait Described {
    /// The model's name, as reports and files have it.
    fn name(&self) -> &str;

    /// Its whole size as a user would write it, what is a default included. Empty if it has one size only.
    fn size(&self) -> Size {
        Size::default()
    }

    /// The sizes that are smaller by one thing, in the order in which a failure is looked for in them. Some may be too
    /// small for a world.
    fn smaller(&self) -> Vec<Size> {
        self.size().one_less()
    }

    /// How many initial configurations it has. If there are several, the first choice of an execution is in which of them it
    /// begins, by their numbers; and no state that follows on one has the fingerprint of a state that follows on another.
    fn configurations(&self) -> usize {
        1
    }

    /// The names of the promises that an execution may break, as [`Violation::oracle`] has them. Empty if it does not say.
    fn promises(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// The kinds of faults that it can be explored under.
    fn faults(&self) -> FaultSet {
        FaultSet::TIMELESS
    }

    /// Those of them that it is explored under unless somebody says which.
    fn usual_faults(&self) -> FaultSet {
        self.faults()
    }

    /// The most faults in one execution that it can be explored under, if there is a bound.
    fn most_faults(&self) -> Option<u32> {
        None
    }
}

/// Makes the executions of a model.
pub trait ModelFactory: Described {
    /// What it makes: one execution, from its root.
    type System: TransitionSystem;

    /// The only reduction that fits it, if there is one, whatever the options say: a system whose events all depend on one
    /// another gains nothing by partial orders, and is explored by its states.
    fn reduction(&self) -> Option<Reduction> {
        None
    }

    /// Told before the first root: which kinds of faults the exploration may choose. A system need not offer others.
    fn allow(&mut self, faults: FaultSet) {
        let _ = faults;
    }

    /// Told before the first root: whether states will be asked for their [fingerprints](TransitionSystem::fingerprint). What a system
    /// keeps for these alone it need not keep otherwise.
    fn compare(&mut self, states: bool) {
        let _ = states;
    }

    /// Told before the first root: whether executions will be many and much alike. Then what programs do is worth memoising.
    fn memoise(&mut self, many: bool) {
        let _ = many;
    }

    /// An execution at its root.
    fn root(&mut self) -> Self::System;

    /// Puts a used execution back to its root. This happens before every execution, so it is worth being fast.
    fn reset(&mut self, system: &mut Self::System) {
        *system = self.root();
    }
}

/// A transition system was asked to do what it cannot.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("event {:x} cannot end in '{outcome}' here", event.0)]
pub struct Stuck {
    /// The event.
    pub event: EventId,
    /// How it should have gone.
    pub outcome: Outcome,
}

impl From<NotEnabled> for Stuck {
    fn from(NotEnabled { event, outcome }: NotEnabled) -> Stuck {
        Stuck { event, outcome }
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Violation {
    /// The oracle that noticed it.
    pub oracle: String,
    /// What happened, in one line.
    pub text: String,
}

impl Violation {
    /// An oracle's complaint.
    pub fn new(oracle: impl Into<String>, text: impl Into<String>) -> Violation {
        Violation { oracle: oracle.into(), text: text.into() }
    }

    /// An execution that goes on and on.
    pub(super) fn endless(text: String) -> Violation {
        Violation::new(LIVELOCK, text)
    }

    /// An execution that comes back to where it was.
    pub(super) fn circle(first: usize, again: usize) -> Violation {
        Violation::endless(format!("{CIRCLE} {again} events is the one after {first}"))
    }

    /// Something in an execution has panicked, and said this.
    pub fn panic(said: impl Into<String>) -> Violation {
        Violation::new(PANIC, said)
    }

    /// Whether something has panicked.
    pub fn is_panic(&self) -> bool {
        self.oracle == PANIC
    }

    /// Whether an execution came back to where it was.
    pub(super) fn is_circle(&self) -> bool {
        self.oracle == LIVELOCK && self.text.starts_with(CIRCLE)
    }
}

/// What executions break that do not end.
pub(crate) const LIVELOCK: &str = "possible livelock";
/// What executions break in which a protocol, a model or an oracle gives up.
pub(crate) const PANIC: &str = "panic";
/// How those of them are told that come back to a state.
const CIRCLE: &str = "the state after";

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.oracle, self.text)
    }
}

/// A state in 128 bits. Of `n` different states, some two share one with a chance of about n^2 / 2^129: one in 10^20
/// for a billion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub u128);

/// How many executions reached each interesting branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    branches: Vec<(&'static str, u64)>,
    at: usize,
}

impl Coverage {
    /// The branch `name` was reached in this execution, or was not.
    pub fn sometimes(&mut self, name: &'static str, reached: bool) {
        // Every execution names the branches in the same order, so the next one is the right one.
        let here = match self.branches.get(self.at) {
            Some((known, _)) if *known == name => self.at,
            _ => self.find(name),
        };
        self.branches[here].1 += u64::from(reached);
        self.at = here + 1;
    }

    /// The next execution names its branches from the first on.
    pub(super) fn rewind(&mut self) {
        self.at = 0;
    }

    /// Each branch with the number of executions that reached it.
    pub fn branches(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.branches.iter().copied()
    }

    fn find(&mut self, name: &'static str) -> usize {
        if let Some(here) = self.branches.iter().position(|(known, _)| *known == name) {
            return here;
        }
        self.branches.push((name, 0));
        self.branches.len() - 1
    }
}
