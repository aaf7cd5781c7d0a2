//! One-sided operations: posted once, in line with the others to the same peer, and never sent again by the
//! transport. What became of them is told as it is.

use super::link::Event;
use super::mesh::{BULK, Mesh, Shared};
use super::peer::{Life, Peer};
use super::room;
use super::stand_in::{Asker, Atomic, StandIn};
use super::{Lost, NotExecuted, OpError, Rank};
use crate::rt::{BufferGuard, Failed, Local, QpHandle};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use weft_verbs::{AccessFlags, FarSide, ProtectionDomain, RemoteSlice, SendOp, Verbs, VerbsError};

impl<V: Verbs> Mesh<V> {
    /// Compare-and-swap on a peer's word, or one's own through the adapter: the word's old value, which
    /// equals `compare` exactly where the swap was done.
    ///
    /// Waits for the connection for as long as it takes: set a deadline. Like every operation toward a peer that was never met, it is for
    /// whichever incarnation connects first, unless one is [expelled](Mesh::expel) before.
    pub async fn compare_swap(
        &self,
        to: Rank,
        at: RemoteSlice,
        compare: u64,
        swap: u64,
    ) -> Result<u64, OpError> {
        self.atomic(None, to, at, |at| SendOp::CompareSwap { at, compare, swap }).await
    }

    /// Fetch-and-add on a peer's word, or one's own through the adapter: the word's old value.
    pub async fn fetch_add(&self, to: Rank, at: RemoteSlice, add: u64) -> Result<u64, OpError> {
        self.atomic(None, to, at, |at| SendOp::FetchAdd { at, add }).await
    }

    /// An atomic, for a peer that asked for it or for this node itself.
    pub(super) async fn atomic(
        &self,
        by: Asker,
        to: Rank,
        at: RemoteSlice,
        op: impl Fn(RemoteSlice) -> SendOp<'static, V>,
    ) -> Result<u64, OpError> {
        let at = word_of(at)?;
        let guard = self.buffer(8)?;
        // The far side refuses an atomic in whole or not at all.
        let part = |status| OpError::NotExecuted(NotExecuted::Failed(status));
        let guard = self.operate_for(by, to, op(at), guard, part).await?;
        let mut old = [0; 8];
        copy_out(&guard, &mut old)?;
        Ok(u64::from_ne_bytes(old))
    }

    /// Reads a peer's memory, as many bytes as `into` has. More than one word may be torn.
    pub async fn read(&self, to: Rank, from: RemoteSlice, into: &mut [u8]) -> Result<(), OpError> {
        let from = exactly(from, into.len())?;
        let guard = self.buffer(into.len())?;
        let guard = self.operate(to, SendOp::Read { from }, guard, NotExecuted::Failed).await?;
        copy_out(&guard, into)
    }

    /// Writes a peer's memory; returns once the peer's adapter has acknowledged it. An error may leave a part
    /// written.
    pub async fn write(&self, to: Rank, at: RemoteSlice, bytes: &[u8]) -> Result<(), OpError> {
        self.write_for(None, to, at, bytes).await
    }

    /// The same, for a peer that asked for it or for this node itself.
    pub(super) async fn write_for(
        &self,
        by: Asker,
        to: Rank,
        at: RemoteSlice,
        bytes: &[u8],
    ) -> Result<(), OpError> {
        let at = exactly(at, bytes.len())?;
        let guard = self.buffer(bytes.len())?;
        guard.write_at(0, bytes).map_err(refused)?;
        let op = SendOp::Write { to: at, imm: None };
        let part = |status| match bytes.len() {
            0..=1 => OpError::NotExecuted(NotExecuted::Failed(status)),
            _ => OpError::Unknown(Lost::Failed(status)),
        };
        self.operate_for(by, to, op, guard, part).await.map(drop)
    }

    /// Reads a peer's memory straight into local registered memory, without a copy: as many bytes as the guard has. The
    /// guard comes back when the read has ended, whatever became of it; with an error, what its bytes are nobody knows.
    pub async fn read_into(
        &self,
        to: Rank,
        from: RemoteSlice,
        into: BufferGuard<V>,
    ) -> Result<BufferGuard<V>, OpError> {
        let from = exactly(from, into.len() as usize)?;
        self.operate(to, SendOp::Read { from }, into, NotExecuted::Failed).await
    }

