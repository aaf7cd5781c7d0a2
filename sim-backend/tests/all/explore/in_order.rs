//! What comes to a node is shown in one order: completions, and events of connections.

use super::walks::busy;
use super::world::{Act, Plan, World};
use weft_sim::explore::{AccessKind, Enabled, FaultSet, Footprint, Outcome};
use weft_sim::{NodeId, SimContext};
use weft_verbs::{
    CmEvent, CompletionQueue, ConnectionManager, Context, Disk, DiskCall, Modify, Node, Park, QueuePair, Wait,
};

const DELIVERY: u64 = 1;
const STEP: u64 = 5;
const DISK_CALL: u64 = 11;

fn kind(enabled: &Enabled) -> u64 {
    enabled.event.0 >> 60
}

fn is_step_of(enabled: &Enabled, node: u64) -> bool {
    kind(enabled) == STEP && enabled.event.0 >> 42 & 0x3ff == node
}

/// Lets happen what may, deliveries first, until nothing of it is left.
fn happen(world: &World, may: impl Fn(&Enabled) -> bool) {
    let mut out = vec![];
    loop {
        world.fabric.enabled(&mut out);
        out.retain(|enabled| !enabled.quiescent && may(enabled));
        let Some(next) = out.iter().min_by_key(|enabled| kind(enabled) != DELIVERY) else { return };
        world.fabric.take(next.event, Outcome::Done, None).unwrap();
    }
}

/// Node 1's two messages come to node 0, then its call, then node 2's two messages.
fn two_messages_a_call_and_two_messages() -> World {
    let send = Act::Send { peer: 0, signaled: false };
    let acts = vec![vec![], vec![send, send, Act::Dial { peer: 0 }], vec![send, send]];
    let world = World::new(Plan { acts, in_order: true, ..busy(Wait::Poll) });
    let mut out = vec![];
    world.fabric.enabled(&mut out);
    let first = out.iter().find(|enabled| is_step_of(enabled, 0)).expect("every node begins");
    world.fabric.take(first.event, Outcome::Done, None).unwrap();
    happen(&world, |enabled| !is_step_of(enabled, 0) && !is_step_of(enabled, 2));
    happen(&world, |enabled| !is_step_of(enabled, 0));
    world
}

#[test]
fn an_event_waits_for_the_completions_before_it_and_for_no_others() {
    for forgets in [false, true] {
        let world = two_messages_a_call_and_two_messages();
        let place = &world.places[0];
        if forgets {
            // With its queue pair goes what is younger than the call.
            place.qps[2].as_ref().unwrap().modify(&Modify::Reset).unwrap();
        }
        let mut done = vec![];
        assert!(place.cm.event().is_none(), "two completions are older");
        assert_eq!(place.cq.poll(&mut done, 16), Ok(2));
        assert_eq!(place.cq.poll(&mut done, 16), Ok(0), "the call is older");
        assert!(matches!(place.cm.event(), Some(CmEvent::Request { .. })));
        assert_eq!(place.cq.poll(&mut done, 16), Ok(if forgets { 0 } else { 2 }));
    }
}

/// Whether node 0 steps for nothing but the message that has come from node 1, by what its step says. It waits; and if `ends`, a call of its
/// disk has ended before the message came.
fn steps_for_a_message_alone(ends: bool) -> bool {
    let acts = vec![vec![], vec![Act::Send { peer: 0, signaled: false }]];
    let world = World::new(Plan { acts, in_order: true, ..busy(Wait::Poll) });
    happen(&world, |enabled| kind(enabled) == STEP);
    let disk = world.places[0].ctx.disk().unwrap();
    let _call = ends.then(|| disk.begin(DiskCall::List));
    happen(&world, |enabled| kind(enabled) == DISK_CALL);
    happen(&world, |enabled| kind(enabled) == DELIVERY);
    let mut out = vec![];
    world.fabric.enabled(&mut out);
    let step = out.iter().find(|enabled| is_step_of(enabled, 0)).expect("a message is there");
    let mut touched = Footprint::new();
    world.fabric.take(step.event, Outcome::Done, Some(&mut touched)).unwrap();
    touched.touches().iter().any(|touch| touch.kind == AccessKind::EnablingEdge)
}

#[test]
fn a_step_that_the_end_of_a_disk_call_made_possible_is_none_for_a_message_alone() {
    assert!(steps_for_a_message_alone(false));
    assert!(!steps_for_a_message_alone(true), "it would be without the message");
}

/// The step that comes of it is because of the first one, and could be because of the other alone.
#[test]
fn which_of_a_message_and_the_end_of_a_disk_call_wakes_a_node_is_a_race() {
    for order in [[DELIVERY, DISK_CALL], [DISK_CALL, DELIVERY]] {
        let acts = vec![vec![], vec![Act::Send { peer: 0, signaled: false }]];
        let world = World::new(Plan { acts, in_order: true, ..busy(Wait::Poll) });
        happen(&world, |enabled| kind(enabled) == STEP);
        let disk = world.places[0].ctx.disk().unwrap();
        let _call = disk.begin(DiskCall::List);
        let [first, second] = order.map(|of| {
            let (mut out, mut touched) = (vec![], Footprint::new());
            world.fabric.enabled(&mut out);
            let next = out.iter().find(|enabled| kind(enabled) == of).expect("both may happen");
            world.fabric.take(next.event, Outcome::Done, Some(&mut touched)).unwrap();
            touched
        });
        assert!(first.conflicts(&second), "{order:?}");
    }
}

/// A program of one step, which may look at its port.
struct Looks(Option<SimContext>);

impl Node for Looks {
    fn step(&mut self) -> Park {
        if let Some(context) = self.0.take() {
            context.port_attr(1).expect("its port");
        }
        Park::Done
    }
}

/// Whether node 0's step is in order with a write that comes to its adapter, or with what takes its port down instead.
fn is_in_order(looks: bool, outcome: Outcome) -> bool {
    let touched = |of: u64, outcome| {
        let acts = vec![vec![], vec![Act::Write { peer: 0, word: 0, signaled: false }]];
        let faults = FaultSet::one(Outcome::PortDown);
        let world = World::new(Plan { acts, in_order: true, faults, ..busy(Wait::Poll) });
        let context = looks.then(|| world.places[0].ctx.clone());
        world.fabric.mount(NodeId(0), Box::new(Looks(context)));
        happen(&world, |enabled| is_step_of(enabled, 1));
        let (mut out, mut touched) = (vec![], Footprint::new());
        world.fabric.enabled(&mut out);
        let next = out.iter().find(|enabled| kind(enabled) == of).expect("both may happen");
        world.fabric.take(next.event, outcome, Some(&mut touched)).unwrap();
        touched
    };
    touched(STEP, Outcome::Done).conflicts(&touched(DELIVERY, outcome))
}

/// The event that tells of it comes behind all that is there; who asks is told at once.
#[test]
fn who_looks_at_a_port_is_in_order_with_what_takes_it_down() {
    assert!(is_in_order(true, Outcome::PortDown));
    assert!(!is_in_order(false, Outcome::PortDown), "it does not look");
    assert!(!is_in_order(true, Outcome::Done), "the port stays up");
}
