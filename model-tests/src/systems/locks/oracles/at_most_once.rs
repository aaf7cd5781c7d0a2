//! A request is granted at most once, and only if it was made and is still wanted.

use crate::history::RequestId;
use crate::oracle::Oracle;
use crate::systems::locks::history::{Event, What};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// A request is granted at most once, and only if it was made and is still wanted.
///
/// A grant that comes after the deadline fired must never reach the client; that the service passes such a
/// grant on instead of keeping it is what [`crate::oracle::Leaks`] and [`super::Progress`] see.
#[derive(Clone, Debug, Default)]
pub struct AtMostOnce {
    requests: BTreeMap<RequestId, Stage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Waiting,
    Holding,
    Over(&'static str),
}

impl Stage {
    fn words(self) -> &'static str {
        match self {
            Stage::Waiting => "waits",
            Stage::Holding => "holds the lock already",
            Stage::Over(how) => how,
        }
    }
}

impl AtMostOnce {
    /// Adds to a hash where each request stands.
    pub(super) fn state(&self, mut to: &mut dyn Hasher) {
        self.requests.hash(&mut to);
    }
}

impl Oracle<Event> for AtMostOnce {
    fn name(&self) -> &'static str {
        "at most once"
    }

    fn promise(&self) -> &'static str {
        "granted at most once, and only while wanted"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        match event.what {
            What::Leased { .. } | What::LeftOut => return Ok(()),
            What::Crashed => {
                // Its next clients number their requests anew.
                self.requests.retain(|request, _| request.client.node != event.request.client.node);
                return Ok(());
            }
            _ => {}
        }
        let before = self.requests.get(&event.request).copied();
        let (needs, next, verb) = match event.what {
            What::Requested { .. } => (None, Stage::Waiting, "is made"),
            What::Granted { .. } => (Some(Stage::Waiting), Stage::Holding, "is granted"),
            What::Downgraded { .. } => (Some(Stage::Holding), Stage::Holding, "is downgraded"),
            What::Outlasts => (Some(Stage::Holding), Stage::Holding, "outlasts all else"),
            What::Released => (Some(Stage::Holding), Stage::Over("has released it"), "releases it"),
            What::TimedOut { .. } => (Some(Stage::Waiting), Stage::Over("has given up"), "gives up"),
            What::Refused => (Some(Stage::Waiting), Stage::Over("has been refused"), "is refused"),
            What::Failed(_) => (Some(Stage::Waiting), Stage::Over("has failed"), "fails"),
            What::Lost | What::Leased { .. } | What::LeftOut | What::Crashed => {
                (Some(Stage::Holding), Stage::Over("has lost it"), "loses it")
            }
        };
        self.requests.insert(event.request, next);
        if before == needs {
            return Ok(());
        }
        let was = before.map_or("was never made", Stage::words);
        Err(format!("{} {verb} on lock {}, but {was}", event.request, event.key))
    }
}
