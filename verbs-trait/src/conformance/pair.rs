//! Two connected queue pairs with memory and completion queues: what most cases are about.

use super::{Failure, Harness, HarnessCaps, Outcome, TestBed};
use crate::{
    AccessFlags, AckTimeout, Caps, CompletionQueue, Context, MemoryRegion, Migration, Modify, Mtu, Nanos,
    Path, Payload, PostError, ProtectionDomain, Psn, QpCaps, QpInit, QpType, QueuePair, RecvWr, RemoteSlice,
    Retries, RnrTimer, SendFlags, SendOp, SendWr, Sge, ToInit, ToRtr, ToRts, Verbs,
};
use std::ops::Range;

/// All rights, for regions that are not about rights.
pub(super) const ALL_RIGHTS: AccessFlags = AccessFlags::all();

/// How ends are made and connected.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub caps: QpCaps,
    pub cqe: u32,
    pub sq_sig_all: bool,
    /// Bytes of the end's region.
    pub memory: usize,
    /// Rights of the end's region.
    pub rights: AccessFlags,
    /// Rights of peers through the queue pair.
    pub access: AccessFlags,
    pub mtu: Mtu,
    /// First packet number of the pair's first end, and of its second.
    pub psn: [Psn; 2],
    pub ack: AckTimeout,
    pub retry: Retries,
    pub rnr_retry: Retries,
    pub rnr_timer: RnrTimer,
    /// Reads and atomics in flight, and served.
    pub depth: u8,
    /// Reads and atomics served.
    pub serves: u8,
}

impl Setup {
    /// What a case uses that is about something else: patient time-outs, all retries, all rights that the device has.
    pub(super) fn new<H: Harness>(bed: &TestBed<'_, H>) -> Setup {
        let mut access = ALL_RIGHTS;
        access.set(AccessFlags::REMOTE_ATOMIC, bed.harness.capabilities().contains(Caps::ATOMICS));
        let ack = (bed.timing().round_trip * 16).max(Nanos::from_micros(500));
        Setup {
            caps: QpCaps {
                max_send_wr: 128,
                max_recv_wr: 128,
                max_send_sge: 4,
                max_recv_sge: 4,
                max_inline: 64,
            },
            cqe: 512,
            sq_sig_all: false,
            memory: 1 << 16,
            rights: ALL_RIGHTS,
            access,
            mtu: Mtu::B1024,
            psn: [Psn::new(100), Psn::new(7_000)],
            ack: AckTimeout::at_least(ack),
            retry: Retries::MOST,
            rnr_retry: Retries::FOREVER,
            rnr_timer: rnr_at_least(bed.timing().round_trip * 2),
            depth: 4,
            serves: 4,
        }
    }
}

/// The smallest receiver-not-ready delay of at least `span`.
pub(super) fn rnr_at_least(span: Nanos) -> RnrTimer {
    let longest = RnrTimer::new(0).expect("code 0");
    (1..32).filter_map(RnrTimer::new).find(|timer| timer.span() >= span).unwrap_or(longest)
}

/// Retries by number.
pub(super) fn retries(n: u8) -> Retries {
    Retries::new(n).expect("at most seven")
}

/// Bytes that tell a mistake in order, place or length.
pub(super) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64)
        .map(|i| (i.wrapping_mul(167) ^ (i >> 8).wrapping_mul(59) ^ seed.wrapping_mul(101)) as u8)
        .collect()
}

/// One queue pair with what belongs to it. Clones are the same end.
pub(super) struct End<V: Verbs> {
    pub node: usize,
    pub port: u8,
    pub gid_index: u8,
    pub ctx: V::Context,
    pub pd: V::Pd,
    /// Completions of sends.
    pub sends: V::Cq,
    /// Completions of receives.
    pub recvs: V::Cq,
    pub qp: V::Qp,
    pub mr: V::Mr,
}

/// Two ends, connected.
pub(super) struct Pair<V: Verbs> {
    pub a: End<V>,
    pub b: End<V>,
}

