//! Worlds of shared memory: litmus tests and small programs on the shipped protocol, and readings that must be refuted.

mod books;
mod claims;
mod crash;
mod litmus;
mod outcomes;
mod program;
mod steps;

use crate::explore::{Entry, Expected, Key};
use crate::harness::Harness;
use litmus::{Plan, make};
use program::Words;
use weft_protocols::dsm::{Decision::*, Otherwise, Repaired};

const KEYS: &[Key] = &[
    Key {
        name: "threads",
        help: "what each thread does, as in x1.y?,y1.x?: store, load, add (x+), swap (x^1), compare and exchange (x0>1), prefetch (x~, x~~), \
               copy (xz[, xz]1), barrier (b), claim (xy&, xy!), free (f); with - behind it the call may be dropped at any moment",
    },
    Key { name: "nodes", help: "the node of each thread, as in 0,1" },
    Key { name: "manager", help: "the node that manages all minipages, or turn: all nodes do in turn" },
    Key {
        name: "words",
        help: "whether words are together in a minipage, apart in minipages of one page, or on pages of their own",
    },
];

/// The node that manages all minipages; none where all do in turn.
macro_rules! managed_by {
    (turn) => {
        None
    };
    ($node:literal) => {
        Some($node)
    };
}

/// What may be said of a world where nobody dies.
const LITMUS_KEYS: &[Key] = &[
    KEYS[0],
    KEYS[1],
    KEYS[2],
    KEYS[3],
    Key {
        name: "room",
        help: "how many messages to a peer may wait; with few, messages overtake each other",
    },
];

/// What may be said of a world where a node dies.
const MORTAL_KEYS: &[Key] = &[
    Key {
        name: "threads",
        help: "what each thread does, as in x1.y?,y1.x?: store, load, add (x+), swap (x^1), compare and exchange (x0>1), prefetch (x~, x~~), \
               copy (xz[, xz]1), barrier (b), claim (xy&, xy!), free (f), tell of the death from here on (d); with - behind it the call may \
               be dropped at any moment",
    },
    KEYS[1],
    KEYS[2],
    KEYS[3],
    Key { name: "all", help: "how many nodes there are" },
    Key { name: "dies", help: "the node that dies; otherwise each of them, one in each execution" },
    Key { name: "then", help: "the node that dies next" },
];

/// The worlds where a node dies.
fn mortal() -> Vec<Entry> {
    macro_rules! mortal {
        ($($name:literal $reading:expr, $expected:ident, $words:ident, $threads:literal on $nodes:literal of $all:literal by $manager:tt $(without $dies:literal $(then $then:literal)?)? $([$how:ident])?, $about:literal;)*) => {
            vec![$(Entry {
                name: $name,
                about: $about,
                expected: Expected::$expected,
                keys: MORTAL_KEYS,
                make: |size| {
                    let dies = [$(Some($dies),)? None][0];
                    let then = [$($(Some($then),)?)? None][0];
                    let pulls = [$(stringify!($how),)? ""].contains(&"pulling");
                    let (words, narrow) = (Words::$words, false);
                    let plan = Plan { words, threads: $threads, nodes: $nodes, manager: managed_by!($manager), pulls, narrow, all: $all, dies, then };
                    Ok(Harness::boxed($name, Expected::$expected, crash::make(plan, $reading, size)?))
                },
            }),*]
        };
    }
    mortal! {
        "dsm-crash" Repaired, Held, Together, "x+,x+" on "0,1" of 3 by 0,
            "any node dies at any moment: what it had is lost by name, and nothing else";
        "dsm-crash-claims" Repaired, Held, Apart, "xy!,x+" on "0,1" of 3 by 0,
            "any node dies at any moment while a thread claims two words";
        "dsm-crash-dropped" Repaired, Held, Together, "x+-,x+" on "0,1" of 3 by 0,
            "any node dies at any moment while an access is dropped at any moment";
        "dsm-crash-barrier" Repaired, Held, Apart, "b,b" on "0,1" of 3 by 0,
            "any node dies at any moment: who waits at a barrier is told which one";
        "dsm-crash-twice" Repaired, Held, Together, "x+,x+" on "0,1" of 4 by 2 without 2 then 3,
            "the manager dies, and the one that manages in its place";
        "dsm-crash-pull" Repaired, Held, Together, "x?,x?" on "0,1" of 3 by 2 [pulling],
            "any node dies at any moment while a reader takes the data itself";
        "dsm-crash-free" Repaired, Held, Apart, "f,y~" on "0,1" of 3 by 2,
            "any node dies at any moment while memory is freed: those that live go on with that";
        "dsm-crash-shared" Repaired, Held, Together, "x?.d,x?" on "0,1" of 3 by 1 without 2,
            "a node dies when two others have a copy: the book has both still";
        "planted-dsm-old-words" Otherwise(ViewsChecked), Violated, Together, "x+,x+" on "0,1" of 3 by 0,
            "what was said before a node died counts after that";
        "planted-dsm-older-version" Otherwise(LostWithReceiver), Violated, Together, "x+,x+,x+" on "0,1,2" of 3 by 0 without 1,
            "what was given up for a node that died counts as it was";
        "planted-dsm-late-write" Otherwise(ReportsWhenFenced), Violated, Together, "x+,x?,x+" on "2,1,3" of 4 by 3 without 0,
            "a node reports what it has while a write of its own may still land";
    }
}

