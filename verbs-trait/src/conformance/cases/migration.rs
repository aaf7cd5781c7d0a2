//! Automatic path migration: two paths a connection, both ends agreeing when to move to the other (IBA 17.2.8).

use super::prelude::*;

const APM: Caps = Caps::APM.union(Caps::MULTI_PORT);

cases! { "migration":
    both_ends_arm_once_both_have_rearmed, "17.2.8.1.1", needs APM;
    alternate_paths_may_be_given_with_the_connection, "11.2.5.2; 17.2.8", needs APM;
    a_state_of_migration_is_refused_out_of_turn, "17.2.8.1.1", needs APM;
    a_connection_moves_to_its_alternate_path_when_asked, "17.2.8.1.3", needs APM;
    a_moved_connection_no_longer_needs_its_first_path, "17.2.8.1.4", needs APM, with HarnessCaps::PORT;
    a_connection_whose_retries_are_used_up_moves, "17.2.8.1.2", needs APM, with HarnessCaps::PORT;
    a_connection_that_is_not_armed_does_not_move, "17.2.8.1.1", needs APM, with HarnessCaps::PORT;
    retries_begin_anew_on_the_alternate_path, "17.2.8.1.2; 9.9.2.1.1", needs APM, with HarnessCaps::STRIKE;
    the_alternate_paths_time_out_holds_on_it, "11.2.5.2",
        needs APM, with HarnessCaps::STRIKE.union(HarnessCaps::EXACT_CLOCK);
    a_moved_connection_can_be_armed_again, "17.2.8.1.5", needs APM, with HarnessCaps::PORT;
    a_peer_that_moves_elsewhere_is_not_followed, "17.2.8.1.3; 11.6.3.3", needs APM;
    packets_left_on_the_old_path_do_no_harm, "17.2.8.1.4; 9.7.4.3", needs APM, with HarnessCaps::STRIKE;
    a_cut_cable_moves_a_busy_connection_without_a_trace, "17.2.8.1.2; 9.7", needs APM, with HarnessCaps::PORT;
}

/// The way from an end to another by their ports of a number.
fn path_by<V: Verbs>(from: &End<V>, to: &End<V>, port: u8) -> Outcome<Path> {
    let mut path = Path::to(to.ctx.gid(port, to.gid_index)?, port);
    path.dlid = to.ctx.port_attr(port)?.lid;
    path.sgid_index = from.gid_index;
    Ok(path)
}

/// An alternate path by the ports of a number.
fn alternate<V: Verbs>(from: &End<V>, to: &End<V>, port: u8, setup: &Setup) -> Outcome<AltPath> {
    Ok(AltPath { path: path_by(from, to, port)?, pkey_index: 0, timeout: setup.ack })
}

/// Loads an end's alternate path and asks its adapter to arm.
fn rearm<V: Verbs>(from: &End<V>, to: &End<V>, port: u8, setup: &Setup) -> Outcome {
    let (alt, migration) = (Some(alternate(from, to, port, setup)?), Some(Migration::Rearm));
    Ok(from.qp.modify(&Modify::Update(Update { alt, migration, ..Update::default() }))?)
}

fn ask<V: Verbs>(end: &End<V>, migration: Migration) -> Result<()> {
    end.qp.modify(&Modify::Update(Update { migration: Some(migration), ..Update::default() }))
}

fn states<V: Verbs>(Pair { a, b }: &Pair<V>) -> Outcome<(Migration, Migration)> {
    Ok((a.qp.query()?.migration, b.qp.query()?.migration))
}

/// A write each way.
fn exchange<H: Harness>(bed: &mut TestBed<'_, H>, Pair { a, b }: &Pair<H::V>) -> Outcome {
    a.write(901, 0..8, b.remote(8..16)?)?;
    bed.done(&a.sends, 901)?;
    b.write(902, 0..8, a.remote(8..16)?)?;
    bed.done(&b.sends, 902)?;
    Ok(())
}

/// Rearms both ends of a connection for the ports of a number, and lets them arm.
fn arm<H: Harness>(bed: &mut TestBed<'_, H>, pair: &Pair<H::V>, port: u8, setup: &Setup) -> Outcome {
    rearm(&pair.a, &pair.b, port, setup)?;
    rearm(&pair.b, &pair.a, port, setup)?;
    exchange(bed, pair)?;
    check_eq!(states(pair)?, (Migration::Armed, Migration::Armed), "migration after both rearmed");
    Ok(())
}

/// A connection by the first ports, armed to move to the second.
fn armed<H: Harness>(bed: &mut TestBed<'_, H>, setup: &Setup) -> Outcome<Pair<H::V>> {
    let pair = bed.pair_with(setup)?;
    arm(bed, &pair, 2, setup)?;
    Ok(pair)
}