impl<H: Harness> TestBed<'_, H> {
    /// Two fresh nodes and a connection between them.
    pub(super) fn pair(&mut self) -> Outcome<Pair<H::V>> {
        let setup = Setup::new(self);
        self.pair_with(&setup)
    }

    /// A connection between nodes 0 and 1.
    pub(super) fn pair_with(&mut self, setup: &Setup) -> Outcome<Pair<H::V>> {
        self.pair_between(0, 1, setup)
    }

    /// A connection between any two nodes, or of a node with itself.
    pub(super) fn pair_between(&mut self, a: usize, b: usize, setup: &Setup) -> Outcome<Pair<H::V>> {
        self.at_least(2.max(a + 1).max(b + 1))?;
        let pair = Pair { a: self.end(a, setup)?, b: self.end(b, setup)? };
        pair.a.connect(&pair.b, setup, 0)?;
        pair.b.connect(&pair.a, setup, 1)?;
        Ok(pair)
    }

    /// Lets the processors finish what they were asked for, so that the next request leaves when it is posted.
    pub(super) fn warm(&mut self, Pair { a, b }: &Pair<H::V>) -> Outcome {
        a.write(0, 0..1, b.remote(0..1)?)?;
        self.done(&a.sends, 0)?;
        self.settle();
        Ok(())
    }

    /// An end with its own domain, queues and memory, the queue pair in Reset.
    pub(super) fn end(&mut self, node: usize, setup: &Setup) -> Outcome<End<H::V>> {
        self.at_least(2.max(node + 1))?;
        let ctx = self.ctx(node);
        let pd = ctx.alloc_pd()?;
        let sends = ctx.create_cq(setup.cqe, None)?;
        let recvs = ctx.create_cq(setup.cqe, None)?;
        self.end_on(node, pd, sends, recvs, setup)
    }

    /// An end in a given domain, on given completion queues.
    pub(super) fn end_on(
        &mut self,
        node: usize,
        pd: <H::V as Verbs>::Pd,
        sends: <H::V as Verbs>::Cq,
        recvs: <H::V as Verbs>::Cq,
        setup: &Setup,
    ) -> Outcome<End<H::V>> {
        let machine = &self.machines[node];
        let place = (self.ctx(node), machine.port, machine.gid_index);
        self.end_at(node, place, pd, (sends, recvs), setup)
    }

    /// An end of a node's second device, with its own domain, queues and memory.
    pub(super) fn second_end(&mut self, node: usize, setup: &Setup) -> Outcome<End<H::V>> {
        self.at_least(2.max(node + 1))?;
        let Some(machine) = &self.machines[node].second else {
            return Err(Failure::lacks(HarnessCaps::SECOND_DEVICE));
        };
        let place = (self.second(node), machine.port, machine.gid_index);
        let ctx = &place.0;
        let (pd, cqs) = (ctx.alloc_pd()?, (ctx.create_cq(setup.cqe, None)?, ctx.create_cq(setup.cqe, None)?));
        self.end_at(node, place, pd, cqs, setup)
    }

    fn end_at(
        &mut self,
        node: usize,
        (ctx, port, gid_index): (<H::V as Verbs>::Context, u8, u8),
        pd: <H::V as Verbs>::Pd,
        (sends, recvs): (<H::V as Verbs>::Cq, <H::V as Verbs>::Cq),
        setup: &Setup,
    ) -> Outcome<End<H::V>> {
        let mr = pd.alloc_mr(setup.memory, setup.rights)?;
        let qp = pd.create_qp(&QpInit {
            kind: QpType::Rc,
            send_cq: &sends,
            recv_cq: &recvs,
            srq: None,
            caps: setup.caps,
            sq_sig_all: setup.sq_sig_all,
        })?;
        Ok(End { node, port, gid_index, ctx, pd, sends, recvs, qp, mr })
    }
}

impl<V: Verbs> Pair<V> {
    /// Both ends back to Reset and connected again.
    pub(super) fn reconnect(&self, setup: &Setup) -> Outcome {
        self.a.qp.modify(&Modify::Reset)?;
        self.b.qp.modify(&Modify::Reset)?;
        self.a.connect(&self.b, setup, 0)?;
        self.b.connect(&self.a, setup, 1)
    }
}

impl<V: Verbs> End<V> {
    pub(super) fn to_init(&self, setup: &Setup) -> Modify {
        Modify::Init(ToInit { port: self.port, pkey_index: 0, access: setup.access, qkey: 0 })
    }

    /// `side`: 0 for the pair's first end, 1 for its second.
    pub(super) fn to_rtr(&self, peer: &End<V>, setup: &Setup, side: usize) -> Outcome<Modify> {
        Ok(Modify::Rtr(ToRtr {
            dest_qp: peer.qp.num(),
            rq_psn: setup.psn[1 - side],
            path: self.path_to(peer)?,
            mtu: setup.mtu,
            min_rnr_timer: setup.rnr_timer,
            max_dest_rd_atomic: setup.serves,
            alt: None,
        }))
    }

    pub(super) fn to_rts(&self, setup: &Setup, side: usize) -> Modify {
        Modify::Rts(ToRts {
            sq_psn: setup.psn[side],
            timeout: setup.ack,
            retry: setup.retry,
            rnr_retry: setup.rnr_retry,
            max_rd_atomic: setup.depth,
            alt: None,
            migration: Migration::Migrated,
        })
    }

