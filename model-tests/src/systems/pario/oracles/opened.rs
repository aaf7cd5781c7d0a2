//! Open files: what a client has opened it has until it closes it, also when nothing has its name any more, and when its home begins anew.

use super::super::history::{Event, Timeless, What};
use crate::oracle::Oracle;

/// The oracle of open files.
#[derive(Clone, Debug, Default, Hash)]
pub struct Opened {
    /// Nobody promises it: a guest is forgotten when its lease ends, and by byte streams a server knows a client by its stream.
    pub(super) unpromised: bool,
    /// A server has come back that knows nothing of what was.
    pub(super) forgotten: bool,
}

impl Oracle<Event> for Opened {
    fn name(&self) -> &'static str {
        "open files"
    }

    fn promise(&self) -> &'static str {
        "a file that is open stays so until it is closed"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        // No client uses what it has not opened, or has closed.
        match event.what == What::Stale && !self.unpromised && !self.forgotten {
            true => Err(Timeless(event).to_string()),
            false => Ok(()),
        }
    }
}
