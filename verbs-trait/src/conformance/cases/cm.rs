//! The connection manager (IBA chapter 12).

use super::cm_kit::*;
use super::prelude::*;

cases! { "cm":
    a_connection_is_made_and_carries_data_both_ways, "12.9.7";
    private_data_arrives_with_each_message, "12.6";
    private_data_beyond_its_bound_is_refused, "12.6";
    the_passive_side_may_reject, "12.6.7";
    nobody_listening_is_a_rejection, "12.6.7.2";
    a_disconnected_peer_is_told, "12.6.10";
    a_disconnection_does_not_touch_the_queue_pair, "contract, CmEvent::Disconnected";
    a_forgotten_identity_is_refused, "contract, disconnect";
    a_queue_pair_that_is_not_in_init_is_refused, "contract, connect";
    a_second_listener_on_a_service_is_refused, "contract, listen";
    many_connections_can_be_made_to_one_listener, "12.9.7";
    both_sides_can_connect_at_once, "12.9.7";
    a_node_can_connect_to_itself_through_the_manager, "12.9.7";
    receives_posted_before_the_connection_take_its_first_messages, "contract, ConnectionManager";
    agreed_limits_are_the_smaller_of_both, "12.7";
    packets_are_no_larger_than_the_ports_can, "12.7";
}

fn a_connection_is_made_and_carries_data_both_ways<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let managers = managers(bed)?;
    let Joined { pair, .. } = joined(bed, &managers)?;
    talk(bed, &pair)?;
    pair.a.write(3, 0..5_000, pair.b.remote(0..5_000)?)?;
    pair.b.read(4, 0..5_000, pair.a.remote(0..5_000)?)?;
    bed.done(&pair.a.sends, 3)?;
    bed.done(&pair.b.sends, 4)?;
    no_more_events(bed, &managers)
}

fn private_data_arrives_with_each_message<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (active, passive) = managers(bed)?;
    let setup = Setup::new(bed);
    for len in [0, 1, MAX_PRIVATE_REQUEST] {
        let (a, b) = (ready(bed, 0, &setup)?, ready(bed, 1, &setup)?);
        let id = resolved(bed, &active, 1)?;
        active.connect(id, &a.qp, &params(&setup, &pattern(len, 1)))?;
        let request = bed.cm_event(&passive)?;
        let CmEvent::Request { id: to, private, .. } = request else {
            return Err(Failure::new(format!("expected a request, saw {request:?}")));
        };
        // A transport may pad private data to its message's size; the bytes sent come first.
        check!(private.starts_with(&pattern(len, 1)), "the request's private data: {private:?}");
        let answer = pattern(if len == 0 { 0 } else { MAX_PRIVATE_ACCEPT }, 2);
        passive.accept(to, &b.qp, &params(&setup, &answer))?;
        match bed.cm_event(&active)? {
            CmEvent::Established { private, .. } if private.starts_with(&answer) => {}
            other => return Err(Failure::new(format!("expected the answer's private data, saw {other:?}"))),
        }
        check!(
            matches!(bed.cm_event(&passive)?, CmEvent::Established { .. }),
            "no connection at the passive side"
        );
    }
    Ok(())
}

fn private_data_beyond_its_bound_is_refused<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (active, passive) = managers(bed)?;
    let setup = Setup::new(bed);
    let (a, b) = (ready(bed, 0, &setup)?, ready(bed, 1, &setup)?);
    let id = resolved(bed, &active, 1)?;
    let long = pattern(1_000, 1);
    check_refused!(
        active.connect(id, &a.qp, &params(&setup, &long[..=MAX_PRIVATE_REQUEST])),
        VerbsError::TooLarge { .. },
        "a request with too much private data"
    );
    active.connect(id, &a.qp, &params(&setup, &[]))?;
    let to = requested(bed, &passive, &[])?;
    check_refused!(
        passive.accept(to, &b.qp, &params(&setup, &long[..=MAX_PRIVATE_ACCEPT])),
        VerbsError::TooLarge { .. },
        "an acceptance with too much private data"
    );
    check_refused!(
        passive.reject(to, &long[..=MAX_PRIVATE_REJECT]),
        VerbsError::TooLarge { .. },
        "a rejection with too much private data"
    );
    passive.accept(to, &b.qp, &params(&setup, &[]))?;
    check!(
        matches!(bed.cm_event(&active)?, CmEvent::Established { .. }),
        "no connection after refused calls"
    );
    Ok(())
}

fn the_passive_side_may_reject<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let managers = managers(bed)?;
    let (active, passive) = &managers;
    let setup = Setup::new(bed);
    let a = ready(bed, 0, &setup)?;
    for private in [&b""[..], b"go away"] {
        let (id, to) = asked(bed, [active, passive], (&a, 1), &setup, &[])?;
        passive.reject(to, private)?;
        match bed.cm_event(active)? {
            CmEvent::Rejected { id: seen, reason: RejectReason::Consumer, private: told }
                if seen == id && told.starts_with(private) => {}
            other => return Err(Failure::new(format!("expected a rejection, saw {other:?}"))),
        }
        check!(
            matches!(a.qp.state(), QpState::Init | QpState::Err),
            "a rejected queue pair is in {}",
            a.qp.state()
        );
        no_more_events(bed, &managers)?;
        a.qp.modify(&Modify::Reset)?;
        a.qp.modify(&a.to_init(&setup))?;
    }
    Ok(())
}

