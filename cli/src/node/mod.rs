//! `weft node` and `weft run --backend hw`: a scenario on real machines.
//!
//! Each machine runs [`member`]: the same daemons and clients that the simulator runs, on its device. They meet at a
//! [`coordinator`], which exchanges addresses and writes the history down. Started by `srun` or `mpirun`, node 0's
//! process is the coordinator as well.

mod coordinator;
pub mod device;
mod member;
mod place;
mod report;
mod waiting;
mod wire;

use crate::args::RunArgs;
use crate::device_args::{ConnectArg, NodeArgs, WaitArg};
use crate::exit::{Exit, Failure};
use crate::interrupt;
use coordinator::Terms;
use member::Options;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use weft_check::scenario::{Connect, Scenario};
use weft_check::system::System;
use weft_check::systems::{self, Visitor};
use weft_store::Objects;

/// How long nodes may take to meet.
const PATIENCE: Duration = Duration::from_secs(120);

/// `weft node`: one node of a scenario, on this machine.
pub fn node(args: &NodeArgs) -> Result<Exit, Failure> {
    let scenario = weft_check::load_with(&args.scenario, &args.set).map_err(Failure::bad_input)?;
    with_system(&scenario, Node { args, scenario: &scenario })
}

/// Does something with the system that a scenario is about.
fn with_system<T>(
    scenario: &Scenario,
    visitor: impl Visitor<Out = Result<T, Failure>>,
) -> Result<T, Failure> {
    let kind = scenario.workload.kind().name;
    let unknown = || Err(Failure::bad_input(format!("there is no system '{kind}'")));
    systems::visit(kind, visitor).unwrap_or_else(unknown)
}

struct Node<'a> {
    args: &'a NodeArgs,
    scenario: &'a Scenario,
}

impl Visitor for Node<'_> {
    type Out = Result<Exit, Failure>;

    fn visit<S: System>(self) -> Result<Exit, Failure> {
        one_node::<S>(self.args, self.scenario)
    }
}

fn one_node<S: System>(args: &NodeArgs, scenario: &Scenario) -> Result<Exit, Failure> {
    let given = place::Given {
        rank: args.rank,
        nodes: args.nodes,
        meet: args.meet.clone(),
        of_scenario: scenario.cluster.nodes,
    };
    let environment = std::env::vars().collect();
    let place = place::find(&given, &environment).map_err(Failure::bad_input)?;
    let on = device::Choice::of(&args.on, &scenario.cluster);
    // Before anybody waits for anybody.
    let store = args.store.as_deref().map(|store| open_store(store, scenario, place.rank)).transpose()?;
    on.open(store.as_ref())?;
    interrupt::install();
    let port = args.port.unwrap_or(wire::PORT);
    let seed = args.seed.unwrap_or(scenario.run.seed);
    // Where `weft run --backend hw` drives, it is the coordinator; otherwise node 0's process is.
    let coordinator = (place.rank == 0 && !args.driven).then(|| {
        let (scenario, listener) = (scenario.clone(), listen(port));
        thread::spawn(move || coordinate::<S>(&scenario, listener?, seed))
    });
    let wait = args.wait.map(WaitArg::wait);
    let connect = args.connect.map_or(scenario.cluster.connect, ConnectArg::connect);
    let by_streams = connect == Connect::Oob;
    let store = store.as_ref();
    let options = Options { place: &place, port, on: &on, store, wait, patience: PATIENCE, seed, by_streams };
    let lived = member::run::<S>(scenario, &options);
    let lived = left_nothing().and(lived);
    let lived = lived.map_err(|why| why.at(format_args!("node {}", place.rank)));
    match coordinator {
        None => lived.map(|()| Exit::Held),
        Some(thread) => {
            let judged =
                thread.join().unwrap_or_else(|_| Err(Failure::unfinished("the coordinator failed")))?;
            show(&judged, args.json)?;
            lived.map(|()| judged.exit())
        }
    }
}

/// Opens a node's store, which is that of one scenario and one node.
fn open_store(path: &Path, scenario: &Scenario, rank: u32) -> Result<Arc<Objects>, Failure> {
    let cluster = scenario.title.split_whitespace().collect::<Vec<_>>().join(" ");
    crate::stores::open(path, &cluster, rank)
}

/// A node that has ended holds no verbs object any more.
fn left_nothing() -> Result<(), Failure> {
    let left = weft_hw::Census::now();
    match left == weft_hw::Census::default() {
        true => Ok(()),
        false => Err(Failure::violated(format!("left behind: {left}"))),
    }
}

/// `weft run --backend hw`: waits for the nodes of a scenario, and judges what they do.
pub fn run(args: &RunArgs, scenario: &Scenario) -> Result<Exit, Failure> {
    let listener = listen(wire::PORT)?;
    let nodes = scenario.cluster.nodes;
    let file = args.scenario.display();
    let _ = writeln!(
        std::io::stderr(),
        "waiting for {nodes} nodes at port {}: start on each machine\n  weft node {file} --driven --rank N --meet {}",
        wire::PORT,
        hostname()
    );
    let seed = args.seed.unwrap_or(scenario.run.seed);
    let judged = with_system(scenario, Coordinate { scenario, listener, seed })?;
    show(&judged, args.json)?;
    Ok(judged.exit())
}

fn listen(port: u16) -> Result<TcpListener, Failure> {
    TcpListener::bind((IpAddr::V4(Ipv4Addr::UNSPECIFIED), port))
        .map_err(|why| Failure::unfinished(format!("port {port}: {why}")))
}

struct Coordinate<'a> {
    scenario: &'a Scenario,
    listener: TcpListener,
    seed: u64,
}

impl Visitor for Coordinate<'_> {
    type Out = Result<report::Judged, Failure>;

    fn visit<S: System>(self) -> Result<report::Judged, Failure> {
        coordinate::<S>(self.scenario, self.listener, self.seed)
    }
}

fn coordinate<S: System>(
    scenario: &Scenario,
    listener: TcpListener,
    seed: u64,
) -> Result<report::Judged, Failure> {
    let span = |nanos: weft_verbs::Nanos| Duration::from_nanos(nanos.0);
    let terms = Terms {
        nodes: scenario.cluster.nodes,
        patience: PATIENCE,
        silence: Duration::from_secs(15),
        settle: span(scenario.run.settle.nanos()) + Duration::from_secs(20),
        limit: span(scenario.run.limit.nanos()),
        members: scenario.cluster.members.is_some(),
        restarts: S::RESTARTS,
    };
    let work = work::<S>(scenario)?;
    let outcome = coordinator::run::<S>(&listener, &terms, work, &interrupt::requested);
    Ok(report::judge::<S>(scenario, work, seed, outcome.map_err(Failure::unfinished)?))
}

/// A scenario's workload, as the system has it.
fn work<S: System>(scenario: &Scenario) -> Result<&S::Workload, Failure> {
    scenario
        .workload
        .get::<S>()
        .ok_or_else(|| Failure::bad_input(format!("the scenario is not about {}", S::KIND)))
}

fn show(judged: &report::Judged, json: bool) -> Result<(), Failure> {
    match json {
        true => crate::output::json(judged),
        false => crate::output::text(&judged.text()),
    }
}

fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "HOST".to_string() } else { name.trim().to_string() }
}
