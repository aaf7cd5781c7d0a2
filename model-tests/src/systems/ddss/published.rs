//! The paper's own sequences: lock, transfer, version, unlock, one after another, as far as a model has them.
//!
//! ddss.txt does these in place, without a second look and without a lease, so that a put that dies in the middle leaves a torn value
//! or a lock. They are kept for the paper's figures, which are of these sequences.

use weft_protocols::rt::{BufferGuard, BufferPool};
use weft_protocols::transport::{Lost, Mesh, NotExecuted, OpError, Rank};
use weft_verbs::{AccessFlags, MemoryRegion, RemoteSlice, SendOp, Verbs, VerbsError};

/// What a model does, one step after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sequence {
    /// The transfer alone.
    Null,
    /// Gets hold the lock (section 4: readers are excluded). Puts take none, which is what 23 us leave room for.
    Read,
    /// The same by section 5.3, where gets and puts hold the lock.
    ReadLocked,
    /// A put adds to the version behind the transfer; a get looks at it first (5.3).
    Version,
    /// The same, and a put goes to the next of [`STACK`] places (5.3: the segment is split).
    Delta,
    /// Puts hold the lock (section 4: writers are excluded, readers run along with each other).
    Write,
    /// Gets and puts hold the lock.
    Strict,
}

/// How many versions are kept under delta.
pub(super) const STACK: u32 = 4;

impl Sequence {
    /// All of them.
    pub const ALL: [Sequence; 7] = [
        Sequence::Null,
        Sequence::Read,
        Sequence::ReadLocked,
        Sequence::Version,
        Sequence::Delta,
        Sequence::Write,
        Sequence::Strict,
    ];

    /// Its name, as rows have it.
    pub const fn name(self) -> &'static str {
        match self {
            Sequence::Null => "null",
            Sequence::Read => "read",
            Sequence::ReadLocked => "read with 5.3's lock",
            Sequence::Version => "version",
            Sequence::Delta => "delta",
            Sequence::Write => "write",
            Sequence::Strict => "strict",
        }
    }

    const fn put_locks(self) -> bool {
        matches!(self, Sequence::ReadLocked | Sequence::Write | Sequence::Strict)
    }

    const fn get_locks(self) -> bool {
        matches!(self, Sequence::Read | Sequence::ReadLocked | Sequence::Strict)
    }

    const fn has_versions(self) -> bool {
        matches!(self, Sequence::Version | Sequence::Delta)
    }
}

/// Where a segment is: its lock, its version, its places.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    home: Rank,
    at: RemoteSlice,
    size: u32,
}

const LOCK: u32 = 0;
const VERSION: u32 = 8;
const PLACES: u32 = 16;

impl At {
    /// A segment at a node. The memory lives as long as the region that is returned with it.
    pub fn new<V: Verbs>(mesh: &Mesh<V>, size: u32) -> Result<(At, V::Mr), VerbsError> {
        let access = AccessFlags::LOCAL_WRITE
            .union(AccessFlags::REMOTE_READ)
            .union(AccessFlags::REMOTE_WRITE)
            .union(AccessFlags::REMOTE_ATOMIC)
            .union(AccessFlags::TORN_READS);
        let len = (PLACES + STACK * size.next_multiple_of(8)) as usize;
        let memory = mesh.alloc(len, access)?;
        Ok((At { home: mesh.me(), at: memory.remote(0..len)?, size }, memory))
    }

    fn word(&self, at: u32) -> RemoteSlice {
        self.at.word(at).unwrap_or(RemoteSlice { len: 0, ..self.at })
    }

    fn place(&self, version: u64) -> RemoteSlice {
        let at = PLACES + (version % u64::from(STACK)) as u32 * self.size.next_multiple_of(8);
        self.at.slice(at..at + self.size).unwrap_or(RemoteSlice { len: 0, ..self.at })
    }
}

/// A node's view of a segment.
#[derive(Clone)]
pub(super) struct Published<V: Verbs> {
    mesh: Mesh<V>,
    at: At,
    pool: BufferPool<V>,
}

impl<V: Verbs> Published<V> {
    /// The view of the node whose mesh it is.
    pub fn new(mesh: &Mesh<V>, at: At) -> Published<V> {
        Published { mesh: mesh.clone(), at, pool: mesh.pool(at.size) }
    }

    /// Writes the whole segment. `version` is the one that the caller knows to be the last.
    pub async fn put(&self, sequence: Sequence, version: u64, value: &[u8]) -> Result<u64, OpError> {
        let At { home, .. } = self.at;
        if sequence.put_locks() {
            self.lock().await?;
        }
        let place = if sequence == Sequence::Delta { version + 1 } else { 0 };
        self.write(place, value).await?;
        let mut version = version;
        if sequence.has_versions() {
            version = 1 + self.mesh.fetch_add(home, self.at.word(VERSION), 1).await?;
        }
        if sequence.put_locks() {
            self.unlock().await?;
        }
        Ok(version)
    }

    /// Reads the whole segment. Under versions no data are moved if the segment is at `held`.
    pub async fn get(&self, sequence: Sequence, held: Option<u64>, into: &mut [u8]) -> Result<u64, OpError> {
        let At { home, .. } = self.at;
        let mut version = 0;
        if sequence.has_versions() {
            let mut word = [0; 8];
            self.mesh.read(home, self.at.word(VERSION), &mut word).await?;
            version = u64::from_ne_bytes(word);
            if sequence == Sequence::Version && held == Some(version) {
                return Ok(version);
            }
        }
        if sequence.get_locks() {
            self.lock().await?;
        }
        self.read(if sequence == Sequence::Delta { version } else { 0 }, into).await?;
        if sequence.get_locks() {
            self.unlock().await?;
        }
        Ok(version)
    }

    /// Swaps the lock from nobody to this node until that is done (5.4).
    pub async fn lock(&self) -> Result<(), OpError> {
        let me = u64::from(self.mesh.me().get());
        while self.mesh.compare_swap(self.at.home, self.at.word(LOCK), 0, me).await? != 0 {}
        Ok(())
    }

    /// Swaps it back.
    pub async fn unlock(&self) -> Result<(), OpError> {
        let me = u64::from(self.mesh.me().get());
        self.mesh.compare_swap(self.at.home, self.at.word(LOCK), me, 0).await.map(drop)
    }

    async fn write(&self, place: u64, value: &[u8]) -> Result<(), OpError> {
        let block = self.pool.alloc().map_err(refused)?;
        block.write(0, value).map_err(refused)?;
        let guard = BufferGuard::Block { block, len: value.len() as u32 };
        let op = SendOp::Write { to: self.at.place(place), imm: None };
        self.mesh.post_list(self.at.home, [(op, guard)]).await.map(drop)
    }

    async fn read(&self, place: u64, into: &mut [u8]) -> Result<(), OpError> {
        let block = self.pool.alloc().map_err(refused)?;
        let guard = BufferGuard::Block { block, len: into.len() as u32 };
        let op = SendOp::Read { from: self.at.place(place) };
        match self.mesh.post_list(self.at.home, [(op, guard)]).await? {
            [BufferGuard::Block { block, .. }] => block.read(0, into).map_err(refused),
            _ => Err(OpError::Unknown(Lost::Destroyed)),
        }
    }
}

fn refused(why: VerbsError) -> OpError {
    OpError::NotExecuted(NotExecuted::Refused(why))
}
