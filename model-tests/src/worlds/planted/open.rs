//! A lock that is none: whoever asks has it at once. Its nodes share nothing at all, so that only the oracle knows that it
//! matters which of them came first. An explorer that goes by nodes and packets alone would see one order, the good one.

use crate::explore::{Size, Violation};
use crate::worlds::book::{Book, Locker, client};
use crate::worlds::cluster::{Member, Shape};
use crate::worlds::stage::Play;
use weft_protocols::locks::{LockKey, Mode};
use weft_verbs::Wait;

/// A lock that lets everybody in; every node takes it once.
pub struct Open {
    /// The world's name.
    pub name: &'static str,
    /// How many nodes there are.
    pub nodes: u32,
}

struct Door;

impl Locker for Door {
    type Held = ();

    async fn lock(&self, _: Mode) {}

    async fn unlock(&self, (): ()) {}
}

impl Play for Open {
    type Cast = ();

    fn name(&self) -> &str {
        self.name
    }

    fn size(&self) -> Size {
        Size::new([("nodes", self.nodes)])
    }

    fn shape(&self) -> Shape {
        Shape { nodes: self.nodes, wait: Wait::Poll, home: None, one_by_one: false }
    }

    fn start(&self, _: usize, members: &[Member], book: &Book) {
        for (node, Member { rt, .. }) in (0..).zip(members) {
            rt.spawn(client(rt.clone(), book.clone(), node, LockKey(0), vec![Mode::Exclusive], Door));
        }
    }

    fn finish(&self, (): &(), _: &[Member], _: &Book) -> Result<(), Violation> {
        Ok(())
    }
}
