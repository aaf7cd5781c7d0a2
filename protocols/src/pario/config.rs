//! How a cluster's files are kept. All of its nodes say the same.

use super::messages::{HEADER, OFFER, PATHS};
use super::{Distribution, FsError};
use weft_verbs::{Nanos, Service};

/// When a write is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sync {
    /// Before it is answered (PVFS2's `trovesync`, its default).
    Each,
    /// With the next `sync` of its file.
    Asked,
}

/// Where servers keep the bytes of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    /// In memory, at most so many bytes a server: fast, and gone with the server.
    Memory {
        /// Bytes.
        most: u64,
    },
    /// On the machine's [disk](weft_verbs::Disk).
    Disk,
}

/// What carries requests and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wire {
    /// The mesh's messages; large data by RDMA.
    Verbs,
    /// Byte streams, by which all data ride in messages: the paper's baseline.
    Tcp,
}

/// The service of requests by byte streams: that of PVFS2's servers.
pub const STREAMS: Service = Service(3334);

/// Who moves data that do not ride in messages (4.2, 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Movers {
    /// The server: it pulls what is written and pushes what is read.
    Server,
    /// The client: the server offers places in its staging.
    Client,
    /// By load (5.1, Figure 6): the client where the server's throttle is reached; else the receiver reads if it is less
    /// loaded than the sender, and the sender writes if not.
    Adaptive,
}

/// How files are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsConfig {
    /// How many servers there are: the nodes of the first so many ranks. The first has the directory.
    pub servers: u32,
    /// Bytes of data that ride in a request or an answer, at most (pvfs2-quadrics.txt, 4.2: eager). Default: 4 KiB, a copy
    /// of which costs less than what it saves.
    pub eager: u32,
    /// The largest unit, in bytes: what is staged in one place and takes effect whole. Default: 1 MiB.
    pub unit: u32,
    /// Places in a server's staging, each of a unit. Default: 16.
    pub stages: u32,
    /// Places in staging that one client has at a time, at most. Default: 0, which is all of them, and half of them at a server that has
    /// guests: one that stays away with places that it was offered leaves the others theirs until its lease ends.
    pub places: u32,
    /// Regions of a list in one request, at most; a longer one is several requests (PVFS2: 64). Default: 256.
    pub regions: u32,
    /// Who moves data. Default: the server, whose staging nobody else can reach.
    pub movers: Movers,
    /// When writes are durable. Default: each.
    pub sync: Sync,
    /// Where bytes are kept. Default: on disk.
    pub storage: Storage,
    /// What carries requests and answers. Default: verbs.
    pub wire: Wire,
    /// Room that the directory's log makes for itself at a time, in bytes. As much as it takes to remove all that there is, and at least
    /// half of this, is kept for removals on a full disk. Default: 16 KiB, the removal of two hundred names. 0 for none.
    pub log_room: u32,
    /// Calls of a client that one server has not answered, at most; more wait. What members of groups say to each other does not count, and
    /// as many cuts may wait for other servers beside them. Default: 64.
    pub window: u32,
    /// How long a server may owe an answer before its client finds out whether it is still there, and again after as long.
    /// Default: 100 ms. [`Nanos::MAX`] for never: then a call whose server restarts may wait for ever.
    pub probe_after: Nanos,
}

impl FsConfig {
    /// The defaults, with so many servers.
    pub const fn new(servers: u32) -> FsConfig {
        FsConfig {
            servers,
            eager: 4096,
            unit: 1 << 20,
            stages: 16,
            places: 0,
            regions: 256,
            movers: Movers::Server,
            sync: Sync::Each,
            storage: Storage::Disk,
            wire: Wire::Verbs,
            log_room: 16_384,
            window: 64,
            probe_after: Nanos::from_millis(100),
        }
    }

    /// The largest message that it needs of the transport for paths of any length.
    pub const fn max_message(&self) -> u32 {
        let data = HEADER + self.eager;
        let least = if PATHS > OFFER { PATHS } else { OFFER };
        if data > least { data } else { least }
    }

    /// What a file is made with unless another distribution is said: over all servers, from the next one in turn.
    pub fn layout(&self) -> Distribution {
        let all = Distribution::stripe(Distribution::STRIP, self.servers as u16, Distribution::IN_TURN);
        all.unwrap_or(Distribution::single(0))
    }

    /// Places that one client has at most, at a server that has guests or none.
    pub(super) const fn places(&self, has_guests: bool) -> u32 {
        match self.places {
            0 if has_guests => self.stages.div_ceil(2),
            0 => self.stages,
            places => places,
        }
    }

    /// Bytes of data that ride in a message at most, on this wire.
    pub(super) const fn most_eager(&self) -> u32 {
        match self.wire {
            Wire::Verbs => self.eager,
            Wire::Tcp => self.unit,
        }
    }

    /// Whether a mesh of so many nodes and such messages can run it.
    pub(super) fn check(&self, nodes: u32, max_message: u32) -> Result<(), FsError> {
        let refuse = |field, value, must| Err(FsError::Config { field, value: u64::from(value), must });
        if self.servers == 0 || self.servers > nodes.min(1 << 15) {
            return refuse("servers", self.servers, "from 1 to the number of nodes, at most 32,768");
        }
        if self.unit == 0 || !self.unit.is_multiple_of(8) {
            return refuse("unit", self.unit, "a positive multiple of 8");
        }
        if self.stages == 0 || self.stages.checked_mul(self.unit).is_none() {
            return refuse("stages", self.stages, "positive, and below 4 GiB in all");
        }
        if self.regions == 0 {
            return refuse("regions", 0, "at least 1");
        }
        if self.window == 0 {
            return refuse("window", 0, "at least 1");
        }
        if self.probe_after.0 == 0 {
            return refuse("probe_after", 0, "more than zero");
        }
        if self.movers != Movers::Server && OFFER > max_message {
            return refuse(
                "movers",
                0,
                "the server, where the transport's messages are too short for offers",
            );
        }
        if self.wire == Wire::Verbs && HEADER.saturating_add(self.eager) > max_message {
            return refuse("eager", self.eager, "small enough for the transport's messages");
        }
        Ok(())
    }
}
