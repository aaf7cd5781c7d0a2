//! The messages of the Sockets Direct Protocol (annex A4), and their bytes.
//!
//! The transport delivers them in order and once. Each message on a stream carries byte positions all the same: the receiver
//! checks that nothing is missing and nothing comes twice, instead of believing it.

use super::credits::LEAST_BUFFERS;
use super::{Mode, Refusal};
use crate::bytes::Reader;
use weft_verbs::RemoteSlice;

/// Which stream of a node: a place in its table, and how often that place was used before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    /// The place.
    pub place: u32,
    /// How often it was used before.
    pub use_of: u32,
}

/// What an end tells of itself when a stream is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Greeting {
    /// The stream at the sender.
    pub from: Handle,
    /// Its private buffers.
    pub buffers: u32,
    /// How many bytes each takes.
    pub buffer_bytes: u32,
    /// How many advertisements of the other end it keeps.
    pub adverts: u32,
}

impl Greeting {
    /// Whether data can come to such an end: it has private buffers beside those that are kept for control, and they take something.
    pub(super) fn is_fit(&self) -> bool {
        self.buffers >= LEAST_BUFFERS && self.buffer_bytes > 0
    }
}

/// What every message on a stream tells (annex A4: the base sockets direct header).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The stream at the receiver.
    pub to: Handle,
    /// How many messages the receiver may have sent in all; wraps.
    pub grant: u32,
    /// The position up to which the sender has received; the end of the stream counts as one byte.
    pub acked: u64,
    /// The sender's position before this message.
    pub at: u64,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message<'a> {
    /// A connection to a port is asked for.
    Hello {
        /// The stream's identity: random.
        id: u128,
        /// The port that is asked for.
        port: u16,
        /// The sender's.
        from_port: u16,
        /// What the sender tells of itself.
        greeting: Greeting,
    },
    /// It is there.
    HelloAck {
        /// The stream at the receiver.
        to: Handle,
        /// What the sender tells of itself.
        greeting: Greeting,
    },
    /// It is refused. (In annex A4 the connection manager says so.)
    Reject {
        /// The stream at the receiver.
        to: Handle,
        /// Why.
        why: Refusal,
    },
    /// The user's bytes; none where only credits or an acknowledgement are told.
    Data {
        /// What every message on a stream tells.
        header: Header,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The sender's user has bytes here: the receiver may read them (annex A4: source available).
    SrcAvail {
        /// What every message on a stream tells.
        header: Header,
        /// Where the bytes are.
        source: RemoteSlice,
    },
    /// So many advertised bytes were read: the acknowledged position is behind them.
    RdmaRdCompl {
        /// What every message on a stream tells.
        header: Header,
        /// How many.
        len: u32,
    },
    /// The sender's user wants bytes here: the receiver may write those from a position on (annex A4: sink available).
    SinkAvail {
        /// What every message on a stream tells.
        header: Header,
        /// The position of the first byte that is wanted.
        start: u64,
        /// Where it is wanted.
        sink: RemoteSlice,
    },
    /// So many bytes were written where they were wanted.
    RdmaWrCompl {
        /// What every message on a stream tells.
        header: Header,
        /// How many.
        len: u32,
    },
    /// The sender wants what it advertises back, as far as it was not read (annex A4: source available cancel).
    SrcAvailCancel {
        /// What every message on a stream tells.
        header: Header,
    },
    /// The receiver of a cancel reads no advertised range any more: what lies behind the acknowledged position is to be sent
    /// again (annex A4: send by SEND messages).
    SendSm {
        /// What every message on a stream tells.
        header: Header,
    },
    /// The sender wants nothing any more where it wanted bytes (annex A4: sink available cancel).
    SinkAvailCancel {
        /// What every message on a stream tells.
        header: Header,
    },
    /// The receiver of that writes there no more (annex A4: sink cancel acknowledgement).
    SinkCancelAck {
        /// What every message on a stream tells.
        header: Header,
    },
    /// From now on the sender's bytes are to come to it in this way (annex A4: mode change).
    ModeChange {
        /// What every message on a stream tells.
        header: Header,
        /// Which.
        mode: Mode,
    },
    /// The sender would have the receiver's private buffers take so many bytes each, and sends no more than that from here on
    /// (annex A4: change of the receive buffers' size).
    ChRcvBuf {
        /// What every message on a stream tells.
        header: Header,
        /// How many.
        bytes: u32,
    },
    /// The sender's private buffers take so many bytes each (annex A4: the answer to that).
    ChRcvBufAck {
        /// What every message on a stream tells.
        header: Header,
        /// How many.
        bytes: u32,
    },
    /// The sender writes no more: half-close.
    DisConn {
        /// What every message on a stream tells.
        header: Header,
    },
    /// The sender starts nothing any more: the connection is to go over to another rail (annex A4: suspend communications).
    SuspComm {
        /// Which.
        rail: u8,
        /// How often the sender has said so; the answer has the same number.
        number: u32,
    },
    /// Nor does its receiver, and nothing is in process (annex A4: suspend communications acknowledgement).
    SuspCommAck {
        /// Of what it is the answer to.
        number: u32,
    },
    /// Both go on (the thesis's).
    AckRecv {
        /// The rail on which the connection stays from now on. None if it was not moved.
        rail: Option<u8>,
    },
    /// Whether anybody is there: that it arrived is the answer.
    Probe,
    /// The stream is over, whatever was under way.
    AbortConn {
        /// The stream at the receiver.
        to: Handle,
        /// Since its connection has gone over to another rail, and its user had asked to be told.
        moved: bool,
    },
}

