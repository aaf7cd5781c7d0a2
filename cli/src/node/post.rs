//! What a node says to the judge, and who waits for its answers.

use super::judge::Up;
use super::wire::{History, ToCoordinator, body};
use crate::bridge::Outbox;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::marker::PhantomData;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
use weft_check::record::Record;
use weft_check::system::System;

/// How long a node that leaves tries to say so.
const FAREWELL: Duration = Duration::from_secs(2);

/// What is on its way to the judge, and who waits for its answers. Clones are the same.
pub struct Post<S>(Rc<PostState>, PhantomData<S>);

impl<S> Clone for Post<S> {
    fn clone(&self) -> Post<S> {
        Post(Rc::clone(&self.0), PhantomData)
    }
}

struct PostState {
    outbox: Outbox,
    /// Events said, and those that the coordinator has written down.
    said: Cell<u64>,
    written: Cell<u64>,
    resting: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
    /// How long clients waited for events to be written.
    waited: Cell<Duration>,
    /// Since when the node is leaving on request.
    leaving: Cell<Option<Instant>>,
}

impl<S: System> Post<S> {
    /// Nothing has been said.
    pub fn new() -> Post<S> {
        let state = PostState {
            outbox: Outbox::default(),
            said: Cell::new(0),
            written: Cell::new(0),
            resting: Cell::new(false),
            waiting: RefCell::default(),
            waited: Cell::new(Duration::ZERO),
            leaving: Cell::new(None),
        };
        Post(Rc::new(state), PhantomData)
    }

    /// Says something.
    pub fn say(&self, up: &Up<S>) {
        self.0.outbox.say(&body(up));
    }

    /// Where it waits to be sent.
    pub fn outbox(&self) -> &Outbox {
        &self.0.outbox
    }

    /// What the history costs clients that lived so long, all together.
    pub fn history(&self, lived: Duration) -> History {
        History { waited: self.0.waited.get().as_nanos() as u64, lived: lived.as_nanos() as u64 }
    }

    /// Leaves: whether the coordinator has been told, or does not listen.
    pub fn has_left(&self) -> bool {
        let since = self.0.leaving.get().unwrap_or_else(|| {
            self.say(&ToCoordinator::Leaving);
            Instant::now()
        });
        self.0.leaving.set(Some(since));
        self.0.outbox.is_empty() || since.elapsed() > FAREWELL
    }

    /// So many events have been written down.
    pub fn written(&self, count: u64) {
        self.0.written.set(count);
        self.wake();
    }

    /// All clients are done.
    pub fn rest(&self) {
        self.0.resting.set(true);
        self.wake();
    }

    fn wake(&self) {
        self.0.waiting.take().into_iter().for_each(Waker::wake);
    }

    async fn until(&self, ready: impl Fn(&PostState) -> bool) {
        poll_fn(|cx| {
            if ready(&self.0) {
                return Poll::Ready(());
            }
            self.0.waiting.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Waits for that.
    pub async fn resting(&self) {
        self.until(|post| post.resting.get()).await;
    }
}

impl<S: System> Record<S::Event> for Post<S> {
    fn record(&self, event: S::Event) {
        self.0.said.set(self.0.said.get() + 1);
        self.say(&ToCoordinator::Saw(event));
    }

    async fn written(&self) {
        let (mine, since) = (self.0.said.get(), Instant::now());
        self.until(|post| post.written.get() >= mine).await;
        self.0.waited.set(self.0.waited.get() + since.elapsed());
    }
}
