//! What travels: frames' headers and the private data of connection requests. All numbers little-endian.

use super::grounds::{GROUNDS_LEN, Grounds};
use super::session::Header;
use super::{Channel, Rank};

/// The version of everything in this file. Nodes of different versions do not connect.
const VERSION: u16 = 2;

/// A frame's header, in bytes: sequence number 8, acknowledgement 8, grant 4, channel 1, what guests and their servers say of slots 3 (else
/// zero).
pub(super) const HEADER_LEN: usize = 24;

pub(super) fn encode_header(header: &Header, channel: Channel) -> [u8; HEADER_LEN] {
    let mut b = [0; HEADER_LEN];
    b[0..8].copy_from_slice(&header.seq.to_le_bytes());
    b[8..16].copy_from_slice(&header.ack.to_le_bytes());
    b[16..20].copy_from_slice(&header.grant.to_le_bytes());
    b[20] = channel.0;
    b[21] = header.more;
    b[22..24].copy_from_slice(&header.back.to_le_bytes());
    b
}

pub(super) fn decode_header(frame: &[u8]) -> Option<(Header, Channel)> {
    let b = frame.get(..HEADER_LEN)?;
    let (more, back) = (b[21], u16_at(b, 22));
    let header = Header { seq: u64_at(b, 0), ack: u64_at(b, 8), grant: u32_at(b, 16), more, back };
    Some((header, Channel(b[20])))
}

/// What each side tells the other when they connect, in the private data of request and acceptance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hello {
    /// Who speaks; [`GUEST`] for a guest, which is known by its session alone.
    pub(super) rank: Rank,
    /// Whom the speaker means. Another node may have the address that this one had.
    pub(super) to: Rank,
    /// The speaker's incarnation: its rank, and what was drawn when its mesh started; a guest's is drawn as a whole. Toward a guest, that of its visit: random when it was admitted.
    pub(super) session: u64,
    /// The incarnation of the listener that the speaker has its session with; 0 if it knows none. The receive
    /// position is of that session and means nothing in another.
    pub(super) with: u64,
    /// The generation of the connection: proposed by the request, agreed by the acceptance.
    pub(super) generation: u32,
    /// Receive buffers posted.
    pub(super) buffers: u32,
    /// Longest message.
    pub(super) max_message: u32,
    /// The last message received in order.
    pub(super) received: u64,
    /// Toward a guest: for how many milliseconds it may be silent before it is forgotten; 0 for ever.
    pub(super) lease: u16,
    /// The speaker's adapter has no remote atomics: its processor executes them.
    pub(super) lacks_atomics: bool,
}

/// The bit of the longest message's field that says that there are no remote atomics. Messages are shorter than a mebibyte.
const LACKS_ATOMICS: u32 = 1 << 31;

/// What a guest has in place of a rank.
pub(super) const GUEST: Rank = Rank::from_index(u32::MAX - 1);

/// The generation of a request that is made only to see whether a rail works. No connection has it: they count from 1.
pub(super) const TRIAL: u32 = 0;

/// The generation of a request for a connection that is to stand by. No connection has it either.
pub(super) const STANDBY: u32 = u32::MAX;

/// The channel of a request and of an answer that go over a connection which stood by.
pub(super) const GREETING: Channel = Channel(252);

/// A request over a connection that stands by, or its answer: a frame's header that has no other meaning, and what the
/// connection manager would have carried.
pub(super) fn encode_greeting(asks: bool, hello: &Hello) -> [u8; HEADER_LEN + HELLO_LEN] {
    let header = Header { seq: u64::MAX, ack: u64::from(asks), grant: 0, ..Header::default() };
    let mut bytes = [0; HEADER_LEN + HELLO_LEN];
    bytes[..HEADER_LEN].copy_from_slice(&encode_header(&header, GREETING));
    bytes[HEADER_LEN..].copy_from_slice(&hello.encode());
    bytes
}

