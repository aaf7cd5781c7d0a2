//! The room of the files: bulk transfers, shared files and small files, and what is promised of their bytes and names.

mod client;
pub mod content;
pub mod history;
mod meter;
pub mod oracles;
mod paper;
pub mod requests;
pub mod workload;
pub mod worlds;

pub use client::Client;
pub use meter::PfMeter;

use crate::MeshCounts;
use crate::counted::counted;
use crate::explore::Entry;
use crate::fields::{Dice, Rule};
use crate::history::{ClientId, RequestId};
use crate::metrics::{Group, Latencies, Layout, Metrics, Rate};
use crate::oracle::{Conduct, Oracles};
use crate::paper::Paper;
use crate::record::Record;
use crate::system::{Amount, Example, Measured, Place, Plans, System};
use client::Teller;
use history::{Event, What};
use oracles::FileOracles;
use requests::{Plan, Request};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::pario::{FsConfig, FsStats, Pario, read_anything};
use weft_protocols::rt::Rt;
use weft_protocols::transport::{GuestAudit, MeshConfig};
use weft_verbs::{Nanos, Verbs};
use workload::{Access, PfWork};

/// Files, striped over servers.
pub struct Files;

/// A node's service, and what its clients agree on.
pub struct Service<V: Verbs> {
    /// That of the guest which is there now, on a node where they come and go.
    files: Rc<RefCell<Pario<V>>>,
    /// What services of guests that have gone had counted.
    gone: Rc<RefCell<Counts>>,
    work: Rc<PfWork>,
    /// How often its node had restarted.
    life: u32,
}

impl<V: Verbs> Service<V> {
    fn start(place: &Place<V>, work: &PfWork, config: FsConfig) -> Result<Service<V>, String> {
        let files = Pario::start(&place.rt, &place.mesh, config).map_err(|why| why.to_string())?;
        let (files, gone) = (Rc::new(RefCell::new(files)), Rc::default());
        Ok(Service { files, gone, work: Rc::new(work.clone()), life: place.incarnation })
    }
}

counted! {
    /// What a node counted.
    Counts from FsStats {
        asked, eager, pulls, pushes, offered, again, unknown_outcomes, staging_waits, commits, places, known_again, probes,
        copied, malformed, guests, forgotten,
    }
}

/// The access of a variant's name.
fn access(variant: &str) -> Access {
    Access::ALL.into_iter().find(|access| access.name() == variant).unwrap_or(Access::Mix)
}

