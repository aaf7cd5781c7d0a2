//! Nodes and clients that do not belong: each is told why in one line, the coordinator logs the same line, and the
//! cluster lives on.

use crate::cluster::{Cluster, draw, every_seed, ms};
use weft_control::member::Config;
use weft_control::net::Endpoint;
use weft_control::secret::Secret;

/// A fourth host calls a cluster of three that has met; within `limit` it knows why it is not in, and nothing changed.
fn turned_away(rank: u32, tweak: impl Fn(&mut Config) + Clone + 'static, line: &str, log: &str) {
    every_seed(|seed| {
        let mut cluster = Cluster::met(seed, 3);
        cluster.until(ms(1_000 + draw(seed, 1, 0, 700)));
        cluster.node("other", rank, tweak.clone());
        let limit = cluster.sim.elapsed() + ms(2_500);
        cluster.until_that(limit, "the caller is told", |cluster| !cluster.outcomes("other").is_empty());
        assert_eq!(cluster.outcomes("other"), [line]);
        assert_eq!(cluster.log.of("other"), Vec::<String>::new(), "an error is returned, not logged");
        cluster.until(ms(6_000));
        // A stranger's port is turmoil's to choose.
        let logged: Vec<String> =
            cluster.since_met().iter().map(|line| line.replace(":49152:", ":")).collect();
        assert_eq!(logged, [log]);
        for host in ["n0", "n1", "n2"] {
            assert_eq!(cluster.members(host).missing(3), Vec::<u32>::new());
        }
        cluster.finish();
    });
}

#[test]
fn a_rank_that_is_given_twice_stays_with_its_first_holder() {
    turned_away(
        1,
        |_| {},
        "the coordinator at meet:7471 refused: rank 1 is taken by 192.168.0.3, which is alive: give this node a rank of \
         its own",
        "WARN refused a node at 192.168.0.5: rank 1 is taken by 192.168.0.3, which is alive: give this node a rank of its \
         own",
    );
}

#[test]
fn a_node_of_another_version_is_refused() {
    turned_away(
        1,
        |config| config.join.program = "0.2.0".into(),
        "the coordinator at meet:7471 refused: the coordinator is of version 0.1.0, and the caller of 0.2.0: install the \
         same one on all machines",
        "WARN refused a node at 192.168.0.5: the coordinator is of version 0.1.0, and the caller of 0.2.0: install the \
         same one on all machines",
    );
}

#[test]
fn a_node_of_another_scenario_is_refused() {
    turned_away(
        1,
        |config| config.join.scenario = "beef".into(),
        "the coordinator at meet:7471 refused: the coordinator and the caller do not run the same (5eed and \
         beef): give all machines the same file and options",
        "WARN refused a node at 192.168.0.5: the coordinator and the caller do not run the same (5eed and \
         beef): give all machines the same file and options",
    );
}

#[test]
fn a_node_of_another_cluster_is_refused() {
    turned_away(
        1,
        |config| config.join.cluster = "green".into(),
        "the coordinator at meet:7471 refused: this is cluster 'blue', and the caller belongs to 'green': is the address \
         right?",
        "WARN refused a node at 192.168.0.5: this is cluster 'blue', and the caller belongs to 'green': is the address \
         right?",
    );
}

#[test]
fn a_rank_that_there_is_not_is_refused() {
    turned_away(
        3,
        |_| {},
        "the coordinator at meet:7471 refused: there is no rank 3: the cluster's ranks are 0 to 2",
        "WARN refused a node at 192.168.0.5: there is no rank 3: the cluster's ranks are 0 to 2",
    );
}

#[test]
fn a_node_with_another_secret_is_turned_away() {
    turned_away(
        1,
        |config| config.secret = Secret::of(b"a secret of another cluster, as long"),
        "the coordinator at meet:7471: the secrets differ: give both ends the same file, or neither one",
        "WARN turned away 192.168.0.5: the secrets differ: give both ends the same file, or neither one",
    );
}

#[test]
fn a_node_without_a_secret_is_turned_away() {
    turned_away(
        1,
        |config| config.secret = Secret::none(),
        "the coordinator at meet:7471: the secrets differ: give both ends the same file, or neither one",
        "WARN turned away 192.168.0.5: the secrets differ: give both ends the same file, or neither one",
    );
}

#[test]
fn a_port_in_use_is_said_and_who_holds_it_goes_on() {
    every_seed(|seed| {
        let mut cluster = Cluster::met(seed, 2);
        cluster.program("meet-2", |net| async move {
            use weft_control::coordinator::{Config, Coordinator};
            let config = Config {
                listen: Endpoint::new("0.0.0.0", weft_control::PORT),
                terms: crate::cluster::terms(2),
                secret: crate::cluster::secret(),
                timing: Default::default(),
            };
            let _first = Coordinator::bind(&net, config.clone()).await.expect("the port is free");
            Coordinator::bind(&net, config).await.map(drop).expect_err("it is taken").to_string()
        });
        cluster.until(ms(2_000));
        // Turmoil's error for a port in use is the address; the system's is "Address already in use (os error 98)".
        assert_eq!(cluster.outcomes("meet-2"), ["cannot listen on 0.0.0.0:7471: 0.0.0.0:7471"]);
        assert_eq!(cluster.since_met(), Vec::<String>::new());
        cluster.finish();
    });
}

#[test]
fn a_port_that_others_reach_is_not_opened_without_a_secret() {
    let mut cluster = Cluster::new(0, 2);
    cluster.coordinator("meet", |config| config.secret = Secret::none());
    cluster.until(ms(100));
    assert_eq!(
        cluster.outcomes("meet"),
        [
            "0.0.0.0:7471 can be reached from other machines, and there is no secret: give one, or listen on 127.0.0.1"
        ]
    );
    cluster.finish();
}
