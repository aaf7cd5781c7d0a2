//! The command lines of `weft check`, `weft fuzz` and `weft replay`.

use crate::exit::Failure;
use crate::seeds::{Seeds, some_jobs};
use clap::Args;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;
use weft_check::explore::{AnyModel, Reduction, Size, Strategy, Value};
use weft_sim::explore::{FaultSet, Outcome};

/// Examples of `weft check`.
pub const CHECK_EXAMPLES: &str = "\
Examples:
  What there is to check, and what of it is about files
    weft check --list
    weft check --list pario
  A world of another size
    weft check messages --set nodes=3
  A bug that was planted: found, made short, and saved
    weft check toy-mcs-links-first
  Everything that is listed, a second each
    weft check --all --max-seconds 1
  A world with up to one fault of any kind at any point, for at most ten minutes
    weft check toy-blind-resend --faults 1 --max-seconds 600

Exit codes:
  0  everything was explored, and every promise was kept
  1  a promise was broken; the run is saved
  2  bad input
  3  a limit ended it before everything was explored, or it was interrupted";

/// Examples of `weft fuzz`.
pub const FUZZ_EXAMPLES: &str = "\
Examples:
  Scenarios of 16 nodes drawn at random, every kind of fault, in each lock scheme in turn
    weft fuzz swarm-16 --seeds 0..1000
  Small worlds with scripts of calls that nobody thought of, a short search each
    weft fuzz worlds --seconds 60
  A minute of random runs of a world of `weft check`
    weft fuzz toy-blind-resend --faults 1 --seconds 60";

/// Examples of `weft replay`.
pub const REPLAY_EXAMPLES: &str = "\
Examples:
  What happened, step by step
    weft replay toy-mcs-links-first.failure.toml
  The same as a diagram, in a page for a browser (or .svg)
    weft replay toy-mcs-links-first.failure.toml --diagram run.html";

/// How large a world is.
#[derive(Debug, Args)]
pub struct Sizes {
    /// Choose something of the world's size, as in nodes=4 or modes=x,s; may be given several times (--list has what there
    /// is)
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    pub set: Vec<(String, Value)>,
}

impl Sizes {
    /// The same as a world takes it: of two values of one key, the last.
    pub fn size(&self) -> Size {
        Size::new(self.set.iter().cloned())
    }
}

/// What a search leaves on the disk and on the terminal.
#[derive(Debug, Args)]
pub struct Leaves {
    /// Where a failure is saved [default: WORLD.failure.toml; that of a swarm: SWARM.SEED.toml]
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Make a failing run shorter, and look for it in smaller worlds, for at most so many seconds
    #[arg(long, value_name = "T", value_parser = seconds, default_value = "60")]
    pub shrink_seconds: Duration,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// `weft check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The world (see --list); with --list: show only a system's worlds, or those whose names begin so
    #[arg(required_unless_present_any = ["list", "all"])]
    pub world: Option<String>,
    /// List the worlds, and what must come of each
    #[arg(long)]
    pub list: bool,
    /// Check every world of the list in its usual size, ten seconds each unless --max-seconds says otherwise, and tell which of
    /// them did not come out as they must
    #[arg(long, conflicts_with_all = ["world", "list", "set", "kinds", "oracle", "save"])]
    pub all: bool,
    #[command(flatten)]
    pub sizes: Sizes,
    /// The most faults in one execution
    #[arg(long, value_name = "F", default_value_t = 0)]
    pub faults: u32,
    #[command(flatten)]
    pub kinds: Kinds,
    /// Look for what breaks this promise only, as in 'mutual exclusion' (see a failure's report)
    #[arg(long, value_name = "NAME")]
    pub oracle: Option<String>,
    /// Which orders are left out because they differ in nothing that matters: none, sleep, dpor or cache [default: dpor, or
    /// sleep with --max-depth]
    #[arg(long, value_name = "HOW")]
    pub reduction: Option<Reduction>,
    /// Explore what follows on a quiescent state each time that the state comes, not once
    #[arg(long)]
    pub no_merge: bool,
    /// Run every program in every execution, instead of doing for it what it was seen to do; takes longer and changes nothing
    #[arg(long)]
    pub no_memo: bool,
    /// How many workers explore initial configurations at a time [default: as many as there are processors]
    #[arg(long, value_name = "J", value_parser = some_jobs)]
    pub jobs: Option<NonZeroUsize>,
    /// End after so many seconds (with --all: the check of each world)
    #[arg(long, value_name = "T", value_parser = seconds)]
    pub max_seconds: Option<Duration>,
    /// The most events in one execution; one that goes on is cut off, and the check is not complete (dpor leaves out orders
    /// of what comes before that, too)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_depth: Option<u32>,
    /// Report an execution of so many events, 100 at least, as a possible livelock
    #[arg(long, value_name = "N", default_value_t = weft_check::explore::Options::default().livelock, value_parser = clap::value_parser!(u32).range(100..))]
    pub livelock: u32,
    /// With --reduction cache: the most memory for cached states, in MiB [default: 4096]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub max_cache: Option<u64>,
    #[command(flatten)]
    pub leaves: Leaves,
}

impl CheckArgs {
    /// What is left out. Source sets learn from later events which orders to try, so where executions are cut off they miss orders
    /// of what is left of them.
    pub fn reduction(&self) -> Reduction {
        let usual = if self.max_depth.is_some() { Reduction::Sleep } else { Reduction::default() };
        self.reduction.unwrap_or(usual)
    }
}

