//! Planned failover: a connection goes over to another rail because somebody wants it to, and nothing is lost on the way.
//!
//! The rail is tried first, while everything goes on: one that does not answer stops nobody.
//!
//! The thesis's socket duplication, as far as it concerns a link: an end says `SuspComm`, and starts nothing more; the other end lets
//! what is in process end, and answers `SuspCommAck`. Messages arrive in order, so whatever was sent before that has arrived, too. Then
//! the connection moves, and `AckRecv` says that it goes on. Both ends keep their processes here, so unread bytes and private
//! buffers stay where they are and need not be handed over.
//!
//! An unplanned failover does not come by here: a dead link carries no `SuspComm`, and what is in process on it never ends (the thesis, 5.3).

use super::message::Message;
use super::service::{Sdp, Shared};
use super::socket::Socket;
use super::{SdpError, SdpStats};
use crate::transport::Rank;
use weft_verbs::{Nanos, Verbs};

/// How long a connection that was to move, and that has come back, stays where it is before the rail is tried again.
const BEFORE_A_RAIL_IS_TRIED_AGAIN: Nanos = Nanos::from_millis(10);

/// A peer with which nothing is started now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suspended {
    /// Where the connection is to go.
    rail: u8,
    /// This end asked for it; otherwise the peer did.
    own: bool,
    /// The peer was told so.
    said: bool,
    /// The peer has answered.
    answered: bool,
    /// The rail that was preferred before, and is again once this is over. None if the connection stays where it has moved.
    home: Option<u8>,
    /// Which of this end's suspensions of the peer it is: what is said of one that is over is of no other.
    number: u32,
}

/// What a peer has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// Where the connection is to go.
    rail: u8,
    /// In which of the peer's suspensions.
    number: u32,
}

impl<V: Verbs> Sdp<V> {
    /// Moves the connection with a peer to another rail, now and for good: it comes back there from any other rail. Streams see a
    /// pause. Returns the rail: another one, if the peer asked for another one at the same time. A move that was begun goes on if the
    /// call is dropped.
    ///
    /// # Errors
    ///
    /// There is no such rail; or it did not answer within the time-out for moves, and the connection stays where it is. If it was on its way
    /// by then it may come to stand there all the same, and comes back to the rail of before once it is used behind the hold-off, if
    /// there is one.
    pub async fn move_to(&self, peer: Rank, rail: u8) -> Result<u8, SdpError> {
        let shared = &self.shared;
        if rail >= shared.mesh.rails() {
            return Err(SdpError::Options {
                field: "rail",
                value: rail.into(),
                must: "one that all nodes have",
            });
        }
        if peer.index() >= shared.mesh.size() as usize || peer == shared.mesh.me() {
            return Err(SdpError::NoSuchPeer(peer));
        }
        // Streams are held up until a move ends: nobody who stops waiting for it leaves them so.
        let sdp = self.clone();
        let moves = shared.rt.spawn(async move { sdp.moves(peer, rail).await });
        moves.await.unwrap_or(Err(SdpError::Closed))
    }

    async fn moves(self, peer: Rank, rail: u8) -> Result<u8, SdpError> {
        let shared = &self.shared;
        self.within(shared.options.move_timeout, self.answers(peer, rail)).await?;
        shared.moving.until(|| !self.is_suspended(peer) || self.is_closed()).await;
        if self.is_closed() {
            return Err(SdpError::Closed);
        }
        let number = self.suspend(peer, rail, true);
        let end = self.within(shared.options.move_timeout, self.try_move(peer, number)).await;
        // Whatever became of it, both ends go on. Who waits for the move does not wait until that can be said.
        drop(shared.rt.spawn(self.clone().goes_on(peer, number, end.ok())));
        if let Ok(rail) = end {
            self.stays(peer, rail);
            shared.stats.borrow_mut().moves += 1;
        }
        end
    }

    /// Says that both ends go on after this end's suspension of that number, and on which rail the connection stays if it has moved. Goes on
    /// then: what is said of the next suspension comes behind it. Where there is another one already, that one's end says it.
    async fn goes_on(self, peer: Rank, number: u32, rail: Option<u8>) {
        if self.numbered(peer).is_some_and(|now| now != number) {
            return;
        }
        let mut bytes = Vec::new();
        Message::AckRecv { rail }.encode(&mut bytes);
        self.say(peer, &bytes).await;
        if self.in_suspension(peer, number).is_some() {
            let asked = self.outbox(peer, |outbox| outbox.asked.take());
            self.follow_on(peer, asked);
        }
    }

