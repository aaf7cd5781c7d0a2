//! Services of a data-center on shared segments (ddss.txt, sections 3 and 6.3 to 6.4), on a simulated cluster.
//!
//! `cargo run -p weft-check --example segments`, or one of them: `-- monitoring`, `reconfiguration`, `caches`, `select`,
//! `checkpoint`. Each is written over the verbs trait, as a program on real machines would be, and is a test, too.

mod caches;
mod checkpoint;
mod cluster;
mod monitoring;
mod reconfiguration;
mod select;

use cluster::Fails;

/// A service: its name, what it shows, and the run that returns its result in words.
type Service = (&'static str, fn() -> Result<String, Fails>);

const SERVICES: [Service; 5] = [
    ("monitoring", monitoring::show),
    ("reconfiguration", reconfiguration::show),
    ("caches", caches::show),
    ("select", select::show),
    ("checkpoint", checkpoint::show),
];

fn main() -> Result<(), Fails> {
    let wanted = std::env::args().nth(1);
    let chosen = |(name, _): &&Service| wanted.as_deref().is_none_or(|wanted| wanted == *name);
    let services: Vec<&Service> = SERVICES.iter().filter(chosen).collect();
    if services.is_empty() {
        return Err(format!("there are: {}", SERVICES.map(|(name, _)| name).join(", ")).into());
    }
    for (name, show) in services {
        println!("{name}: {}", show()?);
    }
    Ok(())
}
