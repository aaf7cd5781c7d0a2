//! Which worlds a system has, and exploring them with a program that counts what it executes.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use weft_sim::explore::Outcome;

/// An exploration: a world, and the kind of faults that it was explored with.
#[derive(Clone, Debug, Serialize)]
pub struct Explored {
    /// The world.
    pub world: String,
    /// The kind of the one fault in an execution, if there is any.
    pub fault: Option<&'static str>,
    /// How many executions there were.
    pub executions: u64,
    /// Whether there were no more.
    pub exhaustive: bool,
}

/// An instrumented `weft`, and where its profiles go.
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// The folder of its profiles.
    pub profiles: PathBuf,
}

impl Program {
    /// Builds it in a folder of its own, beside whatever else is built.
    ///
    /// # Errors
    ///
    /// It cannot be built.
    pub fn build(root: &Path, folder: &Path, quiet: bool) -> Result<Program, String> {
        let profiles = folder.join(format!("profiles-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&profiles);
        std::fs::create_dir_all(&profiles).map_err(|why| format!("{}: {why}", profiles.display()))?;
        let status = Command::new(env!("CARGO"))
            .args(["build", "--release", "--package", "weft"])
            .args(quiet.then_some("--quiet"))
            .current_dir(root)
            .env("CARGO_TARGET_DIR", folder)
            // Each crate by itself: the linker must not drop what was never called.
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("RUSTC_WORKSPACE_WRAPPER", std::env::current_exe().map_err(|why| why.to_string())?)
            .env(super::WRAPS, "1")
            .stdout(Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => Ok(Program { path: folder.join("release/weft"), profiles }),
            Ok(_) => Err("weft cannot be built".into()),
            Err(why) => Err(format!("cargo cannot be run: {why}")),
        }
    }

    fn command(&self, profile: &str) -> Command {
        let mut command = Command::new(&self.path);
        command
            .env("LLVM_PROFILE_FILE", self.profiles.join(profile))
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// The names of a system's worlds that must hold.
    ///
    /// # Errors
    ///
    /// The program does not list its worlds.
    pub fn worlds(&self, system: &str) -> Result<Vec<String>, String> {
        // What listing them executes is no exploration.
        let output = self.command("listing").args(["check", "--list", "--json"]).output();
        let _ = std::fs::remove_file(self.profiles.join("listing"));
        let listed: Listed = serde_json::from_slice(&output.map_err(|why| why.to_string())?.stdout)
            .map_err(|why| format!("the list of worlds: {why}"))?;
        let of_system = |world: &World| world.system.as_deref() == Some(system);
        if !listed.worlds.iter().any(of_system) {
            let known: BTreeSet<String> =
                listed.worlds.into_iter().filter_map(|world| world.system).collect();
            let known: Vec<String> = known.into_iter().collect();
            return Err(format!("no system '{system}' has worlds; there are {}", known.join(", ")));
        }
        let held = listed.worlds.into_iter().filter(|world| of_system(world) && world.expected == "held");
        Ok(held.map(|world| world.name).collect())
    }

    /// Explores a world for at most so many seconds. `None` if it has no such fault.
    fn explore(&self, world: &str, fault: Option<Outcome>, seconds: u64) -> Result<Option<Explored>, String> {
        let fault = fault.map(Outcome::name);
        let mut command = self.command("%4m.profraw");
        command.args(["check", world, "--quiet", "--json", "--save", "/dev/null"]);
        command.arg("--max-seconds").arg(seconds.to_string());
        if let Some(fault) = fault {
            command.args(["--faults", "1", "--kinds", fault]);
        }
        let output = command.output().map_err(|why| format!("{}: {why}", self.path.display()))?;
        let name = || format!("{world} with {}", fault.unwrap_or("no fault"));
        match End::of(output.status) {
            End::NoSuchFault if fault.is_some() => Ok(None),
            End::Explored => {
                let report: Report =
                    serde_json::from_slice(&output.stdout).map_err(|why| format!("{}: {why}", name()))?;
                let Report { executions, exhaustive } = report;
                Ok(Some(Explored { world: world.into(), fault, executions, exhaustive }))
            }
            _ => Err(format!("{}: weft check ended with {}", name(), output.status)),
        }
    }

    /// Explores worlds without faults and with one of each kind, several at a time.
    ///
    /// # Errors
    ///
    /// A world does not hold, or cannot be explored.
    pub fn explore_all(
        &self,
        worlds: &[String],
        seconds: u64,
        jobs: usize,
        tell: &(dyn Fn(&Explored) + Sync),
    ) -> Result<Vec<Explored>, String> {
        let faults = Outcome::ALL.into_iter().map(|outcome| outcome.is_fault().then_some(outcome));
        let faults: Vec<Option<Outcome>> = faults.collect();
        let all = worlds.iter().flat_map(|world| faults.iter().map(move |fault| (world, *fault)));
        let open = Mutex::new(all.enumerate());
        let found = Mutex::new(Vec::new());
        let work = || {
            loop {
                let next = open.lock().expect("no worker panics").next();
                let Some((number, (world, fault))) = next else { return };
                let explored = self.explore(world, fault, seconds);
                if let Ok(Some(explored)) = &explored {
                    tell(explored);
                }
                found.lock().expect("no worker panics").push((number, explored));
            }
        };
        std::thread::scope(|scope| (0..jobs.max(1)).for_each(|_| drop(scope.spawn(work))));
        let mut found = found.into_inner().expect("no worker panics");
        found.sort_by_key(|(number, _)| *number);
        found.into_iter().filter_map(|(_, explored)| explored.transpose()).collect()
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

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.profiles);
    }
}

/// How `weft check` ended: its exit codes.
enum End {
    Explored,
    NoSuchFault,
    Failed,
}

impl End {
    fn of(status: ExitStatus) -> End {
        match status.code() {
            // To the end, or as far as its time allowed.
            Some(0 | 3) => End::Explored,
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

#[derive(Deserialize)]
struct Report {
    executions: u64,
    exhaustive: bool,
}
