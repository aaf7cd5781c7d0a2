//! Sending from and receiving into owned buffers.

use super::SdpError;
use super::buffer::{SdpBuffer, Transfer};
use super::socket::{Came, Segment, Socket, Wanted};
use super::stream::SdpStream;
use super::zcopy::keep_bytes;
use crate::rt::sync::{OneshotReceiver, oneshot};
use std::rc::Rc;
use weft_verbs::{MemoryRegion, Nanos, Verbs};

/// When a call's buffer is wanted back.
struct Patience {
    /// The call's time-out.
    at: Option<Nanos>,
    /// How often the user had asked for all buffers when the call was made.
    recalls: u64,
    /// Why it is wanted back, once it is.
    over: Option<SdpError>,
}

impl<V: Verbs> SdpStream<V> {
    /// Sends the first bytes of an owned buffer, and gives it back when no adapter reads it any more. Calls that are made before others
    /// have ended are served in their order; that is how ZCopy is pipelined.
    ///
    /// More than the threshold goes by ZCopy: into the peer's user's buffer, if it waits with one, or the peer's adapter reads it from
    /// here. A call that its time-out ends, or [`SdpStream::recall`], returns with how many bytes were sent; what the peer had been
    /// offered beyond them is recalled before. A call that is dropped is carried out all the same.
    ///
    /// # Errors
    ///
    /// Beside the buffer, if it is given back: the stream failed, or this end is shut down, or the buffer has not so many bytes
    /// (`UnexpectedEnd`), or nothing was sent within the write time-out.
    pub async fn send(&self, buffer: SdpBuffer<V>, len: u32) -> Transfer<V> {
        let fits = if len <= buffer.len() { Ok(()) } else { Err(SdpError::UnexpectedEnd) };
        if let Err(why) = fits.and_then(|()| self.writes()) {
            return (Err(why), Some(buffer));
        }
        if len == 0 {
            return (Ok(0), Some(buffer));
        }
        let mut patience = self.patience(self.socket.options.write_timeout);
        let call = self.socket.sends.get() + 1;
        self.socket.sends.set(call);
        let (done, mut told) = oneshot();
        let mr = buffer.mr.clone();
        let segment = Segment { mr, len, placed: 0, end: 0, exposed: None, call, recalled: false, done };
        self.sdp.push(&self.socket, segment);
        loop {
            let changed = self.socket.writable.changed();
            match told.try_recv() {
                Some(Ok(0)) => return (Err(patience.over.unwrap_or(SdpError::Recalled)), Some(buffer)),
                Some(end) => return (end, Some(buffer)),
                None => {}
            }
            if let Err(why) = self.sound() {
                return (Err(why), None);
            }
            if self.runs_out(&mut patience, changed).await && !self.sdp.recall(&self.socket, Some(call)) {
                if patience.over == Some(SdpError::TimedOut) {
                    return (Err(SdpError::TimedOut), None);
                }
                // Behind the end of the stream it is carried out.
                (patience.over, patience.recalls) = (None, self.socket.recalls.get());
            }
        }
    }

    /// Receives into an owned buffer: at least one byte, at most as many as it takes; 0 at the end of the stream.
    ///
    /// If nothing is there and the buffer takes more than the threshold, the peer is asked to write into it. Calls that are made before
    /// others have ended are filled in their order. A call that its time-out ends, or [`SdpStream::recall`], takes that back first, and
    /// returns what came meanwhile. What comes for a call that was dropped is read by the next one, or by one that waits. Calls that read
    /// what lies behind it wait until this one is polled or dropped.
    ///
    /// # Errors
    ///
    /// Beside the buffer, if it is given back: the stream failed, or nothing came within the read time-out.
    pub async fn recv(&self, buffer: SdpBuffer<V>) -> Transfer<V> {
        if buffer.is_empty() {
            return (Ok(0), Some(buffer));
        }
        let mut patience = self.patience(self.socket.options.read_timeout);
        match self.received(&buffer, &mut patience).await {
            Ok(len) => (Ok(len), Some(buffer)),
            // A stream that has failed with nothing of this buffer under way gives it back.
            Err(Lost { why, reachable: false }) => (Err(why), Some(buffer)),
            Err(Lost { why, .. }) => (Err(why), None),
        }
    }

    /// Asks for the buffers of all calls of [`SdpStream::send`] and [`SdpStream::recv`] that are under way. They return when no
    /// adapter reaches them any more, with how many bytes were moved; `Recalled` where none were. Where the end of the stream was
    /// sent already, sends are carried out.
    pub fn recall(&self) {
        self.socket.recalls.set(self.socket.recalls.get() + 1);
        self.sdp.recall(&self.socket, None);
        self.socket.readable.notify();
    }

    fn patience(&self, most: Option<Nanos>) -> Patience {
        let at = most.map(|most| self.sdp.shared.rt.now() + most);
        Patience { at, recalls: self.socket.recalls.get(), over: None }
    }

    /// Awaits a change. True if the buffer is wanted back from now on.
    async fn runs_out(&self, patience: &mut Patience, changed: impl Future<Output = ()>) -> bool {
        if patience.over.is_some() {
            changed.await;
            return false;
        }
        let late = match patience.at {
            Some(at) => self.sdp.shared.rt.deadline(at, changed).await.is_err(),
            None => {
                changed.await;
                false
            }
        };
        let recalled = self.socket.recalls.get() != patience.recalls;
        patience.over = match (late, recalled) {
            (true, _) => Some(SdpError::TimedOut),
            (false, true) => Some(SdpError::Recalled),
            (false, false) => None,
        };
        patience.over.is_some()
    }

