//! What the nodes say to each other about a lock, in N-CoSED and in DQNL, and the bytes of it.

use super::word::Word;
use crate::locks::client::WaitPolicy;
use crate::locks::codec::{Encoded, Malformed, Reader};
use crate::locks::{LockKey, Mode, Scheme};
use crate::transport::Rank;
use weft_verbs::RemoteSlice;

/// A lock's words are numbered: each rebuild begins a new epoch.
pub(crate) type Epoch = u32;

/// A message about one lock. Who sent it is known from the session that carried it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// To the home: where is the lock's word? Who only tries does not wait for one that is being rebuilt.
    Open { policy: WaitPolicy },
    /// From the home: the word of this epoch is there.
    Opened { epoch: Epoch, word: RemoteSlice },
    /// From the home: it has no memory for the lock.
    Refused,
    /// From the home, to a try: the lock has no word until others have had it.
    Busy,
    /// An exclusive requester to the old tail: I come after you, behind the `readers` shared requests that
    /// were sent to you (3.2.1, step 3). `turn` tells this request of mine from earlier and later ones.
    Queue { epoch: Epoch, readers: u32, turn: u32 },
    /// A shared requester to the tail: grant me when you are done (3.2.4, step 2).
    Read { epoch: Epoch },
    /// From the predecessor, or from the home: the lock is yours.
    Grant { epoch: Epoch },
    /// To the home: `who` comes next, once `readers` shared holders have released (3.2.3, step 3).
    Wait { epoch: Epoch, who: Rank, readers: u32 },
    /// To the home: my shared hold is over (3.2.2, unlocking, step 1). After a report: any hold of mine is.
    Release { epoch: Epoch },
    /// To the home, after a report: the exclusive hold that I reported, or that you granted after that, is a shared one.
    Downgrade { epoch: Epoch },
    /// To the home, from an exclusive holder that left shared requests behind: try the reset again.
    RetryReset { epoch: Epoch },
    /// From the home: the epoch ends. Let your atomic come home, report, and be still.
    Freeze { epoch: Epoch },
    /// To the home: all that I had to do with the epoch. The first one, unasked, ends the epoch.
    Report { epoch: Epoch, report: Report },
    /// From the home, to one that had reported: the lock is yours.
    GrantAfterRecovery { epoch: Epoch },
    /// To whom keeps locks in a view of the membership that has just begun: that is all that I hold and want of them, and no atomic of
    /// mine of an earlier view is under way to your words. It takes so long by my clock, in nanoseconds, until nobody who left the
    /// membership holds anything. About no lock.
    Reported { remaining: u64 },
}

/// What a node had at the end of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Report {
    /// What it has or wants.
    pub(crate) claim: Claim,
    /// Which of its exclusive requests the last one was.
    pub(crate) turn: u32,
    /// The last successor to whom it passed the lock.
    pub(crate) passed: Option<Passed>,
}

/// A successor, and which of its requests was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Passed {
    pub(crate) who: Rank,
    pub(crate) turn: u32,
}

/// What a node has of a lock, or wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Claim {
    /// Nothing, or nothing any more.
    Nothing,
    /// It holds.
    Holds(Mode),
    /// It waits to share.
    WantsShared,
    /// It waits to be alone. If its last compare-and-swap took effect, `over` is what it replaced.
    WantsExclusive { over: Word },
}

mod kind {
    pub(super) const OPEN: u8 = 1;
    pub(super) const OPENED: u8 = 2;
    pub(super) const REFUSED: u8 = 3;
    pub(super) const QUEUE: u8 = 4;
    pub(super) const READ: u8 = 5;
    pub(super) const GRANT: u8 = 6;
    pub(super) const WAIT: u8 = 7;
    pub(super) const RELEASE: u8 = 8;
    pub(super) const RETRY_RESET: u8 = 9;
    pub(super) const FREEZE: u8 = 10;
    pub(super) const REPORT: u8 = 11;
    pub(super) const GRANT_AFTER_RECOVERY: u8 = 12;
    pub(super) const DOWNGRADE: u8 = 13;
    pub(super) const REPORTED: u8 = 14;
    pub(super) const OPEN_TO_TRY: u8 = 15;
    pub(super) const BUSY: u8 = 16;
}

impl Message {
    /// Whether it is addressed to the lock's home, and not to a member of its queue.
    pub(crate) fn is_for_the_home(&self) -> bool {
        match self {
            Message::Open { .. }
            | Message::Wait { .. }
            | Message::Release { .. }
            | Message::Downgrade { .. }
            | Message::RetryReset { .. }
            | Message::Report { .. }
            | Message::Reported { .. } => true,
            Message::Opened { .. }
            | Message::Refused
            | Message::Busy
            | Message::Queue { .. }
            | Message::Read { .. }
            | Message::Grant { .. }
            | Message::Freeze { .. }
            | Message::GrantAfterRecovery { .. } => false,
        }
    }

    /// Whether it exists only because nodes may share: DQNL has the others.
    fn is_about_sharing(&self) -> bool {
        match self {
            Message::Read { .. }
            | Message::Wait { .. }
            | Message::Downgrade { .. }
            | Message::RetryReset { .. } => true,
            Message::Queue { readers, .. } => *readers > 0,
            Message::Report { report, .. } => {
                matches!(report.claim, Claim::WantsShared | Claim::Holds(Mode::Shared))
            }
            _ => false,
        }
    }

