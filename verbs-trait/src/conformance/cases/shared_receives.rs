//! Shared receive queues: many queue pairs draw from one (IBA 10.2.9).

use super::datagrams::{QKEY, datagram_qp, ready};
use super::prelude::*;

cases! { "shared_receives":
    two_queue_pairs_draw_from_one_shared_queue, "10.2.9", needs Caps::SRQ;
    a_shared_queue_says_once_that_it_runs_low, "10.2.9.1", needs Caps::SRQ;
    a_shared_queue_that_is_armed_low_says_so, "10.2.9.1", needs Caps::SRQ;
    an_error_does_not_flush_a_shared_queue, "10.2.9", needs Caps::SRQ;
    a_queue_pair_in_error_says_that_it_draws_no_more, "11.6.3.2", needs Caps::SRQ | Caps::QP_EVENTS;
    an_empty_shared_queue_is_not_ready, "9.7.5.2.8; 10.2.9", needs Caps::SRQ;
    a_full_shared_queue_takes_no_more, "10.2.9", needs Caps::SRQ;
    long_messages_at_once_get_a_buffer_each, "10.2.9", needs Caps::SRQ;
    writes_with_immediate_data_draw_too, "10.2.9; 9.7.4.1.2", needs Caps::SRQ;
    datagrams_draw_from_a_shared_queue, "10.2.9; 9.8.3", needs Caps::SRQ | Caps::UD;
    a_datagram_too_long_costs_a_shared_receive_and_no_more, "9.9.3.1 (class E)", needs Caps::SRQ | Caps::UD;
    a_shared_queue_outlives_the_queue_pairs_that_draw, "10.2.9", needs Caps::SRQ;
}

/// Two connections whose second ends draw from one queue.
struct Drawing<V: Verbs> {
    pairs: [Pair<V>; 2],
    srq: V::Srq,
}

fn drawing<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome<Drawing<H::V>> {
    let setup = Setup::new(bed);
    drawing_with(bed, &setup)
}

fn drawing_with<H: Harness>(bed: &mut TestBed<'_, H>, setup: &Setup) -> Outcome<Drawing<H::V>> {
    let home = bed.end(1, setup)?;
    let srq = home.pd.create_srq(64, 4)?;
    let mut make = || -> Outcome<Pair<H::V>> {
        let a = bed.end(0, setup)?;
        let mut b = bed.end_on(1, home.pd.clone(), home.sends.clone(), home.recvs.clone(), setup)?;
        b.qp = home.pd.create_qp(&QpInit {
            kind: QpType::Rc,
            send_cq: &b.sends,
            recv_cq: &b.recvs,
            srq: Some(&srq),
            caps: setup.caps,
            sq_sig_all: false,
        })?;
        a.connect(&b, setup, 0)?;
        b.connect(&a, setup, 1)?;
        Ok(Pair { a, b })
    };
    let pairs = [make()?, make()?];
    Ok(Drawing { pairs, srq })
}

fn two_queue_pairs_draw_from_one_shared_queue<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Drawing { pairs, srq } = drawing(bed)?;
    for i in 0..4 {
        let at = 64 * i as u32;
        // Some adapters read an empty range as one of 2 GiB.
        let into = [pairs[0].b.sge(256..256), pairs[0].b.sge(at..at + 64)];
        srq.post_recv(&[RecvWr { wr_id: i, data: &into }])?;
    }
    for i in 0..4 {
        let (Pair { a, b }, at) = (&pairs[i as usize % 2], 64 * i as usize);
        a.fill(0, &pattern(64, i))?;
        a.send(i, 0..64)?;
        bed.done(&a.sends, i)?;
        let seen = bed.completion(&b.recvs)?;
        check_eq!((seen.wr_id, seen.qp), (i, b.qp.num()), "which receive served whom");
        check!(
            pairs[0].b.bytes(at..at + 64)? == pattern(64, i),
            "the message is not where the first range with room is"
        );
    }
    check!(pairs[0].b.recv(9, 0..64).is_err(), "a receive was posted past the shared queue");
    Ok(())
}

