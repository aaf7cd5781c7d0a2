//! What files hold: cells, each with its place and who wrote it in every word, so that oracles compare small numbers.

use crate::history::{ClientId, RequestId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a cell of a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Value {
    /// Nothing: zeros, or bytes beyond the end.
    Zero,
    /// What this request wrote there.
    Of(RequestId),
    /// Nothing, since this request cut the file off there. No bytes say so: it is known to who judges.
    Cut(RequestId),
    /// A mixture, or what nobody wrote there.
    Torn,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Zero => f.write_str("nothing"),
            Value::Of(request) => write!(f, "the bytes of {request}"),
            Value::Cut(request) => write!(f, "nothing since {request}"),
            Value::Torn => f.write_str("torn bytes"),
        }
    }
}

/// The number by which a request says when it changed a file: in its attributes it tells whose they are.
pub fn stamp(RequestId { client: ClientId { node, index }, number }: RequestId) -> u64 {
    1 << 63 | u64::from(node & 0x7fff) << 48 | u64::from(index & 0xffff) << 32 | u64::from(number)
}

/// Whose number that is.
pub fn stamped(stamp: u64) -> Value {
    let client = ClientId { node: (stamp >> 48) as u32 & 0x7fff, index: (stamp >> 32) as u32 & 0xffff };
    match stamp {
        0 => Value::Zero,
        _ if stamp >> 63 == 0 => Value::Torn,
        _ => Value::Of(RequestId { client, number: stamp as u32 }),
    }
}

/// Cells side by side with the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The first cell.
    pub first: u64,
    /// How many cells.
    pub cells: u32,
    /// What they have.
    pub value: Value,
}

/// The shortest cell, in bytes: three words say who wrote it and where, and one more is there to be torn.
pub const SHORTEST: u32 = 32;

/// Marks the cells of what is appended, which are counted from its own first one: where that lies nobody knows before.
pub const APPENDED: u64 = 1 << 63;

/// The word at a place of a cell that a request wrote.
fn word(request: RequestId, file: u64, cell: u64, place: usize) -> u64 {
    let RequestId { client: ClientId { node, index }, number } = request;
    match place {
        0 => u64::from(node) << 32 | u64::from(index) | 1 << 63,
        1 => u64::from(number) << 32 | (file & 0xffff_ffff),
        2 => cell,
        place => {
            let seed = (u64::from(node) << 48)
                ^ (u64::from(index) << 32)
                ^ u64::from(number)
                ^ file << 20
                ^ cell << 8;
            (seed ^ (place as u64) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
        }
    }
}

/// Fills a cell with a request's bytes.
pub fn fill(request: RequestId, file: u64, cell: u64, bytes: &mut [u8]) {
    for (place, out) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *out = word(request, file, cell, place).to_le_bytes();
    }
}

/// What a cell has.
pub fn value(file: u64, cell: u64, bytes: &[u8]) -> Value {
    let (words, _) = bytes.as_chunks::<8>();
    if words.iter().all(|word| *word == [0; 8]) {
        return Value::Zero;
    }
    let at = |place: usize| words.get(place).map_or(0, |word| u64::from_le_bytes(*word));
    let client = ClientId { node: (at(0) >> 32) as u32 & 0x7fff_ffff, index: at(0) as u32 };
    let request = RequestId { client, number: (at(1) >> 32) as u32 };
    let cell = if at(2) & APPENDED == 0 { cell } else { at(2) };
    let whole = (0..words.len()).all(|place| at(place) == word(request, file, cell, place));
    if whole { Value::Of(request) } else { Value::Torn }
}

/// What the cells from one on have: as many as there are bytes for.
pub fn runs(file: u64, first: u64, bytes: &[u8], cell: usize) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (at, bytes) in (first..).zip(bytes.chunks(cell)) {
        let value = value(file, at, bytes);
        match runs.last_mut().filter(|run| run.value == value) {
            Some(run) => run.cells += 1,
            None => runs.push(Run { first: at, cells: 1, value }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: RequestId = RequestId { client: ClientId { node: 0, index: 0 }, number: 0 };
    const TWO: RequestId = RequestId { client: ClientId { node: 3, index: 1 }, number: 9 };

    #[test]
    fn a_cell_is_told_by_its_bytes_and_a_mixture_or_another_place_is_torn() {
        for len in [32, 64, 4096] {
            let (mut one, mut two) = (vec![0; len], vec![0; len]);
            assert_eq!(value(5, 7, &one), Value::Zero);
            fill(ONE, 5, 7, &mut one);
            fill(TWO, 5, 7, &mut two);
            assert_eq!((value(5, 7, &one), value(5, 7, &two)), (Value::Of(ONE), Value::Of(TWO)));
            assert_eq!((value(6, 7, &one), value(5, 8, &one)), (Value::Torn, Value::Torn));
            let half = [&one[..len / 2], &two[len / 2..]].concat();
            assert_eq!(value(5, 7, &half), Value::Torn);
            let partly_zero = [&one[..len - 8], &[0; 8]].concat();
            assert_eq!(value(5, 7, &partly_zero), Value::Torn);
        }
    }

    #[test]
    fn attributes_tell_whose_they_are() {
        assert_eq!((stamped(stamp(ONE)), stamped(stamp(TWO))), (Value::Of(ONE), Value::Of(TWO)));
        assert_eq!((stamped(0), stamped(7)), (Value::Zero, Value::Torn));
    }

    #[test]
    fn equal_cells_side_by_side_are_one_run() {
        let mut bytes = vec![0; 5 * 32];
        for cell in 1..3 {
            fill(ONE, 2, 10 + cell, &mut bytes[32 * cell as usize..][..32]);
        }
        let run = |first, cells, value| Run { first, cells, value };
        let all = [run(10, 1, Value::Zero), run(11, 2, Value::Of(ONE)), run(13, 2, Value::Zero)];
        assert_eq!(runs(2, 10, &bytes, 32), all);
    }
}
