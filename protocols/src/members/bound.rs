//! What a list that was accepted in a cold start binds a member to (docs/members.md, "Cold start").
//!
//! Those who accepted it are so many that no view of an earlier lineage can act without one of them. So none of them comes back into such a view
//! on the word that it was decided once, whatever became of the list since: a view of another lineage must act *without* it,
//! after it accepted, or it is one of those that the list ended.

use super::core::{Core, Phase};
use super::events::Action;
use super::messages::Message;
use super::view::{Ballot, Member, View, ViewId};
use std::collections::BTreeSet;
use weft_verbs::Nanos;

/// A view of another lineage, and who has said, being asked, that it acts in it.
#[derive(Clone, Debug, Hash)]
pub(super) struct Asked {
    view: View,
    /// The proposal by which it had accepted a list when it asked.
    accepted: Ballot,
    acting: BTreeSet<Member>,
    /// They ask the same.
    asking: BTreeSet<Member>,
}

impl Core {
    /// The lineage of the list that it accepted last, while it has no view.
    pub fn bound_to(&self) -> Option<Ballot> {
        let accepted = self.cold.accepted().filter(|_| self.phase == Phase::Cold);
        accepted.map(|(_, list)| list.id.lineage)
    }

    /// The view that it asks about.
    pub(super) fn asked_about(&self) -> Option<&View> {
        self.asked.as_ref().map(|asked| &asked.view)
    }

    /// Whether a view that it is told of is of another lineage than the list that it accepted.
    pub(super) fn is_bound_elsewhere(&self, view: &View) -> bool {
        self.bound_to().is_some_and(|lineage| lineage != view.id.lineage)
    }

    /// Asks the others of a view whether they act in it. Of whom it has no answer yet it asks again whenever it is told of the view.
    pub(super) fn ask(&mut self, now: Nanos, view: View, out: &mut Vec<Action>) {
        let Some((accepted, _)) = self.cold.accepted() else { return };
        let accepted = *accepted;
        if self.asked.as_ref().is_none_or(|asked| asked.view != view || asked.accepted != accepted) {
            self.doubt_those_of(now, &view, out);
            // They are asked now: what was known of where they act may be older than the view.
            self.acts_in.retain(|member, lineage| !view.contains(*member) || *lineage == view.id.lineage);
            self.asked = Some(Asked { view, accepted, acting: BTreeSet::new(), asking: BTreeSet::new() });
        }
        if self.gives_up_asking() {
            return;
        }
        let Some(Asked { view, acting, .. }) = &self.asked else { return };
        self.declined.remove(&view.id);
        let open = view.members.iter().filter(|member| **member != self.me && !acting.contains(member));
        for member in open {
            self.send(*member, Message::Ask { view: view.id, accepted }, out);
        }
    }

    /// A member was told of a view. If this one asks the same, each must hear that of the other.
    pub(super) fn on_ask(&mut self, from: Member, view: ViewId, accepted: Ballot, out: &mut Vec<Action>) {
        if self.phase == Phase::In && self.view.id == view {
            return self.send(from, Message::Acts { view, accepted }, out);
        } else if self.is_older(view) {
            return self.update(from, out);
        }
        if let Some(asked) = self.asked.as_mut().filter(|asked| asked.view.id == view) {
            let (is_news, accepted) = (asked.asking.insert(from), asked.accepted);
            if !self.gives_up_asking() && is_news {
                return self.send(from, Message::Ask { view, accepted }, out);
            }
        }
        self.pong(from, out);
        self.say_if_given_up(from, view, out);
    }

    /// Too few can say that they act in the view, as far as is known: this member has no part in it, and those who wait for it are told. Of those who
    /// ask themselves none is the first that comes in.
    pub(super) fn gives_up_asking(&mut self) -> bool {
        let Some(Asked { view, asking, .. }) = &self.asked else { return false };
        let others = self.acting(view).filter(|member| *member != self.me && !asking.contains(member));
        let (id, is_lost) = (view.id, others.count() < view.quorum());
        if is_lost {
            self.asked = None;
            self.declined.insert(id);
        }
        is_lost
    }

