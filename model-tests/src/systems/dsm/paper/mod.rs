//! The paper's figures of shared memory, measured on the simulated fabric: a first part.
//!
//! Repeats Table 2 and the read fault of section 5.3 of "In-Kernel Integration of Operating System and Infiniband Functions for High
//! Performance Computing Clusters: A DSM Example" (Liss, Birk and Schuster, IEEE TPDS 2005) on the machines of profile `dsm-2005`.
//! Table 1 goes in; Table 2's polling and interrupt contexts come out, and its other two are fitted.

mod cluster;
mod fault;
mod ping_pong;
#[cfg(test)]
mod tests;

use crate::paper::{Fitted, Goal, Group, Note, Paper, PaperError, Progress, Results, Row};
use std::collections::BTreeMap;
use weft_sim::profile::Profile;

/// The paper, as the registry has it.
pub(super) const DSM: Paper = Paper {
    name: "dsm",
    about: "Shared memory in minipages, in the kernel (Liss et al., 2005)",
    details: "Repeats Table 2 (a message there and back, by the context in which it is received) and the read fault of section \
              5.3 of the paper on simulated machines of profile dsm-2005, which has Table 1. Says which constants were fitted. \
              Everything is in virtual time and the same in every run.",
    heading: "The figures of the paper on shared memory in the kernel, repeated",
    title: "In-Kernel Integration of Operating System and Infiniband Functions for High Performance Computing Clusters: A DSM \
            Example (Liss, Birk and Schuster, IEEE Transactions on Parallel and Distributed Systems, 2005)",
    run: results,
};

/// Runs all experiments, and says how to show what they give.
fn results(progress: Progress<'_>) -> Result<Results, PaperError> {
    let profile = Profile::builtin("dsm-2005")?;
    let what = "experiments of sections 4 and 5";
    progress(0.0, what);
    let mut rows = ping_pong::rows(&profile)?;
    progress(0.5, what);
    rows.extend(fault::rows(&profile)?);
    progress(1.0, what);
    Ok(Results {
        setting: "Repeated on simulated machines of profile dsm-2005; times are virtual.".to_string(),
        facts: BTreeMap::new(),
        goals: goals(&rows),
        fitted: ping_pong::fitted(),
        notes: notes().to_vec(),
        groups: groups(&rows),
        plots: Vec::new(),
        rows,
    })
}

/// What was fitted is not judged.
fn goals(rows: &[Row]) -> Vec<Goal> {
    let fitted: Vec<String> = ping_pong::fitted().into_iter().map(|Fitted { name, .. }| name).collect();
    let judged = |row: &Row| row.figure == "Table 2" && !fitted.contains(&row.series);
    Goal::judge(rows, "there and back, by polling and in the interrupt (Table 2)", 10.0, judged)
        .into_iter()
        .collect()
}

fn groups(rows: &[Row]) -> Vec<Group> {
    let of = |figure: &str| rows.iter().filter(|row| row.figure == figure).collect::<Vec<_>>();
    let compared = |figure, title: &str| Group::compared(figure, title.to_string(), &of(figure));
    vec![
        compared("Table 2", "Table 2: a message there and back, by receive context, us"),
        compared("Section 5.3", "Section 5.3: a read fault of three hops, us"),
    ]
}

fn notes() -> [Note; 2] {
    [
        Note {
            figure: "Table 2",
            text: "Polling and interrupt are what Table 1 adds up to. Task queue and process are fitted, each by one constant: what \
                   the context takes on top of the interrupt that wakes it. They are not judged.",
        },
        Note {
            figure: "Section 5.3",
            text: "The paper gives no read fault in microseconds; it says that selective polling takes 3 to 7 % off page faults. Here \
                   the requestor alone polls, as in the paper's three hops. A fault is charged with Table 1's page fault, system \
                   call and changes of protection. Table 1 adds up to 98 us at 128 bytes and 135 at 4 KiB. \
                   Of what is above that, 21 us are the runtime's: on each of the three nodes it polls once more, for 7 us, before a \
                   task runs that a message woke. At 4 KiB the receiver's bus adds to it, a packet of 2 KiB after the other.",
        },
    ]
}
