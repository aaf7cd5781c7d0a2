//! Which worlds systems have, and exploring them with a program that counts what it executes.

use crate::plans::{Explored, How, Plan, Times};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use weft_sim::explore::Outcome;

/// The variable that says which mutant runs.
pub const CHOOSES: &str = "WEFT_MUTANT";

/// The variable that says in which file it is told which mutants' places are executed.
pub const TELLS: &str = "WEFT_MUTANTS_MET";

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

/// For how long a run makes a failure small, in seconds: nobody looks at it.
const SHRINKS: &str = "0.001";

/// What came of exploring a world.
enum Came {
    /// It was explored.
    Explored(Explored),
    /// It has no such fault.
    NoSuchFault,
    /// The program panicked.
    Panicked,
    /// It did not end, and was killed.
    Killed,
}

/// What a mutant comes to.
pub enum Met {
    /// An exploration did not hold, or panicked: which one.
    Noticed(String),
    /// An exploration did not say whether its world holds: which one, and why.
    Open(String),
}

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

    /// Explores a world to the end of its time. `None` if it has no such fault.
    fn explored(&self, world: &str, plan: &Plan) -> Result<Option<Explored>, String> {
        match self.explore(world, plan)? {
            Came::Explored(explored) => Ok(Some(explored)),
            Came::NoSuchFault => Ok(None),
            Came::Panicked => Err(format!("{world}, {}: panics", plan.how)),
            Came::Killed => Err(format!("{world}, {}: does not end", plan.how)),
        }
    }

    /// Explores a world, as long as it ends.
    fn explore(&self, world: &str, plan: &Plan) -> Result<Came, String> {
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
        command.args(["--quiet", "--json", "--save", "/dev/null", "--shrink-seconds", SHRINKS]);
        let name = || format!("{world}, {how}");
        let output = plan.patience().and_then(|patience| output(command, patience));
        let Some((status, said)) = output.map_err(|why| format!("{}: {why}", name()))? else {
            return Ok(Came::Killed);
        };
        let violated = match End::of(status) {
            End::NoSuchFault if how != How::Quiet => return Ok(Came::NoSuchFault),
            End::Held => false,
            End::Violated => true,
            End::Panicked => return Ok(Came::Panicked),
            _ => return Err(format!("{}: weft ended with {status}", name())),
        };
        let report: Report = match serde_json::from_slice(&said) {
            Ok(report) => report,
            // One of many runs: it ends the program as a violation does, without a report.
            Err(_) if violated && said.is_empty() => return Ok(Came::Panicked),
            Err(why) => return Err(format!("{}: {why}", name())),
        };
        let executions = report.executions.or(report.seeds).unwrap_or_default();
        let exhaustive = report.exhaustive.unwrap_or(false);
        let told = std::fs::read_to_string(&tells).unwrap_or_default();
        let _ = std::fs::remove_file(&tells);
        let met = told.lines().filter_map(|number| number.parse().ok()).collect();
        Ok(Came::Explored(Explored {
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
            let Some(explored) = self.explored(world, &plan)? else { continue };
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
            self.explored(world, &plan)?.into_iter().for_each(tell);
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

    /// Explores worlds, each by its plan, until one does not hold, or does not even say so: what that was. (Where one does not end, the others
    /// that come to the same place seldom do, and it takes a minute to see that of each.)
    pub fn first_violated<'a>(
        &self,
        all: impl Iterator<Item = (&'a str, &'a Plan)>,
        jobs: usize,
    ) -> Option<Met> {
        let first = Mutex::new(None);
        let all: Vec<(&str, &Plan)> = all.collect();
        each(&all, jobs, &|&(world, plan)| {
            let name = || format!("{world}, {}", plan.how);
            let wrong = match self.explore(world, plan) {
                Ok(Came::Explored(explored)) if !explored.violated => None,
                Ok(Came::Explored(_) | Came::Panicked) => Some(Met::Noticed(name())),
                Ok(Came::NoSuchFault) => Some(Met::Open(format!("{}: has no such fault", name()))),
                Ok(Came::Killed) => Some(Met::Open(format!("{}: does not end", name()))),
                Err(why) => Some(Met::Open(why)),
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

/// Runs a command to its end: how it ended, and what it said. `None` if it does not end: then it is killed.
fn output(mut command: Command, patience: Duration) -> Result<Option<(ExitStatus, Vec<u8>)>, String> {
    let wrong = |why: io::Error| why.to_string();
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(wrong)?;
    let mut pipe = child.stdout.take().expect("it was asked for");
    // A pipe holds little: it is read while the command runs.
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        pipe.read_to_end(&mut said).map(|_| said)
    });
    let began = Instant::now();
    let status = loop {
        match child.try_wait().map_err(wrong)? {
            Some(status) => break status,
            None if began.elapsed() > patience => {
                let _ = child.kill();
                let _ = child.wait();
                return Ok(None);
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let said = reader.join().expect("who reads does not panic").map_err(wrong)?;
    Ok(Some((status, said)))
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
    /// By a panic in what is no run of many.
    Panicked,
    Failed,
}

impl End {
    fn of(status: ExitStatus) -> End {
        match status.code() {
            // To the end, or as far as its time allowed.
            Some(0 | 3) => End::Held,
            Some(1) => End::Violated,
            Some(2) => End::NoSuchFault,
            Some(101) => End::Panicked,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of exploring a world with a program that runs this line.
    fn met(line: &str) -> Option<Met> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("weft-met-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("there is room");
        let path = folder.join("weft");
        // By another process: nobody may run a file that any child of this one has open for writing.
        let writes = r##"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod +x "$0""##;
        let written = Command::new("sh").args(["-c", writes]).arg(&path).arg(line).status();
        assert!(written.expect("there is a shell").success());
        let program = Program { path, profiles: folder, mutant: None, next: AtomicUsize::new(0) };
        let plan = Plan { how: How::Quiet, kinds: String::new(), seconds: 1.0 };
        program.first_violated([("world", &plan)].into_iter(), 1)
    }

    #[test]
    fn a_mutant_is_noticed_by_a_promise_or_a_panic_and_by_no_other_end_of_a_run() {
        for line in ["echo {}; exit 1", "exit 1", "exit 101"] {
            assert!(matches!(met(line), Some(Met::Noticed(_))), "{line}");
        }
        for line in ["kill -9 $$", "exit 2", "exit 70", "echo no report", "echo 'no report'; exit 1"] {
            assert!(matches!(met(line), Some(Met::Open(_))), "{line}");
        }
        for line in ["echo {}", "echo {}; exit 3"] {
            assert!(met(line).is_none(), "{line}");
        }
    }

    #[test]
    fn a_run_that_was_killed_is_told_from_one_that_failed() {
        let run = |line: &str, patience| {
            let mut shell = Command::new("sh");
            shell.args(["-c", line]);
            let output = output(shell, Duration::from_secs(patience)).expect("there is a shell");
            output.map(|(status, said)| (status.code(), said.len()))
        };
        assert_eq!(run("exec sleep 600", 0), None);
        assert_eq!(run("echo no; exit 7", 60), Some((Some(7), 3)));
        assert_eq!(run("head -c 300000 /dev/zero", 60), Some((Some(0), 300_000)), "more than a pipe holds");
    }
}
