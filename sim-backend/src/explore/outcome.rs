//! How an event can end.

use crate::fault::FaultKind;
use std::fmt;

/// How an event ends: as it should, or with a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum Outcome {
    /// As it should.
    #[default]
    Done = 0,
    /// The packet is lost. The timer of the queue pair that waits for it, or for its answer, may run out from now on.
    Drop = 1,
    /// The packet leaves its order and arrives at any time later; the same timer may run out before. Time-outs that nothing provoked come
    /// after it, where they come [when nothing else can happen](super::Timers::WhenQuiescent).
    Delay = 2,
    /// The request is executed, and its requester is never told: its operation ends with
    /// [`RetryExc`](weft_verbs::WcError::RetryExc) and its queue pair is in error at once. Hits a request that ends
    /// with this packet, or an answer.
    LoseCompletion = 3,
    /// The requester gives up ([`RetryExc`](weft_verbs::WcError::RetryExc)) while the request is still under way: it
    /// may be executed any time later, until the responder's queue pair is in error; as a packet that is
    /// [delayed](Outcome::Delay), before time-outs that nothing provoked.
    RequesterGaveUp = 4,
    /// The link between the packet's two nodes is cut. Everything on it is lost, and everything that is sent over it
    /// until it is repaired: see [`Policy::repairs`](super::Policy::repairs).
    Cut = 5,
    /// The receiving port loses its link, and its adapter knows. Until it is repaired
    /// (see [`Policy::repairs`](super::Policy::repairs)),
    /// everything is lost that comes or leaves by it.
    PortDown = 6,
    /// The receiving node crashes, or the node that was to take its step. It does not come back.
    Crash = 7,
    /// The same, but the node is there again at once, empty: the explorer
    /// [mounts](crate::Fabric::mount) what runs on it then (see [`Taken::restarted`](super::Taken::restarted)).
    Restart = 8,
    /// The node that was to take its step takes it only once nothing else can happen: time goes on without it. Where
    /// clocks go together ([`Policy::drift`](super::Policy::drift)); elsewhere nobody can tell it from a late step.
    SlowNode = 9,
    /// The disk has no room for what a call writes, which ends with [`DiskError::Full`](weft_verbs::DiskError::Full): as much of it as
    /// needs no new room is written.
    DiskFull = 10,
    /// A transfer of a disk, or a sync, ends with [`DiskError::Io`](weft_verbs::DiskError::Io), and nothing is moved. After a sync has failed,
    /// later ones of the same object do, until the node begins anew.
    DiskError = 11,
    /// The operating system of the node that takes its step has no memory to give while it does: no region is registered, no queue pair
    /// is made, and no connection is asked for. A step that asks for none is what it would have been ([`Taken::in_vain`](super::Taken::in_vain)).
    NoMemory = 12,
}

impl Outcome {
    /// All of them, by number.
    pub const ALL: [Outcome; 13] = [
        Outcome::Done,
        Outcome::Drop,
        Outcome::Delay,
        Outcome::LoseCompletion,
        Outcome::RequesterGaveUp,
        Outcome::Cut,
        Outcome::PortDown,
        Outcome::Crash,
        Outcome::Restart,
        Outcome::SlowNode,
        Outcome::DiskFull,
        Outcome::DiskError,
        Outcome::NoMemory,
    ];

    /// The outcome of a number.
    pub const fn from_number(number: u8) -> Option<Outcome> {
        if (number as usize) < Outcome::ALL.len() { Some(Outcome::ALL[number as usize]) } else { None }
    }

    /// Whether something went wrong.
    pub const fn is_fault(self) -> bool {
        !matches!(self, Outcome::Done)
    }

