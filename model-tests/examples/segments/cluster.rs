//! A simulated cluster with the service of shared segments on each node.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use weft_protocols::ddss::Ddss;
use weft_protocols::rt::{Rt, RtConfig};
use weft_protocols::transport::{Mesh, MeshConfig, Rank};
use weft_sim::choice::Seeded;
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Sim};
use weft_verbs::{Device, Nanos, Wait};

/// A node: its clock and tasks, and the service.
#[derive(Clone)]
pub struct Machine {
    pub rt: Rt<Sim>,
    pub ddss: Ddss<Sim>,
}

/// What can keep an example from its end.
pub type Fails = Box<dyn std::error::Error>;

/// Runs what `tasks` gives for each node, for at most a second of virtual time, and returns what they have left, by node.
pub fn run<T: 'static, F>(nodes: u32, task: impl Fn(u32, Machine) -> F) -> Result<Vec<T>, Fails>
where
    F: Future<Output = Result<T, Fails>> + 'static,
{
    let profile = Profile::builtin("present-day")?;
    let fabric = Fabric::new(Config::new(nodes, profile), Box::new(Seeded::new(1)))?;
    let names: Vec<String> = (0..nodes).map(|node| NodeId(node).to_string()).collect();
    let left = Rc::new(RefCell::new(Vec::new()));
    let mut machines = Vec::new();
    for node in 0..nodes {
        let ctx = fabric.devices(NodeId(node))[0].open()?;
        let rt = Rt::<Sim>::new(&ctx, RtConfig { wait: Wait::Poll, ..RtConfig::default() })?;
        let mesh = Mesh::start(&rt, MeshConfig::new(Rank::from_index(node), names.clone()))?;
        let machine = Machine { ddss: Ddss::start(&rt, &mesh)?, rt: rt.clone() };
        fabric.mount(NodeId(node), Box::new(rt.program()));
        let (done, left) = (task(node, machine.clone()), Rc::clone(&left));
        drop(rt.spawn(async move {
            let done = done.await;
            left.borrow_mut().push((node, done));
        }));
        machines.push(machine);
    }
    fabric.run_until(Nanos::from_secs(1));
    let mut left = left.take();
    left.sort_by_key(|(node, _)| *node);
    if left.len() < nodes as usize {
        return Err(format!("{} of {nodes} nodes came to their end", left.len()).into());
    }
    left.into_iter().map(|(_, done)| done).collect()
}
