//! Who takes part, and how much of everything.

use super::guests::GuestConfig;
use super::wire::HEADER_LEN;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use weft_verbs::{AckTimeout, Mtu, Nanos, Retries, RnrTimer, Service};

/// A node's number within the mesh, from 1: zero is "nobody" in the words of the lock protocols
/// (N-CoSED, 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank(NonZeroU32);

impl Rank {
    /// The rank of that number; `None` for zero.
    pub const fn new(number: u32) -> Option<Rank> {
        match NonZeroU32::new(number) {
            Some(n) => Some(Rank(n)),
            None => None,
        }
    }

    /// The rank of the node at an index that counts from zero.
    pub const fn from_index(index: u32) -> Rank {
        match NonZeroU32::new(index.wrapping_add(1)) {
            Some(n) => Rank(n),
            None => panic!("a rank beyond 32 bits"),
        }
    }

    /// The number, from 1.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// Its place in a list of all nodes, from 0.
    pub const fn index(self) -> usize {
        (self.0.get() - 1) as usize
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A protocol's number on the connections that all protocols of a node share. 252, 253 and 255 are the transport's own: nobody
/// [opens](super::Mesh::open) them, and nobody is to send on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Channel(pub u8);

/// A node's place in the mesh, and the sizes of its buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshConfig {
    /// This node's own rank.
    pub me: Rank,
    /// The network names of all nodes, this one included, by rank: rank 1 is the first.
    pub peers: Arc<[String]>,
    /// The same names as `peers` on the nodes' further rails: on rail 1, on rail 2, and so on, up to seven. Default: none;
    /// nodes have one rail.
    ///
    /// Rails are in the order of preference. Connections are made over rail 0, and over the next in turn where that fails.
    /// A node's memory is reached over its rail 0 alone, since the atomics of two adapters are not atomic among each other
    /// (IBA 9.4.5): while a connection stands on another rail, one-sided operations are carried to the node by messages,
    /// and its own adapter executes them. So a node whose adapter of rail 0 fails has ended; one of another rail is taken
    /// for one whose port has lost its link.
    pub other_rails: Vec<Arc<[String]>>,
    /// How long a connection stays on a worse rail before it is tried to go back to a better one. Default: 1 s: to go back
    /// holds messages up for about as long as a connection takes to be made, a few milliseconds at the most, so that a
    /// rail that comes and goes costs less than one percent of the time. [`Nanos::MAX`] for never.
    pub hold_off: Nanos,
    /// Whether a connection stands by over another rail for each that stands: a failover does not wait until one is made, and
    /// a connection has twice the receive buffers. Of no effect with one rail. Default: true.
    pub standby: bool,
    /// The service that the mesh listens on. Default: 4791, which nobody else uses on an RDMA network.
    pub service: Service,
    /// The service that peers listen on, if it is another one. Default: none. Two meshes of one machine need two services.
    pub calls: Option<Service>,
    /// The port to use of each rail's device, from 1. Default: 1.
    pub port: u8,
    /// Largest message, in bytes. Every node of a mesh needs the same. Default: 256; a lock message has 32.
    pub max_message: u32,
    /// Receive buffers posted for each connection: the credits of its peer. At least 8. Default: 64.
    pub recv_buffers: u32,
    /// Most requests outstanding on one connection. At least 4. Default: 128, twice `recv_buffers`: with less,
    /// a flood of messages can hold up operations. Lists of operations have [three quarters](super::Mesh::longest_list) of it.
    pub send_depth: u32,
    /// Most messages kept for one peer until it acknowledges them, sent or not. Default: 4,096; beyond it
    /// [`Mesh::send`](super::Mesh::send) refuses.
    pub max_queued: u32,
    /// Bytes of buffers that are registered at a time, for each kind of buffer, or a quarter of what there is if that is more. Default:
    /// 16 KiB; less is for worlds that are built thousands of times a second.
    pub chunk: u32,
    /// Reads and atomics in flight on one connection, and served of the peer's. Default: 16, the limit of
    /// ConnectX adapters; lowered to the device's.
    pub rd_atomic: u8,
    /// Whether adapters execute atomics, where they can. Otherwise the processor of a word's node does, which its peers ask by messages: a
    /// longest message of at least 64 bytes. Default: true. Nodes need not agree.
    pub atomics: bool,
    /// How long a received message may go without acknowledgement when nothing travels back that could carry
    /// it. Default: 1 ms. Zero for not at all; [`Nanos::MAX`] for ever: then `probe_after` should be so, too.
    pub ack_delay: Nanos,
    /// How long messages may go unacknowledged before the peer is probed by an empty write, which finds out
    /// whether it has restarted. Default: 50 ms, well beyond `ack_delay`. [`Nanos::MAX`] for never: then a
    /// restarted peer is noticed when something else is sent to it, or by it.
    pub probe_after: Nanos,
    /// The most bytes of a packet of each connection, lowered to what both ports can. Default: the connection manager's say, which is the
    /// smaller of the ports'.
    pub mtu: Option<Mtu>,
    /// Traffic class of this node's packets, as their global route headers have it: on RoCE the DSCP in its upper six bits, by which
    /// switches tell what is lossless and what is marked. Default: 0, as the system has it.
    pub traffic_class: u8,
    /// Time-out of the adapter's acknowledgements. Default: exponent 14 (67 ms), `rdma_cm`'s usual choice.
    pub timeout: AckTimeout,
    /// The adapter's retries after a time-out. Default: 7.
    pub retry: Retries,
    /// The adapter's retries when the receiver is not ready. Credits keep that from happening; default 7,
    /// which is for ever.
    pub rnr_retry: Retries,
    /// What a receiver that is not ready asks for. Default: code 12 (0.64 ms), as in `libibverbs`' examples.
    pub rnr_timer: RnrTimer,
    /// The first pause before connecting again. It doubles with each failure. Default: 1 ms.
    pub reconnect_min: Nanos,
    /// The longest pause before connecting again. Default: 1 s.
    pub reconnect_max: Nanos,
    /// Whether this node takes guests, and how. Default: none.
    pub guests: Option<GuestConfig>,
    /// This node is a guest of its peers: they need not know its name, and it takes no connections. Its own name is the last of `peers`.
    /// Default: no.
    pub is_guest: bool,
    /// A mistake to be made, and found by an explorer. Default: none.
    #[cfg(feature = "planted")]
    pub planted: Option<Planted>,
}

/// Plausible mistakes. Test-only code: nothing makes them unless a world asks for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A dead rail's queue pair is left as it is, since nothing comes over it any more, and the receive position is reported
    /// before it is fenced.
    ReportsBeforeFence,
    /// One-sided operations are posted on whatever rail the connection stands on, with the key of the memory's rail.
    OtherRailsKey,
    /// An end that finds its connection dead lets what is in process on it end first, and fences it then (the thesis's 5.3).
    SuspendsDeadLink,
    /// An end goes over to another rail, and takes the other end to be where it was.
    MovesOneEnd,
    /// A new connection resumes from what was sent, not from what the peer reports to have received.
    ResumesFromSent,
    /// A node that begins anew uses the number of its last session again.
    ReusesSession,
    /// A processor that stands in for an adapter without atomics begins the next one before the last one has ended.
    OverlapsAtomics,
}

