//! Objects as files, one call after the other.

use super::{Scratch, id};
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use weft_store::{Directory, Objects};
use weft_verbs::{DiskError, ObjectName};

const A: ObjectName = ObjectName(0xa);
const LOG: ObjectName = ObjectName(1 << 63 | 7);

fn write(objects: &Objects, object: ObjectName, at: u64, bytes: &[u8]) -> Result<usize, DiskError> {
    objects.write(object, at, bytes.len(), |file, done, at| file.write_at(&bytes[done..], at))
}

fn read(objects: &Objects, object: ObjectName, at: u64, len: usize) -> Result<Vec<u8>, DiskError> {
    let mut bytes = vec![9; len];
    let read = objects.read(object, at, len, |file, done, at| file.read_at(&mut bytes[done..], at))?;
    bytes.truncate(read);
    Ok(bytes)
}

#[test]
fn objects_are_files_by_their_names_and_are_there_in_the_next_life() {
    let scratch = Scratch::new();
    let objects = scratch.objects();
    objects.create(LOG).unwrap();
    write(&objects, A, 3, b"bytes").unwrap();
    objects.sync(A).unwrap();
    assert_eq!(objects.list(), Ok(vec![A, LOG]));
    drop(objects);
    let names: Vec<String> = scratch.files().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["000000000000000a", "8000000000000007", "weft-store"]);
    let objects = scratch.objects();
    assert_eq!(read(&objects, A, 0, 100), Ok(b"\0\0\0bytes".to_vec()));
    assert_eq!((objects.size(A), objects.size(LOG)), (Ok(8), Ok(0)));
    assert_eq!(objects.remove(LOG), Ok(()));
    assert_eq!(objects.list(), Ok(vec![A]));
}

