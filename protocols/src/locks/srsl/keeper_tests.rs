//! What a keeper grants in the views of a membership, and with which tokens.

use super::{Keeper, Message};
use crate::locks::client::WaitPolicy;
use crate::locks::queue::OutOfTurn;
use crate::locks::{LockKey, Mode, Token};
use crate::members::{Ballot, Member, View, ViewId};
use crate::transport::Rank;
use weft_verbs::Nanos;

const KEY: LockKey = LockKey(7);

fn rank(n: u32) -> Rank {
    Rank::new(n).unwrap()
}

fn ask(mode: Mode) -> Message {
    Message::Request { mode, policy: WaitPolicy::Queue }
}

const fn try_for(mode: Mode) -> Message {
    Message::Request { mode, policy: WaitPolicy::Try }
}

/// What is said, and to whom.
type Said = Vec<(u32, Message)>;

/// The keeper of all locks, on the first node.
struct Scene {
    keeper: Keeper,
    now: Nanos,
}

impl Scene {
    fn new() -> Scene {
        Scene { keeper: Keeper::new(rank(1), 1, true), now: Nanos(0) }
    }

    /// A view of these nodes begins, which those left. Until `fence` they may hold what they held.
    fn begin(&mut self, number: u64, members: &[u32], left: &[u32], fence: u64) {
        let id = ViewId { lineage: Ballot { round: 1, by: 9 }, number };
        let members = members.iter().map(|n| Member { rank: rank(*n), incarnation: 7 }).collect();
        let left = left.iter().copied().map(rank).collect();
        self.keeper.begin(View { id, members, ..View::default() }, left, Nanos(fence), self.now);
    }

    fn tell(&mut self, from: u32, message: Message) -> Said {
        let mut out = Vec::new();
        self.keeper.on_message(self.now, rank(from), KEY, message, &mut out).expect("it is in turn");
        out.into_iter().map(|(to, message)| (to.get(), message)).collect()
    }

    /// All members say that this was all. None knows of an earlier fence.
    fn all_report(&mut self) -> Said {
        let mut out = Vec::new();
        for member in self.keeper.members() {
            self.keeper.reported(self.now, member, Nanos::MAX, &mut out);
        }
        out.into_iter().map(|(to, _, message)| (to.get(), message)).collect()
    }

    fn lift(&mut self) -> Said {
        let mut out = Vec::new();
        self.keeper.lift(self.now, &mut out);
        out.into_iter().map(|(to, _, message)| (to.get(), message)).collect()
    }
}

fn grant(to: u32, token: Token) -> (u32, Message) {
    (to, Message::Grant { token })
}

fn busy(to: u32) -> (u32, Message) {
    (to, Message::Busy)
}

/// A timer that was set for the fence of the view before comes first. (What the dead held was granted then while their lease ran.)
#[test]
fn what_one_who_left_holds_is_not_granted_before_the_fence_of_this_view() {
    let mut scene = Scene::new();
    scene.begin(1, &[1, 2, 3], &[], 0);
    assert_eq!(scene.all_report(), []);
    let first = Token::before_view(1).of_next_grant();
    assert_eq!(scene.tell(3, ask(Mode::Exclusive)), [grant(3, first)]);
    scene.now = Nanos(10);
    scene.begin(2, &[1, 2], &[3], 100);
    assert_eq!(scene.tell(2, ask(Mode::Exclusive)), []);
    assert_eq!(scene.lift(), [], "not all have reported");
    assert_eq!(scene.all_report(), []);
    scene.now = Nanos(99);
    assert_eq!(scene.lift(), []);
    scene.now = Nanos(100);
    assert_eq!(scene.lift(), [grant(2, Token::before_view(2).of_next_grant())]);
}

/// It was told of each lock that it is not free, from a cold start until nobody can hold anything of before.
/// It was next, and all who had come after it went past it.
#[test]
fn one_whose_grant_was_under_way_as_a_view_began_is_still_the_next_one_and_those_behind_it_keep_their_order()
{
    let mut scene = Scene::new();
    scene.begin(1, &[1, 2, 3, 4], &[], 0);
    assert_eq!(scene.all_report(), []);
    assert_eq!(scene.tell(2, ask(Mode::Exclusive)).len(), 1, "it is granted");
    for from in [3, 4] {
        assert_eq!(scene.tell(from, ask(Mode::Exclusive)), []);
    }
    scene.begin(2, &[1, 2, 3, 4], &[], 0);
    for from in [4, 3, 2] {
        assert_eq!(scene.tell(from, ask(Mode::Exclusive)), [], "as it has not heard of a grant");
    }
    let mut token = Token::before_view(2).of_next_grant();
    let mut said = scene.all_report();
    for next in [2, 3, 4] {
        assert_eq!(said, [grant(next, token)]);
        (said, token) = (scene.tell(next, Message::Release), token.of_next_grant());
    }
}

