//! What a call moves between a file and memory, and which of it is one server's.

use super::Distribution;
use super::datatype::View;
use std::iter::Peekable;
use std::ops::Range;

/// Pieces of a unit, at most: what is posted and called for one place in staging.
pub(super) const PIECES: usize = 64;

/// Bytes of a file and of memory, which go together in the order of the data.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Access {
    pub file: View,
    pub memory: View,
    /// Which of the data are meant: the file's and the memory's, from their beginnings on.
    pub file_from: u64,
    pub memory_from: u64,
    pub len: u64,
}

/// Bytes that lie together in an object and in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Piece {
    /// Its first byte among the access's data.
    pub data: u64,
    /// In memory.
    pub memory: u64,
    /// In the object.
    pub physical: u64,
    /// How many bytes.
    pub len: u32,
}

/// Bytes one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Run {
    pub at: u64,
    pub len: u32,
}

impl Run {
    pub(super) fn range(self) -> Range<u64> {
        self.at..self.at + u64::from(self.len)
    }
}

impl Access {
    /// All of a file's view from or to all of a memory's.
    pub(super) fn whole(file: &View, memory: &View) -> Access {
        let len = file.len();
        Access { file: file.clone(), memory: memory.clone(), file_from: 0, memory_from: 0, len }
    }

    /// A file's view, and memory in which its data lie together.
    pub(super) fn packed(file: View, file_from: u64, len: u64) -> Option<Access> {
        Some(Access { file, memory: View::of(0..len)?, file_from, memory_from: 0, len })
    }

    /// Some of its data.
    pub(super) fn window(&self, data: &Range<u64>) -> Access {
        let of = |from: u64| from + data.start..from + data.end;
        let (file, file_from) = self.file.cut(&of(self.file_from));
        let (memory, memory_from) = self.memory.cut(&of(self.memory_from));
        Access { file, memory, file_from, memory_from, len: data.end - data.start }
    }

    /// Ranges of its data in which each list has at most so many regions. Types are no lists, and travel whole.
    pub(super) fn windows(&self, regions: usize) -> Vec<Range<u64>> {
        if !self.file.is_list() && !self.memory.is_list() {
            return std::iter::once(0..self.len).collect();
        }
        let (mut all, mut start, mut at, mut count) = (Vec::new(), 0, 0, 0);
        while at < self.len {
            let (file, memory) =
                (self.file.run_at(self.file_from + at).1, self.memory.run_at(self.memory_from + at).1);
            at = (at + file.min(memory).max(1)).min(self.len);
            count += 1;
            if count == regions || at == self.len {
                all.push(start..at);
                (start, count) = (at, 0);
            }
        }
        all
    }

    /// How many of its data lie below a position of the file.
    pub(super) fn below(&self, end: u64) -> u64 {
        let (mut at, mut below) = (0, 0);
        while at < self.len {
            let (offset, run) = self.file.run_at(self.file_from + at);
            let run = run.min(self.len - at).max(1);
            below += end.saturating_sub(offset).min(run);
            at += run;
        }
        below
    }

    /// The pieces of a part, in the order of the data, none longer than `most` bytes nor across a multiple of `most` in the
    /// object.
    pub(super) fn pieces(&self, layout: Distribution, part: u16, most: u32) -> Pieces {
        Pieces { access: self.clone(), layout, part, most: most.max(1), at: 0 }
    }
}

/// The pieces of a part; see [`Access::pieces`]. Made one by one: a request of short strips has many.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pieces {
    access: Access,
    layout: Distribution,
    part: u16,
    most: u32,
    at: u64,
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let Access { file, memory, file_from, memory_from, len } = &self.access;
        let (strip, most) = (u64::from(self.layout.strip()), u64::from(self.most));
        while self.at < *len {
            let data = self.at;
            let (logical, run) = file.run_at(file_from + data);
            let (owner, physical) = self.layout.locate(logical);
            let run = run.min(strip - logical % strip).min(len - data).max(1);
            if owner != self.part {
                self.at += run;
                continue;
            }
            let (memory, together) = memory.run_at(memory_from + data);
            let run = run.min(together).min(most - physical % most).max(1);
            self.at += run;
            return Some(Piece { data, memory, physical, len: run as u32 });
        }
        None
    }
}

/// What is staged in one place and takes effect whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Unit {
    /// Where its bytes lie in the object, in the order of the data.
    pub object: Vec<Run>,
    /// Where they lie in memory.
    pub memory: Vec<Run>,
    /// All its bytes.
    pub len: u32,
}

impl Unit {
    /// Takes the next unit of pieces, of at most so many bytes.
    pub(super) fn take(pieces: &mut Peekable<Pieces>, most: u32) -> Option<Unit> {
        let mut unit = Unit::default();
        let mut count = 0;
        while let Some(piece) = pieces.next_if(|piece| count < PIECES && piece.len <= most - unit.len) {
            unit.add(piece);
            count += 1;
        }
        (unit.len > 0).then_some(unit)
    }

