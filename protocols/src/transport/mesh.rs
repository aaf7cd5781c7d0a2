//! The mesh: what a protocol sees of its peers.

use super::carried::{CARRIED, LEAST_CARRIED};
use super::content::Content;
use super::driver::{Driver, RailEvents};
use super::grounds::Grounds;
use super::guest_host::Guests;
use super::guests::FAREWELL;
use super::inbox::{Inbox, Inboxes, Incoming, Message};
use super::link::Event;
use super::peer::Peer;
use super::place::Place;
use super::rail::{Down, MOST_RAILS};
use super::send_pool::SendPool;
use super::session::MIN_BUFFERS;
use super::stand_in::{StandIn, access_of, has_atomics};
use super::to_do::ToDo;
use super::troubles::Troubles;
use super::wire::{GREETING, HEADER_LEN};
use super::{Channel, MeshConfig, Planted, Rank, SendError, TransportError};
use super::{guest_leases, guests};
use crate::rt::sync::{MailboxSender, Signal};
use crate::rt::{BufferPool, CompletionSink, Connector, Label, LabelGuard, Rt, WaitPoint};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use weft_verbs::{
    AccessFlags, Context, DeviceAttr, PinnedMemory, PortState, ProtectionDomain, Verbs, VerbsError,
};

/// Bytes that reads and writes move through pooled buffers; more get a region of their own.
pub(super) const BULK: u32 = 4096;

/// Bits of an incarnation's number that are its rank.
const RANK_BITS: u32 = 20;

/// What the mesh has on one rail.
pub(super) struct Rail<V: Verbs> {
    pub(super) rt: Rt<V>,
    pub(super) pd: V::Pd,
    pub(super) connector: Connector<V>,
    pub(super) receive_pool: BufferPool<V>,
    pub(super) send_pool: SendPool<V>,
}

/// Opens the rails of a mesh: what it has on each, and what happens there.
fn open_rails<V: Verbs>(
    rt: &Rt<V>,
    config: &MeshConfig,
) -> Result<(Vec<Rail<V>>, Vec<RailEvents>), TransportError> {
    let frame = HEADER_LEN as u32 + config.max_message;
    let (mut rails, mut events) = (Vec::new(), Vec::new());
    for rt in (0..config.rails()).filter_map(|rail| rt.rail(rail)) {
        let pd = rt.context().alloc_pd()?;
        let (connector, connections) =
            if config.is_guest { rt.connector()? } else { rt.listen(config.service)? };
        events.push(RailEvents { connections, device: rt.async_events() });
        let receive_pool = unbounded(&pd, frame, config.chunk);
        let send_pool = SendPool::new(&pd, frame, config.chunk);
        rails.push(Rail { rt, pd, connector, receive_pool, send_pool });
    }
    Ok((rails, events))
}

/// The rails whose port has no link as the mesh begins: of that no event tells. Their events are watched before, so that none is missed.
fn without_link<V: Verbs>(rails: &[Rail<V>], config: &MeshConfig) -> Down {
    let mut down = Down::default();
    // Where there is one rail there is no other to go over.
    for (number, rail) in (0..).zip(rails).filter(|_| rails.len() > 1) {
        let port = rail.rt.context().port_attr(config.port);
        down.set(number, port.is_ok_and(|port| port.state != PortState::Active));
    }
    down
}

/// A pool of blocks that adapters read from and write to, without a bound of its own, which registers `chunk` bytes at a time: what is
/// posted, kept or in flight is bounded elsewhere.
pub(super) fn unbounded<V: Verbs>(pd: &V::Pd, block: u32, chunk: u32) -> BufferPool<V> {
    BufferPool::with_chunks(pd, block, u32::MAX, AccessFlags::LOCAL_WRITE, chunk)
}

