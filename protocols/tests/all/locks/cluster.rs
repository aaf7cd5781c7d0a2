//! A cluster on the simulated fabric whose nodes lock and unlock, and the books of what they saw.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_protocols::locks::{
    Audit, LockClient, LockConfig, LockError, LockKey, LockService, LockStats, Mode, Scheme,
};
use weft_protocols::rt::{Rt, RtConfig};
use weft_protocols::transport::{Mesh, MeshConfig, Rank};
use weft_sim::choice::Seeded;
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Sim};
use weft_verbs::{AckTimeout, Device, Nanos, Retries, Wait};

/// What to run.
#[derive(Clone, Debug)]
pub struct Job {
    pub scheme: Scheme,
    pub wait: Wait,
    pub nodes: u32,
    /// Applications on each node.
    pub clients: u32,
    /// Requests of each application.
    pub rounds: u32,
    pub keys: u64,
    /// Out of a hundred.
    pub shared_percent: u64,
    /// Out of a hundred exclusive grants, those that are downgraded half-way, where nodes share.
    pub downgrade_percent: u64,
    /// The longest hold.
    pub hold: Nanos,
    /// How long an application waits for a grant, if not for ever.
    pub gives_up_after: Option<Nanos>,
    /// By how much at most a processor sees what its adapter wrote later than it could.
    pub visibility: Nanos,
    pub seed: u64,
}

impl Job {
    pub fn new(scheme: Scheme, wait: Wait, seed: u64) -> Job {
        Job {
            scheme,
            wait,
            nodes: 4,
            clients: 2,
            rounds: 12,
            keys: 3,
            shared_percent: 50,
            downgrade_percent: 0,
            hold: Nanos::from_micros(50),
            gives_up_after: None,
            visibility: Nanos::ZERO,
            seed,
        }
    }
}

/// What the applications saw.
#[derive(Debug, Default)]
pub struct Book {
    holders: BTreeMap<LockKey, Vec<(u32, Mode)>>,
    last_exclusive: BTreeMap<LockKey, u64>,
    last_shared: BTreeMap<LockKey, u64>,
    pub violations: Vec<String>,
    pub grants: u64,
    pub timeouts: u64,
    pub clients_done: u32,
}

impl Book {
    fn granted(&mut self, node: u32, key: LockKey, mode: Mode, token: Option<u64>) {
        self.grants += 1;
        let holders = self.holders.entry(key).or_default();
        if holders.iter().any(|&(_, other)| !other.goes_with(mode)) {
            self.violations.push(format!("{key}: {node} holds {mode} beside {holders:?}"));
        }
        holders.push((node, mode));
        if let Some(token) = token {
            self.check_token(key, mode, token);
        }
    }

    fn check_token(&mut self, key: LockKey, mode: Mode, token: u64) {
        let exclusive = self.last_exclusive.entry(key).or_default();
        let shared = self.last_shared.entry(key).or_default();
        let right = token > *exclusive && (mode == Mode::Shared || token > *shared);
        if !right {
            self.violations.push(format!("{key}: {mode} token {token} after {exclusive} and {shared}"));
        }
        match mode {
            Mode::Exclusive => *exclusive = token,
            Mode::Shared => *shared = token.max(*shared),
        }
    }

    fn downgraded(&mut self, node: u32, key: LockKey, token: Option<u64>) {
        self.released(node, key, Mode::Exclusive);
        self.grants -= 1;
        self.granted(node, key, Mode::Shared, token);
    }

    fn released(&mut self, node: u32, key: LockKey, mode: Mode) {
        let holders = self.holders.entry(key).or_default();
        let at = holders.iter().position(|&h| h == (node, mode)).expect("a holder releases");
        holders.swap_remove(at);
    }
}

/// A cluster.
pub struct Cluster {
    pub fabric: Fabric,
    pub nodes: Vec<(Rt<Sim>, Mesh<Sim>, LockService<Sim>)>,
    pub book: Rc<RefCell<Book>>,
    clients: u32,
}

impl Cluster {
    /// Nodes without applications.
    pub fn new(scheme: Scheme, wait: Wait, nodes: u32, seed: u64) -> Cluster {
        Cluster::with(nodes, wait, seed, |members| LockConfig::new(scheme, members))
    }

    pub fn with(nodes: u32, wait: Wait, seed: u64, config: impl Fn(u32) -> LockConfig) -> Cluster {
        let profile = Profile::builtin("ncosed-2007").expect("a profile that ships");
        Cluster::on(Config::new(nodes, profile), wait, seed, None, config)
    }

    /// The same; the mesh keeps no more messages than this for one peer until it has acknowledged them.
    pub fn narrow(scheme: Scheme, wait: Wait, nodes: u32, max_queued: u32) -> Cluster {
        let profile = Profile::builtin("ncosed-2007").expect("a profile that ships");
        let config = |members| LockConfig::new(scheme, members);
        Cluster::on(Config::new(nodes, profile), wait, 1, Some(max_queued), config)
    }

    /// Nodes without applications in a world of this making.
    fn on(
        world: Config,
        wait: Wait,
        seed: u64,
        max_queued: Option<u32>,
        config: impl Fn(u32) -> LockConfig,
    ) -> Cluster {
        let nodes = world.nodes;
        let fabric = Fabric::new(world, Box::new(Seeded::new(seed))).expect("a world");
        let peers: Vec<String> = (0..nodes).map(|n| format!("n{n}")).collect();
        let start = |n: u32| {
            let ctx = fabric.devices(NodeId(n))[0].open().expect("a device");
            let rt = Rt::new(&ctx, RtConfig { wait, ..RtConfig::default() }).expect("a runtime");
            let mut mesh = MeshConfig::new(Rank::from_index(n), peers.clone());
            // 0.5 ms and three retries: a cut of some milliseconds breaks connections.
            mesh.timeout = AckTimeout::new(7).expect("an exponent");
            mesh.retry = Retries::new(3).expect("a count");
            mesh.max_queued = max_queued.unwrap_or(mesh.max_queued);
            let mesh = Mesh::start(&rt, mesh).expect("a mesh");
            let service = LockService::start(&rt, &mesh, config(nodes)).expect("a lock service");
            fabric.mount(NodeId(n), Box::new(rt.program()));
            (rt, mesh, service)
        };
        let nodes = (0..nodes).map(start).collect();
        Cluster { fabric, nodes, book: Rc::default(), clients: 0 }
    }

