//! Calls to the coordinator, and a client's side: it asks, is answered, and goes.

use crate::connection::Out;
use crate::frame::Ended;
use crate::handshake::{Channel, HandshakeError, call};
use crate::message::{Opening, Question, Status, ToClient, decode};
use crate::net::{Endpoint, Network};
use crate::refusal::Refusal;
use crate::secret::Secret;
use crate::timing::Timing;
use tokio::time::timeout;

/// Why a call came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// It cannot be reached.
    #[error("the coordinator at {at} cannot be reached: {why}")]
    Unreachable {
        /// Where.
        at: Endpoint,
        /// Why.
        why: String,
    },
    /// It is there, and the connection came to nothing.
    #[error("the coordinator at {at}: {why}")]
    Handshake {
        /// Where.
        at: Endpoint,
        /// Why.
        why: HandshakeError,
    },
    /// It does not answer this.
    #[error("the coordinator at {at} refused: {why}")]
    Refused {
        /// Where.
        at: Endpoint,
        /// Why.
        why: Refusal,
    },
}

impl CallError {
    /// Whether another attempt cannot end otherwise until somebody changes something.
    pub fn is_final(&self) -> bool {
        match self {
            CallError::Unreachable { .. } => false,
            CallError::Handshake { why, .. } => why.is_final(),
            CallError::Refused { why, .. } => !matches!(why, Refusal::Full { .. }),
        }
    }
}

/// Connects, within [`Timing::connect`].
async fn connect<N: Network>(net: &N, at: &Endpoint, timing: &Timing) -> Result<N::Stream, CallError> {
    let why = match timeout(timing.connect, net.connect(at)).await {
        Ok(Ok(stream)) => return Ok(stream),
        Ok(Err(why)) => why.to_string(),
        Err(_) => format!("no answer within {}", crate::frame::span(timing.connect)),
    };
    Err(CallError::Unreachable { at: at.clone(), why })
}

/// Connects, proves who it is, and says its first message.
pub(crate) async fn open<N: Network>(
    net: &N,
    at: &Endpoint,
    secret: &Secret,
    timing: &Timing,
    opening: &Opening,
) -> Result<Channel<N::Stream>, CallError> {
    let stream = connect(net, at, timing).await?;
    let failed = |why: HandshakeError| CallError::Handshake { at: at.clone(), why };
    let mut channel = call(stream, secret, timing.handshake).await.map_err(failed)?;
    let Out { kind, body } = Out::control(opening);
    let said = channel.writer.write(kind, &body, timing.handshake).await;
    said.map_err(|why| failed(why.into()))?;
    Ok(channel)
}

/// Asks for the state of a cluster.
pub async fn status<N: Network>(
    net: &N,
    at: &Endpoint,
    secret: &Secret,
    timing: &Timing,
) -> Result<Status, CallError> {
    let mut channel = open(net, at, secret, timing, &Opening::Ask(Question::Status)).await?;
    let ended = |why: Ended| CallError::Handshake { at: at.clone(), why: why.into() };
    let answer = channel.reader.next(timing.handshake).await.map_err(ended)?;
    match decode(&answer.body).map_err(ended)? {
        ToClient::Status(status) => Ok(*status),
        ToClient::Refused(why) => Err(CallError::Refused { at: at.clone(), why }),
    }
}
