//! A peer of the shipped sockets that says anything at any time, as a fuzzer's bytes have it: messages next to what they should be,
//! messages out of place, and bytes that are none.

use super::PORT;
use crate::paper::Cluster;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_protocols::rt::Rt;
use weft_protocols::sdp::message::{Greeting, Handle, Header, Message};
use weft_protocols::sdp::{CHANNEL, Mode, Refusal, Sdp, SdpError, SdpListener, SdpOptions, SdpStream};
use weft_protocols::transport::{Incoming, Mesh, Rank};
use weft_sim::choice::{Bytes, Choice};
use weft_sim::profile::Profile;
use weft_sim::{Config, Sim, SimMr};
use weft_verbs::{AccessFlags, MemoryRegion, Nanos, RemoteSlice, Wait};

/// The most messages that bytes are made into.
const MOST: u64 = 80;

/// Which use of a place the stranger's handles say, so that it knows them from the server's.
const OWN: u32 = 7;

/// Private buffers at both ends, and what one takes.
const BUFFERS: u32 = 4;
const PAYLOAD: u32 = 200;

/// Memory that the stranger may advertise, in bytes.
const MEMORY: u32 = 256;

/// How long it waits for answers to what it said last.
const PATIENCE: Nanos = Nanos::from_millis(20);

/// By then the stranger has said everything.
const SILENCE: Nanos = Nanos::from_millis(50);

const END: Nanos = Nanos::from_secs(60);

/// Has the bytes say what a peer says to a server of the shipped sockets. A stream whose peer contradicts its state is aborted, once,
/// and nothing is said on it any more; nothing panics, nothing is left over, and others are served as before.
pub fn stranger(data: &[u8]) {
    let profile = Profile::builtin("present-day").expect("a profile of its own");
    let config = Config::new(3, profile);
    let cluster = Cluster::new(config, |_| Wait::Poll, |_| {}).expect("a cluster of three");
    let options = SdpOptions {
        buffers: BUFFERS,
        buffer_bytes: PAYLOAD,
        zcopy_threshold: 64,
        zcopy_depth: 2,
        ..SdpOptions::default()
    };
    let start = |node: usize| {
        let machine = &cluster.machines[node];
        (machine.rt.clone(), Sdp::start(&machine.rt, &machine.mesh, options).expect("good options"))
    };
    let (rt, sdp) = start(1);
    let listener = sdp.bind(PORT).expect("nobody has the port");
    drop(rt.spawn(listen(rt.clone(), sdp.clone(), listener)));
    let (honest_rt, honest) = start(2);
    let stranger = Stranger::new(&cluster.machines[0].rt, &cluster.machines[0].mesh, data);
    let (mesh, served) = (cluster.machines[0].mesh.clone(), Rc::new(Cell::new(None)));
    let (book, done) = (Rc::clone(&stranger.book), Rc::clone(&served));
    let listening = Rc::clone(&stranger.book);
    drop(stranger.rt.spawn(hear(mesh, listening)));
    let rt = stranger.rt.clone();
    drop(rt.spawn(async move { stranger.talk().await }));
    // Somebody else comes to the same server. It waits by its own clock: nothing wakes a machine for what another one gives it to do.
    let waits = honest_rt.clone();
    drop(honest_rt.spawn(async move {
        waits.sleep(SILENCE).await;
        done.set(Some(is_served(&honest).await));
    }));
    cluster.run_until(END);
    let book = book.borrow();
    let counts = sdp.stats();
    let contradictions = counts.malformed - book.unreadable;
    let aborted = book.streams.values().filter(|stream| stream.aborted).count() as u64;
    assert!(contradictions <= aborted, "{contradictions} contradictions, and {aborted} streams aborted");
    assert_eq!(sdp.streams(), 0, "streams that did not end");
    assert_eq!(served.get(), Some(Ok(())), "an honest peer is served; the server: {counts:?}");
}

/// What the stranger knows of a stream.
#[derive(Default)]
struct Heard {
    /// The server's name for it.
    peer: Option<Handle>,
    /// What an honest end would say next: its position, how far it has received, how many messages it has taken.
    sent: u64,
    received: u64,
    taken: u32,
    aborted: bool,
}

/// What both of its tasks know.
#[derive(Default)]
struct Book {
    streams: BTreeMap<u32, Heard>,
    /// Messages of its own that nobody can read.
    unreadable: u64,
}

struct Stranger {
    rt: Rt<Sim>,
    mesh: Mesh<Sim>,
    bytes: RefCell<Bytes>,
    book: Rc<RefCell<Book>>,
    memory: SimMr,
}

const SERVER: Rank = Rank::from_index(1);

impl Stranger {
    fn new(rt: &Rt<Sim>, mesh: &Mesh<Sim>, data: &[u8]) -> Stranger {
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE;
        Stranger {
            rt: rt.clone(),
            mesh: mesh.clone(),
            bytes: RefCell::new(Bytes::new(data)),
            book: Rc::default(),
            memory: mesh.alloc(MEMORY as usize, access).expect("a few bytes"),
        }
    }

