//! The host channel adapter: queue pairs, completion queues, memory, as a state machine without I/O.
//!
//! Posted requests, packets and the passing of time go in; packets, completions and asynchronous events come
//! out. Nothing here knows of links, switches, processors or other adapters, so that the same engine runs
//! under the timed fabric, under an explorer, under a fuzzer and one day on a real wire. Packets that no
//! adapter would send are dropped or refused as IBA chapter 9 has it; none of them makes the engine panic.
//!
//! # Statuses of a reliable connection, and what provokes them
//!
//! | status | cause here |
//! |---|---|
//! | local length error | send: a message longer than [`MAX_MESSAGE`]; receive: a message longer than the buffer |
//! | local queue-pair operation error | a read or an atomic where none may be in flight |
//! | local protection error | a range outside its region, of another protection domain, or without local rights |
//! | flushed | the queue pair went to the error state first |
//! | remote invalid request | the operation is not allowed on the peer's queue pair, a misaligned atomic, no responder resources, a message longer than the receive buffer |
//! | remote access error | the peer's key, range or rights are wrong |
//! | remote operation error | the peer's receive request names memory that its adapter may not write |
//! | retry count exceeded | no answer within the retries, on the alternate path either if one is armed |
//! | receiver-not-ready count exceeded | no receive request within the retries |
//! | bad response | an answer that does not fit its request: ends that disagree on the MTU, a faulty adapter |
//!
//! A memory management error, a fatal and a general error have no cause here: there are no memory windows, and
//! an adapter fails only with its whole node, which is then not there to be told.
//!
//! # Datagrams
//!
//! A datagram is one packet, complete at its sender when it leaves. What is lost, too long for its buffer, of
//! another queue key, or meets no receive request, is dropped in silence; what is longer than a packet never leaves
//! (IBA C10-93.1.1). One that is too long for a buffer of a *shared* queue fails that receive request, and nothing else
//! (IBA 9.9.3.1, class E). A send that fails for a local reason stops the send queue alone (the state SQE).
//!
//! # What is simplified
//!
//! - A datagram's completion is there when the adapter has read its data, before the port has sent it.
//! - A message's data is in memory when its packet is delivered, and a completion is there at the same moment. When the
//!   processor sees data without a completion is [`Late`]'s to say: at once, unless the world wants it otherwise.
//! - Acknowledgements carry no credits (IBA 9.7.7.2); a requester learns of a missing receive request by
//!   receiver-not-ready alone.
//! - What a queue pair leaves in a completion queue is removed when it is reset or destroyed, as most adapters do.
//!
//! # Use
//!
//! An entry point gets an [`Io`]: the time, and where packets, payloads and records go. After it returned,
//! the caller reads from the queue pair when it wants to be called again ([`Qp::deadline`], [`Qp::service_at`])
//! and from [`Completions::news`] what the node may want to know.

mod address;
pub mod bench;
mod buffers;
mod bytes;
mod cq;
mod datagram;
mod keys;
mod memory;
mod packet;
mod qp;
mod requester;
mod responder;
mod slab;
mod srq;
mod visibility;
mod watch;
mod wqe;

pub use address::{Address, Ends, GRH, PortId, Route, Service, Shape, Way};
pub use buffers::Buffers;
pub use bytes::{Bytes, PAGE};
pub use cq::{Channel, Completions, Cq, Cqe, News};
pub use datagram::Deth;
pub use keys::{MAX_REGIONS, keys_of};
pub use memory::{Memory, Region, Target};
pub use packet::{Body, Data, Endpoint, Line, Nak, Packet, Packets, Part, Reth, Syndrome};
pub use qp::{NewQp, Qp};
pub(crate) use requester::canonical::CanonicalForm;
pub use slab::{Key, Slab};
pub use srq::Srq;
pub use visibility::Late;
pub use wqe::{Atomic, Gather, Op, RecvRequest, Remote, SendRequest, Sge};

use crate::NodeId;
use crate::access::{AccessLog, What, Who};
use crate::in_place::clone_in_place;
use crate::log::{Kind, Log};
use crate::profile::Profile;
use crate::stats::Stats;
use std::rc::Rc;
use weft_verbs::{AsyncEvent, Nanos, PinnedMemory, QpNum, QpState, Result, VerbsError};

/// An adapter of the world, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HcaId(pub u32);