    /// Writes local registered memory straight into a peer's, without a copy; returns once the peer's adapter has
    /// acknowledged it. An error may leave a part written. Nobody may change the guard's bytes before the end.
    pub async fn write_from(
        &self,
        to: Rank,
        at: RemoteSlice,
        from: BufferGuard<V>,
    ) -> Result<BufferGuard<V>, OpError> {
        let at = exactly(at, from.len() as usize)?;
        let part = |status| OpError::Unknown(Lost::Failed(status));
        self.operate_for(None, to, SendOp::Write { to: at, imm: None }, from, part).await
    }

    /// Local memory for an operation's bytes.
    fn buffer(&self, len: usize) -> Result<BufferGuard<V>, OpError> {
        let shared = &self.shared;
        let wide = u32::try_from(len).map_err(|_| {
            refused(VerbsError::TooLarge { what: "length", value: len as u64, bound: u64::from(u32::MAX) })
        })?;
        let guard = match wide {
            0 => BufferGuard::Nothing,
            1..=8 => BufferGuard::Block { block: shared.word_pool.alloc().map_err(refused)?, len: wide },
            9..=BULK => BufferGuard::Block { block: shared.bulk_pool.alloc().map_err(refused)?, len: wide },
            _ => {
                let mr = shared.pd().alloc_mr(len, AccessFlags::LOCAL_WRITE).map_err(refused)?;
                BufferGuard::Range { mr, at: 0, len: wide }
            }
        };
        Ok(guard)
    }

    async fn operate(
        &self,
        to: Rank,
        op: SendOp<'static, V>,
        guard: BufferGuard<V>,
        part: fn(weft_verbs::WcError) -> NotExecuted,
    ) -> Result<BufferGuard<V>, OpError> {
        self.operate_for(None, to, op, guard, |status| OpError::NotExecuted(part(status))).await
    }

    /// Waits for its turn, posts, and awaits the end. `part` says what it means that the far side may have
    /// done a part.
    async fn operate_for(
        &self,
        by: Asker,
        to: Rank,
        op: SendOp<'static, V>,
        guard: BufferGuard<V>,
        part: impl FnOnce(weft_verbs::WcError) -> OpError,
    ) -> Result<BufferGuard<V>, OpError> {
        let shared = &*self.shared;
        let index = shared.index(to).ok_or(OpError::NotExecuted(NotExecuted::NoSuchPeer(to)))?;
        let turn = Turn::new(shared, index, 1).on_behalf_of(by);
        self.operate_in(turn, op, guard, part).await
    }

    /// The same for an operation whose turn it may be later.
    pub(super) async fn operate_in(
        &self,
        turn: Turn<'_, V>,
        op: SendOp<'static, V>,
        guard: BufferGuard<V>,
        part: impl FnOnce(weft_verbs::WcError) -> OpError,
    ) -> Result<BufferGuard<V>, OpError> {
        let (shared, index) = (&*self.shared, turn.index);
        let atomic = Atomic::of(&op);
        if atomic.is_some() && guard.len() != 8 {
            // As an adapter does.
            return Err(refused(VerbsError::Invalid("an atomic's old value needs one range of 8 bytes")));
        }
        if let Some((at, atomic)) = atomic
            && index == self.me().index()
            && !shared.has_atomics()
        {
            let old = self.by_processor(None, at, atomic).await?;
            guard.write_at(0, &old.to_ne_bytes()).map_err(refused)?;
            return Ok(guard);
        }
        let (by, life) = (turn.by, turn.life);
        let turn = turn.for_atomics(atomic.is_some()).for_bytes(!guard.is_empty());
        let Some(queue) = turn.await.map_err(OpError::NotExecuted)? else {
            return self.carry((index, life), op, guard).await;
        };
        // What has no bytes goes over any rail, and memory of another one must not be named there.
        let (guard, without_bytes) = match guard.is_empty() {
            true => (BufferGuard::Nothing, Some(guard)),
            false => (shared.planted_guard(index, guard).map_err(refused)?, None),
        };
        let pending = queue.post(op, Local::Guarded(guard)).map_err(refused)?;
        let posted = shared.with_peer(index, |peer| {
            peer.last_op = queue.counts().0;
            (peer.ups, peer.last_op)
        });
        if let Some((asker, _)) = by {
            shared.with_peer(asker, |asker| asker.acted = Some(posted));
        }
        shared.stats.borrow_mut().operations += 1;
        drop(queue);
        let (outcome, guard) = pending.await;
        let error = match outcome {
            Ok(_) => return Ok(without_bytes.unwrap_or(guard)),
            Err(why) => failed(why, part),
        };
        if matches!(error, OpError::Unknown(_)) {
            shared.stats.borrow_mut().unknown_outcomes += 1;
        }
        Err(error)
    }

