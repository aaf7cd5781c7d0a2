//! The event log: what happened, one line an event, the same bytes for the same run.
//!
//! A line is the virtual time in nanoseconds, the node, the kind of event and its details:
//!
//! ```text
//!         4070 n1   rx       qp=17 psn=5 send
//! ```
//!
//! The plain log is the truth; `tracing` events, timelines and captures are made beside it or from it. A
//! running digest of the lines compares two runs without keeping either.

use crate::NodeId;
use std::fmt::{self, Write as _};
use std::io;
use verbs_trait::Nanos;

/// What a line tells of. Its name is the line's third column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A node's processor took a step.
    Step,
    /// A node posted a work request.
    Post,
    /// A packet left an adapter.
    Tx,
    /// A packet arrived and was accepted.
    Rx,
    /// A packet was lost, and why.
    Drop,
    /// A packet arrived and its receiver ignored it: a duplicate, out of sequence, for nobody.
    Ignore,
    /// A packet was delayed, doubled or damaged by a fault.
    Disturb,
    /// A responder executed a request on memory.
    Execute,
    /// A completion was put into a queue.
    Complete,
    /// A node took completions.
    Poll,
    /// A node armed a completion queue.
    Arm,
    /// A completion channel got an event.
    Event,
    /// A parked node was woken.
    Wake,
    /// A timer fired.
    Timer,
    /// A queue pair changed its state.
    State,
    /// An asynchronous event was raised.
    Async,
    /// The connection manager did something.
    Cm,
    /// An object was made or destroyed.
    Object,
    /// A fault struck or ended.
    Fault,
    /// A remark of a node's program.
    Note,
}

impl Kind {
    /// The name in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Step => "step",
            Kind::Post => "post",
            Kind::Tx => "tx",
            Kind::Rx => "rx",
            Kind::Drop => "drop",
            Kind::Ignore => "ignore",
            Kind::Disturb => "disturb",
            Kind::Execute => "execute",
            Kind::Complete => "complete",
            Kind::Poll => "poll",
            Kind::Arm => "arm",
            Kind::Event => "event",
            Kind::Wake => "wake",
            Kind::Timer => "timer",
            Kind::State => "state",
            Kind::Async => "async",
            Kind::Cm => "cm",
            Kind::Object => "object",
            Kind::Fault => "fault",
            Kind::Note => "note",
        }
    }
}

/// Where lines go.
enum Sink {
    /// Nowhere; they are digested only.
    Nowhere,
    Memory(Vec<u8>),
    Write(Box<dyn io::Write>),
}

/// The event log of one world.
pub struct Log {
    /// Whether anything at all is to be done with a line: the one branch of a log that is off.
    on: bool,
    trace: bool,
    sink: Sink,
    line: String,
    lines: u64,
    digest: Digest,
    failed: Option<io::Error>,
}

impl Log {
    /// No log. Events are still offered to `tracing` if somebody listens for target `weft::fabric` now.
    pub fn off() -> Log {
        let trace = tracing::enabled!(target: "weft::fabric", tracing::Level::DEBUG);
        Log { on: trace, ..Log::with(Sink::Nowhere) }
    }

    /// Lines are digested and thrown away.
    pub fn digest_only() -> Log {
        Log::with(Sink::Nowhere)
    }

    /// Lines are kept in memory until [`Log::take`].
    pub fn memory() -> Log {
        Log::with(Sink::Memory(Vec::new()))
    }

    /// Lines are written as they come. Give it a buffered writer.
    pub fn to(writer: Box<dyn io::Write>) -> Log {
        Log::with(Sink::Write(writer))
    }

    fn with(sink: Sink) -> Log {
        let trace = tracing::enabled!(target: "weft::fabric", tracing::Level::DEBUG);
        Log { on: true, trace, sink, line: String::new(), lines: 0, digest: Digest::default(), failed: None }
    }

    /// Whether lines go anywhere. Ask before work that only the log needs.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Adds a line. `details` has no line break.
    #[inline]
    pub fn line(&mut self, at: Nanos, node: NodeId, kind: Kind, details: fmt::Arguments<'_>) {
        if self.on {
            self.write(at, node, kind, details);
        }
    }

