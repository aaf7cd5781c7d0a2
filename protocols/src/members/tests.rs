//! Members among themselves: messages arrive at once and in order, unless a test says otherwise.

mod given_up;
mod leaving;

use super::*;
use crate::transport::Rank;
use std::collections::VecDeque;
use weft_verbs::Nanos;

pub(super) const CONFIG: MembersConfig =
    MembersConfig { nodes: 3, lease: Nanos(90), drift: Nanos(10), patience: Nanos(50) };

pub(super) fn rank(n: u32) -> Rank {
    Rank::new(n).unwrap()
}

pub(super) struct Net {
    pub(super) now: Nanos,
    nodes: Vec<Option<Core>>,
    boots: u64,
    pub(super) mail: VecDeque<(Rank, Rank, Envelope)>,
    /// Nodes that hear nothing and say nothing.
    away: Vec<u32>,
    held: Vec<(Rank, Rank, Envelope)>,
    /// A node that no view reaches.
    told_no_view: Option<u32>,
    seen: Vec<(u32, Action)>,
    /// What is lost on its way.
    pub(super) lost: fn(u32, u32, &Message) -> bool,
}

impl Net {
    pub(super) fn empty(config: MembersConfig) -> Net {
        Net {
            now: Nanos(1_000),
            nodes: (0..config.nodes).map(|_| None).collect(),
            boots: 0,
            mail: VecDeque::new(),
            away: Vec::new(),
            held: Vec::new(),
            told_no_view: None,
            seen: Vec::new(),
            lost: |_, _, _| false,
        }
    }

    fn new(config: MembersConfig) -> Net {
        let mut net = Net::empty(config);
        (1..=config.nodes).for_each(|n| net.boot(config, n));
        net.settle();
        net
    }

    pub(super) fn boot(&mut self, config: MembersConfig, n: u32) {
        self.boots += 1;
        let me = Member { rank: rank(n), incarnation: self.boots };
        self.nodes[n as usize - 1] = Some(Core::new(config, me));
        self.tell(n, Event::Begin);
    }

    pub(super) fn crash(&mut self, n: u32) {
        self.nodes[n as usize - 1] = None;
    }

    pub(super) fn core(&self, n: u32) -> &Core {
        self.nodes[n as usize - 1].as_ref().unwrap()
    }

    pub(super) fn tell(&mut self, n: u32, event: Event) {
        let mut out = Vec::new();
        let Some(core) = &mut self.nodes[n as usize - 1] else { return };
        core.on_event(self.now, event, &mut out);
        for action in out {
            match action {
                Action::Send(to, envelope) => self.mail.push_back((rank(n), to, envelope)),
                other => self.seen.push((n, other)),
            }
        }
    }

    /// Node 1 hears an incarnation of another one.
    fn hears(&mut self, n: u32, from: u64, message: Message) {
        self.tell(1, Event::Message(rank(n), Envelope { from, to: 1, message }));
    }

    /// Everything arrives, whatever is due is done.
    pub(super) fn settle(&mut self) {
        loop {
            while let Some((from, to, envelope)) = self.mail.pop_front() {
                if self.away.contains(&from.get()) || self.away.contains(&to.get()) {
                    self.held.push((from, to, envelope));
                    continue;
                }
                if (self.lost)(from.get(), to.get(), &envelope.message) {
                    continue;
                }
                let tells = match &envelope.message {
                    Message::Decided { .. } => true,
                    Message::Prepare { after, .. } => !after.members.is_empty(),
                    _ => false,
                };
                if tells && self.told_no_view == Some(to.get()) {
                    continue;
                }
                self.tell(to.get(), Event::Message(from, envelope));
            }
            let due = |core: &Core| core.deadline().is_some_and(|at| at <= self.now);
            let late = (1..).zip(&self.nodes).find(|(_, core)| core.as_ref().is_some_and(due));
            match late.map(|(n, _)| n) {
                Some(n) => self.tell(n, Event::Time),
                None => return,
            }
        }
    }

    pub(super) fn pass(&mut self, span: u64) {
        for _ in 0..span {
            self.now += Nanos(1);
            self.settle();
        }
    }

    fn all_are_back(&mut self) {
        self.away.clear();
        self.mail.extend(std::mem::take(&mut self.held));
        self.settle();
    }

