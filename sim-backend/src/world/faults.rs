//! Carrying out planned faults: what they do beyond packets.

use super::World;
use super::cpu::{Activity, Machine};
use super::events::{Event, Happened};
use crate::NodeId;
use crate::fault::{Effect, Fault, FaultError, FaultId, FaultState};
use crate::log::Kind;
use weft_verbs::{AsyncEvent, Nanos};

impl World {
    /// Adds a fault to the plan.
    pub fn plan(&mut self, at: Nanos, fault: Fault) -> Result<FaultId, FaultError> {
        fault.check(self.state.machines.len() as u32, self.shape.cables())?;
        let at = at.max(self.state.now);
        let id = self.state.faults.plan(at, fault);
        self.schedule(at, Event::Fault(id));
        Ok(id)
    }

    /// A fault's time has come.
    pub(super) fn fault_due(&mut self, id: FaultId) -> Happened {
        let now = self.state.now;
        let record = self.state.faults.records()[id.0 as usize];
        let mut effects = Vec::new();
        let next = self.state.faults.due(now, id, &mut effects);
        if record.state == FaultState::Planned {
            self.log_fault(&record.fault, "strikes");
            if self.is_in_use(&record.fault) {
                self.state.faults.began_amid_operations(id);
            }
        } else if record.state == FaultState::Active {
            self.log_fault(&record.fault, if next.is_some() { "turns" } else { "ends" });
        }
        if let Some(next) = next {
            self.schedule(next, Event::Fault(id));
        }
        self.apply(&effects)
    }

    fn log_fault(&mut self, fault: &Fault, what: &str) {
        let node = match fault.link() {
            Some(crate::fault::Link::Node(node) | crate::fault::Link::Port(node, _)) => node,
            Some(crate::fault::Link::Pair(node, _)) => node,
            None => NodeId(0),
        };
        self.log.line(self.state.now, node, Kind::Fault, format_args!("{fault} {what}"));
    }

    /// Ends every fault and cancels what is planned.
    pub fn stop_faults(&mut self) {
        let mut effects = Vec::new();
        self.state.faults.stop(&mut effects);
        self.log.line(self.state.now, NodeId(0), Kind::Fault, format_args!("all stop"));
        self.apply(&effects);
    }

    /// Whether an operation is in flight between two nodes that the fault lies between, or a call at the disk that it strikes.
    fn is_in_use(&self, fault: &Fault) -> bool {
        if let Fault::DiskFull { node, .. } | Fault::DiskError { node, .. } = *fault {
            return self.state.disks[node.index()].unended().next().is_some();
        }
        self.state.hcas.iter().any(|hca| {
            hca.qps.iter().filter(|(_, qp)| qp.is_in_flight()).any(|(_, qp)| {
                let route = qp.route();
                let (near, far) = (self.shape.cable(route.from), self.shape.cable(route.to));
                let affects = |peer| fault.affects((hca.hw.node, near), (self.shape.node(peer), far));
                qp.peer().is_some_and(|peer| affects(peer.hca))
            })
        })
    }

    fn apply(&mut self, effects: &[Effect]) -> Happened {
        let mut happened = Happened::Done;
        for effect in effects {
            match *effect {
                Effect::PortDown { node, port } => self.set_port(node, port, false),
                Effect::PortUp { node, port } => self.set_port(node, port, true),
                Effect::Speed { node, percent } => self.machine(node).percent = percent,
                Effect::Disk { node, full, broken } => {
                    self.state.disks[node.index()].suffer(full, broken);
                }
                Effect::Memory { node, refused } => self.machine(node).has_memory = !refused,
                Effect::Crash { node } => {
                    self.crash(node);
                    happened = Happened::Crashed(node);
                }
                Effect::Restart { node } => self.restart(node),
            }
        }
        happened
    }

    pub(super) fn set_port(&mut self, node: NodeId, cable: u8, up: bool) {
        let id = self.shape.at_cable(node, cable);
        self.state.ports[id.0 as usize].up = up;
        let port = self.shape.local(id);
        let event = if up { AsyncEvent::PortActive(port) } else { AsyncEvent::PortError(port) };
        self.engine(self.shape.hca(id), None, |hca, io| hca.hw.completions.raise_all(node, event, io));
    }

    /// A node stops dead: its adapters forget everything, its processor never runs again.
    pub(super) fn crash(&mut self, node: NodeId) {
        self.crash_disk(node);
        for hca in self.shape.hcas(node) {
            let keys: Vec<_> = self.state.hcas[hca.0 as usize].qps.iter().map(|(key, _)| key).collect();
            for key in keys {
                self.close_flow(hca, key);
            }
            self.engine(hca, None, |hca, io| hca.crash(io));
            self.forget_connections(hca);
        }
        self.state.streams.crash(node);
        *self.machine(node) = Machine { crashed: true, ..self.emptied(node) };
    }

    /// A crashed node is there again, empty, and waits for a program.
    pub(super) fn restart(&mut self, node: NodeId) {
        if !self.machine(node).crashed {
            return;
        }
        for hca in self.shape.hcas(node) {
            self.state.hcas[hca.0 as usize].gone = false;
        }
        let clock = self.state.now;
        *self.machine(node) = Machine { clock, activity: Activity::Idle, ..self.emptied(node) };
    }

    /// What is left of a node's processor when all of the node is lost: how fast it is and whether it has memory are faults', which may
    /// outlast that.
    fn emptied(&mut self, node: NodeId) -> Machine {
        let Machine { percent, has_memory, .. } = *self.machine(node);
        Machine { percent, has_memory, ..Machine::default() }
    }
}
