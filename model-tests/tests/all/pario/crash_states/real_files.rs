//! A run on real files, of machines without adapters, one thread each. Their disks' calls are noted, and what a power cut may have left
//! at any of them is made of that.

use super::{Book, CLIENTS, Key, SERVERS, Store, Teller, Telling, checked, client, judge};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use weft_protocols::pario::{FsConfig, FsError, Pario, Sync, Wire};
use weft_protocols::rt::{Rt, RtConfig};
use weft_protocols::transport::{Mesh, MeshConfig, Rank};
use weft_sim::choice::{Choice, Seeded};
use weft_store::{Directory, Objects, Recording, StoreId};
use weft_tcp::{Driver, Ended, Tcp, TcpContext};
use weft_verbs::Nanos;

/// A directory that is gone with its value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("weft-crash-states-{}-{name}", std::process::id())))
    }

    fn store(&self, server: u32) -> PathBuf {
        self.0.join(server.to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left behind is in the system's temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path, server: u32) -> Objects {
    fs::create_dir_all(path).expect("a directory");
    let id = StoreId { cluster: "crash states".to_string(), server };
    Objects::of(Directory::open_or_make(path, &id).expect("a store")).expect("its objects")
}

/// A store's objects, as they are.
fn content(objects: &Objects) -> Store {
    let whole = |object| {
        let path = objects.directory().path().join(format!("{object}"));
        (object, fs::read(path).expect("it can be read"))
    };
    objects.list().expect("it can be listed").into_iter().map(whole).collect()
}

/// A machine of a cluster. All of 127.0.0.0/8 is this one, and each run has a part of its own.
fn machine((run, rank): (u32, u32), sync: Sync, store: Option<Objects>) -> (Rt<Tcp>, Pario<Tcp>, Driver) {
    let net = (std::process::id() % 250 + 1) as u8;
    let address = |rank: u32| IpAddr::from(Ipv4Addr::new(127, net, run as u8, 1 + rank as u8));
    let context = TcpContext::open(Some(address(rank)), store.map(Arc::new)).expect("a machine");
    let names: Vec<String> = (0..=SERVERS).map(|rank| address(rank).to_string()).collect();
    let rt = Rt::new(&context, RtConfig::default()).expect("a runtime");
    let mesh = Mesh::start(&rt, MeshConfig::new(Rank::from_index(rank), names)).expect("a mesh");
    let config = FsConfig { wire: Wire::Tcp, eager: 1_024, unit: 4_096, sync, ..FsConfig::new(SERVERS) };
    let files = Pario::start(&rt, &mesh, config).expect("files");
    (rt, files, Driver::new(&context))
}

/// Runs clients on a machine of its own while servers run on theirs, and ends all.
fn cluster<F: Future<Output = Result<(), FsError>> + 'static>(
    sync: Sync,
    store: impl Fn(u32) -> Objects + std::marker::Sync,
    clients: impl FnOnce(Rt<Tcp>, Pario<Tcp>) -> Vec<F>,
) {
    static RUNS: AtomicU32 = AtomicU32::new(1);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let (stop, begun) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        for rank in 0..SERVERS {
            let (stop, begun, store) = (&stop, &begun, &store);
            scope.spawn(move || {
                let (rt, _files, mut driver) = machine((run, rank), sync, Some(store(rank)));
                begun.fetch_add(1, Ordering::SeqCst);
                driver.run(&mut rt.program(), || stop.load(Ordering::SeqCst));
            });
        }
        let (rt, files, mut driver) = machine((run, SERVERS), sync, None);
        while begun.load(Ordering::SeqCst) < SERVERS {
            thread::yield_now();
        }
        let ends = Rc::new(RefCell::new(Vec::new()));
        let clients = clients(rt.clone(), files);
        let many = clients.len();
        for client in clients {
            let (rt, ends) = (rt.clone(), Rc::clone(&ends));
            drop(rt.clone().spawn(async move {
                let end = client.await;
                ends.borrow_mut().push(end);
                if ends.borrow().len() == many {
                    rt.shutdown();
                }
            }));
        }
        let late = weft_tcp::now() + Nanos::from_secs(120);
        let ended = driver.run(&mut rt.program(), || weft_tcp::now() > late);
        stop.store(true, Ordering::SeqCst);
        assert_eq!(ended, Ended::Done, "clients take two minutes");
        ends.take().into_iter().for_each(|end| end.expect("a client's call"));
    });
}

/// What clients were told, and how much of the journal there was then.
type Told = Rc<RefCell<Vec<(usize, Key, Telling)>>>;

