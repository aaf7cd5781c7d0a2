//! The home's promises, event by event.

use super::OutcomeUnknown;
use super::home::{Action, Event, Home};
use super::messages::{Claim, Epoch, Message, Report};
use super::word::Word;
use crate::locks::Mode;
use crate::locks::client::WaitPolicy;
use crate::rt::fingerprint::StateHasher;
use crate::transport::Rank;
use std::hash::Hash;
use weft_verbs::RemoteSlice;

fn rank(n: u32) -> Rank {
    Rank::new(n).unwrap()
}

fn place(addr: u64) -> RemoteSlice {
    RemoteSlice { addr, len: 8, rkey: 1 }
}

/// A home with its first word at 8, opened by the nodes 1 to 3.
struct Scene(Home);

impl Scene {
    fn new() -> Scene {
        let mut scene = Scene(Home::new());
        assert_eq!(scene.on_message(1, OPEN), [Action::FreshWord { retired: None }]);
        assert_eq!(scene.tell(Event::Word(Some(place(8)))), [opened(1, 1, 8)]);
        for n in 2..=3 {
            assert_eq!(scene.on_message(n, OPEN), [opened(n, 1, 8)]);
        }
        scene
    }

    fn tell(&mut self, event: Event) -> Vec<Action> {
        let mut out = Vec::new();
        self.0.on_event(event, &mut out);
        out
    }

    fn on_message(&mut self, from: u32, message: Message) -> Vec<Action> {
        self.tell(Event::Message(rank(from), message))
    }

    fn release(&mut self, from: u32) -> Vec<Action> {
        self.on_message(from, Message::Release { epoch: 1 })
    }

    fn report(&mut self, from: u32, claim: Claim) -> Vec<Action> {
        let report = Report { claim, turn: 1, passed: None };
        self.on_message(from, Message::Report { epoch: 1, report })
    }

    fn swapped(&mut self, was: Word) -> Vec<Action> {
        self.tell(Event::Swapped(Ok(was)))
    }
}

fn opened(to: u32, epoch: Epoch, addr: u64) -> Action {
    Action::Send(rank(to), Message::Opened { epoch, word: place(addr) })
}

fn swap(compare: Word, swap: Word) -> Action {
    Action::Swap { at: place(8), compare, swap }
}

fn reset(readers: u32) -> Action {
    swap(Word::shared_only(readers), Word::FREE)
}

fn send(to: u32, message: Message) -> Action {
    Action::Send(rank(to), message)
}

const NOTHING: [Action; 0] = [];
const OPEN: Message = Message::Open { policy: WaitPolicy::Queue };
const OPEN_TO_TRY: Message = Message::Open { policy: WaitPolicy::Try };
const WAIT: Message = Message::Wait { epoch: 1, who: Rank::from_index(0), readers: 2 };
const GRANT: Message = Message::Grant { epoch: 1 };
const RETRY_RESET: Message = Message::RetryReset { epoch: 1 };
const FREEZE: Message = Message::Freeze { epoch: 1 };
const GRANT_AFTER_RECOVERY: Message = Message::GrantAfterRecovery { epoch: 1 };

#[test]
fn it_waits_for_every_shared_holder_that_was_counted() {
    let mut home = Scene::new();
    assert_eq!(home.on_message(1, WAIT), NOTHING);
    assert_eq!(home.release(2), NOTHING);
    assert_eq!(home.release(3), [send(1, GRANT)]);
    assert_eq!((home.0.unspent(), home.0.entries()), (0, 0));
}

#[test]
fn the_count_is_reset_when_all_who_were_counted_have_released() {
    let mut home = Scene::new();
    assert_eq!(home.release(2), [reset(1)]);
    // There were three; with fewer releases another attempt would be in vain.
    assert_eq!(home.swapped(Word::shared_only(3)), NOTHING);
    assert_eq!(home.release(3), NOTHING);
    assert_eq!(home.release(1), [reset(3)]);
    assert_eq!(home.swapped(Word::shared_only(3)), NOTHING);
    assert_eq!(home.0.unspent(), 0);
}

/// Choice 6 of the module's documentation.
#[test]
fn while_a_reset_is_out_its_releases_are_not_spent_otherwise() {
    let mut home = Scene::new();
    assert_eq!(home.release(2), [reset(1)]);
    assert_eq!(home.release(3), NOTHING);
    assert_eq!(home.on_message(1, WAIT), NOTHING);
    // It took effect: one of the two releases is spent, and the wait needs two.
    assert_eq!(home.swapped(Word::shared_only(1)), NOTHING);
    assert_eq!(home.release(2), [send(1, GRANT)]);
}

