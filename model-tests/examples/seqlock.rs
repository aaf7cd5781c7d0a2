//! A seqlock with a bug, found twice: by runs from many seeds, and by the explorer.
//!
//! `cargo run --release -p weft-check --example seqlock`
//!
//! A home node has three words: a sequence number and the two halves of a value. The writer makes the sequence number odd,
//! writes one half, then the other, and makes the number even again, each by an RDMA write. A reader waits for an even number
//! and reads both halves. It must look at the number once more, and begin anew if it has changed. Without that it may return
//! half of an old value and half of a new one: a torn read.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::ops::ControlFlow;
use std::rc::Rc;
use weft_check::explore::{Options, Report, Violation, explore};
use weft_check::harness::{Harness, Member, Model, Recorder, Shape};
use weft_protocols::rt::{Rt, RtConfig};
use weft_protocols::transport::{Channel, Incoming, Mesh, MeshConfig, OpError, Rank};
use weft_sim::choice::Seeded;
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, Jitter, NodeId, Sim, SimMr};
use weft_verbs::{AccessFlags, Device, MemoryRegion, Nanos, RemoteSlice, Verbs, VerbsError, Wait};

/// The length of the words in bytes: a sequence number and the value's halves.
const LEN: usize = 24;

/// A value. Its halves are equal, or it is torn.
type Value = [u64; 2];

/// The words of a home node, as other nodes reach them.
struct Seqlock<V: Verbs> {
    mesh: Mesh<V>,
    home: Rank,
    words: RemoteSlice,
    /// Whether the reader does not look at the sequence number once more.
    bug: bool,
}

impl<V: Verbs> Seqlock<V> {
    /// Memory for the words, on the home node.
    fn memory(mesh: &Mesh<V>) -> Result<V::Mr, VerbsError> {
        mesh.alloc(LEN, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ)
    }

    /// Writes a value of two equal halves. There is one writer, who counts its writes from 1.
    async fn write(&self, count: u64) -> Result<(), OpError> {
        for (word, content) in [(0, 2 * count - 1), (1, count), (2, count), (0, 2 * count)] {
            self.mesh.write(self.home, self.slice(word, 1), &content.to_ne_bytes()).await?;
        }
        Ok(())
    }

    /// Reads the value; `None` while it is being written.
    async fn try_read(&self) -> Result<Option<Value>, OpError> {
        let [before] = self.load(0).await?;
        if before % 2 == 1 {
            return Ok(None);
        }
        let value = self.load(1).await?;
        let is_whole = self.bug || self.load(0).await? == [before];
        Ok(is_whole.then_some(value))
    }

    async fn load<const N: usize>(&self, word: u64) -> Result<[u64; N], OpError> {
        let mut bytes = vec![0; 8 * N];
        self.mesh.read(self.home, self.slice(word, N), &mut bytes).await?;
        let mut words = bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word));
        Ok(std::array::from_fn(|_| words.next().unwrap_or_default()))
    }

    fn slice(&self, word: u64, words: usize) -> RemoteSlice {
        RemoteSlice { addr: self.words.addr + 8 * word, len: 8 * words as u32, ..self.words }
    }
}

// By seeds: three nodes in virtual time. The writer writes and the reader reads once in 20 us, at the same time.

const ADDRESS: Channel = Channel(1);
const PERIOD: Nanos = Nanos::from_micros(20);
const ROUNDS: u64 = 50;

/// Node 0 keeps the words, and tells the others where they are.
async fn home(mesh: Mesh<Sim>) -> Result<(), Box<dyn Error>> {
    let words = Seqlock::memory(&mesh)?;
    for peer in 1..mesh.size() {
        mesh.send(Rank::from_index(peer), ADDRESS, &words.remote(0..LEN)?.to_bytes())?;
    }
    std::future::pending().await // The words live as long as this task.
}

/// Node 1 writes, node 2 reads.
async fn user(
    rt: Rt<Sim>,
    mesh: Mesh<Sim>,
    bug: bool,
    seen: Rc<RefCell<Vec<Value>>>,
) -> Result<(), Box<dyn Error>> {
    let writes = mesh.me() == Rank::from_index(1);
    let mut inbox = mesh.open(ADDRESS)?;
    let Some(Incoming::Message(message)) = inbox.recv().await else { return Ok(()) };
    let words = RemoteSlice::from_bytes(message.bytes().try_into()?);
    let lock = Seqlock { mesh, home: message.from(), words, bug };
    lock.try_read().await?; // The connection is made when it is first needed.
    for round in 1..=ROUNDS {
        rt.sleep_until(Nanos::from_millis(1) + PERIOD * round).await;
        if writes {
            lock.write(round).await?;
        } else {
            let value = loop {
                if let Some(value) = lock.try_read().await? {
                    break value;
                }
            };
            seen.borrow_mut().push(value);
        }
    }
    Ok(())
}

