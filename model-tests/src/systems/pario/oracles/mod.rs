//! The promises of files.

mod cells;
mod names;
#[cfg(test)]
mod tests;

pub use cells::Linearizable;
pub use names::Names;

use super::history::{Event, Timeless, What};
use crate::history::{HistoryEvent, RequestId};
use crate::oracle::{Oracle, Oracles, Violation};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use weft_verbs::Nanos;

/// Once faults stop, every call returns.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    open: BTreeMap<RequestId, Event>,
    made: u64,
}

impl Oracle<Event> for Progress {
    fn name(&self) -> &'static str {
        "progress"
    }

    fn promise(&self) -> &'static str {
        "once faults stop, every call returns"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        if matches!(event.what, What::Calls(_)) {
            self.made += 1;
            self.open.insert(event.request, event.clone());
        } else {
            self.open.remove(&event.request);
        }
        Ok(())
    }
}

/// All the oracles of files.
#[derive(Clone, Debug)]
pub struct FileOracles {
    bytes: Linearizable,
    names: Names,
    progress: Progress,
}

impl FileOracles {
    /// Oracles that have seen nothing, of files of so many names.
    pub fn new(names: u32) -> FileOracles {
        FileOracles {
            bytes: Linearizable::default(),
            names: Names::new(names),
            progress: Progress::default(),
        }
    }

    fn all(&mut self) -> [&mut dyn Oracle<Event>; 3] {
        [&mut self.bytes, &mut self.names, &mut self.progress]
    }
}

impl Oracles for FileOracles {
    type Event = Event;

    fn promises(&self) -> Vec<(&'static str, &'static str)> {
        let mut these = FileOracles::new(0);
        these.all().map(|oracle| (oracle.name(), oracle.promise())).to_vec()
    }

    fn observe(&mut self, event: &Event, broken: &mut dyn FnMut(Violation)) {
        for oracle in self.all() {
            if let Err(text) = oracle.observe(event) {
                broken(Violation { oracle: oracle.name(), at: event.at(), text });
            }
        }
    }

    fn ended(&self) -> u64 {
        self.progress.made - self.unended()
    }

    fn unended(&self) -> u64 {
        self.progress.open.len() as u64
    }

    fn finish(&mut self, now: Nanos, healthy: Nanos) -> Vec<Violation> {
        let oracle = self.progress.name();
        let violation = |open: &Event| Violation {
            oracle,
            at: now,
            text: format!(
                "{} and does not return since {}; the last fault was over {healthy} ago",
                Timeless(open),
                open.at()
            ),
        };
        self.progress.open.values().map(violation).collect()
    }

    fn state(&self, mut to: &mut dyn Hasher) {
        self.bytes.hash(&mut to);
        self.names.hash(&mut to);
    }
}
