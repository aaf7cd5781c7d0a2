//! The incremental oracle against a check of the whole history, on histories drawn at random.

use super::MutualExclusion;
use crate::history::{ClientId, RequestId};
use crate::oracle::Oracle;
use crate::systems::locks::history::{Event, What};
use weft_protocols::locks::{LockKey, Mode};
use weft_sim::choice::Rng;
use weft_verbs::Nanos;

/// A hold of one of two locks, from the grant to the release.
#[derive(Clone, Copy)]
struct Hold {
    request: RequestId,
    key: LockKey,
    mode: Mode,
    from: u64,
    /// When it is downgraded, if it is.
    eased: Option<u64>,
    to: u64,
}

fn hold(rng: &mut Rng, node: u32) -> Hold {
    let from = 10 * rng.below(20);
    let to = from + 5 + rng.below(30);
    let mode = if rng.below(3) == 0 { Mode::Exclusive } else { Mode::Shared };
    let eased = (mode == Mode::Exclusive && rng.below(2) == 0).then(|| from + 1 + rng.below(to - from - 1));
    let request = RequestId { client: ClientId { node, index: 0 }, number: 0 };
    Hold { request, key: LockKey(rng.below(2)), mode, from, eased, to }
}

impl Hold {
    /// In which mode it is held from when to when.
    fn spans(&self) -> Vec<(Mode, u64, u64)> {
        match self.eased {
            None => vec![(self.mode, self.from, self.to)],
            Some(at) => vec![(Mode::Exclusive, self.from, at), (Mode::Shared, at, self.to)],
        }
    }

    fn clashes(&self, other: &Hold) -> bool {
        let clash =
            |a: &(Mode, u64, u64), b: &(Mode, u64, u64)| !a.0.goes_with(b.0) && a.1 < b.2 && b.1 < a.2;
        let (mine, theirs) = (self.spans(), other.spans());
        self.key == other.key && mine.iter().any(|a| theirs.iter().any(|b| clash(a, b)))
    }
}

/// Whether two holds that do not go together overlap.
fn overlaps(holds: &[Hold]) -> bool {
    holds.iter().enumerate().any(|(i, a)| holds[i + 1..].iter().any(|b| a.clashes(b)))
}

/// The holds' events in the order of a possible recording: that of the steps' beginnings. A release may lie late
/// in its step, and so may a downgrade. So may a grant, but what it follows from lies before its step, so that it
/// counts from there.
fn recorded(rng: &mut Rng, holds: &[Hold]) -> Vec<Event> {
    let mut events = Vec::new();
    for hold in holds {
        let Hold { request, key, mode, from, eased, to } = *hold;
        let event = |at, what| Event { at: Nanos(at), request, key, mode, what };
        let mut before = from + 1;
        let mut step_of = |at: u64| {
            before = (at - rng.below(5).min(at)).max(before);
            before
        };
        events.push((from, event(from, What::Granted { token: None })));
        if let Some(at) = eased {
            events.push((step_of(at), event(at, What::Downgraded { token: None })));
        }
        events.push((step_of(to), event(to, What::Released)));
    }
    // What a grant follows from was recorded before it.
    let is_grant = |event: &Event| matches!(event.what, What::Granted { .. });
    events.sort_by_key(|(step, event)| (*step, is_grant(event), event.request));
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
