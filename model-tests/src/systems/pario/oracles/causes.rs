//! Causes: a call fails by what may have happened, and says so by no other word.
//!
//! What only looks is asked until it is answered. So is what changes names, where their home has a log: it knows its clients again. Of all else
//! nobody knows what became of it once a server has begun anew, or where a stream has broken. When a disk fails no oracle sees: without a
//! fault nothing is to fail at all ([`Causes::first`]).

use super::super::history::{Call, Event, What, Why};
use crate::history::{HistoryEvent, RequestId};
use crate::oracle::{Oracle, Violation, unexplained};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// Where a file of the largest size ends.
const LARGEST: u64 = 1 << 63;

/// The oracle of causes.
#[derive(Clone, Debug, Default)]
pub struct Causes {
    /// Calls about names are asked again, since their home has a log of them.
    pub(super) asks_again: bool,
    /// Streams break, and then nobody knows what became of a call.
    pub(super) by_stream: bool,
    /// From this node on there are guests, which a server may forget.
    pub(super) guests: Option<u32>,
    /// Members of groups call together, which a server that begins anew knows nothing of.
    pub(super) together: bool,
    /// A server has begun anew.
    anew: bool,
    open: BTreeMap<RequestId, Call>,
    /// The first call that has failed, whatever explains it.
    failed: Option<Violation>,
}

impl Causes {
    /// A node has begun anew, a server or not: its clients' calls never end.
    pub(super) fn restarted(&mut self, node: u32, serves: bool) {
        self.anew |= serves;
        self.open.retain(|request, _| request.client.node != node);
    }

    /// The first call that has failed as none does without a fault.
    pub(super) fn first(&self) -> Option<Violation> {
        self.failed.clone()
    }

    fn may_say(&self, call: Call, node: u32, what: &What) -> bool {
        match what {
            What::Exists => matches!(call, Call::Create(_) | Call::MakeDirectory(_)),
            What::NotFound => is_of_name(call),
            What::Lost => matches!(call, Call::Sync(_) | Call::Close(_)),
            What::Failed(Why::Unknown) => self.may_be_unknown(call, node),
            What::Failed(Why::Disk | Why::Full) => true,
            What::Failed(Why::Member) => self.together,
            What::Failed(Why::TooFar) => is_too_far(call),
            What::Failed(Why::Replaced) => call.is_of_bytes(),
            What::Failed(Why::Other(_)) => false,
            _ => true,
        }
    }

    /// Whether a call has failed as none does without a fault. A guest that rests for longer than its lease is forgotten.
    fn is_failure(&self, node: u32, what: &What) -> bool {
        match what {
            What::Lost => true,
            What::Failed(Why::Unknown) => !self.is_guest(node),
            What::Failed(why) => !matches!(why, Why::TooFar | Why::Replaced | Why::Full),
            _ => false,
        }
    }

    fn is_guest(&self, node: u32) -> bool {
        self.guests.is_some_and(|first| node >= first)
    }

    fn may_be_unknown(&self, call: Call, node: u32) -> bool {
        let is_guest = self.is_guest(node);
        let is_lost = self.anew || is_guest || self.by_stream;
        match call {
            Call::Open(_) => self.together && self.anew,
            Call::Stat(_) | Call::List | Call::Close(_) => false,
            Call::Create(_) if self.together => self.anew,
            Call::Create(_) | Call::Unlink(_) | Call::Rename(..) | Call::Say(_) | Call::MakeDirectory(_) => {
                is_lost && (is_guest || !self.asks_again)
            }
            Call::Sync(_)
            | Call::Write(_)
            | Call::Read(_)
            | Call::Append(..)
            | Call::Truncate(..)
            | Call::Meet(..)
            | Call::CutBy(..) => is_lost,
        }
    }
}

/// Whether a call is about a name, which may be that of no file.
fn is_of_name(call: Call) -> bool {
    matches!(
        call,
        Call::Create(_) | Call::Open(_) | Call::Stat(_) | Call::Say(_) | Call::Unlink(_) | Call::Rename(..)
    )
}

