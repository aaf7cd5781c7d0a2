//! Packets lost on the way, and how the transport finds out and repairs it (IBA 9.7.5.1, 9.7.5.2.3, 9.7.6.1).

use super::prelude::*;
use super::retries::with_retries;

cases! { "gaps":
    a_lost_packet_amid_a_message_is_sent_again, "9.7.5.2.3", with HarnessCaps::STRIKE;
    a_later_packet_reveals_a_lost_one_without_a_time_out, "9.7.5.2.3", with HarnessCaps::STRIKE;
    a_gap_is_reported_once, "9.7.5.2.3", with HarnessCaps::STRIKE;
    a_sequence_error_costs_a_retry, "9.9.2.1.2", with HarnessCaps::STRIKE;
    a_lost_sequence_nak_is_made_up_for, "9.7.5.2.3", with HarnessCaps::STRIKE;
    a_lost_acknowledgement_is_covered_by_the_next, "9.7.5.1.2", with HarnessCaps::STRIKE;
    an_answer_to_a_read_acknowledges_what_came_before_it, "9.7.5.1.2", with HarnessCaps::STRIKE;
    a_lost_read_answer_is_asked_for_again, "9.7.6.1.2", with HarnessCaps::STRIKE;
    a_lost_first_or_last_part_of_a_read_is_asked_for_again, "9.7.6.1.2", with HarnessCaps::STRIKE;
    a_lost_answer_costs_a_retry, "9.7.6.1.2; 9.9.2.1.2", with HarnessCaps::STRIKE;
    a_lost_answer_is_asked_for_once, "9.7.6.1.2", with HarnessCaps::STRIKE;
    nothing_is_sent_twice_where_nothing_is_lost, "9.7.6.1.3", with HarnessCaps::STRIKE;
}

fn a_lost_packet_amid_a_message_is_sent_again<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for lost in 0..10 {
        let mut setup = Setup::new(bed);
        setup.mtu = Mtu::B256;
        bed.world(2, 0)?;
        let Pair { a, b } = bed.pair_with(&setup)?;
        let data = pattern(2_500, lost);
        a.fill(0, &data)?;
        b.recv(1, 0..2_500)?;
        let (from, to, class, act) = (0, 1, PacketClass::Request, Act::Drop);
        bed.inject(Fault::Strike { from, to, class, skip: lost, count: 1, act })?;
        a.send(2, 0..2_500)?;
        check_eq!(bed.done(&b.recvs, 1)?.len, 2_500, "length with packet {lost} lost");
        bed.done(&a.sends, 2)?;
        check!(b.bytes(0..2_500)? == data, "the message changed where packet {lost} was lost");
    }
    Ok(())
}

fn a_later_packet_reveals_a_lost_one_without_a_time_out<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    setup.ack = AckTimeout::NEVER;
    let Pair { a, b } = bed.pair_with(&setup)?;
    for round in 0..3 {
        bed.strike((0, 1), PacketClass::Request, 1, Act::Drop)?;
        for i in 0..2 {
            b.recv(i, 0..64)?;
            a.send(i, 0..64)?;
        }
        for i in 0..2 {
            bed.done(&a.sends, i).map_err(|e| e.during(format!("gap {round}")))?;
            bed.done(&b.recvs, i)?;
        }
    }
    Ok(())
}

fn a_gap_is_reported_once<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    for i in 0..20 {
        b.recv(i, 0..64)?;
    }
    bed.strike((0, 1), PacketClass::Request, 1, Act::Drop)?;
    let naks = bed.strike((1, 0), PacketClass::Nak, u64::MAX, Act::Pass)?;
    for i in 0..20 {
        a.send(i, 0..64)?;
    }
    for i in 0..20 {
        bed.done(&a.sends, i)?;
    }
    check_eq!(bed.struck(naks), 1, "negative acknowledgements for one lost packet");
    Ok(())
}

fn a_sequence_error_costs_a_retry<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    // Without a time-out, so that nothing else can end it.
    (setup.retry, setup.ack) = (Retries::NONE, AckTimeout::NEVER);
    let Pair { a, b } = bed.pair_with(&setup)?;
    for i in 0..3 {
        b.recv(i, 0..64)?;
    }
    bed.strike((0, 1), PacketClass::Request, 1, Act::Drop)?;
    for i in 0..3 {
        a.send(i, 0..64)?;
    }
    bed.fails(&a.sends, 0, WcError::RetryExc)?;
    bed.fails(&a.sends, 1, WcError::Flush)?;
    bed.fails(&a.sends, 2, WcError::Flush)?;
    check!(b.poll_recvs()?.is_empty(), "a message arrived out of turn");
    Ok(())
}

fn a_lost_sequence_nak_is_made_up_for<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    for i in 0..3 {
        b.recv(i, 0..64)?;
    }
    bed.strike((0, 1), PacketClass::Request, 1, Act::Drop)?;
    let naks = bed.strike((1, 0), PacketClass::Nak, 1, Act::Drop)?;
    for i in 0..3 {
        a.send(i, 0..64)?;
    }
    for i in 0..3 {
        bed.done(&a.sends, i)?;
        bed.done(&b.recvs, i)?;
    }
    check_eq!(bed.struck(naks), 1, "sequence errors lost");
    Ok(())
}

