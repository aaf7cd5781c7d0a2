//! How unfair a scheme is: how many later requests overtake an earlier one.

use crate::history::RequestId;
use crate::systems::locks::history::{Event, What};
use serde::Serialize;
use std::collections::BTreeMap;
use weft_protocols::locks::{LockKey, Mode};

/// Counts how many grants go past a waiting request to requests that were made after it.
///
/// A figure and no verdict: a request has its place from its atomic on, which a client cannot see, and
/// `ncosed` states no bound. A request's place here is the moment of its call.
#[derive(Clone, Debug, Default)]
pub struct Bypass {
    waiting: BTreeMap<LockKey, Vec<Waiting>>,
    most: MostBypassed,
}

/// The most that any request was overtaken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MostBypassed {
    /// The most grants that went past one waiting request.
    pub most: u64,
    /// The same, counting only exclusive grants past exclusive requests.
    pub most_exclusive: u64,
}

#[derive(Clone, Debug)]
struct Waiting {
    request: RequestId,
    mode: Mode,
    overtaken: u64,
    overtaken_exclusive: u64,
}

impl Bypass {
    /// Looks at the next event of the history.
    pub fn observe(&mut self, event: &Event) {
        match event.what {
            What::Requested { .. } => {
                let Event { request, mode, .. } = *event;
                let waiting = Waiting { request, mode, overtaken: 0, overtaken_exclusive: 0 };
                self.waiting.entry(event.key).or_default().push(waiting);
            }
            What::Granted { .. } => self.grant(event),
            What::TimedOut { .. } | What::Refused | What::Failed(_) => {
                self.leave(event);
            }
            What::Crashed => {
                let of_others = |of: &Waiting| of.request.client.node != event.request.client.node;
                self.waiting.values_mut().for_each(|waiting| waiting.retain(of_others));
            }
            What::Downgraded { .. } | What::Outlasts | What::Released | What::Lost => {}
            What::Leased { .. } | What::LeftOut => {}
        }
    }

    /// The figure so far.
    pub fn most(&self) -> MostBypassed {
        self.most
    }

    /// The granted request overtakes all that were made before it and still wait: those ahead in the list.
    fn grant(&mut self, event: &Event) {
        let Some(place) = self.leave(event) else { return };
        let waiting = self.waiting.entry(event.key).or_default();
        for earlier in &mut waiting[..place] {
            earlier.overtaken += 1;
            self.most.most = self.most.most.max(earlier.overtaken);
            if earlier.mode == Mode::Exclusive && event.mode == Mode::Exclusive {
                earlier.overtaken_exclusive += 1;
                self.most.most_exclusive = self.most.most_exclusive.max(earlier.overtaken_exclusive);
            }
        }
    }

    /// Takes the request out of the waiting ones; its place among them was this.
    fn leave(&mut self, event: &Event) -> Option<usize> {
        let waiting = self.waiting.get_mut(&event.key)?;
        let place = waiting.iter().position(|waiting| waiting.request == event.request)?;
        waiting.remove(place);
        Some(place)
    }
}
