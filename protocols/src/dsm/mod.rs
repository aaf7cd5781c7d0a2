//! Distributed shared memory in minipages: memory that threads of all nodes of a cluster load and store, sequentially consistent.
//!
//! Source: kernel-dsm.txt, "In-Kernel Integration of Operating System and Infiniband Functions for High Performance Computing
//! Clusters: A DSM Example" (Liss, Birk and Schuster, IEEE TPDS 2005), whose protocol is Millipage's (Itzkovitz and Schuster, OSDI
//! 1999). An object is cut into **minipages**, each of a cache line or more, so that two words that different nodes write need
//! not share one. One node at a time may write a minipage, or several may read it.
//!
//! ```
//! use weft_protocols::dsm::{BarrierId, Dsm, DsmError, Grain, Placement};
//! use weft_verbs::Verbs;
//!
//! /// Run by every node of a cluster: each adds one, and all see the sum.
//! async fn count<V: Verbs>(dsm: &Dsm<V>, nodes: u32) -> Result<u64, DsmError> {
//!     let counters = dsm.named::<u64>(1, 8, Grain::Bytes(64), Placement::RoundRobin)?;
//!     let mut thread = dsm.thread();
//!     thread.fetch_add(counters, 0, 1).await?;
//!     thread.barrier(BarrierId(0), nodes).await?;
//!     thread.load(counters, 0).await
//! }
//! ```
//!
//! # Who does what
//!
//! | module | role |
//! |---|---|
//! | `thread`, `fault` | the requestor: accesses, and the faults that they wait in |
//! | `claim`, `pins` | elements that a thread has for itself, as a slice |
//! | `requests` | what the node has asked for, and how many threads wait for it |
//! | `directory` | the manager: owner, copies, version, one open transaction, a queue |
//! | `server` | what a node does when it has to share or give up |
//! | `pull` | a reader takes what is read elsewhere itself |
//! | `free` | memory is given back, and its names never |
//! | `views`, `follow`, `rebuild` | nodes that die: epochs, reports, and what is lost |
//! | `restart` | a node that restarts where nodes do not agree on who is alive: the end |
//! | `memory` | the bytes, and who may access them: `Memory` is all that the protocol asks |
//! | `service` | a node: its parts, and what is begun there |
//! | `handlers`, `sending` | messages in and out |
//! | `reach` | whom a message reaches |
//! | [`reading`](Reading) | what the paper leaves open |
//!
//! docs/dsm.md says why each race is safe.

mod barrier;
mod claim;
mod directory;
mod error;
mod fault;
mod follow;
mod free;
mod handlers;
mod memory;
mod messages;
mod pins;
mod pull;
mod reach;
mod reading;
mod rebuild;
mod requests;
mod restart;
mod sending;
mod server;
mod service;
mod shared;
mod stats;
mod thread;
mod views;

pub use barrier::BarrierId;
pub use claim::{Claim, ClaimMut, Elements};
pub use error::DsmError;
pub use messages::{Access, LONGEST};
pub use reading::Reading::{Otherwise, Repaired};
pub use reading::{Decision, Reading};
pub use service::{Alive, Charges, Dsm, DsmAudit, DsmConfig, STAMP};
pub use shared::{Grain, Number, ObjectId, PAGE, PageId, Placement, Plain, Shared, Word};
pub use stats::{DsmStats, Hottest, ObjectStats};
pub use thread::{Stamp, Thread};
