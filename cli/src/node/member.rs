//! One node of a run: its devices, its daemons, its clients, and what it tells the judge.

use super::judge::Up;
use super::line::Line;
use super::place::Place;
use super::post::Post;
use super::wire::{Counts, HEARTBEAT, ToCoordinator, ToNode, body};
use crate::bridge;
use crate::exit::Failure;
use crate::interrupt;
use crate::taken::Address;
use crate::troubles::Told;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use std::cell::RefCell;
use std::io::{ErrorKind, Write};
use std::marker::PhantomData;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};
use weft_check::history::ClientId;
use weft_check::run::{client, mesh_config, rail_names};
use weft_check::scenario::{Connect, Quits, Scenario};
use weft_check::system::{Amount, Place as At, System, Until};
use weft_hw::{Driver, Ended, Hw, HwContext, HwStream};
use weft_protocols::rt::{JoinHandle, Program, Rt, RtConfig};
use weft_protocols::transport::{Mesh, TransportError};
use weft_sim::NodeId;
use weft_sim::profile::Profile;
use weft_verbs::{Context, Nanos, Wait};

/// What a node is told beside its scenario.
pub struct Options<'a> {
    /// Its place.
    pub place: &'a Place,
    /// How it joins the run.
    pub join: &'a weft_control::member::Config,
    /// How it learns of completions, if not as the scenario says.
    pub wait: Option<Wait>,
    /// The run's seed: what clients ask for.
    pub seed: u64,
    /// How the first connections are made.
    pub connect: Connect,
    /// The traffic class of its packets.
    pub traffic_class: u8,
}

/// How long a node's services may take to come to rest.
const REST: Nanos = Nanos::from_secs(10);

/// A node's devices, by rail, and where they are.
pub struct Rails {
    /// The devices, each with one port.
    pub contexts: Vec<HwContext>,
    /// Their addresses.
    pub addresses: Vec<IpAddr>,
}

/// Runs a node to its end.
pub fn run<S: System>(scenario: &Scenario, options: &Options<'_>, rails: Rails) -> Result<(), Failure> {
    let Rails { contexts, addresses } = rails;
    let (stream, line) = Line::open(options.join.clone())?;
    let meeting = Bootstrap::<S>::new(stream, addresses);
    line.close(meeting.and_then(|meeting| follow(scenario, options, &contexts, meeting)))
}

/// Does what the judge says, from the first word to the last.
fn follow<S: System>(
    scenario: &Scenario,
    options: &Options<'_>,
    contexts: &[HwContext],
    mut meeting: Bootstrap<S>,
) -> Result<(), Failure> {
    let (addresses, lives) = meeting.book()?;
    let names = rail_names(options.place.nodes, scenario.cluster.rails);
    for (rail, (context, names)) in contexts.iter().zip(&names).enumerate() {
        for (name, of) in names.iter().zip(&addresses) {
            let address = of.get(rail).ok_or_else(|| {
                Failure::bad_input(format!(
                    "{name} has {} rails, and the scenario {}",
                    of.len(),
                    contexts.len()
                ))
            })?;
            context.name_peer(name, *address);
        }
    }
    let end = end::<S>(scenario, options, contexts, &names).map_err(Failure::unfinished)?;
    // Those who live on have adopted what the life before told them; what follows is made by the connection manager.
    if options.connect == Connect::Oob && lives == 0 {
        meeting.acquaint(&end.1, &contexts[0])?;
    }
    let member = Member::<S>::start(scenario, options, end, lives).map_err(Failure::unfinished)?;
    let driver = Driver::new(contexts).map_err(Failure::unfinished)?;
    let engine = (driver, member.place.rt.program());
    meeting.say(&ToCoordinator::Ready)?;
    let passed = meeting.begin()?;
    member.live(meeting, contexts, engine, passed)
}

/// The line to the judge before the node runs: it may block.
struct Bootstrap<S> {
    stream: UnixStream,
    heard: Vec<u8>,
    system: PhantomData<S>,
}

/// How often a node that waits looks whether it is to leave.
const LOOK: Duration = Duration::from_millis(200);

