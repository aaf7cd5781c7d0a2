//! What was executed is not executed again, reads excepted (IBA 9.7.4.1, 9.7.5.1), and what may yet be (9.9.2).

use super::prelude::*;

cases! { "duplicates":
    a_duplicate_atomic_is_answered_from_the_record, "9.7.5.1.4",
        needs Caps::ATOMICS, with HarnessCaps::STRIKE;
    every_atomic_in_flight_has_its_record, "9.7.5.1.4", needs Caps::ATOMICS, with HarnessCaps::STRIKE;
    a_duplicate_read_is_executed_again, "9.7.5.1.4", with HarnessCaps::STRIKE;
    a_duplicate_write_is_not_executed_again, "9.7.5.1.4", with HarnessCaps::STRIKE;
    a_duplicate_message_consumes_no_second_receive, "9.7.5.1.4", with HarnessCaps::STRIKE;
    every_packet_may_arrive_twice, "9.7.4.1", with HarnessCaps::STRIKE;
    every_packet_may_arrive_much_later, "9.7.4.1", with HarnessCaps::STRIKE;
    a_request_given_up_may_be_executed_yet, "9.9.2.1.2", needs Caps::ATOMICS,
        with HarnessCaps::STRIKE | HarnessCaps::EXACT_CLOCK;
    the_error_state_fences_requests_on_their_way, "10.3.1.7", needs Caps::ATOMICS,
        with HarnessCaps::STRIKE | HarnessCaps::EXACT_CLOCK;
    an_acknowledgement_of_an_old_connection_is_ignored, "9.7.6.1.1; 9.7.1", with HarnessCaps::STRIKE;
    a_refusal_of_an_old_connection_is_ignored, "9.7.6.1.1; 9.7.1", with HarnessCaps::STRIKE;
    a_packet_of_an_old_connection_does_not_enter_the_new, "9.6.1; 9.7.1", needs Caps::ATOMICS,
        with HarnessCaps::STRIKE | HarnessCaps::EXACT_CLOCK;
}

fn a_duplicate_atomic_is_answered_from_the_record<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    b.mr.store(0, 10)?;
    for losses in 1..4u64 {
        let lost = bed.strike((1, 0), PacketClass::AtomicResponse, losses, Act::Drop)?;
        a.fetch_add(1, 0, b.word(0)?, 1)?;
        // Executed, and not yet told: another value there now must not change the answer.
        bed.until_struck(lost, 1)?;
        check_eq!(b.mr.load(0)?, 9 + 2 * losses, "the word after the first execution");
        b.mr.store(0, 1_000)?;
        bed.done(&a.sends, 1)?;
        check_eq!(a.mr.load(0)?, 8 + 2 * losses, "the old value, answered after {losses} losses");
        check_eq!(b.mr.load(0)?, 1_000, "the word after the replay");
        check_eq!(bed.struck(lost), losses, "answers lost");
        b.mr.store(0, 10 + 2 * losses)?;
    }
    // A compare-and-swap that lost its answer finds that it has won.
    b.mr.store(0, 5)?;
    bed.strike((1, 0), PacketClass::AtomicResponse, 1, Act::Drop)?;
    a.compare_swap(2, 0, b.word(0)?, 5, 6)?;
    bed.done(&a.sends, 2)?;
    check_eq!((a.mr.load(0)?, b.mr.load(0)?), (5, 6), "the old value and the word");
    Ok(())
}

fn every_atomic_in_flight_has_its_record<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    bed.at_least(2)?;
    let device = bed.ctx(0).device_attr();
    let mut setup = Setup::new(bed);
    setup.depth = device.max_rd_atomic.min(device.max_dest_rd_atomic).min(16);
    setup.serves = setup.depth;
    let Pair { a, b } = bed.pair_with(&setup)?;
    let n = u32::from(setup.depth);
    for round in 0..3u32 {
        let count = u64::from(n);
        bed.strike((1, 0), PacketClass::AtomicResponse, count, Act::Drop)?;
        for i in 0..n {
            a.fetch_add(u64::from(i), i * 8, b.word(1_024)?, 1)?;
        }
        for i in 0..n {
            bed.done(&a.sends, u64::from(i))?;
            check_eq!(a.mr.load(i as usize * 8)?, u64::from(round * n + i), "old value {i}");
        }
        check_eq!(b.mr.load(1_024)?, u64::from((round + 1) * n), "the word");
    }
    Ok(())
}

