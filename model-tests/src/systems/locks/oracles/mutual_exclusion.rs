//! An exclusive holder is alone; shared holders exclude exclusive ones.

use crate::history::{HistoryEvent, RequestId};
use crate::oracle::Oracle;
use crate::systems::locks::history::{Event, What};
use std::collections::BTreeMap;
use weft_protocols::locks::{LockKey, Mode};
use weft_verbs::Nanos;

/// An exclusive holder is alone; shared holders exclude exclusive ones. A hold that is downgraded is an exclusive
/// one that ends, and a shared one that takes its place.
///
/// Two things are checked at a grant. No holder may be recorded that the new one does not go with. And the
/// grant may not be earlier, in virtual time, than the last release of a holder that it does not go with: a
/// node's clock runs ahead of the fabric's within a step, so a release may be recorded before, and lie after,
/// a grant at another node.
///
/// Where there is a membership, what a node's clients hold counts while the node's lease runs: another grant that a hold does not
/// go with may come once that has run out, and then that lease may never run again.
#[derive(Clone, Debug, Default)]
pub struct MutualExclusion {
    locks: BTreeMap<LockKey, Holders>,
    /// Until when each node's lease runs, if it has had one.
    leases: BTreeMap<u32, Nanos>,
}

type Leases = BTreeMap<u32, Nanos>;

#[derive(Clone, Debug, Default)]
struct Holders {
    now: Vec<Holder>,
    last_exclusive: Option<(RequestId, Nanos)>,
    last_shared: Option<(RequestId, Nanos)>,
}

#[derive(Clone, Debug)]
struct Holder {
    request: RequestId,
    mode: Mode,
    since: Nanos,
    /// Its node has crashed: its lease runs until then.
    dead: Option<Nanos>,
    /// It did not count when another one was granted that it does not go with.
    superseded: bool,
}

impl Holder {
    /// Whether it is the one that an event is about. (The next clients of a node that crashed number their requests anew.)
    fn is(&self, event: &Event) -> bool {
        self.request == event.request && self.dead.is_none()
    }

    fn counts(&self, at: Nanos, leases: &Leases) -> bool {
        let until = self.dead.or_else(|| leases.get(&self.request.client.node).copied());
        !self.superseded && until.is_none_or(|until| at < until)
    }
}

impl Oracle<Event> for MutualExclusion {
    fn name(&self) -> &'static str {
        "mutual exclusion"
    }

    fn promise(&self) -> &'static str {
        "an exclusive holder is alone"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        match event.what {
            What::Granted { .. } => self.locks.entry(event.key).or_default().grant(event, &self.leases),
            What::Leased { until, .. } => self.leased(event, until),
            What::Crashed => {
                let node = event.request.client.node;
                let until = self.leases.remove(&node).unwrap_or(event.at);
                self.locks.values_mut().for_each(|lock| lock.crashed(node, until));
                Ok(())
            }
            What::Downgraded { .. } => {
                self.locks.entry(event.key).or_default().downgrade(event, &self.leases);
                Ok(())
            }
            What::Released | What::Lost => {
                self.locks.entry(event.key).or_default().release(event, &self.leases);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl MutualExclusion {
    /// A node's lease runs on, or again.
    fn leased(&mut self, event: &Event, until: Nanos) -> Result<(), String> {
        let node = event.request.client.node;
        let before = self.leases.insert(node, until);
        if before.is_some_and(|before| event.at < before) {
            return Ok(());
        }
        self.locks.iter().try_for_each(|(key, lock)| lock.counts_again(*key, node, event.at, &self.leases))
    }
}

impl Holders {
    fn grant(&mut self, event: &Event, leases: &Leases) -> Result<(), String> {
        let (request, mode, since) = (event.request, event.mode, event.at);
        let holder = Holder { request, mode, since, dead: None, superseded: false };
        // A client that is told too late has nothing by it, unless its lease runs again.
        let judged = match holder.counts(event.at, leases) {
            true => self.alone(event, leases).and_then(|()| self.after_releases(event)),
            false => Ok(()),
        };
        self.now.push(holder);
        judged
    }

    /// A node's clients are gone, and what they held counts until its lease has run out.
    fn crashed(&mut self, node: u32, until: Nanos) {
        let alive = |holder: &&mut Holder| holder.request.client.node == node && holder.dead.is_none();
        self.now.iter_mut().filter(alive).for_each(|holder| holder.dead = Some(until));
    }

    /// What clients of a node hold counts again.
    fn counts_again(&self, key: LockKey, node: u32, at: Nanos, leases: &Leases) -> Result<(), String> {
        let of_node = |holder: &&Holder| holder.request.client.node == node && holder.dead.is_none();
        for holder in self.now.iter().filter(of_node) {
            let rival = |other: &&Holder| {
                other.request != holder.request
                    && !other.mode.goes_with(holder.mode)
                    && other.counts(at, leases)
            };
            let rival = self.now.iter().find(rival);
            if holder.superseded || rival.is_some() {
                let other =
                    rival.map_or_else(|| "another one".to_string(), |other| other.request.to_string());
                return Err(format!(
                    "{} holds lock {key} {} since {}, and its lease runs again after {other} was granted it",
                    holder.request, holder.mode, holder.since
                ));
            }
        }
        Ok(())
    }

    fn downgrade(&mut self, event: &Event, leases: &Leases) {
        if let Some(holder) = self.now.iter_mut().find(|holder| holder.is(event)) {
            let was = holder.clone();
            holder.mode = Mode::Shared;
            self.ended(&was, event, leases);
        }
    }

    fn release(&mut self, event: &Event, leases: &Leases) {
        if let Some(place) = self.now.iter().position(|holder| holder.is(event)) {
            let was = self.now.remove(place);
            self.ended(&was, event, leases);
        }
    }

    /// A hold was over then, if its node's lease had not run out before. One that was superseded by then counted no more when that
    /// happened.
    fn ended(&mut self, was: &Holder, event: &Event, leases: &Leases) {
        if was.superseded {
            return;
        }
        let until = leases.get(&event.node()).map_or(event.at, |until| event.at.min(*until));
        let last = match was.mode {
            Mode::Exclusive => &mut self.last_exclusive,
            Mode::Shared => &mut self.last_shared,
        };
        if last.is_none_or(|(_, at)| at < until) {
            *last = Some((event.request, until));
        }
    }

    fn alone(&mut self, event: &Event, leases: &Leases) -> Result<(), String> {
        let conflicts = |holder: &Holder| !event.mode.goes_with(holder.mode);
        let Some(other) = self.now.iter().find(|holder| conflicts(holder) && holder.counts(event.at, leases))
        else {
            self.now.retain(|holder| !conflicts(holder) || holder.dead.is_none());
            let lapsed = self.now.iter_mut().filter(|holder| conflicts(holder));
            lapsed.for_each(|holder| holder.superseded = true);
            return Ok(());
        };
        Err(format!(
            "{} is granted lock {} {}, which {} holds {} since {}",
            event.request, event.key, event.mode, other.request, other.mode, other.since
        ))
    }

    fn after_releases(&self, event: &Event) -> Result<(), String> {
        let shared = self.last_shared.filter(|_| event.mode == Mode::Exclusive);
        let last = self.last_exclusive.into_iter().chain(shared).max_by_key(|&(_, at)| at);
        match last {
            Some((other, until)) if event.at < until => Err(format!(
                "{} is granted lock {} {} at {}, which {} held until {until}",
                event.request, event.key, event.mode, event.at, other
            )),
            _ => Ok(()),
        }
    }
}
