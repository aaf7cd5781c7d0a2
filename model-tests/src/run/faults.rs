//! From a scenario's faults to those of the fabric: which one strikes when, and where.

use crate::fields::draw;
use crate::scenario::{FaultKind, FaultSpec, Pair, Pick, Scenario, WaySpec};
use weft_sim::NodeId;
use weft_sim::choice::Rng;
use weft_sim::fault::{Fault, Link, Way};
use weft_verbs::Nanos;

/// The faults to come, in the order of their times. What is random is drawn from a stream of its own, one for
/// each `[[faults]]` of the scenario: more of one kind does not change where another strikes.
pub(super) struct FaultPlan {
    nodes: u32,
    sources: Vec<Source>,
    /// Those that could not strike when they should have.
    late: Vec<(Nanos, Strike)>,
}

/// What a fault of a scenario is to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strike {
    /// Something that the fabric does.
    Fault(Fault),
    /// A node crashes and is there again: what runs on it starts anew.
    Restart {
        /// Which.
        node: NodeId,
        /// How long it is down: `None` until the faults of the run stop.
        lasts: Option<Nanos>,
        /// As what it counts: a restart or a crash.
        kind: FaultKind,
    },
}

struct Source {
    spec: FaultSpec,
    rng: Rng,
    next: Option<Nanos>,
}

impl FaultPlan {
    /// The faults of `scenario` in the run of one seed.
    pub(super) fn new(scenario: &Scenario, seed: u64) -> FaultPlan {
        let mut rng = Rng::from_seed(seed ^ 0xfa17_0000_0000_0000);
        let source = |spec: &FaultSpec| {
            let mut source =
                Source { spec: spec.clone(), rng: rng.fork(), next: spec.at.map(|at| at.nanos()) };
            source.advance(Nanos::ZERO);
            source
        };
        let sources = scenario.faults.iter().map(source).collect();
        FaultPlan { nodes: scenario.cluster.nodes, sources, late: Vec::new() }
    }

    /// When the next fault strikes, if there is one.
    pub(super) fn next(&self) -> Option<Nanos> {
        let late = self.late.iter().map(|(at, _)| *at);
        self.sources.iter().filter_map(|source| source.next).chain(late).min()
    }

    /// A fault strikes later than it should have.
    pub(super) fn strikes_at(&mut self, at: Nanos, fault: Strike) {
        self.late.push((at, fault));
    }

    /// The faults that strike at `now` or should have.
    pub(super) fn strike(&mut self, now: Nanos) -> Vec<Strike> {
        let nodes = self.nodes;
        let mut struck: Vec<Strike> =
            self.late.extract_if(.., |(at, _)| *at <= now).map(|(_, fault)| fault).collect();
        for source in &mut self.sources {
            while let Some(at) = source.next.filter(|at| *at <= now) {
                struck.push(source.draw(nodes));
                source.next = None;
                source.advance(at);
            }
        }
        struck
    }
}

impl Source {
    /// Draws the next moment of a fault with a rate.
    fn advance(&mut self, now: Nanos) {
        if let Some(rate) = self.spec.rate {
            self.next = Some(now + draw::gap(&mut self.rng, rate));
        }
    }

    fn draw(&mut self, nodes: u32) -> Strike {
        // Every draw is made whether the kind needs it or not: a stream then stays in step when a scenario's
        // author changes a kind.
        let spec = self.spec.clone();
        let node = self.node(spec.node, nodes);
        let link = match (self.link(spec.between, node, nodes), spec.rail) {
            (Link::Node(node), Some(rail)) => Link::Port(node, rail + 1),
            (link, _) => link,
        };
        let lasts = spec.lasts.map(|lasts| draw::time(&mut self.rng, lasts));
        let way = match spec.way.unwrap_or_default() {
            WaySpec::Both => Way::Both,
            WaySpec::From => Way::From,
            WaySpec::To => Way::To,
        };
        let ppm = spec.share.map_or(0, |share| share.ppm());
        Strike::Fault(match spec.kind {
            FaultKind::Restart => return Strike::Restart { node, lasts, kind: spec.kind },
            FaultKind::Crash => {
                let lasts = spec.back.map(|back| draw::time(&mut self.rng, back));
                return Strike::Restart { node, lasts, kind: spec.kind };
            }
            FaultKind::Cut => Fault::Cut { link, way, lasts },
            FaultKind::Flap => self.flap(link, &spec),
            FaultKind::Loss => Fault::Loss { link, way, ppm, lasts },
            FaultKind::Duplicate => Fault::Duplicate { link, way, ppm, lasts },
            FaultKind::Corrupt => Fault::Corrupt { link, way, ppm, lasts },
            FaultKind::Delay => {
                let extra = spec.extra.unwrap_or_default().nanos();
                let jitter = spec.jitter.unwrap_or_default().nanos();
                Fault::Delay { link, way, extra, jitter, in_order: spec.in_order.unwrap_or(false), lasts }
            }
            FaultKind::PortDown => Fault::PortDown { node, port: spec.rail.unwrap_or(0) + 1, lasts },
            FaultKind::LoseCompletion => Fault::LoseCompletion { node, lasts },
            FaultKind::SlowNode => Fault::SlowNode { node, percent: spec.percent.unwrap_or(100), lasts },
            FaultKind::DiskFull => Fault::DiskFull { node, lasts },
            FaultKind::DiskError => Fault::DiskError { node, lasts },
            FaultKind::NoMemory => Fault::NoMemory { node, lasts },
            FaultKind::Drop | FaultKind::RequesterGaveUp => {
                unreachable!("the scenario was checked")
            }
        })
    }

