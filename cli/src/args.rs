//! The command line: what can be said, and how `--help` explains it.

#[cfg(feature = "hw")]
use crate::device_args::{CALIBRATE_EXAMPLES, CalibrateArgs, NODE_EXAMPLES, NodeArgs};
use crate::explore::args::{CHECK_EXAMPLES, CheckArgs, FUZZ_EXAMPLES, FuzzArgs, REPLAY_EXAMPLES, ReplayArgs};
use crate::fs_args::{FS_EXAMPLES, FsArgs};
use crate::help;
use crate::lock_args::{LOCK_EXAMPLES, LockArgs};
use crate::making_args::{CompletionsArgs, ManArgs, NewArgs};
use crate::seeds::{Seeds, some_jobs};
use crate::segment_args::{SEGMENT_EXAMPLES, SegmentArgs};
#[cfg(feature = "hw")]
use crate::sockets::args::{CP_EXAMPLES, CpArgs, PERF_EXAMPLES, PIPE_EXAMPLES, PerfArgs, PipeArgs};
use crate::whole::whole;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use weft_check::bench::Ring;
use weft_check::scenario::Override;

const ABOUT: &str = "Runs RDMA protocols on a simulated InfiniBand cluster while links fail";

const LONG_ABOUT: &str = "\
Weft runs distributed systems, written against InfiniBand verbs, on a simulated cluster: adapters, links, \
switches and processors with the latencies of a real one. Cables are cut, packets are lost, ports go down, all \
from one seed, and every run is checked: is what each system promises kept at every moment, does every request \
end once the faults stop, is anything left behind?

The same scenario and the same seed give the same run, to the byte of its event log.";

