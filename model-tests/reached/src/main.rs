//! Which lines of the runtime, the transport and a system no explored world has reached: line coverage of `weft check`
//! alone, over all worlds of that system that must hold, without faults and with one fault of each kind.
//!
//! ```text
//! cargo run -p reached -- locks
//! ```
//!
//! It builds `weft` once more, with counters, in `target/reached`. docs/reached.md says what is not reached, and why.

mod coverage;
mod lines;
mod worlds;

use clap::Parser;
use lines::File;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use worlds::{Explored, Program};

/// Which lines of a system no explored world reaches.
#[derive(Parser)]
#[command(name = "reached")]
struct Args {
    /// The system, as `weft check --list --json` names it: locks, messages, ddss, sdp
    #[arg(value_name = "SYSTEM")]
    system: String,
    /// Explore this world of the system only; may be given several times [default: all that must hold]
    #[arg(long, value_name = "WORLD")]
    world: Vec<String>,
    /// Explore each world, with each kind of fault, for at most so long
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    max_seconds: u64,
    /// How many worlds are explored at a time [default: as many as there are processors]
    #[arg(long, value_name = "J")]
    jobs: Option<usize>,
    /// Build and write profiles in this folder [default: `reached` beside what cargo builds]
    #[arg(long, value_name = "DIR")]
    target: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Tell neither of the build nor of each world as it ends
    #[arg(long, short)]
    quiet: bool,
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
    system: String,
    explored: Vec<Explored>,
    lines: usize,
    reached: usize,
    files: Vec<File>,
}

fn run(args: &Args) -> Result<(), String> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).ok_or("the crate is in no workspace")?;
    let built = std::env::current_exe().map_err(|why| why.to_string())?;
    // This program is in target/PROFILE.
    let target = built.ancestors().nth(2).unwrap_or(root).join("reached");
    let program = Program::build(root, args.target.as_deref().unwrap_or(&target), args.quiet)?;
    let mut worlds = program.worlds(&args.system)?;
    if let Some(unknown) = args.world.iter().find(|world| !worlds.contains(world)) {
        return Err(format!(
            "{} has no world '{unknown}' that must hold; it has: {}",
            args.system,
            worlds.join(", ")
        ));
    }
    worlds.retain(|world| args.world.is_empty() || args.world.contains(world));
    let jobs = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let tell = |explored: &Explored| {
        if !args.quiet {
            let Explored { world, fault, executions, exhaustive } = explored;
            let end = if *exhaustive { "to the end" } else { "as far as its time allowed" };
            eprintln!("{world}, {}: {executions} executions, {end}", fault.unwrap_or("no fault"));
        }
    };
    let explored = program.explore_all(&worlds, args.max_seconds, jobs, &tell)?;
    let sources = root.join("protocols/src");
    let folders = ["rt", "transport", &args.system].map(|name| sources.join(name));
    let wanted = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
    let files = coverage::lines(&program.path, &program.profiles()?, wanted)?;
    let files: Vec<File> = files.iter().map(|(path, lines)| File::new(root, path, lines)).collect();
    let sum = |count: fn(&File) -> usize| files.iter().map(count).sum();
    let (lines, reached) = (sum(|file| file.lines), sum(|file| file.reached));
    let reached = Reached { system: args.system.clone(), explored, lines, reached, files };
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&reached).map_err(|why| why.to_string())?),
        false => print(&reached),
    }
    Ok(())
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
    let share = 100.0 * found.reached as f64 / found.lines.max(1) as f64;
    println!("{:<44} {:>6} {:>8}  ({share:.1} %)", "all", found.lines, found.reached);
}
