//! The segments that a home keeps, by name, and which of them wait for other nodes.

use super::{Kept, State};
use crate::ddss::Name;
use crate::transport::Rank;
use std::collections::{BTreeMap, BTreeSet};

/// Segments by name. One that is kept changes by [`Segments::change`] alone: whether it waits for others is known after that, and nobody has to
/// look at all of them.
#[derive(Debug, Default)]
pub(super) struct Segments {
    all: BTreeMap<Name, Kept>,
    /// Those that wait for other nodes.
    awaiting: BTreeSet<Name>,
}

impl Segments {
    pub fn get(&self, name: Name) -> Option<&Kept> {
        self.all.get(&name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Name, &Kept)> {
        self.all.iter().map(|(name, kept)| (*name, kept))
    }

    /// Those of them that wait for other nodes.
    pub fn awaiting(&self) -> impl Iterator<Item = (Name, &Kept)> {
        self.awaiting.iter().filter_map(|name| Some((*name, self.all.get(name)?)))
    }

    /// Keeps one.
    pub fn insert(&mut self, name: Name, kept: Kept) {
        self.all.insert(name, kept);
        self.change(name, |_| ());
    }

    /// Does something with the one of a name, if there is one.
    pub fn change<T>(&mut self, name: Name, does: impl FnOnce(&mut Kept) -> T) -> Option<T> {
        let kept = self.all.get_mut(&name)?;
        let done = does(kept);
        if kept.awaited().next().is_some() {
            self.awaiting.insert(name);
        } else {
            self.awaiting.remove(&name);
        }
        Some(done)
    }

    /// Does something with each of them.
    pub fn change_all<T>(&mut self, mut does: impl FnMut(Name, &mut Kept) -> T) -> Vec<T> {
        let names: Vec<Name> = self.all.keys().copied().collect();
        names.into_iter().filter_map(|name| self.change(name, |kept| does(name, kept))).collect()
    }

    /// Does not keep the one of a name any more.
    pub fn remove(&mut self, name: Name) -> Option<Kept> {
        self.awaiting.remove(&name);
        self.all.remove(&name)
    }
}

impl Kept {
    /// The nodes for which it waits: those that have not drained it, or the one whose turn it is.
    pub fn awaited(&self) -> impl Iterator<Item = Rank> {
        let missing = self.leaving.iter().flat_map(|leaving| leaving.missing.iter().copied());
        let serves = match (&self.leaving, &self.line.state) {
            (None, State::Serving(node)) => Some(*node),
            _ => None,
        };
        missing.chain(serves)
    }
}
