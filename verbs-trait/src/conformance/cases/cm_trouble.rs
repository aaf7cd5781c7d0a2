//! The connection manager in trouble: nobody there, messages lost and doubled (IBA 12.9.7, 12.9.8).

use super::cm_kit::*;
use super::prelude::*;

cases! { "cm_trouble":
    an_unknown_node_is_unreachable, "12.9";
    a_node_that_is_cut_off_is_unreachable, "12.9.7.1", with Powers::CUT;
    lost_messages_are_repeated, "12.9.8.5", with Powers::STRIKE;
    doubled_messages_make_one_connection, "12.9.8", with Powers::STRIKE;
    a_lost_disconnection_is_repeated, "12.9.8", with Powers::STRIKE;
    an_acceptance_that_comes_too_late_ends_unreachable, "contract, accept", with Powers::CUT;
    an_attempt_that_was_given_up_leaves_no_connection, "contract, disconnect";
}

fn an_unknown_node_is_unreachable<H: Harness>(lab: &mut Lab<'_, H>) -> Outcome {
    let (active, _) = managers(lab)?;
    let id = active.resolve("no-such-node.invalid", SERVICE)?;
    check_eq!(lab.cm_event(&active)?, CmEvent::Unreachable { id }, "the answer to resolve");
    Ok(())
}

fn a_node_that_is_cut_off_is_unreachable<H: Harness>(lab: &mut Lab<'_, H>) -> Outcome {
    let managers = managers(lab)?;
    let (active, _) = &managers;
    let setup = Setup::new(lab);
    let a = ready(lab, 0, &setup)?;
    let id = resolved(lab, active, 1)?;
    let cut = lab.inject(Fault::Cut { a: 0, b: 1 })?;
    active.connect(id, &a.qp, &params(&setup, &[]))?;
    check_eq!(lab.cm_event(active)?, CmEvent::Unreachable { id }, "the attempt's end");
    check!(matches!(a.qp.state(), QpState::Init | QpState::Err), "the queue pair is in {}", a.qp.state());
    lab.heal(cut);
    joined(lab, &managers)?;
    Ok(())
}

fn lost_messages_are_repeated<H: Harness>(lab: &mut Lab<'_, H>) -> Outcome {
    for (way, skip, count) in
        [((0, 1), 0, 1), ((0, 1), 0, 2), ((1, 0), 0, 1), ((1, 0), 0, 2), ((0, 1), 1, 1), ((1, 0), 1, 1)]
    {
        lab.world(2, 0)?;
        let managers = managers(lab)?;
        let setup = Setup::new(lab);
        let pair = Pair { a: ready(lab, 0, &setup)?, b: ready(lab, 1, &setup)? };
        let (active, passive) = &managers;
        let from = resolved(lab, active, 1)?;
        let class = PacketClass::Cm;
        lab.inject(Fault::Strike { from: way.0, to: way.1, class, skip, count, act: Act::Drop })?;
        let lost = format!("{count} messages from {} lost after {skip}", way.0);
        active.connect(from, &pair.a.qp, &params(&setup, b"hi"))?;
        let to = requested(lab, passive, b"hi").map_err(|e| e.during(&lost))?;
        passive.accept(to, &pair.b.qp, &params(&setup, b"ho"))?;
        let established = CmEvent::Established { id: from, private: b"ho".to_vec() };
        check_eq!(lab.cm_event(active).map_err(|e| e.during(&lost))?, established, "{lost}");
        let established = CmEvent::Established { id: to, private: Vec::new() };
        check_eq!(lab.cm_event(passive).map_err(|e| e.during(&lost))?, established, "{lost}");
        talk(lab, &pair)?;
        no_more_events(lab, &managers)?;
    }
    Ok(())
}

fn doubled_messages_make_one_connection<H: Harness>(lab: &mut Lab<'_, H>) -> Outcome {
    let managers = managers(lab)?;
    for way in [(0, 1), (1, 0)] {
        lab.strike(way, PacketClass::Cm, u64::MAX, Act::Duplicate)?;
    }
    let Joined { pair, from, to } = joined(lab, &managers)?;
    talk(lab, &pair)?;
    no_more_events(lab, &managers)?;
    managers.0.disconnect(from)?;
    check_eq!(lab.cm_event(&managers.1)?, CmEvent::Disconnected { id: to }, "the end");
    no_more_events(lab, &managers)
}

fn a_lost_disconnection_is_repeated<H: Harness>(lab: &mut Lab<'_, H>) -> Outcome {
    for way in [(0, 1), (1, 0)] {
        lab.world(2, 0)?;
        let managers = managers(lab)?;
        let Joined { from, to, .. } = joined(lab, &managers)?;
        lab.settle();
        lab.strike(way, PacketClass::Cm, 1, Act::Drop)?;
        managers.0.disconnect(from)?;
        check_eq!(lab.cm_event(&managers.1)?, CmEvent::Disconnected { id: to }, "the passive side's event");
        no_more_events(lab, &managers)?;
    }
    Ok(())
}

fn an_acceptance_that_comes_too_late_ends_unreachable<H: Harness>(lab: &mut Lab<'_, H>) -> Outcome {
    let managers: Managers<H> = managers(lab)?;
    let (active, passive) = &managers;
    let setup = Setup::new(lab);
    let (a, b) = (ready(lab, 0, &setup)?, ready(lab, 1, &setup)?);
    let id = resolved(lab, active, 1)?;
    active.connect(id, &a.qp, &params(&setup, &[]))?;
    let to = requested(lab, passive, &[])?;
    let cut = lab.inject(Fault::Cut { a: 0, b: 1 })?;
    check_eq!(lab.cm_event(active)?, CmEvent::Unreachable { id }, "the active side gives up");
    passive.accept(to, &b.qp, &params(&setup, &[]))?;
    check_eq!(lab.cm_event(passive)?, CmEvent::Unreachable { id: to }, "the end of the acceptance");
    lab.heal(cut);
    no_more_events(lab, &managers)
}

fn an_attempt_that_was_given_up_leaves_no_connection<H: Harness>(lab: &mut Lab<'_, H>) -> Outcome {
    let managers: Managers<H> = managers(lab)?;
    let (active, passive) = &managers;
    let setup = Setup::new(lab);
    let a = ready(lab, 0, &setup)?;
    let id = resolved(lab, active, 1)?;
    active.connect(id, &a.qp, &params(&setup, &[]))?;
    let to = requested(lab, passive, &[])?;
    active.disconnect(id)?;
    lab.settle();
    let b = ready(lab, 1, &setup)?;
    // Refused at once if the passive side has been told already; otherwise it finds nobody there.
    if passive.accept(to, &b.qp, &params(&setup, &[])).is_ok() {
        let seen = lab.cm_event(passive)?;
        check!(
            matches!(
                seen,
                CmEvent::Unreachable { .. } | CmEvent::Rejected { .. } | CmEvent::Disconnected { .. }
            ),
            "an acceptance of an attempt that was given up ended in {seen:?}"
        );
    }
    check_eq!(active.event(), None, "an event of an attempt that was forgotten");
    Ok(())
}
