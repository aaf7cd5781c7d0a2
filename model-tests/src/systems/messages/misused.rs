//! What a program may not ask of a mesh is refused, whatever else goes on: settings that cannot work, connections that do not fit,
//! messages that cannot be sent, a mesh that is closed.
//!
//! Two nodes send each other a message meanwhile, and hear it.

use crate::explore::{Entry, Violation};
use crate::harness::{self, Member, Model, Shape, of_one_size, worlds};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::locks::{LockConfig, LockError, LockService, Scheme};
use weft_protocols::members::{Members, MembersConfig, MembersError};
use weft_protocols::rt::{BufferGuard, Rt, RtConfig, RtError, WaitPoint};
use weft_protocols::transport::{
    AdoptError, Channel, GuestConfig, Incoming, Mesh, MeshConfig, NotExecuted, OpError, Rank, SendError,
    TransportError,
};
use weft_sim::Sim;
use weft_verbs::{AccessFlags, MemoryRegion, Nanos, VerbsError, Wait};

/// It is judged at its end alone.
type Recorder = harness::Recorder<()>;

const CHANNEL: Channel = Channel(0);

/// The world.
pub fn worlds() -> Vec<Entry> {
    worlds! { &[];
        "messages-misused" of_one_size(Misused) Held, "the transport: what no program may ask of a mesh is refused";
    }
}

struct Misused;

/// What an execution keeps.
struct State {
    /// What was taken that should have been refused, or the other way round.
    broken: Rc<RefCell<Vec<String>>>,
    heard: Rc<Cell<u32>>,
}

impl State {
    fn must(&self, what: &str, holds: bool) {
        if !holds {
            self.broken.borrow_mut().push(what.to_owned());
        }
    }
}

/// Settings that no mesh can have, by the field that is wrong.
fn wrong(good: &MeshConfig) -> Vec<(&'static str, MeshConfig)> {
    let usual = GuestConfig::default();
    let with = |field, change: &dyn Fn(&mut MeshConfig)| {
        let mut config = good.clone();
        change(&mut config);
        (field, config)
    };
    vec![
        with("me", &|config| config.me = Rank::from_index(9)),
        with("recv_buffers", &|config| config.recv_buffers = 7),
        with("send_depth", &|config| config.send_depth = 3),
        with("probe_after", &|config| config.probe_after = Nanos::ZERO),
        with("recv_buffers or send_depth", &|config| config.send_depth = u32::MAX),
        with("max_message", &|config| config.max_message = 2 << 20),
        with("max_queued", &|config| config.max_queued = 0),
        with("port", &|config| config.port = 9),
        with("reconnect_min", &|config| config.reconnect_min = Nanos::ZERO),
        with("other_rails", &|config| config.other_rails = vec![config.peers.clone(); 7]),
        with("max_message", &|config| (config.atomics, config.max_message) = (false, 32)),
        with("guests.most", &|config| config.guests = Some(GuestConfig { most: 0, ..usual })),
        with("guests.send_depth", &|config| config.guests = Some(GuestConfig { send_depth: 3, ..usual })),
        with("guests.lease", &|config| config.guests = Some(GuestConfig { lease: Nanos::ZERO, ..usual })),
    ]
}

