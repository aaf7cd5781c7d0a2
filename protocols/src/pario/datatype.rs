//! Which bytes of a file, or of memory, a call is about: nested descriptions, as MPI's datatypes are.
//!
//! A type names bytes by their offsets, in the order of the **data**: its first byte is the call's first byte. It is a chain of
//! steps that ends in bytes or in a list of regions, and is never unrolled: where the n-th byte of the data lies is arithmetic
//! ([`Datatype::run_at`]), so a type of a billion regions takes no more room, in memory or in a request, than its steps.

use crate::bytes::Reader;
use std::ops::Range;
use std::rc::Rc;

/// Steps of a type, at most.
const DEPTH: u32 = 16;

/// No byte of a type lies behind this.
const END: u64 = 1 << 63;

/// How the bytes of a type lie.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// So many, one behind the other.
    Bytes,
    /// So many blocks, each `stride` bytes behind the one before.
    Vector { stride: u64, of: Rc<Datatype> },
    /// Blocks at these offsets.
    Indexed { offsets: Vec<u64>, of: Rc<Datatype> },
    /// Regions: an offset, a length, and how many bytes of the data lie before it.
    Regions(Vec<(u64, u32, u64)>),
}

/// A description of bytes. It cannot be changed, and what it says of itself holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Datatype {
    kind: Kind,
    /// Bytes of the data.
    len: u64,
    /// The first offset behind all of them.
    end: u64,
    /// The length of its shortest region.
    shortest: u64,
    depth: u32,
}

impl Datatype {
    /// So many bytes, one behind the other. `None` beyond 2^63.
    pub fn bytes(len: u64) -> Option<Datatype> {
        (len <= END).then_some(Datatype { kind: Kind::Bytes, len, end: len, shortest: len, depth: 0 })
    }

    /// `count` blocks, each `stride` bytes behind the one before. `None` if that is too deep, or reaches beyond 2^63.
    pub fn vector(count: u64, stride: u64, of: Datatype) -> Option<Datatype> {
        let len = of.len.checked_mul(count)?;
        // Blocks without a gap are bytes, and so are none.
        if len == 0 || of.kind == Kind::Bytes && (stride == of.len || count == 1) {
            return Datatype::bytes(len);
        }
        let last = stride.checked_mul(count.saturating_sub(1))?.checked_add(of.end)?;
        Datatype {
            len,
            end: last,
            shortest: of.shortest,
            depth: of.depth + 1,
            kind: Kind::Vector { stride, of: of.into() },
        }
        .checked()
    }

    /// Blocks at these offsets, in this order. `None` if that is too deep, or reaches beyond 2^63.
    pub fn indexed(offsets: Vec<u64>, of: Datatype) -> Option<Datatype> {
        let len = of.len.checked_mul(offsets.len() as u64)?;
        let end = offsets.iter().max().map_or(Some(0), |last| last.checked_add(of.end))?;
        let (shortest, depth) = (of.shortest, of.depth + 1);
        Datatype { len, end, shortest, depth, kind: Kind::Indexed { offsets, of: of.into() } }.checked()
    }

    /// Regions of an offset and a length each, in this order; those without bytes are left out. `None` beyond 2^63.
    pub fn regions(regions: impl IntoIterator<Item = (u64, u32)>) -> Option<Datatype> {
        let (mut all, mut len, mut end, mut shortest) = (Vec::new(), 0_u64, 0, u64::MAX);
        for (at, bytes) in regions.into_iter().filter(|(_, bytes)| *bytes > 0) {
            all.push((at, bytes, len));
            len = len.checked_add(bytes.into())?;
            end = at.checked_add(bytes.into())?.max(end);
            shortest = shortest.min(bytes.into());
        }
        Datatype { kind: Kind::Regions(all), len, end, shortest, depth: 0 }.checked()
    }

