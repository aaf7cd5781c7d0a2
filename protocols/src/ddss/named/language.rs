//! Requests and replies as bytes: how a client's program asks, and a daemon answers. Little-endian; texts and values have their lengths
//! before them.

use super::{Key, Model, Name};
pub use crate::bytes::MalformedCall;
use crate::bytes::{Reader, Writer};
use crate::transport::Rank;
use weft_verbs::Nanos;

/// A version that somebody has seen of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The version.
    pub version: u64,
    /// Of which segment: a name that is removed and put anew stands for another one, whose versions begin anew. None for whatever the
    /// name stands for.
    pub of: Option<Which>,
}

impl Seen {
    /// Whether it is of this key's segment, for all that is known.
    pub(super) fn is_of(self, key: Key) -> bool {
        self.of.is_none_or(|of| of == Which::of(key))
    }
}

/// What tells a segment from all others that have been in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Which {
    name: Name,
    incarnation: u64,
}

impl Which {
    /// That of a key.
    pub(super) fn of(key: Key) -> Which {
        Which { name: key.name, incarnation: key.incarnation }
    }

    fn write(self, to: &mut Writer) {
        to.u64(self.name.0);
        to.u64(self.incarnation);
    }

    fn read(from: &mut Reader<'_>) -> Option<Which> {
        Some(Which { name: Name(from.u64()?), incarnation: from.u64()? })
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Make this the name's value; its segment is made if it is not there.
    Put {
        /// The name.
        name: String,
        /// The most bytes of its values, if the segment is to be made: by default a power of two.
        size: Option<u32>,
        /// The segment's model, by default version.
        model: Option<Model>,
        /// Where it is kept, by default where its name is.
        home: Option<Rank>,
        /// The value.
        value: Vec<u8>,
    },
    /// What is the value?
    Get {
        /// The name.
        name: String,
        /// What the asker has seen: it wants another version.
        known: Option<Seen>,
        /// For how long it waits for that.
        wait: Nanos,
    },
    /// Release the segment.
    Remove {
        /// The name.
        name: String,
    },
    /// What does this node keep?
    Kept {
        /// The number of a segment: of those behind it. None for all.
        after: Option<Name>,
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The value was put.
    Put {
        /// Its version; none under null.
        version: Option<u64>,
        /// Where it is kept.
        home: Rank,
    },
    /// The value.
    Value {
        /// Its version.
        version: u64,
        /// Its segment.
        of: Which,
        /// Where it is kept.
        home: Rank,
        /// Its segment's model.
        model: Model,
        /// The value.
        value: Vec<u8>,
    },
    /// The value is the one that the asker has.
    Same {
        /// Its version.
        version: u64,
    },
    /// The segment was released.
    Removed,
    /// What the node keeps.
    Kept {
        /// By the segments' numbers, as many as go into one answer.
        rows: Vec<Row>,
        /// The number of the last one, if there may be more behind it.
        more: Option<Name>,
    },
}

/// A segment that a node keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name of its value; none if a program keeps something of its own there.
    pub name: Option<String>,
    /// The value's version.
    pub version: u64,
    /// The value's length in bytes.
    pub len: u32,
    /// The longest value that fits, in bytes; of a program's own segment its size.
    pub size: u32,
    /// How many bytes of the node's memory it takes.
    pub memory: u64,
    /// Its model.
    pub model: Model,
}

const PUT: u8 = 1;
const GET: u8 = 2;
const REMOVE: u8 = 3;
const KEPT: u8 = 4;
const VALUE: u8 = 5;
const SAME: u8 = 6;

/// The fewest bytes of a row.
const SHORTEST_ROW: usize = 2 + 8 + 4 + 4 + 8 + 5;

impl Request {
    /// The name whose value may be another than before, once it was done.
    pub fn changes(&self) -> Option<&str> {
        match self {
            Request::Put { name, .. } | Request::Remove { name } => Some(name),
            Request::Get { .. } | Request::Kept { .. } => None,
        }
    }

