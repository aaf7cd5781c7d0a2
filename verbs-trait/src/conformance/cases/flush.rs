//! The error state: what was posted is flushed, the first error tells the truth (IBA 10.3.1.7, 10.10.2).

use super::prelude::*;

cases! { "flush":
    the_error_state_flushes_both_queues_in_order, "10.3.1.7";
    receives_of_an_unconnected_queue_pair_are_flushed, "10.3.1.7";
    the_first_error_carries_the_true_status, "10.10.2.2";
    unsignaled_requests_are_flushed_aloud, "10.8.6; 10.3.1.7";
    requests_before_the_first_error_keep_their_success, "10.10.2.2";
    posts_to_a_queue_pair_in_error_are_flushed, "10.3.1.7";
    flushed_requests_free_their_slots, "10.8.6";
    a_peer_learns_by_its_own_retries, "9.9.2.1.2";
    an_idle_peer_learns_nothing, "9.9.2.1.2";
    a_request_in_flight_is_flushed_and_its_answer_ignored, "10.3.1.7", with HarnessCaps::STRIKE;
    an_error_on_one_queue_pair_leaves_others_alone, "10.10.2.2";
    a_flush_lets_the_memory_go, "10.6.3", needs Caps::ATOMICS;
}

fn the_error_state_flushes_both_queues_in_order<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    setup.rnr_timer = rnr_at_least(bed.timing().round_trip * 1_000);
    let Pair { a, b } = bed.pair_with(&setup)?;
    for i in 0..10 {
        a.recv(100 + i, 0..64)?;
        a.send(i, 0..64)?;
    }
    bed.settle();
    check!(a.poll_sends()?.is_empty() && a.poll_recvs()?.is_empty(), "something completed too early");
    a.qp.modify(&Modify::Err)?;
    for i in 0..10 {
        bed.fails(&a.sends, i, WcError::Flush)?;
    }
    for i in 0..10 {
        bed.fails(&a.recvs, 100 + i, WcError::Flush)?;
    }
    check_eq!(b.qp.state(), QpState::Rts, "the peer's state");
    Ok(())
}

fn receives_of_an_unconnected_queue_pair_are_flushed<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let end = bed.end(0, &setup)?;
    end.qp.modify(&end.to_init(&setup))?;
    end.recv(1, 0..64)?;
    end.recv(2, 0..64)?;
    end.qp.modify(&Modify::Err)?;
    bed.fails(&end.recvs, 1, WcError::Flush)?;
    bed.fails(&end.recvs, 2, WcError::Flush)
}

/// A write with a key that does not exist.
fn bad_write<V: Verbs>(end: &End<V>, peer: &End<V>, wr_id: u64, flags: SendFlags) -> Outcome {
    let right = peer.remote(0..64)?;
    let to = RemoteSlice { rkey: !right.rkey, ..right };
    Ok(end.post_with(wr_id, SendOp::Write { to, imm: None }, 0..64, flags)?)
}

fn the_first_error_carries_the_true_status<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    a.recv(50, 0..64)?;
    bad_write(&a, &b, 1, SendFlags::SIGNALED)?;
    bad_write(&a, &b, 2, SendFlags::SIGNALED)?;
    a.write(3, 0..64, b.remote(0..64)?)?;
    bed.fails(&a.sends, 1, WcError::RemAccess)?;
    bed.fails(&a.sends, 2, WcError::Flush)?;
    bed.fails(&a.sends, 3, WcError::Flush)?;
    bed.fails(&a.recvs, 50, WcError::Flush)
}

fn unsignaled_requests_are_flushed_aloud<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    bad_write(&a, &b, 1, SendFlags::empty())?;
    for i in 2..6 {
        a.send_unsignaled(i, 0..64)?;
    }
    bed.fails(&a.sends, 1, WcError::RemAccess)?;
    for i in 2..6 {
        bed.fails(&a.sends, i, WcError::Flush)?;
    }
    Ok(())
}

fn requests_before_the_first_error_keep_their_success<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    for i in 0..5 {
        a.write(i, 0..64, b.remote(0..64)?)?;
    }
    bad_write(&a, &b, 5, SendFlags::SIGNALED)?;
    a.write(6, 0..64, b.remote(0..64)?)?;
    for i in 0..5 {
        bed.done(&a.sends, i)?;
    }
    bed.fails(&a.sends, 5, WcError::RemAccess)?;
    bed.fails(&a.sends, 6, WcError::Flush)
}

