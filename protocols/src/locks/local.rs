//! One node's requests for one lock: a state machine without I/O.
//!
//! However many applications of a node want a lock, the network sees one request at a time. They are served
//! first come, first served. What the network grants is used
//!
//! - shared: by all shared requests that stand at the head of the queue at that moment. Those that come later
//!   wait for the next grant, even while this one lasts: they would keep other nodes' writers waiting without
//!   an end;
//! - exclusive: by the request at the head, and then handed off to the next one if that is exclusive as well, a
//!   bounded number of times. (An exclusive grant whose requester has left serves shared requests, too.)

use super::client::{Admission, Reply, Ticket, WaitPolicy};
use super::{LockError, Mode, Token};
use crate::rt::sync::OneshotSender;
use std::collections::VecDeque;

#[derive(Hash)]
struct Waiting {
    ticket: Ticket,
    mode: Mode,
    policy: WaitPolicy,
    reply: OneshotSender<Reply>,
}

/// What the network has granted.
#[derive(Hash)]
struct Hold {
    mode: Mode,
    token: Option<Token>,
    losses: u64,
    hand_offs_left: u32,
    /// Its user shares from now on, and the network has not been told.
    downgraded: bool,
    /// Its user shares from now on, and its neighbours have not been let in.
    lets_in: bool,
}

/// What the network should be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wanted {
    pub(crate) ticket: Ticket,
    pub(crate) mode: Mode,
    pub(crate) policy: WaitPolicy,
}

/// Who had left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// A holder: it unlocked.
    Holder,
    /// A waiting request: it gave up.
    Waiting,
    /// Nobody: it gave up at the moment of its grant, which went to the next one.
    Nobody,
}

/// The requests of a node's applications for one lock.
#[derive(Default, Hash)]
pub(crate) struct LocalQueue {
    waiting: VecDeque<Waiting>,
    users: Vec<Ticket>,
    hold: Option<Hold>,
    /// How the network is being asked, be it for one who has left meanwhile.
    asked: Option<WaitPolicy>,
}

impl LocalQueue {
    /// Queues a request. A try that would have to wait for a neighbour is refused, or for what one has asked for who gave up.
    pub(crate) fn enter(
        &mut self,
        ticket: Ticket,
        mode: Mode,
        policy: WaitPolicy,
        reply: OneshotSender<Reply>,
    ) {
        let waits = self.asked == Some(WaitPolicy::Queue);
        if policy == WaitPolicy::Try && (waits || self.hold.is_some() || !self.waiting.is_empty()) {
            // Whoever does not listen any more needs no refusal.
            let _ = reply.send(Err(LockError::WouldBlock));
            return;
        }
        self.waiting.push_back(Waiting { ticket, mode, policy, reply });
    }

