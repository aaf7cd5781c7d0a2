//! What is done to one row of a grid. A basin is one unit wide, and its elements lie in the middle of their squares: what is
//! beyond a wall is what is before it, turned over, so that at the wall itself it is zero.

/// A whole grid, where one thread has it for itself.
pub(super) type Rows = Vec<Vec<f64>>;

/// How the earth's rotation changes from south to north.
const BETA: f64 = 1.0;
/// What the wind and the ground do to the layers, and these to each other.
const WIND: f64 = 1.0;
const DRAG: f64 = 0.1;
const COUPLING: f64 = 5.0;

pub(super) fn zero(size: usize) -> Rows {
    vec![vec![0.0; size]; size]
}

/// The row beyond a wall.
pub(super) fn beyond(row: &[f64]) -> Vec<f64> {
    row.iter().map(|value| -value).collect()
}

/// A row between those above and below it.
pub(super) fn three(grid: &[Vec<f64>], row: usize) -> [Vec<f64>; 3] {
    let or_beyond = |other: Option<&Vec<f64>>| other.cloned().unwrap_or_else(|| beyond(&grid[row]));
    let above = row.checked_sub(1).and_then(|above| grid.get(above));
    [or_beyond(above), grid[row].clone(), or_beyond(grid.get(row + 1))]
}

/// The elements beside one, to the left and the right.
fn beside(row: &[f64], column: usize) -> [f64; 2] {
    let wall = -row[column];
    let left = column.checked_sub(1).map_or(wall, |left| row[left]);
    [left, row.get(column + 1).copied().unwrap_or(wall)]
}

/// By how much an element is less than those around it.
pub(super) fn laplacian([above, own, below]: &[Vec<f64>; 3], into: &mut [f64]) {
    let squares = (own.len() * own.len()) as f64;
    for (column, value) in into.iter_mut().enumerate() {
        let [left, right] = beside(own, column);
        *value = squares * (above[column] + below[column] + left + right - 4.0 * own[column]);
    }
}

/// What drives a layer's vorticity: currents that carry it (Arakawa's Jacobian), the earth's rotation, wind, ground, and the other
/// layer.
pub(super) fn right_side(
    streams: &[Vec<f64>; 3],
    vorticity: &[Vec<f64>; 3],
    other: &[f64],
    (layer, row): (usize, usize),
    into: &mut [f64],
) {
    let size = into.len();
    let squares = (size * size) as f64;
    let north = (row as f64 + 0.5) / size as f64;
    let wind = if layer == 0 { -WIND * libm::sin(std::f64::consts::PI * north) } else { 0.0 };
    for (column, value) in into.iter_mut().enumerate() {
        let stream = streams[1][column];
        let [left, right] = beside(&streams[1], column);
        let turns = BETA * size as f64 * (right - left) / 2.0;
        let carried = squares * jacobian(streams, vorticity, column);
        let ground = if layer == 0 { 0.0 } else { DRAG * vorticity[1][column] };
        *value = wind - carried - turns - ground + COUPLING * (other[column] - stream);
    }
}

/// Arakawa's Jacobian of two fields, by the width of an element; it keeps energy and enstrophy.
fn jacobian(a: &[Vec<f64>; 3], b: &[Vec<f64>; 3], column: usize) -> f64 {
    // By row, from above to below; by column, from left to right.
    let around = |of: &[Vec<f64>; 3]| {
        [0, 1, 2].map(|row: usize| {
            let [left, right] = beside(&of[row], column);
            [left, of[row][column], right]
        })
    };
    let (a, b) = (around(a), around(b));
    let plain = (a[1][2] - a[1][0]) * (b[2][1] - b[0][1]) - (a[2][1] - a[0][1]) * (b[1][2] - b[1][0]);
    let first = a[1][2] * (b[2][2] - b[0][2]) - a[1][0] * (b[2][0] - b[0][0]) - a[2][1] * (b[2][2] - b[2][0])
        + a[0][1] * (b[0][2] - b[0][0]);
    let second =
        b[2][1] * (a[2][2] - a[2][0]) - b[0][1] * (a[0][2] - a[0][0]) - b[1][2] * (a[2][2] - a[0][2])
            + b[1][0] * (a[2][0] - a[0][0]);
    (plain + first + second) / 12.0
}

/// Relaxes the elements of one colour: every other one, from `first` on. Gives by how much any of them changed.
pub(super) fn relax(
    [above, below]: [&[f64]; 2],
    values: &mut [f64],
    side: &[f64],
    first: usize,
    size: usize,
) -> f64 {
    let square = 1.0 / (size * size) as f64;
    let mut changed = 0.0f64;
    for column in (first..size).step_by(2) {
        let was = values[column];
        let [left, right] = beside(values, column);
        let missing = above[column] + below[column] + left + right - 4.0 * was - square * side[column];
        values[column] = was + missing / 4.0;
        changed = changed.max((values[column] - was).abs());
    }
    changed
}

/// What is missing of the right side, by element.
pub(super) fn missing(rows: &[Vec<f64>; 3], side: &[f64]) -> Vec<f64> {
    let mut values = vec![0.0; side.len()];
    laplacian(rows, &mut values);
    values.iter().zip(side).map(|(is, side)| side - is).collect()
}

/// The means of four elements each, of two rows.
pub(super) fn means(rows: &[Vec<f64>]) -> Vec<f64> {
    let halves = |row: &Vec<f64>| row.chunks(2).map(|two| two.iter().sum::<f64>() / 4.0).collect::<Vec<_>>();
    rows.iter()
        .map(halves)
        .reduce(|one, other| one.iter().zip(other).map(|(one, other)| one + other).collect())
        .unwrap_or_default()
}

/// Corrects a row by what was found at a coarser level, bilinearly. `odd`: whether it lies below the middle of the coarser row.
pub(super) fn correct(near: &[Vec<f64>; 3], odd: usize, values: &mut [f64]) {
    let (own, other) = (&near[1], &near[2 * odd]);
    let mixed: Vec<f64> = own.iter().zip(other).map(|(own, other)| 0.75 * own + 0.25 * other).collect();
    for (column, value) in values.iter_mut().enumerate() {
        let other = beside(&mixed, column / 2)[column % 2];
        *value += 0.75 * mixed[column / 2] + 0.25 * other;
    }
}

/// Adds a multiple of one row to another.
pub(super) fn add(to: &mut [f64], more: &[f64], times: f64) {
    to.iter_mut().zip(more).for_each(|(sum, more)| *sum += times * more);
}
