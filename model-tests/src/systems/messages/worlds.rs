//! The transport by itself: nodes that send each other messages, over connections that break and nodes that restart.

use super::delivery::{Correspondence, Delivery};
use super::history::Sent;
use crate::explore::{Coverage, Entry, Key, Size, SizeError, Violation};
use crate::harness::{self, Meeting, Member, Model, Shape, any_counted, worlds};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::rt::Rt;
use weft_protocols::transport::{Channel, Inbox, Incoming, Mesh, MeshConfig, Planted, Rank};
use weft_sim::explore::{FaultSet, Outcome};
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

/// It is judged at its end alone.
type Recorder = harness::Recorder<()>;

const CHANNEL: Channel = Channel(0);

/// The worlds of the transport.
pub fn worlds() -> Vec<Entry> {
    use Manner::{Closed, Introduced, Narrow, OneWay, Shallow, Standby, Timed, Unmet, Usual};
    let messages = worlds! { KEYS;
        "messages" make(Usual) Held, "the transport: each node sends a message to each other one";
        "planted-resumes-from-sent" make(Manner::Planted(Planted::ResumesFromSent)) ViolatedUnderFaults,
            "a new connection resumes from what was sent, and not from what was received";
        "messages-narrow" make(Narrow) Held, "the same, with room for few messages, and those long";
        "messages-shallow" make(Shallow) Held, "the same, with as many places in a send queue as messages";
        "messages-one-way" make(OneWay) Held, "the same of one node that connects and sends more than the other, which says nothing, has buffers for";
        "messages-timed" make(Timed) Held, "the same, with late acknowledgements, and probes of who stays silent";
        "messages-met" make(Introduced) Held, "the same, over connections that nodes make without a manager";
        "messages-unmet" make(Unmet) Held, "the same, and no connection is there before it is needed";
        "messages-standby" make(Standby) Held, "the same over two rails, with a connection that stands by";
        "messages-closed" make(Closed) Held, "the same, and who has heard all leaves";
    };
    let others = [
        super::rails::worlds(),
        super::expel::worlds(),
        super::guests::worlds(),
        super::operations::worlds(),
        super::own_broken::worlds(),
        super::misused::worlds(),
        super::strangers::worlds(),
        super::touched::worlds(),
        super::runtime::worlds(),
    ];
    [messages, others.concat()].concat()
}

/// What is unusual about a world of messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Nothing.
    Usual,
    /// Few places for messages, and long ones.
    Narrow,
    /// No more places in a send queue than messages that are kept.
    Shallow,
    /// The first node connects and sends, and the others say nothing: it gets its credits back by frames that say nothing else, and its first
    /// frames come before the connection is said to stand.
    OneWay,
    /// Timers of acknowledgements and probes.
    Timed,
    /// Connections that are made by hand.
    Introduced,
    /// Connections that are made when they are needed.
    Unmet,
    /// A connection that stands by.
    Standby,
    /// Who has heard all that it should closes its mesh.
    Closed,
    /// A mistake that the transport makes.
    Planted(Planted),
}

/// The length of a usual message, and of one that an inbox does not keep in place.
const SHORT: usize = 8;
const LONG: usize = 72;

const KEYS: &[Key] = &[
    Key { name: "nodes", help: "how many nodes" },
    Key { name: "requests", help: "how many messages each node sends to each other one" },
    Key { name: "rails", help: "how many adapters each node has" },
];

fn make(size: &Size, manner: Manner) -> Result<Messages, SizeError> {
    let usual = match manner {
        Manner::Narrow | Manner::Shallow => 4,
        // Twice as many as there are credits, and more than there are buffers.
        Manner::OneWay => 12,
        _ => 1,
    };
    let (nodes, messages) = (size.number("nodes")?.unwrap_or(2), size.number("requests")?.unwrap_or(usual));
    size.within("nodes", nodes, 2..=8)?;
    size.within("requests", messages, 1..=if manner == Manner::OneWay { 16 } else { 8 })?;
    let rails = size.number("rails")?.unwrap_or(match manner {
        Manner::Planted(_) | Manner::Standby => 2,
        _ => 1,
    });
    size.within("rails", rails, 1..=4)?;
    Ok(Messages { nodes, messages, rails: rails as u8, manner })
}

/// Every node sends messages to each of the others; one that restarts begins again.
pub struct Messages {
    /// How many nodes there are.
    pub nodes: u32,
    /// How many messages each sends to each of the others.
    pub messages: u32,
    /// How many adapters each has.
    pub rails: u8,
    /// What is unusual about it.
    pub manner: Manner,
}

/// What one node has heard and done.
#[derive(Default)]
struct Ledger {
    /// How often it has restarted.
    life: u32,
    /// How many messages this life has sent to each of the others.
    sent: u32,
    /// By sender: what arrived, and in which life of this node.
    arrived: Vec<Vec<(u32, Sent)>>,
    /// By peer: what this life was told of the peer's new lives.
    resets: Vec<Vec<u64>>,
}