/// Whether no file has all bytes that are to be written.
fn is_too_far(call: Call) -> bool {
    let Call::Write(cells) = call else { return false };
    let end = |first: u64| (first + u64::from(cells.cells)).checked_mul(cells.bytes.into());
    cells.rows().any(|first| end(first).is_none_or(|end| end > LARGEST))
}

impl Hash for Causes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.anew, &self.open, self.failed.is_some()).hash(state);
    }
}

impl Oracle<Event> for Causes {
    fn name(&self) -> &'static str {
        "causes"
    }

    fn promise(&self) -> &'static str {
        "no call fails that nothing has happened to"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        if let What::Calls(call) = event.what {
            self.open.insert(event.request, call);
            return Ok(());
        }
        let Some(call) = self.open.remove(&event.request) else { return Ok(()) };
        let text = || unexplained(&format!("{event} ({call})"));
        if self.is_failure(event.node(), &event.what) {
            self.failed.get_or_insert_with(|| Violation { oracle: "causes", at: event.at(), text: text() });
        }
        if self.may_say(call, event.node(), &event.what) { Ok(()) } else { Err(text()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::history::Cells;
    use super::*;
    use crate::history::ClientId;

    const CELLS: Cells = Cells { file: 1, first: 4, cells: 2, rows: 1, stride: 0, bytes: 32 };

    /// Whether a call of a node may end so, after a server began anew or not.
    fn may_end(mut causes: Causes, anew: bool, node: u32, call: Call, what: What) -> bool {
        if anew {
            causes.restarted(0, true);
        }
        let request = RequestId { client: ClientId { node, index: 0 }, number: 0 };
        let [calls, ends] = [What::Calls(call), what].map(|what| Event { at_ns: 7, request, what });
        causes.observe(&calls).is_ok() && causes.observe(&ends).is_ok()
    }

    #[test]
    fn nobody_knows_what_became_of_bytes_once_a_server_has_begun_anew_and_of_names_where_they_are_lost() {
        let on_disk = || Causes { asks_again: true, ..Causes::default() };
        let unknown =
            |causes, anew, node, call| may_end(causes, anew, node, call, What::Failed(Why::Unknown));
        for bytes in [Call::Write(CELLS), Call::Read(CELLS), Call::Sync(1), Call::Truncate(1, 0, 32)] {
            assert!(unknown(on_disk(), true, 1, bytes) && !unknown(on_disk(), false, 1, bytes), "{bytes}");
            assert!(unknown(Causes { by_stream: true, ..on_disk() }, false, 1, bytes), "{bytes}");
        }
        for name in [Call::Create(0), Call::Unlink(0), Call::Rename(0, 1), Call::Say(0)] {
            assert!(!unknown(on_disk(), true, 1, name), "{name}: its home has a log");
            assert!(!unknown(Causes { by_stream: true, ..on_disk() }, true, 1, name), "{name}");
            assert!(unknown(Causes::default(), true, 1, name), "{name}: it is in memory");
            let with_guests = || Causes { guests: Some(1), ..on_disk() };
            assert!(unknown(with_guests(), false, 1, name) && !unknown(with_guests(), true, 0, name));
        }
        for look in [Call::Open(0), Call::Stat(0), Call::List, Call::Close(1)] {
            assert!(!unknown(Causes::default(), true, 1, look), "{look}: it is asked again");
        }
    }

    #[test]
    fn a_call_is_told_nothing_that_is_no_answer_to_it() {
        let may = |call, what| may_end(Causes::default(), true, 1, call, what);
        let (reads, writes) = (Call::Read(CELLS), Call::Write(CELLS));
        assert!(may(Call::Create(0), What::Exists) && !may(Call::Unlink(0), What::Exists));
        assert!(may(Call::Unlink(0), What::NotFound) && !may(reads, What::NotFound));
        assert!(may(Call::Close(1), What::Lost) && !may(writes, What::Lost));
        let far = Call::Write(Cells { first: LARGEST / 32, ..CELLS });
        assert!(may(far, What::Failed(Why::TooFar)) && !may(writes, What::Failed(Why::TooFar)));
        assert!(may(writes, What::Failed(Why::Disk)));
        assert!(!may(reads, What::Failed(Why::Other("nonsense".to_string()))));
    }
}
