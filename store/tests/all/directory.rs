//! Whose store a directory is.

use super::{Scratch, id};
use std::fs;
use std::sync::Barrier;
use std::thread;
use weft_store::{Directory, StoreId, StoreRefused};

#[test]
fn an_empty_directory_becomes_a_store_and_is_one_from_then_on() {
    let scratch = Scratch::new();
    assert!(matches!(Directory::look(scratch.path()), Err(StoreRefused::NoHead { .. })));
    for open in [Directory::open_or_make, Directory::open, Directory::open_or_make] {
        let directory = open(scratch.path(), &id(3)).unwrap();
        assert_eq!((directory.id(), directory.path()), (&id(3), scratch.path()));
    }
    assert_eq!(Directory::look(scratch.path()).unwrap().id(), &id(3));
    assert_eq!(scratch.files(), [("weft-store".into(), b"version 4\ncluster one\nserver 3\n".to_vec())]);
}

/// The disk of a server that has a store may not be mounted.
#[test]
fn an_empty_directory_is_no_store_to_who_did_not_ask_for_a_new_one() {
    let scratch = Scratch::new();
    let at = scratch.path().display().to_string();
    let refused = || Directory::open(scratch.path(), &id(3)).unwrap_err().to_string();
    let empty = format!("{at}: is empty, and no store: is its disk mounted?");
    assert_eq!(refused(), empty);
    // What a crash leaves while a store is made.
    fs::write(scratch.path().join("weft-store.new"), "vers").unwrap();
    assert_eq!(refused(), empty);
    assert_eq!(scratch.files(), [("weft-store.new".into(), b"vers".to_vec())]);
    fs::write(scratch.path().join("letter.txt"), "dear").unwrap();
    let other = "has 'letter.txt' in it and is no store; a new store needs an empty directory";
    assert_eq!(refused(), format!("{at}: {other}"));
}

/// A copy that was put back at the wrong place makes directories of objects, and one by links makes links of them.
#[test]
fn a_store_whose_objects_are_no_files_is_refused_with_the_place_and_left_as_it_was() {
    let scratch = Scratch::new();
    drop(Directory::open_or_make(scratch.path(), &id(3)).unwrap());
    let (object, other) = ("0000000000000007", scratch.path().join("weft-store"));
    let at = scratch.path().join(object);
    let makes: [&dyn Fn(); 4] = [
        &|| fs::create_dir(&at).unwrap(),
        &|| std::os::unix::fs::symlink(&other, &at).unwrap(),
        &|| std::os::unix::fs::symlink("nowhere", &at).unwrap(),
        &|| drop(std::os::unix::net::UnixListener::bind(&at).unwrap()),
    ];
    for make in makes {
        make();
        let refused = Directory::open(scratch.path(), &id(3)).unwrap_err();
        let told = format!("{}: has an object's name and is no file; ", at.display());
        assert!(refused.to_string().starts_with(&told), "{refused}");
        let found = Directory::look(scratch.path()).unwrap().misplaced().unwrap();
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), [object]);
        fs::remove_file(&at).or_else(|_| fs::remove_dir(&at)).unwrap();
    }
    fs::write(&at, b"bytes").unwrap();
    assert_eq!(Directory::open(scratch.path(), &id(3)).unwrap().misplaced().unwrap(), []);
}

#[test]
fn a_disk_that_has_only_what_its_file_system_has_made_is_empty() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path().join("lost+found")).unwrap();
    assert!(matches!(Directory::open(scratch.path(), &id(3)), Err(StoreRefused::Empty { .. })));
    let directory = Directory::open_or_make(scratch.path(), &id(3)).unwrap();
    assert_eq!(directory.strangers().unwrap(), [""; 0]);
}

