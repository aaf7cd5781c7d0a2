//! Which worlds systems have, and exploring them with a program that counts what it executes.

use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use weft_sim::explore::Outcome;

/// The variable that says which mutant runs.
pub const CHOOSES: &str = "WEFT_MUTANT";

/// The variable that says in which file it is told which mutants' places are executed.
pub const TELLS: &str = "WEFT_MUTANTS_MET";

/// For how long each world is explored, in seconds.
#[derive(Clone, Copy)]
pub struct Times {
    /// In every order, without faults and with each kind of them.
    pub check: f64,
    /// By walks.
    pub walks: f64,
}

/// How `weft` is built.
#[derive(Clone, Copy)]
pub struct Build {
    /// With counters of what is executed.
    pub counts: bool,
    /// Optimised.
    pub release: bool,
    /// Without a word.
    pub quiet: bool,
}

/// How a world is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Every order, without faults.
    Quiet,
    /// Every order, with one fault of a kind at any point.
    Fault(Outcome),
    /// Walks at random, with up to two faults of any kind that leaves nodes as they are. (Two crashes leave no majority of three.)
    Walks,
    /// Walks at random, with one node that crashes, restarts or is slow.
    MortalWalks,
    /// Scripts that are drawn.
    Drawn,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            How::Quiet => f.write_str("no fault"),
            How::Fault(outcome) => f.write_str(outcome.name()),
            How::Walks => f.write_str("walks"),
            How::MortalWalks => f.write_str("walks with a crash"),
            How::Drawn => f.write_str("drawn"),
        }
    }
}

impl Serialize for How {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// An exploration: a world, and how it was explored.
#[derive(Clone, Debug, Serialize)]
pub struct Explored {
    /// The world.
    pub world: String,
    /// How it was, for who explores the same once more.
    #[serde(flatten)]
    pub plan: Plan,
    /// How many executions there were.
    pub executions: u64,
    /// Whether one of them broke a promise.
    pub violated: bool,
    /// Whether there were no more.
    pub exhaustive: bool,
    /// The mutants whose places were executed, if the program has some.
    #[serde(skip)]
    pub met: BTreeSet<usize>,
}

impl Explored {
    /// Whether there were no faults.
    pub fn is_quiet(&self) -> bool {
        self.plan.how == How::Quiet
    }
}

/// How a world is explored, and for how long at most.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The kind of the one fault in an execution, if there is any; or walks.
    pub how: How,
    #[serde(skip)]
    kinds: String,
    #[serde(skip)]
    seconds: f64,
}

impl Plan {
    /// Scripts that are drawn for the worlds of each of these systems, for so many seconds altogether. (Members by themselves have no
    /// scripts.)
    pub fn drawn(systems: &[String], seconds: f64) -> Vec<(String, Plan)> {
        let systems: Vec<&String> = systems.iter().filter(|system| *system != "members").collect();
        let each = seconds / systems.len().max(1) as f64;
        let plan = Plan { how: How::Drawn, kinds: String::new(), seconds: each };
        match (each > 0.0, systems.is_empty()) {
            (false, _) => Vec::new(),
            (true, true) => vec![("worlds".into(), plan)],
            (true, false) => {
                systems.iter().map(|system| (format!("worlds-{system}"), plan.clone())).collect()
            }
        }
    }
}

/// An instrumented `weft`, and where its profiles go.
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// The folder of its profiles.
    pub profiles: PathBuf,
    /// Which of the mutants in it runs, if it has some.
    pub mutant: Option<usize>,
    /// The name of the next file about mutants.
    next: AtomicUsize,
}

/// What a run takes beyond the time that it is given: it may end what it has begun, and make a failure small.
const PATIENCE: Duration = Duration::from_secs(60);

