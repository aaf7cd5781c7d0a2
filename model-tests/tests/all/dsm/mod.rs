//! Shared memory, over seeds and explored: programs come to what sequential consistency allows, and to all of that.

mod dropped;

use crate::common::{self, assert_kept, broken_by, reached, stormy, struck};
use weft_check::explore::{Options, Report, Size};
use weft_check::history::{ClientId, RequestId};
use weft_check::metrics::Metrics;
use weft_check::oracle::Oracles;
use weft_check::record::Record;
use weft_check::run::RunOptions;
use weft_check::scenario::{FaultKind, Scenario};
use weft_check::seeds::assert_held;
use weft_check::systems::dsm::SharedMemory;
use weft_check::systems::dsm::apps::Application;
use weft_check::systems::dsm::history::{At, Event, Op, Spent, What, Why};
use weft_check::systems::dsm::oracles::DsmOracles;
use weft_sim::explore::{FaultSet, Outcome};
use weft_verbs::Nanos;

const WORKLOAD: &str = r#"
kind = "dsm"
threads = 2
minipages = 4
words = 2
reads = 0.5
barrier_every = 20
requests = 400
think = { min = "0us", max = "20us" }
"#;

fn scenario() -> Scenario {
    stormy(4, WORKLOAD, 3000)
}

#[test]
fn memory_is_sequentially_consistent_while_links_fail_and_answers_are_lost() {
    let summary = assert_held(&scenario(), 0..12);
    assert!(struck(&summary, FaultKind::Cut) > 0 && struck(&summary, FaultKind::LoseCompletion) > 0);
    for count in ["transfers", "invalidations", "upgrades", "joined", "orders_waited", "reconnects"] {
        assert!(summary.metrics.count("protocol", count) > 0, "{count}");
    }
}

/// The oracles that a run violates in which one thread saw something that was not.
fn made_up(what: What) -> Vec<&'static str> {
    broken_by::<SharedMemory, _>(scenario(), async move |recorder, rt| {
        // Late, so that the words have a past.
        rt.sleep(weft_verbs::Nanos::from_millis(2)).await;
        let request = RequestId { client: ClientId { node: 1, index: 99 }, number: 0 };
        let asks = match what {
            What::Accessed { word, op, .. } => What::Accesses { word, op },
            _ => What::Enters(1_000),
        };
        for what in [asks, what] {
            recorder.record(Event { at_ns: rt.now().0, request, what });
        }
    })
}

#[test]
fn an_old_value_a_second_writer_and_a_barrier_left_too_soon_are_noticed_in_a_running_world() {
    let saw = |op, place| What::Accessed { word: 0, op, found: 0, place, hops: None };
    for wrong in [saw(Op::Load, At(0, u32::MAX)), saw(Op::Store(7), At(1, 1)), saw(Op::Load, At(9, 1))] {
        assert_eq!(made_up(wrong), ["sequential consistency"], "{wrong:?}");
    }
    assert_eq!(made_up(What::Leaves(1_000)), ["barrier"]);
}

fn explore(name: &str, size: Size, faults: u32, kinds: FaultSet) -> Report {
    common::explore(name, &size, &Options { faults, kinds: Some(kinds), livelock: 400, ..Options::default() })
}

/// The worlds that a debug build explores in seconds.
const LITMUS: [&str; 18] = [
    "dsm-sb",
    "dsm-mp",
    "dsm-lb",
    "dsm-s",
    "dsm-r",
    "dsm-2+2w",
    "dsm-corr",
    "dsm-cowr",
    "dsm-two-writers",
    "dsm-false-sharing",
    "dsm-upgrade",
    "dsm-barrier",
    "dsm-claims",
    "dsm-claims-cross",
    "dsm-claims-in-turn",
    "dsm-claims-of-one",
    "dsm-prefetch",
    "dsm-free",
];

#[test]
fn litmus_tests_have_the_outcomes_of_sequential_consistency_and_each_of_them() {
    for name in LITMUS {
        let report = explore(name, Size::default(), 0, FaultSet::NONE);
        assert!(report.held() && report.exhaustive, "{name}");
        let missing: Vec<&str> =
            report.unreached().filter(|branch| branch.starts_with("threads see")).collect();
        assert!(missing.is_empty(), "{name} never comes to: {missing:?}");
    }
}

