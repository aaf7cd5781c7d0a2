//! Doing what the link asks for: fencing, connecting, resuming.

use super::driver::{Driver, tag};
use super::guests;
use super::inbox::Inboxes;
use super::link::Event;
use super::mesh::Shared;
use super::peer::{Outgoing, Peer};
use super::rail::ConnId;
use super::wire::{GUEST, HEADER_LEN, Hello, Refusal};
use super::{Cause, Channel, Planted, Rank};
use crate::rt::{BufferGuard, QpHandle, WaitPoint};
use std::collections::VecDeque;
use std::rc::Rc;
use weft_verbs::{ConnParams, Modify, Nanos, QpCaps, QueuePair, Result, ToInit, Verbs, Work};

/// Receive buffers for each send buffer that is registered ahead: a send keeps its buffer until a later one
/// completes, and one in sixteen does (see `QpHandle`).
const SENDS_A_RECEIVE: u32 = 4;

impl<V: Verbs> Driver<V> {
    /// Freezes and fences the queue pair in use, and has its drain reported.
    pub(super) fn fence(&mut self, index: usize) {
        let shared = Rc::clone(&self.shared);
        shared.stats.borrow_mut().fences += 1;
        let (queue, epoch) = shared.with_peer(index, |peer| {
            peer.session.disconnected();
            // A guest's early frames are in buffers that all guests share: they go back when the queue pair is given up.
            if !peer.is_guest {
                peer.early.clear();
            }
            if shared.config.makes(Planted::ReportsBeforeFence) {
                let left = peer.discard();
                peer.left_open.extend(left);
            }
            peer.queue.iter().for_each(QpHandle::fence);
            (peer.queue.clone(), peer.epoch)
        });
        match queue {
            Some(queue) => {
                drop(self.shared.rt.spawn(async move {
                    match index > shared.loopback() {
                        // Of a guest's it is the driver that says that it draws no more, and there is none once the mesh is closed.
                        true => {
                            let drained = shared.resumed.unless(|| shared.closed.get(), queue.drained());
                            let _ = drained.at((index, epoch)).await;
                        }
                        false => queue.drained().at((index, epoch)).await,
                    }
                    shared.event(index, epoch, Event::Drained);
                }));
            }
            None => shared.event(index, epoch, Event::Drained),
        }
    }

    pub(super) fn resolve(&mut self, index: usize, rail: u8) {
        let (config, rank) = (&self.shared.config, self.shared.rank_at(index));
        let theirs = if config.makes(Planted::MovesOneEnd) { 0 } else { rail };
        let (name, service) = (config.name(theirs, rank), config.service_of(rank));
        self.shared.with_peer(index, Peer::is_asked);
        match self.shared.rail(rail).connector.resolve_at(name, service) {
            Ok(id) => {
                let id = ConnId { rail, id };
                self.ids.insert(id, index);
                self.handle(index, Event::Begun(id));
            }
            Err(why) => {
                self.shared.is_kept_from(index, Cause::Connect(why));
                self.handle(index, Event::NotBegun);
            }
        }
    }

    pub(super) fn connect(&mut self, index: usize, id: ConnId, generation: u32) {
        let shared = Rc::clone(&self.shared);
        let incarnation = shared.with_peer(index, |peer| peer.link.incarnation());
        let hello = self.hello(index, incarnation, generation);
        if let Some(asked) = self.ask_over_standby(index, id, &hello) {
            if asked.is_err() {
                self.handle(index, Event::Unanswered(id));
            }
            return;
        }
        let asked = shared.with_peer(index, |peer| {
            let queue = shared.make_queue(index, peer, id.rail).map_err(Cause::Queue)?;
            let connector = &shared.rail(id.rail).connector;
            connector.connect(id.id, queue.qp(), &shared.params(&hello.encode())).map_err(Cause::Connect)
        });
        if let Err(why) = asked {
            shared.is_kept_from(index, why);
            self.ids.remove(&id);
            shared.rail(id.rail).connector.disconnect(id.id);
            self.handle(index, Event::Failed(id));
        }
    }

    pub(super) fn accept(&mut self, index: usize, id: ConnId, request: Hello) {
        let shared = Rc::clone(&self.shared);
        let hello = self.hello(index, request.session, request.generation);
        let answered = shared
            .with_peer(index, |peer| shared.use_standby(peer, id).then(|| shared.greet(peer, false, &hello)));
        match answered {
            // Its queue pair is connected at both ends: nothing else is to be waited for.
            Some(Ok(())) => return self.handle(index, Event::Established(id)),
            Some(Err(_)) => return self.handle(index, Event::Broken),
            None => {}
        }
        let accepted = shared.with_peer(index, |peer| {
            let queue = shared.make_queue(index, peer, id.rail).map_err(Cause::Queue)?;
            let connector = &shared.rail(id.rail).connector;
            connector.accept(id.id, queue.qp(), &shared.params(&hello.encode())).map_err(Cause::Connect)
        });
        if let Err(why) = accepted {
            shared.is_kept_from(index, why);
            self.ids.remove(&id);
            shared.rail(id.rail).connector.reject(id.id, &Refusal::Unable.encode());
            self.handle(index, Event::Failed(id));
        }
    }

