//! A write and the message behind it, over a connection that breaks: what the peer is told is there, and nothing comes later.

use crate::explore::{Coverage, Entry, Key, Size, SizeError, Violation};
use crate::harness::{self, Member, Model, Shape, any_counted, worlds};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::rt::{BufferGuard, Rt};
use weft_protocols::transport::{Channel, Inbox, Incoming, Mesh, SendError};
use weft_sim::Sim;
use weft_verbs::{AccessFlags, MemoryRegion, RemoteSlice, Wait};

/// It is judged at its end alone.
type Recorder = harness::Recorder<()>;

const CHANNEL: Channel = Channel(0);

/// What is placed, in bytes.
const BYTES: usize = 16;

/// How data and message go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// As the transport does it.
    Place,
    /// The same, and the sender takes it back.
    Struck,
    /// The write is posted, the message is sent behind it, and the transport repeats what it kept: the message.
    NoticeAlone,
    /// The same, and the sender writes again where the write's outcome is unknown.
    WritesAgain,
}

const KEYS: &[Key] = &[
    Key { name: "requests", help: "how often data are placed" },
    Key { name: "rails", help: "how many adapters each node has" },
];

/// The worlds of placing.
pub fn worlds() -> Vec<Entry> {
    use Way::{NoticeAlone, Place, Struck, WritesAgain};
    worlds! { KEYS;
        "place" make(Place) Held, "the transport: data are written to a peer, and a message says that they are there";
        "place-struck" make(Struck) Held, "the transport: the same, and the sender takes both back: if the message comes, the data are there";
        "as-published-dsm-notice-alone" make(NoticeAlone) ViolatedUnderFaults, "the transport repeats a notice, and nobody its write";
        "as-published-dsm-writes-again" make(WritesAgain) ViolatedUnderFaults, "a write of unknown outcome is sent again, though its notice came";
    }
}

fn make(size: &Size, way: Way) -> Result<Places, SizeError> {
    let requests = size.number("requests")?.unwrap_or(if way == Way::Place { 2 } else { 1 });
    size.within("requests", requests, 1..=4)?;
    let rails = size.number("rails")?.unwrap_or(1);
    size.within("rails", rails, 1..=if way == Way::Place { 4 } else { 1 })?;
    Ok(Places { way, requests, rails: rails as u8 })
}

/// What the sender says when it has taken back what it placed.
const TAKEN_BACK: u8 = 200;

/// One node places data at the other, which looks at them when it is told, and then puts a mark of its own there.
struct Places {
    way: Way,
    requests: u32,
    rails: u8,
}

/// What an execution keeps, and its receiver.
#[derive(Clone)]
struct State {
    /// What was wrong first.
    broken: Rc<RefCell<Option<String>>>,
    /// The receiver's memory.
    memory: <Sim as weft_verbs::Verbs>::Mr,
    /// How many messages it has taken.
    taken: Rc<RefCell<u32>>,
    /// Whether data came in a message.
    carried: Rc<RefCell<bool>>,
}

/// The data that are placed the n-th time, and the mark that is put there afterwards.
fn data(number: u32) -> [u8; BYTES] {
    [1 + number as u8; BYTES]
}

fn mark(number: u32) -> [u8; BYTES] {
    [101 + number as u8; BYTES]
}

fn read(memory: &<Sim as weft_verbs::Verbs>::Mr) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    memory.read(0, &mut bytes).expect("it is as long");
    bytes
}

impl Model for Places {
    type State = State;
    type Oracles = ();

    fn size(&self) -> Size {
        Size::new([("requests", self.requests), ("rails", self.rails.into())])
    }

    fn rails(&self) -> u8 {
        self.rails
    }

    fn oracles(&self) {}

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder) -> State {
        let [sender, receiver] = members else { unreachable!("the shape has two nodes") };
        let open = |member: &Member| member.mesh.open(CHANNEL).expect("nobody else opens it");
        let alloc = |member: &Member, access| member.mesh.alloc(BYTES, access).expect("a few bytes");
        let memory = alloc(receiver, AccessFlags::LOCAL_WRITE.union(AccessFlags::REMOTE_WRITE));
        let source = alloc(sender, AccessFlags::LOCAL_WRITE);
        let at = memory.remote(0..BYTES).expect("all of it");
        let (broken, taken, carried) = (Rc::default(), Rc::default(), Rc::default());
        let requests = self.requests;
        let sends = Sender { rt: sender.rt.clone(), mesh: sender.mesh.clone(), way: self.way, at, source };
        sender.rt.spawn(sends.run(receiver.mesh.me(), open(sender), requests, recorder.clone()));
        let state = State { broken, memory, taken, carried };
        let takes = state.clone();
        receiver.rt.spawn(takes.run(receiver.mesh.clone(), open(receiver), recorder.clone()));
        state
    }

    fn finish(&self, state: &State, members: &[Member], _: &Recorder) -> Result<(), Violation> {
        if let Some(text) = &*state.broken.borrow() {
            return Err(Violation::new("data before the message", text.clone()));
        }
        if *state.taken.borrow() < self.requests && self.way != Way::Struck {
            return Err(Violation::new("progress", "a message never came"));
        }
        if *state.taken.borrow() == self.requests && read(&state.memory) != mark(self.requests - 1) {
            return Err(Violation::new("nothing later", "data came after the message behind them"));
        }
        self.judge_each(state, members)
    }

    fn coverage(&self, state: &State, members: &[Member], sink: &mut Coverage) {
        let any = |of| any_counted(members, of);
        sink.sometimes("a connection was made again", any(|stats| stats.reconnects));
        sink.sometimes("a message was sent again", any(|stats| stats.messages_repeated));
        sink.sometimes("a message came twice and was dropped", any(|stats| stats.duplicates));
        if self.way == Way::Struck {
            sink.sometimes("a message did not come", *state.taken.borrow() == 0);
            sink.sometimes("a message came all the same", *state.taken.borrow() > 0);
        }
        if self.rails > 1 {
            sink.sometimes("a message carried the data", *state.carried.borrow());
        }
    }
}

