//! The log of a server's directory: what a restart finds.
//!
//! A log is one object of the disk. It is made of **batches**, one behind the other: a length and a checksum (4 bytes each), the
//! number of the log (8), and what is in the batch. The first batch is a **checkpoint**, the whole directory; one that is too long for
//! a batch is in several. Each other batch has the **records** of changes that were committed together. At most one commit is not
//! synced: it is written and synced before the next one, so of all that a crash can leave only the last batch may be in pieces, and a
//! batch that is whole has whole ones before it. A checkpoint of several batches is whole if all of them are.
//!
//! The first commit after a start begins a new log, and so does one that makes a log too long. A log that begins is written and
//! synced before the older one is removed. Whatever a crash leaves, the directory is in the newest log with a whole checkpoint. Bytes
//! that an earlier life left behind a log's end are never taken for a batch, since no log is written in two lives; but for one that has
//! nothing or only zeros behind its end, where a full disk has no room for a new one.
//!
//! Behind its last batch a log has zeros, written before it: **room** for it and for further batches on a disk that has become full. As much of it
//! as it takes to remove all that there is is kept for removals, so that such a disk can be emptied; and at least half of a piece for
//! batches that make nothing.

use super::super::Handle;
use super::super::error::Refusal;
use super::super::messages::{Reader, Writer};
use super::answered;
use super::batch::{HEAD, LONGEST, batch, sealed};
use super::names::{Change, Names};
use std::borrow::Cow;
use std::ops::Range;
use weft_verbs::ObjectName;

/// Names of objects of which this bit is set are logs; others are objects of files, whose handles never have it.
const LOGS: u64 = 1 << 63;

/// A log that has grown by so many bytes, or by as many as it began with, is begun anew.
const LONG: u64 = 1 << 20;

/// Bytes of a batch that removes one name, but for its path: head, removal and answer.
const REMOVAL: u64 = (HEAD + 1 + 2 + 1 + 4 + 2 + 8 + 1) as u64;

/// Bytes by which a file without a name ends: a head, that it does, and that it has no objects any more.
const ENDS: u64 = (HEAD + 1 + 8 + 1 + 8) as u64;

mod kind {
    pub(super) const CHECKPOINT: u8 = 1;
    pub(super) const CREATE: u8 = 2;
    pub(super) const UNLINK: u8 = 3;
    pub(super) const ENDED: u8 = 4;
    pub(super) const MAKE_DIRECTORY: u8 = 5;
    pub(super) const REMOVE_DIRECTORY: u8 = 6;
    pub(super) const RENAME: u8 = 7;
    pub(super) const ATTRIBUTES: u8 = 8;
    pub(super) const END: u8 = 9;
    pub(super) const ANSWERED: u8 = 10;
    pub(super) const ENDING: u8 = 11;
    /// A part of a checkpoint: the next batch goes on with it.
    pub(super) const PART: u8 = 12;
}

/// The object of a log, by the log's number: its highest bit is set.
pub const fn object(log: u64) -> ObjectName {
    ObjectName(LOGS | log)
}

/// The log of an object, if it is one.
pub(super) const fn log_of(object: ObjectName) -> Option<u64> {
    if object.0 & LOGS == 0 { None } else { Some(object.0 & !LOGS) }
}

/// Bytes for a log, and where they go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Commit {
    pub log: u64,
    /// Room for batches to come, which is written before this one: where it finds no place, nothing of this one is there.
    pub zeros: Range<u64>,
    pub at: u64,
    pub bytes: Vec<u8>,
    /// The log that this one takes the place of.
    pub replaces: Option<u64>,
}

/// Why a batch is not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Unwritten {
    /// There is no room, and nothing of it is there.
    Full {
        /// It was the batch that found none, and not the zeros before it. The log was cut off where the batch was to begin, with all zeros
        /// that were there.
        cut: bool,
    },
    /// Nobody knows what a restart will find.
    Failed(Refusal),
}

