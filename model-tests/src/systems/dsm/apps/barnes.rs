//! Barnes-Hut (SPLASH-2 Barnes): bodies attract each other, and a group of bodies that is far away attracts as one. Groups are the
//! cells of an octree, which is made anew in each step. The first thread makes it (the paper's appendix: "in Barnes ... node 0
//! executes a sequential phase"), then each thread computes the forces on its own bodies, a zone of the tree that costs as much as
//! those of the others (cost zones), and then moves them.
//!
//! The tree lies in memory that the first thread allocates, a larger one when it outgrows that. Its name is in shared memory, and
//! cells and bodies are named in cells by **handles**: their places, which mean the same on every node.
//!
//! A body and a cell have 128 bytes, and there is a cell for two bodies, about: Table 3's 3.2 MB by 16,384 bodies. A minipage is
//! 1 KiB. Neighbours in memory are none in space, so what a thread writes lies among what others write, as in SPLASH-2.

use super::{Answer, AppError, Input, Worker, digest, noise};
use weft_protocols::dsm::Shared;
use weft_verbs::Verbs;

/// Bytes of a body, and of a cell.
pub(super) const RECORD: u64 = 128;
pub(super) const GRAIN: u32 = 1_024;

/// Distance at which a cell is one body: its size by this. SPLASH-2's usual tolerance.
const TOLERANCE: f64 = 1.0;
/// What keeps close bodies from attracting each other without bound.
const SOFTENING: f64 = 0.05;
/// A step, in units of time.
const STEP: f64 = 0.025;

/// A body: mass, place, speed, what its force cost in the last step, and what a real one has besides.
type Body = [f64; 16];
const PLACE: usize = 1;
const SPEED: usize = 4;
const COST: usize = 7;

/// Bytes of shared memory.
pub(super) fn memory(bodies: u64) -> u64 {
    RECORD * (bodies + cells_for(bodies as usize) as u64) + 64
}

/// How many cells are made room for.
fn cells_for(bodies: usize) -> usize {
    bodies / 2 + 64
}

/// A body of Plummer's model, at rest: many near the middle, and few far out.
fn begin(index: usize, all: usize) -> Body {
    let random = |which: usize| noise(4 * index + which);
    let radius = 1.0 / (libm::pow(0.999 * random(0) + 1e-6, -2.0 / 3.0) - 1.0).sqrt();
    let (height, angle) = (2.0 * random(1) - 1.0, 2.0 * std::f64::consts::PI * random(2));
    let across = (1.0 - height * height).sqrt();
    let mut body = [0.0; 16];
    body[0] = 1.0 / all as f64;
    body[PLACE] = radius * across * libm::cos(angle);
    body[PLACE + 1] = radius * across * libm::sin(angle);
    body[PLACE + 2] = radius * height;
    body[COST] = 1.0;
    body
}

fn place(body: &Body) -> [f64; 3] {
    [body[PLACE], body[PLACE + 1], body[PLACE + 2]]
}

/// The name of a cell or a body: its place among its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handle {
    Cell(u32),
    Body(u32),
}

/// In a handle's word: it is a body's.
const IS_BODY: u32 = 1 << 31;

impl Handle {
    fn word(self) -> u32 {
        match self {
            Handle::Cell(index) => index,
            Handle::Body(index) => index | IS_BODY,
        }
    }

    /// The root is nobody's child: its word is that of no handle.
    fn of(word: u32) -> Option<Handle> {
        match word {
            0 => None,
            word if word & IS_BODY != 0 => Some(Handle::Body(word & !IS_BODY)),
            word => Some(Handle::Cell(word)),
        }
    }
}

/// A cell: a cube, and what is in it. A leaf has up to eight bodies, another one a cell for each of its octants.
#[derive(Clone, Debug, Default, PartialEq)]
struct Cell {
    mass: f64,
    centre: [f64; 3],
    /// Of its edges.
    size: f64,
    cost: f64,
    leaf: bool,
    children: [u32; 8],
}

