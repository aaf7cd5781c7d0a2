//! A home's words: registered memory, eight bytes for each lock.

use super::ncosed::Word;
use super::net::Net;
use crate::rt::{Label, WaitPoint};
use std::cell::RefCell;
use std::collections::VecDeque;
use weft_verbs::{AccessFlags, MemoryRegion, RemoteSlice, Verbs};

/// Words registered at a time: a page of them.
const WORDS_A_REGION: usize = 512;

/// Retired words that are kept before the oldest is used again: an address is fresh for as long as memory is
/// cheap. A late atomic on a retired word, should there ever be one, meets poison.
const RETIRED_KEPT: usize = 16;

struct Memory<V: Verbs> {
    regions: Vec<V::Mr>,
    /// Words of the last region that were handed out.
    used_of_last: usize,
    retired: VecDeque<RemoteSlice>,
    in_use: u64,
}

/// The words of one home.
pub(crate) struct Words<V: Verbs> {
    net: Net<V>,
    memory: RefCell<Memory<V>>,
}

impl<V: Verbs> Words<V> {
    pub(crate) fn new(net: &Net<V>) -> Words<V> {
        let memory =
            Memory { regions: Vec::new(), used_of_last: WORDS_A_REGION, retired: VecDeque::new(), in_use: 0 };
        Words { net: net.clone(), memory: RefCell::new(memory) }
    }

    /// A word that holds zero, in exchange for one that nobody uses any more. `None` if there is no memory and
    /// nothing was given in exchange.
    pub(crate) async fn fresh(&self, retired: Option<RemoteSlice>) -> Option<RemoteSlice> {
        let has_kept_enough = {
            let mut memory = self.memory.borrow_mut();
            memory.in_use += 1;
            if let Some(word) = retired {
                memory.in_use -= 1;
                memory.retired.push_back(word);
            }
            memory.retired.len() > RETIRED_KEPT
        };
        if !has_kept_enough && let Some(word) = self.unused() {
            return Some(word);
        }
        let oldest = self.memory.borrow_mut().retired.pop_front();
        match oldest {
            Some(word) => {
                self.scrub(word).at(()).await;
                Some(word)
            }
            None => {
                self.memory.borrow_mut().in_use -= 1;
                None
            }
        }
    }

    /// Words that nobody uses any more.
    pub(crate) fn retire(&self, words: impl IntoIterator<Item = RemoteSlice>) {
        let mut memory = self.memory.borrow_mut();
        for word in words {
            memory.in_use -= 1;
            memory.retired.push_back(word);
        }
    }

    /// So many words are not used any more, and never will be again: somebody may reach them yet.
    pub(crate) fn forget(&self, words: usize) {
        self.memory.borrow_mut().in_use -= words as u64;
    }

    /// A word that was never used; memory comes registered and zeroed.
    fn unused(&self) -> Option<RemoteSlice> {
        let mut memory = self.memory.borrow_mut();
        if memory.used_of_last == WORDS_A_REGION {
            let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_ATOMIC;
            let region = self.net.mesh().alloc(8 * WORDS_A_REGION, access).ok()?;
            // Words in use have names of their own: those of their locks.
            let words = Label::new("the locks' words").cut("word", 8);
            self.net.mesh().label(&region, 0..8 * WORDS_A_REGION, words).keep();
            memory.regions.push(region);
            memory.used_of_last = 0;
        }
        let at = 8 * memory.used_of_last;
        let word = memory.regions.last()?.remote(at..at + 8).ok()?;
        memory.used_of_last += 1;
        Some(word)
    }

    /// Sets a word that nobody else uses to zero: by the adapter, as everything is done to words.
    async fn scrub(&self, at: RemoteSlice) {
        let mut seen = Word::POISON;
        // Ends after one wrong guess for each unknown outcome.
        loop {
            match self.net.swap(self.net.mesh().me(), at, seen, Word::FREE).at((at, seen)).await {
                Ok(was) if was == seen => return,
                Ok(was) => seen = was,
                Err(_) => {}
            }
        }
    }

    /// A word's value as the processor sees it, for audits.
    pub(crate) fn look(&self, at: RemoteSlice) -> Option<u64> {
        let memory = self.memory.borrow();
        let region = memory.regions.iter().find(|region| {
            region.rkey() == at.rkey
                && (region.addr()..region.addr() + region.len() as u64).contains(&at.addr)
        })?;
        region.load((at.addr - region.addr()) as usize).ok()
    }

    /// All that decides which word is the next one.
    pub(super) fn numbers(&self) -> impl std::hash::Hash {
        let memory = self.memory.borrow();
        (memory.regions.len(), memory.used_of_last, memory.retired.clone(), memory.in_use)
    }

    /// Words in use, and words that were given up.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let memory = self.memory.borrow();
        (memory.in_use, memory.retired.len() as u64)
    }
}

/// Not among the sources, none of which names a backend: words are tried on the simulated fabric.
#[cfg(test)]
#[path = "../../tests/within/words.rs"]
pub(super) mod tests;
