//! The ring's nodes as state machines by hand, on the contract itself.

use super::BenchError;
use super::ring::{Ring, Tally};
use crate::by_hand::connect;
use std::rc::Rc;
use weft_sim::{Fabric, NodeId, SimContext, SimCq, SimMr, SimPd, SimQp};
use weft_verbs::*;

/// Every so many sends one asks for a completion, at most; and no fewer than four times before the queue is full.
const SIGNAL_EVERY: u32 = 16;

/// Most completions taken at a time.
const BATCH: usize = 16;

/// What a node has: a connection from the node before it and one to the node after it.
pub(super) struct Place {
    ctx: SimContext,
    _pd: SimPd,
    cq: SimCq,
    from: SimQp,
    to: SimQp,
    mr: SimMr,
}

/// How much a queue pair of the ring takes.
pub(super) fn caps(ring: &Ring) -> QpCaps {
    QpCaps { max_send_wr: 2 * ring.window, max_recv_wr: receives(ring), ..QpCaps::default() }
}

/// How many receives a node keeps posted: two windows, since messages bunch.
pub(super) fn receives(ring: &Ring) -> u32 {
    2 * ring.window
}

/// A node's memory: one message to send, and one place that every message received is written to.
pub(super) fn memory(ring: &Ring, pd: &SimPd) -> Result<SimMr> {
    pd.alloc_mr(2 * ring.bytes.max(8) as usize, AccessFlags::LOCAL_WRITE)
}

/// Makes all queue pairs and connects them to a ring.
pub(super) fn build(ring: &Ring, fabric: &Fabric) -> std::result::Result<Vec<Place>, BenchError> {
    let make = |node| place(ring, fabric, NodeId(node));
    let places: Vec<Place> = (0..ring.nodes).map(make).collect::<Result<_>>().map_err(BenchError::cluster)?;
    for (here, next) in in_a_ring(&places) {
        connect((&here.ctx, &here.to), (&next.ctx, &next.from), AccessFlags::empty())
            .map_err(BenchError::cluster)?;
    }
    Ok(places)
}

fn place(ring: &Ring, fabric: &Fabric, node: NodeId) -> Result<Place> {
    let ctx = fabric.devices(node)[0].open()?;
    let pd = ctx.alloc_pd()?;
    let caps = caps(ring);
    let cq = ctx.create_cq(2 * (caps.max_send_wr + caps.max_recv_wr), None)?;
    let init = QpInit { kind: QpType::Rc, send_cq: &cq, recv_cq: &cq, srq: None, caps, sq_sig_all: false };
    let (from, to) = (pd.create_qp(&init)?, pd.create_qp(&init)?);
    let mr = memory(ring, &pd)?;
    Ok(Place { ctx, _pd: pd, cq, from, to, mr })
}

/// Each with the one after it.
pub(super) fn in_a_ring<T>(all: &[T]) -> impl Iterator<Item = (&T, &T)> {
    all.iter().zip(all.iter().cycle().skip(1))
}

/// Puts a state machine on every node.
pub(super) fn start(
    ring: &Ring,
    fabric: &Fabric,
    places: &[Place],
    tally: &Rc<Tally>,
) -> std::result::Result<(), BenchError> {
    for (node, place) in (0..).zip(places) {
        let station = Station {
            cq: place.cq.clone(),
            from: place.from.clone(),
            to: place.to.clone(),
            mr: place.mr.clone(),
            bytes: ring.bytes,
            held: ring.window,
            room: caps(ring).max_send_wr,
            signal_every: (caps(ring).max_send_wr / 4).clamp(1, SIGNAL_EVERY),
            posted: 0,
            done: Vec::new(),
            tally: Rc::clone(tally),
        };
        station.receive(receives(ring)).map_err(BenchError::cluster)?;
        fabric.mount(NodeId(node), Box::new(station));
    }
    Ok(())
}

struct Station {
    cq: SimCq,
    from: SimQp,
    to: SimQp,
    mr: SimMr,
    bytes: u32,
    /// Messages to be sent as soon as there is room.
    held: u32,
    /// How many more the send queue takes.
    room: u32,
    signal_every: u32,
    posted: u32,
    /// Completions just polled; kept for its allocation.
    done: Vec<WorkCompletion>,
    tally: Rc<Tally>,
}

impl Station {
    /// Posts receives, as many to a list as there can be.
    fn receive(&self, mut n: u32) -> Result<()> {
        let data = [Sge { mr: &self.mr, at: self.bytes, len: self.bytes }];
        let list = [RecvWr { wr_id: 0, data: &data }; BATCH];
        while n > 0 {
            let now = n.min(BATCH as u32);
            self.from.post_recv(&list[..now as usize]).map_err(|refused| refused.why)?;
            n -= now;
        }
        Ok(())
    }

    /// Sends what is held, as far as there is room.
    fn send(&mut self) -> Result<()> {
        let data = [Sge { mr: &self.mr, at: 0, len: self.bytes }];
        while self.held > 0 && self.room > 0 {
            let signaled = self.posted % self.signal_every == self.signal_every - 1;
            let flags = if signaled { SendFlags::SIGNALED } else { SendFlags::empty() };
            let wr = SendWr { wr_id: 1, op: SendOp::Send { imm: None }, data: Payload::Sge(&data), flags };
            self.to.post_send(&[wr]).map_err(|refused| refused.why)?;
            self.posted = self.posted.wrapping_add(1);
            self.held -= 1;
            self.room -= 1;
        }
        Ok(())
    }

    /// Takes what has completed. An error of a healthy fabric is a bug of ours.
    fn take(&mut self) {
        let mut done = std::mem::take(&mut self.done);
        loop {
            let polled = self.cq.poll(&mut done, BATCH).expect("a queue with room for everything");
            let is_receive = |c: &WorkCompletion| c.result.expect("a healthy connection").op == WcOp::Recv;
            let received = done.drain(..).filter(is_receive).count() as u32;
            self.receive(received).expect("places that were just emptied");
            self.held += received;
            self.tally.add(received);
            // A completion of a send tells of the unsignaled ones before it as well.
            self.room += (polled as u32 - received) * self.signal_every;
            if polled < BATCH {
                break;
            }
        }
        self.done = done;
    }
}

impl Node for Station {
    fn step(&mut self) -> Park {
        self.take();
        if self.tally.is_full() {
            return Park::Done;
        }
        self.send().expect("as much room as was counted");
        Park::Until { style: Wait::Poll, deadline: None }
    }
}
