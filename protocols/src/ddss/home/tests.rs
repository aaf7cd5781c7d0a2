//! Tests of the home's state machine.

use super::*;
use crate::ddss::Model;
use proptest::prelude::*;

const MEMORY: RemoteSlice = RemoteSlice { addr: 0, len: 16, rkey: 1 };
/// The first one that is kept.
const AT: Place = Place { memory: MEMORY, number: 1 };
/// One whose memory and key were given out again.
const EARLIER: Place = Place { memory: MEMORY, number: 0 };
const NAME: Name = Name(1);
const ME: Party = Party { rank: Rank::from_index(0), incarnation: 9 };

fn home() -> Home {
    let mut home = Home::new(ME);
    home.made(NAME, Spec { size: 8, model: Model::Null }, MEMORY);
    home
}

fn rank(index: u32) -> Rank {
    Rank::from_index(index)
}

#[test]
fn a_segment_is_made_once_and_who_says_otherwise_is_told() {
    let (mut home, name, from) = (Home::new(ME), Name(1), rank(1));
    let spec = Spec { size: 8, model: Model::Null };
    assert_eq!(home.on_open(from, 5, name, spec), Action::Make);
    home.made(name, spec, MEMORY);
    assert_eq!(home.on_open(from, 6, name, spec), Action::Found);
    let larger = Spec { size: 16, ..spec };
    assert_eq!(home.on_open(from, 7, name, larger), Action::Answer(Message::Otherwise { id: 7, spec }));
}

#[test]
fn a_name_stands_for_one_key_and_a_segment_for_its_own() {
    let mut home = home();
    let own = home.find(NAME).expect("it is kept");
    let other = Key { home: rank(3), ..own };
    assert_eq!(home.bind(NAME, Some(other), None), Some(own), "the name is a segment's");
    assert_eq!((home.find(Name(8)), home.bind(Name(8), Some(other), None)), (None, Some(other)));
    assert_eq!((home.bind(Name(8), Some(own), None), home.find(Name(8))), (Some(other), Some(other)));
    assert_eq!(home.bind(Name(8), Some(own), Some(other)), Some(own), "instead of what it stood for");
    assert_eq!(home.bind(Name(8), None, Some(other)), Some(own), "it stands for that no more");
    assert_eq!(home.bind(Name(8), None, Some(own)), None);
    assert_ne!(home.new_name(), home.new_name());
    assert_eq!(home.keys().collect::<Vec<_>>(), [own]);
}

#[test]
fn who_opens_a_name_that_stands_for_a_key_makes_no_segment_that_hides_it() {
    let mut home = home();
    let (own, name) = (home.find(NAME).expect("it is kept"), Name(8));
    home.bind(name, Some(own), None);
    for spec in [own.spec, Spec { size: 16, ..own.spec }] {
        let told = Message::Key { id: 5, key: Some(own) };
        assert_eq!(home.on_open(rank(1), 5, name, spec), Action::Answer(told));
    }
    home.bind(name, None, Some(own));
    assert_eq!(home.on_open(rank(1), 6, name, own.spec), Action::Make);
}

/// A key may be bound by who has not heard yet that its segment goes, to the name that this had or to another one.
#[test]
fn a_name_comes_to_stand_for_no_key_whose_segment_goes_from_here_or_has_gone() {
    let mut home = home();
    let key = home.find(NAME).expect("it is kept");
    assert!(home.keeps(key) && !home.keeps(Key { at: EARLIER, ..key }));
    home.on_release(key, rank(1), 1, &[rank(0)]);
    assert!(!home.keeps(key), "it is going");
    home.forget(key);
    assert_eq!((home.bind(Name(8), Some(key), None), home.find(Name(8))), (None, None));
    home.on_drained(NAME, AT, rank(0)).expect("nobody else uses it");
    for name in [NAME, Name(8)] {
        assert_eq!((home.bind(name, Some(key), None), home.find(name)), (None, None));
        assert_eq!(home.on_open(rank(1), 2, name, key.spec), Action::Make);
    }
    // Of what others keep, or an earlier incarnation of this node, nothing is known here.
    for unknown in [Key { home: rank(3), ..key }, Key { incarnation: 8, ..key }] {
        let there = home.find(NAME);
        assert_eq!(home.bind(NAME, Some(unknown), there), Some(unknown));
        assert_eq!(home.bind(NAME, Some(key), Some(unknown)), None);
        assert_eq!(home.find(NAME), Some(unknown), "it stands for that yet");
    }
}

#[test]
fn a_name_is_that_of_the_segment_that_is_kept_by_it_and_what_was_refused_does_not_come_later() {
    let mut home = home();
    let own = home.find(NAME).expect("it is kept");
    let other = Key { home: rank(3), ..own };
    assert_eq!(home.bind(NAME, Some(other), Some(own)), Some(own), "it is the segment's own");
    home.on_release(own, rank(1), 1, &[rank(0)]);
    assert_eq!(home.bind(NAME, Some(other), None), None, "it is the segment's own until that is gone");
    home.on_drained(NAME, AT, rank(0)).expect("nobody else uses it");
    assert_eq!(home.find(NAME), None);
    assert_eq!(home.bind(NAME, Some(other), None), Some(other));
}

