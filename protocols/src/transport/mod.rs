//! The transport: this node's peers, connections to them on demand, messages in sessions that survive the
//! connections, and one-sided operations that say honestly what became of them.
//!
//! # What is promised
//!
//! - **Messages** from one node to another arrive in order and exactly once, across any number of
//!   reconnections, as long as neither node restarts. A restart is told as [`Incoming::PeerReset`] to every
//!   channel; what had not been acknowledged is dropped then and counted, never silently.
//! - **One-sided operations** are posted once. One that failed is [`OpError::NotExecuted`] or
//!   [`OpError::Unknown`]; the transport never sends it again. After [`Mesh::resolve_outcomes`] its outcome is fixed:
//!   what a protocol reads then, no late copy can change.
//! - **Connections** are made when something waits for them and again for as long as something does. A mesh at
//!   rest does nothing, and a connection at rest costs its buffers and nothing else. A launcher that connects
//!   queue pairs by itself can hand them over ([`Mesh::prepare`]); only the first connection is its affair.
//! - **No receiver is ever not ready**: credits see to it, and a part of them is kept for returning credits,
//!   so that they cannot deadlock.
//!
//! - **Rails.** A node may have several adapters ([`MeshConfig::other_rails`]). When a connection breaks, or the port
//!   that it goes over loses its link, the next one goes over the next rail. Messages and operations know nothing of it.
//!
//! What is not promised: that a call ends. A peer that cannot be reached is waited for; whoever cannot wait
//! sets a [deadline](crate::rt::Rt::deadline). What a dropped future had posted goes on.
//!
//! # How it is built
//!
//! | module | idea |
//! |---|---|
//! | `session` | order, retention, de-duplication and credits: a state machine without I/O |
//! | `link` | freeze, fence, report, resume: a state machine without I/O |
//! | `wire` | frames' headers and the private data of connections |
//! | `mesh`, `peer` | what a protocol sees; what is kept for each peer |
//! | `adopt` | connections that were made by other means |
//! | `bootstrap` | such a means: cards of queue pairs, which the caller carries |
//! | `driver`, `connect`, `due`, `to_do` | the one task that carries events in and actions out; what others leave to it |
//! | `hearing` | connections that a node makes to hear that it was left out |
//! | `leaving` | what those are told who know of a connection when the mesh closes |
//! | `room` | the line of those who wait for room among the kept messages |
//! | `frames`, `send_pool`, `content` | putting frames on a connection; the memory that they are sent from; what is written there |
//! | `expel`, `grounds` | incarnations of peers that are barred for good, and why |
//! | `rail`, `fail_back` | which rail a connection goes over, and the way back to the better one |
//! | `standby` | a connection that stands by on another rail |
//! | `steer` | what a user of several rails may know and want of them |
//! | `operations` | one-sided operations, and resolving them |
//! | `place` | a write and the message behind it, as one thing |
//! | `lists` | several of them posted together, on memory that the caller holds |
//! | `carried` | one-sided operations that messages carry to another rail's memory |
//! | `stand_in` | atomics that a processor executes, where the adapter has none |
//! | `troubles` | why connections could not be made or accepted |
//! | `guests` | peers that are known by their sessions alone, on one shared receive queue |
//! | `inbox` | where messages arrive |

mod adopt;
mod bootstrap;
mod carried;
mod config;
mod connect;
mod content;
mod driver;
mod due;
mod error;
mod expel;
mod fail_back;
mod fingerprint;
mod frames;
mod grounds;
mod guest_host;
mod guest_leases;
mod guest_slots;
mod guest_visits;
mod guests;
mod hearing;
mod inbox;
mod leaving;
mod link;
mod lists;
mod mesh;
#[cfg(test)]
mod on_fakes;
mod operations;
mod peer;
mod place;
mod rail;
mod room;
mod send_pool;
mod session;
mod stand_in;
mod standby;
mod steer;
mod to_do;
mod troubles;
mod wire;

pub use adopt::Prepared;
pub use bootstrap::{Acquainted, BootstrapError, Introduced};
pub use config::{Channel, MeshConfig, Planted, Rank};
pub use content::Content;
pub use error::{AdoptError, Lost, NotExecuted, OpError, SendError, TransportError};
pub(crate) use error::{BEFORE_MEMORY_IS_ASKED_FOR, lacks_memory};
pub use grounds::Grounds;
pub use guest_visits::{GuestAudit, Hold};
pub use guests::GuestConfig;
pub use inbox::{Inbox, Incoming, Message};
pub use mesh::{Mesh, MeshAudit, MeshStats};
pub use place::{Placed, Strike};
pub use rail::MOST_RAILS;
pub use troubles::{Cause, Rejection, Trouble};
