//! What nodes and their coordinator tell each other: lines of JSON over TCP.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Duration;
use weft_check::history::{ClientId, Event, RequestId, What};
use weft_check::oracle::Leftover;
use weft_protocols::locks::{LockKey, Mode, Token};
use weft_verbs::{Nanos, Service};

/// The port at which nodes meet, unless another one is given.
pub const PORT: u16 = 7_471;

/// The port at which nodes tell each other their queue pairs, where they connect without the connection manager.
pub const STREAMS: Service = Service(7_472);

/// How often a node says that it is alive.
pub const BEAT: Duration = Duration::from_millis(500);

/// From a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Up {
    /// I am this node, and my device has this address.
    Hello { rank: u32, address: IpAddr, device: String },
    /// My daemons run.
    Ready,
    /// A client saw this; answered by [`Down::Written`].
    Saw(Seen),
    /// I am alive.
    Alive,
    /// What I could not reach, and why.
    Trouble(String),
    /// I was asked to leave, and do.
    Leaving,
    /// My clients are through.
    Through,
    /// What is left at my end, and what I counted.
    Rest { left: Vec<(String, u64)>, counts: Counts },
}

/// To a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Down {
    /// All nodes' addresses, by rank.
    Book(Vec<IpAddr>),
    /// All daemons run: begin.
    Begin,
    /// So many events have been written down.
    Written(u64),
    /// All clients are through: come to rest.
    ComeToRest,
    /// It is over.
    End,
}

/// An event of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    at: u64,
    node: u32,
    client: u32,
    number: u32,
    key: u64,
    shared: bool,
    what: Kind,
    value: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    Requested,
    Granted,
    Downgraded,
    Released,
    TimedOut,
    Refused,
    Failed,
}

impl From<Event> for Seen {
    fn from(event: Event) -> Seen {
        let (what, value) = match event.what {
            What::Requested { deadline } => (Kind::Requested, deadline.map(|at| at.0)),
            What::Granted { token } => (Kind::Granted, token.map(|token| token.0)),
            What::Downgraded { token } => (Kind::Downgraded, token.map(|token| token.0)),
            What::Released => (Kind::Released, None),
            What::TimedOut => (Kind::TimedOut, None),
            What::Refused => (Kind::Refused, None),
            What::Failed => (Kind::Failed, None),
        };
        let ClientId { node, index: client } = event.request.client;
        let (number, key, shared) = (event.request.number, event.key.0, event.mode == Mode::Shared);
        Seen { at: event.at.0, node, client, number, key, shared, what, value }
    }
}

impl Seen {
    /// The event, as of a moment of the coordinator's clock.
    pub fn event(self, at: Nanos) -> Event {
        let token = self.value.map(Token);
        let what = match self.what {
            // As far ahead of the coordinator's clock as it was of the node's.
            Kind::Requested => {
                let ahead = |deadline: u64| at + Nanos(deadline.saturating_sub(self.at));
                What::Requested { deadline: self.value.map(ahead) }
            }
            Kind::Granted => What::Granted { token },
            Kind::Downgraded => What::Downgraded { token },
            Kind::Released => What::Released,
            Kind::TimedOut => What::TimedOut,
            Kind::Refused => What::Refused,
            Kind::Failed => What::Failed,
        };
        let client = ClientId { node: self.node, index: self.client };
        let request = RequestId { client, number: self.number };
        let mode = if self.shared { Mode::Shared } else { Mode::Exclusive };
        Event { at, request, key: LockKey(self.key), mode, what }
    }
}

/// What a node's lock service and transport counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Messages between peers.
    pub messages: u64,
    /// Remote atomics that were posted.
    pub atomics: u64,
    /// Connections that were made anew after one broke.
    pub reconnects: u64,
    /// Messages that were sent again on a new connection.
    pub resent: u64,
    /// Messages that no member of the protocol should have sent.
    pub out_of_turn: u64,
    /// Messages that could not be read.
    pub malformed: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.messages += other.messages;
        self.atomics += other.atomics;
        self.reconnects += other.reconnects;
        self.resent += other.resent;
        self.out_of_turn += other.out_of_turn;
        self.malformed += other.malformed;
    }
}

/// A leftover as the oracles take it.
pub fn leftover(node: u32, (what, count): (String, u64)) -> Leftover {
    Leftover { node: Some(node), what, count }
}

/// A message as it travels.
pub fn line<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(message).expect("plain data can always be written");
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_the_way_but_for_their_clock() {
        let whats = [
            What::Requested { deadline: None },
            What::Requested { deadline: Some(Nanos(7)) },
            What::Granted { token: None },
            What::Granted { token: Some(Token(9)) },
            What::Downgraded { token: Some(Token(1)) },
            What::Released,
            What::TimedOut,
            What::Refused,
            What::Failed,
        ];
        for (number, what) in (0..).zip(whats) {
            let request = RequestId { client: ClientId { node: 1, index: 2 }, number };
            let mode = if number % 2 == 0 { Mode::Shared } else { Mode::Exclusive };
            let event = Event { at: Nanos(5), request, key: LockKey(4), mode, what };
            let bytes = line(&Up::Saw(Seen::from(event)));
            let Ok(Up::Saw(seen)) = serde_json::from_slice(&bytes) else { panic!("another message") };
            let what = match what {
                What::Requested { deadline } => {
                    What::Requested { deadline: deadline.map(|at| at + Nanos(3)) }
                }
                other => other,
            };
            assert_eq!(seen.event(Nanos(8)), Event { at: Nanos(8), what, ..event });
        }
    }
}
