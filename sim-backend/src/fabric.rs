//! The fabric: one world and the programs that run in it.

mod repertoire;
mod root;

pub use repertoire::{Asides, Repertoire, RepertoireStats};
pub use root::Root;

use crate::NodeId;
use crate::choice::Choice;
use crate::choice::EventId;
use crate::config::{Config, ConfigError, MAX_DEVICES, MAX_NODES, MAX_PORTS, MAX_UNTIMED_PORTS, Order};
use crate::explore::{Enabled, Footprint, NotEnabled, Outcome, Policy, Snapshot, Taken, Underway};
use crate::fault::{Fault, FaultError, FaultId, FaultRecord, Rules};
use crate::hca::HcaId;
use crate::log::Log;
use crate::sanitizer::Violation;
use crate::stats::Stats;
use crate::verbs::{SimDevice, WorldRef};
use crate::world::{Answer, Happened, World};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::task::Waker;
use weft_verbs::{Nanos, Node, Park, PinnedMemory, QpNum, Wait};

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// Every mounted program has ended.
    AllDone,
    /// Nothing is pending: nothing will ever happen again by itself.
    Idle,
    /// The time has come.
    Reached,
}

type Programs = Rc<RefCell<Vec<Option<Box<dyn Node>>>>>;

/// A simulated cluster. Clones are the same one.
///
/// Worlds are independent of each other: a thread can hold many.
#[derive(Clone)]
pub struct Fabric {
    world: WorldRef,
    /// Beside the world and not in it: programs hold handles, and handles hold the world.
    programs: Programs,
}

impl fmt::Debug for Fabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fabric").field("now", &self.now()).finish_non_exhaustive()
    }
}

impl Fabric {
    /// A cluster at time 0. Every question that a run leaves open is put to `choice`.
    pub fn new(config: Config, choice: Box<dyn Choice>) -> Result<Fabric, ConfigError> {
        if !(1..=MAX_NODES).contains(&config.nodes) {
            return Err(ConfigError::Nodes(config.nodes));
        }
        if !(1..=MAX_DEVICES).contains(&config.devices) {
            return Err(ConfigError::Devices(config.devices));
        }
        if !(1..=MAX_PORTS).contains(&config.ports) {
            return Err(ConfigError::Ports(config.ports));
        }
        let ports = config.nodes * u32::from(config.devices) * u32::from(config.ports);
        if config.order == Order::Untimed && ports > MAX_UNTIMED_PORTS {
            return Err(ConfigError::Untimed(ports));
        }
        let programs = (0..config.nodes).map(|_| None).collect();
        Ok(Fabric {
            world: Rc::new(RefCell::new(World::new(&config, choice))),
            programs: Rc::new(RefCell::new(programs)),
        })
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.programs.borrow().len() as u32
    }

    /// A node's devices, `sim0` and so on; none for a node that is not there.
    pub fn devices(&self, node: NodeId) -> Vec<SimDevice> {
        if node.0 >= self.nodes() {
            return Vec::new();
        }
        let world = self.world.borrow();
        let device = |(hca, name): (HcaId, &Rc<str>)| SimDevice {
            world: self.world.clone(),
            node,
            hca,
            name: Rc::clone(name),
        };
        world.shape.hcas(node).zip(&world.device_names).map(device).collect()
    }

    /// Puts a program on a node, in place of the one that was there: it is stepped from now on. Ignored for a
    /// node that is not there or has crashed.
    pub fn mount(&self, node: NodeId, program: Box<dyn Node>) {
        if node.0 >= self.nodes() || self.world.borrow_mut().machine(node).crashed {
            return;
        }
        let before = self.programs.borrow_mut()[node.index()].replace(program);
        drop(before);
        let mut world = self.world.borrow_mut();
        if !world.is_playing() {
            world.program_mounted(node);
        }
    }

    /// Has a node's program stepped although nothing on its machine asks for it: an application of the node has work
    /// for it, say. Ignored for a node that is not there, has crashed, or whose program has ended.
    pub fn nudge(&self, node: NodeId) {
        let mut world = self.world.borrow_mut();
        if node.index() < world.state.machines.len() && !world.is_playing() {
            world.program_nudged(node);
        }
    }

