//! What happens on a new connection before anything else: both ends show what they speak and prove that they know the
//! cluster's secret.
//!
//! | step | who | bytes |
//! |---|---|---|
//! | 1 | caller | `WEFT`, version (2) |
//! | 2 | coordinator | `WEFT`, version (2); then, if the versions are the same, 32 random bytes |
//! | 3 | caller | 32 random bytes, its proof (32) |
//! | 4 | coordinator | 1 and its proof (32), or 0 and 32 zeros: the secrets differ |
//!
//! Everything has a fixed length, so nobody without the secret makes the other end take memory. What comes after it is
//! sealed ([`crate::secret`]). The first two steps never change, so that ends of any versions can tell each other which
//! they are.

use crate::frame::{Ended, FROM_CALLER, FROM_COORDINATOR, Reader, Writer, span};
use crate::refusal::Refusal;
use crate::secret::{End, NONCE, PROOF, Secret, Shared, nonce};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf, split};
use tokio::time::timeout;

/// The version of everything that is said, here and in the calls that are passed on. It is another one whenever that changes, which a test
/// of the program (`cli/src/language_tests.rs`) holds.
pub const VERSION: u16 = 4;

const MAGIC: [u8; 4] = *b"WEFT";

/// A connection whose ends have proved who they are.
#[derive(Debug)]
pub struct Channel<S> {
    /// What comes.
    pub reader: Reader<ReadHalf<S>>,
    /// What goes.
    pub writer: Writer<WriteHalf<S>>,
}

/// Why a handshake came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The other end is something else.
    #[error("it does not speak the control protocol of Weft")]
    NotWeft,
    /// The other end is of another version.
    #[error(
        "it speaks version {theirs} of the control protocol, and this program {VERSION}: install the same one on all machines"
    )]
    Version {
        /// The other end's.
        theirs: u16,
    },
    /// The ends have different secrets.
    #[error("{}", Refusal::Secret)]
    Secret,
    /// It took too long.
    #[error("it did not say who it is within {}", span(*.0))]
    Slow(Duration),
    /// The connection ended.
    #[error(transparent)]
    Ended(#[from] Ended),
}

impl HandshakeError {
    /// Whether another attempt cannot end otherwise until somebody changes something.
    pub fn is_final(&self) -> bool {
        matches!(self, HandshakeError::NotWeft | HandshakeError::Version { .. } | HandshakeError::Secret)
    }
}

fn preamble() -> [u8; 6] {
    let [high, low] = VERSION.to_be_bytes();
    let [a, b, c, d] = MAGIC;
    [a, b, c, d, high, low]
}

/// The other end's version, if it is one of ours.
fn version_in(preamble: [u8; 6]) -> Result<u16, HandshakeError> {
    match preamble {
        [a, b, c, d, high, low] if [a, b, c, d] == MAGIC => Ok(u16::from_be_bytes([high, low])),
        _ => Err(HandshakeError::NotWeft),
    }
}

fn same_version(theirs: u16) -> Result<(), HandshakeError> {
    if theirs == VERSION { Ok(()) } else { Err(HandshakeError::Version { theirs }) }
}

fn halves<S: AsyncRead + AsyncWrite>(stream: S) -> Channel<S> {
    let (reader, writer) = split(stream);
    Channel { reader: Reader::new(reader), writer: Writer::new(writer) }
}

fn random() -> Result<[u8; NONCE], HandshakeError> {
    Ok(nonce().map_err(Ended::from)?)
}

/// The caller's side.
pub async fn call<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    secret: &Secret,
    within: Duration,
) -> Result<Channel<S>, HandshakeError> {
    let steps = async {
        let mut channel = halves(stream);
        let Channel { reader, writer } = &mut channel;
        writer.raw(&preamble(), within).await?;
        same_version(version_in(reader.raw().await?)?)?;
        let shared = Shared { version: VERSION, coordinator: reader.raw().await?, caller: random()? };
        let mine = [shared.caller, secret.proof(End::Caller, &shared)].concat();
        writer.raw(&mine, within).await?;
        let [accepted, proof @ ..] = reader.raw::<{ 1 + PROOF }>().await?;
        if accepted != 1 || !secret.is_proved(End::Coordinator, &shared, &proof) {
            return Err(HandshakeError::Secret);
        }
        writer.seal(secret.seal(End::Caller, &shared), FROM_CALLER);
        reader.seal(secret.seal(End::Coordinator, &shared), FROM_COORDINATOR);
        Ok(channel)
    };
    timeout(within, steps).await.unwrap_or(Err(HandshakeError::Slow(within)))
}

/// The coordinator's side.
pub async fn admit<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    secret: &Secret,
    within: Duration,
) -> Result<Channel<S>, HandshakeError> {
    let steps = async {
        let mut channel = halves(stream);
        let Channel { reader, writer } = &mut channel;
        let theirs = version_in(reader.raw().await?)?;
        writer.raw(&preamble(), within).await?;
        if let Err(why) = same_version(theirs) {
            writer.finish().await;
            return Err(why);
        }
        let coordinator = random()?;
        writer.raw(&coordinator, within).await?;
        let shared = Shared { version: VERSION, coordinator, caller: reader.raw().await? };
        let proof = reader.raw::<PROOF>().await?;
        if !secret.is_proved(End::Caller, &shared, &proof) {
            writer.raw(&[0; 1 + PROOF], within).await?;
            writer.finish().await;
            return Err(HandshakeError::Secret);
        }
        let mut mine = [1; 1 + PROOF];
        mine[1..].copy_from_slice(&secret.proof(End::Coordinator, &shared));
        writer.raw(&mine, within).await?;
        writer.seal(secret.seal(End::Coordinator, &shared), FROM_COORDINATOR);
        reader.seal(secret.seal(End::Caller, &shared), FROM_CALLER);
        Ok(channel)
    };
    timeout(within, steps).await.unwrap_or(Err(HandshakeError::Slow(within)))
}
