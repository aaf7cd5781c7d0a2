//! Requests and replies as bytes: how a client's program asks, and a daemon answers. Little-endian; texts and values have their lengths
//! before them.

use super::{LONGEST_NAME, Model};
use crate::transport::Rank;
use thiserror::Error;
use weft_verbs::Nanos;

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
        /// Where it is kept, by default on one node after the other.
        home: Option<Rank>,
        /// The value.
        value: Vec<u8>,
    },
    /// What is the value?
    Get {
        /// The name.
        name: String,
        /// The version that the asker has: it wants another one.
        known: Option<u64>,
        /// For how long it waits for that.
        wait: Nanos,
    },
    /// Release the segment.
    Remove {
        /// The name.
        name: String,
    },
    /// What does this node keep?
    Kept,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The value was put.
    Put {
        /// Its version, if it can be told.
        version: Option<u64>,
        /// Where it is kept.
        home: Rank,
    },
    /// The value.
    Value {
        /// Its version.
        version: u64,
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
    Kept(Vec<Row>),
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
    /// The segment's size in bytes.
    pub size: u32,
    /// How many bytes of the node's memory it takes.
    pub memory: u64,
    /// Its model.
    pub model: Model,
}

/// What came is no request and no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("this is none of the messages of segments: are both programs of one version?")]
pub struct MalformedCall;

const PUT: u8 = 1;
const GET: u8 = 2;
const REMOVE: u8 = 3;
const KEPT: u8 = 4;
const VALUE: u8 = 5;
const SAME: u8 = 6;

/// The fewest bytes of a row: more rows than that are not announced.
const SHORTEST_ROW: usize = 1 + 8 + 4 + 4 + 8 + 5;

impl Request {
    /// Its bytes.
    ///
    /// # Panics
    ///
    /// If a name has more than 255 bytes, or a value more than 2^32.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer(Vec::new());
        match self {
            Request::Put { name, size, model, home, value } => {
                to.u8(PUT);
                to.name(name);
                to.u32(size.unwrap_or(0));
                to.u8(model.is_some().into());
                to.model(model.unwrap_or(Model::Version));
                to.u32(home.map_or(0, Rank::get));
                to.0.extend_from_slice(value);
            }
            Request::Get { name, known, wait } => {
                to.u8(GET);
                to.name(name);
                to.version(*known);
                to.u64(wait.0);
            }
            Request::Remove { name } => {
                to.u8(REMOVE);
                to.name(name);
            }
            Request::Kept => to.u8(KEPT),
        }
        to.0
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// They are no request.
    pub fn from_bytes(bytes: &[u8]) -> Result<Request, MalformedCall> {
        let mut from = Reader(bytes);
        let request = match from.u8()? {
            PUT => {
                let name = from.name()?;
                let size = from.u32()?;
                let size = (size > 0).then_some(size);
                let said = from.flag()?;
                let model = from.model()?;
                let (model, home) = (said.then_some(model), Rank::new(from.u32()?));
                Request::Put { name, size, model, home, value: from.rest() }
            }
            GET => Request::Get { name: from.name()?, known: from.version()?, wait: Nanos(from.u64()?) },
            REMOVE => Request::Remove { name: from.name()? },
            KEPT => Request::Kept,
            _ => return Err(MalformedCall),
        };
        from.end(request)
    }
}

