//! What of a queue pair decides what can still happen, without the names that only its history gave.
//!
//! Sequence numbers are told by their distance from the oldest that the requester has no answer to, since the engine
//! compares them by their distance and in no other way. An identity of a work request, and where its data lies, are
//! names that the program gave: one that says its own content says what it does with them.

use super::Requester;
use crate::explore::state_hash::StateHash;
use crate::hca::qp::Qp;
use crate::hca::wqe::{Gather, SendWqe};
use crate::hca::{Buffers, Hardware};
use std::hash::Hash;
use weft_verbs::{Nanos, Psn};

/// How a queue pair is told.
#[derive(Clone, Copy)]
pub(crate) struct CanonicalForm<'a> {
    pub hw: &'a Hardware,
    pub buffers: &'a Buffers,
    /// With the names that its program gave.
    pub named: bool,
    /// The number by which its peer's requests are told.
    pub peer: Psn,
    /// A request that was answered may still come again: the records of answers count.
    pub repeats: bool,
}

impl Qp {
    /// All that decides what it does next, up to names.
    pub(crate) fn digest_canonical(&self, form: CanonicalForm<'_>, hash: &mut StateHash) {
        (self.num, self.state(), self.new.caps.max_inline, self.peer(), self.route()).hash(hash);
        self.digest_attributes(hash);
        (self.deadline != Nanos::MAX).hash(hash);
        self.sq.digest_canonical(form, hash);
        self.digest_responder(form, hash);
    }
}

impl Requester {
    fn digest_canonical(&self, form: CanonicalForm<'_>, hash: &mut StateHash) {
        let Requester {
            queue, next, sent, psn, unacked, next_psn, fetches, unasked, slots, unsignaled, ..
        } = self;
        let Requester { notify_drained, max_fetches, timeout, stretch, retries, retries_left, .. } = self;
        let Requester { rnr_retries, rnr_left, rnr_wait, gap_known, .. } = self;
        let base = *unacked;
        (queue.len(), next, sent, psn.since(base), next_psn.since(base), fetches, unasked).hash(hash);
        (slots, unsignaled, notify_drained, max_fetches, timeout, stretch, retries, retries_left).hash(hash);
        (rnr_retries, rnr_left, rnr_wait, gap_known.map(|gap| gap.since(base))).hash(hash);
        queue.iter().for_each(|wqe| digest_request(wqe, base, form, hash));
    }
}

fn digest_request(wqe: &SendWqe, base: Psn, form: CanonicalForm<'_>, hash: &mut StateHash) {
    let SendWqe { wr_id, op, data, inline, flags, len, posted_at, wrong, begun, psn, packets } = wqe;
    (op, flags, len, wrong, begun.then(|| (psn.since(base), packets))).hash(hash);
    (!begun).then_some(posted_at).hash(hash);
    inline.map(|id| form.buffers.get(id)).hash(hash);
    if form.named {
        (wr_id, data).hash(hash);
    } else if wrong.is_some() {
        // It fails in its turn, and nobody looks.
    } else if !op.is_fetch() || (*begun && *packets > 1) {
        // What will be read from there; or what of an answer in several packets is there already.
        digest_data(data, u64::MAX, form.hw, hash);
    }
}

/// The first bytes of a list's memory.
pub(in crate::hca) fn digest_data(data: &Gather, most: u64, hw: &Hardware, hash: &mut StateHash) {
    let mut left = most;
    for sge in data.list() {
        let len = u64::from(sge.len).min(left) as u32;
        left -= u64::from(len);
        if let Some(region) = hw.memory.get(sge.mr) {
            region.bytes.digest(sge.at as usize, len as usize, hash);
        }
    }
}
