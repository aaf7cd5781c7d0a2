//! How the next view is decided: by a majority of the incarnations of this one; and the first one, by so many nodes without
//! a view that no majority of any earlier view can be left.
//!
//! Only the lowest rank that is not suspected proposes. The others wait, each one patience longer than the one before it, and
//! propose then: two that propose at once are safe, and slow each other down.

use super::core::{Core, Phase};
use super::events::Action;
use super::messages::Message;
use super::synod::{Acceptor, Proposal};
use super::view::{Ballot, Member, View, ViewId, cold_quorum, fewest};
use weft_verbs::Nanos;

impl Core {
    /// Those who may propose, by rank: in a view its members, before any view those who have none.
    pub(super) fn candidates(&self) -> Vec<Member> {
        let mut all: Vec<Member> = match self.phase {
            Phase::In => self.view.members.clone(),
            _ => self.joiners.values().copied().chain([self.me]).collect(),
        };
        all.sort_unstable();
        all.retain(|member| !self.suspected.contains(member) && !self.is_dead(*member));
        all
    }

    /// Who should be in the next view: who is here and does not want to go, and who wants to come. If those are fewer than a view must
    /// have, who wants to go stays as well, and before any view is in the first one. If all who are here are too few, the view stays as it
    /// is, and before any there is none.
    fn wanted(&self) -> Option<Vec<Member>> {
        let mut here = self.candidates();
        // One that has given this view up takes no part in what follows on it. Its next incarnation comes in as any other's.
        here.retain(|member| !self.has_given_up(*member, self.view.id));
        let stay = here.iter().copied().filter(|member| !self.leaving.contains(member)).collect();
        let as_it_is = (self.phase == Phase::In).then(|| self.view.members.clone());
        let lists = [Some(self.with_newcomers(stay)), Some(self.with_newcomers(here)), as_it_is];
        let are_enough = |list: &Vec<Member>| list.len() >= fewest(self.config.nodes as usize);
        lists.into_iter().flatten().find(are_enough)
    }

    /// These, and who wants to come into the view that there is.
    fn with_newcomers(&self, mut members: Vec<Member>) -> Vec<Member> {
        if self.phase == Phase::In {
            // Not beside another incarnation of its node, of which it is not known which is the later one. (Who was left out is no
            // joiner: see `install`.)
            let is_free = |rank| self.view.of(rank).is_none_or(|member| self.is_dead(member));
            let joiners = self.joiners.values().filter(|joiner| !self.suspected.contains(joiner));
            members.extend(joiners.filter(|joiner| is_free(joiner.rank)));
            members.sort_unstable();
        }
        members
    }

    fn quorum(&self) -> usize {
        match self.phase {
            Phase::In => self.view.quorum(),
            _ => cold_quorum(self.config.nodes as usize),
        }
    }

    /// Whether a decision is wanted, and can be had.
    fn is_due(&self) -> bool {
        let wanted = match self.phase {
            // A view that was accepted and not decided stops all renewals: somebody must finish it.
            Phase::In => {
                let changes = || self.wanted().is_some_and(|wanted| wanted != self.view.members);
                self.acceptor.accepted().is_some() || changes()
            }
            Phase::Cold => true,
            Phase::Out => false,
        };
        wanted && self.reached().len() >= self.quorum()
    }

    /// Whether it was told of a view that it is in and has never begun: it asks about it, or has declined it.
    fn is_told(&self) -> bool {
        let mut declined = self.declined.iter().filter(|view| !self.has_given_up(self.me, **view));
        self.phase == Phase::Cold && (self.asked_about().is_some() || declined.next().is_some())
    }

    /// Who may answer a proposal of its, by rank. Whoever acts in a view answers one that begins anew by that view. So one that was told of a view
    /// and has not begun it goes on proposing to them, too: what it asked may have come before the view did, and what it declined it may have
    /// declined in error, or those who wait for it there have not heard so.
    fn reached(&self) -> Vec<Member> {
        if !self.is_told() {
            return self.candidates();
        }
        let mut all: Vec<Member> = self.spoke.values().copied().chain([self.me]).collect();
        all.sort_unstable();
        all.retain(|member| !self.suspected.contains(member) && !self.is_dead(*member));
        all
    }

    /// Proposes, if that is due and its turn.
    pub(super) fn agree(&mut self, now: Nanos, out: &mut Vec<Action>) {
        if !self.is_due() {
            self.turn = None;
            return;
        }
        let order = self.candidates().iter().position(|member| *member == self.me).unwrap_or(0) as u64;
        let patience = self.config.patience;
        if self.proposal.as_ref().is_some_and(|proposal| proposal.ballot < self.voice().promised()) {
            // Somebody else proposes.
            self.proposal = None;
            self.turn = Some(now + patience * (order + 1));
        }
        // Where too few are without a view, the answers to what it asked come first.
        let later = u64::from(self.candidates().len() < self.quorum());
        let turn = *self.turn.get_or_insert(now + patience * (order + later));
        if turn <= now {
            self.turn = Some(now + patience * (order + 2));
            self.propose(now, out);
        }
    }

