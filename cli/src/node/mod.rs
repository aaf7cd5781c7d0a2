//! `weft node` and `weft run --backend hw`: a scenario on real machines.
//!
//! Each machine runs [`member`]: the same daemons and clients that the simulator runs, on its devices. They meet by the control
//! plane ([`meeting`], and [`line`] at each node), above which a [`judge`] exchanges addresses and writes the history down. Started
//! by `srun` or `mpirun`, node 0's process has the meeting as well.

mod judge;
mod line;
mod meeting;
mod member;
mod place;
mod post;
mod report;
mod troubles;
mod waiting;
mod wire;

use crate::args::{LogFormat, RunArgs};
use crate::control::{PROGRAM, log};
use crate::device;
use crate::device_args::{ConnectArg, NodeArgs, WaitArg};
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::report::{path, sets};
use judge::Terms;
use meeting::{Agreed, Meeting, SILENCE};
use member::{Options, Rails};
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tracing::Level;
use weft_check::scenario::Scenario;
use weft_check::system::System;
use weft_check::systems::{self, Visitor};
use weft_control::PORT;
use weft_control::member::Config;
use weft_control::message::Join;
use weft_control::net::Endpoint;
use weft_control::secret::{self, Secret};
use weft_hw::Census;
use weft_store::StoreId;

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
    // What launchers say is UTF-8; what else is there need not be.
    let text =
        |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    let environment = std::env::vars_os().filter_map(text).collect();
    let place = place::find(&given, &environment).map_err(Failure::bad_input)?;
    // Before anybody waits for anybody.
    let rails = open_rails(args, scenario, place.rank)?;
    let port = args.port.unwrap_or(PORT);
    let seed = args.seed.unwrap_or(scenario.run.seed);
    let agreed = Agreed::on(scenario, seed, secret(args.secret.as_deref())?);
    let join = join(&place, port, &agreed)?;
    interrupt::install();
    log(Level::WARN, LogFormat::Text);
    // Where `weft run --backend hw` drives, the meeting is there; otherwise node 0's process has it.
    let meets_here = place.rank == 0 && !args.driven;
    if meets_here && args.meet.is_none() {
        place::meets_here(&place.meeting).map_err(Failure::bad_input)?;
    }
    let meeting = meets_here.then(|| begin_meeting::<S>(scenario, agreed, port, seed)).transpose()?;
    let wait = args.wait.map(WaitArg::wait);
    let connect = args.connect.map_or(scenario.cluster.connect, ConnectArg::connect);
    let traffic_class = args.traffic_class;
    let options = Options { place: &place, join: &join, wait, seed, connect, traffic_class };
    let lived = member::run::<S>(scenario, &options, rails);
    let lived = ended(lived, Census::now()).map_err(|why| why.at(format_args!("node {}", place.rank)));
    match meeting {
        None => lived.map(|()| Exit::Held),
        Some(thread) => {
            let judged = thread.join().unwrap_or_else(|_| Err(Failure::unfinished("the judge failed")));
            let judged = match (judged, &lived) {
                // What this node met with may be why.
                (Err(why), Err(ours)) => Err(Failure::unfinished(format!("{why}; {ours}"))),
                (judged, _) => judged,
            }?;
            show(&judged, args.json)?;
            lived.map_err(|why| why.after(judged.exit())).map(|()| judged.exit())
        }
    }
}

/// Opens the meeting on a thread of its own, which judges the run.
fn begin_meeting<S: System>(
    scenario: &Scenario,
    agreed: Agreed,
    port: u16,
    seed: u64,
) -> Result<thread::JoinHandle<Result<report::Judged, Failure>>, Failure> {
    let (scenario, (tell, opened)) = (scenario.clone(), mpsc::channel());
    let thread = thread::spawn(move || match Meeting::open(&agreed, port) {
        Ok(meeting) => {
            // It waits for this word.
            let _ = tell.send(Ok(()));
            judge_run::<S>(&scenario, meeting, seed)
        }
        Err(why) => {
            let _ = tell.send(Err(why));
            Err(Failure::unfinished("nobody could meet"))
        }
    });
    opened.recv().unwrap_or_else(|_| Err(Failure::unfinished("the judge failed")))?;
    Ok(thread)
}

/// The run's secret, if it has one.
fn secret(file: Option<&Path>) -> Result<Secret, Failure> {
    file.map_or_else(|| Ok(Secret::none()), |file| Secret::read(file).map_err(Failure::bad_input))
}

/// How a node joins a run.
fn join(place: &place::Place, port: u16, agreed: &Agreed) -> Result<Config, Failure> {
    let incarnation = secret::number().map_err(Failure::unfinished)?;
    let Agreed { cluster, scenario, nodes, secret } = agreed.clone();
    let (program, rank) = (PROGRAM.to_string(), place.rank);
    let join = Join { cluster, program, scenario, rank, nodes, incarnation, address: None, blob: Vec::new() };
    let at = Endpoint::new(place.meeting.clone(), port);
    Ok(Config { at, join, secret, timing: Agreed::timing(), patience: PATIENCE })
}

