//! Users of streams: each makes the calls of its script, one after the other, and may drop one.

use super::super::super::coding::{Coding, Way};
use super::super::super::{PORT, history::Why};
use super::history::{Event, What};
use super::promises::CallOracles;
use super::script::{Called, Left};
use crate::harness::{Quits, Recorder};
use crate::history::{ClientId, RequestId};
use crate::record::Record;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::rt::Rt;
use weft_protocols::rt::sync::Signal;
use weft_protocols::sdp::{Sdp, SdpBuffer, SdpError, SdpStream};
use weft_protocols::transport::Rank;
use weft_sim::Sim;
use weft_verbs::VerbsError;

/// What a call that borrows writes or reads.
const SHORT: usize = 24;
/// What one with an owned buffer does: more than a message takes.
const LONG: usize = 40;
/// What private buffers take in turn.
const SMALL: u32 = 16;

/// A node's end of a stream, which its users share.
pub(super) struct Line {
    node: u32,
    /// The first node's streams are counted.
    number: Cell<u32>,
    stream: RefCell<Option<Rc<SdpStream<Sim>>>>,
    written: Cell<u64>,
    read: Cell<u64>,
    /// Users whose scripts are not over.
    users: Cell<usize>,
    /// A user writes.
    writing: Cell<bool>,
    /// The call that was to connect has failed for good: no stream will stand.
    hopeless: Cell<bool>,
    changed: Signal,
}

impl Line {
    /// An end that so many users will share.
    pub fn new(node: u32, users: usize) -> Rc<Line> {
        let (number, stream, changed) = (Cell::new(0), RefCell::default(), Signal::new());
        let (written, read, users) = (Cell::new(0), Cell::new(0), Cell::new(users));
        let (writing, hopeless) = (Cell::new(false), Cell::new(false));
        Rc::new(Line { node, number, stream, written, read, users, writing, hopeless, changed })
    }

    /// A stream stands.
    pub fn stands(&self, number: u32, stream: SdpStream<Sim>) {
        self.number.set(number);
        self.written.set(0);
        self.read.set(0);
        *self.stream.borrow_mut() = Some(Rc::new(stream));
        self.changed.notify();
    }

    fn coding(&self, way: Way) -> Coding {
        Coding::of(RequestId { client: ClientId { node: 0, index: 0 }, number: self.number.get() }, way)
    }

    fn ways(&self) -> [Way; 2] {
        if self.node == 0 { [Way::There, Way::Back] } else { [Way::Back, Way::There] }
    }
}

/// A user's turn to write, until it is dropped.
struct Turn<'a>(&'a Line);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.writing.set(false);
        self.0.changed.notify();
    }
}

/// One user of an end.
#[derive(Clone)]
pub(super) struct User {
    pub rt: Rt<Sim>,
    pub sdp: Sdp<Sim>,
    pub line: Rc<Line>,
    /// What says that a call is dropped, if one may be.
    pub quits: Option<Rc<Quits>>,
    pub recorder: Recorder<CallOracles>,
}

impl User {
    fn happens(&self, what: What) {
        let (node, stream) = (self.line.node, self.line.number.get());
        self.recorder.record(Event { node, stream, what });
    }

    /// Makes its calls, up to the first that fails for good.
    pub async fn run(self, script: Vec<Called>) {
        self.happens(What::Begins);
        let mut calls = script.into_iter().peekable();
        while let Some(Called { letter, left }) = calls.next() {
            let call = self.call(letter);
            let ended = match (left, self.quits.as_deref()) {
                (Left::Never, _) | (_, None) => Some(call.await),
                (Left::Waiting, quits) => Quits::call(quits, call).await,
                (Left::Whatever, Some(quits)) => quits.leave(call).await,
            };
            match ended {
                None => self.happens(What::Dropped(letter)),
                Some(Ok(())) => {}
                Some(Err(why)) => {
                    let late = why == SdpError::TimedOut;
                    self.happens(What::Fails(letter, Why::from(why)));
                    // Who waited too long goes on: to connect again, where there is no stream.
                    let connects = calls.peek().is_some_and(|next| next.letter == 'c');
                    if !late || letter == 'x' || letter == 'c' && !connects {
                        self.line.hopeless.update(|hopeless| hopeless || letter == 'c');
                        break;
                    }
                }
            }
        }
        self.line.users.update(|users| users - 1);
        if self.line.users.get() == 0 && self.line.stream.borrow().is_some() {
            self.drops();
        }
        self.happens(What::Done);
        self.line.changed.notify();
    }

