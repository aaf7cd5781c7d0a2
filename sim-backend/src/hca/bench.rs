//! Two adapters on a bench: no fabric, no time but what a test gives them. Packets lie in two queues until the
//! test delivers them, loses them, repeats them or puts others in their place.
//!
//! For tests and fuzzers of the engine alone. Its calls panic where a test would be wrong, as tests do.

use super::*;
use crate::access::RegionId;
use std::collections::VecDeque;
use weft_verbs::{
    AccessFlags, AckTimeout, AltPath, Gid, Migration, Modify, Mtu, Path, Psn, QpCaps, QpType, Retries,
    RnrTimer, SendFlags, ToInit, ToRtr, ToRts, Update, WorkCompletion,
};

/// The first sequence number either way: near the end of the range, so that every test goes over it.
pub const PSN: Psn = Psn::new(0xff_fffd);
/// The length of each end's region in bytes.
pub const LEN: usize = 1 << 14;

/// One adapter with a connected queue pair, a completion queue and a region.
pub struct End {
    /// The adapter.
    pub hca: Hca,
    /// Its queue pair.
    pub qp: Key,
    /// The queue pair's number.
    pub num: QpNum,
    /// Its completion queue, for sends and receives.
    pub cq: Key,
    /// Its region, open to the peer for everything.
    pub mr: Key,
    /// The region's first address.
    pub addr: u64,
    /// The region's remote key.
    pub rkey: u32,
}

/// Two adapters with a connection between them, ready to send.
pub struct Bench {
    /// The time, which only a test moves.
    pub now: Nanos,
    /// The two ends; 0 is the requester of most tests.
    pub ends: [End; 2],
    /// Packets to each end.
    pub to: [VecDeque<Packet>; 2],
    /// Packets, while an engine makes them.
    pub packets: Packets,
    /// Payloads of the packets that wait.
    pub buffers: Buffers,
    /// What the engines counted.
    pub stats: Stats,
    log: Log,
    access: AccessLog,
}

fn end(n: u32) -> End {
    let limits = Limits::of(&Profile::builtin("ncosed-2007").unwrap());
    let mut hca = Hca::new(NodeId(n), HcaId(n), 1 << 20, limits, Nanos::ZERO);
    let ctx = hca.open();
    let pd = hca.pds.insert(ctx);
    let cq = hca.hw.completions.cqs.insert(Cq::new(ctx, None, 4096));
    let mr = hca.hw.memory.insert(pd, AccessFlags::all(), RegionId(n), Bytes::zeroed(LEN));
    let new = NewQp {
        kind: QpType::Rc,
        pd,
        send_cq: cq,
        recv_cq: cq,
        srq: None,
        caps: QpCaps::default(),
        sq_sig_all: false,
    };
    let (qp, num) = hca.create_qp(ctx, new).unwrap();
    let (addr, rkey) = (hca.hw.memory.get(mr).unwrap().addr, keys_of(mr).1);
    End { hca, qp, num, cq, mr, addr, rkey }
}

impl Bench {
    /// Two connected ends; sequence numbers begin at [`PSN`].
    pub fn connected() -> Bench {
        let mut bench = Bench {
            now: Nanos::ZERO,
            ends: [end(0), end(1)],
            to: Default::default(),
            packets: Packets::default(),
            buffers: Buffers::default(),
            stats: Stats::default(),
            log: Log::off(),
            access: AccessLog::default(),
        };
        for n in 0..2 {
            let ends = bench.connection(n);
            let init = ToInit { port: 1, pkey_index: 0, access: AccessFlags::all(), qkey: 0 };
            let rtr = ToRtr {
                dest_qp: bench.ends[1 - n].num,
                rq_psn: PSN,
                path: Path::to(Gid::default(), 1),
                mtu: Mtu::B256,
                min_rnr_timer: RnrTimer::new(1).unwrap(),
                max_dest_rd_atomic: 4,
                alt: None,
            };
            let rts = ToRts {
                sq_psn: PSN,
                timeout: AckTimeout::new(1).unwrap(),
                retry: Retries::MOST,
                rnr_retry: Retries::FOREVER,
                max_rd_atomic: 4,
                alt: None,
                migration: Migration::Migrated,
            };
            for change in [Modify::Init(init), Modify::Rtr(rtr), Modify::Rts(rts)] {
                bench.modify(n, &change, ends).unwrap();
            }
        }
        bench
    }

    /// An end and its peer.
    pub fn connection(&self, n: usize) -> Ends {
        let way = Way { peer: Some(self.endpoint(1 - n)), route: self.route(n) };
        Ends { me: self.endpoint(n), primary: Some(way), alternate: None }
    }

    /// Loads the way by the ports that are not in use as an end's alternate path, and asks it to arm.
    pub fn rearm(&mut self, n: usize) -> Result<()> {
        let Route { from, to } = self.qp(n).route();
        let other = |port: PortId| PortId(port.0 ^ 2);
        let way = Way { peer: Some(self.endpoint(1 - n)), route: Route { from: other(from), to: other(to) } };
        let ends = Ends { me: self.endpoint(n), primary: None, alternate: Some(way) };
        let path = Path::to(Gid::default(), 1);
        let alt = Some(AltPath { path, pkey_index: 0, timeout: AckTimeout::new(2).unwrap() });
        let update = Update { alt, migration: Some(Migration::Rearm), ..Update::default() };
        self.modify(n, &Modify::Update(update), ends)
    }

