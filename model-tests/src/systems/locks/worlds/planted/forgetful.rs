//! An executor that forgets to poll after arming: what completes between its last empty poll and the arming wakes
//! nobody (IBA 11.4.2.2).

use crate::explore::{Coverage, Size, Violation};
use crate::harness::{Member, Model, Recorder, Shape};
use crate::named::Named;
use weft_protocols::rt::{Program, Rt};
use weft_sim::Sim;
use weft_sim::explore::FaultSet;
use weft_verbs::{Node, Park, Wait};

/// A model whose nodes' executors forget to poll after arming.
pub struct Forgetful<M>(pub M);

/// The program, but for the poll.
struct Armed {
    rt: Rt<Sim>,
    program: Program<Sim>,
    /// It has armed, and waits without having polled.
    forgot: bool,
}

impl Node for Armed {
    fn step(&mut self) -> Park {
        if self.program.is_about_to_arm() && !self.forgot && self.rt.arm().is_ok() {
            self.forgot = true;
            return Park::Until { style: Wait::Notify, deadline: None };
        }
        self.forgot = false;
        self.program.step()
    }
}

impl<M: Model> Model for Forgetful<M> {
    type State = M::State;
    type Oracles = M::Oracles;

    fn size(&self) -> Size {
        self.0.size()
    }

    fn smaller(&self) -> Vec<Size> {
        self.0.smaller()
    }

    fn usual_faults(&self) -> FaultSet {
        self.0.usual_faults()
    }

    fn shape(&self) -> Shape {
        Shape { wait: Wait::Notify, ..self.0.shape() }
    }

    fn oracles(&self) -> M::Oracles {
        self.0.oracles()
    }

    fn promises(&self) -> &'static [&'static str] {
        self.0.promises()
    }

    fn configurations(&self) -> usize {
        self.0.configurations()
    }

    fn configuration(&self, number: usize) -> String {
        self.0.configuration(number)
    }

    fn start(&self, configuration: usize, members: &[Member], recorder: &Recorder<M::Oracles>) -> M::State {
        self.0.start(configuration, members, recorder)
    }

    fn program(&self, member: &Member) -> Box<dyn Node> {
        Box::new(Armed { rt: member.rt.clone(), program: member.rt.program(), forgot: false })
    }

    fn name_of(&self, state: &M::State, node: usize, address: u64) -> Option<Named> {
        self.0.name_of(state, node, address)
    }

    fn finish(
        &self,
        state: &M::State,
        members: &[Member],
        recorder: &Recorder<M::Oracles>,
    ) -> Result<(), Violation> {
        self.0.finish(state, members, recorder)
    }

    fn coverage(&self, state: &M::State, members: &[Member], sink: &mut Coverage) {
        self.0.coverage(state, members, sink);
    }
}
