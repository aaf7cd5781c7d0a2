//! What a scenario file may say: every field with its unit, its default and where the default comes from.

use super::jitter::Jitter;
use super::membership::Membership;
use super::quits::Quits;
use super::workload::Workload;
use crate::fields::{Rate, Share, Span, Spread};
use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};
use weft_sim::fault::FaultKind;
use weft_verbs::{Nanos, Wait};

/// A whole scenario: a cluster, what its users do, what goes wrong, and for how long.
///
/// One file describes a run on either backend. Nothing in it depends on the seed: a seed chooses *when* the
/// random faults strike, which keys are asked for and in which order simultaneous events happen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// One line that says what the scenario is for; printed above its report. Default: empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The machines and the fabric between them.
    pub cluster: Cluster,
    /// The settings of the connections between them. Default: see [`Transport`].
    pub transport: Transport,
    /// What the applications on those machines do: the system under test, and its own fields.
    pub workload: Workload,
    /// Users that do not wait for the end of their calls. Default: all of them do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quits: Option<Quits>,
    /// How long it may last. Default: see [`Run`].
    pub run: Run,
    /// What goes wrong, and when. Default: nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultSpec>,
}

/// A scenario file but for the workload, whose fields are its system's own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename = "Scenario")]
pub(super) struct Body {
    #[serde(default)]
    pub(super) title: String,
    pub(super) cluster: Cluster,
    #[serde(default)]
    pub(super) transport: Transport,
    #[serde(rename = "workload")]
    pub(super) _workload: IgnoredAny,
    #[serde(default)]
    pub(super) quits: Option<Quits>,
    #[serde(default)]
    pub(super) run: Run,
    #[serde(default)]
    pub(super) faults: Vec<FaultSpec>,
}

/// `[cluster]`: the machines and the fabric between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// How many machines, 1 to 1024. They are numbered from 0.
    pub nodes: u32,
    /// The calibration profile: what links, adapters and processors cost. `weft profiles` lists them; a name that ends in
    /// `.toml` is a file of one's own, beside the scenario or where the program runs.
    /// Default: `"present-day"`, because its figures are those of hardware that can be bought.
    #[serde(default = "present_day")]
    pub profile: String,
    /// How a machine learns of completions: `"poll"` (spins) or `"notify"` (sleeps until interrupted).
    /// Default: `"poll"`, as in the lock paper's main figures.
    #[serde(default)]
    pub wait: WaitStyle,
    /// How the machines are cabled. Default: `"switch"`, every machine on one switch, as in the lock
    /// paper's cluster.
    #[serde(default)]
    pub topology: Topology,
    /// How the first connections are made: `"cm"` (by the connection manager, when they are needed) or `"oob"` (all
    /// at the start: the nodes tell each other their queue pairs, without it). Later ones, in place of broken
    /// ones, are the connection manager's. Default: `"cm"`. `weft node --connect` overrides it.
    #[serde(default, skip_serializing_if = "Connect::is_cm")]
    pub connect: Connect,
    /// How many adapters every machine has, each on a cable of its own, 1 to 8: its rails, numbered from 0. Connections
    /// are made over rail 0; when one breaks, or its port loses its link, over the next rail. Memory is that of rail 0.
    /// Default: 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub rails: u8,
    /// By how much latencies vary, drawn by the seed: `"none"`, or `{ share = 0.1, spikes = 0.002, spike = "5us" }`, which is
    /// the default and an estimate of what machines do ([`weft_sim::Jitter::USUAL`]). Packets of one queue pair and
    /// completions of one queue stay in order, and the median is the profile's. Real devices have their own.
    #[serde(default, skip_serializing_if = "Jitter::is_usual")]
    pub jitter: Jitter,
    /// How adapters give out memory keys: `"rest"` (a key that has died comes again late) or `"stack"` (the very next region gets
    /// it, as on mlx5: [`weft_sim::Keys`]). Default: `"rest"`. Real devices have their own way.
    #[serde(default, skip_serializing_if = "Keys::is_rest")]
    pub keys: Keys,
    /// By how much at most a processor may see what an adapter wrote later than that is acknowledged, and in parts, where no
    /// completion says that it is there: up to 1 ms ([`weft_sim::Config::visibility`]). Default: `"0us"`. Real devices have their own.
    #[serde(default, skip_serializing_if = "is_no_time")]
    pub visibility: Span,
    /// On real machines, the RDMA device, as `weft devices` names it; the same on all of them. Default: the first.
    /// `weft node --device` overrides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// On real machines, the device's port, from 1. Default: 1. `weft node --device-port` overrides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_port: Option<u8>,
    /// On real machines, which of the port's addresses is used, as `weft devices` numbers them. Default: the first IPv4
    /// address that the network namespace has, under RoCE version 2 where there is one, or over InfiniBand that of the port's IPoIB
    /// interface. `weft node --gid` overrides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u8>,
    /// Whether nodes agree on who is alive, so that the crash of one is survived, and how: `{ lease = "100ms", drift = "1ms",
    /// patience = "50ms" }` or less, `{}` for the defaults. Default: they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<Membership>,
}

