//! Programs that are known by heart: what one was seen to do is done for it, and it runs only where nobody has seen what
//! it does next.
//!
//! An explorer runs the same programs tens of thousands of times a second, from the same beginning, and most of what
//! they do they have done before. Programs cannot be copied, but they are deterministic: see
//! [`known`](crate::world::Known). So executions need the fabric's state alone, which can be copied; and a program that
//! is missing is made and brought to where it is needed by the answers that lead there.

use super::{Fabric, Root};
use crate::NodeId;
use crate::choice::EventId;
use crate::explore::{Footprint, NotEnabled, Outcome, Snapshot, Taken};
use crate::world::{Known, Moment, Tape, World};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::rc::{Rc, Weak};
use weft_verbs::{Node, Park};

/// The executions of one set-up, whose programs are known by heart.
///
/// `T` is what a set-up makes besides its programs, and `E` what a node answers if it is asked. What programs do must
/// depend on their own node's answers only: what they share with each other outside of the fabric they may tell
/// ([`Asides`]) and not ask. They bring no memory of their own, claim none, and neither end nor restart.
pub struct Repertoire<T, E> {
    fabric: Fabric,
    root: Root,
    companies: Vec<Company<T>>,
    /// How often a company was needed.
    needed: u64,
    /// Where the questions to a node begin, by their number: what they ask of the fabric is known, too.
    questions: HashMap<(u8, Moment), Moment>,
    /// Their answers.
    answers: HashMap<Moment, E>,
    /// What it took.
    stats: RepertoireStats,
}

/// How often programs had to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepertoireStats {
    /// Steps of programs.
    pub steps: u64,
    /// Set-ups that were made to have programs.
    pub set_ups: u64,
    /// Those of the steps that programs ran, because it was not known what they do.
    pub learned: u64,
    /// Steps that programs repeated, to come to where they were needed.
    pub repeated: u64,
    /// How often all was forgotten, for want of room.
    pub forgotten: u64,
}

/// Programs of all nodes, each at some moment of its life.
struct Company<T> {
    built: T,
    programs: Vec<Option<Box<dyn Node>>>,
    at: Vec<Moment>,
    /// When it was needed last.
    used: u64,
}

/// Most companies that are kept. Each is good for the moments after those at which its programs stand.
const COMPANIES: usize = 24;

/// Most moments that are kept: of some 250 bytes each.
const MOMENTS: usize = 1 << 22;

impl<T, E> fmt::Debug for Repertoire<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repertoire").field("stats", &self.stats).finish_non_exhaustive()
    }
}

impl<T, E> Repertoire<T, E> {
    /// Executions of an [untimed](crate::Order::Untimed) fabric that begin at a root. A fabric has one repertoire at a time.
    pub fn new(fabric: &Fabric, root: Root) -> Repertoire<T, E> {
        Repertoire {
            fabric: fabric.clone(),
            root,
            companies: Vec::new(),
            needed: 0,
            questions: HashMap::new(),
            answers: HashMap::new(),
            stats: RepertoireStats::default(),
        }
    }

    /// What it took so far.
    pub fn stats(&self) -> RepertoireStats {
        self.stats
    }

    /// Begins an execution. `build` is the set-up, as for [`Fabric::begin`].
    ///
    /// # Panics
    ///
    /// If the set-up does something that cannot be repeated.
    pub fn begin(&mut self, build: impl FnOnce() -> T) {
        if let Some(state) = self.root.state() {
            self.fabric.world.borrow_mut().put_back(state);
            if self.fabric.known(|known| known.len()) > MOMENTS {
                self.forget();
            }
            return;
        }
        let built = self.fabric.begin(&mut self.root, build);
        let at = self.starts();
        self.root.with_state(|state| state.untimed.set_moments(&at));
        self.fabric.world.borrow_mut().state.untimed.set_moments(&at);
        self.found(built, at);
    }

    /// Keeps the present state, in place of what is there.
    pub fn save(&self, to: &mut Option<Snapshot>) {
        let mut world = self.fabric.world.borrow_mut();
        world.take_turns();
        match to {
            Some(Snapshot(state)) => (**state).clone_from(&world.state),
            None => *to = Some(Snapshot(Box::new(world.state.clone()))),
        }
    }

    /// Puts back a state that was saved. False if too much is known to go on: then another execution is to
    /// [begin](Repertoire::begin), and what was saved is good for nothing any more.
    pub fn put_back(&mut self, Snapshot(state): &Snapshot) -> bool {
        let room = self.fabric.known(|known| known.len()) <= MOMENTS;
        if room {
            self.fabric.world.borrow_mut().put_back(state);
        }
        room
    }

    /// The first moments of the nodes' programs, and nothing else, are known.
    fn starts(&self) -> Vec<Moment> {
        let mut known = Box::<Known>::default();
        let starts = (0..self.fabric.nodes()).map(|_| known.begin()).collect();
        self.fabric.world.borrow_mut().known = Some(known);
        starts
    }

    fn forget(&mut self) {
        self.disband();
        self.questions.clear();
        self.answers.clear();
        self.stats.forgotten += 1;
        // These are the moments that the root's state has.
        self.starts();
    }

    fn disband(&mut self) {
        let companies = std::mem::take(&mut self.companies);
        self.fabric.dropping(|| drop(companies));
    }

