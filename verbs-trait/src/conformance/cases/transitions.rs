//! The queue pair's state machine (IBA 10.3.1, 11.2.5.2).

use super::prelude::*;

cases! { "transitions":
    a_fresh_queue_pair_is_in_reset_with_the_sizes_it_asked_for, "11.2.5.1";
    every_legal_edge_is_taken, "10.3.1, figure 124";
    every_illegal_edge_is_refused_and_changes_nothing, "10.3.1, figure 124";
    every_legal_edge_of_sqd_is_taken, "10.3.1.6", needs Caps::SQD;
    every_illegal_edge_of_sqd_is_refused_and_changes_nothing, "10.3.1.6", needs Caps::SQD;
    init_refuses_a_port_that_is_not_there, "11.2.5.2, table 96";
    rtr_refuses_what_device_and_port_cannot_do, "11.2.5.2, table 96";
    rts_refuses_more_reads_in_flight_than_the_device_can_have, "11.2.5.2, table 96";
    a_query_returns_what_was_set, "11.2.5.3";
    init_may_be_repeated_with_other_rights, "10.3.1.2";
    rights_change_on_a_running_queue_pair, "11.2.5.2";
    a_queue_pair_that_is_ready_to_receive_answers_requests, "10.3.1.3";
    reset_drops_posted_requests_silently, "10.3.1.1";
    a_queue_pair_serves_again_after_reset, "10.3.1.1";
    reset_ends_the_error_state, "10.3.1.1";
}

/// What a caller may ask for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ask {
    Reset,
    Init,
    Rtr,
    Rts,
    Update,
    Sqd,
    Resume,
    Err,
}

const ASKS: [Ask; 8] =
    [Ask::Reset, Ask::Init, Ask::Rtr, Ask::Rts, Ask::Update, Ask::Sqd, Ask::Resume, Ask::Err];

/// The states of a reliable queue pair.
const STATES: [QpState; 6] =
    [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Err];

/// IBA figure 124 once more, written apart from the contract's own table: where each request leads.
fn leads(from: QpState, ask: Ask) -> Option<QpState> {
    use QpState::*;
    match (ask, from) {
        (Ask::Reset, _) => Some(Reset),
        (Ask::Init, Reset | Init) => Some(Init),
        (Ask::Rtr, Init) => Some(Rtr),
        (Ask::Rts, Rtr) => Some(Rts),
        (Ask::Update, Rts) => Some(Rts),
        (Ask::Update, Sqd) => Some(Sqd),
        (Ask::Sqd, Rts | Sqd) => Some(Sqd),
        (Ask::Resume, Sqd) => Some(Rts),
        (Ask::Err, Init | Rtr | Rts | Sqd | Err) => Some(Err),
        _ => None,
    }
}

fn modify<V: Verbs>(ask: Ask, end: &End<V>, peer: &End<V>, setup: &Setup) -> Outcome<Modify> {
    Ok(match ask {
        Ask::Reset => Modify::Reset,
        Ask::Init => end.to_init(setup),
        Ask::Rtr => end.to_rtr(peer, setup, 0)?,
        Ask::Rts => end.to_rts(setup, 0),
        Ask::Update => Modify::Update(Update { min_rnr_timer: Some(setup.rnr_timer), ..Update::default() }),
        Ask::Sqd => Modify::Sqd { notify: false },
        Ask::Resume => Modify::Resume,
        Ask::Err => Modify::Err,
    })
}

