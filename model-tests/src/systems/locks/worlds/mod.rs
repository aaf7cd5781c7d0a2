//! The lock worlds: the shipped schemes, the lock paper as published, and planted bugs that must be found.

mod among_members;
mod as_published;
mod calls;
mod client;
mod linearizability;
mod modes;
mod planted;
mod service;
mod strangers;

pub use client::WorldOracles;
use linearizability::WithLinearizability;
pub use modes::Requests;
pub use service::{Locks, State};

use crate::explore::{AnyModel, Entry, Expected, Key, Size, SizeError};
use crate::harness::{Harness, Model};
use among_members::{AmongMembers, Course};
use as_published::{AsPublished, Reading};
use planted::{Adding, Counter, Forgetful, Mcs, Open, Tickets};
use strangers::Strangers;
use weft_protocols::locks::Scheme;
use weft_verbs::Wait;

type Built = Result<Box<dyn AnyModel>, SizeError>;

/// Every lock world: the shipped locks first, then what must be refuted.
pub fn worlds() -> Vec<Entry> {
    let mut all = shipped();
    let history: Make = |size| {
        let model = locks(Scheme::Srsl, Manner::OneByOne, size)?;
        harnessed("srsl-linearizability", WithLinearizability { model })
    };
    let open: Make = |size| harnessed("planted-open", Open { nodes: nodes(size, 2)? });
    all.extend([
        held("srsl-linearizability", "srsl, its histories judged as a whole, too", Requests::KEYS, history),
        held("counter", "each node adds one to a word by fetch-and-add", NODES, |size| {
            counter("counter", Adding::Atomically, size)
        }),
        held("mcs", "an MCS lock by one-sided operations", NODES, |size| mcs("mcs", false, size)),
        held("tickets", "a ticket lock in one word", NODES, |size| tickets("tickets", false, size)),
        broken("planted-lost-update", "each node reads a word and writes it plus one", NODES, |size| {
            counter("planted-lost-update", Adding::ByReadAndWrite, size)
        }),
        Entry {
            expected: Expected::ViolatedUnderFaults,
            ..broken(
                "planted-resend",
                "a fetch-and-add whose completion was lost is sent again",
                NODES,
                |size| counter("planted-resend", Adding::UntilItCompletes, size),
            )
        },
        broken("planted-mcs", "an MCS lock that links before it sets its flag", NODES, |size| {
            mcs("planted-mcs", true, size)
        }),
        broken("planted-tickets", "a ticket lock whose tickets wrap", NODES, |size| {
            tickets("planted-tickets", true, size)
        }),
        broken("planted-open", "a lock that lets everybody in, on nodes that share nothing", NODES, open),
        broken("planted-forgetful", "an executor that does not poll after arming", Requests::KEYS, forgetful),
    ]);
    all.extend(calls::worlds());
    all.extend(with_strangers());
    all.extend(among_members());
    all.extend(as_published());
    all
}

type Make = fn(&Size) -> Built;

const NODES: &[Key] = &[Key { name: "nodes", help: "how many nodes" }];

/// None: a size is not what matters there.
const STRANGERS: &[Key] = &[];

macro_rules! strangers {
    ($($name:literal $scheme:ident $says:ident $about:literal,)*) => {
        /// The shipped locks, and a node that says what it should not.
        fn with_strangers() -> Vec<Entry> {
            vec![$(held($name, $about, STRANGERS, |_| {
                let requests = Size::new([("modes", "x,s,")]);
                let locks = locks(Scheme::$scheme, Manner::OneByOne, &requests)?;
                harnessed($name, Strangers { locks, says: strangers::$says })
            })),*]
        }
    };
}

strangers! {
    "srsl-strangers" Srsl of_nothing "the lock server, and a node that says what nobody should",
    "ncosed-strangers" Ncosed of_nothing "N-CoSED, and a node that says what nobody should",
    "srsl-out-of-turn" Srsl out_of_turn "the lock server, and a node that says what others may say of the lock",
    "dqnl-out-of-turn" Dqnl out_of_turn "DQNL, and a node that says what others may say of the lock",
    "ncosed-out-of-turn" Ncosed out_of_turn "N-CoSED, and a node that says what others may say of the lock",
}

const fn held(name: &'static str, about: &'static str, keys: &'static [Key], make: Make) -> Entry {
    Entry { name, about, expected: Expected::Held, keys, make }
}

const fn broken(name: &'static str, about: &'static str, keys: &'static [Key], make: Make) -> Entry {
    Entry { name, about, expected: Expected::Violated, keys, make }
}

