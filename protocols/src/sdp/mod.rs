//! Sockets over verbs: byte streams that survive the links that carry them.
//!
//! Source: sdp-failover.txt, "Sockets Direct Protocol over Infiniband for High Performance & Fault-Tolerant Scale Out NAS System"
//! (Thummar, Delhi College of Engineering, 2011). The names of messages are those of the Sockets Direct Protocol (InfiniBand's
//! annex A4).
//!
//! ```
//! use weft_protocols::sdp::{Sdp, SdpError, SdpOptions};
//! use weft_protocols::transport::Rank;
//! use weft_verbs::Verbs;
//!
//! async fn serve<V: Verbs>(sdp: &Sdp<V>) -> Result<(), SdpError> {
//!     let listener = sdp.bind(7)?;
//!     let stream = listener.accept().await?;
//!     let mut line = [0; 512];
//!     while let n @ 1.. = stream.read(&mut line).await? {
//!         stream.write_all(&line[..n]).await?;
//!     }
//!     stream.close().await
//! }
//!
//! async fn ask<V: Verbs>(sdp: &Sdp<V>, server: Rank) -> Result<[u8; 5], SdpError> {
//!     let stream = sdp.connect(server, 7).await?;
//!     stream.write_all(b"hello").await?;
//!     stream.shutdown()?;
//!     let mut echo = [0; 5];
//!     stream.read_exact(&mut echo).await?;
//!     Ok(echo)
//! }
//! ```
//!
//! # How it is built
//!
//! Streams are multiplexed over the transport's session with the peer. The session keeps what was sent until the peer has
//! acknowledged it, and repeats it on the next connection; so a stream knows nothing of connections, and a cut is a stall to it. A
//! stream has an identity of 128 random bits, credits of its own, and byte positions, which each message carries and each end
//! checks.
//!
//! | module | idea |
//! |---|---|
//! | `endpoint` | one end of a stream: a state machine without I/O |
//! | `credits` | private buffers of the peer, a part of them kept for control: no deadlock |
//! | `message` | the messages of annex A4, and their bytes |
//! | `service`, `table`, `outbox`, `framed` | the streams of a node: messages in and out |
//! | `connect`, `listener` | how they are made |
//! | `detect`, `suspend` | dead links, changed addresses; a connection that goes over to another rail as planned |
//! | `settle` | how a node leaves |
//! | `zcopy`, `piece`, `turns` | owned buffers, moved by one-sided operations: in parts, of which few are under way |
//! | `socket`, `stream`, `owned`, `buffer`, `adjust` | what a user has |
//! | [`copy`], [`pipe`], [`perf`] | what `weft cp`, `weft pipe` and `weft perf` do on a stream |
//!
//! `docs/sdp.md` has the states, why each race is safe, and what is not built yet.

mod adjust;
mod buffer;
mod connect;
pub mod copy;
mod credits;
mod detect;
mod endpoint;
mod error;
mod framed;
mod listener;
pub mod message;
mod options;
mod outbox;
mod owned;
pub mod perf;
mod piece;
pub mod pipe;
mod service;
mod settle;
mod socket;
mod stats;
mod stream;
mod suspend;
mod table;
mod turns;
mod zcopy;

pub use buffer::{SdpBuffer, Transfer};
pub use error::{Refusal, SdpError};
pub use listener::SdpListener;
pub use options::{Failover, Mode, SdpOptions};
pub use service::{CHANNEL, Sdp};
pub use stats::SdpStats;
pub use stream::{Address, SdpStream};
