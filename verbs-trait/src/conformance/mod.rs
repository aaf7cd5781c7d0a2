//! The conformance suite: what a backend must keep to be a backend.
//!
//! One generic set of cases over a backend ([`Verbs`](crate::Verbs)) and a [`Harness`]. Both backends of Weft
//! pass the same suite, and so can any other. Each case has a name that is a promise, cites the clause of the
//! InfiniBand Architecture (volume 1) or of the contract that makes it, and says what it needs of the backend
//! ([`Caps`](crate::Caps)) and of the harness ([`HarnessCaps`]). What is missing shows in the table as *lacking*:
//! nothing is skipped in silence.
//!
//! No case relies on exact times unless it asks for [`HarnessCaps::EXACT_CLOCK`]; none panics.
//!
//! ```
//! use weft_verbs::conformance::{self, Harness};
//!
//! fn print_table<H: Harness>(harness: &mut H) {
//!     let report = conformance::run(harness, |_| true, &mut |row| eprintln!("{}", row.case));
//!     print!("{report}");
//! }
//! ```
//!
//! For one `#[test]` a case, see [`conformance_cases!`](crate::conformance_cases).

mod cases;
mod failure;
mod harness;
mod list;
mod pair;
mod report;
mod test_bed;

pub use cases::{CAUSES, Cause};
pub use failure::Failure;
use failure::Outcome;
pub use harness::{Act, Fault, FaultId, Harness, HarnessCaps, Machine, PacketClass, Timing};
pub use report::{Case, Report, Row, Verdict};
use test_bed::TestBed;

/// All cases, in the suite's order.
pub fn cases<H: Harness>() -> Vec<Case<H>> {
    cases::all()
}

/// The case of a group by its name.
pub fn case<H: Harness>(group: &str, name: &str) -> Option<Case<H>> {
    cases().into_iter().find(|case| case.group == group && case.name == name)
}

/// Runs the cases that `wanted` picks, telling `progress` of each as it ends.
pub fn run<H: Harness>(
    harness: &mut H,
    wanted: impl Fn(&Case<H>) -> bool,
    progress: &mut dyn FnMut(&Row),
) -> Report {
    let mut report = Report::default();
    for case in cases::<H>().iter().filter(|case| wanted(case)) {
        let verdict = case.run(harness);
        let row = Row { group: case.group, case: case.name, clause: case.clause, verdict };
        progress(&row);
        report.rows.push(row);
    }
    report
}
