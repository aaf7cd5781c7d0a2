//! What carries requests and answers: the mesh's messages, or byte streams.
//!
//! By streams (`tcp`) all data ride in messages and are copied: the paper's baseline, and a way to run without an adapter. A
//! node connects to a server when it first asks it something; answers come back on the same stream. A frame is its length
//! (4 bytes, little-endian) and a message. What a stream that broke carried nobody knows: its calls end as
//! [`Unknown`](super::FsError::Unknown).

use super::FsError;
use crate::rt::Rt;
use crate::rt::sync::Signal;
use crate::transport::{Channel, Mesh, Rank, SendError};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll};
use weft_verbs::{Context, OutOfBand, Service, Stream, StreamListener, Verbs};

/// The channel of requests and answers on the mesh.
pub(super) const CHANNEL: Channel = Channel(5);

/// The service of requests by byte streams: that of PVFS2's servers.
const SERVICE: Service = Service(3334);

/// Frames that wait for room in one stream, at most; who sends more waits.
const QUEUED: usize = 64;

/// Bytes taken from a stream at a time.
const CHUNK: usize = 64 << 10;

/// What a wire delivers.
pub(super) enum Arrived<'a> {
    /// A message.
    Message(&'a [u8]),
    /// The peer's stream broke.
    Broken,
}

/// Who takes what arrives.
pub(super) type Taker = dyn Fn(Rank, Arrived<'_>);

/// A wire.
pub(super) enum Wire<V: Verbs> {
    /// The mesh's messages: in order, exactly once.
    Mesh(Mesh<V>),
    /// Byte streams.
    Streams(Rc<Streams<V>>),
}

impl<V: Verbs> Wire<V> {
    /// Sends a message as soon as there is room for it.
    pub(super) async fn send(&self, to: Rank, bytes: &[u8]) -> Result<(), FsError> {
        match self {
            Wire::Mesh(mesh) => loop {
                mesh.room(to).await?;
                match mesh.send(to, CHANNEL, bytes) {
                    // Another task took the place.
                    Err(SendError::Full { .. }) => {}
                    done => return Ok(done?),
                }
            },
            Wire::Streams(streams) => streams.send(to, bytes).await,
        }
    }
}

/// One stream's frames that are to be written.
#[derive(Default)]
struct Outgoing {
    frames: RefCell<VecDeque<Vec<u8>>>,
    /// Frames were added, or have gone.
    changed: Signal,
    broken: Cell<bool>,
}

/// The streams of a node.
pub(super) struct Streams<V: Verbs> {
    rt: Rt<V>,
    oob: V::Oob,
    /// Names of the nodes, by rank.
    names: Vec<String>,
    me: Rank,
    open: RefCell<BTreeMap<Rank, Rc<Outgoing>>>,
    taker: RefCell<Option<Rc<Taker>>>,
}

impl<V: Verbs> Streams<V> {
    /// The streams of a node among others. A server listens.
    pub(super) fn start(
        rt: &Rt<V>,
        names: Vec<String>,
        me: Rank,
        listens: bool,
    ) -> Result<Rc<Streams<V>>, FsError> {
        let oob = rt.context().out_of_band()?;
        let (open, taker) = (RefCell::default(), RefCell::default());
        let streams = Rc::new(Streams { rt: rt.clone(), oob, names, me, open, taker });
        if listens {
            let listener = streams.oob.listen(SERVICE)?;
            drop(rt.spawn(Rc::clone(&streams).accept(listener)));
        }
        Ok(streams)
    }

    /// Says who takes what arrives from now on.
    pub(super) fn deliver_to(&self, taker: Rc<Taker>) {
        *self.taker.borrow_mut() = Some(taker);
    }

    fn deliver(&self, from: Rank, arrived: Arrived<'_>) {
        let taker = self.taker.borrow().clone();
        if let Some(taker) = taker {
            taker(from, arrived);
        }
    }

    async fn accept(self: Rc<Self>, mut listener: V::StreamListener) {
        while let Ok(stream) = poll_fn(|cx| listener.poll_accept(cx)).await {
            drop(self.rt.spawn(Rc::clone(&self).run(None, stream)));
        }
    }

    async fn send(self: &Rc<Self>, to: Rank, bytes: &[u8]) -> Result<(), FsError> {
        if to == self.me {
            self.deliver(to, Arrived::Message(bytes));
            return Ok(());
        }
        let outgoing = self.outgoing(to)?;
        outgoing.changed.until(|| outgoing.broken.get() || outgoing.frames.borrow().len() < QUEUED).await;
        if outgoing.broken.get() {
            return Err(FsError::Unknown);
        }
        outgoing.frames.borrow_mut().push_back(frame(bytes));
        outgoing.changed.notify();
        Ok(())
    }

    /// The stream to a node; it is opened if there is none.
    fn outgoing(self: &Rc<Self>, to: Rank) -> Result<Rc<Outgoing>, FsError> {
        if let Some(open) = self.open.borrow().get(&to) {
            return Ok(Rc::clone(open));
        }
        let name = self.names.get(to.index()).ok_or(FsError::Send(SendError::NoSuchPeer(to)))?;
        let stream = self.oob.connect(name, SERVICE)?;
        let outgoing: Rc<Outgoing> = Rc::default();
        // The first frame says who speaks.
        outgoing.frames.borrow_mut().push_back(frame(&self.me.get().to_le_bytes()));
        self.open.borrow_mut().insert(to, Rc::clone(&outgoing));
        drop(self.rt.spawn(Rc::clone(self).run(Some((to, outgoing.clone())), stream)));
        Ok(outgoing)
    }

    /// Carries a stream in both directions until it ends.
    async fn run(self: Rc<Self>, known: Option<(Rank, Rc<Outgoing>)>, mut stream: V::Stream) {
        let mut peer = known;
        let (mut unread, mut unwritten) = (Vec::new(), Vec::new());
        let ended = loop {
            let outgoing = peer.as_ref().map(|(_, outgoing)| Rc::clone(outgoing)).unwrap_or_default();
            let mut changed = Box::pin(outgoing.changed.changed());
            let moved = poll_fn(|cx| {
                let written = poll_write(&mut stream, cx, &outgoing, &mut unwritten);
                let read = poll_read(&mut stream, cx, &mut unread);
                match (read, written) {
                    (Poll::Ready(read), _) => Poll::Ready(read),
                    (_, Poll::Ready(Err(why))) => Poll::Ready(Err(why)),
                    // What is written next wakes this task.
                    _ => std::pin::Pin::new(&mut changed).poll(cx).map(Ok),
                }
            });
            if moved.await.is_err() {
                break peer;
            }
            while let Some(message) = take_frame(&mut unread) {
                match &peer {
                    Some((from, _)) => self.deliver(*from, Arrived::Message(&message)),
                    None => peer = self.introduced(&message),
                }
            }
        };
        if let Some((from, outgoing)) = ended {
            outgoing.broken.set(true);
            outgoing.changed.notify();
            self.open.borrow_mut().remove(&from);
            self.deliver(from, Arrived::Broken);
        }
    }

    /// Who has connected; its answers go out by its stream.
    fn introduced(&self, message: &[u8]) -> Option<(Rank, Rc<Outgoing>)> {
        let rank = Rank::new(u32::from_le_bytes(message.try_into().ok()?))?;
        let outgoing: Rc<Outgoing> = Rc::default();
        self.open.borrow_mut().insert(rank, Rc::clone(&outgoing));
        Some((rank, outgoing))
    }
}

fn frame(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32).to_le_bytes()[..], message].concat()
}

