//! The rules that the types cannot express: bounds, and fields that must or must not go together.

use super::schema::*;
use super::settle;
use crate::fields::{LONGEST, Rule, Step, between, broken, count, in_section, positive};
use weft_protocols::transport::{MeshConfig, Rank};
use weft_sim::fault::FaultKind;
use weft_sim::profile::Profile;
use weft_verbs::{Mtu, Nanos};

/// The most machines: what one switch's tables are sized for, and eight bits more than any paper used.
const MOST_NODES: u32 = 1024;
/// The most adapters of a machine: those that a simulated node has room for.
const MOST_RAILS: u32 = 8;
/// The most requests in one queue: what common adapters take.
const MOST_POSTED: u32 = 16_384;

/// The longest time after which a processor sees what is in its memory.
const LATEST_SEEN: Nanos = Nanos::from_millis(1);

const MIB: u64 = 1 << 20;

/// Checks a whole scenario; the first broken rule, in the order of the sections, is reported.
pub(super) fn check(scenario: &Scenario) -> Rule {
    cluster(&scenario.cluster)?;
    transport(&scenario.transport, &scenario.cluster.profile)?;
    scenario.workload.check(scenario.cluster.nodes)?;
    scenario.quits.map_or(Ok(()), |quits| quits.check())?;
    run(&scenario.run)?;
    scenario.cluster.members.map_or(Ok(()), |members| members.check_settle(scenario.run.settle))?;
    settle::check(scenario)?;
    memory(scenario)?;
    let kind = scenario.workload.kind();
    let members = scenario.cluster.members.is_some();
    if kind.disks && !has_disk(&scenario.cluster.profile) {
        let with: Vec<&str> = Profile::names().filter(|name| has_disk(name)).collect();
        let problem =
            format!("its machines have no disk, and {} needs one; there are {}", kind.name, quoted(&with));
        return broken(in_section("cluster", "profile"), problem);
    }
    if scenario.quits.is_some() && !kind.quits {
        let problem =
            format!("the users of {} make no calls that could be dropped: leave [quits] out", kind.name);
        return broken(in_section("quits", "share"), problem);
    }
    if members && !scenario.workload.survives() {
        let of = scenario.workload.variant().map_or(kind.name.to_owned(), |(_, variant)| variant);
        return broken(in_section("cluster", "members"), format!("{of} makes no use of members"));
    }
    scenario.faults.iter().enumerate().try_for_each(|(index, spec)| {
        let dies = matches!(spec.kind, FaultKind::Restart | FaultKind::Crash) && !members;
        if dies && let Err(lacks) = scenario.workload.restarts() {
            let happens = if spec.kind == FaultKind::Crash { "crash" } else { "restart" };
            let hint = match lacks {
                Some(lacks) => format!(" without {lacks}"),
                None if scenario.workload.survives() => "; give the cluster members = {}".into(),
                None => String::new(),
            };
            let problem = format!("{} has no runs in which nodes {happens}{hint}", kind.name);
            return broken(
                vec![Step::Field("faults".into()), Step::Item(index), Step::Field("kind".into())],
                problem,
            );
        }
        if matches!(spec.kind, FaultKind::DiskFull | FaultKind::DiskError) && !kind.disks {
            return broken(
                vec![Step::Field("faults".into()), Step::Item(index), Step::Field("kind".into())],
                format!("{} uses no disk", kind.name),
            );
        }
        fault(index, spec, &scenario.cluster)?;
        outlasted(index, spec, scenario)
    })
}

