//! What all worlds on the simulated fabric have in common: connected nodes, programs on them, a book.

use super::book::Book;
use super::chronicle::Chronicle;
use super::cluster::{Cluster, Member, Shape};
use crate::explore::{Blueprint, Coverage, Fingerprint, Params, Stuck, Tale, Violation, World};
use protocols::rt::Digest;
use sim_backend::choice::{EventId, First};
use sim_backend::explore::{Actor, Enabled, FaultSet, Footprint, Object, Outcome, Policy, Taken, Timers};
use sim_backend::log::Log;
use sim_backend::profile::Profile;
use sim_backend::{Config, Fabric, NodeId, Order, Root};
use std::hash::Hash;
use std::rc::Rc;
use verbs_trait::{Nanos, Node, QpNum};

/// A world's programs and its judgement: the fabric is the stage, and this is what is played on it.
pub trait Play {
    /// What one execution keeps for its end: services, words, counters.
    type Cast;

    /// The world's name.
    fn name(&self) -> &str;

    /// The cluster that it wants.
    fn shape(&self) -> Shape;

    /// Its whole size, as a user would write it; empty if it has one size only.
    fn params(&self) -> Params {
        Params::default()
    }

    /// Whether a node that has crashed takes others with it: if so, nobody's request need end.
    fn needs(&self, cast: &Self::Cast, node: NodeId, book: &Book) -> bool {
        let _ = (cast, node, book);
        true
    }

    /// The faults that it can be explored under: those that it promises to survive, and a crash if it says what that
    /// may cost.
    fn bears(&self) -> FaultSet {
        self.survives()
    }

    /// The faults that it promises to survive. Neither a crash nor a restart, unless it says so: what a node held is then
    /// gone.
    fn survives(&self) -> FaultSet {
        FaultSet::ALL.without(Outcome::Crash).without(Outcome::Restart)
    }

    /// An empty book for an execution.
    fn book(&self) -> Book {
        Book::new(false)
    }

    /// How many scripts it has. If there are several, the first choice of an execution is which one is played.
    fn scripts(&self) -> usize {
        1
    }

    /// What a script is, for people.
    fn script(&self, number: usize) -> String {
        let _ = number;
        String::new()
    }

    /// Starts what runs on the nodes, by one of the scripts; or what is to run before that, if the play has a
    /// [rehearsal](Play::is_rehearsed).
    fn start(&self, script: usize, members: &[Member], book: &Book) -> Self::Cast;

    /// Whether something runs before the first choice: in one fixed order, to its rest. What is explored begins in the
    /// state that this leads to.
    fn is_rehearsed(&self) -> bool {
        false
    }

    /// Starts what runs on the nodes after the rehearsal.
    fn begin(&self, script: usize, cast: &mut Self::Cast, members: &[Member], book: &Book) {
        let _ = (script, cast, members, book);
    }

    /// A node has crashed and is there again: starts what runs on it in its next life. Of plays that bear
    /// [`Outcome::Restart`].
    fn restart(&self, cast: &mut Self::Cast, node: NodeId, member: &Member, book: &Book) {
        let _ = (cast, node, member, book);
    }

    /// What a node's driver steps.
    fn program(&self, member: &Member) -> Box<dyn Node> {
        Box::new(member.rt.program())
    }

    /// Judges an end at which every request has ended: what is left over, and what the play itself promises.
    ///
    /// # Errors
    ///
    /// The promise that was broken.
    fn finish(&self, cast: &Self::Cast, members: &[Member], book: &Book) -> Result<(), Violation>;

    /// Adds to a hash what a node still knows, between two steps, and says whether that is all. If it is not, the node
    /// counts by all that it has seen.
    fn content(
        &self,
        cast: &Self::Cast,
        node: usize,
        member: &Member,
        unseen: &Unseen<'_>,
        to: &mut Digest,
    ) -> bool {
        let _ = (cast, node, member, unseen, to);
        false
    }

    /// Names the interesting branches and says which were taken.
    fn coverage(&self, cast: &Self::Cast, members: &[Member], sink: &mut Coverage) {
        let _ = (cast, members, sink);
    }
}

/// What a node's adapters hold of its requests, and its program cannot know.
pub struct Unseen<'a> {
    fabric: &'a Fabric,
    node: NodeId,
}

impl protocols::rt::Unseen for Unseen<'_> {
    fn unended_sends(&self, qp: QpNum) -> u32 {
        self.fabric.unended_sends(self.node, qp)
    }

    fn arrived(&self, qp: QpNum, n: usize) -> Option<u32> {
        self.fabric.arrived(self.node, qp, n)
    }
}