    fn pick(&self, label: &'static str, n: u64) -> u64 {
        self.bytes.borrow_mut().pick(label, n)
    }

    /// A number as it should be, or next to it, or anything.
    fn near(&self, right: u64) -> u64 {
        match self.pick("number", 16) {
            0..=9 => right,
            10 => right.wrapping_sub(1),
            11 => right.wrapping_add(1),
            12 => 0,
            13 => u64::from(u32::MAX),
            14 => u64::MAX,
            _ => self.pick("any", u64::MAX),
        }
    }

    async fn talk(&self) {
        for _ in 0..self.pick("messages", MOST) {
            self.say();
            if self.pick("waits", 4) == 0 {
                self.rt.sleep(Nanos::from_micros(20)).await;
            }
        }
        // What it has suspended goes on, and what it has begun ends.
        self.send(&Message::AckRecv { rail: None });
        self.rt.sleep(PATIENCE).await;
        let known: Vec<_> = self.book.borrow().streams.values().filter_map(|stream| stream.peer).collect();
        known.into_iter().for_each(|to| self.send(&Message::AbortConn { to, moved: false }));
        self.rt.sleep(PATIENCE).await;
    }

    /// Says something.
    fn say(&self) {
        let streams = self.book.borrow().streams.len() as u64;
        match self.pick("what", 32) {
            0 | 1 => self.hello(),
            2 => self.raw(),
            what if streams == 0 => self.stray(what),
            what => self.on_stream(what, self.pick("stream", streams) as u32),
        }
    }

    fn hello(&self) {
        let mut book = self.book.borrow_mut();
        let place = book.streams.len() as u32;
        book.streams.insert(place, Heard::default());
        drop(book);
        let greeting = Greeting {
            from: Handle { place, use_of: OWN },
            buffers: self.near(BUFFERS.into()) as u32,
            buffer_bytes: self.near(PAYLOAD.into()) as u32,
            adverts: self.near(2) as u32,
        };
        let port = self.near(PORT.into()) as u16;
        self.send(&Message::Hello { id: u128::from(place), port, from_port: 1, greeting });
    }

    /// Bytes that need not be a message.
    fn raw(&self) {
        let len = self.pick("length", 64);
        let bytes: Vec<u8> = (0..len).map(|_| self.pick("byte", 256) as u8).collect();
        self.book.borrow_mut().unreadable += u64::from(Message::decode(&bytes).is_none());
        self.send_bytes(&bytes);
    }

    /// Messages that belong to no stream.
    fn stray(&self, what: u64) {
        let to = Handle { place: what as u32 % 3, use_of: self.near(0) as u32 };
        match what % 4 {
            0 => self.send(&Message::Probe),
            1 => self.send(&Message::AckRecv { rail: None }),
            2 => self.send(&Message::SuspCommAck { number: 1 }),
            _ => self.send(&Message::AbortConn { to, moved: false }),
        }
    }

    fn on_stream(&self, what: u64, place: u32) {
        let book = self.book.borrow();
        let Some(stream) = book.streams.get(&place) else { return };
        let Some(to) = stream.peer else { return };
        let (sent, received, taken) = (stream.sent, stream.received, stream.taken);
        drop(book);
        let header = Header {
            to,
            grant: self.near(u64::from(BUFFERS + taken)) as u32,
            acked: self.near(received),
            at: self.near(sent),
        };
        let len = (self.near(80) as u32).min(1 << 20);
        let range = self.range(len);
        let data = [7; PAYLOAD as usize];
        let (message, more) = match what {
            3..=8 => {
                let len = len.min(PAYLOAD);
                (Message::Data { header, bytes: &data[..len as usize] }, u64::from(len))
            }
            9..=12 => (Message::SrcAvail { header, source: range }, u64::from(range.len)),
            13..=16 => (Message::SinkAvail { header, start: self.near(received), sink: range }, 0),
            17 => (Message::RdmaRdCompl { header, len }, 0),
            18 => (Message::RdmaWrCompl { header, len }, u64::from(len)),
            19 => (Message::SrcAvailCancel { header }, 0),
            20 => (Message::SendSm { header }, 0),
            21 => (Message::SinkAvailCancel { header }, 0),
            22 => (Message::SinkCancelAck { header }, 0),
            23 => {
                let modes = [Mode::Buffered, Mode::Combined, Mode::Pipelined];
                (Message::ModeChange { header, mode: modes[len as usize % 3] }, 0)
            }
            24 => (Message::ChRcvBuf { header, bytes: len }, 0),
            25 => (Message::ChRcvBufAck { header, bytes: len }, 0),
            26 => (Message::DisConn { header }, 1),
            27 => (Message::SuspComm { rail: len as u8, number: len }, 0),
            28 => (Message::Reject { to, why: Refusal::Unfit }, 0),
            29 => {
                let greeting = Greeting { from: to, buffers: len, buffer_bytes: len, adverts: len };
                (Message::HelloAck { to, greeting }, 0)
            }
            30 => (Message::AckRecv { rail: (len as u8).checked_sub(1) }, 0),
            _ => (Message::AbortConn { to, moved: len % 2 == 1 }, 0),
        };
        self.send(&message);
        if let Some(stream) = self.book.borrow_mut().streams.get_mut(&place) {
            stream.sent = stream.sent.wrapping_add(more);
        }
    }

