//! A cluster with a lock service on every machine, and its clients.

use super::faults::FaultPlan;
use super::{RunError, Scribe};
use crate::history::ClientId;
use crate::scenario::{self, Connect, Scenario};
use crate::workload::{self, KeyPicker, Plan, Until};
use std::rc::Rc;
use weft_protocols::locks::{LockConfig, LockService};
use weft_protocols::rt::{JoinHandle, Rt, RtConfig};
use weft_protocols::transport::{Bootstrap, Mesh, MeshConfig, Rank};
use weft_sim::choice::{Choice, Seeded};
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Sim, Topology};
use weft_verbs::{AckTimeout, Device, Nanos, Retries, Service};

/// What one machine runs.
pub struct Machine {
    /// Its runtime.
    pub rt: Rt<Sim>,
    /// Its connections.
    pub mesh: Mesh<Sim>,
    /// Its lock daemon.
    pub locks: LockService<Sim>,
}

/// A cluster with a lock service on every machine. Nothing in it is shared with another world.
pub struct World {
    pub(super) fabric: Fabric,
    pub(super) machines: Vec<Machine>,
    pub(super) scribe: Scribe,
    pub(super) plan: FaultPlan,
    pub(super) scenario: Scenario,
    pub(super) seed: u64,
    pub(super) clients: Vec<JoinHandle<()>>,
    /// How many faults have struck.
    pub(super) struck: u64,
}

impl World {
    /// Builds the cluster of `scenario`. What the scenario leaves to chance is drawn from `seed`; the order of
    /// simultaneous events and what the fabric draws is answered by `choice`.
    pub fn new(scenario: &Scenario, seed: u64, choice: Box<dyn Choice>) -> Result<World, RunError> {
        let profile = Profile::builtin(&scenario.cluster.profile).map_err(refused)?;
        let nodes = scenario.cluster.nodes;
        let names: Vec<String> = (0..nodes).map(|node| NodeId(node).to_string()).collect();
        let fabric = Fabric::new(config(scenario, &profile), choice).map_err(refused)?;
        let build = |node| machine(&fabric, scenario, mesh_config(scenario, &profile, node, &names)?, node);
        let machines = (0..nodes).map(NodeId).map(build).collect::<Result<_, _>>()?;
        Ok(World {
            scribe: Scribe::new(scenario.workload.scheme.has_tokens(), false),
            plan: FaultPlan::new(scenario, seed),
            scenario: scenario.clone(),
            seed,
            clients: Vec::new(),
            struck: 0,
            fabric,
            machines,
        })
    }

    /// The world of one seed, which also answers the fabric's choices.
    pub fn seeded(scenario: &Scenario, seed: u64) -> Result<World, RunError> {
        World::new(scenario, seed, Box::new(Seeded::new(seed)))
    }

    /// The fabric.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// What the machines run, by number.
    pub fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// The book in which the clients write.
    pub fn scribe(&self) -> &Scribe {
        &self.scribe
    }

    /// Starts the clients of the scenario's workload.
    pub fn start_clients(&mut self) {
        let work = Rc::new(self.scenario.workload.clone());
        let keys = Rc::new(KeyPicker::new(work.keys, work.locks));
        let until = until(&work);
        for (node, machine) in (0..).zip(&self.machines) {
            let client = |index| {
                let id = ClientId { node, index };
                let plan = Plan::new(&work, &keys, self.seed, id);
                workload::run(
                    machine.rt.clone(),
                    machine.locks.client(),
                    id,
                    plan,
                    until,
                    self.scribe.clone(),
                )
            };
            let clients = (0..work.clients).map(client);
            match self.scenario.cluster.connect {
                Connect::Cm => self.clients.extend(clients.map(|client| machine.rt.spawn(client))),
                Connect::Oob => self.clients.push(after_meeting(machine, clients.collect())),
            }
        }
    }

    /// Adds a task to those that must end before the run does; for clients of a test's own.
    pub fn start(&mut self, node: usize, task: impl Future<Output = ()> + 'static) {
        let handle = self.machines[node].rt.spawn(task);
        self.clients.push(handle);
    }

    /// Whether all clients are through.
    pub fn all_through(&self) -> bool {
        self.clients.iter().all(JoinHandle::is_finished)
    }
}

