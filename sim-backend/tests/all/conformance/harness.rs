//! The conformance suite's harness over the simulated fabric.

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use weft_sim::choice::Seeded;
use weft_sim::fault::{self, Op, Rule, RuleId, Verdict};
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, Jitter, Keys, NodeId, RunEnd, Sim, sanitizer};
use weft_verbs::conformance::{Act, Fault, FaultId, Harness, HarnessCaps, Machine, PacketClass, Timing};
use weft_verbs::{Caps, Nanos, Node, PinnedMemory};

/// A world at a time, and the faults that are in force in it.
pub struct SimHarness {
    profile: Profile,
    timing: Timing,
    fabric: Fabric,
    /// Time that passed while nothing was pending: a fabric's own clock stands still then.
    skipped: Nanos,
    faults: Vec<Injected>,
    /// Capabilities that it denies, and whether it loses every packet: to test the suite itself.
    denied: HarnessCaps,
    dead: bool,
    /// Added to every seed: other orders of simultaneous events, other timers.
    shift: u64,
    jitter: Jitter,
    keys: Keys,
    atomics: bool,
    /// Rules of the sanitizer that were broken in earlier worlds.
    broken: Vec<sanitizer::Rule>,
}

/// A fault as the fabric knows it.
enum Injected {
    Rules(Vec<RuleId>),
    Planned,
    /// Healed, having struck so many packets.
    Over(u64),
}

impl SimHarness {
    /// A harness with the costs of a built-in profile, under which a small message's way there and back takes
    /// no longer than `round_trip`.
    pub fn new(profile: &str, round_trip: Nanos, seeds: u64) -> SimHarness {
        let profile = Profile::builtin(profile).expect("a built-in profile");
        let timing = Timing { round_trip, timeout: Nanos::from_secs(20), seeds };
        let fabric = world(&profile, 1, 0, |_| {}).expect("a world of one node");
        SimHarness {
            profile,
            timing,
            fabric,
            skipped: Nanos::ZERO,
            faults: Vec::new(),
            denied: HarnessCaps::empty(),
            dead: false,
            shift: 0,
            jitter: Jitter::NONE,
            keys: Keys::Rest,
            atomics: true,
            broken: Vec::new(),
        }
    }

    /// The same with other answers to everything that is left open.
    pub fn shifted(self, shift: u64) -> SimHarness {
        SimHarness { shift, ..self }
    }

    /// The same with latencies that vary.
    pub fn with(self, jitter: Jitter) -> SimHarness {
        SimHarness { jitter, ..self }
    }

    /// The same with adapters that give out keys so.
    pub fn with_keys(self, keys: Keys) -> SimHarness {
        SimHarness { keys, ..self }
    }

    /// The same with adapters that have no remote atomics.
    pub fn without_atomics(self) -> SimHarness {
        SimHarness { atomics: false, ..self }
    }

    /// The same without some capabilities.
    pub fn without(self, denied: HarnessCaps) -> SimHarness {
        SimHarness { denied, ..self }
    }

    /// The same on a fabric that carries nothing, whatever it says of itself.
    pub fn dead(self) -> SimHarness {
        SimHarness { dead: true, ..self }
    }

    /// The sanitizer's rules that were broken in any of its worlds.
    pub fn broken(mut self) -> Vec<sanitizer::Rule> {
        self.broken.append(&mut self.broken_now());
        self.broken.sort_unstable();
        self.broken.dedup();
        self.broken
    }

    fn broken_now(&self) -> Vec<sanitizer::Rule> {
        self.fabric.violations().iter().map(|violation| violation.rule).collect()
    }

    fn install(&mut self, rules: Vec<Rule>) -> Injected {
        Injected::Rules(self.fabric.rules(|list| rules.into_iter().map(|rule| list.push(rule)).collect()))
    }
}

/// Ports of each of a node's two adapters.
const PORTS: u8 = 2;

fn world(
    profile: &Profile,
    nodes: u32,
    seed: u64,
    change: impl FnOnce(&mut Config),
) -> Result<Fabric, String> {
    let mut config = Config { devices: 2, ports: PORTS, ..Config::new(nodes, profile.clone()) };
    change(&mut config);
    Fabric::new(config, Box::new(Seeded::new(seed))).map_err(|e| e.to_string())
}

