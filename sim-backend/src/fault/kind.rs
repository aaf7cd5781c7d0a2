//! The kinds of faults: one list and one name for each, wherever a fault is planned, chosen, written or counted.

use serde::{Serialize, Serializer};
use std::fmt;

/// What can go wrong. A [`Fault`](super::Fault) of a plan has one of these kinds, an explored
/// [`Outcome`](crate::explore::Outcome) that is not as it should has one, and scenarios and reports write their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// A link carries nothing; nobody is told.
    Cut,
    /// A link is cut and healed several times.
    Flap,
    /// A share of a link's packets is lost.
    Loss,
    /// Packets are late, and may be overtaken.
    Delay,
    /// A share of a link's packets arrives twice.
    Duplicate,
    /// A share of a link's packets arrives damaged, and is dropped by the receiver's checksum.
    Corrupt,
    /// An adapter's port goes down, and the adapter says so.
    PortDown,
    /// A request is executed by its responder, but the answer and all that follows it is lost: the requester cannot know
    /// that it was executed.
    LoseCompletion,
    /// A node's processor is slow.
    SlowNode,
    /// A node that has crashed is there again, empty: what ran on it starts anew.
    Restart,
    /// A node stops dead and loses its memory.
    Crash,
    /// A machine's disk has no more room than what is taken already.
    DiskFull,
    /// Every transfer of a machine's disk, and every sync, fails.
    DiskError,
    /// A machine's operating system has no more memory to give: none is registered, and no queue pair is made.
    NoMemory,
    /// One packet is lost.
    Drop,
    /// A requester gives up while its request is still under way: it may be executed any time later.
    RequesterGaveUp,
}

impl FaultKind {
    /// Every kind, in the order in which reports list them.
    pub const ALL: [FaultKind; 16] = [
        FaultKind::Cut,
        FaultKind::Flap,
        FaultKind::Loss,
        FaultKind::Delay,
        FaultKind::Duplicate,
        FaultKind::Corrupt,
        FaultKind::PortDown,
        FaultKind::LoseCompletion,
        FaultKind::SlowNode,
        FaultKind::Restart,
        FaultKind::Crash,
        FaultKind::DiskFull,
        FaultKind::DiskError,
        FaultKind::NoMemory,
        FaultKind::Drop,
        FaultKind::RequesterGaveUp,
    ];

    /// Its name, as users write it and reports print it.
    pub const fn name(self) -> &'static str {
        match self {
            FaultKind::Cut => "cut",
            FaultKind::Flap => "flap",
            FaultKind::Loss => "loss",
            FaultKind::Delay => "delay",
            FaultKind::Duplicate => "duplicate",
            FaultKind::Corrupt => "corrupt",
            FaultKind::PortDown => "port-down",
            FaultKind::LoseCompletion => "lose-completion",
            FaultKind::SlowNode => "slow-node",
            FaultKind::Restart => "restart",
            FaultKind::Crash => "crash",
            FaultKind::DiskFull => "disk-full",
            FaultKind::DiskError => "disk-error",
            FaultKind::NoMemory => "no-memory",
            FaultKind::Drop => "drop",
            FaultKind::RequesterGaveUp => "requester-gave-up",
        }
    }

    /// The kind of a name.
    pub fn from_name(name: &str) -> Option<FaultKind> {
        FaultKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for FaultKind {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::FaultKind;

    #[test]
    fn kinds_and_names_are_one_to_one() {
        for (place, kind) in FaultKind::ALL.into_iter().enumerate() {
            assert_eq!((FaultKind::from_name(kind.name()), kind as usize), (Some(kind), place));
        }
        assert_eq!(FaultKind::from_name("Cut"), None);
    }
}
