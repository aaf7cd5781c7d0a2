//! Units are whole: where all transfers are of the same one, a read has the bytes of one write.
//!
//! What a write leaves that fails, or that a crash interrupts, may be a part of it.

use super::super::content::Run;
use super::super::history::{Call, Event, What};
use crate::history::RequestId;
use crate::oracle::Oracle;
use std::collections::BTreeSet;

/// The oracle of units.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Whole {
    /// Writes under way.
    writes: BTreeSet<RequestId>,
    /// A part of a write may be there.
    loose: bool,
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
            What::Restarted => self.loose = true,
            What::Failed(_) | What::Stale => self.loose |= self.writes.remove(&event.request),
            What::Has(runs) if !self.loose && !is_of_one(runs) => {
                return Err(event.to_string());
            }
            _ => _ = self.writes.remove(&event.request),
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

    /// Whether a read may have these writers' bytes in its rows, behind that.
    fn may_have(before: &[(u32, What)], rows: [u32; 2]) -> bool {
        let mut whole = Whole::default();
        let runs = [0, 2].into_iter().zip(rows);
        let runs = runs.map(|(first, node)| Run { first, cells: 1, value: Value::Of(by(node)) }).collect();
        let read = [(9, What::Calls(Call::Read(CELLS))), (9, What::Has(runs))];
        let event = |(node, what): (u32, What)| Event { at_ns: 0, request: by(node), what };
        before.iter().cloned().chain(read).all(|told| whole.observe(&event(told)).is_ok())
    }

    #[test]
    fn a_read_has_the_bytes_of_one_write_unless_a_part_of_one_may_be_there() {
        let writes = (1, What::Calls(Call::Write(CELLS)));
        let ended = |what| [writes.clone(), (1, what)];
        assert!(
            may_have(std::slice::from_ref(&writes), [1, 1])
                && !may_have(std::slice::from_ref(&writes), [1, 0])
        );
        assert!(!may_have(&ended(What::Done), [0, 1]) && !may_have(&ended(What::Dropped), [0, 1]));
        assert!(may_have(&ended(What::Failed(Why::Unknown)), [0, 1]));
        assert!(may_have(&[(0, What::Restarted)], [0, 1]));
        assert!(!may_have(&[(2, What::Failed(Why::Unknown))], [0, 1]), "that was no write");
    }
}
