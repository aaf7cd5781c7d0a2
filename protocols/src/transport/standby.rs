//! A connection that stands by on another rail.
//!
//! To make a queue pair takes commands of the adapter, its receive buffers have to be registered with it, and to connect it takes the
//! connection manager's three messages: on the hardware of the sources most of a millisecond, in the middle of a stall. So when a
//! connection stands and there is nothing else to do, the lower rank of the two makes another one over the rail that would be
//! tried next. What is left for a failover is to fence the old one, to ask over this one, and the peer's fence and its answer.
//!
//! Nothing goes over it until then ([`link::ahead`](super::link)). Its queue pair rests: it is looked at when there is nothing else
//! to do, and has a completion queue of its own, so that it costs nothing. What goes over it first are a request and an answer, each
//! one message with the [`Hello`] that the connection manager would have carried.

use super::Cause;
use super::driver::{Driver, tag};
use super::link::Event;
use super::mesh::Shared;
use super::peer::Peer;
use super::rail::ConnId;
use super::wire::{self, HEADER_LEN, Hello, Refusal, STANDBY};
use crate::rt::fingerprint::AdapterState;
use crate::rt::{BufferGuard, Completed, QpHandle, WaitPoint};
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::task::Context;
use weft_verbs::{CmEvent, Nanos, Result, Verbs, VerbsError};

/// Receives that a queue pair takes beside those of which the peer is told: a request and an answer, or two requests that cross.
const BESIDE: u32 = 2;

/// A connection that is not used, or the queue pair for one.
pub(super) struct Standby<V: Verbs> {
    /// The queue pair's number: what its receives were posted with.
    epoch: u32,
    queue: QpHandle<V>,
    /// By which the connection manager knows it.
    id: ConnId,
    /// Both ends know that it is connected.
    ready: bool,
}

impl<V: Verbs> Standby<V> {
    /// Adds it to a hash; how many requests are outstanding at it.
    pub(super) fn hash_queue(&self, adapter: &impl AdapterState, to: &mut impl Hasher) -> usize {
        (self.epoch, self.id, self.ready).hash(to);
        self.queue.fingerprint(adapter, to)
    }

    pub(super) fn id(&self) -> ConnId {
        self.id
    }
}

impl<V: Verbs> Shared<V> {
    /// A connection came to stand: another one may be needed for its end.
    pub(super) fn wants_standby(&self, index: usize, peer: &mut Peer<V>) {
        let makes = self.config.standby && self.config.me < self.rank_at(index);
        if makes && peer.link.next_rail().is_some() && !peer.standby_listed {
            peer.standby_listed = true;
            self.to_do.unready.borrow_mut().push(index);
            self.to_do.wake_driver();
        }
    }

    /// A queue pair that rests, for a connection that is known by this identity.
    fn standby_queue(&self, index: usize, peer: &mut Peer<V>, id: ConnId) -> Result<Standby<V>> {
        let epoch = peer.number();
        let queue = self.new_queue(index, epoch, id.rail, BESIDE)?;
        queue.rest();
        Ok(Standby { epoch, queue, id, ready: false })
    }

    /// The connection that stands by becomes the one in use, if it has this identity: says whether it has.
    pub(super) fn use_standby(&self, peer: &mut Peer<V>, id: ConnId) -> bool {
        if peer.via == Some(id) && peer.queue.is_some() {
            // This end has asked over it.
            return true;
        }
        let Some(standby) = peer.standby.take_if(|standby| standby.id == id) else { return false };
        drop(peer.discard());
        standby.queue.wake();
        (peer.epoch, peer.rail, peer.via) = (standby.epoch, id.rail, Some(id));
        peer.queue = Some(standby.queue);
        true
    }

    /// Sends a request or an answer over the connection that stood by.
    pub(super) fn greet(&self, peer: &Peer<V>, asks: bool, hello: &Hello) -> Result<()> {
        let queue = peer.queue.as_ref().filter(|queue| !queue.is_broken()).ok_or(VerbsError::DeviceGone)?;
        let bytes = wire::encode_greeting(asks, hello);
        let block = self.rail(peer.rail).send_pool.alloc(bytes.len() - HEADER_LEN)?;
        block.write(0, &bytes)?;
        let guard = BufferGuard::Block { block, len: bytes.len() as u32 };
        super::frames::post(queue, crate::rt::Local::Guarded(guard))
    }

    /// What a message says that may be a request or an answer.
    fn greeting(&self, completed: &Completed<V>) -> Option<(bool, Hello)> {
        let (Ok(done), BufferGuard::Block { block, .. }) = (&completed.outcome, &completed.buffer) else {
            return None;
        };
        let mut bytes = [0; HEADER_LEN + wire::HELLO_LEN];
        if done.len as usize != bytes.len() || block.read(0, &mut bytes).is_err() {
            return None;
        }
        wire::decode_greeting(&bytes).filter(|(_, hello)| hello.max_message == self.config.max_message)
    }
}