    async fn received(&self, buffer: &SdpBuffer<V>, patience: &mut Patience) -> Result<u32, Lost> {
        loop {
            let changed = self.socket.readable.changed();
            let here = self.copy_here(buffer);
            if here > 0 {
                return Ok(here);
            }
            if self.socket.next_source().is_some() {
                self.sound()?;
                if self.sdp.may_fetch(&self.socket) {
                    let (tell, told) = oneshot();
                    self.sdp.fetch(&self.socket, Some((buffer.mr.clone(), tell)));
                    let mut read = Owed { socket: &self.socket, buffer, told };
                    // It comes another way, over another rail.
                    match self.until_told(&mut read, patience).await? {
                        Some(len) => return Ok(len),
                        None => continue,
                    }
                }
            } else if let Some(end) = self.nothing_to_read()? {
                return Ok(end as u32);
            } else if patience.over.is_none()
                && let Some(mut written) = self.want(buffer)
            {
                // The peer sends another way: what it sends is looked at again.
                match self.until_told(&mut written, patience).await? {
                    Some(len) => return Ok(len),
                    None => continue,
                }
            }
            if let Some(why) = patience.over {
                return Err(why.into());
            }
            self.runs_out(patience, changed).await;
        }
    }

    /// Copies what is here into the buffer.
    fn copy_here(&self, buffer: &SdpBuffer<V>) -> u32 {
        let most = (buffer.len() as usize).min(self.socket.here());
        if most == 0 {
            return 0;
        }
        let mut bytes = vec![0; most];
        let read = self.socket.take(&mut bytes);
        self.copied(read, |stats| &mut stats.bytes_read);
        self.sdp.flush(&self.socket);
        // It fits: it is no longer than the buffer.
        match buffer.mr.write(0, &bytes[..read]) {
            Ok(()) => read as u32,
            Err(_) => 0,
        }
    }

    /// Asks the peer to write into the buffer, if that is worth it and may be done now.
    fn want<'a>(&'a self, buffer: &'a SdpBuffer<V>) -> Option<Owed<'a, V>> {
        let socket = &self.socket;
        let threshold = socket.options.zcopy_threshold;
        let worth = threshold > 0 && buffer.len() > threshold;
        let may = socket.end.borrow().may_want() && self.sdp.has_room(socket);
        // Where no adapter could write there, bytes come as data.
        let may = may && !self.sdp.is_suspended(socket.peer) && !self.sdp.shared.mesh.carries(socket.peer);
        if !worth || !may {
            return None;
        }
        let sink = buffer.mr.remote(0..buffer.mr.len()).ok()?;
        let outgoing = socket.end.borrow_mut().want(sink);
        let (done, told) = oneshot();
        socket.wanted.borrow_mut().push_back(Wanted { mr: buffer.mr.clone(), done });
        self.sdp.send_control(socket, outgoing);
        Some(Owed { socket, buffer, told })
    }

    /// How many bytes came. `None` if the next ones come another way, or are here already.
    async fn until_told(&self, owed: &mut Owed<'_, V>, patience: &mut Patience) -> Result<Option<u32>, Lost> {
        loop {
            let changed = self.socket.readable.changed();
            if let Some(end) = owed.told.try_recv() {
                let Some(came) = end else { return Ok(None) };
                self.socket.has_looked(came.at);
                // A call that was made before this one was dropped, or has yet to look: what came for that one is read first.
                if self.socket.has_before(came.at) {
                    keep_bytes(&self.socket, &owed.buffer.mr, came);
                    return Ok(None);
                }
                // Others may read on behind it.
                self.socket.readable.notify();
                return Ok(Some(came.len));
            }
            self.sound().map_err(|why| Lost { why, reachable: true })?;
            if self.socket.here() > 0 {
                // They came for a call that was dropped, and are read first: the buffer is wanted back for them.
                self.socket.end.borrow_mut().recall_wants();
                self.sdp.flush(&self.socket);
            }
            if self.runs_out(patience, changed).await {
                // A read ends by itself.
                self.socket.end.borrow_mut().recall_wants();
                self.sdp.flush(&self.socket);
            }
        }
    }
}

/// Why nothing was received, and whether an adapter may still reach the buffer.
struct Lost {
    why: SdpError,
    reachable: bool,
}

impl From<SdpError> for Lost {
    fn from(why: SdpError) -> Lost {
        Lost { why, reachable: false }
    }
}

/// Bytes that an adapter will have brought into a user's buffer. A call that is dropped after they came, and before it looked,
/// must not lose them: they are part of the stream, and others may wait for them.
struct Owed<'a, V: Verbs> {
    socket: &'a Rc<Socket<V>>,
    buffer: &'a SdpBuffer<V>,
    told: OneshotReceiver<Option<Came>>,
}

impl<V: Verbs> Drop for Owed<'_, V> {
    fn drop(&mut self) {
        if let Some(came) = self.told.try_recv().flatten() {
            self.socket.has_looked(came.at);
            keep_bytes(self.socket, &self.buffer.mr, came);
            self.socket.readable.notify();
        }
    }
}
