//! The runtime by itself: its timers, its processors, its labels, a node that is never idle, and one that ends.
//!
//! Systems use little of what they could, and always in the same way. These worlds use the rest.

mod busy;
mod computes;
mod ends;
mod labels;
mod timers;

use crate::explore::Entry;
use crate::harness::{self, Member};
use weft_protocols::transport::Channel;

/// They are judged at their ends alone.
type Recorder = harness::Recorder<()>;

/// On which nodes speak.
const CHANNEL: Channel = Channel(0);

/// A node says these bytes to another one, a message each.
fn says(from: &Member, to: &Member, bytes: impl IntoIterator<Item = u8> + 'static) {
    let (mesh, to) = (from.mesh.clone(), to.mesh.me());
    from.rt.spawn(async move {
        for byte in bytes {
            mesh.send(to, CHANNEL, &[byte]).expect("a mesh keeps more messages");
        }
    });
}

/// The worlds of the runtime.
pub fn worlds() -> Vec<Entry> {
    [computes::worlds(), timers::worlds(), busy::worlds(), labels::worlds(), ends::worlds()].concat()
}
