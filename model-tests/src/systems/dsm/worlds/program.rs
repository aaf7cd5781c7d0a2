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
    /// Each in a minipage of its own, all in one page of 4 KiB.
    Apart,
    /// Each in a minipage of a page of its own.
    Pages,
}

/// The words of a page.
const WORDS_OF_A_PAGE: u32 = 4_096 / 8;

impl Words {
    /// The name of a way.
    pub fn name(self) -> &'static str {
        match self {
            Words::Together => "together",
            Words::Apart => "apart",
            Words::Pages => "pages",
        }
    }

    /// Reads a name.
    pub fn read(name: &str) -> Result<Words, SizeError> {
        let known =
            [Words::Together, Words::Apart, Words::Pages].into_iter().find(|words| words.name() == name);
        known.ok_or_else(|| SizeError(format!("words are together, apart or on pages, not '{name}'")))
    }

    /// Which word of the object x, y or z is, where a minipage has so many.
    pub fn place(self, word: usize, words_a_page: u32) -> u32 {
        match self {
            Words::Together => word as u32,
            Words::Apart => word as u32 * words_a_page,
            Words::Pages => word as u32 * WORDS_OF_A_PAGE,
        }
    }

    /// How many words the object has.
    pub fn all(self, words_a_page: u32) -> usize {
        (self.place(WORDS - 1, words_a_page) + words_a_page) as usize
    }
}

/// A step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An access to x, y or z, by its number.
    Access(usize, Op),
    /// The barrier.
    Barrier,
    /// A claim of some words, all together.
    Claim([bool; WORDS], Claiming),
    /// A minipage is asked for that is read soon; nobody waits.
    Prefetch(usize),
    /// The lock is taken.
    Lock,
    /// It is given back.
    Unlock,
    /// What was loaded last is stored, and one more.
    Bump(usize),
    /// All words are freed.
    Free,
}

/// What a claim is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claiming {
    /// To read all words.
    Read,
    /// To add one to each.
    Add,
    /// The same, unless it takes longer than that.
    Try,
}

const WHOLE: [(&str, Step); 4] =
    [("b", Step::Barrier), ("l", Step::Lock), ("u", Step::Unlock), ("f", Step::Free)];
const CLAIMS: [(char, Claiming); 3] = [('&', Claiming::Read), ('!', Claiming::Add), ('%', Claiming::Try)];

/// What one thread does.
pub type Thread = Vec<Step>;

/// Reads what each thread does, as in `x1.y?,y1.x?`.
pub fn read(text: &str) -> Result<Vec<Thread>, SizeError> {
    text.split(',').map(|thread| thread.trim().split('.').map(step).collect()).collect()
}

/// A step in words: `x1` stores, `x?` loads, `x+` adds one, `x~` prefetches, `x*` stores one more than was loaded last,
/// `b` waits for all, `l` and `u` lock and unlock, `f` frees; `xy&` claims x and y to read
/// them, `xy!` to add one to each, `xy%` the same unless it takes too long.
fn step(text: &str) -> Result<Step, SizeError> {
    if let Some((_, step)) = WHOLE.iter().find(|(letter, _)| *letter == text) {
        return Ok(*step);
    }
    let wrong = || SizeError(format!("a step is like x1, x?, x+, x~, xy&, xy!, xy% or b, not '{text}'"));
    if let Some((words, how)) = CLAIMS.iter().find_map(|(sign, how)| Some((text.strip_suffix(*sign)?, *how)))
    {
        let mut claimed = [false; WORDS];
        for letter in words.chars() {
            claimed["xyz".find(letter).ok_or_else(wrong)?] = true;
        }
        return if words.is_empty() { Err(wrong()) } else { Ok(Step::Claim(claimed, how)) };
    }
    let mut letters = text.chars();
    let word = letters.next().and_then(|letter| "xyz".find(letter)).ok_or_else(wrong)?;
    let op = match letters.as_str() {
        "?" => Op::Load,
        "+" => Op::Add(1),
        "*" => return Ok(Step::Bump(word)),
        "~" => return Ok(Step::Prefetch(word)),
        value => Op::Store(value.parse().map_err(|_| wrong())?),
    };
    Ok(Step::Access(word, op))
}

