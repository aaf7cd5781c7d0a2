//! The node's step: completions, tasks, timers, and then what to wait for.

use super::cqs::{Polled, Refused, Which};
use super::slots::complete;
use super::{Inner, Rt, RtConfig};
use weft_verbs::{Clock, CompletionChannel, Host, Nanos, Node, Park, Verbs, VerbsError, Wait};

/// What a node's driver steps. Dropping it shuts the runtime down, as a crash of the node would.
pub struct Program<V: Verbs> {
    rt: Rt<V>,
}

impl<V: Verbs> Program<V> {
    pub(super) fn new(rt: Rt<V>) -> Program<V> {
        Program { rt }
    }

    /// Whether the next step begins by arming the completion queues, the last one having found nothing to do.
    pub fn is_about_to_arm(&self) -> bool {
        self.rt.inner.arming.get()
    }

    /// One step, as long as the device obeys.
    fn try_step(&self) -> Result<Park, VerbsError> {
        let inner = &*self.rt.inner;
        inner.executor.begin_step();
        let one = inner.config.one_by_one;
        inner.drain_signals();
        if let Some(due) = inner.processors.holds_back(|| inner.host.now()) {
            return Ok(self.step_beside(due));
        }
        inner.processors.takes_in();
        let mut takes = !(one && inner.executor.has_ready());
        if takes {
            // An event instead of a completion, if they come one by one.
            takes = !inner.drain_events(one) || !one;
            if inner.is_lost() {
                return Err(VerbsError::DeviceGone);
            }
        }
        if inner.arming.take() || inner.has_spun() {
            // Poll, arm, poll: the rounds below are the second poll (IBA 11.4.2.2).
            inner.arm()?;
            inner.looked.set(false);
        }
        let mut polls = takes;
        let (mut took, mut worked) = (false, false);
        for _ in 0..inner.config.max_rounds {
            let polled = if polls { inner.poll_completions(Which::Used)? } else { Polled::Nothing };
            took |= polled == Polled::More;
            inner.looked.set(inner.looked.get() | (polled == Polled::Empty));
            polls &= !one;
            let fired = inner.fire_timers();
            let ran = inner.executor.run_round(|task| inner.host.task(task));
            worked |= took || fired || ran > 0;
            if inner.closed.get() {
                return Ok(Park::Done);
            }
            if (polls && polled != Polled::Empty)
                || inner.executor.has_ready()
                || inner.executor.wake_idlers()
            {
                continue;
            }
            if inner.config.wait == Wait::Poll || (!fired && ran == 0) {
                // One completion of all queues, if they come one by one.
                let looks = takes && !(one && took) && inner.looks_beside(worked);
                let found = looks && inner.poll_completions(Which::Listening)? == Polled::More;
                if !found && !inner.executor.has_ready() {
                    return Ok(self.rest());
                }
                took |= looks;
            }
        }
        inner.executor.ends_busy(inner.most_busy());
        Ok(Park::Again)
    }

    /// A step of a node whose task queue waits: completions stay where they are, and all else goes on.
    fn step_beside(&self, due: Nanos) -> Park {
        let inner = &*self.rt.inner;
        for _ in 0..inner.config.max_rounds {
            let fired = inner.fire_timers();
            let ran = inner.executor.run_round(|task| inner.host.task(task));
            if inner.closed.get() {
                return Park::Done;
            }
            if inner.processors.holds_back(|| inner.host.now()).is_none() {
                return Park::Again;
            }
            if !fired && ran == 0 && !inner.executor.has_ready() && !inner.executor.wake_idlers() {
                if inner.executor.has_yielded() {
                    return Park::Again;
                }
                let next = inner.next_deadline().map_or(due, |deadline| deadline.min(due));
                return Park::Until { style: inner.config.wait, deadline: Some(next) };
            }
        }
        Park::Again
    }

    /// Nothing is left to do now: says what to wait for, arming first where completions are notified.
    fn rest(&self) -> Park {
        let inner = &*self.rt.inner;
        if inner.executor.has_yielded() || inner.cqs.borrow().is_ending() {
            return Park::Again;
        }
        let style = if inner.processors.polling() > 0 { Wait::Poll } else { inner.config.wait };
        if style == Wait::Notify && !inner.cqs.borrow().all_armed() {
            if let Some(until) = inner.spins_until() {
                let deadline = inner.next_deadline().map_or(until, |deadline| deadline.min(until));
                return Park::Until { style: Wait::Poll, deadline: Some(deadline) };
            }
            // Not in this step: a completion may come between the empty poll and the arming.
            inner.arming.set(true);
            return Park::Again;
        }
        if style == Wait::Notify && !inner.looked.get() {
            return Park::Again;
        }
        Park::Until { style, deadline: inner.next_deadline() }
    }
}

/// How many steps in a row may pass that had something to do, and in which queues that only listen were not looked at.
const UNHEARD: u32 = 16;

/// How many steps in a row may end with tasks that are ready before those go that wait until there is none: milliseconds.
const BUSY: u32 = 16;

impl<V: Verbs> Inner<V> {
    /// Whether queues that only listen are looked at in a step that has `worked`. A node that spins does so when it had nothing to do: a
    /// look takes as long as one at a queue that is used, and what waits there brings the next step. A node that sleeps has armed them.
    fn looks_beside(&self, worked: bool) -> bool {
        let every_time = self.config.wait == Wait::Notify || self.config.one_by_one;
        let unheard = self.unheard.get() + 1;
        let looks = every_time || !worked || unheard >= UNHEARD;
        self.unheard.set(if looks { 0 } else { unheard });
        looks
    }

