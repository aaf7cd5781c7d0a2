//! Guests that share their server's receive buffers: each has more to send at a time than it may, is answered, and has as much to send again.
//!
//! What a guest has beyond its own it gives back, and others get it: so there are never more frames on their way than buffers to take
//! them, and nobody starves.

use crate::explore::{Coverage, Entry, Key, Size, SizeError, Violation};
use crate::harness::{self, Meeting, Member, Model, Shape, any_counted, worlds};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_protocols::transport::{Cause, Channel, GuestConfig, Inbox, Incoming, Mesh, Rank, Trouble};
use weft_sim::Sim;
use weft_sim::explore::FaultSet;
use weft_verbs::{Nanos, Wait};

/// It is judged at its end alone.
type Recorder = harness::Recorder<()>;

const CHANNEL: Channel = Channel(0);

/// What is promised of guests' messages.
const PROMISE: &str = "guests' messages";

const KEYS: &[Key] = &[
    Key { name: "nodes", help: "how many guests" },
    Key { name: "requests", help: "how many messages each of them sends at a time" },
];

/// How often each guest has so many to send.
const TIMES: u8 = 2;

/// Buffers that guests share beside those of their own.
const COMMON: u32 = 1;

/// The worlds of guests.
pub fn worlds() -> Vec<Entry> {
    worlds! { KEYS;
        "messages-guests" make(Course::Stay) Held, "the transport: guests share a server's buffers, and each has more to send than it may at once";
        "messages-guests-leave" make(Course::Leave) Held, "the same, guests leave, and their server has a place for one of them at a time";
        "messages-guests-leave-polling" make(Course::LeavePolling) Held, "the same of nodes that take all completions at once";
    }
}

/// What guests do once they were answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    Stay,
    /// They leave, and make room for others.
    Leave,
    /// The same, and nodes take all completions at once.
    LeavePolling,
}

fn make(size: &Size, course: Course) -> Result<Guests, SizeError> {
    let usual = if course == Course::Stay { 2 } else { 1 };
    let (guests, messages) = (size.number("nodes")?.unwrap_or(2), size.number("requests")?.unwrap_or(usual));
    size.within("nodes", guests, 1..=4)?;
    size.within("requests", messages, 1..=8)?;
    Ok(Guests { guests, messages: messages as u8, course })
}

/// The first node is the server of all others.
struct Guests {
    guests: u32,
    messages: u8,
    course: Course,
}

/// What an execution keeps.
struct State {
    /// By guest: how many of its messages were answered.
    answered: Vec<Rc<Cell<u8>>>,
    broken: Rc<RefCell<Option<String>>>,
}

/// Notes what is wrong first.
fn breaks(broken: &RefCell<Option<String>>, how: String) {
    broken.borrow_mut().get_or_insert(how);
}

/// Answers each message by its number. Those of a guest come in order, each once.
async fn serves(mesh: Mesh<Sim>, mut inbox: Inbox, leave: bool, broken: Rc<RefCell<Option<String>>>) {
    let mut heard: BTreeMap<Rank, u8> = BTreeMap::new();
    while let Some(incoming) = inbox.recv().await {
        let message = match incoming {
            Incoming::Message(message) => message,
            // It has left, and its place is another one's from now on.
            Incoming::PeerReset { peer, lost: 0 } if leave => {
                heard.remove(&peer);
                continue;
            }
            Incoming::PeerReset { .. } => {
                breaks(&broken, "the server is told that a guest is new".to_string());
                continue;
            }
        };
        let (from, next) = (message.from(), heard.entry(message.from()).or_default());
        if message.bytes() != [*next] {
            breaks(&broken, format!("the server hears {:?} of {from}, and {next} is next", message.bytes()));
        }
        *next += 1;
        if let Err(why) = mesh.send(from, CHANNEL, message.bytes()) {
            breaks(&broken, format!("the server cannot answer: {why}"));
        }
    }
}

