use super::*;
use crate::history::ClientId;
use crate::oracle;
use crate::systems::ddss::history::Why;
use weft_protocols::ddss::Name;

const fn request(node: u32) -> RequestId {
    RequestId { client: ClientId { node, index: 0 }, number: 0 }
}

/// What is said of a history of one segment: at so many microseconds, a node's only request, and what happens to it.
fn said(model: Model, history: &[(u64, u32, What)]) -> Vec<&'static str> {
    let event = |&(at, node, what): &(u64, u32, What)| {
        let request = request(node);
        Event { at_ns: 1_000 * at, request, segment: 1, life: 0, what }
    };
    let said = oracle::said(&mut DdssOracles::new(model, 3), history.iter().map(event));
    said.iter().map(|violation| violation.oracle).collect()
}

const fn got(node: u32, version: u64) -> What {
    What::Got { value: Value::Of(request(node)), version: Some(version) }
}

const fn put(version: u64) -> What {
    What::Put { version: Some(version) }
}

const NOTHING: [&str; 0] = [];

#[test]
fn a_get_beside_a_put_may_return_either_value_and_one_after_it_the_new_one() {
    let zero = What::Got { value: Value::Zero, version: Some(0) };
    for seen in [zero, got(0, 1)] {
        let beside = [(1, 0, What::Puts), (2, 1, What::Gets), (3, 0, put(1)), (4, 1, seen)];
        assert_eq!(said(Model::Write, &beside), NOTHING);
    }
    let after = |seen| [(1, 0, What::Puts), (2, 0, put(1)), (3, 1, What::Gets), (4, 1, seen)];
    assert_eq!(said(Model::Write, &after(got(0, 1))), NOTHING);
    assert_eq!(said(Model::Write, &after(zero)), ["latest value"]);
    assert_eq!(said(Model::Null, &after(zero)), NOTHING, "null promises nothing");
}

#[test]
fn what_one_get_has_seen_no_later_one_may_unsee() {
    let history = |second| {
        [
            (1, 0, What::Puts),
            (2, 1, What::Gets),
            (3, 1, got(0, 1)),
            (4, 2, What::Gets),
            (5, 2, second),
            (6, 0, put(1)),
        ]
    };
    assert_eq!(said(Model::Strict, &history(got(0, 1))), NOTHING);
    let zero = What::Got { value: Value::Zero, version: Some(0) };
    assert_eq!(said(Model::Strict, &history(zero)), ["latest value"]);
}

#[test]
fn a_value_that_is_published_twice_is_noticed() {
    // Node 0's value is seen at version 1, another one supersedes it, and then node 0's is there again.
    let history = |seen: Option<What>, ends| {
        let mut all = vec![
            (1, 0, What::Puts),
            (1, 1, What::Puts),
            (2, 2, What::Gets),
            (3, 2, got(0, 1)),
            (4, 1, put(2)),
        ];
        all.extend(seen.into_iter().flat_map(|seen| [(5, 2, What::Gets), (6, 2, seen)]));
        all.push((7, 0, ends));
        all
    };
    for model in [Model::Write, Model::Strict, Model::Version, Model::Read, Model::Delta(0)] {
        assert_eq!(said(model, &history(None, put(3))), ["latest value"], "{model}");
    }
    assert_eq!(said(Model::Delta(2), &history(None, put(3))), ["versions behind"]);
    let unknown = What::Failed(Why::Unknown);
    assert_eq!(said(Model::Write, &history(Some(got(0, 3)), unknown)), ["latest value"], "and not told");
    assert_eq!(said(Model::Write, &history(Some(got(1, 2)), unknown)), NOTHING);
}

#[test]
fn a_put_returns_the_version_at_which_its_value_was_got() {
    let history =
        |put_version| [(1, 0, What::Puts), (2, 1, What::Gets), (3, 1, got(0, 3)), (4, 0, put(put_version))];
    assert_eq!(said(Model::Write, &history(3)), NOTHING);
    assert_eq!(said(Model::Write, &history(1)), ["latest value"]);
}

#[test]
fn a_value_that_is_put_twice_under_the_lock_has_two_versions_that_follow_each_other() {
    let history = |begins, second| {
        [
            (1, 0, begins),
            (2, 1, What::Gets),
            (3, 1, got(0, 1)),
            (4, 1, What::Gets),
            (5, 1, got(0, second)),
            (6, 0, What::Failed(Why::NotSaid)),
        ]
    };
    let said = |begins, second| said(Model::Write, &history(begins, second));
    assert_eq!((said(What::ExchangesTwice, 2), said(What::Exchanges, 1)), (vec![], vec![]));
    assert_eq!(said(What::ExchangesTwice, 3), ["latest value"]);
    assert_eq!(said(What::Exchanges, 2), ["latest value"]);
}

