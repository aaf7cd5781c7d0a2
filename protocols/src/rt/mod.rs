//! The runtime of a node: one thread, tasks that are not sent anywhere, one executor on both backends.
//!
//! [`Rt`] is a handle that every task may clone. [`Rt::program`] is what a driver steps. Time, randomness
//! and waiting come from here and from nowhere else.

mod executor;
pub mod sync;
mod timers;
mod wait;

pub use executor::JoinHandle;
pub use wait::{Elapsed, Sleep, Timed, Yield};

use executor::Executor;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use timers::Timers;
use verbs_trait::{Clock, Context, Host, Nanos, Node, Park, Verbs, VerbsError, Wait, Work};

/// How a node's runtime behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtConfig {
    /// How the node learns of completions: by polling or by notification. Default: notification, as daemons
    /// that share their machine do.
    pub wait: Wait,
}

impl Default for RtConfig {
    fn default() -> RtConfig {
        RtConfig { wait: Wait::Notify }
    }
}

/// Why a runtime could not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RtError {
    /// The device refused an object.
    #[error("the runtime could not start: {0}")]
    Verbs(#[from] VerbsError),
}

struct Inner<V: Verbs> {
    ctx: V::Context,
    host: V::Host,
    config: RtConfig,
    executor: Executor,
    timers: RefCell<Timers>,
}

/// The runtime of one node. Clones are the same runtime.
pub struct Rt<V: Verbs> {
    inner: Rc<Inner<V>>,
}

impl<V: Verbs> Clone for Rt<V> {
    fn clone(&self) -> Self {
        Rt { inner: Rc::clone(&self.inner) }
    }
}

impl<V: Verbs> Rt<V> {
    /// A runtime on an open device.
    pub fn new(ctx: &V::Context, config: RtConfig) -> Result<Rt<V>, RtError> {
        let inner = Inner {
            ctx: ctx.clone(),
            host: ctx.host(),
            config,
            executor: Executor::default(),
            timers: RefCell::new(Timers::default()),
        };
        Ok(Rt { inner: Rc::new(inner) })
    }

    /// What a driver steps. Dropping it shuts the runtime down.
    pub fn program(&self) -> Program<V> {
        Program { rt: self.clone() }
    }

    /// The open device.
    pub fn context(&self) -> &V::Context {
        &self.inner.ctx
    }

    /// Starts a task. It runs when its turn comes, not within this call.
    pub fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
        self.inner.executor.spawn(future)
    }

    /// The node's clock.
    pub fn now(&self) -> Nanos {
        self.inner.host.now()
    }

    /// A random word; in simulation, from the run's only source of nondeterminism.
    pub fn random(&self) -> u64 {
        self.inner.host.random()
    }

    /// Charges the processor for work; see [`Host::spend`].
    pub fn spend(&self, work: Work) {
        self.inner.host.spend(work);
    }

    /// Waits for a span of time.
    pub fn sleep(&self, span: Nanos) -> Sleep<V> {
        self.sleep_until(self.now() + span)
    }

    /// Waits for a point in time. [`Nanos::MAX`] never comes.
    pub fn sleep_until(&self, at: Nanos) -> Sleep<V> {
        Sleep::new(self.clone(), at)
    }

    /// Awaits a future until a point in time, then drops it. Whatever it had posted goes on; see
    /// [`OpError`](crate::transport::OpError) for what that means.
    pub fn deadline<F: Future>(&self, at: Nanos, future: F) -> Timed<V, F> {
        Timed::new(self.sleep_until(at), future)
    }

    /// Lets every other task run, and the world move, before this one goes on.
    pub fn yield_now(&self) -> Yield<V> {
        Yield::new(self.clone())
    }

    /// Ends the node: every task is dropped, everything posted is given up, and the program's next step
    /// answers [`Park::Done`].
    pub fn shutdown(&self) {
        self.inner.executor.close();
        let wakers = self.inner.timers.borrow_mut().clear();
        drop(wakers);
    }
}

/// A node's program: what a driver steps.
pub struct Program<V: Verbs> {
    rt: Rt<V>,
}

impl<V: Verbs> Node for Program<V> {
    fn step(&mut self) -> Park {
        let inner = &self.rt.inner;
        inner.executor.begin_step();
        while inner.executor.run_round() > 0 {}
        Park::Until { style: inner.config.wait, deadline: inner.timers.borrow_mut().next() }
    }
}

impl<V: Verbs> Drop for Program<V> {
    fn drop(&mut self) {
        self.rt.shutdown();
    }
}
