use super::super::content::{Run, Value};
use super::super::history::{Call, Cells, What, Why};
use super::*;
use crate::history::{ClientId, RequestId};
use crate::oracle;

const fn request(node: u32, number: u32) -> RequestId {
    RequestId { client: ClientId { node, index: 0 }, number }
}

/// What is said of a history: at so many microseconds, whose which request, and what happens to it.
fn said(history: &[(u64, (u32, u32), What)]) -> Vec<&'static str> {
    judged(FileOracles::new(2, 0), history)
}

fn judged(mut oracles: FileOracles, history: &[(u64, (u32, u32), What)]) -> Vec<&'static str> {
    let event = |(at, (node, number), what): &(u64, (u32, u32), What)| {
        let request = request(*node, *number);
        Event { at_ns: 1_000 * at, request, what: what.clone() }
    };
    let said = oracle::said(&mut oracles, history.iter().map(event));
    let mut said: Vec<_> = said.iter().map(|violation| violation.oracle).collect();
    // A contradiction is told again by whatever touches it.
    said.dedup();
    said
}

const CELLS: Cells = Cells { file: 1, first: 4, cells: 2, rows: 1, stride: 0, bytes: 32 };
const FAILED: What = What::Failed(Why::Disk);
const WRITES: What = What::Calls(Call::Write(CELLS));
const READS: What = What::Calls(Call::Read(CELLS));

/// The values of both cells.
fn has(values: [Value; 2]) -> What {
    What::Has((4..).zip(values).map(|(first, value)| Run { first, cells: 1, value }).collect())
}

const fn of(node: u32) -> Value {
    Value::Of(request(node, 0))
}

const NOTHING: [&str; 0] = [];

#[test]
fn a_read_beside_a_write_may_see_either_in_each_cell_and_one_after_it_only_the_new() {
    for seen in [Value::Zero, of(0)] {
        let beside = [
            (1, (0, 0), WRITES),
            (2, (1, 0), READS),
            (3, (1, 0), has([seen, of(0)])),
            (4, (0, 0), What::Done),
        ];
        assert_eq!(said(&beside), NOTHING);
    }
    let after = |seen| {
        [(1, (0, 0), WRITES), (2, (0, 0), What::Done), (3, (1, 0), READS), (4, (1, 0), has([of(0), seen]))]
    };
    assert_eq!(said(&after(of(0))), NOTHING);
    assert_eq!(said(&after(Value::Zero)), ["bytes"]);
    assert_eq!(said(&after(Value::Torn)), ["bytes"]);
    assert_eq!(said(&after(of(7))), ["bytes"], "nobody wrote that");
}

#[test]
fn what_one_read_has_seen_no_later_one_may_unsee() {
    let history = |second| {
        vec![
            (1, (0, 0), WRITES),
            (2, (1, 0), READS),
            (3, (1, 0), has([of(0); 2])),
            (4, (2, 0), READS),
            (5, (2, 0), has([second; 2])),
            (6, (0, 0), What::Done),
        ]
    };
    assert_eq!(said(&history(of(0))), NOTHING);
    assert_eq!(said(&history(Value::Zero)), ["bytes"]);
}

#[test]
fn two_writes_at_once_are_in_one_order_for_all_readers() {
    let both =
        vec![(1, (0, 0), WRITES), (1, (1, 0), WRITES), (5, (0, 0), What::Done), (5, (1, 0), What::Done)];
    let reads = |seen: &[u32]| {
        let read = |(n, node): (u64, &u32)| {
            [(6 + 2 * n, (2, n as u32), READS), (7 + 2 * n, (2, n as u32), has([of(*node); 2]))]
        };
        [both.clone(), (0..).zip(seen).flat_map(read).collect()].concat()
    };
    assert_eq!(said(&reads(&[0, 0])), NOTHING);
    assert_eq!(said(&reads(&[1, 1])), NOTHING);
    assert_eq!(said(&reads(&[0, 1])), ["bytes"]);
}

#[test]
fn a_write_that_failed_may_have_its_effect_late_or_never() {
    let history =
        |seen| [(1, (0, 0), WRITES), (2, (0, 0), FAILED), (3, (1, 0), READS), (4, (1, 0), has([seen; 2]))];
    assert_eq!(said(&history(of(0))), NOTHING);
    assert_eq!(said(&history(Value::Zero)), NOTHING);
}

