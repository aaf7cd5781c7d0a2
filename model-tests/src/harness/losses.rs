//! What has gone wrong in an execution.

use weft_sim::NodeId;
use weft_sim::explore::{FaultSet, Outcome};

/// What an execution has lost for good.
#[derive(Default)]
pub(super) struct Losses {
    pub crashed: Vec<NodeId>,
    pub struck: Struck,
    /// The last event was to go wrong, and did not.
    pub in_vain: bool,
}

/// Which faults have struck, but for crashes.
#[derive(Clone, Copy, Default)]
pub(super) struct Struck {
    /// Any. Then those who are left may wait for time-outs that no longer come, where time does not go on after a crash.
    pub any: bool,
    /// A disk was full, or failed.
    pub disks: bool,
}

impl Losses {
    /// An event has ended so, and has perhaps crashed a node.
    pub fn take(&mut self, outcome: Outcome, in_vain: bool, crashed: Option<NodeId>) {
        self.in_vain = in_vain;
        self.struck.any |= outcome.is_fault() && !in_vain && crashed.is_none();
        self.struck.disks |= FaultSet::OF_DISKS.contains(outcome);
        self.crashed.extend(crashed);
    }

    /// Whether nothing has gone wrong.
    pub fn is_unharmed(&self) -> bool {
        self.crashed.is_empty() && !self.struck.any
    }
}
