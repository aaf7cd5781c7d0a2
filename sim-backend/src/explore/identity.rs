//! Identities that are the same in every run: of events, and of what they touch.
//!
//! Both are words: 4 bits of kind, then what the kind needs. Whatever counts is counted by the actor alone, in
//! the low 18 bits.

use super::{Actor, Object};
use crate::access::RegionId;
use crate::choice::EventId;
use crate::hca::{HcaId, PortId};
use crate::{MAX_UNTIMED_PORTS, NodeId};

const KIND: u32 = 60;
const UNIT: u32 = 42;
const NUM: u32 = 18;
/// The bits of a count.
const COUNT: u64 = (1 << NUM) - 1;
/// The count's bit that says that the requester of the flow's next packet has given up: its delivery is another event
/// than it would have been before.
pub(crate) const GAVE_UP: u32 = 1 << (NUM - 1);

const _: () = assert!(MAX_UNTIMED_PORTS as u64 <= 1 << (52 - UNIT));

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Deliver = 1,
    /// A packet of a flow that left its order.
    Late = 2,
    Datagram = 3,
    Cm = 4,
    Step = 5,
    NodeTimer = 6,
    QpTimer = 7,
    CmTimer = 8,
    RepairLink = 9,
    RepairPort = 10,
    DiskCall = 11,
    /// A version of a sector that a crash has kept.
    KeptWrite = 12,
}

impl Kind {
    pub const fn of(event: EventId) -> Option<Kind> {
        Some(match event.0 >> KIND {
            1 => Kind::Deliver,
            2 => Kind::Late,
            3 => Kind::Datagram,
            4 => Kind::Cm,
            5 => Kind::Step,
            6 => Kind::NodeTimer,
            7 => Kind::QpTimer,
            8 => Kind::CmTimer,
            9 => Kind::RepairLink,
            10 => Kind::RepairPort,
            11 => Kind::DiskCall,
            12 => Kind::KeptWrite,
            _ => return None,
        })
    }

    pub const fn event(self, what: u64, count: u32) -> EventId {
        EventId((self as u64) << KIND | what | (count as u64 & COUNT))
    }
}

/// A flow, without its kind: which of its queue pair's flows, adapter, queue-pair number.
pub(crate) const fn flow(flows: u8, hca: u32, num: u32) -> u64 {
    (flows as u64) << 52 | (hca as u64) << UNIT | (num as u64) << NUM
}

const fn node_of(node: NodeId) -> u64 {
    (node.0 as u64) << UNIT
}

const fn hca_of(hca: HcaId) -> u64 {
    (hca.0 as u64) << UNIT
}

/// The delivery of a flow's packet.
pub(crate) const fn delivery(flow: u64, number: u32) -> EventId {
    Kind::Deliver.event(flow, number)
}

/// The delivery of a flow's packet that left its order.
pub(crate) const fn late(flow: u64, number: u32) -> EventId {
    Kind::Late.event(flow, number)
}

/// The delivery of a queue pair's datagram.
pub(crate) const fn datagram(flow: u64, number: u32) -> EventId {
    Kind::Datagram.event(flow, number)
}

/// The delivery of a message of an adapter's connection manager about one of its connections.
pub(crate) const fn message(from: HcaId, name: u32, number: u32) -> EventId {
    Kind::Cm.event(hca_of(from) | ((name as u64) & 0xff_ffff) << NUM, number)
}

/// A node's step.
pub(crate) const fn step(node: NodeId, number: u32) -> EventId {
    Kind::Step.event(node_of(node), number)
}

/// A node's step because its deadline has come.
pub(crate) const fn node_timer(node: NodeId, number: u32) -> EventId {
    Kind::NodeTimer.event(node_of(node), number)
}

/// A queue pair's time-out.
pub(crate) const fn qp_timer(flow: u64, number: u32) -> EventId {
    Kind::QpTimer.event(flow, number)
}

/// The time-out of a connection of an adapter's connection manager.
pub(crate) const fn cm_timer(hca: HcaId, name: u32, number: u32) -> EventId {
    Kind::CmTimer.event(hca_of(hca) | ((name as u64) & 0xff_ffff) << NUM, number)
}

