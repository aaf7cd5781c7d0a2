//! Scenarios drawn at random: for bugs that hide where nobody thinks of looking.
//!
//! A scenario written by hand has every feature a little. Swarm testing (Groce et al., ISSTA 2012) draws for
//! each run which features it has at all, and how much of each: a storm of one kind of fault, a cluster of
//! two, buffers so few that every message waits for a credit.

use super::membership::Membership;
use super::quits::Quits;
use super::schema::*;
use super::{Workload, check};
use crate::fields::{Dice, Rate, Share, Span, Spread};
use crate::system::System;
use weft_sim::choice::Seeded;
use weft_sim::fault::FaultKind;
use weft_verbs::Nanos;

/// How many nodes a drawn cluster has, if nobody says.
pub(crate) fn some_nodes(dice: &mut Dice<'_>) -> u32 {
    dice.among(&[1, 2, 2, 3, 3, 3, 4, 5, 8])
}

/// A scenario of a system that the answers of `dice` make: small, and different from most others. [`seeded_swarm`](super::seeded_swarm) has
/// more of what can go wrong.
pub fn swarm<S: System>(dice: &mut Dice<'_>, nodes: u32, variant: &str) -> Scenario {
    Scenario {
        title: "swarm".into(),
        cluster: cluster(dice, nodes),
        transport: transport(dice),
        workload: Workload::of::<S>(S::swarm(dice, variant)),
        quits: None,
        run: Run { limit: Span(Nanos::from_millis(30)), ..Run::default() },
        faults: faults::<S>(dice, nodes),
    }
}

/// The scenario of one seed, as `weft fuzz swarm` draws it, of so many nodes or of some. It can be written to a file and run from there.
pub fn seeded<S: System>(seed: u64, nodes: Option<u32>, variant: &str) -> Scenario {
    let mut choice = Seeded::new(seed ^ 0x5a43_0000_0000_0000);
    let mut dice = Dice(&mut choice);
    let title = match nodes {
        Some(nodes) => format!("swarm of {nodes} nodes, seed {seed}"),
        None => format!("swarm, seed {seed}"),
    };
    let nodes = nodes.unwrap_or_else(|| some_nodes(&mut dice)).max(S::LEAST_NODES);
    let mut drawn = swarm::<S>(&mut dice, nodes, variant);
    // By dice of its own, so that everything else of a seed is what it was.
    let mut choice = Seeded::new(seed ^ 0xa703_0000_0000_0000);
    drawn.transport.atomics = (S::ATOMICS && Dice(&mut choice).one_in(6)).then_some(false);
    drawn.faults.extend(no_memory(seed).filter(|_| S::MEMORY));
    drawn.cluster.keys = keys(seed);
    drawn.cluster.visibility = visibility(seed);
    Scenario { title, run: Run { seed, ..drawn.run }, quits: quits::<S>(seed), ..drawn }
}

/// A third of the clusters have adapters that give out again at once the key that was revoked last.
fn keys(seed: u64) -> Keys {
    let mut choice = Seeded::new(seed ^ 0x6b65_0000_0000_0000);
    if Dice(&mut choice).one_in(3) { Keys::Stack } else { Keys::Rest }
}

/// In a quarter of the clusters processors see what adapters wrote late, and in parts. (None of the seeds 0 to 19, whose runs pages show.)
fn visibility(seed: u64) -> Span {
    let mut choice = Seeded::new(seed ^ 0x7643_0000_0000_0000);
    let mut dice = Dice(&mut choice);
    if !dice.one_in(4) {
        return Span::default();
    }
    Span(Nanos::from_micros(dice.among(&[1, 5, 40])))
}

/// In a quarter of the scenarios machines register no memory for a while, now and then or often: by dice of its own, too.
fn no_memory(seed: u64) -> Option<FaultSpec> {
    let mut choice = Seeded::new(seed ^ 0x3e70_0000_0000_0000);
    let mut dice = Dice(&mut choice);
    dice.one_in(4).then(|| fault(&mut dice, FaultKind::NoMemory, 1))
}

