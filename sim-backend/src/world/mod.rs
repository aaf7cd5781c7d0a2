//! A world: nodes, adapters, wires, pending events.
//!
//! [`State`] is plain data: cloning it takes a snapshot, putting the clone back restores it. Beside it stand
//! what answers its questions (the choice) and what watches it (the log). Programs are no part of it; the
//! [`Fabric`](crate::Fabric) holds them.

mod cm;
mod cpu;
mod events;
mod faults;
mod objects;
mod wire;

use cm::CmHost;
pub(crate) use cm::{Around, address_of};
pub(crate) use cpu::Activity;
pub(crate) use objects::NewRegion;

use crate::NodeId;
use crate::access::AccessLog;
use crate::choice::{Choice, EventId};
use crate::config::{Config, Order};
use crate::fault::Faults;
use crate::hca::{Buffers, Hardware, Hca, HcaId, Io, Key, Limits, Packets, Slab};
use crate::log::Log;
use crate::profile::Profile;
use crate::sanitizer::Sanitizer;
use crate::stats::{Alive, Stats};
use crate::wheel::Wheel;
use cpu::Machine;
use events::Code;
pub(crate) use events::Happened;
use std::rc::Rc;
use verbs_trait::{Nanos, PinnedMemory, Result, VerbsError};
use wire::{Costs, Flow, Port, Stray};

/// Everything of a world that changes, as plain data.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub now: Nanos,
    pub events: Wheel<Code>,
    /// Events of this instant that are still to happen.
    pub ready: Vec<Code>,
    pub machines: Vec<Machine>,
    pub hcas: Vec<Hca>,
    /// Those of the first adapter, of the second, and so on.
    pub ports: Vec<Port>,
    pub flows: Slab<Flow>,
    /// Packets that left their place in their flow's order.
    pub strays: Slab<Stray>,
    strays_made: u64,
    /// Packets on their way.
    pub packets: Packets,
    pub buffers: Buffers,
    pub faults: Faults,
    pub access: AccessLog,
    pub stats: Stats,
    pub cms: Vec<CmHost>,
    next_region: u32,
}

/// A world with what drives and watches it.
pub(crate) struct World {
    pub state: State,
    pub choice: Box<dyn Choice>,
    pub log: Log,
    pub profile: Rc<Profile>,
    costs: Costs,
    order: Order,
    /// Ports of every adapter.
    pub ports: u8,
    /// Room for the numbers of packets that are being sent.
    fresh: Vec<u32>,
    /// Room for the identities of events that could happen now.
    enabled: Vec<EventId>,
    /// Brought memory that nothing holds any more, until it can be released outside of the world's borrow.
    pub brought: Vec<Rc<dyn PinnedMemory>>,
}

/// Addresses of a node's adapters begin here, far apart.
const ADDRESSES: u64 = 1 << 44;

fn access_log(config: &Config) -> AccessLog {
    let log = AccessLog::new(config.record.access);
    match config.sanitize {
        true => log.watched_by(Sanitizer::new((0..config.nodes).map(NodeId))),
        false => log,
    }
}

impl World {
    pub fn new(config: &Config, choice: Box<dyn Choice>) -> World {
        let limits = Limits { ports: config.ports, ..Limits::of(&config.profile) };
        let fetch = Nanos(config.profile.adapter.tx_ns);
        let hca = |n| Hca::new(NodeId(n), HcaId(n), ADDRESSES, limits, fetch);
        World {
            state: State {
                now: Nanos::ZERO,
                events: Wheel::new(),
                ready: Vec::new(),
                machines: vec![Machine::default(); config.nodes as usize],
                hcas: (0..config.nodes).map(hca).collect(),
                ports: vec![Port::default(); config.nodes as usize * usize::from(config.ports)],
                flows: Slab::default(),
                strays: Slab::default(),
                strays_made: 0,
                packets: Packets::default(),
                buffers: Buffers::default(),
                faults: Faults::new(),
                access: access_log(config),
                stats: Stats::default(),
                cms: (0..config.nodes)
                    .map(|n| CmHost::new(NodeId(n), config.ports, &config.profile, 0))
                    .collect(),
                next_region: 0,
            },
            choice,
            log: if config.record.log { Log::memory() } else { Log::off() },
            profile: Rc::new(config.profile.clone()),
            costs: Costs::of(&config.profile),
            order: config.order,
            ports: config.ports,
            fresh: Vec::new(),
            enabled: Vec::new(),
            brought: Vec::new(),
        }
    }

    /// An adapter that is there.
    pub fn hca_mut(&mut self, hca: HcaId) -> Result<&mut Hca> {
        match self.state.hcas.get_mut(hca.0 as usize) {
            Some(hca) if !hca.gone => Ok(hca),
            _ => Err(VerbsError::DeviceGone),
        }
    }

    /// Calls the engine: splits the world into an adapter and what it works with, and afterwards carries out
    /// what the queue pair and the node want.
    #[inline]
    fn engine<T>(&mut self, hca: HcaId, qp: Option<Key>, call: impl FnOnce(&mut Hca, &mut Io<'_>) -> T) -> T {
        let state = &mut self.state;
        let adapter = &mut state.hcas[hca.0 as usize];
        let mut io = Io {
            now: state.now,
            out: &mut state.packets,
            buffers: &mut state.buffers,
            access: &mut state.access,
            log: &mut self.log,
            stats: &mut state.stats,
            brought: &mut self.brought,
        };
        let answer = call(adapter, &mut io);
        self.carry_out(hca, qp);
        answer
    }

    /// Schedules what a queue pair asked for, sends its packets, and wakes the node if there is news for it.
    fn carry_out(&mut self, hca: HcaId, qp: Option<Key>) {
        if let Some(key) = qp {
            self.send_out(hca, key);
            self.schedule_qp(hca, key);
        }
        let adapter = &mut self.state.hcas[hca.0 as usize];
        let node = adapter.hw.node;
        let news = std::mem::take(&mut adapter.hw.completions.news);
        if news != Default::default() {
            self.wake(node, news);
            if let Some(qp) = news.established {
                self.established(node, qp);
            }
        }
    }

    pub fn hardware(&self, hca: HcaId) -> &Hardware {
        &self.state.hcas[hca.0 as usize].hw
    }

    /// A random word for a node's program.
    pub fn random(&mut self) -> u64 {
        self.choice.word("random")
    }

    /// Whether nothing is pending.
    pub fn is_idle(&self) -> bool {
        self.state.events.is_empty() && self.state.ready.is_empty()
    }

    /// Whether programs were mounted and all of them have ended.
    pub fn all_done(&self) -> bool {
        let mut activities = self.state.machines.iter().map(|machine| machine.activity);
        let ended = |activity| matches!(activity, Activity::Done | Activity::Idle);
        activities.clone().all(ended) && activities.any(|activity| activity == Activity::Done)
    }

    /// The counters, with what is alive now.
    pub fn stats(&self) -> Stats {
        let alive = |hca: &Hca| Alive {
            qps: hca.qps.len(),
            cqs: hca.hw.completions.cqs.len(),
            srqs: hca.hw.srqs.len(),
            mrs: hca.hw.memory.len(),
            pds: hca.pds.len(),
            outstanding: hca.hw.outstanding,
        };
        Stats { alive: self.state.hcas.iter().map(alive).collect(), ..self.state.stats.clone() }
    }
}

#[cfg(test)]
mod tests;
