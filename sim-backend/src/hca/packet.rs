//! Packets as typed values (IBA chapters 5 and 9).

use super::{Atomic, Buffers, Deth, GRH, HcaId, Route};
use crate::fault;
use crate::in_place::clone_in_place;
use crate::profile::header::{AETH, ATOMIC, ATOMIC_ACK, BASE, DETH, IMMEDIATE, RETH};
use weft_verbs::{Nanos, Psn, QpNum, RnrTimer};

/// A queue pair of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The adapter.
    pub hca: HcaId,
    /// The queue pair.
    pub qp: QpNum,
}

/// A packet of a reliable connection, or a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Who sent it.
    pub from: Endpoint,
    /// Whom it is for.
    pub to: Endpoint,
    /// By which ports.
    pub route: Route,
    /// Its sequence number.
    pub psn: Psn,
    /// The responder is asked to acknowledge it (BTH:AckReq).
    pub ack_req: bool,
    /// The receiver is asked to raise a solicited event (BTH:SE).
    pub solicited: bool,
    /// The sender's connection is on the only path that it has loaded (BTH:MigReq): it has moved, if it was armed.
    pub migrated: bool,
    /// What it asks or answers.
    pub body: Body,
    /// Its payload.
    pub data: Data,
    /// The operation that it belongs to, its own or the answered one. Not on the wire: for rules of faults.
    pub op: fault::Op,
}

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
struct Kept {
    packet: Packet,
    /// When it arrives, and the one behind it: see [`Line`].
    due: Nanos,
    next: u32,
}

const NIL: u32 = u32::MAX;

/// Packets that arrive one behind the other. They are linked through [`Packets`], so that a line has no memory of
/// its own, be it empty or long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    head: u32,
    tail: u32,
    len: u32,
}

impl Line {
    /// No packets.
    pub const EMPTY: Line = Line { head: NIL, tail: NIL, len: 0 };

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many there are.
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// The number of the first packet.
    pub const fn first(&self) -> Option<u32> {
        if self.is_empty() { None } else { Some(self.head) }
    }
}

/// Packets on their way, by number: a packet is written once, when it is made, and copied once, when it arrives.
#[derive(Debug, Default)]
pub struct Packets {
    list: Vec<Kept>,
    free: Vec<u32>,
    fresh: Vec<u32>,
}

clone_in_place! { Packets { list, free, fresh } }

impl Packets {
    /// Puts in a packet to be sent.
    #[inline(always)]
    pub fn put(&mut self, packet: Packet) {
        let id = self.keep(packet);
        self.fresh.push(id);
    }

    /// Keeps a packet.
    #[inline(always)]
    pub fn keep(&mut self, packet: Packet) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.list[id as usize].packet = packet;
                id
            }
            None => {
                self.list.push(Kept { packet, due: Nanos::ZERO, next: NIL });
                (self.list.len() - 1) as u32
            }
        }
    }

    /// Whether nothing was put in since [`Packets::clear_fresh`].
    #[inline]
    pub fn nothing_fresh(&self) -> bool {
        self.fresh.is_empty()
    }

    /// The number of the packet that was put in as the `index`th since [`Packets::clear_fresh`].
    #[inline]
    pub fn fresh(&self, index: usize) -> Option<u32> {
        self.fresh.get(index).copied()
    }

    /// Moves the numbers of the packets that are to be sent to `out`, in order.
    pub fn take_fresh(&mut self, out: &mut Vec<u32>) {
        out.append(&mut self.fresh);
    }

    /// All that was put in has been sent.
    #[inline]
    pub fn clear_fresh(&mut self) {
        self.fresh.clear();
    }

    /// A packet.
    #[inline]
    pub fn get(&self, id: u32) -> &Packet {
        &self.list[id as usize].packet
    }

    /// Puts a packet at the end of a line.
    #[inline]
    pub fn join(&mut self, line: &mut Line, id: u32, due: Nanos) {
        let last = &mut self.list[id as usize];
        (last.due, last.next) = (due, NIL);
        match line.is_empty() {
            true => line.head = id,
            false => self.list[line.tail as usize].next = id,
        }
        line.tail = id;
        line.len += 1;
    }

    /// The numbers of a line's packets, in order.
    pub fn in_line(&self, line: Line) -> impl Iterator<Item = u32> {
        let behind = |&id: &u32| Some(self.list[id as usize].next);
        std::iter::successors(line.first(), behind).take(line.len() as usize)
    }

    /// Takes the first packet's number off a line. With the time at which the next one is due, if there is one.
    #[inline]
    pub fn leave(&self, line: &mut Line) -> Option<(u32, Option<Nanos>)> {
        let id = line.first()?;
        line.head = self.list[id as usize].next;
        line.len -= 1;
        Some((id, line.first().map(|next| self.list[next as usize].due)))
    }

    /// Takes a packet out.
    #[inline]
    pub fn take(&mut self, id: u32) -> Packet {
        self.free.push(id);
        self.list[id as usize].packet
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A packet's place in its message (the last part of the opcode's name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The whole message.
    Only,
    /// The first of several.
    First,
    /// Neither the first nor the last.
    Middle,
    /// The last of several.
    Last,
}

