//! What a call says that ends without a grant, and what a client is told that has one.

use crate::history::RequestId;
use crate::oracle::{Oracle, Outcasts, Violation, unexplained};
use crate::systems::locks::history::{Event, What, Why};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use weft_verbs::Nanos;

/// A request ends without its lock, or loses it, with cause: who wants to wait is not refused, who waits to the end does not give up, and
/// faults of links are repaired and not told.
#[derive(Clone, Debug, Default)]
pub struct Causes {
    /// Requests that wait, with how long they would, if not for ever.
    waiting: BTreeMap<RequestId, Option<Nanos>>,
    outcasts: Outcasts,
    /// The history does not say whom views leave out.
    unsaid: bool,
}

impl Causes {
    /// The same, of a history that does not say whom views leave out.
    #[must_use]
    pub fn unsaid(self) -> Causes {
        Causes { unsaid: true, ..self }
    }

    /// Adds to a hash what is to be judged yet, and by what.
    pub fn state(&self, mut to: &mut dyn Hasher) {
        (&self.waiting, &self.outcasts).hash(&mut to);
    }

    /// What nothing has explained by the end.
    pub fn finish(&self, now: Nanos) -> impl Iterator<Item = Violation> {
        self.outcasts.finish(self.name(), now)
    }
}

impl Oracle<Event> for Causes {
    fn name(&self) -> &'static str {
        "causes"
    }

    fn promise(&self) -> &'static str {
        "nobody is refused or loses a lock without cause"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        let node = event.request.client.node;
        let patience = match event.what {
            What::Requested { deadline } => {
                let patience = deadline.map(|deadline| Nanos(deadline.0.saturating_sub(event.at.0)));
                self.waiting.insert(event.request, patience);
                return Ok(());
            }
            What::Crashed => {
                self.waiting.retain(|request, _| request.client.node != node);
                self.outcasts.crashes(node);
                return Ok(());
            }
            What::LeftOut => {
                self.outcasts.is_left_out(node);
                return Ok(());
            }
            _ => self.waiting.remove(&event.request),
        };
        // Of a request that was never made another oracle speaks.
        let has_cause = match event.what {
            What::TimedOut { early } => {
                early == Nanos::ZERO && patience.is_none_or(|patience| patience.is_some())
            }
            What::Refused => patience.is_none_or(|patience| patience == Some(Nanos::ZERO)),
            What::Failed(Why::LeftOut) | What::Lost => {
                if !self.unsaid {
                    self.outcasts.says(node, || event.to_string());
                }
                true
            }
            What::Failed(Why::Other) => false,
            _ => true,
        };
        if has_cause { Ok(()) } else { Err(unexplained(&event.to_string())) }
    }
}
