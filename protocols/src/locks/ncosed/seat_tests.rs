//! A seat's promises where the order of events does not decide: what it sends, what it counts, and what it says of
//! itself.

use super::member::{Phase, Role};
use super::messages::{Message, Passed, Report, Stake};
use super::{FateUnknown, Refused, Seat, Sharing, Wire, Word};
use crate::locks::Mode::{self, Exclusive, Shared};
use crate::locks::content::Telling;
use crate::locks::stats::Counters;
use crate::locks::{LockKey, dqnl};
use crate::rt::Digest;
use crate::transport::Rank;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use weft_verbs::RemoteSlice;

const HOME: Rank = Rank::from_index(0);
const ME: Rank = Rank::from_index(1);
const OTHER: Rank = Rank::from_index(2);
const AT: RemoteSlice = RemoteSlice { addr: 64, len: 8, rkey: 1 };

/// A network in which nothing arrives, and a word that answers at once.
#[derive(Default)]
struct Desk {
    counters: Counters,
    word: Cell<u64>,
    /// Whether the next atomic's fate is unknown.
    loses: Cell<bool>,
    sent: RefCell<Vec<(Rank, Message)>>,
    swaps: RefCell<Vec<(Word, Word)>>,
    /// What the word becomes before the next atomics.
    meanwhile: RefCell<Vec<u64>>,
}

impl Desk {
    fn before(&self) -> Result<(), FateUnknown> {
        if let Some(word) = self.meanwhile.borrow_mut().pop() {
            self.word.set(word);
        }
        if self.loses.take() { Err(FateUnknown) } else { Ok(()) }
    }

    fn sent(&self) -> Vec<(Rank, Message)> {
        self.sent.take()
    }
}

impl Telling for Desk {}

impl Wire for Desk {
    fn me(&self) -> Rank {
        ME
    }

    fn send(&self, to: Rank, _: LockKey, message: Message) {
        self.sent.borrow_mut().push((to, message));
    }

    async fn compare_swap(
        &self,
        _: Rank,
        _: RemoteSlice,
        compare: Word,
        swap: Word,
    ) -> Result<Word, FateUnknown> {
        self.before()?;
        self.swaps.borrow_mut().push((compare, swap));
        let was = Word(self.word.get());
        if was == compare {
            self.word.set(swap.0);
        }
        Ok(was)
    }

