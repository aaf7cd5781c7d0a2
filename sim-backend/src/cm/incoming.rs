//! What a manager does with a message (IBA 12.9).

use super::message::{INVALID_ID, STALE};
use super::{Address, Body, CommId, Conn, Manager, Message, Offer, Part, State, Surroundings, public};
use crate::explore::AccessKind;
use weft_verbs::{CmEvent, Nanos, QpNum, RejectReason, Service};

impl Manager {
    /// A message has arrived at a port of this adapter.
    pub fn on_message(&mut self, now: Nanos, me: Address, message: Message, io: &mut dyn Surroundings) {
        let Message { from, local, remote, body } = message;
        if let Body::Req { service, offer, private } = body {
            return self.on_req(now, (me, from, local), service, offer, private, io);
        }
        let Some(id) = self.addressee(from, local, remote) else {
            return self.answer_for_nobody(me, from, (local, remote), &body, io);
        };
        match body {
            Body::Rep { offer, private } => self.on_rep(now, id, (from, local), offer, private, io),
            Body::Rtu => self.confirmed(now, id, io),
            Body::Rej { reason, private } => self.on_rej(now, id, reason, private),
            Body::Dreq => self.on_dreq(now, id, io),
            Body::Drep => self.on_drep(now, id),
            Body::Req { .. } => unreachable!("handled above"),
        }
    }

    /// The connection that a message is about: the one it names, if the peer is the same; or the one that
    /// this peer's request made, where the peer does not know our name for it yet.
    pub(super) fn addressee(
        &mut self,
        from: Address,
        local: CommId,
        remote: Option<CommId>,
    ) -> Option<CommId> {
        self.touched.push((remote.map_or(Part::Theirs(from.hca, local), Part::Ours), AccessKind::Read));
        let Some(id) = remote else {
            return self.by_request.get(&(from.hca, from.port, local)).copied();
        };
        let fits = |conn: &Conn| conn.peer == from && conn.remote.is_none_or(|known| known == local);
        self.conns.get(&id).filter(|conn| fits(conn)).map(|_| id)
    }

    /// A message about a connection that is unknown here. Its sender is helped to an end.
    fn answer_for_nobody(
        &mut self,
        me: Address,
        from: Address,
        (local, remote): (CommId, Option<CommId>),
        body: &Body,
        io: &mut dyn Surroundings,
    ) {
        let answer = match body {
            Body::Rep { .. } => Body::Rej { reason: INVALID_ID, private: vec![] },
            Body::Dreq => Body::Drep,
            _ => return,
        };
        // Messages are counted by connection.
        self.touched.push((remote.map_or(Part::Everything, Part::Ours), AccessKind::Write));
        // Under the name that the sender used for us, which it has to find fitting.
        let name = remote.unwrap_or(CommId(u32::MAX));
        io.send(from, Message { from: me, local: name, remote: Some(local), body: answer });
    }

    fn on_req(
        &mut self,
        now: Nanos,
        (me, from, local): (Address, Address, CommId),
        service: Service,
        offer: Offer,
        private: Vec<u8>,
        io: &mut dyn Surroundings,
    ) {
        self.touched.push((Part::Theirs(from.hca, local), AccessKind::Read));
        if let Some(&id) = self.by_request.get(&(from.hca, from.port, local)) {
            return self.on_copy_of_req(id, io);
        }
        self.end_forgotten(now, from, offer.qp);
        let Some(&owner) = self.listeners.get(&service) else {
            let body = Body::Rej { reason: RejectReason::NoListener, private: vec![] };
            // Stateless: a copy of the request gets the same answer, and a name is not spent on it.
            let name = CommId(u32::MAX);
            self.touched.push((Part::Everything, AccessKind::Write));
            io.send(from, Message { from: me, local: name, remote: Some(local), body });
            return;
        };
        let id = self.new_name();
        self.insert(id, owner, (me, from), State::ReqReceived { theirs: offer });
        let conn = self.conn(id);
        (conn.passive, conn.remote, conn.remote_qp) = (true, Some(local), Some(offer.qp));
        self.by_request.insert((from.hca, from.port, local), id);
        self.mark(id);
        self.raise(owner, CmEvent::Request { id: public(id), service, private });
    }

    fn on_copy_of_req(&mut self, id: CommId, io: &mut dyn Surroundings) {
        let conn = &self.conns[&id];
        let again = match &conn.state {
            // The acceptance was lost, perhaps. Its own timer runs on.
            State::RepSent { .. } => conn.unanswered.as_ref().map(|(body, _)| body.clone()),
            State::Over { reason, private } => Some(Body::Rej { reason: *reason, private: private.clone() }),
            // The application takes its time; or the copy was late.
            _ => None,
        };
        if let Some(body) = again {
            self.tell(id, body, io);
        }
    }

