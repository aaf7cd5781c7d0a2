//! Each oracle is shown a history that breaks its promise, and must say so; and one that keeps it.

use super::*;
use crate::history::{ClientId, RequestId};
use crate::oracle::{Conduct, Judge, Leaks, Leftover};
use crate::systems::locks::history::{What, Why};
use Mode::{Exclusive, Shared};
use weft_protocols::locks::{LockKey, Mode, Token};

const ASKS: What = What::Requested { deadline: None };
const GRANTED: What = What::Granted { token: None };
const GIVES_UP: What = What::TimedOut { early: Nanos::ZERO };

fn token(n: u64) -> What {
    What::Granted { token: Some(Token(n)) }
}

/// The first request of client 0 on a node.
fn first(node: u32) -> RequestId {
    RequestId { client: ClientId { node, index: 0 }, number: 0 }
}

/// An event of node `node`'s first request for lock 1, at a time in microseconds.
fn event(at: u64, node: u32, mode: Mode, what: What) -> Event {
    Event { at: Nanos::from_micros(at), request: first(node), key: LockKey(1), mode, what }
}

/// A judge with or without tokens who has seen a history.
fn judge(tokens: bool, history: &[Event]) -> Judge<LockOracles> {
    let mut judge = Judge::new(LockOracles::new(tokens));
    history.iter().for_each(|event| judge.observe(event));
    judge
}

/// What it has to say.
fn judged(tokens: bool, history: &[Event]) -> Vec<String> {
    judge(tokens, history).violations().iter().map(ToString::to_string).collect()
}

/// The same of one that comes to its end.
fn to_the_end(history: &[Event]) -> Vec<String> {
    let mut judge = judge(false, history);
    judge.judge_end(Nanos::from_micros(1_000), Nanos::ZERO);
    judge.violations().iter().map(ToString::to_string).collect()
}

fn asks_and_gets(at: u64, node: u32, mode: Mode) -> [Event; 2] {
    [event(at, node, mode, ASKS), event(at, node, mode, GRANTED)]
}

#[test]
fn a_history_that_keeps_every_promise_is_not_blamed() {
    let history = [
        event(1, 0, Shared, ASKS),
        event(1, 1, Shared, ASKS),
        event(2, 2, Exclusive, ASKS),
        event(3, 0, Shared, GRANTED),
        event(4, 1, Shared, GRANTED),
        event(5, 0, Shared, What::Released),
        event(6, 1, Shared, What::Released),
        event(7, 2, Exclusive, GRANTED),
        event(8, 2, Exclusive, What::Released),
    ];
    assert_eq!(judged(false, &history), [""; 0]);
}

#[test]
fn a_downgraded_hold_goes_with_shared_ones_and_with_no_exclusive_one() {
    const DOWNGRADED: What = What::Downgraded { token: None };
    let begins = |then: u64| {
        [
            &asks_and_gets(3, 0, Exclusive)[..],
            &[event(5, 0, Exclusive, DOWNGRADED)],
            &asks_and_gets(then, 1, Shared),
        ]
        .concat()
    };
    assert_eq!(judged(false, &begins(5)), [""; 0]);
    assert_eq!(
        judged(false, &begins(4)),
        ["mutual exclusion: at 4.00 us: n1/c0#0 is granted lock 0000000000000001 shared at 4.00 us, \
          which n0/c0#0 held until 5.00 us"]
    );
    let writer = [begins(5), asks_and_gets(7, 2, Exclusive).to_vec()].concat();
    assert_eq!(
        judged(false, &writer),
        ["mutual exclusion: at 7.00 us: n2/c0#0 is granted lock 0000000000000001 exclusive, \
          which n0/c0#0 holds shared since 3.00 us"]
    );
}

#[test]
fn a_downgraded_holds_token_lies_between_its_neighbours() {
    let downgraded = |n| What::Downgraded { token: Some(Token(n)) };
    let history = |to: u64, next: u64| {
        [
            event(1, 0, Exclusive, ASKS),
            event(2, 0, Exclusive, token(5)),
            event(3, 0, Exclusive, downgraded(to)),
            event(4, 0, Exclusive, What::Released),
            event(5, 1, Exclusive, ASKS),
            event(6, 1, Exclusive, token(next)),
        ]
    };
    assert_eq!(judged(true, &history(6, 7)), [""; 0]);
    assert_eq!(
        judged(true, &history(5, 7)),
        ["fencing tokens: at 3.00 us: n0/c0#0 holds lock 0000000000000001 shared with token 5, \
          but n0/c0#0 had 5 before"]
    );
    assert_eq!(judged(true, &history(6, 6)).len(), 1);
}

