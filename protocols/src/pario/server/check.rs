//! What a store has, told without a server: for who looks at one after a crash, and changes nothing.

use super::super::{Handle, Name};
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
    /// All names, in order, and their files.
    pub names: Vec<(Name, Handle)>,
    /// Files without a name whose objects are to be removed once nobody has them open.
    pub unlinked: Vec<Handle>,
    /// Objects of files here.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects of files that the directory does not have, if the directory is here: nobody can reach them.
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
    /// There are files and logs, and none of these begins with a whole directory.
    #[error("{objects} objects of files are there, and no log begins with a whole directory")]
    NoDirectory {
        /// How many objects.
        objects: u64,
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

/// Looks at a store: its objects with their sizes, and a way to read one.
///
/// # Errors
///
/// What no crash leaves.
pub fn check_store(
    objects: &[(ObjectName, u64)],
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
                (report.log, report.committed, report.torn) =
                    (Some(number), log.end, whole.len() as u64 - log.end);
                found = Some(log);
            }
            Err(Unread::NoCheckpoint) => report.other_logs.push(number),
            Err(Unread::Damaged { at }) => return Err(StoreError::Damaged { object, at }),
        }
    }
    let Some(Found { names, .. }) = found else {
        return match count > 0 && !logs.is_empty() {
            true => Err(StoreError::NoDirectory { objects: count }),
            false => Ok(report),
        };
    };
    report.names = names.entries().map(|(name, handle)| (name.clone(), handle)).collect();
    report.unlinked = names.unlinked().collect();
    let handles = files.map(|(object, _)| Handle(object.0));
    report.strangers = handles.filter(|handle| !names.knows(*handle)).collect();
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::super::log::Log;
    use super::super::names::Names;
    use super::*;
    use crate::pario::Distribution;
    use crate::transport::Rank;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    /// A log of one file with a name and one without.
    fn written() -> (ObjectName, Vec<u8>, [Handle; 2]) {
        let (mut names, mut log) = (Names::default(), Log::behind(None));
        let mut make =
            |text: &str| names.create(0, Rank::from_index(1), name(text), Distribution::single(0)).unwrap();
        let ((kept, _), (gone, made)) = (make("kept"), make("gone"));
        let first = log.commit(&names, &[made]);
        let (_, unlinked) = names.unlink(&name("gone")).unwrap();
        let second = log.commit(&names, &[unlinked]);
        (log::object(first.log), [first.bytes, second.bytes].concat(), [kept, gone])
    }

    #[test]
    fn a_store_is_told_as_it_is() {
        let (object, bytes, [kept, gone]) = written();
        let torn = [&bytes[..], &[1, 2, 3]].concat();
        let objects = [(object, torn.len() as u64), (ObjectName(kept.0), 10), (ObjectName(77), 5)];
        let report = check_store(&objects, |_| Ok(torn.clone())).unwrap();
        assert_eq!(report.names, [(name("kept"), kept)]);
        assert_eq!((report.unlinked, report.strangers), (vec![gone], vec![Handle(77)]));
        assert_eq!((report.committed, report.torn), (bytes.len() as u64, 3));
        assert_eq!((report.objects, report.bytes), (2, 15));
        assert_eq!(check_store(&[(ObjectName(5), 1)], |_| Err("no".into())).unwrap().log, None);
    }

    #[test]
    fn what_no_crash_leaves_is_named_by_its_place() {
        let (object, bytes, [kept, _]) = written();
        let objects = [(object, bytes.len() as u64), (ObjectName(kept.0), 10)];
        // The second batch once more behind a broken one.
        let checkpoint = bytes.len() - 4 - 4 - 8 - 1 - 5;
        let damaged = [&bytes[..checkpoint], &[9; 8], &bytes[checkpoint..]].concat();
        let at = checkpoint as u64;
        let told = check_store(&objects, |_| Ok(damaged.clone()));
        assert_eq!(told, Err(StoreError::Damaged { object, at }));
        let mut broken = bytes.clone();
        broken[9] ^= 1;
        let none = check_store(&objects, |_| Ok(broken.clone()));
        assert_eq!(none, Err(StoreError::NoDirectory { objects: 1 }));
        let unread = check_store(&objects, |_| Err("gone".into()));
        assert_eq!(unread, Err(StoreError::Read { object, why: "gone".into() }));
    }
}
