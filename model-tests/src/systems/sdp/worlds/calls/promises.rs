//! The promises of streams, call by call.

use super::super::super::history::Why;
use super::history::{Event, What};
use crate::harness::Explored;
use crate::oracle::{Oracles, PROGRESS, Violation};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use weft_sim::explore::AccessKind;
use weft_verbs::Nanos;

const BYTES: &str = "byte stream";
const UNBROKEN: &str = "unbroken";
const TOLD: &str = "told of loss";

/// What one end of a stream has done.
#[derive(Clone, Copy, Debug, Default, Hash)]
struct Half {
    /// Bytes that it has written, and that it has read.
    wrote: u64,
    read: u64,
    /// It writes no more, and has read that the other end writes no more.
    shut: bool,
    read_end: bool,
    /// Its user reads no more.
    dropped: bool,
    /// It has written after it had read the end of a stream that the other end had dropped: nobody can read that.
    in_vain: bool,
}

/// A stream between two nodes.
#[derive(Clone, Copy, Debug, Default, Hash)]
struct Line {
    halves: [Half; 2],
    /// The listener has handed it to a user.
    accepted: bool,
    /// A user has ended it at once, or has dropped it or the call that was to make it: the other one may be told by a reset.
    may_fail: bool,
}

/// What is promised of the streams of two nodes.
#[derive(Clone, Debug, Default)]
pub struct CallOracles {
    lines: BTreeMap<u32, Line>,
    /// Scripts that have begun, and those that are over, by node.
    begun: [u64; 2],
    done: [u64; 2],
    /// The listener was dropped: what it had not handed out is aborted, and what comes next is refused.
    stopped: bool,
    /// Calls that take too long fail.
    impatient: bool,
}

impl CallOracles {
    /// Of calls that wait for a time or for ever.
    pub fn of(impatient: bool) -> CallOracles {
        CallOracles { impatient, ..CallOracles::default() }
    }

    fn look(&mut self, event: &Event) -> Result<(), &'static str> {
        let Event { node, stream, what } = *event;
        let node = node as usize;
        let line = self.lines.entry(stream).or_default();
        let other = line.halves[1 - node];
        let own = &mut line.halves[node];
        match what {
            What::Begins => self.begun[node] += 1,
            What::Done => self.done[node] += 1,
            What::Connects => {}
            What::Accepts => line.accepted = true,
            What::Writes(bytes) => {
                own.in_vain |= own.read_end && other.dropped;
                own.wrote += u64::from(bytes);
            }
            What::TakesBack(bytes) => {
                own.wrote = own.wrote.saturating_sub(u64::from(bytes));
                if own.wrote < other.read {
                    return Err(BYTES);
                }
            }
            What::Reads { bytes, right } => {
                own.read += u64::from(bytes);
                if !right || own.read > other.wrote || own.read_end {
                    return Err(BYTES);
                }
            }
            What::ReadsEnd => {
                own.read_end = true;
                if own.read != other.wrote || !(other.shut || other.dropped) {
                    return Err(BYTES);
                }
            }
            What::Knows { taken, acknowledged, answered } => {
                // An answer says how far its sender has received.
                let least = if answered { taken } else { 0 };
                if taken != own.wrote || acknowledged > taken || acknowledged < least {
                    return Err(BYTES);
                }
            }
            What::Shuts => own.shut = true,
            What::Closed if own.in_vain => return Err(TOLD),
            // Its user reads no more, though there may be more. A close that was dropped may have been made.
            What::Closed | What::Dropped('x') => {
                if !own.read_end {
                    (own.dropped, line.may_fail) = (true, true);
                }
            }
            // A connection that was given up may stand by then.
            What::Drops | What::Dropped('c') => (own.dropped, line.may_fail) = (true, true),
            What::Aborts => line.may_fail = true,
            What::AbortsAll => self.lines.values_mut().for_each(|line| line.may_fail = true),
            What::StopsListening => self.stopped = true,
            // The stream is as it was, but where it was to begin or to end.
            What::Fails(letter, Why::TimedOut) if self.impatient => {
                line.may_fail |= matches!(letter, 'c' | 'x')
            }
            What::Fails(..) => {
                if !(line.may_fail || self.stopped && !line.accepted) {
                    return Err(UNBROKEN);
                }
            }
            What::Dropped(_) => {}
        }
        Ok(())
    }

    fn open(&self) -> u64 {
        self.begun.iter().sum::<u64>() - self.done.iter().sum::<u64>()
    }
}

impl Oracles for CallOracles {
    type Event = Event;

