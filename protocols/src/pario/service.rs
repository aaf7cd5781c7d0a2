//! The service of a node: its calls, its buffers, and its server if it is one.

use super::buffer::{Buffer, Buffers};
use super::calls::{Answered, Calls, Held};
use super::messages::{Answer, OPENS, Request};
use super::moves::{self, Offer};
use super::server::{self, Server};
use super::slots::Slots;
use super::watch;
use super::wire::{Arrived, CHANNEL, PAUSE, Streams, UNASKED, Wire};
use super::{FsConfig, FsError, FsStats, Handle};
use crate::rt::Rt;
use crate::rt::sync::OneshotReceiver;
use crate::transport::{Hold, Inbox, Incoming, Mesh, Rank};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_verbs::{Nanos, Verbs, Work};

/// A life of a node: what it asks for and offers is of that one.
#[derive(Clone, Copy)]
pub(super) struct Life {
    pub peer: Rank,
    resets: u32,
}

/// What a node's service has.
pub(super) struct Shared<V: Verbs> {
    pub rt: Rt<V>,
    pub mesh: Mesh<V>,
    pub wire: Wire<V>,
    pub config: FsConfig,
    pub stats: RefCell<FsStats>,
    pub server: Option<Server<V>>,
    pub buffers: Buffers<V>,
    /// Bytes that its calls move or wait for.
    pub load: Cell<u64>,
    /// How often its applications have files open, by the epoch of the home in which they were opened.
    pub opens: RefCell<BTreeMap<(Handle, u64), u32>>,
    pub calls: Calls<V>,
    /// A guest that has files open is not to be forgotten by their home.
    home: RefCell<Option<Hold<V>>>,
    /// Of calls that change names.
    pub slots: Slots,
    /// How often each node has begun anew, as this service was told.
    resets: RefCell<BTreeMap<Rank, u32>>,
}

impl<V: Verbs> Shared<V> {
    /// Asks a server; see [`Calls::ask`].
    pub(super) async fn ask(
        &self,
        server: Rank,
        request: Request,
        held: Held<V>,
    ) -> Result<OneshotReceiver<Answered>, FsError> {
        let now = || self.rt.now();
        self.calls.ask((now, &self.wire), server, request, held, &self.stats).await
    }

    /// Waits a while before a server is asked again that did not answer: by streams, another one is opened to it.
    pub(super) async fn pause(&self) {
        self.pause_for(PAUSE).await;
    }

    /// The same for so long.
    pub(super) async fn pause_for(&self, pause: Nanos) {
        if let Wire::Streams(_) = self.wire {
            self.rt.sleep(pause).await;
        }
    }

    /// Waits until a call has ended.
    pub(super) async fn call_ended(&self, id: u64) {
        self.calls.ended(id).await;
    }

    /// What this node has open since an earlier epoch of the home than this one, behind a handle.
    fn open_since(&self, epoch: u64, after: Handle) -> Answer {
        let (beside, each) = OPENS;
        let room = (self.mesh.max_message().saturating_sub(beside) / each) as usize;
        let mut files: Vec<(Handle, u32)> = Vec::new();
        let opens = self.opens.borrow();
        for ((handle, _), opens) in
            opens.range((after, u64::MAX)..).filter(|((file, of), _)| *of != epoch && *file > after)
        {
            if let Some((last, times)) = files.last_mut()
                && last == handle
            {
                *times += opens;
                continue;
            }
            if files.len() == room {
                return Answer::Open { files, more: true };
            }
            files.push((*handle, *opens));
        }
        Answer::Open { files, more: false }
    }

    /// The life of a node that this service has to do with.
    pub(super) fn life_of(&self, peer: Rank) -> Life {
        Life { peer, resets: self.resets.borrow().get(&peer).copied().unwrap_or_default() }
    }

    /// Whether a node has begun anew since: what it had asked for or offered means nothing any more, though this service may not have
    /// been told yet. By streams, each life has streams of its own.
    pub(super) fn is_over(&self, Life { peer, resets }: Life) -> bool {
        self.wire.life_of(peer) > resets
    }

