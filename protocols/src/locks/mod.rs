//! Distributed locks: several schemes behind one interface.
//!
//! Every node of a cluster runs one [`LockService`], its daemon (ncosed.txt, 3.1); applications of the node
//! talk to it through [`LockClient`]s. A lock is named by a [`LockKey`], taken in a [`Mode`], and held for as
//! long as its [`Grant`] is kept. Which protocol decides is the service's [`Scheme`].
//!
//! ```
//! use weft_protocols::locks::{LockError, LockService, Mode};
//! use weft_verbs::Verbs;
//!
//! async fn transfer<V: Verbs>(service: &LockService<V>) -> Result<(), LockError> {
//!     let accounts = service.client().lock("accounts", Mode::Exclusive).await?;
//!     // ... alone with the accounts ...
//!     accounts.unlock().await;
//!     Ok(())
//! }
//! ```
//!
//! # What is common to all schemes
//!
//! - *One request a lock and node in the network.* The protocols know a requester by its node's rank. Requests
//!   of one node for one lock queue on the node, first come, first served (`local`): a shared grant serves
//!   those that stand at the head of that queue, an exclusive one is handed off locally a bounded number of times
//!   ([`LockConfig::local_hand_offs`]).
//! - *An exclusive hold can become a shared one* ([`Grant::downgrade`]), where nodes share at all: nobody else has
//!   had the lock alone in between.
//! - *Leaving is always possible.* A deadline or a dropped future takes an application out of the queue; the
//!   request that its node has in the network goes on, and a grant that nobody waits for is given back at
//!   once.
//! - *Costs.* A request is an IPC message to the daemon and one back, bookkeeping once, and what the scheme does
//!   in the network between them; an unlock, as its application sees it, is the sending of one IPC message
//!   (ncosed.txt, Table 2).
//! - *Homes.* A stable hash assigns each key to a node, which keeps the lock's word or its queue.
//! - *Memory*: what a node knows of a lock is kept for good, about 0.7 KB on each node that has used it and up to
//!   0.6 KB at its home: a word's address, learned once, saves a message on every later request. Where locks are
//!   many and each is used a few times, map names to fewer keys. [`Audit::locks_known`] and [`Audit::locks_kept`]
//!   count them. A request allocates nothing but the place for its answer.
//! - *A node that crashes* is survived among members ([`LockService::start_with`]): its locks are granted on when
//!   its lease has run out. Without members what it held stays held: the paper leaves that out (3.1).
//!
//! # Where things are
//!
//! Responders are state machines without I/O (`ncosed::home`, `ncosed::requester_state`, `srsl::home`, `queue`,
//! `local`, `srsl::keeper`, `views`). Initiators are async functions in which the paper's steps can be read (`ncosed::requester`,
//! `srsl::requester`). `daemon`, `homes` and `net` connect both to the node's runtime and mesh. Every message's bytes are in
//! its scheme's `messages`.

mod audit;
mod client;
mod codec;
mod config;
mod daemon;
mod dqnl;
mod error;
mod fingerprint;
mod follow;
mod homes;
mod key;
mod local;
mod mode;
#[cfg(test)]
mod model_tests;
mod ncosed;
mod net;
mod pool;
mod queue;
pub mod remote;
mod service;
mod srsl;
mod stats;
mod views;
mod words;

pub use audit::Audit;
pub use client::{Grant, LockClient};
pub use config::LockConfig;
pub use error::LockError;
pub use key::LockKey;
pub use mode::{Mode, Scheme, Token, UnknownScheme};
pub use service::LockService;
pub use stats::LockStats;
