//! The same answers give the same run, to the byte of its event log.

use super::scenarios::{calm, stormy};
use weft_check::run::{Report, RunOptions, World};
use weft_check::scenario::{Scenario, WaitStyle};
use weft_check::systems::locks::Locks;
use weft_protocols::locks::Scheme;
use weft_sim::choice::Seeded;

fn run(scenario: &Scenario, seed: u64) -> Report {
    weft_check::run(scenario, seed, RunOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn run_with(scenario: &Scenario, seed: u64, choice: Box<dyn weft_sim::choice::Choice>) -> Report {
    let mut world = World::<Locks>::new(scenario, seed, choice).unwrap_or_else(|error| panic!("{error}"));
    world.start_clients();
    world.run(RunOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for scheme in Scheme::ALL {
        for wait in [WaitStyle::Poll, WaitStyle::Notify] {
            let mut scenario = stormy(scheme);
            scenario.cluster.wait = wait;
            let [one, two] =
                [run(&scenario, 7), run(&scenario, 7)].map(|r| serde_json::to_string(&r).unwrap());
            assert_eq!(one, two, "{scheme} {wait:?}");
        }
    }
}

#[test]
fn another_seed_gives_another_run() {
    let scenario = stormy(Scheme::Ncosed);
    assert_ne!(run(&scenario, 1).log_digest, run(&scenario, 2).log_digest);
}

#[test]
fn worlds_side_by_side_do_not_disturb_each_other() {
    let scenario = stormy(Scheme::Ncosed);
    let alone = run(&scenario, 3).log_digest;
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let scenario = scenario.clone();
            std::thread::spawn(move || run(&scenario, if n % 2 == 0 { 3 } else { 4 }).log_digest)
        })
        .collect();
    let digests: Vec<String> = threads.into_iter().map(|thread| thread.join().expect("a run")).collect();
    assert_eq!([&digests[0], &digests[2]], [&alone, &alone]);
    assert_ne!(digests[1], alone);
}

#[test]
fn the_order_of_simultaneous_events_is_a_choice() {
    // The same workload and faults under other answers: another run.
    let scenario = calm(Scheme::Ncosed);
    let digest = |choice| run_with(&scenario, 5, Box::new(Seeded::new(choice))).log_digest;
    assert_ne!(digest(1), digest(2));
}
