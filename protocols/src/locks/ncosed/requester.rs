//! A node's requests for one lock, and what they have in common. The steps of the exclusive ones are in
//! [`exclusive`](super::exclusive); those of the shared ones are short, and here.

use super::exclusive::Afterwards;
use super::messages::{Epoch, Message};
use super::requester_state::{Phase, RequesterState, Role, Successor, Taken};
use super::word::Word;
use super::{OutcomeUnknown, Wire};
use crate::locks::client::WaitPolicy;
use crate::locks::stats::bump;
use crate::locks::{LockKey, Mode, Token};
use crate::rt::WaitPoint;
use crate::rt::sync::Signal;
use crate::transport::Rank;
use std::cell::{Ref, RefCell};
use std::rc::Rc;
use weft_verbs::RemoteSlice;

/// The epoch ended for this node: it has reported, and the home decides what it reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frozen;

/// Why there is no grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The home could not open the lock.
    HomeFull,
    /// It was to be a try, and the home does not open the lock now.
    Busy,
    /// Nothing will be granted to this node any more: it was left out of the membership, or has closed its mesh.
    Over,
}

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

/// Where a request waits, and what it still needs there besides the requester's state.
#[derive(Clone, Copy, Hash)]
pub(super) enum Step {
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
    Releasing,
    Downgrading,
    /// A compare-and-swap of the word seen, by which an exclusive request enters the queue.
    Entering {
        seen: Word,
    },
    ServingBefore {
        next: Successor,
        then: Afterwards,
    },
    Passing {
        shared: u32,
        then: Afterwards,
    },
    Following {
        shared: u32,
        then: Afterwards,
    },
    AskedRetry {
        shared: u32,
    },
    Epoch(Epoch, u32),
    Swap {
        out: Out,
        compare: Word,
        swap: Word,
    },
    Add {
        out: Out,
        add: u64,
    },
}

/// An atomic under way: to which word of which home, and how often all had become void when it began.
#[derive(Clone, Copy, Hash)]
pub(super) struct Out {
    home: Rank,
    at: RemoteSlice,
    cuts: u32,
}

/// How many guesses a try makes at a count of shared holders that others keep changing.
const TRIES: u32 = 4;

/// A node's requests for one lock. There is one at a time.
pub(crate) struct Requester<W: Wire> {
    wire: Rc<W>,
    key: LockKey,
    pub(super) me: Rank,
    sharing: Sharing,
    pub(super) state: RefCell<RequesterState>,
    changed: Signal,
}

impl<W: Wire> Requester<W> {
    pub(crate) fn new(
        wire: Rc<W>,
        key: LockKey,
        home: impl Into<Option<Rank>>,
        sharing: Sharing,
    ) -> Requester<W> {
        let me = wire.me();
        let state = RefCell::new(RequesterState::new(home, wire.view()));
        Requester { wire, key, me, sharing, state, changed: Signal::new() }
    }

    /// Takes the lock, however long that takes, and says how it is held.
    pub(crate) async fn lock(&self, mode: Mode) -> Result<Mode, Refused> {
        let mode = self.sharing.grants(mode);
        loop {
            self.opened(WaitPolicy::Queue).at(Step::Opening(mode)).await?;
            let attempt = match mode {
                Mode::Exclusive => self.lock_exclusive().at(Step::Locking(mode)).await,
                Mode::Shared => self.lock_shared().at(Step::Locking(mode)).await,
            };
            // Frozen: we have reported that we want it, and the home grants what was reported.
            if attempt == Ok(()) || self.until_held().at(Step::Reported(mode)).await? {
                return Ok(mode);
            }
        }
    }

    /// 3.2.2, locking protocol, and 3.2.4.
    async fn lock_shared(&self) -> Result<(), Frozen> {
        self.set_role(Role::WantsShared);
        let was = self.fetch_add(Word::ONE_SHARED).at(Step::Adding).await?; // step 1
        let epoch = self.epoch();
        match was.tail() {
            None => self.state.borrow_mut().hold(Mode::Shared), // step 2
            Some(tail) => self.send(tail, Message::Read { epoch }), // 3.2.4, step 2
        }
        if self.sharing.is_over(was) {
            // Long before the count can carry into the tail: end the epoch, and begin a word at zero.
            self.report();
        }
        self.granted().at(Step::Queued).await // 3.2.4, step 3
    }

