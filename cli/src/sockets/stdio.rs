//! Standard input and output as byte streams that a node can wait for.
//!
//! They may be files, terminals or pipes, of which some cannot be waited for without blocking. So a thread each copies between them
//! and a pair of sockets.

use super::writes::{PART, Writes};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use weft_hw::{HwContext, HwStream};
use weft_verbs::{Context as _, Stream};

/// Standard input.
pub struct Input {
    stream: HwStream,
    /// Why it ended, if not because it was over.
    failed: Arc<Mutex<Option<io::Error>>>,
}

/// One end of a pair of sockets as a stream of the node, and the other.
pub fn pair(context: &HwContext) -> io::Result<(HwStream, UnixStream)> {
    let (near, far) = UnixStream::pair()?;
    let adopted = context.out_of_band().and_then(|oob| oob.adopt_local(near));
    Ok((adopted.map_err(io::Error::other)?, far))
}

impl Input {
    /// Begins to read.
    pub fn open(context: &HwContext) -> io::Result<Input> {
        let (stream, mut to) = pair(context)?;
        let failed = Arc::new(Mutex::new(None));
        let tell = Arc::clone(&failed);
        // It ends with the input or with the process.
        thread::spawn(move || {
            let (mut input, mut part) = (io::stdin().lock(), vec![0; PART]);
            let end = loop {
                match input.read(&mut part) {
                    Ok(0) => break None,
                    // The node has gone.
                    Ok(len) if to.write_all(&part[..len]).is_err() => break None,
                    Ok(_) => {}
                    Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                    Err(why) => break Some(why),
                }
            };
            *tell.lock().unwrap_or_else(PoisonError::into_inner) = end;
            let _ = to.shutdown(Shutdown::Both);
        });
        Ok(Input { stream, failed })
    }
}

impl Stream for Input {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = self.stream.poll_read(cx, into);
        if let Poll::Ready(Ok(0)) = read
            && let Some(why) = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            return Poll::Ready(Err(why));
        }
        read
    }

    fn poll_write(&mut self, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
}

/// Standard output, and the thread that says how writing to it ended.
pub fn output(context: &HwContext) -> io::Result<(HwStream, Writes)> {
    let (stream, from) = pair(context)?;
    Ok((stream, Writes::begin(from, io::stdout())))
}
