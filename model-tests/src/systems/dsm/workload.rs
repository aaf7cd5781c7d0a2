//! What `[workload]` may say of shared memory, and what threads do.

use super::apps::{Application, Input};
use super::history::Op;
use crate::fields::{
    Dice, LONGEST, Rule, Share, Span, Spread, broken, count, draw, in_section, no_time, one,
    requests_or_duration,
};
use crate::history::ClientId;
use crate::system::{Amount, Until};
use serde::{Deserialize, Serialize};
use weft_protocols::dsm::{Grain, Placement};
use weft_protocols::transport::Rank;
use weft_sim::choice::Rng;
use weft_verbs::Nanos;

/// `[workload]` with `kind = "dsm"`: a random mix of accesses to shared memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DsmWork {
    /// An application that all threads run, instead of accesses at random. Then `size`, `rounds` and `unit` may be given, and of
    /// the other fields `threads`, `grain`, `pull`, `mapped` and `processors`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<Application>,
    /// Its input set: rows, cities, molecules, bodies or keys. Default: one that takes a moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// How often all is done, 1 to 1,000; not of `tsp` and `lu`. Default: a few times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// What a unit of its work takes on a processor. Default: `"0us"`, nothing.
    #[serde(default)]
    pub unit: Span,
    /// Processors of a node, 1 to 64, on which threads compute. Default: 2.
    #[serde(default = "two")]
    pub processors: u32,
    /// Whether processors are charged with what mapped memory costs: faults, changes of protection. Default: no.
    #[serde(default)]
    pub mapped: bool,
    /// Threads of each node, 1 to 64. Default: 1.
    #[serde(default = "one")]
    pub threads: u32,
    /// How many minipages there are, 1 to 1,000,000. Default: 8.
    #[serde(default = "eight")]
    pub minipages: u32,
    /// How large each is, in bytes: a multiple of 64, up to 1,048,576, and of an application's [`Application::grain`]. Default: 64; of
    /// an application, its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grain: Option<u32>,
    /// How many words of each are accessed, 1 to 1,024 and as many as there are. With more than one, threads share minipages and
    /// no words, too. Default: 2.
    #[serde(default = "two")]
    pub words: u32,
    /// The node that manages all minipages. Default: each manages some in turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<u32>,
    /// The share of accesses that go to any minipage; the others go to those of the thread's own node, every so many of them.
    /// Default: 1.
    #[serde(default = "all")]
    pub sharing: Share,
    /// The share of accesses that load. Default: 0.7.
    #[serde(default = "seventy")]
    pub reads: Share,
    /// The share of the other accesses that are atomics: swaps, additions, compare-and-exchanges. Default: 0.3.
    #[serde(default = "thirty")]
    pub atomics: Share,
    /// Whether readers take minipages that are read elsewhere by RDMA read. Default: no.
    #[serde(default)]
    pub pull: bool,
    /// The share of accesses that are made by a claim, which keeps its minipages for a moment. Default: 0.
    #[serde(default)]
    pub claims: Share,
    /// How many minipages a claim has: that of its word and those behind it, 1 to 64. Default: 2.
    #[serde(default = "two")]
    pub claimed: u32,
    /// A barrier of all threads after so many accesses of each; only with `requests`. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub barrier_every: Option<u32>,
    /// How many requests each thread makes, barriers among them. Give this or `duration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// How long threads go on, in virtual time. Give this or `requests`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// How long a thread rests before each request. Default: `"0us"`, none.
    #[serde(default = "no_time")]
    pub think: Spread,
}

fn two() -> u32 {
    2
}

fn eight() -> u32 {
    8
}

fn all() -> Share {
    share(1.0)
}

fn seventy() -> Share {
    share(0.7)
}

fn thirty() -> Share {
    share(0.3)
}

fn share(of: f64) -> Share {
    Share::new(of).unwrap_or_default()
}

/// Of random scenarios, the applications.
const SOMETIMES: [Option<Application>; 12] = {
    let mut all = [None; 12];
    (all[0], all[1], all[2]) = (Some(Application::Sor), Some(Application::Water), Some(Application::Is));
    all
};

impl DsmWork {
    /// The application, and its input.
    pub fn application(&self) -> Option<(Application, Input)> {
        let application = self.application?;
        let small = application.small();
        let size = self.size.map_or(small.size, |size| size as usize);
        Some((application, Input { size, rounds: self.rounds.unwrap_or(small.rounds) }))
    }

