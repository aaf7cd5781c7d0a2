//! The travelling salesperson, by branch and bound (TreadMarks TSP): tours that are begun lie in a shared pool, and a priority queue of them
//! and a stack of places that are free lie in shared memory, too, all under one lock. A thread that has the lock takes the most
//! promising tour; one with few cities it makes longer by each city that comes next, and puts those back that can be shorter than the
//! best one known. One with enough cities it takes away, and searches all tours that begin so. The best one's length is shared
//! and changed under a lock of its own.
//!
//! A unit of work is a city that a search comes to. The application's own search tries all orders of the cities that are open and gives up
//! at the best one's length alone; this one bounds what remains as well, which is the same to everybody but the host that runs it, and
//! takes so many units fewer. To make a tour longer is not charged: that takes microseconds, and a search many milliseconds.
//!
//! A tour has 128 bytes; with 10,240 of them, the queue and the stack have 1.4 MB, which is Table 3's.

use super::{Answer, AppError, Input, Worker, noise};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weft_protocols::dsm::Shared;
use weft_verbs::Verbs;

/// The most cities.
const MOST: usize = 20;
/// A tour is searched when no more cities than that are open (the application's own default).
const FROM_END: usize = 12;
/// Places of the pool.
const POOL: usize = 10_240;
/// What Table 3's RDMA writes leave for a fault at least: a page.
pub(super) const GRAIN: u32 = 4_096;

/// After so many units a thread looks whether a shorter tour was found meanwhile.
const LOOK: u64 = 50;

const POOL_LOCK: u64 = 0;
const BEST_LOCK: u64 = 1;

/// A tour that is begun: its cities, and at these places how many they are, how long it is, and the least that a whole one takes.
type Tour = [u32; 32];
/// Bytes of a tour.
pub(super) const TOUR: u32 = size_of::<Tour>() as u32;
const KNOWN: usize = MOST;
const LENGTH: usize = MOST + 1;
const BOUND: usize = MOST + 2;

/// Words of the pool's state: how many tours are in the queue, and how many places are on the stack.
const QUEUED: usize = 0;
const FREE: usize = 1;

/// Bytes of shared memory.
pub(super) fn memory() -> u64 {
    (POOL * (size_of::<Tour>() + size_of::<u64>() + size_of::<u32>())) as u64 + 2 * u64::from(GRAIN)
}

struct Map {
    cities: usize,
    /// From each city to each.
    roads: Vec<Vec<u32>>,
}

impl Map {
    fn new(cities: usize) -> Map {
        let place = |city: usize| [noise(2 * city), noise(2 * city + 1)];
        let road = |one: usize, other: usize| {
            let ([x, y], [u, v]) = (place(one), place(other));
            (1_000.0 * libm::hypot(x - u, y - v)) as u32
        };
        let roads: Vec<Vec<u32>> =
            (0..cities).map(|one| (0..cities).map(|other| road(one, other)).collect()).collect();
        Map { cities, roads }
    }

    /// A tour that always goes to the nearest city: what the search begins with.
    fn nearest(&self) -> u32 {
        let (mut at, mut been, mut length) = (0, 1u32, 0);
        while been.count_ones() < self.cities as u32 {
            let next = (0..self.cities)
                .filter(|city| been & 1 << city == 0)
                .min_by_key(|city| self.roads[at][*city]);
            let next = next.unwrap_or_default();
            length += self.roads[at][next];
            (at, been) = (next, been | 1 << next);
        }
        length + self.roads[at][0]
    }

    /// The first city alone.
    fn first(&self) -> Tour {
        let mut first = [0; 32];
        first[KNOWN] = 1;
        first
    }

    /// Whether a tour is searched, and not made longer first.
    fn is_searched(&self, tour: &Tour) -> bool {
        tour[KNOWN] as usize >= self.cities.saturating_sub(FROM_END).max(2)
    }

    /// A tour with each of the cities that may come next, and the least that whole ones take.
    fn longer(&self, begun: &Tour) -> impl Iterator<Item = Tour> {
        let known = begun[KNOWN] as usize;
        let (been, last) = (been(begun), begun[known - 1] as usize);
        let open = (0..self.cities).filter(move |city| been & 1 << city == 0);
        open.map(move |city| {
            let mut longer = *begun;
            longer[known] = city as u32;
            longer[KNOWN] += 1;
            longer[LENGTH] += self.roads[last][city];
            longer[BOUND] = self.least(city, been | 1 << city, longer[LENGTH], u32::MAX);
            longer
        })
    }