    async fn fetch_add(&self, _: Rank, _: RemoteSlice, add: u64) -> Result<Word, FateUnknown> {
        self.before()?;
        Ok(Word(self.word.replace(self.word.get() + add)))
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

type OwnSeat = Seat<Desk>;

fn asked(sharing: Sharing) -> (Rc<Desk>, OwnSeat) {
    let desk = Rc::new(Desk::default());
    let seat = Seat::new(Rc::clone(&desk), LockKey(7), HOME, sharing);
    (desk, seat)
}

/// A seat that knows its word.
fn open(sharing: Sharing) -> (Rc<Desk>, OwnSeat) {
    let (desk, seat) = asked(sharing);
    (seat.member.borrow_mut().phase, seat.member.borrow_mut().epoch) = (Phase::Open(AT), 1);
    (desk, seat)
}

fn look<T>(of: impl Future<Output = T>) -> Poll<T> {
    pin!(of).poll(&mut Context::from_waker(Waker::noop()))
}

/// What comes at once.
fn now<T>(of: impl Future<Output = T>) -> T {
    match look(of) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

fn content(seat: &OwnSeat) -> u128 {
    let mut digest = Digest::default();
    seat.content(&mut digest);
    digest.whole()
}

const FAR: Sharing = Sharing::UpTo(1 << 31);

#[test]
fn a_request_that_its_home_refuses_ends_and_may_be_made_again() {
    for mode in Mode::ALL {
        for tries in [false, true] {
            let (desk, seat) = asked(FAR);
            let request =
                async { if tries { seat.try_lock(mode).await } else { seat.lock(mode).await.map(Some) } };
            let mut request = pin!(request);
            let mut step = || request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(step(), Poll::Pending);
            assert_eq!(desk.sent(), [(HOME, Message::Open)]);
            seat.on_message(HOME, Message::Refused);
            assert_eq!((step(), desk.counters.out_of_turn.get()), (Poll::Ready(Err(Refused)), 0));
            assert_eq!(look(seat.lock(mode)), Poll::Pending);
            assert_eq!(desk.sent(), [(HOME, Message::Open)], "it asks again");
        }
    }
}

#[test]
fn each_exclusive_request_and_each_attempt_has_a_turn_of_its_own() {
    let (desk, seat) = open(FAR);
    for turn in 1..=6 {
        if turn % 2 == 0 {
            assert_eq!(now(seat.try_lock(Exclusive)), Ok(Some(Exclusive)));
        } else {
            assert_eq!(now(seat.lock(Exclusive)), Ok(Exclusive));
        }
        assert_eq!(seat.member.borrow().turn, turn);
        now(seat.unlock());
        assert_eq!(now(seat.lock(Shared)), Ok(Shared));
        now(seat.unlock());
        assert_eq!(seat.member.borrow().turn, turn, "those who share have none");
        // As the home does when they have left.
        desk.word.set(0);
    }
}

#[test]
fn a_seat_is_taken_from_its_request_until_it_has_left() {
    let (desk, seat) = open(FAR);
    assert!(!seat.is_taken());
    assert_eq!(now(seat.lock(Exclusive)), Ok(Exclusive));
    assert!(seat.is_taken());
    now(seat.unlock());
    assert!(!seat.is_taken());
    desk.word.set(Word::behind(OTHER, 0).0);
    assert_eq!(look(seat.lock(Shared)), Poll::Pending);
    assert!(seat.is_taken());
    let (_, seat) = open(FAR);
    seat.member.borrow_mut().atomic_out = true;
    assert!(seat.is_taken(), "an atomic of its own is out");
}

#[test]
fn a_seat_is_known_by_all_that_its_member_knows() {
    let changes: [fn(&mut super::member::Member); 10] = [
        |_| {},
        |m| m.phase = Phase::Frozen,
        |m| m.phase = Phase::Open(RemoteSlice { addr: 128, ..AT }),
        |m| m.role = Role::WantsShared,
        |m| m.epoch = 2,
        |m| m.turn = 1,
        |m| m.passed = Some(Passed { who: OTHER, turn: 1 }),
        |m| m.atomic_out = true,
        |m| m.served = 1,
        |m| {
            m.role = Role::Trying;
            m.on_message(OTHER, Message::Read { epoch: 1 }, &mut vec![]);
            m.role = Role::Idle;
        },
    ];
    let known = changes.map(|change| {
        let [first, again] = [(); 2].map(|()| {
            let (_, seat) = open(FAR);
            change(&mut seat.member.borrow_mut());
            content(&seat)
        });
        assert_eq!(first, again);
        first
    });
    for (i, one) in known.iter().enumerate() {
        assert!(!known[..i].contains(one), "{i}");
    }
}

#[test]
fn an_attempt_at_a_count_that_others_change_follows_it_a_few_times() {
    let (desk, seat) = open(FAR);
    // Each guess finds one more than the last one had found.
    desk.meanwhile.replace(vec![3, 2, 1]);
    assert_eq!(now(seat.try_lock(Shared)), Ok(Some(Shared)));
    let guesses: Vec<_> = desk.swaps.take().iter().map(|(compare, swap)| (compare.0, swap.0)).collect();
    assert_eq!(guesses, [(0, 1), (1, 2), (2, 3), (3, 4)]);
    assert_eq!((desk.word.get(), desk.counters.swap_misses.get()), (4, 3));
    now(seat.unlock());
    assert_eq!(desk.sent(), [(HOME, Message::Release { epoch: 1 })]);
    desk.meanwhile.replace(vec![8, 7, 6, 5]);
    assert_eq!(now(seat.try_lock(Shared)), Ok(None), "and then not any more");
    assert_eq!((desk.swaps.take().len(), seat.is_taken()), (4, false));
}

#[test]
fn an_attempt_to_share_ends_at_a_tail_and_at_the_limit() {
    for (word, sharing) in [(Word::behind(OTHER, 0).0, FAR), (2, Sharing::UpTo(2)), (3, Sharing::UpTo(2))] {
        let (desk, seat) = open(sharing);
        desk.word.set(word);
        assert_eq!(now(seat.try_lock(Shared)), Ok(None));
        assert_eq!((desk.swaps.take().len(), desk.word.get(), seat.is_taken()), (1, word, false));
    }
    let (desk, seat) = open(Sharing::UpTo(2));
    desk.word.set(1);
    assert_eq!((now(seat.try_lock(Shared)), desk.word.get()), (Ok(Some(Shared)), 2));
}

#[test]
fn who_finds_the_count_at_its_limit_ends_the_epoch() {
    for (found, ends) in [(1, false), (2, true), (3, true)] {
        let (desk, seat) = open(Sharing::UpTo(2));
        desk.word.set(found);
        assert_eq!(now(seat.lock(Shared)), Ok(Shared));
        let report = Report { stake: Stake::Holds(Shared), turn: 0, passed: None };
        let expected = ends.then_some((HOME, Message::Report { epoch: 1, report }));
        assert_eq!(desk.sent(), expected.into_iter().collect::<Vec<_>>(), "{found}");
    }
}

#[test]
fn who_was_frozen_tries_nothing() {
    let (desk, seat) = open(FAR);
    seat.member.borrow_mut().phase = Phase::Frozen;
    for mode in Mode::ALL {
        assert_eq!(now(seat.try_lock(mode)), Ok(None));
    }
    assert!(desk.swaps.take().is_empty() && desk.sent().is_empty());
}

#[test]
fn an_attempt_whose_fate_is_unknown_is_none_and_is_reported_as_nothing() {
    for mode in Mode::ALL {
        let (desk, seat) = open(FAR);
        desk.loses.set(true);
        assert_eq!((now(seat.try_lock(mode)), seat.is_taken()), (Ok(None), false));
        let turn = u32::from(mode == Exclusive);
        let report = Report { stake: Stake::Nothing, turn, passed: None };
        assert_eq!(desk.sent(), [(HOME, Message::Report { epoch: 1, report })]);
    }
}

#[test]
fn a_poisoned_word_says_nothing() {
    let (desk, seat) = open(FAR);
    desk.word.set(Word::POISON.0);
    assert_eq!(look(seat.lock(Shared)), Poll::Pending);
    let report = Report { stake: Stake::WantsShared, turn: 0, passed: None };
    assert_eq!(desk.sent(), [(HOME, Message::Report { epoch: 1, report })]);
}

#[test]
fn who_leaves_tells_its_home_of_those_it_leaves_behind() {
    for (modes, sends) in [
        // Alone: nothing.
        (0, vec![]),
        // Two share behind it: they were sent to it, and are granted; then the home may reset.
        (2, vec![(OTHER, Message::Grant { epoch: 1 }), (OTHER, Message::Grant { epoch: 1 })]),
    ] {
        let (desk, seat) = open(FAR);
        assert_eq!(now(seat.lock(Exclusive)), Ok(Exclusive));
        desk.word.set(Word::behind(ME, modes).0);
        for _ in 0..modes {
            seat.on_message(OTHER, Message::Read { epoch: 1 });
        }
        now(seat.unlock());
        let kick = (modes > 0).then_some((HOME, Message::Kick { epoch: 1 }));
        assert_eq!(desk.sent(), sends.into_iter().chain(kick).collect::<Vec<_>>());
        assert_eq!(desk.word.get(), Word::shared_only(modes).0);
    }
}

#[test]
fn who_leaves_in_front_of_another_passes_the_lock_on_and_remembers_it() {
    for readers in [0, 1] {
        let (desk, seat) = open(FAR);
        assert_eq!(now(seat.lock(Exclusive)), Ok(Exclusive));
        for _ in 0..readers {
            seat.on_message(OTHER, Message::Read { epoch: 1 });
        }
        seat.on_message(HOME, Message::Queue { epoch: 1, readers, turn: 3 });
        now(seat.unlock());
        let passed = match readers {
            0 => vec![(HOME, Message::Grant { epoch: 1 })],
            _ => vec![
                (OTHER, Message::Grant { epoch: 1 }),
                (HOME, Message::Wait { epoch: 1, who: HOME, readers }),
            ],
        };
        assert_eq!(desk.sent(), passed);
        assert_eq!(seat.member.borrow().passed, Some(Passed { who: HOME, turn: 3 }));
        assert_eq!((seat.is_taken(), desk.swaps.take().len()), (false, 1));
    }
}

#[test]
fn a_hold_that_was_reported_ends_and_is_eased_at_the_home() {
    let (desk, seat) = open(FAR);
    assert_eq!(now(seat.lock(Exclusive)), Ok(Exclusive));
    seat.member.borrow_mut().phase = Phase::Frozen;
    now(seat.downgrade());
    assert_eq!(desk.sent(), [(HOME, Message::Downgrade { epoch: 1 })]);
    now(seat.downgrade());
    assert_eq!(desk.sent(), [], "it shares already");
    now(seat.unlock());
    assert_eq!((desk.sent(), seat.is_taken()), (vec![(HOME, Message::Release { epoch: 1 })], false));
    now(seat.unlock());
    assert_eq!(desk.sent(), [], "nothing is held");
}

/// DQNL: whoever wants to share is alone, and stays so.
#[test]
fn where_nobody_shares_every_request_is_one_to_be_alone() {
    let desk = Rc::new(Desk::default());
    let seat = dqnl::seat(Rc::clone(&desk), LockKey(7), HOME);
    (seat.member.borrow_mut().phase, seat.member.borrow_mut().epoch) = (Phase::Open(AT), 1);
    for tries in [false, true] {
        let held = if tries { now(seat.try_lock(Shared)) } else { now(seat.lock(Shared)).map(Some) };
        assert_eq!((held, desk.word.get()), (Ok(Some(Exclusive)), Word::behind(ME, 0).0));
        now(seat.downgrade());
        assert_eq!((seat.member.borrow().role, desk.sent()), (Role::Holds(Exclusive), vec![]));
        now(seat.unlock());
        assert_eq!((desk.word.get(), desk.sent()), (0, vec![]));
    }
}
