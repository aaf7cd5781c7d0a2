//! The lock table against plain models of it, over random requests.

use super::client::{Admission, Reply, Ticket, WaitPolicy};
use super::local::{Left, LocalQueue};
use super::queue::{GrantQueue, OutOfTurn};
use super::{Mode, Token};
use crate::rt::sync::{OneshotReceiver, oneshot};
use crate::transport::Rank;
use proptest::prelude::*;

fn modes() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Shared), Just(Mode::Exclusive)]
}

/// What a home is told.
#[derive(Clone, Copy, Debug)]
enum AtHome {
    Request(u32, Mode),
    Release(u32),
    Downgrade(u32),
}

/// Everybody who asked and has not released, in the order of asking, and whether they hold: the whole truth about a
/// fair queue.
#[derive(Default)]
struct Fair(Vec<(u32, Mode, bool)>);

impl Fair {
    fn entry(&mut self, who: u32) -> Option<&mut (u32, Mode, bool)> {
        self.0.iter_mut().find(|entry| entry.0 == who)
    }

    fn told(&mut self, what: AtHome) -> Result<(), OutOfTurn> {
        match what {
            AtHome::Request(who, mode) if self.entry(who).is_none() => self.0.push((who, mode, false)),
            AtHome::Release(who) if self.entry(who).is_some_and(|entry| entry.2) => {
                self.0.retain(|entry| entry.0 != who);
            }
            AtHome::Downgrade(who) => match self.entry(who) {
                Some((_, mode @ Mode::Exclusive, true)) => *mode = Mode::Shared,
                _ => return Err(OutOfTurn),
            },
            _ => return Err(OutOfTurn),
        }
        Ok(())
    }

    /// Grants whoever goes with all that came before: they hold or are granted first.
    fn grants(&mut self) -> Vec<(u32, Mode)> {
        let mut granted = Vec::new();
        for place in 0..self.0.len() {
            let (who, mode, holds) = self.0[place];
            if !holds && self.0[..place].iter().all(|before| before.2 && before.1.goes_with(mode)) {
                self.0[place].2 = true;
                granted.push((who, mode));
            }
        }
        granted
    }
}

fn at_home() -> impl Strategy<Value = AtHome> {
    prop_oneof![
        3 => (1..6u32, modes()).prop_map(|(who, mode)| AtHome::Request(who, mode)),
        3 => (1..6u32).prop_map(AtHome::Release),
        1 => (1..6u32).prop_map(AtHome::Downgrade),
    ]
}

/// What happens to one node's queue.
#[derive(Clone, Copy, Debug)]
enum OnNode {
    Enter(Mode),
    Leave(usize),
    /// The network grants what was asked for, if it was asked.
    Grant,
    Downgrade(usize),
}

fn on_node() -> impl Strategy<Value = OnNode> {
    prop_oneof![
        4 => modes().prop_map(OnNode::Enter),
        4 => (0..12usize).prop_map(OnNode::Leave),
        3 => Just(OnNode::Grant),
        1 => (0..12usize).prop_map(OnNode::Downgrade),
    ]
}

/// Where a request of an application stands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stands {
    Waits,
    Uses,
    Left,
}

/// One node's requests in the order of entering, and what the network has granted: its mode, its token, and how often
/// it may still be handed on.
#[derive(Default)]
struct Neighbours {
    requests: Vec<(Mode, Stands)>,
    hold: Option<(Mode, u64, u32)>,
}

const HAND_OVERS: u32 = 2;

impl Neighbours {
    fn first_waiting(&self) -> Option<usize> {
        self.requests.iter().position(|request| request.1 == Stands::Waits)
    }

    fn is_used(&self) -> bool {
        self.requests.iter().any(|request| request.1 == Stands::Uses)
    }

    /// Serves those at the head who fit: one alone, or as many as share.
    fn serve(&mut self, held: Mode) -> Vec<usize> {
        let mut served: Vec<usize> = Vec::new();
        while let Some(next) = self.first_waiting() {
            let mode = self.requests[next].0;
            let fits = match served.first() {
                Some(&first) => mode == Mode::Shared && self.requests[first].0 == Mode::Shared,
                None => mode == Mode::Shared || held == Mode::Exclusive,
            };
            if !fits {
                break;
            }
            self.requests[next].1 = Stands::Uses;
            served.push(next);
        }
        served
    }

