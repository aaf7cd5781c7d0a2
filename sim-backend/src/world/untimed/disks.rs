//! Disks where there is no time: each call ends at some moment, and after a restart each write that was not synced may turn out to be
//! there.
//!
//! A write that a crash kept is an event of its own, up to the first end of a call in the node's next life: what was not chosen by
//! then is lost. So any subset of them survives, and nothing but that first end depends on which.

use super::super::World;
use super::super::events::Happened;
use crate::NodeId;
use crate::choice::EventId;
use crate::explore::identity::{self, count, object};
use crate::explore::{AccessKind, Enabled, FaultSet, Outcome};

impl World {
    /// Lists calls that may end, and writes that may turn out to be there.
    pub(super) fn disk_events(&self, out: &mut Vec<Enabled>) {
        for node in self.all_nodes() {
            let disk = &self.state.disks[node.index()];
            for id in disk.unended() {
                self.offer(identity::disk_call(node, id), self.node_faults(), out);
            }
            if self.state.machines[node.index()].crashed {
                continue;
            }
            for write in disk.undecided().iter().filter(|write| !write.kept) {
                self.offer(identity::kept_write(node, write.id), FaultSet::NONE, out);
            }
        }
    }

    /// A program's step begins a call.
    pub(in crate::world) fn touch_disk_call(&mut self, node: NodeId, id: u32) {
        self.touch(object::disk_call(node, id), AccessKind::Cause);
    }

    /// After a crash: what may turn out to be there does because of that.
    pub(super) fn touch_undecided(&mut self, node: NodeId, how: AccessKind) {
        if self.is_recorded() {
            let ids: Vec<u32> =
                self.state.disks[node.index()].undecided().iter().map(|write| write.id).collect();
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
        if outcome.is_fault() {
            return self.node_faults().contains(outcome).then(|| self.hit_node(node, outcome));
        }
        // Calls of one disk are in order with each other, and with the steps of their program.
        self.touch(object::node(node), AccessKind::Write);
        self.touch_undecided(node, AccessKind::Write);
        self.state.disks[node.index()].decide(|write| write.kept);
        self.end_disk_call(node, id).then_some(Happened::Done)
    }

    /// A crash has kept a write.
    pub(super) fn take_kept_write(&mut self, event: EventId) -> Option<()> {
        let (node, id) = (identity::node(event), count(event));
        let kept = self.state.disks[node.index()].keep(id);
        self.touch(object::kept_write(node, id), AccessKind::Cause);
        self.touch(object::kept_write(node, id), AccessKind::Write);
        kept.then_some(())
    }
}