    /// Whether the peer answers over a rail. While no connection stands there is none that could be stopped for nothing.
    async fn answers(&self, peer: Rank, rail: u8) -> Result<(), SdpError> {
        let mesh = &self.shared.mesh;
        match mesh.rail(peer).is_none_or(|at| at == rail) || mesh.answers(peer, rail).await {
            true => Ok(()),
            false => Err(SdpError::TimedOut),
        }
    }

    async fn try_move(&self, peer: Rank, number: u32) -> Result<u8, SdpError> {
        let shared = &self.shared;
        self.quiet(peer).await;
        let Some(Suspended { rail, .. }) = self.in_suspension(peer, number) else {
            return Err(SdpError::Reset);
        };
        // It is not said any more once this move is given up: the peer would wait for the word that it goes on, which came before.
        let mut bytes = Vec::new();
        Message::SuspComm { rail, number }.encode(&mut bytes);
        self.say(peer, &bytes).await;
        self.outbox(peer, |outbox| {
            let own = |suspended: &&mut Suspended| suspended.number == number;
            outbox.suspended.iter_mut().filter(own).for_each(|own| own.said = true);
        });
        self.watch(peer, shared.options.give_up);
        let answered = || self.in_suspension(peer, number).is_none_or(|suspended| suspended.answered);
        shared.moving.until(|| answered() || self.is_closed()).await;
        let Some(Suspended { rail, .. }) = self.in_suspension(peer, number) else {
            return Err(SdpError::Reset);
        };
        self.goes_to(peer, rail, number).await
    }

    /// The connection goes to a rail, for as long as this end's suspension of that number is not over. The rail may be lost on the way, or known to
    /// have no link as the connection sets out: then that stands where it did, and goes there once the rail answers.
    async fn goes_to(&self, peer: Rank, rail: u8, number: u32) -> Result<u8, SdpError> {
        let Shared { mesh, rt, moving, .. } = &*self.shared;
        // Neither end says anything before the move has ended, so nothing else asks for a connection that is lost on the way.
        let _wanted = mesh.wants(peer);
        let is_over = || self.in_suspension(peer, number).is_none();
        self.sets_out(peer, rail).await;
        loop {
            let resumed = mesh.resumed();
            if mesh.is_closed() {
                return Err(SdpError::Closed);
            }
            if is_over() {
                return Err(SdpError::Reset);
            }
            match mesh.rail(peer) {
                Some(at) if at == rail => return Ok(rail),
                Some(_) => {
                    let answers = mesh.answers(peer, rail).await;
                    if !answers {
                        rt.sleep(BEFORE_A_RAIL_IS_TRIED_AGAIN).await;
                    } else if !is_over() {
                        self.sets_out(peer, rail).await;
                    }
                }
                None => drop(moving.unless(is_over, resumed).await),
            }
        }
    }

    /// Has the connection go to a rail, and lets the transport begin with that.
    async fn sets_out(&self, peer: Rank, rail: u8) {
        self.shared.mesh.move_to(peer, rail);
        self.shared.rt.yield_now().await;
    }

    /// The peer asks, in a suspension of its own of that number. Of two that ask at once the lower rank's wish counts. This end may give its
    /// own wish up before it has answered: the peer's stands all the same.
    pub(super) fn on_susp_comm(&self, peer: Rank, rail: u8, number: u32) {
        let mesh = &self.shared.mesh;
        let asks = self.suspended(peer).is_some_and(|suspended| suspended.own);
        if asks {
            self.outbox(peer, |outbox| outbox.asked = Some(Asked { rail, number }));
        }
        let follows = rail < mesh.rails() && (!asks || peer < mesh.me());
        if follows {
            self.suspend(peer, rail, false);
        }
        let (sdp, of) = (self.clone(), self.numbered(peer));
        drop(self.shared.rt.spawn(async move {
            sdp.quiet(peer).await;
            // The peer may have given that up long ago.
            if sdp.numbered(peer) != of {
                return;
            }
            if follows {
                sdp.shared.mesh.prefer(peer, rail);
            }
            sdp.answer(peer, &Message::SuspCommAck { number });
            sdp.watch(peer, sdp.shared.options.give_up);
        }));
    }

    /// The peer starts nothing any more, and nothing of it is in process, as this end has asked in its suspension of that number.
    pub(super) fn on_susp_comm_ack(&self, peer: Rank, number: u32) {
        self.outbox(peer, |outbox| {
            let own = |suspended: &&mut Suspended| suspended.own && suspended.number == number;
            if let Some(own) = outbox.suspended.as_mut().filter(own) {
                own.answered = true;
            }
        });
        self.shared.moving.notify();
    }