/// Choice 7.
#[test]
fn a_retry_makes_it_try_where_releases_came_too_early() {
    let mut home = Scene::new();
    assert_eq!(home.release(2), [reset(1)]);
    assert_eq!(home.swapped(Word::behind(rank(3), 1)), NOTHING);
    assert_eq!(home.on_message(3, RETRY_RESET), [reset(1)]);
}

/// Choice 8.
#[test]
fn a_retry_that_overtakes_the_answer_of_a_reset_is_remembered() {
    let mut home = Scene::new();
    assert_eq!(home.release(2), [reset(1)]);
    assert_eq!(home.on_message(3, RETRY_RESET), NOTHING);
    assert_eq!(home.swapped(Word::behind(rank(3), 1)), [reset(1)]);
    // And only once.
    assert_eq!(home.swapped(Word::behind(rank(1), 1)), NOTHING);
}

#[test]
fn the_first_report_ends_the_epoch_and_the_last_one_closes_the_word() {
    let mut home = Scene::new();
    let begun = home.report(2, Claim::WantsShared);
    assert_eq!(begun, [Action::Rebuilding, send(1, FREEZE), send(2, FREEZE), send(3, FREEZE)]);
    assert!(home.0.is_rebuilding());
    assert_eq!(home.report(1, Claim::Holds(Mode::Exclusive)), NOTHING);
    assert_eq!(home.report(3, Claim::Nothing), [swap(Word::FREE, Word::POISON)]);
    let last = Word::behind(rank(1), 1);
    assert_eq!(home.swapped(last), [swap(last, Word::POISON)]);
    assert_eq!(home.swapped(last), NOTHING);
    assert_eq!(home.release(1), [send(2, GRANT_AFTER_RECOVERY)]);
    assert_eq!(home.release(2), [Action::FreshWord { retired: Some(place(8)) }]);
    let again = home.tell(Event::Word(Some(place(16))));
    assert_eq!(again, [opened(1, 2, 16), opened(2, 2, 16), opened(3, 2, 16)]);
    assert!(!home.0.is_rebuilding());
}

#[test]
fn a_hold_that_ends_before_the_others_report_has_ended() {
    let mut home = Scene::new();
    home.report(1, Claim::Holds(Mode::Shared));
    // Node 2 releases what it held in the epoch, and then reports that it has nothing.
    assert_eq!(home.release(2), [Action::Stale]);
    home.report(2, Claim::Nothing);
    assert_eq!(home.release(1), NOTHING);
    home.report(3, Claim::WantsExclusive { over: Word::shared_only(2) });
    assert_eq!(home.swapped(Word::FREE), [send(3, GRANT_AFTER_RECOVERY)]);
}

#[test]
fn a_reported_hold_may_become_a_shared_one_at_any_time() {
    const DOWNGRADE: Message = Message::Downgrade { epoch: 1 };
    for when in 0..3 {
        let mut home = Scene::new();
        assert_eq!(home.on_message(1, DOWNGRADE), [Action::OutOfTurn]);
        home.report(1, Claim::Holds(Mode::Exclusive));
        assert_eq!(home.on_message(2, DOWNGRADE), [Action::OutOfTurn]);
        let mut out = Vec::new();
        let mut downgrade = |home: &mut Scene, now| {
            if now == when {
                out = home.on_message(1, DOWNGRADE);
            }
        };
        downgrade(&mut home, 0);
        home.report(2, Claim::WantsShared);
        home.report(3, Claim::WantsExclusive { over: Word::FREE });
        downgrade(&mut home, 1);
        out.extend(home.swapped(Word::FREE));
        if when == 2 {
            out.extend(home.on_message(1, DOWNGRADE));
        }
        assert_eq!(out, [send(2, GRANT_AFTER_RECOVERY)]);
        assert_eq!(home.on_message(1, DOWNGRADE), [Action::OutOfTurn]);
        assert_eq!(home.release(1), NOTHING);
        assert_eq!(home.release(2), [send(3, GRANT_AFTER_RECOVERY)]);
    }
}

#[test]
fn its_own_reset_must_come_home_before_the_word_is_closed() {
    let mut home = Scene::new();
    assert_eq!(home.release(2), [reset(1)]);
    for n in 1..=3 {
        let out = home.report(n, Claim::Nothing);
        assert!(!out.iter().any(|action| matches!(action, Action::Swap { .. })));
    }
    assert_eq!(home.tell(Event::Swapped(Err(OutcomeUnknown))), [swap(Word::FREE, Word::POISON)]);
}

#[test]
fn a_reset_of_unknown_fate_ends_the_epoch() {
    let mut home = Scene::new();
    assert_eq!(home.release(2), [reset(1)]);
    let begun = home.tell(Event::Swapped(Err(OutcomeUnknown)));
    assert_eq!(begun, [Action::Rebuilding, send(1, FREEZE), send(2, FREEZE), send(3, FREEZE)]);
}

