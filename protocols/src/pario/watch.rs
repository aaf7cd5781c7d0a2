//! Looks whether servers that owe answers are still there.
//!
//! A client whose request was received has nothing to send, and its server nothing to say until it answers. If the server begins
//! anew meanwhile, neither side would notice. So a client probes a server that has owed an answer for long; the probe breaks the
//! old connection, and the next one tells that the server began anew. Nothing runs while nothing is owed.

use super::service::Shared;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_verbs::{Nanos, Verbs};

/// Probes servers that owe answers, as long as the node's service runs.
pub(super) async fn watch<V: Verbs>(shared: Rc<Shared<V>>) {
    let me = shared.mesh.me();
    // When the last probe of each server ended: never, while it has not.
    let probed: Rc<RefCell<BTreeMap<_, Nanos>>> = Rc::default();
    while !shared.rt.is_closed() && !shared.mesh.is_closed() {
        let one_more = shared.calls.one_more();
        let owed = shared.calls.owed().into_iter().filter(|(server, _)| *server != me);
        let due = |(server, since): (_, Nanos)| {
            let last = probed.borrow().get(&server).copied().unwrap_or_default();
            (Nanos(last.max(since).0.saturating_add(shared.config.probe_after.0)), server)
        };
        let next = owed.map(due).filter(|(at, _)| *at < Nanos::MAX).min();
        let Some((at, server)) = next else {
            one_more.await;
            continue;
        };
        if shared.rt.now() < at {
            shared.rt.sleep_until(at).await;
            continue;
        }
        probed.borrow_mut().insert(server, Nanos::MAX);
        shared.stats.borrow_mut().probes += 1;
        let (shared_too, probed) = (Rc::clone(&shared), Rc::clone(&probed));
        drop(shared.rt.spawn(async move {
            shared_too.wire.probe(server).await;
            probed.borrow_mut().insert(server, shared_too.rt.now());
            shared_too.calls.look_again();
        }));
    }
}
