//! One peer: its connection, its session, and who waits for either.

use super::carried::Carried;
use super::link::Link;
use super::place::Place;
use super::rail::{ConnId, Down};
use super::room;
use super::session::Session;
use super::standby::Standby;
use super::{Channel, MeshConfig, Rank};
use crate::rt::{Block, BufferGuard, Completed, QpHandle};
use std::collections::{BTreeSet, VecDeque};
use std::task::{Context, Waker};
use weft_verbs::{Nanos, Verbs};

/// A message kept until it is acknowledged: header space and content in one block.
pub(super) struct Outgoing<V: Verbs> {
    pub(super) block: Block<V>,
    /// Of the content, in bytes.
    pub(super) len: u32,
    pub(super) channel: Channel,
    /// The rail whose adapter can read the block.
    pub(super) rail: u8,
    /// The write that goes before it.
    pub(super) place: Option<Box<Place<V>>>,
}

/// A task's place in a line: of those who want to post an operation, or to send a message, or who wait for outcomes.
pub(super) struct Waiter {
    pub(super) ticket: u64,
    pub(super) waker: Waker,
}

/// The life of a peer that something is meant for: addresses mean nothing in another. What is meant for one who was never met is for
/// whoever connects first, unless it was ended before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Life {
    pub(super) incarnations: u32,
    pub(super) ended: u32,
}

pub(super) struct Peer<V: Verbs> {
    pub(super) link: Link,
    pub(super) session: Session<Outgoing<V>>,
    /// The queue pair of the connection that stands or is being made, or of the one that drains.
    pub(super) queue: Option<QpHandle<V>>,
    /// The rail of that queue pair, or of the last one.
    pub(super) rail: u8,
    /// The rail of the connection that stood last.
    pub(super) stood_on: Option<u8>,
    /// The connection that stood by before it was this one, if it did.
    pub(super) via: Option<ConnId>,
    /// A connection that is ready for when this one breaks.
    pub(super) standby: Option<Standby<V>>,
    /// In the driver's list of peers that may need one.
    pub(super) standby_listed: bool,
    /// A timer runs after which a better rail is tried.
    pub(super) holds_off: bool,
    /// Operations that are carried by messages.
    pub(super) carried: Carried,
    /// Queue pairs that a planted mistake left unfenced.
    pub(super) left_open: Vec<QpHandle<V>>,
    /// The queue pair's number; completions that carry another one are of one that was given up.
    pub(super) epoch: u32,
    /// Counts the numbers of queue pairs.
    pub(super) numbered: u32,
    /// Frames that arrived before the connection was reported to stand.
    pub(super) early: VecDeque<Completed<V>>,
    /// Receive buffers whose messages were handed on, to be posted again.
    pub(super) spent: Vec<BufferGuard<V>>,
    /// In the driver's list of peers with such buffers.
    pub(super) spends: bool,
    /// Frames that arrived.
    pub(super) heard: u64,
    /// Probes and lists that its adapter has carried out, whatever its node does.
    pub(super) answered: u64,
    /// How often the connection went over to another rail.
    pub(super) moves: u64,
    /// How often the connection came to stand.
    pub(super) ups: u64,
    /// How often the peer was found to have begun a new incarnation.
    pub(super) incarnations: u32,
    /// How often what waited for the peer was ended: its incarnation was expelled or has expelled this one, or it was a guest and is
    /// forgotten. More may be meant for whoever is there next before anybody was met.
    pub(super) ended: u32,
    /// The last operation on this node's memory that was posted here for it: how often the connection to oneself had stood by then, and
    /// which of that queue's sends it is.
    pub(super) acted: Option<(u64, u64)>,
    /// Of the queue's sends, the number of the last one-sided operation; see [`QpHandle::counts`].
    pub(super) last_op: u64,
    /// It is a guest of this node.
    pub(super) is_guest: bool,
    /// This node's incarnation toward it: that of the mesh, or of a guest's visit.
    pub(super) own: u64,
    /// How many things this node has there that end with its lease; and for how long it may be silent.
    pub(super) holds: u32,
    pub(super) lease: Nanos,
    /// A task renews its lease.
    pub(super) renews: bool,
    /// Its adapter has no remote atomics, as it said when the connection came to stand.
    pub(super) lacks_atomics: bool,
    /// Frames that this node has sent it.
    pub(super) told: u64,
    /// Frames of a connection that came to nothing, whose buffers are shared.
    pub(super) strays: Vec<Completed<V>>,
    /// Its incarnation was expelled, or has expelled this one, and no other one has been met yet. Nothing waits for it.
    pub(super) gone: bool,
    /// So many attempts more are made to connect to it though nothing waits for that: it may have something to say.
    pub(super) asks: u8,
    /// Operations of a generation that is gone have no fixed outcome yet.
    pub(super) unresolved: bool,
    /// Tasks that want to post an operation, in line.
    pub(super) waiters: VecDeque<Waiter>,
    pub(super) next_ticket: u64,
    /// Lists whose operations are asked for one after the other, and operations that messages carry in parts, by number; and the next
    /// one's. What is yet to be asked for of them counts as asked for when they began.
    pub(super) lists: BTreeSet<u64>,
    pub(super) next_list: u64,
    /// Tasks that wait for operations to have a fixed outcome, and how many there are.
    pub(super) resolvers: VecDeque<Waiter>,
    pub(super) resolving: u32,
    /// Tasks that wait for room among the kept messages, in line; and tasks that wait until none is kept.
    pub(super) line: VecDeque<Waiter>,
    pub(super) senders: Vec<Waker>,
    /// In the driver's list of peers whose acknowledgement is due.
    pub(super) ack_listed: bool,
    /// In the driver's list of peers to probe, and the first message that was kept when it got there.
    pub(super) probe_listed: bool,
    pub(super) probe_from: u64,
    /// In the driver's list of peers for whose next message there was no memory.
    pub(super) supply_listed: bool,
    /// In the driver's list of peers with messages that found the send queue full.
    pub(super) starved: bool,
}

