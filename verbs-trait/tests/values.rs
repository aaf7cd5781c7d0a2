//! The contract's values hold what the specification says of them.

use weft_verbs::*;

#[test]
fn packet_numbers_wrap_at_24_bits_and_compare_across_the_wrap() {
    let last = Psn::new(0xff_ffff);
    assert_eq!(last.plus(1), Psn::new(0));
    assert_eq!(Psn::new(3).since(last), 4);
    assert_eq!(last.since(Psn::new(3)), -4);
    assert_eq!(Psn::new(0x80_0000).since(Psn::new(0)), -(1 << 23));
    assert_eq!(Psn::new(0x7f_ffff).since(Psn::new(0)), (1 << 23) - 1);
    assert_eq!(Psn::new(0x0100_0005), Psn::new(5));
}

#[test]
fn acknowledgement_timeouts_are_4096_nanoseconds_times_a_power_of_two() {
    assert_eq!(AckTimeout::NEVER.span(), None);
    assert_eq!(AckTimeout::new(1).unwrap().span(), Some(Nanos(8_192)));
    assert_eq!(AckTimeout::new(14).unwrap().span(), Some(Nanos(67_108_864)));
    assert_eq!(AckTimeout::new(31).unwrap().span(), Some(Nanos(4_096 << 31)));
    assert_eq!(AckTimeout::new(32), None);
    for span in [1, 8_192, 8_193, 1_000_000, 4_096 << 31] {
        let chosen = AckTimeout::at_least(Nanos(span));
        assert!(chosen.span().unwrap() >= Nanos(span), "{span}");
        let shorter = AckTimeout::new(chosen.exponent() - 1).and_then(AckTimeout::span);
        assert!(shorter.is_none_or(|s| s < Nanos(span)), "{span}");
    }
}

#[test]
fn receiver_not_ready_delays_grow_with_the_code_and_zero_is_the_longest() {
    assert_eq!(RnrTimer::new(0).unwrap().span(), Nanos(655_360_000));
    assert_eq!(RnrTimer::new(1).unwrap().span(), Nanos(10_000));
    assert_eq!(RnrTimer::new(12).unwrap().span(), Nanos(640_000));
    assert_eq!(RnrTimer::new(31).unwrap().span(), Nanos(491_520_000));
    assert_eq!(RnrTimer::new(32), None);
    for n in 1..31 {
        assert!(RnrTimer::new(n).unwrap().span() < RnrTimer::new(n + 1).unwrap().span());
    }
}

#[test]
fn retry_counts_fit_three_bits() {
    assert_eq!(Retries::new(7), Some(Retries::MOST));
    assert_eq!(Retries::new(8), None);
    assert_eq!(Retries::NONE.count(), 0);
}

/// Linux's `qp_state_table` for both kinds of queue pair, as rows of allowed next states.
#[test]
fn state_transitions_are_those_of_the_specification() {
    use QpState::*;
    let allowed = |kind: QpType| -> Vec<(QpState, Vec<QpState>)> {
        let sqe = if kind == QpType::Ud { vec![Reset, Rts, Err] } else { vec![Reset, Err] };
        vec![
            (Reset, vec![Reset, Init]),
            (Init, vec![Reset, Init, Rtr, Err]),
            (Rtr, vec![Reset, Rts, Err]),
            (Rts, vec![Reset, Rts, Sqd, Err]),
            (Sqd, vec![Reset, Rts, Sqd, Err]),
            (Sqe, sqe),
            (Err, vec![Reset, Err]),
        ]
    };
    for kind in [QpType::Rc, QpType::Ud] {
        for (from, targets) in allowed(kind) {
            for to in QpState::ALL {
                assert_eq!(from.may_become(to, kind), targets.contains(&to), "{kind:?} {from} -> {to}");
            }
        }
    }
}

#[test]
fn resuming_and_updating_are_refused_where_no_send_queue_runs() {
    let update = Modify::Update(Update::default());
    for from in QpState::ALL {
        let running = matches!(from, QpState::Rts | QpState::Sqd);
        assert_eq!(update.check(from, QpType::Rc).is_ok(), running, "{from}");
        let stopped = from == QpState::Sqd;
        assert_eq!(Modify::Resume.check(from, QpType::Rc).is_ok(), stopped, "{from}");
    }
    assert_eq!(Modify::Resume.check(QpState::Sqe, QpType::Ud), Ok(QpState::Rts));
    assert_eq!(
        Modify::Err.check(QpState::Reset, QpType::Rc),
        Result::Err(VerbsError::NoTransition { from: QpState::Reset, to: QpState::Err })
    );
}

#[test]
fn only_statuses_that_promise_it_leave_the_far_side_untouched() {
    let untouched: Vec<_> = WcError::ALL.into_iter().filter(|e| e.far_side() == FarSide::Untouched).collect();
    assert_eq!(untouched, [WcError::LocQpOp, WcError::MwBind]);
    for lost in [WcError::RetryExc, WcError::RnrRetryExc, WcError::Flush, WcError::RemOp] {
        assert_eq!(lost.far_side(), FarSide::Unknown);
    }
}

#[test]
fn remote_slices_travel_as_bytes_and_never_grow() {
    let whole = RemoteSlice { addr: 0x1234_5678_9abc, len: 64, rkey: 0xfeed };
    assert_eq!(RemoteSlice::from_bytes(whole.to_bytes()), whole);
    assert_eq!(whole.word(56).unwrap().addr, whole.addr + 56);
    assert_eq!(whole.word(57), None);
    assert_eq!(whole.word(u32::MAX), None);
    assert_eq!(whole.slice(8..65), None);
    #[allow(clippy::reversed_empty_ranges)]
    let backwards = whole.slice(9..8);
    assert_eq!(backwards, None);
}

#[test]
fn times_saturate_and_print_with_their_unit() {
    assert_eq!(Nanos::MAX + Nanos(1), Nanos::MAX);
    assert_eq!(Nanos(1) - Nanos(2), Nanos::ZERO);
    assert_eq!(Nanos(4_070).to_string(), "4.07 us");
    assert_eq!(Nanos::MAX.to_string(), "never");
    assert_eq!(format!("{:>8}", Nanos(12)), "   12 ns");
}

#[test]
fn errors_say_the_value_the_bound_and_the_reason() {
    let big = VerbsError::TooLarge { what: "inline data", value: 300, bound: 256 };
    assert_eq!(big.to_string(), "inline data is 300, and must be at most 256");
    let full = PostError { posted: 3, why: VerbsError::QueueFull { queue: "send", depth: 16 } };
    assert_eq!(
        full.to_string(),
        "request 3 of the list was refused: the send queue already holds 16 work requests"
    );
    assert_eq!(VerbsError::Unsupported(Caps::UD | Caps::SRQ).to_string(), "not supported here: ud, srq");
}
