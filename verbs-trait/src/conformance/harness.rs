//! What the suite asks of whoever runs it: fresh machines, time that passes, packets that get lost.

use crate::{Caps, Nanos, Node, PinnedMemory, Verbs};
use std::fmt;

/// A backend under test, with the means to disturb it.
///
/// A harness for the simulated fabric makes a world for each case; one for hardware opens its devices anew and
/// disturbs the cable between them, or answers that it cannot.
pub trait Harness {
    /// The backend.
    type V: Verbs;

    /// What the backend's devices can do.
    fn capabilities(&self) -> Caps;
    /// What this harness can do to them.
    fn harness_caps(&self) -> HarnessCaps;
    /// How long things take here.
    fn timing(&self) -> Timing;

    /// Fresh machines, nothing left of earlier ones and no fault in force. Each can reach each other one and
    /// itself. `seed` varies what is not determined (the order of simultaneous events, say).
    fn start(&mut self, nodes: usize, seed: u64) -> Result<Vec<Machine<Self::V>>, String>;

    /// The time now.
    fn now(&self) -> Nanos;
    /// Lets the world move for this long: exactly, where the clock is exact.
    fn advance(&mut self, span: Nanos);

    /// Puts a fault in force, on top of those that are. `None` where the harness cannot.
    fn inject(&mut self, fault: &Fault) -> Option<FaultId>;
    /// How many packets a fault has struck so far.
    fn struck(&self, fault: FaultId) -> u64;
    /// Ends a fault.
    fn heal(&mut self, fault: FaultId);

    /// Drives a node program on a machine while time advances. `false` where the harness cannot.
    fn mount(&mut self, node: usize, program: Box<dyn Node>) -> bool;
    /// Memory for registration, zeroed. `None` where the harness has none to bring.
    fn brought_memory(&mut self, len: usize) -> Option<Box<dyn PinnedMemory>>;
}

/// A machine of a case.
pub struct Machine<V: Verbs> {
    /// Its name in the network, as the connection manager takes it.
    pub name: String,
    /// Its first device.
    pub device: V::Device,
    /// The port to use.
    pub port: u8,
    /// The entry of the port's GID table to use (0 on InfiniBand, 1 for RoCE over IPv4).
    pub gid_index: u8,
    /// Its second device, with the name by which connection managers find that one. Needs
    /// [`HarnessCaps::SECOND_DEVICE`].
    pub second: Option<Box<Machine<V>>>,
}

/// How long things take on a backend. The suite derives its time-outs from it.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// An upper bound of a small message's way there and back, the processors' part included.
    pub round_trip: Nanos,
    /// How long to wait for what must happen before a case counts as failed.
    pub timeout: Nanos,
    /// How often to repeat a case that draws its faults by seed.
    pub seeds: u64,
}

bitflags::bitflags! {
    /// What a harness can do.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct HarnessCaps: u32 {
        /// Time is exact: `advance` moves it by what it was told, and nothing else moves it.
        const EXACT_CLOCK = 1 << 0;
        /// [`Fault::Strike`].
        const STRIKE = 1 << 1;
        /// [`Act::Shorten`] on responses.
        const SHORTEN = 1 << 2;
        /// [`Fault::Cut`].
        const CUT = 1 << 3;
        /// [`Fault::Noise`].
        const NOISE = 1 << 4;
        /// [`Fault::PortDown`].
        const PORT = 1 << 5;
        /// [`Harness::mount`].
        const MOUNT = 1 << 6;
        /// Machines of two devices.
        const SECOND_DEVICE = 1 << 7;
    }
}

impl fmt::Display for HarnessCaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter_names().map(|(n, _)| n.to_lowercase().replace('_', " ")).collect();
        f.write_str(&names.join(", "))
    }
}

/// Names a fault in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultId(pub u64);

/// A disturbance. Nodes go by their index in the case.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Acts on chosen packets of one direction: lets `skip` of the class pass, then acts on `count`.
    Strike {
        /// Sender of the packets.
        from: usize,
        /// Receiver of the packets; the sender itself for a loopback connection.
        to: usize,
        /// Which packets.
        class: PacketClass,
        /// How many to let pass first.
        skip: u64,
        /// How many to strike then; `u64::MAX` for all.
        count: u64,
        /// What to do.
        act: Act,
    },
    /// Nothing passes between two nodes, either way; nobody is told.
    Cut {
        /// One node.
        a: usize,
        /// The other.
        b: usize,
    },
    /// Random loss, duplication and delay, both ways between two nodes, packet by packet.
    Noise {
        /// One node.
        a: usize,
        /// The other.
        b: usize,
        /// Packets lost, in a million.
        loss: u32,
        /// Packets doubled, in a million.
        duplicate: u32,
        /// Packets delayed, in a million.
        delay: u32,
        /// The longest delay.
        at_most: Nanos,
        /// Where the draws begin.
        seed: u64,
    },
    /// A port loses its link, and its adapter sees it.
    PortDown {
        /// The node.
        node: usize,
        /// Its device, from 0.
        device: usize,
        /// The device's port.
        port: u8,
    },
}

/// What happens to a packet that is struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It passes, and is counted.
    Pass,
    /// It is lost.
    Drop,
    /// It arrives twice.
    Duplicate,
    /// It arrives this much later; later packets overtake it.
    Delay(Nanos),
    /// It arrives with a payload whose length is not what its request asked for: a faulty responder's answer.
    Shorten,
}

/// Kinds of packets, as a fault tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketClass {
    /// Every packet of queue pairs, but not the connection manager's.
    Any,
    /// Requests of every kind.
    Request,
    /// Requests of atomics.
    AtomicRequest,
    /// Acknowledgements.
    Ack,
    /// Negative acknowledgements, but not receiver-not-ready.
    Nak,
    /// Receiver-not-ready.
    Rnr,
    /// Answers to reads.
    ReadResponse,
    /// Answers to atomics.
    AtomicResponse,
    /// The connection manager's.
    Cm,
}
