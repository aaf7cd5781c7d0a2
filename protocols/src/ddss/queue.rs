//! The tasks of a node in line for a turn at a segment. The first one has it.

use crate::rt::sync::wake_kept;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::{Context, Waker};

/// A line of tasks. Each place has a waker of its own, so that the end of a turn wakes the next task alone, however many wait.
#[derive(Default)]
pub(super) struct Queue {
    places: RefCell<VecDeque<Place>>,
    numbers: Cell<u64>,
}

struct Place {
    number: u64,
    waker: Option<Waker>,
}

impl Queue {
    /// Takes the last place: its number.
    pub fn enter(&self) -> u64 {
        let number = self.numbers.replace(self.numbers.get() + 1);
        self.places.borrow_mut().push_back(Place { number, waker: None });
        number
    }

    /// Whether nobody is in line.
    pub fn is_empty(&self) -> bool {
        self.places.borrow().is_empty()
    }

    /// Whether a place is the first one.
    pub fn is_first(&self, number: u64) -> bool {
        self.places.borrow().front().is_some_and(|first| first.number == number)
    }

    /// Has the task woken that waits at a place, once that is the first one or [all](Queue::wake_all) are woken.
    pub fn watch(&self, number: u64, cx: &Context<'_>) {
        let mut places = self.places.borrow_mut();
        if let Some(place) = find(&places, number) {
            wake_kept(&mut places[place].waker, cx);
        }
    }

    /// Gives a place up. If it was the first one, the next task is woken.
    pub fn leave(&self, number: u64) {
        let mut places = self.places.borrow_mut();
        let Some(place) = find(&places, number) else { return };
        let left = places.remove(place);
        let next = if place == 0 { places.front_mut().and_then(|next| next.waker.take()) } else { None };
        // Wakers may come back here: they run after the borrow.
        drop(places);
        drop(left);
        if let Some(next) = next {
            next.wake();
        }
    }

    /// Wakes all who wait, in the order of their places: what they wait at has ended.
    pub fn wake_all(&self) {
        let wakers: Vec<_> =
            self.places.borrow_mut().iter_mut().filter_map(|place| place.waker.take()).collect();
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Where a place is in the line. Numbers grow along it.
fn find(places: &VecDeque<Place>, number: u64) -> Option<usize> {
    places.binary_search_by_key(&number, |place| place.number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_end_of_a_turn_wakes_the_next_task_alone_and_one_that_goes_from_the_middle_wakes_none() {
        let queue = Queue::default();
        let waits = |_| {
            let (number, woken) = (queue.enter(), Arc::new(Woken::default()));
            queue.watch(number, &Context::from_waker(&Arc::clone(&woken).into()));
            (number, woken)
        };
        let all: Vec<_> = (0..5).map(waits).collect();
        let woken = || all.iter().map(|(_, woken)| woken.0.load(Ordering::Relaxed)).collect::<Vec<_>>();
        queue.leave(all[1].0);
        assert_eq!((woken(), queue.is_first(all[0].0)), (vec![0; 5], true));
        queue.leave(all[0].0);
        assert_eq!((woken(), queue.is_first(all[2].0)), (vec![0, 0, 1, 0, 0], true));
        queue.wake_all();
        assert_eq!(woken(), [0, 0, 1, 1, 1], "each once, since none has watched again");
        all[2..].iter().for_each(|(number, _)| queue.leave(*number));
        assert!(queue.is_empty());
    }
}
