//! Distributed locks: several schemes behind one interface.
//!
//! Every node of a cluster runs one [`LockService`], its daemon (ncosed.txt, 3.1); applications of the node
//! talk to it through [`LockClient`]s. A lock is named by a [`LockKey`], taken in a [`Mode`], and held as long
//! as its [`Grant`] is kept. Which protocol decides is the service's [`Scheme`].

mod audit;
mod client;
mod codec;
mod config;
mod daemon;
mod error;
mod key;
mod local;
mod mode;
mod ncosed;
mod net;
mod queue;
mod service;
mod srsl;
mod stats;
mod words;

pub use audit::Audit;
pub use client::{Grant, LockClient};
pub use config::LockConfig;
pub use error::LockError;
pub use key::LockKey;
pub use mode::{Mode, Scheme, Token, UnknownScheme};
pub use service::LockService;
pub use stats::LockStats;
