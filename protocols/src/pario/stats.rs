//! What a node has done with files.

/// What a node has done with files since it started, as client and as server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsStats {
    /// Requests that this node sent as a client.
    pub asked: u64,
    /// Requests that came to its server.
    pub requests: u64,
    /// Requests whose data rode in messages.
    pub eager: u64,
    /// Units that its server pulled by RDMA read.
    pub pulls: u64,
    /// Units that its server pushed by RDMA write.
    pub pushes: u64,
    /// Units for which its server offered a place to their client.
    pub offered: u64,
    /// Transfers that were begun again because a connection broke.
    pub again: u64,
    /// Transfers whose completion said that they may have been executed.
    pub unknown_outcomes: u64,
    /// Requests that found no place in staging.
    pub staging_waits: u64,
    /// Batches of the directory's log that its server committed.
    pub commits: u64,
    /// Places for appends that its server gave out.
    pub places: u64,
    /// Calls that its server had executed before, in this life or an earlier one, and answered once more.
    pub known_again: u64,
    /// Probes of servers that had owed an answer for long.
    pub probes: u64,
    /// Bytes that processors copied between messages and buffers, at both ends. What a store in memory copies is not among
    /// them.
    pub copied: u64,
    /// Messages that could not be read.
    pub malformed: u64,
    /// Answers to nothing that this life of the node has asked.
    pub unasked: u64,
    /// Errors of its server's disk, of which each may have ended a call as [`Io`](super::FsError::Io).
    pub disk_errors: u64,
    /// Guests that its server admitted, and those of them that it forgot.
    pub guests: u64,
    /// See [`FsStats::guests`].
    pub forgotten: u64,
}
