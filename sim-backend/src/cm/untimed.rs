//! The manager where there is no time: whose timer may run out, and what a call of it has touched.
//!
//! Time-outs are by connection. One may come if a message about its connection was lost while that asked for something; what
//! was lost before or for another connection lets nobody wait.
//!
//! # What a call touches
//!
//! Connections have little to do with each other, so each is touched by itself, by the name that it has here and, if the
//! peer asked for it, by the peer's name, too: before the peer knows ours it uses its own. A call that looks a connection
//! up has read it even if there is none. One that changes it, or sends something about it (messages are counted by
//! connection), has written it. Besides that there are
//!
//! - the names that are given: a call that is given one has written them;
//! - which queue pairs of peers stand in connections: a request and an acceptance look for theirs, since that another
//!   connection still holds it means that the peer has forgotten that one;
//! - what applications are told: each telling is news for the node, whose order is that of all that the node does;
//! - listeners, and all the rest, which only calls change that write everything. Every call reads that.

use super::conn::Conn;
use super::{Address, CommId, Manager, Message, Surroundings};
use crate::explore::AccessKind;
use crate::hca::HcaId;
use weft_verbs::{Nanos, QpNum};

/// A part of a manager that a call can touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    Everything,
    /// The names that were given.
    Names,
    /// A connection, by our name.
    Ours(CommId),
    /// A connection that a peer asked for, by the peer's name.
    Theirs(HcaId, CommId),
    /// Whether a connection stands with this queue pair of a peer.
    Standing(HcaId, QpNum),
    /// The n-th loss for a connection, which lets its timer run out.
    Loss(CommId, u32),
}

/// A connection that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asking {
    /// Its name.
    pub id: CommId,
    /// Whether a message about it was lost meanwhile.
    pub lost: bool,
    /// How often one was lost.
    pub losses: u32,
    /// How often its timer ran out.
    pub fired: u32,
    /// What way the question goes: from which port to which.
    pub way: (Address, Address),
}

impl Manager {
    /// What was touched since this was asked last.
    pub(crate) fn take_touched(&mut self, out: &mut Vec<(Part, AccessKind)>) {
        out.append(&mut self.touched);
    }

    /// The connections that wait for an answer.
    pub(crate) fn asking(&self) -> impl Iterator<Item = Asking> {
        self.conns.iter().filter(|(_, conn)| conn.unanswered.is_some()).map(|(&id, conn)| {
            let lost = conn.untimed;
            Asking { id, lost: lost.lost, losses: lost.losses, fired: lost.fired, way: (conn.me, conn.peer) }
        })
    }

    /// The time-out of a connection that waits for an answer has come; the last one if nobody would hear the question
    /// again.
    pub(crate) fn time_out(&mut self, now: Nanos, id: CommId, last: bool, io: &mut dyn Surroundings) {
        let conn = self.conn(id);
        conn.untimed.fired += 1;
        conn.untimed.lost = false;
        let at = std::mem::replace(&mut conn.deadline, Nanos::MAX);
        if let (true, Some((_, left))) = (last, &mut conn.unanswered) {
            *left = 0;
        }
        self.timers.remove(&(at, id));
        self.run_out(now, id, io);
    }

    /// A message of ours does not arrive.
    pub(crate) fn sent_in_vain(&mut self, message: &Message) {
        self.touched.push((Part::Ours(message.local), AccessKind::Read));
        if self.conns.contains_key(&message.local) {
            self.miss(message.local);
        }
    }

    /// A message to us does not arrive.
    pub(crate) fn not_received(&mut self, message: &Message) {
        if let Some(id) = self.addressee(message.from, message.local, message.remote) {
            self.miss(id);
        }
    }

    /// A peer has lost its memory: whatever was asked of it is as good as lost.
    pub(crate) fn peer_forgot(&mut self, peer: HcaId) {
        let to_it = |(id, conn): (&CommId, &Conn)| (conn.peer.hca == peer).then_some(*id);
        let asked: Vec<CommId> = self.conns.iter().filter_map(to_it).collect();
        for id in asked {
            self.touched.push((Part::Ours(id), AccessKind::Write));
            self.miss(id);
        }
    }

    /// A message about a connection is lost: if it waits for an answer, it may ask again.
    pub(super) fn miss(&mut self, id: CommId) {
        let conn = self.conn(id);
        if conn.unanswered.is_some() && !std::mem::replace(&mut conn.untimed.lost, true) {
            conn.untimed.losses += 1;
            let losses = conn.untimed.losses;
            self.touched.push((Part::Loss(id, losses), AccessKind::Cause));
        }
    }

    /// A connection is changed, or something is said about it.
    pub(super) fn mark(&mut self, id: CommId) {
        self.touched.push((Part::Ours(id), AccessKind::Write));
        if let Some(conn) = self.conns.get(&id)
            && let (true, Some(remote)) = (conn.passive, conn.remote)
        {
            self.touched.push((Part::Theirs(conn.peer.hca, remote), AccessKind::Write));
        }
    }
}
