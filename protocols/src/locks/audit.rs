//! What a lock service holds at a moment, for those who check that nothing is left behind.

/// What this node's lock service holds, as an application, as a member of queues and as a home.
///
/// At rest (no application holds or waits, no message is on its way) everything in [`Audit::leftovers`] is
/// zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Locks that applications of this node hold.
    pub grants_held: u64,
    /// Requests of applications of this node that wait.
    pub requests_waiting: u64,
    /// Locks for which this node is in some distributed queue, holds, or has not finished releasing.
    pub requesters_active: u64,
    /// Locks of this home that are held or waited for, as far as the home's own books know.
    pub home_entries: u64,
    /// Releases that arrived at this home and have not been accounted for.
    pub releases_unspent: u64,
    /// Words of this home that are not zero.
    pub words_not_free: u64,
    /// Locks of this home that are being rebuilt.
    pub rebuilding: u64,
    /// Messages kept back because the mesh had no room for them.
    pub messages_kept: u64,
    /// Locks that this node has used: no leftover.
    pub locks_known: u64,
    /// Locks of this home that were ever asked for: no leftover.
    pub locks_kept: u64,
    /// Words of this home in use. One for each lock that was ever opened: no leftover.
    pub words_in_use: u64,
    /// Words of this home that were given up after a rebuild and wait for their next use: no leftover.
    pub words_retired: u64,
}

impl Audit {
    /// What should be zero at rest, by name.
    pub fn leftovers(&self) -> [(&'static str, u64); 8] {
        [
            ("grants held", self.grants_held),
            ("requests waiting", self.requests_waiting),
            ("requesters active", self.requesters_active),
            ("home entries", self.home_entries),
            ("releases unspent", self.releases_unspent),
            ("words not free", self.words_not_free),
            ("locks rebuilding", self.rebuilding),
            ("messages kept back", self.messages_kept),
        ]
    }

    /// Whether nothing is left behind.
    pub fn is_clean(&self) -> bool {
        self.leftovers().iter().all(|&(_, n)| n == 0)
    }
}
