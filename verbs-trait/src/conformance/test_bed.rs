//! A case's test bed: machines, waiting, faults.

use super::failure::check;
use super::{Act, Failure, Fault, FaultId, Harness, HarnessCaps, Machine, Outcome, PacketClass, Timing};
use crate::{
    AsyncEvent, CmEvent, CompletionChannel, CompletionQueue, ConnectionManager, Context, CqId, Device, Done,
    Nanos, Node, Verbs, WcError, WorkCompletion,
};

/// What a case works with. Made by [`Case::run`](super::Case::run).
pub(super) struct TestBed<'h, H: Harness> {
    pub(super) harness: &'h mut H,
    pub(super) machines: Vec<Machine<H::V>>,
    contexts: Vec<<H::V as Verbs>::Context>,
    /// Of the second devices, where there are any.
    seconds: Vec<<H::V as Verbs>::Context>,
}

impl<'h, H: Harness> TestBed<'h, H> {
    pub(super) fn new(harness: &'h mut H) -> Self {
        TestBed { harness, machines: Vec::new(), contexts: Vec::new(), seconds: Vec::new() }
    }

    /// A fresh world; everything of the one before is dropped first.
    pub(super) fn world(&mut self, nodes: usize, seed: u64) -> Outcome {
        self.contexts.clear();
        self.seconds.clear();
        self.machines.clear();
        self.machines = self.harness.start(nodes, seed).map_err(Failure::new)?;
        check!(self.machines.len() == nodes, "the harness was asked for {nodes} machines");
        for machine in &self.machines {
            self.contexts.push(machine.device.open()?);
            if let Some(second) = &machine.second {
                self.seconds.push(second.device.open()?);
            }
        }
        Ok(())
    }

    /// A world of at least so many nodes: the present one if it is large enough.
    pub(super) fn at_least(&mut self, nodes: usize) -> Outcome {
        if self.machines.len() < nodes { self.world(nodes, 0) } else { Ok(()) }
    }

    /// A node's open device. The world must hold the node.
    pub(super) fn ctx(&self, node: usize) -> <H::V as Verbs>::Context {
        self.contexts[node].clone()
    }

    /// A node's open second device. The world must hold the node, and its machines two devices.
    pub(super) fn second(&self, node: usize) -> <H::V as Verbs>::Context {
        self.seconds[node].clone()
    }

    pub(super) fn timing(&self) -> Timing {
        self.harness.timing()
    }

    pub(super) fn now(&self) -> Nanos {
        self.harness.now()
    }

    pub(super) fn advance(&mut self, span: Nanos) {
        self.harness.advance(span);
    }

    /// Lets everything on its way arrive: many round trips.
    pub(super) fn settle(&mut self) {
        self.harness.advance(self.timing().round_trip * 20);
    }

    /// The shortest wait between two looks.
    fn glance(&self) -> Nanos {
        Nanos((self.timing().round_trip.0 / 50).max(20))
    }

    /// Waits until `ready` answers something. Looks often at first and then ever more rarely, so that a
    /// moment is met within two per cent of the wait (on an exact clock).
    #[track_caller]
    pub(super) fn until<T>(
        &mut self,
        what: &str,
        mut ready: impl FnMut() -> Outcome<Option<T>>,
    ) -> Outcome<T> {
        let stuck = Failure::new(format!("waited in vain for {what}"));
        let begun = self.now();
        loop {
            if let Some(found) = ready()? {
                return Ok(found);
            }
            let waited = self.now() - begun;
            if waited >= self.timing().timeout {
                return Err(stuck);
            }
            self.advance(self.glance().max(waited / 50));
        }
    }

    /// The next `n` completions of a queue.
    #[track_caller]
    pub(super) fn completions(&mut self, cq: &<H::V as Verbs>::Cq, n: usize) -> Outcome<Vec<WorkCompletion>> {
        let mut seen = Vec::new();
        self.until(&format!("{n} completions"), || {
            let missing = n - seen.len();
            let got = cq.poll(&mut seen, missing)?;
            check!(got <= missing, "a poll for {missing} completions brought {got}");
            Ok((seen.len() == n).then(|| std::mem::take(&mut seen)))
        })
    }

    /// The next completion of a queue.
    #[track_caller]
    pub(super) fn completion(&mut self, cq: &<H::V as Verbs>::Cq) -> Outcome<WorkCompletion> {
        Ok(self.completions(cq, 1)?.remove(0))
    }

