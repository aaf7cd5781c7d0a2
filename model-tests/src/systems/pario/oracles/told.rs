//! What is told of files beside their bytes: a size that the file had while the call lasted ([`FileSize`]), and attributes, which are a
//! register: who asks is told what was said of the file last, or what is being said.
//!
//! Attributes are said by name and are a file's. Whose a name is, is known from a call that was told of it on, as long as none begins that
//! may change it.

use super::super::content::Value;
use super::super::history::{Call, Cells, Event, Said, What};
use super::cells::{Cell, Seen, Survival};
use super::names::changed;
use super::sizes::{Bounds, Extent, FileSize};
use crate::history::{HistoryEvent, RequestId};
use crate::oracle::Oracle;
use std::collections::BTreeMap;
use weft_verbs::Nanos;

/// What is known of a name.
#[derive(Clone, Copy, Debug, Default, Hash)]
struct Name {
    /// The file that has it, if it is known which.
    file: Option<u64>,
    /// Calls that may change it, under way or of unknown outcome.
    changing: u32,
    /// Grows with each of them, at its begin and its end.
    version: u64,
}

/// A call about a name, or about a file's length.
#[derive(Clone, Debug, Hash)]
struct Open {
    call: Call,
    began: Nanos,
    /// The name's version, if no other call may change the name.
    version: Option<u64>,
    /// How long files were meanwhile, of those whose length may have changed.
    sizes: BTreeMap<u64, Bounds>,
}

/// The oracle of what is told of files.
#[derive(Clone, Debug, Default, Hash)]
pub struct Told {
    pub(super) survival: Survival,
    /// Files lie on several servers.
    pub(super) spread: bool,
    /// When a server crashed last.
    crashed: Nanos,
    sizes: BTreeMap<u64, FileSize>,
    said: BTreeMap<u64, Cell>,
    /// What was said of a file by its name, and when the call began: it may be another file than the one that had the name then.
    anywhere: BTreeMap<RequestId, Nanos>,
    names: BTreeMap<u32, Name>,
    open: BTreeMap<RequestId, Open>,
}

impl Told {
    fn called(&mut self, request: RequestId, call: Call, began: Nanos) {
        if let Some((file, extent)) = extent_of(call) {
            self.changes(file, |size| size.begins(request, extent));
        }
        for name in changed(call) {
            let name = self.names.entry(name).or_default();
            name.changing += 1;
            name.version += 1;
            name.file = None;
        }
        let own = u32::from(matches!(call, Call::Create(_)));
        let about = name_of(call).map(|name| *self.names.entry(name).or_default());
        let about = about.filter(|name| name.changing == own);
        if let Call::Say(_) = call {
            self.anywhere.insert(request, began);
            if let Some(file) = about.and_then(|name| name.file) {
                self.said.entry(file).or_default().written(Value::Of(request), began);
            }
        }
        if name_of(call).is_some() || extent_of(call).is_some() || changed(call).next().is_some() {
            let version = about.map(|name| name.version);
            let open = Open { call, began, version, sizes: BTreeMap::new() };
            self.open.insert(request, open);
        }
    }

    /// A file's length changes. Who asks for it meanwhile may be told of it as it was and as it is.
    fn changes(&mut self, file: u64, change: impl FnOnce(&mut FileSize)) {
        let (size, spread) = (self.sizes.entry(file).or_default(), self.spread);
        let before = size.bounds(spread);
        change(size);
        let wide = before.with(size.bounds(spread));
        let asking = self.open.values_mut().filter(|open| matches!(open.call, Call::Stat(_)));
        asking.for_each(|open| {
            open.sizes.entry(file).and_modify(|sizes| *sizes = sizes.with(wide)).or_insert(wide);
        });
    }

    fn ended(&mut self, event: &Event) -> Result<(), String> {
        let Some(open) = self.open.remove(&event.request) else { return Ok(()) };
        let is_known = !matches!(event.what, What::Dropped | What::Failed(_) | What::Stale);
        if let Some((file, _)) = extent_of(open.call).filter(|_| is_known) {
            let place = if let What::At(at) = event.what { Some(at) } else { None };
            self.changes(file, |size| size.ends(event.request, place));
        }
        let told = match (open.call, &event.what) {
            (Call::Create(_) | Call::Open(_), What::Opened(file)) => Some(*file),
            (Call::Stat(_), What::Told { file, .. }) => Some(*file),
            _ => None,
        };
        let name = name_of(open.call).and_then(|name| self.names.get_mut(&name));
        let stood = name.filter(|name| open.version == Some(name.version));
        let file = stood.and_then(|name| {
            name.file = told.or(name.file);
            name.file
        });
        for name in changed(open.call) {
            let name = self.names.entry(name).or_default();
            name.version += 1;
            name.changing -= u32::from(is_known);
        }
        let judged = match (open.call, &event.what) {
            (Call::Say(_), What::Done) => match file {
                Some(file) => self.has_said(file, event, open.began),
                None => Ok(()),
            },
            (Call::Stat(_), What::Told { file, size, said }) => {
                let size = self.fits(*file, *size, &open);
                let said = said.map_or(Ok(()), |said| self.heard(*file, said, event, open.began));
                size.and(said)
            }
            _ => Ok(()),
        };
        let oldest = self.open.values().map(|open| open.began).min().unwrap_or(event.at());
        if let Some(said) = told.or(file).and_then(|file| self.said.get_mut(&file)) {
            said.forget(oldest);
        }
        judged.map_err(|why| format!("{event}: {why}"))
    }

