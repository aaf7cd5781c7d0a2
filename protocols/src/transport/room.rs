//! Waiting for room among the messages that are kept for a peer, in line.
//!
//! Several systems of a node send to one peer. If all of them were woken to see who comes first, the one that was woken first would
//! send, wait again before the others, and be first once more: with little room, one that always has something to say
//! would keep the others from saying anything.

use super::mesh::{Mesh, Shared};
use super::peer::{Peer, Waiter};
use super::{BEFORE_MEMORY_IS_ASKED_FOR, Channel, Rank, SendError};
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use weft_verbs::Verbs;

impl<V: Verbs> Mesh<V> {
    /// Whether [`Mesh::send`] to this peer has room now. To oneself and to nobody it always has.
    pub fn has_room(&self, to: Rank) -> bool {
        self.room_left(to) > 0
    }

    /// For how many messages to this peer there is room now. To oneself and to nobody there is for any number.
    pub fn room_left(&self, to: Rank) -> usize {
        let most = self.shared.config.max_queued as usize;
        let left = |index| self.shared.with_peer(index, |peer| most.saturating_sub(peer.session.kept()));
        self.peer(to).map_or(usize::MAX, left)
    }

    /// Waits until [`Mesh::send`] to this peer has room, behind those who wait for it already. Who sends as soon as this is ready
    /// finds it.
    ///
    /// # Errors
    ///
    /// There is no such peer, its incarnation was expelled, or the mesh is closed.
    pub async fn room(&self, to: Rank) -> Result<(), SendError> {
        let index = self.check(to, 0)?;
        let shared = &*self.shared;
        let ended = shared.with_peer(index, |peer| peer.ended);
        Room { shared, to, index, ended, ticket: None }.await
    }

    /// Sends a message as soon as there is room and memory for it. It is what it is when it is sent, and not before.
    ///
    /// # Errors
    ///
    /// As [`Mesh::room`], or the message is too long.
    pub(crate) async fn send_once_possible<B: AsRef<[u8]>>(
        &self,
        to: Rank,
        channel: Channel,
        bytes: impl Fn() -> B,
    ) -> Result<(), SendError> {
        loop {
            self.room(to).await?;
            match self.send(to, channel, bytes().as_ref()) {
                // Another task took the place.
                Err(SendError::Full { .. }) => {}
                Err(why) if why.lacks_memory() => self.shared.rt.sleep(BEFORE_MEMORY_IS_ASKED_FOR).await,
                done => return done,
            }
        }
    }
}

/// A place in the line.
struct Room<'a, V: Verbs> {
    shared: &'a Shared<V>,
    to: Rank,
    index: usize,
    /// Where this has changed, what is to be sent was for one who was expelled.
    ended: u32,
    ticket: Option<u64>,
}

impl<V: Verbs> Future for Room<'_, V> {
    type Output = Result<(), SendError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.shared.closed.get() {
            return Poll::Ready(Err(SendError::Closed));
        }
        let most = self.shared.config.max_queued as usize;
        self.shared.with_peer(self.index, |peer| {
            if peer.gone || peer.ended != self.ended {
                return Poll::Ready(Err(SendError::PeerGone(self.to)));
            }
            let place = self.ticket.and_then(|ticket| place_in(&peer.line, ticket));
            let before = place.unwrap_or(peer.line.len());
            if peer.session.kept() + before < most {
                if let Some(ticket) = self.ticket.take() {
                    leave(&mut peer.line, ticket);
                    // This one may find that it has nothing to send any more, and the next may have looked before it.
                    peer.line.front().inspect(|next| next.waker.wake_by_ref());
                }
                return Poll::Ready(Ok(()));
            }
            self.ticket = Some(peer.wait_in(|peer| &mut peer.line, self.ticket, cx));
            Poll::Pending
        })
    }
}

impl<V: Verbs> Drop for Room<'_, V> {
    /// Who gives up its place lets those behind it look.
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let most = self.shared.config.max_queued as usize;
        self.shared.with_peer(self.index, |peer| {
            leave(&mut peer.line, ticket);
            peer.wake_those_with_room(most);
        });
    }
}

impl<V: Verbs> Peer<V> {
    /// Lets those in line look for whom there is room, the first one first. There may be thousands behind them, who would look for nothing.
    pub(super) fn wake_those_with_room(&self, most: usize) {
        let room = most.saturating_sub(self.session.kept());
        self.line.iter().take(room).for_each(|waiter| waiter.waker.wake_by_ref());
    }
}

/// Where a ticket stands in a line. Tickets ascend there.
pub(super) fn place_in(line: &VecDeque<Waiter>, ticket: u64) -> Option<usize> {
    line.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok()
}

/// Takes a ticket out of a line.
pub(super) fn leave(line: &mut VecDeque<Waiter>, ticket: u64) {
    if let Some(place) = place_in(line, ticket) {
        line.remove(place);
    }
}
