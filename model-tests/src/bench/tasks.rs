//! The ring's nodes as tasks on the runtime, one each.

use super::BenchError;
use super::ring::{Ring, Tally};
use super::stations::{caps, in_a_ring, memory, receives};
use crate::by_hand::connect;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll};
use weft_protocols::rt::{BufferGuard, CompletionSink, Local, QpHandle, Rt, RtConfig};
use weft_sim::{Fabric, NodeId, Sim, SimMr};
use weft_verbs::{AccessFlags, Context, Device, Result, SendOp, VerbsError, Wait};

/// What a node has: a connection from the node before it and one to the node after it.
pub(super) struct Place {
    rt: Rt<Sim>,
    from: QpHandle<Sim>,
    to: QpHandle<Sim>,
    mr: SimMr,
}

/// Makes all queue pairs and connects them to a ring.
pub(super) fn build(ring: &Ring, fabric: &Fabric) -> std::result::Result<Vec<Place>, BenchError> {
    let make = |node| place(ring, fabric, NodeId(node));
    let places: Vec<Place> = (0..ring.nodes).map(make).collect::<std::result::Result<_, _>>()?;
    for (here, next) in in_a_ring(&places) {
        let ends = (here.rt.context(), here.to.qp());
        connect(ends, (next.rt.context(), next.from.qp()), AccessFlags::empty())
            .map_err(BenchError::cluster)?;
    }
    Ok(places)
}

fn place(ring: &Ring, fabric: &Fabric, node: NodeId) -> std::result::Result<Place, BenchError> {
    let open = || -> Result<_> {
        let ctx = fabric.devices(node)[0].open()?;
        let pd = ctx.alloc_pd()?;
        Ok((ctx, memory(ring, &pd)?, pd))
    };
    let (ctx, mr, pd) = open().map_err(BenchError::cluster)?;
    let config = RtConfig { wait: Wait::Poll, ..RtConfig::default() };
    let rt = Rt::new(&ctx, config).map_err(BenchError::cluster)?;
    let queue = || rt.create_qp(&pd, caps(ring)).map_err(BenchError::cluster);
    let (from, to) = (queue()?, queue()?);
    Ok(Place { rt, from, to, mr })
}

/// Starts a task on every node.
pub(super) fn start(ring: &Ring, fabric: &Fabric, places: &[Place], tally: &Rc<Tally>) {
    for (node, place) in (0..).zip(places) {
        let station = Station {
            from: place.from.clone(),
            to: place.to.clone(),
            mr: place.mr.clone(),
            bytes: ring.bytes,
            inbound: CompletionSink::new(),
            held: ring.window,
            tally: Rc::clone(tally),
        };
        drop(place.rt.spawn(station.run(receives(ring))));
        fabric.mount(NodeId(node), Box::new(place.rt.program()));
    }
}

struct Station {
    from: QpHandle<Sim>,
    to: QpHandle<Sim>,
    mr: SimMr,
    bytes: u32,
    inbound: CompletionSink<Sim>,
    /// Messages to be sent as soon as there is room.
    held: u32,
    tally: Rc<Tally>,
}

impl Station {
    /// Passes messages on until enough have arrived. An error of a healthy fabric is a bug of ours; it shows
    /// as messages that do not arrive.
    async fn run(mut self, receives: u32) -> Result<()> {
        for _ in 0..receives {
            let guard = BufferGuard::Range { mr: self.mr.clone(), at: self.bytes, len: self.bytes };
            self.from.post_recv(&self.inbound, 0, guard)?;
        }
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<()>> {
        loop {
            if let Err(error) = self.take().and_then(|()| self.send(cx)) {
                return Poll::Ready(Err(error));
            }
            if self.tally.is_full() {
                return Poll::Ready(Ok(()));
            }
            if self.inbound.poll_ready(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn take(&mut self) -> Result<()> {
        while let Some(completed) = self.inbound.take() {
            completed.outcome.map_err(|_| VerbsError::DeviceGone)?;
            self.from.post_recv(&self.inbound, 0, completed.buffer)?;
            self.held += 1;
            self.tally.add(1);
        }
        Ok(())
    }

    fn send(&mut self, cx: &mut TaskContext<'_>) -> Result<()> {
        while self.held > 0 {
            if self.to.room() == 0 {
                self.to.watch_sends(cx);
                return Ok(());
            }
            let guard = BufferGuard::Range { mr: self.mr.clone(), at: 0, len: self.bytes };
            self.to.post_quiet(SendOp::Send { imm: None }, Local::Guarded(guard))?;
            self.held -= 1;
        }
        Ok(())
    }
}