    /// A part of an array: an array of `sizes` elements in each dimension, the last one dense, of which `subsizes` are meant from
    /// `starts` on. `None` where the part sticks out, or reaches beyond 2^63.
    pub fn subarray(sizes: &[u64], subsizes: &[u64], starts: &[u64], element: u64) -> Option<Datatype> {
        let dimensions = sizes.iter().zip(subsizes).zip(starts).rev();
        let mut part = Datatype::bytes(element)?;
        let (mut stride, mut first) = (element, 0_u64);
        for ((size, subsize), start) in dimensions {
            start.checked_add(*subsize).filter(|end| end <= size)?;
            part = Datatype::vector(*subsize, stride, part)?;
            first = first.checked_add(start.checked_mul(stride)?)?;
            stride = stride.checked_mul(*size)?;
        }
        (sizes.len() == subsizes.len() && sizes.len() == starts.len()).then_some(())?;
        Datatype::indexed(vec![first], part)
    }

    fn checked(self) -> Option<Datatype> {
        (self.depth <= DEPTH && self.end <= END && self.len <= END).then_some(self)
    }

    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first offset behind all of its bytes.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// How many regions there are among so many bytes of the data that follow each other, at most.
    pub(super) fn most_regions(&self, bytes: u64) -> u64 {
        let by_steps = match &self.kind {
            Kind::Bytes => 1,
            Kind::Regions(regions) => regions.len() as u64,
            Kind::Vector { of, .. } | Kind::Indexed { of, .. } => {
                let blocks = bytes / of.len.max(1) + 2;
                blocks.saturating_mul(of.most_regions(bytes.min(of.len)))
            }
        };
        // One short region among long ones makes this a bad bound, and a part of a block makes the other one a bad bound.
        by_steps.min(bytes / self.shortest.max(1) + 2)
    }

    /// Where a byte of the data lies, and how many bytes from it on lie together. `at` is below [`Datatype::len`].
    pub fn run_at(&self, at: u64) -> (u64, u64) {
        match &self.kind {
            Kind::Bytes => (at, self.len.saturating_sub(at)),
            Kind::Vector { stride, of } => {
                let (offset, run) = of.run_at(at % of.len.max(1));
                (at / of.len.max(1) * stride + offset, run)
            }
            Kind::Indexed { offsets, of } => {
                let block = offsets.get((at / of.len.max(1)) as usize).copied().unwrap_or_default();
                let (offset, run) = of.run_at(at % of.len.max(1));
                (block + offset, run)
            }
            Kind::Regions(regions) => {
                let nth = regions.partition_point(|(_, _, before)| *before <= at).saturating_sub(1);
                let Some((offset, len, before)) = regions.get(nth) else { return (0, 0) };
                (offset + (at - before), before + u64::from(*len) - at)
            }
        }
    }

    /// Bytes in a message.
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        match &self.kind {
            Kind::Bytes => {
                to.push(0);
                to.extend(self.len.to_le_bytes());
            }
            Kind::Vector { stride, of } => {
                to.push(1);
                to.extend((self.len / of.len.max(1)).to_le_bytes());
                to.extend(stride.to_le_bytes());
                of.encode(to);
            }
            Kind::Indexed { offsets, of } => {
                to.push(2);
                to.extend((offsets.len() as u32).to_le_bytes());
                offsets.iter().for_each(|offset| to.extend(offset.to_le_bytes()));
                of.encode(to);
            }
            Kind::Regions(regions) => {
                to.push(3);
                to.extend((regions.len() as u32).to_le_bytes());
                for (offset, len, _) in regions {
                    to.extend(offset.to_le_bytes());
                    to.extend(len.to_le_bytes());
                }
            }
        }
    }

    /// Reads a type from the beginning of bytes. A list is not longer than its bytes, and a chain not deeper than may be.
    pub(super) fn decode(from: &mut Reader<'_>) -> Option<Datatype> {
        Datatype::decode_within(from, DEPTH)
    }

    fn decode_within(from: &mut Reader<'_>, deeper: u32) -> Option<Datatype> {
        let inner = |from: &mut Reader<'_>| Datatype::decode_within(from, deeper.checked_sub(1)?);
        match from.u8()? {
            0 => Datatype::bytes(from.u64()?),
            1 => {
                let (count, stride) = (from.u64()?, from.u64()?);
                Datatype::vector(count, stride, inner(from)?)
            }
            2 => {
                let offsets = from.list(8, |from| from.u64())?;
                Datatype::indexed(offsets, inner(from)?)
            }
            3 => Datatype::regions(from.list(12, |from| Some((from.u64()?, from.u32()?)))?),
            _ => None,
        }
    }
}

