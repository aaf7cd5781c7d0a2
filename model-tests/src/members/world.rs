//! A world of nodes without a fabric: what can happen, and what must hold.
//!
//! Nodes take their turns in any order. One that has its turn takes all that has come, which keeps its order by sender. Time goes on once they have come and every
//! deadline is kept; or early, while some are under way and some sleep, as often as the size says. While a link is
//! cut, what two nodes send each other waits. A node that crashes loses what was on its way to it, and what it had sent
//! may be lost, too. All clocks go on together but one, which is a tick ahead of the others or not.

use super::node::{Letter, Node, Part};
use super::planted::Planted;
use crate::explore::{BandState, Fingerprint, Stuck, TraceEvent, TransitionSystem, Violation};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
use weft_protocols::members::{Ballot, Member, Message, View, ViewId};
use weft_protocols::rt::fingerprint::StateHasher;
use weft_protocols::transport::Rank;
use weft_sim::choice::EventId;
use weft_sim::explore::{AccessKind, Actor, Enabled, FaultSet, Footprint, Object, Outcome};
use weft_verbs::Nanos;

/// A world's size, and what is wrong in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Rules {
    pub(super) nodes: u32,
    pub(super) wants: u32,
    pub(super) crashes: u32,
    pub(super) restarts: u32,
    pub(super) cuts: u32,
    pub(super) early: u32,
    pub(super) ticks: u32,
    pub(super) planted: Option<Planted>,
    /// The only node that crashes, if it is not any.
    pub(super) crashing: Option<u32>,
}

/// How a world begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// All nodes are up and have no view.
    Cold,
    /// All are in one.
    Standing,
    /// The same; the last node has the right, and nothing comes through between it and the one that grants.
    Held,
}

impl Rules {
    /// Whether what a mistake does not need is left out: to take messages in more than one order of their senders, and to lose
    /// what a crashed node had sent.
    fn is_plain(&self) -> bool {
        self.planted == Some(Planted::Amnesia)
    }
}

/// Something that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    /// A node takes all that has come, of each sender in order, the senders upwards or downwards.
    Take {
        node: u32,
        downwards: bool,
    },
    Wake(u32),
    Release(u32),
    Tick,
    Crash(u32),
    /// It crashes, and all that it sent and that has not arrived is lost.
    CrashAll(u32),
    Restart(u32),
    /// What two nodes send each other waits.
    Cut(u32, u32),
    Heal(u32, u32),
}

impl Happening {
    fn number(self) -> u64 {
        let (kind, which) = match self {
            Happening::Take { node, downwards } => (1, node << 1 | u32::from(downwards)),
            Happening::Wake(node) => (2, node),
            Happening::Release(node) => (3, node),
            Happening::Tick => (4, 0),
            Happening::Crash(node) => (5, node),
            Happening::CrashAll(node) => (6, node),
            Happening::Restart(node) => (7, node),
            Happening::Cut(one, other) => (8, one << 8 | other),
            Happening::Heal(one, other) => (9, one << 8 | other),
        };
        kind << 56 | u64::from(which) << 32
    }
}

/// All that the events touch: they depend on one another.
const ALL: Object = Object(1);

/// The state of a world.
#[derive(Clone, Debug)]
pub(super) struct World {
    rules: Rules,
    /// The node whose clock differs, and whether it is a tick ahead.
    drifts: u32,
    ahead: bool,
    clock: u64,
    ticks: u32,
    nodes: Vec<Option<Node>>,
    boots: Vec<u64>,
    /// Which incarnation of the other a node has met.
    met: BTreeMap<(u32, u32), u64>,
    ways: BTreeMap<(u32, u32), VecDeque<(u64, Letter)>>,
    crashes: u32,
    restarts: u32,
    cuts: u32,
    early: u32,
    /// The links that are cut.
    cut: BTreeSet<(u32, u32)>,
    /// The views that began.
    views: BTreeMap<ViewId, View>,
    violation: Option<Violation>,
    sent: u64,
    trace: Option<Vec<TraceEvent>>,
}

