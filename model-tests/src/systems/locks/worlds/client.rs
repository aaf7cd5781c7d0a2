//! What the clients of the lock worlds do, and what judges them.

use crate::explore::{BandState, TraceEvent};
use crate::harness::{self, Explored};
use crate::history::{ClientId, RequestId};
use crate::oracle::{Oracles, Violation};
use crate::record::Record;
use crate::systems::locks::history::{Event, What};
use crate::systems::locks::oracles::LockOracles;
use std::hash::Hasher;
use weft_protocols::locks::{LockKey, Mode, Token};
use weft_protocols::rt::{Rt, WaitPoint};
use weft_sim::explore::AccessKind;
use weft_verbs::{Nanos, Verbs};

/// A lock world's recorder.
pub type Recorder = harness::Recorder<WorldOracles>;

/// The oracles of a lock service, in a world that is explored.
#[derive(Clone, Default)]
pub struct WorldOracles {
    oracles: LockOracles,
    /// All that happened, if a judgement at the end needs it.
    events: Option<Vec<Event>>,
    /// A bit for each node that has asked for something.
    asked: u64,
}

impl WorldOracles {
    /// Oracles that have seen nothing. `tokens` says whether every grant must carry a fencing token.
    pub fn new(tokens: bool) -> WorldOracles {
        WorldOracles { oracles: LockOracles::new(tokens), ..WorldOracles::default() }
    }

    /// The same oracles, which keep all events for a judgement at the end.
    #[must_use]
    pub fn keeping_events(self) -> WorldOracles {
        WorldOracles { events: Some(Vec::new()), ..self }
    }

    /// All events so far, if they are kept.
    pub fn events(&self) -> &[Event] {
        self.events.as_deref().unwrap_or_default()
    }

    /// Whether any client of a node has asked for anything.
    pub fn has_asked(&self, node: u32) -> bool {
        self.asked & 1 << node != 0
    }
}

impl Oracles for WorldOracles {
    type Event = Event;

    fn promises(&self) -> Vec<(&'static str, &'static str)> {
        self.oracles.promises()
    }

    fn observe(&mut self, event: &Event, broken: &mut dyn FnMut(Violation)) {
        self.oracles.observe(event, broken);
        if let What::Requested { .. } = event.what {
            self.asked |= 1 << event.request.client.node;
        }
        if let Some(events) = &mut self.events {
            events.push(*event);
        }
    }

    fn ended(&self) -> u64 {
        self.oracles.ended()
    }

    fn unended(&self) -> u64 {
        self.oracles.unended()
    }

    fn finish(&mut self, now: Nanos, healthy: Nanos) -> Vec<Violation> {
        self.oracles.finish(now, healthy)
    }

    fn state(&self, to: &mut dyn Hasher) {
        self.oracles.state(to);
    }
}

impl Explored for LockOracles {
    /// Shared holders come in any order, and go in any order; an exclusive holder does not.
    fn access(event: &Event) -> Option<AccessKind> {
        match (event.what, event.mode) {
            // All has happened that can when a hold outlasts all else.
            (What::Requested { .. } | What::Outlasts, _) => None,
            (_, Mode::Exclusive) => Some(AccessKind::Write),
            (_, Mode::Shared) => Some(AccessKind::Read),
        }
    }

    /// Those who share at one time have one token: a shared grant with a token is judged by which of the others have not gone yet. One
    /// without is not.
    fn is_response(event: &Event) -> bool {
        let judged = matches!(event.what, What::Granted { token: Some(_) });
        event.mode == Mode::Shared && Self::access(event).is_some() && !judged
    }

    /// Who tries is refused only if another request has been made.
    fn of_requests(event: &Event) -> Option<AccessKind> {
        match event.what {
            What::Requested { .. } => Some(AccessKind::Read),
            What::Refused => Some(AccessKind::Write),
            _ => None,
        }
    }
}

