//! The door of a daemon, under turmoil: its node's systems are asked there, whatever becomes of the coordinator.

use crate::calls::{answered, config, echo};
use crate::cluster::{Cluster, draw, every_seed, ms, secret};
use crate::network::Simulated;
use std::time::Duration;
use tokio::time::sleep;
use weft_control::ask::{Callee, Caller, Meeting, status};
use weft_control::daemon::config::Config;
use weft_control::message::{CALL, Call};
use weft_control::net::Endpoint;
use weft_control::secret::Secret;
use weft_control::timing::Timing;

const PORT: u16 = 7_472;

fn with_door() -> Config {
    let mut config = config();
    config.node.door = Some(Endpoint::new("0.0.0.0", PORT));
    config
}

/// Three daemons that have met. The second one has a door, and what runs on it echoes.
fn met(seed: u64) -> Cluster<'static> {
    let mut cluster = Cluster::new(seed, 3);
    cluster.daemon("meet", 0, config());
    cluster.daemon_with("n1", 1, with_door(), echo);
    cluster.daemon_with("n2", 2, config(), echo);
    cluster.until_that(ms(1_000), "all have met", |c| {
        c.log.of("meet").contains(&"INFO all 3 nodes have met".to_string())
    });
    cluster.until(ms(1_000 + draw(seed, 1, 0, 700)));
    cluster
}

fn meeting(name: &str) -> Meeting {
    let at = Callee::Daemon(Endpoint::new("n1", PORT));
    Meeting { at, secret: secret(), cluster: Some(name.to_string()) }
}

/// What a client is told at the door.
fn told(cluster: &mut Cluster<'_>, node: Option<u32>, body: &[u8], within: u64) -> String {
    let host = format!("client-{}", cluster.sim.elapsed().as_millis());
    let call = Call { node, system: "echo".to_string(), body: body.to_vec() };
    let ask = async |net: Simulated, call| {
        answered(Caller::new(net, meeting("blue"), Timing::default()).call(call).await)
    };
    cluster.program(&host, move |net| ask(net, call.clone()));
    let limit = cluster.sim.elapsed() + ms(within);
    cluster.until_that(limit, "the client is told", |c| !c.outcomes(&host).is_empty());
    cluster.outcomes(&host).remove(0)
}

const REFUSED: &str = "the daemon at n1:7472 refused: ";

#[test]
fn a_node_answers_at_its_own_door_while_the_coordinator_is_away_and_also_after_that() {
    every_seed(|seed| {
        let mut cluster = met(seed);
        assert_eq!(told(&mut cluster, None, b"before", 500), "1: before");
        cluster.sim.crash("meet");
        cluster.until(cluster.sim.elapsed() + ms(draw(seed, 2, 0, 20_000)));
        assert_eq!(told(&mut cluster, Some(1), b"amid", 500), "1: amid");
        cluster.sim.bounce("meet");
        cluster.until(cluster.sim.elapsed() + ms(draw(seed, 3, 0, 5_000)));
        assert_eq!(told(&mut cluster, None, b"after", 500), "1: after");
        assert_eq!(cluster.outcomes("n1"), ["ready"]);
        cluster.finish();
    });
}

