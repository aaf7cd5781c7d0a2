//! A world of nodes without a fabric: what can happen, and what must hold.
//!
//! Nodes take their turns in any order. One that has its turn takes all that has come, which keeps its order by sender. Time
//! goes on once they have come and every deadline is kept; or early, while some are under way and some sleep, as often as
//! the size says. While a link is cut, what two nodes send each other waits: they send it again and again. So what a node sent
//! that crashes is lost where a link is cut. It loses what was on its way to it, too, and may lose all that it had sent. All clocks go on together but one, which is a tick ahead of the others or
//! not.

mod end;
mod execution;
mod happening;
mod left_out;
mod telling;

pub(super) use execution::Execution;

use super::node::{Letter, Node};
use super::planted::Planted;
use super::rules::Rules;
use crate::explore::{TraceEvent, Violation};
use happening::Happening;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
use telling::{list, words};
use weft_protocols::members::{Member, View, ViewId};
use weft_protocols::transport::Rank;
use weft_verbs::Nanos;

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

/// What is on its way.
#[derive(Clone, Debug)]
struct Sent {
    /// Its number in a diagram.
    packet: u64,
    /// Which boot of its node sent it.
    boot: u64,
    letter: Letter,
}

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
    ways: BTreeMap<(u32, u32), VecDeque<Sent>>,
    /// Of a view, for a member that the sender has not met yet: its node's session is an earlier boot's still, and ends.
    kept: BTreeMap<(u32, u32), Vec<(Member, Letter)>>,
    crashes: u32,
    restarts: u32,
    cuts: u32,
    early: u32,
    leaves: u32,
    /// The links that are cut.
    cut: BTreeSet<(u32, u32)>,
    /// The views that began.
    views: BTreeMap<ViewId, View>,
    violation: Option<Violation>,
    /// Who spoke to one that has left it out, and of which view. It is refused and told so; that may take as long as it likes, so it is told at
    /// the end.
    refused: BTreeMap<Member, ViewId>,
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
            kept: BTreeMap::new(),
            crashes: rules.crashes,
            restarts: rules.restarts,
            cuts: rules.cuts,
            early: rules.early,
            leaves: rules.leaves,
            cut: BTreeSet::new(),
            views: BTreeMap::new(),
            violation: None,
            refused: BTreeMap::new(),
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
            world.rules.cuts += 1;
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
        for view in began {
            self.began(node, view);
        }
        for (to, letter) in sent {
            self.send(node, to.index() as u32, letter);
        }
        self.judge();
        self.band(node);
    }

    /// Who speaks to a member in a view waits until it has met that one: nobody says twice what is said there.
    fn send(&mut self, from: u32, to: u32, letter: Letter) {
        let met = self.met.get(&(from, to)).copied();
        let member = letter.view().and_then(|id| self.views.get(&id)?.of(Rank::from_index(to)));
        match member.filter(|member| met.is_some_and(|met| met != member.incarnation)) {
            Some(member) => self.kept.entry((from, to)).or_default().push((member, letter)),
            None => self.give(from, to, letter),
        }
    }

    /// A node has met another boot of a node.
    fn met(&mut self, node: u32, other: u32, boot: u64) {
        let kept = self.kept.remove(&(node, other)).unwrap_or_default();
        let (now, later): (Vec<_>, Vec<_>) =
            kept.into_iter().partition(|(member, _)| member.incarnation == boot);
        if !later.is_empty() {
            self.kept.insert((node, other), later);
        }
        for (_, letter) in now {
            self.give(node, other, letter);
        }
    }

    /// A message to a boot that is no more is lost: its session is.
    fn give(&mut self, from: u32, to: u32, letter: Letter) {
        let up = self.nodes[to as usize].as_ref().map(|node| node.me().incarnation);
        let met = self.met.get(&(from, to)).copied();
        let arrives = up.is_some() && (met.is_none() || met == up);
        self.sent += 1;
        let (packet, boot) = (self.sent, self.boots[from as usize]);
        self.tell(|| TraceEvent::Send { packet, from, to, text: words(&letter) });
        match arrives {
            true => self.ways.entry((from, to)).or_default().push_back(Sent { packet, boot, letter }),
            false => self.tell(|| TraceEvent::Lost { packet }),
        }
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
        self.judge_who_is_left_out(&view);
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
        self.judge_lineages();
    }

    /// Those who are in a view and are enough to decide what follows on it are so in one lineage at a time.
    fn judge_lineages(&mut self) {
        let mut acting: Option<&View> = None;
        let all = || self.nodes.iter().flatten().filter_map(|node| node.core.view());
        for view in all() {
            if acting.is_some_and(|other| other.id.lineage == view.id.lineage) {
                continue;
            }
            if 2 * all().filter(|other| other.id == view.id).count() <= view.members.len() {
                continue;
            }
            if let Some(other) = acting.replace(view) {
                let text = format!("{} and {} have each enough who act in it", list(other), list(view));
                return self.violated("one lineage", text);
            }
        }
    }
}

impl Hash for World {
    /// What the future depends on. How messages are numbered is for diagrams.
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.drifts, self.ahead, self.clock, self.ticks, &self.nodes, &self.boots).hash(to);
        self.refused.hash(to);
        (&self.met, &self.kept, self.crashes, self.restarts, self.cuts, self.early, &self.cut, &self.views)
            .hash(to);
        self.leaves.hash(to);
        for (way, letters) in self.ways.iter().filter(|(_, letters)| !letters.is_empty()) {
            (way, letters.len()).hash(to);
            // Which boot sent it matters to a link that is cut later on.
            let may_be_cut = self.cuts > 0;
            letters.iter().for_each(|sent| (may_be_cut.then_some(sent.boot), &sent.letter).hash(to));
        }
        self.violation.is_some().hash(to);
    }
}
