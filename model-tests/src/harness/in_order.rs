//! A system's oracles where nobody looks at a clock.

use super::recorder::Explored;
use crate::explore::TraceEvent;
use crate::history::HistoryEvent;
use crate::oracle::{Oracles, Violation};
use std::hash::Hasher;
use weft_sim::explore::AccessKind;
use weft_verbs::Nanos;

/// Oracles where no time passes: events happen in the order of recording, far apart.
#[derive(Clone)]
pub struct InOrder<O> {
    /// What judges them.
    pub oracles: O,
    events: u64,
}

impl<O: Oracles> InOrder<O> {
    /// These oracles, which have seen nothing.
    pub fn new(oracles: O) -> InOrder<O> {
        InOrder { oracles, events: 0 }
    }
}

impl<O: Oracles> Oracles for InOrder<O> {
    type Event = O::Event;

    fn promises(&self) -> Vec<(&'static str, &'static str)> {
        self.oracles.promises()
    }

    fn observe(&mut self, event: &O::Event, broken: &mut dyn FnMut(Violation)) {
        self.events += 1;
        let event = event.clone().by_another_clock(Nanos::from_secs(self.events));
        let events = self.events;
        self.oracles.observe(&event, &mut |violation| broken(without_times(violation, events)));
    }

    fn ended(&self) -> u64 {
        self.oracles.ended()
    }

    fn unended(&self) -> u64 {
        self.oracles.unended()
    }

    fn finish(&mut self, now: Nanos, healthy: Nanos) -> Vec<Violation> {
        let broken = self.oracles.finish(now, healthy).into_iter();
        broken.map(|violation| without_times(violation, self.events)).collect()
    }

    fn finish_unharmed(&self) -> Option<Violation> {
        self.oracles.finish_unharmed().map(|violation| without_times(violation, self.events))
    }

    fn state(&self, to: &mut dyn Hasher) {
        self.oracles.state(to);
    }
}

/// A violation that does not say since when: that would be the number of one of so many events.
fn without_times(violation: Violation, events: u64) -> Violation {
    let since = |event| format!(" since {}", Nanos::from_secs(event));
    let text = (1..=events).fold(violation.text, |text, event| text.replace(&since(event), ""));
    Violation { text, ..violation }
}

impl<O: Explored> Explored for InOrder<O> {
    fn access(event: &O::Event) -> Option<AccessKind> {
        O::access(event)
    }

    fn is_response(event: &O::Event) -> bool {
        O::is_response(event)
    }

    fn of_requests(event: &O::Event) -> Option<AccessKind> {
        O::of_requests(event)
    }

    fn mark(event: &O::Event) -> Option<TraceEvent> {
        O::mark(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::{Answers, Call, Promise};
    use crate::history::{ClientId, RequestId};

    /// Sees all and shows nothing.
    #[derive(Clone)]
    struct Silent;

    impl Oracles for Silent {
        type Event = Call<u64, u64>;

        fn promises(&self) -> Vec<(&'static str, &'static str)> {
            Vec::new()
        }

        fn observe(&mut self, _: &Self::Event, _: &mut dyn FnMut(Violation)) {}

        fn ended(&self) -> u64 {
            0
        }

        fn unended(&self) -> u64 {
            0
        }

        fn finish(&mut self, _: Nanos, _: Nanos) -> Vec<Violation> {
            Vec::new()
        }

        fn state(&self, _: &mut dyn Hasher) {}
    }

    impl Explored for Silent {
        fn mark(_: &Self::Event) -> Option<TraceEvent> {
            None
        }
    }

    #[test]
    fn diagrams_show_what_a_systems_oracles_say() {
        let id = RequestId { client: ClientId { node: 0, index: 0 }, number: 0 };
        let event = Call { at: Nanos::ZERO, id, request: 1, end: None };
        assert_eq!(InOrder::<Silent>::mark(&event), None);
    }

    /// Promises nothing but that calls end.
    #[derive(Clone, Default, Hash)]
    struct Any;

    impl Promise<u64, u64> for Any {
        const NAME: &'static str = "any";
        const PROMISE: &'static str = "any answer is right";

        fn asked(&mut self, _: ClientId, _: &u64) {}

        fn answered(&mut self, _: ClientId, _: &u64, _: &u64) -> Result<(), String> {
            Ok(())
        }
    }

    #[test]
    fn a_request_without_an_end_is_told_without_a_time_that_is_none() {
        let mut oracles = InOrder::new(Answers::<Any, u64, u64>::default());
        for number in 0..2 {
            let id = RequestId { client: ClientId { node: 0, index: 0 }, number };
            let call = Call { at: Nanos::ZERO, id, request: 1, end: None };
            oracles.observe(&call, &mut |violation| panic!("{violation}"));
        }
        let told: Vec<String> =
            oracles.finish(Nanos::ZERO, Nanos::ZERO).into_iter().map(|of| of.text).collect();
        assert_eq!(told, [0, 1].map(|n| format!("n0/c0#{n} waits; the last fault was over 0 ns ago")));
    }
}
