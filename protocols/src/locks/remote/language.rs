//! Requests and replies as bytes: how a client's program asks, and a daemon answers. Little-endian; texts have their lengths before them.

use crate::bytes::{Reader, Writer};
use crate::locks::{Mode, Token};
use weft_verbs::Nanos;

pub use crate::bytes::MalformedCall;

/// What a client calls its wish for a lock: 128 random bits, so that no two clients choose the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WishId(pub u128);

impl WishId {
    fn write(self, to: &mut Writer) {
        to.rest(&self.0.to_le_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Option<WishId> {
        from.array().map(u128::from_le_bytes).map(WishId)
    }
}

/// What a client wants to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// What the client calls it.
    pub id: WishId,
    /// The lock's name.
    pub name: String,
    /// How it is to be held.
    pub mode: Mode,
    /// Who wants it, for people.
    pub by: String,
    /// Whether it is given up if the lock is not free.
    pub tries: bool,
    /// For how long it stands after its client has asked.
    pub patience: Nanos,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The client wants to hold a lock, or to go on holding it.
    Hold {
        /// What it wants.
        wish: Wish,
        /// Whether it was told that it holds: then the lock is not taken anew.
        holds: bool,
        /// For how long it waits for news.
        wait: Nanos,
    },
    /// It does not want it any more.
    Give {
        /// Its wish.
        id: WishId,
    },
    /// What do clients of this node hold and wait for?
    Show {
        /// Of which wishes: of those behind this one. None for all.
        after: Option<WishId>,
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The client waits.
    Waits,
    /// It holds the lock.
    Holds {
        /// The grant's fencing token.
        token: Option<Token>,
        /// For how long it may count on it, from when it asked.
        counts_for: Nanos,
    },
    /// The lock is not free, and the client does not wait.
    Busy,
    /// The client held the lock and does not any more.
    Lost,
    /// The wish is none any more.
    Given,
    /// What there is.
    Shown {
        /// By their numbers, as many as go into one answer.
        rows: Vec<Row>,
        /// The number of the last one, if there may be more behind it.
        more: Option<WishId>,
    },
}

/// A wish of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The lock.
    pub name: String,
    /// How it is or is to be held.
    pub mode: Mode,
    /// Whether it is held.
    pub holds: bool,
    /// The grant's fencing token.
    pub token: Option<Token>,
    /// How long it has been so.
    pub since: Nanos,
    /// Who wants it.
    pub by: String,
}

const HOLD: u8 = 1;
const GIVE: u8 = 2;
const SHOW: u8 = 3;
const WAITS: u8 = 4;
const HOLDS: u8 = 5;
const BUSY: u8 = 6;
const LOST: u8 = 7;

/// The fewest bytes of a row.
const SHORTEST_ROW: usize = 2 + 1 + 1 + 9 + 8 + 2;

impl Request {
    /// Its bytes.
    ///
    /// # Panics
    ///
    /// If a text has more than 1,024 bytes: none that is longer than [`LONGEST_NAME`](super::LONGEST_NAME) is served.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer(Vec::new());
        match self {
            Request::Hold { wish: Wish { id, name, mode, by, tries, patience }, holds, wait } => {
                to.u8(HOLD);
                id.write(&mut to);
                to.text(name);
                write_mode(&mut to, *mode);
                to.text(by);
                to.u8((*tries).into());
                to.u64(patience.0);
                to.u8((*holds).into());
                to.u64(wait.0);
            }
            Request::Give { id } => {
                to.u8(GIVE);
                id.write(&mut to);
            }
            Request::Show { after } => {
                to.u8(SHOW);
                write_some(&mut to, *after);
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
            HOLD => {
                let (id, name, mode) = (WishId::read(&mut from)?, from.text()?, read_mode(&mut from)?);
                let (by, tries, patience) = (from.text()?, from.flag()?, Nanos(from.u64()?));
                let wish = Wish { id, name, mode, by, tries, patience };
                Request::Hold { wish, holds: from.flag()?, wait: Nanos(from.u64()?) }
            }
            GIVE => Request::Give { id: WishId::read(&mut from)? },
            SHOW => Request::Show { after: read_some(&mut from)? },
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
    /// If a text has more than 1,024 bytes: no wish has one.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer(Vec::new());
        match self {
            Reply::Waits => to.u8(WAITS),
            Reply::Holds { token, counts_for } => {
                to.u8(HOLDS);
                to.some_u64(token.map(|token| token.0));
                to.u64(counts_for.0);
            }
            Reply::Busy => to.u8(BUSY),
            Reply::Lost => to.u8(LOST),
            Reply::Given => to.u8(GIVE),
            Reply::Shown { rows, more } => {
                to.u8(SHOW);
                write_some(&mut to, *more);
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
            WAITS => Reply::Waits,
            HOLDS => {
                let token = from.some_u64()?.map(Token);
                Reply::Holds { token, counts_for: Nanos(from.u64()?) }
            }
            BUSY => Reply::Busy,
            LOST => Reply::Lost,
            GIVE => Reply::Given,
            SHOW => {
                let more = read_some(&mut from)?;
                Reply::Shown { rows: from.list(SHORTEST_ROW, Row::read)?, more }
            }
            _ => return None,
        };
        from.end(reply)
    }
}

impl Row {
    /// How many bytes it is in a reply.
    pub(super) fn len_in_bytes(&self) -> usize {
        SHORTEST_ROW + self.name.len() + self.by.len()
    }

    fn write(&self, to: &mut Writer) {
        let Row { name, mode, holds, token, since, by } = self;
        to.text(name);
        write_mode(to, *mode);
        to.u8((*holds).into());
        to.some_u64(token.map(|token| token.0));
        to.u64(since.0);
        to.text(by);
    }

    fn read(from: &mut Reader<'_>) -> Option<Row> {
        let (name, mode, holds) = (from.text()?, read_mode(from)?, from.flag()?);
        let (token, since) = (from.some_u64()?.map(Token), Nanos(from.u64()?));
        Some(Row { name, mode, holds, token, since, by: from.text()? })
    }
}

fn write_mode(to: &mut Writer, mode: Mode) {
    to.u8((mode == Mode::Exclusive).into());
}

fn read_mode(from: &mut Reader<'_>) -> Option<Mode> {
    Some(if from.flag()? { Mode::Exclusive } else { Mode::Shared })
}

/// A number that may not be there.
fn write_some(to: &mut Writer, id: Option<WishId>) {
    to.u8(id.is_some().into());
    id.into_iter().for_each(|id| id.write(to));
}

fn read_some(from: &mut Reader<'_>) -> Option<Option<WishId>> {
    if from.flag()? { Some(Some(WishId::read(from)?)) } else { Some(None) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn modes() -> impl Strategy<Value = Mode> {
        prop::sample::select(Mode::ALL.to_vec())
    }

    prop_compose! {
        fn wishes()(
            id in any::<u128>(), name in "[a-z]{1,9}", mode in modes(), by in "[a-z ]{0,9}", tries in any::<bool>(),
            patience in any::<u64>(),
        ) -> Wish {
            Wish { id: WishId(id), name, mode, by, tries, patience: Nanos(patience) }
        }
    }

    prop_compose! {
        fn rows()(
            name in "[a-z]{1,9}", mode in modes(), holds in any::<bool>(), token in any::<Option<u64>>(),
            since in any::<u64>(), by in "[a-z ]{0,9}",
        ) -> Row {
            Row { name, mode, holds, token: token.map(Token), since: Nanos(since), by }
        }
    }

    fn requests() -> impl Strategy<Value = Request> {
        let hold = (wishes(), any::<bool>(), any::<u64>()).prop_map(|(wish, holds, wait)| Request::Hold {
            wish,
            holds,
            wait: Nanos(wait),
        });
        let give = any::<u128>().prop_map(|id| Request::Give { id: WishId(id) });
        let show = any::<Option<u128>>().prop_map(|after| Request::Show { after: after.map(WishId) });
        prop_oneof![hold, give, show]
    }

    fn replies() -> impl Strategy<Value = Reply> {
        let holds = (any::<Option<u64>>(), any::<u64>()).prop_map(|(token, counts_for)| Reply::Holds {
            token: token.map(Token),
            counts_for: Nanos(counts_for),
        });
        let shown = (prop::collection::vec(rows(), 0..4), any::<Option<u128>>())
            .prop_map(|(rows, more)| Reply::Shown { rows, more: more.map(WishId) });
        prop_oneof![
            Just(Reply::Waits),
            holds,
            Just(Reply::Busy),
            Just(Reply::Lost),
            Just(Reply::Given),
            shown
        ]
    }

    proptest! {
        #[test]
        fn requests_and_replies_survive_their_bytes(request in requests(), reply in replies()) {
            prop_assert_eq!(Request::from_bytes(&request.to_bytes()), Ok(request));
            if let Reply::Shown { rows, more } = &reply {
                let empty = Reply::Shown { rows: Vec::new(), more: *more }.to_bytes().len();
                let len: usize = rows.iter().map(Row::len_in_bytes).sum();
                prop_assert_eq!(reply.to_bytes().len(), empty + len);
            }
            prop_assert_eq!(Reply::from_bytes(&reply.to_bytes()), Ok(reply));
        }

        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Request::from_bytes(&bytes);
            let _ = Reply::from_bytes(&bytes);
        }
    }

    #[test]
    fn announced_rows_take_no_memory() {
        let bytes = [&[SHOW, 0][..], &u32::MAX.to_le_bytes(), &[0; 40]].concat();
        assert_eq!(Reply::from_bytes(&bytes), Err(MalformedCall));
    }
}
