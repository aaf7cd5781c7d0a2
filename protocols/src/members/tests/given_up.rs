//! Views that are given up, since too few of their members are left: who begins anew, and who learns that it is over.

use super::*;

#[test]
fn when_a_majority_has_restarted_the_rest_gives_its_view_up_and_begins_anew_with_it() {
    let mut net = standing();
    let before = net.core(1).view().unwrap().id;
    net.tell(1, Event::Hold(true));
    net.settle();
    net.crash(2);
    net.crash(3);
    net.boot(CONFIG, 2);
    net.settle();
    net.boot(CONFIG, 3);
    net.settle();
    net.pass(300);
    assert!(net.seen.iter().any(|(n, action)| (*n, action) == (1, &Action::Lost)));
    assert_eq!(net.members(2), [(1, 1), (2, 4), (3, 5)]);
    // The same member proposed both: a lineage is a proposal, not a proposer.
    assert_ne!(net.core(1).view().unwrap().id.lineage, before.lineage);
    assert_eq!([1, 3].map(|n| net.members(n)), [net.members(2), net.members(2)]);
}

#[test]
fn a_view_that_was_given_up_is_not_begun_again_whoever_speaks_of_it() {
    let mut net = standing();
    let view = net.core(1).view().unwrap().clone();
    net.crash(2);
    net.crash(3);
    for (n, incarnation) in [(2, 12), (3, 13)] {
        net.hears(n, incarnation, Message::Join);
    }
    assert_eq!(net.seen.last(), Some(&(1, Action::Lost)));
    net.hears(2, 12, Message::Decided { view });
    assert_eq!(net.seen.last(), Some(&(1, Action::Lost)));
    assert!(net.core(1).view().is_none());
}

/// Found by a swarm of 16 nodes: those who act in a view waited for one that had given it up, and those without a view for those who act in one.
#[test]
fn those_who_are_left_of_a_view_are_told_by_one_that_has_given_it_up() {
    let five = MembersConfig { nodes: 5, ..CONFIG };
    let mut net = Net::new(five);
    net.pass(300);
    let view = net.core(1).view().unwrap().id;
    net.crash(4);
    net.crash(5);
    let elsewhere = ViewId { lineage: Ballot { round: 9, ..view.lineage }, number: 1 };
    let heard = [(4, 14, Message::Join), (5, 15, Message::Join), (2, 2, Message::Pong { view: elsewhere })];
    for (n, from, message) in heard {
        net.tell(3, Event::Message(rank(n), Envelope { from, to: 3, message }));
    }
    assert!(net.core(3).view().is_none(), "as far as it knows only two of five act");
    net.boot(five, 4);
    net.boot(five, 5);
    net.settle();
    net.pass(1_000);
    assert_eq!(net.members(1), [(1, 1), (2, 2), (3, 3), (4, 6), (5, 7)]);
    assert!((2..=5).all(|n| net.core(n).view() == net.core(1).view()));
}

/// It would be waited for, and have no view: its view goes on without it.
#[test]
fn one_that_has_given_up_a_view_that_goes_on_is_left_out_of_the_next_one() {
    let mut net = standing();
    let view = net.core(1).view().unwrap().id;
    let elsewhere = ViewId { lineage: Ballot { round: 9, ..view.lineage }, number: 1 };
    for n in [1, 2] {
        let message = Message::Pong { view: elsewhere };
        net.tell(3, Event::Message(rank(n), Envelope { from: n.into(), to: 3, message }));
    }
    assert!(net.core(3).view().is_none(), "as far as it knows nobody else acts");
    net.settle();
    net.pass(1_000);
    assert_eq!([1, 2].map(|n| net.members(n)), [[(1, 1), (2, 2)]; 2].map(Vec::from));
    // Who leaves it out refuses it.
    net.tell(3, Event::Expelled(net.core(1).view().unwrap().id));
    assert!(net.core(3).is_out());
    net.boot(CONFIG, 3);
    net.settle();
    net.pass(1_000);
    assert_eq!([1, 2, 3].map(|n| net.members(n)), [[(1, 1), (2, 2), (3, 4)]; 3].map(Vec::from));
}

