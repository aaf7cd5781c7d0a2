//! Names of shared memory: objects, their minipages, and how an object is cut.

use super::DsmError;
use crate::rt::Label;
use crate::transport::Rank;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The bytes of a page of the operating system, of which [`Grain::Pages`] counts.
pub const PAGE: u32 = 4096;

/// Data that can be shared: any bytes are a value, and it has no pointers and no padding.
pub trait Plain: FromBytes + IntoBytes + Immutable + Copy + 'static {}

impl<T: FromBytes + IntoBytes + Immutable + Copy + 'static> Plain for T {}

/// Plain data of 4 or 8 bytes: what a thread loads, stores, swaps and compares in one access.
pub trait Word: Plain + PartialEq {}

/// A word that can be added to; the sum wraps.
pub trait Number: Word {
    /// The sum.
    #[must_use]
    fn plus(self, other: Self) -> Self;
}

macro_rules! words {
    ($($number:ty),*; $($other:ty),*) => {
        $(impl Word for $number {}
        impl Number for $number {
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        })*
        $(impl Word for $other {})*
    };
}

words!(u32, u64, i32, i64; f32, f64);

/// An allocation, by its number: the same on all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u64);

impl ObjectId {
    /// The bits of a number that say which node made it, and how many had died by then.
    const MAKER: u32 = 32;
    const BIRTH: u32 = 48;

    /// An allocation of a node, by the node's own count, made when so many nodes have died.
    pub(super) fn of(node: Rank, number: u32, died: usize) -> ObjectId {
        ObjectId(
            (died as u64) << ObjectId::BIRTH | u64::from(node.get()) << ObjectId::MAKER | u64::from(number),
        )
    }

    /// How many had died when it was made; one that has a name may be as old as the memory.
    pub(super) fn born(self) -> u16 {
        (self.0 >> ObjectId::BIRTH) as u16
    }

    /// What it is called in logs. Those that programs name are no node's.
    pub(super) fn label(self) -> Label {
        let object = Label::new("object").number(self.0 & u64::from(u32::MAX));
        let maker = self.0 & !(!0 << ObjectId::BIRTH);
        let maker = Rank::new((maker >> ObjectId::MAKER) as u32);
        maker.map_or(object, |node| object.of_node(node.index() as u32))
    }
}

/// A minipage: the unit that moves between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId {
    /// Of which object.
    pub object: ObjectId,
    /// Which one of it, from 0.
    pub index: u32,
}

impl PageId {
    /// All that an object can have.
    pub(super) fn all_of(object: ObjectId) -> RangeInclusive<PageId> {
        PageId { object, index: 0 }..=PageId { object, index: u32::MAX }
    }
}

/// How much of an object moves at a time: a multiple of 64 bytes, up to 1 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// So many bytes.
    Bytes(u32),
    /// So many elements.
    Elements(u32),
    /// So many pages of 4 KiB.
    Pages(u32),
}

impl Grain {
    /// The smallest, in bytes: a cache line.
    pub const LEAST: u32 = 64;
    /// The largest, in bytes.
    pub const MOST: u32 = 1 << 20;

    fn bytes(self, element: usize) -> Result<u32, DsmError> {
        let bytes = match self {
            Grain::Bytes(bytes) => u64::from(bytes),
            Grain::Elements(number) => u64::from(number) * element as u64,
            Grain::Pages(number) => u64::from(number) * u64::from(PAGE),
        };
        match u32::try_from(bytes) {
            Ok(fine @ Grain::LEAST..=Grain::MOST) if fine % Grain::LEAST == 0 => Ok(fine),
            _ => Err(DsmError::Grain(bytes)),
        }
    }
}

/// Which nodes manage an object's minipages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// All in turn, by the minipage's number (kernel-dsm.txt, 2.2).
    #[default]
    RoundRobin,
    /// One.
    Node(Rank),
}

/// Shared memory of many `T`, as [`Dsm::alloc`](super::Dsm::alloc) returns it: `Shared<[T]>`. It is a name and no address, so
/// it means the same on every node and can be sent to any.
pub struct Shared<T: ?Sized> {
    pub(super) cut: Cut,
    of: PhantomData<fn() -> Box<T>>,
}

impl<T: ?Sized> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Shared<T> {}

impl<T: ?Sized> std::fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.cut.fmt(f)
    }
}

/// An object, and how it is cut into minipages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub object: ObjectId,
    /// Elements.
    pub len: u32,
    /// Bytes of a minipage.
    pub grain: u32,
    pub placement: Placement,
}

/// Where an element is: in which minipage, and where it begins there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub page: PageId,
    /// The offset within the object, in bytes.
    pub at: usize,
}

impl<T: Plain> Shared<[T]> {
    /// A name's bytes.
    pub const BYTES: usize = 20;

    pub(super) fn new(
        object: ObjectId,
        len: usize,
        grain: Grain,
        placement: Placement,
    ) -> Result<Self, DsmError> {
        let bytes = grain.bytes(size_of::<T>())?;
        let whole = (len as u64).saturating_mul(size_of::<T>() as u64);
        if size_of::<T>() == 0 || len == 0 || whole > u64::from(i32::MAX as u32) {
            return Err(DsmError::Size(whole));
        }
        // An element never straddles two minipages: each node would hold what the other needs.
        if !(bytes as usize).is_multiple_of(size_of::<T>()) {
            return Err(DsmError::Straddles { grain: bytes, element: size_of::<T>() });
        }
        Ok(Shared { cut: Cut { object, len: len as u32, grain: bytes, placement }, of: PhantomData })
    }

