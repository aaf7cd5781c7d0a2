//! A write to a peer's memory and a message behind it, as one thing.
//!
//! Many protocols move data to an address that both sides know and then say that they are there. On one queue pair the message
//! arrives behind the write. When the connection breaks between the two, nobody may repeat the message alone: the peer would take what
//! is not there; and nobody may repeat the write alone: the peer may have got the message, and have put other data there. So the
//! session keeps both together. After a reconnection it knows what the peer, whose old queue pair is fenced, has received: where
//! the message is among that, the write before it was executed, and neither is repeated; else both are.
//!
//! Memory belongs to one adapter. Where nodes have several rails data are placed while the connection stands on the memory's, and neither
//! write nor message goes over to another one with it: the caller is told so, and sends the data some other way.

use super::carried::{CARRIED, MEMORY};
use super::mesh::{Mesh, Shared};
use super::peer::Outgoing;
use super::wire::HEADER_LEN;
use super::{Channel, Rank, SendError};
use crate::rt::sync::{Mailbox, MailboxSender, mailbox};
use crate::rt::{BrokenOff, BufferGuard, Pending, QpHandle};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_verbs::{AccessFlags, ProtectionDomain, RemoteSlice, Result, SendOp, Verbs, VerbsError};

/// What is sent in a message's place whose write cannot be repeated, for its number: no bytes.
const NOTHING: (Channel, u32) = (CARRIED, 0);

/// A write that goes before a message.
pub(super) struct Place<V: Verbs> {
    /// The caller's memory; once it was posted, a copy, if it is to be posted again.
    from: RefCell<BufferGuard<V>>,
    is_copied: Cell<bool>,
    to: RemoteSlice,
    posts: Rc<Posts<V>>,
}

/// What is known of a write at both of its ends: that of the session, which posts it, and that of its caller.
struct Posts<V: Verbs> {
    /// Told of each post; it has the adapter's use of the memory from then on. None: the write is struck.
    told: RefCell<Option<MailboxSender<Pending<V>>>>,
    /// Posts whose end the caller has not seen.
    open: Cell<u32>,
    /// Whether it was posted before.
    repeats: Cell<bool>,
    /// The connection has gone over to a rail that does not know the memory.
    is_void: Cell<bool>,
}

/// Data that are on their way to a peer's memory; see [`Mesh::place`]. It may be dropped.
pub struct Placed<V: Verbs> {
    ends: Mailbox<Pending<V>>,
    posts: Rc<Posts<V>>,
}

/// Takes a [placed](Mesh::place) write back, as far as it can be.
pub struct Strike<V: Verbs>(Rc<Posts<V>>);

impl<V: Verbs> Placed<V> {
    /// Waits until the adapter does not read the memory any more. What is repeated after that is written from a copy.
    pub async fn ended(mut self) {
        self.post_ended().await;
    }

    /// Waits for the end of the write's next post: whether it was executed. If not, the connection is broken, and a late copy may
    /// be executed until [`Mesh::resolve_outcomes`] returns. None: the write will not be posted any more, since the peer has
    /// the message, or is gone, or since both are [struck](Strike::strike).
    pub async fn post_ended(&mut self) -> Option<bool> {
        // However it ended: the memory is not read any more.
        Some(self.ends.recv().await.ok()?.await.0.is_ok())
    }

    /// Whether neither the write nor the message behind it will be repeated, though the peer has not got the message: the connection
    /// has gone over to another rail than the memory's. The memory has its content still: the peer's answer is yet to come.
    pub fn is_void(&self) -> bool {
        self.posts.is_void.get()
    }

    /// A post's end is dealt with: see [`Strike::is_in_flight`].
    pub fn settled(&self) {
        self.posts.open.set(self.posts.open.get().saturating_sub(1));
    }

    /// What takes the write back.
    pub fn striker(&self) -> Strike<V> {
        Strike(Rc::clone(&self.posts))
    }
}

impl<V: Verbs> Strike<V> {
    /// Neither the write nor the message behind it is posted from now on: whoever got the message alone would take what is not there. One
    /// that was posted may be executed.
    pub fn strike(&self) {
        self.0.told.take();
    }