fn posts_to_a_queue_pair_in_error_are_flushed<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    a.qp.modify(&Modify::Err)?;
    for i in 0..5 {
        a.write(i, 0..64, b.remote(0..64)?)?;
        a.recv(10 + i, 0..64)?;
        a.send_unsignaled(20 + i, 0..64)?;
    }
    for i in 0..5 {
        bed.fails(&a.sends, i, WcError::Flush)?;
        bed.fails(&a.sends, 20 + i, WcError::Flush)?;
        bed.fails(&a.recvs, 10 + i, WcError::Flush)?;
    }
    check_eq!(b.bytes(0..64)?, vec![0; 64], "the peer's memory");
    Ok(())
}

fn flushed_requests_free_their_slots<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    (setup.caps.max_send_wr, setup.caps.max_recv_wr) = (4, 4);
    let Pair { a, b: _b } = bed.pair_with(&setup)?;
    a.qp.modify(&Modify::Err)?;
    for i in 0..100 {
        a.send(i, 0..64)?;
        a.recv(i, 0..64)?;
        bed.fails(&a.sends, i, WcError::Flush)?;
        bed.fails(&a.recvs, i, WcError::Flush)?;
    }
    Ok(())
}

fn a_peer_learns_by_its_own_retries<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    a.recv(1, 0..64)?;
    a.qp.modify(&Modify::Err)?;
    b.send(2, 0..64)?;
    bed.fails(&b.sends, 2, WcError::RetryExc)?;
    bed.fails(&a.recvs, 1, WcError::Flush)?;
    check_eq!(b.qp.state(), QpState::Err, "the peer's state");
    Ok(())
}

fn an_idle_peer_learns_nothing<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let Pair { a, b } = bed.pair_with(&setup)?;
    b.recv(1, 0..64)?;
    a.qp.modify(&Modify::Err)?;
    bed.quiet(&b.recvs, setup.ack.span().expect("a time-out") * 50)?;
    check_eq!(b.qp.state(), QpState::Rts, "the idle peer's state");
    Ok(())
}

fn a_request_in_flight_is_flushed_and_its_answer_ignored<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    b.fill(0, &[7; 64])?;
    let late = bed.timing().round_trip * 10;
    let held = bed.strike((1, 0), PacketClass::ReadResponse, u64::MAX, Act::Delay(late))?;
    a.read(1, 0..64, b.remote(0..64)?)?;
    bed.until_struck(held, 1)?;
    a.qp.modify(&Modify::Err)?;
    bed.fails(&a.sends, 1, WcError::Flush)?;
    bed.quiet(&a.sends, late * 2)?;
    check_eq!(a.bytes(0..64)?, vec![0; 64], "memory that was given back before the answer came");
    Ok(())
}

fn an_error_on_one_queue_pair_leaves_others_alone<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let (one, other) = (bed.pair_with(&setup)?, bed.pair_with(&setup)?);
    other.b.recv(1, 0..64)?;
    bad_write(&one.a, &one.b, 2, SendFlags::SIGNALED)?;
    other.a.send(3, 0..64)?;
    bed.fails(&one.a.sends, 2, WcError::RemAccess)?;
    bed.done(&other.a.sends, 3)?;
    bed.done(&other.b.recvs, 1)?;
    Ok(())
}

/// Once flushed, a request no longer holds its region: the region is gone with its last handle.
fn a_flush_lets_the_memory_go<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let (posted, probe) = (bed.pair_with(&setup)?, bed.pair_with(&setup)?);
    let region = probe.b.pd.alloc_mr(64, ALL_RIGHTS)?;
    let word = region.remote(0..8)?;
    let held = bed.end_on(1, probe.b.pd.clone(), probe.b.sends.clone(), posted.b.recvs.clone(), &setup)?;
    held.qp.modify(&held.to_init(&setup))?;
    held.qp.post_recv(&[RecvWr { wr_id: 1, data: &[Sge { mr: &region, at: 0, len: 64 }] }])?;
    drop(region);
    probe.a.fetch_add(1, 0, word, 1)?;
    bed.done(&probe.a.sends, 1).map_err(|e| e.during("while a receive holds the region"))?;
    held.qp.modify(&Modify::Err)?;
    bed.fails(&held.recvs, 1, WcError::Flush)?;
    probe.a.fetch_add(2, 0, word, 1)?;
    bed.fails(&probe.a.sends, 2, WcError::RemAccess)
}
