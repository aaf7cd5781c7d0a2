//! The conformance suite on real `ibverbs`: one line a case, a table of what is lacking at the end.
//!
//! `hw-conformance [GROUP[::CASE]]...` runs the cases whose group or name begins so, or all. Exit code 0: every promise
//! was kept, or could not be put to the test for a reason that is listed.

mod departures;
mod harness;

use harness::HwHarness;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;
use verbs_trait::Nanos;
use verbs_trait::conformance::{self, Case, Harness, Pace, Verdict};

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    match run(&wanted) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("hw-conformance: {why}");
            ExitCode::from(3)
        }
    }
}

/// Under emulation a message's way there and back takes a quarter of a millisecond, and now and then several.
fn pace() -> Pace {
    let millis = |name: &str, default: u64| {
        let given = std::env::var(name).ok().and_then(|text| text.parse().ok());
        Nanos::from_millis(given.unwrap_or(default))
    };
    Pace { round_trip: millis("ROUND_TRIP_MS", 10), patience: millis("PATIENCE_MS", 45_000), seeds: 2 }
}

/// How long to wait for what a device is known not to do.
const IMPATIENCE: Nanos = Nanos::from_secs(5);

fn picked(wanted: &[String], case: &Case<HwHarness>) -> bool {
    let name = format!("{}::{}", case.group, case.name);
    wanted.is_empty() || wanted.iter().any(|prefix| name.starts_with(prefix.as_str()) || case.name == prefix)
}

fn run(wanted: &[String]) -> Result<bool, String> {
    let mut harness = HwHarness::new(pace())?;
    let began = Instant::now();
    let mut tally = Tally::default();
    let mut last = began;
    for case in conformance::cases::<HwHarness>().iter().filter(|case| picked(wanted, case)) {
        let departs = departures::known(case.group, case.name).is_some();
        harness.be_patient(if departs { IMPATIENCE } else { pace().patience });
        let verdict = tally.judge(case.group, case.name, &case.run(&mut harness));
        println!("{:6.2} s  {}::{}  {verdict}", last.elapsed().as_secs_f64(), case.group, case.name);
        let _ = std::io::stdout().flush();
        last = Instant::now();
    }
    // A start makes sure that all that the last case made is gone.
    harness.start(1, 0)?;
    println!("{} in {:.0} s; {}", tally.line(), began.elapsed().as_secs_f64(), hw_backend::Census::now());
    Ok(tally.failed == 0)
}

#[derive(Default)]
struct Tally {
    passed: u32,
    lacking: u32,
    departing: u32,
    failed: u32,
}

impl Tally {
    fn judge(&mut self, group: &str, case: &str, verdict: &Verdict) -> String {
        match (verdict, departures::known(group, case)) {
            (Verdict::Passed, None) => {
                self.passed += 1;
                "passed".to_string()
            }
            (Verdict::Passed, Some(_)) => {
                self.passed += 1;
                "passed, and is listed as a departure of the device".to_string()
            }
            (Verdict::Lacking { .. }, _) => {
                self.lacking += 1;
                verdict.to_string()
            }
            (Verdict::Failed(_), Some(departure)) => {
                self.departing += 1;
                format!("departs: {}", departure.why)
            }
            (Verdict::Failed(_), None) => {
                self.failed += 1;
                verdict.to_string()
            }
        }
    }

    fn line(&self) -> String {
        let Tally { passed, lacking, departing, failed } = self;
        format!("{passed} passed, {lacking} lacking, {departing} departures of the device, {failed} failed")
    }
}
