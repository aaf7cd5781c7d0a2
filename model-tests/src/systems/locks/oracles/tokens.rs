//! Fencing tokens grow.

use crate::history::RequestId;
use crate::oracle::Oracle;
use crate::systems::locks::history::{Event, What};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use weft_protocols::locks::{LockKey, Mode, Token};
use weft_verbs::Nanos;

/// Fencing tokens grow: whoever guards what is locked can refuse a holder that was superseded.
///
/// An exclusive grant's token is above all earlier tokens of its lock; a shared grant's is above those of the
/// exclusive grants before it, and so is the one that a hold has from its downgrade on. A scheme that counts no grants has tokens among
/// members alone, which say the view: those of one view are equal, and none is below an earlier one. In every scheme a grant's token is
/// above that of a hold which it does not go with and which nobody has given back: that one's node has crashed or was left out, and may
/// still wake up. Where tokens grow, those who share at one time have one token, whichever views they were granted in.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    expected: bool,
    /// Every grant must have one that says its view, at least.
    among_members: bool,
    locks: BTreeMap<Place, Highest>,
    /// Each node's lease, where there is a membership and the history tells of it.
    leases: BTreeMap<u32, Lease>,
}

/// Until when it runs, and in which lineage of views: tokens of two have no order.
#[derive(Clone, Copy, Debug)]
struct Lease {
    until: Nanos,
    lineage: u64,
}

/// A lock, in a lineage of views.
type Place = (LockKey, u64);

#[derive(Clone, Debug, Default)]
struct Highest {
    of_any: Option<(Token, RequestId)>,
    of_exclusive: Option<(Token, RequestId)>,
    /// Holds that have not ended.
    held: BTreeMap<RequestId, (Mode, Token)>,
    /// The highest that the dead had when they died, shared and exclusive.
    of_the_dead: [Option<(Token, RequestId)>; 2],
}

impl Tokens {
    /// Watches a scheme's tokens; `expected` says whether every grant must have one.
    pub fn new(expected: bool) -> Tokens {
        Tokens { expected, ..Tokens::default() }
    }

    /// The same, of nodes that are all members.
    #[must_use]
    pub fn among_members(self) -> Tokens {
        Tokens { among_members: true, ..self }
    }
}

impl Tokens {
    /// Adds to a hash the highest tokens, and what is held. Who had them is for reports.
    pub(super) fn state(&self, mut to: &mut dyn Hasher) {
        for (key, Highest { of_any, of_exclusive, held, of_the_dead }) in &self.locks {
            (key, of_any.map(|(token, _)| token), of_exclusive.map(|(token, _)| token)).hash(&mut to);
            (held, of_the_dead.map(|of| of.map(|(token, _)| token))).hash(&mut to);
        }
    }

    /// A hold is over, if there was one. Its node may be in another lineage by now.
    fn ended(&mut self, event: &Event) {
        for (_, lock) in self.locks.range_mut((event.key, 0)..=(event.key, u64::MAX)) {
            lock.held.remove(&event.request);
        }
    }

    /// Who shares what is granted now with another token, if that is promised of none.
    fn shared_otherwise(
        &self,
        event: &Event,
        mode: Mode,
        token: Token,
        lineage: u64,
    ) -> Option<(RequestId, Token)> {
        let counts = |request: &RequestId| self.counts(request.client.node, event.at, lineage);
        if !self.expected || mode == Mode::Exclusive || !counts(&event.request) {
            return None;
        }
        let differs = |of: &(Mode, Token)| of.0 == Mode::Shared && of.1 != token;
        let mut held = self.locks.get(&(event.key, lineage))?.held.iter();
        held.find(|(other, of)| differs(of) && counts(other)).map(|(other, (_, of))| (*other, *of))
    }

