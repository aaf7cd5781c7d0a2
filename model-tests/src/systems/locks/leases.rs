//! What the history of locks has of leases: until when what a node holds counts.

use super::history::{Event, What};
use crate::record::Record;
use std::hash::{Hash, Hasher};
use weft_protocols::members::Members;
use weft_protocols::rt::Rt;
use weft_protocols::rt::fingerprint::StateHasher;
use weft_verbs::{Nanos, Verbs};

/// Records each renewal of a node's lease.
pub(super) async fn tell<V: Verbs>(members: Members<V>, rt: Rt<V>, node: u32, record: impl Record<Event>) {
    loop {
        let before = members.lease_until();
        members.lease_changed(before).await;
        let (until, Some(view)) = (members.lease_until(), members.view()) else { continue };
        if until > Nanos::ZERO {
            let mut hash = StateHasher::default();
            view.id.lineage.hash(&mut hash);
            let what = What::Leased { until, lineage: hash.finish() };
            record.record(Event::of_node(rt.now(), node, what));
        }
    }
}
