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
use std::collections::HashMap;
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

    /// The line that it is a part of, and its bytes of that, a bit for each.
    fn bits(&self) -> ((Key, usize), u64) {
        let bits = u64::MAX >> (LINE - self.len) << (self.at % LINE);
        ((self.region, self.at / LINE), bits)
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
    ///
    /// It goes from the last write to the first once: a transfer of a megabyte is 16,384 lines.
    #[cold]
    fn show(&mut self, qp: QpNum) {
        let Some(last) = self.hidden.iter().rposition(|hidden| hidden.qp == qp) else { return };
        // The bytes of each line that are seen from now on.
        let mut seen: HashMap<(Key, usize), u64> = HashMap::new();
        let mut kept: Vec<Hidden> = self.hidden.split_off(last + 1);
        kept.reverse();
        for hidden in self.hidden.drain(..).rev() {
            let (line, bits) = hidden.bits();
            if hidden.qp == qp {
                *seen.entry(line).or_default() |= bits;
            } else if let Some(later) = seen.get_mut(&line).filter(|later| **later & bits != 0) {
                *later |= bits;
            } else {
                kept.push(hidden);
            }
        }
        kept.reverse();
        self.hidden = kept;
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
    use crate::choice::{Choice, Seeded};

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

    /// The rule without the bits: a line is shown if it is of the queue pair, or lies under one that is.
    fn shown_one_by_one(hidden: &mut Vec<Hidden>, qp: QpNum) {
        let mut shown: Vec<Hidden> = Vec::new();
        for at in (0..hidden.len()).rev() {
            let line = hidden[at];
            if line.qp == qp || shown.iter().any(|later| line.meets(later.region, later.at, later.len)) {
                shown.push(hidden.remove(at));
            }
        }
    }

    #[test]
    fn what_is_seen_with_a_write_lies_under_it_byte_by_byte() {
        let mut draws = Seeded::new(1);
        let mut draw = |n: u64| draws.pick("test", n);
        let told = |hidden: &[Hidden]| hidden.iter().map(|line| line.old[0]).collect::<Vec<u8>>();
        let (mut shown, mut kept) = (0, 0);
        for _ in 0..2_000 {
            let mut late = Late::default();
            for write in 0..12 {
                let region = Key { index: draw(2) as u32, generation: 0 };
                let len = if draw(4) == 0 { 1 + draw(150) } else { 1 + draw(16) };
                late.hide(QpNum(draw(3) as u32), region, draw(200) as usize, &vec![write; len as usize]);
            }
            let mut one_by_one = late.hidden.clone();
            shown_one_by_one(&mut one_by_one, QpNum(1));
            let before = late.hidden.len();
            late.reveal(QpNum(1));
            assert_eq!(told(&late.hidden), told(&one_by_one));
            (shown, kept) = (shown + before - late.hidden.len(), kept + late.hidden.len());
        }
        assert!(shown > 1_000 && kept > 1_000, "{shown} shown, {kept} kept");
    }

    /// Its lines are shown in one pass, so that a run with bulk transfers takes no more than a few times what it takes without
    /// late memory. By one pass for each line this is 10^10 steps, and takes minutes.
    #[test]
    fn a_large_write_is_shown_in_one_pass() {
        const LINES: usize = 1 << 18;
        let region = Key { index: 0, generation: 0 };
        let mut late = Late::default();
        for qp in [1, 2] {
            late.hide(QpNum(qp), region, (qp as usize - 1) * LINES * LINE, &vec![0; LINES * LINE]);
        }
        let began = std::time::Instant::now();
        late.reveal(QpNum(1));
        assert_eq!(late.hidden.len(), LINES);
        assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
    }
}
