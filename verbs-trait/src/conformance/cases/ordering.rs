//! What comes before what on one queue pair (IBA 9.5, 10.8.3.3).

use super::prelude::*;

cases! { "ordering":
    requests_complete_in_post_order, "10.8.3.3";
    messages_arrive_in_the_order_sent, "9.5";
    a_read_sees_the_write_before_it, "9.5; 10.8.3.3";
    a_message_follows_the_write_before_it, "9.5";
    an_atomic_sees_the_write_before_it, "9.5", needs Caps::ATOMICS;
    a_fenced_send_waits_for_the_read_before_it, "10.8.3.3";
    a_fenced_send_waits_for_the_atomic_before_it, "10.8.3.3", needs Caps::ATOMICS;
    a_fenced_write_does_not_disturb_the_read_before_it, "10.8.3.3", with HarnessCaps::STRIKE;
    a_fence_with_nothing_before_it_is_nothing, "10.8.3.3";
    a_stuck_queue_pair_holds_up_no_other, "9.5";
}

fn requests_complete_in_post_order<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    let atomics = bed.harness.capabilities().contains(Caps::ATOMICS);
    for i in 0..60u64 {
        match i % 5 {
            0 => a.read(i, 0..5_000, b.remote(0..5_000)?)?,
            1 => a.write(i, 0..8, b.word(0)?)?,
            2 => {
                b.recv(i, 8_000..8_100)?;
                a.send(i, 0..100)?;
            }
            3 if atomics => a.fetch_add(i, 0, b.word(0)?, 1)?,
            _ => a.write(i, 0..3_000, b.remote(0..3_000)?)?,
        }
    }
    for i in 0..60 {
        bed.done(&a.sends, i)?;
    }
    Ok(())
}

fn messages_arrive_in_the_order_sent<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    for i in 0..100u32 {
        b.recv(1_000 + u64::from(i), i * 300..(i + 1) * 300)?;
    }
    for i in 0..100u32 {
        // Long and short in turn: the short must not overtake.
        let len = if i % 3 == 0 { 300 } else { 8 };
        a.mr.store(8_000 + 304 * i as usize, u64::from(i))?;
        a.send(u64::from(i), 8_000 + 304 * i..8_000 + 304 * i + len)?;
    }
    for i in 0..100 {
        bed.done(&b.recvs, 1_000 + i)?;
        check_eq!(b.bytes(i as usize * 300..i as usize * 300 + 8)?, i.to_ne_bytes().to_vec(), "message {i}");
    }
    Ok(())
}

fn a_read_sees_the_write_before_it<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    const LEN: usize = 3_000;
    for round in 0..20u64 {
        let data = pattern(LEN, round);
        a.fill(0, &data)?;
        a.write(2 * round, 0..LEN as u32, b.remote(64..64 + LEN)?)?;
        a.read(2 * round + 1, 10_000..10_000 + LEN as u32, b.remote(64..64 + LEN)?)?;
        bed.done(&a.sends, 2 * round)?;
        bed.done(&a.sends, 2 * round + 1)?;
        check!(a.bytes(10_000..10_000 + LEN)? == data, "round {round}: the read saw other data");
    }
    Ok(())
}

fn a_message_follows_the_write_before_it<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    for round in 0..20u64 {
        let data = pattern(5_000, round);
        a.fill(0, &data)?;
        b.recv(round, 60_000..60_001)?;
        a.post_with(
            round,
            SendOp::Write { to: b.remote(0..5_000)?, imm: None },
            0..5_000,
            SendFlags::empty(),
        )?;
        a.send(round, 0..1)?;
        bed.done(&b.recvs, round)?;
        check!(b.bytes(0..5_000)? == data, "round {round}: the message came before the data");
        bed.done(&a.sends, round)?;
    }
    Ok(())
}

