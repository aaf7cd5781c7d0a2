//! How many verbs objects this process holds: what a test of leaks looks at.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};

/// Kinds of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Context,
    Pd,
    Mr,
    Channel,
    Cq,
    Qp,
    Srq,
    Ah,
    CmChannel,
    CmId,
}

const KINDS: usize = 10;
static ALIVE: [AtomicI64; KINDS] = [const { AtomicI64::new(0) }; KINDS];
static LEAKED: AtomicI64 = AtomicI64::new(0);

/// One object, as long as it lives.
pub(crate) struct Counted(Kind);

impl Counted {
    pub(crate) fn new(kind: Kind) -> Counted {
        ALIVE[kind as usize].fetch_add(1, Ordering::Relaxed);
        Counted(kind)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        ALIVE[self.0 as usize].fetch_sub(1, Ordering::Relaxed);
    }
}

/// Memory was left behind that the adapter did not let go.
pub(crate) fn leaked() {
    LEAKED.fetch_add(1, Ordering::Relaxed);
}

/// The verbs objects of this process that are alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Open devices.
    pub contexts: i64,
    /// Protection domains.
    pub pds: i64,
    /// Memory regions.
    pub mrs: i64,
    /// Completion channels.
    pub channels: i64,
    /// Completion queues.
    pub cqs: i64,
    /// Queue pairs.
    pub qps: i64,
    /// Shared receive queues.
    pub srqs: i64,
    /// Address handles.
    pub ahs: i64,
    /// The connection manager's event channels.
    pub cm_channels: i64,
    /// The connection manager's identities.
    pub cm_ids: i64,
    /// Regions whose deregistration an adapter refused that is not gone: their memory is never freed. Not objects that are alive.
    pub leaked: i64,
}

impl Census {
    /// The count now.
    pub fn now() -> Census {
        let alive = |kind: Kind| ALIVE[kind as usize].load(Ordering::Relaxed);
        Census {
            contexts: alive(Kind::Context),
            pds: alive(Kind::Pd),
            mrs: alive(Kind::Mr),
            channels: alive(Kind::Channel),
            cqs: alive(Kind::Cq),
            qps: alive(Kind::Qp),
            srqs: alive(Kind::Srq),
            ahs: alive(Kind::Ah),
            cm_channels: alive(Kind::CmChannel),
            cm_ids: alive(Kind::CmId),
            leaked: LEAKED.load(Ordering::Relaxed),
        }
    }
}

impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "contexts {}, protection domains {}, regions {}, channels {}, completion queues {}, queue pairs {}, \
             shared receive queues {}, address handles {}, cm channels {}, cm identities {}, leaked regions {}",
            self.contexts,
            self.pds,
            self.mrs,
            self.channels,
            self.cqs,
            self.qps,
            self.srqs,
            self.ahs,
            self.cm_channels,
            self.cm_ids,
            self.leaked
        )
    }
}
