//! Multigrid (Brandt 1977, his cycle C, as SPLASH-2 has it): when relaxation of one grid is slow, what is missing is solved for on
//! the next coarser one; when that is solved well enough, it corrects the finer one.

use super::rows::{self, Rows};

/// Relaxation is slow where a change is more than this part of the one before.
const SLOW: f64 = 0.6;
/// A coarser grid is solved when its change is less than this part of the finer one's.
const ENOUGH: f64 = 0.2;
/// The finest grid is solved when nothing changes by more.
pub(super) const TOLERANCE: f64 = 1e-7;
/// Relaxations of one solution at most.
const MOST: u32 = 200;
/// The coarsest grid has fewer rows than twice as many.
const COARSEST: usize = 4;

/// Rows of each level, the finest first.
pub(super) fn levels(finest: usize) -> Vec<usize> {
    let next = |size: &usize| (size.is_multiple_of(2) && *size >= 2 * COARSEST).then_some(size / 2);
    std::iter::successors(Some(finest), next).collect()
}

/// What to do after a relaxation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Relax this level again.
    Again,
    /// What is missing here is to be solved for at the next coarser level.
    Coarser,
    /// What was found here corrects the next finer level.
    Finer,
    /// It is solved.
    Done,
}

/// Where the solution of one equation stands. All threads keep it for themselves, and decide alike.
pub(super) struct Cycle {
    level: usize,
    /// By level: the last change, if it was relaxed since the level was come to, and what is small enough.
    last: Vec<Option<f64>>,
    enough: Vec<f64>,
    relaxed: u32,
}

impl Cycle {
    pub fn new(levels: usize) -> Cycle {
        Cycle { level: 0, last: vec![None; levels], enough: vec![TOLERANCE; levels], relaxed: 0 }
    }

    pub fn level(&self) -> usize {
        self.level
    }

    /// The level was relaxed, and changed by so much at most.
    pub fn after(&mut self, change: f64) -> Next {
        self.relaxed += 1;
        let (level, coarsest) = (self.level, self.last.len() - 1);
        let last = self.last[level].replace(change);
        if change <= self.enough[level] || (self.relaxed >= MOST && level > 0) {
            if level == 0 {
                return Next::Done;
            }
            (self.level, self.last[level - 1]) = (level - 1, None);
            return Next::Finer;
        }
        if self.relaxed >= MOST {
            return Next::Done;
        }
        if level < coarsest && last.is_some_and(|last| change > SLOW * last) {
            self.level = level + 1;
            (self.last[level + 1], self.enough[level + 1]) = (None, ENOUGH * change);
            return Next::Coarser;
        }
        Next::Again
    }
}

/// Solves by one thread on its own memory. Gives how many units of work it took.
pub(super) fn solve(solutions: &mut [Rows], sides: &mut [Rows]) -> u64 {
    let mut cycle = Cycle::new(solutions.len());
    let mut units = 0;
    loop {
        let level = cycle.level();
        let size = solutions[level].len();
        let mut change = 0.0f64;
        for colour in 0..2 {
            for row in 0..size {
                let [above, mut values, below] = rows::three(&solutions[level], row);
                let side = &sides[level][row];
                change =
                    change.max(rows::relax([&above, &below], &mut values, side, (row + colour) % 2, size));
                solutions[level][row] = values;
            }
        }
        units += (size * size) as u64;
        match cycle.after(change) {
            Next::Again => {}
            Next::Done => return units,
            Next::Coarser => {
                for row in 0..size / 2 {
                    let missing = [2 * row, 2 * row + 1]
                        .map(|row| rows::missing(&rows::three(&solutions[level], row), &sides[level][row]));
                    sides[level + 1][row] = rows::means(&missing);
                    solutions[level + 1][row].fill(0.0);
                }
                units += (size * size) as u64;
            }
            Next::Finer => {
                for row in 0..2 * size {
                    let near = rows::three(&solutions[level], row / 2);
                    rows::correct(&near, row % 2, &mut solutions[level - 1][row]);
                }
                units += (4 * size * size) as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_solution_has_the_right_side_that_was_asked_for_and_takes_few_relaxations() {
        for size in [16, 64, 128] {
            let mut solutions: Vec<Rows> = levels(size).into_iter().map(rows::zero).collect();
            let mut sides = solutions.clone();
            for (row, values) in sides[0].iter_mut().enumerate() {
                values.iter_mut().enumerate().for_each(|(column, value)| {
                    *value = crate::systems::dsm::apps::noise(row * size + column) - 0.3
                });
            }
            let units = solve(&mut solutions, &mut sides);
            let mut laplacian = vec![0.0; size];
            let mut off = 0.0f64;
            for (row, side) in sides[0].iter().enumerate() {
                rows::laplacian(&rows::three(&solutions[0], row), &mut laplacian);
                off = laplacian.iter().zip(side).map(|(is, side)| (is - side).abs()).fold(off, f64::max);
            }
            // A change is what is missing by four elements' squares.
            let bound = 8.0 * TOLERANCE * (size * size) as f64;
            assert!(off < bound, "{size}: {off} is missing");
            assert!(units < 60 * (size * size) as u64, "{size}: {units} units");
        }
    }
}
