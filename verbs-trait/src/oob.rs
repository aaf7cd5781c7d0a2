//! Byte streams beside the fabric: bootstrap over the machines' ordinary network.

use crate::{Result, Service, Verbs};
use std::io;
use std::task::{Context, Poll};

/// How streams of a real network find out that the other machine is gone.
pub mod silence {
    use std::time::Duration;

    /// After so long without a word the system asks the other machine whether it is there.
    pub const QUIET: Duration = Duration::from_secs(20);

    /// It asks so often, one question after another.
    pub const QUESTIONS: u32 = 4;

    /// The time between two of them.
    pub const BETWEEN: Duration = Duration::from_secs(5);
}

/// The machine's ordinary network. Needs [`Caps::OUT_OF_BAND`](crate::Caps::OUT_OF_BAND).
pub trait OutOfBand<V: Verbs>: Clone + 'static {
    /// Listens on a port of this machine.
    fn listen(&self, service: Service) -> Result<V::StreamListener>;
    /// Connects to a port of a named machine; the stream is ready once it can be written. Names are those of
    /// [`ConnectionManager::resolve`](crate::ConnectionManager::resolve).
    fn connect(&self, node: &str, service: Service) -> Result<V::Stream>;
}

/// Takes incoming streams.
pub trait StreamListener<V: Verbs>: 'static {
    /// The next stream. When it is not there yet, its arrival steps the node and wakes the task.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<V::Stream>>;
}

/// A reliable byte stream, as TCP is. Its readiness steps the node and wakes the task. A writer waits for its reader; on a real machine one
/// breaks where the other end takes nothing for [`QUIET`](silence::QUIET) and all questions.
pub trait Stream: 'static {
    /// Reads some bytes; 0 at the end of the stream.
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>>;
    /// Writes some of the bytes.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
    /// Ends the sending direction.
    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}
