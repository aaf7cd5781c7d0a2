//! Planned faults: when they strike, what they hit, when they end.

use super::{Fault, Link, PacketInfo, Rules, Verdict, Way};
use crate::NodeId;
use crate::choice::Choice;
use weft_verbs::Nanos;

/// Identifies a planned fault of one world: its place in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FaultId(pub u32);

/// Where a planned fault stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultState {
    /// Its time has not come.
    Planned,
    /// It has struck and lasts. A flapping link that works at the moment is active.
    Active,
    /// It has ended.
    Over,
    /// It was cancelled before its time came.
    Cancelled,
}

/// A planned fault and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultRecord {
    /// Which one.
    pub id: FaultId,
    /// When it strikes or struck.
    pub at: Nanos,
    /// What it is.
    pub fault: Fault,
    /// Where it stands.
    pub state: FaultState,
    /// How many packets it lost, delayed, doubled or damaged.
    pub packets_hit: u64,
    /// Whether it struck an operation in flight: it hit a packet of one; or, being a fault of a port or a node
    /// ([`Fault::acts_on_packets`]), it began while one was in flight on a path that it affects. A fault that
    /// struck nothing has tested nothing.
    pub struck: bool,
}

/// What a fault does beyond packets. The driver of the world carries it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A port has lost its link.
    PortDown {
        /// The node.
        node: NodeId,
        /// The port, from 1.
        port: u8,
    },
    /// A port has its link again.
    PortUp {
        /// The node.
        node: NodeId,
        /// The port, from 1.
        port: u8,
    },
    /// A node's work takes so many percent of what it takes usually, from now on.
    Speed {
        /// The node.
        node: NodeId,
        /// 100 is its usual speed.
        percent: u32,
    },
    /// What a node's disk suffers from, from now on.
    Disk {
        /// The node.
        node: NodeId,
        /// It has no more room than what is taken.
        full: bool,
        /// Transfers and syncs fail.
        broken: bool,
    },
    /// Whether a node's operating system refuses to register memory, from now on.
    Memory {
        /// The node.
        node: NodeId,
        /// It does.
        refused: bool,
    },
    /// A node stops dead.
    Crash {
        /// The node.
        node: NodeId,
    },
    /// A crashed node starts again.
    Restart {
        /// The node.
        node: NodeId,
    },
}

/// What an active fault does to packets.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Cut {
        link: Link,
        way: Way,
    },
    Lose {
        link: Link,
        way: Way,
        ppm: u32,
    },
    Double {
        link: Link,
        way: Way,
        ppm: u32,
    },
    Damage {
        link: Link,
        way: Way,
        ppm: u32,
    },
    Slow {
        link: Link,
        way: Way,
        extra: Nanos,
        jitter: Nanos,
        in_order: bool,
    },
    /// Waits for an answer to the node, and becomes a cut from the answering peer.
    Await {
        node: NodeId,
        lasts: Option<Nanos>,
    },
    CutPath {
        from: NodeId,
        to: NodeId,
    },
}

/// A fault that does something to packets at the moment.
#[derive(Clone, Copy, Debug)]
struct Active {
    id: FaultId,
    harm: Harm,
    /// When it ends by itself, without an event: what [`Harm::Await`] became.
    until: Nanos,
}

/// The faults of one world: its rules, its plan, and what is active.
///
/// The driver calls [`Faults::due`] when a planned fault's time has come, and again at each time that this
/// answers. Plain data, without a clock or a queue of its own.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    rules: Rules,
    records: Vec<FaultRecord>,
    active: Vec<Active>,
    /// Those whose state is [`FaultState::Active`]. Each strike and each end asks for them: to look through all that ever were
    /// would cost a long run the square of its faults.
    lasting: Vec<FaultId>,
    /// For a flap: how many times it is still to be cut.
    cuts_left: Vec<u32>,
}

impl Faults {
    /// No faults.
    pub fn new() -> Faults {
        Faults::default()
    }

    /// The rules, to change them.
    pub fn rules(&mut self) -> &mut Rules {
        &mut self.rules
    }

    /// Every planned fault, in the order of planning, and what became of it.
    pub fn records(&self) -> &[FaultRecord] {
        &self.records
    }

    /// Adds a fault to the plan. It does nothing until [`Faults::due`] is called for it.
    pub fn plan(&mut self, at: Nanos, fault: Fault) -> FaultId {
        let id = FaultId(self.records.len() as u32);
        let state = FaultState::Planned;
        self.records.push(FaultRecord { id, at, fault, state, packets_hit: 0, struck: false });
        self.cuts_left.push(if let Fault::Flap { times, .. } = fault { times } else { 0 });
        id
    }

    /// Notes that an operation was in flight on an affected path when the fault began. A fault that acts on
    /// packets alone strikes an operation when it hits one of its packets, and not before.
    pub fn began_amid_operations(&mut self, id: FaultId) {
        let record = &mut self.records[id.0 as usize];
        record.struck |= !record.fault.acts_on_packets();
    }

