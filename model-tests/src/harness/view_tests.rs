//! What a model judges a state by tells states apart, though nodes have seen the same in them.

use super::{Harness, Meeting, Member, Model, Recorder, Shape};
use crate::explore::{Options, Reduction, Violation, explore};
use std::cell::RefCell;
use std::hash::Hash;
use std::ops::ControlFlow;
use std::rc::Rc;
use weft_protocols::rt::fingerprint::StateHasher;
use weft_verbs::{Nanos, Wait};

/// Two nodes write into one log, and rest. Then the first one writes once more.
struct Logs;

impl Model for Logs {
    type State = Rc<RefCell<Vec<u32>>>;
    type Oracles = ();

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn meeting(&self) -> Meeting {
        Meeting::Unmet
    }

    fn oracles(&self) {}

    fn start(&self, _: usize, members: &[Member], _: &Recorder<()>) -> Self::State {
        let log = Self::State::default();
        for (node, member) in (0..).zip(members) {
            let (rt, log) = (member.rt.clone(), Rc::clone(&log));
            drop(member.rt.spawn(async move {
                log.borrow_mut().push(node);
                rt.sleep(Nanos::from_millis(1)).await;
                if node == 0 {
                    log.borrow_mut().push(9);
                }
            }));
        }
        log
    }

    fn judge(&self, log: &Self::State, _: &[Member], view: &mut StateHasher) -> Result<(), Violation> {
        log.borrow().hash(view);
        match **log.borrow() {
            [1, 0, 9] => Err(Violation::new("order", "the second node was first")),
            _ => Ok(()),
        }
    }
}

#[test]
fn two_orders_of_what_is_judged_are_two_states_though_nodes_have_seen_the_same() {
    for (reduction, faults) in [(Reduction::Dpor, 1), (Reduction::Sleep, 1), (Reduction::Cache, 0)] {
        let options = Options { reduction, faults, ..Options::default() };
        let explored = explore(&mut Harness::new("logs", Logs), &options, &mut |_| ControlFlow::Continue(()));
        let found = explored.expect("it is deterministic").counterexample;
        assert_eq!(found.map(|found| found.violation.oracle).as_deref(), Some("order"), "{reduction}");
    }
}
