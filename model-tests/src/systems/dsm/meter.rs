//! What is measured of shared memory: what became of accesses, and how long they took, by hops.

use super::history::{Event, Op, Spent, What, Why};
use crate::history::{HistoryEvent, RequestId};
use crate::metrics::{Percentiles, Times};
use crate::record::Meter;
use std::collections::BTreeMap;
use weft_verbs::Nanos;

/// Counts accesses by their kinds, and takes their times.
#[derive(Clone, Debug, Default)]
pub struct DsmMeter {
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Swaps, additions, and compare-and-exchanges.
    pub atomics: u64,
    /// Barriers that threads have left.
    pub barriers: u64,
    /// Calls that found their minipage lost with the dead.
    pub lost: u64,
    /// Barriers that ended because a node died.
    pub died: u64,
    /// Calls that failed for another reason: their own node restarted, or is left out.
    pub failed: u64,
    /// Accesses that waited.
    pub faults: u64,
    /// What the threads of an application have spent, by thread.
    pub spent: Vec<Spent>,
    /// How long loads waited, by the hops of their requests.
    reads: [Times; 4],
    /// How long all other accesses waited.
    writes: [Times; 4],
    /// How long barriers took.
    waits: Times,
    began: BTreeMap<RequestId, Nanos>,
}

impl DsmMeter {
    /// Calls that returned what was asked for.
    pub fn served(&self) -> u64 {
        self.loads + self.stores + self.atomics + self.barriers
    }

    /// The distributions, by name. A fault has no hop at its minipage's manager, if nobody else has to act.
    pub fn rows(&self) -> Vec<(&'static str, Percentiles)> {
        let names = [
            ["read, no hop", "read, 1 hop", "read, 2 hops", "read, 3 hops"],
            ["write, no hop", "write, 1 hop", "write, 2 hops", "write, 3 hops"],
        ];
        let rows = names.into_iter().zip([&self.reads, &self.writes]);
        let rows = rows.flat_map(|(names, times)| names.into_iter().zip(times));
        let rows = rows.chain([("barrier", &self.waits)]).map(|(name, times)| (name, times.percentiles()));
        // An odd number of messages between three nodes is three: one has no row.
        rows.filter(|(name, _)| !name.ends_with("1 hop")).collect()
    }
}

impl Meter<Event> for DsmMeter {
    fn measure(&mut self, event: &Event) {
        let took = match event.what {
            What::Accesses { .. } | What::Copies(..) | What::Enters(_) => {
                self.began.insert(event.request, event.at());
                return;
            }
            What::Runs | What::Crashed | What::LeftOut | What::Outlives(_) => return,
            What::Waits | What::Begun(_) => return,
            What::Ran { spent, .. } => {
                self.spent.push(spent);
                return;
            }
            _ => self.began.remove(&event.request).map(|since| event.at() - since),
        };
        match event.what {
            What::Accessed { op, hops, .. } => {
                *match op {
                    Op::Load => &mut self.loads,
                    Op::Store(_) => &mut self.stores,
                    _ => &mut self.atomics,
                } += 1;
                if let (Some(hops), Some(took)) = (hops, took) {
                    self.faults += 1;
                    let times = if op == Op::Load { &mut self.reads } else { &mut self.writes };
                    times[usize::from(hops.min(3))].add(took);
                }
            }
            What::Leaves(_) => {
                self.barriers += 1;
                if let Some(took) = took {
                    self.waits.add(took);
                }
            }
            What::Copied => {}
            What::Failed(Why::Lost(_)) => self.lost += 1,
            What::Failed(Why::Died(_)) => self.died += 1,
            _ => self.failed += 1,
        }
    }
}