/// The repair of a link between two ports.
pub(crate) const fn repair_link(link: (PortId, PortId), number: u32) -> EventId {
    Kind::RepairLink.event((link.0.0 as u64) << UNIT | (link.1.0 as u64) << 32, number)
}

/// The repair of a port.
pub(crate) const fn repair_port(port: PortId, number: u32) -> EventId {
    Kind::RepairPort.event((port.0 as u64) << UNIT, number)
}

/// The end of a call of a node's disk.
pub(crate) const fn disk_call(node: NodeId, id: u32) -> EventId {
    Kind::DiskCall.event(node_of(node), id)
}

/// That a node's crash has kept a version of a sector of its disk.
pub(crate) const fn kept_write(node: NodeId, id: u32) -> EventId {
    Kind::KeptWrite.event(node_of(node), id)
}

/// An event's node, where it has one.
pub(crate) const fn node(event: EventId) -> NodeId {
    NodeId((event.0 >> UNIT & 0x3ff) as u32)
}

/// An event's adapter, where it has one.
pub(crate) const fn hca(event: EventId) -> HcaId {
    HcaId((event.0 >> UNIT & 0x3ff) as u32)
}

/// An event's queue-pair number, where it has one.
pub(crate) const fn num(event: EventId) -> u32 {
    (event.0 >> NUM & 0xff_ffff) as u32
}

/// How often the same has happened before.
pub(crate) const fn count(event: EventId) -> u32 {
    (event.0 & COUNT) as u32
}

/// Who does it: a packet out of order is an actor of its own, and so is each call of a disk.
pub(crate) const fn actor(event: EventId) -> Actor {
    match event.0 >> KIND {
        2..=4 | 11..=12 => Actor(event.0),
        _ => Actor(event.0 & !COUNT),
    }
}

pub(crate) const fn is_lasting(actor: Actor) -> bool {
    !matches!(actor.0 >> KIND, 2..=4 | 11..=12)
}

/// The objects of footprints.
pub(crate) mod object {
    use super::*;

    const fn make(kind: u64, what: u64) -> Object {
        Object(kind << KIND | what)
    }

    const fn pair(hca: u32, place: u32) -> u64 {
        (hca as u64) << UNIT | (place as u64) << NUM
    }

    /// Eight bytes of a region.
    pub const fn word(region: RegionId, index: u64) -> Object {
        make(1, (region.0 as u64 & 0xff_ffff) << 36 | (index & ((1 << 36) - 1)))
    }

    /// A queue pair's state and attributes, and whether its requester goes forward or back.
    pub const fn mode(hca: u32, place: u32) -> Object {
        make(2, pair(hca, place))
    }

    /// Whether a queue pair accepts what arrives for it, and how.
    pub const fn accepts(hca: u32, place: u32) -> Object {
        make(0, 3 << 56 | pair(hca, place))
    }

    /// What a requester has been answered.
    pub const fn sends(hca: u32, place: u32) -> Object {
        make(3, pair(hca, place))
    }

    /// What a responder has taken in.
    pub const fn receives(hca: u32, place: u32) -> Object {
        make(4, pair(hca, place))
    }

    /// A receive request, by how many were posted to its queue pair before.
    pub const fn receive(hca: u32, place: u32, number: u32) -> Object {
        make(5, pair(hca, place) | (number as u64 & COUNT))
    }

    /// The tail of a flow.
    pub const fn tail(flow: u64) -> Object {
        make(6, flow)
    }

    /// A flow's packet, by its delivery, whether its requester has given up or not.
    pub const fn sent(delivery: EventId) -> Object {
        make(7, delivery.0 & ((1 << KIND) - 1) & !(GAVE_UP as u64))
    }

    /// The same of what is in no flow.
    pub const fn out_of_order(delivery: EventId) -> Object {
        // A late packet's event, a datagram's and a message's differ in kind alone; 8, 9 and 10 keep them apart.
        make(6 + (delivery.0 >> KIND), delivery.0 & ((1 << KIND) - 1))
    }

    /// A node's program, its completions, events and clock.
    pub const fn node(node: NodeId) -> Object {
        make(11, node_of(node))
    }

