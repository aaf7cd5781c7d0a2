//! Answers as a list: recorded from one run, given again in another, saved as text.

use super::Choice;
use std::cell::{Ref, RefCell};
use std::fmt::{self, Write as _};
use std::rc::Rc;
use std::str::FromStr;
use thiserror::Error;

/// One answer: `value` of `n` possible ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// What was answered; below `n`.
    pub value: u64,
    /// How many answers were possible; at least 2.
    pub n: u64,
}

/// Gives recorded answers again, and quiet ones after the last.
///
/// A list that was made by another version of the code or by a shrinker may not fit: an answer that the
/// question does not allow becomes the largest that it does, and [`Recorded::diverged`] says where the list
/// first failed to fit.
#[derive(Clone, Debug)]
pub struct Recorded {
    list: Vec<Answer>,
    at: usize,
    diverged: Option<usize>,
}

impl Recorded {
    /// Gives these answers.
    pub fn new(list: Vec<Answer>) -> Recorded {
        Recorded { list, at: 0, diverged: None }
    }

    /// How many answers have been given from the list.
    pub fn used(&self) -> usize {
        self.at
    }

    /// The first answer whose question had another number of possible answers than when it was recorded.
    pub fn diverged(&self) -> Option<usize> {
        self.diverged
    }

    fn below(&mut self, n: u64) -> u64 {
        if n <= 1 {
            return 0;
        }
        let Some(&answer) = self.list.get(self.at) else { return 0 };
        if answer.n != n && self.diverged.is_none() {
            self.diverged = Some(self.at);
        }
        self.at += 1;
        answer.value.min(n - 1)
    }
}

impl Choice for Recorded {
    fn schedule(&mut self, enabled: usize) -> usize {
        self.below(enabled as u64) as usize
    }
    fn pick(&mut self, _label: &'static str, n: u64) -> u64 {
        self.below(n)
    }
}

/// A list of answers that grows while a run is recorded, readable beside the run. Clones are the same tape.
///
/// Its text is one token per answer, `value/n`, a run of equal ones as `value/n*times`, after the line
/// `weft choices 1`.
#[derive(Clone, Debug, Default)]
pub struct Tape(Rc<RefCell<Vec<Answer>>>);

const HEADER: &str = "weft choices 1";
const TOKENS_PER_LINE: usize = 16;

impl Tape {
    /// The answers so far.
    pub fn answers(&self) -> Ref<'_, [Answer]> {
        Ref::map(self.0.borrow(), Vec::as_slice)
    }

    /// Answers to give again.
    pub fn replay(&self) -> Recorded {
        Recorded::new(self.0.borrow().clone())
    }
}

impl From<Vec<Answer>> for Tape {
    fn from(list: Vec<Answer>) -> Tape {
        Tape(Rc::new(RefCell::new(list)))
    }
}

impl fmt::Display for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEADER)?;
        for (i, run) in self.answers().chunk_by(|a, b| a == b).enumerate() {
            f.write_char(if i.is_multiple_of(TOKENS_PER_LINE) { '\n' } else { ' ' })?;
            write!(f, "{}/{}", run[0].value, run[0].n)?;
            if run.len() > 1 {
                write!(f, "*{}", run.len())?;
            }
        }
        f.write_char('\n')
    }
}

/// Why a text is no list of answers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AnswersError {
    /// The first line is another one.
    #[error("the first line is not `{HEADER}`")]
    Header,
    /// A token that is not `value/n` or `value/n*times`, or whose numbers contradict each other.
    #[error("line {line}: `{token}` is not an answer: value/n or value/n*times, value below n, n from 2")]
    Token {
        /// The line, from 1.
        line: usize,
        /// The token.
        token: String,
    },
    /// More answers than a recording may hold.
    #[error("line {line}: more than {MOST} answers")]
    TooMany {
        /// The line, from 1.
        line: usize,
    },
}

/// The most answers that a text may hold; a repetition count must not exhaust memory.
const MOST: usize = 100_000_000;

impl FromStr for Tape {
    type Err = AnswersError;

    fn from_str(text: &str) -> Result<Tape, AnswersError> {
        let mut lines = text.lines().enumerate();
        if lines.next().is_none_or(|(_, first)| first.trim_end() != HEADER) {
            return Err(AnswersError::Header);
        }
        let mut list = Vec::new();
        for (i, line) in lines {
            for token in line.split_ascii_whitespace() {
                let bad = || AnswersError::Token { line: i + 1, token: token.to_string() };
                let (answer, times) = parse(token).ok_or_else(bad)?;
                if times > MOST - list.len() {
                    return Err(AnswersError::TooMany { line: i + 1 });
                }
                list.resize(list.len() + times, answer);
            }
        }
        Ok(list.into())
    }
}

fn parse(token: &str) -> Option<(Answer, usize)> {
    let (value, rest) = token.split_once('/')?;
    let (n, times) = rest.split_once('*').unwrap_or((rest, "1"));
    let answer = Answer { value: value.parse().ok()?, n: n.parse().ok()? };
    let times = times.parse().ok()?;
    (answer.n >= 2 && answer.value < answer.n && times >= 1).then_some((answer, times))
}

/// Passes another one's answers on and writes them to a [`Tape`].
#[derive(Clone, Debug)]
pub struct Recording<C> {
    inner: C,
    tape: Tape,
}

impl<C: Choice> Recording<C> {
    /// Records what `inner` answers. The tape is read while and after the run.
    pub fn new(inner: C) -> (Recording<C>, Tape) {
        let tape = Tape::default();
        (Recording { inner, tape: tape.clone() }, tape)
    }

    fn note(&mut self, value: u64, n: u64) {
        if n > 1 {
            self.tape.0.borrow_mut().push(Answer { value, n });
        }
    }
}

impl<C: Choice> Choice for Recording<C> {
    fn schedule(&mut self, enabled: usize) -> usize {
        let index = self.inner.schedule(enabled);
        self.note(index as u64, enabled as u64);
        index
    }
    fn pick(&mut self, label: &'static str, n: u64) -> u64 {
        let value = self.inner.pick(label, n);
        self.note(value, n);
        value
    }
}
