//! Finding out that a link is dead, beyond what ports and adapters tell: probes, and the notice that the address has changed.
//!
//! An adapter that repeats a request for seconds says nothing meanwhile, and a stream that only waits for the peer to use what it
//! advertised sends nothing that could be repeated. So where the options ask for it, an end that has something open with a peer looks
//! three times an interval whether anything came: it asks where nothing has, and takes the link for dead where nothing has again. What came
//! last may have come just behind a look, so the three parts together are the interval. Anything that
//! arrives is an answer, and so is what the peer's adapter has done. The question is to the adapter: the link is in doubt, and what the
//! peer's node says may wait behind a write of its own. A node that hangs has an adapter that answers: that one is given up by what is
//! heard of the node itself.

use super::Failover;
use super::endpoint::Failure;
use super::message::Message;
use super::service::{CHANNEL, Sdp, Shared};
use super::socket::Socket;
use crate::transport::Rank;
use weft_verbs::{Nanos, Verbs};

/// How often an interval of probes it is looked whether anything came: a link that dies just behind a look is asked at the second one from
/// there, and known to be dead at the third.
const LOOKS: u64 = 3;

impl<V: Verbs> Sdp<V> {
    /// Sees to it that a dead link to a peer is found by probes while something is open with it.
    pub(super) fn probe(&self, peer: Rank) {
        let Some(interval) = self.shared.options.probe else { return };
        if self.outbox(peer, |outbox| std::mem::replace(&mut outbox.probes, true)) {
            return;
        }
        // The peer acknowledges lazily: that must have its time.
        let look = (interval / LOOKS).max(self.shared.mesh.ack_delay() * 2);
        let sdp = self.clone();
        drop(self.shared.rt.spawn(async move {
            sdp.look_for_life(peer, look).await;
            sdp.outbox(peer, |outbox| outbox.probes = false);
        }));
    }

    async fn look_for_life(&self, peer: Rank, look: Nanos) {
        let Shared { rt, mesh, .. } = &*self.shared;
        let (mut answered, mut asked) = (mesh.answered(peer), false);
        while self.has_open(peer) && !mesh.is_closed() {
            rt.sleep(look).await;
            let now = mesh.answered(peer);
            if now != answered || mesh.rail(peer).is_none() {
                // Its link lives, or is known to be dead already.
                (answered, asked) = (now, false);
            } else if asked {
                self.count(|stats| &mut stats.found_dead);
                mesh.suspect(peer);
                asked = false;
            } else if self.has_open(peer) {
                self.count(|stats| &mut stats.probes);
                mesh.touch(peer);
                asked = true;
            }
        }
    }

    /// Asks a peer's node whether it is there, unless the messages that leave no room for the question ask already. Where there is no memory
    /// for it, its asker asks again.
    pub(super) fn ask(&self, peer: Rank) {
        let mut bytes = Vec::new();
        Message::Probe.encode(&mut bytes);
        if self.shared.mesh.send(peer, CHANNEL, &bytes).is_ok() {
            self.count(|stats| &mut stats.probes);
        }
    }

    /// Whether an end here waits for something of the peer: an acknowledgement, an answer, credits, the use of what it advertises, or
    /// that it goes on where its connection is being moved.
    pub(super) fn has_open(&self, peer: Rank) -> bool {
        let waits = self.shared.mesh.oldest_unacknowledged(peer).is_some() || self.is_suspended(peer);
        let table = self.shared.table.borrow();
        waits || table.with(peer).any(|socket| socket.end.borrow().is_open())
    }

    /// Sees to it that a peer of which nothing is heard is asked, as often as one of its streams wants that.
    pub(super) fn keep_alive(&self, peer: Rank, every: Option<Nanos>) {
        let Some(every) = every else { return };
        let before = self.outbox(peer, |outbox| outbox.keepalive);
        if before.is_some_and(|before| before <= every) {
            return;
        }
        self.outbox(peer, |outbox| outbox.keepalive = Some(every));
        if before.is_some() {
            return self.shared.sooner.notify();
        }
        drop(self.shared.rt.spawn(self.clone().look_for_silence(peer)));
    }

    /// Ends when no stream with the peer wants it to be asked.
    async fn look_for_silence(self, peer: Rank) {
        let mesh = &self.shared.mesh;
        while let Some(every) = self.keepalive(peer)
            && !mesh.is_closed()
        {
            self.outbox(peer, |outbox| outbox.keepalive = Some(every));
            let heard = self.heard(peer);
            let shorter = || self.outbox(peer, |outbox| outbox.keepalive != Some(every));
            if self.rests(every, shorter).await {
                continue;
            }
            if mesh.is_gone(peer) {
                self.is_no_more(peer);
            } else if self.heard(peer) == heard && self.keepalive(peer).is_some() {
                // What waits for its acknowledgement asks already.
                if mesh.oldest_unacknowledged(peer).is_none() {
                    self.ask(peer);
                }
                // Its link may be dead, and one who does not acknowledge is given up.
                self.probe(peer);
                self.patience(peer).into_iter().for_each(|give_up| self.watch(peer, give_up));
            }
        }
        self.outbox(peer, |outbox| outbox.keepalive = None);
    }

    /// How long nothing may be heard of a peer until it is asked: for the stream that wants that soonest.
    fn keepalive(&self, peer: Rank) -> Option<Nanos> {
        let table = self.shared.table.borrow();
        let with_peer = table.with(peer).filter(|socket| socket.lives());
        with_peer.filter_map(|socket| socket.options.keepalive).min()
    }

    /// A stream's application wants to know when its connection has gone over to another rail.
    pub(super) fn notice_moves(&self, failover: Failover) {
        if failover == Failover::Application {
            self.shared.notices.set(true);
        }
    }

    /// Where nodes have several rails, streams learn when their connection stands again: those of the peers whose connection does.
    pub(super) async fn follow_rails(self) {
        loop {
            let resumed = self.shared.mesh.resumed();
            if self.shared.mesh.is_closed() {
                return;
            }
            let peers: Vec<_> = self.shared.table.borrow().peers().collect();
            let stands = |peer: &Rank| {
                let ups = self.shared.mesh.ups(*peer);
                self.outbox(*peer, |outbox| std::mem::replace(&mut outbox.ups, ups)) != ups
            };
            let resumed_with: Vec<_> = peers.into_iter().filter(stands).collect();
            if self.shared.notices.get() {
                resumed_with.iter().for_each(|peer| self.tell_moved(*peer));
            }
            resumed_with.iter().for_each(|peer| self.on_rails(*peer));
            resumed.await;
        }
    }

    fn tell_moved(&self, peer: Rank) {
        let table = self.shared.table.borrow();
        let moved: Vec<_> = table.with(peer).filter(|socket| self.has_moved(socket)).cloned().collect();
        drop(table);
        for socket in moved {
            let (_, acknowledged) = socket.end.borrow().positions();
            if socket.end.borrow().failure().is_none() {
                self.count(|stats| &mut stats.address_changes);
                socket.end.borrow_mut().fail(Failure::AddressChanged { acknowledged }, true);
                socket.wake();
                self.flush(&socket);
            }
        }
    }

    /// Whether a stream's connection has gone over to another rail since it stands, and its user wants to be told. One that is still to be made
    /// has stood nowhere.
    pub(super) fn has_moved(&self, socket: &Socket<V>) -> bool {
        let moves = || self.shared.mesh.moves(socket.peer);
        let may = || socket.options.failover == Failover::Application && !socket.end.borrow().is_connecting();
        may() && moves() != socket.moves.get()
    }
}