impl World {
    /// A world at its beginning: all nodes up, in no view or in one.
    pub(super) fn new(rules: Rules, drifts: u32, start: Start) -> World {
        let cold = start == Start::Cold;
        let nodes = rules.nodes as usize;
        let mut world = World {
            rules,
            drifts,
            ahead: false,
            clock: 10,
            ticks: 0,
            nodes: vec![None; nodes],
            boots: vec![0; nodes],
            met: BTreeMap::new(),
            ways: BTreeMap::new(),
            crashes: rules.crashes,
            restarts: rules.restarts,
            cuts: rules.cuts,
            early: rules.early,
            cut: BTreeSet::new(),
            views: BTreeMap::new(),
            violation: None,
            sent: 0,
            trace: None,
        };
        (0..rules.nodes).for_each(|node| world.boot(node, cold && world.wants(node)));
        if !cold {
            world.go_on(20);
            let wants: Vec<u32> = (0..rules.nodes).filter(|node| world.wants(*node)).collect();
            wants.into_iter().for_each(|node| world.at(node, Node::want));
        }
        if start == Start::Held {
            while !world.nodes.iter().flatten().any(Node::has) {
                (0..rules.nodes).for_each(|node| world.happen(Happening::Take { node, downwards: true }));
            }
            world.cut.insert((0, rules.nodes - 1));
        }
        world.ticks = 0;
        world
    }

    fn wants(&self, node: u32) -> bool {
        node + self.rules.wants >= self.rules.nodes
    }

    fn boot(&mut self, node: u32, wants: bool) {
        let boots = &mut self.boots[node as usize];
        *boots += u64::from(self.rules.planted != Some(Planted::Amnesia) || *boots == 0);
        let me = Member { rank: Rank::from_index(node), incarnation: u64::from(node + 1) << 4 | *boots };
        self.nodes[node as usize] = Some(Node::new(self.rules, me, self.time(node), wants));
        self.after(node);
    }

    fn time(&self, node: u32) -> Nanos {
        Nanos(self.clock + u64::from(node == self.drifts && self.ahead))
    }

    /// Does something on a node, and carries on what comes of it.
    fn at(&mut self, node: u32, act: impl FnOnce(&mut Node)) {
        if let Some(up) = &mut self.nodes[node as usize] {
            act(up);
            self.after(node);
        }
    }

    fn after(&mut self, node: u32) {
        let Some(up) = &mut self.nodes[node as usize] else { return };
        let (sent, began) = (std::mem::take(&mut up.out), std::mem::take(&mut up.began));
        let me = up.me().incarnation;
        for (to, letter) in sent {
            self.send(node, me, to.index() as u32, letter);
        }
        for view in began {
            self.began(node, view);
        }
        self.judge();
        self.band(node);
    }

    /// A message to a boot that is no more is lost: its session is.
    fn send(&mut self, from: u32, me: u64, to: u32, letter: Letter) {
        let up = self.nodes[to as usize].as_ref().map(|node| node.me().incarnation);
        let met = self.met.get(&(from, to)).copied();
        let arrives = up.is_some() && (met.is_none() || met == up);
        self.sent += 1;
        let packet = self.sent;
        self.tell(|| TraceEvent::Send { packet, from, to, text: words(&letter) });
        match arrives {
            true => self.ways.entry((from, to)).or_default().push_back((packet, letter)),
            false => self.tell(|| TraceEvent::Lost { packet }),
        }
        debug_assert_ne!(me, 0);
    }

    fn began(&mut self, node: u32, view: View) {
        let text = format!("n{node} begins {}", list(&view));
        self.tell(|| TraceEvent::Note { node, text: format!("begins {}", list(&view)) });
        match self.views.get(&view.id) {
            Some(other) if *other != view => {
                self.violated("one list a view", format!("{text}, but {} began before", list(other)))
            }
            _ => {}
        }
        let lineage = view.id.lineage;
        self.views.insert(view.id, view);
        let mut gone: BTreeSet<Member> = BTreeSet::new();
        let mut before: &[Member] = &[];
        for view in self.views.values().filter(|view| view.id.lineage == lineage) {
            gone.extend(before.iter().filter(|member| !view.contains(**member)));
            if let Some(back) = view.members.iter().find(|member| gone.contains(member)) {
                let text = format!("{back} was left out, and is back in {}", list(view));
                self.violation.get_or_insert(Violation::new("gone for good", text));
            }
            before = &view.members;
        }
    }