/// Most queue pairs of an adapter: what a number has room for.
const MAX_QPS: u32 = 16_380;
/// Most bytes of inline data.
pub const MAX_INLINE: u32 = 1024;
/// Longest message in bytes: at the smallest MTU it takes half of the 2^23 sequence numbers that may be out.
pub const MAX_MESSAGE: u32 = 1 << 30;

/// How much of anything an adapter has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most queue pairs.
    pub max_qp: u32,
    /// Most work requests of one queue.
    pub max_wr: u32,
    /// Most scatter or gather entries of a work request.
    pub max_sge: u32,
    /// Most bytes of inline data.
    pub max_inline: u32,
    /// Most completion queues.
    pub max_cq: u32,
    /// Most completions of a completion queue.
    pub max_cqe: u32,
    /// Most memory regions.
    pub max_mr: u32,
    /// Largest memory region in bytes.
    pub max_mr_size: u64,
    /// Most reads and atomics at a time, either way.
    pub max_rd_atomic: u8,
    /// Whether there are remote atomics.
    pub atomics: bool,
    /// Most shared receive queues.
    pub max_srq: u32,
    /// Ports.
    pub ports: u8,
    /// Longest datagram in bytes: the MTU of its ports.
    pub mtu: u32,
}

impl Limits {
    /// What a profile says of an adapter of one port, within what this engine can number.
    pub fn of(profile: &Profile) -> Limits {
        let adapter = &profile.adapter;
        let count = |value: u64, most: u32| value.min(u64::from(most)) as u32;
        Limits {
            max_qp: count(adapter.max_qp, MAX_QPS),
            max_wr: count(adapter.max_qp_wr, u32::MAX),
            max_sge: count(adapter.max_sge, u32::MAX),
            max_inline: count(adapter.max_inline, MAX_INLINE),
            max_cq: count(adapter.max_cq, u32::MAX),
            max_cqe: count(adapter.max_cqe, u32::MAX),
            max_mr: count(adapter.max_mr, MAX_REGIONS),
            // A host's memory, whatever the adapter could address.
            max_mr_size: adapter.max_mr_size.min(1 << 40),
            max_rd_atomic: count(adapter.max_rd_atomic, 255) as u8,
            atomics: true,
            max_srq: count(adapter.max_srq, u32::MAX),
            ports: 1,
            mtu: profile.transport.mtu().bytes(),
        }
    }
}

/// What an entry point of the engine works with besides the adapter itself.
pub struct Io<'a> {
    /// The time.
    pub now: Nanos,
    /// Where packets go that are to be sent.
    pub out: &'a mut Packets,
    /// Payloads.
    pub buffers: &'a mut Buffers,
    /// Accesses to memory.
    pub access: &'a mut AccessLog,
    /// Events.
    pub log: &'a mut Log,
    /// Counters.
    pub stats: &'a mut Stats,
    /// Memory that the application brought and that nothing holds any more; its release is its owner's code,
    /// and is left to the caller.
    pub brought: &'a mut Vec<Rc<dyn PinnedMemory>>,
}

/// All of an adapter but its queue pairs. What every packet needs comes first and close together: with many nodes,
/// most of a run's time is spent waiting for memory.
#[derive(Debug)]
#[repr(C)]
pub struct Hardware {
    /// Its node.
    pub node: NodeId,
    /// Itself.
    pub id: HcaId,
    /// From the doorbell until a request is at hand.
    pub fetch: Nanos,
    /// Work requests posted and not completed, of all queues.
    pub outstanding: u32,
    /// Completion queues, channels, asynchronous events.
    pub completions: Completions,
    /// Memory regions.
    pub memory: Memory,
    /// Shared receive queues.
    pub srqs: Slab<Srq>,
    /// What the processor does not see yet.
    pub late: Late,
    /// How much of anything it has.
    pub limits: Limits,
}

clone_in_place! { Hardware { node, id, memory, completions, srqs, outstanding, late, limits, fetch } }

impl Hardware {
    fn complete(&mut self, cq: Key, cqe: Cqe, solicited: bool, io: &mut Io<'_>) {
        self.outstanding -= 1;
        self.late.reveal(cqe.qp);
        self.completions.push((self.node, self.id), cq, cqe, solicited, io);
    }