    /// What remains takes at least as long as the shortest tree of roads that joins where the tour stands, the cities that it has
    /// not been to, and its first one (Prim's algorithm). Gives up at so much.
    fn least(&self, at: usize, been: u32, length: u32, enough: u32) -> u32 {
        let all = (1u32 << self.cities) - 1;
        let mut rest = (all & !been) | 1;
        let mut near = self.roads[at].clone();
        let mut least = length;
        while rest > 0 && least < enough {
            let outside = (0..self.cities).filter(|city| rest & 1 << city != 0);
            let Some(next) = outside.min_by_key(|city| near[*city]) else { break };
            least += near[next];
            rest &= !(1 << next);
            for (near, road) in near.iter_mut().zip(&self.roads[next]) {
                *near = (*near).min(*road);
            }
        }
        least
    }
}

/// The cities of a tour that is begun.
fn been(begun: &Tour) -> u32 {
    begun[..begun[KNOWN] as usize].iter().fold(0, |been, city| been | 1u32 << city)
}

/// A search that can be interrupted after a number of units.
struct Search<'a> {
    map: &'a Map,
    best: u32,
    /// By depth: the city, those that are not tried yet there, and the length so far.
    stack: Vec<(usize, u32, u32)>,
    been: u32,
}

impl<'a> Search<'a> {
    fn new(map: &'a Map, begun: &Tour, best: u32) -> Search<'a> {
        let been = been(begun);
        let all = (1u32 << map.cities) - 1;
        let last = begun[begun[KNOWN] as usize - 1] as usize;
        Search { map, best, stack: vec![(last, all & !been, begun[LENGTH])], been }
    }

    /// Goes on for so many units at most. Gives how many it took; it is over if they were fewer.
    fn go_on(&mut self, most: u64) -> u64 {
        let depth = self.stack.len();
        let mut units = 0;
        while units < most {
            let Some((at, untried, length)) = self.stack.last_mut() else { break };
            if *untried == 0 {
                let at = *at;
                self.stack.pop();
                if !self.stack.is_empty() {
                    self.been &= !(1 << at);
                }
                continue;
            }
            let roads = &self.map.roads[*at];
            let open = (0..self.map.cities).filter(|city| *untried & 1 << city != 0);
            let Some(next) = open.min_by_key(|city| roads[*city]) else { break };
            *untried &= !(1 << next);
            let length = *length + roads[next];
            units += 1;
            self.been |= 1 << next;
            if self.been.count_ones() as usize == self.map.cities {
                self.best = self.best.min(length + self.map.roads[next][0]);
                self.been &= !(1 << next);
            } else if self.map.least(next, self.been, length, self.best) < self.best {
                let all = (1u32 << self.map.cities) - 1;
                self.stack.push((next, all & !self.been, length));
            } else {
                self.been &= !(1 << next);
            }
        }
        debug_assert!(depth > 0 || units == 0);
        units
    }
}

/// The pool of tours, in shared memory.
struct Pool {
    tours: Shared<[Tour]>,
    /// A heap: the least that a tour takes, and its place.
    queue: Shared<[u64]>,
    free: Shared<[u32]>,
    state: Shared<[u32]>,
    best: Shared<[u32]>,
}

impl Pool {
    fn new<V: Verbs>(worker: &Worker<V>) -> Result<Pool, AppError> {
        Ok(Pool {
            tours: worker.shared(0, POOL, GRAIN)?,
            queue: worker.shared(1, POOL, GRAIN)?,
            free: worker.shared(2, POOL, GRAIN)?,
            state: worker.shared(3, 16, 64)?,
            best: worker.shared(4, 16, 64)?,
        })
    }

    /// The first tour is begun, and all other places are free.
    async fn fill<V: Verbs>(&self, worker: &mut Worker<V>, map: &Map) -> Result<(), AppError> {
        let free: Vec<u32> = (0..POOL as u32).rev().collect();
        worker.write(self.free, 0, &free).await?;
        worker.store(self.state, FREE, POOL as u32).await?;
        worker.store(self.best, 0, map.nearest()).await?;
        self.put(worker, &map.first()).await
    }

    /// Puts a tour into the queue. The pool has a place for it.
    async fn put<V: Verbs>(&self, worker: &mut Worker<V>, tour: &Tour) -> Result<(), AppError> {
        let free = worker.load(self.state, FREE).await?;
        let place = worker.load(self.free, free as usize - 1).await?;
        worker.store(self.state, FREE, free - 1).await?;
        worker.write(self.tours, place as usize, &[*tour]).await?;
        let queued = worker.load(self.state, QUEUED).await?;
        worker.store(self.state, QUEUED, queued + 1).await?;
        let new = u64::from(tour[BOUND]) << 32 | u64::from(place);
        let mut at = queued as usize;
        while at > 0 {
            let above = worker.load(self.queue, (at - 1) / 2).await?;
            if above <= new {
                break;
            }
            worker.store(self.queue, at, above).await?;
            at = (at - 1) / 2;
        }
        worker.store(self.queue, at, new).await
    }

