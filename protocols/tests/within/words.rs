//! What a home's words promise, on the simulated fabric.

use super::*;
use crate::locks::stats::Counters;
use crate::locks::{LockConfig, Scheme};
use crate::rt::fingerprint::StateHasher;
use crate::rt::{Rt, RtConfig};
use crate::transport::{Mesh, MeshConfig, Rank};
use std::cell::Cell;
use std::hash::Hash;
use std::rc::Rc;
use weft_sim::choice::Seeded;
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Sim};
use weft_verbs::{Device, Nanos, Wait};

/// Nothing here takes longer.
const SOON: Nanos = Nanos::from_millis(100);

/// A home, and its node.
pub(in super::super) struct Home {
    fabric: Fabric,
    pub(in super::super) rt: Rt<Sim>,
    pub(in super::super) net: Net<Sim>,
    pub(in super::super) words: Rc<Words<Sim>>,
}

impl Home {
    pub(in super::super) fn new() -> Home {
        let profile = Profile::builtin("present-day").expect("a profile that ships");
        let fabric = Fabric::new(Config::new(1, profile), Box::new(Seeded::new(1))).expect("a world");
        let ctx = fabric.devices(NodeId(0))[0].open().expect("a device");
        let rt = Rt::new(&ctx, RtConfig { wait: Wait::Poll, ..RtConfig::default() }).expect("a runtime");
        let mesh = MeshConfig::new(Rank::from_index(0), vec!["n0".to_owned()]);
        let mesh = Mesh::start(&rt, mesh).expect("a mesh");
        let config = LockConfig::new(Scheme::Ncosed, 1);
        let net = Net::new(&rt, &mesh, &config, &Rc::new(Counters::default()), false);
        fabric.mount(NodeId(0), Box::new(rt.program()));
        // A node that waits does not see what a test does from outside; this one wakes now and then.
        let own = rt.clone();
        rt.spawn(async move {
            loop {
                own.sleep(Nanos::from_micros(10)).await;
            }
        });
        Home { words: Rc::new(Words::new(&net)), fabric, rt, net }
    }

    /// Runs something on the node until it ends.
    pub(in super::super) fn run<T: 'static>(&self, what: impl Future<Output = T> + 'static) -> T {
        let value = Rc::new(Cell::new(None));
        let end = Rc::clone(&value);
        self.rt.spawn(async move { end.set(Some(what.await)) });
        self.fabric.run_until(self.fabric.now() + SOON);
        value.take().expect("it has ended")
    }

    pub(in super::super) fn fresh(&self, retired: Option<RemoteSlice>) -> RemoteSlice {
        let words = Rc::clone(&self.words);
        self.run(async move { words.fresh(retired).await }).expect("there is memory")
    }

    /// Puts a value where another was.
    fn set(&self, at: RemoteSlice, from: u64, to: u64) {
        let net = self.net.clone();
        let was = self.run(async move { net.swap(net.mesh().me(), at, Word(from), Word(to)).await });
        assert_eq!(was, Ok(Word(from)));
    }

    fn told(&self) -> u128 {
        let mut digest = StateHasher::default();
        self.words.numbers().hash(&mut digest);
        digest.whole()
    }
}

#[test]
fn every_word_is_zero_and_has_a_place_of_its_own() {
    let home = Home::new();
    let count = WORDS_A_REGION + 3;
    let words = Rc::clone(&home.words);
    let all: Vec<RemoteSlice> = home.run(async move {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(words.fresh(None).await.expect("there is memory"));
        }
        all
    });
    assert_eq!((home.words.counts(), home.words.memory.borrow().regions.len()), ((count as u64, 0), 2));
    for (i, at) in all.iter().enumerate() {
        assert!(at.len == 8 && at.addr.is_multiple_of(8) && !all[..i].contains(at));
        assert_eq!(home.words.look(*at), Some(0));
    }
    for (value, &i) in (7..).zip(&[0, 1, 2, WORDS_A_REGION - 1, WORDS_A_REGION, count - 1]) {
        home.set(all[i], 0, value);
        assert_eq!(home.words.look(all[i]), Some(value), "word {i}");
    }
    assert_eq!(home.words.look(all[3]), Some(0));
}

#[test]
fn what_is_no_word_of_the_home_has_no_value() {
    let home = Home::new();
    let at = home.fresh(None);
    home.set(at, 0, 7);
    let end = at.addr + 8 * WORDS_A_REGION as u64;
    assert_eq!(home.words.look(RemoteSlice { rkey: at.rkey + 100, ..at }), None);
    assert_eq!(home.words.look(RemoteSlice { addr: end, ..at }), None);
    assert_eq!(home.words.look(RemoteSlice { addr: at.addr - 8, ..at }), None);
    assert_eq!(home.words.look(RemoteSlice { addr: end - 8, ..at }), Some(0));
    assert_eq!(home.words.look(at), Some(7));
}

/// A word that was given up comes back when sixteen others have been given up after it, and holds zero then.
#[test]
fn words_that_were_given_up_are_kept_for_a_while_and_come_back_as_zeros() {
    let home = Home::new();
    let mut given_up = vec![home.fresh(None)];
    for n in 0..RETIRED_KEPT {
        let old = given_up[n];
        home.set(old, 0, 100 + n as u64);
        let new = home.fresh(Some(old));
        assert!(!given_up.contains(&new), "{n}");
        assert_eq!(home.words.counts(), (1, 1 + n as u64));
        given_up.push(new);
    }
    for n in RETIRED_KEPT..RETIRED_KEPT + 3 {
        home.set(given_up[n], 0, Word::POISON.0);
        let again = home.fresh(Some(given_up[n]));
        assert_eq!((again, home.words.look(again)), (given_up[n - RETIRED_KEPT], Some(0)));
        assert_eq!(home.words.counts(), (1, RETIRED_KEPT as u64));
        given_up.push(again);
    }
}

#[test]
fn explorers_know_a_home_s_words_by_which_one_comes_next() {
    let homes = [(); 2].map(|()| Home::new());
    let mut seen = Vec::new();
    let mut look = || {
        let told = homes.each_ref().map(Home::told);
        assert_eq!(told[0], told[1], "the same has happened to both");
        assert!(!seen.contains(&told[0]));
        seen.push(told[0]);
    };
    look();
    let first = homes.each_ref().map(|home| home.fresh(None));
    look();
    let second = homes.each_ref().map(|home| home.fresh(None));
    look();
    for n in [0, 1] {
        homes[n].fresh(Some(first[n]));
    }
    look();
    for n in [0, 1] {
        homes[n].fresh(Some(second[n]));
    }
    look();
    // The oldest comes back first: the same words, given up in another order.
    let given_up = |order: [usize; 2]| {
        let home = Home::new();
        let words = [home.fresh(None), home.fresh(None)];
        for n in order {
            home.fresh(Some(words[n]));
        }
        (words, home.told())
    };
    let (straight, swapped) = (given_up([0, 1]), given_up([1, 0]));
    assert!(straight.0 == swapped.0 && straight.1 != swapped.1);
}
