//! A run's event log, with what the fabric does not know: what clients see, and what addresses mean.
//!
//! The fabric writes its lines here. A client's event is a `note` among them. Behind a line that says what was executed on memory,
//! and `; `, stands the same in words, if the system has a name for the address. A service can only be asked for names while
//! nothing runs, so lines wait for the end of the slice of the run in which they were written.

use crate::history::HistoryEvent;
use crate::named::{Executed, Naming};
use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::rc::Rc;
use weft_sim::NodeId;
use weft_sim::log::{Kind, Line};

/// A run's event log. Clones are the same log.
#[derive(Clone)]
pub struct EventLog(Rc<RefCell<Lines>>);

struct Lines {
    /// Lines that were not written yet.
    waiting: String,
    to: Box<dyn io::Write>,
    failed: Option<io::Error>,
}

impl EventLog {
    /// A log that is written there.
    pub fn new(to: Box<dyn io::Write>) -> EventLog {
        EventLog(Rc::new(RefCell::new(Lines { waiting: String::new(), to, failed: None })))
    }

    /// A client sees something.
    pub fn note(&self, event: &impl HistoryEvent) {
        let (at, node, details) = (event.at(), NodeId(event.node()), event.to_string());
        let line = Line { at, node, kind: Kind::Note, details: &details };
        // Writing to a string cannot fail.
        let _ = writeln!(self.0.borrow_mut().waiting, "{line}");
    }

    /// Writes what waits, with names.
    pub fn write(&self, named: Naming<'_>) {
        let Lines { waiting, to, failed } = &mut *self.0.borrow_mut();
        for line in std::mem::take(waiting).lines() {
            let words = in_words(line, named).map_or(String::new(), |words| format!(" ; {words}"));
            if failed.is_none() {
                *failed = writeln!(to, "{line}{words}").err();
            }
        }
    }
}

/// What a line says that was executed, if there is a name for where.
fn in_words(line: &str, named: Naming<'_>) -> Option<String> {
    let (head, details) = line.split_once(" execute ")?;
    let executed = Executed::parse(details.trim_start())?;
    let node = NodeId::from_name(head.split_whitespace().nth(1)?)?;
    let name = named(node.0, executed.at)?;
    Some(executed.words(Some(&name)))
}

impl io::Write for EventLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().waiting.push_str(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    /// The last lines have no names.
    fn flush(&mut self) -> io::Result<()> {
        EventLog::write(self, &|_, _| None);
        let Lines { to, failed, .. } = &mut *self.0.borrow_mut();
        failed.take().map_or_else(|| to.flush(), Err)
    }
}
