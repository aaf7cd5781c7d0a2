//! The messages between those who open segments and their homes, and their bytes.

use super::key::Place;
use super::{Holdings, Key, Model, Name, Spec};

/// To a segment's home, and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// Where is this segment? It is made if it is not there.
    Open { id: u64, name: Name, spec: Spec },
    /// Here, kept by this incarnation of the sender. `again`: an earlier incarnation of the asker had a part in it.
    Here { id: u64, at: Place, incarnation: u64, again: bool },
    /// It is there, and is otherwise.
    Otherwise { id: u64, spec: Spec },
    /// There is no memory for it.
    NoMemory { id: u64 },
    /// A turn at the segment of this name at this place is wanted: another one may have the name by now.
    Enter { id: u64, name: Name, at: Place },
    /// It is the asker's turn there. The header is probably this word.
    Granted { id: u64, name: Name, at: Place, header: u64 },
    /// The sender's turn there has ended, with this header.
    Leave { name: Name, at: Place, header: u64 },
    /// A segment is wanted.
    Allocate { id: u64, spec: Spec },
    /// It was made, or there is no memory for it.
    Allocated { id: u64, key: Option<Key> },
    /// This name is to stand for this key, or for none, if it stands for the other or for none.
    Bind { id: u64, name: Name, key: Option<Key>, instead: Option<Key> },
    /// What does this name stand for?
    Find { id: u64, name: Name },
    /// The key that was asked for, or none.
    Key { id: u64, key: Option<Key> },
    /// This segment is to be released.
    Release { id: u64, key: Key },
    /// Nothing is to be posted to this segment any more, nor is it a name's.
    Drain { key: Key },
    /// Nothing of the sender's is under way to this segment, nor will be.
    Drained { name: Name, at: Place },
    /// The segment's keys are revoked.
    Revoked { key: Key },
    /// The segment was released by this request.
    Done { id: u64 },
    /// The request came too late: its segment has been released, or is being released.
    Released { id: u64 },
    /// What does the node hold?
    Count { id: u64 },
    /// This.
    Holds { id: u64, holdings: Holdings },
    /// Is the segment of this key there? The asker is to have a part in it.
    Join { id: u64, key: Key },
    /// It is, and has. `again`: an earlier incarnation of the asker had one.
    Joined { id: u64, again: bool },
    /// What was asked for was kept by another incarnation of the sender.
    Gone { id: u64 },
    /// The sender has no part in this segment any more, and nothing of its own is under way to it.
    Parted { name: Name, at: Place },
}

const OPEN: u8 = 1;
const HERE: u8 = 2;
const OTHERWISE: u8 = 3;
const NO_MEMORY: u8 = 4;
const ENTER: u8 = 5;
const GRANTED: u8 = 6;
const LEAVE: u8 = 7;
const ALLOCATE: u8 = 8;
const BIND: u8 = 9;
const FIND: u8 = 10;
const KEY: u8 = 11;
const RELEASE: u8 = 12;
const DRAIN: u8 = 13;
const DRAINED: u8 = 14;
const REVOKED: u8 = 15;
const DONE: u8 = 16;
const RELEASED: u8 = 17;
const COUNT: u8 = 18;
const HOLDS: u8 = 19;
const JOIN: u8 = 20;
const PARTED: u8 = 21;
const JOINED: u8 = 22;
const GONE: u8 = 23;
const ALLOCATED: u8 = 24;

/// The longest message.
pub(super) const LONGEST: usize = 1 + 8 + 8 + 2 * (1 + Key::BYTES);

