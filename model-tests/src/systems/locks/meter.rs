//! What is measured of a lock service's history: what became of requests, and how long grants took.

use super::history::{Event, What};
use crate::history::RequestId;
use crate::metrics::{Percentiles, Times};
use crate::record::Meter;
use std::collections::{BTreeMap, BTreeSet};
use weft_protocols::locks::{LockKey, Mode};
use weft_verbs::Nanos;

/// Counts requests by their ends, and takes the times from calls to grants.
#[derive(Clone, Debug, Default)]
pub struct LockMeter {
    ends: Ends,
    asked: BTreeMap<RequestId, (Nanos, LockKey)>,
    shared: Times,
    exclusive: Times,
    /// Who holds each lock.
    held: BTreeMap<LockKey, Vec<Held>>,
    /// Locks that were held on a node that crashed, in which mode, and when that was: nobody has had them since in a mode that does
    /// not go with that.
    orphaned: BTreeMap<LockKey, (Nanos, Mode)>,
    crashed: u64,
    survived: Times,
    /// How many nodes are known: each says something.
    nodes: u32,
    /// Nodes that have crashed and whose crash is not over: something that they held has not been granted since.
    dead: BTreeSet<u32>,
    /// What the dead had asked for: it may have been granted to them.
    sought: BTreeSet<LockKey>,
    /// Requests that waited when a node crashed, or were made before its crash was over, and what the crash has to do with them.
    around: BTreeMap<RequestId, Home>,
    sought_there: Times,
    at_home_there: Times,
    elsewhere: Times,
}

/// What a lock that a dead node did not hold has to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// The dead one had asked for it: it may have been granted, and nobody was told.
    Sought,
    /// It is by its hash at home on the dead one.
    Dead,
    /// On one that lives.
    Living,
}

/// One who holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    request: RequestId,
    mode: Mode,
    /// When the lock was first granted to one whom this does not go with: on real machines a crash is noticed after that.
    superseded: Option<Nanos>,
}

/// What became of the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// How many were made.
    pub made: u64,
    /// How many were granted.
    pub granted: u64,
    /// How many gave up at their deadline.
    pub timed_out: u64,
    /// How many only tried and found the lock taken.
    pub refused: u64,
    /// How many ended in an error.
    pub failed: u64,
    /// How many were lost while they held, or were left by a node that crashed.
    pub lost: u64,
}

impl LockMeter {
    /// What became of the requests so far.
    pub fn ends(&self) -> Ends {
        self.ends
    }

    /// How many nodes crashed.
    pub fn crashed(&self) -> u64 {
        self.crashed
    }

    /// From the crash of a node that held a lock to its next grant, of those that what was held kept waiting.
    pub fn to_the_next_grant(&self) -> Percentiles {
        self.survived.percentiles()
    }

    /// The same in full.
    pub fn next_grants(&self) -> Vec<(u64, f64)> {
        self.survived.curve()
    }

    /// From request to grant, of the requests of survivors that waited when a node crashed, or were made before all that it had held was
    /// granted again, for locks that it did not hold.
    pub fn meanwhile(&self, home: Home) -> Percentiles {
        self.times(home).percentiles()
    }

    /// The same in full.
    pub fn all_meanwhile(&self, home: Home) -> Vec<(u64, f64)> {
        self.times(home).curve()
    }

    fn times(&self, home: Home) -> &Times {
        match home {
            Home::Sought => &self.sought_there,
            Home::Dead => &self.at_home_there,
            Home::Living => &self.elsewhere,
        }
    }

    /// A request is granted that waited around a crash.
    fn granted_around(&mut self, event: &Event, asked: Nanos) {
        let times = match self.around.remove(&event.request) {
            None => return,
            Some(Home::Sought) => &mut self.sought_there,
            Some(Home::Dead) => &mut self.at_home_there,
            Some(Home::Living) => &mut self.elsewhere,
        };
        times.add(event.at - asked);
    }

    /// What the crashes that are not over have to do with a lock; nothing is told of what the dead held.
    fn home(&self, key: LockKey) -> Option<Home> {
        match key.home(self.nodes).index() as u32 {
            _ if self.dead.is_empty() || self.orphaned.contains_key(&key) => None,
            _ if self.sought.contains(&key) => Some(Home::Sought),
            home if self.dead.contains(&home) => Some(Home::Dead),
            _ => Some(Home::Living),
        }
    }

