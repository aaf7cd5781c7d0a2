//! What handles ask of a world: objects made and destroyed, requests posted, completions polled.

use super::World;
use crate::NodeId;
use crate::access::{RegionId, What, Who};
use crate::hca::{Bytes, Channel, Cq, Endpoint, Hca, HcaId, Key, NewQp, RecvRequest, SendRequest, keys_of};
use crate::log::Kind;
use crate::sanitizer::Registered;
use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;
use verbs_trait::{
    AccessFlags, Arm, Caps, CqId, DeviceAttr, Gid, LinkLayer, Modify, Mtu, Nanos, PinnedMemory, PortAttr,
    PortState, QpAttr, QpNum, Result, ToRtr, VerbsError, WorkCompletion,
};

/// A memory region as its handle needs it.
pub(crate) struct NewRegion {
    pub key: Key,
    pub addr: u64,
    pub len: usize,
    pub lkey: u32,
    pub rkey: u32,
}

/// The stable half of every GID: a link-local subnet and a vendor's part of the GUID.
const GID_PREFIX: [u8; 12] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x00, 0x02, 0xc9, 0x03];

pub(super) fn gid_of(hca: HcaId) -> Gid {
    let mut gid = [0; 16];
    gid[..12].copy_from_slice(&GID_PREFIX);
    gid[12..].copy_from_slice(&(hca.0 + 1).to_be_bytes());
    Gid(gid)
}

impl World {
    /// The adapter whose port has a GID.
    fn route(&self, gid: Gid) -> Option<HcaId> {
        let (prefix, rest) = gid.0.split_at(12);
        let number = u32::from_be_bytes(rest.try_into().ok()?).checked_sub(1)?;
        (prefix == GID_PREFIX && (number as usize) < self.state.hcas.len()).then_some(HcaId(number))
    }

    fn context(&mut self, hca: HcaId, ctx: u32) -> Result<&mut Hca> {
        let adapter = self.hca_mut(hca)?;
        adapter.check_context(ctx)?;
        Ok(adapter)
    }

    // Devices and ports.

    pub fn device_attr(&self, hca: HcaId) -> DeviceAttr {
        let limits = self.hardware(hca).limits;
        DeviceAttr {
            node_guid: u64::from_be_bytes([0x00, 0x02, 0xc9, 0x03, 0, 0, 0, 0]) + u64::from(hca.0) + 1,
            model: format!("simulated adapter, profile {}", self.profile.name),
            caps: Caps::ATOMICS
                | Caps::BROUGHT_MEMORY
                | Caps::CQ_RESIZE
                | Caps::SOLICITED
                | Caps::SQD
                | Caps::QP_EVENTS,
            ports: 1,
            max_qp: limits.max_qp,
            max_qp_wr: limits.max_wr,
            max_sge: limits.max_sge,
            max_inline: limits.max_inline,
            max_cq: limits.max_cq,
            max_cqe: limits.max_cqe,
            max_mr: limits.max_mr,
            max_mr_size: limits.max_mr_size,
            max_msg: crate::hca::MAX_MESSAGE,
            max_dest_rd_atomic: limits.max_rd_atomic,
            max_rd_atomic: limits.max_rd_atomic,
            max_srq: 0,
        }
    }

    pub fn port_attr(&self, hca: HcaId, port: u8) -> Result<PortAttr> {
        check_port(port)?;
        if self.state.hcas[hca.0 as usize].gone {
            return Err(VerbsError::DeviceGone);
        }
        let up = self.state.ports[hca.0 as usize].up;
        Ok(PortAttr {
            state: if up { PortState::Active } else { PortState::Down },
            link_layer: LinkLayer::InfiniBand,
            max_mtu: Mtu::B4096,
            active_mtu: self.profile.transport.mtu(),
            lid: (hca.0 + 1) as u16,
            gids: 1,
            bits_per_second: self.profile.link.bits_per_second,
        })
    }

    pub fn gid(&self, hca: HcaId, port: u8, index: u8) -> Result<Gid> {
        check_port(port)?;
        match index {
            0 => Ok(gid_of(hca)),
            _ => {
                Err(VerbsError::TooLarge { what: "the index of the GID", value: u64::from(index), bound: 0 })
            }
        }
    }