    fn violated(&mut self, oracle: &str, text: String) {
        self.violation.get_or_insert(Violation::new(oracle, text));
    }

    /// One has the right at a time.
    fn judge(&mut self) {
        let has = (0u32..).zip(&self.nodes).filter(|(_, node)| node.as_ref().is_some_and(Node::has));
        let has: Vec<u32> = has.map(|(node, _)| node).collect();
        if let [one, other, ..] = has[..] {
            self.violated("one at a time", format!("n{one} and n{other} both have the right"));
        }
    }

    // What can happen.

    /// Faults first: a search that goes deep first meets early ones early.
    fn happenings(&self) -> Vec<Happening> {
        let mut all = Vec::new();
        for (node, up) in (0u32..).zip(&self.nodes) {
            if up.is_none() {
                all.extend((self.restarts > 0).then_some(Happening::Restart(node)));
                continue;
            }
            let others = (node + 1..self.rules.nodes).filter(|other| !self.is_cut(node, *other));
            all.extend(others.filter(|_| self.cuts > 0).map(|other| Happening::Cut(node, other)));
            if self.crashes > 0 && self.rules.crashing.is_none_or(|crashing| crashing == node) {
                all.push(Happening::Crash(node));
                let is_sending = self.ways.iter().any(|(&(from, _), way)| from == node && !way.is_empty());
                all.extend((is_sending && !self.rules.is_plain()).then_some(Happening::CrashAll(node)));
            }
        }
        let quiet = all.len();
        for node in 0..self.rules.nodes {
            let senders = self.senders(node).len();
            all.extend((senders > 0).then_some(Happening::Take { node, downwards: false }));
            let downwards = senders > 1 && !self.rules.is_plain();
            all.extend(downwards.then_some(Happening::Take { node, downwards: true }));
        }
        let up = || (0u32..).zip(&self.nodes).filter_map(|(node, up)| Some((node, up.as_ref()?)));
        all.extend(up().filter(|(_, up)| up.is_due()).map(|(node, _)| Happening::Wake(node)));
        let quiet = all.len() == quiet;
        let may_tick = self.ticks < self.rules.ticks && (quiet || self.early > 0);
        match quiet {
            true => all.extend(may_tick.then_some(Happening::Tick)),
            // An early one is a fault, too.
            false if may_tick => all.insert(0, Happening::Tick),
            false => {}
        }
        all.extend(up().filter(|(_, up)| up.has()).map(|(node, _)| Happening::Release(node)));
        all.extend(self.cut.iter().filter(|_| quiet).map(|(one, other)| Happening::Heal(*one, *other)));
        all
    }

    fn is_cut(&self, one: u32, other: u32) -> bool {
        self.cut.contains(&(one.min(other), one.max(other)))
    }

