//! An exclusive holder is alone; shared holders exclude exclusive ones.

use crate::history::RequestId;
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
#[derive(Clone, Debug, Default)]
pub struct MutualExclusion {
    locks: BTreeMap<LockKey, Holders>,
}

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
            What::Granted { .. } => self.locks.entry(event.key).or_default().grant(event),
            What::Downgraded { .. } => {
                self.locks.entry(event.key).or_default().downgrade(event);
                Ok(())
            }
            What::Released => {
                self.locks.entry(event.key).or_default().release(event);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Holders {
    fn grant(&mut self, event: &Event) -> Result<(), String> {
        let judged = self.alone(event).and_then(|()| self.after_releases(event));
        self.now.push(Holder { request: event.request, mode: event.mode, since: event.at });
        judged
    }

    fn downgrade(&mut self, event: &Event) {
        if let Some(holder) = self.now.iter_mut().find(|holder| holder.request == event.request) {
            let was = std::mem::replace(&mut holder.mode, Mode::Shared);
            self.ended(was, event);
        }
    }

    fn release(&mut self, event: &Event) {
        if let Some(place) = self.now.iter().position(|holder| holder.request == event.request) {
            let was = self.now.remove(place);
            self.ended(was.mode, event);
        }
    }

    /// A hold in this mode was over then.
    fn ended(&mut self, mode: Mode, event: &Event) {
        let last = match mode {
            Mode::Exclusive => &mut self.last_exclusive,
            Mode::Shared => &mut self.last_shared,
        };
        if last.is_none_or(|(_, at)| at < event.at) {
            *last = Some((event.request, event.at));
        }
    }

    fn alone(&self, event: &Event) -> Result<(), String> {
        let Some(other) = self.now.iter().find(|holder| !event.mode.goes_with(holder.mode)) else {
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
