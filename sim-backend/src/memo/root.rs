//! Set-ups: carried out once, and replayed from then on.

use super::calls::{Logged, Mode, OTHER_SET_UP, ReplayLog};
use crate::Fabric;
use crate::explore::{Enabled, Outcome, Snapshot};
use crate::world::State;

/// Where an explorer's executions begin: the state of the fabric to which a set-up leads, and the log of all that the
/// fabric answered during it.
///
/// Programs cannot be copied, so every execution makes them anew; but the fabric under them can. The first
/// [`Fabric::begin`] carries the set-up out. The next ones copy the state that it led to and run the same code, and
/// whatever that asks of the fabric is answered from the log: the handles that it gets stand for objects that are there
/// already, one handle for each, and each destroys its object when it is dropped, as ever.
#[derive(Debug)]
pub struct Root {
    empty: Snapshot,
    kept: Kept,
}

#[derive(Debug)]
enum Kept {
    /// No set-up was carried out yet.
    New,
    /// The state that it led to, and its log.
    Whole(Box<State>, ReplayLog),
    /// Something was answered that no log can answer.
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

    /// The state to which the set-up led, if that is kept.
    pub(super) fn state(&self) -> Option<&State> {
        match &self.kept {
            Kept::Whole(state, _) => Some(state),
            Kept::New | Kept::Nothing => None,
        }
    }

    /// Whether the set-up need not be carried out any more.
    pub fn is_kept(&self) -> bool {
        matches!(self.kept, Kept::Whole(..))
    }
}

impl Fabric {
    /// Takes the programs away, as [`Fabric::reset_to`] does, and sets the fabric up by `build`: handles made,
    /// programs [mounted](Fabric::mount) and [run until nothing can happen](Fabric::run_until_quiescent). `build` must do the same
    /// every time; with an [untimed](crate::Order::Untimed) fabric, whatever it asks of that is answered from the second
    /// time on without being done again.
    ///
    /// # Panics
    ///
    /// If `build` does something else than it did the first time.
    pub fn begin<T>(&self, root: &mut Root, build: impl FnOnce() -> T) -> T {
        match std::mem::replace(&mut root.kept, Kept::Nothing) {
            Kept::Whole(state, log) => {
                self.drop_programs();
                self.world.borrow_mut().put_back(&state);
                root.kept = Kept::Whole(state, log);
                self.replay(root, build)
            }
            kept => {
                self.reset_to(&root.empty);
                if matches!(kept, Kept::New) && self.world.borrow().is_untimed() {
                    self.set_mode(Mode::Recording(Vec::new()));
                }
                let built = build();
                if let Mode::Recording(log) = self.set_mode(Mode::Direct) {
                    root.kept = Kept::Whole(self.snapshot().0, log);
                }
                built
            }
        }
    }

    /// Runs a set-up that is kept, and leaves the state as it is.
    pub(super) fn replay<T>(&self, root: &mut Root, build: impl FnOnce() -> T) -> T {
        let Kept::Whole(_, kept) = &mut root.kept else { panic!("the set-up was carried out") };
        let log = std::mem::take(kept);
        self.set_mode(Mode::Replaying { log, next: 0 });
        let built = build();
        match self.set_mode(Mode::Direct) {
            Mode::Replaying { log, next } if next == log.len() => *kept = log,
            _ => panic!("{OTHER_SET_UP}, and all of it"),
        }
        built
    }

    pub(super) fn set_mode(&self, mode: Mode) -> Mode {
        std::mem::replace(&mut self.world.borrow_mut().recorder.mode, mode)
    }

    /// Drops programs, or what holds them; what their handles stand for stays. But calls that their destructors make are made, on
    /// the state that is there: it is to be replaced before anybody looks at it.
    pub(crate) fn discard(&self, drop: impl FnOnce()) {
        let before = self.set_mode(Mode::Discarding);
        drop();
        self.set_mode(before);
    }

    /// In an [untimed](crate::Order::Untimed) world, lets happen what is first among what can happen, until nothing can.
    pub fn run_until_quiescent(&self) {
        let mut enabled = Vec::new();
        while self.run_on(&mut enabled) {}
    }

    fn run_on(&self, enabled: &mut Vec<Enabled>) -> bool {
        let mut world = self.world.borrow_mut();
        if let Some(logged) = world.recorder.replayed() {
            let Logged::Step(node) = *logged else { return false };
            drop(world);
            self.run_program(node);
            return true;
        }
        drop(world);
        self.enabled(enabled);
        let Some(first) = enabled.first() else {
            self.world.borrow_mut().recorder.log(Logged::Quiescent);
            return false;
        };
        let taken = self.take_with(first.event, Outcome::Done, None, |node| {
            self.world.borrow_mut().recorder.log(Logged::Step(node));
            self.step(node);
        });
        taken.expect("it is enabled");
        true
    }
}
