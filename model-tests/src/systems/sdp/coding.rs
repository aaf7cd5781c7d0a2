//! Bytes that are coded by their position: what a stream should carry is computed where it is written and where it is read, so no
//! transfer is kept anywhere, however long it is.

use crate::history::{ClientId, RequestId};

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    There,
    /// And back.
    Back,
}

/// What a client sends first, so that the server knows whose request it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The request.
    pub request: RequestId,
    /// How many bytes it has, this head included.
    pub bytes: u32,
    /// How many bytes are to be sent back.
    pub reply: u32,
}

impl Head {
    /// Its length in bytes: the shortest request.
    pub const LEN: u32 = 24;
    const MAGIC: u32 = 0x5344_5031;

    /// Its bytes.
    pub fn encode(&self) -> [u8; Head::LEN as usize] {
        let RequestId { client: ClientId { node, index }, number } = self.request;
        let words = [Head::MAGIC, node, index, number, self.bytes, self.reply];
        let mut bytes = [0; Head::LEN as usize];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads bytes; none if they are no head.
    pub fn decode(bytes: &[u8; Head::LEN as usize]) -> Option<Head> {
        let (words, _) = bytes.as_chunks::<4>();
        let word = |at: usize| u32::from_le_bytes(words[at]);
        let request = RequestId { client: ClientId { node: word(1), index: word(2) }, number: word(3) };
        (word(0) == Head::MAGIC).then(|| Head { request, bytes: word(4), reply: word(5) })
    }
}

/// What every byte of one way of a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coding(u64);

impl Coding {
    /// The coding of one way of a request.
    pub fn of(request: RequestId, way: Way) -> Coding {
        let RequestId { client: ClientId { node, index }, number } = request;
        let mixed = u64::from(node) << 48 ^ u64::from(index) << 32 ^ u64::from(number);
        Coding(mix(mixed ^ if way == Way::There { 0 } else { 1 << 63 }))
    }

    /// The eight bytes that begin at a multiple of eight.
    fn word(self, number: u64) -> [u8; 8] {
        mix(self.0 ^ number).to_le_bytes()
    }

    /// Writes the bytes that begin at a position.
    pub fn fill(self, at: u64, bytes: &mut [u8]) {
        let (head, rest) = bytes.split_at_mut(to_a_word(at, bytes.len()));
        head.copy_from_slice(&self.word(at / 8)[(at % 8) as usize..][..head.len()]);
        let (words, tail) = rest.as_chunks_mut::<8>();
        let mut number = at.div_ceil(8);
        for word in words {
            *word = self.word(number);
            number += 1;
        }
        tail.copy_from_slice(&self.word(number)[..tail.len()]);
    }

    /// Whether bytes are those that begin at a position.
    pub fn is_at(self, at: u64, bytes: &[u8]) -> bool {
        let (head, rest) = bytes.split_at(to_a_word(at, bytes.len()));
        let (words, tail) = rest.as_chunks::<8>();
        let first = at.div_ceil(8);
        let is_word = |(number, word): (u64, &[u8; 8])| *word == self.word(number);
        *head == self.word(at / 8)[(at % 8) as usize..][..head.len()]
            && (first..).zip(words).all(is_word)
            && *tail == self.word(first + words.len() as u64)[..tail.len()]
    }
}
/// How many of so many bytes lie before the first multiple of eight.
fn to_a_word(at: u64, len: usize) -> usize {
    ((at.next_multiple_of(8) - at) as usize).min(len)
}

/// A number without a pattern (the finalizer of SplitMix64).
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_is_missing_repeated_or_of_another_request_is_seen() {
        let request = RequestId { client: ClientId { node: 1, index: 0 }, number: 3 };
        let coding = Coding::of(request, Way::There);
        let mut bytes = vec![0; 1_000];
        coding.fill(5, &mut bytes);
        assert!(coding.is_at(5, &bytes) && coding.is_at(105, &bytes[100..]));
        assert!(!coding.is_at(6, &bytes) && !coding.is_at(4, &bytes));
        assert!(!Coding::of(request, Way::Back).is_at(5, &bytes));
        assert!(!Coding::of(RequestId { number: 4, ..request }, Way::There).is_at(5, &bytes));
        bytes[999] ^= 1;
        assert!(!coding.is_at(5, &bytes));
    }

    #[test]
    fn a_byte_is_the_same_in_whatever_pieces_a_stream_is_written_and_read() {
        let coding = Coding(7);
        let mut whole = [0; 64];
        coding.fill(0, &mut whole);
        for (from, to) in (0..=64).flat_map(|from| (from..=64).map(move |to| (from, to))) {
            let mut part = whole;
            let part = &mut part[from..to];
            assert!(coding.is_at(from as u64, part), "{from}..{to}");
            part.fill(0);
            coding.fill(from as u64, part);
            assert_eq!(*part, whole[from..to], "{from}..{to}");
            if let Some(last) = part.last_mut() {
                *last ^= 1;
                assert!(!coding.is_at(from as u64, part), "{from}..{to}");
            }
        }
    }

    #[test]
    fn a_head_is_told_by_its_bytes() {
        let request = RequestId { client: ClientId { node: 7, index: 8 }, number: 9 };
        let head = Head { request, bytes: 100, reply: 5 };
        assert_eq!(Head::decode(&head.encode()), Some(head));
        assert_eq!(Head::decode(&[0; 24]), None);
    }
}