/// A type from some byte on: of a file, or of a buffer. Clones are cheap.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    at: u64,
    of: Rc<Datatype>,
}

impl View {
    /// A type whose offsets count from byte `at` on. `None` where it reaches beyond 2^63.
    pub fn new(at: u64, of: Datatype) -> Option<View> {
        at.checked_add(of.end).filter(|end| *end <= END)?;
        Some(View { at, of: of.into() })
    }

    /// Bytes one behind the other.
    pub fn of(range: Range<u64>) -> Option<View> {
        View::new(range.start, Datatype::bytes(range.end.checked_sub(range.start)?)?)
    }

    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        self.of.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first byte behind all of them.
    pub fn end(&self) -> u64 {
        self.at + self.of.end
    }

    /// Where a byte of the data lies, and how many from it on lie together.
    pub(super) fn run_at(&self, at: u64) -> (u64, u64) {
        let (offset, run) = self.of.run_at(at);
        (self.at + offset, run)
    }

    /// How many regions there are among so many bytes of the data, at most.
    pub(super) fn most_regions(&self, bytes: u64) -> u64 {
        self.of.most_regions(bytes)
    }

    /// Whether it is a list of regions, of which only some need to travel.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.of.kind, Kind::Regions(_))
    }

    /// The view of some bytes of the data, and where they are then among its data: what travels is no longer than it must be.
    pub(super) fn cut(&self, data: &Range<u64>) -> (View, u64) {
        match &self.of.kind {
            Kind::Bytes => {
                let of =
                    Datatype { len: data.end - data.start, end: data.end - data.start, ..(*self.of).clone() };
                (View { at: self.at + data.start, of: of.into() }, 0)
            }
            Kind::Regions(regions) => {
                let first =
                    regions.partition_point(|(_, len, before)| before + u64::from(*len) <= data.start);
                let behind = regions.partition_point(|(_, _, before)| *before < data.end);
                let cut = &regions[first..behind.max(first)];
                let skipped = cut.first().map_or(data.start, |(_, _, before)| *before);
                match Datatype::regions(cut.iter().map(|(at, len, _)| (*at, *len))) {
                    Some(of) => (View { at: self.at, of: of.into() }, data.start - skipped),
                    None => (self.clone(), data.start),
                }
            }
            _ => (self.clone(), data.start),
        }
    }

    /// Bytes in a message.
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        to.extend(self.at.to_le_bytes());
        self.of.encode(to);
    }

    /// Reads a view from the beginning of bytes.
    pub(super) fn decode(from: &mut Reader<'_>) -> Option<View> {
        let at = from.u64()?;
        View::new(at, Datatype::decode(from)?)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any type of a few hundred bytes, with its offsets by the definition: unrolled.
    pub(in super::super) fn types() -> impl Strategy<Value = (Datatype, Vec<u64>)> {
        let bytes = (1..20_u64).prop_map(|len| (Datatype::bytes(len).unwrap(), (0..len).collect::<Vec<_>>()));
        let regions = prop::collection::vec((0..300_u64, 0..9_u32), 1..6).prop_map(|regions| {
            let offsets = regions.iter().flat_map(|(at, len)| *at..at + u64::from(*len)).collect();
            (Datatype::regions(regions).unwrap(), offsets)
        });
        prop_oneof![bytes, regions].prop_recursive(3, 16, 4, |inner| {
            let placed = |blocks: &[u64], of: &[u64]| -> Vec<u64> {
                blocks.iter().flat_map(|block| of.iter().map(move |at| block + at)).collect()
            };
            let vector =
                (1..5_u64, 0..60_u64, inner.clone()).prop_map(move |(count, stride, (of, offsets))| {
                    let blocks: Vec<u64> = (0..count).map(|n| n * stride).collect();
                    (Datatype::vector(count, stride, of).unwrap(), placed(&blocks, &offsets))
                });
            let indexed =
                (prop::collection::vec(0..200_u64, 1..4), inner).prop_map(move |(blocks, (of, offsets))| {
                    (Datatype::indexed(blocks.clone(), of).unwrap(), placed(&blocks, &offsets))
                });
            prop_oneof![vector, indexed]
        })
    }

    fn offsets(of: &Datatype) -> Vec<u64> {
        let (mut all, mut at) = (Vec::new(), 0);
        while at < of.len() {
            let (offset, run) = of.run_at(at);
            assert!(run > 0, "at {at} of {of:?}");
            all.extend(offset..offset + run);
            at += run;
        }
        all
    }

    proptest! {
        #[test]
        fn each_byte_lies_where_the_unrolled_type_has_it((of, unrolled) in types()) {
            prop_assert_eq!(of.len(), unrolled.len() as u64);
            prop_assert_eq!(offsets(&of), unrolled.clone());
            for (at, offset) in unrolled.iter().enumerate() {
                prop_assert_eq!(of.run_at(at as u64).0, *offset);
            }
            prop_assert!(of.end() >= unrolled.iter().max().map_or(0, |last| last + 1));
        }

        #[test]
        fn a_type_survives_its_bytes_and_no_part_of_them_is_a_type((of, _) in types()) {
            let mut bytes = Vec::new();
            of.encode(&mut bytes);
            let mut rest = Reader(&bytes);
            prop_assert_eq!(Datatype::decode(&mut rest), Some(of));
            prop_assert!(rest.0.is_empty());
            for end in 0..bytes.len() {
                prop_assert_eq!(Datatype::decode(&mut Reader(&bytes[..end])), None);
            }
        }

        #[test]
        fn a_cut_view_has_the_same_bytes((of, unrolled) in types(), from in 0..100_usize, len in 0..100_usize) {
            let from = from.min(unrolled.len());
            let end = (from + len).min(unrolled.len());
            let (cut, shift) = View::new(7, of).unwrap().cut(&(from as u64..end as u64));
            for (nth, offset) in unrolled[from..end].iter().enumerate() {
                prop_assert_eq!(cut.run_at(shift + nth as u64).0, offset + 7);
            }
        }

        #[test]
        fn no_more_regions_are_among_bytes_than_is_said(
            (of, unrolled) in types(),
            from in 0..100_u64,
            len in 1..400_u64,
        ) {
            let from = from.min(unrolled.len() as u64);
            let end = (from + len).min(unrolled.len() as u64);
            let (mut at, mut regions) = (from, 0);
            while at < end {
                at += of.run_at(at).1;
                regions += 1;
            }
            let said = of.most_regions(end - from);
            prop_assert!(regions <= said, "{regions} regions, and not {said} of {of:?}");
            if let Kind::Regions(all) = &of.kind {
                prop_assert!(said <= all.len() as u64, "{said} of {}", all.len());
            }
        }

        #[test]
        fn no_bytes_make_a_decoder_fail(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            drop(View::decode(&mut Reader(&bytes)));
        }
    }

    #[test]
    fn a_tile_of_an_array_is_its_rows() {
        let tile = Datatype::subarray(&[4, 6], &[2, 3], &[1, 2], 10).unwrap();
        let rows: Vec<u64> = (80..110).chain(140..170).collect();
        assert_eq!(offsets(&tile), rows);
        let whole = Datatype::subarray(&[4, 6], &[4, 6], &[0, 0], 10).unwrap();
        assert_eq!(whole.run_at(5), (5, 235), "one run");
        assert_eq!(Datatype::subarray(&[4], &[3], &[2], 1), None, "sticks out");
    }

    #[test]
    fn what_is_too_deep_or_too_long_is_no_type() {
        let deep = |steps: u32| {
            (0..steps)
                .try_fold(Datatype::regions([(0, 1), (2, 1)])?, |of, _| Datatype::vector(2, 1 << 20, of))
        };
        assert!(deep(DEPTH).is_some() && deep(DEPTH + 1).is_none());
        let mut bytes = [1_u8; 17].repeat(1_000);
        bytes.extend([0; 9]);
        assert_eq!(Datatype::decode(&mut Reader(&bytes)), None, "a thousand deep");
        assert_eq!(Datatype::vector(1 << 40, 1 << 40, Datatype::bytes(1).unwrap()), None);
        assert_eq!(View::of(1 << 62..(1 << 63) + 1), None);
        let many = [&[3][..], &u32::MAX.to_le_bytes(), &[0; 24]].concat();
        assert_eq!(Datatype::decode(&mut Reader(&many)), None, "more regions than bytes");
    }
}
