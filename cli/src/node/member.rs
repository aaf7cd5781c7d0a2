//! One node of a run: its device, its daemons, its clients, and its line to the coordinator.

use super::device::Choice;
use super::place::Place;
use super::waiting::Waiting;
use super::wire::{Counts, HEARTBEAT, STREAMS, ToCoordinator, ToNode, line};
use crate::exit::Failure;
use crate::interrupt;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{BufRead, BufReader, Write};
use std::marker::PhantomData;
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
use weft_check::history::ClientId;
use weft_check::record::Record;
use weft_check::run::{client, mesh_config};
use weft_check::scenario::Scenario;
use weft_check::system::{Amount, Place as At, System, Until};
use weft_hw::{Driver, Ended, Hw, HwContext, HwStream};
use weft_protocols::rt::{JoinHandle, Program, Rt, RtConfig};
use weft_protocols::transport::{self, Mesh};
use weft_sim::NodeId;
use weft_sim::profile::Profile;
use weft_store::Objects;
use weft_verbs::{Context, Nanos, Stream, Wait};

/// What a node is told beside its scenario.
pub struct Options<'a> {
    /// Its place.
    pub place: &'a Place,
    /// The port at which nodes meet.
    pub port: u16,
    /// Its device, port and address.
    pub on: &'a Choice,
    /// What its machine's disk has.
    pub store: Option<&'a Arc<Objects>>,
    /// How it learns of completions, if not as the scenario says.
    pub wait: Option<Wait>,
    /// How long it tries to reach the coordinator.
    pub patience: Duration,
    /// The run's seed: what clients ask for.
    pub seed: u64,
    /// The first connections are made over byte streams.
    pub by_streams: bool,
}

/// How long a node that leaves tries to say so.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long a node's services may take to come to rest.
const REST: Nanos = Nanos::from_secs(10);

/// Runs a node to its end.
pub fn run<S: System>(scenario: &Scenario, options: &Options<'_>) -> Result<(), Failure> {
    let context = options.on.open(options.store)?;
    let address = context.address().ok_or_else(|| {
        let (device, port) = (context.device_name(), context.port());
        Failure::unfinished(format!("port {port} of {device} has no IP address, by which peers find it"))
    })?;
    let mut meeting = Bootstrap::<S>::reach(options)?;
    let rank = options.place.rank;
    meeting.say(&ToCoordinator::Hello { rank, address, device: context.device_name().to_string() })?;
    let names: Vec<String> = (0..options.place.nodes).map(|n| NodeId(n).to_string()).collect();
    let (addresses, lives) = meeting.book()?;
    for (name, address) in names.iter().zip(addresses) {
        context.name_peer(name, address);
    }
    let member =
        Member::<S>::start(scenario, options, &context, (&names[..], lives)).map_err(Failure::unfinished)?;
    let driver = Driver::new(std::slice::from_ref(&context)).map_err(Failure::unfinished)?;
    let mut engine = (driver, member.place.rt.program());
    if options.by_streams {
        member.connect(&mut engine, &context, options.patience).map_err(Failure::unfinished)?;
    }
    meeting.say(&ToCoordinator::Ready)?;
    let passed = meeting.begin()?;
    member.live(meeting, &context, engine, passed)
}

/// The stream to the coordinator before the node runs: it may block.
struct Bootstrap<S> {
    to: TcpStream,
    from: BufReader<TcpStream>,
    system: PhantomData<S>,
}

