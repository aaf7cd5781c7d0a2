//! A model made of a system: its service on each node, and a few clients that each make a short list of requests.
//!
//! A room says what its letters ask for, and has a model that scenarios and real nodes have already tested: the same
//! service, the same clients, the same oracles. See [`SystemModel`].

use super::in_order::InOrder;
use super::quits::Quits;
use super::recorder::{Explored, Recorder};
use super::requests::Requests;
use super::{Member, Model, Shape, Unseen, at_rest};
use crate::explore::{Key, Size, SizeError, Violation};
use crate::history::{ClientId, RequestId};
use crate::named::Named;
use crate::oracle::Oracles;
use crate::record::Record;
use crate::system::{Place, System};
use std::rc::Rc;
use weft_protocols::rt::fingerprint::StateHasher;
use weft_protocols::rt::{Rt, WaitPoint};
use weft_protocols::transport::{MeshConfig, MeshStats};
use weft_sim::explore::{FaultSet, Outcome};
use weft_sim::{Keys, NodeId, Sim};
use weft_verbs::{Nanos, Wait};

/// The system of a model.
pub type Of<M> = <M as SystemModel>::System;
/// What its services count.
pub type CountsOf<M> = <Of<M> as System>::Counts;
/// Its oracles.
pub type OraclesOf<M> = <Of<M> as System>::Oracles;
/// What its clients ask for.
pub type RequestOf<M> = <Of<M> as System>::Request;
/// What runs on one of its nodes.
pub type ServiceOf<M> = <Of<M> as System>::Service<Sim>;
/// What records its histories.
pub type RecorderOf<M> = Recorder<InOrder<OraclesOf<M>>>;

/// How a system is explored: what it starts with, what its clients ask for, and what the explorer must know of its history.
/// Only the first two have to be said.
pub trait SystemModel: Clone + 'static {
    /// The system.
    type System: System<Oracles: Explored>;

    /// What letters ask for, for people: `p to put, g to get`.
    const LETTERS: &'static str;

    /// The key of the requests in a world's size.
    const KEYS: &'static [Key] = &[Key { name: "calls", help: Self::LETTERS }];

    /// The names of the interesting branches that a node may reach; see [`SystemModel::reached`].
    const BRANCHES: &'static [&'static str] = &[];

    /// The workload that the services start with. Its clients and requests do not count: those of the model do.
    fn work(&self) -> <Of<Self> as System>::Workload;

    /// The oracles of so many nodes.
    fn oracles(&self, nodes: u32) -> InOrder<OraclesOf<Self>> {
        InOrder::new(Of::<Self>::oracles(&self.work(), nodes))
    }

    /// What a client asks for by a letter; `None` if there is no such letter.
    fn request(&self, client: ClientId, letter: char) -> Option<RequestOf<Self>>;

    /// Whether its users may drop calls at any moment: then a letter may have an exclamation mark behind it, and what its client sees of that
    /// is [`System::dropped`]. Wherever [users may](System::QUITS), unless a model has [clients of its own](Self::start_clients).
    fn drops(&self) -> bool {
        Self::System::QUITS
    }

    /// The cluster. Node 0 has a connection to itself, for atomics on its own words.
    fn shape(&self, nodes: u32) -> Shape {
        Shape { nodes, wait: Wait::Poll, home: Some(0), one_by_one: true }
    }

    /// How the nodes' adapters give out memory keys; see [`Model::keys`].
    fn keys(&self) -> Keys {
        Keys::Rest
    }

    /// Changes the settings of every node's connections, beyond what the [system needs](System::mesh).
    fn mesh(&self, config: &mut MeshConfig) {
        let _ = config;
    }

    /// Whether its nodes break a connection by what they ask for; see [`Model::breaks_connections`]. Wherever
    /// [users may](System::BREAKS_CONNECTIONS), unless a model says that its letters ask for nothing of the kind.
    fn breaks_connections(&self) -> bool {
        Self::System::BREAKS_CONNECTIONS
    }

    /// The faults under which it keeps its promises: all but a crash for good, and restarts only of systems that promise
    /// something then.
    fn usual_faults(&self) -> FaultSet {
        let survived = FaultSet::TIMELESS.without(Outcome::Crash);
        if Self::System::RESTARTS { survived } else { survived.without(Outcome::Restart) }
    }

    /// The faults under which it can be explored: a crash, too, if the model says whom a node is [needed](Self::needs) by.
    fn faults(&self) -> FaultSet {
        self.usual_faults()
    }

    /// By how much the clocks of the nodes differ at most, if something depends on time; see [`Model::drift`].
    fn drift(&self) -> Option<Nanos> {
        None
    }

    /// Whether a client that lives waits for what only time brings; see [`Model::waits`].
    fn waits(&self, crashed: &[NodeId], oracles: &OraclesOf<Self>) -> bool {
        let _ = crashed;
        oracles.unended() > 0
    }

    /// Whether others cannot go on without a node that has crashed: if so, nobody's request need end.
    fn needs(&self, node: u32, oracles: &OraclesOf<Self>) -> bool {
        let _ = (node, oracles);
        true
    }

    /// What every node asks for before the first choice, by letters; what it sees then is not recorded. Nothing, unless a
    /// model says so: what is explored begins with services that have just started.
    fn warm_up(&self) -> &'static str {
        ""
    }

    /// Starts the service of a node.
    fn start(&self, place: &Place<Sim>, recorder: &RecorderOf<Self>) -> ServiceOf<Self> {
        Self::System::start(place, &self.work(), recorder).expect("a model's workload is good")
    }

    /// Starts all clients. A planted bug can have clients of its own.
    fn start_clients(&self, nodes: &Nodes<Self>, requests: &Requests, recorder: &RecorderOf<Self>) {
        nodes.start_all_clients(self, requests, recorder);
    }

    /// Of each of the [branches](Self::BRANCHES), whether a node with these counts has reached it.
    fn reached(&self, counts: CountsOf<Self>, mesh: MeshStats) -> impl IntoIterator<Item = bool> {
        let _ = (counts, mesh);
        [false; 0]
    }

    /// Whether programs may be memoised; see [`Model::is_memoisable`]. A model whose clients share something that is not the
    /// fabric's says no, and so does one whose service brings memory of its own, claims memory, or ends its program.
    fn is_memoisable(&self) -> bool {
        true
    }

    /// Adds to a hash what a service still knows between two steps, and says whether that is all that its node knows beside
    /// its connections: then tasks that wait must say what they know at their waits, clients of what they hold included.
    fn fingerprint(&self, service: &ServiceOf<Self>, to: &mut StateHasher) -> bool {
        let _ = (service, to);
        false
    }
}

