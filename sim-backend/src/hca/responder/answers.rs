//! What a responder answers, and in which order: duplicates, refusals, acknowledgements, a read's data
//! (IBA 9.7.4.3, 9.7.5, 9.9.3).

use super::{Answer, Qp, ReadAnswer};
use crate::access::What;
use crate::fault;
use crate::hca::packet::{Body, Data, Nak, Packet, Part, Reth, Syndrome, packets_of};
use crate::hca::qp::Outgoing;
use crate::hca::requester::{atomic_class, atomic_op};
use crate::hca::{Hardware, Io};
use crate::log::Kind;
use crate::log::entry::Execution;
use weft_verbs::{AccessFlags, AsyncEvent, Psn, QpState, WcError, WcOp};

impl Qp {
    /// A packet that was executed before comes again (IBA 9.7.4.3, 9.7.5.1.5): an atomic is answered from its
    /// record, a read is executed again, anything else is acknowledged again and not executed.
    pub(super) fn on_duplicate(&mut self, packet: &Packet, hw: &mut Hardware, io: &mut Io<'_>) {
        let psn = packet.psn;
        match packet.body {
            Body::ReadRequest { from } => self.repeat_read(packet, from, hw, io),
            Body::AtomicRequest { atomic, .. } => {
                let original = self.rq.records.iter().rev().find(|r| r.psn == psn).and_then(|r| r.original);
                let Some(original) = original else { return self.ignore(packet, "no record of it", hw, io) };
                io.log.line(
                    io.now,
                    hw.node,
                    Kind::Ignore,
                    format_args!("{} replay psn={}", self.num, psn.get()),
                );
                let (msn, op) = (self.rq.msn, atomic_class(&atomic));
                self.answer(Answer::Atomic { psn, original, msn, op }, io);
            }
            _ => {
                self.ignore(packet, "a duplicate", hw, io);
                if packet.ack_req {
                    let newest = self.rq.expected.plus(u32::MAX);
                    self.acknowledge_to_peer(newest, Syndrome::Ack, packet.op, io);
                }
            }
        }
    }

    fn repeat_read(&mut self, packet: &Packet, from: Reth, hw: &mut Hardware, io: &mut Io<'_>) {
        let packets = packets_of(from.len, self.mtu);
        let (psn, end) = (packet.psn, packet.psn.plus(packets));
        let known =
            self.rq.records.iter().any(|r| {
                r.original.is_none() && psn.since(r.psn) >= 0 && end.since(r.psn.plus(r.packets)) <= 0
            });
        // Copies of one request must not pile up behind its answer.
        let room = self.rq.reads_under_way().count() < 2 * self.rq.most_records;
        let may = self.access().contains(AccessFlags::REMOTE_READ);
        let source = self.reach(from, AccessFlags::REMOTE_READ, hw);
        let (true, true, true, Ok(_)) = (known, room, may, source) else {
            self.watch_refusal(packet.from, WcOp::Read, hw, io);
            return self.ignore(packet, "no record of it", hw, io);
        };
        self.note_execution(from.addr, Execution::ReadAgain { len: from.len }, packet, hw, io);
        let read = ReadAnswer { psn, sent: 0, packets, from, msn: self.rq.msn, again: true };
        self.rq.queue_answer(Answer::Read(read));
    }

    /// Refuses a request for good: the peer is told, a receive request that it was about to use completes with
    /// its own error, and the queue pair goes to the error state (IBA 9.9.3.1, class C).
    pub(super) fn refuse(
        &mut self,
        packet: &Packet,
        nak: Nak,
        status: Option<WcError>,
        hw: &mut Hardware,
        io: &mut Io<'_>,
    ) {
        self.ignore(packet, "refused", hw, io);
        if nak == Nak::RemoteAccess {
            self.watch_refusal(packet.from, request_op(&packet.body), hw, io);
        }
        let event = match (status, nak) {
            (Some(_), _) => None,
            (None, Nak::RemoteAccess) => Some(AsyncEvent::QpAccessError(self.num)),
            (None, _) => Some(AsyncEvent::QpRequestError(self.num)),
        };
        if let Some(status) = status {
            self.complete_recv(Err(status), false, hw, io);
        }
        self.rq.closed = true;
        self.rq.closing = event;
        self.acknowledge_to_peer(self.rq.expected, Syndrome::Nak(nak), packet.op, io);
        if !self.rq.has_answers() {
            self.close(hw, io);
        }
    }

    /// The refusal is out.
    fn close(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        if let Some(event) = self.rq.closing.take() {
            hw.completions.raise(hw.node, self.ctx, event, io);
        }
        self.enter_error(hw, io);
    }

