//! The verbs contract of Weft: what a protocol may ask of an RDMA fabric.
//!
//! The objects and names are those of the verbs specification (InfiniBand Architecture, volume 1, chapters 10
//! and 11; "IBA" in these pages) and of `libibverbs`. Three backends implement it: `sim-backend`, a
//! deterministic simulated fabric; `hw-backend`, real ibverbs; and `tcp-backend`, byte streams of the operating
//! system on machines without an adapter, which has no queue pairs. A protocol is written against the traits and
//! cannot tell the first two apart.
//!
//! The contract is synchronous and non-blocking: calls post, poll, arm, take an event or read the clock. What
//! a node does while it waits is said by [`Node::step`]'s answer, a [`Park`].
//!
//! ```
//! use weft_verbs::*;
//!
//! /// Reads a remote word: one request posted, one completion awaited by polling.
//! fn read_word<V: Verbs>(qp: &V::Qp, cq: &V::Cq, mr: &V::Mr, from: RemoteSlice) -> Option<u64> {
//!     let into = [Sge { mr, at: 0, len: 8 }];
//!     qp.post_send(&[SendWr {
//!         wr_id: 7,
//!         op: SendOp::Read { from },
//!         data: Payload::Sge(&into),
//!         flags: SendFlags::SIGNALED,
//!     }])
//!     .ok()?;
//!     let mut done = Vec::new();
//!     while cq.poll(&mut done, 1).ok()? == 0 {}
//!     done[0].result.ok()?;
//!     mr.load(0).ok()
//! }
//! ```
//!
//! # Rules that the types cannot say
//!
//! - A posted request owns its memory until it completes or its queue pair is destroyed or reset.
//! - Order holds within one queue pair and nowhere else.
//! - An unsignaled request's slot is free only after a later signaled one of its queue was polled.
//! - An atomic that ended in an error may have executed, or may yet: see [`FarSide`].
//!
//! # Features
//!
//! `conformance`, off by default: the suite that tests a backend, as the module of that name. A backend's tests switch
//! it on; a user of the contract does not compile it. `machine`, off by default: what backends on real machines share, as the module of that
//! name.

#![warn(unreachable_pub)]

mod caps;
mod cm;
#[cfg(feature = "conformance")]
pub mod conformance;
mod cq;
mod device;
mod disk;
pub mod driver;
mod error;
#[cfg(feature = "machine")]
pub mod machine;
mod memory;
mod node;
mod oob;
mod qp;
mod time;
mod wr;

pub use caps::*;
pub use cm::*;
pub use cq::*;
pub use device::*;
pub use disk::*;
pub use error::*;
pub use memory::*;
pub use node::*;
pub use oob::*;
pub use qp::*;
pub use time::*;
pub use wr::*;

/// A backend: the family of all its types, tied together once.
///
/// Generic code takes one parameter `V: Verbs` and names everything else through it; there are no equalities
/// between associated types anywhere.
pub trait Verbs: Sized + 'static {
    /// A device that can be opened.
    type Device: Device<Self>;
    /// An open device.
    type Context: Context<Self>;
    /// A protection domain.
    type Pd: ProtectionDomain<Self>;
    /// A memory region.
    type Mr: MemoryRegion;
    /// A completion channel.
    type Channel: CompletionChannel;
    /// A completion queue.
    type Cq: CompletionQueue;
    /// A queue pair.
    type Qp: QueuePair<Self>;
    /// A shared receive queue.
    type Srq: SharedReceiveQueue<Self>;
    /// An address handle.
    type Ah: Clone + 'static;
    /// A connection manager.
    type Cm: ConnectionManager<Self>;
    /// The machine's ordinary network.
    type Oob: OutOfBand<Self>;
    /// Takes incoming byte streams.
    type StreamListener: StreamListener<Self>;
    /// A byte stream.
    type Stream: Stream;
    /// The machine's disk.
    type Disk: Disk<Self>;
    /// A call of the disk that is under way.
    type DiskRequest: DiskRequest<Self>;
    /// The machine under a node.
    type Host: Host + Clone + 'static;
}
