//! LU decomposition without pivoting of a dense matrix in contiguous blocks (SPLASH-2 LU): in each step the owner of the diagonal
//! block decomposes it, the owners of the blocks below and beside it solve by it, and all others are updated by those.
//!
//! A block is 32 by 32 double-precision numbers and a minipage, 8 KiB; blocks are dealt to threads in two dimensions.

use super::{Answer, AppError, Input, Worker, digest, noise};
use weft_protocols::dsm::Shared;
use weft_verbs::Verbs;

/// Rows of a block.
pub(super) const BLOCK: usize = 32;
const CELLS: usize = BLOCK * BLOCK;
/// A block is a minipage.
pub(super) const GRAIN: u32 = 8 * CELLS as u32;

type Block = Vec<f64>;

fn begin(row: usize, column: usize, blocks: usize) -> Block {
    let size = blocks * BLOCK;
    let cell = |at: usize| {
        let (y, x) = (row * BLOCK + at / BLOCK, column * BLOCK + at % BLOCK);
        // No pivot is small.
        noise(y * size + x) + if x == y { size as f64 } else { 0.0 }
    };
    (0..CELLS).map(cell).collect()
}

/// Decomposes a block of the diagonal.
fn decompose(block: &mut [f64]) {
    for k in 0..BLOCK {
        for row in k + 1..BLOCK {
            let factor = block[row * BLOCK + k] / block[k * BLOCK + k];
            block[row * BLOCK + k] = factor;
            for column in k + 1..BLOCK {
                block[row * BLOCK + column] -= factor * block[k * BLOCK + column];
            }
        }
    }
}

/// A block beside the diagonal's: solves by the lower half.
fn solve_row(diagonal: &[f64], block: &mut [f64]) {
    for k in 0..BLOCK {
        for row in k + 1..BLOCK {
            for column in 0..BLOCK {
                block[row * BLOCK + column] -= diagonal[row * BLOCK + k] * block[k * BLOCK + column];
            }
        }
    }
}

/// A block below it: solves by the upper half.
fn solve_column(diagonal: &[f64], block: &mut [f64]) {
    for k in 0..BLOCK {
        for row in 0..BLOCK {
            block[row * BLOCK + k] /= diagonal[k * BLOCK + k];
            for column in k + 1..BLOCK {
                block[row * BLOCK + column] -= block[row * BLOCK + k] * diagonal[k * BLOCK + column];
            }
        }
    }
}

/// Any other block, by the one to the left and the one above.
fn update(left: &[f64], above: &[f64], block: &mut [f64]) {
    for row in 0..BLOCK {
        for k in 0..BLOCK {
            let factor = left[row * BLOCK + k];
            for column in 0..BLOCK {
                block[row * BLOCK + column] -= factor * above[k * BLOCK + column];
            }
        }
    }
}

/// Units of each: multiplications, in blocks' cells.
const DECOMPOSE: u64 = (CELLS * BLOCK / 3) as u64;
const SOLVE: u64 = (CELLS * BLOCK / 2) as u64;
const UPDATE: u64 = (CELLS * BLOCK) as u64;

/// Which thread has a block: threads are dealt out in a rectangle as square as it can be.
fn owner(row: usize, column: usize, all: u32) -> u32 {
    let tall = (1..=all).filter(|tall| all.is_multiple_of(*tall) && tall * tall <= all).max().unwrap_or(1);
    let wide = all / tall;
    (row as u32 % tall) * wide + column as u32 % wide
}

struct Matrix {
    shared: Shared<[f64]>,
    blocks: usize,
}

impl Matrix {
    fn at(&self, row: usize, column: usize) -> usize {
        (row * self.blocks + column) * CELLS
    }

    async fn read<V: Verbs>(
        &self,
        worker: &mut Worker<V>,
        row: usize,
        column: usize,
    ) -> Result<Block, AppError> {
        let mut block = vec![0.0; CELLS];
        worker.read(self.shared, self.at(row, column), &mut block).await?;
        Ok(block)
    }
}