impl<V: Verbs> Driver<V> {
    /// Makes connections that stand by, once there is nothing else to do: no message waits for that.
    pub(super) fn stand_by(&mut self, cx: &mut Context<'_>) {
        self.unready.append(&mut self.shared.to_do.unready.borrow_mut());
        if self.unready.is_empty() || self.shared.rt.poll_idle(cx).is_pending() {
            return;
        }
        // One at a time: each takes as long as its receive buffers do, and what arrives meanwhile must not wait for all.
        let index = self.unready.remove(0);
        self.make_standby(index);
        if !self.unready.is_empty() {
            cx.waker().wake_by_ref();
        }
    }

    /// Makes the connection that a peer may need. One that cannot be had is made when it is needed.
    fn make_standby(&mut self, index: usize) {
        let shared = Rc::clone(&self.shared);
        let rail = shared.with_peer(index, |peer| {
            peer.standby_listed = false;
            let has = |rail: u8| peer.standby.as_ref().is_some_and(|standby| standby.id.rail == rail);
            peer.link.next_rail().filter(|rail| !has(*rail))
        });
        let Some(rail) = rail else { return };
        self.drop_standby(index);
        let (config, rank) = (&shared.config, shared.rank_at(index));
        let connector = &shared.rail(rail).connector;
        let Ok(id) = connector.resolve_at(config.name(rail, rank), config.service_of(rank)) else { return };
        let id = ConnId { rail, id };
        let made = shared.with_peer(index, |peer| {
            peer.standby = Some(shared.standby_queue(index, peer, id)?);
            Ok(())
        });
        match made {
            Ok(()) => drop(self.ids.insert(id, index)),
            Err(why) => {
                shared.is_kept_from(index, Cause::Queue(why));
                connector.disconnect(id.id);
            }
        }
    }

    /// The peer makes a connection that stands by.
    pub(super) fn stand_by_for(&mut self, index: usize, id: ConnId, theirs: &Hello) {
        let shared = Rc::clone(&self.shared);
        let stands = shared.with_peer(index, |peer| peer.link.stands_with(theirs.session));
        if !stands || !shared.config.standby || shared.config.rails() == 1 {
            shared.rail(id.rail).connector.reject(id.id, &Refusal::Unable.encode());
            return;
        }
        self.drop_standby(index);
        let hello = shared.hello(index, theirs.session, STANDBY, 0);
        let accepted = shared.with_peer(index, |peer| {
            let standby = shared.standby_queue(index, peer, id).map_err(Cause::Queue)?;
            let (queue, params) = (standby.queue.qp(), hello.encode());
            let connector = &shared.rail(id.rail).connector;
            connector.accept(id.id, queue, &shared.params(&params)).map_err(Cause::Connect)?;
            // What the peer sends may be here before the connection manager's last word.
            standby.queue.listen();
            peer.standby = Some(standby);
            Ok(())
        });
        match accepted {
            Ok(()) => drop(self.ids.insert(id, index)),
            Err(why) => {
                shared.is_kept_from(index, why);
                shared.rail(id.rail).connector.reject(id.id, &Refusal::Unable.encode());
            }
        }
    }

    /// The device of a rail has failed: what stands by there never serves.
    pub(super) fn drop_standbys_on(&mut self, rail: u8) {
        let on_rail = self.ids.iter().filter(|(id, _)| id.rail == rail);
        let on_rail: Vec<_> = on_rail.map(|(id, index)| (*id, *index)).collect();
        for (id, index) in on_rail {
            if self.end_standby(index, id) {
                self.shared.rail(rail).connector.disconnect(id.id);
            }
        }
    }

    /// Gives the connection that stands by up.
    fn drop_standby(&mut self, index: usize) {
        let id = self.shared.with_peer(index, |peer| peer.standby.as_ref().map(Standby::id));
        if let Some(id) = id {
            self.end_standby(index, id);
            self.shared.rail(id.rail).connector.disconnect(id.id);
        }
    }

    /// It is over, if it has this identity: says whether it had.
    pub(super) fn end_standby(&mut self, index: usize, id: ConnId) -> bool {
        let taken = self.shared.with_peer(index, |peer| peer.standby.take_if(|standby| standby.id == id));
        if taken.is_none() {
            return false;
        }
        self.ids.remove(&id);
        drop(taken);
        self.handle(index, Event::NoStandby(id));
        true
    }

