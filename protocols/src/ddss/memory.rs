//! The memory of the segments that a node keeps: arenas that are registered once, without any right for peers, and for each segment a
//! part with keys of its own. They are revoked before the bytes are used again.

use super::pool::{Block, Pool};
use super::{Holdings, Name};
use crate::transport::Mesh;
use std::collections::BTreeMap;
use weft_verbs::{AccessFlags, MemoryRegion, RemoteSlice, Result, Verbs, VerbsError};

/// What peers may do with a segment. A get may meet a put that writes the slot again: it sees by the header that somebody has
/// published, and reads again; under null it takes anything.
const ACCESS: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_ATOMIC)
    .union(AccessFlags::TORN_READS);

pub(super) struct Memory<V: Verbs> {
    mesh: Mesh<V>,
    pool: Pool,
    arenas: Vec<V::Mr>,
    segments: BTreeMap<Name, (Block, V::Mr)>,
}

impl<V: Verbs> Memory<V> {
    pub fn new(mesh: &Mesh<V>) -> Memory<V> {
        Memory { mesh: mesh.clone(), pool: Pool::default(), arenas: Vec::new(), segments: BTreeMap::new() }
    }

    /// Memory for a segment, all zero.
    pub fn make(&mut self, name: Name, bytes: u32) -> Result<RemoteSlice> {
        let too_large = VerbsError::TooLarge {
            what: "the segment",
            value: bytes.into(),
            bound: u64::from(u32::MAX - Block::UNIT),
        };
        let len = Block::len_for(bytes).ok_or(too_large)?;
        let block = match self.pool.take(len) {
            Some(block) => block,
            None => self.grow(len)?,
        };
        let made = self.register(block, bytes);
        match made {
            Ok((region, at)) => {
                self.segments.insert(name, (block, region));
                Ok(at)
            }
            Err(why) => {
                self.pool.give_back(block);
                Err(why)
            }
        }
    }

    fn grow(&mut self, len: u32) -> Result<Block> {
        let chunk = self.mesh.chunk() / Block::UNIT * Block::UNIT;
        let arena = self.mesh.alloc(len.max(chunk) as usize, AccessFlags::LOCAL_WRITE)?;
        self.pool.add(len.max(chunk));
        self.arenas.push(arena);
        self.pool.take(len).ok_or(VerbsError::Exhausted { what: "segment", limit: len.into() })
    }

    fn register(&self, block: Block, bytes: u32) -> Result<(V::Mr, RemoteSlice)> {
        let Block { arena, at, .. } = block;
        let (at, len) = (at as usize, bytes as usize);
        // Nobody has the keys yet: only what an earlier segment has left is overwritten.
        self.arenas[arena].write(at, &vec![0; len])?;
        let region = self.mesh.register_part(&self.arenas[arena], at..at + len, ACCESS)?;
        let place = region.remote(0..len)?;
        Ok((region, place))
    }

    /// Revokes a segment's keys; its bytes are free when this returns.
    pub fn revoke(&mut self, name: Name) -> Result<()> {
        let Some((_, region)) = self.segments.get(&name) else { return Ok(()) };
        region.deregister()?;
        if let Some((block, region)) = self.segments.remove(&name) {
            // The part first: the arena has the range again.
            drop(region);
            self.pool.give_back(block);
        }
        Ok(())
    }

    pub fn holdings(&self) -> Holdings {
        Holdings { segments: self.segments.len() as u64, ..self.pool.holdings() }
    }
}
