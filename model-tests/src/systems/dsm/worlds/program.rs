//! Programs of a few accesses, in words; and what they may come to under sequential consistency.

use super::super::history::Op;
use crate::explore::SizeError;
use std::collections::BTreeSet;

/// How many words there are: x, y and z.
pub const WORDS: usize = 3;

/// Where words are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// In one minipage.
    Together,
    /// Each in a minipage of its own.
    Apart,
}

impl Words {
    /// The name of a way.
    pub fn name(self) -> &'static str {
        match self {
            Words::Together => "together",
            Words::Apart => "apart",
        }
    }

    /// Reads a name.
    pub fn read(name: &str) -> Result<Words, SizeError> {
        let known = [Words::Together, Words::Apart].into_iter().find(|words| words.name() == name);
        known.ok_or_else(|| SizeError(format!("words are together or apart, not '{name}'")))
    }

    /// Which word of the object x, y or z is, where a minipage has so many.
    pub fn place(self, word: usize, words_a_page: u32) -> u32 {
        match self {
            Words::Together => word as u32,
            Words::Apart => word as u32 * words_a_page,
        }
    }
}

/// A step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An access to x, y or z, by its number.
    Access(usize, Op),
    /// The barrier.
    Barrier,
}

/// What one thread does.
pub type Thread = Vec<Step>;

/// Reads what each thread does, as in `x1.y?,y1.x?`.
pub fn read(text: &str) -> Result<Vec<Thread>, SizeError> {
    text.split(',').map(|thread| thread.trim().split('.').map(step).collect()).collect()
}

/// A step in words: `x1` stores, `x?` loads, `x+` adds one, `b` waits for all.
fn step(text: &str) -> Result<Step, SizeError> {
    if text == "b" {
        return Ok(Step::Barrier);
    }
    let wrong = || SizeError(format!("a step is like x1, x?, x+ or b, not '{text}'"));
    let mut letters = text.chars();
    let word = letters.next().and_then(|letter| "xyz".find(letter)).ok_or_else(wrong)?;
    let op = match letters.as_str() {
        "?" => Op::Load,
        "+" => Op::Add(1),
        value => Op::Store(value.parse().map_err(|_| wrong())?),
    };
    Ok(Step::Access(word, op))
}

/// A thread in words.
fn told(thread: &Thread) -> String {
    let step = |step: &Step| match step {
        Step::Barrier => "b".to_string(),
        Step::Access(word, op) => {
            let what = match op {
                Op::Store(value) => value.to_string(),
                Op::Load => "?".into(),
                _ => "+".into(),
            };
            format!("{}{what}", &"xyz"[*word..=*word])
        }
    };
    thread.iter().map(step).collect::<Vec<_>>().join(".")
}

/// All threads in words.
pub fn words(threads: &[Thread]) -> String {
    threads.iter().map(told).collect::<Vec<_>>().join(",")
}

/// What a run comes to: by thread what its loads and additions saw, and what the words are at the end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Outcome {
    /// By thread.
    pub seen: Vec<Vec<u64>>,
    /// x, y and z.
    pub words: [u64; WORDS],
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seen = |seen: &Vec<u64>| seen.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let all: Vec<String> = self.seen.iter().map(seen).collect();
        let [x, y, z] = self.words;
        write!(f, "threads see {}; at the end x={x} y={y} z={z}", all.join(" | "))
    }
}

/// All outcomes of sequential consistency: those of every order that keeps each thread's.
pub fn outcomes(threads: &[Thread]) -> BTreeSet<Outcome> {
    let start = Outcome { seen: vec![Vec::new(); threads.len()], words: [0; WORDS] };
    let mut all = BTreeSet::new();
    run(threads, &mut vec![0; threads.len()], &start, &mut all);
    all
}

fn run(threads: &[Thread], at: &mut Vec<usize>, so_far: &Outcome, all: &mut BTreeSet<Outcome>) {
    let next = |at: &[usize], thread: usize| threads[thread].get(at[thread]).copied();
    // Who comes to a barrier waits for those who have one before them still.
    let rounds = |thread: &Thread| thread.iter().filter(|step| **step == Step::Barrier).count();
    let waits = |thread: usize| rounds(&threads[thread]) > 0;
    if (0..threads.len())
        .filter(|thread| waits(*thread))
        .all(|thread| next(at, thread) == Some(Step::Barrier))
        && (0..threads.len()).any(waits)
    {
        let passed: Vec<usize> =
            at.iter().enumerate().map(|(thread, at)| at + usize::from(waits(thread))).collect();
        return run(threads, &mut passed.clone(), so_far, all);
    }
    let mut ended = true;
    for thread in 0..threads.len() {
        let Some(step) = next(at, thread) else { continue };
        ended = false;
        let Step::Access(word, op) = step else { continue };
        let mut then = so_far.clone();
        let found = then.words[word];
        let left = op.stores(found).unwrap_or(found);
        then.words[word] = left;
        if !matches!(op, Op::Store(_)) {
            then.seen[thread].push(left);
        }
        at[thread] += 1;
        run(threads, at, &then, all);
        at[thread] -= 1;
    }
    if ended {
        all.insert(so_far.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_buffering_has_three_outcomes_and_a_barrier_leaves_one() {
        let seen = |text| {
            let outcomes = outcomes(&read(text).expect("it is a program"));
            outcomes.into_iter().map(|outcome| outcome.seen.concat()).collect::<Vec<_>>()
        };
        assert_eq!(seen("x1.y?,y1.x?"), [[0, 1], [1, 0], [1, 1]]);
        assert_eq!(seen("x1.b.y?,y1.b.x?"), [[1, 1]]);
        assert_eq!(seen("x+,x+"), [[1, 2], [2, 1]]);
        assert!(read("x1.w?").is_err());
        assert_eq!(words(&read("x1.y?,b.z+").expect("it is a program")), "x1.y?,b.z+");
    }
}
