//! SRSL: a lock server by send and receive (ncosed.txt, 2.2.1).
//!
//! A lock's home queues requests and grants them, first come, first served; shared requests that are next to
//! each other in the queue hold together. A lock costs two messages, an unlock one. Sessions deliver each
//! message once and in order whatever happens to connections, so there is nothing else to it.

mod home;
mod keeper;
mod messages;
mod requester;
mod requester_state;

#[cfg(test)]
mod keeper_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;

pub(crate) use keeper::{Keeper, Out};
pub(crate) use messages::Message;
pub(crate) use requester::{Refused, Requester};

use super::LockKey;
use super::stats::Counters;
use crate::transport::Rank;

/// What a requester needs of its node's network.
pub(crate) trait Wire: 'static {
    /// Sends a message: in order with the others to that node, exactly once.
    fn send(&self, to: Rank, key: LockKey, message: Message);
    /// Where to count.
    fn counters(&self) -> &Counters;
}
