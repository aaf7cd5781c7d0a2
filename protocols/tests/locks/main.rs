//! Locks on the simulated fabric: every scheme, both wake-up styles.

mod audits;
mod cluster;
mod cost;
mod downgrade;
mod faults;
mod requests;
mod strangers;
mod told;

use protocols::locks::Scheme;
use verbs_trait::Wait;

const STYLES: [Wait; 2] = [Wait::Poll, Wait::Notify];

/// Runs a test for each scheme in each style.
fn each(run: impl Fn(Scheme, Wait)) {
    for scheme in Scheme::ALL {
        for wait in STYLES {
            run(scheme, wait);
        }
    }
}
