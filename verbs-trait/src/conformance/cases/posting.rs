//! Posting: in which states, in lists, and how slots are held (IBA 10.7, 10.8).

use super::prelude::*;

cases! { "posting":
    posts_are_taken_by_the_state, "10.3.1";
    receives_posted_before_the_connection_serve_it, "10.3.1.2";
    a_list_is_posted_in_order, "11.4.1.1";
    an_empty_list_is_nothing, "contract";
    a_refused_send_list_says_how_many_were_accepted, "11.4.1.1";
    a_refused_receive_list_says_how_many_were_accepted, "11.4.1.2";
    a_full_send_queue_refuses_with_its_depth, "10.8.2";
    a_full_receive_queue_refuses_with_its_depth, "10.8.2";
    unsignaled_sends_hold_their_slots_until_a_later_completion_is_polled, "10.8.6";
    a_completion_frees_slots_when_it_is_polled_and_not_before, "10.8.6";
    an_unsignaled_request_completes_only_in_error, "10.8.6";
    with_signal_all_every_request_completes, "11.2.5.1";
    small_queues_carry_a_long_stream, "10.8.2; 10.8.6";
    a_receive_slot_is_free_once_its_completion_was_polled, "10.8.2";
}

fn posts_are_taken_by_the_state<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let (end, peer) = (bed.end(0, &setup)?, bed.end(1, &setup)?);
    let steps = [
        (QpState::Reset, None),
        (QpState::Init, Some(end.to_init(&setup))),
        (QpState::Rtr, Some(end.to_rtr(&peer, &setup, 0)?)),
        (QpState::Rts, Some(end.to_rts(&setup, 0))),
        (QpState::Err, Some(Modify::Err)),
    ];
    for (state, change) in steps {
        if let Some(change) = change {
            end.qp.modify(&change)?;
        }
        let sent = end.send(1, 0..8);
        if matches!(state, QpState::Rts | QpState::Err) {
            check!(sent.is_ok(), "a send in {state}: {sent:?}");
        } else {
            check_refused!(
                sent,
                PostError { posted: 0, why: VerbsError::WrongState { .. } },
                "a send in {state}"
            );
        }
        let received = end.recv(2, 0..8);
        if state == QpState::Reset {
            check_refused!(
                received,
                PostError { posted: 0, why: VerbsError::WrongState { .. } },
                "a receive in {state}"
            );
        } else {
            check!(received.is_ok(), "a receive in {state}: {received:?}");
        }
    }
    Ok(())
}

fn receives_posted_before_the_connection_serve_it<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let (a, b) = (bed.end(0, &setup)?, bed.end(1, &setup)?);
    a.connect(&b, &setup, 0)?;
    b.qp.modify(&b.to_init(&setup))?;
    b.recv(1, 0..64)?;
    b.qp.modify(&b.to_rtr(&a, &setup, 1)?)?;
    b.recv(2, 0..64)?;
    b.qp.modify(&b.to_rts(&setup, 1))?;
    a.send(10, 0..64)?;
    a.send(11, 0..64)?;
    bed.done(&b.recvs, 1)?;
    bed.done(&b.recvs, 2)?;
    Ok(())
}

/// A list of sends of 8 bytes; the one at `bad` names more ranges than the queue pair allows.
fn send_list<'a, V: Verbs>(
    ok: &'a [Sge<'a, V::Mr>],
    bad: &'a [Sge<'a, V::Mr>],
    at: usize,
) -> Vec<SendWr<'a, V>> {
    (0..5)
        .map(|i| SendWr {
            wr_id: i as u64,
            op: SendOp::Send { imm: None },
            data: Payload::Sge(if i == at { bad } else { ok }),
            flags: SendFlags::SIGNALED,
        })
        .collect()
}

fn a_list_is_posted_in_order<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    let into = [b.sge(0..8)];
    let list: Vec<_> = (0..5).map(|i| RecvWr { wr_id: 50 + i, data: &into }).collect();
    b.qp.post_recv(&list)?;
    let from = [a.sge(0..8)];
    a.qp.post_send(&send_list::<H::V>(&from, &from, 9))?;
    for i in 0..5 {
        bed.done(&a.sends, i)?;
        bed.done(&b.recvs, 50 + i)?;
    }
    Ok(())
}

