//! What a node has done with shared memory.

/// What a node has done with shared memory since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DsmStats {
    /// Requests for Read that this node made.
    pub read_faults: u64,
    /// Requests for Write that this node made.
    pub write_faults: u64,
    /// Accesses that waited for a request that was made already.
    pub joined: u64,
    /// Minipages that this node sent.
    pub transfers: u64,
    /// Minipages that this node pulled by RDMA read.
    pub pulls: u64,
    /// Minipages that this node gave up because another one writes.
    pub invalidations: u64,
    /// Writes that this node was granted without data, since it had a copy.
    pub upgrades: u64,
    /// Orders that waited until accesses were executed.
    pub orders_waited: u64,
    /// Messages that found no room in the transport and were sent later.
    pub stalls: u64,
    /// Epochs that began because members died.
    pub epochs: u64,
    /// Minipages that this node, as their manager, found lost with one that died.
    pub lost: u64,
    /// Writes and pulls that were unfinished when an epoch began: this node awaited their end, or took them back.
    pub fenced: u64,
    /// Messages of epochs that were over.
    pub stale: u64,
    /// Messages that contradict the protocol.
    pub out_of_turn: u64,
    /// Messages that could not be read.
    pub malformed: u64,
}
