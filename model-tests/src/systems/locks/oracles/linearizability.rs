//! A lock's history as a whole, as that of a sequential object.

use crate::history::RequestId;
use crate::oracle::linearizability::{Call, SequentialSpec};
use crate::systems::locks::history::{Event, What};
use std::collections::BTreeMap;
use weft_protocols::locks::Mode;

/// A lock that is held by one alone or by several together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReadersWriter {
    shared: u32,
    exclusive: bool,
}

/// What is done to a [`ReadersWriter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOp {
    /// Takes it; a call that would have to wait has no place yet.
    Take(Mode),
    /// Gives up a hold.
    Leave(Mode),
    /// Goes on sharing what was held alone.
    Downgrade,
}

/// Whether the object let the call through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// It did.
    Yes,
    /// Not in this state.
    No,
}

impl SequentialSpec for ReadersWriter {
    type Op = LockOp;
    type Ret = Through;

    fn invoke(&mut self, op: &LockOp) -> Through {
        let possible = match op {
            LockOp::Take(Mode::Shared) => !self.exclusive,
            LockOp::Take(Mode::Exclusive) => !self.exclusive && self.shared == 0,
            LockOp::Leave(Mode::Shared) => self.shared > 0,
            LockOp::Leave(Mode::Exclusive) | LockOp::Downgrade => self.exclusive,
        };
        if !possible {
            return Through::No;
        }
        match op {
            LockOp::Take(Mode::Shared) => self.shared += 1,
            LockOp::Take(Mode::Exclusive) => self.exclusive = true,
            LockOp::Leave(Mode::Shared) => self.shared -= 1,
            LockOp::Leave(Mode::Exclusive) => self.exclusive = false,
            LockOp::Downgrade => (self.exclusive, self.shared) = (false, self.shared + 1),
        }
        Through::Yes
    }
}

/// A history of one lock as calls of a [`ReadersWriter`]: a request is a call until it is granted; a release counts
/// from the moment when its client gives the lock up, which is when the history has it. Requests without a grant have
/// done nothing to the lock. Each request is a client of its own.
pub fn calls_of_a_lock(events: &[Event]) -> Vec<Call<LockOp, Through>> {
    let mut calls = Vec::new();
    let mut clients: BTreeMap<RequestId, u32> = BTreeMap::new();
    for event in events {
        let next = clients.len() as u32;
        let client = *clients.entry(event.request).or_insert(next);
        let at_once = |op| [Call::Invoked(client, op), Call::Returned(client, Through::Yes)];
        match event.what {
            What::Requested { .. } => calls.push(Call::Invoked(client, LockOp::Take(event.mode))),
            What::Granted { .. } => calls.push(Call::Returned(client, Through::Yes)),
            What::Downgraded { .. } => calls.extend(at_once(LockOp::Downgrade)),
            What::Released => calls.extend(at_once(LockOp::Leave(event.mode))),
            // Who holds is judged by leases then, which a sequential object does not have.
            What::Leased { .. } | What::Crashed | What::LeftOut | What::Outlasts => {}
            What::Lost => calls.extend(at_once(LockOp::Leave(event.mode))),
            What::TimedOut { .. } | What::Refused | What::Failed(_) => {
                let of_this = |call: &Call<_, _>| matches!(call, Call::Invoked(who, _) if *who == client);
                if let Some(place) = calls.iter().rposition(of_this) {
                    calls.remove(place);
                }
            }
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::ClientId;
    use crate::oracle::{Linearizability, Oracle};
    use crate::systems::locks::oracles::MutualExclusion;
    use weft_protocols::locks::LockKey;
    use weft_sim::choice::Rng;
    use weft_verbs::Nanos;

    /// Two oracles that know nothing of each other: a lock's history is linearizable just where nobody holds
    /// what excludes another.
    #[test]
    fn a_lock_is_linearizable_just_where_it_excludes() {
        let mut rng = Rng::from_seed(3);
        let mut broken = 0;
        for _ in 0..2_000 {
            let events = random_lock(&mut rng);
            let mut exclusion = MutualExclusion::default();
            let excludes = events.iter().all(|event| exclusion.observe(event).is_ok());
            let verdict = Linearizability::judge(ReadersWriter::default(), &calls_of_a_lock(&events));
            assert_eq!(verdict.is_ok(), excludes, "{events:#?}");
            broken += u32::from(!excludes);
        }
        assert!((200..1_800).contains(&broken), "both must be frequent: {broken}");
    }

    /// Four requests for a lock, of which some wait while it is held, and some do not.
    fn random_lock(rng: &mut Rng) -> Vec<Event> {
        let mut stage = [0; 4];
        let modes = stage.map(|_| Mode::ALL[rng.below(2) as usize]);
        let careful = rng.below(2) == 0;
        let mut events = Vec::new();
        for _ in 0..60 {
            let who = rng.below(4) as usize;
            let clashes =
                |other: usize| other != who && stage[other] == 2 && !modes[who].goes_with(modes[other]);
            let what = match stage[who] {
                0 => What::Requested { deadline: None },
                1 if careful && (0..4).any(clashes) => continue,
                1 if rng.below(10) == 0 => What::TimedOut { early: Nanos::ZERO },
                1 => What::Granted { token: None },
                2 => What::Released,
                _ => continue,
            };
            stage[who] = if matches!(what, What::TimedOut { .. }) { 3 } else { stage[who] + 1 };
            let request = RequestId { client: ClientId { node: who as u32, index: 0 }, number: 0 };
            events.push(Event { at: Nanos::ZERO, request, key: LockKey(0), mode: modes[who], what });
        }
        events
    }
}
