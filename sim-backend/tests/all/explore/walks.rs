//! Walks through untimed worlds, one enabled event after the other.

use super::world::{Act, Plan, World};
use weft_sim::choice::Rng;
use weft_sim::explore::{Enabled, FaultSet, Outcome, Timers};
use weft_verbs::Wait;

/// Two writers and a home, which also talk to each other.
pub fn busy(style: Wait) -> Plan {
    let acts = vec![
        vec![
            Act::Add { peer: 1, word: 0 },
            Act::Await,
            Act::Send { peer: 2, signaled: false },
            Act::Swap { peer: 1, word: 1 },
            Act::Write { peer: 2, word: 2, signaled: false },
            Act::Await,
            Act::Look { word: 0 },
        ],
        vec![Act::Look { word: 0 }, Act::Read { peer: 0, word: 2 }, Act::Look { word: 1 }, Act::Await],
        vec![
            Act::Add { peer: 1, word: 0 },
            Act::Send { peer: 0, signaled: true },
            Act::Send { peer: 1, signaled: false },
            Act::Await,
            Act::Swap { peer: 1, word: 1 },
            Act::Await,
        ],
    ];
    let (timers, faults) = (Timers::WhenQuiescent, FaultSet::NONE);
    Plan { acts, style, timers, faults, sanitize: false, in_order: false, drift: None, forgets: false }
}

fn walk(world: &mut World, rng: &mut Rng) -> Vec<(Enabled, Outcome)> {
    world.begin();
    let (mut out, mut path) = (vec![], vec![]);
    loop {
        world.fabric.enabled(&mut out);
        if out.is_empty() {
            return path;
        }
        let chosen = out[rng.below(out.len() as u64) as usize];
        world.fabric.take(chosen.event, Outcome::Done, None).unwrap();
        path.push((chosen, Outcome::Done));
        assert!(path.len() < 10_000, "it goes on for ever");
    }
}

#[test]
fn every_order_of_events_brings_every_script_to_its_end() {
    for style in [Wait::Poll, Wait::Notify] {
        let mut world = World::new(busy(style));
        let mut ends = std::collections::BTreeSet::new();
        for seed in 0..300 {
            let path = walk(&mut world, &mut Rng::from_seed(seed));
            let mut events: Vec<u64> = path.iter().map(|(enabled, _)| enabled.event.0).collect();
            events.sort_unstable();
            events.dedup();
            assert_eq!(events.len(), path.len(), "an event's identity came twice");
            ends.insert(world.seen.iter().map(|seen| seen.borrow().clone()).collect::<Vec<_>>());
        }
        assert!(ends.len() > 20, "{} ends", ends.len());
    }
}