/// Refuses a link that fails, or a machine that is away, for so long that users are told: no oracle could tell that from a stream that hangs.
fn outlasted(index: usize, spec: &FaultSpec, scenario: &Scenario) -> Rule {
    // Where a failure of a link is that of one rail, there is another one.
    let one_rail = spec.rail.is_some() || spec.kind == FaultKind::PortDown;
    let (what, field, lasts) = match spec.kind {
        FaultKind::Cut | FaultKind::PortDown | FaultKind::LoseCompletion => ("link", "lasts", spec.lasts),
        FaultKind::Flap => ("link", "down", spec.down),
        FaultKind::Restart => ("machine", "lasts", spec.lasts),
        FaultKind::Crash => ("machine", "back", spec.back),
        _ => return Ok(()),
    };
    let kind = scenario.workload.kind();
    let until_faults_stop = || scenario.run.limit.nanos() - spec.at.unwrap_or_default().nanos();
    let longest = lasts.map_or_else(until_faults_stop, |lasts| lasts.max.nanos());
    if longest < kind.patience || one_rail && scenario.cluster.rails > 1 {
        return Ok(());
    }
    let problem = format!(
        "the {what} is down for up to {longest}, and the users of {} are told of one that is for {} or longer: let it last less",
        kind.name, kind.patience
    );
    broken(vec![Step::Field("faults".into()), Step::Item(index), Step::Field(field.into())], problem)
}

/// Whether the machines of a profile have disks.
fn has_disk(profile: &str) -> bool {
    Profile::find(profile).is_ok_and(|profile| profile.disk.is_some())
}

fn cluster(cluster: &Cluster) -> Rule {
    let at = |field| in_section("cluster", field);
    count(at("nodes"), cluster.nodes, MOST_NODES, "give the number of machines")?;
    let known: Vec<&str> = Profile::names().collect();
    if Profile::is_file(&cluster.profile) {
        if let Err(why) = Profile::find(&cluster.profile) {
            return broken(at("profile"), why.to_string());
        }
    } else if !known.contains(&cluster.profile.as_str()) {
        let known = quoted(&known);
        return broken(
            at("profile"),
            format!("no such profile; there are {known}, and files that end in .toml"),
        );
    }
    if cluster.device_port == Some(0) {
        return broken(at("device_port"), "an adapter's ports are numbered from 1".into());
    }
    count(at("rails"), cluster.rails.into(), MOST_RAILS, "give the number of adapters of a machine")?;
    cluster.members.map_or(Ok(()), |members| members.check())?;
    cluster.jitter.check()?;
    if cluster.visibility.nanos() > LATEST_SEEN {
        return broken(at("visibility"), "at most 1ms; some microseconds are usual".into());
    }
    Ok(())
}

/// The most requests that one queue of a profile's adapters takes, and of those that a scenario may ask for.
fn most_posted(profile: &str) -> u32 {
    let holds = |profile: Profile| u32::try_from(profile.adapter.max_qp_wr).unwrap_or(u32::MAX);
    Profile::find(profile).map_or(MOST_POSTED, |profile| holds(profile).min(MOST_POSTED))
}

fn transport(transport: &Transport, profile: &str) -> Rule {
    let at = |field| in_section("transport", field);
    if transport.ack_timeout.is_some_and(|exponent| !(1..=31).contains(&exponent)) {
        return broken(at("ack_timeout"), "from 1 to 31: 4.096 us times two to this; 14 is usual".into());
    }
    if transport.retries.is_some_and(|retries| retries > 7) {
        return broken(at("retries"), "from 0 to 7; 7 is usual".into());
    }
    if transport.rd_atomic.is_some_and(|most| !(1..=16).contains(&most)) {
        return broken(at("rd_atomic"), "from 1 to 16, the limit of ConnectX adapters".into());
    }
    if transport.mtu.is_some_and(|bytes| Mtu::from_bytes(bytes).is_none()) {
        return broken(at("mtu"), "256, 512, 1024, 2048 or 4096 bytes".into());
    }
    transport.hold_off.map_or(Ok(()), |span| positive(at("hold_off"), span))?;
    let most = most_posted(profile);
    between(at("recv_buffers"), transport.recv_buffers, 8, most)?;
    // One place of a queue is left for an empty write.
    between(at("send_depth"), transport.send_depth, 4, most - 1)?;
    between(at("max_queued"), transport.max_queued, 1, 1_000_000)
}

fn run(run: &Run) -> Rule {
    positive(in_section("run", "limit"), run.limit)?;
    positive(in_section("run", "settle"), run.settle)
}