/// What an execution keeps.
pub struct State(Vec<Rc<RefCell<Ledger>>>);

impl Messages {
    /// A node's life begins: it listens, and it sends.
    fn live(&self, node: u32, member: &Member, ledger: &Rc<RefCell<Ledger>>, recorder: &Recorder) {
        let inbox = member.mesh.open(CHANNEL).expect("nobody else opens it");
        let all = self.messages as usize * (self.nodes as usize - 1);
        let leaves = (self.manner == Manner::Closed).then(|| (member.mesh.clone(), all));
        member.rt.spawn(listen(inbox, node, Rc::clone(ledger), recorder.clone(), leaves));
        let (rt, mesh, ledger, recorder) =
            (member.rt.clone(), member.mesh.clone(), Rc::clone(ledger), recorder.clone());
        let is_silent = self.manner == Manner::OneWay && node > 0;
        let (nodes, messages) = (self.nodes, if is_silent { 0 } else { self.messages });
        let length = if self.manner == Manner::Narrow { LONG } else { SHORT };
        member.rt.spawn(async move {
            for number in 0..messages {
                let sent = Sent { incarnation: ledger.borrow().life, number };
                for peer in (0..nodes).filter(|peer| *peer != node) {
                    send(&rt, &mesh, Rank::from_index(peer), sent, length).await;
                    recorder.say(node, || format!("sends {sent} to n{peer}"));
                }
                ledger.borrow_mut().sent += 1;
                // Whatever should not happen between two messages can happen here.
                rt.yield_now().await;
            }
        });
    }

    /// What is broken of the messages from one node to another.
    fn broken(&self, state: &State, from: u32, to: u32) -> Option<String> {
        let (sender, receiver) = (state.0[from as usize].borrow(), state.0[to as usize].borrow());
        let mut all = Correspondence::default();
        (0..sender.life).for_each(|_| all.sender_restarted());
        (0..sender.sent).for_each(|_| all.sends());
        for &(life, message) in &receiver.arrived[from as usize] {
            while all.receiver() < life {
                all.receiver_restarted();
            }
            if let Err(text) = all.arrives(message) {
                return Some(text);
            }
        }
        while all.receiver() < receiver.life {
            all.receiver_restarted();
        }
        let told = sender.resets[to as usize].iter().find_map(|lost| all.told(*lost).err());
        told.or_else(|| all.finish().err())
    }
}

/// Sends a message once there is room for it, and memory; none if the mesh is closed.
async fn send(rt: &Rt<Sim>, mesh: &Mesh<Sim>, to: Rank, Sent { incarnation, number }: Sent, length: usize) {
    let mut bytes = [incarnation.to_le_bytes(), number.to_le_bytes()].concat();
    bytes.resize(length, number as u8);
    while mesh.room(to).await.is_ok() {
        match mesh.send(to, CHANNEL, &bytes) {
            Err(why) if why.lacks_memory() => rt.yield_now().await,
            sent => return sent.expect("there is room for it"),
        }
    }
}

fn read(bytes: &[u8]) -> Option<Sent> {
    let ([life, number], rest) = bytes.as_chunks::<4>().0.split_first_chunk::<2>()?;
    let [life, number] = [life, number].map(|word| u32::from_le_bytes(*word));
    rest.as_flattened().iter().all(|byte| *byte == number as u8).then_some(Sent { incarnation: life, number })
}

async fn listen(
    mut inbox: Inbox,
    node: u32,
    ledger: Rc<RefCell<Ledger>>,
    recorder: Recorder,
    leaves: Option<(Mesh<Sim>, usize)>,
) {
    while let Some(incoming) = inbox.recv().await {
        let mut ledger = ledger.borrow_mut();
        let life = ledger.life;
        match incoming {
            Incoming::Message(message) => {
                let from = message.from().index();
                // What cannot be read was never sent by anybody, and counts as that.
                let sent = read(message.bytes()).unwrap_or(Sent { incarnation: u32::MAX, number: u32::MAX });
                ledger.arrived[from].push((life, sent));
                recorder.say(node, || format!("hears {sent} of n{from}"));
                if let Some((mesh, all)) = &leaves
                    && ledger.arrived.iter().map(Vec::len).sum::<usize>() == *all
                {
                    mesh.close();
                }
            }
            Incoming::PeerReset { peer, lost } => {
                ledger.resets[peer.index()].push(lost);
                recorder.say(node, || format!("is told that n{} is new; {lost} may be lost", peer.index()));
            }
        }
    }
}

impl Model for Messages {
    type State = State;
    type Oracles = ();

    fn size(&self) -> Size {
        Size::new([("nodes", self.nodes), ("requests", self.messages), ("rails", self.rails.into())])
    }

    fn rails(&self) -> u8 {
        self.rails
    }

    fn mesh(&self, config: &mut MeshConfig) {
        if matches!(self.manner, Manner::Narrow | Manner::Timed) {
            harness::with_timers(config);
        }
        match self.manner {
            Manner::Narrow => {
                (config.send_depth, config.max_queued) = (4, 2);
                config.max_message = LONG as u32;
            }
            Manner::Shallow => (config.send_depth, config.max_queued) = (4, 4),
            Manner::Standby => config.standby = true,
            Manner::Planted(planted) => config.planted = Some(planted),
            _ => {}
        }
    }

