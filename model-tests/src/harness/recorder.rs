//! The history recorder of an explored execution: what the clients of a model see, shown to its oracles as it happens.
//!
//! It shares with the recorder of runs ([`crate::record`], which says why there are two) what clients write to, [`Record`], and
//! what shows it to the oracles, [`Judge`].

use super::accesses::Accesses;
use crate::explore::{TraceEvent, Violation};
use crate::history::{HistoryEvent, Stage};
use crate::oracle::{self, Judge, Oracles};
use crate::record::Record;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use weft_sim::explore::AccessKind;
use weft_sim::memo::ObserverEffects;
use weft_verbs::Nanos;

/// Oracles under which a model can be explored. They are part of an execution's state: they are cloned when the state is
/// saved, and hashed when states are compared.
pub trait Explored: Oracles {
    /// How an event accesses what the oracles judge by: two events of which one writes it do not commute, though their
    /// nodes have not heard of each other. `None` if no verdict depends on the event's place. Unless oracles say otherwise, requests that
    /// begin are not ordered among each other, and everything else is: that is right wherever oracles judge by which request
    /// ended before which other began.
    fn access(event: &Self::Event) -> Option<AccessKind> {
        match event.stage() {
            Stage::Asked => Some(AccessKind::Read),
            Stage::Amid | Stage::Served | Stage::Other | Stage::OfNode => Some(AccessKind::Write),
        }
    }

    /// How an event accesses which requests have been made, beside all else that it accesses: a verdict may depend on that alone.
    fn of_requests(event: &Self::Event) -> Option<AccessKind> {
        let _ = event;
        None
    }

    /// Whether an event is a request's end that no verdict and no state of the oracles distinguishes from the other ends by its place among
    /// them: only what begins before or after it matters. Then the ends of two requests commute, though each conflicts
    /// with the beginnings of others.
    fn is_response(event: &Self::Event) -> bool {
        let _ = event;
        false
    }

    /// The event in a diagram, if it is worth a mark: in its own words, unless a model says otherwise.
    fn mark(event: &Self::Event) -> Option<TraceEvent> {
        Some(TraceEvent::Note { node: event.node(), text: event.to_string() })
    }
}

/// The history of a model that is judged at its end alone: it has no event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum NoEvent {}

impl fmt::Display for NoEvent {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl HistoryEvent for NoEvent {
    fn at(&self) -> Nanos {
        match *self {}
    }

    fn by_another_clock(self, _: Nanos) -> NoEvent {
        self
    }

    fn node(&self) -> u32 {
        match *self {}
    }

    fn stage(&self) -> Stage {
        match *self {}
    }
}

/// No oracles.
impl Oracles for () {
    type Event = NoEvent;

    fn promises(&self) -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }

    fn observe(&mut self, _: &NoEvent, _: &mut dyn FnMut(oracle::Violation)) {}

    fn ended(&self) -> u64 {
        0
    }

    fn unended(&self) -> u64 {
        0
    }

    fn finish(&mut self, _: Nanos, _: Nanos) -> Vec<oracle::Violation> {
        Vec::new()
    }

    fn state(&self, _: &mut dyn Hasher) {}
}

impl Explored for () {
    fn access(_: &NoEvent) -> Option<AccessKind> {
        None
    }
}

/// The record of one execution, in which all its clients write. Clones are the same record.
pub struct Recorder<O: Explored> {
    record: Rc<RefCell<Pages<O>>>,
    /// Carries out what memoised programs write.
    effects: Option<ObserverEffects>,
}

/// What is recorded.
#[derive(Clone)]
pub(super) struct Pages<O> {
    judge: Judge<O>,
    /// What happened since it was last asked for, if somebody asks.
    trace: Option<Vec<TraceEvent>>,
    /// How what the oracles judge by was accessed since it was last asked for.
    access: Accesses,
    /// What was noted, in its order.
    noted: u128,
}

impl<O: Explored> Clone for Recorder<O> {
    fn clone(&self) -> Recorder<O> {
        Recorder { record: Rc::clone(&self.record), effects: self.effects.clone() }
    }
}

impl<O: Explored> Recorder<O> {
    /// An empty record before these oracles, which have seen nothing.
    pub fn new(oracles: O) -> Recorder<O> {
        let record = Pages { judge: Judge::new(oracles), trace: None, access: Accesses::default(), noted: 0 };
        Recorder { record: Rc::new(RefCell::new(record)), effects: None }
    }

    /// The same record for memoised programs.
    #[must_use]
    pub(super) fn memoised_by(mut self, effects: ObserverEffects) -> Recorder<O> {
        self.effects = Some(effects);
        self
    }