    /// Nothing is started with a peer from now on. A suspension that there is already goes on, toward that rail. Which one it is.
    fn suspend(&self, peer: Rank, rail: u8, own: bool) -> u32 {
        self.outbox(peer, |outbox| match &mut outbox.suspended {
            Some(suspended) => {
                suspended.rail = rail;
                suspended.number
            }
            None => {
                outbox.suspensions = outbox.suspensions.wrapping_add(1);
                let (home, number) = (Some(self.shared.mesh.preferred(peer)), outbox.suspensions);
                let (said, answered) = (false, false);
                outbox.suspended = Some(Suspended { rail, own, said, answered, home, number });
                number
            }
        })
    }

    /// The peer goes on, and has moved the connection if it names a rail.
    pub(super) fn on_ack_recv(&self, peer: Rank, rail: Option<u8>) {
        if let Some(rail) = rail {
            self.stays(peer, rail);
        }
        self.outbox(peer, |outbox| outbox.asked = None);
        if self.suspended(peer).is_some_and(|suspended| !suspended.own) {
            self.go_on(peer);
        }
    }

    /// The connection has moved to a rail, and comes back there from any other one.
    fn stays(&self, peer: Rank, rail: u8) {
        self.outbox(peer, |outbox| outbox.suspended.iter_mut().for_each(|suspended| suspended.home = None));
        self.shared.mesh.prefer(peer, rail);
    }

    /// What was not started is, whatever the suspension has led to. A connection that has not moved comes back to where it did before.
    pub(super) fn go_on(&self, peer: Rank) {
        self.follow_on(peer, None);
    }

    /// The same, unless the peer has asked meanwhile: then nothing is started until it says that it goes on. A peer whose wish gives way to this
    /// end's goes where it was told.
    fn follow_on(&self, peer: Rank, asked: Option<Asked>) {
        let ended = self.outbox(peer, |outbox| outbox.suspended.take());
        if let Some(home) = ended.and_then(|ended| ended.home) {
            self.shared.mesh.prefer(peer, home);
        }
        if let Some(Asked { rail, number }) = asked {
            let told = ended.filter(|ended| ended.said && self.shared.mesh.me() < peer);
            self.on_susp_comm(peer, told.map_or(rail, |told| told.rail), number);
        }
        if ended.is_some() {
            self.shared.moving.notify();
            self.each_of(peer, |_| ());
        }
    }

    /// With how many peers nothing is started now, since connections are being moved.
    pub fn held_up(&self) -> u64 {
        self.shared.outboxes.borrow().values().filter(|outbox| outbox.suspended.is_some()).count() as u64
    }

    fn suspended(&self, peer: Rank) -> Option<Suspended> {
        self.shared.outboxes.borrow().get(&peer)?.suspended
    }

    /// Which suspension of a peer there is.
    fn numbered(&self, peer: Rank) -> Option<u32> {
        self.suspended(peer).map(|suspended| suspended.number)
    }

    /// The suspension of a peer of that number, unless it is over: another one may have begun behind it.
    fn in_suspension(&self, peer: Rank, number: u32) -> Option<Suspended> {
        self.suspended(peer).filter(|suspended| suspended.number == number)
    }

    /// Whether nothing is to be started with a peer now.
    pub(super) fn is_suspended(&self, peer: Rank) -> bool {
        self.suspended(peer).is_some()
    }

    /// Waits until no one-sided operation of streams with a peer is under way.
    async fn quiet(&self, peer: Rank) {
        let under_way = || self.outbox(peer, |outbox| outbox.under_way);
        self.shared.moving.until(|| under_way() == 0 || self.is_closed()).await;
    }

    /// A one-sided operation of a stream begins.
    pub(super) fn begins(&self, socket: &Socket<V>) {
        self.outbox(socket.peer, |outbox| outbox.under_way += 1);
        // It ends once the peer's adapter answers or a connection stands again, and one that is gone sees to neither.
        self.watch(socket.peer, socket.options.give_up);
    }

    /// It has ended.
    pub(super) fn has_ended(&self, peer: Rank) {
        let waits = self.outbox(peer, |outbox| {
            outbox.under_way -= 1;
            outbox.suspended.is_some()
        });
        if waits {
            self.shared.moving.notify();
        }
    }

    /// Counts something.
    pub(super) fn count(&self, count: impl FnOnce(&mut SdpStats) -> &mut u64) {
        *count(&mut self.shared.stats.borrow_mut()) += 1;
    }
}