#[test]
fn a_superseded_value_is_forgotten_and_still_not_taken_for_a_fresh_one() {
    let mut history =
        vec![(1, (0, 0), WRITES), (2, (0, 0), What::Done), (3, (1, 0), WRITES), (4, (1, 0), What::Done)];
    history.extend([(5_000, (2, 0), READS), (5_001, (2, 0), has([of(1); 2]))]);
    history.extend([(7_000, (2, 2), READS), (7_001, (2, 2), has([of(1); 2]))]);
    assert_eq!(said(&history), NOTHING, "what is read again is as fresh as before");
    history.extend([(9_000, (2, 1), READS), (9_001, (2, 1), has([of(0); 2]))]);
    assert_eq!(said(&history), ["bytes"]);
}

const CREATES: What = What::Calls(Call::Create(0));
const OPENS: What = What::Calls(Call::Open(0));
const UNLINKS: What = What::Calls(Call::Unlink(0));
const LISTS: What = What::Calls(Call::List);

#[test]
fn a_name_that_is_there_is_found_and_one_that_is_not_is_not() {
    let made = vec![(1, (0, 0), CREATES), (2, (0, 0), What::Opened(9))];
    let then = |more: &[(u64, (u32, u32), What)]| said(&[made.clone(), more.to_vec()].concat());
    assert_eq!(then(&[(3, (1, 0), OPENS), (4, (1, 0), What::Opened(9))]), NOTHING);
    assert_eq!(then(&[(3, (1, 0), OPENS), (4, (1, 0), What::NotFound)]), ["names"]);
    assert_eq!(then(&[(3, (1, 0), CREATES), (4, (1, 0), What::Exists)]), NOTHING);
    assert_eq!(then(&[(3, (1, 0), CREATES), (4, (1, 0), What::Opened(10))]), ["names"]);
    assert_eq!(then(&[(3, (1, 0), LISTS), (4, (1, 0), What::Names(vec![0]))]), NOTHING);
    for wrong in [vec![], vec![0, 0], vec![0, 1], vec![0, 7]] {
        assert_eq!(then(&[(3, (1, 0), LISTS), (4, (1, 0), What::Names(wrong))]), ["names"]);
    }
    let removed = [(3, (1, 0), UNLINKS), (4, (1, 0), What::Done), (5, (0, 1), OPENS)];
    assert_eq!(then(&[&removed[..], &[(6, (0, 1), What::NotFound)]].concat()), NOTHING);
    assert_eq!(then(&[&removed[..], &[(6, (0, 1), What::Opened(9))]].concat()), ["names"]);
}

#[test]
fn a_name_that_changes_meanwhile_may_be_found_or_not_but_is_made_once() {
    let beside = |what: What| {
        vec![(1, (0, 0), CREATES), (1, (1, 0), OPENS), (2, (1, 0), what), (3, (0, 0), What::Opened(9))]
    };
    assert_eq!(said(&beside(What::NotFound)), NOTHING);
    assert_eq!(said(&beside(What::Opened(9))), NOTHING);
    let two = |second: What| {
        vec![(1, (0, 0), CREATES), (1, (1, 0), CREATES), (2, (0, 0), What::Opened(9)), (2, (1, 0), second)]
    };
    assert_eq!(said(&two(What::Exists)), NOTHING);
    assert_eq!(said(&two(What::Opened(10))), ["names"], "two made it");
    assert_eq!(said(&two(What::Opened(9)))[0], "names", "one handle twice");
}

#[test]
fn a_call_that_never_returns_is_noticed() {
    assert_eq!(said(&[(1, (0, 0), LISTS)]), ["progress"]);
}

const SYNCS: What = What::Calls(Call::Sync(1));

