//! A stream, as a user has it.

use super::endpoint::Failure;
use super::service::Sdp;
use super::socket::Socket;
use super::{SdpError, SdpOptions};
use crate::transport::Rank;
use std::fmt;
use std::rc::Rc;
use weft_verbs::{Verbs, Work};

/// One end of a stream: a node and a port of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The node.
    pub rank: Rank,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.rank, self.port)
    }
}

/// A stream of bytes between two nodes. Reads and writes borrow it, so one task may read while another one writes.
///
/// Dropping it closes it in the background: what was written is still delivered. If bytes wait to be read then, or come later,
/// they are lost, and the peer is told by a reset, as with sockets.
pub struct SdpStream<V: Verbs> {
    pub(super) sdp: Sdp<V>,
    pub(super) socket: Rc<Socket<V>>,
}

impl<V: Verbs> SdpStream<V> {
    pub(super) fn new(sdp: &Sdp<V>, socket: Rc<Socket<V>>) -> SdpStream<V> {
        SdpStream { sdp: sdp.clone(), socket }
    }

    /// This end's address.
    pub fn local_addr(&self) -> Address {
        self.socket.local
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> Address {
        self.socket.remote
    }

    /// The stream's identity: 128 random bits, the same at both ends.
    pub fn id(&self) -> u128 {
        self.socket.id
    }

    /// Its options.
    pub fn options(&self) -> SdpOptions {
        self.socket.options
    }

    /// How many bytes were written and taken, and how many of them the peer's end is known to have received. They may wait there for
    /// its user to read them.
    pub fn acknowledged(&self) -> (u64, u64) {
        self.socket.end.borrow().positions()
    }

    /// Waits until the connection stands.
    pub(super) async fn stands(&self) -> Result<(), SdpError> {
        self.socket.writable.until(|| !self.socket.end.borrow().is_connecting()).await;
        self.sound()
    }

    /// Whether the stream has not failed.
    pub(super) fn sound(&self) -> Result<(), SdpError> {
        self.socket.end.borrow().failure().map_or(Ok(()), |why| Err(why.into()))
    }

    /// Reads what is there, at most as much as `into` takes. `None` if nothing is there yet; 0 bytes at the end of the stream. What
    /// came before a failure is read before the failure is told.
    ///
    /// # Errors
    ///
    /// The stream failed.
    pub fn try_read(&self, into: &mut [u8]) -> Result<Option<usize>, SdpError> {
        if into.is_empty() {
            return Ok(Some(0));
        }
        let read = self.socket.take(into);
        if read > 0 {
            self.copied(read, |stats| &mut stats.bytes_read);
            // Buffers are free again. The peer is told with what is sent next, unless it waits for that.
            if self.socket.end.borrow().owes_credits() {
                self.sdp.flush(&self.socket);
            }
            return Ok(Some(read));
        }
        self.nothing_to_read()
    }

    /// What is left to say when no bytes are here: they are another call's, or at the peer, they are over, or the stream failed.
    pub(super) fn nothing_to_read(&self) -> Result<Option<usize>, SdpError> {
        if self.socket.owes_first() {
            return Ok(None);
        }
        if self.socket.next_source().is_some() {
            self.sound()?;
            // They are brought here for a user who gives no buffer that an adapter could write.
            self.sdp.fetch(&self.socket, None);
            return Ok(None);
        }
        if self.socket.end.borrow().has_ended() {
            return Ok(Some(0));
        }
        self.sound().map(|()| None)
    }

    /// Copies what is there into `into` and leaves it there to be read. As [`SdpStream::try_read`] otherwise.
    ///
    /// # Errors
    ///
    /// The stream failed.
    pub fn peek(&self, into: &mut [u8]) -> Result<Option<usize>, SdpError> {
        match self.socket.peek(into) {
            0 if !into.is_empty() => self.nothing_to_read(),
            n => Ok(Some(n)),
        }
    }

    /// Waits until there is something to read: bytes, the end, or a failure.
    pub async fn readable(&self) {
        let nothing = || self.socket.here() == 0 && self.nothing_to_read() == Ok(None);
        self.socket.readable.until(|| !nothing()).await;
    }

    /// Reads at least one byte, at most as many as `into` takes; 0 at the end of the stream.
    ///
    /// # Errors
    ///
    /// The stream failed, or nothing came within the read time-out.
    pub async fn read(&self, into: &mut [u8]) -> Result<usize, SdpError> {
        let read = async {
            loop {
                let changed = self.socket.readable.changed();
                if let Some(read) = self.try_read(into)? {
                    return Ok(read);
                }
                changed.await;
            }
        };
        self.sdp.within(self.socket.options.read_timeout, read).await
    }

    /// As [`SdpStream::read`], into several places, one after the other: at least one byte, and as many of those that are here as they take.
    ///
    /// # Errors
    ///
    /// As that. A failure behind bytes that were read is told by the next call.
    pub async fn read_vectored(&self, parts: &mut [&mut [u8]]) -> Result<usize, SdpError> {
        let mut parts = parts.iter_mut().filter(|part| !part.is_empty());
        let Some(first) = parts.next() else { return Ok(0) };
        let mut room = first.len();
        let mut all = self.read(first).await?;
        let mut read = all;
        for part in parts {
            if read < room {
                break;
            }
            room = part.len();
            read = self.try_read(part).ok().flatten().unwrap_or(0);
            all += read;
        }
        Ok(all)
    }

    /// Reads as many bytes as `into` takes.
    ///
    /// # Errors
    ///
    /// As [`SdpStream::read`], and `UnexpectedEnd` if the stream ends before.
    pub async fn read_exact(&self, mut into: &mut [u8]) -> Result<(), SdpError> {
        while !into.is_empty() {
            match self.read(into).await? {
                0 => return Err(SdpError::UnexpectedEnd),
                n => into = &mut into[n..],
            }
        }
        Ok(())
    }

    /// Writes as much as the peer has private buffers for. `None` if that is nothing.
    ///
    /// # Errors
    ///
    /// The stream failed, or this end is shut down.
    pub fn try_write(&self, bytes: &[u8]) -> Result<Option<usize>, SdpError> {
        self.try_write_vectored(&[bytes])
    }

    /// As [`SdpStream::try_write`], from several places, one after the other.
    ///
    /// # Errors
    ///
    /// As that.
    pub fn try_write_vectored(&self, parts: &[&[u8]]) -> Result<Option<usize>, SdpError> {
        self.writes()?;
        let all: usize = parts.iter().map(|part| part.len()).sum();
        // What is owned by buffers that were sent before comes first.
        let waits = !self.socket.sending.borrow().is_empty();
        let written = if waits { 0 } else { self.sdp.send_data(&self.socket, &parts, all) };
        // A failure on the way is told by the next call: the bytes were taken.
        Ok((written > 0 || all == 0).then_some(written))
    }

    /// Bytes were copied between the user's memory and private buffers.
    pub(super) fn copied(&self, bytes: usize, count: impl Fn(&mut super::SdpStats) -> &mut u64) {
        let mut stats = self.sdp.shared.stats.borrow_mut();
        stats.copies += 1;
        *count(&mut stats) += bytes as u64;
        self.sdp.shared.rt.spend(Work::Copy { bytes: bytes as u64 });
    }

    /// Whether the user may still write.
    pub(super) fn writes(&self) -> Result<(), SdpError> {
        self.sound()?;
        let writes = self.socket.end.borrow().is_writable() && !self.socket.closing.get();
        if writes { Ok(()) } else { Err(SdpError::BrokenPipe) }
    }

    /// Waits until something can be written, or the stream failed.
    pub async fn writable(&self) {
        loop {
            let changed = self.socket.writable.changed();
            let behind = !self.socket.sending.borrow().is_empty();
            let suspended = self.sdp.is_suspended(self.socket.peer);
            let may_write = self.socket.end.borrow().may_write() && !behind && !suspended;
            if (may_write && self.sdp.has_room(&self.socket)) || self.writes().is_err() {
                return;
            }
            if may_write {
                // Room comes without a message of this stream. All else that is waited for wakes it.
                self.sdp.block(&self.socket);
            }
            changed.await;
        }
    }

    /// Writes at least one byte, and returns how many were taken. They arrive unless the stream fails.
    ///
    /// # Errors
    ///
    /// The stream failed, this end is shut down, or nothing was taken within the write time-out.
    pub async fn write(&self, bytes: &[u8]) -> Result<usize, SdpError> {
        self.write_vectored(&[bytes]).await
    }

    /// As [`SdpStream::write`], from several places, one after the other.
    ///
    /// # Errors
    ///
    /// As that.
    pub async fn write_vectored(&self, parts: &[&[u8]]) -> Result<usize, SdpError> {
        let write = async {
            loop {
                let changed = self.socket.writable.changed();
                if let Some(written) = self.try_write_vectored(parts)? {
                    return Ok(written);
                }
                changed.await;
            }
        };
        self.sdp.within(self.socket.options.write_timeout, write).await
    }

    /// Writes all of it.
    ///
    /// # Errors
    ///
    /// As [`SdpStream::write`].
    pub async fn write_all(&self, mut bytes: &[u8]) -> Result<(), SdpError> {
        while !bytes.is_empty() {
            let written = self.write(bytes).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Says that this end writes no more: the peer reads what is there, and then the end. Reading goes on.
    ///
    /// # Errors
    ///
    /// The stream failed.
    pub fn shutdown(&self) -> Result<(), SdpError> {
        self.sound()?;
        self.socket.closing.set(true);
        self.sdp.flush(&self.socket);
        Ok(())
    }

    /// Shuts this end down and waits until the peer's end has received everything, at most for the linger time; then it aborts.
    ///
    /// # Errors
    ///
    /// The stream failed: the peer may not have received everything.
    pub async fn close(self) -> Result<(), SdpError> {
        self.finish().await
    }

    /// As [`SdpStream::close`], where others still hold the stream.
    pub(super) async fn finish(&self) -> Result<(), SdpError> {
        self.shutdown()?;
        let acknowledged = async {
            let socket = &self.socket;
            socket.writable.until(|| self.sound().is_err() || socket.end.borrow().is_acknowledged()).await;
            self.sound()
        };
        let end = self.sdp.within(self.socket.options.linger, acknowledged).await;
        if end == Err(SdpError::TimedOut) {
            self.sdp.abort(&self.socket);
        }
        end
    }

    /// Ends the stream at once. What is under way in either direction may be lost; the peer reads a reset.
    pub fn abort(self) {
        self.sdp.abort(&self.socket);
    }
}

impl<V: Verbs> Drop for SdpStream<V> {
    fn drop(&mut self) {
        let socket = &self.socket;
        if socket.end.borrow().is_connecting() {
            // It does not stand on this end, so there is nobody to tell; an answer that comes late is aborted.
            socket.end.borrow_mut().fail(Failure::Aborted, false);
        }
        let lost = socket.discard() && socket.end.borrow().failure().is_none();
        socket.end.borrow_mut().deafen();
        if lost {
            self.sdp.abort(socket);
        } else {
            socket.closing.set(true);
            self.sdp.flush(socket);
        }
    }
}
