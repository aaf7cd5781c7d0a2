//! Receive requests of a shared queue.

use super::support::*;
use weft_sim::SimSrq;

/// Node 0, connected with a queue pair of node 1 that receives from a shared queue.
fn shared() -> (Fabric, Side, Side, SimQp, SimSrq) {
    let fabric = watched(2);
    let (a, b) = (Side::new(&fabric, 0), Side::new(&fabric, 1));
    let srq = b.pd.create_srq(8, 2).unwrap();
    let (send_cq, recv_cq) = (&b.cq, &b.cq);
    let caps = QpCaps::default();
    let new = QpInit { kind: QpType::Rc, send_cq, recv_cq, srq: Some(&srq), caps, sq_sig_all: false };
    let qp = b.pd.create_qp(&new).unwrap();
    for change in [Modify::Init(init()), Modify::Rtr(rtr(&a)), Modify::Rts(rts())] {
        qp.modify(&change).unwrap();
    }
    a.connect(ToRtr { dest_qp: qp.num(), ..rtr(&b) }, rts());
    run(&fabric, Nanos::from_millis(1));
    (fabric, a, b, qp, srq)
}

fn post(srq: &SimSrq, side: &Side, wr_id: u64, at: u32) {
    let halves = [at, at + 512].map(|at| Sge { mr: &side.mr, at, len: 64 });
    srq.post_recv(&[RecvWr { wr_id, data: &halves }]).unwrap();
}

fn holder(fabric: &Fabric) -> (Option<QpNum>, Option<u64>, Option<u32>) {
    let first = fabric.violations().last().unwrap().first;
    let Action::Request { op: WcOp::Recv, qp, wr_id } = first.action else { panic!("{first}") };
    (qp, wr_id, first.task)
}

#[test]
fn a_buffer_is_the_adapters_from_its_post_until_its_completion_is_polled() {
    let (fabric, a, b, qp, srq) = shared();
    b.host.task(5);
    post(&srq, &b, 1, 0);
    post(&srq, &b, 2, 1024);
    b.host.task(0);
    for at in [0, 512, 1024, 1536] {
        assert_eq!(breaks(&fabric, || load(&b.mr, at)), [Rule::PendingResult], "posted, {at}");
    }
    assert_eq!(holder(&fabric), (None, Some(2), Some(5)));
    assert!(fabric.violations()[0].to_string().contains("recv wr=1 of a shared queue"));
    a.send(1, 0, 100);
    settle(&fabric);
    for at in [0, 512, 1024, 1536] {
        assert_eq!(breaks(&fabric, || load(&b.mr, at)), [Rule::PendingResult], "received, {at}");
    }
    assert_eq!(breaks(&fabric, || load(&b.mr, 0)), [Rule::PendingResult]);
    assert_eq!(holder(&fabric), (Some(qp.num()), Some(1), Some(5)), "drawn, and posted by the same task");
    assert_eq!(ids(&b.polled()), [(1, None)]);
    assert_eq!(breaks(&fabric, || (store(&b.mr, 0), store(&b.mr, 512))), []);
    assert_eq!(breaks(&fabric, || load(&b.mr, 1536)), [Rule::PendingResult], "the other one");
}

#[test]
fn a_shared_queue_that_is_gone_holds_nothing() {
    let (fabric, a, b, qp, srq) = shared();
    post(&srq, &b, 1, 0);
    post(&srq, &b, 2, 1024);
    a.send(1, 0, 100);
    settle(&fabric);
    drop(qp);
    assert_eq!(breaks(&fabric, || store(&b.mr, 0)), [], "what the queue pair had drawn");
    assert_eq!(breaks(&fabric, || store(&b.mr, 1024)), [Rule::PendingResult]);
    drop(srq);
    assert_eq!(breaks(&fabric, || store(&b.mr, 1024)), []);
}