impl<S: System> Bootstrap<S> {
    /// Says where the node is.
    fn new(stream: UnixStream, addresses: Vec<IpAddr>) -> Result<Bootstrap<S>, Failure> {
        stream.set_read_timeout(Some(LOOK)).map_err(Failure::unfinished)?;
        let mut meeting = Bootstrap { stream, heard: Vec::new(), system: PhantomData };
        meeting.say(&ToCoordinator::Hello { addresses })?;
        Ok(meeting)
    }

    fn say(&mut self, up: &Up<S>) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        bridge::write(&body(up), &mut bytes);
        self.stream.write_all(&bytes).map_err(|_| lost("it closed the line"))
    }

    fn hear(&mut self) -> Result<ToNode, Failure> {
        loop {
            match bridge::next(&mut self.stream, &mut self.heard) {
                Ok(Some(message)) => return serde_json::from_slice(&message).map_err(lost),
                Ok(None) => return Err(lost("it closed the line")),
                Err(why) if why.kind() == ErrorKind::WouldBlock && interrupt::requested() => {
                    return Err(Failure::unfinished("left on request"));
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => {}
                Err(why) => return Err(lost(why)),
            }
        }
    }

    /// Waits for what `of` makes something of.
    fn wait_for<T>(&mut self, of: impl Fn(&ToNode) -> Option<T>) -> Result<T, Failure> {
        loop {
            match self.hear()? {
                ToNode::End => return Err(Failure::unfinished("the coordinator ended the run")),
                ToNode::Without(why) => return Err(without(&why)),
                message => {
                    if let Some(told) = of(&message) {
                        return Ok(told);
                    }
                }
            }
        }
    }

    /// The nodes' addresses, and how often this node has come back.
    fn book(&mut self) -> Result<(Vec<Vec<IpAddr>>, u32), Failure> {
        self.wait_for(|message| match message {
            ToNode::Book { addresses, lives } => Some((addresses.clone(), *lives)),
            _ => None,
        })
    }

    /// Connects the node with all others, by the cards that the judge carries.
    fn acquaint(&mut self, mesh: &Mesh<Hw>, context: &HwContext) -> Result<(), Failure> {
        let gid_index = context.usable_gid(context.port()).map_err(Failure::unfinished)?;
        let introduced = mesh.introduce(gid_index).map_err(Failure::unfinished)?;
        self.say(&ToCoordinator::Cards(
            introduced.cards().iter().map(|card| BASE64_STANDARD.encode(card)).collect(),
        ))?;
        let cards = self.wait_for(|message| match message {
            ToNode::Cards(cards) => {
                Some(cards.iter().map(|card| BASE64_STANDARD.decode(card)).collect::<Result<Vec<_>, _>>())
            }
            _ => None,
        })?;
        let receiving = introduced.receive(&cards.map_err(lost)?).map_err(Failure::unfinished)?;
        self.say(&ToCoordinator::Receiving)?;
        self.wait_for(|message| matches!(message, ToNode::Connect).then_some(()))?;
        receiving.connect().map_err(Failure::unfinished)
    }

    /// Waits for the beginning; says how long ago it was.
    fn begin(&mut self) -> Result<Nanos, Failure> {
        self.wait_for(|message| match message {
            ToNode::Begin { passed } => Some(Nanos::from_millis(*passed)),
            _ => None,
        })
    }
}

fn lost(why: impl std::fmt::Display) -> Failure {
    Failure::unfinished(format!("the coordinator was lost: {why}"))
}

fn without(why: &str) -> Failure {
    Failure::unfinished(format!("the run goes on without this node: {why}"))
}

/// The main loop, and what it steps.
type Engine = (Driver, Program<Hw>);

/// What a node has before its system runs.
type End = (Rt<Hw>, Mesh<Hw>);

/// By which addresses others reach a node.
fn addresses(contexts: &[HwContext]) -> String {
    let all = contexts.iter().flat_map(HwContext::address).map(|address| address.to_string());
    all.collect::<Vec<_>>().join(", ")
}

