//! The unsafe layer: every call of `libibverbs` and `librdmacm`, behind types that own what they name.
//!
//! Nothing outside of this folder is unsafe. What keeps it sound:
//!
//! - Each type owns one C object, holds its parents by reference counts, and destroys it exactly once. Fields are
//!   private; no raw pointer leaves the folder.
//! - All types are `!Send` and `!Sync` (they hold raw pointers and `Rc`): `libibverbs` is thread-safe, but nothing
//!   here has to rely on it. The one exception is a range of a region that a disk's thread copies (`memory::FileTransfer`).
//! - An adapter reaches memory by registered keys only. A region's memory is freed after its deregistration has
//!   succeeded, and leaked where it has not: so a wrong address or key in a posted request is refused by the adapter,
//!   and cannot corrupt memory.
//! - Values that C hands over as enumerations are read as integers and converted, so that a number which this crate
//!   does not know cannot become an invalid Rust value.
#![allow(unsafe_code)]

mod cm;
mod completion;
mod device;
mod memory;
mod os;
mod post;
mod qp;

#[cfg(test)]
pub(crate) use cm::refused_by_cm;
pub(crate) use cm::{CmChannel, CmIdentity, CmMessage, ConnectionOffer, EventKind, Failing};
pub(crate) use completion::{Channel, Cq, RawWc, WcRoom};
pub(crate) use device::{Context, Device, DeviceLimits, devices};
pub(crate) use memory::{Mr, Pd, TransferGuard};
#[cfg(feature = "suite")]
pub use os::cycles;
pub(crate) use os::{Alarm, Epoll, Readiness, interface_address, own_addresses};
pub(crate) use post::{RawSge, RecvBatch, RecvRoom, SendBatch, SendRoom};
pub(crate) use qp::{Ah, Attributes, Qp, QpSizes, Queried, Srq, Vector};

use weft_verbs::VerbsError;

/// What an errno of a call of `libibverbs`, or of the system, means in the contract.
pub(crate) fn refused(call: &'static str, errno: i32) -> VerbsError {
    match errno {
        libc::EIO | libc::ENODEV => VerbsError::DeviceGone,
        libc::EBUSY | libc::EADDRINUSE => VerbsError::Busy(call),
        _ => VerbsError::Os { call, errno },
    }
}

/// The errno that the last call of this thread left.
fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)
}

/// Comes before a call that may fail and leave no errno: what such a provider refuses it does not take (bnxt_re, of a queue pair). The
/// errno of an earlier call would stand for another reason.
fn presume_invalid() {
    // SAFETY: the place is this thread's own.
    unsafe { *libc::__errno_location() = libc::EINVAL };
}

/// For calls that answer 0 or an errno. Some providers answer -1 and leave the errno behind.
fn zero(call: &'static str, answer: i32) -> Result<(), VerbsError> {
    match answer {
        0 => Ok(()),
        -1 => Err(refused(call, errno())),
        error => Err(refused(call, error.abs())),
    }
}
