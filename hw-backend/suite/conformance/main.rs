//! The conformance suite on real `ibverbs`: one line a case, and what it came to at the end.
//!
//! `hw-conformance [--part K/N] [--within SECONDS] [GROUP[::CASE]]...` runs the cases whose group or name begins so, or
//! all; of these every N-th, beginning with the K-th. A case that fails is run once more by itself when all others are
//! through, since everything here waits for emulated machines by the clock; one that passes then is counted as that.
//! Cases for which the time did not suffice are named.
//!
//! Exit code 0: every promise was kept, or could not be put to the test for a reason that is listed; 1: one was broken;
//! 3: the suite could not run.

mod departures;
mod harness;
mod tally;

use departures::Departure;
use harness::HwHarness;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tally::{Found, Tally};
use weft_verbs::Nanos;
use weft_verbs::conformance::{self, Case, Harness, Timing};

fn main() -> ExitCode {
    match arguments(std::env::args().skip(1)).and_then(|wanted| run(&wanted)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("hw-conformance: {why}");
            ExitCode::from(3)
        }
    }
}

/// Which cases to run, and for how long.
#[derive(Default)]
struct Wanted {
    names: Vec<String>,
    within: Option<Duration>,
    /// Which part of how many, from 0.
    part: Option<(usize, usize)>,
}

impl Wanted {
    fn picks(&self, case: &Case<HwHarness>) -> bool {
        let name = format!("{}::{}", case.group, case.name);
        let picked = |prefix: &String| name.starts_with(prefix.as_str()) || case.name == prefix;
        self.names.is_empty() || self.names.iter().any(picked)
    }

    fn has(&self, number: usize) -> bool {
        self.part.is_none_or(|(part, of)| number % of == part)
    }
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<Wanted, String> {
    let mut wanted = Wanted::default();
    while let Some(word) = words.next() {
        if word == "--within" {
            let seconds = words.next().and_then(|text| text.parse().ok());
            wanted.within = Some(Duration::from_secs(seconds.ok_or("--within wants seconds")?));
        } else if word == "--part" {
            let part = words.next().as_deref().and_then(part_of);
            wanted.part = Some(part.ok_or("--part wants K/N, as in 1/2")?);
        } else {
            wanted.names.push(word);
        }
    }
    Ok(wanted)
}

fn part_of(text: &str) -> Option<(usize, usize)> {
    let (part, of) = text.split_once('/')?;
    let (part, of) = (part.parse().ok()?, of.parse().ok()?);
    (1..=of).contains(&part).then(|| (part - 1, of))
}

/// Runs of each case that draws.
const SEEDS: u64 = 2;

/// Under emulation a message's way there and back takes a quarter of a millisecond, and now and then several.
fn timing() -> Timing {
    let millis = |name: &str, default: u64| {
        let given = std::env::var(name).ok().and_then(|text| text.parse().ok());
        Nanos::from_millis(given.unwrap_or(default))
    };
    Timing { round_trip: millis("ROUND_TRIP_MS", 10), timeout: millis("TIMEOUT_MS", 45_000), seeds: SEEDS }
}

/// How long to wait for what a device is known not to do.
const SHORT_TIMEOUT: Nanos = Nanos::from_secs(5);

fn run(wanted: &Wanted) -> Result<bool, String> {
    let mut harness = HwHarness::new(timing())?;
    let began = Instant::now();
    let out_of_time = || wanted.within.is_some_and(|within| began.elapsed() > within);
    let mut tally = Tally::default();
    let mut again = Vec::new();
    let cases = conformance::cases::<HwHarness>();
    let picked = cases.iter().filter(|case| wanted.picks(case)).enumerate();
    for (_, case) in picked.filter(|(number, _)| wanted.has(*number)) {
        if out_of_time() {
            tally.not_run.push(format!("{}::{}", case.group, case.name));
        } else if let Found::Failed = one(&mut harness, case, &mut tally, false) {
            again.push(case);
        }
    }
    for case in again {
        one(&mut harness, case, &mut tally, true);
    }
    // A start makes sure that all that the last case made is gone.
    let left = harness.start(1, 0).err();
    if let Some(left) = &left {
        println!("FAILED: {left}");
    }
    println!("{tally} in {:.0} s; {}", began.elapsed().as_secs_f64(), weft_hw::Census::now());
    Ok(tally.failed == 0 && left.is_none())
}

/// Runs one case and says how it ended.
fn one(harness: &mut HwHarness, case: &Case<HwHarness>, tally: &mut Tally, second: bool) -> Found {
    let departure = departures::known(case.group, case.name);
    harness.set_timeout(if departure.is_some_and(Departure::hangs) {
        SHORT_TIMEOUT
    } else {
        timing().timeout
    });
    let began = Instant::now();
    let verdict = case.run(harness);
    let (found, text) = tally::judge(&verdict, departure);
    tally.count(found, second);
    let (seconds, group, name) = (began.elapsed().as_secs_f64(), case.group, case.name);
    let mark = if second { "second try: " } else { "" };
    println!("{seconds:6.2} s  {group}::{name}  {mark}{text}");
    let _ = std::io::stdout().flush();
    found
}
