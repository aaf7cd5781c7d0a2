//! The messages between those who open segments and their homes, and their bytes.

use super::key::Place;
use super::{Holdings, Key, Model, Name, Spec};
use crate::bytes::Reader;

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
        let of = |kind, id| Encoded(Vec::with_capacity(LONGEST)).u8(kind).u64(id);
        let encoded = match self {
            Message::Open { id, name, spec } => of(OPEN, id).u64(name.0).spec(spec),
            Message::Here { id, at, incarnation, again } => {
                of(HERE, id).place(at).u64(incarnation).u8(again.into())
            }
            Message::Otherwise { id, spec } => of(OTHERWISE, id).spec(spec),
            Message::NoMemory { id } => of(NO_MEMORY, id),
            Message::Enter { id, name, at } => of(ENTER, id).u64(name.0).place(at),
            Message::Granted { id, name, at, header } => of(GRANTED, id).u64(name.0).place(at).u64(header),
            Message::Leave { name, at, header } => of(LEAVE, name.0).place(at).u64(header),
            Message::Allocate { id, spec } => of(ALLOCATE, id).spec(spec),
            Message::Allocated { id, key } => of(ALLOCATED, id).some_key(key),
            Message::Bind { id, name, key, instead } => {
                of(BIND, id).u64(name.0).some_key(key).some_key(instead)
            }
            Message::Find { id, name } => of(FIND, id).u64(name.0),
            Message::Key { id, key } => of(KEY, id).some_key(key),
            Message::Release { id, key } => of(RELEASE, id).key(key),
            Message::Drain { key } => of(DRAIN, 0).key(key),
            Message::Drained { name, at } => of(DRAINED, name.0).place(at),
            Message::Revoked { key } => of(REVOKED, 0).key(key),
            Message::Done { id } => of(DONE, id),
            Message::Released { id } => of(RELEASED, id),
            Message::Count { id } => of(COUNT, id),
            Message::Join { id, key } => of(JOIN, id).key(key),
            Message::Joined { id, again } => of(JOINED, id).u8(again.into()),
            Message::Gone { id } => of(GONE, id),
            Message::Parted { name, at } => of(PARTED, name.0).place(at),
            Message::Holds { id, holdings: Holdings { segments, held, free, pieces, longest } } => {
                [segments, held, free, pieces, longest].into_iter().fold(of(HOLDS, id), Encoded::u64)
            }
        };
        encoded.0
    }

    /// Reads bytes; none if they are no message.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        let mut from = Reader(bytes);
        let (kind, id) = (from.u8()?, from.u64()?);
        let rest = &mut from;
        let message = match kind {
            OPEN => Message::Open { id, name: name(rest)?, spec: spec(rest)? },
            HERE => Message::Here { id, at: place(rest)?, incarnation: rest.u64()?, again: rest.flag()? },
            OTHERWISE => Message::Otherwise { id, spec: spec(rest)? },
            NO_MEMORY => Message::NoMemory { id },
            ENTER => Message::Enter { id, name: name(rest)?, at: place(rest)? },
            GRANTED => Message::Granted { id, name: name(rest)?, at: place(rest)?, header: rest.u64()? },
            LEAVE => Message::Leave { name: Name(id), at: place(rest)?, header: rest.u64()? },
            ALLOCATE => Message::Allocate { id, spec: spec(rest)? },
            ALLOCATED => Message::Allocated { id, key: some_key(rest)? },
            BIND => Message::Bind { id, name: name(rest)?, key: some_key(rest)?, instead: some_key(rest)? },
            FIND => Message::Find { id, name: name(rest)? },
            KEY => Message::Key { id, key: some_key(rest)? },
            RELEASE => Message::Release { id, key: key(rest)? },
            DRAIN if id == 0 => Message::Drain { key: key(rest)? },
            DRAINED => Message::Drained { name: Name(id), at: place(rest)? },
            REVOKED if id == 0 => Message::Revoked { key: key(rest)? },
            DONE => Message::Done { id },
            RELEASED => Message::Released { id },
            COUNT => Message::Count { id },
            JOIN => Message::Join { id, key: key(rest)? },
            JOINED => Message::Joined { id, again: rest.flag()? },
            GONE => Message::Gone { id },
            PARTED => Message::Parted { name: Name(id), at: place(rest)? },
            HOLDS => {
                let (segments, held, free) = (rest.u64()?, rest.u64()?, rest.u64()?);
                let (pieces, longest) = (rest.u64()?, rest.u64()?);
                Message::Holds { id, holdings: Holdings { segments, held, free, pieces, longest } }
            }
            _ => return None,
        };
        from.end(message)
    }
}

/// A message in the making.
struct Encoded(Vec<u8>);

impl Encoded {
    fn put(mut self, bytes: &[u8]) -> Encoded {
        self.0.extend_from_slice(bytes);
        self
    }

    fn u8(self, byte: u8) -> Encoded {
        self.put(&[byte])
    }

    fn u64(self, word: u64) -> Encoded {
        self.put(&word.to_le_bytes())
    }

    fn place(self, at: Place) -> Encoded {
        self.put(&at.to_bytes())
    }

    fn key(self, key: Key) -> Encoded {
        self.put(&key.to_bytes())
    }

    fn some_key(self, key: Option<Key>) -> Encoded {
        let to = self.u8(key.is_some().into());
        match key {
            Some(key) => to.key(key),
            None => to,
        }
    }

    fn spec(self, Spec { size, model }: Spec) -> Encoded {
        let (code, parameter) = model.code();
        self.put(&size.to_le_bytes()).u8(code).put(&parameter.to_le_bytes())
    }
}

fn name(from: &mut Reader<'_>) -> Option<Name> {
    from.u64().map(Name)
}

fn place(from: &mut Reader<'_>) -> Option<Place> {
    from.array().map(Place::from_bytes)
}

fn key(from: &mut Reader<'_>) -> Option<Key> {
    Key::from_bytes(from.split(Key::BYTES)?)
}

fn some_key(from: &mut Reader<'_>) -> Option<Option<Key>> {
    if from.flag()? { key(from).map(Some) } else { Some(None) }
}

fn spec(from: &mut Reader<'_>) -> Option<Spec> {
    Some(Spec { size: from.u32()?, model: Model::from_code(from.u8()?, from.u32()?)? })
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
