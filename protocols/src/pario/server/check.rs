//! What a store has, told without a server: for who looks at one after a crash, and changes nothing.

use super::super::{Handle, Path};
use super::log::{self, Found, Unread};
use thiserror::Error;
use weft_verbs::ObjectName;

/// What a server's disk has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreReport {
    /// The directory's log, by its number; none on the disk of a server that has no directory, or has made no file yet.
    pub log: Option<u64>,
    /// Bytes of the log's whole batches.
    pub committed: u64,
    /// Bytes behind them, of a batch of which a crash has left a part. Nobody was told of it.
    pub torn: u64,
    /// Other logs: older ones, or newer ones whose first commit never ended. The next start removes them.
    pub other_logs: Vec<u64>,
    /// The paths of all files, in order, and the files.
    pub names: Vec<(Path, Handle)>,
    /// All directories but the root, in order.
    pub directories: Vec<Path>,
    /// Files without a name whose objects are to be removed once nobody has them open.
    pub unlinked: Vec<Handle>,
    /// Objects of files that have ended, which the next start removes. (That a file has no objects any more is in the log with the next change
    /// of a name: many may have ended of which there is none.)
    pub ended: Vec<Handle>,
    /// Objects of files here.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects of files that the directory has no more, if the directory is here: nobody can reach them.
    pub strangers: Vec<Handle>,
}

/// Why a store cannot be trusted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// A batch is broken and a whole one lies behind it, which no crash does.
    #[error("log {object} is damaged at byte {at}, and more of it lies behind")]
    Damaged {
        /// The log.
        object: ObjectName,
        /// The broken batch's first byte.
        at: u64,
    },
    /// There are files, and no log begins with a whole directory, where one is to be.
    #[error("{objects} objects of files are there, and no log begins with a whole directory")]
    NoDirectory {
        /// How many objects.
        objects: u64,
    },
    /// A file of which the log has never heard has an object, which no crash leaves: its name was durable before.
    #[error(
        "log {object} ends at byte {at} and has never heard of the file of object {file}: it was cut short, or is an older copy"
    )]
    CutShort {
        /// The log.
        object: ObjectName,
        /// Where its last whole batch ends.
        at: u64,
        /// The file's object.
        file: ObjectName,
    },
    /// A log that is not the first one has no whole directory, and the one before it is gone.
    #[error("log {object} does not begin with a whole directory, and the log before it is not there")]
    NoCheckpoint {
        /// The log.
        object: ObjectName,
    },
    /// An object cannot be read.
    #[error("object {object} cannot be read: {why}")]
    Read {
        /// The object.
        object: ObjectName,
        /// What was said.
        why: String,
    },
}

