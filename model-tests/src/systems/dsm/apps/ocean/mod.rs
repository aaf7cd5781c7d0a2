//! Currents in a basin (SPLASH-2 Ocean): wind drives two layers of water in a square basin on a rotating earth. In each step each
//! layer's stream function changes by the solution of an elliptic equation, which is found by multigrid with red-black Gauss-Seidel
//! relaxation. After each relaxation all threads learn by how much any element has changed, under a lock.
//!
//! A thread has a band of rows of each grid, as in SOR; SPLASH-2 deals out squares. Where memory moves by minipages, a column at
//! the edge of a square lies in as many of them as it has rows. A row is a minipage: 8 KiB where the grid is the paper's, 1,026 by
//! 1,026 with its border, which no thread stores to.

mod multigrid;
mod rows;

use super::{Answer, AppError, Input, Worker, digest};
use multigrid::{Cycle, Next};
use std::ops::Range;
use weft_protocols::dsm::Shared;
use weft_verbs::Verbs;

/// Layers of water.
const LAYERS: usize = 2;
/// A step, in units of time.
const STEP: f64 = 0.02;

/// The lock under which the largest change is found.
const CHANGE_LOCK: u64 = 0;

/// Units of work that an element's right side takes, where a relaxation of it takes one.
const RIGHT_SIDE: u64 = 4;

/// The fewest rows, and what their number is a multiple of: so that there are coarser grids.
pub(super) const LEAST: usize = 16;

/// Bytes of shared memory: three grids, and two of each level.
pub(super) fn memory(size: u64) -> u64 {
    let levels = multigrid::levels(size as usize).into_iter();
    3 * grid(size) + levels.map(|size| 2 * grid(size as u64)).sum::<u64>() + 64
}

fn grid(size: u64) -> u64 {
    size * u64::from(grain(size as usize))
}

/// Bytes of a minipage: of a row.
pub(super) fn grain(size: usize) -> u32 {
    8 * size.next_multiple_of(8) as u32
}

/// A grid in shared memory.
#[derive(Clone, Copy)]
struct Grid {
    shared: Shared<[f64]>,
    size: usize,
}

impl Grid {
    fn new<V: Verbs>(worker: &Worker<V>, name: u32, size: usize) -> Result<Grid, AppError> {
        let row = size.next_multiple_of(8);
        Ok(Grid { shared: worker.shared(name, size * row, grain(size))?, size })
    }

    async fn write<V: Verbs>(
        self,
        worker: &mut Worker<V>,
        row: usize,
        values: &[f64],
    ) -> Result<(), AppError> {
        worker.write(self.shared, row * self.size.next_multiple_of(8), values).await
    }

    async fn row<V: Verbs>(self, worker: &mut Worker<V>, row: usize) -> Result<Vec<f64>, AppError> {
        let mut values = vec![0.0; self.size];
        worker.read(self.shared, row * self.size.next_multiple_of(8), &mut values).await?;
        Ok(values)
    }

    /// A row, and what is above and below it: at the wall the row itself, turned over.
    async fn three<V: Verbs>(self, worker: &mut Worker<V>, row: usize) -> Result<[Vec<f64>; 3], AppError> {
        let own = self.row(worker, row).await?;
        let above = match row {
            0 => rows::beyond(&own),
            _ => self.row(worker, row - 1).await?,
        };
        let below = match row + 1 {
            wall if wall == self.size => rows::beyond(&own),
            below => self.row(worker, below).await?,
        };
        Ok([above, own, below])
    }
}

/// All that is shared.
struct Basin {
    streams: [Grid; LAYERS],
    vorticity: Grid,
    /// By level, the finest first: what is solved for, and the right side.
    solutions: Vec<Grid>,
    sides: Vec<Grid>,
    change: Shared<[f64]>,
}

