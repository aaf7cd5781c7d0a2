//! What the transport counted, as plain numbers that travel and add up.

use serde::{Deserialize, Serialize};
use weft_protocols::transport::MeshStats;

macro_rules! counts {
    ($($(#[$about:meta])* $field:ident),* $(,)?) => {
        /// What the meshes of all nodes counted; see [`MeshStats`].
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct MeshCounts {
            $($(#[$about])* pub $field: u64,)*
        }

        impl From<MeshStats> for MeshCounts {
            fn from(stats: MeshStats) -> MeshCounts {
                MeshCounts { $($field: stats.$field),* }
            }
        }

        impl std::ops::AddAssign for MeshCounts {
            fn add_assign(&mut self, other: MeshCounts) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

counts! {
    /// Messages accepted for sending.
    messages_sent,
    /// Messages delivered to inboxes.
    messages_received,
    /// Messages put on a connection again because the last one broke.
    messages_repeated,
    /// Messages received again and dropped.
    duplicates,
    /// Frames that only returned credits or acknowledged.
    control_frames,
    /// Connections made again after the first.
    reconnects,
    /// Peers that were found to be another incarnation.
    peer_resets,
}