    /// A member acts in a view: the view, once so many do that it needs no voice of this one.
    pub(super) fn on_acts(&mut self, from: Member, view: ViewId, accepted: Ballot) -> Option<View> {
        // What was said before it accepted another list is no answer any more.
        self.cold.accepted().filter(|(last, _)| *last == accepted)?;
        let asked =
            self.asked.as_mut().filter(|asked| asked.accepted == accepted && asked.view.id == view)?;
        if asked.view.contains(from) {
            asked.acting.insert(from);
            asked.asking.remove(&from);
        }
        let enough = asked.acting.len() >= asked.view.quorum();
        self.asked.take_if(|_| enough).map(|asked| asked.view)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{CONFIG, Net, rank};
    use super::super::{Envelope, Event, MembersConfig};
    use super::*;

    const FIVE: MembersConfig = MembersConfig { nodes: 5, ..CONFIG };

    fn tells(message: &Message) -> bool {
        matches!(message, Message::Accept { .. } | Message::Decided { .. })
    }

    /// Of the first lineage, node 1 is left in a view, beside node 5, which is in its list and was never told. Then nodes 2 to 5 began anew, and
    /// what they began has gone on without node 5, which was never told of that, either, until each of them had restarted.
    fn two_lineages_and_one_that_acts_in_neither() -> Net {
        let mut net = Net::empty(FIVE);
        net.lost = |_, to, message| to == 5 && tells(message);
        (1..=5).for_each(|n| net.boot(FIVE, n));
        net.pass(300);
        net.crash(4);
        net.tell(1, Event::Hold(true));
        net.pass(300);
        net.tell(3, Event::Leave);
        net.pass(300);
        assert_eq!(net.members(1), [(1, 1), (2, 2), (5, 5)]);
        net.crash(2);
        net.crash(3);
        // Nobody hears node 1 any more. Node 5 accepts a list, and is not told that it was decided.
        net.lost = |from, to, message| {
            from == 1 || to == 1 || (to == 5 && matches!(message, Message::Decided { .. }))
        };
        (2..=4).for_each(|n| net.boot(FIVE, n));
        net.pass(500);
        assert_eq!(net.members(2), [(2, 6), (3, 7), (4, 8), (5, 5)]);
        // Nor node 5, which hears only who begins.
        net.lost = |from, to, message| {
            from == 1 || to == 1 || from == 5 || (to == 5 && !matches!(message, Message::Join))
        };
        net.tell(2, Event::Hold(true));
        net.pass(500);
        for n in [2, 3, 4] {
            net.crash(n);
            net.boot(FIVE, n);
            net.tell(if n == 4 { 2 } else { 4 }, Event::Hold(true));
            net.pass(500);
        }
        assert_eq!(net.members(2), [(2, 9), (3, 10), (4, 11)]);
        net
    }

    /// It was free as soon as it knew that a majority of the list that it had accepted was no more, and what followed on that list acted on: two had
    /// the right at a time.
    #[test]
    fn who_accepted_a_list_does_not_bring_back_a_lineage_that_the_list_ended() {
        let mut net = two_lineages_and_one_that_acts_in_neither();
        net.lost = |from, to, _| [1, 5].contains(&from) != [1, 5].contains(&to);
        net.tell(1, Event::Hold(true));
        net.pass(500);
        let holds = |n| net.core(n).view().is_some() && net.core(n).lease_until() > net.now;
        assert!(holds(2));
        assert!(!holds(1) && !holds(5), "{:?} {:?}", net.members(1), net.members(5));
    }

    /// Node 3 has accepted a list of its own, which nobody else will, and nodes 1 and 2 begin another one.
    fn one_that_is_bound() -> Net {
        let mut net = Net::empty(CONFIG);
        net.lost = |_, to, message| to == 3 && tells(message);
        (1..=3).for_each(|n| net.boot(CONFIG, n));
        net.pass(1);
        let ballot = Ballot { round: 9, by: 3 };
        let members = [(1, 1), (2, 2), (3, 3)].map(|(n, incarnation)| Member { rank: rank(n), incarnation });
        let next =
            View { id: ViewId { lineage: ballot, number: 1 }, members: members.into(), left: Vec::new() };
        let message = Message::Accept { after: ViewId::default(), ballot, next };
        net.tell(3, Event::Message(rank(2), Envelope { from: 2, to: 3, message }));
        assert_eq!((net.members(1).len(), net.core(3).bound_to()), (3, Some(ballot)));
        net.lost = |_, _, _| false;
        net
    }

    /// Found by `weft fuzz swarm-16-srsl-members` (seed 11338): so many of its list had been left out elsewhere that it waited for ever to hear what became of it.
    #[test]
    fn who_accepted_a_list_comes_into_a_view_that_acts_without_it() {
        let mut net = one_that_is_bound();
        net.tell(1, Event::Hold(true));
        net.pass(60);
        assert_eq!(net.members(3), [(1, 1), (2, 2), (3, 3)]);
    }

    const FOUR: MembersConfig = MembersConfig { nodes: 4, ..CONFIG };

    /// Four nodes without a view, which know of each other.
    fn four() -> Net {
        let mut net = Net::empty(FOUR);
        net.lost = |_, _, message| !matches!(message, Message::Join);
        (1..=4).for_each(|n| net.boot(FOUR, n));
        net.settle();
        net.lost = |_, _, _| false;
        net
    }

    fn list_of_four(by: u64) -> View {
        let members = (1..=4).map(|n| Member { rank: rank(n), incarnation: n.into() }).collect();
        let lineage = Ballot { round: by as u32, by };
        View { id: ViewId { lineage, number: 1 }, members, left: Vec::new() }
    }

    /// Of the four, it accepts a list that nobody else will.
    fn accepts(net: &mut Net, n: u32) {
        let (ballot, next) = (Ballot { round: n + 90, by: n.into() }, list_of_four(n.into()));
        let message = Message::Accept { after: ViewId::default(), ballot, next };
        net.tell(n, Event::Message(rank(1), Envelope { from: 1, to: n.into(), message }));
        assert!(net.core(n).is_bound());
        net.mail.clear();
    }

    /// It is told of another one that was decided.
    fn is_told(net: &mut Net, n: u32) {
        let (from, message) = (if n == 1 { 2 } else { 1 }, Message::Decided { view: list_of_four(1) });
        net.tell(n, Event::Message(rank(from), Envelope { from: from.into(), to: n.into(), message }));
    }

    /// Found by reading: one of those that it asked had yet to hear of the view, and began it without a word to anybody.
    #[test]
    fn who_asked_one_that_had_yet_to_hear_of_the_view_asks_again() {
        let mut net = four();
        accepts(&mut net, 3);
        [1, 4, 3].into_iter().for_each(|n| is_told(&mut net, n));
        net.settle();
        let all = [(1, 1), (2, 2), (3, 3), (4, 4)];
        assert_eq!([1, 2, 3, 4].map(|n| net.members(n)), [&all[..], &[], &[], &all].map(Vec::from));
        assert!(net.core(3).asked_about().is_some(), "two of four say that they act, which is no majority");
        is_told(&mut net, 2);
        net.settle();
        assert_eq!([2, 3].map(|n| net.members(n)), [&all[..], &[]].map(Vec::from));
        // Nobody else wants anything.
        net.tell(3, Event::Hold(true));
        net.pass(300);
        assert_eq!(net.members(3), all);
    }

    /// Found by `weft fuzz members-storm` with four nodes: each of two waited for the other.
    #[test]
    fn two_that_each_accepted_a_list_give_up_a_view_that_cannot_act_without_them() {
        // Whether one wants something that acts there, or one of the two.
        for wants in 1..=4 {
            let mut net = four();
            [3, 4].into_iter().for_each(|n| accepts(&mut net, n));
            (1..=4).for_each(|n| is_told(&mut net, n));
            net.tell(wants, Event::Hold(true));
            net.pass(1_000);
            let all: Vec<(u32, u64)> = (1..=4).map(|n| (n, n.into())).collect();
            assert_eq!([1, 2, 3, 4].map(|n| net.members(n)), [&all; 4].map(Vec::clone), "{wants}");
        }
    }

    /// Else one that is in that view hears that it was given up, and leaves out a member that is coming in.
    #[test]
    fn one_that_asked_and_acts_now_is_counted_among_those_that_act() {
        let mut net = Net::empty(FIVE);
        net.boot(FIVE, 1);
        let list = |round| {
            let members = (1..=5).map(|n| Member { rank: rank(n), incarnation: n.into() }).collect();
            View { id: ViewId { lineage: Ballot { round, by: 2 }, number: 1 }, members, left: Vec::new() }
        };
        let accepted = Ballot { round: 1, by: 2 };
        let (next, view) = (list(1), list(2));
        let id = view.id;
        let says = [
            (2, 2, Message::Accept { after: ViewId::default(), ballot: accepted, next }),
            (3, 3, Message::Decided { view }),
            (2, 2, Message::Ask { view: id, accepted }),
            (2, 2, Message::Acts { view: id, accepted }),
            (5, 15, Message::Join),
        ];
        for (n, from, message) in says {
            net.tell(1, Event::Message(rank(n), Envelope { from, to: 1, message }));
        }
        assert!(net.core(1).asked_about().is_some(), "three of five may say that they act in it");
    }

    /// What would wait for it otherwise, for ever.
    #[test]
    fn who_accepted_a_list_gives_up_a_view_that_cannot_act_without_it() {
        let mut net = one_that_is_bound();
        let lineage = |net: &Net| net.core(1).view().map(|view| view.id.lineage);
        let first = lineage(&net);
        net.crash(2);
        net.boot(CONFIG, 2);
        net.tell(1, Event::Hold(true));
        net.pass(300);
        let all = [(1, 1), (2, 4), (3, 3)];
        assert_eq!([1, 2, 3].map(|n| net.members(n)), [all; 3]);
        assert!(lineage(&net) > first, "they began anew: {:?}", lineage(&net));
    }

    #[test]
    fn what_was_said_before_it_accepted_a_list_is_no_answer() {
        let mut net = one_that_is_bound();
        net.lost = |from, _, message| from == 2 && matches!(message, Message::Acts { .. });
        net.tell(1, Event::Hold(true));
        net.pass(60);
        assert_eq!(net.members(3), [], "one says that it acts, of the two that it takes");
        let (before, ballot) = (net.core(3).cold.accepted().unwrap().0, Ballot { round: 99, by: 2 });
        let view = net.core(1).view().unwrap().clone();
        let tell = |net: &mut Net, message| {
            net.tell(3, Event::Message(rank(2), Envelope { from: 2, to: 3, message }));
        };
        let next = View { id: ViewId { lineage: ballot, number: 1 }, ..view.clone() };
        tell(&mut net, Message::Accept { after: ViewId::default(), ballot, next });
        tell(&mut net, Message::Acts { view: view.id, accepted: before });
        assert_eq!(net.members(3), []);
    }
}
