//! Shared data segments: memory that all nodes of a cluster share, by one-sided get and put.
//!
//! Source: ddss.txt, "DDSS: A Low-Overhead Distributed Data Sharing Substrate for Cluster-Based Data-Centers over Modern
//! Interconnects" (Vaidyanathan, Narravula and Panda, OSU-CISRC-1/06-TR06, 2006). A segment has a name, a size and a coherence [`Model`]; its
//! home keeps it, and every node reads and writes it without disturbing the home's processor.
//!
//! ```
//! use weft_protocols::ddss::{Ddss, DdssError, Model, Name, Spec};
//! use weft_verbs::Verbs;
//!
//! async fn publish<V: Verbs>(ddss: &Ddss<V>) -> Result<(), DdssError> {
//!     let load = ddss.open(Name(7), Spec { size: 64, model: Model::Write }).await?;
//!     ddss.put(&load, &[1; 64]).await?;
//!     let mut seen = [0; 64];
//!     ddss.get(&load, &mut seen).await?;
//!     Ok(())
//! }
//! ```
//!
//! # How a value is published
//!
//! A value larger than a word cannot be written in one piece, and a writer may die in the middle. So a put writes a slot that
//! nobody reads, and publishes it by one compare-and-swap on the segment's header: a version and the slot's number in one
//! word. A get reads the header, the slot, and the header again: if that is the same, nobody has published meanwhile, so
//! nobody has begun to write the slot again, and what was read is one put's whole value.
//!
//! Each node has two slots of its own: the one that may be published, and the one to write next. Puts of one node to one
//! segment take their turns.
//!
//! # What is there, and what is not yet
//!
//! The paper's models null, version, write and strict. Write and strict are the same here: both are linearizable. To come:
//! read, delta and temporal; locks on segments; release; placement other than by name; the daemon's rings; a home that dies.

mod client;
mod error;
mod header;
mod home;
mod messages;
mod model;
mod service;
mod stats;

pub use error::DdssError;
pub use header::Header;
pub use model::{Model, Name, Spec};
pub use service::{Ddss, Segment};
pub use stats::DdssStats;
