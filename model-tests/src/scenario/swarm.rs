//! Scenarios drawn at random: for bugs that hide where nobody thinks of looking.
//!
//! A scenario written by hand has every feature a little. Swarm testing (Groce et al., ISSTA 2012) draws for
//! each run which features it has at all, and how much of each: a storm of one kind of fault, a cluster of
//! two, buffers so few that every message waits for a credit.

use super::schema::*;
use super::units::{Rate, Share, Span, Spread};
use super::{Pair, Scheme};
use weft_sim::choice::{Choice, Seeded};
use weft_verbs::Nanos;

/// The scenario of one seed: small, and different from every other's. It can be written to a file and run from
/// there.
pub fn swarm(seed: u64, scheme: Scheme) -> Scenario {
    let drawn = swarm_by(&mut Seeded::new(seed ^ 0x5a43_0000_0000_0000), scheme);
    Scenario { title: format!("swarm, seed {seed}"), run: Run { seed, ..drawn.run }, ..drawn }
}

/// The same with so many nodes.
pub fn swarm_of(nodes: u32, seed: u64, scheme: Scheme) -> Scenario {
    let mut choice = Seeded::new(seed ^ 0x5a43_0000_0000_0000);
    let drawn = swarm_on(nodes, Dice(&mut choice), scheme);
    Scenario {
        title: format!("swarm of {nodes} nodes, seed {seed}"),
        run: Run { seed, ..drawn.run },
        ..drawn
    }
}

/// The scenario that some answers make; a fuzzer's bytes, say.
pub fn swarm_by(choice: &mut dyn Choice, scheme: Scheme) -> Scenario {
    let mut dice = Dice(choice);
    let nodes = dice.among(&[1, 2, 2, 3, 3, 3, 4, 5, 8]);
    swarm_on(nodes, dice, scheme)
}

fn swarm_on(nodes: u32, mut dice: Dice<'_>, scheme: Scheme) -> Scenario {
    Scenario {
        title: "swarm".into(),
        cluster: cluster(&mut dice, nodes),
        transport: transport(&mut dice),
        workload: workload(&mut dice, scheme),
        run: Run { limit: Span(Nanos::from_millis(30)), ..Run::default() },
        faults: faults(&mut dice, nodes),
    }
}

struct Dice<'a>(&'a mut dyn Choice);

impl Dice<'_> {
    fn below(&mut self, n: u64) -> u64 {
        self.0.pick("swarm", n)
    }

    fn among<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn from(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// A range of times that ends at about `most`.
    fn spread(&mut self, most: Nanos) -> Spread {
        let max = Nanos(self.from(most.0 / 4, most.0));
        let min = self.among(&[Nanos::ZERO, max / 10, max]);
        Spread { min: Span(min), max: Span(max) }
    }
}

fn cluster(dice: &mut Dice<'_>, nodes: u32) -> Cluster {
    Cluster {
        nodes,
        profile: dice.among(&["present-day", "ncosed-2007"]).into(),
        wait: dice.among(&[WaitStyle::Poll, WaitStyle::Notify]),
        topology: Topology::Switch,
        connect: Connect::Cm,
    }
}

/// Connections that are given up after 30 us to 10 ms, with room for few or many requests.
fn transport(dice: &mut Dice<'_>) -> Transport {
    Transport {
        ack_timeout: Some(dice.from(3, 7) as u8),
        retries: Some(dice.from(0, 3) as u8),
        recv_buffers: dice.among(&[None, Some(8), Some(9), Some(16)]),
        send_depth: dice.among(&[None, Some(4), Some(5), Some(16)]),
        max_queued: dice.among(&[None, None, Some(1), Some(2), Some(8)]),
        rd_atomic: dice.among(&[None, Some(1), Some(2)]),
    }
}