fn an_empty_list_is_nothing<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b: _b } = bed.pair()?;
    a.qp.post_send(&[])?;
    a.qp.post_recv(&[])?;
    bed.settle();
    check!(a.poll_sends()?.is_empty() && a.poll_recvs()?.is_empty(), "an empty list completed something");
    Ok(())
}

fn a_refused_send_list_says_how_many_were_accepted<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    for i in 0..5 {
        b.recv(i, 0..64)?;
    }
    let from = [a.sge(0..8)];
    let most = a.qp.query()?.caps.max_send_sge as usize;
    let too_many = vec![a.sge(0..1); most + 1];
    for bad in [0, 2] {
        check_refused!(
            a.qp.post_send(&send_list::<H::V>(&from, &too_many, bad)),
            PostError { posted, why: VerbsError::TooLarge { .. } } if posted == bad,
            "a list whose request {bad} has too many ranges"
        );
    }
    bed.done(&a.sends, 0)?;
    bed.done(&a.sends, 1)?;
    bed.settle();
    check!(a.poll_sends()?.is_empty(), "a request after the refused one was executed");
    check_eq!(b.poll_recvs()?.len(), 2, "messages that arrived");
    Ok(())
}

fn a_refused_receive_list_says_how_many_were_accepted<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    let into = [b.sge(0..8)];
    let most = b.qp.query()?.caps.max_recv_sge as usize;
    let too_many = vec![b.sge(0..1); most + 1];
    let list: Vec<_> = (0..4u64)
        .map(|i| RecvWr { wr_id: i, data: if i == 3 { &too_many[..] } else { &into[..] } })
        .collect();
    check_refused!(
        b.qp.post_recv(&list),
        PostError { posted: 3, why: VerbsError::TooLarge { .. } },
        "a list whose last request has too many ranges"
    );
    for i in 0..3 {
        a.send(i, 0..8)?;
        bed.done(&b.recvs, i)?;
    }
    Ok(())
}

fn a_full_send_queue_refuses_with_its_depth<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    setup.caps.max_send_wr = 8;
    let Pair { a, b } = bed.pair_with(&setup)?;
    let granted = a.qp.query()?.caps.max_send_wr;
    for i in 0..u64::from(granted) {
        a.write(i, 0..8, b.word(0)?)?;
    }
    check_refused!(
        a.write(99, 0..8, b.word(0)?),
        PostError { posted: 0, why: VerbsError::QueueFull { queue: "send", depth } } if depth == granted,
        "one send more than the queue holds"
    );
    for i in 0..u64::from(granted) {
        bed.done(&a.sends, i)?;
    }
    a.write(100, 0..8, b.word(0)?)?;
    bed.done(&a.sends, 100)?;
    Ok(())
}

fn a_full_receive_queue_refuses_with_its_depth<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    setup.caps.max_recv_wr = 8;
    let Pair { a: _a, b } = bed.pair_with(&setup)?;
    let granted = b.qp.query()?.caps.max_recv_wr;
    for i in 0..u64::from(granted) {
        b.recv(i, 0..8)?;
    }
    check_refused!(
        b.recv(99, 0..8),
        PostError { posted: 0, why: VerbsError::QueueFull { queue: "receive", depth } } if depth == granted,
        "one receive more than the queue holds"
    );
    Ok(())
}

fn unsignaled_sends_hold_their_slots_until_a_later_completion_is_polled<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    let mut setup = Setup::new(bed);
    setup.caps.max_send_wr = 8;
    let Pair { a, b } = bed.pair_with(&setup)?;
    let granted = u64::from(a.qp.query()?.caps.max_send_wr);
    let to = b.word(0)?;
    let quiet = |i| a.post_with(i, SendOp::Write { to, imm: None }, 0..8, SendFlags::empty());
    for i in 0..granted - 1 {
        quiet(i)?;
    }
    bed.settle();
    check!(a.poll_sends()?.is_empty(), "unsignaled requests completed");
    a.write(500, 0..8, to)?;
    bed.settle();
    check_refused!(
        quiet(501),
        PostError { why: VerbsError::QueueFull { .. }, .. },
        "a post while finished unsignaled requests hold all slots"
    );
    bed.done(&a.sends, 500)?;
    for i in 0..granted {
        quiet(600 + i)?;
    }
    check_refused!(
        quiet(700),
        PostError { why: VerbsError::QueueFull { .. }, .. },
        "one more than the slots that were freed"
    );
    Ok(())
}

