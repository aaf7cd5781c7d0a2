//! One execution of a model, as a transition system.

use super::accesses::Accesses;
use super::at_rest::first_broke;
use super::cluster::{Cluster, Member};
use super::event_log::EventLog;
use super::losses::{Losses, Struck};
use super::memoised::{FoundByNodes, Memoised};
use super::model::{Model, Unseen, cover};
use super::recorder::Recorder;
use crate::explore::{Coverage, Fingerprint, Stuck, TraceEvent, TransitionSystem, Violation};
use crate::named::Named;
use crate::oracle::{Oracles, Standing};
use std::hash::Hash;
use std::rc::Rc;
use weft_protocols::rt::fingerprint::StateHasher;
use weft_sim::choice::{EventId, First};
use weft_sim::explore::{AccessKind, Actor, Enabled, FaultSet, Footprint, Outcome, Policy, Taken, Timers};
use weft_sim::log::Log;
use weft_sim::memo::{ProgramCacheStats, Root};
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Order};

/// The promise that without a fault nobody waits for what only time brings; see [`Model::needs_no_time`].
pub(super) const WAITS_FOR_TIME: &str = "no wait for time";
/// The promise that a request ends, where it does not and nothing is left to happen.
pub(super) const DEADLOCK: &str = "deadlock";
/// The same where its node sleeps on a completion.
pub(super) const LOST_WAKE_UP: &str = "lost wake-up";

/// One execution of a model.
pub struct Execution<M: Model> {
    model: Rc<M>,
    cluster: Cluster,
    fabric: Fabric,
    /// Where each initial configuration begins.
    roots: Vec<Root>,
    /// Whether programs are memoised.
    memoises: bool,
    /// What programs did in the initial configuration that was chosen last.
    memoised: Option<Memoised<M>>,
    /// Absent until an initial configuration is chosen.
    running: Option<Running<M>>,
    /// What happened, if somebody asks.
    trace: Option<Vec<TraceEvent>>,
    event_log: EventLog,
    losses: Losses,
    /// Nodes note what they know, for comparing states.
    compares: bool,
    /// Connections may break. Not all is told apart that one that is made again leaves in an adapter while something is under
    /// way: then nodes say what they know in quiescent states, and else are told apart by all that they have seen.
    may_break: bool,
}

/// What runs once the initial configuration is known.
struct Running<M: Model> {
    configuration: usize,
    recorder: Recorder<M::Oracles>,
    /// Absent if programs are memoised: then the memoised programs have their own.
    instance: Option<Instance<M>>,
    /// What the model judges by, and what it found.
    view: View,
}

/// A state as the model judges it.
struct View {
    digest: u128,
    broken: Option<Violation>,
}

/// Of a model that is not asked: as of one that looks at nothing.
impl Default for View {
    fn default() -> View {
        View { digest: StateHasher::default().whole(), broken: None }
    }
}

impl<M: Model> Running<M> {
    /// Has the model judge the state; whether what it judges by is another than before.
    fn judge(&mut self, model: &M) -> bool {
        let Some(Instance { state, members }) = &self.instance else { return false };
        let mut digest = StateHasher::default();
        let broken = model.judge(state, members, &mut digest).err();
        let view = View { digest: digest.whole(), broken };
        let before = std::mem::replace(&mut self.view, view);
        before.digest != self.view.digest
    }
}

/// A model's nodes, and what it keeps of them.
pub(super) struct Instance<M: Model> {
    pub state: M::State,
    pub members: Vec<Member>,
}

/// The choice of an initial configuration, as an event: of a kind that the fabric does not have.
const CONFIGURATION: u64 = 0xf << 60;

/// Sets an initial configuration up on an empty fabric. `compares`: its nodes note what they know.
pub(super) fn set_up<M: Model>(
    model: &M,
    cluster: &Cluster,
    fabric: &Fabric,
    configuration: usize,
    recorder: &Recorder<M::Oracles>,
    compares: bool,
) -> Instance<M> {
    let members = cluster.connected(fabric);
    if compares {
        members.iter().for_each(|member| member.rt.note_waits());
    }
    let mut state = model.start(configuration, &members, recorder);
    for (node, member) in (0..).zip(&members) {
        fabric.mount(NodeId(node), model.program(member));
    }
    if model.warms_up() {
        fabric.run_until_quiescent();
        model.begin(configuration, &mut state, &members, recorder);
        (0..fabric.nodes()).for_each(|node| fabric.nudge(NodeId(node)));
    }
    Instance { state, members }
}

