//! Whose turn it is at a segment.

use super::Step;
use crate::ddss::Header;
use crate::transport::Rank;
use std::collections::VecDeque;

/// Those who wait for a turn at a segment. As long as nobody does, headers are changed by whose swap comes first.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub state: State,
    pub waiting: VecDeque<(Rank, u64)>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// The header has no mark.
    #[default]
    Open,
    /// It is being marked. Those who had the lock and have left meanwhile are kept in mind.
    Closing { left: Vec<Rank> },
    /// It is marked, and this node may change it.
    Serving(Rank),
    /// The mark is being taken away.
    Opening,
}

impl Line {
    /// Somebody waits: the header is to be marked.
    pub fn closes(&mut self) -> Step {
        self.state = State::Closing { left: Vec::new() };
        Step::Close
    }

    /// The header was marked; it was this.
    pub fn closed(&mut self, header: Header) -> Step {
        let State::Closing { left } = &self.state else { return Step::Nothing };
        match header.holder() {
            Some(holder) if !left.contains(&holder) => {
                self.state = State::Serving(holder);
                Step::Nothing
            }
            _ => self.next(),
        }
    }

    /// What comes next, unless it is not that node's turn. While the header is being marked nobody knows yet whose it is.
    pub fn ends_turn(&mut self, node: Rank) -> Option<Step> {
        match &mut self.state {
            State::Closing { left } => left.push(node),
            State::Serving(rank) if *rank == node => return Some(self.next()),
            State::Serving(_) | State::Opening | State::Open => return None,
        }
        Some(Step::Nothing)
    }

    fn next(&mut self) -> Step {
        match self.waiting.pop_front() {
            Some((to, id)) => {
                self.state = State::Serving(to);
                Step::Grant { to, id }
            }
            None => {
                self.state = State::Opening;
                Step::Open
            }
        }
    }
}
