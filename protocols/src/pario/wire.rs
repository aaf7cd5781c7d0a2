//! What carries requests and answers: the mesh's messages, or byte streams.
//!
//! By streams (`tcp`) all data ride in messages and are copied: the paper's baseline, and a way to run without an adapter. A
//! node connects to a server when it first asks it something, and answers come back on the same stream; so two nodes that ask
//! each other have two. A frame is two lengths (4 bytes each, little-endian), a message and its data, which are apart so that
//! nobody copies data from one buffer to the next. What a stream that broke carried nobody knows: its calls end as
//! [`Unknown`](super::FsError::Unknown).

use super::FsError;
use super::config::STREAMS;
use super::hello::{Hello, Newest};
use super::messages::{Answer, Frame, Request};
use crate::rt::Rt;
use crate::rt::sync::Signal;
use crate::transport::{Channel, Hold, Mesh, Rank, SendError};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll};
use weft_verbs::{Context, Nanos, OutOfBand, RemoteSlice, Stream, StreamListener, Verbs};

/// The channel of requests and answers on the mesh.
pub(super) const CHANNEL: Channel = Channel(4);

/// The number of a question that is no call.
pub(super) const UNASKED: u64 = u64::MAX;

/// How long a node waits after something about byte streams has failed, before it tries once more.
pub(super) const PAUSE: Nanos = Nanos::from_millis(10);

/// How long a server may say nothing that was asked a question of which nobody awaits the answer: the stream is given up then. A machine that
/// lost its power breaks no stream, and Linux goes on for 15 minutes by itself. A quarter of the time for which
/// [calls from outside](super::remote) are made again, so that these meet a server that is back, and many times what a server takes that lives.
/// As long a server waits for who a client is.
pub(super) const SILENCE: Nanos = Nanos::from_secs(5);

/// Frames that wait for room in one stream, at most; who sends more waits.
const QUEUED: usize = 64;

/// Bytes of a frame's two lengths.
const LENGTHS: usize = 8;

/// Bytes of a message without its data, at most: a list of names is the longest.
pub(super) const LONGEST: u32 = 64 << 10;

/// What a wire delivers.
pub(super) enum Arrived {
    /// A request, from a client.
    Request(Frame),
    /// An answer, from a server.
    Answer(Frame),
    /// The stream broke by which the peer was asked.
    ServerGone,
    /// The stream broke by which the peer asked.
    ClientGone,
}

/// Who takes what arrives.
pub(super) type Taker = dyn Fn(Rank, Arrived);

/// A wire.
pub(super) enum Wire<V: Verbs> {
    /// The mesh's messages: in order, exactly once.
    Mesh(Mesh<V>),
    /// Byte streams.
    Streams(Rc<Streams<V>>),
}

impl<V: Verbs> Wire<V> {
    /// Sends a request as soon as there is room and memory for it.
    pub(super) async fn ask(&self, to: Rank, id: u64, request: Request) -> Result<(), FsError> {
        match self {
            Wire::Mesh(mesh) => {
                let bytes = request.encode(id);
                Ok(mesh.send_once_possible(to, CHANNEL, || &bytes).await?)
            }
            Wire::Streams(streams) => streams.ask(to, request.into_frame(id)).await,
        }
    }

    /// Sends an answer as soon as there is room and memory for it.
    pub(super) async fn answer(&self, to: Rank, id: u64, answer: Answer) -> Result<(), FsError> {
        match self {
            Wire::Mesh(mesh) => {
                let bytes = answer.encode(id);
                Ok(mesh.send_once_possible(to, CHANNEL, || &bytes).await?)
            }
            Wire::Streams(streams) => streams.answer(to, answer.into_frame(id)).await,
        }
    }

    /// Sends an answer that is what it is when it is sent, and not before.
    pub(super) async fn answer_with(
        &self,
        to: Rank,
        id: u64,
        answer: impl Fn() -> Answer,
    ) -> Result<(), FsError> {
        match self {
            Wire::Mesh(mesh) => Ok(mesh.send_once_possible(to, CHANNEL, || answer().encode(id)).await?),
            Wire::Streams(_) => self.answer(to, id, answer()).await,
        }
    }

