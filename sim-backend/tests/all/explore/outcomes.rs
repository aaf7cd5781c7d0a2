//! What the outcomes of an event do: each fault, what heals it, and who learns of it.

use super::world::{Act, Plan, RECEIVES, World};
use std::cell::Cell;
use std::rc::Rc;
use weft_sim::choice::Rng;
use weft_sim::explore::{Enabled, FaultSet, Footprint, Outcome, Timers};
use weft_verbs::{CompletionQueue, MemoryRegion, Node, Park, QpState, QueuePair, Wait};

/// One node adds to a word of the other.
fn one_add() -> World {
    let acts = vec![vec![Act::Add { peer: 1, word: 0 }, Act::Await], vec![]];
    of(acts, Wait::Poll)
}

/// The same twice, the second before the first was answered.
fn two_adds() -> World {
    let add = Act::Add { peer: 1, word: 0 };
    of(vec![vec![add, add, Act::Await, Act::Await], vec![]], Wait::Poll)
}

fn of(acts: Vec<Vec<Act>>, style: Wait) -> World {
    World::new(Plan {
        acts,
        style,
        timers: Timers::WhenQuiescent,
        faults: FaultSet::ALL,
        sanitize: true,
        in_order: false,
        drift: None,
        forgets: false,
    })
}

impl World {
    fn next(&self) -> Vec<Enabled> {
        let mut out = vec![];
        self.fabric.enabled(&mut out);
        out
    }

    /// Takes first events until one of this kind (see the identities) is enabled.
    fn until(&self, kind: u64) -> Enabled {
        loop {
            let list = self.next();
            match list.iter().find(|enabled| enabled.event.0 >> 60 == kind) {
                Some(found) => return *found,
                None => self.done(list.first().expect("something can happen")),
            }
        }
    }

    fn done(&self, enabled: &Enabled) {
        self.fabric.take(enabled.event, Outcome::Done, None).unwrap();
    }

    fn fail(&self, enabled: &Enabled, outcome: Outcome) {
        assert!(enabled.faults.contains(outcome), "{outcome} is not offered");
        self.fabric.take(enabled.event, outcome, None).unwrap();
    }

    /// Everything to its end, first events first.
    fn finish(&self) {
        while let Some(first) = self.next().first() {
            self.done(first);
        }
    }

    fn word(&self, node: usize, word: usize) -> u64 {
        self.places[node].mr.load(8 * word).unwrap()
    }

    fn qp_state(&self, node: usize, peer: usize) -> QpState {
        self.places[node].qps[peer].as_ref().unwrap().state()
    }

    fn failed(&self, node: usize) -> bool {
        self.seen[node].borrow().contains(&(1000 + weft_verbs::WcError::RetryExc as u64))
    }
}

const DELIVERY: u64 = 1;
const LATE: u64 = 2;
const STEP: u64 = 5;
const QP_TIMER: u64 = 7;
const REPAIR_LINK: u64 = 9;
const REPAIR_PORT: u64 = 10;

/// The delivery of the answer to the one request.
fn answer(world: &World) -> Enabled {
    let request = world.until(DELIVERY);
    world.done(&request);
    world.until(DELIVERY)
}

#[test]
fn a_lost_request_is_sent_again_when_the_timer_runs_out_and_not_before() {
    let world = one_add();
    let request = world.until(DELIVERY);
    assert!(world.next().iter().all(|enabled| enabled.event.0 >> 60 != QP_TIMER), "nothing provoked it");
    world.fail(&request, Outcome::Drop);
    let timer = world.until(QP_TIMER);
    assert_eq!(world.word(1, 0), 0);
    world.done(&timer);
    world.finish();
    assert_eq!((world.word(1, 0), world.failed(0)), (1, false));
}

#[test]
fn a_lost_answer_is_given_again_from_the_record() {
    let world = one_add();
    world.fail(&answer(&world), Outcome::Drop);
    world.finish();
    assert_eq!((world.word(1, 0), world.failed(0)), (1, false));
}

