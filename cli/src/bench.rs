//! `weft bench`: how fast the simulator is on this machine.

use crate::args::{Bench, BenchFabricArgs, BenchLocksArgs};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::table::{Table, count, micros};
use serde::Serialize;
use weft_check::bench::{BenchError, LockBench, LockFigures, Ring, RingFigures, Stack};
use weft_check::scenario::Scheme;
use weft_sim::profile::Profile;

/// Measures what was asked for.
pub fn run(what: &Bench) -> Result<Exit, Failure> {
    match what {
        Bench::Fabric(args) => fabric(args)?,
        Bench::Locks(args) => locks(args)?,
    }
    Ok(Exit::Held)
}

fn fabric(args: &BenchFabricArgs) -> Result<(), Failure> {
    let profile = Profile::builtin(&args.profile).map_err(Failure::bad_input)?;
    let stack = match (args.tasks, args.sessions) {
        (true, _) => Stack::Tasks,
        (_, true) => Stack::Sessions,
        _ => Stack::Nodes,
    };
    let BenchFabricArgs { nodes, messages, window, bytes, sanitize, .. } = *args;
    let ring = Ring { nodes, messages, window, bytes, stack, sanitize, profile };
    let figures = ring.run().map_err(failure)?;
    match args.json {
        true => output::json(&figures),
        false => output::text(&ring_text(&figures)),
    }
}

#[derive(Serialize)]
struct LockReport {
    schemes: Vec<LockFigures>,
}

fn locks(args: &BenchLocksArgs) -> Result<(), Failure> {
    // A wrong name is told as one, and not as a cluster that cannot be built.
    Profile::builtin(&args.profile).map_err(Failure::bad_input)?;
    let BenchLocksArgs { nodes, requests, .. } = *args;
    let bench = LockBench { nodes, requests, profile: args.profile.clone() };
    let wanted = Scheme::ALL.into_iter().filter(|scheme| args.scheme.is_none_or(|only| only == *scheme));
    let schemes = wanted.map(|scheme| bench.run(scheme)).collect::<Result<_, _>>().map_err(failure)?;
    match args.json {
        true => output::json(&LockReport { schemes }),
        false => output::text(&locks_text(&bench, &schemes)),
    }
}

fn failure(error: BenchError) -> Failure {
    match error {
        BenchError::Bounds { .. } | BenchError::Cluster(_) => Failure::bad_input(error),
        BenchError::Broken(_) => Failure::unfinished(error),
    }
}

fn ring_text(figures: &RingFigures) -> String {
    let RingFigures { nodes, window, bytes, profile, messages, .. } = figures;
    let by = match figures.stack {
        Stack::Nodes => "state machines by hand",
        Stack::Tasks => "tasks on the runtime",
        Stack::Sessions => "tasks on the transport",
    };
    let title = format!(
        "{} messages of {bytes} bytes round {} nodes, window {window}, by {by}{}",
        count(*messages),
        count((*nodes).into()),
        if figures.sanitize { ", sanitized" } else { "" },
    );
    let each = |what: u64| format!("{:.2}", what as f64 / *messages as f64);
    let mut table = Table::facts(&title);
    table
        .row(["messages a second of wall clock".into(), count(figures.messages_per_second as u64)])
        .row([
            "messages a second of processor".into(),
            known(figures.messages_per_cpu_second, |n| count(n as u64)),
        ])
        .row(["wall clock".into(), seconds(figures.wall_seconds)])
        .row(["  to build the cluster before".into(), seconds(figures.build_seconds)])
        .row(["virtual time".into(), format!("{} (profile {profile})", seconds(figures.virtual_seconds))])
        .row(["events a message".into(), each(figures.events)])
        .row(["packets a message".into(), each(figures.packets)])
        .row(["steps of nodes a message".into(), each(figures.steps)])
        .row(["packets sent again".into(), count(figures.retransmitted)])
        .row(["memory, at most".into(), memory(figures.peak_bytes)])
        .row(["  an idle node".into(), memory(figures.bytes_per_node)])
        .row(["  a connection".into(), memory(figures.bytes_per_connection)]);
    let mut text = String::new();
    table.print(&mut text);
    text
}

fn locks_text(bench: &LockBench, schemes: &[LockFigures]) -> String {
    let LockBench { nodes, profile, .. } = bench;
    let title = format!("Lock requests on {nodes} nodes of profile {profile}, in wall-clock time");
    let mut speed = Table::new(&title, 1, &["scheme", "requests", "seconds", "requests/s", "events/s"]);
    let title = "Latency in virtual time, in microseconds, and grants a virtual second";
    let heads = ["scheme", "shared p50", "p99", "exclusive p50", "p99", "grants/s"];
    let mut latency = Table::new(title, 1, &heads);
    for scheme in schemes {
        speed.row([
            scheme.scheme.clone(),
            count(scheme.requests),
            format!("{:.2}", scheme.wall_seconds),
            count(scheme.requests_per_second as u64),
            count(scheme.events_per_second as u64),
        ]);
        latency.row([
            scheme.scheme.clone(),
            micros(scheme.latency.shared.p50_ns),
            micros(scheme.latency.shared.p99_ns),
            micros(scheme.latency.exclusive.p50_ns),
            micros(scheme.latency.exclusive.p99_ns),
            count(scheme.grants_per_virtual_second as u64),
        ]);
    }
    let mut text = String::new();
    for table in [speed, latency, costs(schemes)] {
        table.print(&mut text);
    }
    text
}

/// What a request takes of the network.
fn costs(schemes: &[LockFigures]) -> Table {
    let mut table =
        Table::new("For each request, on average", 1, &["scheme", "messages", "atomics", "packets"]);
    for LockFigures { scheme, requests, protocol, packets, .. } in schemes {
        let each = |count: u64| format!("{:.2}", count as f64 / (*requests).max(1) as f64);
        table.row([scheme.clone(), each(protocol.messages), each(protocol.atomics), each(*packets)]);
    }
    table
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.3} s")
}

fn memory(bytes: Option<u64>) -> String {
    known(bytes, |bytes| match bytes {
        0..10_000 => format!("{} bytes", count(bytes)),
        _ => format!("{} KiB", count(bytes / 1024)),
    })
}

/// What a system does not say, or says too coarsely, is left open.
fn known<T>(value: Option<T>, words: impl Fn(T) -> String) -> String {
    value.map_or("-".to_string(), words)
}
