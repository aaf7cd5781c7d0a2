//! A protocol of one's own, to begin with: a node writes a value into another's memory, and then says that it is there.
//!
//! `cargo run` runs it from twenty seeds on a simulated cluster in which a cable is cut, explores it in every order with up to one fault,
//! and walks through it at random with up to three. `cargo run -- --bug` does that with a bug, makes what the explorer finds as short as it
//! gets, and draws it into `run.html`: then the message leaves before the write.

use std::cell::Cell;
use std::error::Error;
use std::hash::Hash;
use std::ops::{ControlFlow, Range};
use std::rc::Rc;
use std::time::Duration;
use weft_check::explore::{Options, Report, Strategy, Violation, explore, minimise, replay, walks};
use weft_check::harness::{Harness, Member, Model, Recorder, Shape};
use weft_check::{Named, diagram};
use weft_protocols::rt::fingerprint::StateHasher;
use weft_protocols::rt::{Rt, RtConfig};
use weft_protocols::transport::{Channel, Inbox, Incoming, Mesh, MeshConfig, OpError, Rank};
use weft_sim::choice::Seeded;
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, Jitter, NodeId, Sim, SimMr};
use weft_verbs::{
    AccessFlags, AckTimeout, Device, MemoryRegion, Nanos, RemoteSlice, Retries, Verbs, VerbsError, Wait,
};

// The protocol. It names no backend: the same code runs on the simulated fabric and on devices.

const VALUE: u64 = 7;
/// The pause before something is tried again for which there was no memory.
const PAUSE: Nanos = Nanos::from_micros(10);
/// The giver hears on this channel where the memory is, and the taker on it that the value is there.
const CHANNEL: Channel = Channel(1);

/// Memory for the value, which the taker owns.
fn memory<V: Verbs>(mesh: &Mesh<V>) -> Result<V::Mr, VerbsError> {
    mesh.alloc(8, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE)
}

/// Writes the value into the other's memory, and then says so. A write of unknown outcome may be done again: it writes the same. One that was
/// not executed is done again after a while.
async fn give<V: Verbs>(rt: Rt<V>, mesh: Mesh<V>, to: Rank, at: RemoteSlice, bug: bool) {
    if bug {
        tell(&rt, &mesh, to).await;
    }
    while let Err(why) = mesh.write(to, at, &VALUE.to_ne_bytes()).await {
        match why {
            OpError::Unknown(_) => {}
            // For want of memory, it may be: there may be some later.
            OpError::NotExecuted(_) => rt.sleep(PAUSE).await,
        }
    }
    if !bug {
        tell(&rt, &mesh, to).await;
    }
}

/// Says that the value is there. What was sent arrives.
async fn tell<V: Verbs>(rt: &Rt<V>, mesh: &Mesh<V>, to: Rank) {
    while let Err(why) = mesh.send(to, CHANNEL, &[]) {
        assert!(why.lacks_memory(), "the message cannot be sent: {why}");
        rt.sleep(PAUSE).await;
    }
}

/// Looks for the value once it is told.
async fn take<V: Verbs>(mut inbox: Inbox, memory: V::Mr, found: Rc<Cell<Option<u64>>>) {
    if let Some(Incoming::Message(_)) = inbox.recv().await {
        found.set(memory.load(0).ok());
    }
}

// By seeds: two nodes in virtual time, and a cable that is cut.

/// Says how many connections broke and were made again.
fn run(seed: u64, bug: bool) -> Result<u64, Box<dyn Error>> {
    let config = Config { jitter: Jitter::USUAL, ..Config::new(2, Profile::builtin("present-day")?) };
    let fabric = Fabric::new(config, Box::new(Seeded::new(seed)))?;
    let start = |node: u32| -> Result<(Rt<Sim>, Mesh<Sim>), Box<dyn Error>> {
        let context = fabric.devices(NodeId(node))[0].open()?;
        let rt = Rt::<Sim>::new(&context, RtConfig::default())?;
        let names = (0..2).map(|n| format!("n{n}")).collect();
        // Adapters that ask again for longer than the cable is cut would break no connection.
        let (timeout, retry) = (AckTimeout::at_least(Nanos::from_micros(100)), Retries::NONE);
        let config = MeshConfig { timeout, retry, ..MeshConfig::new(Rank::from_index(node), names) };
        let mesh = Mesh::start(&rt, config)?;
        fabric.mount(NodeId(node), Box::new(rt.program()));
        Ok((rt, mesh))
    };
    let ((giver, near), (taker, far)) = (start(0)?, start(1)?);
    let (memory, found) = (memory(&far)?, Rc::new(Cell::new(None)));
    taker.spawn(take::<Sim>(far.open(CHANNEL)?, memory.clone(), Rc::clone(&found)));
    giver.spawn(give(giver.clone(), near.clone(), far.me(), memory.remote(0..8)?, bug));
    let cut = Fault::Cut { link: Link::Node(NodeId(1)), way: Way::Both, lasts: Some(Nanos::from_millis(2)) };
    // The first connection is there after some 300 us: the cable is cut while it is made, before the write, or just after.
    fabric.plan(Nanos::from_micros(280 + 4 * seed), cut)?;
    fabric.run_until(Nanos::from_secs(10));
    // What the sanitizer saw: memory touched while it may not be.
    if let Some(violation) = fabric.violations().first() {
        return Err(violation.to_string().into());
    }
    match found.get() {
        Some(VALUE) => Ok(near.stats().reconnects),
        other => Err(format!("the taker has found {other:?}").into()),
    }
}