/// The memory that a run may need: connections of each machine to each other one, or of guests to servers alone, with their buffers for
/// messages, and what the system registers. All machines of a run are in one process.
struct Need {
    config: MeshConfig,
    connections: u64,
    /// Bytes of buffers.
    buffers: u64,
    /// Bytes of the system's own.
    own: u64,
}

impl Need {
    fn mib(&self) -> u64 {
        self.buffers.saturating_add(self.own).div_ceil(MIB)
    }
}

/// The memory that a run may need, in MiB.
pub(super) fn mib_needed(scenario: &Scenario) -> u64 {
    need(scenario).mib()
}

fn need(scenario: &Scenario) -> Need {
    let nodes = u64::from(scenario.cluster.nodes);
    // For what follows it matters only how many others there are, and not how they are called.
    let mut config = MeshConfig::new(Rank::from_index(0), vec![String::new(); nodes as usize]);
    config.recv_buffers = scenario.transport.recv_buffers.unwrap_or(config.recv_buffers);
    config.other_rails = vec![config.peers.clone(); usize::from(scenario.cluster.rails.saturating_sub(1))];
    if let Some(members) = scenario.cluster.members {
        members.mesh(scenario.cluster.nodes, &mut config);
    }
    scenario.workload.mesh(&mut config);
    // All others are guests of those.
    let named = config.peers.len() as u64;
    let connections = named * (named - 1) + 2 * named * (nodes - named);
    let shared = named.saturating_mul(config.shared_bytes());
    let buffers = connections.saturating_mul(config.buffer_bytes()).saturating_add(shared);
    let own = scenario.workload.memory(scenario.cluster.nodes);
    Need { config, connections, buffers, own }
}

/// Refuses what needs more memory than it may take.
fn memory(scenario: &Scenario) -> Rule {
    let needs = need(scenario);
    let (need, may) = (needs.mib(), u64::from(scenario.run.memory));
    if need <= may {
        return Ok(());
    }
    let Need { config, connections, buffers, own } = needs;
    let stands_by = match config.standby && scenario.cluster.rails > 1 {
        true => ", and as many again to be received by one that stands by",
        false => "",
    };
    let problem = format!(
        "the run may need {need} MiB of at most {may}: {} MiB of buffers ({connections} ends of connections, each with {} messages of {} bytes \
         either way{stands_by}) and {} MiB of its own; raise this if there is as much, or make messages, recv_buffers or the cluster smaller",
        buffers.div_ceil(MIB),
        config.recv_buffers,
        config.max_message,
        own.div_ceil(MIB),
    );
    broken(in_section("run", "memory"), problem)
}

/// Which fields a kind of fault takes besides `kind`, `at` and `rate`: those that it requires, and the others. `None` for a
/// kind that no scenario has.
fn fields_of(kind: FaultKind) -> Option<(&'static [&'static str], &'static [&'static str])> {
    Some(match kind {
        FaultKind::Cut => (&[], &["node", "rail", "between", "way", "lasts"]),
        FaultKind::Flap => (&["down", "up", "times"], &["node", "rail", "between"]),
        FaultKind::Loss | FaultKind::Duplicate | FaultKind::Corrupt => {
            (&["share"], &["node", "rail", "between", "way", "lasts"])
        }
        FaultKind::Delay => (&["extra"], &["jitter", "in_order", "node", "rail", "between", "way", "lasts"]),
        FaultKind::PortDown => (&[], &["node", "rail", "lasts"]),
        FaultKind::Restart => (&["lasts"], &["node"]),
        FaultKind::Crash => (&[], &["node", "back"]),
        FaultKind::LoseCompletion => (&["lasts"], &["node"]),
        FaultKind::SlowNode => (&["percent"], &["node", "lasts"]),
        FaultKind::DiskFull | FaultKind::DiskError | FaultKind::NoMemory => (&[], &["node", "lasts"]),
        FaultKind::Drop | FaultKind::RequesterGaveUp => return None,
    })
}