impl Misused {
    /// Settings that cannot work. A mesh has none of them.
    fn settings(state: &State, Member { rt, mesh }: &Member) {
        let good = MeshConfig::new(mesh.me(), mesh.names().to_vec());
        for (wrong, config) in wrong(&good) {
            let refused = Mesh::start(rt, config).err();
            let is_named = matches!(refused, Some(TransportError::Config { field, .. }) if field == wrong);
            state.must(wrong, is_named);
        }
        let lease = Nanos::from_millis(30);
        let members = MembersConfig { nodes: mesh.size(), lease, drift: lease, patience: lease };
        for (wrong, config) in [
            ("nodes", MembersConfig { nodes: 9, ..members }),
            ("lease or patience", MembersConfig { lease: Nanos::ZERO, ..members }),
            ("the mesh's max_message", members),
        ] {
            let refused = Members::start(rt, mesh, config).err();
            let is_named = matches!(refused, Some(MembersError::Config { field, .. }) if field == wrong);
            state.must(wrong, is_named);
        }
        let locks = LockConfig::new(Scheme::Ncosed, mesh.size());
        for (wrong, config) in [
            ("members", LockConfig { members: 9, ..locks }),
            ("local_hand_offs", LockConfig { local_hand_offs: 256, ..locks }),
            ("shared_limit", LockConfig { shared_limit: 0, ..locks }),
        ] {
            let refused = LockService::start(rt, mesh, config).err();
            let is_named = matches!(refused, Some(LockError::Config { field, .. }) if field == wrong);
            state.must(wrong, is_named);
        }
        for (wrong, config) in [
            ("cqe", RtConfig { cqe: 0, ..RtConfig::default() }),
            ("poll_batch", RtConfig { poll_batch: 0, ..RtConfig::default() }),
            ("max_rounds", RtConfig { max_rounds: 0, ..RtConfig::default() }),
        ] {
            let refused = Rt::<Sim>::new(rt.context(), config).err();
            state.must(wrong, refused == Some(RtError::Zero(wrong)));
        }
        let listens = rt.listen(good.service).err();
        state.must("a service that is taken", matches!(listens, Some(VerbsError::Busy(_))));
    }

    /// Data that cannot be placed.
    fn places(state: &State, mesh: &Mesh<Sim>, other: Rank) {
        let Ok(memory) = mesh.alloc(16, AccessFlags::LOCAL_WRITE) else { return };
        let at = memory.remote(0..8).expect("a part of it");
        let from = |len| BufferGuard::Range { mr: memory.clone(), at: 0, len };
        let nobody = Rank::from_index(9);
        let to_nobody = mesh.place(nobody, from(8), at, CHANNEL, &[]).err();
        state.must("data for nobody", to_nobody == Some(SendError::NoSuchPeer(nobody)));
        let to_itself = mesh.place(mesh.me(), from(8), at, CHANNEL, &[]).err();
        state.must("data for oneself", to_itself == Some(SendError::NoSuchPeer(mesh.me())));
        let longer = mesh.place(other, from(16), at, CHANNEL, &[]).err();
        let is_longer = matches!(longer, Some(SendError::Memory(VerbsError::OutOfRange { .. })));
        state.must("data that are longer than their place", is_longer);
    }

    /// Connections that do not fit: a peer that there is not, one that is connected, and what nobody has said.
    fn connections(state: &State, mesh: &Mesh<Sim>, other: Rank) {
        let nobody = Rank::from_index(9);
        state.must(
            "a peer that there is not",
            mesh.prepare(nobody).err() == Some(AdoptError::NoSuchPeer(nobody)),
        );
        let again = mesh.prepare(other).err();
        state.must("a connection that stands", again == Some(AdoptError::Connected(other)));
        let Ok([near, far]) = mesh.prepare_loopback() else {
            return state.must("a connection to oneself", false);
        };
        let hello = far.introduction();
        state.must("to oneself", near.peer() == mesh.me());
        state.must("what is no hello", near.adopt(&[0; 4]) == Err(AdoptError::Unreadable));
        let changed = |at: usize, to: u32| {
            let mut changed = hello.clone();
            changed[at..at + 4].copy_from_slice(&to.to_le_bytes());
            mesh.prepare_loopback().map(|[near, _]| near.adopt(&changed))
        };
        state.must("a stranger", matches!(changed(4, 7), Ok(Err(AdoptError::Stranger { .. }))));
        state.must("other messages", matches!(changed(32, 65), Ok(Err(AdoptError::Mismatch { .. }))));
        state.must("few buffers", matches!(changed(28, 7), Ok(Err(AdoptError::Mismatch { .. }))));
        let unready = mesh.prepare_loopback().map(|[near, _]| near.adopt(&hello));
        state.must("a queue pair that is not ready", matches!(unready, Ok(Err(AdoptError::NotReady(_)))));
    }

