//! What a node has to do with one lock, and how it answers the other nodes: a state machine without I/O.
//!
//! The requests themselves are made by [`Requester`](super::requester::Requester), which reads and changes this state between
//! its own steps.

use super::messages::{Claim, Epoch, Message, Passed, Report};
use super::word::Word;
use crate::locks::Mode;
use crate::locks::client::WaitPolicy;
use crate::transport::Rank;
use weft_verbs::RemoteSlice;

/// Where this node stands with the lock's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// It does not know the word and has not asked.
    Unknown,
    /// It has asked the home, for a request that waits or for a try.
    Asked(WaitPolicy),
    /// The home has no memory for the lock.
    Refused,
    /// The home does not open the lock now, and this node only tries.
    Busy,
    /// It may use the word.
    Open(RemoteSlice),
    /// It has reported: the epoch is over for it, and it waits for the next one.
    Frozen,
}

/// What the node's request has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    /// There is no request.
    Idle,
    /// An attempt to take the lock without waiting.
    Trying,
    /// It waits to share.
    WantsShared,
    /// It waits to be alone; `over` is what its last compare-and-swap guessed, and replaced if that took
    /// effect.
    WantsExclusive { over: Word },
    /// It holds.
    Holds(Mode),
    /// It held exclusively, and is becoming one of those who share.
    Downgrading,
    /// It held exclusively and hands the lock on.
    Releasing,
}

/// The next node in the exclusive queue, as it told us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Successor {
    pub(crate) who: Rank,
    /// How many shared requests came between us and it, all of them sent to us.
    pub(crate) readers: u32,
    pub(crate) turn: u32,
}

/// How a message was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// As the protocol has it.
    Well,
    /// It belongs to an epoch that is over, and is dropped.
    Stale,
    /// It contradicts the protocol, and is dropped.
    OutOfTurn,
}

/// A node's side of one lock.
#[derive(Clone, Debug, Hash)]
pub(crate) struct RequesterState {
    /// None while the node is in no view of the membership. Then nothing is said, and what is wanted or held when there is one is
    /// reported.
    home: Option<Rank>,
    /// The number of the view; 0 without members. And that in which the lock was granted last.
    view: u64,
    granted_in: u64,
    /// How often all that was under way has become void: the epoch ended for this node, or the view.
    pub(crate) cuts: u32,
    /// Nothing will be granted to this node any more, and nothing is waited for: it was left out of the membership, or has closed its mesh.
    pub(crate) over: bool,
    pub(crate) phase: Phase,
    pub(crate) role: Role,
    pub(crate) epoch: Epoch,
    /// Counts this node's exclusive requests, over all epochs: a number is never used again.
    pub(crate) turn: u32,
    /// The last successor that it passed the lock to.
    pub(crate) passed: Option<Passed>,
    /// An atomic of ours is on its way; a report waits for it.
    pub(crate) atomic_out: bool,
    freeze_asked: bool,
    /// Shared requests that reached us and are not granted.
    arrived: Vec<Rank>,
    /// Shared requests that reached us and were granted.
    pub(crate) served: u32,
    pub(crate) successor: Option<Successor>,
}

impl RequesterState {
    pub(crate) fn new(home: impl Into<Option<Rank>>, view: u64) -> RequesterState {
        RequesterState {
            home: home.into(),
            view,
            granted_in: 0,
            cuts: 0,
            over: false,
            phase: Phase::Unknown,
            role: Role::Idle,
            epoch: 0,
            turn: 0,
            passed: None,
            atomic_out: false,
            freeze_asked: false,
            arrived: Vec::new(),
            served: 0,
            successor: None,
        }
    }

