//! What explorers are told of a node's requests: all that decides what becomes of them.

use super::super::LockError;
use super::super::Mode::{self, Exclusive, Shared};
use super::super::Token;
use super::super::client::{Admission, Reply, Ticket, WaitPolicy};
use super::super::local::LocalQueue;
use super::super::queue::GrantQueue;
use super::super::words::tests::Home;
use crate::rt::fingerprint::StateHasher;
use crate::rt::sync::{OneshotReceiver, oneshot};
use crate::transport::Rank;
use std::hash::Hash;

/// A node's queue, and its applications' ends of it.
#[derive(Default)]
struct Node(LocalQueue, Vec<OneshotReceiver<Reply>>);

impl Node {
    fn asks(mut self, ticket: u64, mode: Mode, policy: WaitPolicy) -> Node {
        let (reply, answer) = oneshot();
        self.0.enter(Ticket(ticket), mode, policy, reply);
        self.1.push(answer);
        self
    }

    fn queues(self, ticket: u64, mode: Mode) -> Node {
        self.asks(ticket, mode, WaitPolicy::Queue)
    }

    /// The last one that asked does not listen any more.
    fn goes_deaf(mut self) -> Node {
        self.1.pop();
        self
    }

    fn does<T>(mut self, what: impl FnOnce(&mut LocalQueue) -> T) -> Node {
        what(&mut self.0);
        self
    }

    fn granted(self, mode: Mode, token: Option<u64>, local_hand_offs: u32) -> Node {
        self.does(|queue| {
            queue.granted(mode, Admission { token: token.map(Token), losses: 0 }, local_hand_offs)
        })
    }

    fn told(self) -> u128 {
        let mut digest = StateHasher::default();
        self.0.hash(&mut digest);
        digest.whole()
    }
}

fn differ(told: &[u128]) {
    for (i, one) in told.iter().enumerate() {
        assert!(!told[..i].contains(one), "{i} is as {:?}", told.iter().position(|other| other == one));
    }
}

#[test]
fn who_waits_here_is_told_in_order_with_all_that_decides_what_becomes_of_it() {
    let all = || {
        [
            Node::default(),
            Node::default().queues(1, Exclusive),
            Node::default().queues(1, Shared),
            Node::default().queues(2, Exclusive),
            Node::default().asks(1, Exclusive, WaitPolicy::Try),
            Node::default().queues(1, Exclusive).goes_deaf(),
            Node::default().queues(1, Exclusive).queues(2, Exclusive),
            Node::default().queues(2, Exclusive).queues(1, Exclusive),
            Node::default().queues(1, Exclusive).queues(2, Exclusive).goes_deaf(),
        ]
        .map(Node::told)
    };
    differ(&all());
    assert_eq!(all(), all());
    let after_another = Node::default()
        .queues(1, Shared)
        .queues(2, Exclusive)
        .does(|queue| queue.refuse(Ticket(1), LockError::WouldBlock));
    assert_eq!(after_another.told(), Node::default().queues(2, Exclusive).told());
}

#[test]
fn what_is_held_here_is_told_with_how_often_it_may_be_handed_on() {
    let held =
        |mode, token, local_hand_offs| Node::default().queues(1, mode).granted(mode, token, local_hand_offs);
    let all = || {
        [
            Node::default(),
            held(Exclusive, None, 4),
            held(Shared, None, 4),
            held(Exclusive, Some(256), 4),
            held(Exclusive, Some(512), 4),
            held(Exclusive, Some(256), 3),
            // Another application holds.
            Node::default().queues(2, Exclusive).granted(Exclusive, None, 4),
            // Nobody does any more, and the network has not been told.
            held(Exclusive, None, 4).does(|queue| queue.leave(Ticket(1))),
            held(Shared, None, 4).queues(2, Shared),
            // Two hold.
            Node::default().queues(1, Shared).queues(2, Shared).granted(Shared, None, 4),
            // It shares from now on, and the network has not been told.
            held(Exclusive, None, 4).does(|queue| {
                queue.downgrade(Ticket(1));
                queue.let_in();
            }),
            // Nor have the neighbours.
            held(Exclusive, None, 4).does(|queue| queue.downgrade(Ticket(1))),
        ]
        .map(Node::told)
    };
    differ(&all());
    assert_eq!(all(), all());
    let downgraded = held(Exclusive, None, 4).does(|queue| {
        queue.downgrade(Ticket(1));
        queue.let_in();
        assert!(queue.take_downgrade());
    });
    assert_eq!(
        downgraded.told(),
        held(Shared, None, 4).told(),
        "once the network has been told, it shares as others do"
    );
    let given_back = held(Exclusive, None, 4).does(|queue| {
        queue.leave(Ticket(1));
        queue.give_back();
    });
    assert_eq!(given_back.told(), Node::default().told());
}

#[test]
fn a_home_s_queue_is_told_by_who_holds_in_no_order_and_who_waits_in_order() {
    let rank = |n| Rank::new(n).expect("from 1");
    let told = |holds: &[(u32, Mode)], waits: &[(u32, Mode)]| {
        let mut queue = GrantQueue::default();
        for &(who, mode) in holds {
            queue.hold(rank(who), mode).expect("they go together");
        }
        for &(who, mode) in waits {
            queue.request(rank(who), mode).expect("it is new");
        }
        let mut digest = StateHasher::default();
        queue.hash(&mut digest);
        digest.whole()
    };
    let (s, x) = (Shared, Exclusive);
    differ(&[
        told(&[], &[]),
        told(&[(1, x)], &[]),
        told(&[(1, s)], &[]),
        told(&[(2, s)], &[]),
        told(&[(1, s), (2, s)], &[]),
        told(&[], &[(1, s)]),
        told(&[], &[(1, x)]),
        told(&[], &[(1, x), (2, x)]),
        told(&[], &[(2, x), (1, x)]),
        told(&[(1, x)], &[(2, x)]),
    ]);
    assert_eq!(told(&[(1, s), (2, s), (3, s)], &[(4, x)]), told(&[(3, s), (1, s), (2, s)], &[(4, x)]));
}

#[test]
fn a_home_s_words_are_told_by_which_one_comes_next() {
    let after = |used| {
        let home = Home::new();
        for _ in 0..used {
            home.fresh(None);
        }
        let mut digest = StateHasher::default();
        home.words.numbers().hash(&mut digest);
        digest.whole()
    };
    assert_eq!(after(2), after(2));
    differ(&[after(0), after(1), after(2)]);
}