#[test]
fn turns_are_granted_one_after_another_in_the_order_of_asking() {
    let mut home = home();
    assert_eq!(home.on_enter(NAME, AT, rank(1), 10), Step::Close);
    assert_eq!(home.on_enter(NAME, AT, rank(2), 20), Step::Nothing);
    assert_eq!(home.closed(NAME, AT, Header::default()), Step::Grant { to: rank(1), id: 10 });
    assert_eq!(home.on_leave(NAME, AT, rank(2)), Step::Nothing, "it is not its turn");
    assert_eq!(home.on_leave(NAME, AT, rank(1)), Step::Grant { to: rank(2), id: 20 });
    assert_eq!(home.on_leave(NAME, AT, rank(2)), Step::Open);
    assert_eq!(home.on_enter(NAME, AT, rank(3), 30), Step::Nothing, "the mark is being taken away");
    assert_eq!(home.opened(NAME, AT), Step::Close);
    assert_eq!(home.closed(NAME, AT, Header::default()), Step::Grant { to: rank(3), id: 30 });
    assert_eq!((home.on_leave(NAME, AT, rank(3)), home.opened(NAME, AT)), (Step::Open, Step::Nothing));
    assert_eq!(home.waiting(), 0);
}

#[test]
fn who_had_the_lock_when_the_header_was_marked_has_the_first_turn_unless_it_has_left() {
    let held = Header::default().held_by(rank(5));
    let mut home = home();
    home.on_enter(NAME, AT, rank(1), 10);
    assert_eq!(home.closed(NAME, AT, held), Step::Nothing);
    assert_eq!(home.on_leave(NAME, AT, rank(5)), Step::Grant { to: rank(1), id: 10 });
    let mut home = self::home();
    home.on_enter(NAME, AT, rank(1), 10);
    assert_eq!(home.on_leave(NAME, AT, rank(5)), Step::Nothing);
    assert_eq!(home.closed(NAME, AT, held), Step::Grant { to: rank(1), id: 10 });
}

#[test]
fn a_segment_goes_once_every_node_has_drained_it_and_who_comes_late_is_told() {
    let mut home = home();
    let key = home.find(NAME).expect("it is kept");
    home.on_enter(NAME, AT, rank(1), 10);
    assert_eq!(home.on_release(Key { at: EARLIER, ..key }, rank(1), 1, &[rank(0), rank(1)]), Release::Late);
    assert_eq!(home.on_release(key, rank(1), 2, &[rank(0), rank(1)]), Release::Drain([(rank(1), 10)].into()));
    assert_eq!(home.on_release(key, rank(0), 3, &[rank(0), rank(1)]), Release::Late, "it is going");
    // Nobody is granted a turn any more, and no new segment of that name is made yet.
    assert_eq!(home.closed(NAME, AT, Header::default()), Step::Nothing);
    assert_eq!(home.on_enter(NAME, AT, rank(1), 11), Step::Late { to: rank(1), id: 11 });
    assert_eq!(home.on_open(rank(0), 12, NAME, key.spec), Action::Later);
    assert_eq!((home.find(NAME), home.is_kept(NAME, AT)), (None, false));
    assert_eq!(home.on_drained(NAME, AT, rank(1)), None);
    assert_eq!(home.on_drained(NAME, AT, rank(1)), None, "the same one again");
    let left = Left { key, asker: (rank(1), 2), opens: vec![(rank(0), 12, key.spec)] };
    assert_eq!(home.on_drained(NAME, EARLIER, rank(0)), None, "it was another segment of that name");
    assert_eq!(home.on_drained(NAME, AT, rank(0)), Some(left));
    assert_eq!(home.on_drained(NAME, AT, rank(0)), None);
    assert_eq!(home.on_open(rank(0), 12, NAME, key.spec), Action::Make);
}

/// A name is given anew once its segment is released; what was said of the one before may arrive after that.
#[test]
fn what_is_said_late_of_an_earlier_segment_of_a_name_changes_no_turn_at_this_one() {
    let mut home = home();
    assert_eq!(home.on_enter(NAME, EARLIER, rank(2), 20), Step::Late { to: rank(2), id: 20 });
    assert_eq!(home.on_enter(NAME, AT, rank(1), 10), Step::Close);
    assert_eq!(home.closed(NAME, EARLIER, Header::default()), Step::Nothing);
    assert_eq!(home.closed(NAME, AT, Header::default()), Step::Grant { to: rank(1), id: 10 });
    home.on_enter(NAME, AT, rank(3), 30);
    assert_eq!(home.on_leave(NAME, EARLIER, rank(1)), Step::Nothing, "it left the other one");
    assert_eq!(home.on_gone(NAME, EARLIER, rank(1), true), Step::Nothing, "it lives, in this one");
    assert_eq!(home.on_leave(NAME, AT, rank(1)), Step::Grant { to: rank(3), id: 30 });
    assert_eq!(home.out_of_turn(), 0);
}

