//! What wakes a node: one `epoll` a context, with its channels, its events, its byte streams and its disk.

use crate::ffi::{Epoll, Readiness};
use crate::host;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::rc::{Rc, Weak};
use std::task::Waker;
use weft_verbs::{Nanos, Result};

/// What is added to the number of a descriptor of verbs objects, for its token. Its readiness ends a wait and wakes no task: the node
/// looks for itself.
const VERBS: u64 = 1 << 63;

/// The token of a descriptor of verbs objects.
fn token_of(fd: BorrowedFd<'_>) -> u64 {
    VERBS | fd.as_raw_fd() as u64
}

/// After how long the kernel is asked again although no wait has seen anything: for those who never wait.
const UNSEEN: Nanos = Nanos::from_micros(250);

/// Whether there may be something to read: to ask the kernel for nothing costs as much as to post.
#[derive(Clone, Debug)]
pub(crate) struct Hint(Rc<Seen>);

#[derive(Debug)]
struct Seen {
    /// A wait has seen something since nothing was found.
    ready: Cell<bool>,
    /// When the kernel was asked without that.
    asked: Cell<Nanos>,
    /// When a wait has last looked at all descriptors.
    waited: Rc<Cell<Nanos>>,
}

impl Hint {
    /// Asks the kernel, if a wait has seen something, or if neither it nor a wait was asked for a while.
    pub(crate) fn ask<T>(&self, ask: impl FnOnce() -> Option<T>) -> Option<T> {
        let Seen { ready, asked, waited } = &*self.0;
        if !ready.get() {
            let now = host::now();
            if now - asked.get().max(waited.get()) < UNSEEN {
                return None;
            }
            asked.set(now);
        }
        let answer = ask();
        if answer.is_none() {
            ready.set(false);
        }
        answer
    }
}

/// Tasks that wait for a byte stream.
#[derive(Default)]
struct Waiting {
    read: Option<Waker>,
    write: Option<Waker>,
}

/// What is told when its descriptor can be read, and wakes tasks of its own.
pub(crate) trait Source {
    fn ready(&self);
}

pub(crate) struct Reactor {
    epoll: Epoll,
    next: Cell<u64>,
    /// Of verbs objects, by token.
    hints: RefCell<BTreeMap<u64, Hint>>,
    waiting: RefCell<BTreeMap<u64, Waiting>>,
    sources: RefCell<BTreeMap<u64, Weak<dyn Source>>>,
    ready: RefCell<Vec<Readiness>>,
    /// When all descriptors were looked at.
    waited: Rc<Cell<Nanos>>,
}

impl Reactor {
    pub(crate) fn new() -> Result<Reactor> {
        Ok(Reactor {
            epoll: Epoll::new()?,
            next: Cell::new(0),
            hints: RefCell::default(),
            waiting: RefCell::default(),
            sources: RefCell::default(),
            ready: RefCell::default(),
            waited: Rc::new(Cell::new(host::now())),
        })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.fd()
    }

    /// Watches a descriptor of verbs objects, which is closed before the reactor or removes itself.
    pub(crate) fn watch(&self, fd: BorrowedFd<'_>) -> Result<Hint> {
        let waited = Rc::clone(&self.waited);
        let seen = Seen { ready: Cell::new(true), asked: Cell::new(host::now()), waited };
        let hint = Hint(Rc::new(seen));
        self.watch_beside(fd, &hint)?;
        Ok(hint)
    }

    /// Watches one more descriptor of an object.
    pub(crate) fn watch_beside(&self, fd: BorrowedFd<'_>, hint: &Hint) -> Result<()> {
        let token = token_of(fd);
        self.epoll.add(fd, token)?;
        self.hints.borrow_mut().insert(token, hint.clone());
        Ok(())
    }

    pub(crate) fn forget(&self, fd: BorrowedFd<'_>) {
        self.epoll.remove(fd);
        self.hints.borrow_mut().remove(&token_of(fd));
    }

    fn fresh_token(&self) -> u64 {
        let token = self.next.get();
        self.next.set(token + 1);
        token
    }

    /// Watches a descriptor as long as its source lives, which closes it.
    pub(crate) fn watch_source(&self, fd: BorrowedFd<'_>, source: Weak<dyn Source>) -> Result<()> {
        let token = self.fresh_token();
        self.epoll.add(fd, token)?;
        self.sources.borrow_mut().insert(token, source);
        Ok(())
    }

    /// Watches a byte stream: its token.
    pub(crate) fn watch_stream(&self, fd: BorrowedFd<'_>) -> Result<u64> {
        let token = self.fresh_token();
        self.epoll.add_edges(fd, token)?;
        self.waiting.borrow_mut().insert(token, Waiting::default());
        Ok(token)
    }

    pub(crate) fn forget_stream(&self, fd: BorrowedFd<'_>, token: u64) {
        self.epoll.remove(fd);
        self.waiting.borrow_mut().remove(&token);
    }

    /// Wakes a task once the stream can be read.
    pub(crate) fn when_readable(&self, token: u64, waker: &Waker) {
        if let Some(waiting) = self.waiting.borrow_mut().get_mut(&token) {
            waiting.read = Some(waker.clone());
        }
    }

    /// Wakes a task once the stream can be written.
    pub(crate) fn when_writable(&self, token: u64, waker: &Waker) {
        if let Some(waiting) = self.waiting.borrow_mut().get_mut(&token) {
            waiting.write = Some(waker.clone());
        }
    }

    /// All descriptors were looked at now; those that could be read are told apart.
    pub(crate) fn nothing_else(&self) {
        self.waited.set(host::now());
    }

    /// Waits until something is ready or the time is over, and wakes the tasks whose streams or disk calls are ready. Whether
    /// anything was.
    pub(crate) fn wait(&self, nanos: Option<u64>) -> bool {
        let mut ready = self.ready.take();
        self.epoll.wait(nanos, &mut ready);
        self.nothing_else();
        let any = !ready.is_empty();
        for Readiness { token, read, write, broken } in ready.drain(..) {
            if token & VERBS != 0 {
                if let Some(hint) = self.hints.borrow().get(&token) {
                    if broken {
                        // Of a device that is gone: what it has said is read now, and it says no more.
                        self.epoll.remove_number((token & !VERBS) as i32);
                    }
                    hint.0.ready.set(true);
                }
                continue;
            }
            let (mut to_read, mut to_write) = (None, None);
            if let Some(waiting) = self.waiting.borrow_mut().get_mut(&token) {
                to_read = if read { waiting.read.take() } else { None };
                to_write = if write { waiting.write.take() } else { None };
            }
            to_read.into_iter().chain(to_write).for_each(Waker::wake);
            let source = self.sources.borrow().get(&token).and_then(Weak::upgrade);
            if let Some(source) = source {
                source.ready();
            }
        }
        self.ready.replace(ready);
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    /// The kernel closes a device's descriptors when it takes the device away, and a node that sleeps must not spin on them.
    #[test]
    fn a_descriptor_whose_device_is_gone_wakes_the_node_once() {
        let reactor = Reactor::new().expect("a machine with epoll");
        let (here, there) = UnixStream::pair().expect("a pair of sockets");
        let hint = reactor.watch(here.as_fd()).expect("it is open");
        assert_eq!(hint.ask(|| None::<()>), None);
        assert!(!reactor.wait(Some(0)));
        drop(there);
        assert!(reactor.wait(Some(0)));
        assert_eq!(hint.ask(|| Some(1)), Some(1), "what it has said is read");
        assert!(!reactor.wait(Some(0)));
    }
}
