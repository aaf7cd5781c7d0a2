//! A backend for machines without an RDMA device: byte streams (TCP), files, memory and a clock.
//!
//! What needs an adapter is refused, with [`VerbsError::Unsupported`] where a capability stands for it, or cannot be written down:
//! there are no values of the type of a queue pair. A service that has a wire of byte streams runs here as it is, as files do
//! (`weft_protocols::pario`, wire `tcp`); a mesh begins and reaches nobody but its own node. No code here is `unsafe`, and nothing but
//! Rust is needed to build it.
//!
//! ```
//! use weft_tcp::TcpContext;
//! use weft_verbs::{Caps, Context, ProtectionDomain, VerbsError};
//!
//! # fn main() -> Result<(), VerbsError> {
//! let machine = TcpContext::open(None, None)?;
//! assert_eq!(machine.device_attr().caps, Caps::OUT_OF_BAND);
//! let region = machine.alloc_pd()?.alloc_mr(64, Default::default())?;
//! # drop(region);
//! # Ok(())
//! # }
//! ```

#![warn(unreachable_pub)]

mod absent;
mod device;
mod disk;
mod driver;
mod host;
mod memory;
mod oob;
mod reactor;

pub use absent::{NoCm, NoQueue, NoQueuePair, NoSrq};
pub use device::{TcpContext, TcpDevice};
pub use disk::{TcpDisk, TcpDiskRequest};
pub use driver::{Driver, Ended};
pub use host::{TcpHost, now};
pub use memory::{TcpMr, TcpPd};
pub use oob::{TcpOob, TcpStream, TcpStreamListener};

use weft_verbs::{Result, Verbs, VerbsError};

/// The backend.
#[derive(Clone, Copy, Debug)]
pub enum Tcp {}

impl Verbs for Tcp {
    type Device = TcpDevice;
    type Context = TcpContext;
    type Pd = TcpPd;
    type Mr = TcpMr;
    type Channel = NoQueue;
    type Cq = NoQueue;
    type Qp = NoQueuePair;
    type Srq = NoSrq;
    type Ah = NoQueuePair;
    type Cm = NoCm;
    type Oob = TcpOob;
    type StreamListener = TcpStreamListener;
    type Stream = TcpStream;
    type Disk = TcpDisk;
    type DiskRequest = TcpDiskRequest;
    type Host = TcpHost;
}

/// What is answered to a call that needs an adapter.
fn no_adapter<T>() -> Result<T> {
    Err(VerbsError::Invalid("this machine has no RDMA device"))
}

/// An error of the operating system.
fn refused(call: &'static str) -> impl Fn(std::io::Error) -> VerbsError {
    move |error| match error.kind() {
        std::io::ErrorKind::AddrInUse => VerbsError::Busy("this service"),
        // What has no number of its own is an argument that cannot be: EINVAL.
        _ => VerbsError::Os { call, errno: error.raw_os_error().unwrap_or(22) },
    }
}