    /// Of which allocation it is.
    pub fn object(self) -> ObjectId {
        self.cut.object
    }

    /// How many elements it has.
    pub fn len(self) -> usize {
        self.cut.len as usize
    }

    /// Whether it has no element; none is so.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// How many minipages it has.
    pub fn pages(self) -> u32 {
        let bytes = self.cut.len as usize * size_of::<T>();
        bytes.div_ceil(self.cut.grain as usize) as u32
    }

    /// How many elements a minipage has; the last one may have fewer.
    pub fn elements_a_page(self) -> usize {
        self.cut.grain as usize / size_of::<T>()
    }

    /// Where an element is.
    pub(super) fn spot(self, index: usize) -> Result<Spot, DsmError> {
        if index >= self.len() {
            return Err(DsmError::Index { index, len: self.len() });
        }
        let at = index * size_of::<T>();
        let page = PageId { object: self.cut.object, index: (at / self.cut.grain as usize) as u32 };
        Ok(Spot { page, at })
    }

    /// The name as bytes, for a message or for shared memory.
    pub fn to_bytes(self) -> [u8; 20] {
        let Cut { object, len, grain, placement } = self.cut;
        let node = match placement {
            Placement::RoundRobin => 0,
            Placement::Node(rank) => rank.get(),
        };
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&object.0.to_le_bytes());
        for (place, word) in bytes[8..].chunks_exact_mut(4).zip([len, grain, node]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The name that has these bytes. No bytes are a name of memory that would have pointers in it:
    ///
    /// ```compile_fail,E0599
    /// # use weft_protocols::dsm::Shared;
    /// let name = Shared::<[&u64]>::from_bytes([0; 20]);
    /// ```
    ///
    /// # Errors
    ///
    /// They are none of memory of this type.
    pub fn from_bytes(bytes: [u8; 20]) -> Result<Self, DsmError> {
        let (object, words) = bytes.split_at(8);
        let object = ObjectId(u64::from_le_bytes(object.try_into().unwrap_or_default()));
        let word = |at: usize| u32::from_le_bytes(words[at..at + 4].try_into().unwrap_or_default());
        let placement = Rank::new(word(8)).map_or(Placement::RoundRobin, Placement::Node);
        Shared::new(object, word(0) as usize, Grain::Bytes(word(4)), placement)
    }
}

impl Cut {
    /// The node that manages a minipage.
    pub fn manager(&self, page: PageId, nodes: u32) -> Rank {
        match self.placement {
            Placement::RoundRobin => Rank::from_index(page.index % nodes),
            Placement::Node(rank) => rank,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(len: usize, grain: Grain) -> Result<Shared<[u64]>, DsmError> {
        Shared::new(ObjectId(3), len, grain, Placement::RoundRobin)
    }

    #[test]
    fn a_grain_is_a_multiple_of_64_bytes_up_to_a_mebibyte() {
        for grain in
            [Grain::Bytes(0), Grain::Bytes(63), Grain::Bytes(96), Grain::Elements(3), Grain::Pages(768)]
        {
            assert!(matches!(of(8, grain), Err(DsmError::Grain(_))), "{grain:?}");
        }
        for (grain, bytes) in
            [(Grain::Bytes(64), 64), (Grain::Elements(16), 128), (Grain::Pages(256), 1 << 20)]
        {
            assert_eq!(of(8, grain).map(|shared| shared.cut.grain), Ok(bytes));
        }
        assert_eq!(of(usize::MAX, Grain::Bytes(64)).map(|_| ()), Err(DsmError::Size(u64::MAX)));
    }

    #[test]
    fn an_element_never_lies_in_two_minipages_and_an_index_beyond_the_end_is_refused() {
        let three: Result<Shared<[[u64; 3]]>, _> =
            Shared::new(ObjectId(1), 9, Grain::Bytes(64), Placement::RoundRobin);
        assert_eq!(three.map(|_| ()), Err(DsmError::Straddles { grain: 64, element: 24 }));
        let shared = of(17, Grain::Bytes(64)).expect("it is fine");
        assert_eq!((shared.pages(), shared.elements_a_page()), (3, 8));
        let spot = shared.spot(16).expect("it is the last");
        assert_eq!((spot.page.index, spot.at), (2, 128));
        assert_eq!(shared.spot(17), Err(DsmError::Index { index: 17, len: 17 }));
    }

    #[test]
    fn a_name_survives_its_bytes_and_bytes_of_no_name_are_refused() {
        let placed =
            Shared::<[u32]>::new(ObjectId(9), 5, Grain::Bytes(128), Placement::Node(Rank::from_index(2)));
        let placed = placed.expect("it is fine");
        assert_eq!(Shared::<[u32]>::from_bytes(placed.to_bytes()).map(|shared| shared.cut), Ok(placed.cut));
        assert!(Shared::<[u32]>::from_bytes([7; 20]).is_err());
    }
}