#[test]
fn a_value_of_a_segment_that_had_the_name_before_is_none_of_the_next_one() {
    let said = |life| {
        let (mut oracles, mut said) = (DdssOracles::new(Model::Write, 3), Vec::new());
        let history = [
            (0, 0, What::Puts),
            (0, 7, put(1)),
            (1, 0, What::Releases),
            (1, 7, What::Released),
            (2, 0, What::Gets),
            (2, life, got(0, 1)),
        ];
        for (at, (node, life, what)) in (0..).zip(history) {
            let event = Event { at_ns: at, request: request(node), segment: 1, life, what };
            oracles.observe(&event, &mut |violation| said.push(violation.oracle));
        }
        said
    };
    assert_eq!(said(8), ["latest value"]);
    assert_eq!(said(7), ["released"], "and not of another one");
}

#[test]
fn delta_allows_so_many_versions_and_temporal_so_much_time() {
    let zero = What::Got { value: Value::Zero, version: Some(0) };
    // Two puts complete at 2 us and 4 us, and a get returns the value before both at 10 us.
    let history = |seen| {
        [
            (1, 0, What::Puts),
            (2, 0, put(1)),
            (3, 1, What::Puts),
            (4, 1, put(2)),
            (5, 2, What::Gets),
            (10, 2, seen),
        ]
    };
    let unchanged = What::Unchanged { version: 0 };
    for seen in [zero, unchanged] {
        assert_eq!(said(Model::Delta(2), &history(seen)), NOTHING);
        assert_eq!(said(Model::Delta(1), &history(seen)), ["versions behind"]);
        assert_eq!(said(Model::Temporal(9), &history(seen)), NOTHING);
        assert_eq!(said(Model::Temporal(7), &history(seen)), ["time behind"]);
    }
    // One version behind: superseded at 4 us.
    assert_eq!(said(Model::Temporal(7), &history(got(0, 1))), NOTHING);
    assert_eq!(said(Model::Temporal(5), &history(got(0, 1))), ["time behind"]);
}

#[test]
fn a_version_that_is_asked_for_by_its_distance_is_that_one() {
    let zero = What::Got { value: Value::Zero, version: Some(0) };
    // Two puts complete, and a third is under way; a get asks for a version, and returns this one.
    let history = |back, seen| {
        [
            (1, 0, What::Puts),
            (2, 0, put(1)),
            (3, 1, What::Puts),
            (4, 1, put(2)),
            (5, 3, What::Puts),
            (5, 2, What::GetsEarlier { back }),
            (6, 2, seen),
            (7, 3, put(3)),
        ]
    };
    let said = |back, seen| said(Model::Delta(2), &history(back, seen));
    assert_eq!((said(2, zero), said(2, got(0, 1))), (vec![], vec![]));
    assert_eq!(said(2, got(1, 2)), ["earlier"]);
    for older in [zero, got(0, 1)] {
        assert_eq!(said(0, older), ["versions behind"], "a copy may be as old as that");
    }
    assert_eq!(said(0, got(1, 2)), NOTHING);
}

#[test]
fn a_put_between_the_lock_and_the_unlock_of_another_is_noticed() {
    let exchanged = |put| What::Exchanged { value: Value::Zero, got: Some(0), put: Some(put) };
    let history = |first| {
        [(1, 0, What::Exchanges), (2, 1, What::Puts), (3, 1, put(3 - first)), (4, 0, exchanged(first))]
    };
    assert_eq!(said(Model::Strict, &history(1)), NOTHING);
    assert!(said(Model::Write, &history(2)).contains(&"holder alone"));
    assert_eq!(said(Model::Null, &history(2)), NOTHING);
}

#[test]
fn without_versions_whoever_has_the_lock_finds_what_the_one_before_it_put() {
    let holds = |value| What::Holds { value };
    let done = What::Exchanged { value: Value::Zero, got: None, put: None };
    let of = |node| Value::Of(request(node));
    // Node 0 has the lock and returns or dies; then node 1 has it and returns, and then node 2 finds a value.
    let history = |ends, second, third| {
        [
            (1, 0, What::Exchanges),
            (1, 1, What::Exchanges),
            (1, 2, What::Exchanges),
            (2, 0, holds(Value::Zero)),
            (3, 0, ends),
            (4, 1, holds(second)),
            (5, 1, done),
            (6, 2, holds(third)),
            (7, 2, done),
        ]
    };
    assert_eq!(said(Model::Null, &history(done, of(0), of(1))), NOTHING);
    assert_eq!(said(Model::Null, &history(done, Value::Zero, of(1))), ["holder alone"]);
    for second in [Value::Zero, of(0)] {
        assert_eq!(said(Model::Null, &history(What::Crashed, second, of(1))), NOTHING);
        assert_eq!(said(Model::Null, &history(What::Crashed, second, of(0))), ["holder alone"], "late");
        assert_eq!(said(Model::Null, &history(What::Crashed, second, Value::Torn)), ["holder alone"]);
    }
    // What died amid its put may be there in part, until the next one has put; what one has put that returned is whole.
    assert_eq!(said(Model::Null, &history(What::Crashed, Value::Torn, of(1))), NOTHING);
    let left_out = history(What::LeftOut, Value::Torn, of(1));
    assert_eq!(said(Model::Null, &[&left_out[..], &[(8, 0, What::Crashed)]].concat()), NOTHING);
    assert_eq!(said(Model::Null, &history(What::Crashed, Value::Torn, Value::Torn)), ["holder alone"]);
    assert_eq!(said(Model::Null, &history(done, Value::Torn, of(1))), ["holder alone"]);
    // The first returns after the second has found something.
    let late = |found| {
        [
            (1, 0, What::Exchanges),
            (1, 1, What::Exchanges),
            (2, 0, holds(Value::Zero)),
            (3, 1, holds(found)),
            (4, 0, done),
            (5, 1, done),
        ]
    };
    assert_eq!(said(Model::Null, &late(of(0))), NOTHING);
    assert_eq!(said(Model::Null, &late(Value::Zero)), ["holder alone"]);
}

