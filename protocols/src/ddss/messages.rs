//! The messages between those who open segments and their homes, and their bytes.

use super::{Model, Name, Spec};
use weft_verbs::RemoteSlice;

/// To a segment's home, and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// Where is this segment? It is made if it is not there.
    Open { id: u64, name: Name, spec: Spec },
    /// Here.
    Here { id: u64, at: RemoteSlice },
    /// It is there, and is otherwise.
    Otherwise { id: u64, spec: Spec },
    /// There is no memory for it.
    NoMemory { id: u64 },
}

const OPEN: u8 = 1;
const HERE: u8 = 2;
const OTHERWISE: u8 = 3;
const NO_MEMORY: u8 = 4;

/// The longest message.
pub(super) const LONGEST: usize = 1 + 8 + 16;

impl Message {
    /// Its bytes: a kind, the request's number, and what the kind has; little-endian.
    pub fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LONGEST);
        let mut head = |kind: u8, id: u64| {
            bytes.push(kind);
            bytes.extend(id.to_le_bytes());
        };
        match self {
            Message::Open { id, name, spec } => {
                head(OPEN, id);
                bytes.extend(name.0.to_le_bytes());
                put_spec(spec, &mut bytes);
            }
            Message::Here { id, at } => {
                head(HERE, id);
                bytes.extend(at.to_bytes());
            }
            Message::Otherwise { id, spec } => {
                head(OTHERWISE, id);
                put_spec(spec, &mut bytes);
            }
            Message::NoMemory { id } => head(NO_MEMORY, id),
        }
        bytes
    }

    /// Reads bytes; none if they are no message.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        let (&kind, rest) = bytes.split_first()?;
        let (id, rest) = take_u64(rest)?;
        match kind {
            OPEN => {
                let (name, rest) = take_u64(rest)?;
                Some(Message::Open { id, name: Name(name), spec: take_spec(rest)? })
            }
            HERE => Some(Message::Here { id, at: RemoteSlice::from_bytes(rest.try_into().ok()?) }),
            OTHERWISE => Some(Message::Otherwise { id, spec: take_spec(rest)? }),
            NO_MEMORY if rest.is_empty() => Some(Message::NoMemory { id }),
            _ => None,
        }
    }
}

fn put_spec(Spec { size, model }: Spec, to: &mut Vec<u8>) {
    to.extend(size.to_le_bytes());
    to.push(model.code());
}

fn take_spec(bytes: &[u8]) -> Option<Spec> {
    let (size, rest) = bytes.split_first_chunk()?;
    let [code] = *rest else { return None };
    Some(Spec { size: u32::from_le_bytes(*size), model: Model::from_code(code)? })
}

fn take_u64(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (word, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*word), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_survives_its_bytes_and_no_part_of_it_is_one() {
        let spec = Spec { size: 64, model: Model::Write };
        let at = RemoteSlice { addr: 1 << 40, len: 99, rkey: 7 };
        for message in [
            Message::Open { id: 3, name: Name(9), spec },
            Message::Here { id: 3, at },
            Message::Otherwise { id: 3, spec },
            Message::NoMemory { id: 3 },
        ] {
            let bytes = message.encode();
            assert!(bytes.len() <= LONGEST);
            assert_eq!(Message::decode(&bytes), Some(message));
            assert!((0..bytes.len()).all(|end| Message::decode(&bytes[..end]).is_none()), "{message:?}");
        }
    }
}
