//! Scenarios drawn at random, in virtual time and with every kind of fault.
//!
//! A swarm's name says what is the same in all its scenarios: `swarm-16-sdp-rails` has 16 nodes of two rails with streams. Large
//! ones find what takes many nodes, and few see it twice: latencies vary, so what goes round in circles falls out of step. Small ones
//! whose latencies do not vary (`swarm-sdp-exact`) stay in step, and are ten times as fast.

use super::args::FuzzArgs;
use super::files;
use super::target::{Runner, Seed, Target};
use crate::exit::Failure;
use crate::{interrupt, report};
use std::num::NonZeroU32;
use std::path::PathBuf;
use weft_check::run::{Progress, RunOptions};
use weft_check::scenario::{Jitter, Scenario};
use weft_check::systems::{self, Registered};

const NAME: &str = "swarm";

/// What a swarm's name says of machines: the last words of it, in any order.
const ENDINGS: [&str; 3] = ["-rails", "-members", "-exact"];

/// Random scenarios of one variant of a system, or of each in turn.
pub struct Swarm {
    name: String,
    /// Of each scenario; nothing if that is drawn, too.
    nodes: Option<NonZeroU32>,
    system: &'static dyn Registered,
    variants: &'static [&'static str],
    /// Machines have two rails.
    rails: bool,
    /// Machines agree on who is alive, and some crash.
    members: bool,
    /// Latencies do not vary.
    exact: bool,
    save: Option<PathBuf>,
}

