//! The bytes of a memory region: the only unsafe code of this crate.
//!
//! A program may hold a raw pointer into a region (an explicit, unsafe claim) and may bring memory of its own,
//! so no Rust reference to the bytes is ever made here: they are copied in and out through the pointer.
#![allow(unsafe_code)]

use crate::explore::state_hash::StateHash;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::hash::Hasher;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use weft_verbs::PinnedMemory;

/// Registered memory starts at a multiple of this in the simulation's addresses, and from so many bytes on in ours.
pub const PAGE: usize = 4096;

/// Bytes of a cache line on every machine that matters.
const LINE: usize = 64;

/// A range of memory that no Rust reference points into.
pub enum Bytes {
    /// Allocated here.
    Own(Block),
    /// Brought by the application. A copy of the world shares it: it is outside of what a world can restore.
    Brought(Rc<dyn PinnedMemory>),
}

impl Bytes {
    /// So many zeroed bytes.
    pub fn zeroed(len: usize) -> Bytes {
        Bytes::Own(Block::zeroed(len))
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Bytes::Own(block) => block.len,
            Bytes::Brought(memory) => memory.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where they are in the host's memory, if somebody else may have them too.
    pub fn shared_at(&self) -> Option<usize> {
        match self {
            Bytes::Own(_) => None,
            Bytes::Brought(memory) => Some(memory.ptr().as_ptr().addr()),
        }
    }

    fn ptr(&self) -> NonNull<u8> {
        match self {
            Bytes::Own(block) => block.ptr,
            Bytes::Brought(memory) => memory.ptr(),
        }
    }

    /// Where a range begins. Panics where the range sticks out, which every caller has excluded.
    fn at(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.len()), "{at}+{len} outside a region");
        // SAFETY: at <= len of the allocation, so the result is within it or one past its end.
        unsafe { self.ptr().as_ptr().add(at) }
    }

    /// Copies bytes out.
    #[inline]
    pub fn read(&self, at: usize, out: &mut [u8]) {
        let from = self.at(at, out.len());
        // SAFETY: `from` is valid for out.len() bytes (checked by `at`), which cannot overlap `out`: no
        // reference to a region's bytes exists (PinnedMemory's contract, and Block never lends any).
        unsafe { ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) }
    }

    /// Copies bytes in.
    #[inline]
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let to = self.at(at, bytes.len());
        // SAFETY: as in `read`, with the directions swapped.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }

    /// Copies a range of other bytes in.
    pub fn copy_from(&mut self, at: usize, other: &Bytes, range: Range<usize>) {
        let len = range.end - range.start;
        let (from, to) = (other.at(range.start, len), self.at(at, len));
        // SAFETY: both are valid for so many bytes (checked by `at`). They may be one application's memory: hence no claim that they
        // do not overlap.
        unsafe { ptr::copy(from, to, len) }
    }

    /// Adds a range to a hash.
    pub(crate) fn digest(&self, from: usize, len: usize, hash: &mut StateHash) {
        let mut piece = [0; 256];
        for at in (from..from + len).step_by(piece.len()) {
            let piece = &mut piece[..(from + len - at).min(256)];
            self.read(at, piece);
            hash.write(piece);
        }
    }

    /// A raw pointer to a range, for a program that claims it.
    pub fn claim(&self, range: Range<usize>) -> NonNull<[u8]> {
        let len = range.end - range.start;
        let first = NonNull::new(self.at(range.start, len)).expect("within an allocation");
        NonNull::slice_from_raw_parts(first, len)
    }
}

impl Clone for Bytes {
    fn clone(&self) -> Bytes {
        match self {
            Bytes::Own(block) => {
                let copy = Block::zeroed(block.len);
                // SAFETY: two distinct allocations of the same length.
                unsafe { ptr::copy_nonoverlapping(block.ptr.as_ptr(), copy.ptr.as_ptr(), block.len) }
                Bytes::Own(copy)
            }
            Bytes::Brought(memory) => Bytes::Brought(memory.clone()),
        }
    }

    fn clone_from(&mut self, from: &Bytes) {
        match (&*self, from) {
            (Bytes::Own(to), Bytes::Own(block)) if to.len == block.len => {
                // SAFETY: two distinct allocations of the same length: a block is in one value only.
                unsafe { ptr::copy_nonoverlapping(block.ptr.as_ptr(), to.ptr.as_ptr(), block.len) }
            }
            _ => *self = from.clone(),
        }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if matches!(self, Bytes::Own(_)) { "own" } else { "brought" };
        write!(f, "{} bytes, {kind}", self.len())
    }
}

/// Memory of our own: page-aligned from a page on, and otherwise aligned to a cache line. (A page for each of a
/// thousand words would put them all into the same few places of every cache.)
pub struct Block {
    ptr: NonNull<u8>,
    len: usize,
}

impl Block {
    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, if len < PAGE { LINE } else { PAGE })
            .expect("a region's length is bounded by the device's limit")
    }

    fn zeroed(len: usize) -> Block {
        if len == 0 {
            return Block { ptr: NonNull::dangling(), len };
        }
        let layout = Block::layout(len);
        // SAFETY: the layout's size is not zero.
        let raw = unsafe { alloc_zeroed(layout) };
        Block { ptr: NonNull::new(raw).unwrap_or_else(|| handle_alloc_error(layout)), len }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: allocated in `zeroed` with the same layout, and freed once.
            unsafe { dealloc(self.ptr.as_ptr(), Block::layout(self.len)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_aligned_and_copied_whole() {
        let mut bytes = Bytes::zeroed(10_000);
        assert_eq!(bytes.claim(0..10).as_ptr().cast::<u8>() as usize % PAGE, 0);
        bytes.write(9_990, &[7; 10]);
        let copy = bytes.clone();
        bytes.write(9_990, &[8; 10]);
        let mut out = [1; 20];
        copy.read(9_980, &mut out);
        assert_eq!(out, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]);
        Bytes::zeroed(0).read(0, &mut []);
    }

    #[test]
    #[should_panic(expected = "outside a region")]
    fn a_range_that_sticks_out_is_our_own_bug() {
        Bytes::zeroed(8).read(usize::MAX, &mut [0; 2]);
    }
}