fn nobody_listening_is_a_rejection<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (active, _) = managers(bed)?;
    let setup = Setup::new(bed);
    let a = ready(bed, 0, &setup)?;
    let name = bed.machines[1].name.clone();
    let id = active.resolve(&name, Service(SERVICE.0 + 1))?;
    check_eq!(bed.cm_event(&active)?, CmEvent::Resolved { id }, "the answer to resolve");
    active.connect(id, &a.qp, &params(&setup, &[]))?;
    match bed.cm_event(&active)? {
        CmEvent::Rejected { id: seen, reason: RejectReason::NoListener, .. } if seen == id => Ok(()),
        other => Err(Failure::new(format!("expected a rejection for want of a listener, saw {other:?}"))),
    }
}

fn a_disconnected_peer_is_told<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let managers = managers(bed)?;
    let (active, passive) = &managers;
    let one = joined(bed, &managers)?;
    let other = joined(bed, &managers)?;
    // Either side may end a connection; each ends another one here.
    active.disconnect(other.from)?;
    check_eq!(bed.cm_event(passive)?, CmEvent::Disconnected { id: other.to }, "the passive side's event");
    passive.disconnect(one.to)?;
    check_eq!(bed.cm_event(active)?, CmEvent::Disconnected { id: one.from }, "the active side's event");
    no_more_events(bed, &managers)
}

fn a_disconnection_does_not_touch_the_queue_pair<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let managers = managers(bed)?;
    let Joined { pair, from, to } = joined(bed, &managers)?;
    pair.b.recv(7, 0..64)?;
    managers.0.disconnect(from)?;
    check_eq!(bed.cm_event(&managers.1)?, CmEvent::Disconnected { id: to }, "the passive side's event");
    check_eq!(pair.b.qp.state(), QpState::Rts, "the passive side's queue pair");
    check!(pair.b.poll_recvs()?.is_empty(), "a receive was flushed");
    Ok(())
}

fn a_forgotten_identity_is_refused<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let managers = managers(bed)?;
    let (active, _) = &managers;
    let setup = Setup::new(bed);
    let Joined { pair, from, .. } = joined(bed, &managers)?;
    active.disconnect(from)?;
    check!(
        active.connect(from, &pair.a.qp, &params(&setup, &[])).is_err(),
        "connect by a forgotten identity"
    );
    let never = CmId(0xdead_beef);
    check!(
        active.connect(never, &pair.a.qp, &params(&setup, &[])).is_err(),
        "connect by an unknown identity"
    );
    check!(active.accept(never, &pair.a.qp, &params(&setup, &[])).is_err(), "accept by an unknown identity");
    check!(active.reject(never, &[]).is_err(), "reject by an unknown identity");
    check!(active.disconnect(never).is_err(), "disconnect by an unknown identity");
    Ok(())
}

fn a_queue_pair_that_is_not_in_init_is_refused<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (active, _) = managers(bed)?;
    let setup = Setup::new(bed);
    let a = bed.end(0, &setup)?;
    let id = resolved(bed, &active, 1)?;
    check_refused!(
        active.connect(id, &a.qp, &params(&setup, &[])),
        VerbsError::WrongState { .. },
        "a connection of a queue pair in Reset"
    );
    a.qp.modify(&a.to_init(&setup))?;
    a.qp.modify(&Modify::Err)?;
    check_refused!(
        active.connect(id, &a.qp, &params(&setup, &[])),
        VerbsError::WrongState { .. },
        "a connection of a queue pair in error"
    );
    Ok(())
}

fn a_second_listener_on_a_service_is_refused<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (_, passive) = managers(bed)?;
    check!(passive.listen(SERVICE).is_err(), "a second listener on one service");
    passive.listen(Service(SERVICE.0 + 1))?;
    Ok(())
}

fn many_connections_can_be_made_to_one_listener<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let managers = managers(bed)?;
    let joins: Vec<_> = (0..10).map(|_| joined(bed, &managers)).collect::<Outcome<_>>()?;
    for one in &joins {
        talk(bed, &one.pair)?;
    }
    Ok(())
}