#[test]
fn a_poisoning_of_unknown_fate_is_found_out_by_doing_it_again() {
    for took_effect in [false, true] {
        let mut home = Scene::new();
        for n in 1..=3 {
            home.report(n, Claim::Nothing);
        }
        let last = Word::shared_only(5);
        assert_eq!(home.swapped(last), [swap(last, Word::POISON)]);
        assert_eq!(home.tell(Event::Swapped(Err(OutcomeUnknown))), [swap(last, Word::POISON)]);
        let found = if took_effect { Word::POISON } else { last };
        assert_eq!(home.swapped(found), [Action::FreshWord { retired: Some(place(8)) }]);
    }
}

#[test]
fn its_books_name_everyone_who_holds_or_waits() {
    let mut home = Scene::new();
    assert_eq!(home.0.entries(), 0);
    home.on_message(1, WAIT);
    assert_eq!(home.0.entries(), 1);
    home.report(1, Claim::Holds(Mode::Exclusive));
    home.report(2, Claim::WantsShared);
    home.report(3, Claim::WantsExclusive { over: Word::FREE });
    home.swapped(Word::FREE);
    for (releases, left) in [(1, 3), (2, 2), (3, 1)] {
        assert_eq!(home.0.entries(), left);
        home.release(releases);
    }
    assert_eq!(home.0.entries(), 0);
}

#[test]
fn who_asks_during_a_rebuild_is_told_the_next_word() {
    let mut home = Scene::new();
    for n in 1..=3 {
        home.report(n, Claim::Nothing);
    }
    assert_eq!(home.on_message(4, OPEN), NOTHING);
    home.swapped(Word::FREE);
    let again = home.tell(Event::Word(Some(place(16))));
    assert!(again.contains(&opened(4, 2, 16)));
}

#[test]
fn who_only_tries_is_told_at_once_that_the_word_is_being_rebuilt() {
    let mut home = Scene::new();
    let try_it = |home: &mut Scene| assert_eq!(home.on_message(4, OPEN_TO_TRY), [send(4, Message::Busy)]);
    home.report(1, Claim::Holds(Mode::Shared));
    try_it(&mut home);
    home.report(2, Claim::Nothing);
    home.report(3, Claim::Nothing);
    try_it(&mut home);
    home.swapped(Word::FREE);
    try_it(&mut home);
    assert_eq!(home.release(1), [Action::FreshWord { retired: Some(place(8)) }]);
    assert_eq!(home.on_message(4, OPEN_TO_TRY), NOTHING, "there will be a word, and nobody has the lock");
    assert!(home.tell(Event::Word(Some(place(16)))).contains(&opened(4, 2, 16)));
}

#[test]
fn who_only_tries_as_a_view_begins_is_told_once_it_is_known_whether_others_have_the_lock() {
    for claim in [Claim::Nothing, Claim::Holds(Mode::Exclusive)] {
        let mut home = Scene(Home::of_a_view());
        let report = Report { claim, turn: 1, passed: None };
        home.on_message(1, Message::Report { epoch: 0, report });
        assert_eq!(home.on_message(2, OPEN_TO_TRY), NOTHING);
        assert_eq!(home.on_message(3, OPEN), NOTHING);
        let told = match claim {
            Claim::Nothing => Action::FreshWord { retired: None },
            _ => send(2, Message::Busy),
        };
        assert_eq!(home.tell(Event::MayGrant), [told], "{claim:?}");
        home.on_message(1, Message::Release { epoch: 0 });
        let opens = home.tell(Event::Word(Some(place(8))));
        assert!(opens.contains(&opened(3, 1, 8)), "{claim:?}");
        assert_eq!(opens.contains(&opened(2, 1, 8)), claim == Claim::Nothing, "{claim:?}");
    }
}

#[test]
fn without_memory_those_who_ask_are_refused_and_the_next_one_may_ask_again() {
    let mut home = Scene(Home::new());
    home.on_message(1, OPEN);
    home.on_message(2, OPEN);
    let refused = [send(1, Message::Refused), send(2, Message::Refused)];
    assert_eq!(home.tell(Event::Word(None)), refused);
    assert_eq!(home.on_message(1, OPEN), [Action::FreshWord { retired: None }]);
}

