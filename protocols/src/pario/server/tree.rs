//! What stands where: directories and files by their whole paths, in one sorted map.
//!
//! A directory is moved by giving new paths to all that lies in it: work for each of them, at one server, as one change. In return
//! whatever is asked of one path is one look, however deep it lies.

use super::super::error::Refusal;
use super::super::{DirEntry, Handle, Name, Path};
use std::collections::BTreeMap;
use std::ops::Bound;

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Entry {
    /// A file.
    File(Handle),
    /// A directory.
    Directory,
}

/// All paths but the root, which is a directory.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Tree {
    entries: BTreeMap<Path, Entry>,
    /// Bytes of all paths.
    bytes: u64,
}

impl Tree {
    /// What stands at a path.
    pub fn entry(&self, path: &Path) -> Option<Entry> {
        if path.is_root() { Some(Entry::Directory) } else { self.entries.get(path).copied() }
    }

    /// The file at a path.
    pub fn file(&self, path: &Path) -> Result<Handle, Refusal> {
        match self.entry(path) {
            Some(Entry::File(handle)) => Ok(handle),
            Some(Entry::Directory) => Err(Refusal::IsDirectory),
            None => self.parent(path).and(Err(Refusal::NotFound)),
        }
    }

    /// Whether the directory of a path is there.
    pub fn parent(&self, path: &Path) -> Result<(), Refusal> {
        self.directory(&path.parent())
    }

    /// Whether there is a directory at a path.
    pub fn directory(&self, path: &Path) -> Result<(), Refusal> {
        match self.entry(path) {
            Some(Entry::Directory) => Ok(()),
            Some(Entry::File(_)) => Err(Refusal::NotDirectory),
            // It may lie in what is a file.
            None => self.directory(&path.parent()).and(Err(Refusal::NotFound)),
        }
    }

    /// Whether something can be made at a path.
    pub fn vacant(&self, path: &Path) -> Result<(), Refusal> {
        self.parent(path)?;
        if self.entry(path).is_some() { Err(Refusal::Exists) } else { Ok(()) }
    }

    /// Whether a directory is there, with nothing in it.
    pub fn vacated(&self, path: &Path) -> Result<(), Refusal> {
        self.directory(path)?;
        if self.below(path).next().is_some() { Err(Refusal::NotEmpty) } else { Ok(()) }
    }

    /// Whether what stands at a path can be moved to another one: a file also to where a file is, which loses its name by that.
    pub fn movable(&self, from: &Path, to: &Path) -> Result<Option<Handle>, Refusal> {
        let Some(moved) = self.entry(from).filter(|_| !from.is_root()) else {
            return self.parent(from).and(Err(Refusal::NotFound));
        };
        let inside = to.as_str().starts_with(&from.prefix());
        match (moved, self.entry(to)) {
            (Entry::Directory, _) if inside => Err(Refusal::Inside),
            (Entry::File(_), Some(Entry::File(replaced))) => Ok(Some(replaced)),
            (Entry::File(_), Some(Entry::Directory)) => Err(Refusal::IsDirectory),
            (Entry::Directory, Some(_)) => Err(Refusal::Exists),
            (_, None) => {
                self.parent(to)?;
                let longer = to.as_str().len().saturating_sub(from.as_str().len());
                let fits = |path: &Path| path.as_str().len() + longer <= Path::LONGEST;
                let fits = longer == 0 || self.below(from).all(|(path, _)| fits(path));
                if fits { Ok(None) } else { Err(Refusal::LongPath) }
            }
        }
    }

    /// Something stands at a path from now on.
    pub fn put(&mut self, path: Path, entry: Entry) {
        let bytes = path.as_str().len() as u64;
        if self.entries.insert(path, entry).is_none() {
            self.bytes += bytes;
        }
    }

    /// Nothing stands there any more; what did.
    pub fn remove(&mut self, path: &Path) -> Option<Entry> {
        let entry = self.entries.remove(path)?;
        self.bytes -= path.as_str().len() as u64;
        Some(entry)
    }

    /// Bytes of all paths.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What stands at a path, and all in it, stands at another one from now on.
    pub fn shift(&mut self, from: &Path, to: &Path) {
        let Some(moved) = self.remove(from) else { return };
        let inside: Vec<Path> = self.below(from).map(|(path, _)| path.clone()).collect();
        for path in inside {
            if let Some(entry) = self.remove(&path) {
                self.put(path.moved(from, to), entry);
            }
        }
        self.put(to.clone(), moved);
    }

