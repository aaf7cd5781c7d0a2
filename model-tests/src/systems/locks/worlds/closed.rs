//! Locks on nodes whose meshes are closed while one application holds a lock and others wait for it.
//!
//! Who holds it is told that it is lost, and it counts no more; who waits is told that the service has ended, and so is who asks then.
//! Without members nobody is freed of a node that has gone, so all of them go: the lock's home first, or last.

use crate::explore::{Entry, Key, Violation};
use crate::harness::{self, Member, Model, Shape, of_one_size, worlds};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::locks::{LockClient, LockConfig, LockError, LockKey, LockService, Mode, Scheme};
use weft_protocols::rt::{Rt, WaitPoint};
use weft_sim::Sim;
use weft_sim::explore::FaultSet;
use weft_verbs::{Nanos, Wait};

/// It is judged at its end alone.
type Recorder = harness::Recorder<()>;

const NONE: &[Key] = &[];

/// At home on the first of two nodes.
const KEY: u64 = 3;

/// The worlds.
pub(super) fn worlds() -> Vec<Entry> {
    use Scheme::{Ncosed, Srsl};
    worlds! { NONE;
        "srsl-closed" of_one_size(Closed(Srsl)) Held, "the lock server: the nodes close their meshes while one holds and others wait";
        "ncosed-closed" of_one_size(Closed(Ncosed)) Held, "N-CoSED: the nodes close their meshes while one holds and others wait";
    }
}

struct Closed(Scheme);

/// What an execution keeps.
struct State {
    services: Vec<LockService<Sim>>,
    /// How many requests have ended as they must.
    ended: Rc<Cell<u32>>,
    broken: Rc<RefCell<Option<String>>>,
}

/// What applications of the nodes find.
#[derive(Clone)]
struct Finds {
    ended: Rc<Cell<u32>>,
    broken: Rc<RefCell<Option<String>>>,
}

impl Finds {
    fn ends(&self, well: bool, what: &str) {
        self.ended.set(self.ended.get() + 1);
        if !well {
            self.broken.borrow_mut().get_or_insert(what.to_string());
        }
    }
}

/// Asks for the lock. One that is granted is held until it is lost.
async fn application(rt: Rt<Sim>, locks: LockClient<Sim>, finds: Finds, number: u32) {
    let asked = locks.lock(KEY, Mode::Exclusive).at((number, "asks")).await;
    let is_closed = |answer: &Result<_, LockError>| matches!(answer, Err(LockError::Closed));
    if let Ok(mut grant) = asked {
        let counts = grant.counts() && grant.key() == LockKey(KEY);
        grant.lost().at((number, "holds")).await;
        finds.ends(counts && !grant.counts(), "what is lost counts, or what was granted does not");
        // Whether the service hears of it or not, it keeps nothing for that.
        let _ = grant.downgrade().await;
        grant.unlock().await;
    } else {
        finds.ends(is_closed(&asked), "who waits as the service ends is told something else");
    }
    rt.yield_now().at((number, "asks again")).await;
    let late = locks.lock(KEY, Mode::Shared).at((number, "asks late")).await;
    finds.ends(is_closed(&late), "who asks a service that has ended is told something else");
}

impl Model for Closed {
    type State = State;
    type Oracles = ();

    fn oracles(&self) {}

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: Some(0), one_by_one: true }
    }

    fn promises(&self) -> &'static [&'static str] {
        &["closed", "progress"]
    }

    fn breaks_connections(&self) -> bool {
        true
    }

    fn usual_faults(&self) -> FaultSet {
        FaultSet::NONE
    }

    fn configurations(&self) -> usize {
        2
    }

    fn configuration(&self, number: usize) -> String {
        format!("n{number} closes its mesh first")
    }

    fn start(&self, first: usize, members: &[Member], recorder: &Recorder) -> State {
        let config = LockConfig::new(self.0, members.len() as u32);
        let start =
            |Member { rt, mesh }: &Member| LockService::start(rt, mesh, config).expect("good settings");
        let services: Vec<_> = members.iter().map(start).collect();
        let finds = Finds { ended: Rc::default(), broken: Rc::default() };
        for (node, member) in members.iter().enumerate() {
            for number in 0..2 {
                let (rt, client) = (member.rt.clone(), services[node].client().clone());
                member.rt.spawn(application(rt, client, finds.clone(), number));
            }
            // Once nothing else can happen: one holds then, and three wait.
            let (rt, mesh, recorder) = (member.rt.clone(), member.mesh.clone(), recorder.clone());
            let after = Nanos::from_millis(if node == first { 1 } else { 2 });
            member.rt.spawn(async move {
                rt.sleep(after).at("stays").await;
                mesh.close();
                recorder.say(node as u32, || "closes its mesh".to_string());
            });
        }
        State { services, ended: finds.ended, broken: finds.broken }
    }

    fn drift(&self) -> Option<Nanos> {
        Some(Nanos(100_000))
    }

    fn finish(&self, state: &State, _: &[Member], _: &Recorder) -> Result<(), Violation> {
        if let Some(text) = &*state.broken.borrow() {
            return Err(Violation::new("closed", text.clone()));
        }
        match state.ended.get() {
            // Each of four asks twice.
            8 if state.services.iter().all(|service| service.stats().requests == 4) => Ok(()),
            ended => Err(Violation::new("progress", format!("{ended} of 8 requests end"))),
        }
    }
}
