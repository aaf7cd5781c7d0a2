//! The main loop of a node on hardware: the same `Node::step` that the simulator calls.

pub use weft_verbs::driver::Ended;

use crate::device::{ContextInner, HwContext};
use crate::ffi::{Epoll, Readiness};
use crate::host;
use std::rc::Rc;
use weft_verbs::driver::{MainLoop, Reactor};
use weft_verbs::{Nanos, Node, Result, Wait};

/// Steps a node, and waits for what it waits for.
pub struct Driver(MainLoop<Contexts>);

/// What wakes a node: the completion queues and descriptors of its contexts.
struct Contexts {
    contexts: Vec<Rc<ContextInner>>,
    /// All contexts' descriptors at once, where there are several.
    all: Option<Epoll>,
    /// Contexts with a descriptor that is ready; kept for its allocation.
    ready: Vec<Readiness>,
    /// Looks at completion queues since the descriptors were looked at.
    spins: u32,
}

/// A node that spins on its completion queues looks at descriptors once in so many looks: a look costs a system call,
/// a hundred times an empty poll.
const SPINS_A_LOOK: u32 = 128;

/// A node that looks for a time reads the clock once in so many looks: both take about as long.
const LOOKS_A_READING: u32 = 4;

impl Driver {
    /// A driver for a node whose objects belong to these contexts.
    pub fn new(contexts: &[HwContext]) -> Result<Driver> {
        let contexts: Vec<_> = contexts.iter().map(|context| Rc::clone(&context.0)).collect();
        let all = if contexts.len() == 1 { None } else { Some(Epoll::new()?) };
        if let Some(all) = &all {
            for (token, context) in contexts.iter().enumerate() {
                all.add(context.reactor.fd(), token as u64)?;
            }
        }
        Ok(Driver(MainLoop::new(Contexts { contexts, all, ready: Vec::new(), spins: 0 })))
    }

    /// Steps the node, first at once, until it is done or `stop` says so, which is asked several times a second.
    pub fn run(&mut self, node: &mut dyn Node, stop: impl FnMut() -> bool) -> Ended {
        self.0.run(node, stop)
    }

    /// Steps the node until it is done or the time has come. One that waits for something is not stepped before that comes.
    pub fn run_until(&mut self, node: &mut dyn Node, until: Nanos) -> Ended {
        self.0.run_until(node, until)
    }
}

impl Reactor for Contexts {
    #[inline]
    fn now(&self) -> Nanos {
        host::now()
    }

    #[inline]
    fn wait(&mut self, style: Wait, span: Nanos) -> bool {
        match style {
            Wait::Notify => self.look(span),
            Wait::Poll => (0..LOOKS_A_READING).any(|_| self.spin()),
        }
    }

    #[inline]
    fn glance(&mut self) {
        self.look_now_and_then();
    }
}

impl Contexts {
    /// One look of a node that spins.
    fn spin(&mut self) -> bool {
        let seen = self.contexts.iter().any(|c| c.has_completions());
        // Descriptors also where a queue says that it has something at each look: one whose device refuses to be polled.
        let woken = self.look_now_and_then() || seen;
        if !woken {
            std::hint::spin_loop();
        }
        woken
    }

    fn look_now_and_then(&mut self) -> bool {
        self.spins += 1;
        if self.spins < SPINS_A_LOOK {
            return false;
        }
        self.spins = 0;
        self.look(Nanos::ZERO)
    }

    /// Waits for a descriptor, at most so long, and wakes the tasks of byte streams. Whether anything is ready.
    fn look(&mut self, span: Nanos) -> bool {
        let span = if span == Nanos::MAX { None } else { Some(span.0) };
        let Some(all) = &self.all else { return self.contexts.iter().any(|one| one.reactor.wait(span)) };
        all.wait(span, &mut self.ready);
        self.contexts.iter().for_each(|context| context.reactor.nothing_else());
        let mut any = false;
        for ready in self.ready.drain(..) {
            any |= self.contexts.get(ready.token as usize).is_some_and(|one| one.reactor.wait(Some(0)));
        }
        any
    }
}
