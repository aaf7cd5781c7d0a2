//! A cluster with a system's service on every machine, and its clients.

use super::faults::FaultPlan;
use super::log::EventLog;
use super::restarts::Down;
use super::throughput::Samples;
use super::{RunError, client};
use crate::history::ClientId;
use crate::record::Recorder;
use crate::scenario::{self, Connect, FaultKind, Membership, Scenario};
use crate::system::{Amount, Place, System, Until};
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::members::{Members, MembersError};
use weft_protocols::rt::{JoinHandle, Rt, RtConfig};
use weft_protocols::transport::{Acquainted, BootstrapError, Introduced, Mesh, MeshConfig, Rank};
use weft_sim::choice::{Choice, Seeded};
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, Keys, NodeId, Sim, SimDevice, Topology};
use weft_verbs::{AckTimeout, Device, Mtu, Nanos, Retries, Verbs};

/// What one machine runs.
pub struct Machine<S: System> {
    /// Its runtime and its connections.
    pub place: Place<Sim>,
    /// The system's service on it.
    pub service: S::Service<Sim>,
}

/// What makes the requests of one client.
pub(super) struct Client {
    /// Where it runs.
    pub(super) node: u32,
    task: JoinHandle<()>,
    /// It rests before a request.
    rests: Rc<Cell<bool>>,
}

impl Client {
    fn is_done(&self) -> bool {
        self.task.is_finished()
    }

    /// Whether it is in the middle of a request.
    pub(super) fn is_busy(&self) -> bool {
        !self.is_done() && !self.rests.get()
    }

