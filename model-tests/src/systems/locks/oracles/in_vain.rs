//! Nobody waits for what nobody has.

use crate::history::RequestId;
use crate::oracle::{Oracle, Violation};
use crate::systems::locks::history::{Event, What};
use std::collections::BTreeMap;
use std::hash::Hasher;
use weft_protocols::locks::{LockKey, Mode};
use weft_verbs::Nanos;

/// When all else has come to rest and a hold goes on, no try is open, nor does anybody wait to share what is shared.
///
/// Only worlds know when that is ([`What::Outlasts`]), and a fault excuses it: then all may rest until time passes.
#[derive(Clone, Debug, Default)]
pub struct InVain {
    open: BTreeMap<RequestId, Open>,
    of_tries_alone: bool,
    found: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    key: LockKey,
    mode: Mode,
    tries: bool,
    holds: bool,
}

impl InVain {
    /// The same, where whoever wants to share may have to wait for those who do.
    #[must_use]
    pub fn of_tries_alone(self) -> InVain {
        InVain { of_tries_alone: true, ..self }
    }

    /// The first request that has waited in vain.
    pub fn found(&self) -> Option<Violation> {
        let violation =
            |text: &String| Violation { oracle: self.name(), at: Nanos::ZERO, text: text.clone() };
        self.found.as_ref().map(violation)
    }

    /// A hold of this lock has outlasted all else.
    fn outlasts(&mut self, holder: RequestId, key: LockKey) {
        let Some(Open { mode: held, .. }) = self.open.get(&holder).copied() else { return };
        let waiting = |open: &Open| open.key == key && !open.holds;
        let only_shared =
            self.open.values().filter(|open| waiting(open)).all(|open| open.mode == Mode::Shared);
        let may_share = held == Mode::Shared && only_shared && !self.of_tries_alone;
        let in_vain = |(_, open): &(&RequestId, &Open)| waiting(open) && (open.tries || may_share);
        if let Some((request, open)) = self.open.iter().find(in_vain) {
            let what = if open.tries { "only tries" } else { "waits to share" };
            let text = format!(
                "{request} {what}, and is not answered while {holder} holds lock {key} {held} and nothing else can happen"
            );
            self.found.get_or_insert(text);
        }
    }

    /// What it judges by beyond where each request stands.
    pub fn state(&self, to: &mut dyn Hasher) {
        to.write_u8(self.found.is_some().into());
    }
}

impl Oracle<Event> for InVain {
    fn name(&self) -> &'static str {
        "in vain"
    }

    fn promise(&self) -> &'static str {
        "nobody waits for what nobody has"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        let Event { at, request, key, mode, what } = *event;
        match what {
            What::Requested { deadline } => {
                let tries = deadline.is_some_and(|deadline| deadline <= at);
                self.open.insert(request, Open { key, mode, tries, holds: false });
            }
            What::Granted { .. } => drop(self.open.entry(request).and_modify(|open| open.holds = true)),
            What::Downgraded { .. } => {
                self.open.entry(request).and_modify(|open| open.mode = Mode::Shared);
            }
            What::Outlasts => self.outlasts(request, key),
            What::Leased { .. } => {}
            What::Crashed => self.open.retain(|request, _| request.client.node != event.request.client.node),
            What::Released | What::TimedOut | What::Refused | What::Failed | What::Lost => {
                self.open.remove(&request);
            }
        }
        Ok(())
    }
}
