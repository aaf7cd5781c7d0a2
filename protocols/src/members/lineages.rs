//! Of which lineage a view is that can still decide anything: where members are known to act, what this one and others have given
//! up, and when it gives up its own (docs/members.md, "Cold start").

use super::core::{Core, Phase};
use super::events::Action;
use super::messages::Message;
use super::synod::Acceptor;
use super::view::{Member, View, ViewId};

impl Core {
    /// Who speaks in a view acts in its lineage, and in no other. Says whether it is news that this is not this member's.
    pub(super) fn note_lineage(&mut self, from: Member, message: &Message) -> bool {
        let id = match message {
            // Whoever finishes a list that was accepted before it restarted tells it, and has no part in it.
            Message::Decided { view } if !view.contains(from) => return false,
            Message::Prepare { after: view, .. } | Message::Decided { view } => view.id,
            // An answer, too: who was told once where a member acts may have forgotten it, since it acted elsewhere itself then.
            Message::Renew { view, .. }
            | Message::Ping { view }
            | Message::Pong { view }
            | Message::Acts { view, .. } => *view,
            Message::Join => ViewId::default(),
            _ => return false,
        };
        if id == ViewId::default() {
            // It acts nowhere now, and will speak of where it acts next.
            self.acts_in.remove(&from);
            return false;
        }
        // Nor is it without a view, until it says so again.
        if self.joiners.get(&from.rank) == Some(&from) {
            self.joiners.remove(&from.rank);
        }
        // It has begun what it declined before.
        if self.has_given_up(from, id) {
            self.given_up.remove(&(from, id.lineage));
        }
        let is_news = self.acts_in.insert(from, id.lineage) != Some(id.lineage);
        is_news && id.lineage != self.view.id.lineage
    }

    /// Those of a view that acted where this member did, until it gave that up, may have given it up as well: that they have may come over
    /// slower links than the view.
    pub(super) fn forget_what_is_given_up(&mut self, view: &View) {
        let (me, given_up) = (self.me, &self.given_up);
        let is_over = |lineage| lineage != view.id.lineage && given_up.contains_key(&(me, lineage));
        self.acts_in.retain(|member, lineage| !(view.contains(*member) && is_over(*lineage)));
    }

    /// Of one that has died or acts elsewhere now, what is left may be too few: of its view, or of the one that it asks about.
    pub(super) fn give_up_what_cannot_act(&mut self, out: &mut Vec<Action>) {
        if self.phase == Phase::In && !self.may_act(&self.view) {
            self.lose(out);
        }
        self.gives_up_asking();
    }

    /// The view cannot decide anything any more. To have no view is sound: nobody of it can renew a lease either.
    fn lose(&mut self, out: &mut Vec<Action>) {
        self.phase = Phase::Cold;
        self.note_given_up(self.me, self.view.id);
        self.view = View::default();
        (self.acceptor, self.proposal, self.turn) = (Acceptor::default(), None, None);
        self.lease.end();
        out.push(Action::Lost);
        self.begin(out);
    }

    /// Somebody acts in a view that this member has given up, and would wait for it as for one that has yet to hear of that view.
    pub(super) fn say_if_given_up(&mut self, to: Member, view: ViewId, out: &mut Vec<Action>) {
        let is_back = self.phase == Phase::In && self.view.id.lineage == view.lineage;
        if !is_back && self.has_given_up(self.me, view) {
            let view = ViewId { number: self.given_up[&(self.me, view.lineage)], ..view };
            self.send(to, Message::GivenUp { view }, out);
        } else if self.declined.contains(&view) {
            self.send(to, Message::GivenUp { view }, out);
        }
    }

    pub(super) fn note_given_up(&mut self, by: Member, view: ViewId) {
        let last = self.given_up.entry((by, view.lineage)).or_default();
        *last = view.number.max(*last);
    }

    /// Whether a member, or this one, has given up a view, or a later one of its lineage.
    pub(super) fn has_given_up(&self, member: Member, view: ViewId) -> bool {
        self.given_up.get(&(member, view.lineage)).is_some_and(|last| view.number <= *last)
    }

    /// Whether it has no view, and has accepted one in a cold start that may yet be decided, as far as is known: until it is known that this one
    /// comes to nothing, it proposes no other (docs/members.md, "Cold start").
    pub fn is_bound(&self) -> bool {
        self.phase == Phase::Cold && self.cold.accepted().is_some_and(|(_, list)| !self.is_lost(list))
    }

    /// Whether a view is over for this member: it gave it up, or a later one, or would have to at once. Others may speak of it for a while.
    /// To begin it again would forget what was said in it, and others say nothing twice.
    pub(super) fn is_lost(&self, view: &View) -> bool {
        self.has_given_up(self.me, view.id) || !self.may_act(view)
    }

    /// Whether a view can still decide anything, as far as is known.
    pub(super) fn may_act(&self, view: &View) -> bool {
        self.acting(view).count() >= view.quorum()
    }

    /// Those of a view's members who may act in it, as far as is known.
    pub(super) fn acting(&self, view: &View) -> impl Iterator<Item = Member> {
        let elsewhere =
            |member: &Member| self.acts_in.get(member).is_some_and(|lineage| *lineage != view.id.lineage);
        let acts = move |member: &Member| {
            !self.is_dead(*member) && !elsewhere(member) && !self.has_given_up(*member, view.id)
        };
        view.members.iter().copied().filter(acts)
    }
}