    /// Takes an event of a connection manager, if it is one of a connection that stands by.
    pub(super) fn of_a_standby(&mut self, rail: u8, event: &CmEvent) -> bool {
        let Some(of) = ConnId::of_own(rail, event) else { return false };
        let Some(index) = self.ids.get(&of).copied() else { return false };
        let shared = Rc::clone(&self.shared);
        let is =
            shared.with_peer(index, |peer| peer.standby.as_ref().is_some_and(|standby| standby.id == of));
        if !is {
            return false;
        }
        match event {
            CmEvent::Resolved { .. } => self.ask_for_standby(index, of),
            CmEvent::Established { private, .. } => {
                let theirs = Hello::decode(private);
                let known = shared.with_peer(index, |peer| {
                    let ready = theirs.is_none_or(|hello| peer.link.stands_with(hello.session));
                    let standby = peer.standby.as_mut().filter(|_| ready);
                    standby.map(|standby| {
                        standby.ready = true;
                        standby.queue.listen();
                    })
                });
                match known {
                    Some(()) => {
                        shared.is_together_with(index);
                        self.handle(index, Event::StandsBy(of));
                    }
                    None => self.drop_standby(index),
                }
            }
            _ => {
                let stood_by = shared
                    .with_peer(index, |peer| peer.standby.as_ref().is_some_and(|standby| standby.ready));
                self.end_standby(index, of);
                if stood_by {
                    self.stands_by_again(index);
                }
            }
        }
        true
    }

    /// What stood by has ended at its other end, and that may be the one that makes none: another one is made some time from now, so that
    /// two of which one always ends it make no more than that. One that never stood by is made when it is needed.
    fn stands_by_again(&self, index: usize) {
        let shared = Rc::clone(&self.shared);
        let makes = shared.config.me < shared.rank_at(index);
        if !makes || shared.config.hold_off == Nanos::MAX {
            return;
        }
        let over = shared.rt.sleep(shared.config.hold_off);
        drop(shared.rt.clone().spawn(async move {
            over.at(("stands by again", index)).await;
            shared.with_peer(index, |peer| shared.wants_standby(index, peer));
        }));
    }

    fn ask_for_standby(&mut self, index: usize, id: ConnId) {
        let shared = Rc::clone(&self.shared);
        let asked = shared.with_peer(index, |peer| {
            let hello = shared.hello(index, peer.link.incarnation(), STANDBY, 0);
            let Some(standby) = &peer.standby else { return Ok(()) };
            let connector = &shared.rail(id.rail).connector;
            connector.connect(id.id, standby.queue.qp(), &shared.params(&hello.encode()))
        });
        if let Err(why) = asked {
            shared.is_kept_from(index, Cause::Connect(why));
            self.drop_standby(index);
        }
    }

    /// Takes what came over a connection that stands by, or over one that is asked for in this way: says whether it is one.
    pub(super) fn greeted(&mut self, index: usize, epoch: u32, completed: &Completed<V>) -> bool {
        let shared = Rc::clone(&self.shared);
        let of = shared.with_peer(index, |peer| {
            if let Some(standby) = peer.standby.as_ref().filter(|standby| standby.epoch == epoch) {
                return Some((standby.id, true));
            }
            let asks = peer.epoch == epoch && !peer.link.accepts_frames();
            peer.via.filter(|_| asks && peer.queue.is_some()).map(|id| (id, false))
        });
        let Some((id, stands_by)) = of else { return false };
        let said = shared.greeting(completed);
        if stands_by && said.is_none() {
            // It broke, or the peer uses it for something else.
            self.drop_standby(index);
            return true;
        }
        let Some((asks, hello)) = said else { return false };
        shared.with_peer(index, |peer| {
            let standby = peer.standby.as_ref().filter(|standby| standby.epoch == epoch);
            let queue = standby.map(|standby| &standby.queue).or(peer.queue.as_ref());
            if let (Some(queue), BufferGuard::Block { block, .. }) = (queue, &completed.buffer) {
                let (block, len) = (block.clone(), block.len());
                // Refused only by a device that is gone.
                let _ = queue.post_recv(&shared.sink, tag(index, epoch), BufferGuard::Block { block, len });
            }
        });
        let event = if asks { Event::Request(id, hello) } else { Event::Accepted(id, hello) };
        self.handle(index, event);
        true
    }

    /// Asks over the connection that stood by, if it has this identity: says whether it has, and could be asked over.
    pub(super) fn ask_over_standby(&mut self, index: usize, id: ConnId, hello: &Hello) -> Option<Result<()>> {
        let shared = Rc::clone(&self.shared);
        let asked = shared.with_peer(index, |peer| {
            let standby = peer.standby.as_ref().is_some_and(|standby| standby.id == id);
            (standby && shared.use_standby(peer, id)).then(|| shared.greet(peer, true, hello))
        })?;
        shared.with_peer(index, Peer::is_asked);
        if asked.is_ok() {
            // The request may have arrived and the answer be lost, with all that would tell of it: nobody else ends this attempt. The
            // connection manager repeats its own requests; one over a queue pair is given up instead, also where nobody probes.
            let answered = shared.rt.sleep(shared.config.probe_after.min(shared.config.reconnect_max));
            let generation = hello.generation;
            drop(shared.rt.clone().spawn(async move {
                answered.at(("asks over a standby", index, generation)).await;
                shared.event(index, 0, Event::Unanswered(id));
            }));
        }
        Some(asked)
    }
}
