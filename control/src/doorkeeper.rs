//! Connections that have not proved yet who they are: so many and no more, and a line in the log for some of them.
//!
//! When there is no room for another one, the oldest of the address with the most makes room. So a stranger who opens
//! connections without end closes its own, and nodes at other addresses get through. It is the same when the process has as
//! many files open as it may, which can be sooner.

use crate::lines::Lines;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::task::AbortHandle;

/// Connections on their way in.
#[derive(Debug)]
pub struct Doorkeeper {
    most: usize,
    /// By a number that grows: the smallest is the oldest.
    half_open: BTreeMap<u64, (SocketAddr, AbortHandle)>,
    complaints: Lines,
}

impl Doorkeeper {
    /// Keeps so many at a time.
    pub fn new(most: usize) -> Doorkeeper {
        Doorkeeper { most, half_open: BTreeMap::new(), complaints: Lines::new("turned away") }
    }

    /// A connection has come. If that is one too many, another one is closed; where from is returned.
    pub fn enter(&mut self, number: u64, from: SocketAddr, task: AbortHandle) -> Option<SocketAddr> {
        self.half_open.insert(number, (from, task));
        if self.half_open.len() <= self.most {
            return None;
        }
        self.make_room(1)
    }

    /// Closes a connection of an address that has at least so many, if there is one; where from is returned.
    pub fn make_room(&mut self, crowd: u32) -> Option<SocketAddr> {
        let mut counts: BTreeMap<IpAddr, u32> = BTreeMap::new();
        self.half_open.values().for_each(|(from, _)| *counts.entry(from.ip()).or_default() += 1);
        let most = counts.values().copied().max().filter(|most| *most >= crowd)?;
        let victim = *self.half_open.iter().find(|(_, (from, _))| counts[&from.ip()] == most)?.0;
        let (from, task) = self.half_open.remove(&victim)?;
        task.abort();
        Some(from)
    }

    /// A connection has proved who it is, or is gone.
    pub fn leave(&mut self, number: u64) {
        self.half_open.remove(&number);
    }

    /// What is said of strangers.
    pub fn lines(&mut self) -> &mut Lines {
        &mut self.complaints
    }

    /// Writes a line about a stranger, unless there were many.
    pub fn complain(&mut self, now: Duration, from: SocketAddr, why: &str) {
        self.complaints.write(now, format_args!("{from}: {why}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], 4_000))
    }

    /// Its connections have ports of their own.
    fn stranger(connection: u64) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 9], 5_000 + connection as u16))
    }

    #[tokio::test]
    async fn a_flood_from_one_address_closes_its_own_connections_only() {
        let mut door = Doorkeeper::new(4);
        let task = || tokio::spawn(std::future::pending::<()>()).abort_handle();
        assert_eq!(door.enter(0, node(), task()), None);
        for number in 1..4 {
            assert_eq!(door.enter(number, stranger(number), task()), None);
        }
        for number in 4..100 {
            assert_eq!(door.enter(number, stranger(number), task()), Some(stranger(number - 3)));
        }
        assert!(door.half_open.contains_key(&0), "the node was closed for a stranger's sake");
        assert_eq!(door.half_open.keys().copied().collect::<Vec<_>>(), [0, 97, 98, 99]);
    }

    #[tokio::test]
    async fn room_is_made_before_there_are_too_many_and_from_nobody_if_nobody_is_there() {
        let mut door = Doorkeeper::new(4);
        assert_eq!(door.make_room(1), None);
        for (number, from) in [(0, node()), (1, stranger(1)), (2, stranger(2))] {
            let task = tokio::spawn(std::future::pending::<()>()).abort_handle();
            assert_eq!(door.enter(number, from, task), None);
        }
        assert_eq!(door.make_room(2), Some(stranger(1)));
        assert_eq!(door.half_open.keys().copied().collect::<Vec<_>>(), [0, 2]);
        assert_eq!(door.make_room(2), None, "one connection is no crowd");
    }
}
