//! Where Soft-RoCE departs from the specification, with the evidence: known, listed in the table, and no failure of the
//! backend. Each says what it looks like, so that it hides no other failure of the case; a case that is listed and passes is
//! reported, so that the list stays true.

/// A case that does not pass, and why.
pub struct Departure {
    pub group: &'static str,
    pub case: &'static str,
    /// What the failure looks like: its text contains one of these. Another failure of the case is a failure.
    pub shows: &'static [&'static str],
    pub why: &'static str,
}

impl Departure {
    /// Whether it shows as something that never comes, for which there is no use in waiting long.
    pub fn hangs(&self) -> bool {
        self.shows.iter().any(|part| [ENDLESS, IN_VAIN].contains(part))
    }
}

/// A local queue pair operation error in place of another status.
const LOC_QP_OP: &str = "result: Err(LocQpOp)";
/// Games of this group that stop.
const ENDLESS: &str = "the game does not end";
/// What never comes.
const IN_VAIN: &str = "waited in vain for 1 completions";
/// Games in which a request completes without its answer.
const UNANSWERED: &str = "completed and brought nothing";

/// The games of this group end in a fraction of a second without fences; with them, some seeds never do. Linux 6.1 lets a
/// fenced request wait while any read or atomic of its queue pair has a place among those in flight
/// (`rxe_wqe_is_fenced`), its own included: it has one where it was sent before, and is to be sent again because one
/// before it was answered with receiver-not-ready, or was lost.
const FENCE: &str =
    "a fenced read or atomic that rxe has to send again waits for its own place among those in flight";

/// What `check_psn` of `rxe_comp.c` does with a packet of an earlier number than the next one that it expects: if it is the
/// last of the oldest request, the request is completed, be it an atomic or a read whose data is not there yet.
const NOTHING_BROUGHT: &str =
    "rxe may complete a read or an atomic by a late packet without its data; fences as above";

