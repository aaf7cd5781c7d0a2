//! Nodes come late, leave, die, are booted again, and are asked for.

use crate::cluster::{Cluster, Kept, draw, every_seed, every_seed_of, ms, secret};
use weft_control::ask::{Callee, Meeting, status};
use weft_control::message::{Presence, Status};
use weft_control::net::Endpoint;
use weft_control::secret::Secret;
use weft_control::timing::Timing;

#[test]
fn the_last_node_may_join_a_minute_late() {
    every_seed_of(4, |seed| {
        let mut cluster = Cluster::new(seed, 3);
        cluster.coordinator("meet", |_| {});
        cluster.node("n0", 0, |_| {});
        cluster.node("n1", 1, |_| {});
        cluster.until(ms(60_000 + draw(seed, 1, 0, 500)));
        for host in ["n0", "n1"] {
            assert_eq!(cluster.members(host).missing(3), [2]);
        }
        cluster.node("n2", 2, |_| {});
        let limit = cluster.sim.elapsed() + ms(300);
        cluster.until_that(limit, "all have met", |c| {
            ["n0", "n1", "n2"].iter().all(|host| c.members(host).missing(3).is_empty())
        });
        let members = cluster.members("n0");
        assert_eq!(members.entries[&2].blob, [2; 32], "what it says of its adapters came along");
        assert_eq!(members.entries[&2].address.to_string(), "192.168.0.4");
        let log = cluster.log.of("meet");
        assert_eq!(log[0], "INFO cluster 'blue' of 3 nodes meets at 0.0.0.0:7471");
        assert_eq!(
            log[3..],
            ["INFO node 2 joined from 192.168.0.4: 3 of 3 are here", "INFO all 3 nodes have met"]
        );
        cluster.finish();
    });
}

#[test]
fn a_node_that_leaves_is_told_apart_from_one_whose_process_dies() {
    every_seed(|seed| {
        let mut cluster = Cluster::met(seed, 4);
        cluster.until(ms(1_000 + draw(seed, 1, 0, 600)));
        cluster.tell_to_leave("n1");
        cluster.until(cluster.sim.elapsed() + ms(200));
        cluster.sim.crash("n2");
        cluster.until(cluster.sim.elapsed() + ms(200));
        for host in ["n0", "n3"] {
            let members = cluster.members(host);
            assert_eq!(members.entries[&1].presence, Presence::Left);
            assert_eq!(members.entries[&2].presence, Presence::Lost("it closed the connection".into()));
        }
        assert_eq!(
            cluster.since_met(),
            ["INFO node 1 left", "WARN node 2 was lost: it closed the connection"]
        );
        cluster.finish();
    });
}

#[test]
fn a_machine_that_loses_power_and_boots_again_has_its_rank_within_two_seconds() {
    every_seed(|seed| {
        let mut cluster = Cluster::met(seed, 3);
        cluster.until(ms(1_000 + draw(seed, 1, 0, 600)));
        // Without a word: the link goes before the program does.
        cluster.sim.partition("n1", "meet");
        cluster.sim.crash("n1");
        cluster.until(cluster.sim.elapsed() + ms(draw(seed, 2, 500, 2_500)));
        cluster.sim.repair("n1", "meet");
        cluster.sim.bounce("n1");
        let before = cluster.members("n0").entries[&1].incarnation;
        let limit = cluster.sim.elapsed() + ms(2_000);
        cluster.until_that(limit, "it is in again", |c| {
            ["n0", "n2"].iter().all(|host| c.members(host).entries[&1].incarnation != before)
        });
        let lines = cluster.since_met();
        // A machine that is up again resets connections that it does not know, if a beat reaches it first.
        let lost = [
            "WARN node 1 was lost: it did not answer while another process claimed its rank",
            "WARN node 1 was lost: the connection broke (connection reset)",
        ];
        assert!(lost.contains(&lines[0].as_str()), "{lines:#?}");
        assert_eq!(lines[1..], ["INFO node 1 joined from 192.168.0.3: 3 of 3 are here"]);
        cluster.finish();
    });
}

#[test]
fn a_process_that_is_killed_and_started_again_is_another_incarnation() {
    every_seed(|seed| {
        let mut cluster = Cluster::met(seed, 3);
        let before = cluster.members("n0").entries[&1].incarnation;
        cluster.until(ms(1_000 + draw(seed, 1, 0, 600)));
        cluster.sim.crash("n1");
        cluster.until(cluster.sim.elapsed() + ms(draw(seed, 2, 0, 300)));
        cluster.sim.bounce("n1");
        let limit = cluster.sim.elapsed() + ms(1_500);
        cluster.until_that(limit, "it is in again", |c| {
            ["n0", "n2"].iter().all(|host| c.members(host).entries[&1].incarnation != before)
        });
        for host in ["n0", "n2"] {
            assert_eq!(cluster.members(host).missing(3), Vec::<u32>::new());
        }
        cluster.finish();
    });
}

