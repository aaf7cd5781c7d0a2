//! What is chosen of a world of members.

use super::planted::Planted;
use weft_verbs::Nanos;

/// A world's size, and what is wrong in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Rules {
    pub(super) nodes: u32,
    pub(super) wants: u32,
    pub(super) crashes: u32,
    pub(super) restarts: u32,
    pub(super) leaves: u32,
    pub(super) cuts: u32,
    pub(super) early: u32,
    pub(super) patience: u32,
    pub(super) ticks: u32,
    /// Whether all links of a node may be cut at a time.
    pub(super) isolates: bool,
    pub(super) planted: Option<Planted>,
    /// The only node that crashes, if it is not any.
    pub(super) crashing: Option<u32>,
    /// The only node whose links are cut, if they are not any.
    pub(super) cutting: Option<u32>,
    /// The only node that leaves, if it is not any.
    pub(super) leaving: Option<u32>,
}

impl Rules {
    /// Three nodes, two of which want the right, and nothing goes wrong.
    pub(super) const THREE: Rules = Rules {
        nodes: 3,
        wants: 2,
        crashes: 0,
        restarts: 0,
        leaves: 0,
        cuts: 0,
        early: 0,
        patience: 1,
        ticks: 0,
        isolates: false,
        planted: None,
        crashing: None,
        cutting: None,
        leaving: None,
    };

    /// Five nodes which all want the right, and everything goes wrong often.
    pub(super) const STORM: Rules = Rules {
        nodes: 5,
        wants: 5,
        crashes: 12,
        restarts: 12,
        leaves: 1,
        cuts: 12,
        early: 20,
        ticks: 80,
        isolates: true,
        ..Rules::THREE
    };

    /// Three nodes, with a mistake. Faults that it does not need are left out, so that it is found soon.
    pub(super) const fn wrong(mistake: Planted) -> Rules {
        let (crashing, cutting, leaving) = match mistake {
            Planted::Amnesia => (Some(1), None, None),
            Planted::LeaseFromReceipt => (None, Some(1), None),
            Planted::RenewsStill => (None, Some(0), Some(2)),
            _ => (None, None, None),
        };
        Rules { planted: Some(mistake), crashing, cutting, leaving, ..Rules::THREE }
    }

    /// A lease, in ticks of a clock: as short as can be, if it is to be renewed while it runs. One from receipt is too long by the
    /// time that the answer takes, in which a renewal is not forgotten yet; with two ticks, the drift hides that.
    pub(super) fn lease(&self) -> Nanos {
        if self.planted == Some(Planted::LeaseFromReceipt) { Nanos(3) } else { Nanos(2) }
    }

    /// Whether what a mistake does not need is left out: to take messages in more than one order of their senders, and to lose
    /// what a crashed node had sent.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.planted, Some(Planted::Amnesia | Planted::LeaseFromReceipt))
    }
}
