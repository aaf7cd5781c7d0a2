//! What an application sees: requests and grants.

use super::stats::{Counters, bump};
use super::{LockError, LockKey, Mode, Scheme, Token};
use crate::members::Members;
use crate::rt::sync::{MailboxSender, OneshotSender, Signal, oneshot};
use crate::rt::{Rt, WaitPoint};
use std::cell::Cell;
use std::rc::Rc;
use weft_verbs::{Nanos, Verbs, Work};

/// A request's number on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket(pub(crate) u64);

/// Whether a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WaitPolicy {
    /// It waits in the queue until it is granted or its application leaves.
    Queue,
    /// It takes the lock if that is free, and waits for nobody.
    Try,
}

/// What an application tells its node's daemon, by a mailbox: both are tasks of one thread. (The paper has System V queues between
/// processes there, 3.1; no such rings are built.)
pub(crate) enum Command {
    /// Queue a request.
    Enter { ticket: Ticket, key: LockKey, mode: Mode, policy: WaitPolicy, reply: OneshotSender<Reply> },
    /// The request's application holds exclusively and goes on sharing.
    Downgrade { ticket: Ticket, key: LockKey },
    /// The request's application does not want it any more: it unlocks, or it leaves the queue.
    Leave { ticket: Ticket, key: LockKey },
}

/// The daemon's answer to a request.
pub(crate) type Reply = Result<Admission, LockError>;

/// A grant as an application is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Admission {
    pub(crate) token: Option<Token>,
    /// How often the node had lost all that it held before; see [`Losses`].
    pub(crate) losses: u64,
}

/// How often a node has lost all that it held: it was left out of the membership, the view was lost, or the mesh was closed.
#[derive(Default)]
pub(crate) struct Losses {
    pub(crate) count: Cell<u64>,
    pub(crate) changed: Signal,
}

/// The applications' end of the way to their daemon.
pub(crate) struct Front<V: Verbs> {
    pub(crate) rt: Rt<V>,
    pub(crate) scheme: Scheme,
    pub(crate) commands: MailboxSender<Command>,
    pub(crate) next_ticket: Cell<u64>,
    pub(crate) counters: Rc<Counters>,
    pub(crate) members: Option<Members<V>>,
    pub(crate) losses: Rc<Losses>,
}

impl<V: Verbs> Front<V> {
    fn enter(
        self: &Rc<Self>,
        key: LockKey,
        mode: Mode,
        policy: WaitPolicy,
        reply: OneshotSender<Reply>,
    ) -> Result<Pending<V>, LockError> {
        let ticket = Ticket(self.next_ticket.get());
        self.next_ticket.set(ticket.0 + 1);
        bump(&self.counters.requests);
        self.rt.spend(Work::IpcSend);
        self.commands
            .send(Command::Enter { ticket, key, mode, policy, reply })
            .map_err(|_| LockError::Closed)?;
        Ok(Pending { front: Rc::clone(self), ticket, key, wanted: true })
    }
}

/// A request under way, or a grant: as long as it is wanted, dropping it tells the daemon that it is not.
/// The daemon does what that takes; nothing here touches the fabric.
struct Pending<V: Verbs> {
    front: Rc<Front<V>>,
    ticket: Ticket,
    key: LockKey,
    wanted: bool,
}

impl<V: Verbs> Drop for Pending<V> {
    fn drop(&mut self) {
        if self.wanted {
            // A daemon that has ended holds nothing for us.
            let _ = self.front.commands.send(Command::Leave { ticket: self.ticket, key: self.key });
        }
    }
}

/// One application of a node, as its lock service knows it. Clones are the same application.
///
/// Many requests may be under way at once. Two requests for one lock from one node, be they of one client or
/// of two, are queued on the node and do not cross the network twice. A client that asks for a lock which it
/// holds itself waits for itself.
pub struct LockClient<V: Verbs> {
    pub(crate) front: Rc<Front<V>>,
}

impl<V: Verbs> Clone for LockClient<V> {
    fn clone(&self) -> Self {
        LockClient { front: Rc::clone(&self.front) }
    }
}

impl<V: Verbs> LockClient<V> {
    /// Takes a lock, by name or by key, however long that takes.
    ///
    /// Dropping the future withdraws the request; a grant that is on its way by then is passed on.
    pub async fn lock(&self, key: impl Into<LockKey>, mode: Mode) -> Result<Grant<V>, LockError> {
        self.request(key.into(), mode, WaitPolicy::Queue, Nanos::MAX).at(()).await
    }

    /// Takes a lock, or gives up at a point in time of this node's clock ([`Rt::now`]).
    pub async fn lock_until(&self, key: LockKey, mode: Mode, deadline: Nanos) -> Result<Grant<V>, LockError> {
        self.request(key, mode, WaitPolicy::Queue, deadline).at(()).await
    }

