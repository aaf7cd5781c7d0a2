//! What messages are made of, as bytes, and read again: a decoder trusts no length.

use super::super::datatype::View;
use super::super::slots::Asked;
use super::super::{Attributes, DirEntry, Distribution, Handle, Name, Path, SetAttributes};
use super::{Bytes, HEADER, Memory};
use weft_verbs::RemoteSlice;

/// A message in the making, or a batch of the log.
pub(in super::super) struct Writer(pub Vec<u8>);

impl Writer {
    pub(super) fn new(kind: u8, id: u64) -> Writer {
        let mut writer = Writer(Vec::with_capacity(HEADER as usize));
        writer.0.push(kind);
        writer.u64(id);
        writer
    }

    pub(in super::super) fn u64(&mut self, word: u64) {
        self.0.extend(word.to_le_bytes());
    }

    pub(in super::super) fn u32(&mut self, word: u32) {
        self.0.extend(word.to_le_bytes());
    }

    pub(in super::super) fn asked(&mut self, Asked { slot, sequence }: Asked) {
        self.0.extend(slot.to_le_bytes());
        self.u64(sequence);
    }

    pub(in super::super) fn attributes(&mut self, Attributes { mode, owner, group, modified }: Attributes) {
        [mode, owner, group].into_iter().for_each(|word| self.u32(word));
        self.u64(modified);
    }

    /// A byte says which of them there are.
    pub(super) fn set(&mut self, SetAttributes { mode, owner, group, modified }: SetAttributes) {
        let words = [mode, owner, group];
        let there = words.iter().enumerate().map(|(bit, word)| u8::from(word.is_some()) << bit).sum::<u8>();
        self.0.push(there | u8::from(modified.is_some()) << 3);
        words.into_iter().flatten().for_each(|word| self.u32(word));
        modified.into_iter().for_each(|modified| self.u64(modified));
    }

    pub(in super::super) fn layout(&mut self, layout: Distribution) {
        self.0.extend(layout.strip().to_le_bytes());
        self.0.extend(layout.servers().to_le_bytes());
        self.0.extend(layout.first().to_le_bytes());
    }

    pub(super) fn bytes(&mut self, Bytes { handle, layout, file, from, len }: &Bytes) {
        self.u64(handle.0);
        self.layout(*layout);
        file.encode(&mut self.0);
        self.u64(*from);
        self.0.extend(len.to_le_bytes());
    }

    pub(super) fn memory(&mut self, Memory { slice, view, from, load }: &Memory) {
        self.0.extend(slice.to_bytes());
        view.encode(&mut self.0);
        self.u64(*from);
        self.0.extend(load.to_le_bytes());
    }

    pub(in super::super) fn path(&mut self, path: &Path) {
        self.0.extend((path.as_str().len() as u16).to_le_bytes());
        self.0.extend(path.as_str().as_bytes());
    }

    pub(super) fn name(&mut self, name: &Name) {
        self.0.push(name.as_str().len() as u8);
        self.0.extend(name.as_str().as_bytes());
    }
}

/// The rest of what is read.
pub(in super::super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    pub(in super::super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(in super::super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(in super::super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(in super::super) fn asked(&mut self) -> Option<Asked> {
        Some(Asked { slot: u16::from_le_bytes(self.array()?), sequence: self.u64()? })
    }

    pub(in super::super) fn attributes(&mut self) -> Option<Attributes> {
        let (mode, owner, group) = (self.u32()?, self.u32()?, self.u32()?);
        Some(Attributes { mode, owner, group, modified: self.u64()? })
    }

    pub(super) fn set(&mut self) -> Option<SetAttributes> {
        let there = self.u8().filter(|there| *there < 16)?;
        let mut word = |bit: u8| if there & 1 << bit == 0 { Some(None) } else { self.u32().map(Some) };
        let (mode, owner, group) = (word(0)?, word(1)?, word(2)?);
        let modified = if there & 8 == 0 { None } else { Some(self.u64()?) };
        Some(SetAttributes { mode, owner, group, modified })
    }

    pub(in super::super) fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(in super::super) fn handle(&mut self) -> Option<Handle> {
        self.u64().map(Handle)
    }

    pub(in super::super) fn layout(&mut self) -> Option<Distribution> {
        let strip = u32::from_le_bytes(self.array()?);
        let servers = u16::from_le_bytes(self.array()?);
        Distribution::stripe(strip, servers, u16::from_le_bytes(self.array()?))
    }

    pub(super) fn bytes(&mut self) -> Option<Bytes> {
        let (handle, layout) = (self.handle()?, self.layout()?);
        let file = View::decode(&mut self.0)?;
        let (from, len) = (self.u64()?, u32::from_le_bytes(self.array()?));
        Some(Bytes { handle, layout, file, from, len })
    }

    pub(in super::super) fn path(&mut self) -> Option<Path> {
        let len = usize::from(u16::from_le_bytes(self.array()?));
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        // Only as it is written: one path has one text.
        Path::new(std::str::from_utf8(text).ok()?).filter(|path| path.as_str().len() == len)
    }

    pub(super) fn entry(&mut self) -> Option<DirEntry> {
        let is_directory = self.flag()?;
        Some(DirEntry { name: self.name()?, is_directory })
    }

    pub(super) fn name(&mut self) -> Option<Name> {
        let len = usize::from(self.u8()?);
        let (name, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Name::new(std::str::from_utf8(name).ok()?)
    }

    pub(super) fn memory(&mut self) -> Option<Memory> {
        let slice = self.array().map(RemoteSlice::from_bytes)?;
        let (view, from) = (View::decode(&mut self.0)?, self.u64()?);
        Some(Memory { slice, view, from, load: u32::from_le_bytes(self.array()?) })
    }

    pub(super) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }

    /// The message, if all of it was read.
    pub(super) fn end<T>(self, message: T) -> Option<T> {
        self.0.is_empty().then_some(message)
    }
}