/// Brings a queue pair from wherever it is into a state.
fn reach<V: Verbs>(state: QpState, end: &End<V>, peer: &End<V>, setup: &Setup) -> Outcome {
    let way: &[Ask] = match state {
        QpState::Reset => &[Ask::Reset],
        QpState::Init => &[Ask::Reset, Ask::Init],
        QpState::Rtr => &[Ask::Reset, Ask::Init, Ask::Rtr],
        QpState::Rts | QpState::Sqe => &[Ask::Reset, Ask::Init, Ask::Rtr, Ask::Rts],
        QpState::Sqd => &[Ask::Reset, Ask::Init, Ask::Rtr, Ask::Rts, Ask::Sqd],
        QpState::Err => &[Ask::Reset, Ask::Init, Ask::Rtr, Ask::Rts, Ask::Err],
    };
    for ask in way {
        end.qp.modify(&modify(*ask, end, peer, setup)?)?;
    }
    check_eq!(end.qp.state(), state, "after {way:?}");
    Ok(())
}

/// Tries every request in every state, with those about SQD or without them.
fn walk<H: Harness>(bed: &mut TestBed<'_, H>, sqd: bool, legal: bool) -> Outcome {
    let setup = Setup::new(bed);
    let (end, peer) = (bed.end(0, &setup)?, bed.end(1, &setup)?);
    for from in STATES {
        for ask in ASKS {
            let about_sqd = from == QpState::Sqd || matches!(ask, Ask::Sqd | Ask::Resume);
            if about_sqd != sqd || leads(from, ask).is_some() != legal {
                continue;
            }
            reach(from, &end, &peer, &setup)?;
            let before = end.qp.query()?;
            let answer = end.qp.modify(&modify(ask, &end, &peer, &setup)?);
            match leads(from, ask) {
                Some(to) => {
                    check!(answer.is_ok(), "{ask:?} in {from} was refused: {answer:?}");
                    check_eq!(end.qp.state(), to, "{ask:?} in {from}");
                }
                None => {
                    check_refused!(answer, VerbsError::NoTransition { .. }, "{ask:?} in {from}");
                    check_eq!(end.qp.query()?, before, "a refused {ask:?} in {from}");
                }
            }
        }
    }
    Ok(())
}

fn every_legal_edge_is_taken<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    walk(bed, false, true)
}

fn every_illegal_edge_is_refused_and_changes_nothing<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    walk(bed, false, false)
}

fn every_legal_edge_of_sqd_is_taken<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    walk(bed, true, true)
}

fn every_illegal_edge_of_sqd_is_refused_and_changes_nothing<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    walk(bed, true, false)
}

fn a_fresh_queue_pair_is_in_reset_with_the_sizes_it_asked_for<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    let setup = Setup::new(bed);
    let end = bed.end(0, &setup)?;
    let seen = end.qp.query()?;
    check_eq!(end.qp.state(), QpState::Reset, "a new queue pair's state");
    check_eq!(seen.state, QpState::Reset, "a new queue pair's queried state");
    check_eq!(seen.kind, QpType::Rc, "its kind");
    check_eq!((seen.init, seen.rtr, seen.rts), (None, None, None), "its attributes");
    let (granted, asked) = (seen.caps, setup.caps);
    check!(
        granted.max_send_wr >= asked.max_send_wr
            && granted.max_recv_wr >= asked.max_recv_wr
            && granted.max_send_sge >= asked.max_send_sge
            && granted.max_recv_sge >= asked.max_recv_sge
            && granted.max_inline >= asked.max_inline,
        "asked for {asked:?}, was granted {granted:?}"
    );
    let other = bed.end(0, &setup)?;
    check!(other.qp.num() != end.qp.num(), "two queue pairs of a device have one number");
    check!(end.qp.num().0 < 1 << 24, "a queue pair number of more than 24 bits");
    Ok(())
}

fn init_refuses_a_port_that_is_not_there<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let end = bed.end(0, &setup)?;
    for port in [0, end.ctx.device_attr().ports + 1, u8::MAX] {
        let init = Modify::Init(ToInit { port, pkey_index: 0, access: setup.access, qkey: 0 });
        check_refused!(
            end.qp.modify(&init),
            VerbsError::TooLarge { .. } | VerbsError::Invalid(_),
            "Init on port {port}"
        );
        check_eq!(end.qp.state(), QpState::Reset, "after a refused Init");
    }
    Ok(())
}