impl Reply {
    /// Its bytes.
    ///
    /// # Panics
    ///
    /// If a name has more than 255 bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer(Vec::new());
        match self {
            Reply::Put { version, home } => {
                to.u8(PUT);
                to.version(*version);
                to.u32(home.get());
            }
            Reply::Value { version, home, model, value } => {
                to.u8(VALUE);
                to.u64(*version);
                to.u32(home.get());
                to.model(*model);
                to.0.extend_from_slice(value);
            }
            Reply::Same { version } => {
                to.u8(SAME);
                to.u64(*version);
            }
            Reply::Removed => to.u8(REMOVE),
            Reply::Kept(rows) => {
                to.u8(KEPT);
                to.u32(rows.len() as u32);
                rows.iter().for_each(|row| to.row(row));
            }
        }
        to.0
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// They are no reply.
    pub fn from_bytes(bytes: &[u8]) -> Result<Reply, MalformedCall> {
        let mut from = Reader(bytes);
        let reply = match from.u8()? {
            PUT => Reply::Put { version: from.version()?, home: from.rank()? },
            VALUE => {
                let (version, home, model) = (from.u64()?, from.rank()?, from.model()?);
                Reply::Value { version, home, model, value: from.rest() }
            }
            SAME => Reply::Same { version: from.u64()? },
            REMOVE => Reply::Removed,
            KEPT => {
                let rows = from.u32()? as usize;
                if rows > from.0.len() / SHORTEST_ROW {
                    return Err(MalformedCall);
                }
                Reply::Kept((0..rows).map(|_| from.row()).collect::<Result<_, _>>()?)
            }
            _ => return Err(MalformedCall),
        };
        from.end(reply)
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn u32(&mut self, word: u32) {
        self.0.extend(word.to_le_bytes());
    }

    fn u64(&mut self, word: u64) {
        self.0.extend(word.to_le_bytes());
    }

    fn name(&mut self, name: &str) {
        assert!(name.len() <= LONGEST_NAME, "a name of {} bytes", name.len());
        self.u8(name.len() as u8);
        self.0.extend_from_slice(name.as_bytes());
    }

    fn model(&mut self, model: Model) {
        let (code, parameter) = model.code();
        self.u8(code);
        self.u32(parameter);
    }

    fn version(&mut self, version: Option<u64>) {
        self.u8(version.is_some().into());
        self.u64(version.unwrap_or(0));
    }

    fn row(&mut self, Row { name, version, len, size, memory, model }: &Row) {
        // No name is empty.
        self.name(name.as_deref().unwrap_or(""));
        self.u64(*version);
        self.u32(*len);
        self.u32(*size);
        self.u64(*memory);
        self.model(*model);
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], MalformedCall> {
        let (head, rest) = self.0.split_first_chunk().ok_or(MalformedCall)?;
        self.0 = rest;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, MalformedCall> {
        self.array().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Result<u32, MalformedCall> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, MalformedCall> {
        self.array().map(u64::from_le_bytes)
    }

    fn flag(&mut self) -> Result<bool, MalformedCall> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(MalformedCall),
        }
    }

    fn name(&mut self) -> Result<String, MalformedCall> {
        let len = usize::from(self.u8()?);
        let (name, rest) = self.0.split_at_checked(len).ok_or(MalformedCall)?;
        self.0 = rest;
        String::from_utf8(name.to_vec()).map_err(|_| MalformedCall)
    }

    fn rank(&mut self) -> Result<Rank, MalformedCall> {
        Rank::new(self.u32()?).ok_or(MalformedCall)
    }

    fn model(&mut self) -> Result<Model, MalformedCall> {
        Model::from_code(self.u8()?, self.u32()?).ok_or(MalformedCall)
    }

    fn version(&mut self) -> Result<Option<u64>, MalformedCall> {
        let there = self.flag()?;
        Ok(Some(self.u64()?).filter(|_| there))
    }

    fn row(&mut self) -> Result<Row, MalformedCall> {
        let name = Some(self.name()?).filter(|name| !name.is_empty());
        let (version, len, size, memory) = (self.u64()?, self.u32()?, self.u32()?, self.u64()?);
        Ok(Row { name, version, len, size, memory, model: self.model()? })
    }

    fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }

    fn end<T>(self, message: T) -> Result<T, MalformedCall> {
        self.0.is_empty().then_some(message).ok_or(MalformedCall)
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

    fn requests() -> impl Strategy<Value = Request> {
        let (name, size) = ("[a-z]{1,9}", prop::option::of(1_u32..9));
        let put = (name, size, prop::option::of(models()), prop::option::of(ranks()), values())
            .prop_map(|(name, size, model, home, value)| Request::Put { name, size, model, home, value });
        let get = (name, any::<Option<u64>>(), any::<u64>()).prop_map(|(name, known, wait)| Request::Get {
            name,
            known,
            wait: Nanos(wait),
        });
        prop_oneof![put, get, name.prop_map(|name| Request::Remove { name }), Just(Request::Kept)]
    }

    fn replies() -> impl Strategy<Value = Reply> {
        let put = (any::<Option<u64>>(), ranks()).prop_map(|(version, home)| Reply::Put { version, home });
        let value = (any::<u64>(), ranks(), models(), values())
            .prop_map(|(version, home, model, value)| Reply::Value { version, home, model, value });
        let same = any::<u64>().prop_map(|version| Reply::Same { version });
        let kept = prop::collection::vec(rows(), 0..4).prop_map(Reply::Kept);
        prop_oneof![put, value, same, kept, Just(Reply::Removed)]
    }

    proptest! {
        #[test]
        fn requests_and_replies_survive_their_bytes(request in requests(), reply in replies()) {
            prop_assert_eq!(Request::from_bytes(&request.to_bytes()), Ok(request));
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
        let bytes = [&[KEPT][..], &u32::MAX.to_le_bytes(), &[0; 40]].concat();
        assert_eq!(Reply::from_bytes(&bytes), Err(MalformedCall));
    }
}
