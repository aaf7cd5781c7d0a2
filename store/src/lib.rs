//! A server's store on a real file system: the contract's [disk](weft_verbs::Disk) as files of a directory.
//!
//! | module | idea |
//! |---|---|
//! | [`Directory`] | whose store a directory is, and that one server has it open |
//! | [`Objects`] | one call after the other, each blocking: create, read, write, sync, ... |
//! | [`Pool`] | threads that make such calls, and say when they have ended |
//! | [`Calls`] | who waits for those of one node, and what each holds |
//! | [`Request`] | a call of the contract, and what its user gets back |
//! | [`Recording`] | a run's journal, and what a power cut at any moment of it may have left |
//!
//! `hw-backend` and `tcp-backend` make the contract's disk of it. It knows no device, so that a store can be looked at where there is none.

#![warn(unreachable_pub)]

mod calls;
mod crew;
mod directory;
mod folder;
mod objects;
mod pool;
mod recording;
mod request;
mod servers;
mod sync;

pub use calls::Calls;
pub use directory::{Directory, StoreId, StoreRefused};
pub use objects::Objects;
pub use pool::{Buffer, Call, End, Memory, Pool, THREADS};
pub use recording::{Recording, Replay, SECTOR};
pub use request::{Moves, Range, Reached, Request};
