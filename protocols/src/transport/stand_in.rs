//! Atomics on a node whose adapter has none: its processor stands in (ddss.txt, 5.3).
//!
//! Peers carry their atomics there by messages ([`carried`](super::carried)), and one task executes them and the node's own, one after the
//! other: it reads the word over the node's connection to itself, compares or adds, and writes it. So the adapter checks keys and rights as for
//! any read or write, and two atomics never overlap. What peers read and write by RDMA goes past that task, as it goes past an adapter's
//! atomics (IBA 9.4.5): a word that is changed by atomics is to be changed by nothing else.
//!
//! - **The connection to oneself breaks** (a revoked key does that, whoever used it). What was read is read again. A write whose outcome is unknown is
//!   fenced, and the word tells what became of it, before the next atomic begins: so none has an unknown outcome.
//! - **A caller that does not wait any more** recalls nothing.
//! - **A peer that was expelled, or has begun anew**, does nothing more by what it had asked for before.

use super::carried::BEFORE_IT_IS_TRIED_AGAIN;
use super::mesh::{Mesh, Shared};
use super::peer::{Life, Peer};
use super::{Lost, MeshConfig, NotExecuted, OpError, Planted};
use crate::rt::WaitPoint;
use crate::rt::sync::{Mailbox, MailboxSender, OneshotSender, mailbox, oneshot};
use std::cell::{Cell, RefCell};
use weft_verbs::{AccessFlags, Caps, DeviceAttr, RemoteSlice, SendOp, Verbs, WcError};

/// What is done to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Atomic {
    CompareSwap { compare: u64, swap: u64 },
    FetchAdd { add: u64 },
}

impl Atomic {
    /// The atomic that a request is, and its word.
    pub(super) fn of<V: Verbs>(op: &SendOp<'_, V>) -> Option<(RemoteSlice, Atomic)> {
        match *op {
            SendOp::CompareSwap { at, compare, swap } => Some((at, Atomic::CompareSwap { compare, swap })),
            SendOp::FetchAdd { at, add } => Some((at, Atomic::FetchAdd { add })),
            _ => None,
        }
    }

    /// The request that it is.
    pub(super) fn request<V: Verbs>(self, at: RemoteSlice) -> SendOp<'static, V> {
        match self {
            Atomic::CompareSwap { compare, swap } => SendOp::CompareSwap { at, compare, swap },
            Atomic::FetchAdd { add } => SendOp::FetchAdd { at, add },
        }
    }

    /// What the word becomes, if it changes.
    fn next(self, old: u64) -> Option<u64> {
        match self {
            Atomic::CompareSwap { compare, swap } => (old == compare).then_some(swap),
            Atomic::FetchAdd { add } => Some(old.wrapping_add(add)),
        }
    }
}

/// Whose atomic it is: a peer's, in that life of its; or this node's own.
pub(super) type Asker = Option<(usize, Life)>;

/// An atomic that waits for its turn.
pub(super) struct Asked {
    number: u64,
    by: Asker,
    at: RemoteSlice,
    atomic: Atomic,
    answer: OneshotSender<Result<u64, OpError>>,
}

/// The way to the task that executes atomics.
pub(super) struct StandIn {
    /// None once the mesh is closed.
    to: RefCell<Option<MailboxSender<Asked>>>,
    /// How many were asked for, and how many have ended.
    asked: Cell<u64>,
    ended: Cell<u64>,
}

impl StandIn {
    /// The way, and what comes by it.
    pub(super) fn new() -> (StandIn, Mailbox<Asked>) {
        let (to, asked) = mailbox();
        let to = RefCell::new(Some(to));
        (StandIn { to, asked: Cell::new(0), ended: Cell::new(0) }, asked)
    }

    /// Nothing more is asked for: the task ends behind what was.
    pub(super) fn close(&self) {
        drop(self.to.take());
    }

    /// How many were asked for.
    pub(super) fn asked(&self) -> u64 {
        self.asked.get()
    }

    /// Whether the first so many have ended.
    pub(super) fn has_ended(&self, asked: u64) -> bool {
        self.ended.get() >= asked
    }
}

impl<V: Verbs> Mesh<V> {
    /// Has this node's processor execute an atomic on a word of its own: the word's old value.
    pub(super) async fn by_processor(
        &self,
        by: Asker,
        at: RemoteSlice,
        atomic: Atomic,
    ) -> Result<u64, OpError> {
        let closed = || OpError::NotExecuted(NotExecuted::Closed);
        if !at.addr.is_multiple_of(8) {
            // As an adapter does (IBA 9.4.5).
            return Err(OpError::NotExecuted(NotExecuted::Failed(WcError::RemInvReq)));
        }
        let stand_in = self.shared.stand_in.as_ref().ok_or_else(closed)?;
        let number = stand_in.asked.get();
        let (answer, answered) = oneshot();
        let asked = Asked { number, by, at, atomic, answer };
        stand_in.to.borrow().as_ref().and_then(|to| to.send(asked).ok()).ok_or_else(closed)?;
        stand_in.asked.set(number + 1);
        answered.at(("stands in", number)).await.unwrap_or_else(|_| Err(closed()))
    }

