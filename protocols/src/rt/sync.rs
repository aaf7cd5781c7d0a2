//! Waiting for one another within a node: one value, many values, a change.

use super::wait_point::leaf;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::hash::{Hash, Hasher};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The other half is gone: the value will never come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sender was dropped")]
pub struct Closed;

struct OneshotState<T> {
    value: Option<T>,
    waker: Option<Waker>,
    sender_gone: bool,
    receiver_gone: bool,
}

/// Sends one value to one waiter.
pub struct OneshotSender<T>(Rc<RefCell<OneshotState<T>>>);

/// Awaits one value.
pub struct OneshotReceiver<T>(Rc<RefCell<OneshotState<T>>>);

/// A channel for one value.
pub fn oneshot<T>() -> (OneshotSender<T>, OneshotReceiver<T>) {
    let state = Rc::new(RefCell::new(OneshotState {
        value: None,
        waker: None,
        sender_gone: false,
        receiver_gone: false,
    }));
    (OneshotSender(Rc::clone(&state)), OneshotReceiver(state))
}

impl<T> OneshotSender<T> {
    /// Delivers the value, or hands it back when nobody waits for it any more.
    pub fn send(self, value: T) -> Result<(), T> {
        let mut state = self.0.borrow_mut();
        if state.receiver_gone {
            return Err(value);
        }
        state.value = Some(value);
        Ok(())
    }

    /// Whether the receiver was dropped.
    pub fn is_closed(&self) -> bool {
        self.0.borrow().receiver_gone
    }
}

impl<T> Hash for OneshotSender<T> {
    /// All that can be told of it: whether somebody still waits.
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.is_closed().hash(to);
    }
}

impl<T> Drop for OneshotSender<T> {
    fn drop(&mut self) {
        let waker = {
            let mut state = self.0.borrow_mut();
            state.sender_gone = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> OneshotReceiver<T> {
    /// Takes the value if it is there.
    pub fn try_recv(&mut self) -> Option<T> {
        self.0.borrow_mut().value.take()
    }
}

impl<T> Future for OneshotReceiver<T> {
    type Output = Result<T, Closed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, Closed>> {
        let mut state = self.0.borrow_mut();
        if let Some(value) = state.value.take() {
            return Poll::Ready(Ok(value));
        }
        if state.sender_gone {
            return Poll::Ready(Err(Closed));
        }
        wake_kept(&mut state.waker, cx);
        leaf();
        Poll::Pending
    }
}

impl<T> Drop for OneshotReceiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.borrow_mut();
        state.receiver_gone = true;
        state.waker = None;
        // The value's destructor may come back here; it runs after the borrow.
        let value = state.value.take();
        drop(state);
        drop(value);
    }
}

/// Keeps the task's waker, without a new reference count when it is the one kept already.
pub(crate) fn wake_kept(kept: &mut Option<Waker>, cx: &Context<'_>) {
    match kept {
        Some(waker) if waker.will_wake(cx.waker()) => {}
        _ => *kept = Some(cx.waker().clone()),
    }
}

struct MailboxState<T> {
    queue: VecDeque<T>,
    waker: Option<Waker>,
    senders: usize,
    receiver_gone: bool,
}

/// Puts values into a mailbox. Clones put into the same one.
pub struct MailboxSender<T>(Rc<RefCell<MailboxState<T>>>);

/// Takes values out of a mailbox, in the order in which they were put there.
pub struct Mailbox<T>(Rc<RefCell<MailboxState<T>>>);

/// A queue from many tasks to one. It grows as needed: bound what you put into it.
pub fn mailbox<T>() -> (MailboxSender<T>, Mailbox<T>) {
    let state = Rc::new(RefCell::new(MailboxState {
        queue: VecDeque::new(),
        waker: None,
        senders: 1,
        receiver_gone: false,
    }));
    (MailboxSender(Rc::clone(&state)), Mailbox(state))
}

impl<T> MailboxSender<T> {
    /// Delivers a value, or hands it back when the mailbox is gone.
    pub fn send(&self, value: T) -> Result<(), T> {
        let mut state = self.0.borrow_mut();
        if state.receiver_gone {
            return Err(value);
        }
        state.queue.push_back(value);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Whether the mailbox is gone.
    pub fn is_closed(&self) -> bool {
        self.0.borrow().receiver_gone
    }
}

impl<T> Clone for MailboxSender<T> {
    fn clone(&self) -> Self {
        self.0.borrow_mut().senders += 1;
        MailboxSender(Rc::clone(&self.0))
    }
}

impl<T> Drop for MailboxSender<T> {
    fn drop(&mut self) {
        let mut state = self.0.borrow_mut();
        state.senders -= 1;
        let waker = if state.senders == 0 { state.waker.take() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Mailbox<T> {
    /// Takes the oldest value if there is one.
    pub fn try_recv(&mut self) -> Option<T> {
        self.0.borrow_mut().queue.pop_front()
    }

    /// How many of the values that wait are such.
    pub fn count(&self, such: impl Fn(&T) -> bool) -> usize {
        self.0.borrow().queue.iter().filter(|value| such(value)).count()
    }

    /// Waits for the oldest value; an error once the mailbox is empty and every sender is gone.
    pub fn recv(&mut self) -> impl Future<Output = Result<T, Closed>> + '_ {
        poll_fn(|cx| {
            let end = self.poll_recv(cx);
            if end.is_pending() {
                leaf();
            }
            end
        })
    }

    /// As [`Mailbox::recv`], for hand-written futures.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, Closed>> {
        let mut state = self.0.borrow_mut();
        if let Some(value) = state.queue.pop_front() {
            return Poll::Ready(Ok(value));
        }
        if state.senders == 0 {
            return Poll::Ready(Err(Closed));
        }
        wake_kept(&mut state.waker, cx);
        Poll::Pending
    }

    /// How many values wait.
    pub fn len(&self) -> usize {
        self.0.borrow().queue.len()
    }

    /// Whether no value waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Drop for Mailbox<T> {
    fn drop(&mut self) {
        let mut state = self.0.borrow_mut();
        state.receiver_gone = true;
        state.waker = None;
        let queue = std::mem::take(&mut state.queue);
        drop(state);
        drop(queue);
    }
}

#[derive(Default)]
struct SignalState {
    changes: u64,
    /// Who waits for the next change, by the number of the wait: in the order in which they began to.
    waiters: Vec<(u64, Waker)>,
    /// How many waits have begun.
    waits: u64,
}

/// Tells all who wait that something changed; they look for themselves at what. Clones are the same signal.
#[derive(Clone, Default)]
pub struct Signal(Rc<RefCell<SignalState>>);

impl Signal {
    /// A signal that nobody waits for.
    pub fn new() -> Signal {
        Signal::default()
    }

