//! An object's bytes: chunks, and nothing where nobody wrote.

use super::crash::SECTOR;
use std::collections::BTreeMap;

/// Bytes of a chunk. An object takes room by the chunk.
const CHUNK: u64 = 4096;

/// The bytes of one object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Object {
    chunks: BTreeMap<u64, Box<[u8]>>,
    size: u64,
}

/// The parts of a range that lie in one chunk each: the chunk, its first byte, and the bytes of the range.
fn parts(at: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let here = at + done as u64;
        let within = (here % CHUNK) as usize;
        let part = done..len.min(done + (CHUNK as usize - within));
        done = part.end;
        (!part.is_empty()).then_some((here / CHUNK, within, part))
    })
}

impl Object {
    /// Where it ends.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// How much room it takes.
    pub(crate) fn taken(&self) -> u64 {
        self.chunks.len() as u64 * CHUNK
    }

    /// How much more room it would take with a range written.
    pub(crate) fn would_take(&self, at: u64, len: usize) -> u64 {
        parts(at, len).filter(|(chunk, ..)| !self.chunks.contains_key(chunk)).count() as u64 * CHUNK
    }

    /// How many of a range's first bytes could be written into so much more room.
    pub(crate) fn fitting(&self, at: u64, len: usize, room: u64) -> usize {
        let mut left = room / CHUNK;
        let mut fits = 0;
        for (chunk, _, part) in parts(at, len) {
            if !self.chunks.contains_key(&chunk) {
                if left == 0 {
                    break;
                }
                left -= 1;
            }
            fits = part.end;
        }
        fits
    }

    /// How many bytes of a range there are.
    pub(crate) fn readable(&self, at: u64, len: usize) -> usize {
        self.size.saturating_sub(at).min(len as u64) as usize
    }

    /// Reads what there is of a range; says how much.
    pub(crate) fn read(&self, at: u64, out: &mut [u8]) -> usize {
        let len = self.readable(at, out.len());
        for (chunk, within, part) in parts(at, len) {
            let out = &mut out[part];
            match self.chunks.get(&chunk) {
                Some(bytes) => out.copy_from_slice(&bytes[within..within + out.len()]),
                None => out.fill(0),
            }
        }
        len
    }

    /// Writes a range.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) {
        for (chunk, within, part) in parts(at, bytes.len()) {
            let there = self.chunks.entry(chunk).or_insert_with(|| vec![0; CHUNK as usize].into());
            there[within..within + part.len()].copy_from_slice(&bytes[part]);
        }
        if !bytes.is_empty() {
            self.size = self.size.max(at + bytes.len() as u64);
        }
    }

    /// What there is of a sector.
    pub(crate) fn sector(&self, number: u64) -> Box<[u8]> {
        let at = number * SECTOR;
        let mut bytes = vec![0; self.readable(at, SECTOR as usize)];
        self.read(at, &mut bytes);
        bytes.into()
    }

    /// A sector has these bytes, and zeros behind them. Where it ends stays as it is.
    pub(crate) fn put_sector(&mut self, number: u64, bytes: &[u8]) {
        let mut whole = [0; SECTOR as usize];
        whole[..bytes.len()].copy_from_slice(bytes);
        let size = self.size;
        self.write(number * SECTOR, &whole);
        self.size = size;
    }

    /// Ends it here: what lies behind is gone, and zero should it ever be there again.
    pub(crate) fn end_at(&mut self, size: u64) {
        self.size = size;
        self.chunks.retain(|chunk, _| chunk * CHUNK < size);
        if let Some(last) = self.chunks.get_mut(&(size / CHUNK)) {
            last[(size % CHUNK) as usize..].fill(0);
        }
    }

    /// Its bytes, each chunk that is there with its number.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.chunks.iter().map(|(number, bytes)| (*number, &**bytes))
    }
}