    async fn call(&self, letter: char) -> Result<(), SdpError> {
        if letter == 'c' {
            return self.connect().await;
        }
        let stream = self.stream().await?;
        match letter {
            'w' => self.write(&stream).await,
            'W' => self.try_write(&stream).await,
            'r' => self.read(&stream).await,
            'R' => self.try_read(&stream).await,
            's' => self.send(&stream).await,
            'v' => self.receive(&stream).await,
            'e' => self.read_to_end(&stream).await,
            'z' => {
                let bytes = if stream.options().buffer_bytes == SMALL { 2 * SMALL } else { SMALL };
                let taken = stream.resize(bytes).await?;
                if taken == bytes { Ok(()) } else { Err(SdpError::UnexpectedEnd) }
            }
            'f' => {
                self.happens(What::Shuts);
                stream.shutdown()
            }
            'k' | 'K' => {
                let (taken, acknowledged) = stream.acknowledged();
                self.happens(What::Knows { taken, acknowledged, answered: letter == 'K' });
                Ok(())
            }
            'B' => {
                self.happens(What::AbortsAll);
                self.sdp.abort_all();
                Ok(())
            }
            _ => {
                drop(stream);
                self.end(letter).await
            }
        }
    }

    async fn connect(&self) -> Result<(), SdpError> {
        if self.line.stream.borrow().is_some() {
            self.drops();
        }
        let number = self.line.number.get() + 1;
        self.line.number.set(number);
        self.happens(What::Connects);
        let stream = self.sdp.connect(Rank::from_index(1), PORT).await?;
        self.line.stands(number, stream);
        Ok(())
    }

    /// The stream, once it stands.
    ///
    /// # Errors
    ///
    /// It never will, since who was to connect was refused.
    async fn stream(&self) -> Result<Rc<SdpStream<Sim>>, SdpError> {
        let known = || self.line.stream.borrow().is_some() || self.line.hopeless.get();
        self.line.changed.until(known).await;
        let stream = self.line.stream.borrow().clone();
        stream.ok_or(SdpError::Closed)
    }

