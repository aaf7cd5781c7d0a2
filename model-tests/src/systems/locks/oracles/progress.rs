//! Once faults stop, every request ends.

use crate::history::RequestId;
use crate::oracle::{Oracle, PROGRESS, Violation};
use crate::systems::locks::history::{Event, What};
use std::collections::BTreeMap;
use weft_protocols::locks::{LockKey, Mode};
use weft_verbs::Nanos;

/// Once faults stop, every request ends within a bound of virtual time.
///
/// It knows which requests are open, so that at the bound it can say which did not end and who held the lock
/// that they wait for.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    open: BTreeMap<RequestId, Open>,
    made: u64,
    /// When a lock was granted or given back last.
    handed_on: Nanos,
}

/// A request that is open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub key: LockKey,
    pub mode: Mode,
    since: Nanos,
    /// It gives up at once if it would have to wait.
    pub tries: bool,
    pub holds: bool,
}

impl Progress {
    /// How many requests have ended, a lock that was granted having been released.
    pub fn ended(&self) -> u64 {
        self.made - self.unended()
    }

    /// How many requests were made.
    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// How many requests have not ended.
    pub fn unended(&self) -> u64 {
        self.open.len() as u64
    }

    /// Since when the oldest of those holds, or waits and no lock goes from hand to hand: in a queue a request may wait for many holds.
    pub(super) fn oldest(&self) -> Option<Nanos> {
        let since = |open: &Open| if open.holds { open.since } else { open.since.max(self.handed_on) };
        self.open.values().map(since).min()
    }

    /// The requests that have not ended.
    pub(super) fn open(&self) -> &BTreeMap<RequestId, Open> {
        &self.open
    }

    /// The requests that have not ended by `now`, each as a violation; `healthy` is for how long nothing had
    /// gone wrong by then.
    pub fn finish(&self, now: Nanos, healthy: Nanos) -> Vec<Violation> {
        let violation = |(request, open): (&RequestId, &Open)| Violation {
            oracle: self.name(),
            at: now,
            text: format!("{}; the last fault was over {healthy} ago", self.complaint(*request, open)),
        };
        self.open.iter().map(violation).collect()
    }

    fn complaint(&self, request: RequestId, open: &Open) -> String {
        let Open { key, mode, since, holds, .. } = *open;
        if holds {
            return format!("{request} holds lock {key} {mode} since {since} and its client has not gone on");
        }
        let holders: Vec<String> =
            self.open.iter().filter(|(_, other)| other.key == key && other.holds).map(holder).collect();
        let held = if holders.is_empty() { "nobody holds".into() } else { holders.join(" and ") };
        format!("{request} waits for lock {key} {mode} since {since}, which {held}")
    }
}

fn holder((request, open): (&RequestId, &Open)) -> String {
    format!("{request} holds {} since {}", open.mode, open.since)
}

impl Oracle<Event> for Progress {
    fn name(&self) -> &'static str {
        PROGRESS
    }

    fn promise(&self) -> &'static str {
        "once faults stop, every request ends"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        let Event { at, request, key, mode, what } = *event;
        self.made += u64::from(matches!(what, What::Requested { .. }));
        match what {
            What::Leased { .. } | What::LeftOut | What::Outlasts => {}
            What::Crashed => self.open.retain(|request, _| request.client.node != event.request.client.node),
            _ if what.ends() => {
                if self.open.remove(&request).is_some_and(|open| open.holds) {
                    self.handed_on = at;
                }
            }
            // It holds as long as it did, and lets others in.
            What::Downgraded { .. } => {
                self.open.entry(request).and_modify(|open| open.mode = Mode::Shared);
            }
            _ => {
                let holds = matches!(what, What::Granted { .. });
                self.handed_on = if holds { at } else { self.handed_on };
                let tries = matches!(what, What::Requested { deadline: Some(deadline) } if deadline <= at);
                self.open.insert(request, Open { key, mode, since: at, tries, holds });
            }
        }
        Ok(())
    }
}
