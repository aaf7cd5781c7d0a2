//! Where nodes do not agree on who is alive, a node that restarts ends the memory: for all others, and for what that node is next.
//!
//! Only those hear of a restart that had a connection with the boot before. All others would go on: the new boot with zeros in the
//! place of what the memory had, and the rest waiting for those who were told. So whoever hears of it gives up all that it keeps for
//! others and tells them all; and who has not been told yet is told in answer to whatever it says.

use super::DsmError;
use super::messages::Message;
use super::service::Service;
use crate::transport::Rank;
use weft_verbs::Verbs;

impl<V: Verbs> Service<V> {
    /// This node hears that another one has restarted. What that one is next knows nothing of it, whatever this node has told before.
    pub fn on_reset(&self, who: Rank) {
        let me = self.mesh.me();
        let told = if self.restarted.get().is_some() { vec![who] } else { self.nodes() };
        self.ends_with(who);
        told.into_iter().filter(|node| *node != me).for_each(|node| {
            self.send(node, &Message::Restarted { who });
        });
    }

    /// Another node says that one has restarted, which may be this one.
    pub fn on_restarted(&self, who: Rank) {
        // Where nodes agree on who is alive, a view tells.
        if self.following.is_some() || who.get() > self.mesh.size() {
            self.stats.borrow_mut().malformed += 1;
        } else {
            self.ends_with(who);
        }
    }

    /// A message comes after the end: nothing is done about it, and its sender is told.
    pub fn on_late(&self, from: Rank, bytes: &[u8]) {
        match (Message::decode(bytes), self.restarted.get()) {
            (None, _) => self.stats.borrow_mut().malformed += 1,
            // It knows.
            (Some(Message::Restarted { .. }), _) => {}
            (Some(_), Some(who)) if from != self.mesh.me() => self.send(from, &Message::Restarted { who }),
            _ => {}
        }
    }

    /// The first one that restarts ends the memory.
    fn ends_with(&self, who: Rank) {
        if self.restarted.get().is_none() {
            self.restarted.set(Some(who));
            self.reach.ends();
            self.is_left_out(DsmError::PeerReset(who));
        }
    }
}
