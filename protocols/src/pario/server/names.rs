//! The names of files and what they stand for: all directories are on their home server.
//!
//! It is kept in memory; its [changes](Change) are what the [log](super::log) has. Who has which file open is not in the log: a home
//! that begins anew asks all nodes, and ends no file before it has heard of each.

use super::super::error::Refusal;
use super::super::messages::{Reader, Writer};
use super::super::slots::Asked;
use super::super::{Attributes, DirEntry, Distribution, Handle, Name, Path, SetAttributes};
use super::answered::{Answered, Kept};
use super::inode::Inode;
use super::tree::{Entry, Tree};
use crate::transport::Rank;
use std::collections::{BTreeMap, BTreeSet};

/// What stands for a directory where a file has its handle: no file has that.
const A_DIRECTORY: u64 = 0;

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
    /// Nobody can reach a file without a name any more: its objects are removed once that is durable, and no claim to have it open
    /// counts from then on.
    Ending { handle: Handle },
    /// A file without a name has no objects any more.
    Ended { handle: Handle },
    /// A file has other attributes. What it had before is not in the log.
    Attributes { handle: Handle, attributes: Attributes, before: Attributes },
    /// The last place that was given out behind a file's end ends here. Not in the log: where the one before ended, and which place it
    /// is, by client and first byte, unless the file was cut.
    End { handle: Handle, end: u64, before: u64, place: Option<(Rank, u64)> },
    /// A call was answered.
    Answered { client: Rank, asked: Asked, kept: Kept },
}

impl Change {
    /// Whether it takes room for good: other changes must find some where these find none.
    pub(super) fn makes(&self) -> bool {
        matches!(
            self,
            Change::Create { .. }
                | Change::MakeDirectory { .. }
                | Change::Rename { .. }
                | Change::End { place: Some(_), .. }
        )
    }

    /// Whether it alters a file, however often: removals must find room where these find none. A cut may give room back, though not of
    /// the log.
    pub(super) fn alters(&self) -> bool {
        matches!(self, Change::Attributes { .. } | Change::End { place: None, .. })
    }
}

/// All directories.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Names {
    tree: Tree,
    inodes: BTreeMap<Handle, Inode>,
    /// Those of them that have no name and whose objects are not being removed.
    unlinked: BTreeSet<Handle>,
    /// Those of these that nobody has had open since the last look at them: they may end. The others may be many, and no batch looks at them.
    idle: BTreeSet<Handle>,
    /// Those of them that end, as the log has said since an earlier life, until this one removes their objects.
    found_ending: Vec<Handle>,
    /// How many handles were given out.
    given: u64,
    /// Nodes that may have files open of which this life has not heard, and the last handle up to which each has told.
    unheard: BTreeMap<Rank, Handle>,
    /// Answers that clients may not have received.
    answered: Answered,
}