#[test]
fn a_try_is_answered_once_it_is_known_whether_the_lock_is_free() {
    let mut scene = Scene::new();
    scene.begin(1, &[1, 2, 3], &[], 100);
    for from in [2, 3] {
        assert_eq!(scene.tell(from, try_for(Mode::Exclusive)), []);
    }
    assert_eq!(scene.all_report(), []);
    scene.now = Nanos(100);
    let token = Token::before_view(1).of_next_grant();
    assert_eq!(scene.lift(), [grant(2, token), busy(3)]);
    assert_eq!(scene.tell(1, try_for(Mode::Exclusive)), [busy(1)], "at once");
}

#[test]
fn a_try_that_waited_for_reports_is_refused_beside_a_hold_and_keeps_nobody_behind_it_waiting() {
    let mut scene = Scene::new();
    scene.begin(2, &[1, 2, 3, 4], &[], 0);
    let token = Token::before_view(1).of_next_grant();
    assert_eq!(scene.tell(2, Message::Holds { mode: Mode::Shared, token }), []);
    assert_eq!(scene.tell(3, try_for(Mode::Exclusive)), []);
    assert_eq!(scene.tell(4, ask(Mode::Shared)), []);
    assert_eq!(scene.all_report(), [busy(3), grant(4, token)]);
    assert_eq!(scene.tell(3, ask(Mode::Exclusive)), [], "it may ask again");
}

#[test]
fn a_try_behind_one_that_is_refused_is_granted_if_the_lock_is_free_for_it() {
    let mut scene = Scene::new();
    scene.begin(2, &[1, 2, 3, 4], &[], 0);
    let token = Token::before_view(1).of_next_grant();
    assert_eq!(scene.tell(2, Message::Holds { mode: Mode::Shared, token }), []);
    for (from, mode) in [(3, Mode::Exclusive), (4, Mode::Shared)] {
        assert_eq!(scene.tell(from, try_for(mode)), []);
    }
    assert_eq!(scene.all_report(), [busy(3), grant(4, token)]);
}

#[test]
fn a_try_that_waits_as_the_next_view_begins_is_answered_in_that_one() {
    let mut scene = Scene::new();
    scene.begin(1, &[1, 2, 3], &[], 100);
    assert_eq!(scene.tell(2, try_for(Mode::Exclusive)), []);
    assert_eq!(scene.all_report(), []);
    scene.begin(2, &[1, 2], &[3], 200);
    assert_eq!(scene.tell(2, try_for(Mode::Exclusive)), []);
    assert_eq!(scene.all_report(), []);
    scene.now = Nanos(200);
    assert_eq!(scene.lift(), [grant(2, Token::before_view(2).of_next_grant())]);
}

#[test]
fn a_member_that_has_still_to_report_says_nothing_twice() {
    let mut scene = Scene::new();
    scene.begin(2, &[1, 2, 3], &[], 0);
    let token = Token::before_view(1).of_next_grant();
    for message in [Message::Holds { mode: Mode::Shared, token }, ask(Mode::Exclusive)] {
        assert_eq!(scene.tell(2, message), []);
        let taken = scene.keeper.on_message(scene.now, rank(2), KEY, message, &mut Vec::new());
        assert_eq!(taken, Err(OutOfTurn), "{message:?}");
        scene.begin(3, &[1, 2, 3], &[], 0);
    }
}

/// Its home is another one than before, and knows the token from who shares alone.
#[test]
fn who_shares_beside_one_that_holds_since_an_earlier_view_has_its_token() {
    let mut scene = Scene::new();
    scene.begin(2, &[1, 2, 3], &[], 100);
    let token = Token::before_view(1).of_next_grant();
    assert_eq!(scene.tell(2, Message::Holds { mode: Mode::Shared, token }), []);
    assert_eq!(scene.tell(3, ask(Mode::Shared)), []);
    assert_eq!(scene.all_report(), []);
    scene.now = Nanos(100);
    assert_eq!(scene.lift(), [grant(3, token)]);
    // Once nobody shares with it, the next view's is above it.
    for from in [2, 3] {
        assert_eq!(scene.tell(from, Message::Release), []);
    }
    assert_eq!(scene.tell(1, ask(Mode::Exclusive)), [grant(1, Token::before_view(2).of_next_grant())]);
}