/// A model of a system, in a size; `requests` where the size says none.
///
/// # Errors
///
/// The size has a letter that nobody knows, or too many nodes.
pub fn of_system<M: SystemModel>(size: &Size, model: M, requests: &str) -> Result<OfSystem<M>, SizeError> {
    let [Key { name: key, .. }, ..] = M::KEYS else { return Err(SizeError("it has no key".into())) };
    let text = size.text(key).unwrap_or_else(|| requests.to_string());
    let requests = Requests::parse(&text);
    size.within(key, requests.nodes(), M::System::LEAST_NODES.max(2)..=4)?;
    for (client, letters) in (0..requests.nodes()).flat_map(|node| requests.of(node)) {
        for (letter, quits) in Requests::calls(letters) {
            if model.request(client, letter).is_none() || (quits && !model.drops()) {
                let mark = if quits { "!" } else { "" };
                return Err(SizeError(format!("{key} are {}, not '{letter}{mark}'", M::LETTERS)));
            }
        }
    }
    Ok(OfSystem { key, model, requests })
}

/// A model of a system, as the harness wants it.
pub struct OfSystem<M> {
    /// What its size calls the requests.
    key: &'static str,
    model: M,
    requests: Requests,
}

/// A system's nodes.
pub struct Nodes<M: SystemModel>(Vec<(Place<Sim>, ServiceOf<M>)>);

impl<M: SystemModel> Nodes<M> {
    /// Nodes in their places, with their services.
    pub fn new(nodes: Vec<(Place<Sim>, ServiceOf<M>)>) -> Nodes<M> {
        Nodes(nodes)
    }

    /// What runs on a node.
    pub fn service(&self, node: usize) -> &ServiceOf<M> {
        &self.0[node].1
    }

