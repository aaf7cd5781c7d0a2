//! What a node's lock service has done.

use std::cell::Cell;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts since the service started, of this node alone.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct LockStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The counts while they grow.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Cell<u64>,)*
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> LockStats {
                LockStats { $($name: self.$name.get(),)* }
            }
        }

        /// What was counted since an earlier moment.
        impl std::ops::Sub for LockStats {
            type Output = LockStats;

            fn sub(self, earlier: LockStats) -> LockStats {
                LockStats { $($name: self.$name - earlier.$name,)* }
            }
        }

        impl std::ops::AddAssign for LockStats {
            fn add_assign(&mut self, other: LockStats) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Requests that applications made.
    requests,
    /// Requests that were granted.
    grants,
    /// Grants that served a waiting application without another request in the network: an exclusive hold
    /// handed off locally, or a shared one used by several.
    local_grants,
    /// Exclusive holds that became shared ones.
    downgrades,
    /// Requests whose application left before the grant: a deadline that fired, a future that was dropped. Also grants that were lost with
    /// their view, once they are given back.
    abandoned,
    /// Grants from the network that nobody waited for any more, and that were passed on.
    late_grants,
    /// Compare-and-swaps posted, the home's own included.
    compare_swaps,
    /// Fetch-and-adds posted.
    fetch_adds,
    /// Compare-and-swaps that found another value than they guessed.
    swap_misses,
    /// Atomics that certainly did not execute and were posted again.
    reposted,
    /// Atomics whose outcome was unknown.
    unknown_outcomes,
    /// Words that this node, as their home, gave up and rebuilt.
    rebuilds,
    /// Protocol messages sent, those of this node to itself as a lock's home included.
    messages_sent,
    /// Protocol messages received, those of this node to itself included.
    messages_received,
    /// Messages of an epoch that was over, dropped as the protocol wants it.
    stale_messages,
    /// Messages that could not be decoded, dropped.
    malformed,
    /// Messages that contradict the protocol, dropped. Anything but zero is a bug of the sender.
    out_of_turn,
}

/// Adds to a count.
pub(crate) fn bump(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}
