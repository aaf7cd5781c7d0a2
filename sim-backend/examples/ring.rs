//! How fast the fabric is: messages that run round a ring of reliable connections.
//!
//! Every node starts with a window of messages and passes on each that it receives. The nodes are state
//! machines by hand, so that what is measured is the fabric: adapters, wires, event queue, verbs handles.
//!
//! `cargo run --release -p sim-backend --example ring [NODES [MESSAGES [WINDOW [PROFILE [BYTES [sanitize]]]]]]`

use sim_backend::choice::First;
use sim_backend::profile::Profile;
use sim_backend::{Config, Fabric, NodeId, Order, SimContext, SimCq, SimMr, SimPd, SimQp};
use std::cell::Cell;
use std::rc::Rc;
use verbs_trait::*;

/// Every so many sends one asks for a completion.
const SIGNAL_EVERY: u32 = 16;

struct Station {
    cq: SimCq,
    from: SimQp,
    to: SimQp,
    mr: SimMr,
    bytes: u32,
    /// Messages that this station still injects.
    fresh: u32,
    /// Messages received and not yet passed on.
    held: u32,
    posted: u32,
    done: Vec<WorkCompletion>,
    left: Rc<Cell<u64>>,
}

impl Station {
    fn receive(&self, n: u32) {
        let data = [Sge { mr: &self.mr, at: 4096, len: self.bytes }];
        for _ in 0..n {
            self.from.post_recv(&[RecvWr { wr_id: 0, data: &data }]).expect("room");
        }
    }

    fn send(&mut self) -> bool {
        let data = [Sge { mr: &self.mr, at: 0, len: self.bytes }];
        let signaled = self.posted % SIGNAL_EVERY == SIGNAL_EVERY - 1;
        let flags = if signaled { SendFlags::SIGNALED } else { SendFlags::empty() };
        let wr = SendWr { wr_id: 1, op: SendOp::Send { imm: None }, data: Payload::Sge(&data), flags };
        let accepted = self.to.post_send(&[wr]).is_ok();
        self.posted += u32::from(accepted);
        accepted
    }
}

impl Node for Station {
    fn step(&mut self) -> Park {
        let mut done = std::mem::take(&mut self.done);
        while self.cq.poll(&mut done, 16).expect("no overrun") > 0 {
            let mut received = 0;
            for completion in done.drain(..) {
                if completion.result.expect("no failure").op == WcOp::Recv {
                    received += 1;
                }
            }
            self.receive(received);
            self.held += received;
            self.left.set(self.left.get().saturating_sub(u64::from(received)));
        }
        self.done = done;
        while self.fresh + self.held > 0 && self.send() {
            match self.fresh {
                0 => self.held -= 1,
                _ => self.fresh -= 1,
            }
        }
        if self.left.get() == 0 { Park::Done } else { Park::Until { style: Wait::Poll, deadline: None } }
    }
}

struct Place {
    ctx: SimContext,
    cq: SimCq,
    from: SimQp,
    to: SimQp,
    mr: SimMr,
    _pd: SimPd,
}

fn place(fabric: &Fabric, node: u32, window: u32) -> Place {
    let ctx = fabric.devices(NodeId(node))[0].open().expect("a device");
    let pd = ctx.alloc_pd().expect("a domain");
    let cq = ctx.create_cq(8 * window, None).expect("a queue");
    let caps = QpCaps { max_send_wr: 2 * window, max_recv_wr: 2 * window, ..QpCaps::default() };
    let init = QpInit { kind: QpType::Rc, send_cq: &cq, recv_cq: &cq, srq: None, caps, sq_sig_all: false };
    let (from, to) = (pd.create_qp(&init).expect("a queue pair"), pd.create_qp(&init).expect("a queue pair"));
    let mr = pd.alloc_mr(1 << 16, AccessFlags::LOCAL_WRITE).expect("memory");
    Place { ctx, cq, from, to, mr, _pd: pd }
}

fn connect(qp: &SimQp, peer: &SimQp, at: &SimContext) {
    let gid = at.gid(1, 0).expect("a GID");
    let init = ToInit { port: 1, pkey_index: 0, access: AccessFlags::empty(), qkey: 0 };
    let rtr = ToRtr {
        dest_qp: peer.num(),
        rq_psn: Psn::new(0),
        path: Path::to(gid, 1),
        mtu: Mtu::B2048,
        min_rnr_timer: RnrTimer::new(1).expect("a code"),
        max_dest_rd_atomic: 1,
        alt: None,
    };
    let rts = ToRts {
        sq_psn: Psn::new(0),
        timeout: AckTimeout::new(14).expect("an exponent"),
        retry: Retries::MOST,
        rnr_retry: Retries::FOREVER,
        max_rd_atomic: 1,
        alt: None,
        migration: Migration::Migrated,
    };
    for change in [Modify::Init(init), Modify::Rtr(rtr), Modify::Rts(rts)] {
        qp.modify(&change).expect("a transition");
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |default: u64| args.next().map_or(default, |text| text.parse().expect("a number"));
    let (nodes, messages, window) = (number(16) as u32, number(2_000_000), number(32) as u32);
    let profile = args.next().unwrap_or("ncosed-2007".into());
    let bytes = args.next().map_or(32, |text| text.parse().expect("a number"));

    let mut config = Config::new(nodes, Profile::builtin(&profile).expect("a profile"));
    config.order = Order::Fifo;
    config.sanitize = args.next().is_some_and(|text| text == "sanitize");
    let fabric = Fabric::new(config, Box::new(First)).expect("a fabric");
    let places: Vec<Place> = (0..nodes).map(|n| place(&fabric, n, window)).collect();
    let left = Rc::new(Cell::new(messages));
    for (n, here) in places.iter().enumerate() {
        let next = &places[(n + 1) % places.len()];
        connect(&here.to, &next.from, &next.ctx);
        connect(&next.from, &here.to, &here.ctx);
    }
    for (n, here) in places.iter().enumerate() {
        let station = Station {
            cq: here.cq.clone(),
            from: here.from.clone(),
            to: here.to.clone(),
            mr: here.mr.clone(),
            bytes,
            fresh: window,
            held: 0,
            posted: 0,
            done: Vec::new(),
            left: left.clone(),
        };
        station.receive(2 * window);
        fabric.mount(NodeId(n as u32), Box::new(station));
    }
    let begun = std::time::Instant::now();
    fabric.run_until(Nanos::from_secs(1_000));
    let wall = begun.elapsed().as_secs_f64();
    let stats = fabric.stats();
    println!(
        "{nodes} nodes, window {window}, {bytes} bytes: {:.2} million messages/s of wall clock; {} messages in \
         {wall:.3} s, {} virtual; {:.2} events, {:.2} packets, {:.2} steps a message; {} sent again",
        stats.messages as f64 / wall / 1e6,
        stats.messages,
        fabric.now(),
        stats.events as f64 / stats.messages as f64,
        stats.packets as f64 / stats.messages as f64,
        stats.steps as f64 / stats.messages as f64,
        stats.retransmitted,
    );
}