#[test]
fn a_node_that_died_has_no_turn_and_is_not_waited_for() {
    let mut home = home();
    home.on_enter(NAME, AT, rank(1), 10);
    home.closed(NAME, AT, Header::default());
    home.on_enter(NAME, AT, rank(2), 20);
    home.on_enter(NAME, AT, rank(3), 30);
    assert_eq!(home.awaited(), [rank(1)]);
    assert_eq!(home.on_gone(NAME, AT, rank(2), true), Step::Nothing, "it waited");
    assert_eq!(home.on_gone(NAME, AT, rank(1), true), Step::Grant { to: rank(3), id: 30 }, "it had the turn");
    // It had the lock when the header was marked, and is gone when the home learns that.
    let mut home = self::home();
    home.on_enter(NAME, AT, rank(1), 10);
    assert_eq!(home.on_gone(NAME, AT, rank(5), true), Step::Nothing);
    let held = Header::default().held_by(rank(5));
    assert_eq!(home.closed(NAME, AT, held), Step::Grant { to: rank(1), id: 10 });
    // It had given the lock up, or never had it, before the header was marked: who has it then is its next incarnation.
    let mut home = self::home();
    home.on_enter(NAME, AT, rank(1), 10);
    assert_eq!(home.on_gone(NAME, AT, rank(5), false), Step::Nothing);
    assert_eq!(home.closed(NAME, AT, held), Step::Nothing, "it is that one's turn");
    assert_eq!(home.on_leave(NAME, AT, rank(5)), Step::Grant { to: rank(1), id: 10 });
    // A segment that is being released waits for those that live.
    let key = home.find(NAME).expect("it is kept");
    home.on_release(key, rank(0), 1, &[rank(0), rank(1)]);
    assert_eq!((home.drained_by(rank(1)), home.drained_by(rank(2))), (vec![(NAME, AT)], vec![]));
    assert_eq!(home.awaited(), [rank(0), rank(1)]);
}

#[test]
fn who_is_back_has_a_part_once_what_it_left_is_taken_away_and_a_release_tells_it_meanwhile() {
    let spec = Spec { size: 8, model: Model::Null };
    let mut home = home();
    let took = home.takes_part(NAME, rank(1), Waits::Opens(1));
    assert_eq!((took, home.takes_part(NAME, rank(2), Waits::Joins(2))), (Some(false), Some(false)));
    assert_eq!(home.parts_from_all(rank(1)), [(NAME, AT)]);
    assert_eq!(home.parts_from_all(rank(1)), [], "it is being taken away already");
    assert_eq!(home.takes_part(NAME, rank(1), Waits::Opens(3)), None);
    let here = Message::Here { id: 3, at: AT, incarnation: ME.incarnation, again: true };
    assert_eq!(home.has_parted(NAME, AT, rank(1)), [here]);
    // The next one dies, and the one behind it is told that the segment goes.
    assert!(!home.parts_from(rank(1), NAME, EARLIER), "it was another segment of that name");
    assert!(home.parts_from(rank(1), NAME, AT));
    assert_eq!(home.takes_part(NAME, rank(1), Waits::Joins(4)), None);
    assert_eq!(home.takes_part(NAME, rank(1), Waits::Opens(5)), None);
    let key = home.find(NAME).expect("it is kept");
    assert_eq!(home.on_release(key, rank(2), 6, &[rank(2)]), Release::Drain([(rank(1), 4)].into()));
    assert_eq!(home.has_parted(NAME, AT, rank(1)), []);
    let left = home.on_drained(NAME, AT, rank(2)).expect("nobody else uses it");
    assert_eq!(left.opens, [(rank(1), 5, spec)], "who opens the name makes another one");
}

proptest! {
    /// The nodes of one segment that is served and of one that goes, whatever has happened to them.
    #[test]
    fn who_is_awaited_is_known_without_a_look_at_all_segments(
        steps in prop::collection::vec((0u32..6, 0u64..2, 0u32..3), 1..40)
    ) {
        let (mut home, spec) = (Home::new(ME), Spec { size: 8, model: Model::Null });
        for (step, name, node) in steps {
            let (name, node) = (Name(name), rank(node));
            let Some(at) = home.place_of(name) else {
                home.made(name, spec, MEMORY);
                continue;
            };
            let key = home.find(name);
            match step {
                0 => _ = home.on_enter(name, at, node, 1),
                1 => _ = home.closed(name, at, Header::default()),
                2 => _ = home.on_leave(name, at, node),
                3 => _ = home.opened(name, at),
                4 => _ = key.map(|key| home.on_release(key, node, 2, &[rank(0), node])),
                _ => _ = home.on_drained(name, at, node),
            }
            let all = home.segments.iter().flat_map(|(_, kept)| kept.awaited());
            prop_assert_eq!(home.awaited(), all.collect::<Vec<_>>());
        }
    }
}
