//! The promises of files.

mod cells;
mod names;
#[cfg(test)]
mod tests;

pub use cells::Linearizable;
pub use names::Names;

use super::history::Event;
use crate::oracle::{Oracle, Oracles, Returns, Violation, show};
use std::hash::{Hash, Hasher};
use weft_verbs::Nanos;

/// All the oracles of files.
#[derive(Clone, Debug)]
pub struct FileOracles {
    bytes: Linearizable,
    names: Names,
    progress: Returns<Event>,
}

impl FileOracles {
    /// Oracles that have seen nothing, of files of so many names.
    pub fn new(names: u32) -> FileOracles {
        FileOracles { bytes: Linearizable::default(), names: Names::new(names), progress: Returns::default() }
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
        show(event, self.all(), broken);
    }

    fn ended(&self) -> u64 {
        self.progress.ended()
    }

    fn unended(&self) -> u64 {
        self.progress.unended()
    }

    fn finish(&mut self, now: Nanos, healthy: Nanos) -> Vec<Violation> {
        self.progress.finish(now, healthy).collect()
    }

    fn state(&self, mut to: &mut dyn Hasher) {
        self.bytes.hash(&mut to);
        self.names.hash(&mut to);
    }
}