#[test]
fn a_member_may_leave_amid_a_join() {
    every_seed(|seed| {
        let mut cluster = Cluster::new(seed, 3);
        cluster.coordinator("meet", |_| {});
        cluster.node("n0", 0, |_| {});
        cluster.node("n1", 1, |_| {});
        cluster.until(ms(1_000));
        cluster.node("n2", 2, |_| {});
        // A join takes up to 200 ms here.
        cluster.until(ms(1_000 + draw(seed, 1, 0, 250)));
        cluster.tell_to_leave("n1");
        cluster.until(ms(2_000));
        assert_eq!(cluster.outcomes("n1"), ["left"]);
        for host in ["n0", "n2"] {
            assert_eq!(cluster.members(host).missing(3), [1], "{host}");
        }
        cluster.finish();
    });
}

/// A client that asks at once; what it was told.
fn ask(cluster: &mut Cluster<'_>, host: &str, secret: Secret) -> Kept<Option<Status>> {
    ask_of(cluster, host, secret, None)
}

/// The same of a cluster of that name.
fn ask_of(
    cluster: &mut Cluster<'_>,
    host: &str,
    secret: Secret,
    name: Option<&'static str>,
) -> Kept<Option<Status>> {
    let kept = Kept::default();
    let told = kept.clone();
    cluster.program(host, move |net| {
        let (secret, told, cluster) = (secret.clone(), told.clone(), name.map(str::to_string));
        async move {
            let at = Callee::Coordinator(Endpoint::new("meet", weft_control::PORT));
            match status(&net, &Meeting { at, secret, cluster }, &Timing::default()).await {
                Ok(status) => {
                    *told.lock().expect("nobody panics with it") = Some(status);
                    "told".to_string()
                }
                Err(why) => why.to_string(),
            }
        }
    });
    kept
}

#[test]
fn a_client_that_means_another_cluster_is_not_answered() {
    every_seed(|seed| {
        let mut cluster = Cluster::met(seed, 1);
        cluster.until(ms(1_000));
        let told = ask_of(&mut cluster, "client", secret(), Some("red"));
        cluster.until(cluster.sim.elapsed() + ms(300));
        assert!(told.lock().expect("nobody panics with it").is_none());
        let line = "this is cluster 'blue', and the caller belongs to 'red': is the address right?";
        assert_eq!(cluster.outcomes("client"), [format!("the coordinator at meet:7471 refused: {line}")]);
        let told = ask_of(&mut cluster, "other", secret(), Some("blue"));
        cluster.until(cluster.sim.elapsed() + ms(300));
        assert!(told.lock().expect("nobody panics with it").is_some());
        cluster.finish();
    });
}

#[test]
fn clients_are_told_who_is_there_and_what_they_report() {
    every_seed(|seed| {
        let mut cluster = Cluster::met(seed, 3);
        cluster.tell_to_leave("n1");
        cluster.until(ms(1_500 + draw(seed, 1, 0, 600)));
        let told = ask(&mut cluster, "client", secret());
        cluster.until(cluster.sim.elapsed() + ms(300));
        let status = told.lock().expect("nobody panics with it").clone().expect("it is answered");
        assert_eq!((status.cluster.as_str(), status.program.as_str()), ("blue", "0.1.0"));
        let presence: Vec<_> = status.members.iter().map(|member| member.presence.clone()).collect();
        assert_eq!(presence, [Some(Presence::Present), Some(Presence::Left), Some(Presence::Present)]);
        assert_eq!(status.members[2].report.systems["test"]["rank"], "2");
        assert!(status.members[0].heard_ms <= 600, "a beat and its way: {} ms", status.members[0].heard_ms);
        assert_eq!((status.counts.joined, status.counts.left, status.counts.lost), (3, 1, 0));
        cluster.finish();
    });
}

#[test]
fn a_client_without_the_secret_is_told_nothing() {
    every_seed(|seed| {
        let mut cluster = Cluster::met(seed, 2);
        let told = ask(&mut cluster, "client", Secret::none());
        cluster.until(ms(1_500));
        assert_eq!(*told.lock().expect("nobody panics with it"), None);
        assert_eq!(
            cluster.outcomes("client"),
            [
                "the coordinator at meet:7471: the secrets differ: give both ends the same file, or neither one"
            ]
        );
        cluster.finish();
    });
}
