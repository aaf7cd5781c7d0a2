//! How a lock service is set up.

use super::codec::{LONGEST, STAMPED};
use super::{LockError, Scheme};
use crate::transport::Channel;

/// Half the range of the count in a word: the other half is room for all nodes' additions after the limit.
const SHARED_LIMIT: u32 = 1 << 31;

/// A lock service's settings. Every member needs the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockConfig {
    /// The protocol.
    pub scheme: Scheme,
    /// How many nodes keep locks: ranks 1 to this number are homes.
    pub members: u32,
    /// The channel of the mesh that the service's messages use. Default: 1.
    pub channel: Channel,
    /// How often a node that holds a lock exclusively may hand it off to the next of its own applications before
    /// the other nodes' turn comes, as cohort locks do. At most 255. Default: 4. Zero sends every request through the
    /// network.
    pub local_hand_offs: u32,
    /// N-CoSED: the count of shared requests in a lock's word from which on the word is given up and rebuilt, so
    /// that the count never overflows into the other half. At most, and by default, half the range of 32 bits:
    /// what is added while the word is being given up then fits. Small values are for tests.
    pub shared_limit: u32,
}

impl LockConfig {
    /// The defaults.
    pub const fn new(scheme: Scheme, members: u32) -> LockConfig {
        LockConfig { scheme, members, channel: Channel(1), local_hand_offs: 4, shared_limit: SHARED_LIMIT }
    }

    pub(crate) fn check(&self, mesh_size: u32, max_message: u32, in_views: bool) -> Result<(), LockError> {
        let wrong = |field, value: u32, must| Err(LockError::Config { field, value: value.into(), must });
        if self.members == 0 || self.members > mesh_size {
            return wrong("members", self.members, "between 1 and the number of nodes in the mesh");
        }
        if self.local_hand_offs > 255 {
            return wrong("local_hand_offs", self.local_hand_offs, "at most 255");
        }
        if self.shared_limit == 0 || self.shared_limit > SHARED_LIMIT {
            return wrong("shared_limit", self.shared_limit, "between 1 and 2147483648");
        }
        if max_message < LONGEST as u32 {
            return wrong("the mesh's max_message", max_message, "at least 40");
        }
        if in_views && max_message < STAMPED as u32 {
            return wrong("the mesh's max_message", max_message, "at least 48 with members");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_configuration_is_named() {
        let good = LockConfig::new(Scheme::Srsl, 3);
        assert_eq!(good.check(3, 40, false), Ok(()));
        assert_eq!(good.check(3, 48, true), Ok(()));
        assert_eq!(LockConfig { local_hand_offs: 255, ..good }.check(3, 40, false), Ok(()));
        for (bad, expected) in [
            (LockConfig { members: 0, ..good }, "members"),
            (LockConfig { members: 4, ..good }, "members"),
            (LockConfig { local_hand_offs: 256, ..good }, "local_hand_offs"),
            (LockConfig { shared_limit: 0, ..good }, "shared_limit"),
            (LockConfig { shared_limit: (1 << 31) + 1, ..good }, "shared_limit"),
        ] {
            match bad.check(3, 40, false) {
                Err(LockError::Config { field, .. }) => assert_eq!(field, expected),
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(good.check(3, 39, false), Err(LockError::Config { value: 39, .. })));
        assert!(matches!(good.check(3, 47, true), Err(LockError::Config { value: 47, .. })));
    }
}