/// Whether it is a request, and what it says. `None` for any other frame.
pub(super) fn decode_greeting(frame: &[u8]) -> Option<(bool, Hello)> {
    let (header, channel) = decode_header(frame)?;
    let is_one = channel == GREETING && header.seq == u64::MAX && header.ack <= 1;
    let hello = Hello::decode(&frame[HEADER_LEN..]).filter(|_| is_one)?;
    Some((header.ack == 1, hello))
}

/// A hello, in bytes; less than [`weft_verbs::MAX_PRIVATE_REQUEST`].
pub(super) const HELLO_LEN: usize = 48;

impl Hello {
    pub(super) fn encode(&self) -> [u8; HELLO_LEN] {
        let mut b = [0; HELLO_LEN];
        b[0..2].copy_from_slice(&VERSION.to_le_bytes());
        b[2..4].copy_from_slice(&self.lease.to_le_bytes());
        b[4..8].copy_from_slice(&self.rank.get().to_le_bytes());
        b[8..16].copy_from_slice(&self.session.to_le_bytes());
        b[16..24].copy_from_slice(&self.with.to_le_bytes());
        b[24..28].copy_from_slice(&self.generation.to_le_bytes());
        b[28..32].copy_from_slice(&self.buffers.to_le_bytes());
        let lacks = if self.lacks_atomics { LACKS_ATOMICS } else { 0 };
        b[32..36].copy_from_slice(&(self.max_message | lacks).to_le_bytes());
        b[36..44].copy_from_slice(&self.received.to_le_bytes());
        b[44..48].copy_from_slice(&self.to.get().to_le_bytes());
        b
    }

    /// `None` for anything that this version does not speak.
    pub(super) fn decode(private: &[u8]) -> Option<Hello> {
        // The transport below may pad private data to its field's length.
        let b = private.get(..HELLO_LEN)?;
        if u16_at(b, 0) != VERSION {
            return None;
        }
        Some(Hello {
            rank: Rank::new(u32_at(b, 4))?,
            to: Rank::new(u32_at(b, 44))?,
            session: u64_at(b, 8),
            with: u64_at(b, 16),
            generation: u32_at(b, 24),
            buffers: u32_at(b, 28),
            max_message: u32_at(b, 32) & !LACKS_ATOMICS,
            received: u64_at(b, 36),
            lease: u16_at(b, 2),
            lacks_atomics: u32_at(b, 32) & LACKS_ATOMICS != 0,
        })
    }
}

/// Why a request is turned down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Not one of our nodes, or not of our version or sizes.
    Stranger,
    /// It is for another node.
    Astray,
    /// An old request: a later generation was agreed, up to this one.
    Stale {
        /// The latest agreed generation.
        floor: u32,
    },
    /// Both sides asked at once, and ours goes first.
    SimultaneousOpen,
    /// This node's mesh is closed, or it has no memory for a connection.
    Unable,
    /// The request was made to see whether the rail works, and it does.
    Trial,
    /// The asking incarnation was expelled ([`Mesh::expel`](super::Mesh::expel)), on these grounds.
    Expelled(Grounds),
    /// This incarnation has nothing to do with anybody any more ([`Mesh::retire`](super::Mesh::retire)).
    Retired,
}

/// A refusal's bytes: version, kind, a zero, a generation; and the grounds.
const REFUSAL_LEN: usize = 8 + GROUNDS_LEN;

impl Refusal {
    pub(super) fn encode(self) -> [u8; REFUSAL_LEN] {
        let (kind, floor) = match self {
            Refusal::Stranger => (1, 0),
            Refusal::Stale { floor } => (2, floor),
            Refusal::SimultaneousOpen => (3, 0),
            Refusal::Unable => (4, 0),
            Refusal::Trial => (5, 0),
            Refusal::Expelled(_) => (6, 0),
            Refusal::Retired => (7, 0),
            Refusal::Astray => (8, 0),
        };
        let mut b = [0; REFUSAL_LEN];
        b[0..2].copy_from_slice(&VERSION.to_le_bytes());
        b[2] = kind;
        b[4..8].copy_from_slice(&u32::to_le_bytes(floor));
        if let Refusal::Expelled(Grounds(bytes)) = self {
            b[8..].copy_from_slice(&bytes);
        }
        b
    }

