//! What a server's mesh does for its guests: it admits and forgets them, and takes their frames out of the shared receive queue.

use super::driver::Driver;
use super::guest_slots::{OWN, Slots};
use super::guest_visits::GuestAudit;
use super::guests::GuestConfig;
use super::link::{Event, Link};
use super::mesh::{MeshStats, Rail, Shared};
use super::peer::Peer;
use super::rail::ConnId;
use super::session::{Header, MIN_BUFFERS};
use super::wire::{Hello, Refusal};
use super::{Cause, Channel, Rank};
use crate::rt::sync::Signal;
use crate::rt::{BufferGuard, Completed, CompletionSink, QpHandle, SharedReceives};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::Context;
use weft_verbs::{AccessFlags, Modify, Nanos, QpCaps, QpNum, QueuePair, Result, ToInit, Verbs};

/// Buffers that the shared queue has room for beside those that are posted: those of guests that have gone.
const BESIDE: u32 = 64;

/// What is known of a guest beside its connection.
pub(super) struct Guest {
    pub(super) session: u64,
    /// When a frame or a request of it came last.
    pub(super) heard: Nanos,
    /// It is forgotten as soon as its connection is fenced and drained.
    pub(super) is_leaving: bool,
}

/// What a server's mesh has of its guests.
pub(super) struct Guests<V: Verbs> {
    pub(super) config: GuestConfig,
    slots: RefCell<Slots>,
    receives: SharedReceives<V>,
    sink: CompletionSink<V>,
    /// Buffers that were made and not given up.
    have: Cell<u32>,
    /// The most guests that there were at a time.
    peak: Cell<u32>,
    /// Guests by their places among the peers.
    pub(super) known: RefCell<BTreeMap<usize, Guest>>,
    by_session: RefCell<BTreeMap<u64, usize>>,
    /// Whose a queue pair is, and which of its.
    by_queue: RefCell<BTreeMap<u64, (usize, u32)>>,
    /// Places in which a guest was.
    vacant: RefCell<Vec<usize>>,
    /// Wakes who watches leases.
    pub(super) came: Signal,
}

impl<V: Verbs> Guests<V> {
    pub(super) fn new(rail: &Rail<V>, config: GuestConfig) -> Result<Guests<V>> {
        let depth = config.common + OWN * config.most + BESIDE;
        let guests = Guests {
            config,
            slots: RefCell::new(Slots::new(config.common)),
            receives: rail.rt.create_shared_receives(&rail.pd, depth)?,
            sink: CompletionSink::new(),
            have: Cell::new(0),
            peak: Cell::new(0),
            known: RefCell::default(),
            by_session: RefCell::default(),
            by_queue: RefCell::default(),
            vacant: RefCell::default(),
            came: Signal::new(),
        };
        guests.stock(rail)?;
        Ok(guests)
    }

    /// Posts as many buffers as there are to be.
    fn stock(&self, rail: &Rail<V>) -> Result<()> {
        while self.have.get() < self.slots.borrow().buffers() {
            let block = rail.receive_pool.alloc()?;
            let len = block.len();
            self.receives.post(&self.sink, BufferGuard::Block { block, len })?;
            self.have.set(self.have.get() + 1);
        }
        Ok(())
    }

    /// A buffer is of use again, unless there are more than there need be.
    fn back(&self, buffer: BufferGuard<V>) {
        let needed = self.have.get() <= self.slots.borrow().buffers();
        if !needed || self.receives.post(&self.sink, buffer).is_err() {
            self.have.set(self.have.get() - 1);
        }
    }

    /// What a guest is told of its server.
    pub(super) fn hello(&self, hello: Hello) -> Hello {
        Hello { buffers: OWN, lease: self.config.lease_told(), ..hello }
    }

    /// A queue pair for a guest: it posts no receives.
    pub(super) fn new_queue(&self, shared: &Shared<V>, index: usize, epoch: u32) -> Result<QpHandle<V>> {
        let rail = shared.rail(0);
        let caps = QpCaps {
            max_send_wr: self.config.send_depth,
            max_recv_wr: 0,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: shared.max_inline(),
        };
        let queue = rail.rt.create_drawing_qp(&rail.pd, caps, &self.receives)?;
        queue.qp().modify(&Modify::Init(ToInit {
            port: shared.config.port,
            pkey_index: 0,
            access: AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE | AccessFlags::LOCAL_WRITE,
            qkey: 0,
        }))?;
        let mut by_queue = self.by_queue.borrow_mut();
        by_queue.retain(|_, (of, _)| *of != index);
        by_queue.insert(queue.num().0.into(), (index, epoch));
        Ok(queue)
    }

    /// What the guests have.
    pub(super) fn audit(&self, stats: &MeshStats) -> GuestAudit {
        GuestAudit {
            admitted: stats.guests_admitted,
            forgotten: stats.guests_forgotten,
            known: self.known.borrow().len() as u64,
            lent: self.slots.borrow().lent().into(),
            buffers: self.have.get().into(),
            most_buffers: u64::from(self.config.common) + u64::from(OWN) * u64::from(self.peak.get()),
        }
    }

