//! Links that are cut, one way and both ways, or hold messages.

use crate::cluster::{Cluster, draw, every_seed, ms};

/// Five seconds without a word, two beats and a way.
const NOTICED: u64 = 5_000 + 1_000 + 100;

/// A pause between two attempts, one that was under way, and a join.
const BACK: u64 = 2_000 + 3_000 + 400;

/// A cluster of three, some time after it met.
fn some_time(seed: u64) -> Cluster<'static> {
    let mut cluster = Cluster::met(seed, 3);
    cluster.until(ms(1_000 + draw(seed, 1, 0, 900)));
    cluster
}

/// Node 1 is missed by the others within the time in which silence is noticed.
fn is_missed(cluster: &mut Cluster<'_>) {
    let limit = cluster.sim.elapsed() + ms(NOTICED);
    cluster.until_that(limit, "node 1 is missed", |c| {
        ["n0", "n2"].iter().all(|host| c.members(host).missing(3) == [1])
    });
}

/// Node 1 is back within the time of a pause and a join.
fn is_back(cluster: &mut Cluster<'_>) {
    let limit = cluster.sim.elapsed() + ms(BACK);
    cluster.until_that(limit, "node 1 is back", |c| {
        ["n0", "n1", "n2"]
            .iter()
            .all(|host| c.members(host).coordinator && c.members(host).missing(3).is_empty())
    });
}

/// The lines of the coordinator and of node 1.
fn reads(cluster: &Cluster<'_>, coordinator: &[&str], node: &[&str]) {
    assert_eq!(cluster.since_met(), coordinator);
    assert_eq!(cluster.log.after("n1", "INFO node 1: joined cluster 'blue' at meet:7471"), node);
}

const SILENT: &str = "WARN node 1 was lost: nothing was heard of it for 5 s";
const CLOSED: &str = "WARN node 1 was lost: it closed the connection";
const JOINED: &str = "INFO node 1 joined from 192.168.0.3: 3 of 3 are here";
const AWAY: &str =
    "WARN node 1: the coordinator at meet:7471 was lost: nothing was heard of it for 5 s; trying again";
const BROKE: &str =
    "WARN node 1: the coordinator at meet:7471 was lost: it closed the connection; trying again";
const AGAIN: &str = "INFO node 1: the coordinator at meet:7471 is back";

#[test]
fn a_link_that_is_cut_both_ways_costs_the_membership_until_it_is_mended() {
    every_seed(|seed| {
        let mut cluster = some_time(seed);
        cluster.sim.partition("n1", "meet");
        is_missed(&mut cluster);
        cluster.until(cluster.sim.elapsed() + ms(draw(seed, 2, 1_000, 9_000)));
        cluster.sim.repair("n1", "meet");
        is_back(&mut cluster);
        reads(&cluster, &[SILENT, JOINED], &[AWAY, AGAIN]);
        cluster.finish();
    });
}

#[test]
fn a_node_that_is_not_heard_is_lost_and_learns_it() {
    every_seed(|seed| {
        let mut cluster = some_time(seed);
        cluster.sim.partition_oneway("n1", "meet");
        is_missed(&mut cluster);
        // It still hears: the coordinator closes, and it sees that.
        cluster.until_that(cluster.sim.elapsed() + ms(1_500), "node 1 learns it", |c| {
            !c.members("n1").coordinator
        });
        cluster.until(cluster.sim.elapsed() + ms(draw(seed, 2, 1_000, 6_000)));
        cluster.sim.repair_oneway("n1", "meet");
        is_back(&mut cluster);
        reads(&cluster, &[SILENT, JOINED], &[BROKE, AGAIN]);
        cluster.finish();
    });
}

#[test]
fn a_node_that_does_not_hear_gives_its_connection_up() {
    every_seed(|seed| {
        let mut cluster = some_time(seed);
        cluster.sim.partition_oneway("meet", "n1");
        is_missed(&mut cluster);
        cluster.until(cluster.sim.elapsed() + ms(draw(seed, 2, 1_000, 6_000)));
        cluster.sim.repair_oneway("meet", "n1");
        is_back(&mut cluster);
        let lines = cluster.since_met();
        // Its calls arrive, and their answers do not: one that says nothing for long is a stranger in the log.
        assert_eq!(
            (lines[0].as_str(), lines.last().map(String::as_str)),
            (CLOSED, Some(JOINED)),
            "{lines:#?}"
        );
        let others = lines[1..lines.len() - 1].iter();
        assert!(
            others.clone().all(|line| line.starts_with("WARN turned away 192.168.0.3:")),
            "only its own calls: {lines:#?}"
        );
        assert_eq!(cluster.log.after("n1", "INFO node 1: joined cluster 'blue' at meet:7471"), [AWAY, AGAIN]);
        cluster.finish();
    });
}

#[test]
fn messages_that_are_held_for_less_than_the_silence_cost_nothing() {
    every_seed(|seed| {
        let mut cluster = some_time(seed);
        cluster.sim.hold("n1", "meet");
        cluster.until(cluster.sim.elapsed() + ms(draw(seed, 2, 500, 4_000)));
        cluster.sim.release("n1", "meet");
        cluster.until(cluster.sim.elapsed() + ms(6_000));
        reads(&cluster, &[], &[]);
        cluster.finish();
    });
}

#[test]
fn messages_that_are_held_for_longer_cost_the_membership_and_do_no_harm_when_they_come() {
    every_seed(|seed| {
        let mut cluster = some_time(seed);
        cluster.sim.hold("n1", "meet");
        is_missed(&mut cluster);
        cluster.until(cluster.sim.elapsed() + ms(draw(seed, 2, 500, 4_000)));
        cluster.sim.release("n1", "meet");
        is_back(&mut cluster);
        cluster.until(cluster.sim.elapsed() + ms(6_000));
        assert_eq!(cluster.members("n0").missing(3), Vec::<u32>::new());
        let lines = cluster.since_met();
        let joined = lines.iter().filter(|line| *line == JOINED).count();
        assert_eq!((lines[0].as_str(), joined), (SILENT, 1), "{lines:#?}");
        cluster.finish();
    });
}

#[test]
fn a_coordinator_that_is_cut_off_from_all_has_all_again_when_the_links_are_mended() {
    every_seed(|seed| {
        let mut cluster = some_time(seed);
        let hosts = ["n0", "n1", "n2"];
        hosts.iter().for_each(|host| cluster.sim.partition(*host, "meet"));
        cluster.until_that(cluster.sim.elapsed() + ms(NOTICED), "all see it", |c| {
            hosts.iter().all(|host| !c.members(host).coordinator)
        });
        for host in hosts {
            assert_eq!(cluster.members(host).missing(3), Vec::<u32>::new(), "{host} keeps what it knew");
        }
        cluster.until(cluster.sim.elapsed() + ms(draw(seed, 2, 1_000, 9_000)));
        hosts.iter().for_each(|host| cluster.sim.repair(*host, "meet"));
        let limit = cluster.sim.elapsed() + ms(BACK);
        cluster.until_that(limit, "all are back", |c| {
            hosts.iter().all(|host| c.members(host).coordinator && c.members(host).missing(3).is_empty())
        });
        cluster.finish();
    });
}
