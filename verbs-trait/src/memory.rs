//! Protection domains and memory regions.

use crate::{Path, QpInit, Result, Verbs};
use std::ops::Range;

bitflags::bitflags! {
    /// Who may do what to a memory region, or to memory through a queue pair (IBA 10.6.3).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct AccessFlags: u32 {
        /// The local adapter may write: receives, answers to reads and atomics. Remote writing and remote
        /// atomics need it as well.
        const LOCAL_WRITE = 1 << 0;
        /// Peers may write.
        const REMOTE_WRITE = 1 << 1;
        /// Peers may read.
        const REMOTE_READ = 1 << 2;
        /// Peers may compare-and-swap and fetch-and-add.
        const REMOTE_ATOMIC = 1 << 3;
    }
}

impl AccessFlags {
    /// Peers that read may meet a write half done, and know it: they check what they read, or take anything. It is no right, and
    /// nothing to an adapter; a backend that watches memory reports torn reads of other regions only. Not among
    /// [`AccessFlags::all`].
    pub const TORN_READS: AccessFlags = AccessFlags::from_bits_retain(1 << 8);
}

/// A protection domain: keys and queue pairs of different domains do not mix. Clones are the same domain.
pub trait ProtectionDomain<V: Verbs>: Clone + 'static {
    /// Memory that the backend allocates, so that it can order deregistration before freeing: zeroed, and
    /// page-aligned if it is a page or more. More than the machine has is refused.
    fn alloc_mr(&self, len: usize, access: AccessFlags) -> Result<V::Mr>;
    /// Registers memory that the application brings; the region owns it until the last handle is dropped.
    /// Needs [`Caps::BROUGHT_MEMORY`](crate::Caps::BROUGHT_MEMORY).
    fn register(&self, memory: Box<dyn PinnedMemory>, access: AccessFlags) -> Result<V::Mr>;
    /// Registers a range of a region of this domain under keys of its own, so that memory which was allocated once is cut into
    /// pieces whose keys die one by one. The piece is a region like any other, and holds the bytes that were there. While it lives
    /// the range is reached through it alone: the whole region's accessors refuse it, and what peers with the whole region's key reach there is
    /// undefined (give it no rights for peers). When its last handle is gone, and no request holds it, the range is the whole region's
    /// again, with what was in it. The whole region lives at least as long.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Busy`](crate::VerbsError::Busy) if a living piece has bytes of the range; the range leaves the region; or the region is a
    /// piece itself, was deregistered, is of another domain, or is memory that the application brought.
    fn register_part(&self, of: &V::Mr, range: Range<usize>, access: AccessFlags) -> Result<V::Mr>;
    /// A queue pair, in state Reset.
    fn create_qp(&self, init: &QpInit<'_, V>) -> Result<V::Qp>;
    /// A shared receive queue. Needs [`Caps::SRQ`](crate::Caps::SRQ).
    fn create_srq(&self, max_wr: u32, max_sge: u32) -> Result<V::Srq>;
    /// The address of a peer for datagrams. Needs [`Caps::UD`](crate::Caps::UD).
    fn create_ah(&self, path: &Path) -> Result<V::Ah>;
}

/// Memory that an application brings for registration: an allocation, a mapped file, shared memory.
///
/// # Safety
///
/// `ptr()..ptr()+len()` must be valid for reads and writes, must not move while the value lives, and no Rust
/// reference to any part of it may exist while it is registered: adapters read and write it at any moment.
#[allow(unsafe_code)]
pub unsafe trait PinnedMemory: 'static {
    /// The first byte.
    fn ptr(&self) -> std::ptr::NonNull<u8>;
    /// Length in bytes.
    fn len(&self) -> usize;
    /// Whether it holds nothing.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A range of a peer's memory, as the peer told it: what a read, a write or an atomic is aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct RemoteSlice {
    /// Virtual address at the peer.
    pub addr: u64,
    /// Length in bytes. It is for who cuts ranges out of it: a request moves as many bytes as its payload has, and no backend looks at
    /// this.
    pub len: u32,
    /// The region's remote key.
    pub rkey: u32,
}

impl RemoteSlice {
    /// A part of this range, or `None` where it sticks out.
    pub fn slice(self, range: Range<u32>) -> Option<RemoteSlice> {
        (range.start <= range.end && range.end <= self.len).then(|| RemoteSlice {
            addr: self.addr + u64::from(range.start),
            len: range.end - range.start,
            rkey: self.rkey,
        })
    }

