//! The room of the distributed locks: what their users do, what is promised to them, and how that is measured.

mod client;
pub mod history;
mod leases;
mod meter;
pub mod oracles;
mod paper;
mod swarm;
pub mod workload;
pub mod worlds;

pub use meter::{Ends, Home, LockMeter};

use crate::MeshCounts;
use crate::counted::counted;
use crate::explore::Entry;
use crate::fields::{Dice, Rule, Share, Span, Spread};
use crate::history::{ClientId, RequestId};
use crate::metrics::{Curves, Group, Latencies, Layout, Metrics, Rate};
use crate::named::Named;
use crate::oracle::{Conduct, Oracles};
use crate::paper::Paper;
use crate::record::{Record, Recorder};
use crate::run::left_out;
use crate::system::{Amount, Example, Measured, Place, System};
use client::Client;
use history::{Event, What};
use oracles::{LockOracles, MostBypassed};
use std::rc::Rc;
use weft_protocols::locks::{LockService, LockStats, Mode, Scheme};
use weft_protocols::rt::Rt;
use weft_verbs::{Nanos, Verbs};
use workload::{KeyPicker, Keys, LockWork, Plan, Request};

/// Distributed locks: three schemes behind one interface.
pub struct Locks;

/// The recorder of a run of locks.
pub type LockRecorder = Recorder<LockOracles, LockMeter>;

/// What all clients of a run will ask for.
pub struct Plans {
    work: Rc<LockWork>,
    keys: Rc<KeyPicker>,
    seed: u64,
}

counted! {
    /// What a lock service counted.
    LockCounts from LockStats {
        messages_sent, compare_swaps, fetch_adds, swap_misses, unknown_outcomes, downgrades, rebuilds,
        out_of_turn, malformed,
    }
}

