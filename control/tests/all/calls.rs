//! Clients' calls to systems of nodes, under turmoil: each ends, with an answer or with the reason why there is none.

use crate::cluster::{Cluster, draw, every_seed, ms, secret, terms};
use crate::network::Simulated;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;
use weft_control::ask::{CallError, Callee, Caller, Meeting};
use weft_control::coordinator::{self, CLIENTS, Coordinator};
use weft_control::daemon::config::Config;
use weft_control::daemon::systems::{Request, Seat};
use weft_control::message::{Answer, CALL, Call, Report};
use weft_control::net::{Endpoint, Listener, Network};
use weft_control::timing::Timing;

pub fn config() -> Config {
    let text = "[cluster]\nname = \"blue\"\nnodes = 3\nmeet = \"meet\"\n[node]\nlisten = \"0.0.0.0\"\n";
    Config::parse(text).expect("it is one")
}

/// A system that says what it hears, or how often it has heard `count`; `think` it never answers, and `end` ends it.
pub async fn echo(mut seat: Seat) -> Result<(), String> {
    let said = BTreeMap::from([("state".to_string(), "running".to_string())]);
    let report = Report { view: None, systems: BTreeMap::from([("echo".to_string(), said)]) };
    // Without a daemon there is nobody to tell.
    let _ = seat.reports.send(report).await;
    let (mut thoughts, mut count) = (Vec::new(), 0);
    loop {
        tokio::select! {
            biased;
            stopped = seat.stop.wait_for(|stop| *stop) => return stopped.map(drop).map_err(|why| why.to_string()),
            Some(Request { body, answer, .. }) = seat.calls.recv() => match body.as_slice() {
                b"think" => thoughts.push(answer),
                b"count" => {
                    count += 1;
                    drop(answer.send(Answer::Done(count.to_string().into_bytes())));
                }
                b"end" => return Err("a call has ended it".to_string()),
                // Who asked may have gone.
                _ => drop(answer.send(Answer::Done(body))),
            }
        }
    }
}

/// Three daemons that have met; two of them echo.
fn met(seed: u64) -> Cluster<'static> {
    let mut cluster = Cluster::new(seed, 3);
    cluster.daemon("meet", 0, config());
    cluster.daemon_with("n1", 1, config(), echo);
    cluster.daemon_with("n2", 2, config(), echo);
    cluster.until_that(ms(1_000), "all have met", |c| {
        c.log.of("meet").contains(&"INFO all 3 nodes have met".to_string())
    });
    cluster.until(ms(1_000 + draw(seed, 1, 0, 700)));
    cluster
}

/// A client on a host of its own calls; its outcome is what it was told.
fn call(cluster: &mut Cluster<'_>, host: &str, node: Option<u32>, system: &str, body: &[u8]) {
    let call = Call { node, system: system.to_string(), body: body.to_vec() };
    cluster.program(host, move |net| asks(net, call.clone()));
}

fn meeting() -> Meeting {
    let at = Callee::Coordinator(Endpoint::new("meet", weft_control::PORT));
    Meeting { at, secret: secret(), cluster: Some("blue".to_string()) }
}

/// What a client is told.
async fn asks(net: Simulated, call: Call) -> String {
    answered(Caller::new(net, meeting(), Timing::default()).call(call).await)
}

/// An outcome in one line.
pub fn answered(ended: Result<(u32, Answer), CallError>) -> String {
    match ended {
        Ok((node, Answer::Done(body))) => format!("{node}: {}", String::from_utf8_lossy(&body)),
        Ok((node, Answer::Failed(failed))) => format!("{node} failed: {}", failed.why),
        Err(why) => why.to_string(),
    }
}

/// What a client is told that calls alone, within a time.
fn told(cluster: &mut Cluster<'_>, node: Option<u32>, system: &str, body: &[u8], within: u64) -> String {
    let host = format!("client-{}", cluster.sim.elapsed().as_millis());
    call(cluster, &host, node, system, body);
    let limit = cluster.sim.elapsed() + ms(within);
    cluster.until_that(limit, "the client is told", |c| !c.outcomes(&host).is_empty());
    cluster.outcomes(&host).remove(0)
}

const REFUSED: &str = "the coordinator at meet:7471 refused: ";

#[test]
fn a_call_goes_to_the_node_that_is_named_or_to_the_first_that_runs_the_system() {
    every_seed(|seed| {
        let mut cluster = met(seed);
        assert_eq!(told(&mut cluster, None, "echo", b"hello", 500), "1: hello");
        assert_eq!(told(&mut cluster, Some(2), "echo", b"hello", 500), "2: hello");
        assert_eq!(told(&mut cluster, Some(0), "echo", b"x", 500), "0 failed: node 0 does not run echo");
        cluster.finish();
    });
}