    /// Whether a write was posted whose end is not [settled](Placed::settled).
    pub fn is_in_flight(&self) -> bool {
        self.0.open.get() > 0
    }
}

impl<V: Verbs> Mesh<V> {
    /// Whether data can always be [placed](Mesh::place). Memory belongs to one adapter, and a connection that has gone over to another
    /// rail has messages alone: where nodes have several, data must fit into them.
    pub fn always_places(&self) -> bool {
        self.shared.config.other_rails.is_empty()
    }

    /// Whether data can be placed at a peer now: the connection to it stands on the memory's rail, or is to be made there.
    pub fn places_at(&self, to: Rank) -> bool {
        self.shared.index(to).is_some_and(|index| self.shared.with_peer(index, |peer| peer.rail == MEMORY))
    }

    /// Writes memory of this node to a peer's, and sends a message behind it: when the peer takes the message, the data are there.
    /// Both are repeated after a reconnection or neither is. Returns once both are kept.
    ///
    /// The memory must keep its content until the peer has the message, which its answer tells, and must not be written before
    /// [`Placed::ended`]. What is repeated is written from a copy: the answer may come by another way than the adapter's
    /// acknowledgement, and the memory may be written then. The range must be the peer's: the peer's adapter breaks the connection for another one, as often as
    /// the message is repeated.
    ///
    /// # Errors
    ///
    /// Nothing was sent: as [`Mesh::send`], to oneself, the two lengths differ, or the connection stands on another rail than the
    /// memory's.
    pub fn place(
        &self,
        to: Rank,
        from: BufferGuard<V>,
        at: RemoteSlice,
        channel: Channel,
        bytes: &[u8],
    ) -> std::result::Result<Placed<V>, SendError> {
        let index = self.check(to, bytes.len())?;
        if to == self.me() {
            return Err(SendError::NoSuchPeer(to));
        }
        if !self.places_at(to) {
            return Err(SendError::OtherRail(to));
        }
        let len = from.len();
        if len != at.len {
            let (at, len, size) = (0, u64::from(len), u64::from(at.len));
            return Err(SendError::Memory(VerbsError::OutOfRange { at, len, size }));
        }
        let (told, ends) = mailbox();
        let told = RefCell::new(Some(told));
        let posts = Posts { told, open: Cell::new(0), repeats: Cell::default(), is_void: Cell::default() };
        let posts = Rc::new(posts);
        let (from, is_copied) = (RefCell::new(from), Cell::new(false));
        let place = Place { from, is_copied, to: at, posts: Rc::clone(&posts) };
        self.keep(to, index, channel, bytes, Some(Box::new(place)))?;
        Ok(Placed { ends, posts })
    }

    /// A copy of bytes in memory that an adapter can read.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub fn copied(&self, bytes: &[u8]) -> Result<BufferGuard<V>> {
        self.shared.copied(bytes)
    }
}

impl<V: Verbs> Shared<V> {
    fn copied(&self, bytes: &[u8]) -> Result<BufferGuard<V>> {
        let copy = self.room_for_copy(bytes.len() as u32)?;
        copy.write_at(0, bytes)?;
        Ok(copy)
    }

    /// Memory for a copy of so many bytes. Where there is none, that is to be found out before they are read.
    fn room_for_copy(&self, len: u32) -> Result<BufferGuard<V>> {
        if len <= super::mesh::BULK {
            return Ok(BufferGuard::Block { block: self.bulk_pool.alloc()?, len });
        }
        let mr = self.pd().alloc_mr(len as usize, AccessFlags::LOCAL_WRITE)?;
        Ok(BufferGuard::Range { mr, at: 0, len })
    }

    /// Readies a write to be posted: at first from the caller's memory, and from a copy when it is repeated. The peer has not got the message
    /// then, so the memory has its content still. It may be written as soon as the peer has, and this adapter may hear of that later.
    pub(super) fn ready_write(&self, place: &Place<V>) -> Result<()> {
        if place.posts.repeats.get() && !place.is_copied.get() {
            let mut from = place.from.borrow_mut();
            let copy = self.room_for_copy(from.len())?;
            copy.write_at(0, &from.bytes()?)?;
            *from = copy;
            place.is_copied.set(true);
        }
        Ok(())
    }

