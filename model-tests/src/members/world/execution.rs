//! A world as the explorer drives it.

use super::World;
use super::happening::Happening;
use crate::explore::{Fingerprint, Stuck, TraceEvent, TransitionSystem, Violation};
use std::hash::Hash;
use weft_protocols::rt::fingerprint::StateHasher;
use weft_sim::choice::EventId;
use weft_sim::explore::{AccessKind, Actor, Enabled, FaultSet, Footprint, Object, Outcome};

/// All that the events touch: they depend on one another.
const ALL: Object = Object(1);

/// A world that is run, and can be put back.
pub(in crate::members) struct Execution {
    roots: Vec<World>,
    running: Option<World>,
    saved: Vec<World>,
    traced: bool,
}

/// The choice of a configuration, as an event.
const CONFIGURATION: u64 = 0xf << 60;

impl Execution {
    pub(in crate::members) fn new(roots: Vec<World>) -> Execution {
        let mut execution = Execution { roots, running: None, saved: Vec::new(), traced: false };
        execution.reset();
        execution
    }

    pub(in crate::members) fn reset(&mut self) {
        self.traced = false;
        self.saved.clear();
        self.running = (self.roots.len() == 1).then(|| self.roots[0].clone());
    }
}

impl TransitionSystem for Execution {
    fn enabled(&mut self, out: &mut Vec<Enabled>) {
        let numbers: Vec<u64> = match &self.running {
            Some(world) => world.happenings().into_iter().map(Happening::number).collect(),
            None => (0..self.roots.len() as u64).map(|number| CONFIGURATION | number).collect(),
        };
        let enabled = |number| Enabled {
            event: EventId(number),
            actor: Actor(number),
            faults: FaultSet::NONE,
            quiescent: false,
        };
        out.extend(numbers.into_iter().map(enabled));
    }

    fn take(
        &mut self,
        event: EventId,
        outcome: Outcome,
        touched: Option<&mut Footprint>,
    ) -> Result<(), Stuck> {
        let stuck = Stuck { event, outcome };
        if let Some(touched) = touched {
            touched.push(ALL, AccessKind::Write);
        }
        let Some(world) = &mut self.running else {
            let root = self.roots.get((event.0 ^ CONFIGURATION) as usize).ok_or(stuck)?;
            let mut root = root.clone();
            root.trace = self.traced.then(Vec::new);
            let drifts = root.drifts;
            root.tell(|| TraceEvent::Note {
                node: drifts,
                text: "its clock is a tick ahead now and then".into(),
            });
            self.running = Some(root);
            return Ok(());
        };
        let what = world.happenings().into_iter().find(|what| what.number() == event.0).ok_or(stuck)?;
        world.happen(what);
        Ok(())
    }

    fn violation(&mut self) -> Option<Violation> {
        self.running.as_ref()?.violation.clone()
    }

    fn finish(&mut self) -> Result<(), Violation> {
        self.running.as_ref().map_or(Ok(()), World::judge_end)
    }

    fn fingerprint(&mut self) -> Option<Fingerprint> {
        let Some(world) = &self.running else { return Some(Fingerprint(0)) };
        let mut digest = StateHasher::default();
        world.hash(&mut digest);
        Some(Fingerprint(digest.whole()))
    }

    fn save(&mut self, number: usize) -> bool {
        let Some(world) = self.running.as_ref().filter(|_| !self.traced) else { return false };
        self.saved.truncate(number);
        self.saved.push(world.clone());
        true
    }

    fn restore(&mut self, number: usize) -> bool {
        self.running = self.saved.get(number).cloned();
        self.running.is_some()
    }

    fn columns(&self) -> Vec<String> {
        (0..self.roots[0].rules.nodes).map(|node| format!("n{node}")).collect()
    }

    fn record_trace(&mut self) {
        self.traced = true;
        if let Some(world) = &mut self.running {
            world.trace = Some(Vec::new());
        }
    }

    fn take_trace(&mut self) -> Vec<TraceEvent> {
        let trace = self.running.as_mut().and_then(|world| world.trace.as_mut());
        trace.map(std::mem::take).unwrap_or_default()
    }
}
