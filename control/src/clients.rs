//! The connections of clients: which of them ask, and which stay for a while and may ask once more.

use crate::roster::ConnId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How many clients may ask at a time.
pub const CLIENTS: usize = 256;

/// For how long at least one has asked nothing that is let go for the sake of another one. Who asks again and again, as a program that holds a
/// lock, keeps its place while others wait for one.
const UNUSED: Duration = Duration::from_secs(1);

/// The connections of clients. Those that ask nothing are let go after a while, or for the sake of others that do.
#[derive(Debug)]
pub struct Clients {
    /// They wait for an answer.
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

    /// One comes, and asks: the one that is let go for it, where there is no room. Nothing if nobody can be: it is not to be answered.
    pub fn come(&mut self, now: Duration, conn: ConnId) -> Option<Option<ConnId>> {
        let mut let_go = None;
        if self.asking.len() + self.idle.len() >= CLIENTS {
            let unused = self.idle.iter().filter(|(_, since)| **since + UNUSED <= now);
            let longest = *unused.min_by_key(|(_, since)| **since)?.0;
            self.idle.remove(&longest);
            let_go = Some(longest);
        }
        self.asking.insert(conn);
        Some(let_go)
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
        assert_eq!([first, second].map(|conn| clients.come(Duration::ZERO, conn)), [Some(None); 2]);
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
        let at = Duration::from_secs;
        for conn in 0..CLIENTS as u64 {
            assert_eq!(clients.come(at(0), ConnId(conn)), Some(None));
        }
        clients.answered(at(2), ConnId(7));
        clients.answered(at(1), ConnId(9));
        assert_eq!(clients.come(at(3), ConnId(1_000)), Some(Some(ConnId(9))));
        assert_eq!(clients.come(at(3), ConnId(1_001)), Some(Some(ConnId(7))));
        assert_eq!(clients.come(at(3), ConnId(1_002)), None, "all ask");
    }

    /// Those who wait for a lock ask for as long as they do, and those who hold it must be heard.
    #[test]
    fn who_asks_again_soon_keeps_its_place_however_many_want_one() {
        let mut clients = Clients::new(KEEP);
        let at = Duration::from_millis;
        for conn in 0..CLIENTS as u64 {
            assert_eq!(clients.come(at(0), ConnId(conn)), Some(None));
        }
        let holder = ConnId(3);
        for round in 1..100 {
            clients.answered(at(round * 100), holder);
            let refused = ConnId(1_000 + round);
            assert_eq!(clients.come(at(round * 100 + 50), refused), None);
            assert!(clients.ask_again(holder), "round {round}");
            clients.gone(refused);
        }
    }
}