#[test]
fn a_store_that_is_another_ones_is_named_with_its_place_and_left_as_it_was() {
    let scratch = Scratch::new();
    drop(Directory::open_or_make(scratch.path(), &id(3)).unwrap());
    let before = scratch.files();
    let refused = |id: &StoreId| Directory::open_or_make(scratch.path(), id).unwrap_err().to_string();
    let at = scratch.path().display();
    let other = StoreId { cluster: "two".into(), server: 3 };
    assert_eq!(refused(&other), format!("{at}/weft-store:2: is a store of cluster 'one' and not of 'two'"));
    assert_eq!(refused(&id(4)), format!("{at}/weft-store:3: is the store of server 3 and not of server 4"));
    assert_eq!(scratch.files(), before);
}

/// Files lie where the number of servers says: with another one, servers would answer with zeros.
#[test]
fn a_store_is_held_to_the_number_of_servers_for_which_its_files_were_placed() {
    let scratch = Scratch::new();
    let open = || Directory::open_or_make(scratch.path(), &id(3)).unwrap();
    // Of an earlier version, which did not say; and as long as nothing lies there any number will do.
    drop(open());
    open().of_servers(3).unwrap();
    open().of_servers(4).unwrap();
    open().of_servers(4).unwrap();
    fs::write(scratch.path().join("0000000000000007"), b"bytes").unwrap();
    let before = scratch.files();
    let at = format!("{}/weft-store.servers", scratch.path().display());
    let refused = open().of_servers(5).unwrap_err().to_string();
    let placed = "files are placed over 4 file servers, and not over 5: start with 4 again (`file_servers`)";
    assert!(refused.starts_with(&format!("{at}: {placed}")) && refused.lines().count() == 1, "{refused}");
    assert_eq!((scratch.files(), open().strangers().unwrap()), (before, Vec::new()));
    for damaged in [&b""[..], b"4", b"four\n", b"\xff\n"] {
        fs::write(scratch.path().join("weft-store.servers"), damaged).unwrap();
        let refused = open().of_servers(4).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("{at}:1: the head is damaged")), "{refused}");
    }
}

#[test]
fn a_head_that_is_not_whole_is_named_by_its_line() {
    let scratch = Scratch::new();
    let head = scratch.path().join("weft-store");
    let look = |text: &[u8]| {
        fs::write(&head, text).unwrap();
        let refused = Directory::open_or_make(scratch.path(), &id(3)).unwrap_err();
        assert_eq!(scratch.files(), [("weft-store".into(), text.to_vec())]);
        refused.to_string().strip_prefix(&head.display().to_string()).map(str::to_owned)
    };
    let damaged = |line: u32| {
        Some(format!(
            ":{line}: the head is damaged; take it from a copy, the objects beside it are as they were"
        ))
    };
    assert_eq!(look(b""), damaged(1));
    assert_eq!(look(b"\xff\xfe"), damaged(1));
    assert_eq!(look(b"version 4\nclaster one\nserver 3\n"), damaged(2));
    assert_eq!(look(b"version 4\ncluster one\nserver x\n"), damaged(3));
    assert_eq!(look(b"version 4\ncluster one\nserver 3\nmore\n"), damaged(4));
    let newer = ":1: is a store of version 5, and this program has version 4";
    assert_eq!(look(b"version 5\nanything"), Some(newer.into()));
}

#[test]
fn of_two_servers_that_make_one_store_at_the_same_time_one_has_it_and_the_other_is_told() {
    for _ in 0..20 {
        let scratch = Scratch::new();
        let both = Barrier::new(2);
        let open = || {
            both.wait();
            Directory::open_or_make(scratch.path(), &id(3))
        };
        // Whoever has it keeps it until both have been told.
        let told = thread::scope(|scope| {
            [scope.spawn(open), scope.spawn(open)].map(|thread| thread.join().expect("it ends"))
        });
        let had = told.iter().filter(|told| told.is_ok()).count();
        let busy = told.iter().filter(|told| matches!(told, Err(StoreRefused::Busy { .. }))).count();
        assert_eq!((had, busy), (1, 1), "{told:?}");
    }
}

