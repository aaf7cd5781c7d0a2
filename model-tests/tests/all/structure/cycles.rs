//! Folders of a crate import each other one way, apart from the cycles that are listed here.

mod imports;
mod tokens;

use super::{MAY_IMPORT, root};
use imports::Sources;
use std::fs;
use std::path::Path;

/// Imports without which there is no cycle that a folder is part of: the crate's folder and the one in its `src` whose
/// modules they are, who imports whom, and why that stays.
const CYCLES: &[((&str, &str), &str, &str, &str)] = &[
    (HW, "device", "cm", "an open device hands out connection managers, and each acts on its device"),
    (SIM, "hca", "access", "an adapter notes each access to memory, and the note names the adapter's end"),
    (SIM, "hca", "log", "an adapter logs what it does, and the log's lines show packets"),
    (SIM, "hca", "sanitizer", "an adapter says what it posts and touches, in addresses and keys of its own"),
    (SIM, "hca", "explore", "an adapter's canonical form is made by the explorer's mixing function"),
    (SIM, "access", "sanitizer", "the notes of accesses carry the sanitizer that reads them"),
    (SIM, "explore", "world", "a saved state is opaque, and holds the world's"),
    (SIM, "world", "memo", "a world holds the recorder of its handles' calls, which makes them on the world"),
    (HCA, "qp", "requester", "a queue pair holds the state of its requester, which acts on all of it"),
    (HCA, "qp", "responder", "a queue pair holds the state of its responder, which acts on all of it"),
    (HCA, "packet", "datagram", "a datagram is a packet's body, and is gathered as the requester gathers"),
    (PARIO, "server", "service", "the server's tasks act for the node's service, which starts them"),
    (PARIO, "moves", "service", "transfers act for the node's service, which begins those that are offered"),
];

const PARIO: (&str, &str) = ("protocols", "pario");
const HW: (&str, &str) = ("hw-backend", "");
const SIM: (&str, &str) = ("sim-backend", "");
const HCA: (&str, &str) = ("sim-backend", "hca");

/// The sources of each crate of the workspace.
fn all_sources() -> Vec<(&'static str, Sources)> {
    let folders =
        MAY_IMPORT.iter().map(|(folder, ..)| *folder).chain(["hw-backend/softroce", "model-tests/reached"]);
    folders.map(|folder| (folder, Sources::read(&root().join(folder).join("src")))).collect()
}

/// Files beside each other may need each other; a folder is a part that one can take away or put elsewhere, so what it
/// imports must not import it, by no way around.
#[test]
fn folders_of_a_crate_import_each_other_one_way() {
    let mut broken = Vec::new();
    for (name, sources) in all_sources() {
        for outer in sources.outer_folders() {
            let within = outer.join("/");
            let (mut graph, places) = sources.graph(&outer);
            for (_, from, to, _) in CYCLES.iter().filter(|(at, ..)| *at == (name, &within)) {
                graph.get_mut(*from).map(|imports| imports.remove(*to));
            }
            for cycle in imports::cycles(&graph) {
                if cycle.iter().any(|module| sources.is_folder(&outer, module)) {
                    let inside = |from: &str, to: &str| cycle.contains(from) && cycle.contains(to);
                    let closes = places.iter().filter(|((from, to), _)| {
                        inside(from, to) && graph.get(from).is_some_and(|imports| imports.contains(to))
                    });
                    let text: Vec<String> = closes
                        .map(|((from, to), place)| format!("  {from} imports {to} ({place})"))
                        .collect();
                    broken.push(format!("{name}/src/{within}:\n{}", text.join("\n")));
                }
            }
        }
    }
    assert!(broken.is_empty(), "cycles between folders:\n{}", broken.join("\n"));
}

#[test]
fn every_listed_cycle_is_there() {
    let sources = all_sources();
    for ((name, outer), from, to, why) in CYCLES {
        let (_, sources) = sources.iter().find(|(folder, _)| folder == name).expect("a crate");
        let outer: Vec<String> =
            outer.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let (graph, _) = sources.graph(&outer);
        let around = imports::cycles(&graph).iter().any(|cycle| cycle.contains(*from) && cycle.contains(*to));
        let imports = graph.get(*from).is_some_and(|imports| imports.contains(*to));
        assert!(imports && around, "{name}: {from} no longer imports {to} in a cycle: take it off the list");
        assert!(!why.is_empty(), "{name}: {from} imports {to}: say why");
    }
}

/// The reader itself: what imports what in a crate that was written for it.
#[test]
fn the_reader_of_imports_sees_what_the_compiler_sees() {
    let src = Path::new(env!("CARGO_TARGET_TMPDIR")).join("imports");
    let _ = fs::remove_dir_all(&src);
    let files = [
        (
            "lib.rs",
            "mod a; mod b; mod c; mod d; mod e;\npub use b::{Thing, other::Renamed as Short};\npub use c::*;",
        ),
        ("a/mod.rs", "mod inner; #[cfg(test)] mod tests; use crate::{Thing, d::{self, Deep}};"),
        // Out of the folder by two steps; in a comment, in quotes and in tests: nothing.
        (
            "a/inner.rs",
            "fn f() { super::super::e::run() } // crate::b::no()\nconst T: &str = \"crate::b::no\";",
        ),
        ("a/tests.rs", "use crate::c::OnlyInTests;"),
        ("b/mod.rs", "pub mod other; pub struct Thing;\n#[cfg(test)]\nmod tests { use crate::a::X; }"),
        ("b/other.rs", "pub struct Renamed; use super::Thing;"),
        ("c.rs", "pub struct Globbed; mod inline { fn f() { super::super::b::g() } }"),
        ("d.rs", "use crate::Short; pub struct Deep; fn f<'a>(x: &'a u8) -> char { 'x' }"),
        ("e.rs", "use crate::Globbed; pub fn run() { let _ = '\"'; crate::d::f(); }"),
    ];
    for (path, text) in files {
        let path = src.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be made");
        fs::write(path, text).expect("the file can be written");
    }
    let sources = Sources::read(&src);
    let (graph, _) = sources.graph(&[]);
    let imports =
        |from: &str| graph.get(from).map(|to| to.iter().map(String::as_str).collect()).unwrap_or_default();
    let expected: [(&str, &[&str]); 5] =
        [("a", &["b", "d", "e"]), ("b", &[]), ("c", &["b"]), ("d", &["b"]), ("e", &["c", "d"])];
    for (from, to) in expected {
        let found: Vec<&str> = imports(from);
        assert_eq!(found, to, "{from}");
    }
    assert!(imports::cycles(&graph).is_empty());
    let mut closed = graph.clone();
    closed.entry("b".into()).or_default().insert("e".into());
    let cycle = ["b", "c", "d", "e"].map(str::to_owned).into();
    assert_eq!(imports::cycles(&closed), [cycle]);
}