/// What all handles of one mesh share.
pub(super) struct Shared<V: Verbs> {
    /// The runtime, by its handle of rail 0.
    pub(super) rt: Rt<V>,
    pub(super) rails: Vec<Rail<V>>,
    /// Rails whose port has no link.
    pub(super) down: Cell<Down>,
    pub(super) config: MeshConfig,
    /// Inline bytes of the device that has the fewest.
    max_inline: u32,
    /// Bytes of an operation, of the device that carries the fewest.
    longest_operation: u32,
    /// What queue pairs let peers do.
    pub(super) queue_access: AccessFlags,
    /// This incarnation of the node, by which peers tell it from earlier ones.
    pub(super) session: u64,
    /// Completions of receives, of all rails.
    pub(super) sink: CompletionSink<V>,
    /// Of rail 0, as all that one-sided operations use.
    pub(super) word_pool: BufferPool<V>,
    pub(super) bulk_pool: BufferPool<V>,
    /// By rank's index; after the last rank, the far end of the connection to oneself. A peer is made when it
    /// is first needed: a large mesh of which a node uses little costs little.
    pub(super) peers: RefCell<Vec<Option<Box<Peer<V>>>>>,
    pub(super) inboxes: RefCell<Inboxes>,
    pub(super) stats: RefCell<MeshStats>,
    /// A connection came to stand, or the mesh was closed.
    pub(super) resumed: Signal,
    pub(super) to_do: ToDo,
    /// What this node has of its guests, if it takes any.
    pub(super) guests: Option<Guests<V>>,
    /// Those who want to know which guests are met.
    pub(super) admissions: RefCell<Vec<MailboxSender<Rank>>>,
    pub(super) closed: Cell<bool>,
    /// It ends as a process does that is killed, and tells nobody.
    pub(super) vanished: Cell<bool>,
    /// A peer that ends a connection is asked why: see [`Mesh::listen`].
    pub(super) listens: Cell<bool>,
    /// On what grounds peers have said that they expelled this incarnation, in the order in which they were heard.
    pub(super) outcast: RefCell<Vec<Grounds>>,
    /// This incarnation has nothing to do with anybody any more.
    pub(super) retired: Cell<bool>,
    pub(super) outcast_changed: Signal,
    /// Those who want to know which peers have refused this incarnation.
    pub(super) refusals: RefCell<Vec<MailboxSender<Rank>>>,
    /// What executes this node's atomics, if its adapter does not.
    pub(super) stand_in: Option<StandIn>,
    pub(super) troubles: RefCell<Troubles>,
}

impl<V: Verbs> Shared<V> {
    /// Runs on a peer, which is made if need be.
    pub(super) fn with_peer<R>(&self, index: usize, run: impl FnOnce(&mut Peer<V>) -> R) -> R {
        let mut peers = self.peers.borrow_mut();
        let peer = peers[index].get_or_insert_with(|| {
            Box::new(Peer::new(&self.config, self.rank_at(index), self.session, self.down.get()))
        });
        run(peer)
    }

    /// The index of the far end of the connection to oneself.
    pub(super) fn loopback(&self) -> usize {
        self.config.peers.len()
    }

    pub(super) fn rank_at(&self, index: usize) -> Rank {
        if index == self.loopback() { self.config.me } else { Rank::from_index(index as u32) }
    }

    /// A rank's index, if the mesh has it.
    pub(super) fn index(&self, rank: Rank) -> Option<usize> {
        let (index, named) = (rank.index(), self.config.peers.len());
        (index < named || index > named && index < self.peers.borrow().len()).then_some(index)
    }

    /// Most requests outstanding on a connection to a peer.
    pub(super) fn send_depth(&self, index: usize) -> u32 {
        let of_guest = self.guests.as_ref().filter(|_| index > self.loopback());
        of_guest.map_or(self.config.send_depth, |guests| guests.config.send_depth)
    }

    /// Leaves an event to the driver. Events of a queue pair are those of the epoch given, and void if the
    /// peer has another one by then.
    pub(super) fn event(&self, index: usize, epoch: u32, event: Event) {
        self.to_do.events.borrow_mut().push_back((index, epoch, event));
        self.to_do.wake_driver();
    }

    /// Inline bytes asked for: a control frame's, where the devices have as many.
    pub(super) fn max_inline(&self) -> u32 {
        self.max_inline.min(HEADER_LEN as u32)
    }

    pub(super) fn rail(&self, rail: u8) -> &Rail<V> {
        &self.rails[usize::from(rail)]
    }

