//! The responder: expected packets, execution, duplicates, answers (IBA 9.7.3 to 9.7.5, 9.9.3).

use super::packet::{Body, Data, Nak, Packet, Part, Reth, Syndrome};
use super::qp::{Outgoing, Qp};
use super::requester::{atomic_class, atomic_op};
use super::wqe::{Atomic, RecvWqe};
use super::{Hardware, Io, Target};
use crate::access::What;
use crate::fault;
use crate::log::Kind;
use crate::sanitizer::Side;
use std::collections::VecDeque;
use verbs_trait::{AccessFlags, AsyncEvent, Done, Psn, QpState, RnrTimer, ToRtr, WcError, WcOp};

/// The message that is being received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Message {
    /// None: the next packet begins one.
    #[default]
    None,
    /// A send, of which so many bytes are in the oldest receive request.
    Send { received: u32 },
    /// A write of so many bytes.
    Write { target: Option<Target>, len: u32, received: u32 },
}

/// A read or an atomic that was executed and may be asked for again (IBA 9.7.4.1.2, responder resources).
#[derive(Clone, Copy, Debug)]
struct Record {
    psn: Psn,
    packets: u32,
    /// An atomic's answer. A read is executed again.
    original: Option<u64>,
}

/// An answer that waits behind a read's.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Read { psn: Psn, sent: u32, packets: u32, source: Option<Target>, len: u32, msn: u32 },
    Atomic { psn: Psn, original: u64, msn: u32, op: fault::Op },
    Ack { psn: Psn, syndrome: Syndrome, msn: u32, op: fault::Op },
}

/// The receive queue and the responder's side of a reliable connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Responder {
    pub queue: VecDeque<RecvWqe>,
    /// The number of the next new packet.
    expected: Psn,
    /// Messages executed (IBA 9.7.7.1).
    msn: u32,
    /// A negative acknowledgement is out: everything is dropped until the expected packet comes.
    refused: bool,
    /// A fatal one waits behind a read's answer: nothing new is taken, and then it is the error state.
    closing: Option<AsyncEvent>,
    closed: bool,
    established: bool,
    message: Message,
    records: VecDeque<Record>,
    most_records: usize,
    answers: VecDeque<Answer>,
    pub rnr_timer: Option<RnrTimer>,
}

/// What became of a new request packet.
enum Outcome {
    /// Executed; an acknowledgement is due if one was asked for.
    Done,
    /// Executed, and the answer with its data is under way.
    Answered,
    /// There is no receive request.
    NotReady,
    /// It cannot be executed. With the status of the receive request that it was about to use, if any.
    Refuse(Nak, Option<WcError>),
}

use Outcome::{Answered, NotReady, Refuse};

const INVALID: Outcome = Refuse(Nak::InvalidRequest, None);
const NO_ACCESS: Outcome = Refuse(Nak::RemoteAccess, None);

impl Responder {
    pub fn start(&mut self, rtr: &ToRtr) {
        self.expected = rtr.rq_psn;
        self.most_records = usize::from(rtr.max_dest_rd_atomic);
        self.rnr_timer = Some(rtr.min_rnr_timer);
    }

    pub fn stop(&mut self) {
        self.message = Message::None;
        self.answers.clear();
        self.closing = None;
    }

    pub fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    fn reads_under_way(&self) -> usize {
        self.answers.iter().filter(|answer| matches!(answer, Answer::Read { .. })).count()
    }

    fn remember(&mut self, record: Record) {
        if self.records.len() >= self.most_records {
            self.records.pop_front();
        }
        self.records.push_back(record);
    }

    /// Queues an answer. An acknowledgement covers those before it.
    fn queue_answer(&mut self, answer: Answer) {
        let is_ack = |answer: &Answer| matches!(answer, Answer::Ack { syndrome: Syndrome::Ack, .. });
        match self.answers.back_mut() {
            Some(last) if is_ack(last) && is_ack(&answer) => *last = answer,
            _ => self.answers.push_back(answer),
        }
    }
}