// The annex's identifiers of messages.
const HELLO: u8 = 0x00;
const HELLO_ACK: u8 = 0x01;
const DIS_CONN: u8 = 0x02;
const ABORT_CONN: u8 = 0x03;
const RDMA_WR_COMPL: u8 = 0x05;
const RDMA_RD_COMPL: u8 = 0x06;
const SEND_SM: u8 = 0x04;
const MODE_CHANGE: u8 = 0x07;
const SRC_AVAIL_CANCEL: u8 = 0x08;
const SINK_AVAIL_CANCEL: u8 = 0x09;
const SINK_CANCEL_ACK: u8 = 0x0a;
const CH_RCV_BUF: u8 = 0x0b;
const CH_RCV_BUF_ACK: u8 = 0x0c;
const SUSP_COMM: u8 = 0x0d;
const SUSP_COMM_ACK: u8 = 0x0e;
const SINK_AVAIL: u8 = 0xfd;
const SRC_AVAIL: u8 = 0xfe;
const DATA: u8 = 0xff;
// Not the annex's.
const REJECT: u8 = 0x80;
const ACK_RECV: u8 = 0x81;
const PROBE: u8 = 0x82;

/// What precedes the bytes of a data message: kind 1, zero 3, stream 8, grant 4, position received 8, position 8.
pub const HEADER_LEN: u32 = 32;

/// The longest message without data: what every mesh with sockets must carry.
pub const LONGEST_CONTROL: u32 = 56;

const REFUSALS: [Refusal; 3] = [Refusal::NoListener, Refusal::BacklogFull, Refusal::Unfit];

const MODES: [Mode; 3] = [Mode::Buffered, Mode::Combined, Mode::Pipelined];