    /// Executes what is asked, one after the other.
    pub(super) async fn stands_in(self, mut asked: Mailbox<Asked>) {
        while let Ok(asked) = asked.recv().at(()).await {
            if self.shared.config.makes(Planted::OverlapsAtomics) {
                let mesh = self.clone();
                drop(self.shared.rt.spawn(async move { mesh.stands_in_for(asked).at(()).await }));
                continue;
            }
            self.stands_in_for(asked).at(()).await;
        }
    }

    async fn stands_in_for(&self, asked: Asked) {
        let Asked { number, by, at, atomic, answer } = asked;
        let end = self.execute_atomic(by, at, atomic).at(("executes for", number)).await;
        // Whoever asked may have gone.
        let _ = answer.send(end);
        if let Some(stand_in) = &self.shared.stand_in {
            stand_in.ended.set(number + 1);
        }
        self.shared.with_peer(self.me().index(), Peer::wake_resolvers);
    }

    async fn execute_atomic(&self, by: Asker, at: RemoteSlice, atomic: Atomic) -> Result<u64, OpError> {
        let me = self.me();
        let old = self.own_word(at).at((by, at, atomic)).await?;
        let Some(next) = atomic.next(old) else { return Ok(old) };
        loop {
            // Not written once whoever asked was expelled or has begun anew.
            let written = self.write_for(by, me, at, &next.to_ne_bytes()).at((by, at, old, next)).await;
            let Err(why) = written else { return Ok(old) };
            // Nothing of it may land later. Nobody else changes the word, so it tells whether this was executed.
            let _ = self.resolve_posted(me).at((by, at, old, next, is_passing(why))).await;
            if !is_passing(why) {
                return Err(why);
            }
            let lost = |_| OpError::Unknown(Lost::AtPeer(me));
            if self.own_word_in_time(at).at((by, at, old, next)).await.map_err(lost)? == next {
                return Ok(old);
            }
        }
    }

    /// Reads a word that tells what became of a write, as soon as there is memory for that.
    async fn own_word_in_time(&self, at: RemoteSlice) -> Result<u64, OpError> {
        loop {
            match self.own_word(at).at(at).await {
                Err(why) if why.lacks_memory() => {
                    self.shared.rt.sleep(BEFORE_IT_IS_TRIED_AGAIN).at(at).await;
                }
                end => return end,
            }
        }
    }

    /// Reads a word of this node's own. What breaks the connection to oneself, such as a key that was revoked, is no matter of this word's.
    async fn own_word(&self, at: RemoteSlice) -> Result<u64, OpError> {
        let mut word = [0; 8];
        loop {
            match self.read(self.me(), at, &mut word).at(at).await {
                Ok(()) => return Ok(u64::from_ne_bytes(word)),
                Err(why) if is_passing(why) => {}
                Err(why) => return Err(why),
            }
        }
    }
}

/// Whether an operation failed because its connection broke, and not because it was refused.
fn is_passing(why: OpError) -> bool {
    match why {
        OpError::NotExecuted(NotExecuted::Failed(status)) | OpError::Unknown(Lost::Failed(status)) => {
            matches!(status, WcError::Flush | WcError::RetryExc | WcError::RnrRetryExc)
        }
        OpError::Unknown(_) => true,
        OpError::NotExecuted(_) => false,
    }
}

impl<V: Verbs> Shared<V> {
    /// Whether this node's adapter has remote atomics.
    pub(super) fn has_atomics(&self) -> bool {
        self.stand_in.is_none()
    }

    /// Whether operations toward a peer, or of a peer's toward this node, may be carried.
    pub(super) fn may_carry(&self, peer: &Peer<V>) -> bool {
        self.config.rails() > 1 || self.carries_atomics(peer)
    }

    /// Whether a peer's processor executes atomics on its memory, or this node's adapter cannot ask for them.
    pub(super) fn carries_atomics(&self, peer: &Peer<V>) -> bool {
        !self.has_atomics() || peer.lacks_atomics
    }

    /// The rights that memory gets which is to have these: the processor that stands in reads and writes as peers do.
    pub(super) fn rights(&self, access: AccessFlags) -> AccessFlags {
        match access.contains(AccessFlags::REMOTE_ATOMIC) && !self.has_atomics() {
            true => access
                .difference(AccessFlags::REMOTE_ATOMIC)
                .union(AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE),
            false => access,
        }
    }
}

/// Whether a device executes atomics. One that has no queue pairs has nobody who could want them.
pub(super) fn has_atomics(device: &DeviceAttr) -> bool {
    device.caps.contains(Caps::ATOMICS) || device.max_qp == 0
}

/// What a node's queue pairs let peers do to its memory: whatever its devices can. A device without atomics refuses a queue pair that is to
/// serve them; that of a guest, too, whose memory has no words that others change.
pub(super) fn access_of<'d>(
    config: &MeshConfig,
    devices: impl IntoIterator<Item = &'d DeviceAttr>,
) -> AccessFlags {
    let mut access = AccessFlags::all();
    access.set(AccessFlags::REMOTE_ATOMIC, config.atomics && devices.into_iter().all(has_atomics));
    access
}

#[cfg(test)]
mod tests {
    use super::Atomic;

    #[test]
    fn a_swap_changes_the_word_that_it_expects_and_an_addition_any() {
        let swap = Atomic::CompareSwap { compare: 3, swap: 9 };
        assert_eq!((swap.next(3), swap.next(4)), (Some(9), None));
        let add = Atomic::FetchAdd { add: 2 };
        assert_eq!((add.next(1), add.next(u64::MAX)), (Some(3), Some(1)));
    }
}
