//! The state's promises, message by message.

use super::messages::{Claim, Epoch, Message, Passed, Report};
use super::requester_state::{Phase, RequesterState, Role, Successor, Taken};
use super::word::Word;
use crate::locks::Mode::{Exclusive, Shared};
use crate::locks::client::WaitPolicy;
use crate::transport::Rank;
use weft_verbs::RemoteSlice;

const HOME: Rank = Rank::from_index(0);
const AT: RemoteSlice = RemoteSlice { addr: 64, len: 8, rkey: 1 };
const NEXT: RemoteSlice = RemoteSlice { addr: 128, len: 8, rkey: 1 };

fn rank(n: u32) -> Rank {
    Rank::new(n).unwrap()
}

const ROLES: [Role; 9] = [
    Role::Idle,
    Role::Trying,
    Role::WantsShared,
    Role::WantsExclusive { over: Word::FREE },
    Role::WantsExclusive { over: Word::shared_only(3) },
    Role::Holds(Shared),
    Role::Holds(Exclusive),
    Role::Downgrading,
    Role::Releasing,
];

/// The state in epoch 5, and what it has said.
struct Scene(RequesterState, Vec<(Rank, Message)>);

impl Scene {
    fn new(phase: Phase, role: Role) -> Scene {
        let mut state = RequesterState::new(HOME, 0);
        (state.phase, state.role, state.epoch, state.turn) = (phase, role, 5, 9);
        Scene(state, vec![])
    }

    fn open(role: Role) -> Scene {
        Scene::new(Phase::Open(AT), role)
    }

    fn on_message(&mut self, from: u32, message: Message) -> Taken {
        self.0.on_message(rank(from), message, &mut self.1)
    }

    /// What was said since the last look.
    fn said(&mut self) -> Vec<(u32, Message)> {
        self.1.drain(..).map(|(to, message)| (to.get(), message)).collect()
    }

    fn atomic_done(&mut self, known: bool) -> bool {
        self.0.atomic_done(known, &mut self.1)
    }
}

fn opened(epoch: Epoch) -> Message {
    Message::Opened { epoch, word: NEXT }
}

fn read(epoch: Epoch) -> Message {
    Message::Read { epoch }
}

fn queue(epoch: Epoch) -> Message {
    Message::Queue { epoch, readers: 2, turn: 7 }
}

fn report(claim: Claim) -> (u32, Message) {
    (1, Message::Report { epoch: 5, report: Report { claim, turn: 9, passed: None } })
}

const ASKED: Phase = Phase::Asked(WaitPolicy::Queue);

#[test]
fn who_only_tries_and_it_alone_may_be_told_that_the_lock_is_not_opened_now() {
    let tries = Phase::Asked(WaitPolicy::Try);
    for (phase, expected) in [
        (tries, (Taken::Well, Phase::Busy)),
        (ASKED, (Taken::OutOfTurn, ASKED)),
        (Phase::Unknown, (Taken::OutOfTurn, Phase::Unknown)),
        (Phase::Open(AT), (Taken::OutOfTurn, Phase::Open(AT))),
        (Phase::Frozen, (Taken::OutOfTurn, Phase::Frozen)),
    ] {
        let mut state = Scene::new(phase, Role::Idle);
        assert_eq!((state.on_message(1, Message::Busy), state.0.phase), expected);
    }
}

#[test]
fn a_refusal_ends_the_question_and_nothing_else() {
    let mut state = Scene::new(ASKED, Role::Idle);
    assert_eq!((state.on_message(1, Message::Refused), state.0.phase), (Taken::Well, Phase::Refused));
    for phase in [Phase::Unknown, Phase::Open(AT), Phase::Refused] {
        let mut state = Scene::new(phase, Role::Idle);
        assert_eq!((state.on_message(1, Message::Refused), state.0.phase), (Taken::OutOfTurn, phase));
    }
    for role in ROLES {
        let mut state = Scene::new(Phase::Frozen, role);
        let expected = match role {
            Role::Idle | Role::Releasing => (Taken::Well, Phase::Refused),
            _ => (Taken::OutOfTurn, Phase::Frozen),
        };
        assert_eq!((state.on_message(1, Message::Refused), state.0.phase), expected, "{role:?}");
    }
}

