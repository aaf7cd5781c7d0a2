//! A stranger asks a mesh for a connection, by all that no peer would say, or is given one and sends what no peer would send.
//!
//! Two nodes of the mesh send each other a message meanwhile, and hear it, and nothing of the stranger's.

use super::{Hello, VERSION, frame, params, queue_pair};
use crate::explore::{Entry, Violation};
use crate::harness::{self, Member, Model, Shape, of_one_size, worlds};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::rt::{CompletionSink, Local, Rt, WaitPoint};
use weft_protocols::transport::{Channel, Incoming, Mesh, Rank};
use weft_sim::Sim;
use weft_sim::explore::FaultSet;
use weft_verbs::{CmEvent, SendOp, Service, Wait};

/// It is judged at its end alone.
type Recorder = harness::Recorder<()>;

const CHANNEL: Channel = Channel(0);

/// Where a mesh listens.
const MESHES: Service = Service(4791);

/// The longest message of the mesh.
const LONGEST: u32 = 64;

/// The world.
pub(super) fn worlds() -> Vec<Entry> {
    worlds! { &[];
        "messages-strangers" of_one_size(Asks) Held,
            "the transport: a node that is no mesh asks for a connection, and sends what no peer sends";
    }
}

struct Asks;

/// What the stranger is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// It is turned down, for a reason with this number.
    Refused(u8),
    /// It is accepted, and the connection is ended.
    Ended,
    /// Nobody is there.
    Unreachable,
}

/// What the mesh has done before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    /// It has left the stranger's node out.
    Expels,
    /// It has nothing to do with anybody any more.
    Retires,
}

/// What the stranger says, and what comes of it.
struct Says {
    about: &'static str,
    asks: Vec<u8>,
    /// Once it is accepted.
    sends: Option<Vec<u8>>,
    before: Before,
    answer: Answer,
}

/// The stranger's node is the third one, and asks the first.
fn hello(incarnation: u64, asked: u64) -> Hello {
    Hello {
        version: VERSION,
        rank: 3,
        to: 1,
        incarnation,
        with: asked,
        generation: 9,
        buffers: 8,
        longest: LONGEST,
        received: 0,
    }
}

/// All that it may say, if its node's mesh and the one that it asks have these incarnations.
fn all(incarnation: u64, asked: u64) -> Vec<Says> {
    const STRANGER: u8 = 1;
    const STALE: u8 = 2;
    const UNABLE: u8 = 4;
    const TRIAL: u8 = 5;
    const EXPELLED: u8 = 6;
    const RETIRED: u8 = 7;
    const ASTRAY: u8 = 8;
    let good = hello(incarnation, asked);
    let refused = |about, asks: Vec<u8>, reason| Says {
        about,
        asks,
        sends: None,
        before: Before::Nothing,
        answer: Answer::Refused(reason),
    };
    let sent = |about, sends: Vec<u8>| Says {
        about,
        asks: good.bytes(),
        sends: Some(sends),
        before: Before::Nothing,
        answer: Answer::Ended,
    };
    let guest = u32::MAX;
    vec![
        refused("nothing", Vec::new(), STRANGER),
        refused("half of what a mesh says", good.bytes()[..40].to_vec(), STRANGER),
        refused("another version", Hello { version: 1, ..good }.bytes(), STRANGER),
        refused("that it is nobody", Hello { rank: 0, ..good }.bytes(), STRANGER),
        refused("that it wants nobody", Hello { to: 0, ..good }.bytes(), STRANGER),
        refused("that it wants another node", Hello { to: 2, ..good }.bytes(), ASTRAY),
        refused("a rank that there is not", Hello { rank: 9, ..good }.bytes(), STRANGER),
        refused("that its messages are longer", Hello { longest: LONGEST + 1, ..good }.bytes(), STRANGER),
        refused("that it has few buffers", Hello { buffers: 7, ..good }.bytes(), STRANGER),
        refused("that it is a guest", Hello { rank: guest, ..good }.bytes(), STRANGER),
        refused("that it only looks whether this works", Hello { generation: 0, ..good }.bytes(), TRIAL),
        refused("that the connection is to stand by", Hello { generation: u32::MAX, ..good }.bytes(), UNABLE),
        refused("a generation that is over", Hello { generation: 1, ..good }.bytes(), STALE),
        Says { before: Before::Expels, ..refused("that it was left out", good.bytes(), EXPELLED) },
        Says { before: Before::Retires, ..refused("all right, to one who was", good.bytes(), RETIRED) },
        Says {
            sends: None,
            answer: Answer::Ended,
            ..refused("that it has received more than was sent", Hello { received: 9, ..good }.bytes(), 0)
        },
        sent("less than a header", vec![0; 8]),
        sent("the second message first", frame(2, 0, 0, &[7])),
        sent("that it has received more than was sent, later", frame(1, 9, 0, &[7])),
    ]
}

/// What an execution keeps.
struct State {
    answer: Rc<Cell<Option<Answer>>>,
    expected: Answer,
    /// Which nodes of the mesh have heard the other.
    heard: [Rc<Cell<bool>>; 2],
    /// What was wrong first.
    broken: Rc<RefCell<Option<String>>>,
    /// Who is asked has left.
    leaves: bool,
}

