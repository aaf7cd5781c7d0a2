//! What the transport counted, as plain numbers that travel and add up.

use crate::counted::counted;
use weft_protocols::transport::MeshStats;

counted! {
    /// What the meshes of all nodes counted; see [`MeshStats`].
    MeshCounts from MeshStats {
        /// Messages accepted for sending.
        pub messages_sent,
        /// Messages delivered to inboxes.
        pub messages_received,
        /// Messages put on a connection again because the last one broke.
        pub messages_repeated,
        /// Writes posted again with the messages behind them.
        pub places_repeated,
        /// Messages received again and dropped.
        pub duplicates,
        /// Frames that only returned credits or acknowledged.
        pub control_frames,
        /// Connections made again after the first.
        pub reconnects,
        /// Peers that were found to be another incarnation.
        pub peer_resets,
    }
}
