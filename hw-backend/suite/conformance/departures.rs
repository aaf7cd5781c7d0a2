//! Where Soft-RoCE departs from the specification, with the evidence: known, listed in the table, and no failure of the
//! backend. A case that is listed and passes is reported, so that the list stays true.

/// A case that does not pass, and why.
pub struct Departure {
    pub group: &'static str,
    pub case: &'static str,
    pub why: &'static str,
}

/// The games of this group end in a fraction of a second without fences; with them, some seeds never do.
const FENCE: &str =
    "a fenced request can wait for ever on rxe, when one before it was answered with receiver-not-ready";

/// Seen on `rdma_rxe` of Linux 6.1.
pub const KNOWN: &[Departure] = &[
    Departure {
        group: "keys",
        case: "a_misaligned_atomic_is_refused",
        why: "librxe refuses the post (EINVAL) where an adapter answers with an error",
    },
    Departure {
        group: "keys",
        case: "no_message_is_put_into_memory_that_the_adapter_may_not_write",
        why: "rxe reports a receive that it may not write as a local queue pair operation error",
    },
    Departure {
        group: "keys",
        case: "a_region_that_goes_amid_a_read_refuses_the_rest",
        why: "rxe holds a region until a read of it is answered in full",
    },
    Departure {
        group: "data",
        case: "a_message_longer_than_its_buffer_fails_on_both_sides",
        why: "rxe reports a message that does not fit as a local queue pair operation error, and a remote operation \
              error to its sender",
    },
    Departure {
        group: "data",
        case: "a_message_of_several_packets_longer_than_its_buffer_fails_on_both_sides",
        why: "as above",
    },
    Departure { group: "data", case: "a_receive_without_buffers_takes_an_empty_message", why: "as above" },
    Departure { group: "shapes", case: "loopback_keeps_the_transports_rules", why: "as above" },
    Departure {
        group: "cm_trouble",
        case: "an_acceptance_that_comes_too_late_ends_unreachable",
        why: "now and then: the way to Ready-to-Receive needs the peer's Ethernet address, and is refused with ETIMEDOUT \
              while the link is cut; seen in one of two runs",
    },
    Departure {
        group: "retries",
        case: "as_many_losses_as_retries_are_survived",
        why: "seven transport retries are endless on rxe; the backend asks for six",
    },
    Departure {
        group: "retries",
        case: "one_loss_more_than_retries_is_fatal",
        why: "seven transport retries are endless on rxe; the backend asks for six",
    },
    Departure {
        group: "retries",
        case: "the_request_is_sent_once_and_once_more_a_retry",
        why: "seven transport retries are endless on rxe; the backend asks for six",
    },
    Departure {
        group: "gaps",
        case: "nothing_is_sent_twice_where_nothing_is_lost",
        why: "rxe does not start its time-out again as a long transfer is acknowledged: 5,618 packets were sent for 5,121",
    },
    Departure {
        group: "duplicates",
        case: "an_acknowledgement_of_an_old_connection_is_ignored",
        why: "rxe takes any acknowledgement of a later number for one of the oldest request's",
    },
    Departure { group: "duplicates", case: "a_refusal_of_an_old_connection_is_ignored", why: "as above" },
    Departure {
        group: "shared_receives",
        case: "a_datagram_too_long_costs_a_shared_receive_and_no_more",
        why: "rxe reports a message that does not fit as a local queue pair operation error",
    },
    Departure {
        group: "rnr",
        case: "the_last_rnr_retry_still_succeeds",
        why: "now and then one answer of receiver-not-ready more comes than the receive was late; not understood, and \
              perhaps the emulation's slowness",
    },
    Departure {
        group: "rnr",
        case: "seven_rnr_retries_are_without_end",
        why: "with timers of 20 ms, forty answers of receiver-not-ready take more than 45 s; with 8 ms it passes",
    },
    Departure {
        group: "rnr",
        case: "a_doubled_answer_of_not_ready_counts_once",
        why: "rxe counts each answer of receiver-not-ready, doubled or not",
    },
    Departure {
        group: "rnr",
        case: "what_follows_a_message_that_waits_is_dropped_in_silence",
        why: "rxe answers what follows a message that waits with sequence errors",
    },
    Departure { group: "reliability", case: "any_program_runs_as_written_on_a_quiet_fabric", why: FENCE },
    Departure { group: "reliability", case: "any_program_runs_as_written_under_loss", why: FENCE },
    Departure { group: "reliability", case: "any_program_runs_as_written_under_duplication", why: FENCE },
    Departure { group: "reliability", case: "any_program_runs_as_written_under_delay", why: FENCE },
    Departure {
        group: "reliability",
        case: "any_program_runs_as_written_under_all_of_them",
        why: "fences as above; and under loss, doubling and delay at once a read was once answered with other bytes",
    },
    Departure { group: "reliability", case: "any_program_runs_as_written_on_a_loopback", why: FENCE },
    Departure {
        group: "statuses",
        case: "a_read_that_may_never_be_in_flight_fails_locally",
        why: "rxe never begins a read on a queue pair that may have none in flight, and never ends it",
    },
    Departure {
        group: "datagrams",
        case: "a_send_that_fails_stops_the_send_queue_and_not_the_receives",
        why: "rxe has no SQE state: the queue pair goes to the error state",
    },
];

/// The departure that a case shows.
pub fn known(group: &str, case: &str) -> Option<&'static Departure> {
    KNOWN.iter().find(|departure| (departure.group, departure.case) == (group, case))
}
