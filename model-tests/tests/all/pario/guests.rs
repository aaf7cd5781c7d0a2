//! Guests of file servers: they come, work, leave or die, and their servers keep nothing of who has gone.

use crate::common::{explore, struck};
use std::ops::Range;
use std::path::Path;
use weft_check::explore::{Options, Size};
use weft_check::run::{RunOptions, World};
use weft_check::scenario::{FaultKind, Scenario};
use weft_check::seeds::assert_held;
use weft_check::systems::pario::Files;
use weft_check::systems::pario::workload::Access;
use weft_sim::explore::{FaultSet, Outcome};
use weft_verbs::Nanos;

fn shipped(name: &str) -> Scenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(name);
    weft_check::load(&file).unwrap_or_else(|error| panic!("{error}"))
}

/// A shipped scenario holds with small and with other files. Cuts and restarts strike what is under way, and the protocol counts more of one thing
/// than so many.
fn assert_held_by_both_kinds_of_files(name: &str, seeds: Range<u64>, (counted, more_than): (&str, u64)) {
    for access in [Access::Small, Access::Mix] {
        let mut scenario = shipped(name);
        scenario.workload.change::<Files>(|work| work.access = access);
        let summary = assert_held(&scenario, seeds.clone());
        let of = |kind| struck(&summary, kind);
        assert!(of(FaultKind::Cut) > 0 && of(FaultKind::Restart) > 0, "{access:?}");
        assert!(summary.metrics.count("protocol", counted) > more_than, "{access:?}");
    }
}

#[test]
fn files_keep_their_promises_to_guests_while_links_fail_and_a_guest_restarts() {
    assert_held_by_both_kinds_of_files("files-guests-8.toml", 0..6, ("guests", 200));
}

/// The oracle "no leaks" counts guests, their slots and buffers, operations, staging, turns and open files at each server.
#[test]
fn all_that_was_kept_for_guests_that_leave_or_die_is_free_again() {
    let mut scenario = shipped("files-guests-8.toml");
    scenario.faults.clear();
    let summary = assert_held(&scenario, 0..4);
    let count = |name| summary.metrics.count("protocol", name);
    assert!(count("guests") > 200);
    assert_eq!(count("guests"), count("forgotten"));
}

/// A small sibling of the scenario's 100,000 guests.
#[test]
fn nothing_grows_with_the_number_of_guests_that_came() {
    let mut scenario = shipped("files-guests-soak-24.toml");
    scenario.workload.change::<Files>(|work| work.requests = Some(200));
    let mut world = World::<Files>::seeded(&scenario, 1).unwrap_or_else(|error| panic!("{error}"));
    world.start_clients();
    // What the servers have, at most: in the first guests' time, in which the last of many dies, and in all the time after.
    let (mut early, mut late) = ([0; 3], [0; 3]);
    for tick in 1..=100 {
        world.fabric().run_until(Nanos::from_millis(tick));
        for server in &world.fabric().stats().alive[..4] {
            let most = if tick <= 40 { &mut early } else { &mut late };
            for (most, now) in most.iter_mut().zip([server.qps, server.mrs, server.srqs]) {
                *most = now.max(*most);
            }
        }
        if world.all_done() {
            break;
        }
    }
    let report = world.run(RunOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(report.held(), "{report:?}");
    // How many guests are there at a time varies a little, and each has a queue pair. Most guests come late: one thing kept of each would show.
    let grew = |(early, late): (&u32, &u32)| *late > early + early / 4;
    assert!(!early.iter().zip(&late).any(grew), "{early:?} grew to {late:?}");
}

/// A guest's lease ends while its link is cut. Its next visit is to be taken for another one than the last, of which the guest has
/// received messages: as long as both had one number, no connection stood.
#[test]
fn a_guest_that_was_forgotten_behind_a_cut_link_is_met_again() {
    for world in ["pario-guest-leaves", "pario-guest-dies"] {
        let options = Options {
            faults: 1,
            kinds: Some(FaultSet::one(Outcome::Cut)),
            max_executions: Some(3_000),
            ..Options::default()
        };
        let report = explore(world, &Size::new([("calls", "c".to_string())]), &options);
        assert!(report.held(), "{world}: {:?} after {} executions", report.verdict(), report.executions);
    }
}

#[test]
fn a_guest_that_leaves_or_dies_is_forgotten_in_every_order() {
    for world in ["pario-guest-leaves", "pario-guest-dies"] {
        let options = Options { max_executions: Some(2_000), ..Options::default() };
        let report = explore(world, &Size::default(), &options);
        assert!(report.held(), "{world}: {report:?}");
    }
}

/// Links are cut for longer than leases: guests are forgotten and do not know it, and ask servers that know nothing of what had ended.
/// (With seed 21 and small files, one read zeros.)
#[test]
fn a_guest_that_was_forgotten_reads_no_zeros_of_a_file_that_has_ended_whichever_server_restarts() {
    assert_held_by_both_kinds_of_files("files-guests-restart-8.toml", 20..24, ("forgotten", 20));
}
