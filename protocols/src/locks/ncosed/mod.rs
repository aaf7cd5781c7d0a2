//! N-CoSED: shared and exclusive locks by remote atomics on one word (ncosed.txt, 3.2), repaired.
//!
//! A lock's word lives at its home. `[tail | count]`: the rank of the last node in the exclusive queue, and the
//! number of shared requests since that node entered it. An exclusive request replaces the whole word by
//! compare-and-swap, a shared one adds one; what they find there tells them what to wait for.
//!
//! # The protocol, where the paper is silent
//!
//! Each choice names the case that forces it. "Node" is a daemon; it has one request a lock in the network.
//!
//! 1. *A failed compare-and-swap is retried with the whole returned word*, not with its tail and a zero count
//!    (3.2.1, step 3): a word `t:s` with s > 0 would never match. The requester then tells the old tail how
//!    many shared requests, s, were sent there before it ([`Message::Queue`]), or tells the home, if there was
//!    no tail ([`Message::Wait`]).
//! 2. *"The exclusive region is zero" is not enough to hold exclusively* (3.2.1, step 2): in `0:s`, s shared
//!    holders may still hold. They release to the home, which counts.
//! 3. *The last exclusive holder does not reset both halves* (3.2.1, unlocking, step 2): the g shared requests
//!    that found it there will release to the home, and the home would wait for a count that is gone. It does
//!    `me:g -> 0:g`, and retries with what it learns.
//! 4. *A leaving holder waits for everybody who was sent to it*, before it passes the lock on and before its
//!    node requests the lock again. Case: reader R adds to `x:0`, and its message to x is slow; x passes the
//!    lock to its successor, queues again and is the tail again; reader S adds and writes to x. x cannot tell
//!    R, whom it owes a grant now, from S, who must wait for x's second hold.
//! 5. *A leaving holder that finds another tail waits for its successor's message.* It knows from the failed
//!    compare-and-swap that the message is on its way.
//! 6. *The home spends releases anonymously, and one thing at a time.* It counts releases (R); a `Wait(y, s)`
//!    spends s. When nobody waits it tries `0:R -> 0:0`, and serves nothing else while that compare-and-swap
//!    is out. Case: with R = 1 it executes, another reader comes and holds, y replaces `0:1`, and `Wait(y, 1)`
//!    arrives before the answer: served from the release that the reset has spent, y would hold beside the
//!    reader.
//! 7. *A leaving holder that leaves `0:g` with g > 0 asks the home to retry its reset.* Case: all g have been granted,
//!    and their releases came while the word still had a tail, so that the home's attempts failed; nobody else would
//!    make it try again, and the word would never be free.
//! 8. *A retry that is asked for while the home's compare-and-swap is out is remembered.* Case: that one executed
//!    just before the holder's, and its failure arrives after the message.
//! 9. *A try to share adds by compare-and-swap.* A fetch-and-add that finds an exclusive tail cannot be taken
//!    back: taking one off again could hit the count of another tail.
//! 10. *An exclusive holder that goes on sharing leaves as in 3, and is counted*: `me:g -> 0:g+1`, or, in front
//!     of a successor (y, s), `Wait(y, s+1)` for the home. It grants those who share and were sent to it, from
//!     that moment on, and its own hold ends as theirs do, by a release to the home. All releases that are
//!     unspent while it holds are of its own group (who shared before it had released, and were accounted for,
//!     before it was granted; who shares after y is not granted before y is done), so the home, which does not
//!     know whose release it spends, has one more of that group to spend and one more to wait for.
//!
//! # Atomics of unknown outcome: the rebuild
//!
//! A completion error leaves open whether the atomic executed. Nobody can find out by reading: an addition is
//! anonymous, and others build on what they find. So the word is given up, and an *epoch* of the lock ends:
//!
//! - The transport is asked to resolve the connection ([`Wire`] answers only then): the responder has fenced
//!   the old queue pair, and the atomic's outcome, though unknown, is *fixed*.
//! - The node **reports** to the home what it has to do with the lock: it holds, it wants, or nothing. From
//!   then on it neither sends nor heeds messages of this epoch and does not touch its word.
//! - The first report makes the home serve nothing more in this epoch, and **freeze** all who know the word.
//!   Each lets its own atomic come home and reports. A result that comes after the freeze counts as never
//!   received: what the node then has not learned, it does not act upon.
//! - When all have reported, nobody uses the word any more. The home reads it once more and poisons it, makes a
//!   queue of the reports ([`rebuild`]), and **grants** the lock along it; those who hold release to the home.
//! - When that queue is empty, the home opens a fresh word to all under the next epoch. Requests made in the
//!   meantime wait on their nodes for that, and tries are refused.
//!
//! The same happens when the shared count passes a limit (half its range), long before it could carry into
//! the tail, and when the home's own compare-and-swap has an unknown outcome.
//!
//! ## Why no two hold across it
//!
//! Let each node's report, and the home's freezing, be a cut through the run of the base protocol. The cut is
//! consistent: who has passed it sends nothing of the epoch, so nothing is received before the cut that was
//! sent after it; and no atomic executes after its issuer's report, for it has come home or is fenced. An
//! atomic that executed and whose result was never received is an answer still in flight, which is a state of
//! the base protocol like any other. So the cut is a state that the base protocol can reach, and those who
//! report that they hold are its holders, who exclude each other as the base protocol promises. They hold
//! until they release to the home, or tell it that they share from now on; it hears of each from itself, in
//! order. It grants as a lock server does, to nodes that reported that they wanted, and each of them is granted
//! once. No message of the old epoch grants anything, since all are frozen. The next epoch begins when nobody
//! holds, with a word at zero.
//!
//! The word's poison and its fresh address are not needed for that. They are there so that a late atomic,
//! should a fence ever fail, does no harm and is noticed.
//!
//! ## Why it ends
//!
//! Every message arrives once peers can reach each other again, every atomic comes home or is resolved, so all
//! reports come; the rebuilt queue is finite; and each of its holders releases, or its application holds.

