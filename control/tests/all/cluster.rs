//! A cluster under turmoil: a coordinator on host `meet`, and nodes on hosts `n0`, `n1`, and so on.

use crate::log::Log;
use crate::network::{Simulated, Sockets};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use turmoil::Sim;
use weft_control::coordinator::{self, Coordinator};
use weft_control::daemon::{self, systems, systems::Seat};
use weft_control::member::{self, Members, join};
use weft_control::message::{Join, Report};
use weft_control::net::Endpoint;
use weft_control::roster::Terms;
use weft_control::secret::Secret;
use weft_control::timing::Timing;

/// How long turmoil's clock goes on at a time.
pub const TICK: Duration = Duration::from_millis(10);

/// A message takes 1 to this many milliseconds, by the seed.
pub const LATENCY: u64 = 20;

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Runs a situation with each seed.
pub fn every_seed(situation: impl Fn(u64)) {
    every_seed_of(8, situation);
}

/// Runs a situation with so many seeds, if the environment does not say another number.
pub fn every_seed_of(few: u64, situation: impl Fn(u64)) {
    let seeds = std::env::var("WEFT_CONTROL_SEEDS").ok().map_or(few, |text| text.parse().expect("a number"));
    for seed in 0..seeds {
        // A failure names its seed.
        let named = Named(seed);
        situation(seed);
        std::mem::forget(named);
    }
}

struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        eprintln!("with seed {}", self.0);
    }
}

/// A number from `low` to below `high`, by seed and place.
pub fn draw(seed: u64, place: u64, low: u64, high: u64) -> u64 {
    // Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014): splitmix64.
    let mut word =
        seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(place.wrapping_mul(0xD134_2543_DE82_EF95));
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    low + (word ^ (word >> 31)) % (high - low)
}

/// What the test and a host's program share.
#[derive(Default)]
pub struct Shared {
    leave: Notify,
    /// What each start of the program came to.
    outcomes: RefCell<Vec<String>>,
    /// What the node knows, each time it is asked.
    members: RefCell<Members>,
    /// How many times the program began.
    starts: RefCell<u64>,
}

/// A cluster under turmoil.
pub struct Cluster<'a> {
    pub sim: Sim<'a>,
    pub log: Log,
    pub sockets: Sockets,
    pub nodes: u32,
    /// How many streams a coordinator takes at a time, as the limit of its files has it.
    pub files: usize,
    shared: BTreeMap<String, Rc<Shared>>,
}

/// What the coordinator of a cluster of so many nodes is told.
pub fn terms(nodes: u32) -> Terms {
    let text = |text: &str| text.to_string();
    Terms { cluster: text("blue"), program: text("0.1.0"), scenario: text("5eed"), nodes }
}

/// What a node is told.
pub fn member(rank: u32, nodes: u32, incarnation: u64) -> member::Config {
    let Terms { cluster, program, scenario, nodes } = terms(nodes);
    let blob = vec![rank as u8; 32];
    let join = Join { cluster, program, scenario, rank, nodes, incarnation, address: None, blob };
    member::Config {
        at: Endpoint::new("meet", weft_control::PORT),
        join,
        secret: secret(),
        timing: Timing::default(),
        patience: Duration::from_secs(30),
    }
}

pub fn secret() -> Secret {
    Secret::of(b"a secret that the whole cluster knows")
}

