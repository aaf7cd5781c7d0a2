//! Release (ddss.txt, 5.9: the framework may use the memory again): freeze, revoke, report.
//!
//! Keys travel, so that a home does not know who has one. It asks all nodes to drain the segment: none posts anything to it
//! any more, and each says so once what it had posted has ended. Then nothing can be under way, the home revokes the keys, and the
//! memory is free. A key that somebody has all the same opens nothing: before its first use a node asks the home whether its segment is there.
//! (The home's adapter may have given the same key out again.)

use super::home::{Left, Release};
use super::io::again;
use super::key::Place;
use super::messages::Message;
use super::parties::Party;
use super::segment::Open;
use super::service::Ddss;
use super::{DdssError, Key, Name};
use crate::transport::{NotExecuted, OpError, Rank};
use weft_verbs::{RemoteSlice, SendOp, Verbs};

impl<V: Verbs> Ddss<V> {
    /// Releases a segment; names do not stand for it any more. Calls that are under way end as they would or with
    /// [`DdssError::Released`], and all later ones with that, whatever the model; so do those of who has its lock. Returns once
    /// its keys are revoked. Waits for all nodes as long as it takes: set a deadline. A release that was begun goes on
    /// if the call is dropped.
    ///
    /// # Errors
    ///
    /// [`DdssError::Released`] if somebody else has released it, or is about to; the key names no node.
    pub async fn release(&self, key: Key) -> Result<(), DdssError> {
        if key.home.index() >= self.0.mesh.size() as usize {
            return Err(DdssError::Key);
        }
        self.check_party(key.party())?;
        match self.request(key.home, |id| Message::Release { id, key }).await? {
            Message::Done { .. } => Ok(()),
            Message::Released { .. } => Err(DdssError::Released),
            Message::Gone { .. } => Err(DdssError::Gone(key.home)),
            _ => Err(DdssError::Closed),
        }
    }

    /// A node has a part in a segment before it posts anything to it. Its home says so, with the answer to who opens a name, and to
    /// who has been passed a key when that is asked: the segment may be gone, and its memory and its adapter's key another one's. Where
    /// nodes agree on who is alive the home knows who has one, and whether something is left of the node's earlier incarnation.
    pub(super) async fn take_part(&self, open: &Open<V>) -> Result<(), DdssError> {
        open.is_there()?;
        if !open.has_part() {
            self.join(open).await?;
            open.is_there()?;
        }
        Ok(())
    }

    /// Asks the home whether a segment is there whose key it has not seen this node use, or whose key its adapter has refused.
    pub(super) async fn join(&self, open: &Open<V>) -> Result<(), DdssError> {
        let key = open.key();
        loop {
            let home = self.home_to_ask(key.party()).await?;
            let asked = async {
                let mut request = self.ask(home, |id| Message::Join { id, key }).await?;
                self.answer(&mut request).await
            };
            match asked.await {
                Ok(Message::Joined { again, .. }) => {
                    open.takes_part(again);
                    return Ok(());
                }
                Ok(Message::Released { .. }) => {
                    self.close(key);
                    open.close();
                    return Err(DdssError::Released);
                }
                // Its home's incarnation died before this node had a view of it, so that no view tells this one.
                Ok(Message::Gone { .. }) => {
                    self.0.open.borrow_mut().remove(&key.id());
                    if !self.asks_first() {
                        // The next who opens its name has it made anew. (Among members one call is told first.)
                        self.unname(key);
                    }
                    open.dies();
                    return Err(DdssError::Gone(key.home));
                }
                // The key may be of a later incarnation than the one that this node knew.
                Err(DdssError::Gone(_)) if self.asks_first() && home != key.party() => {}
                Ok(_) => return Err(DdssError::Closed),
                Err(why) => return Err(why),
            }
        }
    }

