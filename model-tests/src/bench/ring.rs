//! Messages that run round a ring of reliable connections.
//!
//! Every node starts with a window of messages and passes on each that it receives to the next node, until so
//! many have arrived in all.

use super::{BenchError, Took, process, rate, sessions, stations, tasks, timed, within};
use serde::Serialize;
use std::any::Any;
use std::cell::Cell;
use std::rc::Rc;
use weft_sim::choice::{Choice, First, Seeded};
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, Jitter, NodeId, Order, Stats};
use weft_verbs::Nanos;

/// What passes the messages on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stack {
    /// State machines written by hand: what is measured is the fabric.
    Nodes,
    /// Tasks on the runtime, with its queue pairs.
    Tasks,
    /// Tasks on the transport: sessions, credits and acknowledgements as well.
    Sessions,
}

/// A ring to be measured.
#[derive(Clone, Debug)]
pub struct Ring {
    /// How many nodes, 1 to 16,384, in sessions at least 2. A ring of one sends to itself.
    pub nodes: u32,
    /// How many messages arrive before nobody passes on any more, 1 to 10^12.
    pub messages: u64,
    /// How many messages each node brings into the ring, 1 to 1,024.
    pub window: u32,
    /// Their length, 0 to 65,536 bytes; in sessions at most 1,024.
    pub bytes: u32,
    /// What passes them on.
    pub stack: Stack,
    /// Whether the sanitizer watches, as it does in every other run.
    pub sanitize: bool,
    /// Whether latencies vary as they do in runs of scenarios.
    pub jitter: bool,
    /// What everything costs in virtual time. It decides how many events a message takes.
    pub profile: Profile,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct RingFigures {
    /// How many nodes.
    pub nodes: u32,
    /// The window of each.
    pub window: u32,
    /// The length of a message.
    pub bytes: u32,
    /// What passed the messages on.
    pub stack: Stack,
    /// Whether the sanitizer watched.
    pub sanitize: bool,
    /// Whether latencies varied.
    pub jitter: bool,
    /// The calibration profile.
    pub profile: String,
    /// Messages that arrived; a few more than asked for, because those on their way arrive.
    pub messages: u64,
    /// Messages a second of wall clock.
    pub messages_per_second: f64,
    /// How long that took in virtual time.
    pub virtual_seconds: f64,
    /// How long it took in wall-clock time, the building of the cluster aside.
    pub wall_seconds: f64,
    /// For how long of that the thread had a processor: on a machine with other work the better measure. `None`
    /// where the system does not say.
    pub cpu_seconds: Option<f64>,
    /// Messages a second of that.
    pub messages_per_cpu_second: Option<f64>,
    /// How long building the cluster took in wall-clock time.
    pub build_seconds: f64,
    /// The most memory that the process has had, in bytes; `None` where the system does not say.
    pub peak_bytes: Option<u64>,
    /// What an idle node added to the process's memory, its device opened and nothing else.
    /// `None` for fewer than 256.
    pub bytes_per_node: Option<u64>,
    /// What a connection added, both queue pairs with their completion queues, before anything was posted.
    /// `None` for fewer than 256, and where connections are made in the run.
    pub bytes_per_connection: Option<u64>,
    /// Events that the fabric processed.
    pub events: u64,
    /// Packets that left an adapter.
    pub packets: u64,
    /// Steps of nodes.
    pub steps: u64,
    /// Packets sent again.
    pub retransmitted: u64,
}

/// How many messages have arrived, and how many shall.
pub(super) struct Tally {
    arrived: Cell<u64>,
    wanted: u64,
}

impl Tally {
    /// Notes arrivals.
    pub(super) fn add(&self, count: u32) {
        self.arrived.set(self.arrived.get() + u64::from(count));
    }

    /// Whether nobody need pass on any more.
    pub(super) fn is_full(&self) -> bool {
        self.arrived.get() >= self.wanted
    }
}

impl Ring {
    /// The profile by which rings are measured if nobody says otherwise. It decides how many events a message takes.
    pub const PROFILE: &'static str = "ncosed-2007";

    /// Two million messages of 32 bytes on 16 nodes with a window of 32, on the lock paper's machines.
    pub fn new(profile: Profile) -> Ring {
        Ring {
            nodes: 16,
            messages: 2_000_000,
            window: 32,
            bytes: 32,
            stack: Stack::Nodes,
            sanitize: false,
            jitter: false,
            profile,
        }
    }