    /// The peer asks from a queue pair that we hold for connected: it has forgotten that connection.
    fn end_forgotten(&mut self, now: Nanos, peer: Address, qp: QpNum) {
        self.touched.push((Part::Standing(peer.hca, qp), AccessKind::Read));
        let Some(&id) = self.by_peer_qp.get(&(peer.hca, peer.port, qp)) else { return };
        let owner = self.conns[&id].owner;
        let was_known = self.conns[&id].is_known();
        self.bury(now, id, STALE, vec![]);
        if was_known {
            self.raise(owner, CmEvent::Disconnected { id: public(id) });
        }
    }

    fn on_rep(
        &mut self,
        now: Nanos,
        id: CommId,
        (from, local): (Address, CommId),
        offer: Offer,
        private: Vec<u8>,
        io: &mut dyn Surroundings,
    ) {
        match self.conns[&id].state {
            State::ReqSent { mut mine } => {
                self.end_forgotten(now, from, offer.qp);
                let conn = self.conn(id);
                (conn.remote, conn.remote_qp) = (Some(local), Some(offer.qp));
                let (owner, me) = (conn.owner, conn.me);
                mine.params.agree(&offer);
                let ready = io
                    .modify(mine.qp, &mine.to_rtr(me, from, &offer))
                    .and_then(|()| io.modify(mine.qp, &mine.to_rts()));
                if ready.is_err() {
                    // The application took the queue pair away meanwhile.
                    self.tell(id, Body::Rej { reason: RejectReason::Consumer, private: vec![] }, io);
                    self.remove(id);
                    return self.raise(owner, CmEvent::Unreachable { id: public(id) });
                }
                self.quiet(id);
                self.conn(id).state = State::Established;
                self.link(id);
                self.tell(id, Body::Rtu, io);
                self.raise(owner, CmEvent::Established { id: public(id), private });
            }
            // The confirmation was lost.
            State::Established if !self.conns[&id].passive => self.tell(id, Body::Rtu, io),
            _ => {}
        }
    }

    /// The peer has confirmed our acceptance, in one way or another.
    pub(super) fn confirmed(&mut self, now: Nanos, id: CommId, io: &mut dyn Surroundings) {
        let State::RepSent { mine } = self.conns[&id].state else { return };
        let owner = self.conns[&id].owner;
        if io.modify(mine.qp, &mine.to_rts()).is_ok() {
            self.quiet(id);
            self.conn(id).state = State::Established;
            self.link(id);
            return self.raise(owner, CmEvent::Established { id: public(id), private: vec![] });
        }
        // The application took the queue pair away meanwhile. The peer holds the connection for standing.
        self.conn(id).state = State::DreqSent;
        self.ask(now, id, Body::Dreq, io);
        self.raise(owner, CmEvent::Unreachable { id: public(id) });
    }

    fn on_rej(&mut self, now: Nanos, id: CommId, reason: RejectReason, private: Vec<u8>) {
        let owner = self.conns[&id].owner;
        match self.conns[&id].state {
            State::ReqSent { .. } => {
                self.remove(id);
                self.raise(owner, CmEvent::Rejected { id: public(id), reason, private });
            }
            State::RepSent { .. } => {
                self.bury(now, id, STALE, vec![]);
                self.raise(owner, CmEvent::Unreachable { id: public(id) });
            }
            // The peer gave the attempt up, without knowing how far it had come.
            State::ReqReceived { .. } | State::Established => {
                self.bury(now, id, STALE, vec![]);
                self.raise(owner, CmEvent::Disconnected { id: public(id) });
            }
            State::DreqSent => self.bury(now, id, STALE, vec![]),
            State::Resolved { .. } | State::Over { .. } => {}
        }
    }

    fn on_dreq(&mut self, now: Nanos, id: CommId, io: &mut dyn Surroundings) {
        self.tell(id, Body::Drep, io);
        let owner = self.conns[&id].owner;
        let event = match self.conns[&id].state {
            State::Resolved { .. } | State::Over { .. } => return,
            State::ReqSent { .. } => {
                CmEvent::Rejected { id: public(id), reason: RejectReason::Consumer, private: vec![] }
            }
            State::RepSent { .. } => CmEvent::Unreachable { id: public(id) },
            State::ReqReceived { .. } | State::Established => CmEvent::Disconnected { id: public(id) },
            // Both ended it at once.
            State::DreqSent => return self.bury(now, id, STALE, vec![]),
        };
        self.bury(now, id, STALE, vec![]);
        self.raise(owner, event);
    }

    fn on_drep(&mut self, now: Nanos, id: CommId) {
        if matches!(self.conns[&id].state, State::DreqSent) {
            self.bury(now, id, STALE, vec![]);
        }
    }
}
