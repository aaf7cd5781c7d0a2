//! What wakes a node: its byte streams and the bell of its disk.

use crate::refused;
use mio::event::Source;
use mio::{Events, Interest, Poll, Token, Waker as Bell};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::task::Waker;
use std::time::Duration;
use weft_verbs::{Nanos, Result};

/// The token of the disk's bell: the node looks for itself.
const BELL: Token = Token(0);

/// Readiness that is taken at a time.
const BATCH: usize = 256;

/// Tasks that wait for a byte stream.
#[derive(Default)]
struct Waiting {
    read: Option<Waker>,
    write: Option<Waker>,
}

pub(crate) struct Reactor {
    poll: RefCell<(Poll, Events)>,
    next: Cell<usize>,
    waiting: RefCell<BTreeMap<Token, Waiting>>,
}

impl Reactor {
    pub(crate) fn new() -> Result<Reactor> {
        let poll = Poll::new().map_err(refused("epoll_create1"))?;
        Ok(Reactor {
            poll: RefCell::new((poll, Events::with_capacity(BATCH))),
            next: Cell::new(BELL.0 + 1),
            waiting: RefCell::default(),
        })
    }

    /// What another thread ends a wait with.
    pub(crate) fn bell(&self) -> Result<Bell> {
        Bell::new(self.poll.borrow().0.registry(), BELL).map_err(refused("eventfd"))
    }

    /// Watches a byte stream, or what takes them, until it is [forgotten](Reactor::forget).
    pub(crate) fn watch(&self, source: &mut impl Source) -> io::Result<Token> {
        let token = Token(self.next.get());
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll.borrow().0.registry().register(source, token, both)?;
        self.next.set(token.0 + 1);
        self.waiting.borrow_mut().insert(token, Waiting::default());
        Ok(token)
    }

    pub(crate) fn forget(&self, source: &mut impl Source, token: Token) {
        // It is closed next, which ends the watch as well.
        let _ = self.poll.borrow().0.registry().deregister(source);
        self.waiting.borrow_mut().remove(&token);
    }

    /// Wakes a task once the stream can be read.
    pub(crate) fn when_readable(&self, token: Token, waker: &Waker) {
        if let Some(waiting) = self.waiting.borrow_mut().get_mut(&token) {
            waiting.read = Some(waker.clone());
        }
    }

    /// Wakes a task once the stream can be written.
    pub(crate) fn when_writable(&self, token: Token, waker: &Waker) {
        if let Some(waiting) = self.waiting.borrow_mut().get_mut(&token) {
            waiting.write = Some(waker.clone());
        }
    }

    /// Waits until something is ready or the time is over, and wakes the tasks whose streams are ready. Whether anything was.
    pub(crate) fn wait(&self, span: Option<Nanos>) -> bool {
        let (poll, events) = &mut *self.poll.borrow_mut();
        // A signal ends a wait early, and the node looks again.
        let _ = poll.poll(events, span.map(|span| Duration::from_nanos(span.0)));
        let mut wake = Vec::new();
        for event in &*events {
            let mut waiting = self.waiting.borrow_mut();
            let Some(waiting) = waiting.get_mut(&event.token()) else { continue };
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                wake.extend(waiting.read.take());
            }
            if event.is_writable() || event.is_write_closed() || event.is_error() {
                wake.extend(waiting.write.take());
            }
        }
        wake.into_iter().for_each(Waker::wake);
        !events.is_empty()
    }
}