    pub(super) fn members(&self, n: u32) -> Vec<(u32, u64)> {
        let members = self.core(n).view().map_or(&[][..], |view| &view.members);
        members.iter().map(|member| (member.rank.get(), member.incarnation)).collect()
    }
}

const ALL: [(u32, u64); 3] = [(1, 1), (2, 2), (3, 3)];

fn standing() -> Net {
    let mut net = Net::new(CONFIG);
    net.pass(300);
    assert!((1..=3).all(|n| net.members(n) == ALL), "{:?}", [1, 2, 3].map(|n| net.members(n)));
    net
}

#[test]
fn a_cold_start_agrees_on_a_view_and_grants_nothing_for_a_lease_and_the_drift() {
    let mut net = Net::new(CONFIG);
    let began = net.now;
    net.pass(1);
    assert_eq!(net.core(1).grants_from(), began + CONFIG.lease + CONFIG.drift);
    net.pass(300);
    let views: Vec<_> = (1..=3).map(|n| net.core(n).view().cloned()).collect();
    assert!(views[0].is_some() && views.iter().all(|view| *view == views[0]));
    assert_eq!(net.members(2), ALL);
}

#[test]
fn nothing_is_due_while_nothing_is_owed() {
    let net = standing();
    assert_eq!([1, 2, 3].map(|n| net.core(n).deadline()), [None; 3]);
}

#[test]
fn a_lease_is_kept_while_something_is_held_and_no_longer() {
    let mut net = standing();
    assert!(net.core(2).lease_until() < net.now);
    net.tell(2, Event::Hold(true));
    let sent = net.now;
    net.settle();
    assert_eq!(net.core(2).lease_until(), sent + CONFIG.lease);
    net.pass(500);
    assert!(net.core(2).lease_until() > net.now);
    net.tell(2, Event::Hold(false));
    net.settle();
    net.pass(1_000);
    assert!(net.core(2).lease_until() < net.now && net.core(2).deadline().is_none());
}

#[test]
fn a_member_that_is_waited_for_and_silent_is_left_out_and_what_it_held_waits_for_its_lease() {
    let mut net = standing();
    net.tell(3, Event::Hold(true));
    net.settle();
    net.away = vec![3];
    net.tell(1, Event::Watch(rank(3), true));
    net.settle();
    net.pass(CONFIG.patience.0);
    assert_eq!(net.members(1), [(1, 1), (2, 2)]);
    assert_eq!(net.members(2), net.members(1));
    let free = net.core(1).grants_from();
    assert_eq!(free, net.now + CONFIG.lease + CONFIG.drift);
    assert!(net.core(3).lease_until() < free);
    // It hung for a minute, and wakes up: nobody renews its lease, and it learns that it is out.
    net.pass(60_000);
    assert!(net.core(3).lease_until() < net.now);
    net.all_are_back();
    assert!(net.core(3).is_out() && net.core(3).view().is_none());
    assert!(net.seen.contains(&(3, Action::Out)));
    net.tell(3, Event::Hold(true));
    net.settle();
    assert!(net.core(3).lease_until() < net.now);
}

#[test]
fn a_clock_may_jump_ahead_by_the_drift_and_by_more_only_as_long_as_the_view_took() {
    let mut net = standing();
    net.tell(3, Event::Hold(true));
    net.settle();
    let sent = net.now;
    net.away = vec![3];
    net.tell(1, Event::Watch(rank(3), true));
    net.settle();
    net.pass(CONFIG.patience.0);
    let (lease, free) = (net.core(3).lease_until(), net.core(1).grants_from());
    // By a clock that has jumped ahead so far, others grant so much earlier.
    let granted = |jump: u64| free - Nanos(jump);
    assert!(granted(CONFIG.drift.0) >= lease, "by the drift");
    let took = net.now - sent;
    assert!(granted(CONFIG.drift.0 + took.0) >= lease && granted(CONFIG.drift.0 + took.0 + 1) < lease);
}

#[test]
fn who_missed_a_view_waits_for_the_leases_of_those_of_whom_it_never_heard() {
    for (steps, waits) in [(1, false), (2, true)] {
        let mut net = standing();
        let View { id, members, left } = net.core(3).view().cloned().unwrap();
        let view = View { id: ViewId { number: id.number + steps, ..id }, members, left };
        let envelope = Envelope { from: 1, to: 3, message: Message::Decided { view } };
        net.tell(3, Event::Message(rank(1), envelope));
        assert_eq!(net.core(3).grants_from() == net.now + CONFIG.lease + CONFIG.drift, waits);
    }
}