    /// Returns once every operation toward `to` that was posted before the call has a **fixed** outcome: it has
    /// completed, or its connection is fenced at both ends (a later generation of the connection stands,
    /// which either side asks for or accepts only after it has moved its old queue pair to error). From then
    /// on no late copy of such an operation can execute.
    ///
    /// Waits for the connection for as long as it takes: set a deadline.
    pub async fn resolve_outcomes(&self, to: Rank) -> Result<(), NotExecuted> {
        self.begun_has_ended(to).await;
        self.resolve_posted(to).await
    }

    /// Waits for what had begun and has yet to be asked for: the rest of lists, and of what messages carry in parts; and of this node's own atomics those that its processor has
    /// not come to.
    async fn begun_has_ended(&self, to: Rank) {
        let shared = &*self.shared;
        let Some(index) = shared.index(to) else { return };
        let stand_in = shared.stand_in.as_ref().filter(|_| to == self.me());
        let asked = stand_in.map_or(0, StandIn::asked);
        let begun = shared.with_peer(index, |peer| peer.next_list);
        let mut resolver = Resolver { shared, index, ticket: None };
        poll_fn(|cx| {
            shared.with_peer(index, |peer| {
                let lists_ended = peer.lists.first().is_none_or(|first| *first >= begun);
                let ended = lists_ended && stand_in.is_none_or(|stand_in| stand_in.has_ended(asked));
                if ended || peer.gone || shared.closed.get() {
                    return Poll::Ready(());
                }
                resolver.waits(peer, cx);
                Poll::Pending
            })
        })
        .await;
    }

    /// The same as [`Mesh::resolve_outcomes`] for what was asked for, whatever else has begun.
    pub(super) async fn resolve_posted(&self, to: Rank) -> Result<(), NotExecuted> {
        let shared = &*self.shared;
        let index = shared.index(to).ok_or(NotExecuted::NoSuchPeer(to))?;
        let (ups, last_op, carried) = shared.with_peer(index, |peer| {
            peer.resolving += 1;
            (peer.ups, peer.last_op, peer.carried.next())
        });
        let _resolving = Resolving { shared, index };
        let mut resolver = Resolver { shared, index, ticket: None };
        poll_fn(|cx| {
            if shared.closed.get() {
                return Poll::Ready(Err(NotExecuted::Closed));
            }
            shared.with_peer(index, |peer| {
                if peer.gone {
                    return Poll::Ready(Err(NotExecuted::PeerGone(to)));
                }
                if is_fixed(peer, ups, last_op) && peer.carried.are_fixed_before(carried) {
                    return Poll::Ready(Ok(()));
                }
                resolver.waits(peer, cx);
                match &peer.queue {
                    Some(queue) => queue.watch_sends(cx),
                    None => shared.event(index, peer.epoch, Event::Wanted),
                }
                Poll::Pending
            })
        })
        .await
    }
}

/// Whether the operations up to `last_op`, of the generation that stood last when `ups` was counted, have a
/// fixed outcome.
pub(super) fn is_fixed<V: Verbs>(peer: &Peer<V>, ups: u64, last_op: u64) -> bool {
    if peer.ups > ups {
        return true;
    }
    match &peer.queue {
        // Of a later attempt that does not stand yet, or the one that drains, or the one that stands.
        Some(queue) if peer.link.is_up() || peer.link.is_draining() => {
            !peer.unresolved && queue.counts().1 >= last_op
        }
        _ => !peer.unresolved,
    }
}

/// A list whose operations are asked for one after the other, or an operation that messages carry in parts, until it has ended or nobody
/// waits for it.
pub(super) struct OpenList<'a, V: Verbs> {
    shared: &'a Shared<V>,
    index: usize,
    number: u64,
}

impl<'a, V: Verbs> OpenList<'a, V> {
    pub(super) fn new(shared: &'a Shared<V>, index: usize) -> OpenList<'a, V> {
        let number = shared.with_peer(index, |peer| {
            let number = peer.next_list;
            peer.next_list += 1;
            peer.lists.insert(number);
            number
        });
        OpenList { shared, index, number }
    }
}

impl<V: Verbs> Drop for OpenList<'_, V> {
    fn drop(&mut self) {
        self.shared.with_peer(self.index, |peer| {
            peer.lists.remove(&self.number);
            peer.wake_resolvers();
        });
    }
}

/// A place among those who wait until operations have a fixed outcome. It ends with the wait, whatever brought that about: on a connection
/// that never breaks nobody else would take the waker out.
struct Resolver<'a, V: Verbs> {
    shared: &'a Shared<V>,
    index: usize,
    ticket: Option<u64>,
}