    /// After how many steps that end with tasks that are ready those go that wait until there is none: by then each completion queue was
    /// emptied of all that it held when they began to wait ([`Rt::idle`]).
    fn most_busy(&self) -> u32 {
        let RtConfig { max_rounds, poll_batch, one_by_one, .. } = self.config;
        let a_step = if one_by_one { 1 } else { max_rounds.saturating_mul(poll_batch as u32) };
        BUSY.max(self.cqs.borrow().longest().div_ceil(a_step))
    }

    /// Whether the node has looked at its queues for long enough, in vain.
    fn has_spun(&self) -> bool {
        let over = self.spins.get().is_some_and(|until| self.host.now() >= until);
        if over {
            self.spins.set(None);
        }
        over
    }

    /// Until when the node looks at its queues before it arms them; `None` if it does so no more.
    fn spins_until(&self) -> Option<Nanos> {
        if self.config.spin == Nanos::ZERO {
            return None;
        }
        let now = self.host.now();
        let until = self.spins.get().unwrap_or(now + self.config.spin);
        self.spins.set(Some(until));
        (now < until).then_some(until)
    }

    fn drain_signals(&self) {
        for (rail, adapter) in (0..).zip(&self.rails) {
            if let Some(channel) = &*adapter.channel.borrow() {
                while let Some(id) = channel.event() {
                    self.cqs.borrow_mut().event(rail, id);
                }
            }
        }
    }

    /// Takes events of connections and adapters and routes them; one at most of all rails if they come one by one. Says
    /// whether there was any.
    fn drain_events(&self, one: bool) -> bool {
        let mut any = false;
        for (rail, adapter) in (0..).zip(&self.rails) {
            let mut routes = adapter.routes.borrow_mut();
            let was_lost = routes.is_lost();
            any |= routes.drain(&adapter.ctx, one);
            let is_lost = routes.is_lost();
            drop(routes);
            if is_lost {
                self.cqs.borrow_mut().lose(rail);
            }
            if is_lost && !was_lost {
                self.wake_drains();
            }
            if one && any {
                break;
            }
        }
        any
    }

    /// An adapter has failed: who waits for a queue pair to drain looks whether it is one of that adapter's, which tells of no end any
    /// more.
    fn wake_drains(&self) {
        let watchers = self.requests.borrow_mut().ledgers.all_drain_watchers();
        watchers.wake();
    }

    /// Whether the first adapter has failed. The node's memory is that one's: what peers ask of it, no other adapter can execute, and
    /// they would wait for ever.
    fn is_lost(&self) -> bool {
        self.rails[0].routes.borrow().is_lost()
    }

    /// Polls these completion queues once and resolves what it found.
    fn poll_completions(&self, which: Which) -> Result<Polled, VerbsError> {
        let batch = &mut *self.batch.borrow_mut();
        let most = if self.config.one_by_one { 1 } else { self.config.poll_batch };
        let polled = self.cqs.borrow_mut().poll(which, batch, most, self.config.one_by_one);
        if !batch.is_empty() {
            self.spins.set(None);
            batch.drain(..).for_each(|completion| complete(&self.requests, &completion));
        }
        let ended = self.cqs.borrow_mut().take_ended();
        for (queue, kind) in ended {
            let watchers = self.requests.borrow_mut().ledgers.closes(queue, kind);
            watchers.wake();
        }
        match polled {
            Ok(polled) => Ok(polled),
            // Those behind it were not looked at.
            Err(refused) => self.fails(refused).map(|()| Polled::More),
        }
    }

    /// Arms the completion queues that are not armed.
    pub(super) fn arm(&self) -> Result<(), VerbsError> {
        loop {
            let armed = self.cqs.borrow_mut().arm();
            match armed {
                Ok(()) => return Ok(()),
                Err(refused) => self.fails(refused)?,
            }
        }
    }

    /// An adapter that refuses to be polled or armed has failed, and may say so later. The first one takes the node with it; of another one
    /// everyone is told as if it had said so, and nothing more is expected of it.
    fn fails(&self, Refused { rail, why }: Refused) -> Result<(), VerbsError> {
        if rail == 0 {
            return Err(why);
        }
        self.rails[usize::from(rail)].routes.borrow_mut().lose();
        self.cqs.borrow_mut().lose(rail);
        self.wake_drains();
        Ok(())
    }

    fn fire_timers(&self) -> bool {
        let Some(first) = self.next_deadline() else { return false };
        let now = self.host.now();
        if first > now {
            return false;
        }
        while let Some(waker) = self.next_due(now) {
            waker.wake();
        }
        true
    }

    fn next_due(&self, now: Nanos) -> Option<std::task::Waker> {
        self.timers.borrow_mut().pop_due(now)
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.timers.borrow_mut().next()
    }
}

impl<V: Verbs> Node for Program<V> {
    fn step(&mut self) -> Park {
        if self.rt.inner.closed.get() {
            return Park::Done;
        }
        let inner = &*self.rt.inner;
        if inner.processors.are_used() {
            inner.processors.pass(inner.host.now(), 0);
        }
        let park = self.try_step();
        if inner.processors.are_used() {
            inner.processors.pass(inner.host.now(), 1);
        }
        match park {
            Ok(park) => park,
            Err(error) => {
                // The first device is gone if it refuses to be polled or armed, or says that it failed, and the node with it.
                self.rt.inner.fatal.set(Some(error));
                self.rt.shutdown();
                Park::Done
            }
        }
    }
}

impl<V: Verbs> Drop for Program<V> {
    fn drop(&mut self) {
        self.rt.shutdown();
    }
}
