//! What provokes each completion status (IBA 11.6.2).

use super::prelude::*;

cases! { "statuses":
    a_response_that_does_not_fit_its_request_is_bad, "9.7.6.1.1; 11.6.2", with HarnessCaps::SHORTEN;
    a_read_that_may_never_be_in_flight_fails_locally, "10.8.2; 11.6.2";
}

/// What makes a request of a reliable connection end with a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The case of this group and name provokes it.
    Case(&'static str, &'static str),
    /// Nothing that this contract can ask for does, and why.
    None(&'static str),
}

/// Every completion status, and the case that provokes it.
pub const CAUSES: [(WcError, Cause); 13] = [
    (WcError::LocLen, Cause::Case("data", "a_message_longer_than_its_buffer_fails_on_both_sides")),
    (WcError::LocQpOp, Cause::Case("statuses", "a_read_that_may_never_be_in_flight_fails_locally")),
    (WcError::LocProt, Cause::Case("keys", "no_answer_is_put_into_memory_that_the_adapter_may_not_write")),
    (WcError::Flush, Cause::Case("flush", "the_error_state_flushes_both_queues_in_order")),
    (WcError::RemInvReq, Cause::Case("keys", "a_queue_pair_without_the_right_refuses")),
    (WcError::RemAccess, Cause::Case("keys", "a_wrong_remote_key_is_refused")),
    (WcError::RemOp, Cause::Case("keys", "no_message_is_put_into_memory_that_the_adapter_may_not_write")),
    (WcError::RetryExc, Cause::Case("retries", "one_loss_more_than_retries_is_fatal")),
    (WcError::RnrRetryExc, Cause::Case("rnr", "exhausted_rnr_retries_are_fatal")),
    (WcError::MwBind, Cause::None("the contract has no memory windows and no fast registration")),
    (WcError::BadResp, Cause::Case("statuses", "a_response_that_does_not_fit_its_request_is_bad")),
    (WcError::Fatal, Cause::None("a device that failed completes nothing; its calls answer DeviceGone")),
    (WcError::General, Cause::None("by definition: a status that the contract has no name for")),
];

fn a_response_that_does_not_fit_its_request_is_bad<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for len in [64, 3_000] {
        let Pair { a, b } = bed.pair()?;
        bed.strike((1, 0), PacketClass::ReadResponse, 1, Act::Shorten)?;
        a.read(1, 0..len, b.remote(0..len as usize)?)?;
        a.read(2, 0..8, b.remote(0..8)?)?;
        bed.fails(&a.sends, 1, WcError::BadResp)?;
        bed.fails(&a.sends, 2, WcError::Flush)?;
        check_eq!(a.qp.state(), QpState::Err, "the requester's state");
    }
    Ok(())
}

/// With no read in flight allowed, a read is at odds with its queue pair. A backend may say so at the post.
fn a_read_that_may_never_be_in_flight_fails_locally<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    setup.depth = 0;
    let Pair { a, b } = bed.pair_with(&setup)?;
    a.write(1, 0..8, b.word(0)?)?;
    bed.done(&a.sends, 1)?;
    match a.read(2, 0..8, b.word(0)?) {
        Err(PostError { posted: 0, why: VerbsError::Invalid(_) | VerbsError::TooLarge { .. } }) => Ok(()),
        Err(other) => Err(Failure::new(format!("a read where none may be in flight: {other}"))),
        Ok(()) => bed.fails(&a.sends, 2, WcError::LocQpOp),
    }
}
