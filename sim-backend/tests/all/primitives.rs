//! The primitive latencies of Table 1 of the lock paper come out of the simulated fabric as they went into the
//! profile (within 1 %), and single operations take what the profile's sums say.

use crate::common::*;
use std::cell::RefCell;
use std::rc::Rc;
use weft_sim::{Sim, SimChannel, SimCq, SimHost, SimMr, SimQp};
use weft_verbs::*;

#[derive(Clone, Copy, PartialEq)]
enum What {
    Send,
    CompareSwap,
    FetchAdd,
}

/// One operation posted in the first step, and its completion awaited. For a send, the other side's.
struct Prober {
    what: Option<What>,
    style: Wait,
    host: SimHost,
    qp: SimQp,
    cq: SimCq,
    channel: SimChannel,
    mr: SimMr,
    at: RemoteSlice,
    begun: bool,
    times: Rc<RefCell<Vec<Nanos>>>,
}

impl Prober {
    fn begin(&mut self) -> Park {
        self.begun = true;
        let sge = [Sge { mr: &self.mr, at: 0, len: if self.what == Some(What::Send) { 128 } else { 8 } }];
        if self.what.is_none() {
            self.qp
                .post_recv(&[RecvWr { wr_id: 1, data: &[Sge { mr: &self.mr, at: 0, len: 128 }] }])
                .unwrap();
        }
        self.cq.arm(Arm::Next).unwrap();
        if let Some(what) = self.what {
            // Posted after all preparations are over on the other side.
            self.host.spend(Work::Compute(Nanos::from_millis(1)));
            self.times.borrow_mut().push(self.host.now());
            let at = self.at;
            let op: SendOp<'_, Sim> = match what {
                What::Send => SendOp::Send { imm: None },
                What::CompareSwap => SendOp::CompareSwap { at, compare: 0, swap: 1 },
                What::FetchAdd => SendOp::FetchAdd { at, add: 1 },
            };
            let wr = SendWr { wr_id: 2, op, data: Payload::Sge(&sge), flags: SendFlags::SIGNALED };
            self.qp.post_send(&[wr]).unwrap();
            if what == What::Send {
                return Park::Done;
            }
        }
        Park::Until { style: self.style, deadline: None }
    }
}

impl Node for Prober {
    fn step(&mut self) -> Park {
        if !self.begun {
            return self.begin();
        }
        if self.style == Wait::Notify {
            assert_eq!(self.channel.event(), Some(self.cq.id()));
        }
        let mut done = vec![];
        assert_eq!(self.cq.poll(&mut done, 8).unwrap(), 1);
        assert!(done[0].result.is_ok());
        self.times.borrow_mut().push(self.host.now());
        Park::Done
    }
}

fn measure(what: What, style: Wait) -> f64 {
    let fabric = fabric(2);
    let (a, b) = connected(&fabric);
    let at = b.remote(0, 8);
    let times = Rc::new(RefCell::new(vec![]));
    let prober = |side: &Side, what| Prober {
        what,
        style,
        host: side.host.clone(),
        qp: side.qp.clone(),
        cq: side.cq.clone(),
        channel: side.channel.clone(),
        mr: side.mr.clone(),
        at,
        begun: false,
        times: times.clone(),
    };
    fabric.mount(a.node, Box::new(prober(&a, Some(what))));
    if what == What::Send {
        fabric.mount(b.node, Box::new(prober(&b, None)));
    }
    settle(&fabric);
    let times = times.borrow();
    assert_eq!(times.len(), 2);
    (times[1] - times[0]).as_micros_f64()
}

#[test]
fn the_papers_primitives_come_out_of_the_fabric() {
    for (what, style, paper) in [
        (What::Send, Wait::Poll, 4.07),
        (What::Send, Wait::Notify, 11.18),
        (What::CompareSwap, Wait::Poll, 5.78),
        (What::CompareSwap, Wait::Notify, 12.97),
        (What::FetchAdd, Wait::Poll, 5.77),
        (What::FetchAdd, Wait::Notify, 12.96),
    ] {
        let got = measure(what, style);
        assert!((got / paper - 1.0).abs() < 0.01, "{got} us, and the paper has {paper}");
    }
}

#[test]
fn the_fabric_agrees_with_the_profiles_sums() {
    let p = profile();
    let close = |got: f64, sum: Nanos| assert!((got - sum.as_micros_f64()).abs() < 0.002, "{got} {sum}");
    for style in [Wait::Poll, Wait::Notify] {
        close(measure(What::Send, style), p.one_way_send(128, style));
        close(measure(What::CompareSwap, style), p.compare_swap(style));
        close(measure(What::FetchAdd, style), p.fetch_add(style));
    }
}
