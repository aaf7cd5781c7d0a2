//! What all worlds on the simulated fabric have in common: connected nodes, programs on them, a book.

mod by_heart;

use super::book::Book;
use super::chronicle::Chronicle;
use super::cluster::{Cluster, Member};
use super::play::cover;
pub use super::play::{Play, Unseen};
use crate::explore::{Blueprint, Coverage, Fingerprint, Size, Stuck, Tale, Violation, World};
use by_heart::ByHeart;
use std::hash::Hash;
use std::rc::Rc;
use weft_protocols::rt::Digest;
use weft_sim::choice::{EventId, First};
use weft_sim::explore::{Actor, Enabled, FaultSet, Footprint, How, Object, Outcome, Policy, Taken, Timers};
use weft_sim::log::Log;
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Order, RepertoireStats, Root};
use weft_verbs::Nanos;

/// Makes the executions of a play.
pub struct Stage<P: Play> {
    play: Rc<P>,
    faults: FaultSet,
    /// Whether nodes will be asked what they still know.
    compares: bool,
    /// Whether executions will be many and much alike.
    learns: bool,
}

impl<P: Play> Stage<P> {
    /// A stage for a play.
    pub fn new(play: P) -> Stage<P> {
        Stage { play: Rc::new(play), faults: FaultSet::NONE, compares: true, learns: false }
    }
}

impl<P: Play> Blueprint for Stage<P> {
    type World = Scene<P>;

    fn name(&self) -> &str {
        self.play.name()
    }

    fn size(&self) -> Size {
        self.play.size()
    }

