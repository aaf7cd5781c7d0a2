//! Files under accidents, over seeds: bytes and names keep their promises, and every way that data go is struck.

mod costs;
mod crash_states;
mod dropped;
mod full_disk;
mod groups;
mod guests;
mod lists;

use crate::common::{assert_kept, explore, stormy, struck};
use weft_check::explore::{Options, Size};
use weft_check::fields::Share;
use weft_check::scenario::{FaultKind, FaultSpec, Scenario};
use weft_check::seeds::assert_held;
use weft_check::systems::pario::Files;
use weft_check::systems::pario::workload::{Access, By, Durable, Keep, Mover};
use weft_sim::explore::{FaultSet, Outcome};

const WORKLOAD: &str = r#"
kind = "pario"
access = "mix"
servers = 2
files = 2
strip = 2_048
cell = 512
cells = 40
blocks = 2
eager = 1_024
unit = 2_048
stages = 2
requests = 120
"#;

fn scenario(access: Access) -> Scenario {
    let mut scenario = stormy(4, WORKLOAD, 800);
    scenario.workload.change::<Files>(|work| work.access = access);
    scenario
}

#[test]
fn bytes_and_names_keep_their_promises_while_links_fail_and_answers_are_lost() {
    for access in Access::ALL {
        let summary = assert_held(&scenario(access), 0..6);
        assert!(
            struck(&summary, FaultKind::Cut) > 0 && struck(&summary, FaultKind::LoseCompletion) > 0,
            "{access:?}"
        );
        let count = |name| summary.metrics.count("protocol", name);
        assert!(count("pulls") > 0 && count("pushes") > 0 && count("again") > 0, "{access:?}");
        assert!(count("unknown_outcomes") > 0 && count("staging_waits") > 0, "{access:?}");
        assert_eq!(summary.metrics.count("calls", "failed"), 0, "{access:?}");
    }
}

#[test]
fn the_same_holds_in_memory_without_syncs_and_with_every_transfer_by_rdma() {
    let mut scenario = scenario(Access::Mix);
    scenario.workload.change::<Files>(|work| {
        (work.storage, work.sync, work.eager, work.stages) = (Keep::Memory, Durable::Asked, 0, 1);
    });
    let summary = assert_held(&scenario, 0..4);
    assert_eq!(summary.metrics.count("protocol", "eager"), 0);
}

#[test]
fn the_same_holds_where_clients_move_the_data_always_or_by_load() {
    for movers in [Mover::Client, Mover::Adaptive] {
        let mut scenario = scenario(Access::Tiles);
        scenario.workload.change::<Files>(|work| {
            // With two places, a server would always be at its throttle, and move nothing by load.
            (work.movers, work.eager, work.stages) = (movers, 0, 64);
        });
        let summary = assert_held(&scenario, 0..4);
        let count = |name| summary.metrics.count("protocol", name);
        assert!(count("offered") > 0 && count("again") > 0, "{movers:?}");
        assert_eq!(count("pulls") + count("pushes") > 0, movers == Mover::Adaptive, "{movers:?}");
    }
}

#[test]
fn the_same_holds_by_byte_streams() {
    for access in Access::ALL {
        let mut scenario = scenario(access);
        scenario.workload.change::<Files>(|work| work.wire = By::Tcp);
        let summary = assert_held(&scenario, 0..3);
        let count = |name| summary.metrics.count("protocol", name);
        assert_eq!(count("pulls") + count("pushes") + count("offered"), 0, "{access:?}");
    }
}

/// The same storm, and nodes that crash and come back.
fn restarts(access: Access) -> Scenario {
    let mut scenario = scenario(access);
    let restart = r#"{ kind = "restart", rate = "300/s", lasts = { min = "100us", max = "1ms" } }"#;
    scenario.faults.push(toml::from_str::<One>(&format!("fault = {restart}")).expect("a fault").fault);
    scenario
}

#[derive(serde::Deserialize)]
struct One {
    fault: FaultSpec,
}

#[test]
fn what_was_answered_is_there_when_servers_crash_and_come_back() {
    let (mut commits, mut failed) = (0, 0);
    for access in Access::ALL {
        let summary = assert_held(&restarts(access), 0..12);
        let count = |group, name| summary.metrics.count(group, name);
        assert!(count("calls", "served") > 1_000, "{access:?}");
        commits += count("protocol", "commits");
        failed += count("calls", "failed");
    }
    assert!(commits > 0 && failed > 0, "{commits} commits, {failed} calls failed");
}