    /// The 8-byte word at an offset, or `None` where it sticks out.
    pub fn word(self, at: u32) -> Option<RemoteSlice> {
        self.slice(at..at.checked_add(8)?)
    }

    /// The 16 bytes by which it travels in messages: address, length, key, little-endian.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut b = [0; 16];
        b[..8].copy_from_slice(&self.addr.to_le_bytes());
        b[8..12].copy_from_slice(&self.len.to_le_bytes());
        b[12..].copy_from_slice(&self.rkey.to_le_bytes());
        b
    }

    /// The inverse of [`RemoteSlice::to_bytes`].
    pub fn from_bytes(b: [u8; 16]) -> RemoteSlice {
        let (addr, rest) = b.split_at(8);
        let (len, rkey) = rest.split_at(4);
        RemoteSlice {
            addr: u64::from_le_bytes(addr.try_into().expect("8 bytes")),
            len: u32::from_le_bytes(len.try_into().expect("4 bytes")),
            rkey: u32::from_le_bytes(rkey.try_into().expect("4 bytes")),
        }
    }
}

/// Registered memory. Clones are the same region, which lives until the last of them is dropped and no work
/// request holds it any more.
///
/// Peers and adapters may touch the bytes at any moment, so there is no way to borrow them as a slice:
/// accessors copy in and out. A copy of more than one word may be torn. Words that remote atomics touch are
/// touched by everyone *through the adapter*, the owner of the memory included: an adapter promises atomicity
/// among its own atomics only (IBA 9.4.5, "HCA" atomicity). By accessors the owner gives such a word its first value,
/// before it gives the key away; and it may load it while nothing can change it: something has told that no atomic is
/// under way to it, such as a message of the only one who does any.
pub trait MemoryRegion: Clone + 'static {
    /// Length in bytes.
    fn len(&self) -> usize;
    /// Whether it holds nothing.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The virtual address by which local requests and peers name its first byte.
    fn addr(&self) -> u64;
    /// The key for local use.
    fn lkey(&self) -> u32;
    /// The key for peers.
    fn rkey(&self) -> u32;
    /// A range of it, as a peer needs it.
    fn remote(&self, range: Range<usize>) -> Result<RemoteSlice>;
    /// Copies bytes out.
    fn read(&self, at: usize, out: &mut [u8]) -> Result<()>;
    /// Copies bytes out, behind those of a list.
    fn read_behind(&self, at: usize, len: usize, to: &mut Vec<u8>) -> Result<()> {
        let before = to.len();
        to.resize(before + len, 0);
        self.read(at, &mut to[before..])
    }
    /// Copies bytes in.
    fn write(&self, at: usize, bytes: &[u8]) -> Result<()>;
    /// Loads an aligned 64-bit word, native byte order, in one access.
    fn load(&self, at: usize) -> Result<u64>;
    /// Stores an aligned 64-bit word, native byte order, in one access.
    fn store(&self, at: usize, value: u64) -> Result<()>;
    /// Ends the registration: on success no peer, and no request of this node, can reach the memory by it any more, whatever
    /// keys they still have (IBA 10.6.5). The bytes stay the owner's for as long as a handle lives: the accessors of this trait go
    /// on working, and requests that name the region are refused when they are posted. Its keys may be given out again at once, to the very
    /// next region, also while handles live: an adapter does not know of them. With an old key a peer then reaches what the new region lets
    /// peers reach, if it names an address of that one; a part of the same range has the same addresses. A second
    /// time, by whatever handle, it does nothing.
    ///
    /// To drop the last handle is no revocation: other handles and posted requests keep a region registered, and nobody
    /// is told when the last of them is gone. Fence the queue pairs through which peers reach the region first
    /// ([`Modify::Err`](crate::Modify::Err)): otherwise their operations fail amid the memory, which breaks their connections.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Busy`](crate::VerbsError::Busy) while a posted request holds the region: it has not completed, or its completion was not polled;
    /// or while a part of it is [registered](ProtectionDomain::register_part).
    /// Nothing has changed then.
    fn deregister(&self) -> Result<()>;
    /// Claims a range as the caller's own, without a copy.
    ///
    /// # Safety
    ///
    /// While the pointer is used, no adapter and no other code may touch the range: no request in flight
    /// names it, and no peer holds a key to it that it still uses.
    #[allow(unsafe_code)]
    unsafe fn claim(&self, range: Range<usize>) -> Result<std::ptr::NonNull<[u8]>>;
}