/// A cell as it lies in shared memory.
type Words = [u64; 16];

impl Cell {
    fn words(&self) -> Words {
        let mut words = [0; 16];
        let numbers = [self.mass, self.centre[0], self.centre[1], self.centre[2], self.size, self.cost];
        for (word, number) in words.iter_mut().zip(numbers) {
            *word = number.to_bits();
        }
        words[6] = u64::from(self.leaf);
        for (word, two) in words[7..].iter_mut().zip(self.children.chunks(2)) {
            *word = u64::from(two[0]) | u64::from(two[1]) << 32;
        }
        words
    }

    fn of(words: &Words) -> Cell {
        let [mass, x, y, z, size, cost] = [0, 1, 2, 3, 4, 5].map(|at: usize| f64::from_bits(words[at]));
        let children =
            [0, 1, 2, 3, 4, 5, 6, 7].map(|child: usize| (words[7 + child / 2] >> (32 * (child % 2))) as u32);
        Cell { mass, centre: [x, y, z], size, cost, leaf: words[6] != 0, children }
    }

    fn handles(&self) -> impl DoubleEndedIterator<Item = Handle> + '_ {
        self.children.iter().filter_map(|word| Handle::of(*word))
    }
}

/// A tree that is being made: its cells, where each begins, and units of work so far.
struct Tree {
    cells: Vec<Cell>,
    corners: Vec<[f64; 3]>,
    units: u64,
}

impl Tree {
    fn new(bodies: &[Body]) -> Tree {
        let reach = bodies.iter().flat_map(place).map(f64::abs).fold(2.0, f64::max);
        let mut size = 4.0;
        while size <= 2.0 * reach {
            size *= 2.0;
        }
        let mut tree = Tree { cells: Vec::new(), corners: Vec::new(), units: 0 };
        tree.add([-size / 2.0; 3], size);
        for index in 0..bodies.len() {
            tree.insert(0, index as u32, bodies);
        }
        tree.sum_up(0, bodies);
        tree
    }

    fn add(&mut self, corner: [f64; 3], size: f64) -> u32 {
        self.cells.push(Cell { size, leaf: true, ..Cell::default() });
        self.corners.push(corner);
        self.cells.len() as u32 - 1
    }

    /// Puts a body below a cell. A leaf that is full is divided.
    fn insert(&mut self, below: u32, body: u32, bodies: &[Body]) {
        let mut at = below as usize;
        loop {
            self.units += 1;
            if self.cells[at].leaf {
                if let Some(free) = self.cells[at].children.iter_mut().find(|child| **child == 0) {
                    *free = Handle::Body(body).word();
                    return;
                }
                self.cells[at].leaf = false;
                for child in std::mem::take(&mut self.cells[at].children) {
                    self.insert(at as u32, child & !IS_BODY, bodies);
                }
            }
            at = self.child(at, place(&bodies[body as usize])) as usize;
        }
    }

    /// The cell of the octant that a place is in.
    fn child(&mut self, at: usize, place: [f64; 3]) -> u32 {
        let (half, mut corner, mut octant) = (self.cells[at].size / 2.0, self.corners[at], 0);
        for axis in 0..3 {
            if place[axis] >= corner[axis] + half {
                corner[axis] += half;
                octant |= 1 << axis;
            }
        }
        if self.cells[at].children[octant] == 0 {
            self.cells[at].children[octant] = self.add(corner, half);
        }
        self.cells[at].children[octant]
    }

    /// Masses, centres of mass and costs, from the leaves up.
    fn sum_up(&mut self, at: u32, bodies: &[Body]) -> (f64, [f64; 3], f64) {
        self.units += 1;
        let (mut mass, mut moment, mut cost) = (0.0, [0.0; 3], 0.0);
        for handle in self.cells[at as usize].handles().collect::<Vec<_>>() {
            let (weight, centre, costs) = match handle {
                Handle::Cell(cell) => self.sum_up(cell, bodies),
                Handle::Body(body) => {
                    let body = &bodies[body as usize];
                    (body[0], place(body), body[COST])
                }
            };
            mass += weight;
            cost += costs;
            moment.iter_mut().zip(centre).for_each(|(sum, place)| *sum += weight * place);
        }
        let cell = &mut self.cells[at as usize];
        (cell.mass, cell.centre, cell.cost) = (mass, moment.map(|sum| sum / mass), cost);
        (mass, cell.centre, cost)
    }
}