/// Of those who have begun anew it need not hear in which view they act now.
#[test]
fn who_says_that_it_has_no_view_acts_in_none_any_more() {
    let view = standing().core(1).view().unwrap().id;
    let elsewhere = ViewId { lineage: Ballot { round: 9, ..view.lineage }, number: 1 };
    let mut net = standing();
    let heard = [(2, 2, Message::Pong { view: elsewhere }), (2, 2, Message::Join), (3, 13, Message::Join)];
    for (n, from, message) in heard {
        net.hears(n, from, message);
    }
    assert!(net.core(1).view().is_some(), "two of three may act in it");
}

/// Found by the world `members-cold-crash`: it gave up a view that it is in, whose members could well act without it, and they left it out.
#[test]
fn who_tells_of_a_view_without_itself_does_not_act_in_it() {
    let mut net = Net::empty(CONFIG);
    net.boot(CONFIG, 1);
    let list = |round, number, third| {
        let members = [(1, 1), (2, 2), (3, third)];
        let members = members.map(|(n, incarnation)| Member { rank: rank(n), incarnation }).into();
        View { id: ViewId { lineage: Ballot { round, by: 13 }, number }, members, left: Vec::new() }
    };
    net.hears(3, 3, Message::Join);
    net.hears(3, 13, Message::Join);
    let (next, ballot) = (list(1, 1, 13), Ballot { round: 1, by: 2 });
    net.hears(2, 2, Message::Accept { after: ViewId::default(), ballot, next });
    // It had accepted this list before it restarted, and has finished it since.
    net.hears(3, 13, Message::Decided { view: list(2, 1, 3) });
    net.mail.clear();
    let view = list(3, 2, 13);
    net.hears(2, 2, Message::Decided { view: view.clone() });
    let ask = |n, to| {
        let message = Message::Ask { view: view.id, accepted: ballot };
        (rank(1), rank(n), Envelope { from: 1, to, message })
    };
    assert_eq!(net.mail, [ask(2, 2), ask(3, 13)]);
}

/// It was in the list that it had accepted itself, declined it by what it knew of the view before, and was left out for that.
#[test]
fn those_who_gave_up_the_same_view_do_not_act_there_any_more() {
    let eight = MembersConfig { nodes: 8, ..CONFIG };
    let mut net = Net::new(eight);
    net.pass(300);
    let view = net.core(1).view().unwrap().id;
    (2..=4).for_each(|n| net.hears(n, n.into(), Message::Pong { view }));
    (5..=8).for_each(|n| net.hears(n, u64::from(n) + 10, Message::Join));
    assert_eq!(net.seen.last(), Some(&(1, Action::Lost)));
    // The others' word that they have lost it, too, comes later.
    let members = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 15), (6, 16)];
    let list = members.map(|(n, incarnation)| Member { rank: rank(n), incarnation }).into();
    let ballot = Ballot { round: 9, by: 15 };
    let next = View { id: ViewId { lineage: ballot, number: 1 }, members: list, left: Vec::new() };
    net.hears(5, 15, Message::Accept { after: ViewId::default(), ballot, next: next.clone() });
    net.hears(5, 15, Message::Decided { view: next });
    assert_eq!(net.members(1), members);
}

/// It would be in a view in which it never says anything.
#[test]
fn who_says_that_it_has_a_view_is_wanted_in_no_other() {
    let mut net = Net::empty(CONFIG);
    net.boot(CONFIG, 1);
    net.hears(2, 2, Message::Join);
    let elsewhere = ViewId { lineage: Ballot { round: 9, by: 2 }, number: 1 };
    net.hears(2, 2, Message::Pong { view: elsewhere });
    net.hears(3, 3, Message::Join);
    net.mail.clear();
    let (none, ballot) = (ViewId::default(), Ballot { round: 2, by: 1 });
    net.hears(3, 3, Message::Promise { after: none, ballot, accepted: None });
    let wanted = net.mail.iter().find_map(|(.., envelope)| match &envelope.message {
        Message::Accept { next, .. } => Some(next.members.clone()),
        _ => None,
    });
    let both = [(1, 1), (3, 3)].map(|(n, incarnation)| Member { rank: rank(n), incarnation });
    assert_eq!(wanted, Some(both.to_vec()));
}