impl Message {
    /// Whether it is the begin of a call of its sender's, who waits for the answer.
    pub fn is_call(&self) -> bool {
        use Message::{Allocate, Bind, Count, Enter, Find, Join, Open, Release};
        let of_segments = matches!(self, Open { .. } | Join { .. } | Enter { .. } | Release { .. });
        of_segments || matches!(self, Allocate { .. } | Bind { .. } | Find { .. } | Count { .. })
    }

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
            Message::Here { id, at, incarnation, again } => {
                head(HERE, id);
                bytes.extend(at.to_bytes());
                bytes.extend(incarnation.to_le_bytes());
                bytes.push(again.into());
            }
            Message::Otherwise { id, spec } => {
                head(OTHERWISE, id);
                put_spec(spec, &mut bytes);
            }
            Message::NoMemory { id } => head(NO_MEMORY, id),
            Message::Enter { id, name, at } => {
                head(ENTER, id);
                bytes.extend(name.0.to_le_bytes());
                bytes.extend(at.to_bytes());
            }
            Message::Granted { id, name, at, header } => {
                head(GRANTED, id);
                bytes.extend(name.0.to_le_bytes());
                bytes.extend(at.to_bytes());
                bytes.extend(header.to_le_bytes());
            }
            Message::Leave { name, at, header } => {
                head(LEAVE, name.0);
                bytes.extend(at.to_bytes());
                bytes.extend(header.to_le_bytes());
            }
            Message::Allocate { id, spec } => {
                head(ALLOCATE, id);
                put_spec(spec, &mut bytes);
            }
            Message::Allocated { id, key } => {
                head(ALLOCATED, id);
                put_key(key, &mut bytes);
            }
            Message::Bind { id, name, key, instead } => {
                head(BIND, id);
                bytes.extend(name.0.to_le_bytes());
                put_key(key, &mut bytes);
                put_key(instead, &mut bytes);
            }
            Message::Find { id, name } => {
                head(FIND, id);
                bytes.extend(name.0.to_le_bytes());
            }
            Message::Key { id, key } => {
                head(KEY, id);
                put_key(key, &mut bytes);
            }
            Message::Release { id, key } => {
                head(RELEASE, id);
                bytes.extend(key.to_bytes());
            }
            Message::Drain { key } => {
                head(DRAIN, 0);
                bytes.extend(key.to_bytes());
            }
            Message::Drained { name, at } => {
                head(DRAINED, name.0);
                bytes.extend(at.to_bytes());
            }
            Message::Revoked { key } => {
                head(REVOKED, 0);
                bytes.extend(key.to_bytes());
            }
            Message::Done { id } => head(DONE, id),
            Message::Released { id } => head(RELEASED, id),
            Message::Count { id } => head(COUNT, id),
            Message::Join { id, key } => {
                head(JOIN, id);
                bytes.extend(key.to_bytes());
            }
            Message::Joined { id, again } => {
                head(JOINED, id);
                bytes.push(again.into());
            }
            Message::Gone { id } => head(GONE, id),
            Message::Parted { name, at } => {
                head(PARTED, name.0);
                bytes.extend(at.to_bytes());
            }
            Message::Holds { id, holdings } => {
                head(HOLDS, id);
                let Holdings { segments, held, free, pieces, longest } = holdings;
                bytes.extend([segments, held, free, pieces, longest].into_iter().flat_map(u64::to_le_bytes));
            }
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
            HERE => {
                let (at, rest) = take_place(rest)?;
                let (incarnation, rest) = take_u64(rest)?;
                Some(Message::Here { id, at, incarnation, again: whole_bool(rest)? })
            }
            OTHERWISE => Some(Message::Otherwise { id, spec: take_spec(rest)? }),
            NO_MEMORY if rest.is_empty() => Some(Message::NoMemory { id }),
            ENTER => {
                let (name, rest) = take_u64(rest)?;
                Some(Message::Enter { id, name: Name(name), at: whole_place(rest)? })
            }
            GRANTED => {
                let (name, rest) = take_u64(rest)?;
                let (at, rest) = take_place(rest)?;
                Some(Message::Granted { id, name: Name(name), at, header: whole_u64(rest)? })
            }
            LEAVE => {
                let (at, rest) = take_place(rest)?;
                Some(Message::Leave { name: Name(id), at, header: whole_u64(rest)? })
            }
            ALLOCATE => Some(Message::Allocate { id, spec: take_spec(rest)? }),
            BIND => {
                let (name, rest) = take_u64(rest)?;
                let (key, rest) = take_key(rest)?;
                let (instead, []) = take_key(rest)? else { return None };
                Some(Message::Bind { id, name: Name(name), key, instead })
            }
            FIND => Some(Message::Find { id, name: Name(whole_u64(rest)?) }),
            KEY => {
                let (key, []) = take_key(rest)? else { return None };
                Some(Message::Key { id, key })
            }
            ALLOCATED => {
                let (key, []) = take_key(rest)? else { return None };
                Some(Message::Allocated { id, key })
            }
            RELEASE => Some(Message::Release { id, key: Key::from_bytes(rest)? }),
            DRAIN => Some(Message::Drain { key: Key::from_bytes(rest)? }),
            DRAINED => Some(Message::Drained { name: Name(id), at: whole_place(rest)? }),
            REVOKED => Some(Message::Revoked { key: Key::from_bytes(rest)? }),
            DONE if rest.is_empty() => Some(Message::Done { id }),
            RELEASED if rest.is_empty() => Some(Message::Released { id }),
            COUNT if rest.is_empty() => Some(Message::Count { id }),
            JOIN => Some(Message::Join { id, key: Key::from_bytes(rest)? }),
            JOINED => Some(Message::Joined { id, again: whole_bool(rest)? }),
            GONE if rest.is_empty() => Some(Message::Gone { id }),
            PARTED => Some(Message::Parted { name: Name(id), at: whole_place(rest)? }),
            HOLDS => {
                let (words, []) = rest.as_chunks() else { return None };
                let [segments, held, free, pieces, longest] =
                    <[[u8; 8]; 5]>::try_from(words).ok()?.map(u64::from_le_bytes);
                Some(Message::Holds { id, holdings: Holdings { segments, held, free, pieces, longest } })
            }
            _ => None,
        }
    }
}

