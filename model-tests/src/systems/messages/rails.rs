//! One-sided operations over several rails: nodes that add to words of a node that they may lose a rail to.
//!
//! Every node adds to a lane of its own of one word at the last node, which adds too, over its connection to itself. So the
//! word tells at any time how often each node has added, and an addition that was lost, or made twice, shows. Whoever does
//! not know what became of an addition has its outcome resolved, and looks.

use super::operations::wants_memory;
use crate::explore::{Coverage, Entry, Key, Size, SizeError, Violation};
use crate::harness::{self, Member, Model, Shape, any_counted, worlds};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::rt::Rt;
use weft_protocols::transport::{Mesh, MeshConfig, NotExecuted, OpError, Planted, Rank};
use weft_sim::{Sim, SimMr};
use weft_verbs::{AccessFlags, MemoryRegion, RemoteSlice, Wait, WcError};

/// It is judged at its end alone.
type Recorder = harness::Recorder<()>;

const KEYS: &[Key] = &[
    Key { name: "nodes", help: "how many nodes" },
    Key { name: "requests", help: "how often each node adds" },
    Key { name: "rails", help: "how many adapters each node has" },
];

/// The worlds of rails.
pub fn worlds() -> Vec<Entry> {
    worlds! { KEYS;
        "rails" make(Way::Stays) Held, "one-sided operations while connections go over from one rail to another";
        "rails-moved" make(Way::Moves) Held, "the same, and nodes have their connections go over to another rail, and back";
        "planted-reports-before-fence" make(Way::Planted(Planted::ReportsBeforeFence)) ViolatedUnderFaults,
            "the queue pair on a dead rail is left as it is when the next one takes over";
        "planted-other-rails-key" make(Way::Planted(Planted::OtherRailsKey)) ViolatedUnderFaults,
            "operations go over any rail, with the key of the memory's";
    }
}

/// What nodes do beside adding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Nothing.
    Stays,
    /// Between two additions they have their connection go over to another rail.
    Moves,
    /// The transport makes a mistake.
    Planted(Planted),
}

fn make(size: &Size, way: Way) -> Result<Additions, SizeError> {
    let (nodes, requests) = (size.number("nodes")?.unwrap_or(2), size.number("requests")?.unwrap_or(1));
    let rails = size.number("rails")?.unwrap_or(2);
    size.within("nodes", nodes, 2..=4)?;
    size.within("requests", requests, 1..=8)?;
    size.within("rails", rails, 2..=4)?;
    Ok(Additions { way, nodes, requests, rails: rails as u8 })
}

/// Every node adds to its lane of a word at the last node.
pub struct Additions {
    way: Way,
    nodes: u32,
    requests: u32,
    rails: u8,
}

/// What an execution keeps.
pub struct State {
    word: SimMr,
    /// How often each node has added, as far as it knows.
    added: Vec<Rc<Cell<u32>>>,
    /// What a node was told that cannot be.
    broken: Rc<RefCell<Option<String>>>,
}

/// Bits of a node's lane.
const LANE: u32 = 16;

pub(super) fn lane(word: u64, node: u32) -> u32 {
    (word >> (LANE * node) & 0xffff) as u32
}

/// One node's additions.
struct Adder {
    rt: Rt<Sim>,
    mesh: Mesh<Sim>,
    home: Rank,
    at: RemoteSlice,
    node: u32,
    broken: Rc<RefCell<Option<String>>>,
}

impl Adder {
    /// Adds once. `before` is how often it has added.
    async fn add(&self, before: u32) {
        loop {
            match self.mesh.fetch_add(self.home, self.at, 1 << (LANE * self.node)).await {
                Ok(old) => {
                    let found = lane(old, self.node);
                    if found != before {
                        self.breaks(format!("n{} added {before} times and finds {found}", self.node));
                    }
                    return;
                }
                Err(why) if wants_memory(&why) => self.rt.yield_now().await,
                Err(OpError::NotExecuted(why)) if self.is_refused(why) => return,
                Err(OpError::NotExecuted(_)) => {}
                Err(OpError::Unknown(_)) => {
                    if self.mesh.resolve_outcomes(self.home).await.is_err() {
                        return;
                    }
                    match self.look().await {
                        Some(now) if now == before => {}
                        _ => return,
                    }
                }
            }
        }
    }

