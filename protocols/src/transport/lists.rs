//! One-sided operations that are posted together, on memory that the caller holds: one doorbell, one completion.

use super::mesh::{Mesh, unbounded};
use super::operations::{OpenList, Turn, exactly, failed, refused, word_of};
use super::stand_in::Atomic;
use super::{Lost, NotExecuted, OpError, Rank};
use crate::rt::{Block, BufferGuard, BufferPool};
use weft_verbs::{SendOp, Verbs, VerbsError};

impl<V: Verbs> Mesh<V> {
    /// A pool of blocks for operations' bytes, so that none of them registers memory of its own. A block is `block` bytes
    /// long; the pool registers as much at a time as the mesh does, at the least one block.
    pub fn pool(&self, block: u32) -> BufferPool<V> {
        unbounded(self.shared.pd(), block, self.shared.config.chunk)
    }

    /// A block of the memory that messages are sent from, for so many bytes or fewer: what a read goes into where nothing more can be
    /// registered. Messages need it: who has it is to give it back soon.
    pub(crate) fn lend(&self, len: u32) -> Result<Block<V>, VerbsError> {
        let most = len.min(self.shared.config.max_message);
        self.shared.rail(0).send_pool.alloc(most as usize)
    }

    /// The longest list for a peer: three quarters of its connection's send queue, since messages keep the rest
    /// ([`MeshConfig::send_depth`](super::MeshConfig::send_depth)). At least 3; of a rank that no node has, 0.
    pub fn longest_list(&self, to: Rank) -> u32 {
        let depth = self.shared.index(to).map_or(0, |index| self.shared.send_depth(index));
        depth - depth / 4
    }

