//! The machines of a paper's experiment.

use super::PaperError;
use std::cell::RefCell;
use std::fmt::Display;
use std::rc::Rc;
use weft_protocols::rt::{Rt, RtConfig};
use weft_protocols::transport::{Mesh, MeshConfig, Rank};
use weft_sim::choice::Seeded;
use weft_sim::fault::Fault;
use weft_sim::{Config, Fabric, NodeId, Sim};
use weft_verbs::{Device, Nanos, Wait};

/// A node of the cluster.
#[derive(Clone)]
pub struct Machine {
    /// Its runtime.
    pub rt: Rt<Sim>,
    /// How it reaches the others.
    pub mesh: Mesh<Sim>,
}

/// A cluster. Nothing goes wrong on it but what is planned, so that its seed decides nothing but the order of coincidences.
pub struct Cluster {
    /// What connects the nodes.
    pub fabric: Fabric,
    /// The nodes, by their ranks.
    pub machines: Vec<Machine>,
}

impl Cluster {
    /// Nodes that wait for completions in the way that `wait` says of each; `change` sets what is not as usual in the
    /// configuration of their meshes.
    ///
    /// # Errors
    ///
    /// [`PaperError::Cluster`]: a device or a mesh refused.
    pub fn new(
        config: Config,
        wait: impl Fn(u32) -> Wait,
        change: impl Fn(&mut MeshConfig),
    ) -> Result<Cluster, PaperError> {
        let (nodes, rails) = (config.nodes, config.devices);
        let fabric = Fabric::new(config, Box::new(Seeded::new(1))).map_err(refused)?;
        let names = |rail: u8| (0..nodes).map(|node| NodeId(node).cable(rail + 1)).collect::<Vec<_>>();
        let start = |node: u32| {
            let devices = fabric.devices(NodeId(node));
            let contexts =
                devices.iter().map(Device::open).collect::<Result<Vec<_>, _>>().map_err(refused)?;
            let rt = RtConfig { wait: wait(node), ..RtConfig::default() };
            let rt = Rt::<Sim>::over(&contexts, rt).map_err(refused)?;
            let mut mesh = MeshConfig::new(Rank::from_index(node), names(0));
            mesh.other_rails = (1..rails).map(|rail| names(rail).into()).collect();
            change(&mut mesh);
            let mesh = Mesh::start(&rt, mesh).map_err(refused)?;
            fabric.mount(NodeId(node), Box::new(rt.program()));
            Ok(Machine { rt, mesh })
        };
        let machines = (0..nodes).map(start).collect::<Result<_, PaperError>>()?;
        Ok(Cluster { fabric, machines })
    }

    /// Something that will go wrong.
    ///
    /// # Errors
    ///
    /// [`PaperError::Cluster`]: the fabric has no such thing.
    pub fn plan(&self, at: Nanos, fault: Fault) -> Result<(), PaperError> {
        self.fabric.plan(at, fault).map(drop).map_err(refused)
    }

    /// Goes on until `until`, or until nothing is left to do.
    pub fn run_until(&self, until: Nanos) {
        self.fabric.run_until(until);
    }

    /// Goes on until `until`, and gives what the tasks have left.
    ///
    /// # Errors
    ///
    /// [`PaperError::Unfinished`]: there are not as many results as were wanted.
    pub fn finish<T>(
        &self,
        until: Nanos,
        results: &Rc<RefCell<Vec<T>>>,
        wanted: usize,
    ) -> Result<Vec<T>, PaperError> {
        self.run_until(until);
        let results = results.take();
        match results.len() {
            n if n == wanted => Ok(results),
            n => Err(PaperError::Unfinished(format!("{n} of {wanted} measurements at {until}"))),
        }
    }
}

/// What a paper's report says of a cluster that cannot be built.
pub fn refused(why: impl Display) -> PaperError {
    PaperError::Cluster(why.to_string())
}
