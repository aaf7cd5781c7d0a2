//! How long a file may be: bounds, by the calls that make it longer or cut it.
//!
//! A call takes effect at some moment between its begin and its end; one of which nobody knows the outcome, at any moment from its begin
//! on, or never. So a file is at most as long as all that were begun may have made it, and at least as long as those that ended have left
//! it, if no cut is under way.

use super::cells::Survival;
use crate::history::RequestId;
use std::collections::BTreeMap;

/// What a call does to a file's length, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Extent {
    /// It is at least so long afterwards.
    To(u64),
    /// It is longer by so much, from wherever it ended.
    By(u64),
    /// It is so long.
    Cut(u64),
}

/// A call under way, or one of which nobody knows what it did.
#[derive(Clone, Debug, Hash)]
struct Change {
    extent: Extent,
    /// The farthest end that calls beside it may give the file.
    farthest: u64,
    /// The shortest that a cut beside it may leave.
    shortest: Option<u64>,
    /// An append was beside it, which may have had its place before.
    beside_append: bool,
    /// A server has crashed since it began that loses what it answered.
    shaken: bool,
}

impl Change {
    fn new(extent: Extent) -> Change {
        Change { extent, farthest: 0, shortest: None, beside_append: false, shaken: false }
    }

    fn meets(&mut self, other: Extent) {
        match other {
            Extent::To(end) => self.farthest = self.farthest.max(end),
            Extent::By(_) => self.beside_append = true,
            Extent::Cut(size) => {
                self.farthest = self.farthest.max(size);
                self.shortest = Some(self.shortest.map_or(size, |shortest| shortest.min(size)));
            }
        }
    }
}

/// Bounds of a length, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Bounds {
    pub(super) least: u64,
    pub(super) most: u64,
}

impl Bounds {
    /// Wide enough for both.
    pub(super) fn with(self, other: Bounds) -> Bounds {
        Bounds { least: self.least.min(other.least), most: self.most.max(other.most) }
    }
}

/// What is known of a file's length. It is made with none.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct FileSize {
    /// By what has ended.
    least: u64,
    /// By what has ended.
    most: u64,
    /// How far any append has ever reached. Places that a home gave out are not given out again, though the file is cut.
    placed: u64,
    open: BTreeMap<RequestId, Change>,
}

impl FileSize {
    /// How long it may be now. Of several servers each cuts its part at a moment of its own: until all have, who asks them one after the other
    /// may be told anything that is shorter.
    pub(super) fn bounds(&self, spread: bool) -> Bounds {
        let (mut bounds, mut appended) = (Bounds { least: self.least, most: self.most }, 0_u64);
        for change in self.open.values() {
            match change.extent {
                Extent::To(end) => bounds.most = bounds.most.max(end),
                Extent::By(len) => appended = appended.saturating_add(len),
                Extent::Cut(size) => {
                    let least = if spread { 0 } else { size };
                    bounds = bounds.with(Bounds { least, most: size });
                }
            }
        }
        if appended > 0 {
            bounds.most = bounds.most.max(self.placed);
        }
        Bounds { most: bounds.most.saturating_add(appended), ..bounds }
    }

    /// A call begins.
    pub(super) fn begins(&mut self, request: RequestId, extent: Extent) {
        let mut change = Change::new(extent);
        for other in self.open.values_mut() {
            change.meets(other.extent);
            other.meets(extent);
        }
        self.open.insert(request, change);
    }

    /// A call has taken effect: an append at this place.
    pub(super) fn ends(&mut self, request: RequestId, place: Option<u64>) {
        let Some(change) = self.open.remove(&request) else { return };
        match (change.extent, place) {
            (Extent::Cut(size), _) => {
                // Whoever was beside it may have been before or after.
                let most = change.farthest.max(size);
                self.most = if change.beside_append { most.max(self.most) } else { most };
                self.least = change.shortest.map_or(size, |shortest| shortest.min(size));
            }
            (Extent::To(end), _) => self.reaches(&change, end),
            (Extent::By(len), Some(at)) => {
                self.placed = self.placed.max(at + len);
                self.reaches(&change, at + len);
            }
            (Extent::By(_), None) => {}
        }
    }

