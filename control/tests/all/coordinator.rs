//! The coordinator is late, dies, comes back, or ends.

use crate::cluster::{Cluster, draw, every_seed, ms};
use std::cell::Cell;
use std::time::Duration;
use weft_control::coordinator::Config;
use weft_control::message::Presence;

#[test]
fn nodes_wait_for_a_coordinator_that_starts_later() {
    every_seed(|seed| {
        let mut cluster = Cluster::new(seed, 2);
        cluster.coordinator("meet", |_| {});
        cluster.node("n0", 0, |_| {});
        cluster.node("n1", 1, |_| {});
        cluster.sim.crash("meet");
        cluster.until(ms(draw(seed, 1, 3_000, 9_000)));
        cluster.sim.bounce("meet");
        // An attempt that is under way, a pause, and a join.
        let limit = cluster.sim.elapsed() + ms(3_000 + 2_000 + 400);
        cluster.until_that(limit, "all have met", |c| {
            ["n0", "n1"].iter().all(|host| c.members(host).missing(2).is_empty())
        });
        cluster.finish();
    });
}

#[test]
fn a_node_whose_meeting_place_has_an_address_that_is_silent_is_in_by_the_next_one() {
    every_seed(|seed| {
        let mut cluster = Cluster::new(seed, 1);
        // A machine on which nothing runs is off to turmoil.
        cluster.program("old", |_| async { String::new() });
        cluster.coordinator("meet", |_| {});
        cluster.node("n0", 0, |config| config.at.host = "old,meet".to_string());
        // What an address may take, and a join.
        cluster.until_that(ms(3_000 + 400), "it is in", |c| c.members("n0").missing(1).is_empty());
        cluster.finish();
    });
}

/// A node waits for a coordinator that there is not, for 30 seconds; what it is told.
fn gives_up(seed: u64, machine_is_up: bool) -> String {
    let mut cluster = Cluster::new(seed, 1);
    cluster.program("meet", move |_| async move {
        // A machine on which nothing runs is off to turmoil: it does not even refuse.
        if machine_is_up {
            tokio::time::sleep(Duration::from_secs(40)).await;
        }
        String::new()
    });
    cluster.node("n0", 0, |_| {});
    cluster.until(ms(33_500));
    let outcomes = cluster.outcomes("n0");
    assert_eq!(outcomes.len(), 1, "{outcomes:?}");
    cluster.finish();
    outcomes[0].clone()
}

#[test]
fn a_node_gives_up_on_a_coordinator_that_does_not_listen() {
    every_seed(|seed| {
        // Turmoil's error for a port that nobody listens on is the address.
        let line = "the coordinator at meet:7471 cannot be reached: 192.168.0.1:7471; tried for 30 s";
        assert_eq!(gives_up(seed, true), line);
    });
}

#[test]
fn a_node_gives_up_on_a_machine_that_is_off() {
    every_seed(|seed| {
        let line = "the coordinator at meet:7471 cannot be reached: no answer within 3 s; tried for 30 s";
        assert_eq!(gives_up(seed, false), line);
    });
}

/// The coordinator's process is killed some time after all have met, and started again three seconds later.
fn killed(seed: u64) -> Cluster<'static> {
    let mut cluster = Cluster::met(seed, 3);
    cluster.until(ms(1_000 + draw(seed, 1, 0, 900)));
    cluster.sim.crash("meet");
    cluster.until(cluster.sim.elapsed() + ms(3_000));
    cluster
}

#[test]
fn a_coordinator_that_dies_and_comes_back_costs_no_member() {
    every_seed(|seed| {
        let mut cluster = killed(seed);
        for host in ["n0", "n1", "n2"] {
            let members = cluster.members(host);
            assert!(!members.coordinator, "{host} sees that the coordinator is away");
            assert_eq!(members.missing(3), Vec::<u32>::new(), "and keeps what it knew");
        }
        cluster.sim.bounce("meet");
        let limit = cluster.sim.elapsed() + ms(2_600);
        cluster.until_that(limit, "all are back", |c| {
            ["n0", "n1", "n2"].iter().all(|host| c.members(host).coordinator)
        });
        cluster.until(cluster.sim.elapsed() + ms(12_000));
        for (rank, host) in ["n0", "n1", "n2"].iter().enumerate() {
            assert_eq!(cluster.members(host).missing(3), Vec::<u32>::new());
            assert_eq!(
                cluster.log.of(host),
                [
                    format!("INFO node {rank}: joined cluster 'blue' at meet:7471"),
                    format!(
                        "WARN node {rank}: the coordinator at meet:7471 was lost: it closed the connection; trying again"
                    ),
                    format!("INFO node {rank}: the coordinator at meet:7471 is back"),
                ]
            );
        }
        let met = cluster.log.of("meet").iter().filter(|line| *line == "INFO all 3 nodes have met").count();
        assert_eq!(met, 2, "the second coordinator says it too");
        cluster.finish();
    });
}

