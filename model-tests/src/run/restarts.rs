//! Nodes that crash and are there again, empty: what ran on them starts anew.

use super::RunError;
use super::leftovers::is_out;
use super::world::{World, refused};
use crate::scenario::FaultKind;
use crate::system::System;
use weft_sim::NodeId;
use weft_sim::fault::Fault;
use weft_verbs::Nanos;

/// The nodes that are down, with when they come back.
#[derive(Debug, Default)]
pub(super) struct Down(Vec<(Nanos, NodeId)>);

impl Down {
    /// When the next node comes back, as long as faults go on.
    pub fn next(&self) -> Option<Nanos> {
        self.0.iter().map(|(back, _)| *back).filter(|back| *back < Nanos::MAX).min()
    }

    fn is_down(&self, node: NodeId) -> bool {
        self.0.iter().any(|(_, down)| *down == node)
    }

    fn back_by(&mut self, now: Nanos) -> Vec<NodeId> {
        self.0.extract_if(.., |(back, _)| *back <= now).map(|(_, node)| node).collect()
    }
}

impl<S: System> World<S> {
    /// Until when a node is in a step, if it is. A step takes time, and is made at once: what the node has done in that time it has done, and
    /// told others that stand outside the fabric. So it cannot be struck before the end of its step.
    pub(super) fn in_step_until(&self, node: NodeId) -> Option<Nanos> {
        Some(self.machines[node.index()].place.rt.now()).filter(|its_own| *its_own > self.fabric.now())
    }

    /// A node that is in no step crashes; it is there again after `lasts`, or when the faults stop. One that is down already stays so.
    pub(super) fn crash(
        &mut self,
        node: NodeId,
        lasts: Option<Nanos>,
        kind: FaultKind,
    ) -> Result<bool, RunError> {
        if self.down.is_down(node) {
            return Ok(false);
        }
        let now = self.fabric.now();
        self.fabric.plan(now, Fault::Crash { node }).map_err(refused)?;
        self.fabric.run_until(now);
        self.crashes.push(kind);
        S::crashed(node.0, now, &self.recorder);
        // Its clients are gone with it.
        self.clients.retain(|client| client.node != node.0);
        self.down.0.push((lasts.map_or(Nanos::MAX, |lasts| now + lasts), node));
        Ok(true)
    }

    /// The nodes that come back by `now` start anew.
    pub(super) fn bring_back(&mut self, now: Nanos) -> Result<(), RunError> {
        for node in self.down.back_by(now) {
            let moment = self.fabric.now();
            self.fabric.plan(moment, Fault::Restart { node }).map_err(refused)?;
            self.fabric.run_until(moment);
            S::restarted(node.0, moment, &self.recorder);
            let incarnation = self.machines[node.index()].place.incarnation + 1;
            let machine = self.machine(node, incarnation, self.end(node)?)?;
            // What the old one holds is gone with the crash; dropping it drops handles.
            self.machines[node.index()] = machine;
            self.start_clients_of(node.index());
        }
        Ok(())
    }

    /// No node stays down.
    pub(super) fn bring_all_back(&mut self) -> Result<(), RunError> {
        self.bring_back(Nanos::MAX)
    }

    /// A node that the others have left out does nothing any more until it is started again (docs/members.md), and too many of them
    /// are no majority: once faults have stopped somebody sees to that.
    pub(super) fn start_the_left_out_again(&mut self) -> Result<(), RunError> {
        let out = (0..).zip(&self.machines).filter(|(_, machine)| is_out(machine));
        let out: Vec<NodeId> = out.map(|(node, _)| NodeId(node)).collect();
        for node in out {
            // One that is in a step is so a little later.
            if self.in_step_until(node).is_none() {
                self.crash(node, Some(Nanos::ZERO), FaultKind::Restart)?;
            }
        }
        self.bring_back(self.fabric.now())
    }
}
