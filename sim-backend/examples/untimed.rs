//! How fast an untimed world is: transitions a second, and what it takes to go back to the root.
//!
//! Three nodes, connected each with each. Every node adds to a word of each other one, three times, and waits for
//! each answer. An execution is a random walk from the root until nothing can happen any more.
//!
//! `cargo run --release -p weft-sim --example untimed [EXECUTIONS]`

use std::time::Instant;
use weft_sim::choice::{First, Rng};
use weft_sim::explore::{Enabled, Footprint, Outcome};
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Order, SimContext, SimCq, SimMr, SimQp};
use weft_verbs::*;

const NODES: usize = 3;
const ROUNDS: usize = 3;

/// A node's objects, which outlive its programs.
#[derive(Clone)]
struct Place {
    ctx: SimContext,
    cq: SimCq,
    mr: SimMr,
    /// With the word at the other end.
    peers: Vec<(SimQp, RemoteSlice)>,
}

struct Adder {
    place: Place,
    asked: usize,
    open: bool,
    done: Vec<WorkCompletion>,
}

impl Node for Adder {
    fn step(&mut self) -> Park {
        self.done.clear();
        if self.place.cq.poll(&mut self.done, 8).is_ok_and(|n| n > 0) {
            self.open = false;
        }
        if self.asked == ROUNDS * self.place.peers.len() && !self.open {
            return Park::Done;
        }
        if !self.open {
            let (qp, at) = &self.place.peers[self.asked % self.place.peers.len()];
            let into = [Sge { mr: &self.place.mr, at: 64, len: 8 }];
            let op = SendOp::FetchAdd { at: *at, add: 1 };
            let wr = SendWr { wr_id: 1, op, data: Payload::Sge(&into), flags: SendFlags::SIGNALED };
            self.open = qp.post_send(&[wr]).is_ok();
            self.asked += 1;
        }
        Park::Until { style: Wait::Poll, deadline: None }
    }
}

fn places(fabric: &Fabric) -> Vec<Place> {
    let mut places = Vec::new();
    let mut ends: Vec<Vec<SimQp>> = Vec::new();
    for node in 0..NODES as u32 {
        let ctx = fabric.devices(NodeId(node))[0].open().unwrap();
        let pd = ctx.alloc_pd().unwrap();
        let cq = ctx.create_cq(64, None).unwrap();
        let mr = pd.alloc_mr(4096, AccessFlags::all()).unwrap();
        let caps = QpCaps::default();
        let init =
            QpInit { kind: QpType::Rc, send_cq: &cq, recv_cq: &cq, srq: None, caps, sq_sig_all: false };
        ends.push((0..NODES).map(|_| pd.create_qp(&init).unwrap()).collect());
        places.push(Place { ctx, cq, mr, peers: Vec::new() });
    }
    for a in 0..NODES {
        for b in (0..NODES).filter(|&b| b != a) {
            let qp = ends[a][b].clone();
            let gid = places[b].ctx.gid(1, 0).unwrap();
            let init = ToInit { port: 1, pkey_index: 0, access: AccessFlags::all(), qkey: 0 };
            let rtr = ToRtr {
                dest_qp: ends[b][a].num(),
                rq_psn: Psn::new(0),
                path: Path::to(gid, 1),
                mtu: Mtu::B1024,
                min_rnr_timer: RnrTimer::new(1).unwrap(),
                max_dest_rd_atomic: 4,
                alt: None,
            };
            let rts = ToRts {
                sq_psn: Psn::new(0),
                timeout: AckTimeout::new(14).unwrap(),
                retry: Retries::MOST,
                rnr_retry: Retries::MOST,
                max_rd_atomic: 4,
                alt: None,
                migration: Migration::Migrated,
            };
            for change in [Modify::Init(init), Modify::Rtr(rtr), Modify::Rts(rts)] {
                qp.modify(&change).unwrap();
            }
            let word = places[b].mr.remote(0..8).unwrap();
            places[a].peers.push((qp, word));
        }
    }
    places
}

fn main() {
    let executions: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(20_000);
    for (sanitize, seeing) in [(false, false), (false, true), (true, true)] {
        let mut config = Config::new(NODES as u32, Profile::builtin("ncosed-2007").unwrap());
        (config.order, config.sanitize) = (Order::Untimed, sanitize);
        let fabric = Fabric::new(config, Box::new(First)).unwrap();
        let places = places(&fabric);
        let root = fabric.snapshot();
        let mut rng = Rng::from_seed(1);
        let (mut enabled, mut print) = (Vec::<Enabled>::new(), Footprint::new());
        let (mut transitions, mut touches, mut resetting) = (0u64, 0u64, 0u128);
        let begun = Instant::now();
        for _ in 0..executions {
            let reset = Instant::now();
            fabric.reset_to(&root);
            resetting += reset.elapsed().as_nanos();
            for (node, place) in places.iter().enumerate() {
                let program = Adder { place: place.clone(), asked: 0, open: false, done: Vec::new() };
                fabric.mount(NodeId(node as u32), Box::new(program));
            }
            loop {
                fabric.enabled(&mut enabled);
                if enabled.is_empty() {
                    break;
                }
                let chosen = enabled[rng.below(enabled.len() as u64) as usize].event;
                fabric.take(chosen, Outcome::Done, seeing.then_some(&mut print)).unwrap();
                transitions += 1;
                touches += print.touches().len() as u64;
            }
        }
        let nanos = begun.elapsed().as_nanos() - resetting;
        println!(
            "sanitizer {sanitize}, footprints {seeing}: {} ns a transition with its listing, {:.1} touches; reset {} ns",
            nanos / u128::from(transitions),
            touches as f64 / transitions as f64,
            resetting / u128::from(executions),
        );
    }
}