#[test]
fn a_node_that_dies_with_the_coordinator_is_missed_by_the_others() {
    every_seed(|seed| {
        let mut cluster = killed(seed);
        cluster.sim.crash("n2");
        cluster.sim.bounce("meet");
        // Two silences after each node is back, which takes one pause at most.
        let limit = cluster.sim.elapsed() + ms(10_000 + 2_600);
        let lost = Presence::Lost("it did not come to the new coordinator".into());
        cluster.until_that(limit, "the others miss it", |c| {
            let misses = |host: &&str| c.members(host).entries[&2].presence == lost;
            ["n0", "n1"].iter().all(misses)
        });
        cluster.finish();
    });
}

#[test]
fn a_node_that_begins_with_a_new_coordinator_learns_of_one_that_is_gone_for_good() {
    every_seed(|seed| {
        let mut cluster = Cluster::met(seed, 3);
        // Before the coordinator, or with it.
        cluster.sim.crash("n2");
        cluster.until(cluster.sim.elapsed() + ms(draw(seed, 1, 0, 900)));
        ["meet", "n0"].iter().for_each(|host| cluster.sim.crash(*host));
        cluster.until(cluster.sim.elapsed() + ms(3_000));
        ["meet", "n0"].iter().for_each(|host| cluster.sim.bounce(*host));
        // Two silences after node 1 is back, which takes an attempt that was under way, a pause and a join.
        let limit = cluster.sim.elapsed() + ms(10_000 + 3_000 + 2_000 + 400);
        let lost = Presence::Lost("it did not come to the new coordinator".into());
        cluster.until_that(limit, "node 0 knows node 2", |c| {
            c.members("n0").entries.get(&2).is_some_and(|entry| entry.presence == lost)
        });
        assert_eq!(cluster.members("n0").entries[&2].blob, [2; 32], "and where its adapters were");
        let line = "WARN node 2 was lost: it did not come to the new coordinator".to_string();
        assert!(cluster.log.of("meet").contains(&line), "{:#?}", cluster.log.of("meet"));
        cluster.sim.bounce("n2");
        let limit = cluster.sim.elapsed() + ms(1_500);
        cluster.until_that(limit, "it comes all the same", |c| {
            ["n0", "n1"].iter().all(|host| c.members(host).missing(3).is_empty())
        });
        cluster.finish();
    });
}

/// Node 1 alone knows of node 2, and its connection is dead already as it tells.
#[test]
fn a_coordinator_learns_of_one_that_is_gone_for_good_though_the_link_was_cut_as_it_was_told() {
    every_seed(|seed| {
        let mut cluster = Cluster::met(seed, 3);
        ["n2", "meet", "n0"].iter().for_each(|host| cluster.sim.crash(*host));
        cluster.until(cluster.sim.elapsed() + ms(3_000 + draw(seed, 1, 0, 900)));
        ["meet", "n0"].iter().for_each(|host| cluster.sim.bounce(*host));
        let limit = cluster.sim.elapsed() + ms(3_000 + 2_000 + 400);
        cluster.until_that(limit, "node 1 is back", |c| c.members("n1").coordinator);
        // It tells two silences later, and finds one silence after the cut that nobody hears it.
        cluster.until(cluster.sim.elapsed() + ms(7_000));
        cluster.sim.partition("n1", "meet");
        cluster.until(cluster.sim.elapsed() + ms(8_000));
        assert!(!cluster.members("n1").coordinator && !cluster.members("n0").entries.contains_key(&2));
        cluster.sim.repair("n1", "meet");
        // An attempt that was under way, a pause and a join; then a silence.
        let limit = cluster.sim.elapsed() + ms(3_000 + 2_000 + 400 + 5_000 + 400);
        let lost = Presence::Lost("it did not come to the new coordinator".into());
        cluster.until_that(limit, "node 0 knows node 2", |c| {
            c.members("n0").entries.get(&2).is_some_and(|entry| entry.presence == lost)
        });
        let line = "WARN node 2 was lost: it did not come to the new coordinator";
        cluster.until(cluster.sim.elapsed() + ms(11_000));
        assert_eq!(cluster.log.of("meet").iter().filter(|said| *said == line).count(), 1);
        cluster.finish();
    });
}

