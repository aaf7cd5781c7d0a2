//! Crash states of a run: at thousands of moments, what a power cut would leave of the servers' disks, each sector as any write
//! that was not synced has made it. Each is a store that recovers, and nothing that was answered is missing.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use weft_check::paper::{Cluster, Machine};
use weft_protocols::pario::{Distribution, FsConfig, FsError, Handle, Pario, Path, Sync, check_store};
use weft_sim::profile::Profile;
use weft_sim::{Config, NodeId, Sim};
use weft_verbs::{Nanos, ObjectName, Wait};

const SERVERS: u32 = 2;
const CLIENTS: u32 = 2;
const SECTOR: usize = 512;
/// Moments of the run, this far apart, and states of all servers at each of them.
const APART: Nanos = Nanos::from_micros(3);
const EACH: u64 = 8;

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

/// By name, and on which server a file lies.
type Book = Rc<RefCell<BTreeMap<(u32, u32), Told>>>;

fn name((client, nth): (u32, u32)) -> String {
    format!("c{client}/f{nth}")
}

/// The name that a client's next file has until it is written.
fn part(client: u32) -> String {
    format!("c{client}/part")
}

/// Bytes of five sectors and a bit more.
fn bytes((client, nth): (u32, u32), time: u32) -> Vec<u8> {
    (0..2_700 + 10 * nth).map(|at| (at * 7 + nth * 31 + client * 3 + time * 57) as u8 | 1).collect()
}

/// Makes files in a directory, writes each some times, syncs some of that, gives it its name, and removes every other file.
async fn client(files: Pario<Sim>, me: u32, (many, sync): (u32, Sync), book: Book) -> Result<(), FsError> {
    files.mkdir(&format!("c{me}")).await?;
    for nth in 0..many {
        let key = (me, nth);
        let told = |tell: &dyn Fn(&mut Told)| tell(book.borrow_mut().entry(key).or_default());
        let layout = Distribution::single((nth % SERVERS) as u16);
        let file = files.create(&part(me), Some(layout)).await?;
        told(&|told| told.made = Some(file.handle()));
        for time in 0..4 {
            let data = bytes(key, time);
            let buffer = files.buffer(data.len())?;
            buffer.write(0, &data)?;
            told(&|told| told.written.push(data.clone()));
            files.write(&file, 0, buffer).await.0?;
            let asks = (nth + time) % 3 == 0;
            if sync == Sync::Asked && asks {
                files.sync(&file).await?;
            }
            if sync == Sync::Each || asks {
                told(&|told| (told.synced, told.written) = (Some(data.clone()), Vec::new()));
            }
        }
        files.close(file).await?;
        told(&|told| told.naming = true);
        files.rename(&part(me), &name(key)).await?;
        told(&|told| told.named = true);
        if nth % 2 == 1 {
            let key = (me, nth - 1);
            book.borrow_mut().entry(key).or_default().removing = true;
            files.unlink(&name(key)).await?;
            book.borrow_mut().entry(key).or_default().removed = true;
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

fn judge(stores: &[Store], book: &BTreeMap<(u32, u32), Told>) {
    let home = &stores[0];
    let objects: Vec<_> = home.iter().map(|(name, bytes)| (*name, bytes.len() as u64)).collect();
    let report = check_store(&objects, |object| Ok(home[&object].clone())).expect("a crash leaves a store");
    assert_eq!(report.strangers, []);
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

/// Looks at so many states of a run; how many of them differ.
fn walk(sync: Sync, many: u32, wanted: u64) -> usize {
    let profile = Profile::builtin("present-day").expect("it is built in");
    let config = FsConfig { eager: 1_024, unit: 4_096, sync, ..FsConfig::new(SERVERS) };
    let of = Config::new(SERVERS + CLIENTS, profile);
    let cluster = Cluster::new(of, |_| Wait::Poll, |mesh| mesh.max_message = config.max_message())
        .unwrap_or_else(|why| panic!("{why}"));
    let start = |Machine { rt, mesh }: &Machine| Pario::start(rt, mesh, config).expect("it starts");
    let services: Vec<Pario<Sim>> = cluster.machines.iter().map(start).collect();
    let (book, done) = (Book::default(), Rc::new(RefCell::new(0)));
    for me in 0..CLIENTS {
        let node = (SERVERS + me) as usize;
        let (files, book, done) = (services[node].clone(), Rc::clone(&book), Rc::clone(&done));
        drop(cluster.machines[node].rt.spawn(async move {
            client(files, me, (many, sync), book).await.unwrap_or_else(|why| panic!("{why}"));
            *done.borrow_mut() += 1;
        }));
    }
    let (mut now, mut states, mut kinds) = (Nanos::ZERO, 0, BTreeSet::new());
    while *done.borrow() < CLIENTS {
        now += APART;
        assert!(now < Nanos::from_secs(1), "clients are done long before");
        cluster.run_until(now);
        for seed in states..states + EACH {
            let crashed =
                |server| cluster.fabric.disk_after_crash(NodeId(server), seed).into_iter().collect();
            let stores: Vec<Store> = (0..SERVERS).map(crashed).collect();
            judge(&stores, &book.borrow());
            let mut hash = DefaultHasher::new();
            stores.hash(&mut hash);
            kinds.insert(hash.finish());
        }
        states += EACH;
    }
    assert!(states >= wanted, "{states} states");
    eprintln!("{} of {states} states differ", kinds.len());
    kinds.len()
}

#[test]
fn ten_thousand_states_that_a_power_cut_may_leave_are_stores_that_miss_nothing() {
    let differ = walk(Sync::Asked, 30, 10_000);
    assert!(differ > 6_000, "{differ} of them differ");
}

#[test]
fn what_was_answered_is_there_where_each_write_is_synced() {
    let differ = walk(Sync::Each, 4, 1_000);
    assert!(differ > 100, "{differ} of them differ");
}
