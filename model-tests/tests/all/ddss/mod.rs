//! Shared segments under accidents, over seeds: each model keeps its promise, and the oracles notice who does not.

mod keys;
mod members;
mod release;
mod worlds;

use crate::common::{broken_by, stormy, struck};
use weft_check::record::Record;
use weft_check::scenario::{FaultKind, Scenario};
use weft_check::seeds::assert_held;
use weft_check::systems::ddss::Segments;
use weft_check::systems::ddss::history::{Event, Value, What};
use weft_protocols::ddss::Model;

const WORKLOAD: &str = r#"
kind = "ddss"
model = "write"
segments = 2
bytes = 200
puts = 0.4
requests = 1500
"#;

fn scenario(model: Model) -> Scenario {
    let mut scenario = stormy(4, WORKLOAD, 800);
    scenario.workload.change::<Segments>(|work| work.model = model);
    scenario
}

#[test]
fn every_model_keeps_its_promise_while_links_fail_and_answers_are_lost() {
    for model in Model::ALL {
        let summary = assert_held(&scenario(model), 0..12);
        assert!(
            struck(&summary, FaultKind::Cut) > 0 && struck(&summary, FaultKind::LoseCompletion) > 0,
            "{model}"
        );
        assert!(summary.metrics.count("protocol", "unknown_outcomes") > 0, "{model}");
        let unchanged = summary.metrics.count("requests", "unchanged");
        assert_eq!(unchanged > 0, model.keeps_copies(), "{model}: {unchanged}");
    }
}

#[test]
fn null_promises_nothing_and_is_seen_to_tear_where_the_others_do_not() {
    let torn = |model| {
        let mut scenario = scenario(model);
        scenario.faults.clear();
        scenario.workload.change::<Segments>(|work| {
            (work.bytes, work.segments) = (16_384, 1);
            work.think = weft_check::scenario::Spread::fixed(weft_verbs::Nanos::ZERO);
        });
        assert_held(&scenario, 0..3).metrics.count("requests", "torn")
    };
    assert!(torn(Model::Null) > 0);
    for model in Model::ALL.into_iter().filter(|model| !model.may_tear()) {
        assert_eq!(torn(model), 0, "{model}");
    }
}

#[test]
fn the_holder_of_a_lock_is_alone_and_earlier_versions_are_whole_while_links_fail() {
    for model in [Model::Read, Model::Delta(3), Model::Write, Model::Strict] {
        let mut scenario = scenario(model);
        scenario.workload.change::<Segments>(|work| {
            let share = |share| weft_check::scenario::Share::new(share).unwrap_or_default();
            (work.requests, work.exchanges) = (Some(500), share(0.2));
            work.earlier = share(if model.behind() > 0 { 0.5 } else { 0.0 });
        });
        let summary = assert_held(&scenario, 0..6);
        let count = |group, what| summary.metrics.count(group, what);
        assert!(count("requests", "exchanged") > 0 && count("requests", "locked") > 0, "{model}");
        assert!(count("protocol", "turns") > 0 && count("protocol", "unknown_outcomes") > 0, "{model}");
    }
}

/// Under read and strict it is judged that nobody else saw what a holder of the lock had put first.
#[test]
fn what_is_superseded_under_the_lock_is_hidden_by_read_and_strict_while_links_fail() {
    for model in [Model::Read, Model::Strict, Model::Write] {
        let mut scenario = scenario(model);
        scenario.workload.change::<Segments>(|work| {
            let share = |share| weft_check::scenario::Share::new(share).unwrap_or_default();
            (work.requests, work.exchanges, work.twice) = (Some(300), share(0.3), share(0.5));
        });
        let summary = assert_held(&scenario, 0..4);
        assert!(summary.metrics.count("requests", "exchanged") > 0, "{model}");
    }
}

/// The oracles that a run violates in which one client saw something that was not.
fn made_up(what: What) -> Vec<&'static str> {
    broken_by::<Segments, _>(scenario(Model::Write), async move |recorder, rt| {
        // Late, so that the segment has a past.
        rt.sleep(weft_verbs::Nanos::from_millis(1)).await;
        let client = weft_check::history::ClientId { node: 1, index: 99 };
        let request = weft_check::history::RequestId { client, number: 0 };
        for what in [What::Gets, what] {
            recorder.record(Event { at_ns: rt.now().0, request, segment: 0, life: 0, what });
        }
    })
}

#[test]
fn an_old_value_and_a_torn_one_are_noticed_in_a_running_world() {
    assert_eq!(made_up(What::Got { value: Value::Zero, version: Some(0) }), ["latest value"]);
    assert!(made_up(What::Got { value: Value::Torn, version: Some(1 << 40) }).contains(&"whole values"));
}