    /// Finds out whether a peer is there that owes an answer: one that began anew is told of by then, or when it is. By the mesh an
    /// empty write does it, which touches nothing there; on a stream a question of which nobody awaits the answer, and the stream is given up
    /// where nothing comes back.
    pub(super) async fn probe(&self, to: Rank) {
        match self {
            Wire::Mesh(mesh) => drop(mesh.write(to, RemoteSlice::default(), &[]).await),
            Wire::Streams(streams) => streams.probe(to).await,
        }
    }

    /// As long as it is there, a guest's server does not forget it for want of a sign of life.
    pub(super) fn hold(&self, server: Rank) -> Option<Hold<V>> {
        match self {
            Wire::Mesh(mesh) => Some(mesh.hold(server)),
            Wire::Streams(_) => None,
        }
    }

    /// To which life of a peer a message goes now, by how often it has begun anew. What a stream carries ends with it.
    pub(super) fn life_of(&self, to: Rank) -> u32 {
        match self {
            Wire::Mesh(mesh) => mesh.resets_of(to),
            Wire::Streams(_) => 0,
        }
    }

    /// Whether data that ride in a message are copied into it.
    pub(super) fn copies(&self) -> bool {
        matches!(self, Wire::Mesh(_))
    }
}

/// One stream, as those have it who send by it: its frames that are to be written, and whether the other end lives.
#[derive(Default)]
struct Outgoing {
    frames: RefCell<VecDeque<Frame>>,
    /// Frames were added, or have gone.
    changed: Signal,
    broken: Cell<bool>,
    /// Something came from the other end, or the stream has ended.
    heard: Signal,
}

impl Outgoing {
    async fn send(&self, frame: Frame) -> Result<(), FsError> {
        self.changed.until(|| self.broken.get() || self.frames.borrow().len() < QUEUED).await;
        if self.broken.get() {
            return Err(FsError::Unknown);
        }
        self.frames.borrow_mut().push_back(frame);
        self.changed.notify();
        Ok(())
    }

    fn end(&self) {
        self.broken.set(true);
        self.changed.notify();
        self.heard.notify();
    }
}

/// Streams by their peers.
type Open = RefCell<BTreeMap<Rank, Rc<Outgoing>>>;

/// The streams of a node.
pub(super) struct Streams<V: Verbs> {
    rt: Rt<V>,
    oob: V::Oob,
    /// Names of the nodes, by rank.
    names: Vec<String>,
    me: Rank,
    /// This node's life.
    life: u64,
    /// Streams that were opened in it.
    opened: Cell<u64>,
    /// The longest data of a frame.
    most: u32,
    /// By which this node asks.
    asking: Open,
    /// By which it is asked.
    asked: Open,
    newest: RefCell<Newest>,
    taker: RefCell<Option<Rc<Taker>>>,
}

impl<V: Verbs> Streams<V> {
    /// The streams of a node in one of its lives, among others, with at most so much data in a frame. A server listens.
    pub(super) fn start(
        rt: &Rt<V>,
        names: Vec<String>,
        (me, life): (Rank, u64),
        most: u32,
        listens: bool,
    ) -> Result<Rc<Streams<V>>, FsError> {
        let oob = rt.context().out_of_band()?;
        let streams = Rc::new(Streams {
            rt: rt.clone(),
            oob,
            names,
            me,
            life,
            opened: Cell::default(),
            most,
            asking: Open::default(),
            asked: Open::default(),
            newest: RefCell::default(),
            taker: RefCell::default(),
        });
        if listens {
            let listener = streams.oob.listen(STREAMS)?;
            drop(rt.spawn(Rc::clone(&streams).accept(listener)));
        }
        Ok(streams)
    }

    /// Says who takes what arrives from now on.
    pub(super) fn deliver_to(&self, taker: Rc<Taker>) {
        *self.taker.borrow_mut() = Some(taker);
    }

    fn deliver(&self, from: Rank, arrived: Arrived) {
        let taker = self.taker.borrow().clone();
        if let Some(taker) = taker {
            taker(from, arrived);
        }
    }

    async fn ask(self: &Rc<Self>, to: Rank, frame: Frame) -> Result<(), FsError> {
        if to == self.me {
            self.deliver(to, Arrived::Request(frame));
            return Ok(());
        }
        self.connected(to)?.send(frame).await
    }

