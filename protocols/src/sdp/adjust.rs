//! What a user changes of a stream that stands.

use super::{Mode, SdpError, SdpStream};
use weft_verbs::Verbs;

impl<V: Verbs> SdpStream<V> {
    /// How bytes may come to this end from now on: a reader who gives no buffers may do without advertisements, which have to be
    /// brought here one by one. What the peer has advertised before it hears of it still comes so. A stream begins as
    /// [`Mode::Pipelined`].
    pub fn set_mode(&self, mode: Mode) {
        self.socket.end.borrow_mut().set_mode(mode);
        self.sdp.flush(&self.socket);
    }

    /// Has the peer's private buffers take so many bytes each, and returns how many they take then: no more than what the mesh
    /// carries in a message. Fewer and larger messages cost less a byte; smaller ones let others on the connection go first.
    ///
    /// # Errors
    ///
    /// No bytes (`Options`); the stream failed, or this end is shut down, or the peer did not answer within the write time-out: then it
    /// does later.
    pub async fn resize(&self, bytes: u32) -> Result<u32, SdpError> {
        if bytes == 0 {
            return Err(SdpError::Options { field: "buffer_bytes", value: 0, must: "at least 1" });
        }
        let writable = &self.socket.writable;
        let resized = async {
            loop {
                let changed = writable.changed();
                self.writes()?;
                if self.socket.end.borrow_mut().resize(bytes) {
                    break;
                }
                changed.await;
            }
            self.sdp.flush(&self.socket);
            loop {
                let changed = writable.changed();
                // Behind its end nobody answers.
                self.writes()?;
                if let Some(taken) = self.socket.end.borrow().resized() {
                    return Ok(taken);
                }
                changed.await;
            }
        };
        self.sdp.within(self.socket.options.write_timeout, resized).await
    }
}
