//! Copying a file over a stream: its name, its bytes without a copy where the adapters can, and an answer.
//!
//! The receiver keeps what comes apart from the final name until all of it is there and safe. So a copy that does not end leaves
//! nothing under that name, and an answer that says "stored" is true after a crash, too.
//!
//! | who | bytes |
//! |---|---|
//! | sender | magic (8), length of the file (8), length of the name (2), the name, the file |
//! | receiver | 0: stored; or 1, length of a text (2), the text: why not. It may come before the file's end. Or 2, and the same: the file has its name, and why nobody knows whether that is on the disk |

use super::{Sdp, SdpBuffer, SdpError, SdpStream, Transfer};
use crate::rt::{JoinHandle, Rt};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use thiserror::Error;
use weft_verbs::Verbs;

const MAGIC: [u8; 8] = *b"weft-cp1";
/// The longest name, in bytes: Linux's `PATH_MAX`.
const LONGEST_NAME: usize = 4_096;
/// What one owned buffer takes of a file at most: beyond the default threshold, so that it goes by ZCopy.
const PART: u32 = 256 * 1024;
/// Owned buffers that a sender has under way.
const DEPTH: usize = 4;
const STORED: u8 = 0;
const REFUSED: u8 = 1;
const NAMED: u8 = 2;

/// Where the bytes of a file come from. A call that takes long lets others run meanwhile, here and below: a node that stands still
/// acknowledges nothing, and its peer gives it up.
pub trait Source {
    /// The next bytes; 0 at the end.
    fn read(&mut self, into: &mut [u8]) -> impl Future<Output = io::Result<usize>>;
}

/// Where files are stored.
pub trait Store {
    /// A file that is on its way.
    type Partial: Partial;
    /// Begins a file of that name and length. Nothing is seen under the name yet.
    fn create(&self, name: &str, len: u64) -> impl Future<Output = io::Result<Self::Partial>>;
}

