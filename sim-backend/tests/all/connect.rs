//! The connection manager on the fabric: with its faults, its queue pairs, its crashes.

use weft_sim::choice::Seeded;
use weft_sim::fault::{Fault, Link, PacketClass, Rule, Verdict, Way};
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, SimCm, SimContext, SimCq, SimMr, SimPd, SimQp};
use weft_verbs::*;

const N0: NodeId = NodeId(0);
const N1: NodeId = NodeId(1);
const SERVICE: Service = Service(40);

/// A node as a test drives it, from outside of any step.
struct Side {
    ctx: SimContext,
    cm: SimCm,
    pd: SimPd,
    cq: SimCq,
    mr: SimMr,
}

impl Side {
    fn new(fabric: &Fabric, node: NodeId) -> Side {
        let ctx = fabric.devices(node)[0].open().unwrap();
        let (cm, pd) = (ctx.connection_manager().unwrap(), ctx.alloc_pd().unwrap());
        let cq = ctx.create_cq(64, None).unwrap();
        let mr = pd.alloc_mr(4096, AccessFlags::LOCAL_WRITE).unwrap();
        Side { ctx, cm, pd, cq, mr }
    }

    /// A queue pair in Init, with one receive posted.
    fn qp(&self) -> SimQp {
        let (send_cq, recv_cq) = (&self.cq, &self.cq);
        let caps = QpCaps::default();
        let kind = QpType::Rc;
        let qp =
            self.pd.create_qp(&QpInit { kind, send_cq, recv_cq, srq: None, caps, sq_sig_all: true }).unwrap();
        let access = AccessFlags::empty();
        qp.modify(&Modify::Init(ToInit { port: 1, pkey_index: 0, access, qkey: 0 })).unwrap();
        qp.post_recv(&[RecvWr { wr_id: 1, data: &[Sge { mr: &self.mr, at: 0, len: 64 }] }]).unwrap();
        qp
    }

    fn send(&self, qp: &SimQp) {
        let (op, data) = (SendOp::Send { imm: None }, Payload::Inline(b"first"));
        qp.post_send(&[SendWr { wr_id: 2, op, data, flags: SendFlags::SIGNALED }]).unwrap();
    }

    fn received(&self) -> usize {
        let mut done = vec![];
        self.cq.poll(&mut done, 16).unwrap();
        done.iter().filter(|wc| wc.wr_id == 1 && wc.result.is_ok()).count()
    }
}

fn params(private: &[u8]) -> ConnParams<'_> {
    ConnParams {
        private,
        responder_resources: 4,
        initiator_depth: 4,
        timeout: AckTimeout::new(8).unwrap(),
        retry: Retries::MOST,
        rnr_retry: Retries::FOREVER,
        min_rnr_timer: RnrTimer::new(1).unwrap(),
        mtu: None,
        traffic_class: 0,
    }
}

fn world(nodes: u32, seed: u64) -> Fabric {
    let mut config = Config::new(nodes, Profile::builtin("present-day").unwrap());
    config.log = true;
    Fabric::new(config, Box::new(Seeded::new(seed))).unwrap()
}

/// Lets the world go on until the manager has an event, for a second at most.
fn next(fabric: &Fabric, cm: &SimCm) -> CmEvent {
    let end = fabric.now() + Nanos::from_secs(1);
    while fabric.now() < end {
        if let Some(event) = cm.event() {
            return event;
        }
        fabric.run_until(fabric.now() + Nanos::from_micros(10));
    }
    panic!("no event in a second");
}

/// Connects a fresh queue pair of `a` with one of `b`, and says how the two sides learned of it.
fn join(fabric: &Fabric, a: &Side, b: &Side, to: &str) -> (SimQp, SimQp, CmId, CmId) {
    let (qa, qb) = (a.qp(), b.qp());
    let id = a.cm.resolve(to, SERVICE).unwrap();
    assert_eq!(next(fabric, &a.cm), CmEvent::Resolved { id });
    a.cm.connect(id, &qa, &params(b"ask")).unwrap();
    let CmEvent::Request { id: at_b, private, .. } = next(fabric, &b.cm) else { panic!("no request") };
    assert_eq!(private, b"ask");
    b.cm.accept(at_b, &qb, &params(b"take")).unwrap();
    assert_eq!(next(fabric, &a.cm), CmEvent::Established { id, private: b"take".to_vec() });
    (qa, qb, id, at_b)
}