#[test]
fn what_was_answered_survives_a_crash_of_its_server_and_what_was_not_may_go_though_it_was_read() {
    let answered = |seen| {
        [
            (1, (1, 0), WRITES),
            (2, (1, 0), What::Done),
            (3, (0, 9), What::Restarted),
            (4, (2, 0), READS),
            (5, (2, 0), has([seen, of(1)])),
        ]
    };
    assert_eq!(said(&answered(of(1))), NOTHING);
    assert_eq!(said(&answered(Value::Zero)), ["bytes"]);
    let unanswered = |seen| {
        [
            (1, (1, 0), WRITES),
            (2, (2, 0), READS),
            (3, (2, 0), has([of(1), of(1)])),
            (4, (0, 9), What::Restarted),
            (5, (1, 0), FAILED),
            (6, (2, 1), READS),
            (7, (2, 1), has([seen, seen])),
        ]
    };
    assert_eq!(said(&unanswered(of(1))), NOTHING);
    assert_eq!(said(&unanswered(Value::Zero)), NOTHING);
    let mut in_a_clients_crash = unanswered(Value::Zero);
    in_a_clients_crash[3].1 = (3, 9);
    assert_eq!(said(&in_a_clients_crash), ["bytes"], "no server lost anything");
}

#[test]
fn what_was_synced_survives_and_who_wrote_without_is_told_once() {
    let oracles = || FileOracles::new(2, 0).surviving(1, Survival::Synced);
    let history = |told: What, seen| {
        [
            (1, (1, 0), WRITES),
            (2, (1, 0), What::Done),
            (3, (0, 9), What::Restarted),
            (4, (1, 1), SYNCS),
            (5, (1, 1), told),
            (6, (2, 0), READS),
            (7, (2, 0), has([seen, Value::Zero])),
        ]
    };
    assert_eq!(judged(oracles(), &history(What::Lost, Value::Zero)), NOTHING);
    assert_eq!(judged(oracles(), &history(What::Lost, of(1))), NOTHING, "a sector may be kept");
    assert_eq!(judged(oracles(), &history(What::Done, of(1))), ["bytes"], "it is not told");
    let mut synced = history(What::Done, Value::Zero);
    synced[2..5].rotate_left(1);
    (synced[2].0, synced[3].0, synced[4].0) = (3, 4, 5);
    assert_eq!(judged(oracles(), &synced), ["bytes"], "it was synced, and is gone");
    let false_alarm =
        [(1, (1, 0), WRITES), (2, (1, 0), What::Done), (3, (1, 1), SYNCS), (4, (1, 1), What::Lost)];
    assert_eq!(judged(oracles(), &false_alarm), ["bytes"]);
}

/// The file is striped over three servers by two cells, and what is written is its third strip.
#[test]
fn who_wrote_without_a_sync_is_told_of_the_crash_of_the_server_that_has_it_and_of_no_other_one() {
    let judged = |number, rest: &[Told]| {
        let oracles = FileOracles::new(2, 0).surviving(3, Survival::Synced).striped(64);
        let written = [
            (1, (5, 0), What::Calls(Call::Create(number))),
            (2, (5, 0), What::Opened(1)),
            (3, (5, 1), WRITES),
            (4, (5, 1), What::Done),
        ];
        judged(oracles, &[&written[..], rest].concat())
    };
    let synced = |number, crashed, end| {
        judged(number, &[(5, (crashed, 9), What::Restarted), (6, (5, 2), SYNCS), (7, (5, 2), end)])
    };
    for (number, server) in [(0, 2), (1, 0)] {
        for crashed in 0..3 {
            let wrong: &[&str] = if crashed == server { &["bytes"] } else { &[] };
            assert_eq!(synced(number, crashed, What::Done), wrong, "file {number}, server {crashed}");
            assert_eq!(synced(number, crashed, What::Lost) == NOTHING, crashed == server);
            assert_eq!(synced(number, crashed, FAILED), NOTHING);
        }
    }
    let again = [
        (5, (5, 2), SYNCS),
        (6, (5, 2), FAILED),
        (7, (2, 9), What::Restarted),
        (8, (5, 3), SYNCS),
        (9, (5, 3), What::Done),
    ];
    assert_eq!(judged(0, &again), NOTHING, "the one that failed may have covered it");
}

#[test]
fn a_name_is_known_again_after_a_call_that_was_alone() {
    let history = |then| {
        [
            (1, (1, 0), What::Calls(Call::Create(0))),
            (2, (0, 9), What::Restarted),
            (3, (1, 0), FAILED),
            (4, (1, 1), What::Calls(Call::Create(0))),
            (5, (1, 1), What::Exists),
            (6, (2, 0), What::Calls(Call::Open(0))),
            (7, (2, 0), then),
        ]
    };
    assert_eq!(said(&history(What::Opened(9))), NOTHING);
    assert_eq!(said(&history(What::NotFound)), ["names"]);
}