    /// The message's bytes in one of the two schemes.
    pub(crate) fn encode(&self, scheme: Scheme, key: LockKey) -> Encoded {
        let begin = |kind| Encoded::new(scheme, kind, key);
        match *self {
            Message::Open { policy: WaitPolicy::Queue } => begin(kind::OPEN),
            Message::Open { policy: WaitPolicy::Try } => begin(kind::OPEN_TO_TRY),
            Message::Opened { epoch, word } => begin(kind::OPENED).u32(epoch).slice(word),
            Message::Refused => begin(kind::REFUSED),
            Message::Busy => begin(kind::BUSY),
            Message::Queue { epoch, readers, turn } => begin(kind::QUEUE).u32(epoch).u32(readers).u32(turn),
            Message::Read { epoch } => begin(kind::READ).u32(epoch),
            Message::Grant { epoch } => begin(kind::GRANT).u32(epoch),
            Message::Wait { epoch, who, readers } => {
                begin(kind::WAIT).u32(epoch).rank(Some(who)).u32(readers)
            }
            Message::Release { epoch } => begin(kind::RELEASE).u32(epoch),
            Message::Downgrade { epoch } => begin(kind::DOWNGRADE).u32(epoch),
            Message::RetryReset { epoch } => begin(kind::RETRY_RESET).u32(epoch),
            Message::Freeze { epoch } => begin(kind::FREEZE).u32(epoch),
            Message::Report { epoch, report } => report.encode(begin(kind::REPORT).u32(epoch)),
            Message::GrantAfterRecovery { epoch } => begin(kind::GRANT_AFTER_RECOVERY).u32(epoch),
            Message::Reported { remaining } => begin(kind::REPORTED).u64(remaining),
        }
    }

    /// The message that bytes stand for in one of the two schemes. Any bytes are answered.
    pub(crate) fn decode(scheme: Scheme, bytes: &[u8]) -> Result<(LockKey, Message), Malformed> {
        let (mut from, kind, key) = Reader::open(scheme, bytes)?;
        let message = match kind {
            kind::OPEN => Message::Open { policy: WaitPolicy::Queue },
            kind::OPEN_TO_TRY => Message::Open { policy: WaitPolicy::Try },
            kind::OPENED => Message::Opened { epoch: from.u32()?, word: from.word()? },
            kind::REFUSED => Message::Refused,
            kind::BUSY => Message::Busy,
            kind::QUEUE => Message::Queue { epoch: from.u32()?, readers: from.u32()?, turn: from.u32()? },
            kind::READ => Message::Read { epoch: from.u32()? },
            kind::GRANT => Message::Grant { epoch: from.u32()? },
            kind::WAIT => Message::Wait {
                epoch: from.u32()?,
                who: from.rank()?.ok_or(Malformed::Value("the rank that waits"))?,
                readers: from.u32()?,
            },
            kind::RELEASE => Message::Release { epoch: from.u32()? },
            kind::DOWNGRADE => Message::Downgrade { epoch: from.u32()? },
            kind::RETRY_RESET => Message::RetryReset { epoch: from.u32()? },
            kind::FREEZE => Message::Freeze { epoch: from.u32()? },
            kind::REPORT => Message::Report { epoch: from.u32()?, report: Report::decode(&mut from)? },
            kind::GRANT_AFTER_RECOVERY => Message::GrantAfterRecovery { epoch: from.u32()? },
            kind::REPORTED => Message::Reported { remaining: from.u64()? },
            other => return Err(Malformed::Kind(other)),
        };
        from.end()?;
        if !scheme.shares() && message.is_about_sharing() {
            return Err(Malformed::Sharing);
        }
        Ok((key, message))
    }
}

impl Report {
    fn encode(&self, to: Encoded) -> Encoded {
        let (claim, over) = match self.claim {
            Claim::Nothing => (0, Word::FREE),
            Claim::Holds(Mode::Shared) => (1, Word::FREE),
            Claim::Holds(Mode::Exclusive) => (2, Word::FREE),
            Claim::WantsShared => (3, Word::FREE),
            Claim::WantsExclusive { over } => (4, over),
        };
        let (who, turn) = self.passed.map_or((None, 0), |p| (Some(p.who), p.turn));
        to.u32(claim).u64(over.0).u32(self.turn).rank(who).u32(turn)
    }

    fn decode(from: &mut Reader<'_>) -> Result<Report, Malformed> {
        let (claim, over) = (from.u32()?, Word(from.u64()?));
        let claim = match (claim, over) {
            (0, Word::FREE) => Claim::Nothing,
            (1, Word::FREE) => Claim::Holds(Mode::Shared),
            (2, Word::FREE) => Claim::Holds(Mode::Exclusive),
            (3, Word::FREE) => Claim::WantsShared,
            (4, over) => Claim::WantsExclusive { over },
            _ => return Err(Malformed::Value("the claim")),
        };
        let turn = from.u32()?;
        let passed = match (from.rank()?, from.u32()?) {
            (Some(who), turn) => Some(Passed { who, turn }),
            (None, 0) => None,
            (None, _) => return Err(Malformed::Value("the successor's turn")),
        };
        Ok(Report { claim, turn, passed })
    }
}
