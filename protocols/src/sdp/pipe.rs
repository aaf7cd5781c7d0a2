//! A pipe over a stream: what comes from a local input goes to the peer, and what the peer sends to a local output.
//!
//! Each half ends by itself, as with sockets: the end of the input is told to the peer, whose bytes go on coming.

use super::{SdpError, SdpStream};
use crate::rt::Rt;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use thiserror::Error;
use weft_verbs::{Stream, Verbs};

/// The most bytes that are taken from the input at a time.
const PART: usize = 64 * 1024;

/// Why a pipe broke.
#[derive(Debug, Error)]
pub enum PipeError {
    /// The stream between the nodes failed.
    #[error("the stream: {0}")]
    Stream(#[from] SdpError),
    /// The local input cannot be read.
    #[error("the input: {0}")]
    Input(io::Error),
    /// The local output takes no more.
    #[error("the output: {0}")]
    Output(io::Error),
}

/// How many bytes went each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piped {
    /// From the input to the peer. The peer's end has all of them, but after [`Ends::WithPeer`].
    pub sent: u64,
    /// From the peer to the output.
    pub received: u64,
}

/// When a pipe ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// When both halves have ended.
    Both,
    /// When the peer's half has ended, whatever the input still has: for an input that a person types.
    WithPeer,
}

/// Carries bytes both ways until the pipe ends, and closes the stream.
///
/// # Errors
///
/// The stream, the input or the output failed. What the peer got then is not known.
pub async fn pipe<V: Verbs>(
    rt: &Rt<V>,
    stream: SdpStream<V>,
    input: impl Stream,
    output: impl Stream,
    ends: Ends,
) -> Result<Piped, PipeError> {
    let stream = Rc::new(stream);
    let sends = rt.spawn(send(Rc::clone(&stream), input));
    let received = match receive(&stream, output).await {
        Ok(received) => received,
        // What broke the stream is told, if that was the input.
        Err(why) if sends.is_finished() => return Err(sends.await.and_then(Result::err).unwrap_or(why)),
        Err(why) => return Err(why),
    };
    if ends == Ends::WithPeer && !sends.is_finished() {
        let (sent, _) = stream.acknowledged();
        stream.finish().await?;
        return Ok(Piped { sent, received });
    }
    // A task that was not carried out is one of a node that has ended.
    let sent = sends.await.unwrap_or(Err(SdpError::Closed.into()))?;
    stream.finish().await?;
    Ok(Piped { sent, received })
}

/// Sends the input to its end. If it fails, the peer must not take what came for everything: the stream is aborted.
async fn send<V: Verbs>(stream: Rc<SdpStream<V>>, mut input: impl Stream) -> Result<u64, PipeError> {
    let (mut part, mut sent) = (vec![0; PART], 0);
    loop {
        let read = poll_fn(|cx| input.poll_read(cx, &mut part)).await;
        match read {
            Ok(0) => {
                stream.shutdown()?;
                return Ok(sent);
            }
            Ok(len) => {
                stream.write_all(&part[..len]).await?;
                sent += len as u64;
            }
            Err(why) => {
                stream.sdp.abort(&stream.socket);
                return Err(PipeError::Input(why));
            }
        }
    }
}

/// Gives the output what the peer sends, to its end.
async fn receive<V: Verbs>(stream: &SdpStream<V>, mut output: impl Stream) -> Result<u64, PipeError> {
    let (mut part, mut received) = (vec![0; PART], 0);
    loop {
        let len = stream.read(&mut part).await?;
        if len == 0 {
            poll_fn(|cx| output.poll_shutdown(cx)).await.map_err(PipeError::Output)?;
            return Ok(received);
        }
        let mut left = &part[..len];
        while !left.is_empty() {
            match poll_fn(|cx| output.poll_write(cx, left)).await {
                Ok(written) if written > 0 => left = &left[written..],
                end => {
                    stream.sdp.abort(&stream.socket);
                    let why = end.err().unwrap_or(io::ErrorKind::WriteZero.into());
                    return Err(PipeError::Output(why));
                }
            }
        }
        received += len as u64;
    }
}
