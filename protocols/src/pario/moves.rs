//! Transfers of a unit: posted lists with one completion each (5.3), done again until they are done.

use super::access::Run;
use super::buffer::Buffer;
use super::messages::Request;
use super::service::{Life, Shared};
use crate::rt::BufferGuard;
use crate::transport::{BEFORE_MEMORY_IS_ASKED_FOR, Lost, NotExecuted, OpError};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use weft_verbs::{RemoteSlice, SendOp, Verbs, WcError};

/// What a server offers: a place in its staging, for runs of the client's memory.
pub(super) struct Offer {
    pub op: u64,
    pub place: RemoteSlice,
    pub runs: Vec<Run>,
    /// The client is to write, and not to read.
    pub writes: bool,
}

/// A client moves what it was offered a place for, and says so. The place is the client's until then, and no transfer of it may be
/// executed after that: `moved` returns when each has ended, or is fenced.
pub(super) async fn take<V: Verbs>(
    shared: Rc<Shared<V>>,
    server: Life,
    id: u64,
    offer: Offer,
    buffer: Option<Buffer<V>>,
) {
    let Offer { op, place, runs, writes } = offer;
    let list = buffer.and_then(|buffer| transfers(&buffer, place, &runs, writes));
    let done = match list {
        None => false,
        Some(list) => {
            let (mut moving, mut ended) = (pin!(moved(&shared, server, &list)), pin!(shared.call_ended(id)));
            let done = poll_fn(|cx| match ended.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => moving.as_mut().poll(cx).map(Some),
            });
            // A call ends before its offers only where the server began anew: its buffer is the user's again, the old connection
            // is fenced, and nothing more may be begun.
            let Some(done) = done.await else { return };
            done
        }
    };
    // A server that cannot be told has begun anew, and has forgotten.
    drop(shared.wire.ask(server.peer, id, Request::Moved { op, done }).await);
}

/// The transfers of an offer; none if it is of no such memory.
fn transfers<V: Verbs>(
    buffer: &Buffer<V>,
    place: RemoteSlice,
    runs: &[Run],
    writes: bool,
) -> Option<Vec<Transfer<V>>> {
    let mut staged = 0_u32;
    let transfer = |run: &Run| {
        let end = staged.checked_add(run.len)?;
        let there = place.slice(staged..end)?;
        staged = end;
        let op = if writes { SendOp::Write { to: there, imm: None } } else { SendOp::Read { from: there } };
        Some((op, buffer.guard(run.at, run.len)?))
    };
    runs.iter().map(transfer).collect()
}

/// One transfer of a list, and its memory on this node.
pub(super) type Transfer<V> = (SendOp<'static, V>, BufferGuard<V>);

/// Carries out the transfers of a unit; whether all are done.
///
/// A read that ended in an error changed nothing at the peer, and when it has ended, the adapter puts nothing into this node's
/// memory any more: it is done again on the next connection. A write of unknown outcome may be executed late: it is done again
/// once it cannot, and the memory there, which belongs to the transfer until both sides know that it is over, gets the same bytes
/// whatever became of it.
/// Nothing is posted to another life of the peer than the one whose memory it is.
pub(super) async fn moved<V: Verbs>(shared: &Shared<V>, life: Life, list: &[Transfer<V>]) -> bool {
    let peer = life.peer;
    let longest = shared.mesh.longest_list(peer);
    'list: loop {
        let mut rest = list;
        while !rest.is_empty() {
            if shared.is_over(life) {
                return false;
            }
            // One doorbell and one completion for many (5.3).
            let (posted, now) = if longest >= 16
                && let Some((now, behind)) = rest.split_first_chunk::<16>()
            {
                (shared.mesh.post_list(peer, copies(now)).await.map(drop), behind)
            } else if longest >= 4
                && let Some((now, behind)) = rest.split_first_chunk::<4>()
            {
                (shared.mesh.post_list(peer, copies(now)).await.map(drop), behind)
            } else if let Some((now, behind)) = rest.split_first_chunk::<1>() {
                (shared.mesh.post_list(peer, copies(now)).await.map(drop), behind)
            } else {
                (Ok(()), rest)
            };
            match posted {
                Ok(()) => rest = now,
                // Messages carry a transfer over another rail than the memory's, and need some for themselves.
                Err(why) if why.lacks_memory() => shared.rt.sleep(BEFORE_MEMORY_IS_ASKED_FOR).await,
                Err(why) if is_final(&why) => return false,
                Err(why) => {
                    again(shared, &why);
                    let writes = list.iter().any(|(op, _)| matches!(op, SendOp::Write { .. }));
                    if writes
                        && matches!(why, OpError::Unknown(_))
                        && shared.mesh.resolve_outcomes(peer).await.is_err()
                    {
                        return false;
                    }
                    continue 'list;
                }
            }
        }
        return true;
    }
}

fn copies<V: Verbs, const N: usize>(list: &[Transfer<V>; N]) -> [Transfer<V>; N] {
    std::array::from_fn(|nth| {
        let (op, guard) = &list[nth];
        let guard = match guard {
            BufferGuard::Range { mr, at, len } => BufferGuard::Range { mr: mr.clone(), at: *at, len: *len },
            _ => BufferGuard::Nothing,
        };
        (*op, guard)
    })
}

fn again<V: Verbs>(shared: &Shared<V>, why: &OpError) {
    let mut stats = shared.stats.borrow_mut();
    stats.again += 1;
    stats.unknown_outcomes += u64::from(matches!(why, OpError::Unknown(_)));
}

/// Whether a transfer can never be done: the client is gone, or what it offered is no memory.
fn is_final(why: &OpError) -> bool {
    match why {
        OpError::NotExecuted(NotExecuted::Failed(status)) => is_refusal(*status),
        OpError::NotExecuted(_) => true,
        OpError::Unknown(Lost::Failed(status)) => is_refusal(*status),
        OpError::Unknown(_) => false,
    }
}

/// Whether the far side's adapter refused the request itself, as it will again.
fn is_refusal(status: WcError) -> bool {
    matches!(status, WcError::RemAccess | WcError::RemInvReq | WcError::RemOp)
}