    /// Asks an end for a state of path migration.
    pub fn ask(&mut self, n: usize, migration: Migration) -> Result<()> {
        let ends = Ends { me: self.endpoint(n), primary: None, alternate: None };
        self.modify(n, &Modify::Update(Update { migration: Some(migration), ..Update::default() }), ends)
    }

    /// The way from an end to the other.
    pub fn route(&self, n: usize) -> Route {
        Route { from: PortId(n as u32), to: PortId(1 - n as u32) }
    }

    /// An end's queue pair as packets name it.
    pub fn endpoint(&self, n: usize) -> Endpoint {
        Endpoint { hca: HcaId(n as u32), qp: self.ends[n].num }
    }

    /// Calls an end's engine, and queues the packets that come out.
    fn call<T>(&mut self, n: usize, f: impl FnOnce(&mut Hca, Key, &mut Io<'_>) -> T) -> T {
        let mut io = Io {
            now: self.now,
            out: &mut self.packets,
            buffers: &mut self.buffers,
            access: &mut self.access,
            log: &mut self.log,
            stats: &mut self.stats,
            brought: &mut Vec::new(),
        };
        let end = &mut self.ends[n];
        let answer = f(&mut end.hca, end.qp, &mut io);
        let mut fresh = Vec::new();
        self.packets.take_fresh(&mut fresh);
        self.to[1 - n].extend(fresh.into_iter().map(|id| self.packets.take(id)));
        answer
    }

    /// Modifies the state of an end's queue pair.
    pub fn modify(&mut self, n: usize, change: &Modify, ends: Ends) -> Result<()> {
        self.call(n, |hca, qp, io| hca.qps.get_mut(qp).unwrap().modify(change, &mut hca.hw, ends, 100, io))
    }

    /// A range of an end's region, for its own requests.
    pub fn sge(&self, n: usize, at: u32, len: u32) -> Gather {
        Gather::One(Sge { mr: self.ends[n].mr, at, len })
    }

    /// A place in an end's region, for its peer's requests.
    pub fn remote(&self, n: usize, at: u64) -> Remote {
        Remote { addr: self.ends[n].addr + at, rkey: self.ends[n].rkey }
    }

    /// Posts a signaled send request at an end and lets the adapter attend to it.
    pub fn post(&mut self, n: usize, wr_id: u64, op: Op, data: Gather) -> Result<()> {
        let now = self.now;
        let request = SendRequest { wr_id, op, data, flags: SendFlags::SIGNALED };
        self.call(n, |hca, qp, io| {
            hca.qps.get_mut(qp).unwrap().post_send(now, request, &[], &mut hca.hw, io)?;
            hca.serve(qp, io);
            Ok(())
        })
    }

    /// Posts a receive request at an end.
    pub fn recv(&mut self, n: usize, wr_id: u64, data: Gather) -> Result<()> {
        let now = self.now;
        self.call(n, |hca, qp, io| {
            hca.qps.get_mut(qp).unwrap().post_recv(now, RecvRequest { wr_id, data }, &mut hca.hw, io)
        })
    }

    /// Gives an end's queue pair its turn to send.
    pub fn serve(&mut self, n: usize) {
        self.call(n, |hca, qp, io| hca.serve(qp, io));
    }

    /// Gives an end a packet.
    pub fn give(&mut self, n: usize, packet: Packet) {
        self.call(n, |hca, _, io| {
            if let Some(key) = hca.find(packet.to.qp) {
                hca.receive(key, &packet, io);
            }
        });
        packet.data.release(&mut self.buffers);
    }

    /// Delivers the oldest packet to an end.
    pub fn deliver(&mut self, n: usize) -> bool {
        let Some(packet) = self.to[n].pop_front() else { return false };
        self.give(n, packet);
        true
    }

    /// Delivers everything, and everything that follows.
    pub fn settle(&mut self) {
        loop {
            let moved = self.deliver(0) | self.deliver(1);
            let more = [0, 1].map(|n| {
                let qp = self.qp(n);
                let due = qp.service_at <= self.now;
                if due {
                    self.call(n, |hca, qp, io| hca.serve(qp, io));
                }
                due
            });
            if !moved && more == [false; 2] {
                return;
            }
        }
    }

    /// An end's queue pair.
    pub fn qp(&self, n: usize) -> &Qp {
        self.ends[n].hca.qps.get(self.ends[n].qp).unwrap()
    }

    /// Moves the time to an end's deadline.
    pub fn time_out(&mut self, n: usize) -> bool {
        let at = self.qp(n).deadline;
        if at == Nanos::MAX {
            return false;
        }
        self.now = self.now.max(at);
        self.call(n, |hca, qp, io| hca.on_timer(qp, io));
        true
    }

    /// Takes an end's completions.
    pub fn poll(&mut self, n: usize) -> Vec<WorkCompletion> {
        let mut out = vec![];
        let End { hca, cq, .. } = &mut self.ends[n];
        let Hca { qps, hw, .. } = hca;
        hw.completions
            .poll(*cq, &mut out, usize::MAX, |qp, n| qps.get_mut(qp).unwrap().free_slots(n))
            .unwrap();
        out
    }

    /// The bytes of an end's region.
    pub fn memory(&mut self, n: usize) -> &mut Bytes {
        let mr = self.ends[n].mr;
        &mut self.ends[n].hca.hw.memory.get_mut(mr).unwrap().bytes
    }

    /// A word of an end's region.
    pub fn word(&mut self, n: usize, at: usize) -> u64 {
        let mut word = [0; 8];
        self.memory(n).read(at, &mut word);
        u64::from_ne_bytes(word)
    }
}