    /// The places of the guests that are known.
    pub(super) fn places(&self) -> Vec<usize> {
        self.known.borrow().keys().copied().collect()
    }

    fn heard(&self, index: usize, now: Nanos) {
        if let Some(guest) = self.known.borrow_mut().get_mut(&index) {
            guest.heard = now;
        }
    }
}

impl<V: Verbs> Driver<V> {
    /// Whether guests have sent something.
    pub(super) fn guests_sent(&self, cx: &mut Context<'_>) -> bool {
        self.shared.guests.as_ref().is_some_and(|guests| guests.sink.poll_ready(cx).is_ready())
    }

    /// Takes what guests have sent.
    pub(super) fn frames_of_guests(&mut self) {
        let shared = Rc::clone(&self.shared);
        let Some(guests) = &shared.guests else { return };
        while let Some(completed) = guests.sink.take() {
            let whose = guests.by_queue.borrow().get(&completed.tag).copied();
            match whose {
                Some((index, epoch)) if completed.outcome.is_ok() => self.of_guest(index, epoch, completed),
                // It was drawn and not filled: its queue pair is in error, which its last receive tells, or it is gone.
                _ => guests.back(completed.buffer),
            }
        }
        self.grant_slots();
    }

    /// Free slots go to guests that want some. Each is its guest's at once: were it kept until later, that guest's connection might be
    /// another one by then, or the guest another one in its place.
    pub(super) fn grant_slots(&mut self) {
        let shared = Rc::clone(&self.shared);
        let Some(guests) = &shared.guests else { return };
        let next = || guests.slots.borrow_mut().grant();
        while let Some(index) = next() {
            shared.with_peer(index, |peer| peer.session.grant(1));
            self.touches(index);
        }
    }

    fn of_guest(&mut self, index: usize, epoch: u32, completed: Completed<V>) {
        let shared = Rc::clone(&self.shared);
        let Some(guests) = &shared.guests else { return };
        let counts = shared.with_peer(index, |peer| {
            let accepts = peer.link.accepts_frames();
            peer.epoch == epoch
                && if peer.gone {
                    !accepts && !peer.link.is_draining()
                } else {
                    accepts || !peer.link.is_draining()
                }
        });
        // Of a connection that was given up: its sender repeats the message.
        if !counts {
            return guests.back(completed.buffer);
        }
        guests.heard(index, shared.rt.now());
        self.received_of(index, epoch, completed);
    }

    /// A guest's frame was taken; its buffer is posted again at once. No header: it breaks the protocol.
    pub(super) fn frame_of_guest(
        &mut self,
        index: usize,
        peer: &mut Peer<V>,
        header: Option<Header>,
        buffer: BufferGuard<V>,
    ) {
        let shared = Rc::clone(&self.shared);
        let Some(guests) = &shared.guests else { return };
        let used = header.is_some_and(|header| {
            let back = peer.session.came(&header);
            guests.slots.borrow_mut().used(index, header.more > 0, back).is_ok()
        });
        if !used {
            shared.broken(index, peer);
        }
        guests.back(buffer);
        peer.session.grant(guests.slots.borrow_mut().posted(index));
    }

    /// A guest asks for a connection.
    pub(super) fn guest_asks(&mut self, id: ConnId, hello: Hello) {
        let shared = Rc::clone(&self.shared);
        let reject = |why: Refusal| shared.rail(id.rail).connector.reject(id.id, &why.encode());
        let fits = hello.max_message == shared.config.max_message && hello.buffers >= MIN_BUFFERS;
        let Some(guests) = shared.guests.as_ref().filter(|_| fits) else { return reject(Refusal::Stranger) };
        let known = guests.by_session.borrow().get(&hello.session).copied();
        let index = match known {
            Some(index) if guests.known.borrow().get(&index).is_some_and(|guest| guest.is_leaving) => None,
            Some(index) => Some(index),
            None => self.admit(hello.session),
        };
        // It asks again after a pause.
        let Some(index) = index else { return reject(Refusal::Unable) };
        guests.heard(index, shared.rt.now());
        self.ids.insert(id, index);
        self.handle(index, Event::Request(id, hello));
    }

    /// A guest that is not known gets a place, and buffers of its own.
    fn admit(&mut self, session: u64) -> Option<usize> {
        let shared = &self.shared;
        let guests = shared.guests.as_ref()?;
        if shared.closed.get() || shared.retired.get() {
            return None;
        }
        if guests.known.borrow().len() >= guests.config.most as usize {
            shared.is_kept_from_a_guest(Cause::Full(guests.config.most));
            return None;
        }
        let first = shared.loopback() + 1;
        let fresh = shared.peers.borrow().len().max(first);
        let index = guests.vacant.borrow_mut().pop().unwrap_or(fresh);
        guests.slots.borrow_mut().admit(index);
        if let Err(why) = guests.stock(shared.rail(0)) {
            shared.is_kept_from_a_guest(Cause::Queue(why));
            guests.slots.borrow_mut().forget(index);
            guests.vacant.borrow_mut().extend(Some(index).filter(|_| index < fresh));
            return None;
        }
        let rank = Rank::from_index(index as u32);
        let visit = shared.rt.identity();
        {
            let mut peers = shared.peers.borrow_mut();
            if peers.len() <= index {
                peers.resize_with(index + 1, || None);
            }
            let vacant = || Box::new(Peer::vacant(&shared.config, rank, OWN));
            let peer = peers[index].get_or_insert_with(vacant);
            peer.link = Link::to_guest(shared.config.me, rank, visit);
            peer.own = visit;
        }
        let guest = Guest { session, heard: shared.rt.now(), is_leaving: false };
        guests.known.borrow_mut().insert(index, guest);
        guests.peak.set(guests.peak.get().max(guests.known.borrow().len() as u32));
        guests.by_session.borrow_mut().insert(session, index);
        guests.came.notify();
        shared.stats.borrow_mut().guests_admitted += 1;
        Some(index)
    }