    fn happens(&mut self, what: OnNode) -> Vec<usize> {
        match what {
            OnNode::Enter(mode) => self.requests.push((mode, Stands::Waits)),
            OnNode::Leave(who) => {
                let Some(request) = self.requests.get_mut(who) else { return vec![] };
                request.1 = Stands::Left;
                return self.hand_on();
            }
            OnNode::Grant => {
                let (None, Some(next)) = (self.hold, self.first_waiting()) else { return vec![] };
                let mode = self.requests[next].0;
                self.hold = Some((mode, 256, HAND_OVERS));
                return self.serve(mode);
            }
            OnNode::Downgrade(who) => {
                let users: Vec<usize> =
                    (0..self.requests.len()).filter(|user| self.requests[*user].1 == Stands::Uses).collect();
                let Some(hold) = self.hold.as_mut().filter(|hold| hold.0 == Mode::Exclusive) else {
                    return vec![];
                };
                if users == [who] {
                    (hold.0, hold.1) = (Mode::Shared, Token::of_next_grant(Token(hold.1)).0);
                    return self.serve(Mode::Shared);
                }
            }
        }
        vec![]
    }

    /// Nobody uses an exclusive grant any more: the next one has it, if it wants it alone.
    fn hand_on(&mut self) -> Vec<usize> {
        let Some((Mode::Exclusive, token, left @ 1..)) = self.hold else { return vec![] };
        let next = self.first_waiting().filter(|next| self.requests[*next].0 == Mode::Exclusive);
        if self.is_used() || next.is_none() {
            return vec![];
        }
        self.hold = Some((Mode::Exclusive, token + 1, left - 1));
        self.serve(Mode::Exclusive)
    }
}

/// Does to the shipped queue what the model did, as the daemon would, and says whom it served with which token.
fn shipped(
    queue: &mut LocalQueue,
    what: OnNode,
    answers: &mut Vec<OneshotReceiver<Reply>>,
) -> Vec<(usize, u64)> {
    match what {
        OnNode::Enter(mode) => {
            let (reply, answer) = oneshot();
            queue.enter(Ticket(answers.len() as u64), mode, WaitPolicy::Queue, reply);
            answers.push(answer);
        }
        OnNode::Leave(who) => {
            if queue.leave(Ticket(who as u64)) != Left::Nobody {
                queue.hand_off();
            }
        }
        OnNode::Grant => {
            let wanted = queue.wanted().filter(|_| queue.holding() == 0 && !queue.is_spent());
            if let Some(wanted) = wanted {
                queue.granted(wanted.mode, Admission { token: Some(Token(256)), losses: 0 }, HAND_OVERS);
            }
        }
        OnNode::Downgrade(who) => {
            queue.downgrade(Ticket(who as u64));
            queue.let_in();
        }
    }
    let granted = |(who, answer): (usize, &mut OneshotReceiver<Reply>)| match answer.try_recv() {
        Some(Ok(Admission { token: Some(Token(token)), .. })) => Some((who, token)),
        _ => None,
    };
    answers.iter_mut().enumerate().filter_map(granted).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_home_s_queue_grants_as_a_fair_queue_does(told in prop::collection::vec(at_home(), 1..60)) {
        let (mut queue, mut fair) = (GrantQueue::default(), Fair::default());
        for what in told {
            let rank = |who| Rank::new(who).expect("from 1");
            let taken = match what {
                AtHome::Request(who, mode) => queue.request(rank(who), mode),
                AtHome::Release(who) => queue.release(rank(who)),
                AtHome::Downgrade(who) => queue.downgrade(rank(who)),
            };
            prop_assert_eq!(taken, fair.told(what), "{:?}", what);
            let at_once = fair.0.iter().all(|entry| entry.2 && entry.1 == Mode::Shared);
            prop_assert_eq!(queue.would_grant(Mode::Shared), at_once);
            let granted: Vec<_> = std::iter::from_fn(|| queue.next_grant()).map(|(who, mode)| (who.get(), mode)).collect();
            prop_assert_eq!(granted, fair.grants());
            let holding = fair.0.iter().filter(|entry| entry.2).count();
            prop_assert_eq!((queue.holding(), queue.waiting()), (holding, fair.0.len() - holding));
            prop_assert_eq!(queue.is_idle(), fair.0.is_empty());
        }
    }

    #[test]
    fn a_node_s_queue_serves_its_applications_as_its_model_does(happens in prop::collection::vec(on_node(), 1..60)) {
        let (mut queue, mut model) = (LocalQueue::default(), Neighbours::default());
        let mut answers = Vec::new();
        for what in happens {
            let served = shipped(&mut queue, what, &mut answers);
            let token = |model: &Neighbours| model.hold.map_or(0, |hold| hold.1);
            let expected = model.happens(what);
            let expected: Vec<_> = expected.into_iter().map(|who| (who, token(&model))).collect();
            prop_assert_eq!(served, expected, "{:?}", what);
            let spent = model.hold.is_some() && !model.is_used();
            prop_assert_eq!(queue.is_spent(), spent, "{:?}", what);
            if spent {
                queue.give_back();
                model.hold = None;
            }
            let stand = |how| model.requests.iter().filter(|request| request.1 == how).count();
            prop_assert_eq!((queue.holding(), queue.waiting()), (stand(Stands::Uses), stand(Stands::Waits)));
        }
    }
}
