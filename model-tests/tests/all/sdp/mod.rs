//! Sockets under accidents, over seeds: every byte arrives once and in order, no stream fails, and the oracles notice what does.

mod calls;

use crate::common::{assert_kept, broken_by, explore, stormy, struck};
use std::collections::BTreeSet;
use weft_check::explore::{Options, Size};
use weft_check::record::Record;
use weft_check::run::RunOptions;
use weft_check::scenario::{FaultKind, Scenario};
use weft_check::seeds::assert_held;
use weft_check::systems::sdp::Sockets;
use weft_check::systems::sdp::history::{Event, What, Why};
use weft_sim::explore::{FaultSet, Outcome};

const WORKLOAD: &str = r#"
kind = "sdp"
bytes = 100_000
reply = 30_000
requests = 15
"#;

fn scenario() -> Scenario {
    stormy(3, WORKLOAD, 800)
}

#[test]
fn every_byte_arrives_once_and_in_order_and_no_stream_fails_while_links_do() {
    for keep in [false, true] {
        let mut scenario = scenario();
        scenario.workload.change::<Sockets>(|work| work.keep = keep);
        let summary = assert_held(&scenario, 0..10);
        assert!(struck(&summary, FaultKind::Cut) > 0, "a fault that hits nothing tests nothing");
        assert!(summary.metrics.count("protocol", "resent") > 0, "messages were lost and sent again");
        assert_eq!(summary.metrics.count("requests", "answered"), 10 * 3 * 15);
        assert_eq!(summary.metrics.count("protocol", "aborts"), 0);
    }
}

#[test]
fn owned_buffers_are_moved_once_and_in_order_while_links_fail_and_answers_are_lost() {
    for (depth, owned_reads) in [(1, true), (4, true), (4, false)] {
        let mut scenario = scenario();
        scenario.workload.change::<Sockets>(|work| {
            (work.zcopy_threshold, work.call) = (1_000, 10_000);
            (work.zcopy_depth, work.owned_reads) = (depth, owned_reads);
        });
        let summary = assert_held(&scenario, 0..6);
        let count = |what| summary.metrics.count("protocol", what);
        assert!(count("zcopy_sent") > 5_000_000, "{}", count("zcopy_sent"));
        assert!(count("repeated") > 0, "operations were cut, and repeated");
        assert_eq!(count("crossed") > 0, owned_reads, "depth {depth}");
    }
}

#[test]
fn buffers_that_are_wanted_back_lose_no_byte_and_give_none_twice() {
    for (depth, owned_reads) in [(1, true), (4, true), (4, false)] {
        let mut scenario = scenario();
        scenario.workload.change::<Sockets>(|work| {
            (work.zcopy_threshold, work.call, work.recall) = (1_000, 10_000, 3);
            (work.zcopy_depth, work.owned_reads) = (depth, owned_reads);
        });
        let summary = assert_held(&scenario, 0..6);
        let count = |what| summary.metrics.count("protocol", what);
        assert!(count("recalled") > 50, "{}", count("recalled"));
        assert_eq!(summary.metrics.count("requests", "answered"), 6 * 3 * 15);
    }
}

#[test]
fn a_recall_beside_duplex_is_refused_in_one_line() {
    let text = include_str!("began_on_two_rails.toml");
    let both = text.replace("recall = 5", "recall = 5\nduplex = true");
    let refused = weft_check::parse(&both).expect_err("both").to_string();
    assert!(refused.contains("recall = 5: 0 beside duplex"), "{refused}");
    assert_eq!(refused.lines().count(), 1);
}

/// `weft fuzz swarm-16-sdp-rails` found it: of two ends of a stream one had begun before the connection went over to another rail,
/// and one after that, which saw no change and read a reset.
#[test]
fn both_ends_of_a_stream_that_is_to_fail_when_its_address_changes_say_that_it_has() {
    let scenario = weft_check::parse(include_str!("began_on_two_rails.toml")).expect("a scenario");
    let summary = assert_held(&scenario, 0..3);
    assert!(summary.metrics.count("requests", "answered") > 0);
}