struct Sender {
    rt: Rt<Sim>,
    mesh: Mesh<Sim>,
    way: Way,
    at: RemoteSlice,
    source: <Sim as weft_verbs::Verbs>::Mr,
}

impl Sender {
    /// Places the data, or sends them where the connection stands on another rail than the memory's, or goes over to it.
    async fn place(&self, to: weft_protocols::transport::Rank, message: &[u8]) {
        let from = BufferGuard::Range { mr: self.source.clone(), at: 0, len: BYTES as u32 };
        match self.mesh.place(to, from, self.at, CHANNEL, message) {
            // Where there is one rail, the end of its first post is enough for the memory to be written again.
            Ok(placed) if self.mesh.always_places() => return placed.ended().await,
            Ok(mut placed) => {
                while placed.post_ended().await.is_some() {}
                if !placed.is_void() {
                    return;
                }
            }
            Err(why) => assert_eq!(why, SendError::OtherRail(to)),
        }
        let with_data = [message, &read(&self.source)].concat();
        self.mesh.send(to, CHANNEL, &with_data).expect("a mesh keeps more messages");
    }

    /// Places the data, and takes that back at some moment.
    async fn takes_back(&self, to: weft_protocols::transport::Rank, message: &[u8]) {
        let from = BufferGuard::Range { mr: self.source.clone(), at: 0, len: BYTES as u32 };
        let placed = self.mesh.place(to, from, self.at, CHANNEL, message).expect("there is one rail");
        self.rt.yield_now().await;
        placed.striker().strike();
        self.mesh.send(to, CHANNEL, &[TAKEN_BACK]).expect("a mesh keeps more messages");
    }

    /// Each time waits for the answer, and for the adapter, before it changes what it has placed.
    async fn run(
        self,
        to: weft_protocols::transport::Rank,
        mut inbox: Inbox,
        requests: u32,
        recorder: Recorder,
    ) {
        for number in 0..requests {
            self.source.write(0, &data(number)).expect("it is as long");
            recorder.say(0, || format!("places {number}"));
            let message = [number as u8];
            match self.way {
                Way::Place => self.place(to, &message).await,
                Way::Struck => return self.takes_back(to, &message).await,
                Way::NoticeAlone | Way::WritesAgain => {
                    let (mesh, at, again) = (self.mesh.clone(), self.at, self.way == Way::WritesAgain);
                    let writes =
                        async move { while mesh.write(to, at, &data(number)).await.is_err() && again {} };
                    self.rt.spawn(writes);
                    // The write is posted first.
                    self.rt.yield_now().await;
                    self.mesh.send(to, CHANNEL, &message).expect("a mesh keeps more messages");
                }
            }
            let Some(Incoming::Message(_)) = inbox.recv().await else { return };
        }
    }
}

impl State {
    async fn run(self, mesh: Mesh<Sim>, mut inbox: Inbox, recorder: Recorder) {
        while let Some(Incoming::Message(message)) = inbox.recv().await {
            if message.first() == Some(&TAKEN_BACK) {
                continue;
            }
            let number = u32::from(message.first().copied().unwrap_or_default());
            if let Some(data) = message.get(1..).filter(|data| data.len() == BYTES) {
                self.memory.write(0, data).expect("it is as long");
                *self.carried.borrow_mut() = true;
            }
            if read(&self.memory) != data(number) {
                self.broken
                    .borrow_mut()
                    .get_or_insert(format!("message {number} came, and its data are not there"));
            }
            recorder.say(1, || format!("takes {number}"));
            self.memory.write(0, &mark(number)).expect("it is as long");
            *self.taken.borrow_mut() += 1;
            mesh.send(message.from(), CHANNEL, &[0]).expect("a mesh keeps more messages");
        }
    }
}