impl Qp {
    /// A request packet has arrived.
    pub(super) fn on_request(&mut self, packet: &Packet, hw: &mut Hardware, io: &mut Io<'_>) {
        if self.rq.closed {
            return self.ignore(packet, "refused before", hw, io);
        }
        let ahead = packet.psn.since(self.rq.expected);
        if ahead < 0 {
            return self.on_duplicate(packet, hw, io);
        }
        if ahead > 0 {
            self.ignore(packet, "out of sequence", hw, io);
            if !self.rq.refused {
                self.rq.refused = true;
                let syndrome = Syndrome::Nak(Nak::Sequence);
                self.acknowledge_to_peer(self.rq.expected, syndrome, packet.op, io);
            }
            return;
        }
        self.rq.refused = false;
        self.note_established(hw, io);
        match self.execute(packet, hw, io) {
            Outcome::Done => {
                if packet.ack_req {
                    self.acknowledge_to_peer(packet.psn, Syndrome::Ack, packet.op, io);
                }
            }
            Outcome::Answered => {}
            Outcome::NotReady => {
                self.rq.refused = true;
                let timer = self.rq.rnr_timer.unwrap_or_else(|| RnrTimer::new(0).expect("a code"));
                self.acknowledge_to_peer(packet.psn, Syndrome::Rnr(timer), packet.op, io);
            }
            Outcome::Refuse(nak, status) => self.refuse(packet, nak, status, hw, io),
        }
    }

    /// The first packet on a queue pair that cannot send yet tells its program that the peer is there
    /// (IBA 11.6.3.2).
    fn note_established(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        if self.state == QpState::Rtr && !self.rq.established {
            self.rq.established = true;
            hw.completions.news.established = Some(self.num);
            hw.completions.raise(hw.node, self.ctx, AsyncEvent::CommEstablished(self.num), io);
        }
    }

    fn execute(&mut self, packet: &Packet, hw: &mut Hardware, io: &mut Io<'_>) -> Outcome {
        let outcome = match packet.body {
            Body::Send { part, imm } => self.execute_send(packet, part, imm, hw, io),
            Body::Write { part, to, imm } => self.execute_write(packet, part, to, imm, hw, io),
            Body::ReadRequest { from } => self.execute_read(packet, from, hw, io),
            Body::AtomicRequest { addr, rkey, atomic } => {
                self.execute_atomic(packet, (addr, rkey), atomic, hw, io)
            }
            _ => INVALID,
        };
        if matches!(outcome, Outcome::Done) {
            self.rq.expected = packet.psn.plus(1);
        }
        outcome
    }

    /// Whether a packet's length fits its place in a message (IBA 9.7.4.1.6).
    fn fits(&self, part: Part, len: u32) -> bool {
        match part {
            Part::First | Part::Middle => len == self.mtu,
            Part::Last => (1..=self.mtu).contains(&len),
            Part::Only => len <= self.mtu,
        }
    }

    fn execute_send(
        &mut self,
        packet: &Packet,
        part: Part,
        imm: Option<u32>,
        hw: &mut Hardware,
        io: &mut Io<'_>,
    ) -> Outcome {
        let received = match (part.begins(), self.rq.message) {
            (true, Message::None) => 0,
            (false, Message::Send { received }) => received,
            _ => return INVALID,
        };
        let len = packet.data.len();
        if !self.fits(part, len) {
            return INVALID;
        }
        let Some(wqe) = self.rq.queue.front() else { return NotReady };
        if let Some(status) = wqe.wrong {
            return Refuse(Nak::RemoteOperation, Some(status));
        }
        if u64::from(received) + u64::from(len) > wqe.len {
            return Refuse(Nak::InvalidRequest, Some(WcError::LocLen));
        }
        let touch = &mut Qp::touch(io.now, io.access);
        hw.scatter((self.num, wqe.wr_id), &wqe.data, received, packet.data.bytes(io.buffers), touch);
        if part != Part::Only {
            self.watch_scatter(Side::Responder, part, (wqe.wr_id, &wqe.data), hw, io);
        }
        let received = received + len;
        self.rq.message = Message::Send { received };
        if part.ends() {
            self.end_message(io);
            let done = Done { op: WcOp::Recv, len: received, imm, from: None };
            self.complete_recv(Ok(done), packet.solicited, hw, io);
        }
        Outcome::Done
    }

    fn end_message(&mut self, io: &mut Io<'_>) {
        self.rq.message = Message::None;
        self.rq.msn = self.rq.msn.wrapping_add(1) & 0xff_ffff;
        io.stats.messages += 1;
    }

