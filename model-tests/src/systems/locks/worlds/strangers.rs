//! Lock worlds in which a node says what nobody should: bytes that are no message, and messages out of turn.
//!
//! Each counts as what it is at whoever hears it, and nothing else comes of it: two nodes ask for a lock meanwhile, and all that is
//! promised to them holds. What is said is of a lock that nobody uses, or of the very lock, and then of an epoch that is over, of one
//! that has not come, or of what only others may say.

use super::client::{Recorder, WorldOracles};
use super::service::{Locks, State};
use crate::explore::{Size, Violation};
use crate::harness::{Member, Model, Shape};
use weft_protocols::locks::{LockKey, LockStats, Scheme};
use weft_protocols::rt::WaitPoint;
use weft_protocols::transport::{Channel, Rank};
use weft_sim::explore::FaultSet;
use weft_verbs::Node;

/// The lock services' channel.
const LOCKS: Channel = Channel(1);

/// The promise that this model judges itself.
const COUNTED: &str = "strangers";

/// What a stranger says, of the lock that the others use, in a scheme.
pub(super) type Says = fn(LockKey, Scheme) -> Vec<Said>;

/// A lock world, and a node that says what it should not.
pub(super) struct Strangers {
    pub(super) locks: Locks,
    pub(super) says: Says,
}

/// What is said.
pub(super) struct Said {
    about: String,
    bytes: Vec<u8>,
}

fn says(about: impl Into<String>, bytes: Vec<u8>) -> Said {
    Said { about: about.into(), bytes }
}

const fn number(scheme: Scheme) -> u8 {
    match scheme {
        Scheme::Srsl => 1,
        Scheme::Ncosed => 2,
        Scheme::Dqnl => 3,
    }
}

/// A message of a lock.
fn of_lock(LockKey(key): LockKey, scheme: u8, kind: u8, rest: &[u8]) -> Vec<u8> {
    [&[1, scheme, kind, 0][..], &key.to_le_bytes(), rest].concat()
}

/// What a node may not say of the lock that the others use: it has asked for nothing, and is not its home.
pub(super) fn out_of_turn(key: LockKey, scheme: Scheme) -> Vec<Said> {
    let of = |kind, rest: &[u8]| of_lock(key, number(scheme), kind, rest);
    if scheme == Scheme::Srsl {
        return vec![
            says("a grant", of(2, &[0; 8])),
            says("that the lock is busy", of(3, &[])),
            says("the end of a hold that was none", of(4, &[])),
            says("a hold that goes on shared and was none", of(5, &[])),
            says("a hold in a view, where there is none", of(6, &[1; 9])),
            says("all that it has in a view, where there is none", of(7, &[0; 8])),
        ];
    }
    // Each lock's first word begins the first epoch, and a fault the second.
    let mut all =
        vec![says("that it has no memory", of(3, &[])), says("all that it has in a view", of(14, &[0; 8]))];
    all.push(says("that the lock is busy", of(16, &[])));
    for (when, epoch) in [("an epoch that is over", 0_u32), ("an epoch to come", 9)] {
        let mut say = |about: &str, kind, rest: &[u8]| {
            let bytes = of(kind, &[&epoch.to_le_bytes()[..], rest].concat());
            all.push(says(format!("{about}, of {when}"), bytes));
        };
        say("a word", 2, &[0; 16]);
        say("that it comes next", 4, &[0; 8]);
        say("that it wants to share", 5, &[]);
        say("a grant", 6, &[]);
        say("who comes next", 7, &[1, 0, 0, 0, 0, 0, 0, 0]);
        say("the end of a shared hold", 8, &[]);
        say("that a reset is to be tried", 9, &[]);
        say("the end of the epoch", 10, &[]);
        say("a report", 11, &[0; 24]);
        say("a report without a claim", 11, &[7; 24]);
        say("a report of a turn of nobody", 11, &[&[0; 20][..], &[1; 4]].concat());
        say("a grant after a report", 12, &[]);
        say("a hold that goes on shared", 13, &[]);
    }
    all
}

