//! The control plane of a cluster: how its nodes meet, join, leave and are asked.
//!
//! Nodes of an RDMA cluster have to find each other before they can connect: each needs the others' addresses, and later
//! has to learn who came, left or was lost. One process, the [`coordinator`], listens on TCP for all of them. It knows no
//! system that runs on the cluster: what nodes tell each other of their adapters is opaque to it, and so is what systems
//! report of themselves.
//!
//! Everything is generic over [`net::Network`]. [`net::Tcp`] is the machine's; the tests put turmoil's in its place and
//! crash, partition and hang whole clusters of the code that is shipped.
//!
//! | module | what it is |
//! |---|---|
//! | [`net`] | the few things that are needed of a network |
//! | [`frame`] | messages of bounded length on a byte stream, sealed once both ends have proved that they know the secret |
//! | [`secret`] | the cluster's secret: its file, proofs, and the keys of a connection |
//! | [`handshake`] | what happens on a new connection before anything else |
//! | [`message`] | what is said after it |
//! | [`refusal`] | why somebody is turned away, word by word |
//! | [`roster`] | the coordinator's decisions: a state machine without I/O |
//! | [`coordinator`] | the coordinator's sockets and tasks |
//! | [`member`] | a node's side: join, stay, leave |
//! | [`ask`] | a client's side: questions |
//! | `calls` | calls of clients to systems of nodes that have not been answered |
//! | `clients` | the connections of clients: those that ask, and those that stay for a while |
//! | [`daemon`] | a node that lives: its configuration, its metrics, from its start to its leaving |

pub mod ask;
pub mod coordinator;
pub mod daemon;
pub mod frame;
pub mod handshake;
pub mod member;
pub mod message;
pub mod net;
pub mod refusal;
pub mod roster;
pub mod secret;
pub mod timing;

mod calls;
mod clients;
mod connection;
mod doorkeeper;
mod keep;
mod lines;
mod refused;

/// The port of a coordinator unless another one is given.
pub const PORT: u16 = 7_471;
