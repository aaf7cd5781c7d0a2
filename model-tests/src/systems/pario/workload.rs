//! What `[workload]` may say of files.

use super::content;
use super::oracles::Survival;
use crate::fields::{
    Dice, Rule, Share, Span, Spread, broken, clients, count, in_section, no_time, one, requests_or_duration,
};
use crate::system::Amount;
use serde::{Deserialize, Serialize};
use weft_protocols::pario::{Distribution, FsConfig, Movers, Storage, Sync, Wire};
use weft_protocols::transport::GuestConfig;
use weft_verbs::Nanos;

/// A queue of common adapters takes 16,384 receives, of which 4,096 guests have two each, and 64 are between them.
const MOST_SLOTS: u32 = 16_384 - 2 * 4_096 - 64;

/// What clients do with files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Each client writes and reads blocks at places of its own in one file (pvfs2-quadrics.txt, 6: blocks of 4 MB).
    Bulk,
    /// All clients write and read cells anywhere in files that they share.
    Mix,
    /// Clients make, read, remove and list small files.
    Small,
    /// Clients write and read rectangles of an array by lists, each its own tile, or one that overlaps with others.
    Tiles,
}

impl Access {
    /// Every way.
    pub const ALL: [Access; 4] = [Access::Bulk, Access::Mix, Access::Small, Access::Tiles];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Access::Bulk => "bulk",
            Access::Mix => "mix",
            Access::Small => "small",
            Access::Tiles => "tiles",
        }
    }

    /// Whether clients keep the one file open.
    pub const fn keeps_open(self) -> bool {
        matches!(self, Access::Bulk | Access::Tiles)
    }
}

/// Where servers keep bytes, as a scenario says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// On the machine's disk.
    Disk,
    /// In memory.
    Memory,
}

/// When a write is durable, as a scenario says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durable {
    /// Before it is answered.
    Each,
    /// When a client asks for it.
    Asked,
}

/// What carries requests and answers, as a scenario says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// Messages and RDMA.
    Verbs,
    /// Byte streams.
    Tcp,
}

/// Who moves data that do not ride in messages, as a scenario says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mover {
    /// Servers.
    Server,
    /// Clients.
    Client,
    /// By load.
    Adaptive,
}

/// `[workload]` with `kind = "pario"`: what the users of files do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PfWork {
    /// What clients do: `"bulk"`, `"mix"`, `"small"` or `"tiles"`.
    pub access: Access,
    /// How many servers there are, the first nodes of the cluster. Default: 1.
    #[serde(default = "one")]
    pub servers: u32,
    /// Application processes on each machine, 1 to 1024. Servers have them, too. Default: 1.
    #[serde(default = "one")]
    pub clients: u32,
    /// How many files there are for all, 1 to 100,000; bulk has one. Default: 1.
    #[serde(default = "one")]
    pub files: u32,
    /// Bytes of a strip, a multiple of `cell`. Default: 65,536.
    #[serde(default = "strip")]
    pub strip: u32,
    /// Bytes that are told apart: whose they are is asked of each cell. 32 to 1,048,576, a multiple of 8. Default: 4,096.
    #[serde(default = "cell")]
    pub cell: u32,
    /// Cells of a block, of the largest transfer, or of the largest small file: 1 to 65,536. Default: 16.
    #[serde(default = "cells")]
    pub cells: u32,
    /// How many such a file has: a client's blocks in bulk, the file's length in mix. Default: 4.
    #[serde(default = "blocks")]
    pub blocks: u32,
    /// The share of requests that write; the others read. Default: 0.5.
    #[serde(default = "half")]
    pub writes: Share,
    /// Where servers keep bytes: `"disk"` or `"memory"`. Default: disk.
    #[serde(default = "disk")]
    pub storage: Keep,
    /// When writes are durable: `"each"` or `"asked"`. Default: each.
    #[serde(default = "each")]
    pub sync: Durable,
    /// Under `sync = "asked"`, of how many writes of a client one is followed by a sync; 0 for none. Default: 0.
    #[serde(default)]
    pub syncs: u32,
    /// What carries requests and answers: `"verbs"` or `"tcp"`. Default: verbs.
    #[serde(default = "verbs")]
    pub wire: By,
    /// Who moves data: `"server"`, `"client"` or, by load, `"adaptive"`. Default: server.
    #[serde(default = "server")]
    pub movers: Mover,
    /// Bytes that ride in messages at most, 0 to 65,536. Default: 4,096.
    #[serde(default = "cell")]
    pub eager: u32,
    /// Bytes of a unit, a multiple of `cell`, to 16 MiB. Default: 1,048,576.
    #[serde(default = "unit")]
    pub unit: u32,
    /// Places in a server's staging. Default: 16.
    #[serde(default = "cells")]
    pub stages: u32,
    /// How many requests each client makes. Give this or `duration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// How long clients go on making requests, in virtual time. Give this or `requests`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// How long a client rests before each request. Default: `"0us"`, none.
    #[serde(default = "no_time")]
    pub think: Spread,
    /// Whether nodes that are no servers are guests: the servers do not know their names, and they share one receive queue. By verbs only.
    /// Default: false, all nodes know each other.
    #[serde(default)]
    pub guests: bool,
    /// For how long a guest may be silent, 1 ms to 65 s. Default: 10 s.
    #[serde(default = "lease")]
    pub lease: Span,
    /// Receive buffers that a server's guests share beside the two of each, 1 to 8,128. Default: 256.
    #[serde(default = "common")]
    pub slots: u32,
    /// How many requests a guest makes in one visit; then it leaves and another one comes. 0: it stays. Default: 0.
    #[serde(default)]
    pub visit: u32,
    /// The share of guests that die, in the middle of a request, and do not leave. Default: 0.
    #[serde(default)]
    pub dies: Share,
    /// Over how many directories files are spread, up to 1,000; 0: all are in the root. Default: 0.
    #[serde(default)]
    pub directories: u32,
    /// Digits of a file's name, at least. Only worlds say it.
    #[serde(skip)]
    pub digits: usize,
    /// The share of requests about small files that give a file another name, which may be another file's. Default: 0.
    #[serde(default)]
    pub renames: Share,
    /// The share of writes of mixed access that append to their file. Default: 0.
    #[serde(default)]
    pub appends: Share,
    /// The share of requests of mixed access that cut a file. Default: 0.
    #[serde(default)]
    pub cuts: Share,
    /// The share of requests about small files and of mixed access that ask what is told of a file beside its bytes, or say it. Default: 0.
    #[serde(default)]
    pub stats: Share,
}