    fn execute_write(
        &mut self,
        packet: &Packet,
        part: Part,
        to: Option<Reth>,
        imm: Option<u32>,
        hw: &mut Hardware,
        io: &mut Io<'_>,
    ) -> Outcome {
        let len = packet.data.len();
        let (target, whole, received) = match (part.begins(), self.rq.message, to) {
            (true, Message::None, Some(to)) => match self.begin_write(part, to, len, hw) {
                Ok(target) => (target, to.len, 0),
                Err(refused) => return refused,
            },
            (false, Message::Write { target, len, received }, None) => (target, len, received),
            _ => return INVALID,
        };
        let after = received.saturating_add(len);
        let complete = if part.ends() { after == whole } else { after < whole };
        if !self.fits(part, len) || !complete {
            return INVALID;
        }
        if part.ends() && imm.is_some() {
            // The receive request is looked for before anything of the last packet is executed.
            match self.rq.queue.front() {
                None => return NotReady,
                Some(wqe) => {
                    if let Some(status) = wqe.wrong {
                        return Refuse(Nak::RemoteOperation, Some(status));
                    }
                }
            }
        }
        if let Some(target) = target {
            // The region may have gone since the first packet.
            let Some(region) = hw.memory.get_mut(target.region) else { return NO_ACCESS };
            let at = target.at + received as usize;
            region.bytes.write(at, packet.data.bytes(io.buffers));
            let (id, who) = (region.id, self.as_server(hw.node, packet.from, WcOp::Write));
            io.access.note(io.now, who, id, at as u64, u64::from(len), What::Write);
            self.watch_write(part, packet.from, (id, target.at as u64, u64::from(whole)), hw, io);
        }
        self.rq.message = Message::Write { target, len: whole, received: after };
        if part.ends() {
            self.end_message(io);
            if let Some(imm) = imm {
                let done = Done { op: WcOp::RecvWriteImm, len: whole, imm: Some(imm), from: None };
                self.complete_recv(Ok(done), packet.solicited, hw, io);
            }
        }
        Outcome::Done
    }

    /// Checks the key for the whole message at its first packet (IBA 9.7.4.1.4). A message without bytes has
    /// no key to check.
    fn begin_write(&self, part: Part, to: Reth, len: u32, hw: &Hardware) -> Result<Option<Target>, Outcome> {
        if !self.access().contains(AccessFlags::REMOTE_WRITE) {
            return Err(INVALID);
        }
        if part == Part::First && to.len <= len {
            return Err(INVALID);
        }
        self.reach(to, AccessFlags::REMOTE_WRITE, hw)
    }

    fn reach(&self, to: Reth, right: AccessFlags, hw: &Hardware) -> Result<Option<Target>, Outcome> {
        if to.len == 0 {
            return Ok(None);
        }
        match hw.memory.check_remote(to.rkey, to.addr, to.len, self.new.pd, right) {
            Some(target) => Ok(Some(target)),
            None => Err(NO_ACCESS),
        }
    }

    fn execute_read(&mut self, packet: &Packet, from: Reth, hw: &mut Hardware, io: &mut Io<'_>) -> Outcome {
        let allowed = self.access().contains(AccessFlags::REMOTE_READ);
        let room = self.rq.reads_under_way() < self.rq.most_records;
        if !allowed || !room || self.rq.message != Message::None || from.len > super::MAX_MESSAGE {
            return INVALID;
        }
        let source = match self.reach(from, AccessFlags::REMOTE_READ, hw) {
            Ok(source) => source,
            Err(refused) => return refused,
        };
        let packets = from.len.div_ceil(self.mtu).max(1);
        self.rq.expected = packet.psn.plus(packets);
        self.end_message(io);
        self.rq.remember(Record { psn: packet.psn, packets, original: None });
        self.note_execution("read", packet, hw, io);
        let (psn, len, msn) = (packet.psn, from.len, self.rq.msn);
        self.rq.queue_answer(Answer::Read { psn, sent: 0, packets, source, len, msn });
        Answered
    }

    fn execute_atomic(
        &mut self,
        packet: &Packet,
        (addr, rkey): (u64, u32),
        atomic: Atomic,
        hw: &mut Hardware,
        io: &mut Io<'_>,
    ) -> Outcome {
        let allowed = self.access().contains(AccessFlags::REMOTE_ATOMIC);
        let aligned = addr.is_multiple_of(8);
        if !allowed || !aligned || self.rq.most_records == 0 || self.rq.message != Message::None {
            return INVALID;
        }
        let reth = Reth { addr, rkey, len: 8 };
        let Ok(Some(target)) = self.reach(reth, AccessFlags::REMOTE_ATOMIC, hw) else { return NO_ACCESS };
        let Some(region) = hw.memory.get_mut(target.region) else { return NO_ACCESS };
        let mut word = [0; 8];
        region.bytes.read(target.at, &mut word);
        let original = u64::from_ne_bytes(word);
        region.bytes.write(target.at, &atomic.apply(original).to_ne_bytes());
        let who = self.as_server(hw.node, packet.from, atomic_op(&atomic));
        io.access.note(io.now, who, region.id, target.at as u64, 8, What::Atomic);
        self.rq.expected = packet.psn.plus(1);
        self.end_message(io);
        self.rq.remember(Record { psn: packet.psn, packets: 1, original: Some(original) });
        self.note_execution("atomic", packet, hw, io);
        let (psn, msn, op) = (packet.psn, self.rq.msn, atomic_class(&atomic));
        self.answer(Answer::Atomic { psn, original, msn, op }, io);
        Answered
    }

