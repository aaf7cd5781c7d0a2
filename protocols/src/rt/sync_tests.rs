//! The promises of waiting for one another.

use super::*;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Wake;

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Notes its name when it is woken.
struct Named(usize, Arc<Mutex<Vec<usize>>>);

impl Wake for Named {
    fn wake(self: Arc<Self>) {
        self.1.lock().expect("nobody panicked").push(self.0);
    }
}

fn counting() -> (Arc<Count>, Waker) {
    let count = Arc::new(Count(AtomicUsize::new(0)));
    (Arc::clone(&count), Waker::from(count))
}

fn woken(count: &Count) -> usize {
    count.0.load(Ordering::Relaxed)
}

#[test]
fn a_value_reaches_the_one_who_waits_for_it() {
    let (count, waker) = counting();
    let mut cx = Context::from_waker(&waker);
    let (sender, receiver) = oneshot();
    let mut receiver = pin!(receiver);
    assert_eq!(receiver.as_mut().poll(&mut cx), Poll::Pending);
    assert_eq!(sender.send(5), Ok(()));
    assert_eq!(woken(&count), 1);
    assert_eq!(receiver.poll(&mut cx), Poll::Ready(Ok(5)));
}

#[test]
fn a_dropped_half_is_noticed_by_the_other() {
    let (count, waker) = counting();
    let (sender, mut receiver) = oneshot::<u8>();
    let waiting = Pin::new(&mut receiver).poll(&mut Context::from_waker(&waker));
    assert_eq!(waiting, Poll::Pending);
    drop(sender);
    assert_eq!(woken(&count), 1);
    let ended = Pin::new(&mut receiver).poll(&mut Context::from_waker(&waker));
    assert_eq!(ended, Poll::Ready(Err(Closed)));

    let (sender, receiver) = oneshot();
    assert!(!sender.is_closed());
    drop(receiver);
    assert!(sender.is_closed());
    assert_eq!(sender.send(8), Err(8), "the value comes back");
}

#[test]
fn a_mailbox_keeps_the_order_and_wakes_once_for_a_batch() {
    let (count, waker) = counting();
    let mut cx = Context::from_waker(&waker);
    let (sender, mut mailbox) = mailbox();
    assert_eq!(mailbox.poll_recv(&mut cx), Poll::Pending);
    for i in 0..3 {
        assert_eq!(sender.send(i), Ok(()));
    }
    assert_eq!((woken(&count), mailbox.len()), (1, 3));
    assert_eq!(mailbox.poll_recv(&mut cx), Poll::Ready(Ok(0)));
    assert_eq!(mailbox.try_recv(), Some(1));
    drop(sender);
    assert_eq!(mailbox.poll_recv(&mut cx), Poll::Ready(Ok(2)), "what was sent is still delivered");
    assert_eq!(mailbox.poll_recv(&mut cx), Poll::Ready(Err(Closed)));
    assert!(mailbox.is_empty());
}

#[test]
fn a_mailbox_lives_as_long_as_any_of_its_senders() {
    let (count, waker) = counting();
    let (first, mut mailbox) = mailbox::<u8>();
    let second = first.clone();
    drop(first);
    assert_eq!(mailbox.poll_recv(&mut Context::from_waker(&waker)), Poll::Pending);
    drop(second);
    assert_eq!(woken(&count), 1);
    assert_eq!(mailbox.poll_recv(&mut Context::from_waker(&waker)), Poll::Ready(Err(Closed)));
}

#[test]
fn a_value_for_a_mailbox_that_is_gone_comes_back() {
    let (sender, mailbox) = mailbox();
    assert!(!sender.is_closed());
    drop(mailbox);
    assert!(sender.is_closed());
    assert_eq!(sender.send(1), Err(1));
}

