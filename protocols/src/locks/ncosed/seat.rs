//! A node's requests for one lock, and what they have in common. The steps of the exclusive ones are in
//! [`exclusive`](super::exclusive); those of the shared ones are short, and here.

use super::member::{Member, Phase, Role, Successor, Taken};
use super::messages::{Epoch, Message};
use super::word::Word;
use super::{FateUnknown, Wire};
use crate::locks::stats::bump;
use crate::locks::{LockKey, Mode};
use crate::rt::Frame;
use crate::rt::sync::Signal;
use crate::transport::Rank;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use weft_verbs::RemoteSlice;

/// The epoch ended for this node: it has reported, and the home decides what it reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frozen;

/// The home could not open the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

/// Whether nodes may hold a lock together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// A request to share is one to be alone: DQNL.
    Never,
    /// A word whose count of shared requests has come that far is given up: N-CoSED.
    UpTo(u32),
}

impl Sharing {
    /// How a request is granted.
    fn grants(self, mode: Mode) -> Mode {
        match self {
            Sharing::Never => Mode::Exclusive,
            Sharing::UpTo(_) => mode,
        }
    }

    fn is_over(self, word: Word) -> bool {
        match self {
            Sharing::Never => false,
            Sharing::UpTo(limit) => word.shared() >= limit,
        }
    }
}

/// Where a request waits, and what it still knows there besides the member's state: for explorers.
#[derive(Clone, Copy, Hash)]
pub(super) enum At {
    Opening(Mode),
    Locking(Mode),
    Reported(Mode),
    Adding,
    Queued,
    OpeningToTry(Mode),
    Trying(Mode),
    Guessing {
        seen: Word,
        tried: u32,
    },
    Alone,
    Leaving,
    Easing,
    /// A compare-and-swap of the word seen, by which an exclusive request enters the queue.
    Entering {
        seen: Word,
    },
    ServingBefore {
        next: Successor,
        stays: u32,
    },
    Passing {
        shared: u32,
        stays: u32,
    },
    Following {
        shared: u32,
        stays: u32,
    },
    Kicked {
        shared: u32,
    },
    Epoch(Epoch),
    Swap {
        at: RemoteSlice,
        compare: Word,
        swap: Word,
    },
    Add {
        at: RemoteSlice,
        add: u64,
    },
}

/// How many guesses a try makes at a count of shared holders that others keep changing.
const TRIES: u32 = 4;

/// A node's place in the queue of one lock. It has one request at a time.
pub(crate) struct Seat<W: Wire> {
    wire: Rc<W>,
    key: LockKey,
    pub(super) home: Rank,
    pub(super) me: Rank,
    sharing: Sharing,
    pub(super) member: RefCell<Member>,
    changed: Signal,
}

impl<W: Wire> Seat<W> {
    pub(crate) fn new(wire: Rc<W>, key: LockKey, home: Rank, sharing: Sharing) -> Seat<W> {
        let me = wire.me();
        let member = RefCell::new(Member::new(home));
        Seat { wire, key, home, me, sharing, member, changed: Signal::new() }
    }

    /// Takes the lock, however long that takes, and says how it is held.
    pub(crate) async fn lock(&self, mode: Mode) -> Result<Mode, Refused> {
        let mode = self.sharing.grants(mode);
        let frame = self.wire.frame();
        frame.knows(At::Opening(mode));
        self.opened().await?;
        frame.knows(At::Locking(mode));
        let attempt = match mode {
            Mode::Exclusive => self.lock_exclusive().await,
            Mode::Shared => self.lock_shared().await,
        };
        if attempt == Err(Frozen) {
            // We have reported that we want it, and the home grants what was reported.
            frame.knows(At::Reported(mode));
            self.until_held().await;
        }
        Ok(mode)
    }

    /// 3.2.2, locking protocol, and 3.2.4.
    async fn lock_shared(&self) -> Result<(), Frozen> {
        self.set_role(Role::WantsShared);
        let frame = self.wire.frame();
        frame.knows(At::Adding);
        let was = self.fetch_add(Word::ONE_SHARED).await?; // step 1
        let epoch = self.epoch();
        match was.tail() {
            None => self.set_role(Role::Holds(Mode::Shared)), // step 2
            Some(tail) => self.send(tail, Message::Read { epoch }), // 3.2.4, step 2
        }
        if self.sharing.is_over(was) {
            // Long before the count can carry into the tail: end the epoch, and begin a word at zero.
            self.report();
        }
        frame.knows(At::Queued);
        self.granted().await // 3.2.4, step 3
    }

