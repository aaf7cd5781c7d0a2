//! Crash states of a run: at thousands of moments, what a power cut would leave of the servers' disks, each sector as any write
//! that was not synced has made it. Each is a store that recovers, and nothing that was answered is missing.
//!
//! The run is one on simulated disks, or on real files, whose calls are noted.

mod real_files;
mod simulated;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use weft_protocols::pario::{Distribution, FsError, Handle, Pario, Path, StoreReport, Sync, check_store};
use weft_verbs::{ObjectName, Verbs};

const SERVERS: u32 = 2;
const CLIENTS: u32 = 2;
const SECTOR: usize = 512;
/// What a client was told of a file.
#[derive(Clone, Default)]
struct Told {
    made: Option<Handle>,
    /// It is to have its own name, and has it.
    naming: bool,
    named: bool,
    /// What it has durably.
    synced: Option<Vec<u8>>,
    /// What was written since, the last one perhaps not to its end.
    written: Vec<Vec<u8>>,
    removing: bool,
    removed: bool,
}

/// A file, by its client and its number. Its number says on which server it lies.
type Key = (u32, u32);

type Book = BTreeMap<Key, Told>;

/// How what a client was told gets into a book.
type Telling = Box<dyn FnOnce(&mut Told)>;

/// Who takes down what clients are told.
type Teller = Rc<dyn Fn(Key, Telling)>;

fn name((client, nth): Key) -> String {
    format!("c{client}/f{nth}")
}

/// The name that a client's next file has until it is written.
fn part(client: u32) -> String {
    format!("c{client}/part")
}

/// Bytes of five sectors and a bit more.
fn bytes((client, nth): Key, time: u32) -> Vec<u8> {
    (0..2_700 + 10 * nth).map(|at| (at * 7 + nth * 31 + client * 3 + time * 57) as u8 | 1).collect()
}

/// Makes files in a directory, writes each some times, syncs some of that, gives it its name, and removes every other file.
async fn client<V: Verbs>(
    files: Pario<V>,
    me: u32,
    (many, sync): (u32, Sync),
    teller: Teller,
) -> Result<(), FsError> {
    files.mkdir(&format!("c{me}")).await?;
    for nth in 0..many {
        let key = (me, nth);
        let layout = Distribution::single((nth % SERVERS) as u16);
        let file = files.create(&part(me), Some(layout)).await?;
        let handle = file.handle();
        teller(key, Box::new(move |told| told.made = Some(handle)));
        for time in 0..4 {
            let data = bytes(key, time);
            let buffer = files.buffer(data.len())?;
            buffer.write(0, &data)?;
            let written = data.clone();
            teller(key, Box::new(|told| told.written.push(written)));
            files.write(&file, 0, buffer).await.0?;
            let asks = (nth + time) % 3 == 0;
            if sync == Sync::Asked && asks {
                files.sync(&file).await?;
            }
            if sync == Sync::Each || asks {
                teller(key, Box::new(|told| (told.synced, told.written) = (Some(data), Vec::new())));
            }
        }
        files.close(file).await?;
        teller(key, Box::new(|told| told.naming = true));
        files.rename(&part(me), &name(key)).await?;
        teller(key, Box::new(|told| told.named = true));
        if nth % 2 == 1 {
            let key = (me, nth - 1);
            teller(key, Box::new(|told| told.removing = true));
            files.unlink(&name(key)).await?;
            teller(key, Box::new(|told| told.removed = true));
        }
    }
    Ok(())
}

/// A server's disk after a crash.
type Store = BTreeMap<ObjectName, Vec<u8>>;

/// Each sector is what was synced, or what a write since has made of it; where nothing was synced, it may also never have been written.
fn judge_bytes(text: &str, told: &Told, there: Option<&Vec<u8>>) {
    let there = there.map_or(&[][..], Vec::as_slice);
    let least = told.synced.as_ref().map_or(0, Vec::len);
    assert!(there.len() >= least, "{text} ends at {} and was synced to {least}", there.len());
    for (number, sector) in there.chunks(SECTOR).enumerate() {
        let at = number * SECTOR;
        let is = |data: &Vec<u8>| data.get(at..).is_some_and(|data| data.starts_with(sector));
        let unwritten = told.synced.is_none() && sector.iter().all(|byte| *byte == 0);
        let known = told.synced.iter().chain(&told.written).any(is);
        assert!(known || unwritten, "sector {number} of {text} is neither old nor new");
    }
}

/// What `weft fsck` finds in the store of the server with the directory that a crash has left.
fn checked(store: &Store) -> StoreReport {
    let objects: Vec<_> = store.iter().map(|(name, bytes)| (*name, bytes.len() as u64)).collect();
    let report =
        check_store(&objects, true, |object| Ok(store[&object].clone())).expect("a crash leaves a store");
    assert_eq!(report.strangers, []);
    report
}

fn judge(stores: &[Store], book: &Book) {
    let report = checked(&stores[0]);
    let names: BTreeMap<&str, Handle> =
        report.names.iter().map(|(name, handle): &(Path, Handle)| (name.as_str(), *handle)).collect();
    let mut expected = BTreeSet::new();
    for (key, told) in book {
        let text = name(*key);
        expected.extend([text.clone(), part(key.0)]);
        let (own, first) = (names.get(text.as_str()).copied(), names.get(part(key.0).as_str()).copied());
        let found = match told {
            Told { named: true, .. } => own,
            Told { naming: true, .. } => {
                assert!(own.is_some() != first.is_some(), "{text} has one of both names: {names:?}");
                own.or(first)
            }
            _ => first,
        };
        match told {
            Told { removed: true, .. } => assert_eq!(found, None, "{text} was removed"),
            Told { removing: true, .. } => continue,
            Told { made: Some(handle), .. } => assert_eq!(found, Some(*handle), "{text} was made"),
            Told { made: None, .. } => {}
        }
        if let Told { removed: false, made: Some(handle), .. } = told {
            let there = stores[(key.1 % SERVERS) as usize].get(&ObjectName(handle.0));
            judge_bytes(&text, told, there);
        }
    }
    // What is there beside that was asked for, and not answered yet.
    let next = |client: u32| {
        let known = book.keys().filter(|(of, _)| *of == client).map(|(_, nth)| nth + 1).max();
        name((client, known.unwrap_or_default()))
    };
    expected.extend((0..CLIENTS).flat_map(|client| [next(client), part(client)]));
    let made = |client: &u32| book.contains_key(&(*client, 0));
    for client in (0..CLIENTS).filter(made) {
        assert!(
            report.directories.iter().any(|path| path.as_str() == format!("c{client}")),
            "c{client} was made"
        );
    }
    assert!(names.keys().all(|name| expected.contains(*name)), "a stranger among {names:?}");
}
