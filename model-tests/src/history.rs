//! What the clients of a lock service asked for and what they got, event by event.
//!
//! A history is recorded at the client's side of the interface, since that is where the promises are made: a
//! grant counts from the moment a client's `lock` returns until the moment before it calls `unlock`.

use std::fmt;
use weft_protocols::locks::{LockKey, Mode};
use weft_verbs::Nanos;

/// One client: an application process on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId {
    /// The node, from 0.
    pub node: u32,
    /// The client on that node, from 0.
    pub index: u32,
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}/c{}", self.node, self.index)
    }
}

/// One request: the `number`-th of its client, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// Who made it.
    pub client: ClientId,
    /// Which of that client's requests it is.
    pub number: u32,
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.client, self.number)
    }
}

/// A grant's fencing token, as its scheme orders them. Schemes that remember nothing have none.
pub type Token = weft_protocols::locks::Token;

/// Something that a client saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, by the clock of the client's node. That clock runs ahead of the fabric's by what the node's
    /// processor has spent in its present step, so the times of a history are not sorted across nodes; the
    /// order of recording is the order of the processors' steps.
    pub at: Nanos,
    /// The request it is about.
    pub request: RequestId,
    /// The lock that the request is for.
    pub key: LockKey,
    /// The mode that it asks for. A hold that was downgraded is a shared one from then on.
    pub mode: Mode,
    /// What happened to it.
    pub what: What,
}

/// What happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The client calls `lock`, `lock_until` or `try_lock`.
    Requested {
        /// When it stops waiting, if it does, by the clock of the client's node.
        deadline: Option<Nanos>,
    },
    /// The call returned with a grant.
    Granted {
        /// The grant's fencing token.
        token: Option<Token>,
    },
    /// The client calls `downgrade`, and goes on sharing what it held exclusively.
    Downgraded {
        /// The token that it has from now on.
        token: Option<Token>,
    },
    /// The client is about to call `unlock`.
    Released,
    /// The call returned without a grant because its deadline passed.
    TimedOut,
    /// A `try_lock` returned without a grant because the lock was not free.
    Refused,
    /// The call returned with an error.
    Failed,
}

impl What {
    /// Whether the request is over with this, and its client holds nothing.
    pub fn ends(self) -> bool {
        matches!(self, What::Released | What::TimedOut | What::Refused | What::Failed)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            What::Requested { deadline: None } => "asks".to_string(),
            What::Requested { deadline: Some(deadline) } => format!("asks, until {deadline}"),
            What::Granted { token: None } => "is granted".to_string(),
            What::Granted { token: Some(token) } => format!("is granted, token {token}"),
            What::Downgraded { token: None } => "goes on sharing".to_string(),
            What::Downgraded { token: Some(token) } => format!("goes on sharing, token {token}"),
            What::Released => "releases".to_string(),
            What::TimedOut => "gives up".to_string(),
            What::Refused => "is refused".to_string(),
            What::Failed => "fails".to_string(),
        };
        write!(f, "{} {} {} of lock {}: {what}", self.at, self.request, self.mode, self.key)
    }
}
