//! Shared segments of which a node dies: the home, or one of its clients, at any moment.

use super::Publishing;
use crate::explore::{Size, SizeError, Violation};
use crate::harness::{Death, InOrder, Member, Model, Nodes, RecorderOf, Requests, Shape, SystemModel};
use crate::named::Named;
use crate::record::Record;
use crate::system::System;
use crate::systems::ddss::history::{Event, What};
use crate::systems::ddss::oracles::DdssOracles;
use crate::systems::ddss::{Segments, Service};
use weft_protocols::ddss::{Ddss, Spec};
use weft_protocols::transport::MeshConfig;
use weft_verbs::{Nanos, Wait};

pub(super) struct Crash {
    model: Publishing,
    requests: Requests,
    /// Who dies; otherwise any node, each in an initial configuration.
    dies: Option<u32>,
}

/// What an execution keeps.
pub struct State {
    nodes: Nodes<Publishing>,
    dead: usize,
}

/// A world of these requests, in a size.
pub(super) fn make(size: &Size, model: Publishing, calls: &str) -> Result<Crash, SizeError> {
    let requests = Requests::parse(&size.text("calls").unwrap_or_else(|| calls.to_owned()));
    // Two go on without the third.
    size.within("calls", requests.nodes(), 3..=4)?;
    if let Some((_, letter)) =
        requests.all().find(|(client, letter)| model.request(*client, *letter).is_none())
    {
        return Err(SizeError(format!("calls are {}, not '{letter}'", Publishing::LETTERS)));
    }
    // The mistake is one about a client.
    let usual = matches!(model, Publishing::Unfenced(_)).then_some(1);
    let dies = size.number("dies")?.or(usual);
    size.within("dies", dies.unwrap_or(0), 0..=requests.nodes() - 1)?;
    Ok(Crash { model, requests, dies })
}

impl Crash {
    fn dead(&self, configuration: usize) -> u32 {
        self.dies.unwrap_or(configuration as u32)
    }

    fn sized(&self, requests: &Requests) -> Size {
        let mut size = Size::new([("calls", requests.to_string())]);
        if let Some(dies) = self.dies {
            size.set("dies", dies);
        }
        size
    }
}

impl Model for Crash {
    type State = State;
    type Oracles = InOrder<DdssOracles>;

    fn size(&self) -> Size {
        self.sized(&self.requests)
    }

    fn smaller(&self) -> Vec<Size> {
        let smaller = self.requests.smaller(self.requests.nodes());
        smaller.iter().map(|requests| self.sized(requests)).collect()
    }

    /// Whoever lives and is a home marks headers over a connection to itself; here that is the first node.
    fn shape(&self) -> Shape {
        Shape { nodes: self.requests.nodes(), wait: Wait::Poll, home: Some(0), one_by_one: true }
    }

    fn mesh(&self, config: &mut MeshConfig) {
        config.recv_buffers = 16;
    }

    fn oracles(&self) -> InOrder<DdssOracles> {
        self.model.oracles(self.requests.nodes())
    }

    fn configurations(&self) -> usize {
        if self.dies.is_some() { 1 } else { self.requests.nodes() as usize }
    }

    fn configuration(&self, number: usize) -> String {
        format!("n{} dies", self.dead(number))
    }

    fn start(&self, number: usize, members: &[Member], recorder: &RecorderOf<Publishing>) -> State {
        let mut death = Death::of(self.dead(number), members);
        if let Publishing::Unfenced(_) = self.model {
            death = death.unfenced();
        }
        let work = self.model.work();
        let start = |(node, member): (usize, &Member)| {
            let (dead, recorder) = (death.dead() as u32, recorder.clone());
            let left_out = move || recorder.record(Event::of_node(Nanos::ZERO, dead, What::LeftOut));
            let told = death.start(member, left_out);
            let ddss = Ddss::start_told(&member.rt, &member.mesh, told);
            let ddss = ddss.expect("nobody else has the channel");
            let spec = Spec { size: work.bytes, model: work.model };
            (member.place(node, members.len(), 0), Service { ddss, spec, rival: None, incarnation: 0 })
        };
        let nodes = Nodes::new(members.iter().enumerate().map(start).collect());
        nodes.start_all_clients(&self.model, &self.requests, recorder);
        State { nodes, dead: death.dead() }
    }

    /// Who was left out learns it by what it is told or refused. A fault may have ended all that it said before anybody refused it,
    /// and what was to be told was dropped with its connection: a membership would ask.
    fn rests_after_faults(&self, configuration: usize, recorder: &RecorderOf<Publishing>) {
        recorder.record_at_end(&Event::of_node(Nanos::ZERO, self.dead(configuration), What::Crashed));
    }

    fn violation_at(&self, State { nodes, dead }: &State, node: usize, member: &Member) -> Option<Violation> {
        if node == *dead {
            return None;
        }
        nodes.violation_at(node, member)
    }

    fn name_of(&self, state: &State, node: usize, address: u64) -> Option<Named> {
        Segments::name_of(state.nodes.service(node), address)
    }

    fn branches(&self) -> Vec<&'static str> {
        Publishing::BRANCHES.to_vec()
    }

    fn reached_at(&self, state: &State, node: usize, member: &Member) -> u32 {
        state.nodes.reached_at(&self.model, node, member)
    }

    fn is_memoisable(&self) -> bool {
        true
    }
}
