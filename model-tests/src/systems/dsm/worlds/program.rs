//! Programs of a few accesses, in words.

use super::super::history::Op;
use crate::explore::SizeError;

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
    /// A minipage is asked for that is read soon, or changed; nobody waits.
    Prefetch(usize, Soon),
    /// All words from one to another are copied out by one call: each minipage's part is one access.
    Read(usize, usize),
    /// The same words are set by one call: the first one to this, and each next one to one more, so that no two are alike.
    Write(usize, usize, u64),
    /// The lock is taken.
    Lock,
    /// It is given back.
    Unlock,
    /// What was loaded last is stored, and one more.
    Bump(usize),
    /// All words are freed.
    Free,
    /// From here on it is told at any moment who is dead.
    Tell,
}

/// What a prefetch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Soon {
    /// To read.
    Read,
    /// To change.
    Change,
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

/// What [`Step::Write`] sets a word to, of those that begin with `first`.
pub fn written(value: u64, first: usize, word: usize) -> u64 {
    value.wrapping_add((word - first) as u64)
}

const WHOLE: [(&str, Step); 5] =
    [("b", Step::Barrier), ("d", Step::Tell), ("l", Step::Lock), ("u", Step::Unlock), ("f", Step::Free)];
const CLAIMS: [(char, Claiming); 3] = [('&', Claiming::Read), ('!', Claiming::Add), ('%', Claiming::Try)];

/// The mark of a call that its user may drop at any moment.
const DROPPED: char = '-';

/// A step as a thread makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    pub step: Step,
    /// Whether its user may drop the call at any moment. A barrier is called again then: the thread has to come out of it.
    pub may_drop: bool,
}

/// What one thread does.
pub type Thread = Vec<Made>;

/// Reads what each thread does, as in `x1.y?,y1.x?`.
///
/// # Errors
///
/// Nobody knows a step, or threads do what would have them wait for ever, or fail.
pub fn read(text: &str) -> Result<Vec<Thread>, SizeError> {
    let thread = |text: &str| text.trim().split('.').map(made).collect::<Result<Thread, _>>();
    let threads: Vec<Thread> = text.split(',').map(thread).collect::<Result<_, _>>()?;
    let wrong = |why: &str| Err(SizeError(why.to_owned()));
    if threads.iter().any(|thread| barriers(thread) != barriers(&threads[0])) {
        return wrong("a barrier waits for all threads: each has as many (b)");
    }
    if !threads.iter().all(|thread| locks_in_turn(thread)) {
        return wrong(
            "a thread that locks (l) unlocks (u) before it locks again, comes to a barrier or ends",
        );
    }
    match frees_at_the_end(&threads) {
        true => Ok(threads),
        false => wrong(
            "one thread frees (f) as its last step, when others at most prefetch still: a barrier says when",
        ),
    }
}

fn barriers(thread: &[Made]) -> usize {
    thread.iter().filter(|made| made.step == Step::Barrier).count()
}

/// Whether each lock is given back before the thread waits for others.
fn locks_in_turn(thread: &[Made]) -> bool {
    let turn = thread.iter().try_fold(false, |has, made| match (made.step, has) {
        (Step::Lock, false) => Some(true),
        (Step::Unlock, true) => Some(false),
        (Step::Lock | Step::Unlock, _) | (Step::Barrier, true) => None,
        _ => Some(has),
    });
    turn == Some(false)
}

/// Whether nobody accesses what is freed by then: one thread frees behind its last barrier, and behind theirs others only prefetch.
fn frees_at_the_end(threads: &[Thread]) -> bool {
    let frees = |made: &Made| made.step == Step::Free;
    let Some(one) = threads.iter().position(|thread| thread.iter().any(frees)) else { return true };
    threads.iter().enumerate().all(|(at, thread)| {
        let last = thread.iter().rposition(|made| made.step == Step::Barrier).map_or(0, |at| at + 1);
        let behind = &thread[last..];
        match at == one {
            true => thread.iter().filter(|made| frees(made)).count() == 1 && behind.last().is_some_and(frees),
            false => behind.iter().all(|made| matches!(made.step, Step::Prefetch(..))),
        }
    })
}

/// A step, with `-` behind it if its user may drop the call.
fn made(text: &str) -> Result<Made, SizeError> {
    let (text, may_drop) = text.strip_suffix(DROPPED).map_or((text, false), |text| (text, true));
    let step = step(text)?;
    // These wait for nothing, and a claim that is tried gives itself up. A grant of the lock would be lost with its call.
    let waits = match step {
        Step::Access(..) | Step::Barrier | Step::Bump(_) | Step::Free | Step::Write(..) => true,
        Step::Claim(_, how) => how != Claiming::Try,
        Step::Prefetch(..) | Step::Lock | Step::Unlock | Step::Read(..) | Step::Tell => false,
    };
    match may_drop && !waits {
        true => Err(SizeError(format!("a call like '{text}' is not dropped"))),
        false => Ok(Made { step, may_drop }),
    }
}

