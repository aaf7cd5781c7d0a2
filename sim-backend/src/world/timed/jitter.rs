//! Latencies that vary, in the timed driver: see [`jitter`](crate::jitter).

use crate::NodeId;
use crate::fault::PacketClass;
use crate::hca::PortId;
use crate::jitter::{EXACT, scaled};
use crate::world::World;
use std::collections::BTreeMap;
use weft_verbs::Nanos;

/// When the last of what travels outside of flows arrives, by the port that sent it and by its class.
#[derive(Clone, Debug, Default)]
pub(super) struct InTurn(BTreeMap<(PortId, PacketClass), Nanos>);

impl World {
    /// Varies the latency that is contained in a time of arrival.
    #[inline]
    pub(in crate::world) fn vary(&mut self, arrival: Nanos, latency: Nanos) -> Nanos {
        if self.jitter.is_none() { arrival } else { self.varied(arrival, latency) }
    }

    #[cold]
    fn varied(&mut self, arrival: Nanos, latency: Nanos) -> Nanos {
        arrival - latency + self.jitter.draw(&mut *self.choice).of(latency)
    }

    /// When something that belongs to no flow arrives: not before what the port sent before it.
    pub(in crate::world) fn in_turn(&mut self, from: PortId, class: PacketClass, arrival: Nanos) -> Nanos {
        let varies = !self.jitter.is_none();
        let Some(timed) = self.state.driver.if_timed_mut().filter(|_| varies) else { return arrival };
        let last = timed.in_turn.0.entry((from, class)).or_default();
        *last = arrival.max(*last);
        *last
    }

    /// How a processor's step differs from others: the pace of its work, and what interrupts it.
    #[inline]
    pub(in crate::world) fn vary_step(&mut self, node: NodeId) {
        if !self.jitter.is_none() {
            let variation = self.jitter.draw(&mut *self.choice);
            let machine = self.machine(node);
            machine.pace = variation.scale;
            machine.clock += variation.extra;
        }
    }
}

/// A processor's work at its pace, in nanoseconds.
#[inline]
pub(in crate::world) fn at_pace(pace: u32, ns: u64) -> u64 {
    if pace == EXACT { ns } else { scaled(Nanos(ns), pace).0 }
}