    /// How large a minipage is, in bytes.
    pub fn grain(&self) -> u32 {
        self.grain.unwrap_or(Grain::LEAST)
    }

    /// How large the largest minipage is, in bytes.
    pub fn longest(&self) -> u32 {
        let of = self.application().map_or(0, |(application, input)| application.longest(input));
        self.grain.unwrap_or(of.max(Grain::LEAST))
    }

    fn check_application(&self, application: Application) -> Rule {
        let at = |field| in_section("workload", field);
        let (sizes, multiple) = application.sizes();
        let size = self.size.unwrap_or_else(|| application.small().size as u32) as usize;
        if !sizes.contains(&size) || !size.is_multiple_of(multiple) {
            let (least, most) = (sizes.start(), sizes.end());
            let name = application.name();
            return broken(
                at("size"),
                format!("of {name}: from {least} to {most}, a multiple of {multiple}"),
            );
        }
        let multiple = application.grain();
        if self.grain.is_some_and(|grain| !grain.is_multiple_of(multiple)) {
            let name = application.name();
            return broken(at("grain"), format!("of {name}: a multiple of {multiple}, or leave it out"));
        }
        count(at("rounds"), self.rounds.unwrap_or(1), 1_000, "give how often all is done")?;
        if self.requests.is_some() || self.duration.is_some() {
            let field = if self.requests.is_some() { "requests" } else { "duration" };
            return broken(at(field), "an application ends by itself: leave this out".into());
        }
        Ok(())
    }

    /// One thread a node that makes so many requests.
    pub fn of(requests: u32) -> DsmWork {
        DsmWork {
            application: None,
            size: None,
            rounds: None,
            unit: Span::default(),
            processors: two(),
            mapped: false,
            threads: one(),
            minipages: eight(),
            grain: None,
            words: two(),
            manager: None,
            sharing: all(),
            reads: seventy(),
            atomics: thirty(),
            pull: false,
            claims: Share::default(),
            claimed: two(),
            barrier_every: None,
            requests: Some(requests),
            duration: None,
            think: no_time(),
        }
    }

    /// A workload that is drawn at random.
    pub(super) fn drawn(dice: &mut Dice<'_>) -> DsmWork {
        let application = dice.among(&SOMETIMES);
        if application.is_some() {
            let (threads, pull) = (dice.among(&[1, 2]), dice.among(&[false, true]));
            return DsmWork { application, threads, pull, requests: None, ..DsmWork::of(0) };
        }
        DsmWork {
            application,
            size: None,
            rounds: None,
            unit: Span::default(),
            processors: two(),
            mapped: dice.among(&[false, true]),
            threads: dice.among(&[1, 1, 2, 3]),
            minipages: dice.among(&[1, 2, 8, 40]),
            grain: Some(dice.among(&[64, 64, 128, 1_024, 4_096])),
            words: dice.among(&[1, 2, 8]),
            manager: dice.among(&[None, None, Some(0)]),
            sharing: share(dice.among(&[1.0, 1.0, 0.3])),
            reads: share(dice.among(&[0.0, 0.5, 0.7, 0.95])),
            atomics: share(dice.among(&[0.0, 0.3, 1.0])),
            pull: dice.among(&[false, true]),
            claims: share(dice.among(&[0.0, 0.0, 0.2, 1.0])),
            claimed: dice.among(&[1, 2, 5]),
            barrier_every: dice.among(&[None, None, Some(1), Some(5)]),
            requests: Some(dice.from(3, 40) as u32),
            duration: None,
            think: dice.pause([0, 10, 300]),
        }
    }

    /// How much work there is.
    pub fn amount(&self) -> Amount {
        if self.application.is_some() {
            return Amount { clients: self.threads, until: Until::Requests(1) };
        }
        Amount::of(self.threads, self.requests, self.duration)
    }

    /// How minipages are managed.
    pub fn placement(&self) -> Placement {
        self.manager.map_or(Placement::RoundRobin, |node| Placement::Node(Rank::from_index(node)))
    }

    /// The words of a minipage, accessed or not.
    pub fn words_a_page(&self) -> u32 {
        self.grain() / 8
    }