/// Opens a node's end of the mesh.
fn end<S: System>(
    scenario: &Scenario,
    options: &Options<'_>,
    contexts: &[HwContext],
    names: &[Vec<String>],
) -> Result<End, String> {
    let profile = Profile::find(&scenario.cluster.profile).map_err(|e| e.to_string())?;
    let mut mesh =
        mesh_config(scenario, &profile, NodeId(options.place.rank), names).map_err(|e| e.to_string())?;
    (mesh.port, mesh.traffic_class) = (contexts[0].port(), options.traffic_class);
    if let Some(work) = scenario.workload.get::<S>() {
        S::mesh(work, &mut mesh);
    }
    let wait = options.wait.unwrap_or(scenario.cluster.wait.wait());
    let rt = Rt::over(contexts, RtConfig { wait, ..RtConfig::default() }).map_err(|e| e.to_string())?;
    let (service, at) = (mesh.service, addresses(contexts));
    let own = Address {
        at: &at,
        instead: "each run on a machine needs a device or a GID of its own (--device, --gid)",
    };
    let mesh = Mesh::start(&rt, mesh).map_err(|why| {
        let refused = if let TransportError::Verbs(refused) = &why { Some(*refused) } else { None };
        own.why(service, refused, why.to_string())
    })?;
    Ok((rt, mesh))
}

/// What a node runs.
struct Member<S: System> {
    place: At<Hw>,
    service: S::Service<Hw>,
    post: Post<S>,
    clients: RefCell<Vec<JoinHandle<()>>>,
    /// Why the judge has no more to say, if that is an error.
    failed: RefCell<Option<Failure>>,
    work: S::Workload,
    quits: Option<Quits>,
    seed: u64,
}

impl<S: System> Member<S> {
    fn start(
        scenario: &Scenario,
        options: &Options<'_>,
        (rt, mesh): End,
        incarnation: u32,
    ) -> Result<Member<S>, String> {
        let Options { place: Place { rank, nodes, .. }, seed, .. } = *options;
        let work =
            scenario.workload.get::<S>().ok_or_else(|| format!("the scenario is not about {}", S::KIND))?;
        let (post, clients, failed) = (Post::new(), RefCell::default(), RefCell::default());
        let members = weft_check::run::members(scenario, &rt, &mesh).map_err(|e| e.to_string())?;
        let place = At { rt, mesh, node: *rank, nodes: *nodes, incarnation, members };
        let service = S::start(&place, work, &post)?;
        let (work, quits) = (work.clone(), scenario.quits);
        Ok(Member { place, service, post, clients, failed, work, quits, seed })
    }

    /// Runs clients and daemons until the coordinator ends it or the user does.
    fn live(
        self,
        meeting: Bootstrap<S>,
        contexts: &[HwContext],
        (mut driver, mut program): Engine,
        passed: Nanos,
    ) -> Result<(), Failure> {
        let oob = contexts[0].out_of_band().map_err(Failure::unfinished)?;
        let stream = oob.adopt_local(meeting.stream).map_err(Failure::unfinished)?;
        let member = Rc::new(self);
        let rt = member.place.rt.clone();
        rt.spawn(Rc::clone(&member).talk(stream, meeting.heard));
        rt.spawn(Rc::clone(&member).heartbeat(contexts.to_vec()));
        member.start_clients(passed);
        rt.spawn(Rc::clone(&member).conclude());
        let _ = writeln!(std::io::stderr(), "node {}: the run has begun", member.place.node);
        let ended = driver.run(&mut program, || interrupt::requested() && member.post.has_left());
        rt.shutdown();
        Failure::of_devices(rt.fatal())?;
        match (ended, member.failed.take()) {
            (Ended::Stopped, _) => Err(Failure::unfinished("left on request")),
            (Ended::Done, Some(why)) => Err(why),
            (Ended::Done, None) => Ok(()),
        }
    }

