//! Expelling: an incarnation of a peer is barred for good, and nothing here waits for it any more.
//!
//! Who is alive is not the transport's to say: a membership decides it ([`members`](crate::members)), and tells the mesh.
//! Then whatever of that incarnation is still on its way has no effect here: its queue pair is in the error state before
//! [`Mesh::expel`] returns, so that a view which leaves it out begins behind its last operation.

use super::grounds::Grounds;
use super::guest_host::Guests;
use super::link::Event;
use super::mesh::{Mesh, Shared};
use super::operations::is_fixed;
use super::peer::{Peer, keep};
use super::{Inbox, Rank};
use crate::rt::sync::{Mailbox, mailbox};
use crate::rt::{QpHandle, WaitPoint};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Context, Poll};
use weft_verbs::Verbs;

impl<V: Verbs> Mesh<V> {
    /// This node's incarnation: another number after each restart, never zero.
    pub fn incarnation(&self) -> u64 {
        self.shared.session
    }

    /// The incarnation of a peer that a connection stood with last, if one ever did.
    pub fn incarnation_of(&self, rank: Rank) -> Option<u64> {
        if rank == self.me() {
            return Some(self.incarnation());
        }
        let peers = self.shared.peers.borrow();
        let incarnation = peers.get(self.shared.index(rank)?)?.as_deref()?.link.incarnation();
        (incarnation != 0).then_some(incarnation)
    }

    /// How often a peer has begun anew since this node knows it: so often each channel is told
    /// ([`PeerReset`](super::Incoming::PeerReset)) that is open all the time. Who has taken fewer of these still acts for an earlier
    /// incarnation, whose addresses mean nothing in this one.
    pub fn resets_of(&self, rank: Rank) -> u32 {
        let peers = self.shared.peers.borrow();
        let peer = self.peer(rank).and_then(|index| peers.get(index)?.as_deref());
        peer.map_or(0, |peer| peer.incarnations)
    }

    /// The same of all peers, before what waits in an inbox, for who begins to count what that is told: messages that came before it was
    /// opened may be of boots that have ended since.
    pub(crate) fn resets_before(&self, inbox: &Inbox) -> BTreeMap<Rank, u32> {
        let shared = &*self.shared;
        let places = shared.peers.borrow().len();
        let ranks =
            (0..places).filter(|index| *index != shared.loopback()).map(|index| shared.rank_at(index));
        ranks.map(|rank| (rank, self.resets_of(rank).saturating_sub(inbox.resets_of(rank)))).collect()
    }

    /// Has nothing to do any more with an incarnation of a peer, for good:
    ///
    /// - Its queue pair is fenced, also that of a connection which is only being made: from the return on, nothing that it posted executes
    ///   on this node's memory. Nor does anything that it had this node execute by messages: while such a thing is under way, this node's
    ///   connection to itself is fenced, and what others have under way over that gets an unknown outcome.
    /// - It is barred: it is refused whenever it asks for a connection, and told why ([`Mesh::expelled`]).
    /// - What was kept for it is dropped, and counted ([`MeshStats::dropped`](super::MeshStats::dropped)).
    /// - What waits for it ends with `PeerGone`: sends, operations, [`Mesh::resolve_outcomes`]; also if the next one is
    ///   [admitted](Mesh::admit) at once.
    ///
    /// The next incarnation of that node connects as ever. Of an incarnation that is not the one that stood last, only the bar is
    /// new. One does not expel oneself.
    pub fn expel(&self, rank: Rank, incarnation: u64) {
        self.expel_on(rank, incarnation, Grounds::default());
    }

    /// The same, on grounds that the expelled one is told.
    pub fn expel_on(&self, rank: Rank, incarnation: u64, grounds: Grounds) {
        let shared = &*self.shared;
        let Some(index) = self.peer(rank).filter(|_| !shared.closed.get()) else { return };
        let (is_for, epoch) = shared.with_peer(index, |peer| {
            // At once: a connection may stand that nobody has looked at yet.
            peer.link.bars(incarnation, grounds);
            if peer.link.may_be_with(incarnation) {
                fence(peer);
            }
            (peer.link.is_for(incarnation), peer.epoch)
        });
        if is_for {
            shared.give_up(index);
        }
        shared.event(index, epoch, Event::Expelled(incarnation, grounds));
    }

