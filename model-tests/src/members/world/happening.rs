//! What can happen in a world, and what then happens.

use super::super::node::{Letter, Node};
use super::{Sent, World};
use crate::explore::TraceEvent;
use std::collections::VecDeque;
use weft_protocols::transport::Rank;

/// Something that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Happening {
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
    /// It says that it leaves.
    Leave(u32),
    /// What two nodes send each other waits.
    Cut(u32, u32),
    /// The same with a node and all others.
    Isolate(u32),
    Heal(u32, u32),
}

impl Happening {
    pub(super) fn number(self) -> u64 {
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
            Happening::Leave(node) => (10, node),
            Happening::Isolate(node) => (11, node),
        };
        kind << 56 | u64::from(which) << 32
    }
}

impl World {
    /// Faults first: a search that goes deep first meets early ones early.
    pub(super) fn happenings(&self) -> Vec<Happening> {
        let mut all = Vec::new();
        for (node, up) in (0u32..).zip(&self.nodes) {
            let Some(up) = up else {
                all.extend((self.restarts > 0).then_some(Happening::Restart(node)));
                continue;
            };
            let is_its = self.rules.leaving.is_none_or(|leaving| leaving == node);
            let may_leave = self.leaves > 0 && is_its && !up.leaves && up.core.view().is_some();
            all.extend(may_leave.then_some(Happening::Leave(node)));
            let is_its = |other: &u32| self.rules.cutting.is_none_or(|cut| cut == node || cut == *other);
            let others =
                (node + 1..self.rules.nodes).filter(is_its).filter(|other| !self.is_cut(node, *other));
            all.extend(others.filter(|_| self.cuts > 0).map(|other| Happening::Cut(node, other)));
            let is_joined = self.rules.isolates && self.cuts > 0 && !self.linked(node).is_empty();
            all.extend(is_joined.then_some(Happening::Isolate(node)));
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

    /// The nodes to which something comes through.
    fn linked(&self, node: u32) -> Vec<u32> {
        (0..self.rules.nodes).filter(|other| *other != node && !self.is_cut(node, *other)).collect()
    }

    fn cut(&mut self, one: u32, other: u32) {
        self.cut.insert((one, other));
        self.lose_of_the_dead(one, other);
        self.lose_of_the_dead(other, one);
    }

    /// Whose messages have come to a node.
    fn senders(&self, node: u32) -> Vec<u32> {
        let come = self
            .ways
            .iter()
            .filter(|((from, to), way)| *to == node && !way.is_empty() && !self.is_cut(*from, node));
        come.map(|((from, _), _)| *from).collect()
    }

    pub(super) fn happen(&mut self, what: Happening) {
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
                self.cut(one, other);
                let text = "nothing comes through between them".into();
                self.tell(|| TraceEvent::Fault { nodes: vec![one, other], text });
            }
            Happening::Isolate(node) => {
                self.cuts -= 1;
                self.linked(node).into_iter().for_each(|other| self.cut(node.min(other), node.max(other)));
                let text = "nothing comes through to the others".into();
                self.tell(|| TraceEvent::Fault { nodes: vec![node], text });
            }
            Happening::Heal(one, other) => {
                self.cut.remove(&(one, other));
                self.tell(|| TraceEvent::Note {
                    node: one,
                    text: format!("is connected with n{other} again"),
                });
            }
            Happening::Leave(node) => {
                self.leaves -= 1;
                self.tell(|| TraceEvent::Note { node, text: "leaves".into() });
                self.at(node, Node::leave);
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
        let Some(Sent { packet, letter, .. }) = self.ways.get_mut(&(from, to)).and_then(VecDeque::pop_front)
        else {
            return;
        };
        self.tell(|| TraceEvent::Arrive { packet, text: String::new() });
        let boot = match &letter {
            Letter::Member(envelope) => Some(envelope.from),
            _ => None,
        };
        self.refuse(from, to, boot);
        if let Some(boot) = boot {
            let known = self.met.insert((to, from), boot);
            if known.is_some_and(|known| known != boot) {
                self.at(to, |node| node.reset(Rank::from_index(from)));
                self.met(to, from, boot);
            }
        }
        self.at(to, |node| node.take(Rank::from_index(from), letter));
    }

    /// Who has left the sender out takes no connection of it, and says why.
    fn refuse(&mut self, from: u32, to: u32, boot: Option<u64>) {
        let up = |node: u32| self.nodes[node as usize].as_ref();
        let (Some(sender), Some(view)) = (up(from), up(to).and_then(|node| node.core.view())) else { return };
        let sender = sender.me();
        if boot.is_none_or(|boot| boot == sender.incarnation) && view.left.contains(&sender) {
            self.refused.insert(sender, view.id);
        }
    }

    /// All who were refused hear so.
    pub(super) fn tell_refused(&mut self) {
        for (member, view) in std::mem::take(&mut self.refused) {
            if self.nodes[member.rank.index()].as_ref().is_some_and(|node| node.me() == member) {
                self.at(member.rank.index() as u32, |node| node.refused(view));
            }
        }
    }

    /// The clock that differs goes ahead, and then the others catch up.
    pub(super) fn tick(&mut self) {
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

    /// What a boot sent that is no more, nobody sends again.
    fn lose_of_the_dead(&mut self, from: u32, to: u32) {
        let lives = self.nodes[from as usize].is_some().then_some(self.boots[from as usize]);
        let Some(way) = self.ways.get_mut(&(from, to)) else { return };
        let (kept, lost): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(way).into_iter().partition(|sent| Some(sent.boot) == lives);
        *way = kept;
        for Sent { packet, .. } in lost {
            self.tell(|| TraceEvent::Lost { packet });
        }
    }

    fn crash(&mut self, node: u32, all: bool) {
        self.crashes -= 1;
        self.nodes[node as usize] = None;
        let lost = |&(from, to): &(u32, u32)| to == node || (from == node && (all || self.is_cut(from, to)));
        let lost: Vec<(u32, u32)> = self.ways.keys().copied().filter(lost).collect();
        self.tell(|| TraceEvent::Fault { nodes: vec![node], text: "crashes".into() });
        for way in lost {
            for Sent { packet, .. } in self.ways.remove(&way).into_iter().flatten() {
                self.tell(|| TraceEvent::Lost { packet });
            }
        }
        self.met.retain(|(of, _), _| *of != node);
        self.kept.retain(|(of, _), _| *of != node);
        self.band(node);
    }
}
