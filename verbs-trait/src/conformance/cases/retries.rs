//! Time-outs and retries of the reliable transport (IBA 9.7.6, 9.9.2.1).

use super::prelude::*;

cases! { "retries":
    as_many_losses_as_retries_are_survived, "9.9.2.1.2", with HarnessCaps::STRIKE;
    one_loss_more_than_retries_is_fatal, "9.9.2.1.2", with HarnessCaps::STRIKE;
    lost_acknowledgements_count_like_lost_requests, "9.9.2.1.2", with HarnessCaps::STRIKE;
    the_request_is_sent_once_and_once_more_a_retry, "9.9.2.1.2", with HarnessCaps::STRIKE;
    progress_gives_all_retries_back, "9.9.2.1.2", with HarnessCaps::STRIKE;
    a_time_out_comes_after_one_to_four_times_its_span, "9.7.6.1.3",
        with HarnessCaps::STRIKE | HarnessCaps::EXACT_CLOCK;
    exhaustion_takes_one_to_four_spans_for_each_attempt, "9.7.6.1.3",
        with HarnessCaps::STRIKE | HarnessCaps::EXACT_CLOCK;
    without_a_time_out_a_lost_request_waits_for_ever, "9.7.6.1.3", with HarnessCaps::STRIKE;
    a_short_cut_is_survived, "9.7.6.1.3", with HarnessCaps::CUT;
    a_long_cut_exhausts_the_retries_of_what_is_posted, "9.9.2.1.2", with HarnessCaps::CUT;
    a_cut_does_not_touch_an_idle_connection, "9.7.6.1.3", with HarnessCaps::CUT;
}

/// A pair with so many retries and a time-out that is short enough to be waited for often.
pub(super) fn with_retries<H: Harness>(bed: &mut TestBed<'_, H>, retry: u8) -> Outcome<(Pair<H::V>, Setup)> {
    bed.world(2, 0)?;
    let mut setup = Setup::new(bed);
    setup.retry = retries(retry);
    Ok((bed.pair_with(&setup)?, setup))
}

fn as_many_losses_as_retries_are_survived<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for k in 0..=7u8 {
        let (Pair { a, b }, _) = with_retries(bed, k)?;
        b.recv(1, 0..64)?;
        let lost = bed.strike((0, 1), PacketClass::Request, u64::from(k), Act::Drop)?;
        a.send(2, 0..64)?;
        bed.done(&a.sends, 2).map_err(|e| e.during(format!("{k} retries, {k} losses")))?;
        bed.done(&b.recvs, 1)?;
        check_eq!(bed.struck(lost), u64::from(k), "packets lost");
    }
    Ok(())
}

fn one_loss_more_than_retries_is_fatal<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for k in 0..=7u8 {
        let (Pair { a, b }, _) = with_retries(bed, k)?;
        b.recv(1, 0..64)?;
        let lost = bed.strike((0, 1), PacketClass::Request, u64::from(k) + 1, Act::Drop)?;
        a.send(2, 0..64)?;
        bed.fails(&a.sends, 2, WcError::RetryExc).map_err(|e| e.during(format!("{k} retries")))?;
        check_eq!(bed.struck(lost), u64::from(k) + 1, "packets lost");
        a.send(3, 0..64)?;
        bed.fails(&a.sends, 3, WcError::Flush)?;
        check_eq!(a.qp.state(), QpState::Err, "the sender's state");
        check_eq!(b.qp.state(), QpState::Rts, "the receiver's state");
        check!(b.poll_recvs()?.is_empty(), "{k} retries: a lost message arrived");
    }
    Ok(())
}

fn lost_acknowledgements_count_like_lost_requests<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for (k, losses) in [(0, 1), (1, 1), (1, 2), (3, 3), (3, 4)] {
        let (Pair { a, b }, _) = with_retries(bed, k)?;
        b.recv(1, 0..64)?;
        bed.strike((1, 0), PacketClass::Ack, losses, Act::Drop)?;
        a.send(2, 0..64)?;
        if losses <= u64::from(k) {
            bed.done(&a.sends, 2).map_err(|e| e.during(format!("{k} retries, {losses} losses")))?;
        } else {
            bed.fails(&a.sends, 2, WcError::RetryExc)?;
        }
        // It was executed either way, and once.
        bed.done(&b.recvs, 1)?;
        bed.settle();
        check!(b.poll_recvs()?.is_empty(), "a message was received twice");
    }
    Ok(())
}

fn the_request_is_sent_once_and_once_more_a_retry<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for k in [0, 1, 2, 7] {
        let (Pair { a, b }, _) = with_retries(bed, k)?;
        b.recv(1, 0..64)?;
        let lost = bed.strike((0, 1), PacketClass::Request, u64::MAX, Act::Drop)?;
        a.send(2, 0..64)?;
        bed.fails(&a.sends, 2, WcError::RetryExc)?;
        bed.settle();
        check_eq!(bed.struck(lost), u64::from(k) + 1, "packets sent with {k} retries");
    }
    Ok(())
}

