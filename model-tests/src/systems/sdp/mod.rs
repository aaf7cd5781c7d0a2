//! The room of the sockets: clients that write requests on streams and read answers, while links fail.

mod client;
pub mod coding;
pub mod history;
mod meter;
mod moves;
pub mod oracles;
mod paper;
mod server;
mod stranger;
pub mod workload;
pub mod worlds;

pub use client::Client;
pub use meter::SdpMeter;
pub use stranger::stranger;

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
use history::{Event, What};
use oracles::SdpOracles;
use server::Server;
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::rt::Rt;
use weft_protocols::sdp::{Sdp, SdpError, SdpOptions, SdpStats};
use weft_protocols::transport::{Mesh, MeshConfig, Rank};
use weft_verbs::{Nanos, Verbs};
use workload::{Plan, Request, SdpWork};

/// The port of the servers.
const PORT: u16 = 7;

/// Sockets over verbs.
pub struct Sockets;

/// A node's sockets.
pub struct Service<V: Verbs> {
    rt: Rt<V>,
    sdp: Sdp<V>,
    node: u32,
    work: Rc<SdpWork>,
    /// How often the node had restarted.
    life: u32,
    /// Connections that its server serves.
    serving: Rc<Cell<u64>>,
}

impl<V: Verbs> Service<V> {
    /// Starts the sockets of a node with these options, and its server.
    fn start<R: Record<Event>>(
        place: &Place<V>,
        work: &SdpWork,
        options: SdpOptions,
        record: &R,
    ) -> Result<Service<V>, String> {
        let Place { rt, mesh, node, incarnation, .. } = place;
        let sdp = Sdp::start(rt, mesh, options).map_err(|why| why.to_string())?;
        let listener = sdp.bind(PORT).map_err(|why| why.to_string())?;
        let work = Rc::new(work.clone());
        let (sdp_here, work_here) = (sdp.clone(), Rc::clone(&work));
        let (record, serving) = (record.clone(), Rc::<Cell<u64>>::default());
        let (rt_here, serving_here) = (rt.clone(), Rc::clone(&serving));
        let server = Server {
            rt: rt_here,
            node: *node,
            sdp: sdp_here,
            work: work_here,
            record,
            serving: serving_here,
        };
        drop(rt.spawn(server.listen(listener)));
        if work.moves > 0 && mesh.rails() > 1 {
            let peer = Rank::from_index((node + 1) % place.nodes);
            drop(rt.spawn(move_about(rt.clone(), sdp.clone(), mesh.clone(), peer, Rc::clone(&work))));
        }
        Ok(Service { rt: rt.clone(), sdp, node: *node, work, life: *incarnation, serving })
    }
}

/// Moves the connection with a peer from rail to rail. A rail that does not answer is left alone.
async fn move_about<V: Verbs>(rt: Rt<V>, sdp: Sdp<V>, mesh: Mesh<V>, peer: Rank, work: Rc<SdpWork>) {
    for _ in 0..work.moves {
        rt.sleep(work.move_every.nanos()).await;
        let rail = (mesh.rail(peer).unwrap_or(0) + 1) % mesh.rails();
        if mesh.is_closed() || sdp.move_to(peer, rail).await == Err(SdpError::Closed) {
            return;
        }
    }
}

counted! {
    /// What a node counted.
    Counts from SdpStats {
        connected, refused, data_sent, bytes_sent, copies, zcopy_sent, repeated, crossed, recalled,
        control_sent, aborts, out_of_turn, malformed, probes, found_dead, moves, address_changes,
    }
}

impl System for Sockets {
    const KIND: &'static str = "sdp";
    const ABOUT: &'static str = "sockets: byte streams that survive the links that carry them";
    const EXAMPLE: &'static str = "requests = 100";
    const LEAST_NODES: u32 = 2;
    const RESTARTS: bool = true;
    const QUITS: bool = true;
    // What is given up after 30 s may have been silent for an eighth less, and a link that is there again is not used at once.
    const PATIENCE: Nanos = Nanos::from_secs(20);
    const COSTS: &'static [(&'static str, &'static str)] =
        &[("protocol", "data_sent"), ("protocol", "control_sent"), ("protocol", "copies")];

