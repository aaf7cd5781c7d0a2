//! Which minipages threads of this node have claimed, and which threads wait for their turn at one. A state machine without I/O.
//!
//! A claim pins each of its minipages, for reading together with others or for writing alone. It pins them in ascending order and
//! needs nothing else once it has them, and an access needs one minipage only: so whatever waits, waits for something higher,
//! and the waits end.

use super::messages::Access;
use super::shared::{ObjectId, PageId};
use crate::rt::sync::wake_kept;
use std::collections::{BTreeMap, VecDeque};
use std::task::{Context, Waker};

/// What is to be done with a minipage once it is this thread's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// One access, which takes no time.
    Access,
    /// A claim, which lasts.
    Claim,
}

/// The claims of a node's threads.
#[derive(Debug, Default)]
pub(super) struct Pins {
    /// How many claims there are of an object, from the call to the end: those, too, that have pinned nothing of it yet.
    claims: BTreeMap<ObjectId, u32>,
    /// Those that are claimed, or that threads wait for.
    pages: BTreeMap<PageId, Pin>,
    next: u64,
}

#[derive(Debug, Default)]
struct Pin {
    readers: u32,
    writer: bool,
    /// Who waits, in the order in which they get it: those with a grant that stays for them before the others.
    queue: VecDeque<Waits>,
}

#[derive(Debug)]
struct Waits {
    turn: u64,
    need: Access,
    /// A grant stays until this one has had its turn: an order that comes for the minipage waits for it.
    owed: bool,
    /// Wakes it once it is the first. However many wait behind it, the end of a claim wakes none of them.
    waker: Option<Waker>,
}

impl Pin {
    fn admits(&self, need: Access) -> bool {
        !self.writer && (need < Access::Write || self.readers == 0)
    }

    fn is_first(&self, turn: u64) -> bool {
        self.queue.front().is_some_and(|first| first.turn == turn)
    }
}

impl Pins {
    /// How a minipage is claimed at present; `Invalid`: it is not.
    pub fn pinned(&self, page: PageId) -> Access {
        match self.pages.get(&page) {
            Some(Pin { writer: true, .. }) => Access::Write,
            Some(Pin { readers: 1.., .. }) => Access::Read,
            _ => Access::Invalid,
        }
    }

    /// Whether a thread that has not waited may go ahead. One access may pass those who wait, since it takes no time.
    pub fn admits(&self, page: PageId, need: Access, purpose: Purpose) -> bool {
        let Some(pin) = self.pages.get(&page) else { return true };
        pin.admits(need) && (purpose == Purpose::Access || pin.queue.is_empty())
    }

    /// A thread waits for its turn; its number.
    pub fn wait(&mut self, page: PageId, need: Access, owed: bool) -> u64 {
        let turn = self.next;
        self.next += 1;
        let queue = &mut self.pages.entry(page).or_default().queue;
        let place = if owed { queue.iter().take_while(|waits| waits.owed).count() } else { queue.len() };
        queue.insert(place, Waits { turn, need, owed, waker: None });
        turn
    }

    /// Whether it is a thread's turn.
    pub fn is_turn(&self, page: PageId, turn: u64) -> bool {
        self.pages.get(&page).is_some_and(|pin| {
            pin.queue.front().is_some_and(|first| first.turn == turn && pin.admits(first.need))
        })
    }

    /// Whether a thread stands behind others, so that it is woken when it is the first, or [all](Pins::wakers) are woken.
    pub fn stands_behind(&mut self, page: PageId, turn: u64, cx: &Context<'_>) -> bool {
        let Some(pin) = self.pages.get_mut(&page).filter(|pin| !pin.is_first(turn)) else { return false };
        // Who comes stands last.
        let place = pin.queue.iter_mut().rev().find(|waits| waits.turn == turn);
        place.is_some_and(|waits| {
            wake_kept(&mut waits.waker, cx);
            true
        })
    }

    /// A thread waits no more: it goes ahead, or gives up. Gives what wakes the one that is the first then.
    #[must_use]
    pub fn leave(&mut self, page: PageId, turn: u64) -> Option<Waker> {
        let pin = self.pages.get_mut(&page)?;
        let place = pin.queue.iter().position(|waits| waits.turn == turn)?;
        pin.queue.remove(place);
        let next = pin.queue.front_mut().and_then(|first| first.waker.take());
        self.tidy(page);
        next
    }

    /// What wakes all who stand behind others: what they wait for has ended.
    pub fn wakers(&mut self) -> Vec<Waker> {
        let waits = self.pages.values_mut().flat_map(|pin| &mut pin.queue);
        waits.filter_map(|waits| waits.waker.take()).collect()
    }

    /// A claim of these objects is called.
    pub fn begin(&mut self, objects: impl Iterator<Item = ObjectId>) {
        objects.for_each(|object| *self.claims.entry(object).or_default() += 1);
    }