fn progress_gives_all_retries_back<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (Pair { a, b }, _) = with_retries(bed, 2)?;
    for i in 0..5 {
        b.recv(i, 0..64)?;
        bed.strike((0, 1), PacketClass::Request, 2, Act::Drop)?;
        a.send(i, 0..64)?;
        bed.done(&a.sends, i).map_err(|e| e.during(format!("message {i}")))?;
    }
    Ok(())
}

fn a_time_out_comes_after_one_to_four_times_its_span<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let shortest = AckTimeout::at_least(bed.timing().round_trip * 2).exponent();
    for seed in 0..24 {
        let exponent = shortest + seed as u8 % 3 * 3;
        bed.world(2, seed)?;
        let mut setup = Setup::new(bed);
        setup.ack = AckTimeout::new(exponent).expect("a small exponent");
        setup.retry = Retries::NONE;
        let pair = bed.pair_with(&setup)?;
        bed.warm(&pair)?;
        let cut = bed.strike((0, 1), PacketClass::Request, u64::MAX, Act::Drop)?;
        let begun = bed.now();
        pair.a.send(1, 0..64)?;
        bed.fails(&pair.a.sends, 1, WcError::RetryExc)?;
        within_spans(setup.ack, 1, bed.now() - begun, bed.timing().round_trip)?;
        bed.heal(cut);
    }
    Ok(())
}

/// So many attempts, each given up after one to four spans. The slack is for processors and for looking.
fn within_spans(ack: AckTimeout, attempts: u64, took: Nanos, round_trip: Nanos) -> Outcome {
    let span = ack.span().expect("a time-out that is not never");
    let (least, most) = (span * attempts, span * (4 * attempts));
    let slack = round_trip + most / 50;
    check!(
        took >= least && took <= most + slack,
        "{attempts} attempts with a time-out of {span} took {took}, and must take {least} to {most}"
    );
    Ok(())
}

fn exhaustion_takes_one_to_four_spans_for_each_attempt<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for k in [1, 3, 7] {
        let (pair, setup) = with_retries(bed, k)?;
        bed.warm(&pair)?;
        bed.strike((0, 1), PacketClass::Request, u64::MAX, Act::Drop)?;
        let begun = bed.now();
        pair.a.send(1, 0..64)?;
        bed.fails(&pair.a.sends, 1, WcError::RetryExc)?;
        within_spans(setup.ack, u64::from(k) + 1, bed.now() - begun, bed.timing().round_trip)?;
    }
    Ok(())
}

fn without_a_time_out_a_lost_request_waits_for_ever<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    setup.ack = AckTimeout::NEVER;
    let Pair { a, b } = bed.pair_with(&setup)?;
    b.recv(1, 0..64)?;
    bed.strike((0, 1), PacketClass::Request, 1, Act::Drop)?;
    a.send(2, 0..64)?;
    let long = bed.timing().timeout / 2;
    bed.quiet(&a.sends, long)?;
    check_eq!(a.qp.state(), QpState::Rts, "the sender's state");
    check!(b.poll_recvs()?.is_empty(), "a lost message arrived");
    Ok(())
}

fn a_short_cut_is_survived<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let Pair { a, b } = bed.pair_with(&setup)?;
    let cut = bed.inject(Fault::Cut { a: 0, b: 1 })?;
    b.recv(1, 0..64)?;
    a.send(2, 0..64)?;
    a.read(3, 0..64, b.remote(64..128)?)?;
    bed.advance(setup.ack.span().expect("a time-out") * 3);
    bed.heal(cut);
    bed.done(&a.sends, 2)?;
    bed.done(&a.sends, 3)?;
    bed.done(&b.recvs, 1)?;
    Ok(())
}

fn a_long_cut_exhausts_the_retries_of_what_is_posted<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    bed.inject(Fault::Cut { a: 0, b: 1 })?;
    a.write(1, 0..64, b.remote(0..64)?)?;
    a.write(2, 0..64, b.remote(0..64)?)?;
    bed.fails(&a.sends, 1, WcError::RetryExc)?;
    bed.fails(&a.sends, 2, WcError::Flush)?;
    check_eq!(b.qp.state(), QpState::Rts, "the far side, which has not been told");
    Ok(())
}

fn a_cut_does_not_touch_an_idle_connection<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let Pair { a, b } = bed.pair_with(&setup)?;
    let cut = bed.inject(Fault::Cut { a: 0, b: 1 })?;
    b.recv(1, 0..64)?;
    bed.advance(setup.ack.span().expect("a time-out") * 100);
    bed.heal(cut);
    check_eq!((a.qp.state(), b.qp.state()), (QpState::Rts, QpState::Rts), "both states after the cut");
    a.send(2, 0..64)?;
    bed.done(&a.sends, 2)?;
    bed.done(&b.recvs, 1)?;
    Ok(())
}