    fn reaches(&mut self, change: &Change, end: u64) {
        self.most = self.most.max(end);
        if change.shortest.is_none() && !change.shaken {
            self.least = self.least.max(end);
        }
    }

    /// A server has crashed. What it had answered may be gone, unless that survives.
    pub(super) fn crashed(&mut self, survival: Survival) {
        if survival != Survival::Answered {
            self.least = 0;
            self.open.values_mut().for_each(|change| change.shaken = true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::ClientId;

    fn request(number: u32) -> RequestId {
        RequestId { client: ClientId { node: 0, index: 0 }, number }
    }

    fn known(least: u64, most: u64) -> Bounds {
        Bounds { least, most }
    }

    #[test]
    fn who_writes_and_is_answered_has_the_file_as_long_as_that() {
        let mut size = FileSize::default();
        size.begins(request(1), Extent::To(64));
        assert_eq!(size.bounds(false), known(0, 64));
        size.ends(request(1), None);
        assert_eq!(size.bounds(false), known(64, 64));
        size.begins(request(2), Extent::By(32));
        assert_eq!(size.bounds(false), known(64, 96));
        size.ends(request(2), Some(64));
        size.begins(request(3), Extent::Cut(16));
        assert_eq!(size.bounds(false), known(16, 96));
        size.ends(request(3), None);
        assert_eq!(size.bounds(false), known(16, 16));
    }

    #[test]
    fn a_cut_beside_a_write_may_be_before_or_after_it() {
        let mut size = FileSize::default();
        size.begins(request(1), Extent::To(64));
        size.begins(request(2), Extent::Cut(16));
        size.ends(request(1), None);
        size.ends(request(2), None);
        assert_eq!(size.bounds(false), known(16, 64));
    }

    #[test]
    fn an_append_beside_a_cut_may_lie_where_the_file_ended_before() {
        let mut size = FileSize::default();
        size.begins(request(1), Extent::To(64));
        size.ends(request(1), None);
        size.begins(request(2), Extent::By(32));
        size.begins(request(3), Extent::Cut(0));
        size.ends(request(3), None);
        assert_eq!(size.bounds(false), known(0, 96));
        size.ends(request(2), Some(64));
        assert_eq!(size.bounds(false), known(0, 96));
    }

    #[test]
    fn an_append_may_lie_where_one_before_a_cut_has_ended() {
        let mut size = FileSize::default();
        size.begins(request(1), Extent::By(64));
        size.ends(request(1), Some(0));
        size.begins(request(2), Extent::Cut(0));
        assert_eq!(size.bounds(true), known(0, 64));
        size.ends(request(2), None);
        assert_eq!(size.bounds(false), known(0, 0));
        size.begins(request(3), Extent::By(32));
        assert_eq!(size.bounds(false), known(0, 96));
    }

    #[test]
    fn a_call_of_which_nobody_knows_may_take_effect_for_ever() {
        let mut size = FileSize::default();
        size.begins(request(1), Extent::To(64));
        size.begins(request(2), Extent::Cut(16));
        size.ends(request(2), None);
        assert_eq!(size.bounds(false), known(16, 64));
        size.begins(request(3), Extent::Cut(8));
        size.ends(request(3), None);
        assert_eq!(size.bounds(false), known(8, 64));
    }

    #[test]
    fn what_a_crash_may_take_back_is_no_longer_counted_on() {
        let mut size = FileSize::default();
        size.begins(request(1), Extent::To(64));
        size.ends(request(1), None);
        size.begins(request(2), Extent::To(96));
        size.crashed(Survival::Answered);
        assert_eq!(size.bounds(false), known(64, 96));
        size.crashed(Survival::Synced);
        size.ends(request(2), None);
        assert_eq!(size.bounds(false), known(0, 96));
    }
}