/// In a third of the scenarios users drop some of their calls, or most of them: by dice of its own, so that everything else of a seed is what it
/// was.
fn quits<S: System>(seed: u64) -> Option<Quits> {
    let mut choice = Seeded::new(seed ^ 0x9a17_0000_0000_0000);
    let mut dice = Dice(&mut choice);
    if !S::QUITS || !dice.one_in(3) {
        return None;
    }
    let share = Share::new(dice.among(&[0.1, 0.5, 0.9]))?;
    Some(Quits { share, after: dice.pause([5, 50, 1_000]) })
}

impl Scenario {
    /// The same on machines of several rails: half of the faults at machines strike one rail only, and how soon connections
    /// go back to a better rail is drawn, too.
    pub fn over_rails(mut self, rails: u8, seed: u64) -> Scenario {
        let mut choice = Seeded::new(seed ^ 0x7a11_0000_0000_0000);
        let mut dice = Dice(&mut choice);
        self.cluster.rails = rails;
        let soon = [Nanos::from_micros(50), Nanos::from_millis(1), Nanos::from_millis(10)];
        let soon = dice.among(&soon);
        self.transport.hold_off = dice.among(&[None, Some(Span(soon))]);
        for spec in &mut self.faults {
            let at_a_cable = !strikes_a_node(spec.kind);
            let rail = dice.below(u64::from(rails)) as u8;
            if at_a_cable && spec.between.is_none() && dice.below(2) == 0 {
                spec.rail = Some(rail);
            }
        }
        self
    }

    /// The same, which may take the memory that it may need: who says how many machines there are to be has no `memory` to raise.
    #[must_use]
    pub fn with_memory(mut self) -> Scenario {
        let need = u32::try_from(check::mib_needed(&self)).unwrap_or(u32::MAX);
        self.run.memory = self.run.memory.max(need);
        self
    }

    /// The same on machines that agree on who is alive, of which some crash, and come back or stay away until the faults stop. Nothing
    /// if the system makes no use of that.
    pub fn among_members(mut self, seed: u64) -> Option<Scenario> {
        if !self.workload.survives() {
            return None;
        }
        let mut choice = Seeded::new(seed ^ 0x3e3b_0000_0000_0000);
        let mut dice = Dice(&mut choice);
        let (lease, patience) = (dice.among(&[2, 5, 20]), dice.among(&[3, 8]));
        let [lease, patience] = [lease, patience].map(|ms| Span(Nanos::from_millis(ms)));
        self.cluster.members = Some(Membership { lease, patience, drift: Span(Nanos::from_micros(100)) });
        let dies = |spec: &FaultSpec| matches!(spec.kind, FaultKind::Restart | FaultKind::Crash);
        self.faults.retain(|spec| !dies(spec));
        let mut crash = FaultSpec::new(FaultKind::Crash);
        crash.rate = Some(Rate { count: dice.among(&[20, 60, 200]), per: Span(Nanos::from_secs(1)) });
        let away = dice.among(&[Nanos::from_micros(300), Nanos::from_millis(30)]);
        crash.back = Some(dice.spread(away)).filter(|_| dice.below(3) > 0);
        self.faults.push(crash);
        // The first view begins and an earlier one's leases run out before anything is granted.
        self.run.limit = Span(lease.nanos() * 2 + Nanos::from_millis(60));
        Some(self)
    }
}

fn cluster(dice: &mut Dice<'_>, nodes: u32) -> Cluster {
    Cluster {
        profile: dice.among(&["present-day", "ncosed-2007"]).into(),
        wait: dice.among(&[WaitStyle::Poll, WaitStyle::Notify]),
        ..Cluster::of(nodes)
    }
}

/// Connections that are given up after 30 us to 10 ms, with room for few or many requests.
fn transport(dice: &mut Dice<'_>) -> Transport {
    Transport {
        ack_timeout: Some(dice.from(3, 7) as u8),
        retries: Some(dice.from(0, 3) as u8),
        recv_buffers: dice.among(&[None, Some(8), Some(9), Some(16)]),
        send_depth: dice.among(&[None, Some(4), Some(5), Some(16)]),
        max_queued: dice.among(&[None, None, Some(1), Some(2), Some(8)]),
        rd_atomic: dice.among(&[None, Some(1), Some(2)]),
        atomics: None,
        mtu: None,
        hold_off: None,
    }
}