    pub(super) fn acknowledge_to_peer(
        &mut self,
        psn: Psn,
        syndrome: Syndrome,
        op: fault::Op,
        io: &mut Io<'_>,
    ) {
        self.answer(Answer::Ack { psn, syndrome, msn: self.rq.msn, op }, io);
    }

    /// Sends an answer, behind those that wait.
    pub(super) fn answer(&mut self, answer: Answer, io: &mut Io<'_>) {
        if self.rq.has_answers() {
            self.rq.queue_answer(answer);
        } else if let Some(packet) = plain_answer(&answer) {
            self.emit(packet, io);
        }
    }

    /// Sends the answers that wait, until the turn is over.
    pub(in crate::hca) fn send_answers(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        while let Some(&answer) = self.rq.answers.front() {
            if self.budget == 0 {
                self.service_at = io.now;
                return;
            }
            let finished = match plain_answer(&answer) {
                Some(packet) => {
                    self.emit(packet, io);
                    true
                }
                None => self.send_read_packet(hw, io),
            };
            if finished {
                self.rq.answers.pop_front();
            }
        }
        if self.rq.closed && self.state != QpState::Err {
            self.close(hw, io);
        }
    }

    /// Sends the next packet of the read's answer at the head. The memory is read now: a long read is no
    /// snapshot. Says whether it was the last.
    fn send_read_packet(&mut self, hw: &mut Hardware, io: &mut Io<'_>) -> bool {
        let mtu = self.mtu;
        let who = self.as_server(hw.node, self.peer.unwrap_or(self.me), WcOp::Read);
        let Some(&Answer::Read(read)) = self.rq.answers.front() else { return true };
        let ReadAnswer { psn, sent, packets, from, msn, again: _ } = read;
        let Ok(source) = self.reach(from, AccessFlags::REMOTE_READ, hw) else {
            return self.read_lost_its_region(hw, io);
        };
        let part = Part::of(sent, packets);
        let skip = sent * mtu;
        let n = (from.len - skip).min(mtu) as usize;
        let region =
            source.and_then(|source| Some((hw.memory.get(source.region)?, source.at + skip as usize)));
        let data = match region {
            None => Data::NONE,
            Some((region, at)) => {
                io.access.note(io.now, who, region.id, at as u64, n as u64, What::Read);
                Data::new(n, io.buffers, |out| region.bytes.read(at, out))
            }
        };
        let (psn, body) = (psn.plus(sent), Body::ReadResponse { part, msn });
        if let Some(Answer::Read(read)) = self.rq.answers.front_mut() {
            read.sent += 1;
        }
        let op = fault::Op::Read;
        self.emit(Outgoing { psn, ack_req: false, solicited: false, body, data, op }, io);
        part.ends()
    }

    /// The region was deregistered while it was being read: what remains is refused. Of what was asked for again it is left out, as
    /// such a request is ignored that comes now: who has the first answer may have let its owner go on.
    #[cold]
    fn read_lost_its_region(&mut self, hw: &mut Hardware, io: &mut Io<'_>) -> bool {
        let Some(&Answer::Read(ReadAnswer { psn, sent, msn, again: false, .. })) = self.rq.answers.front()
        else {
            return true;
        };
        self.watch_refusal(self.peer.unwrap_or(self.me), WcOp::Read, hw, io);
        self.rq.answers.clear();
        let syndrome = Syndrome::Nak(Nak::RemoteAccess);
        let ack = Answer::Ack { psn: psn.plus(sent), syndrome, msn, op: fault::Op::Read };
        self.rq.answers.push_back(ack);
        self.rq.closed = true;
        self.rq.closing = Some(AsyncEvent::QpAccessError(self.num));
        false
    }
}

/// What a request packet belongs to.
fn request_op(body: &Body) -> WcOp {
    match body {
        Body::Write { .. } => WcOp::Write,
        Body::ReadRequest { .. } => WcOp::Read,
        Body::AtomicRequest { atomic, .. } => atomic_op(atomic),
        _ => WcOp::Send,
    }
}

/// The packet of an answer that needs no memory.
fn plain_answer(answer: &Answer) -> Option<Outgoing> {
    let (psn, body, op) = match *answer {
        Answer::Read(_) => return None,
        Answer::Atomic { psn, original, msn, op } => (psn, Body::AtomicResponse { original, msn }, op),
        Answer::Ack { psn, syndrome, msn, op } => (psn, Body::Ack { syndrome, msn }, op),
    };
    Some(Outgoing { psn, ack_req: false, solicited: false, body, data: Data::NONE, op })
}