    /// Asks a server something, and ends the stream to it if nothing comes from there for too long, be it an answer to something else.
    async fn probe(self: &Rc<Self>, to: Rank) {
        let Ok(stream) = self.connected(to) else { return };
        let heard = stream.heard.changed();
        let answered = async {
            drop(stream.send(Request::Epoch.into_frame(UNASKED)).await);
            heard.await;
        };
        if self.rt.deadline(self.rt.now() + SILENCE, answered).await.is_err() {
            stream.end();
        }
    }

    async fn answer(self: &Rc<Self>, to: Rank, frame: Frame) -> Result<(), FsError> {
        if to == self.me {
            self.deliver(to, Arrived::Answer(frame));
            return Ok(());
        }
        let stream = self.asked.borrow().get(&to).cloned();
        stream.ok_or(FsError::Unknown)?.send(frame).await
    }

    /// The stream to a server; it is opened if there is none.
    fn connected(self: &Rc<Self>, to: Rank) -> Result<Rc<Outgoing>, FsError> {
        if let Some(open) = self.asking.borrow().get(&to) {
            return Ok(Rc::clone(open));
        }
        let name = self.names.get(to.index()).ok_or(FsError::Send(SendError::NoSuchPeer(to)))?;
        // One that fails at once ends as one that fails later: who asks by it knows nothing, and asks again.
        let stream = self.oob.connect(name, STREAMS).ok();
        let outgoing: Rc<Outgoing> = Rc::default();
        self.opened.set(self.opened.get() + 1);
        let hello = Hello { client: self.me, server: to, life: self.life, number: self.opened.get() };
        outgoing.frames.borrow_mut().push_back(hello.into_frame());
        self.asking.borrow_mut().insert(to, Rc::clone(&outgoing));
        drop(self.rt.spawn(Rc::clone(self).ask_by(to, Rc::clone(&outgoing), stream)));
        Ok(outgoing)
    }

    /// Carries a stream that this node opened, if it could, until it ends.
    async fn ask_by(self: Rc<Self>, server: Rank, outgoing: Rc<Outgoing>, stream: Option<V::Stream>) {
        if let Some(mut stream) = stream {
            let (mut reading, mut writing) = (Reading::default(), Writing::default());
            while let Some(frame) = next(&mut stream, &mut reading, &mut writing, &outgoing, self.most).await
            {
                outgoing.heard.notify();
                self.deliver(server, Arrived::Answer(frame));
            }
        }
        outgoing.end();
        self.asking.borrow_mut().remove(&server);
        self.deliver(server, Arrived::ServerGone);
    }

    /// Takes what comes as long as the node runs: who comes may be gone by then, or the machine be short of something for a while.
    async fn accept(self: Rc<Self>, mut listener: V::StreamListener) {
        loop {
            match poll_fn(|cx| listener.poll_accept(cx)).await {
                Ok(stream) => drop(self.rt.spawn(Rc::clone(&self).answer_by(stream))),
                Err(_) => self.rt.sleep(PAUSE).await,
            }
        }
    }

    /// Carries a stream that a client opened, until it ends.
    async fn answer_by(self: Rc<Self>, mut stream: V::Stream) {
        let (mut reading, mut writing) = (Reading::default(), Writing::default());
        let outgoing: Rc<Outgoing> = Rc::default();
        // Who says nothing, as a monitor that only connects, does not keep a descriptor for ever.
        let hello = next(&mut stream, &mut reading, &mut writing, &outgoing, self.most);
        let hello = self.rt.within(SILENCE, hello).await.ok().flatten();
        // One that is for another is not answered, as that other one does not answer: its client asks again, and where it is by then.
        let hello = hello.and_then(|frame| Hello::of(&frame)).filter(|hello| hello.server == self.me);
        // By a stream that comes behind a later one its client asks nothing any more.
        let Some(hello) = hello.filter(|hello| self.newest.borrow_mut().takes(*hello)) else { return };
        let client = hello.client;
        let before = self.asked.borrow_mut().insert(client, Rc::clone(&outgoing));
        // A client has one stream: its last one has ended, though this end has not noticed.
        if let Some(before) = before {
            before.end();
            self.deliver(client, Arrived::ClientGone);
        }
        while let Some(frame) = next(&mut stream, &mut reading, &mut writing, &outgoing, self.most).await {
            self.deliver(client, Arrived::Request(frame));
        }
        // What was ended by the next stream is over already.
        if !outgoing.broken.get() {
            outgoing.end();
            self.asked.borrow_mut().remove(&client);
            self.deliver(client, Arrived::ClientGone);
        }
    }
}