fn a_shared_queue_says_once_that_it_runs_low<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Drawing { pairs, srq } = drawing(bed)?;
    let into = [pairs[0].b.sge(0..64)];
    for i in 0..4 {
        srq.post_recv(&[RecvWr { wr_id: i, data: &into }])?;
    }
    srq.arm_limit(3)?;
    let Pair { a, b } = &pairs[0];
    for (i, expected) in [(0, None), (1, Some(AsyncEvent::SrqLimit(srq.id()))), (2, None)] {
        a.send(i, 0..64)?;
        bed.done(&a.sends, i)?;
        bed.settle();
        check_eq!(b.ctx.async_event(), expected, "the event after receive {i}");
    }
    Ok(())
}

fn an_error_does_not_flush_a_shared_queue<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Drawing { pairs, srq } = drawing(bed)?;
    srq.post_recv(&[RecvWr { wr_id: 7, data: &[pairs[0].b.sge(0..64)] }])?;
    pairs[0].b.qp.modify(&Modify::Err)?;
    bed.settle();
    check!(pairs[0].b.poll_recvs()?.is_empty(), "a shared receive was flushed");
    pairs[1].a.send(1, 0..64)?;
    bed.done(&pairs[1].b.recvs, 7)?;
    Ok(())
}

fn post_shared<V: Verbs>(of: &End<V>, srq: &V::Srq, wr_id: u64, local: std::ops::Range<u32>) -> Outcome {
    Ok(srq.post_recv(&[RecvWr { wr_id, data: &[of.sge(local)] }])?)
}

fn a_shared_queue_that_is_armed_low_says_so<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Drawing { pairs, srq } = drawing(bed)?;
    let Pair { a, b } = &pairs[0];
    for i in 0..3 {
        post_shared(b, &srq, i, 0..64)?;
    }
    // Fewer are left already: some adapters say so at once, and some with the next that is drawn.
    srq.arm_limit(4)?;
    a.send(1, 0..64)?;
    bed.done(&a.sends, 1)?;
    check_eq!(bed.async_event(&b.ctx)?, AsyncEvent::SrqLimit(srq.id()), "the event");
    a.send(2, 0..64)?;
    bed.done(&a.sends, 2)?;
    bed.settle();
    check_eq!(b.ctx.async_event(), None, "a second event");
    Ok(())
}

fn a_queue_pair_in_error_says_that_it_draws_no_more<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Drawing { pairs, srq } = drawing(bed)?;
    let b = &pairs[0].b;
    post_shared(b, &srq, 1, 0..64)?;
    b.qp.modify(&Modify::Err)?;
    check_eq!(bed.async_event(&b.ctx)?, AsyncEvent::LastWqe(b.qp.num()), "the event");
    bed.settle();
    check_eq!(b.ctx.async_event(), None, "a second event");
    Ok(())
}

fn an_empty_shared_queue_is_not_ready<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let patient = Setup::new(bed);
    let setup = Setup { rnr_retry: Retries::NONE, ..patient };
    let Drawing { pairs, srq } = drawing_with(bed, &setup)?;
    pairs[0].a.send(1, 0..64)?;
    bed.fails(&pairs[0].a.sends, 1, WcError::RnrRetryExc)?;
    let Pair { a, b } = &pairs[1];
    post_shared(b, &srq, 7, 0..64)?;
    a.send(2, 0..64)?;
    bed.done(&a.sends, 2)?;
    bed.done(&b.recvs, 7)?;
    Ok(())
}

fn a_full_shared_queue_takes_no_more<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let end = bed.end(1, &setup)?;
    let srq = end.pd.create_srq(8, 1)?;
    let into = [end.sge(0..8)];
    // A device may grant more than was asked for, within reason.
    let most = (0..100_000).find(|&i| srq.post_recv(&[RecvWr { wr_id: i, data: &into }]).is_err());
    check!(most.is_some_and(|n| n >= 8), "a shared queue of 8 requests took {most:?}");
    Ok(())
}

