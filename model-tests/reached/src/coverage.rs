//! Line coverage of a program that was built with `-C instrument-coverage`, from its profiles.

use llvm_profparser::{CoverageMapping, CoverageResult, merge_profiles};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Which lines of one file can run, and whether each did.
pub type Lines = BTreeMap<usize, bool>;

/// The lines of all files whose path `wanted` picks, by path.
///
/// A line counts as reached if one of the regions that begin on it was executed, or else the region that it continues:
/// so a line that holds both arms of a condition is reached by either.
///
/// # Errors
///
/// The profiles or the program cannot be read.
pub fn lines(
    program: &Path,
    profiles: &[PathBuf],
    wanted: impl Fn(&Path) -> bool,
) -> Result<BTreeMap<PathBuf, Lines>, String> {
    let profile = merge_profiles(profiles).map_err(|why| format!("the profiles: {why}"))?;
    let programs = [program.to_path_buf()];
    let mapping = CoverageMapping::new(&programs, &profile, false).map_err(|why| why.to_string())?;
    let report = mapping
        .generate_subreport(|paths| paths.iter().any(|path| wanted(path)))
        .map_err(|why| format!("{}: {why}", program.display()))?;
    let picked = report.files.iter().filter(|(path, _)| wanted(path));
    Ok(picked.map(|(path, result)| (path.clone(), of_file(result))).collect())
}

fn of_file(result: &CoverageResult) -> Lines {
    let mut lines = Lines::new();
    // Regions come in the order of their beginnings: of those that a line continues, the last is the innermost.
    for (at, count) in &result.hits {
        // A difference of counters is 0 where it should be below.
        let reached = *count as i64 > 0;
        for line in at.line_start + 1..=at.line_end {
            lines.insert(line, reached);
        }
    }
    let mut begun = Lines::new();
    for (at, count) in &result.hits {
        *begun.entry(at.line_start).or_default() |= *count as i64 > 0;
    }
    for (line, reached) in begun {
        // What the line continues was reached: then so was the line.
        *lines.entry(line).or_default() |= reached;
    }
    lines
}
