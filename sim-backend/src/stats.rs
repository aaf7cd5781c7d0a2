//! Counters of a run.

use serde::Serialize;

/// What happened in a world so far, and what is alive in it now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Events of the queue that were processed.
    pub events: u64,
    /// Steps of nodes.
    pub steps: u64,
    /// Packets that left an adapter, loopback included.
    pub packets: u64,
    /// Packets that a responder or requester took in.
    pub delivered: u64,
    /// Packets lost on their way.
    pub dropped: u64,
    /// Packets that arrived damaged and were dropped by the receiver.
    pub corrupted: u64,
    /// Messages (requests of any kind) that were executed by a responder.
    pub messages: u64,
    /// Packets sent again after a time-out, a sequence error or receiver-not-ready.
    pub retransmitted: u64,
    /// Time-outs of acknowledgements.
    pub timeouts: u64,
    /// What is alive, by node.
    pub alive: Vec<Alive>,
}

/// A node's living objects. All zero when a node has cleaned up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Alive {
    /// Queue pairs.
    pub qps: u32,
    /// Completion queues.
    pub cqs: u32,
    /// Shared receive queues.
    pub srqs: u32,
    /// Memory regions, those held only by a work request included.
    pub mrs: u32,
    /// Protection domains.
    pub pds: u32,
    /// Byte streams and their listeners.
    pub streams: u32,
    /// Work requests that were posted and have not completed, in both queues.
    pub outstanding: u32,
}