    /// The way to a peer's port.
    pub(super) fn path_to(&self, peer: &End<V>) -> Outcome<Path> {
        let mut path = Path::to(peer.ctx.gid(peer.port, peer.gid_index)?, self.port);
        path.dlid = peer.ctx.port_attr(peer.port)?.lid;
        path.sgid_index = self.gid_index;
        Ok(path)
    }

    /// Reset to ready-to-send, towards a peer.
    pub(super) fn connect(&self, peer: &End<V>, setup: &Setup, side: usize) -> Outcome {
        self.qp.modify(&self.to_init(setup))?;
        self.qp.modify(&self.to_rtr(peer, setup, side)?)?;
        self.qp.modify(&self.to_rts(setup, side))?;
        Ok(())
    }

    /// A range of the end's region, as its peer needs it.
    pub(super) fn remote(&self, range: Range<usize>) -> Outcome<RemoteSlice> {
        Ok(self.mr.remote(range)?)
    }

    /// A word of the end's region, as its peer needs it.
    pub(super) fn word(&self, at: usize) -> Outcome<RemoteSlice> {
        self.remote(at..at + 8)
    }

    pub(super) fn bytes(&self, range: Range<usize>) -> Outcome<Vec<u8>> {
        let mut out = vec![0; range.len()];
        self.mr.read(range.start, &mut out)?;
        Ok(out)
    }

    pub(super) fn fill(&self, at: usize, bytes: &[u8]) -> Outcome {
        Ok(self.mr.write(at, bytes)?)
    }

    /// Posts one signaled request whose local memory is a range of the end's region.
    pub(super) fn post(&self, wr_id: u64, op: SendOp<'_, V>, local: Range<u32>) -> Result<(), PostError> {
        self.post_with(wr_id, op, local, SendFlags::SIGNALED)
    }

    pub(super) fn post_with(
        &self,
        wr_id: u64,
        op: SendOp<'_, V>,
        local: Range<u32>,
        flags: SendFlags,
    ) -> Result<(), PostError> {
        let sges = [self.sge(local)];
        self.qp.post_send(&[SendWr { wr_id, op, data: Payload::Sge(&sges), flags }])
    }

    pub(super) fn sge(&self, local: Range<u32>) -> Sge<'_, V::Mr> {
        Sge { mr: &self.mr, at: local.start, len: local.end - local.start }
    }

    pub(super) fn send(&self, wr_id: u64, local: Range<u32>) -> Result<(), PostError> {
        self.post(wr_id, SendOp::Send { imm: None }, local)
    }

    /// A send that is not to complete by itself.
    pub(super) fn send_unsignaled(&self, wr_id: u64, local: Range<u32>) -> Result<(), PostError> {
        self.post_with(wr_id, SendOp::Send { imm: None }, local, SendFlags::empty())
    }

    pub(super) fn recv(&self, wr_id: u64, local: Range<u32>) -> Result<(), PostError> {
        let sges = [self.sge(local)];
        self.qp.post_recv(&[RecvWr { wr_id, data: &sges }])
    }

    pub(super) fn write(&self, wr_id: u64, local: Range<u32>, to: RemoteSlice) -> Result<(), PostError> {
        self.post(wr_id, SendOp::Write { to, imm: None }, local)
    }

    pub(super) fn read(&self, wr_id: u64, local: Range<u32>, from: RemoteSlice) -> Result<(), PostError> {
        self.post(wr_id, SendOp::Read { from }, local)
    }

    /// The old value arrives at `local` of the end's region.
    pub(super) fn compare_swap(
        &self,
        wr_id: u64,
        local: u32,
        at: RemoteSlice,
        compare: u64,
        swap: u64,
    ) -> Result<(), PostError> {
        self.post(wr_id, SendOp::CompareSwap { at, compare, swap }, local..local + 8)
    }

    /// The old value arrives at `local` of the end's region.
    pub(super) fn fetch_add(
        &self,
        wr_id: u64,
        local: u32,
        at: RemoteSlice,
        add: u64,
    ) -> Result<(), PostError> {
        self.post(wr_id, SendOp::FetchAdd { at, add }, local..local + 8)
    }

    /// Everything that the send completion queue holds now.
    pub(super) fn poll_sends(&self) -> Outcome<Vec<crate::WorkCompletion>> {
        let mut out = Vec::new();
        self.sends.poll(&mut out, usize::MAX)?;
        Ok(out)
    }

    /// Everything that the receive completion queue holds now.
    pub(super) fn poll_recvs(&self) -> Outcome<Vec<crate::WorkCompletion>> {
        let mut out = Vec::new();
        self.recvs.poll(&mut out, usize::MAX)?;
        Ok(out)
    }
}