    /// Checks what the types of the fields cannot express.
    ///
    /// # Errors
    ///
    /// The first broken rule.
    pub fn check(&self, nodes: u32) -> Rule {
        let at = |field| in_section("workload", field);
        count(at("threads"), self.threads, 64, "give the threads of one node")?;
        count(at("minipages"), self.minipages, 1_000_000, "give the number of minipages")?;
        let grain = self.grain();
        if !(Grain::LEAST..=Grain::MOST).contains(&grain) || !grain.is_multiple_of(Grain::LEAST) {
            return broken(at("grain"), "a multiple of 64, from 64 to 1048576: bytes of a minipage".into());
        }
        if self.unit.nanos() > LONGEST {
            return broken(at("unit"), "at most a day of virtual time".into());
        }
        count(at("processors"), self.processors, 64, "give the processors of one node")?;
        if let Some(application) = self.application {
            return self.check_application(application);
        }
        for (field, given) in [("size", self.size.is_some()), ("rounds", self.rounds.is_some())] {
            if given {
                return broken(at(field), "of an application: name it, or leave this out".into());
            }
        }
        if u64::from(grain) * u64::from(self.minipages) > i32::MAX as u64 {
            return broken(at("minipages"), "minipages and grain make at most 2147483647 bytes".into());
        }
        count(at("words"), self.words, self.words_a_page().min(1_024), "a word has 8 bytes")?;
        count(at("claimed"), self.claimed, 64, "give the minipages of one claim")?;
        if self.manager.is_some_and(|node| node >= nodes) {
            return broken(at("manager"), format!("a node from 0 to {}", nodes - 1));
        }
        if let Some(every) = self.barrier_every {
            count(at("barrier_every"), every, 1_000_000, "give the accesses between two barriers")?;
            if self.duration.is_some() {
                return broken(
                    at("barrier_every"),
                    "give requests: all threads must come to a barrier".into(),
                );
            }
        }
        requests_or_duration("requests", self.requests, self.duration)
    }
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// An access to a word, counted over all minipages.
    Access {
        /// The word.
        word: u32,
        /// How.
        op: Op,
        /// By a claim of so many minipages; 0: by none.
        claims: u32,
    },
    /// The barrier's next round.
    Barrier(u32),
    /// The application's part of one thread.
    Application(Application, Input),
}

/// What one thread does. The same seed and thread give the same requests, whatever becomes of them.
#[derive(Clone, Debug)]
pub struct Plan {
    work: DsmWork,
    nodes: u32,
    id: ClientId,
    rng: Rng,
    made: u32,
    rounds: u32,
}

impl Plan {
    /// The plan of one thread in the run of one seed.
    pub fn new(work: &DsmWork, nodes: u32, seed: u64, id: ClientId) -> Plan {
        let [rng] = draw::of_client(seed ^ 0x6473_6d00_0000_0000, id);
        Plan { work: work.clone(), nodes, id, rng, made: 0, rounds: 0 }
    }

    /// The next request, and how long the thread rests before it.
    pub fn request(&mut self) -> (Nanos, Request) {
        if let Some((application, input)) = self.work.application() {
            return (Nanos::ZERO, Request::Application(application, input));
        }
        self.made += 1;
        let rest = draw::time(&mut self.rng, self.work.think);
        if self.work.barrier_every.is_some_and(|every| self.made.is_multiple_of(every.saturating_add(1))) {
            self.rounds += 1;
            return (rest, Request::Barrier(self.rounds - 1));
        }
        let word = self.word();
        let op = self.op();
        let claims = if draw::whether(&mut self.rng, self.work.claims) { self.work.claimed } else { 0 };
        (rest, Request::Access { word, op, claims })
    }

    fn word(&mut self) -> u32 {
        let DsmWork { minipages, words, sharing, .. } = self.work;
        let page = if draw::whether(&mut self.rng, sharing) || minipages <= self.id.node {
            self.rng.below(minipages.into()) as u32
        } else {
            // Those of the node: every so many, from its own number on.
            let own = (minipages - self.id.node).div_ceil(self.nodes);
            self.id.node + self.nodes * self.rng.below(own.into()) as u32
        };
        page * self.work.words_a_page() + self.rng.below(words.into()) as u32
    }

    /// What is stored is stored once only.
    fn op(&mut self) -> Op {
        let ClientId { node, index } = self.id;
        let value = (u64::from(node) + 1) << 48 | u64::from(index) << 32 | u64::from(self.made);
        if draw::whether(&mut self.rng, self.work.reads) {
            return Op::Load;
        }
        if !draw::whether(&mut self.rng, self.work.atomics) {
            return Op::Store(value);
        }
        match self.rng.below(3) {
            0 => Op::Swap(value),
            1 => Op::Add(1 + self.rng.below(9)),
            // What is there is what the thread saw last; it fills that in.
            _ => Op::CompareExchange(0, value),
        }
    }
}
