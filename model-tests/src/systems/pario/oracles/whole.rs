//! Units are whole: where all transfers are of the same one, a read has the bytes of one write.
//!
//! What a write leaves that fails, or that a crash interrupts, may be a part of it.

use super::super::content::{Run, Value};
use super::super::history::{Call, Event, What};
use crate::history::RequestId;
use crate::oracle::{Oracle, Violation};
use std::collections::BTreeSet;
use weft_verbs::Nanos;

/// The oracle of units.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Whole {
    /// Writes under way, and those that nobody waits for any more.
    writes: BTreeSet<RequestId>,
    /// Reads that had the bytes of several.
    torn: Vec<Torn>,
    /// A part of a write may be there.
    loose: bool,
}

/// A read that had the bytes of several writes.
#[derive(Clone, Debug, Hash)]
struct Torn {
    read: String,
    /// Those of them under way. If one of them fails, a part of it may have been there.
    of: BTreeSet<RequestId>,
}

impl Whole {
    /// A read had the bytes of several writes.
    fn tears(&mut self, read: String, runs: &[Run]) -> Result<(), String> {
        let has = |write: &&RequestId| {
            runs.iter().any(|run| run.value == Value::Of(**write) || run.value == Value::Torn)
        };
        let of: BTreeSet<RequestId> = self.writes.iter().filter(has).copied().collect();
        if of.is_empty() {
            return Err(read);
        }
        self.torn.push(Torn { read, of });
        Ok(())
    }

    /// A write is done, all of it.
    fn is_done(&mut self, write: RequestId) -> Result<(), String> {
        self.writes.remove(&write);
        self.torn.iter_mut().for_each(|torn| _ = torn.of.remove(&write));
        match self.torn.iter().find(|torn| torn.of.is_empty()) {
            Some(torn) => Err(torn.read.clone()),
            None => Ok(()),
        }
    }

    /// A part of a write may be there from now on, and may have been.
    pub(super) fn loosen(&mut self) {
        self.loose = true;
        self.torn.clear();
    }

    /// Without a fault no write fails, be it one that nobody waits for.
    pub(super) fn finish_unharmed(&self) -> Option<Violation> {
        let torn = self.torn.first()?;
        Some(Violation { oracle: self.name(), at: Nanos::ZERO, text: torn.read.clone() })
    }
}

impl Oracle<Event> for Whole {
    fn name(&self) -> &'static str {
        "whole units"
    }

    fn promise(&self) -> &'static str {
        "a read of a unit has the bytes of one write"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        match &event.what {
            What::Calls(Call::Write(_)) => _ = self.writes.insert(event.request),
            What::Failed(_) | What::Stale if self.writes.remove(&event.request) => self.loosen(),
            What::Has(runs) if !self.loose && !is_of_one(runs) => {
                return self.tears(event.to_string(), runs);
            }
            // It may be carried out later still.
            What::Dropped => {}
            _ => return self.is_done(event.request),
        }
        Ok(())
    }
}

fn is_of_one(runs: &[Run]) -> bool {
    runs.windows(2).all(|two| two[0].value == two[1].value)
}

#[cfg(test)]
mod tests {
    use super::super::super::content::Value;
    use super::super::super::history::{Cells, Why};
    use super::*;
    use crate::history::ClientId;

    const CELLS: Cells = Cells { file: 1, first: 0, cells: 1, rows: 2, stride: 2, bytes: 32 };

    fn by(node: u32) -> RequestId {
        RequestId { client: ClientId { node, index: 0 }, number: 0 }
    }

    /// Whether a read may have these writers' bytes in its rows, behind some events and before others; where there was a fault, or none.
    fn may_have(before: &[(u32, What)], rows: [u32; 2], behind: &[(u32, What)], harmed: bool) -> bool {
        let mut whole = Whole::default();
        let runs = [0, 2].into_iter().zip(rows);
        let runs = runs.map(|(first, node)| Run { first, cells: 1, value: Value::Of(by(node)) }).collect();
        let read = [(9, What::Calls(Call::Read(CELLS))), (9, What::Has(runs))];
        let event = |(node, what): (u32, What)| Event { at_ns: 0, request: by(node), what };
        let keeps = |told: (u32, What)| match told.1 {
            What::Restarted => {
                whole.loosen();
                true
            }
            _ => whole.observe(&event(told)).is_ok(),
        };
        before.iter().cloned().chain(read).chain(behind.iter().cloned()).all(keeps)
            && (harmed || whole.finish_unharmed().is_none())
    }

    #[test]
    fn a_read_has_the_bytes_of_one_write_unless_a_part_of_one_may_be_there() {
        let writes = (1, What::Calls(Call::Write(CELLS)));
        let ended = |what| [writes.clone(), (1, what)];
        let may = |before: &[_], rows| may_have(before, rows, &[], true);
        assert!(may(std::slice::from_ref(&writes), [1, 1]));
        assert!(!may(&ended(What::Done), [0, 1]));
        assert!(may(&ended(What::Failed(Why::Unknown)), [0, 1]));
        assert!(may(&[(0, What::Restarted)], [0, 1]));
        assert!(!may(&[(2, What::Failed(Why::Unknown))], [0, 1]), "that was no write");
    }

    #[test]
    fn a_read_has_a_part_of_a_write_under_way_only_if_that_fails() {
        let writes = [(1, What::Calls(Call::Write(CELLS)))];
        let may = |what: What, harmed| may_have(&writes, [0, 1], &[(1, what)], harmed);
        assert!(may(What::Failed(Why::Disk), false) && !may(What::Done, true));
        assert!(may(What::Dropped, true) && !may(What::Dropped, false), "a fault may have struck it");
        assert!(!may_have(&writes, [0, 2], &[], true), "the writes whose bytes it has are not under way");
    }
}