    /// A guest's queue pair draws no more receives: it is in error, whether or not this end has moved it there.
    pub(super) fn drew_last(&mut self, num: QpNum) {
        let shared = Rc::clone(&self.shared);
        let Some(guests) = &shared.guests else { return };
        let whose = guests.by_queue.borrow().get(&num.0.into()).copied();
        let Some((index, epoch)) = whose else { return };
        let stands = shared.with_peer(index, |peer| {
            let queue = peer.queue.as_ref().filter(|_| peer.epoch == epoch);
            queue.inspect(|queue| queue.draws_no_more());
            queue.is_some() && !peer.link.is_draining()
        });
        if stands {
            self.handle(index, Event::Broken);
        }
    }

    /// After something has happened to a guest's connection: what it may send ends with it, and so does one that is to be forgotten, or
    /// that never came.
    pub(super) fn see_to_guest(&mut self, index: usize, drained: bool) {
        let shared = Rc::clone(&self.shared);
        let Some(guests) = shared.guests.as_ref().filter(|_| index > shared.loopback()) else { return };
        if drained {
            guests.slots.borrow_mut().begin(index);
        }
        let (strays, idle, came) = shared.with_peer(index, |peer| {
            (std::mem::take(&mut peer.strays), peer.link.is_idle(), peer.link.incarnation() != 0)
        });
        strays.into_iter().for_each(|stray| guests.back(stray.buffer));
        let leaves = |guest: &Guest| guest.is_leaving || !came;
        if idle && guests.known.borrow().get(&index).is_some_and(leaves) {
            self.forget(index);
        }
    }

    /// Nothing of a guest can act any more. Its place is another one's from now on.
    fn forget(&mut self, index: usize) {
        let shared = Rc::clone(&self.shared);
        let Some(guests) = &shared.guests else { return };
        let Some(guest) = guests.known.borrow_mut().remove(&index) else { return };
        guests.by_session.borrow_mut().remove(&guest.session);
        guests.by_queue.borrow_mut().retain(|_, (of, _)| *of != index);
        guests.slots.borrow_mut().forget(index);
        guests.vacant.borrow_mut().push(index);
        shared.stats.borrow_mut().guests_forgotten += 1;
        self.ids.retain(|_, of| *of != index);
        shared.tell_forgotten(index);
        let strays = shared.with_peer(index, |peer| {
            drop(peer.discard());
            std::mem::take(&mut peer.strays)
        });
        strays.into_iter().for_each(|stray| guests.back(stray.buffer));
    }
}

impl<V: Verbs> Shared<V> {
    /// Systems are told that a guest is forgotten, and whatever waits for it ends.
    fn tell_forgotten(&self, index: usize) {
        let lost = self.with_peer(index, |peer| {
            peer.gone = true;
            peer.incarnations += 1;
            peer.ended += 1;
            // Whatever it carried is fenced.
            peer.ups += 1;
            (peer.unresolved, peer.last_op) = (false, 0);
            // Whoever has this place next connects for the first time.
            peer.stood_on = None;
            peer.wake_all();
            peer.session.reset()
        });
        self.acts_no_more(index);
        let of = |channel: Channel| lost.iter().filter(|message| message.channel == channel).count() as u64;
        self.inboxes.borrow_mut().tell_reset(self.rank_at(index), of);
    }

    /// A guest's lease has ended, or it has said farewell: its connection is fenced, and then it is forgotten.
    pub(super) fn take_leave(&self, index: usize) {
        let Some(guests) = &self.guests else { return };
        let mut known = guests.known.borrow_mut();
        let Some(guest) = known.get_mut(&index).filter(|guest| !guest.is_leaving) else { return };
        guest.is_leaving = true;
        drop(known);
        self.to_do.events.borrow_mut().push_back((index, 0, Event::Farewell));
        self.to_do.wake_driver();
    }

    /// What a guest may keep, for the frames that are sent to it now.
    pub(super) fn tell_keep(&self, index: usize, peer: &mut Peer<V>) {
        let Some(guests) = self.guests.as_ref().filter(|_| peer.is_guest) else { return };
        let keep = guests.slots.borrow().keep(index);
        peer.session.may_keep(keep);
    }
}
