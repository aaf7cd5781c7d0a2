//! Devices, their ports and addresses, and the context in which a device is opened.

use crate::{Caps, CqId, Mtu, Nanos, QpNum, Result, SrqId, Verbs};
use std::fmt;

/// An RDMA device that can be opened.
pub trait Device<V: Verbs>: Clone + 'static {
    /// The name by which an administrator knows it: `mlx5_0`, `rxe0`, `sim0`.
    fn name(&self) -> &str;
    /// Opens it.
    fn open(&self) -> Result<V::Context>;
}

/// An open device: the parent of every other object. Clones are the same context.
pub trait Context<V: Verbs>: Clone + 'static {
    /// What the device can do and how much of it.
    fn device_attr(&self) -> DeviceAttr;
    /// A port's state. Ports count from 1, as in the specification.
    fn port_attr(&self, port: u8) -> Result<PortAttr>;
    /// An entry of a port's GID table.
    fn gid(&self, port: u8, index: u8) -> Result<Gid>;
    /// A protection domain: what keeps one user's queue pairs from another's memory.
    fn alloc_pd(&self) -> Result<V::Pd>;
    /// A channel that completion queues report their events to.
    fn create_channel(&self) -> Result<V::Channel>;
    /// A completion queue with room for at least `cqe` completions. Without a channel it can only be polled.
    fn create_cq(&self, cqe: u32, channel: Option<&V::Channel>) -> Result<V::Cq>;
    /// Takes the oldest asynchronous event, if there is one. Never blocks.
    fn async_event(&self) -> Option<AsyncEvent>;
    /// The connection manager of this device.
    fn connection_manager(&self) -> Result<V::Cm>;
    /// Byte streams between machines, beside the fabric.
    fn out_of_band(&self) -> Result<V::Oob>;
    /// The disk of the machine.
    fn disk(&self) -> Result<V::Disk>;
    /// What the machine offers to the node that runs on it.
    fn host(&self) -> V::Host;
}

/// A 16-byte global identifier of a port (IBA 4.1.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Gid(pub [u8; 16]);

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&std::net::Ipv6Addr::from(self.0).to_string())
    }
}

/// A device's capabilities and limits (IBA 11.2.1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceAttr {
    /// The device's globally unique identifier.
    pub node_guid: u64,
    /// The adapter's model or driver, for people.
    pub model: String,
    /// What it can do, as known to be true (some devices advertise what they lack).
    pub caps: Caps,
    /// Number of ports.
    pub ports: u8,
    /// Most queue pairs.
    pub max_qp: u32,
    /// Most outstanding requests on one work queue.
    pub max_qp_wr: u32,
    /// Most scatter or gather entries of one request.
    pub max_sge: u32,
    /// Most bytes of inline data in one send request. `ibverbs` does not tell what a device takes: there the device is asked for queue pairs
    /// with less and less of it, from 220 bytes on, until it grants one.
    pub max_inline: u32,
    /// Most completion queues.
    pub max_cq: u32,
    /// Most completions in one completion queue.
    pub max_cqe: u32,
    /// Most memory regions.
    pub max_mr: u32,
    /// Largest memory region, in bytes.
    pub max_mr_size: u64,
    /// Largest message, in bytes. A longer list of ranges is refused when it is posted.
    pub max_msg: u32,
    /// Most reads and atomics that a queue pair serves at a time, as responder.
    pub max_dest_rd_atomic: u8,
    /// Most reads and atomics that a queue pair has in flight, as requester.
    pub max_rd_atomic: u8,
    /// Most shared receive queues.
    pub max_srq: u32,
    /// Most outstanding requests on one shared receive queue.
    pub max_srq_wr: u32,
}

/// Whether a port can carry traffic (IBA 14.2.5.6, PortInfo:PortState).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortState {
    /// No link.
    Down,
    /// Link, but not configured yet.
    Init,
    /// Configured, not active yet.
    Armed,
    /// Carries traffic.
    Active,
}

/// What lies under the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkLayer {
    /// InfiniBand: local identifiers, a subnet manager.
    InfiniBand,
    /// Ethernet: RoCE.
    Ethernet,
}

/// A port's attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortAttr {
    /// Its state now.
    pub state: PortState,
    /// Its link layer.
    pub link_layer: LinkLayer,
    /// Largest path MTU that the port allows.
    pub max_mtu: Mtu,
    /// Path MTU in use.
    pub active_mtu: Mtu,
    /// Local identifier; 0 on Ethernet.
    pub lid: u16,
    /// Number of entries of the GID table.
    pub gids: u8,
    /// Data rate in bits a second, after line coding.
    pub bits_per_second: u64,
}

