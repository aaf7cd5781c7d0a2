//! Registered memory cut into blocks of one size, taken and given back in O(1).

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use weft_verbs::{AccessFlags, MemoryRegion, ProtectionDomain, Result, Sge, Verbs, VerbsError};

struct PoolState<V: Verbs> {
    chunks: Vec<Rc<V::Mr>>,
    blocks: Vec<Place>,
    free: Vec<u32>,
}

/// Where a block is, and who has it.
#[derive(Clone, Copy)]
struct Place {
    chunk: u32,
    /// Where it begins in its chunk.
    at: u32,
    /// How many clones share it; 0 for a free one.
    users: u32,
}

struct Pool<V: Verbs> {
    pd: V::Pd,
    access: AccessFlags,
    block: u32,
    blocks_a_chunk: u32,
    max_blocks: u32,
    state: RefCell<PoolState<V>>,
}

/// A pool of equal blocks of registered memory. It registers a chunk when it runs out, up to its bound, and
/// keeps what it has. A chunk is a quarter of what there is, if that is more than the first one: a pool that grows a thousandfold
/// registers a few dozen times, and has a quarter more than was ever in use at most. Where that much cannot be had, a chunk is as large as the
/// first one. Clones are the same pool.
pub struct BufferPool<V: Verbs>(Rc<Pool<V>>);

impl<V: Verbs> Clone for BufferPool<V> {
    fn clone(&self) -> Self {
        BufferPool(Rc::clone(&self.0))
    }
}

impl<V: Verbs> BufferPool<V> {
    /// How many bytes a pool registers at a time, unless it is told otherwise; at the least one block.
    pub const CHUNK_BYTES: u32 = 16 * 1024;

    /// A pool of blocks of `block` bytes, rounded up to whole words, at most `max_blocks` of them.
    #[cfg(test)]
    pub fn new(pd: &V::Pd, block: u32, max_blocks: u32, access: AccessFlags) -> BufferPool<V> {
        Self::with_chunks(pd, block, max_blocks, access, Self::CHUNK_BYTES)
    }

    /// The same, registering `chunk` bytes at a time, at the least one block.
    pub fn with_chunks(
        pd: &V::Pd,
        block: u32,
        max_blocks: u32,
        access: AccessFlags,
        chunk: u32,
    ) -> BufferPool<V> {
        let block = block.max(8).next_multiple_of(8);
        BufferPool(Rc::new(Pool {
            pd: pd.clone(),
            access,
            block,
            blocks_a_chunk: (chunk / block).clamp(1, max_blocks.max(1)),
            max_blocks,
            state: RefCell::new(PoolState { chunks: Vec::new(), blocks: Vec::new(), free: Vec::new() }),
        }))
    }

    /// Takes a block. Its bytes are those of its last use.
    pub fn alloc(&self) -> Result<Block<V>> {
        let mut state = self.0.state.borrow_mut();
        if state.free.is_empty() {
            self.0.grow(&mut state)?;
        }
        let index = state.free.pop().expect("grow added a block");
        let place = &mut state.blocks[index as usize];
        place.users = 1;
        let (chunk, at) = (place.chunk, place.at);
        let mr = Rc::clone(&state.chunks[chunk as usize]);
        drop(state);
        Ok(Block { pool: Rc::clone(&self.0), mr, index, at })
    }

    /// Registers memory for so many blocks in all, those in use included, so that none of them waits for that.
    pub fn reserve(&self, blocks: u32) -> Result<()> {
        let mut state = self.0.state.borrow_mut();
        while state.blocks.len() < blocks.min(self.0.max_blocks) as usize {
            self.0.grow(&mut state)?;
        }
        Ok(())
    }

    /// The same pool for one who is not to keep it.
    pub fn downgrade(&self) -> WeakPool<V> {
        WeakPool(Rc::downgrade(&self.0))
    }

    /// How many blocks are in use.
    pub fn in_use(&self) -> usize {
        let state = self.0.state.borrow();
        state.blocks.len() - state.free.len()
    }

    /// A block's length in bytes.
    #[cfg(test)]
    pub fn block_len(&self) -> u32 {
        self.0.block
    }
}