/// A step in words: `x1` stores, `x?` loads, `x+` adds one, `x^1` swaps, `x0>1` stores one if zero is there, `x~` prefetches and `x~~` to
/// change it, `x*` stores one more than was loaded last, `xz[` reads all from x to z and `xz]1` sets them to one, two and
/// three, `b` waits for all, `l` and `u` lock and unlock, `f` frees, `d` tells of a death; `xy&` claims x and y to read
/// them, `xy!` to add one to each, `xy%` the same unless it takes too long.
fn step(text: &str) -> Result<Step, SizeError> {
    if let Some((_, step)) = WHOLE.iter().find(|(letter, _)| *letter == text) {
        return Ok(*step);
    }
    let wrong = || {
        let known = "x1, x?, x+, x^1, x0>1, x~, x~~, x*, xz[, xz]1, xy&, xy!, xy%, b, d, l, u or f";
        SizeError(format!("a step is like {known}, not '{text}'"))
    };
    let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
    if let Some((words, how)) = CLAIMS.iter().find_map(|(sign, how)| Some((text.strip_suffix(*sign)?, *how)))
    {
        let mut claimed = [false; WORDS];
        for letter in words.chars() {
            claimed["xyz".find(letter).ok_or_else(wrong)?] = true;
        }
        return if words.is_empty() { Err(wrong()) } else { Ok(Step::Claim(claimed, how)) };
    }
    let mut letters = text.chars();
    let mut word = || letters.next().and_then(|letter| "xyz".find(letter)).ok_or_else(wrong);
    let first = word()?;
    if let Some((_, value)) = text.split_once(['[', ']']) {
        let last = word().ok().filter(|last| *last >= first).ok_or_else(wrong)?;
        return match letters.next() {
            Some('[') if value.is_empty() => Ok(Step::Read(first, last)),
            Some(']') => Ok(Step::Write(first, last, number(value)?)),
            _ => Err(wrong()),
        };
    }
    let op = match letters.as_str() {
        "?" => Op::Load,
        "+" => Op::Add(1),
        "*" => return Ok(Step::Bump(first)),
        "~" => return Ok(Step::Prefetch(first, Soon::Read)),
        "~~" => return Ok(Step::Prefetch(first, Soon::Change)),
        other => match (other.strip_prefix('^'), other.split_once('>')) {
            (Some(value), _) => Op::Swap(number(value)?),
            (None, Some((there, value))) => Op::CompareExchange(number(there)?, number(value)?),
            (None, None) => Op::Store(number(other)?),
        },
    };
    Ok(Step::Access(first, op))
}

/// A thread in words.
fn told(thread: &Thread) -> String {
    let word = |word: usize| &"xyz"[word..=word];
    let step = |step: &Step| match step {
        Step::Barrier | Step::Lock | Step::Unlock | Step::Free | Step::Tell => {
            let letter = WHOLE.iter().find(|(_, other)| other == step).map(|(letter, _)| *letter);
            letter.unwrap_or_default().to_string()
        }
        Step::Bump(at) => format!("{}*", word(*at)),
        Step::Prefetch(at, Soon::Read) => format!("{}~", word(*at)),
        Step::Prefetch(at, Soon::Change) => format!("{}~~", word(*at)),
        Step::Read(from, to) => format!("{}{}[", word(*from), word(*to)),
        Step::Write(from, to, value) => format!("{}{}]{value}", word(*from), word(*to)),
        Step::Claim(words, how) => {
            let letters = "xyz".chars().zip(words).filter(|(_, claimed)| **claimed).map(|(letter, _)| letter);
            let sign = CLAIMS.iter().find(|(_, other)| other == how).map(|(sign, _)| *sign);
            letters.chain(sign).collect()
        }
        Step::Access(at, op) => {
            let what = match op {
                Op::Store(value) => value.to_string(),
                Op::Load => "?".into(),
                Op::Add(_) => "+".into(),
                Op::Swap(value) => format!("^{value}"),
                Op::CompareExchange(there, value) => format!("{there}>{value}"),
            };
            format!("{}{what}", word(*at))
        }
    };
    let made = |Made { step: of, may_drop }: &Made| step(of) + if *may_drop { "-" } else { "" };
    thread.iter().map(made).collect::<Vec<_>>().join(".")
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
            if shorter[thread].len() > 1 && shorter[thread].remove(step).step != Step::Barrier {
                all.push((shorter, nodes.to_vec()));
            }
        }
    }
    all
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
    fn a_program_is_read_as_it_is_written() {
        assert!(["x1.w?", "&", "zx[", "x[", "xz]", "x~-", "l-"].iter().all(|text| read(text).is_err()));
        for all in
            ["x1.y?.z~.x~~,l.y?.y*.u,z+-.xz&.y!-.yz%,x^3.y2>3-.xz[.yy]4-", "x1.b-.f-,y+.b.x~", "x?.d,x?"]
        {
            assert_eq!(words(&read(all).expect("it is a program")), all);
        }
    }

    #[test]
    fn what_would_wait_for_ever_or_use_what_is_freed_is_no_program() {
        for text in
            ["x1.b,y1", "b.b,b", "l.x?", "u", "l.l.u.u", "l.b.u,b", "x1.f,y1", "f.x?,x~", "f,f", "f.f"]
        {
            assert!(read(text).is_err(), "{text}");
        }
        for text in ["l.x?.u.l.x1.u", "x1.b.f,y1.b.x~", "f,y~", "b.f"] {
            assert!(read(text).is_ok(), "{text}");
        }
    }
}
