//! Runs scenarios drawn at random until one fails, and prints it:
//!
//! ```text
//! cargo run --release -p weft-check --example swarm -- 0 10000 > failing.toml
//! ```

use std::process::ExitCode;
use weft_check::lock_world::{self, RunOptions};
use weft_check::scenario::{Scheme, swarm};

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let (Some(Ok(first)), Some(Ok(end))) = (numbers.next(), numbers.next()) else {
        eprintln!("say which seeds: the first and the end, for example 0 10000");
        return ExitCode::from(2);
    };
    let mut failures = 0;
    for seed in first..end {
        for scheme in Scheme::ALL {
            failures += u64::from(!holds(seed, scheme));
        }
    }
    eprintln!("{failures} of {} runs failed", (end - first) * Scheme::ALL.len() as u64);
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn holds(seed: u64, scheme: Scheme) -> bool {
    let scenario = swarm(seed, scheme);
    let complaints = match lock_world::run(&scenario, seed, RunOptions::default()) {
        Ok(report) if report.held() => return true,
        Ok(report) => report.violations.iter().take(3).map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
    };
    println!("# seed {seed}, {scheme}");
    complaints.iter().for_each(|complaint| println!("# {complaint}"));
    println!("{}", toml::to_string(&scenario).unwrap_or_default());
    false
}