mod exclusive;
mod home;
mod messages;
mod rebuild;
mod requester;
mod requester_state;
mod serving;
mod word;

#[cfg(test)]
mod home_tests;
#[cfg(test)]
mod messages_tests;
#[cfg(test)]
mod requester_state_tests;
#[cfg(test)]
mod requester_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod view_world;
#[cfg(test)]
mod world;

pub(crate) use home::{Action, Actions, Event, Home};
pub(crate) use messages::Message;
pub(crate) use requester::{Refused, Requester, Sharing};
pub(crate) use word::Word;

use super::LockKey;
use super::stats::Counters;
use crate::transport::Rank;
use std::future::Future;
use weft_verbs::RemoteSlice;

/// An atomic may or may not have executed, and will not execute from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutcomeUnknown;

/// What a requester needs of its node's network.
///
/// Atomics are resolved before they are answered: with [`OutcomeUnknown`], no late copy can execute any more. An
/// atomic that certainly did not execute is posted again until it has an answer. Whoever drops the future of one does not
/// look at its word any more; the network sees to it that a late copy does no harm.
pub(crate) trait Wire: 'static {
    /// This node.
    fn me(&self) -> Rank;
    /// The number of the view of the membership that it acts in; 0 for none.
    fn view(&self) -> u64;
    /// Sends a message: in order with the others to that node, exactly once.
    fn send(&self, to: Rank, key: LockKey, message: Message);
    /// Compare-and-swap on a word at `home`: the old value.
    fn compare_swap(
        &self,
        home: Rank,
        at: RemoteSlice,
        compare: Word,
        swap: Word,
    ) -> impl Future<Output = Result<Word, OutcomeUnknown>>;
    /// Fetch-and-add on a word at `home`: the old value.
    fn fetch_add(
        &self,
        home: Rank,
        at: RemoteSlice,
        add: u64,
    ) -> impl Future<Output = Result<Word, OutcomeUnknown>>;
    /// Where to count.
    fn counters(&self) -> &Counters;
}