    /// Whether it rests before one.
    pub(super) fn rests(&self) -> bool {
        !self.is_done() && self.rests.get()
    }
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
    pub(super) clients: Vec<Client>,
    /// The system's settings for each node's connections.
    meshes: Vec<MeshConfig>,
    plans: Rc<S::Plans>,
    pub(super) down: Down,
    /// As which kind of fault each crash so far counts.
    pub(super) crashes: Vec<FaultKind>,
    /// How many faults have struck.
    pub(super) struck: u64,
    /// What arrived over time, if somebody wants to see it.
    pub(super) samples: Option<Samples>,
    /// The event log, if somebody reads it.
    pub(super) log: Option<EventLog>,
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
        let profile = Profile::find(&scenario.cluster.profile).map_err(refused)?;
        let nodes = scenario.cluster.nodes;
        let names = rail_names(nodes, scenario.cluster.rails);
        let fabric = Fabric::new(config(scenario, &profile), choice).map_err(refused)?;
        let recorder = Recorder::new(S::oracles(&work, nodes), S::Meter::default());
        let mesh = |node| {
            let mut config = mesh_config(scenario, &profile, NodeId(node), &names)?;
            S::mesh(&work, &mut config);
            Ok(config)
        };
        let mut world = World {
            meshes: (0..nodes).map(mesh).collect::<Result<_, RunError>>()?,
            plans: Rc::new(S::plans(&work, nodes, seed)),
            down: Down::default(),
            crashes: Vec::new(),
            recorder,
            plan: FaultPlan::new(scenario, seed),
            scenario: scenario.clone(),
            work,
            seed,
            clients: Vec::new(),
            struck: 0,
            samples: None,
            log: None,
            fabric,
            machines: Vec::new(),
        };
        let ends: Vec<_> = (0..nodes).map(|node| world.end(NodeId(node))).collect::<Result<_, RunError>>()?;
        if scenario.cluster.connect == Connect::Oob {
            acquaint(ends.iter().map(|(_, mesh)| mesh)).map_err(refused)?;
        }
        for (node, end) in (0..).zip(ends) {
            let machine = world.machine(NodeId(node), 0, end)?;
            world.machines.push(machine);
        }
        Ok(world)
    }

    /// Opens a node's devices.
    pub(super) fn end(&self, node: NodeId) -> Result<End, RunError> {
        let open = |device: SimDevice| device.open().map_err(refused);
        let contexts =
            self.fabric.devices(node).into_iter().map(open).collect::<Result<Vec<_>, RunError>>()?;
        let wait = self.scenario.cluster.wait.wait();
        let rt = Rt::over(&contexts, RtConfig { wait, ..RtConfig::default() }).map_err(refused)?;
        let mesh = Mesh::start(&rt, self.meshes[node.index()].clone()).map_err(refused)?;
        Ok((rt, mesh))
    }

    /// Starts the system on a node.
    pub(super) fn machine(
        &self,
        node: NodeId,
        incarnation: u32,
        (rt, mesh): End,
    ) -> Result<Machine<S>, RunError> {
        let members = members(&self.scenario, &rt, &mesh).map_err(refused)?;
        let nodes = self.scenario.cluster.nodes;
        let place = Place { rt, mesh, node: node.0, nodes, incarnation, members };
        let service = S::start(&place, &self.work, &self.recorder).map_err(refused)?;
        self.fabric.mount(node, Box::new(place.rt.program()));
        Ok(Machine { place, service })
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
        (0..self.machines.len()).for_each(|node| self.start_clients_of(node));
    }

    /// Starts the clients of one machine.
    pub(super) fn start_clients_of(&mut self, node: usize) {
        let Machine { place, service } = &self.machines[node];
        let Amount { clients, until } = S::amount(&self.work);
        let start = |index| {
            let id = ClientId { node: place.node, index };
            let (calls, plan) = (S::client(service, id), S::plan(&self.plans, id));
            let quits = self.scenario.quits.map(|quits| quits.by(self.seed, id));
            let (rt, record, rests) = (place.rt.clone(), self.recorder.clone(), Rc::default());
            let until = (until, quits);
            let client = client::client::<S, Sim>(rt, calls, id, plan, until, record, Rc::clone(&rests));
            Client { node: place.node, task: place.rt.spawn(client), rests }
        };
        self.clients.extend((0..clients).map(start));
    }

    /// Adds a task to those that must end before the run does; for clients of a test's own.
    pub fn start(&mut self, node: usize, task: impl Future<Output = ()> + 'static) {
        let task = self.machines[node].place.rt.spawn(task);
        self.clients.push(Client { node: node as u32, task, rests: Rc::default() });
    }

    /// Whether all clients are done, and all that they asked for has ended.
    pub fn all_done(&self) -> bool {
        self.clients.iter().all(Client::is_done) && self.recorder.judge(|judge| judge.unended()) == 0
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
    let keys = match scenario.cluster.keys {
        scenario::Keys::Rest => Keys::Rest,
        scenario::Keys::Stack => Keys::Stack,
    };
    let (devices, jitter) = (scenario.cluster.rails, scenario.cluster.jitter.of_fabric());
    let atomics = scenario.transport.atomics.unwrap_or(true);
    let visibility = scenario.cluster.visibility.nanos();
    Config {
        devices,
        topology,
        visibility,
        jitter,
        keys,
        atomics,
        ..Config::new(scenario.cluster.nodes, profile.clone())
    }
}

/// What all nodes are called in the network, by rail and rank; on either backend.
pub fn rail_names(nodes: u32, rails: u8) -> Vec<Vec<String>> {
    (1..=rails).map(|cable| (0..nodes).map(|node| NodeId(node).cable(cable)).collect()).collect()
}