/// A pool, which is there as long as somebody else has it, or a block of it.
pub struct WeakPool<V: Verbs>(Weak<Pool<V>>);

impl<V: Verbs> WeakPool<V> {
    /// The pool, if it is there.
    pub fn upgrade(&self) -> Option<BufferPool<V>> {
        self.0.upgrade().map(BufferPool)
    }
}

impl<V: Verbs> Pool<V> {
    fn grow(&self, state: &mut PoolState<V>) -> Result<()> {
        let have = state.blocks.len() as u32;
        // A work request says where a buffer begins by 32 bits.
        let most = (u32::MAX / self.block).max(1);
        let wanted = self.blocks_a_chunk.max(have / 4).min(most);
        let most = wanted.min(self.max_blocks.saturating_sub(have));
        if most == 0 {
            return Err(VerbsError::Exhausted { what: "buffer", limit: u64::from(self.max_blocks) });
        }
        let register = |blocks: u32| self.pd.alloc_mr(blocks as usize * self.block as usize, self.access);
        let (more, mr) = match register(most) {
            Err(_) if most > self.blocks_a_chunk => (self.blocks_a_chunk, register(self.blocks_a_chunk)?),
            made => (most, made?),
        };
        let chunk = state.chunks.len() as u32;
        state.chunks.push(Rc::new(mr));
        state.blocks.extend((0..more).map(|nth| Place { chunk, at: nth * self.block, users: 0 }));
        // All of them may be free at once.
        state.free.reserve(state.blocks.len() - state.free.len());
        // Lowest first out, for whoever reads a trace.
        state.free.extend((have..have + more).rev());
        Ok(())
    }
}

/// A block in use. Clones share it; it is free again when the last of them is dropped.
pub struct Block<V: Verbs> {
    pool: Rc<Pool<V>>,
    mr: Rc<V::Mr>,
    index: u32,
    /// Where it begins in its region.
    at: u32,
}

impl<V: Verbs> Clone for Block<V> {
    fn clone(&self) -> Self {
        self.pool.state.borrow_mut().blocks[self.index as usize].users += 1;
        Block { pool: Rc::clone(&self.pool), mr: Rc::clone(&self.mr), index: self.index, at: self.at }
    }
}

impl<V: Verbs> Drop for Block<V> {
    fn drop(&mut self) {
        let mut state = self.pool.state.borrow_mut();
        let users = &mut state.blocks[self.index as usize].users;
        *users -= 1;
        if *users == 0 {
            state.free.push(self.index);
        }
    }
}

impl<V: Verbs> Block<V> {
    /// Its length in bytes.
    pub fn len(&self) -> u32 {
        self.pool.block
    }

    /// Whether it has no bytes; no block is so.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Its first `len` bytes, for a work request.
    pub fn sge(&self, len: u32) -> Sge<'_, V::Mr> {
        Sge { mr: &self.mr, at: self.at, len }
    }

    fn checked(&self, at: u32, len: usize) -> Result<usize> {
        if u64::from(at) + len as u64 > u64::from(self.len()) {
            return Err(VerbsError::OutOfRange {
                at: u64::from(at),
                len: len as u64,
                size: u64::from(self.len()),
            });
        }
        Ok((self.at + at) as usize)
    }

    /// Copies bytes in.
    pub fn write(&self, at: u32, bytes: &[u8]) -> Result<()> {
        self.mr.write(self.checked(at, bytes.len())?, bytes)
    }

    /// Copies bytes out.
    pub fn read(&self, at: u32, out: &mut [u8]) -> Result<()> {
        self.mr.read(self.checked(at, out.len())?, out)
    }

    /// Copies its first bytes out, behind those of a list.
    pub fn read_behind(&self, len: u32, to: &mut Vec<u8>) -> Result<()> {
        self.mr.read_behind(self.checked(0, len as usize)?, len as usize, to)
    }

    /// Loads its first word: where atomics leave the old value.
    pub fn word(&self) -> Result<u64> {
        self.mr.load(self.at as usize)
    }
}
