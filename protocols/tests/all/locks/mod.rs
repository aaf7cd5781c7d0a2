//! Locks on the simulated fabric: every scheme, both wake-up styles.

mod audits;
mod closed;
mod cluster;
mod cost;
mod crash_at_every_event;
mod downgrade;
mod faults;
mod fingerprints;
mod members;
mod out_of_reach;
mod remote;
mod requests;
mod strangers;

use weft_protocols::locks::Scheme;
use weft_verbs::Wait;

const STYLES: [Wait; 2] = [Wait::Poll, Wait::Notify];

/// Runs a test for each scheme in each style.
fn each(run: impl Fn(Scheme, Wait)) {
    for scheme in Scheme::ALL {
        for wait in STYLES {
            run(scheme, wait);
        }
    }
}