impl MeshConfig {
    /// Whether a mistake is to be made.
    pub(super) fn makes(&self, mistake: Planted) -> bool {
        #[cfg(feature = "planted")]
        return self.planted == Some(mistake);
        #[cfg(not(feature = "planted"))]
        {
            let _ = mistake;
            false
        }
    }

    /// The same node as a guest of the first so many of its peers: it knows them, and they do not know it.
    pub fn as_guest_of(self, servers: u32) -> MeshConfig {
        let (servers, own) = (servers as usize, self.peers[self.me.index()].clone());
        let peers: Vec<String> = self.peers.iter().take(servers).cloned().chain([own]).collect();
        let me = Rank::from_index(servers as u32);
        MeshConfig { me, peers: peers.into(), is_guest: true, standby: false, guests: None, ..self }
    }

    /// The same node among the first so many of its peers alone, and all others are its guests.
    pub fn with_guests(self, servers: u32, guests: GuestConfig) -> MeshConfig {
        let peers: Vec<String> = self.peers.iter().take(servers as usize).cloned().collect();
        MeshConfig { peers: peers.into(), guests: Some(guests), ..self }
    }

    /// How many rails nodes have.
    pub(super) fn rails(&self) -> u8 {
        self.other_rails.len() as u8 + 1
    }

    /// The name by which a rail's connection manager knows a node.
    pub(super) fn name(&self, rail: u8, rank: Rank) -> &str {
        let names = rail.checked_sub(1).map_or(&self.peers, |other| &self.other_rails[usize::from(other)]);
        &names[rank.index()]
    }

    /// The service at which a node listens.
    pub(super) fn service_of(&self, rank: Rank) -> Service {
        if rank == self.me { self.service } else { self.calls.unwrap_or(self.service) }
    }

    /// How long an adapter asks for an acknowledgement before it gives a connection up, at least: it asks once and `retry` times more, and
    /// waits for one time-out each time, which may take it up to four times as long. None: it never does.
    pub fn detection(&self) -> Option<Nanos> {
        Some(self.timeout.span()? * (u64::from(self.retry.count()) + 1))
    }

    /// How many bytes of buffers a busy connection to another node takes, on this side of it: its receive buffers, those of one that
    /// [stands by](MeshConfig::standby) for it, and those of as many messages in flight as it has receive buffers, which is what credits
    /// allow.
    pub fn buffer_bytes(&self) -> u64 {
        let receives = if self.standby && self.rails() > 1 { 2 } else { 1 };
        (receives + 1) * u64::from(self.recv_buffers) * self.frame_bytes()
    }

    /// How many bytes of buffers the guests of this node share, if it takes any.
    pub fn shared_bytes(&self) -> u64 {
        self.guests.map_or(0, |guests| u64::from(guests.common) * self.frame_bytes())
    }

    /// How many bytes the buffer of a message has.
    fn frame_bytes(&self) -> u64 {
        (HEADER_LEN as u64 + u64::from(self.max_message)).next_multiple_of(8)
    }

    /// The defaults, for a node among its peers. Their names are those of the network: on machines, names whose addresses the backend was
    /// told first (`name_peer`), or addresses in digits.
    pub fn new(me: Rank, peers: Vec<String>) -> MeshConfig {
        MeshConfig {
            me,
            peers: peers.into(),
            other_rails: Vec::new(),
            hold_off: Nanos::from_secs(1),
            standby: true,
            service: Service(4791),
            calls: None,
            port: 1,
            max_message: 256,
            recv_buffers: 64,
            send_depth: 128,
            max_queued: 4_096,
            chunk: 16 * 1024,
            rd_atomic: 16,
            atomics: true,
            mtu: None,
            traffic_class: 0,
            ack_delay: Nanos::from_millis(1),
            probe_after: Nanos::from_millis(50),
            timeout: AckTimeout::new(14).expect("an exponent below 32"),
            retry: Retries::MOST,
            rnr_retry: Retries::FOREVER,
            rnr_timer: RnrTimer::new(12).expect("a code below 32"),
            reconnect_min: Nanos::from_millis(1),
            reconnect_max: Nanos::from_secs(1),
            guests: None,
            is_guest: false,
            #[cfg(feature = "planted")]
            planted: None,
        }
    }
}
