//! The language of toy worlds.

use std::fmt;

/// A number that an operation takes: words and registers hold a byte, and wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// This one.
    Is(u8),
    /// What the process has in its register, and so much more.
    Register(u8),
}

/// A comparison with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    /// Equal to it.
    Equals(Value),
    /// Not equal to it.
    Differs(Value),
}

/// One step of a process. Each process has one register, which is 0 at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// The register becomes the word.
    Read(u8),
    /// The word becomes the value.
    Write(u8, Value),
    /// The word grows by the value, and the register becomes what it was before: one atomic step.
    FetchAdd(u8, Value),
    /// If the word is the first value it becomes the second, and the register becomes what it was before: one atomic
    /// step.
    CompareSwap(u8, Value, Value),
    /// Waits until the word passes the test; the register becomes the word.
    Await(u8, Test),
    /// Waits until the word passes the test, or until nothing else can happen: the register becomes 1 or 0.
    AwaitOrTimeout(u8, Test),
    /// Sends the value over a channel. Its delivery, a step of the channel's own, writes it to the channel's word.
    Send(u8, Value),
    /// Stops another process for good.
    Stop(u8),
    /// Enters the critical section; a second process in it is a violation.
    Enter,
    /// Leaves the critical section.
    Leave,
    /// Goes on at another step if the register passes the test. It is part of the step before it.
    Branch(Test, u8),
    /// It is a violation if the word does not pass the test.
    Check(u8, Test),
}

/// A toy world: processes, each a list of operations, the words that they share, all 0 at first, and channels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// What each process does.
    pub processes: Vec<Vec<Op>>,
    /// How many words there are.
    pub words: u8,
    /// For each channel, the word that its deliveries write.
    pub channels: Vec<u8>,
    /// Whether a process that waits for ever is a violation.
    pub must_end: bool,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Is(value) => write!(f, "{value}"),
            Value::Register(0) => write!(f, "r"),
            Value::Register(more) => write!(f, "r + {more}"),
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Test::Equals(value) => write!(f, "= {value}"),
            Test::Differs(value) => write!(f, "≠ {value}"),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Read(word) => write!(f, "r ← word {word}"),
            Op::Write(word, value) => write!(f, "word {word} ← {value}"),
            Op::FetchAdd(word, value) => write!(f, "fetch word {word}, add {value}"),
            Op::CompareSwap(word, from, to) => write!(f, "word {word}: {from} ⇒ {to}"),
            Op::Await(word, test) => write!(f, "awaits word {word} {test}"),
            Op::AwaitOrTimeout(word, test) => write!(f, "awaits word {word} {test}, for a while"),
            Op::Send(channel, value) => write!(f, "sends {value} over channel {channel}"),
            Op::Stop(process) => write!(f, "stops p{process}"),
            Op::Enter => write!(f, "enters"),
            Op::Leave => write!(f, "leaves"),
            Op::Branch(test, to) => write!(f, "r {test}: to {to}"),
            Op::Check(word, test) => write!(f, "checks word {word} {test}"),
        }
    }
}
