//! Measurements, and how the two ends leave.

use super::{Place, accept, both, both_of, connect};
use crate::common::{Cluster, us};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::sdp::perf::{self, Figures, PerfError, Plan};
use weft_sim::NodeId;
use weft_sim::fault::{Fault, Link, Way};
use weft_verbs::Nanos;

/// What a caller measures while links fail, and what the listener says at the end.
fn measured(
    plans: &'static [Plan],
    faults: &[(Nanos, Fault)],
) -> (Vec<Result<Figures, PerfError>>, Result<u32, PerfError>) {
    let (figures, answered) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(None)));
    let (tell, end) = (Rc::clone(&figures), Rc::clone(&answered));
    both(
        faults,
        |place| {
            Box::pin(async move {
                let stream = connect(&place).await;
                for plan in plans {
                    let measured = perf::call(&place.rt, &stream, *plan).await;
                    tell.borrow_mut().push(measured);
                }
                stream.close().await.expect("it ends");
            })
        },
        |place| {
            Box::pin(async move {
                let stream = accept(&place).await;
                *end.borrow_mut() = Some(perf::answer(&stream).await);
            })
        },
    );
    (figures.take(), answered.take().expect("it ended"))
}

#[test]
fn a_measurement_goes_on_over_a_cut_and_says_how_long_it_stalled() {
    const PLANS: &[Plan] =
        &[Plan { bytes: 64, transfers: 1, rounds: 100 }, Plan { bytes: 5_000, transfers: 20, rounds: 3 }];
    let (quiet, answered) = measured(PLANS, &[]);
    assert_eq!(answered, Ok(2));
    let [ping, bulk] = [0, 1].map(|at| quiet[at].expect("it held"));
    assert_eq!([ping.transfers, ping.bytes, bulk.transfers, bulk.bytes], [200, 12_800, 120, 600_000]);
    // A transfer of a ping-pong takes some microseconds each way; beside one of them a connection is made that stands by.
    assert!(ping.longest < us(200) && ping.took > ping.longest, "{ping:?}");
    let cut = Fault::Cut { link: Link::Port(NodeId(1), 1), way: Way::Both, lasts: None };
    let (cut, answered) = measured(PLANS, &[(ping.took / 2, cut)]);
    assert_eq!(answered, Ok(2));
    let stalled = cut[0].expect("it held").longest;
    // The adapter has to give the dead link up first; what stands by takes over at once.
    assert!(stalled > ping.longest * 3, "{stalled:?} beside {:?}", ping.longest);
}

/// Who left, whether nothing was owed then, and how long that took.
type Left = Rc<RefCell<Vec<(bool, Nanos)>>>;

async fn leave(place: Place, left: Left) {
    let began = place.rt.now();
    let settled = place.sdp.settle(Nanos::from_secs(5)).await;
    left.borrow_mut().push((settled, place.rt.now() - began));
    place.rt.shutdown();
}

/// One that leaves and has not acknowledged what it got has the other one wait until that gives up: after every copy and every
/// measurement.
#[test]
fn two_ends_that_are_done_both_leave_at_once() {
    const DELAY: Nanos = Nanos::from_millis(20);
    for rounds in 1..=8 {
        let left = Left::default();
        let (calls, answers) = (Rc::clone(&left), Rc::clone(&left));
        both_of(
            Cluster::acknowledging_late(2, 2, 1, DELAY),
            &[],
            |place| {
                Box::pin(async move {
                    let stream = connect(&place).await;
                    let plan = Plan { bytes: 100, transfers: 1, rounds };
                    perf::call(&place.rt, &stream, plan).await.expect("it holds");
                    stream.close().await.expect("it ends");
                    leave(place, calls).await;
                })
            },
            |place| {
                Box::pin(async move {
                    let stream = accept(&place).await;
                    perf::answer(&stream).await.expect("it holds");
                    stream.close().await.expect("it ends");
                    leave(place, answers).await;
                })
            },
        );
        let left = left.take();
        assert_eq!(left.len(), 2);
        assert!(left.iter().all(|(settled, took)| *settled && *took < DELAY * 2), "{rounds}: {left:?}");
    }
}

#[test]
fn a_measurement_out_of_bounds_is_refused_at_either_end() {
    const PLANS: &[Plan] = &[
        Plan { bytes: 0, transfers: 1, rounds: 1 },
        Plan { bytes: Plan::MOST_BYTES + 1, transfers: 1, rounds: 1 },
        Plan { bytes: 1, transfers: 1, rounds: Plan::MOST + 1 },
    ];
    let (figures, answered) = measured(PLANS, &[]);
    assert!(figures.iter().all(|end| matches!(end, Err(PerfError::Plan { .. }))), "{figures:?}");
    assert_eq!(answered, Ok(0));
    let said = Rc::new(RefCell::new(None));
    let tell = Rc::clone(&said);
    both(
        &[],
        |place| {
            Box::pin(async move {
                let stream = connect(&place).await;
                stream.write_all(b"GET / HTTP/1.1\r\n\r\n\r\n").await.expect("it is sent");
                let _ = stream.close().await;
            })
        },
        |place| {
            Box::pin(async move {
                let stream = accept(&place).await;
                *tell.borrow_mut() = Some(perf::answer(&stream).await);
            })
        },
    );
    assert_eq!(said.take(), Some(Err(PerfError::Stranger)));
}
