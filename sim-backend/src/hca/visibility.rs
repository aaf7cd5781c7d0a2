//! When the processor sees what an adapter has written (IBA 9.5, o9-20 and its neighbours).
//!
//! An adapter acknowledges data that it has handed to the host, and the host's processor may see it later, and a part
//! of it before another. What a program can rely on is a **completion**: with it, all that was written before by the same
//! queue pair is there. So it is with the result of a later atomic of that queue pair, and with the completion of a request by a queue pair of the same
//! adapter that is connected to it: the host's bus keeps the order of one device's posted writes (PCI Express, 2.4.1), unless a region
//! is registered for relaxed ordering, which the trait has no flag for. Adapters see what adapters wrote.
//!
//! The bytes themselves are in memory at once. What is kept here is what the processor still sees in their place, for
//! each line of the memory that an operation wrote, until a moment that the world draws for it.

use super::Key;
use weft_verbs::{Nanos, QpNum};

/// Bytes that become visible together: words are never torn.
const LINE: usize = 64;

/// A line's part that the processor does not see yet.
#[derive(Clone, Copy, Debug)]
struct Hidden {
    qp: QpNum,
    region: Key,
    at: usize,
    len: usize,
    /// What the processor sees instead.
    old: [u8; LINE],
    /// Until when; `MAX` before it was drawn.
    until: Nanos,
}

impl Hidden {
    fn meets(&self, region: Key, at: usize, len: usize) -> bool {
        self.region == region && self.at < at + len && at < self.at + self.len
    }
}

/// What an adapter wrote and the processor does not see, in the order of writing.
#[derive(Clone, Debug, Default)]
pub struct Late {
    /// Whether anything is ever hidden.
    pub on: bool,
    hidden: Vec<Hidden>,
}

impl Late {
    /// A queue pair is about to write over these bytes of a region.
    #[cold]
    pub(super) fn hide(&mut self, qp: QpNum, region: Key, at: usize, before: &[u8]) {
        let mut done = 0;
        while done < before.len() {
            let len = (LINE - (at + done) % LINE).min(before.len() - done);
            let mut old = [0; LINE];
            old[..len].copy_from_slice(&before[done..done + len]);
            self.hidden.push(Hidden { qp, region, at: at + done, len, old, until: Nanos::MAX });
            done += len;
        }
    }

    /// Draws until when each line that was written since the last time stays hidden.
    #[cold]
    pub(crate) fn draw(&mut self, now: Nanos, mut late: impl FnMut() -> Nanos) {
        self.hidden.retain(|hidden| hidden.until > now);
        let fresh = self.hidden.partition_point(|hidden| hidden.until < Nanos::MAX);
        for hidden in &mut self.hidden[fresh..] {
            hidden.until = now + late();
        }
        self.hidden.retain(|hidden| hidden.until > now);
    }

    /// Whether there is something to [draw](Late::draw) for.
    #[inline]
    pub(crate) fn has_fresh(&self) -> bool {
        self.hidden.last().is_some_and(|hidden| hidden.until == Nanos::MAX)
    }

    /// Everything that a queue pair wrote is seen.
    #[inline]
    pub(super) fn reveal(&mut self, qp: QpNum) {
        if !self.hidden.is_empty() {
            self.show(qp);
        }
    }

    /// What others had written to the same bytes before is seen with it: no memory shows a write and then what it was written over.
    #[cold]
    fn show(&mut self, qp: QpNum) {
        let mut shown: Vec<Hidden> = Vec::new();
        for at in (0..self.hidden.len()).rev() {
            let hidden = self.hidden[at];
            let under = |later: &Hidden| hidden.meets(later.region, later.at, later.len);
            if hidden.qp == qp || shown.iter().any(under) {
                shown.push(hidden);
                self.hidden.remove(at);
            }
        }
    }

    /// The processor looks at bytes of a region: puts in what it sees at this moment.
    #[inline]
    pub(crate) fn mask(&self, region: Key, at: usize, seen: &mut [u8], now: Nanos) {
        if !self.hidden.is_empty() {
            self.put_back(region, at, seen, now);
        }
    }

    #[cold]
    fn put_back(&self, region: Key, at: usize, seen: &mut [u8], now: Nanos) {
        // The last write first, so that what was there before the first hidden one comes out on top: of several writes
        // to the same bytes none is seen before an earlier one.
        for hidden in self.hidden.iter().rev().filter(|hidden| hidden.until > now) {
            if hidden.meets(region, at, seen.len()) {
                let (from, to) = (hidden.at.max(at), (hidden.at + hidden.len).min(at + seen.len()));
                seen[from - at..to - at].copy_from_slice(&hidden.old[from - hidden.at..to - hidden.at]);
            }
        }
    }

    /// The processor writes to bytes of a region itself, or claims them: nothing about them is hidden any more.
    #[inline]
    pub(crate) fn overwrite(&mut self, region: Key, at: usize, len: usize) {
        if !self.hidden.is_empty() {
            self.hidden.retain(|hidden| !hidden.meets(region, at, len));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two peers write the same word in turn; the second one's completion is looked at first.
    #[test]
    fn a_write_that_is_seen_hides_nothing_that_was_written_under_it() {
        let (region, now) = (Key { index: 0, generation: 0 }, Nanos(5));
        let mut late = Late { on: true, ..Late::default() };
        late.hide(QpNum(1), region, 0, &[0; 8]);
        late.hide(QpNum(1), region, 64, &[0; 8]);
        late.hide(QpNum(2), region, 0, &[7; 8]);
        late.draw(now, || Nanos(100));
        late.reveal(QpNum(2));
        let seen = |at| {
            let mut seen = [9; 8];
            late.mask(region, at, &mut seen, now);
            seen
        };
        assert_eq!((seen(0), seen(64)), ([9; 8], [0; 8]));
    }
}
