//! An MCS queue lock by one-sided operations (Mellor-Crummey and Scott 1991): each node has a place in its own memory,
//! with a link to the next in the queue and a flag that says that it waits. The flag has to be set before the
//! predecessor can find the place.

use super::super::client::{Locker, Recorder, WorldOracles, client};
use crate::explore::Size;
use crate::harness::{Member, Model, Shape};
use crate::named::Named;
use std::rc::Rc;
use weft_protocols::locks::{LockKey, Mode};
use weft_protocols::rt::sync::Signal;
use weft_protocols::transport::{Channel, Mesh, Rank};
use weft_sim::explore::FaultSet;
use weft_sim::{Sim, SimMr};
use weft_verbs::{AccessFlags, MemoryRegion, RemoteSlice, Wait};

const CHANNEL: Channel = Channel(1);

/// Where in a node's memory are the link and the flag, and at the first node the queue's tail.
const LINK: usize = 0;
const FLAG: usize = 8;
const TAIL: usize = 16;

/// An MCS lock; every node takes it once.
pub struct Mcs {
    /// How many nodes there are.
    pub nodes: u32,
    /// The bug: link first, then set the flag.
    pub links_first: bool,
}

/// One node's place in the queue.
struct Place {
    mesh: Mesh<Sim>,
    memory: SimMr,
    places: Rc<Vec<RemoteSlice>>,
    links_first: bool,
    /// Somebody wrote into the place, and says so.
    heard: Signal,
}

impl Place {
    fn own(&self, at: usize) -> u64 {
        self.memory.load(at).expect("its own memory")
    }

    fn set(&self, at: usize, value: u64) {
        self.memory.store(at, value).expect("its own memory");
    }

    async fn swap_tail(&self, from: u64, to: u64) -> u64 {
        let tail = self.places[0].slice(TAIL as u32..TAIL as u32 + 8).expect("a word");
        let home = Rank::from_index(0);
        self.mesh.compare_swap(home, tail, from, to).await.expect("this world is without faults")
    }

    /// Writes into another's place, and says so.
    async fn write(&self, whose: u64, at: usize, value: u64) {
        let rank = Rank::new(whose as u32).expect("somebody");
        let place = self.places[rank.index()].slice(at as u32..at as u32 + 8).expect("a word");
        let written = self.mesh.write(rank, place, &value.to_ne_bytes()).await;
        written.expect("this world is without faults");
        self.mesh.send(rank, CHANNEL, &[]).expect("there is room");
    }
}

impl Locker for Place {
    type Held = ();

    async fn lock(&self, _: Mode) {
        let me = u64::from(self.mesh.me().get());
        self.set(LINK, 0);
        let mut before = 0;
        loop {
            let was = self.swap_tail(before, me).await;
            if was == before {
                break;
            }
            before = was;
        }
        if before == 0 {
            return;
        }
        if !self.links_first {
            self.set(FLAG, 1);
        }
        self.write(before, LINK, me).await;
        if self.links_first {
            self.set(FLAG, 1);
        }
        self.heard.until(|| self.own(FLAG) == 0).await;
    }

    async fn unlock(&self, _: ()) {
        let me = u64::from(self.mesh.me().get());
        if self.own(LINK) == 0 {
            if self.swap_tail(me, 0).await == me {
                return;
            }
            self.heard.until(|| self.own(LINK) != 0).await;
        }
        self.write(self.own(LINK), FLAG, 0).await;
    }
}

impl Model for Mcs {
    /// The nodes' memory, which must outlive their clients.
    type State = Vec<SimMr>;
    type Oracles = WorldOracles;

    fn size(&self) -> Size {
        Size::new([("nodes", self.nodes)])
    }

    /// None: its nodes take every operation to succeed.
    fn usual_faults(&self) -> FaultSet {
        FaultSet::NONE
    }

    fn oracles(&self) -> WorldOracles {
        WorldOracles::new(false)
    }

    fn shape(&self) -> Shape {
        Shape { nodes: self.nodes, wait: Wait::Poll, home: Some(0), one_by_one: false }
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder) -> Vec<SimMr> {
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_ATOMIC | AccessFlags::REMOTE_WRITE;
        let memory: Vec<SimMr> =
            members.iter().map(|member| member.mesh.alloc(24, access).expect("24 bytes")).collect();
        let places = memory.iter().map(|memory| memory.remote(0..24).expect("all of it")).collect();
        let places: Rc<Vec<RemoteSlice>> = Rc::new(places);
        for ((node, Member { rt, mesh }), memory) in (0..).zip(members).zip(memory.clone()) {
            let heard = super::bell(rt, mesh, CHANNEL);
            let (places, links_first) = (Rc::clone(&places), self.links_first);
            let lock = Place { mesh: mesh.clone(), memory, places, links_first, heard };
            let modes = vec![Mode::Exclusive];
            rt.spawn(client(rt.clone(), recorder.clone(), node, LockKey(0), modes, lock));
        }
        memory
    }

    fn name_of(&self, memory: &Vec<SimMr>, node: usize, address: u64) -> Option<Named> {
        let node_or_none = |rank: u64| match rank.checked_sub(1) {
            Some(node) => format!("n{node}"),
            None => "nobody".into(),
        };
        match address.checked_sub(memory[node].addr())? as usize {
            LINK => Some(Named::with(format!("n{node}'s link"), node_or_none)),
            FLAG => Some(Named::new(format!("n{node}'s flag"))),
            TAIL => Some(Named::with("the queue's tail", node_or_none)),
            _ => None,
        }
    }
}