/// Asks, and says what comes of it.
async fn ask((rt, mesh): (Rt<Sim>, Mesh<Sim>), Says { asks, sends, .. }: Says) -> Answer {
    let (connector, mut events) = rt.connector().expect("a device has a connection manager");
    let queue = loop {
        match queue_pair(&rt) {
            Ok(queue) => break queue,
            // The system has no memory in this step.
            Err(_) => rt.yield_now().at("no queue pair").await,
        }
    };
    let id = loop {
        match connector.resolve_at(&mesh.names()[0], MESHES) {
            Ok(id) => break id,
            Err(_) => rt.yield_now().at("no attempt").await,
        }
    };
    while let Ok(event) = events.recv().await {
        match event {
            CmEvent::Resolved { .. } => {
                while connector.connect(id, queue.qp(), &params(&asks)).is_err() {
                    rt.yield_now().at("not asked").await;
                }
            }
            CmEvent::Established { .. } => {
                if let Some(bytes) = &sends {
                    let (sink, frame) = (CompletionSink::new(), SendOp::Send { imm: None });
                    queue.post_to(&sink, 1, frame, Local::Inline(bytes)).expect("there is room for one");
                    // Its end is the adapter's: what the mesh makes of it comes by the connection manager.
                    sink.next().at("sends").await;
                }
            }
            CmEvent::Rejected { private, .. } => {
                return Answer::Refused(private.get(2).copied().unwrap_or_default());
            }
            CmEvent::Disconnected { .. } => return Answer::Ended,
            CmEvent::Unreachable { .. } | CmEvent::Request { .. } => return Answer::Unreachable,
        }
    }
    Answer::Unreachable
}

impl Model for Asks {
    type State = State;
    type Oracles = ();

    fn oracles(&self) {}

    fn shape(&self) -> Shape {
        Shape { nodes: 3, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn promises(&self) -> &'static [&'static str] {
        &["strangers", "progress"]
    }

    /// The stranger's node's own connection, for which the stranger asks.
    fn breaks_connections(&self) -> bool {
        true
    }

    fn usual_faults(&self) -> FaultSet {
        FaultSet::NONE
    }

    fn configurations(&self) -> usize {
        all(0, 0).len()
    }

    fn configuration(&self, number: usize) -> String {
        format!("the last node says {}", all(0, 0)[number].about)
    }

    fn start(&self, configuration: usize, members: &[Member], recorder: &Recorder) -> State {
        let [asked, other, stranger] = members else { unreachable!("the shape has three nodes") };
        let says = all(stranger.mesh.incarnation(), asked.mesh.incarnation()).swap_remove(configuration);
        let state = State {
            answer: Rc::default(),
            expected: says.answer,
            heard: Default::default(),
            broken: Rc::default(),
            leaves: says.before == Before::Retires,
        };
        match says.before {
            Before::Nothing => {}
            Before::Expels => asked.mesh.expel(stranger.mesh.me(), stranger.mesh.incarnation()),
            Before::Retires => asked.mesh.retire(),
        }
        for (node, (member, to)) in (0..).zip([(asked, other.mesh.me()), (other, asked.mesh.me())]) {
            let mut inbox = member.mesh.open(CHANNEL).expect("nobody else opens it");
            let (heard, broken) = (Rc::clone(&state.heard[node as usize]), Rc::clone(&state.broken));
            member.rt.spawn(async move {
                while let Some(incoming) = inbox.recv().await {
                    match incoming {
                        Incoming::Message(message) if message.from() == to && message.bytes() == [7] => {
                            heard.set(true);
                        }
                        // Its node is another one for who is told so.
                        Incoming::PeerReset { peer, lost: 0 } if peer == Rank::from_index(2) => {}
                        _ => {
                            broken.borrow_mut().get_or_insert(format!("n{node} hears what nobody says"));
                        }
                    }
                }
            });
            let mesh = member.mesh.clone();
            // One who has nothing to do with anybody sends nothing.
            member.rt.spawn(async move { mesh.send(to, CHANNEL, &[7]).is_ok() });
        }
        let (answer, recorder) = (Rc::clone(&state.answer), recorder.clone());
        let asks = ask((stranger.rt.clone(), stranger.mesh.clone()), says);
        stranger.rt.spawn(async move {
            let came = asks.await;
            answer.set(Some(came));
            recorder.say(2, || format!("is answered: {came:?}"));
        });
        state
    }

    fn is_open(&self, state: Option<&State>, _: &Recorder) -> bool {
        state.is_some_and(|state| state.answer.get().is_none())
    }

    fn finish(&self, state: &State, members: &[Member], _: &Recorder) -> Result<(), Violation> {
        if let Some(text) = &*state.broken.borrow() {
            return Err(Violation::new("strangers", text.clone()));
        }
        match state.answer.get() {
            Some(answer) if answer == state.expected => {}
            answer => {
                let text = format!("the stranger is answered {answer:?}, not {:?}", state.expected);
                return Err(Violation::new("strangers", text));
            }
        }
        if !state.leaves && state.heard.iter().any(|heard| !heard.get()) {
            return Err(Violation::new("progress", "a node of the mesh has not heard the other"));
        }
        [0, 1].iter().find_map(|node| self.violation_at(state, *node, &members[*node])).map_or(Ok(()), Err)
    }
}