#[test]
fn a_late_packet_and_its_copy_are_executed_once() {
    let world = one_add();
    world.fail(&world.until(DELIVERY), Outcome::Delay);
    let (late, timer) = (world.until(LATE), world.until(QP_TIMER));
    world.done(&timer);
    let copy = world.until(DELIVERY);
    world.done(&copy);
    world.done(&late);
    world.finish();
    assert_eq!((world.word(1, 0), world.failed(0)), (1, false));
}

#[test]
fn a_lost_completion_was_executed_and_its_requester_is_in_error_at_once() {
    let world = one_add();
    world.fail(&answer(&world), Outcome::LoseCompletion);
    assert_eq!((world.word(1, 0), world.qp_state(0, 1)), (1, QpState::Err));
    world.finish();
    assert!(world.failed(0));
}

#[test]
fn a_request_may_be_executed_after_its_requester_has_given_up() {
    let world = one_add();
    let request = world.until(DELIVERY);
    world.fail(&request, Outcome::RequesterGaveUp);
    assert_eq!((world.word(1, 0), world.qp_state(0, 1)), (0, QpState::Err));
    let again = world.until(DELIVERY);
    assert_ne!(again.event, request.event, "another event");
    assert_eq!((again.actor, again.faults.contains(Outcome::RequesterGaveUp)), (request.actor, false));
    world.finish();
    assert_eq!((world.word(1, 0), world.failed(0)), (1, true));
}

#[test]
fn a_request_whose_requester_gave_up_is_not_executed_once_the_responder_has_fenced() {
    let world = one_add();
    world.fail(&world.until(DELIVERY), Outcome::RequesterGaveUp);
    world.places[1].qps[0].as_ref().unwrap().modify(&weft_verbs::Modify::Err).unwrap();
    world.finish();
    assert_eq!((world.word(1, 0), world.failed(0)), (0, true));
}

#[test]
fn a_cut_that_is_repaired_in_time_costs_nothing_but_a_retry() {
    let world = one_add();
    world.fail(&world.until(DELIVERY), Outcome::Cut);
    world.done(&world.until(REPAIR_LINK));
    world.finish();
    assert_eq!((world.word(1, 0), world.failed(0)), (1, false));
}

#[test]
fn time_outs_over_a_cut_link_exhaust_the_retries_in_one_step() {
    let world = one_add();
    world.fail(&world.until(DELIVERY), Outcome::Cut);
    world.done(&world.until(QP_TIMER));
    assert_eq!(world.qp_state(0, 1), QpState::Err);
    world.finish();
    assert_eq!((world.word(1, 0), world.failed(0)), (0, true));
}

#[test]
fn a_port_goes_down_with_an_event_and_comes_back() {
    let world = one_add();
    world.fail(&world.until(DELIVERY), Outcome::PortDown);
    assert!(world.seen[1].borrow().iter().all(|&seen| seen != 2001));
    let step = world.next().into_iter().find(|enabled| enabled.event.0 >> 60 == STEP).expect("it is woken");
    world.done(&step);
    assert!(world.seen[1].borrow().contains(&2001), "the adapter said so");
    world.done(&world.until(REPAIR_PORT));
    world.finish();
    assert_eq!((world.word(1, 0), world.failed(0)), (1, false));
}

#[test]
fn a_crashed_node_never_answers_and_never_steps() {
    let world = one_add();
    world.fail(&world.until(DELIVERY), Outcome::Crash);
    assert!(world.fabric.is_crashed(weft_sim::NodeId(1)));
    world.finish();
    assert!(world.failed(0));
}

/// The second request comes before the first and is dropped; that this is said comes too late to be heard. What was dropped
/// must be sent again by the timer then, as nobody says anything of it any more.
#[test]
fn what_was_dropped_out_of_turn_is_sent_again_although_its_refusal_comes_too_late() {
    let world = two_adds();
    world.fail(&world.until(DELIVERY), Outcome::Delay);
    world.done(&world.until(DELIVERY));
    world.fail(&world.until(DELIVERY), Outcome::Delay);
    let late = world.next().into_iter().filter(|enabled| enabled.event.0 >> 60 == LATE).collect::<Vec<_>>();
    let [request, refusal] = late[..] else { panic!("two are late: {late:?}") };
    world.done(&request);
    world.done(&world.until(DELIVERY));
    world.done(&refusal);
    world.finish();
    assert_eq!((world.word(1, 0), world.failed(0)), (2, false));
}