/// What a node still knows, if it can say it.
pub(super) fn fingerprint<M: Model>(
    model: &M,
    of: &Instance<M>,
    fabric: &Fabric,
    node: NodeId,
) -> Option<u128> {
    let Instance { state, members } = of;
    let (index, unseen) = (node.index(), Unseen { fabric, node });
    let mut digest = StateHasher::default();
    model.fingerprint(state, index, &members[index], &unseen, &mut digest).then(|| digest.whole())
}

impl<M: Model> Execution<M> {
    /// An execution at its root.
    pub(super) fn new(model: &Rc<M>, faults: FaultSet, compares: bool, memoises: bool) -> Execution<M> {
        let shape = model.shape();
        let profile = Profile::builtin("ncosed-2007").expect("it is built in");
        let devices = model.rails();
        let (order, keys, sanitize) = (Order::Untimed, model.keys(), false);
        let cluster =
            Cluster::new(shape, devices, (model.meeting(), model.spin()), |config| model.mesh(config));
        let atomics = cluster.has_atomics();
        let config = Config { devices, order, keys, sanitize, atomics, ..Config::new(shape.nodes, profile) };
        let fabric = Fabric::new(config, Box::new(First)).expect("a small cluster can be built");
        // A repair that comes sooner leaves less broken: connections that lost a packet, or that one end has given up, which
        // other kinds of faults bring about, too.
        let timers = Timers::WhenQuiescent;
        let repairs = if model.breaks_for_good() { Timers::Never } else { timers };
        fabric.set_policy(Policy {
            timers,
            repairs,
            faults,
            in_order: shape.one_by_one,
            drift: model.drift(),
            mortal: model.mortal(),
        });
        let roots = (0..model.configurations()).map(|_| Root::new(&fabric)).collect();
        // What a crashed node's program leaves behind is not memoised.
        let mortal = faults.contains(Outcome::Crash) || faults.contains(Outcome::Restart);
        let mut execution = Execution {
            model: Rc::clone(model),
            cluster,
            fabric,
            roots,
            memoises: memoises && model.is_memoisable() && !mortal,
            memoised: None,
            running: None,
            trace: None,
            event_log: EventLog::default(),
            losses: Losses::default(),
            compares,
            may_break: !faults.is_empty(),
        };
        execution.begin();
        execution
    }

    /// Goes back to the root.
    pub(super) fn reset(&mut self) {
        // What is held outside of the programs goes first: then the programs hold the last of everything, and what
        // they drop is dropped without a call to the fabric.
        self.running = None;
        self.trace = None;
        self.losses = Losses::default();
        self.begin();
    }

    fn begin(&mut self) {
        if self.model.configurations() == 1 {
            self.start(0);
        }
    }

    /// The fabric that it runs on.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Whether every root that was set up is kept, so that later executions copy it.
    pub fn keeps_roots(&self) -> bool {
        self.roots.iter().all(Root::is_kept)
    }

    /// How often programs had to run, if they are memoised.
    pub fn memoised(&self) -> Option<ProgramCacheStats> {
        self.memoised.as_ref().map(Memoised::stats)
    }

    /// What oracles judge by belongs to the footprint; see [`Accesses`].
    fn take_and_record(
        &mut self,
        event: EventId,
        outcome: Outcome,
        mut touched: Option<&mut Footprint>,
    ) -> Result<Taken, Stuck> {
        if touched.is_some() {
            self.take_access();
        }
        let Execution { model, cluster, fabric, memoised, .. } = self;
        let taken = match memoised {
            Some(memoised) => {
                memoised.take(event, outcome, touched.as_deref_mut(), model, cluster, fabric)?
            }
            None => fabric.take(event, outcome, touched.as_deref_mut())?,
        };
        if let (Some(node), Some(running)) = (taken.crashed, &mut self.running)
            && let Running { recorder, instance: Some(Instance { state, .. }), .. } = running
        {
            self.model.crashed(state, node, recorder);
        }
        // What it records belongs to this event, and so does what the model finds in the state with the next incarnation.
        if let Some(node) = taken.restarted {
            self.restart(node);
        }
        let judged = self.running.as_mut().is_some_and(|running| running.judge(&self.model));
        if let Some(touched) = touched {
            self.push_judged(judged, touched);
        }
        Ok(taken)
    }

    /// What a model has judged itself accesses the whole.
    fn push_judged(&self, judged: bool, touched: &mut Footprint) {
        let accesses = self.take_access();
        let kind = accesses.kind.max(judged.then_some(AccessKind::Write));
        Accesses { kind, ..accesses }.push(self.cluster.nodes(), touched);
    }