    /// Takes the lock if that needs nobody else, and says how it is held.
    pub(crate) async fn try_lock(&self, mode: Mode) -> Result<Option<Mode>, Refused> {
        let mode = self.sharing.grants(mode);
        if self.phase() == Phase::Frozen {
            return Ok(None);
        }
        let frame = self.wire.frame();
        frame.knows(At::OpeningToTry(mode));
        self.opened().await?;
        frame.knows(At::Trying(mode));
        let taken = match mode {
            Mode::Exclusive => self.try_exclusive().await,
            Mode::Shared => self.try_shared().await,
        };
        let taken = taken.unwrap_or(false);
        // What a freeze interrupted was reported as nothing, and is nothing.
        self.set_role(if taken { Role::Holds(mode) } else { Role::Idle });
        Ok(taken.then_some(mode))
    }

    /// By compare-and-swap: a fetch-and-add cannot be taken back when it finds an exclusive holder.
    async fn try_shared(&self) -> Result<bool, Frozen> {
        self.set_role(Role::Trying);
        let frame = self.wire.frame();
        let mut seen = Word::FREE;
        for tried in 0..TRIES {
            frame.knows(At::Guessing { seen, tried });
            let was = self.compare_swap(seen, Word::shared_only(seen.shared() + 1)).await?;
            if was == seen {
                return Ok(true);
            }
            if was.tail().is_some() || self.sharing.is_over(was) {
                return Ok(false);
            }
            seen = was;
        }
        Ok(false)
    }

    /// Gives the lock back. Returns when this node is done with it and may make its next request.
    pub(crate) async fn unlock(&self) {
        let Role::Holds(mode) = self.role() else { return };
        let (phase, epoch) = (self.phase(), self.epoch());
        if mode == Mode::Shared || phase == Phase::Frozen {
            // 3.2.2, unlocking, step 1; and a reported hold ends at the home, whatever its mode.
            self.set_role(Role::Idle);
            self.send(self.home, Message::Release { epoch });
        } else {
            self.set_role(Role::Leaving);
            // Frozen meanwhile: then those behind us have reported, and the home grants them.
            let frame = self.wire.frame();
            frame.knows(At::Leaving);
            let _ = self.step_aside(0).await;
            self.set_role(Role::Idle);
        }
    }

    /// Shares what was held exclusively. Others may share from the beginning of this; it returns when the node
    /// holds as they do.
    pub(crate) async fn downgrade(&self) {
        if self.role() != Role::Holds(Mode::Exclusive) || self.sharing == Sharing::Never {
            return;
        }
        if self.phase() == Phase::Frozen {
            let epoch = self.epoch();
            self.send(self.home, Message::Downgrade { epoch });
        } else {
            self.set_role(Role::Easing);
            // Frozen meanwhile: then we have reported that we share.
            let frame = self.wire.frame();
            frame.knows(At::Easing);
            let _ = self.step_aside(1).await;
        }
        self.set_role(Role::Holds(Mode::Shared));
    }

    /// Takes a message for this seat.
    pub(crate) fn on_message(&self, from: Rank, message: Message) {
        let mut out = Vec::new();
        let taken = self.member.borrow_mut().on_message(from, message, &mut out);
        match taken {
            Taken::Well => self.changed.notify(),
            Taken::Stale => bump(&self.wire.counters().stale_messages),
            Taken::OutOfTurn => bump(&self.wire.counters().out_of_turn),
        }
        self.send_all(out);
    }

    /// What it knows, for explorers; where its request stands is told by the task that makes it.
    pub(crate) fn content(&self, to: &mut impl Hasher) {
        self.member.borrow().hash(to);
    }

