//! The connection manager in trouble: nobody there, messages lost and doubled (IBA 12.9.7, 12.9.8).

use super::cm_kit::*;
use super::prelude::*;

cases! { "cm_trouble":
    an_unknown_node_is_unreachable, "12.9";
    a_node_that_is_cut_off_is_unreachable, "12.9.7.1", with HarnessCaps::CUT;
    lost_messages_are_repeated, "12.9.8.5", with HarnessCaps::STRIKE;
    doubled_messages_make_one_connection, "12.9.8", with HarnessCaps::STRIKE;
    a_lost_disconnection_is_repeated, "12.9.8", with HarnessCaps::STRIKE;
    an_acceptance_that_comes_too_late_ends_unreachable, "contract, accept", with HarnessCaps::CUT;
    an_attempt_that_was_given_up_leaves_no_connection, "contract, disconnect";
    an_acceptance_of_an_attempt_that_is_given_up_ends_unreachable, "contract, accept", with HarnessCaps::STRIKE;
}

fn an_unknown_node_is_unreachable<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (active, _) = managers(bed)?;
    let id = active.resolve("no-such-node.invalid", SERVICE)?;
    check_eq!(bed.cm_event(&active)?, CmEvent::Unreachable { id }, "the answer to resolve");
    Ok(())
}

fn a_node_that_is_cut_off_is_unreachable<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let managers = managers(bed)?;
    let (active, _) = &managers;
    let setup = Setup::new(bed);
    let a = ready(bed, 0, &setup)?;
    let id = resolved(bed, active, 1)?;
    let cut = bed.inject(Fault::Cut { a: 0, b: 1 })?;
    active.connect(id, &a.qp, &params(&setup, &[]))?;
    check_eq!(bed.cm_event(active)?, CmEvent::Unreachable { id }, "the attempt's end");
    check!(matches!(a.qp.state(), QpState::Init | QpState::Err), "the queue pair is in {}", a.qp.state());
    bed.heal(cut);
    joined(bed, &managers)?;
    Ok(())
}

fn lost_messages_are_repeated<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for (way, skip, count) in
        [((0, 1), 0, 1), ((0, 1), 0, 2), ((1, 0), 0, 1), ((1, 0), 0, 2), ((0, 1), 1, 1), ((1, 0), 1, 1)]
    {
        bed.world(2, 0)?;
        let managers = managers(bed)?;
        let setup = Setup::new(bed);
        let pair = Pair { a: ready(bed, 0, &setup)?, b: ready(bed, 1, &setup)? };
        let (active, passive) = &managers;
        let from = resolved(bed, active, 1)?;
        let class = PacketClass::Cm;
        bed.inject(Fault::Strike { from: way.0, to: way.1, class, skip, count, act: Act::Drop })?;
        let lost = format!("{count} messages from {} lost after {skip}", way.0);
        active.connect(from, &pair.a.qp, &params(&setup, b"hi"))?;
        let to = requested(bed, passive, b"hi").map_err(|e| e.during(&lost))?;
        passive.accept(to, &pair.b.qp, &params(&setup, b"ho"))?;
        let established = CmEvent::Established { id: from, private: b"ho".to_vec() };
        check_eq!(bed.cm_event(active).map_err(|e| e.during(&lost))?, established, "{lost}");
        let established = CmEvent::Established { id: to, private: Vec::new() };
        check_eq!(bed.cm_event(passive).map_err(|e| e.during(&lost))?, established, "{lost}");
        talk(bed, &pair)?;
        no_more_events(bed, &managers)?;
    }
    Ok(())
}

fn doubled_messages_make_one_connection<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let managers = managers(bed)?;
    for way in [(0, 1), (1, 0)] {
        bed.strike(way, PacketClass::Cm, u64::MAX, Act::Duplicate)?;
    }
    let Joined { pair, from, to } = joined(bed, &managers)?;
    talk(bed, &pair)?;
    no_more_events(bed, &managers)?;
    managers.0.disconnect(from)?;
    check_eq!(bed.cm_event(&managers.1)?, CmEvent::Disconnected { id: to }, "the end");
    no_more_events(bed, &managers)
}

fn a_lost_disconnection_is_repeated<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for way in [(0, 1), (1, 0)] {
        bed.world(2, 0)?;
        let managers = managers(bed)?;
        let Joined { from, to, .. } = joined(bed, &managers)?;
        bed.settle();
        bed.strike(way, PacketClass::Cm, 1, Act::Drop)?;
        managers.0.disconnect(from)?;
        check_eq!(bed.cm_event(&managers.1)?, CmEvent::Disconnected { id: to }, "the passive side's event");
        no_more_events(bed, &managers)?;
    }
    Ok(())
}

fn an_acceptance_that_comes_too_late_ends_unreachable<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let managers: Managers<H> = managers(bed)?;
    let (active, passive) = &managers;
    let setup = Setup::new(bed);
    let (a, b) = (ready(bed, 0, &setup)?, ready(bed, 1, &setup)?);
    let (id, to) = asked(bed, [active, passive], (&a, 1), &setup, &[])?;
    let cut = bed.inject(Fault::Cut { a: 0, b: 1 })?;
    check_eq!(bed.cm_event(active)?, CmEvent::Unreachable { id }, "the active side gives up");
    passive.accept(to, &b.qp, &params(&setup, &[]))?;
    check_eq!(bed.cm_event(passive)?, CmEvent::Unreachable { id: to }, "the end of the acceptance");
    bed.heal(cut);
    no_more_events(bed, &managers)
}

fn an_attempt_that_was_given_up_leaves_no_connection<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let managers: Managers<H> = managers(bed)?;
    let (active, passive) = &managers;
    let setup = Setup::new(bed);
    let a = ready(bed, 0, &setup)?;
    let (id, to) = asked(bed, [active, passive], (&a, 1), &setup, &[])?;
    active.disconnect(id)?;
    bed.settle();
    let b = ready(bed, 1, &setup)?;
    // Refused at once if the passive side has been told already; otherwise it finds nobody there.
    if passive.accept(to, &b.qp, &params(&setup, &[])).is_ok() {
        check_eq!(bed.cm_event(passive)?, CmEvent::Unreachable { id: to }, "the end of the acceptance");
    }
    check_eq!(active.event(), None, "an event of an attempt that was forgotten");
    Ok(())
}

fn an_acceptance_of_an_attempt_that_is_given_up_ends_unreachable<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    let managers: Managers<H> = managers(bed)?;
    let (active, passive) = &managers;
    let setup = Setup::new(bed);
    let (a, b) = (ready(bed, 0, &setup)?, ready(bed, 1, &setup)?);
    let (id, to) = asked(bed, [active, passive], (&a, 1), &setup, &[])?;
    // The active side gives up while the answer is under way.
    bed.strike((1, 0), PacketClass::Cm, 1, Act::Drop)?;
    passive.accept(to, &b.qp, &params(&setup, &[]))?;
    active.disconnect(id)?;
    check_eq!(bed.cm_event(passive)?, CmEvent::Unreachable { id: to }, "the end of the acceptance");
    no_more_events(bed, &managers)
}