    /// Messages and channels.
    fn messages(state: &State, mesh: &Mesh<Sim>, other: Rank) {
        let nobody = Rank::from_index(9);
        let to_nobody = mesh.send(nobody, CHANNEL, &[]);
        state.must("a message to nobody", to_nobody == Err(SendError::NoSuchPeer(nobody)));
        let (len, max) = (mesh.max_message() as usize + 1, mesh.max_message());
        let long = mesh.send(other, CHANNEL, &vec![0; len]);
        state.must("a long message", long == Err(SendError::TooLong { len, max }));
        for taken in [CHANNEL, Channel(252), Channel(253), Channel(255)] {
            let opened = mesh.open(taken).err();
            state.must("a channel that is taken", opened == Some(TransportError::ChannelTaken(taken)));
        }
    }

    /// All of a mesh that is closed.
    async fn closed(state: &State, rt: &Rt<Sim>, mesh: &Mesh<Sim>, other: Rank) {
        let prepared = mesh.prepare_loopback();
        mesh.close();
        // Once is enough.
        mesh.close();
        if let Ok([near, far]) = prepared {
            let late = near.adopt(&far.introduction());
            state.must("a connection for a closed mesh", late == Err(AdoptError::Closed));
        }
        state.must("closed", mesh.is_closed());
        let sent = mesh.send(other, CHANNEL, &[]);
        state.must("a message on a closed mesh", sent == Err(SendError::Closed));
        state.must("room on a closed mesh", mesh.room(other).await == Err(SendError::Closed));
        let opened = mesh.open(Channel(9)).err();
        state.must("a channel of a closed mesh", opened == Some(TransportError::Closed));
        state.must("a connection of a closed mesh", mesh.prepare(other).err() == Some(AdoptError::Closed));
        let word = mesh.alloc(8, AccessFlags::LOCAL_WRITE).and_then(|memory| memory.remote(0..8));
        if let Ok(word) = word {
            let read = mesh.read(other, word, &mut [0; 8]).await;
            let is_closed = read == Err(OpError::NotExecuted(NotExecuted::Closed));
            state.must("a read on a closed mesh", is_closed);
        }
        let resolved = mesh.resolve_outcomes(other).await;
        state.must("outcomes on a closed mesh", resolved == Err(NotExecuted::Closed));
        rt.yield_now().at("closed").await;
    }
}

impl Model for Misused {
    type State = State;
    type Oracles = ();

    fn oracles(&self) {}

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder) -> State {
        let state = State { broken: Rc::default(), heard: Rc::default() };
        for (node, member) in (0..).zip(members) {
            let other = Rank::from_index(1 - node);
            let mut inbox = member.mesh.open(CHANNEL).expect("nobody else opens it");
            if node == 0 {
                Misused::settings(&state, member);
                Misused::connections(&state, &member.mesh, other);
                Misused::messages(&state, &member.mesh, other);
                Misused::places(&state, &member.mesh, other);
            }
            let (rt, mesh, recorder) = (member.rt.clone(), member.mesh.clone(), recorder.clone());
            let State { broken, heard } = &state;
            let state = State { broken: Rc::clone(broken), heard: Rc::clone(heard) };
            member.rt.spawn(async move {
                state.must("a message", mesh.send(other, CHANNEL, &[node as u8]).is_ok());
                if let Some(Incoming::Message(message)) = inbox.recv().await {
                    state.must("the other's message", message.bytes() == [1 - node as u8]);
                    state.heard.set(state.heard.get() + 1);
                    recorder.say(node, || "has heard".to_string());
                }
                state.must("no more messages", inbox.is_empty() && inbox.try_recv().is_none());
                // The first one speaks last: what it hears says that nothing more of its own is on its way.
                if node == 0 {
                    Misused::closed(&state, &rt, &mesh, other).await;
                }
            });
        }
        state
    }

    /// Who has left answers nobody any more.
    fn usual_faults(&self) -> weft_sim::explore::FaultSet {
        weft_sim::explore::FaultSet::NONE
    }

    fn finish(&self, state: &State, _: &[Member], _: &Recorder) -> Result<(), Violation> {
        if let Some(what) = state.broken.borrow().first() {
            return Err(Violation::new("misuse", format!("not as it should be: {what}")));
        }
        match state.heard.get() {
            2 => Ok(()),
            // The first one may have left before its message was repeated.
            heard => Err(Violation::new("progress", format!("{heard} of two nodes have heard the other"))),
        }
    }
}