    /// The fault's time has come: it strikes, changes or ends. Effects beyond packets are appended to
    /// `effects`; the answer is when to call again.
    pub fn due(&mut self, now: Nanos, id: FaultId, effects: &mut Vec<Effect>) -> Option<Nanos> {
        match self.records[id.0 as usize].state {
            FaultState::Planned => self.strike(now, id, effects),
            FaultState::Active => self.change(now, id, effects),
            FaultState::Over | FaultState::Cancelled => None,
        }
    }

    /// Ends every fault, cancels what is planned and takes the rules out. A crashed node stays so: what it
    /// lost does not come back.
    pub fn stop(&mut self, effects: &mut Vec<Effect>) {
        self.rules.clear();
        for id in (0..self.records.len() as u32).map(FaultId) {
            match self.records[id.0 as usize].state {
                FaultState::Planned => self.records[id.0 as usize].state = FaultState::Cancelled,
                FaultState::Active if !matches!(self.fault(id), Fault::Crash { .. }) => self.end(id, effects),
                _ => {}
            }
        }
    }

    /// Whether every packet passes now.
    #[inline]
    pub fn are_none(&self) -> bool {
        self.active.is_empty() && self.rules.is_empty()
    }

    /// What happens to a packet that is about to enter the fabric.
    pub fn judge(&mut self, now: Nanos, packet: &PacketInfo, choice: &mut dyn Choice) -> Verdict {
        let by_rule = self.rules.judge(packet, choice);
        if by_rule != Verdict::Pass {
            return by_rule;
        }
        self.expire(now);
        for active in &mut self.active {
            let verdict = active.judge(now, packet, choice);
            if verdict != Verdict::Pass {
                let record = &mut self.records[active.id.0 as usize];
                record.packets_hit += 1;
                record.struck |= packet.of_operation();
                return verdict;
            }
        }
        Verdict::Pass
    }

    /// Lets go of cuts that a lost completion began and whose time is over.
    fn expire(&mut self, now: Nanos) {
        let over = |active: &Active| now >= active.until;
        while let Some(at) = self.active.iter().position(over) {
            self.set_over(self.active[at].id);
        }
    }

    /// A fault that is active ends.
    fn set_over(&mut self, id: FaultId) {
        self.records[id.0 as usize].state = FaultState::Over;
        self.lasting.retain(|lasting| *lasting != id);
        self.active.retain(|active| active.id != id);
    }

    fn fault(&self, id: FaultId) -> Fault {
        self.records[id.0 as usize].fault
    }

    fn strike(&mut self, now: Nanos, id: FaultId, effects: &mut Vec<Effect>) -> Option<Nanos> {
        let fault = self.fault(id);
        let record = &mut self.records[id.0 as usize];
        (record.at, record.state) = (now, FaultState::Active);
        self.lasting.push(id);
        if let Some(harm) = harm_of(fault) {
            self.active.push(Active { id, harm, until: Nanos::MAX });
        }
        match fault {
            Fault::Flap { down, .. } => {
                self.cuts_left[id.0 as usize] -= 1;
                return Some(now + down);
            }
            Fault::PortDown { node, port, .. } if self.ports_down(node, port) == 1 => {
                effects.push(Effect::PortDown { node, port });
            }
            Fault::SlowNode { node, .. } => effects.push(self.speed_of(node)),
            Fault::DiskFull { node, .. } | Fault::DiskError { node, .. } => effects.push(self.disk_of(node)),
            Fault::NoMemory { node, .. } => effects.push(self.memory_of(node)),
            Fault::Crash { node } => effects.push(Effect::Crash { node }),
            Fault::Restart { node } => {
                self.end_crashes(node);
                self.set_over(id);
                effects.push(Effect::Restart { node });
            }
            // Its time begins with the answer that it waits for.
            Fault::LoseCompletion { .. } => return None,
            _ => {}
        }
        fault.lasts().map(|lasts| now + lasts)
    }

    /// An active fault's time has come: a flap turns over, anything else ends.
    fn change(&mut self, now: Nanos, id: FaultId, effects: &mut Vec<Effect>) -> Option<Nanos> {
        let Fault::Flap { link, down, up, .. } = self.fault(id) else {
            self.end(id, effects);
            return None;
        };
        let was_cut = self.active.iter().any(|active| active.id == id);
        if !was_cut {
            self.cuts_left[id.0 as usize] -= 1;
            let harm = Harm::Cut { link, way: Way::Both };
            self.active.push(Active { id, harm, until: Nanos::MAX });
            return Some(now + down);
        }
        if self.cuts_left[id.0 as usize] == 0 {
            self.set_over(id);
            return None;
        }
        self.active.retain(|active| active.id != id);
        Some(now + up)
    }

