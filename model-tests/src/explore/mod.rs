//! The explorer: runs a transition system again and again from its root, each time with other choices, until every order
//! that matters was seen.
//!
//! A [`TransitionSystem`] says what can happen next and lets it happen; a [`ModelFactory`] makes its executions. [`explore()`] does the rest,
//! within the limits of its [`Options`], and gives a [`Report`].

mod any_model;
mod cache;
mod choices;
mod drawn;
mod failure;
mod happens_before;
mod intern;
mod minimise;
mod options;
pub mod panics;
mod parallel;
mod report;
mod run;
mod script;
mod search;
mod sense;
mod size;
mod smaller;
mod system;
#[cfg(test)]
mod tests;
pub mod toy;
mod trace_event;
mod tree;
mod walk;

pub use any_model::{AnyModel, Entry, Expected, Watch};
pub use choices::{Choices, Step};
pub use drawn::{Draw, Drawn};
pub use failure::{Failure, FailureError, Found};
pub use minimise::minimise;
pub use options::{Options, Reduction};
pub use parallel::explore_in_parallel;
pub use report::{Counterexample, Report, Stopped};
pub use run::{Run, replay};
pub use search::{ExploreError, Progress, explore};
pub use sense::Notations;
pub use size::{Key, Size, SizeError, Value};
pub use smaller::{Case, Hunt, SmallerError, smallest};
pub use system::{Coverage, Described, Fingerprint, ModelFactory, Stuck, TransitionSystem, Violation};
pub(crate) use system::{LIVELOCK, PANIC};
pub use trace_event::{BandState, TraceEvent};
pub use walk::{Strategy, Walk, walks};