    fn smaller(&self) -> Vec<Size> {
        self.play.smaller()
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

    fn learn(&mut self, many: bool) {
        self.learns = many;
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
        // What a crashed node's program leaves behind is not known by heart.
        let mortal = self.faults.contains(Outcome::Crash) || self.faults.contains(Outcome::Restart);
        let is_by_heart = self.learns && self.play.is_by_heart() && !mortal;
        let mut scene = Scene {
            play: Rc::clone(&self.play),
            cluster: Cluster::new(shape),
            fabric,
            roots,
            is_by_heart,
            by_heart: None,
            acts: None,
            tales: None,
            chronicle: Chronicle::default(),
            losses: Losses::default(),
            tells: self.compares,
            may_break: !self.faults.is_empty(),
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
    book: Book,
    /// None of its own if programs are known by heart: who is needed is in the repertoire.
    company: Option<Company<P>>,
}

/// Who plays.
struct Company<P: Play> {
    cast: P::Cast,
    members: Vec<Member>,
}

/// One execution of a play.
pub struct Scene<P: Play> {
    play: Rc<P>,
    cluster: Cluster,
    fabric: Fabric,
    /// Where each script begins.
    roots: Vec<Root>,
    /// Whether programs are known by heart.
    is_by_heart: bool,
    /// What they are known to do by the script that was played last.
    by_heart: Option<ByHeart<P>>,
    /// Absent until a script is chosen.
    acts: Option<Acts<P>>,
    /// What happened, if somebody asks.
    tales: Option<Vec<Tale>>,
    chronicle: Chronicle,
    losses: Losses,
    /// Nodes note what they know, for whoever compares states.
    tells: bool,
    /// Connections may break. What one that is made again leaves in an adapter while something is under way is not all told
    /// apart: then nodes say what they know at rest, and else count by all that they have seen.
    may_break: bool,
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

/// Puts a script on an empty fabric. `tells`: its nodes note what they know.
fn set_up<P: Play>(
    play: &P,
    cluster: &Cluster,
    fabric: &Fabric,
    script: usize,
    book: &Book,
    tells: bool,
) -> Company<P> {
    let members = cluster.connected(fabric);
    if tells {
        members.iter().for_each(|member| member.rt.tell_content());
    }
    let mut cast = play.start(script, &members, book);
    for (node, member) in (0..).zip(&members) {
        fabric.mount(NodeId(node), play.program(member));
    }
    if play.is_rehearsed() {
        fabric.settle();
        play.begin(script, &mut cast, &members, book);
        (0..fabric.nodes()).for_each(|node| fabric.nudge(NodeId(node)));
    }
    Company { cast, members }
}

/// What a node of a company still knows, if it can say it.
fn content<P: Play>(play: &P, of: &Company<P>, fabric: &Fabric, node: NodeId) -> Option<u128> {
    let Company { cast, members } = of;
    let (index, unseen) = (node.index(), Unseen { fabric, node });
    let mut digest = Digest::default();
    play.content(cast, index, &members[index], &unseen, &mut digest).then(|| digest.whole())
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

    /// How often programs had to run, if they are known by heart.
    pub fn repertoire(&self) -> Option<RepertoireStats> {
        self.by_heart.as_ref().map(ByHeart::stats)
    }

    /// What oracles judge by belongs to the footprint: two grants that exclude each other, on nodes that have not heard of
    /// each other, overlap in one order and not in the other.
    fn take_and_tell(
        &mut self,
        event: EventId,
        outcome: Outcome,
        mut touched: Option<&mut Footprint>,
    ) -> Result<Taken, Stuck> {
        if touched.is_some() {
            self.change();
        }
        let Scene { play, cluster, fabric, by_heart, .. } = self;
        let taken = match by_heart {
            Some(known) => known.take(event, outcome, touched.as_deref_mut(), play, cluster, fabric)?,
            None => fabric.take(event, outcome, touched.as_deref_mut())?,
        };
        if let Some(touched) = touched
            && let Some(how) = self.change()
        {
            touched.push(HOLDERS, how);
        }
        Ok(taken)
    }

    /// How the holders have changed since the last call.
    fn change(&self) -> Option<How> {
        self.acts.as_ref().and_then(|acts| acts.book.take_change())
    }

    /// A node begins its next life. All that this touches, the restart has touched.
    fn restart(&mut self, node: NodeId) {
        let Some(Acts { book, company: Some(Company { cast, members }), .. }) = &mut self.acts else {
            return;
        };
        let member = self.cluster.restarted(&self.fabric, node);
        self.play.restart(cast, node, &member, book);
        self.fabric.mount(node, self.play.program(&member));
        members[node.index()] = member;
    }

    fn perform(&mut self, script: usize) {
        if self.is_by_heart {
            return self.perform_by_heart(script);
        }
        let Scene { play, cluster, fabric, roots, tells, .. } = self;
        let book = play.book();
        let company =
            fabric.begin(&mut roots[script], || set_up(&**play, cluster, fabric, script, &book, *tells));
        let acts = Acts { script, book, company: Some(company) };
        if let Some(tales) = &mut self.tales {
            // What the rehearsal did is not of interest.
            self.fabric.take_log();
            acts.book.narrate();
            tales.push(Tale::Note { node: 0, text: self.play.script(script) });
        }
        self.acts = Some(acts);
    }

    fn perform_by_heart(&mut self, script: usize) {
        let Scene { play, cluster, fabric, roots, by_heart, acts, tells, .. } = self;
        if by_heart.as_ref().is_none_or(|known| known.script() != script) {
            // The one before gives the fabric back first.
            *by_heart = None;
        }
        let known =
            by_heart.get_or_insert_with(|| ByHeart::new(script, play, fabric, &roots[script], *tells));
        known.begin(play, cluster, fabric);
        *acts = Some(Acts { script, book: known.book().clone(), company: None });
    }

    /// What is found at the nodes, where programs are known by heart.
    fn found(&mut self) -> (Option<Violation>, u32) {
        let Scene { play, cluster, fabric, by_heart, .. } = self;
        by_heart.as_mut().map_or((None, 0), |known| known.look_at_nodes(play, cluster, fabric))
    }

    /// What each node still knows, as far as it can say it; nothing if nodes count by their histories.
    fn contents(&mut self) -> Vec<Option<u128>> {
        if !self.tells || self.may_break && !self.is_at_rest() {
            return Vec::new();
        }
        let Scene { play, cluster, fabric, by_heart, acts, .. } = self;
        fabric.without_a_trace(|| match (by_heart, acts) {
            (Some(known), Some(_)) => known.contents(play, cluster, fabric),
            (None, Some(Acts { company: Some(company), .. })) => {
                (0..fabric.nodes()).map(|node| content(&**play, company, fabric, NodeId(node))).collect()
            }
            _ => Vec::new(),
        })
    }

    /// Whether nothing can happen but what can because nothing else can.
    fn is_at_rest(&self) -> bool {
        let mut enabled = Vec::new();
        self.fabric.enabled(&mut enabled);
        enabled.iter().all(|event| event.at_rest)
    }

    /// Whether every node says what it still knows. One that cannot counts by its history, and then two states may be
    /// equal and have different fingerprints.
    pub fn is_told(&mut self) -> bool {
        let contents = self.contents();
        self.acts.is_none() || (!contents.is_empty() && contents.iter().all(Option::is_some))
    }

    /// The parts of the fabric's fingerprint, with their names: to see in what two states differ.
    pub fn parts(&mut self) -> Vec<(String, u128)> {
        let contents = self.contents();
        self.acts.as_ref().map_or(Vec::new(), |_| self.fabric.fingerprint_parts_of(&contents))
    }

    /// The requests that did not end, and why nothing will end them.
    fn stuck(&self, book: &Book) -> Option<Violation> {
        let open = book.judge(|judge| {
            if judge.unended() > 0 {
                judge.judge_end(Nanos::ZERO, Nanos::ZERO);
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

    fn save(&mut self, number: usize) -> bool {
        self.by_heart.as_mut().is_some_and(|known| known.save(number))
    }

    fn put_back(&mut self, number: usize) -> bool {
        self.by_heart.as_mut().is_some_and(|known| known.put_back(number))
    }

    fn violation(&mut self) -> Option<Violation> {
        self.acts.as_ref()?.book.violation()
    }

    fn finish(&mut self) -> Result<(), Violation> {
        let Some(Acts { book, company, .. }) = &self.acts else { return Ok(()) };
        let Some(Company { cast, members }) = company else {
            return match self.stuck(book) {
                Some(stuck) => Err(stuck),
                None => self.found().0.map_or(Ok(()), Err),
            };
        };
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
        let contents = self.contents();
        let Some(acts) = &self.acts else { return Some(Fingerprint(SCRIPT.into())) };
        let mut rest = Digest::default();
        acts.script.hash(&mut rest);
        acts.book.judge(|judge| judge.state(&mut rest));
        acts.book.past().hash(&mut rest);
        Some(Fingerprint(self.fabric.fingerprint_of(&contents) ^ rest.whole()))
    }

    fn is_lasting(&self, actor: Actor) -> bool {
        actor.is_lasting()
    }

    fn coverage(&mut self, sink: &mut Coverage) {
        match &self.acts {
            Some(Acts { company: Some(Company { cast, members }), .. }) => {
                self.play.coverage(cast, members, sink)
            }
            Some(_) if !self.play.branches().is_empty() => cover(self.play.branches(), self.found().1, sink),
            _ => {}
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
    use weft_protocols::locks::Scheme;
    use weft_verbs::Wait;

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
