//! Work requests.

use crate::{QpNum, RemoteSlice, Verbs};

bitflags::bitflags! {
    /// How a send request behaves (IBA 11.4.1.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct SendFlags: u32 {
        /// A completion is wanted on success. On failure there always is one.
        const SIGNALED = 1 << 0;
        /// Raise an event at a receiver that armed for solicited completions.
        const SOLICITED = 1 << 1;
        /// Do not begin before all earlier reads and atomics of this queue pair have completed.
        const FENCE = 1 << 2;
    }
}

/// A range of local memory for a work request. It borrows the region so that a list is built without
/// reference counts; the adapter keeps the region alive from the post until the request's completion.
#[derive(Debug)]
pub struct Sge<'a, M> {
    /// The region.
    pub mr: &'a M,
    /// First byte, as an offset into the region: requests begin in its first 4 GiB. What lies behind them is reached by a
    /// [part](crate::ProtectionDomain::register_part) of its own.
    pub at: u32,
    /// Length in bytes.
    pub len: u32,
}

impl<M> Clone for Sge<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Sge<'_, M> {}

/// The local side of a send request.
#[derive(Debug)]
pub enum Payload<'a, M> {
    /// No bytes.
    None,
    /// Gathered from, or scattered to, these ranges when the request is executed: they belong to the adapter
    /// until completion.
    Sge(&'a [Sge<'a, M>]),
    /// Copied now, by the post. For sends and writes.
    Inline(&'a [u8]),
}

impl<M> Clone for Payload<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Payload<'_, M> {}

/// So many bytes of a receive request a datagram's own begin behind: the place of a global route header, whether or not there is one
/// ([`UdSource::grh`](crate::UdSource::grh); IBA 11.4.1.2). A receive on a UD queue pair needs them beside the longest datagram.
pub const GRH: u32 = 40;

/// What a send request does.
pub enum SendOp<'a, V: Verbs> {
    /// A message into the peer's next receive buffer.
    Send {
        /// 32 bits that arrive with the receiver's completion.
        imm: Option<u32>,
    },
    /// A datagram. On a UD queue pair only, and the only operation there. It is one packet: one that is longer than the port's
    /// [active MTU](crate::PortAttr::active_mtu) never leaves, which need not be an error of its request (IBA C10-93.1.1).
    SendTo {
        /// 32 bits that arrive with the receiver's completion.
        imm: Option<u32>,
        /// The peer's port.
        ah: &'a V::Ah,
        /// The peer's queue pair.
        qp: QpNum,
        /// The peer's queue key.
        qkey: u32,
    },
    /// Writes the payload to the peer's memory. With immediate data it also consumes a receive request.
    Write {
        /// Where to; as many bytes as the payload has, whatever [`RemoteSlice::len`] says.
        to: RemoteSlice,
        /// 32 bits that arrive with the receiver's completion.
        imm: Option<u32>,
    },
    /// Reads the peer's memory into the payload's ranges.
    Read {
        /// Where from; as many bytes as the payload's ranges have, whatever [`RemoteSlice::len`] says.
        from: RemoteSlice,
    },
    /// If the peer's 64-bit word equals `compare`, replaces it by `swap`. The word's old value arrives in the
    /// payload's one 8-byte range, in native byte order.
    CompareSwap {
        /// The word; 8-byte aligned.
        at: RemoteSlice,
        /// The value expected.
        compare: u64,
        /// The value to put there.
        swap: u64,
    },
    /// Adds to the peer's 64-bit word, wrapping. Its old value arrives in the payload's one 8-byte range.
    FetchAdd {
        /// The word; 8-byte aligned.
        at: RemoteSlice,
        /// The number to add.
        add: u64,
    },
}

impl<V: Verbs> Clone for SendOp<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: Verbs> Copy for SendOp<'_, V> {}

/// A request for the send queue.
pub struct SendWr<'a, V: Verbs> {
    /// The caller's name for it; comes back in the completion.
    pub wr_id: u64,
    /// What to do.
    pub op: SendOp<'a, V>,
    /// With which local memory.
    pub data: Payload<'a, V::Mr>,
    /// How.
    pub flags: SendFlags,
}

impl<V: Verbs> Clone for SendWr<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: Verbs> Copy for SendWr<'_, V> {}

/// A request for a receive queue.
pub struct RecvWr<'a, V: Verbs> {
    /// The caller's name for it; comes back in the completion.
    pub wr_id: u64,
    /// Where the message goes: these ranges belong to the adapter until completion. A datagram goes there from byte [`GRH`] on.
    pub data: &'a [Sge<'a, V::Mr>],
}

impl<V: Verbs> Clone for RecvWr<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: Verbs> Copy for RecvWr<'_, V> {}