#[test]
fn a_node_that_restarts_comes_in_through_a_view_in_the_place_of_its_earlier_life() {
    let mut net = standing();
    net.crash(2);
    net.boot(CONFIG, 2);
    net.settle();
    net.pass(10);
    assert_eq!(net.members(1), [(1, 1), (2, 4), (3, 3)]);
    assert_eq!(net.members(2), net.members(1));
    let left = vec![Member { rank: rank(2), incarnation: 2 }];
    assert!(
        net.seen
            .iter()
            .any(|(n, action)| *n == 3 && matches!(action, Action::Install { left: l, .. } if *l == left))
    );
    // What its earlier life still says is void.
    let before = net.core(1).clone();
    let envelope = Envelope { from: 2, to: 1, message: Message::Leave };
    net.tell(1, Event::Message(rank(2), envelope));
    assert_eq!(format!("{before:?}"), format!("{:?}", net.core(1)));
}

/// A node that is out could take others along if they believed whatever it says of them.
#[test]
fn that_it_was_expelled_is_believed_of_a_later_view_of_a_lineage_that_was_not_given_up() {
    let mut net = standing();
    let id = net.core(2).view().unwrap().id;
    let later = |by: u64| ViewId { number: id.number + by, ..id };
    assert_eq!(ViewId::of_grounds(later(3).grounds()), later(3));
    let other = ViewId { lineage: Ballot { round: 9, ..id.lineage }, number: 1 };
    let is_out = |net: &Net, view| {
        let mut core = net.core(2).clone();
        core.on_event(net.now, Event::Expelled(view), &mut Vec::new());
        core.is_out()
    };
    let believed = [ViewId::default(), later(0), later(1), other].map(|view| is_out(&net, view));
    assert_eq!(
        believed,
        [false, false, true, true],
        "on no grounds, in its own view, a later one, elsewhere"
    );
    // A majority restarts: it gives the view up, and is in another one.
    for n in [1, 3] {
        net.crash(n);
        net.boot(CONFIG, n);
    }
    net.settle();
    net.pass(1_000);
    assert_eq!(net.members(2).len(), 3);
    assert!(!is_out(&net, later(5)), "of a lineage that it gave up");
}

const FOUR: MembersConfig = MembersConfig { nodes: 4, ..CONFIG };

/// Of four nodes the first has heard of the others when none had a view, and comes late. When it does, they leave the fourth out.
fn late_comer(told_no_view: Option<u32>) -> Net {
    let mut net = Net { told_no_view, ..Net::empty(FOUR) };
    net.away = vec![1];
    (1..=4).for_each(|n| net.boot(FOUR, n));
    net.settle();
    net.pass(1_000);
    assert_eq!(net.members(2), [(2, 2), (3, 3), (4, 4)]);
    for (from, _, envelope) in net.held.extract_if(.., |(_, to, _)| *to == rank(1)).collect::<Vec<_>>() {
        net.tell(1, Event::Message(from, envelope));
    }
    net.away = vec![4, 1];
    net.tell(2, Event::Watch(rank(4), true));
    net.pass(1_000);
    assert_eq!(net.members(2).len(), 3, "two of four are no view");
    net.away = vec![4];
    net
}

const WITHOUT: [(u32, u64); 3] = [(1, 1), (2, 2), (3, 3)];

/// The first by rank proposes.
#[test]
fn who_comes_in_does_not_bring_back_whom_the_members_have_left_out() {
    let mut net = late_comer(None);
    net.mail.extend(std::mem::take(&mut net.held));
    net.pass(1_000);
    assert_eq!([1, 2, 3].map(|n| net.members(n)), [WITHOUT; 3].map(Vec::from));
    net.all_are_back();
    net.pass(1_000);
    assert_eq!([1, 2, 3].map(|n| net.members(n)), [WITHOUT; 3].map(Vec::from));
    assert!(net.core(4).is_out(), "it learns so");
}

