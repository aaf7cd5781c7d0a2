//! What a node's lock service still knows, for explorers: see [`rt::fingerprint`](crate::rt::fingerprint).

use super::LockService;
use super::daemon::Daemon;
use std::hash::{Hash, Hasher};
use weft_verbs::Verbs;

impl<V: Verbs> LockService<V> {
    /// Adds what the service still knows to a hash; what its tasks know is the
    /// [runtime's](crate::rt::Rt::fingerprint) to tell. False if that cannot be said: messages are kept back.
    pub fn fingerprint(&self, to: &mut impl Hasher) -> bool {
        let stats = self.stats();
        (stats.out_of_turn, stats.malformed).hash(to);
        // By these it is judged whether every request was counted once. The other counts are for reports.
        (stats.requests.wrapping_sub(stats.grants), stats.late_grants, stats.abandoned).hash(to);
        self.next_ticket().hash(to);
        self.daemon().fingerprint(to)
    }
}

impl<V: Verbs> Daemon<V> {
    fn fingerprint(&self, to: &mut impl Hasher) -> bool {
        self.each_lock(|key, served, queue, requester| {
            (key, served, queue).hash(to);
            requester.hash_state(to);
        });
        self.homes().hash_state(to);
        self.keeps_nothing_back()
    }
}

#[cfg(test)]
#[path = "fingerprint_tests.rs"]
mod tests;