    /// Has the home of files know this node for as long as it has some open.
    pub(super) fn holds_home(&self, home: Rank) {
        let any = !self.opens.borrow().is_empty();
        let mut hold = self.home.borrow_mut();
        match any {
            true if hold.is_none() => *hold = self.wire.hold(home),
            true => {}
            false => *hold = None,
        }
    }

    /// This node's processor has copied data.
    pub(super) fn copied(&self, bytes: u64) {
        self.rt.spend(Work::Copy { bytes });
        self.stats.borrow_mut().copied += bytes;
    }
}

/// The files of a cluster, as a node has them: what its applications call, and its server if it is one of the first
/// [`FsConfig::servers`]. Clones are the same service.
pub struct Pario<V: Verbs>(pub(super) Rc<Shared<V>>);

impl<V: Verbs> Clone for Pario<V> {
    fn clone(&self) -> Pario<V> {
        Pario(Rc::clone(&self.0))
    }
}

impl<V: Verbs> Pario<V> {
    /// Starts the service of a node. Its mesh has no [members](crate::members): a server that these leave out would be lost to calls that
    /// wait for it, and files need nobody's word for who is alive. What needs members beside files has a mesh of its own.
    ///
    /// # Errors
    ///
    /// The configuration cannot be, another service has the channel, there is no memory for staging, or the machine has no
    /// disk where servers are to have one.
    pub fn start(rt: &Rt<V>, mesh: &Mesh<V>, config: FsConfig) -> Result<Pario<V>, FsError> {
        config.check(mesh.size(), mesh.max_message())?;
        let me = mesh.me().index() as u32;
        let (wire, inbox) = match config.wire {
            super::config::Wire::Verbs => (Wire::Mesh(mesh.clone()), Some(mesh.open(CHANNEL)?)),
            super::config::Wire::Tcp => {
                let names = mesh.names().to_vec();
                let own = (mesh.me(), rt.identity());
                let streams = Streams::start(rt, names, own, config.unit, me < config.servers)?;
                (Wire::Streams(streams), None)
            }
        };
        let lives = inbox.as_ref().map(|inbox| mesh.resets_before(inbox)).unwrap_or_default();
        let mut shared = Shared {
            rt: rt.clone(),
            mesh: mesh.clone(),
            wire,
            config,
            stats: RefCell::default(),
            server: None,
            buffers: Buffers::new(mesh),
            load: Cell::new(0),
            opens: RefCell::default(),
            resets: RefCell::new(lives),
            calls: Calls::new(config.window, mesh.incarnation()),
            home: RefCell::default(),
            slots: Slots::new(config.window, mesh.incarnation()),
        };
        if me < config.servers {
            shared.server = Some(Server::open(&shared, me, config)?);
        }
        let pario = Pario(Rc::new(shared));
        if pario.0.server.is_some() {
            drop(rt.spawn(server::recover(Rc::clone(&pario.0))));
        }
        if let Wire::Streams(streams) = &pario.0.wire {
            // Streams are part of what takes from them.
            let shared = Rc::downgrade(&pario.0);
            streams.deliver_to(Rc::new(move |from, arrived| {
                if let Some(pario) = shared.upgrade().map(Pario) {
                    pario.arrived(from, arrived);
                }
            }));
        }
        if config.probe_after < Nanos::MAX {
            drop(rt.spawn(watch::watch(Rc::clone(&pario.0))));
        }
        if let Some(inbox) = inbox {
            drop(rt.spawn(pario.clone().listen(inbox)));
        }
        Ok(pario)
    }

    /// What it has done so far.
    pub fn stats(&self) -> FsStats {
        let mut stats = *self.0.stats.borrow();
        if let Some(server) = &self.0.server {
            server.count(&mut stats);
        }
        let guests = self.0.mesh.guests();
        (stats.guests, stats.forgotten) = (guests.admitted, guests.forgotten);
        stats
    }

    /// Why this node's server answers nothing about names any more, as long as it lives: the directory's log is damaged, or could not be
    /// written. Only the first server has the directory.
    pub fn failed(&self) -> Option<FsError> {
        self.0.server.as_ref()?.failed().map(FsError::from)
    }

