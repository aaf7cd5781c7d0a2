//! Places of appends: each lies behind those that had ended before it began, and no two have a byte in common.
//!
//! A file that is cut in between has its later bytes to give out again. A place is given out, and the file cut, at some time during
//! its call: of two appends, bytes that both have are in order if a cut to no more than where the later one lies may have come between, or
//! a server came back without the bytes that it had.
//!
//! And none lies farther than all that was asked for may have made the file long: each append has one place, also where its home begins anew
//! before it says which.

use super::super::history::{Call, Event, What};
use super::sizes::Extent;
use super::told::extent_of;
use crate::history::{HistoryEvent, RequestId};
use crate::oracle::Oracle;
use std::collections::BTreeMap;
use weft_verbs::Nanos;

/// The place of an append that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    /// Its first byte, and the byte behind it.
    at: u64,
    end: u64,
    /// When the append was called and had ended.
    began: Nanos,
    ended: Nanos,
}

/// A file was cut, or may have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Cut {
    request: RequestId,
    file: u64,
    /// How many cells are left.
    cells: u64,
    began: Nanos,
    /// `MAX` while it may still come.
    ended: Nanos,
}

/// What was asked for of a file, however it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Asked {
    /// Where the farthest write or cut ends.
    written: u64,
    /// Bytes of all appends.
    appended: u64,
}

impl Asked {
    fn calls(&mut self, extent: Extent) {
        match extent {
            Extent::To(end) | Extent::Cut(end) => self.written = self.written.max(end),
            Extent::By(len) => self.appended = self.appended.saturating_add(len),
        }
    }

    /// How long the file may be at most, in whatever order all took effect.
    const fn farthest(self) -> u64 {
        self.written.saturating_add(self.appended)
    }
}

/// The oracle of places.
#[derive(Clone, Debug, Default, Hash)]
pub struct Places {
    /// A cut may come after its call has failed, since its home may live on: by byte streams.
    pub(super) late: bool,
    /// Appends and cuts that are under way, and when they began.
    open: BTreeMap<RequestId, (Nanos, Call)>,
    /// Cuts that those may meet.
    cuts: Vec<Cut>,
    /// When a server came back last that knows nothing of the bytes it had: files are as long as others' bytes reach.
    forgotten: Nanos,
    /// Places by file and first byte, as far as they cannot have been given out again. They have no byte in common.
    given: BTreeMap<(u64, u64), Place>,
    /// Bytes of a cell, once something is appended.
    bytes: u64,
    /// By file.
    asked: BTreeMap<u64, Asked>,
}

impl Places {
    /// Whether a file may be so long.
    fn reaches(&self, file: u64, end: u64) -> Result<(), String> {
        let farthest = self.asked.get(&file).map_or(0, |asked| asked.farthest());
        match end <= farthest {
            true => Ok(()),
            false => Err(format!("it ends at byte {end}, and all that was asked for at {farthest} at most")),
        }
    }

    fn appended(&mut self, file: u64, mut new: Place) -> Result<(), String> {
        // Of those that begin before it, only the last can reach into it.
        let last = self.given.range((file, 0)..(file, new.at)).next_back();
        let behind = self.given.range((file, new.at)..=(file, u64::MAX));
        let met: Vec<_> = last.into_iter().chain(behind).map(|(key, place)| (*key, *place)).collect();
        for (key, old) in met {
            let common = old.at < new.end && new.at < old.end;
            if !common && (old.ended >= new.began || old.end <= new.at) {
                continue;
            }
            let (old_first, new_first) =
                (self.between(file, &old, &new), common && self.between(file, &new, &old));
            if !old_first && !new_first {
                return Err(format!(
                    "it lies from byte {}, and another append from {} to {}",
                    new.at, old.at, old.end
                ));
            }
            if old_first {
                self.end_at(key, new.at);
            }
            if new_first {
                new.end = new.end.min(old.at);
            }
        }
        if new.at < new.end {
            self.given.insert((file, new.at), new);
        }
        Ok(())
    }

