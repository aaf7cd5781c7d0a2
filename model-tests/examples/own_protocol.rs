//! A protocol of one's own, explored: a node writes a token into another's memory, and tells it so by a message.
//!
//! `cargo run --release -p weft-check --example own_protocol`, and with `-- --bug` to see it fail: then the message
//! that says "the token is there" leaves before the write, and the receiver believes it.

use std::cell::Cell;
use std::hash::Hash;
use std::ops::ControlFlow;
use std::rc::Rc;
use weft_check::Named;
use weft_check::explore::{Options, Report, Violation, explore};
use weft_check::harness::{Harness, Member, Model, Recorder, Shape};
use weft_protocols::rt::fingerprint::StateHasher;
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

    /// It is judged by its state. A protocol with a history brings oracles that watch it as it grows.
    type Oracles = ();

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

    /// Asked after every event: what was found is the token. What is judged by goes into the view, so that the explorer
    /// tries the events that change it in every order.
    fn judge(&self, (_, got): &Self::State, _: &[Member], view: &mut StateHasher) -> Result<(), Violation> {
        got.get().hash(view);
        match got.get() {
            None | Some(7) => Ok(()),
            Some(other) => Err(Violation::new("relay", format!("the second node has found {other}"))),
        }
    }

    /// What a log and a diagram call the memory.
    fn name_of(&self, (memory, _): &Self::State, node: usize, address: u64) -> Option<Named> {
        (node == 1 && address == memory.addr()).then(|| Named::new("the token's place"))
    }

    fn finish(&self, state: &Self::State, members: &[Member], _: &Recorder<()>) -> Result<(), Violation> {
        match state.1.get() {
            Some(7) => self.judge_each(state, members),
            _ => Err(Violation::new("relay", "the second node was never told of the token")),
        }
    }
}

/// The model as the explorer runs it.
fn harness(bug: bool) -> Harness<Relay> {
    Harness::new("relay", Relay { bug })
}

/// Explores every order that matters.
fn explored(bug: bool) -> Report {
    let mut go_on = |_: &_| ControlFlow::Continue(());
    explore(&mut harness(bug), &Options::default(), &mut go_on).expect("the model is deterministic")
}

fn main() {
    let bug = std::env::args().any(|argument| argument == "--bug");
    let report = explored(bug);
    println!("{:?}: {} executions, all of them: {}", report.verdict(), report.executions, report.exhaustive);
    if let Some(found) = report.counterexample {
        println!("{}, after {} choices", found.violation, found.choices.0.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_check::diagram::svg;
    use weft_check::explore::{Choices, replay};

    #[test]
    fn the_token_is_there_in_every_order() {
        let report = explored(false);
        assert!(report.held() && report.exhaustive && report.executions > 0);
    }

    #[test]
    fn the_message_that_leaves_too_early_is_found() {
        let found = explored(true).counterexample.expect("a violation");
        assert_eq!(found.violation.to_string(), "relay: the second node has found 0");
    }

    /// A world of one's own is drawn by one call, with its memory by name.
    #[test]
    fn a_run_is_drawn_with_the_names_that_the_model_gives() {
        let found = explored(true).counterexample.expect("a violation");
        let run =
            replay(&mut harness(true), &found.choices, &Options::default(), true).expect("it runs again");
        let drawn = svg("relay", &run);
        assert!(drawn.contains("the second node has found 0") && drawn.contains("send → n1"), "{drawn}");
        let run =
            replay(&mut harness(false), &Choices::default(), &Options::default(), true).expect("it runs");
        assert!(svg("relay", &run).contains("writes the token's place: now 7"));
    }
}
