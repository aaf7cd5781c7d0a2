//! A file, as its home knows it.

use super::super::messages::{Reader, Writer};
use super::super::{Attributes, Distribution, Handle};
use crate::transport::Rank;
use std::collections::BTreeMap;

/// A file.
#[derive(Clone, Debug, Hash)]
pub(super) struct Inode {
    pub layout: Distribution,
    pub attributes: Attributes,
    /// Nobody can reach it any more, and it is to be in the log that it ends: no later life of its home opens it to anybody.
    pub ending: bool,
    /// That is in the log, where there is one, and its objects are being removed.
    pub gone: bool,
    /// How often each client has it open.
    pub opens: BTreeMap<Rank, u32>,
    /// Where the last place ends that was given out, or zero.
    pub end: u64,
    /// Places to which clients write, by client and first byte, and where each ends.
    pub places: BTreeMap<(Rank, u64), u64>,
    /// No place is given out before this byte, however the file is cut: one was that its client may yet write to, though it will not say
    /// so. Servers may have to carry out what a client asked that was forgotten, whose byte stream broke, or that died, and a home that
    /// begins anew does not know who had places.
    pub floor: u64,
    /// How often it was cut in this life of the home.
    pub cuts: u64,
    /// It is being cut: no place is given out meanwhile.
    pub cutting: bool,
}

impl Inode {
    /// A file that was made, or found.
    pub(super) fn new(layout: Distribution) -> Inode {
        Inode {
            layout,
            attributes: Attributes::FILE,
            ending: false,
            gone: false,
            opens: BTreeMap::new(),
            end: 0,
            places: BTreeMap::new(),
            floor: 0,
            cuts: 0,
            cutting: false,
        }
    }

    /// A client has closed it once more, or for good.
    pub(super) fn closed(&mut self, client: Rank, for_good: bool) {
        if let Some(opens) = self.opens.get_mut(&client) {
            *opens -= 1;
        }
        if for_good {
            self.opens.remove(&client);
        }
        self.opens.retain(|_, opens| *opens > 0);
        // A close waits for all calls of its file, and those that ended well gave their places back.
        if !self.opens.contains_key(&client) {
            let left = self.places.iter().filter(|((of, _), _)| *of == client);
            self.floor = left.map(|(_, end)| *end).fold(self.floor, u64::max);
            self.places.retain(|(of, _), _| *of != client);
        }
    }

    /// Of places that an earlier life of the home gave out nobody may ever say that they are written.
    pub fn keeps_places(&mut self) {
        self.floor = self.floor.max(self.end);
    }

    /// Where the last place ends to which somebody may write.
    pub(super) fn written_below(&self) -> u64 {
        self.places.values().copied().fold(self.floor, u64::max)
    }

    /// What a restart is to find.
    pub(super) fn encode(&self, handle: Handle, to: &mut Writer) {
        to.u64(handle.0);
        to.layout(self.layout);
        to.attributes(self.attributes);
        to.u64(self.end);
        to.0.push(u8::from(self.ending));
    }

    /// Reads it.
    pub(super) fn decode(from: &mut Reader<'_>) -> Option<(Handle, Inode)> {
        let (handle, layout, attributes) = (from.handle()?, from.layout()?, from.attributes()?);
        let (end, ending) = (from.u64()?, from.flag()?);
        Some((handle, Inode { attributes, end, ending, ..Inode::new(layout) }))
    }
}