    /// Its bytes.
    ///
    /// # Panics
    ///
    /// If a name has more than 1,024 bytes: none that is longer than [`LONGEST_NAME`](super::LONGEST_NAME) is served.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer(Vec::new());
        match self {
            Request::Put { name, size, model, home, value } => {
                to.u8(PUT);
                to.text(name);
                to.u32(size.unwrap_or(0));
                to.u8(model.is_some().into());
                write_model(&mut to, model.unwrap_or(Model::Version));
                to.u32(home.map_or(0, Rank::get));
                to.rest(value);
            }
            Request::Get { name, known, wait } => {
                to.u8(GET);
                to.text(name);
                to.some_u64(known.map(|seen| seen.version));
                let of = known.and_then(|seen| seen.of);
                to.u8(of.is_some().into());
                of.into_iter().for_each(|of| of.write(&mut to));
                to.u64(wait.0);
            }
            Request::Remove { name } => {
                to.u8(REMOVE);
                to.text(name);
            }
            Request::Kept { after } => {
                to.u8(KEPT);
                to.some_u64(after.map(|after| after.0));
            }
        }
        to.0
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// They are no request.
    pub fn from_bytes(bytes: &[u8]) -> Result<Request, MalformedCall> {
        Request::read(Reader(bytes)).ok_or(MalformedCall)
    }

    fn read(mut from: Reader<'_>) -> Option<Request> {
        let request = match from.u8()? {
            PUT => {
                let name = from.text()?;
                let size = from.u32()?;
                let size = (size > 0).then_some(size);
                let said = from.flag()?;
                let model = read_model(&mut from)?;
                let (model, home) = (said.then_some(model), Rank::new(from.u32()?));
                Request::Put { name, size, model, home, value: from.rest() }
            }
            GET => {
                let (name, version) = (from.text()?, from.some_u64()?);
                let of = if from.flag()? { Some(Which::read(&mut from)?) } else { None };
                let known = version.map(|version| Seen { version, of });
                Request::Get { name, known, wait: Nanos(from.u64()?) }
            }
            REMOVE => Request::Remove { name: from.text()? },
            KEPT => Request::Kept { after: from.some_u64()?.map(Name) },
            _ => return None,
        };
        from.end(request)
    }
}

impl Reply {
    /// Its bytes.
    ///
    /// # Panics
    ///
    /// If a name has more than 1,024 bytes: no value has one.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer(Vec::new());
        match self {
            Reply::Put { version, home } => {
                to.u8(PUT);
                to.some_u64(*version);
                to.u32(home.get());
            }
            Reply::Value { version, of, home, model, value } => {
                to.u8(VALUE);
                to.u64(*version);
                of.write(&mut to);
                to.u32(home.get());
                write_model(&mut to, *model);
                to.rest(value);
            }
            Reply::Same { version } => {
                to.u8(SAME);
                to.u64(*version);
            }
            Reply::Removed => to.u8(REMOVE),
            Reply::Kept { rows, more } => {
                to.u8(KEPT);
                to.some_u64(more.map(|more| more.0));
                to.u32(rows.len() as u32);
                rows.iter().for_each(|row| row.write(&mut to));
            }
        }
        to.0
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// They are no reply.
    pub fn from_bytes(bytes: &[u8]) -> Result<Reply, MalformedCall> {
        Reply::read(Reader(bytes)).ok_or(MalformedCall)
    }

    fn read(mut from: Reader<'_>) -> Option<Reply> {
        let reply = match from.u8()? {
            PUT => Reply::Put { version: from.some_u64()?, home: from.rank()? },
            VALUE => {
                let (version, of) = (from.u64()?, Which::read(&mut from)?);
                let (home, model) = (from.rank()?, read_model(&mut from)?);
                Reply::Value { version, of, home, model, value: from.rest() }
            }
            SAME => Reply::Same { version: from.u64()? },
            REMOVE => Reply::Removed,
            KEPT => {
                let more = from.some_u64()?.map(Name);
                Reply::Kept { rows: from.list(SHORTEST_ROW, Row::read)?, more }
            }
            _ => return None,
        };
        from.end(reply)
    }
}

fn write_model(to: &mut Writer, model: Model) {
    let (code, parameter) = model.code();
    to.u8(code);
    to.u32(parameter);
}

fn read_model(from: &mut Reader<'_>) -> Option<Model> {
    Model::from_code(from.u8()?, from.u32()?)
}

impl Row {
    /// How many bytes it is in a reply.
    pub(super) fn len_in_bytes(&self) -> usize {
        SHORTEST_ROW + self.name.as_ref().map_or(0, String::len)
    }

