//! How a world is made.

use crate::jitter::Jitter;
use crate::profile::Profile;
use thiserror::Error;
use weft_verbs::Nanos;

/// A world's making.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many nodes, at least 1.
    pub nodes: u32,
    /// Adapters of every node, 1 to [`MAX_DEVICES`].
    pub devices: u8,
    /// Ports of every adapter, each with its own cable to the switch; 1 to [`MAX_PORTS`].
    pub ports: u8,
    /// What everything costs.
    pub profile: Profile,
    /// How the nodes are wired.
    pub topology: Topology,
    /// In which order events of the same instant happen.
    pub order: Order,
    /// Whether the event log is kept, in memory until it is taken. For a log in a file see
    /// [`Fabric::set_log`](crate::Fabric::set_log).
    pub log: bool,
    /// By how much at most the processor may see what an adapter wrote later than the adapter says it is there, where
    /// no completion says so; zero, the default, is never later. How late each 64 bytes are is asked of the world's
    /// [`Choice`](crate::choice::Choice). A protocol that polls memory should be tried with some microseconds. Untimed
    /// worlds ignore it.
    pub visibility: Nanos,
    /// By how much latencies vary; not at all by default. Untimed worlds ignore it.
    pub jitter: Jitter,
    /// How adapters give out memory keys.
    pub keys: Keys,
    /// Whether adapters have remote atomics ([`Caps::ATOMICS`](weft_verbs::Caps::ATOMICS)), as they do by default.
    pub atomics: bool,
    /// Whether the [sanitizer](crate::sanitizer) watches, as it does unless speed is what is measured: it changes
    /// nothing but the time that a run takes.
    pub sanitize: bool,
}

impl Config {
    /// A world of so many nodes of one adapter of one port at one switch, in chosen order, with the profile's latencies to the
    /// nanosecond, watched, with nothing written down.
    pub fn new(nodes: u32, profile: Profile) -> Config {
        Config {
            nodes,
            devices: 1,
            ports: 1,
            profile,
            topology: Topology::default(),
            order: Order::default(),
            log: false,
            visibility: Nanos::ZERO,
            jitter: Jitter::NONE,
            keys: Keys::default(),
            atomics: true,
            sanitize: true,
        }
    }
}

/// How the nodes are wired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Topology {
    /// Every port of every adapter of every node is on a cable to the one switch.
    #[default]
    Switch,
}

/// How adapters give out memory keys. Adapters do either, so a protocol is to be right under both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Keys {
    /// A key that has died comes again late, after 4,352 registrations at least; and a part of a region has an address of its own,
    /// which never comes again. So what a peer kept of a region that is gone is refused, for ever.
    #[default]
    Rest,
    /// The key that died last is that of the adapter's very next region, as where Linux's mlx5 driver keeps dead keys of one size for
    /// the next registration; and a part of a region has the address of its bytes in the whole one. So what a peer kept of a part
    /// opens the next part of the same range.
    Stack,
}

/// In which order events of the same virtual instant happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// As the world's [`Choice`](crate::choice::Choice) says.
    #[default]
    Chosen,
    /// In the order in which they came to be. Nothing is asked: for measurements of speed.
    Fifo,
    /// Without times: whatever could happen next may ([`explore`](crate::explore)). Time stands still, and
    /// [`Fabric::run_until`](crate::Fabric::run_until) does nothing.
    Untimed,
}

/// Most nodes of a world.
pub const MAX_NODES: u32 = 1 << 16;

/// Most adapters of a node.
pub const MAX_DEVICES: u8 = 8;
/// Most ports of all adapters of an [untimed](Order::Untimed) world.
pub const MAX_UNTIMED_PORTS: u32 = 1 << 10;

/// Most ports of an adapter.
pub const MAX_PORTS: u8 = 8;

/// A configuration that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// No nodes, or more than a world can hold.
    #[error("nodes is {0}, and must be from 1 to {MAX_NODES}")]
    Nodes(u32),
    /// No adapters, or more than a node can have.
    #[error("devices is {0}, and must be from 1 to {MAX_DEVICES}")]
    Devices(u8),
    /// More ports in all than an untimed world can hold.
    #[error("the nodes have {0} ports in all, of which an untimed world can hold {MAX_UNTIMED_PORTS}")]
    Untimed(u32),
    /// No ports, or more than an adapter can have.
    #[error("ports is {0}, and must be from 1 to {MAX_PORTS}")]
    Ports(u8),
}
