//! What is measured of streams: what became of requests, how long they took, how many bytes arrived.

use super::history::{Event, What};
use crate::history::{HistoryEvent, RequestId};
use crate::metrics::Times;
use crate::record::Meter;
use std::collections::BTreeMap;
use weft_verbs::Nanos;

/// Counts requests and bytes, and takes times.
#[derive(Clone, Debug, Default)]
pub struct SdpMeter {
    /// Requests that got their answer.
    pub answered: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Bytes that users read, at either end.
    pub bytes: u64,
    /// From a call of `connect` to its return.
    pub connects: Times,
    /// From the beginning of a request until the server has read all of it.
    pub deliveries: Times,
    /// From the beginning of a request to the end of its answer.
    pub requests: Times,
    /// The longest wait for the next bytes in the middle of a request: a link that breaks is seen there.
    pub stalls: Times,
    began: BTreeMap<RequestId, Nanos>,
}

impl Meter<Event> for SdpMeter {
    fn measure(&mut self, event: &Event) {
        let since = self.began.get(&event.request).copied();
        let took = since.map(|since| Nanos(event.at().0.saturating_sub(since.0)));
        let times = match event.what {
            What::Asks { .. } => {
                self.began.insert(event.request, event.at());
                return;
            }
            What::Connected => &mut self.connects,
            What::Took { bytes, stall_ns, .. } => {
                self.stalls.add(Nanos(stall_ns));
                self.bytes += u64::from(bytes);
                &mut self.deliveries
            }
            What::Answered { bytes, .. } => {
                self.bytes += u64::from(bytes);
                self.answered += 1;
                self.began.remove(&event.request);
                &mut self.requests
            }
            What::Fails(_) => {
                self.failed += 1;
                self.began.remove(&event.request);
                return;
            }
            What::Moved { .. } | What::Surplus | What::Breaks(_) => return,
            What::Restarts | What::Crashes => return,
        };
        if let Some(took) = took {
            times.add(took);
        }
    }
}