impl Program {
    /// Builds it in a folder of its own, beside whatever else is built.
    ///
    /// # Errors
    ///
    /// It cannot be built.
    pub fn build(root: &Path, folder: &Path, how: Build) -> Result<Program, String> {
        let profiles = folder.join(format!("profiles-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&profiles);
        std::fs::create_dir_all(&profiles).map_err(|why| format!("{}: {why}", profiles.display()))?;
        let mut cargo = Command::new(env!("CARGO"));
        if how.counts {
            let own = std::env::current_exe().map_err(|why| why.to_string())?;
            cargo.env("RUSTC_WORKSPACE_WRAPPER", own).env(super::WRAPS, "1");
        }
        let status = cargo
            .args(["build", "--package", "weft"])
            .args(how.quiet.then_some("--quiet"))
            .args(how.release.then_some("--release"))
            .current_dir(root)
            .env("CARGO_TARGET_DIR", folder)
            // Counters have places of their own.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
            // (Whole-program optimisation takes longer than what it saves.)
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
            .stdout(Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => Ok(Program {
                path: folder.join(if how.release { "release/weft" } else { "debug/weft" }),
                profiles,
                mutant: None,
                next: AtomicUsize::new(0),
            }),
            Ok(_) => Err("weft cannot be built".into()),
            Err(why) => Err(format!("cargo cannot be run: {why}")),
        }
    }

    fn command(&self, profile: &str) -> Command {
        let mut command = Command::new(&self.path);
        if let Some(mutant) = self.mutant {
            command.env(CHOOSES, mutant.to_string());
        }
        command
            .env("LLVM_PROFILE_FILE", self.profiles.join(profile))
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// The names of the worlds of these systems that must hold; of all, if there is none.
    ///
    /// # Errors
    ///
    /// The program does not list its worlds, or one of the systems has none.
    pub fn worlds(&self, systems: &[String]) -> Result<Vec<String>, String> {
        // What listing them executes is no exploration.
        let output = self.command("listing").args(["check", "--list", "--json"]).output();
        let _ = std::fs::remove_file(self.profiles.join("listing"));
        let listed: Listed = serde_json::from_slice(&output.map_err(|why| why.to_string())?.stdout)
            .map_err(|why| format!("the list of worlds: {why}"))?;
        let known: BTreeSet<&str> = listed.worlds.iter().map(World::system).collect();
        if let Some(unknown) = systems.iter().find(|system| !known.contains(system.as_str())) {
            let known: Vec<&str> = known.into_iter().collect();
            return Err(format!("no system '{unknown}' has worlds; there are {}", known.join(", ")));
        }
        let wanted = |world: &&World| {
            let named = systems.iter().any(|system| system == world.system());
            // (Toys run no protocol.)
            world.expected == "held" && !world.name.starts_with("toy-") && (systems.is_empty() || named)
        };
        Ok(listed.worlds.iter().filter(wanted).map(|world| world.name.clone()).collect())
    }

    /// Explores a world. `None` if it has no such fault.
    fn explore(&self, world: &str, plan: &Plan) -> Result<Option<Explored>, String> {
        let Plan { how, kinds, seconds } = plan;
        let (how, seconds) = (*how, seconds.to_string());
        let mut command = self.command("%4m.profraw");
        let tells = self.profiles.join(format!("met-{}", self.next.fetch_add(1, Relaxed)));
        command.env(TELLS, &tells);
        match how {
            How::Walks | How::MortalWalks | How::Drawn => {
                command.args(["fuzz", world, "--jobs", "1", "--seconds", &seconds])
            }
            _ => command.args(["check", world, "--jobs", "1", "--max-seconds", &seconds]),
        };
        match how {
            How::Fault(_) => drop(command.args(["--faults", "1", "--kinds", kinds])),
            How::Walks if !kinds.is_empty() => drop(command.args(["--faults", "2", "--kinds", kinds])),
            How::MortalWalks => drop(command.args(["--faults", "1", "--kinds", kinds])),
            How::Walks => drop(command.args(["--faults", "0"])),
            How::Quiet | How::Drawn => {}
        }
        command.args(["--quiet", "--json", "--save", "/dev/null"]);
        let name = || format!("{world}, {how}");
        let output = output(command, PATIENCE).map_err(|why| format!("{}: {why}", name()))?;
        let violated = match End::of(output.status) {
            End::NoSuchFault if how != How::Quiet => return Ok(None),
            End::Held => false,
            End::Violated => true,
            _ => return Err(format!("{}: weft ended with {}", name(), output.status)),
        };
        let report: Report =
            serde_json::from_slice(&output.stdout).map_err(|why| format!("{}: {why}", name()))?;
        let executions = report.executions.or(report.seeds).unwrap_or_default();
        let exhaustive = report.exhaustive.unwrap_or(false);
        let told = std::fs::read_to_string(&tells).unwrap_or_default();
        let _ = std::fs::remove_file(&tells);
        let met = told.lines().filter_map(|number| number.parse().ok()).collect();
        Ok(Some(Explored {
            world: world.to_owned(),
            plan: plan.clone(),
            executions,
            violated,
            exhaustive,
            met,
        }))
    }

    /// Explores a world in every way.
    fn explore_in(
        &self,
        world: &str,
        Times { check, walks }: Times,
        tell: &(dyn Fn(Explored) + Sync),
    ) -> Result<(), String> {
        let (mut lasting, mut mortal) = (Vec::new(), Vec::new());
        let faults = Outcome::ALL.into_iter().filter(|outcome| outcome.is_fault());
        for how in [How::Quiet].into_iter().chain(faults.map(How::Fault)) {
            let kinds = match how {
                How::Fault(fault) => fault.name(),
                _ => "",
            };
            let plan = Plan { how, kinds: kinds.to_owned(), seconds: check };
            let Some(explored) = self.explore(world, &plan)? else { continue };
            match kinds {
                "" => {}
                "crash" | "restart" | "slow-node" => mortal.push(kinds),
                _ => lasting.push(kinds),
            }
            tell(explored);
        }
        let mortal = (!mortal.is_empty()).then_some((How::MortalWalks, mortal));
        for (how, kinds) in [(How::Walks, lasting)].into_iter().chain(mortal).filter(|_| walks > 0.0) {
            let plan = Plan { how, kinds: kinds.join(","), seconds: walks };
            self.explore(world, &plan)?.into_iter().for_each(tell);
        }
        Ok(())
    }

    /// Explores worlds in every way, several at a time, and tells of each.
    ///
    /// # Errors
    ///
    /// A world cannot be explored.
    pub fn explore_all(
        &self,
        worlds: &[String],
        times: Times,
        jobs: usize,
        tell: &(dyn Fn(&Explored) + Sync),
    ) -> Result<Vec<Explored>, String> {
        let found = Mutex::new(Vec::new());
        let failed = Mutex::new(None);
        let tell = |explored: Explored| {
            tell(&explored);
            found.lock().expect("no worker panics").push(explored);
        };
        each(worlds, jobs, &|world| {
            if let Err(why) = self.explore_in(world, times, &tell) {
                *failed.lock().expect("no worker panics") = Some(why);
            }
            true
        });
        match failed.into_inner().expect("no worker panics") {
            Some(why) => Err(why),
            None => Ok(found.into_inner().expect("no worker panics")),
        }
    }

    /// Explores worlds, each by its plan, until one does not hold, or does not even end: what that was.
    pub fn first_violated<'a>(
        &self,
        all: impl Iterator<Item = (&'a str, &'a Plan)>,
        jobs: usize,
    ) -> Option<String> {
        let first = Mutex::new(None);
        let all: Vec<(&str, &Plan)> = all.collect();
        each(&all, jobs, &|&(world, plan)| {
            let wrong = match self.explore(world, plan) {
                Ok(Some(explored)) if !explored.violated => None,
                Ok(_) => Some(format!("{world}, {}", plan.how)),
                Err(why) => Some(why),
            };
            let mut first = first.lock().expect("no worker panics");
            *first = first.take().or(wrong);
            first.is_none()
        });
        first.into_inner().expect("no worker panics")
    }

    /// All profiles that were written.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn profiles(&self) -> Result<Vec<PathBuf>, String> {
        let entries = std::fs::read_dir(&self.profiles).map_err(|why| why.to_string())?;
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        if paths.is_empty() { Err("no profile was written".into()) } else { Ok(paths) }
    }
}

/// Does something with each of them, several at a time, as long as it says that there is more to do.
fn each<T: Sync>(all: &[T], jobs: usize, run: &(dyn Fn(&T) -> bool + Sync)) {
    let open = Mutex::new(all.iter());
    let next = || open.lock().expect("no worker panics").next();
    let work = || while next().is_some_and(run) {};
    std::thread::scope(|scope| (0..jobs.max(1)).for_each(|_| drop(scope.spawn(work))));
}

/// Runs a command to its end. One that does not end is killed.
fn output(mut command: Command, patience: Duration) -> Result<Output, String> {
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|why| why.to_string())?;
    let until = Instant::now() + patience;
    while child.try_wait().map_err(|why| why.to_string())?.is_none() {
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            return Err("does not end".into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().map_err(|why| why.to_string())
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.profiles);
    }
}

/// How `weft` ended: its exit codes.
enum End {
    Held,
    Violated,
    NoSuchFault,
    Failed,
}

impl End {
    fn of(status: ExitStatus) -> End {
        match status.code() {
            // To the end, or as far as its time allowed.
            Some(0 | 3) => End::Held,
            Some(1) => End::Violated,
            Some(2) => End::NoSuchFault,
            _ => End::Failed,
        }
    }
}

#[derive(Deserialize)]
struct Listed {
    worlds: Vec<World>,
}

#[derive(Deserialize)]
struct World {
    name: String,
    system: Option<String>,
    expected: String,
}

impl World {
    /// The system that it is of; what all of them stand on has a name of its own.
    fn system(&self) -> &str {
        self.system.as_deref().unwrap_or("members")
    }
}

/// Of `weft check` the first two, of `weft fuzz` the last.
#[derive(Deserialize)]
struct Report {
    executions: Option<u64>,
    exhaustive: Option<bool>,
    seeds: Option<u64>,
}
