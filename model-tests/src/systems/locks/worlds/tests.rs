use super::*;
use crate::explore::{ModelFactory, TransitionSystem};
use weft_protocols::locks::LockStats;

#[test]
fn every_reading_of_the_paper_is_a_world() {
    let is_reading = |entry: &&Entry| entry.name.starts_with("as-published-");
    assert_eq!(worlds().iter().filter(is_reading).count(), Reading::ALL.len());
}

#[test]
fn a_world_that_takes_no_modes_says_so() {
    let mcs = worlds().into_iter().find(|entry| entry.name == "mcs").unwrap();
    assert!(mcs.build(&Size::new([("modes", "x,x")])).is_err());
    assert!(mcs.build(&Size::new([("nodes", 9)])).is_err());
    assert!(mcs.build(&Size::new([("nodes", 3)])).is_ok());
}

fn harness(scheme: Scheme, wait: Wait, one_by_one: bool, warm: bool) -> Harness<Locks> {
    let requests = Requests::read("x,s,x").expect("modes");
    Harness::new("locks", Locks { scheme, requests, home: 0, wait, one_by_one, warm, shared_limit: None })
}

/// Every execution begins in the same state, and none but the first sets it up for real.
#[test]
fn a_lock_world_is_set_up_once() {
    for (scheme, wait, one_by_one, warm) in [
        (Scheme::Srsl, Wait::Notify, false, false),
        (Scheme::Dqnl, Wait::Poll, true, true),
        (Scheme::Ncosed, Wait::Notify, false, true),
        (Scheme::Ncosed, Wait::Poll, true, false),
    ] {
        let mut harness = harness(scheme, wait, one_by_one, warm);
        let mut execution = harness.root();
        let first = execution.fabric().fingerprint_parts();
        let mut ends = Vec::new();
        for _ in 0..3 {
            harness.reset(&mut execution);
            assert!(execution.keeps_roots(), "{scheme:?}");
            assert_eq!(execution.fabric().fingerprint_parts(), first, "{scheme:?}");
            execution.fabric().run_until_quiescent();
            assert_eq!(execution.finish(), Ok(()), "{scheme:?}");
            ends.push(execution.fabric().fingerprint_parts());
        }
        assert!(ends.windows(2).all(|pair| pair[0] == pair[1]), "{scheme:?}");
    }
}

#[test]
fn a_grant_that_is_counted_twice_or_as_late_is_told() {
    let told = |since| service::miscounted(&since, 0).map(|(_, count)| count);
    let once = LockStats { requests: 1, grants: 1, ..LockStats::default() };
    assert_eq!(told(once), [0; 3]);
    assert_eq!(told(LockStats { grants: 2, ..once }), [1, 0, 0]);
    assert_eq!(told(LockStats { late_grants: 1, abandoned: 1, ..once }), [0, 1, 1]);
}
