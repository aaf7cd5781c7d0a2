//! The paper's cluster: a few nodes, each with its own way to learn of completions.

use crate::paper::PaperError;
use std::cell::RefCell;
use std::fmt::Display;
use std::rc::Rc;
use weft_protocols::rt::{Rt, RtConfig};
use weft_protocols::transport::{Mesh, MeshConfig, Rank};
use weft_sim::choice::Seeded;
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Sim};
use weft_verbs::{Device, Nanos, Wait};

/// The longest message, in bytes: notices carry minipages of 4 KiB.
const LONGEST: u32 = 4_096 + 64;

/// A cluster. Nothing goes wrong on it, so that the seed decides nothing but the order of coincidences.
pub(super) struct Cluster {
    fabric: Fabric,
    pub nodes: Vec<(Rt<Sim>, Mesh<Sim>)>,
}

impl Cluster {
    /// A node for each way.
    pub fn new(profile: &Profile, waits: &[Wait]) -> Result<Cluster, PaperError> {
        let config = Config::new(waits.len() as u32, profile.clone());
        let fabric = Fabric::new(config, Box::new(Seeded::new(1))).map_err(refused)?;
        let names: Vec<String> = (0..waits.len() as u32).map(|node| NodeId(node).to_string()).collect();
        let start = |(node, wait): (u32, &Wait)| {
            let ctx = fabric.devices(NodeId(node))[0].open().map_err(refused)?;
            let rt =
                Rt::<Sim>::new(&ctx, RtConfig { wait: *wait, ..RtConfig::default() }).map_err(refused)?;
            let mesh =
                MeshConfig { max_message: LONGEST, ..MeshConfig::new(Rank::from_index(node), names.clone()) };
            let mesh = Mesh::start(&rt, mesh).map_err(refused)?;
            fabric.mount(NodeId(node), Box::new(rt.program()));
            Ok((rt, mesh))
        };
        let nodes = (0..).zip(waits).map(start).collect::<Result<_, PaperError>>()?;
        Ok(Cluster { fabric, nodes })
    }

    /// Runs until then, or until nothing is left to do.
    pub fn run_until(&self, until: Nanos) {
        self.fabric.run_until(until);
    }

    /// Runs until `until`, and gives the mean of what was measured, in microseconds; there must be as many as were wanted.
    pub fn mean(
        &self,
        until: Nanos,
        times: &Rc<RefCell<Vec<Nanos>>>,
        wanted: usize,
    ) -> Result<f64, PaperError> {
        self.fabric.run_until(until);
        let times = times.take();
        if times.len() != wanted {
            let found = times.len();
            return Err(PaperError::Unfinished(format!("{found} of {wanted} measurements at {until}")));
        }
        let sum = times.into_iter().fold(Nanos::ZERO, |sum, time| sum + time);
        Ok(sum.as_micros_f64() / wanted as f64)
    }
}

pub(super) fn refused(why: impl Display) -> PaperError {
    PaperError::Cluster(why.to_string())
}