/// A log that is written.
#[derive(Clone, Debug)]
pub(in super::super) struct Log {
    /// The newest that there is; none before the first commit ever.
    newest: Option<u64>,
    /// Its end; none where the next commit begins a new one.
    end: Option<u64>,
    /// Where the zeros behind its end end.
    room: u64,
    /// How long it is when a new one begins.
    long: u64,
    /// What it was before the commit that has not ended.
    before: (Option<u64>, Option<u64>, u64),
    /// Where the newest log ended when this life began, and its zeros, if it may be written on.
    found: Option<(u64, u64)>,
    /// How much room is made at a time, in bytes; 0 for none.
    spare: u64,
    /// What a batch of a checkpoint has at the most, in bytes.
    longest: usize,
}

impl Log {
    /// Goes on behind the newest log that a restart found, with one that begins. `found`: where that log ends, and the zeros behind
    /// its end, if there is nothing else behind it.
    pub(super) fn behind(newest: Option<u64>, found: Option<(u64, u64)>, spare: u32) -> Log {
        let (end, room, long, spare) = (None, 0, LONG, u64::from(spare));
        Log { newest, end, room, long, before: (newest, end, room), found, spare, longest: LONGEST }
    }

    /// What commits changes that have been made to the directory.
    pub(super) fn commit(&mut self, names: &Names, changes: &[Change]) -> Commit {
        self.before = (self.newest, self.end, self.room);
        if let (Some(log), Some(at)) = (self.newest, self.end.filter(|end| *end < self.long)) {
            let mut writer = Writer(vec![0; HEAD]);
            changes.iter().for_each(|change| encode(change, &mut writer));
            let bytes = sealed(log, writer);
            let kept = if changes.iter().any(Change::makes) {
                self.kept_of_what_makes(names)
            } else if changes.iter().any(Change::alters) {
                room_to_remove(names)
            } else {
                0
            };
            let zeros = self.take(at, bytes.len() as u64, kept);
            return Commit { log, zeros, at, bytes, replaces: None };
        }
        let log = self.newest.map_or(0, |log| log + 1);
        let replaces = self.newest.replace(log);
        let bytes = checkpoint(log, names, self.longest);
        let begun = bytes.len() as u64;
        self.room = begun;
        let zeros = self.take(0, begun, self.kept_of_what_makes(names));
        self.long = begun + LONG.max(begun);
        Commit { log, zeros, at: 0, bytes, replaces }
    }

    /// Zeros that a batch which makes something leaves behind it: others are to find room after it.
    fn kept_of_what_makes(&self, names: &Names) -> u64 {
        room_to_remove(names).max(self.spare / 2)
    }

    /// Takes a place at the log's end for a batch that leaves so many zeros behind it; the zeros that are to be written before it, where
    /// there are too few. One that leaves none asks for no more than it needs: a full disk may have that.
    fn take(&mut self, at: u64, len: u64, kept: u64) -> Range<u64> {
        let (end, room) = (at + len, self.room);
        let wanted = end + kept;
        if self.spare > 0 && wanted > room {
            self.room = if kept > 0 { wanted.next_multiple_of(self.spare) } else { wanted };
        }
        self.end = Some(end);
        room..self.room
    }

    /// A commit found no room, and no batch of it is there. The next one takes its place; where it was to begin a new log, the older
    /// one goes on. Whether the same changes may find room there. `cut`: its log ends where it was to begin.
    pub(super) fn refused(&mut self, cut: bool) -> bool {
        let began_anew = self.newest != self.before.0;
        (self.newest, self.end, self.room) = self.before;
        if !began_anew {
            if let Some(end) = self.end.filter(|_| cut) {
                self.room = end;
            }
            return false;
        }
        if let (None, Some((end, room))) = (self.end, self.found.take()) {
            (self.end, self.room) = (Some(end), room);
        }
        self.long = self.end.unwrap_or_default() + LONG;
        self.end.is_some()
    }
}

/// Bytes by which all that there is could be removed, one after the other.
fn room_to_remove(names: &Names) -> u64 {
    let (paths, bytes, files) = names.extent();
    bytes + paths * REMOVAL + files * ENDS
}