/// Starts servers on what a crash has left, and reads all that has a name.
fn recovers(stores: &[Store], scratch: &Scratch) {
    for (server, store) in (0..).zip(stores) {
        let path = scratch.store(server);
        drop(fs::remove_dir_all(&path));
        drop(open(&path, server));
        for (object, bytes) in store {
            fs::write(path.join(object.to_string()), bytes).expect("it can be written");
        }
    }
    let report = checked(&stores[0]);
    let expected: Vec<(String, Vec<u8>)> = report
        .names
        .iter()
        .map(|(name, handle)| {
            let object = weft_verbs::ObjectName(handle.0);
            let bytes = stores.iter().find_map(|store| store.get(&object)).cloned().unwrap_or_default();
            (name.as_str().to_string(), bytes)
        })
        .collect();
    let reads = |_, files: Pario<Tcp>| {
        vec![async move {
            for (name, bytes) in expected {
                let file = files.open(&name).await?;
                assert_eq!(files.size(&file).await?, bytes.len() as u64, "{name}");
                let (read, buffer) = files.read(&file, 0, files.buffer(bytes.len().max(1))?).await;
                let mut found = vec![0; read?];
                buffer.read(0, &mut found)?;
                assert!(found == bytes, "{name} has other bytes");
                files.close(file).await?;
            }
            Ok(())
        }]
    };
    cluster(Sync::Asked, |server| open(&scratch.store(server), server), reads);
}

/// Of a batch whose sync failed the system may have the bytes, take them to be written, and lose them with its power. So what a fresh
/// journal knows of, which has heard of no earlier write, is all of the log.
#[test]
fn what_a_server_has_read_of_its_log_it_has_written_once_more_and_synced() {
    let scratch = Scratch::new("written-once-more");
    let store = |server| open(&scratch.store(server), server);
    let makes = |_, files: Pario<Tcp>| {
        vec![async move {
            for name in ["a", "b"] {
                let file = files.create(name, None).await?;
                files.close(file).await?;
            }
            Ok(())
        }]
    };
    cluster(Sync::Each, store, makes);
    let recording = Recording::default();
    let looks = |_, files: Pario<Tcp>| vec![async move { files.readdir("").await.map(drop) }];
    cluster(Sync::Each, |server| store(server).recorded(&recording), looks);

    let mut replay = recording.replay();
    replay.advance(recording.len());
    let durable = replay.after_crash(0, |_| 0);
    assert_eq!(checked(&durable).names.len(), 2);
    for (object, bytes) in content(&store(0)) {
        let (written, room) = bytes.split_at(durable[&object].len());
        assert!(
            written == durable[&object] && room.iter().all(|byte| *byte == 0),
            "{object} has other bytes"
        );
    }
}

#[test]
fn ten_thousand_states_that_a_power_cut_may_leave_of_real_files_are_stores_that_recover() {
    let (recording, scratch) = (Recording::default(), Scratch::new("run"));
    let told = Told::default();
    let store = |server| open(&scratch.store(server), server).recorded(&recording);
    let teller: Teller = Rc::new({
        let (told, recording) = (Rc::clone(&told), recording.clone());
        move |key, telling: Telling| told.borrow_mut().push((recording.len(), key, telling))
    });
    cluster(Sync::Asked, store, |_, files| {
        (0..CLIENTS).map(|me| client(files.clone(), me, (24, Sync::Asked), Rc::clone(&teller))).collect()
    });

    // The journal tells what the files have become.
    let mut replay = recording.replay();
    replay.advance(recording.len());
    for server in 0..SERVERS {
        assert!(
            replay.live(server) == content(&open(&scratch.store(server), server)),
            "store {server} has other bytes"
        );
    }

    let each = 10_000_usize.div_ceil(recording.len());
    let (mut replay, mut book, mut told) =
        (recording.replay(), Book::new(), told.take().into_iter().peekable());
    let (mut states, mut kinds, mut choice) = (0, BTreeSet::new(), Seeded::new(0));
    let again = Scratch::new("again");
    for at in 0..=recording.len() {
        replay.advance(at);
        while let Some((_, key, telling)) = told.next_if(|(then, ..)| *then <= at) {
            telling(book.entry(key).or_default());
        }
        for _ in 0..each {
            let mut choose = |below: usize| choice.pick("what is left", below as u64) as usize;
            let crashed = |server| replay.after_crash(server, &mut choose);
            let stores: Vec<Store> = (0..SERVERS).map(crashed).collect();
            judge(&stores, &book);
            let mut hash = DefaultHasher::new();
            stores.hash(&mut hash);
            // Servers start on some of those that no other one was like.
            if kinds.insert(hash.finish()) && kinds.len() % 200 == 0 {
                recovers(&stores, &again);
            }
            states += 1;
        }
    }
    assert!(states >= 10_000, "{states} states");
    eprintln!("{} of {states} states differ", kinds.len());
    assert!(kinds.len() > 3_000, "{} of them differ", kinds.len());
}