/// Makes the executions of a play.
pub struct Stage<P: Play> {
    play: Rc<P>,
    faults: FaultSet,
    /// Whether nodes will be asked what they still know.
    compares: bool,
}

impl<P: Play> Stage<P> {
    /// A stage for a play.
    pub fn new(play: P) -> Stage<P> {
        Stage { play: Rc::new(play), faults: FaultSet::NONE, compares: true }
    }
}

impl<P: Play> Blueprint for Stage<P> {
    type World = Scene<P>;

    fn name(&self) -> &str {
        self.play.name()
    }

    fn params(&self) -> Params {
        self.play.params()
    }

    fn faults(&self) -> FaultSet {
        self.play.bears()
    }

    fn usual_faults(&self) -> FaultSet {
        self.play.survives()
    }

    fn allow(&mut self, faults: FaultSet) {
        self.faults = faults.and(self.play.bears());
    }

    fn compare(&mut self, states: bool) {
        self.compares = states;
    }

    fn root(&mut self) -> Scene<P> {
        let shape = self.play.shape();
        let profile = Profile::builtin("ncosed-2007").expect("it is built in");
        let config = Config { order: Order::Untimed, sanitize: false, ..Config::new(shape.nodes, profile) };
        let fabric = Fabric::new(config, Box::new(First)).expect("a small world can be built");
        // A repair that comes sooner leaves less broken: connections that lost a packet, or that one end has given up, which
        // other kinds of faults bring about, too.
        let (timers, repairs) = (Timers::AtRest, Timers::AtRest);
        fabric.set_policy(Policy { timers, repairs, faults: self.faults, in_order: shape.one_by_one });
        let roots = (0..self.play.scripts()).map(|_| Root::new(&fabric)).collect();
        let mut scene = Scene {
            play: Rc::clone(&self.play),
            cluster: Cluster::new(shape),
            fabric,
            roots,
            acts: None,
            tales: None,
            chronicle: Chronicle::default(),
            losses: Losses::default(),
            by_history: !self.compares || !self.faults.is_empty(),
        };
        scene.begin();
        scene
    }

    fn reset(&mut self, scene: &mut Scene<P>) {
        // What is held outside of the programs goes first: then the programs hold the last of everything, and what
        // they drop is dropped without a call to the fabric.
        scene.acts = None;
        scene.tales = None;
        scene.losses = Losses::default();
        scene.begin();
    }
}

/// What is on the stage once the script is known.
struct Acts<P: Play> {
    script: usize,
    cast: P::Cast,
    book: Book,
    members: Vec<Member>,
}

/// One execution of a play.
pub struct Scene<P: Play> {
    play: Rc<P>,
    cluster: Cluster,
    fabric: Fabric,
    /// Where each script begins.
    roots: Vec<Root>,
    /// Absent until a script is chosen.
    acts: Option<Acts<P>>,
    /// What happened, if somebody asks.
    tales: Option<Vec<Tale>>,
    chronicle: Chronicle,
    losses: Losses,
    /// Nodes count by all that they have seen. With faults they do: what a connection that is made again leaves in an adapter
    /// is not all told apart yet. And if nobody asks, they need not note what they know.
    by_history: bool,
}

/// What an execution has lost for good.
#[derive(Default)]
struct Losses {
    crashed: Vec<NodeId>,
    /// Another fault struck besides: then those who are left may wait for time-outs that no longer come.
    other: bool,
}

/// Who holds locks, as an object: of a kind that the fabric does not have.
const HOLDERS: Object = Object(SCRIPT | 0xf << 56);

/// Puts a script on an empty fabric.
fn set_up<P: Play>(play: &P, members: Vec<Member>, fabric: &Fabric, script: usize) -> Acts<P> {
    let book = play.book();
    let mut cast = play.start(script, &members, &book);
    for (node, member) in (0..).zip(&members) {
        fabric.mount(NodeId(node), play.program(member));
    }
    if play.is_rehearsed() {
        fabric.settle();
        play.begin(script, &mut cast, &members, &book);
        (0..fabric.nodes()).for_each(|node| fabric.nudge(NodeId(node)));
    }
    Acts { script, cast, book, members }
}

/// The choice of a script, as an event: of a kind that the fabric does not have.
const SCRIPT: u64 = 0xf << 60;

impl<P: Play> Scene<P> {
    fn begin(&mut self) {
        if self.play.scripts() == 1 {
            self.perform(0);
        }
    }

