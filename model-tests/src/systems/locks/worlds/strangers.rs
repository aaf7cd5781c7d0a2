//! Lock worlds in which a node says what nobody should: bytes that are no message, and messages out of turn.
//!
//! Each counts as what it is at whoever hears it, and nothing else comes of it: two nodes ask for a lock meanwhile, and all that is
//! promised to them holds.

use super::client::{Recorder, WorldOracles};
use super::service::{Locks, State};
use crate::explore::{Size, Violation};
use crate::harness::{Member, Model, Shape};
use weft_protocols::locks::{LockStats, Scheme};
use weft_protocols::rt::WaitPoint;
use weft_protocols::transport::{Channel, Rank};
use weft_sim::explore::FaultSet;
use weft_verbs::Node;

/// The lock services' channel.
const LOCKS: Channel = Channel(1);

/// The promise that this model judges itself.
const COUNTED: &str = "strangers";

/// A lock world, and a node that says what it should not.
pub(super) struct Strangers(pub(super) Locks);

/// What is said.
struct Said {
    about: &'static str,
    bytes: Vec<u8>,
}

/// A message of a lock that nobody uses.
fn of(scheme: u8, kind: u8, rest: &[u8]) -> Vec<u8> {
    [&[1, scheme, kind, 0][..], &u64::MAX.to_le_bytes(), rest].concat()
}

/// What is said about locks of a scheme.
fn said(scheme: Scheme) -> Vec<Said> {
    let says = |about, bytes| Said { about, bytes };
    let number = match scheme {
        Scheme::Srsl => 1,
        Scheme::Ncosed => 2,
        Scheme::Dqnl => 3,
    };
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

    fn name(&self) -> &str {
        self.0.name()
    }

    fn size(&self) -> Size {
        Size::default()
    }

    fn shape(&self) -> Shape {
        self.0.shape()
    }

    fn usual_faults(&self) -> FaultSet {
        self.0.usual_faults()
    }

    fn promises(&self) -> &'static [&'static str] {
        &[COUNTED]
    }

    fn oracles(&self) -> WorldOracles {
        self.0.oracles()
    }

    fn configurations(&self) -> usize {
        said(self.0.scheme).len()
    }

    fn configuration(&self, number: usize) -> String {
        format!("the last node says: {}", said(self.0.scheme)[number].about)
    }

    fn start(&self, configuration: usize, members: &[Member], recorder: &Recorder) -> State {
        let state = self.0.start(0, members, recorder);
        if !self.0.warms_up() {
            self.speak(configuration, members);
        }
        state
    }

    fn warms_up(&self) -> bool {
        self.0.warms_up()
    }

    fn begin(&self, configuration: usize, state: &mut State, members: &[Member], recorder: &Recorder) {
        self.0.begin(0, state, members, recorder);
        self.speak(configuration, members);
    }

    fn program(&self, member: &Member) -> Box<dyn Node> {
        self.0.program(member)
    }

    fn finish(&self, state: &State, members: &[Member], _: &Recorder) -> Result<(), Violation> {
        for node in 0..members.len() - 1 {
            let LockStats { malformed, out_of_turn, .. } = state.service(node).stats();
            // Which of them was said, the configuration knows; that it is one of both, all can see.
            if (malformed, out_of_turn) != (1, 0) && (malformed, out_of_turn) != (0, 1) {
                let text = format!(
                    "n{node} was told one, and counts {malformed} malformed and {out_of_turn} out of turn"
                );
                return Err(Violation::new(COUNTED, text));
            }
        }
        Ok(())
    }
}

impl Strangers {
    fn speak(&self, configuration: usize, members: &[Member]) {
        let [others @ .., last] = members else { return };
        let Said { bytes, .. } = said(self.0.scheme).swap_remove(configuration);
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
