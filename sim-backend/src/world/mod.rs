//! A world: nodes, adapters, wires, pending events.
//!
//! [`State`] is plain data: cloning it takes a snapshot, putting the clone back restores it. What happens next, and when,
//! is up to its [driver](driver::Driver). Beside it stand
//! what answers its questions (the choice) and what watches it (the log). Programs are no part of it; the
//! [`Fabric`](crate::Fabric) holds them.

mod cm;
mod cpu;
mod disk;
mod driver;
mod events;
mod faults;
mod objects;
mod streams;
mod timed;
mod untimed;
mod wire;

use crate::in_place::clone_in_place;
pub(crate) use cm::Around;
use cm::CmHost;
pub(crate) use cpu::Activity;
pub(crate) use disk::RegionKey;
pub(crate) use objects::NewRegion;

use crate::NodeId;
use crate::access::AccessLog;
use crate::choice::Choice;
use crate::config::Config;
use crate::explore::AccessKind;
use crate::fault::Faults;
use crate::hca::{Buffers, Hardware, Hca, HcaId, Io, Key, Limits, Packets, Qp, Shape, Slab};
use crate::jitter::Jitter;
use crate::log::Log;
use crate::memo::Recorder;
use crate::profile::Profile;
use crate::sanitizer::Sanitizer;
use crate::stats::{Alive, Stats};
use crate::streams::{Actions, EndId, Ready, Segment, Streams};
use cpu::Machine;
use driver::{Driver, Scratch};
pub(crate) use events::Happened;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::Waker;
use timed::Costs;
pub(crate) use untimed::{Source, Untimed};
use weft_verbs::{Nanos, PinnedMemory, Result, VerbsError};
use wire::{Flow, OutOfOrder, Port};

/// Everything of a world that changes, as plain data.
#[derive(Debug)]
pub(crate) struct State {
    pub now: Nanos,
    pub machines: Vec<Machine>,
    pub hcas: Vec<Hca>,
    /// Those of the first adapter, of the second, and so on.
    pub ports: Vec<Port>,
    pub flows: Slab<Flow>,
    /// Packets that left their place in their flow's order.
    pub out_of_order: Slab<OutOfOrder>,
    out_of_order_made: u64,
    /// Packets on their way.
    pub packets: Packets,
    pub buffers: Buffers,
    pub faults: Faults,
    pub access: AccessLog,
    pub stats: Stats,
    pub cms: Vec<CmHost>,
    pub streams: Streams,
    /// Segments on their way, and how many were sent before each.
    pub segments: Slab<(u64, Segment)>,
    segments_sent: u64,
    /// Each machine's disk.
    disks: Vec<disk::MachineDisk>,
    /// What is going to happen.
    pub driver: Driver,
}

clone_in_place! { State { now, machines, hcas, ports, flows, out_of_order, out_of_order_made, packets, buffers, faults, access, stats, cms, streams, segments, segments_sent, disks, driver } }

/// A world with what drives and watches it.
pub(crate) struct World {
    pub state: State,
    pub choice: Box<dyn Choice>,
    pub log: Log,
    pub profile: Rc<Profile>,
    /// The names of each node's devices, and the model of all.
    pub device_names: Vec<Rc<str>>,
    device_model: String,
    costs: Costs,
    /// By how much at most the processor sees later what an adapter wrote.
    visibility: Nanos,
    /// By how much latencies vary.
    jitter: Jitter,
    pub shape: Shape,
    /// What the driver keeps beside the state.
    scratch: Scratch,
    /// What a connection manager has touched; empty between its calls.
    parts: Vec<(crate::cm::Part, AccessKind)>,
    /// What becomes of handles' calls.
    pub recorder: Recorder,
    /// Room for what streams want done.
    actions: Actions,
    /// Whom to wake when a stream is ready. Beside the state: they are the programs'.
    wakers: BTreeMap<(EndId, Ready), Waker>,
    /// Whom to wake when a disk's call has ended.
    disk_wakers: BTreeMap<(NodeId, u32), Waker>,
    /// Wakers to be woken outside of the world's borrow.
    pub woken: Vec<Waker>,
    /// How many violations somebody has asked for.
    pub violations_read: u64,
    /// Brought memory that nothing holds any more, until it can be released outside of the world's borrow.
    pub brought: Vec<Rc<dyn PinnedMemory>>,
}

