use super::*;
use weft_sim::choice::EventId;
use weft_sim::explore::{FaultSet, Object};

fn enabled(actor: u64, event: u64) -> Enabled {
    Enabled { event: EventId(event), actor: Actor(actor), faults: FaultSet::NONE, at_rest: false }
}

fn print(touches: &[(u64, How)]) -> Footprint {
    let mut footprint = Footprint::new();
    touches.iter().for_each(|&(object, how)| footprint.push(Object(object), how));
    footprint
}

/// Each step an event of an actor that touches objects.
fn order(steps: &[(u64, &[(u64, How)])]) -> HappensBefore {
    let mut order = HappensBefore::new();
    for (event, (actor, touches)) in (0..).zip(steps) {
        order.push(&enabled(*actor, event), Outcome::Done, &print(touches));
    }
    order
}

#[test]
fn a_race_is_with_the_latest_that_conflicts_and_not_with_what_lies_behind_it() {
    let write: &[_] = &[(7, How::Write)];
    assert_eq!(order(&[(1, write), (2, write), (3, write)]).races(), [1]);
    let reads = order(&[(1, write), (2, &[(7, How::Read)]), (3, &[(7, How::Read)]), (4, write)]);
    assert_eq!(reads.races(), [2, 1]);
}

#[test]
fn a_cause_orders_and_is_no_race_by_itself() {
    let (sent, delivered): (&[_], &[_]) = (&[(7, How::Cause)], &[(7, How::Cause), (8, How::Write)]);
    let order = order(&[(1, sent), (2, delivered), (3, &[(8, How::Write)])]);
    assert_eq!(order.races(), [1]);
    assert!(
        order.before[2 * order.row] & 1 != 0,
        "what was sent came before what conflicts with its delivery"
    );
}

#[test]
fn what_could_not_be_without_an_earlier_step_does_not_race_with_it() {
    let queued: &[_] = &[(7, How::Origin), (8, How::Write)];
    let taken: &[_] = &[(7, How::Origin), (8, How::Read)];
    assert!(
        order(&[(1, queued), (2, taken)]).races().is_empty(),
        "it has the other way round in no execution"
    );
    let write: &[_] = &[(8, How::Write)];
    assert_eq!(
        order(&[(1, queued), (2, taken), (3, write)]).races(),
        [1],
        "and what came of it is in order with it"
    );
}

#[test]
fn a_step_that_is_its_own_cause_is_before_no_other() {
    let own: &[_] = &[(7, How::Cause), (7, How::Cause), (8, How::Write), (8, How::Write), (8, How::Read)];
    assert!(order(&[(1, own)]).races().is_empty());
    assert_eq!(order(&[(2, &[(8, How::Read)]), (1, own)]).races(), [0]);
}

#[test]
fn rows_grow_with_the_execution_and_undo_what_was_taken_back() {
    let mut order = HappensBefore::new();
    let chain = |i: u64| print(&[(i, How::Write), (i + 1, How::Write)]);
    for i in 0..400 {
        order.push(&enabled(i, i), Outcome::Done, &chain(i));
        assert_eq!(order.races().len(), usize::from(i > 0));
    }
    for i in (130..400).rev() {
        assert_eq!(order.pop().map(|slept| slept.step.event.0), Some(i));
    }
    // A reader of an object that only steps taken back have touched races with nobody.
    order.push(&enabled(900, 900), Outcome::Done, &print(&[(300, How::Read)]));
    assert!(order.races().is_empty());
    order.push(&enabled(901, 901), Outcome::Done, &print(&[(130, How::Read)]));
    assert_eq!(order.races(), [129]);
    let row = &order.before[131 * order.row..][..3];
    assert_eq!(row, [u64::MAX, u64::MAX, 0b11], "all of the chain, and not the reader in between");
}

#[test]
fn the_steps_that_could_come_instead_need_none_of_the_others() {
    let write = |object| vec![(object, How::Write)];
    // 0 and 4 race; 1 needs 0; 2 needs nobody; 3 needs 2 and is needed by 4.
    let steps = [
        write(1),
        write(1),
        write(2),
        vec![(2, How::Write), (3, How::Write)],
        vec![(9, How::Write), (3, How::Write)],
    ];
    let mut order = HappensBefore::new();
    for (number, touches) in (0..).zip(&steps) {
        let mut touches = touches.clone();
        if number == 0 {
            touches.push((9, How::Write));
        }
        order.push(&enabled(number, number), Outcome::Done, &print(&touches));
    }
    assert_eq!(order.races(), [3, 0]);
    let reversal = order.reversal(0);
    assert_eq!(reversal.initials().map(|step| step.event.0).collect::<Vec<_>>(), [2]);
    assert!(reversal.is_prepared());
}