    /// Nodes for which removals wait: they may have files open since before the first server began anew, which this is, and have not told
    /// it yet. A file that is removed loses its name, and its bytes stay until each of them has come. Guests are not among them: for these it
    /// waits one lease.
    pub fn removals_wait_for(&self) -> Vec<Rank> {
        let unheard = self.0.server.iter().flat_map(Server::unheard);
        unheard.filter(|node| node.index() < self.0.mesh.size() as usize).collect()
    }

    /// What it holds although nobody asks for anything, by name: all zero when every call has ended and every file is closed.
    pub fn leftovers(&self) -> Vec<(&'static str, u64)> {
        let mut left = vec![("calls that servers have not answered", self.0.calls.len() as u64)];
        left.extend(self.0.server.iter().flat_map(Server::leftovers));
        left
    }

    /// A buffer for the data of calls, of so many bytes.
    ///
    /// # Errors
    ///
    /// It is longer than a region can be, or the adapter has no room for one more.
    pub fn buffer(&self, len: usize) -> Result<Buffer<V>, FsError> {
        self.0.buffers.take(len)
    }

    async fn listen(self, mut inbox: Inbox) {
        while let Some(incoming) = inbox.recv().await {
            match incoming {
                Incoming::Message(message) => self.received(message.from(), message.bytes()),
                Incoming::PeerReset { peer, .. } => {
                    *self.0.resets.borrow_mut().entry(peer).or_default() += 1;
                    self.0.calls.server_reset(peer, self.0.life_of(peer).resets);
                    server::client_reset(&self.0, peer);
                }
            }
        }
    }

    /// By the mesh, requests and answers come on one channel.
    fn received(&self, from: Rank, bytes: &[u8]) {
        let is_server = self.0.server.is_some();
        match Request::decode(bytes) {
            // The home of files asks its clients, and not another server.
            Some((id, Request::Opens { epoch, after })) => {
                let shared = Rc::clone(&self.0);
                drop(self.0.rt.spawn(async move {
                    // What it says of a file is so when it is sent: a close that is sent before is not in it, and one behind it is.
                    shared.wire.answer_with(from, id, || shared.open_since(epoch, after)).await
                }));
            }
            request => self.asked_or_answered(from, bytes, request.filter(|_| is_server)),
        }
    }

    fn asked_or_answered(&self, from: Rank, bytes: &[u8], request: Option<(u64, Request)>) {
        match request {
            Some((id, request)) => server::requested(&self.0, from, id, request),
            None => self.answered(from, Answer::decode(bytes)),
        }
    }

    fn answered(&self, from: Rank, answer: Option<(u64, Answer)>) {
        if let Some((id, Answer::Offer { op, place, runs, writes })) = answer {
            let (buffer, offer) = (self.0.calls.buffer_of(id, from), Offer { op, place, runs, writes });
            let (shared, server) = (Rc::clone(&self.0), self.0.life_of(from));
            return drop(self.0.rt.spawn(moves::take(shared, server, id, offer, buffer)));
        }
        // Before anything that the node sent behind it.
        if let Some((id, Answer::Open { files, more })) = &answer
            && self.0.calls.is_open(*id, from)
        {
            server::heard(&self.0, from, files, *more);
        }
        let mut stats = self.0.stats.borrow_mut();
        match answer {
            None => stats.malformed += 1,
            Some((UNASKED, _)) => {}
            // One that a server gave to an earlier life of this node, and that was sent to this one.
            Some((id, answer)) => stats.unasked += u64::from(!self.0.calls.answered(id, Ok(answer))),
        }
    }

    /// Something came by a stream.
    fn arrived(&self, peer: Rank, arrived: Arrived) {
        match arrived {
            Arrived::Request(frame) => match Request::of_frame(frame) {
                Some((id, request)) => server::requested(&self.0, peer, id, request),
                None => self.0.stats.borrow_mut().malformed += 1,
            },
            Arrived::Answer(frame) => self.answered(peer, Answer::of_frame(frame)),
            Arrived::ServerGone => self.0.calls.server_reset(peer, u32::MAX),
            Arrived::ClientGone => server::client_reset(&self.0, peer),
        }
    }
}