fn put_key(key: Option<Key>, to: &mut Vec<u8>) {
    to.push(key.is_some().into());
    to.extend(key.iter().flat_map(Key::to_bytes));
}

fn take_key(bytes: &[u8]) -> Option<(Option<Key>, &[u8])> {
    match bytes.split_first()? {
        (0, rest) => Some((None, rest)),
        (1, rest) => {
            let (key, rest) = rest.split_at_checked(Key::BYTES)?;
            Some((Some(Key::from_bytes(key)?), rest))
        }
        _ => None,
    }
}

fn put_spec(Spec { size, model }: Spec, to: &mut Vec<u8>) {
    let (code, parameter) = model.code();
    to.extend(size.to_le_bytes());
    to.push(code);
    to.extend(parameter.to_le_bytes());
}

fn take_spec(bytes: &[u8]) -> Option<Spec> {
    let (size, rest) = bytes.split_first_chunk()?;
    let (&code, rest) = rest.split_first()?;
    let parameter = u32::from_le_bytes(rest.try_into().ok()?);
    Some(Spec { size: u32::from_le_bytes(*size), model: Model::from_code(code, parameter)? })
}

fn whole_place(bytes: &[u8]) -> Option<Place> {
    let (at, []) = take_place(bytes)? else { return None };
    Some(at)
}

fn take_place(bytes: &[u8]) -> Option<(Place, &[u8])> {
    let (at, rest) = bytes.split_first_chunk()?;
    Some((Place::from_bytes(*at), rest))
}

fn whole_bool(bytes: &[u8]) -> Option<bool> {
    match bytes {
        [0] => Some(false),
        [1] => Some(true),
        _ => None,
    }
}

fn whole_u64(bytes: &[u8]) -> Option<u64> {
    take_u64(bytes).filter(|(_, rest)| rest.is_empty()).map(|(word, _)| word)
}

fn take_u64(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (word, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*word), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Rank;
    use proptest::prelude::*;
    use weft_verbs::RemoteSlice;

    proptest! {
        /// A peer may send anything. What is a message has one form, and whatever is none is refused.
        #[test]
        fn any_bytes_are_a_message_in_its_one_form_or_none(
            kind in 0..26u8,
            rest in prop::collection::vec(any::<u8>(), 0..LONGEST),
            small in any::<bool>(),
        ) {
            // Small numbers are more often a model, a rank, or whether there is something.
            let rest = rest.into_iter().map(|byte| if small { byte % 8 } else { byte });
            let bytes: Vec<u8> = std::iter::once(kind).chain(rest).collect();
            if let Some(message) = Message::decode(&bytes) {
                prop_assert!(message.encode() == bytes, "{message:?}");
            }
        }
    }

    #[test]
    fn every_message_survives_its_bytes_and_no_part_of_it_is_one() {
        let spec = Spec { size: 64, model: Model::Delta(3) };
        let at = Place { memory: RemoteSlice { addr: 1 << 40, len: 99, rkey: 7 }, number: 3 };
        let key = Key { home: Rank::from_index(1), incarnation: 11, name: Name(4), spec, at };
        for message in [
            Message::Open { id: 3, name: Name(9), spec },
            Message::Here { id: 3, at, incarnation: 11, again: true },
            Message::Otherwise { id: 3, spec },
            Message::NoMemory { id: 3 },
            Message::Enter { id: 3, name: Name(9), at },
            Message::Granted { id: 3, name: Name(9), at, header: 77 },
            Message::Leave { name: Name(9), at, header: 77 },
            Message::Allocate { id: 3, spec },
            Message::Bind { id: 3, name: Name(9), key: Some(key), instead: None },
            Message::Bind { id: 3, name: Name(9), key: None, instead: Some(key) },
            Message::Find { id: 3, name: Name(9) },
            Message::Key { id: 3, key: Some(key) },
            Message::Key { id: 3, key: None },
            Message::Allocated { id: 3, key: Some(key) },
            Message::Allocated { id: 3, key: None },
            Message::Release { id: 3, key },
            Message::Drain { key },
            Message::Drained { name: Name(9), at },
            Message::Revoked { key },
            Message::Done { id: 3 },
            Message::Released { id: 3 },
            Message::Count { id: 3 },
            Message::Join { id: 3, key },
            Message::Joined { id: 3, again: false },
            Message::Gone { id: 3 },
            Message::Parted { name: Name(9), at },
            Message::Holds { id: 3, holdings: Holdings { held: 9, ..Holdings::default() } },
        ] {
            let bytes = message.encode();
            assert!(bytes.len() <= LONGEST);
            assert_eq!(Message::decode(&bytes), Some(message));
            assert!((0..bytes.len()).all(|end| Message::decode(&bytes[..end]).is_none()), "{message:?}");
        }
    }
}