impl System for Files {
    const KIND: &'static str = "pario";
    const ABOUT: &'static str = "parallel files, striped over servers: bulk, mix, small and tiles";
    const EXAMPLE: &'static str = "access = \"mix\" and requests = 100";
    const RESTARTS: bool = true;
    const DISKS: bool = true;
    const MEMORY: bool = true;
    const QUITS: bool = true;
    const LEAST_NODES: u32 = 2;
    const VARIANTS: &'static [&'static str] = &["bulk", "mix", "small", "tiles"];
    const COSTS: &'static [(&'static str, &'static str)] =
        &[("protocol", "asked"), ("protocol", "pulls"), ("protocol", "pushes"), ("protocol", "copied")];
    const EXAMPLES: &'static [Example] = &[
        Example {
            what: "Striped files on 16 nodes, cells of which are written and read while links are cut",
            command: "weft run scenarios/files-16.toml",
        },
        Example {
            what: "Files on servers that crash and come back: what was answered is there",
            command: "weft run scenarios/files-restart-8.toml",
        },
    ];

    const TARGETS: &'static [crate::system::Target] = &[("pario-decoders", read_anything)];

    const PAPERS: &'static [Paper] = &[paper::PVFS2, paper::PRESENT];

    type Workload = PfWork;
    type Event = Event;
    type Oracles = FileOracles;
    type Meter = PfMeter;
    type Counts = Counts;
    type Service<V: Verbs> = Service<V>;
    type Client<V: Verbs> = Client<V>;
    type Plans = Plans<PfWork>;
    type Plan = Plan;
    type Request = Request;

    fn check(work: &PfWork, nodes: u32) -> Rule {
        work.check(nodes)
    }

    fn amount(work: &PfWork) -> Amount {
        work.amount()
    }

    fn variant(work: &PfWork) -> Option<(&'static str, String)> {
        Some(("access", work.access.name().to_string()))
    }

    fn lingers(work: &PfWork) -> Nanos {
        if work.guests { work.lease.nanos() } else { Nanos::ZERO }
    }

    fn swarm(dice: &mut Dice<'_>, variant: &str) -> PfWork {
        PfWork::drawn(dice, access(variant))
    }

    fn bench(nodes: u32, requests: u32, variant: &str) -> PfWork {
        PfWork { files: nodes, servers: nodes.div_ceil(2), ..PfWork::of(access(variant), requests) }
    }

    fn limited(work: PfWork, requests: u32) -> PfWork {
        PfWork { requests: Some(requests), duration: None, ..work }
    }

    fn mesh(work: &PfWork, config: &mut MeshConfig) {
        config.max_message = config.max_message.max(work.config().max_message());
        if let Some(guests) = work.guest_config() {
            *config = match config.me.index() < work.servers as usize {
                true => config.clone().with_guests(work.servers, guests),
                false => config.clone().as_guest_of(work.servers),
            };
        }
    }

    fn oracles(work: &PfWork, _: u32) -> FileOracles {
        let oracles = FileOracles::new(work.files, work.directories).surviving(work.servers, work.survival());
        let by_stream = work.wire == workload::By::Tcp;
        let oracles = oracles.striped(work.strip);
        let oracles = oracles.failing_early(by_stream).losing_open(by_stream || work.guests);
        oracles.asking_again(work.storage == workload::Keep::Disk).of_guests(work.guests)
    }

    fn start<V: Verbs, R: Record<Event>>(
        place: &Place<V>,
        work: &PfWork,
        _: &R,
    ) -> Result<Service<V>, String> {
        Service::start(place, work, work.config())
    }

    fn restarted<R: Record<Event>>(node: u32, at: Nanos, record: &R) {
        record.record(Event { at_ns: at.0, request: RequestId::of_node(node), what: What::Restarted });
    }

    fn client<V: Verbs>(service: &Service<V>, _: ClientId) -> Client<V> {
        let Service { files, gone, work, life } = service;
        let (of_node, files) = (Rc::clone(files), files.borrow().clone());
        Client { files, of_node, gone: Rc::clone(gone), work: Rc::clone(work), open: None, life: *life }
    }

    fn plans(work: &PfWork, nodes: u32, seed: u64) -> Self::Plans {
        Plans { work: work.clone(), nodes, seed }
    }

    fn plan(plans: &Rc<Self::Plans>, id: ClientId) -> Plan {
        Plan::new(&plans.work, plans.seed, id)
    }

    fn next(plan: &mut Plan) -> (Nanos, Request) {
        plan.request()
    }

    async fn perform<V: Verbs, R: Record<Event>>(
        rt: &Rt<V>,
        client: &mut Client<V>,
        id: RequestId,
        request: Request,
        record: &R,
    ) {
        // What became of each call is in the history.
        let id = client.in_life(id);
        drop(Teller { rt, id, record }.perform(client, request).await);
    }

    // A guest that comes or goes is no call.
    fn may_drop<V: Verbs>(_: &Client<V>, request: &Request) -> bool {
        !matches!(request, Request::Leave | Request::Die { .. })
    }

    fn dropped<V: Verbs>(client: &mut Client<V>, id: RequestId, _: &Request, at: Nanos) -> Option<Event> {
        Some(Event { at_ns: at.0, request: client.in_life(id), what: What::Dropped })
    }

    fn counts<V: Verbs>(service: &Service<V>) -> Counts {
        let mut counts: Counts = service.files.borrow().stats().into();
        counts += *service.gone.borrow();
        counts
    }

    fn conduct(counts: &Counts) -> Conduct {
        Conduct { out_of_turn: 0, malformed: counts.malformed }
    }

    /// Files included that clients still have open.
    fn leftovers<V: Verbs>(service: &Service<V>) -> Vec<(&'static str, u64)> {
        let files = service.files.borrow();
        let mut left = files.leftovers();
        // Guests that have gone are forgotten within the lease, where that is shorter than a run waits.
        if service.work.guests && service.work.lease.nanos() < Nanos::from_secs(5) {
            let GuestAudit { known, lent, buffers, most_buffers, .. } = files.guests();
            let beyond = buffers.saturating_sub(most_buffers);
            left.extend([("guests", known), ("slots lent to guests", lent), ("buffers of guests", beyond)]);
        }
        left
    }

    fn worlds() -> Vec<Entry> {
        worlds::worlds()
    }

    fn metrics(measured: Measured<'_, Files>) -> Metrics {
        let Measured { oracles, meter, counts, mesh, busy, .. } = measured;
        Metrics {
            picture: None,
            rates: vec![
                Rate::of("calls_per_second", "calls a second", meter.served + meter.told, busy),
                Rate::of("written_per_second", "bytes written a second", meter.written, busy),
                Rate::of("read_per_second", "bytes read a second", meter.read, busy),
            ],
            groups: vec![calls(meter, oracles.unended()), protocol(&counts, &mesh)],
            latencies: vec![Latencies {
                key: "latency",
                title: "Time from call to return",
                heads: ["call", "returned"],
                rows: vec![
                    ("write", meter.writes.percentiles()),
                    ("read", meter.reads.percentiles()),
                    ("open", meter.opens.percentiles()),
                    ("other", meter.others.percentiles()),
                ],
            }],
        }
    }
}

fn calls(meter: &PfMeter, unended: u64) -> Group {
    let PfMeter { served, told, failed, written, read, .. } = *meter;
    let counts = [
        ("served", "served", served),
        ("told", "told of names", told),
        ("failed", "failed", failed),
        ("unended", "not ended", unended),
        ("written", "bytes written", written),
        ("read", "bytes read", read),
    ];
    Group::new("calls", "Calls", Layout::Row, &counts)
}

fn protocol(counts: &Counts, mesh: &MeshCounts) -> Group {
    let guests =
        [("guests", "guests admitted", counts.guests), ("forgotten", "guests forgotten", counts.forgotten)];
    let counts = [
        ("asked", "requests to servers", counts.asked),
        ("eager", "requests whose data rode in messages", counts.eager),
        ("pulls", "units pulled by RDMA read", counts.pulls),
        ("pushes", "units pushed by RDMA write", counts.pushes),
        ("offered", "units for clients to move", counts.offered),
        ("again", "transfers begun again", counts.again),
        ("unknown_outcomes", "transfers of unknown outcome", counts.unknown_outcomes),
        ("staging_waits", "requests that waited for staging", counts.staging_waits),
        ("commits", "commits of the directory", counts.commits),
        ("places", "places of appends", counts.places),
        ("known_again", "answers given once more", counts.known_again),
        ("probes", "probes of servers", counts.probes),
        ("copied", "bytes copied", counts.copied),
        ("reconnects", "connections made again", mesh.reconnects),
        ("resent", "messages sent again", mesh.messages_repeated),
    ];
    // A cluster without guests has no rows for them.
    let counts: Vec<_> =
        counts.into_iter().chain(guests.into_iter().filter(|(_, _, count)| *count > 0)).collect();
    Group::new("protocol", "Protocol", Layout::Column("what"), &counts)
}