    /// Whether what a node's clients hold counts, in a lineage. (Of members that explored worlds have it is not known.)
    fn counts(&self, node: u32, at: Nanos, lineage: u64) -> bool {
        match self.leases.get(&node) {
            Some(lease) => lease.lineage == lineage && at < lease.until,
            None => !self.among_members,
        }
    }

    /// Nobody gives back what a node's clients held.
    fn crashed(&mut self, node: u32) {
        for Highest { held, of_the_dead, .. } in self.locks.values_mut() {
            held.retain(|request, (mode, token)| {
                let highest = &mut of_the_dead[usize::from(*mode == Mode::Exclusive)];
                let is_dead = request.client.node == node;
                if is_dead && highest.is_none_or(|(highest, _)| highest < *token) {
                    *highest = Some((*token, *request));
                }
                !is_dead
            });
        }
    }
}

impl Oracle<Event> for Tokens {
    fn name(&self) -> &'static str {
        "fencing tokens"
    }

    fn promise(&self) -> &'static str {
        match self.expected {
            true => "tokens grow with every exclusive grant",
            false => "no token is below an earlier one",
        }
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        let (token, mode) = match event.what {
            What::Granted { token } => (token, event.mode),
            What::Downgraded { token } => (token, Mode::Shared),
            What::Leased { until, lineage } => {
                self.leases.insert(event.request.client.node, Lease { until, lineage });
                return Ok(());
            }
            What::Crashed => {
                self.crashed(event.request.client.node);
                return Ok(());
            }
            what => {
                if what.ends() {
                    self.ended(event);
                }
                return Ok(());
            }
        };
        let lineage = self.leases.get(&event.request.client.node).map(|lease| lease.lineage);
        let must_have = self.expected || self.among_members || lineage.is_some();
        let lineage = lineage.unwrap_or(0);
        // What is downgraded is a hold that ends, and another one.
        self.ended(event);
        match token {
            Some(token) => {
                let shared = self.shared_otherwise(event, mode, token, lineage);
                let highest = self.locks.entry((event.key, lineage)).or_default();
                highest.grant(event, mode, token, self.expected)?;
                match shared {
                    Some((other, of)) => Err(format!(
                        "{} holds lock {} {mode} with token {token}, and {other} shares it with {of}",
                        event.request, event.key
                    )),
                    None => Ok(()),
                }
            }
            None if must_have => Err(format!(
                "{} is granted lock {} without a token, which is promised there",
                event.request, event.key
            )),
            None => Ok(()),
        }
    }
}

impl Highest {
    fn grant(&mut self, event: &Event, mode: Mode, token: Token, grows: bool) -> Result<(), String> {
        let below = match mode {
            Mode::Exclusive => self.of_any,
            Mode::Shared => self.of_exclusive,
        };
        let new = Some((token, event.request));
        if self.of_any.is_none_or(|(highest, _)| highest < token) {
            self.of_any = new;
        }
        if mode == Mode::Exclusive && self.of_exclusive.is_none_or(|(highest, _)| highest < token) {
            self.of_exclusive = new;
        }
        let living = self.held.iter().map(|(request, (mode, token))| (*mode, *token, *request));
        let dead = [Mode::Shared, Mode::Exclusive].into_iter().zip(self.of_the_dead);
        let dead = dead.filter_map(|(mode, of)| of.map(|(token, request)| (mode, token, request)));
        let as_high =
            living.chain(dead).find(|(other, highest, _)| !other.goes_with(mode) && token <= *highest);
        self.held.insert(event.request, (mode, token));
        match below {
            Some((highest, other)) if token < highest || grows && token == highest => Err(format!(
                "{} holds lock {} {mode} with token {token}, but {other} had {highest} before",
                event.request, event.key
            )),
            _ => match as_high {
                Some((_, highest, other)) => Err(format!(
                    "{} holds lock {} {mode} with token {token}, and {other} has {highest} and never gave it back",
                    event.request, event.key
                )),
                None => Ok(()),
            },
        }
    }
}