    /// See [`Rt::frame`](crate::rt::Rt::frame); it says an [`At`].
    pub(super) fn frame(&self) -> Frame<'_> {
        self.wire.frame()
    }

    /// Whether the node has anything to do with the lock.
    pub(crate) fn is_taken(&self) -> bool {
        let member = self.member.borrow();
        member.role != Role::Idle || member.atomic_out
    }

    // Waiting, for a change of the member's state.

    async fn opened(&self) -> Result<(), Refused> {
        if self.phase() == Phase::Unknown {
            self.member.borrow_mut().phase = Phase::Asked;
            self.send(self.home, Message::Open);
        }
        let rest = self.wire.rest();
        self.changed.until(|| matches!(self.phase(), Phase::Open(_) | Phase::Unknown)).await;
        drop(rest);
        if self.phase() == Phase::Unknown { Err(Refused) } else { Ok(()) }
    }

    async fn until_held(&self) {
        let _rest = self.wire.rest();
        self.changed.until(|| matches!(self.role(), Role::Holds(_))).await;
    }

    pub(super) async fn granted(&self) -> Result<(), Frozen> {
        self.unless_frozen(|member| matches!(member.role, Role::Holds(_))).await
    }

    pub(super) async fn until_served(&self, readers: u32) -> Result<(), Frozen> {
        self.unless_frozen(|member| member.served >= readers).await
    }

    pub(super) async fn until_followed(&self) -> Result<(), Frozen> {
        self.unless_frozen(|member| member.successor.is_some()).await
    }

    /// Waits for something that the epoch's end makes impossible, unless it has come before that end.
    async fn unless_frozen(&self, holds: impl Fn(&Member) -> bool) -> Result<(), Frozen> {
        let epoch = self.epoch();
        let over = |member: &Member| member.phase == Phase::Frozen || member.epoch != epoch;
        let frame = self.wire.frame();
        frame.knows(At::Epoch(epoch));
        let rest = self.wire.rest();
        self.changed.until(|| holds(&self.member.borrow()) || over(&self.member.borrow())).await;
        drop(rest);
        if holds(&self.member.borrow()) { Ok(()) } else { Err(Frozen) }
    }

    // Atomics. The word is used in an open epoch only, and the epoch may end while the atomic is out.

    pub(super) async fn compare_swap(&self, compare: Word, swap: Word) -> Result<Word, Frozen> {
        let at = self.begin_atomic()?;
        let frame = self.wire.frame();
        frame.knows(At::Swap { at, compare, swap });
        let fate = self.wire.compare_swap(self.home, at, compare, swap).await;
        drop(frame);
        let was = self.end_atomic(fate)?;
        if was != compare {
            bump(&self.wire.counters().swap_misses);
        }
        Ok(was)
    }

    async fn fetch_add(&self, add: u64) -> Result<Word, Frozen> {
        let at = self.begin_atomic()?;
        let frame = self.wire.frame();
        frame.knows(At::Add { at, add });
        let fate = self.wire.fetch_add(self.home, at, add).await;
        drop(frame);
        self.end_atomic(fate)
    }

    fn begin_atomic(&self) -> Result<RemoteSlice, Frozen> {
        let mut member = self.member.borrow_mut();
        let Phase::Open(at) = member.phase else { return Err(Frozen) };
        member.atomic_out = true;
        Ok(at)
    }

    fn end_atomic(&self, fate: Result<Word, FateUnknown>) -> Result<Word, Frozen> {
        let mut out = Vec::new();
        // A poisoned word cannot be met while we have not reported; met all the same, it says nothing.
        let was = fate.ok().filter(|was| !was.is_poisoned());
        let goes_on = self.member.borrow_mut().atomic_done(was.is_some(), &mut out);
        self.send_all(out);
        was.filter(|_| goes_on).ok_or(Frozen)
    }

    pub(super) fn grant_arrived(&self) {
        let mut out = Vec::new();
        self.member.borrow_mut().grant_arrived(&mut out);
        self.send_all(out);
    }

    fn report(&self) {
        let mut out = Vec::new();
        self.member.borrow_mut().report(&mut out);
        self.send_all(out);
    }

    fn send_all(&self, messages: Vec<(Rank, Message)>) {
        for (to, message) in messages {
            self.send(to, message);
        }
    }

    pub(super) fn send(&self, to: Rank, message: Message) {
        self.wire.send(to, self.key, message);
    }

    // The member's state, by copies: no borrow outlives a call.

    fn phase(&self) -> Phase {
        self.member.borrow().phase
    }

    fn role(&self) -> Role {
        self.member.borrow().role
    }

    pub(super) fn set_role(&self, role: Role) {
        self.member.borrow_mut().role = role;
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.member.borrow().epoch
    }
}