    /// What this side reports of itself to an incarnation of the peer: final, because nothing of an old generation is
    /// left. Of another incarnation than the known one it has received nothing.
    fn hello(&self, index: usize, with: u64, generation: u32) -> Hello {
        let received = self.shared.with_peer(index, |peer| match peer.link.incarnation() == with {
            true => peer.session.received(),
            false => 0,
        });
        let own = self.shared.with_peer(index, |peer| peer.own);
        self.shared.hello_of(index, own, (with, generation, received))
    }

    /// The peer is in another incarnation than the one we knew: what was meant for that one is lost.
    pub(super) fn new_incarnation(&mut self, index: usize, again: bool) {
        let is_guest = self.shared.with_peer(index, |peer| {
            peer.gone = self.shared.retired.get();
            peer.is_guest
        });
        if is_guest {
            self.shared.tell_admission(index);
        }
        if !again {
            return;
        }
        let shared = &self.shared;
        let lost = shared.with_peer(index, |peer| {
            peer.incarnations += 1;
            peer.carried.peer_restarted();
            peer.wake_all();
            peer.session.reset()
        });
        shared.acts_no_more(index);
        shared.stats.borrow_mut().peer_resets += 1;
        if index != shared.loopback() {
            tell_reset(&mut shared.inboxes.borrow_mut(), shared.rank_at(index), &lost);
        }
    }

    /// The connection stands: the session goes on from what each side had received.
    pub(super) fn resume(&mut self, index: usize, hello: Hello) {
        let shared = Rc::clone(&self.shared);
        let early = shared.with_peer(index, |peer| {
            let repeated = peer.session.sent_beyond(hello.received);
            let received = match shared.config.makes(Planted::ResumesFromSent) {
                true => hello.received + repeated,
                false => hello.received,
            };
            let possible = peer.session.connected(received, hello.buffers);
            if !possible {
                shared.broken(index, peer);
                return VecDeque::new();
            }
            let mut stats = shared.stats.borrow_mut();
            stats.messages_repeated += repeated;
            let before = peer.stood_on.replace(peer.rail);
            stats.reconnects += u64::from(before.is_some());
            stats.failovers += u64::from(before.is_some_and(|before| peer.rail > before));
            stats.failbacks += u64::from(before.is_some_and(|before| peer.rail < before));
            drop(stats);
            peer.moves += u64::from(before.is_some_and(|before| peer.rail != before));
            peer.ups += 1;
            peer.asks = 0;
            shared.is_together_with(index);
            peer.lease = guests::told_lease(&hello);
            peer.lacks_atomics = hello.lacks_atomics;
            shared.renew_if_held(index, peer);
            shared.hold_off(index, peer);
            shared.wants_standby(index, peer);
            // Both old queue pairs are fenced: every operation of theirs has its outcome.
            peer.unresolved = false;
            peer.last_op = 0;
            peer.wake_resolvers();
            peer.wake_senders();
            peer.wake_first();
            std::mem::take(&mut peer.early)
        });
        shared.resumed.notify();
        for completed in early {
            shared.with_peer(index, |peer| self.frame(index, peer, completed));
        }
        self.grant_slots();
        self.touches(index);
        self.pump_touched();
    }

    /// Waits before the next attempt: twice as long after every failure, and never just as long as anyone
    /// else.
    pub(super) fn pause(&mut self, index: usize, failures: u32, number: u32) {
        let config = &self.shared.config;
        let longest = config.reconnect_max.min(config.reconnect_min * (1 << failures.min(32)));
        let jitter = self.shared.rt.random() % (longest.0 / 2 + 1);
        let pause = self.shared.rt.sleep(longest - Nanos(jitter));
        let shared = Rc::clone(&self.shared);
        drop(self.shared.rt.spawn(async move {
            pause.at((index, number)).await;
            shared.event(index, 0, Event::Paused(number));
        }));
    }
}

/// A queue pair has drained: notes whether operations of it have no fixed outcome, and destroys it.
pub(super) fn drained<V: Verbs>(peer: &mut Peer<V>) {
    if let Some(queue) = peer.discard() {
        let (_, succeeded) = queue.counts();
        peer.unresolved |= succeeded < peer.last_op;
        peer.last_op = 0;
    }
    peer.wake_resolvers();
}

fn tell_reset<V: Verbs>(inboxes: &mut Inboxes, peer: super::Rank, lost: &VecDeque<Outgoing<V>>) {
    let of = |channel: Channel| lost.iter().filter(|m| m.channel == channel).count() as u64;
    inboxes.tell_reset(peer, of);
}