fn fault(index: usize, spec: &FaultSpec, cluster: &Cluster) -> Rule {
    let at = |field: &str| vec![Step::Field("faults".into()), Step::Item(index), Step::Field(field.into())];
    let given = given(spec);
    let Some((required, optional)) = fields_of(spec.kind) else {
        return broken(at("kind"), "no scenario has faults of this kind".into());
    };
    let takes = || [required, optional].concat().join(", ");
    if let Some(odd) = given.iter().find(|field| !required.contains(field) && !optional.contains(field)) {
        return broken(at(odd), format!("means nothing for this kind, which takes at or rate, {}", takes()));
    }
    if let Some(lacking) = required.iter().find(|field| !given.contains(field)) {
        return broken(at(lacking), format!("this kind needs it; it takes at or rate, {}", takes()));
    }
    match (spec.at, spec.rate) {
        (None, None) => {
            return broken(at("at"), "say when: at = \"3ms\" for once, rate = \"200/s\" for often".into());
        }
        (Some(_), Some(_)) => return broken(at("rate"), "at is given too; give one of the two".into()),
        (Some(time), None) if time.0 > LONGEST => return broken(at("at"), "that is after every run".into()),
        _ => {}
    }
    if spec.node.is_some() && spec.between.is_some() {
        return broken(at("between"), "node is given too; give one of the two".into());
    }
    if let Some(rail) = spec.rail {
        if spec.between.is_some() {
            return broken(at("rail"), "a fault between two machines is on all rails".into());
        }
        if rail >= cluster.rails {
            let problem = match cluster.rails {
                1 => "machines have one rail, 0; give the cluster rails = 2".into(),
                rails => format!("there is no rail {rail}; they are numbered 0 to {}", rails - 1),
            };
            return broken(at("rail"), problem);
        }
    }
    target(spec, cluster, &at)?;
    for (field, span) in [("down", spec.down), ("up", spec.up)] {
        span.map_or(Ok(()), |span| positive(at(field), span.min))?;
    }
    if let Some(times) = spec.times {
        count(at("times"), times, 10_000, "say how often the link goes down")?;
    }
    if spec.percent.is_some_and(|percent| !(101..=100_000).contains(&percent)) {
        return broken(at("percent"), "from 101 to 100000; 300 is three times slower".into());
    }
    Ok(())
}

fn target(spec: &FaultSpec, cluster: &Cluster, at: &dyn Fn(&str) -> Vec<Step>) -> Rule {
    let last = cluster.nodes - 1;
    let exists = |field: &str, node: u32| {
        let problem = || format!("there is no machine {node}; they are numbered 0 to {last}");
        if node <= last { Ok(()) } else { broken(at(field), problem()) }
    };
    if let Some(Pick::Node(node)) = spec.node {
        exists("node", node)?;
    }
    match spec.between {
        Some(Pair::Nodes([a, b])) => {
            exists("between", a)?;
            exists("between", b)?;
            if a == b {
                return broken(at("between"), "a link joins two different machines".into());
            }
            Ok(())
        }
        Some(Pair::Random) if cluster.nodes < 2 => {
            broken(at("between"), "there is only one machine; give the cluster at least 2".into())
        }
        _ => Ok(()),
    }
}

/// The fields of a fault that were given and that depend on its kind.
fn given(spec: &FaultSpec) -> Vec<&'static str> {
    let fields = [
        ("node", spec.node.is_some()),
        ("rail", spec.rail.is_some()),
        ("between", spec.between.is_some()),
        ("way", spec.way.is_some()),
        ("lasts", spec.lasts.is_some()),
        ("back", spec.back.is_some()),
        ("down", spec.down.is_some()),
        ("up", spec.up.is_some()),
        ("times", spec.times.is_some()),
        ("share", spec.share.is_some()),
        ("extra", spec.extra.is_some()),
        ("jitter", spec.jitter.is_some()),
        ("in_order", spec.in_order.is_some()),
        ("percent", spec.percent.is_some()),
    ];
    fields.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
}

fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}