/// A run from a seed: how many reads are torn, and how many there are.
fn run(seed: u64, jitter: Jitter, bug: bool) -> Result<(usize, usize), Box<dyn Error>> {
    let config = Config { jitter, ..Config::new(3, Profile::builtin("present-day")?) };
    let fabric = Fabric::new(config, Box::new(Seeded::new(seed)))?;
    let seen = Rc::default();
    for node in 0..3 {
        let context = fabric.devices(NodeId(node))[0].open()?;
        let rt = Rt::<Sim>::new(&context, RtConfig { wait: Wait::Poll, ..RtConfig::default() })?;
        let names = (0..3).map(|n| format!("n{n}")).collect();
        let mesh = Mesh::start(&rt, MeshConfig::new(Rank::from_index(node), names))?;
        match node {
            0 => drop(rt.spawn(home(mesh))),
            _ => drop(rt.spawn(user(rt.clone(), mesh, bug, Rc::clone(&seen)))),
        }
        fabric.mount(NodeId(node), Box::new(rt.program()));
    }
    fabric.run_until(Nanos::from_millis(10));
    let seen: Vec<Value> = seen.take();
    Ok((seen.iter().filter(|[left, right]| left != right).count(), seen.len()))
}

/// The first of these seeds whose run has a torn read.
fn first_torn(seeds: u64, jitter: Jitter, bug: bool) -> Result<Option<u64>, Box<dyn Error>> {
    for seed in 0..seeds {
        if run(seed, jitter, bug)?.0 > 0 {
            return Ok(Some(seed));
        }
    }
    Ok(None)
}

// In every order: one write and one read, without time.

struct World {
    bug: bool,
}

impl Model for World {
    /// The words, and what was read if something was.
    type State = (SimMr, Rc<Cell<Option<Value>>>);
    type Oracles = ();

    fn oracles(&self) {}

    fn promises(&self) -> &'static [&'static str] {
        &["whole reads"]
    }

    fn shape(&self) -> Shape {
        Shape { nodes: 3, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn start(&self, _: usize, members: &[Member], _: &Recorder<()>) -> Self::State {
        let [home, writer, reader] = members else { unreachable!("the shape says three") };
        let memory = Seqlock::memory(&home.mesh).expect("24 bytes");
        let words = memory.remote(0..LEN).expect("all of them");
        let lock =
            |mesh: &Mesh<Sim>| Seqlock { mesh: mesh.clone(), home: home.mesh.me(), words, bug: self.bug };
        let (write, read, seen) = (lock(&writer.mesh), lock(&reader.mesh), Rc::new(Cell::new(None)));
        writer.rt.spawn(async move { write.write(1).await.expect("there are no faults") });
        let sees = Rc::clone(&seen);
        reader.rt.spawn(async move { sees.set(read.try_read().await.expect("there are no faults")) });
        (memory, seen)
    }

    fn finish(&self, state: &Self::State, members: &[Member], _: &Recorder<()>) -> Result<(), Violation> {
        match state.1.get() {
            Some([left, right]) if left != right => {
                Err(Violation::new("whole reads", format!("the reader sees {left} and {right}")))
            }
            _ => self.judge_each(state, members),
        }
    }
}

fn explored(bug: bool) -> Report {
    let mut harness = Harness::new("seqlock", World { bug });
    explore(&mut harness, &Options::default(), &mut |_| ControlFlow::Continue(()))
        .expect("the model is deterministic")
}

fn main() -> Result<(), Box<dyn Error>> {
    for (name, jitter) in [("without jitter", Jitter::NONE), ("with jitter", Jitter::USUAL)] {
        match first_torn(1_000, jitter, true)? {
            Some(seed) => println!("{name}: seed {seed} has a torn read"),
            None => println!("{name}: no torn read from 1,000 seeds"),
        }
    }
    let report = explored(true);
    let found = report.counterexample.map(|found| found.violation.to_string()).unwrap_or_default();
    println!("explored: {found}, after {} executions", report.executions);
    println!(
        "and without the bug: {:?} in all {} executions",
        explored(false).verdict(),
        explored(false).executions
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_seeds_find_the_torn_read() {
        assert!(first_torn(20, Jitter::USUAL, true).unwrap().is_some());
        assert_eq!(first_torn(20, Jitter::USUAL, false).unwrap(), None);
    }

    /// What jitter is for: nodes in lockstep meet in one way, whatever the seed.
    #[test]
    fn in_lockstep_a_hundred_seeds_do_not() {
        assert_eq!(first_torn(100, Jitter::NONE, true).unwrap(), None);
        assert_eq!(run(0, Jitter::NONE, true).unwrap(), (0, ROUNDS as usize));
    }

    #[test]
    fn the_explorer_finds_it_at_once_and_nothing_where_there_is_nothing() {
        let report = explored(true);
        assert!(report.counterexample.is_some() && report.executions < 1_000, "{}", report.executions);
        let report = explored(false);
        assert!(report.held() && report.exhaustive);
    }
}
