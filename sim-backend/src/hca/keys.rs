//! How an adapter gives out memory keys.

use super::Key;
use crate::in_place::clone_in_place;

/// Keys that are given out again at once, the one that died last first: [`Keys::Stack`](crate::Keys::Stack).
#[derive(Debug, Default, Hash)]
pub(super) struct KeyStack {
    /// The region that each key opens, if any; keys by their numbers.
    opens: Vec<Option<Key>>,
    /// The numbers of keys that open none, the one that died last at the end.
    dead: Vec<u32>,
}

clone_in_place! { KeyStack { opens, dead } }

impl KeyStack {
    /// Gives a region a key: its number.
    pub fn give(&mut self, region: Key) -> u32 {
        let number = self.dead.pop().unwrap_or_else(|| {
            self.opens.push(None);
            self.opens.len() as u32 - 1
        });
        self.opens[number as usize] = Some(region);
        number
    }

    /// A key opens nothing any more.
    pub fn take_back(&mut self, number: u32) {
        self.opens[number as usize] = None;
        self.dead.push(number);
    }

    /// The region that a key opens.
    pub fn opened_by(&self, number: u32) -> Option<Key> {
        *self.opens.get(number as usize)?
    }
}

/// Most regions of an adapter: what a key has room for.
pub const MAX_REGIONS: u32 = 1 << 22;

const REMOTE: u32 = 1 << 31;

/// A region's local and remote key: its place, and 8 bits of how often the place was used, the part of a key that its
/// owner may vary (IBA 10.6.3.3).
///
/// So a key comes again after its place was used 256 times, which is at least 4,352 registrations later. What an old one was given out with, the address, does not:
/// a peer that kept both is refused for ever, and only one that invents an address can be let in by mistake.
pub const fn keys_of(key: Key) -> (u32, u32) {
    let local = (key.index + 1) << 8 | (key.generation & 0xff);
    (local, local | REMOTE)
}

/// The number of a remote key: the place of its region, or what [`KeyStack::give`] said.
pub(super) const fn number_of(rkey: u32) -> Option<u32> {
    if rkey & REMOTE == 0 { None } else { ((rkey & !REMOTE) >> 8).checked_sub(1) }
}

/// The keys of a number that [`KeyStack::give`] said.
pub(super) const fn numbered(number: u32) -> (u32, u32) {
    keys_of(Key { index: number, generation: 0 })
}
