//! Memoised programs: what one was seen to do is done for it, and it runs only where nobody has seen what it does next.
//!
//! Most of what programs do in an execution they have done in an earlier one. So executions need the fabric's state
//! alone, which can be copied, and the node of the [call tree](super::tree) at which each program stands. A program that
//! has to run is made by the set-up's log and brought to its node by the answers that lead there.

use super::calls::{Mode, NOT_REPEATABLE};
use super::root::Root;
use super::tree::{CallTree, TreeNode};
use crate::choice::EventId;
use crate::explore::{Footprint, NotEnabled, Outcome, Taken};
use crate::world::State;
use crate::{Fabric, NodeId};
use std::collections::HashMap;
use std::fmt;
use weft_verbs::{Node, Park};

/// The executions of one set-up, whose programs are memoised.
///
/// `T` is what a set-up makes besides its programs, and `E` what a node answers if it is asked. What programs do must
/// depend on their own node's answers only: what they share with each other outside of the fabric they may change
/// ([`ObserverEffects`](super::ObserverEffects)) and not read. They bring no memory of their own, claim none, and
/// neither end nor restart. What their destructors do reaches no execution.
pub struct ProgramCache<T, E> {
    fabric: Fabric,
    root: Root,
    /// Where the nodes' programs stand in the present execution.
    at: Vec<TreeNode>,
    instances: Vec<Instance<T>>,
    /// Those that were given up, and are to be dropped when the present state is.
    given_up: Vec<Instance<T>>,
    /// How often an instance was needed.
    needed: u64,
    /// Where the questions to a node begin, by their number: what they ask of the fabric is memoised, too.
    questions: HashMap<(u8, TreeNode), TreeNode>,
    /// Their answers.
    answers: HashMap<TreeNode, E>,
    stats: ProgramCacheStats,
}

/// How often programs had to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramCacheStats {
    /// Steps of programs.
    pub steps: u64,
    /// Set-ups that were made to have programs.
    pub set_ups: u64,
    /// Those of the steps that programs ran, because it was not known what they do.
    pub learned: u64,
    /// Steps that programs retraced, to come to where they were needed.
    pub retraced: u64,
    /// How often the cache was emptied, for want of room.
    pub emptied: u64,
}

/// Programs of all nodes, each at some node of its tree.
struct Instance<T> {
    built: T,
    programs: Vec<Option<Box<dyn Node>>>,
    at: Vec<TreeNode>,
    /// When it was needed last.
    used: u64,
}

/// A moment of an execution to which a cache can go back.
#[derive(Debug)]
pub struct SavedExecution {
    state: Box<State>,
    at: Vec<TreeNode>,
}

/// Most instances that are kept. Each is good for the nodes below those at which its programs stand.
const INSTANCES: usize = 24;

/// Most nodes of trees that are kept: of some 250 bytes each.
const TREE_NODES: usize = 1 << 22;

impl<T, E> fmt::Debug for ProgramCache<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgramCache").field("stats", &self.stats).finish_non_exhaustive()
    }
}

impl<T, E> ProgramCache<T, E> {
    /// Executions of an [untimed](crate::Order::Untimed) fabric that begin at a root. A fabric has one cache at a time.
    pub fn new(fabric: &Fabric, root: Root) -> ProgramCache<T, E> {
        ProgramCache {
            fabric: fabric.clone(),
            root,
            at: Vec::new(),
            instances: Vec::new(),
            given_up: Vec::new(),
            needed: 0,
            questions: HashMap::new(),
            answers: HashMap::new(),
            stats: ProgramCacheStats::default(),
        }
    }

    /// How often programs had to run so far.
    pub fn stats(&self) -> ProgramCacheStats {
        self.stats
    }

