//! How long members wait for what.

use weft_verbs::Nanos;

/// A membership's settings. Every node needs the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MembersConfig {
    /// How many nodes are configured: ranks 1 to this number.
    pub nodes: u32,
    /// How long a lease runs. What a member that died had held is granted anew a lease and the drift after the view without
    /// it began. Default: 100 ms.
    pub lease: Nanos,
    /// By how much two nodes' clocks may differ over one lease. Default: 1 ms, a hundred times what crystals drift in 100 ms.
    pub drift: Nanos,
    /// How long a member that is asked may take to answer before it is suspected: longer than the connections between nodes
    /// that live are ever away. Default: 50 ms.
    pub patience: Nanos,
}

impl MembersConfig {
    /// The defaults.
    pub const fn new(nodes: u32) -> MembersConfig {
        MembersConfig {
            nodes,
            lease: Nanos::from_millis(100),
            drift: Nanos::from_millis(1),
            patience: Nanos::from_millis(50),
        }
    }
}
