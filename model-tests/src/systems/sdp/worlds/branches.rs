//! The interesting branches of worlds of sockets, each with what a node counts that has reached it.

use weft_protocols::sdp::SdpStats;
use weft_protocols::transport::MeshStats;

/// A branch: its name, and whether a node with these counts has reached it.
pub(super) type Branch = (&'static str, fn(&MeshStats, &SdpStats) -> bool);

/// What links that fail lead to.
pub(super) const OF_LINKS: [Branch; 2] = [
    ("a connection was made again", |mesh, _| mesh.reconnects > 0),
    ("a message was sent again", |mesh, _| mesh.messages_repeated > 0),
];

pub(super) const CAME_TWICE: Branch = ("a message came twice", |mesh, _| mesh.duplicates > 0);
pub(super) const PEER_IS_NEW: Branch = ("a peer was found to be new", |mesh, _| mesh.peer_resets > 0);
pub(super) const OTHER_RAIL: Branch =
    ("a connection went over to the other rail", |mesh, _| mesh.failovers > 0);
pub(super) const ASKED: Branch = ("a peer was asked whether it is there", |_, sdp| sdp.probes > 0);
pub(super) const GIVEN_UP: Branch = ("a peer was given up", |_, sdp| sdp.given_up > 0);
pub(super) const MOVED: Branch = ("a move ended on another rail", |_, sdp| sdp.moves > 0);
pub(super) const GIVEN_BACK: Branch = ("something was given back unread", |_, sdp| sdp.recalled > 0);
pub(super) const WRITTEN: Branch = ("the answer was written by RDMA", |_, sdp| sdp.zcopy_sent > 0);
pub(super) const REPEATED: Branch = ("a read or write was repeated", |_, sdp| sdp.repeated > 0);
pub(super) const CROSSED: Branch = ("advertisements crossed", |_, sdp| sdp.crossed > 0);
pub(super) const WITHOUT_A_COPY: Branch = ("bytes went without a copy", |_, sdp| sdp.zcopy_sent > 0);
pub(super) const ABORTED: Branch = ("a stream was aborted", |_, sdp| sdp.aborts > 0);

/// The names of branches.
pub(super) fn names(branches: &[Branch]) -> Vec<&'static str> {
    branches.iter().map(|(name, _)| *name).collect()
}

/// A bit for each branch: whether a node with these counts has reached it.
pub(super) fn reached(branches: &[Branch], mesh: &MeshStats, sdp: &SdpStats) -> u32 {
    (0..).zip(branches).map(|(bit, (_, reached))| u32::from(reached(mesh, sdp)) << bit).sum()
}