fn pair(seed: u64) -> (Fabric, Side, Side) {
    let fabric = world(2, seed);
    let (a, b) = (Side::new(&fabric, N0), Side::new(&fabric, N1));
    b.cm.listen(SERVICE).unwrap();
    (fabric, a, b)
}

#[test]
fn a_connection_made_over_the_fabric_carries_messages() {
    let (fabric, a, b) = pair(1);
    let (qa, qb, _, at_b) = join(&fabric, &a, &b, "n1");
    assert_eq!(next(&fabric, &b.cm), CmEvent::Established { id: at_b, private: vec![] });
    assert_eq!((qa.state(), qb.state()), (QpState::Rts, QpState::Rts));
    a.send(&qa);
    b.send(&qb);
    fabric.run_until(fabric.now() + Nanos::from_micros(50));
    assert_eq!((a.received(), b.received()), (1, 1));
}

#[test]
fn the_first_message_settles_a_lost_confirmation_at_once() {
    let (fabric, a, b) = pair(2);
    // Of what n0 sends, the first is the request and the second the confirmation.
    fabric
        .rules(|rules| rules.push(Rule::new(Verdict::Drop).src(N0).class(PacketClass::Cm).after(1).times(1)));
    let (qa, qb, _, at_b) = join(&fabric, &a, &b, "n1");
    assert_eq!((qb.state(), b.cm.event()), (QpState::Rtr, None));
    let begun = fabric.now();
    a.send(&qa);
    assert_eq!(next(&fabric, &b.cm), CmEvent::Established { id: at_b, private: vec![] });
    assert_eq!(qb.state(), QpState::Rts);
    assert!(fabric.now() - begun < Nanos::from_millis(1), "sooner than any repetition");
    assert_eq!(b.received(), 1);
}

#[test]
fn a_node_connects_with_itself() {
    let fabric = world(1, 3);
    let (a, b) = (Side::new(&fabric, N0), Side::new(&fabric, N0));
    b.cm.listen(SERVICE).unwrap();
    let (qa, qb, ..) = join(&fabric, &a, &b, "n0");
    fabric.run_until(fabric.now() + Nanos::from_micros(100));
    a.send(&qa);
    b.send(&qb);
    fabric.run_until(fabric.now() + Nanos::from_micros(50));
    assert_eq!((a.received(), b.received()), (1, 1));
}

#[test]
fn under_heavy_loss_connections_come_about_and_never_half() {
    let mut whole = 0;
    for seed in 0..60 {
        let (fabric, a, b) = pair(seed);
        let (link, way, lasts) = (Link::Pair(N0, N1), Way::Both, None);
        fabric.plan(Nanos(0), Fault::Loss { link, way, ppm: 300_000, lasts }).unwrap();
        fabric.plan(Nanos(0), Fault::Duplicate { link, way, ppm: 200_000, lasts }).unwrap();
        let (qa, qb) = (a.qp(), b.qp());
        let id = a.cm.resolve("n1", SERVICE).unwrap();
        a.cm.connect(id, &qa, &params(b"")).unwrap();
        let (mut at_a, mut at_b) = (vec![], vec![]);
        for _ in 0..400 {
            fabric.run_until(fabric.now() + Nanos::from_millis(1));
            at_a.extend(a.cm.event());
            if let Some(event) = b.cm.event() {
                if let CmEvent::Request { id, .. } = event {
                    b.cm.accept(id, &qb, &params(b"")).unwrap();
                }
                at_b.push(event);
            }
        }
        let stands = |events: &[CmEvent]| matches!(events.last(), Some(CmEvent::Established { .. }));
        assert_eq!(stands(&at_a), stands(&at_b), "seed {seed}: {at_a:?} {at_b:?}");
        assert!(at_b.len() <= 2, "seed {seed}: one request and how it ended: {at_b:?}");
        whole += u32::from(stands(&at_a));
    }
    assert!(whole > 50, "{whole} of 60");
}