    /// Memory of its own, or what is none.
    fn range(&self, len: u32) -> RemoteSlice {
        let good = self.memory.remote(0..(len.clamp(1, MEMORY)) as usize).unwrap_or_default();
        match self.pick("range", 4) {
            0 => RemoteSlice { addr: self.near(good.addr), len, rkey: self.near(good.rkey.into()) as u32 },
            _ => good,
        }
    }

    fn send(&self, message: &Message<'_>) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.send_bytes(&bytes);
    }

    fn send_bytes(&self, bytes: &[u8]) {
        self.mesh.send(SERVER, CHANNEL, bytes).expect("few messages, and short");
    }
}

/// Notes what the server says, and answers nothing.
async fn hear(mesh: Mesh<Sim>, book: Rc<RefCell<Book>>) {
    let mut inbox = mesh.open(CHANNEL).expect("nobody else opens it");
    while let Some(incoming) = inbox.recv().await {
        let Incoming::Message(received) = incoming else { continue };
        let message = Message::decode(received.bytes()).expect("the server speaks the protocol");
        let (to, more, takes) = match message {
            Message::HelloAck { to, .. } | Message::Reject { to, .. } | Message::AbortConn { to, .. } => {
                (to, 0, false)
            }
            Message::Data { header, bytes } => (header.to, bytes.len() as u64, !bytes.is_empty()),
            Message::SrcAvail { header, source } => (header.to, u64::from(source.len), true),
            Message::RdmaWrCompl { header, len } => (header.to, u64::from(len), true),
            Message::DisConn { header } => (header.to, 1, true),
            Message::SinkAvail { header, .. }
            | Message::RdmaRdCompl { header, .. }
            | Message::SrcAvailCancel { header }
            | Message::SendSm { header }
            | Message::SinkAvailCancel { header }
            | Message::SinkCancelAck { header }
            | Message::ModeChange { header, .. }
            | Message::ChRcvBuf { header, .. }
            | Message::ChRcvBufAck { header, .. } => (header.to, 0, true),
            Message::Hello { .. } => panic!("the server asks nobody"),
            Message::SuspComm { .. }
            | Message::SuspCommAck { .. }
            | Message::AckRecv { .. }
            | Message::Probe => continue,
        };
        if to.use_of != OWN {
            // A `HelloAck` that is stray is answered to whom it names, and that may be anybody.
            continue;
        }
        let mut book = book.borrow_mut();
        let stream = book.streams.get_mut(&to.place).expect("a stream that the stranger has begun");
        assert!(!stream.aborted, "it is over, and the server says {message:?}");
        stream.received += more;
        stream.taken += u32::from(takes);
        match message {
            Message::HelloAck { greeting, .. } => stream.peer = Some(greeting.from),
            Message::AbortConn { .. } => stream.aborted = true,
            _ => {}
        }
    }
}

/// Serves whoever comes.
async fn listen(rt: Rt<Sim>, sdp: Sdp<Sim>, listener: SdpListener<Sim>) {
    let mut nth = 0;
    while let Ok(stream) = listener.accept().await {
        nth += 1;
        drop(rt.spawn(serve(rt.clone(), sdp.clone(), Rc::new(stream), nth % 2 == 0)));
    }
}

/// Sends back what it gets, by calls that borrow or with owned buffers, until the stream's end.
async fn serve(rt: Rt<Sim>, sdp: Sdp<Sim>, stream: Rc<SdpStream<Sim>>, owned: bool) -> Result<(), SdpError> {
    let mut bytes = [0; 128];
    loop {
        let len = match owned {
            true => {
                let buffer = sdp.buffer(bytes.len() as u32).map_err(|_| SdpError::Closed)?;
                let (received, buffer) = stream.recv(buffer).await;
                let len = received?;
                if let Some(buffer) = buffer {
                    let sends = Rc::clone(&stream);
                    drop(rt.spawn(async move { sends.send(buffer, len).await }));
                    // Its turn comes before that of the next one, and before the end of the stream.
                    rt.yield_now().await;
                }
                len as usize
            }
            false => {
                let len = stream.read(&mut bytes).await?;
                stream.write_all(&bytes[..len]).await?;
                len
            }
        };
        if len == 0 {
            return stream.shutdown();
        }
    }
}

/// Asks the server as it should be asked.
async fn is_served(sdp: &Sdp<Sim>) -> Result<(), SdpError> {
    let stream = sdp.connect(SERVER, PORT).await?;
    stream.write_all(&[1; 300]).await?;
    stream.shutdown()?;
    let mut answer = [0; 300];
    stream.read_exact(&mut answer).await?;
    assert_eq!(answer, [1; 300], "what it wrote comes back");
    stream.close().await
}