    /// This incarnation of a peer is there, by a membership's word. If an earlier one was expelled before any connection stood with that
    /// peer, or refused this node for good, then what is said from now on is for this one, which is asked for a connection: else both ends might
    /// wait for the other's request, each because of what became of an earlier boot of the other.
    ///
    /// Of a peer that was met nothing changes: what is said to it before this incarnation connects would be lost with the session of the
    /// last one ([`Mesh::incarnation_of`] says which one that was).
    pub fn admit(&self, rank: Rank, incarnation: u64) {
        let shared = &*self.shared;
        let Some(index) = self.peer(rank).filter(|_| !shared.closed.get() && !shared.retired.get()) else {
            return;
        };
        shared.with_peer(index, |peer| {
            peer.gone &= !peer.link.may_admit(incarnation);
        });
    }

    /// Has nothing to do any more with anybody else, for good: this incarnation was left out of a membership. What stands with any peer
    /// is fenced, what was kept is dropped and counted, what waits ends with `PeerGone`, and no connection is asked for any more. Guests are
    /// forgotten as if their leases had ended, and none is admitted.
    /// Who asks for one is refused and told why, and waits for nothing of this incarnation any more. The mesh is open: it is the systems'
    /// to end.
    pub fn retire(&self) {
        let shared = &*self.shared;
        if shared.closed.get() || shared.retired.replace(true) {
            return;
        }
        for index in (0..shared.config.peers.len()).filter(|index| *index != self.me().index()) {
            shared.no_more(index);
            let epoch = shared.with_peer(index, |peer| peer.epoch);
            shared.event(index, epoch, Event::Retired);
        }
        for index in shared.guests.iter().flat_map(Guests::places) {
            shared.no_more(index);
            shared.take_leave(index);
        }
    }

    /// Whether a peer has said that it expelled this incarnation. It is of no more use, and must be restarted.
    pub fn is_expelled(&self) -> bool {
        !self.shared.outcast.borrow().is_empty()
    }

    /// Waits until a peer says that it has expelled this incarnation, or the mesh is closed.
    pub async fn expelled(&self) {
        self.expelled_on(0).await;
    }

    /// The same, so many different grounds after the first that was heard; and what they are, or none if the mesh is closed.
    pub async fn expelled_on(&self, nth: usize) -> Option<Grounds> {
        let heard = || self.shared.outcast.borrow().get(nth).copied();
        let ends = || heard().is_some() || self.shared.closed.get();
        self.shared.outcast_changed.until(ends).at(nth).await;
        heard()
    }

    /// Whether the incarnation of a peer that is known was expelled, or has expelled this one: until another one connects, nothing can be
    /// sent to it.
    pub fn is_gone(&self, rank: Rank) -> bool {
        let peers = self.shared.peers.borrow();
        let peer = self.peer(rank).and_then(|index| peers.get(index)?.as_deref());
        peer.is_some_and(|peer| peer.gone)
    }

    /// From now on, each peer that refuses this incarnation for good, since one of both was left out of a membership: what was kept for it
    /// has been dropped, and it answers nothing. Which of both it is the membership says. There is none once the mesh is closed.
    pub fn refusals(&self) -> Mailbox<Rank> {
        let (sender, refusals) = mailbox();
        if !self.shared.closed.get() {
            self.shared.refusals.borrow_mut().push(sender);
        }
        refusals
    }

    /// Waits until no message is kept: each was received, or is never to be.
    pub async fn all_received(&self) {
        let kept = |cx: &mut Context<'_>, index| {
            self.shared.with_peer(index, |peer| {
                let is_kept = peer.session.kept() > 0 && !peer.gone;
                if is_kept {
                    keep(&mut peer.senders, cx);
                }
                is_kept
            })
        };
        let others = || (0..self.shared.config.peers.len()).filter(|index| *index != self.me().index());
        poll_fn(|cx| match !self.shared.closed.get() && others().any(|index| kept(cx, index)) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
    }
}

/// Fences the queue pair that there is of a peer: the one of a connection that stands, or of one that is being made.
fn fence<V: Verbs>(peer: &mut Peer<V>) {
    peer.queue.iter().for_each(QpHandle::fence);
}

/// Ends what waits for a peer. Says how many messages are dropped.
fn end_waits<V: Verbs>(peer: &mut Peer<V>) -> u64 {
    peer.gone = true;
    peer.ended += 1;
    peer.asks = 0;
    peer.session.disconnected();
    let dropped = peer.session.reset().len() as u64;
    peer.carried.peer_restarted();
    peer.unresolved = false;
    peer.wake_all();
    dropped
}

