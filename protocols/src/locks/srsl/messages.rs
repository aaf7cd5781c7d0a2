//! What nodes and home say to each other, and the bytes of it.

use crate::locks::client::WaitPolicy;
use crate::locks::codec::{Encoded, Malformed, Reader};
use crate::locks::{LockKey, Mode, Scheme, Token};

/// A message about one lock. Who sent it is known from the session that carried it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    /// To the home: put me into the queue, or tell me that I cannot have it now.
    Request { mode: Mode, policy: WaitPolicy },
    /// From the home: the lock is yours.
    Grant { token: Token },
    /// From the home, to a try: somebody else has it.
    Busy,
    /// To the home: my hold is over.
    Release,
    /// To the home: my exclusive hold is a shared one from now on.
    Downgrade,
    /// To the home of a view that has just begun: I hold, and have since an earlier one.
    Holds { mode: Mode, token: Token },
    /// To whom keeps locks in a view that has just begun: that is all that I hold and want of them. It takes so long by my clock,
    /// in nanoseconds, until nobody who left the membership holds anything. About no lock.
    Reported { remaining: u64 },
}

mod kind {
    pub(super) const REQUEST: u8 = 1;
    pub(super) const GRANT: u8 = 2;
    pub(super) const BUSY: u8 = 3;
    pub(super) const RELEASE: u8 = 4;
    pub(super) const DOWNGRADE: u8 = 5;
    pub(super) const HOLDS: u8 = 6;
    pub(super) const REPORTED: u8 = 7;
}

impl Message {
    /// Whether it is addressed to the lock's home, and not to a requester.
    pub(crate) fn is_for_the_home(&self) -> bool {
        !matches!(self, Message::Grant { .. } | Message::Busy)
    }

    /// The message's bytes.
    pub(crate) fn encode(&self, key: LockKey) -> Encoded {
        let begin = |kind| Encoded::new(Scheme::Srsl, kind, key);
        match *self {
            Message::Request { mode, policy } => begin(kind::REQUEST)
                .u8((mode == Mode::Exclusive).into())
                .u8((policy == WaitPolicy::Try).into()),
            Message::Grant { token } => begin(kind::GRANT).u64(token.0),
            Message::Busy => begin(kind::BUSY),
            Message::Release => begin(kind::RELEASE),
            Message::Downgrade => begin(kind::DOWNGRADE),
            Message::Holds { mode, token } => {
                begin(kind::HOLDS).u8((mode == Mode::Exclusive).into()).u64(token.0)
            }
            Message::Reported { remaining } => begin(kind::REPORTED).u64(remaining),
        }
    }

    /// The message that bytes stand for. Any bytes are answered.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(LockKey, Message), Malformed> {
        let (mut from, kind, key) = Reader::open(Scheme::Srsl, bytes)?;
        let message = match kind {
            kind::REQUEST => {
                let mode = mode(&mut from)?;
                let policy = match from.u8()? {
                    0 => WaitPolicy::Queue,
                    1 => WaitPolicy::Try,
                    _ => return Err(Malformed::Value("the wait policy")),
                };
                Message::Request { mode, policy }
            }
            kind::GRANT => Message::Grant { token: Token(from.u64()?) },
            kind::BUSY => Message::Busy,
            kind::RELEASE => Message::Release,
            kind::DOWNGRADE => Message::Downgrade,
            kind::HOLDS => Message::Holds { mode: mode(&mut from)?, token: Token(from.u64()?) },
            kind::REPORTED => Message::Reported { remaining: from.u64()? },
            other => return Err(Malformed::Kind(other)),
        };
        from.end()?;
        Ok((key, message))
    }
}

fn mode(from: &mut Reader<'_>) -> Result<Mode, Malformed> {
    match from.u8()? {
        0 => Ok(Mode::Shared),
        1 => Ok(Mode::Exclusive),
        _ => Err(Malformed::Value("the mode")),
    }
}
