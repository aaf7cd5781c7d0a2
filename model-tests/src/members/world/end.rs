//! The end of a world: whether those who live could go on, and whether they did.

use super::super::node::{Node, Part};
use super::World;
use super::happening::Happening;
use super::telling::list;
use crate::explore::Violation;
use std::collections::BTreeMap;
use weft_protocols::members::{Ballot, Member, View};

impl World {
    /// Everything is delivered, every deadline is kept, and who has the right gives it back, for so long.
    pub(super) fn go_on(&mut self, ticks: u32) {
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
            let comes_in = |node: &Node| node.core.bound_to().is_none_or(|to| to == lineage);
            node.is_some_and(|node| in_it(node).unwrap_or_else(|| comes_in(node)))
        };
        let goes_on = |view: &&View| {
            let acting = view.members.iter().filter(|member| acts(member, view.id.lineage)).count();
            2 * acting > view.members.len()
        };
        if 2 * up.len() <= self.nodes.len() {
            // A view never has fewer than a majority of the nodes: what one waits for stays in it.
            return false;
        }
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

    pub(super) fn judge_end(&self) -> Result<(), Violation> {
        let mut end = self.clone();
        end.trace = None;
        end.cut.clear();
        // Who waits for the dead may do so for one patience after the other, each of them twice as many ticks.
        let ticks = 28 + 12 * end.rules.patience;
        // What those who live tell each other may be what lets them go on.
        end.go_on(ticks);
        end.tell_refused();
        if end.can_go_on() {
            end.go_on(ticks);
            end.tell_refused();
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
}