impl<'a> Message<'a> {
    /// Appends its bytes; little-endian.
    pub fn encode(&self, to: &mut Vec<u8>) {
        match *self {
            Message::Hello { id, port, from_port, greeting } => {
                to.extend([HELLO, 0, 0, 0]);
                to.extend(id.to_le_bytes());
                to.extend(port.to_le_bytes());
                to.extend(from_port.to_le_bytes());
                put_greeting(to, greeting);
            }
            Message::HelloAck { to: stream, greeting } => {
                to.extend([HELLO_ACK, 0, 0, 0]);
                put_handle(to, stream);
                put_greeting(to, greeting);
            }
            Message::Reject { to: stream, why } => {
                let code = REFUSALS.iter().position(|known| *known == why).unwrap_or(0);
                to.extend([REJECT, code as u8, 0, 0]);
                put_handle(to, stream);
            }
            Message::Data { header, bytes } => {
                put_header(to, DATA, header);
                to.extend(bytes);
            }
            Message::SrcAvail { header, source } => {
                put_header(to, SRC_AVAIL, header);
                to.extend(source.to_bytes());
            }
            Message::SinkAvail { header, start, sink } => {
                put_header(to, SINK_AVAIL, header);
                to.extend(start.to_le_bytes());
                to.extend(sink.to_bytes());
            }
            Message::RdmaRdCompl { header, len } => {
                put_header(to, RDMA_RD_COMPL, header);
                to.extend(len.to_le_bytes());
            }
            Message::RdmaWrCompl { header, len } => {
                put_header(to, RDMA_WR_COMPL, header);
                to.extend(len.to_le_bytes());
            }
            Message::SrcAvailCancel { header } => put_header(to, SRC_AVAIL_CANCEL, header),
            Message::SendSm { header } => put_header(to, SEND_SM, header),
            Message::SinkAvailCancel { header } => put_header(to, SINK_AVAIL_CANCEL, header),
            Message::SinkCancelAck { header } => put_header(to, SINK_CANCEL_ACK, header),
            Message::ModeChange { header, mode } => {
                put_header(to, MODE_CHANGE, header);
                to.extend((mode as u32).to_le_bytes());
            }
            Message::ChRcvBuf { header, bytes } => {
                put_header(to, CH_RCV_BUF, header);
                to.extend(bytes.to_le_bytes());
            }
            Message::ChRcvBufAck { header, bytes } => {
                put_header(to, CH_RCV_BUF_ACK, header);
                to.extend(bytes.to_le_bytes());
            }
            Message::DisConn { header } => put_header(to, DIS_CONN, header),
            Message::SuspComm { rail, number } => {
                to.extend([SUSP_COMM, rail, 0, 0]);
                to.extend(number.to_le_bytes());
            }
            Message::SuspCommAck { number } => {
                to.extend([SUSP_COMM_ACK, 0, 0, 0]);
                to.extend(number.to_le_bytes());
            }
            Message::AckRecv { rail } => {
                // Rails are counted from 1 here, and 0 is none of them.
                let code = rail.map_or(0, |rail| rail.saturating_add(1));
                to.extend([ACK_RECV, code, 0, 0]);
            }
            Message::Probe => to.extend([PROBE, 0, 0, 0]),
            Message::AbortConn { to: stream, moved } => {
                to.extend([ABORT_CONN, u8::from(moved), 0, 0]);
                put_handle(to, stream);
            }
        }
    }

    /// What it tells of the stream that it is on; none of what makes a stream, ends it at once, or is on none.
    pub fn header(&self) -> Option<&Header> {
        match self {
            Message::Data { header, .. }
            | Message::SrcAvail { header, .. }
            | Message::SinkAvail { header, .. }
            | Message::RdmaRdCompl { header, .. }
            | Message::RdmaWrCompl { header, .. }
            | Message::SrcAvailCancel { header }
            | Message::SendSm { header }
            | Message::SinkAvailCancel { header }
            | Message::SinkCancelAck { header }
            | Message::ModeChange { header, .. }
            | Message::ChRcvBuf { header, .. }
            | Message::ChRcvBufAck { header, .. }
            | Message::DisConn { header } => Some(header),
            Message::Hello { .. } | Message::HelloAck { .. } | Message::Reject { .. } => None,
            Message::SuspComm { .. } | Message::SuspCommAck { .. } | Message::AckRecv { .. } => None,
            Message::Probe | Message::AbortConn { .. } => None,
        }
    }