fn a_duplicate_read_is_executed_again<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    b.mr.store(0, 1)?;
    let lost = bed.strike((1, 0), PacketClass::ReadResponse, 1, Act::Drop)?;
    a.read(1, 0..8, b.word(0)?)?;
    bed.until_struck(lost, 1)?;
    b.mr.store(0, 2)?;
    bed.done(&a.sends, 1)?;
    check_eq!(a.mr.load(0)?, 2, "the value answered by the second execution");
    Ok(())
}

fn a_duplicate_write_is_not_executed_again<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    a.mr.store(0, 1)?;
    let lost = bed.strike((1, 0), PacketClass::Ack, 1, Act::Drop)?;
    a.write(1, 0..8, b.word(0)?)?;
    bed.until_struck(lost, 1)?;
    check_eq!(b.mr.load(0)?, 1, "the word written");
    b.mr.store(0, 2)?;
    bed.done(&a.sends, 1)?;
    check_eq!(b.mr.load(0)?, 2, "the word after the duplicate");
    Ok(())
}

fn a_duplicate_message_consumes_no_second_receive<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    for i in 0..3 {
        b.recv(i, 0..64)?;
    }
    bed.strike((1, 0), PacketClass::Ack, 2, Act::Drop)?;
    a.send(1, 0..64)?;
    bed.done(&a.sends, 1)?;
    bed.done(&b.recvs, 0)?;
    a.post(2, SendOp::Write { to: b.word(0)?, imm: Some(7) }, 0..8)?;
    bed.done(&a.sends, 2)?;
    check_eq!(bed.done(&b.recvs, 1)?.imm, Some(7), "the next message's immediate data");
    bed.settle();
    check!(b.poll_recvs()?.is_empty(), "a duplicate consumed a receive");
    Ok(())
}

/// A little of everything, with a fault on every packet both ways: each takes effect once and in order.
fn everything_once<H: Harness>(bed: &mut TestBed<'_, H>, act: Act) -> Outcome {
    let mut setup = Setup::new(bed);
    setup.mtu = Mtu::B256;
    let Pair { a, b } = bed.pair_with(&setup)?;
    for way in [(0, 1), (1, 0)] {
        bed.strike(way, PacketClass::Any, u64::MAX, act)?;
    }
    let atomics = bed.harness.capabilities().contains(Caps::ATOMICS);
    let data = pattern(1_000, 1);
    a.fill(0, &data)?;
    for i in 0..20u64 {
        b.recv(i, 20_000 + i as u32 * 1_000..21_000 + i as u32 * 1_000)?;
        a.send(4 * i, 0..1_000)?;
        a.write(4 * i + 1, 0..1_000, b.remote(1_000..2_000)?)?;
        a.read(4 * i + 2, 8_000..9_000, b.remote(1_000..2_000)?)?;
        if atomics {
            a.fetch_add(4 * i + 3, 16_000 + i as u32 * 8, b.word(0)?, 1)?;
        }
    }
    for i in 0..20 {
        for op in 0..if atomics { 4 } else { 3 } {
            bed.done(&a.sends, 4 * i + op)?;
        }
        bed.done(&b.recvs, i)?;
        if atomics {
            check_eq!(a.mr.load(16_000 + i as usize * 8)?, i, "old value {i}");
        }
        let at = 20_000 + i as usize * 1_000;
        check!(b.bytes(at..at + 1_000)? == data, "message {i} changed");
    }
    check!(a.bytes(8_000..9_000)? == data, "what was written and read back changed");
    bed.settle();
    check!(a.poll_sends()?.is_empty() && b.poll_recvs()?.is_empty(), "something completed twice");
    Ok(())
}

fn every_packet_may_arrive_twice<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    everything_once(bed, Act::Duplicate)
}

fn every_packet_may_arrive_much_later<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    // There and back takes three time-outs of the eight that it may: every request is on its way repeatedly.
    everything_once(bed, Act::Delay(setup.ack.span().expect("a time-out") * 3 / 2))
}

