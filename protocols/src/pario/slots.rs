//! Slots of calls that change something: the directory's home keeps an answer in each, which it gives once more to who asks again.
//!
//! A slot is free when its call has ended: then the answer was received, or nobody wants it, and the next call there takes its place. So
//! a home keeps no more answers than a client has slots.

use crate::rt::places::{Place, Places};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

/// A call that changes something: its slot, and a number that no other call of its node has, in any life of it. Numbers are counted from
/// the whole incarnation: a home keeps a dead life's answers, and must not give one to a call of the next life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Asked {
    pub slot: u16,
    pub sequence: u64,
}

struct Shared {
    free: RefCell<BTreeSet<u16>>,
    /// One for each slot.
    places: Places,
    /// How many calls there were.
    next: Cell<u64>,
}

/// A node's slots.
pub(super) struct Slots(Rc<Shared>);

/// One that a call has.
pub(super) struct Slot {
    number: u16,
    of: Rc<Shared>,
    _place: Place,
}

impl Slots {
    /// So many, in some incarnation of the node.
    pub(super) fn new(slots: u32, incarnation: u64) -> Slots {
        let slots = u16::try_from(slots).unwrap_or(u16::MAX);
        let (free, next) = (RefCell::new((0..slots).collect()), Cell::new(incarnation));
        Slots(Rc::new(Shared { free, places: Places::new(slots.into()), next }))
    }

    /// The first one that is free, as soon as one is.
    pub(super) async fn take(&self) -> Rc<Slot> {
        let _place = self.0.places.take().await;
        let number = self.0.free.borrow_mut().pop_first().expect("there are as many as places");
        Rc::new(Slot { number, of: Rc::clone(&self.0), _place })
    }
}

impl Slot {
    /// The next call in it.
    pub(super) fn next(&self) -> Asked {
        let sequence = self.of.next.replace(self.of.next.get().wrapping_add(1));
        Asked { slot: self.number, sequence }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.of.free.borrow_mut().insert(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn first(slots: &Slots) -> Rc<Slot> {
        match pin!(slots.take()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(slot) => slot,
            Poll::Pending => panic!("a slot is free"),
        }
    }

    /// A fuzzer found it: numbers were counted from the low half of an incarnation, and a home that began anew gave a client's new life
    /// the answer of its old one, whose incarnation had the same low half.
    #[test]
    fn calls_of_two_lives_have_different_numbers_even_if_half_of_their_incarnations_is_the_same() {
        let numbers = |incarnation: u64| {
            let slot = first(&Slots::new(1, incarnation));
            [slot.next(), slot.next()]
        };
        let [of_one, of_another] = [numbers(3 << 40 | 1), numbers(5 << 40 | 1)];
        assert!(of_one.iter().all(|asked| !of_another.contains(asked)), "{of_one:?} {of_another:?}");
        let last = numbers(u64::MAX);
        assert_ne!(last[0], last[1], "numbers go on behind the last");
    }
}