#[test]
fn places_of_appends_are_disjoint_and_what_was_cut_off_is_zero_whatever_fails() {
    let mut appended = 0;
    for base in [scenario(Access::Mix), restarts(Access::Mix)] {
        for (wire, storage) in [(By::Verbs, Keep::Disk), (By::Tcp, Keep::Disk), (By::Verbs, Keep::Memory)] {
            let mut scenario = base.clone();
            scenario.workload.change::<Files>(|work| {
                (work.appends, work.cuts) = (Share::new(0.5).unwrap(), Share::new(0.1).unwrap());
                (work.wire, work.storage) = (wire, storage);
            });
            let summary = assert_held(&scenario, 0..4);
            appended += summary.metrics.count("protocol", "places");
        }
    }
    assert!(appended > 500, "{appended} places");
}

/// The disk is so slow that a server has acknowledged nearly every request under way when it crashes: nothing of its clients waits
/// for anything then. It has no directory, so its next life asks nobody anything.
#[test]
fn a_call_ends_whose_server_crashed_after_it_had_received_it() {
    for wire in ["verbs", "tcp"] {
        let text = format!(
            r#"
[cluster]
nodes = 3
profile = "ncosed-2007"
[workload]
kind = "pario"
access = "small"
wire = "{wire}"
servers = 2
files = 4
strip = 512
cell = 512
cells = 4
unit = 2_048
requests = 12
[run]
limit = "600ms"
settle = "5s"
[[faults]]
kind = "restart"
node = 1
rate = "10/s"
lasts = "1ms"
"#
        );
        let scenario = weft_check::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let summary = assert_held(&scenario, 0..6);
        let count = |group, name| summary.metrics.count(group, name);
        assert!(count("protocol", "probes") > 0 && count("calls", "failed") > 0, "{wire}");
    }
}

/// Some thousand executions of a world hold, with a restart of any node at any event, or a disk's call that fails.
fn holds_with_a_restart(world: &str) {
    let kinds = FaultSet::OF_DISKS.with(Outcome::Restart);
    let options =
        Options { faults: 1, kinds: Some(kinds), max_executions: Some(3_000), ..Options::default() };
    let report = explore(world, &Size::default(), &options);
    assert!(report.held(), "{report:?}");
}

#[test]
fn a_server_that_crashes_at_any_event_has_lost_nothing_that_was_answered() {
    holds_with_a_restart("pario-restart");
    holds_with_a_restart("pario-unlink");
}

#[test]
fn a_file_that_is_open_stays_so_whenever_its_server_crashes() {
    holds_with_a_restart("pario-append");
}

#[test]
fn a_file_that_is_renamed_has_one_of_both_names_whenever_its_server_crashes() {
    holds_with_a_restart("pario-rename");
}

#[test]
fn names_in_directories_keep_their_promises_while_files_are_renamed_and_nodes_crash() {
    for storage in [Keep::Disk, Keep::Memory] {
        for mut scenario in [scenario(Access::Small), restarts(Access::Small)] {
            scenario.workload.change::<Files>(|work| {
                let renames = Share::new(0.3).expect("a share");
                (work.storage, work.files, work.directories, work.renames) = (storage, 9, 3, renames);
            });
            let summary = assert_held(&scenario, 0..6);
            assert!(summary.metrics.count("calls", "served") > 1_000, "{storage:?}");
        }
    }
}

#[test]
fn what_was_synced_is_there_and_who_did_not_sync_is_told() {
    let mut told = 0;
    for servers in [1, 2] {
        let mut scenario = restarts(Access::Mix);
        scenario.workload.change::<Files>(|work| {
            (work.servers, work.sync, work.syncs) = (servers, Durable::Asked, 2);
        });
        told += assert_held(&scenario, 0..6).metrics.count("calls", "told");
    }
    assert!(told > 0, "names are all there: it is lost writes that are told of");
}

#[test]
fn large_transfers_are_copied_by_no_processor() {
    let mut scenario = scenario(Access::Bulk);
    scenario.faults.clear();
    scenario.workload.change::<Files>(|work| (work.cells, work.strip) = (64, 4_096));
    let summary = assert_held(&scenario, 0..2);
    assert_eq!(summary.metrics.count("protocol", "copied"), 0);
    assert!(summary.metrics.count("calls", "written") > 1 << 20);
}

#[test]
fn a_home_that_keeps_nothing_gives_out_no_handle_that_it_gave_out_in_another_life() {
    assert_kept(include_str!("handles_of_another_life.toml"), 1414);
}

#[test]
fn a_file_can_be_renamed_and_opened_before_its_maker_is_told_of_it() {
    assert_kept(include_str!("renamed_before_it_is_told.toml"), 6278);
}

/// A close waited for a commit of the directory, and the client told meanwhile what it had open but for that: the close was counted twice,
/// and a file that was open was not.
#[test]
fn a_file_that_is_open_twice_is_so_once_after_a_close_while_its_home_restarts() {
    assert_kept(include_str!("closed_before_it_told.toml"), 111_837);
}

#[test]
fn who_closes_a_file_while_its_server_restarts_is_told_once_of_lost_writes() {
    assert_kept(include_str!("closed_amid_a_restart.toml"), 7305);
}
