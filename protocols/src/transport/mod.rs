//! The transport: this node's peers, connections to them on demand, messages in sessions that survive the
//! connections, and one-sided operations that say honestly what became of them.

mod config;
mod connect;
mod driver;
mod due;
mod error;
mod frames;
mod inbox;
mod link;
mod mesh;
mod operations;
mod peer;
mod session;
mod wire;

pub use config::{Channel, MeshConfig, Rank};
pub use error::{Lost, NotExecuted, OpError, SendError, TransportError};
pub use inbox::{Inbox, Incoming, Message};
pub use mesh::{Mesh, MeshAudit, MeshStats};