    /// Copies from the regions of a list, beginning `from` bytes into it.
    fn gather(&self, request: (QpNum, u64), data: &Gather, from: u32, out: &mut [u8], io_at: &mut Touch<'_>) {
        let mut filled = 0;
        for (sge, skip) in data.from(from) {
            let n = ((sge.len - skip) as usize).min(out.len() - filled);
            if let Some(region) = self.memory.get(sge.mr) {
                let at = (sge.at + skip) as usize;
                region.bytes.read(at, &mut out[filled..filled + n]);
                io_at.note(self.node, request, region, at, n, What::Read);
            }
            filled += n;
            if filled == out.len() {
                break;
            }
        }
    }

    /// Copies into the regions of a list, beginning `from` bytes into it.
    fn scatter(
        &mut self,
        request: (QpNum, u64),
        data: &Gather,
        from: u32,
        bytes: &[u8],
        io_at: &mut Touch<'_>,
    ) {
        let node = self.node;
        let mut taken = 0;
        for (sge, skip) in data.from(from) {
            let n = ((sge.len - skip) as usize).min(bytes.len() - taken);
            if let Some(region) = self.memory.get_mut(sge.mr) {
                let at = (sge.at + skip) as usize;
                if self.late.on {
                    region.hide(&mut self.late, request.0, sge.mr, at, n);
                }
                region.bytes.write(at, &bytes[taken..taken + n]);
                io_at.note(node, request, region, at, n, What::Write);
            }
            taken += n;
            if taken == bytes.len() {
                break;
            }
        }
    }
}

/// The access log at a moment.
struct Touch<'a> {
    now: Nanos,
    log: &'a mut AccessLog,
}

impl Touch<'_> {
    #[inline]
    fn note(
        &mut self,
        node: NodeId,
        request: (QpNum, u64),
        region: &Region,
        at: usize,
        len: usize,
        what: What,
    ) {
        if self.log.is_on() {
            let who = Who::Adapter { node, qp: request.0, wr_id: request.1 };
            self.log.note(self.now, who, region.id, at as u64, len as u64, what);
        }
    }
}

/// An adapter.
#[derive(Debug)]
#[repr(C)]
pub struct Hca {
    /// Whether its node has crashed: every handle's call is refused.
    pub gone: bool,
    /// Its queue pairs.
    pub qps: Slab<Qp>,
    /// Everything else.
    pub hw: Hardware,
    /// Protection domains, by the context that made them.
    pub pds: Slab<u32>,
}

clone_in_place! { Hca { qps, hw, pds, gone } }

impl Hca {
    /// An adapter without objects. Memory addresses begin at `base`.
    pub fn new(node: NodeId, id: HcaId, base: u64, limits: Limits, fetch: Nanos) -> Hca {
        let (memory, completions) = (Memory::new(base), Completions::default());
        Hca {
            qps: Slab::default(),
            hw: Hardware {
                node,
                id,
                memory,
                completions,
                srqs: Slab::default(),
                outstanding: 0,
                limits,
                fetch,
                late: Late::default(),
            },
            pds: Slab::default(),
            gone: false,
        }
    }

    /// Opens it: a new context's number.
    pub fn open(&mut self) -> u32 {
        self.hw.completions.events.push(Default::default());
        self.hw.completions.events.len() as u32 - 1
    }

    /// Whether a context is open: neither it nor its node has died.
    pub fn check_context(&self, ctx: u32) -> Result<()> {
        if !self.gone && ctx >= self.hw.completions.first_ctx { Ok(()) } else { Err(VerbsError::DeviceGone) }
    }

    /// Takes a context's oldest asynchronous event.
    pub fn async_event(&mut self, ctx: u32) -> Option<AsyncEvent> {
        self.hw.completions.events.get_mut(ctx as usize)?.pop_front()
    }

    /// A new queue pair in state Reset.
    pub fn create_qp(&mut self, ctx: u32, new: NewQp) -> Result<(Key, QpNum)> {
        let limit = self.hw.limits.max_qp;
        let exhausted = || VerbsError::Exhausted { what: "queue pair", limit: u64::from(limit) };
        if self.qps.len() >= limit {
            return Err(exhausted());
        }
        let key = self.qps.next_key();
        let num = number_of(key).ok_or_else(exhausted)?;
        new.check(&self.hw.limits)?;
        self.qps.insert(Qp::new(key, num, ctx, new));
        Ok((key, num))
    }