#[test]
fn a_door_is_of_one_node_and_one_cluster_and_says_so() {
    every_seed(|seed| {
        let mut cluster = met(seed);
        assert_eq!(told(&mut cluster, Some(2), b"x", 500), format!("{REFUSED}node 2 is not here"));
        let long = told(&mut cluster, None, &vec![0; CALL + 1], 1_000);
        assert_eq!(
            long,
            format!("{REFUSED}a call to a system has 102401 bytes, and at most 102400 are taken")
        );
        cluster.program("others", |net| async move {
            let call = Call { node: None, system: "echo".to_string(), body: vec![] };
            let other = answered(
                Caller::new(net.clone(), meeting("red"), Timing::default()).call(call.clone()).await,
            );
            let stranger = Meeting { secret: Secret::of(b"another secret"), ..meeting("blue") };
            let stranger = answered(Caller::new(net.clone(), stranger, Timing::default()).call(call).await);
            let asked = status(&net, &meeting("blue"), &Timing::default()).await;
            let asked = asked.map_or_else(|why| why.to_string(), |_| "told".to_string());
            format!("{other}\n{stranger}\n{asked}")
        });
        let limit = cluster.sim.elapsed() + ms(5_000);
        cluster.until_that(limit, "they are told", |c| !c.outcomes("others").is_empty());
        let told = cluster.outcomes("others").remove(0);
        let lines: Vec<&str> = told.lines().collect();
        assert!(
            lines[0]
                .starts_with(&format!("{REFUSED}this is cluster 'blue', and the caller belongs to 'red'")),
            "{told}"
        );
        assert!(
            lines[1].contains("the secrets differ") && lines[2].starts_with("the daemon at n1:7472: "),
            "{told}"
        );
        let log = cluster.log.of("n1");
        let said = |what: &str| {
            log.iter().filter(|line| line.contains("WARN door: turned away") && line.contains(what)).count()
        };
        assert_eq!(said("the secrets differ"), 1, "{log:#?}");
        assert!(said("asks for the state of the cluster, which the coordinator has") > 0, "{log:#?}");
        cluster.finish();
    });
}

#[test]
fn a_node_that_is_not_in_the_cluster_yet_is_not_here_at_its_door_either() {
    every_seed(|seed| {
        let mut cluster = Cluster::new(seed, 3);
        cluster.daemon_with("n1", 1, with_door(), echo);
        cluster.until(ms(draw(seed, 1, 100, 2_000)));
        assert_eq!(told(&mut cluster, None, b"x", 500), format!("{REFUSED}node 1 is not here"));
        cluster.finish();
    });
}

#[test]
fn who_asks_at_a_door_again_does_so_over_the_connection_that_it_has_until_that_was_idle_for_long() {
    every_seed(|seed| {
        let mut cluster = met(seed);
        // Some of the pauses end as the daemon lets the connection go.
        let pauses: Vec<Duration> = (0..20).map(|each| ms(draw(seed, each, 4_950, 5_050))).collect();
        cluster.program("client", move |net| {
            let pauses = pauses.clone();
            async move {
                let timing = Timing { idle: ms(20_000), ..Timing::default() };
                let caller = Caller::new(net, meeting("blue"), timing);
                let call = || Call { node: None, system: "echo".to_string(), body: b"count".to_vec() };
                let mut told = vec![answered(caller.call(call()).await)];
                for pause in pauses {
                    sleep(pause).await;
                    told.push(answered(caller.call(call()).await));
                }
                told.join(" ")
            }
        });
        let limit = cluster.sim.elapsed() + ms(110_000);
        cluster.until_that(limit, "the client is told", |c| !c.outcomes("client").is_empty());
        let each: Vec<String> = (1..=21).map(|number| format!("1: {number}")).collect();
        assert_eq!(cluster.outcomes("client"), [each.join(" ")], "each is asked once");
        cluster.finish();
    });
}

#[test]
fn who_waits_at_a_door_hears_that_somebody_is_there_and_is_told_in_time_that_there_is_no_answer() {
    every_seed(|seed| {
        let mut cluster = met(seed);
        let line = "node 1 did not answer within 30 s: whether it does what was asked is not known";
        assert_eq!(told(&mut cluster, None, b"think", 31_000), format!("{REFUSED}{line}"));
        cluster.finish();
    });
}

#[test]
fn a_door_that_other_machines_reach_needs_a_secret() {
    let net = weft_control::net::Tcp;
    let options = |secret| weft_control::daemon::Options {
        rank: 1,
        secret,
        program: "0.1.0".to_string(),
        scenario: String::new(),
        blob: vec![],
        timing: Timing::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let ended = runtime.block_on(weft_control::daemon::run(
        &net,
        &with_door(),
        options(Secret::none()),
        weft_control::daemon::systems::none,
        || (),
        std::future::pending(),
    ));
    let why = ended.expect_err("everybody could ask");
    assert!(why.is_final(), "{why}");
    assert!(why.to_string().contains("0.0.0.0:7472 can be reached from other machines"), "{why}");
}