    /// Takes a request out, be it waiting or holding.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Left {
        if let Some(at) = self.users.iter().position(|&u| u == ticket) {
            self.users.swap_remove(at);
            return Left::Holder;
        }
        match self.waiting.iter().position(|w| w.ticket == ticket) {
            Some(at) => {
                self.waiting.remove(at);
                Left::Waiting
            }
            None => Left::Nobody,
        }
    }

    /// What to ask the network for, while nothing is held.
    pub(crate) fn wanted(&self) -> Option<Wanted> {
        let front = self.waiting.front()?;
        Some(Wanted { ticket: front.ticket, mode: front.mode, policy: front.policy })
    }

    /// The network is being asked, so; or it has answered.
    pub(crate) fn set_asked(&mut self, asked: Option<WaitPolicy>) {
        self.asked = asked;
    }

    /// Refuses one request.
    pub(crate) fn refuse(&mut self, ticket: Ticket, why: LockError) {
        if let Some(at) = self.waiting.iter().position(|w| w.ticket == ticket)
            && let Some(refused) = self.waiting.remove(at)
        {
            // Whoever does not listen any more needs no refusal.
            let _ = refused.reply.send(Err(why));
        }
    }

    /// Refuses every request.
    pub(crate) fn refuse_all(&mut self, why: &LockError) {
        for refused in self.waiting.drain(..) {
            // Whoever does not listen any more needs no refusal.
            let _ = refused.reply.send(Err(why.clone()));
        }
    }

    /// The network has granted the lock. Says how many applications that serves.
    pub(crate) fn granted(&mut self, mode: Mode, grant: Admission, local_hand_offs: u32) -> usize {
        let Admission { token, losses } = grant;
        let (hand_offs_left, downgraded, lets_in) = (local_hand_offs, false, false);
        self.hold = Some(Hold { mode, token, losses, hand_offs_left, downgraded, lets_in });
        self.admit()
    }

    /// The network's grant is void, and so is what applications have of it.
    pub(crate) fn revoke(&mut self) {
        self.users.clear();
        self.hold = None;
    }

    /// The local hand-off: an exclusive hold that nobody uses any more goes to the next request. Says how many that
    /// serves.
    pub(crate) fn hand_off(&mut self) -> usize {
        let Some(hold) = &mut self.hold else { return 0 };
        let next_is_exclusive = self.waiting.front().is_some_and(|w| w.mode == Mode::Exclusive);
        if !self.users.is_empty()
            || hold.mode == Mode::Shared
            || hold.hand_offs_left == 0
            || !next_is_exclusive
        {
            return 0;
        }
        hold.hand_offs_left -= 1;
        hold.token = hold.token.map(Token::handed_off);
        self.admit()
    }

    /// The one that holds exclusively shares from now on. Who is next and shares with it has still to be let in.
    pub(crate) fn downgrade(&mut self, ticket: Ticket) {
        // If it has not left meanwhile.
        if let Some(hold) = &mut self.hold
            && hold.mode == Mode::Exclusive
            && self.users == [ticket]
        {
            hold.mode = Mode::Shared;
            hold.token = hold.token.map(Token::downgraded);
            (hold.downgraded, hold.lets_in) = (true, true);
        }
    }

    /// Whether one has downgraded whose neighbours have not been let in.
    pub(crate) fn lets_in(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.lets_in)
    }

    /// Once for each downgrade, lets its neighbours in. Says how many that serves.
    pub(crate) fn let_in(&mut self) -> usize {
        let lets_in = self.hold.as_mut().is_some_and(|hold| std::mem::take(&mut hold.lets_in));
        if lets_in { self.admit() } else { 0 }
    }

    /// Whether the network must be told that others may share; it is then asked once.
    pub(crate) fn is_downgraded(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.downgraded)
    }

    /// The network is being told.
    pub(crate) fn take_downgrade(&mut self) -> bool {
        self.hold.as_mut().is_some_and(|hold| std::mem::take(&mut hold.downgraded))
    }

    /// Admits what may hold now: the first request that still listens, and if that is shared, those behind it.
    fn admit(&mut self) -> usize {
        let Some(hold) = &self.hold else { return 0 };
        let mut admitted = None;
        let before = self.users.len();
        while let Some(front) = self.waiting.front() {
            let fits = match admitted {
                None => hold.mode == Mode::Exclusive || front.mode == Mode::Shared,
                Some(before) => front.mode.goes_with(before),
            };
            if !fits {
                break;
            }
            if let Some(next) = self.waiting.pop_front()
                && next.reply.send(Ok(Admission { token: hold.token, losses: hold.losses })).is_ok()
            {
                self.users.push(next.ticket);
                admitted = Some(next.mode);
            }
        }
        self.users.len() - before
    }

    /// Whether the network's grant is used up.
    pub(crate) fn is_spent(&self) -> bool {
        self.hold.is_some() && self.users.is_empty()
    }

    /// The grant goes back to the network.
    pub(crate) fn give_back(&mut self) {
        self.hold = None;
    }

    /// How many applications hold.
    pub(crate) fn holding(&self) -> usize {
        self.users.len()
    }

    /// How many requests wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt::sync::{OneshotReceiver, oneshot};

    fn grant(token: Option<Token>) -> Admission {
        Admission { token, losses: 0 }
    }

    struct Node {
        queue: LocalQueue,
        answers: Vec<OneshotReceiver<Reply>>,
    }

    impl Node {
        fn new(requests: &[Mode]) -> Node {
            let mut node = Node { queue: LocalQueue::default(), answers: Vec::new() };
            for &mode in requests {
                node.ask(mode, WaitPolicy::Queue);
            }
            node
        }

        fn ask(&mut self, mode: Mode, policy: WaitPolicy) {
            let (reply, answer) = oneshot();
            self.queue.enter(Ticket(self.answers.len() as u64), mode, policy, reply);
            self.answers.push(answer);
        }

        /// The requests that have been granted since the last look, with their tokens.
        fn granted(&mut self) -> Vec<(usize, Option<u64>)> {
            let answers = self.answers.iter_mut().enumerate();
            answers
                .filter_map(|(i, a)| match a.try_recv() {
                    Some(Ok(grant)) => Some((i, grant.token.map(|t| t.0))),
                    _ => None,
                })
                .collect()
        }
    }

    const S: Mode = Mode::Shared;
    const X: Mode = Mode::Exclusive;

    #[test]
    fn a_shared_grant_serves_the_shared_requests_at_the_head_and_no_later_ones() {
        let mut node = Node::new(&[S, S, X, S]);
        assert_eq!(node.queue.granted(S, grant(Some(Token(9))), 4), 2);
        node.ask(S, WaitPolicy::Queue);
        assert_eq!(node.granted(), [(0, Some(9)), (1, Some(9))]);
        node.queue.leave(Ticket(0));
        assert!(!node.queue.is_spent());
        node.queue.leave(Ticket(1));
        assert_eq!(node.queue.hand_off(), 0);
        assert!(node.queue.is_spent());
        node.queue.give_back();
        assert_eq!(node.queue.wanted().map(|w| w.mode), Some(X));
    }

    #[test]
    fn an_exclusive_grant_is_handed_on_a_bounded_number_of_times_with_growing_tokens() {
        let mut node = Node::new(&[X, X, X, X]);
        node.queue.granted(X, grant(Some(Token(256))), 2);
        let mut served = node.granted();
        for i in 0..2 {
            node.queue.leave(Ticket(i));
            assert_eq!(node.queue.hand_off(), 1);
            served.extend(node.granted());
        }
        assert_eq!(served, [(0, Some(256)), (1, Some(257)), (2, Some(258))]);
        node.queue.leave(Ticket(2));
        assert_eq!(node.queue.hand_off(), 0);
        assert!(node.queue.is_spent());
        assert_eq!(node.queue.waiting(), 1);
    }

    #[test]
    fn an_exclusive_hold_is_not_handed_to_those_who_share() {
        let mut node = Node::new(&[X, S]);
        node.queue.granted(X, grant(None), 4);
        node.queue.leave(Ticket(0));
        assert_eq!(node.queue.hand_off(), 0);
        assert!(node.queue.is_spent());
    }

    #[test]
    fn a_downgraded_hold_takes_in_the_neighbours_that_come_next_and_share() {
        let mut node = Node::new(&[X, S, S, X, S]);
        node.queue.granted(X, grant(Some(Token(256))), 4);
        assert_eq!(node.granted(), [(0, Some(256))]);
        node.queue.downgrade(Ticket(1));
        assert!(!node.queue.is_downgraded());
        node.queue.downgrade(Ticket(0));
        assert!(node.queue.is_downgraded());
        assert_eq!(node.granted(), [], "that takes a lease");
        assert_eq!(node.queue.let_in(), 2);
        assert_eq!(node.granted(), [(1, Some(512)), (2, Some(512))]);
        node.ask(S, WaitPolicy::Queue);
        assert_eq!(node.queue.let_in(), 0, "once");
        assert!(node.queue.is_downgraded());
        assert!(node.queue.take_downgrade() && !node.queue.take_downgrade());
        assert!(!node.queue.is_downgraded());
        for user in 0..3 {
            assert!(!node.queue.is_spent());
            node.queue.leave(Ticket(user));
            assert_eq!(node.queue.hand_off(), 0);
        }
        assert!(node.queue.is_spent());
    }

    #[test]
    fn a_downgrade_that_crosses_its_end_changes_nothing() {
        let mut node = Node::new(&[X, S]);
        node.queue.granted(X, grant(None), 4);
        node.queue.leave(Ticket(0));
        node.queue.downgrade(Ticket(0));
        assert!(node.queue.is_spent() && !node.queue.is_downgraded());
        assert_eq!((node.queue.let_in(), node.granted()), (0, vec![(0, None)]));
    }

    #[test]
    fn a_request_that_left_is_not_granted_and_the_next_one_is() {
        let mut node = Node::new(&[X, X]);
        assert_eq!(node.queue.leave(Ticket(0)), Left::Waiting);
        node.queue.granted(X, grant(None), 0);
        assert_eq!(node.granted(), [(1, None)]);
        assert_eq!(node.queue.leave(Ticket(1)), Left::Holder);
        assert_eq!(node.queue.leave(Ticket(1)), Left::Nobody);
    }

    #[test]
    fn a_grant_that_nobody_waits_for_is_spent_at_once() {
        let mut node = Node::new(&[X]);
        node.answers.clear(); // the application is gone, and its farewell is still on its way
        assert_eq!(node.queue.granted(X, grant(None), 4), 0);
        assert!(node.queue.is_spent());
    }

    #[test]
    fn a_shared_grant_does_not_serve_an_exclusive_request_and_an_exclusive_one_serves_both() {
        let mut node = Node::new(&[X]);
        assert_eq!(node.queue.granted(S, grant(None), 4), 0);
        let mut node = Node::new(&[S, S, X]);
        assert_eq!(node.queue.granted(X, grant(None), 4), 2);
    }

    #[test]
    fn a_try_does_not_wait_for_a_neighbour() {
        let mut node = Node::new(&[S]);
        node.ask(S, WaitPolicy::Try);
        assert!(matches!(node.answers[1].try_recv(), Some(Err(LockError::WouldBlock))));
        node.queue.granted(S, grant(None), 0);
        node.ask(S, WaitPolicy::Try);
        assert!(matches!(node.answers[2].try_recv(), Some(Err(LockError::WouldBlock))));
        node.queue.leave(Ticket(0));
        node.queue.give_back();
        node.ask(X, WaitPolicy::Try);
        let wanted = node.queue.wanted().unwrap();
        assert_eq!((wanted.policy, wanted.mode), (WaitPolicy::Try, X));
        node.queue.refuse(wanted.ticket, LockError::WouldBlock);
        assert!(matches!(node.answers[3].try_recv(), Some(Err(LockError::WouldBlock))));
    }

    #[test]
    fn a_try_does_not_wait_for_what_one_has_asked_for_who_gave_up() {
        for asked in [WaitPolicy::Queue, WaitPolicy::Try] {
            let mut node = Node::new(&[]);
            node.ask(X, asked);
            node.queue.set_asked(Some(asked));
            node.queue.leave(Ticket(0));
            node.ask(X, WaitPolicy::Try);
            let refused = matches!(node.answers[1].try_recv(), Some(Err(LockError::WouldBlock)));
            assert_eq!(
                refused,
                asked == WaitPolicy::Queue,
                "{asked:?}: one that waits for nobody is answered soon"
            );
        }
        let mut node = Node::new(&[X]);
        node.queue.set_asked(Some(WaitPolicy::Queue));
        node.queue.set_asked(None);
        node.queue.leave(Ticket(0));
        node.ask(X, WaitPolicy::Try);
        assert_eq!(node.queue.wanted().map(|wanted| wanted.ticket), Some(Ticket(1)), "it has been answered");
    }
}
