//! `softroce`: runs a program on a cluster of small virtual machines with Soft-RoCE.

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use softroce::cluster::{self, Ending, Event, Plan, Scratch};
use softroce::control::{Act, Rule, Way};
use softroce::image::Content;
use softroce::{kernel, packages};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Parser)]
#[command(version, about, long_about = None)]
struct Args {
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    /// Boots machines, runs a program in each, and brings back output and exit code.
    Run(Box<Run>),
    /// Says what is missing here, with the line that installs it; and fetches a kernel if need be.
    Check {
        /// Where the kernel is kept.
        #[arg(long, default_value = "target/softroce")]
        cache: PathBuf,
    },
}

#[derive(clap::Args)]
struct Run {
    /// Machines.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=32))]
    machines: u16,
    /// Network cards of each machine, every one with a device: rxe0, rxe1.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=8))]
    nics: u16,
    /// Memory of each machine, in MiB.
    #[arg(long, default_value_t = 512)]
    memory: u32,
    /// A disk for each machine, in MiB, at /disk: it outlives the machine's power, and nothing else does.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(8..=4096))]
    disk: Option<u32>,
    /// Seconds that everything may take, boot included.
    #[arg(long, default_value_t = 600)]
    timeout: u64,
    /// A further program to put on the machines' search path, with its libraries.
    #[arg(long = "with", value_name = "PROGRAM")]
    with: Vec<String>,
    /// A further file: FROM here, TO there.
    #[arg(long = "file", value_name = "FROM:TO")]
    files: Vec<String>,
    /// A folder of absolute path, to be at the same place with all that is in it: plugins, say, with their libraries.
    #[arg(long = "tree", value_name = "FOLDER")]
    trees: Vec<PathBuf>,
    /// Cuts the link between two cards at a moment, for a time: `0-1@5+3` in seconds since all machines were up.
    #[arg(long, value_name = "A-B@AT[+FOR]")]
    cut: Vec<String>,
    /// Loses frames between two cards: `0-1=1` percent, from the start.
    #[arg(long, value_name = "A-B=PERCENT")]
    drop: Vec<String>,
    /// Delays frames between two cards: `0-1=10:2000` percent, by up to so many microseconds.
    #[arg(long, value_name = "A-B=PERCENT:MICROS")]
    delay: Vec<String>,
    /// Takes a machine's power away at a moment, and boots it again so long after: `2@5+3` in seconds since all machines were up.
    #[arg(long, value_name = "MACHINE@AT[+FOR]")]
    kill: Vec<String>,
    /// Moments count from the first line of output that contains this, not from when all machines were up.
    #[arg(long, value_name = "TEXT")]
    since: Option<String>,
    /// Where losses and delays begin their draws.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Machines whose clocks count instructions, 8 ns each: what `/proc/stat` says of a processor is then how many it executed.
    #[arg(long)]
    count_instructions: bool,
    /// Where the kernel is kept, and a run's files while it lasts.
    #[arg(long, default_value = "target/softroce")]
    cache: PathBuf,
    /// Keeps the machines' consoles.
    #[arg(long)]
    keep: bool,
    /// The program, here, and its arguments: `{node}` becomes the machine's number, `{nodes}` how many there are.
    #[arg(trailing_var_arg = true, required = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

fn main() -> ExitCode {
    let done = match Args::parse().command {
        What::Run(run) => run.execute(),
        What::Check { cache } => check(&cache),
    };
    match done {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(error) => {
            eprintln!("softroce: {error:#}");
            ExitCode::from(cluster::UNFINISHED as u8)
        }
    }
}

fn check(cache: &std::path::Path) -> Result<i32> {
    packages::check()?;
    std::fs::create_dir_all(cache)?;
    let kernel = kernel::find(&std::path::absolute(cache)?)?;
    println!("ready: kernel {}", kernel.version);
    Ok(0)
}

impl Run {
    fn execute(&self) -> Result<i32> {
        packages::check()?;
        std::fs::create_dir_all(&self.cache)?;
        let cache = std::path::absolute(&self.cache)?;
        let kernel = kernel::find(&cache)?;
        let scratch = Scratch::new(&cache)?;
        let plan = self.plan(if self.keep { &cache } else { scratch.path() })?;
        let stop = Arc::new(AtomicBool::new(false));
        let heard = Arc::clone(&stop);
        ctrlc::set_handler(move || heard.store(true, Ordering::Relaxed))?;
        let several = self.machines > 1;
        let outcome = cluster::run(&kernel, &plan, &stop, &mut |machine, line| {
            if several { println!("n{machine}| {line}") } else { println!("{line}") }
        })?;
        for (machine, ending) in outcome.endings.iter().enumerate().filter(|(_, e)| **e != Ending::Exit(0)) {
            eprintln!("softroce: machine {machine} ended so: {ending:?}");
        }
        if outcome.missed > 0 {
            eprintln!(
                "softroce: {} machines were to lose their power and had not before the end",
                outcome.missed
            );
        }
        Ok(cluster::code(&outcome))
    }