impl<V: Verbs> Peer<V> {
    pub(super) fn new(config: &MeshConfig, rank: Rank, session: u64, down: Down) -> Peer<V> {
        // An adapter reaches itself without a cable: the connection to oneself is always that of rail 0.
        let rails = if rank == config.me { 1 } else { config.rails() };
        // Of a guest and its server the guest asks.
        let (me, other) =
            if config.is_guest { (Rank::from_index(0), Rank::from_index(1)) } else { (config.me, rank) };
        let buffers = config.recv_buffers;
        Peer {
            link: Link::new(me, other, session, rails, down),
            session: if config.is_guest { Session::of_guest(buffers) } else { Session::new(buffers) },
            is_guest: false,
            own: session,
            holds: 0,
            lease: Nanos::MAX,
            renews: false,
            lacks_atomics: false,
            told: 0,
            strays: Vec::new(),
            queue: None,
            rail: 0,
            stood_on: None,
            via: None,
            standby: None,
            standby_listed: false,
            holds_off: false,
            carried: Carried::default(),
            left_open: Vec::new(),
            epoch: 0,
            numbered: 0,
            early: VecDeque::new(),
            spent: Vec::new(),
            spends: false,
            heard: 0,
            answered: 0,
            moves: 0,
            ups: 0,
            incarnations: 0,
            ended: 0,
            acted: None,
            last_op: 0,
            gone: false,
            asks: 0,
            unresolved: false,
            waiters: VecDeque::new(),
            next_ticket: 0,
            lists: BTreeSet::new(),
            next_list: 0,
            resolvers: VecDeque::new(),
            resolving: 0,
            line: VecDeque::new(),
            senders: Vec::new(),
            ack_listed: false,
            probe_listed: false,
            probe_from: 0,
            supply_listed: false,
            starved: false,
        }
    }

