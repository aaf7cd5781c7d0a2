//! A reading of PVFS2: a directory is moved by whoever has it, once it has looked where it goes.
//!
//! The paper keeps PVFS2's metadata servers, each with directories of its own, and says nothing of moves. Here each of two servers
//! moves its directory into that of the other one, which it has asked whether it lies in the first. Both look before either
//! moves: each directory is in the other one, and nobody reaches them from the root. Moves take turns at one server instead.

use super::{Came, End};
use crate::explore::Violation;
use crate::harness::{Member, Model, Recorder, Shape};
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::transport::Rank;
use weft_verbs::Wait;

const PROMISE: &str = "every directory is below the root";

const ASK: u8 = 0;
const LIES_IN: u8 = 1;

/// Whether a server's directory lies in the other one's, and not in the root.
type Moved = Rc<Cell<bool>>;

/// Two servers, each with a directory.
pub(super) struct Moves;

impl Model for Moves {
    type State = Vec<Moved>;
    type Oracles = ();

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn oracles(&self) {}

    fn promises(&self) -> &'static [&'static str] {
        &[PROMISE]
    }

    fn start(&self, _: usize, members: &[Member], _: &Recorder<()>) -> Vec<Moved> {
        let start = |member: &Member| {
            let moved = Moved::default();
            member.rt.spawn(move_it(End::of(member), Rc::clone(&moved)));
            moved
        };
        members.iter().map(start).collect()
    }

    fn finish(&self, moved: &Vec<Moved>, _: &[Member], _: &Recorder<()>) -> Result<(), Violation> {
        match moved.iter().all(|moved| moved.get()) {
            true => Err(Violation::new(PROMISE, "each of two directories lies in the other one")),
            false => Ok(()),
        }
    }
}

async fn move_it(mut end: End, moved: Moved) {
    let other = Rank::from_index(1 - end.mesh.me().index() as u32);
    end.send(other, ASK, &[]);
    while let Some(Came::Message(from, kind, has)) = end.next().await {
        match kind {
            ASK => end.send(from, LIES_IN, &[u8::from(moved.get())]),
            _ => moved.set(has == [0]),
        }
    }
}
