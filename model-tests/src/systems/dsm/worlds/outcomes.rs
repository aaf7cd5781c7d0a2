//! What a program may come to under sequential consistency: the outcomes of all orders of its accesses.

use super::super::history::Op;
use super::program::{Claiming, Made, Step, Thread, WORDS, Words, written};
use std::collections::BTreeSet;

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
pub fn outcomes(threads: &[Thread], words: Words) -> BTreeSet<Outcome> {
    let accesses: Vec<Vec<Access>> = threads
        .iter()
        .map(|thread| thread.iter().flat_map(|made| accesses(*made, words)).collect())
        .collect();
    let start = Outcome { seen: vec![Vec::new(); threads.len()], words: [0; WORDS] };
    let at = vec![0; threads.len()];
    let mut all = BTreeSet::new();
    run(&accesses, &Run { at, has: None, so_far: start }, &mut all);
    all
}

/// A step, or a minipage's part of one that copies several: what is executed at once.
#[derive(Clone, Copy)]
struct Access {
    made: Made,
    /// How many parts of the same call follow.
    rest: usize,
}

/// What a call executes one after the other.
fn accesses(made: Made, words: Words) -> Vec<Access> {
    let parts = match made.step {
        Step::Read(from, to) | Step::Write(from, to, _) if words != Words::Together => (from..=to)
            .map(|word| match made.step {
                Step::Write(.., value) => Step::Write(word, word, written(value, from, word)),
                _ => Step::Read(word, word),
            })
            .collect(),
        step => vec![step],
    };
    let all = parts.len();
    (1..).zip(parts).map(|(part, step)| Access { made: Made { step, ..made }, rest: all - part }).collect()
}

/// Where all threads are, who has the lock, and what all came to so far.
#[derive(Clone)]
struct Run {
    at: Vec<usize>,
    has: Option<usize>,
    so_far: Outcome,
}

fn run(threads: &[Vec<Access>], now: &Run, all: &mut BTreeSet<Outcome>) {
    let next = |thread: usize| threads[thread].get(now.at[thread]).copied();
    // Who comes to a barrier waits for those who have one before them still.
    let waits = |thread: usize| threads[thread].iter().any(|access| access.made.step == Step::Barrier);
    let is_there = |thread| next(thread).is_some_and(|access| access.made.step == Step::Barrier);
    let who: Vec<usize> = (0..threads.len()).filter(|thread| waits(*thread)).collect();
    if !who.is_empty() && who.iter().all(|thread| is_there(*thread)) {
        let mut passed = now.clone();
        who.into_iter().for_each(|thread| passed.at[thread] += 1);
        return run(threads, &passed, all);
    }
    let mut ended = true;
    for thread in 0..threads.len() {
        let Some(Access { made: Made { step, may_drop }, rest }) = next(thread) else { continue };
        ended = false;
        let has = match step {
            Step::Barrier => continue,
            Step::Lock if now.has.is_some() => continue,
            Step::Lock => Some(thread),
            Step::Unlock => None,
            _ => now.has,
        };
        let mut then = Run { has, so_far: after(&now.so_far, thread, step), ..now.clone() };
        then.at[thread] += 1;
        run(threads, &then, all);
        if step != Step::Free && (may_drop || matches!(step, Step::Claim(_, Claiming::Try))) {
            // It was given up. What is being freed is, whoever waits for that.
            then.at[thread] += rest;
            run(threads, &Run { so_far: now.so_far.clone(), ..then }, all);
        }
    }
    if ended {
        all.insert(now.so_far.clone());
    }
}

/// What a step that is executed comes to.
fn after(so_far: &Outcome, thread: usize, step: Step) -> Outcome {
    let mut then = so_far.clone();
    let mut access = |word: usize, op: Op| {
        let found = then.words[word];
        let left = op.stores(found).unwrap_or(found);
        then.words[word] = left;
        then.seen[thread].extend(sees(op, found));
    };
    match step {
        Step::Access(word, op) => access(word, op),
        Step::Claim(words, how) => {
            let claimed = words.iter().enumerate().filter(|(_, claimed)| **claimed);
            claimed.for_each(|(word, _)| access(word, how.op()));
        }
        Step::Read(from, to) => (from..=to).for_each(|word| access(word, Op::Load)),
        Step::Write(from, to, value) => {
            (from..=to).for_each(|word| access(word, Op::Store(written(value, from, word))));
        }
        Step::Bump(word) => access(word, Op::Store(so_far.seen[thread].last().map_or(1, |last| last + 1))),
        Step::Free => then.words = [0; WORDS],
        Step::Barrier | Step::Prefetch(..) | Step::Lock | Step::Unlock | Step::Tell => {}
    }
    then
}

/// What a thread sees of an access: what an addition leaves, and what others find. Of a store nobody asks.
pub fn sees(op: Op, found: u64) -> Option<u64> {
    match op {
        Op::Store(_) => None,
        Op::Add(_) => op.stores(found),
        Op::Load | Op::Swap(_) | Op::CompareExchange(..) => Some(found),
    }
}

#[cfg(test)]
mod tests {
    use super::super::program::read;
    use super::*;

    #[test]
    fn store_buffering_has_three_outcomes_and_a_barrier_leaves_one() {
        let seen = |text| {
            let outcomes = outcomes(&read(text).expect("it is a program"), Words::Apart);
            outcomes.into_iter().map(|outcome| outcome.seen.concat()).collect::<Vec<_>>()
        };
        assert_eq!(seen("x1.y?,y1.x?"), [[0, 1], [1, 0], [1, 1]]);
        assert_eq!(seen("x1.b.y?,y1.b.x?"), [[1, 1]]);
        assert_eq!(seen("x+,x+"), [[1, 2], [2, 1]]);
        assert_eq!(seen("x?.x*,x?.x*"), [[0, 0], [0, 1], [1, 0]]);
        assert_eq!(seen("l.x?.x*.u,l.x?.x*.u"), [[0, 1], [1, 0]]);
        assert_eq!(seen("xy!,x?.y?"), [[1, 1, 0, 0], [1, 1, 0, 1], [1, 1, 1, 1]]);
        assert_eq!(seen("xy!,xy&"), [[1, 1, 0, 0], [1, 1, 1, 1]]);
        assert_eq!(seen("x^3,x0>5"), [[0, 3], [5, 0]]);
    }
    #[test]
    fn a_call_that_is_dropped_is_executed_or_not_and_a_barrier_is_called_again() {
        let seen = |text, words| {
            let outcomes = outcomes(&read(text).expect("it is a program"), words);
            outcomes.into_iter().map(|outcome| outcome.seen.concat()).collect::<Vec<_>>()
        };
        assert_eq!(seen("x+-.x?", Words::Apart), [vec![0], vec![1, 1]]);
        assert_eq!(seen("x1.b-.y?,y1.b.x?", Words::Apart), [[1, 1]], "it is called again");
        assert_eq!(seen("xy]1-.x?.y?", Words::Apart), [[0, 0], [1, 0], [1, 2]]);
        assert_eq!(seen("xy]1-.x?.y?", Words::Together), [[0, 0], [1, 2]]);
    }
}