/// The whole directory, in one batch or in as many as it takes.
fn checkpoint(log: u64, names: &Names, longest: usize) -> Vec<u8> {
    let mut writer = Writer(vec![0; HEAD]);
    writer.0.push(kind::CHECKPOINT);
    names.encode(&mut writer);
    if writer.0.len() - HEAD <= longest {
        return sealed(log, writer);
    }
    let mut parts = writer.0[HEAD + 1..].chunks(longest - 1).peekable();
    let mut bytes = Vec::new();
    while let Some(part) = parts.next() {
        let kind = if parts.peek().is_some() { kind::PART } else { kind::CHECKPOINT };
        bytes.extend(sealed(log, Writer([&[0; HEAD][..], &[kind], part].concat())));
    }
    bytes
}

/// Why a log cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Unread {
    /// It has no whole checkpoint: its first commit never ended, or it is damaged.
    NoCheckpoint,
    /// A batch is broken, and a whole one lies behind it: that is no crash's doing.
    Damaged {
        /// The broken batch's first byte.
        at: u64,
    },
}

/// Whether a crash may have left these logs, of which none has a whole checkpoint: the first commit ever never ended. Any other log
/// takes the place of one that is removed later.
pub(super) fn may_be_unfinished(logs: &[u64]) -> bool {
    matches!(logs, [] | [0])
}

/// What a log says.
#[derive(Debug)]
pub(super) struct Found {
    pub names: Names,
    /// Where its last whole batch ends.
    pub end: u64,
    /// Bytes from there to the last one that is not zero: of a batch in pieces.
    pub torn: u64,
}

/// Reads a log.
pub(super) fn read(log: u64, bytes: &[u8]) -> Result<Found, Unread> {
    let (directory, mut end) = whole_directory(log, bytes).ok_or(Unread::NoCheckpoint)?;
    let mut reader = Reader(&directory);
    let names = Names::decode(&mut reader);
    let mut names = names.filter(|_| reader.0.is_empty()).ok_or(Unread::NoCheckpoint)?;
    while let Some((body, next)) = batch(log, bytes, end) {
        let mut reader = Reader(body);
        while !reader.0.is_empty() {
            let change = decode(&mut reader).ok_or(Unread::Damaged { at: end as u64 })?;
            names.apply(&change);
        }
        end = next;
    }
    // A crash leaves nothing whole behind a batch in pieces.
    let whole_behind = (end + 1..bytes.len()).any(|at| batch(log, bytes, at).is_some());
    if whole_behind {
        return Err(Unread::Damaged { at: end as u64 });
    }
    names.is_read();
    let torn = bytes[end..].iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
    Ok(Found { names, end: end as u64, torn })
}

/// What is in the checkpoint of a log, and where it ends; `None` if it is not whole.
fn whole_directory(log: u64, bytes: &[u8]) -> Option<(Cow<'_, [u8]>, usize)> {
    let (mut parts, mut at) = (Vec::new(), 0);
    loop {
        let (body, end) = batch(log, bytes, at)?;
        match body.split_first()? {
            (&kind::PART, part) => parts.extend_from_slice(part),
            (&kind::CHECKPOINT, all) if at == 0 => return Some((Cow::Borrowed(all), end)),
            (&kind::CHECKPOINT, last) => {
                parts.extend_from_slice(last);
                return Some((Cow::Owned(parts), end));
            }
            _ => return None,
        }
        at = end;
    }
}

/// Reads a log of these batches. What could be read is written as a log that begins with it, and that is read as the same.
pub(in super::super) fn read_log_of(bodies: &[&[u8]]) {
    let batch = |body: &&[u8]| sealed(0, Writer([&[0; HEAD][..], body].concat()));
    let bytes: Vec<u8> = bodies.iter().filter(|body| !body.is_empty()).flat_map(batch).collect();
    if let Ok(found) = read(0, &bytes) {
        let Commit { log, bytes, .. } = Log::behind(None, None, 0).commit(&found.names, &[]);
        let again = read(log, &bytes).map(|again| again.names);
        let whole = |names: &Names| {
            let mut writer = Writer(Vec::new());
            names.encode(&mut writer);
            writer.0
        };
        assert_eq!(again.as_ref().map(whole), Ok(whole(&found.names)));
    }
}

