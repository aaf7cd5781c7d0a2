//! The transport by itself, under accidents and restarts, over seeds.

use crate::common::{broken_by, struck};
use weft_check::record::Record;
use weft_check::run::RunOptions;
use weft_check::scenario::{FaultKind, Scenario};
use weft_check::seeds::assert_held;
use weft_check::systems::messages::Messages;
use weft_check::systems::messages::history::{Event, Sent, What};

const STORMY: &str = r#"
[cluster]
nodes = 4
[transport]
ack_timeout = 4
retries = 1
recv_buffers = 8
[workload]
kind = "messages"
messages = 60
bytes = { min = 16, max = 3000 }
think = { min = "0us", max = "50us" }
[run]
limit = "20ms"
settle = "3s"
[[faults]]
kind = "cut"
rate = "1500/s"
lasts = { min = "100us", max = "2ms" }
[[faults]]
kind = "duplicate"
rate = "500/s"
share = 0.3
lasts = "500us"
[[faults]]
kind = "restart"
rate = "400/s"
lasts = { min = "10us", max = "1ms" }
"#;

fn scenario(text: &str) -> Scenario {
    weft_check::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_message_arrives_once_and_in_order_while_links_fail_and_nodes_restart() {
    for pattern in ["storm", "ring", "burst"] {
        let mut scenario = scenario(STORMY);
        scenario.workload.change::<Messages>(|work| {
            work.pattern = toml::Value::from(pattern).try_into().expect("a pattern");
        });
        let summary = assert_held(&scenario, 0..12);
        let of = |kind| struck(&summary, kind);
        assert!(of(FaultKind::Cut) > 0 && of(FaultKind::Restart) > 0, "{pattern}: {:?}", summary.faults);
        assert!(summary.metrics.count("transport", "reconnects") > 0, "{pattern}");
        assert!(summary.metrics.count("messages", "told_lost") > 0, "{pattern}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let digest = |seed| {
        let run = weft_check::run(&scenario(STORMY), seed, RunOptions::default());
        run.unwrap_or_else(|error| panic!("{error}")).log_digest
    };
    assert_eq!(digest(3), digest(3));
    assert_ne!(digest(3), digest(4));
}

#[test]
fn a_system_that_promises_nothing_after_a_restart_refuses_restarts() {
    let locks = STORMY.replace(
        "kind = \"messages\"\nmessages = 60\nbytes = { min = 16, max = 3000 }",
        "kind = \"locks\"\nscheme = \"srsl\"\nrequests = 6",
    );
    let error = weft_check::parse(&locks).expect_err("it has restarts").to_string();
    assert!(
        error.ends_with("locks has no runs in which nodes restart; give the cluster members = {}"),
        "{error}"
    );
    let crashes =
        locks.replace("\"restart\"", "\"crash\"").replace("lasts = { min = \"10us\", max = \"1ms\" }", "");
    let error = weft_check::parse(&crashes).expect_err("it has crashes").to_string();
    assert!(
        error.ends_with("locks has no runs in which nodes crash; give the cluster members = {}"),
        "{error}"
    );
}

#[test]
fn a_node_that_crashed_is_there_again_when_it_is_said_to_be_or_when_the_faults_stop() {
    let calm = STORMY.split("[[faults]]").next().expect("a head");
    for back in ["", "back = { min = \"10us\", max = \"300us\" }"] {
        let crash = format!("[[faults]]\nkind = \"crash\"\nnode = 2\nat = \"500us\"\n{back}\n");
        let summary = assert_held(&scenario(&format!("{calm}{crash}")), 0..6);
        assert_eq!(summary.faults[&FaultKind::Crash].injected, 6, "{back}");
        assert!(summary.metrics.count("messages", "told_lost") > 0, "{back}");
    }
}

/// What a run says to an event of a node's that nobody saw.
fn made_up(what: What) -> Vec<&'static str> {
    broken_by::<Messages, _>(scenario(STORMY), async move |recorder, rt| {
        recorder.record(Event { at: rt.now(), node: 1, what });
    })
}

#[test]
fn a_message_that_nobody_sent_one_that_never_comes_and_a_damaged_one_are_noticed() {
    let sent = Sent { incarnation: 0, number: 9_999 };
    assert_eq!(made_up(What::Sent { to: 0, sent, bytes: 16 }), ["exactly once, in order"]);
    assert_eq!(made_up(What::PeerRestarted { peer: 0, lost: 0 }), ["exactly once, in order"]);
    let arrived = What::Arrived { from: 0, sent, bytes: 16, intact: false };
    assert_eq!(made_up(arrived), ["exactly once, in order", "intact"]);
}

/// Two rails: the first flaps and loses its link, the second is cut now and then.
#[test]
fn every_message_arrives_once_and_in_order_while_rails_come_and_go() {
    let railed = STORMY
        .replace("nodes = 4", "nodes = 4\nrails = 2")
        .replace("retries = 1", "retries = 1\nhold_off = \"500us\"");
    let faults = railed.find("[[faults]]").expect("it has some");
    let railed = format!("{}{RAILED}", &railed[..faults]);
    let summary = assert_held(&scenario(&railed), 0..10);
    for kind in [FaultKind::Flap, FaultKind::PortDown, FaultKind::Cut] {
        assert!(summary.faults[&kind].struck > 0, "{kind}");
    }
}

const RAILED: &str = r#"
[[faults]]
kind = "flap"
rate = "500/s"
node = "random"
rail = 0
down = "1ms"
up = "500us"
times = 2
[[faults]]
kind = "port-down"
rate = "500/s"
node = "random"
rail = 0
lasts = "2ms"
[[faults]]
kind = "cut"
rate = "300/s"
node = "random"
rail = 1
lasts = { min = "100us", max = "2ms" }
[[faults]]
kind = "restart"
rate = "200/s"
lasts = { min = "10us", max = "1ms" }
"#;