/// Half of the kinds of faults, each from rare to stormy; now and then none at all.
fn faults<S: System>(dice: &mut Dice<'_>, nodes: u32) -> Vec<FaultSpec> {
    if dice.one_in(10) {
        return Vec::new();
    }
    let dies = |kind: &FaultKind| matches!(kind, FaultKind::Restart | FaultKind::Crash);
    let of_disk = |kind: &FaultKind| matches!(kind, FaultKind::DiskFull | FaultKind::DiskError);
    let kinds = FAULT_KINDS.into_iter().filter(|kind| S::RESTARTS || !dies(kind));
    let kinds = kinds.filter(|kind| S::DISKS || !of_disk(kind));
    // Drawn by dice of its own.
    let kinds = kinds.filter(|kind| *kind != FaultKind::NoMemory);
    let kinds = kinds.filter(|_| dice.below(2) == 0).collect::<Vec<_>>();
    let mut faults: Vec<FaultSpec> = kinds.into_iter().map(|kind| fault(dice, kind, nodes)).collect();
    for delay in faults.iter_mut().filter(|fault| fault.kind == FaultKind::Delay) {
        delay.in_order = S::NEEDS_ORDER.then_some(true);
    }
    faults
}

fn fault(dice: &mut Dice<'_>, kind: FaultKind, nodes: u32) -> FaultSpec {
    let mut spec = FaultSpec::new(kind);
    spec.rate = Some(Rate { count: dice.among(&[50, 200, 500, 1_500]), per: Span(Nanos::from_secs(1)) });
    let long = dice.among(&[100, 1_000, 8_000]);
    let lasts = dice.spread(Nanos::from_micros(long));
    let on_a_path = nodes > 1 && dice.one_in(2);
    let way = dice.among(&[WaySpec::Both, WaySpec::From, WaySpec::To]);
    match kind {
        FaultKind::Flap => {
            spec.down = Some(Spread::fixed(Nanos(dice.from(1, 1_000 * long / 4))));
            spec.up = Some(Spread::fixed(Nanos(dice.from(1, 1_000 * long / 2))));
            spec.times = Some(dice.from(1, 5) as u32);
        }
        FaultKind::SlowNode => spec.percent = Some(dice.among(&[150, 500, 3_000])),
        FaultKind::Delay => {
            spec.extra =
                Some(Span(dice.among(&[Nanos::ZERO, Nanos::from_micros(5), Nanos::from_micros(100)])));
            // The longest outlives a connection: a late copy may be executed when its sender has given up.
            let jitters =
                [Nanos(500), Nanos::from_micros(20), Nanos::from_micros(200), Nanos::from_millis(3)];
            spec.jitter = Some(Span(dice.among(&jitters)));
        }
        FaultKind::Loss | FaultKind::Duplicate | FaultKind::Corrupt => {
            spec.share = Share::new(dice.among(&[0.01, 0.1, 0.5]));
        }
        // These need nothing else.
        _ => {}
    }
    match kind {
        FaultKind::Flap => {}
        // Each of them is down for a while at the most: with none to answer, nothing else would be tried any more.
        FaultKind::Crash => spec.back = Some(lasts),
        _ => spec.lasts = Some(lasts),
    }
    let has_way = !matches!(kind, FaultKind::Flap | FaultKind::PortDown) && !strikes_a_node(kind);
    spec.way = has_way.then_some(way);
    let on_a_link = has_way || kind == FaultKind::Flap;
    spec.between = (on_a_link && on_a_path).then_some(Pair::Random);
    spec
}

/// Whether a fault of a kind strikes a node and what is in it, and none of its cables.
fn strikes_a_node(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::LoseCompletion
            | FaultKind::SlowNode
            | FaultKind::Restart
            | FaultKind::Crash
            | FaultKind::DiskFull
            | FaultKind::DiskError
            | FaultKind::NoMemory
    )
}