/// `weft fuzz swarm-16-dsm-members` found it (seeds 56010 and 60479): it says that it has no view, which is true, and the members bar it.
#[test]
fn who_comes_in_does_not_bring_back_one_who_never_heard_of_the_view_that_left_it_out() {
    let mut net = late_comer(Some(4));
    net.mail.extend(std::mem::take(&mut net.held));
    net.pass(1_000);
    net.all_are_back();
    assert_eq!([1, 2, 3].map(|n| net.members(n)), [WITHOUT; 3].map(Vec::from));
    assert!(net.core(4).view().is_none() && !net.core(4).is_out());
    let view = net.core(1).view().cloned().unwrap();
    net.tell(4, Event::Message(rank(1), Envelope { from: 1, to: 4, message: Message::Decided { view } }));
    assert!(net.core(4).is_out(), "it learns so");
}

/// It says so once, and those who have heard it may be gone.
#[test]
fn who_comes_in_asks_those_who_have_no_view_whether_they_still_wait() {
    let mut net = late_comer(None);
    net.crash(4);
    net.boot(FOUR, 4);
    let joins = std::mem::take(&mut net.mail);
    let heard = joins.into_iter().find(|(_, to, _)| *to == rank(1)).expect("it tells all");
    net.tell(1, Event::Message(heard.0, heard.2));
    net.held.retain(|(from, to, _)| *from != rank(4) && *to != rank(4));
    net.all_are_back();
    net.pass(1_000);
    let all = [WITHOUT.as_slice(), &[(4, 5)]].concat();
    assert_eq!([1, 4].map(|n| net.members(n)), [all.clone(), all]);
}

/// One who knew where this one acts says nothing of itself when it has gone elsewhere: it answers, and no more.
/// Found by `weft fuzz members-storm`: an incarnation that had restarted long ago was let in, the one after it was left out for good, and nobody
/// who came in later knew that.
#[test]
fn who_wants_to_come_in_is_asked_when_a_view_names_another_incarnation_of_its_node() {
    let mut net = Net::empty(CONFIG);
    net.boot(CONFIG, 1);
    net.hears(3, 3, Message::Join);
    let members = [(1, 1), (2, 2), (3, 13)].map(|(n, incarnation)| Member { rank: rank(n), incarnation });
    let id = ViewId { lineage: Ballot { round: 1, by: 2 }, number: 1 };
    net.mail.clear();
    net.hears(2, 2, Message::Decided { view: View { id, members: members.into(), left: Vec::new() } });
    let ping = Envelope { from: 1, to: 3, message: Message::Ping { view: id } };
    assert!(net.mail.contains(&(rank(1), rank(3), ping)));
    assert!(net.core(1).joiners.is_empty());
    net.hears(3, 3, Message::Pong { view: ViewId::default() });
    assert_eq!(net.core(1).joiners.values().map(|joiner| joiner.incarnation).collect::<Vec<_>>(), [3]);
}

#[test]
fn those_who_are_left_of_a_view_learn_by_any_answer_that_the_others_act_elsewhere() {
    let view = standing().core(1).view().unwrap().id;
    let elsewhere = ViewId { lineage: Ballot { round: 9, ..view.lineage }, number: 1 };
    let none = ViewId::default();
    for (pong, loses) in [(view, false), (none, false), (elsewhere, true)] {
        for message in [Message::Pong { view: pong }, Message::Ping { view: pong }] {
            let mut net = standing();
            let join = Envelope { from: 12, to: 1, message: Message::Join };
            net.tell(1, Event::Message(rank(2), join));
            assert!(net.core(1).view().is_some(), "two of three are left");
            net.tell(1, Event::Message(rank(3), Envelope { from: 3, to: 1, message }));
            assert_eq!(net.core(1).view().is_none(), loses, "{pong:?}");
        }
    }
}

#[test]
fn who_wants_to_leave_is_out_of_the_next_view_and_a_view_keeps_a_majority_of_the_nodes() {
    let mut net = standing();
    net.tell(3, Event::Leave);
    net.settle();
    net.pass(200);
    assert_eq!(net.members(1), [(1, 1), (2, 2)]);
    assert!(net.core(3).is_out());
    net.tell(2, Event::Leave);
    net.settle();
    net.pass(200);
    assert_eq!(net.members(1), [(1, 1), (2, 2)], "one of three is no majority");
}

