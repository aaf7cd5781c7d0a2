//! The timing wheel against a binary heap: one event taken and one put back, at a steady number of pending
//! ones. Prints nanoseconds for such a pair, and their ratio.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Instant;
use weft_sim::choice::Rng;
use weft_sim::wheel::Wheel;
use weft_verbs::Nanos;

const PAIRS: u64 = 4_000_000;

/// How long after now the next event is: packets mostly, timers of milliseconds now and then.
fn ahead(rng: &mut Rng) -> u64 {
    match rng.below(16) {
        0 => 1_000_000 + rng.below(60_000_000),
        1..4 => rng.below(100),
        _ => 500 + rng.below(4_000),
    }
}

fn wheel(pending: u64) -> f64 {
    let (mut rng, mut wheel) = (Rng::from_seed(1), Wheel::new());
    (0..pending).for_each(|i| wheel.insert(Nanos(ahead(&mut rng)), i as u32));
    let begin = Instant::now();
    for _ in 0..PAIRS {
        let (now, item) = wheel.pop().expect("pending");
        wheel.insert(now + Nanos(ahead(&mut rng)), black_box(item));
    }
    begin.elapsed().as_nanos() as f64 / PAIRS as f64
}

fn heap(pending: u64) -> f64 {
    let (mut rng, mut heap) = (Rng::from_seed(1), BinaryHeap::new());
    // A sequence number, for first in first out.
    (0..pending).for_each(|i| heap.push(Reverse((ahead(&mut rng), i, i as u32))));
    let begin = Instant::now();
    for i in 0..PAIRS {
        let Reverse((now, _, item)) = heap.pop().expect("pending");
        heap.push(Reverse((now + ahead(&mut rng), pending + i, black_box(item))));
    }
    begin.elapsed().as_nanos() as f64 / PAIRS as f64
}

/// What the benchmark itself costs: the random times.
fn nothing() -> f64 {
    let mut rng = Rng::from_seed(1);
    let begin = Instant::now();
    for _ in 0..PAIRS {
        black_box(ahead(&mut rng));
    }
    begin.elapsed().as_nanos() as f64 / PAIRS as f64
}

fn main() {
    let nothing = nothing();
    println!("the benchmark's own {nothing:.1} ns a pair are taken off");
    println!("pending    wheel ns   heap ns   ratio");
    for pending in [16, 256, 1_024, 4_096, 16_384, 65_536] {
        let (wheel, heap) = (wheel(pending) - nothing, heap(pending) - nothing);
        println!("{pending:>7} {wheel:>11.1} {heap:>9.1} {:>7.1}", heap / wheel);
    }
}