/// Few retries, soon over.
fn hasty<H: Harness>(bed: &TestBed<'_, H>) -> Setup {
    Setup { retry: retries(1), ..Setup::new(bed) }
}

/// The next event of an end's device that is not about a port.
fn event<H: Harness>(bed: &mut TestBed<'_, H>, end: &End<H::V>) -> Outcome<AsyncEvent> {
    loop {
        match bed.async_event(&end.ctx)? {
            AsyncEvent::PortError(_) | AsyncEvent::PortActive(_) => {}
            other => return Ok(other),
        }
    }
}

/// Both ends say that they have moved, once, and the new path is their only one.
fn both_moved<H: Harness>(bed: &mut TestBed<'_, H>, pair: &Pair<H::V>, port: u8) -> Outcome {
    for (end, peer) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
        check_eq!(event(bed, end)?, AsyncEvent::PathMigrated(end.qp.num()), "an end's event");
        let now = end.qp.query()?;
        check_eq!(now.migration, Migration::Migrated, "migration after the move");
        let paths = now.rtr.map(|rtr| (rtr.path, rtr.alt));
        check_eq!(paths, Some((path_by(end, peer, port)?, None)), "the paths after the move");
    }
    Ok(())
}

fn no_more_events<H: Harness>(bed: &mut TestBed<'_, H>, Pair { a, b }: &Pair<H::V>) -> Outcome {
    bed.settle();
    check_eq!((a.ctx.async_event(), b.ctx.async_event()), (None, None), "further events");
    Ok(())
}

fn both_ends_arm_once_both_have_rearmed<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let pair = bed.pair_with(&setup)?;
    check_eq!(states(&pair)?, (Migration::Migrated, Migration::Migrated), "migration at first");
    rearm(&pair.a, &pair.b, 2, &setup)?;
    exchange(bed, &pair)?;
    check_eq!(states(&pair)?, (Migration::Rearm, Migration::Migrated), "migration with one end rearmed");
    rearm(&pair.b, &pair.a, 2, &setup)?;
    bed.settle();
    check_eq!(states(&pair)?, (Migration::Rearm, Migration::Rearm), "migration of an idle connection");
    exchange(bed, &pair)?;
    check_eq!(states(&pair)?, (Migration::Armed, Migration::Armed), "migration after both rearmed");
    no_more_events(bed, &pair)
}

fn alternate_paths_may_be_given_with_the_connection<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let pair = Pair { a: bed.end(0, &setup)?, b: bed.end(1, &setup)? };
    for (side, end, peer) in [(0, &pair.a, &pair.b), (1, &pair.b, &pair.a)] {
        let alt = Some(alternate(end, peer, 2, &setup)?);
        let Modify::Rtr(rtr) = end.to_rtr(peer, &setup, side)? else { unreachable!("to_rtr makes an Rtr") };
        let Modify::Rts(rts) = end.to_rts(&setup, side) else { unreachable!("to_rts makes an Rts") };
        // One end's comes with ready-to-receive, the other's with ready-to-send.
        let (at_rtr, at_rts) = if side == 0 { (alt, None) } else { (None, alt) };
        end.qp.modify(&end.to_init(&setup))?;
        end.qp.modify(&Modify::Rtr(ToRtr { alt: at_rtr, ..rtr }))?;
        end.qp.modify(&Modify::Rts(ToRts { alt: at_rts, migration: Migration::Rearm, ..rts }))?;
        let shown = end.qp.query()?;
        check_eq!(shown.migration, Migration::Rearm, "migration at first");
        check_eq!(shown.rtr.map(|rtr| rtr.alt), Some(alt), "the alternate path that is loaded");
    }
    exchange(bed, &pair)?;
    ask(&pair.b, Migration::Migrated)?;
    exchange(bed, &pair)?;
    both_moved(bed, &pair, 2)
}

fn a_state_of_migration_is_refused_out_of_turn<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let pair = bed.pair_with(&setup)?;
    let a = &pair.a;
    check_refused!(ask(a, Migration::Rearm), VerbsError::Invalid(_), "rearming without an alternate path");
    check_refused!(ask(a, Migration::Migrated), VerbsError::Invalid(_), "a move by one that has not armed");
    let mut alt = alternate(a, &pair.b, 2, &setup)?;
    let load = |alt| a.qp.modify(&Modify::Update(Update { alt: Some(alt), ..Update::default() }));
    load(alt)?;
    check_refused!(ask(a, Migration::Armed), VerbsError::Invalid(_), "arming by hand");
    ask(a, Migration::Rearm)?;
    check_refused!(
        ask(a, Migration::Migrated),
        VerbsError::Invalid(_),
        "a move by one that has only rearmed"
    );
    alt.path.port = 0;
    check_refused!(load(alt), VerbsError::Invalid(_), "an alternate path by a port that is not there");
    exchange(bed, &pair)
}