    fn seen(&self, event: &Event, began: Nanos, wrote: bool) -> Seen {
        // Names and what is told of them are durable, unless nothing is.
        Seen { began, ended: event.at(), wrote, crashed: self.crashed, survival: Survival::Answered }
    }

    /// What a call said is a file's since then.
    fn has_said(&mut self, file: u64, event: &Event, began: Nanos) -> Result<(), String> {
        let (value, seen) = (Value::Of(event.request), self.seen(event, began, true));
        let said = self.said.entry(file).or_default();
        self.anywhere.remove(&event.request);
        if !said.knows(value) {
            said.written(value, began);
        }
        said.saw(value, seen).map_err(|why| format!("it has {why}"))
    }

    /// Somebody is told whose word a file's attributes are.
    fn heard(&mut self, file: u64, value: Value, event: &Event, began: Nanos) -> Result<(), String> {
        let seen = self.seen(event, began, false);
        let said = self.said.entry(file).or_default();
        if let Value::Of(request) = value
            && let Some(began) = self.anywhere.get(&request)
            && !said.knows(value)
        {
            said.written(value, *began);
        }
        said.saw(value, seen).map_err(|_| format!("{} is not what was said last", Said(value)))
    }

    /// Whether a file may have had a size while a call lasted.
    fn fits(&mut self, file: u64, size: u64, open: &Open) -> Result<(), String> {
        let now = self.sizes.entry(file).or_default().bounds(self.spread);
        let bounds = open.sizes.get(&file).map_or(now, |sizes| sizes.with(now));
        match (bounds.least..=bounds.most).contains(&size) {
            true => Ok(()),
            false => {
                Err(format!("it had at least {} and at most {} all the time", bounds.least, bounds.most))
            }
        }
    }

    /// A node has crashed and is there again, a server or not: of its clients' calls nobody knows what they did.
    pub(super) fn restarted(&mut self, node: u32, serves: bool, at: Nanos) {
        self.open.retain(|request, _| request.client.node != node);
        if !serves {
            return;
        }
        self.crashed = at;
        let survival = self.survival;
        self.sizes.values_mut().for_each(|size| size.crashed(survival));
        // (Attributes are changed in the log, where no sector is old and new.)
        let names = if survival == Survival::Nothing { Survival::Nothing } else { Survival::Answered };
        self.said.values_mut().for_each(|said| said.crashed(names, 0, at));
        if survival == Survival::Nothing {
            self.names.values_mut().for_each(|name| {
                name.version += 1;
                name.file = None;
            });
        }
    }
}

/// The file whose length a call may change, and how.
pub(super) fn extent_of(call: Call) -> Option<(u64, Extent)> {
    match call {
        Call::Write(cells) => Some((cells.file, Extent::To(end_of(cells)))),
        Call::Append(file, cells, bytes) => Some((file, Extent::By(u64::from(cells) * u64::from(bytes)))),
        Call::Truncate(file, cells, bytes) => Some((file, Extent::Cut(cells * u64::from(bytes)))),
        _ => None,
    }
}

/// Where the last byte ends of cells that are written.
fn end_of(cells: Cells) -> u64 {
    let last = cells.rows().last().unwrap_or(cells.first);
    (last + u64::from(cells.cells)) * u64::from(cells.bytes)
}

/// The name of which a call is told whose it is, or of whose file it says something.
fn name_of(call: Call) -> Option<u32> {
    match call {
        Call::Create(name) | Call::Open(name) | Call::Stat(name) | Call::Say(name) => Some(name),
        _ => None,
    }
}

