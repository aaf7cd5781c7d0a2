//! Help texts that name systems: they say what the registry knows.

use crate::table::wrap;
use std::fmt::Write;
use weft_check::paper::Paper;
use weft_check::system::Example;
use weft_check::systems;

/// The commands of the program that its help shows.
pub fn shown(program: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    program.get_subcommands().filter(|command| !command.is_hide_set())
}

/// Examples that are about no system.
const GENERAL: &[Example] = &[
    Example { what: "The figures behind a simulated cluster", command: "weft profiles present-day" },
    Example { what: "How fast the simulator is", command: "weft bench fabric --nodes 16 --messages 2000000" },
];

/// Examples of `weft run` that hold for any scenario.
const RUN: &[Example] = &[
    Example {
        what: "Another run of the same scenario, with everything that happened",
        command: "weft run SCENARIO --seed 42 --log events.log",
    },
    Example { what: "A thousand runs, summed up", command: "weft run SCENARIO --seeds 0..1000" },
];

/// Examples of `weft bench` that hold for any system.
const BENCH: &[Example] =
    &[Example { what: "What can be said of a system's bench", command: "weft bench locks --help" }];

const ENDING: &str = "
Scenarios are TOML files. Those that come with Weft are in the directory
scenarios; docs/scenario.md says what one can contain.

Exit codes:
  0  everything that must hold held
  1  a check was violated: a bug in a protocol was found
  2  bad input: a scenario, an option or a file that cannot be used
  3  the run could not finish (interrupted, out of its limits, or a cluster
     could not be reached)
fsck has its own: weft fsck --help.";

/// What stands below the help of the program: what to run of each system, and what holds for all commands.
pub fn program() -> String {
    let firsts = systems::all().iter().filter_map(|system| of("weft run", system.examples()).next());
    let mut text = listed(firsts.chain(GENERAL));
    text.push_str("\nSystems:\n");
    systems_by_kind(&mut text);
    text + ENDING
}

/// What stands below the help of `weft run`.
pub fn run() -> String {
    listed(of_all("weft run").chain(RUN))
}

/// What stands below the help of `weft bench`.
pub fn bench() -> String {
    let mut text = String::from("Systems:\n");
    systems_by_kind(&mut text);
    format!("{text}\n{}", listed(of_all("weft bench").chain(BENCH)))
}

/// What stands below the help of `weft paper`.
pub fn paper() -> String {
    let mut text = String::from("Papers:\n");
    for Paper { name, about, .. } in systems::papers() {
        named(name, about, &mut text);
    }
    format!("{text}\n{}", listed(of_all("weft paper")))
}

/// The kinds of systems, as a part of a sentence.
pub fn kinds() -> String {
    systems::all().iter().map(|system| system.kind()).collect::<Vec<_>>().join(", ")
}

/// The names of papers, as a part of a sentence.
pub fn papers() -> String {
    systems::papers().map(|paper| paper.name).collect::<Vec<_>>().join(", ")
}

/// The examples of every system for a command.
fn of_all(command: &str) -> impl Iterator<Item = &'static Example> + use<'_> {
    systems::all().iter().flat_map(move |system| of(command, system.examples()))
}

fn of<'a>(
    command: &'a str,
    examples: &'static [Example],
) -> impl Iterator<Item = &'static Example> + use<'a> {
    examples.iter().filter(move |example| example.command.starts_with(command))
}

fn listed(examples: impl Iterator<Item = &'static Example>) -> String {
    let mut text = String::from("Examples:\n");
    for Example { what, command } in examples {
        let _ = writeln!(text, "  {what}\n    {command}");
    }
    text
}

fn systems_by_kind(text: &mut String) {
    for system in systems::all() {
        named(system.kind(), system.about(), text);
    }
}

fn named(name: &str, about: &str, text: &mut String) {
    let _ = writeln!(text, "  {name}");
    wrap(about, 4, text);
}
