//! The worlds in which the readings are refuted.

use super::super::client::{Recorder, WorldOracles, client};
use super::super::modes::{self, Requests};
use super::{CHANNEL, Node, Reading};
use crate::explore::{Coverage, Size, Violation};
use crate::harness::{Member, Model, Shape};
use crate::named::Named;
use weft_protocols::locks::{LockKey, Mode};
use weft_sim::SimMr;
use weft_sim::explore::{FaultSet, Outcome};
use weft_verbs::{AccessFlags, MemoryRegion, Wait};

/// One lock, read in one way, and what each node asks of it. The word is at the first node.
pub struct AsPublished {
    /// How the paper is read.
    pub reading: Reading,
    /// What each node asks for, one after the other.
    pub requests: Requests,
    /// How the nodes learn of completions.
    pub wait: Wait,
}

impl AsPublished {
    /// Bits of the shared half: as many as so many requests need, or one less.
    fn shared_bits(&self, modes: &[Vec<Mode>]) -> u32 {
        let most = modes.iter().flatten().filter(|mode| **mode == Mode::Shared).count() as u32;
        let enough = (most + 1).next_power_of_two().trailing_zeros().max(1);
        if self.reading == Reading::CountCarries { enough - 1 } else { enough }
    }
}

/// What an execution keeps.
pub struct State {
    nodes: Vec<Node>,
    word: SimMr,
}

impl Model for AsPublished {
    type State = State;
    type Oracles = WorldOracles;

    fn size(&self) -> Size {
        self.requests.size()
    }

    fn smaller(&self) -> Vec<Size> {
        self.requests.smaller().iter().map(Requests::size).collect()
    }

    /// None, but for the reading that is about one: what the paper has nothing to say about breaks it in any case.
    fn usual_faults(&self) -> FaultSet {
        match self.reading {
            Reading::ResendsAtomics => FaultSet::one(Outcome::LoseCompletion).with(Outcome::RequesterGaveUp),
            _ => FaultSet::NONE,
        }
    }

    fn oracles(&self) -> WorldOracles {
        WorldOracles::new(false)
    }

    fn shape(&self) -> Shape {
        Shape { nodes: self.requests.nodes(), wait: self.wait, home: Some(0), one_by_one: false }
    }

    fn configurations(&self) -> usize {
        self.requests.mixes()
    }

    fn configuration(&self, number: usize) -> String {
        format!("the nodes ask for {}", modes::text(&self.requests.mix(number)))
    }

    fn start(&self, configuration: usize, members: &[Member], recorder: &Recorder) -> State {
        let mut modes = self.requests.mix(configuration);
        let bits = self.shared_bits(&modes);
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_ATOMIC | AccessFlags::REMOTE_WRITE;
        let word = members[0].mesh.alloc(8, access).expect("eight bytes");
        let at = word.remote(0..8).expect("a word");
        let home = members[0].mesh.me();
        let start = |(node, member): (u32, &Member)| {
            let lock = Node::new(member, home, at, bits, self.reading);
            let inbox = member.mesh.open(CHANNEL).expect("nobody opened it");
            let Member { rt, .. } = member;
            rt.spawn(lock.clone().hear(inbox));
            let modes = std::mem::take(&mut modes[node as usize]);
            rt.spawn(client(rt.clone(), recorder.clone(), node, LockKey(0), modes, lock.clone()));
            lock
        };
        State { nodes: (0..).zip(members).map(start).collect(), word }
    }

    fn name_of(&self, state: &State, node: usize, address: u64) -> Option<Named> {
        let in_words = state.nodes[0].word_in_words();
        (node == 0 && address == state.word.addr()).then(|| Named::with("the lock's word", in_words))
    }

    fn finish(&self, state: &State, _: &[Member], _: &Recorder) -> Result<(), Violation> {
        let word = state.word.load(0).unwrap_or(u64::MAX);
        if word != 0 {
            return Err(Violation::new("no leaks", format!("the word is {word:#x} and should be free")));
        }
        match state.nodes.iter().position(|node| !node.is_clean()) {
            Some(node) => Err(Violation::new("no leaks", format!("n{node} has something left of the lock"))),
            None => Ok(()),
        }
    }

    fn coverage(&self, state: &State, _: &[Member], sink: &mut Coverage) {
        let any = |of: fn(&super::Seen) -> u32| state.nodes.iter().any(|node| of(&node.seen()) > 0);
        sink.sometimes("a compare-and-swap failed and was repeated", any(|seen| seen.missed));
        sink.sometimes("a holder left before it knew its successor", any(|seen| seen.followed_late));
        sink.sometimes("the home counted releases for somebody", any(|seen| seen.waits));
        sink.sometimes("the home was kicked", any(|seen| seen.kicks));
        sink.sometimes("the home's reset failed", any(|seen| seen.resets_failed));
        sink.sometimes("a shared request was sent to an exclusive holder", any(|seen| seen.redirected));
    }
}
