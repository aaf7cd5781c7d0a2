//! The promises of copies: a name is that of a whole file, and each end is told the truth.

use super::history::{End, Event, What};
use crate::harness::Explored;
use crate::oracle::{Oracles, PROGRESS, Violation};
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use weft_sim::explore::AccessKind;
use weft_verbs::Nanos;

const WHOLE: &str = "whole file";
const TOLD: &str = "told";
const BYTES: &str = "bytes told";

/// A call of one end.
#[derive(Clone, Copy, Debug, Default, Hash)]
enum Call {
    #[default]
    None,
    /// Of this node.
    Begun(u32),
    Ended(End),
    Dropped,
}

impl Call {
    fn is_dropped(self) -> bool {
        matches!(self, Call::Dropped)
    }
}

impl Hash for End {
    fn hash<H: Hasher>(&self, to: &mut H) {
        std::mem::discriminant(self).hash(to);
    }
}

/// What is promised of one copy.
#[derive(Clone, Debug)]
pub struct CopyOracles {
    /// How the two calls end where nobody drops one and no node crashes.
    usual: (End, End),
    /// How many bytes the file has.
    bytes: u64,
    put: Call,
    take: Call,
    /// How many of them have come, as who puts it was told last.
    come: Option<u64>,
    /// The file has its name.
    named: bool,
    crashed: BTreeSet<u32>,
}

impl CopyOracles {
    /// The promises of a copy of so many bytes whose calls of `put` and `take` end so if nothing is in their way.
    pub fn new(put: End, take: End, bytes: u32) -> CopyOracles {
        let (usual, bytes, come, crashed) = ((put, take), bytes.into(), None, BTreeSet::new());
        CopyOracles { usual, bytes, put: Call::None, take: Call::None, come, named: false, crashed }
    }

    /// Who puts is told what has come, which never becomes less.
    fn is_told(&mut self, bytes: u64) -> Result<(), &'static str> {
        let before = self.come.replace(bytes).unwrap_or(0);
        if (before..=self.bytes).contains(&bytes) { Ok(()) } else { Err(BYTES) }
    }

    /// Whether something but the file ends the calls: a stream may fail then.
    fn is_disturbed(&self) -> bool {
        self.put.is_dropped() || self.take.is_dropped() || !self.crashed.is_empty()
    }

    /// How a call of `put` may end.
    fn may_put_end(&self, end: End) -> bool {
        let truth = match end {
            End::Stored | End::Named => self.named,
            // It may have been stored: the answer was lost.
            End::Stream(_) => true,
            _ => !self.named,
        };
        truth && (end == self.usual.0 || (self.is_disturbed() && matches!(end, End::Stream(_))))
    }

    /// How a call of `take` may end.
    fn may_take_end(&self, end: End) -> bool {
        let truth = self.named == matches!(end, End::Stored | End::Named);
        let disturbed = matches!(end, End::Stream(_) | End::Incomplete);
        truth && (end == self.usual.1 || (self.is_disturbed() && disturbed))
    }

    fn look(&mut self, event: &Event) -> Result<(), &'static str> {
        match event.what {
            What::Puts => self.put = Call::Begun(event.node),
            What::Takes => self.take = Call::Begun(event.node),
            What::PutDropped => self.put = Call::Dropped,
            What::TakeDropped => self.take = Call::Dropped,
            What::Crashes => _ = self.crashed.insert(event.node),
            What::Told { bytes } => return self.is_told(bytes),
            What::Named { whole } => {
                let is_first = !std::mem::replace(&mut self.named, true);
                let in_vain = matches!(self.put, Call::Ended(end) if !matches!(end, End::Stream(_)));
                if !whole || !is_first {
                    return Err(WHOLE);
                }
                if in_vain {
                    return Err(TOLD);
                }
            }
            What::PutEnds(end) => {
                let may = self.may_put_end(end);
                self.put = Call::Ended(end);
                let untold = end == End::Stored && self.bytes > 0 && self.come.is_none();
                return match may {
                    true if untold => Err(BYTES),
                    true => Ok(()),
                    false => Err(TOLD),
                };
            }
            What::TakeEnds(end) => {
                let may = self.may_take_end(end);
                self.take = Call::Ended(end);
                return if may { Ok(()) } else { Err(TOLD) };
            }
        }
        Ok(())
    }

    fn waiting(&self) -> impl Iterator<Item = (&'static str, u32)> {
        let open = |(name, call)| match call {
            Call::Begun(node) if !self.crashed.contains(&node) => Some((name, node)),
            _ => None,
        };
        [("put", self.put), ("take", self.take)].into_iter().filter_map(open)
    }
}

