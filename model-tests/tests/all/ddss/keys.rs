//! Keys, names and transfers, on a healthy cluster.

use crate::common::unless_it_waits;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use weft_protocols::ddss::{Ddss, DdssError, Key, Model, Name, Placement, Spec};
use weft_protocols::rt::{Rt, RtConfig};
use weft_protocols::transport::{Mesh, MeshConfig, Rank};
use weft_sim::choice::Seeded;
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, Keys, NodeId, Sim};
use weft_verbs::{Device, Nanos, Wait};

pub(super) const SPEC: Spec = Spec { size: 64, model: Model::Strict };

/// Runs a test on three nodes, which is told their services.
pub(super) fn on_three_nodes<F: Future<Output = ()> + 'static>(test: impl FnOnce(Vec<Ddss<Sim>>) -> F) {
    on_three_nodes_of(Keys::default(), test);
}

/// The same on nodes whose adapters give out keys so.
pub(super) fn on_three_nodes_of<F: Future<Output = ()> + 'static>(
    keys: Keys,
    test: impl FnOnce(Vec<Ddss<Sim>>) -> F,
) {
    let profile = Profile::builtin("present-day").expect("it is built in");
    let config = Config { keys, ..Config::new(3, profile) };
    let fabric = Fabric::new(config, Box::new(Seeded::new(1))).expect("a cluster");
    let names: Vec<String> = (0..3).map(|node| NodeId(node).to_string()).collect();
    let mut runtimes = Vec::new();
    let start = |node: u32| {
        let ctx = fabric.devices(NodeId(node))[0].open().expect("a device");
        let config = RtConfig { wait: Wait::Poll, ..RtConfig::default() };
        let rt = Rt::<Sim>::new(&ctx, config).expect("a runtime");
        let mesh = MeshConfig::new(Rank::from_index(node), names.clone());
        let mesh = Mesh::start(&rt, mesh).expect("a mesh");
        let ddss = Ddss::start(&rt, &mesh).expect("a service");
        fabric.mount(NodeId(node), Box::new(rt.program()));
        runtimes.push(rt);
        ddss
    };
    let services: Vec<_> = (0..3).map(start).collect();
    let ended = Rc::new(Cell::new(false));
    // A test calls services of all nodes from a task of the first one, which is woken by what happens on others.
    for rt in &runtimes {
        let (ticks, ended) = (rt.clone(), Rc::clone(&ended));
        drop(rt.spawn(async move {
            while !ended.get() {
                ticks.sleep(Nanos::from_micros(5)).await;
            }
        }));
    }
    let (test, end) = (test(services), Rc::clone(&ended));
    drop(runtimes[0].spawn(async move {
        test.await;
        end.set(true);
    }));
    fabric.run_until(Nanos::from_secs(1));
    assert!(ended.get(), "the test does not end");
}

#[test]
fn a_key_travels_and_placement_says_where_its_segment_is() {
    on_three_nodes(async |nodes| {
        let rank = Rank::from_index;
        let mut homes = Vec::new();
        for placement in
            [Placement::RoundRobin, Placement::RoundRobin, Placement::Local, Placement::On(rank(2))]
        {
            homes.push(nodes[0].allocate(SPEC, placement).await.expect("a key").home());
        }
        assert_eq!(homes, [rank(1), rank(2), rank(0), rank(2)]);
        assert_eq!([0, 1, 2].map(|node| nodes[node].kept().len()), [1, 1, 2]);

        let key = nodes[0].allocate(SPEC, Placement::Local).await.expect("a key");
        let put = nodes[0].attach(key).expect("its own");
        nodes[0].put(&put, &[7; 64]).await.expect("a put");
        // Bytes are what is passed on.
        let key = Key::from_bytes(&key.to_bytes()).expect("a key");
        let (got, mut value) = (nodes[0].attach(key).expect("another one's"), [0; 64]);
        nodes[0].get(&got, &mut value).await.expect("a get");
        assert_eq!((value, got.key()), ([7; 64], key));
    });
}

#[test]
fn a_name_is_looked_up_and_stands_for_one_key() {
    on_three_nodes(async |nodes| {
        let ddss = &nodes[0];
        assert_eq!(ddss.lookup(Name(4)).await, Ok(None));
        let [one, two] =
            [ddss.allocate(SPEC, Placement::RoundRobin).await, ddss.allocate(SPEC, Placement::Local).await];
        let (one, two) = (one.expect("a key"), two.expect("a key"));
        ddss.bind(Name(4), one).await.expect("the name is free");
        ddss.bind(Name(4), one).await.expect("it stands for this already");
        let refused = ddss.bind(Name(4), two).await;
        assert_eq!(refused, Err(DdssError::Otherwise { size: 64, model: Model::Strict }));
        assert_eq!(ddss.open(Name(4), SPEC).await.err(), Some(DdssError::Bound), "no other segment hides it");
        assert_eq!(ddss.lookup(Name(4)).await, Ok(Some(one)));
        let opened = ddss.open(Name(5), SPEC).await.expect("a segment");
        assert_eq!(ddss.lookup(Name(5)).await, Ok(Some(opened.key())));
        assert_eq!(ddss.open(Name(1 << 63), SPEC).await.err(), Some(DdssError::Name));
    });
}