    /// The stream at the receiver that bytes name which are no message, where they are of a kind that names one.
    pub fn names(bytes: &[u8]) -> Option<Handle> {
        let (&[kind, ..], rest) = bytes.split_first_chunk::<4>()?;
        let of_none = matches!(kind, HELLO | SUSP_COMM | SUSP_COMM_ACK | ACK_RECV | PROBE);
        if of_none { None } else { handle(&mut Reader(rest)) }
    }

    /// Reads bytes; none if they are no message.
    pub fn decode(bytes: &'a [u8]) -> Option<Message<'a>> {
        let (&[kind, code, 0, 0], rest) = bytes.split_first_chunk()? else { return None };
        let rest = &mut Reader(rest);
        let message = match (kind, code) {
            (HELLO, 0) => Message::Hello {
                id: u128::from_le_bytes(rest.array()?),
                port: rest.u16()?,
                from_port: rest.u16()?,
                greeting: greeting(rest)?,
            },
            (HELLO_ACK, 0) => Message::HelloAck { to: handle(rest)?, greeting: greeting(rest)? },
            (REJECT, code) => Message::Reject { to: handle(rest)?, why: *REFUSALS.get(usize::from(code))? },
            (DATA, 0) => {
                let header = header(rest)?;
                return Some(Message::Data { header, bytes: rest.0 });
            }
            (SRC_AVAIL, 0) => Message::SrcAvail { header: header(rest)?, source: rest.slice()? },
            (SINK_AVAIL, 0) => {
                Message::SinkAvail { header: header(rest)?, start: rest.u64()?, sink: rest.slice()? }
            }
            (RDMA_RD_COMPL, 0) => Message::RdmaRdCompl { header: header(rest)?, len: rest.u32()? },
            (RDMA_WR_COMPL, 0) => Message::RdmaWrCompl { header: header(rest)?, len: rest.u32()? },
            (SRC_AVAIL_CANCEL, 0) => Message::SrcAvailCancel { header: header(rest)? },
            (SEND_SM, 0) => Message::SendSm { header: header(rest)? },
            (SINK_AVAIL_CANCEL, 0) => Message::SinkAvailCancel { header: header(rest)? },
            (SINK_CANCEL_ACK, 0) => Message::SinkCancelAck { header: header(rest)? },
            (MODE_CHANGE, 0) => {
                Message::ModeChange { header: header(rest)?, mode: *MODES.get(rest.u32()? as usize)? }
            }
            (CH_RCV_BUF, 0) => Message::ChRcvBuf { header: header(rest)?, bytes: rest.u32()? },
            (CH_RCV_BUF_ACK, 0) => Message::ChRcvBufAck { header: header(rest)?, bytes: rest.u32()? },
            (DIS_CONN, 0) => Message::DisConn { header: header(rest)? },
            (SUSP_COMM, rail) => Message::SuspComm { rail, number: rest.u32()? },
            (SUSP_COMM_ACK, 0) => Message::SuspCommAck { number: rest.u32()? },
            (ACK_RECV, code) => Message::AckRecv { rail: code.checked_sub(1) },
            (PROBE, 0) => Message::Probe,
            (ABORT_CONN, code @ 0..=1) => Message::AbortConn { to: handle(rest)?, moved: code == 1 },
            _ => return None,
        };
        rest.0.is_empty().then_some(message)
    }
}

fn handle_bytes(Handle { place, use_of }: Handle) -> [u8; 8] {
    (u64::from(use_of) << 32 | u64::from(place)).to_le_bytes()
}

fn put_handle(to: &mut Vec<u8>, handle: Handle) {
    to.extend(handle_bytes(handle));
}

fn put_greeting(to: &mut Vec<u8>, Greeting { from, buffers, buffer_bytes, adverts }: Greeting) {
    put_handle(to, from);
    to.extend(buffers.to_le_bytes());
    to.extend(buffer_bytes.to_le_bytes());
    to.extend(adverts.to_le_bytes());
}

fn put_header(to: &mut Vec<u8>, kind: u8, Header { to: stream, grant, acked, at }: Header) {
    let mut head = [0; HEADER_LEN as usize];
    head[0] = kind;
    head[4..12].copy_from_slice(&handle_bytes(stream));
    head[12..16].copy_from_slice(&grant.to_le_bytes());
    head[16..24].copy_from_slice(&acked.to_le_bytes());
    head[24..].copy_from_slice(&at.to_le_bytes());
    to.extend_from_slice(&head);
}

fn handle(from: &mut Reader<'_>) -> Option<Handle> {
    Some(Handle { place: from.u32()?, use_of: from.u32()? })
}

fn greeting(from: &mut Reader<'_>) -> Option<Greeting> {
    Some(Greeting {
        from: handle(from)?,
        buffers: from.u32()?,
        buffer_bytes: from.u32()?,
        adverts: from.u32()?,
    })
}

fn header(from: &mut Reader<'_>) -> Option<Header> {
    Some(Header { to: handle(from)?, grant: from.u32()?, acked: from.u64()?, at: from.u64()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Message<'static>> {
        let to = Handle { place: 3, use_of: 9 };
        let header = Header { to, grant: 77, acked: 1 << 40, at: 5 };
        let from = Handle { place: 1, use_of: 2 };
        let greeting = Greeting { from, buffers: 16, buffer_bytes: 8_192, adverts: 4 };
        let slice = RemoteSlice { addr: 1 << 50, len: 7, rkey: 3 };
        vec![
            Message::Hello { id: 1 << 100, port: 7, from_port: 50_000, greeting },
            Message::HelloAck { to, greeting },
            Message::Reject { to, why: Refusal::BacklogFull },
            Message::SrcAvail { header, source: slice },
            Message::SinkAvail { header, start: 1 << 41, sink: slice },
            Message::RdmaRdCompl { header, len: 5 },
            Message::RdmaWrCompl { header, len: 6 },
            Message::SrcAvailCancel { header },
            Message::SendSm { header },
            Message::SinkAvailCancel { header },
            Message::SinkCancelAck { header },
            Message::ModeChange { header, mode: Mode::Combined },
            Message::ChRcvBuf { header, bytes: 7 },
            Message::ChRcvBufAck { header, bytes: 6 },
            Message::DisConn { header },
            Message::AbortConn { to, moved: false },
            Message::AbortConn { to, moved: true },
            Message::SuspComm { rail: 1, number: 7 },
            Message::SuspCommAck { number: 7 },
            Message::AckRecv { rail: None },
            Message::AckRecv { rail: Some(0) },
            Message::AckRecv { rail: Some(7) },
            Message::Probe,
            Message::Data { header, bytes: &[] },
            Message::Data { header, bytes: b"bytes" },
        ]
    }

    #[test]
    fn every_message_survives_its_bytes_and_no_part_of_a_control_message_is_one() {
        for message in all() {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert_eq!(Message::decode(&bytes), Some(message));
            let (control, data) = match message {
                Message::Data { bytes, .. } => (HEADER_LEN as usize, bytes.len()),
                _ => (bytes.len(), 0),
            };
            assert_eq!(bytes.len(), control + data);
            assert!(control <= LONGEST_CONTROL as usize, "{message:?}");
            assert!((0..control).all(|end| Message::decode(&bytes[..end]).is_none()), "{message:?}");
        }
    }

    #[test]
    fn what_is_left_of_a_message_names_its_stream() {
        for message in all() {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            let of = match message {
                Message::HelloAck { to, .. } | Message::Reject { to, .. } | Message::AbortConn { to, .. } => {
                    Some(to)
                }
                _ => message.header().map(|header| header.to),
            };
            assert_eq!(Message::names(&bytes), of, "{message:?}");
            assert_eq!(Message::names(&bytes[..bytes.len().min(12)]), of, "{message:?}");
            assert_eq!(Message::names(&bytes[..bytes.len().min(11)]), None, "{message:?}");
        }
    }
}
