use super::*;
use weft_sim::choice::EventId;
use weft_sim::explore::{FaultSet, Object};

fn enabled(actor: u64, event: u64) -> Enabled {
    Enabled { event: EventId(event), actor: Actor(actor), faults: FaultSet::NONE, quiescent: false }
}

fn print(touches: &[(u64, AccessKind)]) -> Footprint {
    let mut footprint = Footprint::new();
    touches.iter().for_each(|&(object, how)| footprint.push(Object(object), how));
    footprint
}

/// Each step an event of an actor that touches objects.
fn order(steps: &[(u64, &[(u64, AccessKind)])]) -> HappensBefore {
    let mut order = HappensBefore::new();
    for (event, (actor, touches)) in (0..).zip(steps) {
        order.push(&enabled(*actor, event), Outcome::Done, &print(touches));
    }
    order
}

#[test]
fn a_race_is_with_the_latest_that_conflicts_and_not_with_what_lies_behind_it() {
    let write: &[_] = &[(7, AccessKind::Write)];
    assert_eq!(order(&[(1, write), (2, write), (3, write)]).races(), [1]);
    let reads =
        order(&[(1, write), (2, &[(7, AccessKind::Read)]), (3, &[(7, AccessKind::Read)]), (4, write)]);
    assert_eq!(reads.races(), [2, 1]);
}

#[test]
fn a_cause_orders_and_is_no_race_by_itself() {
    let (sent, delivered): (&[_], &[_]) =
        (&[(7, AccessKind::Cause)], &[(7, AccessKind::Cause), (8, AccessKind::Write)]);
    let order = order(&[(1, sent), (2, delivered), (3, &[(8, AccessKind::Write)])]);
    assert_eq!(order.races(), [1]);
    assert!(
        order.before[2 * order.row] & 1 != 0,
        "what was sent came before what conflicts with its delivery"
    );
}

#[test]
fn what_could_not_be_without_an_earlier_step_does_not_race_with_it() {
    let queued: &[_] = &[(7, AccessKind::EnablingEdge), (8, AccessKind::Write)];
    let taken: &[_] = &[(7, AccessKind::EnablingEdge), (8, AccessKind::Read)];
    assert!(
        order(&[(1, queued), (2, taken)]).races().is_empty(),
        "it has the other way round in no execution"
    );
    let write: &[_] = &[(8, AccessKind::Write)];
    assert_eq!(
        order(&[(1, queued), (2, taken), (3, write)]).races(),
        [1],
        "and what came of it is in order with it"
    );
}

#[test]
fn a_step_that_is_its_own_cause_is_before_no_other() {
    let own: &[_] = &[
        (7, AccessKind::Cause),
        (7, AccessKind::Cause),
        (8, AccessKind::Write),
        (8, AccessKind::Write),
        (8, AccessKind::Read),
    ];
    assert!(order(&[(1, own)]).races().is_empty());
    assert_eq!(order(&[(2, &[(8, AccessKind::Read)]), (1, own)]).races(), [0]);
}

#[test]
fn rows_grow_with_the_execution_and_undo_what_was_taken_back() {
    let mut order = HappensBefore::new();
    let chain = |i: u64| print(&[(i, AccessKind::Write), (i + 1, AccessKind::Write)]);
    for i in 0..400 {
        order.push(&enabled(i, i), Outcome::Done, &chain(i));
        assert_eq!(order.races().len(), usize::from(i > 0));
    }
    for i in (130..400).rev() {
        assert_eq!(order.pop().map(|slept| slept.step.event.0), Some(i));
    }
    // A reader of an object that only steps taken back have touched races with nobody.
    order.push(&enabled(900, 900), Outcome::Done, &print(&[(300, AccessKind::Read)]));
    assert!(order.races().is_empty());
    order.push(&enabled(901, 901), Outcome::Done, &print(&[(130, AccessKind::Read)]));
    assert_eq!(order.races(), [129]);
    let row = &order.before[131 * order.row..][..3];
    assert_eq!(row, [u64::MAX, u64::MAX, 0b11], "all of the chain, and not the reader in between");
}

#[test]
fn the_steps_that_could_come_instead_need_none_of_the_others() {
    let write = |object| vec![(object, AccessKind::Write)];
    // 0 and 4 race; 1 needs 0; 2 needs nobody; 3 needs 2 and is needed by 4.
    let steps = [
        write(1),
        write(1),
        write(2),
        vec![(2, AccessKind::Write), (3, AccessKind::Write)],
        vec![(9, AccessKind::Write), (3, AccessKind::Write)],
    ];
    let mut order = HappensBefore::new();
    for (number, touches) in (0..).zip(&steps) {
        let mut touches = touches.clone();
        if number == 0 {
            touches.push((9, AccessKind::Write));
        }
        order.push(&enabled(number, number), Outcome::Done, &print(&touches));
    }
    assert_eq!(order.races(), [3, 0]);
    let reversal = order.reversal(0);
    assert_eq!(reversal.initials().map(|step| step.event.0).collect::<Vec<_>>(), [2]);
    assert!(reversal.is_prepared());
}

/// A message that would have come to a queue's end, were its connection not closed: `7` is the connection, `8` the end.
#[test]
fn what_an_earlier_step_has_cut_short_is_not_taken_for_what_comes_first_without_it() {
    let whole: &[_] = &[(7, AccessKind::Read), (8, AccessKind::Write)];
    let mut order = order(&[(2, whole)]);
    let slept = order.pop().expect("it was taken");
    let step = |order: &mut HappensBefore, actor, touches: &[_]| {
        order.push(&enabled(actor, actor), Outcome::Done, &print(touches));
    };
    step(&mut order, 1, &[(7, AccessKind::Write)]);
    step(&mut order, 2, &[(7, AccessKind::Read)]);
    step(&mut order, 3, &[(8, AccessKind::Write)]);
    assert!(order.races().is_empty(), "behind the close, message and packet have nothing in common");
    order.mark_last();
    assert!(
        order.meets_without((0, 1), &slept),
        "and without it the packet can come before the message, or after it"
    );
    order.pop();
    step(&mut order, 3, &[(9, AccessKind::Write)]);
    order.mark_last();
    assert!(!order.meets_without((0, 1), &slept));
}
