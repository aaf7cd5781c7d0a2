//! A run on simulated disks.

use super::{Book, CLIENTS, SERVERS, Store, Teller, Telling, client, judge};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use weft_check::paper::{Cluster, Machine};
use weft_protocols::pario::{FsConfig, Pario, Sync};
use weft_sim::profile::Profile;
use weft_sim::{Config, NodeId, Sim};
use weft_verbs::{Nanos, Wait};

/// Moments of the run, this far apart, and states of all servers at each of them.
const APART: Nanos = Nanos::from_micros(3);
const EACH: u64 = 8;

/// Looks at so many states of a run; how many of them differ.
fn walk(sync: Sync, many: u32, wanted: u64) -> usize {
    let profile = Profile::builtin("present-day").expect("it is built in");
    let config = FsConfig { eager: 1_024, unit: 4_096, sync, ..FsConfig::new(SERVERS) };
    let of = Config::new(SERVERS + CLIENTS, profile);
    let cluster = Cluster::new(of, |_| Wait::Poll, |mesh| mesh.max_message = config.max_message())
        .unwrap_or_else(|why| panic!("{why}"));
    let start = |Machine { rt, mesh }: &Machine| Pario::start(rt, mesh, config).expect("it starts");
    let services: Vec<Pario<Sim>> = cluster.machines.iter().map(start).collect();
    let (book, done) = (Rc::new(RefCell::new(Book::new())), Rc::new(RefCell::new(0)));
    let teller: Teller = Rc::new({
        let book = Rc::clone(&book);
        move |key, telling: Telling| telling(book.borrow_mut().entry(key).or_default())
    });
    for me in 0..CLIENTS {
        let node = (SERVERS + me) as usize;
        let (files, teller, done) = (services[node].clone(), Rc::clone(&teller), Rc::clone(&done));
        drop(cluster.machines[node].rt.spawn(async move {
            client(files, me, (many, sync), teller).await.unwrap_or_else(|why| panic!("{why}"));
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
