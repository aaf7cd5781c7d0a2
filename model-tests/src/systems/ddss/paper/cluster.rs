//! The paper's cluster, and how a call of an application comes to the service.

use super::super::published::{At, Published};
use crate::paper::{self, PaperError, refused};
use std::cell::RefCell;
use std::future::Future;
use weft_protocols::ddss::Ddss;
use weft_protocols::rt::Rt;
use weft_protocols::transport::Mesh;
use weft_sim::profile::Profile;
use weft_sim::{Config, Sim, SimMr};
use weft_verbs::{Wait, Work};

/// The nodes of the paper's cluster (section 6).
pub(super) const NODES: u32 = 12;

/// A node.
#[derive(Clone)]
pub(super) struct Machine {
    pub rt: Rt<Sim>,
    pub mesh: Mesh<Sim>,
    pub ddss: Ddss<Sim>,
}

/// The nodes with the service on each.
pub(super) struct Cluster {
    pub below: paper::Cluster,
    machines: Vec<Machine>,
    memory: RefCell<Vec<SimMr>>,
}

impl Cluster {
    pub fn new(profile: &Profile, nodes: u32) -> Result<Cluster, PaperError> {
        Cluster::with_messages(profile, nodes, 0)
    }

    /// One whose messages may be so long, or as long as usual if that is more.
    pub fn with_messages(profile: &Profile, nodes: u32, longest: u32) -> Result<Cluster, PaperError> {
        let config = Config::new(nodes, profile.clone());
        let below = paper::Cluster::new(
            config,
            |_| Wait::Poll,
            |mesh| mesh.max_message = mesh.max_message.max(longest),
        )?;
        let start = |paper::Machine { rt, mesh }: &paper::Machine| {
            let ddss = Ddss::start(rt, mesh).map_err(refused)?;
            Ok(Machine { rt: rt.clone(), mesh: mesh.clone(), ddss })
        };
        let machines = below.machines.iter().map(start).collect::<Result<_, PaperError>>()?;
        Ok(Cluster { below, machines, memory: RefCell::default() })
    }

    /// A node.
    pub fn machine(&self, node: u32) -> Machine {
        self.machines[node as usize].clone()
    }

    /// A segment of the paper's design, whose home is the last node, as each of the other nodes sees it.
    pub fn segment(&self, size: u32) -> Result<Vec<Published<Sim>>, PaperError> {
        let (home, others) = self.machines.split_last().expect("a cluster has nodes");
        let (at, memory) = At::new(&home.mesh, size).map_err(refused)?;
        self.memory.borrow_mut().push(memory);
        Ok(others.iter().map(|machine| Published::new(&machine.mesh, at)).collect())
    }

    /// A segment of the paper's design at a node, as each node sees it.
    pub fn segment_at(&self, home: u32, size: u32) -> Result<Vec<Published<Sim>>, PaperError> {
        let (at, memory) = At::new(&self.machines[home as usize].mesh, size).map_err(refused)?;
        self.memory.borrow_mut().push(memory);
        Ok(self.machines.iter().map(|machine| Published::new(&machine.mesh, at)).collect())
    }
}

/// How an application's call comes to the service (section 6.1.2, Table 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The verbs alone: no service.
    Bare,
    /// The library in the application's process.
    Direct,
    /// The node's daemon, by messages of the machine.
    Daemon,
    /// The same by a call that returns at once, and a call that waits.
    Asynchronous,
}

impl Way {
    /// Makes a call: there, the work, and back.
    pub async fn call<T>(self, rt: &Rt<Sim>, work: impl Future<Output = T>) -> T {
        match self {
            Way::Bare => {}
            Way::Direct => rt.spend(Work::Bookkeeping),
            Way::Daemon => message(rt),
            Way::Asynchronous => {
                message(rt);
                // The wait is initiated while the daemon works; it has nothing to wait for on the way there.
                rt.spend(Work::IpcSend);
            }
        }
        let done = work.await;
        if matches!(self, Way::Daemon | Way::Asynchronous) {
            message(rt);
        }
        done
    }
}

/// A message to another process of the machine.
pub(super) fn message(rt: &Rt<Sim>) {
    rt.spend(Work::IpcSend);
    rt.spend(Work::IpcReceive);
}