/// It found this one, too: an end had ended and returned no credits, and the other end's acknowledgements of reads needed some.
#[test]
fn an_end_that_was_told_everything_returns_credits_for_what_is_told_of_reads() {
    let summary = assert_kept(include_str!("modes_of_few_buffers.toml"), 129);
    assert!(summary.metrics.count("requests", "answered") > 600);
}

/// `weft fuzz swarm-16-sdp --seeds 32..33` found it: adapters waited for 131 us, three peers' pieces took longer at one port, and each new
/// connection asked for as much again.
#[test]
fn what_a_port_does_not_carry_in_time_is_asked_for_in_smaller_pieces_and_arrives() {
    let summary = assert_kept(include_str!("more_than_a_port_carries.toml"), 32);
    assert!(summary.metrics.count("protocol", "repeated") > 0);
}

const RESTARTING: &str = include_str!("../../../../scenarios/sockets-restart-8.toml");

#[test]
fn streams_with_a_node_that_crashed_are_reset_all_others_go_on_and_its_next_incarnation_is_answered() {
    for (zcopy_threshold, keep) in [(0, true), (0, false), (4_000, true)] {
        let mut scenario = weft_check::parse(RESTARTING).expect("a scenario");
        scenario.workload.change::<Sockets>(|work| {
            (work.zcopy_threshold, work.keep) = (zcopy_threshold, keep);
        });
        let summary = assert_held(&scenario, 0..4);
        assert!(struck(&summary, FaultKind::Crash) > 10 && struck(&summary, FaultKind::Cut) > 10);
        let count = |what| summary.metrics.count("requests", what);
        assert!(count("failed") > 0, "a crash that resets nothing tests nothing");
        assert!(count("answered") > 4 * 8 * 2 * 60, "what a crash ended is asked for again, and more");
    }
}

#[test]
fn who_has_machines_restart_without_keepalive_is_told_what_to_give_in_one_line() {
    let silent = RESTARTING.replace("keepalive = \"5ms\"", "");
    let refused = weft_check::parse(&silent).expect_err("nobody would learn of it").to_string();
    assert!(
        refused.contains("without a `keepalive` in [workload]") && refused.lines().count() == 1,
        "{refused}"
    );
}

#[test]
fn the_fewest_buffers_and_the_shortest_calls_deadlock_nobody() {
    let mut scenario = scenario();
    scenario.workload.change::<Sockets>(|work| {
        (work.buffers, work.buffer_bytes, work.call) = (4, 100, 37);
        (work.bytes, work.reply, work.clients) = (3_000, 3_000, 3);
    });
    assert_held(&scenario, 0..5);
}

/// The oracles that a run violates in which one node saw something that was not.
fn made_up(what: What) -> Vec<&'static str> {
    broken_by::<Sockets, _>(scenario(), async move |recorder, rt| {
        let client = weft_check::history::ClientId { node: 1, index: 99 };
        let request = weft_check::history::RequestId { client, number: 0 };
        for what in [What::Asks { to: 0, bytes: 24, reply: 1 }, what] {
            recorder.record(Event { at_ns: rt.now().0, node: 1, request, what });
        }
        recorder.record(Event { at_ns: rt.now().0, node: 1, request, what: What::Fails(Why::Reset) });
    })
}

#[test]
fn a_wrong_byte_and_an_error_are_noticed_in_a_running_world() {
    assert_eq!(made_up(What::Took { bytes: 24, intact: true, stall_ns: 0 }), ["unbroken"]);
    assert_eq!(made_up(What::Took { bytes: 24, intact: false, stall_ns: 0 }), ["byte stream", "unbroken"]);
}

fn explored(world: &str, kinds: FaultSet, faults: u32) {
    let options = Options { kinds: Some(kinds), faults, livelock: 400, ..Options::default() };
    let report = explore(world, &Size::default(), &options);
    assert!(report.held() && report.exhaustive, "{world}: {:?}", report.counterexample);
    let unreached: Vec<_> = report.unreached().collect();
    let twice = "a message came twice";
    assert!(unreached.is_empty() || unreached == [twice] && kinds != FaultSet::ALL, "{world}: {unreached:?}");
}

