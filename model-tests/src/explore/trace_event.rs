//! What happened, as people read it: the lines of a log and the marks of a space-time diagram.

use std::fmt;

/// One thing that happened. Nodes are counted in the order of the world's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceEvent {
    /// A node's program took a step.
    Step {
        /// Whose.
        node: u32,
    },
    /// Something happened on a node.
    Note {
        /// Where.
        node: u32,
        /// What, in a few words.
        text: String,
    },
    /// A packet leaves.
    Send {
        /// Which one: its end has the same number.
        packet: u64,
        /// From where.
        from: u32,
        /// To where.
        to: u32,
        /// What it carries, in a few words.
        text: String,
    },
    /// A packet arrives.
    Arrive {
        /// Which one.
        packet: u64,
        /// What it did there, in a few words; may be empty.
        text: String,
    },
    /// A packet is lost.
    Lost {
        /// Which one.
        packet: u64,
    },
    /// A completion is told to a node's program.
    Completion {
        /// Whose.
        node: u32,
        /// What completed and how.
        text: String,
    },
    /// From now on a node stands to a lock (or whatever else is worth a band) like this.
    Band {
        /// Which node.
        node: u32,
        /// What the band is about, such as "lock 7".
        of: String,
        /// How it stands.
        state: BandState,
    },
    /// A fault strikes.
    Fault {
        /// Which nodes: a crash hits one, a cut two.
        nodes: Vec<u32>,
        /// What it is.
        text: String,
    },
}

impl TraceEvent {
    /// Whether it is a step, which says nothing beside what was done in it.
    pub fn is_step(&self) -> bool {
        matches!(self, TraceEvent::Step { .. })
    }
}

/// How a node stands to something that has bands in a diagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BandState {
    /// Not at all: the band ends.
    Nothing,
    /// It waits, such as for a grant.
    Waiting(String),
    /// It has it together with others.
    Shared(String),
    /// It has it alone.
    Exclusive(String),
}

impl fmt::Display for TraceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceEvent::Step { node } => write!(f, "n{node} takes a step"),
            TraceEvent::Note { node, text } => write!(f, "n{node} {text}"),
            TraceEvent::Send { packet, from, to, text } => {
                write!(f, "n{from} sends #{packet:x} to n{to}: {text}")
            }
            TraceEvent::Arrive { packet, text } if text.is_empty() => write!(f, "#{packet:x} arrives"),
            TraceEvent::Arrive { packet, text } => write!(f, "#{packet:x} arrives: {text}"),
            TraceEvent::Lost { packet } => write!(f, "#{packet:x} is lost"),
            TraceEvent::Completion { node, text } => write!(f, "n{node} is told: {text}"),
            TraceEvent::Band { node, of, state } => match state {
                BandState::Nothing => write!(f, "n{node} has nothing of {of} any more"),
                BandState::Waiting(how) | BandState::Shared(how) | BandState::Exclusive(how) => {
                    write!(f, "n{node} {how} {of}")
                }
            },
            TraceEvent::Fault { nodes, text } => {
                write!(f, "fault")?;
                nodes.iter().try_for_each(|node| write!(f, " n{node}"))?;
                write!(f, ": {text}")
            }
        }
    }
}