impl Oracles for CopyOracles {
    type Event = Event;

    fn promises(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            (WHOLE, "a name is that of a whole file, and of the one that was put"),
            (TOLD, "who is told that the file is stored, or that it is not, is told the truth"),
            (BYTES, "who puts is told how much has come, and never less"),
            (PROGRESS, "once faults stop, both calls end"),
        ]
    }

    fn observe(&mut self, event: &Event, broken: &mut dyn FnMut(Violation)) {
        if let Err(oracle) = self.look(event) {
            broken(Violation { oracle, at: Nanos::ZERO, text: event.to_string() });
        }
    }

    fn ended(&self) -> u64 {
        let ended = |call: &&Call| matches!(call, Call::Ended(_) | Call::Dropped);
        [self.put, self.take].iter().filter(ended).count() as u64
    }

    fn unended(&self) -> u64 {
        self.waiting().count() as u64
    }

    fn finish(&mut self, at: Nanos, _: Nanos) -> Vec<Violation> {
        let text = |(call, node)| format!("n{node}'s {call} does not end");
        self.waiting().map(|call| Violation { oracle: PROGRESS, at, text: text(call) }).collect()
    }

    fn state(&self, mut to: &mut dyn Hasher) {
        (&self.put, &self.take, self.come, self.named, &self.crashed).hash(&mut to);
    }
}