    /// Takes a lock if it is free, without waiting for its holders: [`LockError::WouldBlock`] if it is not, or
    /// if too many others were trying at the same moment to be sure.
    ///
    /// The lock's home must answer. Among members it waits for that as long as this node is in no view, and as long as the home does not
    /// know whether the lock is free: until all members of the view have said what they hold, and, if the home did not keep the lock in
    /// the view before, until the leases of those who left have run out. Where the lock is taken by remote atomics (`ncosed`, `dqnl`) it
    /// waits for these leases in any case. Whoever cannot wait so long drops the future, as at a deadline.
    pub async fn try_lock(&self, key: impl Into<LockKey>, mode: Mode) -> Result<Grant<V>, LockError> {
        self.request(key.into(), mode, WaitPolicy::Try, Nanos::MAX).at(()).await
    }

    async fn request(
        &self,
        key: LockKey,
        mode: Mode,
        policy: WaitPolicy,
        deadline: Nanos,
    ) -> Result<Grant<V>, LockError> {
        let rt = &self.front.rt;
        let (reply, answer) = oneshot();
        let mut pending = self.front.enter(key, mode, policy, reply)?;
        let knows = (pending.ticket, key, mode);
        let answer = match deadline {
            Nanos::MAX => answer.at(knows).await,
            at => rt.deadline(at, answer).at(knows).await.map_err(|_| LockError::Deadline)?,
        };
        let Admission { token, losses } = match answer {
            Ok(Ok(admission)) => admission,
            Ok(Err(refused)) => {
                pending.wanted = false;
                return Err(refused);
            }
            Err(_) => {
                pending.wanted = false;
                return Err(LockError::Closed);
            }
        };
        rt.spend(Work::IpcReceive);
        Ok(Grant { pending, mode, token, losses })
    }
}

/// A lock that is held.
///
/// Give it back with [`Grant::unlock`]. Dropping it gives it back as well, as a daemon does for an application
/// that ended without a word; the application is then not charged for saying so.
#[must_use = "a grant that is dropped is given back at once"]
pub struct Grant<V: Verbs> {
    pending: Pending<V>,
    mode: Mode,
    token: Option<Token>,
    /// How often the node had lost everything when it was granted.
    losses: u64,
}

impl<V: Verbs> Grant<V> {
    /// The lock.
    pub fn key(&self) -> LockKey {
        self.pending.key
    }

    /// How it is held.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Its fencing token, where the scheme has them ([`Scheme::has_tokens`](super::Scheme::has_tokens)) or the node is a member.
    pub fn token(&self) -> Option<Token> {
        self.token
    }

    /// Until when it counts, by this node's clock ([`Rt::now`]): the node's lease, which is renewed while something is held. For
    /// ever without members, until the service ends. In the past where the lease has run out: it may be renewed yet, and until then nothing may be done
    /// that the lock protects.
    pub fn counts_until(&self) -> Nanos {
        let front = &self.pending.front;
        match &front.members {
            _ if front.losses.count.get() != self.losses => Nanos::ZERO,
            None => Nanos::MAX,
            Some(members) => members.lease_until(),
        }
    }

    /// Whether it counts now.
    pub fn counts(&self) -> bool {
        self.pending.front.rt.now() < self.counts_until()
    }

    /// Waits until it is lost for good: the node was left out of the membership, the membership began anew, or the service has ended with
    /// its mesh.
    pub async fn lost(&self) {
        let losses = &self.pending.front.losses;
        losses.changed.until(|| losses.count.get() != self.losses).at(()).await;
    }

    /// Goes on holding the lock, shared: nobody else has had it alone in between. Others that wait to share it
    /// are let in, if they come next. Returns once the daemon has been told. What is held shared already stays
    /// so.
    ///
    /// [`LockError::Unsupported`] where nodes do not share ([`Scheme::shares`]); the grant stays exclusive.
    pub async fn downgrade(&mut self) -> Result<(), LockError> {
        if self.mode == Mode::Shared {
            return Ok(());
        }
        let Pending { front, ticket, key, .. } = &self.pending;
        if !front.scheme.shares() {
            return Err(LockError::Unsupported { what: "downgrade", scheme: front.scheme });
        }
        bump(&front.counters.downgrades);
        front.rt.spend(Work::IpcSend);
        let command = Command::Downgrade { ticket: *ticket, key: *key };
        front.commands.send(command).map_err(|_| LockError::Closed)?;
        self.mode = Mode::Shared;
        self.token = self.token.map(Token::downgraded);
        Ok(())
    }

    /// Gives the lock back. Returns once the daemon has been told, as the paper's unlock does (4.2): the
    /// holder's part is then over, and the rest happens behind it.
    pub async fn unlock(mut self) {
        let Pending { front, ticket, key, wanted } = &mut self.pending;
        *wanted = false;
        front.rt.spend(Work::IpcSend);
        // A daemon that has ended holds nothing for us.
        let _ = front.commands.send(Command::Leave { ticket: *ticket, key: *key });
    }
}