/// A coordinator of another version, scenario, size or name.
fn change(seed: u64, config: &mut Config) {
    match seed % 4 {
        0 => config.terms.program = "0.2.0".into(),
        1 => config.terms.scenario = "beef".into(),
        2 => config.terms.nodes = 4,
        _ => config.terms.cluster = "green".into(),
    }
}

#[test]
fn a_coordinator_that_refuses_its_nodes_costs_no_member_once_it_is_as_it_was() {
    every_seed(|seed| {
        let hosts = ["n0", "n1", "n2"];
        let (mut cluster, starts) = (Cluster::new(seed, 3), Cell::new(0));
        cluster.coordinator("meet", move |config| {
            starts.set(starts.get() + 1);
            if starts.get() == 2 {
                change(seed, config);
            }
        });
        for (rank, host) in hosts.iter().enumerate() {
            cluster.node(host, rank as u32, |_| {});
        }
        cluster.until(ms(1_000));
        for (pause, time) in [(draw(seed, 1, 0, 900), 30_000), (draw(seed, 2, 0, 900), 0)] {
            cluster.sim.crash("meet");
            cluster.until(cluster.sim.elapsed() + ms(pause));
            cluster.sim.bounce("meet");
            cluster.until(cluster.sim.elapsed() + ms(time));
        }
        for host in hosts {
            assert_eq!(cluster.outcomes(host), [""; 0], "{host} lives on");
            let log = cluster.log.of(host);
            let refused = log.iter().filter(|line| line.contains("the coordinator at meet:7471 refused: "));
            assert_eq!(refused.count(), 1, "it is said once: {log:#?}");
            assert_eq!(cluster.members(host).missing(3), Vec::<u32>::new(), "it keeps what it knew");
        }
        let log = cluster.log.of("meet");
        let refused = log.iter().filter(|line| line.starts_with("WARN refused a node at ")).count();
        assert_eq!(refused, 3, "once of each, though they come back every ten seconds: {log:#?}");
        // The pause after a refusal, an attempt that was under way, another pause, and a join.
        let limit = cluster.sim.elapsed() + ms(10_000 + 3_000 + 2_000 + 400);
        cluster.until_that(limit, "all are back", |c| {
            hosts.iter().all(|host| c.members(host).coordinator && c.members(host).missing(3).is_empty())
        });
        cluster.finish();
    });
}

#[test]
fn a_coordinator_that_ends_tells_all() {
    every_seed(|seed| {
        let mut cluster = Cluster::met(seed, 3);
        cluster.until(ms(1_000 + draw(seed, 1, 0, 900)));
        cluster.tell_to_leave("meet");
        let limit = cluster.sim.elapsed() + ms(500);
        cluster.until_that(limit, "all have ended", |c| {
            ["meet", "n0", "n1", "n2"].iter().all(|host| c.outcomes(host).len() == 1)
        });
        assert_eq!(cluster.outcomes("n1"), ["the coordinator at meet:7471 has ended the cluster"]);
        assert_eq!(cluster.since_met(), ["INFO cluster 'blue' has ended"]);
        let line = "INFO node 1: joined cluster 'blue' at meet:7471";
        assert_eq!(
            cluster.log.after("n1", line),
            ["ERROR node 1: not in the cluster any more: the coordinator at meet:7471 has ended the cluster"]
        );
        cluster.finish();
    });
}

#[test]
fn a_node_may_leave_while_the_coordinator_is_away() {
    every_seed(|seed| {
        let mut cluster = killed(seed);
        cluster.tell_to_leave("n1");
        let limit = cluster.sim.elapsed() + ms(100);
        cluster.until_that(limit, "it has left", |c| !c.outcomes("n1").is_empty());
        assert_eq!(
            cluster.log.of("n1").last().expect("a line"),
            "INFO node 1: left while the coordinator was away"
        );
        cluster.sim.bounce("meet");
        cluster.until(cluster.sim.elapsed() + Duration::from_secs(3));
        cluster.finish();
    });
}