fn harnessed<M: Model + 'static>(name: &'static str, model: M) -> Built {
    Ok(Harness::boxed(name, model))
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

fn locks(scheme: Scheme, manner: Manner, size: &Size) -> Result<Locks, SizeError> {
    let requests = Requests::of(size, "*,*,*")?;
    let warm = scheme != Scheme::Srsl && manner != Manner::Cold;
    let wait = if manner == Manner::Notified { Wait::Notify } else { Wait::Poll };
    let one_by_one = matches!(manner, Manner::OneByOne | Manner::Cold);
    Ok(Locks { scheme, requests, home: 0, wait, one_by_one, warm, shared_limit: None })
}

macro_rules! shipped {
    ($($name:literal $scheme:ident $manner:ident $about:literal,)*) => {
        /// The shipped locks.
        fn shipped() -> Vec<Entry> {
            vec![$(held($name, $about, Requests::KEYS, |size| {
                harnessed($name, locks(Scheme::$scheme, Manner::$manner, size)?)
            })),*]
        }
    };
}

shipped! {
    "srsl" Srsl OneByOne "the lock server",
    "dqnl" Dqnl OneByOne "the distributed queue",
    "ncosed" Ncosed OneByOne "N-CoSED, repaired",
    "srsl-polling" Srsl Polling "the same, nodes that take all completions at once",
    "dqnl-polling" Dqnl Polling "the same, nodes that take all completions at once",
    "ncosed-polling" Ncosed Polling "the same, nodes that take all completions at once",
    "srsl-notified" Srsl Notified "the same, nodes that sleep until they are notified",
    "dqnl-notified" Dqnl Notified "the same, nodes that sleep until they are notified",
    "ncosed-notified" Ncosed Notified "the same, nodes that sleep until they are notified",
    "dqnl-cold" Dqnl Cold "the same, and nobody knows where the lock's word is",
    "ncosed-cold" Ncosed Cold "the same, and nobody knows where the lock's word is",
}

/// How many nodes a size wants.
fn nodes(size: &Size, default: u32) -> Result<u32, SizeError> {
    let nodes = size.number("nodes")?.unwrap_or(default);
    size.within("nodes", nodes, 2..=8)
}

fn counter(name: &'static str, adding: Adding, size: &Size) -> Built {
    harnessed(name, Counter { nodes: nodes(size, 2)?, adding })
}

fn mcs(name: &'static str, links_first: bool, size: &Size) -> Built {
    harnessed(name, Mcs { nodes: nodes(size, 2)?, links_first })
}

fn tickets(name: &'static str, carries: bool, size: &Size) -> Built {
    harnessed(name, Tickets { nodes: nodes(size, 2)?, carries })
}

fn forgetful(size: &Size) -> Built {
    let (scheme, wait) = (Scheme::Srsl, Wait::Notify);
    let requests = Requests::of(size, "x,x")?;
    let (warm, one_by_one) = (false, false);
    let locks = Locks { scheme, requests, home: 0, wait, one_by_one, warm, shared_limit: None };
    harnessed("planted-forgetful", Forgetful(locks))
}

macro_rules! among_members {
    ($($name:literal $scheme:ident $modes:literal $course:ident, $about:literal;)*) => {
        /// Locks among members.
        fn among_members() -> Vec<Entry> {
            vec![$({
                let make: Make = |size| {
                    let requests = Requests::of(size, $modes)?;
                    size.within("nodes", requests.nodes(), 3..=5)?;
                    let course = Course::$course;
                    harnessed($name, AmongMembers { scheme: Scheme::$scheme, requests, course })
                };
                Entry { name: $name, about: $about, expected: Expected::Held, keys: Requests::KEYS, make }
            }),*]
        }
    };
}

among_members! {
    "srsl-members" Srsl ",x,x" Stays, "the lock server among members, of which one crashes or is slow";
    "ncosed-members" Ncosed ",x,x" Stays, "N-CoSED among members, of which one crashes or is slow";
    "srsl-members-leave" Srsl ",x,x" Leaves, "the same, and the lock's home leaves";
    "ncosed-members-leave" Ncosed ",x,x" Leaves, "the same, and the lock's home leaves";
    "srsl-members-one" Srsl ",,x" Stays, "the lock server among members, of whom one asks";
    "ncosed-members-one" Ncosed ",,x" Stays, "N-CoSED among members, of whom one asks";
    "srsl-members-narrow" Srsl ",x,s" Narrow, "the lock server among members, whose connections have room for one message";
    "ncosed-members-narrow" Ncosed ",x,s" Narrow, "N-CoSED among members, whose connections have room for one message";
}

macro_rules! as_published {
    ($($name:literal $reading:ident $modes:literal,)*) => {
        /// The lock paper, read in each way: what the nodes ask for is the smallest that refutes it.
        fn as_published() -> Vec<Entry> {
            vec![$({
                let make: Make = |size| {
                    let requests = Requests::of(size, $modes)?;
                    let reading = Reading::$reading;
                    harnessed($name, AsPublished { reading, requests, wait: Wait::Poll })
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
