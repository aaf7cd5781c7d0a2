//! Receiver not ready (IBA 9.7.5.2.8, 9.9.2.1.2).

use super::prelude::*;

cases! { "rnr":
    a_message_waits_for_its_receive_buffer, "9.7.5.2.8";
    a_write_with_immediate_data_waits_for_its_receive_buffer, "9.4.3; 9.7.5.2.8";
    a_plain_write_needs_no_receive_buffer, "9.4.3";
    exhausted_rnr_retries_are_fatal, "9.9.2.1.2";
    a_write_that_found_no_buffer_for_its_end_may_have_written, "9.4.3; 9.7.5.2.8";
    as_many_rnr_retries_as_allowed_are_made, "9.9.2.1.2", with HarnessCaps::STRIKE;
    the_last_rnr_retry_still_succeeds, "9.9.2.1.2", with HarnessCaps::STRIKE;
    seven_rnr_retries_are_without_end, "9.7.5.2.8", with HarnessCaps::STRIKE;
    the_rnr_timer_is_respected, "9.7.5.2.8, table 45", with HarnessCaps::STRIKE | HarnessCaps::EXACT_CLOCK;
    an_updated_rnr_timer_is_told_from_then_on, "11.2.5.2",
        with HarnessCaps::STRIKE | HarnessCaps::EXACT_CLOCK;
    progress_gives_all_rnr_retries_back, "9.9.2.1.2", with HarnessCaps::STRIKE;
    a_doubled_answer_of_not_ready_counts_once, "9.7.5.2.8", with HarnessCaps::STRIKE;
    what_follows_a_message_that_waits_is_dropped_in_silence, "9.7.5.2.8", with HarnessCaps::STRIKE;
    rnr_retries_and_transport_retries_count_apart, "9.9.2.1.2", with HarnessCaps::STRIKE;
    a_message_that_waits_keeps_its_place, "9.5; 9.7.5.2.8";
    receives_fed_one_by_one_carry_everything, "9.7.5.2.8";
}

fn with_rnr<H: Harness>(bed: &mut TestBed<'_, H>, rnr_retry: u8) -> Outcome<(Pair<H::V>, Setup)> {
    with_rnr_timer(bed, rnr_retry, 4)
}

/// So many retries, each after so many round trips.
fn with_rnr_timer<H: Harness>(
    bed: &mut TestBed<'_, H>,
    rnr_retry: u8,
    round_trips: u64,
) -> Outcome<(Pair<H::V>, Setup)> {
    bed.world(2, 0)?;
    let mut setup = Setup::new(bed);
    setup.rnr_retry = retries(rnr_retry);
    setup.rnr_timer = rnr_at_least(bed.timing().round_trip * round_trips);
    Ok((bed.pair_with(&setup)?, setup))
}

/// A harness of a slow machine may hear late of an answer of receiver-not-ready. The next one must come later still, where
/// a case posts a receive in between.
const UNHURRIED: u64 = 16;

fn waits<H: Harness>(bed: &mut TestBed<'_, H>, imm: bool) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    a.fill(0, &pattern(3_000, 1))?;
    let op = if imm {
        SendOp::Write { to: b.remote(0..3_000)?, imm: Some(5) }
    } else {
        SendOp::Send { imm: None }
    };
    a.post(1, op, 0..3_000)?;
    let span = bed.timing().round_trip * 50;
    bed.quiet(&a.sends, span)?;
    b.recv(2, 0..3_000)?;
    check_eq!(bed.done(&b.recvs, 2)?.imm, imm.then_some(5), "immediate data");
    bed.done(&a.sends, 1)?;
    check!(b.bytes(0..3_000)? == pattern(3_000, 1), "the message changed");
    Ok(())
}

fn a_message_waits_for_its_receive_buffer<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    waits(bed, false)
}

fn a_write_with_immediate_data_waits_for_its_receive_buffer<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    waits(bed, true)
}

fn a_plain_write_needs_no_receive_buffer<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (Pair { a, b }, _) = with_rnr(bed, 0)?;
    a.write(1, 0..64, b.remote(0..64)?)?;
    a.read(2, 0..64, b.remote(0..64)?)?;
    bed.done(&a.sends, 1)?;
    bed.done(&a.sends, 2)?;
    Ok(())
}