/// What is no message, or of a lock that nobody uses.
pub(super) fn of_nothing(_: LockKey, scheme: Scheme) -> Vec<Said> {
    let of = |scheme, kind, rest: &[u8]| of_lock(LockKey(u64::MAX), scheme, kind, rest);
    let number = number(scheme);
    let mut all = vec![
        says("nothing", Vec::new()),
        says("another version", [&[9, number, 1, 0][..], &[0; 8]].concat()),
        says("another scheme", of(9, 1, &[])),
        says("a reserved byte", [&[1, number, 1, 7][..], &[0; 8]].concat()),
        says("no kind of message", of(number, 99, &[])),
    ];
    match scheme {
        Scheme::Srsl => all.extend([
            says("no mode", of(number, 1, &[7, 0])),
            says("no way to wait", of(number, 1, &[0, 7])),
            says("too much", of(number, 4, &[0])),
            says("a grant that nobody waits for", of(number, 2, &[0; 8])),
            says("a refusal of nothing", of(number, 3, &[])),
            says("the end of a hold that was none", of(number, 4, &[])),
            says("a hold that goes on shared and was none", of(number, 5, &[])),
        ]),
        Scheme::Ncosed | Scheme::Dqnl => all.extend([
            says("a word at no place of one", of(number, 2, &[1; 4 + 16])),
            says("too much", of(number, 1, &[0])),
            says("a grant that nobody waits for", of(number, 6, &[0; 4])),
        ]),
    }
    all
}

impl Model for Strangers {
    type State = State;
    type Oracles = WorldOracles;

    fn size(&self) -> Size {
        Size::default()
    }

    fn shape(&self) -> Shape {
        self.locks.shape()
    }

    fn usual_faults(&self) -> FaultSet {
        self.locks.usual_faults()
    }

    fn promises(&self) -> &'static [&'static str] {
        &[COUNTED]
    }

    fn oracles(&self) -> WorldOracles {
        self.locks.oracles()
    }

    fn configurations(&self) -> usize {
        self.said().len()
    }

    fn configuration(&self, number: usize) -> String {
        format!("the last node says: {}", self.said()[number].about)
    }

    fn start(&self, configuration: usize, members: &[Member], recorder: &Recorder) -> State {
        let state = self.locks.start(0, members, recorder);
        if !self.locks.warms_up() {
            self.speak(configuration, members);
        }
        state
    }

    fn warms_up(&self) -> bool {
        self.locks.warms_up()
    }

    fn begin(&self, configuration: usize, state: &mut State, members: &[Member], recorder: &Recorder) {
        self.locks.begin(0, state, members, recorder);
        self.speak(configuration, members);
    }

    fn program(&self, member: &Member) -> Box<dyn Node> {
        self.locks.program(member)
    }

    fn finish(&self, state: &State, members: &[Member], _: &Recorder) -> Result<(), Violation> {
        for node in 0..members.len() - 1 {
            let LockStats { malformed, out_of_turn, stale_messages, .. } = state.service(node).stats();
            // Which of them was said, the configuration knows; that it is one of these, all can see. After a fault others are late, too; and
            // who believes what was said of DQNL's queue may be out of turn then with those who do not.
            let is_counted = match malformed + out_of_turn {
                0 => stale_messages > 0,
                counted => counted == 1 || self.locks.scheme == Scheme::Dqnl,
            };
            if !is_counted {
                let text = format!(
                    "n{node} was told one, and counts {malformed} malformed, {out_of_turn} out of turn and {stale_messages} of an epoch that is over"
                );
                return Err(Violation::new(COUNTED, text));
            }
        }
        Ok(())
    }
}

impl Strangers {
    fn said(&self) -> Vec<Said> {
        (self.says)(self.locks.key(), self.locks.scheme)
    }

    fn speak(&self, configuration: usize, members: &[Member]) {
        let [others @ .., last] = members else { return };
        let Said { bytes, .. } = self.said().swap_remove(configuration);
        let (mesh, rt, others) = (last.mesh.clone(), last.rt.clone(), others.len() as u32);
        last.rt.spawn(async move {
            for other in 0..others {
                // A mesh keeps more messages than that.
                let _ = mesh.send(Rank::from_index(other), LOCKS, &bytes);
                rt.yield_now().at(other).await;
            }
        });
    }
}