impl Explored for WorldOracles {
    fn access(event: &Event) -> Option<AccessKind> {
        LockOracles::access(event)
    }

    fn is_response(event: &Event) -> bool {
        LockOracles::is_response(event)
    }

    fn of_requests(event: &Event) -> Option<AccessKind> {
        LockOracles::of_requests(event)
    }

    fn mark(event: &Event) -> Option<TraceEvent> {
        let state = match (event.what, event.mode) {
            (What::Outlasts, _) => return None,
            (What::Requested { .. }, mode) => BandState::Waiting(format!("asks {mode}")),
            (What::Granted { .. }, Mode::Shared) => BandState::Shared("shares".into()),
            (What::Granted { .. }, Mode::Exclusive) => BandState::Exclusive("holds".into()),
            _ => BandState::Nothing,
        };
        let of = format!("lock {}", event.key.0);
        Some(TraceEvent::Band { node: event.request.client.node, of, state })
    }
}

/// A lock as a client uses it, whoever made it.
pub trait Locker {
    /// What is held.
    type Held;

    /// Takes the lock.
    fn lock(&self, mode: Mode) -> impl Future<Output = Self::Held>;

    /// Gives it back.
    fn unlock(&self, held: Self::Held) -> impl Future<Output = ()>;

    /// The fencing token of a hold, if it has one.
    fn token(_held: &Self::Held) -> Option<Token> {
        None
    }
}

/// A client: takes a lock in these modes, one after the other, and holds it each time until its node's next step, so
/// that whatever should not happen meanwhile can happen.
///
/// It is not the client of scenarios, which holds a lock for a time: where no time passes, such a hold would either end in the
/// step in which it began, or last until nothing else can happen. And the locks that are planted here have no lock service.
pub async fn client<V: Verbs, L: Locker>(
    rt: Rt<V>,
    recorder: Recorder,
    node: u32,
    key: LockKey,
    modes: Vec<Mode>,
    lock: L,
) {
    for (number, mode) in (0..).zip(modes) {
        let request = RequestId { client: ClientId { node, index: 0 }, number };
        let record = |what| recorder.record(Event { at: Nanos::ZERO, request, key, mode, what });
        record(What::Requested { deadline: None });
        let held = lock.lock(mode).at((number, "asks")).await;
        record(What::Granted { token: L::token(&held) });
        rt.yield_now().at((number, "holds")).await;
        record(What::Released);
        lock.unlock(held).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(mode: Mode, what: What) -> Event {
        let request = RequestId { client: ClientId { node: 1, index: 0 }, number: 0 };
        Event { at: Nanos::ZERO, request, key: LockKey(0), mode, what }
    }

    #[test]
    fn a_shared_token_is_judged_by_who_still_shares_and_not_by_who_came_first() {
        let commutes_with_ends = |what| WorldOracles::is_response(&event(Mode::Shared, what));
        assert!(commutes_with_ends(What::Released));
        assert!(commutes_with_ends(What::Lost));
        assert!(commutes_with_ends(What::Granted { token: None }));
        let granted = What::Granted { token: Some(Token(1)) };
        assert!(!commutes_with_ends(granted));
        assert_eq!(WorldOracles::access(&event(Mode::Shared, granted)), Some(AccessKind::Read));
        let alone = event(Mode::Exclusive, What::Released);
        assert_eq!(
            (WorldOracles::is_response(&alone), WorldOracles::access(&alone)),
            (false, Some(AccessKind::Write))
        );
    }

    #[test]
    fn who_is_refused_has_its_place_among_all_that_ask_whatever_it_asked_for() {
        for mode in [Mode::Shared, Mode::Exclusive] {
            let of_requests = |what| WorldOracles::of_requests(&event(mode, what));
            assert_eq!(of_requests(What::Refused), Some(AccessKind::Write));
            assert_eq!(of_requests(What::Requested { deadline: None }), Some(AccessKind::Read));
            assert_eq!(of_requests(What::Released), None);
        }
    }
}
