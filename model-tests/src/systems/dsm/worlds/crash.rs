//! A program on memory of which a node [dies](Death): the others leave it out, each at its own moment, whatever is in motion then.

use super::super::history::{Event, What};
use super::super::oracles::DsmOracles;
use super::super::tell_of_others;
use super::books::books;
use super::litmus::{ByThread, Plan, WORDS_A_PAGE};
use super::steps::Program;
use crate::explore::{AnyModel, Coverage, Size, SizeError, Violation};
use crate::harness::{self, Death, Harness, Model, Shape};
use crate::oracle::Conduct;
use crate::record::Record;
use weft_protocols::dsm::{Alive, Dsm, DsmConfig, DsmStats, Reading, Shared};
use weft_protocols::transport::{MeshConfig, Rank};
use weft_sim::Sim;
use weft_verbs::{Nanos, Wait};

/// The oracles, where what a node does counts until the others go on without it.
type Oracles = ByThread<true>;

struct Crash<R> {
    name: &'static str,
    program: Program,
    /// How many nodes there are.
    all: u32,
    /// Who dies; otherwise any node, each in an initial configuration.
    dies: Option<u32>,
    reading: R,
}

pub fn make<R: Reading>(plan: Plan, reading: R, size: &Size) -> Result<Box<dyn AnyModel>, SizeError> {
    let program = Program::read(&plan, size)?;
    let dies = size.number("dies")?.or(plan.dies);
    // A majority goes on, so there are three and the witness.
    let all = size.number("all")?.unwrap_or(plan.all);
    size.within("all", all, 3..=5)?;
    size.within("nodes", program.last_node().max(dies.unwrap_or(0)) + 1, 1..=all)?;
    Ok(Harness::boxed(Crash { name: plan.name, program, all, dies, reading }))
}

/// What an execution keeps.
pub struct State<R: Reading> {
    services: Vec<Dsm<Sim, R>>,
    shared: Shared<[u64]>,
    dead: usize,
}

impl<R: Reading> Crash<R> {
    /// A size of the program, and what else it takes.
    fn sized(&self, mut size: Size) -> Size {
        size.set("all", self.all);
        if let Some(dies) = self.dies {
            size.set("dies", dies);
        }
        size
    }

    /// Who dies in an initial configuration.
    fn dead(&self, configuration: usize) -> u32 {
        self.dies.unwrap_or(configuration as u32)
    }
}

impl<R: Reading> Model for Crash<R> {
    type State = State<R>;
    type Oracles = Oracles;

    fn name(&self) -> &str {
        self.name
    }

    fn size(&self) -> Size {
        self.sized(self.program.size())
    }

    fn smaller(&self) -> Vec<Size> {
        self.program.smaller().into_iter().map(|size| self.sized(size)).collect()
    }

    fn shape(&self) -> Shape {
        Shape { nodes: self.all, wait: Wait::Poll, home: None, one_by_one: true }
    }

    /// Reports make more messages than worlds have otherwise.
    fn mesh(&self, config: &mut MeshConfig) {
        config.recv_buffers = 16;
    }

    fn oracles(&self) -> Oracles {
        ByThread(DsmOracles::new(WORDS_A_PAGE, self.program.threads.len() as u32).among(self.all).by_thread())
    }

    fn promises(&self) -> &'static [&'static str] {
        &["book"]
    }

    fn configurations(&self) -> usize {
        if self.dies.is_some() { 1 } else { self.all as usize }
    }

    fn configuration(&self, number: usize) -> String {
        format!("n{} dies", self.dead(number))
    }

    fn start(
        &self,
        number: usize,
        members: &[harness::Member],
        recorder: &harness::Recorder<Oracles>,
    ) -> State<R> {
        let death = Death::of(self.dead(number), members);
        let start = |(node, member): (u32, &harness::Member)| {
            let harness::Member { rt, mesh } = member;
            let alive = Alive::Told(death.first(), death.start_in_first(member));
            let dsm = Dsm::start_under(rt, mesh, DsmConfig::default(), alive, self.reading);
            let dsm = dsm.expect("nobody else has the channel");
            tell_of_others(&dsm, rt, node, recorder.clone());
            dsm
        };
        let services: Vec<_> = (0..).zip(members).map(start).collect();
        let shared = self.program.shared(&services[0]);
        self.program.start(members, &services, &[], recorder);
        State { services, shared, dead: death.dead() }
    }

    /// Who was left out learns it by what it is told or refused. A fault may have ended all that it said before anybody refused it,
    /// and what was to be told was dropped with its connection: a membership would ask.
    fn rests_after_faults(&self, state: &State<R>, recorder: &harness::Recorder<Oracles>) {
        recorder.record(Event::of_node(Nanos::ZERO, state.dead as u32, What::Crashed));
    }

    fn finish(
        &self,
        state: &State<R>,
        members: &[harness::Member],
        _: &harness::Recorder<Oracles>,
    ) -> Result<(), Violation> {
        let mut nodes = members.iter().enumerate();
        if let Some(violation) = nodes.find_map(|(node, member)| self.violation_at(state, node, member)) {
            return Err(violation);
        }
        let lives = |rank: Rank| rank.index() != state.dead;
        books(&state.services, state.shared, lives).map_err(|text| Violation::new("book", text))
    }

    fn violation_at(&self, state: &State<R>, node: usize, _: &harness::Member) -> Option<Violation> {
        if node == state.dead {
            return None;
        }
        let dsm = &state.services[node];
        let DsmStats { out_of_turn, malformed, .. } = dsm.stats();
        harness::at_rest(node, Conduct { out_of_turn, malformed }, dsm.unfinished())
    }

    fn coverage(&self, state: &State<R>, _: &[harness::Member], sink: &mut Coverage) {
        let any = |of: fn(&DsmStats) -> u64| state.services.iter().any(|dsm| of(&dsm.stats()) > 0);
        sink.sometimes("a minipage was sent", any(|stats| stats.transfers));
        sink.sometimes("a minipage was lost with the dead", any(|stats| stats.lost));
        sink.sometimes("a transfer was under way when an epoch began", any(|stats| stats.fenced));
        sink.sometimes("a message came of an epoch that was over", any(|stats| stats.stale));
    }
}