impl Basin {
    fn new<V: Verbs>(worker: &Worker<V>, size: usize) -> Result<Basin, AppError> {
        let grid = |name, size| Grid::new(worker, name, size);
        let all = |first: u32| -> Result<Vec<Grid>, AppError> {
            (first..).zip(multigrid::levels(size)).map(|(name, size)| grid(name, size)).collect()
        };
        Ok(Basin {
            streams: [grid(0, size)?, grid(1, size)?],
            vorticity: grid(2, size)?,
            solutions: all(10)?,
            sides: all(30)?,
            change: worker.shared(3, 8, 64)?,
        })
    }
}

/// One thread's part.
pub(super) async fn run<V: Verbs>(worker: &mut Worker<V>, input: Input) -> Result<u64, AppError> {
    let basin = Basin::new(worker, input.size)?;
    let own = worker.share(input.size);
    // Water at rest: memory is zero. Each owns what it writes first.
    for grid in basin.streams.into_iter().chain([basin.vorticity, basin.solutions[0], basin.sides[0]]) {
        for row in own.clone() {
            grid.write(worker, row, &vec![0.0; input.size]).await?;
        }
    }
    worker.barrier().await?;
    worker.begins();
    for _ in 0..input.rounds {
        for layer in 0..LAYERS {
            right_side(worker, &basin, layer, own.clone()).await?;
            solve(worker, &basin).await?;
            for row in own.clone() {
                let mut stream = basin.streams[layer].row(worker, row).await?;
                let change = basin.solutions[0].row(worker, row).await?;
                rows::add(&mut stream, &change, STEP);
                basin.streams[layer].write(worker, row, &stream).await?;
            }
            worker.compute((own.len() * input.size) as u64).await;
            worker.barrier().await?;
        }
    }
    worker.ends();
    let mut sum = 0u64;
    for (layer, grid) in basin.streams.into_iter().enumerate() {
        for row in own.clone() {
            sum = sum.wrapping_add(row_digest(layer, row, &grid.row(worker, row).await?));
        }
    }
    Ok(sum)
}

/// What drives a layer: vorticity first, which others need at the edges of their bands.
async fn right_side<V: Verbs>(
    worker: &mut Worker<V>,
    basin: &Basin,
    layer: usize,
    own: Range<usize>,
) -> Result<(), AppError> {
    let (size, stream) = (basin.vorticity.size, basin.streams[layer]);
    let mut values = vec![0.0; size];
    for row in own.clone() {
        rows::laplacian(&stream.three(worker, row).await?, &mut values);
        basin.vorticity.write(worker, row, &values).await?;
    }
    worker.compute((own.len() * size) as u64).await;
    worker.barrier().await?;
    for row in own.clone() {
        let streams = stream.three(worker, row).await?;
        let vorticity = basin.vorticity.three(worker, row).await?;
        let other = basin.streams[1 - layer].row(worker, row).await?;
        rows::right_side(&streams, &vorticity, &other, (layer, row), &mut values);
        basin.sides[0].write(worker, row, &values).await?;
    }
    worker.compute(RIGHT_SIDE * (own.len() * size) as u64).await;
    Ok(())
}

/// Solves for what the finest grid's right side asks.
async fn solve<V: Verbs>(worker: &mut Worker<V>, basin: &Basin) -> Result<(), AppError> {
    let mut cycle = Cycle::new(basin.solutions.len());
    loop {
        let level = cycle.level();
        let (solution, side) = (basin.solutions[level], basin.sides[level]);
        let own = worker.share(solution.size);
        // What others have written, for this level, is there; and all know the last change.
        worker.barrier().await?;
        if worker.me == 0 {
            worker.store(basin.change, 0, 0.0).await?;
        }
        let mut change = 0.0f64;
        for colour in 0..2 {
            for row in own.clone() {
                let [above, mut values, below] = solution.three(worker, row).await?;
                let side = side.row(worker, row).await?;
                let changed =
                    rows::relax([&above, &below], &mut values, &side, (row + colour) % 2, solution.size);
                change = change.max(changed);
                solution.write(worker, row, &values).await?;
            }
            worker.compute((own.len() * solution.size).div_ceil(2) as u64).await;
            if colour == 0 {
                worker.barrier().await?;
            }
        }
        let lock = worker.lock(CHANGE_LOCK).await?;
        if change > worker.load(basin.change, 0).await? {
            worker.store(basin.change, 0, change).await?;
        }
        worker.unlock(lock).await;
        worker.barrier().await?;
        let change = worker.load(basin.change, 0).await?;
        match cycle.after(change) {
            Next::Again => {}
            Next::Done => return Ok(()),
            Next::Coarser => restrict(worker, basin, level).await?,
            Next::Finer => prolong(worker, basin, level).await?,
        }
    }
}

