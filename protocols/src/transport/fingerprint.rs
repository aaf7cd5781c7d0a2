//! What a mesh still knows, for explorers: see [`rt::fingerprint`](crate::rt::fingerprint).

use super::mesh::{Mesh, Shared};
use super::peer::{Outgoing, Peer};
use super::wire::HEADER_LEN;
use crate::rt::BufferGuard;
use crate::rt::fingerprint::AdapterState;
use std::hash::{Hash, Hasher};
use weft_verbs::Verbs;

impl<V: Verbs> Mesh<V> {
    /// Adds what the mesh and its runtime still know to a hash. False if that cannot be said: a task waits for a
    /// connection, or for the outcome of what it carried, or something is half done.
    pub fn fingerprint(&self, adapter: &impl AdapterState, to: &mut impl Hasher) -> bool {
        let shared = &*self.shared;
        let idle = shared.sink.is_empty()
            && shared.to_do.is_empty()
            && shared.inboxes.borrow().is_idle()
            && shared.stand_in.as_ref().is_none_or(|stand_in| stand_in.has_ended(stand_in.asked()));
        if !idle || shared.closed.get() || !shared.rt.fingerprint(to) {
            return false;
        }
        (shared.down.get(), &*shared.outcast.borrow(), shared.retired.get(), shared.listens.get()).hash(to);
        let mut requests = 0;
        for (index, peer) in (0u64..).zip(shared.peers.borrow().iter()) {
            let Some(peer) = peer.as_deref().filter(|peer| peer.queue.is_some() || peer.epoch > 0) else {
                continue;
            };
            if !peer.is_at_rest() {
                return false;
            }
            index.hash(to);
            requests += shared.hash_peer(peer, adapter, to);
        }
        requests == shared.rt.requests_known()
    }
}

impl<V: Verbs> Shared<V> {
    /// Says how many requests are outstanding at its queue pair.
    fn hash_peer(&self, peer: &Peer<V>, adapter: &impl AdapterState, to: &mut impl Hasher) -> usize {
        // How often the connection stood and the peer restarted is compared by tasks that wait for an outcome or for
        // their turn, and there is none.
        peer.link.hash(to);
        (peer.epoch, peer.numbered, peer.spent.len(), peer.unresolved, peer.starved, peer.gone, peer.asks)
            .hash(to);
        (peer.ack_listed, peer.probe_listed, peer.supply_listed).hash(to);
        (peer.rail, peer.via, peer.stood_on, peer.holds_off).hash(to);
        peer.carried.hash(to);
        peer.session.hash(to);
        let standing_by = peer.standby.as_ref().map_or(0, |standby| standby.hash_queue(adapter, to));
        let Some(queue) = &peer.queue else { return standing_by };
        // Of the last operation it counts only whether it is known to have succeeded.
        (queue.counts().1 < peer.last_op).hash(to);
        standing_by + queue.fingerprint(adapter, to)
    }
}

impl<V: Verbs> Peer<V> {
    /// Whether nobody waits for its connection, and nothing that came over it is unread.
    fn is_at_rest(&self) -> bool {
        let waits = !self.waiters.is_empty() || self.resolving > 0;
        !waits
            && self.resolvers.is_empty()
            && self.senders.is_empty()
            && self.line.is_empty()
            && self.early.is_empty()
            && self.carried.len() == 0
            && self.lists.is_empty()
    }
}

impl<V: Verbs> Hash for Outgoing<V> {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.channel, self.rail, &self.place).hash(to);
        let (from, block) = (HEADER_LEN as u32, self.block.clone());
        BufferGuard::Block { block, len: from + self.len }.hash_bytes(from..from + self.len, to);
    }
}
