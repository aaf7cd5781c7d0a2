//! A protocol of one's own, explored: a node writes a token into another's memory, and tells it so by a message.
//!
//! `cargo run --release -p weft-check --example own_protocol`, and with `-- --bug` to see it fail: then the message
//! that says "the token is there" leaves before the write, and the receiver believes it.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::rc::Rc;
use weft_check::explore::{Options, Report, Violation, explore};
use weft_check::harness::{Harness, Member, Model, Recorder, Shape};
use weft_protocols::transport::{Channel, Incoming, Mesh, Rank};
use weft_sim::{Sim, SimMr};
use weft_verbs::{AccessFlags, MemoryRegion, RemoteSlice, Wait};

/// The model: how it is built, and whether it has the bug.
struct Relay {
    bug: bool,
}

/// Node 0: writes the token into the other's memory, and then says so.
async fn give(mesh: Mesh<Sim>, to: Rank, at: RemoteSlice, bug: bool) {
    let token = 7u64.to_ne_bytes();
    if bug {
        mesh.send(to, Channel(1), &[]).expect("there is room");
    }
    mesh.write(to, at, &token).await.expect("there are no faults");
    if !bug {
        mesh.send(to, Channel(1), &[]).expect("there is room");
    }
}

/// Node 1: looks for the token once it is told.
async fn take(mesh: Mesh<Sim>, memory: SimMr, got: Rc<Cell<Option<u64>>>) {
    let mut inbox = mesh.open(Channel(1)).expect("nobody else opened it");
    if let Some(Incoming::Message(_)) = inbox.recv().await {
        got.set(memory.load(0).ok());
    }
}

impl Model for Relay {
    /// What is kept for the end: the memory, and what the second node found in it.
    type State = (SimMr, Rc<Cell<Option<u64>>>);

    /// It is judged at its end alone. A protocol with a history brings oracles that watch it as it grows.
    type Oracles = ();

    fn name(&self) -> &str {
        "relay"
    }

    fn oracles(&self) {}

    fn promises(&self) -> &'static [&'static str] {
        &["relay"]
    }

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn start(&self, _: usize, members: &[Member], _: &Recorder<()>) -> Self::State {
        let [near, far] = members else { unreachable!("the shape says two") };
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
        let memory = far.mesh.alloc(8, access).expect("eight bytes");
        let at = memory.remote(0..8).expect("all of it");
        let got = Rc::new(Cell::new(None));
        near.rt.spawn(give(near.mesh.clone(), far.mesh.me(), at, self.bug));
        far.rt.spawn(take(far.mesh.clone(), memory.clone(), Rc::clone(&got)));
        (memory, got)
    }

    fn finish(&self, (_, got): &Self::State, _: &[Member], _: &Recorder<()>) -> Result<(), Violation> {
        match got.get() {
            Some(7) => Ok(()),
            other => Err(Violation::new("relay", format!("the second node has found {other:?}"))),
        }
    }
}

/// Explores every order that matters.
fn explored(bug: bool) -> Report {
    let mut go_on = |_: &_| ControlFlow::Continue(());
    let mut harness = Harness::new(Relay { bug });
    explore(&mut harness, &Options::default(), &mut go_on).expect("the model is deterministic")
}

fn main() {
    let bug = std::env::args().any(|argument| argument == "--bug");
    let report = explored(bug);
    println!("{:?}: {} executions, all of them: {}", report.verdict, report.executions, report.exhaustive);
    if let Some(found) = report.counterexample {
        println!("{}, after {} choices", found.violation, found.choices.0.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_there_in_every_order() {
        let report = explored(false);
        assert!(report.held() && report.exhaustive && report.executions > 0);
    }

    #[test]
    fn the_message_that_leaves_too_early_is_found() {
        let found = explored(true).counterexample.expect("a violation");
        assert_eq!(found.violation.oracle, "relay");
    }
}