fn a_connection_moves_to_its_alternate_path_when_asked<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let pair = armed(bed, &setup)?;
    ask(&pair.a, Migration::Migrated)?;
    check_eq!(states(&pair)?, (Migration::Migrated, Migration::Armed), "migration when one end was asked");
    exchange(bed, &pair)?;
    both_moved(bed, &pair, 2)?;
    no_more_events(bed, &pair)
}

fn a_moved_connection_no_longer_needs_its_first_path<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = hasty(bed);
    let pair = armed(bed, &setup)?;
    ask(&pair.a, Migration::Migrated)?;
    exchange(bed, &pair)?;
    both_moved(bed, &pair, 2)?;
    for node in [0, 1] {
        bed.inject(Fault::PortDown { node, device: 0, port: 1 })?;
    }
    exchange(bed, &pair)
}

fn a_connection_whose_retries_are_used_up_moves<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for node in [0, 1] {
        bed.world(2, node as u64)?;
        let setup = hasty(bed);
        let pair = armed(bed, &setup)?;
        bed.inject(Fault::PortDown { node, device: 0, port: 1 })?;
        exchange(bed, &pair)?;
        both_moved(bed, &pair, 2)?;
    }
    Ok(())
}

fn a_connection_that_is_not_armed_does_not_move<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = hasty(bed);
    let pair = bed.pair_with(&setup)?;
    rearm(&pair.a, &pair.b, 2, &setup)?;
    exchange(bed, &pair)?;
    bed.inject(Fault::PortDown { node: 1, device: 0, port: 1 })?;
    pair.a.write(1, 0..8, pair.b.word(0)?)?;
    bed.fails(&pair.a.sends, 1, WcError::RetryExc)
}

fn retries_begin_anew_on_the_alternate_path<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup { retry: retries(2), ..Setup::new(bed) };
    let pair = armed(bed, &setup)?;
    let lost = bed.strike((0, 1), PacketClass::Request, u64::MAX, Act::Drop)?;
    pair.a.write(1, 0..8, pair.b.word(0)?)?;
    bed.fails(&pair.a.sends, 1, WcError::RetryExc)?;
    check_eq!(bed.struck(lost), 6, "attempts: one and two retries on each path");
    check_eq!(event(bed, &pair.a)?, AsyncEvent::PathMigrated(pair.a.qp.num()), "the end that moved");
    check_eq!(pair.b.qp.query()?.migration, Migration::Armed, "the end that nothing reached");
    Ok(())
}

fn the_alternate_paths_time_out_holds_on_it<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup { retry: retries(0), ..Setup::new(bed) };
    let patient = AckTimeout::new(setup.ack.exponent() + 4).expect("a short time-out was asked for");
    let pair = bed.pair_with(&setup)?;
    for (end, peer) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
        let alt = Some(AltPath { timeout: patient, ..alternate(end, peer, 2, &setup)? });
        let update = Update { alt, migration: Some(Migration::Rearm), ..Update::default() };
        end.qp.modify(&Modify::Update(update))?;
    }
    exchange(bed, &pair)?;
    ask(&pair.a, Migration::Migrated)?;
    exchange(bed, &pair)?;
    check_eq!(pair.a.qp.query()?.rts.map(|rts| rts.timeout), Some(patient), "the time-out that is shown");
    bed.strike((0, 1), PacketClass::Request, u64::MAX, Act::Drop)?;
    let begun = bed.now();
    pair.a.write(1, 0..8, pair.b.word(0)?)?;
    bed.fails(&pair.a.sends, 1, WcError::RetryExc)?;
    let (took, span) = (bed.now() - begun, patient.span().expect("a time-out"));
    check!(took >= span && took <= span * 5, "a time-out of {span} on the alternate path took {took}");
    Ok(())
}

fn a_moved_connection_can_be_armed_again<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = hasty(bed);
    let pair = armed(bed, &setup)?;
    ask(&pair.a, Migration::Migrated)?;
    exchange(bed, &pair)?;
    both_moved(bed, &pair, 2)?;
    check_refused!(ask(&pair.a, Migration::Rearm), VerbsError::Invalid(_), "rearming without a new path");
    arm(bed, &pair, 1, &setup)?;
    bed.inject(Fault::PortDown { node: 1, device: 0, port: 2 })?;
    exchange(bed, &pair)?;
    both_moved(bed, &pair, 1)
}

