//! Open files: what a client has opened it has until it closes it, also when nothing has its name any more, and when its home begins anew.

use super::super::history::{Call, Event, What};
use crate::history::RequestId;
use crate::oracle::Oracle;
use std::collections::BTreeMap;

/// The oracle of open files.
#[derive(Clone, Debug, Default, Hash)]
pub struct Opened {
    /// Nobody promises it: a guest is forgotten when its lease ends, and by byte streams a server knows a client by its stream.
    pub(super) unpromised: bool,
    /// A server has come back that knows nothing of what was.
    forgotten: bool,
    /// Creates that have not returned, and whether the home has begun anew since: it may have made the file before, and others may have
    /// removed it before anybody knew that somebody has it open.
    creates: BTreeMap<RequestId, bool>,
}

impl Opened {
    /// A node has begun anew; all may be gone with it.
    pub fn restarted(&mut self, node: u32, is_home: bool, all_gone: bool) {
        self.forgotten |= all_gone;
        self.creates.retain(|request, _| request.client.node != node);
        self.creates.values_mut().for_each(|anew| *anew |= is_home);
    }
}

impl Oracle<Event> for Opened {
    fn name(&self) -> &'static str {
        "open files"
    }

    fn promise(&self) -> &'static str {
        "a file that is open stays so until it is closed"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        match event.what {
            What::Calls(Call::Create(_)) => {
                self.creates.insert(event.request, false);
                return Ok(());
            }
            What::Restarted => return Ok(()),
            _ => {}
        }
        let amid_a_restart = self.creates.remove(&event.request).unwrap_or(false);
        // No client uses what it has not opened, or has closed.
        let is_excused = self.unpromised || self.forgotten || amid_a_restart;
        match event.what == What::Stale && !is_excused {
            true => Err(event.to_string()),
            false => Ok(()),
        }
    }
}
