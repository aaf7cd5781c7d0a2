//! What is measured of shared segments: what became of calls, and how long they took.

use super::history::{Event, Value, What, Why};
use crate::history::{HistoryEvent, RequestId, Stage};
use crate::metrics::Times;
use crate::record::Meter;
use std::collections::BTreeMap;
use weft_verbs::Nanos;

/// Counts calls by their ends, and takes the times from calls to returns.
#[derive(Clone, Debug, Default)]
pub struct DdssMeter {
    /// Gets that returned a value.
    pub got: u64,
    /// Gets that found the version that the client had.
    pub unchanged: u64,
    /// Gets that returned a mixture of values.
    pub torn: u64,
    /// Puts that returned.
    pub put: u64,
    /// Exchanges under the lock that were carried out.
    pub exchanged: u64,
    /// Exchanges that found the lock taken, and only tried.
    pub locked: u64,
    /// Segments that were released.
    pub released: u64,
    /// Calls that found their segment released.
    pub gone: u64,
    /// Calls that found the home of their segment dead.
    pub lost: u64,
    /// Puts that are not told whether they were published.
    pub unknown: u64,
    /// Gets that found the segment's home too slow for its model.
    pub slow: u64,
    /// Calls that failed otherwise.
    pub failed: u64,
    /// How long gets took.
    pub gets: Times,
    /// How long puts took.
    pub puts: Times,
    /// How long exchanges took, from the call of lock to the return of unlock.
    pub exchanges: Times,
    began: BTreeMap<RequestId, Nanos>,
}

impl DdssMeter {
    /// Calls that returned what was asked for.
    pub fn served(&self) -> u64 {
        self.got + self.unchanged + self.put + self.exchanged + self.released
    }
}

impl Meter<Event> for DdssMeter {
    fn measure(&mut self, event: &Event) {
        if event.stage() == Stage::Asked {
            self.began.insert(event.request, event.at());
            return;
        }
        if matches!(event.what, What::Holds { .. }) {
            return;
        }
        let took = self.began.remove(&event.request).map(|since| event.at() - since);
        let times = match event.what {
            What::Got { value, .. } => {
                self.got += 1;
                self.torn += u64::from(value == Value::Torn);
                &mut self.gets
            }
            What::Unchanged { .. } => {
                self.unchanged += 1;
                &mut self.gets
            }
            What::Put { .. } => {
                self.put += 1;
                &mut self.puts
            }
            What::Exchanged { value, .. } => {
                self.exchanged += 1;
                self.torn += u64::from(value == Value::Torn);
                &mut self.exchanges
            }
            What::Locked => {
                self.locked += 1;
                return;
            }
            What::Released => {
                self.released += 1;
                return;
            }
            What::Gone => {
                self.gone += 1;
                return;
            }
            What::Lost => {
                self.lost += 1;
                return;
            }
            What::Found | What::Crashed | What::LeftOut | What::Holds { .. } => return,
            What::Failed(Why::Unknown) => {
                self.unknown += 1;
                return;
            }
            What::Failed(Why::Slow) => {
                self.slow += 1;
                return;
            }
            What::Gets
            | What::GetsEarlier { .. }
            | What::Puts
            | What::Exchanges
            | What::ExchangesTwice
            | What::Releases
            | What::Finds
            | What::Failed(_) => {
                self.failed += 1;
                return;
            }
        };
        if let Some(took) = took {
            times.add(took);
        }
    }
}
