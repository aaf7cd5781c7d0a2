//! The lock service under accidents, over seeds: every promise is kept, and the accidents really happen.

use super::scenarios::{calm, shipped, stormy};
use crate::common::assert_kept;
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;
use weft_check::run::{RunError, RunOptions};
use weft_check::scenario::{Connect, FaultKind, Scenario, Share, WaitStyle};
use weft_check::seeds::assert_held;
use weft_check::system::System;
use weft_check::systems::locks::Locks;
use weft_protocols::locks::Scheme;

#[test]
fn without_accidents_every_patient_request_is_granted() {
    for scheme in Scheme::ALL {
        for wait in [WaitStyle::Poll, WaitStyle::Notify] {
            let mut scenario = calm(scheme);
            scenario.cluster.wait = wait;
            scenario.workload.change::<Locks>(|work| work.deadline = None);
            scenario.workload.change::<Locks>(|work| work.tries = Default::default());
            let summary = assert_held(&scenario, 0..4);
            assert_eq!(summary.metrics.count("requests", "made"), 4 * 4 * 2 * 20);
            assert_eq!(
                summary.metrics.count("requests", "granted"),
                summary.metrics.count("requests", "made"),
                "{scheme} {wait:?}"
            );
            assert_eq!(summary.metrics.count("protocol", "unknown_outcomes"), 0);
        }
    }
}

#[test]
fn every_promise_is_kept_under_accidents_by_either_scheme_in_either_wake_up_style() {
    for scheme in Scheme::ALL {
        for wait in [WaitStyle::Poll, WaitStyle::Notify] {
            let mut scenario = stormy(scheme);
            scenario.cluster.wait = wait;
            let summary = assert_held(&scenario, 0..25);
            assert_eq!(summary.metrics.count("requests", "unended"), 0);
            assert!(
                summary.metrics.count("requests", "timed_out") > 0,
                "no deadline fired under {scheme} {wait:?}"
            );
            assert!(
                summary.metrics.count("protocol", "reconnects") > 0,
                "no connection broke under {scheme} {wait:?}"
            );
        }
    }
}

#[test]
fn every_promise_is_kept_where_holds_are_downgraded_in_the_middle_of_accidents() {
    for scheme in Scheme::ALL {
        for wait in [WaitStyle::Poll, WaitStyle::Notify] {
            let mut scenario = stormy(scheme);
            scenario.cluster.wait = wait;
            scenario.workload.change::<Locks>(|work| work.downgrades = Share::new(0.7).expect("a share"));
            let summary = assert_held(&scenario, 0..25);
            let (granted, downgrades) = (
                summary.metrics.count("requests", "granted"),
                summary.metrics.count("protocol", "downgrades"),
            );
            match scheme.shares() {
                true => assert!(downgrades > granted / 4, "{scheme} {wait:?}: {downgrades} of {granted}"),
                false => assert_eq!(downgrades, 0, "{scheme}"),
            }
        }
    }
}

/// Faults stop after the limit; clients go on, and none of their requests is judged before it had the time that it may take.
#[test]
fn clients_that_need_longer_than_the_limit_and_the_time_to_settle_make_all_their_requests() {
    for (requests, think, hold) in [(20, "100ms", "1us"), (20, "0us", "50ms"), (2, "5s", "1us")] {
        let text = format!(
            r#"
            [cluster]
            nodes = 2
            [workload]
            kind = "locks"
            scheme = "ncosed"
            locks = 1
            clients = 1
            requests = {requests}
            think = "{think}"
            hold = "{hold}"
            [run]
            limit = "10ms"
            settle = "500ms"
            "#
        );
        let scenario = weft_check::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        let summary = assert_held(&scenario, 0..2);
        assert_eq!(summary.metrics.count("requests", "made"), 2 * 2 * requests, "{think} {hold}");
        assert!(summary.longest_ns > 1_000_000_000, "{think} {hold}: they take longer than that");
    }
}

#[test]
fn scenarios_drawn_at_random_hold() {
    for seed in 0..150 {
        for scheme in Scheme::ALL {
            let system = weft_check::systems::find(Locks::KIND).expect("it is registered");
            assert_held(&system.swarm(seed, None, &scheme.to_string()), seed..seed + 1);
        }
    }
}

#[test]
fn the_accidents_strike_operations_in_flight() {
    let summary = assert_held(&stormy(Scheme::Ncosed), 100..120);
    let lazy: Vec<FaultKind> =
        summary.faults.values().filter(|fault| fault.struck == 0).map(|fault| fault.kind).collect();
    assert_eq!(lazy, [], "these struck nothing in flight");
    assert_eq!(summary.faults.len(), 9, "every kind of accident was injected");
    assert!(
        summary.metrics.count("protocol", "unknown_outcomes") > 0,
        "no atomic's outcome was ever unknown"
    );
    assert!(summary.metrics.count("protocol", "rebuilds") > 0, "no lock was ever rebuilt");
}

