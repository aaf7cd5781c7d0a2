//! Whom a view leaves out: somebody to whom something has happened.

use super::World;
use super::telling::list;
use weft_protocols::members::{Member, View};

impl World {
    /// A view begins. It leaves out nobody who lives and answers: who crashed, has left or acts elsewhere, or could not be reached.
    ///
    /// What is judged is what is so as it begins: of a link that is whole again nobody remembers here between whom it was, and then nothing is.
    pub(super) fn judge_who_is_left_out(&mut self, view: &View) {
        let earlier = |other: &&View| other.id.lineage == view.id.lineage && other.id.number < view.id.number;
        let Some(before) = self.views.values().filter(earlier).max_by_key(|other| other.id.number) else {
            return;
        };
        let gone = before.members.iter().filter(|member| !view.contains(**member));
        if let Some(member) = gone.copied().find(|member| self.is_there(*member, before)) {
            let text = format!("{member} lives and answers, and {} leaves it out", list(view));
            self.violated("left out for cause", text);
        }
    }

    /// Whether a member of a view is there for all others of it, and always was.
    fn is_there(&self, member: Member, view: &View) -> bool {
        let up = self.nodes[member.rank.index()].as_ref().filter(|up| up.me() == member && !up.leaves);
        let acts = up.is_some_and(|up| up.core.view().is_some_and(|own| own.id.lineage == view.id.lineage));
        // Where time goes on early, an answer comes late.
        acts && self.early == self.rules.early && self.is_reached(member, view)
    }

    /// Whether all could always reach a member, or the one that proposes, which asks it for those who cannot.
    fn is_reached(&self, member: Member, view: &View) -> bool {
        let cuts: Vec<&(u32, u32)> = self.cut.iter().collect();
        match (self.rules.cuts - self.cuts, &cuts[..]) {
            (0, []) => true,
            (1, [(one, other)]) => {
                let is_end = |of: Member| [one, other].contains(&&(of.rank.index() as u32));
                let proposes = view.members.first();
                let vouches =
                    self.crashes == self.rules.crashes && proposes.is_some_and(|first| !is_end(*first));
                !is_end(member) || vouches
            }
            _ => false,
        }
    }
}
