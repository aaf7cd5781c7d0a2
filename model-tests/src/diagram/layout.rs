//! What goes where: columns, lines, and what begins and ends on which.

use crate::explore::{BandState, Run, TraceEvent};
use std::collections::BTreeMap;
use weft_sim::explore::Outcome;

/// A diagram in columns and lines, both counted from 0.
#[derive(Debug, Default)]
pub struct Layout {
    /// The columns' names.
    pub columns: Vec<String>,
    /// How many lines there are.
    pub lines: usize,
    /// The choices.
    pub choices: Vec<Choice>,
    /// What is said beside a node.
    pub notes: Vec<Note>,
    /// What went from node to node.
    pub packets: Vec<Packet>,
    /// How nodes stood to locks.
    pub bands: Vec<Band>,
    /// The bands' names: each has a lane beside every node.
    pub lanes: Vec<String>,
    /// The longest text of a line that is to fit between two columns.
    pub longest: usize,
}

/// One choice: its number, the lines that tell of it, and the fault that it was. Choices in a row that were steps and nothing that
/// is seen have a line together.
#[derive(Debug)]
pub struct Choice {
    pub number: usize,
    /// The number of the last that it stands for.
    pub last: usize,
    pub from: usize,
    pub to: usize,
    pub fault: Option<Outcome>,
    /// It was a step of a node, or nothing that is seen.
    is_bare: bool,
}

/// What is said beside a node.
#[derive(Debug)]
pub struct Note {
    pub line: usize,
    pub column: usize,
    pub kind: Kind,
    pub text: String,
}

/// What kind of thing a note tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Step,
    Completion,
    Fault,
    /// What a packet did where it arrived.
    Effect,
}

/// A packet: from where and when, to where, until when.
#[derive(Debug)]
pub struct Packet {
    pub from: (usize, usize),
    pub to: usize,
    pub text: String,
    pub end: End,
}

/// What became of a packet, and on which line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Arrived(usize),
    Lost(usize),
    /// It was still under way when the run ended.
    UnderWay,
}

/// How a node stood to a lock, from a line to another.
#[derive(Debug)]
pub struct Band {
    pub column: usize,
    pub lane: usize,
    pub state: BandState,
    pub from: usize,
    pub to: usize,
}

/// No text is longer than this many characters; the whole of it is shown when it is pointed at.
pub const MOST: usize = 110;

/// Columns are so far apart that texts of so many characters fit between them. A longer one runs over the next column's line: nothing else
/// is said on its own line.
const BETWEEN: usize = 52;

impl Layout {
    /// Places a run.
    pub fn of(run: &Run) -> Layout {
        let mut layout = Layout { columns: run.columns.clone(), ..Layout::default() };
        let mut open = Open::default();
        for (number, trace) in run.trace.iter().enumerate() {
            let from = layout.lines;
            let fault =
                run.choices.0.get(number).map(|step| step.outcome).filter(|outcome| outcome.is_fault());
            let is_bare = fault.is_none() && trace.iter().all(TraceEvent::is_step);
            if is_bare && number < run.choices.0.len() && layout.joins(number) {
                layout.step(trace);
                continue;
            }
            // A step speaks by what it does.
            let seen: Vec<&TraceEvent> = trace.iter().filter(|event| !event.is_step()).collect();
            for same in seen.chunk_by(|a, b| alike(a, b)) {
                layout.add(&together(same), &mut open);
            }
            if number < run.choices.0.len() {
                layout.lines = layout.lines.max(from + 1);
                let (number, to) = (number + 1, layout.lines);
                layout.choices.push(Choice { number, last: number, from, to, fault, is_bare });
                if is_bare {
                    layout.step(trace);
                }
            }
        }
        let end = layout.lines;
        open.bands.into_values().for_each(|band| layout.bands.push(Band { to: end, ..band }));
        layout.bands.retain(|band| band.state != BandState::Nothing);
        layout
    }

    /// Whether a bare choice has its line with the one before it, which then counts it.
    fn joins(&mut self, number: usize) -> bool {
        let Some(before) = self.choices.last_mut().filter(|before| before.is_bare) else { return false };
        before.last = number + 1;
        true
    }

    /// Steps of which nothing is seen: each node that took some has one mark on the last line.
    fn step(&mut self, trace: &[TraceEvent]) {
        let line = self.lines - 1;
        for event in trace {
            let TraceEvent::Step { node } = event else { continue };
            let column = *node as usize;
            if !self.notes.iter().rev().any(|note| note.line == line && note.column == column) {
                self.note(line, *node, Kind::Step, "runs");
            }
        }
    }

