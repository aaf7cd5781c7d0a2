//! The sockets of a node: messages come in from the transport and find their stream; what streams have to say goes out.

use super::endpoint::{Endpoint, Event, Failure, Outgoing};
use super::listener::Backlog;
use super::message::{Greeting, Message};
use super::outbox::Outbox;
use super::socket::Socket;
use super::stream::Address;
use super::table::Table;
use super::{Refusal, SdpError, SdpListener, SdpOptions, SdpStats, SdpStream};
use crate::rt::Rt;
use crate::transport::{Channel, Inbox, Incoming, Mesh, Message as Received, Rank, SendError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_verbs::{Nanos, Verbs};

/// The channel of sockets' messages.
pub const CHANNEL: Channel = Channel(3);

/// The ports that calls of `connect` take, one after the other.
const EPHEMERAL: std::ops::RangeInclusive<u16> = 49_152..=65_535;

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
    pub table: RefCell<Table>,
    pub listeners: RefCell<BTreeMap<u16, Rc<Backlog>>>,
    pub outboxes: RefCell<BTreeMap<Rank, Outbox>>,
    /// A message's bytes on their way to the transport.
    frame: RefCell<Vec<u8>>,
    next_port: Cell<u16>,
}

impl<V: Verbs> Sdp<V> {
    /// Starts the sockets of a node. `options` are those of all streams that say no others.
    ///
    /// # Errors
    ///
    /// The options cannot be, or another service has the channel.
    pub fn start(rt: &Rt<V>, mesh: &Mesh<V>, options: SdpOptions) -> Result<Sdp<V>, SdpError> {
        options.check(mesh.max_message())?;
        let inbox = mesh.open(CHANNEL)?;
        let sdp = Sdp {
            shared: Rc::new(Shared {
                rt: rt.clone(),
                mesh: mesh.clone(),
                options,
                stats: RefCell::default(),
                table: RefCell::default(),
                listeners: RefCell::default(),
                outboxes: RefCell::default(),
                frame: RefCell::default(),
                next_port: Cell::new(*EPHEMERAL.start()),
            }),
        };
        drop(rt.spawn(sdp.clone().listen(inbox)));
        Ok(sdp)
    }

    /// What the sockets have done.
    pub fn stats(&self) -> SdpStats {
        *self.shared.stats.borrow()
    }

    /// How many streams this end has not done with. None, once both users of each stream have closed it.
    pub fn streams(&self) -> u64 {
        self.shared.table.borrow().all().count() as u64
    }

