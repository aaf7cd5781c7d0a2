//! Runs scenarios that are drawn at random, one for each seed, and prints those that break a promise.
//!
//! ```sh
//! cargo run --release -p weft-check --example swarm -- 0 10000 > failing.toml
//! ```
//!
//! Each system's variants take their turns. What it prints of the first failing seed is a scenario file: `weft run`
//! makes the same run again.

use std::process::ExitCode;
use weft_check::run::RunOptions;
use weft_check::systems;

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let [first, end] = numbers[..] else {
        eprintln!("usage: swarm FIRST END");
        return ExitCode::from(2);
    };
    let variants: Vec<_> = systems::all()
        .iter()
        .flat_map(|system| system.variants().iter().map(move |variant| (*system, *variant)))
        .collect();
    let mut broken = 0;
    for seed in first..end {
        let (system, variant) = variants[(seed % variants.len() as u64) as usize];
        let scenario = system.swarm(seed, None, variant);
        let complaint = match system.run(&scenario, seed, RunOptions::default()) {
            Ok(report) => report.violations.first().map(ToString::to_string),
            Err(error) => Some(error.to_string()),
        };
        let Some(complaint) = complaint else { continue };
        broken += 1;
        eprintln!("seed {seed}, {} {variant}: {complaint}", system.kind());
        if broken == 1 {
            println!("# seed {seed}: {complaint}\n{}", toml::to_string(&scenario).unwrap_or_default());
        }
    }
    eprintln!("{broken} of {} seeds broke a promise", end.saturating_sub(first));
    ExitCode::from(u8::from(broken > 0))
}