    /// The virtual time.
    pub fn now(&self) -> Nanos {
        self.world.borrow().state.now
    }

    /// Lets everything happen that is due by `until`, and moves the time there.
    ///
    /// Ends early when every mounted program has ended (and at least one was mounted); the time stays where it is
    /// then. Says when nothing is pending any more. Must not be called from a program's step.
    pub fn run_until(&self, until: Nanos) -> RunEnd {
        loop {
            let happened = {
                let mut world = self.world.borrow_mut();
                match world.next_event(until) {
                    Some(event) => world.happen(event),
                    None => return self.pause(&mut world, until),
                }
            };
            match happened {
                Happened::Done => {}
                Happened::Step(node) => {
                    if self.step(node) && self.all_done() {
                        return RunEnd::AllDone;
                    }
                }
                Happened::Crashed(node) | Happened::Restarted(node) => self.drop_program(node),
            }
            self.release();
        }
    }

    /// What an [untimed](Order::Untimed) world offers from now on: see [`explore`](crate::explore).
    pub fn set_policy(&self, policy: Policy) {
        self.world.borrow_mut().state.untimed.policy = policy;
    }

    /// Lists everything that can happen next in an [untimed](Order::Untimed) world, in a deterministic order, in place
    /// of what was in the list. Nothing in any other world.
    pub fn enabled(&self, out: &mut Vec<Enabled>) {
        let mut world = self.world.borrow_mut();
        match world.untimed {
            true => world.enabled(out),
            false => out.clear(),
        }
    }

    /// Lets one of the enabled events happen, in one of the ways that it can, with the program's step if it is one.
    /// What it touched takes the place of what was in `touched`. Must not be called from a program's step.
    pub fn take(
        &self,
        event: EventId,
        outcome: Outcome,
        touched: Option<&mut Footprint>,
    ) -> Result<Taken, NotEnabled> {
        self.take_with(event, outcome, touched, |node| {
            self.step(node);
        })
    }

    /// The same, where somebody else steps programs.
    fn take_with(
        &self,
        event: EventId,
        outcome: Outcome,
        touched: Option<&mut Footprint>,
        step: impl FnOnce(NodeId),
    ) -> Result<Taken, NotEnabled> {
        let Some(print) = touched else { return self.take_unseen(event, outcome, step) };
        self.world.borrow_mut().begin_print(print);
        let taken = self.take_unseen(event, outcome, step);
        self.world.borrow_mut().end_print(print);
        taken
    }

    fn take_unseen(
        &self,
        event: EventId,
        outcome: Outcome,
        step: impl FnOnce(NodeId),
    ) -> Result<Taken, NotEnabled> {
        let happened = {
            let mut world = self.world.borrow_mut();
            if !world.untimed {
                return Err(NotEnabled { event, outcome });
            }
            world.take_turns();
            world.take(event, outcome)?
        };
        let mut taken = Taken::default();
        match happened {
            Happened::Done => {}
            Happened::Step(node) => {
                taken.stepped = Some(node);
                self.world.borrow_mut().keep(Answer::Stepped(node));
                step(node);
            }
            Happened::Crashed(node) => {
                taken.crashed = Some(node);
                self.drop_program(node);
            }
            Happened::Restarted(node) => {
                taken.restarted = Some(node);
                self.drop_program(node);
            }
        }
        self.world.borrow_mut().take_turns();
        self.release();
        Ok(taken)
    }

    /// The fabric as it is, without its programs.
    pub fn snapshot(&self) -> Snapshot {
        let mut world = self.world.borrow_mut();
        world.take_turns();
        Snapshot(Box::new(world.state.clone()))
    }

    /// A number for the state of an [untimed](Order::Untimed) world: the same whenever the same can happen from here on,
    /// and the same of it. Of a program it takes all that it has seen. Two different states of a world have the same number
    /// with a chance of 2^-128. 0 for any other world.
    pub fn fingerprint(&self) -> u128 {
        self.fingerprint_of(&[])
    }