    /// All that lies in a directory, however deep, in order.
    fn below(&self, directory: &Path) -> impl Iterator<Item = (&Path, Entry)> {
        let prefix = directory.prefix();
        let from = (Bound::Excluded(prefix.as_str()), Bound::Unbounded);
        let below = self.entries.range::<str, _>(from).map(|(path, entry)| (path, *entry));
        below.take_while(move |(path, _)| path.as_str().starts_with(&prefix))
    }

    /// The names in a directory behind one, in order, as many as fit into so many bytes with two each beside; whether there are more.
    pub fn list(
        &self,
        directory: &Path,
        after: Option<&Name>,
        bytes: usize,
    ) -> Result<(Vec<DirEntry>, bool), Refusal> {
        self.directory(directory)?;
        let prefix = directory.prefix();
        let mut behind = Bound::Excluded(match after {
            Some(after) => format!("{prefix}{after}"),
            None => prefix.clone(),
        });
        let (mut names, mut left) = (Vec::new(), bytes);
        loop {
            let next =
                self.entries.range::<str, _>((behind.as_ref().map(String::as_str), Bound::Unbounded)).next();
            let Some((path, entry)) = next else { break };
            let Some(rest) = path.as_str().strip_prefix(&prefix) else { break };
            if let Some((inner, _)) = rest.split_once('/') {
                // It lies deeper: on behind all that lies in that directory, which ends where '/' would be followed.
                behind = Bound::Included(format!("{prefix}{inner}{BEHIND_SLASH}"));
                continue;
            }
            let Some(name) = Name::new(rest) else { break };
            match left.checked_sub(2 + rest.len()) {
                Some(rest) => left = rest,
                None => return Ok((names, true)),
            }
            behind = Bound::Excluded(path.as_str().to_string());
            names.push(DirEntry { name, is_directory: *entry == Entry::Directory });
        }
        Ok((names, false))
    }

    /// All paths and what stands there, in order.
    pub fn all(&self) -> impl Iterator<Item = (&Path, Entry)> {
        self.entries.iter().map(|(path, entry)| (path, *entry))
    }

    /// How many paths there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
}