#[test]
fn a_word_is_taken_by_who_has_asked_or_has_nothing_left_in_the_epoch_before() {
    for role in ROLES {
        for phase in [Phase::Unknown, ASKED, Phase::Open(AT), Phase::Frozen] {
            for epoch in [4, 5, 6, 7] {
                let mut state = Scene::new(phase, role);
                let next = epoch == 6 && matches!(role, Role::Idle | Role::Releasing);
                let awaited = phase == ASKED || phase == Phase::Frozen && next;
                let expected = match awaited {
                    true => (Taken::Well, Phase::Open(NEXT), epoch),
                    false => (Taken::OutOfTurn, phase, 5),
                };
                let taken = state.on_message(1, opened(epoch));
                assert_eq!((taken, state.0.phase, state.0.epoch), expected, "{role:?} {phase:?} {epoch}");
            }
        }
    }
}

#[test]
fn with_the_next_word_who_came_behind_and_the_freeze_are_forgotten() {
    let mut state = Scene::open(Role::Releasing);
    state.0.atomic_out = true;
    state.on_message(2, read(5));
    state.on_message(3, queue(5));
    state.on_message(1, Message::Freeze { epoch: 5 });
    state.said();
    state.atomic_done(true);
    assert_eq!(state.on_message(1, opened(6)), Taken::Well);
    assert_eq!((state.0.served, state.0.successor), (0, None));
    state.said();
    state.0.grant_arrived(&mut state.1);
    assert_eq!(state.said(), []);
    state.0.atomic_out = true;
    assert!(state.atomic_done(true), "the freeze was of the epoch before");
}

#[test]
fn what_is_said_in_an_epoch_counts_in_that_epoch_only_and_until_its_end() {
    for message in [
        |epoch| Message::Freeze { epoch },
        |epoch| Message::Read { epoch },
        |epoch| Message::Grant { epoch },
        |epoch| Message::Queue { epoch, readers: 0, turn: 1 },
    ] {
        let role = Role::WantsExclusive { over: Word::FREE };
        for (phase, epoch, expected) in [
            (Phase::Open(AT), 4, Taken::Stale),
            (Phase::Open(AT), 5, Taken::Well),
            (Phase::Open(AT), 6, Taken::OutOfTurn),
            (Phase::Frozen, 4, Taken::Stale),
            (Phase::Frozen, 5, Taken::Stale),
            (Phase::Frozen, 6, Taken::Stale),
            (Phase::Unknown, 5, Taken::OutOfTurn),
            (ASKED, 4, Taken::Stale),
            (ASKED, 5, Taken::OutOfTurn),
            (ASKED, 6, Taken::OutOfTurn),
        ] {
            let mut state = Scene::new(phase, role);
            assert_eq!(state.on_message(1, message(epoch)), expected, "{:?} {phase:?}", message(epoch));
            let unchanged = state.0.role == role && state.0.phase == phase && state.0.successor.is_none();
            assert!(expected == Taken::Well || unchanged && state.said().is_empty());
        }
    }
}

#[test]
fn only_who_may_be_the_tail_is_followed_and_by_one_alone() {
    for role in ROLES {
        let may = !matches!(role, Role::Idle | Role::WantsShared | Role::Holds(Shared));
        let expected = if may { Taken::Well } else { Taken::OutOfTurn };
        let mut state = Scene::open(role);
        assert_eq!(state.on_message(2, read(5)), expected, "{role:?}");
        assert_eq!(state.on_message(3, queue(5)), expected, "{role:?}");
        let successor = Successor { who: rank(3), readers: 2, turn: 7 };
        assert_eq!(state.0.successor, may.then_some(successor), "{role:?}");
        assert_eq!(state.on_message(4, queue(5)), Taken::OutOfTurn, "{role:?}: only one has replaced it");
        assert_eq!(state.0.successor, may.then_some(successor), "{role:?}");
    }
}

#[test]
fn those_who_share_are_granted_once_their_turn_has_come_and_counted() {
    const GRANT: Message = Message::Grant { epoch: 5 };
    for role in [Role::Downgrading, Role::Releasing] {
        let mut state = Scene::open(role);
        state.on_message(2, read(5));
        state.on_message(3, read(5));
        assert_eq!((state.said(), state.0.served), (vec![(2, GRANT), (3, GRANT)], 2), "{role:?}");
    }
    let mut state = Scene::open(Role::Holds(Exclusive));
    state.on_message(2, read(5));
    state.on_message(3, read(5));
    assert_eq!((state.said(), state.0.served), (vec![], 0));
    state.0.grant_arrived(&mut state.1);
    assert_eq!((state.said(), state.0.served), (vec![(2, GRANT), (3, GRANT)], 2));
    state.0.grant_arrived(&mut state.1);
    assert_eq!((state.said(), state.0.served), (vec![], 2), "each of them once");
    state.on_message(4, queue(5));
    state.0.forget_queue();
    assert_eq!((state.0.served, state.0.successor), (0, None));
}