/// An acknowledgement answers for everything before it: with one more behind it, no time-out is needed.
fn a_lost_acknowledgement_is_covered_by_the_next<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    setup.ack = AckTimeout::NEVER;
    let Pair { a, b } = bed.pair_with(&setup)?;
    b.recv(1, 0..64)?;
    b.recv(2, 0..64)?;
    bed.strike((1, 0), PacketClass::Ack, 1, Act::Drop)?;
    a.send(1, 0..64)?;
    bed.done(&b.recvs, 1)?;
    bed.settle();
    check!(a.poll_sends()?.is_empty(), "a message completed whose acknowledgement was lost");
    a.send(2, 0..64)?;
    bed.done(&a.sends, 1)?;
    bed.done(&a.sends, 2)?;
    Ok(())
}

fn an_answer_to_a_read_acknowledges_what_came_before_it<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    setup.ack = AckTimeout::NEVER;
    let Pair { a, b } = bed.pair_with(&setup)?;
    bed.strike((1, 0), PacketClass::Ack, 1, Act::Drop)?;
    a.write(1, 0..64, b.remote(0..64)?)?;
    bed.settle();
    check!(a.poll_sends()?.is_empty(), "a write completed whose acknowledgement was lost");
    a.read(2, 0..64, b.remote(0..64)?)?;
    bed.done(&a.sends, 1)?;
    bed.done(&a.sends, 2)?;
    Ok(())
}

fn read_with_loss<H: Harness>(bed: &mut TestBed<'_, H>, skip: u64, count: u64) -> Outcome {
    bed.world(2, 0)?;
    let mut setup = Setup::new(bed);
    setup.mtu = Mtu::B256;
    let Pair { a, b } = bed.pair_with(&setup)?;
    let data = pattern(2_500, skip);
    b.fill(0, &data)?;
    let (from, to, class, act) = (1, 0, PacketClass::ReadResponse, Act::Drop);
    let lost = bed.inject(Fault::Strike { from, to, class, skip, count, act })?;
    a.read(1, 10_000..12_500, b.remote(0..2_500)?)?;
    check_eq!(bed.done(&a.sends, 1)?.len, 2_500, "length with answers {skip}..{} lost", skip + count);
    check!(a.bytes(10_000..12_500)? == data, "a read changed where answers from {skip} on were lost");
    check_eq!(bed.struck(lost), count, "answers lost");
    Ok(())
}

fn a_lost_read_answer_is_asked_for_again<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for (skip, count) in [(4, 1), (1, 3), (2, 7), (3, 12)] {
        read_with_loss(bed, skip, count)?;
    }
    Ok(())
}

fn a_lost_first_or_last_part_of_a_read_is_asked_for_again<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for (skip, count) in [(0, 1), (9, 1), (0, 10), (8, 2)] {
        read_with_loss(bed, skip, count)?;
    }
    Ok(())
}

/// A later acknowledgement that leaves a read unanswered is a sequence error by implication.
fn a_lost_answer_costs_a_retry<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for (k, losses) in [(0, 1), (1, 1), (1, 2), (2, 2)] {
        let (Pair { a, b }, _) = with_retries(bed, k)?;
        bed.strike((1, 0), PacketClass::ReadResponse, losses, Act::Drop)?;
        a.read(1, 0..8, b.word(0)?)?;
        for i in 2..5 {
            a.write(i, 0..8, b.word(8)?)?;
        }
        if losses <= u64::from(k) {
            bed.done(&a.sends, 1).map_err(|e| e.during(format!("{k} retries, {losses} losses")))?;
        } else {
            bed.fails(&a.sends, 1, WcError::RetryExc)?;
            bed.fails(&a.sends, 2, WcError::Flush)?;
        }
    }
    Ok(())
}

/// Every later answer shows the same gap: it is one gap, and is repaired once.
fn a_lost_answer_is_asked_for_once<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    const WRITES: u64 = 20;
    let Pair { a, b } = bed.pair()?;
    bed.strike((1, 0), PacketClass::ReadResponse, 1, Act::Drop)?;
    let sent = bed.strike((0, 1), PacketClass::Request, u64::MAX, Act::Pass)?;
    a.read(0, 0..8, b.word(0)?)?;
    for i in 1..=WRITES {
        a.write(i, 0..8, b.word(8)?)?;
    }
    for i in 0..=WRITES {
        bed.done(&a.sends, i)?;
    }
    let packets = bed.struck(sent);
    check!(packets <= 2 * (WRITES + 1), "{packets} packets for {} requests and one loss", WRITES + 1);
    Ok(())
}

/// A transfer that takes many time-outs is acknowledged as it goes, and each acknowledgement starts the time-out
/// again.
fn nothing_is_sent_twice_where_nothing_is_lost<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    const LEN: u32 = 1 << 20;
    let mut setup = Setup::new(bed);
    setup.memory = LEN as usize;
    setup.mtu = Mtu::B1024;
    setup.ack = AckTimeout::at_least(bed.timing().round_trip * 2);
    let Pair { a, b } = bed.pair_with(&setup)?;
    let sent = bed.strike((0, 1), PacketClass::Request, u64::MAX, Act::Pass)?;
    let answered = bed.strike((1, 0), PacketClass::ReadResponse, u64::MAX, Act::Pass)?;
    for round in 0..4 {
        a.write(round, 0..LEN, b.remote(0..LEN as usize)?)?;
    }
    a.read(4, 0..LEN, b.remote(0..LEN as usize)?)?;
    // Its acknowledgement has to wait for the read's answers.
    a.write(5, 0..LEN, b.remote(0..LEN as usize)?)?;
    for round in 0..6 {
        bed.done(&a.sends, round)?;
    }
    let packets = u64::from(LEN / 1_024);
    check_eq!((bed.struck(sent), bed.struck(answered)), (5 * packets + 1, packets), "packets sent");
    Ok(())
}
