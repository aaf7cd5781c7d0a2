//! The names of files and what they stand for: all directories are on their home server.
//!
//! It is kept in memory; its [changes](Change) are what the [log](super::log) has. Who has which file open is not in the log: a home
//! that begins anew asks all nodes, and ends no file before it has heard of each.

use super::super::error::Refusal;
use super::super::messages::{Reader, Writer};
use super::super::{DirEntry, Distribution, Handle, Name, Path};
use super::tree::{Entry, Tree};
use crate::transport::Rank;
use std::collections::{BTreeMap, BTreeSet};

/// What stands for a directory where a file has its handle: no file has that.
const A_DIRECTORY: u64 = 0;

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
    Create { handle: Handle, path: Path, layout: Distribution },
    /// A file's name was removed.
    Unlink { path: Path },
    /// A directory was made.
    MakeDirectory { path: Path },
    /// A directory, in which nothing was, was removed.
    RemoveDirectory { path: Path },
    /// A file or a directory has another path. A file that had it has no name any more.
    Rename { from: Path, to: Path },
    /// A file without a name has no objects any more.
    Ended { handle: Handle },
}

impl Change {
    /// Whether it takes room for good: other changes must find some where these find none.
    pub(super) fn makes(&self) -> bool {
        matches!(self, Change::Create { .. } | Change::MakeDirectory { .. } | Change::Rename { .. })
    }
}

/// All directories.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Names {
    tree: Tree,
    inodes: BTreeMap<Handle, Inode>,
    /// How many handles were given out.
    given: u64,
    /// Nodes that may have files open of which this life has not heard, and the last handle up to which each has told.
    unheard: BTreeMap<Rank, Handle>,
}

impl Names {
    /// No directories, in a life of a home that leaves nothing behind. Other servers may have objects of the lives before, and clients
    /// their handles: this one gives out handles from a place on that those lives had not come to. The last digits count, as
    /// they do where names are kept.
    pub(super) fn in_memory(epoch: u64) -> Names {
        Names { given: epoch & ((1 << 47) - 1) & !0xffff, ..Names::default() }
    }

    /// Makes a file and opens it for a client.
    pub(super) fn create(
        &mut self,
        server: u16,
        from: Rank,
        path: Path,
        layout: Distribution,
    ) -> Result<(Handle, Change), Refusal> {
        self.tree.vacant(&path)?;
        let handle = Handle::of(server, self.given);
        let change = Change::Create { handle, path, layout };
        self.apply(&change);
        if let Some(inode) = self.inodes.get_mut(&handle) {
            inode.opens.insert(from, 1);
        }
        Ok((handle, change))
    }

