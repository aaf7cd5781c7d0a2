//! Worlds that are watched, and what was found in them.

pub use crate::common::*;
pub use weft_sim::sanitizer::{Action, Party, Rule};
pub use weft_sim::{Config, Fabric, NodeId, SimMr, SimQp};
pub use weft_verbs::*;

use weft_sim::choice::Seeded;

/// A cluster that is watched.
pub fn watched(nodes: u32) -> Fabric {
    fabric_with(Config { sanitize: true, ..Config::new(nodes, profile()) }, Box::new(Seeded::new(1)))
}

/// Two connected nodes that are watched.
pub fn two() -> (Fabric, Side, Side) {
    let fabric = watched(2);
    let (a, b) = connected(&fabric);
    (fabric, a, b)
}

/// Nodes 0 and 2, connected, and node 1, connected with another queue pair of node 2 in the same domain.
pub struct Three {
    pub fabric: Fabric,
    pub a: Side,
    pub b: Side,
    pub c: Side,
    /// `b`'s end of the connection with `c`.
    pub b_to_c: SimQp,
}

pub fn three() -> Three {
    let fabric = watched(3);
    let (a, b) = connected(&fabric);
    let c = Side::new(&fabric, 1);
    let init = QpInit {
        kind: QpType::Rc,
        send_cq: &b.cq,
        recv_cq: &b.cq,
        srq: None,
        caps: QpCaps::default(),
        sq_sig_all: false,
    };
    let b_to_c = b.pd.create_qp(&init).unwrap();
    for change in [Modify::Init(crate::common::init()), Modify::Rtr(rtr(&c)), Modify::Rts(rts())] {
        b_to_c.modify(&change).unwrap();
    }
    c.connect(ToRtr { dest_qp: b_to_c.num(), ..rtr(&b) }, rts());
    // What all that costs is paid before a test begins.
    run(&fabric, Nanos::from_millis(1));
    Three { fabric, a, b, c, b_to_c }
}

/// The rules broken so far.
pub fn rules(fabric: &Fabric) -> Vec<Rule> {
    fabric.violations().iter().map(|violation| violation.rule).collect()
}

/// Runs `touch`, and says which rules that broke.
pub fn breaks<T>(fabric: &Fabric, touch: impl FnOnce() -> T) -> Vec<Rule> {
    let before = rules(fabric).len();
    touch();
    rules(fabric).split_off(before)
}

/// Lets the world run by small steps until something is so.
pub fn run_until(fabric: &Fabric, what: impl Fn() -> bool) {
    for _ in 0..1_000_000 {
        if what() {
            return;
        }
        run(fabric, Nanos(20));
    }
    panic!("it never came so");
}

/// Runs until an adapter has taken in so many packets more.
pub fn after_packets(fabric: &Fabric, n: u64) {
    let goal = fabric.stats().delivered + n;
    run_until(fabric, || fabric.stats().delivered >= goal);
}

pub fn load(mr: &SimMr, at: usize) -> u64 {
    mr.load(at).unwrap()
}

pub fn store(mr: &SimMr, at: usize) {
    mr.store(at, 7).unwrap();
}

pub fn read(mr: &SimMr, at: usize, len: usize) {
    mr.read(at, &mut vec![0; len]).unwrap();
}

pub fn write(mr: &SimMr, at: usize, len: usize) {
    mr.write(at, &vec![1; len]).unwrap();
}

#[allow(unsafe_code)]
pub fn claim(mr: &SimMr, at: usize, len: usize) {
    // SAFETY: the pointer is dropped unused.
    let _ = unsafe { mr.claim(at..at + len) }.unwrap();
}

/// A fetch-and-add of `side` on the word `at`, whose old value goes to `to` in its own memory.
pub fn fetch_add(side: &Side, wr_id: u64, to: u32, at: RemoteSlice) {
    side.post(wr_id, SendOp::FetchAdd { at, add: 1 }, to, 8, SendFlags::SIGNALED);
}
