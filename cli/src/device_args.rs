//! The command lines of commands that drive an RDMA device, and how one is chosen.

use crate::port_args::PortArgs;
use crate::whole::whole;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use weft_check::scenario::{Connect, Override};
use weft_verbs::Wait;

pub const NODE_EXAMPLES: &str = "\
Examples:
  Three machines under Slurm
    srun -N 3 --ntasks-per-node 1 weft node scenarios/quick-3.toml
  The same under Open MPI, typed on a
    mpirun -N 1 --host a,b,c weft node scenarios/quick-3.toml
  By hand, on each of them
    weft node scenarios/quick-3.toml --rank 0 --meet a";

/// `weft node`.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// The scenario, a TOML file; the same one on every machine. Its faults are for the simulator
    pub scenario: PathBuf,
    /// Which node this is, from 0 [default: SLURM_PROCID or OMPI_COMM_WORLD_RANK]
    #[arg(long, value_name = "N")]
    pub rank: Option<u32>,
    /// How many nodes there are [default: the launcher's number, or the scenario's]
    #[arg(long, value_name = "N")]
    pub nodes: Option<u32>,
    /// The machine of node 0, where all meet [default: the first of Slurm's list, or where mpirun was typed]
    #[arg(long, value_name = "HOST")]
    pub meet: Option<String>,
    /// The TCP port at which they meet [default: 7471]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// The file with the run's secret, the same one on every machine; without it whoever reaches the port can take part
    #[arg(long, value_name = "FILE")]
    pub secret: Option<PathBuf>,
    /// The device, its port and its address, if not as the scenario says
    #[command(flatten)]
    pub on: DeviceArgs,
    /// The traffic class of its packets: on RoCE the DSCP times four [default: 0, as the system has it]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub traffic_class: u8,
    /// The machine's disk: a directory that is empty or this node's store already (`weft fsck` looks at it)
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// How the node learns of completions, if not as the scenario says
    #[arg(long, value_name = "STYLE")]
    pub wait: Option<WaitArg>,
    /// How the first connections are made, if not as the scenario says; the same on every machine
    #[arg(long, value_name = "WAY")]
    pub connect: Option<ConnectArg>,
    /// Run with this seed instead of the scenario's own
    #[arg(long, value_name = "N", value_parser = whole)]
    pub seed: Option<u64>,
    /// Give a field of the scenario another value, as in --set workload.requests=50; several times
    #[arg(long, value_name = "FIELD=VALUE")]
    pub set: Vec<Override>,
    /// `weft run --backend hw` waits at the meeting place: node 0 does not judge
    #[arg(long)]
    pub driven: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Which RDMA device, and where on it.
#[derive(Debug, Args)]
pub struct DeviceArgs {
    /// The RDMA device; `weft node` takes one for each rail of its scenario [default: the first that has an IP address]
    #[arg(long = "device", value_name = "NAME")]
    pub devices: Vec<String>,
    /// Its port and its address
    #[command(flatten)]
    pub at: PortArgs,
}

/// How a node's first connections are made. Those that replace broken ones are the connection manager's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ConnectArg {
    /// By the connection manager, when they are needed.
    Cm,
    /// All at the start: the nodes tell each other their queue pairs where they meet.
    Oob,
}

impl ConnectArg {
    /// The scenario's name for it.
    pub fn connect(self) -> Connect {
        match self {
            ConnectArg::Cm => Connect::Cm,
            ConnectArg::Oob => Connect::Oob,
        }
    }
}

/// How a node learns of completions.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum WaitArg {
    /// It spins on its completion queues.
    Poll,
    /// It sleeps until it is told.
    Notify,
}

impl WaitArg {
    /// The contract's word.
    pub fn wait(self) -> Wait {
        match self {
            WaitArg::Poll => Wait::Poll,
            WaitArg::Notify => Wait::Notify,
        }
    }
}

pub const CALIBRATE_EXAMPLES: &str = "\
Examples:
  The first device
    weft calibrate blue.toml
  Another one, with the rest of an older machine
    weft calibrate blue.toml --device mlx5_1 --base ncosed-2007
  A scenario on machines like that
    weft run scenarios/lock-service-16.toml --set cluster.profile=blue.toml";

/// `weft calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// The file to write, which must end in `.toml`; without it the figures are shown only
    pub file: Option<PathBuf>,
    /// The device, its port and its address
    #[command(flatten)]
    pub on: DeviceArgs,
    /// The profile whose figures stand where nothing is measured: a name or a file
    #[arg(long, value_name = "PROFILE", default_value = "present-day")]
    pub base: String,
    /// How often each operation is measured
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rounds: u32,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}