fn is_no_time(span: &Span) -> bool {
    *span == Span::default()
}

fn one() -> u8 {
    1
}

fn is_one(rails: &u8) -> bool {
    *rails == 1
}

impl Cluster {
    /// So many machines, with the default of everything else.
    pub fn of(nodes: u32) -> Cluster {
        let (wait, topology, connect, jitter, keys, visibility) = Default::default();
        let (device, device_port, gid, members) = (None, None, None, None);
        let (profile, rails) = (present_day(), one());
        Cluster {
            nodes,
            profile,
            wait,
            topology,
            connect,
            rails,
            jitter,
            keys,
            visibility,
            device,
            device_port,
            gid,
            members,
        }
    }

    /// The same with every latency as the profile has it: for what measures.
    pub fn exact(nodes: u32) -> Cluster {
        Cluster { jitter: Jitter::NONE, ..Cluster::of(nodes) }
    }
}

fn present_day() -> String {
    "present-day".into()
}

/// How machines learn of completions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WaitStyle {
    /// By spinning on the completion queues.
    #[default]
    Poll,
    /// By an interrupt from a completion channel.
    Notify,
}

impl WaitStyle {
    /// The contract's name for it.
    pub fn wait(self) -> Wait {
        match self {
            WaitStyle::Poll => Wait::Poll,
            WaitStyle::Notify => Wait::Notify,
        }
    }
}

/// How machines are connected at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Connect {
    /// By the connection manager, when a connection is needed.
    #[default]
    Cm,
    /// Out of band: all at the start, by what nodes tell each other.
    Oob,
}

impl Connect {
    fn is_cm(&self) -> bool {
        *self == Connect::Cm
    }
}

/// How the machines are cabled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// Every adapter of every machine has one cable to one switch.
    #[default]
    Switch,
}

/// How adapters give out memory keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keys {
    /// A key that has died comes again late.
    #[default]
    Rest,
    /// The key that died last is the next region's.
    Stack,
}

impl Keys {
    fn is_rest(&self) -> bool {
        *self == Keys::Rest
    }
}

/// `[transport]`: how soon an adapter gives a connection up.
///
/// An adapter that has waited for an acknowledgement asks again, and after `retries` times it breaks the
/// connection: the operation then may have been executed, or not. A cut that lasts longer than that exhausts
/// the retries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transport {
    /// The acknowledgement time-out as the verbs have it, an exponent: 4.096 us times two to this, 1 to 31. An
    /// adapter waits between one and four times that. Default: the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ack_timeout: Option<u8>,
    /// How often the adapter asks again, 0 to 7. Default: the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u8>,
    /// Receive buffers of each connection, the credits of its peer, 8 to 16,384. Default: the transport's, 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recv_buffers: Option<u32>,
    /// Most requests outstanding on one connection, 4 to 16,383. Default: the transport's, 128.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_depth: Option<u32>,
    /// Most messages kept for one peer until it acknowledges them, 1 to 1,000,000. Default: the transport's,
    /// 4,096.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_queued: Option<u32>,
    /// Reads and atomics in flight on one connection, 1 to 16. Default: the transport's, 16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rd_atomic: Option<u8>,
    /// Whether adapters execute atomics, where they can; otherwise the processor of a word's machine does, which is asked by
    /// messages. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub atomics: Option<bool>,
    /// The most bytes of a packet of each connection: 256, 512, 1,024, 2,048 or 4,096. Default: what the ports can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// How long a connection stays on a worse rail before it is tried to go back to a better one. Default: the
    /// transport's, `"1s"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_off: Option<Span>,
}