impl<V: Verbs> Resolver<'_, V> {
    fn waits(&mut self, peer: &mut Peer<V>, cx: &Context<'_>) {
        self.ticket = Some(peer.wait_in(|peer| &mut peer.resolvers, self.ticket, cx));
    }
}

impl<V: Verbs> Drop for Resolver<'_, V> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        self.shared.with_peer(self.index, |peer| room::leave(&mut peer.resolvers, ticket));
    }
}

/// Counts who waits in [`Mesh::resolve_outcomes`], since that makes a connection wanted.
struct Resolving<'a, V: Verbs> {
    shared: &'a Shared<V>,
    index: usize,
}

impl<V: Verbs> Drop for Resolving<'_, V> {
    fn drop(&mut self) {
        self.shared.with_peer(self.index, |peer| peer.resolving -= 1);
    }
}

/// A place in the line of those who want to post to one peer; ready with the queue once it is the first, the
/// connection stands and the send queue has room. The caller posts before it awaits anything else. Ready with none
/// where messages carry the operation: the connection stands on another rail than the peer's memory, or it is an atomic that no adapter
/// executes.
pub(super) struct Turn<'a, V: Verbs> {
    shared: &'a Shared<V>,
    index: usize,
    /// How many requests are posted together.
    places: u32,
    ticket: Option<u64>,
    atomics: bool,
    /// Whether there are bytes to be moved.
    bytes: bool,
    /// The peer's life that the operation is meant for.
    life: Life,
    /// Whose operation it is.
    by: Asker,
}

impl<'a, V: Verbs> Turn<'a, V> {
    pub fn new(shared: &'a Shared<V>, index: usize, places: u32) -> Turn<'a, V> {
        let life = shared.with_peer(index, |peer| peer.life());
        Turn { shared, index, places, ticket: None, atomics: false, bytes: true, life, by: None }
    }

    /// For a request that follows another one, in the same life of the peer.
    pub fn behind(&self) -> Turn<'a, V> {
        let &Turn { shared, index, life, by, .. } = self;
        Turn { shared, index, places: 1, ticket: None, atomics: false, bytes: true, life, by }
    }

    /// Whose turn it is at.
    pub fn index(&self) -> usize {
        self.index
    }

    /// For an operation that a peer has asked this node to execute: it is not posted once that peer was expelled or has begun anew.
    fn on_behalf_of(mut self, by: Asker) -> Turn<'a, V> {
        self.by = by;
        self
    }

    /// Whether atomics are among what is to be posted.
    pub fn for_atomics(mut self, atomics: bool) -> Turn<'a, V> {
        self.atomics = atomics;
        self
    }

    /// Whether bytes are to be moved. What moves none touches no memory and needs no key (IBA 9.7.4.1.5): it goes over whatever rail, and
    /// fails if there is nobody. Messages to a peer that is gone would say nothing.
    pub fn for_bytes(mut self, bytes: bool) -> Turn<'a, V> {
        self.bytes = bytes;
        self
    }
}

impl<V: Verbs> Future for Turn<'_, V> {
    type Output = Result<Option<QpHandle<V>>, NotExecuted>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (shared, index) = (self.shared, self.index);
        if shared.closed.get() {
            return Poll::Ready(Err(NotExecuted::Closed));
        }
        if let Some((asker, life)) = self.by {
            shared.with_peer(asker, |peer| shared.must_be(asker, peer, life))?;
        }
        shared.with_peer(index, |peer| {
            shared.must_be(index, peer, self.life)?;
            let first = match self.ticket {
                None => peer.waiters.is_empty(),
                Some(ticket) => peer.waiters.front().is_some_and(|w| w.ticket == ticket),
            };
            if first && let Some(queue) = peer.standing() {
                let carries =
                    self.bytes && shared.carries(peer) || self.atomics && shared.carries_atomics(peer);
                if carries || has_room(queue, shared.send_depth(index), self.places) {
                    let queue = (!carries).then(|| queue.clone());
                    if self.ticket.take().is_some() {
                        peer.waiters.pop_front();
                    }
                    peer.wake_first();
                    return Poll::Ready(Ok(queue));
                }
                queue.watch_sends(cx);
            }
            self.ticket = Some(peer.wait_in(|peer| &mut peer.waiters, self.ticket, cx));
            if !peer.link.is_up() {
                shared.event(index, peer.epoch, Event::Wanted);
            }
            Poll::Pending
        })
    }
}

