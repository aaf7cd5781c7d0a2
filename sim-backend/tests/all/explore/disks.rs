//! Disks where there is no time: calls end in any order, and a crash keeps any subset of what was not synced.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, Waker};
use weft_sim::choice::{First, Rng};
use weft_sim::explore::{Enabled, FaultSet, Footprint, Outcome, Policy};
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Order, Sim, SimContext, SimDiskRequest};
use weft_verbs::*;

const NODE: NodeId = NodeId(0);
const SYNCED: ObjectName = ObjectName(1);
const OTHERS: [ObjectName; 2] = [ObjectName(2), ObjectName(3)];

fn write(object: ObjectName) -> DiskCall<Sim> {
    DiskCall::Write { object, at: 0, from: DiskBuffer::Owned(vec![7]) }
}

/// Which objects are there, as a program's second life found them.
type Found = Rc<RefCell<Vec<bool>>>;

/// Begins the calls of each stage when those of the one before have ended, and notes which ended well.
struct Program {
    context: SimContext,
    stages: Vec<Vec<DiskCall<Sim>>>,
    under_way: Vec<SimDiskRequest>,
    found: Found,
}

impl Node for Program {
    fn step(&mut self) -> Park {
        let mut cx = TaskContext::from_waker(Waker::noop());
        let found = Rc::clone(&self.found);
        self.under_way.retain_mut(|request| match request.poll_end(&mut cx) {
            Poll::Ready(end) => {
                found.borrow_mut().push(end.outcome.is_ok());
                false
            }
            Poll::Pending => true,
        });
        if self.under_way.is_empty() {
            if self.stages.is_empty() {
                return Park::Done;
            }
            let disk = self.context.disk().expect("the profile has one");
            self.under_way = self.stages.remove(0).into_iter().map(|call| disk.begin(call)).collect();
        }
        Park::Until { style: Wait::Poll, deadline: None }
    }
}

struct World {
    fabric: Fabric,
    found: Found,
    restarts: u32,
}

impl World {
    fn new(faults: FaultSet) -> World {
        let profile = Profile::builtin("ncosed-2007").expect("it is built in");
        let config = Config { order: Order::Untimed, ..Config::new(1, profile) };
        let fabric = Fabric::new(config, Box::new(First)).expect("a small cluster can be built");
        fabric.set_policy(Policy { faults, ..Policy::default() });
        let world = World { fabric, found: Found::default(), restarts: 0 };
        let both = OTHERS.map(write).into();
        world.mount(vec![vec![write(SYNCED)], vec![DiskCall::Sync(SYNCED)], both], Found::default());
        world
    }

    fn mount(&self, stages: Vec<Vec<DiskCall<Sim>>>, found: Found) {
        let context = self.fabric.devices(NODE)[0].open().expect("a device opens");
        self.fabric.mount(NODE, Box::new(Program { context, stages, under_way: Vec::new(), found }));
    }

    fn take(&mut self, event: Enabled, outcome: Outcome) -> Footprint {
        let mut touched = Footprint::new();
        let taken = self.fabric.take(event.event, outcome, Some(&mut touched)).expect("it is enabled");
        if taken.restarted.is_some() {
            self.restarts += 1;
            let look = [SYNCED, OTHERS[0], OTHERS[1]].map(|object| vec![DiskCall::Size(object)]);
            self.mount(look.into(), Rc::clone(&self.found));
        }
        touched
    }

    /// What can happen, with each outcome; a second restart is none.
    fn choices(&self) -> Vec<(Enabled, Outcome)> {
        let mut enabled = Vec::new();
        self.fabric.enabled(&mut enabled);
        let outcomes = |event: Enabled| {
            let faults = if self.restarts == 0 { event.faults } else { FaultSet::NONE };
            std::iter::once(Outcome::Done).chain(faults.iter()).map(move |outcome| (event, outcome))
        };
        enabled.into_iter().flat_map(outcomes).collect()
    }
}

/// Every execution, by the choices that lead to its end.
fn every_end(faults: FaultSet, end: &mut dyn FnMut(&World)) -> u32 {
    let (mut path, mut ends): (Vec<usize>, u32) = (Vec::new(), 0);
    loop {
        let (mut world, mut widths) = (World::new(faults), Vec::new());
        loop {
            let choices = world.choices();
            if choices.is_empty() {
                break;
            }
            let depth = widths.len();
            if depth == path.len() {
                path.push(0);
            }
            widths.push(choices.len());
            let (event, outcome) = choices[path[depth]];
            world.take(event, outcome);
        }
        end(&world);
        ends += 1;
        // The next path: the last choice that has another one.
        while let Some(last) = path.pop() {
            if last + 1 < widths[path.len()] {
                path.push(last + 1);
                break;
            }
        }
        if path.is_empty() {
            return ends;
        }
    }
}

#[test]
fn a_restart_keeps_what_was_synced_and_any_subset_of_the_rest() {
    let mut all = BTreeSet::new();
    every_end(FaultSet::one(Outcome::Restart), &mut |world| {
        if world.restarts > 0 {
            all.insert(world.found.borrow().clone());
        }
    });
    let any =
        |synced: bool| [[false; 2], [true, false], [false, true], [true; 2]].map(|[b, c]| vec![synced, b, c]);
    let mut expected: BTreeSet<Vec<bool>> = any(true).into();
    // Before the sync there is nothing else, and the first write is kept or lost.
    expected.insert(vec![false; 3]);
    assert_eq!(all, expected);
}

#[test]
fn calls_that_are_under_way_at_once_end_in_any_order_and_without_faults_all_end_well() {
    let ends = every_end(FaultSet::NONE, &mut |world| {
        assert!(world.choices().is_empty());
    });
    assert!(ends > 1, "two writes, in either order");
}

#[test]
fn what_two_neighbouring_events_touch_says_whether_they_commute() {
    let mut compared = 0;
    for seed in 0..200 {
        let mut rng = Rng::from_seed(seed);
        let mut world = World::new(FaultSet::one(Outcome::Restart));
        let mut path: Vec<(Enabled, Outcome)> = Vec::new();
        loop {
            let choices = world.choices();
            if choices.is_empty() {
                break;
            }
            for (a, _) in choices.iter().filter(|(_, outcome)| *outcome == Outcome::Done) {
                for (b, _) in choices.iter().filter(|(b, how)| *how == Outcome::Done && b.actor != a.actor) {
                    let [one, other] = [(*a, *b), (*b, *a)].map(|(x, y)| {
                        let mut world = World::new(FaultSet::one(Outcome::Restart));
                        path.iter().for_each(|(event, outcome)| drop(world.take(*event, *outcome)));
                        let touched = world.take(x, Outcome::Done);
                        let enabled = world.choices().iter().any(|(event, _)| event.event == y.event);
                        let then = enabled.then(|| world.take(y, Outcome::Done));
                        (touched, then, world.fabric.fingerprint())
                    });
                    match (&one.1, &other.1) {
                        (Some(then), Some(_)) if !one.0.conflicts(then) => {
                            assert_eq!(one.2, other.2, "{a:?} and {b:?}");
                            compared += 1;
                        }
                        (Some(_), Some(_)) => {}
                        _ => assert!(one.0.conflicts(&other.0), "{a:?} and {b:?}: one disables the other"),
                    }
                }
            }
            let choice = choices[rng.below(choices.len() as u64) as usize];
            world.take(choice.0, choice.1);
            path.push(choice);
        }
    }
    assert!(compared > 0);
}
