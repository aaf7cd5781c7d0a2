//! How a program in a machine orders faults of the hub: lines over a serial port, one answer to each.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::str::FromStr;

/// Kinds of RoCE packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Every packet but the connection manager's.
    Any,
    /// Requests of every kind.
    Request,
    /// Requests of atomics.
    AtomicRequest,
    /// Acknowledgements.
    Ack,
    /// Negative acknowledgements, but not receiver-not-ready.
    Nak,
    /// Receiver-not-ready.
    Rnr,
    /// Answers to reads.
    ReadResponse,
    /// Answers to atomics.
    AtomicResponse,
    /// The connection manager's.
    Cm,
}

const CLASSES: [(Class, &str); 9] = [
    (Class::Any, "any"),
    (Class::Request, "request"),
    (Class::AtomicRequest, "atomic-request"),
    (Class::Ack, "ack"),
    (Class::Nak, "nak"),
    (Class::Rnr, "rnr"),
    (Class::ReadResponse, "read-response"),
    (Class::AtomicResponse, "atomic-response"),
    (Class::Cm, "cm"),
];

/// Which direction of a link a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From its first card to its second.
    There,
    /// Both.
    Both,
}

/// What a rule does to a frame that it strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Lets it pass; it is counted, as all that is struck.
    Pass,
    /// Loses it.
    Drop,
    /// Delivers it twice.
    Duplicate,
    /// Delivers it so many nanoseconds later.
    Delay(u64),
    /// Delivers it later, by a drawn time of up to so many nanoseconds.
    DelayUpTo(u64),
}

/// A rule for the frames between two cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The card that sends.
    pub from: usize,
    /// The card that receives.
    pub to: usize,
    /// That direction, or both.
    pub way: Way,
    /// Which packets; `None` for everything on the wire.
    pub class: Option<Class>,
    /// How many to let pass first.
    pub skip: u64,
    /// How many to strike then.
    pub count: u64,
    /// How many of a million are struck.
    pub ppm: u32,
    /// Where the draws begin.
    pub seed: u64,
    /// What happens to them.
    pub act: Act,
}

impl Rule {
    /// A link that carries nothing, either way.
    pub const fn cut(a: usize, b: usize) -> Rule {
        let (skip, count, ppm, seed) = (0, u64::MAX, 1_000_000, 0);
        Rule { from: a, to: b, way: Way::Both, class: None, skip, count, ppm, seed, act: Act::Drop }
    }
}

/// What a program asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Put a rule in force; its number is the answer.
    Push(Rule),
    /// Take a rule out.
    Remove(u64),
    /// Take all rules out.
    Clear,
    /// How many frames a rule has struck.
    Struck(u64),
    /// A card of this machine, from 0, loses its carrier or gets it back.
    Carrier(usize, bool),
    /// The machine is up; answered when the program may begin.
    Ready,
    /// The program has ended with this code.
    Exit(i32),
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Request::Push(rule) => {
                let way = if rule.way == Way::Both { "both" } else { "there" };
                let named = |class| CLASSES.iter().find(|(c, _)| *c == class).map(|(_, name)| *name);
                let class = rule.class.and_then(named).unwrap_or("wire");
                let (act, nanos) = match rule.act {
                    Act::Pass => ("pass", 0),
                    Act::Drop => ("drop", 0),
                    Act::Duplicate => ("duplicate", 0),
                    Act::Delay(nanos) => ("delay", nanos),
                    Act::DelayUpTo(nanos) => ("delay-up-to", nanos),
                };
                let Rule { from, to, skip, count, ppm, seed, .. } = rule;
                write!(f, "push {from} {to} {way} {class} {skip} {count} {ppm} {seed} {act} {nanos}")
            }
            Request::Remove(id) => write!(f, "remove {id}"),
            Request::Clear => f.write_str("clear"),
            Request::Struck(id) => write!(f, "struck {id}"),
            Request::Carrier(card, on) => write!(f, "carrier {card} {}", if *on { "on" } else { "off" }),
            Request::Ready => f.write_str("ready"),
            Request::Exit(code) => write!(f, "exit {code}"),
        }
    }
}

impl FromStr for Request {
    type Err = String;