#[test]
fn what_was_released_is_gone_and_what_has_its_name_next_begins_anew() {
    let zero = What::Got { value: Value::Zero, version: Some(0) };
    let end = |life, what| (life, what);
    // Version 1 is put, and the segment is released; then somebody ends so.
    let said = |last: (u64, What)| {
        let (mut oracles, mut said) = (DdssOracles::new(Model::Write, 3), Vec::new());
        let history = [
            (0, end(0, What::Puts)),
            (0, end(7, put(1))),
            (1, end(0, What::Releases)),
            (1, end(7, What::Released)),
            (2, end(0, What::Gets)),
            (2, last),
        ];
        for (at, (node, (life, what))) in (0..).zip(history) {
            let event = Event { at_ns: at, request: request(node), segment: 1, life, what };
            oracles.observe(&event, &mut |violation| said.push(violation.oracle));
        }
        said
    };
    assert_eq!(said((8, zero)), NOTHING, "another segment");
    assert_eq!(said((7, got(0, 1))), ["released"]);
    assert_eq!(said((0, What::Gone)), NOTHING);
    assert_eq!(self::said(Model::Null, &[(1, 0, What::Gets), (2, 0, What::Gone)]), ["released"]);
}

#[test]
fn what_somebody_was_told_is_gone_has_its_name_no_more() {
    // It is being released, and a call is told so; then somebody looks its name up, before that or after it.
    let said = |is_told_first: bool, found: u64| {
        let (mut oracles, mut said) = (DdssOracles::new(Model::Write, 3), Vec::new());
        let (told, asks) = ((2, 7, What::Gone), (3, 0, What::Finds));
        let [first, second] = if is_told_first { [told, asks] } else { [asks, told] };
        let before = [(1, 0, What::Releases), (2, 0, What::Gets)];
        let history = before.into_iter().chain([first, second, (3, found, What::Found)]);
        for (at, (node, life, what)) in (0..).zip(history) {
            let event = Event { at_ns: at, request: request(node), segment: 1, life, what };
            oracles.observe(&event, &mut |violation| said.push(violation.oracle));
        }
        said
    };
    assert_eq!(said(true, 7), ["released"]);
    assert_eq!(said(true, 0), NOTHING, "nothing has the name");
    assert_eq!(said(true, 8), NOTHING, "another segment");
    assert_eq!(said(false, 7), NOTHING, "it may have been found before");
}

#[test]
fn a_segment_is_gone_with_its_home_and_with_nobody_else_and_the_dead_need_not_return() {
    let home = Name(1).home(3).index() as u32;
    for (dies, expected) in [(home, &[][..]), ((home + 1) % 3, &["released"])] {
        let asks = (home + 2) % 3;
        let history =
            |ends| [(1, dies, What::Gets), (2, dies, ends), (3, asks, What::Gets), (4, asks, What::Lost)];
        // One that is left out alive must return.
        for (ends, waiting) in [(What::Crashed, 0), (What::LeftOut, 1)] {
            let (mut oracles, mut said) = (DdssOracles::new(Model::Write, 3), Vec::new());
            for (at_ns, node, what) in history(ends) {
                let event = Event { at_ns, request: request(node), segment: 1, life: 0, what };
                let event = if what == ends { Event::of_node(Nanos(at_ns), node, what) } else { event };
                oracles.observe(&event, &mut |violation| said.push(violation.oracle));
            }
            assert_eq!((&said[..], oracles.unended()), (expected, waiting), "{ends:?}");
        }
    }
}

#[test]
fn two_values_of_one_version_a_torn_value_and_a_call_that_never_returns_are_told_apart() {
    let two = [(1, 0, What::Puts), (1, 1, What::Puts), (2, 0, put(1)), (2, 1, put(1))];
    assert_eq!(said(Model::Version, &two), ["latest value"]);
    let torn = What::Got { value: Value::Torn, version: Some(1) };
    assert_eq!(said(Model::Write, &[(1, 0, What::Gets), (2, 0, torn)]), ["whole values"]);
    assert_eq!(said(Model::Null, &[(1, 0, What::Gets), (2, 0, torn)]), NOTHING);
    assert_eq!(said(Model::Null, &[(1, 0, What::Puts)]), ["progress"]);
}
