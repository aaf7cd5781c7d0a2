//! The harness: makes of a [`Model`] a transition system that the explorer can run.
//!
//! A model is programs for a few nodes and what must hold of them. The harness connects the nodes on the simulated fabric,
//! starts the programs, shows what they record to the model's oracles, and judges the end. It knows no system: a model
//! brings its own oracles, or none.

mod accesses;
mod at_rest;
mod cluster;
pub mod comeback;
mod death;
mod event_log;
mod execution;
mod in_order;
mod list;
mod losses;
mod memoised;
mod model;
mod of_system;
mod quits;
mod recorder;
mod requests;
#[cfg(test)]
mod unharmed_tests;
#[cfg(test)]
mod view_tests;

pub use at_rest::at_rest;
pub use cluster::{DRIFT, Meeting, Member, Shape, any_counted, with_timers};
pub use death::Death;
pub use execution::Execution;
pub use in_order::InOrder;
pub(crate) use list::{of_one_size, worlds};
pub use model::{Model, Unseen};
pub use of_system::{Nodes, OfSystem, RecorderOf, SystemModel, of_system};
pub use quits::Quits;
pub use recorder::{Explored, NoEvent, Recorder};
pub use requests::Requests;

use crate::explore::{AnyModel, Described, Expected, LIVELOCK, ModelFactory, PANIC, Size};
use crate::oracle::{Conduct, Leaks, Oracles, Standing};
use std::rc::Rc;
use weft_sim::explore::{FaultSet, Outcome};

/// Makes the executions of a model.
pub struct Harness<M: Model> {
    name: &'static str,
    model: Rc<M>,
    faults: FaultSet,
    /// Kinds of faults that it is never explored under.
    never: FaultSet,
    /// Whether states will be compared, so that nodes are asked what they know.
    compares: bool,
    /// Whether executions will be many and much alike.
    memoises: bool,
}

impl<M: Model> Harness<M> {
    /// A harness for a model, which reports call by this name.
    pub fn new(name: &'static str, model: M) -> Harness<M> {
        let (faults, never) = (FaultSet::NONE, FaultSet::NONE);
        Harness { name, model: Rc::new(model), faults, never, compares: true, memoises: false }
    }
}

impl<M: Model + 'static> Harness<M> {
    /// A model in its harness, as a list of worlds holds it. What is planted is to be found, and not that its programs have no answer where
    /// there is no memory.
    pub fn boxed(name: &'static str, expected: Expected, model: M) -> Box<dyn AnyModel> {
        let never = match expected {
            Expected::Held => FaultSet::NONE,
            Expected::Violated | Expected::ViolatedUnderFaults => FaultSet::one(Outcome::NoMemory),
        };
        Box::new(Harness { never, ..Harness::new(name, model) })
    }
}

impl<M: Model> Described for Harness<M> {
    fn name(&self) -> &str {
        self.name
    }

    fn size(&self) -> Size {
        self.model.size()
    }

    fn smaller(&self) -> Vec<Size> {
        self.model.smaller()
    }

    fn configurations(&self) -> usize {
        self.model.configurations()
    }

    fn promises(&self) -> Vec<&'static str> {
        let of_oracles = self.model.oracles().promises().into_iter().map(|(name, _)| name);
        let of_ends = [execution::DEADLOCK, execution::LOST_WAKE_UP, LIVELOCK];
        let of_all = [Leaks::NAME, Conduct::NAME, Standing::NAME].into_iter().chain(of_ends);
        let of_time = self.model.needs_no_time().then_some(execution::WAITS_FOR_TIME);
        let of_model = self.model.promises().iter().copied().chain(of_time);
        of_oracles.chain(of_model).chain(of_all).chain([PANIC]).collect()
    }

    fn faults(&self) -> FaultSet {
        self.model.faults().without_all(self.never)
    }

    fn usual_faults(&self) -> FaultSet {
        self.model.usual_faults().without_all(self.never)
    }

    fn most_faults(&self) -> Option<u32> {
        self.model.most_faults()
    }
}

impl<M: Model> ModelFactory for Harness<M> {
    type System = Execution<M>;

    fn allow(&mut self, faults: FaultSet) {
        self.faults = faults.and(self.model.faults());
    }

    fn compare(&mut self, states: bool) {
        self.compares = states;
    }

    fn memoise(&mut self, many: bool) {
        self.memoises = many;
    }

    fn root(&mut self) -> Execution<M> {
        Execution::new(&self.model, self.faults, self.compares, self.memoises)
    }

    fn reset(&mut self, execution: &mut Execution<M>) {
        execution.reset();
    }
}