/// Memory addresses of a node's first adapter begin here, those of its second at twice that, and so on.
const ADDRESSES: u64 = 1 << 44;

fn access_log(config: &Config, hcas: impl Iterator<Item = NodeId>) -> AccessLog {
    match config.sanitize {
        true => AccessLog::watched_by(Sanitizer::new(hcas)),
        false => AccessLog::default(),
    }
}

impl World {
    pub fn new(config: &Config, choice: Box<dyn Choice>) -> World {
        let Config { ports, atomics, .. } = *config;
        let limits = Limits { ports, atomics, ..Limits::of(&config.profile) };
        let driver = Driver::new(config);
        // Where there is no time, an adapter has a request at once, and a processor sees at once what an adapter wrote.
        let (fetch, visibility, jitter) = match driver.is_untimed() {
            true => (Nanos::ZERO, Nanos::ZERO, Jitter::NONE),
            false => (Nanos(config.profile.adapter.tx_ns), config.visibility, config.jitter),
        };
        let shape = Shape { devices: config.devices, ports: config.ports };
        let ids = || (0..config.nodes).flat_map(|n| shape.hcas(NodeId(n)));
        let base = |id: HcaId| ADDRESSES * (u64::from(id.0 % u32::from(config.devices)) + 1);
        let hca = |id| {
            let mut hca = Hca::new(shape.node(id), id, base(id), limits, fetch);
            hca.hw.late.on = visibility > Nanos::ZERO;
            hca.hw.memory.set_keys(config.keys);
            hca
        };
        World {
            state: State {
                now: Nanos::ZERO,
                machines: vec![Machine::default(); config.nodes as usize],
                hcas: ids().map(hca).collect(),
                ports: vec![Port::default(); config.nodes as usize * usize::from(shape.cables())],
                flows: Slab::default(),
                out_of_order: Slab::default(),
                out_of_order_made: 0,
                packets: Packets::default(),
                buffers: Buffers::default(),
                faults: Faults::new(),
                access: access_log(config, ids().map(|id| shape.node(id))),
                stats: Stats::default(),
                cms: ids().map(|_| CmHost::new(&config.profile, 0)).collect(),
                streams: Streams::new(streams::settings(&config.profile)),
                segments: Slab::default(),
                segments_sent: 0,
                disks: vec![disk::MachineDisk::default(); config.nodes as usize],
                driver,
            },
            choice,
            log: if config.log { Log::memory() } else { Log::off() },
            profile: Rc::new(config.profile.clone()),
            device_names: (0..config.devices).map(|n| Rc::from(format!("sim{n}"))).collect(),
            device_model: format!("simulated adapter, profile {}", config.profile.name),
            costs: Costs::of(&config.profile),
            visibility,
            jitter,
            shape,
            scratch: Scratch::default(),
            parts: Vec::new(),
            recorder: Recorder::default(),
            actions: Actions::default(),
            wakers: BTreeMap::new(),
            disk_wakers: BTreeMap::new(),
            woken: Vec::new(),
            brought: Vec::new(),
            violations_read: 0,
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
        let (adapter, mut io) = self.split(hca);
        let answer = call(adapter, &mut io);
        self.carry_out(hca, qp);
        answer
    }

    /// The same for one queue pair, which is looked up once: posts, packets and timers come by here. `None` if
    /// there is no such queue pair.
    #[inline(always)]
    fn engine_of<T>(
        &mut self,
        hca: HcaId,
        key: Key,
        call: impl FnOnce(&mut Qp, &mut Hardware, &mut Io<'_>) -> T,
    ) -> Option<T> {
        let untimed = self.is_untimed();
        let (adapter, mut io) = self.split(hca);
        let qp = adapter.qps.get_mut(key)?;
        let answer = call(qp, &mut adapter.hw, &mut io);
        // Most posts, and every other packet, leave nothing to do.
        if qp.is_to_be_scheduled() | adapter.hw.completions.has_news() | !io.out.nothing_fresh() | untimed {
            adapter.handle_overruns(&mut io);
            self.carry_out(hca, Some(key));
        }
        Some(answer)
    }

    #[inline]
    fn split(&mut self, hca: HcaId) -> (&mut Hca, Io<'_>) {
        let state = &mut self.state;
        let io = Io {
            now: state.now,
            out: &mut state.packets,
            buffers: &mut state.buffers,
            access: &mut state.access,
            log: &mut self.log,
            stats: &mut state.stats,
            brought: &mut self.brought,
        };
        (&mut state.hcas[hca.0 as usize], io)
    }

    /// Schedules what a queue pair asked for, sends its packets, and wakes the node if there is news for it.
    fn carry_out(&mut self, hca: HcaId, qp: Option<Key>) {
        if let Some(key) = qp {
            if !self.state.packets.nothing_fresh() {
                self.send_out(hca, key);
            }
            self.schedule_qp(hca, key);
            self.engine_called(hca, key);
        }
        if !self.state.hcas[hca.0 as usize].hw.completions.overran.is_empty() {
            self.tell_overruns(hca);
        }
        if self.state.hcas[hca.0 as usize].hw.completions.news.is_some() {
            self.pass_on_news(hca);
        }
        if self.visibility > Nanos::ZERO {
            self.draw_visibility(hca);
        }
    }

    /// Completion queues overran, and the queue pairs that use them are in the error state, whichever the engine was called for.
    #[cold]
    fn tell_overruns(&mut self, hca: HcaId) {
        let overran = std::mem::take(&mut self.state.hcas[hca.0 as usize].hw.completions.overran);
        for (cq, pairs) in overran {
            self.queue_overran(hca, cq);
            pairs.into_iter().for_each(|key| self.engine_called(hca, key));
        }
    }

    /// Asks how late the processor sees what an adapter has just written.
    #[cold]
    fn draw_visibility(&mut self, hca: HcaId) {
        const STEPS: u64 = 8;
        let (now, most, choice) = (self.state.now, self.visibility, &mut self.choice);
        let late = &mut self.state.hcas[hca.0 as usize].hw.late;
        if late.has_fresh() {
            late.draw(now, || Nanos(most.0 * choice.pick("visible", STEPS + 1) / STEPS));
        }
    }

    #[inline(never)]
    fn pass_on_news(&mut self, hca: HcaId) {
        let adapter = &mut self.state.hcas[hca.0 as usize];
        let node = adapter.hw.node;
        let news = std::mem::take(&mut adapter.hw.completions.news);
        self.news_raised(hca, &news);
        self.wake(node, news);
        if let Some(qp) = news.established {
            self.established(hca, qp);
        }
    }

    pub fn hardware(&self, hca: HcaId) -> &Hardware {
        &self.state.hcas[hca.0 as usize].hw
    }

    /// Puts a kept state back.
    pub fn put_back(&mut self, state: &State) {
        self.scratch.untimed.to_serve.clear();
        self.state.clone_from(state);
    }

    /// A random word for a node's program.
    pub fn random(&mut self, node: NodeId) -> u64 {
        let word = self.choice.word("random") ^ self.incarnation_salt(node);
        self.saw(node, &word);
        word
    }

    /// Whether programs were mounted and all of them have ended.
    pub fn all_done(&self) -> bool {
        let mut activities = self.state.machines.iter().map(|machine| machine.activity);
        let ended = |activity| matches!(activity, Activity::Done | Activity::Idle);
        activities.clone().all(ended) && activities.any(|activity| activity == Activity::Done)
    }

    /// The counters, with what is alive now.
    pub fn stats(&self) -> Stats {
        let add = |sum: Alive, hca: &Hca| Alive {
            qps: sum.qps + hca.qps.len(),
            cqs: sum.cqs + hca.hw.completions.cqs.len(),
            srqs: sum.srqs + hca.hw.srqs.len(),
            mrs: sum.mrs + hca.hw.memory.len(),
            pds: sum.pds + hca.pds.len(),
            outstanding: sum.outstanding + hca.hw.outstanding,
            ..sum
        };
        let streams = |node| Alive { streams: self.state.streams.alive(NodeId(node)), ..Alive::default() };
        let nodes = (0..).zip(self.state.hcas.chunks(usize::from(self.shape.devices)));
        let alive = nodes.map(|(node, hcas)| hcas.iter().fold(streams(node), add)).collect();
        let busy = self.state.machines.iter().map(|machine| machine.busy).collect();
        let asked = self.state.machines.iter().map(|machine| machine.asked).collect();
        Stats { alive, busy, asked, ..self.state.stats.clone() }
    }
}

#[cfg(test)]
mod tests;
