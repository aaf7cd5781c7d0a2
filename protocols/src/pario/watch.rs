//! Looks whether those who owe something are still there: servers that owe answers, and clients that have been offered a place in staging.
//!
//! A client whose request was received has nothing to send, and its server nothing to say until it answers. If the server begins
//! anew meanwhile, neither side would notice; nor would a server whose client begins anew before it has moved what it was offered. So who
//! has owed something for long is probed; the probe breaks the old connection, and the next one tells that the other end began anew.
//! Nothing runs while nothing is owed.

use super::server;
use super::service::Shared;
use crate::transport::Rank;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_verbs::{Nanos, Verbs};

/// Since when clients have had an offer of this node's server: of each, since it was seen first.
fn offered<V: Verbs>(shared: &Shared<V>, since: &mut BTreeMap<Rank, Nanos>) {
    let (now, clients) = (shared.rt.now(), server::offered_to(shared));
    *since = clients.into_iter().map(|client| (client, since.get(&client).copied().unwrap_or(now))).collect();
}

/// Probes who owes something, as long as the node's service runs.
pub(super) async fn watch<V: Verbs>(shared: Rc<Shared<V>>) {
    let me = shared.mesh.me();
    // When the last probe of each node ended: never, while it has not.
    let probed: Rc<RefCell<BTreeMap<_, Nanos>>> = Rc::default();
    let mut offers = BTreeMap::new();
    while !shared.rt.is_closed() {
        let one_more = shared.calls.one_more();
        offered(&shared, &mut offers);
        let owed = shared.calls.owed().into_iter().chain(offers.clone()).filter(|(who, _)| *who != me);
        let due = |(who, since): (_, Nanos)| {
            let last = probed.borrow().get(&who).copied().unwrap_or_default();
            (Nanos(last.max(since).0.saturating_add(shared.config.probe_after.0)), who)
        };
        let next = owed.map(due).filter(|(at, _)| *at < Nanos::MAX).min();
        let Some((at, who)) = next else {
            one_more.await;
            continue;
        };
        if shared.rt.now() < at {
            shared.rt.sleep_until(at).await;
            continue;
        }
        probed.borrow_mut().insert(who, Nanos::MAX);
        shared.stats.borrow_mut().probes += 1;
        let (shared_too, probed) = (Rc::clone(&shared), Rc::clone(&probed));
        drop(shared.rt.spawn(async move {
            shared_too.wire.probe(who).await;
            probed.borrow_mut().insert(who, shared_too.rt.now());
            shared_too.calls.look_again();
        }));
    }
}