#[test]
fn who_wants_to_leave_before_the_first_view_is_in_it_if_that_would_be_too_small_without_it() {
    for (up, leave, members) in [
        (&[1, 2][..], &[1][..], &[1, 2][..]),
        (&[1, 2], &[2], &[1, 2]),
        (&[1, 2], &[1, 2], &[1, 2]),
        (&[1, 2, 3], &[1], &[2, 3]),
    ] {
        let mut net = Net::empty(CONFIG);
        up.iter().for_each(|n| net.boot(CONFIG, *n));
        leave.iter().for_each(|n| net.tell(*n, Event::Leave));
        net.settle();
        net.pass(500);
        for n in members {
            let view = net.core(*n).view().unwrap_or_else(|| panic!("{n} has no view: {up:?} {leave:?}"));
            let of: Vec<_> = view.members.iter().map(|member| member.rank.get()).collect();
            assert_eq!(of, members, "{up:?} {leave:?}");
            assert_eq!(net.core(*n).deadline(), None, "nothing more is due");
        }
    }
}

#[test]
fn without_a_majority_there_is_no_view_and_no_lease_and_nothing_is_tried_again() {
    let mut net = standing();
    net.crash(2);
    net.crash(3);
    net.tell(1, Event::Hold(true));
    net.tell(1, Event::Watch(rank(2), true));
    net.settle();
    net.pass(500);
    assert_eq!(net.members(1), ALL);
    assert!(net.core(1).lease_until() < net.now);
    net.tell(1, Event::Hold(false));
    net.settle();
    assert_eq!(net.core(1).deadline(), None);
}

/// Node 1, without a view, has accepted a list from node 2 which names an incarnation of node 3 that it has not heard of; then it
/// hears of another one.
fn of_two_incarnations_one_is_listed_and_one_speaks() -> Net {
    let mut net = Net::empty(CONFIG);
    net.boot(CONFIG, 1);
    let ballot = Ballot { round: 1, by: 2 };
    let members = [(1, 1), (2, 2), (3, 13)].map(|(n, incarnation)| Member { rank: rank(n), incarnation });
    let next = View { id: ViewId { lineage: ballot, number: 1 }, members: members.into(), left: Vec::new() };
    net.hears(2, 2, Message::Accept { after: ViewId::default(), ballot, next });
    net.mail.clear();
    net.hears(3, 3, Message::Join);
    net
}

/// Found by the world `members-cold-crash`: it was taken for dead, and left out alive.
#[test]
fn a_newer_incarnation_that_a_list_names_is_heeded_after_the_last_words_of_the_older_one() {
    let mut net = of_two_incarnations_one_is_listed_and_one_speaks();
    let none = ViewId::default();
    let to_it = |message| (rank(1), rank(3), Envelope { from: 1, to: 13, message });
    assert!(net.mail.contains(&to_it(Message::Ping { view: none })), "it is asked whether it lives");
    net.mail.clear();
    net.hears(3, 13, Message::Ping { view: none });
    assert_eq!(net.mail, [to_it(Message::Pong { view: none })]);
    net.mail.clear();
    net.hears(3, 3, Message::Ping { view: none });
    assert_eq!(net.mail, [], "the older one is no more");
}

/// It may have died before it spoke to this member, which would be bound to that list for ever.
#[test]
fn an_incarnation_that_a_list_names_is_taken_for_dead_while_another_one_speaks_and_it_is_silent() {
    let mut net = of_two_incarnations_one_is_listed_and_one_speaks();
    net.hears(2, 12, Message::Join);
    net.pass(49);
    assert!(net.core(1).is_bound(), "two of three may be left of that list");
    net.pass(1);
    assert!(!net.core(1).is_bound());
    net.hears(3, 13, Message::Join);
    assert!(net.core(1).is_bound(), "it was slow");
}

#[test]
fn one_that_cannot_reach_a_member_is_told_that_another_can() {
    let mut net = standing();
    let about = Member { rank: rank(3), incarnation: 3 };
    net.hears(2, 2, Message::Complaint { about });
    net.settle();
    net.pass(500);
    assert_eq!(net.members(1), ALL);
    assert_eq!(net.core(1).deadline(), None);
}

#[test]
fn a_cluster_of_one_is_a_majority_of_itself() {
    let config = MembersConfig { nodes: 1, ..CONFIG };
    let mut net = Net::new(config);
    assert_eq!(net.members(1), [(1, 1)]);
    net.tell(1, Event::Hold(true));
    net.settle();
    assert_eq!(net.core(1).lease_until(), net.now + CONFIG.lease);
}