// In every order: the same functions, without time.

struct World {
    bug: bool,
}

impl Model for World {
    /// The memory, and what the taker found in it.
    type State = (SimMr, Rc<Cell<Option<u64>>>);
    /// It is judged by its state. A protocol whose clients have a history brings oracles.
    type Oracles = ();

    fn oracles(&self) {}

    fn promises(&self) -> &'static [&'static str] {
        &["the value is there"]
    }

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn start(&self, _: usize, members: &[Member], _: &Recorder<()>) -> Self::State {
        let [near, far] = members else { unreachable!("the shape says two") };
        let (memory, found) = (memory(&far.mesh).expect("eight bytes"), Rc::new(Cell::new(None)));
        let at = memory.remote(0..8).expect("all of it");
        let inbox = far.mesh.open(CHANNEL).expect("nobody else opened it");
        near.rt.spawn(give(near.rt.clone(), near.mesh.clone(), far.mesh.me(), at, self.bug));
        far.rt.spawn(take::<Sim>(inbox, memory.clone(), Rc::clone(&found)));
        (memory, found)
    }

    /// Asked after every event. What is judged by goes into the view, so that every order of its changes is tried.
    fn judge(&self, (_, found): &Self::State, _: &[Member], view: &mut StateHasher) -> Result<(), Violation> {
        found.get().hash(view);
        match found.get() {
            None | Some(VALUE) => Ok(()),
            Some(other) => Err(Violation::new("the value is there", format!("the taker has found {other}"))),
        }
    }

    /// Asked at the end of every execution. Nothing may be left over, either.
    fn finish(&self, state: &Self::State, members: &[Member], _: &Recorder<()>) -> Result<(), Violation> {
        match state.1.get() {
            Some(_) => self.judge_each(state, members),
            None => Err(Violation::new("the value is there", "the taker was never told")),
        }
    }

    /// What logs and diagrams call the memory.
    fn name_of(&self, (memory, _): &Self::State, node: usize, address: u64) -> Option<Named> {
        (node == 1 && address == memory.addr()).then(|| Named::new("the value"))
    }
}

fn harness(bug: bool) -> Harness<World> {
    Harness::new("new_protocol", World { bug })
}

/// Up to so many faults of the kinds that the model survives, and no more than a minute.
fn options(faults: u32) -> Options {
    Options { faults, max_time: Some(Duration::from_secs(60)), ..Options::default() }
}

/// Explores every order, and up to one fault at every point.
fn explored(bug: bool) -> Report {
    explore(&mut harness(bug), &options(1), &mut |_| ControlFlow::Continue(()))
        .expect("the model is deterministic")
}

/// Walks at random: the first seed that breaks a promise, and what it breaks.
fn walked(bug: bool, seeds: Range<u64>) -> Result<Option<(u64, Violation)>, Box<dyn Error>> {
    let mut broken = None;
    let options = Options { livelock: Options::WALK, ..options(3) };
    walks(&mut harness(bug), Strategy::Swarm, seeds, &options, |seed, walk| {
        broken = walk.violation.map(|violation| (seed, violation));
        if broken.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(broken)
}

fn main() -> Result<(), Box<dyn Error>> {
    let bug = std::env::args().any(|argument| argument == "--bug");
    let wrong = (0..20).find_map(|seed| Some((seed, run(seed, bug).err()?)));
    match wrong {
        Some((seed, error)) => println!("seed {seed}: {error}"),
        None => println!("20 seeds: held"),
    }
    let report = explored(bug);
    println!("{:?}: {} executions, all of them: {}", report.verdict(), report.executions, report.exhaustive);
    if let Some(found) = report.counterexample {
        let mut go_on = |_: &_| ControlFlow::Continue(());
        let short = minimise(&mut harness(bug), &found.choices, &found.violation, &options(1), &mut go_on)?;
        println!("{}, after {} choices", found.violation, short.0.len());
        let run = replay(&mut harness(bug), &short, &options(1), true)?;
        if run.violation.is_none() {
            return Err(
                "it does not happen again: something outside of the execution changes the model".into()
            );
        }
        std::fs::write("run.html", diagram::page("new_protocol", &run, &[]))?;
        println!("drawn into run.html");
    }
    match walked(bug, 0..200)? {
        Some((seed, violation)) => println!("walk {seed}: {violation}"),
        None => println!("200 walks: held"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_there_from_every_seed() {
        let mut broken = 0;
        weft_check::seeds::assert_each(0..20, |seed| run(seed, false).map(|again| broken += again));
        assert!(broken > 0, "no cut struck: it comes too early or too late");
    }

    #[test]
    fn the_value_is_there_in_every_order_with_up_to_one_fault() {
        let report = explored(false);
        assert!(report.held() && report.exhaustive && report.executions > 0);
    }

    #[test]
    fn the_value_is_there_in_walks_with_more_faults() {
        assert_eq!(walked(false, 0..200).expect("they walk"), None);
    }

    #[test]
    fn the_message_that_leaves_too_early_is_found() {
        let found = explored(true).counterexample.expect("a violation");
        assert_eq!(found.violation.to_string(), "the value is there: the taker has found 0");
    }
}