fn encode(change: &Change, to: &mut Writer) {
    match change {
        Change::Create { handle, path, layout } => {
            to.0.push(kind::CREATE);
            to.u64(handle.0);
            to.layout(*layout);
            to.path(path);
        }
        Change::Unlink { path } => {
            to.0.push(kind::UNLINK);
            to.path(path);
        }
        Change::MakeDirectory { path } => {
            to.0.push(kind::MAKE_DIRECTORY);
            to.path(path);
        }
        Change::RemoveDirectory { path } => {
            to.0.push(kind::REMOVE_DIRECTORY);
            to.path(path);
        }
        Change::Rename { from, to: target } => {
            to.0.push(kind::RENAME);
            to.path(from);
            to.path(target);
        }
        Change::Ending { handle } => {
            to.0.push(kind::ENDING);
            to.u64(handle.0);
        }
        Change::Ended { handle } => {
            to.0.push(kind::ENDED);
            to.u64(handle.0);
        }
        Change::Attributes { handle, attributes, .. } => {
            to.0.push(kind::ATTRIBUTES);
            to.u64(handle.0);
            to.attributes(*attributes);
        }
        Change::End { handle, end, .. } => {
            to.0.push(kind::END);
            to.u64(handle.0);
            to.u64(*end);
        }
        Change::Answered { client, asked, kept } => {
            to.0.push(kind::ANSWERED);
            answered::encode(*client, *asked, *kept, to);
        }
    }
}