    /// Destroys a queue pair: what it still holds vanishes without a completion.
    pub fn destroy_qp(&mut self, key: Key, io: &mut Io<'_>) -> bool {
        let Some(mut qp) = self.qps.remove(key) else { return false };
        qp.vanish(&mut self.hw, io);
        true
    }

    /// A packet has arrived for a queue pair.
    #[inline]
    pub fn receive(&mut self, key: Key, packet: &Packet, io: &mut Io<'_>) {
        if let Some(qp) = self.qps.get_mut(key) {
            qp.on_packet(packet, &mut self.hw, io);
            self.handle_overruns(io);
        }
    }

    /// A queue pair's turn to send has come.
    pub fn serve(&mut self, key: Key, io: &mut Io<'_>) {
        if let Some(qp) = self.qps.get_mut(key) {
            qp.serve(&mut self.hw, io);
            self.handle_overruns(io);
        }
    }

    /// A queue pair's deadline has come.
    pub fn on_timer(&mut self, key: Key, io: &mut Io<'_>) {
        if let Some(qp) = self.qps.get_mut(key) {
            qp.on_timer(&mut self.hw, io);
            self.handle_overruns(io);
        }
    }

    /// In an untimed world: a queue pair's retries are used up all at once.
    pub fn run_out(&mut self, key: Key, io: &mut Io<'_>) {
        if let Some(qp) = self.qps.get_mut(key) {
            qp.run_out(&mut self.hw, io);
            self.handle_overruns(io);
        }
    }

    /// The queue pair of a number.
    #[inline]
    pub fn find(&self, num: QpNum) -> Option<Key> {
        let (key, qp) = self.qps.at(place_of(num)?)?;
        (qp.num == num).then_some(key)
    }

    /// Moves the queue pairs of completion queues that overran to the error state, which may overrun others.
    #[inline]
    pub fn handle_overruns(&mut self, io: &mut Io<'_>) {
        if !self.hw.completions.overrun.is_empty() {
            self.fail_overrun(io);
        }
    }

    #[cold]
    fn fail_overrun(&mut self, io: &mut Io<'_>) {
        while let Some(cq) = self.hw.completions.overrun.pop() {
            let users: Vec<Key> = self.qps.iter().filter(|(_, qp)| qp.uses(cq)).map(|(key, _)| key).collect();
            for key in &users {
                let Some(qp) = self.qps.get_mut(*key) else { continue };
                if !matches!(qp.state(), QpState::Reset | QpState::Err) {
                    qp.enter_error(&mut self.hw, io);
                }
            }
            self.hw.completions.overran.push((cq, users));
        }
    }

    /// The node crashed: every object is gone, and no old handle finds anything again.
    pub fn crash(&mut self, io: &mut Io<'_>) {
        self.gone = true;
        for mut qp in self.qps.drain() {
            qp.vanish(&mut self.hw, io);
        }
        self.hw.drop_srqs(io);
        io.brought.extend(self.hw.memory.clear());
        if let Some(sanitizer) = io.access.sanitizer() {
            sanitizer.crashed(self.hw.id);
        }
        self.pds.drain();
        let completions = &mut self.hw.completions;
        completions.first_ctx = completions.events.len() as u32;
        completions.cqs.drain();
        completions.channels.drain();
        completions.events.iter_mut().for_each(|queue| queue.clear());
        (completions.queued, completions.signals) = (0, 0);
        completions.overrun.clear();
        completions.overran.clear();
        completions.news = News::default();
        io.log.line(io.now, self.hw.node, Kind::Object, format_args!("hca={} lost everything", self.hw.id.0));
    }
}

const INDEX_MASK: u32 = (1 << 14) - 1;

/// Numbers 0 and 1 are the management queue pairs of every port (IBA 10.2.4).
const FIRST_NUMBER: u32 = 2;

/// A queue pair's number: its place, and 10 bits of how often the place was used, so that a number comes again
/// only after many thousands of others.
fn number_of(key: Key) -> Option<QpNum> {
    (key.index < MAX_QPS).then(|| QpNum((key.generation & 0x3ff) << 14 | (key.index + FIRST_NUMBER)))
}

/// The place of the queue pair of a number.
#[inline]
pub(crate) fn place_of(num: QpNum) -> Option<u32> {
    (num.0 & INDEX_MASK).checked_sub(FIRST_NUMBER)
}
