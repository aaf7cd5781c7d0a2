//! Messages of bounded length on a byte stream.
//!
//! | bytes | |
//! |---|---|
//! | 4 | the length of what follows, most significant byte first |
//! | 1 | what the body is: 0 a message of the control plane in JSON, 1 data that it passes on |
//! | n | the body |
//! | 16 | the seal over kind and body, once the handshake is over |
//!
//! A reader says how long a message may be before it reads one, and takes memory for bytes that have come, not for those
//! that are announced.

use crate::secret::{SEAL, Seal};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// Bytes of the length.
const LENGTH: usize = 4;

/// How many bytes are read at a time.
const CHUNK: usize = 8_192;

/// The longest body from a node or a client.
pub const FROM_CALLER: usize = 256 * 1_024;

/// The longest body from the coordinator.
pub const FROM_COORDINATOR: usize = 4 * 1_024 * 1_024;

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message of the control plane, in JSON.
    Control,
    /// Data that the control plane passes on.
    Data,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What the body is.
    pub kind: Kind,
    /// The body.
    pub body: Vec<u8>,
}

/// Why what came is no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It is longer than it may be.
    #[error("it announced a message of {length} bytes, and at most {most} are taken")]
    TooLong {
        /// As announced.
        length: u64,
        /// As allowed.
        most: usize,
    },
    /// It is shorter than any message.
    #[error("it sent a message of {0} bytes, which is too short to be one")]
    TooShort(usize),
    /// Nobody knows what it is.
    #[error("it sent a message of kind {0}, which there is not")]
    Kind(u8),
    /// Its seal is wrong.
    #[error("it sent a message with a wrong seal")]
    Seal,
}

/// Writes a message into `to`.
///
/// # Errors
/// The body is longer than `most`.
pub fn encode(
    kind: Kind,
    body: &[u8],
    most: usize,
    seal: Option<&mut Seal>,
    to: &mut Vec<u8>,
) -> Result<(), FrameError> {
    if body.len() > most {
        return Err(FrameError::TooLong { length: body.len() as u64, most });
    }
    let length = 1 + body.len() + if seal.is_some() { SEAL } else { 0 };
    to.extend_from_slice(&(length as u32).to_be_bytes());
    let begin = to.len();
    to.push(matches!(kind, Kind::Data) as u8);
    to.extend_from_slice(body);
    if let Some(seal) = seal {
        let made = seal.make(&to[begin..]);
        to.extend_from_slice(&made);
    }
    Ok(())
}

/// Finds messages in bytes.
#[derive(Debug)]
pub struct Decoder {
    bytes: Vec<u8>,
    most: usize,
    seal: Option<Seal>,
}

impl Decoder {
    /// Takes bodies up to `most` bytes, without seals.
    pub fn new(most: usize) -> Decoder {
        Decoder { bytes: Vec::new(), most, seal: None }
    }

    /// From the next message on all are sealed, and bodies may have up to `most` bytes.
    pub fn seal(&mut self, seal: Seal, most: usize) {
        (self.seal, self.most) = (Some(seal), most);
    }