/// What is missing at a level is asked of the next coarser one.
async fn restrict<V: Verbs>(worker: &mut Worker<V>, basin: &Basin, level: usize) -> Result<(), AppError> {
    let (fine, coarse) = (basin.solutions[level], basin.solutions[level + 1]);
    let own = worker.share(coarse.size);
    for row in own.clone() {
        let mut missing = Vec::new();
        for row in [2 * row, 2 * row + 1] {
            let three = fine.three(worker, row).await?;
            missing.push(rows::missing(&three, &basin.sides[level].row(worker, row).await?));
        }
        basin.sides[level + 1].write(worker, row, &rows::means(&missing)).await?;
        coarse.write(worker, row, &vec![0.0; coarse.size]).await?;
    }
    worker.compute((4 * own.len() * coarse.size) as u64).await;
    Ok(())
}

/// What was found at a level corrects the next finer one.
async fn prolong<V: Verbs>(worker: &mut Worker<V>, basin: &Basin, level: usize) -> Result<(), AppError> {
    let (coarse, fine) = (basin.solutions[level], basin.solutions[level - 1]);
    let own = worker.share(fine.size);
    for row in own.clone() {
        let near = coarse.three(worker, row / 2).await?;
        let mut values = fine.row(worker, row).await?;
        rows::correct(&near, row % 2, &mut values);
        fine.write(worker, row, &values).await?;
    }
    worker.compute((own.len() * fine.size) as u64).await;
    Ok(())
}

fn row_digest(layer: usize, row: usize, values: &[f64]) -> u64 {
    digest(LAYERS * row + layer, values.iter().map(|value| value.to_bits()).collect::<Vec<_>>())
}

/// The same by one thread on its own memory.
pub(super) fn sequential(input: Input) -> Answer {
    let size = input.size;
    let mut streams = [rows::zero(size), rows::zero(size)];
    let mut solutions: Vec<_> = multigrid::levels(size).into_iter().map(rows::zero).collect();
    let mut sides = solutions.clone();
    let mut units = 0;
    for _ in 0..input.rounds {
        for layer in 0..LAYERS {
            let mut vorticity = rows::zero(size);
            for (row, values) in vorticity.iter_mut().enumerate() {
                rows::laplacian(&rows::three(&streams[layer], row), values);
            }
            for (row, values) in sides[0].iter_mut().enumerate() {
                let near = (rows::three(&streams[layer], row), rows::three(&vorticity, row));
                rows::right_side(&near.0, &near.1, &streams[1 - layer][row], (layer, row), values);
            }
            units += multigrid::solve(&mut solutions, &mut sides);
            units += (2 + RIGHT_SIDE) * (size * size) as u64;
            for (stream, change) in streams[layer].iter_mut().zip(&solutions[0]) {
                rows::add(stream, change, STEP);
            }
        }
    }
    let mut value = 0u64;
    for (layer, grid) in streams.iter().enumerate() {
        for (row, values) in grid.iter().enumerate() {
            value = value.wrapping_add(row_digest(layer, row, values));
        }
    }
    Answer { value, units }
}
