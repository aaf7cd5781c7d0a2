//! Two of the thesis's machines, and their sockets.

use crate::paper::PaperError;
use std::fmt::Display;
use weft_protocols::rt::{Rt, RtConfig};
use weft_protocols::sdp::{Sdp, SdpOptions};
use weft_protocols::transport::{Mesh, MeshConfig, Rank};
use weft_sim::choice::Seeded;
use weft_sim::fault::Fault;
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Sim};
use weft_verbs::{Device, Nanos, Wait};

/// A machine.
#[derive(Clone)]
pub(super) struct Machine {
    pub rt: Rt<Sim>,
    pub sdp: Sdp<Sim>,
}

/// Two machines: the first one sends, the second one receives.
pub(super) struct Pair {
    fabric: Fabric,
    pub sender: Machine,
    pub receiver: Machine,
}

impl Pair {
    /// Machines of so many rails, whose processors wait in this way.
    pub fn new(profile: &Profile, rails: u8, wait: Wait, options: SdpOptions) -> Result<Pair, PaperError> {
        let config = Config { devices: rails, ..Config::new(2, profile.clone()) };
        let fabric = Fabric::new(config, Box::new(Seeded::new(1))).map_err(refused)?;
        let names = |rail: u8| (0..2).map(|node| NodeId(node).cable(rail + 1)).collect::<Vec<_>>();
        let machine = |node: u32| -> Result<Machine, PaperError> {
            let devices = fabric.devices(NodeId(node));
            let contexts =
                devices.iter().map(Device::open).collect::<Result<Vec<_>, _>>().map_err(refused)?;
            let rt = Rt::<Sim>::over(&contexts, RtConfig { wait, ..RtConfig::default() }).map_err(refused)?;
            let mesh = MeshConfig {
                other_rails: (1..rails).map(|rail| names(rail).into()).collect(),
                max_message: options.longest_message(),
                // A failover registers the buffers of the other rail: many at a time.
                chunk: 1 << 20,
                ..MeshConfig::new(Rank::from_index(node), names(0))
            };
            let mesh = Mesh::start(&rt, mesh).map_err(refused)?;
            let sdp = Sdp::start(&rt, &mesh, options).map_err(refused)?;
            fabric.mount(NodeId(node), Box::new(rt.program()));
            Ok(Machine { rt, sdp })
        };
        let (sender, receiver) = (machine(0)?, machine(1)?);
        Ok(Pair { fabric, sender, receiver })
    }

    /// Something that will go wrong.
    pub fn plan(&self, at: Nanos, fault: Fault) -> Result<(), PaperError> {
        self.fabric.plan(at, fault).map(drop).map_err(refused)
    }

    /// Goes on until a time.
    pub fn run_until(&self, until: Nanos) {
        self.fabric.run_until(until);
    }

    /// How long the processors of the sender and of the receiver were busy so far. Waiting is no work, even if it spins.
    pub fn busy(&self) -> [Nanos; 2] {
        let stats = self.fabric.stats();
        [0, 1].map(|node| Nanos(stats.busy[node].total()))
    }
}

pub(super) fn refused(why: impl Display) -> PaperError {
    PaperError::Cluster(why.to_string())
}
