//! `weft fsck`: stores as servers leave them, damaged ones, and ones of somebody else. None of them is changed.

use crate::common::{Scratch, err, out, run};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use weft_check::paper::{Cluster, Machine};
use weft_protocols::pario::{Distribution, FsConfig, Pario};
use weft_sim::profile::Profile;
use weft_sim::{Config, NodeId, Sim};
use weft_verbs::{Nanos, ObjectName, Wait};

/// What the disk of a server has after it has made some files: names of its logs begin with an 8. Without the zeros behind the log.
fn disk() -> Vec<(ObjectName, Vec<u8>)> {
    let config = FsConfig::new(1);
    let profile = Profile::builtin("present-day").expect("it is built in");
    let cluster = Cluster::new(
        Config::new(2, profile),
        |_| Wait::Poll,
        |mesh| {
            mesh.max_message = config.max_message();
        },
    );
    let cluster = cluster.unwrap_or_else(|why| panic!("{why}"));
    let start = |Machine { rt, mesh }: &Machine| Pario::start(rt, mesh, config).expect("it starts");
    let services: Vec<Pario<Sim>> = cluster.machines.iter().map(start).collect();
    let files = services[1].clone();
    drop(cluster.machines[1].rt.spawn(async move {
        for name in ["one", "two", "three"] {
            let file = files.create(name, Some(Distribution::single(0))).await.expect("it is made");
            let buffer = files.buffer(700).expect("there is memory");
            buffer.write(0, &[7; 700]).expect("it fits");
            files.write(&file, 0, buffer).await.0.expect("it is written");
            files.close(file).await.expect("it is closed");
        }
    }));
    cluster.run_until(Nanos::from_millis(100));
    let mut objects = cluster.fabric.disk_after_crash(NodeId(0), 1);
    for (_, log) in objects.iter_mut().filter(|(object, _)| object.0 >> 63 == 1) {
        log.truncate(end_of(log));
    }
    objects
}

/// Where the batches of a log end: each has its length, a checksum and the log's number before what is in it.
fn end_of(log: &[u8]) -> usize {
    let mut at = 0;
    while let Some(length) = log.get(at..at + 4).map(|length| u32::from_le_bytes(length.try_into().unwrap()))
    {
        if length == 0 {
            break;
        }
        at += 16 + length as usize;
    }
    at
}

/// A store with these objects.
fn store(scratch: &Scratch, objects: &[(ObjectName, Vec<u8>)]) -> PathBuf {
    let path = PathBuf::from(scratch.path("store"));
    drop(fs::remove_dir_all(&path));
    fs::create_dir(&path).unwrap();
    fs::write(path.join("weft-store"), "version 4\ncluster home\nserver 0\n").unwrap();
    for (object, bytes) in objects {
        fs::write(path.join(object.to_string()), bytes).unwrap();
    }
    path
}

fn files(path: &Path) -> Vec<(String, Vec<u8>)> {
    let entry = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.unwrap().path();
        // A directory, or a link to nothing, has no bytes.
        (path.display().to_string(), fs::read(&path).unwrap_or_default())
    };
    let mut files: Vec<_> = fs::read_dir(path).unwrap().map(entry).collect();
    files.sort();
    files
}

/// What is said of a store, after the store's place: exit code, and one output or the other. Nothing changes.
fn fsck(path: &Path) -> (Option<i32>, String) {
    let before = files(path);
    let place = path.display().to_string();
    let output = run(&["fsck", &place]);
    assert_eq!(files(path), before, "a store was changed");
    let said = match output.status.code() {
        Some(0 | 1) => out(&output).to_string(),
        _ => {
            assert_eq!(out(&output), "");
            assert_eq!(err(&output).lines().count(), 1);
            err(&output).to_string()
        }
    };
    (output.status.code(), said.replace(&place, "STORE"))
}

