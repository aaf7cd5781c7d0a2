//! The sockets of a node: messages come in from the transport and find their stream; what streams have to say goes out.

use super::endpoint::{Endpoint, Event, Failure, Outgoing};
use super::framed::{Bytes, Framed};
use super::listener::Backlog;
use super::message::{Greeting, HEADER_LEN, Handle, Message};
use super::outbox::Outbox;
use super::socket::{Came, Chunk, Socket, Wanted};
use super::stream::Address;
use super::table::Table;
use super::zcopy::keep_bytes;
use super::{Refusal, SdpError, SdpListener, SdpOptions, SdpStats};
use crate::rt::Rt;
use crate::rt::sync::Signal;
use crate::transport::{
    BEFORE_MEMORY_IS_ASKED_FOR, Channel, Inbox, Incoming, Mesh, Message as Received, Rank, SendError,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use weft_verbs::{Nanos, Verbs, Work};

/// The channel of sockets' messages.
pub const CHANNEL: Channel = Channel(3);

/// The sockets of a node. Clones are the same.
pub struct Sdp<V: Verbs> {
    pub(super) shared: Rc<Shared<V>>,
}

impl<V: Verbs> Clone for Sdp<V> {
    fn clone(&self) -> Sdp<V> {
        Sdp { shared: Rc::clone(&self.shared) }
    }
}

pub(super) struct Shared<V: Verbs> {
    pub rt: Rt<V>,
    pub mesh: Mesh<V>,
    pub options: SdpOptions,
    pub stats: RefCell<SdpStats>,
    pub table: RefCell<Table<V>>,
    pub listeners: RefCell<BTreeMap<u16, Rc<Backlog<V>>>>,
    pub outboxes: RefCell<BTreeMap<Rank, Outbox<V>>>,
    /// By peer: how often it has begun anew, by what has come to [`Sdp::listen`]. The streams are with that life of it.
    lives: RefCell<BTreeMap<Rank, u32>>,
    /// A suspension, or what it waits for, has changed.
    pub moving: Signal,
    /// A task that asks for a peer, or watches it, is to do so sooner than it did: a stream has begun whose options say so.
    pub sooner: Signal,
    /// A task looks for streams whose address has changed.
    pub notices: Cell<bool>,
    /// A message's bytes on their way to the transport.
    frame: RefCell<Vec<u8>>,
    /// The port that is looked at first when one is wanted.
    pub next_port: Cell<u16>,
    /// How many owned buffers were made.
    pub buffers: Cell<u64>,
    /// A read goes into memory that messages are sent from.
    pub lent: Cell<bool>,
}

impl<V: Verbs> Sdp<V> {
    /// Starts the sockets of a node. `options` are those of all streams that say no others.
    ///
    /// # Errors
    ///
    /// The options cannot be, or another service has the channel.
    pub fn start(rt: &Rt<V>, mesh: &Mesh<V>, options: SdpOptions) -> Result<Sdp<V>, SdpError> {
        options.check(mesh)?;
        let inbox = mesh.open(CHANNEL)?;
        let sdp = Sdp {
            shared: Rc::new(Shared {
                rt: rt.clone(),
                mesh: mesh.clone(),
                options,
                stats: RefCell::default(),
                // A message to a stream of this node's last incarnation, sent before its sender knew, finds nothing here.
                table: RefCell::new(Table::new(rt.random() as u32)),
                listeners: RefCell::default(),
                outboxes: RefCell::default(),
                lives: RefCell::new(mesh.resets_before(&inbox)),
                moving: Signal::new(),
                sooner: Signal::new(),
                notices: Cell::new(false),
                frame: RefCell::default(),
                next_port: Cell::new(*super::connect::EPHEMERAL.start()),
                buffers: Cell::new(0),
                lent: Cell::new(false),
            }),
        };
        drop(rt.spawn(sdp.clone().listen(inbox)));
        if mesh.rails() > 1 {
            drop(rt.spawn(sdp.clone().follow_rails()));
        }
        Ok(sdp)
    }

    /// What the sockets have done.
    pub fn stats(&self) -> SdpStats {
        *self.shared.stats.borrow()
    }

    /// How many streams this end has not done with. None, once both users of each stream have closed it.
    pub fn streams(&self) -> u64 {
        self.shared.table.borrow().count() as u64
    }

    /// Ends all streams at once; peers are told.
    pub fn abort_all(&self) {
        let all: Vec<_> = self.shared.table.borrow().all().cloned().collect();
        all.iter().for_each(|socket| self.abort(socket));
    }

    /// Listens on a port. 0 asks for any: [`SdpListener::local_addr`] says which.
    ///
    /// # Errors
    ///
    /// Another listener has it.
    pub fn bind(&self, port: u16) -> Result<SdpListener<V>, SdpError> {
        self.bind_with(port, self.shared.options)
    }

    /// Listens on a port, with options of its own for all streams that it accepts.
    ///
    /// # Errors
    ///
    /// Another listener has it, or the options cannot be.
    pub fn bind_with(&self, port: u16, options: SdpOptions) -> Result<SdpListener<V>, SdpError> {
        options.check(&self.shared.mesh)?;
        SdpListener::bind(self, port, options)
    }

    /// What a stream's options want to be done for it begins.
    pub(super) fn begins_with(&self, socket: &Rc<Socket<V>>) {
        socket.moves.set(self.shared.mesh.moves(socket.peer));
        self.notice_moves(socket.options.failover);
        self.keep_alive(socket.peer, socket.options.keepalive);
    }

    /// How many bytes a private buffer can take: what the mesh carries, whose receive buffers they are.
    pub(super) fn largest(&self) -> u32 {
        self.shared.mesh.max_message().saturating_sub(HEADER_LEN)
    }

    async fn listen(self, mut inbox: Inbox) {
        while let Some(incoming) = inbox.recv().await {
            match incoming {
                Incoming::Message(received) => self.on_message(received),
                // What had been sent may have been seen or not; the peer has forgotten all of it.
                Incoming::PeerReset { peer, .. } => {
                    *self.shared.lives.borrow_mut().entry(peer).or_default() += 1;
                    self.begins_anew(peer);
                }
            }
        }
        self.shared.table.borrow().all().for_each(|socket| {
            socket.end.borrow_mut().fail(Failure::Closed, false);
            socket.give_back();
            socket.wake();
        });
        self.shared.listeners.borrow().values().for_each(|backlog| backlog.closed());
        // Who waits for a move sees that the node has left.
        self.shared.moving.notify();
    }

    /// Whether a peer has begun anew, and its streams, which ended with that, have yet to hear of it. What they know of its memory is of
    /// no use any more: an operation would meet what another life of it has there.
    pub(super) fn is_over(&self, peer: Rank) -> bool {
        let life = self.shared.lives.borrow().get(&peer).copied();
        life.unwrap_or_default() != self.shared.mesh.resets_of(peer)
    }

    /// Whether the node has left the cluster.
    pub(super) fn is_closed(&self) -> bool {
        self.shared.mesh.is_closed()
    }

    fn on_message(&self, received: Received) {
        let from = received.from();
        let Some(message) = Message::decode(received.bytes()) else {
            return self.on_malformed(from, received.bytes());
        };
        let to = match message {
            Message::Hello { id, port, from_port, greeting } => {
                let there = Address { rank: from, port: from_port };
                return self.on_hello(id, port, there, greeting);
            }
            Message::HelloAck { to, .. } | Message::Reject { to, .. } | Message::AbortConn { to, .. } => to,
            Message::SuspComm { rail, number } => return self.on_susp_comm(from, rail, number),
            Message::SuspCommAck { number } => return self.on_susp_comm_ack(from, number),
            Message::AckRecv { rail } => return self.on_ack_recv(from, rail),
            _ => match message.header() {
                Some(header) => header.to,
                // It has arrived: that is all that it asks for.
                None => return,
            },
        };
        let socket = self.shared.table.borrow().get(to).cloned();
        let Some(socket) = socket.filter(|socket| socket.peer == from) else {
            return self.on_late(from, to, &message);
        };
        let connects = socket.end.borrow().is_connecting();
        let event = socket.end.borrow_mut().on_message(&message);
        let arrived = match (&event, &message) {
            (Ok(Event::Data), Message::Data { bytes, .. }) => bytes.len() as u64,
            (Ok(Event::Written(len)), _) => u64::from(*len),
            _ => 0,
        };
        self.shared.stats.borrow_mut().arrived += arrived;
        // Where what came begins in the stream.
        let begins = |len: u64| socket.end.borrow().expected() - len;
        match event {
            Ok(Event::Data) => socket.keep(begins(arrived), Chunk::Data(received, 0)),
            Ok(Event::Source(source)) => {
                let wanted = Some(self.shared.mesh.wants(socket.peer));
                socket.keep(begins(source.len.into()), Chunk::Source { source, wanted });
            }
            Ok(Event::Written(len)) => on_written(&socket, Came { at: begins(arrived), len }),
            // The peer's user must learn that it is lost.
            Ok(Event::Unread) => self.abort(&socket),
            Ok(Event::Returned) => self.returned(&socket),
            Ok(Event::Connected) => socket.moves.set(self.shared.mesh.moves(from)),
            Ok(Event::End | Event::Progress | Event::Sink | Event::Recalled) => {}
            Ok(Event::Aborted) => {
                self.shared.stats.borrow_mut().aborts += 1;
                // The peer has seen it first. Of a stream that never stood its own word says whether it has.
                if !connects && self.has_moved(&socket) {
                    socket.end.borrow_mut().blame_address();
                }
            }
            Err(_) => {
                self.shared.stats.borrow_mut().malformed += 1;
                self.abort(&socket);
            }
        }
        // Whatever it is, credits and an acknowledgement come with it.
        self.flush(&socket);
        socket.wake();
    }

    /// Bytes that are no message. The stream that they name has a hole there, and ends: else both ends might wait for what they said.
    fn on_malformed(&self, from: Rank, bytes: &[u8]) {
        self.shared.stats.borrow_mut().malformed += 1;
        let socket = Message::names(bytes).and_then(|to| self.shared.table.borrow().get(to).cloned());
        if let Some(socket) = socket.filter(|socket| socket.peer == from && socket.lives()) {
            self.abort(&socket);
        }
    }

    /// A message for a stream that is not there: this end has given it up, if that is in order. A connection that was made too late is told so.
    fn on_late(&self, from: Rank, to: Handle, message: &Message<'_>) {
        // An abort that answers an abort finds nobody, if nobody waited for it.
        if matches!(message, Message::AbortConn { .. }) {
            return;
        }
        let given_up = self.shared.table.borrow().has_given_up(to);
        self.count(|stats| if given_up { &mut stats.late } else { &mut stats.out_of_turn });
        if let Message::HelloAck { greeting, .. } = message {
            self.answer(from, &Message::AbortConn { to: greeting.from, moved: false });
        }
    }

    fn on_hello(&self, id: u128, port: u16, there: Address, theirs: Greeting) {
        let backlog = self.shared.listeners.borrow().get(&port).cloned();
        let refusal = match &backlog {
            None => Some(Refusal::NoListener),
            Some(backlog) if backlog.is_full() => Some(Refusal::BacklogFull),
            Some(_) if !theirs.is_fit() => Some(Refusal::Unfit),
            Some(_) => None,
        };
        let (None, Some(backlog)) = (refusal, backlog) else {
            self.shared.stats.borrow_mut().refused += 1;
            let why = refusal.unwrap_or(Refusal::NoListener);
            return self.answer(there.rank, &Message::Reject { to: theirs.from, why });
        };
        let here = Address { rank: self.shared.mesh.me(), port };
        let options = backlog.options;
        let socket = self.shared.table.borrow_mut().insert(|handle| {
            let end = Endpoint::accepting(greeting(handle, options), theirs).taking(self.largest());
            Rc::new(Socket::new(handle, id, [here, there], options, end))
        });
        self.shared.stats.borrow_mut().accepted += 1;
        self.begins_with(&socket);
        self.flush(&socket);
        backlog.push(socket);
    }

    /// Sends all that a stream has to send now, gives back buffers, and forgets the stream when it is over.
    pub(super) fn flush(&self, socket: &Rc<Socket<V>>) {
        if socket.end.borrow().may_return_sources() {
            let left = socket.drop_sources();
            socket.end.borrow_mut().return_sources(left);
        }
        self.flush_control(socket);
        if !socket.sending.borrow().is_empty() || socket.closing.get() {
            self.pump(socket);
            self.flush_control(socket);
            socket.complete();
        }
        let crossed = socket.void_wanted();
        if crossed > 0 {
            self.shared.stats.borrow_mut().crossed += crossed;
            socket.readable.notify();
        }
        if socket.end.borrow().is_over() {
            socket.give_back();
            socket.wake();
            self.shared.table.borrow_mut().remove(socket.handle);
        }
    }

    fn flush_control(&self, socket: &Rc<Socket<V>>) {
        loop {
            // The word that a stream is over waits for memory. It has nothing else to say.
            if socket.starves.get() && socket.end.borrow().failure().is_some() {
                return;
            }
            if !self.has_room(socket) {
                // One that has nothing to say would have its turn before those that have.
                if socket.end.borrow().has_to_say() {
                    self.block(socket);
                }
                return;
            }
            let Some(outgoing) = socket.end.borrow_mut().next() else { break };
            self.send_control(socket, outgoing);
        }
    }

    /// Sends a control message; the transport has room.
    pub(super) fn send_control(&self, socket: &Rc<Socket<V>>, outgoing: Outgoing) {
        self.shared.stats.borrow_mut().control_sent += 1;
        let message = match outgoing {
            Outgoing::Hello(greeting) => {
                let (port, from_port) = (socket.remote.port, socket.local.port);
                Message::Hello { id: socket.id, port, from_port, greeting }
            }
            Outgoing::HelloAck { to, greeting } => Message::HelloAck { to, greeting },
            Outgoing::Credits(header) => Message::Data { header, bytes: &[] },
            Outgoing::SrcAvail { header, source } => Message::SrcAvail { header, source },
            Outgoing::RdmaRdCompl { header, len } => Message::RdmaRdCompl { header, len },
            Outgoing::SinkAvail { header, start, sink } => Message::SinkAvail { header, start, sink },
            Outgoing::RdmaWrCompl { header, len } => Message::RdmaWrCompl { header, len },
            Outgoing::SrcAvailCancel(header) => Message::SrcAvailCancel { header },
            Outgoing::SendSm(header) => Message::SendSm { header },
            Outgoing::SinkAvailCancel(header) => Message::SinkAvailCancel { header },
            Outgoing::SinkCancelAck(header) => Message::SinkCancelAck { header },
            Outgoing::ModeChange { header, mode } => Message::ModeChange { header, mode },
            Outgoing::ChRcvBuf { header, bytes } => Message::ChRcvBuf { header, bytes },
            Outgoing::ChRcvBufAck { header, bytes } => Message::ChRcvBufAck { header, bytes },
            Outgoing::DisConn(header) => Message::DisConn { header },
            Outgoing::AbortConn { to, moved } => Message::AbortConn { to, moved },
        };
        self.send(socket, &message);
    }

    /// BCopy: sends bytes as far as the peer has private buffers for them; each message is as full as it can be.
    pub(super) fn send_data(&self, socket: &Rc<Socket<V>>, parts: &impl Bytes, all: usize) -> usize {
        let Shared { stats, rt, .. } = &*self.shared;
        let mut sent = 0;
        while sent < all && socket.end.borrow().may_write() && !self.is_suspended(socket.peer) {
            if !self.has_room(socket) {
                self.block(socket);
                break;
            }
            let mut end = socket.end.borrow_mut();
            let len = (end.payload() as usize).min(all - sent);
            let header = end.data(len as u64);
            drop(end);
            let mut counts = stats.borrow_mut();
            counts.copies += 1;
            counts.data_sent += 1;
            counts.bytes_sent += len as u64;
            drop(counts);
            rt.spend(Work::Copy { bytes: len as u64 });
            self.send_with(socket, &Message::Data { header, bytes: &[] }, parts, sent..sent + len);
            sent += len;
        }
        sent
    }

    /// Sends a message of a stream; the transport has room.
    pub(super) fn send(&self, socket: &Rc<Socket<V>>, message: &Message<'_>) {
        let nothing: &[u8] = &[];
        self.send_with(socket, message, &nothing, 0..0);
    }

    /// Sends a message of a stream, with a range of bytes behind it; the transport has room. To a peer that has begun anew nothing is sent of
    /// what was with its last life: it waits in the inbox that these streams have ended.
    fn send_with(
        &self,
        socket: &Rc<Socket<V>>,
        message: &Message<'_>,
        parts: &impl Bytes,
        range: Range<usize>,
    ) {
        if self.is_over(socket.peer) {
            return;
        }
        let mut head = self.shared.frame.borrow_mut();
        head.clear();
        message.encode(&mut head);
        let framed = Framed { head: &head, parts, range };
        let sent = self.shared.mesh.send_content(socket.peer, CHANNEL, &framed);
        drop(head);
        match sent {
            Ok(()) => self.watch(socket.peer, socket.options.give_up),
            Err(SendError::PeerGone(peer)) => self.is_no_more(peer),
            Err(SendError::Memory(_)) => self.lacks_memory(socket),
            Err(_) => self.closed(socket),
        }
    }

    /// There was no memory for a message of a stream: it has a hole from there on, and ends. The peer must be told all the same, as soon as
    /// there is memory: it may be using buffers of this end.
    fn lacks_memory(&self, socket: &Rc<Socket<V>>) {
        let mut end = socket.end.borrow_mut();
        if end.failure().is_none() {
            end.fail(Failure::Aborted, true);
        } else {
            end.aborts_again();
        }
        drop(end);
        socket.wake();
        self.tries_later(socket);
    }

    /// There was no memory for something of a stream: after a while it is looked whether there is some.
    pub(super) fn tries_later(&self, socket: &Rc<Socket<V>>) {
        if socket.starves.replace(true) {
            return;
        }
        let (sdp, socket) = (self.clone(), Rc::clone(socket));
        drop(self.shared.rt.spawn(async move {
            sdp.shared.rt.sleep(BEFORE_MEMORY_IS_ASKED_FOR).await;
            socket.starves.set(false);
            sdp.flush(&socket);
            socket.readable.notify();
        }));
    }

    /// The node has left the cluster.
    pub(super) fn closed(&self, socket: &Rc<Socket<V>>) {
        socket.end.borrow_mut().fail(Failure::Closed, false);
        socket.give_back();
        socket.wake();
        self.shared.table.borrow_mut().remove(socket.handle);
    }

    /// Ends a stream at once; the peer is told.
    pub(super) fn abort(&self, socket: &Rc<Socket<V>>) {
        self.shared.stats.borrow_mut().aborts += 1;
        socket.end.borrow_mut().fail(Failure::Aborted, true);
        socket.wake();
        self.flush(socket);
    }

    /// A peer has not acknowledged anything for too long: for those with such a patience.
    pub(super) fn gone(&self, peer: Rank, is_over: impl Fn(Nanos) -> bool) {
        let ends = |socket: &Socket<V>| socket.lives() && is_over(socket.options.give_up);
        let table = self.shared.table.borrow();
        let ending: Vec<_> = table.with(peer).filter(|socket| ends(socket)).cloned().collect();
        drop(table);
        for socket in ending {
            self.count(|stats| &mut stats.given_up);
            socket.end.borrow_mut().fail(Failure::TimedOut, true);
            socket.wake();
            self.flush(&socket);
        }
        if is_over(self.shared.options.give_up) {
            self.go_on(peer);
        }
    }

    /// A peer has begun anew: what it knew is gone, and nothing is said to it of that. Connections that are still to be made are asked for anew.
    fn begins_anew(&self, peer: Rank) {
        self.forgets(peer, |end| {
            if !end.asks_anew() {
                end.fail(Failure::Reset, false);
            }
        });
    }

    /// A peer was expelled, or has expelled this node: what it knew is fenced, and nothing is said to it.
    pub(super) fn is_no_more(&self, peer: Rank) {
        self.forgets(peer, |end| end.fail(Failure::Reset, false));
    }

    fn forgets(&self, peer: Rank, change: impl Fn(&mut Endpoint)) {
        self.each_of(peer, change);
        self.outbox(peer, |outbox| outbox.asked = None);
        self.go_on(peer);
    }

    /// Does something to all streams with a peer.
    pub(super) fn each_of(&self, peer: Rank, change: impl Fn(&mut Endpoint)) {
        let table = self.shared.table.borrow();
        let with_peer: Vec<_> = table.with(peer).cloned().collect();
        drop(table);
        for socket in with_peer {
            change(&mut socket.end.borrow_mut());
            socket.wake();
            self.flush(&socket);
        }
    }

    /// Awaits something, at most for so long.
    pub(super) async fn within<T>(
        &self,
        most: Option<Nanos>,
        wait: impl Future<Output = Result<T, SdpError>>,
    ) -> Result<T, SdpError> {
        match most {
            None => wait.await,
            Some(most) => self.shared.rt.within(most, wait).await.unwrap_or(Err(SdpError::TimedOut)),
        }
    }
}

/// Bytes are where this end wanted them.
fn on_written<V: Verbs>(socket: &Socket<V>, came: Came) {
    let first = socket.wanted.borrow_mut().pop_front();
    if let Some(Wanted { mr, done }) = first {
        match done.send(Some(came)) {
            Ok(()) => socket.keep(came.at, Chunk::Owed),
            // Its user is gone; the bytes are not.
            Err(_) => keep_bytes(socket, &mr, came),
        }
    }
}

pub(super) fn greeting(from: Handle, options: SdpOptions) -> Greeting {
    let SdpOptions { buffers, buffer_bytes, zcopy_depth, .. } = options;
    Greeting { from, buffers, buffer_bytes, adverts: zcopy_depth }
}