fn node(index: usize) -> NodeId {
    NodeId(index as u32)
}

impl Harness for SimHarness {
    type V = Sim;

    fn capabilities(&self) -> Caps {
        let disk = if self.profile.disk.is_some() { Caps::DISK } else { Caps::empty() };
        let atomics = if self.atomics { Caps::ATOMICS } else { Caps::empty() };
        disk | atomics
            | Caps::UD
            | Caps::SRQ
            | Caps::APM
            | Caps::MULTI_PORT
            | Caps::BROUGHT_MEMORY
            | Caps::CQ_RESIZE
            | Caps::SOLICITED
            | Caps::SQD
            | Caps::OUT_OF_BAND
            | Caps::QP_EVENTS
    }

    fn harness_caps(&self) -> HarnessCaps {
        HarnessCaps::all() - self.denied
    }

    fn timing(&self) -> Timing {
        self.timing
    }

    fn start(&mut self, nodes: usize, seed: u64) -> Result<Vec<Machine<Sim>>, String> {
        self.broken.append(&mut self.broken_now());
        let seed = seed.wrapping_add(self.shift);
        let SimHarness { jitter, keys, atomics, .. } = *self;
        self.fabric = world(&self.profile, nodes as u32, seed, |config| {
            (config.jitter, config.keys, config.atomics) = (jitter, keys, atomics);
        })?;
        self.skipped = Nanos::ZERO;
        self.faults.clear();
        if self.dead {
            self.fabric.rules(|list| list.push(Rule::new(Verdict::Drop)));
        }
        let machine = |n: usize| {
            let [device, other] = self.fabric.devices(node(n)).try_into().expect("two devices");
            let name = format!("n{n}.{}", PORTS + 1);
            let second = Some(Box::new(Machine { name, device: other, port: 1, gid_index: 0, second: None }));
            Machine { name: format!("n{n}"), device, port: 1, gid_index: 0, second }
        };
        Ok((0..nodes).map(machine).collect())
    }

    fn now(&self) -> Nanos {
        self.fabric.now() + self.skipped
    }

    fn advance(&mut self, span: Nanos) {
        let until = self.fabric.now() + span;
        loop {
            let before = self.fabric.now();
            match self.fabric.run_until(until) {
                RunEnd::Reached => return,
                // A program has ended just now, and the rest of the world goes on.
                RunEnd::AllDone if self.fabric.now() > before => {}
                RunEnd::AllDone | RunEnd::Idle => break,
            }
        }
        self.skipped += until - self.fabric.now();
    }

    fn inject(&mut self, fault: &Fault) -> Option<FaultId> {
        let injected = match *fault {
            Fault::Strike { from, to, class, skip, count, act } => {
                self.install(strike(from, to, class, skip, count, act)?)
            }
            Fault::Cut { a, b } => self.install(both_ways(a, b, |way| vec![way(Verdict::Drop)])),
            Fault::Noise { a, b, loss, duplicate, delay, at_most, seed: _ } => {
                self.install(both_ways(a, b, |way| noise(way, loss, duplicate, delay, at_most)))
            }
            Fault::PortDown { node: n, device, port } => {
                let port = device as u8 * PORTS + port;
                let fault = fault::Fault::PortDown { node: node(n), port, lasts: None };
                self.fabric.plan(Nanos::ZERO, fault).ok()?;
                Injected::Planned
            }
        };
        self.faults.push(injected);
        Some(FaultId(self.faults.len() as u64 - 1))
    }

    fn struck(&self, fault: FaultId) -> u64 {
        match &self.faults[fault.0 as usize] {
            Injected::Rules(rules) => {
                self.fabric.rules(|list| rules.iter().filter_map(|rule| list.struck(*rule)).sum())
            }
            Injected::Planned => self.fabric.faults().iter().map(|record| record.packets_hit).sum(),
            Injected::Over(struck) => *struck,
        }
    }