fn exhausted_rnr_retries_are_fatal<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for k in [0, 1, 6] {
        let (Pair { a, b }, _) = with_rnr(bed, k)?;
        a.send(1, 0..64)?;
        a.send(2, 0..64)?;
        bed.fails(&a.sends, 1, WcError::RnrRetryExc).map_err(|e| e.during(format!("{k} retries")))?;
        bed.fails(&a.sends, 2, WcError::Flush)?;
        check_eq!((a.qp.state(), b.qp.state()), (QpState::Err, QpState::Rts), "both states");
    }
    Ok(())
}

/// Only the last packet of a write with immediate data needs a receive buffer: what came before may be there.
fn a_write_that_found_no_buffer_for_its_end_may_have_written<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    let (Pair { a, b }, setup) = with_rnr(bed, 0)?;
    let len = 3 * setup.mtu.bytes();
    a.fill(0, &pattern(len as usize, 1))?;
    a.post(1, SendOp::Write { to: b.remote(0..len as usize)?, imm: Some(5) }, 0..len)?;
    bed.fails(&a.sends, 1, WcError::RnrRetryExc)?;
    // What is there now stays as it is.
    b.qp.modify(&Modify::Err)?;
    let written = b.bytes(0..len as usize)? != vec![0; len as usize];
    let told = WcError::RnrRetryExc.far_side();
    check!(
        !written || told != FarSide::Untouched,
        "part of the write is there, and its status says {told:?}"
    );
    Ok(())
}

fn as_many_rnr_retries_as_allowed_are_made<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for k in 0..7u8 {
        let (Pair { a, b: _b }, _) = with_rnr(bed, k)?;
        let rnrs = bed.strike((1, 0), PacketClass::Rnr, u64::MAX, Act::Pass)?;
        a.send(1, 0..64)?;
        bed.fails(&a.sends, 1, WcError::RnrRetryExc)?;
        bed.settle();
        check_eq!(bed.struck(rnrs), u64::from(k) + 1, "answers of receiver-not-ready to {k} retries");
    }
    Ok(())
}

fn the_last_rnr_retry_still_succeeds<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for k in 1..7u8 {
        let (Pair { a, b }, _) = with_rnr_timer(bed, k, UNHURRIED)?;
        let rnrs = bed.strike((1, 0), PacketClass::Rnr, u64::MAX, Act::Pass)?;
        a.send(1, 0..64)?;
        bed.until_struck(rnrs, u64::from(k))?;
        b.recv(2, 0..64)?;
        bed.done(&a.sends, 1).map_err(|e| e.during(format!("{k} retries")))?;
        bed.done(&b.recvs, 2)?;
        check_eq!(bed.struck(rnrs), u64::from(k), "answers of receiver-not-ready");
    }
    Ok(())
}

fn seven_rnr_retries_are_without_end<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (Pair { a, b }, _) = with_rnr(bed, 7)?;
    let rnrs = bed.strike((1, 0), PacketClass::Rnr, u64::MAX, Act::Pass)?;
    a.send(1, 0..64)?;
    bed.until_struck(rnrs, 40)?;
    let seen = a.poll_sends()?;
    check!(seen.is_empty(), "a message without a receive buffer completed: {seen:?}");
    b.recv(2, 0..64)?;
    bed.done(&a.sends, 1)?;
    bed.done(&b.recvs, 2)?;
    Ok(())
}

fn progress_gives_all_rnr_retries_back<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (Pair { a, b }, _) = with_rnr_timer(bed, 2, UNHURRIED)?;
    let rnrs = bed.strike((1, 0), PacketClass::Rnr, u64::MAX, Act::Pass)?;
    for i in 0..5 {
        a.send(i, 0..64)?;
        bed.until_struck(rnrs, 2 * i + 2)?;
        b.recv(i, 0..64)?;
        bed.done(&a.sends, i).map_err(|e| e.during(format!("message {i}")))?;
        bed.done(&b.recvs, i)?;
    }
    Ok(())
}

fn a_doubled_answer_of_not_ready_counts_once<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (Pair { a, b }, _) = with_rnr_timer(bed, 1, UNHURRIED)?;
    let doubled = bed.strike((1, 0), PacketClass::Rnr, 1, Act::Duplicate)?;
    a.send(1, 0..64)?;
    bed.until_struck(doubled, 1)?;
    b.recv(2, 0..64)?;
    bed.done(&a.sends, 1)?;
    bed.done(&b.recvs, 2)?;
    Ok(())
}

