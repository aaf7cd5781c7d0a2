//! A mesh asks for a connection, and who answers is no mesh: it turns the mesh down for reasons of its own, or accepts and says of itself
//! what no peer would say.
//!
//! The mesh knows why it has no connection, and tells who asks it; and it goes on asking, unless it was told that it is out.

use super::{Hello, VERSION, params, queue_pair};
use crate::explore::{Entry, Violation};
use crate::harness::{self, Meeting, Member, Model, Shape, of_one_size, worlds};
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::rt::{Rt, WaitPoint};
use weft_protocols::transport::{Cause, Channel, Mesh, Rank, Rejection, SendError};
use weft_sim::Sim;
use weft_sim::explore::FaultSet;
use weft_verbs::{CmEvent, Nanos, Service, Wait};

/// It is judged at its end alone.
type Recorder = harness::Recorder<()>;

const CHANNEL: Channel = Channel(0);

/// Where a mesh listens, and the stranger in its place.
const MESHES: Service = Service(4791);

/// How often the stranger answers in its way. From then on it says that it is not able to.
const TIMES: u32 = 2;

/// How long the mesh's program waits until it looks again.
const PAUSE: Nanos = Nanos::from_millis(50);

/// The world.
pub(super) fn worlds() -> Vec<Entry> {
    worlds! { &[];
        "messages-answers" of_one_size(Answers) Held, "the transport: who is asked for a connection is no mesh";
    }
}

struct Answers;

/// What the stranger does with a request.
#[derive(Clone)]
enum Way {
    /// It turns it down, and says this.
    Rejects(Vec<u8>),
    /// It accepts it, and says this of itself.
    Accepts(Vec<u8>),
    /// It accepts it as a peer would that has received so many messages, and hangs up where that is none.
    AcceptsAsPeer(u64),
}

/// What the mesh knows then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knows {
    /// Why it was turned down.
    Why(Rejection),
    /// That the peer left it out.
    IsOut,
    /// That the peer has nothing to do with anybody any more.
    PeerIsOut,
    /// Nothing: it asks again.
    Nothing,
}

struct Answer {
    about: &'static str,
    way: Way,
    knows: Knows,
}

/// What a mesh says when it turns somebody down, for a reason with this number.
fn refusal(version: u16, kind: u8) -> Vec<u8> {
    let mut bytes = vec![0; 8 + GROUNDS.len()];
    bytes[..2].copy_from_slice(&version.to_le_bytes());
    bytes[2] = kind;
    bytes[8..].copy_from_slice(&GROUNDS);
    bytes
}

/// What an expulsion stands on.
const GROUNDS: [u8; 20] = [7; 20];

/// The number of a reason: it is closing, or has no room.
const UNABLE: u8 = 4;

fn all() -> Vec<Answer> {
    use Rejection::{Astray, Foreign, NoListener, Stranger, Unable};
    let rejects = |about, bytes, knows| Answer { about, way: Way::Rejects(bytes), knows };
    let told = |about, kind, knows| rejects(about, refusal(VERSION, kind), knows);
    vec![
        rejects("turns it down without a word", Vec::new(), Knows::Why(NoListener)),
        rejects("turns it down with other words", vec![1, 2, 3], Knows::Why(Foreign)),
        rejects("turns it down in another version", refusal(1, 4), Knows::Why(Foreign)),
        told("turns it down for no reason that there is", 99, Knows::Why(Foreign)),
        told("says that it is a stranger", 1, Knows::Why(Stranger)),
        told("says that the generation is over", 2, Knows::Nothing),
        told("says that it asks itself", 3, Knows::Nothing),
        told("says that it is not able to", UNABLE, Knows::Why(Unable)),
        told("says that the rail works", 5, Knows::Nothing),
        told("says that it is out", 6, Knows::IsOut),
        told("says that it is out itself", 7, Knows::PeerIsOut),
        told("says that another node is here", 8, Knows::Why(Astray)),
        Answer {
            about: "accepts it and says nothing that a mesh says",
            way: Way::Accepts(vec![9; 60]),
            knows: Knows::Why(Unable),
        },
        Answer { about: "accepts it and hangs up", way: Way::AcceptsAsPeer(0), knows: Knows::Why(Unable) },
        Answer {
            about: "accepts it, and has received more than was sent",
            way: Way::AcceptsAsPeer(9),
            knows: Knows::Why(Unable),
        },
    ]
}

/// What an execution keeps.
struct State {
    /// How often the stranger was asked.
    asked: Rc<Cell<u32>>,
    /// It is in the mesh's place.
    listens: Rc<Cell<bool>>,
    knows: Rc<Cell<Option<Knows>>>,
    expected: Knows,
}

