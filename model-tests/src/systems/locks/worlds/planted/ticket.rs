//! A ticket lock in one word: whoever adds one to one part of it draws a ticket, and waits until the other part says
//! that number. Tickets wrap; if the carry goes into the other part, two nodes are served at once.

use super::super::client::{Locker, Recorder, WorldOracles, client};
use crate::explore::Size;
use crate::harness::{Member, Model, Shape};
use crate::named::Named;
use weft_protocols::locks::{LockKey, Mode};
use weft_protocols::rt::sync::Signal;
use weft_protocols::transport::{Channel, Mesh, Rank};
use weft_sim::explore::FaultSet;
use weft_sim::{Sim, SimMr};
use weft_verbs::{AccessFlags, MemoryRegion, RemoteSlice, Wait};

const CHANNEL: Channel = Channel(1);

/// A ticket lock whose word is at the first node; every node takes it once.
pub struct Tickets {
    /// How many nodes there are.
    pub nodes: u32,
    /// The bug: the tickets' carry goes into the number that is served.
    pub carries: bool,
}

/// One node's use of the lock.
struct Queue {
    mesh: Mesh<Sim>,
    home: Rank,
    word: RemoteSlice,
    parts: Parts,
    nodes: u32,
    /// Somebody said that the next ticket is being served.
    heard: Signal,
}

/// Where in the word the next ticket and the served one are: 16 bits each, from these bits on.
#[derive(Clone, Copy)]
struct Parts {
    drawn: u32,
    served: u32,
}

impl Parts {
    /// The tickets at the upper end, where their carry falls off, and room above the served ones for theirs.
    const APART: Parts = Parts { drawn: 48, served: 0 };
    /// Side by side, the tickets below.
    const SIDE_BY_SIDE: Parts = Parts { drawn: 0, served: 16 };

    fn drawn(self, word: u64) -> u64 {
        word >> self.drawn & 0xffff
    }

    fn served(self, word: u64) -> u64 {
        word >> self.served & 0xffff
    }

    /// A word that has served all but one ticket, and is free.
    fn about_to_wrap(self) -> u64 {
        0xffff << self.drawn | 0xffff << self.served
    }
}

impl Queue {
    async fn add(&self, one: u64) -> u64 {
        self.mesh.fetch_add(self.home, self.word, one).await.expect("this world is without faults")
    }
}

impl Locker for Queue {
    type Held = ();

    async fn lock(&self, _: Mode) {
        let was = self.add(1 << self.parts.drawn).await;
        let mut now = was;
        while self.parts.served(now) != self.parts.drawn(was) {
            let changed = self.heard.changed();
            let mut word = [0; 8];
            self.mesh.read(self.home, self.word, &mut word).await.expect("this world is without faults");
            now = u64::from_ne_bytes(word);
            if self.parts.served(now) != self.parts.drawn(was) {
                changed.await;
            }
        }
    }

    async fn unlock(&self, _: ()) {
        self.add(1 << self.parts.served).await;
        for other in (0..self.nodes).map(Rank::from_index).filter(|other| *other != self.mesh.me()) {
            self.mesh.send(other, CHANNEL, &[]).expect("there is room");
        }
    }
}

impl Model for Tickets {
    type State = SimMr;
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

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder) -> SimMr {
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_ATOMIC | AccessFlags::REMOTE_READ;
        let memory = members[0].mesh.alloc(8, access).expect("eight bytes");
        let (home, word) = (members[0].mesh.me(), memory.remote(0..8).expect("a word"));
        let parts = if self.carries { Parts::SIDE_BY_SIDE } else { Parts::APART };
        memory.store(0, parts.about_to_wrap()).expect("its own memory");
        for (node, Member { rt, mesh }) in (0..).zip(members) {
            let heard = super::bell(rt, mesh, CHANNEL);
            let nodes = self.nodes;
            let lock = Queue { mesh: mesh.clone(), home, word, parts, nodes, heard };
            let modes = vec![Mode::Exclusive];
            rt.spawn(client(rt.clone(), recorder.clone(), node, LockKey(0), modes, lock));
        }
        memory
    }

    fn name_of(&self, memory: &SimMr, node: usize, address: u64) -> Option<Named> {
        let parts = if self.carries { Parts::SIDE_BY_SIDE } else { Parts::APART };
        let tickets = move |word| format!("next {}, served {}", parts.drawn(word), parts.served(word));
        (node == 0 && address == memory.addr()).then(|| Named::with("the tickets", tickets))
    }
}
