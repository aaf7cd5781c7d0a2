//! How a node leaves its streams: with nothing owed either way.

use super::service::Sdp;
use weft_verbs::{Nanos, Verbs};

/// How often it is looked whether anything is owed.
const GLANCE: Nanos = Nanos::from_millis(1);

impl<V: Verbs> Sdp<V> {
    /// Waits until this node and its peers owe each other nothing, at most so long, and says whether it came to that: each stream has
    /// ended, and each message is acknowledged, this node's and theirs. A node that goes before it has acknowledged what it got leaves
    /// peers that wait for that in vain.
    pub async fn settle(&self, most: Nanos) -> bool {
        let rt = &self.shared.rt;
        let until = rt.now() + most;
        let mut before = false;
        loop {
            let settled = self.owes_nothing();
            // The last acknowledgement was given to the adapter, and takes its way: who looks twice has left it the time.
            if settled && before {
                return true;
            }
            if rt.now() >= until {
                return false;
            }
            before = settled;
            rt.sleep(GLANCE).await;
        }
    }

    fn owes_nothing(&self) -> bool {
        let mesh = self.shared.mesh.audit();
        self.streams() == 0 && mesh.unacked == 0 && mesh.acks_owed == 0
    }
}