    /// What is wrong with a node at rest; see [`Model::violation_at`].
    pub fn violation_at(&self, node: usize, member: &Member) -> Option<Violation> {
        let service = self.service(node);
        let left = Of::<M>::leftovers(service).into_iter().chain(member.leftovers());
        at_rest(node, Of::<M>::conduct(&Of::<M>::counts(service)), left)
    }

    /// Which of the model's branches a node has reached; see [`Model::reached_at`].
    pub fn reached_at(&self, model: &M, node: usize, member: &Member) -> u32 {
        let reached = model.reached(Of::<M>::counts(self.service(node)), member.mesh.stats());
        (0..).zip(reached).map(|(bit, reached)| u32::from(reached) << bit).sum()
    }

    /// Each node's place.
    pub fn places(&self) -> impl Iterator<Item = &Place<Sim>> {
        self.0.iter().map(|(place, _)| place)
    }

    /// Starts the clients of all nodes: each makes its requests, as [`System::perform`] does it.
    pub fn start_all_clients(&self, model: &M, requests: &Requests, recorder: &RecorderOf<M>) {
        (0..self.0.len()).for_each(|node| self.start_clients_of(model, node, requests, recorder));
    }

    /// A node has restarted: this runs on it from here on, and its clients make their requests anew.
    pub fn start_anew(
        &mut self,
        node: usize,
        (place, service): (Place<Sim>, ServiceOf<M>),
        model: &M,
        requests: &Requests,
        recorder: &RecorderOf<M>,
    ) {
        self.0[node] = (place, service);
        self.start_clients_of(model, node, requests, recorder);
    }

    /// Starts the clients of a node.
    fn start_clients_of(&self, model: &M, node: usize, requests: &Requests, recorder: &RecorderOf<M>) {
        let before = &self.0[(node + self.0.len() - 1) % self.0.len()].0;
        let (place, service) = &self.0[node];
        let any_quits =
            requests.of(place.node).any(|(_, letters)| Requests::calls(letters).any(|(_, quits)| quits));
        let quits = any_quits.then(|| Quits::told(&place.rt, &place.mesh, &before.mesh));
        for (client, letters) in requests.of(place.node) {
            let call = |(number, (letter, may_quit))| Call {
                id: RequestId { client, number },
                request: model.request(client, letter).expect("letters were checked"),
                quits: quits.clone().filter(|_| may_quit),
            };
            let calls = (0..).zip(Requests::calls(letters)).map(call).collect();
            let user = Of::<M>::client(service, client);
            place.rt.spawn(client_loop::<M>(place.rt.clone(), user, calls, recorder.clone()));
        }
    }

    /// Starts what the nodes do before the first choice.
    fn warm_up(&self, model: &M) {
        for (Place { rt, node, .. }, service) in &self.0 {
            let id = ClientId { node: *node, index: 0 };
            let mut client = Of::<M>::client(service, id);
            let known = |letter| model.request(id, letter).expect("a model knows its own letters");
            let requests: Vec<RequestOf<M>> = model.warm_up().chars().map(known).collect();
            let rt = rt.clone();
            rt.clone().spawn(async move {
                for (number, request) in (0..).zip(requests) {
                    Of::<M>::perform(&rt, &mut client, RequestId { client: id, number }, request, &()).await;
                }
            });
        }
    }
}

/// A call that a client makes.
struct Call<M: SystemModel> {
    id: RequestId,
    request: RequestOf<M>,
    /// What says when its user quits, if it may.
    quits: Option<Rc<Quits>>,
}

async fn client_loop<M: SystemModel>(
    rt: Rt<Sim>,
    mut client: <Of<M> as System>::Client<Sim>,
    calls: Vec<Call<M>>,
    recorder: RecorderOf<M>,
) {
    for Call { id, request, quits } in calls {
        let quits = quits.filter(|_| Of::<M>::may_drop(&client, &request));
        let call = Of::<M>::perform(&rt, &mut client, id, request.clone(), &recorder).at(id.number);
        if Quits::call(quits.as_deref(), call).await.is_none()
            && let Some(event) = Of::<M>::dropped(&mut client, id, &request, Nanos::ZERO)
        {
            recorder.record(event);
        }
    }
}

impl<M: SystemModel> Model for OfSystem<M> {
    type State = Nodes<M>;
    type Oracles = InOrder<OraclesOf<M>>;