    pub(super) fn decode(private: &[u8]) -> Option<Refusal> {
        let b = private.first_chunk::<REFUSAL_LEN>()?;
        if u16_at(b, 0) != VERSION {
            return None;
        }
        match b[2] {
            1 => Some(Refusal::Stranger),
            2 => Some(Refusal::Stale { floor: u32_at(b, 4) }),
            3 => Some(Refusal::SimultaneousOpen),
            4 => Some(Refusal::Unable),
            5 => Some(Refusal::Trial),
            6 => Some(Refusal::Expelled(Grounds(*b.last_chunk()?))),
            7 => Some(Refusal::Retired),
            8 => Some(Refusal::Astray),
            _ => None,
        }
    }
}

fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([b[at], b[at + 1]])
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(b[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(b[at..at + 8].try_into().expect("8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            rank: Rank::new(7).expect("not zero"),
            to: Rank::new(9).expect("not zero"),
            session: 0x1122_3344_5566_7788,
            with: 0x99aa_bbcc_ddee_ff00,
            generation: 0xdead_beef,
            buffers: 64,
            max_message: 256,
            received: u64::MAX - 1,
            lease: 10_000,
            lacks_atomics: true,
        }
    }

    #[test]
    fn a_hello_survives_the_wire_padded_or_not() {
        let mut private = hello().encode().to_vec();
        assert_eq!(Hello::decode(&private), Some(hello()));
        private.resize(weft_verbs::MAX_PRIVATE_REQUEST, 0);
        assert_eq!(Hello::decode(&private), Some(hello()));
    }

    #[test]
    fn another_version_a_short_hello_and_rank_zero_are_strangers() {
        let good = hello().encode();
        let mut other = good;
        other[0] = 1;
        assert_eq!(Hello::decode(&other), None);
        assert_eq!(Hello::decode(&good[..HELLO_LEN - 1]), None);
        for rank in [4, 44] {
            let mut nobody = good;
            nobody[rank..rank + 4].fill(0);
            assert_eq!(Hello::decode(&nobody), None);
        }
    }

    #[test]
    fn a_refusal_survives_the_wire() {
        for refusal in [
            Refusal::Stranger,
            Refusal::Stale { floor: 0x0102_0304 },
            Refusal::SimultaneousOpen,
            Refusal::Unable,
            Refusal::Trial,
            Refusal::Expelled(Grounds([7; GROUNDS_LEN])),
            Refusal::Retired,
            Refusal::Astray,
        ] {
            assert_eq!(Refusal::decode(&refusal.encode()), Some(refusal));
        }
        assert_eq!(Refusal::decode(&[]), None);
    }

    #[test]
    fn a_greeting_survives_the_wire_and_is_no_other_frame() {
        for asks in [true, false] {
            assert_eq!(decode_greeting(&encode_greeting(asks, &hello())), Some((asks, hello())));
        }
        let mut other = encode_greeting(true, &hello());
        other[20] = 9;
        assert_eq!(decode_greeting(&other), None);
        assert_eq!(decode_greeting(&other[..HEADER_LEN - 1]), None);
    }

    #[test]
    fn a_header_survives_the_wire() {
        let header = Header { seq: u64::MAX, ack: 5, grant: 0xffff_fffe, more: 7, back: 0x0102 };
        let frame = encode_header(&header, Channel(9));
        assert_eq!(decode_header(&frame), Some((header, Channel(9))));
        assert_eq!(decode_header(&frame[1..]), None);
    }
}