/// The first request is lost, and the second one refused. Sent again, the first is late: the second comes before it again, and is
/// dropped without another word.
#[test]
fn what_was_dropped_without_a_word_is_sent_again() {
    let world = two_adds();
    world.fail(&world.until(DELIVERY), Outcome::Drop);
    world.done(&world.until(DELIVERY));
    world.done(&world.until(DELIVERY));
    world.fail(&world.until(DELIVERY), Outcome::Delay);
    world.done(&world.until(DELIVERY));
    world.done(&world.until(LATE));
    world.finish();
    assert_eq!((world.word(1, 0), world.failed(0)), (2, false));
}

/// Of the answers to a read the first one is late and the others are dropped, so that all are asked for again. Then the first one comes
/// after all; and what asks again, which begins with that one, is lost.
#[test]
fn a_read_that_is_asked_for_again_and_lost_ends_although_its_first_answer_came_late() {
    let world = of(vec![vec![Act::Fetch { peer: 1 }, Act::Await, Act::Set { word: 0 }], vec![]], Wait::Poll);
    world.fail(&answer(&world), Outcome::Delay);
    world.done(&world.until(DELIVERY));
    let late = world.until(LATE);
    let packets = || world.next().into_iter().filter(|enabled| enabled.event.0 >> 60 == DELIVERY);
    while let Some(packet) = packets().find(|packet| !packet.faults.contains(Outcome::RequesterGaveUp)) {
        world.done(&packet);
    }
    world.done(&late);
    let again = world.until(DELIVERY);
    world.fail(&again, Outcome::Drop);
    world.finish();
    assert_eq!((world.word(0, 0), world.failed(0)), (7, false), "the read ended");
}

#[test]
fn a_node_that_restarts_is_empty_and_waits_for_a_program() {
    let world = one_add();
    let request = world.until(DELIVERY);
    let mut print = Footprint::new();
    let taken = world.fabric.take(request.event, Outcome::Restart, Some(&mut print)).unwrap();
    let node = weft_sim::NodeId(1);
    assert_eq!((taken.crashed, taken.restarted), (None, Some(node)));
    assert!(!world.fabric.is_crashed(node));
    assert!(world.next().iter().all(|enabled| enabled.event.0 >> 60 != STEP), "nobody is there to step");
    let steps = Rc::new(Cell::new(0));
    world.fabric.mount(node, Box::new(Counting(Rc::clone(&steps))));
    let step = world.next().into_iter().find(|enabled| enabled.event.0 >> 60 == STEP).expect("somebody is");
    let mut stepped = Footprint::new();
    world.fabric.take(step.event, Outcome::Done, Some(&mut stepped)).unwrap();
    assert!(print.is_cause_of(&stepped));
    world.finish();
    assert_eq!((steps.get(), world.failed(0)), (1, true), "nobody knows the request there any more");
}

/// Counts its steps, of which it wants one.
struct Counting(Rc<Cell<u32>>);

impl Node for Counting {
    fn step(&mut self) -> Park {
        self.0.set(self.0.get() + 1);
        Park::Done
    }
}

#[test]
fn a_step_can_crash_its_node() {
    let world = one_add();
    let step = world.until(STEP);
    world.fail(&step, Outcome::Crash);
    assert!(world.fabric.is_crashed(weft_sim::NodeId((step.event.0 >> 42 & 0x3ff) as u32)));
}

#[test]
fn what_wakes_a_node_is_a_cause_of_its_step() {
    let world = of(vec![vec![Act::Add { peer: 1, word: 0 }, Act::Await], vec![]], Wait::Notify);
    let answer = answer(&world);
    while let Some(step) = world.next().iter().find(|enabled| enabled.event.0 >> 60 == STEP) {
        world.done(step);
    }
    let (mut delivered, mut stepped) = (Footprint::new(), Footprint::new());
    world.fabric.take(answer.event, Outcome::Done, Some(&mut delivered)).unwrap();
    let woken = world.next();
    assert_eq!((woken.len(), woken[0].event.0 >> 60), (1, STEP));
    world.fabric.take(woken[0].event, Outcome::Done, Some(&mut stepped)).unwrap();
    assert!(delivered.is_cause_of(&stepped));
}

