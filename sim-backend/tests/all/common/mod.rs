//! Connected queue pairs without ceremony.
#![allow(dead_code, missing_docs)]

use weft_sim::choice::{Choice, Seeded};
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Sim, SimChannel, SimContext, SimCq, SimHost, SimMr, SimPd, SimQp};
use weft_verbs::*;

pub const ALL: AccessFlags = AccessFlags::all();

pub fn profile() -> Profile {
    Profile::builtin("ncosed-2007").unwrap()
}

pub fn fabric(nodes: u32) -> Fabric {
    fabric_with(Config::new(nodes, profile()), Box::new(Seeded::new(1)))
}

pub fn fabric_with(config: Config, choice: Box<dyn Choice>) -> Fabric {
    Fabric::new(config, choice).unwrap()
}

/// One side of a connection, with 64 KiB of memory.
pub struct Side {
    pub node: NodeId,
    pub ctx: SimContext,
    pub pd: SimPd,
    pub channel: SimChannel,
    pub cq: SimCq,
    pub qp: SimQp,
    pub mr: SimMr,
    pub host: SimHost,
}

pub fn init() -> ToInit {
    ToInit { port: 1, pkey_index: 0, access: ALL, qkey: 0 }
}

pub fn rtr(peer: &Side) -> ToRtr {
    ToRtr {
        dest_qp: peer.qp.num(),
        rq_psn: Psn::new(0xff_fff0),
        path: Path::to(peer.ctx.gid(1, 0).unwrap(), 1),
        mtu: Mtu::B1024,
        min_rnr_timer: RnrTimer::new(1).unwrap(),
        max_dest_rd_atomic: 4,
        alt: None,
    }
}

pub fn rts() -> ToRts {
    ToRts {
        sq_psn: Psn::new(0xff_fff0),
        timeout: AckTimeout::new(3).unwrap(),
        retry: Retries::new(3).unwrap(),
        rnr_retry: Retries::new(3).unwrap(),
        max_rd_atomic: 4,
        alt: None,
        migration: Migration::Migrated,
    }
}

impl Side {
    pub fn new(fabric: &Fabric, node: u32) -> Side {
        Side::sized(fabric, node, QpCaps { max_send_sge: 4, max_recv_sge: 4, ..QpCaps::default() }, 256)
    }

    pub fn sized(fabric: &Fabric, node: u32, caps: QpCaps, cqe: u32) -> Side {
        Side::on(fabric, (node, 0), caps, cqe)
    }

    /// A side on one of a node's devices.
    pub fn on(fabric: &Fabric, (node, device): (u32, usize), caps: QpCaps, cqe: u32) -> Side {
        let node = NodeId(node);
        let ctx = fabric.devices(node)[device].open().unwrap();
        let pd = ctx.alloc_pd().unwrap();
        let channel = ctx.create_channel().unwrap();
        let cq = ctx.create_cq(cqe, Some(&channel)).unwrap();
        let qp = pd
            .create_qp(&QpInit {
                kind: QpType::Rc,
                send_cq: &cq,
                recv_cq: &cq,
                srq: None,
                caps,
                sq_sig_all: false,
            })
            .unwrap();
        let mr = pd.alloc_mr(1 << 16, ALL).unwrap();
        let host = ctx.host();
        qp.modify(&Modify::Init(init())).unwrap();
        Side { node, ctx, pd, channel, cq, qp, mr, host }
    }

    pub fn connect(&self, rtr: ToRtr, rts: ToRts) {
        self.qp.modify(&Modify::Rtr(rtr)).unwrap();
        self.qp.modify(&Modify::Rts(rts)).unwrap();
    }

    pub fn sge(&self, at: u32, len: u32) -> [Sge<'_, SimMr>; 1] {
        [Sge { mr: &self.mr, at, len }]
    }

    pub fn recv(&self, wr_id: u64, at: u32, len: u32) {
        self.qp.post_recv(&[RecvWr { wr_id, data: &self.sge(at, len) }]).unwrap();
    }

    pub fn post(&self, wr_id: u64, op: SendOp<'_, Sim>, at: u32, len: u32, flags: SendFlags) {
        let sge = self.sge(at, len);
        self.qp.post_send(&[SendWr { wr_id, op, data: Payload::Sge(&sge), flags }]).unwrap();
    }

    pub fn send(&self, wr_id: u64, at: u32, len: u32) {
        self.post(wr_id, SendOp::Send { imm: None }, at, len, SendFlags::SIGNALED);
    }

    pub fn remote(&self, at: usize, len: usize) -> RemoteSlice {
        self.mr.remote(at..at + len).unwrap()
    }

    pub fn polled(&self) -> Vec<WorkCompletion> {
        let mut out = vec![];
        self.cq.poll(&mut out, usize::MAX).unwrap();
        out
    }
}

pub fn connected_with(
    fabric: &Fabric,
    rtr_of: impl Fn(ToRtr) -> ToRtr,
    rts_of: impl Fn(ToRts) -> ToRts,
) -> (Side, Side) {
    let (a, b) = (Side::new(fabric, 0), Side::new(fabric, fabric.nodes() - 1));
    a.connect(rtr_of(rtr(&b)), rts_of(rts()));
    b.connect(rtr_of(rtr(&a)), rts_of(rts()));
    // The processors pay for all that; what a test posts then leaves at once.
    run(fabric, Nanos::from_millis(1));
    (a, b)
}

pub fn connected(fabric: &Fabric) -> (Side, Side) {
    connected_with(fabric, |r| r, |r| r)
}

/// Lets the world run for so long.
pub fn run(fabric: &Fabric, span: Nanos) {
    fabric.run_until(fabric.now() + span);
}

/// Runs until nothing is pending.
pub fn settle(fabric: &Fabric) {
    fabric.run_until(Nanos::MAX);
}

/// Completions as (request, status).
pub fn ids(list: &[WorkCompletion]) -> Vec<(u64, Option<WcError>)> {
    list.iter().map(|c| (c.wr_id, c.result.err())).collect()
}