#[test]
fn a_file_that_is_renamed_has_one_of_both_names() {
    const RENAMES: What = What::Calls(Call::Rename(0, 1));
    let then = |rest: &[(u64, (u32, u32), What)]| {
        let made = [(1, (0, 0), CREATES), (2, (0, 0), What::Opened(9))];
        said(&[&made[..], rest].concat())
    };
    let renamed = [(3, (0, 1), RENAMES), (4, (0, 1), What::Done)];
    let later = |rest: &[(u64, (u32, u32), What)]| then(&[&renamed[..], rest].concat());
    let listed = |names: Vec<u32>| later(&[(5, (1, 0), LISTS), (6, (1, 0), What::Names(names))]);
    assert_eq!(listed(vec![1]), NOTHING);
    for wrong in [vec![], vec![0], vec![0, 1]] {
        assert_eq!(listed(wrong), ["names"]);
    }
    assert_eq!(then(&[(3, (0, 1), RENAMES), (4, (0, 1), What::NotFound)]), ["names"], "it was there");
    assert_eq!(
        later(&[(5, (0, 2), RENAMES), (6, (0, 2), What::Done)]),
        ["names"],
        "it was not there any more"
    );
    // Two that take the same name meanwhile: one of them has it.
    let both = |second| {
        then(&[(3, (0, 1), RENAMES), (4, (1, 0), RENAMES), (5, (0, 1), What::Done), (6, (1, 0), second)])
    };
    assert_eq!(both(What::NotFound), NOTHING);
    assert_eq!(both(What::Done), ["names"]);
}

#[test]
fn a_name_opens_the_file_that_has_it_and_no_other_one() {
    const OTHER: What = What::Calls(Call::Create(1));
    let opens =
        |name, handle| vec![(9, (2, 0), What::Calls(Call::Open(name))), (9, (2, 0), What::Opened(handle))];
    let then = |rest: &[(u64, (u32, u32), What)], opens: Vec<(u64, (u32, u32), What)>| {
        let made = [
            (1, (0, 0), CREATES),
            (2, (0, 0), What::Opened(9)),
            (3, (0, 1), OTHER),
            (4, (0, 1), What::Opened(10)),
        ];
        said(&[&made[..], rest, &opens[..]].concat())
    };
    assert_eq!(then(&[], opens(0, 9)), NOTHING);
    assert_eq!(then(&[], opens(0, 10)), ["names"]);
    // It is removed, and another one has its name.
    let anew =
        [(5, (0, 2), UNLINKS), (6, (0, 2), What::Done), (7, (0, 3), CREATES), (8, (0, 3), What::Opened(11))];
    assert_eq!(then(&anew, opens(0, 11)), NOTHING);
    assert_eq!(then(&anew, opens(0, 9)), ["names"]);
    // It takes the other one's name.
    let renames = What::Calls(Call::Rename(0, 1));
    let renamed = [(5, (0, 2), renames.clone()), (6, (0, 2), What::Done)];
    assert_eq!(then(&renamed, opens(1, 9)), NOTHING);
    assert_eq!(then(&renamed, opens(1, 10)), ["names"]);
    // Another call changes one of both names meanwhile: nobody knows which file took which place.
    let beside = [
        (5, (0, 2), renames),
        (5, (1, 0), What::Calls(Call::Create(1))),
        (6, (1, 0), What::Exists),
        (6, (0, 2), What::Done),
    ];
    for handle in [9, 10] {
        assert_eq!(then(&beside, opens(1, handle)), NOTHING);
    }
    // A call fails that may have given it the other file's name.
    let failed = [(5, (0, 2), What::Calls(Call::Rename(1, 0))), (6, (0, 2), FAILED)];
    for handle in [9, 10] {
        assert_eq!(then(&failed, opens(0, handle)), NOTHING);
    }
}