/// Packets behind the one that found no buffer are no sequence error.
fn what_follows_a_message_that_waits_is_dropped_in_silence<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (Pair { a, b }, _) = with_rnr(bed, 7)?;
    let rnrs = bed.strike((1, 0), PacketClass::Rnr, u64::MAX, Act::Pass)?;
    let naks = bed.strike((1, 0), PacketClass::Nak, u64::MAX, Act::Pass)?;
    for i in 0..10 {
        a.send(i, 0..64)?;
    }
    bed.until_struck(rnrs, 3)?;
    for i in 0..10 {
        b.recv(i, 0..64)?;
    }
    for i in 0..10 {
        bed.done(&a.sends, i)?;
    }
    check_eq!(bed.struck(naks), 0, "sequence errors behind a message that waited");
    Ok(())
}

/// A message that may be repeated `k` times, of whose failing each wait is at least the timer's.
fn fails_after<H: Harness>(bed: &mut TestBed<'_, H>, pair: &Pair<H::V>, k: u64, timer: RnrTimer) -> Outcome {
    bed.warm(pair)?;
    let begun = bed.now();
    pair.a.send(1, 0..64)?;
    bed.fails(&pair.a.sends, 1, WcError::RnrRetryExc)?;
    let took = bed.now() - begun;
    let (least, each) = (timer.span() * k, bed.timing().round_trip);
    check!(took >= least, "{k} repetitions {} apart took {took}", timer.span());
    // The specification sets no upper bound; a wait of twice the timer would still be a fault.
    let most = least * 2 + each * (k + 1);
    check!(took <= most, "{k} repetitions {} apart took {took}", timer.span());
    Ok(())
}

fn the_rnr_timer_is_respected<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    bed.world(2, 0)?;
    let shortest = bed.timing().round_trip;
    for code in (1..32).filter(|code| RnrTimer::new(*code).is_some_and(|t| t.span() >= shortest)) {
        let mut setup = Setup::new(bed);
        setup.rnr_retry = retries(2);
        setup.rnr_timer = RnrTimer::new(code).expect("a code below 32");
        let pair = bed.pair_with(&setup)?;
        fails_after(bed, &pair, 2, setup.rnr_timer)?;
    }
    Ok(())
}

fn an_updated_rnr_timer_is_told_from_then_on<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (pair, setup) = with_rnr(bed, 1)?;
    let longer = rnr_at_least(setup.rnr_timer.span() * 10);
    pair.b.qp.modify(&Modify::Update(Update { min_rnr_timer: Some(longer), ..Update::default() }))?;
    fails_after(bed, &pair, 1, longer)
}

fn rnr_retries_and_transport_retries_count_apart<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    bed.world(2, 0)?;
    let mut setup = Setup::new(bed);
    (setup.retry, setup.rnr_retry) = (retries(1), retries(1));
    setup.rnr_timer = rnr_at_least(bed.timing().round_trip * 4);
    let Pair { a, b } = bed.pair_with(&setup)?;
    // Lost once, then not ready once: one of each is allowed.
    bed.strike((0, 1), PacketClass::Request, 1, Act::Drop)?;
    let rnrs = bed.strike((1, 0), PacketClass::Rnr, u64::MAX, Act::Pass)?;
    a.send(1, 0..64)?;
    bed.until_struck(rnrs, 1)?;
    b.recv(2, 0..64)?;
    bed.done(&a.sends, 1)?;
    bed.done(&b.recvs, 2)?;
    Ok(())
}

fn a_message_that_waits_keeps_its_place<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    for i in 0..4u64 {
        a.mr.store(i as usize * 8, 100 + i)?;
    }
    a.send(0, 0..8)?;
    a.write(1, 8..16, b.word(4_096)?)?;
    a.send(2, 16..24)?;
    let span = bed.timing().round_trip * 20;
    bed.quiet(&a.sends, span)?;
    check_eq!(b.mr.load(4_096)?, 0, "a write behind a message that waits");
    b.recv(10, 0..8)?;
    b.recv(11, 8..16)?;
    bed.done(&b.recvs, 10)?;
    bed.done(&b.recvs, 11)?;
    check_eq!((b.mr.load(0)?, b.mr.load(8)?, b.mr.load(4_096)?), (100, 102, 101), "what arrived where");
    for i in 0..3 {
        bed.done(&a.sends, i)?;
    }
    Ok(())
}

fn receives_fed_one_by_one_carry_everything<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    for i in 0..30u64 {
        a.mr.store(i as usize * 8, i)?;
        a.send(i, i as u32 * 8..i as u32 * 8 + 8)?;
    }
    for i in 0..30 {
        b.recv(i, 0..8)?;
        bed.done(&b.recvs, i)?;
        check_eq!(b.mr.load(0)?, i, "message {i}");
    }
    for i in 0..30 {
        bed.done(&a.sends, i)?;
    }
    Ok(())
}