    /// What woke a node for a step.
    pub const fn wake(node: NodeId, step: u32) -> Object {
        make(12, node_of(node) | (step as u64 & COUNT))
    }

    /// What lets a queue pair's timer run out.
    pub const fn timer(hca: u32, place: u32, number: u32) -> Object {
        make(13, pair(hca, place) | (number as u64 & COUNT))
    }

    /// The link between two ports.
    pub const fn link(a: PortId, b: PortId) -> Object {
        let (a, b) = if a.0 < b.0 { (a, b) } else { (b, a) };
        make(14, (a.0 as u64) << UNIT | (b.0 as u64) << 32)
    }

    const fn rest(kind: u64, what: u64) -> Object {
        make(15, kind << 56 | what)
    }

    /// That nothing else can happen.
    pub const QUIESCENCE: Object = rest(0, 0);

    /// An adapter's table of memory regions.
    pub const fn regions(hca: HcaId) -> Object {
        rest(1, hca_of(hca))
    }

    /// A shared receive queue.
    pub const fn shared(hca: u32, place: u32) -> Object {
        rest(2, pair(hca, place))
    }

    /// An adapter's connection manager, but for its connections.
    pub const fn cm(hca: HcaId) -> Object {
        rest(3, hca_of(hca))
    }

    /// A connection as an adapter's connection manager keeps it, by the name that a manager has for it.
    pub const fn connection(hca: HcaId, of: HcaId, name: u32) -> Object {
        rest(13, pair(hca.0, name & 0xff_ffff) | (of.0 as u64 & COUNT))
    }

    /// The names that an adapter's connection manager has given.
    pub const fn names(hca: HcaId) -> Object {
        rest(14, hca_of(hca))
    }

    /// Whether an adapter has a connection that stands with a queue pair of another one.
    pub const fn standing(hca: HcaId, peer: HcaId, num: u32) -> Object {
        make(0, 1 << 56 | pair(hca.0, num & 0xff_ffff) | (peer.0 as u64 & COUNT))
    }

    /// An event of connections or of the device, by how many came before.
    pub const fn event(hca: HcaId, number: u32) -> Object {
        make(0, 2 << 56 | hca_of(hca) | (number as u64 & COUNT))
    }

    /// A call of a node's disk.
    pub const fn disk_call(node: NodeId, id: u32) -> Object {
        make(0, 4 << 56 | node_of(node) | (id as u64 & COUNT))
    }

    /// A version of a sector that a crash may have kept, or, by its first version, the sector.
    pub const fn kept_write(node: NodeId, id: u32) -> Object {
        make(0, 5 << 56 | node_of(node) | (id as u64 & COUNT))
    }

    /// That a requester waits for its receiver to be ready.
    pub const fn refused(hca: u32, place: u32, number: u32) -> Object {
        rest(8, pair(hca, place) | (number as u64 & COUNT))
    }

    /// What lets the timer of a connection manager's connection run out.
    pub const fn cm_timer(hca: HcaId, name: u32, number: u32) -> Object {
        rest(4, pair(hca.0, name & 0xff_ffff) | (number as u64 & COUNT))
    }

    /// A receive request that a requester waits for.
    pub const fn ready(hca: u32, place: u32, number: u32) -> Object {
        rest(5, pair(hca, place) | (number as u64 & COUNT))
    }

    /// A completion, by how many were queued in its queue before.
    pub const fn completion(hca: u32, cq: u32, number: u32) -> Object {
        rest(9, pair(hca, cq) | (number as u64 & COUNT))
    }

    /// The end of a completion queue.
    pub const fn last(hca: u32, cq: u32) -> Object {
        rest(10, pair(hca, cq))
    }

    /// What a completion queue is armed for.
    pub const fn armed(hca: u32, cq: u32) -> Object {
        rest(11, pair(hca, cq))
    }

    /// Whether a completion queue is nearly full.
    pub const fn room(hca: u32, cq: u32) -> Object {
        rest(12, pair(hca, cq))
    }

    /// What is to be repaired.
    pub const fn broken(repair: EventId) -> Object {
        rest(6 + ((repair.0 >> KIND) & 1), repair.0 & ((1 << 56) - 1))
    }
}