impl<V: Verbs> Shared<V> {
    /// Refuses what is meant for another life of a peer than the one that is there.
    pub(super) fn must_be(&self, index: usize, peer: &Peer<V>, life: Life) -> Result<(), NotExecuted> {
        let is_reset = !peer.gone && peer.incarnations != life.incarnations;
        match peer.still_is(life) {
            true => Ok(()),
            false if is_reset => Err(NotExecuted::PeerReset(self.rank_at(index))),
            false => Err(NotExecuted::PeerGone(self.rank_at(index))),
        }
    }
}

/// Whether a send queue of this depth has room for operations that take so many places. Messages keep a share of it, so that operations
/// cannot hold them up. That share is the operations' while nothing is under way: requests that have succeeded unsignaled hold places
/// of it until something is posted behind them, and there may be no other that posts.
fn has_room<V: Verbs>(queue: &QpHandle<V>, depth: u32, places: u32) -> bool {
    let room = queue.room();
    room >= depth / 4 + places || queue.completing() == 0 && room >= places
}

impl<V: Verbs> Drop for Turn<'_, V> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        self.shared.with_peer(self.index, |peer| {
            room::leave(&mut peer.waiters, ticket);
            peer.wake_first();
        });
    }
}

/// What it means that a request failed. `part` says what it means that the far side may have done a part of it.
pub(super) fn failed(why: Failed, part: impl FnOnce(weft_verbs::WcError) -> OpError) -> OpError {
    match why {
        Failed::Destroyed => OpError::Unknown(Lost::Destroyed),
        Failed::Status(status) => match status.far_side() {
            FarSide::Untouched => OpError::NotExecuted(NotExecuted::Failed(status)),
            FarSide::MayHavePart => part(status),
            FarSide::Unknown => OpError::Unknown(Lost::Failed(status)),
        },
    }
}

pub(super) fn refused(why: VerbsError) -> OpError {
    OpError::NotExecuted(NotExecuted::Refused(why))
}

/// A remote range has fewer bytes than are needed.
pub(super) fn too_short(need: usize, range: RemoteSlice) -> OpError {
    OpError::NotExecuted(NotExecuted::Length { need: need as u64, have: u64::from(range.len) })
}

/// The first `len` bytes of a remote range.
pub(super) fn exactly(range: RemoteSlice, len: usize) -> Result<RemoteSlice, OpError> {
    u32::try_from(len).ok().and_then(|len| range.slice(0..len)).ok_or(too_short(len, range))
}

/// The first word of a remote range.
pub(super) fn word_of(range: RemoteSlice) -> Result<RemoteSlice, OpError> {
    range.word(0).ok_or(too_short(8, range))
}

/// The operation was executed; that its result cannot be read is our own bug.
fn copy_out<V: Verbs>(guard: &BufferGuard<V>, into: &mut [u8]) -> Result<(), OpError> {
    guard.read_at(0, into).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::super::on_fakes::OnFakes;
    use super::*;
    use weft_verbs::{Nanos, WcOp};

    const PEER: usize = 1;

    #[test]
    fn who_waits_for_outcomes_leaves_nothing_behind_on_a_connection_that_never_breaks() {
        let mut node = OnFakes::new();
        node.stands_on(0);
        let waiting =
            |node: &OnFakes| node.mesh.shared.with_peer(PEER, |peer| (peer.resolvers.len(), peer.resolving));
        let to = Rank::from_index(PEER as u32);
        for gives_up in [false, true].repeat(20) {
            let (mesh, at) = (node.mesh.clone(), RemoteSlice { addr: 0, rkey: 0, len: 8 });
            let writes = node.rt.spawn(async move { mesh.write(to, at, &[7; 8]).await });
            node.settle();
            let (mesh, rt) = (node.mesh.clone(), node.rt.clone());
            let most = if gives_up { Nanos(5) } else { Nanos::MAX };
            let resolves = node.rt.spawn(async move { rt.within(most, mesh.resolve_outcomes(to)).await });
            node.settle();
            assert_eq!((waiting(&node), resolves.is_finished()), ((1, 1), false));
            if gives_up {
                node.world(0).now += Nanos(5);
                node.settle();
                assert_eq!((waiting(&node), resolves.is_finished()), ((0, 0), true));
            }
            let (posted, ..) = *node.world(0).sends.last().expect("it is posted");
            node.world(0).complete(posted, Ok(WcOp::Write));
            node.settle();
            assert!(writes.is_finished() && resolves.is_finished());
            assert_eq!(waiting(&node), (0, 0));
        }
    }
}
