//! Disks where there is no time: each call ends at some moment, and after a restart each sector that was written and not synced may turn
//! out to be there, as any of the writes since has made it.
//!
//! That a crash kept a version of a sector is an event of its own, up to the first end of a call in the node's next life: a sector of
//! which none was chosen by then is as it was synced. So any subset survives, and nothing but that first end depends on which. An
//! object ends behind its last sector that is there.

use super::super::World;
use super::super::events::Happened;
use crate::NodeId;
use crate::choice::EventId;
use crate::explore::identity::{self, count, object};
use crate::explore::{AccessKind, Enabled, FaultSet, Outcome};

impl World {
    /// Lists calls that may end, and versions of sectors that may turn out to be there.
    pub(super) fn disk_events(&self, out: &mut Vec<Enabled>) {
        for node in self.all_nodes() {
            let disk = &self.state.disks[node.index()];
            for id in disk.unended() {
                let faults = self.node_faults(node).with_all(self.disk_faults(node, id));
                self.offer(identity::disk_call(node, id), faults, out);
            }
            if self.state.machines[node.index()].crashed {
                continue;
            }
            for version in disk.undecided().iter().flat_map(|sector| sector.open()) {
                self.offer(identity::kept_write(node, version), FaultSet::NONE, out);
            }
        }
    }

    /// The ways in which a call of a disk can fail.
    fn disk_faults(&self, node: NodeId, id: u32) -> FaultSet {
        let allowed = self.state.driver.untimed().policy.faults.and(FaultSet::OF_DISKS);
        if allowed.is_empty() {
            return allowed;
        }
        let disk = &self.state.disks[node.index()];
        let full = if disk.takes_room(id) { FaultSet::one(Outcome::DiskFull) } else { FaultSet::NONE };
        let broken = if disk.moves_bytes(id) { FaultSet::one(Outcome::DiskError) } else { FaultSet::NONE };
        allowed.and(full.with_all(broken))
    }

    /// A program's step begins a call.
    pub(in crate::world) fn touch_disk_call(&mut self, node: NodeId, id: u32) {
        self.touch(object::disk_call(node, id), AccessKind::Cause);
    }

    /// After a crash: what may turn out to be there does because of that.
    pub(super) fn touch_undecided(&mut self, node: NodeId, how: AccessKind) {
        if self.is_recorded() {
            let sectors = self.state.disks[node.index()].undecided().iter();
            let ids: Vec<u32> =
                sectors.flat_map(|sector| [sector.id()].into_iter().chain(sector.open())).collect();
            ids.into_iter().for_each(|id| self.touch(object::kept_write(node, id), how));
        }
    }

    /// A call ends, or its node is struck instead.
    pub(super) fn take_disk_call(&mut self, event: EventId, outcome: Outcome) -> Option<Happened> {
        let (node, id) = (identity::node(event), count(event));
        if !self.state.disks[node.index()].unended().any(|call| call == id) {
            return None;
        }
        self.touch(object::disk_call(node, id), AccessKind::Cause);
        if self.node_faults(node).contains(outcome) {
            return Some(self.hit_node(node, outcome));
        }
        if outcome.is_fault() && !self.disk_faults(node, id).contains(outcome) {
            return None;
        }
        // Calls of one disk are in order with each other, and with the steps of their program.
        self.touch(object::node(node), AccessKind::Write);
        self.touch_undecided(node, AccessKind::Write);
        let disk = &mut self.state.disks[node.index()];
        disk.settle();
        // It suffers while this call ends.
        disk.suffer(outcome == Outcome::DiskFull, outcome == Outcome::DiskError);
        let ended = self.end_disk_call(node, id);
        self.state.disks[node.index()].suffer(false, false);
        ended.then_some(Happened::Done)
    }

    /// A crash has kept a version of a sector, and with it no other one.
    pub(super) fn take_kept_write(&mut self, event: EventId) -> Option<()> {
        let (node, id) = (identity::node(event), count(event));
        let sector = self.state.disks[node.index()].keep(id)?;
        self.touch(object::kept_write(node, id), AccessKind::Cause);
        self.touch(object::kept_write(node, sector), AccessKind::Write);
        Some(())
    }
}