/// Posts an addition whose packets all come `late`, and waits until its sender has given it up.
fn ghost<H: Harness>(bed: &mut TestBed<'_, H>, late: Nanos) -> Outcome<(Pair<H::V>, Setup)> {
    let mut setup = Setup::new(bed);
    setup.retry = retries(1);
    let pair = bed.pair_with(&setup)?;
    let delayed = bed.strike((0, 1), PacketClass::AtomicRequest, u64::MAX, Act::Delay(late))?;
    pair.a.fetch_add(1, 0, pair.b.word(0)?, 1)?;
    bed.fails(&pair.a.sends, 1, WcError::RetryExc)?;
    check_eq!(pair.b.mr.load(0)?, 0, "the word before the late request arrives");
    bed.heal(delayed);
    Ok((pair, setup))
}

/// Longer than any chain of retries of [`ghost`].
fn late<H: Harness>(bed: &TestBed<'_, H>) -> Nanos {
    Setup::new(bed).ack.span().expect("a time-out") * 40
}

fn a_request_given_up_may_be_executed_yet<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let late = late(bed);
    let (pair, _) = ghost(bed, late)?;
    bed.advance(late);
    bed.settle();
    check_eq!(pair.b.mr.load(0)?, 1, "the word after the late request arrived");
    Ok(())
}

fn the_error_state_fences_requests_on_their_way<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let late = late(bed);
    let (pair, _) = ghost(bed, late)?;
    pair.b.qp.modify(&Modify::Err)?;
    bed.advance(late);
    bed.settle();
    check_eq!(pair.b.mr.load(0)?, 0, "the word: the request came after the fence");
    Ok(())
}

fn a_packet_of_an_old_connection_does_not_enter_the_new<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let late = late(bed);
    let (pair, mut setup) = ghost(bed, late)?;
    setup.psn = [Psn::new(0x50_0000), Psn::new(0x60_0000)];
    pair.reconnect(&setup)?;
    pair.a.fetch_add(2, 0, pair.b.word(0)?, 10)?;
    bed.done(&pair.a.sends, 2)?;
    bed.advance(late);
    bed.settle();
    check_eq!(pair.b.mr.load(0)?, 10, "the word: only the new connection's addition");
    pair.a.fetch_add(3, 0, pair.b.word(0)?, 10)?;
    bed.done(&pair.a.sends, 3)?;
    Ok(())
}

/// Holds back an answer of one connection until the same queue pairs are connected anew, with packet numbers to
/// which it does not belong and a message that waits for its receive: the answer must not touch it.
fn ghost_answer<H: Harness>(bed: &mut TestBed<'_, H>, class: PacketClass, bad_key: bool) -> Outcome {
    // Before what the new connection sends, and behind it.
    for old in [0x90_0000, 0x90_0064] {
        bed.world(2, 0)?;
        let mut setup = Setup::new(bed);
        setup.psn[0] = Psn::new(old);
        let pair = bed.pair_with(&setup)?;
        let Pair { a, b } = &pair;
        let late = bed.timing().round_trip * 50;
        let held = bed.strike((1, 0), class, 1, Act::Delay(late))?;
        let mut to = b.word(0)?;
        to.rkey ^= if bad_key { u32::MAX } else { 0 };
        a.write(1, 0..8, to)?;
        bed.until_struck(held, 1)?;
        setup.psn[0] = Psn::new(0x90_0032);
        pair.reconnect(&setup)?;
        a.send(2, 0..8)?;
        bed.quiet(&a.sends, late * 2)?;
        check_eq!(a.qp.state(), QpState::Rts, "the sender's state after the old answer");
        b.recv(3, 0..8)?;
        bed.done(&b.recvs, 3)?;
        bed.done(&a.sends, 2)?;
    }
    Ok(())
}

fn an_acknowledgement_of_an_old_connection_is_ignored<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    ghost_answer(bed, PacketClass::Ack, false)
}

fn a_refusal_of_an_old_connection_is_ignored<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    ghost_answer(bed, PacketClass::Nak, true)
}
