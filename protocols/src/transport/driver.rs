//! The mesh's one task: completions of receives, connection events and timers in; frames and connection
//! management out.

use super::carried::{self, CARRIED};
use super::connect::drained;
use super::due::Due;
use super::fail_back::Trial;
use super::guests::FAREWELL;
use super::inbox::{Incoming, Message, SMALL};
use super::link::{Action, Event};
use super::mesh::Shared;
use super::peer::{Outgoing, Peer};
use super::rail::ConnId;
use super::session::{MIN_BUFFERS, Received};
use super::wire::{self, GUEST, HEADER_LEN, Hello, Refusal, STANDBY, TRIAL};
use super::{Cause, Planted};
use crate::rt::sync::{Mailbox, wake_kept};
use crate::rt::{BufferGuard, Completed, leaf_at};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Poll};
use weft_verbs::{AsyncEvent, CmEvent, QpNum, Verbs};

/// A frame that fits on the stack.
const SMALL_FRAME: usize = HEADER_LEN + SMALL;

/// The part of a connection's receive buffers that may wait to be posted again, as a divisor: a peer that sends
/// without pause must not run out of credits.
const MOST_SPENT: usize = 4;

/// What a receive is posted with: whose it is, and of which queue pair.
pub(super) fn tag(index: usize, epoch: u32) -> u64 {
    u64::from(epoch) << 32 | index as u64
}

fn split_tag(tag: u64) -> (usize, u32) {
    (tag as u32 as usize, (tag >> 32) as u32)
}

/// What happens on one rail, completions aside.
pub(super) struct RailEvents {
    pub(super) connections: Mailbox<CmEvent>,
    pub(super) device: Mailbox<AsyncEvent>,
}

pub(super) struct Driver<V: Verbs> {
    pub(super) shared: Rc<Shared<V>>,
    pub(super) events: Vec<RailEvents>,
    /// Whose an attempt or a connection is.
    pub(super) ids: BTreeMap<ConnId, usize>,
    /// Attempts that are made only to see whether a better rail works.
    pub(super) trials: BTreeMap<ConnId, Trial<V>>,
    /// Peers that wait for an acknowledgement of ours, and whose we wait for.
    pub(super) acks: Due<V>,
    pub(super) probes: Due<V>,
    /// Peers whose next message waits for memory.
    pub(super) supplies: Due<V>,
    /// Peers to pump after a batch of completions.
    touched: Vec<usize>,
    /// Peers with receive buffers to be posted again.
    spenders: Vec<usize>,
    /// Peers that may need a standby queue pair.
    pub(super) unready: Vec<usize>,
    actions: Vec<Action>,
}