/// How many requests each client of a workload makes. Time is that of the node's clock.
pub fn until(work: &scenario::Workload) -> Until {
    match (work.requests, work.duration) {
        (_, Some(duration)) => Until::Time(duration.nanos()),
        (requests, None) => Until::Requests(requests.unwrap_or(0)),
    }
}

fn config(scenario: &Scenario, profile: &Profile) -> Config {
    let topology = match scenario.cluster.topology {
        scenario::Topology::Switch => Topology::Switch,
    };
    Config { topology, ..Config::new(scenario.cluster.nodes, profile.clone()) }
}

/// The transport's settings for one node of a scenario, on either backend. `names` are those of all nodes in the
/// network.
pub fn mesh_config(
    scenario: &Scenario,
    profile: &Profile,
    node: NodeId,
    names: &[String],
) -> Result<MeshConfig, RunError> {
    let me = Rank::new(node.0 + 1).ok_or_else(|| refused("ranks start from one"))?;
    let timeout =
        scenario.transport.ack_timeout.map_or(Some(profile.transport.ack_timeout()), AckTimeout::new);
    let retry = scenario.transport.retries.map_or(Some(profile.transport.retry()), Retries::new);
    let mut config = MeshConfig::new(me, names.to_vec());
    config.timeout = timeout.ok_or_else(|| refused("the time-out's exponent is above 31"))?;
    config.retry = retry.ok_or_else(|| refused("there are more than 7 retries"))?;
    let limits = &scenario.transport;
    config.recv_buffers = limits.recv_buffers.unwrap_or(config.recv_buffers);
    config.send_depth = limits.send_depth.unwrap_or(config.send_depth);
    config.max_queued = limits.max_queued.unwrap_or(config.max_queued);
    config.rd_atomic = limits.rd_atomic.unwrap_or(config.rd_atomic);
    config.rnr_retry = profile.transport.rnr_retry();
    config.rnr_timer = profile.transport.min_rnr_timer();
    Ok(config)
}

/// The lock service's settings for a scenario, on either backend.
pub fn lock_config(scenario: &Scenario) -> LockConfig {
    let work = &scenario.workload;
    let mut config = LockConfig::new(work.scheme, scenario.cluster.nodes);
    config.hand_overs = work.hand_overs.unwrap_or(config.hand_overs);
    config.shared_limit = work.shared_limit.unwrap_or(config.shared_limit);
    config
}

fn machine(
    fabric: &Fabric,
    scenario: &Scenario,
    mesh: MeshConfig,
    node: NodeId,
) -> Result<Machine, RunError> {
    let device = fabric.devices(node).into_iter().next();
    let device = device.ok_or_else(|| refused(format!("{node} has no device")))?;
    let context = device.open().map_err(refused)?;
    let rt = Rt::new(&context, RtConfig { wait: scenario.cluster.wait.wait(), ..RtConfig::default() })
        .map_err(refused)?;
    let mesh = Mesh::start(&rt, mesh).map_err(refused)?;
    let locks = LockService::start(&rt, &mesh, lock_config(scenario)).map_err(refused)?;
    fabric.mount(node, Box::new(rt.program()));
    Ok(Machine { rt, mesh, locks })
}

/// How nodes meet that connect out of band. One whose peers do not come goes on all the same: the connection manager
/// makes what is missing.
const MEETING: Bootstrap =
    Bootstrap { service: Service(7_472), gid_index: 0, patience: Nanos::from_millis(200) };

/// Starts a machine's clients when it has met the others. Ends with the last of them.
fn after_meeting(machine: &Machine, clients: Vec<impl Future<Output = ()> + 'static>) -> JoinHandle<()> {
    let (rt, mesh) = (machine.rt.clone(), machine.mesh.clone());
    machine.rt.spawn(async move {
        let _ = mesh.bootstrap(MEETING).await;
        let clients: Vec<_> = clients.into_iter().map(|client| rt.spawn(client)).collect();
        for client in clients {
            client.await;
        }
    })
}

fn refused(why: impl std::fmt::Display) -> RunError {
    RunError::Cluster(why.to_string())
}

/// How long after the start a world that makes its requests by time stops making them.
pub(super) fn requests_in_all(scenario: &Scenario) -> Option<u64> {
    let clients = u64::from(scenario.cluster.nodes) * u64::from(scenario.workload.clients);
    scenario.workload.requests.map(|requests| clients * u64::from(requests))
}

/// The granularity at which a run looks up from its work.
pub(super) const SLICE: Nanos = Nanos::from_millis(1);