    fn write(&self, to: &mut Writer) {
        let Row { name, version, len, size, memory, model } = self;
        // No name is empty.
        to.text(name.as_deref().unwrap_or(""));
        to.u64(*version);
        to.u32(*len);
        to.u32(*size);
        to.u64(*memory);
        write_model(to, *model);
    }

    fn read(from: &mut Reader<'_>) -> Option<Row> {
        let name = Some(from.text()?).filter(|name| !name.is_empty());
        let (version, len, size, memory) = (from.u64()?, from.u32()?, from.u32()?, from.u64()?);
        Some(Row { name, version, len, size, memory, model: read_model(from)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn models() -> impl Strategy<Value = Model> {
        prop::sample::select(Model::ALL.to_vec())
    }

    fn ranks() -> impl Strategy<Value = Rank> {
        (0_u32..9).prop_map(Rank::from_index)
    }

    fn values() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..50)
    }

    prop_compose! {
        fn rows()(
            name in prop::option::of("[a-z]{1,9}"), version in any::<u64>(), len in any::<u32>(), size in any::<u32>(),
            memory in any::<u64>(), model in models(),
        ) -> Row {
            Row { name, version, len, size, memory, model }
        }
    }

    prop_compose! {
        fn which()(name in any::<u64>(), incarnation in any::<u64>()) -> Which {
            Which { name: Name(name), incarnation }
        }
    }

    prop_compose! {
        fn seen()(version in any::<u64>(), of in prop::option::of(which())) -> Seen {
            Seen { version, of }
        }
    }

    fn requests() -> impl Strategy<Value = Request> {
        let (name, size) = ("[a-z]{1,9}", prop::option::of(1_u32..9));
        let put = (name, size, prop::option::of(models()), prop::option::of(ranks()), values())
            .prop_map(|(name, size, model, home, value)| Request::Put { name, size, model, home, value });
        let get = (name, prop::option::of(seen()), any::<u64>())
            .prop_map(|(name, known, wait)| Request::Get { name, known, wait: Nanos(wait) });
        let kept = any::<Option<u64>>().prop_map(|after| Request::Kept { after: after.map(Name) });
        prop_oneof![put, get, name.prop_map(|name| Request::Remove { name }), kept]
    }

    fn replies() -> impl Strategy<Value = Reply> {
        let put = (any::<Option<u64>>(), ranks()).prop_map(|(version, home)| Reply::Put { version, home });
        let value = (any::<u64>(), which(), ranks(), models(), values())
            .prop_map(|(version, of, home, model, value)| Reply::Value { version, of, home, model, value });
        let same = any::<u64>().prop_map(|version| Reply::Same { version });
        let kept = (prop::collection::vec(rows(), 0..4), any::<Option<u64>>())
            .prop_map(|(rows, more)| Reply::Kept { rows, more: more.map(Name) });
        prop_oneof![put, value, same, kept, Just(Reply::Removed)]
    }

    proptest! {
        #[test]
        fn requests_and_replies_survive_their_bytes(request in requests(), reply in replies()) {
            prop_assert_eq!(Request::from_bytes(&request.to_bytes()), Ok(request));
            if let Reply::Kept { rows, .. } = &reply {
                let empty = Reply::Kept { rows: Vec::new(), more: None }.to_bytes().len();
                let len: usize = rows.iter().map(Row::len_in_bytes).sum();
                prop_assert_eq!(reply.to_bytes().len(), empty + len);
            }
            prop_assert_eq!(Reply::from_bytes(&reply.to_bytes()), Ok(reply));
        }

        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in values()) {
            let _ = Request::from_bytes(&bytes);
            let _ = Reply::from_bytes(&bytes);
        }
    }

    #[test]
    fn announced_rows_take_no_memory() {
        let bytes = [&[KEPT][..], &[0; 9], &u32::MAX.to_le_bytes(), &[0; 40]].concat();
        assert_eq!(Reply::from_bytes(&bytes), Err(MalformedCall));
    }
}
