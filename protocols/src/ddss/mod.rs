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
//! nobody reads, and publishes it by one compare-and-swap on the segment's header: a version, the slot's number and the lock's holder in
//! one word. Write and swap are one posted list: the adapter executes them in order, and no swap behind a write that failed. A get
//! reads the header, the slot that it guesses, and the header again, in one list, too: if both headers are of one version, nobody has
//! published meanwhile, so nobody has begun to write the slot again, and what was read is one put's whole value.
//!
//! Each node has slots of its own, two as a rule: the one that may be published, and the one to write next. Under delta(x) it has
//! x + 2, and before each value stands the header that it superseded, so that earlier versions are found one after the other. A node
//! writes its slots in turn; when it comes back to one, more versions were published since than can be asked for. Puts of one node
//! to one segment take their turns.
//!
//! # What each model does
//!
//! | model | get | put |
//! |---|---|---|
//! | null | reads in place | writes in place |
//! | write, strict | header, slot, header; strict waits while somebody has the lock | slot, swap; waits while somebody has the lock |
//! | read | takes the lock, reads, gives it back, in one list | the same |
//! | version, delta(x) | the header alone, if the caller's version is the latest, or at most x behind; else as write | the same |
//! | temporal(t) | nothing, if the caller's version was seen to be the latest within t; else as version | the same |
//!
//! Temporal measures t by the node's own clock, from before it asked; clocks that run wrong by up to
//! [`Model::DRIFT`] millionths are allowed for.
//!
//! Calls that others come before twice, and those that find a segment locked, wait in a line at its home, which hands turns over by
//! messages (`line`).
//!
//! # Release
//!
//! A segment's memory is a part of a larger registration, with keys of its own (`memory`). A release drains all nodes, revokes the keys
//! and only then lets another segment have the memory; who comes too late ends with [`DdssError::Released`] (`release`).
//!
//! # A node that dies
//!
//! Where nodes agree on who is alive ([`Ddss::start_among`]), one that dies blocks nobody, and one that comes back has a part in the segments
//! again (`follow`).
//!
//! # What is not there yet
//!
//! What a node that died kept is not kept elsewhere. A lock whose home is not the data's; the daemon's rings. A get or a put of a part of a
//! segment; calls from many threads.

mod allocate;
mod error;
mod follow;
mod get;
mod going;
mod header;
mod home;
mod io;
mod key;
mod line;
mod lock;
mod memory;
mod messages;
mod model;
pub mod named;
mod parties;
mod parts;
mod pool;
mod put;
mod queue;
mod release;
mod segment;
mod service;
mod stats;
mod transfer;

pub use error::DdssError;
pub use header::Header;
pub use key::{Key, Placement};
pub use lock::Held;
pub use model::{Model, Name, Spec};
pub use pool::Holdings;
pub use segment::Segment;
pub use service::Ddss;
pub use stats::DdssStats;
pub use transfer::Transfer;
