//! What is measured of files: what became of calls, how long they took, and how much they moved.

use super::history::{Call, Event, What};
use crate::history::{HistoryEvent, RequestId};
use crate::metrics::Times;
use crate::record::Meter;
use std::collections::BTreeMap;
use weft_verbs::Nanos;

/// Counts calls by their ends, and takes the times from calls to returns.
#[derive(Clone, Debug, Default)]
pub struct PfMeter {
    /// Calls that returned what was asked for.
    pub served: u64,
    /// Calls that were told that a name is there, or is not, or that writes are lost.
    pub told: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Bytes that were written.
    pub written: u64,
    /// Bytes that were read, those beyond the file's end included.
    pub read: u64,
    /// How long writes took.
    pub writes: Times,
    /// How long reads took.
    pub reads: Times,
    /// How long it took to make and to open a file.
    pub opens: Times,
    /// How long all other calls took.
    pub others: Times,
    began: BTreeMap<RequestId, (Nanos, Call)>,
}

impl Meter<Event> for PfMeter {
    fn measure(&mut self, event: &Event) {
        if let What::Calls(call) = event.what {
            self.began.insert(event.request, (event.at(), call));
            return;
        }
        let Some((since, call)) = self.began.remove(&event.request) else { return };
        match event.what {
            // When it ends nobody knows.
            What::Dropped => return,
            What::Failed(_) | What::Stale => {
                self.failed += 1;
                return;
            }
            What::Exists | What::NotFound | What::Lost => self.told += 1,
            _ => self.served += 1,
        }
        let times = match call {
            Call::Write(cells) => {
                self.written += cells.len();
                &mut self.writes
            }
            Call::Read(cells) => {
                self.read += cells.len();
                &mut self.reads
            }
            Call::Create(_) | Call::Open(_) => &mut self.opens,
            Call::Unlink(_) | Call::List | Call::Stat(_) | Call::Say(_) | Call::Close(_) | Call::Sync(_) => {
                &mut self.others
            }
            Call::Append(_, cells, bytes) => {
                self.written += u64::from(cells) * u64::from(bytes);
                &mut self.writes
            }
            Call::Rename(..)
            | Call::MakeDirectory(_)
            | Call::Truncate(..)
            | Call::Meet(..)
            | Call::CutBy(..) => &mut self.others,
        };
        times.add(event.at() - since);
    }
}