impl System for Locks {
    const ATOMICS: bool = true;
    const QUITS: bool = true;
    const KIND: &'static str = "locks";
    const ABOUT: &'static str = "distributed locks: schemes srsl, dqnl and ncosed";
    const EXAMPLE: &'static str = "scheme = \"ncosed\"";
    const VARIANTS: &'static [&'static str] = &["srsl", "dqnl", "ncosed"];

    const COSTS: &'static [(&'static str, &'static str)] =
        &[("protocol", "messages"), ("protocol", "atomics")];

    const PAPERS: &'static [Paper] = &[paper::NCOSED];

    const EXAMPLES: &'static [Example] = &[
        Example {
            what: "A lock service on 16 nodes while links fail, and its report",
            command: "weft run scenarios/lock-service-16.toml",
        },
        Example {
            what: "The same requests by another scheme",
            command: "weft run scenarios/lock-service-16.toml --set workload.scheme=srsl",
        },
        Example {
            what: "One scheme of the locks on 64 nodes, for programs",
            command: "weft bench locks --nodes 64 --requests 100000 --variant ncosed --json",
        },
        Example {
            what: "The lock paper's figures: tables, plots, and one page with everything",
            command: "weft paper ncosed --report report",
        },
    ];

    type Workload = LockWork;
    type Event = Event;
    type Oracles = LockOracles;
    type Meter = LockMeter;
    type Counts = LockCounts;
    type Service<V: Verbs> = LockService<V>;
    type Client<V: Verbs> = Client<V>;
    type Plans = Plans;
    type Plan = Plan;
    type Request = Request;

    fn check(work: &LockWork, _: u32) -> Rule {
        work.check()
    }

    fn amount(work: &LockWork) -> Amount {
        work.amount()
    }

    fn variant(work: &LockWork) -> Option<(&'static str, String)> {
        Some(("scheme", work.scheme.to_string()))
    }

    fn swarm(dice: &mut Dice<'_>, variant: &str) -> LockWork {
        swarm::swarm(dice, scheme(variant))
    }

    /// Half of the requests are shared, by a skewed popularity.
    fn bench(nodes: u32, requests: u32, variant: &str) -> LockWork {
        LockWork {
            locks: nodes,
            keys: Keys::Zipf(0.99),
            shared: Share::new(0.5).unwrap_or_default(),
            requests: Some(requests),
            think: Spread { min: Span(Nanos::ZERO), max: Span(Nanos::from_micros(50)) },
            hold: Spread::fixed(Nanos::from_micros(2)),
            ..LockWork::idle(scheme(variant))
        }
    }

    fn limited(work: LockWork, requests: u32) -> LockWork {
        LockWork { requests: Some(requests), duration: None, ..work }
    }

    fn oracles(work: &LockWork, _: u32) -> LockOracles {
        let oracles = LockOracles::new(work.scheme.has_tokens());
        let always_share = work.scheme.shares() && work.shared_limit.is_none();
        if always_share { oracles } else { oracles.where_sharers_wait() }
    }

    fn start<V: Verbs, R: Record<Event>>(
        place: &Place<V>,
        work: &LockWork,
        record: &R,
    ) -> Result<LockService<V>, String> {
        let Place { rt, mesh, members, .. } = place;
        let config = work.config(place.nodes);
        let started = match members {
            None => LockService::start(rt, mesh, config),
            Some(members) => {
                let said = record.clone();
                left_out(rt, members, move |at, node| said.record(Event::of_node(at, node, What::LeftOut)));
                rt.spawn(leases::tell(members.clone(), rt.clone(), place.node, record.clone()));
                LockService::start_with(rt, mesh, config, members)
            }
        };
        started.map_err(|why| why.to_string())
    }

    fn held_up(work: &LockWork) -> Nanos {
        work.hold.max.nanos()
    }

    fn survives(_: &LockWork) -> bool {
        true
    }

    fn crashed<R: Record<Event>>(node: u32, at: Nanos, record: &R) {
        record.record(Event::of_node(at, node, What::Crashed));
    }

    fn name_of<V: Verbs>(service: &LockService<V>, address: u64) -> Option<Named> {
        let key = service.lock_at(address)?;
        Some(Named::with(format!("lock {:x}'s word", key.0), LockService::<V>::word_in_words))
    }

    fn client<V: Verbs>(service: &LockService<V>, _: ClientId) -> Client<V> {
        Client::new(service.client())
    }

    fn plans(work: &LockWork, _: u32, seed: u64) -> Plans {
        Plans { work: Rc::new(work.clone()), keys: Rc::new(KeyPicker::new(work.keys, work.locks)), seed }
    }

    fn plan(plans: &Rc<Plans>, id: ClientId) -> Plan {
        Plan::new(&plans.work, &plans.keys, plans.seed, id)
    }

    fn next(plan: &mut Plan) -> (Nanos, Request) {
        let request = plan.request();
        (request.think, request)
    }

    async fn perform<V: Verbs, R: Record<Event>>(
        rt: &Rt<V>,
        client: &mut Client<V>,
        id: RequestId,
        request: Request,
        record: &R,
    ) {
        client::perform(rt, client, id, request, record).await;
    }

    fn dropped<V: Verbs>(client: &mut Client<V>, id: RequestId, of: &Request, at: Nanos) -> Option<Event> {
        let what = client.drops()?;
        Some(Event { at, request: id, key: of.key, mode: of.mode, what })
    }

    fn counts<V: Verbs>(service: &LockService<V>) -> LockCounts {
        service.stats().into()
    }

    fn conduct(counts: &LockCounts) -> Conduct {
        Conduct { out_of_turn: counts.out_of_turn, malformed: counts.malformed }
    }

    fn leftovers<V: Verbs>(service: &LockService<V>) -> Vec<(&'static str, u64)> {
        service.audit().leftovers().to_vec()
    }

    fn worlds() -> Vec<Entry> {
        worlds::worlds()
    }

    fn metrics(measured: Measured<'_, Locks>) -> Metrics {
        let Measured { oracles, meter, counts, mesh, busy, .. } = measured;
        let ends = meter.ends();
        Metrics {
            rates: vec![Rate::of("grants_per_second", "grants a second", ends.granted, busy)],
            groups: vec![
                requests(ends, oracles.unended()),
                fairness(oracles.bypass()),
                protocol(&counts, &mesh),
            ],
            latencies: latencies(meter),
            picture: picture(meter),
        }
    }
}