    /// Listens on a port.
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
        options.check(self.shared.mesh.max_message())?;
        SdpListener::bind(self, port, options)
    }

    /// Connects to a port of a node.
    ///
    /// # Errors
    ///
    /// The peer refuses, or does not answer in time.
    pub async fn connect(&self, to: Rank, port: u16) -> Result<SdpStream<V>, SdpError> {
        self.connect_with(to, port, self.shared.options).await
    }

    /// Connects to a port of a node, with options for this stream.
    ///
    /// # Errors
    ///
    /// The peer refuses, or does not answer in time; or the options cannot be.
    pub async fn connect_with(
        &self,
        to: Rank,
        port: u16,
        options: SdpOptions,
    ) -> Result<SdpStream<V>, SdpError> {
        let Shared { rt, mesh, .. } = &*self.shared;
        options.check(mesh.max_message())?;
        if to.index() >= mesh.size() as usize {
            return Err(SdpError::NoSuchPeer(to));
        }
        let id = u128::from(rt.random()) << 64 | u128::from(rt.random());
        let here = Address { rank: mesh.me(), port: self.ephemeral() };
        let there = Address { rank: to, port };
        let socket = self.shared.table.borrow_mut().insert(|handle| {
            let me = greeting(handle, options);
            Rc::new(Socket::new(handle, id, [here, there], options, Endpoint::asking(me)))
        });
        // From here on, a call that is dropped gives the stream up.
        let stream = SdpStream::new(self, Rc::clone(&socket));
        self.flush(&socket);
        stream.stands(options.connect_timeout).await?;
        self.shared.stats.borrow_mut().connected += 1;
        Ok(stream)
    }

    fn ephemeral(&self) -> u16 {
        let port = self.shared.next_port.get();
        self.shared.next_port.set(if port == *EPHEMERAL.end() { *EPHEMERAL.start() } else { port + 1 });
        port
    }

    async fn listen(self, mut inbox: Inbox) {
        while let Some(incoming) = inbox.recv().await {
            match incoming {
                Incoming::Message(received) => self.on_message(received),
                // What had been sent may have been seen or not; the peer has forgotten all of it.
                Incoming::PeerReset { peer, .. } => self.each_of(peer, |end| end.fail(Failure::Reset, false)),
            }
        }
        self.shared.table.borrow().all().for_each(|socket| {
            socket.end.borrow_mut().fail(Failure::Closed, false);
            socket.wake();
        });
        self.shared.listeners.borrow().values().for_each(|backlog| backlog.closed());
    }

    /// Whether the node has left the cluster.
    pub(super) fn is_closed(&self) -> bool {
        self.shared.mesh.is_closed()
    }

    fn on_message(&self, received: Received) {
        let from = received.from();
        let Some(message) = Message::decode(received.bytes()) else {
            self.shared.stats.borrow_mut().malformed += 1;
            return;
        };
        let to = match message {
            Message::Hello { id, port, from_port, greeting } => {
                let there = Address { rank: from, port: from_port };
                return self.on_hello(id, port, there, greeting);
            }
            Message::Data { header, .. } | Message::DisConn { header } => header.to,
            Message::HelloAck { to, .. } | Message::Reject { to, .. } | Message::AbortConn { to } => to,
        };
        let socket = self.shared.table.borrow().get(to).cloned();
        let Some(socket) = socket.filter(|socket| socket.peer == from) else {
            return self.on_late(from, &message);
        };
        if socket.end.borrow().failure().is_some() {
            return self.on_late(from, &message);
        }
        let event = socket.end.borrow_mut().on_message(&message);
        match event {
            Ok(Event::Data) => {
                socket.keep(received);
                socket.readable.notify();
                // Credits may have come with it.
                socket.writable.notify();
            }
            Ok(Event::End | Event::Connected) => socket.wake(),
            Ok(Event::Progress) => socket.writable.notify(),
            Ok(Event::Aborted) => {
                self.shared.stats.borrow_mut().aborts += 1;
                socket.wake();
            }
            Err(_) => {
                self.shared.stats.borrow_mut().malformed += 1;
                self.abort(&socket);
            }
        }
        self.flush(&socket);
    }

    /// A message for a stream that this end has given up. A connection that was made too late is told so.
    fn on_late(&self, from: Rank, message: &Message<'_>) {
        self.shared.stats.borrow_mut().late += 1;
        if let Message::HelloAck { greeting, .. } = message {
            self.answer(from, &Message::AbortConn { to: greeting.from });
        }
    }

    fn on_hello(&self, id: u128, port: u16, there: Address, theirs: Greeting) {
        let backlog = self.shared.listeners.borrow().get(&port).cloned();
        let refusal = match &backlog {
            None => Some(Refusal::NoListener),
            Some(backlog) if backlog.is_full() => Some(Refusal::BacklogFull),
            Some(_) if theirs.buffers == 0 || theirs.buffer_bytes == 0 => Some(Refusal::Unfit),
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
            let end = Endpoint::accepting(greeting(handle, options), theirs);
            Rc::new(Socket::new(handle, id, [here, there], options, end))
        });
        self.shared.stats.borrow_mut().accepted += 1;
        self.flush(&socket);
        backlog.push(socket);
    }

    /// Sends a message that belongs to no stream of this node. Where the transport has no room, it is sent when there is some.
    fn answer(&self, to: Rank, message: &Message<'_>) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        if !matches!(self.shared.mesh.send(to, CHANNEL, &bytes), Err(SendError::Full { .. })) {
            return;
        }
        let mesh = self.shared.mesh.clone();
        drop(self.shared.rt.spawn(async move {
            while mesh.room(to).await.is_ok()
                && matches!(mesh.send(to, CHANNEL, &bytes), Err(SendError::Full { .. }))
            {}
        }));
    }

    /// Sends all control that a stream has to send now, and forgets it when it is over.
    pub(super) fn flush(&self, socket: &Rc<Socket>) {
        loop {
            if !self.shared.mesh.has_room(socket.peer) {
                return self.block(socket);
            }
            let Some(outgoing) = socket.end.borrow_mut().next() else { break };
            self.shared.stats.borrow_mut().control_sent += 1;
            let message = match outgoing {
                Outgoing::Hello(greeting) => Message::Hello {
                    id: socket.id,
                    port: socket.remote.port,
                    from_port: socket.local.port,
                    greeting,
                },
                Outgoing::HelloAck { to, greeting } => Message::HelloAck { to, greeting },
                Outgoing::Credits(header) => Message::Data { header, bytes: &[] },
                Outgoing::DisConn(header) => Message::DisConn { header },
                Outgoing::AbortConn { to } => Message::AbortConn { to },
            };
            self.send(socket, &message);
        }
        if socket.end.borrow().is_over() {
            self.shared.table.borrow_mut().remove(socket.handle);
        }
    }

    /// Sends a message of a stream; the transport has room.
    pub(super) fn send(&self, socket: &Rc<Socket>, message: &Message<'_>) {
        self.send_with(socket, message, |_| ());
    }

    /// Sends a message of a stream, with what is appended to it; the transport has room.
    pub(super) fn send_with(
        &self,
        socket: &Rc<Socket>,
        message: &Message<'_>,
        append: impl FnOnce(&mut Vec<u8>),
    ) {
        let mut frame = self.shared.frame.borrow_mut();
        frame.clear();
        message.encode(&mut frame);
        append(&mut frame);
        let sent = self.shared.mesh.send(socket.peer, CHANNEL, &frame);
        drop(frame);
        match sent {
            Ok(()) => self.watch(socket.peer),
            // The mesh is closed, or there is no memory: then nothing can be told to the peer either.
            Err(_) => self.closed(socket),
        }
    }

    /// The node has left the cluster.
    pub(super) fn closed(&self, socket: &Rc<Socket>) {
        socket.end.borrow_mut().fail(Failure::Closed, false);
        socket.wake();
        self.shared.table.borrow_mut().remove(socket.handle);
    }

    /// Ends a stream at once; the peer is told.
    pub(super) fn abort(&self, socket: &Rc<Socket>) {
        self.shared.stats.borrow_mut().aborts += 1;
        socket.end.borrow_mut().fail(Failure::Aborted, true);
        socket.wake();
        self.flush(socket);
    }

    /// A peer has not acknowledged anything for too long.
    pub(super) fn gone(&self, peer: Rank) {
        self.shared.stats.borrow_mut().given_up += 1;
        self.each_of(peer, |end| end.fail(Failure::TimedOut, true));
    }

    /// Does something to all streams with a peer.
    fn each_of(&self, peer: Rank, change: impl Fn(&mut Endpoint)) {
        let table = self.shared.table.borrow();
        let with_peer: Vec<_> = table.all().filter(|socket| socket.peer == peer).cloned().collect();
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
            Some(most) => {
                let rt = &self.shared.rt;
                rt.deadline(rt.now() + most, wait).await.unwrap_or(Err(SdpError::TimedOut))
            }
        }
    }
}

fn greeting(handle: super::message::Handle, options: SdpOptions) -> Greeting {
    Greeting { from: handle, buffers: options.buffers, buffer_bytes: options.buffer_bytes }
}
