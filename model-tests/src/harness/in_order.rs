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
        self.oracles.observe(&event, broken);
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
    use crate::calls::Call;
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
        let event = Call { at: Nanos::ZERO, id, request: 1, answer: None };
        assert_eq!(InOrder::<Silent>::mark(&event), None);
    }
}
