//! Waiting for time, and letting others go first.

use super::Rt;
use super::timers::TimerId;
use super::wait_point::leaf;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use weft_verbs::{Nanos, Verbs};

/// A deadline came before the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the deadline passed")]
pub struct Elapsed;

/// Waits for a point in time; see [`Rt::sleep_until`].
pub struct Sleep<V: Verbs> {
    rt: Rt<V>,
    at: Nanos,
    timer: Option<TimerId>,
}

impl<V: Verbs> Sleep<V> {
    pub(super) fn new(rt: Rt<V>, at: Nanos) -> Sleep<V> {
        Sleep { rt, at, timer: None }
    }
}

impl<V: Verbs> Future for Sleep<V> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.at == Nanos::MAX {
            return Poll::Pending;
        }
        let mut timers = self.rt.inner.timers.borrow_mut();
        if let Some(id) = self.timer
            && timers.rewake(id, cx.waker())
        {
            return Poll::Pending;
        }
        if self.rt.now() >= self.at {
            return Poll::Ready(());
        }
        let id = timers.set(self.at, cx.waker().clone());
        drop(timers);
        self.timer = Some(id);
        Poll::Pending
    }
}

impl<V: Verbs> Drop for Sleep<V> {
    fn drop(&mut self) {
        if let Some(id) = self.timer {
            self.rt.inner.timers.borrow_mut().cancel(id);
        }
    }
}

/// A future with a deadline; see [`Rt::deadline`].
pub struct Timed<V: Verbs, F> {
    sleep: Sleep<V>,
    /// Boxed so that it can be polled without unsafe code; a deadline is set once a request, not once a
    /// message.
    future: Pin<Box<F>>,
}

impl<V: Verbs, F: Future> Timed<V, F> {
    pub(super) fn new(sleep: Sleep<V>, future: F) -> Timed<V, F> {
        Timed { sleep, future: Box::pin(future) }
    }
}

impl<V: Verbs, F: Future> Future for Timed<V, F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // The result first: one that came in time counts even if it is looked at late.
        if let Poll::Ready(value) = self.future.as_mut().poll(cx) {
            return Poll::Ready(Ok(value));
        }
        Pin::new(&mut self.sleep).poll(cx).map(|()| Err(Elapsed))
    }
}

/// Lets the world move; see [`Rt::yield_now`].
pub struct Yield<V: Verbs> {
    rt: Rt<V>,
    done: bool,
}

impl<V: Verbs> Yield<V> {
    pub(super) fn new(rt: Rt<V>) -> Yield<V> {
        Yield { rt, done: false }
    }
}

impl<V: Verbs> Future for Yield<V> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.done {
            return Poll::Ready(());
        }
        self.done = true;
        self.rt.inner.executor.wake_next_step(cx.waker().clone());
        leaf();
        Poll::Pending
    }
}