#[test]
fn a_cut_that_outlasts_the_repetitions_is_unreachable() {
    let (fabric, a, b) = pair(4);
    fabric.plan(Nanos(0), Fault::Cut { link: Link::Node(N1), way: Way::To, lasts: None }).unwrap();
    fabric.run_until(Nanos(1));
    let qa = a.qp();
    let id = a.cm.resolve("n1", SERVICE).unwrap();
    assert_eq!(next(&fabric, &a.cm), CmEvent::Resolved { id });
    a.cm.connect(id, &qa, &params(b"")).unwrap();
    assert_eq!(next(&fabric, &a.cm), CmEvent::Unreachable { id });
    assert_eq!((b.cm.event(), qa.state()), (None, QpState::Init));
    let hit = fabric.faults()[0];
    assert_eq!((hit.packets_hit, hit.struck), (9, false), "eight requests and the end of the attempt");
}

#[test]
fn a_node_that_crashed_forgets_and_connects_anew() {
    let (fabric, a, b) = pair(5);
    let (_qa, _qb, _, old) = join(&fabric, &a, &b, "n1");
    assert_eq!(next(&fabric, &b.cm), CmEvent::Established { id: old, private: vec![] });
    fabric.plan(fabric.now(), Fault::Crash { node: N0 }).unwrap();
    fabric.plan(fabric.now() + Nanos(10), Fault::Restart { node: N0 }).unwrap();
    fabric.run_until(fabric.now() + Nanos::from_micros(10));
    assert_eq!(
        a.cm.resolve("n1", SERVICE),
        Err(VerbsError::DeviceGone),
        "a handle of its former incarnation"
    );
    assert_eq!(a.cm.event(), None);
    let again = Side::new(&fabric, N0);
    let (_qc, qd, _, new) = join(&fabric, &again, &b, "n1");
    let mut at_b = vec![];
    while !at_b.contains(&CmEvent::Established { id: new, private: vec![] }) {
        at_b.push(next(&fabric, &b.cm));
    }
    assert_eq!(qd.state(), QpState::Rts);
    assert_ne!(old, new);
}

#[test]
fn closing_a_device_ends_its_connections() {
    let (fabric, a, b) = pair(6);
    let (qa, _qb, _, at_b) = join(&fabric, &a, &b, "n1");
    assert_eq!(next(&fabric, &b.cm), CmEvent::Established { id: at_b, private: vec![] });
    drop((qa, a));
    assert_eq!(next(&fabric, &b.cm), CmEvent::Disconnected { id: at_b });
    assert!(b.cm.disconnect(at_b).is_err());
}

#[test]
fn names_that_mean_no_node_are_unreachable() {
    let (fabric, a, _b) = pair(7);
    for name in ["n2", "n01", "host", ""] {
        let id = a.cm.resolve(name, SERVICE).unwrap();
        assert_eq!(next(&fabric, &a.cm), CmEvent::Unreachable { id }, "{name:?}");
    }
    assert!(a.ctx.port_attr(1).is_ok());
}

#[test]
fn a_foreign_or_unready_queue_pair_is_refused() {
    let (fabric, a, b) = pair(8);
    let id = a.cm.resolve("n1", SERVICE).unwrap();
    assert_eq!(next(&fabric, &a.cm), CmEvent::Resolved { id });
    assert!(matches!(a.cm.connect(id, &b.qp(), &params(b"")), Err(VerbsError::Foreign(_))));
    let qa = a.qp();
    qa.modify(&Modify::Err).unwrap();
    assert!(matches!(a.cm.connect(id, &qa, &params(b"")), Err(VerbsError::WrongState { .. })));
    a.cm.connect(id, &a.qp(), &params(b"")).expect("refused calls changed nothing");
}

#[test]
fn the_same_seed_makes_the_same_log() {
    let run = |seed| {
        let (fabric, a, b) = pair(seed);
        let (link, way, lasts) = (Link::Pair(N0, N1), Way::Both, None);
        fabric.plan(Nanos(0), Fault::Loss { link, way, ppm: 200_000, lasts }).unwrap();
        let (qa, ..) = join(&fabric, &a, &b, "n1");
        a.send(&qa);
        fabric.run_until(fabric.now() + Nanos::from_millis(20));
        (fabric.log(|log| log.digest()), fabric.take_log())
    };
    let (one, again, other) = (run(9), run(9), run(10));
    assert_eq!(one, again);
    assert!(!one.1.is_empty() && one != other);
}