#[test]
fn a_directory_that_was_made_is_there() {
    let told = |rest: &[(u64, (u32, u32), What)]| {
        let made = [(1, (0, 0), What::Calls(Call::MakeDirectory(0))), (3, (0, 0), What::Done)];
        judged(FileOracles::new(2, 1), &[&made[..], rest].concat())
    };
    let refused = |since| told(&[(since, (0, 1), CREATES), (5, (0, 1), What::NotFound)]);
    assert_eq!(refused(4), ["names"]);
    assert_eq!(told(&[(4, (0, 1), CREATES), (5, (0, 1), What::Opened(9))]), NOTHING);
    let before = [
        (1, (0, 0), What::Calls(Call::MakeDirectory(0))),
        (2, (1, 0), CREATES),
        (3, (0, 0), What::Done),
        (4, (1, 0), What::NotFound),
    ];
    assert_eq!(judged(FileOracles::new(2, 1), &before), NOTHING, "it may have come too late");
}

/// It was on its way when its user dropped it, and whoever makes the file comes first.
#[test]
fn a_call_of_a_name_that_was_dropped_may_have_its_effect_after_calls_that_began_later_or_never() {
    let created = [(1, (0, 0), CREATES), (2, (0, 0), What::Opened(9))];
    let dropped = [(3, (2, 0), UNLINKS), (4, (2, 0), What::Dropped)];
    let again = [(5, (1, 0), CREATES), (6, (1, 0), What::Exists)];
    let then = |rest: &[Told]| said(&[&created[..], &dropped, &again, rest].concat());
    assert_eq!(then(&[(7, (2, 1), CREATES), (8, (2, 1), What::Opened(10))]), NOTHING);
    assert_eq!(then(&[(7, (2, 1), CREATES), (8, (2, 1), What::Exists)]), NOTHING);
    assert_eq!(then(&[(7, (2, 1), CREATES), (8, (2, 1), What::Opened(9))]), ["names"], "one handle twice");
    let mut failed = [&created[..], &dropped, &again].concat();
    failed.extend([(7, (2, 1), CREATES), (8, (2, 1), What::Opened(10))]);
    failed[3].2 = FAILED;
    assert_eq!(said(&failed), ["names"], "its effect came before its end");
    assert_eq!(judged(FileOracles::new(2, 0).failing_early(true), &failed), NOTHING, "by byte streams not");
}

#[test]
fn a_file_whose_making_was_dropped_may_be_opened_though_nobody_was_told_of_its_handle() {
    let then = |what| {
        [(1, (0, 0), CREATES), (2, (0, 0), What::Dropped), (3, (1, 0), OPENS), (4, (1, 0), what)].to_vec()
    };
    assert_eq!(said(&then(What::NotFound)), NOTHING);
    assert_eq!(said(&then(What::Opened(7))), NOTHING);
    let late = [then(What::NotFound), vec![(5, (1, 1), OPENS), (6, (1, 1), What::Opened(7))]].concat();
    assert_eq!(said(&late), NOTHING);
}

#[test]
fn a_write_that_was_dropped_may_have_its_effect_late_or_never_and_once() {
    let history = |seen: &[Value]| {
        let read = |(n, value): (u64, &Value)| {
            [(3 + 2 * n, (1, n as u32), READS), (4 + 2 * n, (1, n as u32), has([*value; 2]))]
        };
        let dropped = vec![(1, (0, 0), WRITES), (2, (0, 0), What::Dropped)];
        [dropped, (0..).zip(seen).flat_map(read).collect()].concat()
    };
    assert_eq!(said(&history(&[Value::Zero, of(0)])), NOTHING);
    assert_eq!(said(&history(&[Value::Zero, Value::Zero])), NOTHING);
    assert_eq!(said(&history(&[of(0), Value::Zero])), ["bytes"]);
}

#[test]
fn a_cut_that_was_dropped_may_come_after_appends_that_began_later() {
    let told = |ended| {
        let cut = [(12, (2, 0), CUTS), (18, (2, 0), ended)];
        let later = append((30, 40), (1, 0), 64);
        let again = append((50, 60), (0, 1), 64);
        said(&in_time(&[&append((10, 20), (0, 0), 64), &cut, &later, &again])).contains(&"places")
    };
    assert!(!told(What::Dropped));
    assert!(told(FAILED));
}