/// Seen on `rdma_rxe` of Linux 6.1.
pub const KNOWN: &[Departure] = &[
    Departure {
        group: "keys",
        case: "a_misaligned_atomic_is_refused",
        shows: &["ibv_post_send failed: Invalid argument"],
        why: "librxe refuses the post (EINVAL) where an adapter answers with an error",
    },
    Departure {
        group: "keys",
        case: "no_message_is_put_into_memory_that_the_adapter_may_not_write",
        shows: &[LOC_QP_OP],
        why: "rxe reports a receive that it may not write as a local queue pair operation error",
    },
    Departure {
        group: "keys",
        case: "a_region_that_goes_amid_a_read_refuses_the_rest",
        shows: &["Ok(Done { op: Read, len: 1048576"],
        why: "rxe holds a region until a read of it is answered in full",
    },
    Departure {
        group: "keys",
        case: "a_region_deregistered_amid_a_read_is_not_read_on",
        shows: &["Ok(Done { op: Read, len: 1048576"],
        why: "as above",
    },
    Departure {
        group: "data",
        case: "a_message_longer_than_its_buffer_fails_on_both_sides",
        shows: &[LOC_QP_OP],
        why: "rxe reports a message that does not fit as a local queue pair operation error, and a remote operation \
              error to its sender",
    },
    Departure {
        group: "data",
        case: "a_message_of_several_packets_longer_than_its_buffer_fails_on_both_sides",
        shows: &[LOC_QP_OP],
        why: "as above",
    },
    Departure {
        group: "data",
        case: "a_receive_without_buffers_takes_an_empty_message",
        shows: &[LOC_QP_OP],
        why: "as above",
    },
    Departure {
        group: "shapes",
        case: "loopback_keeps_the_transports_rules",
        shows: &["was to fail with RemInvReq", "Err(RemOp)"],
        why: "as above",
    },
    Departure {
        group: "cm_trouble",
        case: "an_acceptance_that_comes_too_late_ends_unreachable",
        shows: &["Connection timed out"],
        why: "now and then: the way to Ready-to-Receive needs the peer's Ethernet address, and is refused with ETIMEDOUT \
              while the link is cut",
    },
    Departure {
        group: "retries",
        case: "as_many_losses_as_retries_are_survived",
        shows: &["7 retries, 7 losses: "],
        why: "seven transport retries are endless on rxe; the backend asks for six",
    },
    Departure {
        group: "retries",
        case: "one_loss_more_than_retries_is_fatal",
        shows: &["packets lost: expected 8, saw 7"],
        why: "seven transport retries are endless on rxe; the backend asks for six",
    },
    Departure {
        group: "retries",
        case: "the_request_is_sent_once_and_once_more_a_retry",
        shows: &["packets sent with 7 retries: expected 8, saw 7"],
        why: "seven transport retries are endless on rxe; the backend asks for six",
    },
    Departure {
        group: "gaps",
        case: "nothing_is_sent_twice_where_nothing_is_lost",
        shows: &["packets sent: expected (5121, 1024), saw "],
        why: "rxe does not start its time-out again as a long transfer is acknowledged: 5,618 packets were sent for 5,121",
    },
    Departure {
        group: "duplicates",
        case: "an_acknowledgement_of_an_old_connection_is_ignored",
        shows: &["nothing was to complete and the queue brought"],
        why: "rxe takes any acknowledgement of a later number for one of the oldest request's",
    },
    Departure {
        group: "duplicates",
        case: "a_refusal_of_an_old_connection_is_ignored",
        shows: &["nothing was to complete and the queue brought"],
        why: "as above",
    },
    Departure {
        group: "shared_receives",
        case: "a_datagram_too_long_costs_a_shared_receive_and_no_more",
        shows: &[LOC_QP_OP],
        why: "rxe reports a message that does not fit as a local queue pair operation error",
    },
    Departure {
        group: "rnr",
        case: "a_doubled_answer_of_not_ready_counts_once",
        shows: &["result: Err(RnrRetryExc)"],
        why: "rxe counts each answer of receiver-not-ready, doubled or not",
    },
    Departure {
        group: "rnr",
        case: "what_follows_a_message_that_waits_is_dropped_in_silence",
        shows: &["sequence errors behind a message that waited: expected 0"],
        why: "rxe answers what follows a message that waits with sequence errors",
    },
    Departure {
        group: "reliability",
        case: "any_program_runs_as_written_on_a_quiet_fabric",
        shows: &[ENDLESS],
        why: FENCE,
    },
    Departure {
        group: "reliability",
        case: "any_program_runs_as_written_under_loss",
        shows: &[ENDLESS],
        why: FENCE,
    },
    Departure {
        group: "reliability",
        case: "any_program_runs_as_written_under_duplication",
        shows: &[ENDLESS],
        why: FENCE,
    },
    Departure {
        group: "reliability",
        case: "any_program_runs_as_written_under_delay",
        shows: &[ENDLESS, UNANSWERED],
        why: NOTHING_BROUGHT,
    },
    Departure {
        group: "reliability",
        case: "any_program_runs_as_written_under_all_of_them",
        shows: &[ENDLESS, UNANSWERED],
        why: NOTHING_BROUGHT,
    },
    Departure {
        group: "reliability",
        case: "any_program_runs_as_written_on_a_loopback",
        shows: &[ENDLESS],
        why: FENCE,
    },
    Departure {
        group: "statuses",
        case: "a_read_that_may_never_be_in_flight_fails_locally",
        shows: &[IN_VAIN],
        why: "rxe never begins a read on a queue pair that may have none in flight, and never ends it",
    },
    Departure {
        group: "datagrams",
        case: "a_send_that_fails_stops_the_send_queue_and_not_the_receives",
        shows: &["the state after a failed send: expected Sqe, saw Err"],
        why: "rxe has no SQE state: the queue pair goes to the error state",
    },
];

/// The departure that a case shows.
pub fn known(group: &str, case: &str) -> Option<&'static Departure> {
    KNOWN.iter().find(|departure| (departure.group, departure.case) == (group, case))
}