    /// Whose messages have come to a node.
    fn senders(&self, node: u32) -> Vec<u32> {
        let come = self
            .ways
            .iter()
            .filter(|((from, to), way)| *to == node && !way.is_empty() && !self.is_cut(*from, node));
        come.map(|((from, _), _)| *from).collect()
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Take { node, downwards } => {
                let mut senders = self.senders(node);
                if downwards {
                    senders.reverse();
                }
                for from in senders {
                    for _ in 0..self.ways.get(&(from, node)).map_or(0, VecDeque::len) {
                        self.arrive(from, node);
                    }
                }
            }
            Happening::Wake(node) => {
                self.tell(|| TraceEvent::Note { node, text: "its time has come".into() });
                self.at(node, Node::wake);
            }
            Happening::Release(node) => {
                self.tell(|| TraceEvent::Note { node, text: "gives the right back".into() });
                self.at(node, Node::release);
            }
            Happening::Tick => {
                let is_early = self
                    .happenings()
                    .iter()
                    .any(|other| matches!(other, Happening::Take { .. } | Happening::Wake(_)));
                self.early -= u32::from(is_early);
                self.tick();
            }
            Happening::Cut(one, other) => {
                self.cuts -= 1;
                self.cut.insert((one, other));
                let text = "nothing comes through between them".into();
                self.tell(|| TraceEvent::Fault { nodes: vec![one, other], text });
            }
            Happening::Heal(one, other) => {
                self.cut.remove(&(one, other));
                self.tell(|| TraceEvent::Note {
                    node: one,
                    text: format!("is connected with n{other} again"),
                });
            }
            Happening::Crash(node) => self.crash(node, false),
            Happening::CrashAll(node) => self.crash(node, true),
            Happening::Restart(node) => {
                self.restarts -= 1;
                self.tell(|| TraceEvent::Fault { nodes: vec![node], text: "restarts".into() });
                self.boot(node, self.wants(node));
            }
        }
    }

    fn arrive(&mut self, from: u32, to: u32) {
        let Some((packet, letter)) = self.ways.get_mut(&(from, to)).and_then(VecDeque::pop_front) else {
            return;
        };
        self.tell(|| TraceEvent::Arrive { packet, text: String::new() });
        let boot = match &letter {
            Letter::Member(envelope) => Some(envelope.from),
            _ => None,
        };
        if let Some(boot) = boot {
            let known = self.met.insert((to, from), boot);
            if known.is_some_and(|known| known != boot) {
                self.at(to, |node| node.reset(Rank::from_index(from)));
            }
        }
        self.at(to, |node| node.take(Rank::from_index(from), letter));
    }

    /// The clock that differs goes ahead, and then the others catch up.
    fn tick(&mut self) {
        self.ticks += 1;
        self.ahead = !self.ahead;
        self.clock += u64::from(!self.ahead);
        for node in 0..self.rules.nodes {
            let time = self.time(node);
            if let Some(up) = &mut self.nodes[node as usize] {
                up.clock = time;
            }
            self.band(node);
        }
        let which = if self.ahead {
            format!("n{}'s clock goes on", self.drifts)
        } else {
            "all other clocks go on".into()
        };
        let clock = self.clock;
        let text = format!("{which}: {clock}{}", if self.ahead { " + 1" } else { "" });
        self.tell(|| TraceEvent::Note { node: 0, text });
    }

    fn crash(&mut self, node: u32, all: bool) {
        self.crashes -= 1;
        self.nodes[node as usize] = None;
        let lost = |&(from, to): &(u32, u32)| to == node || (all && from == node);
        let lost: Vec<(u32, u32)> = self.ways.keys().copied().filter(lost).collect();
        self.tell(|| TraceEvent::Fault { nodes: vec![node], text: "crashes".into() });
        for way in lost {
            for (packet, _) in self.ways.remove(&way).into_iter().flatten() {
                self.tell(|| TraceEvent::Lost { packet });
            }
        }
        self.met.retain(|(of, _), _| *of != node);
        self.band(node);
    }

    // The end.

    /// Everything is delivered, every deadline is kept, and who has the right gives it back, for so long.
    fn go_on(&mut self, ticks: u32) {
        for _ in 0..ticks {
            while let Some(next) = self.happenings().into_iter().find(|next| {
                matches!(next, Happening::Take { .. } | Happening::Wake(_) | Happening::Release(_))
            }) {
                self.happen(next);
                if self.violation.is_some() {
                    return;
                }
            }
            self.tick();
        }
    }

    /// Whether those who live can go on. In a lineage that takes a majority of the latest view that one of *them* has begun:
    /// a later one, of which only the dead have heard, was decided by a majority of this one, and is decided again by those
    /// of it who live. Without a view it takes a cold start's quorum, of whom nobody has given its voice to a list of
    /// which it will never learn.
    fn can_go_on(&self) -> bool {
        let up: Vec<&Node> = self.nodes.iter().flatten().filter(|node| !node.core.is_out()).collect();
        let mut latest: BTreeMap<Ballot, &View> = BTreeMap::new();
        for view in up.iter().filter_map(|node| node.core.view()) {
            let known = latest.entry(view.id.lineage).or_insert(view);
            *known = if known.id.number < view.id.number { view } else { known };
        }
        let acts = |member: &Member, lineage: Ballot| {
            let node = up.iter().find(|node| node.me() == *member);
            let in_it = |node: &Node| node.core.view().map(|view| view.id.lineage == lineage);
            node.is_some_and(|node| in_it(node).unwrap_or(!node.core.is_bound()))
        };
        let goes_on = |view: &&View| {
            let acting = view.members.iter().filter(|member| acts(member, view.id.lineage)).count();
            2 * acting > view.members.len()
        };
        match latest.is_empty() {
            true => up.len() >= self.cold_quorum() && !up.iter().any(|node| node.core.is_bound()),
            false => latest.values().all(goes_on),
        }
    }

    /// So many nodes without a view begin anew: those who are left are no majority of any view, which has at least a
    /// majority of the nodes.
    fn cold_quorum(&self) -> usize {
        let nodes = self.nodes.len();
        let most = |of: usize| of / 2 + 1;
        (nodes + 1 - most(most(nodes))).max(most(nodes))
    }

    fn judge_end(&self) -> Result<(), Violation> {
        let mut end = self.clone();
        end.trace = None;
        end.cut.clear();
        // What those who live tell each other may be what lets them go on.
        end.go_on(40);
        if end.can_go_on() {
            end.go_on(40);
        }
        if let Some(violation) = end.violation {
            return Err(violation);
        }
        if !end.can_go_on() {
            return Ok(());
        }
        let broken = |text| Err(Violation::new("progress", text));
        let up: Vec<&Node> = end.nodes.iter().flatten().filter(|node| !node.core.is_out()).collect();
        let members: Vec<Member> = up.iter().map(|node| node.me()).collect();
        for node in &up {
            let me = node.me();
            match node.core.view() {
                None if node.core.is_bound() => {}
                None => return broken(format!("{me} has no view, though a majority lives and can talk")),
                Some(view) if !view.members.iter().all(|member| members.contains(member)) && end.waits() => {
                    return broken(format!("{me} waits in {}, of which not all live", list(view)));
                }
                Some(_) if node.part == Part::Wants || node.part == Part::Granted => {
                    return broken(format!("{me} wants the right and does not get it"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn waits(&self) -> bool {
        self.nodes.iter().flatten().any(|node| matches!(node.part, Part::Wants | Part::Granted))
    }

    // Telling.

    fn band(&mut self, node: u32) {
        if self.trace.is_none() {
            return;
        }
        let state = match &self.nodes[node as usize] {
            Some(up) if up.has() => BandState::Exclusive("has".into()),
            Some(up) if up.part == Part::Wants => BandState::Waiting("wants".into()),
            _ => BandState::Nothing,
        };
        self.tell(|| TraceEvent::Band { node, of: "the right".into(), state });
    }

    fn tell(&mut self, event: impl FnOnce() -> TraceEvent) {
        if let Some(trace) = &mut self.trace {
            trace.push(event());
        }
    }
}

fn list(view: &View) -> String {
    let members: Vec<String> = view
        .members
        .iter()
        .map(|member| format!("n{}#{:x}", member.rank.index(), member.incarnation))
        .collect();
    format!("view {} of {}", view.id.number, members.join(" "))
}

/// A letter in a few words.
fn words(letter: &Letter) -> String {
    match letter {
        Letter::Member(envelope) => match &envelope.message {
            Message::Join => "join".into(),
            Message::Leave => "leave".into(),
            Message::Prepare { after, ballot } => {
                format!("prepare {} after {}", ballot.round, after.id.number)
            }
            Message::Promise { ballot, .. } => format!("promise {}", ballot.round),
            Message::Accept { ballot, next, .. } => format!("accept {}: {}", ballot.round, list(next)),
            Message::Accepted { ballot, .. } => format!("accepted {}", ballot.round),
            Message::Decided { view } => format!("decided: {}", list(view)),
            Message::Renew { id, .. } => format!("renew {id}"),
            Message::Renewed { id, .. } => format!("renewed {id}"),
            Message::Ping { view } => format!("ping in view {}", view.number),
            Message::Pong { view } => format!("pong in view {}", view.number),
            Message::Complaint { about } => format!("n{} is silent", about.rank.index()),
            Message::Vouch { about } => format!("n{} is there", about.rank.index()),
        },
        Letter::Report(view, _, claim) => format!("in view {}: {claim:?}", view.number),
        Letter::Grant(view) => format!("in view {}: granted", view.number),
        Letter::Done(view, _) => format!("in view {}: done", view.number),
    }
}

/// A world that is run, and can be put back.
pub(super) struct Execution {
    roots: Vec<World>,
    running: Option<World>,
    saved: Vec<World>,
    traced: bool,
}

/// The choice of a configuration, as an event.
const CONFIGURATION: u64 = 0xf << 60;

impl Execution {
    pub(super) fn new(roots: Vec<World>) -> Execution {
        let mut execution = Execution { roots, running: None, saved: Vec::new(), traced: false };
        execution.reset();
        execution
    }

    pub(super) fn reset(&mut self) {
        self.traced = false;
        self.saved.clear();
        self.running = (self.roots.len() == 1).then(|| self.roots[0].clone());
    }
}

impl TransitionSystem for Execution {
    fn enabled(&mut self, out: &mut Vec<Enabled>) {
        let numbers: Vec<u64> = match &self.running {
            Some(world) => world.happenings().into_iter().map(Happening::number).collect(),
            None => (0..self.roots.len() as u64).map(|number| CONFIGURATION | number).collect(),
        };
        let enabled = |number| Enabled {
            event: EventId(number),
            actor: Actor(number),
            faults: FaultSet::NONE,
            quiescent: false,
        };
        out.extend(numbers.into_iter().map(enabled));
    }

    fn take(
        &mut self,
        event: EventId,
        outcome: Outcome,
        touched: Option<&mut Footprint>,
    ) -> Result<(), Stuck> {
        let stuck = Stuck { event, outcome };
        if let Some(touched) = touched {
            touched.push(ALL, AccessKind::Write);
        }
        let Some(world) = &mut self.running else {
            let root = self.roots.get((event.0 ^ CONFIGURATION) as usize).ok_or(stuck)?;
            let mut root = root.clone();
            root.trace = self.traced.then(Vec::new);
            let drifts = root.drifts;
            root.tell(|| TraceEvent::Note {
                node: drifts,
                text: "its clock is a tick ahead now and then".into(),
            });
            self.running = Some(root);
            return Ok(());
        };
        let what = world.happenings().into_iter().find(|what| what.number() == event.0).ok_or(stuck)?;
        world.happen(what);
        Ok(())
    }

    fn violation(&mut self) -> Option<Violation> {
        self.running.as_ref()?.violation.clone()
    }

    fn finish(&mut self) -> Result<(), Violation> {
        self.running.as_ref().map_or(Ok(()), World::judge_end)
    }

    fn fingerprint(&mut self) -> Option<Fingerprint> {
        let Some(world) = &self.running else { return Some(Fingerprint(0)) };
        let mut digest = StateHasher::default();
        world.hash(&mut digest);
        Some(Fingerprint(digest.whole()))
    }

    fn save(&mut self, number: usize) -> bool {
        let Some(world) = self.running.as_ref().filter(|_| !self.traced) else { return false };
        self.saved.truncate(number);
        self.saved.push(world.clone());
        true
    }

    fn restore(&mut self, number: usize) -> bool {
        self.running = self.saved.get(number).cloned();
        self.running.is_some()
    }

    fn columns(&self) -> Vec<String> {
        (0..self.roots[0].rules.nodes).map(|node| format!("n{node}")).collect()
    }

    fn record_trace(&mut self) {
        self.traced = true;
        if let Some(world) = &mut self.running {
            world.trace = Some(Vec::new());
        }
    }

    fn take_trace(&mut self) -> Vec<TraceEvent> {
        let trace = self.running.as_mut().and_then(|world| world.trace.as_mut());
        trace.map(std::mem::take).unwrap_or_default()
    }
}

impl Hash for World {
    /// What the future depends on. How messages are numbered is for diagrams.
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.drifts, self.ahead, self.clock, self.ticks, &self.nodes, &self.boots).hash(to);
        (&self.met, self.crashes, self.restarts, self.cuts, self.early, &self.cut, &self.views).hash(to);
        for (way, letters) in self.ways.iter().filter(|(_, letters)| !letters.is_empty()) {
            (way, letters.len()).hash(to);
            letters.iter().for_each(|(_, letter)| letter.hash(to));
        }
        self.violation.is_some().hash(to);
    }
}
