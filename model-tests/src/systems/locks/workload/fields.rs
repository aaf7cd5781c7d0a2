//! What `[workload]` may say of a lock service: every field with its unit, its default and where the default comes from.

use crate::fields::{
    Rule, Share, Span, Spread, between, broken, clients, count, in_section, no_time, one, positive,
    requests_or_duration,
};
use crate::system::Amount;
use serde::{Deserialize, Serialize};
use weft_protocols::locks::{LockConfig, Scheme};

/// `[workload]` with `kind = "locks"`: what the users of a lock service do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockWork {
    /// The lock scheme: `"srsl"`, `"dqnl"` or `"ncosed"`.
    #[serde(with = "super::scheme")]
    pub scheme: Scheme,
    /// Application processes on each machine, 1 to 1024. Default: 1.
    #[serde(default = "one")]
    pub clients: u32,
    /// How many different locks there are, 1 to 1,000,000. Default: 1, where contention is worst.
    #[serde(default = "one")]
    pub locks: u32,
    /// Which lock a request asks for. Default: `"uniform"`.
    #[serde(default)]
    pub keys: Keys,
    /// The share of requests that ask for the shared mode; the others are exclusive. Default: 0.
    #[serde(default)]
    pub shared: Share,
    /// How long a granted lock is held. Default: `"0us"`, released at once.
    #[serde(default = "no_time")]
    pub hold: Spread,
    /// How long a client rests before each request. Default: `"0us"`, none.
    #[serde(default = "no_time")]
    pub think: Spread,
    /// How many requests each client makes. Give this or `duration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// How long clients go on making requests, in virtual time. Give this or `requests`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// How long a request with a deadline waits before it gives up. Default: no request has a deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
    /// The share of requests that carry the deadline, if there is one. Default: 1, all of them.
    #[serde(default = "all")]
    pub hurried: Share,
    /// The share of requests that only try: granted at once or not at all. Default: 0.
    #[serde(default)]
    pub tries: Share,
    /// The share of exclusive grants that are downgraded half-way through their hold and are shared from then
    /// on. Where nodes do not share (`dqnl`) the downgrade is refused and the hold stays exclusive. Default: 0.
    #[serde(default)]
    pub downgrades: Share,
    /// How often a machine that holds a lock exclusively may hand it to its own next application before the
    /// other machines' turn comes, 0 to 255. Default: the lock service's, 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hand_overs: Option<u32>,
    /// `ncosed`: the count of shared requests in a lock's word from which on the word is given up and rebuilt,
    /// 1 to 2,147,483,648. Small values exercise the rebuilding. Default: the lock service's, half the range of
    /// 32 bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_limit: Option<u32>,
}

fn all() -> Share {
    Share::ALL
}

/// How requests choose among the locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keys {
    /// Every lock is equally likely.
    #[default]
    Uniform,
    /// Every request asks for the same lock.
    Single,
    /// `{ zipf = theta }`: the k-th most popular lock is asked for in proportion to 1/k^theta. 0 is uniform;
    /// 0.99 is the skew of the YCSB benchmark, from which lock papers take it. From 0 to 5.
    Zipf(f64),
}

/// The most locks: their popularity is a table in memory.
const MOST_LOCKS: u32 = 1_000_000;
/// The steepest Zipf skew; beyond it all requests ask for one lock, and `keys = "single"` says so.
const STEEPEST_ZIPF: f64 = 5.0;

impl LockWork {
    /// One client on each machine that makes no request of one lock of this scheme: where clients of another kind make them.
    pub fn idle(scheme: Scheme) -> LockWork {
        LockWork {
            scheme,
            clients: one(),
            locks: one(),
            keys: Keys::default(),
            shared: Share::NONE,
            hold: no_time(),
            think: no_time(),
            requests: Some(0),
            duration: None,
            deadline: None,
            hurried: all(),
            tries: Share::NONE,
            downgrades: Share::NONE,
            hand_overs: None,
            shared_limit: None,
        }
    }

    /// How much work there is.
    pub fn amount(&self) -> Amount {
        Amount::of(self.clients, self.requests, self.duration)
    }

    /// The lock service's settings on so many nodes.
    pub fn config(&self, nodes: u32) -> LockConfig {
        let mut config = LockConfig::new(self.scheme, nodes);
        config.local_hand_offs = self.hand_overs.unwrap_or(config.local_hand_offs);
        config.shared_limit = self.shared_limit.unwrap_or(config.shared_limit);
        config
    }

    /// Checks what the types of the fields cannot express.
    ///
    /// # Errors
    ///
    /// The first broken rule.
    pub fn check(&self) -> Rule {
        let at = |field| in_section("workload", field);
        clients(self.clients)?;
        count(at("locks"), self.locks, MOST_LOCKS, "give the number of locks")?;
        if let Keys::Zipf(theta) = self.keys
            && !(0.0..=STEEPEST_ZIPF).contains(&theta)
        {
            return broken(
                at("keys"),
                format!("a Zipf skew is from 0 (uniform) to {STEEPEST_ZIPF}; 0.99 is usual"),
            );
        }
        requests_or_duration("requests", self.requests, self.duration)?;
        if let Some(deadline) = self.deadline {
            positive(at("deadline"), deadline)?;
        }
        between(at("hand_overs"), self.hand_overs, 0, 255)?;
        between(at("shared_limit"), self.shared_limit, 1, 1 << 31)?;
        if self.deadline.is_none() && self.hurried != Share::ALL {
            return broken(at("hurried"), "there is no deadline to carry; give deadline too".into());
        }
        Ok(())
    }
}
