//! Payloads that are too long to travel inside a packet value or a work request.

use crate::in_place::clone_in_place;

/// A pool of byte buffers, by number. Buffers keep their memory when they are given back.
#[derive(Debug, Default)]
pub struct Buffers {
    list: Vec<Vec<u8>>,
    free: Vec<u32>,
}

clone_in_place! { Buffers { list, free } }

impl Buffers {
    /// Takes a buffer of so many zeroed bytes.
    pub fn take(&mut self, len: usize) -> (u32, &mut [u8]) {
        let id = self.free.pop().unwrap_or_else(|| {
            self.list.push(Vec::new());
            (self.list.len() - 1) as u32
        });
        let buffer = &mut self.list[id as usize];
        buffer.clear();
        buffer.resize(len, 0);
        (id, buffer)
    }

    /// Takes a buffer with these bytes.
    pub fn keep(&mut self, bytes: &[u8]) -> u32 {
        let (id, buffer) = self.take(bytes.len());
        buffer.copy_from_slice(bytes);
        id
    }

    /// A buffer's bytes.
    pub fn get(&self, id: u32) -> &[u8] {
        &self.list[id as usize]
    }

    /// Gives a buffer back.
    pub fn give_back(&mut self, id: u32) {
        self.free.push(id);
    }

    /// How many buffers are in use.
    pub fn in_use(&self) -> usize {
        self.list.len() - self.free.len()
    }
}