/// `weft fuzz`.
#[derive(Debug, Args)]
pub struct FuzzArgs {
    /// A world of `weft check --list`; worlds, to draw scripts of calls for all of them, or worlds-KIND for those of a system, or
    /// worlds-NAME for those whose names begin so; or a swarm: swarm-16 (any number of nodes; without one that is drawn, 1 to 8),
    /// swarm-16-KIND of a system, swarm-16-VARIANT, and each with these behind it, in any order: -rails for machines of two rails, -members for
    /// machines that agree on who is alive, of which some crash, and -exact for latencies that do not vary
    pub world: String,
    /// Run each seed from A up to, not including, B [default: 0..1000]
    #[arg(long, value_name = "A..B", conflicts_with = "seconds")]
    pub seeds: Option<Seeds>,
    /// Run seeds from 0 on, for so many seconds
    #[arg(long, value_name = "T", value_parser = seconds)]
    pub seconds: Option<Duration>,
    /// How many seeds run at a time [default: as many as there are processors]
    #[arg(long, value_name = "J", value_parser = some_jobs)]
    pub jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    pub sizes: Sizes,
    /// The most faults in one run (of the swarm: its scenarios' own) [default: 2, or fewer if the world has no more]
    #[arg(long, value_name = "F")]
    pub faults: Option<u32>,
    #[command(flatten)]
    pub kinds: Kinds,
    /// How runs choose: random, pct or swarm [default: swarm]
    #[arg(long, value_name = "HOW")]
    pub strategy: Option<Strategy>,
    #[command(flatten)]
    pub leaves: Leaves,
}

impl FuzzArgs {
    /// Refuses to be told what `who` draws.
    ///
    /// # Errors
    ///
    /// It is told requests, faults or how runs choose.
    pub fn leave_it_to(&self, who: &str) -> Result<(), Failure> {
        let told = [
            ("--set", !self.sizes.set.is_empty()),
            ("--faults", self.faults.is_some()),
            ("--kinds", !self.kinds.kinds.is_empty()),
            ("--strategy", self.strategy.is_some()),
        ];
        match told.into_iter().find(|(_, is_told)| *is_told) {
            None => Ok(()),
            Some((option, _)) => Err(Failure::bad_input(format!("{who}: leave out {option}"))),
        }
    }
}

/// `weft replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// What `weft check` or `weft fuzz` has saved
    pub file: PathBuf,
    /// Draw the run as a space-time diagram: a page for a browser (OUT.html), or the drawing alone (OUT.svg)
    #[arg(long, value_name = "OUT")]
    pub diagram: Option<PathBuf>,
    /// Print one JSON object instead of the log
    #[arg(long)]
    pub json: bool,
}

/// Kinds of faults.
#[derive(Debug, Args)]
pub struct Kinds {
    /// The kinds of faults, as in drop,cut [default: every kind that the world survives]
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = kind)]
    pub kinds: Vec<Outcome>,
}

impl Kinds {
    /// The same as a set, for a world under up to so many faults.
    ///
    /// # Errors
    ///
    /// The world does not have one of them, or none at all.
    pub fn of(&self, model: &dyn AnyModel, faults: u32) -> Result<Option<FaultSet>, Failure> {
        let (name, has) = (model.name(), model.faults());
        if faults > 0 && has.is_empty() {
            return Err(Failure::bad_input(format!("{name} is a world without faults: leave out --faults")));
        }
        if let Some(most) = model.most_faults().filter(|most| faults > *most) {
            return Err(Failure::bad_input(format!(
                "{name} is a world of at most {most} faults: --faults {most}"
            )));
        }
        if let Some(strange) = self.kinds.iter().find(|kind| !has.contains(**kind)) {
            let known = has.iter().map(Outcome::name).collect::<Vec<_>>().join(", ");
            let text = format!("{name} has no fault '{strange}'; it has: {known}");
            return Err(Failure::bad_input(text));
        }
        if faults == 0 && !self.kinds.is_empty() {
            let line =
                "--kinds says which faults strike, and none does: add --faults 1, or leave --kinds out";
            return Err(Failure::bad_input(line));
        }
        Ok((!self.kinds.is_empty()).then(|| self.kinds.iter().copied().collect()))
    }
}

fn kind(name: &str) -> Result<Outcome, String> {
    let known = || Outcome::ALL.into_iter().filter(|outcome| outcome.is_fault()).map(Outcome::name);
    let found = Outcome::from_name(name).filter(|outcome| outcome.is_fault());
    found.ok_or_else(|| format!("there are: {}", known().collect::<Vec<_>>().join(", ")))
}

fn setting(text: &str) -> Result<(String, Value), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => {
            Ok((key.to_string(), value.parse().unwrap_or_else(|never| match never {})))
        }
        _ => Err("it is not KEY=VALUE, as in nodes=4".to_string()),
    }
}

/// A span of at most a year, so that it can be added to any clock.
fn seconds(text: &str) -> Result<Duration, String> {
    const YEAR: f64 = 366.0 * 86_400.0;
    let seconds: f64 = text.parse().map_err(|_| "it is no number of seconds".to_string())?;
    match seconds > 0.0 && seconds <= YEAR {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("it must be above 0 and at most a year".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_positive_and_finite() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["", "x", "0", "-1", "inf", "nan", "1e12"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_setting_is_a_key_and_a_value() {
        assert_eq!(setting("nodes=4"), Ok(("nodes".to_string(), Value::Number(4))));
        assert_eq!(setting("modes=x,s="), Ok(("modes".to_string(), Value::Text("x,s=".to_string()))));
        assert!(setting("nodes").is_err() && setting("=4").is_err());
    }

    #[test]
    fn only_faults_are_kinds_of_faults() {
        assert_eq!(kind("lose-completion"), Ok(Outcome::LoseCompletion));
        assert!(kind("done").is_err() && kind("").is_err());
    }
}
