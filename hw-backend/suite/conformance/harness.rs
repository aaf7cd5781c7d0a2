//! The conformance suite's harness over Soft-RoCE: one machine with several cards, a device on each, and every frame
//! between them on its way through the hub outside.

use softroce::control::{Act as Do, Class, Remote, Request, Rule, Way};
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::time::{Duration, Instant};
use weft_hw::{Census, Driver, Ended, Hw, HwDevice};
use weft_verbs::conformance::{Act, Fault, FaultId, Harness, HarnessCaps, Machine, PacketClass, Timing};
use weft_verbs::{Caps, Context, Device, Nanos, Node, PinnedMemory};

/// The machines of a case, and the hub between them.
pub struct HwHarness {
    devices: Vec<HwDevice>,
    /// `None` outside of the cluster: no faults then.
    hub: Option<Remote>,
    caps: Caps,
    timing: Timing,
    faults: Vec<Injected>,
    mounted: Vec<(Driver, Box<dyn Node>)>,
    began: Instant,
}

/// A fault in force or over.
enum Injected {
    Rules(Vec<u64>),
    /// A card without its carrier.
    Down(usize),
    Over(u64),
}

impl HwHarness {
    /// A harness over the devices of this machine.
    pub fn new(timing: Timing) -> Result<HwHarness, String> {
        let mut devices = HwDevice::all().map_err(|e| e.to_string())?;
        devices.sort_by(|a, b| a.name().cmp(b.name()));
        let first = devices.first().ok_or("there is no RDMA device on this machine")?;
        let caps = first.open().map_err(|e| e.to_string())?.device_attr().caps;
        let hub = Remote::open().transpose().map_err(|e| e.to_string())?;
        let (faults, mounted) = (Vec::new(), Vec::new());
        Ok(HwHarness { devices, hub, caps, timing, faults, mounted, began: Instant::now() })
    }

    /// Whether everything that earlier cases made is gone.
    pub fn check_census(&self) -> Result<(), String> {
        let seen = Census::now();
        let expected = Census { leaked: seen.leaked, ..Census::default() };
        if seen == expected && seen.leaked == 0 { Ok(()) } else { Err(format!("left behind: {seen}")) }
    }

    /// How long cases wait, from now on, for what must happen.
    pub fn set_timeout(&mut self, timeout: Nanos) {
        self.timing.timeout = timeout;
    }

    fn ask(&mut self, request: Request) -> u64 {
        let hub = self.hub.as_mut().expect("faults are injected with a hub only");
        hub.ask(request).expect("the hub answers")
    }

    fn install(&mut self, rules: Vec<Rule>) -> Injected {
        Injected::Rules(rules.into_iter().map(|rule| self.ask(Request::Push(rule))).collect())
    }

    fn machine(&self, n: usize) -> Result<Machine<Hw>, String> {
        let device = self.devices[n].clone();
        let context = device.open().map_err(|e| e.to_string())?;
        let gid_index = context.usable_gid(1).map_err(|e| e.to_string())?;
        let name = context.address().map_err(|why| format!("a device {why}"))?.to_string();
        // A registry of its own: the contexts of one case.
        let device = HwDevice::find(Some(device.name())).ok().flatten().ok_or("a device went away")?;
        Ok(Machine { name, device, port: 1, gid_index, second: None })
    }
}

impl Harness for HwHarness {
    type V = Hw;

    fn capabilities(&self) -> Caps {
        self.caps
    }

    fn harness_caps(&self) -> HarnessCaps {
        let hub = HarnessCaps::STRIKE | HarnessCaps::CUT | HarnessCaps::NOISE | HarnessCaps::PORT;
        HarnessCaps::MOUNT | if self.hub.is_some() { hub } else { HarnessCaps::empty() }
    }

    fn timing(&self) -> Timing {
        self.timing
    }

    fn start(&mut self, nodes: usize, _seed: u64) -> Result<Vec<Machine<Hw>>, String> {
        if nodes > self.devices.len() {
            return Err(format!("{nodes} devices are needed and there are {}", self.devices.len()));
        }
        self.mounted.clear();
        for n in 0..self.faults.len() {
            self.heal(FaultId(n as u64));
        }
        self.faults.clear();
        if self.hub.is_some() {
            self.ask(Request::Clear);
        }
        self.check_census()?;
        let machines: Result<Vec<_>, _> = (0..nodes).map(|n| self.machine(n)).collect();
        let machines = machines?;
        self.devices.splice(0..nodes, machines.iter().map(|machine| machine.device.clone()));
        Ok(machines)
    }

    fn now(&self) -> Nanos {
        Nanos(self.began.elapsed().as_nanos() as u64)
    }

