//! What handles ask of a world: objects made and destroyed, requests posted, completions polled.

mod memory;
mod queue_pairs;

use super::World;
use crate::NodeId;
use crate::explore::AccessKind;
use crate::explore::identity::object;
use crate::hca::{Channel, Cq, Hca, HcaId, Key, PortId, Route};
use crate::log::Kind;
use crate::log::entry::{Armed, Polled};
use crate::stats::Cause;
use weft_verbs::{
    Arm, Caps, CqId, DeviceAttr, Gid, LinkLayer, Mtu, PortAttr, PortState, Result, VerbsError, WorkCompletion,
};

/// A memory region as its handle needs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NewRegion {
    pub key: Key,
    pub addr: u64,
    pub len: usize,
    pub lkey: u32,
    pub rkey: u32,
}

impl World {
    /// The way from an adapter's port, counted from 1, to the port of a GID; `None` where there is no such port.
    fn route(&self, hca: HcaId, port: u8, gid: Gid) -> Option<(HcaId, Route)> {
        self.check_port(port).ok()?;
        let to = PortId::of_gid(gid)?;
        let route = Route { from: self.port_of(hca, port), to };
        ((to.0 as usize) < self.state.ports.len()).then(|| (self.shape.hca(to), route))
    }

    fn context(&mut self, hca: HcaId, ctx: u32) -> Result<&mut Hca> {
        let adapter = self.hca_mut(hca)?;
        adapter.check_context(ctx)?;
        Ok(adapter)
    }

    // Devices and ports.

    /// An adapter's port, counted from 1, as the world counts it.
    pub(super) fn port_of(&self, hca: HcaId, port: u8) -> PortId {
        self.shape.port(hca, port)
    }

    fn check_port(&self, port: u8) -> Result<()> {
        if (1..=self.shape.ports).contains(&port) {
            Ok(())
        } else {
            Err(VerbsError::Invalid("there is no such port"))
        }
    }

    pub fn device_attr(&self, hca: HcaId) -> DeviceAttr {
        let limits = self.hardware(hca).limits;
        let caps = Caps::UD
            | Caps::SRQ
            | Caps::APM
            | Caps::BROUGHT_MEMORY
            | Caps::CQ_RESIZE
            | Caps::SOLICITED
            | Caps::SQD
            | Caps::QP_EVENTS;
        let atomics = if limits.atomics { Caps::ATOMICS } else { Caps::empty() };
        let ports = if self.shape.ports > 1 { Caps::MULTI_PORT } else { Caps::empty() };
        // Streams are made of time.
        let streams = if self.is_untimed() { Caps::empty() } else { Caps::OUT_OF_BAND };
        let disk = if self.has_disks() { Caps::DISK } else { Caps::empty() };
        DeviceAttr {
            node_guid: u64::from_be_bytes([0x00, 0x02, 0xc9, 0x03, 0, 0, 0, 0]) + u64::from(hca.0) + 1,
            model: self.device_model.clone(),
            caps: caps | atomics | ports | streams | disk,
            ports: self.shape.ports,
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
            max_srq: limits.max_srq,
            max_srq_wr: limits.max_wr,
        }
    }

    pub fn port_attr(&mut self, node: NodeId, hca: HcaId, port: u8) -> Result<PortAttr> {
        self.check_port(port)?;
        if self.state.hcas[hca.0 as usize].gone {
            return Err(VerbsError::DeviceGone);
        }
        let id = self.port_of(hca, port);
        let up = self.state.ports[id.0 as usize].up;
        self.touch_port(id);
        self.saw(node, &up);
        Ok(PortAttr {
            state: if up { PortState::Active } else { PortState::Down },
            link_layer: LinkLayer::InfiniBand,
            max_mtu: Mtu::B4096,
            active_mtu: self.profile.transport.mtu(),
            lid: id.lid(),
            gids: 1,
            bits_per_second: self.profile.link.bits_per_second,
        })
    }

    pub fn gid(&self, hca: HcaId, port: u8, index: u8) -> Result<Gid> {
        self.check_port(port)?;
        match index {
            0 => Ok(self.port_of(hca, port).gid()),
            _ => {
                Err(VerbsError::TooLarge { what: "the index of the GID", value: u64::from(index), bound: 0 })
            }
        }
    }

    // Completions.

    pub fn create_channel(&mut self, hca: HcaId, ctx: u32) -> Result<Key> {
        Ok(self.context(hca, ctx)?.hw.completions.channels.insert(Channel::default()))
    }

    pub fn destroy_channel(&mut self, hca: HcaId, channel: Key) {
        self.state.hcas[hca.0 as usize].hw.completions.destroy_channel(channel);
    }

    pub fn channel_event(&mut self, node: NodeId, hca: HcaId, channel: Key) -> Option<CqId> {
        let event = self.state.hcas[hca.0 as usize].hw.completions.take_signal(channel);
        self.saw(node, &event);
        if event.is_some() {
            self.charge(node, Cause::Completion, self.profile.cpu.event_ns);
        }
        event
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
        self.charge(node, Cause::System, self.profile.cpu.create_ns);
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
        self.touch(object::room(hca.0, cq.index), AccessKind::Write);
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
        let shown = if self.in_order() { self.shown(hca, cq, max) } else { Some(max) };
        if self.is_recorded()
            && let Some(max) = shown
        {
            self.touch_poll(hca, cq, max);
        }
        let max = shown.unwrap_or(0);
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
        self.saw(node, &out[out.len() - n..]);
        self.machine(node).asked.completions += n as u64;
        let cpu = &self.profile.cpu;
        let at =
            self.charge(node, Cause::Completion, if n == 0 { cpu.poll_empty_ns } else { cpu.poll_hit_ns });
        if n > 0 {
            self.log.entry(at, node, Kind::Poll, &Polled { cq: cq.index, n });
        }
        Ok(n)
    }

    pub fn arm_cq(&mut self, node: NodeId, hca: HcaId, cq: Key, next: Arm) -> Result<()> {
        self.touch(object::armed(hca.0, cq.index), AccessKind::Write);
        let queue = self.hca_mut(hca)?.hw.completions.cqs.get_mut(cq).ok_or(VerbsError::DeviceGone)?;
        if queue.channel.is_none() {
            return Err(VerbsError::Invalid("a completion queue without a channel cannot be armed"));
        }
        // Armed for any completion stays armed for any (IBA 11.4.2.2).
        if queue.armed != Some(Arm::Next) {
            queue.armed = Some(next);
        }
        let at = self.charge(node, Cause::Completion, self.profile.cpu.arm_ns);
        self.log.entry(at, node, Kind::Arm, &Armed { cq: cq.index, next });
        Ok(())
    }
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
