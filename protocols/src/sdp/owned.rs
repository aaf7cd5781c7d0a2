//! Sending from and receiving into owned buffers.

use super::SdpError;
use super::buffer::{SdpBuffer, Transfer};
use super::socket::{Segment, Socket, Wanted};
use super::stream::SdpStream;
use super::zcopy::keep_bytes;
use crate::rt::sync::{OneshotReceiver, oneshot};
use std::rc::Rc;
use weft_verbs::{MemoryRegion, Verbs};

impl<V: Verbs> SdpStream<V> {
    /// Sends the first bytes of an owned buffer, and gives it back when no adapter reads it any more. Calls that are made before others
    /// have ended are served in their order; that is how ZCopy is pipelined.
    ///
    /// More than the threshold goes by ZCopy: into the peer's user's buffer, if it waits with one, or the peer's adapter reads it from
    /// here. A call that is dropped, or that its time-out ends, is carried out all the same.
    ///
    /// # Errors
    ///
    /// Beside the buffer, if it is given back: the stream failed, or this end is shut down, or the buffer has not so many bytes
    /// (`UnexpectedEnd`).
    pub async fn send(&self, buffer: SdpBuffer<V>, len: u32) -> Transfer<V> {
        let fits = if len <= buffer.len() { Ok(()) } else { Err(SdpError::UnexpectedEnd) };
        if let Err(why) = fits.and_then(|()| self.writes()) {
            return (Err(why), Some(buffer));
        }
        if len == 0 {
            return (Ok(0), Some(buffer));
        }
        let (done, mut told) = oneshot();
        let segment = Segment { mr: buffer.mr.clone(), len, placed: 0, end: 0, exposed: false, done };
        self.sdp.push(&self.socket, segment);
        let sent = async {
            loop {
                let changed = self.socket.writable.changed();
                if let Some(end) = told.try_recv() {
                    return Ok(end);
                }
                self.sound()?;
                changed.await;
            }
        };
        match self.sdp.within(self.socket.options.write_timeout, sent).await {
            Ok(end) => (end, Some(buffer)),
            Err(why) => (Err(why), None),
        }
    }

    /// Receives into an owned buffer: at least one byte, at most as many as it takes; 0 at the end of the stream.
    ///
    /// If nothing is there and the buffer takes more than the threshold, the peer is asked to write into it. Calls that are made before
    /// others have ended are filled in their order. What comes for a call that was dropped, or that its time-out ended, is read by the next
    /// one.
    ///
    /// # Errors
    ///
    /// Beside the buffer, if it is given back: the stream failed, or nothing came within the read time-out.
    pub async fn recv(&self, buffer: SdpBuffer<V>) -> Transfer<V> {
        if buffer.is_empty() {
            return (Ok(0), Some(buffer));
        }
        match self.sdp.within(self.socket.options.read_timeout, self.received(&buffer)).await {
            Ok(len) => (Ok(len), Some(buffer)),
            // A stream that has failed with nothing of this buffer under way gives it back.
            Err(why) if !self.may_be_written() => (Err(why), Some(buffer)),
            Err(why) => (Err(why), None),
        }
    }

    fn may_be_written(&self) -> bool {
        self.socket.end.borrow().is_reading() || !self.socket.wanted.borrow().is_empty()
    }

    async fn received(&self, buffer: &SdpBuffer<V>) -> Result<u32, SdpError> {
        loop {
            let changed = self.socket.readable.changed();
            let here = self.copy_here(buffer);
            if here > 0 {
                return Ok(here);
            }
            if self.socket.next_source().is_some() {
                self.sound()?;
                if !self.socket.end.borrow().is_reading() {
                    let (tell, told) = oneshot();
                    self.sdp.fetch(&self.socket, Some((buffer.mr.clone(), tell)));
                    let mut read = Owed { socket: &self.socket, buffer, told, unwrap: Some };
                    return self.until_told(&mut read).await?.ok_or(SdpError::Aborted);
                }
            } else if let Some(end) = self.nothing_to_read()? {
                return Ok(end as u32);
            } else if let Some(mut written) = self.want(buffer) {
                // The peer sends another way: what it sends is looked at again.
                match self.until_told(&mut written).await? {
                    Some(len) => return Ok(len),
                    None => continue,
                }
            }
            changed.await;
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
    fn want<'a>(&'a self, buffer: &'a SdpBuffer<V>) -> Option<Owed<'a, V, Option<u32>>> {
        let socket = &self.socket;
        let threshold = socket.options.zcopy_threshold;
        let worth = threshold > 0 && buffer.len() > threshold;
        let may = socket.end.borrow().may_want() && self.sdp.shared.mesh.has_room(socket.peer);
        if !worth || !may {
            return None;
        }
        let sink = buffer.mr.remote(0..buffer.mr.len()).ok()?;
        let outgoing = socket.end.borrow_mut().want(sink);
        let (done, told) = oneshot();
        socket.wanted.borrow_mut().push_back(Wanted { mr: buffer.mr.clone(), done });
        self.sdp.send_control(socket, outgoing);
        Some(Owed { socket, buffer, told, unwrap: |len| len })
    }

    async fn until_told<T>(&self, owed: &mut Owed<'_, V, T>) -> Result<Option<u32>, SdpError> {
        loop {
            let changed = self.socket.readable.changed();
            if let Some(len) = owed.told.try_recv() {
                return Ok((owed.unwrap)(len));
            }
            self.sound()?;
            changed.await;
        }
    }
}

/// Bytes that an adapter will have brought into a user's buffer. A call that is dropped after they came, and before it looked,
/// must not lose them: they are part of the stream.
struct Owed<'a, V: Verbs, T> {
    socket: &'a Rc<Socket<V>>,
    buffer: &'a SdpBuffer<V>,
    told: OneshotReceiver<T>,
    unwrap: fn(T) -> Option<u32>,
}

impl<V: Verbs, T> Drop for Owed<'_, V, T> {
    fn drop(&mut self) {
        if let Some(len) = self.told.try_recv().and_then(self.unwrap) {
            keep_bytes(self.socket, &self.buffer.mr, len);
        }
    }
}