    const TARGETS: &'static [crate::system::Target] = &[("sdp-stranger", stranger)];
    const PAPERS: &'static [Paper] = &[paper::SDP];
    const EXAMPLES: &'static [Example] = &[Example {
        what: "Bulk transfers over sockets while links are cut, and their report",
        command: "weft run scenarios/sockets-bulk-4.toml",
    }];

    type Workload = SdpWork;
    type Event = Event;
    type Oracles = SdpOracles;
    type Meter = SdpMeter;
    type Counts = Counts;
    type Service<V: Verbs> = Service<V>;
    type Client<V: Verbs> = Client<V>;
    type Plans = Plans<SdpWork>;
    type Plan = Plan;
    type Request = Request;

    fn check(work: &SdpWork, nodes: u32) -> Rule {
        work.check(nodes)
    }

    fn amount(work: &SdpWork) -> Amount {
        work.amount()
    }

    fn swarm(dice: &mut Dice<'_>, _: &str) -> SdpWork {
        SdpWork::drawn(dice)
    }

    fn bench(_: u32, requests: u32, _: &str) -> SdpWork {
        SdpWork { keep: true, ..SdpWork::of(requests) }
    }

    fn limited(work: SdpWork, requests: u32) -> SdpWork {
        SdpWork { requests: Some(requests), duration: None, ..work }
    }

    fn mesh(work: &SdpWork, config: &mut MeshConfig) {
        let longest = work.longest_message();
        config.max_message = config.max_message.max(longest);
    }

    /// What is heard just before it restarts counts for the time in which it comes, so a server is asked within twice the time.
    fn held_up(work: &SdpWork) -> Nanos {
        work.keepalive.map_or(Nanos::ZERO, |span| span.nanos() * 2)
    }

    fn lacks_for_restarts(work: &SdpWork) -> Option<&'static str> {
        work.keepalive
            .is_none()
            .then_some("a `keepalive` in [workload], by which who waits for an answer learns of it")
    }

    fn restarted<R: Record<Event>>(node: u32, at: Nanos, record: &R) {
        record.record(Event { at_ns: at.0, node, request: RequestId::of_node(node), what: What::Restarts });
    }

    fn oracles(work: &SdpWork, _: u32) -> SdpOracles {
        SdpOracles::of(work.failover, work.moves > 0, work.keep).with_keepalive(work.keepalive.is_some())
    }

    fn start<V: Verbs, R: Record<Event>>(
        place: &Place<V>,
        work: &SdpWork,
        record: &R,
    ) -> Result<Service<V>, String> {
        Service::start(place, work, work.options(), record)
    }

    fn client<V: Verbs>(service: &Service<V>, _: ClientId) -> Client<V> {
        Client::new(service)
    }

    fn plans(work: &SdpWork, nodes: u32, seed: u64) -> Self::Plans {
        Plans { work: work.clone(), nodes, seed }
    }

    fn plan(plans: &Rc<Self::Plans>, id: ClientId) -> Plan {
        Plan::new(&plans.work, plans.nodes, plans.seed, id)
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
        client.perform(rt, client.in_life(id), request, record).await;
    }

    // One whose answer is wanted before it is written has a task that waits for the answer, and keeps the stream.
    fn may_drop<V: Verbs>(client: &Client<V>, _: &Request) -> bool {
        !client.wants_first()
    }

    fn dropped<V: Verbs>(client: &mut Client<V>, id: RequestId, _: &Request, at: Nanos) -> Option<Event> {
        Some(client.dropped(client.in_life(id), at))
    }

    fn counts<V: Verbs>(service: &Service<V>) -> Counts {
        service.sdp.stats().into()
    }

    fn arrived<V: Verbs>(service: &Service<V>) -> Option<u64> {
        Some(service.sdp.stats().arrived)
    }

    fn conduct(counts: &Counts) -> Conduct {
        Conduct { out_of_turn: counts.out_of_turn, malformed: counts.malformed }
    }

    fn leftovers<V: Verbs>(service: &Service<V>) -> Vec<(&'static str, u64)> {
        leftovers(&service.sdp).to_vec()
    }

    fn worlds() -> Vec<Entry> {
        worlds::worlds()
    }

    fn metrics(measured: Measured<'_, Sockets>) -> Metrics {
        let Measured { oracles, meter, counts, mesh, busy, .. } = measured;
        let requests = [
            ("answered", "answered", meter.answered),
            ("failed", "failed", meter.failed),
            ("unended", "not ended", oracles.unended()),
            ("connections", "connections", counts.connected),
        ];
        Metrics {
            picture: None,
            rates: vec![
                Rate::of("requests_per_second", "requests a second", meter.answered, busy),
                Rate::of("bytes_per_second", "bytes a second", meter.bytes, busy),
            ],
            groups: vec![
                Group::new("requests", "Requests", Layout::Row, &requests),
                protocol(&counts, &mesh),
            ],
            latencies: vec![Latencies {
                key: "latency",
                title: "Time from call to return",
                heads: ["", "count"],
                rows: vec![
                    ("connect", meter.connects.percentiles()),
                    ("until the server has it", meter.deliveries.percentiles()),
                    ("request and answer", meter.requests.percentiles()),
                    ("longest wait within one", meter.stalls.percentiles()),
                ],
            }],
        }
    }
}

fn protocol(counts: &Counts, mesh: &MeshCounts) -> Group {
    let counts = [
        ("data_sent", "data messages", counts.data_sent),
        ("control_sent", "control messages", counts.control_sent),
        ("copies", "copies to and from private buffers", counts.copies),
        ("zcopy_sent", "bytes without a copy", counts.zcopy_sent),
        ("repeated", "reads and writes repeated", counts.repeated),
        ("crossed", "wanted buffers that were crossed", counts.crossed),
        ("recalled", "advertisements given back unread", counts.recalled),
        ("probes", "probes", counts.probes),
        ("found_dead", "links found dead by probes", counts.found_dead),
        ("moves", "planned moves to another rail", counts.moves),
        ("address_changes", "streams told of another address", counts.address_changes),
        ("aborts", "aborts", counts.aborts),
        ("refused", "connections refused", counts.refused),
        ("reconnects", "links connected again", mesh.reconnects),
        ("resent", "messages sent again", mesh.messages_repeated),
    ];
    Group::new("protocol", "Protocol", Layout::Column("what"), &counts)
}

/// What a node's sockets have not done.
fn leftovers<V: Verbs>(sdp: &Sdp<V>) -> [(&'static str, u64); 2] {
    [("streams that did not end", sdp.streams()), ("peers with which nothing is started", sdp.held_up())]
}
