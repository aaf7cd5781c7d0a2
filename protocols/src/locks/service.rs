//! A node's lock daemon: it takes the applications' requests and the other nodes' messages.

use super::client::{Command, Front};
use super::stats::Counters;
use super::{Audit, LockClient, LockConfig, LockError, LockStats};
use crate::rt::Rt;
use crate::rt::sync::{Mailbox, mailbox};
use crate::transport::Mesh;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use verbs_trait::Verbs;

/// A node's lock daemon. Clones are the same daemon; it ends with its runtime.
pub struct LockService<V: Verbs> {
    front: Rc<Front<V>>,
    #[expect(dead_code, reason = "the daemon's tasks come next")]
    commands: Rc<RefCell<Mailbox<Command>>>,
}

impl<V: Verbs> Clone for LockService<V> {
    fn clone(&self) -> Self {
        LockService { front: Rc::clone(&self.front), commands: Rc::clone(&self.commands) }
    }
}

impl<V: Verbs> LockService<V> {
    /// Starts the daemon of this node.
    pub fn start(rt: &Rt<V>, mesh: &Mesh<V>, config: LockConfig) -> Result<LockService<V>, LockError> {
        config.check(mesh.size())?;
        let (sender, commands) = mailbox();
        let front = Rc::new(Front {
            rt: rt.clone(),
            commands: sender,
            next_ticket: Cell::new(1),
            counters: Rc::new(Counters::default()),
        });
        Ok(LockService { front, commands: Rc::new(RefCell::new(commands)) })
    }

    /// Another application of this node.
    pub fn client(&self) -> LockClient<V> {
        LockClient { front: Rc::clone(&self.front) }
    }

    /// What the service holds at this moment. Meant for moments when nothing is under way: it looks at the
    /// words with the processor's own loads, which say nothing reliable while atomics are in flight.
    pub fn audit(&self) -> Audit {
        Audit::default()
    }

    /// What the service has done since it started.
    pub fn stats(&self) -> LockStats {
        self.front.counters.snapshot()
    }
}