/// It waits for an answer from whoever was told of the view.
#[test]
fn who_declined_two_views_says_so_of_each() {
    let mut net = Net::empty(CONFIG);
    net.boot(CONFIG, 1);
    for (n, incarnation) in [(2, 2), (3, 3), (2, 12), (3, 13)] {
        net.hears(n, incarnation, Message::Join);
    }
    let view = |round| {
        let members = [1, 2, 3].map(|n| Member { rank: rank(n), incarnation: n.into() }).into();
        View { id: ViewId { lineage: Ballot { round, by: 2 }, number: 1 }, members, left: Vec::new() }
    };
    for round in [7, 8] {
        net.hears(2, 12, Message::Decided { view: view(round) });
    }
    for round in [7, 8] {
        net.mail.clear();
        let view = view(round).id;
        net.hears(3, 13, Message::Ask { view, accepted: Ballot { round: 1, by: 3 } });
        let says = Envelope { from: 1, to: 13, message: Message::GivenUp { view } };
        assert!(net.mail.contains(&(rank(1), rank(3), says)));
    }
}

/// It waits for ever otherwise: all whom a view leaves out alive are refused by those who are in it.
#[test]
fn one_that_came_back_to_a_lineage_that_it_gave_up_believes_that_it_is_out_of_a_later_view() {
    let mut net = standing();
    let mut view = net.core(1).view().unwrap().clone();
    for (n, incarnation) in [(2, 12), (3, 13)] {
        net.hears(n, incarnation, Message::Join);
    }
    assert_eq!(net.seen.last(), Some(&(1, Action::Lost)));
    let given_up = view.id;
    let later = |by: u64| ViewId { number: given_up.number + by, ..given_up };
    let is_out = |net: &Net, view| {
        let mut core = net.core(1).clone();
        core.on_event(net.now, Event::Expelled(view), &mut Vec::new());
        core.is_out()
    };
    assert_eq!([later(0), later(1)].map(|view| is_out(&net, view)), [false, true]);
    // The lineage was not dead: it goes on with those who have restarted, and with this one.
    view.id = later(1);
    view.members.iter_mut().skip(1).for_each(|member| member.incarnation += 10);
    net.hears(2, 12, Message::Decided { view: view.clone() });
    assert_eq!(net.core(1).view(), Some(&view));
    assert_eq!([later(0), later(1), later(2)].map(|view| is_out(&net, view)), [false, false, true]);
}

/// Found by reading: it hears nothing of the one that has restarted, and nobody of that lineage knows that it is there.
#[test]
fn one_that_a_link_keeps_from_those_who_began_anew_hears_of_them_from_another_one() {
    let mut net = standing();
    net.lost = |from, to, _| from + to == 5;
    net.crash(1);
    net.crash(2);
    net.boot(CONFIG, 1);
    net.boot(CONFIG, 2);
    net.settle();
    net.pass(300);
    assert_eq!([1, 3].map(|n| net.members(n)), [&[(1, 4), (2, 5)][..], &ALL].map(Vec::from));
    assert_eq!(net.core(3).deadline(), None, "nothing is owed");
    net.tell(3, Event::Hold(true));
    net.pass(300);
    assert_eq!([1, 2, 3].map(|n| net.members(n)), [[(1, 4), (2, 5), (3, 3)]; 3].map(Vec::from));
    assert!(net.core(3).lease_until() > net.now, "one of the others renews it");
}

/// It is listed there, too, and all wait for it.
#[test]
fn one_that_acts_in_a_view_of_the_dead_gives_it_up_when_another_view_names_their_next_incarnations() {
    let view = |round| {
        let members =
            [(1, 1), (2, 12), (3, 13)].map(|(n, incarnation)| Member { rank: rank(n), incarnation });
        let id = ViewId { lineage: Ballot { round, by: 13 }, number: 1 };
        View { id, members: members.into(), left: Vec::new() }
    };
    for answers in [false, true] {
        let mut net = standing();
        let id = net.core(1).view().unwrap().id;
        net.hears(3, 13, Message::Join);
        net.hears(2, 2, Message::Pong { view: id });
        net.mail.clear();
        net.hears(3, 13, Message::Decided { view: view(9) });
        let ping = Envelope { from: 1, to: 2, message: Message::Ping { view: id } };
        assert!(net.mail.contains(&(rank(1), rank(2), ping)), "it is asked whether it is there");
        net.mail.clear();
        net.away = vec![2, 3];
        if answers {
            net.hears(2, 2, Message::Pong { view: id });
        }
        net.pass(CONFIG.patience.0);
        assert_eq!(net.core(1).view().is_some(), answers);
    }
}
