//! Accidents find bugs in protocols, not only in clients: a spin lock on one remote word, right and wrong.
//!
//! The right one resolves an atomic whose outcome is unknown before it looks at the word. The wrong ones do what
//! is tempting: take it for executed, or send it again. Both must be caught, and the right one must not be.

use super::scenarios::stormy;
use weft_check::history::{ClientId, RequestId};
use weft_check::record::Record;
use weft_check::run::{Report, RunOptions, World};
use weft_check::scenario::{FaultKind, Spread};
use weft_check::systems::locks::history::{Event, What};
use weft_check::systems::locks::{LockRecorder, Locks};
use weft_protocols::locks::Scheme;
use weft_protocols::locks::{LockKey, Mode};
use weft_protocols::rt::Rt;
use weft_protocols::transport::{Mesh, OpError, Rank};
use weft_sim::{Sim, SimMr};
use weft_verbs::{AccessFlags, MemoryRegion, Nanos, RemoteSlice};

/// What to do about an atomic that ended in an error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Creed {
    /// Resolve its outcome, then look.
    Settle,
    /// It will have been executed.
    Blind,
    /// Send it again.
    Resend,
}

const WORD_ACCESS: AccessFlags =
    AccessFlags::LOCAL_WRITE.union(AccessFlags::REMOTE_ATOMIC).union(AccessFlags::REMOTE_READ);
const FREE: u64 = 0;
const REQUESTS: u32 = 40;

/// A client of the spin lock.
struct Spinner {
    rt: Rt<Sim>,
    mesh: Mesh<Sim>,
    home: Rank,
    word: RemoteSlice,
    /// Keeps the word where it is.
    _memory: SimMr,
    creed: Creed,
    book: LockRecorder,
    client: ClientId,
}

impl Spinner {
    /// What the word says while this client holds it.
    fn mine(&self) -> u64 {
        u64::from(self.client.node) + 1
    }

    async fn run(self) {
        for number in 0..REQUESTS {
            self.writes(number, What::Requested { deadline: None });
            while !self.swap(FREE, self.mine()).await {
                self.rt.sleep(Nanos::from_micros(10)).await;
            }
            self.writes(number, What::Granted { token: None });
            self.rt.sleep(Nanos::from_micros(5)).await;
            self.writes(number, What::Released);
            while !self.swap(self.mine(), FREE).await {
                self.rt.sleep(Nanos::from_micros(10)).await;
            }
        }
    }

    /// Swaps the word; whether it did.
    async fn swap(&self, from: u64, to: u64) -> bool {
        loop {
            match self.mesh.compare_swap(self.home, self.word, from, to).await {
                Ok(was) => return was == from,
                Err(OpError::NotExecuted(_)) => {}
                Err(OpError::Unknown(_)) => match self.creed {
                    Creed::Blind => return true,
                    Creed::Resend => {}
                    Creed::Settle => return self.look(to).await,
                },
            }
        }
    }

    /// Whether a swap to `to` was executed. Nobody but this client writes its own number into the word or takes
    /// it out, so the word tells, once no late copy of the swap can be executed any more.
    async fn look(&self, to: u64) -> bool {
        loop {
            let settled = self.mesh.resolve_outcomes(self.home).await.is_ok();
            let mut word = [0; 8];
            let read = self.mesh.read(self.home, self.word, &mut word).await;
            if settled && read.is_ok() {
                let now = u64::from_ne_bytes(word);
                return if to == FREE { now != self.mine() } else { now == self.mine() };
            }
        }
    }

    fn writes(&self, number: u32, what: What) {
        let request = RequestId { client: self.client, number };
        let (key, mode) = (LockKey(0), Mode::Exclusive);
        self.book.record(Event { at: self.rt.now(), request, key, mode, what });
    }
}

/// Runs spinners of one creed on every machine, under accidents.
fn run(creed: Creed, seed: u64) -> Report {
    let mut scenario = stormy(Scheme::Ncosed);
    // Those after which an atomic's outcome is unknown.
    let unsettling = [FaultKind::Cut, FaultKind::LoseCompletion, FaultKind::Delay];
    scenario.faults.retain(|fault| unsettling.contains(&fault.kind));
    for delay in scenario.faults.iter_mut().filter(|fault| fault.kind == FaultKind::Delay) {
        // So late that the sender has given up and asks on another connection.
        delay.jitter = Some("3ms".parse().unwrap());
        delay.lasts = Some(Spread::fixed(Nanos::from_millis(2)));
    }
    scenario.run.settle = "60ms".parse().unwrap();
    let mut world = World::<Locks>::seeded(&scenario, seed).unwrap_or_else(|error| panic!("{error}"));
    let memory = world.machines()[0].place.mesh.alloc(8, WORD_ACCESS);
    let memory = memory.expect("eight bytes");
    let (home, word) = (world.machines()[0].place.mesh.me(), memory.remote(0..8).expect("the whole word"));
    for node in 0..scenario.cluster.nodes {
        let machine = &world.machines()[node as usize];
        let (rt, mesh, book) =
            (machine.place.rt.clone(), machine.place.mesh.clone(), world.recorder().clone());
        let client = ClientId { node, index: 0 };
        world.start(
            node as usize,
            Spinner { rt, mesh, home, word, _memory: memory.clone(), creed, book, client }.run(),
        );
    }
    drop(memory);
    world.run(RunOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// The oracles that a seed's run violates.
fn broken(creed: Creed, seed: u64) -> Vec<&'static str> {
    let checks = run(creed, seed).checks;
    checks.into_iter().filter(|check| !check.held).map(|check| check.oracle).collect()
}

#[test]
fn a_lock_that_settles_what_it_does_not_know_is_not_blamed() {
    for seed in 0..20 {
        assert_eq!(broken(Creed::Settle, seed), [""; 0], "seed {seed}");
    }
}

#[test]
fn a_lock_that_takes_an_unknown_fate_for_success_grants_twice() {
    assert!((0..20).any(|seed| broken(Creed::Blind, seed).contains(&"mutual exclusion")));
}

#[test]
fn a_lock_that_sends_an_atomic_again_loses_itself() {
    // The first copy had taken the lock; the second sees it taken, by its own client, for ever.
    assert!((0..20).any(|seed| broken(Creed::Resend, seed).contains(&"progress")));
}
