//! What makes the explorer worth trusting.

mod panics;
mod reductions;
mod runs;

use super::toy::{Toy, planted};
use super::{Options, Reduction, Report, explore};
use std::ops::ControlFlow;
use weft_sim::explore::FaultSet;

fn options(reduction: Reduction, faults: u32) -> Options {
    Options { reduction, faults, kinds: Some(FaultSet::ALL), collect_ends: true, ..Options::default() }
}

fn run(toy: &mut Toy, options: &Options) -> Report {
    explore(toy, options, &mut |_| ControlFlow::Continue(())).expect("a toy is deterministic")
}

/// Each with the faults that it takes.
fn planted_bugs() -> Vec<(Toy, u32)> {
    let sound = [planted::lost_update(), planted::mcs_links_first(), planted::ticket_wraps()];
    sound.into_iter().map(|toy| (toy, 0)).chain([(planted::blind_resend(), 1)]).collect()
}