/// Where two threads of a node run in turn, and where a minipage is asked back at once.
#[test]
fn threads_of_one_node_share_its_requests_and_grants_stay_until_they_had_them() {
    for (name, branch) in
        [("dsm-joins", "an access joined a request"), ("dsm-robbed", "an order waited for an access")]
    {
        let report = explore(name, Size::default(), 0, FaultSet::NONE);
        assert!(report.held() && report.exhaustive, "{name}");
        assert!(reached(&report, branch), "{name}: {branch}");
    }
}

#[test]
fn one_fault_of_any_kind_at_any_point_changes_no_outcome() {
    for name in ["dsm-two-writers", "dsm-corr"] {
        let report = explore(name, Size::new([("words", "apart")]), 1, FaultSet::ALL);
        assert!(report.held() && report.exhaustive, "{name}");
    }
}

#[test]
fn data_and_the_message_behind_them_come_together_whatever_breaks_once() {
    let report = explore("place", Size::default(), 1, FaultSet::ALL);
    assert!(report.held() && report.exhaustive);
    assert!(reached(&report, "a connection was made again") && reached(&report, "a message was sent again"));
}

/// What was taken back comes whole or not at all: `weft fuzz swarm-16-dsm-members` found that the message came alone.
#[test]
fn a_message_does_not_come_without_its_data_when_both_are_taken_back() {
    let report = explore("place-struck", Size::default(), 1, FaultSet::ALL);
    assert!(report.held() && report.exhaustive);
    assert!(reached(&report, "a message did not come") && reached(&report, "a message came all the same"));
}

/// Whether the connection stands on the memory's rail, on another one, or goes over amid a write and its message.
#[test]
fn data_come_with_their_message_over_any_rail() {
    let mut size = Size::default();
    size.set("rails", 2);
    let report = explore("place", size, 1, FaultSet::ALL);
    assert!(report.held() && report.exhaustive);
    assert!(reached(&report, "a message carried the data"));
}

/// `weft fuzz swarm-16-dsm` found it (seed 120): a write was repeated from the minipage itself, whose requestor had it by then. Its next
/// version came by way of another node, before the adapter had the acknowledgement of the repetition.
#[test]
fn what_a_node_sends_again_it_does_not_read_from_memory_that_may_change() {
    assert_kept(include_str!("written_while_repeated.toml"), 120);
}

/// `weft fuzz swarm-16-dsm-rails-members` found it (seed 18): a node registered the buffers of long messages one by one, and took longer to
/// connect than the others waited for a sign of life, each time that it was started again.
#[test]
fn a_node_connects_to_all_others_before_they_give_it_up() {
    assert_kept(include_str!("connects_for_longer_than_a_patience.toml"), 18);
}

/// `weft fuzz swarm-16-dsm-rails` found it (seed 48460): an answer to a node's own read took away the grant that a store of another thread
/// waited for, and the minipage was shared without that store.
#[test]
fn a_read_of_its_own_takes_no_grant_to_write_from_a_node() {
    assert_kept(include_str!("read_by_who_may_write.toml"), 48_460);
}

/// `weft fuzz swarm-16-dsm-members` found them: a notice came without its data to a node that had not heard of a death (seed 724), and what was
/// given up two epochs ago came back although another copy had been written since (seed 72).
#[test]
fn no_older_version_is_found_after_deaths() {
    assert_kept(include_str!("notice_without_its_data.toml"), 724);
    assert_kept(include_str!("given_up_two_epochs_ago.toml"), 72);
}

/// `weft fuzz swarm-16-dsm-members` found it (seed 876): two nodes were in the next view of the same nodes before they had heard that the memory
/// could begin, and nobody told them.
#[test]
fn who_missed_the_beginning_in_a_view_is_told_of_it_in_the_next() {
    assert_kept(include_str!("begun_in_the_view_before.toml"), 876);
}

/// `weft fuzz swarm-16-dsm-members` found it (seeds 56010 and 60479): two nodes had voted for a view and never heard that it had begun; they were left
/// out, and let in by one who had come in since. The others barred them, and nobody told them anything any more.
#[test]
fn who_was_left_out_of_a_view_that_it_never_heard_of_is_not_let_in_again() {
    assert_kept(include_str!("let_in_again.toml"), 56_010);
}

/// `weft fuzz swarm-16-dsm-members` found it (seed 93613): one node had been refused by an earlier boot of another one's, and that one had expelled an
/// earlier boot of the first. Both took each other for gone, were in one view, and neither asked for a connection.
#[test]
fn two_members_of_one_view_reach_each_other_whatever_became_of_earlier_boots_of_them() {
    assert_kept(include_str!("gone_for_each_other.toml"), 93_613);
}