    /// Wakes everyone who waits, in the order in which they began to.
    pub fn notify(&self) {
        let mut waiters = {
            let mut state = self.0.borrow_mut();
            state.changes += 1;
            if state.waiters.is_empty() {
                return;
            }
            std::mem::take(&mut state.waiters)
        };
        for (_, waker) in waiters.drain(..) {
            waker.wake();
        }
        // The next waiters find its allocation, unless waking has brought some already.
        let mut state = self.0.borrow_mut();
        if state.waiters.is_empty() {
            state.waiters = waiters;
        }
    }

    /// Waits for the next [`Signal::notify`] after this call.
    pub fn changed(&self) -> Changed {
        self.since(self.0.borrow().changes)
    }

    /// What has changed already: whoever waits for it goes on at once.
    pub(crate) fn has_changed(&self) -> Changed {
        self.since(self.0.borrow().changes.wrapping_sub(1))
    }

    fn since(&self, seen: u64) -> Changed {
        Changed { signal: self.clone(), seen, number: None }
    }

    /// Waits until a condition holds, looking again after every change.
    pub async fn until(&self, mut condition: impl FnMut() -> bool) {
        loop {
            let changed = self.changed();
            if condition() {
                return;
            }
            changed.await;
        }
    }

    /// Waits for something, and no longer than until a condition holds: then there is nothing. It looks again after every change.
    ///
    /// Explorers are told where the other wait stands: whether the condition holds is told by what it looks at.
    pub async fn unless<F: Future>(
        &self,
        mut condition: impl FnMut() -> bool,
        comes: F,
    ) -> Option<F::Output> {
        let mut comes = pin!(comes);
        let mut changed = self.changed();
        poll_fn(|cx| {
            if condition() {
                return Poll::Ready(None);
            }
            changed.watch(cx);
            comes.as_mut().poll(cx).map(Some)
        })
        .await
    }
}

/// Waits for a [`Signal`]. Dropping it ends the wait: nobody is woken for it any more.
pub struct Changed {
    signal: Signal,
    seen: u64,
    /// Its number among those who wait, once it has waited.
    number: Option<u64>,
}

impl SignalState {
    /// Where a wait stands among those who wait, if it does: a change has ended those before it.
    fn place(&self, number: Option<u64>) -> Option<usize> {
        self.waiters.binary_search_by_key(&number?, |(number, _)| *number).ok()
    }
}

impl Changed {
    /// Has the task woken by the next change. Who waits already keeps its place.
    fn watch(&mut self, cx: &Context<'_>) {
        let mut state = self.signal.0.borrow_mut();
        if let Some(place) = state.place(self.number) {
            return state.waiters[place].1.clone_from(cx.waker());
        }
        let number = state.waits;
        state.waits += 1;
        state.waiters.push((number, cx.waker().clone()));
        self.number = Some(number);
    }
}

impl Future for Changed {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.signal.0.borrow().changes != self.seen {
            return Poll::Ready(());
        }
        self.watch(cx);
        leaf();
        Poll::Pending
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        let mut state = self.signal.0.borrow_mut();
        let waiter = state.place(self.number).map(|place| state.waiters.remove(place));
        // A waker's destructor may come back here; it runs after the borrow.
        drop(state);
        drop(waiter);
    }
}

#[cfg(test)]
#[path = "sync_tests.rs"]
mod tests;
