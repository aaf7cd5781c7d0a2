//! `weft pipe`, `weft cp` and `weft perf`: byte streams and files between two machines, which go on while a link is down.
//!
//! What moves the bytes is [`weft_protocols::sdp::pipe`], [`weft_protocols::sdp::copy`] and [`weft_protocols::sdp::perf`], which the simulator
//! runs under faults.
//! Here is what belongs to this machine: how the two ends meet, standard input and output, files, devices.

#[cfg(any(feature = "hw", test))]
pub mod args;
#[cfg(any(feature = "hw", test))]
mod aside;
#[cfg(any(feature = "hw", test))]
mod broken;
#[cfg(any(feature = "hw", test))]
mod meet;
#[cfg(feature = "hw")]
mod pair;
#[cfg(feature = "hw")]
mod perf;
#[cfg(feature = "hw")]
mod run;
#[cfg(any(feature = "hw", test))]
mod service;
#[cfg(feature = "hw")]
mod stdio;
#[cfg(any(feature = "hw", test))]
mod store;
#[cfg(any(feature = "hw", test))]
mod writes;

#[cfg(feature = "hw")]
pub use perf::run as perf;
#[cfg(feature = "hw")]
pub use run::{cp, pipe};