    fn end(&mut self, id: FaultId, effects: &mut Vec<Effect>) {
        self.set_over(id);
        match self.fault(id) {
            Fault::PortDown { node, port, .. } if self.ports_down(node, port) == 0 => {
                effects.push(Effect::PortUp { node, port });
            }
            Fault::SlowNode { node, .. } => effects.push(self.speed_of(node)),
            Fault::DiskFull { node, .. } | Fault::DiskError { node, .. } => effects.push(self.disk_of(node)),
            Fault::NoMemory { node, .. } => effects.push(self.memory_of(node)),
            _ => {}
        }
    }

    /// How many active faults hold a port down: it comes up with the end of the last.
    fn ports_down(&self, node: NodeId, port: u8) -> usize {
        let holds =
            |f: &Fault| matches!(f, Fault::PortDown { node: n, port: p, .. } if (*n, *p) == (node, port));
        self.lasting().filter(holds).count()
    }

    /// The slowest of the active faults counts.
    fn speed_of(&self, node: NodeId) -> Effect {
        let slow = self.lasting().filter_map(|fault| match fault {
            Fault::SlowNode { node: n, percent, .. } if n == node => Some(percent),
            _ => None,
        });
        Effect::Speed { node, percent: slow.max().unwrap_or(100) }
    }

    /// All active faults of a disk count.
    fn disk_of(&self, node: NodeId) -> Effect {
        Effect::Disk {
            node,
            full: self.lasting().any(|fault| matches!(fault, Fault::DiskFull { node: n, .. } if n == node)),
            broken: self
                .lasting()
                .any(|fault| matches!(fault, Fault::DiskError { node: n, .. } if n == node)),
        }
    }

    fn memory_of(&self, node: NodeId) -> Effect {
        let of = |fault| matches!(fault, Fault::NoMemory { node: n, .. } if n == node);
        Effect::Memory { node, refused: self.lasting().any(of) }
    }

    fn end_crashes(&mut self, node: NodeId) {
        let crashes = self.lasting.iter().copied().filter(|id| self.fault(*id) == Fault::Crash { node });
        crashes.collect::<Vec<FaultId>>().into_iter().for_each(|id| self.set_over(id));
    }

    /// What is active.
    fn lasting(&self) -> impl Iterator<Item = Fault> {
        self.lasting.iter().map(|id| self.fault(*id))
    }
}

fn harm_of(fault: Fault) -> Option<Harm> {
    Some(match fault {
        Fault::Cut { link, way, .. } => Harm::Cut { link, way },
        Fault::Flap { link, .. } => Harm::Cut { link, way: Way::Both },
        Fault::Loss { link, way, ppm, .. } => Harm::Lose { link, way, ppm },
        Fault::Duplicate { link, way, ppm, .. } => Harm::Double { link, way, ppm },
        Fault::Corrupt { link, way, ppm, .. } => Harm::Damage { link, way, ppm },
        Fault::Delay { link, way, extra, jitter, in_order, .. } => {
            Harm::Slow { link, way, extra, jitter, in_order }
        }
        Fault::PortDown { node, port, .. } => Harm::Cut { link: Link::Port(node, port), way: Way::Both },
        Fault::LoseCompletion { node, lasts } => Harm::Await { node, lasts },
        // What a crashed node sent before is still on its way.
        Fault::Crash { node } => Harm::Cut { link: Link::Node(node), way: Way::To },
        Fault::SlowNode { .. }
        | Fault::DiskFull { .. }
        | Fault::DiskError { .. }
        | Fault::NoMemory { .. }
        | Fault::Restart { .. } => return None,
    })
}

impl Active {
    fn judge(&mut self, now: Nanos, packet: &PacketInfo, choice: &mut dyn Choice) -> Verdict {
        let on =
            |link: Link, way| link.carries(way, (packet.src, packet.src_port), (packet.dst, packet.dst_port));
        match self.harm {
            Harm::Cut { link, way } if on(link, way) => Verdict::Drop,
            Harm::CutPath { from, to } if (packet.src, packet.dst) == (from, to) => Verdict::Drop,
            Harm::Lose { link, way, ppm } if on(link, way) && choice.chance("loss", ppm) => Verdict::Drop,
            Harm::Double { link, way, ppm } if on(link, way) && choice.chance("duplicate", ppm) => {
                Verdict::Duplicate
            }
            Harm::Damage { link, way, ppm } if on(link, way) && choice.chance("corrupt", ppm) => {
                Verdict::Corrupt
            }
            Harm::Slow { link, way, extra, jitter, in_order } if on(link, way) => {
                match extra + Nanos(choice.pick("jitter", jitter.0.saturating_add(1))) {
                    Nanos::ZERO => Verdict::Pass,
                    late if in_order => Verdict::Late(late),
                    late => Verdict::Delay(late),
                }
            }
            Harm::Await { node, lasts } if packet.dst == node && packet.completes_one_sided() => {
                self.harm = Harm::CutPath { from: packet.src, to: packet.dst };
                self.until = lasts.map_or(Nanos::MAX, |lasts| now + lasts);
                Verdict::Drop
            }
            _ => Verdict::Pass,
        }
    }
}