    /// Has the connection go over to another rail, if the peer answers there; and has it made again.
    async fn moves(&self, before: u32) {
        let (mesh, home) = (&self.mesh, self.home);
        let to = u8::try_from(before + 1).unwrap_or_default() % mesh.rails();
        if mesh.rail(home) != Some(to) && mesh.answers(home, to).await {
            mesh.move_to(home, to);
        }
        if mesh.answers(home, mesh.rails()).await || mesh.rail(Rank::from_index(9)).is_some() {
            self.breaks(format!("n{} is answered over a rail that it does not have", self.node));
        }
        mesh.suspect(home);
    }

    /// How often it has added, by the word.
    async fn look(&self) -> Option<u32> {
        let mut word = [0; 8];
        loop {
            match self.mesh.read(self.home, self.at, &mut word).await {
                Ok(()) => return Some(lane(u64::from_ne_bytes(word), self.node)),
                Err(why) if wants_memory(&why) => self.rt.yield_now().await,
                Err(OpError::NotExecuted(why)) if self.is_refused(why) => return None,
                Err(_) => {}
            }
        }
    }

    /// Memory that is there, with its key, is refused to nobody.
    fn is_refused(&self, why: NotExecuted) -> bool {
        let refused = matches!(
            why,
            NotExecuted::Failed(WcError::RemAccess) | NotExecuted::AtPeer(_) | NotExecuted::Refused(_)
        );
        if refused {
            self.breaks(format!("n{} is refused the word: {why}", self.node));
        }
        refused
    }

    fn breaks(&self, how: String) {
        self.broken.borrow_mut().get_or_insert(how);
    }
}

impl Model for Additions {
    type State = State;
    type Oracles = ();

    fn size(&self) -> Size {
        Size::new([("nodes", self.nodes), ("requests", self.requests), ("rails", self.rails.into())])
    }

    fn rails(&self) -> u8 {
        self.rails
    }

    fn mesh(&self, config: &mut MeshConfig) {
        if let Way::Planted(planted) = self.way {
            config.planted = Some(planted);
        }
    }

    fn oracles(&self) {}

    fn shape(&self) -> Shape {
        Shape { nodes: self.nodes, wait: Wait::Poll, home: Some(self.nodes - 1), one_by_one: true }
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder) -> State {
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_ATOMIC | AccessFlags::REMOTE_READ;
        let home = &members[members.len() - 1].mesh;
        let word = home.alloc(8, access).expect("eight bytes");
        let at = word.remote(0..8).expect("a word");
        let broken = Rc::new(RefCell::new(None));
        let start = |(node, member): (u32, &Member)| {
            let (rt, mesh, broken) = (member.rt.clone(), member.mesh.clone(), Rc::clone(&broken));
            let (adder, added) =
                (Adder { rt, mesh, home: home.me(), at, node, broken }, Rc::new(Cell::new(0)));
            let moves = self.way == Way::Moves && home.me() != member.mesh.me();
            let (of, requests, recorder) = (Rc::clone(&added), self.requests, recorder.clone());
            member.rt.spawn(async move {
                for before in 0..requests {
                    if moves {
                        adder.moves(before).await;
                    }
                    adder.add(before).await;
                    of.set(before + 1);
                    recorder.say(node, || format!("has added {} times", before + 1));
                }
            });
            added
        };
        let added = (0..).zip(members).map(start).collect();
        State { word, added, broken }
    }

    fn finish(&self, state: &State, members: &[Member], _: &Recorder) -> Result<(), Violation> {
        const PROMISE: &str = "additions";
        if let Some(text) = &*state.broken.borrow() {
            return Err(Violation::new(PROMISE, text.clone()));
        }
        let word = state.word.load(0).unwrap_or(u64::MAX);
        for (node, added) in (0..).zip(&state.added) {
            let (added, found) = (added.get(), lane(word, node));
            if added != self.requests {
                let text = format!(
                    "n{node} has added {added} times of {}, and nothing happens any more",
                    self.requests
                );
                return Err(Violation::new(PROMISE, text));
            }
            if found != added {
                return Err(Violation::new(
                    PROMISE,
                    format!("n{node} added {added} times and the word has {found}"),
                ));
            }
        }
        self.judge_each(state, members)
    }

    fn coverage(&self, _: &State, members: &[Member], sink: &mut Coverage) {
        let any = |of| any_counted(members, of);
        sink.sometimes("an outcome was lost", any(|stats| stats.unknown_outcomes));
        sink.sometimes("a connection went over another rail", any(|stats| stats.failovers));
        sink.sometimes("a connection went back to a better rail", any(|stats| stats.failbacks));
        sink.sometimes("messages carried an operation", any(|stats| stats.carried));
    }
}