#[test]
fn who_comes_after_a_hold_that_nobody_gives_back_has_a_larger_token() {
    let gets = |at, node, mode, n| [event(at, node, mode, ASKS), event(at, node, mode, token(n))];
    let until = |at, node, until| {
        event(at, node, Exclusive, What::Leased { until: Nanos::from_micros(until), lineage: 1 })
    };
    let begin = [vec![until(1, 0, 5)], gets(2, 0, Exclusive, 3).to_vec()].concat();
    let crashes = [begin.clone(), vec![event(3, 0, Exclusive, What::Crashed)]].concat();
    for (before, mode) in [(&begin, Exclusive), (&begin, Shared), (&crashes, Exclusive), (&crashes, Shared)] {
        let then = |n| [vec![until(4, 1, 50)], gets(6, 1, mode, n).to_vec()].concat();
        assert_eq!(judged(false, &[before.clone(), then(4)].concat()), [""; 0]);
        let text = format!(
            "fencing tokens: at 6.00 us: n1/c0#0 holds lock 0000000000000001 {mode} with token 3, \
             and n0/c0#0 has 3 and never gave it back"
        );
        assert_eq!(judged(false, &[before.clone(), then(3)].concat()), [text]);
    }
    let without = [begin.clone(), vec![until(4, 1, 50)], asks_and_gets(6, 1, Exclusive).to_vec()].concat();
    let text = "fencing tokens: at 6.00 us: n1/c0#0 is granted lock 0000000000000001 without a token, which is promised there";
    assert_eq!(judged(false, &without), [text], "a member");
    // Given back, or lost and told so: within a view all have one token.
    let left_out = Event::of_node(Nanos::from_micros(3), 0, What::LeftOut);
    for over in [What::Released, What::Lost] {
        let history =
            [begin.clone(), vec![left_out, event(3, 0, Exclusive, over)], gets(6, 1, Exclusive, 3).to_vec()]
                .concat();
        assert_eq!(judged(false, &history), [""; 0]);
    }
}

#[test]
fn what_is_not_held_cannot_be_downgraded() {
    let history = [event(1, 0, Exclusive, ASKS), event(2, 0, Exclusive, What::Downgraded { token: None })];
    assert_eq!(
        judged(false, &history),
        ["at most once: at 2.00 us: n0/c0#0 is downgraded on lock 0000000000000001, but waits"]
    );
}

#[test]
fn two_exclusive_holders_are_noticed_at_the_second_grant() {
    let history = [asks_and_gets(3, 0, Exclusive), asks_and_gets(5, 1, Exclusive)].concat();
    assert_eq!(
        judged(false, &history),
        ["mutual exclusion: at 5.00 us: n1/c0#0 is granted lock 0000000000000001 exclusive, \
          which n0/c0#0 holds exclusive since 3.00 us"]
    );
}

#[test]
fn a_reader_beside_a_writer_is_noticed_whichever_comes_first() {
    for (one, other) in [(Shared, Exclusive), (Exclusive, Shared)] {
        let history = [asks_and_gets(3, 0, one), asks_and_gets(5, 1, other)].concat();
        assert_eq!(judged(false, &history).len(), 1, "{one} then {other}");
    }
}

#[test]
fn a_grant_that_lies_before_a_release_recorded_earlier_is_an_overlap() {
    // Node 0's step began first and ran to 9 us, where it released; node 1's clock is at 8 us only.
    let mut history = asks_and_gets(3, 0, Exclusive).to_vec();
    history.push(event(9, 0, Exclusive, What::Released));
    history.extend(asks_and_gets(8, 1, Shared));
    assert_eq!(
        judged(false, &history),
        ["mutual exclusion: at 8.00 us: n1/c0#0 is granted lock 0000000000000001 shared at 8.00 us, \
          which n0/c0#0 held until 9.00 us"]
    );
}