    #[cold]
    fn write(&mut self, at: Nanos, node: NodeId, kind: Kind, details: fmt::Arguments<'_>) {
        self.line.clear();
        // Writing to a string cannot fail.
        let _ = writeln!(self.line, "{:>12} n{:<3} {:<8} {details}", at.0, node.0, kind.name());
        self.lines += 1;
        self.digest.add(self.line.as_bytes());
        match &mut self.sink {
            Sink::Nowhere => {}
            Sink::Memory(kept) => kept.extend_from_slice(self.line.as_bytes()),
            Sink::Write(writer) => {
                if self.failed.is_none() {
                    self.failed = writer.write_all(self.line.as_bytes()).err();
                }
            }
        }
        if self.trace {
            tracing::debug!(target: "weft::fabric", t = at.0, node = node.0, kind = kind.name(), "{details}");
        }
    }

    /// How many lines there have been.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// A digest of all lines so far. Equal logs have equal digests; that different ones differ is likely,
    /// not certain.
    pub fn digest(&self) -> u64 {
        self.digest.0
    }

    /// Takes the lines kept in memory; empty for other logs.
    pub fn take(&mut self) -> Vec<u8> {
        match &mut self.sink {
            Sink::Memory(kept) => std::mem::take(kept),
            _ => Vec::new(),
        }
    }

    /// Flushes the writer. An error of any line so far comes out here: a log that lost lines is no log.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        match &mut self.sink {
            Sink::Write(writer) => writer.flush(),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("on", &self.on).field("lines", &self.lines).finish_non_exhaustive()
    }
}

/// A 64-bit running digest of a sequence of lines: eight bytes a step, a multiplication and a rotation each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Digest(u64);

impl Default for Digest {
    fn default() -> Digest {
        Digest(0x9e37_79b9_7f4a_7c15)
    }
}

impl Digest {
    fn add(&mut self, line: &[u8]) {
        self.mix(line.len() as u64);
        for chunk in line.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn mix(&mut self, word: u64) {
        // The product's two halves folded together, so that high bits reach low ones.
        let product = u128::from(self.0.rotate_left(23) ^ word) * 0xd6e8_feb8_6659_fd93_u128;
        self.0 = (product as u64) ^ (product >> 64) as u64 ^ 0x2545_f491_4f6c_dd1d;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_lines(log: &mut Log) {
        log.line(Nanos(4_070), NodeId(1), Kind::Rx, format_args!("qp={} psn={}", 17, 5));
        log.line(Nanos(1_234_567_890_123_456), NodeId(1_023), Kind::Complete, format_args!("wr=9 ok"));
    }

    const TEXT: &str = "        4070 n1   rx       qp=17 psn=5\n\
                        1234567890123456 n1023 complete wr=9 ok\n";

    #[test]
    fn lines_have_one_form_to_the_byte() {
        let mut log = Log::memory();
        some_lines(&mut log);
        assert_eq!((String::from_utf8(log.take()).unwrap().as_str(), log.lines()), (TEXT, 2));
        assert!(log.take().is_empty());
    }

    #[test]
    fn all_sinks_agree_on_the_digest() {
        let (mut a, mut b, mut c) = (Log::memory(), Log::digest_only(), Log::to(Box::new(io::sink())));
        for log in [&mut a, &mut b, &mut c] {
            some_lines(log);
        }
        assert_eq!((a.digest(), b.digest()), (b.digest(), c.digest()));
        assert_ne!(a.digest(), Log::memory().digest());
    }

    #[test]
    fn the_digest_sees_every_byte_and_every_boundary() {
        let digest = |lines: &[&str]| {
            let mut d = Digest::default();
            lines.iter().for_each(|l| d.add(l.as_bytes()));
            d.0
        };
        let all = [
            digest(&["abc\n", "de\n"]),
            digest(&["abc\nde\n"]),
            digest(&["abd\n", "de\n"]),
            digest(&["de\n", "abc\n"]),
            digest(&["abc\n"]),
            digest(&["abc\n", "de\n", ""]),
            digest(&["abc\0\n", "de\n"]),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(!all[i + 1..].contains(a), "{i}");
        }
    }

    #[test]
    fn a_log_that_is_off_formats_nothing() {
        struct Trap;
        impl fmt::Display for Trap {
            fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                panic!("formatted")
            }
        }
        let mut log = Log::off();
        log.line(Nanos(1), NodeId(0), Kind::Note, format_args!("{Trap}"));
        assert_eq!((log.lines(), log.is_on()), (0, false));
    }

    #[test]
    fn a_writer_that_fails_is_told() {
        struct Full;
        impl io::Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::other("disk full"))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut log = Log::to(Box::new(Full));
        some_lines(&mut log);
        assert_eq!(log.finish().unwrap_err().to_string(), "disk full");
    }
}