    fn add(&mut self, piece: Piece) {
        together(&mut self.object, piece.physical, piece.len);
        together(&mut self.memory, piece.memory, piece.len);
        self.len += piece.len;
    }

    /// All pieces as one unit, if they have at most so many bytes and are no more than a unit may have.
    pub(super) fn all(pieces: Pieces, most: u32) -> Option<Unit> {
        let mut pieces = pieces.peekable();
        let unit = Unit::take(&mut pieces, most)?;
        pieces.peek().is_none().then_some(unit)
    }
}

fn together(runs: &mut Vec<Run>, at: u64, len: u32) {
    match runs.last_mut() {
        Some(last) if last.at + u64::from(last.len) == at => last.len += len,
        _ => runs.push(Run { at, len }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::datatype::tests::types;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn offsets(view: &View, from: u64, len: u64) -> Vec<u64> {
        (from..from + len).map(|at| view.run_at(at).0).collect()
    }

    proptest! {
        #[test]
        fn the_pieces_of_all_parts_are_the_data_and_each_byte_once(
            (file, _) in types(), (memory, _) in types(),
            strip in 1..40_u32, servers in 1..4_u16, most in 1..50_u32, start in 0..50_u64,
        ) {
            let layout = Distribution::stripe(strip, servers, 0).unwrap();
            let len = file.len().min(memory.len()).saturating_sub(start);
            let (file, memory) = (View::new(3, file).unwrap(), View::new(0, memory).unwrap());
            let access = Access { file, memory, file_from: start, memory_from: 0, len };
            let (logical, memory) = (offsets(&access.file, start, len), offsets(&access.memory, 0, len));
            let mut seen = BTreeSet::new();
            for part in 0..servers {
                for piece in access.pieces(layout, part, most) {
                    prop_assert!(piece.physical / u64::from(most) == (piece.physical + u64::from(piece.len) - 1) / u64::from(most));
                    for nth in 0..u64::from(piece.len) {
                        let at = (piece.data + nth) as usize;
                        prop_assert!(seen.insert(at));
                        prop_assert_eq!(layout.locate(logical[at]), (part, piece.physical + nth));
                        prop_assert_eq!(memory[at], piece.memory + nth);
                    }
                }
            }
            prop_assert_eq!(seen.len() as u64, len);
        }

        #[test]
        fn windows_are_the_access_in_parts((file, _) in types(), (memory, _) in types(), regions in 1..5_usize) {
            let len = file.len().min(memory.len());
            let (file, memory) = (View::new(5, file).unwrap(), View::new(9, memory).unwrap());
            let access = Access { file, memory, file_from: 0, memory_from: 0, len };
            let mut all = (Vec::new(), Vec::new());
            for window in access.windows(regions) {
                let part = access.window(&window);
                all.0.extend(offsets(&part.file, part.file_from, part.len));
                all.1.extend(offsets(&part.memory, part.memory_from, part.len));
            }
            prop_assert_eq!(all, (offsets(&access.file, 0, len), offsets(&access.memory, 0, len)));
        }

        #[test]
        fn units_are_the_pieces_and_no_longer_than_they_may_be((file, _) in types(), strip in 1..40_u32, most in 1..50_u32) {
            let layout = Distribution::stripe(strip, 2, 0).unwrap();
            let len = file.len();
            let access = Access::packed(View::new(0, file).unwrap(), 0, len).unwrap();
            let spread = |runs: &[Run]| runs.iter().flat_map(|run| run.range()).collect::<Vec<_>>();
            let mut pieces = access.pieces(layout, 1, most).peekable();
            let (mut object, mut memory) = (Vec::new(), Vec::new());
            while let Some(unit) = Unit::take(&mut pieces, most) {
                prop_assert!(unit.len <= most);
                object.extend(spread(&unit.object));
                memory.extend(spread(&unit.memory));
            }
            let (mut physical, mut packed) = (Vec::new(), Vec::new());
            for piece in access.pieces(layout, 1, most) {
                physical.extend(piece.physical..piece.physical + u64::from(piece.len));
                packed.extend(piece.memory..piece.memory + u64::from(piece.len));
            }
            prop_assert_eq!((object, memory), (physical, packed));
        }
    }

    #[test]
    fn what_lies_below_the_end_of_a_file_is_counted_in_the_datas_order() {
        let file =
            View::new(0, super::super::Datatype::regions([(100, 10), (0, 10), (50, 10)]).unwrap()).unwrap();
        let access = Access::packed(file, 0, 30).unwrap();
        assert_eq!((access.below(55), access.below(0), access.below(1_000)), (15, 0, 30));
    }
}