    /// Takes the most promising tour out of the queue.
    async fn take<V: Verbs>(&self, worker: &mut Worker<V>) -> Result<Option<Tour>, AppError> {
        let queued = worker.load(self.state, QUEUED).await? as usize;
        if queued == 0 {
            return Ok(None);
        }
        let first = worker.load(self.queue, 0).await?;
        let last = worker.load(self.queue, queued - 1).await?;
        worker.store(self.state, QUEUED, queued as u32 - 1).await?;
        let mut at = 0;
        while 2 * at + 1 < queued - 1 {
            let mut below = 2 * at + 1;
            let mut least = worker.load(self.queue, below).await?;
            if below + 1 < queued - 1 {
                let other = worker.load(self.queue, below + 1).await?;
                (below, least) = if other < least { (below + 1, other) } else { (below, least) };
            }
            if last <= least {
                break;
            }
            worker.store(self.queue, at, least).await?;
            at = below;
        }
        worker.store(self.queue, at, last).await?;
        let place = first as u32;
        let mut tour = [[0; 32]];
        worker.read(self.tours, place as usize, &mut tour).await?;
        let free = worker.load(self.state, FREE).await?;
        worker.store(self.free, free as usize, place).await?;
        worker.store(self.state, FREE, free + 1).await?;
        Ok(Some(tour[0]))
    }

    /// The next tour to be searched: the most promising one is made longer until it has enough cities, or the pool is full. None:
    /// nothing is left that can be shorter than the best one, since nobody adds a tour without the lock.
    async fn next<V: Verbs>(&self, worker: &mut Worker<V>, map: &Map) -> Result<Option<Tour>, AppError> {
        let lock = worker.lock(POOL_LOCK).await?;
        let found = loop {
            let Some(tour) = self.take(worker).await? else { break None };
            let best = worker.load(self.best, 0).await?;
            if tour[BOUND] >= best {
                // It is the most promising one.
                break None;
            }
            let free = worker.load(self.state, FREE).await?;
            if map.is_searched(&tour) || (free as usize) < MOST {
                break Some(tour);
            }
            for tour in map.longer(&tour).filter(|tour| tour[BOUND] < best) {
                self.put(worker, &tour).await?;
            }
        };
        worker.unlock(lock).await;
        Ok(found)
    }
}

/// One thread's part; the first one gives the shortest tour's length.
pub(super) async fn run<V: Verbs>(worker: &mut Worker<V>, input: Input) -> Result<u64, AppError> {
    let map = Map::new(input.size);
    let pool = Pool::new(worker)?;
    let best = pool.best;
    if worker.me == 0 {
        pool.fill(worker, &map).await?;
    }
    worker.barrier().await?;
    worker.begins();
    while let Some(begun) = pool.next(worker, &map).await? {
        let mut search = Search::new(&map, &begun, worker.load(best, 0).await?);
        loop {
            let units = search.go_on(LOOK);
            worker.compute(units).await;
            let known = worker.load(best, 0).await?;
            if search.best < known {
                let lock = worker.lock(BEST_LOCK).await?;
                let known = worker.load(best, 0).await?;
                if search.best < known {
                    worker.store(best, 0, search.best).await?;
                }
                worker.unlock(lock).await;
            }
            search.best = search.best.min(known);
            if units < LOOK {
                break;
            }
        }
    }
    worker.barrier().await?;
    worker.ends();
    if worker.me == 0 { Ok(u64::from(worker.load(best, 0).await?)) } else { Ok(0) }
}

/// The same by one thread on its own memory.
pub(super) fn sequential(input: Input) -> Answer {
    let map = Map::new(input.size);
    let (mut best, mut units) = (map.nearest(), 0);
    let mut queue = BinaryHeap::from([Reverse((0, map.first()))]);
    while let Some(Reverse((bound, tour))) = queue.pop() {
        if bound >= best {
            break;
        }
        if map.is_searched(&tour) {
            let mut search = Search::new(&map, &tour, best);
            units += search.go_on(u64::MAX);
            best = search.best;
            continue;
        }
        for tour in map.longer(&tour).filter(|tour| tour[BOUND] < best) {
            queue.push(Reverse((tour[BOUND], tour)));
        }
    }
    Answer { value: best.into(), units }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All orders of the cities after the first.
    fn shortest(map: &Map, at: usize, been: u32) -> u32 {
        let rest: Vec<usize> = (0..map.cities).filter(|city| been & 1 << city == 0).collect();
        let on = |city: &usize| map.roads[at][*city] + shortest(map, *city, been | 1 << city);
        rest.iter().map(on).min().unwrap_or(map.roads[at][0])
    }

    #[test]
    fn branch_and_bound_finds_the_shortest_of_all_tours() {
        for cities in [5, 7, 9] {
            let answer = sequential(Input { size: cities, rounds: 1 });
            assert_eq!(answer.value, u64::from(shortest(&Map::new(cities), 0, 1)), "{cities} cities");
        }
    }
}
