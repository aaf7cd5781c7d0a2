//! How many plausible bugs exploration notices by itself: mutants of the protocols, each met by all worlds until one fails.
//!
//! All of them are built at once. Each place is made a choice between what is there and what is tried, and a variable of the environment
//! chooses, so that a mutant costs no build. The workspace itself is left as it is: a copy of it is changed.
//!
//! First no mutant runs, and each exploration tells which of their places it executes. One that does not come to a place is the same
//! with its mutant, and is left out there.

use crate::plans::{Explored, Plan};
use crate::worlds::{Build, CHOOSES, Met, Program, TELLS};
use serde::Deserialize;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// A list of mutants.
#[derive(Deserialize)]
pub struct Sample {
    mutant: Vec<Mutant>,
}

/// One thing that is changed.
#[derive(Deserialize)]
struct Mutant {
    /// How it came into the sample.
    drawn: String,
    /// What it does, as cargo-mutants or a person says it.
    does: String,
    /// Where, from the workspace's folder on.
    file: PathBuf,
    /// The one place in that file.
    before: String,
    /// What stands there instead; `MUTANT` in it is whether the mutant runs.
    choice: String,
    /// Why it is the same program, if it is.
    equal: Option<String>,
}

/// What is put beside `protocols/src/lib.rs`: which mutant runs, asked once; and who is told that a mutant's place is executed.
const SWITCH: &str = r#"
/// Whether this mutant runs.
pub(crate) fn is_mutant(number: usize) -> bool {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    static CHOSEN: std::sync::OnceLock<Option<usize>> = std::sync::OnceLock::new();
    static MET: [AtomicBool; 1024] = [const { AtomicBool::new(false) }; 1024];
    if !MET[number].load(Relaxed) && !MET[number].swap(true, Relaxed) {
        if let Some(file) = std::env::var_os("TELLS") {
            let file = std::fs::File::options().create(true).append(true).open(file);
            let _ = std::io::Write::write_all(&mut file.expect("a file to tell"), format!("{number}\n").as_bytes());
        }
    }
    let chosen = || std::env::var("CHOOSES").ok()?.parse().ok();
    *CHOSEN.get_or_init(chosen) == Some(number)
}
"#;

impl Sample {
    /// Reads a list.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn read(path: &Path) -> Result<Sample, String> {
        let text = fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))?;
        toml::from_str(&text).map_err(|why| format!("{}: {why}", path.display()))
    }

    /// Builds all of them, in a copy of the workspace.
    ///
    /// # Errors
    ///
    /// A place is not there, or there twice; or it does not compile.
    pub fn build(&self, root: &Path, folder: &Path, how: Build) -> Result<Program, String> {
        let tree = folder.join("tree");
        copy(root, &tree)?;
        let mut files: Vec<&Path> = self.mutant.iter().map(|mutant| mutant.file.as_path()).collect();
        files.sort_unstable();
        files.dedup();
        for file in files {
            let mut text =
                fs::read_to_string(root.join(file)).map_err(|why| format!("{}: {why}", file.display()))?;
            for (number, mutant) in (1..).zip(&self.mutant).filter(|(_, mutant)| mutant.file == file) {
                text = mutant.put(number, &text)?;
            }
            write(&tree.join(file), text.as_bytes())?;
        }
        let library = Path::new("protocols/src/lib.rs");
        let text = fs::read_to_string(root.join(library)).map_err(|why| why.to_string())?;
        let switch = SWITCH.replace("TELLS", TELLS).replace("CHOOSES", CHOOSES);
        write(&tree.join(library), (text + &switch).as_bytes())?;
        Program::build(&tree, folder, how)
    }

    /// Meets each mutant of these numbers with all that was explored and comes to its place, then with what is drawn, and prints what
    /// came of it.
    pub fn meet(
        &self,
        program: &mut Program,
        explored: &[Explored],
        drawn_plans: &[(String, Plan)],
        jobs: usize,
        numbers: RangeInclusive<usize>,
    ) {
        let (mut noticed, mut open, mut all) = (0, 0, 0);
        for (number, mutant) in (1..).zip(&self.mutant).filter(|(number, _)| numbers.contains(number)) {
            program.mutant = Some(number);
            let began = Instant::now();
            let mut come: Vec<&Explored> =
                explored.iter().filter(|explored| explored.met.contains(&number)).collect();
            // Those without faults end soonest, and notice most.
            come.sort_by_key(|explored| !explored.is_quiet());
            let met =
                program.first_violated(come.iter().map(|come| (&*come.world, &come.plan)), jobs).or_else(
                    || program.first_violated(drawn_plans.iter().map(|(kind, plan)| (&**kind, plan)), jobs),
                );
            let seconds = began.elapsed().as_secs_f64();
            let Mutant { drawn, does, file, equal, .. } = mutant;
            let what = match &met {
                Some(Met::Noticed(by)) => by.clone(),
                Some(Met::Open(why)) => format!("open: {why}"),
                None => if equal.is_some() { "equal" } else { "survived" }.to_owned(),
            };
            let (file, come) = (file.display(), come.len());
            println!(
                "{number:>3} {drawn:<5} {seconds:>6.1} s of {come:>4} explorations  {what:<50} {file}: {does}"
            );
            if equal.is_none() {
                all += 1;
                noticed += usize::from(matches!(met, Some(Met::Noticed(_))));
                open += usize::from(matches!(met, Some(Met::Open(_))));
            }
        }
        let share = 100.0 * noticed as f64 / f64::from(all.max(1));
        println!("{noticed} of {all} that are no equal programs were noticed ({share:.0} %)");
        if open > 0 {
            println!(
                "{open} had an exploration that did not say whether it holds: whether they are noticed is open"
            );
        }
    }
}

impl Mutant {
    /// The file's text with a choice at the mutant's place.
    fn put(&self, number: usize, text: &str) -> Result<String, String> {
        let Mutant { file, before, choice, .. } = self;
        let places: Vec<usize> = text.match_indices(before.as_str()).map(|(at, _)| at).collect();
        let [at] = places[..] else {
            return Err(format!(
                "mutant {number}: {} has {} places '{before}'",
                file.display(),
                places.len()
            ));
        };
        let choice = choice.replace("MUTANT", &format!("crate::is_mutant({number})"));
        Ok([&text[..at], &choice, &text[at + before.len()..]].concat())
    }
}

/// Copies what git knows of a workspace.
fn copy(root: &Path, tree: &Path) -> Result<(), String> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output();
    let listed = listed.map_err(|why| format!("git: {why}"))?.stdout;
    for file in String::from_utf8_lossy(&listed).split_terminator('\0') {
        let Ok(content) = fs::read(root.join(file)) else { continue };
        write(&tree.join(file), &content)?;
    }
    Ok(())
}

/// Writes a file, unless it is so already: what does not change is not built again.
fn write(path: &Path, content: &[u8]) -> Result<(), String> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(path);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, content));
    written.map_err(|why| format!("{}: {why}", path.display()))
}