/// Takes a whole frame from the beginning of what was read.
fn take_frame(unread: &mut Vec<u8>) -> Option<Vec<u8>> {
    let len = u32::from_le_bytes(*unread.first_chunk()?) as usize;
    if unread.len() < 4 + len {
        return None;
    }
    let rest = unread.split_off(4 + len);
    let mut message = std::mem::replace(unread, rest);
    message.drain(..4);
    Some(message)
}

/// Writes what there is room for.
fn poll_write<S: Stream>(
    stream: &mut S,
    cx: &mut TaskContext<'_>,
    outgoing: &Outgoing,
    unwritten: &mut Vec<u8>,
) -> Poll<io::Result<()>> {
    loop {
        if unwritten.is_empty() {
            let Some(frame) = outgoing.frames.borrow_mut().pop_front() else { return Poll::Pending };
            *unwritten = frame;
            outgoing.changed.notify();
        }
        match stream.poll_write(cx, unwritten) {
            Poll::Ready(Ok(n)) => drop(unwritten.drain(..n)),
            Poll::Ready(Err(why)) => return Poll::Ready(Err(why)),
            Poll::Pending => return Poll::Pending,
        }
    }
}

/// Reads what is there; an end is an error.
fn poll_read<S: Stream>(
    stream: &mut S,
    cx: &mut TaskContext<'_>,
    unread: &mut Vec<u8>,
) -> Poll<io::Result<()>> {
    let had = unread.len();
    unread.resize(had + CHUNK, 0);
    let read = stream.poll_read(cx, &mut unread[had..]);
    unread.truncate(had + if let Poll::Ready(Ok(n)) = &read { *n } else { 0 });
    match read {
        Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
        Poll::Ready(Ok(_)) => Poll::Ready(Ok(())),
        Poll::Ready(Err(why)) => Poll::Ready(Err(why)),
        Poll::Pending => Poll::Pending,
    }
}