/// What a thread has seen of tree and bodies in this step: they do not change while forces are computed.
struct Seen {
    cells: Vec<Option<Cell>>,
    bodies: Vec<Option<Body>>,
}

/// The force on a body, which may wait for what was not seen yet.
struct Walk {
    body: u32,
    place: [f64; 3],
    open: Vec<Handle>,
    force: [f64; 3],
    units: u64,
}

impl Walk {
    fn new(body: u32, of: &Body) -> Walk {
        Walk { body, place: place(of), open: vec![Handle::Cell(0)], force: [0.0; 3], units: 0 }
    }

    /// Goes on as far as it is seen. Gives what has to be seen next; nothing if the force is known.
    fn go_on(&mut self, seen: &Seen) -> Option<Handle> {
        while let Some(handle) = self.open.last().copied() {
            match handle {
                Handle::Body(body) if body == self.body => drop(self.open.pop()),
                Handle::Body(body) => {
                    let Some(other) = &seen.bodies[body as usize] else { return Some(handle) };
                    self.open.pop();
                    self.attract(other[0], place(other));
                }
                Handle::Cell(cell) => {
                    let Some(cell) = &seen.cells[cell as usize] else { return Some(handle) };
                    self.open.pop();
                    let square: f64 =
                        cell.centre.iter().zip(self.place).map(|(to, from)| (to - from) * (to - from)).sum();
                    if cell.size * cell.size < TOLERANCE * TOLERANCE * square {
                        self.attract(cell.mass, cell.centre);
                    } else {
                        self.open.extend(cell.handles().rev());
                    }
                }
            }
        }
        None
    }

    fn attract(&mut self, mass: f64, to: [f64; 3]) {
        self.units += 1;
        let away = [0, 1, 2].map(|axis: usize| to[axis] - self.place[axis]);
        let square = SOFTENING * SOFTENING + away.iter().map(|part| part * part).sum::<f64>();
        let pull = mass / (square * square.sqrt());
        self.force.iter_mut().zip(away).for_each(|(sum, away)| *sum += pull * away);
    }

    /// The body after this step.
    fn moved(&self, body: &Body) -> Body {
        let mut body = *body;
        for axis in 0..3 {
            body[SPEED + axis] += STEP * self.force[axis];
            body[PLACE + axis] += STEP * body[SPEED + axis];
        }
        body[COST] = self.units.max(1) as f64;
        body
    }
}

/// The bodies of one thread: those in its zone of the tree, in the tree's order.
struct Zone {
    from: f64,
    to: f64,
    open: Vec<Handle>,
    /// The cost of all that lies before.
    before: f64,
    bodies: Vec<u32>,
}

impl Zone {
    fn new(me: u32, all: u32, cost: f64) -> Zone {
        let begin = |thread: u32| cost * f64::from(thread) / f64::from(all);
        // Costs are whole numbers, so the last zone ends behind the last body.
        let (from, to) = (begin(me), begin(me + 1));
        Zone { from, to, open: vec![Handle::Cell(0)], before: 0.0, bodies: Vec::new() }
    }

    /// As [`Walk::go_on`].
    fn go_on(&mut self, seen: &Seen) -> Option<Handle> {
        while let Some(handle) = self.open.last().copied() {
            if self.before >= self.to {
                break;
            }
            match handle {
                Handle::Body(body) => {
                    let Some(of) = &seen.bodies[body as usize] else { return Some(handle) };
                    if self.before >= self.from {
                        self.bodies.push(body);
                    }
                    self.before += of[COST];
                    self.open.pop();
                }
                Handle::Cell(cell) => {
                    let Some(cell) = &seen.cells[cell as usize] else { return Some(handle) };
                    self.open.pop();
                    if self.before + cell.cost <= self.from {
                        self.before += cell.cost;
                    } else {
                        self.open.extend(cell.handles().rev());
                    }
                }
            }
        }
        None
    }
}

