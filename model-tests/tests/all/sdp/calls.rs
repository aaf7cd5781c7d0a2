//! What programs call on streams, and copies of files, in every order: to its end without a fault, and as far as a test goes with one.

use crate::common::{entry, explore};
use weft_check::explore::{Expected, Options, Size};
use weft_check::systems::worlds;
use weft_sim::explore::{FaultSet, Outcome};

const ROOMS: [&str; 8] = [
    "sdp-copy",
    "sdp-calls",
    "sdp-aborts",
    "sdp-listener",
    "sdp-dropped",
    "sdp-left",
    "sdp-narrow-",
    "sdp-impatient",
];

fn names() -> impl Iterator<Item = &'static str> {
    let names = worlds().into_iter().filter(|entry| entry.expected == Expected::Held).map(|entry| entry.name);
    names.filter(|name| ROOMS.iter().any(|room| name.starts_with(room)))
}

#[test]
fn every_call_on_a_stream_may_be_made_and_dropped_at_any_moment() {
    assert!(names().count() > 30, "a name that has changed tests nothing");
    for name in names() {
        let report = explore(name, &Size::default(), &Options { livelock: 400, ..Options::default() });
        assert!(report.held() && report.exhaustive, "{name}: {:?}", report.counterexample);
        // Nothing fails without a fault; what is left is what the world is about.
        let mut of_faults = vec![
            "a connection was made again",
            "a message was sent again",
            "a message came twice",
            "a read or write was repeated",
            "a peer was found to be new",
            "a peer was given up",
        ];
        if name == "sdp-narrow-recalls" {
            // With room for one message all is read by the time at which it is wanted back.
            of_faults.push("something was given back unread");
        }
        let left: Vec<_> = report.unreached().filter(|branch| !of_faults.contains(branch)).collect();
        assert!(left.is_empty(), "{name}: {left:?}");
    }
}

#[test]
fn a_cut_beside_any_call_on_a_stream_is_a_stall_and_no_more() {
    let kinds = FaultSet::one(Outcome::Cut).with(Outcome::LoseCompletion);
    for name in names() {
        let most = Some(400);
        let options = Options {
            kinds: Some(kinds),
            faults: 1,
            livelock: 400,
            max_executions: most,
            ..Options::default()
        };
        let report = explore(name, &Size::default(), &options);
        assert!(report.held(), "{name}: {:?}", report.counterexample);
    }
}

#[test]
fn a_copy_whose_other_end_crashes_at_any_event_ends_and_says_what_is_true() {
    let kinds = FaultSet::one(Outcome::Crash);
    let options = Options { kinds: Some(kinds), faults: 1, livelock: 400, ..Options::default() };
    let report = explore("sdp-copy-crashes", &Size::default(), &options);
    assert!(report.held() && report.exhaustive, "{:?}", report.counterexample);
}

/// Drawn ones, that once were told of promises that nothing had broken.
#[test]
fn who_shares_a_stream_writes_in_turn_and_ends_where_none_stands() {
    for (name, calls) in [("sdp-dropped-resize", "cz!w+s,e"), ("sdp-narrow-listener-stops", "c+R,w")] {
        let options = Options { livelock: 400, max_executions: Some(3_000), ..Options::default() };
        let report = explore(name, &Size::new([("calls", calls)]), &options);
        assert!(report.held(), "{name} {calls}: {:?}", report.counterexample);
    }
}

#[test]
fn letters_that_nobody_knows_are_refused_in_one_line() {
    for calls in ["cy,e", "w,e", "cw,ce", "c!!,e", "cw", "cwfw,e", "c+R,wf+w"] {
        let refused = entry("sdp-calls").build(&Size::new([("calls", calls)])).err();
        let refused = refused.unwrap_or_else(|| panic!("{calls}")).to_string();
        assert_eq!(refused.lines().count(), 1, "{refused}");
    }
}
