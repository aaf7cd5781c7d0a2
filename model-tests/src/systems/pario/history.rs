//! What the clients of files asked for and what they got.

use super::content::{Run, Value};
use crate::history::{ClientId, HistoryEvent, RequestId, Stage};
use crate::oracle::CallEvent;
use serde::{Deserialize, Serialize};
use std::fmt;
use weft_verbs::Nanos;

/// Something that a client saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, by the node's clock, in nanoseconds.
    pub at_ns: u64,
    /// The request it is about. A request is one call of the service after the other.
    pub request: RequestId,
    /// What happened.
    pub what: What,
}

/// A call of the service. Files go by handle once they are open, names by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Call {
    /// Makes a file.
    Create(u32),
    /// Opens one.
    Open(u32),
    /// Removes a name.
    Unlink(u32),
    /// Gives a file another name.
    Rename(u32, u32),
    /// Asks what is told of a file beside its bytes.
    Stat(u32),
    /// Says what is to be told of a file: when it was changed.
    Say(u32),
    /// Makes a directory of names.
    MakeDirectory(u32),
    /// Asks for all names.
    List,
    /// Closes a file.
    Close(u64),
    /// Makes a file's bytes durable.
    Sync(u64),
    /// Writes cells.
    Write(Cells),
    /// Reads cells.
    Read(Cells),
    /// Appends so many cells of so many bytes to a file.
    Append(u64, u32, u32),
    /// Cuts a file to so many cells of so many bytes.
    Truncate(u64, u64, u32),
    /// Waits until so many members of a group have come to a barrier, by its number.
    Meet(u32, u32),
    /// Waits until the first member of a group, which is this client, has cut a file.
    CutBy(ClientId, u64),
}

impl Call {
    /// Whether it is about the bytes of a file that is open.
    pub fn is_of_bytes(self) -> bool {
        matches!(self, Call::Write(_) | Call::Read(_) | Call::Append(..) | Call::Truncate(..))
    }
}

/// Cells of a file: rows of some side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cells {
    /// The file's handle.
    pub file: u64,
    /// The first cell.
    pub first: u64,
    /// How many of a row.
    pub cells: u32,
    /// How many rows.
    pub rows: u32,
    /// From the first cell of a row to that of the next.
    pub stride: u64,
    /// How many bytes each has.
    pub bytes: u32,
}

impl Cells {
    /// All their bytes.
    pub fn len(self) -> u64 {
        u64::from(self.rows) * u64::from(self.cells) * u64::from(self.bytes)
    }

    /// The first cells of the rows.
    pub fn rows(self) -> impl Iterator<Item = u64> {
        (0..u64::from(self.rows)).map(move |row| self.first + row * self.stride)
    }

    /// Each cell.
    pub fn all(self) -> impl Iterator<Item = u64> {
        self.rows().flat_map(move |first| first..first + u64::from(self.cells))
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// What happened to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// The client calls.
    Calls(Call),
    /// It is done: what was opened or made has this handle.
    Opened(u64),
    /// It is done.
    Done,
    /// There is such a name already.
    Exists,
    /// There is no such name.
    NotFound,
    /// It is done, and lies from this byte on.
    At(u64),
    /// What is told of a file: its handle and its size in bytes; and who said when it was changed, if that was told.
    Told {
        /// The file's handle.
        file: u64,
        /// Its size in bytes.
        size: u64,
        /// Whose word its attributes are.
        said: Option<Value>,
    },
    /// All names.
    Names(Vec<u32>),
    /// What the cells have; what is not told of them is beyond the file's end.
    Has(Vec<Run>),
    /// Writes that were answered and not synced are lost.
    Lost,
    /// The file is not open, says its server.
    Stale,
    /// The call failed; what it did nobody knows.
    Failed(Why),
    /// Its user waits no longer. The call goes on: what it does it may do at any time from now on, or never.
    Dropped,
    /// The node has crashed and is there again; the request is nobody's.
    Restarted,
}

/// Why a call failed, as its client was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// A server began anew, or a stream broke, before it was answered.
    Unknown,
    /// A server's disk has failed.
    Disk,
    /// A server has no room for it.
    Full,
    /// Another member of the group could not do it.
    Member,
    /// No file reaches so far.
    TooFar,
    /// By name: that is another file's by now, or none's.
    Replaced,
    /// What no call is to be told, in words.
    Other(String),
}