#[test]
fn what_a_client_gives_back_after_its_lease_was_over_when_that_ran_out() {
    let until = |node, until| {
        event(1, node, Exclusive, What::Leased { until: Nanos::from_micros(until), lineage: 1 })
    };
    let gets =
        |at, node, number| [event(at, node, Exclusive, ASKS), event(at, node, Exclusive, token(number))];
    let leased = |lease| [until(0, lease), until(1, 90), until(2, 90)];
    // Node 0's step ran to 20 us, where it is told; the others' clocks are behind that.
    let told = event(20, 0, Exclusive, What::Lost);
    let superseded = |lease| {
        let other = [gets(12, 1, 2).to_vec(), vec![event(13, 1, Exclusive, What::Released)]].concat();
        [leased(lease).to_vec(), gets(2, 0, 1).to_vec(), other, vec![told], gets(19, 2, 3).to_vec()].concat()
    };
    assert_eq!(judged(false, &superseded(10)), [""; 0]);
    let alone = |lease| {
        [leased(lease).to_vec(), gets(2, 0, 1).to_vec(), vec![told], gets(19, 2, 3).to_vec()].concat()
    };
    assert_eq!(judged(false, &alone(10)), [""; 0]);
    assert_eq!(judged(false, &alone(30)).len(), 1, "it held until it was told");
}

#[test]
fn a_grant_for_nothing_or_for_the_second_time_is_noticed() {
    assert_eq!(
        judged(false, &[event(1, 0, Shared, GRANTED)]),
        ["at most once: at 1.00 us: n0/c0#0 is granted on lock 0000000000000001, but was never made"]
    );
    let mut twice = asks_and_gets(1, 0, Shared).to_vec();
    twice.push(event(2, 0, Shared, GRANTED));
    assert_eq!(
        judged(false, &twice),
        ["at most once: at 2.00 us: n0/c0#0 is granted on lock 0000000000000001, but holds the lock already"]
    );
}

#[test]
fn a_grant_after_the_request_ended_is_noticed() {
    for end in [GIVES_UP, What::Refused, What::Failed(Why::NotSaid)] {
        let tries = What::Requested { deadline: Some(Nanos::from_micros(1)) };
        let history = [event(1, 0, Shared, tries), event(2, 0, Shared, end), event(3, 0, Shared, GRANTED)];
        assert_eq!(judged(false, &history).len(), 1, "{end:?}");
    }
}

#[test]
fn releasing_what_is_not_held_is_noticed() {
    let history = [event(1, 0, Shared, ASKS), event(2, 0, Shared, What::Released)];
    assert_eq!(
        judged(false, &history),
        ["at most once: at 2.00 us: n0/c0#0 releases it on lock 0000000000000001, but waits"]
    );
}

/// Grants and releases on one lock, one after the other, with these modes and tokens.
fn with_tokens(grants: &[(Mode, Option<u64>)]) -> Vec<Event> {
    let mut history = Vec::new();
    for (node, (mode, number)) in grants.iter().enumerate() {
        let (at, node) = (10 * node as u64, node as u32);
        let grant = number.map_or(GRANTED, token);
        history.extend([event(at, node, *mode, ASKS), event(at + 1, node, *mode, grant)]);
        history.push(event(at + 2, node, *mode, What::Released));
    }
    history
}

#[test]
fn tokens_that_do_not_grow_are_noticed() {
    let stale = [
        [(Exclusive, Some(5)), (Exclusive, Some(5))],
        [(Exclusive, Some(5)), (Exclusive, Some(4))],
        [(Exclusive, Some(5)), (Shared, Some(5))],
        [(Shared, Some(5)), (Exclusive, Some(5))],
        [(Exclusive, Some(5)), (Exclusive, None)],
    ];
    for grants in stale {
        assert_eq!(judged(true, &with_tokens(&grants)).len(), 1, "{grants:?}");
    }
}

#[test]
fn readers_between_two_writers_may_have_any_tokens_between_theirs() {
    let grants = [(Exclusive, Some(5)), (Shared, Some(7)), (Shared, Some(6)), (Exclusive, Some(8))];
    assert_eq!(judged(true, &with_tokens(&grants)), [""; 0]);
}

#[test]
fn those_who_share_at_one_time_have_one_token() {
    let gets = |at, node, n| [event(at, node, Shared, ASKS), event(at, node, Shared, token(n))];
    let both = |n| [gets(2, 0, 3), gets(4, 1, n)].concat();
    let text = "fencing tokens: at 4.00 us: n1/c0#0 holds lock 0000000000000001 shared with token 5, \
                and n0/c0#0 shares it with 3";
    assert_eq!(judged(true, &both(3)), [""; 0]);
    assert_eq!(judged(true, &both(5)), [text]);
    assert_eq!(judged(false, &both(5)), [""; 0], "those of different views have different ones");
    // Among members while the lease of the first one runs, in one lineage of views.
    let leased = |node, until, lineage| {
        event(1, node, Shared, What::Leased { until: Nanos::from_micros(until), lineage })
    };
    for (until, lineage, said) in [(9, 1, &[text][..]), (3, 1, &[]), (9, 2, &[])] {
        let history = [vec![leased(0, until, lineage), leased(1, 50, 1)], both(5)].concat();
        assert_eq!(judged(true, &history), said, "{until} {lineage}");
    }
}

