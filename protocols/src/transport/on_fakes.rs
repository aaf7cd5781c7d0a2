//! A node of two on fake devices, for tests: what the other node does is what its connection managers tell.

use super::link::Link;
use super::wire::Hello;
use super::{Channel, Mesh, MeshConfig, Rank};
use crate::rt::fake::{Fake, V, World};
use crate::rt::{Program, Rt, RtConfig};
use std::cell::RefMut;
use weft_verbs::{AsyncEvent, CmEvent, CmId, Nanos, Node, Park};

/// The attempts of the fake devices.
pub(super) const OWN: CmId = CmId(77);

/// The lower rank of two nodes, with two rails.
pub(super) struct OnFakes {
    pub(super) fakes: [Fake; 2],
    pub(super) rt: Rt<V>,
    pub(super) mesh: Mesh<V>,
    program: Program<V>,
}

impl OnFakes {
    pub(super) fn new() -> OnFakes {
        OnFakes::on([Fake::default(), Fake::default()])
    }

    /// One that begins on these devices, as they are.
    pub(super) fn on(fakes: [Fake; 2]) -> OnFakes {
        let rt = Rt::<V>::over(&fakes, RtConfig::default()).expect("the fake devices obey");
        let names = |rail: u8| vec![format!("n0.{rail}"), format!("n1.{rail}")];
        let config = MeshConfig {
            other_rails: vec![names(1).into()],
            standby: false,
            hold_off: Nanos::MAX,
            ..MeshConfig::new(Rank::from_index(0), names(0))
        };
        let mesh = Mesh::start(&rt, config).expect("the fake devices obey");
        OnFakes { program: rt.program(), fakes, rt, mesh }
    }

    pub(super) fn world(&self, rail: usize) -> RefMut<'_, World> {
        self.fakes[rail].world.borrow_mut()
    }

    /// Steps until the node waits.
    pub(super) fn settle(&mut self) {
        while self.program.step() == Park::Again {}
    }

    /// Looks at the link to the other node.
    pub(super) fn link<R>(&self, look: impl FnOnce(&Link) -> R) -> R {
        self.mesh.shared.with_peer(1, |peer| look(&peer.link))
    }

    /// What the other node says of itself in a request, or in its answer to one.
    fn hello(&self, generation: u32) -> Vec<u8> {
        let own = self.mesh.shared.session;
        let hello = self.mesh.shared.hello(1, own, generation, 0);
        Hello { rank: Rank::from_index(1), to: Rank::from_index(0), session: 99, ..hello }.encode().to_vec()
    }

    /// The other node asks for a connection.
    pub(super) fn is_asked(&self, rail: usize, id: u64, generation: u32) {
        let (service, private) = (self.mesh.shared.config.service, self.hello(generation));
        self.world(rail).cm_events.push_back(CmEvent::Request { id: CmId(id), service, private });
    }

    /// Makes a connection on a rail, while the other one has no link.
    pub(super) fn stands_on(&mut self, rail: usize) {
        let event = |node: &mut OnFakes, rail: usize, event| {
            node.world(rail).async_events.push_back(event);
            node.settle();
        };
        let told = |node: &mut OnFakes, event| {
            node.world(rail).cm_events.push_back(event);
            node.settle();
        };
        event(self, 1 - rail, AsyncEvent::PortError(1));
        self.mesh.send(Rank::from_index(1), Channel(3), b"there").expect("there is room for one");
        self.settle();
        told(self, CmEvent::Resolved { id: OWN });
        let private = self.hello(1);
        told(self, CmEvent::Established { id: OWN, private });
        event(self, 1 - rail, AsyncEvent::PortActive(1));
        assert!(self.link(Link::is_up));
    }
}
