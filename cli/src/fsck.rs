//! `weft fsck`: what a server's store has, and whether it can be trusted. Nothing of it is changed.

use crate::args::FsckArgs;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::table::count;
use serde::Serialize;
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::Path;
use weft_protocols::pario::{StoreError, StoreReport, check_store, log_object};
use weft_store::{Directory, StoreRefused};
use weft_verbs::ObjectName;

/// What was found that is not as a clean end leaves it.
#[derive(Serialize)]
struct Finding {
    /// Its file.
    place: String,
    what: String,
    /// A crash leaves such things, and the next start of the server mends them.
    harmless: bool,
}

#[derive(Serialize)]
struct Checked {
    store: String,
    cluster: String,
    server: u32,
    /// Over how many file servers its files are placed, if it says.
    servers: Option<u32>,
    names: usize,
    /// Its directories but the root.
    directories: usize,
    /// Objects of files, and their bytes.
    objects: u64,
    bytes: u64,
    /// The directory's log, and bytes of its whole batches.
    log: Option<String>,
    committed: u64,
    findings: Vec<Finding>,
}

/// Looks at a store.
pub fn run(args: &FsckArgs) -> Result<Exit, Failure> {
    let directory = Directory::look(&args.store).map_err(not_looked_at)?;
    let (place, id) = (args.store.display().to_string(), directory.id().clone());
    let read = |why: &dyn std::fmt::Display| Failure::unfinished(format!("{place}: {why}"));
    let servers = directory.servers().map_err(not_looked_at)?;
    let strangers = directory.strangers().map_err(|why| read(&why))?;
    let mut sizes = Vec::new();
    let misplaced = directory.misplaced().map_err(|why| read(&why))?;
    let mut objects = directory.objects().map_err(|why| read(&why))?;
    objects.retain(|object| !misplaced.contains(object));
    for object in objects {
        let size = directory.size(object).map_err(|why| read(&why).at(format_args!("object {object}")))?;
        sizes.push((object, size));
    }
    // All directories are the first server's.
    let has_directory = id.server == 0;
    let whole = |object| directory.bytes(object).map_err(|why| why.to_string());
    let report = check_store(&sizes, has_directory, whole).map_err(|why| match why {
        StoreError::Read { .. } => read(&why),
        _ => Failure::bad_input(format!(
            "{place}: {why}. No crash does that. Nothing was changed: take the store from a copy"
        )),
    })?;
    let findings = findings(&args.store, &report, &strangers, &misplaced);
    let checked = Checked {
        store: place,
        cluster: id.cluster,
        server: id.server,
        servers,
        names: report.names.len(),
        directories: report.directories.len(),
        objects: report.objects,
        bytes: report.bytes,
        log: report.log.map(|log| log_object(log).to_string()),
        committed: report.committed,
        findings,
    };
    match args.json {
        true => output::json(&checked)?,
        false => output::text(&text(&checked))?,
    }
    let clean = checked.findings.iter().all(|finding| finding.harmless);
    Ok(if clean { Exit::Held } else { Exit::Violated })
}

/// A store that is not there is none; one that cannot be read may be sound.
fn not_looked_at(why: StoreRefused) -> Failure {
    match &why {
        StoreRefused::Unusable { why: error, .. }
            if ![ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) =>
        {
            Failure::unfinished(&why)
        }
        _ => Failure::store(why),
    }
}

fn findings(
    store: &Path,
    report: &StoreReport,
    strangers: &[String],
    misplaced: &[ObjectName],
) -> Vec<Finding> {
    let place = |file: &str| store.join(file).display().to_string();
    let found = |object: ObjectName, what: String, harmless: bool| Finding {
        place: place(&object.to_string()),
        what,
        harmless,
    };
    let mut all = Vec::new();
    if let (Some(log), 1..) = (report.log, report.torn) {
        let (torn, at) = (count(report.torn), count(report.committed));
        let what = format!(
            "{torn} bytes behind byte {at} are of a batch that a crash cut off; nobody was told of it"
        );
        all.push(found(log_object(log), what, true));
    }
    for log in &report.other_logs {
        let what = "a log that is not in use; the server's next start removes it".to_string();
        all.push(found(log_object(*log), what, true));
    }
    if let (Some(log), many @ 1..) = (report.log, report.unlinked.len()) {
        let what = match many {
            1 => "a file without a name, whose objects are removed once nobody has it open".to_string(),
            _ => format!("{many} files without a name, whose objects are removed once nobody has them open"),
        };
        all.push(found(log_object(log), what, true));
    }
    for file in &report.ended {
        let what = "the object of a file that has ended; the server's next start removes it".to_string();
        all.push(found(ObjectName(file.0), what, true));
    }
    for file in &report.strangers {
        let what = "the object of a file that has ended: nobody can reach it".to_string();
        all.push(found(ObjectName(file.0), what, false));
    }
    for object in misplaced {
        all.push(found(*object, "has an object's name and is no file".to_string(), false));
    }
    for file in strangers {
        all.push(Finding { place: place(file), what: "no file of a store's".to_string(), harmless: false });
    }
    all
}

fn text(checked: &Checked) -> String {
    let Checked { store, cluster, server, names, directories, objects, bytes, log, committed, .. } = checked;
    let findings = &checked.findings;
    let of = checked.servers.map_or(String::new(), |servers| format!(" of {servers}"));
    let mut text = format!("{store}: the store of server {server}{of} of cluster '{cluster}'\n");
    let files = format!("{} objects of files with {} bytes", count(*objects), count(*bytes));
    let _ = match log {
        Some(log) => {
            let of_directories =
                |n| if n == 0 { String::new() } else { format!(", {} directories", count(n)) };
            let names = format!("{} names{}", count(*names as u64), of_directories(*directories as u64));
            writeln!(text, "  {names} in {} bytes of log {log}\n  {files}", count(*committed))
        }
        None => writeln!(text, "  {files}, and no directory"),
    };
    for Finding { place, what, .. } in findings {
        let _ = writeln!(text, "{place}: {what}");
    }
    let wrong = findings.iter().filter(|finding| !finding.harmless).count();
    let _ = match (wrong, findings.len()) {
        (0, 0) => writeln!(text, "clean"),
        (0, _) => writeln!(text, "clean: a crash leaves such things"),
        (1, _) => writeln!(text, "not clean: one of these was left by no crash"),
        (wrong, _) => writeln!(text, "not clean: {wrong} of these were left by no crash"),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_cannot_be_read_is_none_that_is_not_there() {
        let exit = |why: ErrorKind| {
            let refused = StoreRefused::Unusable { path: "/store".into(), why: why.into() };
            not_looked_at(refused).exit()
        };
        assert_eq!([ErrorKind::PermissionDenied, ErrorKind::Other].map(exit), [Exit::Unfinished; 2]);
        assert_eq!([ErrorKind::NotFound, ErrorKind::NotADirectory].map(exit), [Exit::BadInput; 2]);
    }
}