    /// A node crashed: what its clients asked for and held.
    fn crash(&mut self, event: &Event) {
        let node = event.request.client.node;
        self.crashed += 1;
        let before = self.asked.len();
        let of_node = |request: &RequestId| request.client.node == node;
        let sought = self.asked.iter().filter(|(request, _)| of_node(request)).map(|(_, (_, key))| *key);
        self.sought.extend(sought);
        self.asked.retain(|request, _| !of_node(request));
        self.ends.lost += (before - self.asked.len()) as u64;
        self.dead.insert(node);
        for (key, holders) in &mut self.held {
            let of_node = |held: &Held| held.request.client.node == node;
            let held = holders.iter().find(|held| of_node(held)).copied();
            holders.retain(|held| !of_node(held));
            match held {
                Some(Held { superseded: Some(at), .. }) if at >= event.at => self.survived.add(at - event.at),
                Some(Held { superseded: None, mode, .. }) => {
                    self.orphaned.entry(*key).or_insert((event.at, mode));
                }
                _ => {}
            }
        }
        // What waits for what it held is told by that.
        let others = self.asked.iter().map(|(request, (_, key))| (*request, self.home(*key)));
        self.around = others.filter_map(|(request, home)| Some((request, home?))).collect();
        self.over();
    }

    /// Once all that the dead had held has been granted again, their crashes are over.
    fn over(&mut self) {
        if self.orphaned.is_empty() {
            self.dead.clear();
            self.sought.clear();
        }
    }

    /// From the call of `lock` to its return, of requests that were granted in this mode.
    pub fn to_the_grant(&self, mode: Mode) -> Percentiles {
        match mode {
            Mode::Shared => self.shared.percentiles(),
            Mode::Exclusive => self.exclusive.percentiles(),
        }
    }
}

