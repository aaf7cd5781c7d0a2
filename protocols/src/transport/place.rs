//! A write to a peer's memory and a message behind it, as one thing.
//!
//! Many protocols move data to an address that both sides know and then say that they are there. On one queue pair the message
//! arrives behind the write. When the connection breaks between the two, nobody may repeat the message alone: the peer would take what
//! is not there; and nobody may repeat the write alone: the peer may have got the message, and have put other data there. So the
//! session keeps both together. After a reconnection it knows what the peer, whose old queue pair is fenced, has received: where
//! the message is among that, the write before it was executed, and neither is repeated; else both are.

use super::mesh::{Mesh, Shared};
use super::peer::Outgoing;
use super::wire::HEADER_LEN;
use super::{Channel, Rank, SendError};
use crate::rt::sync::{OneshotReceiver, OneshotSender, oneshot};
use crate::rt::{BufferGuard, Pending, QpHandle};
use std::cell::Cell;
use weft_verbs::{
    AccessFlags, MemoryRegion, ProtectionDomain, RemoteSlice, Result, SendOp, Verbs, VerbsError,
};

/// A write that goes before a message.
pub(super) struct Place<V: Verbs> {
    from: BufferGuard<V>,
    to: RemoteSlice,
    /// Told of the first post; it has the adapter's use of the memory from then on.
    posted: Cell<Option<OneshotSender<Pending<V>>>>,
}

/// Data that are on their way to a peer's memory; see [`Mesh::place`]. It may be dropped.
pub struct Placed<V: Verbs>(OneshotReceiver<Pending<V>>);

impl<V: Verbs> Placed<V> {
    /// Waits until the adapter does not read the memory any more. If the connection breaks before the peer has the message, it
    /// reads it once more, later.
    pub async fn ended(self) {
        if let Ok(pending) = self.0.await {
            // However it ended: the memory is not read any more.
            drop(pending.await);
        }
    }
}

impl<V: Verbs> Mesh<V> {
    /// Whether this mesh can [place](Mesh::place). Memory belongs to one adapter, and a connection that goes over to another rail
    /// has messages alone: where nodes have several, data travel in messages.
    pub fn places(&self) -> bool {
        self.shared.config.other_rails.is_empty()
    }

    /// Writes memory of this node to a peer's, and sends a message behind it: when the peer takes the message, the data are there.
    /// Both are repeated after a reconnection or neither is. Returns once both are kept.
    ///
    /// The memory must keep its content until the peer has the message, which its answer tells, and must not be written before
    /// [`Placed::ended`]. The range must be the peer's: the peer's adapter breaks the connection for another one, as often as
    /// the message is repeated.
    ///
    /// # Errors
    ///
    /// Nothing was sent: as [`Mesh::send`], to oneself, the two lengths differ, or nodes have several rails.
    pub fn place(
        &self,
        to: Rank,
        from: BufferGuard<V>,
        at: RemoteSlice,
        channel: Channel,
        bytes: &[u8],
    ) -> std::result::Result<Placed<V>, SendError> {
        let index = self.check(to, bytes)?;
        if to == self.me() {
            return Err(SendError::NoSuchPeer(to));
        }
        if !self.places() {
            return Err(SendError::SeveralRails);
        }
        let len = from.len();
        if len != at.len {
            let (at, len, size) = (0, u64::from(len), u64::from(at.len));
            return Err(SendError::Memory(VerbsError::OutOfRange { at, len, size }));
        }
        let (told, posted) = oneshot();
        let place = Place { from, to: at, posted: Cell::new(Some(told)) };
        self.keep(to, index, channel, bytes, Some(Box::new(place)))?;
        Ok(Placed(posted))
    }

    /// A copy of bytes in memory that an adapter can read.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub fn copied(&self, bytes: &[u8]) -> Result<BufferGuard<V>> {
        let (shared, len) = (&self.shared, bytes.len() as u32);
        if len <= super::mesh::BULK {
            let block = shared.bulk_pool.alloc()?;
            block.write(0, bytes)?;
            return Ok(BufferGuard::Block { block, len });
        }
        let mr = shared.pd().alloc_mr(bytes.len(), AccessFlags::LOCAL_WRITE)?;
        mr.write(0, bytes)?;
        Ok(BufferGuard::Range { mr, at: 0, len })
    }
}

impl<V: Verbs> Shared<V> {
    /// Posts a message, behind its write if it has one.
    pub(super) fn post_message(&self, queue: &QpHandle<V>, message: &Outgoing<V>) -> Result<()> {
        let guard = BufferGuard::Block { block: message.block.clone(), len: HEADER_LEN as u32 + message.len };
        let Some(place) = &message.place else {
            return super::frames::post(queue, crate::rt::Local::Guarded(guard));
        };
        let write = SendOp::Write { to: place.to, imm: None };
        let [written, _] =
            queue.post_list([(write, place.from.share()), (SendOp::Send { imm: None }, guard)])?;
        if let Some(told) = place.posted.take() {
            // Nobody may want to know.
            drop(told.send(written));
        }
        Ok(())
    }
}

impl<V: Verbs> Outgoing<V> {
    /// How many places of the send queue it takes.
    pub(super) fn posts(&self) -> u32 {
        1 + u32::from(self.place.is_some())
    }
}

impl<V: Verbs> std::hash::Hash for Place<V> {
    fn hash<H: std::hash::Hasher>(&self, to: &mut H) {
        self.to.hash(to);
        self.from.hash_bytes(0..self.from.len(), to);
    }
}
