//! `weft pipe` and `weft cp`: byte streams and files between two machines, which go on while a link is down.
//!
//! What moves the bytes is [`weft_protocols::sdp::pipe`] and [`weft_protocols::sdp::copy`], which the simulator runs under faults.
//! Here is what belongs to this machine: how the two ends meet, standard input and output, files, devices.

#[cfg(any(feature = "hw", test))]
pub mod args;
#[cfg(any(feature = "hw", test))]
mod meet;
#[cfg(feature = "hw")]
mod pair;
#[cfg(feature = "hw")]
mod run;
#[cfg(feature = "hw")]
mod stdio;
#[cfg(any(feature = "hw", test))]
mod store;

#[cfg(feature = "hw")]
pub use run::{cp, pipe};
