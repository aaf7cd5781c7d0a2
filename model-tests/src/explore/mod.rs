//! The explorer: runs a world again and again from its root, each time with other choices, until every order that
//! matters was seen.
//!
//! A [`World`] says what can happen next and lets it happen; a [`Blueprint`] makes worlds. [`explore()`] does the rest,
//! within the limits of its [`Options`], and gives a [`Report`].

mod cache;
mod choices;
mod failure;
mod intern;
mod minimise;
mod options;
mod report;
mod run;
mod search;
mod size;
mod smaller;
mod subject;
mod tale;
#[cfg(test)]
mod tests;
pub mod toy;
mod trace;
mod tree;
mod walk;
mod world;

pub use choices::{Choices, Step};
pub use failure::{Failure, FailureError, Found};
pub use minimise::minimise;
pub use options::{Options, Reduction};
pub use report::{Counterexample, Report, Stopped, Verdict};
pub use run::{Run, replay};
pub use search::{ExploreError, Progress, explore};
pub use size::{Key, Size, SizeError, Value};
pub use smaller::{Case, Hunt, SmallerError, smallest};
pub use subject::{Entry, Expected, Subject, Watch};
pub use tale::{BandState, Tale};
pub use walk::{Strategy, Walk, walk};
pub use world::{Blueprint, Coverage, Fingerprint, Stuck, Violation, World};