impl Part {
    /// The place of packet `index` among `count`.
    pub const fn of(index: u32, count: u32) -> Part {
        match (index == 0, index + 1 >= count) {
            (true, true) => Part::Only,
            (true, false) => Part::First,
            (false, false) => Part::Middle,
            (false, true) => Part::Last,
        }
    }

    /// Whether a message begins with it.
    pub const fn begins(self) -> bool {
        matches!(self, Part::Only | Part::First)
    }

    /// Whether a message ends with it.
    pub const fn ends(self) -> bool {
        matches!(self, Part::Only | Part::Last)
    }
}

/// Whom a one-sided request is aimed at: the RDMA extended header (IBA 9.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reth {
    /// Virtual address.
    pub addr: u64,
    /// Key.
    pub rkey: u32,
    /// Length of the whole message in bytes.
    pub len: u32,
}

/// Why a responder refused a packet (IBA 9.7.5.2, table 46).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Nak {
    /// The packet is not the one expected next.
    Sequence,
    /// The request cannot be executed as it stands.
    InvalidRequest,
    /// Wrong key, range or rights.
    RemoteAccess,
    /// The responder failed for a reason of its own.
    RemoteOperation,
}

/// What an acknowledgement says (IBA 9.7.5.2.1, the syndrome).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// Everything up to and including the packet's number was executed.
    Ack,
    /// No receive request was there: try again after this.
    Rnr(RnrTimer),
    /// Refused.
    Nak(Nak),
}

/// How many packets carry so many bytes, or answer a read of them: one at least.
pub fn packets_of(len: u32, mtu: u32) -> u32 {
    len.div_ceil(mtu).max(1)
}

/// What a packet asks or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// A part of a send.
    Send {
        /// Its place.
        part: Part,
        /// Immediate data, with the last part.
        imm: Option<u32>,
    },
    /// A part of a write.
    Write {
        /// Its place.
        part: Part,
        /// Where to, with the first part.
        to: Option<Reth>,
        /// Immediate data, with the last part.
        imm: Option<u32>,
    },
    /// A read.
    ReadRequest {
        /// What to read.
        from: Reth,
    },
    /// An atomic operation.
    AtomicRequest {
        /// The word's address.
        addr: u64,
        /// Its key.
        rkey: u32,
        /// What to do.
        atomic: Atomic,
    },
    /// A part of a read's answer.
    ReadResponse {
        /// Its place in the answer to one request.
        part: Part,
        /// Message sequence number.
        msn: u32,
    },
    /// An atomic's answer.
    AtomicResponse {
        /// The word as it was before.
        original: u64,
        /// Message sequence number.
        msn: u32,
    },
    /// An acknowledgement, positive or negative.
    Ack {
        /// What it says.
        syndrome: Syndrome,
        /// Message sequence number.
        msn: u32,
    },
    /// A datagram.
    Datagram(Deth),
}

impl Body {
    /// Whether a requester sends it.
    pub const fn is_request(&self) -> bool {
        matches!(
            self,
            Body::Send { .. } | Body::Write { .. } | Body::ReadRequest { .. } | Body::AtomicRequest { .. }
        )
    }

    /// Bytes of headers and checks on an InfiniBand link, with the operation's extended headers (IBA 5.2, 9.3).
    pub const fn header_bytes(&self) -> u32 {
        let extended = match self {
            Body::Send { imm, .. } => IMMEDIATE * imm.is_some() as u64,
            Body::Write { to, imm, .. } => RETH * to.is_some() as u64 + IMMEDIATE * imm.is_some() as u64,
            Body::ReadRequest { .. } => RETH,
            Body::AtomicRequest { .. } => ATOMIC,
            Body::ReadResponse { part, .. } => AETH * !matches!(part, Part::Middle) as u64,
            Body::AtomicResponse { .. } => AETH + ATOMIC_ACK,
            Body::Ack { .. } => AETH,
            Body::Datagram(deth) => GRH as u64 + DETH + IMMEDIATE * deth.imm.is_some() as u64,
        };
        (BASE + extended) as u32
    }