#[test]
fn a_signal_wakes_all_who_waited_and_none_who_come_later() {
    let (count, waker) = counting();
    let (other, other_waker) = counting();
    let signal = Signal::new();
    let (mut a, mut b) = (signal.changed(), signal.changed());
    assert!(Pin::new(&mut a).poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(Pin::new(&mut a).poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(Pin::new(&mut b).poll(&mut Context::from_waker(&other_waker)).is_pending());
    signal.notify();
    assert_eq!((woken(&count), woken(&other)), (1, 1));
    assert!(Pin::new(&mut a).poll(&mut Context::from_waker(&waker)).is_ready());
    let mut late = signal.changed();
    assert!(Pin::new(&mut late).poll(&mut Context::from_waker(&waker)).is_pending());
}

#[test]
fn a_change_between_asking_and_waiting_is_not_missed() {
    let signal = Signal::new();
    let mut changed = signal.changed();
    signal.notify();
    assert!(Pin::new(&mut changed).poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

#[test]
fn until_looks_again_after_every_change() {
    let signal = Signal::new();
    let looked = std::cell::Cell::new(0);
    let mut waiting = pin!(signal.until(|| {
        looked.set(looked.get() + 1);
        looked.get() == 3
    }));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut cx).is_pending());
    signal.notify();
    assert!(waiting.as_mut().poll(&mut cx).is_pending());
    signal.notify();
    assert!(waiting.as_mut().poll(&mut cx).is_ready());
    assert_eq!(looked.get(), 3);
}

#[test]
fn a_wait_ends_without_what_it_waits_for_once_a_condition_holds() {
    for holds in [false, true] {
        let (signal, (count, waker)) = (Signal::new(), counting());
        let (sender, receiver) = oneshot();
        let over = std::cell::Cell::new(false);
        let mut waiting = pin!(signal.unless(|| over.get(), receiver));
        let mut cx = Context::from_waker(&waker);
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        signal.notify();
        assert_eq!(woken(&count), 1);
        assert!(waiting.as_mut().poll(&mut cx).is_pending(), "something else has changed");
        over.set(holds);
        match holds {
            true => signal.notify(),
            false => assert_eq!(sender.send(7), Ok(())),
        }
        assert_eq!(woken(&count), 2);
        assert_eq!(waiting.as_mut().poll(&mut cx), Poll::Ready((!holds).then_some(Ok(7))));
    }
}

/// Each request of a daemon is a task of its own, and the signal for which they wait beside their answers may not change for days.
#[test]
fn a_signal_keeps_nobody_who_waits_no_more() {
    let (signal, (count, last)) = (Signal::new(), counting());
    let mut stays = signal.changed();
    assert!(Pin::new(&mut stays).poll(&mut Context::from_waker(&last)).is_pending());
    for _ in 0..1_000 {
        let (other, waker) = counting();
        let mut cx = Context::from_waker(&waker);
        let ready = pin!(signal.unless(|| false, std::future::ready(7)));
        assert_eq!(ready.poll(&mut cx), Poll::Ready(Some(7)));
        for _ in 0..2 {
            let waits = pin!(signal.until(|| false));
            assert!(waits.poll(&mut cx).is_pending());
        }
        assert_eq!(signal.0.borrow().waiters.len(), 1);
        assert_eq!(Arc::strong_count(&other), 2, "the test's two");
    }
    signal.notify();
    assert_eq!(woken(&count), 1);
}

#[test]
fn a_signal_wakes_in_the_order_in_which_waits_began_also_when_some_are_given_up_or_change_hands() {
    let order: Arc<Mutex<Vec<usize>>> = Arc::new(Mutex::new(Vec::new()));
    let waker = |name: usize| Waker::from(Arc::new(Named(name, Arc::clone(&order))));
    let signal = Signal::new();
    let mut waits: Vec<_> = (0..5).map(|_| signal.changed()).collect();
    let poll = |wait: &mut Changed, name| Pin::new(wait).poll(&mut Context::from_waker(&waker(name)));
    for nth in [3, 0, 4, 2, 1] {
        assert!(poll(&mut waits[nth], nth).is_pending());
    }
    assert!(poll(&mut waits[0], 10).is_pending(), "another task has it now");
    drop(waits.remove(4));
    signal.notify();
    assert_eq!(*order.lock().expect("nobody panicked"), [3, 10, 2, 1]);
    assert!(waits.iter_mut().all(|wait| poll(wait, 0).is_ready()));
}

/// A future may be polled by one task and then by another, which has it then.
#[test]
fn the_task_that_looked_last_is_woken() {
    let [(first, one), (second, other)] = [counting(), counting()];
    let (sender, mut receiver) = oneshot();
    let (letters, mut mailbox) = mailbox();
    for waker in [&one, &other] {
        let mut cx = Context::from_waker(waker);
        assert!(
            Pin::new(&mut receiver).poll(&mut cx).is_pending() && mailbox.poll_recv(&mut cx).is_pending()
        );
    }
    assert_eq!((sender.send(1), letters.send(2)), (Ok(()), Ok(())));
    assert_eq!((woken(&first), woken(&second)), (0, 2));
}