#[test]
fn a_scheme_without_tokens_may_grant_none() {
    assert_eq!(judged(false, &with_tokens(&[(Exclusive, None), (Exclusive, None)])), [""; 0]);
}

#[test]
fn a_request_that_never_ends_is_told_with_what_it_waits_for() {
    let mut judge = Judge::new(LockOracles::new(false));
    for event in asks_and_gets(1, 0, Exclusive) {
        judge.observe(&event);
    }
    judge.observe(&event(2, 1, Shared, ASKS));
    assert_eq!(judge.unended(), 2);
    judge.judge_end(Nanos::from_millis(500), Nanos::from_millis(100));
    let said: Vec<String> = judge.violations().iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "progress: at 500.00 ms: n0/c0#0 holds lock 0000000000000001 exclusive since 1.00 us and its client \
             has not gone on; the last fault was over 100.00 ms ago",
            "progress: at 500.00 ms: n1/c0#0 waits for lock 0000000000000001 shared since 2.00 us, which \
             n0/c0#0 holds exclusive since 1.00 us; the last fault was over 100.00 ms ago",
        ]
    );
}

#[test]
fn who_waits_in_a_queue_that_moves_is_not_late_and_who_holds_is() {
    let oldest = |history: &[Event]| judge(false, history).oracles().oldest().map(|at| at.0 / 1_000);
    let waits = [&asks_and_gets(1, 0, Exclusive)[..], &[event(2, 1, Exclusive, ASKS)]].concat();
    assert_eq!(oldest(&waits), Some(1), "the holder");
    let moves = [&waits[..], &[event(7, 0, Exclusive, What::Released)]].concat();
    assert_eq!(oldest(&moves), Some(7));
    let moved = [&moves[..], &[event(8, 2, Exclusive, ASKS), event(9, 2, Exclusive, GRANTED)]].concat();
    assert_eq!(oldest(&moved), Some(9));
    let gives_up = [&moves[..], &[event(8, 2, Exclusive, ASKS), event(9, 2, Exclusive, GIVES_UP)]].concat();
    assert_eq!(oldest(&gives_up), Some(7), "who gives up hands nothing on");
}

#[test]
fn a_lost_lock_is_told_as_held_by_nobody() {
    let mut progress = Progress::default();
    progress.observe(&event(2, 1, Shared, ASKS)).unwrap();
    let said = progress.finish(Nanos::from_millis(5), Nanos::from_millis(1));
    assert!(said[0].text.contains("which nobody holds"), "{said:?}");
}

#[test]
fn every_way_to_end_ends_a_request() {
    for end in [GIVES_UP, What::Refused, What::Failed(Why::LeftOut), What::Released] {
        let mut progress = Progress::default();
        progress.observe(&event(1, 0, Shared, ASKS)).unwrap();
        progress.observe(&event(2, 0, Shared, end)).unwrap();
        assert_eq!(progress.unended(), 0, "{end:?}");
    }
}

#[test]
fn what_is_left_at_rest_is_a_leak() {
    let left = |count| [Leftover { node: Some(3), what: "lock words not free".into(), count }];
    assert_eq!(Leaks::finish(Nanos::ZERO, &left(0)), []);
    let mut judge = Judge::new(LockOracles::new(false));
    judge.judge_leaks(Nanos::from_micros(9), &left(2));
    assert_eq!(judge.violations()[0].to_string(), "no leaks: at 9.00 us: n3 has 2 lock words not free");
}

#[test]
fn a_message_that_had_to_be_dropped_is_bad_conduct() {
    let mut judge = Judge::new(LockOracles::new(false));
    judge.judge_conduct(Nanos::ZERO, 1, Conduct::default());
    judge.judge_conduct(Nanos::from_micros(9), 2, Conduct { out_of_turn: 3, malformed: 1 });
    let said: Vec<String> = judge.violations().iter().map(ToString::to_string).collect();
    let both = [
        "conduct: at 9.00 us: n2 dropped 3 messages out of turn",
        "conduct: at 9.00 us: n2 dropped 1 messages that it could not read",
    ];
    assert_eq!(said, both);
}

