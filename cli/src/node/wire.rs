//! What the nodes of a run and its judge tell each other, as JSON, by way of the control plane.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::ops::AddAssign;
use std::time::Duration;
use weft_check::MeshCounts;
use weft_check::oracle::Leftover;

/// How often a node says that it is alive.
pub const HEARTBEAT: Duration = Duration::from_millis(500);

/// From a node to the coordinator, about a system's events `E` and counts `C`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToCoordinator<E, C> {
    /// My devices have these addresses, by rail. The first word of a process.
    Hello { addresses: Vec<IpAddr> },
    /// What I have for each node to connect its queue pairs with mine, by rank, in hexadecimal, where nodes connect without the connection
    /// manager.
    Cards(Vec<String>),
    /// I have taken the others' cards, and am ready to receive.
    Receiving,
    /// My daemons run.
    Ready,
    /// A client saw this; answered by [`ToNode::Written`].
    Saw(E),
    /// I am alive.
    Alive,
    /// What keeps me from another node, and how often it came since I said so last.
    Trouble { why: String, times: u64 },
    /// I was asked to leave, and do.
    Leaving,
    /// My clients are done.
    ClientsDone,
    /// What is left at my end, what I counted, and how long my clients waited for [`ToNode::Written`].
    Rest { left: Vec<(String, u64)>, counts: Counts<C>, history: History },
}

/// To a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToNode {
    /// All nodes' addresses, by rank and rail; and how often this node has come back.
    Book { addresses: Vec<Vec<IpAddr>>, lives: u32 },
    /// What each node has for this one.
    Cards(Vec<String>),
    /// All nodes are ready to receive: the connections stand.
    Connect,
    /// All daemons run: begin. A node that comes back later is told how many milliseconds the others have been at it.
    Begin { passed: u64 },
    /// So many events have been written down.
    Written(u64),
    /// All clients are done: come to rest.
    ComeToRest,
    /// It is over.
    End,
    /// The run goes on without this node: why.
    Without(String),
}

/// What it costs a node's clients that nothing goes on before it is written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// How long they waited for that, in nanoseconds, all clients together.
    pub waited: u64,
    /// How long they lived, in nanoseconds, all clients together.
    pub lived: u64,
}

impl AddAssign for History {
    fn add_assign(&mut self, other: History) {
        self.waited += other.waited;
        self.lived += other.lived;
    }
}

/// What a node's service and transport counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts<C> {
    /// The service.
    pub service: C,
    /// The transport.
    pub mesh: MeshCounts,
}

impl<C: AddAssign> AddAssign for Counts<C> {
    fn add_assign(&mut self, other: Counts<C>) {
        self.service += other.service;
        self.mesh += other.mesh;
    }
}

/// A leftover as the oracles take it.
pub fn leftover(node: u32, (what, count): (String, u64)) -> Leftover {
    Leftover { node: Some(node), what, count }
}

/// A message as it travels.
pub fn body<T: Serialize>(message: &T) -> Vec<u8> {
    serde_json::to_vec(message).expect("plain data can always be written")
}
