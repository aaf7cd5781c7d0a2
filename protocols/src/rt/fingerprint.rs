//! Fingerprints: for explorers, which ask whether two states are the same.
//!
//! A node's fingerprint has two parts. What its tasks know is said at their [wait points](super::WaitPoint). What its
//! structures hold (outstanding requests, sessions, a protocol's state machines) is hashed from them, between two steps.
//! If either cannot be said the node has no fingerprint, and counts by all that it has seen.
//!
//! A deployed protocol needs nothing of this module.

use super::Rt;
use super::ledger::Side;
use super::qp_handle::QpHandle;
use super::slots::BufferGuard;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use weft_verbs::{QpNum, Verbs, WcOp};

/// What an adapter holds of a queue pair's requests, and its program cannot know. Who sees both says it.
pub trait AdapterState {
    /// Send requests of a rail's queue pair that have not ended.
    fn unended_sends(&self, rail: u8, qp: QpNum) -> u32;

    /// Bytes of the n-th message, from 0, that was received and of which the program has not been told.
    fn arrived(&self, rail: u8, qp: QpNum, n: usize) -> Option<u32>;
}

/// A hash of 128 bits, in two lanes: it tells states of one program apart, and is not for adversaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateHasher(u64, u64);

impl Default for StateHasher {
    fn default() -> StateHasher {
        StateHasher(0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344)
    }
}

const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

impl StateHasher {
    /// That of one thing.
    pub(crate) fn of(what: &impl Hash) -> StateHasher {
        let mut print = StateHasher::default();
        what.hash(&mut print);
        print
    }

    /// The hash of all that was written.
    pub fn whole(self) -> u128 {
        u128::from(fold(self.0, 0xa409_3822_299f_31d1)) << 64
            | u128::from(fold(self.1, 0x082e_fa98_ec4e_6c89))
    }
}

impl Hasher for StateHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.write_u64(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.write_u64(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = fold(self.0 ^ word, 0xa076_1d64_78bd_642f);
        self.1 = fold(self.1.rotate_left(23) ^ word, 0xe703_7ed1_a0b4_28db);
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(n.into());
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn finish(&self) -> u64 {
        self.whole() as u64
    }
}

impl Hash for StateHasher {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.0, self.1).hash(to);
    }
}

impl<V: Verbs> Rt<V> {
    /// From now on [wait points](super::WaitPoint) are noted, so that [`Rt::fingerprint`] can tell of them. Before the
    /// first step.
    pub fn note_waits(&self) {
        self.inner.executor.note_waits();
    }

    /// Adds what the runtime and its tasks know to a hash, between two steps. False if that cannot be said: a task says
    /// nothing where it waits, or waits for a time, or has something to do. Outstanding requests are told by their
    /// [queue pair](QpHandle::fingerprint).
    pub fn fingerprint(&self, to: &mut impl Hasher) -> bool {
        (self.is_closed(), self.inner.arming.get(), self.inner.looked.get()).hash(to);
        self.inner.requests.borrow().ledgers.in_vain().hash(to);
        self.inner.cqs.borrow().fingerprint(to);
        let executor = &self.inner.executor;
        let quiet = self.inner.timers.borrow().alive() == 0 && !executor.has_ready();
        quiet && executor.fingerprint(to)
    }

    /// How many tasks wait and say nothing. In a system that says something, none should.
    pub fn silent_tasks(&self) -> usize {
        self.inner.executor.silent()
    }

    /// How many requests are known to the runtime: as many as its queue pairs tell of, or some are in no fingerprint.
    pub(crate) fn requests_known(&self) -> usize {
        self.inner.requests.borrow().slots.in_use()
    }
}

impl<V: Verbs> QpHandle<V> {
    /// Adds what is outstanding to a hash: in order, and without the names of requests and places in memory, since
    /// requests of one queue end in order. Says how many there are.
    pub fn fingerprint(&self, adapter: &impl AdapterState, to: &mut impl Hasher) -> usize {
        let num = self.num();
        let rt = self.rt();
        let rail = rt.on();
        let requests = &mut *rt.inner.requests.borrow_mut();
        let (ledgers, slots) = (&requests.ledgers, &mut requests.slots);
        let (ledger, id) = (ledgers, self.id());
        (num, self.is_fenced(), ledger.is_broken(id), ledger.unsignaled_tail(id)).hash(to);
        let (sends, receives) = (ledger.outstanding(id, Side::Send), ledger.outstanding(id, Side::Receive));
        (sends.len(), receives.len(), ledger.watchers(id)).hash(to);
        let ended = sends.len().saturating_sub(adapter.unended_sends(rail, num) as usize);
        for (n, &request) in sends.iter().enumerate() {
            slots.tell(request, to, |op, guard| {
                let fetched = matches!(op, WcOp::CompareSwap | WcOp::FetchAdd | WcOp::Read);
                if fetched && n < ended { guard.len() } else { 0 }
            });
        }
        for (n, &request) in receives.iter().enumerate() {
            slots.tell(request, to, |_, _| adapter.arrived(rail, num, n).unwrap_or(0));
        }
        sends.len() + receives.len()
    }
}

impl<V: Verbs> BufferGuard<V> {
    /// Its length in bytes.
    pub fn len(&self) -> u32 {
        match self {
            BufferGuard::Nothing => 0,
            BufferGuard::Range { len, .. } | BufferGuard::Block { len, .. } => *len,
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a range of its bytes to a hash, as far as it has them.
    pub(crate) fn hash_bytes(&self, range: Range<u32>, to: &mut impl Hasher) {
        let mut piece = [0; 64];
        let end = range.end.min(self.len());
        for at in (range.start..end).step_by(piece.len()) {
            let piece = &mut piece[..(end - at).min(64) as usize];
            (self.read_at(at, piece).is_ok(), piece).hash(to);
        }
    }
}