    /// The same, where programs say what they still know: a number for each node, `None` for one that cannot say and
    /// counts by what it has seen. Whoever says it takes it upon himself that the same number means the same from here
    /// on, whatever the node's clock says and whatever names it has given to requests. What it has in memory that no
    /// peer may touch is then for it to tell, but for what posted requests read there.
    pub fn fingerprint_of(&self, contents: &[Option<u128>]) -> u128 {
        let mut sum = 0u128;
        self.digest(contents, |_, _, part| {
            sum =
                sum.rotate_left(1).wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(part);
        });
        sum
    }

    fn digest(&self, contents: &[Option<u128>], each: impl FnMut(&'static str, u32, u128)) {
        let mut world = self.world.borrow_mut();
        if world.untimed {
            world.take_turns();
            world.digest(contents, each);
        }
    }

    /// Send requests of a queue pair that have not ended, whatever its program has learned of it.
    pub fn unended_sends(&self, node: NodeId, qp: QpNum) -> u32 {
        self.world.borrow_mut().answer(move |world| world.unended_sends(node, qp))
    }

    /// How many bytes the n-th message has, from 0, that a queue pair has received and its program has not polled.
    pub fn arrived(&self, node: NodeId, qp: QpNum, n: usize) -> Option<u32> {
        self.world.borrow_mut().answer(move |world| world.arrived(node, qp, n))
    }

    /// Looks at what programs know. What their handles are asked meanwhile is nothing that the programs have seen.
    pub fn without_a_trace<A>(&self, look: impl FnOnce() -> A) -> A {
        let seen = self.world.borrow().state.untimed.seen();
        let answer = look();
        self.world.borrow_mut().state.untimed.set_seen(&seen);
        answer
    }

    /// The connection managers' messages that are under way in an untimed world: the event log tells of their sending only.
    pub fn underway(&self) -> Vec<Underway> {
        self.world.borrow().underway().collect()
    }

    /// The parts of the [fingerprint](Fabric::fingerprint), with their names: to see in what two states differ.
    pub fn fingerprint_parts(&self) -> Vec<(String, u128)> {
        self.fingerprint_parts_of(&[])
    }

    /// The parts of [`Fabric::fingerprint_of`].
    pub fn fingerprint_parts_of(&self, contents: &[Option<u128>]) -> Vec<(String, u128)> {
        let mut parts = Vec::new();
        self.digest(contents, |name, number, digest| parts.push((format!("{name} {number}"), digest)));
        parts
    }

    /// Takes the programs away and puts the fabric back as it was. What the programs' handles stood for is there again;
    /// their drop destroys nothing. Handles that are still held are good for what they were made for, if it was
    /// there then.
    pub fn reset_to(&self, root: &Snapshot) {
        self.drop_programs();
        self.world.borrow_mut().put_back(&root.0);
    }

    fn drop_program(&self, node: NodeId) {
        let program = self.programs.borrow_mut()[node.index()].take();
        drop(program);
    }

    /// Takes the programs away, whose handles destroy nothing.
    fn drop_programs(&self) {
        self.dropping(|| (0..self.nodes()).for_each(|node| self.drop_program(NodeId(node))));
    }

    fn dropping(&self, drop: impl FnOnce()) {
        self.world.borrow_mut().dropping = true;
        drop();
        self.world.borrow_mut().dropping = false;
    }

    fn pause(&self, world: &mut World, until: Nanos) -> RunEnd {
        let idle = world.is_idle();
        if idle && world.all_done() {
            return RunEnd::AllDone;
        }
        // Nothing happens until then. To wait for ever for nothing is to stay.
        if !(idle && until == Nanos::MAX) {
            world.state.now = world.state.now.max(until);
        }
        if idle { RunEnd::Idle } else { RunEnd::Reached }
    }

    /// Steps a node's program; whether it has ended with that.
    fn step(&self, node: NodeId) -> bool {
        let Some(park) = self.run_program(node) else { return false };
        self.world.borrow_mut().end_step(node, park);
        park == Park::Done
    }

    /// Runs a node's program for one step, if it has one.
    fn run_program(&self, node: NodeId) -> Option<Park> {
        // Taken out for the step: the program may mount another one, and drop handles, while it runs.
        let mut program = self.programs.borrow_mut()[node.index()].take()?;
        let park = program.step();
        if park == Park::Done {
            drop(program);
        } else {
            let mut programs = self.programs.borrow_mut();
            let place = &mut programs[node.index()];
            if place.is_none() {
                *place = Some(program);
            }
        }
        Some(park)
    }

    fn all_done(&self) -> bool {
        self.world.borrow().all_done()
    }

    /// Programs' own code runs outside of the world's borrow: the release of memory that they brought, and wakers.
    fn release(&self) {
        let mut world = self.world.borrow_mut();
        if world.brought.is_empty() && world.woken.is_empty() {
            return;
        }
        let brought: Vec<Rc<dyn PinnedMemory>> = std::mem::take(&mut world.brought);
        let woken = std::mem::take(&mut world.woken);
        drop(world);
        woken.into_iter().for_each(Waker::wake);
        drop(brought);
    }

    /// Plans a fault: it strikes then, or as soon as the world moves if that time is past.
    pub fn plan(&self, at: Nanos, fault: Fault) -> Result<FaultId, FaultError> {
        self.world.borrow_mut().plan(at, fault)
    }

    /// Every planned fault and what became of it.
    pub fn faults(&self) -> Vec<FaultRecord> {
        self.world.borrow().state.faults.records().to_vec()
    }

    /// Heals everything, cancels what is planned and takes the rules out. Crashed nodes stay so.
    pub fn stop_faults(&self) {
        self.world.borrow_mut().stop_faults();
    }

    /// Reads or changes the rules by which packets are disturbed.
    pub fn rules<T>(&self, change: impl FnOnce(&mut Rules) -> T) -> T {
        change(self.world.borrow_mut().state.faults.rules())
    }

    /// Replaces the event log: into a file, into memory, nowhere. The old one is handed back.
    pub fn set_log(&self, log: Log) -> Log {
        std::mem::replace(&mut self.world.borrow_mut().log, log)
    }

    /// Reads the event log, or takes its lines.
    pub fn log<T>(&self, read: impl FnOnce(&mut Log) -> T) -> T {
        read(&mut self.world.borrow_mut().log)
    }

    /// Takes the lines of a log that is kept in memory.
    pub fn take_log(&self) -> Vec<u8> {
        self.log(Log::take)
    }

    /// What the [sanitizer](crate::sanitizer) found, the first [`KEPT`](crate::sanitizer::KEPT) of it. Nothing
    /// if it does not [watch](Config::sanitize).
    pub fn violations(&self) -> Vec<Violation> {
        self.world.borrow_mut().state.access.sanitizer().map_or(Vec::new(), |s| s.violations().to_vec())
    }

    /// How many violations the sanitizer found, those that it did not keep included.
    pub fn violations_found(&self) -> u64 {
        self.world.borrow_mut().state.access.sanitizer().map_or(0, |s| s.total())
    }

    /// The counters, and what is alive.
    pub fn stats(&self) -> Stats {
        self.world.borrow().stats()
    }

    /// Whether a node has crashed and not been restarted.
    pub fn is_crashed(&self, node: NodeId) -> bool {
        self.world.borrow_mut().machine(node).crashed
    }

    /// Whether completions are queued on a node that its program has not polled.
    pub fn has_unpolled(&self, node: NodeId) -> bool {
        let world = self.world.borrow();
        let mut hcas = world.shape.hcas(node);
        hcas.any(|hca| world.state.hcas[hca.0 as usize].hw.completions.left(Wait::Poll))
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        // The last fabric takes its programs along; their handles find the world unborrowed.
        if Rc::strong_count(&self.programs) == 1 {
            let programs = std::mem::take(&mut *self.programs.borrow_mut());
            drop(programs);
        }
    }
}
