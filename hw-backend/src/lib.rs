//! The verbs contract of Weft over real `ibverbs`: InfiniBand, RoCE and Soft-RoCE devices.
//!
//! With the feature `ibverbs` this crate is the backend [`Hw`] of [`weft_verbs`]. Without it there is nothing in
//! it, so that the workspace builds on a machine that has no `libibverbs`.
//!
//! | module | idea |
//! |---|---|
//! | `ffi` | the unsafe layer: types that own the C objects |
//! | `device` | devices, ports, what they can do |
//! | `gids` | a port's GIDs, and the address by which peers find it |
//! | `ledger` | what is posted, and the memory that it holds |
//! | `queue_pair`, `completion`, `shared_receive`, `memory` | the contract's objects |
//! | `cm` | connections by `rdma_cm` |
//! | `reactor`, [`Driver`] | what wakes a node: one `epoll` a context |
//! | `oob` | byte streams |
//! | `disk` | a store of files, whose calls a few threads make |
//! | `host` | the machine: clock, random numbers |
//! | `convert`, `given` | numbers of `libibverbs` as the contract's types; what a queue pair's transitions were given |
//! | [`Census`] | how many objects are alive |
//!
//! Everything is of one thread: a node is one [`weft_verbs::Node`], and its [`Driver`] steps it.
//!
//! A program that forks (`Command` with `pre_exec`, one that becomes a daemon after it has opened a device) loses pages that adapters write to on kernels
//! before 5.12, unless `RDMAV_FORK_SAFE=1` is in its environment (`ibv_fork_init(3)`). Regions that this crate allocates are whole pages, as that needs;
//! brought memory must be.

#![warn(unreachable_pub)]
#![cfg_attr(not(feature = "ibverbs"), allow(rustdoc::broken_intra_doc_links))]

#[cfg(feature = "ibverbs")]
mod backend {
    use crate::*;
    use weft_verbs::Verbs;

    /// The backend: real `ibverbs`.
    pub enum Hw {}

    impl Verbs for Hw {
        type Device = HwDevice;
        type Context = HwContext;
        type Pd = HwPd;
        type Mr = HwMr;
        type Channel = HwChannel;
        type Cq = HwCq;
        type Qp = HwQp;
        type Srq = HwSrq;
        type Ah = HwAh;
        type Cm = HwCm;
        type Oob = HwOob;
        type StreamListener = HwListener;
        type Stream = HwStream;
        type Disk = HwDisk;
        type DiskRequest = HwDiskRequest;
        type Host = HwHost;
    }
}

macro_rules! with_ibverbs {
    ($(mod $module:ident;)* $(pub use $path:path;)*) => {
        $(#[cfg(feature = "ibverbs")] mod $module;)*
        $(#[cfg(feature = "ibverbs")] pub use $path;)*
    };
}

with_ibverbs! {
    mod census;
    mod cm;
    mod completion;
    mod convert;
    mod device;
    mod disk;
    mod driver;
    mod ffi;
    mod gids;
    mod given;
    mod host;
    mod inline;
    mod ledger;
    mod memory;
    mod oob;
    mod queue_pair;
    mod reactor;
    mod shared_receive;
    pub use backend::Hw;
    pub use census::Census;
    pub use cm::HwCm;
    pub use completion::HwChannel;
    pub use completion::HwCq;
    pub use device::HwContext;
    pub use device::HwDevice;
    pub use disk::HwDisk;
    pub use disk::HwDiskRequest;
    pub use driver::Driver;
    pub use driver::Ended;
    pub use gids::HwGid;
    pub use gids::NoAddress;
    pub use host::HwHost;
    pub use host::now;
    pub use memory::HwMr;
    pub use memory::HwPd;
    pub use oob::HwListener;
    pub use oob::HwOob;
    pub use oob::HwStream;
    pub use queue_pair::HwAh;
    pub use queue_pair::HwQp;
    pub use shared_receive::HwSrq;
}

// Only the programs in `suite` need it.
#[cfg(feature = "suite")]
pub use ffi::cycles;
