//! What a user of several rails may know and want of them: which one a connection stands on, and which one it is to stand on.

use super::Rank;
use super::link::Event;
use super::mesh::Mesh;
use crate::rt::sync::{Changed, oneshot};
use std::rc::Rc;
use weft_verbs::{Nanos, Verbs};

impl<V: Verbs> Mesh<V> {
    /// How many rails the mesh has.
    pub fn rails(&self) -> u8 {
        self.shared.config.rails()
    }

    /// The rail over which the connection to a peer stands, if it stands.
    pub fn rail(&self, to: Rank) -> Option<u8> {
        let peers = self.shared.peers.borrow();
        let peer = peers.get(self.shared.index(to)?)?.as_deref()?;
        peer.link.is_up().then_some(peer.rail)
    }

    /// Whether messages carry one-sided operations to a peer now: its connection stands, or is being made, on another rail than the
    /// peer's memory.
    pub fn carries(&self, to: Rank) -> bool {
        let peers = self.shared.peers.borrow();
        let peer = self.shared.index(to).and_then(|index| peers.get(index)?.as_deref());
        peer.is_some_and(|peer| self.shared.carries(peer))
    }

    /// How often the connection to a peer went over to another rail.
    pub fn moves(&self, to: Rank) -> u64 {
        self.peer(to).map_or(0, |index| self.shared.with_peer(index, |peer| peer.moves))
    }

    /// How often the connection to a peer came to stand.
    pub(crate) fn ups(&self, to: Rank) -> u64 {
        self.peer(to).map_or(0, |index| self.shared.with_peer(index, |peer| peer.ups))
    }

    /// Waits until a connection comes to stand after this call, or the mesh is closed: at once if it is closed already.
    pub fn resumed(&self) -> Changed {
        match self.shared.closed.get() {
            true => self.shared.resumed.has_changed(),
            false => self.shared.resumed.changed(),
        }
    }

    /// From now on this rail is the best one for the connection to a peer: it comes back there from any other. Where the two ends
    /// differ about it, the one that asked for the connection as it stands has its way: a user tells both, or moves it
    /// ([`move_to`](Mesh::move_to)).
    pub fn prefer(&self, peer: Rank, rail: u8) {
        if let Some(index) = self.peer(peer).filter(|_| rail < self.rails()) {
            self.shared.event(index, 0, Event::Prefer(rail));
        }
    }

    /// Which rail is the best one for the connection to a peer: the first one, or what was [preferred](Mesh::prefer) last.
    pub fn preferred(&self, peer: Rank) -> u8 {
        let Some(index) = self.peer(peer) else { return 0 };
        let events = self.shared.to_do.events.borrow();
        let to_come = events.iter().rev().find_map(|(of, _, event)| match event {
            Event::Prefer(rail) if *of == index => Some(*rail),
            _ => None,
        });
        to_come.unwrap_or_else(|| self.shared.with_peer(index, |peer| peer.link.preferred()))
    }

    /// Whether a peer answers over a rail now: a request that it turns down goes there and back, and nothing changes by it. No answer is
    /// one when the connection manager gives up.
    pub async fn answers(&self, peer: Rank, rail: u8) -> bool {
        let open = !self.is_closed() && rail < self.rails();
        let Some(index) = self.peer(peer).filter(|_| open) else { return false };
        let (tell, answered) = oneshot();
        self.shared.wants_trial(index, rail, Some(tell));
        answered.await.is_ok()
    }

    /// The same as [`prefer`](Mesh::prefer), and the connection goes there now, as if it had broken: see [`answers`](Mesh::answers).
    pub fn move_to(&self, peer: Rank, rail: u8) {
        self.prefer(peer, rail);
        if let Some(index) = self.peer(peer).filter(|_| rail < self.rails()) {
            self.shared.event(index, 0, Event::FailBack(rail));
        }
    }

    /// The connection to a peer is dead, as far as its user can tell: it is fenced and made again, over another rail if there is one.
    pub fn suspect(&self, peer: Rank) {
        let Some(index) = self.peer(peer) else { return };
        let standing = self.shared.with_peer(index, |peer| peer.link.is_up().then_some(peer.epoch));
        if let Some(epoch) = standing {
            self.shared.event(index, epoch, Event::Broken);
        }
    }

    /// Has a peer's adapter answer, which waits for nothing that its node has to say: [`answered`](Mesh::answered) counts that. Where what this
    /// node has to say leaves no room for the question, the answer to that is one.
    pub fn touch(&self, peer: Rank) {
        let Some(index) = self.peer(peer) else { return };
        let Some(pending) = self.shared.with_peer(index, |peer| self.shared.touch(index, peer)) else {
            return;
        };
        let shared = Rc::clone(&self.shared);
        drop(self.shared.rt.spawn(async move {
            if pending.await.0.is_ok() {
                shared.with_peer(index, |peer| peer.answered += 1);
            }
        }));
    }

    /// How many frames have arrived from a peer: messages, acknowledgements, whatever. While that stays the same its node gives no sign of
    /// life.
    pub fn heard(&self, from: Rank) -> u64 {
        self.peer(from).map_or(0, |index| self.shared.with_peer(index, |peer| peer.heard))
    }

    /// How many signs of its link's life a peer has given: frames that have arrived, probes and lists of one-sided operations that its
    /// adapter has carried out. An adapter does that also for a node that hangs.
    pub fn answered(&self, of: Rank) -> u64 {
        self.peer(of).map_or(0, |index| self.shared.with_peer(index, |peer| peer.heard + peer.answered))
    }

    /// How long this node's messages may go without acknowledgement, if peers are configured as it is.
    pub fn ack_delay(&self) -> Nanos {
        self.shared.config.ack_delay
    }
}