/// The program's command line.
#[derive(Debug, Parser)]
#[command(name = "weft", version, about = ABOUT, long_about = LONG_ABOUT, after_help = help::program())]
#[command(max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a scenario and report
    ///
    /// The report begins with the verdict. Requests and their latencies in virtual time follow, then what the
    /// protocol did, the faults that struck, and each check with its result.
    ///
    /// With --seeds the scenario runs once for each seed, several at a time, and one report sums them up. If a
    /// seed violates a check, the command that runs it again is printed.
    #[command(after_help = help::run())]
    Run(RunArgs),
    /// Explore a world: every order of its events that matters, with faults at every point
    ///
    /// A world is a few nodes that run the shipped code, connected, with a few requests. The explorer runs it again
    /// and again from its beginning, each time with other choices. A run that breaks a promise is made as short as
    /// it gets and saved for `weft replay`.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Run a world, or scenarios drawn at random, from many seeds
    ///
    /// For what is too large to explore. The report counts, for each kind of fault, in how many seeds it struck an
    /// operation in flight.
    #[command(after_help = FUZZ_EXAMPLES)]
    Fuzz(FuzzArgs),
    /// Run a saved failure again, to the byte, and draw it
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(ReplayArgs),
    /// Write a crate with a protocol of your own, to begin with
    ///
    /// The crate compiles as it is, runs on a simulated cluster from several seeds, is explored in every order, and has a
    /// bug to switch on that the explorer finds and draws. docs/guide.md explains it.
    New(NewArgs),
    /// Run one node of a scenario on this machine's RDMA device
    ///
    /// Started once on each machine, by hand, by `srun weft node SCENARIO` or by `mpirun weft node SCENARIO`: the
    /// launcher's environment says which node this is and where all meet. Node 0 writes the history down, has it
    /// judged, and prints the report. SIGTERM makes a node leave cleanly.
    #[cfg(feature = "hw")]
    #[command(after_help = NODE_EXAMPLES)]
    Node(NodeArgs),
    /// Run one node of a scenario on this machine's RDMA device (not in this build)
    #[cfg(not(feature = "hw"))]
    #[command(hide = true, disable_help_flag = true)]
    Node(NoDevices),
    /// Run a node that lives: it joins its cluster, serves until SIGTERM, and leaves
    ///
    /// It needs no RDMA device. One of the nodes, the first if the configuration names no other, is the coordinator,
    /// at which all meet. docs/operate.md says how to install, start, watch and stop it, and what its lines mean.
    #[command(after_help = DAEMON_EXAMPLES)]
    Daemon(DaemonArgs),
    /// Ask a cluster of daemons who is there, and what each node reports of itself
    #[command(after_help = STATUS_EXAMPLES)]
    Status(StatusArgs),
    /// Put, get, watch and list values that a cluster of daemons shares
    #[command(after_help = SEGMENT_EXAMPLES)]
    Segment(SegmentArgs),
    /// Run a command while a lock of a cluster of daemons is held, and list who holds what
    #[command(after_help = LOCK_EXAMPLES)]
    Lock(LockArgs),
    /// List, read, write and remove files that a cluster of daemons keeps
    #[command(after_help = FS_EXAMPLES)]
    Fs(FsArgs),
    /// Carry standard input to another machine's standard output, and back, while links fail
    #[cfg(feature = "hw")]
    #[command(after_help = PIPE_EXAMPLES)]
    Pipe(PipeArgs),
    /// Copy a file to another machine, or take files, while links fail
    #[cfg(feature = "hw")]
    #[command(after_help = CP_EXAMPLES)]
    Cp(CpArgs),
    /// Measure sockets to another machine: latency, bandwidth, and the stall while a link fails
    #[cfg(feature = "hw")]
    #[command(after_help = PERF_EXAMPLES)]
    Perf(PerfArgs),
    /// Carry standard input to another machine's standard output (not in this build)
    #[cfg(not(feature = "hw"))]
    #[command(hide = true, disable_help_flag = true)]
    Pipe(NoDevices),
    /// Copy a file to another machine (not in this build)
    #[cfg(not(feature = "hw"))]
    #[command(hide = true, disable_help_flag = true)]
    Cp(NoDevices),
    /// Measure sockets to another machine (not in this build)
    #[cfg(not(feature = "hw"))]
    #[command(hide = true, disable_help_flag = true)]
    Perf(NoDevices),
    /// List the RDMA devices that a scenario can run on
    Devices(ListArgs),
    /// Measure this machine's RDMA device and write a calibration profile
    ///
    /// The device speaks to itself, from one queue pair to another, so one machine is enough and cables and switches are not
    /// seen: what they take, and all else that is not measured, is that of another profile. The file says of every figure where it
    /// is from. A scenario uses it by `profile = "FILE"`, `weft profiles FILE` shows it. Nothing else should run on the machine.
    #[cfg(feature = "hw")]
    #[command(after_help = CALIBRATE_EXAMPLES)]
    Calibrate(CalibrateArgs),
    /// Measure this machine's RDMA device and write a calibration profile (not in this build)
    #[cfg(not(feature = "hw"))]
    #[command(hide = true, disable_help_flag = true)]
    Calibrate(NoDevices),
    /// List calibration profiles, or show the figures of one
    Profiles(ProfilesArgs),
    /// Repeat a paper's experiments and lay the results beside its own
    ///
    /// The tables show the paper's figures beside those that are measured here, how near they are, and which
    /// constants were fitted. Everything is in virtual time and the same in every run.
    #[command(after_help = help::paper())]
    Paper(PaperArgs),
    /// Look at a server's store, and say whether it can be trusted
    ///
    /// The store is the directory that `[node] store` of the daemons' file names, or that `weft node --store` was given. Its server must not run. Nothing of it is changed; what
    /// a crash has left is told, and the server's next start mends it. Exit code 1: something that no crash leaves and that harms nobody; 2: the store is
    /// damaged, or is none; 3: it cannot be read, or a server has it open.
    Fsck(FsckArgs),
    /// Print what a shell needs to complete commands: `weft completions bash > ~/.local/share/bash-completion/completions/weft`
    Completions(CompletionsArgs),
    /// Print the manual page
    Man(ManArgs),
    /// Measure how fast the simulator is on this machine
    #[command(after_help = help::bench())]
    Bench {
        /// What to measure.
        #[command(subcommand)]
        what: Bench,
    },
}