impl<V: Verbs> Driver<V> {
    pub(super) fn new(shared: Rc<Shared<V>>, events: Vec<RailEvents>) -> Driver<V> {
        Driver {
            shared,
            events,
            ids: BTreeMap::new(),
            trials: BTreeMap::new(),
            acks: Due::new(),
            probes: Due::new(),
            supplies: Due::new(),
            touched: Vec::new(),
            spenders: Vec::new(),
            unready: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// Handles all that has happened; ready once the mesh is closed.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        wake_kept(&mut self.shared.to_do.driver.borrow_mut(), cx);
        loop {
            if self.shared.closed.get() {
                self.leave();
                return Poll::Ready(());
            }
            // Completions first: what a drained queue pair had received counts before the drain is reported.
            let busy = self.completions(cx) | self.connection_events(cx) | self.device_events(cx);
            let busy = busy | self.own_events() | self.feed_starved(cx) | self.what_is_due(cx);
            let busy = busy | self.begin_hold_offs() | self.begin_trials();
            let busy = busy | self.repost_when_idle(cx);
            self.stand_by(cx);
            if !busy {
                if self.is_idle() {
                    leaf_at(&self.ids);
                }
                return Poll::Pending;
            }
        }
    }

    /// Whether nothing is to be done, now or later.
    fn is_idle(&self) -> bool {
        let listed = self.touched.is_empty() && self.spenders.is_empty() && self.actions.is_empty();
        let listed = listed && self.unready.is_empty() && self.supplies.is_empty();
        listed && self.acks.is_empty() && self.probes.is_empty() && self.trials.is_empty()
    }

    fn completions(&mut self, cx: &mut Context<'_>) -> bool {
        if self.shared.sink.poll_ready(cx).is_pending() & !self.guests_sent(cx) {
            return false;
        }
        while let Some(completed) = self.shared.sink.take() {
            self.received(completed);
        }
        self.frames_of_guests();
        self.pump_touched();
        true
    }

    /// Pumps those of a batch.
    pub(super) fn pump_touched(&mut self) {
        let shared = Rc::clone(&self.shared);
        for index in self.touched.drain(..) {
            shared.with_peer(index, |peer| {
                shared.pump(index, peer);
                shared.ack_if_full(index, peer);
            });
        }
    }

    /// A receive completed, or was flushed.
    fn received(&mut self, completed: Completed<V>) {
        let (index, epoch) = split_tag(completed.tag);
        self.received_of(index, epoch, completed);
    }

    pub(super) fn received_of(&mut self, index: usize, epoch: u32, completed: Completed<V>) {
        let shared = Rc::clone(&self.shared);
        if shared.config.rails() > 1 && self.greeted(index, epoch, &completed) {
            return;
        }
        shared.with_peer(index, |peer| {
            if peer.epoch != epoch {
                // Of a queue pair that was given up: its sender repeats the message.
                return;
            }
            if peer.gone && peer.link.accepts_frames() && completed.outcome.is_ok() {
                // Of one who was expelled: it says nothing any more. (What comes early on a connection that does not stand
                // yet is its successor's.)
                return;
            }
            if completed.outcome.is_err() {
                if !peer.link.is_draining() {
                    shared.broken(index, peer);
                }
            } else if peer.link.accepts_frames() {
                self.frame(index, peer, completed);
            } else if !peer.link.is_draining() {
                peer.early.push_back(completed);
            }
        });
    }

    pub(super) fn frame(&mut self, index: usize, peer: &mut Peer<V>, completed: Completed<V>) {
        let shared = Rc::clone(&self.shared);
        let (Ok(done), BufferGuard::Block { block, len }) = (completed.outcome, completed.buffer) else {
            return;
        };
        peer.heard += 1;
        // The end that has it come back may be one that only receives.
        shared.hold_off(index, peer);
        let frame_len = done.len.min(len) as usize;
        let mut small = [0; SMALL_FRAME];
        let mut large = Vec::new();
        let (read, frame) = if frame_len <= SMALL_FRAME {
            (block.read(0, &mut small[..frame_len]), &small[..frame_len])
        } else {
            (block.read_behind(frame_len as u32, &mut large), &large[..])
        };
        let header = read.ok().and_then(|()| wire::decode_header(frame));
        let kept = peer.session.kept();
        let verdict = match &header {
            Some((header, _)) => peer.session.on_frame(*header),
            None => Received::Violation,
        };
        match (verdict, header) {
            // It was behind a write that could not be repeated.
            (Received::Deliver, Some((_, CARRIED))) if frame.len() == HEADER_LEN => {}
            (Received::Deliver, Some((_, CARRIED))) if shared.may_carry(peer) => {
                carried::arrived(&shared, index, peer, &frame[HEADER_LEN..]);
            }
            (Received::Deliver, Some((_, FAREWELL))) if peer.is_guest => shared.take_leave(index),
            (Received::Deliver, Some((_, channel))) => {
                let from = shared.rank_at(index);
                let message = match frame_len <= SMALL_FRAME {
                    true => Message::new(from, &frame[HEADER_LEN..]),
                    false => Message::of_frame(from, large, HEADER_LEN),
                };
                shared.inboxes.borrow_mut().deliver(channel, Incoming::Message(message));
                shared.stats.borrow_mut().messages_received += 1;
            }
            (Received::Duplicate, _) => shared.stats.borrow_mut().duplicates += 1,
            (Received::Control, _) => {}
            _ => shared.broken(index, peer),
        }
        if peer.session.kept() < kept {
            peer.has_been_acknowledged(shared.config.max_queued as usize);
        }
        if peer.is_guest {
            let header = header.filter(|_| verdict != Received::Violation).map(|(header, _)| header);
            self.frame_of_guest(index, peer, header, BufferGuard::Block { block, len });
        } else if peer.link.is_up() {
            if !std::mem::replace(&mut peer.spends, true) {
                self.spenders.push(index);
            }
            peer.spent.push(BufferGuard::Block { block, len });
            if peer.spent.len() >= shared.config.recv_buffers as usize / MOST_SPENT {
                shared.repost(index, peer);
            }
        }
        if peer.link.is_up() {
            self.list_ack(index, peer);
            self.touches(index);
        }
    }

    /// Something came from a peer: it is pumped after this batch.
    pub(super) fn touches(&mut self, index: usize) {
        if self.touched.last() != Some(&index) {
            self.touched.push(index);
        }
    }

    /// Posts receive buffers again, once those whom their messages were for have had their turn: a post costs
    /// a doorbell, and an answer must not wait for it.
    fn repost_when_idle(&mut self, cx: &mut Context<'_>) -> bool {
        if self.spenders.is_empty() || self.shared.rt.poll_idle(cx).is_pending() {
            return false;
        }
        let shared = Rc::clone(&self.shared);
        for index in self.spenders.drain(..) {
            shared.with_peer(index, |peer| {
                peer.spends = false;
                shared.repost(index, peer);
                shared.pump(index, peer);
            });
        }
        true
    }

    fn connection_events(&mut self, cx: &mut Context<'_>) -> bool {
        let mut busy = false;
        for rail in 0..self.events.len() {
            while let Poll::Ready(Ok(event)) = self.events[rail].connections.poll_recv(cx) {
                self.connection_event(rail as u8, event);
                busy = true;
            }
        }
        busy
    }

    fn connection_event(&mut self, rail: u8, event: CmEvent) {
        if !self.trials.is_empty() && self.of_a_trial(rail, &event) {
            return;
        }
        if self.shared.config.rails() > 1 && self.of_a_standby(rail, &event) {
            return;
        }
        let on = |id| ConnId { rail, id };
        match event {
            CmEvent::Request { id, private, .. } => self.request(on(id), &private),
            CmEvent::Resolved { id } => self.of(on(id), Event::Resolved(on(id)), false),
            CmEvent::Established { id, private } if private.is_empty() => {
                self.of(on(id), Event::Established(on(id)), false);
            }
            CmEvent::Established { id, private } => match Hello::decode(&private) {
                Some(hello) => self.of(on(id), Event::Accepted(on(id), hello), false),
                // The accepting side heard nothing of ours that it could answer so; not one of our nodes.
                None => {
                    self.shared.rail(rail).connector.disconnect(id);
                    self.of(on(id), Event::Failed(on(id)), true);
                }
            },
            CmEvent::Rejected { id, reason, private } => {
                if let Some(index) = self.asker(on(id)) {
                    self.shared.is_turned_down(index, reason, &private);
                }
                self.of(on(id), Event::Rejected(on(id), Refusal::decode(&private)), true);
            }
            CmEvent::Unreachable { id } => {
                if let Some(index) = self.ids.get(&on(id)) {
                    self.shared.is_kept_from(*index, Cause::Unreachable);
                }
                self.of(on(id), Event::Failed(on(id)), true);
            }
            CmEvent::Disconnected { id } => self.of(on(id), Event::Disconnected(on(id)), true),
        }
    }

    /// Hands an event to the peer that an attempt or a connection belongs to.
    fn of(&mut self, id: ConnId, event: Event, over: bool) {
        let index = if over { self.ids.remove(&id) } else { self.ids.get(&id).copied() };
        if let Some(index) = index {
            self.handle(index, event);
        }
    }

    /// Whom this node asks for a connection by that attempt.
    fn asker(&self, id: ConnId) -> Option<usize> {
        let index = self.ids.get(&id).copied()?;
        self.shared.with_peer(index, |peer| peer.link.asks(id)).then_some(index)
    }

    fn request(&mut self, id: ConnId, private: &[u8]) {
        let shared = &self.shared;
        let connector = &shared.rail(id.rail).connector;
        let hello = Hello::decode(private);
        if hello.is_some_and(|hello| hello.to != shared.name()) {
            // Its address was another node's before, or is in somebody's configuration in place of one.
            connector.reject(id.id, &Refusal::Astray.encode());
            return;
        }
        if let Some(hello) = hello.filter(|hello| hello.rank == GUEST) {
            return self.guest_asks(id, hello);
        }
        let ours = hello
            .filter(|hello| hello.max_message == shared.config.max_message && hello.buffers >= MIN_BUFFERS);
        // A named peer's: the places behind are those of guests, who are not known by their ranks.
        let index =
            ours.and_then(|hello| shared.index(hello.rank)).filter(|index| *index < shared.loopback());
        let (Some(hello), Some(index)) = (ours, index) else {
            connector.reject(id.id, &Refusal::Stranger.encode());
            return;
        };
        if hello.generation == TRIAL {
            // It asks only to see whether this rail works.
            connector.reject(id.id, &Refusal::Trial.encode());
            return;
        }
        if hello.generation == STANDBY {
            return self.stand_by_for(index, id, &hello);
        }
        let index = if hello.rank == shared.config.me { shared.loopback() } else { index };
        self.ids.insert(id, index);
        self.handle(index, Event::Request(id, hello));
    }

    fn device_events(&mut self, cx: &mut Context<'_>) -> bool {
        let mut busy = false;
        for rail in 0..self.events.len() {
            while let Poll::Ready(Ok(event)) = self.events[rail].device.poll_recv(cx) {
                busy = true;
                self.device_event(rail as u8, event);
            }
        }
        busy
    }

    fn device_event(&mut self, rail: u8, event: AsyncEvent) {
        match event {
            AsyncEvent::QpFatal(num) | AsyncEvent::QpRequestError(num) | AsyncEvent::QpAccessError(num) => {
                if let Some(index) = self.peer_with(rail, num) {
                    self.handle(index, Event::Broken);
                }
            }
            AsyncEvent::LastWqe(num) => self.drew_last(num),
            AsyncEvent::PortError(port) if port == self.shared.config.port => self.port_changed(rail, true),
            // That of the memory takes the node with it: see `Rt::fatal`.
            AsyncEvent::DeviceFatal => {
                self.port_changed(rail, true);
                self.drop_standbys_on(rail);
            }
            AsyncEvent::PortActive(port) if port == self.shared.config.port => self.port_changed(rail, false),
            _ => {}
        }
    }

    fn peer_with(&self, rail: u8, num: QpNum) -> Option<usize> {
        let peers = self.shared.peers.borrow();
        let is = |p: &Peer<V>| p.rail == rail && p.queue.as_ref().is_some_and(|q| q.num() == num);
        let uses = |p: &Peer<V>| !p.link.is_draining() && is(p);
        peers.iter().position(|peer| peer.as_deref().is_some_and(uses))
    }

    fn own_events(&mut self) -> bool {
        let mut busy = false;
        loop {
            let next = self.shared.to_do.events.borrow_mut().pop_front();
            let Some((index, epoch, event)) = next else { return busy };
            busy = true;
            let of_a_queue = matches!(event, Event::Broken | Event::Drained | Event::Adopted(_));
            if !of_a_queue || self.shared.with_peer(index, |peer| peer.epoch == epoch) {
                self.handle(index, event);
            }
        }
    }

    /// Pumps peers whose send queue had been full, and watches those where it still is.
    fn feed_starved(&mut self, cx: &mut Context<'_>) -> bool {
        if self.shared.to_do.starved.borrow().is_empty() {
            return false;
        }
        let shared = Rc::clone(&self.shared);
        let mut busy = false;
        for index in shared.to_do.starved.take() {
            shared.with_peer(index, |peer| {
                peer.starved = false;
                let Some(queue) = peer.standing() else { return };
                if queue.room() >= peer.session.unsent().map_or(1, Outgoing::posts) {
                    busy = true;
                    shared.pump(index, peer);
                    shared.ack_if_full(index, peer);
                    self.list_ack(index, peer);
                } else {
                    queue.watch_sends(cx);
                    peer.starved = true;
                    shared.to_do.starved.borrow_mut().push(index);
                }
            });
        }
        busy
    }

    /// Lets the link take an event, and does what it asks for.
    pub(super) fn handle(&mut self, index: usize, event: Event) {
        let shared = Rc::clone(&self.shared);
        if event == Event::Drained {
            shared.with_peer(index, |peer| drained(peer));
        }
        if shared.config.makes(Planted::SuspendsDeadLink) {
            let in_process = shared.with_peer(index, |peer| peer.link.is_up() && peer.session.kept() > 0);
            if in_process && matches!(event, Event::Broken | Event::RailDown(_) | Event::Disconnected(_)) {
                return;
            }
        }
        let mut actions = std::mem::take(&mut self.actions);
        shared.with_peer(index, |peer| {
            let hangs_up = matches!(event, Event::Disconnected(id) if peer.link.id() == Some(id));
            let (stood, wanted) = (peer.link.may_stand(), peer.wanted());
            peer.link.on_event(event, wanted, &mut actions);
            if hangs_up || (stood && !peer.link.may_stand()) {
                shared.stands_no_more(index, peer);
            }
        });
        for action in actions.drain(..) {
            self.act(index, action);
        }
        self.actions = actions;
        self.see_to_guest(index, event == Event::Drained);
        if self.shared.config.is_guest {
            // Who leaves waits for the connection's end, too.
            self.shared.with_peer(index, |peer| peer.wake_senders());
        }
    }

    fn act(&mut self, index: usize, action: Action) {
        match action {
            Action::Fence => self.fence(index),
            Action::Disconnect(id) => {
                self.end_standby(index, id);
                self.ids.remove(&id);
                self.shared.rail(id.rail).connector.disconnect(id.id);
            }
            Action::Discard => drop(self.shared.with_peer(index, |peer| peer.discard())),
            Action::Resolve(rail) => self.resolve(index, rail),
            Action::Connect(id, generation) => self.connect(index, id, generation),
            Action::Accept(id, request) => self.accept(index, id, request),
            Action::Reject(id, refusal) => {
                let shared = Rc::clone(&self.shared);
                let connector = &shared.rail(id.rail).connector;
                if self.end_standby(index, id) {
                    // It is no request of the connection manager's.
                    return connector.disconnect(id.id);
                }
                self.ids.remove(&id);
                connector.reject(id.id, &refusal.encode());
            }
            Action::NewIncarnation(again) => self.new_incarnation(index, again),
            Action::Resume(hello) => self.resume(index, hello),
            Action::Pause(failures, number) => self.pause(index, failures, number),
            Action::Outcast(grounds) => self.shared.outcast(index, grounds),
            Action::Gone => self.shared.no_more(index),
        }
    }
}
