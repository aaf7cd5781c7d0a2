//! A requester's promises where the order of events does not decide: what it sends, what it counts, and what it says of
//! itself.

use super::messages::{Claim, Message, Passed, Report};
use super::requester_state::{Phase, Role};
use super::{OutcomeUnknown, Refused, Requester, Sharing, Wire, Word};
use crate::locks::Mode::{self, Exclusive, Shared};
use crate::locks::client::WaitPolicy;
use crate::locks::stats::Counters;
use crate::locks::{LockKey, dqnl};
use crate::rt::fingerprint::StateHasher;
use crate::transport::Rank;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::hash::Hash;
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
    /// Whether the next atomic's outcome is unknown.
    loses: Cell<bool>,
    /// Whether the next compare-and-swap is not answered.
    hangs: Cell<bool>,
    sent: RefCell<Vec<(Rank, Message)>>,
    swaps: RefCell<Vec<(Word, Word)>>,
    /// What the word becomes before the next atomics.
    meanwhile: RefCell<Vec<u64>>,
}

impl Desk {
    fn before(&self) -> Result<(), OutcomeUnknown> {
        if let Some(word) = self.meanwhile.borrow_mut().pop() {
            self.word.set(word);
        }
        if self.loses.take() { Err(OutcomeUnknown) } else { Ok(()) }
    }

    fn sent(&self) -> Vec<(Rank, Message)> {
        self.sent.take()
    }
}