    /// The next completion, which must be this request's and good.
    #[track_caller]
    pub(super) fn done(&mut self, cq: &<H::V as Verbs>::Cq, wr_id: u64) -> Outcome<Done> {
        let here = Failure::new(format!("request {wr_id}"));
        let seen = self.completion(cq)?;
        match seen.result {
            Ok(done) if seen.wr_id == wr_id => Ok(done),
            _ => Err(here.and(format!("was to complete well, and the queue brought {seen:?}"))),
        }
    }

    /// The next completion, which must be this request's and have this error.
    #[track_caller]
    pub(super) fn fails(&mut self, cq: &<H::V as Verbs>::Cq, wr_id: u64, error: WcError) -> Outcome {
        let here = Failure::new(format!("request {wr_id}"));
        let seen = self.completion(cq)?;
        if seen.wr_id == wr_id && seen.result == Err(error) {
            return Ok(());
        }
        Err(here.and(format!("was to fail with {error:?}, and the queue brought {seen:?}")))
    }

    /// Nothing completes on a queue for this long.
    #[track_caller]
    pub(super) fn quiet(&mut self, cq: &<H::V as Verbs>::Cq, span: Nanos) -> Outcome {
        let here = Failure::new("nothing was to complete");
        self.advance(span);
        let mut seen = Vec::new();
        cq.poll(&mut seen, 16)?;
        if seen.is_empty() { Ok(()) } else { Err(here.and(format!("and the queue brought {seen:?}"))) }
    }

    /// The next asynchronous event of a device.
    #[track_caller]
    pub(super) fn async_event(&mut self, ctx: &<H::V as Verbs>::Context) -> Outcome<AsyncEvent> {
        self.until("an asynchronous event", || Ok(ctx.async_event()))
    }

    /// The next event of a completion channel.
    #[track_caller]
    pub(super) fn channel_event(&mut self, channel: &<H::V as Verbs>::Channel) -> Outcome<CqId> {
        self.until("an event on the completion channel", || Ok(channel.event()))
    }

    /// The next event of a connection manager.
    #[track_caller]
    pub(super) fn cm_event(&mut self, cm: &<H::V as Verbs>::Cm) -> Outcome<CmEvent> {
        self.until("an event of the connection manager", || Ok(cm.event()))
    }

    /// Puts a fault in force.
    pub(super) fn inject(&mut self, fault: Fault) -> Outcome<FaultId> {
        let needed = match &fault {
            Fault::Strike { act: Act::Shorten, .. } => HarnessCaps::SHORTEN,
            Fault::Strike { .. } => HarnessCaps::STRIKE,
            Fault::Cut { .. } => HarnessCaps::CUT,
            Fault::Noise { .. } => HarnessCaps::NOISE,
            Fault::PortDown { .. } => HarnessCaps::PORT,
        };
        self.harness.inject(&fault).ok_or(Failure::lacks(needed))
    }

    /// Acts on the first `count` packets of a class from one node to another.
    pub(super) fn strike(
        &mut self,
        (from, to): (usize, usize),
        class: PacketClass,
        count: u64,
        act: Act,
    ) -> Outcome<FaultId> {
        self.inject(Fault::Strike { from, to, class, skip: 0, count, act })
    }

    pub(super) fn struck(&self, fault: FaultId) -> u64 {
        self.harness.struck(fault)
    }

    /// Waits until a fault has struck so many packets.
    #[track_caller]
    pub(super) fn until_struck(&mut self, fault: FaultId, packets: u64) -> Outcome {
        let stuck = Failure::new(format!("waited in vain for {packets} packets to be struck"));
        let begun = self.now();
        while self.struck(fault) < packets {
            let waited = self.now() - begun;
            if waited >= self.timing().timeout {
                return Err(stuck);
            }
            self.advance(self.glance().max(waited / 100));
        }
        Ok(())
    }

    pub(super) fn heal(&mut self, fault: FaultId) {
        self.harness.heal(fault);
    }

    pub(super) fn mount(&mut self, node: usize, program: Box<dyn Node>) -> Outcome {
        if self.harness.mount(node, program) { Ok(()) } else { Err(Failure::lacks(HarnessCaps::MOUNT)) }
    }
}