#[test]
fn two_servers_cannot_have_one_store() {
    let scratch = Scratch::new();
    let first = Directory::open_or_make(scratch.path(), &id(3)).unwrap();
    let busy = |who: &str| format!("{}: {who} has this store open; end it first", scratch.path().display());
    let second = Directory::open_or_make(scratch.path(), &id(3)).unwrap_err();
    assert_eq!(second.to_string(), busy("a server or `weft fsck`"));
    assert_eq!(Directory::look(scratch.path()).unwrap_err().to_string(), busy("a server"));
    drop(first);
    Directory::open_or_make(scratch.path(), &id(3)).unwrap();
}

#[test]
fn many_can_look_at_a_store_at_once_and_a_server_is_refused_until_none_does() {
    let scratch = Scratch::new();
    drop(Directory::open_or_make(scratch.path(), &id(3)).unwrap());
    let [first, second] = [(); 2].map(|()| Directory::look(scratch.path()).unwrap());
    for looks in [first, second] {
        for open in [Directory::open, Directory::open_or_make] {
            assert!(matches!(open(scratch.path(), &id(3)), Err(StoreRefused::Busy { .. })));
        }
        drop(looks);
    }
    Directory::open(scratch.path(), &id(3)).unwrap();
}

#[test]
fn a_directory_with_other_files_never_becomes_a_store() {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("letter.txt"), "dear").unwrap();
    let refused = Directory::open_or_make(scratch.path(), &id(0)).unwrap_err().to_string();
    let expected = "has 'letter.txt' in it and is no store; a new store needs an empty directory";
    assert_eq!(refused, format!("{}: {expected}", scratch.path().display()));
    assert_eq!(scratch.files().len(), 1);
    let nowhere = scratch.path().join("nowhere");
    assert!(matches!(Directory::open_or_make(&nowhere, &id(0)), Err(StoreRefused::Unusable { .. })));
    assert!(!nowhere.exists());
}

#[test]
fn a_crash_while_a_store_is_made_leaves_what_can_be_made_one() {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("weft-store.new"), "vers").unwrap();
    assert_eq!(Directory::open_or_make(scratch.path(), &id(1)).unwrap().id(), &id(1));
    assert_eq!(scratch.files().len(), 1);
}

/// Whoever runs the tests may write whatever rights say; nobody writes a file where a directory is.
#[test]
fn a_store_in_which_no_file_can_be_made_is_refused_to_its_server_and_shown_to_who_looks() {
    let scratch = Scratch::new();
    drop(Directory::open_or_make(scratch.path(), &id(3)).unwrap());
    let in_the_way = scratch.path().join("weft-store.new");
    fs::create_dir(&in_the_way).unwrap();
    for open in [Directory::open, Directory::open_or_make] {
        let refused = open(scratch.path(), &id(3));
        assert!(matches!(refused, Err(StoreRefused::Unusable { path, .. }) if path == in_the_way));
    }
    assert_eq!(Directory::look(scratch.path()).unwrap().id(), &id(3));
    fs::remove_dir(&in_the_way).unwrap();
    Directory::open(scratch.path(), &id(3)).unwrap();
    assert_eq!(scratch.files().len(), 1);
}

#[test]
fn a_store_whose_files_cannot_be_changed_is_refused_to_its_server() {
    let scratch = Scratch::new();
    drop(Directory::open_or_make(scratch.path(), &id(3)).unwrap());
    let head = scratch.path().join("weft-store");
    let mut rights = fs::metadata(&head).unwrap().permissions();
    rights.set_readonly(true);
    fs::set_permissions(&head, rights).unwrap();
    // Rights do not bind root.
    if fs::OpenOptions::new().write(true).open(&head).is_err() {
        let refused = Directory::open(scratch.path(), &id(3));
        assert!(matches!(refused, Err(StoreRefused::Unusable { path, .. }) if path == head));
    }
}