/// The transport's settings for one node of a scenario, on either backend. `names` are those of [`rail_names`].
pub fn mesh_config(
    scenario: &Scenario,
    profile: &Profile,
    node: NodeId,
    names: &[Vec<String>],
) -> Result<MeshConfig, RunError> {
    let me = Rank::new(node.0 + 1).ok_or_else(|| refused("ranks start from one"))?;
    let timeout =
        scenario.transport.ack_timeout.map_or(Some(profile.transport.ack_timeout()), AckTimeout::new);
    let retry = scenario.transport.retries.map_or(Some(profile.transport.retry()), Retries::new);
    let (first, others) = names.split_first().ok_or_else(|| refused("a node has a rail at least"))?;
    let mut config = MeshConfig::new(me, first.clone());
    config.other_rails = others.iter().map(|names| names.clone().into()).collect();
    config.timeout = timeout.ok_or_else(|| refused("the time-out's exponent is above 31"))?;
    config.retry = retry.ok_or_else(|| refused("there are more than 7 retries"))?;
    let limits = &scenario.transport;
    config.recv_buffers = limits.recv_buffers.unwrap_or(config.recv_buffers);
    config.send_depth = limits.send_depth.unwrap_or(config.send_depth);
    config.max_queued = limits.max_queued.unwrap_or(config.max_queued);
    config.rd_atomic = limits.rd_atomic.unwrap_or(config.rd_atomic);
    config.atomics = limits.atomics.unwrap_or(config.atomics);
    config.mtu = limits.mtu.and_then(Mtu::from_bytes);
    config.hold_off = limits.hold_off.map_or(config.hold_off, |span| span.nanos());
    config.rnr_retry = profile.transport.rnr_retry();
    config.rnr_timer = profile.transport.min_rnr_timer();
    if let Some(members) = scenario.cluster.members {
        members.mesh(scenario.cluster.nodes, &mut config);
    }
    Ok(config)
}

/// What a node has before its system runs.
type End = (Rt<Sim>, Mesh<Sim>);

/// Connects meshes with each other without the connection manager, before any time passes.
fn acquaint<'m>(meshes: impl Iterator<Item = &'m Mesh<Sim>>) -> Result<(), BootstrapError> {
    let introduced: Vec<_> = meshes.map(|mesh| mesh.introduce(GID_INDEX)).collect::<Result<_, _>>()?;
    let cards: Vec<_> = introduced.iter().map(Introduced::cards).collect();
    let of = |node: usize| cards.iter().map(|cards| cards[node].clone()).collect::<Vec<_>>();
    let receiving = (0..).zip(introduced).map(|(node, of_node)| of_node.receive(&of(node)));
    let receiving: Vec<_> = receiving.collect::<Result<_, _>>()?;
    receiving.into_iter().try_for_each(Acquainted::connect)
}

/// A simulated port has this one.
const GID_INDEX: u8 = 0;

/// Starts a node's part in the membership, if the scenario has one; on either backend.
///
/// # Errors
///
/// Its settings are of no use.
pub fn members<V: Verbs>(
    scenario: &Scenario,
    rt: &Rt<V>,
    mesh: &Mesh<V>,
) -> Result<Option<Members<V>>, MembersError> {
    let start = |of: Membership| Members::start(rt, mesh, of.config(scenario.cluster.nodes));
    scenario.cluster.members.map(start).transpose()
}

pub(super) fn refused(why: impl std::fmt::Display) -> RunError {
    RunError::Cluster(why.to_string())
}

/// The granularity at which a run looks up from its work.
pub(super) const SLICE: Nanos = Nanos::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fabric_gives_out_keys_as_the_scenario_says() {
        let profile = Profile::builtin("present-day").expect("it is built in");
        for (line, keys) in
            [("", Keys::Rest), ("keys = \"rest\"\n", Keys::Rest), ("keys = \"stack\"\n", Keys::Stack)]
        {
            let text = format!("[cluster]\nnodes = 2\n{line}[workload]\nkind = \"messages\"\nmessages = 5\n");
            let scenario = crate::parse(&text).expect("a good scenario");
            assert_eq!(config(&scenario, &profile).keys, keys, "{line:?}");
        }
    }

    #[test]
    fn processors_see_memory_as_late_as_the_scenario_says() {
        let profile = Profile::builtin("present-day").expect("it is built in");
        for (line, visibility) in [("", 0), ("visibility = \"5us\"\n", 5)] {
            let text = format!("[cluster]\nnodes = 2\n{line}[workload]\nkind = \"messages\"\nmessages = 5\n");
            let scenario = crate::parse(&text).expect("a good scenario");
            assert_eq!(config(&scenario, &profile).visibility, Nanos::from_micros(visibility), "{line:?}");
        }
    }
}