    /// Posts one-sided operations to one peer as one list, and waits for the last of them. The peer's adapter executes them in
    /// order, and executes none behind one that has failed. Their memory is the caller's again.
    ///
    /// An operation moves as many bytes as it has memory here, from the first one of its range on.
    ///
    /// Waits for the connection for as long as it takes: set a deadline.
    ///
    /// # Errors
    ///
    /// [`OpError::NotExecuted`] only if no operation of the list was executed or may yet be; with [`VerbsError::QueueFull`] if it is longer
    /// than the [longest](Mesh::longest_list), with [`NotExecuted::Length`] if an operation has more memory than its range has bytes, and
    /// with [`VerbsError::Invalid`] if there is another request in it than a read, a write without immediate data or an atomic.
    pub async fn post_list<const N: usize>(
        &self,
        to: Rank,
        list: [(SendOp<'static, V>, BufferGuard<V>); N],
    ) -> Result<[BufferGuard<V>; N], OpError> {
        self.post(to, list, true).await
    }

    /// The same, for what has another way: nothing is carried by messages.
    ///
    /// # Errors
    ///
    /// As that, and [`NotExecuted::OtherRail`] where the connection stands on another rail than the peer's memory.
    pub async fn post_list_directly<const N: usize>(
        &self,
        to: Rank,
        list: [(SendOp<'static, V>, BufferGuard<V>); N],
    ) -> Result<[BufferGuard<V>; N], OpError> {
        self.post(to, list, false).await
    }

    async fn post<const N: usize>(
        &self,
        to: Rank,
        mut list: [(SendOp<'static, V>, BufferGuard<V>); N],
        carries: bool,
    ) -> Result<[BufferGuard<V>; N], OpError> {
        let shared = &*self.shared;
        let index = shared.index(to).ok_or(OpError::NotExecuted(NotExecuted::NoSuchPeer(to)))?;
        if N as u32 > self.longest_list(to) {
            let depth = shared.send_depth(index);
            return Err(refused(VerbsError::QueueFull { queue: "send", depth }));
        }
        for (op, guard) in &mut list {
            *op = one_sided(*op, guard.len() as usize)?;
        }
        let atomics = list.iter().any(|(op, _)| Atomic::of(op).is_some());
        let turn = Turn::new(shared, index, N as u32);
        let then = turn.behind();
        let queue = match turn.for_atomics(atomics).await.map_err(OpError::NotExecuted)? {
            Some(queue) => queue,
            None if carries => return self.in_turn(then, list).await,
            None => return Err(OpError::NotExecuted(NotExecuted::OtherRail(to))),
        };
        let (before, _) = queue.counts();
        let pending = queue.post_list(list);
        let (posted, _) = queue.counts();
        drop(queue);
        let pending = shared.with_peer(index, |peer| {
            if posted > before {
                peer.last_op = posted;
            }
            pending.map_err(|broken_off| match posted > before {
                false => refused(broken_off.why),
                true => {
                    // The device has accepted the first ones, none of them signaled: the connection's end tells of theirs.
                    shared.broken(index, peer);
                    OpError::Unknown(Lost::Refused(broken_off.why))
                }
            })
        })?;
        shared.stats.borrow_mut().operations += N as u64;
        let mut buffers = [const { BufferGuard::Nothing }; N];
        let mut error = None;
        for (nth, one) in pending.into_iter().enumerate() {
            let (outcome, guard) = one.await;
            buffers[nth] = guard;
            // Of a list that broke off, the first operation may have failed without an effect, and only then none had one.
            error =
                error.or(outcome.err().map(|why| match failed(why, |s| OpError::Unknown(Lost::Failed(s))) {
                    OpError::NotExecuted(NotExecuted::Failed(status)) if nth > 0 => {
                        OpError::Unknown(Lost::Failed(status))
                    }
                    other => other,
                }));
        }
        match error {
            None => {
                shared.with_peer(index, |peer| peer.answered += 1);
                Ok(buffers)
            }
            Some(error) => {
                shared.stats.borrow_mut().unknown_outcomes += u64::from(matches!(error, OpError::Unknown(_)));
                Err(error)
            }
        }
    }

    /// The operations of a list one after the other, and none behind one that has failed, where messages carry some of them.
    async fn in_turn<const N: usize>(
        &self,
        turn: Turn<'_, V>,
        list: [(SendOp<'static, V>, BufferGuard<V>); N],
    ) -> Result<[BufferGuard<V>; N], OpError> {
        let to = self.shared.rank_at(turn.index());
        // Who resolves what was asked for before waits for the whole list.
        let _open = OpenList::new(&self.shared, turn.index());
        let mut buffers = [const { BufferGuard::Nothing }; N];
        for (nth, (op, guard)) in list.into_iter().enumerate() {
            let part = |status| OpError::Unknown(Lost::Failed(status));
            buffers[nth] =
                self.operate_in(turn.behind(), op, guard, part).await.map_err(|error| match error {
                    // Those before it were executed.
                    OpError::NotExecuted(_) if nth > 0 => OpError::Unknown(Lost::AtPeer(to)),
                    error => error,
                })?;
        }
        Ok(buffers)
    }
}

/// An operation of a list, for just so many bytes: no adapter looks at a range's length. What takes a receive of the peer is none.
fn one_sided<V: Verbs>(op: SendOp<'static, V>, len: usize) -> Result<SendOp<'static, V>, OpError> {
    Ok(match op {
        SendOp::Read { from } => SendOp::Read { from: exactly(from, len)? },
        SendOp::Write { to, imm: None } => SendOp::Write { to: exactly(to, len)?, imm: None },
        SendOp::CompareSwap { at, compare, swap } => SendOp::CompareSwap { at: word_of(at)?, compare, swap },
        SendOp::FetchAdd { at, add } => SendOp::FetchAdd { at: word_of(at)?, add },
        SendOp::Write { imm: Some(_), .. } | SendOp::Send { .. } | SendOp::SendTo { .. } => {
            return Err(refused(VerbsError::Invalid("a message is no one-sided operation")));
        }
    })
}
