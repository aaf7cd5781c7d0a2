//! Fencing tokens grow.

use crate::history::RequestId;
use crate::oracle::Oracle;
use crate::systems::locks::history::{Event, What};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use weft_protocols::locks::{LockKey, Mode, Token};

/// Fencing tokens grow: whoever guards what is locked can refuse a holder that was superseded.
///
/// An exclusive grant's token is above all earlier tokens of its lock; a shared grant's is above those of the
/// exclusive grants before it, and so is the one that a hold has from its downgrade on. A scheme that counts no grants has tokens among
/// members alone, which say the view: those of one view are equal, and none is below an earlier one.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    expected: bool,
    locks: BTreeMap<(u64, LockKey), Highest>,
    /// The lineage of views in which each node has its lease, where there is a membership: tokens of two have no order.
    lineages: BTreeMap<u32, u64>,
}

#[derive(Clone, Debug, Default)]
struct Highest {
    of_any: Option<(Token, RequestId)>,
    of_exclusive: Option<(Token, RequestId)>,
}

impl Tokens {
    /// Watches a scheme's tokens; `expected` says whether every grant must have one.
    pub fn new(expected: bool) -> Tokens {
        Tokens { expected, ..Tokens::default() }
    }
}

impl Tokens {
    /// Adds to a hash the highest tokens. Who had them is for reports.
    pub(super) fn state(&self, mut to: &mut dyn Hasher) {
        for (key, Highest { of_any, of_exclusive }) in &self.locks {
            (key, of_any.map(|(token, _)| token), of_exclusive.map(|(token, _)| token)).hash(&mut to);
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
            What::Leased { lineage, .. } => {
                self.lineages.insert(event.request.client.node, lineage);
                return Ok(());
            }
            _ => return Ok(()),
        };
        let lineage = self.lineages.get(&event.request.client.node).copied().unwrap_or(0);
        match token {
            Some(token) => {
                let highest = self.locks.entry((lineage, event.key)).or_default();
                highest.grant(event, mode, token, self.expected)
            }
            None if self.expected => Err(format!(
                "{} is granted lock {} without a token, which its scheme promises",
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
        match below {
            Some((highest, other)) if token < highest || grows && token == highest => Err(format!(
                "{} holds lock {} {mode} with token {token}, but {other} had {highest} before",
                event.request, event.key
            )),
            _ => Ok(()),
        }
    }
}