    /// Whether between two appends a file may have been cut, to where the second one lies or before, or a server may have come back
    /// that forgot its bytes.
    fn between(&self, file: u64, first: &Place, second: &Place) -> bool {
        if self.forgotten > first.began && self.forgotten < second.ended {
            return true;
        }
        self.cuts.iter().filter(|cut| cut.file == file).any(|cut| {
            cut.cells * self.bytes <= second.at && cut.ended > first.began && cut.began < second.ended
        })
    }

    /// What of a place lies behind a byte may have been given out again.
    fn end_at(&mut self, key: (u64, u64), end: u64) {
        let Some(place) = self.given.get_mut(&key) else { return };
        place.end = place.end.min(end);
        if place.end <= place.at {
            self.given.remove(&key);
        }
    }

    /// Forgets cuts that no call can meet any more, with what they have made free.
    fn settle(&mut self, now: Nanos) {
        let oldest = self.open.values().map(|(began, _)| *began).min().unwrap_or(now);
        let (met, over) =
            std::mem::take(&mut self.cuts).into_iter().partition(|cut: &Cut| cut.ended >= oldest);
        self.cuts = met;
        for cut in over {
            let of_file = self.given.range((cut.file, 0)..=(cut.file, u64::MAX));
            let before = of_file.filter(|(_, place)| place.began < cut.ended);
            for key in before.map(|(key, _)| *key).collect::<Vec<_>>() {
                self.end_at(key, cut.cells * self.bytes);
            }
        }
    }

    fn ended(&mut self, event: &Event) -> Result<(), String> {
        let Some((began, call)) = self.open.remove(&event.request) else { return Ok(()) };
        let ended = event.at();
        let judged = match (call, &event.what) {
            (Call::Append(file, cells, bytes), What::At(at)) => {
                self.bytes = bytes.into();
                let end = at + u64::from(cells) * self.bytes;
                let reaches = self.reaches(file, end);
                self.appended(file, Place { at: *at, end, began, ended }).and(reaches)
            }
            (Call::Truncate(..), what) if *what == What::Done || !(self.late || *what == What::Dropped) => {
                let cut = self.cuts.iter_mut().find(|cut| cut.request == event.request);
                cut.into_iter().for_each(|cut| cut.ended = ended);
                Ok(())
            }
            _ => Ok(()),
        };
        self.settle(ended);
        judged.map_err(|why| format!("{event}: {why}"))
    }

    /// A node has crashed and is there again: its clients' calls never end, and what a home had been asked is not done any more.
    /// `all_gone`: nothing that it had survives.
    pub(super) fn restarted(&mut self, node: u32, is_home: bool, all_gone: bool, at: Nanos) {
        if all_gone {
            self.forgotten = at;
        }
        self.open.retain(|request, _| request.client.node != node);
        if is_home {
            let open = &self.open;
            let forgotten = self.cuts.iter_mut().filter(|cut| !open.contains_key(&cut.request));
            forgotten.for_each(|cut| cut.ended = cut.ended.min(at));
        }
        self.settle(at);
    }
}

impl Oracle<Event> for Places {
    fn name(&self) -> &'static str {
        "places"
    }

    fn promise(&self) -> &'static str {
        "appends lie behind earlier ones, and share no byte"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        let What::Calls(call) = event.what else { return self.ended(event) };
        let (request, began) = (event.request, event.at());
        if let Some((file, extent)) = extent_of(call) {
            self.asked.entry(file).or_default().calls(extent);
        }
        if let Call::Truncate(file, cells, _) = call {
            self.cuts.push(Cut { request, file, cells, began, ended: Nanos::MAX });
        }
        if let Call::Append(..) | Call::Truncate(..) = call {
            self.open.insert(request, (began, call));
        }
        Ok(())
    }
}
