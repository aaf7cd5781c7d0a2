//! Bytes: each cell of a file is a register, and its reads and writes are linearizable.
//!
//! Every write writes another value, so it is enough to look at values in pairs (Gibbons and Korach, "Testing shared
//! memories", 1997): the calls that wrote or read one value stand together in the order, and one value must stand before
//! another if a call of the first had ended before a call of the second began. Two values that must each stand before the
//! other have no order.

use super::super::content::Value;
use super::super::history::{Call, Cells, Event, Timeless, What};
use crate::history::{HistoryEvent, RequestId};
use crate::oracle::Oracle;
use std::collections::BTreeMap;
use weft_verbs::Nanos;

/// How far a node's clock runs ahead of the fabric's within a step, as a rule: values that were superseded so long ago need not
/// be told apart from those that were never written.
const AHEAD: Nanos = Nanos::from_millis(1);

/// A value that a cell had or may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Known {
    value: Value,
    /// The earliest end of a call that wrote or read it.
    ended: Nanos,
    /// The latest begin of one.
    began: Nanos,
    /// When another value had surely taken its place, if that is so.
    superseded: Nanos,
}

impl Known {
    fn must_precede(&self, other: &Known) -> bool {
        self.ended < other.began
    }
}

/// What is known of one cell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Cell(Vec<Known>);

impl Default for Cell {
    fn default() -> Cell {
        let (ended, began, superseded) = (Nanos::ZERO, Nanos::ZERO, Nanos::MAX);
        Cell(vec![Known { value: Value::Zero, ended, began, superseded }])
    }
}

impl Cell {
    /// A call that wrote or read a value began and ended; one that has not ended does at `MAX`.
    fn saw(&mut self, value: Value, began: Nanos, ended: Nanos) -> Result<(), String> {
        let Some(place) = self.0.iter().position(|known| known.value == value) else {
            return Err(format!("{value}, which was superseded long before or never written there"));
        };
        let known = &mut self.0[place];
        known.began = known.began.max(began);
        known.ended = known.ended.min(ended);
        let known = *known;
        for other in self.0.iter_mut().filter(|other| other.value != value) {
            if known.must_precede(other) && other.must_precede(&known) {
                return Err(format!("{value}, which stands both before and after {}", other.value));
            }
            if other.must_precede(&known) {
                other.superseded = other.superseded.min(known.ended);
            }
        }
        Ok(())
    }

    fn written(&mut self, value: Value, began: Nanos) {
        self.0.push(Known { value, ended: Nanos::MAX, began, superseded: Nanos::MAX });
    }

    /// Forgets what no call can see any more that begins later than this.
    fn forget(&mut self, before: Nanos) {
        self.0.retain(|known| known.superseded.0.saturating_add(AHEAD.0) > before.0);
    }
}

/// The oracle of bytes.
#[derive(Clone, Debug, Default, Hash)]
pub struct Linearizable {
    cells: BTreeMap<(u64, u64), Cell>,
    /// Reads and writes that are under way, and when they began.
    open: BTreeMap<RequestId, (Nanos, Call)>,
}

impl Linearizable {
    fn ended(&mut self, event: &Event) -> Result<(), String> {
        let Some((began, call)) = self.open.remove(&event.request) else { return Ok(()) };
        let oldest = self.open.values().map(|(began, _)| *began).min().unwrap_or(event.at());
        let judged = match (call, &event.what) {
            (Call::Write(cells), What::Done) => {
                self.each(cells, |_| Value::Of(event.request), began, event.at())
            }
            (Call::Read(cells), What::Has(runs)) => {
                let of = |cell| {
                    let run =
                        runs.iter().find(|run| (run.first..run.first + u64::from(run.cells)).contains(&cell));
                    run.map_or(Value::Zero, |run| run.value)
                };
                self.each(cells, of, began, event.at())
            }
            // A write that failed may have its effect at any time.
            _ => Ok(()),
        };
        if let Call::Write(cells) | Call::Read(cells) = call {
            for cell in cells.all() {
                self.cells.entry((cells.file, cell)).or_default().forget(oldest);
            }
        }
        judged.map_err(|why| format!("{}: {why}", Timeless(event)))
    }

    fn each(
        &mut self,
        cells: Cells,
        of: impl Fn(u64) -> Value,
        began: Nanos,
        ended: Nanos,
    ) -> Result<(), String> {
        let saw = |cell: u64| {
            let at = self.cells.entry((cells.file, cell)).or_default();
            at.saw(of(cell), began, ended).map_err(|why| format!("cell {cell} has {why}"))
        };
        cells.all().map(saw).fold(Ok(()), Result::and)
    }
}

impl Oracle<Event> for Linearizable {
    fn name(&self) -> &'static str {
        "bytes"
    }

    fn promise(&self) -> &'static str {
        "a read returns what the last write before it wrote, whole"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        let What::Calls(call) = event.what else { return self.ended(event) };
        if let Call::Write(cells) = call {
            for cell in cells.all() {
                let cell = self.cells.entry((cells.file, cell)).or_default();
                cell.written(Value::Of(event.request), event.at());
            }
        }
        if matches!(call, Call::Write(_) | Call::Read(_)) {
            self.open.insert(event.request, (event.at(), call));
        }
        Ok(())
    }
}
