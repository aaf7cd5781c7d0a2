//! Red-black successive over-relaxation on a square grid (TreadMarks): each element becomes the mean of its four neighbours, first
//! the red ones from the black, then the black from the red. A thread has a band of rows, and reads the row above it and the one
//! below, which its neighbours write.
//!
//! A row of one colour is a minipage: 8 KiB where the grid is the paper's, 4,096 by 4,096 single-precision numbers.

use super::{Answer, AppError, Input, Worker, digest};
use weft_protocols::dsm::Shared;
use weft_verbs::Verbs;

/// What stands at the edge of the grid; inside there is zero.
const EDGE: f32 = 1.0;

/// A phase: elements of one colour from those of the other. `shift`: whether the neighbour beside is to the right.
fn relax(above: &[f32], beside: &[f32], below: &[f32], shift: bool, into: &mut [f32]) {
    let last = beside.len() - 1;
    for (column, element) in into.iter_mut().enumerate() {
        let other = match shift {
            true if column == last => EDGE,
            true => beside[column + 1],
            false if column == 0 => EDGE,
            false => beside[column - 1],
        };
        *element = (above[column] + below[column] + beside[column] + other) / 4.0;
    }
}

fn begin(place: usize) -> f32 {
    super::noise(place) as f32
}

/// Bytes of a minipage: of one colour of a row.
pub(super) fn grain(size: usize) -> u32 {
    (4 * (size / 2)).next_multiple_of(64) as u32
}

/// One thread's part.
pub(super) async fn run<V: Verbs>(worker: &mut Worker<V>, input: Input) -> Result<u64, AppError> {
    let (rows, half) = (input.size, input.size / 2);
    let grain = grain(input.size);
    let colours: [Shared<[f32]>; 2] =
        [worker.shared(0, rows * half, grain)?, worker.shared(1, rows * half, grain)?];
    let own = worker.share(rows);
    for row in own.clone() {
        for (colour, shared) in colours.into_iter().enumerate() {
            let values: Vec<f32> =
                (0..half).map(|column| begin((2 * row + colour) * half + column)).collect();
            worker.write(shared, row * half, &values).await?;
        }
    }
    worker.barrier().await?;
    worker.begins();
    let edge = vec![EDGE; half];
    for _ in 0..input.rounds {
        for (colour, (to, from)) in
            [(colours[0], colours[1]), (colours[1], colours[0])].into_iter().enumerate()
        {
            let mut rows_read = [edge.clone(), edge.clone(), edge.clone()];
            if let (Some(above), false) = (own.start.checked_sub(1), own.is_empty()) {
                worker.read(from, above * half, &mut rows_read[0]).await?;
            }
            if !own.is_empty() {
                worker.read(from, own.start * half, &mut rows_read[1]).await?;
            }
            let mut relaxed = vec![0.0; half];
            for row in own.clone() {
                match row + 1 < rows {
                    true => worker.read(from, (row + 1) * half, &mut rows_read[2]).await?,
                    false => rows_read[2].fill(EDGE),
                }
                let [above, beside, below] = &rows_read;
                relax(above, beside, below, (row + colour) % 2 == 0, &mut relaxed);
                worker.write(to, row * half, &relaxed).await?;
                rows_read.rotate_left(1);
            }
            worker.compute((own.len() * half) as u64).await;
            worker.barrier().await?;
        }
    }
    worker.ends();
    let mut sum = 0u64;
    let mut values = vec![0.0f32; half];
    for row in own {
        for (colour, shared) in colours.into_iter().enumerate() {
            worker.read(shared, row * half, &mut values).await?;
            sum = sum.wrapping_add(row_digest(row, colour, &values));
        }
    }
    Ok(sum)
}

fn row_digest(row: usize, colour: usize, values: &[f32]) -> u64 {
    let bits: Vec<u32> = values.iter().map(|value| value.to_bits()).collect();
    digest(2 * row + colour, bits)
}

/// The same by one thread on its own memory.
pub(super) fn sequential(input: Input) -> Answer {
    let (rows, half) = (input.size, input.size / 2);
    let fill = |colour: usize| -> Vec<Vec<f32>> {
        let row = |row: usize| (0..half).map(|column| begin((2 * row + colour) * half + column)).collect();
        (0..rows).map(row).collect()
    };
    let mut colours = [fill(0), fill(1)];
    let edge = vec![EDGE; half];
    for _ in 0..input.rounds {
        for colour in 0..2 {
            let [red, black] = &mut colours;
            let (to, from) = if colour == 0 { (red, &*black) } else { (black, &*red) };
            for row in 0..rows {
                let above = row.checked_sub(1).map_or(&edge, |above| &from[above]);
                let below = from.get(row + 1).unwrap_or(&edge);
                relax(above, &from[row], below, (row + colour) % 2 == 0, &mut to[row]);
            }
        }
    }
    let mut value = 0u64;
    for (colour, all) in colours.iter().enumerate() {
        for (row, values) in all.iter().enumerate() {
            value = value.wrapping_add(row_digest(row, colour, values));
        }
    }
    Answer { value, units: (2 * rows * half) as u64 * u64::from(input.rounds) }
}
