//! Weft's protocols, each written once against the verbs contract: what is deployed is what was checked.
//!
//! - [`rt`]: the runtime of a node: tasks, timers, completion slots, waiting;
//! - [`transport`]: connections to peers on demand, messages in sessions that survive them, one-sided
//!   operations whose outcome is told honestly;
//! - [`members`]: who is alive: views of incarnations, and leases;
//! - [`locks`]: distributed locks, several schemes behind one interface;
//! - [`ddss`]: shared data segments under several coherence models;
//! - [`sdp`]: sockets, byte streams that survive the links that carry them;
//! - [`dsm`]: memory that the threads of all nodes share, sequentially consistent;
//! - [`pario`]: files that are striped over servers.
//!
//! Nothing here names a backend, a clock of the operating system or a thread; a test holds that.

mod bytes;
pub mod ddss;
pub mod dsm;
pub mod locks;
pub mod members;
mod number_set;
pub mod pario;
pub mod rt;
pub mod sdp;
pub mod transport;
