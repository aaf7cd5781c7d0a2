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
        self.each(at, bytes, |byte, coded| *byte = coded);
    }

    /// Whether bytes are those that begin at a position.
    pub fn is_at(self, at: u64, bytes: &[u8]) -> bool {
        let mut right = true;
        self.each(at, bytes.iter(), |byte, coded| right &= *byte == coded);
        right
    }

    fn each<T>(self, at: u64, bytes: impl IntoIterator<Item = T>, mut run: impl FnMut(T, u8)) {
        let (mut number, mut skip) = (at / 8, (at % 8) as usize);
        let mut word = self.word(number);
        for byte in bytes {
            if skip == 8 {
                number += 1;
                (word, skip) = (self.word(number), 0);
            }
            run(byte, word[skip]);
            skip += 1;
        }
    }
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
    fn a_head_is_told_by_its_bytes() {
        let request = RequestId { client: ClientId { node: 7, index: 8 }, number: 9 };
        let head = Head { request, bytes: 100, reply: 5 };
        assert_eq!(Head::decode(&head.encode()), Some(head));
        assert_eq!(Head::decode(&[0; 24]), None);
    }
}