    /// Posts a message, behind its write if it has one, which is [ready](Shared::ready_write). Notes which of the queue pair's requests the
    /// write is, counted from 1, also where the device has accepted it and not the message.
    pub(super) fn post_message(
        &self,
        queue: &QpHandle<V>,
        message: &Outgoing<V>,
        last_op: &mut u64,
    ) -> Result<()> {
        let guard = BufferGuard::Block { block: message.block.clone(), len: HEADER_LEN as u32 + message.len };
        let told = message.place.as_ref().map(|place| (place, place.posts.told.borrow()));
        let Some((place, Some(told))) = told.as_ref().map(|(place, told)| (place, told.as_ref())) else {
            return super::frames::post(queue, crate::rt::Local::Guarded(guard));
        };
        let write = SendOp::Write { to: place.to, imm: None };
        let from = place.from.borrow().share();
        let (before, _) = queue.counts();
        let (written, end) = match queue.post_list([(write, from), (SendOp::Send { imm: None }, guard)]) {
            Ok([written, _]) => (Some(written), Ok(())),
            Err(BrokenOff { accepted, why }) => (accepted.into_iter().next(), Err(why)),
        };
        let Some(written) = written else { return end };
        *last_op = before + 1;
        self.stats.borrow_mut().places_repeated += u64::from(place.posts.repeats.replace(true));
        // Nobody may want to know.
        if told.send(written).is_ok() {
            place.posts.open.set(place.posts.open.get() + 1);
        }
        end
    }
}

impl<V: Verbs> Outgoing<V> {
    /// The message is to go over this rail. One behind a write does so only where the write can: otherwise it is nothing.
    pub(super) fn goes_over(&mut self, rail: u8) {
        if let Some(place) = self.is_nothing_if(|place| rail != MEMORY && !place.is_struck()) {
            place.posts.is_void.set(true);
        }
    }

    /// A message whose write was struck is nothing.
    pub(super) fn goes_without_its_write(&mut self) {
        self.is_nothing_if(Place::is_struck);
    }

    /// Makes the message nothing if this holds of its write, which it gives.
    fn is_nothing_if(&mut self, holds: impl FnOnce(&Place<V>) -> bool) -> Option<Box<Place<V>>> {
        let place = self.place.take_if(|place| holds(place))?;
        (self.channel, self.len) = NOTHING;
        Some(place)
    }
}

impl<V: Verbs> Place<V> {
    /// The write is not posted from now on.
    fn is_struck(&self) -> bool {
        self.posts.told.borrow().is_none()
    }
}

impl<V: Verbs> Drop for Place<V> {
    /// The peer has the message, or is gone.
    fn drop(&mut self) {
        self.posts.told.take();
    }
}

impl<V: Verbs> Outgoing<V> {
    /// How many places of the send queue it takes.
    pub(super) fn posts(&self) -> u32 {
        1 + u32::from(self.place.as_ref().is_some_and(|place| !place.is_struck()))
    }
}