macro_rules! worlds {
    ($($name:literal $reading:expr, $expected:ident, $words:ident, $threads:literal on $nodes:literal by $manager:tt $($how:ident)*, $about:literal;)*) => {
        /// The worlds of shared memory.
        pub fn worlds() -> Vec<Entry> {
            let mut all = vec![$(Entry {
                name: $name,
                about: $about,
                expected: Expected::$expected,
                keys: LITMUS_KEYS,
                make: |size| {
                    let how = stringify!($($how)*);
                    let (pulls, narrow) = (how.contains("pulling"), how.contains("narrow"));
                    let plan = Plan { words: Words::$words, threads: $threads, nodes: $nodes, manager: managed_by!($manager), pulls, narrow, all: 0, dies: None, then: None };
                    Ok(Harness::boxed($name, Expected::$expected, make(plan, $reading, size)?))
                },
            }),*];
            all.extend(mortal());
            all
        }
    };
}

worlds! {
    "dsm-sb" Repaired, Held, Apart, "x1.y?,y1.x?" on "0,1" by 2, "shared memory, store buffering: one of both sees the other's store";
    "dsm-mp" Repaired, Held, Apart, "x1.y1,y?.x?" on "0,1" by 2, "message passing: who sees the flag sees the data";
    "dsm-lb" Repaired, Held, Apart, "x?.y1,y?.x1" on "0,1" by 2, "load buffering: no load sees what comes after it";
    "dsm-s" Repaired, Held, Apart, "x2.y1,y?.x1" on "0,1" by 2, "S: a store is not overtaken by one that it led to";
    "dsm-r" Repaired, Held, Apart, "x1.y1,y2.x?" on "0,1" by 2, "R: stores are in one order, which loads keep to";
    "dsm-2+2w" Repaired, Held, Apart, "x1.y2,y1.x2" on "0,1" by 2, "2+2W: stores of two threads to two words are in one order";
    "dsm-corr" Repaired, Held, Together, "x1,x?.x?" on "0,1" by 2, "CoRR: what was seen is not unseen";
    "dsm-cowr" Repaired, Held, Together, "x1.x?,x2" on "0,1" by 2, "CoWR: a load sees its own thread's store, or a later one";
    "dsm-wrc" Repaired, Held, Apart, "x1,x?.y1,y?.x?" on "0,1,2" by 3, "WRC: what led to a store is seen with it";
    "dsm-isa2" Repaired, Held, Apart, "x1.y1,y?.z1,z?.x?" on "0,1,2" by 3, "ISA2: the same over three words";
    "dsm-iriw" Repaired, Held, Apart, "x1,y1,x?.y?,y?.x?" on "0,1,2,3" by 3, "IRIW: all see independent stores in one order";
    "dsm-two-writers" Repaired, Held, Together, "x+,x+" on "0,1" by 2, "two nodes add to one word: no addition is lost";
    "dsm-false-sharing" Repaired, Held, Together, "x1.x?,y1.y?" on "0,1" by 2, "two nodes store to two words of one minipage";
    "dsm-upgrade" Repaired, Held, Together, "x?.x+,x+" on "0,1" by 2, "a node that has a copy wants to write, and another one, too";
    "dsm-joins" Repaired, Held, Together, "x+,x?,x+" on "0,0,1" by 2, "two threads of a node wait for one minipage";
    "dsm-robbed" Repaired, Held, Together, "x+.x+,x+.x+" on "0,1" by 0, "a minipage is asked back before all that waited for it have had it";
    "dsm-barrier" Repaired, Held, Apart, "x1.b.y?,y1.b.x?" on "0,1" by 2, "after a barrier all see all that was stored before it";
    "dsm-claims" Repaired, Held, Apart, "xy!,xy&" on "0,1" by 2, "a thread that claims two words sees both changed, or neither";
    "dsm-claims-cross" Repaired, Held, Apart, "xy!,xy!" on "0,1" by 2, "two threads claim the same words: neither waits for the other for ever";
    "dsm-claims-in-turn" Repaired, Held, Apart, "yz!,yz!" on "0,2" by turn, "the same, and each node manages one of the words";
    "dsm-claims-of-one" Repaired, Held, Together, "xy!,xy!" on "0,1" by 2, "two threads claim the same words of one minipage: what a claim stores is one";
    "dsm-claims-at-home" Repaired, Held, Together, "x!,x+,x?" on "0,0,1" by 2, "a claim keeps the threads of its own node away, too";
    "dsm-claims-to-read" Repaired, Held, Apart, "x+.x+,xy&" on "0,0" by 1, "nobody stores between what a claim to read has first and what it has last";
    "dsm-claims-given-up" Repaired, Held, Apart, "x+.xy%,x+" on "0,1" by 2, "a claim that is given up lets go of what it had";
    "dsm-dropped" Repaired, Held, Together, "x+-.x?,x+" on "0,1" by 2, "an access is dropped at any moment: it is executed or not, and all others go on";
    "dsm-dropped-joined" Repaired, Held, Together, "x+-,x+,x+" on "0,0,1" by 2, "the same, while another thread of the node waits for the same grant";
    "dsm-dropped-copy" Repaired, Held, Apart, "xy]1-,xy[" on "0,1" by 2, "a write of two minipages is dropped: so much of it is executed as came first";
    "dsm-dropped-claim" Repaired, Held, Apart, "xy!-.x?,xy!" on "0,1" by 2, "a claim is dropped while it waits, or while it is held: it lets go of what it had";
    "dsm-dropped-turn" Repaired, Held, Together, "x!,x!-,x+" on "0,0,1" by 2, "a thread drops a claim that waits for another one of its own node";
    "dsm-dropped-barrier" Repaired, Held, Apart, "x1.b-.y?,y1.b.x?" on "0,1" by 1, "a thread drops its wait at a barrier and calls again: it is counted once";
    "dsm-dropped-free" Repaired, Held, Apart, "x+.b.f-,y~.b" on "0,1" by 1, "nobody waits any more until memory is freed: it is all the same";
    "dsm-exchanges" Repaired, Held, Together, "x^3.x?,x0>5.x^7" on "0,1" by 2, "a swap, and a compare-and-exchange, are one access each";
    "dsm-copies" Repaired, Held, Apart, "xy]1,xy[" on "0,1" by 2, "elements of several minipages are copied in and out, minipage by minipage";
    "dsm-prefetch-changes" Repaired, Held, Apart, "x~~.y1.x+,x+.y?" on "0,1" by 2, "a prefetch to change elements changes no outcome";
    "dsm-prefetch" Repaired, Held, Apart, "x~.y1.x?,x1.y?" on "0,1" by 2, "a prefetch changes no outcome";
    "dsm-pull" Repaired, Held, Together, "x1,x?,x?" on "0,1,2" by 3 pulling, "a reader takes the data itself, from another reader";
    "dsm-pull-and-own" Repaired, Held, Together, "x+.x+,x?,x?.x?" on "0,0,1" by 2 pulling, "a reader does not take the data from a node that may write them still";
    "dsm-pull-and-write" Repaired, Held, Together, "x?,x?,x1" on "0,1,2" by 3 pulling, "a write waits for a reader that takes the data itself";
    "dsm-narrow" Repaired, Held, Together, "x+,x+.x?" on "0,1" by 2 narrow, "connections have room for one message, and so messages overtake each other";
    "dsm-narrow-pull" Repaired, Held, Together, "x?,x+,x?.x?" on "0,0,1" by 2 pulling narrow, "the same, and a reader takes the data itself";
    "dsm-lock" Repaired, Held, Together, "l.x?.x*.u,l.x?.x*.u" on "0,1" by 2, "under a lock nobody else's store comes between a load and a store";
    "dsm-free" Repaired, Held, Apart, "x+.b.f,y~.b" on "0,1" by 2, "memory is freed while a prefetch is under way";
    "as-published-dsm-first-notice" Otherwise(CountsNotices), Violated, Apart, "x?,x?.y?.x?,x1.y1" on "0,1,2" by 0,
        "nobody says how many notices come: the requestor goes on at the first";
    "as-published-dsm-transfer-first" Otherwise(ProtectsFirst), Violated, Together, "x+.x+,x?" on "0,1" by 2,
        "data are transferred first, and access is taken away after that";
    "as-published-dsm-requestor-knows" Otherwise(DecidesWhenServed), Violated, Together, "x?.x+,x?.x+" on "0,1" by 2,
        "the requestor says that it has a copy, and needs no data";
    "as-published-dsm-steals" Otherwise(GrantsStay), Violated, Together, "x+,x+" on "0,1" by 2,
        "a minipage may be taken before the access that it came for is executed";
    "planted-dsm-joins-any" Otherwise(JoinsWhatServes), Violated, Together, "x?,x+" on "0,0" by 1,
        "a thread that wants to write joins a request to read";
    "planted-dsm-done-early" Otherwise(DoneWhenSet), Violated, Together, "x?,x?,x+,x+" on "0,1,2,0" by 3,
        "a requestor is done when its first notice arrives";
    "planted-dsm-shares-and-writes" Otherwise(SharingDowngrades), Violated, Together, "x+,x?" on "0,1" by 2,
        "an owner that shares its minipage goes on writing it";
    "planted-dsm-forgets-server" Otherwise(KeepsServer), Violated, Together, "x+,x?" on "0,1" by 2,
        "a read leaves the owner out of the book";
    "as-published-dsm-pull-unacknowledged" Otherwise(PullsAreOpen), Violated, Together, "x?,x?,x1" on "0,1,2" by 3 pulling,
        "a pull needs no acknowledgement: an invalidation overtakes it";
    "as-published-dsm-pull-from-anyone" Otherwise(PullsFromDone), Violated, Together, "x1,x?,x?" on "0,1,2" by 3 pulling,
        "a pull names any node of the book: the data may not be there yet";
    "planted-dsm-counts-twice" Otherwise(BarriersCountOnce), Violated, Apart, "x1.b.y?,y1.b.x?" on "0,1" by 2,
        "a barrier counts a thread twice";
    "planted-dsm-free-early" Otherwise(FreeWaits), Violated, Apart, "x+.b.f,y~.b" on "0,1" by 2,
        "memory is freed while data are on their way into it";
    "planted-dsm-wakes-first" Otherwise(WakesWhenSet), Violated, Together, "x+,x+" on "0,1" by 2,
        "threads are woken before their access is set";
    "planted-dsm-book-kept" Otherwise(FreeForgetsBook), Violated, Apart, "x+.b.f,y~.b" on "0,1" by 2,
        "a manager's book has what was freed still";
    "planted-dsm-claim-robbed" Otherwise(ClaimsStay), Violated, Together, "x!,x+" on "0,1" by 1,
        "an order takes a minipage away from a claim";
    "planted-dsm-claim-leaks" Otherwise(DroppedClaimsUnpin), Violated, Apart, "x+.xy%,x+" on "0,1" by 1,
        "a claim that is given up keeps what it had pinned";
}
