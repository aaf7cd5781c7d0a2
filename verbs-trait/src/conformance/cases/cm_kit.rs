//! Connections through the connection manager: what its cases share.

use super::prelude::*;

pub(super) const SERVICE: Service = Service(4_791);

pub(super) type Managers<H> = (<<H as Harness>::V as Verbs>::Cm, <<H as Harness>::V as Verbs>::Cm);

/// The connection managers of two fresh nodes, the second listening.
pub(super) fn managers<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome<Managers<H>> {
    bed.at_least(2)?;
    let (active, passive) = (bed.ctx(0).connection_manager()?, bed.ctx(1).connection_manager()?);
    passive.listen(SERVICE)?;
    Ok((active, passive))
}

pub(super) fn params<'a>(setup: &Setup, private: &'a [u8]) -> ConnParams<'a> {
    ConnParams {
        private,
        responder_resources: setup.serves,
        initiator_depth: setup.depth,
        timeout: setup.ack,
        retry: setup.retry,
        rnr_retry: setup.rnr_retry,
        min_rnr_timer: setup.rnr_timer,
        mtu: None,
        traffic_class: 0,
    }
}

/// An end whose queue pair is in Init, as the manager takes it.
pub(super) fn ready<H: Harness>(bed: &mut TestBed<'_, H>, node: usize, setup: &Setup) -> Outcome<End<H::V>> {
    let end = bed.end(node, setup)?;
    end.qp.modify(&end.to_init(setup))?;
    Ok(end)
}

pub(super) fn resolved<H: Harness>(
    bed: &mut TestBed<'_, H>,
    cm: &<H::V as Verbs>::Cm,
    node: usize,
) -> Outcome<CmId> {
    let name = bed.machines[node].name.clone();
    let id = cm.resolve(&name, SERVICE)?;
    check_eq!(bed.cm_event(cm)?, CmEvent::Resolved { id }, "the answer to resolve");
    Ok(id)
}

pub(super) fn requested<H: Harness>(
    bed: &mut TestBed<'_, H>,
    cm: &<H::V as Verbs>::Cm,
    data: &[u8],
) -> Outcome<CmId> {
    match bed.cm_event(cm)? {
        CmEvent::Request { id, service: SERVICE, private } if private == data => Ok(id),
        other => Err(Failure::new(format!("expected a request with {data:?}, saw {other:?}"))),
    }
}

/// A request of a ready end to a node, once it is there: the identities on both sides.
pub(super) fn asked<H: Harness>(
    bed: &mut TestBed<'_, H>,
    [active, passive]: [&<H::V as Verbs>::Cm; 2],
    (end, node): (&End<H::V>, usize),
    setup: &Setup,
    data: &[u8],
) -> Outcome<(CmId, CmId)> {
    let from = resolved(bed, active, node)?;
    active.connect(from, &end.qp, &params(setup, data))?;
    Ok((from, requested(bed, passive, data)?))
}

/// A connection between two ready ends, by the managers' events: the identities on both sides.
pub(super) fn join<H: Harness>(
    bed: &mut TestBed<'_, H>,
    (active, passive): &Managers<H>,
    Pair { a, b }: &Pair<H::V>,
    setup: &Setup,
) -> Outcome<(CmId, CmId)> {
    let (from, to) = asked(bed, [active, passive], (a, b.node), setup, b"please")?;
    passive.accept(to, &b.qp, &params(setup, b"welcome"))?;
    let seen = bed.cm_event(active)?;
    check_eq!(
        seen,
        CmEvent::Established { id: from, private: b"welcome".to_vec() },
        "the active side's event"
    );
    let seen = bed.cm_event(passive)?;
    check_eq!(seen, CmEvent::Established { id: to, private: Vec::new() }, "the passive side's event");
    check_eq!((a.qp.state(), b.qp.state()), (QpState::Rts, QpState::Rts), "both states");
    Ok((from, to))
}

/// A connection that stands: its ends, and its identities on the active and the passive side.
pub(super) struct Joined<V: Verbs> {
    pub pair: Pair<V>,
    pub from: CmId,
    pub to: CmId,
}

pub(super) fn joined<H: Harness>(bed: &mut TestBed<'_, H>, managers: &Managers<H>) -> Outcome<Joined<H::V>> {
    let setup = Setup::new(bed);
    let pair = Pair { a: ready(bed, 0, &setup)?, b: ready(bed, 1, &setup)? };
    let (from, to) = join(bed, managers, &pair, &setup)?;
    Ok(Joined { pair, from, to })
}

/// A message each way.
pub(super) fn talk<H: Harness>(bed: &mut TestBed<'_, H>, Pair { a, b }: &Pair<H::V>) -> Outcome {
    for (from, to) in [(a, b), (b, a)] {
        to.recv(1, 64..128)?;
        from.send(2, 0..64)?;
        bed.done(&from.sends, 2)?;
        bed.done(&to.recvs, 1)?;
    }
    Ok(())
}

pub(super) fn no_more_events<H: Harness>(
    bed: &mut TestBed<'_, H>,
    (active, passive): &Managers<H>,
) -> Outcome {
    bed.settle();
    check_eq!((active.event(), passive.event()), (None, None), "further events");
    Ok(())
}
