//! A cluster with a system's service on every machine, and its clients.

use super::faults::FaultPlan;
use super::{RunError, client};
use crate::history::ClientId;
use crate::record::Recorder;
use crate::scenario::{self, Connect, Scenario};
use crate::system::{Place, System, Until};
use std::rc::Rc;
use weft_protocols::rt::{JoinHandle, Rt, RtConfig};
use weft_protocols::transport::{Bootstrap, Mesh, MeshConfig, Rank};
use weft_sim::choice::{Choice, Seeded};
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Sim, Topology};
use weft_verbs::{AckTimeout, Device, Nanos, Retries, Service};

/// What one machine runs.
pub struct Machine<S: System> {
    /// Its runtime and its connections.
    pub place: Place<Sim>,
    /// The system's service on it.
    pub service: S::Service<Sim>,
}

/// A cluster with a system's service on every machine. Nothing in it is shared with another world.
pub struct World<S: System> {
    pub(super) fabric: Fabric,
    pub(super) machines: Vec<Machine<S>>,
    pub(super) recorder: Recorder<S::Oracles, S::Meter>,
    pub(super) plan: FaultPlan,
    pub(super) scenario: Scenario,
    pub(super) work: S::Workload,
    pub(super) seed: u64,
    pub(super) clients: Vec<JoinHandle<()>>,
    /// How many faults have struck.
    pub(super) struck: u64,
}

impl<S: System> World<S> {
    /// Builds the cluster of `scenario`. What the scenario leaves to chance is drawn from `seed`; the order of
    /// simultaneous events and what the fabric draws is answered by `choice`.
    ///
    /// # Errors
    ///
    /// The cluster cannot be built, or the scenario is about another system.
    pub fn new(scenario: &Scenario, seed: u64, choice: Box<dyn Choice>) -> Result<World<S>, RunError> {
        let another = || refused(format!("the scenario is about {}", scenario.workload.kind().name));
        let work = scenario.workload.get::<S>().ok_or_else(another)?.clone();
        let profile = Profile::builtin(&scenario.cluster.profile).map_err(refused)?;
        let nodes = scenario.cluster.nodes;
        let names: Vec<String> = (0..nodes).map(|node| NodeId(node).to_string()).collect();
        let fabric = Fabric::new(config(scenario, &profile), choice).map_err(refused)?;
        let recorder = Recorder::new(S::oracles(&work, nodes), S::Meter::default());
        let build = |node| {
            let place = place(&fabric, scenario, mesh_config(scenario, &profile, node, &names)?, node)?;
            let service = S::start(&place, &work, &recorder).map_err(refused)?;
            fabric.mount(node, Box::new(place.rt.program()));
            Ok(Machine { place, service })
        };
        let machines = (0..nodes).map(NodeId).map(build).collect::<Result<_, RunError>>()?;
        Ok(World {
            recorder,
            plan: FaultPlan::new(scenario, seed),
            scenario: scenario.clone(),
            work,
            seed,
            clients: Vec::new(),
            struck: 0,
            fabric,
            machines,
        })
    }

    /// The world of one seed, which also answers the fabric's choices.
    ///
    /// # Errors
    ///
    /// The cluster cannot be built, or the scenario is about another system.
    pub fn seeded(scenario: &Scenario, seed: u64) -> Result<World<S>, RunError> {
        World::new(scenario, seed, Box::new(Seeded::new(seed)))
    }

    /// The fabric.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// What the machines run, by number.
    pub fn machines(&self) -> &[Machine<S>] {
        &self.machines
    }

    /// The recorder to which the clients tell what they see.
    pub fn recorder(&self) -> &Recorder<S::Oracles, S::Meter> {
        &self.recorder
    }

    /// Starts the clients of the scenario's workload.
    pub fn start_clients(&mut self) {
        let plans = Rc::new(S::plans(&self.work, self.scenario.cluster.nodes, self.seed));
        let amount = S::amount(&self.work);
        for machine in &self.machines {
            let start = |index| {
                let Place { rt, node, .. } = &machine.place;
                let id = ClientId { node: *node, index };
                let calls = S::client(&machine.service, id);
                client::client::<S, Sim>(
                    rt.clone(),
                    calls,
                    id,
                    S::plan(&plans, id),
                    amount.until,
                    self.recorder.clone(),
                )
            };
            let clients = (0..amount.clients).map(start);
            match self.scenario.cluster.connect {
                Connect::Cm => self.clients.extend(clients.map(|client| machine.place.rt.spawn(client))),
                Connect::Oob => self.clients.push(after_meeting(&machine.place, clients.collect())),
            }
        }
    }

    /// Adds a task to those that must end before the run does; for clients of a test's own.
    pub fn start(&mut self, node: usize, task: impl Future<Output = ()> + 'static) {
        let handle = self.machines[node].place.rt.spawn(task);
        self.clients.push(handle);
    }

    /// Whether all clients are through.
    pub fn all_through(&self) -> bool {
        self.clients.iter().all(JoinHandle::is_finished)
    }

    /// Until when clients go on making requests, if the scenario says so.
    pub(super) fn until(&self) -> Option<Nanos> {
        match S::amount(&self.work).until {
            Until::Requests(_) => None,
            Until::Time(end) => Some(end),
        }
    }

    /// How many requests there will be, if the scenario says.
    pub(super) fn requests_in_all(&self) -> Option<u64> {
        let amount = S::amount(&self.work);
        let clients = u64::from(self.scenario.cluster.nodes) * u64::from(amount.clients);
        match amount.until {
            Until::Requests(each) => Some(clients * u64::from(each)),
            Until::Time(_) => None,
        }
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

fn place(
    fabric: &Fabric,
    scenario: &Scenario,
    mesh: MeshConfig,
    node: NodeId,
) -> Result<Place<Sim>, RunError> {
    let device = fabric.devices(node).into_iter().next();
    let device = device.ok_or_else(|| refused(format!("{node} has no device")))?;
    let context = device.open().map_err(refused)?;
    let rt = Rt::new(&context, RtConfig { wait: scenario.cluster.wait.wait(), ..RtConfig::default() })
        .map_err(refused)?;
    let mesh = Mesh::start(&rt, mesh).map_err(refused)?;
    Ok(Place { rt, mesh, node: node.0, nodes: scenario.cluster.nodes })
}

/// How nodes meet that connect out of band. One whose peers do not come goes on all the same: the connection manager
/// makes what is missing.
const MEETING: Bootstrap =
    Bootstrap { service: Service(7_472), gid_index: 0, patience: Nanos::from_millis(200) };

/// Starts a machine's clients when it has met the others. Ends with the last of them.
fn after_meeting(place: &Place<Sim>, clients: Vec<impl Future<Output = ()> + 'static>) -> JoinHandle<()> {
    let (rt, mesh) = (place.rt.clone(), place.mesh.clone());
    place.rt.spawn(async move {
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

/// The granularity at which a run looks up from its work.
pub(super) const SLICE: Nanos = Nanos::from_millis(1);
