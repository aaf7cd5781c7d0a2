//! What messages and batches of the log are made of, as bytes, and read again.

use super::super::datatype::View;
use super::super::slots::Asked;
use super::super::{Attributes, DirEntry, Distribution, Handle, Name, Path, SetAttributes};
use super::{Bytes, HEADER, Memory};
use crate::bytes::{Reader, Writer};

impl Writer {
    pub(super) fn new(kind: u8, id: u64) -> Writer {
        let mut writer = Writer(Vec::with_capacity(HEADER as usize));
        writer.0.push(kind);
        writer.u64(id);
        writer
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

impl Reader<'_> {
    pub(in super::super) fn asked(&mut self) -> Option<Asked> {
        Some(Asked { slot: self.u16()?, sequence: self.u64()? })
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

    pub(in super::super) fn handle(&mut self) -> Option<Handle> {
        self.u64().map(Handle)
    }

    pub(in super::super) fn layout(&mut self) -> Option<Distribution> {
        Distribution::stripe(self.u32()?, self.u16()?, self.u16()?)
    }

    pub(super) fn bytes(&mut self) -> Option<Bytes> {
        let (handle, layout) = (self.handle()?, self.layout()?);
        let file = View::decode(self)?;
        let (from, len) = (self.u64()?, self.u32()?);
        Some(Bytes { handle, layout, file, from, len })
    }

    pub(in super::super) fn path(&mut self) -> Option<Path> {
        let len = self.u16()?.into();
        let text = self.split(len)?;
        // Only as it is written: one path has one text.
        Path::new(std::str::from_utf8(text).ok()?).filter(|path| path.as_str().len() == len)
    }

    pub(super) fn entry(&mut self) -> Option<DirEntry> {
        let is_directory = self.flag()?;
        Some(DirEntry { name: self.name()?, is_directory })
    }

    pub(super) fn name(&mut self) -> Option<Name> {
        let len = self.u8()?;
        let name = self.split(len.into())?;
        Name::new(std::str::from_utf8(name).ok()?)
    }

    pub(super) fn memory(&mut self) -> Option<Memory> {
        let slice = self.slice()?;
        let (view, from) = (View::decode(self)?, self.u64()?);
        Some(Memory { slice, view, from, load: self.u32()? })
    }
}
