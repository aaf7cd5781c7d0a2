//! Every world, by name.

use super::historic::Historic;
use super::literal::{Literal, Reading};
use super::locks::Locks;
use super::messages::Messages;
use super::modes::Requests;
use super::planted::{Adding, Counter, Forgetful, Mcs, Open, Tickets};
use super::stage::{Play, Stage};
use crate::explore::{Entry, Expected, ParamError, Params, Subject};
use weft_protocols::locks::Scheme;
use weft_verbs::Wait;

type Built = Result<Box<dyn Subject>, ParamError>;

/// Every world: the shipped locks first, then what must be refuted.
pub fn all() -> Vec<Entry> {
    let mut all = shipped();
    all.extend([
        held("srsl-history", "srsl, its histories judged as a whole, too", |p| {
            let play = locks("srsl-history", Scheme::Srsl, Manner::OneByOne, p)?;
            staged(Historic { name: "srsl-history", play })
        }),
        held("messages", "the transport: each node sends a message to each other one", messages),
        held("counter", "each node adds one to a word by fetch-and-add", |p| {
            counter("counter", Adding::Atomically, p)
        }),
        held("mcs", "an MCS lock by one-sided operations", |p| mcs("mcs", false, p)),
        held("tickets", "a ticket lock in one word", |p| tickets("tickets", false, p)),
        broken("planted-lost-update", "each node reads a word and writes it plus one", |p| {
            counter("planted-lost-update", Adding::ByReadAndWrite, p)
        }),
        under_faults("planted-resend", "a fetch-and-add whose completion was lost is sent again", |p| {
            counter("planted-resend", Adding::UntilItCompletes, p)
        }),
        broken("planted-mcs", "an MCS lock that links before it sets its flag", |p| {
            mcs("planted-mcs", true, p)
        }),
        broken("planted-tickets", "a ticket lock whose tickets wrap", |p| {
            tickets("planted-tickets", true, p)
        }),
        broken("planted-open", "a lock that lets everybody in, on nodes that share nothing", |p| {
            staged(Open { name: "planted-open", nodes: nodes(p, 2)? })
        }),
        broken("planted-forgetful", "an executor that does not poll after arming", forgetful),
    ]);
    all.extend(literal());
    all
}

const fn entry(
    name: &'static str,
    about: &'static str,
    expected: Expected,
    build: fn(&Params) -> Built,
) -> Entry {
    Entry { name, about, expected, build }
}

const fn held(name: &'static str, about: &'static str, build: fn(&Params) -> Built) -> Entry {
    entry(name, about, Expected::Held, build)
}

const fn broken(name: &'static str, about: &'static str, build: fn(&Params) -> Built) -> Entry {
    entry(name, about, Expected::Violated, build)
}

const fn under_faults(name: &'static str, about: &'static str, build: fn(&Params) -> Built) -> Entry {
    entry(name, about, Expected::ViolatedUnderFaults, build)
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

fn locks(name: &str, scheme: Scheme, manner: Manner, params: &Params) -> Result<Locks, ParamError> {
    let requests = Requests::of(params, "*,*,*")?;
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
            vec![$(held($name, $about, |p| staged(locks($name, Scheme::$scheme, Manner::$manner, p)?))),*]
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

/// Worlds that ask for nothing but how many nodes there are.
fn nodes(params: &Params, default: u32) -> Result<u32, ParamError> {
    if params.requests.is_some() || params.modes.is_some() {
        return Err(ParamError(
            "the nodes of this world do one thing each: requests and modes say nothing".into(),
        ));
    }
    match params.nodes.unwrap_or(default) {
        nodes @ 2..=8 => Ok(nodes),
        nodes => Err(ParamError(format!("a world has 2 to 8 nodes, not {nodes}"))),
    }
}

fn messages(params: &Params) -> Built {
    let size = Params { requests: None, ..params.clone() };
    let messages = params.requests.unwrap_or(1);
    if messages == 0 || messages > 8 {
        return Err(ParamError(format!("each node sends 1 to 8 messages to each other one, not {messages}")));
    }
    staged(Messages { name: "messages", nodes: nodes(&size, 2)?, messages })
}

fn counter(name: &'static str, adding: Adding, params: &Params) -> Built {
    staged(Counter { name, nodes: nodes(params, 2)?, adding })
}

fn mcs(name: &'static str, links_first: bool, params: &Params) -> Built {
    staged(Mcs { name, nodes: nodes(params, 2)?, links_first })
}

fn tickets(name: &'static str, carries: bool, params: &Params) -> Built {
    staged(Tickets { name, nodes: nodes(params, 2)?, carries })
}

fn forgetful(params: &Params) -> Built {
    let (scheme, wait) = (Scheme::Srsl, Wait::Notify);
    let requests = Requests::of(params, "x,x")?;
    let name = "planted-forgetful".to_owned();
    let (warm, one_by_one) = (false, false);
    staged(Forgetful(Locks { name, scheme, requests, home: 0, wait, one_by_one, warm, shared_limit: None }))
}

macro_rules! literal {
    ($($name:literal $reading:ident $modes:literal,)*) => {
        /// The lock paper, read in each way: what the nodes ask for is the smallest that refutes it.
        fn literal() -> Vec<Entry> {
            vec![$({
                let build: fn(&Params) -> Built = |params| {
                    let requests = Requests::of(params, $modes)?;
                    let (name, reading) = ($name.to_owned(), Reading::$reading);
                    staged(Literal { name, reading, requests, wait: Wait::Poll })
                };
                entry($name, Reading::$reading.about(), Reading::$reading.expected(), build)
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
            let built =
                (entry.build)(&Params::default()).unwrap_or_else(|why| panic!("{}: {why}", entry.name));
            assert_eq!(built.name(), entry.name);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().len());
        let literal = names.iter().filter(|name| name.starts_with("literal-")).count();
        assert_eq!(literal, Reading::ALL.len());
    }

    #[test]
    fn a_world_that_takes_no_modes_says_so() {
        let params = Params { modes: Some("x,x".into()), ..Params::default() };
        let mcs = all().into_iter().find(|entry| entry.name == "mcs").unwrap();
        assert!((mcs.build)(&params).is_err());
    }
}