    /// How what the oracles judge by was accessed since the last call.
    fn take_access(&self) -> Accesses {
        self.running.as_ref().map(|running| running.recorder.take_access()).unwrap_or_default()
    }

    /// A node begins its next incarnation. All that this touches of the fabric, the restart has touched.
    fn restart(&mut self, node: NodeId) {
        let Some(Running { recorder, instance: Some(Instance { state, members }), .. }) = &mut self.running
        else {
            return;
        };
        let member = self.cluster.restarted(&self.fabric, node);
        self.model.restart(state, node, &member, recorder);
        self.fabric.mount(node, self.model.program(&member));
        members[node.index()] = member;
    }

    /// Starts what runs in an initial configuration.
    fn start(&mut self, configuration: usize) {
        if self.memoises {
            return self.start_memoised(configuration);
        }
        let Execution { model, cluster, fabric, roots, compares, .. } = self;
        let recorder = Recorder::new(model.oracles());
        let instance = fabric.begin(&mut roots[configuration], || {
            set_up(&**model, cluster, fabric, configuration, &recorder, *compares)
        });
        let mut running =
            Running { configuration, recorder, instance: Some(instance), view: View::default() };
        running.judge(model);
        if let Some(trace) = &mut self.trace {
            // What the warm-up did is not of interest.
            self.fabric.take_log();
            running.recorder.record_trace();
            trace.push(TraceEvent::Note { node: 0, text: self.model.configuration(configuration) });
        }
        self.running = Some(running);
    }

    fn start_memoised(&mut self, configuration: usize) {
        let Execution { model, cluster, fabric, roots, memoised, running, compares, .. } = self;
        if memoised.as_ref().is_none_or(|memoised| memoised.configuration() != configuration) {
            // The one before gives the fabric back first.
            *memoised = None;
        }
        let memoised = memoised.get_or_insert_with(|| {
            Memoised::new(configuration, model, fabric, &roots[configuration], *compares)
        });
        memoised.begin(model, cluster, fabric);
        *running = Some(Running {
            configuration,
            recorder: memoised.recorder().clone(),
            instance: None,
            view: View::default(),
        });
    }

    /// What the nodes find by themselves, where programs are memoised.
    fn found(&mut self) -> FoundByNodes {
        let Execution { model, cluster, fabric, memoised, .. } = self;
        memoised.as_mut().map(|memoised| memoised.look_at_nodes(model, cluster, fabric)).unwrap_or_default()
    }

    /// What each node still knows, as far as it can say it; nothing if nodes are told apart by their histories.
    fn fingerprints(&mut self) -> Vec<Option<u128>> {
        if !self.compares || self.may_break && !self.is_quiescent() {
            return Vec::new();
        }
        let Execution { model, cluster, fabric, memoised, running, .. } = self;
        fabric.unobserved(|| match (memoised, running) {
            (Some(memoised), Some(_)) => memoised.fingerprints(model, cluster, fabric),
            (None, Some(Running { instance: Some(instance), .. })) => (0..fabric.nodes())
                .map(|node| fingerprint(&**model, instance, fabric, NodeId(node)))
                .collect(),
            _ => Vec::new(),
        })
    }

    /// Whether nothing can happen but what can because nothing else can.
    fn is_quiescent(&self) -> bool {
        let mut enabled = Vec::new();
        self.fabric.enabled(&mut enabled);
        enabled.iter().all(|event| event.quiescent)
    }

    /// Whether every node says what it still knows. One that cannot is told apart by its history, and then two states may be
    /// equal and have different fingerprints.
    pub fn has_fingerprints(&mut self) -> bool {
        let fingerprints = self.fingerprints();
        self.running.is_none() || (!fingerprints.is_empty() && fingerprints.iter().all(Option::is_some))
    }

    /// The parts of the fabric's fingerprint, with their names: to see in what two states differ.
    pub fn parts(&mut self) -> Vec<(String, u128)> {
        let fingerprints = self.fingerprints();
        self.running.as_ref().map_or(Vec::new(), |_| self.fabric.fingerprint_parts_of(&fingerprints))
    }

    /// Whether nothing has gone wrong, and somebody waits all the same who needs no time to pass. Where nothing but time goes on, the
    /// execution is over: what a time-out would bring comes too late.
    fn waits_for_time(&self) -> bool {
        let Some(Running { recorder, instance, .. }) = &self.running else { return false };
        let state = instance.as_ref().map(|Instance { state, .. }| state);
        self.losses.is_unharmed() && self.model.needs_no_time() && self.model.is_open(state, recorder)
    }