    /// Takes the lock if that needs nobody else, and says how it is held.
    pub(crate) async fn try_lock(&self, mode: Mode) -> Result<Option<Mode>, Refused> {
        let mode = self.sharing.grants(mode);
        loop {
            if self.phase() == Phase::Frozen && self.epoch() > 0 {
                // Others have the lock or want it, or what became of an attempt of this node's own is not known yet.
                return Ok(None);
            }
            // As a view begins nobody may, whatever this node had: its home knows.
            match self.opened(WaitPolicy::Try).at(Step::OpeningToTry(mode)).await {
                Err(Refused::Busy) => return Ok(None),
                opened => opened?,
            }
            let taken = match mode {
                Mode::Exclusive => self.try_exclusive().at(Step::Trying(mode)).await,
                Mode::Shared => self.try_shared().at(Step::Trying(mode)).await,
            };
            // What a freeze interrupted was reported as nothing, and is nothing.
            self.set_role(Role::Idle);
            match taken {
                Ok(true) => {
                    self.state.borrow_mut().hold(mode);
                    return Ok(Some(mode));
                }
                Ok(false) => return Ok(None),
                // The epoch ended; or its view did, and in the next one the lock may be free.
                Err(Frozen) => {}
            }
        }
    }

    /// By compare-and-swap: a fetch-and-add cannot be taken back when it finds an exclusive holder.
    async fn try_shared(&self) -> Result<bool, Frozen> {
        self.set_role(Role::Trying);
        let mut seen = Word::FREE;
        for tried in 0..TRIES {
            let one_more = Word::shared_only(seen.shared() + 1);
            let was = self.compare_swap(seen, one_more).at(Step::Guessing { seen, tried }).await?;
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
            self.send_home(Message::Release { epoch });
        } else {
            self.set_role(Role::Releasing);
            // Frozen meanwhile: then those behind us have reported, and the home grants them.
            let _ = self.unlock_exclusive(Afterwards::Releases).at(Step::Releasing).await;
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
            self.send_home(Message::Downgrade { epoch });
        } else {
            self.set_role(Role::Downgrading);
            // Frozen meanwhile: then we have reported that we share.
            let _ = self.unlock_exclusive(Afterwards::Shares).at(Step::Downgrading).await;
            if self.role() != Role::Downgrading {
                // The view was lost, and the hold with it.
                return;
            }
        }
        self.set_role(Role::Holds(Mode::Shared));
    }

    /// Takes a message for this requester.
    pub(crate) fn on_message(&self, from: Rank, message: Message) {
        let mut out = Vec::new();
        let taken = self.state.borrow_mut().on_message(from, message, &mut out);
        match taken {
            Taken::Well => self.changed.notify(),
            Taken::Stale => bump(&self.wire.counters().stale_messages),
            Taken::OutOfTurn => bump(&self.wire.counters().out_of_turn),
        }
        self.send_all(out);
    }

    // Views of the membership.

    /// A view begins, in which `home` keeps the lock: it is told what this node has or wants.
    pub(crate) fn view_begins(&self, home: Rank) {
        self.change(|state, out| state.view_begins(home, self.wire.view(), out));
    }

    /// The view is lost. What was held is not held any more; whether something was.
    pub(crate) fn view_lost(&self) -> bool {
        let held = self.state.borrow_mut().view_lost();
        self.changed.notify();
        held
    }

    /// Nothing will be granted to this node any more: nothing is waited for.
    pub(crate) fn give_up(&self) {
        self.change(|state, _| state.over = true);
    }

    /// The token of the present grant: its view, if there is one.
    pub(crate) fn token(&self) -> Option<Token> {
        let view = self.state.borrow().granted_in();
        (view > 0).then(|| Token::of_view(view))
    }

    fn change(&self, change: impl FnOnce(&mut RequesterState, &mut Vec<(Rank, Message)>)) {
        let mut out = Vec::new();
        change(&mut self.state.borrow_mut(), &mut out);
        self.send_all(out);
        self.changed.notify();
    }