    /// Begins an execution. `build` is the set-up, as for [`Fabric::begin`].
    ///
    /// # Panics
    ///
    /// If the set-up does something that cannot be replayed.
    pub fn begin(&mut self, build: impl FnOnce() -> T) {
        if self.root.is_kept() {
            match self.is_full() {
                true => self.empty(),
                false => self.drop_given_up(),
            }
            let state = self.root.state().expect("it is kept");
            self.fabric.world.borrow_mut().put_back(state);
            self.go_to_beginning();
            return;
        }
        let built = self.fabric.begin(&mut self.root, build);
        assert!(self.root.is_kept(), "{NOT_REPEATABLE}");
        self.plant();
        self.go_to_beginning();
        self.add_instance(built);
    }

    /// Keeps the present moment, in place of what is there.
    pub fn save(&self, to: &mut Option<SavedExecution>) {
        let mut world = self.fabric.world.borrow_mut();
        world.serve_queue_pairs();
        match to {
            Some(saved) => {
                (*saved.state).clone_from(&world.state);
                saved.at.clone_from(&self.at);
            }
            None => *to = Some(SavedExecution { state: Box::new(world.state.clone()), at: self.at.clone() }),
        }
    }

    /// Goes back to what was saved. False if the cache is too full to go on: then another execution is to
    /// [begin](ProgramCache::begin), and what was saved is good for nothing any more.
    pub fn put_back(&mut self, saved: &SavedExecution) -> bool {
        let room = !self.is_full();
        if room {
            self.drop_given_up();
            self.fabric.world.borrow_mut().put_back(&saved.state);
            self.at.clone_from(&saved.at);
        }
        room
    }

    /// The trees have their roots, of the nodes' programs in their order, and nothing else.
    fn plant(&self) {
        let mut tree = Box::<CallTree>::default();
        for _ in 0..self.fabric.nodes() {
            tree.begin();
        }
        self.fabric.world.borrow_mut().recorder.tree = Some(tree);
    }

    /// The nodes' programs stand where the set-up has left them.
    fn go_to_beginning(&mut self) {
        self.at.clear();
        self.at.extend(CallTree::first_roots(self.fabric.nodes()));
    }

    fn is_full(&self) -> bool {
        self.fabric.world.borrow_mut().recorder.tree().len() > TREE_NODES
    }

    fn empty(&mut self) {
        self.drop_instances();
        self.questions.clear();
        self.answers.clear();
        self.stats.emptied += 1;
        self.plant();
    }

    fn drop_instances(&mut self) {
        self.given_up.append(&mut self.instances);
        self.drop_given_up();
    }

    /// Drops the instances that were given up. Destructors of their programs may call the fabric (a stream that is dropped tells
    /// its peer), and would do so in whatever execution is at hand, which is none of theirs. So this is done where its state is
    /// about to be replaced, and nowhere else.
    fn drop_given_up(&mut self) {
        let given_up = std::mem::take(&mut self.given_up);
        if !given_up.is_empty() {
            self.fabric.discard(|| drop(given_up));
        }
    }

    /// [`Fabric::take`], where nodes' programs are memoised. `build` is the set-up again.
    ///
    /// # Errors
    ///
    /// The event is not enabled, or cannot go that way.
    pub fn take(
        &mut self,
        event: EventId,
        outcome: Outcome,
        touched: Option<&mut Footprint>,
        build: impl FnOnce() -> T,
    ) -> Result<Taken, NotEnabled> {
        let fabric = self.fabric.clone();
        fabric.take_with(event, outcome, touched, |node| self.step(node, build))
    }

    fn step(&mut self, node: NodeId, build: impl FnOnce() -> T) {
        self.stats.steps += 1;
        let at = &mut self.at[node.index()];
        let (to, park) = self.fabric.world.borrow_mut().run_memoised(*at);
        *at = to;
        let park = park.unwrap_or_else(|| self.learn(node, build));
        self.fabric.world.borrow_mut().end_step(node, park);
    }