    /// Keeps what is recorded.
    pub(super) fn save(&self) -> Pages<O> {
        self.record.borrow().clone()
    }

    /// Puts back what was recorded.
    pub(super) fn restore(&self, record: &Pages<O>) {
        self.record.borrow_mut().clone_from(record);
    }

    /// Begins anew, before oracles that have seen nothing.
    pub(super) fn clear(&self, oracles: O) {
        self.record.swap(&Recorder::new(oracles).record);
    }

    /// Writes, now and whenever a memoised program comes here again.
    fn write(&self, what: impl Fn(&mut Pages<O>) + 'static) {
        match &self.effects {
            None => what(&mut self.record.borrow_mut()),
            Some(effects) => {
                // Not for ever: the fabric keeps the programs' effects, and the record knows the fabric.
                let record = Rc::downgrade(&self.record);
                effects.apply(move || {
                    if let Some(record) = record.upgrade() {
                        what(&mut record.borrow_mut());
                    }
                });
            }
        }
    }

    /// Records at an execution's end what no program writes.
    pub fn record_at_end(&self, event: &O::Event) {
        self.record.borrow_mut().add(event);
    }

    /// Something has happened, by a number for it, whose place among all that is noted matters to a judgement at the end.
    pub fn note(&self, what: u64) {
        self.write(move |record| {
            record.access.kind = Some(AccessKind::Write);
            record.noted = (record.noted ^ (u128::from(what) + 1)).wrapping_mul(MIX).rotate_right(61);
        });
    }

    /// Says in words what happens on a node, if somebody asks for words.
    pub fn say(&self, node: u32, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.record.borrow_mut().trace {
            trace.push(TraceEvent::Note { node, text: what() });
        }
    }

    /// Looks at the oracles.
    pub fn oracles<T>(&self, look: impl FnOnce(&O) -> T) -> T {
        look(self.record.borrow().judge.oracles())
    }

    /// Judges the end of an execution without a fault.
    pub(super) fn unharmed(&self) -> Option<Violation> {
        self.oracles(|oracles| oracles.finish_unharmed()).map(Violation::from)
    }

    /// Judges an end, whether or not all requests have ended: nothing will happen any more. The first promise that is broken.
    pub(super) fn judge_end(&self) -> Option<Violation> {
        let judge = &mut self.record.borrow_mut().judge;
        judge.judge_end(Nanos::ZERO, Nanos::ZERO);
        first(judge)
    }

    /// Adds to a hash what the oracles judge by, and what was noted, in its order.
    pub(super) fn state(&self, to: &mut impl Hasher) {
        let record = self.record.borrow();
        record.judge.state(to);
        record.noted.hash(to);
    }

    /// How what happened since the last call accessed what the oracles judge by.
    pub(super) fn take_access(&self) -> Accesses {
        std::mem::take(&mut self.record.borrow_mut().access)
    }

    /// The first promise that was broken.
    pub(crate) fn violation(&self) -> Option<Violation> {
        first(&self.record.borrow().judge)
    }

    /// Keeps a trace from now on.
    pub(super) fn record_trace(&self) {
        self.record.borrow_mut().trace.get_or_insert_default();
    }

    /// What happened since the last call, if a trace is kept.
    pub(super) fn take_trace(&self) -> Vec<TraceEvent> {
        self.record.borrow_mut().trace.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl<O: Explored> Pages<O> {
    fn add(&mut self, event: &O::Event) {
        self.judge.observe(event);
        match O::is_response(event) {
            true => self.access.responses |= 1 << (event.node() % u64::BITS),
            false => self.access.kind = self.access.kind.max(O::access(event)),
        }
        self.access.requests = self.access.requests.max(O::of_requests(event));
        if let Some(trace) = &mut self.trace {
            trace.extend(O::mark(event));
        }
    }
}

/// The same recorder for clients of any system.
impl<O: Explored> Record<O::Event> for Recorder<O> {
    fn record(&self, event: O::Event) {
        self.write(move |record| record.add(&event));
    }
}

/// The first promise that was broken, without times: nobody looks at a clock here.
fn first<O: Oracles>(judge: &Judge<O>) -> Option<Violation> {
    let mut violation = Violation::from(judge.violations().first()?.clone());
    for time in [" since 0 ns", "; the last fault was over 0 ns ago"] {
        violation.text = violation.text.replace(time, "");
    }
    Some(violation)
}

impl From<oracle::Violation> for Violation {
    fn from(violation: oracle::Violation) -> Violation {
        Violation::new(violation.oracle, violation.text)
    }
}

/// An odd number without a pattern.
const MIX: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