    fn plan(&self, folder: &std::path::Path) -> Result<Plan> {
        let mut programs = vec![here(&self.command[0])?];
        for name in &self.with {
            programs.push(here(name)?);
        }
        let split = |pair: &String| {
            let (from, to) = pair.split_once(':').with_context(|| format!("not FROM:TO: {pair}"))?;
            Ok((PathBuf::from(from), to.to_string()))
        };
        let files = self.files.iter().map(split).collect::<Result<_>>()?;
        if let Some(relative) = self.trees.iter().find(|path| !path.is_absolute()) {
            bail!("not an absolute path: {}", relative.display());
        }
        let (nics, trees) = (self.nics.into(), self.trees.clone());
        let disk = self.disk.is_some();
        let content = Content { nics, programs, files, trees, command: self.command_line()?, disk };
        Ok(Plan {
            machines: self.machines.into(),
            memory: self.memory,
            disk: self.disk,
            content,
            events: self.events()?,
            since: self.since.clone(),
            timeout: Duration::from_secs(self.timeout),
            count_instructions: self.count_instructions,
            folder: folder.to_path_buf(),
        })
    }

    /// The command as the machines' shell is to run it.
    fn command_line(&self) -> Result<String> {
        let name = here(&self.command[0])?;
        let name = name.file_name().context("a program without a name")?.to_string_lossy().into_owned();
        let words = std::iter::once(&name).chain(&self.command[1..]).map(|word| {
            let quoted = format!("'{}'", word.replace('\'', r"'\''"));
            quoted.replace("{nodes}", "'$2'").replace("{node}", "'$1'")
        });
        Ok(format!("exec {}\n", words.collect::<Vec<_>>().join(" ")))
    }

    fn events(&self) -> Result<Vec<(Duration, Event)>> {
        let mut events = Vec::new();
        for text in &self.cut {
            events.push(cut(text).with_context(|| format!("not A-B@AT[+FOR]: {text}"))?);
        }
        for (n, text) in self.drop.iter().enumerate() {
            let (rule, _) = rate(text, Act::Drop).with_context(|| format!("not A-B=PERCENT: {text}"))?;
            events.push((Duration::ZERO, Event::Rule(Rule { seed: self.seed + n as u64, ..rule }, None)));
        }
        for (n, text) in self.delay.iter().enumerate() {
            let late = || format!("not A-B=PERCENT:MICROS: {text}");
            let (rule, rest) = rate(text, Act::Drop).with_context(late)?;
            let micros: u64 = rest.and_then(|rest| rest.parse().ok()).with_context(late)?;
            let (act, seed) = (Act::DelayUpTo(micros * 1_000), self.seed + 1_000 + n as u64);
            events.push((Duration::ZERO, Event::Rule(Rule { act, seed, ..rule }, None)));
        }
        for text in &self.kill {
            events.push(kill(text).with_context(|| format!("not MACHINE@AT[+FOR]: {text}"))?);
        }
        Ok(events)
    }
}

/// A program by its path here, or by its name on the search path.
fn here(name: &str) -> Result<PathBuf> {
    let path = PathBuf::from(name);
    if path.is_file() {
        return Ok(path);
    }
    match packages::program(name) {
        Some(found) => Ok(found),
        None => bail!("there is no program {name}"),
    }
}

fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

fn kill(text: &str) -> Option<(Duration, Event)> {
    let (machine, when) = text.split_once('@')?;
    let (at, back) = when.split_once('+').map_or((when, None), |(at, back)| (at, Some(back)));
    let back = match back {
        Some(back) => Some(seconds(back)?),
        None => None,
    };
    Some((seconds(at)?, Event::Kill(machine.parse().ok()?, back)))
}

fn link(text: &str) -> Option<(usize, usize)> {
    let (a, b) = text.split_once('-')?;
    Some((a.parse().ok()?, b.parse().ok()?))
}

fn cut(text: &str) -> Option<(Duration, Event)> {
    let (cards, when) = text.split_once('@')?;
    let (a, b) = link(cards)?;
    let (at, lasts) = when.split_once('+').map_or((when, None), |(at, lasts)| (at, Some(lasts)));
    let lasts = match lasts {
        Some(text) => Some(seconds(text)?),
        None => None,
    };
    Some((seconds(at)?, Event::Rule(Rule::cut(a, b), lasts)))
}

/// A rule for a share of all frames between two cards, and what follows a colon.
fn rate(text: &str, act: Act) -> Option<(Rule, Option<&str>)> {
    let (cards, rest) = text.split_once('=')?;
    let (percent, more) = rest.split_once(':').map_or((rest, None), |(percent, more)| (percent, Some(more)));
    let (from, to) = link(cards)?;
    let percent: f64 = percent.parse().ok()?;
    let (way, class) = (Way::Both, None);
    let (skip, count, ppm, seed) = (0, u64::MAX, (percent * 10_000.0) as u32, 0);
    Some((Rule { from, to, way, class, skip, count, ppm, seed, act }, more))
}