    /// A claim of these objects has ended, or is given up.
    pub fn end(&mut self, objects: impl Iterator<Item = ObjectId>) {
        for object in objects {
            if let Some(claims) = self.claims.get_mut(&object) {
                *claims -= 1;
                if *claims == 0 {
                    self.claims.remove(&object);
                }
            }
        }
    }

    /// A claim gets a minipage.
    pub fn pin(&mut self, page: PageId, need: Access) {
        let pin = self.pages.entry(page).or_default();
        match need {
            Access::Write => pin.writer = true,
            _ => pin.readers += 1,
        }
    }

    /// A claim lets go of a minipage.
    pub fn unpin(&mut self, page: PageId, need: Access) {
        if let Some(pin) = self.pages.get_mut(&page) {
            match need {
                Access::Write => pin.writer = false,
                _ => pin.readers -= 1,
            }
            self.tidy(page);
        }
    }

    fn tidy(&mut self, page: PageId) {
        let idle = |pin: &Pin| !pin.writer && pin.readers == 0 && pin.queue.is_empty();
        if self.pages.get(&page).is_some_and(idle) {
            self.pages.remove(&page);
        }
    }

    /// Whether there is a claim of an object, or any of its minipages is waited for.
    pub fn any_of(&self, object: ObjectId) -> bool {
        self.claims.contains_key(&object) || self.pages.range(PageId::all_of(object)).next().is_some()
    }

    /// Minipages that are claimed or waited for.
    pub fn len(&self) -> u64 {
        self.pages.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Access::{Invalid, Read, Write};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    const PAGE: PageId = PageId { object: ObjectId(0), index: 2 };

    #[test]
    fn readers_share_a_writer_is_alone_and_nobody_overtakes_who_waits() {
        let mut pins = Pins::default();
        pins.pin(PAGE, Read);
        assert!(pins.admits(PAGE, Read, Purpose::Claim) && !pins.admits(PAGE, Write, Purpose::Access));
        let writer = pins.wait(PAGE, Write, false);
        assert!(!pins.admits(PAGE, Read, Purpose::Claim), "it would overtake the writer");
        assert!(pins.admits(PAGE, Read, Purpose::Access), "it takes no time");
        let reader = pins.wait(PAGE, Read, false);
        assert!(!pins.is_turn(PAGE, writer) && !pins.is_turn(PAGE, reader));
        pins.unpin(PAGE, Read);
        assert!(pins.is_turn(PAGE, writer) && !pins.is_turn(PAGE, reader));
        drop(pins.leave(PAGE, writer));
        pins.pin(PAGE, Write);
        assert_eq!((pins.pinned(PAGE), pins.is_turn(PAGE, reader)), (Write, false));
        pins.unpin(PAGE, Write);
        assert!(pins.is_turn(PAGE, reader));
        drop(pins.leave(PAGE, reader));
        assert_eq!((pins.pinned(PAGE), pins.len()), (Invalid, 0));
    }

    #[test]
    fn a_thread_for_which_a_grant_stays_comes_before_those_for_which_none_does() {
        let mut pins = Pins::default();
        pins.pin(PAGE, Write);
        let turns = [false, true, true].map(|owed| pins.wait(PAGE, Write, owed));
        pins.unpin(PAGE, Write);
        for turn in [1, 2, 0].map(|place: usize| turns[place]) {
            assert!(pins.is_turn(PAGE, turn));
            drop(pins.leave(PAGE, turn));
        }
    }

    /// Ten thousand threads that wait for one minipage would wake each other fifty million times.
    #[test]
    fn a_thread_that_stands_behind_others_is_woken_when_it_is_the_first_and_not_before() {
        let mut pins = Pins::default();
        pins.pin(PAGE, Write);
        let woken = [0; 4].map(|_| Arc::new(Woken::default()));
        let turns = woken.each_ref().map(|woken| {
            let turn = pins.wait(PAGE, Write, false);
            let waker = Arc::clone(woken).into();
            (turn, pins.stands_behind(PAGE, turn, &Context::from_waker(&waker)))
        });
        assert_eq!(turns.map(|(_, behind)| behind), [false, true, true, true]);
        let mut leaves = |nth: usize| {
            pins.leave(PAGE, turns[nth].0).into_iter().for_each(Waker::wake);
            woken.each_ref().map(|woken| woken.0.load(Ordering::Relaxed))
        };
        assert_eq!(leaves(2), [0; 4], "it gives up");
        assert_eq!(leaves(0), [0, 1, 0, 0]);
        assert_eq!(leaves(1), [0, 1, 0, 1]);
        assert_eq!((leaves(3), pins.wakers().len()), ([0, 1, 0, 1], 0));
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}