    /// All that it knows, for explorers; where its request stands is said by the task that makes it.
    pub(crate) fn state(&self) -> Ref<'_, RequesterState> {
        self.state.borrow()
    }

    /// Whether the node has anything to do with the lock.
    pub(crate) fn is_taken(&self) -> bool {
        let state = self.state.borrow();
        state.role != Role::Idle || state.atomic_out
    }

    // Waiting, for a change of the state.

    async fn opened(&self, policy: WaitPolicy) -> Result<(), Refused> {
        if matches!(self.phase(), Phase::Refused | Phase::Busy) {
            self.state.borrow_mut().phase = Phase::Unknown;
        }
        loop {
            if self.phase() == Phase::Unknown {
                self.state.borrow_mut().phase = Phase::Asked(policy);
                self.send_home(Message::Open { policy });
            }
            let waits = || matches!(self.phase(), Phase::Asked(_) | Phase::Frozen);
            self.changed.until(|| !waits() || self.is_over()).at(()).await;
            match self.phase() {
                Phase::Open(_) => return Ok(()),
                Phase::Refused => return Err(Refused::HomeFull),
                Phase::Busy => return Err(Refused::Busy),
                _ if self.is_over() => return Err(Refused::Over),
                // Another view has begun: its home is asked.
                _ => {}
            }
        }
    }

    /// Waits for what was reported to be granted. False if it was, and was lost with its view before this node's task looked.
    async fn until_held(&self) -> Result<bool, Refused> {
        let wants = || matches!(self.role(), Role::WantsShared | Role::WantsExclusive { .. });
        self.changed.until(|| !wants() || self.is_over()).at(()).await;
        if wants() {
            self.set_role(Role::Idle);
            return Err(Refused::Over);
        }
        Ok(matches!(self.role(), Role::Holds(_)))
    }

    pub(super) async fn granted(&self) -> Result<(), Frozen> {
        self.unless_frozen(|state| matches!(state.role, Role::Holds(_))).at(()).await
    }

    pub(super) async fn until_served(&self, readers: u32) -> Result<(), Frozen> {
        self.unless_frozen(|state| state.served >= readers).at(()).await
    }

    pub(super) async fn until_followed(&self) -> Result<(), Frozen> {
        self.unless_frozen(|state| state.successor.is_some()).at(()).await
    }

    /// Waits for something that the epoch's end makes impossible, unless it has come before that end.
    async fn unless_frozen(&self, holds: impl Fn(&RequesterState) -> bool) -> Result<(), Frozen> {
        let (epoch, cuts) = (self.epoch(), self.state.borrow().cuts);
        let over = |state: &RequesterState| {
            state.phase == Phase::Frozen || state.epoch != epoch || state.cuts != cuts
        };
        let ends = || holds(&self.state.borrow()) || over(&self.state.borrow());
        self.changed.until(ends).at(Step::Epoch(epoch, cuts)).await;
        if holds(&self.state.borrow()) { Ok(()) } else { Err(Frozen) }
    }

    // Atomics. The word is used in an open epoch only, and the epoch may end while the atomic is out.

    pub(super) async fn compare_swap(&self, compare: Word, swap: Word) -> Result<Word, Frozen> {
        let out = self.begin_atomic()?;
        let asked = self.wire.compare_swap(out.home, out.at, compare, swap);
        let outcome = self.unless_void(out, asked).at(Step::Swap { out, compare, swap }).await;
        let was = self.end_atomic(out, outcome)?;
        if was != compare {
            bump(&self.wire.counters().swap_misses);
        }
        Ok(was)
    }

    async fn fetch_add(&self, add: u64) -> Result<Word, Frozen> {
        let out = self.begin_atomic()?;
        let asked = self.wire.fetch_add(out.home, out.at, add);
        let outcome = self.unless_void(out, asked).at(Step::Add { out, add }).await;
        self.end_atomic(out, outcome)
    }

    /// Waits for what an atomic tells, and not any longer once its view is over: the home of that view may be away for ever, and this
    /// node hold the lock meanwhile by what it reported to the next one.
    async fn unless_void<T>(
        &self,
        of: Out,
        told: impl Future<Output = Result<T, OutcomeUnknown>>,
    ) -> Result<T, OutcomeUnknown> {
        let is_over = || self.state.borrow().cuts != of.cuts;
        self.changed.unless(is_over, told).at(()).await.unwrap_or(Err(OutcomeUnknown))
    }

    fn begin_atomic(&self) -> Result<Out, Frozen> {
        let mut state = self.state.borrow_mut();
        let (Phase::Open(at), Some(home)) = (state.phase, state.home()) else { return Err(Frozen) };
        state.atomic_out = true;
        Ok(Out { home, at, cuts: state.cuts })
    }

    fn end_atomic(&self, of: Out, outcome: Result<Word, OutcomeUnknown>) -> Result<Word, Frozen> {
        if self.state.borrow().cuts != of.cuts {
            // Of a view that is over, and so is all that it could have told.
            return Err(Frozen);
        }
        let mut out = Vec::new();
        // A poisoned word cannot be met while we have not reported; met all the same, it says nothing.
        let was = outcome.ok().filter(|was| !was.is_poisoned());
        let goes_on = self.state.borrow_mut().atomic_done(was.is_some(), &mut out);
        self.send_all(out);
        was.filter(|_| goes_on).ok_or(Frozen)
    }

    pub(super) fn grant_arrived(&self) {
        let mut out = Vec::new();
        self.state.borrow_mut().grant_arrived(&mut out);
        self.send_all(out);
    }

    fn report(&self) {
        let mut out = Vec::new();
        self.state.borrow_mut().report(&mut out);
        self.send_all(out);
    }

    fn send_all(&self, messages: Vec<(Rank, Message)>) {
        for (to, message) in messages {
            self.send(to, message);
        }
    }

    pub(super) fn send_home(&self, message: Message) {
        let home = self.state.borrow().home();
        if let Some(home) = home {
            self.send(home, message);
        }
    }

    pub(super) fn send(&self, to: Rank, message: Message) {
        self.wire.send(to, self.key, message);
    }

    // The state, by copies: no borrow outlives a call.

    fn phase(&self) -> Phase {
        self.state.borrow().phase
    }

    fn role(&self) -> Role {
        self.state.borrow().role
    }

    fn is_over(&self) -> bool {
        self.state.borrow().over
    }

    pub(super) fn set_role(&self, role: Role) {
        self.state.borrow_mut().role = role;
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.state.borrow().epoch
    }
}
