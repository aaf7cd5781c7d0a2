//! The barriers of which a node is the home: a state machine without I/O (kernel-dsm.txt, 4.2: "straightforward").

use crate::transport::Rank;
use std::collections::BTreeMap;

/// A barrier, by a name that all threads agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BarrierId(pub u64);

impl BarrierId {
    /// The node that counts who has come, while it lives.
    pub fn home(self, nodes: u32) -> Rank {
        Rank::from_index((self.0 % u64::from(nodes)) as u32)
    }
}

/// The barriers of which a node is the home.
#[derive(Debug, Default)]
pub(super) struct Barriers {
    /// By barrier: the threads that have come and wait, each by its node and its number there.
    come: BTreeMap<BarrierId, Vec<(Rank, u32)>>,
}

impl Barriers {
    /// A thread has come. Gives all who have, once there are as many as take part.
    pub fn on_enter(&mut self, barrier: BarrierId, from: Rank, id: u32, parties: u32) -> Vec<(Rank, u32)> {
        let come = self.come.entry(barrier).or_default();
        come.push((from, id));
        if (come.len() as u64) < u64::from(parties) {
            return Vec::new();
        }
        self.come.remove(&barrier).unwrap_or_default()
    }

    /// An epoch begins: who waited is told by its own node.
    pub fn clear(&mut self) {
        self.come.clear();
    }

    /// Threads that have come and wait for others.
    pub fn waiting(&self) -> u64 {
        self.come.values().map(|come| come.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_thread_lets_all_go_and_the_next_round_begins_with_none() {
        let (mut barriers, barrier) = (Barriers::default(), BarrierId(4));
        let [a, b] = [0, 1].map(Rank::from_index);
        for round in [0, 10] {
            assert_eq!(barriers.on_enter(barrier, a, round, 3), []);
            assert_eq!(barriers.on_enter(barrier, a, round + 1, 3), []);
            let all = [(a, round), (a, round + 1), (b, round)];
            assert_eq!(barriers.on_enter(barrier, b, round, 3), all);
            assert_eq!(barriers.waiting(), 0);
        }
    }
}
