//! The promises of files.

mod causes;
mod cells;
mod lost;
mod names;
mod opened;
mod places;
mod sizes;
#[cfg(test)]
mod tests;
mod together;
mod told;
mod whole;

pub use causes::Causes;
pub use cells::{Linearizable, Survival};
pub use names::Names;
pub use opened::Opened;
pub use places::Places;
pub use together::Together;
pub use told::Told;

use super::history::{Event, What};
use crate::history::HistoryEvent;
use crate::oracle::{Oracle, Oracles, Returns, Violation, show};
use std::hash::{Hash, Hasher};
use weft_verbs::Nanos;
use whole::Whole;

/// All the oracles of files.
#[derive(Clone, Debug)]
pub struct FileOracles {
    bytes: Linearizable,
    names: Names,
    places: Places,
    opened: Opened,
    told: Told,
    together: Together,
    causes: Causes,
    /// Where all transfers are of one unit.
    whole: Option<Whole>,
    progress: Returns<Event>,
    /// How many nodes are servers, the first ones.
    servers: u32,
}

impl FileOracles {
    /// Oracles that have seen nothing, of files of so many names, spread over so many directories; 0 for the root.
    pub fn new(names: u32, directories: u32) -> FileOracles {
        let (bytes, progress) = (Linearizable::default(), Returns::default());
        let (names, places) = (Names::new(names, directories), Places::default());
        let (opened, told, together) = (Opened::default(), Told::default(), Together::default());
        let (causes, whole) = (Causes::default(), None);
        FileOracles { bytes, names, places, opened, told, together, causes, whole, progress, servers: 1 }
    }

    /// The same where the first so many nodes are servers, and what of theirs survives a crash.
    pub fn surviving(mut self, servers: u32, survival: Survival) -> FileOracles {
        (self.servers, self.bytes.unsynced.servers, self.bytes.survival) = (servers, servers, survival);
        (self.told.survival, self.told.spread) = (survival, servers > 1);
        self
    }

    /// The same where the strips of the n-th file begin at the n-th server, and have so many bytes.
    pub fn striped(mut self, strip: u32) -> FileOracles {
        self.bytes.unsynced.strip = strip;
        self
    }

    /// The same where calls may fail whose server lives on, and does later what it was asked: by byte streams.
    pub fn failing_early(mut self, early: bool) -> FileOracles {
        (self.places.late, self.names.late, self.causes.by_stream) = (early, early, early);
        self
    }

    /// The same where a client may lose what it has open without a crash of its own.
    pub fn losing_open(mut self, loses: bool) -> FileOracles {
        self.opened.unpromised = loses;
        self
    }

    /// The same where calls about names are asked again of a home that began anew: it has a log of them.
    pub fn asking_again(mut self, asks: bool) -> FileOracles {
        self.causes.asks_again = asks;
        self
    }

    /// The same where nodes that are no servers are guests.
    pub fn of_guests(mut self, guests: bool) -> FileOracles {
        self.causes.guests = guests.then_some(self.servers);
        self
    }

    /// The same where clients call together.
    pub fn of_groups(mut self, together: bool) -> FileOracles {
        self.causes.together = together;
        self
    }

    /// The same where all transfers are of one unit.
    pub fn of_one_unit(mut self, are: bool) -> FileOracles {
        self.whole = are.then(Whole::default);
        self
    }

    /// The names of which it is known whether they are there, and the file that has one, where that is known, too.
    pub fn known_names(&self) -> Vec<(u32, bool, Option<u64>)> {
        self.names.known().collect()
    }

    fn restarted(&mut self, node: u32, at: Nanos) {
        let serves = node < self.servers;
        self.causes.restarted(node, serves);
        self.bytes.restarted(node, serves, at);
        let all_gone = serves && self.bytes.survival == Survival::Nothing;
        self.names.restarted(node, all_gone);
        self.opened.restarted(node, node == 0, all_gone);
        self.places.restarted(node, node == 0, all_gone, at);
        self.told.restarted(node, serves, at);
        self.whole.iter_mut().for_each(Whole::loosen);
        self.progress.node_restarted(node);
    }

    fn all(&mut self) -> impl Iterator<Item = &mut dyn Oracle<Event>> {
        let FileOracles { bytes, names, places, opened, told, together, causes, whole, progress, .. } = self;
        let always: [&mut dyn Oracle<Event>; 8] =
            [bytes, names, places, opened, told, together, causes, progress];
        always.into_iter().chain(whole.iter_mut().map(|whole| whole as &mut dyn Oracle<Event>))
    }
}

impl Oracles for FileOracles {
    type Event = Event;

    fn promises(&self) -> Vec<(&'static str, &'static str)> {
        let mut these = FileOracles::new(0, 0).of_one_unit(self.whole.is_some());
        these.all().map(|oracle| (oracle.name(), oracle.promise())).collect()
    }

    fn observe(&mut self, event: &Event, broken: &mut dyn FnMut(Violation)) {
        if event.what == What::Restarted {
            return self.restarted(event.node(), event.at());
        }
        show(event, self.all(), broken);
    }

    fn ended(&self) -> u64 {
        self.progress.ended()
    }

    fn unended(&self) -> u64 {
        self.progress.unended()
    }

    fn oldest(&self) -> Option<Nanos> {
        self.progress.oldest()
    }

    fn finish(&mut self, now: Nanos, healthy: Nanos) -> Vec<Violation> {
        self.progress.finish(now, healthy).collect()
    }

    fn finish_unharmed(&self) -> Option<Violation> {
        self.causes.first().or_else(|| self.whole.as_ref()?.finish_unharmed())
    }

    fn state(&self, mut to: &mut dyn Hasher) {
        self.bytes.hash(&mut to);
        self.names.hash(&mut to);
        self.places.hash(&mut to);
        self.opened.hash(&mut to);
        self.told.hash(&mut to);
        self.together.hash(&mut to);
        self.causes.hash(&mut to);
        self.whole.hash(&mut to);
    }
}
