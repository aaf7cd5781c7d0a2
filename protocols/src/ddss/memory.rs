//! The memory of the segments that a node keeps: arenas that are registered once, without any right for peers, and for each segment a
//! part with keys of its own. They are revoked before the bytes are used again. An arena that a long segment was registered for goes with
//! the last segment in it: another one may be too long for it.

use super::pool::{Block, Pool};
use super::{Holdings, Name, Spec};
use crate::rt::{Label, LabelGuard};
use crate::transport::{Mesh, Rank};
use std::collections::BTreeMap;
use weft_verbs::{AccessFlags, MemoryRegion, RemoteSlice, Result, Verbs, VerbsError};

/// What peers may do with a segment. A get may meet a put that writes the slot again: it sees by the header that somebody has
/// published, and reads again; under null it takes anything.
const ACCESS: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_ATOMIC)
    .union(AccessFlags::TORN_READS);

/// What a segment's first word is called in logs.
const HEADER: &str = "header";

pub(super) struct Memory<V: Verbs> {
    mesh: Mesh<V>,
    pool: Pool,
    arenas: BTreeMap<usize, V::Mr>,
    segments: BTreeMap<Name, Kept<V>>,
}

/// A segment's memory.
struct Kept<V: Verbs> {
    block: Block,
    region: V::Mr,
    /// What its header and its slots are called.
    _labels: [LabelGuard; 2],
}

/// A segment, in logs.
fn label(name: Name, home: Rank) -> Label {
    let segment = Label::new("segment").number(name.number());
    if name.is_given() { segment } else { segment.of_node(home.index() as u32) }
}

impl<V: Verbs> Memory<V> {
    pub fn new(mesh: &Mesh<V>) -> Memory<V> {
        Memory {
            mesh: mesh.clone(),
            pool: Pool::default(),
            arenas: BTreeMap::new(),
            segments: BTreeMap::new(),
        }
    }

    /// Memory for a segment of so many bytes, whose slots have `stride`, all zero.
    pub fn make(&mut self, name: Name, bytes: u32, stride: u32) -> Result<RemoteSlice> {
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
                let label = label(name, self.mesh.me());
                let slots = Spec::HEADER as usize..bytes as usize;
                let labels = [
                    self.mesh.label(&region, 0..Spec::HEADER as usize, label.part(HEADER)),
                    self.mesh.label(&region, slots, label.cut("slot", stride)),
                ];
                self.segments.insert(name, Kept { block, region, _labels: labels });
                Ok(at)
            }
            Err(why) => {
                self.give_back(block);
                Err(why)
            }
        }
    }

    fn grow(&mut self, len: u32) -> Result<Block> {
        let len_of_arena = len.max(self.chunk());
        let memory = self.mesh.alloc(len_of_arena as usize, AccessFlags::LOCAL_WRITE)?;
        let arena = self.pool.add(len_of_arena);
        self.arenas.insert(arena, memory);
        self.pool.take(len).ok_or(VerbsError::Exhausted { what: "segment", limit: len.into() })
    }

    /// The length of an arena for short segments.
    fn chunk(&self) -> u32 {
        self.mesh.chunk() / Block::UNIT * Block::UNIT
    }

    fn give_back(&mut self, block: Block) {
        self.pool.give_back(block);
        if self.pool.drop_if_free(block.arena, self.chunk()) {
            self.arenas.remove(&block.arena);
        }
    }

    fn register(&self, block: Block, bytes: u32) -> Result<(V::Mr, RemoteSlice)> {
        let Block { arena, at, .. } = block;
        let (at, len) = (at as usize, bytes as usize);
        let gone = VerbsError::Exhausted { what: "segment", limit: len as u64 };
        let arena = self.arenas.get(&arena).ok_or(gone)?;
        // Nobody has the keys yet: only what an earlier segment has left is overwritten.
        arena.write(at, &vec![0; len])?;
        let region = self.mesh.register_part(arena, at..at + len, ACCESS)?;
        let place = region.remote(0..len)?;
        Ok((region, place))
    }

    /// Revokes a segment's keys; its bytes are free when this returns.
    pub fn revoke(&mut self, name: Name) -> Result<()> {
        let Some(Kept { region, .. }) = self.segments.get(&name) else { return Ok(()) };
        region.deregister()?;
        if let Some(Kept { block, region, .. }) = self.segments.remove(&name) {
            // The part first: the arena has the range again.
            drop(region);
            self.give_back(block);
        }
        Ok(())
    }

    /// Whether a header is at an address.
    pub fn has_header_at(&self, address: u64) -> bool {
        self.segments.values().any(|kept| kept.region.addr() == address)
    }

    pub fn holdings(&self) -> Holdings {
        Holdings { segments: self.segments.len() as u64, ..self.pool.holdings() }
    }

    /// Bytes that are neither free nor a segment's, or both.
    pub fn astray(&self) -> u64 {
        let Holdings { held, free, .. } = self.pool.holdings();
        let taken: u64 = self.segments.values().map(|kept| u64::from(kept.block.len)).sum();
        held.abs_diff(free + taken)
    }
}