#[test]
fn a_call_that_nobody_can_serve_is_refused_in_one_line() {
    every_seed(|seed| {
        let mut cluster = met(seed);
        let cases = [
            (None, "files", "no node that is here runs files: `weft status` shows what they run"),
            (Some(3), "echo", "there is no rank 3: the cluster's ranks are 0 to 2"),
        ];
        for (node, system, line) in cases {
            assert_eq!(told(&mut cluster, node, system, b"x", 500), format!("{REFUSED}{line}"));
        }
        let long = told(&mut cluster, None, "echo", &vec![0; CALL + 1], 1_000);
        assert_eq!(
            long,
            format!("{REFUSED}a call to a system has 102401 bytes, and at most 102400 are taken")
        );
        assert_eq!(told(&mut cluster, None, "echo", b"still there", 500), "1: still there");
        cluster.tell_to_leave("n2");
        cluster.until(cluster.sim.elapsed() + ms(500));
        let gone = told(&mut cluster, Some(2), "echo", b"x", 500);
        assert_eq!(gone, format!("{REFUSED}node 2 is not here"));
        cluster.finish();
    });
}

#[test]
fn of_clients_that_are_refused_ten_have_a_line_in_ten_seconds_and_the_others_are_counted() {
    every_seed(|seed| {
        let mut cluster = met(seed);
        let hosts: Vec<String> = (0..16).map(|client| format!("client-{client}")).collect();
        hosts.iter().for_each(|host| call(&mut cluster, host, Some(3), "echo", b"x"));
        let limit = cluster.sim.elapsed() + ms(500);
        cluster.until_that(limit, "all are told", |c| hosts.iter().all(|host| !c.outcomes(host).is_empty()));
        let logged = |c: &Cluster<'_>| {
            let log = c.log.of("meet");
            log.into_iter().filter(|line| line.starts_with("WARN refused ")).collect::<Vec<_>>()
        };
        let first = logged(&cluster);
        assert_eq!(first.len(), 10, "{first:#?}");
        assert!(first.iter().all(|line| line.starts_with("WARN refused a client at ")), "{first:#?}");
        cluster.until(ms(12_000));
        let then = logged(&cluster);
        assert_eq!((then.len(), then[10].as_str()), (11, "WARN refused 6 more in 10 s"));
        told(&mut cluster, Some(3), "echo", b"x", 500);
        assert_eq!(logged(&cluster).len(), 12);
        cluster.finish();
    });
}

#[test]
fn as_many_clients_as_may_ask_at_a_time_are_all_answered_though_they_come_in_the_same_moment() {
    every_seed(|seed| {
        let mut cluster = met(seed);
        cluster.program("login", |net| async move {
            let call = Call { node: None, system: "echo".to_string(), body: b"x".to_vec() };
            let told: JoinSet<String> = (0..CLIENTS).map(|_| asks(net.clone(), call.clone())).collect();
            told.join_all().await.iter().filter(|told| *told == "1: x").count().to_string()
        });
        let limit = cluster.sim.elapsed() + ms(1_000);
        cluster.until_that(limit, "all are told", |c| !c.outcomes("login").is_empty());
        assert_eq!(cluster.outcomes("login"), [CLIENTS.to_string()]);
        let log = cluster.log.of("meet");
        assert!(!log.iter().any(|line| line.contains("turned away")), "they know the secret: {log:#?}");
        cluster.finish();
    });
}

/// A network that counts how often somebody connects.
#[derive(Clone)]
struct Counted(Simulated, Arc<AtomicUsize>);

impl Network for Counted {
    type Stream = <Simulated as Network>::Stream;
    type Listener = <Simulated as Network>::Listener;

    async fn bind(&self, at: &Endpoint) -> io::Result<Self::Listener> {
        self.0.bind(at).await
    }

    async fn resolve(&self, of: &Endpoint) -> io::Result<Vec<SocketAddr>> {
        self.0.resolve(of).await
    }

    async fn connect(&self, to: SocketAddr) -> io::Result<Self::Stream> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.connect(to).await
    }
}

/// A client calls, and calls again after each of the pauses; it keeps an idle connection for as long as it may. What it was told, and how often it
/// has connected.
async fn calls_again(net: Simulated, pauses: Vec<Duration>, idle: Duration) -> String {
    let net = Counted(net, Arc::default());
    let timing = Timing { idle, ..Timing::default() };
    let caller = Caller::new(net.clone(), meeting(), timing);
    let call = || Call { node: Some(2), system: "echo".to_string(), body: b"count".to_vec() };
    let mut told = vec![answered(caller.call(call()).await)];
    for pause in pauses {
        sleep(pause).await;
        told.push(answered(caller.call(call()).await));
    }
    format!("{} over {} connections", told.join(" "), net.1.load(Ordering::Relaxed))
}

#[test]
fn who_calls_again_does_so_over_the_connection_that_it_has_unless_it_was_silent_for_long() {
    every_seed(|seed| {
        let mut cluster = met(seed);
        let pauses = [0, 1, 2_000, 3_000, 10].map(ms).to_vec();
        let idle = Timing::default().idle;
        cluster.program("client", move |net| calls_again(net, pauses.clone(), idle));
        let limit = cluster.sim.elapsed() + ms(6_000);
        cluster.until_that(limit, "the client is told", |c| !c.outcomes("client").is_empty());
        assert_eq!(cluster.outcomes("client"), ["2: 1 2: 2 2: 3 2: 4 2: 5 2: 6 over 2 connections"]);
        cluster.finish();
    });
}