    /// Makes a change that was made before, and that the log has.
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Create { handle, path, layout } => {
                self.given = self.given.max(handle.number());
                self.tree.put(path.clone(), Entry::File(*handle));
                let (layout, opens) = (*layout, BTreeMap::new());
                self.inodes.insert(*handle, Inode { layout, linked: true, ending: false, opens });
            }
            Change::Unlink { path } => {
                let entry = self.tree.remove(path);
                self.set_linked(entry, false);
            }
            Change::MakeDirectory { path } => self.tree.put(path.clone(), Entry::Directory),
            Change::RemoveDirectory { path } => drop(self.tree.remove(path)),
            Change::Rename { from, to } => {
                let replaced = if from == to { None } else { self.tree.remove(to) };
                self.set_linked(replaced, false);
                self.tree.shift(from, to);
            }
            Change::Ended { handle } => drop(self.inodes.remove(handle)),
        }
    }

    fn set_linked(&mut self, entry: Option<Entry>, linked: bool) {
        if let Some(Entry::File(handle)) = entry
            && let Some(inode) = self.inodes.get_mut(&handle)
        {
            inode.linked = linked;
        }
    }

    /// Takes back a change that could not be made durable, the latest first. `unlinked`: which file lost its name by it.
    pub(super) fn undo(&mut self, change: &Change, unlinked: Option<Handle>) {
        let lost = unlinked.map(Entry::File);
        let place = match change {
            Change::Create { handle, path, .. } => {
                self.inodes.remove(handle);
                self.tree.remove(path);
                path
            }
            Change::MakeDirectory { path } => {
                self.tree.remove(path);
                path
            }
            Change::RemoveDirectory { path } => return self.tree.put(path.clone(), Entry::Directory),
            Change::Rename { from, to } => {
                self.tree.shift(to, from);
                to
            }
            Change::Unlink { path } => path,
            // What has ended is not there again for that: it will be ended once more.
            Change::Ended { .. } => return,
        };
        if let Some(lost) = lost {
            self.tree.put(place.clone(), lost);
        }
        self.set_linked(lost, true);
    }

    /// Opens a file for a client.
    pub(super) fn open(&mut self, from: Rank, path: &Path) -> Result<(Handle, Distribution), Refusal> {
        let handle = self.tree.file(path)?;
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

    /// Removes a file's name; of which file it was. That lives until it is closed everywhere.
    pub(super) fn unlink(&mut self, path: &Path) -> Result<(Handle, Change), Refusal> {
        let handle = self.tree.file(path)?;
        Ok((handle, self.make(Change::Unlink { path: path.clone() })))
    }

    /// Makes a directory.
    pub(super) fn make_directory(&mut self, path: Path) -> Result<Change, Refusal> {
        self.tree.vacant(&path)?;
        Ok(self.make(Change::MakeDirectory { path }))
    }

    /// Removes a directory in which nothing is.
    pub(super) fn remove_directory(&mut self, path: Path) -> Result<Change, Refusal> {
        self.tree.vacated(&path)?;
        Ok(self.make(Change::RemoveDirectory { path }))
    }

    /// Gives a file or a directory another path; which file lost its name by that, if one may. Nothing changes where the paths are the
    /// same.
    pub(super) fn rename(
        &mut self,
        from: Path,
        to: Path,
        replaces: bool,
    ) -> Result<Option<(Option<Handle>, Change)>, Refusal> {
        if from == to && self.tree.entry(&from).is_some() {
            return Ok(None);
        }
        let replaced = self.tree.movable(&from, &to)?;
        if replaced.is_some() && !replaces {
            return Err(Refusal::Exists);
        }
        Ok(Some((replaced, self.make(Change::Rename { from, to }))))
    }

    fn make(&mut self, change: Change) -> Change {
        self.apply(&change);
        change
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
        to.u64(self.tree.len() as u64);
        for (path, entry) in self.tree.all() {
            to.u64(if let Entry::File(handle) = entry { handle.0 } else { A_DIRECTORY });
            to.path(path);
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
            let entry = match from.u64()? {
                A_DIRECTORY => Entry::Directory,
                handle => Entry::File(Handle(handle)),
            };
            names.tree.put(from.path()?, entry);
        }
        let linked: BTreeSet<Handle> = names.files().map(|(_, handle)| handle).collect();
        while !from.0.is_empty() {
            let handle = from.handle()?;
            let (layout, linked) = (from.layout()?, linked.contains(&handle));
            names.inodes.insert(handle, Inode { layout, linked, ending: false, opens: BTreeMap::new() });
        }
        Some(names)
    }

    /// All files that have a name, in the order of their paths.
    pub(super) fn files(&self) -> impl Iterator<Item = (&Path, Handle)> {
        self.tree.all().filter_map(|(path, entry)| match entry {
            Entry::File(handle) => Some((path, handle)),
            Entry::Directory => None,
        })
    }

    /// All directories but the root, in order.
    pub(super) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.tree.all().filter(|(_, entry)| *entry == Entry::Directory).map(|(path, _)| path)
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

    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.inodes.is_empty() && self.tree.len() == 0
    }

    /// What is in a directory behind a name, in order, as much as fits into so many bytes; whether there is more.
    pub(super) fn list(
        &self,
        directory: &Path,
        after: Option<&Name>,
        bytes: usize,
    ) -> Result<(Vec<DirEntry>, bool), Refusal> {
        self.tree.list(directory, after, bytes)
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

    fn name(text: &str) -> Path {
        Path::new(text).unwrap()
    }

    fn listed(names: &Names) -> Vec<String> {
        let (list, more) = names.list(&Path::default(), None, 100).unwrap();
        assert!(!more);
        list.iter().map(|entry| entry.name.to_string()).collect()
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
        assert_eq!(listed(&names), ["a"]);
        assert_eq!(names.open(rank(1), &name("a")), Ok((kept, LAYOUT)));
    }

    #[test]
    fn a_file_that_is_renamed_takes_the_place_of_another_one_which_lives_until_its_last_close() {
        let mut names = Names::default();
        let (new, _) = names.create(0, rank(0), name("new"), LAYOUT).unwrap();
        let (old, _) = names.create(0, rank(0), name("old"), LAYOUT).unwrap();
        let (replaced, change) = names.rename(name("new"), name("old"), true).unwrap().expect("a change");
        assert_eq!((replaced, listed(&names)), (Some(old), vec!["old".to_string()]));
        assert_eq!(names.open(rank(1), &name("old")), Ok((new, LAYOUT)));
        assert!(names.unused().is_empty(), "open at n0");
        names.undo(&change, replaced);
        assert_eq!(listed(&names), ["new", "old"]);
        names.close(rank(0), old, false).unwrap();
        assert!(names.unused().is_empty(), "it has its name again");
        assert_eq!(names.rename(name("old"), name("old"), false), Ok(None), "nothing changes");
        assert_eq!(names.rename(name("none"), name("none"), true), Err(Refusal::NotFound));
        assert_eq!(names.rename(name("new"), name("old"), false), Err(Refusal::Exists));
        names.rename(name("new"), name("old"), true).unwrap();
        assert_eq!(names.unused(), [Gone { handle: old, layout: LAYOUT }]);
    }

    #[test]
    fn directories_are_made_moved_and_removed_and_each_of_it_can_be_taken_back() {
        let mut names = Names::default();
        names.make_directory(name("a")).unwrap();
        assert_eq!(names.make_directory(name("a")), Err(Refusal::Exists));
        assert_eq!(names.make_directory(name("b/c")), Err(Refusal::NotFound));
        let (file, _) = names.create(0, rank(0), name("a/f"), LAYOUT).unwrap();
        assert_eq!(names.remove_directory(name("a")), Err(Refusal::NotEmpty));
        assert_eq!(names.remove_directory(name("a/f")), Err(Refusal::NotDirectory));
        assert_eq!(names.unlink(&name("a")), Err(Refusal::IsDirectory));
        let (_, change) = names.rename(name("a"), name("b"), false).unwrap().expect("a change");
        assert_eq!(names.open(rank(0), &name("b/f")).map(|(handle, _)| handle), Ok(file));
        names.undo(&change, None);
        assert_eq!(names.open(rank(0), &name("a/f")).map(|(handle, _)| handle), Ok(file));
        names.unlink(&name("a/f")).unwrap();
        let change = names.remove_directory(name("a")).unwrap();
        assert!(listed(&names).is_empty());
        names.undo(&change, None);
        assert_eq!(listed(&names), ["a"]);
    }
}
