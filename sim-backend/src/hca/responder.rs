//! The responder: expected packets, execution, duplicates, answers (IBA 9.7.3 to 9.7.5, 9.9.3).

mod answers;
mod canonical;
mod execute;

use super::packet::{Nak, Packet, Reth, Syndrome};
use super::qp::Qp;
use super::wqe::RecvWqe;
use super::{Hardware, Io};
use crate::fault;
use crate::in_place::clone_in_place;
use std::collections::VecDeque;
use weft_verbs::{AsyncEvent, Psn, QpState, RnrTimer, ToRtr, WcError};

/// The message that is being received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Message {
    /// None: the next packet begins one.
    #[default]
    None,
    /// A send, of which so many bytes are in the oldest receive request.
    Send { received: u32 },
    /// A write, of which so many bytes are there. Whom it is aimed at is looked up for each packet: the region may go amid the message.
    Write { to: Reth, received: u32 },
}

/// A read or an atomic that was executed and may be asked for again (IBA 9.7.4.1.2, responder resources).
#[derive(Clone, Copy, Debug, Hash)]
struct Record {
    psn: Psn,
    packets: u32,
    /// An atomic's answer. A read is executed again.
    original: Option<u64>,
}

/// An answer that waits behind a read's.
#[derive(Clone, Copy, Debug, Hash)]
enum Answer {
    Read(ReadAnswer),
    Atomic { psn: Psn, original: u64, msn: u32, op: fault::Op },
    Ack { psn: Psn, syndrome: Syndrome, msn: u32, op: fault::Op },
}

/// The answer to a read, of which some packets are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ReadAnswer {
    psn: Psn,
    sent: u32,
    packets: u32,
    /// Looked up for each packet, as of a write.
    from: Reth,
    msn: u32,
    /// It was asked for again. Who asked may have the first answer by now, and be done.
    again: bool,
}

/// The receive queue and the responder's side of a reliable connection.
#[derive(Debug, Default, Hash)]
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

clone_in_place! { Responder { queue, expected, msn, refused, closing, closed, established, message, records, most_records, answers, rnr_timer } }

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

use Outcome::Refuse;

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

    fn reads_under_way(&self) -> impl Iterator<Item = &ReadAnswer> {
        self.answers.iter().filter_map(|answer| match answer {
            Answer::Read(read) => Some(read),
            _ => None,
        })
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
    /// Whether a request would be dropped without a word: it is out of turn, and that was said of one before it.
    pub fn drops_unsaid(&self, psn: Psn) -> bool {
        self.rq.refused && psn.since(self.rq.expected) > 0
    }

    /// Whether it takes no more requests, because of one that it refused.
    pub(super) fn is_closed(&self) -> bool {
        self.rq.closed
    }

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
}