    /// [`Fabric::take`], where nodes' programs are known by heart. `build` is the set-up again.
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
        let recalled = self.fabric.world.borrow_mut().recall_step(node);
        let park = recalled.unwrap_or_else(|| self.learn(node, build));
        self.fabric.world.borrow_mut().end_step(node, park);
    }

    /// A step of which nobody has seen how it goes on: the program runs it.
    fn learn(&mut self, node: NodeId, build: impl FnOnce() -> T) -> Park {
        let to = *self.fabric.world.borrow_mut().moment(node);
        self.stats.learned += 1;
        let company = self.company(node, to, build);
        let Repertoire { fabric, companies, stats, .. } = self;
        let Company { programs, at, .. } = &mut companies[company];
        let program = programs[node.index()].as_mut().expect("programs do not end");
        fabric.repeat_from(at[node.index()], to);
        loop {
            let park = program.step();
            let mut world = fabric.world.borrow_mut();
            if let Some(moment) = world.waited(park) {
                world.tape = Tape::Off;
                *world.moment(node) = moment;
                at[node.index()] = moment;
                return park;
            }
            stats.repeated += 1;
        }
    }

    /// Asks something of what a node's program knows at its present moment, between two steps. Questions are told apart by
    /// their numbers. Whatever one asks of the fabric is asked each time.
    pub fn ask(
        &mut self,
        node: NodeId,
        number: u8,
        build: impl FnOnce() -> T,
        question: impl FnOnce(&T) -> E,
    ) -> &E {
        let now = *self.fabric.world.borrow_mut().moment(node);
        let fabric = self.fabric.clone();
        let first = *self.questions.entry((number, now)).or_insert_with(|| fabric.known(Known::begin));
        let (mut to, _) = fabric.world.borrow_mut().recall(first);
        if !self.answers.contains_key(&to) {
            let company = self.company(node, now, build);
            self.bring(company, node, now);
            fabric.repeat_from(first, to);
            let answer = question(&self.companies[company].built);
            let mut world = fabric.world.borrow_mut();
            to = world.reached();
            world.tape = Tape::Off;
            self.answers.insert(to, answer);
        }
        &self.answers[&to]
    }

    /// Brings a company's program to a moment between two steps.
    fn bring(&mut self, company: usize, node: NodeId, to: Moment) {
        let Repertoire { fabric, companies, stats, .. } = self;
        let Company { programs, at, .. } = &mut companies[company];
        let program = programs[node.index()].as_mut().expect("programs do not end");
        let from = std::mem::replace(&mut at[node.index()], to);
        fabric.repeat_from(from, to);
        while !fabric.world.borrow_mut().is_repeated() {
            let park = program.step();
            fabric.world.borrow_mut().waited(park);
            stats.repeated += 1;
        }
        fabric.world.borrow_mut().tape = Tape::Off;
    }

    /// The company whose program of a node comes soonest to a moment.
    fn company(&mut self, node: NodeId, to: Moment, build: impl FnOnce() -> T) -> usize {
        self.needed += 1;
        let found = self.fabric.known(|known| {
            let companies = self.companies.iter().enumerate();
            let able = companies.filter(|(_, company)| known.leads(company.at[node.index()], to));
            able.max_by_key(|(_, company)| known.depth(company.at[node.index()])).map(|(index, _)| index)
        });
        let index = found.unwrap_or_else(|| self.make(build));
        self.companies[index].used = self.needed;
        index
    }

    fn make(&mut self, build: impl FnOnce() -> T) -> usize {
        if self.companies.len() == COMPANIES {
            let oldest = (0..COMPANIES).min_by_key(|&index| self.companies[index].used);
            let oldest = self.companies.swap_remove(oldest.expect("there are some"));
            self.fabric.dropping(|| drop(oldest));
        }
        let built = self.fabric.play(&mut self.root, build);
        let at = self.root.with_state(|state| state.untimed.moments());
        self.found(built, at);
        self.companies.len() - 1
    }

    /// Another company: of the programs that a set-up has mounted.
    fn found(&mut self, built: T, at: Vec<Moment>) {
        self.stats.set_ups += 1;
        self.companies.push(Company { built, programs: self.fabric.take_programs(), at, used: 0 });
    }
}

impl<T, E> Drop for Repertoire<T, E> {
    fn drop(&mut self) {
        self.disband();
        self.fabric.world.borrow_mut().known = None;
    }
}

impl Fabric {
    fn known<A>(&self, look: impl FnOnce(&mut Known) -> A) -> A {
        look(self.world.borrow_mut().known.as_mut().expect("a repertoire is in use"))
    }

    /// The next calls are answered as the way from one moment to another says, and after that made and learned.
    fn repeat_from(&self, from: Moment, to: Moment) {
        let path = self.known(|known| known.path(from, to));
        self.world.borrow_mut().tape = Tape::Repeating { from, path, next: 0 };
    }

    fn take_programs(&self) -> Vec<Option<Box<dyn Node>>> {
        self.programs.borrow_mut().iter_mut().map(Option::take).collect()
    }

    /// What programs say past the fabric.
    pub fn asides(&self) -> Asides {
        Asides { world: Rc::downgrade(&self.world) }
    }
}

/// What programs say to those who watch, past the fabric, and what no program hears: to oracles, say.
///
/// A program that is known by heart says it each time that it comes to where it said it.
#[derive(Clone)]
pub struct Asides {
    world: Weak<RefCell<World>>,
}

impl fmt::Debug for Asides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asides")
    }
}

impl Asides {
    /// Says something: carried out now, and whenever the same program says it again.
    pub fn say(&self, what: impl Fn() + 'static) {
        let Some(world) = self.world.upgrade() else { return what() };
        if !world.borrow_mut().is_said() {
            return;
        }
        what();
        world.borrow_mut().said(what);
    }
}