    /// Takes a message that is addressed to a member of the queue (and not to the lock's home).
    pub(crate) fn on_message(
        &mut self,
        from: Rank,
        message: Message,
        out: &mut Vec<(Rank, Message)>,
    ) -> Taken {
        match message {
            Message::Opened { epoch, word } => self.on_opened(epoch, word),
            Message::Refused if self.awaits_a_word() => {
                self.phase = Phase::Refused;
                Taken::Well
            }
            Message::Busy if self.phase == Phase::Asked(WaitPolicy::Try) => {
                self.phase = Phase::Busy;
                Taken::Well
            }
            Message::GrantAfterRecovery { epoch } => self.on_grant_after_recovery(epoch),
            Message::Freeze { epoch }
            | Message::Read { epoch }
            | Message::Grant { epoch }
            | Message::Queue { epoch, .. } => {
                if epoch < self.epoch || self.phase == Phase::Frozen {
                    return Taken::Stale;
                }
                if epoch > self.epoch || !matches!(self.phase, Phase::Open(_)) {
                    // Who writes to us in an epoch found us in its word, or is the home that opened it to us.
                    return Taken::OutOfTurn;
                }
                match message {
                    Message::Freeze { .. } => self.on_freeze(out),
                    Message::Read { .. } => self.on_read(from, out),
                    Message::Queue { readers, turn, .. } => {
                        self.on_queue(Successor { who: from, readers, turn })
                    }
                    _ => self.on_grant(),
                }
            }
            Message::Refused
            | Message::Busy
            | Message::Open { .. }
            | Message::Wait { .. }
            | Message::Release { .. }
            | Message::Downgrade { .. }
            | Message::RetryReset { .. }
            | Message::Report { .. }
            | Message::Reported { .. } => Taken::OutOfTurn,
        }
    }

    /// Whether the home is to tell it a word, or that there is none: it has asked, or what it had in the epoch before is over.
    fn awaits_a_word(&self) -> bool {
        match self.phase {
            Phase::Asked(_) => true,
            Phase::Frozen => matches!(self.role, Role::Idle | Role::Releasing),
            Phase::Unknown | Phase::Refused | Phase::Busy | Phase::Open(_) => false,
        }
    }

    fn on_opened(&mut self, epoch: Epoch, word: RemoteSlice) -> Taken {
        let is_next = self.phase != Phase::Frozen || epoch == self.epoch + 1;
        if !is_next || !self.awaits_a_word() {
            return Taken::OutOfTurn;
        }
        self.epoch = epoch;
        self.phase = Phase::Open(word);
        self.freeze_asked = false;
        self.forget_queue();
        Taken::Well
    }

    /// A shared request came after ours (3.2.4, step 2). It is granted when we are done, or
    /// share.
    fn on_read(&mut self, from: Rank, out: &mut Vec<(Rank, Message)>) -> Taken {
        if !self.may_be_tail() {
            return Taken::OutOfTurn;
        }
        self.arrived.push(from);
        if matches!(self.role, Role::Downgrading | Role::Releasing) {
            self.grant_arrived(out);
        }
        Taken::Well
    }

    /// An exclusive request came after ours (3.2.1, step 3). There is one: only its compare-and-swap replaced
    /// us as the tail.
    fn on_queue(&mut self, successor: Successor) -> Taken {
        if !self.may_be_tail() || self.successor.is_some() {
            return Taken::OutOfTurn;
        }
        self.successor = Some(successor);
        Taken::Well
    }

    fn on_grant(&mut self) -> Taken {
        let mode = match self.role {
            Role::WantsShared => Mode::Shared,
            Role::WantsExclusive { .. } => Mode::Exclusive,
            Role::Idle | Role::Trying | Role::Holds(_) | Role::Downgrading | Role::Releasing => {
                return Taken::OutOfTurn;
            }
        };
        self.hold(mode);
        Taken::Well
    }

    /// The lock is this node's from now on.
    pub(crate) fn hold(&mut self, mode: Mode) {
        self.role = Role::Holds(mode);
        self.granted_in = self.view;
    }

    fn on_grant_after_recovery(&mut self, epoch: Epoch) -> Taken {
        if self.phase != Phase::Frozen || epoch != self.epoch {
            return Taken::OutOfTurn;
        }
        self.on_grant()
    }

    fn on_freeze(&mut self, out: &mut Vec<(Rank, Message)>) -> Taken {
        if self.atomic_out {
            self.freeze_asked = true;
        } else {
            self.report(out);
        }
        Taken::Well
    }

