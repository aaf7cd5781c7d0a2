//! The room of the transport by itself: nodes that send each other messages while links fail and nodes restart.
//!
//! Messages arrive in order, each once, and of those that do not, the sender is told: that is all that the transport
//! promises, and what [`delivery`] watches.

pub mod delivery;
mod expel;
mod guests;
pub mod history;
mod meter;
mod misused;
mod operations;
mod own_broken;
mod place;
pub mod rails;
mod runtime;
mod service;
mod strangers;
mod touched;
pub mod workload;
pub mod worlds;

pub use meter::MessageMeter;
pub use service::{MessageClient, MessageService};

use crate::explore::Entry;
use crate::fields::{Dice, Rule};
use crate::history::{ClientId, RequestId};
use crate::metrics::{Group, Latencies, Layout, Metrics, Rate};
use crate::oracle::{Conduct, Oracles};
use crate::record::Record;
use crate::system::{Amount, Example, Measured, Place, Plans, System};
use delivery::MessageOracles;
use history::{Event, What};
use std::rc::Rc;
use weft_protocols::rt::Rt;
use weft_protocols::transport::MeshConfig;
use weft_verbs::{Nanos, Verbs};
use workload::{MessageWork, Plan, Request};

/// The transport by itself: messages in storms, bursts and rings.
pub struct Messages;

/// What a node counted, beside its transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct MessageCounts {
    /// Messages that could not be read.
    pub malformed: u64,
}

impl std::ops::AddAssign for MessageCounts {
    fn add_assign(&mut self, other: MessageCounts) {
        self.malformed += other.malformed;
    }
}

impl System for Messages {
    const KIND: &'static str = "messages";
    const ABOUT: &'static str = "the transport by itself: messages in storms, bursts and rings";
    const EXAMPLE: &'static str = "messages = 100";
    const RESTARTS: bool = true;
    const MEMORY: bool = true;
    const LEAST_NODES: u32 = 2;
    const COSTS: &'static [(&'static str, &'static str)] = &[("transport", "control_frames")];

    const EXAMPLES: &'static [Example] = &[
        Example {
            what: "Messages between 16 nodes while links fail and nodes restart, and their report",
            command: "weft run scenarios/messages-16.toml",
        },
        Example {
            what: "Messages on 64 nodes without faults",
            command: "weft bench messages --nodes 64 --requests 100000",
        },
    ];

    type Workload = MessageWork;
    type Event = Event;
    type Oracles = MessageOracles;
    type Meter = MessageMeter;
    type Counts = MessageCounts;
    type Service<V: Verbs> = MessageService<V>;
    type Client<V: Verbs> = MessageClient<V>;
    type Plans = Plans<MessageWork>;
    type Plan = Plan;
    type Request = Request;

    fn check(work: &MessageWork, nodes: u32) -> Rule {
        work.check(nodes)
    }

    fn amount(work: &MessageWork) -> Amount {
        work.amount()
    }

    fn swarm(dice: &mut Dice<'_>, _: &str) -> MessageWork {
        MessageWork::drawn(dice)
    }

    fn bench(_: u32, requests: u32, _: &str) -> MessageWork {
        MessageWork::of(requests)
    }

    fn limited(work: MessageWork, requests: u32) -> MessageWork {
        MessageWork { messages: Some(requests), duration: None, ..work }
    }

    fn mesh(work: &MessageWork, config: &mut MeshConfig) {
        config.max_message = config.max_message.max(work.bytes.max);
    }

    fn oracles(_: &MessageWork, _: u32) -> MessageOracles {
        MessageOracles::default()
    }

    fn start<V: Verbs, R: Record<Event>>(
        place: &Place<V>,
        _: &MessageWork,
        record: &R,
    ) -> Result<MessageService<V>, String> {
        MessageService::start(place, record)
    }

    fn restarted<R: Record<Event>>(node: u32, at: Nanos, record: &R) {
        record.record(Event { at, node, what: What::Restarted });
    }

    fn client<V: Verbs>(service: &MessageService<V>, _: ClientId) -> MessageClient<V> {
        service.client()
    }

    fn plans(work: &MessageWork, nodes: u32, seed: u64) -> Self::Plans {
        Plans { work: work.clone(), nodes, seed }
    }

    fn plan(plans: &Rc<Self::Plans>, id: ClientId) -> Plan {
        Plan::new(&plans.work, plans.nodes, plans.seed, id)
    }

    fn next(plan: &mut Plan) -> (Nanos, Request) {
        plan.next_message()
    }

    async fn perform<V: Verbs, R: Record<Event>>(
        rt: &Rt<V>,
        client: &mut MessageClient<V>,
        _: RequestId,
        request: Request,
        record: &R,
    ) {
        client.send(rt, request, record).await;
    }

    fn counts<V: Verbs>(service: &MessageService<V>) -> MessageCounts {
        MessageCounts { malformed: service.malformed() }
    }

    fn conduct(counts: &MessageCounts) -> Conduct {
        Conduct { out_of_turn: 0, malformed: counts.malformed }
    }

    fn worlds() -> Vec<Entry> {
        worlds::worlds().into_iter().chain(place::worlds()).collect()
    }

    fn metrics(measured: Measured<'_, Messages>) -> Metrics {
        let Measured { oracles, meter, mesh, busy, .. } = measured;
        let messages = [
            ("sent", "sent", meter.sent),
            ("arrived", "arrived", meter.arrived),
            ("told_lost", "may be lost", meter.told_lost),
            ("lost_with_sender", "lost with their sender", oracles.lost_with_sender()),
            ("unended", "unaccounted for", oracles.unended()),
        ];
        let transport = [
            ("reconnects", "connections made again", mesh.reconnects),
            ("resent", "messages sent again", mesh.messages_repeated),
            ("duplicates", "messages that came twice, dropped", mesh.duplicates),
            ("control_frames", "frames for credits and acknowledgements", mesh.control_frames),
            ("restarts", "restarts of nodes", meter.restarts),
            ("peer_resets", "restarts that a peer was told of", mesh.peer_resets),
        ];
        Metrics {
            picture: None,
            rates: vec![
                Rate::of("messages_per_second", "messages a second", meter.arrived, busy),
                Rate::of("bytes_per_second", "bytes a second", meter.bytes, busy),
            ],
            groups: vec![
                Group::new("messages", "Messages", Layout::Row, &messages),
                Group::new("transport", "Transport", Layout::Column("what"), &transport),
            ],
            latencies: vec![Latencies {
                key: "latency",
                title: "Time from sending to arrival",
                heads: ["", "arrived"],
                rows: vec![("message", meter.to_arrival())],
            }],
        }
    }
}