    fn drift(&self) -> Option<Nanos> {
        matches!(self.manner, Manner::Narrow | Manner::Timed).then_some(harness::DRIFT)
    }

    /// Of two requests for a connection that cross one is taken, and nobody waits until another one is made. (Where few messages are kept,
    /// room comes with late acknowledgements.)
    fn needs_no_time(&self) -> bool {
        !matches!(self.manner, Manner::Narrow | Manner::Timed | Manner::Closed)
    }

    /// A message has yet to arrive.
    fn is_open(&self, state: Option<&State>, _: &Recorder) -> bool {
        let pairs = (0..self.nodes).flat_map(|from| (0..self.nodes).map(move |to| (from, to)));
        let mut pairs = pairs.filter(|(from, to)| from != to);
        state.is_some_and(|state| pairs.any(|(from, to)| self.broken(state, from, to).is_some()))
    }

    fn meeting(&self) -> Meeting {
        match self.manner {
            Manner::Introduced => Meeting::Introduced,
            Manner::Unmet | Manner::OneWay => Meeting::Unmet,
            _ => Meeting::Joined,
        }
    }

    fn oracles(&self) {}

    fn shape(&self) -> Shape {
        Shape { nodes: self.nodes, wait: Wait::Poll, home: None, one_by_one: true }
    }

    /// Restarts, too: a peer is told of them. What was on its way to who left is lost, whatever was promised. And of one that says nothing,
    /// and whose end has broken, nobody hears who does not ask after what is not acknowledged.
    fn usual_faults(&self) -> FaultSet {
        let survived = FaultSet::TIMELESS.without(Outcome::Crash);
        match self.manner {
            Manner::Closed | Manner::OneWay => FaultSet::NONE,
            Manner::Narrow | Manner::Timed => survived.without(Outcome::Restart),
            _ => survived,
        }
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder) -> State {
        let none = || Ledger {
            arrived: vec![Vec::new(); self.nodes as usize],
            resets: vec![Vec::new(); self.nodes as usize],
            ..Ledger::default()
        };
        let state = State(members.iter().map(|_| Rc::new(RefCell::new(none()))).collect());
        for (node, member) in (0..).zip(members) {
            self.live(node, member, &state.0[node as usize], recorder);
        }
        state
    }

    fn restart(&self, state: &mut State, node: NodeId, member: &Member, recorder: &Recorder) {
        let ledger = &state.0[node.index()];
        {
            let mut ledger = ledger.borrow_mut();
            ledger.life += 1;
            ledger.sent = 0;
            ledger.resets.iter_mut().for_each(Vec::clear);
        }
        self.live(node.0, member, ledger, recorder);
    }

    fn finish(&self, state: &State, members: &[Member], _: &Recorder) -> Result<(), Violation> {
        for (from, to) in (0..self.nodes).flat_map(|from| (0..self.nodes).map(move |to| (from, to))) {
            if from != to
                && let Some(text) = self.broken(state, from, to)
            {
                return Err(Delivery::violation(Nanos::ZERO, from, to, &text).into());
            }
        }
        self.judge_each(state, members)
    }

    fn coverage(&self, state: &State, members: &[Member], sink: &mut Coverage) {
        let any = |of| any_counted(members, of);
        let lost = state.0.iter().any(|ledger| ledger.borrow().resets.iter().flatten().any(|lost| *lost > 0));
        sink.sometimes("a connection was made again", any(|stats| stats.reconnects));
        sink.sometimes("a message was sent again", any(|stats| stats.messages_repeated));
        sink.sometimes("a message came twice and was dropped", any(|stats| stats.duplicates));
        sink.sometimes("a queue pair was fenced", any(|stats| stats.fences));
        sink.sometimes("a peer was found to be new", any(|stats| stats.peer_resets));
        sink.sometimes("messages to a node that restarted may be lost", lost);
        if self.manner == Manner::OneWay {
            sink.sometimes("a frame said only what was owed", any(|stats| stats.control_frames));
        }
        if self.rails > 1 {
            sink.sometimes("a connection went over another rail", any(|stats| stats.failovers));
            sink.sometimes("a connection went back to a better rail", any(|stats| stats.failbacks));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::{Options, explore};
    use crate::harness::Harness;
    use std::ops::ControlFlow;

    #[test]
    fn who_says_nothing_gives_credits_back_before_its_buffers_are_used_up() {
        let model = make(&Size::default(), Manner::OneWay).expect("the usual size");
        let mut harness = Harness::new("one way", model);
        let report = explore(&mut harness, &Options::default(), &mut |_| ControlFlow::Continue(()));
        let report = report.expect("explores");
        assert!(
            report.held() && report.exhaustive,
            "{:?}",
            report.counterexample.map(|found| found.violation)
        );
    }
}
