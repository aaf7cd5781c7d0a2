//! An execution whose programs are memoised: it is the fabric's state, and a record.

use super::at_rest::broke;
use super::cluster::Cluster;
use super::execution::{Instance, fingerprint, set_up};
use super::losses::Struck;
use super::model::Model;
use super::recorder::{Pages, Recorder};
use crate::explore::Violation;
use weft_sim::choice::EventId;
use weft_sim::explore::{Footprint, NotEnabled, Outcome, Taken};
use weft_sim::memo::{ProgramCache, ProgramCacheStats, Root, SavedExecution};
use weft_sim::{Fabric, NodeId};

/// The memoised programs of one initial configuration.
pub(super) struct Memoised<M: Model> {
    configuration: usize,
    /// In which the programs write, in all executions.
    recorder: Recorder<M::Oracles>,
    /// Its nodes note what they know.
    compares: bool,
    programs: ProgramCache<Instance<M>, Answer>,
    /// States to come back to.
    saved: Vec<Option<Saved<M>>>,
}

/// What a node is asked.
enum Answer {
    /// At an end.
    Finds(FoundByNodes),
    /// In a quiescent state: what it still knows.
    Knows(Option<u128>),
}

/// What nodes find by themselves at an end.
#[derive(Clone, Default)]
pub(super) struct FoundByNodes {
    /// The first violation.
    pub violation: Option<Violation>,
    /// The branches that any of them reached.
    pub reached: u32,
    /// The first connection that was made again.
    pub broke: Option<Violation>,
}

/// The numbers of the questions.
const FINDS: u8 = 0;
const KNOWS: u8 = 1;

struct Saved<M: Model> {
    state: Option<SavedExecution>,
    record: Pages<M::Oracles>,
    struck: Struck,
}

impl<M: Model> Memoised<M> {
    /// Of programs that have not run yet.
    pub fn new(configuration: usize, model: &M, fabric: &Fabric, root: &Root, compares: bool) -> Memoised<M> {
        let recorder = Recorder::new(model.oracles()).memoised_by(fabric.observer_effects());
        let programs = ProgramCache::new(fabric, root.anew());
        Memoised { configuration, recorder, compares, programs, saved: Vec::new() }
    }

    pub fn configuration(&self) -> usize {
        self.configuration
    }

    pub fn recorder(&self) -> &Recorder<M::Oracles> {
        &self.recorder
    }

    pub fn stats(&self) -> ProgramCacheStats {
        self.programs.stats()
    }

    /// Begins an execution.
    pub fn begin(&mut self, model: &M, cluster: &Cluster, fabric: &Fabric) {
        let Memoised { configuration, recorder, compares, programs, .. } = self;
        programs.begin(|| set_up(model, cluster, fabric, *configuration, recorder, *compares));
        recorder.clear(model.oracles());
    }

    pub fn take(
        &mut self,
        event: EventId,
        outcome: Outcome,
        touched: Option<&mut Footprint>,
        model: &M,
        cluster: &Cluster,
        fabric: &Fabric,
    ) -> Result<Taken, NotEnabled> {
        let Memoised { configuration, recorder, compares, programs, .. } = self;
        let build = || set_up(model, cluster, fabric, *configuration, recorder, *compares);
        programs.take(event, outcome, touched, build)
    }

    /// What the nodes find by themselves.
    pub fn look_at_nodes(&mut self, model: &M, cluster: &Cluster, fabric: &Fabric) -> FoundByNodes {
        let mut all = FoundByNodes::default();
        for node in 0..fabric.nodes() {
            let index = node as usize;
            let look = |Instance { state, members }: &Instance<M>| {
                let member = &members[index];
                Answer::Finds(FoundByNodes {
                    violation: model.violation_at(state, index, member),
                    reached: model.reached_at(state, index, member),
                    broke: broke(node, member),
                })
            };
            let answer = self.ask(NodeId(node), FINDS, model, cluster, fabric, look);
            if let Answer::Finds(FoundByNodes { violation, reached, broke }) = answer {
                all.violation = all.violation.or_else(|| violation.clone());
                all.reached |= reached;
                all.broke = all.broke.or_else(|| broke.clone());
            }
        }
        all
    }

    /// What each node still knows, if it can say it.
    pub fn fingerprints(&mut self, model: &M, cluster: &Cluster, fabric: &Fabric) -> Vec<Option<u128>> {
        let known = |node| {
            let look = |instance: &Instance<M>| Answer::Knows(fingerprint(model, instance, fabric, node));
            match self.ask(node, KNOWS, model, cluster, fabric, look) {
                Answer::Knows(fingerprint) => *fingerprint,
                Answer::Finds(..) => None,
            }
        };
        (0..fabric.nodes()).map(NodeId).map(known).collect()
    }

    fn ask(
        &mut self,
        node: NodeId,
        number: u8,
        model: &M,
        cluster: &Cluster,
        fabric: &Fabric,
        look: impl FnOnce(&Instance<M>) -> Answer,
    ) -> &Answer {
        let Memoised { configuration, recorder, compares, programs, .. } = self;
        let build = || set_up(model, cluster, fabric, *configuration, recorder, *compares);
        programs.ask(node, number, build, look)
    }

    /// Keeps the present state under a number, and which faults have struck in it.
    pub fn save(&mut self, number: usize, struck: Struck) -> bool {
        if self.saved.len() <= number {
            self.saved.resize_with(number + 1, || None);
        }
        let record = self.recorder.save();
        let saved =
            self.saved[number].get_or_insert_with(|| Saved { state: None, record: record.clone(), struck });
        self.programs.save(&mut saved.state);
        (saved.record, saved.struck) = (record, struck);
        true
    }

    /// Goes back to what was kept, if that can be, and says which faults had struck in it.
    pub fn restore(&mut self, number: usize) -> Option<Struck> {
        let Some(Some(Saved { state: Some(state), record, struck })) = self.saved.get(number) else {
            return None;
        };
        let there = self.programs.put_back(state);
        if there {
            self.recorder.restore(record);
        }
        there.then_some(*struck)
    }
}
