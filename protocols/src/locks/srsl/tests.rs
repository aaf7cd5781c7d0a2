//! The server's promises, message by message.

use super::home::Home;
use super::home::May;
use super::{Keeper, Message, Refused, Requester, Wire};
use crate::locks::client::WaitPolicy;
use crate::locks::codec::Malformed;
use crate::locks::queue::OutOfTurn;
use crate::locks::stats::Counters;
use crate::locks::{LockKey, Mode, Token};
use crate::members::{Ballot, Member, View, ViewId};
use crate::rt::fingerprint::StateHasher;
use crate::transport::Rank;
use proptest::prelude::*;
use std::hash::Hash;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use weft_verbs::Nanos;

const MAY: May = May::Grant { above: Token(0) };

fn rank(n: u32) -> Rank {
    Rank::new(n).unwrap()
}

fn ask(mode: Mode) -> Message {
    Message::Request { mode, policy: WaitPolicy::Queue }
}

fn tell(home: &mut Home, from: u32, message: Message) -> Vec<(u32, Message)> {
    let mut out = Vec::new();
    home.on_message(rank(from), message, MAY, &mut out).unwrap();
    out.into_iter().map(|(to, message)| (to.get(), message)).collect()
}

fn granted(sent: &[(u32, Message)]) -> Vec<(u32, Token)> {
    sent.iter()
        .map(|&(to, message)| match message {
            Message::Grant { token } => (to, token),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn tokens_grow_with_room_for_hand_overs_between_them() {
    let mut home = Home::default();
    let first = granted(&tell(&mut home, 1, ask(Mode::Exclusive)))[0].1;
    assert!(tell(&mut home, 2, ask(Mode::Shared)).is_empty());
    assert!(tell(&mut home, 3, ask(Mode::Shared)).is_empty());
    assert!(tell(&mut home, 4, ask(Mode::Exclusive)).is_empty());
    assert_eq!(home.entries(), 4, "one holds, and three wait");
    let shared = granted(&tell(&mut home, 1, Message::Release));
    assert_eq!(shared.iter().map(|g| g.0).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(shared[0].1, shared[1].1);
    assert!(tell(&mut home, 2, Message::Release).is_empty());
    let last = granted(&tell(&mut home, 3, Message::Release));
    assert_eq!(last[0].0, 4);
    for (_, token) in shared {
        assert!(first.0 + 255 < token.0 && token < last[0].1);
    }
    assert_eq!(home.entries(), 1);
    tell(&mut home, 4, Message::Release);
    assert_eq!(home.entries(), 0);
}

#[test]
fn a_downgraded_hold_shares_a_token_with_those_who_are_let_in() {
    let mut home = Home::default();
    let first = granted(&tell(&mut home, 1, ask(Mode::Exclusive)))[0].1;
    assert!(tell(&mut home, 2, ask(Mode::Shared)).is_empty());
    assert!(tell(&mut home, 3, ask(Mode::Exclusive)).is_empty());
    let handed_over = Token(first.0 + 255);
    let shared = granted(&tell(&mut home, 1, Message::Downgrade));
    assert_eq!(shared, [(2, handed_over.of_next_grant())]);
    assert_eq!(first.of_next_grant(), shared[0].1);
    assert!(handed_over < shared[0].1);
    tell(&mut home, 2, Message::Release);
    let last = granted(&tell(&mut home, 1, Message::Release));
    assert!(last[0].1 > shared[0].1);
}

#[test]
fn a_try_is_refused_at_once_and_leaves_no_trace() {
    let mut home = Home::default();
    let try_for = |mode| Message::Request { mode, policy: WaitPolicy::Try };
    assert_eq!(granted(&tell(&mut home, 1, try_for(Mode::Shared))).len(), 1);
    assert_eq!(tell(&mut home, 2, try_for(Mode::Exclusive)), [(2, Message::Busy)]);
    assert_eq!(granted(&tell(&mut home, 3, try_for(Mode::Shared))).len(), 1);
    assert!(tell(&mut home, 4, ask(Mode::Exclusive)).is_empty());
    assert_eq!(tell(&mut home, 2, try_for(Mode::Shared)), [(2, Message::Busy)]);
    assert!(tell(&mut home, 1, Message::Release).is_empty());
    assert_eq!(granted(&tell(&mut home, 3, Message::Release))[0].0, 4);
}

#[test]
fn what_contradicts_the_protocol_changes_nothing() {
    let mut home = Home::default();
    tell(&mut home, 1, ask(Mode::Exclusive));
    let mut out = Vec::new();
    for (from, message) in [
        (1, ask(Mode::Exclusive)),
        (2, Message::Release),
        (2, Message::Downgrade),
        (2, Message::Busy),
        (2, Message::Grant { token: Token(9) }),
    ] {
        assert_eq!(home.on_message(rank(from), message, MAY, &mut out), Err(OutOfTurn));
    }
    assert!(out.is_empty());
    assert_eq!(home.entries(), 1);
}

/// After 2^32 grants of one lock in one view there is no token that is above those and below the next view's.
#[test]
fn a_lock_of_which_a_view_has_no_token_left_is_granted_again_in_the_next_one_with_a_larger_one() {
    let (me, other, key, now) = (rank(1), rank(2), LockKey(7), Nanos(0));
    let mut keeper = Keeper::new(me, 1, true);
    let begin = |keeper: &mut Keeper, number| {
        let id = ViewId { lineage: Ballot { round: 1, by: 9 }, number };
        let members = [me, other].map(|rank| Member { rank, incarnation: 7 }).to_vec();
        keeper.begin(View { id, members, ..View::default() }, Vec::new(), now, now);
    };
    let report = |keeper: &mut Keeper| {
        let mut out = Vec::new();
        for from in [me, other] {
            assert_eq!(keeper.reported(now, from, now, &mut out), None);
        }
        out.into_iter().map(|(to, _, message)| (to.get(), message)).collect::<Vec<_>>()
    };
    let tell = |keeper: &mut Keeper, from, message| {
        let mut out = Vec::new();
        keeper.on_message(now, from, key, message, &mut out).expect("it is in turn");
        out.into_iter().map(|(to, message)| (to.get(), message)).collect::<Vec<_>>()
    };
    let end = Token::before_view(2);
    begin(&mut keeper, 1);
    tell(&mut keeper, me, Message::Holds { mode: Mode::Exclusive, token: Token(end.0 - 3 * 256) });
    assert_eq!(report(&mut keeper), []);
    assert_eq!(tell(&mut keeper, other, ask(Mode::Exclusive)), []);
    let last = tell(&mut keeper, me, Message::Release);
    assert_eq!(granted(&last), [(2, Token(end.0 - 2 * 256))], "and one is left for its downgrade");
    assert_eq!(tell(&mut keeper, other, Message::Downgrade), []);
    assert_eq!(tell(&mut keeper, other, Message::Release), []);
    let tries = Message::Request { mode: Mode::Shared, policy: WaitPolicy::Try };
    assert_eq!(tell(&mut keeper, other, tries), [(2, Message::Busy)]);
    assert_eq!(tell(&mut keeper, me, ask(Mode::Exclusive)), [], "it waits for the next view");
    begin(&mut keeper, 2);
    assert_eq!(tell(&mut keeper, me, ask(Mode::Exclusive)), []);
    let next = granted(&report(&mut keeper));
    assert!(next[0].0 == 1 && next[0].1 > end, "{next:?}");
}

/// A network in which nothing arrives.
#[derive(Default)]
struct Silence(Counters);

impl Wire for Silence {
    fn send(&self, _to: Rank, _key: LockKey, _message: Message) {}

    fn counters(&self) -> &Counters {
        &self.0
    }
}

#[test]
fn a_request_is_answered_by_its_home_and_by_nobody_else() {
    let (home, stranger, token) = (rank(1), rank(2), Token(256));
    for (policy, answer, end) in [
        (WaitPolicy::Queue, Message::Grant { token }, Ok(token)),
        (WaitPolicy::Try, Message::Grant { token }, Ok(token)),
        (WaitPolicy::Try, Message::Busy, Err(Refused::Busy)),
    ] {
        let wire = Rc::new(Silence::default());
        let requester = Requester::new(Rc::clone(&wire), LockKey(7), Some(home));
        let mut request = pin!(requester.lock(Mode::Exclusive, policy));
        let mut look = || request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(look(), Poll::Pending);
        requester.on_message(stranger, answer);
        assert_eq!((look(), wire.0.out_of_turn.get()), (Poll::Pending, 1), "{policy:?} {answer:?}");
        requester.on_message(home, answer);
        assert_eq!((look(), wire.0.out_of_turn.get()), (Poll::Ready(end), 1), "{policy:?} {answer:?}");
    }
}

/// Its home grants it just before the node learns that the others go on without it, and both are looked at in one go.
#[test]
fn a_request_that_is_granted_as_its_node_is_left_out_ends() {
    let home = rank(1);
    let requester = Requester::new(Rc::new(Silence::default()), LockKey(7), Some(home));
    let mut request = pin!(requester.lock(Mode::Exclusive, WaitPolicy::Queue));
    let mut look = || request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(look(), Poll::Pending);
    requester.on_message(home, Message::Grant { token: Token(256) });
    assert!(requester.view_lost(), "it held the lock");
    requester.give_up();
    assert_eq!(look(), Poll::Ready(Err(Refused::Over)));
}

#[test]
fn a_try_that_is_under_way_as_its_node_is_left_out_says_that_and_not_that_the_lock_is_busy() {
    let requester = Requester::new(Rc::new(Silence::default()), LockKey(7), Some(rank(1)));
    let mut request = pin!(requester.lock(Mode::Exclusive, WaitPolicy::Try));
    let mut look = || request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(look(), Poll::Pending);
    assert!(!requester.view_lost());
    requester.give_up();
    assert_eq!(look(), Poll::Ready(Err(Refused::Over)));
    let mut next = pin!(requester.lock(Mode::Exclusive, WaitPolicy::Try));
    let told = next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(told, Poll::Ready(Err(Refused::Over)), "as does the next one");
}

#[test]
fn explorers_know_a_seat_by_what_its_request_has_come_to() {
    let (home, token) = (rank(1), Token(256));
    let told = |policy: Option<WaitPolicy>, answer: Option<Message>, looks: bool| {
        let requester = Requester::new(Rc::new(Silence::default()), LockKey(7), Some(home));
        if let Some(policy) = policy {
            let mut request = pin!(requester.lock(Mode::Exclusive, policy));
            let mut look = || request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(look(), Poll::Pending);
            assert!(requester.is_taken());
            if let Some(answer) = answer {
                requester.on_message(home, answer);
            }
            if looks {
                assert!(look().is_ready());
            }
        }
        let mut digest = StateHasher::default();
        requester.state().hash(&mut digest);
        (digest.whole(), requester.is_taken())
    };
    let (idle, queue, tries) = (None, Some(WaitPolicy::Queue), Some(WaitPolicy::Try));
    let all = [
        told(idle, None, false),
        told(queue, None, false),
        told(tries, None, false),
        told(tries, Some(Message::Busy), false),
        told(queue, Some(Message::Grant { token }), true),
        told(queue, Some(Message::Grant { token: Token(512) }), true),
    ];
    for (i, one) in all.iter().enumerate() {
        assert!(all[..i].iter().all(|other| other.0 != one.0), "{i}");
    }
    assert_eq!(all.map(|one| one.1), [false, true, true, true, true, true]);
    assert_eq!(told(tries, Some(Message::Busy), true), all[0], "refused, it has nothing");
    assert_eq!(told(tries, Some(Message::Grant { token }), true), all[4]);
}

fn message() -> impl Strategy<Value = Message> {
    let mode = prop_oneof![Just(Mode::Shared), Just(Mode::Exclusive)];
    let policy = prop_oneof![Just(WaitPolicy::Queue), Just(WaitPolicy::Try)];
    prop_oneof![
        (mode, policy).prop_map(|(mode, policy)| Message::Request { mode, policy }),
        any::<u64>().prop_map(|token| Message::Grant { token: Token(token) }),
        Just(Message::Busy),
        Just(Message::Release),
        Just(Message::Downgrade),
        (prop_oneof![Just(Mode::Shared), Just(Mode::Exclusive)], any::<u64>())
            .prop_map(|(mode, token)| Message::Holds { mode, token: Token(token) }),
        any::<u64>().prop_map(|remaining| Message::Reported { remaining }),
    ]
}

proptest! {
    #[test]
    fn a_message_comes_back_from_its_bytes(key: u64, message in message(), cut: u8) {
        let encoded = message.encode(LockKey(key));
        let bytes = encoded.bytes();
        prop_assert_eq!(Message::decode(bytes), Ok((LockKey(key), message)));
        let short = &bytes[..usize::from(cut) % bytes.len()];
        prop_assert_eq!(Message::decode(short), Err(Malformed::TooShort));
    }

    #[test]
    fn any_bytes_are_answered_and_what_is_accepted_is_canonical(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..32),
        kind in 0u8..9,
    ) {
        if let [version, scheme, k, zero, ..] = &mut bytes[..] {
            (*version, *scheme, *k, *zero) = (1, 1, kind, 0);
        }
        if let Ok((key, message)) = Message::decode(&bytes) {
            let encoded = message.encode(key);
            prop_assert_eq!(encoded.bytes(), &bytes[..]);
        }
    }
}
