//! The runtime by itself: its timers, its processors, its labels, a node that is never idle, and one that ends.
//!
//! Systems use little of what they could, and always in the same way. These worlds use the rest.

mod busy;
mod computes;
mod ends;
mod labels;
mod timers;

use crate::explore::Entry;
use crate::harness;

/// They are judged at their ends alone.
type Recorder = harness::Recorder<()>;

/// The worlds of the runtime.
pub fn worlds() -> Vec<Entry> {
    [computes::worlds(), timers::worlds(), busy::worlds(), labels::worlds(), ends::worlds()].concat()
}
