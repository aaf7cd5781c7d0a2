//! Writing to standard output, which may block: a thread takes what comes out of a pair of sockets.

use super::broken::Broken;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use weft_protocols::sdp::pipe::{PipeError, Piped};

/// The most that is copied at a time.
pub const PART: usize = 64 * 1024;

/// The thread, which knows how writing ended.
pub struct Writes(JoinHandle<io::Result<()>>);

impl Writes {
    /// Begins to write what comes, until that ends.
    pub fn begin(mut from: UnixStream, mut output: impl Write + Send + 'static) -> Writes {
        Writes(thread::spawn(move || {
            let mut part = vec![0; PART];
            loop {
                let len = from.read(&mut part)?;
                if len == 0 {
                    return output.flush();
                }
                output.write_all(&part[..len]).and_then(|()| output.flush())?;
            }
        }))
    }

    /// How a pipe ended: all of it was written, or why not. Of an output that fails the node sees only that the sockets have ended.
    ///
    /// # Errors
    /// The pipe's, or the output's.
    pub fn end(self, piped: Result<Piped, Broken<PipeError>>) -> Result<Piped, Broken<PipeError>> {
        // Whatever else ended the pipe, an output that blocks is not waited for.
        if !matches!(piped, Ok(_) | Err(Broken { why: PipeError::Output(_), .. })) {
            return piped;
        }
        match self.0.join() {
            Ok(Err(why)) => Err(PipeError::Output(why).into()),
            _ => piped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use weft_protocols::sdp::SdpError;

    /// A disk that is full.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn ended(
        output: impl Write + Send + 'static,
        piped: Result<Piped, PipeError>,
    ) -> Result<Piped, PipeError> {
        let piped = piped.map_err(Broken::from);
        let (mut to, from) = UnixStream::pair().expect("sockets");
        let writes = Writes::begin(from, output);
        to.write_all(b"bytes").expect("there is room");
        drop(to);
        writes.end(piped).map_err(|broken| broken.why)
    }

    #[test]
    fn a_pipe_whose_output_fails_says_why_the_output_does() {
        // The node has seen it, or has given all bytes to the sockets before.
        for piped in [Err(PipeError::Output(ErrorKind::BrokenPipe.into())), Ok(Piped::default())] {
            let end = ended(Full, piped);
            let Err(PipeError::Output(why)) = end else { panic!("{end:?}") };
            assert_eq!(why.kind(), ErrorKind::StorageFull);
        }
        let stream = ended(Full, Err(PipeError::Stream(SdpError::Reset)));
        assert!(matches!(stream, Err(PipeError::Stream(SdpError::Reset))), "{stream:?}");
        assert!(ended(Vec::new(), Ok(Piped::default())).is_ok());
    }
}