/// What can stand behind the number of nodes: nothing for the first system, a system, a variant of one.
fn all() -> Vec<(String, &'static dyn Registered, &'static [&'static str])> {
    let mut all = Vec::new();
    for (number, &system) in systems::all().iter().enumerate() {
        let variants = system.variants();
        if number == 0 {
            all.push((String::new(), system, variants));
        }
        all.push((format!("-{}", system.kind()), system, variants));
        let named = (0..variants.len()).filter(|at| !variants[*at].is_empty());
        all.extend(named.map(|at| (format!("-{}", variants[at]), system, &variants[at..=at])));
    }
    all
}

/// The swarm that a command line asks for, if it asks for one.
pub fn target(args: &FuzzArgs) -> Result<Option<Swarm>, Failure> {
    let Some(rest) = args.world.strip_prefix(NAME) else { return Ok(None) };
    args.leave_it_to(&format!("a {NAME} draws its own requests and faults"))?;
    Swarm::named(&args.world, rest, args.leaves.save.clone()).map(Some)
}

/// The number of nodes that a name begins with, if it does, and the rest of it.
fn size(name: &str) -> (Option<NonZeroU32>, &str) {
    let sized = name.strip_prefix('-').unwrap_or_default();
    let (number, rest) = sized.split_at(sized.find('-').unwrap_or(sized.len()));
    number.parse().map_or((None, name), |nodes| (Some(nodes), rest))
}

/// What could not be run from a file is not run from a name either.
fn valid(scenario: &Scenario) -> Result<(), Failure> {
    weft_check::parse(&text(scenario)?).map(drop).map_err(Failure::bad_input)
}

/// A scenario as a file has it.
fn text(scenario: &Scenario) -> Result<String, Failure> {
    toml::to_string(scenario).map_err(Failure::unfinished)
}

fn unknown(world: &str) -> Failure {
    let known: Vec<String> = all().into_iter().map(|(what, ..)| format!("{NAME}-16{what}")).collect();
    Failure::bad_input(format!(
        "there is no world '{world}': there are {}, each with any number of nodes or none, and with {} behind it",
        known.join(", "),
        ENDINGS.join(", ")
    ))
}

/// The ending with which a name ends, if it does, and what is before it.
fn last_ending(name: &str) -> Option<(usize, &str)> {
    ENDINGS.into_iter().enumerate().find_map(|(at, ending)| Some((at, name.strip_suffix(ending)?)))
}

impl Swarm {
    /// The swarm of a name, of which `rest` is what stands behind the word.
    fn named(name: &str, rest: &str, save: Option<PathBuf>) -> Result<Swarm, Failure> {
        let (nodes, mut rest) = size(rest);
        let mut says = [false; ENDINGS.len()];
        while let Some((at, before)) = last_ending(rest).filter(|(at, _)| !says[*at]) {
            (says[at], rest) = (true, before);
        }
        let [rails, members, exact] = says;
        let found = all().into_iter().find(|(what, ..)| what == rest);
        let (_, system, variants) = found.ok_or_else(|| unknown(name))?;
        let name = name.to_string();
        let swarm = Swarm { name, nodes, system, variants, rails, members, exact, save };
        let (kind, first) = (system.kind(), swarm.scenario(0));
        let first = first.ok_or_else(|| Failure::bad_input(format!("{kind} makes no use of members")))?;
        valid(&first).map_err(|why| why.at(&swarm.name))?;
        match nodes.map(NonZeroU32::get) {
            Some(few) if few < first.cluster.nodes => Err(Failure::bad_input(format!(
                "{kind} of {few} nodes: give at least {}",
                first.cluster.nodes
            ))),
            _ => Ok(swarm),
        }
    }

    fn scenario(&self, seed: u64) -> Option<Scenario> {
        let in_turn = self.variants[(seed % self.variants.len() as u64) as usize];
        let mut scenario = self.system.swarm(seed, self.nodes.map(NonZeroU32::get), in_turn);
        if self.rails {
            scenario = scenario.over_rails(2, seed);
        }
        if self.exact {
            scenario.cluster.jitter = Jitter::NONE;
        }
        let drawn = if self.members { scenario.among_members(seed) } else { Some(scenario) };
        drawn.map(Scenario::with_memory)
    }

    /// Where the scenario of a seed is saved.
    fn file(&self, seed: &str) -> PathBuf {
        self.save.clone().unwrap_or_else(|| PathBuf::from(format!("{}.{seed}.toml", self.name)))
    }

    /// The scenario of a seed. Whether there are any was asked at the beginning, and does not depend on the seed.
    fn drawn(&self, seed: u64) -> Result<Scenario, Failure> {
        let drawn = self.scenario(seed);
        let drawn = drawn.ok_or_else(|| Failure::bad_input(format!("{} has no scenarios", self.name)))?;
        valid(&drawn).map_err(|why| why.at(format!("seed {seed}")))?;
        Ok(drawn)
    }
}

impl Target for Swarm {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn runner(&self) -> Result<Runner<'_>, Failure> {
        Ok(Box::new(|seed| {
            let mut watch = |_: &Progress| interrupt::go_on();
            let options = RunOptions { progress: Some(&mut watch), ..RunOptions::default() };
            let report = self.system.run(&self.drawn(seed)?, seed, options);
            let report = report.map_err(|error| Failure::of_run(&error).at(format!("seed {seed}")))?;
            let violation = report.violations.first().map(ToString::to_string);
            let faults =
                report.faults.iter().map(|fault| (fault.kind.to_string(), fault.injected, fault.struck));
            Ok(Seed { seed, violation, faults: faults.collect() })
        }))
    }

    fn place(&self) -> PathBuf {
        self.file("SEED")
    }

    /// A scenario is its own failure file.
    fn save(&self, seed: u64) -> Result<(PathBuf, String), Failure> {
        let text = text(&self.drawn(seed)?)?;
        let path = self.file(&seed.to_string());
        files::put(&path, "the scenario", &text)?;
        let rerun = format!("The same run again: weft run {} --log events.log\n", report::path(&path));
        Ok((path, rerun))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(name: &str, seed: u64) -> Scenario {
        let swarm = Swarm::named(name, &name[NAME.len()..], None).expect("there is one");
        swarm.drawn(seed).expect("it is drawn")
    }

    /// Their machines' buffers take more memory than a run may take unless its scenario says otherwise.
    #[test]
    fn of_a_large_swarm_every_seed_is_drawn_that_a_file_could_have() {
        let usual = drawn("swarm-16", 0).run.memory;
        let mut raised = 0;
        for what in all().into_iter().map(|(what, ..)| what) {
            for seed in 0..3 {
                raised += u32::from(drawn(&format!("swarm-300{what}"), seed).run.memory > usual);
            }
        }
        assert!(raised > 0);
        assert_eq!(drawn("swarm-3-pario", 1).run.memory, usual);
    }

    #[test]
    fn a_name_says_what_its_clusters_have_in_common() {
        let usual = Jitter::default();
        let clusters = |name| (0..40).map(move |seed| drawn(name, seed).cluster);
        let said = |name| clusters(name).map(|of| (of.nodes, of.rails, of.members.is_some(), of.jitter));
        assert!(said("swarm-16").all(|of| of == (16, 1, false, usual)));
        assert!(said("swarm-3-sdp-rails-exact").all(|of| of == (3, 2, false, Jitter::NONE)));
        assert!(said("swarm-3-exact-rails").all(|of| of == (3, 2, false, Jitter::NONE)));
        assert!(said("swarm-5-ncosed-members-rails").all(|of| of == (5, 2, true, usual)));
        let mut sizes: Vec<u32> = clusters("swarm-messages-exact").map(|cluster| cluster.nodes).collect();
        sizes.sort();
        sizes.dedup();
        assert_eq!(sizes, [2, 3, 4, 5, 8]);
    }
}