fn a_completion_frees_slots_when_it_is_polled_and_not_before<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    let mut setup = Setup::new(bed);
    setup.caps.max_send_wr = 4;
    let Pair { a, b } = bed.pair_with(&setup)?;
    let granted = u64::from(a.qp.query()?.caps.max_send_wr);
    for i in 0..granted {
        a.write(i, 0..8, b.word(0)?)?;
    }
    bed.settle();
    check_refused!(
        a.write(50, 0..8, b.word(0)?),
        PostError { why: VerbsError::QueueFull { .. }, .. },
        "a post before the completions were polled"
    );
    bed.done(&a.sends, 0)?;
    a.write(51, 0..8, b.word(0)?)?;
    check_refused!(
        a.write(52, 0..8, b.word(0)?),
        PostError { why: VerbsError::QueueFull { .. }, .. },
        "a second post after one completion was polled"
    );
    Ok(())
}

fn an_unsignaled_request_completes_only_in_error<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    let good = SendOp::Write { to: b.word(0)?, imm: None };
    a.post_with(1, good, 0..8, SendFlags::empty())?;
    bed.settle();
    check!(a.poll_sends()?.is_empty(), "an unsignaled request completed");
    let mut to = b.word(0)?;
    to.rkey = !to.rkey;
    a.post_with(2, SendOp::Write { to, imm: None }, 0..8, SendFlags::empty())?;
    bed.fails(&a.sends, 2, WcError::RemAccess)?;
    check!(a.poll_sends()?.is_empty(), "a request that had succeeded completed late");
    Ok(())
}

fn with_signal_all_every_request_completes<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    setup.sq_sig_all = true;
    let Pair { a, b } = bed.pair_with(&setup)?;
    for i in 0..4 {
        a.post_with(i, SendOp::Write { to: b.word(0)?, imm: None }, 0..8, SendFlags::empty())?;
    }
    for i in 0..4 {
        bed.done(&a.sends, i)?;
    }
    Ok(())
}

/// Thousands of messages through queues of a few places, one in three signaled.
fn small_queues_carry_a_long_stream<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    const MESSAGES: u64 = 1_500;
    let mut setup = Setup::new(bed);
    (setup.caps.max_send_wr, setup.caps.max_recv_wr, setup.cqe) = (7, 5, 16);
    let Pair { a, b } = bed.pair_with(&setup)?;
    let depth = u64::from(b.qp.query()?.caps.max_recv_wr);
    for i in 0..depth {
        b.recv(i, 0..8)?;
    }
    let (mut sent, mut signaled, mut received) = (0, 0, 0);
    let begun = bed.now();
    while received < MESSAGES {
        while sent < MESSAGES {
            let flags = if sent % 3 == 2 { SendFlags::SIGNALED } else { SendFlags::empty() };
            match a.post_with(sent, SendOp::Send { imm: Some(sent as u32) }, 0..8, flags) {
                Ok(()) => sent += 1,
                Err(PostError { why: VerbsError::QueueFull { .. }, .. }) => break,
                Err(other) => return Err(other.into()),
            }
        }
        for seen in b.poll_recvs()? {
            let imm = seen.result.map_or(None, |done| done.imm);
            check_eq!((seen.wr_id, imm), (received, Some(received as u32)), "the next message");
            b.recv(received + depth, 0..8)?;
            received += 1;
        }
        for seen in a.poll_sends()? {
            check_eq!((seen.wr_id, seen.result.is_ok()), (3 * signaled + 2, true), "the next signaled send");
            signaled += 1;
        }
        check!(bed.now() - begun < bed.timing().timeout, "stuck after {received} messages of {sent} sent");
        let span = bed.timing().round_trip / 10;
        bed.advance(span);
    }
    Ok(())
}

fn a_receive_slot_is_free_once_its_completion_was_polled<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    setup.caps.max_recv_wr = 4;
    let Pair { a, b } = bed.pair_with(&setup)?;
    let granted = u64::from(b.qp.query()?.caps.max_recv_wr);
    for i in 0..granted {
        b.recv(i, 0..8)?;
    }
    for i in 0..3 * granted {
        a.send(i, 0..8)?;
        bed.done(&a.sends, i)?;
        bed.done(&b.recvs, i)?;
        b.recv(granted + i, 0..8)?;
    }
    Ok(())
}