    /// The protection domain of memory that peers may use.
    pub(super) fn pd(&self) -> &V::Pd {
        &self.rails[0].pd
    }
}

/// This node's connections and sessions with its peers. Clones are the same mesh.
pub struct Mesh<V: Verbs> {
    pub(super) shared: Rc<Shared<V>>,
}

impl<V: Verbs> Clone for Mesh<V> {
    fn clone(&self) -> Self {
        Mesh { shared: Rc::clone(&self.shared) }
    }
}

/// What a mesh holds at this moment. At rest all but `connections` and `credits_out` are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeshAudit {
    /// Connections that stand.
    pub connections: usize,
    /// Messages that their receivers have not acknowledged.
    pub unacked: u64,
    /// Peers that have sent messages which this node has received and not acknowledged. It does so by the next message, or after
    /// [`MeshConfig::ack_delay`].
    pub acks_owed: u64,
    /// Credits that this node's peers have used and not got back; less than half of
    /// [`MeshConfig::recv_buffers`] for each connection at rest.
    pub credits_out: u64,
    /// Requests posted that will complete and have not, receives aside.
    pub outstanding: u64,
    /// Operations that wait to be posted.
    pub waiting: u64,
}

/// What a mesh has done since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeshStats {
    /// Messages accepted for sending.
    pub messages_sent: u64,
    /// Messages delivered to inboxes. What carries one-sided operations and their answers counts neither here nor as sent.
    pub messages_received: u64,
    /// Messages put on a connection again because the last one broke.
    pub messages_repeated: u64,
    /// Writes [placed](Mesh::place) before a message and posted again with it: the connection broke between the first post and the
    /// message's arrival.
    pub places_repeated: u64,
    /// Messages received again and dropped.
    pub duplicates: u64,
    /// Frames that only returned credits or acknowledged.
    pub control_frames: u64,
    /// Empty writes to peers that had not acknowledged for long.
    pub probes: u64,
    /// One-sided operations posted.
    pub operations: u64,
    /// One-sided operations whose outcome was lost.
    pub unknown_outcomes: u64,
    /// Connections made again after the first.
    pub reconnects: u64,
    /// Of those, how many went over to a rail of a higher number, and how many back to one of a lower: to a worse and to a better one, unless
    /// another rail than the first is [preferred](Mesh::prefer).
    pub failovers: u64,
    /// See [`MeshStats::failovers`].
    pub failbacks: u64,
    /// One-sided operations that were carried by messages, since the connection stood on another rail than the memory's.
    pub carried: u64,
    /// Queue pairs moved to the error state to fix the outcome of what they carried.
    pub fences: u64,
    /// Peers that were found to have begun a new incarnation.
    pub peer_resets: u64,
    /// Guests that were admitted, and those that are forgotten.
    pub guests_admitted: u64,
    /// See [`MeshStats::guests_admitted`].
    pub guests_forgotten: u64,
    /// Messages kept for peers that were expelled, and dropped.
    pub dropped: u64,
}