/// As far as a test goes; `weft check` explores them to their ends.
#[test]
fn a_transfer_without_a_copy_and_one_over_two_rails_hold_as_far_as_they_are_explored() {
    let kinds = FaultSet::one(Outcome::Cut).with(Outcome::LoseCompletion).with(Outcome::RequesterGaveUp);
    for (world, faults) in [
        ("sdp-zcopy-read", 0),
        ("sdp-crossing", 0),
        ("sdp-recalls", 0),
        ("sdp-recalls", 1),
        ("sdp-recalls-sinks", 1),
        ("sdp-recalls-wanted", 1),
        ("sdp-zcopy-read", 1),
        ("sdp-crossing", 1),
        ("sdp-rails", 1),
        ("sdp-modes", 0),
        ("sdp-modes", 1),
        ("sdp-modes-on", 0),
        ("sdp-modes-on", 1),
        ("sdp-resizes", 1),
    ] {
        let most = Some(2_500);
        let options =
            Options { kinds: Some(kinds), faults, livelock: 400, max_executions: most, ..Options::default() };
        let report = explore(world, &Size::default(), &options);
        assert!(report.held() && (report.exhaustive || faults > 0), "{world}: {:?}", report.counterexample);
    }
}

#[test]
fn one_fault_of_every_kind_at_every_event_of_a_transfer_is_a_stall_and_no_more() {
    let kinds = FaultSet::TIMELESS.without(Outcome::Crash).without(Outcome::Restart);
    explored("sdp-bcopy", kinds, 1);
    explored("sdp-half-closed", kinds, 1);
    explored("sdp-restarts", kinds.with(Outcome::Restart), 1);
}

#[test]
fn a_node_that_crashes_for_good_at_any_event_leaves_nobody_waiting() {
    let crash = FaultSet::one(Outcome::Crash);
    for world in [
        "sdp-crashes",
        "sdp-crashes-half-closed",
        "sdp-crashes-read",
        "sdp-crashes-write",
        "sdp-crashes-crossing",
    ] {
        let options = Options { kinds: Some(crash), faults: 1, livelock: 400, ..Options::default() };
        let report = explore(world, &Size::default(), &options);
        assert!(report.held() && report.exhaustive, "{world}: {:?}", report.counterexample);
        // No link has failed.
        let of_links = ["a connection was made again", "a message was sent again", "a message came twice"];
        // Of two ends that both have said something, the dead one has left something unacknowledged: that asks already.
        let asks = ["sdp-crashes-half-closed", "sdp-crashes-crossing"].contains(&world);
        let asks = asks.then_some("a peer was asked whether it is there");
        let expected: BTreeSet<_> = of_links.into_iter().chain(asks).collect();
        let found = report.unreached().collect::<BTreeSet<_>>();
        assert!(found.is_subset(&expected), "{world}: {found:?}");
    }
    let survived = FaultSet::TIMELESS.without(Outcome::Restart);
    explored("sdp-crashes-read", survived, 1);
}

/// How many packets carry a request and its answer, if a packet has so many bytes.
fn packets(mtu: Option<u32>) -> u64 {
    let limit = mtu.map(|bytes| format!("[transport]\nmtu = {bytes}\n")).unwrap_or_default();
    let workload = "kind = \"sdp\"\nbytes = 1_000_000\nreply = 1\nrequests = 1\ncall = 100_000\n";
    let text = format!("[cluster]\nnodes = 2\n{limit}[workload]\n{workload}zcopy_threshold = 10_000\n");
    let scenario = weft_check::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let report = weft_check::run(&scenario, 1, RunOptions::default()).expect("it runs");
    assert!(report.held(), "{:?}", report.violations);
    report.packets
}

#[test]
fn a_path_mtu_that_is_asked_for_is_that_of_the_packets_and_no_more_than_the_ports_can() {
    let [small, larger, usual, most] = [Some(256), Some(1_024), None, Some(4_096)].map(packets);
    // Each of two clients writes a million bytes.
    assert!((2 * 3_907..2 * 4_400).contains(&small), "{small} packets of 256 bytes");
    assert!((2 * 977..2 * 1_400).contains(&larger), "{larger} packets of 1,024 bytes");
    assert!(
        usual <= larger && most == usual,
        "{usual} packets by default, {most} where 4,096 bytes are asked for"
    );
}