fn workload(dice: &mut Dice<'_>, scheme: Scheme) -> Workload {
    let deadline = dice.among(&[None, Some(Nanos::from_micros(30)), Some(Nanos::from_micros(500))]);
    let share = |dice: &mut Dice<'_>, choices: &[f64]| Share::new(dice.among(choices)).unwrap_or_default();
    Workload {
        kind: WorkloadKind::Locks,
        scheme,
        clients: dice.among(&[1, 1, 2, 3, 5]),
        locks: dice.among(&[1, 1, 2, 3, 10]),
        keys: dice.among(&[Keys::Uniform, Keys::Single, Keys::Zipf(0.99)]),
        shared: share(dice, &[0.0, 0.1, 0.5, 0.5, 0.9, 1.0]),
        hold: pause(dice, [0, 3, 50]),
        think: pause(dice, [0, 10, 300]),
        requests: Some(dice.from(3, 25) as u32),
        duration: None,
        deadline: deadline.map(Span),
        hurried: if deadline.is_some() { share(dice, &[0.2, 0.7, 1.0]) } else { Share::ALL },
        tries: share(dice, &[0.0, 0.0, 0.1, 0.5]),
        downgrades: share(dice, &[0.0, 0.0, 0.3, 1.0]),
        hand_overs: dice.among(&[None, Some(0), Some(1)]),
        shared_limit: dice.among(&[None, None, Some(1), Some(2), Some(5)]),
    }
}

fn pause(dice: &mut Dice<'_>, micros: [u64; 3]) -> Spread {
    let most = Nanos::from_micros(dice.among(&micros));
    dice.spread(most)
}

/// Half of the kinds of faults, each from rare to stormy; now and then none at all.
fn faults(dice: &mut Dice<'_>, nodes: u32) -> Vec<FaultSpec> {
    if dice.one_in(10) {
        return Vec::new();
    }
    let kinds = FaultKind::ALL.into_iter().filter(|_| dice.below(2) == 0).collect::<Vec<_>>();
    kinds.into_iter().map(|kind| fault(dice, kind, nodes)).collect()
}

fn fault(dice: &mut Dice<'_>, kind: FaultKind, nodes: u32) -> FaultSpec {
    let mut spec = FaultSpec::new(kind);
    spec.rate = Some(Rate { count: dice.among(&[50, 200, 500, 1_500]), per: Span(Nanos::from_secs(1)) });
    let long = dice.among(&[100, 1_000, 8_000]);
    let lasts = dice.spread(Nanos::from_micros(long));
    let on_a_path = nodes > 1 && dice.one_in(2);
    let way = dice.among(&[WaySpec::Both, WaySpec::From, WaySpec::To]);
    match kind {
        FaultKind::Flap => {
            spec.down = Some(Spread::fixed(Nanos(dice.from(1, 1_000 * long / 4))));
            spec.up = Some(Spread::fixed(Nanos(dice.from(1, 1_000 * long / 2))));
            spec.times = Some(dice.from(1, 5) as u32);
        }
        FaultKind::SlowNode => spec.percent = Some(dice.among(&[150, 500, 3_000])),
        FaultKind::Delay => {
            spec.extra =
                Some(Span(dice.among(&[Nanos::ZERO, Nanos::from_micros(5), Nanos::from_micros(100)])));
            // The longest outlives a connection: a late copy may be executed when its sender has given up.
            let jitters =
                [Nanos(500), Nanos::from_micros(20), Nanos::from_micros(200), Nanos::from_millis(3)];
            spec.jitter = Some(Span(dice.among(&jitters)));
        }
        FaultKind::Loss | FaultKind::Duplicate | FaultKind::Corrupt => {
            spec.share = Share::new(dice.among(&[0.01, 0.1, 0.5]));
        }
        FaultKind::Cut | FaultKind::PortDown | FaultKind::LoseCompletion => {}
    }
    if kind != FaultKind::Flap {
        spec.lasts = Some(lasts);
    }
    let has_way = !matches!(
        kind,
        FaultKind::Flap | FaultKind::PortDown | FaultKind::LoseCompletion | FaultKind::SlowNode
    );
    spec.way = has_way.then_some(way);
    let on_a_link = has_way || kind == FaultKind::Flap;
    spec.between = (on_a_link && on_a_path).then_some(Pair::Random);
    spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn every_scenario_of_the_swarm_is_valid_and_survives_a_file() {
        for seed in 0..2_000 {
            let scenario = swarm(seed, Scheme::Ncosed);
            let text = toml::to_string(&scenario).unwrap();
            let read = Scenario::parse(&text).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
            assert_eq!(read, scenario);
        }
    }

    #[test]
    fn the_swarm_has_every_kind_of_fault_and_runs_without_any() {
        let all: Vec<Scenario> = (0..200).map(|seed| swarm(seed, Scheme::Srsl)).collect();
        for kind in FaultKind::ALL {
            assert!(
                all.iter().any(|scenario| scenario.faults.iter().any(|fault| fault.kind == kind)),
                "{kind}"
            );
        }
        assert!(all.iter().any(|scenario| scenario.faults.is_empty()));
    }
}