    /// An atomic came home. Whether the epoch goes on for us: not if its end was announced meanwhile, and not
    /// if the atomic's outcome is unknown. In both cases it counts as one whose result never came.
    pub(crate) fn atomic_done(&mut self, known: bool, out: &mut Vec<(Rank, Message)>) -> bool {
        self.atomic_out = false;
        if known && !self.freeze_asked {
            return true;
        }
        self.report(out);
        false
    }

    /// What the node has of the lock, or wants.
    fn claim(&self) -> Claim {
        match self.role {
            Role::Idle | Role::Trying | Role::Releasing => Claim::Nothing,
            Role::Holds(mode) => Claim::Holds(mode),
            Role::Downgrading => Claim::Holds(Mode::Shared),
            Role::WantsShared => Claim::WantsShared,
            Role::WantsExclusive { over } => Claim::WantsExclusive { over },
        }
    }

    /// Ends the epoch for this node: whatever it had to do with it is now the home's to decide.
    pub(crate) fn report(&mut self, out: &mut Vec<(Rank, Message)>) {
        self.cuts = self.cuts.wrapping_add(1);
        self.phase = Phase::Frozen;
        self.forget_queue();
        self.say(self.reported(), out);
    }

    fn reported(&self) -> Message {
        let report = Report { claim: self.claim(), turn: self.turn, passed: self.passed };
        Message::Report { epoch: self.epoch, report }
    }

    /// Says something to the home, if there is one.
    pub(crate) fn say(&self, message: Message, out: &mut Vec<(Rank, Message)>) {
        out.extend(self.home.map(|home| (home, message)));
    }

    /// The home.
    pub(crate) fn home(&self) -> Option<Rank> {
        self.home
    }

    // Views of the membership.

    /// A view begins, in which `home` keeps the lock. Nothing of the last one counts any more, and an atomic that is still under
    /// way counts as one whose result never came: what the node has or wants it reports, in an epoch before the first.
    pub(crate) fn view_begins(&mut self, home: Rank, view: u64, out: &mut Vec<(Rank, Message)>) {
        self.leave_view();
        (self.home, self.view) = (Some(home), view);
        if self.phase == Phase::Frozen {
            self.say(self.reported(), out);
        }
    }

    /// The view is lost. What was held is not held any more; whether something was.
    pub(crate) fn view_lost(&mut self) -> bool {
        let held = matches!(self.role, Role::Holds(_) | Role::Downgrading);
        if held {
            self.role = Role::Idle;
        }
        self.leave_view();
        self.home = None;
        held
    }

    /// All that was under way becomes void. Who has or wants something is frozen until a home has decided about it; who has nothing
    /// asks the home when it wants something.
    fn leave_view(&mut self) {
        self.cuts = self.cuts.wrapping_add(1);
        self.epoch = 0;
        (self.atomic_out, self.freeze_asked) = (false, false);
        self.forget_queue();
        self.phase = if self.claim() == Claim::Nothing { Phase::Unknown } else { Phase::Frozen };
    }

    /// The view in which the lock was granted last; 0 without members.
    pub(crate) fn granted_in(&self) -> u64 {
        self.granted_in
    }

    /// Grants every shared request that has reached us.
    pub(crate) fn grant_arrived(&mut self, out: &mut Vec<(Rank, Message)>) {
        for reader in self.arrived.drain(..) {
            self.served += 1;
            out.push((reader, Message::Grant { epoch: self.epoch }));
        }
    }

    /// Forgets those that queued behind us, being done with them.
    pub(crate) fn forget_queue(&mut self) {
        self.arrived.clear();
        self.served = 0;
        self.successor = None;
    }

    /// Whether others may have found us as the tail of the word.
    fn may_be_tail(&self) -> bool {
        match self.role {
            Role::Trying
            | Role::WantsExclusive { .. }
            | Role::Holds(Mode::Exclusive)
            | Role::Downgrading
            | Role::Releasing => true,
            Role::Idle | Role::WantsShared | Role::Holds(Mode::Shared) => false,
        }
    }
}