#[test]
fn what_a_crash_leaves_is_clean_and_told_by_its_place() {
    let scratch = Scratch::new("fsck_clean");
    let mut objects = disk();
    let log = objects.iter().position(|(object, _)| object.0 >> 63 == 1).unwrap();
    let committed = objects[log].1.len();
    let mut with_room = objects.clone();
    with_room[log].1.resize(16_384, 0);
    let path = store(&scratch, &with_room);
    let head = format!(
        "STORE: the store of server 0 of cluster 'home'\n  3 names in {committed} bytes of log 8000000000000000\n  \
         3 objects of files with 2,100 bytes\n"
    );
    assert_eq!(fsck(&path), (Some(0), format!("{head}clean\n")));
    objects[log].1.extend([1, 2, 3]);
    objects.push((ObjectName(1 << 63 | 1), vec![9; 20]));
    let path = store(&scratch, &objects);
    let torn = format!(
        "STORE/8000000000000000: 3 bytes behind byte {committed} are of a batch that a crash cut off; nobody was told of it\n"
    );
    let other = "STORE/8000000000000001: a log that is not in use; the server's next start removes it\n";
    let clean = "clean: a crash leaves such things\n";
    assert_eq!(fsck(&path), (Some(0), format!("{head}{torn}{other}{clean}")));
    let json = run(&["fsck", "--json", &path.display().to_string()]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["names"], &json["findings"][0]["harmless"]), (&3.into(), &true.into()));
}

#[test]
fn a_file_that_no_server_makes_is_no_crashs_doing() {
    let scratch = Scratch::new("fsck_notes");
    let path = store(&scratch, &disk());
    fs::write(path.join("notes"), "mine").unwrap();
    let (code, said) = fsck(&path);
    let told = "STORE/notes: no file of a store's\nnot clean: one of these was left by no crash\n";
    assert!(code == Some(1) && said.ends_with(told), "{code:?} {said}");
    let json = run(&["fsck", "--json", &path.display().to_string()]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["findings"][0]["harmless"], false);
    fs::remove_file(path.join("notes")).unwrap();
    fs::write(path.join("weft-store.new"), "vers").unwrap();
    assert_eq!(fsck(&path).0, Some(0), "a crash leaves half a head");
}

#[test]
fn what_has_an_objects_name_and_is_no_file_was_left_by_no_crash() {
    let scratch = Scratch::new("fsck_no_file");
    let path = store(&scratch, &[]);
    fs::write(path.join("weft-store"), "version 4\ncluster home\nserver 1\n").unwrap();
    fs::create_dir(path.join("0000000000000001")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", path.join("0000000000000002")).unwrap();
    std::os::unix::fs::symlink("nowhere", path.join("0000000000000003")).unwrap();
    let (code, said) = fsck(&path);
    assert!(code == Some(1) && said.contains("  0 objects of files with 0 bytes"), "{code:?} {said}");
    for object in 1..4 {
        let told = format!("STORE/000000000000000{object}: has an object's name and is no file\n");
        assert!(said.contains(&told), "{said}");
    }
    assert!(said.ends_with("not clean: 3 of these were left by no crash\n"), "{said}");
}

#[test]
fn a_damaged_store_is_named_with_the_place_and_refused() {
    let scratch = Scratch::new("fsck_damaged");
    let objects = disk();
    let log = objects.iter().position(|(object, _)| object.0 >> 63 == 1).unwrap();
    let damaged = |damage: &dyn Fn(&mut Vec<u8>)| {
        let mut objects = objects.clone();
        damage(&mut objects[log].1);
        let (code, said) = fsck(&store(&scratch, &objects));
        assert_eq!(code, Some(2), "{said}");
        said
    };
    let first = 16 + u32::from_le_bytes(objects[log].1[..4].try_into().unwrap()) as usize;
    // A bit in the middle of the second batch, of which there are three.
    let said = damaged(&|log| log[first + 20] ^= 1);
    let place = format!("STORE: log 8000000000000000 is damaged at byte {first}, and more of it lies behind");
    assert!(said.contains(&place), "{said}");
    let said = damaged(&|log| log[9] ^= 1);
    assert!(
        said.contains("3 objects of files are there, and no log begins with a whole directory"),
        "{said}"
    );
    let said = damaged(&|log| log.truncate(first));
    let place =
        format!("log 8000000000000000 ends at byte {first} and has never heard of the file of object");
    assert!(said.contains(&place), "{said}");
}

#[test]
fn a_store_that_says_over_how_many_servers_files_are_placed_is_refused_where_that_is_damaged() {
    let scratch = Scratch::new("fsck_servers");
    let path = store(&scratch, &[]);
    fs::write(path.join("weft-store.servers"), "3\n").unwrap();
    let (code, said) = fsck(&path);
    let head = "STORE: the store of server 0 of 3 of cluster 'home'\n";
    assert!(code == Some(0) && said.starts_with(head), "{code:?} {said}");
    fs::write(path.join("weft-store.servers"), "damaged\n").unwrap();
    let (code, said) = fsck(&path);
    let damaged = "weft: STORE/weft-store.servers:1: the head is damaged; ";
    assert!(code == Some(2) && said.starts_with(damaged), "{code:?} {said}");
}

#[test]
fn files_without_a_log_are_damaged_where_the_directory_is_and_clean_elsewhere() {
    let scratch = Scratch::new("fsck_no_log");
    let mut objects = disk();
    objects.retain(|(object, _)| object.0 >> 63 == 0);
    let path = store(&scratch, &objects);
    let (code, said) = fsck(&path);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("3 objects of files are there, and no log begins with a whole directory"),
        "{said}"
    );
    fs::write(path.join("weft-store"), "version 4\ncluster home\nserver 1\n").unwrap();
    let head = "STORE: the store of server 1 of cluster 'home'\n  3 objects of files with 2,100 bytes, and no directory\n";
    assert_eq!(fsck(&path), (Some(0), format!("{head}clean\n")));
}