/// An asynchronous event of a device (IBA 11.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AsyncEvent {
    /// A queue pair failed: a local work queue error that no completion reports.
    QpFatal(QpNum),
    /// The responder refused a request that it has no way to answer (11.6.3.3).
    QpRequestError(QpNum),
    /// The responder detected an access violation (11.6.3.3).
    QpAccessError(QpNum),
    /// The first message arrived on a queue pair that is still ready-to-receive.
    CommEstablished(QpNum),
    /// The send queue has drained, as asked for by a move to SQD.
    SqDrained(QpNum),
    /// The connection moved to its alternate path (11.6.3.1).
    PathMigrated(QpNum),
    /// The peer moved to a path that is not the alternate one loaded here (11.6.3.3).
    PathMigrationFailed(QpNum),
    /// The last work request of a queue pair in error, attached to a shared receive queue, was consumed.
    LastWqe(QpNum),
    /// A completion queue overran or failed.
    CqError(CqId),
    /// A shared receive queue failed.
    SrqError(SrqId),
    /// A shared receive queue has fewer requests than its armed limit.
    SrqLimit(SrqId),
    /// A port became active.
    PortActive(u8),
    /// A port lost its link.
    PortError(u8),
    /// A port's local identifier changed.
    LidChange(u8),
    /// A port's GID table changed.
    GidChange(u8),
    /// The device failed; nothing on it works any more. It may be the last that is heard of it: a node has ended when the device of its
    /// memory, the first one, says so.
    DeviceFatal,
    /// An event that this contract has no name for, by its number.
    Unknown(u32),
}

/// The time-out of acknowledgements, an exponent (IBA 9.7.6.1.3, "Local ACK Timeout"): 4.096 us x 2^n.
///
/// The adapter's timer fires between one and four times that. 0 is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AckTimeout(u8);

impl AckTimeout {
    /// No time-out: a lost packet waits for ever.
    pub const NEVER: AckTimeout = AckTimeout(0);

    /// The exponent `n`, 0 to 31.
    pub const fn new(n: u8) -> Option<AckTimeout> {
        if n < 32 { Some(AckTimeout(n)) } else { None }
    }

    /// The smallest exponent whose time-out is at least `span`.
    pub const fn at_least(span: Nanos) -> AckTimeout {
        let mut n = 1;
        while n < 31 && (4_096u64 << n) < span.0 {
            n += 1;
        }
        AckTimeout(n)
    }

    /// The exponent.
    pub const fn exponent(self) -> u8 {
        self.0
    }

    /// The nominal span, or `None` for never.
    pub const fn span(self) -> Option<Nanos> {
        if self.0 == 0 { None } else { Some(Nanos(4_096 << self.0)) }
    }
}

/// The delay that a responder without a receive buffer asks for, as a code (IBA 9.7.5.2.8, table 45).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RnrTimer(u8);

/// IBA table 45, in units of 10 microseconds. Code 0 is the longest.
const RNR_TIMER_10US: [u32; 32] = [
    65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048,
    3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
];

impl RnrTimer {
    /// The code `n`, 0 to 31.
    pub const fn new(n: u8) -> Option<RnrTimer> {
        if n < 32 { Some(RnrTimer(n)) } else { None }
    }

    /// The code.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The delay: 0.01 ms for code 1, up to 655.36 ms for code 0.
    pub const fn span(self) -> Nanos {
        Nanos(RNR_TIMER_10US[self.0 as usize] as u64 * 10_000)
    }
}

/// How often a request is sent again, 0 to 7.
///
/// As the transport's retry count, 7 is seven times. As the receiver-not-ready count, 7 is for ever
/// (IBA 9.7.5.2.8); [`Retries::FOREVER`] says so by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Retries(u8);

impl Retries {
    /// Not once.
    pub const NONE: Retries = Retries(0);
    /// The most that the 3-bit field holds.
    pub const MOST: Retries = Retries(7);
    /// For ever, where the count is of receiver-not-ready answers.
    pub const FOREVER: Retries = Retries(7);

    /// `n` times, 0 to 7.
    pub const fn new(n: u8) -> Option<Retries> {
        if n < 8 { Some(Retries(n)) } else { None }
    }

    /// The number.
    pub const fn count(self) -> u8 {
        self.0
    }
}