/// Whether some order of events leaves the adder asleep with a completion in its queue.
fn sleeps_for_ever(forgets: bool) -> bool {
    let acts = vec![vec![Act::Add { peer: 1, word: 0 }, Act::Await, Act::Look { word: 3 }], vec![]];
    let (style, timers, faults) = (Wait::Notify, Timers::WhenQuiescent, FaultSet::NONE);
    let mut world = World::new(Plan {
        acts,
        style,
        timers,
        faults,
        sanitize: true,
        in_order: false,
        drift: None,
        forgets,
    });
    (0..200).any(|seed| {
        let mut rng = Rng::from_seed(seed);
        world.begin();
        loop {
            let list = world.next();
            if list.is_empty() {
                return !world.places[0].cq.poll(&mut vec![], 1).is_ok_and(|n| n == 0);
            }
            world.done(&list[rng.below(list.len() as u64) as usize]);
        }
    })
}

#[test]
fn arming_is_a_step_of_its_own_so_that_who_forgets_to_poll_after_it_sleeps_for_ever() {
    assert_eq!((sleeps_for_ever(true), sleeps_for_ever(false)), (true, false));
}

#[test]
fn a_receiver_that_is_not_ready_is_asked_again_when_it_is() {
    // More messages than receive requests, to a node that posts no more before it has looked.
    let sends = vec![Act::Send { peer: 1, signaled: true }; RECEIVES + 1];
    let world = of(vec![sends, vec![]], Wait::Poll);
    let steps = |node: u64| {
        world
            .next()
            .into_iter()
            .find(|enabled| enabled.event.0 >> 60 == STEP && enabled.event.0 >> 42 & 0x3ff == node)
    };
    for node in [1, 0] {
        world.done(&steps(node).expect("a first step"));
    }
    while let Some(delivery) = world.next().iter().find(|enabled| enabled.event.0 >> 60 == DELIVERY) {
        world.done(delivery);
    }
    assert!(world.next().iter().all(|enabled| enabled.event.0 >> 60 != QP_TIMER), "in vain");
    world.done(&steps(1).expect("it has messages"));
    assert!(world.next().iter().any(|enabled| enabled.event.0 >> 60 == QP_TIMER));
    world.finish();
    assert!(!world.failed(0));
}

/// A cut takes what says that the receiver is not ready: the requester waits for no receiver, and asks again when its timer runs out.
#[test]
fn a_requester_asks_again_although_the_word_that_its_receiver_is_not_ready_is_lost() {
    let sends = vec![Act::Send { peer: 1, signaled: true }; RECEIVES + 1];
    let world = of(vec![sends, vec![]], Wait::Poll);
    for _ in 0..2 {
        world.done(&world.until(STEP));
    }
    // All messages come, and the answers to those that are received.
    for _ in 0..2 * RECEIVES + 1 {
        world.done(&world.until(DELIVERY));
    }
    world.fail(&world.until(DELIVERY), Outcome::Cut);
    world.done(&world.until(REPAIR_LINK));
    world.finish();
    assert!(world.seen[0].borrow().contains(&(RECEIVES as u64)), "its last message has not ended");
    assert!(!world.failed(0));
}

#[test]
fn an_event_that_is_not_enabled_changes_nothing() {
    let world = one_add();
    let delivery = world.until(DELIVERY);
    let before = world.fabric.fingerprint();
    let late = weft_sim::choice::EventId(delivery.event.0 + 1);
    assert!(world.fabric.take(late, Outcome::Done, None).is_err());
    assert!(world.fabric.take(delivery.event, Outcome::LoseCompletion, None).is_err());
    assert_eq!(world.fabric.fingerprint(), before);
}

#[test]
fn a_world_put_back_is_the_same_to_the_last_byte() {
    let mut world = one_add();
    let root = (world.fabric.fingerprint_parts(), world.next());
    for outcome in Outcome::ALL {
        let answer = answer(&world);
        if outcome == Outcome::Done || answer.faults.contains(outcome) {
            world.fabric.take(answer.event, outcome, None).unwrap();
        }
        world.finish();
        world.begin();
        assert_eq!((world.fabric.fingerprint_parts(), world.next()), root, "after {outcome}");
    }
}