    /// Waits until no other user of this end writes: which bytes come next is known when those before them are written.
    async fn turn(&self) -> Turn<'_> {
        self.line.changed.until(|| !self.line.writing.get()).await;
        self.line.writing.set(true);
        Turn(&self.line)
    }

    /// Ends the stream in the way of a letter, once no other user has it.
    async fn end(&self, letter: char) -> Result<(), SdpError> {
        self.line.changed.until(|| self.line.users.get() == 1).await;
        match letter {
            'x' => {
                self.happens(What::Shuts);
                self.take().close().await?;
                self.happens(What::Closed);
            }
            'b' => {
                self.happens(What::Aborts);
                self.take().abort();
            }
            _ => self.drops(),
        }
        Ok(())
    }

    fn take(&self) -> SdpStream<Sim> {
        let stream = self.line.stream.borrow_mut().take().expect("it stands");
        Rc::into_inner(stream).expect("calls that are dropped hold no stream")
    }

    fn drops(&self) {
        self.happens(What::Drops);
        drop(self.take());
    }

    /// The next bytes that this end writes.
    fn next(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.line.coding(self.line.ways()[0]).fill(self.line.written.get(), &mut bytes);
        bytes
    }

    fn wrote(&self, bytes: usize) {
        self.line.written.update(|written| written + bytes as u64);
        self.happens(What::Writes(bytes as u32));
    }

    fn is_right(&self, bytes: &[u8]) -> bool {
        self.line.coding(self.line.ways()[1]).is_at(self.line.read.get(), bytes)
    }

    /// Bytes were read; none at the end of the stream. Whether there may be more.
    fn got(&self, bytes: &[u8]) -> bool {
        if bytes.is_empty() {
            self.happens(What::ReadsEnd);
            return false;
        }
        self.happens(What::Reads { bytes: bytes.len() as u32, right: self.is_right(bytes) });
        self.line.read.update(|read| read + bytes.len() as u64);
        true
    }

    async fn write(&self, stream: &SdpStream<Sim>) -> Result<(), SdpError> {
        let _turn = self.turn().await;
        let mut left = SHORT;
        while left > 0 {
            let (head, tail) = (self.next(left), []);
            let written = stream.write_vectored(&[&head, &tail]).await?;
            self.wrote(written);
            left -= written;
        }
        Ok(())
    }

    async fn try_write(&self, stream: &SdpStream<Sim>) -> Result<(), SdpError> {
        let _turn = self.turn().await;
        let mut left = SHORT;
        while left > 0 {
            stream.writable().await;
            if let Some(written) = stream.try_write(&self.next(left))? {
                self.wrote(written);
                left -= written;
            }
        }
        Ok(())
    }

    async fn send(&self, stream: &SdpStream<Sim>) -> Result<(), SdpError> {
        let _turn = self.turn().await;
        let buffer = self.buffer().await?;
        buffer.write(0, &self.next(LONG)).map_err(|_| SdpError::UnexpectedEnd)?;
        // A call that is dropped is carried out all the same.
        self.wrote(LONG);
        match stream.send(buffer, LONG as u32).await {
            (Ok(sent), Some(_)) if sent == LONG as u32 => Ok(()),
            // Its time was over.
            (Ok(sent), Some(_)) if stream.options().write_timeout.is_some() => {
                self.takes_back(LONG - sent as usize);
                Err(SdpError::TimedOut)
            }
            (Ok(_), _) => Err(SdpError::UnexpectedEnd),
            (Err(SdpError::TimedOut), Some(_)) => {
                self.takes_back(LONG);
                Err(SdpError::TimedOut)
            }
            (Err(why), _) => Err(why),
        }
    }

    /// A call that took too long has sent so many bytes less than it was to.
    fn takes_back(&self, bytes: usize) {
        self.line.written.update(|written| written - bytes as u64);
        self.happens(What::TakesBack(bytes as u32));
    }

    /// A buffer; where the system has no memory to give, in a later step.
    async fn buffer(&self) -> Result<SdpBuffer<Sim>, SdpError> {
        loop {
            match self.sdp.buffer(LONG as u32) {
                Ok(buffer) => return Ok(buffer),
                Err(VerbsError::Os { .. }) => self.rt.yield_now().await,
                Err(_) => return Err(SdpError::Closed),
            }
        }
    }

    async fn read(&self, stream: &SdpStream<Sim>) -> Result<(), SdpError> {
        let mut left = SHORT;
        while left > 0 {
            let mut bytes = vec![0; left];
            let read = stream.read(&mut bytes).await?;
            if !self.got(&bytes[..read]) {
                break;
            }
            left -= read;
        }
        Ok(())
    }

    /// Looks at each byte before it takes it.
    async fn try_read(&self, stream: &SdpStream<Sim>) -> Result<(), SdpError> {
        let mut left = SHORT;
        while left > 0 {
            stream.readable().await;
            let (mut seen, mut bytes) = (vec![0; left], vec![0; left]);
            let peeked = stream.peek(&mut seen)?;
            let read = stream.try_read(&mut bytes)?;
            if peeked != read {
                return Err(SdpError::UnexpectedEnd);
            }
            let Some(read) = read else { continue };
            if seen[..read] != bytes[..read] {
                return Err(SdpError::UnexpectedEnd);
            }
            if !self.got(&bytes[..read]) {
                break;
            }
            left -= read;
        }
        Ok(())
    }

    async fn read_to_end(&self, stream: &SdpStream<Sim>) -> Result<(), SdpError> {
        let mut bytes = [0; 2 * LONG];
        loop {
            let read = stream.read(&mut bytes).await?;
            if !self.got(&bytes[..read]) {
                return Ok(());
            }
        }
    }

    async fn receive(&self, stream: &SdpStream<Sim>) -> Result<(), SdpError> {
        let (received, buffer) = stream.recv(self.buffer().await?).await;
        let mut bytes = vec![0; received? as usize];
        let buffer = buffer.ok_or(SdpError::UnexpectedEnd)?;
        buffer.read(0, &mut bytes).map_err(|_| SdpError::UnexpectedEnd)?;
        self.got(&bytes);
        Ok(())
    }
}
