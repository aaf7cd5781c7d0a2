//! What a node's sockets have done.

/// Counts of one node's sockets since they began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SdpStats {
    /// Streams that this node's calls of `connect` made.
    pub connected: u64,
    /// Streams that this node's listeners made.
    pub accepted: u64,
    /// Connections that this node refused.
    pub refused: u64,
    /// Data messages sent.
    pub data_sent: u64,
    /// Bytes that users wrote and that were sent as data.
    pub bytes_sent: u64,
    /// Bytes that users read.
    pub bytes_read: u64,
    /// Bytes of peers that arrived at this end, in whichever way; users may not have read them yet.
    pub arrived: u64,
    /// Bytes that the peer's adapter read from users' buffers of this end, or that this end's wrote into the peer's.
    pub zcopy_sent: u64,
    /// Reads and writes of peers' users' buffers whose outcome was unknown, and that were repeated.
    pub repeated: u64,
    /// Buffers that were advertised and not used: the other end had begun to send another way.
    pub crossed: u64,
    /// Advertisements that the peer has given back unread.
    pub recalled: u64,
    /// Copies between users' memory and private buffers.
    pub copies: u64,
    /// Messages sent that carry no data.
    pub control_sent: u64,
    /// Streams that ended by an abort, of either end.
    pub aborts: u64,
    /// Streams whose peer was away for too long.
    pub given_up: u64,
    /// Messages for streams that this end had given up already, as their peers could not know.
    pub late: u64,
    /// Messages for streams that had ended in order, or that never were: no peer sends such.
    pub out_of_turn: u64,
    /// Probes sent to peers of which nothing was heard.
    pub probes: u64,
    /// Links that were found dead by probes.
    pub found_dead: u64,
    /// Connections that this node moved to another rail as planned.
    pub moves: u64,
    /// Streams that failed because their address changed, as their users had asked for.
    pub address_changes: u64,
    /// Messages that could not be read, or that contradict their stream's state.
    pub malformed: u64,
}