impl HistoryEvent for Event {
    fn at(&self) -> Nanos {
        Nanos(self.at_ns)
    }

    fn by_another_clock(self, at: Nanos) -> Event {
        Event { at_ns: at.0, ..self }
    }

    fn node(&self) -> u32 {
        self.request.client.node
    }

    fn stage(&self) -> Stage {
        match self.what {
            What::Calls(_) => Stage::Asked,
            What::Stale | What::Failed(_) | What::Dropped => Stage::Other,
            What::Restarted => Stage::OfNode,
            _ => Stage::Served,
        }
    }
}

impl CallEvent for Event {
    fn request(&self) -> RequestId {
        self.request
    }
}

/// Whose word a file's attributes are, in words.
pub struct Said(pub Value);

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Of(request) => write!(f, "what {request} said of it"),
            Value::Zero => f.write_str("that nobody said anything of it"),
            Value::Cut(_) | Value::Torn => f.write_str("what nobody ever said"),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.request)?;
        match &self.what {
            What::Calls(call) => write!(f, "calls {call}"),
            What::Opened(handle) => write!(f, "has opened {handle:x}"),
            What::Done => f.write_str("is done"),
            What::At(at) => write!(f, "is done at byte {at}"),
            What::Exists => f.write_str("is told that the name is there"),
            What::NotFound => f.write_str("is told that there is no such name"),
            What::Told { file, size, said } => {
                write!(f, "is told of {size} bytes of {file:x}")?;
                said.map_or(Ok(()), |said| write!(f, ", and {}", Said(said)))
            }
            What::Names(names) => write!(f, "is told of {} names", names.len()),
            What::Has(runs) => {
                f.write_str("has read")?;
                let last = runs.len().saturating_sub(1);
                runs.iter().enumerate().try_for_each(|(n, run)| {
                    let then = if n < last { "," } else { "" };
                    write!(f, " {} in {} from {}{then}", run.value, run.cells, run.first)
                })
            }
            What::Lost => f.write_str("is told that writes are lost"),
            What::Stale => f.write_str("is told that the file is not open"),
            What::Failed(why) => write!(f, "fails: {why}"),
            What::Dropped => f.write_str("is dropped"),
            What::Restarted => f.write_str("the node restarts"),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::Unknown => "nobody knows what became of it",
            Why::Disk => "a disk has failed",
            Why::Full => "a server has no room for it",
            Why::Member => "another member could not do it",
            Why::TooFar => "no file reaches so far",
            Why::Replaced => "the name is not that file's any more",
            Why::Other(why) => why,
        })
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Create(name) => write!(f, "create {name}"),
            Call::Open(name) => write!(f, "open {name}"),
            Call::Unlink(name) => write!(f, "unlink {name}"),
            Call::Rename(from, to) => write!(f, "rename {from} to {to}"),
            Call::Stat(name) => write!(f, "stat {name}"),
            Call::Say(name) => write!(f, "set attributes of {name}"),
            Call::MakeDirectory(directory) => write!(f, "mkdir {directory}"),
            Call::List => f.write_str("readdir"),
            Call::Close(file) => write!(f, "close {file:x}"),
            Call::Sync(file) => write!(f, "sync {file:x}"),
            Call::Write(cells) => write!(f, "write {cells}"),
            Call::Read(cells) => write!(f, "read {cells}"),
            Call::Append(file, cells, _) => write!(f, "append {cells} cells to {file:x}"),
            Call::Truncate(file, cells, _) => write!(f, "truncate {file:x} to {cells} cells"),
            Call::Meet(barrier, _) => write!(f, "barrier {barrier}"),
            Call::CutBy(first, file) => write!(f, "resize {file:x} together with {first}"),
        }
    }
}

impl fmt::Display for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rows {
            1 => write!(f, "{} cells of {:x} from {}", self.cells, self.file, self.first),
            rows => {
                write!(f, "{rows} rows of {} cells of {:x} from {}", self.cells, self.file, self.first)
            }
        }
    }
}