/// A small one: two nodes read, and the second takes the data from the first.
#[test]
fn a_reader_that_takes_its_data_from_another_one_sees_what_that_one_sees() {
    let mut size = Size::new([("threads", "x?,x?"), ("nodes", "0,1")]);
    size.set("manager", 2);
    for faults in [0, 1] {
        let report = explore("dsm-pull", size.clone(), faults, FaultSet::one(Outcome::Cut));
        assert!(report.held() && report.exhaustive, "{faults} faults");
        assert!(reached(&report, "a minipage was pulled"));
    }
}

#[test]
fn a_claim_keeps_threads_of_its_own_node_away_and_lets_go_when_it_is_given_up() {
    for name in ["dsm-claims-at-home", "dsm-claims-to-read", "dsm-claims-given-up"] {
        let report = explore(name, Size::default(), 0, FaultSet::NONE);
        assert!(report.held() && report.exhaustive, "{name}");
    }
}

/// Both report it to its manager, which is one of the two.
#[test]
fn a_book_that_is_made_anew_has_all_who_have_a_copy() {
    let report = explore("dsm-crash-shared", Size::default(), 0, FaultSet::NONE);
    assert!(report.held() && report.exhaustive);
}

#[test]
fn a_death_is_told_of_once_and_by_a_node_that_outlives_it() {
    let builds = |name, threads| common::entry(name).build(&Size::new([("threads", threads)])).is_ok();
    assert!(builds("dsm-crash-shared", "d.x?,x?") && builds("dsm-crash-shared", "x?,x?"));
    assert!(!builds("dsm-crash-shared", "x?.d,d.x?"), "who would tell of it?");
    assert!(!builds("dsm-crash", "x+.d,x+"), "each of them may be the one that dies");
    assert!(!builds("dsm-joins", "x+.d,x?,x+"), "nobody dies there");
}

/// Each on four nodes with two threads each, and with pulls, while links fail; from one seed with the least grain that it takes.
#[test]
fn applications_come_to_what_a_sequential_run_comes_to_while_links_fail() {
    for application in Application::ALL {
        let name = application.name();
        let work =
            format!("kind = \"dsm\"\napplication = \"{name}\"\nthreads = 2\npull = true\nunit = \"200ns\"");
        assert_held(&stormy(4, &format!("{work}\ngrain = {}", application.grain()), 3000), 1..2);
        let summary = assert_held(&stormy(4, &work, 3000), 0..1);
        assert!(summary.metrics.count("protocol", "transfers") > 0, "{application:?}");
        assert!(summary.metrics.count("application", "faults") > 0, "{application:?}");
    }
}

/// A machine whose operating system registers no memory when the run begins, and later, once more: no thread comes away without its access.
#[test]
fn threads_whose_machine_registers_no_memory_for_a_while_get_what_they_ask_for_then() {
    for work in [
        "threads = 2\nminipages = 16\nclaims = 0.3\nduration = \"20ms\"\nthink = \"20us\"",
        "application = \"sor\"\nthreads = 2",
    ] {
        let text = format!(
            "title = \"a machine without memory\"\n[cluster]\nnodes = 4\n[workload]\nkind = \"dsm\"\n{work}\n[run]\nlimit = \"200ms\"\n\
             [[faults]]\nkind = \"no-memory\"\nat = \"0us\"\nnode = 1\nlasts = \"3ms\"\n\
             [[faults]]\nkind = \"no-memory\"\nat = \"6ms\"\nnode = \"random\"\nlasts = \"3ms\"\n"
        );
        let scenario = weft_check::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let summary = assert_held(&scenario, 0..4);
        assert!(summary.metrics.count("protocol", "transfers") > 0, "{work}");
        assert_eq!(summary.metrics.count("requests", "failed"), 0, "{work}");
    }
}

/// A thread gives a part that is not its own.
#[test]
fn a_wrong_answer_is_noticed() {
    let mut oracles = DsmOracles::new(8, 1).of(Application::Is, Application::Is.small());
    let request = RequestId { client: ClientId { node: 0, index: 0 }, number: 0 };
    let mut broken = Vec::new();
    let part = Application::Is.sequential(Application::Is.small()).value.wrapping_add(1);
    for what in [What::Runs, What::Ran { part, spent: Spent::default() }] {
        let event = Event { at_ns: 0, request, what };
        oracles.observe(&event, &mut |violation| broken.push(violation.oracle));
    }
    assert_eq!(broken, ["answer"]);
}

