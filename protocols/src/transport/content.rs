//! What a mesh still knows: see the runtime's `content`.

use super::driver::Driver;
use super::mesh::{Mesh, Shared};
use super::peer::Peer;
use super::session::Session;
use super::wire::HEADER_LEN;
use crate::rt::{Lease, Unseen};
use std::hash::{Hash, Hasher};
use weft_verbs::Verbs;

impl<V: Verbs> Mesh<V> {
    /// Adds what the mesh and its runtime still know to a hash. False if that cannot be said: somebody waits for a
    /// connection, or for its fate, or something is half done.
    pub fn content(&self, unseen: &impl Unseen, to: &mut impl Hasher) -> bool {
        let shared = &*self.shared;
        let idle = shared.sink.is_empty()
            && shared.events.borrow().is_empty()
            && shared.starved.borrow().is_empty()
            && shared.unprobed.borrow().is_empty()
            && shared.inboxes.borrow().is_idle();
        if !idle || shared.closed.get() || !shared.rt.content(to) {
            return false;
        }
        let mut requests = 0;
        for (index, peer) in (0u64..).zip(shared.peers.borrow().iter()) {
            let Some(peer) = peer.as_deref().filter(|peer| peer.queue.is_some() || peer.epoch > 0) else {
                continue;
            };
            if !peer.is_at_rest() {
                return false;
            }
            index.hash(to);
            requests += shared.tell_peer(peer, unseen, to);
        }
        requests == shared.rt.requests_known()
    }
}

impl<V: Verbs> Shared<V> {
    /// Says how many requests are outstanding at its queue pair.
    fn tell_peer(&self, peer: &Peer<V>, unseen: &impl Unseen, to: &mut impl Hasher) -> usize {
        // How often a connection stood or a peer lived is compared by those who settle or take turns, and nobody does.
        peer.link.hash(to);
        (peer.epoch, peer.spent.len(), peer.unsettled, peer.starved).hash(to);
        (peer.ack_listed, peer.probe_listed).hash(to);
        peer.session.content(to, |message, to| {
            message.channel.0.hash(to);
            let len = message.len;
            let (from, block) = (HEADER_LEN as u32, message.block.clone());
            Lease::Block { block, len: from + len }.content(from..from + len, to);
        });
        let Some(queue) = &peer.queue else { return 0 };
        // Of the last operation it counts only whether it is known to have succeeded.
        (queue.counts().1 < peer.last_op).hash(to);
        queue.content(unseen, to)
    }
}

impl<V: Verbs> Peer<V> {
    /// Whether nobody waits for its connection, and nothing that came over it is unread.
    fn is_at_rest(&self) -> bool {
        let waits = !self.waiters.is_empty() || self.settling > 0;
        !waits && self.settlers.is_empty() && self.senders.is_empty() && self.early.is_empty()
    }
}

impl<M> Session<M> {
    fn content<H: Hasher>(&self, to: &mut H, tell: impl Fn(&M, &mut H)) {
        self.counts().hash(to);
        self.kept_messages().for_each(|message| tell(message, to));
    }
}

impl<V: Verbs> Driver<V> {
    /// Says to an explorer what the driver knows besides what the mesh has: whose attempts and connections are, and
    /// nothing is to be done.
    pub(super) fn rests(&self) {
        self.shared.rt.notes().set(self.is_idle().then_some(("driver", &self.ids)));
    }
}
