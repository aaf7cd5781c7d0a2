//! `weft bench`: how fast the simulator is on this machine.

use crate::args::{Bench, BenchFabricArgs, BenchSystemArgs};
use crate::exit::{Exit, Failure};
use crate::metrics::time;
use crate::progress::Progress;
use crate::table::{Table, count};
use crate::{command_line, help, interrupt, output};
use serde::Serialize;
use weft_check::bench::{BenchError, Ring, RingFigures, Stack, SystemBench, SystemFigures};
use weft_check::systems;
use weft_sim::profile::Profile;

/// Measures what was asked for.
pub fn run(what: &Bench) -> Result<Exit, Failure> {
    interrupt::end_at_once();
    match what {
        Bench::Fabric(args) => fabric(args)?,
        Bench::System(words) => system(words)?,
    }
    Ok(Exit::Held)
}

fn fabric(args: &BenchFabricArgs) -> Result<(), Failure> {
    let profile = Profile::find(&args.profile).map_err(Failure::bad_input)?;
    let stack = match (args.tasks, args.sessions) {
        (true, _) => Stack::Tasks,
        (_, true) => Stack::Sessions,
        _ => Stack::Nodes,
    };
    let BenchFabricArgs { nodes, messages, window, bytes, sanitize, jitter, .. } = *args;
    let ring = Ring { nodes, messages, window, bytes, stack, sanitize, jitter, profile };
    let mut progress = Progress::begin(args.quiet);
    progress.step(None, &format!("{} messages round {} nodes", count(messages), count(nodes.into())));
    let figures = ring.run().map_err(failure)?;
    progress.end();
    match args.json {
        true => output::json(&figures),
        false => output::text(ring_text(&figures).trim_start()),
    }
}

#[derive(Serialize)]
struct SystemReport {
    variants: Vec<SystemFigures>,
}

fn system(words: &[String]) -> Result<(), Failure> {
    let args = match command_line::read_bench(words).map_err(Failure::bad_input)? {
        Ok(args) => args,
        Err(help) => return output::text(&help),
    };
    let system = systems::find(&args.system).ok_or_else(|| {
        Failure::bad_input(format!(
            "there is no bench '{}': there are fabric, {}",
            args.system,
            help::kinds()
        ))
    })?;
    // A wrong name is told as one, and not as a cluster that cannot be built.
    Profile::find(&args.profile).map_err(Failure::bad_input)?;
    let BenchSystemArgs { nodes, requests, .. } = args;
    let bench = SystemBench { nodes, requests, profile: args.profile.clone() };
    let wanted = |name: &&&str| args.variant.as_deref().is_none_or(|only| only == **name);
    let all = [system.variants(), system.rivals()].concat();
    let variants: Vec<&&str> = all.iter().filter(wanted).collect();
    if variants.is_empty() {
        return Err(Failure::bad_input(format!(
            "--variant {}: there are: {}",
            args.variant.unwrap_or_default(),
            all.join(", ")
        )));
    }
    let mut progress = Progress::begin(args.quiet);
    let of = variants.len();
    let measured = variants.into_iter().enumerate().map(|(at, variant)| {
        progress.step(at as f64 / of as f64, &format!("{} {variant}", system.kind()));
        system.bench(&bench, variant)
    });
    let variants: Vec<SystemFigures> = measured.collect::<Result<_, _>>().map_err(failure)?;
    progress.end();
    match args.json {
        true => output::json(&SystemReport { variants }),
        false => output::text(system_text(&bench, system.costs(), &variants).trim_start()),
    }
}

fn failure(error: BenchError) -> Failure {
    match error {
        BenchError::Bounds { .. } | BenchError::Refused(_) | BenchError::Cluster(_) => {
            Failure::bad_input(error)
        }
        BenchError::Violated { .. } => Failure::violated(error),
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
        "{} messages of {bytes} bytes round {} {}, window {window}, by {by}{}",
        count(*messages),
        count((*nodes).into()),
        if *nodes == 1 { "node" } else { "nodes" },
        [(figures.sanitize, ", sanitized"), (figures.jitter, ", with jitter")]
            .map(|(is_so, words)| if is_so { words } else { "" })
            .concat(),
    );
    let each = |what: u64| format!("{:.2}", what as f64 / *messages as f64);
    let mut table = Table::facts(&title);
    table
        .row(["messages a second of wall clock".into(), count(figures.messages_per_second as u64)])
        .row([
            "messages a second of processor".into(),
            // Of a short run the processor's clock sees nothing.
            known(figures.messages_per_cpu_second.filter(|n| *n > 0.0), |n| count(n as u64)),
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

fn system_text(bench: &SystemBench, costs: &[(&str, &str)], variants: &[SystemFigures]) -> String {
    let SystemBench { nodes, profile, .. } = bench;
    let title = format!("Requests on {nodes} nodes of profile {profile}, in wall-clock time");
    let mut speed = Table::new(&title, 1, &["", "requests", "seconds", "requests/s", "events/s"]);
    for of in variants {
        speed.row([
            name(of),
            count(of.requests),
            format!("{:.2}", of.wall_seconds),
            count(of.requests_per_second as u64),
            count(of.events_per_second as u64),
        ]);
    }
    let mut text = String::new();
    for table in [speed, latency(variants), rates(variants), each_request(costs, variants)] {
        if !table.is_empty() {
            table.print(&mut text);
        }
    }
    text
}

fn name(of: &SystemFigures) -> String {
    if of.variant.is_empty() { of.system.to_string() } else { of.variant.to_string() }
}

fn latency(variants: &[SystemFigures]) -> Table {
    let title = "Latency in virtual time, in microseconds";
    let mut table = Table::new(title, 2, &["", "of", "median", "p99", "maximum"]);
    for of in variants {
        for (what, times) in of.metrics.latencies.iter().flat_map(|table| &table.rows) {
            let [p50, p99, max] = [times.p50_ns, times.p99_ns, times.max_ns].map(time(times.count));
            table.row([name(of), what.to_string(), p50, p99, max]);
        }
    }
    table
}

fn rates(variants: &[SystemFigures]) -> Table {
    let mut table = Table::new("In virtual time", 2, &["", "what", "a second"]);
    for of in variants {
        for rate in &of.metrics.rates {
            table.row([name(of), rate.label.to_string(), count(rate.value.round() as u64)]);
        }
    }
    table
}

/// What a request takes of the network, by the names that reports have for it.
fn each_request(costs: &[(&str, &str)], variants: &[SystemFigures]) -> Table {
    let mut table = Table::new("For each request, on average", 2, &["", "what", "number"]);
    for of in variants {
        let each = |number: u64| format!("{:.2}", number as f64 / of.requests.max(1) as f64);
        for (group, key) in costs {
            let group = of.metrics.groups.iter().find(|of| of.key == *group);
            let counted = group.and_then(|of| of.counts.iter().find(|count| count.key == *key));
            table.row([
                name(of),
                counted.map_or(*key, |count| count.label).to_string(),
                each(counted.map_or(0, |count| count.value)),
            ]);
        }
        table.row([name(of), "packets".to_string(), each(of.packets)]);
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
