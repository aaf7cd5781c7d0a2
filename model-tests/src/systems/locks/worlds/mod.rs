//! The lock worlds: the shipped schemes, the lock paper as published, and planted bugs that must be found.

mod among_members;
mod as_published;
mod calls;
mod client;
mod closed;
mod linearizability;
mod modes;
mod outside;
mod planted;
mod service;
mod strangers;

pub use client::WorldOracles;
use linearizability::WithLinearizability;
pub use modes::Requests;
pub use service::{Locks, State};

use crate::explore::{Entry, Key, Size, SizeError};
use crate::harness::{Harness, worlds};
use among_members::{AmongMembers, Course};
use as_published::{AsPublished, Reading};
use outside::Outside;
use planted::{Adding, Counter, Forgetful, Mcs, Open, Tickets};
use strangers::Strangers;
use weft_protocols::locks::{Grant, LockError, Scheme};
use weft_protocols::rt::{Rt, WaitPoint};
use weft_verbs::{Verbs, Wait};

/// Asks for a lock until its home has memory for it: a shortage is over with the step that it struck.
async fn once_there_is_room<V: Verbs>(
    rt: &Rt<V>,
    ask: impl AsyncFn() -> Result<Grant<V>, LockError>,
) -> Result<Grant<V>, LockError> {
    loop {
        match ask().await {
            Err(LockError::HomeFull) => rt.yield_now().at("no room").await,
            answer => return answer,
        }
    }
}

const NODES: &[Key] = &[Key { name: "nodes", help: "how many nodes" }];

/// None: a size is not what matters there.
const STRANGERS: &[Key] = &[];

/// Every lock world: the shipped locks first, then what must be refuted.
pub fn worlds() -> Vec<Entry> {
    let mut all = shipped();
    all.extend(planted());
    all.extend(calls::worlds());
    all.extend(closed::worlds());
    all.extend(with_strangers());
    all.extend(among_members());
    all.extend(from_outside());
    all.extend(as_published());
    all
}

/// The shipped locks.
fn shipped() -> Vec<Entry> {
    use Manner::{Cold, Notified, OneByOne, Polling};
    use Scheme::{Dqnl, Ncosed, Srsl};
    worlds! { Requests::KEYS;
        "srsl" locks(Srsl, OneByOne) Held, "the lock server";
        "dqnl" locks(Dqnl, OneByOne) Held, "the distributed queue";
        "ncosed" locks(Ncosed, OneByOne) Held, "N-CoSED, repaired";
        "srsl-polling" locks(Srsl, Polling) Held, "the same, nodes that take all completions at once";
        "dqnl-polling" locks(Dqnl, Polling) Held, "the same, nodes that take all completions at once";
        "ncosed-polling" locks(Ncosed, Polling) Held, "the same, nodes that take all completions at once";
        "srsl-notified" locks(Srsl, Notified) Held, "the same, nodes that sleep until they are notified";
        "dqnl-notified" locks(Dqnl, Notified) Held, "the same, nodes that sleep until they are notified";
        "ncosed-notified" locks(Ncosed, Notified) Held, "the same, nodes that sleep until they are notified";
        "dqnl-cold" locks(Dqnl, Cold) Held, "the same, and nobody knows where the lock's word is";
        "ncosed-cold" locks(Ncosed, Cold) Held, "the same, and nobody knows where the lock's word is";
        "srsl-linearizability" judged_as_a_whole(Srsl) Held, "srsl, its histories judged as a whole, too";
    }
}

/// Planted bugs, behind the same without the bug.
fn planted() -> Vec<Entry> {
    use Adding::{Atomically, ByReadAndWrite, UntilItCompletes};
    let of_nodes = worlds! { NODES;
        "counter" counter(Atomically) Held, "each node adds one to a word by fetch-and-add";
        "mcs" mcs(false) Held, "an MCS lock by one-sided operations";
        "tickets" tickets(false) Held, "a ticket lock in one word";
        "planted-lost-update" counter(ByReadAndWrite) Violated, "each node reads a word and writes it plus one";
        "planted-resend" counter(UntilItCompletes) ViolatedUnderFaults,
            "a fetch-and-add whose completion was lost is sent again";
        "planted-mcs" mcs(true) Violated, "an MCS lock that links before it sets its flag";
        "planted-tickets" tickets(true) Violated, "a ticket lock whose tickets wrap";
        "planted-open" open() Violated, "a lock that lets everybody in, on nodes that share nothing";
    };
    let of_requests = worlds! { Requests::KEYS;
        "planted-forgetful" forgetful() Violated, "an executor that does not poll after arming";
    };
    [of_nodes, of_requests].concat()
}

