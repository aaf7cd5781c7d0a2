//! A connection after its handshake, the same at both ends: what waits to be said is written, what comes is passed on, and
//! each end notices when the other one is gone.

use crate::frame::{Ended, Frame, Kind};
use crate::handshake::Channel;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Something to be said. Bodies that go to many are made once.
#[derive(Clone, Debug)]
pub struct Out {
    /// What the body is.
    pub kind: Kind,
    /// The body.
    pub body: Arc<[u8]>,
}

impl Out {
    /// A message of the control plane.
    pub fn control(message: &impl serde::Serialize) -> Out {
        Out { kind: Kind::Control, body: crate::message::encode(message).into() }
    }

    /// Data of those above.
    pub fn data(body: impl Into<Arc<[u8]>>) -> Out {
        Out { kind: Kind::Data, body: body.into() }
    }
}

/// How many messages may wait to be written to one end. One that falls further behind is not reading.
pub const QUEUE: usize = 1_024;

/// The spans of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// See [`crate::timing::Timing::beat`].
    pub beat: Duration,
    /// See [`crate::timing::Timing::silence`].
    pub silence: Duration,
    /// See [`crate::timing::Timing::linger`].
    pub linger: Duration,
}

/// Speaks and listens until an end closes or is gone. It returns `Ok` once all was said: the sender of `queue` was
/// dropped, and the other end closed, or had [`Pace::linger`] to do so. Closing at once could destroy the last message
/// on its way (RFC 1122, 4.2.2.13).
///
/// `alive` is said when nothing else was for a beat. `read` makes of a frame what is passed on to `heard`.
pub async fn converse<S: AsyncRead + AsyncWrite + Unpin, I>(
    channel: Channel<S>,
    mut queue: mpsc::Receiver<Out>,
    pace: Pace,
    alive: Out,
    heard: mpsc::Sender<I>,
    read: impl Fn(Frame) -> Result<I, Ended>,
) -> Result<(), Ended> {
    let Channel { mut reader, mut writer } = channel;
    let mut reading = pin!(async {
        loop {
            let item = read(reader.next(pace.silence).await?)?;
            if heard.send(item).await.is_err() {
                return Err::<(), _>(Ended::Closed);
            }
        }
    });
    let writing = pin!(async {
        loop {
            let next = match timeout(pace.beat, queue.recv()).await {
                Err(_) => alive.clone(),
                Ok(Some(next)) => next,
                Ok(None) => {
                    writer.finish().await;
                    return Ok::<(), Ended>(());
                }
            };
            writer.write(next.kind, &next.body, pace.silence).await?;
        }
    });
    tokio::select! {
        biased;
        ended = &mut reading => return ended,
        said = writing => said?,
    }
    let _ = timeout(pace.linger, reading).await;
    Ok(())
}