    /// Takes bytes as they came.
    pub fn push(&mut self, bytes: &[u8]) {
        let needed = self.bytes.len() + bytes.len();
        if needed > self.bytes.capacity() {
            // What a vector grows by itself could be twice as long as the longest message.
            let room = (self.bytes.capacity() * 2).min(LENGTH + self.longest() + CHUNK).max(needed);
            self.bytes.reserve_exact(room - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// How many bytes it holds memory for.
    #[cfg(test)]
    fn held(&self) -> usize {
        self.bytes.capacity()
    }

    fn overhead(&self) -> usize {
        1 + if self.seal.is_some() { SEAL } else { 0 }
    }

    fn longest(&self) -> usize {
        self.most + self.overhead()
    }

    /// The next whole message.
    ///
    /// # Errors
    /// What came is no message. Where the next one begins is then not known: the stream is of no more use.
    pub fn take_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(length) = self.bytes.first_chunk::<LENGTH>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > self.longest() {
            let length = (length - self.overhead()) as u64;
            return Err(FrameError::TooLong { length, most: self.most });
        }
        if length < self.overhead() {
            return Err(FrameError::TooShort(length));
        }
        let Some(whole) = self.bytes.get(LENGTH..LENGTH + length) else { return Ok(None) };
        let (text, seal) = whole.split_at(length + 1 - self.overhead());
        if self.seal.as_mut().is_some_and(|made| !made.fits(text, seal)) {
            return Err(FrameError::Seal);
        }
        let kind = match text[0] {
            0 => Kind::Control,
            1 => Kind::Data,
            other => return Err(FrameError::Kind(other)),
        };
        let body = text[1..].to_vec();
        self.bytes.drain(..LENGTH + length);
        Ok(Some(Frame { kind, body }))
    }
}

/// Why no message came.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// The other end closed the connection between two messages.
    #[error("it closed the connection")]
    Closed,
    /// The other end closed the connection within a message.
    #[error("it closed the connection in the middle of a message")]
    Cut,
    /// The connection broke.
    #[error("the connection broke ({0})")]
    Broke(String),
    /// Nothing came.
    #[error("nothing was heard of it for {}", span(*.0))]
    Silent(Duration),
    /// It does not take what is sent.
    #[error("it took nothing of what was sent for {}", span(*.0))]
    Stuck(Duration),
    /// It sent what is no message.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// It sent a message that says nothing.
    #[error("it sent a message that cannot be read ({0})")]
    Message(String),
}

impl From<io::Error> for Ended {
    fn from(why: io::Error) -> Ended {
        Ended::Broke(why.kind().to_string())
    }
}

/// A span as people say it: `5 s`, `500 ms`.
pub fn span(span: Duration) -> String {
    match span.subsec_millis() {
        0 => format!("{} s", span.as_secs()),
        _ => format!("{} ms", span.as_millis()),
    }
}

/// Reads messages.
#[derive(Debug)]
pub struct Reader<R> {
    stream: R,
    decoder: Decoder,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    /// Reads from a stream on which nothing is sealed yet.
    pub fn new(stream: R) -> Reader<R> {
        Reader { stream, decoder: Decoder::new(0) }
    }

    /// See [`Decoder::seal`].
    pub fn seal(&mut self, seal: Seal, most: usize) {
        self.decoder.seal(seal, most);
    }

    /// Reads exactly so many bytes, which are no message. Only before the first message.
    pub async fn raw<const N: usize>(&mut self) -> Result<[u8; N], Ended> {
        let mut bytes = [0; N];
        match self.stream.read_exact(&mut bytes).await {
            Ok(_) => Ok(bytes),
            Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => Err(Ended::Closed),
            Err(why) => Err(why.into()),
        }
    }

    /// The next message, which must begin to come or go on coming within each `silence`.
    pub async fn next(&mut self, silence: Duration) -> Result<Frame, Ended> {
        loop {
            if let Some(frame) = self.decoder.take_frame()? {
                return Ok(frame);
            }
            let mut chunk = [0; CHUNK];
            match timeout(silence, self.stream.read(&mut chunk)).await {
                Err(_) => return Err(Ended::Silent(silence)),
                Ok(Err(why)) => return Err(why.into()),
                Ok(Ok(0)) if self.decoder.bytes.is_empty() => return Err(Ended::Closed),
                Ok(Ok(0)) => return Err(Ended::Cut),
                Ok(Ok(count)) => self.decoder.push(&chunk[..count]),
            }
        }
    }
}

/// Writes messages.
#[derive(Debug)]
pub struct Writer<W> {
    stream: W,
    seal: Option<Seal>,
    most: usize,
    bytes: Vec<u8>,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    /// Writes to a stream on which nothing is sealed yet.
    pub fn new(stream: W) -> Writer<W> {
        Writer { stream, seal: None, most: 0, bytes: Vec::new() }
    }

    /// From the next message on all are sealed, with bodies up to `most` bytes.
    pub fn seal(&mut self, seal: Seal, most: usize) {
        (self.seal, self.most) = (Some(seal), most);
    }

    /// Writes bytes that are no message. Only before the first message.
    pub async fn raw(&mut self, bytes: &[u8], within: Duration) -> Result<(), Ended> {
        self.bytes.extend_from_slice(bytes);
        self.put(within).await
    }

    /// Writes a message, which the other end must take within a span.
    pub async fn write(&mut self, kind: Kind, body: &[u8], within: Duration) -> Result<(), Ended> {
        encode(kind, body, self.most, self.seal.as_mut(), &mut self.bytes)?;
        self.put(within).await
    }

    async fn put(&mut self, within: Duration) -> Result<(), Ended> {
        let all = async {
            self.stream.write_all(&self.bytes).await?;
            self.stream.flush().await
        };
        let ended = timeout(within, all).await;
        self.bytes.clear();
        ended.map_err(|_| Ended::Stuck(within))?.map_err(Ended::from)
    }

    /// Says that nothing more will come.
    pub async fn finish(&mut self) {
        // The other end may have closed before.
        let _ = self.stream.shutdown().await;
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
