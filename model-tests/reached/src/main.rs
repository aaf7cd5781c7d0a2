//! Which lines of the protocols no explored world has reached: line coverage of `weft check` and of the walks of `weft fuzz`
//! alone, over all worlds that must hold, without faults and with one fault of each kind.
//!
//! ```text
//! cargo run -p reached
//! cargo run -p reached -- locks messages
//! ```
//!
//! With `--mutants FILE` it tells instead how many of the mutants in that file exploration notices.
//!
//! It builds `weft` once more, with counters, in `target/reached`. docs/reached.md says what is not reached, and why.

mod coverage;
mod lines;
mod mutants;
mod plans;
mod worlds;

use clap::Parser;
use lines::File;
use mutants::Sample;
use plans::{Explored, Plan, Times};
use serde::Serialize;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;
use worlds::{Build, Met, Program};

/// Which lines of the protocols no explored world reaches.
#[derive(Parser)]
#[command(name = "reached")]
struct Args {
    /// Explore the worlds of these systems, as `weft check --list --json` names them: locks, messages, ddss, sdp, pario, dsm;
    /// and members, which all of them stand on [default: all]
    #[arg(value_name = "SYSTEM")]
    systems: Vec<String>,
    /// Explore this world only; may be given several times [default: all that must hold]
    #[arg(long, value_name = "WORLD")]
    world: Vec<String>,
    /// Look at the lines of these folders of protocols/src [default: what all systems stand on, and locks]
    #[arg(long, value_name = "FOLDER", value_delimiter = ',', default_value = "rt,transport,members,locks")]
    of: Vec<String>,
    /// Explore each world, with each kind of fault, for at most so long
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    max_seconds: f64,
    /// Walk at random through each world, with up to two faults, for so long
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    walk_seconds: f64,
    /// Have each mutant that no world notices meet scripts that are drawn (`weft fuzz worlds`), for so long
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, requires = "mutants")]
    drawn_seconds: f64,
    /// Build it optimised: it explores more in its time, and takes longer to build
    #[arg(long)]
    release: bool,
    /// How many worlds are explored at a time [default: as many as there are processors]
    #[arg(long, value_name = "J")]
    jobs: Option<usize>,
    /// Build and write profiles in this folder [default: `reached` beside what cargo builds]
    #[arg(long, value_name = "DIR")]
    target: Option<PathBuf>,
    /// Change the protocols in each of the ways that this file lists, and tell which world notices it first
    #[arg(long, value_name = "FILE")]
    mutants: Option<PathBuf>,
    /// Of these, those from A to B alone
    #[arg(long, value_name = "A..B", value_parser = numbers, requires = "mutants")]
    only: Option<RangeInclusive<usize>>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Tell neither of the build nor of each world as it ends
    #[arg(long, short)]
    quiet: bool,
}

impl Args {
    fn build(&self, counts: bool) -> Build {
        Build { counts, release: self.release, quiet: self.quiet }
    }
}

/// A range, both ends of it included.
fn numbers(text: &str) -> Result<RangeInclusive<usize>, String> {
    let ends = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..=to.parse().ok()?));
    ends.ok_or_else(|| "it is not A..B, as in 1..10".into())
}

/// Set where this program stands between cargo and rustc.
const WRAPS: &str = "WEFT_REACHED_WRAPS_RUSTC";

fn main() -> ExitCode {
    if std::env::var_os(WRAPS).is_some() {
        return wrap();
    }
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("reached: {why}");
            ExitCode::from(3)
        }
    }
}

/// Crates whose code is counted. Asynchronous and generic functions of `protocols` become code in the other two.
const COUNTED: [&str; 3] = ["weft_protocols", "weft_check", "weft"];

/// Runs rustc for cargo, with counters if the crate is one of those that are looked at. All others stay as fast as
/// they are.
fn wrap() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(rustc) = arguments.next() else { return ExitCode::from(2) };
    let arguments: Vec<_> = arguments.collect();
    let name = arguments.windows(2).find(|pair| pair[0] == "--crate-name").map(|pair| pair[1].clone());
    let counted = name.is_some_and(|name| COUNTED.iter().any(|counted| name == **counted));
    let counters = counted.then_some("-Cinstrument-coverage");
    match Command::new(rustc).args(arguments).args(counters).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// What was explored, and what of the text was reached.
#[derive(Serialize)]
struct Reached {
    explored: Vec<Explored>,
    /// How long exploring took, in seconds.
    seconds: f64,
    all: Sum,
    folders: Vec<Sum>,
    files: Vec<File>,
}

/// The lines of a folder.
#[derive(Serialize)]
struct Sum {
    folder: String,
    lines: usize,
    reached: usize,
}