impl<V: Verbs> Mesh<V> {
    /// Joins the mesh: listens for its peers. Nothing is connected before it is needed.
    /// Where another one was closed on the same runtime, that one's driver is to have run since ([`Rt::yield_now`]).
    pub fn start(rt: &Rt<V>, config: MeshConfig) -> Result<Mesh<V>, TransportError> {
        let config = checked(config, rt)?;
        let (rails, events) = open_rails(rt, &config)?;
        let devices: Vec<_> = rails.iter().map(|rail| rail.rt.context().device_attr()).collect();
        let inline = devices.iter().map(|device| device.max_inline).min();
        let longest = devices.iter().map(|device| device.max_msg).min();
        let rt = &rails[0].rt;
        let guests = config.guests.map(|guests| Guests::new(&rails[0], guests)).transpose()?;
        let mut peers = Vec::new();
        peers.resize_with(config.peers.len() + 1, || None);
        let (stand_in, asked) = (!config.atomics).then(StandIn::new).unzip();
        let shared = Rc::new(Shared {
            max_inline: inline.unwrap_or(0),
            longest_operation: longest.unwrap_or(0),
            queue_access: access_of(&config, &devices),
            down: Cell::new(without_link(&rails, &config)),
            // Never 0, which stands for an unknown incarnation.
            session: match config.makes(Planted::ReusesSession) {
                true => u64::from(config.me.get()),
                // A server knows its guests by this alone.
                false if config.is_guest => rt.identity(),
                false => incarnation(config.me, rt.identity()),
            },
            sink: CompletionSink::new(),
            word_pool: unbounded(&rails[0].pd, 8, config.chunk),
            bulk_pool: unbounded(&rails[0].pd, BULK, config.chunk),
            rt: rt.clone(),
            rails,
            peers: RefCell::new(peers),
            inboxes: RefCell::default(),
            stats: RefCell::default(),
            to_do: ToDo::default(),
            guests,
            admissions: RefCell::default(),
            closed: Cell::new(false),
            vanished: Cell::new(false),
            listens: Cell::new(false),
            outcast: RefCell::default(),
            retired: Cell::new(false),
            outcast_changed: Signal::new(),
            refusals: RefCell::default(),
            resumed: Signal::new(),
            stand_in,
            troubles: RefCell::default(),
            config,
        });
        guest_leases::watch_leases(&shared);
        let mut driver = Driver::new(Rc::clone(&shared), events);
        drop(shared.rt.spawn(poll_fn(move |cx| driver.poll(cx)).at("driver")));
        let mesh = Mesh { shared };
        if let Some(asked) = asked {
            drop(mesh.shared.rt.spawn(mesh.clone().stands_in(asked)));
        }
        Ok(mesh)
    }

    /// This node's rank.
    pub fn me(&self) -> Rank {
        self.shared.config.me
    }

    /// How many nodes the mesh has, this one included. Their ranks are 1 to this number.
    pub fn size(&self) -> u32 {
        self.shared.config.peers.len() as u32
    }

    /// The network names of all nodes, this one included, by rank.
    pub fn names(&self) -> &[String] {
        &self.shared.config.peers
    }

    /// The longest message, in bytes.
    pub fn max_message(&self) -> u32 {
        self.shared.config.max_message
    }

    /// Takes the messages of one channel from now on, and those that came before. One inbox a channel, and none for the
    /// transport's own.
    pub fn open(&self, channel: Channel) -> Result<Inbox, TransportError> {
        if [GREETING, FAREWELL, CARRIED].contains(&channel) {
            return Err(TransportError::ChannelTaken(channel));
        }
        self.shared.inboxes.borrow_mut().open(channel)
    }

    /// Sends a message: in order with the others to this peer, exactly once, across reconnections. Returns
    /// once the message is kept; what is sent to oneself goes straight to the inbox.
    pub fn send(&self, to: Rank, channel: Channel, bytes: &[u8]) -> Result<(), SendError> {
        self.send_content(to, channel, bytes)
    }

    /// As [`Mesh::send`], for bytes that are not in one place: they are copied once, to where the adapter reads them.
    pub fn send_content(
        &self,
        to: Rank,
        channel: Channel,
        content: &(impl Content + ?Sized),
    ) -> Result<(), SendError> {
        let index = self.check(to, content.len())?;
        if to == self.me() {
            return self.send_to_self(channel, content);
        }
        self.keep(to, index, channel, content, None)
    }

    /// Keeps a message, behind a write if it has one, unless too many are kept already.
    pub(super) fn keep(
        &self,
        to: Rank,
        index: usize,
        channel: Channel,
        content: &(impl Content + ?Sized),
        place: Option<Box<Place<V>>>,
    ) -> Result<(), SendError> {
        let shared = &*self.shared;
        shared.with_peer(index, |peer| {
            if peer.gone {
                return Err(SendError::PeerGone(to));
            }
            let queued = peer.session.kept() as u32;
            if queued >= shared.config.max_queued {
                return Err(SendError::Full { to, queued });
            }
            shared.keep_behind(index, peer, channel, content, place).map_err(SendError::Memory)?;
            shared.stats.borrow_mut().messages_sent += 1;
            Ok(())
        })
    }