fn strip() -> u32 {
    65_536
}

fn cell() -> u32 {
    4_096
}

fn cells() -> u32 {
    16
}

fn blocks() -> u32 {
    4
}

fn half() -> Share {
    Share::new(0.5).unwrap_or_default()
}

fn disk() -> Keep {
    Keep::Disk
}

fn each() -> Durable {
    Durable::Each
}

fn server() -> Mover {
    Mover::Server
}

fn verbs() -> By {
    By::Verbs
}

fn unit() -> u32 {
    1 << 20
}

fn lease() -> Span {
    Span(Nanos::from_secs(10))
}

fn common() -> u32 {
    256
}

impl PfWork {
    /// One client a machine that makes so many requests, with one server.
    pub fn of(access: Access, requests: u32) -> PfWork {
        PfWork {
            access,
            servers: one(),
            clients: one(),
            files: one(),
            strip: strip(),
            cell: cell(),
            cells: cells(),
            blocks: blocks(),
            writes: half(),
            storage: disk(),
            sync: each(),
            syncs: 0,
            wire: verbs(),
            movers: server(),
            eager: cell(),
            unit: unit(),
            stages: cells(),
            requests: Some(requests),
            duration: None,
            think: no_time(),
            guests: false,
            lease: lease(),
            slots: common(),
            visit: 0,
            dies: Share::NONE,
            directories: 0,
            digits: 0,
            renames: Share::NONE,
            appends: Share::NONE,
            cuts: Share::NONE,
            stats: Share::NONE,
        }
    }

    /// How servers take guests, if they do.
    pub fn guest_config(&self) -> Option<GuestConfig> {
        let (common, lease) = (self.slots, self.lease.nanos());
        self.guests.then(|| GuestConfig { common, lease, ..GuestConfig::default() })
    }

    /// A workload that is drawn at random.
    pub(super) fn drawn(dice: &mut Dice<'_>, access: Access) -> PfWork {
        let cell = dice.among(&[32, 64, 512]);
        let share = |dice: &mut Dice<'_>| Share::new(dice.among(&[0.2, 0.5, 0.8])).unwrap_or_default();
        PfWork {
            servers: dice.among(&[1, 2, 2]),
            clients: dice.among(&[1, 1, 2]),
            files: dice.among(&[1, 2, 5]),
            strip: cell * dice.among(&[1, 2, 8]),
            cell,
            cells: dice.among(&[1, 4, 24]),
            blocks: dice.among(&[1, 3]),
            writes: share(dice),
            // What is in memory no restart leaves, and then there is little to judge.
            storage: dice.among(&[Keep::Disk, Keep::Disk, Keep::Memory]),
            sync: dice.among(&[Durable::Each, Durable::Asked]),
            syncs: dice.among(&[0, 1, 3]),
            wire: dice.among(&[By::Verbs, By::Verbs, By::Tcp]),
            movers: dice.among(&[Mover::Server, Mover::Client, Mover::Adaptive]),
            eager: dice.among(&[0, 256, 4_096]),
            unit: cell * dice.among(&[1, 4, 64]),
            stages: dice.among(&[1, 2, 16]),
            think: dice.pause([0, 10, 300]),
            directories: dice.among(&[0, 0, 1, 3]),
            renames: Share::new(dice.among(&[0.0, 0.2])).unwrap_or_default(),
            appends: Share::new(dice.among(&[0.0, 0.3])).unwrap_or_default(),
            cuts: Share::new(dice.among(&[0.0, 0.1])).unwrap_or_default(),
            stats: Share::new(dice.among(&[0.0, 0.2])).unwrap_or_default(),
            ..PfWork::of(access, dice.from(3, 30) as u32)
        }
    }

