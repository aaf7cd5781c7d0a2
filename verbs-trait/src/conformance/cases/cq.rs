//! Completion queues: polling, sharing, overrun, resizing (IBA 11.2.6, 11.4.2.1).

use super::prelude::*;

cases! { "cq":
    a_queue_holds_at_least_what_was_asked_for, "11.2.6.1";
    a_poll_brings_at_most_what_was_asked_for, "11.4.2.1";
    a_poll_of_nothing_brings_nothing, "11.4.2.1";
    completions_are_appended_to_what_was_there, "contract";
    a_completion_is_polled_once, "11.4.2.1";
    two_queue_pairs_may_share_a_queue, "11.2.6";
    sends_and_receives_may_share_a_queue, "11.2.6";
    each_work_queue_has_the_queue_it_was_given, "11.2.5.1";
    an_overrun_is_an_error_and_an_event, "11.6.3.1";
    a_queue_may_be_filled_to_the_brim, "11.2.6.1";
    a_queue_that_grows_keeps_its_completions_in_order, "11.2.6.3", needs Caps::CQ_RESIZE;
    a_queue_shrinks_to_what_it_holds_and_no_further, "11.2.6.3", needs Caps::CQ_RESIZE;
    a_destroyed_queue_pair_leaves_no_false_completions, "11.2.5.4";
}

/// Has so many writes of a pair completed, unpolled.
fn complete<H: Harness>(bed: &mut TestBed<'_, H>, Pair { a, b }: &Pair<H::V>, n: u64) -> Outcome {
    for i in 0..n {
        a.write(i, 0..8, b.word(0)?)?;
    }
    bed.settle();
    Ok(())
}

fn a_queue_holds_at_least_what_was_asked_for<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    bed.at_least(2)?;
    let ctx = bed.ctx(0);
    for cqe in [1, 2, 100, 1_000] {
        let cq = ctx.create_cq(cqe, None)?;
        check!(cq.capacity() >= cqe, "asked for {cqe}, was granted {}", cq.capacity());
    }
    let (one, other) = (ctx.create_cq(1, None)?, ctx.create_cq(1, None)?);
    check!(one.id() != other.id(), "two completion queues have one identity");
    check_eq!(one.clone().id(), one.id(), "the identity of a clone");
    Ok(())
}

fn a_poll_brings_at_most_what_was_asked_for<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    complete(bed, &pair, 10)?;
    let mut out = Vec::new();
    for (max, expected) in [(3, 3), (0, 0), (1, 1), (100, 6), (100, 0)] {
        check_eq!(pair.a.sends.poll(&mut out, max)?, expected, "completions of a poll for {max}");
    }
    let seen: Vec<_> = out.iter().map(|c| c.wr_id).collect();
    check_eq!(seen, (0..10).collect::<Vec<_>>(), "the requests, in order");
    Ok(())
}

fn a_poll_of_nothing_brings_nothing<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b: _b } = bed.pair()?;
    check!(a.poll_sends()?.is_empty() && a.poll_recvs()?.is_empty(), "an unused queue holds completions");
    Ok(())
}

fn completions_are_appended_to_what_was_there<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    complete(bed, &pair, 2)?;
    let there = WorkCompletion { wr_id: 77, qp: QpNum(1), result: Err(WcError::General) };
    let mut out = vec![there];
    check_eq!(pair.a.sends.poll(&mut out, 8)?, 2, "completions polled");
    check_eq!((out.len(), out[0]), (3, there), "the vector");
    Ok(())
}

fn a_completion_is_polled_once<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    complete(bed, &pair, 1)?;
    let twin = pair.a.sends.clone();
    let mut out = Vec::new();
    check_eq!(
        (pair.a.sends.poll(&mut out, 8)?, twin.poll(&mut out, 8)?),
        (1, 0),
        "polls through two handles"
    );
    Ok(())
}

fn two_queue_pairs_may_share_a_queue<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let Pair { a, b } = bed.pair_with(&setup)?;
    let second = bed.end_on(0, a.pd.clone(), a.sends.clone(), a.recvs.clone(), &setup)?;
    let peer = bed.end(1, &setup)?;
    second.connect(&peer, &setup, 0)?;
    peer.connect(&second, &setup, 1)?;
    for i in 0..20 {
        a.write(i, 0..8, b.word(0)?)?;
        second.write(100 + i, 0..8, peer.word(0)?)?;
    }
    let seen = bed.completions(&a.sends, 40)?;
    for (end, first) in [(&a, 0), (&second, 100)] {
        let own: Vec<_> = seen.iter().filter(|c| c.qp == end.qp.num()).map(|c| c.wr_id).collect();
        check_eq!(own, (first..first + 20).collect::<Vec<_>>(), "one queue pair's completions, in order");
    }
    Ok(())
}

