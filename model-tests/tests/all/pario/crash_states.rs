//! Crash states of a run: at thousands of moments, what a power cut would leave of the servers' disks, any sector of what was not
//! synced kept or lost. Each is a store that recovers, and nothing that was answered is missing.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use weft_check::paper::{Cluster, Machine};
use weft_protocols::pario::{Distribution, FsConfig, FsError, Handle, Name, Pario, check_store};
use weft_sim::profile::Profile;
use weft_sim::{Config, NodeId, Sim};
use weft_verbs::{Nanos, ObjectName, Wait};

const SERVERS: u32 = 2;
const CLIENTS: u32 = 2;
const FILES: u32 = 60;
/// Moments of the run, this far apart, and states of each server at each of them.
const APART: Nanos = Nanos::from_micros(7);
const EACH: u64 = 8;

/// What a client was told of a file.
#[derive(Clone, Default)]
struct Told {
    made: Option<Handle>,
    written: Option<Vec<u8>>,
    removing: bool,
    removed: bool,
}

/// By name, and on which server a file lies.
type Book = Rc<RefCell<BTreeMap<(u32, u32), Told>>>;

fn name((client, nth): (u32, u32)) -> String {
    format!("f{client}-{nth}")
}

/// Bytes of three sectors and a bit more.
fn bytes((client, nth): (u32, u32)) -> Vec<u8> {
    (0..1_700 + 10 * nth).map(|at| (at * 7 + nth * 31 + client * 3) as u8 | 1).collect()
}

/// Makes files, writes each, and removes every other one.
async fn client(files: Pario<Sim>, me: u32, book: Book) -> Result<(), FsError> {
    for nth in 0..FILES {
        let key = (me, nth);
        let layout = Distribution::single((nth % SERVERS) as u16);
        let file = files.create(&name(key), Some(layout)).await?;
        book.borrow_mut().entry(key).or_default().made = Some(file.handle());
        let data = bytes(key);
        let buffer = files.buffer(data.len())?;
        buffer.write(0, &data)?;
        files.write(&file, 0, buffer).await.0?;
        book.borrow_mut().entry(key).or_default().written = Some(data);
        files.close(file).await?;
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

fn judge(stores: &[Store], book: &BTreeMap<(u32, u32), Told>) {
    let home = &stores[0];
    let objects: Vec<_> = home.iter().map(|(name, bytes)| (*name, bytes.len() as u64)).collect();
    let report = check_store(&objects, |object| Ok(home[&object].clone())).expect("a crash leaves a store");
    assert_eq!(report.strangers, []);
    let names: BTreeMap<&str, Handle> =
        report.names.iter().map(|(name, handle): &(Name, Handle)| (name.as_str(), *handle)).collect();
    let mut expected = BTreeSet::new();
    for (key, told) in book {
        let text = name(*key);
        expected.insert(text.clone());
        let found = names.get(text.as_str()).copied();
        match told {
            Told { removed: true, .. } => assert_eq!(found, None, "{text} was removed"),
            Told { removing: true, .. } => continue,
            Told { made: Some(handle), .. } => assert_eq!(found, Some(*handle), "{text} was made"),
            Told { made: None, .. } => {}
        }
        if let Told { removed: false, made: Some(handle), written: Some(data), .. } = told {
            let there = stores[(key.1 % SERVERS) as usize].get(&ObjectName(handle.0));
            assert!(there == Some(data), "the bytes of {text}");
        }
    }
    // What is there beside that was asked for, and not answered yet.
    let next = |client: u32| {
        let known = book.keys().filter(|(of, _)| *of == client).map(|(_, nth)| nth + 1).max();
        name((client, known.unwrap_or_default()))
    };
    expected.extend((0..CLIENTS).map(next));
    assert!(names.keys().all(|name| expected.contains(*name)), "a stranger among {names:?}");
}

#[test]
fn ten_thousand_states_that_a_power_cut_may_leave_are_stores_that_miss_nothing() {
    let profile = Profile::builtin("present-day").expect("it is built in");
    let config = FsConfig { eager: 1_024, unit: 4_096, ..FsConfig::new(SERVERS) };
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
            client(files, me, book).await.unwrap_or_else(|why| panic!("{why}"));
            *done.borrow_mut() += 1;
        }));
    }
    let (mut now, mut states, mut kinds) = (Nanos::ZERO, 0, BTreeSet::new());
    while *done.borrow() < CLIENTS {
        now += APART;
        assert!(now < Nanos::from_secs(1), "clients are done long before");
        cluster.run_until(now);
        for draw in 0..EACH {
            let seed = states * 2 + draw;
            let crashed =
                |server| cluster.fabric.disk_after_crash(NodeId(server), seed).into_iter().collect();
            let stores: Vec<Store> = (0..SERVERS).map(crashed).collect();
            judge(&stores, &book.borrow());
            kinds.insert(stores);
        }
        states += EACH * u64::from(SERVERS);
    }
    assert!(states >= 10_000, "{states} states");
    // The medium has a write soon: at most moments nothing is left to be lost.
    assert!(kinds.len() > 200, "{} of them differ", kinds.len());
}