    /// What went wrong; `None` if nothing did.
    pub const fn fault(self) -> Option<FaultKind> {
        Some(match self {
            Outcome::Done => return None,
            Outcome::Drop => FaultKind::Drop,
            Outcome::Delay => FaultKind::Delay,
            Outcome::LoseCompletion => FaultKind::LoseCompletion,
            Outcome::RequesterGaveUp => FaultKind::RequesterGaveUp,
            Outcome::Cut => FaultKind::Cut,
            Outcome::PortDown => FaultKind::PortDown,
            Outcome::Crash => FaultKind::Crash,
            Outcome::Restart => FaultKind::Restart,
            Outcome::SlowNode => FaultKind::SlowNode,
            Outcome::DiskFull => FaultKind::DiskFull,
            Outcome::DiskError => FaultKind::DiskError,
            Outcome::NoMemory => FaultKind::NoMemory,
        })
    }

    /// The name, as users write it: that of the fault's kind, or `done`.
    pub const fn name(self) -> &'static str {
        match self.fault() {
            Some(kind) => kind.name(),
            None => "done",
        }
    }

    /// The outcome of a name.
    pub fn from_name(name: &str) -> Option<Outcome> {
        Outcome::ALL.into_iter().find(|outcome| outcome.name() == name)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of outcomes that are faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct FaultSet(u16);

impl FaultSet {
    /// No fault.
    pub const NONE: FaultSet = FaultSet(0);
    /// Every fault.
    pub const ALL: FaultSet = FaultSet(0x1ffe);
    /// Those of disks.
    pub const OF_DISKS: FaultSet = FaultSet::one(Outcome::DiskFull).with(Outcome::DiskError);
    /// Every fault that there is where time decides nothing, and where nothing has a disk.
    pub const TIMELESS: FaultSet = FaultSet::ALL.without(Outcome::SlowNode).without_all(FaultSet::OF_DISKS);

    /// One fault. [`Outcome::Done`] is none.
    pub const fn one(fault: Outcome) -> FaultSet {
        FaultSet((1u16 << fault as u8) & FaultSet::ALL.0)
    }

    /// The same with one more.
    #[must_use]
    pub const fn with(self, fault: Outcome) -> FaultSet {
        FaultSet(self.0 | FaultSet::one(fault).0)
    }

    /// Those of both.
    #[must_use]
    pub const fn with_all(self, others: FaultSet) -> FaultSet {
        FaultSet(self.0 | others.0)
    }

    /// The same without one of them.
    #[must_use]
    pub const fn without(self, fault: Outcome) -> FaultSet {
        FaultSet(self.0 & !(1u16 << fault as u8))
    }

    /// The same without any of these.
    #[must_use]
    pub const fn without_all(self, others: FaultSet) -> FaultSet {
        FaultSet(self.0 & !others.0)
    }

    /// Those that both have.
    #[must_use]
    pub const fn and(self, other: FaultSet) -> FaultSet {
        FaultSet(self.0 & other.0)
    }

    /// Whether a fault is among them.
    pub const fn contains(self, fault: Outcome) -> bool {
        self.0 & FaultSet::one(fault).0 != 0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Each of them, by number.
    pub fn iter(self) -> impl Iterator<Item = Outcome> {
        Outcome::ALL.into_iter().filter(move |&fault| self.contains(fault))
    }
}

impl FromIterator<Outcome> for FaultSet {
    fn from_iter<I: IntoIterator<Item = Outcome>>(faults: I) -> FaultSet {
        faults.into_iter().fold(FaultSet::NONE, FaultSet::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_one_to_one() {
        for (number, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(Outcome::from_number(number as u8), Some(outcome));
            assert_eq!(Outcome::from_name(outcome.name()), Some(outcome));
        }
        assert_eq!((Outcome::from_number(13), Outcome::from_name("Done")), (None, None));
    }

    #[test]
    fn a_set_of_faults_never_holds_the_good_outcome() {
        let all: FaultSet = Outcome::ALL.into_iter().collect();
        assert_eq!((all, all.len(), all.contains(Outcome::Done)), (FaultSet::ALL, 12, false));
        let two = FaultSet::one(Outcome::Drop).with(Outcome::Cut).with(Outcome::Done);
        assert_eq!(two.iter().collect::<Vec<_>>(), [Outcome::Drop, Outcome::Cut]);
        assert!(two.and(FaultSet::one(Outcome::Delay)).is_empty());
        assert_eq!(two.without(Outcome::Drop), FaultSet::one(Outcome::Cut));
    }
}
