//! What the paper leaves open, decided: the shipped decisions, and a way for tests to decide otherwise.
//!
//! kernel-dsm.txt describes the protocol in a page. Some of its sentences can be read in two ways, and one of them breaks it. The
//! decisions are constants of a type, so that what is deployed has no trace of the others, and an explorer can run the very same
//! code under a reading that it then refutes.

/// Decisions. Each constant's default is the shipped one.
pub trait Reading: 'static {
    /// A requestor goes on when all the notices that the manager ordered are in. Otherwise: at the first (2.2: "which notify the
    /// requestor once they complete their handling"; nobody says how many).
    const COUNTS_NOTICES: bool = true;

    /// A manager decides by its book, when it serves a request, whether the requestor needs data. Otherwise: by what
    /// the requestor had when it asked (4.1: it "inspects coherence metadata").
    const DECIDES_WHEN_SERVED: bool = true;

    /// A server takes its node's access away before it takes the data. Otherwise: after (4.1: the server "may also change page
    /// protections ... and initiate a minipage transfer").
    const PROTECTS_FIRST: bool = true;

    /// A grant stays until every access that waited for it is executed. Otherwise: a page may be stolen before ("the requestor
    /// will simply generate another page fault (the normal behavior)", 4.1).
    const GRANTS_STAY: bool = true;

    /// A thread joins a request that serves it. Otherwise: any request for the minipage (4.1: "if an outstanding request will
    /// also satisfy the new one").
    const JOINS_WHAT_SERVES: bool = true;

    /// A request is done when its access is set. Otherwise: when its first notice arrives.
    const DONE_WHEN_SET: bool = true;

    /// A node that shares what it owned may read it only. Otherwise: it goes on to write it.
    const SHARING_DOWNGRADES: bool = true;

    /// A manager's book keeps the owner among those who have a copy. Otherwise: a read leaves the requestor alone there.
    const KEEPS_SERVER: bool = true;

    /// A barrier counts each thread once. Otherwise twice.
    const BARRIERS_COUNT_ONCE: bool = true;

    /// A pull is open until its requestor has the data. Otherwise it needs no acknowledgement, since it disturbs nobody (4.2).
    const PULLS_ARE_OPEN: bool = true;

    /// A pull is from a node whose own read is done. Otherwise: from any that was promised the data ("a server node containing a
    /// valid copy of the page", 4.2: what the manager's book calls one).
    const PULLS_FROM_DONE: bool = true;

    /// A node closes an object when nothing of it is open there. Otherwise: at once.
    const FREE_WAITS: bool = true;

    /// An order waits for claims. Otherwise: it takes a minipage away from them.
    const CLAIMS_STAY: bool = true;

    /// A node reports to the managers of a new view when no write of its own can land any more that it posted before. Otherwise: at
    /// once.
    const REPORTS_WHEN_FENCED: bool = true;

    /// What was said in a view counts in that one only. Otherwise: in those behind it, too.
    const VIEWS_CHECKED: bool = true;

    /// What a node gave up for one that died counts as lost. Otherwise: the node has it again, as it was.
    const LOST_WITH_RECEIVER: bool = true;

    /// A claim that is given up before it has all its minipages lets go of those that it has. Otherwise: it keeps them.
    const DROPPED_CLAIMS_UNPIN: bool = true;
}

/// The shipped decisions.
#[derive(Clone, Copy, Debug)]
pub struct Repaired;

impl Reading for Repaired {}
