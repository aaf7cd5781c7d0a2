//! Bytes: each cell of a file is a register, and its reads and writes are linearizable.
//!
//! Every write writes another value, so it is enough to look at values in pairs (Gibbons and Korach, "Testing shared
//! memories", 1997): the calls that wrote or read one value stand together in the order, and one value must stand before
//! another if a call of the first had ended before a call of the second began. Two values that must each stand before the
//! other have no order.
//!
//! A crash of a server takes back what was not durable, even if it was read. What is durable is what was answered, or what a sync
//! covered ([`Survival`]); and whose writes are lost is told so by the next sync or close.

use super::super::content::Value;
use super::super::history::{Call, Cells, Event, What};
use super::lost::Unsynced;
use crate::history::{ClientId, HistoryEvent, RequestId};
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
    /// When another value had surely taken its place for good, if that is so.
    superseded: Nanos,
    /// When the write that wrote it was answered.
    answered: Nanos,
    /// No crash takes it back.
    durable: bool,
}

impl Known {
    fn must_precede(&self, other: &Known) -> bool {
        self.ended < other.began
    }
}

/// What is known of one cell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cell {
    known: Vec<Known>,
    /// Since then there may be anything in it: a crash, or a disk that was full, may have left a part of a write.
    loose: Option<Nanos>,
}

impl Default for Cell {
    fn default() -> Cell {
        let (value, zero, superseded) = (Value::Zero, Nanos::ZERO, Nanos::MAX);
        let nothing = Known { value, ended: zero, began: zero, superseded, answered: zero, durable: true };
        Cell { known: vec![nothing], loose: None }
    }
}

impl Cell {
    /// A read has found nothing: that of the beginning, or what a cut has left. Where that may be several, nothing is learned.
    fn saw_nothing(&mut self, seen: Seen) -> Result<(), String> {
        let nothings = self.known.iter().map(|known| known.value).filter(|value| is_nothing(*value));
        let all: Vec<Value> = nothings.collect();
        if let [one] = all[..] {
            return self.saw(one, seen);
        }
        let mut fit = all.into_iter().filter(|value| self.clone().saw(*value, seen).is_ok());
        match (fit.next(), fit.next()) {
            (None, _) => self.saw(Value::Zero, seen),
            (Some(one), None) => self.saw(one, seen),
            _ => Ok(()),
        }
    }

    /// A file is cut off here.
    fn cut(&mut self, cut: &Cut) {
        let value = Value::Cut(cut.request);
        if !self.knows(value) {
            self.written(value, cut.began);
            if cut.ended < Nanos::MAX {
                let last = self.known.last_mut().into_iter();
                last.for_each(|known| {
                    (known.ended, known.answered, known.durable) = (cut.ended, cut.ended, true)
                });
            }
        }
    }

    /// Whether a value is one that it had or may have.
    pub(super) fn knows(&self, value: Value) -> bool {
        self.known.iter().any(|known| known.value == value)
    }

    /// A call that wrote or read a value began and ended; one that has not ended does at `MAX`.
    pub(super) fn saw(&mut self, value: Value, seen: Seen) -> Result<(), String> {
        // Of a write that is all of the cell since then it is known when.
        if self.loose.is_some_and(|since| !seen.wrote || seen.began <= since) {
            return Ok(());
        }
        let Some(place) = self.known.iter().position(|known| known.value == value) else {
            return Err(format!("{value}, which was superseded long before or never written there"));
        };
        let known = &mut self.known[place];
        if seen.wrote {
            known.answered = seen.ended;
            known.durable = seen.survival == Survival::Answered;
        }
        known.began = known.began.max(seen.began);
        // What a read has seen that began before a crash may be gone since.
        if known.durable || seen.began > seen.crashed {
            known.ended = known.ended.min(seen.ended);
        }
        let known = *known;
        for other in self.known.iter_mut().filter(|other| other.value != value) {
            if known.must_precede(other) && other.must_precede(&known) {
                return Err(format!("{value}, which stands both before and after {}", other.value));
            }
            if other.must_precede(&known) && known.durable {
                other.superseded = other.superseded.min(known.ended);
            }
        }
        Ok(())
    }

    /// A server has crashed. A sector is kept or lost as a whole, and what is longer may be in pieces.
    pub(super) fn crashed(&mut self, survival: Survival, bytes: u32, at: Nanos) {
        let open = self.known.iter().any(|known| !known.durable);
        let keeps = matches!(survival, Survival::Answered | Survival::Synced);
        if !keeps || (open && bytes > SECTOR) {
            self.loose = Some(at);
        }
        self.known.iter_mut().filter(|known| !known.durable).for_each(|known| known.ended = Nanos::MAX);
    }

