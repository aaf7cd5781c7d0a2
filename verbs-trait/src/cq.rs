//! Completion channels, completion queues and completions.

use crate::{QpNum, Result, WcError};

/// Identifies a completion queue within its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CqId(pub u32);

/// Where completion queues report that something completed after they were armed.
pub trait CompletionChannel: Clone + 'static {
    /// Takes and acknowledges the oldest event: the queue that raised it. Never blocks.
    fn event(&self) -> Option<CqId>;
}

/// A completion queue. Clones are the same queue.
///
/// The rule for sleeping is *poll, arm, poll*: arming asks for an event on the **next** completion, and says
/// nothing of those already in the queue (IBA 11.4.2.2). One arming yields at most one event.
pub trait CompletionQueue: Clone + 'static {
    /// Its identity in events.
    fn id(&self) -> CqId;
    /// Appends up to `max` completions to `out`, oldest first, and says how many. Polling a completion is
    /// what frees the send-queue slots up to its request.
    fn poll(&self, out: &mut Vec<WorkCompletion>, max: usize) -> Result<usize>;
    /// Asks for an event on the next completion, or the next solicited one. An error counts as solicited.
    fn arm(&self, next: Arm) -> Result<()>;
    /// How many completions it can hold.
    fn capacity(&self) -> u32;
    /// Changes how many it can hold; refused when it holds more already. Needs
    /// [`Caps::CQ_RESIZE`](crate::Caps::CQ_RESIZE).
    fn resize(&self, cqe: u32) -> Result<()>;
}

/// What an armed completion queue raises its event for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arm {
    /// The next completion.
    Next,
    /// The next completion of a receive whose sender asked for it, or of any request in error. Needs
    /// [`Caps::SOLICITED`](crate::Caps::SOLICITED).
    Solicited,
}

/// A completion. After an error nothing but the request's identity is defined (`ibv_poll_cq(3)`), so nothing
/// else is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkCompletion {
    /// As given when the request was posted.
    pub wr_id: u64,
    /// The queue pair.
    pub qp: QpNum,
    /// What happened.
    pub result: std::result::Result<Done, WcError>,
}

/// A request that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Done {
    /// What completed.
    pub op: WcOp,
    /// Bytes moved: received, read, or sent. Of a datagram that was received, with the [`GRH`](crate::GRH) bytes before it.
    pub len: u32,
    /// Immediate data, on the receiving side.
    pub imm: Option<u32>,
    /// Where a datagram came from.
    pub from: Option<UdSource>,
}

/// What kind of request completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WcOp {
    /// A send.
    Send,
    /// A write, with or without immediate data.
    Write,
    /// A read.
    Read,
    /// A compare-and-swap.
    CompareSwap,
    /// A fetch-and-add.
    FetchAdd,
    /// A receive that a send consumed.
    Recv,
    /// A receive that a write with immediate data consumed; the data is where the write put it.
    RecvWriteImm,
}

/// The sender of a datagram (IBA 11.4.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdSource {
    /// Its queue pair.
    pub qp: QpNum,
    /// Its local identifier.
    pub lid: u16,
    /// Its service level.
    pub sl: u8,
    /// Whether the first [`GRH`](crate::GRH) bytes of the buffer hold a global route header. If not, they hold nothing, and the datagram
    /// begins behind them all the same.
    pub grh: bool,
}
