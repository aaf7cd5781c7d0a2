//! Queue pairs, and what is posted to them.

use crate::NodeId;
use crate::explore::AccessKind;
use crate::explore::identity::object;
use crate::hca::{
    Address, Endpoint, Ends, Hardware, HcaId, Io, Key, NewQp, Qp, RecvRequest, Route, SendRequest, Service,
    Way,
};
use crate::log::Kind;
use crate::log::entry::Posted;
use crate::stats::Cause;
use crate::world::World;
use weft_verbs::{Modify, Nanos, Path, QpAttr, QpNum, QpType, Result, ToInit, ToRts, Update, VerbsError};

impl World {
    pub fn create_qp(&mut self, node: NodeId, hca: HcaId, ctx: u32, new: NewQp) -> Result<(Key, QpNum)> {
        self.machine(node).give_memory("ibv_create_qp")?;
        let made = self.context(hca, ctx)?.create_qp(ctx, new)?;
        self.qp_created(hca, made.0);
        self.charge(node, Cause::System, self.profile.cpu.create_ns);
        Ok(made)
    }

    pub fn destroy_qp(&mut self, hca: HcaId, qp: Key) {
        self.close_flow(hca, qp);
        if self.is_recorded() {
            self.touch_end(hca, qp);
        }
        self.touch_forgotten(hca, qp);
        self.engine(hca, None, |hca, io| hca.destroy_qp(qp, io));
    }

    pub fn qp_attr(&mut self, hca: HcaId, qp: Key) -> Result<QpAttr> {
        let found = self.state.hcas[hca.0 as usize].qps.get(qp);
        let attr = found.map(|qp| qp.attr()).ok_or(VerbsError::DeviceGone);
        self.touch(object::mode(hca.0, qp.index), AccessKind::Read);
        self.saw(self.shape.node(hca), &attr.ok());
        attr
    }

    /// Changes a queue pair's state. In the error state and in Reset it takes no packet from this moment on.
    pub fn modify_qp(&mut self, node: NodeId, hca: HcaId, qp: Key, change: &Modify) -> Result<()> {
        let answer = self.change_qp(hca, qp, change);
        self.saw(node, &answer.is_ok());
        answer?;
        self.charge(node, Cause::System, self.profile.cpu.modify_qp_ns);
        Ok(())
    }

    /// The same, for a program or for its connection manager.
    pub(in crate::world) fn change_qp(&mut self, hca: HcaId, qp: Key, change: &Modify) -> Result<()> {
        let kind = self.hca_mut(hca)?.qps.get(qp).ok_or(VerbsError::DeviceGone)?.kind();
        if matches!(change, Modify::Reset) {
            self.touch_forgotten(hca, qp);
        }
        if matches!(change, Modify::Update(_)) {
            self.touch_update(hca, qp);
        }
        let ends = self.ends_of(hca, qp, change)?;
        let stretch = self.timer_stretch(kind, change);
        let answer = self.engine(hca, Some(qp), |hca, io| {
            let answer = match hca.qps.get_mut(qp) {
                Some(qp) => qp.modify(change, &mut hca.hw, ends, stretch, io),
                None => Err(VerbsError::DeviceGone),
            };
            hca.handle_overruns(io);
            answer
        });
        answer?;
        match change {
            Modify::Rtr(_) if kind == QpType::Rc => self.open_flow(hca, qp),
            Modify::Reset => self.close_flow(hca, qp),
            _ => {}
        }
        Ok(())
    }

    /// A queue pair and where the paths lead that a change names.
    fn ends_of(&self, hca: HcaId, qp: Key, change: &Modify) -> Result<Ends> {
        let found = self.state.hcas[hca.0 as usize].qps.get(qp).ok_or(VerbsError::DeviceGone)?;
        let me = Endpoint { hca, qp: found.num };
        let (primary, alternate) = match change {
            Modify::Rtr(_) if found.kind() == QpType::Ud => (self.port_alone(hca, found.attr().init), None),
            Modify::Rtr(rtr) => {
                let way = |path: &Path| self.way(hca, path, rtr.dest_qp);
                (Some(way(&rtr.path)), rtr.alt.map(|alt| way(&alt.path)))
            }
            Modify::Rts(ToRts { alt, .. }) | Modify::Update(Update { alt, .. }) => {
                let way = |path: &Path| Some(self.way(hca, path, found.to_rtr()?.dest_qp));
                (None, alt.and_then(|alt| way(&alt.path)))
            }
            _ => (None, None),
        };
        Ok(Ends { me, primary, alternate })
    }

    /// A datagram queue pair has a port, and no peer.
    fn port_alone(&self, hca: HcaId, init: Option<ToInit>) -> Option<Way> {
        let port = self.port_of(hca, init?.port);
        Some(Way { peer: None, route: Route { from: port, to: port } })
    }

    /// Where a path leads.
    fn way(&self, hca: HcaId, path: &Path, dest_qp: QpNum) -> Way {
        match self.route(hca, path.port, path.dgid) {
            Some((hca, route)) => Way { peer: Some(Endpoint { hca, qp: dest_qp }), route },
            None => {
                let port = self.port_of(hca, path.port.clamp(1, self.shape.ports));
                Way { peer: None, route: Route { from: port, to: port } }
            }
        }
    }