    /// A write of all of it that began then is answered, and no other call of it is under way: what there was before is gone, and what had
    /// been answered before then, whether the crash left it or not, does not come back.
    fn settles(&mut self, began: Nanos) {
        if self.loose.take_if(|since| *since < began).is_some() {
            let over = self.known.iter_mut().filter(|known| known.answered < began);
            over.for_each(|known| known.ended = known.ended.min(known.answered));
        }
    }

    pub(super) fn written(&mut self, value: Value, began: Nanos) {
        let (ended, superseded, answered) = (Nanos::MAX, Nanos::MAX, Nanos::MAX);
        self.known.push(Known { value, ended, began, superseded, answered, durable: false });
    }

    /// A sync has ended that began then: it covers writes that had been answered, unless a crash came between.
    fn synced(&mut self, began: Nanos, crashed: Nanos) {
        let covers = |known: &&mut Known| crashed < known.answered && known.answered < began;
        self.known.iter_mut().filter(covers).for_each(|known| known.durable = true);
    }

    /// Forgets what no call can see any more that begins later than this.
    pub(super) fn forget(&mut self, before: Nanos) {
        self.known.retain(|known| known.superseded.0.saturating_add(AHEAD.0) > before.0);
    }
}

fn is_nothing(value: Value) -> bool {
    matches!(value, Value::Zero | Value::Cut(_))
}

/// A file was cut, or may have been.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Cut {
    request: RequestId,
    file: u64,
    /// The first cell that is cut off.
    from: u64,
    began: Nanos,
    /// `MAX` while it has not ended, and for good if it failed or was dropped.
    ended: Nanos,
}

/// How a call saw a value.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) began: Nanos,
    pub(super) ended: Nanos,
    /// It wrote it.
    pub(super) wrote: bool,
    /// When a server crashed last.
    pub(super) crashed: Nanos,
    pub(super) survival: Survival,
}

/// What a crash leaves of what was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Survival {
    /// All of it.
    #[default]
    Answered,
    /// Names, and what was synced.
    Synced,
    /// Names.
    Names,
    /// Nothing.
    Nothing,
}

/// Bytes that a disk keeps or loses together.
const SECTOR: u32 = 512;

/// The oracle of bytes.
#[derive(Clone, Debug, Default, Hash)]
pub struct Linearizable {
    pub(super) survival: Survival,
    pub(super) unsynced: Unsynced,
    /// When a server crashed last.
    crashed: Nanos,
    /// Bytes of a cell, of all that were told of.
    bytes: u32,
    cells: BTreeMap<(u64, u64), Cell>,
    /// Cuts that calls under way may meet.
    cuts: Vec<Cut>,
    /// Appends of which nobody knows where they are: their file, and when they began.
    appends: BTreeMap<RequestId, (u64, Nanos)>,
    /// Reads and writes that are under way, and when they began.
    open: BTreeMap<RequestId, (Nanos, Call)>,
}

/// What is known of a cell. One that is told of for the first time may have been cut off by what calls under way may meet.
fn cell_of<'a>(
    cells: &'a mut BTreeMap<(u64, u64), Cell>,
    cuts: &[Cut],
    (file, number): (u64, u64),
) -> &'a mut Cell {
    cells.entry((file, number)).or_insert_with(|| {
        let mut cell = Cell::default();
        cuts.iter().filter(|cut| cut.file == file && cut.from <= number).for_each(|cut| cell.cut(cut));
        cell
    })
}