impl Names {
    /// No directories, in a life of a home that leaves nothing behind. Other servers may have objects of the lives before, and clients
    /// their handles: this one gives out handles from a place on that those lives had not come to: from 31 of the
    /// bits of the epoch that are drawn, those of 2^13 to 2^43. The last digits count, as they do where names are kept.
    pub(super) fn in_memory(epoch: u64) -> Names {
        Names { given: epoch << 3 & ((1 << 47) - 1) & !0xffff, ..Names::default() }
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
                self.inodes.insert(*handle, Inode::new(*layout));
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
            Change::Ending { handle } => self.set_ending(*handle, true),
            Change::Ended { handle } => self.remove(*handle),
            Change::Attributes { handle, attributes, .. } => {
                self.inodes.entry(*handle).and_modify(|inode| inode.attributes = *attributes);
            }
            Change::End { handle, end, .. } => {
                self.inodes.entry(*handle).and_modify(|inode| inode.end = *end);
            }
            Change::Answered { client, asked, kept } => self.answered.keep(*client, *asked, *kept),
        }
    }

    /// A file has a name again, or none any more.
    fn set_linked(&mut self, entry: Option<Entry>, linked: bool) {
        let Some(Entry::File(handle)) = entry else { return };
        if linked {
            self.unlinked.remove(&handle);
        } else if self.knows(handle) {
            self.unlinked.insert(handle);
            self.note_if_idle(handle);
        }
    }

    /// A file that has no name may end, if nobody has it open.
    fn note_if_idle(&mut self, handle: Handle) {
        let is_open = self.inodes.get(&handle).is_none_or(|inode| !inode.opens.is_empty());
        if !is_open && self.unlinked.contains(&handle) {
            self.idle.insert(handle);
        }
    }

    /// Forgets a file.
    fn remove(&mut self, handle: Handle) {
        self.inodes.remove(&handle);
        self.unlinked.remove(&handle);
        self.idle.remove(&handle);
    }

    fn set_ending(&mut self, handle: Handle, ending: bool) {
        self.inodes.entry(handle).and_modify(|inode| inode.ending = ending);
    }

    /// Takes back a change that could not be made durable, the latest first. `unlinked`: which file lost its name by it.
    pub(super) fn undo(&mut self, change: &Change, unlinked: Option<Handle>) {
        let lost = unlinked.map(Entry::File);
        let place = match change {
            Change::Create { handle, path, .. } => {
                self.remove(*handle);
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
            Change::Ending { handle } => {
                self.set_ending(*handle, false);
                return self.note_if_idle(*handle);
            }
            // What has ended is not there again for that: it will be ended once more.
            Change::Ended { .. } => return,
            Change::Attributes { handle, before, .. } => {
                self.inodes.entry(*handle).and_modify(|inode| inode.attributes = *before);
                return;
            }
            Change::End { handle, before, place, .. } => {
                if let Some(inode) = self.inodes.get_mut(handle) {
                    inode.end = *before;
                    place.map(|place| inode.places.remove(&place));
                }
                return;
            }
            Change::Answered { client, asked, .. } => return self.answered.forget(*client, *asked),
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
        let Some(inode) = self.inodes.get_mut(&handle).filter(|inode| inode.opens.contains_key(&from)) else {
            return if earlier { Ok(()) } else { Err(Refusal::Stale) };
        };
        inode.closed(from, false);
        self.note_if_idle(handle);
        Ok(())
    }

    /// What was answered to a call, if it was: what it opened is open once more.
    pub(super) fn answered(&mut self, from: Rank, asked: Asked) -> Option<Result<Kept, Refusal>> {
        let kept = self.answered.to(from, asked)?;
        if let Kept::Opened { handle, .. } = kept {
            match self.inodes.get_mut(&handle).filter(|inode| !inode.ending) {
                Some(inode) => *inode.opens.entry(from).or_default() += 1,
                // It has lost its name since, and nobody knew that this client would have it open.
                None => return Some(Err(Refusal::Stale)),
            }
        }
        Some(Ok(kept))
    }

    /// Whether a call was answered.
    pub(super) fn has_answered(&self, from: Rank, asked: Asked) -> bool {
        self.answered.to(from, asked).is_some()
    }

    /// What is at a path: a file, or a directory.
    pub(super) fn stat(&self, path: &Path) -> Result<(Option<(Handle, Distribution)>, Attributes), Refusal> {
        match self.tree.file(path) {
            Ok(handle) => {
                let inode = self.inodes.get(&handle).ok_or(Refusal::NotFound)?;
                Ok((Some((handle, inode.layout)), inode.attributes))
            }
            Err(Refusal::IsDirectory) => Ok((None, Attributes::DIRECTORY)),
            Err(why) => Err(why),
        }
    }

    /// Gives a file other attributes.
    pub(super) fn set_attributes(&mut self, path: &Path, set: SetAttributes) -> Result<Change, Refusal> {
        let handle = self.tree.file(path)?;
        let before = self.inodes.get(&handle).ok_or(Refusal::NotFound)?.attributes;
        Ok(self.make(Change::Attributes { handle, attributes: set.of(before), before }))
    }

    /// A file that a client has open. Who has not yet told this life of it is believed: it asks for nothing that it has not opened.
    fn opened(&mut self, from: Rank, handle: Handle) -> Result<&mut Inode, Refusal> {
        let untold = self.is_untold(from, handle);
        let has = |inode: &&mut Inode| inode.opens.contains_key(&from) || untold && !inode.ending;
        self.inodes.get_mut(&handle).filter(has).ok_or(Refusal::Stale)
    }

    /// Whether a client may have a file open of which it has not told this life. Nor will it tell this life of what it closes before.
    pub(super) fn is_untold(&self, from: Rank, handle: Handle) -> bool {
        self.unheard.get(&from).is_some_and(|told| handle > *told)
    }

    /// Whether a file is being cut.
    pub(super) fn is_cutting(&self, handle: Handle) -> bool {
        self.inodes.get(&handle).is_some_and(|inode| inode.cutting)
    }

    /// How often a file was cut in this life.
    pub(super) fn cuts(&mut self, from: Rank, handle: Handle) -> Result<u64, Refusal> {
        self.opened(from, handle).map(|inode| inode.cuts)
    }

    /// Gives out a place of so many bytes, one at least, behind a file's end, which lies at `least` or later; its first byte.
    pub(super) fn place(
        &mut self,
        from: Rank,
        handle: Handle,
        (len, least): (u64, u64),
    ) -> Result<(u64, Change), Refusal> {
        let inode = self.opened(from, handle)?;
        let (before, at) = (inode.end, inode.end.max(least));
        // Two places of a client would begin at the same byte if one of them had none.
        let end = at.checked_add(len).filter(|end| *end > at && *end <= 1 << 63).ok_or(Refusal::Position)?;
        let place = (from, at);
        inode.places.insert(place, end);
        Ok((at, self.make(Change::End { handle, end, before, place: Some(place) })))
    }

    /// A client writes to a place no more.
    pub(super) fn placed(&mut self, from: Rank, handle: Handle, at: u64) {
        if let Some(inode) = self.inodes.get_mut(&handle) {
            inode.places.remove(&(from, at));
        }
    }

    /// A file is being cut: no place is given out before it is. The next one is behind those to which somebody may write.
    pub(super) fn cut(&mut self, from: Rank, handle: Handle) -> Result<(Distribution, Change), Refusal> {
        let inode = self.opened(from, handle)?;
        (inode.cutting, inode.cuts) = (true, inode.cuts + 1);
        let (layout, before, end) = (inode.layout, inode.end, inode.written_below());
        Ok((layout, self.make(Change::End { handle, end, before, place: None })))
    }

    /// It is cut, or its cutting has come to nothing.
    pub(super) fn is_cut(&mut self, handle: Handle) {
        self.inodes.entry(handle).and_modify(|inode| inode.cutting = false);
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

    /// Nodes of which it has not been heard yet, in order.
    pub(super) fn unheard(&self) -> impl Iterator<Item = Rank> {
        self.unheard.keys().copied()
    }

    /// The log is read: of some files it says that they end. And clients of earlier lives may have places to which they still write: one
    /// tells this life that it has a file open, and not its places; one that died tells nothing.
    pub(super) fn is_read(&mut self) {
        self.inodes.values_mut().for_each(Inode::keeps_places);
        self.found_ending = self.unlinked().filter(|handle| self.is_ending(*handle)).collect();
    }

    /// A node has these files open so often, beside what it has opened in this life; and others behind them, if there are more.
    pub(super) fn heard(&mut self, of: Rank, open: &[(Handle, u32)], more: bool) {
        let Some(told) = self.unheard.get_mut(&of) else { return };
        match open.last() {
            Some((last, _)) if more => *told = *last,
            _ => drop(self.unheard.remove(&of)),
        }
        for (handle, opens) in open {
            // A guest that was forgotten, and does not know it, names what has ended since.
            if let Some(inode) = self.inodes.get_mut(handle).filter(|inode| !inode.ending) {
                *inode.opens.entry(of).or_default() += opens;
            }
        }
    }

    /// A client forgot what it had open.
    pub(super) fn forget(&mut self, client: Rank) {
        self.unheard.remove(&client);
        for inode in self.inodes.values_mut() {
            inode.closed(client, true);
        }
        self.look_at_all();
    }

    /// All files without a name may end that nobody has open.
    fn look_at_all(&mut self) {
        let unlinked: Vec<Handle> = self.unlinked().collect();
        unlinked.into_iter().for_each(|handle| self.note_if_idle(handle));
    }

    /// Files that nobody can reach any more: each is told once, as what is to be in the log.
    pub(super) fn unused(&mut self) -> Vec<Change> {
        // A node may be away for long, and many files may be removed meanwhile.
        if !self.unheard.is_empty() {
            return Vec::new();
        }
        let idle = std::mem::take(&mut self.idle);
        idle.into_iter().filter_map(|handle| self.end_if_unused(handle)).collect()
    }

    /// A file is told to end if nobody can reach it any more.
    pub(super) fn end_if_unused(&mut self, handle: Handle) -> Option<Change> {
        if !self.unheard.is_empty() {
            return None;
        }
        let inode = self.inodes.get(&handle)?;
        if !self.unlinked.contains(&handle) || inode.ending || !inode.opens.is_empty() {
            return None;
        }
        Some(self.make(Change::Ending { handle }))
    }

    /// A file ends, though that found no room in the log.
    pub(super) fn end_again(&mut self, change: &Change) {
        if let Change::Ending { .. } = change {
            self.apply(change);
        }
    }

    /// A file whose end is durable: its objects are to be removed, which is told once.
    pub(super) fn remove_if_ending(&mut self, handle: Handle) -> Option<Gone> {
        let inode = self.inodes.get_mut(&handle).filter(|inode| inode.ending && !inode.gone)?;
        inode.gone = true;
        self.unlinked.remove(&handle);
        Some(Gone { handle, layout: inode.layout })
    }

    /// All files of which that is so since an earlier life, once.
    pub(super) fn remove_found_ending(&mut self) -> Vec<Gone> {
        let found = std::mem::take(&mut self.found_ending);
        found.into_iter().filter_map(|handle| self.remove_if_ending(handle)).collect()
    }

    /// Whether a file has objects, or may be given some: it is there, and they are not being removed.
    pub(super) fn lives(&self, handle: Handle) -> bool {
        self.inodes.get(&handle).is_some_and(|inode| !inode.gone)
    }

    /// How many handles were given out.
    pub(super) fn given(&self) -> u64 {
        self.given
    }

    /// The whole directory, but for who has what open.
    pub(super) fn encode(&self, to: &mut Writer) {
        to.u64(self.given);
        to.u64(self.tree.len() as u64);
        for (path, entry) in self.tree.all() {
            to.u64(if let Entry::File(handle) = entry { handle.0 } else { A_DIRECTORY });
            to.path(path);
        }
        to.u64(self.inodes.len() as u64);
        self.inodes.iter().for_each(|(handle, inode)| inode.encode(*handle, to));
        self.answered.encode(to);
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
        for _ in 0..from.u64()? {
            let (handle, inode) = Inode::decode(from)?;
            names.inodes.insert(handle, inode);
        }
        let linked: BTreeSet<Handle> = names.files().map(|(_, handle)| handle).collect();
        names.unlinked = names.inodes.keys().copied().filter(|handle| !linked.contains(handle)).collect();
        names.look_at_all();
        names.answered = Answered::decode(from)?;
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

    /// Files without a name, but for those whose objects are being removed.
    pub(super) fn unlinked(&self) -> impl Iterator<Item = Handle> {
        self.unlinked.iter().copied()
    }

    /// Whether a handle was never given out, as far as is known here.
    pub(super) fn is_unheard_of(&self, handle: Handle) -> bool {
        handle.number() > self.given
    }

    /// Whether there is such a file, with a name or without.
    pub(super) fn knows(&self, handle: Handle) -> bool {
        self.inodes.contains_key(&handle)
    }

    /// Whether nobody can reach a file any more, and its objects are to be removed, or are being.
    pub(super) fn is_ending(&self, handle: Handle) -> bool {
        self.inodes.get(&handle).is_some_and(|inode| inode.ending)
    }

    /// How many paths there are, how many bytes they have, and how many files there are.
    pub(super) fn extent(&self) -> (u64, u64, u64) {
        (self.tree.len() as u64, self.tree.bytes(), self.inodes.len() as u64)
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
#[path = "names_tests.rs"]
mod tests;
