//! The paper's cluster.

use crate::paper::PaperError;
use std::cell::RefCell;
use std::fmt::Display;
use std::rc::Rc;
use weft_protocols::pario::{FsConfig, Pario};
use weft_protocols::rt::{Rt, RtConfig};
use weft_protocols::transport::{Mesh, MeshConfig, Rank};
use weft_sim::choice::Seeded;
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Sim};
use weft_verbs::{Device, Nanos, Wait};

/// A node.
#[derive(Clone)]
pub(super) struct Machine {
    pub rt: Rt<Sim>,
    pub mesh: Mesh<Sim>,
}

/// A cluster. Nothing goes wrong on it, so that the seed decides nothing but the order of coincidences.
pub(super) struct Cluster {
    fabric: Fabric,
    pub machines: Vec<Machine>,
}

impl Cluster {
    pub fn new(profile: &Profile, nodes: u32, max_message: u32) -> Result<Cluster, PaperError> {
        let config = Config { sanitize: false, ..Config::new(nodes, profile.clone()) };
        let fabric = Fabric::new(config, Box::new(Seeded::new(1))).map_err(refused)?;
        let names: Vec<String> = (0..nodes).map(|node| NodeId(node).to_string()).collect();
        let start = |node: u32| -> Result<Machine, PaperError> {
            let ctx = fabric.devices(NodeId(node))[0].open().map_err(refused)?;
            let rt = Rt::<Sim>::new(&ctx, RtConfig { wait: Wait::Poll, ..RtConfig::default() })
                .map_err(refused)?;
            let mesh = MeshConfig { max_message, ..MeshConfig::new(Rank::from_index(node), names.clone()) };
            let mesh = Mesh::start(&rt, mesh).map_err(refused)?;
            fabric.mount(NodeId(node), Box::new(rt.program()));
            Ok(Machine { rt, mesh })
        };
        let machines = (0..nodes).map(start).collect::<Result<_, _>>()?;
        Ok(Cluster { fabric, machines })
    }

    /// Starts the file service on every node.
    pub fn files(&self, config: FsConfig) -> Result<Vec<Pario<Sim>>, PaperError> {
        self.machines
            .iter()
            .map(|Machine { rt, mesh }| Pario::start(rt, mesh, config).map_err(refused))
            .collect()
    }

    /// Runs until `until`, and gives what the tasks have left; it is an error if they left less than `wanted`.
    pub fn finish<T>(
        &self,
        until: Nanos,
        results: &Rc<RefCell<Vec<T>>>,
        wanted: usize,
    ) -> Result<Vec<T>, PaperError> {
        self.fabric.run_until(until);
        let results = results.take();
        match results.len() {
            n if n == wanted => Ok(results),
            n => Err(PaperError::Unfinished(format!("{n} of {wanted} measurements at {until}"))),
        }
    }
}

pub(super) fn refused(why: impl Display) -> PaperError {
    PaperError::Cluster(why.to_string())
}