fn rtr_refuses_what_device_and_port_cannot_do<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let (end, peer) = (bed.end(0, &setup)?, bed.end(1, &setup)?);
    let Modify::Rtr(good) = end.to_rtr(&peer, &setup, 0)? else { unreachable!("to_rtr makes an Rtr") };
    let (device, port) = (end.ctx.device_attr(), end.ctx.port_attr(end.port)?);
    let mut bad = Vec::new();
    let path = |change: fn(&mut Path, u8), n| {
        let mut path = good.path;
        change(&mut path, n);
        ToRtr { path, ..good }
    };
    bad.push(("a GID index beyond the table", path(|p, n| p.sgid_index = n, port.gids)));
    bad.push(("port 0", path(|p, n| p.port = n, 0)));
    bad.push(("a port beyond the last", path(|p, n| p.port = n, device.ports + 1)));
    if let Some(serves) = device.max_dest_rd_atomic.checked_add(1) {
        bad.push((
            "more responder resources than the device has",
            ToRtr { max_dest_rd_atomic: serves, ..good },
        ));
    }
    if port.max_mtu < Mtu::B4096 {
        bad.push(("a larger MTU than the port's", ToRtr { mtu: Mtu::B4096, ..good }));
    }
    end.qp.modify(&end.to_init(&setup))?;
    for (what, attributes) in bad {
        check_refused!(
            end.qp.modify(&Modify::Rtr(attributes)),
            VerbsError::TooLarge { .. } | VerbsError::Invalid(_),
            "{what}"
        );
        check_eq!(end.qp.state(), QpState::Init, "after {what} was refused");
    }
    end.qp.modify(&Modify::Rtr(good))?;
    Ok(())
}

fn rts_refuses_more_reads_in_flight_than_the_device_can_have<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    let mut setup = Setup::new(bed);
    let (end, peer) = (bed.end(0, &setup)?, bed.end(1, &setup)?);
    end.qp.modify(&end.to_init(&setup))?;
    end.qp.modify(&end.to_rtr(&peer, &setup, 0)?)?;
    let most = end.ctx.device_attr().max_rd_atomic;
    if let Some(depth) = most.checked_add(1) {
        setup.depth = depth;
        check_refused!(
            end.qp.modify(&end.to_rts(&setup, 0)),
            VerbsError::TooLarge { .. },
            "{depth} reads in flight where the device can have {most}"
        );
        check_eq!(end.qp.state(), QpState::Rtr, "after a refused move to RTS");
    }
    setup.depth = most;
    end.qp.modify(&end.to_rts(&setup, 0))?;
    Ok(())
}

fn a_query_returns_what_was_set<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    setup.access = AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE;
    setup.mtu = Mtu::B512;
    setup.psn = [Psn::new(0xabc_def), Psn::new(0x123_456)];
    setup.ack = AckTimeout::new(13).expect("13 is an exponent");
    setup.retry = retries(5);
    setup.rnr_retry = retries(3);
    setup.rnr_timer = RnrTimer::new(17).expect("17 is a code");
    (setup.depth, setup.serves) = (2, 3);
    let (end, peer) = (bed.end(0, &setup)?, bed.end(1, &setup)?);
    let (init, rtr, rts) = (end.to_init(&setup), end.to_rtr(&peer, &setup, 0)?, end.to_rts(&setup, 0));
    for change in [&init, &rtr, &rts] {
        end.qp.modify(change)?;
    }
    let seen = end.qp.query()?;
    check_eq!(seen.state, QpState::Rts, "the state");
    check_eq!(seen.init.map(Modify::Init), Some(init), "what Init was given");
    check_eq!(seen.rtr.map(Modify::Rtr), Some(rtr), "what RTR was given");
    check_eq!(seen.rts.map(Modify::Rts), Some(rts), "what RTS was given");
    check_eq!(seen.migration, Migration::Migrated, "path migration");
    check!(!seen.draining, "a queue pair in RTS is not draining");

    let update = Update { min_rnr_timer: RnrTimer::new(9), ..Update::default() };
    end.qp.modify(&Modify::Update(update))?;
    check_eq!(end.qp.query()?.rtr.map(|r| r.min_rnr_timer), RnrTimer::new(9), "an updated RNR timer");

    end.qp.modify(&Modify::Reset)?;
    let seen = end.qp.query()?;
    check_eq!((seen.init, seen.rtr, seen.rts), (None, None, None), "attributes after Reset");
    Ok(())
}