    /// A step of which nobody has seen how it goes on: the program runs it.
    fn learn(&mut self, node: NodeId, build: impl FnOnce() -> T) -> Park {
        let to = self.at[node.index()];
        self.stats.learned += 1;
        let index = self.instance(node, to, build);
        let ProgramCache { fabric, instances, stats, .. } = self;
        let Instance { programs, at, .. } = &mut instances[index];
        let program = programs[node.index()].as_mut().expect(ENDED);
        fabric.world.borrow_mut().recorder.retrace(at[node.index()], to);
        loop {
            let park = program.step();
            let ended = fabric.world.borrow_mut().recorder.step_ended(park);
            if let Some(to) = ended {
                fabric.set_mode(Mode::Direct);
                (self.at[node.index()], at[node.index()]) = (to, to);
                return park;
            }
            stats.retraced += 1;
        }
    }

    /// Asks something of what a node's program knows, between two steps. Questions are told apart by their numbers.
    /// Whatever one asks of the fabric is asked each time.
    pub fn ask(
        &mut self,
        node: NodeId,
        number: u8,
        build: impl FnOnce() -> T,
        question: impl FnOnce(&T) -> E,
    ) -> &E {
        let now = self.at[node.index()];
        let fabric = self.fabric.clone();
        let begin = || fabric.world.borrow_mut().recorder.tree().begin();
        let first = *self.questions.entry((number, now)).or_insert_with(begin);
        let (mut to, _) = fabric.world.borrow_mut().run_memoised(first);
        if !self.answers.contains_key(&to) {
            let index = self.instance(node, now, build);
            self.bring(index, node, now);
            fabric.world.borrow_mut().recorder.retrace(first, to);
            let answer = question(&self.instances[index].built);
            to = fabric.world.borrow_mut().recorder.reached();
            fabric.set_mode(Mode::Direct);
            self.answers.insert(to, answer);
        }
        &self.answers[&to]
    }

    /// Brings an instance's program to a node of its tree between two steps.
    fn bring(&mut self, index: usize, node: NodeId, to: TreeNode) {
        let ProgramCache { fabric, instances, stats, .. } = self;
        let Instance { programs, at, .. } = &mut instances[index];
        let program = programs[node.index()].as_mut().expect(ENDED);
        let from = std::mem::replace(&mut at[node.index()], to);
        fabric.world.borrow_mut().recorder.retrace(from, to);
        while !fabric.world.borrow_mut().recorder.is_retraced() {
            let park = program.step();
            fabric.world.borrow_mut().recorder.step_ended(park);
            stats.retraced += 1;
        }
        fabric.set_mode(Mode::Direct);
    }

    /// The instance whose program of a node comes soonest to a node of its tree.
    fn instance(&mut self, node: NodeId, to: TreeNode, build: impl FnOnce() -> T) -> usize {
        self.needed += 1;
        let found = {
            let mut world = self.fabric.world.borrow_mut();
            let tree = world.recorder.tree();
            let instances = self.instances.iter().enumerate();
            let able = instances.filter(|(_, instance)| tree.leads(instance.at[node.index()], to));
            able.max_by_key(|(_, instance)| tree.depth(instance.at[node.index()])).map(|(index, _)| index)
        };
        let index = found.unwrap_or_else(|| self.make(build));
        self.instances[index].used = self.needed;
        index
    }

    fn make(&mut self, build: impl FnOnce() -> T) -> usize {
        if self.instances.len() == INSTANCES {
            let oldest = (0..INSTANCES).min_by_key(|&index| self.instances[index].used);
            let oldest = self.instances.swap_remove(oldest.expect("there are some"));
            self.given_up.push(oldest);
        }
        let built = self.fabric.replay(&mut self.root, build);
        self.add_instance(built);
        self.instances.len() - 1
    }

    /// Another instance: of the programs that a set-up has mounted.
    fn add_instance(&mut self, built: T) {
        self.stats.set_ups += 1;
        let at = CallTree::first_roots(self.fabric.nodes()).collect();
        self.instances.push(Instance { built, programs: self.fabric.take_programs(), at, used: 0 });
    }
}

const ENDED: &str = "memoised programs do not end: the model of one that does is not memoisable";

impl<T, E> Drop for ProgramCache<T, E> {
    fn drop(&mut self) {
        self.drop_instances();
        self.fabric.world.borrow_mut().recorder.tree = None;
    }
}
