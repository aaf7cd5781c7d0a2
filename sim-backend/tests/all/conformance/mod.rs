//! The simulated fabric keeps the verbs contract: the conformance suite, one test a case. It lacks nothing: a case that
//! could not be put to the test fails.

mod harness;

use harness::SimHarness;
use weft_sim::sanitizer::Rule;
use weft_sim::{Jitter, Keys};
use weft_verbs::conformance::{self, CAUSES, Cause, HarnessCaps, Verdict};
use weft_verbs::{Caps, Nanos};

/// How often cases that draw their faults are repeated; `CONFORMANCE_SEEDS` asks for more.
fn seeds() -> u64 {
    std::env::var("CONFORMANCE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(100)
}

fn present_day() -> SimHarness {
    SimHarness::new("present-day", Nanos::from_micros(10), seeds())
}

fn judge(verdict: &Verdict) -> Result<(), String> {
    match verdict {
        Verdict::Passed => Ok(()),
        other => Err(other.to_string()),
    }
}

fn check(group: &str, name: &str) {
    let case = conformance::case::<SimHarness>(group, name).expect("a case of the suite");
    let mut harness = present_day();
    if let Err(why) = judge(&case.run(&mut harness)) {
        panic!("{group}::{name} (IBA {}): {why}", case.clause);
    }
    let expected = DELIBERATE.iter().find(|(of, _)| *of == (group, name)).map(|(_, rule)| *rule);
    assert_eq!(harness.broken(), Vec::from_iter(expected), "what the sanitizer saw of {group}::{name}");
}

/// Cases that break a rule of the sanitizer, because that is what they are about or because they look on from
/// outside: none else does.
const DELIBERATE: &[((&str, &str), Rule)] = &[
    (("duplicates", "a_duplicate_atomic_is_answered_from_the_record"), Rule::MixedAtomics),
    (("keys", "a_region_that_goes_amid_a_read_refuses_the_rest"), Rule::Deregistered),
    (("keys", "a_region_that_goes_amid_a_write_refuses_the_rest"), Rule::Deregistered),
    (("keys", "a_region_deregistered_amid_a_read_is_not_read_on"), Rule::Deregistered),
    (("keys", "a_region_deregistered_amid_a_write_is_not_written_on"), Rule::Deregistered),
    (("shapes", "a_queue_pair_can_connect_to_itself"), Rule::MixedAtomics),
];

macro_rules! tests {
    ($($group:ident { $($case:ident)* })*) => {
        $(mod $group {
            $(#[test]
            fn $case() {
                super::check(stringify!($group), stringify!($case));
            })*
        })*

        /// Every case of the list above.
        const LISTED: &[(&str, &str)] = &[$($((stringify!($group), stringify!($case))),*),*];
    };
}

weft_verbs::conformance_cases!(tests);

#[test]
fn every_case_of_the_suite_has_its_test() {
    let suite: Vec<_> =
        conformance::cases::<SimHarness>().iter().map(|case| (case.group, case.name)).collect();
    assert_eq!(LISTED, suite);
}

#[test]
fn every_completion_status_has_a_case_that_provokes_it_or_a_reason() {
    for (status, cause) in CAUSES {
        match cause {
            Cause::Case(group, name) => {
                assert!(
                    conformance::case::<SimHarness>(group, name).is_some(),
                    "{status:?}: {group}::{name}"
                );
            }
            Cause::None(why) => assert!(!why.is_empty(), "{status:?}"),
        }
    }
}

/// The same suite on another adapter's costs; and the table, for `--nocapture`.
#[test]
fn the_suite_holds_with_the_costs_of_2007_as_well() {
    let mut harness = SimHarness::new("ncosed-2007", Nanos::from_micros(100), 10);
    let report = conformance::run(&mut harness, |_| true, &mut |_| {});
    println!("{report}");
    let broken: Vec<_> = report.rows.iter().filter(|row| judge(&row.verdict).is_err()).collect();
    assert!(broken.is_empty(), "{} cases failed:\n{report}", broken.len());
}

/// Latencies that vary break no rule of the specification.
#[test]
fn the_suite_holds_where_latencies_vary() {
    let wild = Jitter { share_ppm: 500_000, spikes_ppm: 100_000, spike: Nanos::from_micros(5) };
    for (jitter, round_trip) in [(Jitter::USUAL, 20), (wild, 100)] {
        let harness = SimHarness::new("present-day", Nanos::from_micros(round_trip), 10);
        let report = conformance::run(&mut harness.with(jitter), |_| true, &mut |_| {});
        let broken: Vec<_> = report.rows.iter().filter(|row| judge(&row.verdict).is_err()).collect();
        assert!(broken.is_empty(), "{jitter:?}: {broken:?}");
    }
}

/// An adapter may give a key that has died to the very next region.
#[test]
fn the_suite_holds_where_keys_come_again_at_once() {
    let mut harness = SimHarness::new("present-day", Nanos::from_micros(10), 10).with_keys(Keys::Stack);
    let report = conformance::run(&mut harness, |_| true, &mut |_| {});
    let broken: Vec<_> = report.rows.iter().filter(|row| judge(&row.verdict).is_err()).collect();
    assert!(broken.is_empty(), "{broken:?}");
}

/// What needs remote atomics is refused by name, and all else is as ever.
#[test]
fn the_suite_holds_on_adapters_without_remote_atomics() {
    let mut harness = SimHarness::new("present-day", Nanos::from_micros(10), 10).without_atomics();
    let report = conformance::run(&mut harness, |_| true, &mut |_| {});
    for row in &report.rows {
        match &row.verdict {
            Verdict::Passed => {}
            Verdict::Lacking { caps, .. } => assert_eq!(*caps, Caps::ATOMICS, "{}", row.case),
            // One that is about something else, and uses an atomic on the way.
            Verdict::Failed(why) => {
                assert!(why.to_string().contains("not supported here: atomics"), "{}: {why}", row.case);
            }
        }
    }
}

/// What a run leaves open (orders of simultaneous events, each connection's timer) must not matter to any case.
#[test]
fn the_suite_holds_whatever_is_left_open() {
    for shift in 1..=seeds() / 10 {
        let mut harness = present_day().shifted(shift << 32);
        let report = conformance::run(&mut harness, |case| case.group != "reliability", &mut |_| {});
        let broken: Vec<_> = report.rows.iter().filter(|row| judge(&row.verdict).is_err()).collect();
        assert!(broken.is_empty(), "with seeds shifted by {shift}: {broken:?}");
    }
}

/// The suite itself: what a harness cannot do is listed, case by case, and nothing else changes.
#[test]
fn a_missing_capability_of_the_harness_shows_in_the_table() {
    let missing = HarnessCaps::STRIKE | HarnessCaps::MOUNT;
    let mut harness = present_day().without(missing);
    let wanted = |case: &conformance::Case<SimHarness>| case.group != "reliability";
    let report = conformance::run(&mut harness, wanted, &mut |_| {});
    let cases = conformance::cases::<SimHarness>().into_iter().filter(wanted);
    for (row, case) in report.rows.iter().zip(cases) {
        match &row.verdict {
            Verdict::Lacking { harness_caps, .. } => {
                assert_eq!(*harness_caps, case.harness_caps & missing, "{}", row.case)
            }
            Verdict::Passed => assert!(!case.harness_caps.intersects(missing), "{} passed without", row.case),
            Verdict::Failed(why) => panic!("{}: {why}", row.case),
        }
    }
}

/// The suite itself: a fabric that carries nothing is found out, in words, without a panic or an endless wait.
#[test]
fn a_dead_fabric_fails_in_words() {
    let mut harness = present_day().dead();
    let groups = ["data", "ordering", "atomics", "rnr", "cm", "reliability"];
    let report = conformance::run(&mut harness, |case| groups.contains(&case.group), &mut |_| {});
    let (passed, _, failed) = report.counts();
    assert!(failed > 10 * passed, "{report}");
}