    /// Whether something waits for the connection.
    pub(super) fn wanted(&self) -> bool {
        let waits = !self.waiters.is_empty() || self.resolving > 0 || self.holds > 0;
        let waits = !self.gone && (self.session.kept() > 0 || waits || self.carried.awaits_answer());
        !self.is_guest && (waits || self.asks > 0)
    }

    /// Its life as far as it is known.
    pub(super) fn life(&self) -> Life {
        Life { incarnations: self.incarnations, ended: self.ended }
    }

    /// Whether it is there, in that life.
    pub(super) fn still_is(&self, life: Life) -> bool {
        !self.gone && self.life() == life
    }

    /// The queue pair, if the connection stands and is neither fenced nor known to be broken: what were posted then would
    /// be flushed, and its outcome unknown for nothing.
    pub(super) fn standing(&self) -> Option<&QpHandle<V>> {
        let is_sound = |queue: &&QpHandle<V>| !queue.is_broken() && !queue.is_fenced();
        self.queue.as_ref().filter(|queue| self.link.is_up() && !self.gone && is_sound(queue))
    }

    /// The next queue pair's number.
    pub(super) fn number(&mut self) -> u32 {
        self.numbered = self.numbered.wrapping_add(1);
        self.numbered
    }

    /// Gives up the queue pair; whatever of it is still reported is of no interest.
    pub(super) fn discard(&mut self) -> Option<QpHandle<V>> {
        self.epoch = self.number();
        self.via = None;
        if self.is_guest {
            self.strays.extend(self.early.drain(..));
        }
        self.early.clear();
        self.spent.clear();
        self.queue.take()
    }

    /// A place for guests, in which nobody is.
    pub(super) fn vacant(config: &MeshConfig, rank: Rank, slots: u32) -> Peer<V> {
        Peer {
            link: Link::to_guest(config.me, rank, 0),
            session: Session::with_guest(slots),
            is_guest: true,
            own: 0,
            gone: true,
            ..Peer::new(config, rank, 0, Down::default())
        }
    }

    /// Wakes the first in line.
    pub(super) fn wake_first(&self) {
        if let Some(first) = self.waiters.front() {
            first.waker.wake_by_ref();
        }
    }

    pub(super) fn wake_resolvers(&mut self) {
        for waiter in self.resolvers.drain(..) {
            waiter.waker.wake();
        }
    }

    pub(super) fn wake_senders(&mut self) {
        self.line.iter().for_each(|waiter| waiter.waker.wake_by_ref());
        self.wake_those_who_await_all();
    }

    /// Messages were acknowledged, and at most so many are kept.
    pub(super) fn has_been_acknowledged(&mut self, most: usize) {
        self.wake_those_with_room(most);
        self.wake_those_who_await_all();
    }

    /// Lets those look who wait until no message is kept.
    fn wake_those_who_await_all(&mut self) {
        for waker in self.senders.drain(..) {
            waker.wake();
        }
    }

    /// Keeps a task's place in a line, at its end if it has none yet. Says by which number it is found.
    pub(super) fn wait_in(
        &mut self,
        line: impl FnOnce(&mut Peer<V>) -> &mut VecDeque<Waiter>,
        ticket: Option<u64>,
        cx: &Context<'_>,
    ) -> u64 {
        let next = self.next_ticket;
        let line = line(self);
        if let Some(place) = ticket.and_then(|ticket| room::place_in(line, ticket)) {
            line[place].waker.clone_from(cx.waker());
            return line[place].ticket;
        }
        line.push_back(Waiter { ticket: next, waker: cx.waker().clone() });
        self.next_ticket = next + 1;
        next
    }

    pub(super) fn wake_all(&mut self) {
        for waiter in &self.waiters {
            waiter.waker.wake_by_ref();
        }
        self.wake_resolvers();
        self.wake_senders();
        self.carried.wake_all();
    }
}

/// Keeps a task's waker once.
pub(super) fn keep(wakers: &mut Vec<Waker>, cx: &Context<'_>) {
    if !wakers.iter().any(|w| w.will_wake(cx.waker())) {
        wakers.push(cx.waker().clone());
    }
}