    /// How the service is configured.
    pub fn config(&self) -> FsConfig {
        FsConfig {
            eager: self.eager,
            unit: self.unit,
            stages: self.stages,
            sync: match self.sync {
                Durable::Each => Sync::Each,
                Durable::Asked => Sync::Asked,
            },
            storage: match self.storage {
                Keep::Disk => Storage::Disk,
                Keep::Memory => Storage::Memory { most: 1 << 30 },
            },
            movers: match self.movers {
                Mover::Server => Movers::Server,
                Mover::Client => Movers::Client,
                Mover::Adaptive => Movers::Adaptive,
            },
            wire: match self.wire {
                By::Verbs => Wire::Verbs,
                By::Tcp => Wire::Tcp,
            },
            ..FsConfig::new(self.servers)
        }
    }

    /// How a file is distributed: the first strips of different files lie on different servers.
    pub fn layout(&self, file: u32) -> Option<Distribution> {
        Distribution::stripe(self.strip, self.servers as u16, (file % self.servers.max(1)) as u16)
    }

    /// What a server's crash leaves of what was answered. By streams, a file without a name ends with its home's life.
    pub fn survival(&self) -> Survival {
        match (self.storage, self.sync, self.wire) {
            (Keep::Memory, ..) => Survival::Nothing,
            (Keep::Disk, Durable::Each, By::Verbs) => Survival::Answered,
            (Keep::Disk, Durable::Asked, By::Verbs) => Survival::Synced,
            _ => Survival::Names,
        }
    }

    /// How much work there is.
    pub fn amount(&self) -> Amount {
        Amount::of(self.clients, self.requests, self.duration)
    }

    /// Checks what the types of the fields cannot express, on so many nodes.
    ///
    /// # Errors
    ///
    /// The first broken rule.
    pub fn check(&self, nodes: u32) -> Rule {
        let at = |field| in_section("workload", field);
        let most = nodes.min(1_024);
        count(at("servers"), self.servers, most, "servers are nodes of the cluster")?;
        if self.guests && (self.servers >= nodes || self.wire == By::Tcp) {
            return broken(at("guests"), "guests are nodes that are no servers, and use verbs".into());
        }
        let lease = self.lease.nanos();
        if self.guests && (lease < Nanos::from_millis(1) || lease > Nanos::from_secs(65)) {
            return broken(at("lease"), "from 1 ms to 65 s".into());
        }
        count(at("slots"), self.slots, MOST_SLOTS, "give the receive buffers that guests share")?;
        if self.visit > 0 && (!self.guests || self.clients != 1) {
            return broken(at("visit"), "only guests come and go, one on a machine at a time".into());
        }
        clients(self.clients)?;
        count(at("files"), self.files, 100_000, "give the number of files")?;
        count(at("cells"), self.cells, 65_536, "give the length of a transfer")?;
        count(at("blocks"), self.blocks, 1_000_000, "give the length of a file")?;
        if !(content::SHORTEST..=1 << 20).contains(&self.cell) || !self.cell.is_multiple_of(8) {
            return broken(at("cell"), "32 to 1048576, a multiple of 8: a cell says who wrote it".into());
        }
        if self.strip == 0 || self.strip > 1 << 30 || !self.strip.is_multiple_of(self.cell) {
            return broken(at("strip"), "a multiple of cell, to 1 GiB: a cell lies in one strip".into());
        }
        if self.unit == 0 || self.unit > 16 << 20 || !self.unit.is_multiple_of(self.cell) {
            return broken(at("unit"), "a multiple of cell, to 16 MiB: a cell takes effect whole".into());
        }
        count(at("stages"), self.stages, ((2 << 30) - 1) / self.unit, "staging has less than 2 GiB")?;
        if self.eager > 1 << 16 {
            return broken(at("eager"), "at most 65536: what is longer goes by RDMA".into());
        }
        if self.directories > 1_000 {
            return broken(at("directories"), "at most 1000".into());
        }
        let rows = if self.access == Access::Tiles { self.blocks } else { 1 };
        if u64::from(self.cell) * u64::from(self.cells) * u64::from(rows) > 1 << 30 {
            return broken(at("cells"), "a transfer has at most 1 GiB".into());
        }
        requests_or_duration("requests", self.requests, self.duration)
    }
}