    pub(super) fn check(&self, to: Rank, len: usize) -> Result<usize, SendError> {
        let max = self.shared.config.max_message;
        if self.shared.closed.get() {
            Err(SendError::Closed)
        } else if len > max as usize {
            Err(SendError::TooLong { len, max })
        } else {
            self.shared.index(to).ok_or(SendError::NoSuchPeer(to))
        }
    }

    fn send_to_self(&self, channel: Channel, content: &(impl Content + ?Sized)) -> Result<(), SendError> {
        let mut bytes = Vec::with_capacity(content.len());
        content.put(&mut |piece| bytes.extend_from_slice(piece));
        let message = Incoming::Message(Message::new(self.me(), &bytes));
        self.shared.inboxes.borrow_mut().deliver(channel, message);
        let mut stats = self.shared.stats.borrow_mut();
        stats.messages_sent += 1;
        stats.messages_received += 1;
        Ok(())
    }

    /// The number of the oldest message to this peer that it has not acknowledged, if there is one. While that stays the same
    /// the peer gives no sign of life.
    pub fn oldest_unacknowledged(&self, to: Rank) -> Option<u64> {
        let index = self.peer(to)?;
        self.shared.with_peer(index, |peer| (peer.session.kept() > 0).then(|| peer.session.first_kept()))
    }

    /// The index of a node that is not this one.
    pub(super) fn peer(&self, rank: Rank) -> Option<usize> {
        self.shared.index(rank).filter(|_| rank != self.me())
    }

    /// Whether the mesh was closed.
    pub fn is_closed(&self) -> bool {
        self.shared.closed.get()
    }

    /// Registered memory that peers of this mesh may use, as far as `access` allows. Zeroed. It is memory of this node's
    /// rail 0; over whatever rail a peer is connected, its operations reach it.
    pub fn alloc(&self, len: usize, access: AccessFlags) -> Result<V::Mr, VerbsError> {
        self.shared.pd().alloc_mr(len, self.shared.rights(access))
    }

    /// The same over memory that the caller brings.
    pub fn bring(&self, memory: Box<dyn PinnedMemory>, access: AccessFlags) -> Result<V::Mr, VerbsError> {
        self.shared.pd().register(memory, self.shared.rights(access))
    }

    /// Says what a range of a region is, in logs and drawings, for as long as the guard is there ([`Rt::label`]).
    pub fn label(&self, region: &V::Mr, range: std::ops::Range<usize>, label: Label) -> LabelGuard {
        self.shared.rt.label(region, range, label)
    }

    /// Registers a range of memory from [`Mesh::alloc`] under keys of its own
    /// ([`register_part`](weft_verbs::ProtectionDomain::register_part)).
    pub fn register_part(
        &self,
        of: &V::Mr,
        range: std::ops::Range<usize>,
        access: AccessFlags,
    ) -> Result<V::Mr, VerbsError> {
        self.shared.pd().register_part(of, range, self.shared.rights(access))
    }

    /// How many bytes are to be registered at a time: [`MeshConfig::chunk`].
    pub fn chunk(&self) -> u32 {
        self.shared.config.chunk
    }

    /// How many bytes one operation may have: what the adapters of this node carry in one message.
    pub fn longest_operation(&self) -> u32 {
        self.shared.longest_operation
    }

    /// What the mesh holds now.
    pub fn audit(&self) -> MeshAudit {
        let mut audit = MeshAudit::default();
        for (index, peer) in self.shared.peers.borrow().iter().enumerate() {
            let Some(peer) = peer else { continue };
            audit.connections += usize::from(peer.link.is_up() && index != self.shared.loopback());
            audit.unacked += peer.session.kept() as u64;
            audit.acks_owed += u64::from(peer.session.owes_ack());
            // What a guest gives back and does not get again is the server's to give to another one.
            audit.credits_out += if peer.is_guest { 0 } else { u64::from(peer.session.owed()) };
            audit.outstanding += peer.queue.as_ref().map_or(0, |q| q.completing() as u64);
            audit.waiting += peer.waiters.len() as u64 + peer.carried.len() as u64;
        }
        audit
    }

    /// What the mesh has done.
    pub fn stats(&self) -> MeshStats {
        *self.shared.stats.borrow()
    }
}

