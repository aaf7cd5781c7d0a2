//! What of a responder decides what can still happen; see the requester's `canonical`.

use super::{Answer, Message, ReadAnswer, Record, Responder};
use crate::explore::state_hash::StateHash;
use crate::hca::qp::Qp;
use crate::hca::requester::canonical::{CanonicalForm, digest_data};
use std::hash::Hash;

impl Qp {
    pub(in crate::hca) fn digest_responder(&self, form: CanonicalForm<'_>, hash: &mut StateHash) {
        // A message's sequence number (`msn`) is told and never looked at.
        let Responder { queue, expected, msn: _, refused, closing, closed, established, message, .. } =
            &self.rq;
        let Responder { records, most_records, answers, rnr_timer, .. } = &self.rq;
        let base = form.peer;
        (queue.len(), expected.since(base), refused, closing, closed, established, message).hash(hash);
        (most_records, rnr_timer).hash(hash);
        for wqe in queue {
            (wqe.len, wqe.wrong).hash(hash);
            if form.named {
                (wqe.wr_id, &wqe.data).hash(hash);
            }
        }
        if let (Message::Send { received }, Some(first)) = (message, queue.front()) {
            digest_data(&first.data, u64::from(*received), form.hw, hash);
        }
        // The requester asks again for nothing that it has the answer to; only an old request could.
        for Record { psn, packets, original } in records {
            if form.repeats || psn.since(base) >= 0 {
                (psn.since(base), packets, original).hash(hash);
            }
        }
        for answer in answers {
            match answer {
                Answer::Read(ReadAnswer { psn, sent, packets, from, msn: _, again }) => {
                    (0u8, psn.since(base), sent, packets, from, again).hash(hash);
                }
                Answer::Atomic { psn, original, msn: _, op } => {
                    (1u8, psn.since(base), original, op).hash(hash);
                }
                Answer::Ack { psn, syndrome, msn: _, op } => {
                    (2u8, psn.since(base), syndrome, op).hash(hash);
                }
            }
        }
    }
}
