//! The cases, a file a subject.

mod atomics;
mod cm;
mod cm_kit;
mod cm_trouble;
mod optional;
mod reliability;
mod statuses;
mod streams;

mod cq;
mod data;
mod datagrams;
mod devices;
mod disks;
mod duplicates;
mod events;
mod flush;
mod gaps;
mod keys;
mod memory;
mod migration;
mod misuse;
mod ordering;
mod ports;
mod posting;
mod prelude;
mod retries;
mod revocation;
mod rnr;
mod shapes;
mod shared_receives;
mod sqd;
mod transitions;
mod wake;

pub use statuses::{CAUSES, Cause};

use super::{Case, Harness};

/// All cases, in the suite's order.
pub(super) fn all<H: Harness>() -> Vec<Case<H>> {
    let groups = [
        transitions::cases(),
        posting::cases(),
        misuse::cases(),
        keys::cases(),
        revocation::cases(),
        data::cases(),
        ordering::cases(),
        atomics::cases(),
        retries::cases(),
        gaps::cases(),
        duplicates::cases(),
        rnr::cases(),
        flush::cases(),
        cq::cases(),
        wake::cases(),
        shapes::cases(),
        sqd::cases(),
        events::cases(),
        ports::cases(),
        devices::cases(),
        migration::cases(),
        datagrams::cases(),
        shared_receives::cases(),
        memory::cases(),
        cm::cases(),
        cm_trouble::cases(),
        reliability::cases(),
        optional::cases(),
        streams::cases(),
        disks::cases(),
        statuses::cases(),
    ];
    groups.into_iter().flatten().collect()
}
