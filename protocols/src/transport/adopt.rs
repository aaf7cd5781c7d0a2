//! Connections that were made by other means than the connection manager, and are handed to the mesh.
//!
//! Launchers of clusters connect queue pairs by themselves: each process tells its queue pairs' numbers to the
//! others over a channel of its own (PMI, a file, TCP), and moves its queue pairs through their states by hand.
//! A mesh takes part in that for the *first* connection to a peer. After a failure the connection manager
//! makes the next one, as ever; so peers must have names that it can resolve. Of several rails it is rail 0 that is
//! prepared.

use super::link::Event;
use super::mesh::{Mesh, Shared};
use super::session::MIN_BUFFERS;
use super::wire::Hello;
use super::{AdoptError, Rank};
use crate::rt::QpHandle;
use std::rc::Rc;
use weft_verbs::{QpState, QueuePair, Verbs};

/// What two nodes that never spoke agree on without a word.
const FIRST_GENERATION: u32 = 1;

/// A queue pair for a connection that the caller makes; see [`Mesh::prepare`]. Dropping it gives the queue pair
/// up.
pub struct Prepared<V: Verbs> {
    shared: Rc<Shared<V>>,
    index: usize,
    epoch: u32,
    queue: QpHandle<V>,
}

impl<V: Verbs> Mesh<V> {
    /// A queue pair for a connection to `peer` that the caller makes, in place of the connection manager: in
    /// state Init, with its receive buffers posted.
    ///
    /// The caller exchanges with the peer, by whatever means it has, the queue pairs' numbers and paths and
    /// the two [introductions](Prepared::introduction), moves [`Prepared::qp`] to ready-to-send, and ends with
    /// [`Prepared::adopt`]. The peer may adopt its end, and send, earlier or later. What this node sends
    /// before it adopts starts a connection by the connection manager, and the two get in each other's way:
    /// bootstrap first.
    ///
    /// [`AdoptError::Connected`] if there is or was a connection to the peer. A second call for the same peer
    /// supersedes the first.
    pub fn prepare(&self, peer: Rank) -> Result<Prepared<V>, AdoptError> {
        let index = self.shared.index(peer).ok_or(AdoptError::NoSuchPeer(peer))?;
        self.prepare_at(index)
    }

    /// Both ends of the connection to oneself, over which this node's own atomics on its own words go
    /// (see [`Mesh::compare_swap`]); for the caller to connect with each other.
    pub fn prepare_loopback(&self) -> Result<[Prepared<V>; 2], AdoptError> {
        Ok([self.prepare_at(self.me().index())?, self.prepare_at(self.shared.loopback())?])
    }

    fn prepare_at(&self, index: usize) -> Result<Prepared<V>, AdoptError> {
        let shared = &self.shared;
        if shared.closed.get() {
            return Err(AdoptError::Closed);
        }
        let epoch = shared.with_peer(index, |peer| {
            if peer.queue.is_some() || !peer.link.takes_adoption() {
                return Err(AdoptError::Connected(shared.rank_at(index)));
            }
            // What an earlier preparation still receives is nobody's.
            peer.epoch = peer.number();
            Ok(peer.epoch)
        })?;
        let queue = shared.new_queue(index, epoch, 0, 0)?;
        Ok(Prepared { shared: Rc::clone(shared), index, epoch, queue })
    }
}

impl<V: Verbs> Prepared<V> {
    /// The queue pair, to be connected.
    pub fn qp(&self) -> &V::Qp {
        self.queue.qp()
    }

    /// The peer.
    pub fn peer(&self) -> Rank {
        self.shared.rank_at(self.index)
    }

    /// What the peer's [`Prepared::adopt`] needs to know of this node: bytes to be carried there as they are.
    pub fn introduction(&self) -> Vec<u8> {
        self.shared.hello(self.index, 0, FIRST_GENERATION, 0).encode().to_vec()
    }

    /// Hands the connection to the mesh, with the peer's introduction: its session and its credits begin.
    pub fn adopt(self, introduction: &[u8]) -> Result<(), AdoptError> {
        let Prepared { shared, index, epoch, queue } = self;
        if shared.closed.get() {
            return Err(AdoptError::Closed);
        }
        let peer = shared.rank_at(index);
        let hello = checked(introduction, peer, shared.config.max_message)?;
        let state = queue.qp().state();
        if state != QpState::Rts {
            return Err(AdoptError::NotReady(state));
        }
        shared.with_peer(index, |of| {
            if of.epoch != epoch || of.queue.is_some() || !of.link.takes_adoption() {
                return Err(AdoptError::Superseded(peer));
            }
            (of.queue, of.rail) = (Some(queue), 0);
            Ok(())
        })?;
        shared.event(index, epoch, Event::Adopted(hello));
        Ok(())
    }
}

/// The peer's introduction, if the two can talk.
fn checked(introduction: &[u8], want: Rank, max_message: u32) -> Result<Hello, AdoptError> {
    let hello = Hello::decode(introduction).ok_or(AdoptError::Unreadable)?;
    if hello.rank != want {
        return Err(AdoptError::Stranger { got: hello.rank, want });
    }
    if hello.max_message != max_message {
        return Err(AdoptError::Mismatch { field: "max_message", value: hello.max_message });
    }
    if hello.buffers < MIN_BUFFERS {
        return Err(AdoptError::Mismatch { field: "recv_buffers", value: hello.buffers });
    }
    // Whatever else it says is of a connection that never was.
    Ok(Hello { with: 0, generation: FIRST_GENERATION, received: 0, ..hello })
}