/// Sends so many messages at a time, and waits until all are answered.
async fn visits(
    mesh: Mesh<Sim>,
    mut inbox: Inbox,
    (messages, leaves): (u8, bool),
    (answered, broken): (Rc<Cell<u8>>, Rc<RefCell<Option<String>>>),
) {
    for first in (0..TIMES).map(|time| time * messages) {
        for number in first..first + messages {
            if let Err(why) = mesh.send(Rank::from_index(0), CHANNEL, &[number]) {
                breaks(&broken, format!("a guest cannot send: {why}"));
            }
        }
        for number in first..first + messages {
            match inbox.recv().await {
                Some(Incoming::Message(message)) if message.bytes() == [number] => {
                    answered.set(answered.get() + 1);
                }
                _ => return breaks(&broken, format!("a guest is not answered {number}, which is next")),
            }
        }
    }
    if leaves {
        mesh.leave().await;
    }
}

impl Guests {
    fn leave(&self) -> bool {
        self.course != Course::Stay
    }
}

impl Model for Guests {
    type State = State;
    type Oracles = ();

    fn size(&self) -> Size {
        Size::new([("nodes", self.guests), ("requests", self.messages.into())])
    }

    fn meeting(&self) -> Meeting {
        // Nobody is forgotten.
        let most = if self.leave() { 1 } else { self.guests };
        Meeting::Guests(GuestConfig { most, common: COMMON, lease: Nanos::MAX, send_depth: 8 })
    }

    fn oracles(&self) {}

    fn shape(&self) -> Shape {
        Shape {
            nodes: self.guests + 1,
            wait: Wait::Poll,
            home: None,
            one_by_one: self.course != Course::LeavePolling,
        }
    }

    fn promises(&self) -> &'static [&'static str] {
        &[PROMISE, "progress"]
    }

    /// A server never asks for a connection: who waits for its answer has to hold something there, and these guests do not.
    fn usual_faults(&self) -> FaultSet {
        FaultSet::NONE
    }

    fn start(&self, _: usize, members: &[Member], _: &Recorder) -> State {
        let broken = Rc::<RefCell<Option<String>>>::default();
        let open = |member: &Member| member.mesh.open(CHANNEL).expect("nobody else opens it");
        let [server, guests @ ..] = members else { unreachable!("the shape has a server") };
        server.rt.spawn(serves(server.mesh.clone(), open(server), self.leave(), Rc::clone(&broken)));
        let start = |guest: &Member| {
            let answered = Rc::<Cell<u8>>::default();
            let told = (Rc::clone(&answered), Rc::clone(&broken));
            guest.rt.spawn(visits(guest.mesh.clone(), open(guest), (self.messages, self.leave()), told));
            answered
        };
        let answered = guests.iter().map(start).collect();
        State { answered, broken }
    }

    fn finish(&self, state: &State, members: &[Member], _: &Recorder) -> Result<(), Violation> {
        if let Some(text) = &*state.broken.borrow() {
            return Err(Violation::new(PROMISE, text.clone()));
        }
        let all = TIMES * self.messages;
        if let Some(answered) = state.answered.iter().map(|of| of.get()).find(|answered| *answered < all) {
            let text =
                format!("a guest was answered {answered} of {all} messages, and nothing happens any more");
            return Err(Violation::new("progress", text));
        }
        let audit = members[0].mesh.guests();
        let known = u64::from(self.guests);
        if self.leave() {
            let left = (audit.known, audit.lent, audit.admitted, audit.forgotten);
            let turned_away = Trouble { peer: None, cause: Cause::Full(1), times: 0 };
            let troubles = members[0].mesh.troubles();
            let is_that = |trouble: &Trouble| Trouble { times: 0, ..*trouble } == turned_away;
            if left != (0, 0, self.guests.into(), self.guests.into()) || !troubles.iter().all(is_that) {
                let text = format!("all guests have left, and the server keeps {audit:?} and {troubles:?}");
                return Err(Violation::new(PROMISE, text));
            }
            return self.judge_each(state, members);
        }
        if audit.known != known || audit.buffers != audit.most_buffers {
            return Err(Violation::new(PROMISE, format!("of {known} guests the server keeps {audit:?}")));
        }
        self.judge_each(state, members)
    }

    fn coverage(&self, _: &State, members: &[Member], sink: &mut Coverage) {
        match self.leave() {
            true => sink.sometimes("a guest was turned away", !members[0].mesh.troubles().is_empty()),
            false => {
                sink.sometimes(
                    "a frame only gave back",
                    any_counted(&members[1..], |stats| stats.control_frames),
                );
            }
        }
    }
}