    fn size(&self) -> Size {
        Size::new([(self.key, self.requests.to_string())])
    }

    fn smaller(&self) -> Vec<Size> {
        let least = M::System::LEAST_NODES.max(2);
        self.requests.smaller(least).iter().map(|less| Size::new([(self.key, less.to_string())])).collect()
    }

    fn shape(&self) -> Shape {
        self.model.shape(self.requests.nodes())
    }

    fn keys(&self) -> Keys {
        self.model.keys()
    }

    fn mesh(&self, config: &mut MeshConfig) {
        Of::<M>::mesh(&self.model.work(), config);
        self.model.mesh(config);
    }

    fn breaks_connections(&self) -> bool {
        self.model.breaks_connections()
    }

    fn usual_faults(&self) -> FaultSet {
        self.model.usual_faults()
    }

    fn faults(&self) -> FaultSet {
        self.model.faults()
    }

    fn drift(&self) -> Option<Nanos> {
        self.model.drift()
    }

    fn waits(&self, _: &Nodes<M>, crashed: &[NodeId], recorder: &RecorderOf<M>) -> bool {
        recorder.oracles(|InOrder { oracles, .. }| self.model.waits(crashed, oracles))
    }

    fn needs(&self, _: &Nodes<M>, node: NodeId, recorder: &RecorderOf<M>) -> bool {
        recorder.oracles(|InOrder { oracles, .. }| self.model.needs(node.0, oracles))
    }

    fn oracles(&self) -> InOrder<OraclesOf<M>> {
        self.model.oracles(self.requests.nodes())
    }

    fn start(&self, configuration: usize, members: &[Member], recorder: &RecorderOf<M>) -> Nodes<M> {
        let start = |(node, member): (usize, &Member)| {
            let place = member.place(node, members.len(), 0);
            let service = self.model.start(&place, recorder);
            (place, service)
        };
        let mut nodes = Nodes(members.iter().enumerate().map(start).collect());
        match self.warms_up() {
            true => nodes.warm_up(&self.model),
            false => self.begin(configuration, &mut nodes, members, recorder),
        }
        nodes
    }

    fn warms_up(&self) -> bool {
        !self.model.warm_up().is_empty()
    }

    fn begin(&self, _: usize, nodes: &mut Nodes<M>, _: &[Member], recorder: &RecorderOf<M>) {
        self.model.start_clients(nodes, &self.requests, recorder);
    }

    fn crashed(&self, _: &mut Nodes<M>, node: NodeId, recorder: &RecorderOf<M>) {
        Of::<M>::crashed(node.0, Nanos::ZERO, recorder);
    }

    fn restart(&self, nodes: &mut Nodes<M>, node: NodeId, member: &Member, recorder: &RecorderOf<M>) {
        Of::<M>::crashed(node.0, Nanos::ZERO, recorder);
        Of::<M>::restarted(node.0, Nanos::ZERO, recorder);
        let (all, (old, _)) = (nodes.0.len(), &nodes.0[node.index()]);
        let place = member.place(node.index(), all, old.incarnation + 1);
        let service = self.model.start(&place, recorder);
        nodes.start_anew(node.index(), (place, service), &self.model, &self.requests, recorder);
    }

    fn violation_at(&self, nodes: &Nodes<M>, node: usize, member: &Member) -> Option<Violation> {
        nodes.violation_at(node, member)
    }

    fn name_of(&self, nodes: &Nodes<M>, node: usize, address: u64) -> Option<Named> {
        Of::<M>::name_of(&nodes.0[node].1, address)
    }

    fn branches(&self) -> Vec<&'static str> {
        M::BRANCHES.to_vec()
    }

    fn reached_at(&self, nodes: &Nodes<M>, node: usize, member: &Member) -> u32 {
        nodes.reached_at(&self.model, node, member)
    }

    fn is_memoisable(&self) -> bool {
        self.model.is_memoisable()
    }

    fn fingerprint(
        &self,
        nodes: &Nodes<M>,
        node: usize,
        member: &Member,
        unseen: &Unseen<'_>,
        to: &mut StateHasher,
    ) -> bool {
        self.model.fingerprint(&nodes.0[node].1, to) && member.mesh.fingerprint(unseen, to)
    }
}
