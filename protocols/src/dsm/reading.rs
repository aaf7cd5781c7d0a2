//! What the paper leaves open, decided: the shipped decisions, and a way for tests to decide otherwise.
//!
//! kernel-dsm.txt describes the protocol in a page. Some of its sentences can be read in two ways, and one of them breaks it. A
//! [`Reading`] answers for each [`Decision`]: the shipped one repairs the paper, and [`Otherwise`](Reading::Otherwise) takes one decision
//! the other way, so that an explorer refutes the very same code under it.

/// A decision, by what is shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A requestor goes on when all the notices that the manager ordered are in. Otherwise: at the first (2.2: "which notify the
    /// requestor once they complete their handling"; nobody says how many).
    CountsNotices,

    /// A manager decides by its book, when it serves a request, whether the requestor needs data. Otherwise: by what
    /// the requestor had when it asked (4.1: it "inspects coherence metadata").
    DecidesWhenServed,

    /// A server takes its node's access away before it takes the data. Otherwise: after (4.1: the server "may also change page
    /// protections ... and initiate a minipage transfer").
    ProtectsFirst,

    /// A grant stays until every access that waited for it is executed. Otherwise: a page may be stolen before ("the requestor
    /// will simply generate another page fault (the normal behavior)", 4.1).
    GrantsStay,

    /// A thread joins a request that serves it. Otherwise: any request for the minipage (4.1: "if an outstanding request will
    /// also satisfy the new one").
    JoinsWhatServes,

    /// A request is done when its access is set. Otherwise: when its first notice arrives.
    DoneWhenSet,

    /// A node that shares what it owned may read it only. Otherwise: it goes on to write it.
    SharingDowngrades,

    /// A manager's book keeps the owner among those who have a copy. Otherwise: a read leaves the requestor alone there.
    KeepsServer,

    /// A barrier counts each thread once. Otherwise twice.
    BarriersCountOnce,

    /// A pull is open until its requestor has the data. Otherwise it needs no acknowledgement, since it disturbs nobody (4.2).
    PullsAreOpen,

    /// A pull is from a node whose own read is done. Otherwise: from any that was promised the data ("a server node containing a
    /// valid copy of the page", 4.2: what the manager's book calls one).
    PullsFromDone,

    /// A node closes an object when nothing of it is open there. Otherwise: at once.
    FreeWaits,

    /// An order waits for claims. Otherwise: it takes a minipage away from them.
    ClaimsStay,

    /// A node reports to the managers of a new view when no write of its own can land any more that it posted before. Otherwise: at
    /// once.
    ReportsWhenFenced,

    /// What was said in a view counts in that one only. Otherwise: in those behind it, too.
    ViewsChecked,

    /// What a node gave up for one that died counts as lost. Otherwise: the node has it again, as it was.
    LostWithReceiver,

    /// Threads are woken when access is set. Otherwise: before.
    WakesWhenSet,

    /// What is freed is forgotten in a manager's book, too. Otherwise: only its memory is.
    FreeForgetsBook,

    /// A claim that is given up before it has all its minipages lets go of those that it has. Otherwise: it keeps them.
    DroppedClaimsUnpin,
}

/// How decisions are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// All as they are shipped.
    Repaired,
    /// As they are shipped, but for this one: for tests.
    Otherwise(Decision),
}

impl Reading {
    /// Whether it takes a decision as shipped.
    pub(super) fn decides(self, decision: Decision) -> bool {
        self != Reading::Otherwise(decision)
    }
}
