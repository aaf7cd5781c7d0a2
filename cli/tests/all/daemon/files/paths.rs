//! Which paths files may have, and what is said of one that they may not.

use super::Pair;
use crate::common::{err, out, weft};
use std::io::Read;
use std::process::Stdio;

#[test]
fn what_cannot_be_put_is_refused_before_any_byte_of_it_with_the_name_that_was_given() {
    let pair = Pair::start("puts");
    pair.put("f", b"x");
    assert_eq!(pair.ask(&["mkdir", "runs"]).status.code(), Some(0));
    let from = pair.scratch.path("put");
    for (args, line) in [
        (&["put", "-", "f"][..], "weft: f exists; add --force to replace it\n"),
        (&["put", "-", "runs"], "weft: runs is a directory: say the new file's name in it\n"),
        (&["put", "-", "runs/"], "weft: runs is a directory: say the new file's name in it\n"),
        (&["put", "-", "none/"], "weft: none/: there is no such directory\n"),
        (&["put", "-", "f/", "--force"], "weft: f/: there is no such directory\n"),
        (
            &["put", "-", "none/f"],
            "weft: none/f: there is no directory 'none': make it first (weft fs mkdir)\n",
        ),
        (
            &["put", &from, "s", "--servers", "9"],
            "weft: s: the cluster has no servers for that distribution\n",
        ),
        (&["get", "none"], "weft: none: there is no file or directory of that name\n"),
    ] {
        // An input that says nothing is not waited for.
        let mut child = weft(&pair.asks(args));
        let mut child = child.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        let mut said = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut said).expect("readable");
        assert_eq!((child.wait().expect("ends").code(), said.as_str()), (Some(2), line), "{args:?}");
    }
    assert_eq!(pair.names(), "f\nruns/\n");
}

#[test]
fn a_path_with_a_slash_at_its_end_is_a_directorys_and_no_file_gets_it() {
    let pair = Pair::start("slash");
    pair.put("f", b"x");
    pair.put("g", b"y");
    assert_eq!(pair.ask(&["mkdir", "runs"]).status.code(), Some(0));
    for to in ["none/", "g/"] {
        let moved = pair.ask(&["mv", "--force", "f", to]);
        let told = format!("weft: {to}: there is no such directory\n");
        assert_eq!((moved.status.code(), err(&moved)), (Some(2), told.as_str()));
    }
    assert_eq!((pair.names().as_str(), out(&pair.ask(&["get", "g", "-"]))), ("f\ng\nruns/\n", "y"));
    for (from, to) in [("f", "runs/"), ("runs", "other/")] {
        assert_eq!(pair.ask(&["mv", from, to]).status.code(), Some(0), "{from}");
    }
    assert_eq!((pair.names().as_str(), out(&pair.ask(&["ls", "other/"]))), ("g\nother/\n", "f\n"));
}

/// Also with a slash at each end of what is there, which are no part of it: what is asked for is the path that was checked.
#[test]
fn whatever_may_be_a_path_can_be_put_looked_at_moved_and_removed() {
    let pair = Pair::start("longest-paths");
    let from = pair.scratch.file("put", "x");
    let directories = [255, 255, 255, 254].map(|len| "d".repeat(len));
    let mut paths =
        vec![directories[..3].join("/") + "/" + &"f".repeat(256 - 1), directories.join("/") + "/f"];
    paths.push(directories[..3].join("/") + "/" + &"e".repeat(200) + "/" + &"f".repeat(55));
    let made = (1..=4).map(|deep| directories[..deep].join("/"));
    for path in made.chain([directories[..3].join("/") + "/" + &"e".repeat(200)]) {
        assert_eq!(pair.ask(&["mkdir", &format!("/{path}/")]).status.code(), Some(0), "{}", path.len());
    }
    assert_eq!([&paths[0], &paths[1], &paths[2]].map(String::len), [1_023, 1_024, 1_024]);
    for path in &paths {
        let (new, path) = (format!("/{path}"), format!("/{path}/"));
        for args in [
            &["put", &from, &new][..],
            &["put", "--force", &from, &new],
            &["stat", &path],
            &["get", &path, "-"],
            &["truncate", &path, "3"],
            &["mv", &path, "/moved"],
            &["mv", "moved", &new],
            &["ls", new.rsplit_once('/').expect("it has one").0],
            &["rm", &path],
        ] {
            let done = pair.ask(args);
            assert_eq!(done.status.code(), Some(0), "{} of {}: {}", args[0], path.len(), err(&done));
        }
    }
    assert_eq!(pair.ask(&["rmdir", &format!("/{}/", directories.join("/"))]).status.code(), Some(0));
    let long = pair.ask(&["put", &from, &format!("{}x", paths[1])]);
    assert_eq!(long.status.code(), Some(2));
    assert!(err(&long).contains("at most 1024 bytes in all"), "{}", err(&long));
}

#[test]
fn what_cannot_be_removed_is_told_and_the_rest_is_removed() {
    let pair = Pair::start("removes");
    pair.put("y", b"x");
    pair.put("z", b"x");
    let removed = pair.ask(&["rm", "none", "y", "nothing", "z"]);
    let told =
        ["none", "nothing"].map(|name| format!("weft: {name}: there is no file or directory of that name\n"));
    assert_eq!((removed.status.code(), err(&removed)), (Some(2), told.concat().as_str()));
    assert_eq!(out(&pair.ask(&["ls"])), "");
}
