//! Disks in their world: what a call costs, when it ends, whom that wakes.

use super::World;
use super::events::Event;
use crate::NodeId;
use crate::access::{What, Who};
use crate::choice::Choice;
use crate::disk::{Call, End, Memory, PowerCut};
use crate::hca::{Hca, HcaId, Key, News};
use crate::log::Kind;
use crate::stats::Cause;
use std::task::Waker;
use weft_verbs::{DiskDone, Nanos, ObjectName, Result, VerbsError};

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

/// What is in a machine's memory when its power is cut: nobody's access, and not watched.
struct Remains<'a>(&'a [Hca]);

impl Memory<RegionKey> for Remains<'_> {
    fn read(&mut self, &(hca, key): &RegionKey, at: usize, out: &mut [u8]) -> bool {
        let region = self.0[hca.0 as usize].hw.memory.get(key);
        region.map(|region| region.bytes.read(at, out)).is_some()
    }

    fn write(&mut self, _: &RegionKey, _: usize, _: &[u8]) -> bool {
        false
    }
}

impl World {
    /// Whether machines have disks.
    pub fn has_disks(&self) -> bool {
        self.profile.disk.is_some()
    }

    /// Begins a call of a machine's disk; says its number, of the machine's own count.
    pub fn begin_disk_call(&mut self, node: NodeId, call: Call<RegionKey>) -> Result<u32> {
        let costs = self.profile.disk.ok_or(VerbsError::DeviceGone)?;
        let syscall = self.profile.cpu.syscall_ns;
        let at = self.charge(node, Cause::System, syscall.saturating_add(call.work(&costs).0));
        let what = if self.log.is_on() { call.to_string() } else { String::new() };
        if self.is_untimed() {
            let id = self.state.disks[node.index()].begin_untimed(call);
            self.touch_disk_call(node, id);
            self.log.line(at, node, Kind::Disk, format_args!("call {id} {what}"));
            return Ok(id);
        }
        let (id, end) = self.state.disks[node.index()].begin(at, call, &costs);
        self.log.line(at, node, Kind::Disk, format_args!("call {id} {what}, until {end}"));
        self.schedule(end.max(self.state.now), Event::Disk(node, id));
        Ok(id)
    }

    /// A call takes effect and ends; false if it was forgotten.
    pub(super) fn end_disk_call(&mut self, node: NodeId, id: u32) -> bool {
        let Some(costs) = self.profile.disk else { return false };
        let now = self.state.now;
        if !self.with_disk(node, now, |disk, dma| disk.end(id, &costs, dma)) {
            return false;
        }
        if let Some(outcome) = self.state.disks[node.index()].outcome(id) {
            match outcome {
                Ok(DiskDone::Objects(all)) => {
                    self.log.line(now, node, Kind::Disk, format_args!("end of {id}: {} objects", all.len()));
                }
                Ok(done) => self.log.line(now, node, Kind::Disk, format_args!("end of {id}: {done:?}")),
                Err(why) => self.log.line(now, node, Kind::Disk, format_args!("end of {id}: {why}")),
            }
        }
        if let Some(waker) = self.disk_wakers.remove(&(node, id)) {
            self.woken.push(waker);
        }
        self.wake(node, News { urgent: true, ..News::default() });
        true
    }

    /// A machine's power is cut, while its memory is still there. Where there is time, it is drawn what the disk has kept. Where there is
    /// none, calls under way are forgotten: each may end just before.
    pub(super) fn crash_disk(&mut self, node: NodeId) {
        let untimed = self.is_untimed();
        self.disk_wakers.retain(|(of, _), _| *of != node);
        let Some(costs) = self.profile.disk else { return };
        let state = &mut self.state;
        let disk = &mut state.disks[node.index()];
        let mut remains = Remains(&state.hcas);
        disk.crash((!untimed).then_some((&costs, &mut remains)));
        if !untimed && disk.is_undecided() {
            let seed = self.choice.word("crash");
            self.state.disks[node.index()].draw(PowerCut::new(seed));
        }
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
        match &end {
            Some(end) => self.saw(node, end),
            None => drop(self.disk_wakers.insert((node, id), waker.clone())),
        }
        end
    }

    /// What a machine's disk would have if it crashed now, and this seed drew what is kept.
    pub fn disk_after_crash(&self, node: NodeId, seed: u64) -> Vec<(ObjectName, Vec<u8>)> {
        let Some(disk) = self.state.disks.get(node.index()) else { return Vec::new() };
        let (mut disk, mut remains) = (disk.clone(), Remains(&self.state.hcas));
        disk.crash(self.profile.disk.as_ref().map(|costs| (costs, &mut remains)));
        disk.draw(PowerCut::new(seed));
        disk.objects().collect()
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
        self.woken.extend(self.disk_wakers.remove(&(node, id)));
    }
}