#[test]
fn a_grant_is_for_who_waits_and_one_after_recovery_for_who_had_reported_that() {
    for role in ROLES {
        let granted = match role {
            Role::WantsShared => Some(Role::Holds(Shared)),
            Role::WantsExclusive { .. } => Some(Role::Holds(Exclusive)),
            _ => None,
        };
        let expected = (granted.map_or(Taken::OutOfTurn, |_| Taken::Well), granted.unwrap_or(role));
        let mut state = Scene::open(role);
        assert_eq!((state.on_message(2, Message::Grant { epoch: 5 }), state.0.role), expected);
        let mut state = Scene::new(Phase::Frozen, role);
        assert_eq!((state.on_message(1, Message::GrantAfterRecovery { epoch: 5 }), state.0.role), expected);
        for (phase, epoch) in [(Phase::Frozen, 4), (Phase::Frozen, 6), (Phase::Open(AT), 5), (ASKED, 5)] {
            let mut state = Scene::new(phase, role);
            let taken = state.on_message(1, Message::GrantAfterRecovery { epoch });
            assert_eq!((taken, state.0.role), (Taken::OutOfTurn, role), "{phase:?} {epoch}");
        }
    }
}

#[test]
fn a_frozen_member_has_said_what_it_had_of_the_lock() {
    let over = Word::shared_only(3);
    let stakes = [
        Claim::Nothing,
        Claim::Nothing,
        Claim::WantsShared,
        Claim::WantsExclusive { over: Word::FREE },
        Claim::WantsExclusive { over },
        Claim::Holds(Shared),
        Claim::Holds(Exclusive),
        Claim::Holds(Shared),
        Claim::Nothing,
    ];
    for (role, claim) in ROLES.into_iter().zip(stakes) {
        let mut state = Scene::open(role);
        state.on_message(3, queue(5));
        assert_eq!(state.on_message(1, Message::Freeze { epoch: 5 }), Taken::Well);
        assert_eq!(state.said(), [report(claim)], "{role:?}");
        assert_eq!((state.0.phase, state.0.successor), (Phase::Frozen, None));
    }
    let passed = Some(Passed { who: rank(3), turn: 7 });
    let mut state = Scene::open(Role::Idle);
    state.0.passed = passed;
    state.on_message(1, Message::Freeze { epoch: 5 });
    let told = Report { claim: Claim::Nothing, turn: 9, passed };
    assert_eq!(state.said(), [(1, Message::Report { epoch: 5, report: told })]);
}

#[test]
fn an_atomic_that_is_out_comes_home_before_the_report() {
    // Whether its outcome is known, whether the end was announced: whether the epoch goes on.
    for (known, announced, goes_on) in
        [(true, false, true), (true, true, false), (false, false, false), (false, true, false)]
    {
        let mut state = Scene::open(Role::WantsShared);
        state.0.atomic_out = true;
        if announced {
            assert_eq!(state.on_message(1, Message::Freeze { epoch: 5 }), Taken::Well);
        }
        assert_eq!((state.said(), state.0.phase), (vec![], Phase::Open(AT)));
        assert_eq!(state.atomic_done(known), goes_on, "known: {known}, announced: {announced}");
        assert!(!state.0.atomic_out);
        let expected = if goes_on { vec![] } else { vec![report(Claim::WantsShared)] };
        assert_eq!(state.said(), expected);
        assert_eq!(state.0.phase == Phase::Frozen, !goes_on);
    }
}

#[test]
fn what_is_for_the_home_changes_no_member() {
    let over = Report { claim: Claim::Nothing, turn: 1, passed: None };
    for message in [
        Message::Open { policy: WaitPolicy::Queue },
        Message::Wait { epoch: 5, who: HOME, readers: 1 },
        Message::Release { epoch: 5 },
        Message::Downgrade { epoch: 5 },
        Message::RetryReset { epoch: 5 },
        Message::Report { epoch: 5, report: over },
    ] {
        let mut state = Scene::open(Role::WantsShared);
        assert_eq!(state.on_message(2, message), Taken::OutOfTurn);
        assert_eq!((state.said(), state.0.role), (vec![], Role::WantsShared));
    }
}
