//! Memory that messages are sent from: blocks for whole messages, and smaller ones for short messages.
//!
//! A message is kept until its peer has acknowledged it. Most are short where few are long: answers, notices, what a protocol says of
//! itself. A server that keeps eight answers for each of a thousand guests should not register eight of its longest messages for them.

use super::mesh::unbounded;
use super::wire::HEADER_LEN;
use crate::rt::{Block, BufferPool};
use weft_verbs::{Result, Verbs};

/// Bytes of a block for short messages, the frame's header among them: what answers, notices and most requests take.
const SHORT: u32 = 128 + HEADER_LEN as u32;

/// What messages are sent from over one rail.
pub(super) struct SendPool<V: Verbs> {
    /// None if short messages are as long as any.
    short: Option<BufferPool<V>>,
    whole: BufferPool<V>,
}

impl<V: Verbs> SendPool<V> {
    /// For frames of `frame` bytes at most, registering `chunk` bytes at a time.
    pub(super) fn new(pd: &V::Pd, frame: u32, chunk: u32) -> SendPool<V> {
        let pool = |block| unbounded(pd, block, chunk);
        // Two kinds of blocks are two chunks at least: they have to be worth it.
        SendPool { short: (frame >= 4 * SHORT).then(|| pool(SHORT)), whole: pool(frame) }
    }

    /// A block for a message of so many bytes behind its header.
    pub(super) fn alloc(&self, len: usize) -> Result<Block<V>> {
        let short = self.short.as_ref().filter(|_| len + HEADER_LEN <= SHORT as usize);
        short.unwrap_or(&self.whole).alloc()
    }

    /// Registers memory for so many messages of each kind in all, those under way included, so that none of them waits for that.
    pub(super) fn reserve(&self, messages: u32) -> Result<()> {
        self.short.iter().chain([&self.whole]).try_for_each(|pool| pool.reserve(messages))
    }
}