fn a_peer_that_moves_elsewhere_is_not_followed<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = hasty(bed);
    let pair = bed.pair_with(&setup)?;
    rearm(&pair.a, &pair.b, 2, &setup)?;
    // The other end is prepared for a move to the path that is in use already.
    rearm(&pair.b, &pair.a, 1, &setup)?;
    exchange(bed, &pair)?;
    ask(&pair.a, Migration::Migrated)?;
    pair.a.write(1, 0..8, pair.b.word(0)?)?;
    bed.fails(&pair.a.sends, 1, WcError::RetryExc)?;
    check_eq!(event(bed, &pair.b)?, AsyncEvent::PathMigrationFailed(pair.b.qp.num()), "the event");
    check_eq!(pair.b.qp.query()?.migration, Migration::Armed, "migration at the end that did not follow");
    check_eq!(event(bed, &pair.a)?, AsyncEvent::PathMigrated(pair.a.qp.num()), "the other end's event");
    no_more_events(bed, &pair)
}

fn packets_left_on_the_old_path_do_no_harm<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let pair = armed(bed, &setup)?;
    let late = setup.ack.span().expect("a time-out") * 40;
    let delayed = bed.strike((0, 1), PacketClass::AtomicRequest, 1, Act::Delay(late));
    let delayed = match delayed {
        Ok(fault) => fault,
        // A harness that cannot count atomics apart.
        Err(_) => bed.strike((0, 1), PacketClass::Request, 1, Act::Delay(late))?,
    };
    pair.a.fetch_add(1, 0, pair.b.word(64)?, 1)?;
    bed.until_struck(delayed, 1)?;
    ask(&pair.a, Migration::Migrated)?;
    pair.a.fetch_add(2, 8, pair.b.word(64)?, 1)?;
    bed.done(&pair.a.sends, 1)?;
    bed.done(&pair.a.sends, 2)?;
    both_moved(bed, &pair, 2)?;
    bed.advance(late);
    bed.settle();
    check_eq!(pair.b.mr.load(64)?, 2, "the word that was added to twice");
    exchange(bed, &pair)?;
    no_more_events(bed, &pair)
}

/// Requests of each kind and direction that are under way when the cable is cut, and again behind it.
const BATCH: u64 = 24;

fn a_cut_cable_moves_a_busy_connection_without_a_trace<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for seed in 0..bed.timing().seeds.min(40) {
        bed.world(2, seed)?;
        let setup = hasty(bed);
        let pair = armed(bed, &setup)?;
        let node = (seed % 2) as usize;
        work(&pair, 0)?;
        let span = bed.timing().round_trip;
        bed.advance(Nanos(span.0 * (seed + 1) / 8));
        bed.inject(Fault::PortDown { node, device: 0, port: 1 })?;
        work(&pair, BATCH)?;
        everything_happened_once(bed, &pair)?;
        both_moved(bed, &pair, 2)?;
        no_errors_or_events(bed, &pair)?;
    }
    Ok(())
}

/// From each end additions to a word of the other, with the old values kept, and messages.
fn work<V: Verbs>(pair: &Pair<V>, first: u64) -> Outcome {
    for (end, peer) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
        for i in first..first + BATCH {
            let slot = 1_024 + 8 * i as u32;
            end.recv(i, slot + 8_192..slot + 8_200)?;
            end.fetch_add(2 * i, slot, peer.word(64)?, 1)?;
            end.mr.write(4_096 + 8 * i as usize, &i.to_ne_bytes())?;
            let from = 4_096 + 8 * i as u32;
            end.post(2 * i + 1, SendOp::Send { imm: Some(i as u32) }, from..from + 8)?;
        }
    }
    Ok(())
}

fn everything_happened_once<H: Harness>(bed: &mut TestBed<'_, H>, pair: &Pair<H::V>) -> Outcome {
    for end in [&pair.a, &pair.b] {
        for request in 0..4 * BATCH {
            bed.done(&end.sends, request)?;
        }
    }
    for end in [&pair.a, &pair.b] {
        for i in 0..2 * BATCH {
            check_eq!(bed.done(&end.recvs, i)?.imm, Some(i as u32), "the message that came next");
            let slot = 1_024 + 8 * i as usize;
            check_eq!(end.mr.load(slot)?, i, "the value before addition {i}");
            check_eq!(end.mr.load(slot + 8_192)?, i, "the bytes of message {i}");
        }
        check_eq!(end.mr.load(64)?, 2 * BATCH, "the word that was added to");
    }
    Ok(())
}

fn no_errors_or_events<H: Harness>(bed: &mut TestBed<'_, H>, pair: &Pair<H::V>) -> Outcome {
    bed.settle();
    for end in [&pair.a, &pair.b] {
        check!(end.poll_sends()?.is_empty() && end.poll_recvs()?.is_empty(), "something completed twice");
        check_eq!(end.qp.state(), QpState::Rts, "the state after the move");
        while let Some(seen) = end.ctx.async_event() {
            check!(matches!(seen, AsyncEvent::PortError(_)), "a further event: {seen:?}");
        }
    }
    Ok(())
}