/// `weft paper`.
#[derive(Debug, Args)]
pub struct PaperArgs {
    /// The paper (see --list)
    pub name: Option<String>,
    /// List the papers, and what is repeated of each
    #[arg(long, conflicts_with_all = ["name", "report"])]
    pub list: bool,
    /// Write plots (SVG) and one page with everything into this directory, which is made if need be
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}

const BENCH_FABRIC_EXAMPLES: &str = "\
Examples:
  The fabric alone, 16 nodes
    weft bench fabric --nodes 16 --messages 2000000
  The same through the runtime's tasks
    weft bench fabric --nodes 16 --messages 2000000 --tasks
  A large cluster, for programs
    weft bench fabric --nodes 1024 --messages 4000000 --json";

/// What can be measured.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Messages round a ring of reliable connections, through the full adapter model
    ///
    /// Every node begins with a window of messages and passes on each that it receives. The nodes are state
    /// machines written by hand, so that what is measured is the fabric; --tasks and --sessions put the layers
    /// above it in their place. Rates are of wall-clock time on this machine, without the building of the
    /// cluster. The figures in virtual time are the same in every run.
    #[command(after_help = BENCH_FABRIC_EXAMPLES)]
    Fabric(BenchFabricArgs),
    /// Requests of a system, without faults: `weft bench SYSTEM`, whose options `weft bench SYSTEM --help` shows
    #[command(external_subcommand)]
    System(Vec<String>),
}

/// `weft bench fabric`.
#[derive(Debug, Args)]
pub struct BenchFabricArgs {
    /// How many nodes, 1 to 16384
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub nodes: u32,
    /// How many messages in all
    #[arg(long, value_name = "M", default_value_t = 2_000_000, value_parser = whole)]
    pub messages: u64,
    /// How many messages each node brings into the ring, 1 to 1024
    #[arg(long, value_name = "W", default_value_t = 32)]
    pub window: u32,
    /// How long a message is, 0 to 65536 bytes (with --sessions to 1024)
    #[arg(long, value_name = "B", default_value_t = 32)]
    pub bytes: u32,
    /// Pass messages on by tasks on the runtime, with its queue pairs
    #[arg(long)]
    pub tasks: bool,
    /// Pass messages on by tasks on the transport: sessions, credits, acknowledgements
    #[arg(long, conflicts_with = "tasks")]
    pub sessions: bool,
    /// Let the sanitizer watch, as it does in every other run
    #[arg(long)]
    pub sanitize: bool,
    /// Let latencies vary, as they do in runs of scenarios
    #[arg(long)]
    pub jitter: bool,
    /// The calibration profile; it decides how many events a message takes
    #[arg(long, value_name = "NAME", default_value = Ring::PROFILE)]
    pub profile: String,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// `weft bench SYSTEM`: requests of a system, without faults
///
/// Every node has one client that makes one request after the other. Runs are judged as `weft run` judges them. Rates
/// are of wall-clock time on this machine; latencies are in virtual time and the same in every run.
#[derive(Debug, Parser)]
#[command(name = "weft bench", max_term_width = 100, after_help = help::bench())]
pub struct BenchSystemArgs {
    /// The system, as `kind` of a scenario's workload
    pub system: String,
    /// How many nodes, 1 to 1024
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub nodes: u32,
    /// How many requests in all: each node makes as many as the others, and one at least
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = whole)]
    pub requests: u64,
    /// Measure this variant only
    #[arg(long, value_name = "NAME")]
    pub variant: Option<String>,
    /// The calibration profile
    #[arg(long, value_name = "NAME", default_value = "present-day")]
    pub profile: String,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// `weft run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The scenario, a TOML file (see `scenarios/` and docs/scenario.md)
    pub scenario: PathBuf,
    /// Where: on a simulated cluster or on real devices
    #[arg(long, value_name = "BACKEND", default_value = "sim")]
    #[cfg_attr(not(feature = "hw"), arg(hide = true))]
    pub backend: Backend,
    /// With --backend hw: the file with the run's secret, the same one on every machine; without it whoever reaches the port can take part
    #[arg(long, value_name = "FILE")]
    #[cfg_attr(not(feature = "hw"), arg(hide = true))]
    pub secret: Option<PathBuf>,
    /// Run with this seed instead of the scenario's own
    #[arg(long, value_name = "N", value_parser = whole)]
    pub seed: Option<u64>,
    /// Run once for each seed from A up to, not including, B
    #[arg(long, value_name = "A..B", conflicts_with_all = ["seed", "log"])]
    pub seeds: Option<Seeds>,
    /// Give a field of the scenario another value, as in --set workload.requests=50; several times
    #[arg(long, value_name = "FIELD=VALUE")]
    pub set: Vec<Override>,
    /// Write the event log to this file, or to standard output (-): one line for each thing that happened
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Write a page with the report into this directory, with a picture (SVG) where there is one: of sockets what arrived over time with
    /// the faults, of crashes how long they stopped whom
    #[arg(long, value_name = "DIR", conflicts_with = "seeds")]
    pub report: Option<PathBuf>,
    /// How many seeds run at a time [default: as many as there are processors]
    #[arg(long, value_name = "N", requires = "seeds", value_parser = some_jobs)]
    pub jobs: Option<std::num::NonZeroUsize>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
    /// Show what happens on the fabric, with virtual times, on stderr (-vv: every packet)
    #[arg(long, short, action = ArgAction::Count, conflicts_with = "seeds")]
    pub verbose: u8,
}