/// A thread in words.
fn told(thread: &Thread) -> String {
    let step = |step: &Step| match step {
        Step::Barrier | Step::Lock | Step::Unlock | Step::Free => {
            let letter = WHOLE.iter().find(|(_, other)| other == step).map(|(letter, _)| *letter);
            letter.unwrap_or_default().to_string()
        }
        Step::Bump(word) => format!("{}*", &"xyz"[*word..=*word]),
        Step::Prefetch(word) => format!("{}~", &"xyz"[*word..=*word]),
        Step::Claim(words, how) => {
            let letters = "xyz".chars().zip(words).filter(|(_, claimed)| **claimed).map(|(letter, _)| letter);
            let sign = CLAIMS.iter().find(|(_, other)| other == how).map(|(sign, _)| *sign);
            letters.chain(sign).collect()
        }
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

/// Programs, and the nodes of their threads, without one thread or one step.
pub fn without_one(threads: &[Thread], nodes: &[u32]) -> Vec<(Vec<Thread>, Vec<u32>)> {
    let mut all = Vec::new();
    for thread in 0..threads.len() {
        if threads.len() > 1 {
            let (mut fewer, mut on) = (threads.to_vec(), nodes.to_vec());
            fewer.remove(thread);
            on.remove(thread);
            all.push((fewer, on));
        }
        for step in 0..threads[thread].len() {
            let mut shorter = threads.to_vec();
            // A barrier that one thread leaves out lets nobody go.
            if shorter[thread].len() > 1 && shorter[thread].remove(step) != Step::Barrier {
                all.push((shorter, nodes.to_vec()));
            }
        }
    }
    all
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
    run(threads, &mut vec![0; threads.len()], None, &start, &mut all);
    all
}

/// `has`: the thread that has the lock.
fn run(
    threads: &[Thread],
    at: &mut Vec<usize>,
    has: Option<usize>,
    so_far: &Outcome,
    all: &mut BTreeSet<Outcome>,
) {
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
        return run(threads, &mut passed.clone(), has, so_far, all);
    }
    let mut ended = true;
    for thread in 0..threads.len() {
        let Some(step) = next(at, thread) else { continue };
        ended = false;
        let has = match step {
            Step::Barrier => continue,
            Step::Lock if has.is_some() => continue,
            Step::Lock => Some(thread),
            Step::Unlock => None,
            _ => has,
        };
        at[thread] += 1;
        run(threads, at, has, &after(so_far, thread, step), all);
        if matches!(step, Step::Claim(_, Claiming::Try)) {
            // It was given up.
            run(threads, at, has, so_far, all);
        }
        at[thread] -= 1;
    }
    if ended {
        all.insert(so_far.clone());
    }
}

/// What a step that is executed comes to.
fn after(so_far: &Outcome, thread: usize, step: Step) -> Outcome {
    let mut then = so_far.clone();
    let mut access = |word: usize, op: Op| {
        let found = then.words[word];
        let left = op.stores(found).unwrap_or(found);
        then.words[word] = left;
        if !matches!(op, Op::Store(_)) {
            then.seen[thread].push(left);
        }
    };
    match step {
        Step::Access(word, op) => access(word, op),
        Step::Claim(words, how) => {
            let claimed = words.iter().enumerate().filter(|(_, claimed)| **claimed);
            claimed.for_each(|(word, _)| access(word, how.op()));
        }
        Step::Bump(word) => access(word, Op::Store(so_far.seen[thread].last().map_or(1, |last| last + 1))),
        Step::Free => then.words = [0; WORDS],
        Step::Barrier | Step::Prefetch(_) | Step::Lock | Step::Unlock => {}
    }
    then
}

impl Claiming {
    /// What it does to each word.
    pub fn op(self) -> Op {
        match self {
            Claiming::Read => Op::Load,
            Claiming::Add | Claiming::Try => Op::Add(1),
        }
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
        assert_eq!(seen("x?.x*,x?.x*"), [[0, 0], [0, 1], [1, 0]]);
        assert_eq!(seen("l.x?.x*.u,l.x?.x*.u"), [[0, 1], [1, 0]]);
        assert_eq!(seen("xy!,x?.y?"), [[1, 1, 0, 0], [1, 1, 0, 1], [1, 1, 1, 1]]);
        assert_eq!(seen("xy!,xy&"), [[1, 1, 0, 0], [1, 1, 1, 1]]);
        assert!(read("x1.w?").is_err() && read("&").is_err());
        let all = "x1.y?.z~,l.y?.y*.u,b.z+.xz&.y!.yz%.f";
        assert_eq!(words(&read(all).expect("it is a program")), all);
    }
}