#[test]
fn no_other_user_of_the_machine_can_read_what_is_in_a_store_or_lock_it() {
    let scratch = Scratch::new();
    let objects = scratch.objects();
    objects.directory().of_servers(1).unwrap();
    objects.create(LOG).unwrap();
    write(&objects, A, 0, b"bytes").unwrap();
    for (name, _) in scratch.files() {
        let mode = fs::metadata(scratch.path().join(&name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}");
    }
    assert_eq!(scratch.files().len(), 4);
}

#[test]
fn what_is_there_and_what_is_not_is_told_by_its_name() {
    let scratch = Scratch::new();
    let objects = scratch.objects();
    for end in
        [objects.remove(A), objects.sync(A), objects.size(A).map(drop), read(&objects, A, 0, 1).map(drop)]
    {
        assert_eq!(end, Err(DiskError::NoObject(A)));
    }
    objects.create(A).unwrap();
    assert_eq!(objects.create(A), Err(DiskError::Exists(A)));
    let at = (1 << 63) - 1;
    assert_eq!(write(&objects, A, at, b"no"), Err(DiskError::Position { at, len: 2 }));
    assert_eq!(read(&objects, A, at, 2), Err(DiskError::Position { at, len: 2 }));
    // No file system has one so long.
    assert_eq!(write(&objects, A, 1 << 62, b"no"), Err(DiskError::Full));
    assert_eq!(read(&objects, A, 1 << 62, 2), Ok(Vec::new()));
    assert_eq!(objects.size(A), Ok(0));
}

#[test]
fn a_disk_has_no_room_for_an_object_that_is_longer_than_any_file() {
    let scratch = Scratch::new();
    let objects = scratch.objects();
    assert_eq!(objects.resize(A, 1 << 63), Err(DiskError::NoObject(A)));
    write(&objects, A, 0, b"bytes").unwrap();
    assert_eq!(objects.resize(A, 1 << 63), Err(DiskError::Full));
    let at = (1 << 63) + 1;
    assert_eq!(objects.resize(A, at), Err(DiskError::Position { at, len: 0 }));
    assert_eq!((objects.size(A), objects.sync(A)), (Ok(5), Ok(())));
}

#[test]
fn a_removed_object_is_gone_for_calls_that_begin_later_and_may_be_made_again() {
    let scratch = Scratch::new();
    let objects = scratch.objects();
    write(&objects, A, 0, b"old").unwrap();
    objects.remove(A).unwrap();
    assert_eq!(read(&objects, A, 0, 3), Err(DiskError::NoObject(A)));
    write(&objects, A, 1, b"n").unwrap();
    assert_eq!(read(&objects, A, 0, 3), Ok(b"\0n".to_vec()));
}

#[test]
fn more_objects_than_may_be_open_are_all_there() {
    let scratch = Scratch::new();
    let objects = scratch.objects();
    for n in 0..600 {
        write(&objects, ObjectName(n), 0, &n.to_le_bytes()).unwrap();
        objects.sync(ObjectName(n)).unwrap();
    }
    for n in (0..600).rev() {
        assert_eq!(read(&objects, ObjectName(n), 0, 8), Ok(n.to_le_bytes().to_vec()));
    }
}

/// Files of a directory that this process has open.
fn open_files(of: &Path) -> usize {
    let of = of.canonicalize().unwrap();
    let open = fs::read_dir("/proc/self/fd").unwrap();
    // One may be closed by another test while it is looked at.
    open.filter_map(|file| fs::read_link(file.ok()?.path()).ok()).filter(|file| file.starts_with(&of)).count()
}

#[test]
fn nothing_of_a_removed_object_stays_open_whether_it_was_used_or_not() {
    let scratch = Scratch::new();
    let objects = scratch.objects();
    let before = open_files(scratch.path());
    write(&objects, A, 0, b"used").unwrap();
    objects.create(LOG).unwrap();
    for object in [A, LOG] {
        objects.remove(object).unwrap();
        assert_eq!(read(&objects, object, 0, 1), Err(DiskError::NoObject(object)));
    }
    assert_eq!(open_files(scratch.path()), before);
}

#[test]
fn no_more_files_stay_open_than_may_though_nobody_syncs_any() {
    let scratch = Scratch::new();
    let objects = scratch.objects();
    for n in 0..600 {
        write(&objects, ObjectName(n), 0, &n.to_le_bytes()).unwrap();
    }
    // Those, the directory and its head.
    let open = open_files(scratch.path());
    assert!(open <= 256 + 2, "{open}");
    for n in 0..600 {
        assert_eq!(objects.sync(ObjectName(n)), Ok(()));
        assert_eq!(read(&objects, ObjectName(n), 0, 8), Ok(n.to_le_bytes().to_vec()));
    }
}

#[test]
fn a_file_that_is_closed_before_anybody_syncs_it_loses_no_error_by_that() {
    let scratch = Scratch::new();
    let objects = scratch.objects();
    let file = scratch.path().join(ObjectName(0).to_string());
    // What takes every byte, and cannot be synced.
    symlink("/dev/null", &file).unwrap();
    write(&objects, ObjectName(0), 0, b"lost").unwrap();
    for n in 1..300 {
        write(&objects, ObjectName(n), 0, b"kept").unwrap();
    }
    fs::remove_file(&file).unwrap();
    fs::write(&file, "").unwrap();
    assert_eq!(objects.sync(ObjectName(0)), Err(DiskError::Io));
    assert_eq!(objects.sync(ObjectName(1)), Ok(()));
}

#[test]
fn an_object_of_which_bytes_may_be_lost_is_known_as_such_also_where_it_could_not_be_removed() {
    let scratch = Scratch::new();
    let objects = scratch.objects();
    let file = scratch.path().join(A.to_string());
    // What takes every byte, and cannot be synced.
    symlink("/dev/null", &file).unwrap();
    write(&objects, A, 0, b"lost").unwrap();
    assert_eq!(objects.sync(A), Err(DiskError::Io));
    // What cannot be removed as a file is.
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(objects.remove(A), Err(DiskError::Io));
    fs::remove_dir(&file).unwrap();
    fs::write(&file, "").unwrap();
    assert_eq!(objects.sync(A), Err(DiskError::Io));
    objects.remove(A).unwrap();
    write(&objects, A, 0, b"new").unwrap();
    assert_eq!(objects.sync(A), Ok(()), "another one of that name");
}

#[test]
fn files_that_are_no_objects_are_left_alone_and_named() {
    let scratch = Scratch::new();
    let objects = scratch.objects();
    for name in ["notes", "00000000000000AB", "12"] {
        fs::write(scratch.path().join(name), "").unwrap();
    }
    assert_eq!(objects.list(), Ok(Vec::new()));
    assert_eq!(objects.directory().strangers().unwrap(), ["00000000000000AB", "12", "notes"]);
}

#[test]
fn a_store_whose_path_leads_elsewhere_keeps_its_objects_and_makes_none_there() {
    let scratch = Scratch::new();
    let [path, moved] = ["store", "moved"].map(|name| scratch.path().join(name));
    fs::create_dir(&path).unwrap();
    let open = |path: &Path| Objects::of(Directory::open_or_make(path, &id(0)).unwrap()).unwrap();
    write(&open(&path), A, 0, b"bytes").unwrap();
    // In this life no file of an object is open yet.
    let objects = open(&path);
    fs::rename(&path, &moved).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!((objects.list(), objects.size(A)), (Ok(vec![A]), Ok(5)));
    assert_eq!(read(&objects, A, 0, 9), Ok(b"bytes".to_vec()));
    objects.create(LOG).unwrap();
    write(&objects, ObjectName(1), 0, b"new").unwrap();
    objects.sync(ObjectName(1)).unwrap();
    objects.remove(A).unwrap();
    objects.directory().of_servers(2).unwrap();
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "what is there now is none of this store");
    drop(objects);
    assert_eq!(open(&moved).list(), Ok(vec![ObjectName(1), LOG]));
    open(&moved).directory().of_servers(2).unwrap();
}
