//! Planted bugs: what the explorer must find in any case, each beside the same thing without the bug.

mod counter;
mod forgetful;
mod mcs;
mod ticket;

pub use counter::{Adding, Counter};
pub use forgetful::Forgetful;
pub use mcs::Mcs;
pub use ticket::Tickets;
