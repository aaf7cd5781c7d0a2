//! Which incarnations of nodes there are: of two, which one is the later one (docs/members.md).

use super::core::Core;
use super::events::Action;
use super::messages::Message;
use super::view::{Member, View};
use crate::transport::Rank;
use weft_verbs::Nanos;

impl Core {
    /// A node has one incarnation at a time. Of two that spoke to this member, the one that did so last is the later one. One
    /// that is known from a list may be later than the one that speaks here, whose last words somebody else's have overtaken:
    /// so it is asked, and is taken for dead while it does not answer.
    pub(super) fn meet(&mut self, now: Nanos, member: Member, out: &mut Vec<Action>) {
        self.doubted.remove(&member);
        if let Some(older) = self.spoke.insert(member.rank, member).filter(|older| *older != member) {
            self.bury(older);
        }
        let others = self.listed(member.rank).filter(|listed| *listed != member);
        for listed in others.collect::<Vec<_>>() {
            self.doubt(now, listed, out);
        }
        self.give_up_what_cannot_act(out);
    }

    /// Another incarnation of its node speaks: it is asked whether it is there.
    fn doubt(&mut self, now: Nanos, listed: Member, out: &mut Vec<Action>) {
        if self.dead.contains(&listed) {
            return;
        }
        self.doubted.insert(listed);
        if !self.probes.contains_key(&listed) && !self.suspected.contains(&listed) {
            self.send(listed, Message::Ping { view: self.view.id }, out);
            self.probe(now, listed);
        }
    }

    /// The same with those of a list that it is told of, for what it has heard before.
    pub(super) fn doubt_those_of(&mut self, now: Nanos, list: &View, out: &mut Vec<Action>) {
        let other_speaks =
            |member: &Member| self.spoke.get(&member.rank).is_some_and(|spoke| spoke != member);
        let doubted: Vec<Member> = list.members.iter().copied().filter(other_speaks).collect();
        doubted.into_iter().for_each(|member| self.doubt(now, member, out));
    }

    /// A view of another lineage names other incarnations of nodes than this member's view does, and it is not known which are the later ones: a link
    /// that is cut may keep their own word from this member. So those of its own view are asked, and are taken for dead while they do not answer.
    pub(super) fn doubt_by(&mut self, now: Nanos, list: &View, out: &mut Vec<Action>) {
        if self.is_lost(list) {
            return;
        }
        let is_another = |member: &Member| {
            list.of(member.rank).is_some_and(|other| other != *member && !self.is_dead(other))
        };
        let doubted: Vec<Member> = self.living().into_iter().filter(is_another).collect();
        doubted.into_iter().for_each(|member| self.doubt(now, member, out));
        self.give_up_what_cannot_act(out);
    }

    /// The incarnations of a node in the lists that matter here: of its view, of what it has accepted, and of the view that it asks about.
    fn listed(&self, rank: Rank) -> impl Iterator<Item = Member> {
        let accepted = [&self.cold, &self.acceptor].map(|acceptor| acceptor.accepted());
        let views = accepted
            .into_iter()
            .flatten()
            .map(|(_, view)| view)
            .chain([&self.view])
            .chain(self.asked_about());
        views.filter_map(move |view| view.of(rank))
    }

    /// Whether an incarnation is known to be no more, or taken to be.
    pub(super) fn is_dead(&self, member: Member) -> bool {
        let is_silent = self.doubted.contains(&member) && self.suspected.contains(&member);
        self.dead.contains(&member) || is_silent || (member.rank == self.me.rank && member != self.me)
    }

    /// An incarnation is no more.
    pub(super) fn bury(&mut self, member: Member) {
        self.dead.insert(member);
        self.doubted.remove(&member);
        self.acts_in.remove(&member);
        self.given_up.retain(|(of, _), _| *of != member);
        self.suspected.remove(&member);
        self.probes.remove(&member);
        self.leaving.remove(&member);
        if self.joiners.get(&member.rank) == Some(&member) {
            self.joiners.remove(&member.rank);
        }
    }

    /// The other members of its view that are not known to be no more.
    pub(super) fn living(&self) -> Vec<Member> {
        let others = self.view.members.iter().copied().filter(|member| *member != self.me);
        others.filter(|member| !self.is_dead(*member)).collect()
    }
}
