//! Nobody waits for what nobody has, nor is refused it.

use super::Progress;
use super::progress::Open;
use crate::history::RequestId;
use crate::oracle::Violation;
use std::collections::BTreeSet;
use std::hash::Hasher;
use weft_protocols::locks::{LockKey, Mode};
use weft_verbs::Nanos;

/// When all else has come to rest and a hold goes on, no try is open, nor does anybody wait to share what is shared.
///
/// Only worlds know when that is ([`What::Outlasts`](super::super::history::What::Outlasts)), and a fault excuses it: then all may rest
/// until time passes.
///
/// And a try that is the only request that anybody has ever made is granted. (Of a later one nobody but the lock knows whether what others
/// had is given back already.)
///
/// Who gave up an exclusive request may still have it in a queue, and is passed over there once the lock comes: until then others wait behind
/// it, and are not judged.
#[derive(Clone, Debug, Default)]
pub struct InVain {
    of_tries_alone: bool,
    given_up: BTreeSet<LockKey>,
    found: Option<String>,
}

impl InVain {
    /// The same, where whoever wants to share may have to wait for those who do.
    #[must_use]
    pub fn of_tries_alone(self) -> InVain {
        InVain { of_tries_alone: true, ..self }
    }

    /// The first request that has waited in vain.
    pub fn found(&self) -> Option<Violation> {
        let violation = |text: &String| Violation { oracle: "in vain", at: Nanos::ZERO, text: text.clone() };
        self.found.as_ref().map(violation)
    }

    /// Somebody has waited for too long to have this lock alone.
    pub(super) fn gives_up(&mut self, key: LockKey) {
        self.given_up.insert(key);
    }

    /// A hold has outlasted all else: judges the requests that are open then.
    pub(super) fn outlasts(&mut self, holder: RequestId, requests: &Progress) {
        let open = requests.open();
        let Some(&Open { key, mode: held, .. }) = open.get(&holder) else { return };
        let waiting = |open: &Open| open.key == key && !open.holds;
        let only_shared = open.values().filter(|open| waiting(open)).all(|open| open.mode == Mode::Shared);
        let only_shared = only_shared && !self.given_up.contains(&key);
        let may_share = held == Mode::Shared && only_shared && !self.of_tries_alone;
        let in_vain = |(_, open): &(&RequestId, &Open)| waiting(open) && (open.tries || may_share);
        if let Some((request, open)) = open.iter().find(in_vain) {
            let what = if open.tries { "only tries" } else { "waits to share" };
            let text = format!(
                "{request} {what}, and is not answered while {holder} holds lock {key} {held} and nothing else can happen"
            );
            self.found.get_or_insert(text);
        }
    }

    /// A try was refused: judges whether anybody else could be the reason.
    pub(super) fn refused(&mut self, request: RequestId, requests: &Progress) {
        if requests.made() == 1 {
            let text = format!(
                "{request} only tries, and is refused, though nobody else has asked for anything yet"
            );
            self.found.get_or_insert(text);
        }
    }

    /// What it judges by beyond where each request stands.
    pub fn state(&self, to: &mut dyn Hasher) {
        to.write_u8(self.found.is_some().into());
        self.given_up.iter().for_each(|key| to.write_u64(key.0));
        to.write_usize(self.given_up.len());
    }
}