/// The byte behind '/'.
const BEHIND_SLASH: char = '0';

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn path(text: &str) -> Path {
        Path::new(text).expect("a path")
    }

    /// A tree in which a path that ends with '/' is a directory.
    fn tree(paths: &[&str]) -> Tree {
        let mut tree = Tree::default();
        for (n, text) in (1..).zip(paths) {
            let entry = if text.ends_with('/') { Entry::Directory } else { Entry::File(Handle(n)) };
            tree.put(path(text), entry);
        }
        tree
    }

    fn listed(tree: &Tree, directory: &str) -> Vec<String> {
        let (names, more) = tree.list(&path(directory), None, 1_000).expect("a directory");
        assert!(!more);
        names.into_iter().map(|entry| entry.name.to_string()).collect()
    }

    #[test]
    fn a_directory_lists_what_is_in_it_and_not_what_lies_deeper() {
        let tree = tree(&["a/", "a/b/", "a/b/c", "a/b-c", "a/b0", "a-b", "b"]);
        assert_eq!(listed(&tree, ""), ["a", "a-b", "b"]);
        assert_eq!(listed(&tree, "a"), ["b", "b-c", "b0"]);
        assert_eq!(listed(&tree, "a/b"), ["c"]);
        assert_eq!(tree.list(&path("b"), None, 9), Err(Refusal::NotDirectory));
        assert_eq!(tree.list(&path("c"), None, 9), Err(Refusal::NotFound));
        let (some, more) = tree.list(&path("a"), None, 3).expect("a directory");
        assert_eq!((some.len(), more), (1, true));
        let (rest, more) = tree.list(&path("a"), Some(&some[0].name), 9).expect("a directory");
        assert_eq!((rest.len(), more), (2, false));
    }

    #[test]
    fn a_directory_moves_with_all_that_is_in_it_and_not_into_itself() {
        let mut tree = tree(&["a/", "a/b/", "a/b/c", "ab", "d/"]);
        assert_eq!(tree.movable(&path("a"), &path("a/b/e")), Err(Refusal::Inside));
        assert_eq!(tree.movable(&path("a"), &path("d")), Err(Refusal::Exists));
        assert_eq!(tree.movable(&path("a"), &path("d/e")), Ok(None));
        assert_eq!(tree.movable(&path("a"), &path("ab/e")), Err(Refusal::NotDirectory));
        assert_eq!(tree.movable(&path("ab"), &path("d")), Err(Refusal::IsDirectory));
        assert_eq!(tree.movable(&path("ab"), &path("a/b/c")), Ok(Some(Handle(3))));
        tree.shift(&path("a"), &path("d/e"));
        let all: Vec<&str> = tree.all().map(|(path, _)| path.as_str()).collect();
        assert_eq!(all, ["ab", "d", "d/e", "d/e/b", "d/e/b/c"]);
    }

    #[test]
    fn what_would_have_too_long_a_path_is_not_moved() {
        let name = "x".repeat(250);
        let deep = [&name[..]; 4].join("/");
        let mut tree = tree(&["a/", "long-name-of-a-directory/"]);
        let inner = |up_to: usize| path(&format!("a/{}", deep.chars().take(up_to).collect::<String>()));
        for end in [250, 501, 752, 1_003] {
            tree.put(inner(end), Entry::Directory);
        }
        assert_eq!(tree.movable(&path("a"), &path("b")), Ok(None));
        assert_eq!(tree.movable(&path("a"), &path("long-name-of-a-directory/a")), Err(Refusal::LongPath));
    }

    /// What a program does to a file system, by names of which there are few.
    #[derive(Clone, Debug)]
    enum Step {
        File(String),
        Directory(String),
        Remove(String),
        Move(String, String),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let path = prop::collection::vec("[ab]|a-|a0", 1..4).prop_map(|names| names.join("/"));
        let step = prop_oneof![
            path.clone().prop_map(Step::File),
            path.clone().prop_map(Step::Directory),
            path.clone().prop_map(Step::Remove),
            (path.clone(), path).prop_map(|(from, to)| Step::Move(from, to)),
        ];
        prop::collection::vec(step, 0..60)
    }

    /// The same as a set of names, each by its own look at all.
    fn by_hand(tree: &Tree, directory: &str) -> BTreeSet<String> {
        let inside = |path: &Path| path.parent().as_str() == directory && !path.is_root();
        let names = tree.all().filter(|(path, _)| inside(path)).filter_map(|(path, _)| path.name());
        names.map(|name| name.to_string()).collect()
    }

    proptest! {
        #[test]
        fn whatever_is_done_everything_lies_in_a_directory_and_is_listed_there_once(steps in steps()) {
            let (mut tree, mut next) = (Tree::default(), 1);
            for step in steps {
                let before = tree.len();
                match step {
                    Step::File(at) if tree.vacant(&path(&at)).is_ok() => {
                        tree.put(path(&at), Entry::File(Handle(next)));
                        next += 1;
                    }
                    Step::Directory(at) if tree.vacant(&path(&at)).is_ok() => {
                        tree.put(path(&at), Entry::Directory);
                    }
                    Step::Remove(at)
                        if tree.file(&path(&at)).is_ok() || tree.vacated(&path(&at)).is_ok() =>
                    {
                        tree.remove(&path(&at));
                    }
                    Step::Move(from, to) => {
                        let (from, to) = (path(&from), path(&to));
                        if let Ok(replaced) = tree.movable(&from, &to) {
                            let entry = tree.entry(&from);
                            let replaces = from != to && replaced.is_some();
                            tree.shift(&from, &to);
                            prop_assert_eq!(tree.entry(&to), entry);
                            prop_assert_eq!(tree.len(), before - usize::from(replaces));
                        }
                    }
                    _ => {}
                }
                for (at, _) in tree.all() {
                    prop_assert_eq!(tree.parent(at), Ok(()), "{}", at);
                }
                let directories = tree.all().filter(|(_, entry)| *entry == Entry::Directory);
                let directories = directories.map(|(path, _)| path.as_str()).chain([""]);
                for directory in directories {
                    let names = listed(&tree, directory);
                    prop_assert_eq!(names.iter().cloned().collect::<BTreeSet<_>>(), by_hand(&tree, directory));
                    prop_assert!(names.is_sorted());
                }
            }
        }
    }
}