fn an_atomic_sees_the_write_before_it<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    for round in 0..20u64 {
        a.mr.store(0, round * 1_000)?;
        a.write(1, 0..8, b.word(16)?)?;
        a.fetch_add(2, 8, b.word(16)?, 1)?;
        a.read(3, 16..24, b.word(16)?)?;
        for wr_id in 1..4 {
            bed.done(&a.sends, wr_id)?;
        }
        check_eq!(a.mr.load(8)?, round * 1_000, "the old value");
        check_eq!(a.mr.load(16)?, round * 1_000 + 1, "the value read after the atomic");
    }
    Ok(())
}

/// Posts `first`, whose answer arrives at 0..8 of `a`, and behind it a fenced send of those bytes.
fn forward<H: Harness>(bed: &mut TestBed<'_, H>, pair: &Pair<H::V>, first: SendOp<'_, H::V>) -> Outcome<u64> {
    let Pair { a, b } = pair;
    b.recv(1, 128..136)?;
    a.post(1, first, 0..8)?;
    a.post_with(2, SendOp::Send { imm: None }, 0..8, SendFlags::SIGNALED | SendFlags::FENCE)?;
    bed.done(&a.sends, 1)?;
    bed.done(&a.sends, 2)?;
    bed.done(&b.recvs, 1)?;
    Ok(b.mr.load(128)?)
}

fn a_fenced_send_waits_for_the_read_before_it<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    for round in 1..10 {
        pair.b.mr.store(0, round)?;
        let from = pair.b.word(0)?;
        check_eq!(forward(bed, &pair, SendOp::Read { from })?, round, "what was read and sent on");
    }
    Ok(())
}

fn a_fenced_send_waits_for_the_atomic_before_it<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    pair.b.mr.store(0, 100)?;
    for round in 0..10 {
        let at = pair.b.word(0)?;
        check_eq!(forward(bed, &pair, SendOp::FetchAdd { at, add: 1 })?, 100 + round, "the forwarded value");
    }
    Ok(())
}

/// A read whose answer was lost is executed again, after the write behind it unless that is fenced.
fn a_fenced_write_does_not_disturb_the_read_before_it<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    b.mr.store(0, 1)?;
    a.mr.store(0, 2)?;
    bed.strike((1, 0), PacketClass::ReadResponse, 1, Act::Drop)?;
    a.read(1, 8..16, b.word(0)?)?;
    let op = SendOp::Write { to: b.word(0)?, imm: None };
    a.post_with(2, op, 0..8, SendFlags::SIGNALED | SendFlags::FENCE)?;
    bed.done(&a.sends, 1)?;
    bed.done(&a.sends, 2)?;
    check_eq!(a.mr.load(8)?, 1, "the value read");
    check_eq!(b.mr.load(0)?, 2, "the value written");
    Ok(())
}

fn a_fence_with_nothing_before_it_is_nothing<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    for i in 0..8 {
        let op = SendOp::Write { to: b.word(0)?, imm: None };
        a.post_with(i, op, 0..8, SendFlags::SIGNALED | SendFlags::FENCE)?;
    }
    for i in 0..8 {
        bed.done(&a.sends, i)?;
    }
    Ok(())
}

fn a_stuck_queue_pair_holds_up_no_other<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    setup.rnr_timer = rnr_at_least(bed.timing().round_trip * 1_000);
    let (stuck, free) = (bed.pair_with(&setup)?, bed.pair_with(&setup)?);
    stuck.a.send(1, 0..8)?;
    for i in 0..50 {
        free.b.recv(i, 0..8)?;
        free.a.send(i, 0..8)?;
        bed.done(&free.b.recvs, i)?;
        bed.done(&free.a.sends, i)?;
    }
    check!(stuck.a.poll_sends()?.is_empty(), "a message without a receive buffer completed");
    stuck.b.recv(2, 0..8)?;
    bed.done(&stuck.b.recvs, 2)?;
    bed.done(&stuck.a.sends, 1)?;
    Ok(())
}
