//! The service of a node: it keeps the segments of which it is the home, and finds those of others.

use super::home::{Action, Home};
use super::messages::Message;
use super::{DdssError, DdssStats, Name, Spec};
use crate::rt::Rt;
use crate::rt::sync::{OneshotSender, Signal, oneshot};
use crate::transport::{Channel, Inbox, Incoming, Mesh, Rank, SendError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_verbs::{AccessFlags, MemoryRegion, RemoteSlice, Verbs};

/// The channel of segments' messages.
const CHANNEL: Channel = Channel(2);

/// What peers may do with a segment. A get may meet a put that writes the slot again: it sees by the header that somebody has
/// published, and reads again; under null it takes anything.
const ACCESS: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_ATOMIC)
    .union(AccessFlags::TORN_READS);

/// A segment that is open at a node. Clones are the same.
#[derive(Clone)]
pub struct Segment(pub(super) Rc<Open>);

/// What a node knows of a segment.
pub(super) struct Open {
    pub home: Rank,
    pub at: RemoteSlice,
    pub spec: Spec,
    /// A put of this node is under way.
    pub busy: Cell<bool>,
    /// Puts that wait for their turn.
    pub turn: Signal,
}

impl Segment {
    /// What it is.
    pub fn spec(&self) -> Spec {
        self.0.spec
    }
}

/// The service of a node, and what its applications call. Clones are the same service.
pub struct Ddss<V: Verbs>(pub(super) Rc<Shared<V>>);

pub(super) struct Shared<V: Verbs> {
    rt: Rt<V>,
    pub mesh: Mesh<V>,
    pub stats: RefCell<DdssStats>,
    home: RefCell<Home>,
    /// The memory of the segments kept here; it lives as long as the service.
    memory: RefCell<Vec<V::Mr>>,
    open: RefCell<BTreeMap<Name, Segment>>,
    asked: RefCell<BTreeMap<u64, OneshotSender<Message>>>,
    next_id: Cell<u64>,
}

impl<V: Verbs> Clone for Ddss<V> {
    fn clone(&self) -> Ddss<V> {
        Ddss(Rc::clone(&self.0))
    }
}

impl<V: Verbs> Ddss<V> {
    /// Starts the service of a node.
    ///
    /// # Errors
    ///
    /// Another service has the channel.
    pub fn start(rt: &Rt<V>, mesh: &Mesh<V>) -> Result<Ddss<V>, DdssError> {
        let inbox = mesh.open(CHANNEL)?;
        let ddss = Ddss(Rc::new(Shared {
            rt: rt.clone(),
            mesh: mesh.clone(),
            stats: RefCell::default(),
            home: RefCell::default(),
            memory: RefCell::default(),
            open: RefCell::default(),
            asked: RefCell::default(),
            next_id: Cell::new(0),
        }));
        rt.spawn(ddss.clone().listen(inbox));
        Ok(ddss)
    }

    /// What it has done so far.
    pub fn stats(&self) -> DdssStats {
        *self.0.stats.borrow()
    }

    /// Requests to homes that have not been answered.
    pub fn unanswered(&self) -> u64 {
        self.0.asked.borrow().len() as u64
    }

    /// Opens a segment; its home makes it if it is not there, all zero. Waits for the home as long as it takes.
    ///
    /// # Errors
    ///
    /// The segment cannot be, or is there and is otherwise.
    pub async fn open(&self, name: Name, spec: Spec) -> Result<Segment, DdssError> {
        if spec.size == 0 || spec.size > Spec::LARGEST {
            return Err(DdssError::Size(spec.size));
        }
        if let Some(known) = self.0.open.borrow().get(&name) {
            return agreed(known.spec(), spec).map(|()| known.clone());
        }
        let home = name.home(self.0.mesh.size());
        let (tell, told) = oneshot();
        let id = self.0.next_id.replace(self.0.next_id.get() + 1);
        self.0.asked.borrow_mut().insert(id, tell);
        self.send(home, Message::Open { id, name, spec }).await?;
        match told.await.map_err(|_| DdssError::Closed)? {
            Message::Here { at, .. } => Ok(self.opened(name, home, at, spec)),
            Message::Otherwise { spec: there, .. } => agreed(there, spec).and(Err(DdssError::Memory)),
            Message::NoMemory { .. } | Message::Open { .. } => Err(DdssError::Memory),
        }
    }

    /// Another task of the node may have opened it meanwhile: a node has one view of a segment.
    fn opened(&self, name: Name, home: Rank, at: RemoteSlice, spec: Spec) -> Segment {
        let new = || {
            let (busy, turn) = (Cell::new(false), Signal::new());
            Segment(Rc::new(Open { home, at, spec, busy, turn }))
        };
        self.0.open.borrow_mut().entry(name).or_insert_with(new).clone()
    }

    /// Sends a message as soon as the transport has room for it.
    async fn send(&self, to: Rank, message: Message) -> Result<(), DdssError> {
        loop {
            self.0.mesh.room(to).await?;
            match self.0.mesh.send(to, CHANNEL, &message.encode()) {
                // Another task took the place.
                Err(SendError::Full { .. }) => {}
                done => return Ok(done?),
            }
        }
    }

    async fn listen(self, mut inbox: Inbox) {
        while let Some(incoming) = inbox.recv().await {
            let Incoming::Message(message) = incoming else { continue };
            let from = message.from();
            match Message::decode(message.bytes()) {
                Some(Message::Open { id, name, spec }) => {
                    let answer = self.serve(id, name, spec);
                    // A peer that takes no messages now must not hold up the others' answers.
                    let ddss = self.clone();
                    self.0.rt.spawn(async move { drop(ddss.send(from, answer).await) });
                }
                Some(answer) => self.answered(answer),
                None => self.0.stats.borrow_mut().malformed += 1,
            }
        }
    }

    fn serve(&self, id: u64, name: Name, spec: Spec) -> Message {
        let action = self.0.home.borrow().on_open(id, name, spec);
        match action {
            Action::Answer(answer) => answer,
            Action::Make => match self.make(spec) {
                Some(at) => {
                    self.0.home.borrow_mut().made(name, spec, at);
                    Message::Here { id, at }
                }
                None => Message::NoMemory { id },
            },
        }
    }

    /// Each segment is a region of its own, with a remote key of its own.
    fn make(&self, spec: Spec) -> Option<RemoteSlice> {
        let len = u32::try_from(spec.footprint(self.0.mesh.size())).ok()?;
        let memory = self.0.mesh.alloc(len as usize, ACCESS).ok()?;
        let at = memory.remote(0..len as usize).ok()?;
        self.0.memory.borrow_mut().push(memory);
        self.0.stats.borrow_mut().segments += 1;
        Some(at)
    }

    fn answered(&self, answer: Message) {
        let (Message::Open { id, .. }
        | Message::Here { id, .. }
        | Message::Otherwise { id, .. }
        | Message::NoMemory { id }) = answer;
        match self.0.asked.borrow_mut().remove(&id) {
            // Nobody waits for it any more if the call was dropped.
            Some(waiting) => drop(waiting.send(answer)),
            None => self.0.stats.borrow_mut().malformed += 1,
        }
    }
}

fn agreed(there: Spec, wanted: Spec) -> Result<(), DdssError> {
    let Spec { size, model } = there;
    if there == wanted { Ok(()) } else { Err(DdssError::Otherwise { size, model }) }
}
