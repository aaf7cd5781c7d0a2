//! Protection domains and memory regions.

use super::NewRegion;
use crate::NodeId;
use crate::access::{RegionId, What, Who};
use crate::explore::AccessKind;
use crate::explore::identity::object;
use crate::hca::{Bytes, HcaId, Key};
use crate::log::Kind;
use crate::sanitizer::Registered;
use crate::stats::Cause;
use crate::world::World;
use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;
use weft_verbs::{AccessFlags, PinnedMemory, Result, VerbsError};

impl World {
    pub fn alloc_pd(&mut self, hca: HcaId, ctx: u32) -> Result<Key> {
        Ok(self.context(hca, ctx)?.pds.insert(ctx))
    }

    pub fn free_pd(&mut self, hca: HcaId, pd: Key) {
        self.state.hcas[hca.0 as usize].pds.remove(pd);
    }

    pub fn alloc_mr(
        &mut self,
        node: NodeId,
        hca: HcaId,
        pd: Key,
        len: usize,
        access: AccessFlags,
    ) -> Result<NewRegion> {
        self.check_region(hca, pd, len, access)?;
        self.insert_mr(node, hca, pd, access, (Bytes::zeroed(len), None))
    }

    pub fn register_mr(
        &mut self,
        node: NodeId,
        hca: HcaId,
        pd: Key,
        memory: Rc<dyn PinnedMemory>,
        access: AccessFlags,
    ) -> Result<NewRegion> {
        if let Err(why) = self.check_region(hca, pd, memory.len(), access) {
            // Its destructor is the application's code, and must not run inside of the world.
            self.brought.push(memory);
            return Err(why);
        }
        self.insert_mr(node, hca, pd, access, (Bytes::Brought(memory), None))
    }

    /// Registers a range of a region as a region.
    pub fn register_part(
        &mut self,
        node: NodeId,
        hca: HcaId,
        pd: Key,
        (of, range): (Key, Range<usize>),
        access: AccessFlags,
    ) -> Result<NewRegion> {
        self.check_region(hca, pd, range.len(), access)?;
        let bytes = self.hca_mut(hca)?.hw.memory.part_of(of, pd, &range)?;
        self.insert_mr(node, hca, pd, access, (bytes, Some((of, range.start))))
    }

    fn check_region(&mut self, hca: HcaId, pd: Key, len: usize, access: AccessFlags) -> Result<()> {
        let adapter = self.hca_mut(hca)?;
        let (limits, node) = (adapter.hw.limits, adapter.hw.node);
        adapter.pds.get(pd).ok_or(VerbsError::DeviceGone)?;
        if len as u64 > limits.max_mr_size {
            return Err(VerbsError::TooLarge {
                what: "the length of a memory region",
                value: len as u64,
                bound: limits.max_mr_size,
            });
        }
        let remote_change = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
        if access.intersects(remote_change) && !access.contains(AccessFlags::LOCAL_WRITE) {
            // IBA 10.6.3.1: who lets peers change memory lets the local adapter change it.
            return Err(VerbsError::Invalid("remote writing and remote atomics need local writing as well"));
        }
        if adapter.hw.memory.len() >= limits.max_mr {
            return Err(VerbsError::Exhausted { what: "memory region", limit: u64::from(limits.max_mr) });
        }
        self.machine(node).give_memory("ibv_reg_mr")
    }

    fn insert_mr(
        &mut self,
        node: NodeId,
        hca: HcaId,
        pd: Key,
        access: AccessFlags,
        (bytes, of): (Bytes, Option<(Key, usize)>),
    ) -> Result<NewRegion> {
        let len = bytes.len();
        let pages = len.div_ceil(crate::hca::PAGE) as u64;
        let cpu = &self.profile.cpu;
        let ns = cpu.register_ns.saturating_add(cpu.register_page_ns.saturating_mul(pages));
        self.charge(node, Cause::System, ns);
        let asked = &mut self.machine(node).asked;
        asked.registrations += 1;
        asked.registered += len as u64;
        let id = RegionId(self.next_region(node));
        self.touch(object::regions(hca), AccessKind::Write);
        let host = bytes.shared_at();
        let memory = &mut self.hca_mut(hca)?.hw.memory;
        let key = memory.insert(pd, access, id, bytes);
        if let Some((whole, at)) = of {
            memory.lend(whole, at, key);
        }
        let addr = memory.get(key).map_or(0, |region| region.addr);
        let (lkey, rkey) = memory.keys(key);
        let details = format_args!("region {} addr={addr:#x} len={len}", id.0);
        self.log.line(self.state.now, node, Kind::Object, details);
        if let Some(sanitizer) = self.state.access.sanitizer() {
            let peers = AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
            let rkey = access.intersects(peers).then_some(rkey);
            let torn_reads = access.contains(AccessFlags::TORN_READS);
            sanitizer.registered(Registered { id, hca, addr, len: len as u64, rkey, torn_reads, host });
        }
        Ok(NewRegion { key, addr, len, lkey, rkey })
    }

