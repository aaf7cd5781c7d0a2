//! Both kinds of errors: a call that was refused at once, and a work request that failed later.

use crate::{Caps, QpState};
use thiserror::Error;

/// A call's result; of another error where one is named, so that a `use` of all of this crate leaves `Result<T, E>` as it was.
pub type Result<T, E = VerbsError> = std::result::Result<T, E>;

/// Why a call was refused. Nothing happened: no object was made, no request was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum VerbsError {
    /// A number out of its bounds.
    #[error("{what} is {value}, and must be at most {bound}")]
    TooLarge {
        /// What the number is, as the caller knows it.
        what: &'static str,
        /// The number given.
        value: u64,
        /// The largest that is allowed.
        bound: u64,
    },
    /// An argument that no bound describes.
    #[error("{0}")]
    Invalid(&'static str),
    /// The queue pair's state does not allow the call (IBA 10.3.1).
    #[error("{call} is not allowed in state {state}")]
    WrongState {
        /// The call that was refused.
        call: &'static str,
        /// The state at that moment.
        state: QpState,
    },
    /// No transition leads from one state to the other (IBA 10.3.1, figure 124).
    #[error("a queue pair in state {from} cannot go to {to}")]
    NoTransition {
        /// The state at that moment.
        from: QpState,
        /// The state asked for.
        to: QpState,
    },
    /// The work queue holds as many requests as it was made for. An unsignaled send request holds its place
    /// until a later signaled one of the same queue has completed and been polled.
    #[error("the {queue} queue already holds {depth} work requests")]
    QueueFull {
        /// `send` or `receive`.
        queue: &'static str,
        /// The number of requests it can hold.
        depth: u32,
    },
    /// A byte range that its memory region does not contain.
    #[error("bytes {at}..{at}+{len} are outside a memory region of {size} bytes")]
    OutOfRange {
        /// First byte.
        at: u64,
        /// Length in bytes.
        len: u64,
        /// The region's length.
        size: u64,
    },
    /// A word access that is not at a multiple of its size.
    #[error("offset {at} is not a multiple of {align}")]
    Misaligned {
        /// The offset given.
        at: u64,
        /// What it must be a multiple of, in bytes.
        align: u64,
    },
    /// An object of another device, context or protection domain.
    #[error("{0} belongs to another context or protection domain")]
    Foreign(&'static str),
    /// The object is in use by another one.
    #[error("{0} is still in use")]
    Busy(&'static str),
    /// The device's limit for a kind of object is reached.
    #[error("the device has no room for another {what} beyond {limit}")]
    Exhausted {
        /// The kind of object.
        what: &'static str,
        /// How many the device can hold.
        limit: u64,
    },
    /// A completion queue that overran: completions were lost, and it delivers no more (IBA 11.6.3.1).
    #[error("the completion queue overran and has lost completions")]
    CqOverrun,
    /// The device or backend lacks what the call needs.
    #[error("not supported here: {0}")]
    Unsupported(Caps),
    /// The device is gone, or the node that held it has crashed.
    #[error("the device is gone")]
    DeviceGone,
    /// An error of the operating system that has no better name.
    #[error("{call} failed: {}", std::io::Error::from_raw_os_error(*errno))]
    Os {
        /// The call that failed.
        call: &'static str,
        /// Its `errno`.
        errno: i32,
    },
}

/// A post that was refused, in whole or from some request on.
///
/// The requests before `posted` were accepted **and will complete**; the one at `posted` was refused for the
/// reason given; those after it were not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("request {posted} of the list was refused: {why}")]
pub struct PostError {
    /// How many requests of the list were accepted.
    pub posted: usize,
    /// Why the next one was not.
    pub why: VerbsError,
}

/// Why a posted work request failed: the status of its completion (IBA 11.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Error)]
pub enum WcError {
    /// Local length error. Send: an answer did not fit; or a datagram is longer than a packet, which not every adapter reports. Receive:
    /// the message is longer than the receive buffer.
    #[error("local length error")]
    LocLen,
    /// Local queue-pair operation error: the request is inconsistent with the queue pair.
    #[error("local queue pair operation error")]
    LocQpOp,
    /// Local protection error: a scatter or gather entry lies outside its region, or lacks local rights.
    #[error("local protection error")]
    LocProt,
    /// The request was still queued or in flight when its queue pair went to the error state.
    #[error("flushed")]
    Flush,
    /// Remote invalid request: the responder could not execute it as it stands (9.9.5).
    #[error("remote invalid request")]
    RemInvReq,
    /// Remote access error: wrong key, range or rights at the responder.
    #[error("remote access error")]
    RemAccess,
    /// Remote operational error: the responder failed for a reason of its own.
    #[error("remote operation error")]
    RemOp,
    /// The transport's retry counter ran out: no answer came (9.9.2.1.2).
    #[error("transport retry count exceeded")]
    RetryExc,
    /// The responder never had a receive buffer (9.9.2.1.2).
    #[error("receiver-not-ready retry count exceeded")]
    RnrRetryExc,
    /// Memory management operation error: a bind or a fast registration failed.
    #[error("memory management error")]
    MwBind,
    /// The response was malformed, or its data did not match the request.
    #[error("bad response")]
    BadResp,
    /// The device failed.
    #[error("fatal device error")]
    Fatal,
    /// A status that this contract has no name for.
    #[error("general error")]
    General,
}

/// What the far side may have done with a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FarSide {
    /// It did nothing, and never will.
    Untouched,
    /// It may have executed a part (a prefix of a multi-packet write), and will do nothing more.
    MayHavePart,
    /// It may have executed the request, **or may yet**: a copy can still be on its way. The outcome is fixed
    /// once the responder has moved its queue pair to the error state.
    Unknown,
}

impl WcError {
    /// All statuses, for tests that must provoke each.
    pub const ALL: [WcError; 13] = [
        WcError::LocLen,
        WcError::LocQpOp,
        WcError::LocProt,
        WcError::Flush,
        WcError::RemInvReq,
        WcError::RemAccess,
        WcError::RemOp,
        WcError::RetryExc,
        WcError::RnrRetryExc,
        WcError::MwBind,
        WcError::BadResp,
        WcError::Fatal,
        WcError::General,
    ];

    /// What the far side may have done with a *send-queue* request that ended so.
    ///
    /// Conservative: `Untouched` only where the transport's own rules promise it. A flushed request is
    /// `Unknown` because it may have left before the queue pair failed; a local protection error is, because
    /// an adapter may notice it only when an answer (an atomic's old value) has nowhere to go. One that found no receive buffer is,
    /// because of a write with immediate data all packets but the last need none, and an earlier copy of it may still be on its way
    /// to a buffer that is posted later.
    pub fn far_side(self) -> FarSide {
        match self {
            WcError::LocQpOp | WcError::MwBind => FarSide::Untouched,
            WcError::RemInvReq | WcError::RemAccess => FarSide::MayHavePart,
            WcError::LocLen
            | WcError::LocProt
            | WcError::Flush
            | WcError::RemOp
            | WcError::RetryExc
            | WcError::RnrRetryExc
            | WcError::BadResp
            | WcError::Fatal
            | WcError::General => FarSide::Unknown,
        }
    }
}