    fn promises(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            (
                BYTES,
                "bytes out are bytes in, in order, once, whichever calls bring them and whichever are dropped",
            ),
            (UNBROKEN, "no stream fails unless a user ends it"),
            (TOLD, "no close succeeds of what nobody can read any more"),
            (PROGRESS, "once faults stop, every call ends"),
        ]
    }

    fn observe(&mut self, event: &Event, broken: &mut dyn FnMut(Violation)) {
        if let Err(oracle) = self.look(event) {
            broken(Violation { oracle, at: Nanos::ZERO, text: event.to_string() });
        }
    }

    fn ended(&self) -> u64 {
        self.done.iter().sum()
    }

    fn unended(&self) -> u64 {
        self.open()
    }

    fn finish(&mut self, at: Nanos, _: Nanos) -> Vec<Violation> {
        let nodes = (0..2).filter(|node| self.begun[*node] > self.done[*node]);
        let text = |node| format!("a script of n{node} does not end");
        nodes.map(|node| Violation { oracle: PROGRESS, at, text: text(node) }).collect()
    }

    fn state(&self, mut to: &mut dyn Hasher) {
        (&self.lines, self.begun, self.done, self.stopped).hash(&mut to);
    }
}

impl Explored for CallOracles {
    /// What is judged happens in the order of causes, but for one thing: whether who has read the end writes before or after the other user's
    /// close without an end read returns. Of these two orders, which differ in nothing else, one may be judged alone.
    fn access(_: &Event) -> Option<AccessKind> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle;

    fn said(history: &[(u32, What)]) -> Vec<&'static str> {
        let event = |&(node, what): &(u32, What)| Event { node, stream: 0, what };
        let said = oracle::said(&mut CallOracles::default(), history.iter().map(event));
        said.iter().map(|broken| broken.oracle).collect()
    }

    const WRITES: (u32, What) = (0, What::Writes(24));
    const READS: (u32, What) = (1, What::Reads { bytes: 24, right: true });

    #[test]
    fn bytes_that_are_lost_surplus_wrong_or_behind_the_end_are_told() {
        let shuts = (0, What::Shuts);
        let end = (1, What::ReadsEnd);
        assert_eq!(said(&[WRITES, READS, shuts, end]), [""; 0]);
        assert_eq!(said(&[WRITES, shuts, end]), [BYTES], "lost");
        assert_eq!(said(&[WRITES, READS, READS]), [BYTES], "surplus");
        assert_eq!(said(&[WRITES, (1, What::Reads { bytes: 24, right: false })]), [BYTES]);
        assert_eq!(said(&[WRITES, READS, end]), [BYTES], "nobody has said that it is the end");
        assert_eq!(said(&[shuts, end, WRITES, READS]), [BYTES]);
    }

    #[test]
    fn what_is_acknowledged_was_written_and_is_at_least_what_was_answered() {
        let told = |taken, acknowledged, answered| (0, What::Knows { taken, acknowledged, answered });
        let knows = |taken, acknowledged| told(taken, acknowledged, false);
        assert_eq!(said(&[WRITES, knows(24, 0)]), [""; 0]);
        assert_eq!(said(&[WRITES, knows(24, 25)]), [BYTES]);
        assert_eq!(said(&[WRITES, knows(23, 0)]), [BYTES]);
        assert_eq!(said(&[WRITES, told(24, 24, true)]), [""; 0]);
        assert_eq!(said(&[WRITES, told(24, 0, true)]), [BYTES]);
    }

    #[test]
    fn a_failure_that_nobody_caused_a_loss_that_nobody_is_told_of_and_a_call_without_an_end_are_told() {
        let fails = (0, What::Fails('r', Why::Reset));
        assert_eq!(said(&[fails]), [UNBROKEN]);
        for cause in [What::Aborts, What::AbortsAll, What::Drops, What::StopsListening] {
            assert_eq!(said(&[(1, cause), fails]), [""; 0]);
        }
        assert_eq!(said(&[(1, What::Accepts), (1, What::StopsListening), fails]), [UNBROKEN]);
        let dropped = [(1, What::Drops), (0, What::ReadsEnd), WRITES];
        assert_eq!(said(&[&dropped[..], &[(0, What::Closed)]].concat()), [TOLD]);
        assert_eq!(said(&[&dropped[..], &[fails]].concat()), [""; 0]);
        assert_eq!(said(&[(0, What::Begins)]), [PROGRESS]);
        assert_eq!(said(&[(0, What::Begins), (0, What::Done)]), [""; 0]);
    }
}