/// The shipped locks, and a node that says what it should not.
fn with_strangers() -> Vec<Entry> {
    use Scheme::{Dqnl, Ncosed, Srsl};
    use strangers::{of_nothing, out_of_turn};
    worlds! { STRANGERS;
        "srsl-strangers" beside_a_stranger(Srsl, of_nothing) Held,
            "the lock server, and a node that says what nobody should";
        "ncosed-strangers" beside_a_stranger(Ncosed, of_nothing) Held, "N-CoSED, and a node that says what nobody should";
        "srsl-out-of-turn" beside_a_stranger(Srsl, out_of_turn) Held,
            "the lock server, and a node that says what others may say of the lock";
        "dqnl-out-of-turn" beside_a_stranger(Dqnl, out_of_turn) Held,
            "DQNL, and a node that says what others may say of the lock";
        "ncosed-out-of-turn" beside_a_stranger(Ncosed, out_of_turn) Held,
            "N-CoSED, and a node that says what others may say of the lock";
    }
}

/// Locks among members.
fn among_members() -> Vec<Entry> {
    use Course::{Downgrades, Leaves, Narrow, Stays, Strangers as Nonsense};
    use Scheme::{Ncosed, Srsl};
    worlds! { Requests::KEYS;
        "srsl-members" of_members(Srsl, ",x,x", Stays) Held,
            "the lock server among members, of which one crashes or is slow";
        "ncosed-members" of_members(Ncosed, ",x,x", Stays) Held, "N-CoSED among members, of which one crashes or is slow";
        "srsl-members-leave" of_members(Srsl, ",x,x", Leaves) Held, "the same, and the lock's home leaves";
        "ncosed-members-leave" of_members(Ncosed, ",x,x", Leaves) Held, "the same, and the lock's home leaves";
        "srsl-members-one" of_members(Srsl, ",,x", Stays) Held, "the lock server among members, of whom one asks";
        "ncosed-members-one" of_members(Ncosed, ",,x", Stays) Held, "N-CoSED among members, of whom one asks";
        "srsl-members-narrow" of_members(Srsl, ",x,s", Narrow) Held,
            "the lock server among members, whose connections have room for one message";
        "ncosed-members-narrow" of_members(Ncosed, ",x,s", Narrow) Held,
            "N-CoSED among members, whose connections have room for one message";
        "srsl-members-downgrades" of_members(Srsl, ",x,s", Downgrades) Held,
            "the lock server among members: who holds alone goes on sharing";
        "ncosed-members-downgrades" of_members(Ncosed, ",x,s", Downgrades) Held,
            "N-CoSED among members: who holds alone goes on sharing";
        "srsl-members-strangers" of_members(Srsl, ",x,", Nonsense) Held,
            "the lock server among members, of whom one says what no member says";
    }
}

/// Locks for programs that are no tasks of their nodes.
fn from_outside() -> Vec<Entry> {
    use Scheme::{Ncosed, Srsl};
    worlds! { Requests::KEYS;
        "srsl-outside" outside(Srsl, "x,x", false) Held, "the lock server, as daemons serve it to programs";
        "ncosed-outside" outside(Ncosed, "x,s", false) Held, "N-CoSED, as daemons serve it to programs";
        "srsl-outside-dies" outside(Srsl, "x,s", true) Held, "the lock server, as daemons serve it to programs, one of which dies holding";
        "ncosed-outside-dies" outside(Ncosed, "x,x", true) Held, "N-CoSED, as daemons serve it to programs, one of which dies holding";
    }
}

/// How the nodes of a lock world learn of completions, and whether they have used the lock before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// They spin, and take one completion a step.
    OneByOne,
    /// The same, and none of them knows where the lock's word is.
    Cold,
    /// They spin, and take all that are there.
    Polling,
    /// They sleep until they are notified. Arming is an event of its own, and each completion comes before it or after
    /// it: these worlds are for the executor, and tens of times as large.
    Notified,
}

fn locks(size: &Size, scheme: Scheme, manner: Manner) -> Result<Locks, SizeError> {
    let requests = Requests::of(size, "*,*,*")?;
    let warm = scheme != Scheme::Srsl && manner != Manner::Cold;
    let wait = if manner == Manner::Notified { Wait::Notify } else { Wait::Poll };
    let one_by_one = matches!(manner, Manner::OneByOne | Manner::Cold);
    Ok(Locks { scheme, requests, home: 0, wait, one_by_one, warm, shared_limit: None })
}

