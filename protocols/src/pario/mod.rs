//! Files in parallel: striped over servers, moved by RDMA, with the servers' own words about each step.
//!
//! Source: pvfs2-quadrics.txt, "Building a high performance parallel file system over Quadrics Elan4" (Yu, Liang and Panda,
//! 2005): small data ride in messages (eager), large ones are moved by RDMA at the server's pace (rendezvous, 4.2), and a
//! server's staging is bounded (5.1).
//!
//! ```
//! use weft_protocols::pario::{FsError, Pario};
//! use weft_verbs::Verbs;
//!
//! async fn copy<V: Verbs>(files: &Pario<V>, bytes: &[u8]) -> Result<(), FsError> {
//!     let file = files.create("a file", None).await?;
//!     let buffer = files.buffer(bytes.len())?;
//!     buffer.write(0, bytes)?;
//!     let (written, buffer) = files.write(&file, 0, buffer).await;
//!     written?;
//!     files.sync(&file).await?;
//!     let (read, _buffer) = files.read(&file, 0, buffer).await;
//!     assert_eq!(read?, bytes.len());
//!     files.close(file).await
//! }
//! ```
//!
//! # Who may touch a buffer, and when it is the client's again
//!
//! A call that is not eager offers its buffer to servers. It is the client's again when each of them has answered, and not
//! by any time-out: a server that answers has ended its transfers, and one that restarted is fenced before its client hears
//! of it. A call whose future is dropped keeps its buffer until then. Where the server moves data, a place in staging is free
//! when its transfer has ended on its own connection. Where it is offered to a client ([`Movers`]), it is the client's until it
//! says that all is moved, or began anew: before it says so, each write of unknown outcome has been fenced.
//!
//! # What is there, and what is not yet
//!
//! Clients are nodes of the servers' mesh, or [guests](crate::transport::MeshConfig::as_guest_of) that come and go. All
//! directories are the first server's. They survive a crash, as bytes do on [`Storage::Disk`]; in [`Storage::Memory`]
//! nothing does.
//!
//! | module | idea |
//! |---|---|
//! | `distribution` | where a file's bytes lie: pure functions |
//! | `datatype`, `access` | bytes that do not lie together; which of them are one server's, by units |
//! | `anything` | what decoders make of any bytes |
//! | `attributes` | what a file has beside its bytes |
//! | `messages` | requests and answers, and their bytes |
//! | `client`, `calls`, `buffer` | a client's calls as async functions; those that are open; memory that they own |
//! | `group` | clients that call together |
//! | `slots` | where the home keeps answers until they are received |
//! | `server/machine` | the server: a state machine without I/O |
//! | `server/tree`, `server/names`, `server/ranges` | its directories; what they stand for; turns at overlapping bytes |
//! | `server/inode`, `server/answered`, `server/bars` | a file, as its home knows it; answers that are kept; files that are gone for good |
//! | `server/log`, `server/store`, `server/early` | what a restart finds of the directory; where objects are kept; what happens until then |
//! | `server/check` | what a store has, told without a server |
//! | `moves` | transfers of a unit by posted lists, and what a client does with an offer |
//! | `watch` | whether servers that owe answers are still there |
//! | `wire`, `hello` | what carries requests and answers: the mesh, or byte streams; which of a client's streams counts |
//! | `server`, `service` | what carries out what the machine wants; what starts on a node |

mod access;
mod anything;
mod attributes;
mod buffer;
mod calls;
mod client;
mod config;
mod datatype;
mod distribution;
mod error;
mod group;
mod guests;
mod hello;
mod messages;
mod moves;
mod name;
pub mod remote;
mod server;
mod service;
mod slots;
mod stats;
mod watch;
mod wire;

pub use anything::read_anything;
pub use attributes::{Attributes, Metadata, SetAttributes};
pub use buffer::Buffer;
pub use client::File;
pub use config::{FsConfig, Movers, STREAMS, Storage, Sync, Wire};
pub use datatype::{Datatype, View};
pub use distribution::Distribution;
pub use error::FsError;
pub use group::Group;
pub use name::{DirEntry, Handle, Name, Path};
pub use server::{StoreError, StoreReport, check_store, log_object};
pub use service::Pario;
pub use stats::FsStats;