impl<'a> Cluster<'a> {
    /// Hosts of a network that does what the seed says.
    pub fn new(seed: u64, nodes: u32) -> Cluster<'a> {
        let sim = turmoil::Builder::new()
            .rng_seed(seed)
            .tick_duration(TICK)
            .min_message_latency(ms(1))
            .max_message_latency(ms(LATENCY))
            .simulation_duration(Duration::from_secs(3_600))
            .tcp_capacity(4_096)
            .build();
        let (log, sockets, shared) = (Log::begin(), Sockets::default(), BTreeMap::new());
        Cluster { sim, log, sockets, nodes, files: usize::MAX, shared }
    }

    /// A cluster whose nodes have met, and what it logs is as it must be.
    pub fn met(seed: u64, nodes: u32) -> Cluster<'a> {
        let mut cluster = Cluster::new(seed, nodes);
        cluster.coordinator("meet", |_| {});
        for rank in 0..nodes {
            cluster.node(&format!("n{rank}"), rank, |_| {});
        }
        cluster.until(ms(1_000));
        for rank in 0..nodes {
            assert_eq!(cluster.members(&format!("n{rank}")).missing(nodes), Vec::<u32>::new(), "n{rank}");
        }
        cluster
    }

    /// What the coordinator logged since all have met.
    pub fn since_met(&self) -> Vec<String> {
        self.log.after("meet", &format!("INFO all {} nodes have met", self.nodes))
    }

    fn share(&mut self, host: &str) -> Rc<Shared> {
        Rc::clone(self.shared.entry(host.to_string()).or_default())
    }

    fn network(&self) -> Simulated {
        Simulated::new(self.sockets.clone())
    }

    /// A coordinator begins.
    pub fn coordinator(&mut self, host: &str, tweak: impl Fn(&mut coordinator::Config) + 'static) {
        let (shared, nodes) = (self.share(host), self.nodes);
        let (net, tweak) = (self.network().with_files(self.files), Rc::new(tweak));
        self.sim.host(host, move || {
            let (shared, net, tweak) = (Rc::clone(&shared), net.clone(), Rc::clone(&tweak));
            async move {
                let mut config = coordinator::Config {
                    listen: Endpoint::new("0.0.0.0", weft_control::PORT),
                    terms: terms(nodes),
                    secret: secret(),
                    timing: Timing::default(),
                };
                tweak(&mut config);
                let outcome = match Coordinator::bind(&net, config).await {
                    Err(why) => why.to_string(),
                    Ok((coordinator, handle, _)) => {
                        let mut running = std::pin::pin!(coordinator.run());
                        tokio::select! {
                            () = &mut running => panic!("nobody has ended it"),
                            () = shared.leave.notified() => handle.end(),
                        }
                        running.await;
                        "ended".to_string()
                    }
                };
                shared.outcomes.borrow_mut().push(outcome);
                nothing_runs().await;
                Ok(())
            }
        });
    }

    /// A node begins; it joins, and stays until it is told to leave.
    pub fn node(&mut self, host: &str, rank: u32, tweak: impl Fn(&mut member::Config) + 'static) {
        let (shared, net, nodes) = (self.share(host), self.network(), self.nodes);
        let (tweak, number) = (Rc::new(tweak), self.shared.len() as u64);
        self.sim.host(host, move || {
            let (shared, net, tweak) = (Rc::clone(&shared), net.clone(), Rc::clone(&tweak));
            *shared.starts.borrow_mut() += 1;
            let incarnation = number * 1_000 + *shared.starts.borrow();
            async move {
                let mut config = member(rank, nodes, incarnation);
                tweak(&mut config);
                let outcome = live(net, config, &shared).await;
                shared.outcomes.borrow_mut().push(outcome);
                nothing_runs().await;
                Ok(())
            }
        });
    }

    /// A daemon without systems begins; its outcomes are `ready`, and what it came to.
    pub fn daemon(&mut self, host: &str, rank: u32, config: daemon::config::Config) {
        self.daemon_with(host, rank, config, systems::none);
    }

    /// A daemon with systems begins.
    pub fn daemon_with<F: Future<Output = Result<(), String>> + 'static>(
        &mut self,
        host: &str,
        rank: u32,
        config: daemon::config::Config,
        systems: impl Fn(Seat) -> F + Clone + 'static,
    ) {
        let (shared, net) = (self.share(host), self.network());
        self.sim.host(host, move || {
            let (shared, net, config) = (Rc::clone(&shared), net.clone(), config.clone());
            let systems = systems.clone();
            async move {
                let (program, timing) = (terms(1).program, Timing::default());
                let (scenario, blob) = (String::new(), Vec::new());
                let options = daemon::Options { rank, secret: secret(), program, scenario, blob, timing };
                let ready = || shared.outcomes.borrow_mut().push("ready".to_string());
                let stop = shared.leave.notified();
                let ended = daemon::run(&net, &config, options, systems, ready, stop).await;
                let outcome = ended.map_or_else(|why| why.to_string(), |()| "left".to_string());
                shared.outcomes.borrow_mut().push(outcome);
                nothing_runs().await;
                Ok(())
            }
        });
    }

    /// A host with a program of its own, which runs once.
    pub fn program<F: Future<Output = String> + 'static>(
        &mut self,
        host: &str,
        program: impl Fn(Simulated) -> F + 'static,
    ) {
        let (shared, net) = (self.share(host), self.network());
        let program = Rc::new(program);
        self.sim.host(host, move || {
            let (shared, net, program) = (Rc::clone(&shared), net.clone(), Rc::clone(&program));
            async move {
                let outcome = program(net).await;
                shared.outcomes.borrow_mut().push(outcome);
                Ok(())
            }
        });
    }

    /// Runs until so much time has passed since the beginning.
    pub fn until(&mut self, time: Duration) {
        while self.sim.elapsed() < time {
            self.sim.step().expect("no host fails");
        }
    }

    /// Runs until something holds, at the latest at `limit`.
    pub fn until_that(&mut self, limit: Duration, what: &str, holds: impl Fn(&Self) -> bool) {
        while !holds(self) {
            let logged: Vec<_> = self.shared.keys().map(|host| (host, self.log.of(host))).collect();
            assert!(self.sim.elapsed() < limit, "not within {limit:?}: {what}\n{logged:#?}");
            self.sim.step().expect("no host fails");
        }
    }

    /// What a host's program came to, each time that it ran.
    pub fn outcomes(&self, host: &str) -> Vec<String> {
        self.shared[host].outcomes.borrow().clone()
    }

    /// What a node knows.
    pub fn members(&self, host: &str) -> Members {
        self.shared[host].members.borrow().clone()
    }

    /// Tells a node or a coordinator to go.
    pub fn tell_to_leave(&self, host: &str) {
        self.shared[host].leave.notify_one();
    }

    /// Ends all that still runs, nodes first, and holds that nothing is left.
    pub fn finish(mut self) {
        let hosts: Vec<String> = self.shared.keys().cloned().collect();
        let (coordinators, nodes): (Vec<_>, Vec<_>) =
            hosts.into_iter().partition(|host| host.starts_with("meet"));
        for hosts in [nodes, coordinators] {
            hosts.iter().for_each(|host| self.tell_to_leave(host));
            let limit = self.sim.elapsed() + Duration::from_secs(20);
            while hosts.iter().any(|host| self.sim.is_host_running(host.as_str())) {
                assert!(self.sim.elapsed() < limit, "a host does not end: {hosts:?}");
                self.sim.step().expect("no host fails");
            }
        }
        // Programs have said by now that none of their tasks is left.
        assert_eq!(self.sockets.open(), 0, "sockets are left");
    }
}

/// A node's life.
async fn live(net: Simulated, config: member::Config, shared: &Shared) -> String {
    let rank = config.join.rank;
    let membership = tokio::select! {
        joined = join(net, config) => match joined {
            Ok(membership) => membership,
            Err(why) => return why.to_string(),
        },
        () = shared.leave.notified() => return "left before it was in".to_string(),
    };
    let mut report = Report::default();
    report.systems.entry("test".into()).or_default().insert("rank".into(), rank.to_string());
    membership.report(report).await.expect("it is short");
    let mut members = membership.members();
    loop {
        shared.members.replace(members.borrow_and_update().clone());
        tokio::select! {
            biased;
            () = shared.leave.notified() => {
                membership.leave().await;
                return "left".to_string();
            }
            why = membership.ended() => return why.to_string(),
            _ = members.changed() => {}
        }
    }
}

/// Holds that a program leaves no task behind.
async fn nothing_runs() {
    // Tasks that were aborted end when they are polled next, and turmoil has a task for each message of a host to itself.
    tokio::time::sleep(TICK * 5).await;
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks, 0, "tasks are left");
}

/// Something that several hosts share.
pub type Kept<T> = Arc<std::sync::Mutex<T>>;
