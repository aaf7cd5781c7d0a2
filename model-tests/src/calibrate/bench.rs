//! What is measured on: two queue pairs of one adapter, connected to each other, and their memory.

use super::SMALL;
use weft_verbs::{
    AccessFlags, AckTimeout, Caps, Clock, Context, MemoryRegion, Migration, Modify, Mtu, Path, Payload,
    PostError, ProtectionDomain, Psn, QpCaps, QpInit, QpType, QueuePair, RecvWr, RemoteSlice, Result,
    Retries, RnrTimer, SendFlags, SendOp, SendWr, Sge, ToInit, ToRtr, ToRts, Verbs,
};

/// One connection within an adapter.
pub(super) struct Bench<V: Verbs> {
    pub channel: V::Channel,
    pub cq: V::Cq,
    near: V::Qp,
    far: V::Qp,
    from: V::Mr,
    to: V::Mr,
    /// All of the far memory, for peers.
    target: RemoteSlice,
    /// How long each change of a state took.
    pub modified: Vec<u64>,
    /// How long the completion queue took.
    pub created: u64,
}

/// An operation that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// A message of so many bytes.
    Send(u32),
    Read,
    CompareSwap,
    FetchAdd,
    /// So many writes in one list, of which the last is signaled.
    Writes(u64),
}

impl Operation {
    /// How many completions it has.
    pub fn completions(self) -> u32 {
        if matches!(self, Operation::Send(_)) { 2 } else { 1 }
    }
}

impl<V: Verbs> Bench<V> {
    pub fn new(
        context: &V::Context,
        host: &V::Host,
        port: u8,
        gid_index: u8,
        packet: u32,
    ) -> Result<Bench<V>> {
        let pd = context.alloc_pd()?;
        let channel = context.create_channel()?;
        let began = host.now();
        let cq = context.create_cq(64, Some(&channel))?;
        let created = (host.now() - began).0;
        let len = packet.max(SMALL) as usize;
        let mut access = AccessFlags::all();
        access.set(AccessFlags::REMOTE_ATOMIC, context.device_attr().caps.contains(Caps::ATOMICS));
        let (from, to) = (pd.alloc_mr(len, access)?, pd.alloc_mr(len, access)?);
        let caps = QpCaps { max_send_wr: 32, max_recv_wr: 4, max_inline: 0, ..QpCaps::default() };
        let (kind, srq, sq_sig_all) = (QpType::Rc, None, false);
        let make = || pd.create_qp(&QpInit { kind, send_cq: &cq, recv_cq: &cq, srq, caps, sq_sig_all });
        let (near, far) = (make()?, make()?);
        let target = to.remote(0..len)?;
        let mut bench: Bench<V> =
            Bench { channel, cq, near, far, from, to, target, modified: Vec::new(), created };
        let (gid, lid) = (context.gid(port, gid_index)?, context.port_attr(port)?.lid);
        let mtu = context.port_attr(port)?.active_mtu;
        let path = Path { sgid_index: gid_index, dlid: lid, ..Path::to(gid, port) };
        let ends = [(bench.near.clone(), bench.far.num()), (bench.far.clone(), bench.near.num())];
        for (qp, peer) in ends {
            for change in states(peer, path, mtu, (port, access)) {
                let began = host.now();
                qp.modify(&change)?;
                bench.modified.push((host.now() - began).0);
            }
        }
        Ok(bench)
    }

    /// What an operation needs before it is posted.
    pub fn prepare(&self, operation: Operation) -> std::result::Result<(), PostError> {
        if let Operation::Send(len) = operation {
            let into = [Sge { mr: &self.to, at: 0, len }];
            self.far.post_recv(&[RecvWr { wr_id: 0, data: &into }])?;
        }
        Ok(())
    }

    pub fn post(&self, operation: Operation) -> std::result::Result<(), PostError> {
        let word = RemoteSlice { len: 8, ..self.target };
        let (op, len) = match operation {
            Operation::Send(len) => (SendOp::Send { imm: None }, len),
            Operation::Read => (SendOp::Read { from: word }, 8),
            Operation::CompareSwap => (SendOp::CompareSwap { at: word, compare: 0, swap: 0 }, 8),
            Operation::FetchAdd => (SendOp::FetchAdd { at: word, add: 1 }, 8),
            Operation::Writes(_) => (SendOp::Write { to: word, imm: None }, 8),
        };
        let range = [Sge { mr: &self.from, at: 0, len }];
        let request = |flags| SendWr { wr_id: 1, op, data: Payload::Sge(&range), flags };
        let many = if let Operation::Writes(many) = operation { many } else { 1 };
        let mut list = vec![request(SendFlags::empty()); many as usize - 1];
        list.push(request(SendFlags::SIGNALED));
        self.near.post_send(&list)
    }
}

/// The states of one end, up to ready to send.
fn states(peer: weft_verbs::QpNum, path: Path, mtu: Mtu, (port, access): (u8, AccessFlags)) -> [Modify; 3] {
    [
        Modify::Init(ToInit { port, pkey_index: 0, access, qkey: 0 }),
        Modify::Rtr(ToRtr {
            dest_qp: peer,
            rq_psn: Psn::new(1),
            path,
            mtu,
            min_rnr_timer: RnrTimer::new(12).expect("a code"),
            max_dest_rd_atomic: 1,
            alt: None,
        }),
        Modify::Rts(ToRts {
            sq_psn: Psn::new(1),
            timeout: AckTimeout::new(14).expect("an exponent"),
            retry: Retries::MOST,
            rnr_retry: Retries::MOST,
            max_rd_atomic: 1,
            alt: None,
            migration: Migration::Migrated,
        }),
    ]
}
