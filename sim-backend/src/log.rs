//! The event log: what happened, one line an event, the same bytes for the same run.
//!
//! A line is the virtual time in nanoseconds, the node, the kind of event and its details:
//!
//! ```text
//!         4070 n1   rx       qp=17 psn=5 send
//! ```
//!
//! The plain log is the truth; `tracing` events, timelines and captures are made beside it or from it. A
//! running digest of the same events compares two runs without keeping either. It is made from values where it can
//! be: text is what most of a run's time would go into.

mod digest;
pub(crate) mod entry;
#[cfg(test)]
mod tests;

use crate::NodeId;
use digest::Digest;
use std::fmt::{self, Write as _};
use std::hash::Hash;
use std::io;
use weft_verbs::Nanos;

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
    /// A byte stream beside the fabric did something.
    Stream,
    /// A disk did something.
    Disk,
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
            Kind::Stream => "stream",
            Kind::Disk => "disk",
            Kind::Object => "object",
            Kind::Fault => "fault",
            Kind::Note => "note",
        }
    }
}

/// A line of the log, as text without its end.
#[derive(Debug)]
pub struct Line<D> {
    /// When, in virtual time.
    pub at: Nanos,
    /// On which node.
    pub node: NodeId,
    /// What it tells of.
    pub kind: Kind,
    /// The rest, without a line break.
    pub details: D,
}

impl<D: fmt::Display> fmt::Display for Line<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { at, node, kind, details } = self;
        write!(f, "{:>12} n{:<3} {:<8} {details}", at.0, node.0, kind.name())
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
    /// Whether anybody reads the text.
    read: bool,
    sink: Sink,
    line: String,
    lines: u64,
    digest: Digest,
    /// By node: what came to it, in its order.
    orders: Vec<Digest>,
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
        let (read, digest) = (trace || !matches!(sink, Sink::Nowhere), Digest::default());
        Log {
            on: true,
            trace,
            read,
            sink,
            line: String::new(),
            lines: 0,
            digest,
            orders: Vec::new(),
            failed: None,
        }
    }

    /// Whether lines go anywhere. Ask before work that only the log needs.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Adds a line of a kind that is rare. `details` has no line break.
    #[inline]
    pub fn line(&mut self, at: Nanos, node: NodeId, kind: Kind, details: fmt::Arguments<'_>) {
        if self.on {
            self.say(at, node, kind, details);
        }
    }

    /// Adds a line whose details are values. Different values of one kind of line must be different texts, and
    /// the other way round: the digest is made from the values.
    #[inline]
    pub(crate) fn entry(
        &mut self,
        at: Nanos,
        node: NodeId,
        kind: Kind,
        details: &(impl fmt::Display + Hash),
    ) {
        if self.on {
            self.begin(at, node, kind);
            details.hash(&mut self.digest);
            if self.read {
                self.write(at, node, kind, format_args!("{details}"));
            }
        }
    }

    #[cold]
    fn say(&mut self, at: Nanos, node: NodeId, kind: Kind, details: fmt::Arguments<'_>) {
        self.begin(at, node, kind);
        // A digest takes any text.
        let _ = self.digest.write_fmt(details);
        self.digest.end_text();
        if self.read {
            self.write(at, node, kind, details);
        }
    }

    fn begin(&mut self, at: Nanos, node: NodeId, kind: Kind) {
        self.lines += 1;
        self.digest.mix(at.0);
        self.digest.mix(u64::from(node.0) << 8 | kind as u64);
    }

    #[cold]
    fn write(&mut self, at: Nanos, node: NodeId, kind: Kind, details: fmt::Arguments<'_>) {
        self.line.clear();
        // Writing to a string cannot fail.
        let _ = writeln!(self.line, "{}", Line { at, node, kind, details });
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

    /// A digest of all lines so far, wherever they go. Equal logs have equal digests; that different ones differ
    /// is likely, not certain.
    pub fn digest(&self) -> u64 {
        self.digest.value()
    }

    /// Something came to a node that its further course can depend on: a packet of a queue pair, say.
    #[inline]
    pub(crate) fn came(&mut self, node: NodeId, what: u64) {
        if self.on {
            let node = node.index();
            if node >= self.orders.len() {
                self.orders.resize_with(node + 1, Digest::default);
            }
            self.orders[node].mix(what);
        }
    }

    /// A digest of the orders in which packets and steps came to each node so far. It is the same for two runs that differ
    /// in times alone, in values, or in which of two events at different nodes was earlier where neither led to the other.
    pub fn order(&self) -> u64 {
        let mut all = Digest::default();
        self.orders.iter().for_each(|of| all.mix(of.value()));
        all.value()
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
