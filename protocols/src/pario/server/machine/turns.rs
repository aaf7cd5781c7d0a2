//! Turns at places in staging: by deficit round robin among clients (Shreedhar and Varghese, 1995), and one unit each among the requests of
//! one (pvfs2-quadrics.txt, 5.1: the throttle).
//!
//! A client with many requests gets as many bytes as one with a few. None has more than a bounded number of places at a time, so one that
//! stays away with places that it was offered leaves the others theirs until its lease ends.

use super::Stage;
use crate::transport::Rank;
use std::collections::{BTreeMap, VecDeque};

/// What a client waits for and has.
#[derive(Clone, Debug, Default)]
struct Client {
    /// Its requests with units that have not begun, in turn.
    jobs: VecDeque<u64>,
    /// Bytes that it may move before it is the next one's turn: what it took beyond that, it has less of in its next turn.
    deficit: i64,
    /// Places that it has.
    places: u32,
    /// It stands in line: for as long as its turn lasts also while none of its requests waits.
    stands: bool,
}

/// Who gets the next free place.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    /// Bytes of a turn, and places of a client at most.
    quantum: i64,
    most: u32,
    /// Clients with requests that wait, the next one first.
    line: VecDeque<Rank>,
    clients: BTreeMap<Rank, Client>,
    /// Whose each place is that is not free.
    held: BTreeMap<Stage, Rank>,
}

impl Turns {
    /// Turns of so many bytes among clients with so many places at most.
    pub(super) fn new(quantum: u32, most: u32) -> Turns {
        let (line, clients, held) = (VecDeque::new(), BTreeMap::new(), BTreeMap::new());
        Turns { quantum: i64::from(quantum.max(1)), most: most.max(1), line, clients, held }
    }

    /// A request of a client has units that have not begun.
    pub(super) fn wait(&mut self, client: Rank, job: u64) {
        let of = self.clients.entry(client).or_default();
        if !std::mem::replace(&mut of.stands, true) {
            self.line.push_back(client);
        }
        of.jobs.push_back(job);
    }

    /// The request that has the next place. It is out of line: it [waits](Turns::wait) again, or has nothing more to begin.
    pub(super) fn next(&mut self) -> Option<(Rank, u64)> {
        // Each client may have to wait for a turn, and all of them for their places.
        let mut looked = 0;
        while looked < self.line.len() {
            let client = *self.line.front()?;
            let of = self.clients.get_mut(&client)?;
            if of.jobs.is_empty() {
                // Who wants nothing saves no turns, and owes what it took.
                (of.stands, of.deficit) = (false, of.deficit.min(0));
                self.line.pop_front();
                self.tidy(client);
            } else if of.places >= self.most {
                looked += 1;
                self.line.rotate_left(1);
            } else if of.deficit <= 0 {
                of.deficit += self.quantum;
                looked = if of.deficit > 0 { 0 } else { looked };
                self.line.rotate_left(1);
            } else {
                return Some((client, of.jobs.pop_front()?));
            }
        }
        None
    }

    /// A client has a place for a unit of so many bytes.
    pub(super) fn took(&mut self, client: Rank, stage: Stage, bytes: u32) {
        let of = self.clients.entry(client).or_default();
        of.deficit -= i64::from(bytes);
        of.places += 1;
        self.held.insert(stage, client);
    }

    /// A place is free again.
    pub(super) fn freed(&mut self, stage: Stage) {
        let Some(client) = self.held.remove(&stage) else { return };
        if let Some(of) = self.clients.get_mut(&client) {
            of.places -= 1;
        }
        self.tidy(client);
    }

    /// A request has nothing more to begin. Of a client that wants nothing and has nothing, nothing is kept.
    pub(super) fn tidy(&mut self, client: Rank) {
        if self.clients.get(&client).is_some_and(|of| of.jobs.is_empty() && of.places == 0) {
            self.clients.remove(&client);
            self.line.retain(|stands| *stands != client);
        }
    }

    /// How many clients it knows.
    pub(super) fn len(&self) -> usize {
        self.clients.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rank(n: u32) -> Rank {
        Rank::from_index(n)
    }

    /// Serves units one at a time, each of its client's size, and says how many bytes each client got.
    fn serve(jobs: &[(u32, u32, u32)], units: u32) -> BTreeMap<Rank, u64> {
        let mut turns = Turns::new(1_000, 4);
        let mut sizes = BTreeMap::new();
        for (client, requests, bytes) in jobs {
            sizes.insert(rank(*client), *bytes);
            (0..*requests).for_each(|job| turns.wait(rank(*client), u64::from(client * 100 + job)));
        }
        let mut got = BTreeMap::new();
        for unit in 0..units {
            let (client, job) = turns.next().expect("somebody waits");
            let bytes = sizes[&client];
            turns.took(client, Stage(unit), bytes);
            *got.entry(client).or_default() += u64::from(bytes);
            turns.wait(client, job);
            turns.freed(Stage(unit));
        }
        got
    }

    proptest! {
        /// Whatever the sizes of units and the numbers of requests, no two clients that always wait differ by more than two turns and a
        /// unit each.
        #[test]
        fn clients_get_equal_bytes_whatever_they_ask_for(
            requests in prop::collection::vec((1..9_u32, 1..=1_000_u32), 2..6),
        ) {
            let jobs: Vec<_> = (0..).zip(&requests).map(|(client, (jobs, bytes))| (client, *jobs, *bytes)).collect();
            let got = serve(&jobs, 20_000);
            prop_assert_eq!(got.len(), jobs.len(), "somebody got nothing");
            let (least, most) = (got.values().min(), got.values().max());
            prop_assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 4_000), "{:?}", got);
        }
    }

    #[test]
    fn a_client_has_no_more_than_its_places() {
        let mut turns = Turns::new(1_000, 2);
        for job in 0..5 {
            turns.wait(rank(1), job);
        }
        for place in 0..2 {
            let (client, _) = turns.next().expect("it may have two");
            turns.took(client, Stage(place), 10);
        }
        assert_eq!(turns.next(), None, "the others' places are not its own");
        turns.wait(rank(2), 9);
        assert_eq!(turns.next(), Some((rank(2), 9)));
        turns.freed(Stage(0));
        assert_eq!(turns.next(), Some((rank(1), 2)));
    }

    #[test]
    fn nothing_is_kept_of_who_wants_nothing() {
        let mut turns = Turns::new(1_000, 2);
        turns.wait(rank(1), 1);
        let (client, _) = turns.next().expect("it waits");
        turns.took(client, Stage(0), 10);
        turns.freed(Stage(0));
        assert_eq!(turns.len(), 0);
    }
}