impl Oracle<Event> for Told {
    fn name(&self) -> &'static str {
        "stat"
    }

    fn promise(&self) -> &'static str {
        "a stat tells what the file has while it is asked"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        match event.what {
            What::Calls(call) => {
                self.called(event.request, call, event.at());
                Ok(())
            }
            _ => self.ended(event),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::history::Why;
    use super::*;
    use crate::history::ClientId;

    type Happens = (u64, u32, What);

    /// The events, by their times, clients and kinds, of which the last breaks a promise; none if all is well.
    fn broken(history: &[Happens]) -> Option<usize> {
        let mut told = Told::default();
        let mut observe = |(at, node, what): &Happens| {
            let request = RequestId { client: ClientId { node: *node, index: 0 }, number: *node };
            told.observe(&Event { at_ns: 1_000 * at, request, what: what.clone() }).is_err()
        };
        history.iter().position(&mut observe)
    }

    const FILE: u64 = 9;
    const MADE: [Happens; 2] = [(1, 0, What::Calls(Call::Create(3))), (2, 0, What::Opened(FILE))];
    const WRITES: What =
        What::Calls(Call::Write(Cells { file: FILE, first: 1, cells: 1, rows: 2, stride: 2, bytes: 32 }));
    const SAYS: What = What::Calls(Call::Say(3));
    const ASKS: What = What::Calls(Call::Stat(3));

    fn size(size: u64) -> What {
        What::Told { file: FILE, size, said: None }
    }

    fn by(node: u32) -> What {
        let request = RequestId { client: ClientId { node, index: 0 }, number: node };
        What::Told { file: FILE, size: 0, said: Some(Value::Of(request)) }
    }

    const NOBODY: What = What::Told { file: FILE, size: 0, said: Some(Value::Zero) };

    #[test]
    fn a_size_is_one_that_the_file_had_while_it_was_asked_for() {
        let after = |told| [(3, 1, WRITES), (4, 1, What::Done), (5, 2, ASKS), (6, 2, size(told))];
        assert_eq!(broken(&after(128)), None);
        assert_eq!(broken(&after(96)), Some(3));
        assert_eq!(broken(&after(160)), Some(3));
        let beside = |told| [(3, 2, ASKS), (4, 1, WRITES), (5, 1, What::Done), (6, 2, size(told))];
        assert_eq!(broken(&beside(0)), None);
        assert_eq!(broken(&beside(128)), None);
        assert_eq!(broken(&beside(160)), Some(3));
    }

    #[test]
    fn a_cut_is_seen_by_whoever_asks_after_it() {
        let cut = What::Calls(Call::Truncate(FILE, 1, 32));
        let after = |told| {
            let written = [(3, 1, WRITES), (4, 1, What::Done), (5, 3, cut.clone()), (6, 3, What::Done)];
            [&written[..], &[(7, 2, ASKS), (8, 2, size(told))]].concat()
        };
        assert_eq!(broken(&after(32)), None);
        assert_eq!(broken(&after(128)), Some(5));
    }

    #[test]
    fn attributes_are_those_that_were_said_last() {
        let asked = |before: &[Happens], told| [&MADE[..], before, &[(20, 7, ASKS), (21, 7, told)]].concat();
        let one = [(3, 1, SAYS), (4, 1, What::Done)];
        let both = [&one[..], &[(5, 2, SAYS), (6, 2, What::Done)]].concat();
        assert_eq!(broken(&asked(&[], NOBODY)), None);
        assert_eq!(broken(&asked(&one, by(1))), None);
        assert_eq!(broken(&asked(&one, NOBODY)), Some(5), "it was said");
        assert_eq!(broken(&asked(&one, by(2))), Some(5), "nobody said that");
        assert_eq!(broken(&asked(&both, by(2))), None);
        assert_eq!(broken(&asked(&both, by(1))), Some(7), "something else was said since");
    }

    #[test]
    fn what_failed_may_have_been_said_and_of_which_file_is_known_as_long_as_its_name_stands() {
        let failed = [&MADE[..], &[(3, 1, SAYS), (4, 1, What::Failed(Why::Disk))]].concat();
        for told in [NOBODY, by(1)] {
            assert_eq!(broken(&[&failed[..], &[(5, 7, ASKS), (6, 7, told)]].concat()), None);
        }
        let renamed =
            [&MADE[..], &[(3, 4, What::Calls(Call::Rename(3, 5))), (4, 1, SAYS), (5, 4, What::Done)]]
                .concat();
        let ended = [&renamed[..], &[(6, 1, What::Done), (7, 7, ASKS)]].concat();
        for told in [NOBODY, by(1)] {
            assert_eq!(broken(&[&ended[..], &[(8, 7, told)]].concat()), None, "it may be another file's");
        }
        let said =
            [&MADE[..], &[(3, 1, SAYS), (4, 4, What::Calls(Call::Unlink(3))), (5, 4, What::Done)]].concat();
        let made = [(6, 5, What::Calls(Call::Create(3))), (7, 5, What::Opened(FILE + 1))];
        let asked = [&said[..], &made, &[(8, 1, What::Done), (9, 7, ASKS)]].concat();
        for by in [1, 0] {
            let request = RequestId { client: ClientId { node: by, index: 0 }, number: by };
            let told = What::Told { file: FILE + 1, size: 0, said: Some(Value::Of(request)) };
            let fits = broken(&[&asked[..], &[(10, 7, told)]].concat()).is_none();
            assert_eq!(fits, by == 1, "the name was that of another file meanwhile");
        }
    }
}