    /// The fabric that it is played on.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// What oracles judge by belongs to the footprint: two grants that exclude each other, on nodes that have not heard of
    /// each other, overlap in one order and not in the other.
    fn take_and_tell(
        &mut self,
        event: EventId,
        outcome: Outcome,
        touched: Option<&mut Footprint>,
    ) -> Result<Taken, Stuck> {
        let Some(touched) = touched else {
            return Ok(self.fabric.take(event, outcome, None)?);
        };
        let change = || self.acts.as_ref().and_then(|acts| acts.book.take_change());
        change();
        let taken = self.fabric.take(event, outcome, Some(touched))?;
        if let Some(how) = change() {
            touched.push(HOLDERS, how);
        }
        Ok(taken)
    }

    /// A node begins its next life. All that this touches, the restart has touched.
    fn restart(&mut self, node: NodeId) {
        let Some(Acts { cast, book, members, .. }) = &mut self.acts else { return };
        let member = self.cluster.restarted(&self.fabric, node);
        self.play.restart(cast, node, &member, book);
        self.fabric.mount(node, self.play.program(&member));
        members[node.index()] = member;
    }

    fn perform(&mut self, script: usize) {
        let Scene { play, cluster, fabric, roots, by_history, .. } = self;
        let acts = fabric.begin(&mut roots[script], || {
            let members = cluster.connected(fabric);
            if !*by_history {
                members.iter().for_each(|member| member.rt.tell_content());
            }
            set_up(&**play, members, fabric, script)
        });
        if let Some(tales) = &mut self.tales {
            // What the rehearsal did is not of interest.
            self.fabric.take_log();
            acts.book.narrate();
            tales.push(Tale::Note { node: 0, text: self.play.script(script) });
        }
        self.acts = Some(acts);
    }

    /// What each node still knows.
    fn contents(&self, acts: &Acts<P>) -> Vec<Option<u128>> {
        let Acts { cast, members, .. } = acts;
        if self.by_history {
            return Vec::new();
        }
        let of = |(node, member): (usize, &Member)| {
            let unseen = Unseen { fabric: &self.fabric, node: NodeId(node as u32) };
            let mut digest = Digest::default();
            self.play.content(cast, node, member, &unseen, &mut digest).then(|| digest.whole())
        };
        members.iter().enumerate().map(of).collect()
    }

    /// Whether every node says what it still knows. One that cannot counts by its history, and then two states may be
    /// equal and have different fingerprints.
    pub fn is_told(&self) -> bool {
        !self.by_history
            && self.acts.as_ref().is_none_or(|acts| self.contents(acts).iter().all(Option::is_some))
    }

    /// The parts of the fabric's fingerprint, with their names: to see in what two states differ.
    pub fn parts(&self) -> Vec<(String, u128)> {
        self.acts.as_ref().map_or(Vec::new(), |acts| self.fabric.fingerprint_parts_of(&self.contents(acts)))
    }

    /// The requests that did not end, and why nothing will end them.
    fn stuck(&self, book: &Book) -> Option<Violation> {
        let open = book.judge(|judge| {
            if judge.unended() > 0 {
                judge.judge_progress(Nanos::ZERO, Nanos::ZERO);
            }
            judge.unended()
        });
        if open == 0 {
            return None;
        }
        let asleep = (0..self.fabric.nodes()).map(NodeId).find(|&node| self.fabric.has_unpolled(node));
        let text = book.violation().map(|violation| violation.text).unwrap_or_default();
        Some(match asleep {
            Some(node) => Violation::new("lost wake-up", format!("{node} sleeps on a completion; {text}")),
            None => Violation::new("deadlock", text),
        })
    }
}

impl<P: Play> World for Scene<P> {
    fn enabled(&mut self, out: &mut Vec<Enabled>) {
        match self.acts {
            Some(_) => {
                self.fabric.enabled(out);
                // Those who are left ask a dead node for a connection for ever, later and later: at rest it is over.
                if !self.losses.crashed.is_empty() && out.first().is_some_and(|event| event.at_rest) {
                    out.clear();
                }
            }
            None => out.extend((0..self.play.scripts() as u64).map(|script| Enabled {
                event: EventId(SCRIPT | script),
                actor: Actor(SCRIPT | script),
                faults: FaultSet::NONE,
                at_rest: true,
            })),
        }
    }