impl Linearizable {
    fn ended(&mut self, event: &Event) -> Result<(), String> {
        if event.what == What::Dropped {
            // What was open for the call is closed with it.
            self.unsynced.dropped(event.request.client);
        }
        let handle = if let What::Opened(handle) = event.what { Some(handle) } else { None };
        self.unsynced.ended(event.request, handle);
        let Some((began, call)) = self.open.remove(&event.request) else { return Ok(()) };
        let oldest = self.open.values().map(|(began, _)| *began).min().unwrap_or(event.at());
        let judged = match (call, &event.what) {
            (Call::Write(cells), What::Done) => {
                self.each(cells, |_| Value::Of(event.request), (began, event.at()), true)
            }
            (Call::Read(cells), What::Has(runs)) => {
                let of = |cell| {
                    let run =
                        runs.iter().find(|run| (run.first..run.first + u64::from(run.cells)).contains(&cell));
                    run.map_or(Value::Zero, |run| run.value)
                };
                self.each(cells, of, (began, event.at()), false)
            }
            (Call::Append(file, cells, bytes), What::At(at)) => {
                self.appended(event.request, (file, cells, bytes), (began, event.at()), *at)
            }
            (Call::Truncate(file, from, _), What::Done) => {
                self.is_cut(event.request, (file, from), event.at())
            }
            (Call::CutBy(first, file), What::Done) => self.is_cut_by(first, file, event.at()),
            (Call::Sync(file), What::Done) => {
                let crashed = self.crashed;
                if crashed < began {
                    let of_file = self.cells.range_mut((file, 0)..=(file, u64::MAX));
                    of_file.for_each(|(_, cell)| cell.synced(began, crashed));
                }
                self.unsynced.covered(event.request.client, file);
                self.kept(event.request.client, file, began)
            }
            // A close that fails is told of lost writes first: its file is closed, and nobody can be told later.
            (Call::Close(file), What::Done | What::Stale | What::Failed(_)) => {
                self.kept(event.request.client, file, began)
            }
            (Call::Sync(file) | Call::Close(file), What::Lost) => self.lost(event.request.client, file),
            (Call::Sync(file), What::Stale | What::Failed(_)) => {
                self.unsynced.failed(event.request.client, file);
                Ok(())
            }
            // A write that failed or was dropped may have its effect at any time.
            _ => Ok(()),
        };
        self.answered(event, call, began);
        if let (Call::Write(cells), What::Done) = (call, &event.what) {
            self.settles(cells, began);
        }
        if let (Call::Close(file), true) = (call, event.what != What::Dropped) {
            self.unsynced.closed(event.request.client, file);
        }
        self.cuts.retain(|cut| cut.ended >= oldest);
        if let Call::Write(cells) | Call::Read(cells) = call {
            for cell in cells.all() {
                // One that no call has told of yet may have been cut off; that is asked when one does.
                if let Some(cell) = self.cells.get_mut(&(cells.file, cell)) {
                    cell.forget(oldest);
                }
            }
        }
        judged.map_err(|why| format!("{event}: {why}"))
    }

    /// A write was answered. Who reads its cells meanwhile may still be told of what was there before.
    fn settles(&mut self, cells: Cells, began: Nanos) {
        let is_of_file = |call: &Call| match call {
            Call::Write(other) | Call::Read(other) => other.file == cells.file,
            Call::Append(file, ..) | Call::Truncate(file, ..) => *file == cells.file,
            _ => false,
        };
        if self.open.values().any(|(_, call)| is_of_file(call)) {
            return;
        }
        for cell in cells.all() {
            self.cells.get_mut(&(cells.file, cell)).into_iter().for_each(|cell| cell.settles(began));
        }
    }

    /// A write was answered, if the call is one.
    fn answered(&mut self, event: &Event, call: Call, began: Nanos) {
        let (client, times) = (event.request.client, (began, event.at()));
        match (call, &event.what) {
            (Call::Write(cells), What::Done) => {
                let bytes = u64::from(cells.bytes);
                for first in cells.rows() {
                    let row = first * bytes..(first + u64::from(cells.cells)) * bytes;
                    self.unsynced.answered(client, cells.file, &row, times);
                }
            }
            (Call::Append(file, cells, bytes), What::At(first)) => {
                let end = first + u64::from(cells) * u64::from(bytes);
                self.unsynced.answered(client, file, &(*first..end), times);
            }
            _ => {}
        }
    }

    fn each(
        &mut self,
        cells: Cells,
        of: impl Fn(u64) -> Value,
        (began, ended): (Nanos, Nanos),
        wrote: bool,
    ) -> Result<(), String> {
        let seen = Seen { began, ended, wrote, crashed: self.crashed, survival: self.survival };
        let saw = |cell: u64| {
            let at = cell_of(&mut self.cells, &self.cuts, (cells.file, cell));
            let value = of(cell);
            // It may be that of an append whose place is not known yet.
            if let Value::Of(request) = value
                && let Some((file, began)) = self.appends.get(&request)
                && *file == cells.file
                && !at.knows(value)
            {
                at.written(value, *began);
            }
            let saw = if value == Value::Zero { at.saw_nothing(seen) } else { at.saw(value, seen) };
            saw.map_err(|why| format!("cell {cell} has {why}"))
        };
        cells.all().map(saw).fold(Ok(()), Result::and)
    }
}