/// Reads the next frame of a stream while frames are written; none if the stream has ended.
async fn next<S: Stream>(
    stream: &mut S,
    reading: &mut Reading,
    writing: &mut Writing,
    outgoing: &Outgoing,
    most: u32,
) -> Option<Frame> {
    loop {
        let mut changed = Box::pin(outgoing.changed.changed());
        let moved = poll_fn(|cx| {
            if outgoing.broken.get() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            let written = writing.poll(stream, cx, outgoing);
            match (reading.poll(stream, cx, most), written) {
                (Poll::Ready(read), _) => Poll::Ready(read.map(Some)),
                (_, Poll::Ready(Err(why))) => Poll::Ready(Err(why)),
                // What is written next wakes this task.
                _ => changed.as_mut().poll(cx).map(|()| Ok(None)),
            }
        });
        match moved.await {
            Ok(Some(frame)) => return Some(frame),
            Ok(None) => {}
            Err(_) => return None,
        }
    }
}

/// A frame that is being read.
#[derive(Default)]
struct Reading {
    lengths: [u8; LENGTHS],
    frame: Frame,
    /// Bytes of the frame that were read, its lengths included.
    read: usize,
}

impl Reading {
    /// Reads what there is of a frame, each part to where it stays.
    fn poll<S: Stream>(
        &mut self,
        stream: &mut S,
        cx: &mut TaskContext<'_>,
        most: u32,
    ) -> Poll<io::Result<Frame>> {
        loop {
            let (head, data) = (LENGTHS + self.frame.head.len(), self.frame.data.len());
            if self.read >= LENGTHS && self.read == head + data {
                self.read = 0;
                return Poll::Ready(Ok(std::mem::take(&mut self.frame)));
            }
            let room = match self.read {
                read if read < LENGTHS => &mut self.lengths[read..],
                read if read < head => &mut self.frame.head[read - LENGTHS..],
                read => &mut self.frame.data[read - head..],
            };
            match stream.poll_read(cx, room) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Poll::Ready(Ok(n)) => self.read += n,
                Poll::Ready(Err(why)) => return Poll::Ready(Err(why)),
                Poll::Pending => return Poll::Pending,
            }
            if self.read == LENGTHS {
                self.frame = room_for(self.lengths, most).ok_or(io::ErrorKind::InvalidData)?;
            }
        }
    }
}

/// Room for a frame of two lengths; none if there is no such frame.
fn room_for(lengths: [u8; LENGTHS], most: u32) -> Option<Frame> {
    let [head, data] = *lengths.as_chunks::<4>().0 else { return None };
    let (head, data) = (u32::from_le_bytes(head), u32::from_le_bytes(data));
    let fits = head <= LONGEST && data <= most;
    fits.then(|| Frame { head: vec![0; head as usize], data: vec![0; data as usize] })
}

/// A frame that is being written.
#[derive(Default)]
struct Writing {
    /// The lengths and the message.
    head: Vec<u8>,
    data: Vec<u8>,
    written: usize,
}

impl Writing {
    /// Writes what there is room for. It is never done: more may come.
    fn poll<S: Stream>(
        &mut self,
        stream: &mut S,
        cx: &mut TaskContext<'_>,
        outgoing: &Outgoing,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.written == self.head.len() + self.data.len() {
                let Some(frame) = outgoing.frames.borrow_mut().pop_front() else { return Poll::Pending };
                outgoing.changed.notify();
                let Frame { head, data } = frame;
                let lengths = [head.len() as u32, data.len() as u32].map(u32::to_le_bytes);
                *self = Writing { head: [lengths.as_flattened(), &head].concat(), data, written: 0 };
            }
            let left = match self.written.checked_sub(self.head.len()) {
                None => &self.head[self.written..],
                Some(written) => &self.data[written..],
            };
            match stream.poll_write(cx, left) {
                Poll::Ready(Ok(n)) => self.written += n,
                Poll::Ready(Err(why)) => return Poll::Ready(Err(why)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
