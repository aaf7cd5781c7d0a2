//! The fabric: one world and the programs that run in it.

mod explorer;

use crate::NodeId;
use crate::choice::Choice;
use crate::config::{Config, ConfigError, MAX_DEVICES, MAX_NODES, MAX_PORTS, MAX_UNTIMED_PORTS, Order};
use crate::fault::{Fault, FaultError, FaultId, FaultRecord, Rules};
use crate::hca::HcaId;
use crate::log::Log;
use crate::sanitizer::Violation;
use crate::stats::Stats;
use crate::verbs::{SimDevice, WorldRef};
use crate::world::{Happened, World};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::task::Waker;
use weft_verbs::{Nanos, Node, ObjectName, Park, PinnedMemory, Wait};

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
    pub(crate) world: WorldRef,
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
        self.world.borrow_mut().call(move |world| world.program_mounted(node));
    }

    /// Has a node's program stepped although nothing on its machine asks for it: an application of the node has work
    /// for it, say. Ignored for a node that is not there, has crashed, or whose program has ended.
    pub fn nudge(&self, node: NodeId) {
        let mut world = self.world.borrow_mut();
        if node.index() < world.state.machines.len() {
            world.call(move |world| world.program_nudged(node));
        }
    }

    /// The virtual time.
    pub fn now(&self) -> Nanos {
        self.world.borrow().state.now
    }

    /// When the next event is due, if one is pending: before that nothing happens by itself. None where [no time
    /// passes](Order::Untimed).
    pub fn due(&self) -> Option<Nanos> {
        self.world.borrow().due()
    }

    /// Lets everything happen that is due by `until`, and moves the time there.
    ///
    /// Ends early when every mounted program has ended (and at least one was mounted); the time stays where it is
    /// then. Says when nothing is pending any more. Must not be called from a program's step.
    pub fn run_until(&self, until: Nanos) -> RunEnd {
        self.run_events(u64::MAX, until)
    }

    /// The same, and ends early after so many events: the time stays where it is then.
    pub fn run_events(&self, most: u64, until: Nanos) -> RunEnd {
        for _ in 0..most {
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
        RunEnd::Reached
    }

    pub(crate) fn take_programs(&self) -> Vec<Option<Box<dyn Node>>> {
        self.programs.borrow_mut().iter_mut().map(Option::take).collect()
    }

    pub(crate) fn drop_program(&self, node: NodeId) {
        let program = self.programs.borrow_mut()[node.index()].take();
        drop(program);
    }

    /// Takes the programs away, whose handles destroy nothing.
    pub(crate) fn drop_programs(&self) {
        self.discard(|| (0..self.nodes()).for_each(|node| self.drop_program(NodeId(node))));
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
    pub(crate) fn step(&self, node: NodeId) -> bool {
        let Some(park) = self.run_program(node) else { return false };
        self.world.borrow_mut().end_step(node, park);
        park == Park::Done
    }

    /// Runs a node's program for one step, if it has one.
    pub(crate) fn run_program(&self, node: NodeId) -> Option<Park> {
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
    pub(crate) fn release(&self) {
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

    /// Breaks or mends a node's disk: while it is broken, every transfer, sync, resize and removal ends in an error
    /// (EIO). Ignored for a node that is not there.
    pub fn break_disk(&self, node: NodeId, broken: bool) {
        self.world.borrow_mut().break_disk(node, broken);
    }

    /// What a node's disk would have if its machine crashed now: its objects with all of their bytes. Of what was not synced, the
    /// seed draws whether each sector is kept. Nothing of a node that is not there.
    pub fn disk_after_crash(&self, node: NodeId, seed: u64) -> Vec<(ObjectName, Vec<u8>)> {
        self.world.borrow().disk_after_crash(node, seed)
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
    /// if it does not [watch](Config::sanitize). Of a fabric whose violations nobody has asked for when it is dropped, a
    /// build with debug assertions, such as a test's, panics.
    pub fn violations(&self) -> Vec<Violation> {
        self.violations_found();
        self.world.borrow_mut().state.access.sanitizer().map_or(Vec::new(), |s| s.violations().to_vec())
    }

    /// How many violations the sanitizer found, those that it did not keep included.
    pub fn violations_found(&self) -> u64 {
        let mut world = self.world.borrow_mut();
        let found = world.state.access.sanitizer().map_or(0, |s| s.total());
        world.violations_read = found;
        found
    }

    /// The first violation, if more were found than anybody has asked for.
    fn unread_violation(&self) -> Option<Violation> {
        let mut world = self.world.borrow_mut();
        let read = world.violations_read;
        let sanitizer = world.state.access.sanitizer().filter(|sanitizer| sanitizer.total() > read)?;
        sanitizer.violations().first().copied()
    }

    /// The counters, and what is alive.
    pub fn stats(&self) -> Stats {
        self.world.borrow().stats()
    }

    /// How many packets were sent again, and how many time-outs of acknowledgements there were: [`Stats`] without the rest, for who
    /// asks in every state.
    pub fn sent_again(&self) -> (u64, u64) {
        let Stats { retransmitted, timeouts, .. } = self.world.borrow().state.stats;
        (retransmitted, timeouts)
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
            if cfg!(debug_assertions)
                && !std::thread::panicking()
                && let Some(violation) = self.unread_violation()
            {
                panic!("the sanitizer found what nobody asked for (Fabric::violations): {violation}");
            }
        }
    }
}