    /// Whether the fabric has something left that can happen.
    fn goes_on(&self) -> bool {
        let mut enabled = Vec::new();
        self.fabric.enabled(&mut enabled);
        !enabled.is_empty()
    }

    /// Whether an execution with a crash is over once only time can go on: those who are left ask a dead node for a connection for
    /// ever, later and later.
    fn is_over_without_the_dead(&self) -> bool {
        let Some(Running { recorder, instance: Some(Instance { state, .. }), .. }) = &self.running else {
            return true;
        };
        self.model.drift().is_none() || !self.model.waits(state, &self.losses.crashed, recorder)
    }

    /// How many packets were sent again, and how many answers were late; none where a fault may be why.
    fn sent_again(&self) -> (u64, u64) {
        let judges = self.losses.is_unharmed() && !self.model.breaks_connections();
        if judges { self.fabric.sent_again() } else { (0, 0) }
    }

    /// What was sent again though nothing went wrong and no answer was late: its receiver had no buffer for it.
    fn not_ready(&self) -> Option<Violation> {
        let (again, late) = self.sent_again();
        let text = || format!("{again} packets were sent again: their receivers had no buffers for them");
        (again > 0 && late == 0).then(|| Violation::new(Standing::NAME, text()))
    }

    /// What the oracles say of an end: what only an end shows, and, if requests did not end, why nothing will end them.
    fn broken_at_end(&self, recorder: &Recorder<M::Oracles>) -> Option<Violation> {
        let violation = recorder.judge_end()?;
        if recorder.oracles(Oracles::unended) == 0 {
            return Some(violation);
        }
        let Violation { text, .. } = violation;
        let asleep = (0..self.fabric.nodes()).map(NodeId).find(|&node| self.fabric.has_unpolled(node));
        Some(match asleep {
            Some(node) => Violation::new(LOST_WAKE_UP, format!("{node} sleeps on a completion; {text}")),
            None => Violation::new(DEADLOCK, text),
        })
    }
}

impl<M: Model> TransitionSystem for Execution<M> {
    fn enabled(&mut self, out: &mut Vec<Enabled>) {
        match self.running {
            Some(_) => {
                self.fabric.enabled(out);
                if !self.losses.crashed.is_empty()
                    && out.first().is_some_and(|event| event.quiescent)
                    && self.is_over_without_the_dead()
                {
                    out.clear();
                }
                if out.first().is_some_and(|event| event.quiescent) && self.waits_for_time() {
                    out.clear();
                }
            }
            None => out.extend((0..self.model.configurations() as u64).map(|configuration| Enabled {
                event: EventId(CONFIGURATION | configuration),
                actor: Actor(CONFIGURATION | configuration),
                faults: FaultSet::NONE,
                quiescent: true,
            })),
        }
    }

    fn take(
        &mut self,
        event: EventId,
        outcome: Outcome,
        touched: Option<&mut Footprint>,
    ) -> Result<(), Stuck> {
        if self.running.is_some() {
            let Taken { crashed, in_vain, .. } = self.take_and_record(event, outcome, touched)?;
            self.losses.take(outcome, in_vain, crashed);
            self.event_log.take(event, outcome);
            return Ok(());
        }
        let configuration = (event.0 ^ CONFIGURATION) as usize;
        if configuration >= self.model.configurations() || outcome != Outcome::Done {
            return Err(Stuck { event, outcome });
        }
        self.start(configuration);
        Ok(())
    }

    fn save(&mut self, number: usize) -> bool {
        self.memoised.as_mut().is_some_and(|memoised| memoised.save(number, self.losses.struck))
    }

    fn restore(&mut self, number: usize) -> bool {
        let struck = self.memoised.as_mut().and_then(|memoised| memoised.restore(number));
        // Of what is memoised nobody has crashed.
        self.losses.struck = struck.unwrap_or(self.losses.struck);
        struck.is_some()
    }

    fn in_vain(&self) -> bool {
        self.losses.in_vain
    }

    fn violation(&mut self) -> Option<Violation> {
        let Running { recorder, view, .. } = self.running.as_ref()?;
        recorder.violation().or_else(|| view.broken.clone())
    }

