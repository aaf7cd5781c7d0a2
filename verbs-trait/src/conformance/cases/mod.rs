//! The cases, a file a subject.

mod atomics;
mod data;
mod keys;
mod misuse;
mod ordering;
mod posting;
mod prelude;
mod transitions;

use super::{Case, Harness};

/// All cases, in the suite's order.
pub(super) fn all<H: Harness>() -> Vec<Case<H>> {
    let groups = [
        transitions::cases(),
        posting::cases(),
        misuse::cases(),
        keys::cases(),
        data::cases(),
        ordering::cases(),
        atomics::cases(),
    ];
    groups.into_iter().flatten().collect()
}
