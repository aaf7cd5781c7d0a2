//! The timers' promises.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Wake;

struct Note(Arc<Mutex<Vec<u32>>>, u32);

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.0.lock().expect("not poisoned").push(self.1);
    }
}

fn fire(timers: &mut Timers, now: u64) {
    while let Some(waker) = timers.pop_due(Nanos(now)) {
        waker.wake();
    }
}

#[test]
fn timers_fire_by_deadline_and_then_by_the_order_of_setting() {
    let (mut timers, fired) = (Timers::default(), Arc::new(Mutex::new(Vec::new())));
    for (at, name) in [(30, 0), (10, 1), (20, 2), (10, 3), (40, 4)] {
        timers.set(Nanos(at), Waker::from(Arc::new(Note(Arc::clone(&fired), name))));
    }
    assert_eq!(timers.next(), Some(Nanos(10)));
    fire(&mut timers, 9);
    assert!(fired.lock().expect("not poisoned").is_empty());
    fire(&mut timers, 30);
    assert_eq!(*fired.lock().expect("not poisoned"), [1, 3, 2, 0]);
    assert_eq!((timers.alive(), timers.next()), (1, Some(Nanos(40))));
}

#[test]
fn a_cancelled_timer_neither_fires_nor_counts_as_a_deadline() {
    let mut timers = Timers::default();
    let first = timers.set(Nanos(1), Waker::noop().clone());
    timers.set(Nanos(2), Waker::noop().clone());
    timers.cancel(first);
    assert_eq!((timers.alive(), timers.next()), (1, Some(Nanos(2))));
    timers.cancel(first);
    assert_eq!(timers.alive(), 1, "a stale name does nothing");
    assert!(timers.pop_due(Nanos(2)).is_some());
    assert!(timers.pop_due(Nanos(9)).is_none());
    assert_eq!(timers.next(), None);
}

#[test]
fn a_stale_name_does_not_cancel_the_next_timer_in_its_place() {
    let mut timers = Timers::default();
    let old = timers.set(Nanos(1), Waker::noop().clone());
    assert!(timers.pop_due(Nanos(1)).is_some());
    let new = timers.set(Nanos(5), Waker::noop().clone());
    timers.cancel(old);
    assert!(!timers.rewake(old, Waker::noop()));
    assert!(timers.rewake(new, Waker::noop()));
    assert_eq!(timers.next(), Some(Nanos(5)));
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn rewaking_replaces_whom_a_timer_wakes() {
    let mut timers = Timers::default();
    let [old, new] = [0, 0].map(|n| Arc::new(Count(AtomicUsize::new(n))));
    let id = timers.set(Nanos(1), Waker::from(Arc::clone(&old)));
    assert!(timers.rewake(id, &Waker::from(Arc::clone(&new))));
    fire(&mut timers, 1);
    assert_eq!((old.0.load(Ordering::Relaxed), new.0.load(Ordering::Relaxed)), (0, 1));
}

#[test]
fn a_million_cancelled_deadlines_do_not_pile_up() {
    let mut timers = Timers::default();
    timers.set(Nanos(5), Waker::noop().clone());
    for i in 0..1_000_000 {
        let id = timers.set(Nanos(1_000_000 + i), Waker::noop().clone());
        timers.cancel(id);
    }
    assert!(timers.heap.len() <= 64 && timers.places.len() <= 2);
    assert_eq!((timers.alive(), timers.next()), (1, Some(Nanos(5))));
}

/// A few entries cost nothing; of more, as many as are of use: the work of dropping them is then shared by as many.
#[test]
fn entries_of_cancelled_timers_are_dropped_when_they_are_as_many_as_the_rest() {
    for (alive, most) in [(0, 63), (1, 63), (31, 63), (32, 63), (33, 65), (100, 199)] {
        let mut timers = Timers::default();
        for _ in 0..alive {
            timers.set(Nanos(5), Waker::noop().clone());
        }
        let longest = (0..1_000).map(|_| {
            let id = timers.set(Nanos(9), Waker::noop().clone());
            timers.cancel(id);
            timers.heap.len()
        });
        assert_eq!(longest.max(), Some(most), "{alive}");
        assert_eq!((timers.alive(), timers.next()), (alive, (alive > 0).then_some(Nanos(5))));
    }
}

#[test]
fn clearing_forgets_every_timer_and_every_name() {
    let mut timers = Timers::default();
    let id = timers.set(Nanos(5), Waker::noop().clone());
    assert_eq!(timers.clear().len(), 1);
    assert_eq!((timers.alive(), timers.next()), (0, None));
    timers.cancel(id);
    assert!(!timers.rewake(id, Waker::noop()));
    timers.set(Nanos(7), Waker::noop().clone());
    assert_eq!((timers.alive(), timers.next()), (1, Some(Nanos(7))));
}
