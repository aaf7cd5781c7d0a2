//! Observer effects: what programs tell those who watch them.

use crate::Fabric;
use crate::world::World;
use std::cell::RefCell;
use std::fmt;
use std::rc::{Rc, Weak};

/// What programs do past the fabric to those who watch, and no program sees: to oracles, say.
///
/// A memoised program has an effect each time that it comes to where it had it.
#[derive(Clone)]
pub struct ObserverEffects {
    world: Weak<RefCell<World>>,
}

impl fmt::Debug for ObserverEffects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ObserverEffects")
    }
}

impl ObserverEffects {
    /// Carries an effect out: now, and whenever the same program comes here again.
    pub fn apply(&self, effect: impl Fn() + 'static) {
        let Some(world) = self.world.upgrade() else { return effect() };
        if !world.borrow_mut().recorder.is_new_effect() {
            return;
        }
        effect();
        world.borrow_mut().recorder.learn_effect(effect);
    }
}

impl Fabric {
    /// What programs on this fabric have their effects on observers by.
    pub fn observer_effects(&self) -> ObserverEffects {
        ObserverEffects { world: Rc::downgrade(&self.world) }
    }
}
