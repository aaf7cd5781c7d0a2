//! A node's step without memory: what asks the system for some is refused, and a step that asks for none is what it was.

use std::cell::RefCell;
use std::rc::Rc;
use weft_sim::choice::First;
use weft_sim::explore::{Enabled, FaultSet, Outcome, Policy};
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Order, Sim, SimMr};
use weft_verbs::{AccessFlags, Context, Device, Node, Park, ProtectionDomain, Result, Verbs, VerbsError};

type SimPd = <Sim as Verbs>::Pd;

/// What a program was answered.
type Answers = Rc<RefCell<Vec<Result<()>>>>;

/// A program that registers memory in the second of its three steps.
struct Registers {
    pd: SimPd,
    steps: u32,
    answers: Answers,
    kept: Vec<SimMr>,
}

impl Node for Registers {
    fn step(&mut self) -> Park {
        self.steps += 1;
        if self.steps == 2 {
            let made = self.pd.alloc_mr(4_096, AccessFlags::LOCAL_WRITE);
            self.answers.borrow_mut().push(made.map(|mr| self.kept.push(mr)));
        }
        if self.steps == 3 { Park::Done } else { Park::Again }
    }
}

/// A node that has not stepped yet, and what it is answered.
fn begun() -> (Fabric, Answers) {
    let profile = Profile::builtin("ncosed-2007").unwrap();
    let config = Config { order: Order::Untimed, ..Config::new(1, profile) };
    let fabric = Fabric::new(config, Box::new(First)).unwrap();
    fabric.set_policy(Policy { faults: FaultSet::one(Outcome::NoMemory), ..Policy::default() });
    let pd = fabric.devices(NodeId(0))[0].open().unwrap().alloc_pd().unwrap();
    let answers = Answers::default();
    let program = Registers { pd, steps: 0, answers: Rc::clone(&answers), kept: Vec::new() };
    fabric.mount(NodeId(0), Box::new(program));
    (fabric, answers)
}

/// Takes the node's next step in this way. Whether that was in vain.
fn step(fabric: &Fabric, outcome: Outcome) -> bool {
    let mut enabled = vec![];
    fabric.enabled(&mut enabled);
    let [Enabled { event, faults, .. }] = enabled[..] else { panic!("one node steps: {enabled:?}") };
    assert_eq!(faults, FaultSet::one(Outcome::NoMemory));
    fabric.take(event, outcome, None).unwrap().in_vain
}

#[test]
fn a_step_without_memory_registers_none_and_the_next_one_may() {
    let (fabric, answers) = begun();
    assert!(!step(&fabric, Outcome::Done));
    assert!(!step(&fabric, Outcome::NoMemory));
    let [Err(VerbsError::Os { call, errno })] = answers.borrow()[..] else { panic!("{answers:?}") };
    assert_eq!((call, errno), ("ibv_reg_mr", 12));
    let pd = fabric.devices(NodeId(0))[0].open().unwrap().alloc_pd().unwrap();
    pd.alloc_mr(4_096, AccessFlags::LOCAL_WRITE).expect("there is memory again");
}

#[test]
fn a_step_that_asks_for_no_memory_lacks_none() {
    let (fabric, answers) = begun();
    let (whole, whole_answers) = begun();
    assert!(step(&fabric, Outcome::NoMemory), "it asked for none");
    assert!(!step(&whole, Outcome::Done));
    assert_eq!(fabric.fingerprint(), whole.fingerprint());
    assert!(!step(&fabric, Outcome::Done) && !step(&whole, Outcome::Done));
    assert_eq!((&*answers.borrow(), &*whole_answers.borrow()), (&vec![Ok(())], &vec![Ok(())]));
}