    /// Phase 1a.
    fn propose(&mut self, now: Nanos, out: &mut Vec<Action>) {
        let ballot = Ballot { round: self.voice().promised().round + 1, by: self.me.incarnation };
        self.proposal = Some(Proposal::new(ballot));
        let electors = match self.phase {
            Phase::In => self.living(),
            // Those who are suspected, too: they may be back.
            _ if self.is_told() => {
                self.spoke.values().copied().filter(|member| !self.is_dead(*member)).collect()
            }
            _ => self.joiners.values().copied().collect(),
        };
        for elector in electors {
            self.send(elector, Message::Prepare { after: self.view.clone(), ballot }, out);
            self.probe(now, elector);
        }
        self.voice_mut().prepare(ballot);
        let accepted = self.acceptance();
        self.on_promise(now, self.me, self.view.id, ballot, accepted, out);
    }

    /// This member's voice in the decision that is next.
    fn voice(&self) -> &Acceptor {
        if self.phase == Phase::In { &self.acceptor } else { &self.cold }
    }

    fn voice_mut(&mut self) -> &mut Acceptor {
        if self.phase == Phase::In { &mut self.acceptor } else { &mut self.cold }
    }

    /// What it has accepted, if that can still come to anything here. (In a view nobody votes twice, so it always can.) A list that this member
    /// has begun and given up does not: many of its members may live, and none of them begins it again.
    fn acceptance(&self) -> Option<(Ballot, View)> {
        self.voice().accepted().filter(|(_, view)| self.phase == Phase::In || !self.is_lost(view)).cloned()
    }

    /// Whether a message is about the decision that is next here.
    fn is_next(&self, after: ViewId) -> bool {
        match self.phase {
            Phase::In => after == self.view.id,
            Phase::Cold => after == ViewId::default(),
            Phase::Out => false,
        }
    }

    /// Phase 1b. The view that a proposal is about was decided: who is behind learns it here.
    pub(super) fn on_prepare(
        &mut self,
        now: Nanos,
        from: Member,
        after: View,
        ballot: Ballot,
        out: &mut Vec<Action>,
    ) {
        if self.is_older(after.id) {
            return self.update(from, out);
        }
        let id = after.id;
        if !after.members.is_empty() && !self.is_next(id) {
            self.learn(now, after, out);
        }
        if id == ViewId::default() && !self.view.contains(from) {
            self.joiners.insert(from.rank, from);
        }
        if id == ViewId::default() && self.phase == Phase::In {
            // It is told where this member acts: what it has accepted elsewhere may come to nothing by that.
            return self.update(from, out);
        }
        if self.is_next(id) && self.voice_mut().prepare(ballot) {
            let accepted = self.acceptance();
            self.send(from, Message::Promise { after: id, ballot, accepted }, out);
        } else {
            self.pong(from, out);
        }
    }

    /// Phase 2a.
    pub(super) fn on_promise(
        &mut self,
        now: Nanos,
        from: Member,
        after: ViewId,
        ballot: Ballot,
        accepted: Option<(Ballot, View)>,
        out: &mut Vec<Action>,
    ) {
        let is_elector = self.phase != Phase::In || self.view.contains(from);
        if !self.is_next(after) || !is_elector {
            return;
        }
        let Some(mut proposal) = self.proposal.take_if(|proposal| proposal.ballot == ballot) else { return };
        let cold = self.phase != Phase::In;
        proposal.promise(from, accepted, |list| !cold || !self.is_lost(list));
        let lineage = if cold { ballot } else { self.view.id.lineage };
        let wants = || self.wanted().map(|wanted| self.view.next(lineage, wanted));
        let proposed = proposal.propose(self.quorum(), wants).map(|(next, to)| (next, to.to_vec()));
        self.proposal = Some(proposal);
        let Some((next, to)) = proposed else { return };
        let me = self.me;
        for elector in to.into_iter().filter(|elector| *elector != me) {
            self.send(elector, Message::Accept { after, ballot, next: next.clone() }, out);
            self.probe(now, elector);
        }
        if self.voice_mut().accept(ballot, next) {
            self.on_accepted(now, self.me, after, ballot, out);
        }
    }

    /// Phase 2b.
    pub(super) fn on_accept(
        &mut self,
        from: Member,
        after: ViewId,
        ballot: Ballot,
        next: View,
        out: &mut Vec<Action>,
    ) {
        // One that begins anew is told, too, that this member acts elsewhere.
        if self.is_older(after) || (after == ViewId::default() && self.phase == Phase::In) {
            return self.update(from, out);
        }
        if self.is_next(after) && self.voice_mut().accept(ballot, next) {
            self.send(from, Message::Accepted { after, ballot }, out);
        } else {
            self.pong(from, out);
        }
    }

    /// Once a quorum has accepted, the view is decided: it is told to all whom it is about, those whom it leaves out included.
    pub(super) fn on_accepted(
        &mut self,
        now: Nanos,
        from: Member,
        after: ViewId,
        ballot: Ballot,
        out: &mut Vec<Action>,
    ) {
        let quorum = self.quorum();
        let is_next = self.is_next(after);
        let Some(proposal) = self.proposal.as_mut().filter(|proposal| is_next && proposal.ballot == ballot)
        else {
            return;
        };
        let Some(next) = proposal.accepted(from, quorum) else { return };
        let mut told = match self.phase {
            // Newcomers are told as the view begins here.
            Phase::In => self.view.members.clone(),
            _ => next.members.clone(),
        };
        told.retain(|member| *member != self.me && !self.is_dead(*member));
        for member in told {
            self.send(member, Message::Decided { view: next.clone() }, out);
        }
        self.learn(now, next, out);
    }
}
