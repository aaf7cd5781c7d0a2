//! Queue pairs, and what is posted to them.

use crate::NodeId;
use crate::hca::{Address, Endpoint, Ends, HcaId, Key, NewQp, RecvRequest, Route, SendRequest, Service};
use crate::log::Kind;
use crate::world::World;
use verbs_trait::{Modify, Nanos, Path, QpAttr, QpNum, QpType, Result, ToRtr, VerbsError};

impl World {
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
        let kind = self.hca_mut(hca)?.qps.get(qp).ok_or(VerbsError::DeviceGone)?.kind();
        let ends = self.ends_of(hca, qp, change);
        let stretch = self.timer_stretch(kind, change);
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
            Modify::Rtr(_) if kind == QpType::Rc => self.open_flow(hca, qp),
            Modify::Reset => self.close_flow(hca, qp),
            _ => {}
        }
        self.charge(node, self.profile.cpu.modify_qp_ns);
        Ok(())
    }

    /// The two ends of a connection that is being made.
    fn ends_of(&self, hca: HcaId, qp: Key, change: &Modify) -> Option<Ends> {
        let Modify::Rtr(ToRtr { dest_qp, path, .. }) = change else { return None };
        let found = self.state.hcas[hca.0 as usize].qps.get(qp)?;
        let me = Endpoint { hca, qp: found.num };
        if found.kind() == QpType::Ud {
            // It has a port, and no peer.
            let port = self.port_of(hca, found.attr().init?.port);
            return Some(Ends { me, peer: None, route: Route { from: port, to: port } });
        }
        let (peer, route) = match self.route(hca, path.port, path.dgid) {
            Some((hca, route)) => (Some(Endpoint { hca, qp: *dest_qp }), route),
            None => {
                let port = self.port_of(hca, path.port.clamp(1, self.ports));
                (None, Route { from: port, to: port })
            }
        };
        Some(Ends { me, peer, route })
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
        self.charge(node, self.profile.cpu.create_ns);
        Ok(Address { to: self.route(hca, path.port, path.dgid), service })
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
        self.charge(node, self.profile.cpu.create_ns);
        Ok(srq)
    }

    pub fn destroy_srq(&mut self, hca: HcaId, srq: Key) {
        self.engine(hca, None, |hca, io| hca.hw.destroy_srq(srq, io));
    }

    pub fn arm_srq(&mut self, node: NodeId, hca: HcaId, srq: Key, limit: u32) -> Result<()> {
        self.engine(hca, None, |hca, io| hca.hw.arm_srq(srq, limit, io))?;
        self.charge(node, self.profile.cpu.arm_ns);
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
        self.log.line(at, node, Kind::Post, format_args!("recv srq={} wr={}", srq.index, request.wr_id));
        self.hca_mut(hca)?.hw.post_shared(srq, request)
    }

    #[inline]
    fn charge_post(&mut self, node: NodeId, first: bool) -> Nanos {
        let cpu = &self.profile.cpu;
        self.charge(node, if first { cpu.post_ns } else { cpu.post_more_ns })
    }
}

fn check_most(what: &'static str, value: u32, bound: u32) -> Result<()> {
    let (value, bound) = (u64::from(value), u64::from(bound));
    if value <= bound { Ok(()) } else { Err(VerbsError::TooLarge { what, value, bound }) }
}