    fn heal(&mut self, fault: FaultId) {
        let struck = self.struck(fault);
        match std::mem::replace(&mut self.faults[fault.0 as usize], Injected::Over(struck)) {
            Injected::Rules(rules) => self.fabric.rules(|list| {
                for rule in rules {
                    list.remove(rule);
                }
            }),
            Injected::Planned => self.fabric.stop_faults(),
            Injected::Over(_) => {}
        }
    }

    fn mount(&mut self, n: usize, program: Box<dyn Node>) -> bool {
        self.fabric.mount(node(n), program);
        true
    }

    fn brought_memory(&mut self, len: usize) -> Option<Box<dyn PinnedMemory>> {
        Some(Box::new(Pages(vec![0u64; len.div_ceil(8)].into_iter().map(UnsafeCell::new).collect(), len)))
    }
}

/// One rule for each class of the fabric that the suite's class stands for. Counting is a rule's own, so several
/// rules can only strike everything.
fn strike(from: usize, to: usize, class: PacketClass, skip: u64, count: u64, act: Act) -> Option<Vec<Rule>> {
    use fault::PacketClass as Fabric;
    let verdict = match act {
        Act::Pass => Verdict::Pass,
        Act::Drop => Verdict::Drop,
        Act::Duplicate => Verdict::Duplicate,
        Act::Delay(late) => Verdict::Delay(late),
        Act::Shorten => Verdict::Shorten,
    };
    let rule = Rule::new(verdict).src(node(from)).dst(node(to)).after(skip).times(count);
    let atomic = |op| rule.class(Fabric::Request).op(op);
    let rules = match class {
        PacketClass::Any => {
            let all = [
                Fabric::Request,
                Fabric::Ack,
                Fabric::Nak,
                Fabric::Rnr,
                Fabric::ReadResponse,
                Fabric::AtomicResponse,
                Fabric::Datagram,
            ];
            all.map(|class| rule.class(class)).to_vec()
        }
        PacketClass::AtomicRequest => vec![atomic(Op::CompareSwap), atomic(Op::FetchAdd)],
        PacketClass::Request => vec![rule.class(Fabric::Request)],
        PacketClass::Ack => vec![rule.class(Fabric::Ack)],
        PacketClass::Nak => vec![rule.class(Fabric::Nak)],
        PacketClass::Rnr => vec![rule.class(Fabric::Rnr)],
        PacketClass::ReadResponse => vec![rule.class(Fabric::ReadResponse)],
        PacketClass::AtomicResponse => vec![rule.class(Fabric::AtomicResponse)],
        PacketClass::Cm => vec![rule.class(Fabric::Cm)],
    };
    (rules.len() == 1 || (skip, count) == (0, u64::MAX)).then_some(rules)
}

/// Rules for both directions between two nodes.
fn both_ways(a: usize, b: usize, rules: impl Fn(&dyn Fn(Verdict) -> Rule) -> Vec<Rule>) -> Vec<Rule> {
    let way = |from, to| rules(&move |verdict| Rule::new(verdict).src(node(from)).dst(node(to)));
    [way(a, b), way(b, a)].concat()
}

/// Loss, duplication, and delays of eight lengths.
fn noise(way: &dyn Fn(Verdict) -> Rule, loss: u32, duplicate: u32, delay: u32, at_most: Nanos) -> Vec<Rule> {
    let mut rules = vec![way(Verdict::Drop).ppm(loss), way(Verdict::Duplicate).ppm(duplicate)];
    rules.extend((1..=8).map(|eighth| way(Verdict::Delay(at_most * eighth / 8)).ppm(delay / 8)));
    rules
}

/// Memory that an application brings.
struct Pages(Box<[UnsafeCell<u64>]>, usize);

// SAFETY: the boxed cells do not move while this value lives, are valid for reads and writes, and nothing else
// refers to them: the box is private and hands out no reference.
#[allow(unsafe_code, reason = "an application's promise about the memory that it brings")]
unsafe impl PinnedMemory for Pages {
    fn ptr(&self) -> NonNull<u8> {
        NonNull::from(&*self.0).cast()
    }

    fn len(&self) -> usize {
        self.1
    }
}
