//! The benches measure what they say. How fast it is is not tested: that is the machine's.

use super::*;
use weft_sim::profile::Profile;

fn ring(nodes: u32, stack: Stack) -> Ring {
    let profile = Profile::builtin("ncosed-2007").expect("a shipped profile");
    Ring { nodes, messages: 2_000, window: 4, stack, ..Ring::new(profile) }
}

#[test]
fn as_many_messages_arrive_as_were_asked_for_and_no_packet_is_sent_twice() {
    for stack in [Stack::Nodes, Stack::Tasks, Stack::Sessions] {
        for nodes in [1, 2, 9].into_iter().filter(|nodes| *nodes > 1 || stack != Stack::Sessions) {
            let figures = ring(nodes, stack).run().expect("a ring");
            let most = 2_000 + u64::from(4 * nodes);
            assert!((2_000..=most).contains(&figures.messages), "{stack:?} {nodes}: {}", figures.messages);
            assert_eq!(figures.retransmitted, 0, "{stack:?} {nodes}");
            assert!(figures.packets >= figures.messages && figures.virtual_seconds > 0.0, "{figures:?}");
        }
    }
}

#[test]
fn the_smallest_window_does_not_stand_still() {
    for stack in [Stack::Nodes, Stack::Tasks, Stack::Sessions] {
        let ring = Ring { window: 1, ..ring(2, stack) };
        assert!(ring.run().is_ok_and(|figures| figures.messages >= 2_000), "{stack:?}");
    }
}

#[test]
fn the_virtual_time_of_a_ring_is_the_same_in_every_run() {
    for stack in [Stack::Nodes, Stack::Tasks, Stack::Sessions] {
        let seconds = |_| ring(3, stack).run().expect("a ring").virtual_seconds;
        let [first, second] = [0, 1].map(seconds);
        assert_eq!(first, second, "{stack:?}");
    }
}

#[test]
fn impossible_rings_are_refused_with_their_bounds() {
    let good = || ring(2, Stack::Nodes);
    let bad = [
        ("nodes", Ring { nodes: 0, ..good() }),
        ("nodes", Ring { nodes: 1 << 15, ..good() }),
        ("nodes", Ring { nodes: 1, stack: Stack::Sessions, ..good() }),
        ("messages", Ring { messages: 0, ..good() }),
        ("window", Ring { window: 0, ..good() }),
        ("window", Ring { window: 2_000, ..good() }),
        ("bytes", Ring { bytes: 100_000, ..good() }),
        ("bytes", Ring { bytes: 1_025, stack: Stack::Sessions, ..good() }),
    ];
    for (name, ring) in bad {
        match ring.run() {
            Err(BenchError::Bounds { what, .. }) => assert_eq!(what, name),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn every_variant_of_a_system_is_measured_to_the_last_request() {
    for system in crate::systems::all() {
        for variant in system.variants() {
            let bench = SystemBench { nodes: 3, requests: 30, ..SystemBench::default() };
            let figures = system.bench(&bench, variant).expect("a run");
            assert_eq!(figures.requests, 30, "{} {variant}", system.kind());
            assert!(figures.events > 0 && figures.virtual_seconds > 0.0, "{} {variant}", system.kind());
        }
    }
}
