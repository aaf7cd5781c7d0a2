//! Events: what can become due.

use crate::NodeId;
use crate::fault::FaultId;
use crate::hca::HcaId;
use crate::streams::EndId;

/// Something that will happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The packet at the head of a flow arrives.
    Deliver(u32),
    /// A packet arrives that left its flow's order.
    OutOfOrder(u32),
    /// A queue pair may have more to send.
    Service(HcaId, u32),
    /// A queue pair's deadline may have come.
    Timer(HcaId, u32),
    /// A node's processor runs.
    Step(NodeId),
    /// A planned fault strikes, changes or ends.
    Fault(FaultId),
    /// A timer of an adapter's connection manager.
    CmTimer(HcaId),
    /// A segment of a byte stream arrives.
    Segment(u32),
    /// A timer of a byte stream.
    StreamTimer(EndId),
    /// A call of a machine's disk ends.
    Disk(NodeId, u32),
}

/// An event as the queue keeps it: one word, since a value that is put together from pieces and moved as a whole
/// at once stalls the processor (it was a tenth of a run's time).
///
/// Objects go by their place only. That is enough: a flow and a packet out of order keep their place while an event of theirs is
/// pending, and a queue pair that finds an event of its place's earlier owner has nothing to do then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(u64);

impl Code {
    const fn new(kind: u64, unit: u32, place: u32) -> Code {
        Code(kind << 60 | ((unit as u64) & 0xfff_ffff) << 32 | place as u64)
    }

    pub const fn event(self) -> Event {
        let (unit, place) = ((self.0 >> 32 & 0xfff_ffff) as u32, self.0 as u32);
        match self.0 >> 60 {
            1 => Event::Deliver(place),
            2 => Event::OutOfOrder(place),
            3 => Event::Service(HcaId(unit), place),
            4 => Event::Timer(HcaId(unit), place),
            5 => Event::Step(NodeId(unit)),
            6 => Event::Fault(FaultId(place)),
            8 => Event::StreamTimer(EndId(place)),
            9 => Event::Segment(place),
            10 => Event::Disk(NodeId(unit), place),
            _ => Event::CmTimer(HcaId(unit)),
        }
    }
}

impl Event {
    pub const fn code(self) -> Code {
        match self {
            Event::Deliver(flow) => Code::new(1, 0, flow),
            Event::OutOfOrder(place) => Code::new(2, 0, place),
            Event::Service(hca, qp) => Code::new(3, hca.0, qp),
            Event::Timer(hca, qp) => Code::new(4, hca.0, qp),
            Event::Step(node) => Code::new(5, node.0, 0),
            Event::Fault(id) => Code::new(6, 0, id.0),
            Event::CmTimer(hca) => Code::new(7, hca.0, 0),
            Event::StreamTimer(id) => Code::new(8, 0, id.0),
            Event::Segment(place) => Code::new(9, 0, place),
            Event::Disk(node, call) => Code::new(10, node.0, call),
        }
    }
}

/// What the driver has to do for an event, outside of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// Nothing: it is done.
    Done,
    /// A node is to be stepped.
    Step(NodeId),
    /// A node crashed: its program is gone.
    Crashed(NodeId),
    /// The same, and the node waits for another program.
    Restarted(NodeId),
}
