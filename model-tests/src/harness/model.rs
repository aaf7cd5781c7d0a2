//! A model: programs for the nodes of a small cluster, and what must hold of them.
//!
//! The [harness](super::Harness) makes a transition system of it, which the explorer runs.

use super::at_rest::at_rest;
use super::cluster::{Meeting, Member, Shape};
use super::recorder::{Explored, Recorder};
use crate::explore::{Coverage, Size, Violation};
use crate::named::Named;
use crate::oracle::{Conduct, Oracles};
use weft_protocols::rt::fingerprint::StateHasher;
use weft_protocols::transport::MeshConfig;
use weft_sim::explore::{FaultSet, Outcome};
use weft_sim::{Fabric, Keys, NodeId};
use weft_verbs::{Nanos, Node, QpNum};

/// Programs for the nodes of a small cluster, and what must hold of them.
pub trait Model {
    /// What one execution keeps for its end: services, words, counters.
    type State;

    /// What judges the history while it grows; `()` for nothing.
    type Oracles: Explored;

    /// The cluster that it wants.
    fn shape(&self) -> Shape;

    /// How many adapters each of its nodes has, and each its own cable.
    fn rails(&self) -> u8 {
        1
    }

    /// How its nodes' adapters give out memory keys.
    fn keys(&self) -> Keys {
        Keys::Rest
    }

    /// Changes the settings of every node's connections.
    fn mesh(&self, config: &mut MeshConfig) {
        let _ = config;
    }

    /// How long its nodes look at their completion queues before they sleep, where they do ([`RtConfig::spin`](weft_protocols::rt::RtConfig::spin)).
    fn spin(&self) -> Nanos {
        Nanos::ZERO
    }

    /// How its nodes' connections came to stand.
    fn meeting(&self) -> Meeting {
        Meeting::Joined
    }

    /// Its whole size, as a user would write it; empty if it has one size only.
    fn size(&self) -> Size {
        Size::default()
    }

    /// The sizes that are smaller by one thing. Some may be too small.
    fn smaller(&self) -> Vec<Size> {
        self.size().one_less()
    }

    /// Whether its nodes break a connection by what they ask for, as by operations that the peer refuses (IBA 9.7.4.1.5).
    fn breaks_connections(&self) -> bool {
        false
    }

    /// By how much the clocks of its nodes differ at most ([`Policy::drift`](weft_sim::explore::Policy::drift)), if something
    /// in it depends on time: then time goes on after a crash, for as long as somebody [waits](Model::waits).
    fn drift(&self) -> Option<Nanos> {
        None
    }

    /// The only node that crashes and restarts, if it is one.
    fn mortal(&self) -> Option<NodeId> {
        None
    }

    /// Whether links and ports that fail do so for good. Otherwise they are repaired when nothing else can happen.
    fn breaks_for_good(&self) -> bool {
        false
    }

    /// Whether somebody who lives waits for what only time brings, once these nodes have crashed and nothing else can happen.
    /// Unless the model says otherwise, whether any request has not ended.
    fn waits(&self, state: &Self::State, crashed: &[NodeId], recorder: &Recorder<Self::Oracles>) -> bool {
        let _ = (state, crashed);
        recorder.oracles(|oracles| oracles.unended() > 0)
    }

    /// Whether without a fault nobody waits for what only time brings: no time-out, and nothing that is tried again after a while, is needed
    /// for anything that is [open](Model::is_open) to end. No, unless the model says so.
    fn needs_no_time(&self) -> bool {
        false
    }

    /// Whether anybody waits for an end. Unless the model says otherwise, whether any request has not ended. The state is absent where
    /// programs are memoised.
    fn is_open(&self, state: Option<&Self::State>, recorder: &Recorder<Self::Oracles>) -> bool {
        let _ = state;
        recorder.oracles(|oracles| oracles.unended() > 0)
    }

    /// Whether others cannot go on without a node that has crashed: if so, nobody's request need end.
    fn needs(&self, state: &Self::State, node: NodeId, recorder: &Recorder<Self::Oracles>) -> bool {
        let _ = (state, node, recorder);
        true
    }

    /// The faults that it can be explored under: those that it promises to survive, and a crash if it says what that
    /// may cost.
    fn faults(&self) -> FaultSet {
        self.usual_faults()
    }