/// What all threads share.
#[derive(Clone, Copy)]
struct Memory {
    bodies: Shared<[Body]>,
    /// The name of the tree's memory.
    name: Shared<[u32]>,
}

/// The first thread's phase: makes the tree of all bodies, where there is room for it.
async fn make_tree<V: Verbs>(
    worker: &mut Worker<V>,
    Memory { bodies, name }: Memory,
    room: &mut Option<Shared<[Words]>>,
) -> Result<(), AppError> {
    let mut all = vec![[0.0; 16]; bodies.len()];
    worker.read(bodies, 0, &mut all).await?;
    let tree = Tree::new(&all);
    worker.compute(tree.units).await;
    let cells: Vec<Words> = tree.cells.iter().map(Cell::words).collect();
    let shared = match *room {
        Some(room) if room.len() >= cells.len() => room,
        outgrown => {
            if let Some(outgrown) = outgrown {
                worker.free(outgrown).await?;
            }
            worker.alloc(cells.len().max(cells_for(all.len())), GRAIN)?
        }
    };
    *room = Some(shared);
    worker.write(shared, 0, &cells).await?;
    let words: Vec<u32> = shared
        .to_bytes()
        .chunks(4)
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    worker.write(name, 0, &words).await
}

/// The tree by its name.
async fn find_tree<V: Verbs>(
    worker: &mut Worker<V>,
    name: Shared<[u32]>,
) -> Result<Shared<[Words]>, AppError> {
    let mut words = [0; 5];
    worker.read(name, 0, &mut words).await?;
    let mut bytes = [0; 20];
    bytes.chunks_mut(4).zip(words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
    Ok(Shared::from_bytes(bytes)?)
}

/// Looks at what has not been seen in this step.
async fn look<V: Verbs>(
    worker: &mut Worker<V>,
    seen: &mut Seen,
    (bodies, tree): (Shared<[Body]>, Shared<[Words]>),
    handle: Handle,
) -> Result<(), AppError> {
    match handle {
        Handle::Body(index) => {
            let mut body = [[0.0; 16]];
            worker.read(bodies, index as usize, &mut body).await?;
            seen.bodies[index as usize] = Some(body[0]);
        }
        Handle::Cell(index) => {
            let mut cell = [[0; 16]];
            worker.read(tree, index as usize, &mut cell).await?;
            seen.cells[index as usize] = Some(Cell::of(&cell[0]));
        }
    }
    Ok(())
}

/// One thread's part.
pub(super) async fn run<V: Verbs>(worker: &mut Worker<V>, input: Input) -> Result<u64, AppError> {
    let size = input.size;
    let memory = Memory { bodies: worker.shared(0, size, GRAIN)?, name: worker.shared(1, 16, 64)? };
    let own = worker.share(size);
    let first: Vec<Body> = own.clone().map(|index| begin(index, size)).collect();
    worker.write(memory.bodies, own.start, &first).await?;
    let mut room = None;
    worker.barrier().await?;
    worker.begins();
    for _ in 0..input.rounds {
        if worker.me == 0 {
            make_tree(worker, memory, &mut room).await?;
        }
        worker.barrier().await?;
        let tree = find_tree(worker, memory.name).await?;
        let from = (memory.bodies, tree);
        let mut seen = Seen { cells: vec![None; tree.len()], bodies: vec![None; size] };
        look(worker, &mut seen, from, Handle::Cell(0)).await?;
        let cost = seen.cells[0].as_ref().map_or(0.0, |root| root.cost);
        let mut zone = Zone::new(worker.me, worker.all, cost);
        while let Some(unseen) = zone.go_on(&seen) {
            look(worker, &mut seen, from, unseen).await?;
        }
        let mut moved = Vec::new();
        for index in zone.bodies {
            // It was seen when the zone was found.
            let Some(body) = seen.bodies[index as usize] else { continue };
            let mut walk = Walk::new(index, &body);
            while let Some(unseen) = walk.go_on(&seen) {
                look(worker, &mut seen, from, unseen).await?;
            }
            worker.compute(walk.units).await;
            moved.push((index, walk.moved(&body)));
        }
        worker.barrier().await?;
        for (index, body) in moved {
            worker.write(memory.bodies, index as usize, &[body]).await?;
        }
        worker.barrier().await?;
    }
    worker.ends();
    let mut bodies = vec![[0.0; 16]; own.len()];
    worker.read(memory.bodies, own.start, &mut bodies).await?;
    Ok(sum(own.start, &bodies))
}

fn sum(begin: usize, bodies: &[Body]) -> u64 {
    let parts = bodies.iter().zip(begin..).map(|(body, index)| digest(index, body.map(f64::to_bits)));
    parts.fold(0, u64::wrapping_add)
}

/// The same by one thread on its own memory.
pub(super) fn sequential(input: Input) -> Answer {
    let mut bodies: Vec<Body> = (0..input.size).map(|index| begin(index, input.size)).collect();
    let mut units = 0;
    for _ in 0..input.rounds {
        let tree = Tree::new(&bodies);
        units += tree.units;
        let cells = tree.cells.into_iter().map(Some).collect();
        let seen = Seen { cells, bodies: bodies.iter().copied().map(Some).collect() };
        for (index, body) in (0..).zip(&mut bodies) {
            let mut walk = Walk::new(index, body);
            walk.go_on(&seen);
            units += walk.units;
            *body = walk.moved(body);
        }
    }
    Answer { value: sum(0, &bodies), units }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(size: usize) -> (Vec<Body>, Seen) {
        let bodies: Vec<Body> = (0..size).map(|index| begin(index, size)).collect();
        let cells = Tree::new(&bodies).cells.into_iter().map(|cell| Some(Cell::of(&cell.words()))).collect();
        let seen = Seen { cells, bodies: bodies.iter().copied().map(Some).collect() };
        (bodies, seen)
    }

    #[test]
    fn forces_are_near_those_of_all_bodies_on_all() {
        let (bodies, seen) = all(600);
        let (mut off, mut whole) = (0.0, 0.0);
        for (index, body) in (0..).zip(&bodies) {
            let mut walk = Walk::new(index, body);
            assert_eq!(walk.go_on(&seen), None);
            let mut exact = Walk::new(index, body);
            for (other, _) in (0..).zip(&bodies).filter(|(other, _)| *other != index) {
                exact.open = vec![Handle::Body(other)];
                exact.go_on(&seen);
            }
            assert!(walk.units < exact.units);
            for axis in 0..3 {
                off += (walk.force[axis] - exact.force[axis]).powi(2);
                whole += exact.force[axis].powi(2);
            }
        }
        assert!(off < 0.02 * whole, "{off} of {whole}");
    }

    #[test]
    fn each_body_is_in_one_zone_and_zones_cost_about_the_same() {
        for (size, threads) in [(1, 3), (9, 2), (500, 7)] {
            let (_, seen) = all(size);
            let mut found = Vec::new();
            for thread in 0..threads {
                let mut zone = Zone::new(thread, threads, size as f64);
                assert_eq!(zone.go_on(&seen), None);
                assert!(zone.bodies.len() <= size.div_ceil(threads as usize));
                found.extend(zone.bodies);
            }
            found.sort_unstable();
            assert_eq!(found, (0..size as u32).collect::<Vec<_>>(), "{size} bodies, {threads} threads");
        }
    }

    #[test]
    fn the_papers_tree_fits_where_room_was_made_for_it() {
        let bodies: Vec<Body> = (0..16_384).map(|index| begin(index, 16_384)).collect();
        let tree = Tree::new(&bodies);
        assert!(tree.cells.len() <= cells_for(bodies.len()), "{} cells", tree.cells.len());
    }
}