/// The scheme of a variant's name.
fn scheme(variant: &str) -> Scheme {
    variant.parse().unwrap_or(Scheme::Ncosed)
}

fn latencies(meter: &LockMeter) -> Vec<Latencies> {
    let rows = [("exclusive", Mode::Exclusive), ("shared", Mode::Shared)];
    let mut all = vec![Latencies {
        key: "latency",
        title: "Time from request to grant",
        heads: ["mode", "granted"],
        rows: rows.map(|(name, mode)| (name, meter.to_the_grant(mode))).to_vec(),
    }];
    if meter.crashed() > 0 {
        all.push(Latencies {
            key: "survival",
            title: "Time from a crash to the next grant",
            heads: ["of what was", "granted"],
            rows: vec![("held by the dead", meter.to_the_next_grant())],
        });
        all.push(Latencies {
            key: "meanwhile",
            title: "Time from request to grant around a crash",
            heads: ["lock", "granted"],
            rows: vec![
                ("wanted", meter.meanwhile(Home::Sought)),
                ("at home", meter.meanwhile(Home::Dead)),
                ("other", meter.meanwhile(Home::Living)),
            ],
        });
    }
    all
}

/// How long crashes stopped whom.
fn picture(meter: &LockMeter) -> Option<Curves> {
    let curves = vec![
        ("held by the dead: from the crash", meter.next_grants()),
        ("wanted by the dead, too: from the request", meter.all_meanwhile(Home::Sought)),
        ("at home on the dead: from the request", meter.all_meanwhile(Home::Dead)),
        ("other: from the request", meter.all_meanwhile(Home::Living)),
    ];
    let curves: Vec<_> = curves.into_iter().filter(|(_, points)| !points.is_empty()).collect();
    (meter.crashed() > 0).then_some(Curves { title: "Time to the next grant around a crash", curves })
}

fn requests(ends: Ends, unended: u64) -> Group {
    let Ends { made, granted, timed_out, refused, failed, lost } = ends;
    let counts = [
        ("made", "made", made),
        ("granted", "granted", granted),
        ("timed_out", "timed out", timed_out),
        ("refused", "refused", refused),
        ("failed", "failed", failed),
        ("lost", "lost", lost),
        ("unended", "not ended", unended),
    ];
    Group::new("requests", "Requests", Layout::Row, &counts)
}

/// How unfair it was. The most of each run add up to nothing.
fn fairness(bypass: MostBypassed) -> Group {
    let counts =
        [("most", "any", bypass.most), ("most_exclusive", "exclusive past exclusive", bypass.most_exclusive)];
    let title = "Most grants that went past one waiting request";
    Group { adds_up: false, ..Group::new("bypass", title, Layout::Column("which"), &counts) }
}

fn protocol(locks: &LockCounts, mesh: &MeshCounts) -> Group {
    let counts = [
        ("messages", "messages", locks.messages_sent),
        ("atomics", "remote atomics", locks.compare_swaps + locks.fetch_adds),
        ("atomic_retries", "  tried again with another guess", locks.swap_misses),
        ("unknown_outcomes", "  outcome unknown after an error", locks.unknown_outcomes),
        ("downgrades", "exclusive holds downgraded", locks.downgrades),
        ("rebuilds", "lock words rebuilt", locks.rebuilds),
        ("reconnects", "connections made again", mesh.reconnects),
        ("resent", "messages sent again", mesh.messages_repeated),
        ("duplicates", "messages that came twice, dropped", mesh.duplicates),
    ];
    Group::new("protocol", "Protocol", Layout::Column("what"), &counts)
}