#[test]
fn the_shipped_scenarios_hold() {
    for name in ["lock-service-16.toml", "lock-service-16-srsl.toml", "present-day-16.toml", "quick-3.toml"] {
        let summary = assert_held(&shipped(name), 0..2);
        assert!(summary.runs_struck > 0, "{name}: no fault struck an operation in flight");
    }
}

#[test]
fn nodes_crash_and_come_back_and_what_they_held_is_granted_on() {
    for name in ["lock-crash-16-srsl.toml", "lock-crash-16-ncosed.toml"] {
        let summary = assert_held(&shipped(name), 0..2);
        let crashes = summary.faults.get(&FaultKind::Crash);
        assert!(crashes.is_some_and(|fault| fault.injected > 0), "{name}: {:?}", summary.faults);
    }
}

/// A run's event log.
fn log_of(scenario: &Scenario) -> String {
    #[derive(Clone, Default)]
    struct Book(Rc<RefCell<Vec<u8>>>);
    impl std::io::Write for Book {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let book = Book::default();
    let options = RunOptions { log: Some(Box::new(book.clone())), ..RunOptions::default() };
    let report = weft_check::run(scenario, 1, options).expect("it runs");
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    String::from_utf8(book.0.take()).expect("a text")
}

#[test]
fn machines_that_connect_out_of_band_need_no_connection_manager_until_a_connection_breaks() {
    let asked = |log: &str| log.lines().any(|line| line.split_whitespace().any(|word| word == "cm"));
    for scheme in Scheme::ALL {
        let mut scenario = calm(scheme);
        assert!(asked(&log_of(&scenario)), "the log tells of the connection manager");
        scenario.cluster.connect = Connect::Oob;
        assert!(!asked(&log_of(&scenario)), "{scheme}");
        let mut scenario = stormy(scheme);
        scenario.cluster.connect = Connect::Oob;
        let summary = assert_held(&scenario, 0..10);
        assert!(
            summary.metrics.count("requests", "granted") > 0
                && summary.metrics.count("protocol", "reconnects") > 0,
            "{scheme}"
        );
    }
}

#[test]
fn a_machine_alone_can_lock() {
    for scheme in Scheme::ALL {
        let mut scenario = calm(scheme);
        scenario.cluster.nodes = 1;
        assert_held(&scenario, 0..2);
    }
}

#[test]
fn a_workload_by_duration_ends() {
    let mut scenario = calm(Scheme::Ncosed);
    scenario.workload.change::<Locks>(|work| work.requests = None);
    scenario.workload.change::<Locks>(|work| work.duration = Some("2ms".parse().expect("a time")));
    let summary = assert_held(&scenario, 0..1);
    assert!(summary.metrics.count("requests", "made") > 100, "{:?}", summary.metrics);
    assert!(summary.longest_ns >= 2_000_000);
}

#[test]
fn a_run_can_be_broken_off() {
    let mut looks = 0;
    let mut watch = |_: &weft_check::run::Progress| {
        looks += 1;
        if looks == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = RunOptions { progress: Some(&mut watch), ..RunOptions::default() };
    let result = weft_check::run(&shipped("quick-3.toml"), 0, options);
    assert!(matches!(result, Err(RunError::Interrupted { .. })), "{result:?}");
}

/// `weft fuzz swarm-16-srsl-members` found it (seed 3): one message at a time for each peer, and leases of 2 ms. Two ends that both had
/// one under way waited for each other's delayed acknowledgement, so that renewals were asked for sooner than they were sent; all of
/// them were kept, the locks' messages came behind them for ever, and no answer was to the latest.
#[test]
fn locks_among_members_are_granted_where_one_message_at_a_time_is_kept_for_a_peer() {
    let summary = assert_kept(include_str!("little_room_for_renewals.toml"), 3);
    assert!(summary.metrics.count("requests", "granted") > 0);
}

/// `weft fuzz swarm-16-ncosed-members` found it (seed 4): cuts left out half of the nodes alive, and the rest was no majority. A node that
/// is out is started again once faults have stopped.
#[test]
fn nodes_that_were_left_out_alive_are_started_again_once_faults_have_stopped() {
    assert_kept(include_str!("half_are_left_out.toml"), 4);
}

/// `weft fuzz swarm-16-srsl-members` found it (seed 49): a home that restarted was not reached, and words of this view waited for it beside
/// older ones, which were lost with its last incarnation. All were said again, and so those of this view twice. Now nothing is said to an
/// incarnation that is gone.
#[test]
fn a_home_that_restarted_is_told_once_what_is_so() {
    assert_kept(include_str!("said_to_one_that_is_gone.toml"), 49);
}

/// `weft fuzz swarm-16-srsl-members` found it (seed 222): a member gave its view up, since most of it had restarted, was told of that view by
/// one that did not know, and began it again, with nothing of what had been said in it.
#[test]
fn a_view_that_was_given_up_is_not_begun_again() {
    assert_kept(include_str!("a_view_that_was_given_up.toml"), 222);
}

/// `weft fuzz swarm-16-srsl-members` found it (seed 136): a member gave a lineage up, was taken in by a later view of it, and left out of
/// the next. It did not believe that, since it had given the lineage up, and asked on for ever.
#[test]
fn one_that_came_back_to_a_lineage_that_it_gave_up_learns_that_it_is_out() {
    assert_kept(include_str!("back_in_a_lineage_given_up.toml"), 136);
}

/// `weft fuzz swarm-16-ncosed-members` found it (seed 222): a requester told the one before it in the queue, which had restarted, that it
/// waited. The connection was with the earlier incarnation, and the message was lost with it.
#[test]
fn what_a_requester_tells_another_is_not_said_to_an_incarnation_that_is_gone() {
    assert_kept(include_str!("said_by_one_requester_to_another.toml"), 222);
}

/// `weft fuzz swarm-16-ncosed-members` found it (seed 280): a home was left out when all was done, and nobody had anything to tell it.
/// What it kept was of a view that was over, and no leak.
#[test]
fn what_a_node_keeps_that_was_left_out_is_no_leak() {
    assert_kept(include_str!("left_out_and_never_told.toml"), 280);
}

/// `weft fuzz swarm-srsl-members-exact` found it (seed 3677): a home's connections broke at its own end while the others left it out, and it
/// had nothing to say to them.
#[test]
fn a_member_that_is_left_out_hears_of_it_though_it_has_nothing_to_say() {
    assert_kept(include_str!("left_out_with_nothing_to_say.toml"), 3677);
}

/// `weft fuzz swarm-ncosed-members-exact` found it (seed 2623): a member waited for the next incarnation of another to ask for a connection,
/// since it had left out the last one. That had asked, in vain, and left it out.
#[test]
fn a_member_asks_the_next_incarnation_of_one_that_it_left_out() {
    assert_kept(include_str!("asks_the_next_incarnation.toml"), 2623);
}

/// `weft fuzz swarm-srsl-members-exact` found it (seed 7082): a member's own vote decided the view that left it out, and its requests had ended
/// with that before anybody else learned of it. What explains them was looked for too early.
#[test]
fn a_member_may_know_before_all_others_that_it_is_out() {
    assert_kept(include_str!("left_out_by_its_own_vote.toml"), 7082);
}

/// `weft fuzz swarm-srsl-members-exact` found it (seed 8385): the only node of a cluster was slow, and had computed ahead of the moment at which
/// it crashed. What it had granted after that moment seemed to be held beside what its next incarnation granted.
#[test]
fn a_node_that_crashes_has_done_nothing_after_that() {
    assert_kept(include_str!("struck_while_it_computes.toml"), 8385);
}

/// `weft fuzz swarm-16-srsl-members` found it (seed 1220): a node was left out when the hold of a lock had just been used up. Its lock asked for
/// the lease again and again, without any time passing, and never heard that the hold was revoked.
#[test]
fn a_lock_of_a_node_that_is_left_out_waits_until_it_hears_so() {
    assert_kept(include_str!("used_up_when_left_out.toml"), 1220);
}

/// `weft fuzz swarm-16-srsl-members` found it (seed 11338): a newcomer had accepted a list in a cold start, was let into the view of another one, and waited for
/// ever to hear what became of its own.
#[test]
fn who_accepted_a_list_comes_into_a_view_that_acts_without_it() {
    assert_kept(include_str!("bound_for_ever.toml"), 11_338);
}

/// `weft fuzz swarm-16-srsl-members` found it (seed 1423): of twelve members of a view six acted in it and four had restarted, which one of the other two had heard
/// before it was told of the view, and forgotten. It asked those that were no more, and all sixteen waited.
#[test]
fn who_asks_whether_a_view_acts_knows_whose_nodes_have_restarted() {
    assert_kept(include_str!("asks_those_that_are_no_more.toml"), 1423);
}

/// A review found it: a home's last report of one view and the next view came at the same time, and the timer of the first one's fence took what
/// it saw when it first ran for its own. One was granted a lock then that another one, whom the next view left out, held under its lease.
#[test]
fn a_fence_is_lifted_in_its_own_view_alone() {
    assert_kept(include_str!("a_fence_of_the_view_before.toml"), 57);
}