/// Looks at a store: its objects with their sizes, whether it is that of the server with the directory, and a way to read an object.
///
/// # Errors
///
/// What no crash leaves.
pub fn check_store(
    objects: &[(ObjectName, u64)],
    has_directory: bool,
    mut read: impl FnMut(ObjectName) -> Result<Vec<u8>, String>,
) -> Result<StoreReport, StoreError> {
    let files = objects.iter().filter(|(object, _)| log::log_of(*object).is_none());
    let (count, bytes) = files.clone().fold((0, 0), |(count, bytes), (_, size)| (count + 1, bytes + size));
    let mut report = StoreReport { objects: count, bytes, ..StoreReport::default() };
    let mut logs: Vec<u64> = objects.iter().filter_map(|(object, _)| log::log_of(*object)).collect();
    logs.sort_unstable_by(|a, b| b.cmp(a));
    let mut found: Option<Found> = None;
    for &number in &logs {
        let object = log::object(number);
        if found.is_some() {
            report.other_logs.push(number);
            continue;
        }
        let whole = read(object).map_err(|why| StoreError::Read { object, why })?;
        match log::read(number, &whole) {
            Ok(log) => {
                (report.log, report.committed, report.torn) = (Some(number), log.end, log.torn);
                found = Some(log);
            }
            Err(Unread::NoCheckpoint) => report.other_logs.push(number),
            Err(Unread::Damaged { at }) => return Err(StoreError::Damaged { object, at }),
        }
    }
    let Some(Found { names, .. }) = found else {
        return match logs.first() {
            _ if count > 0 && (has_directory || !logs.is_empty()) => {
                Err(StoreError::NoDirectory { objects: count })
            }
            Some(newest) if !log::may_be_unfinished(&logs) => {
                Err(StoreError::NoCheckpoint { object: log::object(*newest) })
            }
            _ => Ok(report),
        };
    };
    if let (Some(log), Some(&(file, _))) =
        (report.log, files.clone().find(|(file, _)| names.is_unheard_of(Handle(file.0))))
    {
        return Err(StoreError::CutShort { object: log::object(log), at: report.committed, file });
    }
    report.names = names.files().map(|(path, handle)| (path.clone(), handle)).collect();
    report.directories = names.directories().cloned().collect();
    report.unlinked = names.unlinked().filter(|handle| !names.is_ending(*handle)).collect();
    let handles = || files.clone().map(|(object, _)| Handle(object.0));
    report.ended = handles().filter(|handle| names.is_ending(*handle)).collect();
    report.strangers = handles().filter(|handle| !names.knows(*handle)).collect();
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::super::log::Log;
    use super::super::names::{Change, Names};
    use super::*;
    use crate::pario::Distribution;
    use crate::transport::Rank;

    fn name(text: &str) -> Path {
        Path::new(text).unwrap()
    }

    /// A log of a file with a name, one without, and one that has ended; and where its second batch begins.
    fn written() -> (ObjectName, Vec<u8>, [Handle; 3], usize) {
        let (mut names, mut log) = (Names::default(), Log::behind(None, None, 0));
        let mut make =
            |text: &str| names.create(0, Rank::from_index(1), name(text), Distribution::single(0)).unwrap();
        let all = [make("kept"), make("gone"), make("ended")];
        let (handles, changes) = (all.each_ref().map(|(handle, _)| *handle), all.map(|(_, change)| change));
        let first = log.commit(&names, &changes);
        let unlinked = ["gone", "ended"].map(|text| names.unlink(&name(text)).unwrap().1);
        let ended = Change::Ended { handle: handles[2] };
        let second = log.commit(&names, &[&unlinked[..], &[ended]].concat());
        let (begins, bytes) = (first.bytes.len(), [first.bytes, second.bytes].concat());
        (log::object(first.log), bytes, handles, begins)
    }

    #[test]
    fn a_store_is_told_as_it_is() {
        let (object, bytes, [kept, gone, ended], _) = written();
        let torn = [&bytes[..], &[1, 2, 3]].concat();
        let objects = [(object, torn.len() as u64), (ObjectName(kept.0), 10), (ObjectName(ended.0), 5)];
        let report = check_store(&objects, true, |_| Ok(torn.clone())).unwrap();
        assert_eq!(report.names, [(name("kept"), kept)]);
        assert_eq!((report.unlinked, report.strangers), (vec![gone], vec![ended]));
        assert_eq!((report.committed, report.torn), (bytes.len() as u64, 3));
        assert_eq!((report.objects, report.bytes), (2, 15));
        assert_eq!(check_store(&[(ObjectName(5), 1)], false, |_| Err("no".into())).unwrap().log, None);
        let unfinished = check_store(&[(log::object(0), 9)], true, |_| Ok(bytes[..9].to_vec())).unwrap();
        assert_eq!((unfinished.log, unfinished.other_logs), (None, vec![0]));
    }

    #[test]
    fn a_file_that_has_ended_is_told_only_if_its_object_is_there() {
        let (mut names, mut log) = (Names::default(), Log::behind(None, None, 0));
        let (file, made) = names.create(0, Rank::from_index(1), name("a"), Distribution::single(0)).unwrap();
        names.close(Rank::from_index(1), file, false).unwrap();
        let (_, unlinked) = names.unlink(&name("a")).unwrap();
        let ending = names.end_if_unused(file).expect("nobody can reach it");
        let batch = log.commit(&names, &[made, unlinked, ending]);
        let (object, bytes) = (log::object(batch.log), batch.bytes);
        let objects = [(object, bytes.len() as u64), (ObjectName(file.0), 10)];
        for (there, ended) in [(&objects[..], vec![file]), (&objects[..1], vec![])] {
            let report = check_store(there, true, |_| Ok(bytes.clone())).unwrap();
            assert_eq!((report.unlinked, report.ended, report.strangers), (vec![], ended, vec![]));
        }
    }

    #[test]
    fn a_log_that_was_cut_short_is_told_by_a_file_of_which_it_has_not_heard() {
        let (object, bytes, [kept, ..], _) = written();
        let file = ObjectName(kept.0 + 3);
        let objects = [(object, bytes.len() as u64), (file, 10)];
        let told = check_store(&objects, true, |_| Ok(bytes.clone()));
        assert_eq!(told, Err(StoreError::CutShort { object, at: bytes.len() as u64, file }));
        let told = check_store(&[(log::object(4), 9)], true, |_| Ok(bytes[..9].to_vec()));
        assert_eq!(told, Err(StoreError::NoCheckpoint { object: log::object(4) }));
    }

    #[test]
    fn what_no_crash_leaves_is_named_by_its_place() {
        let (object, bytes, [kept, ..], second) = written();
        let objects = [(object, bytes.len() as u64), (ObjectName(kept.0), 10)];
        // The second batch once more behind a broken one.
        let damaged = [&bytes[..second], &[9; 8], &bytes[second..]].concat();
        let at = second as u64;
        let told = check_store(&objects, true, |_| Ok(damaged.clone()));
        assert_eq!(told, Err(StoreError::Damaged { object, at }));
        let mut broken = bytes.clone();
        broken[9] ^= 1;
        let none = check_store(&objects, true, |_| Ok(broken.clone()));
        assert_eq!(none, Err(StoreError::NoDirectory { objects: 1 }));
        let without_log = check_store(&objects[1..], true, |_| Err("no log".into()));
        assert_eq!(without_log, Err(StoreError::NoDirectory { objects: 1 }));
        let unread = check_store(&objects, true, |_| Err("gone".into()));
        assert_eq!(unread, Err(StoreError::Read { object, why: "gone".into() }));
    }
}
