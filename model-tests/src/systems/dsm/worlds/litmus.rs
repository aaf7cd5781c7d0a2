//! A program of a few accesses on a small cluster: its outcomes are those of sequential consistency, and at the end the managers'
//! books are what nodes hold.

use super::super::history::{Event, What, Why};
use super::super::oracles::DsmOracles;
use super::books::{books, kept_by};
use super::outcomes::{Outcome, outcomes};
use super::program::Words;
use super::steps::{Program, Seen};
use crate::explore::{Coverage, Size, SizeError, Violation};
use crate::harness::{self, Explored, Member, Model, Recorder, Shape, at_rest};
use crate::oracle::{self, Conduct, Oracles};
use std::hash::Hasher;
use weft_protocols::dsm::{Alive, Dsm, DsmConfig, DsmStats, Reading, Shared};
use weft_protocols::locks::{LockConfig, LockService, Scheme};
use weft_protocols::transport::MeshConfig;
use weft_sim::Sim;
use weft_sim::explore::AccessKind;
use weft_verbs::{Nanos, Wait};

/// The words of a minipage of 64 bytes.
pub const WORDS_A_PAGE: u32 = 8;

/// A world as the list has it.
#[derive(Clone, Copy)]
pub struct Plan {
    pub words: Words,
    pub threads: &'static str,
    pub nodes: &'static str,
    /// The node that manages all minipages; none: all nodes in turn.
    pub manager: Option<u32>,
    pub pulls: bool,
    /// Whether connections have room for one message.
    pub narrow: bool,
    /// How many nodes there are, where one dies.
    pub all: u32,
    /// The node that dies, where it is not any.
    pub dies: Option<u32>,
    /// The one that dies next.
    pub then: Option<u32>,
}

pub struct Litmus {
    program: Program,
    /// How many nodes there are.
    nodes: u32,
    pulls: bool,
    /// How many messages to a peer may wait, if that is few.
    room: Option<u32>,
    /// What sequential consistency allows, and each of them in words.
    allowed: Vec<(Outcome, &'static str)>,
    /// How what the paper leaves open is decided.
    reading: Reading,
}

pub fn make(plan: Plan, reading: Reading, size: &Size) -> Result<Litmus, SizeError> {
    let program = Program::read(&plan, size)?;
    if program.tellers().next().is_some() {
        return Err(SizeError("nobody dies in this world, and no thread tells of a death (d)".into()));
    }
    // Who says that calls are dropped does nothing else.
    let nodes = program.last_node() + 1 + u32::from(program.may_drop());
    size.within("nodes", nodes, 2..=5)?;
    let room = size.number("room")?.or(plan.narrow.then_some(1));
    size.within("room", room.unwrap_or(1), 1..=4_096)?;
    let program = program.with("room", room);
    // A world is built a few times in a program's life, and its outcomes' names live as long.
    let named = |outcome: Outcome| (outcome.clone(), &*outcome.to_string().leak());
    let allowed = outcomes(&program.threads, program.words).into_iter().map(named).collect();
    Ok(Litmus { program, nodes, pulls: plan.pulls, room, allowed, reading })
}

/// The node of each thread.
pub fn nodes_of(size: &Size, usual: &str, threads: usize) -> Result<Vec<u32>, SizeError> {
    let number = |text: &str| text.trim().parse().map_err(|_| SizeError(format!("'{text}' is no node")));
    let nodes = size.text("nodes").unwrap_or_else(|| usual.into());
    let nodes: Vec<u32> = nodes.split(',').map(number).collect::<Result<_, _>>()?;
    match nodes.len() == threads {
        true => Ok(nodes),
        false => Err(SizeError(format!("{threads} threads need as many nodes, not {}", nodes.len()))),
    }
}

/// What an execution keeps.
pub struct State {
    services: Vec<Dsm<Sim>>,
    /// If a thread locks.
    locks: Vec<LockService<Sim>>,
    shared: Shared<[u64]>,
    seen: Seen,
}

impl Litmus {
    fn outcome(&self, state: &State) -> Outcome {
        let word = |word: usize| {
            let at = self.program.words.place(word, WORDS_A_PAGE) as usize;
            // All that have it have the same, which is looked at before.
            state.services.iter().find_map(|dsm| dsm.copy(state.shared, at)).unwrap_or_default()
        };
        Outcome { seen: state.seen.by_thread.borrow().clone(), words: [0, 1, 2].map(word) }
    }
}

impl Model for Litmus {
    type State = State;
    type Oracles = ByThread;

    fn size(&self) -> Size {
        self.program.size()
    }

    /// Without one thread, or without one step.
    fn smaller(&self) -> Vec<Size> {
        self.program.smaller()
    }

    /// A message that has room only when another one is acknowledged waits for time.
    fn mesh(&self, config: &mut MeshConfig) {
        if let Some(room) = self.room {
            config.max_queued = room;
            harness::with_timers(config);
        }
    }

    fn drift(&self) -> Option<Nanos> {
        self.room.map(|_| harness::DRIFT)
    }

    fn shape(&self) -> Shape {
        // A thread that finds its minipage at hand goes on without waiting. Only a node that takes completions beside that can be
        // asked in between to give it up; where words are apart, each access waits for itself.
        let one_by_one = self.program.words != Words::Together;
        Shape { nodes: self.nodes, wait: Wait::Poll, home: None, one_by_one }
    }