    fn check(&self) -> Result<(), BenchError> {
        // A node's session with itself crosses no fabric.
        let (fewest, longest) = match self.stack {
            Stack::Sessions => (2, sessions::LONGEST),
            Stack::Nodes | Stack::Tasks => (1, 1 << 16),
        };
        within("nodes", self.nodes, fewest, 1 << 14)?;
        within("messages", self.messages, 1, 1_000_000_000_000)?;
        within("window", self.window, 1, 1 << 10)?;
        within("bytes", self.bytes, 0, longest)
    }

    /// Builds the ring and lets the messages run.
    pub fn run(&self) -> Result<RingFigures, BenchError> {
        self.check()?;
        let tally = Rc::new(Tally { arrived: Cell::new(0), wanted: self.messages });
        let mut size = [process::resident(), None, None];
        let (build, built) = timed(|| {
            let fabric = self.fabric()?;
            size[1] = process::resident();
            let kept = self.populate(&fabric, &tally, &mut size[2])?;
            Ok((fabric, kept))
        });
        let (fabric, _kept) = built?;
        let (took, _) = timed(|| fabric.run_until(Nanos::MAX));
        if !tally.is_full() {
            let arrived = tally.arrived.get();
            return Err(BenchError::Broken(format!("{arrived} of {} messages arrived", self.messages)));
        }
        let each = |from: usize| process::each(size[from], size[from + 1], self.nodes.into());
        Ok(self.figures(tally.arrived.get(), [build, took], [each(0), each(1)], &fabric))
    }

    fn fabric(&self) -> Result<Fabric, BenchError> {
        let mut config = Config::new(self.nodes, self.profile.clone());
        config.order = Order::Fifo;
        config.sanitize = self.sanitize;
        let choice: Box<dyn Choice> = match self.jitter {
            true => Box::new(Seeded::new(0)),
            false => Box::new(First),
        };
        config.jitter = if self.jitter { Jitter::USUAL } else { Jitter::NONE };
        let fabric = Fabric::new(config, choice).map_err(BenchError::cluster)?;
        for node in 0..self.nodes {
            drop(fabric.devices(NodeId(node)));
        }
        Ok(fabric)
    }

    /// Builds what passes the messages on. The result keeps every queue pair until the ring has run dry: one
    /// that went away early would let its peer wait for acknowledgements.
    fn populate(
        &self,
        fabric: &Fabric,
        tally: &Rc<Tally>,
        size: &mut Option<u64>,
    ) -> Result<Box<dyn Any>, BenchError> {
        match self.stack {
            Stack::Nodes => {
                let places = stations::build(self, fabric)?;
                *size = process::resident();
                stations::start(self, fabric, &places, tally)?;
                Ok(Box::new(places))
            }
            Stack::Tasks => {
                let places = tasks::build(self, fabric)?;
                *size = process::resident();
                tasks::start(self, fabric, &places, tally);
                Ok(Box::new(places))
            }
            Stack::Sessions => Ok(Box::new(sessions::start(self, fabric, tally)?)),
        }
    }

    fn figures(
        &self,
        messages: u64,
        [build, took]: [Took; 2],
        each: [Option<u64>; 2],
        fabric: &Fabric,
    ) -> RingFigures {
        let Stats { events, packets, steps, retransmitted, .. } = fabric.stats();
        let [bytes_per_node, bytes_per_connection] = each;
        RingFigures {
            nodes: self.nodes,
            window: self.window,
            bytes: self.bytes,
            stack: self.stack,
            sanitize: self.sanitize,
            jitter: self.jitter,
            profile: self.profile.name.clone(),
            messages,
            messages_per_second: rate(messages, took.wall),
            virtual_seconds: fabric.now().as_secs_f64(),
            wall_seconds: took.wall,
            cpu_seconds: took.cpu,
            messages_per_cpu_second: took.cpu.map(|seconds| rate(messages, seconds)),
            build_seconds: build.wall,
            peak_bytes: process::peak(),
            bytes_per_node,
            bytes_per_connection,
            events,
            packets,
            steps,
            retransmitted,
        }
    }
}