fn long_messages_at_once_get_a_buffer_each<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    const LEN: usize = 10_000;
    let Drawing { pairs, srq } = drawing(bed)?;
    let buffers = &pairs[0].b;
    for i in 0..2u32 {
        post_shared(buffers, &srq, u64::from(i), i * 16_384..i * 16_384 + LEN as u32)?;
    }
    for (i, Pair { a, .. }) in pairs.iter().enumerate() {
        a.fill(0, &pattern(LEN, i as u64))?;
        a.send(1, 0..LEN as u32)?;
    }
    for seen in bed.completions(&buffers.recvs, 2)? {
        let whose = pairs.iter().position(|pair| pair.b.qp.num() == seen.qp);
        let at = seen.wr_id as usize * 16_384;
        check!(seen.result.is_ok_and(|done| done.len as usize == LEN), "a receive: {seen:?}");
        check!(
            whose.is_some_and(|i| buffers.bytes(at..at + LEN).is_ok_and(|b| b == pattern(LEN, i as u64))),
            "a message was mixed with another"
        );
    }
    Ok(())
}

fn writes_with_immediate_data_draw_too<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Drawing { pairs, srq } = drawing(bed)?;
    let Pair { a, b } = &pairs[1];
    post_shared(b, &srq, 7, 0..0)?;
    a.post(1, SendOp::Write { to: b.remote(64..128)?, imm: Some(5) }, 0..64)?;
    bed.done(&a.sends, 1)?;
    let done = bed.done(&b.recvs, 7)?;
    check_eq!((done.op, done.imm), (WcOp::RecvWriteImm, Some(5)), "what the receiver saw");
    Ok(())
}

/// A datagram queue pair, and another one that draws from a shared queue.
struct Drawn<V: Verbs> {
    a: End<V>,
    b: End<V>,
    srq: V::Srq,
}

fn drawn<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome<Drawn<H::V>> {
    let setup = Setup::new(bed);
    let mut a = bed.end(0, &setup)?;
    a.qp = datagram_qp(&a, None, &setup)?;
    ready(&a, &setup)?;
    let mut b = bed.end(1, &setup)?;
    let srq = b.pd.create_srq(8, 1)?;
    b.qp = datagram_qp(&b, Some(&srq), &setup)?;
    ready(&b, &setup)?;
    Ok(Drawn { a, b, srq })
}

fn a_datagram_too_long_costs_a_shared_receive_and_no_more<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Drawn { a, b, srq } = drawn(bed)?;
    let ah = a.pd.create_ah(&a.path_to(&b)?)?;
    b.fill(0, &[0xee; 400])?;
    for i in 0..2 {
        post_shared(&b, &srq, i, 200 * i as u32..200 * i as u32 + GRH + 100)?;
    }
    for (wr_id, len) in [(5, 101), (6, 100)] {
        a.post(wr_id, SendOp::SendTo { imm: None, ah: &ah, qp: b.qp.num(), qkey: QKEY }, 0..len)?;
        bed.done(&a.sends, wr_id)?;
    }
    let first = bed.completion(&b.recvs)?;
    // Soft-RoCE calls it a remote invalid request.
    let told = matches!(first.result, Err(WcError::LocLen | WcError::RemInvReq));
    check!(first.wr_id == 0 && told, "the receive that was too short completed as {first:?}");
    check_eq!(bed.done(&b.recvs, 1)?.len, GRH + 100, "the datagram that fitted the next");
    check_eq!(b.qp.state(), QpState::Rts, "the state afterwards");
    check_eq!(b.bytes(140..200)?, vec![0xee; 60], "bytes behind the receive that was too short");
    Ok(())
}

fn datagrams_draw_from_a_shared_queue<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Drawn { a, b, srq } = drawn(bed)?;
    let ah = a.pd.create_ah(&a.path_to(&b)?)?;
    for i in 0..2 {
        post_shared(&b, &srq, i, 0..200)?;
        a.post(i, SendOp::SendTo { imm: None, ah: &ah, qp: b.qp.num(), qkey: QKEY }, 0..100)?;
        bed.done(&a.sends, i)?;
        bed.done(&b.recvs, i)?;
    }
    Ok(())
}

fn a_shared_queue_outlives_the_queue_pairs_that_draw<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Drawing { pairs, srq } = drawing(bed)?;
    let [first, second] = pairs;
    post_shared(&second.b, &srq, 7, 0..64)?;
    drop(first);
    second.a.send(1, 0..64)?;
    bed.done(&second.a.sends, 1)?;
    bed.done(&second.b.recvs, 7)?;
    Ok(())
}
