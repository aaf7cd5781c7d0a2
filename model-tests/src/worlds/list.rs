//! Every world, by name.

use super::historic::Historic;
use super::literal::{Literal, Reading};
use super::locks::Locks;
use super::messages::Messages;
use super::modes::Requests;
use super::planted::{Adding, Counter, Forgetful, Mcs, Open, Tickets};
use super::stage::{Play, Stage};
use crate::explore::{Entry, Expected, Key, Size, SizeError, Subject};
use weft_protocols::locks::Scheme;
use weft_verbs::Wait;

type Built = Result<Box<dyn Subject>, SizeError>;

/// Every world: the shipped locks first, then what must be refuted.
pub fn all() -> Vec<Entry> {
    let mut all = shipped();
    let history: Make = |size| {
        let play = locks("srsl-history", Scheme::Srsl, Manner::OneByOne, size)?;
        staged(Historic { name: "srsl-history", play })
    };
    let open: Make = |size| staged(Open { name: "planted-open", nodes: nodes(size, 2)? });
    all.extend([
        held("srsl-history", "srsl, its histories judged as a whole, too", Requests::KEYS, history),
        held("messages", "the transport: each node sends a message to each other one", MESSAGES, messages),
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
    all.extend(literal());
    all
}

type Make = fn(&Size) -> Built;

const NODES: &[Key] = &[Key { name: "nodes", help: "how many nodes" }];

const MESSAGES: &[Key] =
    &[NODES[0], Key { name: "requests", help: "how many messages each node sends to each other one" }];

const fn held(name: &'static str, about: &'static str, keys: &'static [Key], make: Make) -> Entry {
    Entry { name, about, expected: Expected::Held, keys, make }
}

const fn broken(name: &'static str, about: &'static str, keys: &'static [Key], make: Make) -> Entry {
    Entry { name, about, expected: Expected::Violated, keys, make }
}

fn staged<P: Play + 'static>(play: P) -> Built {
    Ok(Box::new(Stage::new(play)))
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

fn locks(name: &str, scheme: Scheme, manner: Manner, size: &Size) -> Result<Locks, SizeError> {
    let requests = Requests::of(size, "*,*,*")?;
    let warm = scheme != Scheme::Srsl && manner != Manner::Cold;
    let wait = if manner == Manner::Notified { Wait::Notify } else { Wait::Poll };
    let one_by_one = matches!(manner, Manner::OneByOne | Manner::Cold);
    let name = name.to_owned();
    Ok(Locks { name, scheme, requests, home: 0, wait, one_by_one, warm, shared_limit: None })
}

macro_rules! shipped {
    ($($name:literal $scheme:ident $manner:ident $about:literal,)*) => {
        /// The shipped locks.
        fn shipped() -> Vec<Entry> {
            vec![$(held($name, $about, Requests::KEYS, |size| {
                staged(locks($name, Scheme::$scheme, Manner::$manner, size)?)
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
    match size.number("nodes")?.unwrap_or(default) {
        nodes @ 2..=8 => Ok(nodes),
        nodes => Err(SizeError(format!("a world has 2 to 8 nodes, not {nodes}"))),
    }
}

fn messages(size: &Size) -> Built {
    match size.number("requests")?.unwrap_or(1) {
        messages @ 1..=8 => staged(Messages { name: "messages", nodes: nodes(size, 2)?, messages }),
        messages => {
            Err(SizeError(format!("each node sends 1 to 8 messages to each other one, not {messages}")))
        }
    }
}

fn counter(name: &'static str, adding: Adding, size: &Size) -> Built {
    staged(Counter { name, nodes: nodes(size, 2)?, adding })
}

fn mcs(name: &'static str, links_first: bool, size: &Size) -> Built {
    staged(Mcs { name, nodes: nodes(size, 2)?, links_first })
}

fn tickets(name: &'static str, carries: bool, size: &Size) -> Built {
    staged(Tickets { name, nodes: nodes(size, 2)?, carries })
}

fn forgetful(size: &Size) -> Built {
    let (scheme, wait) = (Scheme::Srsl, Wait::Notify);
    let requests = Requests::of(size, "x,x")?;
    let name = "planted-forgetful".to_owned();
    let (warm, one_by_one) = (false, false);
    staged(Forgetful(Locks { name, scheme, requests, home: 0, wait, one_by_one, warm, shared_limit: None }))
}

macro_rules! literal {
    ($($name:literal $reading:ident $modes:literal,)*) => {
        /// The lock paper, read in each way: what the nodes ask for is the smallest that refutes it.
        fn literal() -> Vec<Entry> {
            vec![$({
                let make: Make = |size| {
                    let requests = Requests::of(size, $modes)?;
                    let (name, reading) = ($name.to_owned(), Reading::$reading);
                    staged(Literal { name, reading, requests, wait: Wait::Poll })
                };
                let (about, expected) = (Reading::$reading.about(), Reading::$reading.expected());
                Entry { name: $name, about, expected, keys: Requests::KEYS, make }
            }),*]
        }
    };
}

literal! {
    "literal-repaired" Repaired "*,*,*",
    "literal-zero-tail-holds" ZeroTailHolds "x,s",
    "literal-zero-tail-holds-unswapped" ZeroTailHoldsUnswapped "x,s",
    "literal-resets-both" ResetsBoth "xx,s",
    "literal-resets-by-write" ResetsByWrite "x,x",
    "literal-successor-first" SuccessorFirst "s,x,x",
    "literal-home-resets-blindly" HomeResetsBlindly "s,x",
    "literal-home-subtracts" HomeSubtracts "x,s",
    "literal-count-carries" CountCarries "s,s",
    "literal-resends-atomics" ResendsAtomics "x,s",
    "literal-ignores-failed-reset" IgnoresFailedReset "x,x",
    "literal-asks-too-soon" AsksTooSoon "s,xx,s",
    "literal-serves-while-resetting" ServesWhileResetting "s,x,s",
    "literal-no-kick" NoKick "x,s,s",
    "literal-forgets-kick" ForgetsKick "s,x,s",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_world_has_a_name_of_its_own_and_can_be_built() {
        let mut names: Vec<&str> = all().iter().map(|entry| entry.name).collect();
        for entry in all() {
            let built = entry.build(&Size::default()).unwrap_or_else(|why| panic!("{}: {why}", entry.name));
            assert_eq!(built.name(), entry.name);
            // A failure file names the whole size.
            let again = entry.build(&built.size()).unwrap_or_else(|why| panic!("{}: {why}", entry.name));
            assert_eq!(again.size(), built.size(), "{}", entry.name);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().len());
        let literal = names.iter().filter(|name| name.starts_with("literal-")).count();
        assert_eq!(literal, Reading::ALL.len());
    }

    #[test]
    fn a_world_that_takes_no_modes_says_so() {
        let mcs = all().into_iter().find(|entry| entry.name == "mcs").unwrap();
        assert!(mcs.build(&Size::new([("modes", "x,x")])).is_err());
        assert!(mcs.build(&Size::new([("nodes", 9)])).is_err());
        assert!(mcs.build(&Size::new([("nodes", 3)])).is_ok());
    }
}
