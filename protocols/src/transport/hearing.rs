//! Connections that are made though nothing waits for them: a node that has nothing to say is to hear of its expulsion all the same.
//!
//! Who expels a node ends their connection, and refuses the next one and says why. So a node that listens asks for another
//! connection whenever one has ended, at whichever end it broke: the peer's last word may have been lost with it. A peer that
//! died answers nothing, and need not be waited for here: the attempts are counted.

use super::Rank;
use super::link::Event;
use super::mesh::{Mesh, Shared};
use super::peer::Peer;
use weft_verbs::Verbs;

/// So many attempts are made, with the pauses of [`MeshConfig::reconnect_min`](super::MeshConfig::reconnect_min) between them.
const ASKS: u8 = 4;

impl<V: Verbs> Mesh<V> {
    /// From now on this node hears of its expulsion whether or not it has anything to say: a peer whose connection with this node has ended,
    /// however that was, is asked for another one, some times if need be. It refuses and says why if it has expelled this node.
    pub fn listen(&self) {
        self.shared.listens.set(true);
    }

    /// There is something to say to this incarnation of a peer (0: to whichever is there) that cannot be said, since an earlier one was
    /// expelled here and this one has not connected yet: it is asked for a connection, some times if need be. What it asked for itself may
    /// have been lost, and it may have expelled this node since.
    ///
    /// Where it is whichever is there, that may be the expelled one, if it lives: it is turned away when its answer is looked at. What it has posted by
    /// then on a connection that it took may have executed here (docs/limits.md).
    pub fn call(&self, rank: Rank, incarnation: u64) {
        let shared = &*self.shared;
        let is_over = shared.closed.get() || shared.retired.get();
        let Some(index) = self.peer(rank).filter(|_| !is_over && rank != self.me()) else { return };
        shared.with_peer(index, |peer| {
            let is_other = incarnation == 0 || peer.link.incarnation() != incarnation;
            if peer.gone && is_other {
                peer.asks = ASKS;
                shared.event(index, peer.epoch, Event::Wanted);
            }
        });
    }
}

impl<V: Verbs> Peer<V> {
    /// An attempt is made.
    pub(super) fn is_asked(&mut self) {
        self.asks = self.asks.saturating_sub(1);
    }
}

impl<V: Verbs> Shared<V> {
    /// A connection has ended that stood, as far as the peer knows.
    pub(super) fn stands_no_more(&self, index: usize, peer: &mut Peer<V>) {
        if self.listens.get() && !peer.gone && self.rank_at(index) != self.config.me {
            peer.asks = ASKS;
        }
    }
}
