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

    fn finish_unharmed(&self) -> Option<Violation> {
        self.oracles.finish_unharmed()
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
    use crate::explore::{Options, explore};
    use crate::harness::{Harness, Meeting, Member, Model, Shape};
    use std::ops::ControlFlow;
    use weft_verbs::Wait;

    const ASKS: What = What::Requested { deadline: None };
    const TRIES: What = What::Requested { deadline: Some(Nanos::ZERO) };

    const fn granted(token: u64) -> What {
        What::Granted { token: Some(Token(token)) }
    }

    /// Two nodes that know nothing of each other, and what is recorded of a shared request of each, in each step one.
    struct Strangers {
        tokens: bool,
        happens: [&'static [What]; 2],
    }

    impl Model for Strangers {
        type State = ();
        type Oracles = WorldOracles;

        fn shape(&self) -> Shape {
            Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
        }

        fn meeting(&self) -> Meeting {
            Meeting::Unmet
        }

        fn oracles(&self) -> WorldOracles {
            WorldOracles::new(self.tokens)
        }

        fn start(&self, _: usize, members: &[Member], recorder: &Recorder) {
            for ((node, Member { rt, .. }), happens) in (0..).zip(members).zip(self.happens) {
                let (recorder, clock) = (recorder.clone(), rt.clone());
                let request = RequestId { client: ClientId { node, index: 0 }, number: 0 };
                let (at, key, mode) = (Nanos::ZERO, LockKey(0), Mode::Shared);
                drop(rt.spawn(async move {
                    for (number, &what) in (0u32..).zip(happens) {
                        recorder.record(Event { at, request, key, mode, what });
                        clock.yield_now().at(number).await;
                    }
                }));
            }
        }
    }

    /// The promise that some order of what two nodes do breaks, whichever of them does what.
    fn broken(tokens: bool, one: &'static [What], other: &'static [What]) -> Vec<Option<String>> {
        let both = [[one, other], [other, one]];
        let broken = both.map(|happens| {
            let mut harness = Harness::new("strangers", Strangers { tokens, happens });
            let options = Options::default();
            let report = explore(&mut harness, &options, &mut |_| ControlFlow::Continue(()));
            report.expect("explores").counterexample.map(|found| found.violation.oracle)
        });
        broken.to_vec()
    }

    #[test]
    fn two_who_share_at_one_time_with_two_tokens_are_found_whichever_comes_first() {
        const LOWER: &[What] = &[ASKS, granted(1), What::Released];
        const HIGHER: &[What] = &[ASKS, granted(2), What::Released];
        assert_eq!(broken(true, LOWER, LOWER), [None, None]);
        let found = Some("fencing tokens".to_string());
        assert_eq!(broken(true, LOWER, HIGHER), [found.clone(), found]);
    }

    #[test]
    fn who_tries_alone_and_is_refused_is_found_though_another_one_asks_later() {
        const SHARES: &[What] = &[ASKS, What::Granted { token: None }, What::Released];
        const REFUSED: &[What] = &[TRIES, What::Refused];
        let found = Some("in vain".to_string());
        assert_eq!(broken(false, SHARES, REFUSED), [found.clone(), found]);
    }

    #[test]
    fn who_share_without_tokens_come_and_go_in_any_order() {
        const SHARES: &[What] = &[ASKS, What::Granted { token: None }, What::Released];
        let mut harness = Harness::new("strangers", Strangers { tokens: false, happens: [SHARES; 2] });
        let report = explore(&mut harness, &Options::default(), &mut |_| ControlFlow::Continue(()));
        assert_eq!(report.expect("explores").executions, 1);
    }
}