/// `[[faults]]`: one thing that goes wrong, once at a given time or again and again at random.
///
/// `kind` decides which of the other fields mean anything; a field without meaning for its kind is an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultSpec {
    /// What goes wrong: one of [`FAULT_KINDS`].
    #[serde(deserialize_with = "fault_kind")]
    pub kind: FaultKind,
    /// When it strikes, in virtual time from the start. Give this or `rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Span>,
    /// How often it strikes, at random moments (exponentially distributed gaps). Give this or `at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The machine whose cable, port, completions, processor or disk it strikes: its number, or `"random"` for
    /// another one each time. Default: `"random"`, unless `between` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Pick>,
    /// The rail that it strikes, from 0, together with `node`. Default: all cables of the machine; for `port-down`, rail 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rail: Option<u8>,
    /// The two machines between which packets suffer: `[0, 3]`, or `"random"` for another pair each time.
    /// Other traffic of these machines is spared. Default: none; the fault is at one machine's cable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<Pair>,
    /// Which direction suffers: `"both"`, `"from"` or `"to"` the machine (with `between`: from the first
    /// to the second, or back). Default: `"both"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<WaySpec>,
    /// How long it lasts. Default: until the faults of the run stop; `lose-completion` and `restart` must say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Spread>,
    /// `crash`: how long after it the machine is there again, empty. Default: when the faults of the run stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<Spread>,
    /// `flap`: how long the link is down each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<Spread>,
    /// `flap`: how long the link is up between two downs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<Spread>,
    /// `flap`: how many times it goes down, 1 to 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// `loss`, `duplicate`, `corrupt`: the share of packets that suffer, for example 0.01 for one in a hundred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// `delay`: by how much every packet is late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Span>,
    /// `delay`: up to how much more, drawn for each packet. Default: `"0us"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Span>,
    /// `delay`: whether packets of one connection stay in their order all the same, as InfiniBand's switches keep it. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_order: Option<bool>,
    /// `slow-node`: how long the processor takes for everything, in percent of normal, 101 to 100,000: 300 is
    /// three times slower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u32>,
}

/// The kinds of faults that a scenario can have. The others are the explorer's, which has faults strike single events.
pub const FAULT_KINDS: [FaultKind; 14] = [
    FaultKind::Cut,
    FaultKind::Flap,
    FaultKind::Loss,
    FaultKind::Delay,
    FaultKind::Duplicate,
    FaultKind::Corrupt,
    FaultKind::PortDown,
    FaultKind::LoseCompletion,
    FaultKind::SlowNode,
    FaultKind::Restart,
    FaultKind::Crash,
    FaultKind::DiskFull,
    FaultKind::DiskError,
    FaultKind::NoMemory,
];

/// Reads a kind of [`FAULT_KINDS`] by its name.
fn fault_kind<'de, D: Deserializer<'de>>(from: D) -> Result<FaultKind, D::Error> {
    const NAMES: [&str; FAULT_KINDS.len()] = {
        let mut names = [""; FAULT_KINDS.len()];
        let mut next = 0;
        while next < names.len() {
            names[next] = FAULT_KINDS[next].name();
            next += 1;
        }
        names
    };
    let name = String::deserialize(from)?;
    let known = FAULT_KINDS.into_iter().find(|kind| kind.name() == name);
    known.ok_or_else(|| D::Error::unknown_variant(&name, &NAMES))
}

impl FaultSpec {
    /// A fault of a kind that says nothing else yet.
    pub const fn new(kind: FaultKind) -> FaultSpec {
        FaultSpec {
            kind,
            at: None,
            rate: None,
            node: None,
            rail: None,
            between: None,
            way: None,
            lasts: None,
            back: None,
            down: None,
            up: None,
            times: None,
            share: None,
            extra: None,
            jitter: None,
            in_order: None,
            percent: None,
        }
    }
}

/// A machine: by number, or another one each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// This one.
    Node(u32),
    /// Drawn each time.
    Random,
}

/// Two different machines: by number, or another pair each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pair {
    /// These two.
    Nodes([u32; 2]),
    /// Drawn each time.
    Random,
}

/// Which direction of a link a fault strikes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WaySpec {
    /// Both.
    #[default]
    Both,
    /// What the machine sends (with `between`: what the first sends to the second).
    From,
    /// What the machine receives (with `between`: what the second sends to the first).
    To,
}

/// `[run]`: how long a run may last, in virtual time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// How long faults may go on. They stop earlier when all clients are through. Default: `"2s"`, longer
    /// than the workload of any shipped scenario needs.
    #[serde(default = "limit")]
    pub limit: Span,
    /// How soon after the faults stopped every request must have ended, or the run has failed to make
    /// progress. Default: `"10s"`: several times what a connection needs to exhaust its retries and to be made
    /// anew, since a queue of waiters may do so one after the other. Longer than once that, and than clients hold what another one
    /// waits for.
    #[serde(default = "settle")]
    pub settle: Span,
    /// The most memory that the machines' message buffers and the system's own data may take, all machines together, in MiB:
    /// `recv_buffers` messages either way for each connection. Messages that wait to be sent are not counted. A scenario that may need more is refused before it runs. Default: 4,096.
    #[serde(default = "memory")]
    pub memory: u32,
    /// The seed, when none is given on the command line. Default: 0.
    #[serde(default)]
    pub seed: u64,
}

fn limit() -> Span {
    Span(Nanos::from_secs(2))
}

fn settle() -> Span {
    Span(Nanos::from_secs(10))
}

fn memory() -> u32 {
    4_096
}

impl Default for Run {
    fn default() -> Run {
        Run { limit: limit(), settle: settle(), memory: memory(), seed: 0 }
    }
}
