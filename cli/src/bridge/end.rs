//! The end of a thread that runs tokio.

use super::{CHUNK, take, write};
use std::io;
use std::os::unix::net::UnixStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// One end. The other one is of a thread that runs an RDMA runtime, or waits before it does.
pub struct End {
    stream: tokio::net::UnixStream,
    heard: Vec<u8>,
}

impl End {
    /// Takes a connected socket over; call it within a runtime.
    ///
    /// # Errors
    /// The system's.
    pub fn new(stream: UnixStream) -> io::Result<End> {
        stream.set_nonblocking(true)?;
        Ok(End { stream: tokio::net::UnixStream::from_std(stream)?, heard: Vec::new() })
    }

    /// The next message; none once the other end is gone. What is dropped amid it has lost nothing.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        let mut bytes = [0; CHUNK];
        loop {
            if let Some(message) = take(&mut self.heard) {
                return Some(message);
            }
            match self.stream.read(&mut bytes).await {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.heard.extend_from_slice(&bytes[..read]),
            }
        }
    }

    /// Says a message. An end that is gone is heard of by [`End::next`].
    pub async fn say(&mut self, message: &[u8]) {
        let mut bytes = Vec::with_capacity(4 + message.len());
        write(message, &mut bytes);
        let _ = self.stream.write_all(&bytes).await;
    }
}
