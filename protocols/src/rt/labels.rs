//! What registered memory is, for logs and drawings.
//!
//! A log says what was executed at an address. Only the program that registered the memory knows what is there. It says so once,
//! when it registers; nothing asks before a line is written for people.

use std::cell::{Cell, RefCell};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;
use weft_verbs::MemoryRegion;

/// What a stretch of memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    what: &'static str,
    number: Option<u64>,
    of_node: Option<u32>,
    /// The parts that it has, if they have a length: then they are numbered.
    part: Option<(&'static str, Option<u32>)>,
}

impl Label {
    /// There is one of them on a node: `staging`.
    pub const fn new(what: &'static str) -> Label {
        Label { what, number: None, of_node: None, part: None }
    }

    /// There are several, and this is one: `segment 5`.
    #[must_use]
    pub const fn number(self, number: u64) -> Label {
        Label { number: Some(number), ..self }
    }

    /// Numbers are those of a node: `n2's object 3`.
    #[must_use]
    pub const fn of_node(self, node: u32) -> Label {
        Label { of_node: Some(node), ..self }
    }

    /// It is cut into equal parts of so many bytes: `slot 2 of segment 5`.
    #[must_use]
    pub const fn cut(self, part: &'static str, bytes: u32) -> Label {
        Label { part: Some((part, Some(bytes))), ..self }
    }

    /// It is a part of something: `segment 5's header`.
    #[must_use]
    pub const fn part(self, part: &'static str) -> Label {
        Label { part: Some((part, None)), ..self }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(node) = self.of_node {
            write!(f, "n{node}'s ")?;
        }
        f.write_str(self.what)?;
        self.number.map_or(Ok(()), |number| write!(f, " {number}"))
    }
}

/// A place in labelled memory: `slot 2 of segment 5`, `slot 2 of segment 5 from byte 16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Labelled {
    /// What the memory is.
    pub label: Label,
    /// How far in it, in bytes.
    pub offset: u64,
}

impl fmt::Display for Labelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut byte = self.offset;
        if let Some((part, Some(bytes))) = self.label.part {
            let bytes = u64::from(bytes.max(1));
            write!(f, "{part} {} of ", self.offset / bytes)?;
            byte %= bytes;
        }
        self.label.fmt(f)?;
        if let Some((part, None)) = self.label.part {
            write!(f, "'s {part}")?;
        }
        if byte > 0 { write!(f, " from byte {byte}") } else { Ok(()) }
    }
}

/// How many labels are kept that have ended: a log asks for names a little later than its lines are written.
const ENDED: usize = 256;

/// A stretch of memory.
#[derive(Clone, Copy)]
struct Stretch {
    begin: u64,
    len: u64,
    label: Label,
    /// Which use of the address this is.
    this: u64,
}

impl Stretch {
    fn has(&self, address: u64) -> Option<Labelled> {
        let offset = address.checked_sub(self.begin).filter(|offset| *offset < self.len)?;
        Some(Labelled { label: self.label, offset })
    }
}

#[derive(Default)]
struct Stretches {
    /// By where they begin.
    present: BTreeMap<u64, Stretch>,
    /// The last ones that have ended.
    ended: VecDeque<Stretch>,
}

/// The labels of a node's memory.
#[derive(Default)]
pub(super) struct Labels {
    stretches: Rc<RefCell<Stretches>>,
    uses: Cell<u64>,
}

impl Labels {
    /// Labels a range of a region, until what is returned is dropped. Of two labels of one address, the later one is told.
    pub fn add(&self, region: &impl MemoryRegion, at: usize, len: usize, label: Label) -> LabelGuard {
        self.add_at(region.addr() + at as u64, len, label)
    }

    fn add_at(&self, begin: u64, len: usize, label: Label) -> LabelGuard {
        let this = self.uses.get() + 1;
        self.uses.set(this);
        let stretch = Stretch { begin, len: len as u64, label, this };
        self.stretches.borrow_mut().present.insert(begin, stretch);
        LabelGuard { of: Some((Rc::clone(&self.stretches), begin, this)) }
    }

    /// What is at an address, or was there last.
    pub fn at(&self, address: u64) -> Option<Labelled> {
        let stretches = self.stretches.borrow();
        let present =
            stretches.present.range(..=address).next_back().and_then(|(_, stretch)| stretch.has(address));
        present.or_else(|| stretches.ended.iter().rev().find_map(|stretch| stretch.has(address)))
    }
}

/// Memory has a label for as long as this is there.
pub struct LabelGuard {
    /// Of which labels, where it begins, and which use of that address it is.
    of: Option<(Rc<RefCell<Stretches>>, u64, u64)>,
}

impl LabelGuard {
    /// The label is there for as long as the runtime: of memory that is never given back.
    pub fn keep(mut self) {
        self.of = None;
    }
}

impl Drop for LabelGuard {
    fn drop(&mut self) {
        let Some((stretches, begin, this)) = &self.of else { return };
        let Stretches { present, ended } = &mut *stretches.borrow_mut();
        if let Entry::Occupied(entry) = present.entry(*begin)
            && entry.get().this == *this
        {
            ended.push_back(entry.remove());
            if ended.len() > ENDED {
                ended.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(label: Label, offset: u64) -> String {
        Labelled { label, offset }.to_string()
    }

    #[test]
    fn a_place_says_its_part_and_where_in_it() {
        let segment = Label::new("segment").number(5);
        assert_eq!(said(segment.part("header"), 0), "segment 5's header");
        assert_eq!(said(segment.cut("slot", 24), 48), "slot 2 of segment 5");
        assert_eq!(said(segment.of_node(1).cut("slot", 24), 50), "slot 2 of n1's segment 5 from byte 2");
        assert_eq!(said(Label::new("staging"), 0), "staging");
        assert_eq!(said(Label::new("buffer").number(0), 9), "buffer 0 from byte 9");
    }

    #[test]
    fn memory_has_its_label_until_its_address_has_another_one() {
        let labels = Labels::default();
        let said = |address| labels.at(address).map(|place| place.to_string());
        let first = labels.add_at(0x100, 64, Label::new("first").cut("part", 16));
        labels.add_at(0x200, 8, Label::new("kept")).keep();
        assert_eq!(said(0x110), Some("part 1 of first".into()));
        assert_eq!((said(0xff), said(0x140), said(0x1ff)), (None, None, None));
        // A line that was written before is named after.
        drop(first);
        assert_eq!(said(0x108), Some("part 0 of first from byte 8".into()));
        let second = labels.add_at(0x100, 8, Label::new("second"));
        let third = labels.add_at(0x100, 8, Label::new("third"));
        drop(second);
        assert_eq!(said(0x100), Some("third".into()), "the guard of an earlier label ends no later one");
        drop(third);
        assert_eq!((said(0x100), said(0x200)), (Some("third".into()), Some("kept".into())));
        let many: Vec<LabelGuard> = (0..2 * ENDED as u64)
            .map(|n| labels.add_at(0x1000 + 8 * n, 8, Label::new("many").number(n)))
            .collect();
        drop(many);
        assert_eq!(said(0x1000), None, "only so many are kept in mind");
    }
}