fn outside(size: &Size, scheme: Scheme, modes: &str, dies: bool) -> Result<Outside, SizeError> {
    let requests = Requests::of(size, modes)?;
    Ok(Outside { locks: Locks { requests, ..locks(&Size::default(), scheme, Manner::Cold)? }, dies })
}

fn judged_as_a_whole(size: &Size, scheme: Scheme) -> Result<WithLinearizability<Locks>, SizeError> {
    Ok(WithLinearizability { model: locks(size, scheme, Manner::OneByOne)? })
}

fn beside_a_stranger(_: &Size, scheme: Scheme, says: strangers::Says) -> Result<Strangers, SizeError> {
    let locks = locks(&Size::new([("modes", "x,s,")]), scheme, Manner::OneByOne)?;
    Ok(Strangers { locks, says })
}

fn of_members(size: &Size, scheme: Scheme, modes: &str, course: Course) -> Result<AmongMembers, SizeError> {
    let requests = Requests::of(size, modes)?;
    size.within("nodes", requests.nodes(), 3..=5)?;
    Ok(AmongMembers { scheme, requests, course })
}

/// How many nodes a size wants.
fn nodes(size: &Size) -> Result<u32, SizeError> {
    let nodes = size.number("nodes")?.unwrap_or(2);
    size.within("nodes", nodes, 2..=8)
}

fn counter(size: &Size, adding: Adding) -> Result<Counter, SizeError> {
    Ok(Counter { nodes: nodes(size)?, adding })
}

fn mcs(size: &Size, links_first: bool) -> Result<Mcs, SizeError> {
    Ok(Mcs { nodes: nodes(size)?, links_first })
}

fn tickets(size: &Size, carries: bool) -> Result<Tickets, SizeError> {
    Ok(Tickets { nodes: nodes(size)?, carries })
}

fn open(size: &Size) -> Result<Open, SizeError> {
    Ok(Open { nodes: nodes(size)? })
}

fn forgetful(size: &Size) -> Result<Forgetful<Locks>, SizeError> {
    let (scheme, wait) = (Scheme::Srsl, Wait::Notify);
    let requests = Requests::of(size, "x,x")?;
    let (warm, one_by_one) = (false, false);
    Ok(Forgetful(Locks { scheme, requests, home: 0, wait, one_by_one, warm, shared_limit: None }))
}

macro_rules! as_published {
    ($($name:literal $reading:ident $modes:literal,)*) => {
        /// The lock paper, read in each way: what the nodes ask for is the smallest that refutes it.
        fn as_published() -> Vec<Entry> {
            vec![$({
                let make: fn(&Size) -> _ = |size| {
                    let requests = Requests::of(size, $modes)?;
                    let reading = Reading::$reading;
                    Ok(Harness::boxed($name, reading.expected(), AsPublished { reading, requests, wait: Wait::Poll }))
                };
                let (about, expected) = (Reading::$reading.about(), Reading::$reading.expected());
                Entry { name: $name, about, expected, keys: Requests::KEYS, make }
            }),*]
        }
    };
}

as_published! {
    "as-published-repaired" Repaired "*,*,*",
    "as-published-zero-tail-holds" ZeroTailHolds "x,s",
    "as-published-zero-tail-holds-unswapped" ZeroTailHoldsUnswapped "x,s",
    "as-published-resets-both" ResetsBoth "xx,s",
    "as-published-resets-by-write" ResetsByWrite "x,x",
    "as-published-successor-first" SuccessorFirst "s,x,x",
    "as-published-home-resets-blindly" HomeResetsBlindly "s,x",
    "as-published-home-subtracts" HomeSubtracts "x,s",
    "as-published-count-carries" CountCarries "s,s",
    "as-published-resends-atomics" ResendsAtomics "x,s",
    "as-published-ignores-failed-reset" IgnoresFailedReset "x,x",
    "as-published-asks-too-soon" AsksTooSoon "s,xx,s",
    "as-published-serves-while-resetting" ServesWhileResetting "s,x,s",
    "as-published-no-kick" NoKick "x,s,s",
    "as-published-forgets-kick" ForgetsKick "s,x,s",
}

#[cfg(test)]
mod tests;
