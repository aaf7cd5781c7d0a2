//! What one member is to be told and cannot be yet, since the mesh has no room for it.
//!
//! A member that is not reached for a while is told what is so now and not all that was so meanwhile. Renewals come several
//! times a lease whether or not anything is taken off: kept one by one, they would be sent one by one, and each be answered, long
//! after they had come to mean nothing.

use super::messages::{Envelope, Message};
use std::collections::VecDeque;

/// Messages to one member, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Backlog(VecDeque<Envelope>);

impl Backlog {
    /// Takes a message in, in place of what it makes void. Where that was of an earlier view, it goes to the end: behind the
    /// decision of its own. So does what says that its sender acts somewhere no more: behind all that it has said there. And so does a proposal
    /// that is made again, with the whole view in it: while it waits for who is away, it is made every two patiences.
    pub(super) fn push(&mut self, envelope: Envelope) {
        let Some(at) = self.0.iter().position(|older| voids(&envelope, older)) else {
            return self.0.push_back(envelope);
        };
        let is_last = matches!(
            envelope.message,
            Message::Join | Message::GivenUp { .. } | Message::Prepare { .. } | Message::Accept { .. }
        );
        if !is_last && view(&self.0[at].message) == view(&envelope.message) {
            self.0[at] = envelope;
        } else {
            self.0.remove(at);
            self.0.push_back(envelope);
        }
    }

    /// What is to be sent next.
    pub(super) fn first(&self) -> Option<&Envelope> {
        self.0.front()
    }

    /// All of it, in order.
    pub(super) fn into_iter(self) -> impl Iterator<Item = Envelope> {
        self.0.into_iter()
    }

    /// It was sent.
    pub(super) fn sent(&mut self) {
        self.0.pop_front();
    }
}

/// Whether nothing is lost if an older message is not said, since this one is.
fn voids(newer: &Envelope, older: &Envelope) -> bool {
    use Message::{Accept, Ping, Pong, Prepare, Renew, Renewed};
    let same_kind = matches!(
        (&newer.message, &older.message),
        (Renew { .. }, Renew { .. })
            | (Renewed { .. }, Renewed { .. })
            | (Ping { .. }, Ping { .. })
            | (Pong { .. }, Pong { .. })
            // The later ballot of one proposer makes the earlier one void.
            | (Prepare { .. }, Prepare { .. })
            | (Accept { .. }, Accept { .. })
    );
    newer == older || same_kind && newer.to == older.to
}

fn view(message: &Message) -> Option<super::ViewId> {
    match message {
        Message::Renew { view, .. }
        | Message::Renewed { view, .. }
        | Message::Ping { view }
        | Message::Pong { view } => Some(*view),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::{Ballot, View, ViewId};
    use super::*;

    fn id(number: u64) -> ViewId {
        ViewId { lineage: Ballot { round: 1, by: 1 }, number }
    }

    fn to(to: u64, message: Message) -> Envelope {
        Envelope { from: 1, to, message }
    }

    fn renew(view: u64, of: u64) -> Envelope {
        to(2, Message::Renew { view: id(view), id: of })
    }

    fn all(backlog: &mut Backlog) -> Vec<Envelope> {
        std::iter::from_fn(|| {
            let first = backlog.first().cloned();
            backlog.sent();
            first
        })
        .collect()
    }

    #[test]
    fn a_member_that_is_not_reached_is_kept_no_more_than_what_is_so_now() {
        let mut backlog = Backlog::default();
        let decided =
            to(2, Message::Decided { view: View { id: id(4), members: Vec::new(), ..View::default() } });
        for number in 0..1_000 {
            backlog.push(to(2, Message::Pong { view: id(3) }));
            backlog.push(renew(3, number));
            backlog.push(to(2, Message::Renewed { view: id(3), id: number }));
            backlog.push(decided.clone());
        }
        let expected = [
            to(2, Message::Pong { view: id(3) }),
            renew(3, 999),
            to(2, Message::Renewed { view: id(3), id: 999 }),
            decided,
        ];
        assert_eq!(all(&mut backlog), expected);
    }

    #[test]
    fn what_is_said_in_a_view_stays_behind_its_decision() {
        let mut backlog = Backlog::default();
        let decided =
            to(2, Message::Decided { view: View { id: id(4), members: Vec::new(), ..View::default() } });
        for envelope in [renew(3, 1), decided.clone(), renew(4, 2)] {
            backlog.push(envelope);
        }
        assert_eq!(all(&mut backlog), [decided, renew(4, 2)]);
    }

    #[test]
    fn that_one_has_no_view_any_more_stays_behind_what_it_said_in_it() {
        let mut backlog = Backlog::default();
        let said = to(2, Message::Ping { view: id(4) });
        for ends in [to(2, Message::Join), to(2, Message::GivenUp { view: id(4) })] {
            for envelope in [&ends, &said, &ends] {
                backlog.push(envelope.clone());
            }
            assert_eq!(all(&mut backlog), [said.clone(), ends]);
        }
    }

    #[test]
    fn of_proposals_that_one_who_is_away_was_sent_the_last_one_is_kept() {
        let mut backlog = Backlog::default();
        let view = |number| View { id: id(number), ..View::default() };
        let ballot = |round| Ballot { round, by: 1 };
        let prepare = |round| to(2, Message::Prepare { after: view(3), ballot: ballot(round) });
        let accept = |round| {
            let (ballot, next) = (ballot(round), view(4));
            to(2, Message::Accept { after: id(3), ballot, next })
        };
        let decided = to(2, Message::Decided { view: view(3) });
        backlog.push(decided.clone());
        for round in 1..1_000 {
            backlog.push(prepare(round));
            backlog.push(accept(round));
        }
        let next = to(3, Message::Prepare { after: view(3), ballot: ballot(1_000) });
        backlog.push(next.clone());
        assert_eq!(all(&mut backlog), [decided, prepare(999), accept(999), next]);
    }

    #[test]
    fn what_another_incarnation_is_told_voids_nothing() {
        let mut backlog = Backlog::default();
        let both = [to(2, Message::Ping { view: id(3) }), to(3, Message::Ping { view: id(3) })];
        both.iter().for_each(|envelope| backlog.push(envelope.clone()));
        assert_eq!(all(&mut backlog), both);
    }
}