    fn finish(&mut self) -> Result<(), Violation> {
        let Some(Running { configuration, recorder, instance, .. }) = &self.running else { return Ok(()) };
        if self.losses.struck.any {
            self.model.rests_after_faults(*configuration, recorder);
        } else if self.losses.is_unharmed()
            && let Some(broken) = recorder.unharmed().or_else(|| self.not_ready())
        {
            return Err(broken);
        }
        if self.waits_for_time() && self.goes_on() {
            let text = "nothing went wrong, something has yet to end, and only a time-out goes on";
            return Err(Violation::new(WAITS_FOR_TIME, text));
        }
        let Some(Instance { state, members }) = instance else {
            if let Some(broken) = self.broken_at_end(recorder) {
                return Err(broken);
            }
            let judges = !self.losses.struck.any && !self.model.breaks_connections();
            let FoundByNodes { violation, broke, .. } = self.found();
            return broke.filter(|_| judges).or(violation).map_or(Ok(()), Err);
        };
        let Losses { crashed, struck: Struck { any, disks }, .. } = &self.losses;
        let excused = *any && self.model.drift().is_none()
            || crashed.iter().any(|&node| self.model.needs(state, node, recorder));
        match self.broken_at_end(recorder) {
            _ if excused && !crashed.is_empty() => Ok(()),
            Some(broken) => Err(broken),
            // A dead node's connections, and what was meant for it, are left over.
            None if !crashed.is_empty() => self.model.finish_without(state, crashed, members),
            None => {
                match (!any && !self.model.breaks_connections()).then(|| first_broke(members)).flatten() {
                    Some(broke) => return Err(broke),
                    None => self.model.finish(state, members, recorder)?,
                }
                if *disks { Ok(()) } else { self.model.judge_disks(state, &self.fabric, recorder) }
            }
        }
    }

    /// The fabric's, the record's and the model's view. A program is told from others by what it still knows, if the model can say it,
    /// and otherwise by all that it has seen: programs are deterministic. The initial configuration is part of it, since it is what
    /// programs were started with; and so is the order of what was noted across nodes, and what the model judges the state by: nodes that
    /// have seen the same may have changed what they share in another order. And so is what an end is judged by and
    /// adapters do not keep: whether something was sent again, and whether a fault was a disk's, after which disks are not judged.
    fn fingerprint(&mut self) -> Option<Fingerprint> {
        let fingerprints = self.fingerprints();
        let Some(Running { configuration, recorder, view, .. }) = &self.running else {
            return Some(Fingerprint(CONFIGURATION.into()));
        };
        let mut rest = StateHasher::default();
        configuration.hash(&mut rest);
        view.digest.hash(&mut rest);
        recorder.state(&mut rest);
        let (again, late) = self.sent_again();
        (again > 0, late > 0, self.losses.struck.disks).hash(&mut rest);
        Some(Fingerprint(self.fabric.fingerprint_of(&fingerprints) ^ rest.whole()))
    }

    fn is_lasting(&self, actor: Actor) -> bool {
        actor.is_lasting()
    }

    fn coverage(&mut self, sink: &mut Coverage) {
        match &self.running {
            Some(Running { instance: Some(Instance { state, members }), .. }) => {
                self.model.coverage(state, members, sink)
            }
            Some(_) => {
                let branches = self.model.branches();
                if !branches.is_empty() {
                    cover(&branches, self.found().reached, sink);
                }
            }
            None => {}
        }
    }

    fn columns(&self) -> Vec<String> {
        (0..self.fabric.nodes()).map(|node| NodeId(node).to_string()).collect()
    }

    fn record_trace(&mut self) {
        self.trace = Some(Vec::new());
        self.fabric.set_log(Log::memory());
        if let Some(running) = &self.running {
            running.recorder.record_trace();
        }
    }

    fn take_trace(&mut self) -> Vec<TraceEvent> {
        let mut trace = self.trace.as_mut().map(std::mem::take).unwrap_or_default();
        let Execution { model, running, event_log, fabric, .. } = self;
        let named = |node: u32, address| match &*running {
            Some(Running { instance: Some(Instance { state, members }), .. }) => {
                let labelled = || Named::labelled(&members.get(node as usize)?.rt, address);
                model.name_of(state, node as usize, address).or_else(labelled)
            }
            _ => None,
        };
        event_log.read(&fabric.take_log(), &fabric.underway(), &named, &mut trace);
        if let Some(running) = &self.running {
            trace.extend(running.recorder.take_trace());
        }
        trace
    }
}

#[cfg(test)]
#[path = "execution_tests.rs"]
mod tests;