impl Linearizable {
    /// An append has its place.
    fn appended(
        &mut self,
        request: RequestId,
        (file, cells, bytes): (u64, u32, u32),
        (began, ended): (Nanos, Nanos),
        at: u64,
    ) -> Result<(), String> {
        self.appends.remove(&request);
        let cell = u64::from(bytes);
        // A disk that was full has left a part of a cell.
        if !at.is_multiple_of(cell) {
            let of_file = self.cells.range_mut((file, 0)..=(file, u64::MAX));
            of_file.for_each(|(_, cell)| cell.loose = Some(ended));
            return Ok(());
        }
        let all = Cells { file, first: at / cell, cells, rows: 1, stride: 0, bytes };
        self.begins(all, request, began);
        self.each(all, |_| Value::Of(request), (began, ended), true)
    }

    /// A write of cells begins.
    fn begins(&mut self, cells: Cells, request: RequestId, began: Nanos) {
        self.bytes = self.bytes.max(cells.bytes);
        for number in cells.all() {
            let cell = cell_of(&mut self.cells, &self.cuts, (cells.file, number));
            let value = Value::Of(request);
            if !cell.knows(value) {
                cell.written(value, began);
            }
        }
    }

    fn cuts_off(&mut self, cut: Cut) {
        let behind = self.cells.range_mut((cut.file, cut.from)..=(cut.file, u64::MAX));
        behind.for_each(|(_, cell)| cell.cut(&cut));
        self.cuts.push(cut);
    }

    fn is_cut(&mut self, request: RequestId, (file, from): (u64, u64), ended: Nanos) -> Result<(), String> {
        let Some(cut) = self.cuts.iter_mut().find(|cut| cut.request == request) else { return Ok(()) };
        cut.ended = cut.ended.min(ended);
        // Durable, unless nothing is.
        let survival = Survival::Answered;
        let seen = Seen { began: cut.began, ended, wrote: true, crashed: self.crashed, survival };
        let saw = |(number, cell): (&(u64, u64), &mut Cell)| {
            // One that has had another value for long since.
            if !cell.knows(Value::Cut(request)) {
                return Ok(());
            }
            let saw = cell.saw(Value::Cut(request), seen);
            saw.map_err(|why| format!("cell {} has {why}", number.1))
        };
        self.cells.range_mut((file, from)..=(file, u64::MAX)).map(saw).fold(Ok(()), Result::and)
    }

    /// A member of a group is told that the first one has cut a file: it has by now, though that one may not be told yet.
    fn is_cut_by(&mut self, first: ClientId, file: u64, at: Nanos) -> Result<(), String> {
        let cut = self.open.iter().find_map(|(request, (_, call))| match call {
            Call::Truncate(of, from, _) if *of == file && request.client == first => Some((*request, *from)),
            _ => None,
        });
        cut.map_or(Ok(()), |(request, from)| self.is_cut(request, (file, from), at))
    }

    /// A client is told that nothing of a file is lost that it wrote and did not sync.
    fn kept(&mut self, client: ClientId, file: u64, began: Nanos) -> Result<(), String> {
        let lost = self.unsynced.kept(client, file, began);
        match lost && self.survival == Survival::Synced {
            true => Err("is not told that its server crashed since it wrote".to_string()),
            false => Ok(()),
        }
    }

    /// A client is told that something of a file is lost that it wrote and did not sync.
    fn lost(&mut self, client: ClientId, file: u64) -> Result<(), String> {
        let may_be = self.unsynced.lost(client, file);
        match may_be && self.survival != Survival::Answered {
            true => Ok(()),
            false => Err("is told of lost writes, and has none of which it was not told before".to_string()),
        }
    }

    /// A node has crashed and is there again, a server or not: its clients' calls never end.
    pub(super) fn restarted(&mut self, node: u32, serves: bool, at: Nanos) {
        self.open.retain(|request, _| request.client.node != node);
        self.unsynced.restarted(node, serves, at);
        if serves {
            self.crashed = at;
            let (survival, bytes) = (self.survival, self.bytes);
            self.cells.values_mut().for_each(|cell| cell.crashed(survival, bytes, at));
        }
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
        let (request, began) = (event.request, event.at());
        match call {
            Call::Write(cells) => self.begins(cells, request, began),
            Call::Append(file, _, bytes) => {
                self.bytes = self.bytes.max(bytes);
                self.appends.insert(request, (file, began));
            }
            Call::Create(number) => self.unsynced.makes(request, number),
            Call::Truncate(file, from, _) => {
                self.cuts_off(Cut { request, file, from, began, ended: Nanos::MAX });
            }
            _ => {}
        }
        if call.is_of_bytes() || matches!(call, Call::Sync(_) | Call::Close(_) | Call::CutBy(..)) {
            self.open.insert(event.request, (event.at(), call));
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "cells_tests.rs"]
mod tests;