    fn from_str(line: &str) -> Result<Request, String> {
        let mut words = Words { line, rest: line.split_whitespace() };
        Ok(match words.word()? {
            "push" => Request::Push(rule(&mut words)?),
            "remove" => Request::Remove(words.number()?),
            "clear" => Request::Clear,
            "struck" => Request::Struck(words.number()?),
            "carrier" => Request::Carrier(words.number()?, words.word()? == "on"),
            "ready" => Request::Ready,
            "exit" => Request::Exit(words.number()?),
            _ => return Err(format!("no such request: {line}")),
        })
    }
}

struct Words<'a> {
    line: &'a str,
    rest: std::str::SplitWhitespace<'a>,
}

impl<'a> Words<'a> {
    fn word(&mut self) -> Result<&'a str, String> {
        self.rest.next().ok_or_else(|| format!("too short: {}", self.line))
    }

    fn number<T: FromStr>(&mut self) -> Result<T, String> {
        self.word()?.parse().map_err(|_| format!("not a number in: {}", self.line))
    }
}

fn rule(words: &mut Words<'_>) -> Result<Rule, String> {
    let (from, to) = (words.number()?, words.number()?);
    let way = if words.word()? == "both" { Way::Both } else { Way::There };
    let name = words.word()?;
    let class = CLASSES.iter().find(|(_, known)| *known == name).map(|(class, _)| *class);
    if class.is_none() && name != "wire" {
        return Err(format!("no such class: {name}"));
    }
    let (skip, count) = (words.number()?, words.number()?);
    let (ppm, seed) = (words.number()?, words.number()?);
    let (act, nanos) = (words.word()?, words.number()?);
    let act = match act {
        "pass" => Act::Pass,
        "drop" => Act::Drop,
        "duplicate" => Act::Duplicate,
        "delay" => Act::Delay(nanos),
        "delay-up-to" => Act::DelayUpTo(nanos),
        other => return Err(format!("no such act: {other}")),
    };
    Ok(Rule { from, to, way, class, skip, count, ppm, seed, act })
}

/// The environment variable that names the serial port of the hub.
pub const PORT_VARIABLE: &str = "SOFTROCE_CONTROL";

/// The hub, as a program in a machine sees it.
pub struct Remote {
    to: File,
    from: BufReader<File>,
}

impl Remote {
    /// The hub of the cluster in which this program runs; `None` outside of one.
    pub fn open() -> Option<io::Result<Remote>> {
        let path = std::env::var_os(PORT_VARIABLE)?;
        let open = || {
            let to = OpenOptions::new().read(true).write(true).open(path)?;
            Ok(Remote { from: BufReader::new(to.try_clone()?), to })
        };
        Some(open())
    }

    /// Asks, and waits for the answer: a number, 0 where there is nothing to say.
    pub fn ask(&mut self, request: Request) -> io::Result<u64> {
        self.to.write_all(format!("{request}\n").as_bytes())?;
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        let answer = line.trim().strip_prefix("ok ").and_then(|number| number.parse().ok());
        answer.ok_or_else(|| io::Error::other(format!("the hub answered {line:?} to {request}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_the_line() {
        let acts = [Act::Pass, Act::Drop, Act::Duplicate, Act::Delay(7), Act::DelayUpTo(u64::MAX)];
        let mut requests = vec![
            Request::Remove(3),
            Request::Clear,
            Request::Struck(u64::MAX),
            Request::Ready,
            Request::Carrier(1, true),
            Request::Carrier(0, false),
            Request::Exit(-1),
            Request::Push(Rule::cut(0, 2)),
        ];
        for (n, act) in acts.into_iter().enumerate() {
            let class = CLASSES.get(n).map(|(class, _)| *class);
            let way = Way::There;
            let (skip, count, ppm, seed) = (1, u64::MAX, 10, 9);
            requests.push(Request::Push(Rule { from: n, to: 1, way, class, skip, count, ppm, seed, act }));
        }
        for request in requests {
            assert_eq!(request.to_string().parse(), Ok(request));
        }
    }

    #[test]
    fn nonsense_is_refused_in_words() {
        for line in
            ["", "jump", "struck", "struck x", "push 1 2 both wire 0 0 0 0 fly 0", "push 0 1 both hat"]
        {
            assert!(line.parse::<Request>().is_err(), "{line}");
        }
    }
}