#[test]
fn what_the_sanitizer_found_is_judged_and_counted() {
    use weft_sim::RegionId;
    use weft_sim::sanitizer::{Action, Party, Rule, Violation};
    let node = weft_sim::NodeId(1);
    let party = |action, at| Party { node, task: Some(2), action, addr: 64, len: 8, at: Nanos(at) };
    let (first, second) = (party(Action::Deregister, 100), party(Action::Write, 900));
    let found = Violation { rule: Rule::MixedAtomics, memory: node, region: RegionId(0), first, second };
    let mut judge = Judge::new(LockOracles::new(false));
    judge.judge_memory(0, &[]);
    assert!(judge.checks().iter().all(|check| check.held));
    judge.judge_memory(5, &[found, found]);
    assert_eq!(judge.violations()[0].to_string(), format!("sanitizer: at 900 ns: {found}"));
    let broken: Vec<_> = judge.checks().into_iter().filter(|check| !check.held).collect();
    assert_eq!((broken[0].oracle, broken[0].violations, judge.violations().len()), ("sanitizer", 5, 2));
}

#[test]
fn checks_name_the_oracle_that_was_violated_and_no_other() {
    let mut judge = Judge::new(LockOracles::new(false));
    for event in [asks_and_gets(3, 0, Exclusive), asks_and_gets(5, 1, Exclusive)].concat() {
        judge.observe(&event);
    }
    let broken: Vec<_> = judge.checks().into_iter().filter(|check| !check.held).collect();
    assert_eq!(broken.len(), 1);
    assert_eq!((broken[0].oracle, broken[0].violations), ("mutual exclusion", 1));
    assert_eq!(judge.checks().len(), 9);
}

#[test]
fn violations_are_all_counted_and_only_the_first_are_kept() {
    let mut judge = Judge::new(LockOracles::new(false));
    for node in 0..200 {
        asks_and_gets(u64::from(node), node, Exclusive).iter().for_each(|event| judge.observe(event));
    }
    assert_eq!(judge.violations().len(), 100);
    assert_eq!(judge.checks()[0].violations, 199);
}

#[test]
fn bypass_counts_the_later_requests_that_overtook() {
    let mut bypass = Bypass::default();
    let ask = |node, mode| event(1, node, mode, ASKS);
    let grant = |node, mode| event(2, node, mode, GRANTED);
    let history = [
        ask(0, Exclusive),
        ask(1, Shared),
        ask(2, Exclusive),
        grant(1, Shared),
        grant(2, Exclusive),
        grant(0, Exclusive),
    ];
    history.iter().for_each(|event| bypass.observe(event));
    assert_eq!(bypass.most(), MostBypassed { most: 2, most_exclusive: 1 });
}

#[test]
fn service_in_order_bypasses_nobody() {
    let mut bypass = Bypass::default();
    for node in 0..3 {
        bypass.observe(&event(1, node, Exclusive, ASKS));
    }
    bypass.observe(&event(2, 1, Exclusive, GIVES_UP));
    for node in [0, 2] {
        bypass.observe(&event(3, node, Exclusive, GRANTED));
    }
    assert_eq!(bypass.most(), MostBypassed::default());
}

/// While a hold goes on and all else rests: who only tries, and who wants to share what is shared, must have been answered.
#[test]
fn nobody_waits_for_what_nobody_has() {
    const TRIES: What = What::Requested { deadline: Some(Nanos::ZERO) };
    const SHARED_BY_THEN: What = What::Downgraded { token: None };
    let found = |oracles: LockOracles, begins: &[Event], then: &[(u32, Mode, What)]| {
        let mut oracles = oracles;
        let then = then.iter().map(|&(node, mode, what)| event(8, node, mode, what));
        let ends = [event(9, 0, Exclusive, What::Outlasts), event(9, 0, Exclusive, What::Released)];
        for event in begins.iter().copied().chain(then).chain(ends) {
            oracles.observe(&event, &mut |broken| panic!("{broken}"));
        }
        oracles.finish_unharmed().map(|violation| violation.text)
    };
    let (holds, plain) = (asks_and_gets(3, 0, Exclusive), || LockOracles::new(false));
    let shares = [&holds[..], &[event(5, 0, Exclusive, SHARED_BY_THEN)]].concat();
    for tries in [Exclusive, Shared] {
        assert!(
            found(plain(), &holds, &[(1, tries, TRIES)])
                .is_some_and(|text| text.contains("n1/c0#0 only tries"))
        );
        assert_eq!(found(plain(), &holds, &[(1, tries, TRIES), (1, tries, What::Refused)]), None);
        assert_eq!(found(plain(), &holds, &[(1, tries, ASKS)]), None, "it is held alone");
    }
    let waits = [(1, Shared, ASKS)];
    assert!(found(plain(), &shares, &waits).is_some_and(|text| text.contains("n1/c0#0 waits to share")));
    assert_eq!(found(plain().where_sharers_wait(), &shares, &waits), None);
    assert_eq!(
        found(plain(), &shares, &[(2, Exclusive, ASKS), (1, Shared, ASKS)]),
        None,
        "one before it waits alone"
    );
    let asks_until = What::Requested { deadline: Some(Nanos(7)) };
    let gave_up = [event(6, 2, Exclusive, asks_until), event(7, 2, Exclusive, GIVES_UP)];
    assert_eq!(found(plain(), &[&shares[..], &gave_up].concat(), &waits), None, "one before it has given up");
}