impl<S: System> Bootstrap<S> {
    /// Tries until the coordinator listens; nodes start in any order.
    fn reach(options: &Options<'_>) -> Result<Bootstrap<S>, Failure> {
        let place = (options.place.meeting.as_str(), options.port);
        let began = Instant::now();
        let mut waiting = Waiting::new();
        loop {
            let connected = place.to_socket_addrs().and_then(|addresses| {
                let refused = std::io::Error::other("the name has no address");
                addresses.map(TcpStream::connect).reduce(Result::or).unwrap_or(Err(refused))
            });
            match connected {
                Ok(to) => {
                    let from = BufReader::new(to.try_clone().map_err(Failure::unfinished)?);
                    return Ok(Bootstrap { to, from, system: PhantomData });
                }
                Err(why) if began.elapsed() > options.patience || interrupt::requested() => {
                    let (host, port) = place;
                    return Err(Failure::unfinished(format!("the coordinator at {host}:{port}: {why}")));
                }
                Err(why) => {
                    waiting.tell(|| format!("node 0 at {}:{} ({why})", place.0, place.1));
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    fn say(&mut self, up: &Up<S>) -> Result<(), Failure> {
        self.to.write_all(&line(up)).map_err(|why| Failure::unfinished(why).at("the coordinator"))
    }

    fn hear(&mut self) -> Result<ToNode, Failure> {
        let mut text = String::new();
        let lost = |why: String| Failure::unfinished(format!("the coordinator: {why}"));
        match self.from.read_line(&mut text) {
            Ok(0) => Err(lost("it ended the run".to_string())),
            Ok(_) => serde_json::from_str(&text).map_err(|why| lost(why.to_string())),
            Err(why) => Err(lost(why.to_string())),
        }
    }

    /// The nodes' addresses, and how often this node has come back.
    fn book(&mut self) -> Result<(Vec<IpAddr>, u32), Failure> {
        loop {
            match self.hear()? {
                ToNode::Book { addresses, lives } => return Ok((addresses, lives)),
                ToNode::End => return Err(Failure::unfinished("the coordinator ended the run")),
                _ => {}
            }
        }
    }

    /// Waits for the beginning; says how long ago it was.
    fn begin(&mut self) -> Result<Nanos, Failure> {
        loop {
            match self.hear()? {
                ToNode::Begin { passed } => return Ok(Nanos::from_millis(passed)),
                ToNode::End => return Err(Failure::unfinished("the coordinator ended the run")),
                _ => {}
            }
        }
    }
}

/// The main loop, and what it steps.
type Engine = (Driver, Program<Hw>);

/// What a node of a system says.
type Up<S> = ToCoordinator<<S as System>::Event, <S as System>::Counts>;

/// What a node runs.
struct Member<S: System> {
    place: At<Hw>,
    service: S::Service<Hw>,
    post: Post<S>,
    clients: RefCell<Vec<JoinHandle<()>>>,
    work: S::Workload,
    seed: u64,
}

impl<S: System> Member<S> {
    fn start(
        scenario: &Scenario,
        options: &Options<'_>,
        context: &HwContext,
        (names, incarnation): (&[String], u32),
    ) -> Result<Member<S>, String> {
        let profile = Profile::find(&scenario.cluster.profile).map_err(|e| e.to_string())?;
        let rank = options.place.rank;
        let work =
            scenario.workload.get::<S>().ok_or_else(|| format!("the scenario is not about {}", S::KIND))?;
        let mut mesh = mesh_config(scenario, &profile, NodeId(rank), names).map_err(|e| e.to_string())?;
        mesh.port = context.port();
        S::mesh(work, &mut mesh);
        let wait = options.wait.unwrap_or(scenario.cluster.wait.wait());
        let rt = Rt::new(context, RtConfig { wait, ..RtConfig::default() }).map_err(|e| e.to_string())?;
        let mesh = Mesh::start(&rt, mesh).map_err(|e| e.to_string())?;
        let (post, clients) = (Post::new(), RefCell::default());
        let members = weft_check::run::members(scenario, &rt, &mesh).map_err(|e| e.to_string())?;
        let place = At { rt, mesh, node: rank, nodes: options.place.nodes, incarnation, members };
        let service = S::start(&place, work, &post)?;
        Ok(Member { place, service, post, clients, work: work.clone(), seed: options.seed })
    }

    /// Makes all connections before anything runs on them.
    fn connect(
        &self,
        (driver, program): &mut Engine,
        context: &HwContext,
        patience: Duration,
    ) -> Result<(), String> {
        let gid_index = context.usable_gid(context.port()).map_err(|error| error.to_string())?;
        let patience = Nanos(patience.as_nanos() as u64);
        let how = transport::Bootstrap { service: STREAMS, gid_index, timeout: patience };
        let (mesh, made) = (self.place.mesh.clone(), Rc::new(RefCell::new(None)));
        let told = Rc::clone(&made);
        drop(self.place.rt.spawn(async move { drop(told.replace(Some(mesh.bootstrap(how).await))) }));
        driver.run(program, || made.borrow().is_some() || interrupt::requested());
        match made.take() {
            Some(made) => made.map_err(|why| why.to_string()),
            None => Err("left on request".to_string()),
        }
    }

    /// Runs clients and daemons until the coordinator ends it or the user does.
    fn live(
        self,
        meeting: Bootstrap<S>,
        context: &HwContext,
        (mut driver, mut program): Engine,
        passed: Nanos,
    ) -> Result<(), Failure> {
        let oob = context.out_of_band().map_err(Failure::unfinished)?;
        let early = meeting.from.buffer().to_vec();
        let stream = oob.adopt(meeting.to).map_err(Failure::unfinished)?;
        let member = Rc::new(self);
        let rt = member.place.rt.clone();
        rt.spawn(Rc::clone(&member).talk(stream, early));
        rt.spawn(Rc::clone(&member).heartbeat(context.clone()));
        member.start_clients(passed);
        rt.spawn(Rc::clone(&member).conclude());
        let _ = writeln!(std::io::stderr(), "node {}: the run has begun", member.place.node);
        let ended = driver.run(&mut program, || interrupt::requested() && member.post.has_left());
        rt.shutdown();
        match (ended, member.post.0.failed.take()) {
            (Ended::Stopped, _) => Err(Failure::unfinished("left on request")),
            (Ended::Done, Some(why)) => Err(Failure::unfinished(why)),
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
            let client =
                client::<S, Hw>(rt.clone(), calls, id, S::plan(&plans, id), until, self.post.clone());
            self.clients.borrow_mut().push(rt.spawn(client));
        }
    }

    /// Says when the clients are done, and what is left when the services are at rest.
    async fn conclude(self: Rc<Self>) {
        for client in self.clients.take() {
            client.await;
        }
        self.post.say(&ToCoordinator::ClientsDone);
        self.post.resting().await;
        let end = self.place.rt.now() + REST;
        while self.place.rt.now() < end && self.left().iter().any(|(_, count)| *count > 0) {
            self.place.rt.sleep(Nanos::from_millis(20)).await;
        }
        self.post.say(&ToCoordinator::Rest { left: self.left(), counts: self.counts() });
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

    /// Says that the node is alive, and whom it cannot reach.
    async fn heartbeat(self: Rc<Self>, context: HwContext) {
        loop {
            self.post.say(&ToCoordinator::Alive);
            for trouble in context.take_troubles() {
                self.post.say(&ToCoordinator::Trouble(trouble));
            }
            self.place.rt.sleep(Nanos(HEARTBEAT.as_nanos() as u64)).await;
        }
    }

    /// Writes what is to be said and reads what is told, until the coordinator ends the run.
    async fn talk(self: Rc<Self>, mut stream: HwStream, mut heard: Vec<u8>) {
        let why = poll_fn(|cx| {
            self.post.0.talker.replace(Some(cx.waker().clone()));
            loop {
                let mut idle = true;
                let mut outgoing = self.post.0.outgoing.borrow_mut();
                if !outgoing.is_empty() {
                    match stream.poll_write(cx, &outgoing) {
                        Poll::Ready(Ok(n)) => {
                            outgoing.drain(..n);
                            idle = false;
                        }
                        Poll::Ready(Err(why)) => return Poll::Ready(Some(why.to_string())),
                        Poll::Pending => {}
                    }
                }
                drop(outgoing);
                let mut bytes = [0; 4_096];
                match stream.poll_read(cx, &mut bytes) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Some("it closed the line".to_string())),
                    Poll::Ready(Ok(n)) => {
                        heard.extend_from_slice(&bytes[..n]);
                        idle = false;
                    }
                    Poll::Ready(Err(why)) => return Poll::Ready(Some(why.to_string())),
                    Poll::Pending => {}
                }
                if self.obey(&mut heard) {
                    return Poll::Ready(None);
                }
                if idle {
                    return Poll::Pending;
                }
            }
        })
        .await;
        self.post.0.failed.replace(why.map(|why| format!("the coordinator was lost: {why}")));
        self.place.rt.shutdown();
    }

    /// Does what whole lines say; whether the run is over.
    fn obey(&self, heard: &mut Vec<u8>) -> bool {
        while let Some(end) = heard.iter().position(|byte| *byte == b'\n') {
            let text: Vec<u8> = heard.drain(..=end).collect();
            match serde_json::from_slice(&text) {
                Ok(ToNode::Written(count)) => self.post.written(count),
                Ok(ToNode::ComeToRest) => self.post.rest(),
                Ok(ToNode::End) => return true,
                Ok(ToNode::Book { .. } | ToNode::Begin { .. }) | Err(_) => {}
            }
        }
        false
    }
}

/// What is on its way to the coordinator, and who waits for its answers. Clones are the same.
struct Post<S>(Rc<PostState>, PhantomData<S>);

impl<S> Clone for Post<S> {
    fn clone(&self) -> Post<S> {
        Post(Rc::clone(&self.0), PhantomData)
    }
}

struct PostState {
    outgoing: RefCell<Vec<u8>>,
    /// Events said, and those that the coordinator has written down.
    said: Cell<u64>,
    written: Cell<u64>,
    resting: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
    talker: RefCell<Option<Waker>>,
    failed: RefCell<Option<String>>,
    /// Since when the node is leaving on request.
    leaving: Cell<Option<Instant>>,
}

impl<S: System> Post<S> {
    fn new() -> Post<S> {
        let state = PostState {
            outgoing: RefCell::default(),
            said: Cell::new(0),
            written: Cell::new(0),
            resting: Cell::new(false),
            waiting: RefCell::default(),
            talker: RefCell::default(),
            failed: RefCell::default(),
            leaving: Cell::new(None),
        };
        Post(Rc::new(state), PhantomData)
    }

    fn say(&self, up: &Up<S>) {
        self.0.outgoing.borrow_mut().extend(line(up));
        if let Some(talker) = self.0.talker.take() {
            talker.wake();
        }
    }

    /// Leaves: whether the coordinator has been told, or does not listen.
    fn has_left(&self) -> bool {
        let since = self.0.leaving.get().unwrap_or_else(|| {
            self.say(&ToCoordinator::Leaving);
            Instant::now()
        });
        self.0.leaving.set(Some(since));
        self.0.outgoing.borrow().is_empty() || since.elapsed() > FAREWELL
    }

    fn written(&self, count: u64) {
        self.0.written.set(count);
        self.wake();
    }

    fn rest(&self) {
        self.0.resting.set(true);
        self.wake();
    }

    fn wake(&self) {
        self.0.waiting.take().into_iter().for_each(Waker::wake);
    }

    async fn until(&self, ready: impl Fn(&PostState) -> bool) {
        poll_fn(|cx| {
            if ready(&self.0) {
                return Poll::Ready(());
            }
            self.0.waiting.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    async fn resting(&self) {
        self.until(|post| post.resting.get()).await;
    }
}

impl<S: System> Record<S::Event> for Post<S> {
    fn record(&self, event: S::Event) {
        self.0.said.set(self.0.said.get() + 1);
        self.say(&ToCoordinator::Saw(event));
    }

    async fn written(&self) {
        let mine = self.0.said.get();
        self.until(|post| post.written.get() >= mine).await;
    }
}