/// A file that is on its way. One that is dropped leaves nothing behind.
pub trait Partial {
    /// Adds bytes at its end.
    fn append(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>>;
    /// Makes it safe, and gives it its name. An error is that of a file that has no name.
    fn finish(self) -> impl Future<Output = io::Result<Finished>>;
}

/// A file that has its name.
#[derive(Debug)]
pub enum Finished {
    /// It and its name are safe.
    Safe,
    /// It is, and its name may not outlive a crash.
    Named(io::Error),
}

/// Why a file was not copied.
#[derive(Debug, Error)]
pub enum CopyError {
    /// The stream failed.
    #[error("the stream: {0}")]
    Stream(#[from] SdpError),
    /// The file cannot be read, or is shorter than it was.
    #[error("the file: {0}")]
    Source(io::Error),
    /// It cannot be stored.
    #[error("it cannot be stored: {0}")]
    Store(io::Error),
    /// The receiver has it, and may not have it after a crash.
    #[error("it has its name; whether that is on the disk is not known: {0}")]
    Named(String),
    /// The receiver does not take it.
    #[error("the receiver refuses: {0}")]
    Refused(String),
    /// The name is none that a file may have here.
    #[error("the name {name:?}: {why}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The peer does not speak this protocol.
    #[error("the peer does not copy files")]
    Stranger,
    /// The sender ended before the file did.
    #[error("the sender ended after {got} of {len} bytes")]
    Incomplete {
        /// Bytes of the file that came.
        got: u64,
        /// Bytes that it has.
        len: u64,
    },
    /// The adapter gives no memory.
    #[error("{0}")]
    Memory(#[from] weft_verbs::VerbsError),
}

/// A file that was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its name, relative to what is served.
    pub name: String,
    /// Its length in bytes.
    pub len: u64,
}

/// What an owned buffer takes of a file of so many bytes.
fn part_of(len: u64) -> u32 {
    len.clamp(1, PART.into()) as u32
}

/// Whether a name stays below the folder that is served.
///
/// # Errors
///
/// It does not, or it is none.
pub fn check_name(name: &str) -> Result<(), CopyError> {
    let wrong = |why| Err(CopyError::Name { name: name.chars().take(80).collect(), why });
    if name.is_empty() {
        return wrong("it is empty");
    }
    if name.len() > LONGEST_NAME {
        return wrong("it is longer than 4,096 bytes");
    }
    if name.contains('\0') {
        return wrong("it has a zero byte");
    }
    if name.split('/').any(|part| ["", ".", ".."].contains(&part)) {
        return wrong("it must be a path below the folder that is served");
    }
    Ok(())
}

/// How the two ends of a stream part whose file is stored. That is no matter of the file any more: whoever has this knows that it is stored.
/// If it is dropped the peer is told nothing more, and the stream closes in the background.
#[must_use = "a sender that is not told waits for its answer"]
pub struct Parting<V: Verbs> {
    stream: Rc<SdpStream<V>>,
    last_word: &'static [u8],
}

impl<V: Verbs> Parting<V> {
    /// Says what the peer still waits for, and closes the stream.
    pub async fn part(self) {
        if self.stream.write_all(self.last_word).await.is_ok() {
            let _ = self.stream.finish().await;
        }
    }
}

/// Sends a file of `len` bytes, waits until the peer has stored it under `name`, and parts from it. `progress` is told how many of its
/// bytes the peer's end has.
///
/// # Errors
///
/// The file was not stored, but for two cases: the stream failed while the answer was awaited, and it may have been; or it is `Named`.
pub async fn put<V: Verbs>(
    rt: &Rt<V>,
    sdp: &Sdp<V>,
    stream: SdpStream<V>,
    file: (&str, u64),
    source: impl Source,
    progress: impl FnMut(u64),
) -> Result<(), CopyError> {
    let parting = put_and_stay(rt, sdp, stream, file, source, progress).await?;
    parting.part().await;
    Ok(())
}

/// As [`put`], and has yet to part from the peer.
///
/// # Errors
///
/// As that.
pub async fn put_and_stay<V: Verbs>(
    rt: &Rt<V>,
    sdp: &Sdp<V>,
    stream: SdpStream<V>,
    (name, len): (&str, u64),
    source: impl Source,
    progress: impl FnMut(u64),
) -> Result<Parting<V>, CopyError> {
    check_name(name)?;
    let stream = Rc::new(stream);
    let mut head = MAGIC.to_vec();
    head.extend(len.to_le_bytes());
    head.extend((name.len() as u16).to_le_bytes());
    head.extend(name.as_bytes());
    let ended = {
        let sender = Sender { rt, sdp, stream: &stream, before: head.len() as u64, progress };
        let mut sends = pin!(async {
            stream.write_all(&head).await?;
            sender.send(source, len).await
        });
        let mut answers = pin!(answer(&stream));
        // A receiver that refuses takes no more bytes, so its answer must be heard while they are sent. Where it stores the file,
        // the answer may be seen before the last buffer is back.
        let (mut sent, mut stored) = (false, false);
        poll_fn(|cx| {
            if !sent && let Poll::Ready(end) = sends.as_mut().poll(cx) {
                end?;
                sent = true;
            }
            if !stored && let Poll::Ready(end) = answers.as_mut().poll(cx) {
                end?;
                stored = true;
            }
            if sent && stored { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
        .await
    };
    if ended.is_err() {
        stream.sdp.abort(&stream.socket);
    }
    ended.map(|()| Parting { stream, last_word: &[] })
}

/// What sends the bytes of a file.
struct Sender<'a, V: Verbs, P> {
    rt: &'a Rt<V>,
    sdp: &'a Sdp<V>,
    stream: &'a Rc<SdpStream<V>>,
    /// Bytes of the stream before the file's.
    before: u64,
    progress: P,
}

impl<V: Verbs, P: FnMut(u64)> Sender<'_, V, P> {
    async fn send(mut self, mut source: impl Source, len: u64) -> Result<(), CopyError> {
        let mut under_way: VecDeque<JoinHandle<Transfer<V>>> = VecDeque::new();
        let longest = part_of(len);
        let (mut free, mut bytes) = (Vec::new(), vec![0; longest as usize]);
        let mut at = 0;
        while at < len {
            let most = u64::from(longest).min(len - at) as usize;
            let part = fill(&mut source, &mut bytes[..most]).await?;
            if under_way.len() == DEPTH {
                free.push(self.end_first(&mut under_way).await?);
            }
            at += part.len() as u64;
            let Some(buffer) = free.pop().or_else(|| self.sdp.buffer(longest).ok()) else {
                // Where no memory can be registered, it goes through private buffers, behind what is under way.
                self.stream.write_all(part).await?;
                self.tell();
                continue;
            };
            buffer.write(0, part)?;
            let (stream, part) = (Rc::clone(self.stream), part.len() as u32);
            under_way.push_back(self.rt.spawn(async move { stream.send(buffer, part).await }));
            // Its turn comes before that of the next one.
            self.rt.yield_now().await;
        }
        while !under_way.is_empty() {
            self.end_first(&mut under_way).await?;
        }
        Ok(())
    }

    async fn end_first(
        &mut self,
        under_way: &mut VecDeque<JoinHandle<Transfer<V>>>,
    ) -> Result<SdpBuffer<V>, CopyError> {
        let ended = match under_way.pop_front() {
            Some(first) => first.await,
            None => None,
        };
        self.tell();
        // A task that was not carried out is one of a node that has ended.
        let (sent, buffer) = ended.unwrap_or((Err(SdpError::Closed), None));
        sent?;
        buffer.ok_or(CopyError::Stream(SdpError::Closed))
    }

    fn tell(&mut self) {
        let (_, there) = self.stream.acknowledged();
        (self.progress)(there.saturating_sub(self.before));
    }
}

/// Reads until the part is full. A file that has become shorter is an error: its length was told.
async fn fill<'b>(source: &mut impl Source, part: &'b mut [u8]) -> Result<&'b [u8], CopyError> {
    let mut full = 0;
    while full < part.len() {
        match source.read(&mut part[full..]).await.map_err(CopyError::Source)? {
            0 => return Err(CopyError::Source(io::ErrorKind::UnexpectedEof.into())),
            read => full += read,
        }
    }
    Ok(part)
}

async fn answer<V: Verbs>(stream: &SdpStream<V>) -> Result<(), CopyError> {
    let mut verdict = [0];
    stream.read_exact(&mut verdict).await?;
    match verdict[0] {
        STORED => Ok(()),
        REFUSED => Err(CopyError::Refused(reason(stream).await?)),
        NAMED => Err(CopyError::Named(reason(stream).await?)),
        _ => Err(CopyError::Stranger),
    }
}

async fn reason<V: Verbs>(stream: &SdpStream<V>) -> Result<String, SdpError> {
    let mut len = [0; 2];
    stream.read_exact(&mut len).await?;
    let mut text = vec![0; u16::from_le_bytes(len).into()];
    stream.read_exact(&mut text).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Receives a file that a peer puts, answers, and parts from it. `progress` is told how many bytes came. A file that is stored is stored,
/// whether or not the peer is there to be told.
///
/// # Errors
///
/// It was not stored, or is `Named`; the peer was told why, if it is there.
pub async fn take<V: Verbs>(
    sdp: &Sdp<V>,
    stream: SdpStream<V>,
    store: &impl Store,
    progress: impl FnMut(u64),
) -> Result<Stored, CopyError> {
    let (stored, parting) = take_and_stay(sdp, stream, store, progress).await?;
    parting.part().await;
    Ok(stored)
}

/// As [`take`], and has yet to tell the peer that its file is stored, and to part from it.
///
/// # Errors
///
/// As that.
pub async fn take_and_stay<V: Verbs>(
    sdp: &Sdp<V>,
    stream: SdpStream<V>,
    store: &impl Store,
    progress: impl FnMut(u64),
) -> Result<(Stored, Parting<V>), CopyError> {
    let (stored, mut file) = match begin(&stream, store).await {
        Ok(begun) => begun,
        Err(why) => return Err(fails(stream, why).await),
    };
    if let Err(why) = receive(sdp, &stream, stored.len, &mut file, progress).await {
        // What is not whole is removed once the peer was told why: a disk may take long for that.
        return Err(fails(stream, why).await);
    }
    match file.finish().await {
        Ok(Finished::Safe) => Ok((stored, Parting { stream: Rc::new(stream), last_word: &[STORED] })),
        Ok(Finished::Named(why)) => Err(fails(stream, CopyError::Named(why.to_string())).await),
        Err(why) => Err(fails(stream, CopyError::Store(why)).await),
    }
}

/// What file the peer puts, and where its bytes go.
async fn begin<V: Verbs, S: Store>(
    stream: &SdpStream<V>,
    store: &S,
) -> Result<(Stored, S::Partial), CopyError> {
    let (name, len) = head(stream).await?;
    check_name(&name)?;
    let file = store.create(&name, len).await.map_err(CopyError::Store)?;
    Ok((Stored { name, len }, file))
}

async fn receive<V: Verbs>(
    sdp: &Sdp<V>,
    stream: &SdpStream<V>,
    len: u64,
    file: &mut impl Partial,
    mut progress: impl FnMut(u64),
) -> Result<(), CopyError> {
    let part = part_of(len);
    let (mut buffer, mut bytes) = (sdp.buffer(part).ok(), vec![0; part as usize]);
    let mut got = 0;
    while got < len {
        let part = match buffer.take() {
            Some(owned) => {
                let (received, back) = stream.recv(owned).await;
                let (part, back) = (received? as usize, back.ok_or(SdpError::Closed)?);
                back.read(0, &mut bytes[..part])?;
                buffer = Some(back);
                part
            }
            // No memory could be registered: bytes are copied.
            None => stream.read(&mut bytes).await?,
        };
        if part == 0 {
            return Err(CopyError::Incomplete { got, len });
        }
        got += part as u64;
        if got > len {
            return Err(CopyError::Stranger);
        }
        file.append(&bytes[..part]).await.map_err(CopyError::Store)?;
        progress(got);
    }
    Ok(())
}

async fn head<V: Verbs>(stream: &SdpStream<V>) -> Result<(String, u64), CopyError> {
    let (mut magic, mut len, mut name_len) = ([0; 8], [0; 8], [0; 2]);
    stream.read_exact(&mut magic).await?;
    if magic != MAGIC {
        return Err(CopyError::Stranger);
    }
    stream.read_exact(&mut len).await?;
    stream.read_exact(&mut name_len).await?;
    let name_len = usize::from(u16::from_le_bytes(name_len));
    if name_len > LONGEST_NAME {
        return Err(CopyError::Name { name: String::new(), why: "it is longer than 4,096 bytes" });
    }
    let mut name = vec![0; name_len];
    stream.read_exact(&mut name).await?;
    let name = String::from_utf8(name);
    let name = name.map_err(|_| CopyError::Name { name: String::new(), why: "it is not UTF-8" })?;
    Ok((name, u64::from_le_bytes(len)))
}

/// Tells the sender why not, if it is there, and says it again.
async fn fails<V: Verbs>(stream: SdpStream<V>, why: CopyError) -> CopyError {
    if !matches!(why, CopyError::Stream(_) | CopyError::Incomplete { .. }) {
        refuse(stream, &why).await;
    }
    why
}

/// Tells the sender why not, and drops what it still sends: to close with bytes unread would reset the stream, and with it the
/// answer.
async fn refuse<V: Verbs>(stream: SdpStream<V>, why: &CopyError) {
    let (verdict, text) = match why {
        CopyError::Named(why) => (NAMED, why.clone()),
        _ => (REFUSED, why.to_string()),
    };
    let text: String = text.chars().take(1_000).collect();
    let mut answer = vec![verdict];
    answer.extend((text.len() as u16).to_le_bytes());
    answer.extend(text.as_bytes());
    if stream.write_all(&answer).await.is_err() || stream.shutdown().is_err() {
        return;
    }
    let mut dropped = vec![0; 4_096];
    while let Ok(1..) = stream.read(&mut dropped).await {}
}
