//! Disks in their world: what a call costs, when it ends, whom that wakes.

use super::World;
use super::events::Event;
use crate::NodeId;
use crate::access::{What, Who};
use crate::disk::{Call, End, Memory};
use crate::hca::{Hca, HcaId, Key, News};
use crate::log::Kind;
use crate::stats::Cause;
use std::task::Waker;
use weft_verbs::{Nanos, Result, VerbsError};

/// A region of an adapter of the disk's machine.
pub(crate) type RegionKey = (HcaId, Key);

/// The disk of one machine.
pub(crate) type MachineDisk = crate::disk::Disk<RegionKey>;

/// A machine's registered memory as its disk reaches it: like its processor's, its accesses are watched.
struct Dma<'a> {
    now: Nanos,
    node: NodeId,
    hcas: &'a mut [Hca],
    access: &'a mut crate::access::AccessLog,
}

impl Memory<RegionKey> for Dma<'_> {
    fn read(&mut self, &(hca, key): &RegionKey, at: usize, out: &mut [u8]) -> bool {
        let Some(region) = self.hcas[hca.0 as usize].hw.memory.get(key) else { return false };
        region.bytes.read(at, out);
        self.access.note(self.now, Who::Cpu(self.node), region.id, at as u64, out.len() as u64, What::Read);
        true
    }

    fn write(&mut self, &(hca, key): &RegionKey, at: usize, bytes: &[u8]) -> bool {
        let hw = &mut self.hcas[hca.0 as usize].hw;
        let Some(region) = hw.memory.get_mut(key) else { return false };
        hw.late.overwrite(key, at, bytes.len());
        region.bytes.write(at, bytes);
        self.access.note(
            self.now,
            Who::Cpu(self.node),
            region.id,
            at as u64,
            bytes.len() as u64,
            What::Write,
        );
        true
    }
}

impl World {
    /// Whether machines have disks.
    pub fn has_disks(&self) -> bool {
        // Disks are made of time.
        self.profile.disk.is_some() && !self.is_untimed()
    }

    /// Begins a call of a machine's disk.
    pub fn begin_disk_call(&mut self, node: NodeId, call: Call<RegionKey>) -> Result<u32> {
        let costs = self.profile.disk.ok_or(VerbsError::DeviceGone)?;
        let syscall = self.profile.cpu.syscall_ns;
        let at = self.charge(node, Cause::System, syscall.saturating_add(call.work(&costs).0));
        self.state.disk_calls += 1;
        let id = self.state.disk_calls;
        let end = self.state.disks[node.index()].begin(at, id, call, &costs);
        self.log.line(at, node, Kind::Disk, format_args!("call {id} until {end}"));
        self.state.disk_nodes.insert(id, node);
        self.schedule(end.max(self.state.now), Event::Disk(id));
        Ok(id)
    }

    /// A call's time has come.
    pub(super) fn disk_due(&mut self, id: u32) {
        let Some(node) = self.state.disk_nodes.remove(&id) else { return };
        let Some(costs) = self.profile.disk else { return };
        let now = self.state.now;
        self.with_disk(node, now, |disk, dma| disk.end(id, &costs, dma));
        self.log.line(now, node, Kind::Disk, format_args!("end of {id}"));
        if let Some(waker) = self.disk_wakers.remove(&id) {
            self.woken.push(waker);
        }
        self.wake(node, News { urgent: true, ..News::default() });
    }

    fn with_disk<T>(
        &mut self,
        node: NodeId,
        now: Nanos,
        call: impl FnOnce(&mut MachineDisk, &mut Dma<'_>) -> T,
    ) -> T {
        let state = &mut self.state;
        let mut dma = Dma { now, node, hcas: &mut state.hcas, access: &mut state.access };
        call(&mut state.disks[node.index()], &mut dma)
    }

    /// How a call ended; where it has not, whom to wake then.
    pub fn disk_end(&mut self, node: NodeId, id: u32, waker: &Waker) -> Option<End> {
        let end = self.state.disks[node.index()].take(id);
        if end.is_none() {
            self.disk_wakers.insert(id, waker.clone());
        }
        end
    }

    /// Breaks or mends a machine's disk.
    pub fn break_disk(&mut self, node: NodeId, broken: bool) {
        if let Some(disk) = self.state.disks.get_mut(node.index()) {
            disk.broken = broken;
        }
    }

    /// A program dropped the handle of a call.
    pub fn abandon_disk_call(&mut self, node: NodeId, id: u32) {
        let at = self.local_time(node);
        self.with_disk(node, at, |disk, dma| disk.abandon(id, dma));
        // Its destructor can be a program's code, which must not run inside of the world.
        self.woken.extend(self.disk_wakers.remove(&id));
    }
}
