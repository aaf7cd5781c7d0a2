//! Where a transfer takes place: over how many rails, and what beside links may fail.

use super::super::workload::FailoverMode;
use super::transfer::{BUFFERS, PAYLOAD};
use weft_protocols::sdp::SdpOptions;
use weft_protocols::transport::{MeshConfig, Planted};
use weft_sim::explore::{FaultSet, Outcome};
use weft_verbs::Nanos;

/// What is beside the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// Adapters of a node.
    pub rails: u8,
    /// A connection stands by over the other rail when the transfer begins.
    pub standby: bool,
    /// Either node may crash and begin anew.
    pub restarts: bool,
    /// Either node may crash for good: streams have a time after which a peer is given up.
    pub crashes: bool,
    /// Where nodes crash for good, a peer of which nothing is heard is asked whether it is there, though nothing is open with it.
    pub asks: bool,
    /// So many nodes, the client first, have their connection moved to another rail while the transfer goes on.
    pub movers: u32,
    /// Users are told of another rail, and connect again.
    pub told: bool,
    /// The transport keeps one message for a peer: what comes next waits until it is acknowledged.
    pub narrow: bool,
    /// Calls and closes wait for a time, and no longer.
    pub impatient: bool,
    /// A mistake of the transport.
    pub planted: Option<Planted>,
}

impl Setting {
    /// One rail, and links that fail.
    pub const PLAIN: Setting = Setting {
        rails: 1,
        standby: false,
        restarts: false,
        crashes: false,
        asks: true,
        movers: 0,
        told: false,
        narrow: false,
        impatient: false,
        planted: None,
    };
    /// Two rails.
    pub const RAILS: Setting = Setting { rails: 2, ..Setting::PLAIN };
    /// Two rails, and a connection that stands by.
    pub const STANDBY: Setting = Setting { standby: true, ..Setting::RAILS };
    /// Two rails, and the client has the connection moved.
    pub const MOVED: Setting = Setting { movers: 1, ..Setting::RAILS };
    /// Two rails, and both ends have it moved, each to another one.
    pub const MOVED_TWICE: Setting = Setting { movers: 2, ..Setting::RAILS };
    /// Two rails, and users that are told of another one.
    pub const TOLD: Setting = Setting { told: true, ..Setting::RAILS };
    /// The same, and the client has the connection moved.
    pub const TOLD_MOVED: Setting = Setting { movers: 1, ..Setting::TOLD };
    /// One rail, and nodes that begin anew.
    pub const RESTARTS: Setting = Setting { restarts: true, ..Setting::PLAIN };

    /// One rail, and nodes that crash for good.
    pub const CRASHES: Setting = Setting { crashes: true, ..Setting::PLAIN };

    /// One rail, and room for one message.
    pub const NARROW: Setting = Setting { narrow: true, ..Setting::PLAIN };

    /// One rail, room for one message, and nodes that begin anew.
    pub const NARROW_RESTARTS: Setting = Setting { narrow: true, ..Setting::RESTARTS };

    /// Two rails, room for one message, and the client has the connection moved.
    pub const NARROW_MOVED: Setting = Setting { narrow: true, ..Setting::MOVED };

    /// One rail, and calls that wait for a time.
    pub const IMPATIENT: Setting = Setting { impatient: true, ..Setting::PLAIN };

    /// One rail, nodes that crash for good, and an end that only reads asks nothing.
    pub const UNASKED: Setting = Setting { asks: false, ..Setting::CRASHES };

    /// How long messages to a peer may go unacknowledged where nodes crash: far longer than connections rest before they are made again.
    const GIVE_UP: Nanos = Nanos::from_millis(80);
    /// How long nothing may be heard of a peer there until it is asked whether it is there.
    const KEEPALIVE: Nanos = Nanos::from_millis(20);
    /// How long a message goes without acknowledgement there.
    const ACK_DELAY: Nanos = Nanos::from_millis(1);
    /// How long calls wait where they do not wait for ever.
    const PATIENCE: Nanos = Nanos::from_millis(20);
    /// By how much clocks differ there.
    const DRIFT: Nanos = Nanos::from_millis(1);
    /// Within how long of a crash every call of the other node has ended. What came just before the crash counts for the time in which it
    /// came, so the peer is asked within twice the time, and then it is given up.
    pub const BOUND: Nanos = Nanos(2 * Setting::KEEPALIVE.0 + Setting::GIVE_UP.0 + Setting::ACK_DELAY.0);

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
        if self.has_clock() {
            config.ack_delay = Setting::ACK_DELAY;
        }
        if self.narrow {
            (config.max_queued, config.probe_after) = (1, Setting::ACK_DELAY * 4);
        }
    }

    /// What its streams do when their connection goes over to another rail.
    pub fn failover(self) -> FailoverMode {
        if self.told { FailoverMode::Application } else { FailoverMode::Transparent }
    }

    /// The options of its streams: without time-outs, but where they are what it is about.
    pub fn options(self, options: SdpOptions) -> SdpOptions {
        let patience = self.impatient.then_some(Setting::PATIENCE);
        SdpOptions {
            connect_timeout: patience,
            read_timeout: patience,
            write_timeout: patience,
            linger: patience,
            give_up: if self.crashes { Setting::GIVE_UP } else { Nanos::MAX },
            keepalive: (self.crashes && self.asks).then_some(Setting::KEEPALIVE),
            ..options.without_timeouts()
        }
    }

    /// The options of streams whose messages are as short as those of transfers; owned buffers with more bytes than a threshold go without
    /// a copy, unless that is 0.
    pub fn short_options(self, zcopy_threshold: u32) -> SdpOptions {
        let (buffers, buffer_bytes) = (BUFFERS, PAYLOAD);
        self.options(SdpOptions { buffers, buffer_bytes, zcopy_threshold, ..SdpOptions::default() })
    }

    /// By how much clocks differ, where time decides something.
    pub fn drift(self) -> Option<Nanos> {
        self.has_clock().then_some(Setting::DRIFT)
    }

    /// Whether time decides something: it goes on, and messages are acknowledged.
    fn has_clock(self) -> bool {
        self.crashes || self.narrow || self.impatient
    }

    /// What may fail: what was under way where a node begins anew is reset, and a new request is answered; what was under way with one
    /// that is dead ends in time. A stream for whose message there is no memory ends, and a node that begins anew has none for its first.
    pub fn faults(self) -> FaultSet {
        let without = |set: FaultSet, kind, has| if has { set } else { set.without(kind) };
        let survived = without(FaultSet::TIMELESS, Outcome::Crash, self.crashes);
        let survived = without(survived, Outcome::NoMemory, !self.restarts);
        without(survived, Outcome::Restart, self.restarts)
    }

    /// Whether ports that lose their link have lost it for good: what is refuted there is that it goes on without.
    pub fn breaks_for_good(self) -> bool {
        self.planted == Some(Planted::MovesOneEnd)
    }
}
