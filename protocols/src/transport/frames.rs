//! Putting frames on a connection: messages as credits and the send queue allow, and what the peer is owed.

use super::Channel;
use super::content::Content;
use super::driver::tag;
use super::error::lacks_memory;
use super::link::Event;
use super::mesh::Shared;
use super::peer::{Outgoing, Peer};
use super::place::Place;
use super::session::Header;
use super::wire::{HEADER_LEN, encode_header};
use crate::rt::{BufferGuard, Local, QpHandle};
use weft_verbs::{Nanos, Result, SendOp, Verbs};

impl<V: Verbs> Shared<V> {
    /// Keeps a message for a peer until that has acknowledged it, and sends it as soon as that is possible.
    pub(super) fn keep_message(
        &self,
        index: usize,
        peer: &mut Peer<V>,
        channel: Channel,
        content: &(impl Content + ?Sized),
    ) -> Result<()> {
        self.keep_behind(index, peer, channel, content, None)
    }

    /// The same, behind a write.
    pub(super) fn keep_behind(
        &self,
        index: usize,
        peer: &mut Peer<V>,
        channel: Channel,
        content: &(impl Content + ?Sized),
        place: Option<Box<Place<V>>>,
    ) -> Result<()> {
        let rail = peer.rail;
        let block = self.rail(rail).send_pool.alloc(content.len())?;
        let (mut at, mut written) = (HEADER_LEN as u32, Ok(()));
        content.put(&mut |piece| {
            if written.is_ok() {
                written = block.write(at, piece);
                at += piece.len() as u32;
            }
        });
        written?;
        peer.session.push(Outgoing { block, len: at - HEADER_LEN as u32, channel, rail, place });
        if peer.link.is_up() {
            self.pump(index, peer);
        } else {
            self.event(index, peer.epoch, Event::Wanted);
        }
        Ok(())
    }

    /// Sends what can be sent now.
    pub(super) fn pump(&self, index: usize, peer: &mut Peer<V>) {
        self.post_all(index, peer);
        if peer.session.kept() > 0 {
            self.hold_off(index, peer);
        }
        if !peer.probe_listed {
            self.list_probe(index, peer);
        }
    }

    fn post_all(&self, index: usize, peer: &mut Peer<V>) {
        self.tell_keep(index, peer);
        while peer.session.has_to_say()
            && let Some(queue) = peer.standing()
        {
            if queue.room() < peer.session.unsent().map_or(1, Outgoing::posts) {
                if peer.session.has_unsent() || peer.session.owes_much() {
                    self.starve(index, peer);
                }
                return;
            }
            // Where there was no memory for the next message, it is asked for some once in a while.
            let ready = if peer.supply_listed { Ok(false) } else { self.ready_next(peer).map(|()| true) };
            let is_ready = match ready {
                Ok(is_ready) => is_ready,
                // Another connection would have no more of it. What the peer is owed is said meanwhile.
                Err(why) if lacks_memory(why) => {
                    self.list_supply(index, peer);
                    false
                }
                Err(_) => return self.broken(index, peer),
            };
            let next = if is_ready { peer.session.next_message() } else { None };
            let posted = match next {
                Some((header, message)) => {
                    let queue = peer.queue.as_ref().expect("it stands");
                    let frame = encode_header(&header, message.channel);
                    peer.told += 1;
                    // What became of a write before it is for `resolve_outcomes` to say.
                    let last_op = &mut peer.last_op;
                    let written = message.block.write(0, &frame);
                    written.and_then(|()| self.post_message(queue, message, last_op))
                }
                None => match peer.session.credit_return().or_else(|| peer.session.give_back()) {
                    Some(header) => self.post_control(peer, header),
                    None => return,
                },
            };
            if posted.is_err() {
                // The connection begins anew, and the session with it where it stopped.
                self.broken(index, peer);
                return;
            }
        }
    }

    /// Posts spent receive buffers again; the next frame tells the peer so.
    pub(super) fn repost(&self, index: usize, peer: &mut Peer<V>) {
        let standing = peer.link.is_up();
        let Some(queue) = peer.queue.as_ref().filter(|_| standing) else { return peer.spent.clear() };
        for guard in peer.spent.drain(..) {
            // Refused only by a device that is gone, which breaks the connection by itself.
            if queue.post_recv(&self.sink, tag(index, peer.epoch), guard).is_ok() {
                peer.session.reposted();
            }
        }
    }

    /// Whether the send queue has room for a control frame, which is to be asked before the session gives one. A queue that is full is
    /// no reason to give a connection up: what it has under way ends, and then the peer is looked at again.
    pub(super) fn has_room_for_control(&self, index: usize, peer: &mut Peer<V>) -> bool {
        let full = peer.standing().is_some_and(|queue| queue.room() == 0);
        if full {
            self.starve(index, peer);
        }
        !full
    }

    /// Sends a control frame, for which there is [room](Shared::has_room_for_control).
    pub(super) fn send_control(&self, index: usize, peer: &mut Peer<V>, header: Header) {
        if self.post_control(peer, header).is_err() {
            self.broken(index, peer);
        }
    }

    fn post_control(&self, peer: &mut Peer<V>, header: Header) -> Result<()> {
        peer.told += 1;
        let Some(queue) = peer.standing() else { return Ok(()) };
        self.stats.borrow_mut().control_frames += 1;
        let frame = encode_header(&header, Channel(0));
        if self.max_inline() as usize >= HEADER_LEN {
            return post(queue, Local::Inline(&frame));
        }
        let block = self.rail(peer.rail).send_pool.alloc(0)?;
        block.write(0, &frame)?;
        post(queue, Local::Guarded(BufferGuard::Block { block, len: HEADER_LEN as u32 }))
    }

    /// Puts a peer on the list of those for whom something waits for room in the send queue.
    fn starve(&self, index: usize, peer: &mut Peer<V>) {
        if !std::mem::replace(&mut peer.starved, true) {
            self.to_do.starved.borrow_mut().push(index);
            self.to_do.wake_driver();
        }
    }

    /// Has the driver ask for the next message's memory once more some time from now.
    fn list_supply(&self, index: usize, peer: &mut Peer<V>) {
        if !std::mem::replace(&mut peer.supply_listed, true) {
            self.to_do.unsupplied.borrow_mut().push(index);
            self.to_do.wake_driver();
        }
    }

    /// Has the driver look some time from now whether the peer has acknowledged what it was sent.
    pub(super) fn list_probe(&self, index: usize, peer: &mut Peer<V>) {
        if peer.session.kept() == 0 || !peer.link.is_up() || self.config.probe_after == Nanos::MAX {
            return;
        }
        peer.probe_listed = true;
        peer.probe_from = peer.session.first_kept();
        self.to_do.unprobed.borrow_mut().push(index);
        self.to_do.wake_driver();
    }

    /// Leaves it to the driver that the queue pair in use broke.
    pub(super) fn broken(&self, index: usize, peer: &Peer<V>) {
        self.event(index, peer.epoch, Event::Broken);
    }
}

pub(super) fn post<V: Verbs>(queue: &QpHandle<V>, local: Local<'_, V>) -> Result<()> {
    queue.post_quiet(SendOp::Send { imm: None }, local)
}