impl Meter<Event> for LockMeter {
    fn measure(&mut self, event: &Event) {
        self.nodes = self.nodes.max(event.request.client.node + 1);
        let ends = &mut self.ends;
        match event.what {
            What::Requested { .. } => {
                ends.made += 1;
                self.asked.insert(event.request, (event.at, event.key));
                if let Some(home) = self.home(event.key) {
                    self.around.insert(event.request, home);
                }
            }
            What::Granted { .. } => {
                ends.granted += 1;
                let held = self.held.entry(event.key).or_default();
                let rivals = held.iter_mut().filter(|held| !held.mode.goes_with(event.mode));
                rivals.for_each(|held| _ = held.superseded.get_or_insert(event.at));
                held.push(Held { request: event.request, mode: event.mode, superseded: None });
                if let Some((crash, mode)) = self.orphaned.get(&event.key).copied()
                    && !mode.goes_with(event.mode)
                {
                    self.orphaned.remove(&event.key);
                    self.survived.add(event.at - crash);
                    self.over();
                }
                if let Some((asked, _)) = self.asked.get(&event.request).copied() {
                    self.granted_around(event, asked);
                    let times = match event.mode {
                        Mode::Shared => &mut self.shared,
                        Mode::Exclusive => &mut self.exclusive,
                    };
                    times.add(event.at - asked);
                }
            }
            What::TimedOut { .. } => ends.timed_out += 1,
            What::Refused => ends.refused += 1,
            What::Failed(_) => ends.failed += 1,
            What::Lost => ends.lost += 1,
            What::Crashed => self.crash(event),
            What::Downgraded { .. } => {
                let holders = self.held.entry(event.key).or_default();
                let holder = holders.iter_mut().find(|held| held.request == event.request);
                holder.into_iter().for_each(|held| held.mode = Mode::Shared);
            }
            What::Released | What::Outlasts | What::Leased { .. } | What::LeftOut => {}
        }
        if event.what.ends() {
            if let Some(holders) = self.held.get_mut(&event.key) {
                holders.retain(|held| held.request != event.request);
            }
            self.asked.remove(&event.request);
            self.around.remove(&event.request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::ClientId;
    use crate::record::{Record, Recorder};
    use crate::systems::locks::history::Why;
    use crate::systems::locks::oracles::LockOracles;
    use weft_protocols::locks::LockKey;

    type Book = Recorder<LockOracles, LockMeter>;

    fn book() -> Book {
        Recorder::new(LockOracles::new(false), LockMeter::default())
    }

    fn write(book: &Book, at: u64, number: u32, mode: Mode, what: What) {
        let request = RequestId { client: ClientId { node: 0, index: 0 }, number };
        book.record(Event { at: Nanos(at), request, key: LockKey(number.into()), mode, what });
    }

    const ASKS: What = What::Requested { deadline: None };
    const GRANTED: What = What::Granted { token: None };

    #[test]
    fn every_request_is_counted_once_by_its_end() {
        use crate::oracle::Oracles;
        let book = book();
        let ends = [
            Some(What::TimedOut { early: Nanos::ZERO }),
            Some(What::Refused),
            Some(What::Failed(Why::Other)),
            None,
        ];
        for (number, end) in (0..).zip(ends) {
            write(&book, 1, number, Mode::Shared, ASKS);
            end.into_iter().for_each(|end| write(&book, 2, number, Mode::Shared, end));
        }
        write(&book, 3, 9, Mode::Shared, ASKS);
        write(&book, 4, 9, Mode::Shared, GRANTED);
        let all = Ends { made: 5, granted: 1, timed_out: 1, refused: 1, failed: 1, lost: 0 };
        let seen =
            |book: &Book| book.measured(|meter, oracles| (meter.ends(), oracles.ended(), oracles.unended()));
        assert_eq!(seen(&book), (all, 3, 2));
        write(&book, 5, 9, Mode::Shared, What::Released);
        assert_eq!(seen(&book), (all, 4, 1));
    }

    #[test]
    fn latencies_are_from_the_call_to_the_grant_by_mode() {
        let book = book();
        for number in 0..100 {
            write(&book, 1_000, number, Mode::Exclusive, ASKS);
            write(&book, 1_000 + 100_000 * u64::from(number), number, Mode::Exclusive, GRANTED);
            write(&book, 90_000_000, number, Mode::Exclusive, What::Released);
        }
        let of = |mode| book.measured(|meter, _| meter.to_the_grant(mode));
        assert_eq!(of(Mode::Shared), Percentiles::default());
        let exclusive = of(Mode::Exclusive);
        assert_eq!((exclusive.count, exclusive.min_ns), (100, 0));
        assert!(exclusive.p50_ns.abs_diff(4_900_000) <= 4_900, "{exclusive:?}");
        assert_eq!(book.busy(), Nanos(89_999_000));
    }

    /// A view may leave a node out long after the last client is through, and clocks of nodes run apart.
    #[test]
    fn a_second_is_one_in_which_clients_were_busy() {
        let book = book();
        book.record(Event::of_node(Nanos(10), 3, What::Leased { until: Nanos(900), lineage: 1 }));
        write(&book, 2_000, 1, Mode::Exclusive, ASKS);
        write(&book, 1_500, 2, Mode::Exclusive, ASKS);
        write(&book, 9_500, 2, Mode::Exclusive, GRANTED);
        book.record(Event::of_node(Nanos(700_000), 3, What::LeftOut));
        assert_eq!((book.busy(), book.last()), (Nanos(8_000), Nanos(700_000)));
    }

    /// In simulation a crash is known at once. On real machines it is noticed when survivors have gone on already, perhaps.
    #[test]
    fn the_time_from_a_crash_to_the_next_grant_does_not_depend_on_when_the_crash_is_noticed() {
        for noticed_late in [false, true] {
            let book = book();
            let record = |at, node, what| {
                let request = RequestId { client: ClientId { node, index: 0 }, number: 0 };
                book.record(Event { at: Nanos(at), request, key: LockKey(1), mode: Mode::Exclusive, what });
            };
            let crash = || book.record(Event::of_node(Nanos(1_000), 0, What::Crashed));
            record(1, 0, ASKS);
            record(2, 0, GRANTED);
            if !noticed_late {
                crash();
            }
            record(3, 1, ASKS);
            record(9_000, 1, GRANTED);
            record(9_500, 1, What::Released);
            if noticed_late {
                crash();
            }
            record(9_600, 2, ASKS);
            record(9_700, 2, GRANTED);
            let times = book.measured(|meter, _| meter.to_the_next_grant());
            assert_eq!((times.count, times.min_ns), (1, 8_000), "noticed late: {noticed_late}");
        }
    }

    #[test]
    fn what_others_wait_around_a_crash_is_told_by_where_the_lock_is_at_home() {
        let book = book();
        let record = |at, node, key: u64, what| {
            let request = RequestId { client: ClientId { node, index: 0 }, number: key as u32 };
            book.record(Event { at: Nanos(at), request, key: LockKey(key), mode: Mode::Exclusive, what });
        };
        let at_home = |node: usize| (10..).find(|key| LockKey(*key).home(3).index() == node).unwrap();
        let (there, here) = (at_home(0), at_home(1));
        record(1, 2, 9, ASKS);
        record(1, 2, 9, GRANTED);
        record(2, 2, 9, What::Released);
        record(1, 0, 1, ASKS);
        record(2, 0, 1, GRANTED);
        record(3, 1, 1, ASKS);
        record(3, 2, 1, ASKS);
        record(5, 1, here, ASKS);
        book.record(Event::of_node(Nanos(10), 0, What::Crashed));
        record(20, 2, there, ASKS);
        record(25, 1, here, GRANTED);
        record(1_020, 2, there, GRANTED);
        record(2_000, 1, 1, GRANTED);
        record(2_100, 1, 1, What::Released);
        record(2_200, 2, 1, GRANTED);
        record(2_300, 1, here + 1_000, ASKS);
        record(2_400, 1, here + 1_000, GRANTED);
        let seen = book.measured(|meter, _| {
            let of = |home| (meter.meanwhile(home).count, meter.meanwhile(home).max_ns);
            assert_eq!(meter.next_grants().last().map(|point| point.1), Some(1.0));
            (meter.to_the_next_grant().min_ns, of(Home::Dead), of(Home::Living))
        });
        // What a histogram keeps to the nanosecond is below 2,048.
        assert_eq!(seen, (1_990, (1, 1_000), (1, 20)), "who waits for what the dead held is no other");
    }

    #[test]
    fn a_history_is_kept_if_asked_for() {
        for keep in [false, true] {
            let book = if keep { book().keeping_history() } else { book() };
            write(&book, 1, 0, Mode::Shared, ASKS);
            assert_eq!(book.history().len(), usize::from(keep));
        }
    }
}