    pub fn dereg_mr(&mut self, node: NodeId, hca: HcaId, mr: Key) -> Option<Rc<dyn PinnedMemory>> {
        let at = self.local_time(node);
        self.touch_region_end(hca, mr);
        if let (Some(sanitizer), Some(region)) =
            (self.state.access.sanitizer(), self.state.hcas[hca.0 as usize].hw.memory.get(mr))
        {
            sanitizer.given_up(region.id, at);
        }
        self.state.hcas[hca.0 as usize].hw.memory.drop_handle(mr)
    }

    /// Ends a region's registration. Its bytes stay with the program's handles, and no key opens them any more.
    pub fn revoke_mr(&mut self, node: NodeId, hca: HcaId, mr: Key) -> Result<()> {
        // A call of the operating system; what the adapter does for it is not known to any profile.
        let at = self.charge(node, Cause::System, self.profile.cpu.syscall_ns);
        self.touch_region_end(hca, mr);
        let answer = self.hca_mut(hca)?.hw.memory.revoke(mr);
        self.saw(node, &answer.is_ok());
        answer?;
        let memory = &self.hca_mut(hca)?.hw.memory;
        let id = memory.get(mr).map(|region| region.id);
        if let (Some(sanitizer), Some(id)) = (self.state.access.sanitizer(), id) {
            sanitizer.given_up(id, at);
        }
        Ok(())
    }

    #[inline]
    pub fn cpu_read(&mut self, node: NodeId, hca: HcaId, mr: Key, at: usize, out: &mut [u8]) -> Result<()> {
        let when = self.local_time(node);
        let hw = &self.state.hcas[hca.0 as usize].hw;
        let region = hw.memory.get(mr).ok_or(VerbsError::DeviceGone)?;
        region.reach(at, out.len())?;
        region.bytes.read(at, out);
        hw.late.mask(mr, at, out, when);
        self.state.access.note(when, Who::Cpu(node), region.id, at as u64, out.len() as u64, What::Read);
        self.saw(node, out);
        Ok(())
    }

    #[inline]
    pub fn cpu_write(&mut self, node: NodeId, hca: HcaId, mr: Key, at: usize, bytes: &[u8]) -> Result<()> {
        let when = self.local_time(node);
        let hw = &mut self.state.hcas[hca.0 as usize].hw;
        let region = hw.memory.get_mut(mr).ok_or(VerbsError::DeviceGone)?;
        region.reach(at, bytes.len())?;
        hw.late.overwrite(mr, at, bytes.len());
        region.bytes.write(at, bytes);
        self.state.access.note(when, Who::Cpu(node), region.id, at as u64, bytes.len() as u64, What::Write);
        Ok(())
    }

    pub fn claim(&mut self, node: NodeId, hca: HcaId, mr: Key, range: Range<usize>) -> Result<NonNull<[u8]>> {
        let when = self.local_time(node);
        let hw = &mut self.state.hcas[hca.0 as usize].hw;
        let region = hw.memory.get(mr).ok_or(VerbsError::DeviceGone)?;
        region.reach(range.start, range.len())?;
        hw.late.overwrite(mr, range.start, range.len());
        let (at, len) = (range.start as u64, (range.end - range.start) as u64);
        self.state.access.note(when, Who::Cpu(node), region.id, at, len, What::Claim);
        Ok(region.bytes.claim(range))
    }
}