#[test]
fn who_drops_a_close_is_told_of_no_lost_writes_by_the_next_one() {
    const CLOSES: What = What::Calls(Call::Close(1));
    let told = |first: What| {
        let oracles = FileOracles::new(2, 0).surviving(1, Survival::Synced);
        let history = [
            (1, (1, 0), WRITES),
            (2, (1, 0), What::Done),
            (3, (0, 9), What::Restarted),
            (4, (1, 1), CLOSES),
            (5, (1, 1), first),
            (6, (1, 2), CLOSES),
            (7, (1, 2), What::Done),
        ];
        judged(oracles, &history)
    };
    assert_eq!(told(What::Dropped), NOTHING);
    assert_eq!(told(What::Done), ["bytes"]);
}

/// Appends two cells of 32 bytes.
const APPENDS: What = What::Calls(Call::Append(1, 2, 32));
/// Cuts the file after its first cell.
const CUTS: What = What::Calls(Call::Truncate(1, 1, 32));

type Told = (u64, (u32, u32), What);

/// An append, and where it lies.
fn append((began, ended): (u64, u64), of: (u32, u32), at: u64) -> [Told; 2] {
    [(began, of, APPENDS), (ended, of, What::At(at))]
}

/// A write that may have made the file long before all else.
const MAY_REACH: [Told; 2] = [(0, (9, 9), WRITES), (0, (9, 9), FAILED)];

/// All that is told of a file that may be long, in the order of time.
fn in_time(parts: &[&[Told]]) -> Vec<Told> {
    let mut all = [&MAY_REACH[..], &parts.concat()].concat();
    all.sort_by_key(|(at, ..)| *at);
    all
}

#[test]
fn appends_have_no_byte_in_common_and_lie_behind_those_before() {
    let second = |times, at| said(&in_time(&[&append((1, 3), (0, 0), 64), &append(times, (1, 0), at)]));
    for (times, at, fits) in [
        ((4, 5), 128, true),
        ((4, 5), 96, false),
        ((4, 5), 64, false),
        ((4, 5), 0, false),
        ((2, 5), 0, true),
        ((2, 5), 32, false),
        ((2, 5), 128, true),
    ] {
        assert_eq!(second(times, at) == NOTHING, fits, "{times:?} at {at}");
    }
}

#[test]
fn no_append_lies_farther_than_all_that_was_asked_for_may_reach() {
    let first = |before: &[Told], at| said(&[before, &append((10, 20), (0, 0), at)].concat());
    assert_eq!(first(&[], 0), NOTHING);
    assert_eq!(first(&[], 64), ["places"], "a hole that nobody asked for");
    let failed = [(1, (1, 0), APPENDS), (2, (1, 0), FAILED)];
    assert_eq!(first(&failed, 64), NOTHING, "its place may lie before");
    assert_eq!(first(&failed, 128), ["places"]);
    assert_eq!(first(&MAY_REACH, 192), NOTHING);
    assert_eq!(first(&MAY_REACH, 256), ["places"]);
}

#[test]
fn bytes_are_given_out_again_only_after_a_cut_and_not_before_where_it_cut() {
    let cut = |began, end: Option<(u64, What)>| {
        let ended = end.map(|(at, what)| (at, (2, 0), what));
        [Some((began, (2, 0), CUTS)), ended].into_iter().flatten().collect::<Vec<_>>()
    };
    let told = |cut: &[Told], times, at| {
        said(&in_time(&[&append((10, 20), (0, 0), 64), cut, &append(times, (1, 0), at)])).contains(&"places")
    };
    let done = |began, ended| cut(began, Some((ended, What::Done)));
    assert!(!told(&done(21, 25), (30, 40), 64));
    assert!(!told(&done(21, 25), (30, 40), 32));
    assert!(told(&done(21, 25), (30, 40), 0), "where the file was not cut");
    assert!(!told(&done(12, 18), (30, 40), 64), "the place may have been written to before the cut");
    assert!(told(&done(2, 8), (30, 40), 64), "it was cut before");
    assert!(told(&done(45, 50), (30, 40), 64), "it was cut afterwards");
    assert!(!told(&done(2, 15), (5, 40), 64), "in either order");
    let failed = cut(12, Some((18, FAILED)));
    assert!(!told(&failed, (30, 40), 64));
    let twice =
        [&append((10, 20), (0, 0), 64)[..], &cut(21, Some((25, FAILED))), &append((30, 40), (1, 0), 64)];
    let third = append((50, 60), (0, 1), 64);
    let all = in_time(&[&twice[..], &[&third]].concat());
    assert!(
        judged(FileOracles::new(2, 0), &all).contains(&"places"),
        "where the call failed its home is gone"
    );
    let late = judged(FileOracles::new(2, 0).failing_early(true), &all);
    assert!(!late.contains(&"places"), "by byte streams it may not be");
    let other = [(21, (2, 0), What::Calls(Call::Truncate(9, 0, 32))), (25, (2, 0), What::Done)];
    assert!(told(&other, (30, 40), 64), "another file");
}

