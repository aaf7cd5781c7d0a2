//! Where a transfer takes place: over how many rails, and what beside links may fail.

use weft_protocols::transport::{MeshConfig, Planted};
use weft_sim::explore::{FaultSet, Outcome};

/// What is beside the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// Adapters of a node.
    pub rails: u8,
    /// A connection stands by over the other rail when the transfer begins.
    pub standby: bool,
    /// Either node may crash and begin anew.
    pub restarts: bool,
    /// A mistake of the transport.
    pub planted: Option<Planted>,
}

impl Setting {
    /// One rail, and links that fail.
    pub const PLAIN: Setting = Setting { rails: 1, standby: false, restarts: false, planted: None };
    /// Two rails.
    pub const RAILS: Setting = Setting { rails: 2, ..Setting::PLAIN };
    /// Two rails, and a connection that stands by.
    pub const STANDBY: Setting = Setting { standby: true, ..Setting::RAILS };
    /// One rail, and nodes that begin anew.
    pub const RESTARTS: Setting = Setting { restarts: true, ..Setting::PLAIN };

    /// Where this mistake shows.
    pub const fn of(planted: Planted) -> Setting {
        let beside = match planted {
            Planted::ReusesSession => Setting::RESTARTS,
            _ => Setting::RAILS,
        };
        Setting { planted: Some(planted), ..beside }
    }

    /// What the mesh is told of it.
    pub fn mesh(self, config: &mut MeshConfig) {
        (config.planted, config.standby) = (self.planted, self.standby);
    }

    /// What may fail: what was under way where a node begins anew is reset, and a new request is answered.
    pub fn faults(self) -> FaultSet {
        let survived = FaultSet::TIMELESS.without(Outcome::Crash);
        if self.restarts { survived } else { survived.without(Outcome::Restart) }
    }

    /// Whether ports that lose their link have lost it for good: what is refuted there is that it goes on without.
    pub fn breaks_for_good(self) -> bool {
        self.planted == Some(Planted::MovesOneEnd)
    }
}