    fn note_execution(&self, what: &str, packet: &Packet, hw: &Hardware, io: &mut Io<'_>) {
        io.log.line(
            io.now,
            hw.node,
            Kind::Execute,
            format_args!("{} {what} psn={}", self.num, packet.psn.get()),
        );
    }

    /// A packet that was executed before comes again (IBA 9.7.4.3, 9.7.5.1.5): an atomic is answered from its
    /// record, a read is executed again, anything else is acknowledged again and not executed.
    fn on_duplicate(&mut self, packet: &Packet, hw: &mut Hardware, io: &mut Io<'_>) {
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
        let packets = from.len.div_ceil(self.mtu).max(1);
        let (psn, end) = (packet.psn, packet.psn.plus(packets));
        let known =
            self.rq.records.iter().any(|r| {
                r.original.is_none() && psn.since(r.psn) >= 0 && end.since(r.psn.plus(r.packets)) <= 0
            });
        // Copies of one request must not pile up behind its answer.
        let room = self.rq.reads_under_way() < 2 * self.rq.most_records;
        let may = self.access().contains(AccessFlags::REMOTE_READ);
        let source = self.reach(from, AccessFlags::REMOTE_READ, hw);
        let (true, true, true, Ok(source)) = (known, room, may, source) else {
            self.watch_refusal(packet.from, WcOp::Read, hw, io);
            return self.ignore(packet, "no record of it", hw, io);
        };
        self.note_execution("read again", packet, hw, io);
        let (len, msn) = (from.len, self.rq.msn);
        self.rq.queue_answer(Answer::Read { psn, sent: 0, packets, source, len, msn });
    }

    /// Refuses a request for good: the peer is told, a receive request that it was about to use completes with
    /// its own error, and the queue pair goes to the error state (IBA 9.9.3.1, class C).
    fn refuse(
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

    fn acknowledge_to_peer(&mut self, psn: Psn, syndrome: Syndrome, op: fault::Op, io: &mut Io<'_>) {
        self.answer(Answer::Ack { psn, syndrome, msn: self.rq.msn, op }, io);
    }

    /// Sends an answer, behind those that wait.
    fn answer(&mut self, answer: Answer, io: &mut Io<'_>) {
        if self.rq.has_answers() {
            self.rq.queue_answer(answer);
        } else if let Some(packet) = plain_answer(&answer) {
            self.emit(packet, io);
        }
    }

    /// Sends the answers that wait, until the turn is over.
    pub(super) fn send_answers(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        while let Some(&answer) = self.rq.answers.front() {
            if self.budget == 0 {
                self.attend_at = io.now;
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
        let Some(Answer::Read { psn, sent, packets, source, len, msn }) = self.rq.answers.front_mut() else {
            return true;
        };
        let part = Part::of(*sent, *packets);
        let from = *sent * mtu;
        let n = (*len - from).min(mtu) as usize;
        let data = match source {
            None => Data::NONE,
            Some(source) => {
                let Some(region) = hw.memory.get(source.region) else {
                    return self.read_lost_its_region(hw, io);
                };
                let at = source.at + from as usize;
                io.access.note(io.now, who, region.id, at as u64, n as u64, What::Read);
                Data::new(n, io.buffers, |out| region.bytes.read(at, out))
            }
        };
        let (psn, body) = (psn.plus(*sent), Body::ReadResponse { part, msn: *msn });
        *sent += 1;
        let op = fault::Op::Read;
        self.emit(Outgoing { psn, ack_req: false, solicited: false, body, data, op }, io);
        part.ends()
    }

    /// The region was deregistered while it was being read: what remains is refused.
    #[cold]
    fn read_lost_its_region(&mut self, hw: &mut Hardware, io: &mut Io<'_>) -> bool {
        self.watch_refusal(self.peer.unwrap_or(self.me), WcOp::Read, hw, io);
        if let Some(&Answer::Read { psn, sent, msn, .. }) = self.rq.answers.front() {
            self.rq.answers.clear();
            let syndrome = Syndrome::Nak(Nak::RemoteAccess);
            let ack = Answer::Ack { psn: psn.plus(sent), syndrome, msn, op: fault::Op::Read };
            self.rq.answers.push_back(ack);
            self.rq.closed = true;
            self.rq.closing = Some(AsyncEvent::QpAccessError(self.num));
        }
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
        Answer::Read { .. } => return None,
        Answer::Atomic { psn, original, msn, op } => (psn, Body::AtomicResponse { original, msn }, op),
        Answer::Ack { psn, syndrome, msn, op } => (psn, Body::Ack { syndrome, msn }, op),
    };
    Some(Outgoing { psn, ack_req: false, solicited: false, body, data: Data::NONE, op })
}