#[test]
fn a_cell_that_is_first_read_after_a_cut_may_have_been_cut_off_for_whoever_reads_for_longer() {
    let history = |seen: Value| {
        [
            (0, (3, 0), READS),
            (1, (2, 0), CUTS),
            (2, (2, 0), What::Done),
            (3, (1, 0), READS),
            (4, (1, 0), has([Value::Zero; 2])),
            (5, (0, 0), WRITES),
            (6, (0, 0), What::Done),
            (7, (3, 0), has([seen; 2])),
        ]
    };
    assert_eq!(said(&history(Value::Zero)), NOTHING);
    assert_eq!(said(&history(of(0))), NOTHING);
    assert_eq!(said(&history(of(9))), ["bytes"]);
}

#[test]
fn a_cell_of_which_a_read_that_failed_told_nothing_may_have_been_cut_off_before() {
    let told = said(&[
        (1, (2, 0), CUTS),
        (2, (1, 0), READS),
        (3, (1, 0), FAILED),
        (4, (0, 0), WRITES),
        (5, (2, 0), What::Done),
        (6, (0, 0), What::Done),
        (7, (3, 0), READS),
        (8, (3, 0), has([Value::Zero; 2])),
    ]);
    assert_eq!(told, NOTHING);
}

#[test]
fn a_directory_whose_maker_hears_of_it_after_its_server_forgot_all_may_be_gone() {
    let told = |survival| {
        let oracles = FileOracles::new(2, 1).surviving(1, survival);
        judged(
            oracles,
            &[
                (1, (1, 0), What::Calls(Call::MakeDirectory(0))),
                (2, (0, 0), What::Restarted),
                (3, (1, 0), What::Done),
                (4, (1, 1), CREATES),
                (5, (1, 1), What::NotFound),
            ],
        )
    };
    assert_eq!(told(Survival::Nothing), NOTHING);
    assert_eq!(told(Survival::Synced), ["names"]);
}

#[test]
fn bytes_that_a_server_forgot_may_be_given_out_again() {
    let told = |survival| {
        let oracles = FileOracles::new(2, 0).surviving(2, survival);
        let lost = [(25, (1, 0), What::Restarted)];
        judged(oracles, &in_time(&[&append((10, 20), (4, 0), 64), &lost, &append((30, 40), (3, 0), 96)]))
    };
    assert_eq!(told(Survival::Nothing), NOTHING);
    assert_eq!(told(Survival::Names), ["places"]);
}

#[test]
fn a_file_that_is_not_open_is_told_unless_it_was_made_while_its_home_began_anew() {
    let survives = |history: &[_]| judged(FileOracles::new(2, 0).surviving(1, Survival::Answered), history);
    let made = [(1, (1, 0), CREATES), (2, (1, 0), What::Stale)];
    assert_eq!(survives(&made), ["open files"]);
    let amid = |node| [(1, (1, 0), CREATES), (2, (node, 9), What::Restarted), (3, (1, 0), What::Stale)];
    assert_eq!(survives(&amid(0)), NOTHING);
    assert_eq!(survives(&amid(2)), ["open files"], "that one is not its home");
    // What has returned is open.
    let later = [
        (1, (1, 0), CREATES),
        (2, (1, 0), What::Opened(1)),
        (3, (0, 9), What::Restarted),
        (4, (1, 0), WRITES),
        (5, (1, 0), What::Stale),
    ];
    assert_eq!(survives(&later), ["open files"]);
}
