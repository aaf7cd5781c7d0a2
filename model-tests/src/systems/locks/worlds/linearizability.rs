//! A lock world whose history as a whole is judged, too: by a search for an order, which knows nothing of the
//! oracles that watch the history as it grows.

use super::client::{Recorder, WorldOracles};
use crate::explore::{Coverage, Size, Violation};
use crate::harness::{Member, Model, Shape};
use crate::oracle::Linearizability;
use crate::systems::locks::oracles::{ReadersWriter, calls_of_a_lock};
use weft_sim::NodeId;
use weft_sim::explore::FaultSet;
use weft_verbs::Node;

/// A model on one lock, with a judgement more.
pub struct WithLinearizability<M> {
    /// The model.
    pub model: M,
}

impl<M: Model<Oracles = WorldOracles>> Model for WithLinearizability<M> {
    type State = M::State;
    type Oracles = WorldOracles;

    fn size(&self) -> Size {
        self.model.size()
    }

    fn smaller(&self) -> Vec<Size> {
        self.model.smaller()
    }

    fn shape(&self) -> Shape {
        self.model.shape()
    }

    fn usual_faults(&self) -> FaultSet {
        self.model.usual_faults()
    }

    fn faults(&self) -> FaultSet {
        self.model.faults()
    }

    fn needs(&self, state: &M::State, node: NodeId, recorder: &Recorder) -> bool {
        self.model.needs(state, node, recorder)
    }

    fn promises(&self) -> &'static [&'static str] {
        &[Linearizability::NAME]
    }

    fn oracles(&self) -> WorldOracles {
        self.model.oracles().keeping_events()
    }

    fn configurations(&self) -> usize {
        self.model.configurations()
    }

    fn configuration(&self, number: usize) -> String {
        self.model.configuration(number)
    }

    fn start(&self, configuration: usize, members: &[Member], recorder: &Recorder) -> M::State {
        self.model.start(configuration, members, recorder)
    }

    fn warms_up(&self) -> bool {
        self.model.warms_up()
    }

    fn begin(&self, configuration: usize, state: &mut M::State, members: &[Member], recorder: &Recorder) {
        self.model.begin(configuration, state, members, recorder);
    }

    fn program(&self, member: &Member) -> Box<dyn Node> {
        self.model.program(member)
    }

    fn finish(&self, state: &M::State, members: &[Member], recorder: &Recorder) -> Result<(), Violation> {
        self.model.finish(state, members, recorder)?;
        let judged = recorder.oracles(|oracles| {
            Linearizability::judge(ReadersWriter::default(), &calls_of_a_lock(oracles.events()))
        });
        judged.map_err(|text| Violation::new(Linearizability::NAME, text))
    }

    fn coverage(&self, state: &M::State, members: &[Member], sink: &mut Coverage) {
        self.model.coverage(state, members, sink);
    }
}