    /// The faults that it promises to survive. Neither a crash nor a restart, unless it says so: what a node held is then
    /// gone. That there is no memory for a while (`no-memory`) is among them: a protocol tries again what
    /// [lacked it](weft_protocols::transport::OpError::lacks_memory), or its model leaves that fault out here.
    fn usual_faults(&self) -> FaultSet {
        FaultSet::TIMELESS.without(Outcome::Crash).without(Outcome::Restart)
    }

    /// The most faults in one execution, if its promises are of few: a world whose membership is not explored with it knows one death.
    fn most_faults(&self) -> Option<u32> {
        None
    }

    /// The oracles of an execution, which have seen nothing.
    fn oracles(&self) -> Self::Oracles;

    /// The names of the promises that the model itself judges, beside its oracles': those of the violations that
    /// [`finish`](Model::finish), [`judge_disks`](Model::judge_disks) and [`violation_at`](Model::violation_at) find, nothing left over and a
    /// node's conduct aside.
    fn promises(&self) -> &'static [&'static str] {
        &[]
    }

    /// How many initial configurations it has. If there are several, the first choice of an execution is in which of them it
    /// begins.
    fn configurations(&self) -> usize {
        1
    }

    /// What an initial configuration is, for people.
    fn configuration(&self, number: usize) -> String {
        let _ = number;
        String::new()
    }

    /// Starts what runs on the nodes in an initial configuration; or what runs before that, if the model has a
    /// [warm-up](Model::warms_up).
    fn start(
        &self,
        configuration: usize,
        members: &[Member],
        recorder: &Recorder<Self::Oracles>,
    ) -> Self::State;

    /// Whether something runs before the first choice: in one fixed order, to its rest. What is explored begins in the
    /// state that this leads to.
    fn warms_up(&self) -> bool {
        false
    }

    /// Starts what runs on the nodes after the warm-up.
    fn begin(
        &self,
        configuration: usize,
        state: &mut Self::State,
        members: &[Member],
        recorder: &Recorder<Self::Oracles>,
    ) {
        let _ = (configuration, state, members, recorder);
    }

    /// All has come to rest in an execution from this initial configuration, and faults other than crashes struck: tells the oracles of
    /// a node that has lost its part without a crash, if a fault may have kept from it what its requests would have ended by.
    fn rests_after_faults(&self, configuration: usize, recorder: &Recorder<Self::Oracles>) {
        let _ = (configuration, recorder);
    }

    /// A node has crashed. All that this tells the oracles, the crash has touched.
    fn crashed(&self, state: &mut Self::State, node: NodeId, recorder: &Recorder<Self::Oracles>) {
        let _ = (state, node, recorder);
    }

    /// A node has crashed and is there again: starts what runs on it in its next life. Of models that have
    /// [`Outcome::Restart`] among their faults. All that this tells the oracles, the restart has touched.
    fn restart(
        &self,
        state: &mut Self::State,
        node: NodeId,
        member: &Member,
        recorder: &Recorder<Self::Oracles>,
    ) {
        let _ = (state, node, member, recorder);
    }

    /// What is at an address of a node's registered memory, for logs and drawings, where that is more than a
    /// [label](weft_protocols::rt::Rt::label) says.
    fn name_of(&self, state: &Self::State, node: usize, address: u64) -> Option<Named> {
        let _ = (state, node, address);
        None
    }

    /// What a node's driver steps.
    fn program(&self, member: &Member) -> Box<dyn Node> {
        Box::new(member.rt.program())
    }

    /// Judges a state in the middle of an execution: asked after every event. What it looks at it adds to `view`, since two
    /// events that both change the view are tried in either order, and others need not be: a model that adds nothing sees the
    /// states of one order for all. Two states that differ in nothing but the view are two states. **Never asked** where a model that says
    /// [`is_memoisable`](Model::is_memoisable) is explored.
    ///
    /// # Errors
    ///
    /// The promise that was broken.
    fn judge(
        &self,
        state: &Self::State,
        members: &[Member],
        view: &mut StateHasher,
    ) -> Result<(), Violation> {
        let _ = (state, members, view);
        Ok(())
    }

    /// Judges an end at which every request has ended: what is left over, and what the model itself promises. What it judges by that
    /// several nodes have changed is in the view of [`judge`](Model::judge), or was [noted](Recorder::note): else it sees one order of
    /// those changes for all. Unless the model judges otherwise, what [each node](Model::judge_each) finds by itself. **Never asked** where a model that says
    /// [`is_memoisable`](Model::is_memoisable) is explored: there only its oracles and each node's
    /// [`violation_at`](Model::violation_at) count.
    ///
    /// # Errors
    ///
    /// The promise that was broken.
    fn finish(
        &self,
        state: &Self::State,
        members: &[Member],
        recorder: &Recorder<Self::Oracles>,
    ) -> Result<(), Violation> {
        let _ = recorder;
        self.judge_each(state, members)
    }

    /// Asks each node what it finds at an end by itself.
    ///
    /// # Errors
    ///
    /// The first [violation](Model::violation_at).
    fn judge_each(&self, state: &Self::State, members: &[Member]) -> Result<(), Violation> {
        let mut nodes = members.iter().enumerate();
        nodes.find_map(|(node, member)| self.violation_at(state, node, member)).map_or(Ok(()), Err)
    }

    /// Judges an end behind crashes, at which every request that must has ended: what the nodes that live have left over, though the dead
    /// are no excuse for it. Nothing, unless the model says so.
    ///
    /// # Errors
    ///
    /// The promise that was broken.
    fn finish_without(
        &self,
        state: &Self::State,
        crashed: &[NodeId],
        members: &[Member],
    ) -> Result<(), Violation> {
        let _ = (state, crashed, members);
        Ok(())
    }

    /// Judges what a power cut would leave of the nodes' disks at an end at which every request has ended, nobody has crashed for good, and no
    /// disk has failed. Nothing, unless the model says so.
    ///
    /// # Errors
    ///
    /// The promise that was broken.
    fn judge_disks(
        &self,
        state: &Self::State,
        fabric: &Fabric,
        recorder: &Recorder<Self::Oracles>,
    ) -> Result<(), Violation> {
        let _ = (state, fabric, recorder);
        Ok(())
    }

    /// The violation that a node finds at an end, by itself: [`at_rest`] of what it had to drop and of what it has left over. Unless a model
    /// says otherwise, what its runtime and its [connections](Member::leftovers) have left over.
    fn violation_at(&self, state: &Self::State, node: usize, member: &Member) -> Option<Violation> {
        let _ = state;
        at_rest(node, Conduct::default(), member.leftovers())
    }

    /// A bit for each of the [branches](Model::branches): whether a node has reached it.
    fn reached_at(&self, state: &Self::State, node: usize, member: &Member) -> u32 {
        let _ = (state, node, member);
        0
    }

    /// The names of the interesting branches that a node may reach.
    fn branches(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Whether programs may be memoised (see [`ProgramCache`](weft_sim::memo::ProgramCache)): what a node's program does depends on
    /// nothing outside of it but what the fabric answers, it brings no memory of its own (`Mesh::bring`), claims none, and does not end
    /// (`Rt::shutdown`), and the model is judged by its oracles and by each node for itself: its
    /// [`judge`](Model::judge) and its [`finish`](Model::finish) are not asked, so it must have none. So are its
    /// [branches](Model::branches), and it leaves [`Model::coverage`] as it is.
    fn is_memoisable(&self) -> bool {
        false
    }

    /// Adds to a hash what a node still knows between two steps, and says whether that is all. If it is not, the node's state is
    /// told from others by all that the node has seen.
    fn fingerprint(
        &self,
        state: &Self::State,
        node: usize,
        member: &Member,
        unseen: &Unseen<'_>,
        to: &mut StateHasher,
    ) -> bool {
        let _ = (state, node, member, unseen, to);
        false
    }

    /// Names the interesting branches and says which were taken: unless it says so otherwise, those that any node
    /// reached.
    fn coverage(&self, state: &Self::State, members: &[Member], sink: &mut Coverage) {
        let branches = self.branches();
        if !branches.is_empty() {
            let nodes = members.iter().enumerate();
            let reached = nodes.map(|(node, member)| self.reached_at(state, node, member));
            cover(&branches, reached.fold(0, |all, of| all | of), sink);
        }
    }
}

/// Names branches, and says by a bit for each which were reached.
pub(super) fn cover(branches: &[&'static str], reached: u32, sink: &mut Coverage) {
    for (bit, name) in branches.iter().enumerate() {
        sink.sometimes(name, reached & 1 << bit != 0);
    }
}

/// What a node's adapters hold of its requests, and its program cannot know.
pub struct Unseen<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) node: NodeId,
}

impl weft_protocols::rt::fingerprint::AdapterState for Unseen<'_> {
    fn unended_sends(&self, rail: u8, qp: QpNum) -> u32 {
        self.fabric.unended_sends(self.node, rail, qp)
    }

    fn arrived(&self, rail: u8, qp: QpNum, n: usize) -> Option<u32> {
        self.fabric.arrived(self.node, rail, qp, n)
    }
}