fn decode(from: &mut Reader<'_>) -> Option<Change> {
    Some(match from.u8()? {
        kind::CREATE => {
            let (handle, layout): (Handle, _) = (from.handle()?, from.layout()?);
            Change::Create { handle, path: from.path()?, layout }
        }
        kind::UNLINK => Change::Unlink { path: from.path()? },
        kind::MAKE_DIRECTORY => Change::MakeDirectory { path: from.path()? },
        kind::REMOVE_DIRECTORY => Change::RemoveDirectory { path: from.path()? },
        kind::RENAME => Change::Rename { from: from.path()?, to: from.path()? },
        kind::ENDING => Change::Ending { handle: from.handle()? },
        kind::ENDED => Change::Ended { handle: from.handle()? },
        kind::ATTRIBUTES => {
            let (handle, attributes) = (from.handle()?, from.attributes()?);
            Change::Attributes { handle, attributes, before: attributes }
        }
        kind::END => {
            let (handle, end) = (from.handle()?, from.u64()?);
            Change::End { handle, end, before: end, place: None }
        }
        kind::ANSWERED => {
            let (client, asked, kept) = answered::decode(from)?;
            Change::Answered { client, asked, kept }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::{DirEntry, Distribution, Path};
    use super::*;
    use crate::transport::Rank;

    fn name(text: &str) -> Path {
        Path::new(text).unwrap()
    }

    fn listed(names: &Names) -> Vec<DirEntry> {
        names.list(&Path::default(), None, 1_000).unwrap().0
    }

    /// A log of three batches, and what the directory was after each.
    fn written() -> (Vec<u8>, Vec<(u64, Vec<DirEntry>)>) {
        let (mut names, mut log) = (Names::default(), Log::behind(Some(4), None, 0));
        let (mut bytes, mut after) = (Vec::new(), Vec::new());

        for step in 0..3 {
            let mut changes = Vec::new();
            for nth in 0..2 {
                let made = names.create(
                    0,
                    Rank::from_index(1),
                    name(&format!("{step}{nth}")),
                    Distribution::single(0),
                );
                changes.extend(made.map(|(_, change)| change));
            }
            changes.extend(names.unlink(&name(&format!("{step}0"))).map(|(_, change)| change));
            let commit = log.commit(&names, &changes);
            assert_eq!((commit.log, commit.at), (5, bytes.len() as u64));
            assert_eq!(commit.replaces, (step == 0).then_some(4));
            bytes.extend(commit.bytes);
            after.push((bytes.len() as u64, listed(&names)));
        }
        (bytes, after)
    }

    #[test]
    fn a_log_that_ends_anywhere_has_all_batches_that_are_whole() {
        let (bytes, after) = written();
        for end in 0..=bytes.len() {
            let whole = after.iter().rev().find(|(at, _)| *at <= end as u64);
            match (read(5, &bytes[..end]), whole) {
                (Ok(found), Some((at, names))) => {
                    assert_eq!((found.end, &listed(&found.names)), (*at, names), "cut at {end}");
                }
                (Err(Unread::NoCheckpoint), None) => {}
                (read, _) => panic!("cut at {end}: {:?}", read.map(|found| found.end)),
            }
        }
    }

    #[test]
    fn a_bit_that_flips_is_found_and_named_unless_it_may_be_a_crash() {
        let (bytes, after) = written();
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            let batch = after.iter().position(|(end, _)| (at as u64) < *end).unwrap();
            let read = read(5, &flipped).map(|found| found.end);
            let begin = batch.checked_sub(1).map(|before| after[before].0);
            let expected = match (batch, begin) {
                (0, _) => Err(Unread::NoCheckpoint),
                // The last batch in pieces is what a crash leaves.
                (2, Some(begin)) => Ok(begin),
                (_, begin) => Err(Unread::Damaged { at: begin.unwrap_or_default() }),
            };
            assert_eq!(read, expected, "byte {at}");
        }
    }

    #[test]
    fn a_log_of_another_number_is_none_and_bytes_of_anything_are_read_to_the_end() {
        let (bytes, _) = written();
        assert_eq!(read(6, &bytes).map(|found| found.end), Err(Unread::NoCheckpoint));
        assert_eq!(read(0, &[0; 100]).map(|found| found.end), Err(Unread::NoCheckpoint));
        assert_eq!(read(0, &[0xff; 100]).map(|found| found.end), Err(Unread::NoCheckpoint));
    }

    #[test]
    fn a_directory_that_is_longer_than_a_batch_is_found_again_whole_or_not_at_all() {
        let (mut names, mut log) = (Names::default(), Log::behind(None, None, 0));
        log.longest = 64;
        for nth in 0..40 {
            names.create(0, Rank::from_index(1), name(&nth.to_string()), Distribution::single(0)).unwrap();
        }
        let (first, before) = (log.commit(&names, &[]), listed(&names));
        let (_, unlinked) = names.unlink(&name("7")).unwrap();
        let second = log.commit(&names, &[unlinked]);
        let (begun, bytes) = (first.bytes.len(), [first.bytes, second.bytes].concat());
        let (_, end) = batch(0, &bytes, 0).unwrap();
        assert!(end == HEAD + 64 && begun > 10 * end, "{end} of {begun}");
        assert_eq!(read(0, &bytes).map(|found| listed(&found.names)), Ok(listed(&names)));
        assert_eq!(read(0, &bytes[..begun]).map(|found| listed(&found.names)), Ok(before));
        for end in 0..begun {
            assert_eq!(read(0, &bytes[..end]).map(|found| found.end), Err(Unread::NoCheckpoint), "{end}");
        }
        for at in 0..begun {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            assert_eq!(read(0, &flipped).map(|found| found.end), Err(Unread::NoCheckpoint), "byte {at}");
        }
    }

    #[test]
    fn what_was_unlinked_and_not_removed_yet_is_found_again() {
        let (mut names, mut log) = (Names::default(), Log::behind(None, None, 0));
        let (handle, _) = names.create(0, Rank::from_index(1), name("a"), Distribution::single(0)).unwrap();
        let (_, unlinked) = names.unlink(&name("a")).unwrap();
        let first = log.commit(&names, &[unlinked]);
        let mut found = read(0, &first.bytes).unwrap().names;
        assert_eq!(found.unused(), [Change::Ending { handle }], "nobody has it open in this life");
        assert!(found.unused().is_empty(), "once");
        let ended = log.commit(&names, &[Change::Ended { handle }]);
        let mut found = read(0, &[first.bytes, ended.bytes].concat()).unwrap().names;
        assert!(found.unused().is_empty());
        let (next, _) = found.create(0, Rank::from_index(1), name("b"), Distribution::single(0)).unwrap();
        assert_ne!(next, handle, "a handle never comes again");
    }

    #[test]
    fn a_commit_without_room_leaves_the_older_log_as_it_was() {
        let (names, ended) = (Names::default(), [Change::Ended { handle: Handle(1) }]);
        let mut log = Log::behind(Some(2), None, 0);
        let refused = log.commit(&names, &[]);
        assert!(!log.refused(true), "nothing to go on with");
        assert_eq!(log.commit(&names, &[]), refused);
        let appended = log.commit(&names, &ended);
        assert!(!log.refused(false));
        assert_eq!(log.commit(&names, &ended), appended);
    }

    /// The file system may need room also for bytes that are there already, as one does that copies on writes.
    #[test]
    fn zeros_that_were_cut_off_with_a_batch_are_counted_on_no_more_and_a_removal_asks_for_none_beyond_itself()
    {
        let (mut names, mut log) = (Names::default(), Log::behind(None, None, 256));
        log.commit(&names, &[]);
        names.create(0, Rank::from_index(1), name("a"), Distribution::single(0)).unwrap();
        let (_, removal) = names.unlink(&name("a")).unwrap();
        let among_zeros = log.commit(&names, std::slice::from_ref(&removal));
        assert!(among_zeros.zeros.is_empty());
        // They are there, unless they were cut off.
        assert!(!log.refused(false));
        assert_eq!(log.commit(&names, std::slice::from_ref(&removal)), among_zeros);
        assert!(!log.refused(true));
        let (at, end) = (among_zeros.at, among_zeros.at + among_zeros.bytes.len() as u64);
        assert_eq!(log.commit(&names, &[removal]).zeros, at..end);
        assert!(!log.refused(false));
        let (_, made) = names.create(0, Rank::from_index(1), name("b"), Distribution::single(0)).unwrap();
        let zeros = log.commit(&names, &[made]).zeros;
        assert_eq!((zeros.start, zeros.end % 256), (at, 0), "with room for what removes");
    }

    #[test]
    fn what_removes_finds_room_where_nothing_more_can_be_made_or_altered() {
        let mut names = Names::default();
        let mut log = Log::behind(None, None, 256);
        let end = |commit: &Commit| (commit.at as usize + commit.bytes.len()).max(commit.zeros.end as usize);
        let put = |bytes: &mut Vec<u8>, commit: &Commit| {
            bytes.resize(bytes.len().max(end(commit)), 0);
            bytes[commit.at as usize..][..commit.bytes.len()].copy_from_slice(&commit.bytes);
        };
        let first = log.commit(&names, &[]);
        assert_eq!(end(&first), 256);
        let (mut bytes, mut made) = (Vec::new(), 0);
        put(&mut bytes, &first);
        // A disk that has room for no more than these bytes.
        loop {
            let text = format!("{made}");
            let (_, change) =
                names.create(0, Rank::from_index(1), name(&text), Distribution::single(0)).unwrap();
            let commit = log.commit(&names, std::slice::from_ref(&change));
            if end(&commit) > 256 {
                names.undo(&change, None);
                assert!(!log.refused(false));
                break;
            }
            put(&mut bytes, &commit);
            made += 1;
        }
        assert!(made > 0);
        // What alters files takes what removals leave of the room.
        let (_, attributes) = names.stat(&name("0")).unwrap();
        let handle = names.files().next().map(|(_, handle)| handle).unwrap();
        let attributes = Change::Attributes { handle, attributes, before: attributes };
        let cut = Change::End { handle, end: 0, before: 0, place: None };
        for change in [attributes, cut] {
            let mut altered = 0;
            loop {
                let commit = log.commit(&names, std::slice::from_ref(&change));
                if end(&commit) > 256 {
                    assert!(!log.refused(false));
                    break;
                }
                put(&mut bytes, &commit);
                altered += 1;
            }
            assert!(altered < 10, "{change:?}");
        }
        for file in 0..made {
            let (_, change) = names.unlink(&name(&format!("{file}"))).unwrap();
            let commit = log.commit(&names, &[change]);
            assert!(end(&commit) <= 256, "the {file}th of {made}");
            put(&mut bytes, &commit);
        }
        let found = read(0, &bytes).unwrap();
        assert_eq!((found.torn, listed(&found.names)), (0, Vec::new()));
        // In the next life a new log finds no room, and the older one goes on, since it has only zeros behind its end.
        let mut log = Log::behind(Some(0), Some((found.end, 256)), 256);
        let refused = log.commit(&names, &[]);
        assert_eq!((refused.log, refused.at), (1, 0));
        assert!(log.refused(false));
        let commit = log.commit(&names, &[Change::Ended { handle: Handle(1) }]);
        assert_eq!((commit.log, commit.at), (0, found.end));
    }
}
