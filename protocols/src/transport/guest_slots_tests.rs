//! Slots under guests that come, send, give back, break off and go: never more are granted than buffers are posted.

use super::*;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use std::collections::VecDeque;

/// A frame on its way: whether its sender has more to send, and what it gives back.
#[derive(Clone, Copy, Debug)]
struct Frame {
    hungry: bool,
    back: u32,
}

/// A guest, as far as it and its wire go.
#[derive(Clone, Debug, Default)]
struct Guest {
    /// What it may send, as it knows.
    credits: u32,
    /// What it wants to send.
    wants: u32,
    /// Frames to the server, and what the server has granted and told: slots, and how many it may keep.
    out: VecDeque<Frame>,
    told: VecDeque<(u32, u32)>,
}

/// What the server does wrong.
#[derive(Clone, Copy, PartialEq)]
enum Reading {
    AsBuilt,
    /// A slot is taken back as soon as the guest is told to give it back.
    TakenBackWhenTold,
}

struct World {
    slots: Slots,
    guests: BTreeMap<usize, Guest>,
    /// Buffers in the shared queue, and those of whose frames nobody has made use.
    posted: u32,
    in_hand: VecDeque<usize>,
    sent: BTreeMap<usize, u32>,
    reading: Reading,
}

impl World {
    fn new(common: u32, reading: Reading) -> World {
        let (guests, sent) = (BTreeMap::new(), BTreeMap::new());
        World { slots: Slots::new(common), guests, posted: common, in_hand: VecDeque::new(), sent, reading }
    }

    fn come(&mut self, guest: usize) {
        if !self.guests.contains_key(&guest) {
            self.slots.admit(guest);
            self.posted += OWN;
            self.guests.insert(guest, Guest { credits: OWN, ..Guest::default() });
        }
    }

    /// Frames that the adapter has taken are read before a connection is given up; others are not sent.
    fn break_off(&mut self, guest: usize) {
        while self.take(guest) {}
        self.post_all();
        if let Some(of) = self.guests.get_mut(&guest) {
            *of = Guest { credits: OWN, wants: of.wants, ..Guest::default() };
            self.slots.begin(guest);
        }
    }

    fn go(&mut self, guest: usize) {
        self.break_off(guest);
        if self.guests.remove(&guest).is_some() {
            self.slots.forget(guest);
            self.posted -= OWN;
        }
    }

    /// Data leave one credit for frames that only give back.
    fn send(&mut self, guest: usize) -> bool {
        let Some(of) = self.guests.get_mut(&guest) else { return false };
        if of.wants == 0 || of.credits <= 1 {
            return false;
        }
        of.wants -= 1;
        of.credits -= 1;
        let frame = Frame { hungry: of.wants > 0, back: 0 };
        of.out.push_back(frame);
        *self.sent.entry(guest).or_default() += 1;
        true
    }

    /// A frame of the server's arrives. A guest with nothing to send gives back what it may not keep, and says so.
    fn hear(&mut self, guest: usize) -> bool {
        let Some(of) = self.guests.get_mut(&guest) else { return false };
        let Some((more, keep)) = of.told.pop_front() else { return false };
        of.credits += more;
        let back = of.credits.saturating_sub(keep.max(OWN));
        if of.wants == 0 && back > 0 {
            of.credits -= 1 + back;
            of.out.push_back(Frame { hungry: false, back });
        }
        true
    }

    fn tell(&mut self, guest: usize, more: u32) {
        let keep = self.slots.keep(guest);
        if let Some(of) = self.guests.get_mut(&guest) {
            of.told.push_back((more, keep));
            if self.reading == Reading::TakenBackWhenTold && keep == OWN {
                let held = self.slots.guests.get_mut(&guest).expect("it is there");
                let back = held.extra().min(held.out);
                held.out -= back;
                self.slots.free += back;
            }
        }
    }

    /// A frame arrives at the server.
    fn take(&mut self, guest: usize) -> bool {
        let Some(Frame { hungry, back }) = self.guests.get_mut(&guest).and_then(|of| of.out.pop_front())
        else {
            return false;
        };
        assert!(self.posted > 0, "a receiver was not ready");
        self.posted -= 1;
        self.in_hand.push_back(guest);
        let used = self.slots.used(guest, hungry, back);
        assert!(self.reading != Reading::AsBuilt || used.is_ok(), "an honest guest was accused");
        true
    }

    fn post_all(&mut self) {
        while let Some(guest) = self.in_hand.pop_front() {
            self.posted += 1;
            let more = self.slots.posted(guest);
            self.tell(guest, more);
        }
        while let Some(guest) = self.slots.grant() {
            self.tell(guest, 1);
        }
    }

