//! A node's lock service, as its programs see it.

use super::client::{Front, Losses};
use super::daemon::{Belongs, Daemon};
use super::ncosed;
use super::stats::Counters;
use super::{Audit, LockClient, LockConfig, LockError, LockKey, LockStats};
use crate::members::Members;
use crate::rt::Rt;
use crate::rt::sync::mailbox;
use crate::transport::Mesh;
use std::cell::Cell;
use std::rc::Rc;
use weft_verbs::Verbs;

/// A node's lock daemon. Clones are the same daemon; it ends with its runtime, or when its mesh is closed: then nothing that was held
/// here counts any more, and who waits is told ([`LockError::Closed`]).
pub struct LockService<V: Verbs> {
    front: Rc<Front<V>>,
    daemon: Rc<Daemon<V>>,
}

impl<V: Verbs> Clone for LockService<V> {
    fn clone(&self) -> Self {
        LockService { front: Rc::clone(&self.front), daemon: Rc::clone(&self.daemon) }
    }
}

impl<V: Verbs> LockService<V> {
    /// Starts the daemon of this node.
    pub fn start(rt: &Rt<V>, mesh: &Mesh<V>, config: LockConfig) -> Result<LockService<V>, LockError> {
        LockService::begin(rt, mesh, config, None)
    }

    /// Starts the daemon of this node as a member: a node that dies holding, waiting or as a lock's home is survived. What it held
    /// is granted on when its lease has run out (docs/locks.md).
    ///
    /// # Errors
    ///
    /// As [`LockService::start`].
    pub fn start_with(
        rt: &Rt<V>,
        mesh: &Mesh<V>,
        config: LockConfig,
        members: &Members<V>,
    ) -> Result<LockService<V>, LockError> {
        LockService::begin(rt, mesh, config, Some(members.clone()))
    }

    fn begin(
        rt: &Rt<V>,
        mesh: &Mesh<V>,
        config: LockConfig,
        members: Option<Members<V>>,
    ) -> Result<LockService<V>, LockError> {
        config.check(mesh.size(), mesh.max_message(), members.is_some())?;
        let inbox = mesh.open(config.channel)?;
        let (sender, commands) = mailbox();
        let counters = Rc::new(Counters::default());
        let losses = Rc::new(Losses::default());
        let belongs = Belongs { members: members.clone(), losses: Rc::clone(&losses) };
        let daemon = Daemon::start(rt, mesh, config, &counters, commands, inbox, belongs);
        let next_ticket = Cell::new(1);
        let (rt, scheme) = (rt.clone(), config.scheme);
        let front = Front { rt, scheme, commands: sender, next_ticket, counters, members, losses };
        let front = Rc::new(front);
        Ok(LockService { front, daemon })
    }

    pub(super) fn daemon(&self) -> &Daemon<V> {
        &self.daemon
    }

    pub(super) fn next_ticket(&self) -> u64 {
        self.front.next_ticket.get()
    }

    /// Another application of this node.
    pub fn client(&self) -> LockClient<V> {
        LockClient { front: Rc::clone(&self.front) }
    }

    /// What the service holds at this moment. Meant for moments when nothing is under way: it looks at the
    /// words with the processor's own loads, which say nothing reliable while atomics are in flight.
    pub fn audit(&self) -> Audit {
        self.daemon.audit()
    }

    /// The lock whose word is at an address of this node's memory, for who reads a log of what was done to memory.
    pub fn lock_at(&self, address: u64) -> Option<LockKey> {
        self.daemon.homes().lock_at(address)
    }

    /// What a lock's word says, for people: who is last in the queue, and how many shared requests came since.
    pub fn word_in_words(word: u64) -> String {
        ncosed::Word(word).to_string()
    }

    /// What the service has done since it started.
    pub fn stats(&self) -> LockStats {
        self.front.counters.snapshot()
    }
}