impl Explored for CopyOracles {
    /// How a call ends is judged by whether the file has its name by then, and whether something has disturbed the calls. Of all else
    /// no verdict depends on the place.
    fn access(event: &Event) -> Option<AccessKind> {
        match event.what {
            What::Puts | What::Takes | What::Told { .. } => None,
            What::PutEnds(_) | What::TakeEnds(_) => Some(AccessKind::Read),
            What::Named { .. } | What::PutDropped | What::TakeDropped | What::Crashes => {
                Some(AccessKind::Write)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::super::history::Why;
    use super::*;
    use crate::oracle;

    const NAMED: What = What::Named { whole: true };
    const PUT: What = What::PutEnds(End::Stored);
    const TAKEN: What = What::TakeEnds(End::Stored);
    const RESET: End = End::Stream(Why::Reset);

    /// What is said of a file of which nobody needs to be told how much has come.
    fn said(usual: (End, End), history: &[What]) -> Vec<&'static str> {
        said_of(0, usual, history)
    }

    fn said_of(bytes: u32, usual: (End, End), history: &[What]) -> Vec<&'static str> {
        let event = |&what: &What| Event { node: u32::from(what == What::Takes), what };
        let said = oracle::said(&mut CopyOracles::new(usual.0, usual.1, bytes), history.iter().map(event));
        said.iter().map(|broken| broken.oracle).collect()
    }

    #[test]
    fn a_lie_of_either_end_a_part_of_a_file_and_a_call_without_an_end_are_told() {
        let stored = (End::Stored, End::Stored);
        let both = [What::Puts, What::Takes];
        let after = |what: &[What]| said(stored, &[&both, what].concat());
        assert_eq!(after(&[NAMED, TAKEN, PUT]), [""; 0]);
        assert_eq!(after(&[What::Named { whole: false }, TAKEN, PUT]), [WHOLE]);
        assert_eq!(after(&[NAMED, NAMED, TAKEN, PUT]), [WHOLE]);
        assert_eq!(after(&[PUT, NAMED, TAKEN]), [TOLD, TOLD], "told before it is there");
        assert_eq!(after(&[NAMED, PUT, What::TakeEnds(RESET)]), [TOLD]);
        assert_eq!(after(&[NAMED, TAKEN, What::PutEnds(RESET)]), [TOLD], "a link that fails is no excuse");
        assert_eq!(after(&[NAMED, TAKEN]), [PROGRESS]);
    }

    #[test]
    fn who_puts_a_file_is_told_how_much_has_come_and_never_less_than_before() {
        let told = |bytes: &[u64]| {
            let told: Vec<What> = bytes.iter().map(|bytes| What::Told { bytes: *bytes }).collect();
            let all = [&[What::Puts, What::Takes][..], &told, &[NAMED, TAKEN, PUT]].concat();
            said_of(40, (End::Stored, End::Stored), &all)
        };
        assert_eq!(told(&[0]), [""; 0], "what is copied may be told of before it is there");
        assert_eq!(told(&[16, 16, 40]), [""; 0]);
        assert_eq!(told(&[]), [BYTES], "nobody told it anything");
        assert_eq!(told(&[16, 8]), [BYTES]);
        assert_eq!(told(&[41]), [BYTES]);
    }

    #[test]
    fn who_is_dropped_or_dead_excuses_a_stream_that_fails_and_no_lie() {
        let stored = (End::Stored, End::Stored);
        for dropped in [What::PutDropped, What::Crashes] {
            let end = |what: &[What]| said(stored, &[&[What::Puts, What::Takes, dropped], what].concat());
            assert_eq!(end(&[What::TakeEnds(RESET)]), [""; 0]);
            assert_eq!(end(&[What::TakeEnds(End::Incomplete)]), [""; 0]);
            assert_eq!(end(&[NAMED, TAKEN]), [""; 0]);
            assert_eq!(end(&[NAMED, What::TakeEnds(RESET)]), [TOLD]);
            assert_eq!(end(&[TAKEN]), [TOLD]);
        }
    }

    #[test]
    fn how_a_call_ends_has_its_place_beside_the_name_and_what_disturbs_it() {
        let access = |what| CopyOracles::access(&Event { node: 0, what });
        for ends in [PUT, TAKEN] {
            assert_eq!(access(ends), Some(AccessKind::Read));
        }
        for judged_by in [NAMED, What::PutDropped, What::TakeDropped, What::Crashes] {
            assert_eq!(access(judged_by), Some(AccessKind::Write));
        }
    }

    #[test]
    fn a_name_that_may_not_be_safe_is_told_of_as_a_name() {
        let named = (End::Named, End::Named);
        let ends = [What::TakeEnds(End::Named), What::PutEnds(End::Named)];
        let after = |what: &[What]| said(named, &[&[What::Puts, What::Takes], what].concat());
        assert_eq!(after(&[&[NAMED][..], &ends].concat()), [""; 0]);
        assert_eq!(after(&ends), [TOLD, TOLD], "there is none");
        let nothing = [NAMED, What::TakeEnds(End::Store), What::PutEnds(End::Refused)];
        assert_eq!(after(&nothing), [TOLD, TOLD], "nothing is said to be stored");
    }

    #[test]
    fn who_is_refused_has_stored_nothing() {
        let refused = (End::Refused, End::Store);
        let both = [What::Puts, What::Takes];
        let ends = [What::TakeEnds(End::Store), What::PutEnds(End::Refused)];
        assert_eq!(said(refused, &[both, ends].concat()), [""; 0]);
        assert_eq!(said(refused, &[&both[..], &ends, &[NAMED]].concat()), [TOLD]);
        assert_eq!(said(refused, &[&both[..], &ends[..1], &[What::PutEnds(RESET)]].concat()), [TOLD]);
    }
}