    fn check(&self) {
        assert!(
            self.slots.granted() + self.in_hand.len() as u32 <= self.slots.buffers(),
            "more slots than buffers"
        );
        let on_the_way: u32 = self.guests.values().map(|of| of.out.len() as u32).sum();
        let may: u32 = self.guests.values().map(|of| of.credits).sum();
        assert!(may + on_the_way <= self.posted, "a receiver would not be ready");
        for (guest, held) in &self.slots.guests {
            assert!(held.out + held.in_hand >= OWN, "guest {guest} has less than its own");
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Come(guest) => self.come(guest),
            Step::Go(guest) => self.go(guest),
            Step::Break(guest) => self.break_off(guest),
            Step::Want(guest, more) => {
                self.guests.get_mut(&guest).into_iter().for_each(|of| of.wants += more)
            }
            Step::Send(guest) => drop(self.send(guest)),
            Step::Hear(guest) => drop(self.hear(guest)),
            Step::Take(guest) => drop(self.take(guest)),
            Step::Post => self.post_all(),
        }
        self.check();
    }

    /// All goes on until nothing happens any more.
    fn quiesce(&mut self) {
        let guests: Vec<usize> = self.guests.keys().copied().collect();
        for _ in 0..10_000 {
            let mut busy = false;
            for &guest in &guests {
                busy |= self.send(guest) | self.take(guest);
                self.post_all();
                busy |= self.hear(guest);
            }
            self.check();
            if !busy {
                return;
            }
        }
        panic!("frames travel for ever");
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Come(usize),
    Go(usize),
    Break(usize),
    Want(usize, u32),
    Send(usize),
    Hear(usize),
    Take(usize),
    Post,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let guest = || 1..5_usize;
    let step = prop_oneof![
        2 => guest().prop_map(Step::Come),
        1 => guest().prop_map(Step::Go),
        1 => guest().prop_map(Step::Break),
        4 => (guest(), 1..12_u32).prop_map(|(guest, more)| Step::Want(guest, more)),
        12 => guest().prop_map(Step::Send),
        12 => guest().prop_map(Step::Hear),
        12 => guest().prop_map(Step::Take),
        8 => Just(Step::Post),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    /// Whatever happens in whatever order, a guest that may send finds a buffer; and then all that is wanted is sent, and each
    /// guest is back at its own.
    #[test]
    fn slots_never_exceed_buffers_nobody_starves_and_the_idle_shrink(common in 0..9_u32, steps in steps()) {
        let mut world = World::new(common, Reading::AsBuilt);
        for step in steps {
            world.step(step);
        }
        world.quiesce();
        for (guest, of) in &world.guests {
            prop_assert_eq!(of.wants, 0, "guest {} starves", guest);
            prop_assert_eq!(of.credits, OWN, "guest {} keeps more than its own", guest);
        }
        prop_assert_eq!(world.slots.lent(), 0, "common buffers are lost");
        prop_assert_eq!(world.posted, world.slots.buffers());
    }
}

/// One hungry guest gets all common buffers; a second one that becomes hungry gets half of them as the first one uses its own.
#[test]
fn the_hungry_share_what_is_common() {
    let mut world = World::new(8, Reading::AsBuilt);
    world.come(1);
    world.come(2);
    world.step(Step::Want(1, 40));
    let most = |world: &mut World| {
        for _ in 0..40 {
            for guest in [1, 2] {
                while world.send(guest) {}
                while world.take(guest) {}
            }
            world.post_all();
            for guest in [1, 2] {
                while world.hear(guest) {}
            }
            if world.guests.values().all(|of| of.credits > OWN || of.wants == 0) {
                break;
            }
        }
    };
    most(&mut world);
    assert_eq!(world.guests[&1].credits, OWN + 8);
    world.step(Step::Want(1, 400));
    world.step(Step::Want(2, 400));
    for _ in 0..4 {
        most(&mut world);
    }
    assert_eq!([world.guests[&1].credits, world.guests[&2].credits], [OWN + 4, OWN + 4]);
}

/// What must not be: a slot that is taken back when its guest is told so, and not when the guest has confirmed it, is used by two.
#[test]
fn a_slot_taken_back_before_its_guest_confirms_it_is_granted_twice() {
    let config = ProptestConfig { failure_persistence: None, cases: 2_000, ..ProptestConfig::default() };
    let found = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)).run(
        &(1..9_u32, steps()),
        |(common, steps)| {
            let mut world = World::new(common, Reading::TakenBackWhenTold);
            steps.into_iter().for_each(|step| world.step(step));
            Ok(())
        },
    );
    assert!(found.is_err(), "it went unnoticed");
}