#[test]
fn what_no_segment_can_be_is_refused_by_a_typed_error_and_nothing_is_touched() {
    on_three_nodes(async |nodes| {
        let ddss = &nodes[0];
        for spec in [Spec { size: 0, ..SPEC }, Spec { size: Spec::LARGEST + 1, ..SPEC }] {
            let refused = ddss.allocate(spec, Placement::Local).await;
            assert_eq!(refused, Err(DdssError::Impossible(spec.size, spec.model)));
        }
        let key = ddss.allocate(SPEC, Placement::Local).await.expect("a key");
        let mut bytes = key.to_bytes();
        bytes[12] += 1;
        let larger = Key::from_bytes(&bytes).expect("it reads as one");
        assert_eq!(ddss.attach(larger).err(), Some(DdssError::Key));
        bytes[0] = 9;
        let elsewhere = Key::from_bytes(&bytes).expect("it reads as one");
        assert_eq!(ddss.attach(elsewhere).err(), Some(DdssError::Key), "there is no such node");
        let segment = ddss.attach(key).expect("its own");
        let wrong = Err(DdssError::Length { size: 64, len: 63 });
        assert_eq!(ddss.put(&segment, &[0; 63]).await, wrong);
        assert_eq!(ddss.get(&segment, &mut [0; 63]).await, wrong.map(|_| 0));
        assert_eq!(
            ddss.get_earlier(&segment, 1, &mut [0; 64]).await,
            Err(DdssError::NotKept { back: 1, behind: 0 })
        );
    });
}

/// No version is kept that is before the current one: what is asked for is a get like any other, which the holder of the lock keeps out.
#[test]
fn the_current_version_is_got_by_its_distance_only_while_a_get_may_have_it() {
    on_three_nodes(async |nodes| {
        let home = Rank::from_index(2);
        for model in [Model::Read, Model::Strict] {
            let key = nodes[0].allocate(Spec { model, ..SPEC }, Placement::On(home)).await.expect("a key");
            let [mine, theirs] = [0, 1].map(|node| nodes[node].attach(key).expect("a segment"));
            let mut held = nodes[0].lock(&mine).await.expect("a lock");
            held.put(&[1; 64]).await.expect("a put");
            let mut value = [0; 64];
            {
                let mut got = pin!(nodes[1].get_earlier(&theirs, 0, &mut value));
                for _ in 0..100 {
                    assert_eq!(unless_it_waits(got.as_mut()).await, None, "{model}");
                    nodes[0].holdings(home).await.expect("an answer");
                }
                held.put(&[2; 64]).await.expect("a put");
                held.unlock().await.expect("it was held");
                assert_eq!(got.await, Ok(2), "{model}");
            }
            assert_eq!(value, [2; 64], "{model}");
        }
    });
}

#[test]
fn transfers_go_on_and_are_waited_for_later() {
    on_three_nodes(async |nodes| {
        let key = nodes[0].allocate(SPEC, Placement::RoundRobin).await.expect("a key");
        let segment = nodes[0].attach(key).expect("its own");
        let puts: Vec<_> = (1..=3).map(|n| nodes[0].begin_put(&segment, vec![n; 64])).collect();
        let mut versions = Vec::new();
        for put in puts {
            versions.push(put.wait().await.expect("a put"));
        }
        assert_eq!(versions, [Some(1), Some(2), Some(3)], "in the order in which they began");
        assert_eq!(nodes[0].begin_get(&segment).wait().await, Ok((vec![3; 64], 3)));
    });
}

#[test]
fn a_lock_that_is_dropped_is_given_back() {
    on_three_nodes(async |nodes| {
        let segment = nodes[0].open(Name(1), SPEC).await.expect("a segment");
        let mut held = nodes[0].lock(&segment).await.expect("a lock");
        assert!(nodes[0].try_lock(&segment).await.expect("an answer").is_none());
        held.put(&[1; 64]).await.expect("a put");
        drop(held);
        let held = nodes[0].lock(&segment).await.expect("it was given back");
        let mut value = [0; 64];
        assert_eq!(held.get(&mut value).await, Ok(1));
        held.unlock().await.expect("it was held");
        assert_eq!(value, [1; 64]);
    });
}

#[test]
fn a_put_under_the_lock_that_is_dropped_is_not_written_over() {
    on_three_nodes(async |nodes| {
        let spec = Spec { model: Model::Write, ..SPEC };
        let segment = nodes[0].open(Name(1), spec).await.expect("a segment");
        let there = nodes[2].open(Name(1), spec).await.expect("the same");
        for round in 0..10_u64 {
            let mut held = nodes[0].lock(&segment).await.expect("a lock");
            let value = |version: u64| [version as u8; 64];
            let first = 2 * round + 1;
            assert_eq!(
                unless_it_waits(held.put(&value(first))).await,
                None,
                "it has to wait for the adapter"
            );
            let reads: Vec<_> = (0..20).map(|_| nodes[2].begin_get(&there)).collect();
            assert_eq!(held.put(&value(first + 1)).await, Ok(Some(first + 1)), "behind the dropped one");
            held.unlock().await.expect("it was held");
            for read in reads {
                let (bytes, version) = read.wait().await.expect("a value");
                assert_eq!(bytes, value(version), "round {round}");
            }
        }
    });
}

/// It asks again in the same breath as it gives the lock back.
#[test]
fn a_task_that_locks_again_and_again_keeps_no_other_of_its_node_out() {
    on_three_nodes(async |nodes| {
        let one = &nodes[0];
        let segment = one.open(Name(1), SPEC).await.expect("a segment");
        let turns = Cell::new(0);
        let mut again = pin!(async {
            for _ in 0..100 {
                let held = one.lock(&segment).await.expect("a lock");
                turns.set(turns.get() + 1);
                held.unlock().await.expect("its home is there");
            }
        });
        let mut once = pin!(async {
            let held = one.lock(&segment).await.expect("a lock");
            let before = turns.get();
            held.unlock().await.expect("its home is there");
            before
        });
        let mut goes_on = true;
        let before = poll_fn(|cx| {
            goes_on = goes_on && again.as_mut().poll(cx).is_pending();
            once.as_mut().poll(cx)
        });
        let before = before.await;
        assert!(before <= 2, "after {before} turns of the other one");
    });
}
