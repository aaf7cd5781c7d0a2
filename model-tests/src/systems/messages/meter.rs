//! What is measured of messages: how many, how much, and how long they take.

use super::history::{Event, Sent, What};
use crate::metrics::{Percentiles, Times};
use crate::record::Meter;
use std::collections::BTreeMap;
use weft_verbs::Nanos;

/// Counts messages, and takes the times from sending to arrival.
#[derive(Clone, Debug, Default)]
pub struct MessageMeter {
    /// Messages sent.
    pub sent: u64,
    /// Messages that arrived.
    pub arrived: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Messages that may be lost, since their receiver restarted.
    pub told_lost: u64,
    /// Restarts.
    pub restarts: u64,
    under_way: BTreeMap<(u32, u32, Sent), Nanos>,
    times: Times,
}

impl MessageMeter {
    /// From sending to arrival.
    pub fn to_arrival(&self) -> Percentiles {
        self.times.percentiles()
    }
}

impl Meter<Event> for MessageMeter {
    fn measure(&mut self, event: &Event) {
        let node = event.node;
        match event.what {
            What::Sent { to, sent, .. } => {
                self.sent += 1;
                self.under_way.insert((node, to, sent), event.at);
            }
            What::Arrived { from, sent, bytes, .. } => {
                self.arrived += 1;
                self.bytes += u64::from(bytes);
                if let Some(since) = self.under_way.remove(&(from, node, sent)) {
                    // Clocks of two nodes are not the same one.
                    self.times.add(Nanos(event.at.0.saturating_sub(since.0)));
                }
            }
            What::PeerRestarted { lost, .. } => self.told_lost += lost,
            What::Restarted => self.restarts += 1,
        }
    }
}