    fn take(
        &mut self,
        event: EventId,
        outcome: Outcome,
        touched: Option<&mut Footprint>,
    ) -> Result<(), Stuck> {
        if self.acts.is_some() {
            let Taken { crashed, restarted, .. } = self.take_and_tell(event, outcome, touched)?;
            self.chronicle.take(event, outcome);
            self.losses.other |= outcome.is_fault() && crashed.is_none();
            self.losses.crashed.extend(crashed);
            if let Some(node) = restarted {
                self.restart(node);
            }
            return Ok(());
        }
        let script = (event.0 ^ SCRIPT) as usize;
        if script >= self.play.scripts() || outcome != Outcome::Done {
            return Err(Stuck { event, outcome });
        }
        self.perform(script);
        Ok(())
    }

    fn violation(&mut self) -> Option<Violation> {
        self.acts.as_ref()?.book.violation()
    }

    fn finish(&mut self) -> Result<(), Violation> {
        let Some(Acts { cast, book, members, .. }) = &self.acts else { return Ok(()) };
        let Losses { crashed, other } = &self.losses;
        let excused = *other || crashed.iter().any(|&node| self.play.needs(cast, node, book));
        match self.stuck(book) {
            _ if excused && !crashed.is_empty() => Ok(()),
            Some(stuck) => Err(stuck),
            // A dead node's connections, and what was meant for it, are left over.
            None if !crashed.is_empty() => Ok(()),
            None => self.play.finish(cast, members, book),
        }
    }

    /// The fabric's and the book's. A program counts by what it still knows, if the play can say it, and otherwise by
    /// all that it has seen: programs are deterministic. The script is part of it, since it is what programs were
    /// started with; and so is the order of what was said across nodes, where the book says that it matters.
    fn fingerprint(&mut self) -> Option<Fingerprint> {
        let Some(acts) = &self.acts else { return Some(Fingerprint(SCRIPT.into())) };
        let mut rest = Digest::default();
        acts.script.hash(&mut rest);
        acts.book.judge(|judge| judge.content(&mut rest));
        acts.book.past().hash(&mut rest);
        Some(Fingerprint(self.fabric.fingerprint_of(&self.contents(acts)) ^ rest.whole()))
    }

    fn is_lasting(&self, actor: Actor) -> bool {
        actor.is_lasting()
    }

    fn coverage(&mut self, sink: &mut Coverage) {
        if let Some(Acts { cast, members, .. }) = &self.acts {
            self.play.coverage(cast, members, sink);
        }
    }

    fn columns(&self) -> Vec<String> {
        (0..self.fabric.nodes()).map(|node| NodeId(node).to_string()).collect()
    }

    fn narrate(&mut self) {
        self.tales = Some(Vec::new());
        self.fabric.set_log(Log::memory());
        if let Some(acts) = &self.acts {
            acts.book.narrate();
        }
    }

    fn told(&mut self) -> Vec<Tale> {
        let mut told = self.tales.as_mut().map(std::mem::take).unwrap_or_default();
        self.chronicle.read(&self.fabric.take_log(), &self.fabric.underway(), &mut told);
        if let Some(acts) = &self.acts {
            told.extend(acts.book.told());
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worlds::locks::Locks;
    use crate::worlds::modes::Requests;
    use protocols::locks::Scheme;
    use verbs_trait::Wait;

    fn stage(scheme: Scheme, wait: Wait, one_by_one: bool, warm: bool) -> Stage<Locks> {
        let requests = Requests::read("x,s,x").expect("modes");
        let name = String::from("locks");
        Stage::new(Locks { name, scheme, requests, home: 0, wait, one_by_one, warm, shared_limit: None })
    }

    /// Every execution begins in the same state, and none but the first sets it up for real.
    #[test]
    fn a_lock_world_is_set_up_once() {
        for (scheme, wait, one_by_one, warm) in [
            (Scheme::Srsl, Wait::Notify, false, false),
            (Scheme::Dqnl, Wait::Poll, true, true),
            (Scheme::Ncosed, Wait::Notify, false, true),
            (Scheme::Ncosed, Wait::Poll, true, false),
        ] {
            let mut stage = stage(scheme, wait, one_by_one, warm);
            let mut scene = stage.root();
            let first = scene.fabric.fingerprint_parts();
            let mut ends = Vec::new();
            for _ in 0..3 {
                stage.reset(&mut scene);
                assert!(scene.roots[0].is_kept(), "{scheme:?}");
                assert_eq!(scene.fabric.fingerprint_parts(), first, "{scheme:?}");
                scene.fabric.settle();
                assert_eq!(scene.finish(), Ok(()), "{scheme:?}");
                ends.push(scene.fabric.fingerprint_parts());
            }
            assert!(ends.windows(2).all(|pair| pair[0] == pair[1]), "{scheme:?}");
        }
    }
}