impl Sum {
    fn new<'a>(folder: &str, files: impl Iterator<Item = &'a File>) -> Sum {
        let none = Sum { folder: folder.to_owned(), lines: 0, reached: 0 };
        files.fold(none, |Sum { folder, lines, reached }, file| Sum {
            folder,
            lines: lines + file.lines,
            reached: reached + file.reached,
        })
    }
}

/// Where the protocols are.
const SOURCES: &str = "protocols/src";

fn run(args: &Args) -> Result<(), String> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).ok_or("the crate is in no workspace")?;
    let built = std::env::current_exe().map_err(|why| why.to_string())?;
    // This program is in target/PROFILE.
    let target = built.ancestors().nth(2).unwrap_or(root).join("reached");
    let target = args.target.as_deref().unwrap_or(&target);
    let sample = args.mutants.as_deref().map(Sample::read).transpose()?;
    let mut program = match &sample {
        None => Program::build(root, target, args.build(true))?,
        Some(sample) => sample.build(root, &target.with_file_name("mutants"), args.build(false))?,
    };
    let mut worlds = program.worlds(&args.systems)?;
    if let Some(unknown) = args.world.iter().find(|world| !worlds.contains(world)) {
        return Err(format!(
            "there is no world '{unknown}' that must hold; there are: {}",
            worlds.join(", ")
        ));
    }
    worlds.retain(|world| args.world.is_empty() || args.world.contains(world));
    let jobs = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let tell = |explored: &Explored| {
        let Explored { world, plan: Plan { how, .. }, executions, exhaustive, violated, .. } = explored;
        if *violated {
            eprintln!("{world}, {how}: VIOLATED");
        } else if !args.quiet {
            let end = if *exhaustive { "to the end" } else { "as far as its time allowed" };
            eprintln!("{world}, {how}: {executions} executions, {end}");
        }
    };
    let began = Instant::now();
    let times = Times { check: args.max_seconds, walks: args.walk_seconds };
    let explored = program.explore_all(&worlds, times, jobs, &tell)?;
    let seconds = began.elapsed().as_secs_f64();
    if let Some(sample) = &sample {
        first_broken(&explored)?;
        let drawn = Plan::drawn(&args.systems, args.drawn_seconds);
        let plans = drawn.iter().map(|(kind, plan)| (&**kind, plan));
        match program.first_violated(plans, jobs) {
            Some(Met::Noticed(which)) => return Err(format!("{which}: a promise was broken")),
            Some(Met::Open(why)) => return Err(why),
            None => {}
        }
        sample.meet(&mut program, &explored, &drawn, jobs, args.only.clone().unwrap_or(1..=usize::MAX));
        return Ok(());
    }
    let sources = root.join(SOURCES);
    let folders: Vec<PathBuf> = args.of.iter().map(|name| sources.join(name)).collect();
    if let Some(missing) = folders.iter().find(|folder| !folder.is_dir()) {
        return Err(format!("there is no folder {}", missing.display()));
    }
    let wanted = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
    let files = coverage::lines(&program.path, &program.profiles()?, wanted)?;
    let files: Vec<File> = files.iter().map(|(path, lines)| File::new(root, path, lines)).collect();
    let of_folder = |folder: &String| {
        let path = Path::new(SOURCES).join(folder);
        Sum::new(folder, files.iter().filter(|file| Path::new(&file.path).starts_with(&path)))
    };
    let (all, folders) = (Sum::new("all", files.iter()), args.of.iter().map(of_folder).collect());
    let reached = Reached { explored, seconds, all, folders, files };
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&reached).map_err(|why| why.to_string())?),
        false => print(&reached),
    }
    first_broken(&reached.explored)
}

/// The first world that does not hold is an error.
fn first_broken(explored: &[Explored]) -> Result<(), String> {
    match explored.iter().find(|explored| explored.violated) {
        Some(Explored { world, plan: Plan { how, .. }, .. }) => {
            Err(format!("{world}, {how}: a promise was broken"))
        }
        None => Ok(()),
    }
}

fn print(found: &Reached) {
    println!("{:<44} {:>6} {:>8}  not reached", "file", "lines", "reached");
    for file in &found.files {
        println!("{:<44} {:>6} {:>8}", file.path, file.lines, file.reached);
        for lines::Range { from, to, function } in &file.unreached {
            let lines = if from == to { from.to_string() } else { format!("{from}-{to}") };
            println!("{:<62}{lines:<10} {}", "", function.as_deref().unwrap_or(""));
        }
    }
    for Sum { folder, lines, reached } in found.folders.iter().chain([&found.all]) {
        let share = 100.0 * *reached as f64 / (*lines).max(1) as f64;
        println!("{folder:<44} {lines:>6} {reached:>8}  ({share:.1} %)");
    }
    let executions: u64 = found.explored.iter().map(|explored| explored.executions).sum();
    println!("{} explorations, {executions} executions, {:.0} s", found.explored.len(), found.seconds);
}
