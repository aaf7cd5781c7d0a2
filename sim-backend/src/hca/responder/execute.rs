//! Execution of new requests: sends, writes, reads, atomics (IBA 9.7.4).

use super::Outcome::{self, Answered, NotReady, Refuse};
use super::{Answer, INVALID, Message, NO_ACCESS, Qp, ReadAnswer, Record};
use crate::access::What;
use crate::hca::packet::{Body, Nak, Packet, Part, Reth, packets_of};
use crate::hca::requester::{atomic_class, atomic_op};
use crate::hca::wqe::Atomic;
use crate::hca::{Hardware, Io, MAX_MESSAGE, Target};
use crate::log::Kind;
use crate::log::entry::{Executed, Execution};
use crate::sanitizer::Side;
use weft_verbs::{AccessFlags, Done, WcError, WcOp};

impl Qp {
    pub(super) fn execute(&mut self, packet: &Packet, hw: &mut Hardware, io: &mut Io<'_>) -> Outcome {
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
        if !self.has_receive(hw, io) {
            return NotReady;
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
        let (to, received) = match (part.begins(), self.rq.message, to) {
            (true, Message::None, Some(to)) if self.may_begin_write(part, to, len) => (to, 0),
            (false, Message::Write { to, received }, None) => (to, received),
            _ => return INVALID,
        };
        // The key is checked for the whole message at its first packet (IBA 9.7.4.1.4), and looked up with each: the region may
        // have gone since, or lost its rights.
        let target = match self.reach(to, AccessFlags::REMOTE_WRITE, hw) {
            Ok(target) => target,
            Err(refused) => return refused,
        };
        let whole = to.len;
        let after = received.saturating_add(len);
        let complete = if part.ends() { after == whole } else { after < whole };
        if !self.fits(part, len) || !complete {
            return INVALID;
        }
        if part.ends() && imm.is_some() {
            // The receive request is looked for before anything of the last packet is executed.
            if !self.has_receive(hw, io) {
                return NotReady;
            }
            if let Some(status) = self.rq.queue.front().and_then(|wqe| wqe.wrong) {
                return Refuse(Nak::RemoteOperation, Some(status));
            }
        }
        if let Some(target) = target {
            let Some(region) = hw.memory.get_mut(target.region) else { return NO_ACCESS };
            let at = target.at + received as usize;
            if hw.late.on {
                region.hide(&mut hw.late, self.num, target.region, at, len as usize);
            }
            region.bytes.write(at, packet.data.bytes(io.buffers));
            let (id, who) = (region.id, self.as_server(hw.node, packet.from, WcOp::Write));
            io.access.note(io.now, who, id, at as u64, u64::from(len), What::Write);
            self.watch_write(part, packet.from, (id, target.at as u64, u64::from(whole)), hw, io);
        }
        self.rq.message = Message::Write { to, received: after };
        if part.ends() {
            self.end_message(io);
            if let Some(target) = target {
                self.note_write(target, whole, packet, hw, io);
            }
            if let Some(imm) = imm {
                let done = Done { op: WcOp::RecvWriteImm, len: whole, imm: Some(imm), from: None };
                self.complete_recv(Ok(done), packet.solicited, hw, io);
            }
        }
        Outcome::Done
    }

    /// Whether the queue pair takes writes, and this one is as long as its first packet says.
    fn may_begin_write(&self, part: Part, to: Reth, len: u32) -> bool {
        self.access().contains(AccessFlags::REMOTE_WRITE) && (part != Part::First || to.len > len)
    }

    /// The memory that a request names, if it may do that to it now. A message without bytes has no key to check.
    pub(super) fn reach(
        &self,
        to: Reth,
        right: AccessFlags,
        hw: &Hardware,
    ) -> Result<Option<Target>, Outcome> {
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
        // Those that are answered once more do not count: their requester may be done with them, and ask for the next one.
        let room = self.rq.reads_under_way().filter(|read| !read.again).count() < self.rq.most_records;
        if !allowed || !room || self.rq.message != Message::None || from.len > MAX_MESSAGE {
            return INVALID;
        }
        if let Err(refused) = self.reach(from, AccessFlags::REMOTE_READ, hw) {
            return refused;
        }
        let packets = packets_of(from.len, self.mtu);
        self.rq.expected = packet.psn.plus(packets);
        self.end_message(io);
        self.rq.remember(Record { psn: packet.psn, packets, original: None });
        self.note_execution(from.addr, Execution::Read { len: from.len }, packet, hw, io);
        let (psn, msn) = (packet.psn, self.rq.msn);
        let read = ReadAnswer { psn, sent: 0, packets, from, msn, again: false };
        self.rq.queue_answer(Answer::Read(read));
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
        let now = atomic.apply(original);
        region.bytes.write(target.at, &now.to_ne_bytes());
        hw.late.reveal(self.num);
        let who = self.as_server(hw.node, packet.from, atomic_op(&atomic));
        io.access.note_atomic(io.now, who, region.id, target.at as u64, now != original);
        self.rq.expected = packet.psn.plus(1);
        self.end_message(io);
        self.rq.remember(Record { psn: packet.psn, packets: 1, original: Some(original) });
        self.note_execution(addr, Execution::Atomic { op: atomic, found: original }, packet, hw, io);
        let (psn, msn, op) = (packet.psn, self.rq.msn, atomic_class(&atomic));
        self.answer(Answer::Atomic { psn, original, msn, op }, io);
        Answered
    }

    pub(super) fn note_execution(
        &self,
        at: u64,
        what: Execution,
        packet: &Packet,
        hw: &Hardware,
        io: &mut Io<'_>,
    ) {
        let executed = Executed { qp: self.num, psn: packet.psn.get(), at, what };
        io.log.entry(io.now, hw.node, Kind::Execute, &executed);
    }

    /// A write is complete. Says what is in a word that was written whole.
    fn note_write(&self, target: Target, len: u32, packet: &Packet, hw: &Hardware, io: &mut Io<'_>) {
        let Some(region) = hw.memory.get(target.region).filter(|_| io.log.is_on()) else { return };
        let value = (len == 8).then(|| {
            let mut word = [0; 8];
            region.bytes.read(target.at, &mut word);
            u64::from_ne_bytes(word)
        });
        let at = region.addr + target.at as u64;
        self.note_execution(at, Execution::Write { len, value }, packet, hw, io);
    }
}