/// What a build without devices is told of commands that need one, all of which it refuses.
#[cfg(not(feature = "hw"))]
#[derive(Debug, Args)]
pub struct NoDevices {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _words: Vec<std::ffi::OsString>,
}

/// Where a scenario runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Backend {
    /// On a simulated cluster, in this process.
    Sim,
    /// On real devices: waits for its nodes, each started by `weft node --driven`.
    Hw,
}

/// `weft daemon`.
#[derive(Debug, Args)]
pub struct DaemonArgs {
    /// The configuration file; it can be the same on all machines
    pub config: PathBuf,
    /// Which node this is, from 0; otherwise the file or SLURM_PROCID says it
    #[arg(long, value_name = "N")]
    pub rank: Option<u32>,
    /// Make an empty directory this file server's store; without this it is refused, as that of a disk that is not mounted
    #[arg(long)]
    pub new_store: bool,
    /// From which level on lines are written: error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: tracing::Level,
    /// How lines are written to standard error
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log: LogFormat,
}

/// How lines of a log are written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// `weft status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The daemons' configuration file, which says where the coordinator is and which file has the secret
    pub config: Option<PathBuf>,
    /// Where the coordinator is; without it and without a file, on this machine
    #[arg(long, value_name = "HOST[:PORT]")]
    pub at: Option<weft_control::net::Endpoint>,
    /// The file with the cluster's secret
    #[arg(long, value_name = "FILE")]
    pub secret: Option<PathBuf>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

const DAEMON_EXAMPLES: &str = "\
Examples:
  A node, by systemd or by hand
    weft daemon /etc/weft/cluster.toml --rank 3
  A file server, the first time
    weft daemon /etc/weft/cluster.toml --rank 0 --new-store
  A cluster for as long as a Slurm job lasts
    srun -N 3 --ntasks-per-node 1 weft daemon cluster.toml
  With lines for programs
    weft daemon /etc/weft/cluster.toml --rank 3 --log json";

const STATUS_EXAMPLES: &str = "\
Examples:
  Of the cluster that a file is about
    weft status /etc/weft/cluster.toml
  For programs
    weft status --at n0:7471 --secret /etc/weft/secret --json";

/// `weft devices`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// `weft profiles`.
#[derive(Debug, Args)]
pub struct ProfilesArgs {
    /// Show every figure of this profile, with its unit and its source
    pub name: Option<String>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// `weft fsck`.
#[derive(Debug, Args)]
pub struct FsckArgs {
    /// The store's directory
    pub store: PathBuf,
    /// Print one JSON object instead of lines
    #[arg(long)]
    pub json: bool,
}
