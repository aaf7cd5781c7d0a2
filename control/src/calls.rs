//! Calls of clients that nodes have not answered yet: which answer goes to whom, and who waits in vain.

use crate::refusal::Refusal;
use crate::roster::ConnId;
use std::collections::BTreeMap;
use std::time::Duration;

/// A call that a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    client: ConnId,
    node: ConnId,
    rank: u32,
    until: Duration,
}

/// The calls that are open.
#[derive(Debug)]
pub struct Calls {
    open: BTreeMap<u64, Open>,
    next: u64,
    patience: Duration,
}

impl Calls {
    /// None. Numbers begin at `first`: of two coordinators, one after the other, they should differ.
    pub fn new(first: u64, patience: Duration) -> Calls {
        Calls { open: BTreeMap::new(), next: first, patience }
    }

    /// A client's call goes to a node: its number.
    pub fn begin(&mut self, now: Duration, client: ConnId, (rank, node): (u32, ConnId)) -> u64 {
        self.next = self.next.wrapping_add(1);
        self.open.insert(self.next, Open { client, node, rank, until: now + self.patience });
        self.next
    }

    /// A node has answered: whom, and its rank. None if nobody waits for it any more, or the call was another node's.
    pub fn answered(&mut self, id: u64, by: ConnId) -> Option<(ConnId, u32)> {
        let Open { client, node, rank, .. } = *self.open.get(&id)?;
        (node == by).then(|| self.open.remove(&id))?;
        Some((client, rank))
    }

    /// A connection has ended. The clients whose calls its node had are to be told.
    pub fn gone(&mut self, conn: ConnId) -> Vec<(ConnId, Refusal)> {
        let of = |open: &Open| open.node == conn && open.client != conn;
        let told = self.open.values().filter(|open| of(open));
        let told = told.map(|open| (open.client, Refusal::LostAmid { node: open.rank })).collect();
        self.open.retain(|_, open| open.node != conn && open.client != conn);
        told
    }

    /// When the next call has waited for too long.
    pub fn deadline(&self) -> Option<Duration> {
        self.open.values().map(|open| open.until).min()
    }

    /// The clients that have waited for too long.
    pub fn tick(&mut self, now: Duration) -> Vec<(ConnId, Refusal)> {
        let seconds = self.patience.as_secs();
        let late = self.open.values().filter(|open| open.until <= now);
        let late = late.map(|open| (open.client, Refusal::NoAnswer { node: open.rank, seconds })).collect();
        self.open.retain(|_, open| open.until > now);
        late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: (u32, ConnId) = (3, ConnId(10));
    const WAITS: Duration = Duration::from_secs(30);

    #[test]
    fn an_answer_goes_once_to_the_client_that_asked_its_node() {
        let mut calls = Calls::new(u64::MAX, WAITS);
        let first = calls.begin(Duration::ZERO, ConnId(1), NODE);
        let second = calls.begin(Duration::ZERO, ConnId(2), NODE);
        assert_eq!(calls.answered(second, ConnId(11)), None, "another node answers");
        assert_eq!(calls.answered(second, NODE.1), Some((ConnId(2), 3)));
        assert_eq!(calls.answered(second, NODE.1), None);
        assert_eq!(calls.gone(ConnId(1)), []);
        assert_eq!(calls.answered(first, NODE.1), None, "its client is gone");
        assert_eq!(calls.deadline(), None);
    }

    #[test]
    fn whoever_waits_for_a_node_that_is_gone_or_slow_is_told() {
        let mut calls = Calls::new(0, WAITS);
        let begin = Duration::from_secs(1);
        calls.begin(begin, ConnId(1), NODE);
        calls.begin(begin + WAITS, ConnId(2), NODE);
        assert_eq!(calls.deadline(), Some(begin + WAITS));
        assert_eq!(calls.tick(begin + WAITS), [(ConnId(1), Refusal::NoAnswer { node: 3, seconds: 30 })]);
        assert_eq!(calls.gone(NODE.1), [(ConnId(2), Refusal::LostAmid { node: 3 })]);
        assert_eq!(calls.tick(begin + 3 * WAITS), []);
    }
}
