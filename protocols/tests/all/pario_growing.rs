//! Files that grow while they are read.

use crate::common::{Cluster, us};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use weft_protocols::pario::{FsConfig, Pario, Storage};
use weft_verbs::{Nanos, Wait};

/// What is appended, and read where that will be.
const LEN: usize = 256;
const ROUNDS: u64 = 200;
/// From one round to the next, and how much later the read begins in that.
const ROUND: Nanos = Nanos::from_millis(1);
const LATER: Nanos = Nanos(250);
/// The first read is over before its append begins.
const AHEAD: Nanos = Nanos::from_micros(25);

/// When an append begins.
fn append(round: u64) -> Nanos {
    ROUND * (round + 1)
}

/// Reads the bytes that are appended at the same time, from before to after that; how many there were in each round.
fn read_beside_appends(eager: u32) -> BTreeSet<usize> {
    let config = FsConfig { storage: Storage::Memory { most: 1 << 20 }, eager, ..FsConfig::new(1) };
    let cluster = Cluster::with_messages(3, 1, Wait::Poll, config.max_message());
    let start = |node: usize| {
        let member = &cluster.members[node];
        Pario::start(&member.rt, &member.mesh, config).expect("the channel is free")
    };
    let [_server, appender, reader] = [0, 1, 2].map(start);
    let rt = cluster.members[1].rt.clone();
    drop(cluster.members[1].rt.spawn(async move {
        let file = appender.create("f", None).await.expect("nothing is there");
        for round in 0..ROUNDS {
            let buffer = appender.buffer(LEN).expect("there is room");
            buffer.write(0, &[7; LEN]).expect("it fits");
            rt.sleep_until(append(round)).await;
            assert_eq!(appender.append(&file, buffer).await.0, Ok(round * LEN as u64));
        }
    }));
    let told = Rc::new(RefCell::new(Vec::new()));
    let (rt, tell) = (cluster.members[2].rt.clone(), Rc::clone(&told));
    drop(cluster.members[2].rt.spawn(async move {
        rt.sleep_until(us(500)).await;
        let file = reader.open("f").await.expect("it is there");
        for round in 0..ROUNDS {
            let buffer = reader.buffer(LEN).expect("there is room");
            rt.sleep_until(append(round) + LATER * round - AHEAD).await;
            let (read, buffer) = reader.read(&file, round * LEN as u64, buffer).await;
            let read = read.expect("it is open");
            let mut bytes = vec![0; read];
            buffer.read(0, &mut bytes).expect("they are there");
            assert!(bytes.iter().all(|byte| *byte == 7), "in round {round} {read} bytes are {bytes:?}");
            tell.borrow_mut().push(read);
        }
    }));
    cluster.run(append(ROUNDS + 1));
    let told = told.take();
    assert_eq!(told.len() as u64, ROUNDS, "a call has not ended");
    told.into_iter().collect()
}

#[test]
fn a_read_beside_an_append_returns_what_is_appended_or_nothing() {
    for eager in [0, 4_096] {
        assert_eq!(read_beside_appends(eager), BTreeSet::from([0, LEN]), "eager {eager}");
    }
}