    /// Bytes that cross the host's bus for a packet with so much payload: an atomic's old value goes to memory
    /// too, though it travels in a header.
    pub const fn moves(&self, payload: u32) -> u32 {
        if matches!(self, Body::AtomicResponse { .. }) { 8 } else { payload }
    }

    /// The name in the event log.
    pub const fn name(&self) -> &'static str {
        match self {
            Body::Send { .. } => "send",
            Body::Write { .. } => "write",
            Body::Datagram(_) => "datagram",
            Body::ReadRequest { .. } => "read",
            Body::AtomicRequest { atomic: Atomic::CompareSwap { .. }, .. } => "compare-swap",
            Body::AtomicRequest { .. } => "fetch-add",
            Body::ReadResponse { .. } => "read-response",
            Body::AtomicResponse { .. } => "atomic-response",
            Body::Ack { syndrome: Syndrome::Ack, .. } => "ack",
            Body::Ack { syndrome: Syndrome::Rnr(_), .. } => "rnr-nak",
            Body::Ack { syndrome: Syndrome::Nak(nak), .. } => match nak {
                Nak::Sequence => "nak-sequence",
                Nak::InvalidRequest => "nak-invalid-request",
                Nak::RemoteAccess => "nak-remote-access",
                Nak::RemoteOperation => "nak-remote-operation",
            },
        }
    }
}

/// The most bytes that travel inside a packet value.
pub const SMALL: usize = 64;

/// A packet's payload: a few bytes in the value itself, or a buffer of the pool that the packet owns.
#[derive(Clone, Copy)]
pub enum Data {
    /// Up to so many bytes that they need no buffer: `SMALL`.
    Small {
        /// How many.
        len: u8,
        /// The bytes, and zeros behind them.
        bytes: [u8; SMALL],
    },
    /// A buffer.
    Pooled {
        /// Its number.
        id: u32,
        /// How many bytes.
        len: u32,
    },
}

impl Data {
    /// No payload.
    pub const NONE: Data = Data::Small { len: 0, bytes: [0; SMALL] };

    /// So many bytes, filled in by `fill`.
    #[inline(always)]
    pub fn new(len: usize, buffers: &mut Buffers, fill: impl FnOnce(&mut [u8])) -> Data {
        if len <= SMALL {
            let mut bytes = [0; SMALL];
            fill(&mut bytes[..len]);
            Data::Small { len: len as u8, bytes }
        } else {
            let (id, buffer) = buffers.take(len);
            fill(buffer);
            Data::Pooled { id, len: len as u32 }
        }
    }

    /// How many bytes.
    #[inline]
    pub const fn len(&self) -> u32 {
        match self {
            Data::Small { len, .. } => *len as u32,
            Data::Pooled { len, .. } => *len,
        }
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes.
    #[inline]
    pub fn bytes<'a>(&'a self, buffers: &'a Buffers) -> &'a [u8] {
        match self {
            Data::Small { len, bytes } => &bytes[..(*len as usize).min(SMALL)],
            Data::Pooled { id, .. } => buffers.get(*id),
        }
    }

    /// Gives the buffer back, if there is one.
    #[inline]
    pub fn release(self, buffers: &mut Buffers) {
        if let Data::Pooled { id, .. } = self {
            buffers.give_back(id);
        }
    }

    /// All but the last byte, in a buffer of its own; the old one is given back.
    pub fn shortened(self, buffers: &mut Buffers) -> Data {
        let kept = self.bytes(buffers).split_last().map_or(Vec::new(), |(_, kept)| kept.to_vec());
        self.release(buffers);
        Data::new(kept.len(), buffers, |out| out.copy_from_slice(&kept))
    }

    /// A copy that owns a buffer of its own.
    pub fn duplicate(&self, buffers: &mut Buffers) -> Data {
        match *self {
            Data::Pooled { id, len } => {
                let bytes = buffers.get(id).to_vec();
                Data::Pooled { id: buffers.keep(&bytes), len }
            }
            small => small,
        }
    }
}

impl std::fmt::Debug for Data {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}