/// Of a small cluster one node dies, and comes back.
fn mortal(work: &str) -> Scenario {
    let text = format!(
        r#"
title = "shared memory of which a node dies"
[cluster]
nodes = 4
members = {{ lease = "5ms", drift = "100us", patience = "6ms" }}
[transport]
ack_timeout = 4
retries = 2
[workload]
kind = "dsm"
{work}
[run]
limit = "200ms"
[[faults]]
kind = "crash"
at = "25ms"
back = "20ms"
[[faults]]
kind = "cut"
rate = "200/s"
between = "random"
lasts = {{ min = "200us", max = "2ms" }}
"#
    );
    weft_check::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn when_a_node_dies_calls_fail_by_the_name_of_what_died_and_nothing_older_is_found() {
    let work = "threads = 2\nminipages = 16\nclaims = 0.1\nduration = \"60ms\"\nthink = { min = \"0us\", max = \"60us\" }";
    let summary = assert_held(&mortal(work), 0..8);
    for (group, count) in [("requests", "lost"), ("requests", "failed"), ("protocol", "epochs")] {
        assert!(summary.metrics.count(group, count) > 0, "{count}");
    }
}

/// `weft fuzz swarm-16-dsm-members` found it (seed 12): the memory began with the second boot of a node that others had not met yet, and
/// their requests to it were dropped with the first one's messages.
#[test]
fn what_is_said_to_a_node_that_restarted_waits_until_it_has_connected() {
    assert_kept(include_str!("begun_before_a_node_was_met.toml"), 12);
}

/// `weft fuzz swarm-16-dsm-members` found them: a node that restarted began a memory by itself while 15 others went on with the one that its
/// earlier boot had a part in (seed 171), and a memory began beside two nodes whose own had ended, which answered nobody (seed 60).
#[test]
fn no_memory_begins_while_one_who_lives_has_another_one_or_before_all_are_there() {
    assert_kept(include_str!("begun_beside_another_memory.toml"), 171);
    assert_kept(include_str!("begun_without_two_nodes.toml"), 60);
}

/// `weft fuzz swarm-16-dsm-members` found it (seed 481): a pull that a manager ordered in one epoch began in the next one, where nothing kept its
/// source from giving the minipage up.
#[test]
fn what_a_manager_orders_in_one_epoch_is_not_begun_in_the_next() {
    assert_kept(include_str!("pulled_in_the_next_epoch.toml"), 481);
}

/// Threads that live end by the name of the node that died, or of what is lost with it.
#[test]
fn programs_end_by_name_when_a_node_dies() {
    for application in [Application::Sor, Application::Water, Application::Is] {
        let name = application.name();
        let work = format!("application = \"{name}\"\nthreads = 2\nrounds = 1000\nunit = \"2us\"");
        let summary = assert_held(&mortal(&work), 0..2);
        let [lost, died] = ["lost", "died"].map(|count| summary.metrics.count("application", count));
        assert!(lost + died > 0, "{name}: {lost} lost, {died} died");
        assert_eq!(summary.metrics.count("application", "threads"), 0, "{name}");
        // Nobody has ended, so there is no time that it took.
        let one = weft_check::run(&mortal(&work), 0, RunOptions::default()).expect("it runs");
        assert!(
            !has(&one.metrics, "time") && !has(&one.metrics, "speed"),
            "{name}: {:?}",
            one.metrics.groups
        );
    }
}

fn has(metrics: &Metrics, group: &str) -> bool {
    metrics.groups.iter().any(|of| of.key == group)
}

/// The second one's threads end by the death of a node, and none of them at the result.
#[test]
fn a_sum_over_runs_of_an_application_has_no_speed_and_no_mean_and_is_the_same_in_any_order() {
    let work = |rounds| format!("application = \"sor\"\nthreads = 2\nrounds = {rounds}\nunit = \"2us\"");
    let run = |rounds| weft_check::run(&mortal(&work(rounds)), 0, RunOptions::default()).expect("it runs");
    let [ended, none] = [1, 1_000].map(run);
    assert!(has(&ended.metrics, "speed") && has(&ended.metrics, "time"), "{:?}", ended.metrics.groups);
    let sum = |reports: [&weft_check::run::Report; 2]| {
        let mut sum = Metrics::default();
        reports.into_iter().for_each(|report| sum.add(&report.metrics));
        sum
    };
    let both = sum([&ended, &none]);
    assert_eq!(both, sum([&none, &ended]));
    assert_eq!((both.count("application", "threads"), both.groups[0].key), (8, "application"));
    assert!(!has(&both, "speed") && !has(&both, "time"), "{:?}", both.groups);
}

/// The oracles that a history breaks in which these things happen one after the other.
fn broken_in(events: &[(u32, What)]) -> Vec<&'static str> {
    let mut oracles = DsmOracles::new(8, 3).among(3);
    let mut broken = Vec::new();
    for (number, (node, what)) in (0..).zip(events) {
        let request = RequestId { client: ClientId { node: *node, index: 0 }, number: number / 2 };
        let event = Event { at_ns: number.into(), request, what: *what };
        oracles.observe(&event, &mut |violation| broken.push(violation.oracle));
    }
    // Nothing of this has to have come to its end.
    let ended = oracles.finish(Nanos::ZERO, Nanos::ZERO).into_iter().map(|violation| violation.oracle);
    broken.extend(ended.filter(|oracle| *oracle == "by name"));
    broken
}