/// One thread's part.
pub(super) async fn run<V: Verbs>(worker: &mut Worker<V>, input: Input) -> Result<u64, AppError> {
    let blocks = input.size / BLOCK;
    let matrix = Matrix { shared: worker.shared(0, input.size * input.size, GRAIN)?, blocks };
    let (me, all) = (worker.me, worker.all);
    let is_own = |row, column| owner(row, column, all) == me;
    let grid =
        |from: usize| (from..blocks).flat_map(move |row| (from..blocks).map(move |column| (row, column)));
    let mine: Vec<(usize, usize)> = grid(0).filter(|(row, column)| is_own(*row, *column)).collect();
    for &(row, column) in &mine {
        worker.write(matrix.shared, matrix.at(row, column), &begin(row, column, blocks)).await?;
    }
    worker.barrier().await?;
    worker.begins();
    for k in 0..blocks {
        if is_own(k, k) {
            let mut block = matrix.read(worker, k, k).await?;
            decompose(&mut block);
            worker.compute(DECOMPOSE).await;
            worker.write(matrix.shared, matrix.at(k, k), &block).await?;
        }
        worker.barrier().await?;
        let mut diagonal = None;
        for (row, column) in grid(k).filter(|(row, column)| (*row == k) != (*column == k)) {
            if is_own(row, column) {
                if diagonal.is_none() {
                    diagonal = Some(matrix.read(worker, k, k).await?);
                }
                let by = diagonal.as_deref().unwrap_or_default();
                let mut block = matrix.read(worker, row, column).await?;
                if row == k {
                    solve_row(by, &mut block)
                } else {
                    solve_column(by, &mut block)
                }
                worker.compute(SOLVE).await;
                worker.write(matrix.shared, matrix.at(row, column), &block).await?;
            }
        }
        worker.barrier().await?;
        for &(row, column) in mine.iter().filter(|(row, column)| *row > k && *column > k) {
            let left = matrix.read(worker, row, k).await?;
            let above = matrix.read(worker, k, column).await?;
            let mut block = matrix.read(worker, row, column).await?;
            update(&left, &above, &mut block);
            worker.compute(UPDATE).await;
            worker.write(matrix.shared, matrix.at(row, column), &block).await?;
        }
        worker.barrier().await?;
    }
    worker.ends();
    let mut sum = 0u64;
    for &(row, column) in &mine {
        let block = matrix.read(worker, row, column).await?;
        sum = sum.wrapping_add(block_digest(row * blocks + column, &block));
    }
    Ok(sum)
}

fn block_digest(place: usize, block: &[f64]) -> u64 {
    digest(place, block.iter().map(|cell| cell.to_bits()).collect::<Vec<_>>())
}

/// The same by one thread on its own memory.
pub(super) fn sequential(input: Input) -> Answer {
    let blocks = input.size / BLOCK;
    let place = |row: usize, column: usize| row * blocks + column;
    let mut all: Vec<Block> =
        (0..blocks * blocks).map(|at| begin(at / blocks, at % blocks, blocks)).collect();
    let mut units = 0;
    for k in 0..blocks {
        let mut diagonal = std::mem::take(&mut all[place(k, k)]);
        decompose(&mut diagonal);
        units += DECOMPOSE;
        for other in k + 1..blocks {
            solve_row(&diagonal, &mut all[place(k, other)]);
            solve_column(&diagonal, &mut all[place(other, k)]);
            units += 2 * SOLVE;
        }
        all[place(k, k)] = diagonal;
        for row in k + 1..blocks {
            let left = std::mem::take(&mut all[place(row, k)]);
            for column in k + 1..blocks {
                let above = std::mem::take(&mut all[place(k, column)]);
                update(&left, &above, &mut all[place(row, column)]);
                all[place(k, column)] = above;
                units += UPDATE;
            }
            all[place(row, k)] = left;
        }
    }
    let parts = all.iter().enumerate().map(|(place, block)| block_digest(place, block));
    Answer { value: parts.fold(0, u64::wrapping_add), units }
}
