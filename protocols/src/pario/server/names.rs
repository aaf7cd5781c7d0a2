//! The names of files and what they stand for: one flat directory, in memory, on its home server.

use super::super::error::Refusal;
use super::super::{Distribution, Handle, Name};
use crate::transport::Rank;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A file, as its home knows it.
#[derive(Clone, Debug, Hash)]
struct Inode {
    layout: Distribution,
    /// Its name, until it is unlinked.
    linked: bool,
    /// How often each client has it open.
    opens: BTreeMap<Rank, u32>,
}

/// A file whose last name and last open are gone: its objects are to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Gone {
    pub handle: Handle,
    pub layout: Distribution,
}

/// The directory.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Names {
    entries: BTreeMap<Name, Handle>,
    inodes: BTreeMap<Handle, Inode>,
    /// How many handles were given out.
    given: u64,
}

impl Names {
    /// Makes a file and opens it for a client.
    pub(super) fn create(
        &mut self,
        server: u16,
        from: Rank,
        name: Name,
        layout: Distribution,
    ) -> Result<Handle, Refusal> {
        if self.entries.contains_key(&name) {
            return Err(Refusal::Exists);
        }
        let handle = Handle::of(server, self.given);
        self.given += 1;
        self.entries.insert(name, handle);
        self.inodes.insert(handle, Inode { layout, linked: true, opens: BTreeMap::from([(from, 1)]) });
        Ok(handle)
    }

    /// Opens a file for a client.
    pub(super) fn open(&mut self, from: Rank, name: &Name) -> Result<(Handle, Distribution), Refusal> {
        let handle = *self.entries.get(name).ok_or(Refusal::NotFound)?;
        let inode = self.inodes.get_mut(&handle).ok_or(Refusal::NotFound)?;
        *inode.opens.entry(from).or_default() += 1;
        Ok((handle, inode.layout))
    }

    /// A client closes what it opened once. An unlinked file ends with its last close.
    pub(super) fn close(&mut self, from: Rank, handle: Handle) -> Result<Option<Gone>, Refusal> {
        let inode = self.inodes.get_mut(&handle).ok_or(Refusal::Stale)?;
        let opens = inode.opens.get_mut(&from).ok_or(Refusal::Stale)?;
        *opens -= 1;
        if *opens == 0 {
            inode.opens.remove(&from);
        }
        Ok(self.end_if_unused(handle))
    }

    /// Removes a name. The file lives until it is closed everywhere.
    pub(super) fn unlink(&mut self, name: &Name) -> Result<Option<Gone>, Refusal> {
        let handle = self.entries.remove(name).ok_or(Refusal::NotFound)?;
        if let Some(inode) = self.inodes.get_mut(&handle) {
            inode.linked = false;
        }
        Ok(self.end_if_unused(handle))
    }

    /// A client forgot what it had open.
    pub(super) fn forget(&mut self, client: Rank) -> Vec<Gone> {
        let open = |inode: &mut Inode| inode.opens.remove(&client).is_some();
        let had: Vec<Handle> =
            self.inodes.iter_mut().filter_map(|(handle, inode)| open(inode).then_some(*handle)).collect();
        had.into_iter().filter_map(|handle| self.end_if_unused(handle)).collect()
    }

    fn end_if_unused(&mut self, handle: Handle) -> Option<Gone> {
        let inode = self.inodes.get(&handle)?;
        if inode.linked || !inode.opens.is_empty() {
            return None;
        }
        let layout = inode.layout;
        self.inodes.remove(&handle);
        Some(Gone { handle, layout })
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
        let first = names.create(0, rank(0), name("a"), LAYOUT).unwrap();
        assert_eq!(names.create(0, rank(1), name("a"), LAYOUT), Err(Refusal::Exists));
        assert_eq!(names.open(rank(1), &name("b")), Err(Refusal::NotFound));
        assert_eq!(names.unlink(&name("a")), Ok(None), "open at n0");
        let second = names.create(0, rank(0), name("a"), LAYOUT).unwrap();
        assert_ne!(first, second);
        assert_eq!(names.open(rank(1), &name("a")), Ok((second, LAYOUT)));
    }

    #[test]
    fn an_unlinked_file_lives_until_its_last_close() {
        let mut names = Names::default();
        let handle = names.create(0, rank(0), name("a"), LAYOUT).unwrap();
        names.open(rank(1), &name("a")).unwrap();
        assert_eq!(names.unlink(&name("a")), Ok(None));
        assert_eq!(names.close(rank(0), handle), Ok(None));
        assert_eq!(names.close(rank(0), handle), Err(Refusal::Stale), "closed already");
        assert_eq!(names.forget(rank(1)), [Gone { handle, layout: LAYOUT }]);
        assert_eq!(names.close(rank(1), handle), Err(Refusal::Stale));
        assert_eq!(names.open_files(), 0);
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
