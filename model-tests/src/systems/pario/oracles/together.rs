//! Groups: nobody leaves a barrier before all have come to it.

use super::super::history::{Call, Event, What};
use crate::history::{ClientId, RequestId};
use crate::oracle::Oracle;
use std::collections::{BTreeMap, BTreeSet};

/// The oracle of barriers.
#[derive(Clone, Debug, Default, Hash)]
pub struct Together {
    /// Who has come to each barrier.
    come: BTreeMap<u32, BTreeSet<ClientId>>,
    /// The calls that have not returned: which barrier, and how many members there are.
    open: BTreeMap<RequestId, (u32, u32)>,
}

impl Oracle<Event> for Together {
    fn name(&self) -> &'static str {
        "together"
    }

    fn promise(&self) -> &'static str {
        "nobody leaves a barrier before all members have come to it"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        if let What::Calls(Call::Meet(barrier, members)) = event.what {
            self.come.entry(barrier).or_default().insert(event.request.client);
            self.open.insert(event.request, (barrier, members));
            return Ok(());
        }
        let Some((barrier, members)) = self.open.remove(&event.request) else { return Ok(()) };
        let come = self.come.get(&barrier).map_or(0, BTreeSet::len);
        match event.what == What::Done && come < members as usize {
            true => Err(format!("{event} with {come} of {members} there")),
            false => Ok(()),
        }
    }
}
