//! The paper's figures of shared memory, measured on the simulated fabric.
//!
//! Repeats Table 2, the read fault of section 5.3, Table 3 and what sections 5.2 to 5.4 say of applications, of "In-Kernel Integration of Operating System and Infiniband Functions for High
//! Performance Computing Clusters: A DSM Example" (Liss, Birk and Schuster, IEEE TPDS 2005) on the machines of profile `dsm-2005`.
//! Table 1 goes in; Table 2's polling and interrupt contexts come out, and its other two are fitted.

mod apps;
mod claims;
mod cluster;
mod fault;
mod ping_pong;
mod shown;
#[cfg(test)]
mod tests;
mod today;

use crate::paper::{Fitted, Goal, Paper, PaperError, Progress, Results, Row, apart};
use std::collections::BTreeMap;
use weft_sim::profile::Profile;

/// The paper, as the registry has it.
pub(super) const DSM: Paper = Paper {
    name: "dsm",
    about: "Shared memory in minipages, in the kernel (Liss et al., 2005)",
    details: "Repeats Table 2 (a message there and back, by the context in which it is received), the read fault of section 5.3, and \
              Table 3's nine applications, with the paper's inputs, on simulated machines of profile dsm-2005, which has \
              Table 1. Says which constants were fitted. Everything is in virtual time and the same in every run.",
    heading: "The figures of the paper on shared memory in the kernel, repeated",
    title: "In-Kernel Integration of Operating System and Infiniband Functions for High Performance Computing Clusters: A DSM \
            Example (Liss, Birk and Schuster, IEEE Transactions on Parallel and Distributed Systems, 2005)",
    run: results,
};

/// Some rows of the paper, by themselves.
type Experiment<'a> = Box<dyn Fn() -> Result<Vec<Row>, PaperError> + Sync + 'a>;

/// Runs all experiments, and says how to show what they give.
fn results(progress: Progress<'_>) -> Result<Results, PaperError> {
    let profile = Profile::builtin("dsm-2005")?;
    let what = "experiments of sections 4 and 5";
    progress(0.0, what);
    let mut parts: Vec<Experiment<'_>> = vec![
        Box::new(|| ping_pong::rows(&profile)),
        Box::new(|| fault::rows(&profile)),
        Box::new(|| claims::rows(&profile)),
    ];
    for line in &apps::LINES {
        parts.push(Box::new(|| apps::table_3(&profile, line)));
        parts.push(Box::new(|| apps::speed_ups(&profile, line)));
    }
    for compared in &apps::COMPARED {
        parts.push(Box::new(|| apps::compared(&profile, compared)));
    }
    let mut rows = apart(&parts, |part| part(), |share| progress(share, what))?.concat();
    let scaled: Vec<Row> = apps::SCALED.iter().filter_map(|scaled| apps::scaled(&rows, scaled)).collect();
    rows.extend(scaled);
    rows.extend(apps::in_theory());
    rows.extend(apps::flat(&rows));
    rows.extend(today::rows(&Profile::builtin("present-day")?)?);
    Ok(Results {
        setting: "Repeated on simulated machines of profile dsm-2005; times are virtual.".to_string(),
        facts: BTreeMap::new(),
        goals: goals(&rows),
        fitted: ping_pong::fitted().into_iter().chain(apps::fitted()).collect(),
        notes: shown::notes().to_vec(),
        groups: shown::groups(&rows),
        plots: shown::plots(&rows),
        rows,
    })
}

/// What was fitted is not judged.
fn goals(rows: &[Row]) -> Vec<Goal> {
    let fitted: Vec<String> = ping_pong::fitted().into_iter().map(|Fitted { name, .. }| name).collect();
    let table_2 = |row: &Row| row.figure == "Table 2" && !fitted.contains(&row.series);
    let often = |row: &Row| row.figure == "Table 3" && !apps::is_fitted(row) && row.unit == "1/s";
    let rates = |row: &Row| often(row) && !row.x.to_string().starts_with("faults");
    let speed = |row: &Row| row.figure == "Section 5.4" && row.series.starts_with("NBody,");
    let judged = [
        Goal::judge(rows, "there and back, by polling and in the interrupt (Table 2)", 10.0, table_2),
        Goal::judge(rows, "barriers and locks a second that were not fitted (Table 3)", 25.0, rates),
        Goal::judge(rows, "speed-up of NBody on 24 processors (5.4)", 15.0, speed),
    ];
    let judged = judged.into_iter().flatten().chain(fault::goals(rows)).chain(claims::goals(rows));
    judged.chain(points(rows)).chain(widens(rows)).chain(today::goals(rows)).collect()
}

/// Of the times saved against the user-level build, how many points each is off.
fn points(rows: &[Row]) -> impl Iterator<Item = Goal> + '_ {
    rows.iter().filter(|row| row.figure == "Section 5.2").filter_map(|row| {
        let off = (row.measured - row.paper?).abs();
        Some(Goal {
            what: format!("{}: time against the user-level build, in points (5.2)", row.series),
            bound_percent: 5.0,
            worst_percent: off,
            worst: format!("{}, {}", row.figure, row.series),
            met: off <= 5.0,
            limit: None,
        })
    })
}

/// "The gap increased considerably in all applications" (5.2): what part of the time saved with a load was saved without one.
fn widens(rows: &[Row]) -> Option<Goal> {
    let saved = |figure: &'static str| rows.iter().filter(move |row| row.figure == figure);
    let parts = saved("Section 5.2").filter_map(|alone| {
        let loaded = saved(apps::LOADED).find(|loaded| loaded.series == alone.series)?;
        Some((100.0 * alone.measured / loaded.measured, &alone.series))
    });
    let (worst_percent, series) = parts.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    Some(Goal {
        what: "gap to the user-level build without a load, of that with one (5.2)".to_string(),
        bound_percent: 100.0,
        worst_percent,
        worst: format!("{}, {series}", apps::LOADED),
        met: worst_percent < 100.0,
        limit: None,
    })
}