/// Two nodes that ask each other at the same time get two connections.
fn both_sides_can_connect_at_once<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (one, other) = managers(bed)?;
    one.listen(SERVICE)?;
    let setup = Setup::new(bed);
    let asking = [ready(bed, 0, &setup)?, ready(bed, 1, &setup)?];
    let asked = [ready(bed, 1, &setup)?, ready(bed, 0, &setup)?];
    let ids = [resolved(bed, &one, 1)?, resolved(bed, &other, 0)?];
    one.connect(ids[0], &asking[0].qp, &params(&setup, &[]))?;
    other.connect(ids[1], &asking[1].qp, &params(&setup, &[]))?;
    let (at_one, at_other) = (requested(bed, &one, &[])?, requested(bed, &other, &[])?);
    one.accept(at_one, &asked[1].qp, &params(&setup, &[]))?;
    other.accept(at_other, &asked[0].qp, &params(&setup, &[]))?;
    for cm in [&one, &other] {
        for _ in 0..2 {
            let seen = bed.cm_event(cm)?;
            check!(matches!(seen, CmEvent::Established { .. }), "expected a connection, saw {seen:?}");
        }
    }
    for (a, b) in asking.into_iter().zip(asked) {
        talk(bed, &Pair { a, b })?;
    }
    Ok(())
}

fn a_node_can_connect_to_itself_through_the_manager<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (cm, _) = managers(bed)?;
    cm.listen(SERVICE)?;
    let setup = Setup::new(bed);
    let (a, b) = (ready(bed, 0, &setup)?, ready(bed, 0, &setup)?);
    let (_, to) = asked(bed, [&cm, &cm], (&a, 0), &setup, &[])?;
    cm.accept(to, &b.qp, &params(&setup, &[]))?;
    for _ in 0..2 {
        let seen = bed.cm_event(&cm)?;
        check!(matches!(seen, CmEvent::Established { .. }), "expected a connection, saw {seen:?}");
    }
    talk(bed, &Pair { a, b })
}

fn receives_posted_before_the_connection_take_its_first_messages<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    let managers = managers(bed)?;
    let mut setup = Setup::new(bed);
    setup.rnr_retry = Retries::NONE;
    let pair = Pair { a: ready(bed, 0, &setup)?, b: ready(bed, 1, &setup)? };
    pair.a.recv(1, 0..64)?;
    pair.b.recv(2, 0..64)?;
    join(bed, &managers, &pair, &setup)?;
    pair.a.send(3, 0..64)?;
    pair.b.send(4, 0..64)?;
    bed.done(&pair.a.recvs, 1)?;
    bed.done(&pair.b.recvs, 2)?;
    Ok(())
}

fn agreed_limits_are_the_smaller_of_both<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let managers = managers(bed)?;
    let (active, passive) = &managers;
    let setup = Setup::new(bed);
    let (a, b) = (ready(bed, 0, &setup)?, ready(bed, 1, &setup)?);
    let id = resolved(bed, active, 1)?;
    let wide = ConnParams {
        initiator_depth: 4,
        responder_resources: 3,
        mtu: Some(Mtu::B1024),
        ..params(&setup, &[])
    };
    let narrow = ConnParams {
        initiator_depth: 4,
        responder_resources: 2,
        mtu: Some(Mtu::B512),
        ..params(&setup, &[])
    };
    active.connect(id, &a.qp, &wide)?;
    let to = requested(bed, passive, &[])?;
    passive.accept(to, &b.qp, &narrow)?;
    for cm in [active, passive] {
        check!(matches!(bed.cm_event(cm)?, CmEvent::Established { .. }), "no connection");
    }
    let (a, b) = (a.qp.query()?, b.qp.query()?);
    let mtu = |q: &QpAttr| q.rtr.map(|r| r.mtu);
    check_eq!((mtu(&a), mtu(&b)), (Some(Mtu::B512), Some(Mtu::B512)), "the path's MTU at both ends");
    let depth = |q: &QpAttr| q.rts.map_or(u8::MAX, |r| r.max_rd_atomic);
    check!(
        depth(&a) <= 2 && depth(&b) <= 3,
        "more in flight than the peer serves: {}, {}",
        depth(&a),
        depth(&b)
    );
    Ok(())
}

fn packets_are_no_larger_than_the_ports_can<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let managers = managers(bed)?;
    let (active, passive) = &managers;
    let setup = Setup::new(bed);
    let (a, b) = (ready(bed, 0, &setup)?, ready(bed, 1, &setup)?);
    let can = |node: usize| bed.ctx(node).port_attr(bed.machines[node].port).map(|port| port.active_mtu);
    let most = can(0)?.min(can(1)?);
    let largest = ConnParams { mtu: Some(Mtu::B4096), ..params(&setup, &[]) };
    let id = resolved(bed, active, 1)?;
    active.connect(id, &a.qp, &largest)?;
    let to = requested(bed, passive, &[])?;
    passive.accept(to, &b.qp, &largest)?;
    for cm in [active, passive] {
        check!(matches!(bed.cm_event(cm)?, CmEvent::Established { .. }), "no connection");
    }
    let mtu = |q: QpAttr| q.rtr.map(|r| r.mtu);
    let (a, b) = (mtu(a.qp.query()?), mtu(b.qp.query()?));
    check!(a == b && a.is_some_and(|mtu| mtu <= most), "the path's MTU: {a:?}, {b:?}, the ports' {most:?}");
    Ok(())
}