    /// At the home: somebody wants a segment to be released.
    pub(super) fn on_release(&self, from: Rank, id: u64, key: Key) {
        if key.incarnation != self.0.mesh.incarnation() {
            return self.send_later(from, Message::Gone { id });
        }
        let users = self.users();
        let action = self.0.home.borrow_mut().on_release(key, from, id, &users);
        match action {
            Release::Late => self.send_later(from, Message::Released { id }),
            Release::Drain(waiting) => {
                for (to, id) in waiting {
                    self.send_later(to, Message::Released { id });
                }
                self.tell_all(Message::Drain { key });
            }
        }
    }

    /// A home wants this node to let a segment go. It says so once nothing of its own is under way there: at once if it has not opened
    /// the segment, unless it is the home, which marks headers. (A home may ask one that began anew, and does not wait for it: its read would
    /// meet memory that goes.)
    pub(super) fn on_drain(&self, from: Rank, key: Key) {
        self.0.going.borrow_mut().begins(key);
        self.0.home.borrow_mut().forget(key);
        let uses = self.close(key) || key.home == self.0.mesh.me();
        let (ddss, home) = (self.clone(), self.party(from));
        drop(self.0.rt.spawn(async move {
            let Some(header) = key.at.memory.word(0) else { return };
            if uses && ddss.all_ended(key.party(), header).await.is_err() {
                return;
            }
            drop(ddss.say(home, Message::Drained { name: key.name, at: key.at }).await);
        }));
    }

    /// At the home: nothing of a node's is under way any more. With the last one the keys are revoked, and the memory is free.
    pub(super) fn on_drained(&self, from: Rank, name: Name, at: Place) {
        let left = self.0.home.borrow_mut().on_drained(name, at, from);
        let Some(Left { key, asker: (asker, id), opens }) = left else { return };
        // No request of this node names the memory; what is not revoked is not used again.
        if self.0.memory.borrow_mut().revoke(name).is_err() {
            self.0.stats.borrow_mut().unrevoked += 1;
        }
        self.0.stats.borrow_mut().released += 1;
        self.tell_all(Message::Revoked { key });
        self.send_later(asker, Message::Done { id });
        for (from, id, spec) in opens {
            self.serve(from, id, name, spec);
        }
    }

    /// Ends this node's view of a segment. Says whether it had one.
    fn close(&self, key: Key) -> bool {
        let open = self.0.open.borrow_mut().remove(&key.id());
        self.unname(key);
        open.inspect(|segment| segment.0.close()).is_some()
    }

    /// Waits until nothing is under way to a segment to which nothing more is posted: what waited for its turn to be posted stands
    /// before this read in the line, and what was posted before it has ended with it, or with its connection. How the read ends says
    /// nothing: a home that did not wait for this node has revoked the key. Of a home that has begun anew nothing is left that could be met.
    pub(super) async fn all_ended(&self, home: Party, header: RemoteSlice) -> Result<(), DdssError> {
        let (mesh, Party { rank: home, incarnation }) = (&self.0.mesh, home);
        if self.asks_first() && mesh.incarnation_of(home).is_some_and(|met| met != incarnation) {
            return Ok(());
        }
        loop {
            let Ok(block) = self.word_block() else {
                self.until_there_may_be_memory().await;
                continue;
            };
            match mesh.post_list(home, [(SendOp::Read { from: header }, block)]).await {
                Err(OpError::NotExecuted(NotExecuted::Refused(_))) => self.until_there_may_be_memory().await,
                _ => break,
            }
        }
        while let Err(why) = mesh.resolve_outcomes(home).await {
            again(why)?;
        }
        Ok(())
    }

    /// Tells all who may know the segment: those that may have a part in it, and others that are connected, which may have been passed its
    /// key, or keep a name for it. What is said to one that never comes would wait for it for ever.
    fn tell_all(&self, message: Message) {
        let users = self.users();
        let is_here =
            |node: &Rank| users.binary_search(node).is_ok() || self.0.mesh.incarnation_of(*node).is_some();
        for node in self.nodes().into_iter().filter(is_here) {
            self.send_later(node, message);
        }
        self.waits();
    }
}