/// Answers all requests in one way.
async fn answer(
    (rt, mesh): (Rt<Sim>, Mesh<Sim>),
    way: Way,
    (listens, asked): (Rc<Cell<bool>>, Rc<Cell<u32>>),
) {
    mesh.close();
    let (connector, mut events) = loop {
        // Once the mesh listens no more.
        match rt.listen(MESHES) {
            Ok(listens) => break listens,
            Err(_) => rt.yield_now().at("does not listen").await,
        }
    };
    listens.set(true);
    let mut queues = Vec::new();
    while let Ok(event) = events.recv().await {
        let CmEvent::Request { id, private, .. } = event else { continue };
        asked.set(asked.get() + 1);
        let says = match &way {
            Way::Accepts(_) | Way::AcceptsAsPeer(_) if asked.get() > TIMES => {
                connector.reject(id, &refusal(VERSION, UNABLE));
                continue;
            }
            Way::Rejects(why) => {
                connector.reject(id, why);
                continue;
            }
            Way::Accepts(says) => says.clone(),
            Way::AcceptsAsPeer(received) => as_peer(&private, *received).bytes(),
        };
        let queue = queue_pair(&rt).expect("there is memory");
        connector.accept(id, queue.qp(), &params(&says)).expect("it is asked for");
        if let Way::AcceptsAsPeer(0) = way {
            rt.yield_now().at("accepts").await;
            connector.disconnect(id);
        }
        queues.push(queue);
    }
}

/// What a peer would say that is asked so.
fn as_peer(asks: &[u8], received: u64) -> Hello {
    let word = |at: usize| u64::from_le_bytes(asks[at..at + 8].try_into().expect("eight bytes"));
    let generation = word(24) as u32;
    Hello {
        version: VERSION,
        rank: 2,
        to: 1,
        incarnation: 77,
        with: word(8),
        generation,
        buffers: 8,
        longest: 64,
        received,
    }
}

/// What the mesh knows of the peer.
fn knows(mesh: &Mesh<Sim>, peer: Rank) -> Knows {
    if mesh.is_expelled() {
        return Knows::IsOut;
    }
    if mesh.is_gone(peer) && mesh.send(peer, CHANNEL, &[]) == Err(SendError::PeerGone(peer)) {
        return Knows::PeerIsOut;
    }
    let mut of_peer = mesh.troubles().into_iter().filter(|trouble| trouble.peer == Some(peer));
    match of_peer.next_back().map(|trouble| trouble.cause) {
        Some(Cause::Rejected(why)) => Knows::Why(why),
        _ => Knows::Nothing,
    }
}

impl Model for Answers {
    type State = State;
    type Oracles = ();

    fn oracles(&self) {}

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn meeting(&self) -> Meeting {
        Meeting::Unmet
    }

    fn promises(&self) -> &'static [&'static str] {
        &["troubles", "progress"]
    }

    fn breaks_connections(&self) -> bool {
        true
    }

    /// Between two attempts the mesh waits, and its program longer.
    fn drift(&self) -> Option<Nanos> {
        Some(harness::DRIFT)
    }

    fn usual_faults(&self) -> FaultSet {
        FaultSet::NONE
    }

    fn configurations(&self) -> usize {
        all().len()
    }

    fn configuration(&self, number: usize) -> String {
        format!("who is asked {}", all()[number].about)
    }

    fn start(&self, configuration: usize, members: &[Member], recorder: &Recorder) -> State {
        let [asks, stranger] = members else { unreachable!("the shape has two nodes") };
        let Answer { way, knows: expected, .. } = all().swap_remove(configuration);
        let state = State { asked: Rc::default(), listens: Rc::default(), knows: Rc::default(), expected };
        let tells = (Rc::clone(&state.listens), Rc::clone(&state.asked));
        let answers = answer((stranger.rt.clone(), stranger.mesh.clone()), way, tells);
        stranger.rt.spawn(answers);
        let (rt, mesh, peer) = (asks.rt.clone(), asks.mesh.clone(), stranger.mesh.me());
        let (asked, known, recorder) = (Rc::clone(&state.asked), Rc::clone(&state.knows), recorder.clone());
        let listens = Rc::clone(&state.listens);
        asks.rt.spawn(async move {
            while !listens.get() {
                rt.sleep(PAUSE).at("waits").await;
            }
            mesh.send(peer, CHANNEL, &[7]).expect("a mesh keeps more messages");
            while asked.get() <= TIMES && !mesh.is_gone(peer) {
                // Looks again when nothing else can happen.
                rt.sleep(PAUSE).at("asks").await;
            }
            known.set(Some(knows(&mesh, peer)));
            recorder.say(0, || format!("knows {:?}", known.get()));
            mesh.close();
        });
        state
    }

    fn finish(&self, state: &State, _: &[Member], _: &Recorder) -> Result<(), Violation> {
        match state.knows.get() {
            Some(knows) if knows == state.expected => Ok(()),
            Some(knows) => {
                let text = format!("the mesh knows {knows:?}, and not {:?}", state.expected);
                Err(Violation::new("troubles", text))
            }
            None => Err(Violation::new("progress", "the mesh asks no more, and does not know why")),
        }
    }
}
