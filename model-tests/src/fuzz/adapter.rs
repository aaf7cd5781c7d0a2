//! Two adapters and a wire that does what the bytes say: it loses packets, repeats them, lets time-outs fire, and forges
//! packets that no adapter would send.

use weft_sim::bench::{
    Atomic, Bench, Body, Data, Deth, LEN, Nak, Op, PSN, Packet, Part, Remote, Reth, Service, Syndrome,
};
use weft_sim::choice::{Bytes, Choice};
use weft_sim::fault;
use weft_verbs::{Modify, Psn, QpState, RnrTimer};

/// Most acts of one input: what comes after says nothing new.
const MOST_ACTS: usize = 400;

/// Does what the bytes say. Whatever arrives, nothing panics, every accepted request ends exactly once, and no lease,
/// buffer or packet is lost.
pub fn adapter(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut wire = Wire { bench: Bench::connected(), posted: [0; 2], received: [0; 2] };
    for _ in 0..MOST_ACTS {
        if bytes.used() >= data.len() {
            break;
        }
        wire.act(&mut bytes);
    }
    wire.finish();
}

struct Wire {
    bench: Bench,
    /// Signaled sends accepted from each end.
    posted: [u64; 2],
    /// Receives accepted from each end.
    received: [u64; 2],
}

impl Wire {
    fn act(&mut self, bytes: &mut Bytes) {
        let end = bytes.pick("end", 2) as usize;
        match bytes.pick("act", 16) {
            0..=2 => self.post(end, bytes),
            3..=4 => self.receive(end, bytes),
            5..=9 => drop(self.bench.deliver(end)),
            10 => self.lose(end),
            11 => self.repeat(end),
            12 => drop(self.bench.time_out(end)),
            _ => self.forge(end, bytes),
        }
    }

    fn post(&mut self, end: usize, bytes: &mut Bytes) {
        let to = self.bench.remote(1 - end, bytes.pick("at", 64) * 8);
        let len = bytes.pick("len", 2_048) as u32;
        let (op, len) = match bytes.pick("op", 6) {
            0 => (Op::Send { imm: None }, len),
            1 => (Op::Write { to, imm: None }, len),
            2 => (Op::Write { to, imm: Some(7) }, len),
            3 => (Op::Read { from: to }, len),
            4 => (Op::Atomic { at: to, atomic: Atomic::FetchAdd { add: 1 } }, 8),
            _ => (Op::Atomic { at: to, atomic: Atomic::CompareSwap { compare: 0, swap: 1 } }, 8),
        };
        let data = self.bench.sge(end, 0, len);
        self.posted[end] += u64::from(self.bench.post(end, 1, op, data).is_ok());
    }

    fn receive(&mut self, end: usize, bytes: &mut Bytes) {
        let data = self.bench.sge(end, LEN as u32 / 2, bytes.pick("len", 2_048) as u32);
        self.received[end] += u64::from(self.bench.recv(end, 2, data).is_ok());
    }

    fn lose(&mut self, end: usize) {
        if let Some(packet) = self.bench.to[end].pop_front() {
            packet.data.release(&mut self.bench.buffers);
        }
    }

    /// A copy comes once more, behind all that is under way.
    fn repeat(&mut self, end: usize) {
        if let Some(&packet) = self.bench.to[end].front() {
            let data = packet.data.duplicate(&mut self.bench.buffers);
            self.bench.to[end].push_back(Packet { data, ..packet });
        }
    }