    fn flap(&mut self, link: Link, spec: &FaultSpec) -> Fault {
        let [down, up] =
            [spec.down, spec.up].map(|time| time.map_or(Nanos::ZERO, |time| draw::time(&mut self.rng, time)));
        Fault::Flap { link, down, up, times: spec.times.unwrap_or(1) }
    }

    fn node(&mut self, pick: Option<Pick>, nodes: u32) -> NodeId {
        let random = NodeId(self.rng.below(nodes.into()) as u32);
        match pick {
            Some(Pick::Node(node)) => NodeId(node),
            Some(Pick::Random) | None => random,
        }
    }

    fn link(&mut self, between: Option<Pair>, node: NodeId, nodes: u32) -> Link {
        let first = self.rng.below(nodes.into()) as u32;
        let step = 1 + self.rng.below((nodes - 1).into()) as u32;
        match between {
            Some(Pair::Nodes([a, b])) => Link::Pair(NodeId(a), NodeId(b)),
            Some(Pair::Random) => Link::Pair(NodeId(first), NodeId((first + step) % nodes)),
            None => Link::Node(node),
        }
    }
}

/// The kind under which a report counts a fault of the fabric: a crash is that of the scenario's next fault that made one, and a
/// node's return is none.
pub(super) fn kind(fault: &Fault, crashes: &mut impl Iterator<Item = FaultKind>) -> Option<FaultKind> {
    match fault.kind() {
        FaultKind::Crash => crashes.next(),
        FaultKind::Restart => None,
        kind => Some(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(faults: &str, seed: u64) -> FaultPlan {
        let head = "[cluster]\nnodes = 5\n[workload]\nkind = \"locks\"\nscheme = \"srsl\"\nrequests = 5\n";
        FaultPlan::new(&crate::parse(&format!("{head}{faults}")).unwrap(), seed)
    }

    fn railed_plan(faults: &str) -> FaultPlan {
        let head = "[cluster]\nnodes = 5\nrails = 2\n[workload]\nkind = \"messages\"\nmessages = 5\n";
        FaultPlan::new(&crate::parse(&format!("{head}{faults}")).unwrap(), 1)
    }

    /// All faults that strike before `end`, with their times.
    fn struck(mut plan: FaultPlan, end: Nanos) -> Vec<(Nanos, Strike)> {
        let mut all = Vec::new();
        while let Some(at) = plan.next().filter(|at| *at < end) {
            all.extend(plan.strike(at).into_iter().map(|fault| (at, fault)));
        }
        all
    }

    const RANDOM_CUTS: &str = "[[faults]]\nkind = \"cut\"\nrate = \"1/ms\"\nbetween = \"random\"\nlasts = { min = \"1us\", max = \"9us\" }\n";

    #[test]
    fn a_fault_at_a_time_strikes_then_and_once() {
        let text = "[[faults]]\nkind = \"port-down\"\nat = \"3ms\"\nnode = 2\nlasts = \"1ms\"\n";
        let port_down = Fault::PortDown { node: NodeId(2), port: 1, lasts: Some(Nanos::from_millis(1)) };
        assert_eq!(struck(plan(text, 1), Nanos::MAX), [(Nanos::from_millis(3), Strike::Fault(port_down))]);
    }

    #[test]
    fn a_fault_of_one_rail_strikes_that_cable_alone() {
        let at = "at = \"3ms\"\nnode = 2\nrail = 1\nlasts = \"1ms\"\n";
        let (two, one) = (NodeId(2), Some(Nanos::from_millis(1)));
        for (kind, fault) in [
            ("cut", Fault::Cut { link: Link::Port(two, 2), way: Way::Both, lasts: one }),
            ("port-down", Fault::PortDown { node: two, port: 2, lasts: one }),
        ] {
            let plan = railed_plan(&format!("[[faults]]\nkind = \"{kind}\"\n{at}"));
            assert_eq!(struck(plan, Nanos::MAX), [(Nanos::from_millis(3), Strike::Fault(fault))]);
        }
    }

    #[test]
    fn a_fault_with_a_rate_strikes_about_as_often() {
        let all = struck(plan(RANDOM_CUTS, 1), Nanos::from_secs(1));
        assert!((850..1_150).contains(&all.len()), "{}", all.len());
    }

    #[test]
    fn a_random_link_joins_two_different_machines_and_is_another_each_time() {
        let mut seen = std::collections::BTreeSet::new();
        for (_, fault) in struck(plan(RANDOM_CUTS, 1), Nanos::from_secs(1)) {
            let Strike::Fault(Fault::Cut { link: Link::Pair(a, b), lasts: Some(lasts), .. }) = fault else {
                panic!("{fault:?}")
            };
            assert!(a != b && a.0 < 5 && b.0 < 5, "{fault:?}");
            assert!((1_000..=9_000).contains(&lasts.0), "{lasts}");
            seen.insert((a, b));
        }
        assert_eq!(seen.len(), 20);
    }

    #[test]
    fn a_plan_is_its_seeds_and_one_kind_does_not_shift_another() {
        let end = Nanos::from_millis(100);
        let cuts = struck(plan(RANDOM_CUTS, 1), end);
        assert_eq!(cuts, struck(plan(RANDOM_CUTS, 1), end));
        assert_ne!(cuts, struck(plan(RANDOM_CUTS, 2), end));
        let more = format!("{RANDOM_CUTS}[[faults]]\nkind = \"slow-node\"\nrate = \"1/ms\"\npercent = 200\n");
        let mut both = struck(plan(&more, 1), end);
        both.retain(|(_, fault)| matches!(fault, Strike::Fault(Fault::Cut { .. })));
        assert_eq!(cuts, both);
    }
}