fn sends_and_receives_may_share_a_queue<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    bed.at_least(2)?;
    let ctx = bed.ctx(0);
    let cq = ctx.create_cq(64, None)?;
    let a = bed.end_on(0, ctx.alloc_pd()?, cq.clone(), cq, &setup)?;
    let b = bed.end(1, &setup)?;
    a.connect(&b, &setup, 0)?;
    b.connect(&a, &setup, 1)?;
    a.recv(1, 0..8)?;
    b.recv(2, 0..8)?;
    a.send(3, 0..8)?;
    bed.done(&a.sends, 3)?;
    b.send(4, 0..8)?;
    check_eq!(bed.done(&a.sends, 1)?.op, WcOp::Recv, "the receive's operation");
    Ok(())
}

fn each_work_queue_has_the_queue_it_was_given<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    b.recv(1, 0..8)?;
    a.send(2, 0..8)?;
    bed.done(&a.sends, 2)?;
    bed.done(&b.recvs, 1)?;
    check!(a.poll_recvs()?.is_empty() && b.poll_sends()?.is_empty(), "a completion in the other queue");
    Ok(())
}

/// An end on node 0 whose sends complete into a queue of its own, and its peer.
fn on_a_queue_of<H: Harness>(bed: &mut TestBed<'_, H>, cqe: u32) -> Outcome<(Pair<H::V>, u32)> {
    let mut setup = Setup::new(bed);
    bed.at_least(2)?;
    let ctx = bed.ctx(0);
    let (sends, recvs) = (ctx.create_cq(cqe, None)?, ctx.create_cq(8, None)?);
    let capacity = sends.capacity();
    setup.caps.max_send_wr = capacity + 8;
    let a = bed.end_on(0, ctx.alloc_pd()?, sends, recvs, &setup)?;
    let b = bed.end(1, &setup)?;
    a.connect(&b, &setup, 0)?;
    b.connect(&a, &setup, 1)?;
    Ok((Pair { a, b }, capacity))
}

fn an_overrun_is_an_error_and_an_event<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (pair, capacity) = on_a_queue_of(bed, 4)?;
    complete(bed, &pair, u64::from(capacity) + 1)?;
    let id = pair.a.sends.id();
    let mut seen = Vec::new();
    while !seen.contains(&AsyncEvent::CqError(id)) {
        let event = bed.async_event(&pair.a.ctx).map_err(|e| e.during(format!("after events {seen:?}")))?;
        seen.push(event);
    }
    check_refused!(
        pair.a.sends.poll(&mut Vec::new(), 64),
        VerbsError::CqOverrun,
        "a poll of a queue that has lost completions"
    );
    check_refused!(
        pair.a.sends.poll(&mut Vec::new(), 64),
        VerbsError::CqOverrun,
        "the next poll of a queue that has lost completions"
    );
    Ok(())
}

fn a_queue_may_be_filled_to_the_brim<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (pair, capacity) = on_a_queue_of(bed, 4)?;
    for _ in 0..3 {
        complete(bed, &pair, u64::from(capacity))?;
        for i in 0..u64::from(capacity) {
            bed.done(&pair.a.sends, i)?;
        }
    }
    Ok(())
}

fn a_queue_that_grows_keeps_its_completions_in_order<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (pair, capacity) = on_a_queue_of(bed, 4)?;
    complete(bed, &pair, 3)?;
    bed.done(&pair.a.sends, 0)?;
    pair.a.sends.resize(capacity * 2)?;
    check!(pair.a.sends.capacity() >= capacity * 2, "a capacity of {}", pair.a.sends.capacity());
    for i in 3..u64::from(capacity) + 5 {
        pair.a.write(i, 0..8, pair.b.word(0)?)?;
    }
    bed.settle();
    for i in 1..u64::from(capacity) + 5 {
        bed.done(&pair.a.sends, i)?;
    }
    Ok(())
}

fn a_queue_shrinks_to_what_it_holds_and_no_further<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (pair, capacity) = on_a_queue_of(bed, 64)?;
    complete(bed, &pair, 10)?;
    check!(pair.a.sends.resize(9).is_err(), "a queue of 10 completions shrank to 9");
    check_eq!(pair.a.sends.capacity(), capacity, "the capacity after a refused resize");
    pair.a.sends.resize(10)?;
    for i in 0..10 {
        bed.done(&pair.a.sends, i)?;
    }
    Ok(())
}

fn a_destroyed_queue_pair_leaves_no_false_completions<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    complete(bed, &pair, 3)?;
    let sends = pair.a.sends.clone();
    drop(pair);
    // A backend may drop what a destroyed queue pair left (libibverbs does), but must not make anything up.
    let mut out = Vec::new();
    sends.poll(&mut out, 8)?;
    check!(out.iter().all(|c| c.wr_id < 3 && c.result.is_ok()), "completions nobody asked for: {out:?}");
    Ok(())
}
