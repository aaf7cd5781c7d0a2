//! Path migration on the fabric: two paths are two ways, each with its own order.

use crate::common::*;
use weft_sim::Config;
use weft_sim::choice::Seeded;
use weft_verbs::*;

/// The second ports of two sides, each the other's alternate path.
fn rearm(from: &Side, to: &Side) {
    let path = Path::to(to.ctx.gid(2, 0).unwrap(), 2);
    let alt = Some(AltPath { path, pkey_index: 0, timeout: AckTimeout::new(8).unwrap() });
    let update = Update { alt, migration: Some(Migration::Rearm), ..Update::default() };
    from.qp.modify(&Modify::Update(update)).unwrap();
}

#[test]
fn what_goes_by_the_new_path_does_not_wait_for_packets_on_the_old_one() {
    let config = Config { ports: 2, ..Config::new(2, profile()) };
    let fabric = fabric_with(config, Box::new(Seeded::new(1)));
    let timeout = AckTimeout::new(8).unwrap();
    let (a, b) = connected_with(&fabric, |r| ToRtr { mtu: Mtu::B4096, ..r }, |r| ToRts { timeout, ..r });
    rearm(&a, &b);
    rearm(&b, &a);
    a.post(1, SendOp::Write { to: b.remote(0, 8), imm: None }, 0, 8, SendFlags::SIGNALED);
    settle(&fabric);
    assert_eq!(a.polled().len(), 1);
    assert_eq!(a.qp.query().unwrap().migration, Migration::Armed);

    // 48 KiB stand in line at the first port: some 50 us of its cable.
    a.post(2, SendOp::Write { to: b.remote(0, 49_152), imm: None }, 0, 49_152, SendFlags::SIGNALED);
    run(&fabric, Nanos::from_micros(3));
    let moved = Update { migration: Some(Migration::Migrated), ..Update::default() };
    a.qp.modify(&Modify::Update(moved)).unwrap();
    b.post(3, SendOp::FetchAdd { at: a.remote(65_528, 8), add: 1 }, 65_528, 8, SendFlags::SIGNALED);
    run(&fabric, Nanos::from_micros(25));
    assert_eq!(ids(&b.polled()), [(3, None)], "the answer came by the second cable");
    assert!(a.polled().is_empty(), "the write is still on the first");
    settle(&fabric);
    assert_eq!(ids(&a.polled()), [(2, None)]);
}