#[test]
fn what_goes_wrong_when_a_node_dies_is_noticed() {
    let asks = |op| What::Accesses { word: 0, op };
    let did = |op, place| What::Accessed { word: 0, op, found: 0, place, hops: None };
    let (add, load) = (Op::Add(1), Op::Load);
    let dies = [(2, What::Crashed), (0, What::Outlives(2)), (1, What::Outlives(2)), (1, What::Begun(0))];
    let stored = [(2, asks(add)), (2, did(add, At(1, 1)))];
    let after = |then: [(u32, What); 2]| broken_in(&[&stored[..], &dies, &then].concat());
    assert_eq!(after([(0, asks(load)), (0, What::Failed(Why::Lost(0)))]), [""; 0]);
    // It died with its node, and an older one is found.
    assert_eq!(after([(0, asks(load)), (0, did(load, At(0, u32::MAX)))]), ["sequential consistency"]);
    let lost = [(0, asks(load)), (0, What::Failed(Why::Lost(0))), (1, asks(load)), (1, did(load, At(2, 0)))];
    assert_eq!(broken_in(&[&dies[..], &lost].concat()), ["sequential consistency"]);
    // Nobody has died.
    for why in [Why::Lost(0), Why::Died(2), Why::Ended, Why::Closed, Why::Other] {
        assert_eq!(broken_in(&[(0, asks(load)), (0, What::Failed(why))]), ["by name"], "{why:?}");
    }
    // The memory of a node that lives has ended for no reason, though another one has died.
    let closed = |node| [(node, asks(load)), (node, What::Failed(Why::Closed))];
    assert_eq!(broken_in(&[&dies[..], &closed(0)].concat()), ["by name"]);
    assert_eq!(broken_in(&[&dies[..2], &closed(2)].concat()), [""; 0]);
    assert_eq!(broken_in(&[&dies[1..3], &closed(2)].concat()), [""; 0]);
    // One that is left out alive finds what was there when it was; one that is not must not.
    let (stores, finds) = (Op::Store(7), did(load, At(0, u32::MAX)));
    let old = [(0, asks(stores)), (0, did(stores, At(1, 1))), (2, asks(load)), (2, finds)];
    assert_eq!(broken_in(&[&dies[1..3], &old].concat()), [""; 0]);
    assert_eq!(broken_in(&old), ["sequential consistency"]);
}

#[test]
fn each_memory_is_judged_by_itself_and_one_that_begins_beside_another_one_is_noticed() {
    let asks = |op| What::Accesses { word: 0, op };
    let did = |op, place| What::Accessed { word: 0, op, found: 0, place, hops: None };
    let (add, load) = (Op::Add(1), Op::Load);
    let first = [(0, What::Waits), (0, What::Begun(1)), (0, asks(add)), (0, did(add, At(1, 1)))];
    let gone = [(0, What::Crashed), (0, What::Waits)];
    // Its call waits for the memory that begins.
    let second = [(0, asks(load)), (0, What::Begun(2)), (0, did(load, At(0, u32::MAX)))];
    assert_eq!(broken_in(&[&first[..], &gone, &second].concat()), [""; 0]);
    assert_eq!(broken_in(&[&first[..], &second[..1], &second[2..]].concat()), ["sequential consistency"]);
    let beside = |name| [(1, What::Waits), (1, What::Begun(name))];
    assert_eq!(broken_in(&[&first[..], &beside(1)].concat()), [""; 0]);
    assert_eq!(broken_in(&[&first[..], &beside(2)].concat()), ["one memory"]);
    assert_eq!(broken_in(&[&first[..], &[(0, What::LeftOut)], &beside(2)].concat()), [""; 0]);
}