#[test]
fn an_object_that_no_file_has_is_no_crashs_doing() {
    let scratch = Scratch::new("fsck_stranger");
    let mut objects = disk();
    let log = objects.iter_mut().find(|(object, _)| object.0 >> 63 == 1).map(|(_, log)| log).unwrap();
    // The next batch: the second file was removed, and its objects with it.
    let mut batch = [&[0; 8], &[0; 8][..], &[3, 3, 0], b"two", &[4, 2, 0, 0, 0, 0, 0, 0, 0]].concat();
    batch[..4].copy_from_slice(&15u32.to_le_bytes());
    let sum = crc(&[&batch[..4], &batch[8..]].concat());
    batch[4..8].copy_from_slice(&sum.to_le_bytes());
    log.extend(batch);
    let (code, said) = fsck(&store(&scratch, &objects));
    assert_eq!(code, Some(1), "{said}");
    let place = "STORE/0000000000000002: the object of a file that has ended: nobody can reach it\n";
    assert!(
        said.contains(place) && said.ends_with("not clean: one of these was left by no crash\n"),
        "{said}"
    );
}

/// CRC-32, bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    let step = |sum: u32| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
    !bytes.iter().fold(u32::MAX, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), |sum, _| step(sum)))
}

#[test]
fn what_is_no_store_of_this_program_or_is_in_use_is_left_alone() {
    let scratch = Scratch::new("fsck_refused");
    let path = store(&scratch, &[]);
    assert_eq!(fsck(&path).0, Some(0));
    let lock = File::open(path.join("weft-store")).unwrap();
    lock.lock().unwrap();
    assert_eq!(fsck(&path), (Some(3), "weft: STORE: a server has this store open; end it first\n".into()));
    drop(lock);
    fs::write(path.join("weft-store"), "version 9\n").unwrap();
    let newer = "weft: STORE/weft-store:1: is a store of version 9, and this program has version 4\n";
    assert_eq!(fsck(&path), (Some(2), newer.into()));
    fs::remove_file(path.join("weft-store")).unwrap();
    let none = "weft: STORE: is no store, since it has no file 'weft-store'\n";
    assert_eq!(fsck(&path), (Some(2), none.into()));
    let missing = run(&["fsck", &scratch.path("nowhere")]);
    assert_eq!((missing.status.code(), err(&missing).lines().count()), (Some(2), 1));
}

/// Who may write everything, as root may, is not refused either way.
#[test]
fn a_store_that_may_be_read_and_not_written_is_looked_at() {
    let scratch = Scratch::new("fsck_read_only");
    let path = store(&scratch, &disk());
    let allow = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    fs::read_dir(&path).unwrap().for_each(|file| allow(&file.unwrap().path(), 0o444));
    allow(&path, 0o555);
    let (code, said) = fsck(&path);
    allow(&path, 0o755);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.ends_with("clean\n"), "{said}");
}

#[test]
fn what_cannot_be_read_is_told_as_the_system_says_it() {
    let scratch = Scratch::new("fsck_unreadable");
    let path = store(&scratch, &[]);
    fs::remove_file(path.join("weft-store")).unwrap();
    fs::create_dir(path.join("weft-store")).unwrap();
    let output = run(&["fsck", &path.display().to_string()]);
    assert_eq!(output.status.code(), Some(3));
    let said = err(&output).replace(&path.display().to_string(), "STORE");
    let why = "Is a directory (os error 21)";
    assert_eq!(said, format!("weft: STORE/weft-store: {why}\n"));
}
