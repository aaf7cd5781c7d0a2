//! Shared segments of which a node restarts at any event: its next incarnation makes the same calls.

use super::Publishing;
use crate::explore::{Size, SizeError, Violation};
use crate::harness::{InOrder, Member, Model, Nodes, RecorderOf, Requests, Shape, SystemModel, comeback};
use crate::named::Named;
use crate::record::Record;
use crate::system::System;
use crate::systems::ddss::history::{Event, What};
use crate::systems::ddss::oracles::DdssOracles;
use crate::systems::ddss::{Segments, Service};
use weft_protocols::ddss::{Ddss, Spec};
use weft_protocols::transport::MeshConfig;
use weft_sim::explore::{FaultSet, Outcome};
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

pub(super) struct Back {
    model: Publishing,
    requests: Requests,
}

/// What an execution keeps.
pub struct State {
    nodes: Nodes<Publishing>,
    /// The first incarnation of each.
    at_first: Vec<u64>,
}

/// A world of these requests, in a size.
pub(super) fn make(size: &Size, model: Publishing, calls: &str) -> Result<Back, SizeError> {
    let requests = Requests::parse(&size.text("calls").unwrap_or_else(|| calls.to_owned()));
    size.within("calls", requests.nodes(), 2..=3)?;
    if let Some((_, letter)) =
        requests.all().find(|(client, letter)| model.request(*client, *letter).is_none())
    {
        return Err(SizeError(format!("calls are {}, not '{letter}'", Publishing::LETTERS)));
    }
    Ok(Back { model, requests })
}

impl Back {
    fn service(&self, member: &Member, at_first: &[u64], is_back: bool) -> Service<Sim> {
        let work = self.model.work();
        let told = comeback::start(member, at_first, is_back);
        let ddss = Ddss::start_told(&member.rt, &member.mesh, told).expect("nobody else has the channel");
        let spec = Spec { size: work.bytes, model: work.model };
        Service { ddss, spec, rival: None, incarnation: is_back.into() }
    }
}

impl Model for Back {
    type State = State;
    type Oracles = InOrder<DdssOracles>;

    fn size(&self) -> Size {
        Size::new([("calls", self.requests.to_string())])
    }

    fn smaller(&self) -> Vec<Size> {
        let smaller = self.requests.smaller(self.requests.nodes());
        smaller.iter().map(|requests| Size::new([("calls", requests.to_string())])).collect()
    }

    /// Whoever is a home marks headers over a connection to itself; here that is the first node.
    fn shape(&self) -> Shape {
        Shape { nodes: self.requests.nodes(), wait: Wait::Poll, home: Some(0), one_by_one: true }
    }

    fn mesh(&self, config: &mut MeshConfig) {
        config.recv_buffers = 16;
    }

    fn usual_faults(&self) -> FaultSet {
        FaultSet::one(Outcome::Restart)
    }

    fn most_faults(&self) -> Option<u32> {
        Some(1)
    }

    fn oracles(&self) -> InOrder<DdssOracles> {
        self.model.oracles(self.requests.nodes())
    }

    fn start(&self, _: usize, members: &[Member], recorder: &RecorderOf<Publishing>) -> State {
        let at_first: Vec<u64> = members.iter().map(|member| member.mesh.incarnation()).collect();
        let start = |(node, member): (usize, &Member)| {
            (member.place(node, members.len(), 0), self.service(member, &at_first, false))
        };
        let nodes = Nodes::new(members.iter().enumerate().map(start).collect());
        nodes.start_all_clients(&self.model, &self.requests, recorder);
        State { nodes, at_first }
    }

    fn restart(
        &self,
        State { nodes, at_first }: &mut State,
        node: NodeId,
        member: &Member,
        recorder: &RecorderOf<Publishing>,
    ) {
        recorder.record(Event::of_node(Nanos::ZERO, node.0, What::Crashed));
        let service = self.service(member, at_first, true);
        let place = member.place(node.index(), at_first.len(), 1);
        nodes.start_anew(node.index(), (place, service), &self.model, &self.requests, recorder);
    }

    fn violation_at(&self, State { nodes, .. }: &State, node: usize, member: &Member) -> Option<Violation> {
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
}