    /// By how much an adapter's timer stretches the nominal time-out, in percent: a connection's own constant
    /// between 100 and 400 (IBA 9.7.6.1.3 allows one to four times).
    fn timer_stretch(&mut self, kind: QpType, change: &Modify) -> u64 {
        const STEPS: u64 = 13;
        match change {
            Modify::Rts(rts) if kind == QpType::Rc && rts.timeout.span().is_some() => {
                100 + 25 * self.choice.pick("ack-timeout", STEPS)
            }
            _ => 100,
        }
    }

    /// The address of a peer for datagrams.
    pub fn address(&mut self, node: NodeId, hca: HcaId, path: &Path) -> Result<Address> {
        self.hca_mut(hca)?;
        self.check_port(path.port)?;
        self.gid(hca, path.port, path.sgid_index)?;
        let service = Service { sl: path.sl, traffic_class: path.traffic_class, hop_limit: path.hop_limit };
        self.charge(node, Cause::System, self.profile.cpu.create_ns);
        Ok(Address { to: self.route(hca, path.port, path.dgid), service })
    }

    #[inline(always)]
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
        self.machine(node).asked.sends += 1;
        self.log.entry(at, node, Kind::Post, &Posted::Send { wr: request.wr_id, op: request.op });
        if self.is_recorded() {
            self.touch(object::mode(hca.0, qp.index), AccessKind::Read);
        }
        let post =
            |qp: &mut Qp, hw: &mut Hardware, io: &mut Io<'_>| qp.post_send(at, request, inline, hw, io);
        self.engine_of(hca, qp, post).unwrap_or(Err(VerbsError::DeviceGone))
    }

    #[inline(always)]
    pub fn post_recv(
        &mut self,
        node: NodeId,
        hca: HcaId,
        qp: Key,
        first: bool,
        request: RecvRequest,
    ) -> Result<()> {
        let at = self.charge_post(node, first);
        self.machine(node).asked.receives += 1;
        self.log.entry(at, node, Kind::Post, &Posted::Recv { wr: request.wr_id });
        if self.is_recorded() {
            self.touch_post_recv(hca, qp);
        }
        let post = |qp: &mut Qp, hw: &mut Hardware, io: &mut Io<'_>| qp.post_recv(at, request, hw, io);
        let answer = self.engine_of(hca, qp, post).unwrap_or(Err(VerbsError::DeviceGone));
        if answer.is_ok() {
            self.receive_posted(hca, qp);
        }
        answer
    }

    pub fn create_srq(
        &mut self,
        node: NodeId,
        hca: HcaId,
        ctx: u32,
        pd: Key,
        (depth, sges): (u32, u32),
    ) -> Result<Key> {
        let hw = &mut self.context(hca, ctx)?.hw;
        check_most("the number of receive requests", depth, hw.limits.max_wr)?;
        check_most("the number of scatter entries", sges, hw.limits.max_sge)?;
        let srq = hw.create_srq(ctx, pd, depth)?;
        self.charge(node, Cause::System, self.profile.cpu.create_ns);
        Ok(srq)
    }

    pub fn destroy_srq(&mut self, hca: HcaId, srq: Key) {
        self.engine(hca, None, |hca, io| hca.hw.destroy_srq(srq, io));
    }

    pub fn arm_srq(&mut self, node: NodeId, hca: HcaId, srq: Key, limit: u32) -> Result<()> {
        self.touch(object::shared(hca.0, srq.index), AccessKind::Write);
        self.engine(hca, None, |hca, io| hca.hw.arm_srq(srq, limit, io))?;
        self.charge(node, Cause::Completion, self.profile.cpu.arm_ns);
        Ok(())
    }

    pub fn post_shared(
        &mut self,
        node: NodeId,
        hca: HcaId,
        srq: Key,
        first: bool,
        request: RecvRequest,
    ) -> Result<()> {
        let at = self.charge_post(node, first);
        self.machine(node).asked.receives += 1;
        self.log.entry(at, node, Kind::Post, &Posted::Shared { srq: srq.index, wr: request.wr_id });
        self.hca_mut(hca)?;
        self.touch(object::shared(hca.0, srq.index), AccessKind::Write);
        self.engine(hca, None, |hca, io| hca.hw.post_shared(at, srq, request, io))
    }

    #[inline]
    fn charge_post(&mut self, node: NodeId, first: bool) -> Nanos {
        let cpu = &self.profile.cpu;
        let at = self.charge(node, Cause::Posting, if first { cpu.post_ns } else { cpu.post_more_ns });
        self.posted_at(at)
    }
}

fn check_most(what: &'static str, value: u32, bound: u32) -> Result<()> {
    let (value, bound) = (u64::from(value), u64::from(bound));
    if value <= bound { Ok(()) } else { Err(VerbsError::TooLarge { what, value, bound }) }
}
