//! Places of which there are only so many, and the line of those who wait for one.
//!
//! A [signal](super::sync::Signal) wakes all who wait, and each looks for itself. Where many wait for one place each, all but one of them
//! would look for nothing, once for each place that is given back. Here that wakes one.

use super::wait_point::leaf;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

struct State {
    free: u32,
    /// Who waits, by the number of the wait, the first in line first. A free place is for each of the first so many, who have been woken.
    line: VecDeque<(u64, Waker)>,
    /// How many have come to stand in line.
    waits: u64,
}

impl State {
    /// How many stand in line before a wait.
    fn before(&self, number: Option<u64>) -> usize {
        let place = number.and_then(|number| self.line.binary_search_by_key(&number, |(of, _)| *of).ok());
        place.unwrap_or(self.line.len())
    }

    /// The last one for whom there is a free place, if so many wait.
    fn last_served(&self) -> Option<Waker> {
        let last = (self.free as usize).checked_sub(1)?;
        self.line.get(last).map(|(_, waker)| waker.clone())
    }
}

/// So many places. Clones are the same ones.
#[derive(Clone)]
pub(crate) struct Places(Rc<RefCell<State>>);

/// One of them, which is free again when this is dropped.
pub(crate) struct Place(Rc<RefCell<State>>);

impl Places {
    /// So many, all free.
    pub(crate) fn new(places: u32) -> Places {
        Places(Rc::new(RefCell::new(State { free: places, line: VecDeque::new(), waits: 0 })))
    }

    /// Waits for a place, behind those who wait already.
    pub(crate) fn take(&self) -> Taking {
        Taking { of: Rc::clone(&self.0), number: None }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let next = {
            let mut state = self.0.borrow_mut();
            state.free += 1;
            state.last_served()
        };
        next.into_iter().for_each(Waker::wake);
    }
}

/// Waits for a place. Dropping it ends the wait.
pub(crate) struct Taking {
    of: Rc<RefCell<State>>,
    /// Its number in line, once it has waited.
    number: Option<u64>,
}

impl Future for Taking {
    type Output = Place;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Place> {
        let of = Rc::clone(&self.of);
        let mut state = of.borrow_mut();
        let before = state.before(self.number);
        if before < state.free as usize {
            state.free -= 1;
            let waited = self.number.take().and_then(|_| state.line.remove(before));
            // A waker's destructor may come back here; it runs after the borrow.
            drop(state);
            drop(waited);
            return Poll::Ready(Place(of));
        }
        match state.line.get_mut(before) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => {
                let number = state.waits;
                state.waits += 1;
                state.line.push_back((number, cx.waker().clone()));
                self.number = Some(number);
            }
        }
        leaf();
        Poll::Pending
    }
}

impl Drop for Taking {
    /// One who gives up where a place is free leaves that to who stands behind.
    fn drop(&mut self) {
        if self.number.is_none() {
            return;
        }
        let mut state = self.of.borrow_mut();
        let before = state.before(self.number);
        let waited = state.line.remove(before);
        let next = state.last_served().filter(|_| before < state.free as usize);
        // As above.
        drop(state);
        drop(waited);
        next.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use std::task::Wake;

    /// Notes its number when it is woken.
    struct Noted(usize, Arc<Mutex<Vec<usize>>>);

    impl Wake for Noted {
        fn wake(self: Arc<Self>) {
            self.1.lock().expect("nobody panicked").push(self.0);
        }
    }

    /// Waits for places, by number, and who was woken.
    struct Bench {
        places: Places,
        waits: Vec<Option<Taking>>,
        woken: Arc<Mutex<Vec<usize>>>,
    }

    impl Bench {
        fn new(places: u32) -> Bench {
            Bench { places: Places::new(places), waits: Vec::new(), woken: Arc::default() }
        }

        /// One more comes; its place, if there is one for it.
        fn come(&mut self) -> Option<Place> {
            self.waits.push(Some(self.places.take()));
            self.look(self.waits.len() - 1)
        }

        fn look(&mut self, number: usize) -> Option<Place> {
            let waker = Waker::from(Arc::new(Noted(number, Arc::clone(&self.woken))));
            let wait = self.waits[number].as_mut().expect("it waits");
            match Pin::new(wait).poll(&mut Context::from_waker(&waker)) {
                Poll::Pending => None,
                Poll::Ready(place) => {
                    self.waits[number] = None;
                    Some(place)
                }
            }
        }

        /// Who was woken since.
        fn woken(&self) -> Vec<usize> {
            std::mem::take(&mut self.woken.lock().expect("nobody panicked"))
        }
    }

    #[test]
    fn a_place_that_is_given_back_wakes_the_first_in_line_and_nobody_else() {
        let mut bench = Bench::new(2);
        let mut held: VecDeque<Place> = [bench.come(), bench.come()].into_iter().flatten().collect();
        assert_eq!(held.len(), 2);
        for _ in 2..100 {
            assert!(bench.come().is_none());
        }
        for number in 2..100 {
            drop(held.pop_front());
            assert_eq!(bench.woken(), [number]);
            held.extend(bench.look(number));
            assert_eq!(held.len(), 2);
        }
        held.clear();
        assert_eq!(bench.woken(), [0; 0]);
    }

    #[test]
    fn who_comes_before_the_one_that_was_woken_has_looked_does_not_take_its_place() {
        let mut bench = Bench::new(1);
        let held = bench.come();
        assert!(bench.come().is_none());
        drop(held);
        assert!(bench.come().is_none());
        let held = bench.look(1);
        assert!(held.is_some() && bench.look(2).is_none());
        bench.woken();
        drop(held);
        assert_eq!(bench.woken(), [2]);
        assert!(bench.look(2).is_some());
    }

    #[test]
    fn a_place_whose_next_one_waits_no_more_is_for_the_one_behind() {
        let mut bench = Bench::new(1);
        let held = bench.come();
        for _ in 1..5 {
            assert!(bench.come().is_none());
        }
        bench.waits[2] = None;
        assert_eq!(bench.woken(), [0; 0], "no place is free");
        drop(held);
        assert_eq!(bench.woken(), [1]);
        bench.waits[4] = None;
        bench.waits[1] = None;
        assert_eq!(bench.woken(), [3]);
        assert!(bench.look(3).is_some());
    }

    #[test]
    fn no_place_is_free_while_one_waits_that_was_not_woken_whatever_is_taken_given_back_and_given_up() {
        let (mut bench, mut held, mut told) = (Bench::new(3), Vec::new(), Vec::new());
        let mut state = 7_u32;
        let mut below = |n: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) as usize % n
        };
        for _ in 0..5_000 {
            let waiting: Vec<usize> =
                (0..bench.waits.len()).filter(|number| bench.waits[*number].is_some()).collect();
            match below(4) {
                0 if waiting.len() < 10 => held.extend(bench.come()),
                1 if !held.is_empty() => drop(held.swap_remove(below(held.len()))),
                2 if !waiting.is_empty() => bench.waits[waiting[below(waiting.len())]] = None,
                3 if !waiting.is_empty() => held.extend(bench.look(waiting[below(waiting.len())])),
                _ => {}
            }
            told.extend(bench.woken());
            assert!(held.len() <= 3);
            let waiting = (0..bench.waits.len()).filter(|number| bench.waits[*number].is_some());
            let first: Vec<usize> = waiting.take(3 - held.len()).collect();
            assert!(first.iter().all(|number| told.contains(number)), "{first:?}");
        }
    }
}
