//! How a world is made.

use crate::profile::Profile;
use thiserror::Error;

/// A world's making.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many nodes, at least 1.
    pub nodes: u32,
    /// Ports of every node's adapter, each with its own cable to the switch; 1 to [`MAX_PORTS`].
    pub ports: u8,
    /// What everything costs.
    pub profile: Profile,
    /// How the nodes are wired.
    pub topology: Topology,
    /// In which order events of the same instant happen.
    pub order: Order,
    /// What is written down.
    pub record: Record,
    /// Whether the [sanitizer](crate::sanitizer) watches, as it does unless speed is what is measured: it changes
    /// nothing but the time that a run takes.
    pub sanitize: bool,
}

impl Config {
    /// A world of so many nodes of one port at one switch, in chosen order, watched, with nothing written down.
    pub fn new(nodes: u32, profile: Profile) -> Config {
        Config {
            nodes,
            ports: 1,
            profile,
            topology: Topology::default(),
            order: Order::default(),
            record: Record::default(),
            sanitize: true,
        }
    }
}

/// How the nodes are wired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Topology {
    /// Every node has one adapter, each of its ports on a cable to the one switch.
    #[default]
    Switch,
}

/// In which order events of the same virtual instant happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// As the world's [`Choice`](crate::choice::Choice) says.
    #[default]
    Chosen,
    /// In the order in which they came to be. Nothing is asked: for measurements of speed.
    Fifo,
}

/// What is written down during a run. Nothing by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Record {
    /// The event log, kept in memory until it is taken. For a log in a file see
    /// [`Fabric::set_log`](crate::Fabric::set_log).
    pub log: bool,
    /// Every access to registered memory.
    pub access: bool,
}

/// Most nodes of a world.
pub const MAX_NODES: u32 = 1 << 16;

/// Most ports of an adapter.
pub const MAX_PORTS: u8 = 8;

/// A configuration that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// No nodes, or more than a world can hold.
    #[error("nodes is {0}, and must be from 1 to {MAX_NODES}")]
    Nodes(u32),
    /// No ports, or more than an adapter can have.
    #[error("ports is {0}, and must be from 1 to {MAX_PORTS}")]
    Ports(u8),
}