#[test]
fn a_question_that_crosses_the_word_that_its_connection_ends_is_asked_once() {
    every_seed(|seed| {
        let mut cluster = met(seed);
        // It takes a connection for its own for longer than the coordinator does.
        let pauses: Vec<Duration> = (0..20).map(|each| ms(draw(seed, each, 4_950, 5_050))).collect();
        cluster.program("client", move |net| calls_again(net, pauses.clone(), ms(20_000)));
        let limit = cluster.sim.elapsed() + ms(110_000);
        cluster.until_that(limit, "the client is told", |c| !c.outcomes("client").is_empty());
        let told = cluster.outcomes("client").remove(0);
        let each: Vec<String> = (1..=21).map(|number| format!("2: {number}")).collect();
        assert!(told.starts_with(&each.join(" ")), "{told}");
        cluster.finish();
    });
}

#[test]
fn a_client_that_is_let_go_before_it_has_asked_comes_back() {
    every_seed(|seed| {
        let mut cluster = Cluster::new(seed, 1);
        cluster.program("meet", |net| async move {
            let listen = Endpoint::new("0.0.0.0", weft_control::PORT);
            let door = net.bind(&listen).await.expect("the port is free");
            for _ in 0..3 {
                drop(door.accept().await.expect("the client calls"));
            }
            drop(door);
            let (terms, secret, timing) = (terms(1), secret(), Timing::default());
            let config = coordinator::Config { listen, terms, secret, timing };
            let (coordinator, _handle, _) = Coordinator::bind(&net, config).await.expect("the port is free");
            let _ = tokio::time::timeout(ms(4_000), coordinator.run()).await;
            String::new()
        });
        // Three pauses of at most 100, 200 and 400 ms.
        let line = "no node that is here runs echo: `weft status` shows what they run";
        assert_eq!(told(&mut cluster, None, "echo", b"x", 1_500), format!("{REFUSED}{line}"));
        cluster.finish();
    });
}

#[test]
fn who_calls_a_node_that_is_lost_amid_the_call_is_told_so_and_the_next_call_goes_to_another_node() {
    every_seed(|seed| {
        let mut cluster = met(seed);
        call(&mut cluster, "client", None, "echo", b"think");
        cluster.until(cluster.sim.elapsed() + ms(draw(seed, 2, 200, 1_000)));
        cluster.sim.crash("n1");
        let limit = cluster.sim.elapsed() + ms(7_000);
        cluster.until_that(limit, "the client is told", |c| !c.outcomes("client").is_empty());
        let line = "node 1 was lost before it answered: whether it did what was asked is not known";
        assert_eq!(cluster.outcomes("client"), [format!("{REFUSED}{line}")]);
        assert_eq!(told(&mut cluster, None, "echo", b"hello", 500), "2: hello");
        cluster.finish();
    });
}

#[test]
fn who_calls_a_node_that_does_not_answer_is_told_so_in_time() {
    every_seed(|seed| {
        let mut cluster = met(seed);
        let line = "node 1 did not answer within 30 s: whether it does what was asked is not known";
        assert_eq!(told(&mut cluster, None, "echo", b"think", 31_000), format!("{REFUSED}{line}"));
        cluster.finish();
    });
}

#[test]
fn a_client_that_goes_amid_its_call_leaves_nothing_behind() {
    every_seed(|seed| {
        let mut cluster = met(seed);
        call(&mut cluster, "client", None, "echo", b"think");
        cluster.until(cluster.sim.elapsed() + ms(draw(seed, 2, 1, 500)));
        cluster.sim.crash("client");
        cluster.until(cluster.sim.elapsed() + ms(1_000));
        assert_eq!(told(&mut cluster, None, "echo", b"hello", 500), "1: hello");
        cluster.finish();
    });
}

#[test]
fn a_daemon_whose_systems_end_ends_with_their_reason_and_its_callers_are_told() {
    every_seed(|seed| {
        let mut cluster = met(seed);
        let line = told(&mut cluster, Some(1), "echo", b"end", 7_000);
        let lost = "node 1 was lost before it answered: whether it did what was asked is not known";
        assert_eq!(line, format!("{REFUSED}{lost}"));
        assert_eq!(cluster.outcomes("n1"), ["ready", "node 1: a call has ended it"]);
        cluster.finish();
    });
}

#[test]
fn systems_that_do_not_end_when_they_are_told_hold_a_daemon_for_five_seconds() {
    every_seed(|seed| {
        let mut cluster = Cluster::new(seed, 3);
        cluster.daemon_with("meet", 0, config(), |_| std::future::pending());
        cluster.until(ms(1_000 + draw(seed, 1, 0, 700)));
        cluster.tell_to_leave("meet");
        let from = cluster.sim.elapsed();
        cluster.until_that(from + ms(8_000), "it ends", |c| c.outcomes("meet").len() == 2);
        assert_eq!(cluster.outcomes("meet"), ["ready", "left"]);
        assert!(cluster.sim.elapsed() - from >= ms(5_000));
        cluster.finish();
    });
}