    fn advance(&mut self, span: Nanos) {
        let until = Instant::now() + Duration::from_nanos(span.0);
        let progress = |devices: &[HwDevice]| {
            devices.iter().flat_map(HwDevice::open_contexts).for_each(|context| context.make_progress());
        };
        if self.mounted.is_empty() {
            progress(&self.devices);
            std::thread::sleep(Duration::from_nanos(span.0));
            return progress(&self.devices);
        }
        let slice = Nanos::from_micros(500);
        while Instant::now() < until {
            let began = Instant::now();
            for (driver, node) in &mut self.mounted {
                let clock = weft_hw::now();
                let left = Nanos(until.saturating_duration_since(Instant::now()).as_nanos() as u64);
                if driver.run_until(node.as_mut(), clock + slice.min(left)) == Ended::Done {
                    continue;
                }
            }
            // Where every program is done, nothing above has waited.
            std::thread::sleep(Duration::from_micros(100).saturating_sub(began.elapsed()));
        }
    }

    fn inject(&mut self, fault: &Fault) -> Option<FaultId> {
        self.hub.as_ref()?;
        let injected = match *fault {
            Fault::Strike { from, to, class, skip, count, act } => {
                // What a card sends to itself never leaves the machine.
                if from == to {
                    return None;
                }
                let rule = Rule { skip, count, ..rule(from, to, Way::There, class_of(class), act_of(act)?) };
                self.install(vec![rule])
            }
            Fault::Cut { a, b } => self.install(vec![Rule::cut(a, b)]),
            Fault::Noise { a, b, loss, duplicate, delay, at_most, seed } => {
                let noise = [(loss, Do::Drop), (duplicate, Do::Duplicate), (delay, Do::DelayUpTo(at_most.0))];
                let rules = noise.into_iter().enumerate().map(|(n, (ppm, act))| {
                    let seed = seed.wrapping_mul(8).wrapping_add(n as u64);
                    Rule { ppm, seed, ..rule(a, b, Way::Both, None, act) }
                });
                let rules = rules.collect();
                self.install(rules)
            }
            Fault::PortDown { node, device: 0, port: 1 } => {
                self.ask(Request::Carrier(node, false));
                Injected::Down(node)
            }
            Fault::PortDown { .. } => return None,
        };
        self.faults.push(injected);
        Some(FaultId(self.faults.len() as u64 - 1))
    }

    fn struck(&self, fault: FaultId) -> u64 {
        let Injected::Rules(rules) = &self.faults[fault.0 as usize] else {
            return match &self.faults[fault.0 as usize] {
                Injected::Over(struck) => *struck,
                _ => 1,
            };
        };
        // The hub is asked over a line of its own: a second handle of the same port.
        let mut hub = Remote::open().expect("inside the cluster").expect("the hub's line opens");
        rules.iter().map(|rule| hub.ask(Request::Struck(*rule)).expect("the hub answers")).sum()
    }

    fn heal(&mut self, fault: FaultId) {
        let struck = self.struck(fault);
        match std::mem::replace(&mut self.faults[fault.0 as usize], Injected::Over(struck)) {
            Injected::Rules(rules) => {
                for rule in rules {
                    self.ask(Request::Remove(rule));
                }
            }
            Injected::Down(card) => {
                self.ask(Request::Carrier(card, true));
            }
            Injected::Over(_) => {}
        }
    }

    fn mount(&mut self, n: usize, program: Box<dyn Node>) -> bool {
        let contexts = self.devices[n].open_contexts();
        let Ok(driver) = Driver::new(&contexts) else { return false };
        self.mounted.push((driver, program));
        true
    }

    fn brought_memory(&mut self, len: usize) -> Option<Box<dyn PinnedMemory>> {
        Some(Box::new(Pages(vec![0u64; len.div_ceil(8)].into_iter().map(UnsafeCell::new).collect(), len)))
    }
}

fn rule(from: usize, to: usize, way: Way, class: Option<Class>, act: Do) -> Rule {
    Rule { from, to, way, class, skip: 0, count: u64::MAX, ppm: 1_000_000, seed: 0, act }
}

fn class_of(class: PacketClass) -> Option<Class> {
    Some(match class {
        PacketClass::Any => Class::Any,
        PacketClass::Request => Class::Request,
        PacketClass::AtomicRequest => Class::AtomicRequest,
        PacketClass::Ack => Class::Ack,
        PacketClass::Nak => Class::Nak,
        PacketClass::Rnr => Class::Rnr,
        PacketClass::ReadResponse => Class::ReadResponse,
        PacketClass::AtomicResponse => Class::AtomicResponse,
        PacketClass::Cm => Class::Cm,
    })
}

fn act_of(act: Act) -> Option<Do> {
    Some(match act {
        Act::Pass => Do::Pass,
        Act::Drop => Do::Drop,
        Act::Duplicate => Do::Duplicate,
        Act::Delay(late) => Do::Delay(late.0),
        // The hub forges no packets.
        Act::Shorten => return None,
    })
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