/// Later tries may find what others have given back and what is still on its way.
#[test]
fn who_tries_and_is_the_only_one_to_have_asked_is_not_refused() {
    const TRIES: What = What::Requested { deadline: Some(Nanos::ZERO) };
    let found = |begins: &[Event]| {
        let mut oracles = LockOracles::new(false);
        for event in begins.iter().copied().chain([event(9, 1, Exclusive, What::Refused)]) {
            oracles.observe(&event, &mut |broken| panic!("{broken}"));
        }
        oracles.finish_unharmed().map(|violation| violation.text)
    };
    let tries = event(5, 1, Exclusive, TRIES);
    assert!(found(&[tries]).is_some_and(|text| text.contains("n1/c0#0 only tries")));
    assert_eq!(found(&[event(4, 0, Exclusive, ASKS), tries]), None);
    assert_eq!(found(&[tries, event(6, 0, Exclusive, ASKS)]), None);
}

#[test]
fn who_is_refused_gives_up_or_fails_without_cause_is_told() {
    let asks = |deadline: Option<u64>| What::Requested { deadline: deadline.map(Nanos::from_micros) };
    // Node 0 asks at 100 us, and ends so at 200 us.
    let told = |deadline, node: Option<(u32, What)>, end| {
        let of_node = |(node, what)| Event::of_node(Nanos::from_micros(150), node, what);
        let asked = event(100, 0, Exclusive, asks(deadline));
        let history: Vec<Event> =
            [asked].into_iter().chain(node.map(of_node)).chain([event(200, 0, Exclusive, end)]).collect();
        let told = to_the_end(&history);
        assert!(told.iter().all(|told| told.starts_with("causes")), "{told:?}");
        told.len()
    };
    assert_eq!(told(Some(100), None, What::Refused), 0);
    assert_eq!(told(None, None, What::Refused), 1, "it would have waited");
    assert_eq!(told(Some(200), None, What::Refused), 1);
    assert_eq!(told(Some(200), None, GIVES_UP), 0);
    let early = What::TimedOut { early: Nanos(1) };
    assert_eq!(
        told(Some(200), None, early),
        1,
        "by its own clock; how long its events were under way says nothing"
    );
    assert_eq!(told(None, None, GIVES_UP), 1);
    let out = What::Failed(Why::LeftOut);
    assert_eq!(told(None, None, out), 1);
    assert_eq!(told(None, Some((1, What::LeftOut)), out), 1, "another one was");
    assert_eq!(told(None, Some((0, What::LeftOut)), out), 0);
    assert_eq!(told(None, Some((1, What::Crashed)), out), 0, "that may have been a majority of two");
    assert_eq!(told(None, Some((0, What::LeftOut)), What::Failed(Why::Other)), 1);
}

#[test]
fn who_loses_a_lock_without_cause_is_told() {
    let told = |node: Option<(u32, What)>| {
        let of_node = |(node, what)| Event::of_node(Nanos::from_micros(150), node, what);
        let held = asks_and_gets(100, 0, Exclusive);
        let history: Vec<Event> =
            held.into_iter().chain(node.map(of_node)).chain([event(200, 0, Exclusive, What::Lost)]).collect();
        to_the_end(&history).len()
    };
    assert_eq!(told(None), 1);
    assert_eq!(told(Some((1, What::LeftOut))), 1);
    assert_eq!(told(Some((0, What::LeftOut))), 0);
    assert_eq!(told(Some((1, What::Crashed))), 0);
}
