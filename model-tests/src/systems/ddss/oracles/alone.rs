//! The holder of the lock alone.

use super::super::history::{Event, What};
use crate::history::RequestId;
use crate::oracle::Oracle;
use std::collections::{BTreeMap, BTreeSet};
use weft_protocols::ddss::Model;

/// What is known of a segment of which the lock hides what is put under it.
#[derive(Clone, Debug, Default, Hash)]
struct Segment {
    /// Versions that somebody got.
    got: BTreeSet<u64>,
    /// Versions that a holder of the lock put, and superseded before it gave the lock back.
    amid: BTreeSet<u64>,
}

/// Between the lock and the unlock of one client nobody else puts, and under read and strict nobody else gets: what the holder put and
/// superseded meanwhile nobody ever sees. (Of one that did not return nothing is known: it may have died after its first put.)
#[derive(Clone, Debug)]
pub(super) struct Alone {
    /// The lock keeps gets out, too.
    hides: bool,
    /// Calls under way that put twice.
    twice: BTreeSet<RequestId>,
    /// By name, and which of those that had the name.
    segments: BTreeMap<(u64, u64), Segment>,
}

impl Alone {
    pub fn new(model: Model) -> Alone {
        let hides = matches!(model, Model::Read | Model::Strict);
        Alone { hides, twice: BTreeSet::new(), segments: BTreeMap::new() }
    }

    pub fn state(&self) -> impl std::hash::Hash + '_ {
        (&self.twice, &self.segments)
    }

    /// Somebody got a version.
    fn got(&mut self, event: &Event, version: u64) -> Result<(), String> {
        if !self.hides {
            return Ok(());
        }
        let segment = self.segments.entry((event.segment, event.life)).or_default();
        segment.got.insert(version);
        if segment.amid.contains(&version) {
            return Err(format!("{event}, which its holder has superseded under the lock"));
        }
        Ok(())
    }

    /// A holder of the lock got a version, put once or twice, and gave the lock back.
    fn exchanged(&mut self, event: &Event, got: u64, put: Option<u64>) -> Result<(), String> {
        let twice = self.twice.contains(&event.request);
        let seen = self.got(event, got);
        let Some(put) = put else { return seen };
        if put != got + 1 + u64::from(twice) {
            return Err(event.to_string());
        }
        if self.hides && twice {
            let (amid, segment) = (put - 1, self.segments.entry((event.segment, event.life)).or_default());
            segment.amid.insert(amid);
            if segment.got.contains(&amid) {
                return Err(format!("{event}, and another one got version {amid} meanwhile"));
            }
        }
        seen
    }
}

impl Oracle<Event> for Alone {
    fn name(&self) -> &'static str {
        "holder alone"
    }

    fn promise(&self) -> &'static str {
        if self.hides {
            "nobody gets or puts while another one has the lock"
        } else {
            "nobody puts while another one has the lock"
        }
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        let judged = match event.what {
            What::ExchangesTwice => {
                self.twice.insert(event.request);
                return Ok(());
            }
            What::Holds { .. } => return Ok(()),
            What::Got { version: Some(version), .. } => self.got(event, version),
            What::Exchanged { got: Some(got), put, .. } => self.exchanged(event, got, put),
            _ => Ok(()),
        };
        self.twice.remove(&event.request);
        judged
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::history::Value;
    use super::*;
    use crate::history::ClientId;

    const fn request(node: u32) -> RequestId {
        RequestId { client: ClientId { node, index: 0 }, number: 0 }
    }

    /// How many events of a history of one segment break the promise.
    fn broken(model: Model, history: &[(u32, What)]) -> usize {
        let mut alone = Alone::new(model);
        let event = |node, what| Event { at_ns: 0, request: request(node), segment: 1, life: 7, what };
        history.iter().filter(|(node, what)| alone.observe(&event(*node, *what)).is_err()).count()
    }

    const fn got(version: u64) -> What {
        What::Got { value: Value::Of(request(0)), version: Some(version) }
    }

    const fn exchanged(put: Option<u64>) -> What {
        What::Exchanged { value: Value::Zero, got: Some(0), put }
    }

    const MODELS: [Model; 4] = [Model::Read, Model::Strict, Model::Write, Model::Version];

    #[test]
    fn what_is_put_and_superseded_under_the_lock_is_hidden_by_read_and_strict_and_by_no_other_model() {
        for model in MODELS {
            let hides = usize::from(matches!(model, Model::Read | Model::Strict));
            let of = |seen, seen_first: bool| {
                let ends = [(1, got(seen)), (0, exchanged(Some(2)))];
                let [first, second] = if seen_first { ends } else { [ends[1], ends[0]] };
                broken(model, &[(0, What::ExchangesTwice), (1, What::Gets), first, second])
            };
            for seen_first in [true, false] {
                assert_eq!([0, 1, 2].map(|seen| of(seen, seen_first)), [0, hides, 0], "{model}");
            }
        }
    }

    #[test]
    fn who_puts_twice_under_the_lock_makes_two_versions_and_who_puts_once_makes_one() {
        for model in MODELS {
            let of = |begins, put| broken(model, &[(0, begins), (0, exchanged(put))]);
            assert_eq!([1, 2, 3].map(|put| of(What::ExchangesTwice, Some(put))), [1, 0, 1], "{model}");
            assert_eq!([1, 2, 3].map(|put| of(What::Exchanges, Some(put))), [0, 1, 1], "{model}");
            assert_eq!(of(What::ExchangesTwice, None), 0, "nobody knows what became of a put");
        }
    }

    /// Its lock goes on when it has died, and what it put first is the segment's value.
    #[test]
    fn what_one_put_that_did_not_return_may_be_got() {
        let history = [(0, What::ExchangesTwice), (0, What::Lost), (1, What::Gets), (1, got(1))];
        assert_eq!(broken(Model::Strict, &history), 0);
    }
}