impl Wire for Desk {
    fn view(&self) -> u64 {
        0
    }

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
    ) -> Result<Word, OutcomeUnknown> {
        if self.hangs.take() {
            std::future::pending::<()>().await;
        }
        self.before()?;
        self.swaps.borrow_mut().push((compare, swap));
        let was = Word(self.word.get());
        if was == compare {
            self.word.set(swap.0);
        }
        Ok(was)
    }

    async fn fetch_add(&self, _: Rank, _: RemoteSlice, add: u64) -> Result<Word, OutcomeUnknown> {
        self.before()?;
        Ok(Word(self.word.replace(self.word.get() + add)))
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

const OPEN: Message = Message::Open { policy: WaitPolicy::Queue };
const OPEN_TO_TRY: Message = Message::Open { policy: WaitPolicy::Try };

type OwnRequester = Requester<Desk>;

fn asked(sharing: Sharing) -> (Rc<Desk>, OwnRequester) {
    let desk = Rc::new(Desk::default());
    let requester = Requester::new(Rc::clone(&desk), LockKey(7), HOME, sharing);
    (desk, requester)
}

/// A requester that knows its word.
fn open(sharing: Sharing) -> (Rc<Desk>, OwnRequester) {
    let (desk, requester) = asked(sharing);
    (requester.state.borrow_mut().phase, requester.state.borrow_mut().epoch) = (Phase::Open(AT), 1);
    (desk, requester)
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

fn content(requester: &OwnRequester) -> u128 {
    let mut digest = StateHasher::default();
    requester.state().hash(&mut digest);
    digest.whole()
}

const FAR: Sharing = Sharing::UpTo(1 << 31);

#[test]
fn a_request_that_its_home_refuses_ends_and_may_be_made_again() {
    for mode in Mode::ALL {
        for tries in [false, true] {
            let (desk, requester) = asked(FAR);
            let request = async {
                if tries { requester.try_lock(mode).await } else { requester.lock(mode).await.map(Some) }
            };
            let mut request = pin!(request);
            let mut step = || request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(step(), Poll::Pending);
            let policy = if tries { WaitPolicy::Try } else { WaitPolicy::Queue };
            assert_eq!(desk.sent(), [(HOME, Message::Open { policy })]);
            requester.on_message(HOME, Message::Refused);
            assert_eq!((step(), desk.counters.out_of_turn.get()), (Poll::Ready(Err(Refused::HomeFull)), 0));
            assert_eq!(look(requester.lock(mode)), Poll::Pending);
            assert_eq!(desk.sent(), [(HOME, OPEN)], "it asks again");
        }
    }
}

#[test]
fn a_try_whose_home_rebuilds_the_word_ends_and_the_next_request_asks_anew() {
    for mode in Mode::ALL {
        let (desk, requester) = asked(FAR);
        let mut request = pin!(requester.try_lock(mode));
        let mut step = || request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!((step(), desk.sent()), (Poll::Pending, vec![(HOME, OPEN_TO_TRY)]));
        requester.on_message(HOME, Message::Busy);
        assert_eq!((step(), requester.is_taken()), (Poll::Ready(Ok(None)), false));
        assert_eq!(look(requester.lock(mode)), Poll::Pending);
        assert_eq!((desk.sent(), desk.counters.out_of_turn.get()), (vec![(HOME, OPEN)], 0));
    }
}

#[test]
fn who_held_as_a_view_began_whose_home_has_no_memory_is_refused_and_does_not_wait_for_ever() {
    for mode in Mode::ALL {
        for waits in [false, true] {
            let (desk, requester) = open(FAR);
            assert_eq!(now(requester.lock(mode)), Ok(mode));
            requester.view_begins(OTHER);
            now(requester.unlock());
            desk.sent();
            let mut request = pin!(requester.lock(mode));
            let mut step = || request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if waits {
                assert_eq!(step(), Poll::Pending);
            }
            requester.on_message(OTHER, Message::Refused);
            assert_eq!(desk.counters.out_of_turn.get(), 0);
            if waits {
                assert_eq!(step(), Poll::Ready(Err(Refused::HomeFull)));
            }
            assert_eq!(desk.sent(), []);
            assert_eq!(look(requester.try_lock(mode)), Poll::Pending);
            assert_eq!(desk.sent(), [(OTHER, OPEN_TO_TRY)], "the next request asks");
        }
    }
}

#[test]
fn each_exclusive_request_and_each_attempt_has_a_turn_of_its_own() {
    let (desk, requester) = open(FAR);
    for turn in 1..=6 {
        if turn % 2 == 0 {
            assert_eq!(now(requester.try_lock(Exclusive)), Ok(Some(Exclusive)));
        } else {
            assert_eq!(now(requester.lock(Exclusive)), Ok(Exclusive));
        }
        assert_eq!(requester.state.borrow().turn, turn);
        now(requester.unlock());
        assert_eq!(now(requester.lock(Shared)), Ok(Shared));
        now(requester.unlock());
        assert_eq!(requester.state.borrow().turn, turn, "those who share have none");
        // As the home does when they have left.
        desk.word.set(0);
    }
}

#[test]
fn a_seat_is_taken_from_its_request_until_it_has_left() {
    let (desk, requester) = open(FAR);
    assert!(!requester.is_taken());
    assert_eq!(now(requester.lock(Exclusive)), Ok(Exclusive));
    assert!(requester.is_taken());
    now(requester.unlock());
    assert!(!requester.is_taken());
    desk.word.set(Word::behind(OTHER, 0).0);
    assert_eq!(look(requester.lock(Shared)), Poll::Pending);
    assert!(requester.is_taken());
    let (_, requester) = open(FAR);
    requester.state.borrow_mut().atomic_out = true;
    assert!(requester.is_taken(), "an atomic of its own is out");
}

#[test]
fn a_seat_is_known_by_all_that_its_member_knows() {
    let changes: [fn(&mut super::requester_state::RequesterState); 10] = [
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
            let (_, requester) = open(FAR);
            change(&mut requester.state.borrow_mut());
            content(&requester)
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
    let (desk, requester) = open(FAR);
    // Each guess finds one more than the last one had found.
    desk.meanwhile.replace(vec![3, 2, 1]);
    assert_eq!(now(requester.try_lock(Shared)), Ok(Some(Shared)));
    let guesses: Vec<_> = desk.swaps.take().iter().map(|(compare, swap)| (compare.0, swap.0)).collect();
    assert_eq!(guesses, [(0, 1), (1, 2), (2, 3), (3, 4)]);
    assert_eq!((desk.word.get(), desk.counters.swap_misses.get()), (4, 3));
    now(requester.unlock());
    assert_eq!(desk.sent(), [(HOME, Message::Release { epoch: 1 })]);
    desk.meanwhile.replace(vec![8, 7, 6, 5]);
    assert_eq!(now(requester.try_lock(Shared)), Ok(None), "and then not any more");
    assert_eq!((desk.swaps.take().len(), requester.is_taken()), (4, false));
}

#[test]
fn an_attempt_to_share_ends_at_a_tail_and_at_the_limit() {
    for (word, sharing) in [(Word::behind(OTHER, 0).0, FAR), (2, Sharing::UpTo(2)), (3, Sharing::UpTo(2))] {
        let (desk, requester) = open(sharing);
        desk.word.set(word);
        assert_eq!(now(requester.try_lock(Shared)), Ok(None));
        assert_eq!((desk.swaps.take().len(), desk.word.get(), requester.is_taken()), (1, word, false));
    }
    let (desk, requester) = open(Sharing::UpTo(2));
    desk.word.set(1);
    assert_eq!((now(requester.try_lock(Shared)), desk.word.get()), (Ok(Some(Shared)), 2));
}

#[test]
fn who_finds_the_count_at_its_limit_ends_the_epoch() {
    for (found, ends) in [(1, false), (2, true), (3, true)] {
        let (desk, requester) = open(Sharing::UpTo(2));
        desk.word.set(found);
        assert_eq!(now(requester.lock(Shared)), Ok(Shared));
        let report = Report { claim: Claim::Holds(Shared), turn: 0, passed: None };
        let expected = ends.then_some((HOME, Message::Report { epoch: 1, report }));
        assert_eq!(desk.sent(), expected.into_iter().collect::<Vec<_>>(), "{found}");
    }
}

#[test]
fn who_was_frozen_tries_nothing() {
    let (desk, requester) = open(FAR);
    requester.state.borrow_mut().phase = Phase::Frozen;
    for mode in Mode::ALL {
        assert_eq!(now(requester.try_lock(mode)), Ok(None));
    }
    assert!(desk.swaps.take().is_empty() && desk.sent().is_empty());
}

/// Its epoch is over as well, and others need not have the lock nor want it.
#[test]
fn who_held_as_a_view_began_and_tries_waits_for_its_home() {
    for mode in Mode::ALL {
        let (desk, requester) = open(FAR);
        assert_eq!(now(requester.lock(mode)), Ok(mode));
        requester.view_begins(OTHER);
        now(requester.unlock());
        desk.sent();
        desk.word.set(0);
        let mut request = pin!(requester.try_lock(mode));
        let mut step = || request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(step(), Poll::Pending);
        assert_eq!(desk.sent(), [], "who has reported is told of the word");
        requester.on_message(OTHER, Message::Opened { epoch: 1, word: AT });
        assert_eq!(step(), Poll::Ready(Ok(Some(mode))));
    }
}

#[test]
fn an_attempt_that_is_under_way_as_a_view_begins_is_made_again_in_that_view() {
    for mode in Mode::ALL {
        let (desk, requester) = open(FAR);
        desk.hangs.set(true);
        let mut request = pin!(requester.try_lock(mode));
        let mut step = || request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(step(), Poll::Pending);
        requester.view_begins(OTHER);
        assert_eq!((step(), desk.sent()), (Poll::Pending, vec![(OTHER, OPEN_TO_TRY)]));
        requester.on_message(OTHER, Message::Opened { epoch: 1, word: AT });
        assert_eq!(step(), Poll::Ready(Ok(Some(mode))));
    }
}

#[test]
fn an_attempt_that_is_under_way_as_its_node_is_left_out_says_that_and_not_that_the_lock_is_busy() {
    for mode in Mode::ALL {
        let (desk, requester) = open(FAR);
        desk.hangs.set(true);
        let mut request = pin!(requester.try_lock(mode));
        let mut step = || request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(step(), Poll::Pending);
        assert!(!requester.view_lost());
        requester.give_up();
        assert_eq!((step(), desk.sent()), (Poll::Ready(Err(Refused::Over)), vec![]));
    }
}

#[test]
fn an_attempt_whose_fate_is_unknown_is_none_and_is_reported_as_nothing() {
    for mode in Mode::ALL {
        let (desk, requester) = open(FAR);
        desk.loses.set(true);
        assert_eq!((now(requester.try_lock(mode)), requester.is_taken()), (Ok(None), false));
        let turn = u32::from(mode == Exclusive);
        let report = Report { claim: Claim::Nothing, turn, passed: None };
        assert_eq!(desk.sent(), [(HOME, Message::Report { epoch: 1, report })]);
    }
}

#[test]
fn a_poisoned_word_says_nothing() {
    let (desk, requester) = open(FAR);
    desk.word.set(Word::POISON.0);
    assert_eq!(look(requester.lock(Shared)), Poll::Pending);
    let report = Report { claim: Claim::WantsShared, turn: 0, passed: None };
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
        let (desk, requester) = open(FAR);
        assert_eq!(now(requester.lock(Exclusive)), Ok(Exclusive));
        desk.word.set(Word::behind(ME, modes).0);
        for _ in 0..modes {
            requester.on_message(OTHER, Message::Read { epoch: 1 });
        }
        now(requester.unlock());
        let retry = (modes > 0).then_some((HOME, Message::RetryReset { epoch: 1 }));
        assert_eq!(desk.sent(), sends.into_iter().chain(retry).collect::<Vec<_>>());
        assert_eq!(desk.word.get(), Word::shared_only(modes).0);
    }
}

#[test]
fn who_leaves_in_front_of_another_passes_the_lock_on_and_remembers_it() {
    for readers in [0, 1] {
        let (desk, requester) = open(FAR);
        assert_eq!(now(requester.lock(Exclusive)), Ok(Exclusive));
        for _ in 0..readers {
            requester.on_message(OTHER, Message::Read { epoch: 1 });
        }
        requester.on_message(HOME, Message::Queue { epoch: 1, readers, turn: 3 });
        now(requester.unlock());
        let passed = match readers {
            0 => vec![(HOME, Message::Grant { epoch: 1 })],
            _ => vec![
                (OTHER, Message::Grant { epoch: 1 }),
                (HOME, Message::Wait { epoch: 1, who: HOME, readers }),
            ],
        };
        assert_eq!(desk.sent(), passed);
        assert_eq!(requester.state.borrow().passed, Some(Passed { who: HOME, turn: 3 }));
        assert_eq!((requester.is_taken(), desk.swaps.take().len()), (false, 1));
    }
}

#[test]
fn a_hold_that_was_reported_ends_and_is_downgraded_at_the_home() {
    let (desk, requester) = open(FAR);
    assert_eq!(now(requester.lock(Exclusive)), Ok(Exclusive));
    requester.state.borrow_mut().phase = Phase::Frozen;
    now(requester.downgrade());
    assert_eq!(desk.sent(), [(HOME, Message::Downgrade { epoch: 1 })]);
    now(requester.downgrade());
    assert_eq!(desk.sent(), [], "it shares already");
    now(requester.unlock());
    assert_eq!((desk.sent(), requester.is_taken()), (vec![(HOME, Message::Release { epoch: 1 })], false));
    now(requester.unlock());
    assert_eq!(desk.sent(), [], "nothing is held");
}

/// DQNL: whoever wants to share is alone, and stays so.
#[test]
fn where_nobody_shares_every_request_is_one_to_be_alone() {
    let desk = Rc::new(Desk::default());
    let requester = dqnl::requester(Rc::clone(&desk), LockKey(7), HOME);
    (requester.state.borrow_mut().phase, requester.state.borrow_mut().epoch) = (Phase::Open(AT), 1);
    for tries in [false, true] {
        let held =
            if tries { now(requester.try_lock(Shared)) } else { now(requester.lock(Shared)).map(Some) };
        assert_eq!((held, desk.word.get()), (Ok(Some(Exclusive)), Word::behind(ME, 0).0));
        now(requester.downgrade());
        assert_eq!((requester.state.borrow().role, desk.sent()), (Role::Holds(Exclusive), vec![]));
        now(requester.unlock());
        assert_eq!((desk.word.get(), desk.sent()), (0, vec![]));
    }
}