    /// Starts the clients of a run that began so long ago.
    fn start_clients(&self, passed: Nanos) {
        let At { rt, node, nodes, .. } = &self.place;
        let plans = Rc::new(S::plans(&self.work, *nodes, self.seed));
        let Amount { clients, until } = S::amount(&self.work);
        // A workload by time begins with the run, in simulation with the world: who comes later has the rest.
        let until = match until {
            Until::Time(span) => Until::Time(rt.now() + Nanos(span.0.saturating_sub(passed.0))),
            requests => requests,
        };
        for index in 0..clients {
            let id = ClientId { node: *node, index };
            let calls = S::client(&self.service, id);
            let quits = self.quits.map(|quits| quits.by(self.seed, id));
            let plan = S::plan(&plans, id);
            let client = client::<S, Hw>(
                rt.clone(),
                calls,
                id,
                plan,
                (until, quits),
                self.post.clone(),
                Rc::default(),
            );
            self.clients.borrow_mut().push(rt.spawn(client));
        }
    }

    /// Says when the clients are done, and what is left when the services are at rest.
    async fn conclude(self: Rc<Self>) {
        let (clients, began, mut lived) = (self.clients.take(), Instant::now(), Duration::ZERO);
        for client in clients {
            client.await;
            lived += began.elapsed();
        }
        self.post.say(&ToCoordinator::ClientsDone);
        self.post.resting().await;
        let end = self.place.rt.now() + REST;
        while self.place.rt.now() < end && self.left().iter().any(|(_, count)| *count > 0) {
            self.place.rt.sleep(Nanos::from_millis(20)).await;
        }
        let history = self.post.history(lived);
        self.post.say(&ToCoordinator::Rest { left: self.left(), counts: self.counts(), history });
    }

    /// What the services keep. What a service keeps is looked at only while no operation is in flight.
    fn left(&self) -> Vec<(String, u64)> {
        let mesh = self.place.mesh.audit();
        let mut left = vec![
            ("messages not acknowledged".to_string(), mesh.unacked),
            ("requests outstanding".to_string(), mesh.outstanding),
            ("operations waiting to be posted".to_string(), mesh.waiting),
        ];
        if mesh.outstanding + mesh.waiting == 0 {
            let service = S::leftovers(&self.service);
            left.extend(service.into_iter().map(|(what, count)| (what.to_string(), count)));
        }
        left
    }

    fn counts(&self) -> Counts<S::Counts> {
        Counts { service: S::counts(&self.service), mesh: self.place.mesh.stats().into() }
    }

    /// Says that the node is alive, and what keeps it from others.
    async fn heartbeat(self: Rc<Self>, contexts: Vec<HwContext>) {
        let mut told = Told::default();
        loop {
            self.post.say(&ToCoordinator::Alive);
            let of_devices = contexts.iter().flat_map(HwContext::take_troubles);
            for (why, times) in of_devices.chain(told.fresh(&self.place.mesh)) {
                self.post.say(&ToCoordinator::Trouble { why, times });
            }
            self.place.rt.sleep(Nanos(HEARTBEAT.as_nanos() as u64)).await;
        }
    }

    /// Says what is to be said and does what is told, until the judge ends the run.
    async fn talk(self: Rc<Self>, stream: HwStream, heard: Vec<u8>) {
        let over = self.post.outbox().talk(stream, heard, |message| self.obey(&message)).await;
        self.failed.replace(over.map_err(lost).and_then(|over| over).err());
        self.place.rt.shutdown();
    }

    /// Does what a message says; how the run ended for this node, if it did.
    fn obey(&self, message: &[u8]) -> ControlFlow<Result<(), Failure>> {
        match serde_json::from_slice(message) {
            Ok(ToNode::Written(count)) => self.post.written(count),
            Ok(ToNode::ComeToRest) => self.post.rest(),
            Ok(ToNode::End) => return ControlFlow::Break(Ok(())),
            Ok(ToNode::Without(why)) => return ControlFlow::Break(Err(without(&why))),
            Ok(ToNode::Book { .. } | ToNode::Cards(_) | ToNode::Connect | ToNode::Begin { .. }) | Err(_) => {}
        }
        ControlFlow::Continue(())
    }
}
