//! The names of files and what they stand for: one flat directory on its home server.
//!
//! It is kept in memory; its [changes](Change) are what the [log](super::log) has. Who has which file open is not in the log: a home
//! that begins anew asks all nodes, and ends no file before it has heard of each.

use super::super::error::Refusal;
use super::super::messages::{Reader, Writer};
use super::super::{Distribution, Handle, Name};
use crate::transport::Rank;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// A file, as its home knows it.
#[derive(Clone, Debug, Hash)]
struct Inode {
    layout: Distribution,
    /// It has a name.
    linked: bool,
    /// Its objects are being removed.
    ending: bool,
    /// How often each client has it open.
    opens: BTreeMap<Rank, u32>,
}

/// A file whose last name and last open are gone: its objects are to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Gone {
    pub handle: Handle,
    pub layout: Distribution,
}

/// A change that must survive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A file was made.
    Create { handle: Handle, name: Name, layout: Distribution },
    /// A name was removed.
    Unlink { name: Name },
    /// A file without a name has no objects any more.
    Ended { handle: Handle },
}

/// The directory.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Names {
    entries: BTreeMap<Name, Handle>,
    inodes: BTreeMap<Handle, Inode>,
    /// How many handles were given out.
    given: u64,
    /// Nodes that may have files open of which this life has not heard, and the last handle up to which each has told.
    unheard: BTreeMap<Rank, Handle>,
}

impl Names {
    /// Makes a file and opens it for a client.
    pub(super) fn create(
        &mut self,
        server: u16,
        from: Rank,
        name: Name,
        layout: Distribution,
    ) -> Result<(Handle, Change), Refusal> {
        if self.entries.contains_key(&name) {
            return Err(Refusal::Exists);
        }
        let handle = Handle::of(server, self.given);
        let change = Change::Create { handle, name, layout };
        self.apply(&change);
        if let Some(inode) = self.inodes.get_mut(&handle) {
            inode.opens.insert(from, 1);
        }
        Ok((handle, change))
    }