/// Opens a node's devices, the first with its store, which is that of one scenario and one node.
fn open_rails(args: &NodeArgs, scenario: &Scenario, rank: u32) -> Result<Rails, Failure> {
    let id = StoreId { cluster: meeting::title(scenario), server: rank };
    let open = |path| crate::stores::open(path, &id, None, true);
    let store = args.store.as_deref().map(open).transpose()?;
    let on = device::Choice::of(&args.on, &scenario.cluster);
    let contexts = on.open_all(scenario.cluster.rails, store.as_ref())?;
    let addresses = contexts.iter().map(device::address).collect::<Result<_, _>>()?;
    Ok(Rails { contexts, addresses })
}

/// How a node ended. It holds no verbs object any more: if it does, a promise was broken, whatever else it ended by.
fn ended(lived: Result<(), Failure>, left: Census) -> Result<(), Failure> {
    if left == Census::default() {
        return lived;
    }
    let left = format!("left behind: {left}");
    Err(match lived {
        Ok(()) => Failure::violated(left),
        Err(why) => why.and(left).after(Exit::Violated),
    })
}

/// `weft run --backend hw`: waits for the nodes of a scenario, and judges what they do.
pub fn run(args: &RunArgs, scenario: &Scenario) -> Result<Exit, Failure> {
    let seed = args.seed.unwrap_or(scenario.run.seed);
    let agreed = Agreed::on(scenario, seed, secret(args.secret.as_deref())?);
    log(Level::WARN, LogFormat::Text);
    let meeting = Meeting::open(&agreed, PORT)?;
    let nodes = scenario.cluster.nodes;
    // Nobody may be reading.
    let _ = writeln!(
        std::io::stderr(),
        "waiting for {nodes} nodes at port {PORT}: start on each machine\n  {}",
        command_of_nodes(args, &hostname())
    );
    let judged = with_system(scenario, Meets { scenario, meeting, seed })?;
    show(&judged, args.json)?;
    Ok(judged.exit())
}

/// What is typed on each machine for a run that was started so: all that nodes must agree on is in it.
fn command_of_nodes(args: &RunArgs, host: &str) -> String {
    let file = path(&args.scenario);
    let set = sets(&args.set);
    let seed = args.seed.map_or_else(String::new, |seed| format!(" --seed {seed}"));
    let secret = args.secret.as_ref().map(|file| path(file));
    let secret = secret.map_or_else(String::new, |file| format!(" --secret {file}"));
    format!("weft node {file}{set}{seed}{secret} --driven --rank N --meet {host}")
}

struct Meets<'a> {
    scenario: &'a Scenario,
    meeting: Meeting,
    seed: u64,
}

impl Visitor for Meets<'_> {
    type Out = Result<report::Judged, Failure>;

    fn visit<S: System>(self) -> Result<report::Judged, Failure> {
        judge_run::<S>(self.scenario, self.meeting, self.seed)
    }
}

fn judge_run<S: System>(scenario: &Scenario, meeting: Meeting, seed: u64) -> Result<report::Judged, Failure> {
    let span = |nanos: weft_verbs::Nanos| Duration::from_nanos(nanos.0);
    let work = work::<S>(scenario)?;
    let terms = Terms {
        nodes: scenario.cluster.nodes,
        patience: PATIENCE,
        silence: SILENCE,
        settle: span(scenario.run.settle.nanos() + S::lingers(work)) + Duration::from_secs(20),
        limit: span(scenario.run.limit.nanos()),
        members: scenario.cluster.members.is_some(),
        restarts: S::RESTARTS && S::lacks_for_restarts(work).is_none(),
    };
    report::judge::<S>(scenario, work, seed, meeting.hold::<S>(terms, work))
}

/// A scenario's workload, as the system has it.
fn work<S: System>(scenario: &Scenario) -> Result<&S::Workload, Failure> {
    scenario
        .workload
        .get::<S>()
        .ok_or_else(|| Failure::bad_input(format!("the scenario is not about {}", S::KIND)))
}

fn show(judged: &report::Judged, json: bool) -> Result<(), Failure> {
    crate::output::report(judged.exit(), json, judged, &judged.text())
}

fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "HOST".to_string() } else { name.trim().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    #[test]
    fn what_a_node_left_behind_does_not_hide_why_it_ended() {
        let gone = || Failure::of_devices(Some(weft_verbs::VerbsError::DeviceGone));
        let none = Census::default();
        let two = Census { mrs: 2, ..none };
        let told = |ended: Result<(), Failure>| ended.map_err(|why| (why.exit(), why.to_string()));
        let is_gone = "this node has ended: the device is gone";
        assert_eq!(told(ended(Ok(()), none)), Ok(()));
        assert_eq!(told(ended(gone(), none)), Err((Exit::Unfinished, is_gone.to_string())));
        let left = format!("left behind: {two}");
        assert_eq!(told(ended(Ok(()), two)), Err((Exit::Violated, left.clone())));
        let both = format!("{is_gone}; {left}");
        assert_eq!(told(ended(gone(), two)), Err((Exit::Violated, both)));
    }

    #[test]
    fn what_is_typed_on_each_machine_has_all_that_nodes_must_agree_on() {
        let command = |line: &str| match Cli::try_parse_from(line.split(' ')).expect("options").command {
            Command::Run(args) => command_of_nodes(&args, "a"),
            _ => unreachable!("it is a run"),
        };
        assert_eq!(command("weft run --backend hw s.toml"), "weft node s.toml --driven --rank N --meet a");
        assert_eq!(
            command("weft run --backend hw s.toml --seed 7 --set workload.requests=50 --secret f"),
            "weft node s.toml --set workload.requests=50 --seed 7 --secret f --driven --rank N --meet a"
        );
    }
}