    /// A cluster with its applications.
    pub fn of(job: &Job) -> Cluster {
        Cluster::of_limited(job, LockConfig::new(job.scheme, job.nodes).shared_limit)
    }

    /// The same, with a limit to the count of shared requests.
    pub fn of_limited(job: &Job, shared_limit: u32) -> Cluster {
        let config = |members| LockConfig { shared_limit, ..LockConfig::new(job.scheme, members) };
        let profile = Profile::builtin("ncosed-2007").expect("a profile that ships");
        let world = Config { visibility: job.visibility, ..Config::new(job.nodes, profile) };
        let mut cluster = Cluster::on(world, job.wait, job.seed, None, config);
        for n in 0..job.nodes {
            for _ in 0..job.clients {
                cluster.spawn_client(n, job);
            }
        }
        cluster
    }

    pub fn rt(&self, n: usize) -> Rt<Sim> {
        self.nodes[n].0.clone()
    }

    pub fn client(&self, n: usize) -> LockClient<Sim> {
        self.nodes[n].2.client()
    }

    fn spawn_client(&mut self, n: u32, job: &Job) {
        let (rt, _, service) = &self.nodes[n as usize];
        let (rt, client, book, job) = (rt.clone(), service.client(), Rc::clone(&self.book), job.clone());
        self.clients += 1;
        rt.clone().spawn(async move {
            for _ in 0..job.rounds {
                round(n, &rt, &client, &book, &job).await;
            }
            book.borrow_mut().clients_done += 1;
        });
    }

    /// Runs until every application is done or the time is up; then until all is quiet.
    pub fn run(&self, until: Nanos) {
        let mut now = self.fabric.now();
        while now < until && self.book.borrow().clients_done < self.clients {
            now += Nanos::from_millis(5);
            self.fabric.run_until(now);
        }
        assert_eq!(self.book.borrow().clients_done, self.clients, "not done at {}: {}", now, self.story());
        self.fabric.run_until(now + Nanos::from_millis(500));
    }

    /// Runs a story on one node until it ends, and judges.
    pub fn tell(&self, node: usize, story: impl Future<Output = ()> + 'static) {
        let ended = Rc::new(Cell::new(false));
        let end = Rc::clone(&ended);
        self.rt(node).spawn(async move {
            story.await;
            end.set(true);
        });
        self.fabric.run_until(self.fabric.now() + Nanos::from_secs(2));
        assert!(ended.get(), "{}", self.story());
        self.judge();
    }

    pub fn audit(&self) -> Vec<Audit> {
        self.nodes.iter().map(|(_, _, service)| service.audit()).collect()
    }

    pub fn stats(&self) -> LockStats {
        let mut sum = LockStats::default();
        for (_, _, service) in &self.nodes {
            sum += service.stats();
        }
        sum
    }

    pub fn story(&self) -> String {
        let meshes: Vec<_> = self.nodes.iter().map(|(_, mesh, _)| mesh.audit()).collect();
        format!("{:?}\n{:?}\n{:?}\n{:?}", self.book.borrow(), self.stats(), self.audit(), meshes)
    }

    /// Nobody was wronged, and nothing is left.
    pub fn judge(&self) {
        let stats = self.stats();
        assert!(self.book.borrow().violations.is_empty(), "{}", self.story());
        assert!(self.audit().iter().all(Audit::is_clean), "{}", self.story());
        assert_eq!((stats.malformed, stats.out_of_turn), (0, 0), "{}", self.story());
    }
}

async fn round(n: u32, rt: &Rt<Sim>, client: &LockClient<Sim>, book: &Rc<RefCell<Book>>, job: &Job) {
    let key = LockKey(rt.random() % job.keys);
    let mode = if rt.random() % 100 < job.shared_percent { Mode::Shared } else { Mode::Exclusive };
    rt.sleep(Nanos(rt.random() % (job.hold.0 + 1))).await;
    let deadline = job.gives_up_after.map_or(Nanos::MAX, |gives_up_after| rt.now() + gives_up_after);
    match client.lock_until(key, mode, deadline).await {
        Ok(mut grant) => {
            book.borrow_mut().granted(n, key, mode, grant.token().map(|t| t.0));
            rt.sleep(Nanos(rt.random() % (job.hold.0 + 1))).await;
            if mode == Mode::Exclusive && job.scheme.shares() && rt.random() % 100 < job.downgrade_percent {
                grant.downgrade().await.expect("nodes share");
                book.borrow_mut().downgraded(n, key, grant.token().map(|t| t.0));
                rt.sleep(Nanos(rt.random() % (job.hold.0 + 1))).await;
            }
            book.borrow_mut().released(n, key, grant.mode());
            grant.unlock().await;
        }
        Err(LockError::Deadline) => book.borrow_mut().timeouts += 1,
        Err(other) => panic!("{other}"),
    }
}

/// Whatever a test is about, no memory may have been touched while it may not be.
impl Drop for Cluster {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.fabric.violations_found(), 0, "{}", self.fabric.violations()[0]);
        }
    }
}
