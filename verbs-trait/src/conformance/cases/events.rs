//! Asynchronous events about a queue pair (IBA 11.6.3).

use super::prelude::*;

cases! { "events":
    a_refused_key_is_an_access_error_at_the_responder, "11.6.3.3", needs Caps::QP_EVENTS;
    a_request_that_cannot_be_executed_is_a_request_error_at_the_responder, "11.6.3.3", needs Caps::QP_EVENTS;
    the_first_message_before_ready_to_send_is_told, "11.6.3.2", needs Caps::QP_EVENTS;
    a_peaceful_life_raises_no_event, "11.6.3";
    events_go_to_the_context_of_their_object, "11.6.3", needs Caps::QP_EVENTS;
}

/// Writes with a key that does not exist; the peer's queue pair refuses it.
fn write_badly<H: Harness>(bed: &mut TestBed<'_, H>, Pair { a, b }: &Pair<H::V>) -> Outcome {
    let right = b.remote(0..8)?;
    a.write(1, 0..8, RemoteSlice { rkey: !right.rkey, ..right })?;
    bed.fails(&a.sends, 1, WcError::RemAccess)
}

fn no_more<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    bed.settle();
    for node in 0..bed.machines.len() {
        check_eq!(bed.ctx(node).async_event(), None, "a further event of node {node}");
    }
    Ok(())
}

fn a_refused_key_is_an_access_error_at_the_responder<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    write_badly(bed, &pair)?;
    check_eq!(bed.async_event(&pair.b.ctx)?, AsyncEvent::QpAccessError(pair.b.qp.num()), "the event");
    no_more(bed)
}

fn a_request_that_cannot_be_executed_is_a_request_error_at_the_responder<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    let mut setup = Setup::new(bed);
    setup.access = AccessFlags::empty();
    let Pair { a, b } = bed.pair_with(&setup)?;
    a.read(1, 0..8, b.word(0)?)?;
    bed.fails(&a.sends, 1, WcError::RemInvReq)?;
    check_eq!(bed.async_event(&b.ctx)?, AsyncEvent::QpRequestError(b.qp.num()), "the event");
    no_more(bed)
}

fn the_first_message_before_ready_to_send_is_told<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let (a, b) = (bed.end(0, &setup)?, bed.end(1, &setup)?);
    b.qp.modify(&b.to_init(&setup))?;
    b.qp.modify(&b.to_rtr(&a, &setup, 1)?)?;
    a.connect(&b, &setup, 0)?;
    for i in 0..2 {
        b.recv(i, 0..8)?;
        a.send(i, 0..8)?;
        bed.done(&b.recvs, i)?;
    }
    check_eq!(bed.async_event(&b.ctx)?, AsyncEvent::CommEstablished(b.qp.num()), "the event");
    no_more(bed)
}

fn a_peaceful_life_raises_no_event<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    {
        let Pair { a, b } = bed.pair()?;
        b.recv(1, 0..8)?;
        a.send(2, 0..8)?;
        bed.done(&a.sends, 2)?;
        bed.done(&b.recvs, 1)?;
        a.qp.modify(&Modify::Err)?;
        b.qp.modify(&Modify::Reset)?;
    }
    no_more(bed)
}

fn events_go_to_the_context_of_their_object<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    bed.at_least(2)?;
    let bystander = bed.machines[1].device.open()?;
    let pair = bed.pair()?;
    write_badly(bed, &pair)?;
    bed.async_event(&pair.b.ctx)?;
    check_eq!(bystander.async_event(), None, "an event of another context of the device");
    Ok(())
}
