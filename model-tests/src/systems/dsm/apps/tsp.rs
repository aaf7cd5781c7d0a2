//! The travelling salesperson, by branch and bound (TreadMarks TSP): the beginnings of tours lie in a shared pool; a thread takes
//! the next one under a lock, and searches all tours that begin so, as long as they can be shorter than the best one known. That
//! one's length is shared and changed under a lock of its own.
//!
//! A beginning has 128 bytes; 16 of them are a minipage, 2 KiB.

use super::{Answer, AppError, Input, Worker, noise};
use weft_protocols::dsm::Shared;
use weft_verbs::Verbs;

/// The most cities.
const MOST: usize = 20;
/// Cities of a beginning.
const BEGINNING: usize = 3;
/// The most beginnings that there can be: all of two cities after the first.
const POOL: usize = 19 * 18;
const GRAIN: u32 = 2_048;

/// After so many units a thread looks whether a shorter tour was found meanwhile.
const LOOK: u64 = 2_000;

const POOL_LOCK: u64 = 0;
const BEST_LOCK: u64 = 1;

/// A beginning of tours: its cities, at [`LENGTH`] how long it is, and nothing.
type Beginning = [u32; 32];
const LENGTH: usize = MOST;

/// Bytes of shared memory.
pub(super) fn memory() -> u64 {
    (POOL * size_of::<Beginning>()) as u64 + 2 * u64::from(GRAIN)
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

    /// All beginnings, the shortest first.
    fn beginnings(&self) -> Vec<Beginning> {
        let deep = BEGINNING.min(self.cities - 1);
        let mut all = vec![[0; 32]];
        for known in 1..deep {
            all = all.iter().flat_map(|begun| self.longer(begun, known)).collect();
        }
        all.sort_by_key(|begun| begun[LENGTH]);
        all
    }

    fn longer(&self, begun: &Beginning, known: usize) -> Vec<Beginning> {
        let been = &begun[..known];
        let next = (0..self.cities).filter(|city| !been.contains(&(*city as u32)));
        let longer = |city: usize| {
            let mut longer = *begun;
            longer[known] = city as u32;
            longer[LENGTH] += self.roads[been[known - 1] as usize][city];
            longer
        };
        next.map(longer).collect()
    }
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
    fn new(map: &'a Map, begun: &Beginning, best: u32) -> Search<'a> {
        let known = BEGINNING.min(map.cities - 1);
        let been = begun[..known].iter().fold(0, |been, city| been | 1u32 << city);
        let all = (1u32 << map.cities) - 1;
        let last = begun[known - 1] as usize;
        Search { map, best, stack: vec![(last, all & !been, begun[LENGTH])], been }
    }

    /// What remains takes at least as long as the shortest tree of roads that joins where the tour stands, the cities that it has
    /// not been to, and its first one (Prim's algorithm).
    fn may_be_shorter(&self, at: usize, length: u32) -> bool {
        let all = (1u32 << self.map.cities) - 1;
        let mut rest = (all & !self.been) | 1;
        let mut near = self.map.roads[at].clone();
        let mut least = length;
        while rest > 0 && least < self.best {
            let outside = (0..self.map.cities).filter(|city| rest & 1 << city != 0);
            let Some(next) = outside.min_by_key(|city| near[*city]) else { break };
            least += near[next];
            rest &= !(1 << next);
            for (near, road) in near.iter_mut().zip(&self.map.roads[next]) {
                *near = (*near).min(*road);
            }
        }
        least < self.best
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
            } else if self.may_be_shorter(next, length) {
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

/// One thread's part; the first one gives the shortest tour's length.
pub(super) async fn run<V: Verbs>(worker: &mut Worker<V>, input: Input) -> Result<u64, AppError> {
    let map = Map::new(input.size);
    let pool: Shared<[Beginning]> = worker.shared(0, POOL, GRAIN)?;
    let next: Shared<[u32]> = worker.shared(1, 16, 64)?;
    let best: Shared<[u32]> = worker.shared(2, 16, 64)?;
    let number = map.beginnings().len();
    if worker.me == 0 {
        worker.write(pool, 0, &map.beginnings()).await?;
        worker.store(best, 0, map.nearest()).await?;
    }
    worker.barrier().await?;
    worker.begins();
    loop {
        let lock = worker.lock(POOL_LOCK).await?;
        let mine = worker.load(next, 0).await?;
        worker.store(next, 0, mine + 1).await?;
        worker.unlock(lock).await;
        if mine as usize >= number {
            break;
        }
        let mut begun = [[0; 32]];
        worker.read(pool, mine as usize, &mut begun).await?;
        let mut search = Search::new(&map, &begun[0], worker.load(best, 0).await?);
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
    for begun in map.beginnings() {
        let mut search = Search::new(&map, &begun, best);
        units += search.go_on(u64::MAX);
        best = search.best;
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