    fn oracles(&self) -> ByThread {
        ByThread(DsmOracles::new(WORDS_A_PAGE, self.program.threads.len() as u32).by_thread())
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder<ByThread>) -> State {
        let start = |member: &Member| {
            let config = DsmConfig { pulls: self.pulls, ..DsmConfig::default() };
            Dsm::start_under(&member.rt, &member.mesh, config, Alive::Unasked, self.reading)
                .expect("nobody else has the channel")
        };
        let services: Vec<Dsm<Sim>> = members.iter().map(start).collect();
        let nodes = members.len() as u32;
        let lock = |member: &Member| {
            let config = LockConfig::new(Scheme::Srsl, nodes);
            LockService::start(&member.rt, &member.mesh, config).expect("nobody else has the channel")
        };
        let locks: Vec<LockService<Sim>> =
            if self.program.locks() { members.iter().map(lock).collect() } else { Vec::new() };
        let shared = self.program.shared(&services[0]);
        let seen = self.program.start(members, &services, &locks, recorder);
        State { services, locks, shared, seen }
    }

    fn finish(&self, state: &State, members: &[Member], _: &Recorder<ByThread>) -> Result<(), Violation> {
        self.judge_each(state, members)?;
        let kept = books(&state.services, state.shared, |_| true)
            .and_then(|()| kept_by(&state.services, |page| self.program.manager_of(page, self.nodes)));
        kept.map_err(|text| Violation::new("book", text))?;
        let outcome = self.outcome(state);
        match self.allowed.iter().any(|(allowed, _)| *allowed == outcome) {
            true => Ok(()),
            false => Err(Violation::new("sequential consistency", format!("no order has: {outcome}"))),
        }
    }

    fn violation_at(&self, state: &State, node: usize, member: &Member) -> Option<Violation> {
        let dsm = &state.services[node];
        let DsmStats { out_of_turn, malformed, .. } = dsm.stats();
        let locks = state.locks.get(node).map(|locks| locks.audit().leftovers());
        let left = dsm.unfinished().into_iter().chain(locks.into_iter().flatten()).chain(member.leftovers());
        at_rest(node, Conduct { out_of_turn, malformed }, left)
    }

    fn coverage(&self, state: &State, _: &[Member], sink: &mut Coverage) {
        let any = |of: fn(&DsmStats) -> u64| state.services.iter().any(|dsm| of(&dsm.stats()) > 0);
        sink.sometimes("a minipage was sent", any(|stats| stats.transfers));
        if self.pulls {
            sink.sometimes("a minipage was pulled", any(|stats| stats.pulls));
        }
        sink.sometimes("a copy was made writable", any(|stats| stats.upgrades));
        sink.sometimes("an access joined a request", any(|stats| stats.joined));
        sink.sometimes("an order waited for an access", any(|stats| stats.orders_waited));
        if self.program.may_drop() {
            sink.sometimes("a call was dropped", state.seen.dropped.get() > 0);
        }
        let outcome = self.outcome(state);
        for (allowed, name) in &self.allowed {
            sink.sometimes(name, *allowed == outcome);
        }
    }
}

/// The oracles where nobody looks at a clock, and where events of different nodes are in no order but that which messages give
/// them. `MORTAL`: nodes may die, and what one does counts until the others go on without it.
#[derive(Clone)]
pub struct ByThread<const MORTAL: bool = false>(pub DsmOracles);

impl<const MORTAL: bool> Oracles for ByThread<MORTAL> {
    type Event = Event;

    fn promises(&self) -> Vec<(&'static str, &'static str)> {
        self.0.promises()
    }

    fn observe(&mut self, event: &Event, broken: &mut dyn FnMut(oracle::Violation)) {
        self.0.observe(&Event { at_ns: 0, ..*event }, broken);
    }

    fn ended(&self) -> u64 {
        self.0.ended()
    }

    fn unended(&self) -> u64 {
        self.0.unended()
    }

    fn finish(&mut self, now: Nanos, healthy: Nanos) -> Vec<oracle::Violation> {
        self.0.finish(now, healthy)
    }

    fn state(&self, to: &mut dyn Hasher) {
        self.0.state(to);
    }
}

impl<const MORTAL: bool> Explored for ByThread<MORTAL> {
    /// An access is judged by its place, whenever it is recorded, unless somebody was told that its minipage is lost; who leaves a
    /// barrier, by who has entered.
    fn access(event: &Event) -> Option<AccessKind> {
        match event.what {
            What::Enters(_) => Some(AccessKind::Read),
            What::Leaves(_) | What::Outlives(_) | What::LeftOut => Some(AccessKind::Write),
            _ if MORTAL => Some(AccessKind::Read),
            _ => None,
        }
    }

    /// Nothing is judged by which minipage was found lost first.
    fn is_response(event: &Event) -> bool {
        MORTAL && matches!(event.what, What::Failed(Why::Lost(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::RequestId;

    #[test]
    fn who_is_told_of_a_loss_is_in_order_with_those_who_access_and_not_with_others_who_are_told() {
        let event = |what| Event { at_ns: 0, request: RequestId::of_node(1), what };
        let lost = event(What::Failed(Why::Lost(0)));
        assert!(ByThread::<true>::is_response(&lost));
        for what in [What::Failed(Why::Died(0)), What::Failed(Why::Ended)] {
            assert!(!ByThread::<true>::is_response(&event(what)));
            assert_eq!(ByThread::<true>::access(&event(what)), Some(AccessKind::Read));
        }
        assert!(!ByThread::<false>::is_response(&lost), "nothing is lost where nobody dies");
    }
}