#[test]
fn without_memory_in_a_new_view_who_held_through_its_beginning_is_refused_and_may_ask_again() {
    let mut home = Scene(Home::of_a_view());
    let claim = Claim::Holds(Mode::Exclusive);
    let report = Report { claim, turn: 1, passed: None };
    assert_eq!(home.on_message(1, Message::Report { epoch: 0, report }), NOTHING);
    assert_eq!(home.on_message(2, OPEN), NOTHING);
    assert_eq!(home.tell(Event::MayGrant), NOTHING);
    assert_eq!(home.on_message(1, Message::Release { epoch: 0 }), [Action::FreshWord { retired: None }]);
    let refused = [send(1, Message::Refused), send(2, Message::Refused)];
    assert_eq!(home.tell(Event::Word(None)), refused);
    assert_eq!(home.on_message(2, OPEN), [Action::FreshWord { retired: None }]);
    assert_eq!(
        home.tell(Event::Word(Some(place(8)))),
        [opened(2, 1, 8)],
        "the other one has not asked again"
    );
    assert_eq!(home.on_message(1, OPEN), [opened(1, 1, 8)]);
}

#[test]
fn a_member_reports_once_as_a_view_begins() {
    let mut home = Scene(Home::of_a_view());
    let report = |claim| Message::Report { epoch: 0, report: Report { claim, turn: 1, passed: None } };
    assert_eq!(home.on_message(1, report(Claim::Holds(Mode::Exclusive))), NOTHING);
    assert_eq!(home.on_message(1, report(Claim::WantsShared)), [Action::OutOfTurn]);
    assert_eq!(home.tell(Event::MayGrant), NOTHING, "what it said first is what counts");
}

#[test]
fn messages_of_other_epochs_and_from_strangers_change_nothing() {
    let mut home = Scene::new();
    assert_eq!(home.on_message(2, Message::Release { epoch: 0 }), [Action::Stale]);
    assert_eq!(home.on_message(2, Message::Release { epoch: 2 }), [Action::OutOfTurn]);
    assert_eq!(home.on_message(2, GRANT), [Action::OutOfTurn]);
    assert_eq!(home.on_message(1, WAIT), NOTHING);
    assert_eq!(home.on_message(3, WAIT), [Action::OutOfTurn]);
    assert_eq!(home.0.unspent(), 0);
}

#[test]
fn it_is_rebuilding_from_an_epoch_s_end_to_the_next_one_s_beginning() {
    let mut home = Scene(Home::new());
    assert!(!home.0.is_rebuilding() && home.0.word().is_none());
    home.on_message(1, OPEN);
    assert!(!home.0.is_rebuilding(), "its first word is being looked for");
    home.tell(Event::Word(Some(place(8))));
    assert!(!home.0.is_rebuilding() && home.0.word() == Some(place(8)));
    assert!(home.report(1, Claim::Holds(Mode::Exclusive)).contains(&swap(Word::FREE, Word::POISON)));
    assert!(home.0.is_rebuilding(), "the word is being closed");
    home.swapped(Word::FREE);
    assert!(home.0.is_rebuilding(), "one holds that had reported it");
    assert_eq!(home.release(1), [Action::FreshWord { retired: Some(place(8)) }]);
    assert!(home.0.is_rebuilding(), "its next word is being looked for");
    home.tell(Event::Word(Some(place(16))));
    assert!(!home.0.is_rebuilding() && home.0.word() == Some(place(16)));
}

#[test]
fn each_node_reports_once_and_only_who_knows_the_word() {
    let mut home = Scene::new();
    home.report(1, Claim::WantsShared);
    assert_eq!(home.report(1, Claim::Nothing), [Action::OutOfTurn]);
    assert_eq!(home.report(4, Claim::Nothing), [Action::OutOfTurn]);
    home.report(2, Claim::Nothing);
    home.report(3, Claim::Nothing);
    assert_eq!(
        home.swapped(Word::FREE),
        [send(1, GRANT_AFTER_RECOVERY)],
        "what it said first is what counts"
    );
}

#[test]
fn explorers_know_it_by_who_has_opened_it_and_by_what_it_owes() {
    let told = |events: &[Event]| {
        let mut home = Scene(Home::new());
        events.iter().for_each(|&event| drop(home.tell(event)));
        let mut digest = StateHasher::default();
        home.0.hash(&mut digest);
        digest.whole()
    };
    let open = |n| Event::Message(rank(n), OPEN);
    let (word, release) =
        (Event::Word(Some(place(8))), Event::Message(rank(1), Message::Release { epoch: 1 }));
    let histories: [&[Event]; 9] = [
        &[],
        &[open(1)],
        &[open(2)],
        &[open(1), word],
        &[open(2), word],
        &[open(1), Event::Word(Some(place(16)))],
        &[open(1), word, release],
        &[open(1), word, release, release],
        &[open(1), word, Event::Message(rank(1), WAIT)],
    ];
    let known = histories.map(told);
    for (i, one) in known.iter().enumerate() {
        assert!(!known[..i].contains(one), "{i}");
    }
    assert_eq!(histories.map(told), known);
}
