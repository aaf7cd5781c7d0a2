//! A lock that is none: whoever asks has it at once. Its nodes share nothing at all, so that only the oracle knows that it
//! matters which of them came first. An explorer that goes by nodes and packets alone would see one order, the good one.

use super::super::client::{Locker, Recorder, WorldOracles, client};
use crate::explore::Size;
use crate::harness::{Member, Model, Shape};
use weft_protocols::locks::{LockKey, Mode};
use weft_verbs::Wait;

/// A lock that lets everybody in; every node takes it once.
pub struct Open {
    /// How many nodes there are.
    pub nodes: u32,
}

struct Door;

impl Locker for Door {
    type Held = ();

    async fn lock(&self, _: Mode) {}

    async fn unlock(&self, (): ()) {}
}

impl Model for Open {
    type State = ();
    type Oracles = WorldOracles;

    fn size(&self) -> Size {
        Size::new([("nodes", self.nodes)])
    }

    fn oracles(&self) -> WorldOracles {
        WorldOracles::new(false)
    }

    fn shape(&self) -> Shape {
        Shape { nodes: self.nodes, wait: Wait::Poll, home: None, one_by_one: false }
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder) {
        for (node, Member { rt, .. }) in (0..).zip(members) {
            rt.spawn(client(rt.clone(), recorder.clone(), node, LockKey(0), vec![Mode::Exclusive], Door));
        }
    }
}