fn init_may_be_repeated_with_other_rights<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    let (a, b) = (bed.end(0, &setup)?, bed.end(1, &setup)?);
    a.connect(&b, &setup, 0)?;
    setup.access = AccessFlags::empty();
    b.qp.modify(&b.to_init(&setup))?;
    setup.access = AccessFlags::REMOTE_WRITE;
    b.connect(&a, &setup, 1)?;
    a.write(1, 0..8, b.word(0)?)?;
    bed.done(&a.sends, 1)?;
    Ok(())
}

fn rights_change_on_a_running_queue_pair<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    a.write(1, 0..8, b.word(0)?)?;
    bed.done(&a.sends, 1)?;
    let update = Update { access: Some(AccessFlags::REMOTE_READ), ..Update::default() };
    b.qp.modify(&Modify::Update(update))?;
    a.read(2, 0..8, b.word(0)?)?;
    bed.done(&a.sends, 2)?;
    a.write(3, 0..8, b.word(0)?)?;
    bed.fails(&a.sends, 3, WcError::RemInvReq)
}

fn a_queue_pair_that_is_ready_to_receive_answers_requests<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let (a, b) = (bed.end(0, &setup)?, bed.end(1, &setup)?);
    b.qp.modify(&b.to_init(&setup))?;
    b.qp.modify(&b.to_rtr(&a, &setup, 1)?)?;
    a.connect(&b, &setup, 0)?;
    b.recv(9, 0..64)?;
    a.send(1, 0..64)?;
    a.read(2, 0..64, b.remote(0..64)?)?;
    bed.done(&a.sends, 1)?;
    bed.done(&a.sends, 2)?;
    bed.done(&b.recvs, 9)?;
    check_eq!(b.qp.state(), QpState::Rtr, "the responder's state");
    Ok(())
}

fn reset_drops_posted_requests_silently<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    b.qp.modify(&Modify::Err)?;
    for wr_id in 0..4 {
        a.recv(wr_id, 0..64)?;
        a.send(wr_id, 0..64)?;
    }
    a.qp.modify(&Modify::Reset)?;
    let span = bed.timing().round_trip * 100;
    bed.quiet(&a.sends, span)?;
    bed.quiet(&a.recvs, span)
}

fn a_queue_pair_serves_again_after_reset<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    let pair = bed.pair_with(&setup)?;
    for round in 0..3 {
        setup.psn = [Psn::new(5 + round), Psn::new(0xff_0000 + round)];
        pair.reconnect(&setup)?;
        let n = u64::from(round);
        // What was left posted by the round before must not serve this one.
        pair.b.recv(n, 0..64)?;
        pair.b.recv(100 + n, 0..64)?;
        pair.a.send(n, 0..64)?;
        bed.done(&pair.a.sends, n)?;
        bed.done(&pair.b.recvs, n)?;
    }
    Ok(())
}

fn reset_ends_the_error_state<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let pair = bed.pair_with(&setup)?;
    pair.a.qp.modify(&Modify::Err)?;
    pair.b.qp.modify(&Modify::Err)?;
    pair.reconnect(&setup)?;
    pair.b.recv(2, 0..8)?;
    pair.a.send(1, 0..8)?;
    bed.done(&pair.a.sends, 1)?;
    bed.done(&pair.b.recvs, 2)?;
    Ok(())
}
