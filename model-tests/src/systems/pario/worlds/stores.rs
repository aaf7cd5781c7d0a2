//! What a power cut would leave of the servers' disks once nothing is under way: stores that `weft fsck` finds sound, with the names that are
//! known to be there, and no object without an owner.

use super::super::client::path;
use super::super::workload::PfWork;
use crate::explore::Violation;
use std::collections::BTreeMap;
use weft_protocols::pario::{Handle, Path, check_store, log_object};
use weft_sim::{Fabric, NodeId};
use weft_verbs::ObjectName;

/// The promise.
pub(super) const STORES: &str = "stores";

/// So many power cuts are tried: each draws what becomes of every sector that was not synced.
const POWER_CUTS: u64 = 4;

/// A server's disk.
type Store = BTreeMap<ObjectName, Vec<u8>>;

/// A name of which it is known whether it is there.
pub(super) struct Known {
    path: String,
    there: bool,
    /// The file that has it, where that is known.
    file: Option<u64>,
}

/// What the oracles know of names, by paths.
pub(super) fn known(names: Vec<(u32, bool, Option<u64>)>, work: &PfWork) -> Vec<Known> {
    let known = |(name, there, file)| Known { path: path(name, work), there, file };
    names.into_iter().map(known).collect()
}

/// Cuts the power of all servers, the first nodes, at this moment, and [judges](judge) what that leaves. The fabric goes on as it is.
///
/// # Errors
///
/// The promise that was broken.
pub(super) fn judge_power_cuts(
    fabric: &Fabric,
    servers: u32,
    known: &[Known],
    all_closed: bool,
) -> Result<(), Violation> {
    (0..POWER_CUTS).try_for_each(|cut| {
        let disk = |server| fabric.disk_after_crash(NodeId(server), cut).into_iter().collect();
        let stores: Vec<Store> = (0..servers).map(disk).collect();
        let judged = judge(&stores, known, all_closed);
        judged.map_err(|why| Violation::new(STORES, format!("after a power cut {why}")))
    })
}

/// Judges the stores of all servers, of which the first has the directory. Where no file is open, each object is one of a file with a name.
///
/// # Errors
///
/// What is wrong.
fn judge(stores: &[Store], known: &[Known], all_closed: bool) -> Result<(), String> {
    let mut names = Vec::new();
    for (server, store) in stores.iter().enumerate() {
        names.extend(names_in(server, store)?);
    }
    has_known(&names, known)?;
    if all_closed { has_owners(stores, &names) } else { Ok(()) }
}

/// The names that `weft fsck` finds in a server's store.
fn names_in(server: usize, store: &Store) -> Result<Vec<(Path, Handle)>, String> {
    let sizes: Vec<_> = store.iter().map(|(object, bytes)| (*object, bytes.len() as u64)).collect();
    let read = |object: ObjectName| store.get(&object).cloned().ok_or_else(|| "it is not there".to_string());
    let report = check_store(&sizes, server == 0, read);
    report.map(|report| report.names).map_err(|why| format!("n{server} has no sound store: {why}"))
}

/// The names that are known to be there are, and those that are known not to be are not.
fn has_known(names: &[(Path, Handle)], known: &[Known]) -> Result<(), String> {
    for Known { path, there, file } in known {
        let found = names.iter().find(|(name, _)| name.as_str() == path).map(|(_, handle)| handle.0);
        if found.is_some() != *there {
            return Err(format!("{path} is {}there", if *there { "not " } else { "" }));
        }
        if let (Some(file), Some(found)) = (file, found)
            && *file != found
        {
            return Err(format!("{path} is file {found:x}, and not {file:x}"));
        }
    }
    Ok(())
}

/// Each object is a log, or one of a file with a name.
fn has_owners(stores: &[Store], names: &[(Path, Handle)]) -> Result<(), String> {
    let is_log = |object: ObjectName| object.0 >= log_object(0).0;
    let has_name = |object: ObjectName| names.iter().any(|(_, handle)| handle.0 == object.0);
    for (server, store) in stores.iter().enumerate() {
        if let Some(object) = store.keys().find(|object| !is_log(**object) && !has_name(**object)) {
            return Err(format!("n{server} has object {object}, which no file has"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::shipped::{self, Way};
    use super::*;
    use crate::explore::{ModelFactory, Size, TransitionSystem};
    use crate::harness::Harness;

    fn named(path: &str, file: u64) -> (Path, Handle) {
        (Path::new(path).expect("a short name"), Handle(file))
    }

    #[test]
    fn a_name_that_is_missing_that_is_there_after_its_end_or_that_is_another_files_is_told() {
        let names = [named("f0", 5)];
        let told = |there, file| has_known(&names, &[Known { path: "f0".to_string(), there, file }]);
        assert_eq!((told(true, None), told(true, Some(5))), (Ok(()), Ok(())));
        assert_eq!(told(false, None), Err("f0 is there".to_string()));
        assert_eq!(told(true, Some(6)), Err("f0 is file 5, and not 6".to_string()));
        let missing = [Known { path: "f1".to_string(), there: true, file: None }];
        assert_eq!(has_known(&names, &missing), Err("f1 is not there".to_string()));
        let ended = [Known { there: false, ..missing.into_iter().next().expect("one") }];
        assert_eq!(has_known(&names, &ended), Ok(()));
    }

    /// Of the disk of a service that made a file.
    #[test]
    fn what_was_made_is_found_in_what_a_power_cut_leaves() {
        let calls = shipped::make(&Size::default(), Way::Durable, "m").expect("a script");
        let mut execution = Harness::new("one file", calls).root();
        execution.fabric().run_until_quiescent();
        assert_eq!(execution.finish(), Ok(()));
        let disk: Store = execution.fabric().disk_after_crash(NodeId(0), 0).into_iter().collect();
        let objects = disk.len();
        let stores = [disk];
        let told = |there| judge(&stores, &[Known { path: "f0".to_string(), there, file: None }], true);
        assert_eq!((objects, told(true)), (2, Ok(())), "a log and the file's object");
        assert_eq!(told(false), Err("f0 is there".to_string()));
    }

    #[test]
    fn an_object_without_an_owner_is_told_once_all_files_are_closed() {
        let stores = [Store::new(), Store::from([(ObjectName(5), vec![1])])];
        assert_eq!(has_owners(&stores, &[named("f0", 5)]), Ok(()));
        assert_eq!(judge(&stores, &[], false), Ok(()), "somebody may have it open");
        assert!(judge(&stores, &[], true).is_err_and(|why| why.starts_with("n1 has object")));
    }

    #[test]
    fn a_store_that_no_crash_leaves_is_told() {
        let lost = [Store::from([(ObjectName(5), vec![1])])];
        assert!(judge(&lost, &[], false).is_err_and(|why| why.starts_with("n0 has no sound store")));
    }
}