/// An incarnation's number: its rank, and what tells it from other boots of its node. So no other node has it, whatever is drawn at random:
/// members order their proposals by it, and two that had one would be taken for one proposer.
fn incarnation(me: Rank, identity: u64) -> u64 {
    u64::from(me.get()) << (64 - RANK_BITS) | identity >> RANK_BITS
}

/// Refuses what cannot work, and lowers what the device has less of.
fn checked<V: Verbs>(mut config: MeshConfig, rt: &Rt<V>) -> Result<MeshConfig, TransportError> {
    let refuse = |field: &'static str, value: u64, must| Err(TransportError::Config { field, value, must });
    let rails = config.other_rails.len() + 1;
    if rails > MOST_RAILS || rails > usize::from(rt.rails()) {
        return refuse(
            "other_rails",
            rails as u64 - 1,
            "as many as the runtime has further devices, 7 at most",
        );
    }
    if config.other_rails.iter().any(|names| names.len() != config.peers.len()) {
        return refuse("other_rails", rails as u64 - 1, "a name for each of the peers on each rail");
    }
    let devices: Vec<_> =
        (0..config.rails()).filter_map(|rail| Some(rt.rail(rail)?.context().device_attr())).collect();
    // A guest's memory has no words that others change.
    config.atomics = config.is_guest || config.atomics && devices.iter().all(has_atomics);
    if (rails > 1 || !config.atomics) && (config.max_message as usize) < LEAST_CARRIED {
        let must = "at least 64 where there are several rails, or adapters without remote atomics";
        return refuse("max_message", u64::from(config.max_message), must);
    }
    for device in &devices {
        config = checked_with(config, device)?;
    }
    Ok(config)
}

/// The same for the device of one rail.
fn checked_with(mut config: MeshConfig, device: &DeviceAttr) -> Result<MeshConfig, TransportError> {
    let refuse = |field: &'static str, value: u64, must| Err(TransportError::Config { field, value, must });
    if config.me.index() >= config.peers.len() {
        return refuse("me", u64::from(config.me.get()), "the rank of one of the peers");
    }
    // A machine without an adapter has no queue pairs: its mesh is memory and an incarnation, and reaches nobody else.
    if device.max_qp == 0 {
        return Ok(config);
    }
    if config.recv_buffers < MIN_BUFFERS {
        return refuse("recv_buffers", u64::from(config.recv_buffers), "at least 8");
    }
    if config.send_depth < 4 {
        return refuse("send_depth", u64::from(config.send_depth), "at least 4");
    }
    if config.probe_after.0 == 0 {
        return refuse("probe_after", 0, "more than zero");
    }
    if config.recv_buffers > device.max_qp_wr || config.send_depth >= device.max_qp_wr {
        let most = u64::from(config.recv_buffers.max(config.send_depth));
        return refuse("recv_buffers or send_depth", most, "less than the device's largest work queue");
    }
    if config.max_message.saturating_add(HEADER_LEN as u32) > device.max_msg.min(1 << 20) {
        return refuse(
            "max_message",
            u64::from(config.max_message),
            "less than the device's largest message",
        );
    }
    if config.max_queued == 0 {
        return refuse("max_queued", 0, "at least 1");
    }
    if config.port == 0 || config.port > device.ports {
        return refuse("port", u64::from(config.port), "a port of the device");
    }
    if config.reconnect_min.0 == 0 || config.reconnect_max < config.reconnect_min {
        return refuse("reconnect_min", config.reconnect_min.0, "positive and not above reconnect_max");
    }
    if config.guests.is_some() || config.is_guest {
        guests::check(&config, device)?;
    }
    config.rd_atomic = config.rd_atomic.min(device.max_rd_atomic).min(device.max_dest_rd_atomic).max(1);
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_node_and_no_other_boot_has_an_incarnation_s_number() {
        let [one, two] = [1, 2].map(|rank| Rank::new(rank).expect("not zero"));
        for drawn in [1, u64::MAX] {
            assert_ne!(incarnation(one, drawn), incarnation(two, drawn));
            assert_ne!(incarnation(one, drawn), incarnation(one, drawn ^ 1 << RANK_BITS));
        }
        assert_ne!(incarnation(one, 1), 0, "which stands for an unknown one");
    }
}