    /// Makes a change that was made before, and that the log has.
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Create { handle, name, layout } => {
                self.given = self.given.max(handle.number());
                self.entries.insert(name.clone(), *handle);
                let (layout, opens) = (*layout, BTreeMap::new());
                self.inodes.insert(*handle, Inode { layout, linked: true, ending: false, opens });
            }
            Change::Unlink { name } => {
                let handle = self.entries.remove(name);
                if let Some(inode) = handle.and_then(|handle| self.inodes.get_mut(&handle)) {
                    inode.linked = false;
                }
            }
            Change::Ended { handle } => drop(self.inodes.remove(handle)),
        }
    }

    /// Takes back a change that could not be made durable, the latest first. Of an unlink, of which file it was.
    pub(super) fn undo(&mut self, change: &Change, unlinked: Option<Handle>) {
        match (change, unlinked) {
            (Change::Create { handle, name, .. }, _) => {
                self.entries.remove(name);
                self.inodes.remove(handle);
            }
            (Change::Unlink { name }, Some(handle)) => {
                self.entries.insert(name.clone(), handle);
                if let Some(inode) = self.inodes.get_mut(&handle) {
                    inode.linked = true;
                }
            }
            // What has ended is not there again for that: it will be ended once more.
            _ => {}
        }
    }

    /// Opens a file for a client.
    pub(super) fn open(&mut self, from: Rank, name: &Name) -> Result<(Handle, Distribution), Refusal> {
        let handle = *self.entries.get(name).ok_or(Refusal::NotFound)?;
        let inode = self.inodes.get_mut(&handle).ok_or(Refusal::NotFound)?;
        *inode.opens.entry(from).or_default() += 1;
        Ok((handle, inode.layout))
    }

    /// A client closes what it opened once, in this life of the home or in an earlier one. A file without a name may end with that.
    pub(super) fn close(&mut self, from: Rank, handle: Handle, earlier: bool) -> Result<(), Refusal> {
        // What this life has not heard of, it will not be told of either: the client has closed it.
        if earlier && self.unheard.get(&from).is_some_and(|told| handle > *told) {
            return Ok(());
        }
        let Some(inode) = self.inodes.get_mut(&handle).filter(|inode| inode.opens.contains_key(&from)) else {
            return if earlier { Ok(()) } else { Err(Refusal::Stale) };
        };
        if let Some(opens) = inode.opens.get_mut(&from) {
            *opens -= 1;
        }
        inode.opens.retain(|_, opens| *opens > 0);
        Ok(())
    }

    /// Removes a name; of which file it was. That lives until it is closed everywhere.
    pub(super) fn unlink(&mut self, name: &Name) -> Result<(Handle, Change), Refusal> {
        let handle = *self.entries.get(name).ok_or(Refusal::NotFound)?;
        let change = Change::Unlink { name: name.clone() };
        self.apply(&change);
        Ok((handle, change))
    }

    /// Asks these nodes what they have open: until each has been heard of, no file ends.
    pub(super) fn ask(&mut self, nodes: impl Iterator<Item = Rank>) {
        self.unheard.extend(nodes.map(|node| (node, Handle(0))));
    }

    /// A node has these files open so often, beside what it has opened in this life; and others behind them, if there are more.
    pub(super) fn heard(&mut self, of: Rank, open: &[(Handle, u32)], more: bool) {
        let Some(told) = self.unheard.get_mut(&of) else { return };
        match open.last() {
            Some((last, _)) if more => *told = *last,
            _ => drop(self.unheard.remove(&of)),
        }
        for (handle, opens) in open {
            if let Some(inode) = self.inodes.get_mut(handle) {
                *inode.opens.entry(of).or_default() += opens;
            }
        }
    }

    /// A client forgot what it had open.
    pub(super) fn forget(&mut self, client: Rank) {
        self.unheard.remove(&client);
        for inode in self.inodes.values_mut() {
            inode.opens.remove(&client);
        }
    }

    /// Files that nobody can reach any more: each is told once.
    pub(super) fn unused(&mut self) -> Vec<Gone> {
        let unlinked = self.inodes.iter().filter(|(_, inode)| !inode.linked);
        let all: Vec<Handle> = unlinked.map(|(handle, _)| *handle).collect();
        all.into_iter().filter_map(|handle| self.end_if_unused(handle)).collect()
    }

    /// A file is told to be gone if nobody can reach it any more.
    pub(super) fn end_if_unused(&mut self, handle: Handle) -> Option<Gone> {
        if !self.unheard.is_empty() {
            return None;
        }
        let inode = self.inodes.get_mut(&handle)?;
        if inode.linked || inode.ending || !inode.opens.is_empty() {
            return None;
        }
        inode.ending = true;
        Some(Gone { handle, layout: inode.layout })
    }

    /// The whole directory, but for who has what open.
    pub(super) fn encode(&self, to: &mut Writer) {
        to.u64(self.given);
        to.u64(self.entries.len() as u64);
        for (name, handle) in &self.entries {
            to.u64(handle.0);
            to.name(name);
        }
        for (handle, inode) in &self.inodes {
            to.u64(handle.0);
            to.layout(inode.layout);
        }
    }

    /// Reads it.
    pub(super) fn decode(from: &mut Reader<'_>) -> Option<Names> {
        let (given, entries) = (from.u64()?, from.u64()?);
        let mut names = Names { given, ..Names::default() };
        for _ in 0..entries {
            let handle = from.handle()?;
            names.entries.insert(from.name()?, handle);
        }
        let linked: BTreeSet<Handle> = names.entries.values().copied().collect();
        while !from.0.is_empty() {
            let handle = from.handle()?;
            let (layout, linked) = (from.layout()?, linked.contains(&handle));
            names.inodes.insert(handle, Inode { layout, linked, ending: false, opens: BTreeMap::new() });
        }
        Some(names)
    }

    /// All names, in order.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&Name, Handle)> {
        self.entries.iter().map(|(name, handle)| (name, *handle))
    }

    /// Files without a name.
    pub(super) fn unlinked(&self) -> impl Iterator<Item = Handle> {
        self.inodes.iter().filter(|(_, inode)| !inode.linked).map(|(handle, _)| *handle)
    }

    /// Whether a handle was never given out, as far as is known here.
    pub(super) fn is_unheard_of(&self, handle: Handle) -> bool {
        handle.number() > self.given
    }

    /// Whether there is such a file, with a name or without.
    pub(super) fn knows(&self, handle: Handle) -> bool {
        self.inodes.contains_key(&handle)
    }

    /// Whether there is no file.
    pub(super) fn is_empty(&self) -> bool {
        self.inodes.is_empty()
    }

    /// The names behind one, in order, as many as fit into so many bytes; whether there are more.
    pub(super) fn list(&self, after: Option<&Name>, bytes: usize) -> (Vec<Name>, bool) {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (mut names, mut left) = (Vec::new(), bytes);
        for name in self.entries.range((from, Bound::Unbounded)).map(|(name, _)| name) {
            match left.checked_sub(1 + name.as_str().len()) {
                Some(rest) => left = rest,
                None => return (names, true),
            }
            names.push(name.clone());
        }
        (names, false)
    }

    /// How many files are open, by anybody.
    pub(super) fn open_files(&self) -> usize {
        self.inodes.values().filter(|inode| !inode.opens.is_empty()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(n: u32) -> Rank {
        Rank::from_index(n)
    }

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    const LAYOUT: Distribution = Distribution::single(0);

    #[test]
    fn a_name_stands_for_one_file_and_no_handle_comes_again() {
        let mut names = Names::default();
        let (first, _) = names.create(0, rank(0), name("a"), LAYOUT).unwrap();
        assert_eq!(names.create(0, rank(1), name("a"), LAYOUT), Err(Refusal::Exists));
        assert_eq!(names.open(rank(1), &name("b")), Err(Refusal::NotFound));
        assert_eq!(names.unlink(&name("a")).map(|(handle, _)| handle), Ok(first));
        assert!(names.unused().is_empty(), "open at n0");
        let (second, _) = names.create(0, rank(0), name("a"), LAYOUT).unwrap();
        assert_ne!(first, second);
        assert_eq!(names.open(rank(1), &name("a")), Ok((second, LAYOUT)));
    }

    #[test]
    fn an_unlinked_file_lives_until_its_last_close() {
        let mut names = Names::default();
        let (handle, _) = names.create(0, rank(0), name("a"), LAYOUT).unwrap();
        names.open(rank(1), &name("a")).unwrap();
        names.unlink(&name("a")).unwrap();
        assert!(names.unused().is_empty());
        assert_eq!(names.close(rank(0), handle, false), Ok(()));
        assert_eq!(names.close(rank(0), handle, false), Err(Refusal::Stale), "closed already");
        assert!(names.unused().is_empty(), "open at n1");
        names.forget(rank(1));
        assert_eq!(names.unused(), [Gone { handle, layout: LAYOUT }]);
        assert!(names.unused().is_empty(), "told once");
        assert_eq!(names.close(rank(1), handle, false), Err(Refusal::Stale));
        assert_eq!(names.open_files(), 0);
    }

    #[test]
    fn in_its_next_life_a_home_ends_no_file_before_it_has_heard_who_has_it_open() {
        let mut names = Names::default();
        let (handle, _) = names.create(0, rank(0), name("a"), LAYOUT).unwrap();
        names.forget(rank(0));
        names.ask([rank(1), rank(2)].into_iter());
        names.unlink(&name("a")).unwrap();
        assert!(names.unused().is_empty());
        names.heard(rank(1), &[(handle, 2)], true);
        assert_eq!(
            names.close(rank(1), handle, true),
            Ok(()),
            "closed after it has told, and before it has told all"
        );
        names.heard(rank(1), &[], false);
        assert_eq!(names.close(rank(2), handle, true), Ok(()), "closed before it was asked");
        names.heard(rank(2), &[], false);
        assert!(names.unused().is_empty(), "n1 has it open");
        assert_eq!(names.close(rank(1), handle, true), Ok(()));
        assert_eq!(names.unused(), [Gone { handle, layout: LAYOUT }]);
    }

    #[test]
    fn a_change_that_found_no_room_is_taken_back() {
        let mut names = Names::default();
        let (kept, _) = names.create(0, rank(0), name("a"), LAYOUT).unwrap();
        let (_, made) = names.create(0, rank(0), name("b"), LAYOUT).unwrap();
        let (handle, unlinked) = names.unlink(&name("a")).unwrap();
        names.undo(&unlinked, Some(handle));
        names.undo(&made, None);
        assert_eq!(names.list(None, 100).0, [name("a")]);
        assert_eq!(names.open(rank(1), &name("a")), Ok((kept, LAYOUT)));
    }

    #[test]
    fn a_long_directory_is_listed_in_pieces() {
        let mut names = Names::default();
        for text in ["c", "a", "bb", "d"] {
            names.create(0, rank(0), name(text), LAYOUT).unwrap();
        }
        let (some, more) = names.list(None, 6);
        assert_eq!((some, more), (vec![name("a"), name("bb")], true));
        let (rest, more) = names.list(Some(&name("bb")), 6);
        assert_eq!((rest, more), (vec![name("c"), name("d")], false));
    }
}
