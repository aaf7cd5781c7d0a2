//! The connections of clients: which of them ask, and which stay for a while and may ask once more.

use crate::roster::ConnId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How many clients may ask at a time.
pub const CLIENTS: usize = 256;

/// The connections of clients. Those that ask nothing are let go after a while, or for the sake of others that do.
#[derive(Debug)]
pub struct Clients {
    /// They wait for an answer, or were refused and have not gone yet.
    asking: BTreeSet<ConnId>,
    /// They have been answered: when.
    idle: BTreeMap<ConnId, Duration>,
    keep: Duration,
}

impl Clients {
    /// None. One that asks nothing is kept for so long.
    pub fn new(keep: Duration) -> Clients {
        Clients { asking: BTreeSet::new(), idle: BTreeMap::new(), keep }
    }

    /// One comes, and asks: the one that is let go for it, if there is no room.
    pub fn come(&mut self, conn: ConnId) -> Option<ConnId> {
        self.asking.insert(conn);
        if self.asking.len() + self.idle.len() <= CLIENTS {
            return None;
        }
        let longest = self.idle.iter().min_by_key(|(_, since)| **since).map(|(conn, _)| *conn)?;
        self.idle.remove(&longest);
        Some(longest)
    }

    /// Whether there are more than may ask.
    pub fn are_too_many(&self) -> bool {
        self.asking.len() > CLIENTS
    }

    /// One that has stayed asks again; false if it may not: its last question is open.
    pub fn ask_again(&mut self, conn: ConnId) -> bool {
        self.idle.remove(&conn).is_some() && self.asking.insert(conn)
    }

    /// One has its answer, and stays.
    pub fn answered(&mut self, now: Duration, conn: ConnId) {
        if self.asking.remove(&conn) {
            self.idle.insert(conn, now);
        }
    }

    /// One has gone.
    pub fn gone(&mut self, conn: ConnId) {
        self.asking.remove(&conn);
        self.idle.remove(&conn);
    }

    /// When the next one is let go.
    pub fn deadline(&self) -> Option<Duration> {
        self.idle.values().min().map(|since| *since + self.keep)
    }

    /// Those that are let go by now.
    pub fn tick(&mut self, now: Duration) -> Vec<ConnId> {
        let late = self.idle.iter().filter(|(_, since)| **since + self.keep <= now);
        let late: Vec<ConnId> = late.map(|(conn, _)| *conn).collect();
        self.idle.retain(|_, since| *since + self.keep > now);
        late
    }

    /// All of those that ask nothing: the coordinator ends.
    pub fn let_go(&mut self) -> Vec<ConnId> {
        std::mem::take(&mut self.idle).into_keys().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Duration = Duration::from_secs(5);

    #[test]
    fn a_client_that_was_answered_may_ask_again_until_it_is_let_go() {
        let mut clients = Clients::new(KEEP);
        let (first, second) = (ConnId(1), ConnId(2));
        assert_eq!((clients.come(first), clients.come(second)), (None, None));
        assert!(!clients.ask_again(first), "its question is open");
        clients.answered(Duration::ZERO, first);
        clients.answered(KEEP, second);
        assert_eq!(clients.deadline(), Some(KEEP));
        assert_eq!(clients.tick(KEEP), [first]);
        assert!(!clients.ask_again(first) && clients.ask_again(second));
        clients.gone(second);
        assert_eq!(clients.deadline(), None);
    }

    #[test]
    fn who_asks_nothing_is_let_go_for_the_sake_of_those_who_ask() {
        let mut clients = Clients::new(KEEP);
        for conn in 0..CLIENTS as u64 {
            assert_eq!(clients.come(ConnId(conn)), None);
        }
        clients.answered(Duration::from_secs(2), ConnId(7));
        clients.answered(Duration::from_secs(1), ConnId(9));
        assert_eq!(clients.come(ConnId(1_000)), Some(ConnId(9)));
        assert_eq!(clients.come(ConnId(1_001)), Some(ConnId(7)));
        assert!(!clients.are_too_many());
        assert_eq!(clients.come(ConnId(1_002)), None);
        assert!(clients.are_too_many());
    }
}