    // Protection domains and memory.

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
        self.insert_mr(node, hca, pd, access, Bytes::zeroed(len))
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
        self.insert_mr(node, hca, pd, access, Bytes::Brought(memory))
    }

    fn check_region(&mut self, hca: HcaId, pd: Key, len: usize, access: AccessFlags) -> Result<()> {
        let adapter = self.hca_mut(hca)?;
        let limits = adapter.hw.limits;
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
        Ok(())
    }

    fn insert_mr(
        &mut self,
        node: NodeId,
        hca: HcaId,
        pd: Key,
        access: AccessFlags,
        bytes: Bytes,
    ) -> Result<NewRegion> {
        let len = bytes.len();
        let pages = len.div_ceil(crate::hca::PAGE) as u64;
        let cpu = &self.profile.cpu;
        self.charge(node, cpu.register_ns.saturating_add(cpu.register_page_ns.saturating_mul(pages)));
        let id = RegionId(self.state.next_region);
        self.state.next_region += 1;
        let memory = &mut self.hca_mut(hca)?.hw.memory;
        let key = memory.insert(pd, access, id, bytes);
        let addr = memory.get(key).map_or(0, |region| region.addr);
        let (lkey, rkey) = keys_of(key);
        let details = format_args!("region {} addr={addr:#x} len={len}", id.0);
        self.log.line(self.state.now, node, Kind::Object, details);
        if let Some(sanitizer) = self.state.access.sanitizer() {
            let peers = AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
            let rkey = access.intersects(peers).then_some(rkey);
            sanitizer.registered(Registered { id, hca, addr, len: len as u64, rkey });
        }
        Ok(NewRegion { key, addr, len, lkey, rkey })
    }

    pub fn dereg_mr(&mut self, node: NodeId, hca: HcaId, mr: Key) -> Option<Rc<dyn PinnedMemory>> {
        let at = self.local_time(node);
        if let (Some(sanitizer), Some(region)) =
            (self.state.access.sanitizer(), self.state.hcas[hca.0 as usize].hw.memory.get(mr))
        {
            sanitizer.given_up(region.id, at);
        }
        self.state.hcas[hca.0 as usize].hw.memory.drop_handle(mr)
    }

    #[inline]
    pub fn cpu_read(&mut self, node: NodeId, hca: HcaId, mr: Key, at: usize, out: &mut [u8]) -> Result<()> {
        let when = self.local_time(node);
        let region = self.state.hcas[hca.0 as usize].hw.memory.get(mr).ok_or(VerbsError::DeviceGone)?;
        region.bytes.read(at, out);
        self.state.access.note(when, Who::Cpu(node), region.id, at as u64, out.len() as u64, What::Read);
        Ok(())
    }

    #[inline]
    pub fn cpu_write(&mut self, node: NodeId, hca: HcaId, mr: Key, at: usize, bytes: &[u8]) -> Result<()> {
        let when = self.local_time(node);
        let memory = &mut self.state.hcas[hca.0 as usize].hw.memory;
        let region = memory.get_mut(mr).ok_or(VerbsError::DeviceGone)?;
        region.bytes.write(at, bytes);
        self.state.access.note(when, Who::Cpu(node), region.id, at as u64, bytes.len() as u64, What::Write);
        Ok(())
    }

    pub fn claim(&mut self, node: NodeId, hca: HcaId, mr: Key, range: Range<usize>) -> Result<NonNull<[u8]>> {
        let when = self.local_time(node);
        let region = self.state.hcas[hca.0 as usize].hw.memory.get(mr).ok_or(VerbsError::DeviceGone)?;
        let (at, len) = (range.start as u64, (range.end - range.start) as u64);
        self.state.access.note(when, Who::Cpu(node), region.id, at, len, What::Claim);
        Ok(region.bytes.claim(range))
    }

    // Completions.

    pub fn create_channel(&mut self, hca: HcaId, ctx: u32) -> Result<Key> {
        Ok(self.context(hca, ctx)?.hw.completions.channels.insert(Channel::default()))
    }

    pub fn destroy_channel(&mut self, hca: HcaId, channel: Key) {
        self.state.hcas[hca.0 as usize].hw.completions.destroy_channel(channel);
    }

    pub fn channel_event(&mut self, node: NodeId, hca: HcaId, channel: Key) -> Option<CqId> {
        let event = self.state.hcas[hca.0 as usize].hw.completions.take_signal(channel)?;
        self.charge(node, self.profile.cpu.event_ns);
        Some(event)
    }

    pub fn create_cq(
        &mut self,
        node: NodeId,
        hca: HcaId,
        ctx: u32,
        cqe: u32,
        channel: Option<Key>,
    ) -> Result<Key> {
        let adapter = self.context(hca, ctx)?;
        let limits = adapter.hw.limits;
        check_cqe(cqe, limits.max_cqe)?;
        let completions = &mut adapter.hw.completions;
        if completions.cqs.len() >= limits.max_cq {
            return Err(VerbsError::Exhausted { what: "completion queue", limit: u64::from(limits.max_cq) });
        }
        let key = completions.cqs.insert(Cq::new(ctx, channel, cqe));
        self.charge(node, self.profile.cpu.create_ns);
        Ok(key)
    }

    pub fn destroy_cq(&mut self, hca: HcaId, cq: Key) {
        self.state.hcas[hca.0 as usize].hw.completions.destroy_cq(cq);
    }

    pub fn cq_capacity(&self, hca: HcaId, cq: Key) -> u32 {
        self.hardware(hca).completions.cqs.get(cq).map_or(0, |cq| cq.capacity)
    }

    pub fn resize_cq(&mut self, hca: HcaId, cq: Key, cqe: u32) -> Result<()> {
        let hw = &mut self.hca_mut(hca)?.hw;
        check_cqe(cqe, hw.limits.max_cqe)?;
        let queue = hw.completions.cqs.get_mut(cq).ok_or(VerbsError::DeviceGone)?;
        if queue.len() > cqe as usize {
            return Err(VerbsError::Busy("the completion queue's present size"));
        }
        queue.capacity = cqe;
        Ok(())
    }

    pub fn poll_cq(
        &mut self,
        node: NodeId,
        hca: HcaId,
        cq: Key,
        out: &mut Vec<WorkCompletion>,
        max: usize,
    ) -> Result<usize> {
        let Hca { qps, hw, .. } = &mut self.state.hcas[hca.0 as usize];
        let mut sanitizer = self.state.access.sanitizer();
        let n = hw.completions.poll(cq, out, max, |owner, slots| {
            if slots > 0
                && let Some(qp) = qps.get_mut(owner)
            {
                qp.free_slots(slots);
            }
            if let Some(sanitizer) = &mut sanitizer {
                sanitizer.polled(hca, owner, slots);
            }
        })?;
        let cpu = &self.profile.cpu;
        let at = self.charge(node, if n == 0 { cpu.poll_empty_ns } else { cpu.poll_hit_ns });
        if n > 0 {
            self.log.line(at, node, Kind::Poll, format_args!("cq={} n={n}", cq.index));
        }
        Ok(n)
    }

    pub fn arm_cq(&mut self, node: NodeId, hca: HcaId, cq: Key, next: Arm) -> Result<()> {
        let queue = self.hca_mut(hca)?.hw.completions.cqs.get_mut(cq).ok_or(VerbsError::DeviceGone)?;
        if queue.channel.is_none() {
            return Err(VerbsError::Invalid("a completion queue without a channel cannot be armed"));
        }
        // Armed for any completion stays armed for any (IBA 11.4.2.2).
        if queue.armed != Some(Arm::Next) {
            queue.armed = Some(next);
        }
        let at = self.charge(node, self.profile.cpu.arm_ns);
        self.log.line(at, node, Kind::Arm, format_args!("cq={} {next:?}", cq.index));
        Ok(())
    }

    // Queue pairs.

    pub fn create_qp(&mut self, node: NodeId, hca: HcaId, ctx: u32, new: NewQp) -> Result<(Key, QpNum)> {
        let made = self.context(hca, ctx)?.create_qp(ctx, new)?;
        self.charge(node, self.profile.cpu.create_ns);
        Ok(made)
    }

    pub fn destroy_qp(&mut self, hca: HcaId, qp: Key) {
        self.close_flow(hca, qp);
        self.engine(hca, None, |hca, io| hca.destroy_qp(qp, io));
    }

    pub fn qp_attr(&self, hca: HcaId, qp: Key) -> Result<QpAttr> {
        let found = self.state.hcas[hca.0 as usize].qps.get(qp);
        found.map(|qp| qp.attr()).ok_or(VerbsError::DeviceGone)
    }

    /// Changes a queue pair's state. In the error state and in Reset it takes no packet from this moment on.
    pub fn modify_qp(&mut self, node: NodeId, hca: HcaId, qp: Key, change: &Modify) -> Result<()> {
        self.hca_mut(hca)?.qps.get(qp).ok_or(VerbsError::DeviceGone)?;
        let ends = self.ends_of(hca, qp, change);
        let stretch = self.timer_stretch(change);
        let answer = self.engine(hca, Some(qp), |hca, io| {
            let answer = match hca.qps.get_mut(qp) {
                Some(qp) => qp.modify(change, &mut hca.hw, ends, stretch, io),
                None => Err(VerbsError::DeviceGone),
            };
            hca.settle(io);
            answer
        });
        answer?;
        match change {
            Modify::Rtr(_) => self.open_flow(hca, qp),
            Modify::Reset => self.close_flow(hca, qp),
            _ => {}
        }
        self.charge(node, self.profile.cpu.modify_qp_ns);
        Ok(())
    }

    /// The two ends of a connection that is being made.
    fn ends_of(&self, hca: HcaId, qp: Key, change: &Modify) -> Option<(Endpoint, Option<Endpoint>)> {
        let Modify::Rtr(ToRtr { dest_qp, path, .. }) = change else { return None };
        let num = self.state.hcas[hca.0 as usize].qps.get(qp)?.num;
        let peer = self.route(path.dgid).map(|hca| Endpoint { hca, qp: *dest_qp });
        Some((Endpoint { hca, qp: num }, peer))
    }

    /// By how much an adapter's timer stretches the nominal time-out, in percent: a connection's own constant
    /// between 100 and 400 (IBA 9.7.6.1.3 allows one to four times).
    fn timer_stretch(&mut self, change: &Modify) -> u64 {
        const STEPS: u64 = 13;
        match change {
            Modify::Rts(rts) if rts.timeout.span().is_some() => {
                100 + 25 * self.choice.pick("ack-timeout", STEPS)
            }
            _ => 100,
        }
    }

    #[inline]
    pub fn post_send(
        &mut self,
        node: NodeId,
        hca: HcaId,
        qp: Key,
        first: bool,
        request: SendRequest,
        inline: &[u8],
    ) -> Result<()> {
        let at = self.charge_post(node, first);
        self.log.line(at, node, Kind::Post, format_args!("send wr={} {:?}", request.wr_id, request.op));
        self.engine(hca, Some(qp), |hca, io| {
            let Some(qp) = hca.qps.get_mut(qp) else { return Err(VerbsError::DeviceGone) };
            let answer = qp.post_send(at, request, inline, &mut hca.hw, io);
            hca.settle(io);
            answer
        })
    }

    #[inline]
    pub fn post_recv(
        &mut self,
        node: NodeId,
        hca: HcaId,
        qp: Key,
        first: bool,
        request: RecvRequest,
    ) -> Result<()> {
        let at = self.charge_post(node, first);
        self.log.line(at, node, Kind::Post, format_args!("recv wr={}", request.wr_id));
        self.engine(hca, Some(qp), |hca, io| {
            let Some(qp) = hca.qps.get_mut(qp) else { return Err(VerbsError::DeviceGone) };
            let answer = qp.post_recv(at, request, &mut hca.hw, io);
            hca.settle(io);
            answer
        })
    }

    #[inline]
    fn charge_post(&mut self, node: NodeId, first: bool) -> Nanos {
        let cpu = &self.profile.cpu;
        self.charge(node, if first { cpu.post_ns } else { cpu.post_more_ns })
    }
}

fn check_port(port: u8) -> Result<()> {
    if port == 1 { Ok(()) } else { Err(VerbsError::Invalid("there is no such port")) }
}

fn check_cqe(cqe: u32, bound: u32) -> Result<()> {
    match cqe {
        0 => Err(VerbsError::Invalid("a completion queue needs room for one completion at least")),
        _ if cqe > bound => Err(VerbsError::TooLarge {
            what: "the number of completions",
            value: u64::from(cqe),
            bound: u64::from(bound),
        }),
        _ => Ok(()),
    }
}
