//! The link's promises, with a session on top, in a world that loses, delays, reorders and breaks.

#[path = "link_tests/world.rs"]
mod world;

use super::*;
use proptest::prelude::*;
use weft_verbs::CmId;
use world::{BUFFERS, Packet, World};

/// A manager's connection on a rail.
fn on(rail: u8, id: u64) -> ConnId {
    ConnId { rail, id: CmId(id) }
}

/// The lower rank's link, over so many rails.
fn alone(rails: u8) -> Link {
    Link::new(Rank::from_index(0), Rank::from_index(1), 1, rails, Down::default())
}

/// After these steps, once faults have stopped, everything that was sent is delivered once and in order.
fn all_is_delivered(mut world: World, steps: Vec<(u8, u16)>) -> Result<(), TestCaseError> {
    world.run(steps);
    world.heal();
    for from in 0..2 {
        let sent: Vec<u64> = (1..=world.ends[from].pushed).collect();
        prop_assert_eq!(world.delivered(from), sent);
        prop_assert_eq!(world.ends[from].session.kept(), 0);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Without restarts, everything that was sent is delivered once and in order, and at every moment at
    /// which a connection is reported to stand, no operation of an older one can execute.
    #[test]
    fn messages_survive_any_connection_management(
        steps in prop::collection::vec((0u8..250, any::<u16>()), 0..300),
    ) {
        all_is_delivered(World::new(), steps)?;
    }

    /// The same over two rails, whose ports lose their links and have them again, and to whose first one connections go back.
    #[test]
    fn messages_survive_rails_that_come_and_go(
        steps in prop::collection::vec((0u8..250, any::<u16>()), 0..300),
    ) {
        all_is_delivered(World::railed(), steps)?;
    }

    /// The same with connections that stand by, of which either end may lose its own.
    #[test]
    fn messages_survive_connections_that_stand_by(
        steps in prop::collection::vec((0u8..250, any::<u16>()), 0..300),
    ) {
        all_is_delivered(World::ahead(), steps)?;
    }

    /// The same where the first connection was made by other means, whatever comes between the two adoptions.
    #[test]
    fn messages_survive_the_adoption_of_a_connection(
        steps in prop::collection::vec((0u8..250, any::<u16>()), 0..300),
    ) {
        all_is_delivered(World::prepared(), steps)?;
    }

    /// Each has expelled earlier boots of the other, or was refused by them, in whatever order: what both say once one view has
    /// both is heard.
    #[test]
    fn two_that_are_in_one_view_reach_each_other(
        steps in prop::collection::vec((any::<u8>(), any::<u16>()), 0..200),
    ) {
        let mut world = World::among_members();
        world.run(steps);
        world.all_come_in();
        (0..2).for_each(|at| world.push(at));
        world.heal();
        // What was said to one who had yet to connect, where another one had been met, was refused.
        (0..2).for_each(|at| world.push(at));
        let last = [0, 1].map(|at| world.ends[at].pushed);
        world.heal();
        for (from, last) in last.into_iter().enumerate() {
            prop_assert!(!world.ends[from].gone, "{from} takes the other one for gone");
            prop_assert_eq!(world.delivered(from).last().copied(), Some(last));
        }
    }

    /// With restarts, what is sent after the last one is delivered, and nothing twice.
    #[test]
    fn a_restarted_peer_is_met_anew(
        steps in prop::collection::vec((any::<u8>(), any::<u16>()), 0..300),
    ) {
        let mut world = if steps.len() % 2 == 0 { World::new() } else { World::ahead() };
        world.run(steps);
        // Whoever still holds a connection to a dead incarnation notices by using it.
        world.push(0);
        world.push(1);
        world.heal();
        world.push(0);
        world.push(1);
        world.heal();
        for from in 0..2 {
            let got = world.delivered(from);
            prop_assert_eq!(got.last(), Some(&world.ends[from].pushed));
        }
    }
}

#[test]
fn the_lower_ranks_request_wins_when_two_cross() {
    let mut world = World::new();
    world.push(0);
    world.push(1);
    world.node(0);
    world.node(1);
    // Both requests are out; each arrives.
    assert_eq!(world.datagrams.len(), 2);
    for (to, packet) in std::mem::take(&mut world.datagrams) {
        world.arrive(to, packet);
    }
    world.node(0);
    world.node(1);
    assert!(matches!(world.ends[0].link.state, State::Asking(_)), "the lower rank stays with its own");
    assert!(matches!(world.ends[1].link.state, State::Accepting(..)), "the higher rank gives its own up");
    world.heal();
    assert_eq!((world.delivered(0), world.delivered(1)), (vec![1], vec![1]));
}

#[test]
fn an_adopted_connection_carries_messages_without_the_connection_manager() {
    let mut world = World::prepared();
    world.adopt(0);
    world.push(0);
    world.pump(0);
    world.heal();
    world.push(1);
    world.heal();
    assert_eq!((world.delivered(0), world.delivered(1)), (vec![1], vec![1]));
    assert!(world.ends.iter().all(|e| e.link.state == State::Up(None)));
    assert!(world.datagrams.is_empty() && world.next == 4, "nothing was asked for");
    world.break_qp(1);
    world.push(0);
    world.heal();
    assert_eq!(world.delivered(0), [1, 2]);
    assert!(world.ends.iter().all(|e| matches!(e.link.state, State::Up(Some(_)))), "made anew");
}

#[test]
fn a_link_that_nobody_wants_stays_idle() {
    let mut world = World::new();
    world.push(0);
    world.heal();
    assert!(world.ends.iter().all(|e| e.link.is_up() && e.session.kept() == 0));
    world.break_qp(0);
    world.heal();
    assert!(world.ends.iter().all(|e| e.link.state == State::Idle));
    assert!(world.datagrams.is_empty());
}

#[test]
fn a_request_that_was_overtaken_is_refused_as_stale() {
    let mut world = World::new();
    world.push(0);
    world.node(0);
    let (_, old) = world.datagrams[0];
    world.heal();
    world.break_qp(0);
    world.push(0);
    world.heal();
    assert!(world.ends[1].link.is_up());
    world.arrive(1, old);
    world.node(1);
    assert!(world.ends[1].link.is_up(), "the standing connection is left alone");
    assert!(matches!(
        world.datagrams[..],
        [(0, Packet::Reject { refusal: Refusal::Stale { floor: 2 }, .. })]
    ));
}

/// A hello of the higher rank, to be met by the lower one.
fn hello_of(incarnation: u64, generation: u32) -> Hello {
    Hello {
        lease: 0,
        lacks_atomics: false,
        rank: Rank::from_index(1),
        to: Rank::from_index(0),
        session: incarnation,
        with: 1,
        generation,
        buffers: BUFFERS,
        max_message: 0,
        received: 0,
    }
}

fn actions(link: &mut Link, event: Event) -> Vec<Action> {
    let mut actions = Vec::new();
    link.on_event(event, true, &mut actions);
    actions
}

/// The lower rank's link, connected to an incarnation of the higher one.
fn met(incarnation: u64, generation: u32) -> Link {
    let mut link = alone(1);
    meet(&mut link, on(0, 1), incarnation, generation);
    link
}

fn meet(link: &mut Link, id: ConnId, incarnation: u64, generation: u32) {
    actions(link, Event::Request(id, hello_of(incarnation, generation)));
    if link.is_draining() {
        actions(link, Event::Drained);
    }
    actions(link, Event::Established(id));
    assert!(link.is_up());
}

/// The explorer found it: such a message counted in the session with the peer's incarnation before, and came again in the next one.
#[test]
fn what_arrives_at_a_connection_that_never_stood_does_not_count_when_that_drains() {
    let mut link = met(2, 1);
    actions(&mut link, Event::Request(on(0, 2), hello_of(3, 1)));
    assert!(link.accepts_frames(), "the connection with its incarnation before stood, and drains");
    actions(&mut link, Event::Drained);
    assert!(!link.accepts_frames(), "the next one does not stand yet");
    actions(&mut link, Event::Disconnected(on(0, 2)));
    assert!(link.is_draining() && !link.accepts_frames(), "and never stood");
    actions(&mut link, Event::Drained);
    assert!(!link.accepts_frames());
}

/// A connection manager may say so of a request that was accepted, and whoever waits for the connection would wait for ever.
#[test]
fn one_that_was_accepted_and_turns_the_connection_down_is_asked_in_its_turn() {
    let mut link = alone(1);
    actions(&mut link, Event::Request(on(0, 1), hello_of(2, 1)));
    assert_eq!(actions(&mut link, Event::Rejected(on(0, 2), None)), [], "another one's");
    assert_eq!(actions(&mut link, Event::Rejected(on(0, 1), None)), [Action::Fence]);
    assert_eq!(actions(&mut link, Event::Drained), [Action::Resolve(0)]);
}

/// The lower rank's link of two rails, connected over the first.
fn met_on_rails() -> Link {
    let mut link = alone(2);
    meet(&mut link, on(0, 1), 2, 1);
    link
}

#[test]
fn a_connection_that_broke_is_made_again_over_the_next_rail() {
    let mut link = met_on_rails();
    assert_eq!(actions(&mut link, Event::Broken), [Action::Fence, Action::Disconnect(on(0, 1))]);
    assert_eq!(actions(&mut link, Event::Drained), [Action::Resolve(1)]);
    actions(&mut link, Event::Begun(on(1, 1)));
    actions(&mut link, Event::Resolved(on(1, 1)));
    assert_eq!(actions(&mut link, Event::Failed(on(0, 1))), [], "of the old connection, of the same number");
    assert_eq!(actions(&mut link, Event::Failed(on(1, 1))), [Action::Discard, Action::Pause(0, 1)]);
    assert_eq!(actions(&mut link, Event::Paused(1)), [Action::Resolve(0)], "and in turn");
}

#[test]
fn a_connection_that_stands_by_takes_the_place_of_one_that_broke_without_the_connection_manager() {
    let mut link = met_on_rails();
    assert_eq!(actions(&mut link, Event::StandsBy(on(1, 7))), []);
    assert_eq!(actions(&mut link, Event::RailDown(0)), [Action::Fence, Action::Disconnect(on(0, 1))]);
    assert_eq!(actions(&mut link, Event::Drained), [Action::Connect(on(1, 7), 2)]);
    let crossing = actions(&mut link, Event::Request(on(1, 7), hello_of(2, 2)));
    assert_eq!(crossing, [], "the lower rank's goes first");
    let done = actions(&mut link, Event::Accepted(on(1, 7), hello_of(2, 2)));
    assert!(matches!(done[..], [Action::Resume(_)]) && link.id() == Some(on(1, 7)));
    // Of another rail than the one in use.
    assert_eq!(actions(&mut link, Event::StandsBy(on(1, 8))), [Action::Disconnect(on(1, 8))]);
    assert_eq!(actions(&mut link, Event::StandsBy(on(0, 9))), []);
    assert_eq!(actions(&mut link, Event::RailDown(0)), [], "it waits for the link as well as for its turn");
}

/// A fuzzer found it: the connection in use was given up as one that stands by on its rail, and each move over it failed.
#[test]
fn a_request_over_a_connection_that_stands_by_may_overtake_the_word_that_it_does() {
    let (old, ahead) = (on(1, 1), on(0, 2));
    let mut link = alone(2);
    meet(&mut link, old, 2, 1);
    assert_eq!(
        actions(&mut link, Event::Request(ahead, hello_of(2, 2))),
        [Action::Fence, Action::Disconnect(old)]
    );
    assert_eq!(actions(&mut link, Event::StandsBy(ahead)), [], "it is about to be used");
    let accepted = actions(&mut link, Event::Drained);
    assert!(matches!(accepted[..], [Action::Accept(id, _)] if id == ahead), "{accepted:?}");
    let stands = actions(&mut link, Event::Established(ahead));
    assert!(matches!(stands[..], [Action::Resume(_)]), "and nothing is given up: {stands:?}");
    assert_eq!(actions(&mut link, Event::StandsBy(ahead)), [], "nor is it later");
}

#[test]
fn a_port_without_a_link_ends_its_connections_at_once_and_no_others() {
    let mut link = met_on_rails();
    assert_eq!(actions(&mut link, Event::RailDown(1)), []);
    assert_eq!(actions(&mut link, Event::RailDown(0)), [], "there is no other rail to go over");
    actions(&mut link, Event::RailUp(0));
    actions(&mut link, Event::RailUp(1));
    assert_eq!(actions(&mut link, Event::RailDown(0)), [Action::Fence, Action::Disconnect(on(0, 1))]);
    let mut done = Vec::new();
    link.on_event(Event::Drained, false, &mut done);
    assert_eq!(done, [Action::Resolve(1)], "the peer may not notice, so this end asks though nothing waits");
}

#[test]
fn a_connection_on_a_rail_without_a_link_leaves_it_as_soon_as_another_rail_is_there() {
    let mut link = met_on_rails();
    assert_eq!(actions(&mut link, Event::RailDown(1)), []);
    assert_eq!(actions(&mut link, Event::RailDown(0)), []);
    assert_eq!(actions(&mut link, Event::RailUp(1)), [Action::Fence, Action::Disconnect(on(0, 1))]);
    assert_eq!(actions(&mut link, Event::Drained), [Action::Resolve(1)]);
}

#[test]
fn a_move_that_nothing_waits_for_is_given_up_after_an_attempt_on_each_rail() {
    let mut link = met_on_rails();
    let mut quietly = |event| {
        let mut actions = Vec::new();
        link.on_event(event, false, &mut actions);
        actions
    };
    quietly(Event::RailDown(0));
    assert_eq!(quietly(Event::Drained), [Action::Resolve(1)]);
    for (pause, rail) in [(1, 1), (2, 1)] {
        assert_eq!(quietly(Event::NotBegun), [Action::Pause(pause - 1, pause)]);
        let next = quietly(Event::Paused(pause));
        assert_eq!(next, if pause == 1 { vec![Action::Resolve(rail)] } else { vec![] });
    }
}

#[test]
fn a_connection_goes_back_to_a_better_rail_and_to_no_worse_one() {
    let mut link = met_on_rails();
    assert_eq!(link.better_rail(), None);
    assert_eq!(actions(&mut link, Event::FailBack(1)), []);
    actions(&mut link, Event::Broken);
    actions(&mut link, Event::Drained);
    actions(&mut link, Event::Begun(on(1, 1)));
    actions(&mut link, Event::Resolved(on(1, 1)));
    actions(&mut link, Event::Accepted(on(1, 1), hello_of(2, 2)));
    assert_eq!(link.returns_to(), Some(0));
    actions(&mut link, Event::RailDown(0));
    assert_eq!(link.returns_to(), None, "its port has no link");
    actions(&mut link, Event::RailUp(0));
    let done = actions(&mut link, Event::FailBack(0));
    assert_eq!(done, [Action::Fence, Action::Disconnect(on(1, 1))]);
    assert_eq!(actions(&mut link, Event::Drained), [Action::Resolve(0)]);
}

#[test]
fn of_two_ends_that_differ_about_the_best_rail_the_one_that_asked_has_its_way() {
    let mut link = met_on_rails();
    actions(&mut link, Event::Broken);
    actions(&mut link, Event::Request(on(1, 1), hello_of(2, 2)));
    actions(&mut link, Event::Drained);
    actions(&mut link, Event::Established(on(1, 1)));
    assert!(link.is_up());
    assert_eq!((link.better_rail(), link.returns_to()), (Some(0), None), "the peer wants it there");
    let done = actions(&mut link, Event::FailBack(0));
    assert_eq!(done, [Action::Fence, Action::Disconnect(on(1, 1))], "as a user of this end asks for it");
}

#[test]
fn a_connection_that_was_adopted_goes_to_the_best_rail_as_any_other() {
    let ends = [(0, 1), (1, 0)].map(|(me, peer)| {
        let mut link =
            Link::new(Rank::from_index(me), Rank::from_index(peer), 1 + me as u64, 2, Down::default());
        actions(&mut link, Event::Prefer(1));
        actions(&mut link, Event::Adopted(hello_of(1 + peer as u64, 1)));
        link.returns_to()
    });
    assert_eq!(ends, [Some(1), None], "one of its ends has it go");
}

/// The higher rank knows of a port without a link, and the lower one asked where nobody was: it turned the other one down for seconds.
#[test]
fn a_request_that_comes_again_over_another_rail_is_taken_in_place_of_ones_own() {
    for (rail, is_taken) in [(0, false), (1, true)] {
        let mut link = alone(2);
        actions(&mut link, Event::Wanted);
        actions(&mut link, Event::Begun(on(0, 1)));
        assert_eq!(actions(&mut link, Event::Resolved(on(0, 1))), [Action::Connect(on(0, 1), 1)]);
        let first = actions(&mut link, Event::Request(on(rail, 2), hello_of(2, 1)));
        assert_eq!(
            first,
            [Action::Reject(on(rail, 2), Refusal::SimultaneousOpen)],
            "this one's may be there"
        );
        let again = actions(&mut link, Event::Request(on(rail, 3), hello_of(2, 2)));
        let accepts =
            [Action::Disconnect(on(0, 1)), Action::Discard, Action::Accept(on(1, 3), hello_of(2, 2))];
        assert_eq!(again == accepts, is_taken, "over rail {rail}: {again:?}");
    }
}

#[test]
fn an_older_request_does_not_replace_the_one_that_is_being_accepted() {
    let mut link = met(2, 1);
    actions(&mut link, Event::Broken);
    actions(&mut link, Event::Request(on(0, 2), hello_of(2, 5)));
    actions(&mut link, Event::Drained);
    assert_eq!(link.id(), Some(on(0, 2)));
    let done = actions(&mut link, Event::Request(on(0, 3), hello_of(2, 4)));
    assert_eq!(done, [Action::Reject(on(0, 3), Refusal::Stale { floor: 5 })]);
    assert_eq!(link.id(), Some(on(0, 2)));
}

#[test]
fn a_late_request_of_an_earlier_life_leaves_the_connection_alone() {
    let mut link = met(2, 1);
    meet(&mut link, on(0, 2), 3, 1);
    let done = actions(&mut link, Event::Request(on(0, 3), hello_of(2, 9)));
    assert_eq!(done, [Action::Reject(on(0, 3), Refusal::Stale { floor: 0 })]);
    assert!(link.is_up());
}

#[test]
fn one_who_was_expelled_is_told_on_what_grounds() {
    let mut link = met(2, 1);
    let grounds = Grounds([9; 20]);
    actions(&mut link, Event::Expelled(2, Grounds::default()));
    assert_eq!(actions(&mut link, Event::Expelled(2, grounds)), []);
    let done = actions(&mut link, Event::Request(on(0, 3), hello_of(2, 9)));
    assert_eq!(done, [Action::Reject(on(0, 3), Refusal::Expelled(grounds))]);
    let mut other = alone(1);
    actions(&mut other, Event::Wanted);
    actions(&mut other, Event::Begun(on(0, 1)));
    actions(&mut other, Event::Resolved(on(0, 1)));
    let done = actions(&mut other, Event::Rejected(on(0, 1), Some(Refusal::Expelled(grounds))));
    assert_eq!(done, [Action::Discard, Action::Outcast(grounds), Action::Pause(0, 1)]);
}

/// It may be there still and not know that it is out: what it posts would execute as soon as the connection manager has connected the queue pair.
#[test]
fn an_attempt_that_was_made_for_one_who_is_expelled_connects_to_nobody() {
    let attempt = |resolved: bool| {
        let mut link = met(2, 1);
        actions(&mut link, Event::Broken);
        assert_eq!(actions(&mut link, Event::Drained), [Action::Resolve(0)]);
        actions(&mut link, Event::Begun(on(0, 2)));
        if resolved {
            assert_eq!(actions(&mut link, Event::Resolved(on(0, 2))), [Action::Connect(on(0, 2), 2)]);
        }
        link
    };
    let mut link = attempt(false);
    let done = actions(&mut link, Event::Expelled(2, Grounds::default()));
    assert_eq!(done, [Action::Disconnect(on(0, 2)), Action::Pause(0, 1)]);
    assert_eq!(actions(&mut link, Event::Resolved(on(0, 2))), []);
    assert_eq!(
        actions(&mut link, Event::Paused(1)),
        [Action::Resolve(0)],
        "something waits for the next one"
    );
    let mut link = attempt(true);
    let done = actions(&mut link, Event::Expelled(2, Grounds::default()));
    assert_eq!(done, [Action::Disconnect(on(0, 2)), Action::Discard, Action::Pause(0, 1)]);
    // Of an incarnation that is no more, another one was met since: that is the one which is asked.
    let mut link = attempt(false);
    assert_eq!(actions(&mut link, Event::Expelled(1, Grounds::default())), []);
    assert_eq!(actions(&mut link, Event::Resolved(on(0, 2))), [Action::Connect(on(0, 2), 2)]);
}

#[test]
fn one_that_has_retired_asks_for_nothing_and_refuses_everybody_whom_it_expelled_as_well() {
    let mut link = met(2, 1);
    let done = actions(&mut link, Event::Retired);
    assert_eq!(done, [Action::Fence, Action::Disconnect(on(0, 1))]);
    assert_eq!([Event::Drained, Event::Wanted].map(|event| actions(&mut link, event)), [[], []]);
    actions(&mut link, Event::Expelled(2, Grounds([9; 20])));
    for incarnation in [2, 3] {
        let done = actions(&mut link, Event::Request(on(0, 3), hello_of(incarnation, 9)));
        assert_eq!(done, [Action::Reject(on(0, 3), Refusal::Retired)]);
    }
    let mut attempt = alone(1);
    actions(&mut attempt, Event::Wanted);
    actions(&mut attempt, Event::Begun(on(0, 1)));
    assert_eq!(actions(&mut attempt, Event::Retired), [Action::Disconnect(on(0, 1))]);
    assert_eq!(actions(&mut attempt, Event::Resolved(on(0, 1))), []);
    // Who asks it waits for it no more.
    let mut other = alone(1);
    actions(&mut other, Event::Wanted);
    actions(&mut other, Event::Begun(on(0, 1)));
    actions(&mut other, Event::Resolved(on(0, 1)));
    let done = actions(&mut other, Event::Rejected(on(0, 1), Some(Refusal::Retired)));
    assert_eq!(done, [Action::Discard, Action::Gone, Action::Pause(0, 1)]);
}

#[test]
fn only_so_many_earlier_lives_are_remembered() {
    let mut link = met(100, 1);
    for incarnation in 101..200 {
        meet(&mut link, on(0, incarnation), incarnation, 1);
    }
    assert_eq!(link.past, (183..199).collect::<Vec<_>>());
}

#[test]
fn a_proposal_that_was_too_low_is_made_above_what_the_peer_knows() {
    let mut link = alone(1);
    assert_eq!(actions(&mut link, Event::Wanted), [Action::Resolve(0)]);
    actions(&mut link, Event::Begun(on(0, 1)));
    assert_eq!(actions(&mut link, Event::Resolved(on(0, 1))), [Action::Connect(on(0, 1), 1)]);
    let stale = Some(Refusal::Stale { floor: 9 });
    let done = actions(&mut link, Event::Rejected(on(0, 1), stale));
    assert_eq!(done, [Action::Discard, Action::Pause(0, 1)]);
    assert_eq!(actions(&mut link, Event::Paused(0)), [], "of another pause");
    assert_eq!(actions(&mut link, Event::Paused(1)), [Action::Resolve(0)]);
    actions(&mut link, Event::Begun(on(0, 2)));
    assert_eq!(actions(&mut link, Event::Resolved(on(0, 2))), [Action::Connect(on(0, 2), 10)]);
}

#[test]
fn pauses_grow_with_failures_and_begin_anew_after_a_success() {
    let mut link = alone(1);
    actions(&mut link, Event::Wanted);
    for failures in 0..5 {
        assert_eq!(actions(&mut link, Event::NotBegun), [Action::Pause(failures, failures + 1)]);
        actions(&mut link, Event::Paused(failures + 1));
    }
    meet(&mut link, on(0, 1), 2, 1);
    actions(&mut link, Event::Broken);
    assert_eq!(actions(&mut link, Event::Drained), [Action::Resolve(0)]);
    assert_eq!(actions(&mut link, Event::NotBegun), [Action::Pause(0, 6)]);
}

/// The lower rank's request was lost, and is repeated seconds later: the higher one made a queue pair for each round trip until then.
#[test]
fn one_whose_turn_it_is_not_asks_more_rarely_to_a_bound_and_takes_the_others_request_when_it_comes() {
    let mut link = Link::new(Rank::from_index(1), Rank::from_index(0), 1, 1, Down::default());
    assert_eq!(actions(&mut link, Event::Wanted), [Action::Resolve(0)]);
    for (number, failures) in (1..).zip([0, 1, 2, 3, 4, 4, 4]) {
        let own = on(0, u64::from(number));
        actions(&mut link, Event::Begun(own));
        actions(&mut link, Event::Resolved(own));
        let refused = actions(&mut link, Event::Rejected(own, Some(Refusal::SimultaneousOpen)));
        assert_eq!(refused, [Action::Discard, Action::Pause(failures, number)]);
        if number < 7 {
            assert_eq!(actions(&mut link, Event::Paused(number)), [Action::Resolve(0)]);
        }
    }
    let taken = actions(&mut link, Event::Request(on(0, 9), hello_of(2, 1)));
    assert!(matches!(taken[..], [Action::Accept(id, _)] if id == on(0, 9)), "{taken:?}");
}

/// Each end gave up what the other had just accepted, and the one that moved asked again without a pause, in step with
/// the other's time-outs.
#[test]
fn two_ends_that_cross_while_one_of_them_moves_come_apart() {
    let steps = [
        (190, 5396),
        (0, 1202),
        (120, 0),
        (190, 4511),
        (0, 985),
        (120, 0),
        (235, 3374),
        (50, 65389),
        (0, 25975),
        (0, 325),
        (235, 5941),
        (60, 0),
        (0, 39361),
        (0, 13542),
        (0, 22957),
        (60, 493),
        (0, 57420),
        (0, 15542),
        (50, 56691),
        (60, 5119),
        (60, 26731),
        (0, 33055),
        (60, 0),
        (50, 59393),
        (60, 1470),
        (120, 33647),
        (60, 0),
        (0, 31158),
        (220, 330),
        (0, 18992),
        (0, 28169),
        (0, 6938),
        (60, 0),
        (60, 0),
    ];
    all_is_delivered(World::railed(), steps.to_vec()).expect("delivered");
}