impl<V: Verbs> Shared<V> {
    /// A peer says that it expelled this incarnation. It will not change its mind: nothing waits for it any more, or it would be asked
    /// for a connection for ever. (Its next incarnation has expelled nobody, and may ask for one.)
    pub(super) fn outcast(&self, index: usize, grounds: Grounds) {
        self.no_more(index);
        let mut outcast = self.outcast.borrow_mut();
        if !outcast.contains(&grounds) {
            outcast.push(grounds);
        }
        drop(outcast);
        self.outcast_changed.notify();
    }

    /// Has nothing to do any more with the incarnation of a peer that is known, whose queue pair is fenced.
    fn give_up(&self, index: usize) {
        let dropped = self.with_peer(index, end_waits);
        self.stats.borrow_mut().dropped += dropped;
        self.acts_no_more(index);
    }

    /// From the return on, nothing that a peer had asked this node to execute has an effect. What is yet to be posted is not, since the peer
    /// is not there any more in that incarnation. If something was posted whose outcome is not fixed, this node's connection to itself is
    /// fenced: the far end, so that no late copy executes, and the near one, so that what others have posted over it ends at once and not
    /// after the adapter's retries.
    pub(super) fn acts_no_more(&self, index: usize) {
        let Some((ups, last_op)) = self.with_peer(index, |peer| peer.acted.take()) else { return };
        let me = self.config.me.index();
        let (is_fixed, near) = self.with_peer(me, |peer| (is_fixed(peer, ups, last_op), peer.link.is_up()));
        if is_fixed {
            return;
        }
        // An end of which neither is up has drained, or does.
        if near || self.with_peer(self.loopback(), |peer| peer.link.is_up()) {
            self.with_peer(self.loopback(), fence);
        }
        if near {
            self.with_peer(me, fence);
        }
    }

    /// Nothing of the incarnation of a peer that is known is waited for any more.
    pub(super) fn no_more(&self, index: usize) {
        self.with_peer(index, fence);
        self.give_up(index);
        if !self.retired.get() {
            let rank = self.rank_at(index);
            self.refusals.borrow_mut().retain(|waits| waits.send(rank).is_ok());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt::fake::{Fake, V};
    use crate::rt::{Rt, RtConfig};
    use crate::transport::{Channel, MeshConfig, NotExecuted, OpError, SendError};
    use std::pin::pin;
    use std::task::Waker;
    use weft_verbs::RemoteSlice;

    #[test]
    fn what_waits_for_one_who_was_never_met_ends_though_the_next_one_is_admitted_before_it_is_polled() {
        let fake = Fake::default();
        let rt = Rt::<V>::new(&fake, RtConfig::default()).expect("the fake device obeys");
        let names = vec!["n0".to_string(), "n1".to_string()];
        let config =
            MeshConfig { recv_buffers: 8, max_queued: 1, ..MeshConfig::new(Rank::from_index(0), names) };
        let mesh = Mesh::start(&rt, config).expect("the fake device obeys");
        let (there, at) = (Rank::from_index(1), RemoteSlice { len: 8, ..RemoteSlice::default() });
        let mut cx = Context::from_waker(Waker::noop());
        let mut bytes = [0; 8];
        let mut reads = pin!(mesh.read(there, at, &mut bytes));
        assert!(reads.as_mut().poll(&mut cx).is_pending());
        mesh.send(there, Channel(3), b"there").expect("there is room for one");
        let mut room = pin!(mesh.room(there));
        assert!(room.as_mut().poll(&mut cx).is_pending());
        mesh.expel(there, 7);
        mesh.admit(there, 8);
        assert!(!mesh.is_gone(there), "what is said now is for the next one");
        let gone = OpError::NotExecuted(NotExecuted::PeerGone(there));
        assert_eq!(reads.poll(&mut cx), Poll::Ready(Err(gone)));
        assert_eq!(room.poll(&mut cx), Poll::Ready(Err(SendError::PeerGone(there))));
        assert_eq!(pin!(mesh.room(there)).poll(&mut cx), Poll::Ready(Ok(())));
        let mut later = [0; 8];
        assert!(pin!(mesh.read(there, at, &mut later)).poll(&mut cx).is_pending());
        assert_eq!(mesh.resets_of(there), 0, "no channel was told of another one");
    }
}