    fn add(&mut self, event: &TraceEvent, open: &mut Open) {
        let line = self.lines;
        match event {
            TraceEvent::Step { .. } => return,
            TraceEvent::Note { node, text } => self.note(line, *node, Kind::Step, text),
            TraceEvent::Completion { node, text } => self.note(line, *node, Kind::Completion, text),
            TraceEvent::Fault { nodes, text } => {
                nodes.iter().for_each(|node| self.note(line, *node, Kind::Fault, text));
            }
            TraceEvent::Send { packet, from, to, text } => {
                self.grow(*from);
                self.grow(*to);
                self.measure(text);
                open.packets.insert(*packet, self.packets.len());
                let from = (line, *from as usize);
                self.packets.push(Packet { from, to: *to as usize, text: text.clone(), end: End::UnderWay });
            }
            TraceEvent::Arrive { packet, text } => {
                let Some(index) = open.packets.remove(packet) else { return };
                self.packets[index].end = End::Arrived(line);
                let to = self.packets[index].to as u32;
                if !text.is_empty() {
                    self.note(line, to, Kind::Effect, text);
                }
            }
            TraceEvent::Lost { packet } => {
                let Some(index) = open.packets.remove(packet) else { return };
                self.packets[index].end = End::Lost(line);
            }
            TraceEvent::Band { node, of, state } => self.band(line, *node, of, state, open),
        }
        self.lines += 1;
    }

    fn note(&mut self, line: usize, node: u32, kind: Kind, text: &str) {
        self.grow(node);
        self.measure(text);
        self.notes.push(Note { line, column: node as usize, kind, text: text.to_string() });
    }

    fn band(&mut self, line: usize, node: u32, of: &str, state: &BandState, open: &mut Open) {
        self.grow(node);
        let lane = self.lanes.iter().position(|lane| lane == of).unwrap_or_else(|| {
            self.lanes.push(of.to_string());
            self.lanes.len() - 1
        });
        let column = node as usize;
        let band = Band { column, lane, state: state.clone(), from: line, to: line };
        if let Some(before) = open.bands.insert((column, lane), band) {
            self.bands.push(Band { to: line, ..before });
        }
    }

    fn grow(&mut self, node: u32) {
        for more in self.columns.len()..=node as usize {
            self.columns.push(format!("n{more}"));
        }
    }

    fn measure(&mut self, text: &str) {
        self.longest = self.longest.max(text.chars().count().min(BETWEEN));
    }
}

/// Whether two completions say the same, as those of a queue that is flushed do.
fn alike(a: &TraceEvent, b: &TraceEvent) -> bool {
    matches!(a, TraceEvent::Completion { .. }) && a == b
}

/// Things that say the same, as one.
fn together(same: &[&TraceEvent]) -> TraceEvent {
    match same[0] {
        TraceEvent::Completion { node, text } if same.len() > 1 => {
            TraceEvent::Completion { node: *node, text: format!("{text}, {} times", same.len()) }
        }
        one => one.clone(),
    }
}

/// What has begun and not ended.
#[derive(Default)]
struct Open {
    packets: BTreeMap<u64, usize>,
    bands: BTreeMap<(usize, usize), Band>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::{Choices, Step};
    use weft_sim::choice::EventId;
    use weft_sim::explore::FaultSet;

    fn note(node: u32, text: &str) -> TraceEvent {
        TraceEvent::Note { node, text: text.into() }
    }

    /// A step that does something that is seen has no word of its own, and steps of which nothing is seen have one line
    /// together: a reader of a diagram never goes through rows that say nothing.
    #[test]
    fn steps_in_a_row_of_which_nothing_is_seen_have_one_line() {
        let step = |node| TraceEvent::Step { node };
        let trace = vec![
            vec![step(0), note(0, "writes")],
            vec![step(0)],
            vec![step(1)],
            vec![step(1)],
            vec![],
            vec![step(1), note(1, "reads")],
            vec![],
        ];
        let choices = vec![Step { event: EventId(7), outcome: Outcome::Done }; 6];
        let columns = vec!["n0".into(), "n1".into()];
        let layout = Layout::of(&Run {
            choices: Choices(choices),
            violation: None,
            kinds: FaultSet::NONE,
            columns,
            trace,
        });
        let choices: Vec<_> = layout.choices.iter().map(|c| (c.number, c.last, c.from, c.to)).collect();
        assert_eq!(choices, [(1, 1, 0, 1), (2, 5, 1, 2), (6, 6, 2, 3)]);
        let notes: Vec<_> = layout.notes.iter().map(|n| (n.line, n.column, n.text.as_str())).collect();
        assert_eq!(notes, [(0, 0, "writes"), (1, 0, "runs"), (1, 1, "runs"), (2, 1, "reads")]);
    }
}