impl<V: Verbs> Shared<V> {
    /// Readies the message that is sent next: it is nothing if its write was struck, and moves into memory that the present rail's
    /// adapter can read. The old rail's adapter does not read it any more: its queue pair has drained. One after the other, so that
    /// the first is not held up by the others. Where there is no memory for it, it stays the next one.
    pub(super) fn ready_next(&self, peer: &mut Peer<V>) -> Result<()> {
        let rail = peer.rail;
        let Some(message) = peer.session.unsent_mut() else { return Ok(()) };
        message.goes_without_its_write();
        if message.rail != rail {
            self.move_over(message, rail)?;
        }
        message.place.as_ref().map_or(Ok(()), |place| self.ready_write(place))
    }

    /// Moves a message into memory of this rail.
    fn move_over(&self, message: &mut Outgoing<V>, rail: u8) -> Result<()> {
        message.goes_over(rail);
        let block = self.rail(rail).send_pool.alloc(message.len as usize)?;
        let mut bytes = vec![0; message.len as usize];
        message.block.read(HEADER_LEN as u32, &mut bytes)?;
        block.write(HEADER_LEN as u32, &bytes)?;
        self.rt.spend(Work::Copy { bytes: u64::from(message.len) });
        (message.block, message.rail) = (block, rail);
        Ok(())
    }

    /// What this node says of itself in an incarnation to a peer.
    fn hello_of(&self, index: usize, own: u64, position: (u64, u32, u64)) -> Hello {
        let (with, generation, received) = position;
        let hello = Hello { session: own, ..self.hello(index, with, generation, received) };
        match &self.guests {
            Some(guests) if index > self.loopback() => guests.hello(hello),
            _ => hello,
        }
    }

    pub(super) fn hello(&self, index: usize, with: u64, generation: u32, received: u64) -> Hello {
        let config = &self.config;
        Hello {
            rank: self.name(),
            to: if index > self.loopback() { GUEST } else { self.rank_at(index) },
            session: self.session,
            lease: 0,
            with,
            generation,
            buffers: config.recv_buffers,
            max_message: config.max_message,
            received,
            lacks_atomics: !self.has_atomics(),
        }
    }

    /// What peers know this node by.
    pub(super) fn name(&self) -> Rank {
        if self.config.is_guest { GUEST } else { self.config.me }
    }

    pub(super) fn params<'a>(&self, private: &'a [u8]) -> ConnParams<'a> {
        let config = &self.config;
        ConnParams {
            private,
            responder_resources: config.rd_atomic,
            initiator_depth: config.rd_atomic,
            timeout: config.timeout,
            retry: config.retry,
            rnr_retry: config.rnr_retry,
            min_rnr_timer: config.rnr_timer,
            mtu: config.mtu,
            traffic_class: config.traffic_class,
        }
    }

    /// Gives a peer a new queue pair.
    fn make_queue<'p>(&self, index: usize, peer: &'p mut Peer<V>, rail: u8) -> Result<&'p QpHandle<V>> {
        drop(peer.discard());
        let queue = self.new_queue(index, peer.epoch, rail, 0)?;
        peer.rail = rail;
        Ok(peer.queue.insert(queue))
    }

    /// A queue pair of a rail in state Init with all its receive buffers posted, and so many beside those.
    pub(super) fn new_queue(&self, index: usize, epoch: u32, rail: u8, beside: u32) -> Result<QpHandle<V>> {
        if index > self.loopback()
            && let Some(guests) = &self.guests
        {
            return guests.new_queue(self, index, epoch);
        }
        let (config, rail) = (&self.config, self.rail(rail));
        // No message goes over the connection to oneself. One receive stays there all the same: its flush tells
        // that the queue pair broke.
        let receives = if self.rank_at(index) == config.me { 1 } else { config.recv_buffers + beside };
        let caps = QpCaps {
            max_send_wr: config.send_depth,
            max_recv_wr: receives,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: self.max_inline(),
        };
        let queue = rail.rt.create_qp(&rail.pd, caps)?;
        queue.qp().modify(&Modify::Init(ToInit {
            port: config.port,
            pkey_index: 0,
            access: self.queue_access,
            qkey: 0,
        }))?;
        queue.reserve_receives(receives);
        for _ in 0..receives {
            let block = rail.receive_pool.alloc()?;
            let len = block.len();
            queue.post_recv(&self.sink, tag(index, epoch), BufferGuard::Block { block, len })?;
        }
        // Registering takes as long as several messages: a few blocks for each connection now, so that no message
        // waits for it later. What cannot be had is asked for when it is needed.
        let _ = rail.send_pool.reserve(rail.receive_pool.in_use() as u32 / SENDS_A_RECEIVE);
        Ok(queue)
    }
}
