//! Beginning again: an explorer's root, put up once for real and from then on by what it was answered.

use super::Fabric;
use crate::explore::{Enabled, Outcome, Snapshot};
use crate::world::{Answer, State, Tape};

/// Where an explorer's executions begin: what a set-up makes of a fabric, and all that the fabric answered while it
/// did.
///
/// Programs cannot be copied, so every execution makes them anew; but the fabric under them can. The first
/// [`Fabric::begin`] carries the set-up out. The next ones copy the state that it led to and run the same code,
/// and whatever that asks of the fabric is answered as it was the first time: the handles that it gets stand for objects
/// that are there already, one handle for each, and each destroys its object when it is dropped, as ever.
#[derive(Debug)]
pub struct Root {
    empty: Snapshot,
    kept: Kept,
}

#[derive(Debug)]
enum Kept {
    /// No set-up was carried out yet.
    New,
    /// What it led to, and what it was answered.
    Whole(Box<State>, Vec<Answer>),
    /// Something was answered that cannot be given again.
    Nothing,
}

impl Root {
    /// A root whose set-up begins with the fabric as it is.
    pub fn new(fabric: &Fabric) -> Root {
        Root { empty: fabric.snapshot(), kept: Kept::New }
    }

    /// The same beginning, of which nothing is kept yet.
    #[must_use]
    pub fn anew(&self) -> Root {
        Root { empty: self.empty.clone(), kept: Kept::New }
    }

    /// What the set-up led to, if that is kept.
    pub(super) fn state(&self) -> Option<&State> {
        match &self.kept {
            Kept::Whole(state, _) => Some(state),
            Kept::New | Kept::Nothing => None,
        }
    }

    pub(super) fn with_state<T>(&mut self, look: impl FnOnce(&mut State) -> T) -> T {
        match &mut self.kept {
            Kept::Whole(state, _) => look(state),
            Kept::New | Kept::Nothing => panic!("a set-up that is to be known by heart can be repeated"),
        }
    }

    /// Whether the set-up need not be carried out any more.
    pub fn is_kept(&self) -> bool {
        matches!(self.kept, Kept::Whole(..))
    }
}

impl Fabric {
    /// Takes the programs away, as [`Fabric::reset_to`] does, and sets the fabric up by `build`: handles made,
    /// programs [mounted](Fabric::mount) and [run to their rest](Fabric::settle). `build` must do the same every time;
    /// with an [untimed](crate::Order::Untimed) fabric, whatever it asks of that is answered from the second time on
    /// without being done again.
    ///
    /// # Panics
    ///
    /// If `build` does something else than it did the first time.
    pub fn begin<T>(&self, root: &mut Root, build: impl FnOnce() -> T) -> T {
        match std::mem::replace(&mut root.kept, Kept::Nothing) {
            Kept::Whole(state, answers) => {
                self.drop_programs();
                self.world.borrow_mut().put_back(&state);
                root.kept = Kept::Whole(state, answers);
                self.play(root, build)
            }
            kept => {
                self.reset_to(&root.empty);
                if matches!(kept, Kept::New) && self.world.borrow().untimed {
                    self.world.borrow_mut().tape = Tape::Recording(Vec::new());
                }
                let built = build();
                let tape = std::mem::take(&mut self.world.borrow_mut().tape);
                if let Tape::Recording(answers) = tape {
                    root.kept = Kept::Whole(self.snapshot().0, answers);
                }
                built
            }
        }
    }

    /// Runs a set-up that is kept, and leaves the state as it is.
    pub(super) fn play<T>(&self, root: &mut Root, build: impl FnOnce() -> T) -> T {
        let Kept::Whole(_, answers) = &mut root.kept else { panic!("the set-up was carried out") };
        let answers = std::mem::take(answers);
        self.world.borrow_mut().tape = Tape::Playing { answers, next: 0 };
        let built = build();
        if let Kept::Whole(_, answers) = &mut root.kept {
            *answers = self.rewind();
        }
        built
    }

    /// Takes back a tape that was played to its end.
    fn rewind(&self) -> Vec<Answer> {
        match std::mem::take(&mut self.world.borrow_mut().tape) {
            Tape::Playing { answers, next } if next == answers.len() => answers,
            _ => panic!("a set-up does the same every time, and all of it"),
        }
    }

    /// In an [untimed](crate::Order::Untimed) world, lets happen what is first among what can happen, until nothing can.
    pub fn settle(&self) {
        let mut enabled = Vec::new();
        while self.settle_on(&mut enabled) {}
    }

    fn settle_on(&self, enabled: &mut Vec<Enabled>) -> bool {
        let mut world = self.world.borrow_mut();
        if let Some(answer) = world.played() {
            let Answer::Stepped(node) = *answer else { return false };
            drop(world);
            self.run_program(node);
            return true;
        }
        drop(world);
        self.enabled(enabled);
        let Some(first) = enabled.first() else {
            self.world.borrow_mut().keep(Answer::Settled);
            return false;
        };
        self.take(first.event, Outcome::Done, None).expect("it is enabled");
        true
    }
}