    fn forge(&mut self, end: usize, bytes: &mut Bytes) {
        let body = self.body(end, bytes);
        // Near the sequence numbers in use, mostly.
        let psn = match bytes.pick("psn", 9) {
            8 => Psn::new(bytes.pick("any", 1 << 24) as u32),
            _ => PSN.plus((bytes.pick("near", 32) as u32).wrapping_sub(4)),
        };
        let len =
            [0, 256, bytes.pick("short", 300), bytes.pick("long", 5_000)][bytes.pick("len", 4) as usize];
        let data = Data::new(len as usize, &mut self.bench.buffers, |out| out.fill(0x5a));
        let [ack_req, solicited, migrated] =
            ["ack", "solicited", "migrated"].map(|bit| bytes.pick(bit, 2) == 1);
        let (from, to) = (self.bench.endpoint(1 - end), self.bench.endpoint(end));
        let (route, op) = (self.bench.route(1 - end), fault::Op::Other);
        self.bench.give(end, Packet { from, to, route, psn, ack_req, solicited, migrated, body, data, op });
    }

    fn body(&self, end: usize, bytes: &mut Bytes) -> Body {
        let part = [Part::Only, Part::First, Part::Middle, Part::Last][bytes.pick("part", 4) as usize];
        let imm = (bytes.pick("imm", 2) == 1).then_some(7);
        let Remote { addr, rkey } = self.place(end, bytes);
        let len = match bytes.pick("reach", 5) {
            4 => bytes.pick("any", 1 << 32) as u32,
            _ => bytes.pick("near", 1_024) as u32,
        };
        let (msn, reth) = (bytes.pick("msn", 256) as u32, Reth { addr, rkey, len });
        match bytes.pick("body", 9) {
            0 => Body::Send { part, imm },
            1 => Body::Write { part, to: Some(reth), imm },
            2 => Body::Write { part, to: None, imm },
            3 => Body::ReadRequest { from: reth },
            4 => Body::AtomicRequest { addr, rkey, atomic: Atomic::FetchAdd { add: 1 << 40 } },
            5 => Body::ReadResponse { part, msn },
            6 => Body::AtomicResponse { original: u64::from(msn), msn },
            7 => Body::Ack { syndrome: syndrome(bytes), msn },
            _ => Body::Datagram(Deth {
                qkey: msn,
                imm,
                service: Service { sl: 0, traffic_class: 0, hop_limit: 1 },
            }),
        }
    }

    /// In or about the region, with its key or another.
    fn place(&self, end: usize, bytes: &mut Bytes) -> Remote {
        let near = self.bench.remote(end, bytes.pick("at", 2 * LEN as u64));
        match bytes.pick("place", 6) {
            0 => Remote { addr: u64::MAX - near.addr, ..near },
            1 => Remote { rkey: near.rkey ^ bytes.pick("key", 1 << 16) as u32, ..near },
            _ => near,
        }
    }

    fn finish(mut self) {
        let bench = &mut self.bench;
        for end in 0..2 {
            if bench.qp(end).state() != QpState::Err {
                let ends = bench.connection(end);
                bench
                    .modify(end, &Modify::Err, ends)
                    .expect("any queue pair can be moved to the error state");
            }
        }
        for end in 0..2 {
            let completed = bench.poll(end).len() as u64;
            assert_eq!(completed, self.posted[end] + self.received[end], "each ends once, at end {end}");
            for packet in std::mem::take(&mut bench.to[end]) {
                packet.data.release(&mut bench.buffers);
            }
            let (hw, mr) = (&mut bench.ends[end].hca.hw, bench.ends[end].mr);
            assert_eq!(hw.outstanding, 0);
            assert!(hw.memory.drop_handle(mr).is_none());
            assert!(hw.memory.is_empty(), "no lease is left");
        }
        assert_eq!((bench.buffers.in_use(), bench.packets.len()), (0, 0));
    }
}

fn syndrome(bytes: &mut Bytes) -> Syndrome {
    match bytes.pick("syndrome", 8) {
        0..=3 => Syndrome::Ack,
        4 => Syndrome::Rnr(RnrTimer::new(bytes.pick("timer", 32) as u8).expect("below 32")),
        5 => Syndrome::Nak(Nak::RemoteAccess),
        _ => Syndrome::Nak(Nak::Sequence),
    }
}
