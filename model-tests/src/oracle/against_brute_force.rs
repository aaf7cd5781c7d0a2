//! The incremental oracle against a check of the whole history, on histories drawn at random.

use super::{MutualExclusion, Oracle};
use crate::history::{ClientId, Event, RequestId, What};
use protocols::locks::{LockKey, Mode};
use sim_backend::choice::Rng;
use verbs_trait::Nanos;

/// A hold of one of two locks, from the grant to the release.
#[derive(Clone, Copy)]
struct Hold {
    request: RequestId,
    key: LockKey,
    mode: Mode,
    from: u64,
    to: u64,
}

fn hold(rng: &mut Rng, node: u32) -> Hold {
    let from = 10 * rng.below(20);
    Hold {
        request: RequestId { client: ClientId { node, index: 0 }, number: 0 },
        key: LockKey(rng.below(2)),
        mode: if rng.below(3) == 0 { Mode::Exclusive } else { Mode::Shared },
        from,
        to: from + 5 + rng.below(30),
    }
}

/// Whether two holds that do not go together overlap.
fn overlaps(holds: &[Hold]) -> bool {
    holds.iter().enumerate().any(|(i, a)| {
        let clash = |b: &Hold| a.key == b.key && !a.mode.goes_with(b.mode) && a.from < b.to && b.from < a.to;
        holds[i + 1..].iter().any(clash)
    })
}

/// The holds' events in the order of a possible recording: that of the steps' beginnings. A release may lie late
/// in its step. So may a grant, but what it follows from lies before its step, so that it counts from there.
fn recorded(rng: &mut Rng, holds: &[Hold]) -> Vec<Event> {
    let mut events = Vec::new();
    for hold in holds {
        let Hold { request, key, mode, from, to } = *hold;
        let event = |at, what| Event { at: Nanos(at), request, key, mode, what };
        let released_in_the_step_of = (to - rng.below(5)).max(from + 1);
        events.push((from, event(from, What::Granted { token: None })));
        events.push((released_in_the_step_of, event(to, What::Released)));
    }
    // What a grant follows from was recorded before it.
    events.sort_by_key(|(step, event)| (*step, event.what != What::Released, event.request));
    events.into_iter().map(|(_, event)| event).collect()
}

#[test]
fn mutual_exclusion_is_violated_exactly_where_holds_overlap() {
    let mut rng = Rng::from_seed(1);
    let mut violated = 0;
    for _ in 0..5_000 {
        let count = 2 + rng.below(5) as u32;
        let holds: Vec<Hold> = (0..count).map(|node| hold(&mut rng, node)).collect();
        let mut oracle = MutualExclusion::default();
        let events = recorded(&mut rng, &holds);
        let blamed = events.iter().any(|event| oracle.observe(event).is_err());
        assert_eq!(blamed, overlaps(&holds), "{events:#?}");
        violated += u32::from(blamed);
    }
    assert!((500..4_500).contains(&violated), "both outcomes must be frequent: {violated}");
}
