//! The drained send queue (IBA 10.3.1.6).

use super::prelude::*;

cases! { "sqd":
    an_idle_send_queue_is_drained_at_once, "10.3.1.6", needs Caps::SQD;
    what_is_in_flight_ends_and_nothing_new_begins, "10.3.1.6", needs Caps::SQD,
        with HarnessCaps::STRIKE;
    the_event_comes_after_the_last_completion, "10.3.1.6; 11.6.3", needs Caps::SQD;
    without_asking_there_is_no_event, "10.3.1.6", needs Caps::SQD;
    posts_to_a_drained_queue_wait_for_its_return, "10.3.1.6", needs Caps::SQD;
    a_drained_queue_pair_still_answers_its_peer, "10.3.1.6", needs Caps::SQD;
    a_drained_queue_pair_flushes_what_waits_in_it, "10.3.1.6; 10.3.1.7", needs Caps::SQD;
    an_error_while_draining_leads_to_the_error_state, "10.3.1.6", needs Caps::SQD;
}

fn drained<H: Harness>(bed: &mut TestBed<'_, H>, end: &End<H::V>) -> Outcome {
    check_eq!(bed.async_event(&end.ctx)?, AsyncEvent::SqDrained(end.qp.num()), "the event");
    check!(!end.qp.query()?.draining, "a drained queue pair says that it is draining");
    Ok(())
}

fn an_idle_send_queue_is_drained_at_once<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    a.qp.modify(&Modify::Sqd { notify: true })?;
    check_eq!(a.qp.state(), QpState::Sqd, "the state");
    drained(bed, &a)?;
    a.qp.modify(&Modify::Resume)?;
    a.write(1, 0..8, b.word(0)?)?;
    bed.done(&a.sends, 1)?;
    Ok(())
}

fn what_is_in_flight_ends_and_nothing_new_begins<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    // One read at a time, so that those behind it are certainly not begun.
    setup.depth = 1;
    let Pair { a, b } = bed.pair_with(&setup)?;
    let late = bed.timing().round_trip * 4;
    let held = bed.strike((1, 0), PacketClass::ReadResponse, 1, Act::Delay(late))?;
    for i in 0..4u32 {
        b.mr.store(i as usize * 8, 1)?;
        a.read(u64::from(i), i * 8..i * 8 + 8, b.word(i as usize * 8)?)?;
    }
    bed.until_struck(held, 1)?;
    a.qp.modify(&Modify::Sqd { notify: true })?;
    check!(a.qp.query()?.draining, "a queue pair with a read in flight does not say that it is draining");
    check_eq!(a.ctx.async_event(), None, "an event while a read is in flight");
    bed.done(&a.sends, 0)?;
    drained(bed, &a)?;
    bed.settle();
    check!(a.poll_sends()?.is_empty(), "a request was begun in SQD");
    a.qp.modify(&Modify::Resume)?;
    for i in 1..4 {
        bed.done(&a.sends, i)?;
    }
    Ok(())
}

fn the_event_comes_after_the_last_completion<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    for i in 0..10 {
        a.write(i, 0..8_000, b.remote(0..8_000)?)?;
    }
    a.qp.modify(&Modify::Sqd { notify: true })?;
    drained(bed, &a)?;
    // Whatever had begun is complete now; the rest has not begun, and comes after the return.
    let early = a.poll_sends()?.len() as u64;
    bed.settle();
    check!(a.poll_sends()?.is_empty(), "a completion after the drained event");
    check_eq!(a.ctx.async_event(), None, "a second event");
    a.qp.modify(&Modify::Resume)?;
    for i in early..10 {
        bed.done(&a.sends, i)?;
    }
    Ok(())
}

fn without_asking_there_is_no_event<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    a.write(1, 0..8, b.word(0)?)?;
    a.qp.modify(&Modify::Sqd { notify: false })?;
    bed.settle();
    check_eq!(a.ctx.async_event(), None, "an event nobody asked for");
    check!(!a.qp.query()?.draining, "still draining after a long time");
    Ok(())
}

fn posts_to_a_drained_queue_wait_for_its_return<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    a.qp.modify(&Modify::Sqd { notify: true })?;
    drained(bed, &a)?;
    a.fill(0, &[5; 8])?;
    for i in 0..3 {
        a.write(i, 0..8, b.word(0)?)?;
    }
    bed.settle();
    check!(a.poll_sends()?.is_empty(), "a request completed in SQD");
    check_eq!(b.bytes(0..8)?, vec![0; 8], "the peer's memory");
    a.qp.modify(&Modify::Resume)?;
    for i in 0..3 {
        bed.done(&a.sends, i)?;
    }
    check_eq!(b.bytes(0..8)?, vec![5; 8], "the peer's memory after the return");
    Ok(())
}

fn a_drained_queue_pair_still_answers_its_peer<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    a.qp.modify(&Modify::Sqd { notify: true })?;
    drained(bed, &a)?;
    a.recv(1, 0..8)?;
    b.send(2, 0..8)?;
    b.read(3, 8..16, a.word(0)?)?;
    bed.done(&b.sends, 2)?;
    bed.done(&b.sends, 3)?;
    bed.done(&a.recvs, 1)?;
    Ok(())
}

fn a_drained_queue_pair_flushes_what_waits_in_it<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    a.qp.modify(&Modify::Sqd { notify: false })?;
    for i in 0..3 {
        a.write(i, 0..8, b.word(0)?)?;
    }
    a.qp.modify(&Modify::Err)?;
    for i in 0..3 {
        bed.fails(&a.sends, i, WcError::Flush)?;
    }
    Ok(())
}

fn an_error_while_draining_leads_to_the_error_state<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    setup.retry = retries(1);
    let Pair { a, b } = bed.pair_with(&setup)?;
    b.qp.modify(&Modify::Err)?;
    a.write(1, 0..8, b.word(0)?)?;
    bed.settle();
    a.qp.modify(&Modify::Sqd { notify: false })?;
    a.write(2, 0..8, b.word(0)?)?;
    bed.fails(&a.sends, 1, WcError::RetryExc)?;
    bed.fails(&a.sends, 2, WcError::Flush)?;
    check_eq!(a.qp.state(), QpState::Err, "the state");
    Ok(())
}