impl<V: Verbs> std::hash::Hash for Place<V> {
    fn hash<H: std::hash::Hasher>(&self, to: &mut H) {
        self.to.hash(to);
        (!self.is_struck(), self.is_copied.get()).hash(to);
        let from = self.from.borrow();
        from.hash_bytes(0..from.len(), to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt::fake::{Fake, V};
    use crate::rt::{Program, Rt, RtConfig};
    use crate::transport::MeshConfig;
    use crate::transport::carried::BEFORE_IT_IS_TRIED_AGAIN;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};
    use weft_verbs::{Nanos, Node, Park, WcError};

    fn node(rank: u32) -> (Fake, Program<V>, Mesh<V>) {
        let fake = Fake::default();
        let rt = Rt::new(&fake, RtConfig::default()).expect("the fake device obeys");
        let names = vec!["n0".to_string(), "n1".to_string()];
        let config = MeshConfig { recv_buffers: 8, ..MeshConfig::new(Rank::from_index(rank), names) };
        let mesh = Mesh::start(&rt, config).expect("the fake device obeys");
        (fake, rt.program(), mesh)
    }

    fn settle(program: &mut Program<V>) {
        while program.step() == Park::Again {}
    }

    const THERE: Rank = Rank::from_index(1);

    /// The same, connected.
    fn connected() -> (Fake, Program<V>, Mesh<V>) {
        let (fake, mut program, mesh) = node(0);
        let (_, _, other) = node(1);
        let introduction = other.prepare(mesh.me()).expect("a queue pair").introduction();
        mesh.prepare(THERE).expect("a queue pair").adopt(&introduction).expect("it stands");
        settle(&mut program);
        (fake, program, mesh)
    }

    /// A write of so many bytes that was posted before.
    fn repeated(mesh: &Mesh<V>, len: u32) -> Box<Place<V>> {
        let mr = mesh.alloc(len as usize, AccessFlags::LOCAL_WRITE).expect("memory");
        let (told, _) = mailbox();
        let (told, is_void) = (RefCell::new(Some(told)), Cell::default());
        let posts = Posts { told, open: Cell::new(0), repeats: Cell::new(true), is_void };
        let from = RefCell::new(BufferGuard::Range { mr, at: 0, len });
        let to = RemoteSlice { len, ..RemoteSlice::default() };
        Box::new(Place { from, is_copied: Cell::new(false), to, posts: Rc::new(posts) })
    }

    #[test]
    fn memory_for_a_repeated_write_is_asked_for_once_in_a_while_and_nothing_is_read_before_it_is_there() {
        let (fake, mut program, mesh) = connected();
        let place = repeated(&mesh, 8_192);
        let short = |is_short| fake.world.borrow_mut().refuse_regions = is_short;
        let known = || {
            let world = fake.world.borrow();
            (world.regions_refused, world.reads, world.sends.len())
        };
        short(true);
        mesh.keep(THERE, 1, Channel(3), b"there".as_slice(), Some(place)).expect("it is kept");
        assert_eq!(known(), (1, 0, 0));
        for _ in 0..3 {
            mesh.send(THERE, Channel(3), b"more").expect("it is kept");
            settle(&mut program);
        }
        assert_eq!(known(), (1, 0, 0), "each message that is kept looks for what may be sent");
        let mut later = |times| {
            fake.world.borrow_mut().now = Nanos(BEFORE_IT_IS_TRIED_AGAIN.0 * times);
            settle(&mut program);
        };
        later(1);
        assert_eq!(known(), (2, 0, 0));
        short(false);
        later(2);
        assert_eq!(known(), (2, 1, 5), "the write, its message, and the three behind it");
    }

    /// The device has accepted the write, and refuses the message behind it.
    #[test]
    fn a_write_whose_message_the_device_refused_is_in_doubt_until_the_next_connection_stands() {
        let (fake, mut program, mesh) = connected();
        fake.world.borrow_mut().most_of_a_list = Some(1);
        let from = mesh.copied(&[7; 8]).expect("memory");
        let at = RemoteSlice { len: 8, ..RemoteSlice::default() };
        let mut placed = mesh.place(THERE, from, at, Channel(3), b"there").expect("it is kept");
        assert!(placed.striker().is_in_flight());
        let mut resolves = pin!(mesh.resolve_outcomes(THERE));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(resolves.as_mut().poll(&mut cx).is_pending());
        // The queue pair is fenced, and flushes what it has.
        settle(&mut program);
        {
            let mut world = fake.world.borrow_mut();
            let sends: Vec<u64> = world.sends.iter().map(|send| send.0).collect();
            assert_eq!(sends.len(), 2, "the write, and the marker behind the fence");
            let receives: Vec<u64> = world.receives.iter().map(|receive| receive.0).collect();
            sends.into_iter().chain(receives).for_each(|id| world.complete(id, Err(WcError::Flush)));
        }
        settle(&mut program);
        assert_eq!(pin!(placed.post_ended()).poll(&mut cx), std::task::Poll::Ready(Some(false)));
        assert!(resolves.as_mut().poll(&mut cx).is_pending());
    }
}
