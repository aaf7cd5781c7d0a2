//! Slots: how many frames each guest of a server may send, out of the buffers of one shared receive queue. A state machine without I/O.
//!
//! - A guest has [`OWN`] buffers of its own for as long as it is known: one slot, and one for frames that only acknowledge or give back.
//!   So nobody starves, however many there are.
//! - Beside them is a number of **common** buffers. A guest that has more to send than it may (it is *hungry*, and says so in each frame)
//!   gets an equal share of them. A guest that is not gives back what it has of them, when the server has told it so.
//! - A slot is the guest's until a frame of the guest has used it or has given it back, both of which the server reads behind all that the
//!   guest sent before; or until its connection is fenced. It is not enough to have told the guest: it may have sent before it read
//!   that. So the slots granted are never more than the buffers that are posted, and no receiver is ever not ready.

use std::collections::{BTreeMap, BTreeSet};

/// Buffers of each guest's own.
pub(super) const OWN: u32 = 2;

/// What a guest has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Held {
    /// Frames that it may send and has not sent, as far as this server has received them.
    out: u32,
    /// Its frames that were taken and whose buffers are not posted again.
    in_hand: u32,
}

impl Held {
    /// Of the common buffers.
    fn extra(&self) -> u32 {
        (self.out + self.in_hand).saturating_sub(OWN)
    }
}

/// A guest has sent, or given back, what it never had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overdrawn;

/// The slots of all guests of a server.
#[derive(Clone, Debug, Hash)]
pub(super) struct Slots {
    /// Buffers beside each guest's own, and how many of them nobody has.
    common: u32,
    free: u32,
    guests: BTreeMap<usize, Held>,
    /// Those who have more to send than they may. There may be thousands of others, whom nobody who gives slots looks at.
    hungry: BTreeSet<usize>,
    /// The guest that got one last: the next one is behind it.
    turn: usize,
}

impl Slots {
    /// With so many common buffers.
    pub(super) fn new(common: u32) -> Slots {
        Slots { common, free: common, guests: BTreeMap::new(), hungry: BTreeSet::new(), turn: 0 }
    }

    /// How many buffers are to be posted or in hand.
    pub(super) fn buffers(&self) -> u32 {
        self.common + OWN * self.guests.len() as u32
    }

    /// How many slots are granted.
    #[cfg(test)]
    pub(super) fn granted(&self) -> u32 {
        self.guests.values().map(|held| held.out).sum()
    }

    /// How many common buffers somebody has.
    pub(super) fn lent(&self) -> u32 {
        self.common - self.free
    }

    /// Buffers of its own are there for a guest.
    pub(super) fn admit(&mut self, guest: usize) {
        self.guests.insert(guest, Held { out: OWN, ..Held::default() });
    }

    /// A guest's connection is fenced, or it has a new one: whatever it may have been going to send it does not send. It begins with its
    /// own.
    pub(super) fn begin(&mut self, guest: usize) {
        let Some(held) = self.guests.get_mut(&guest) else { return };
        self.free += held.extra();
        self.hungry.remove(&guest);
        *held = Held { out: OWN, ..Held::default() };
    }

    /// A guest is forgotten: its own buffers are of no more use.
    pub(super) fn forget(&mut self, guest: usize) {
        self.begin(guest);
        self.guests.remove(&guest);
    }

    /// A frame of a guest was taken out of its buffer. It says whether the guest has more to send than it may, and how many slots it gives
    /// back.
    pub(super) fn used(&mut self, guest: usize, hungry: bool, back: u32) -> Result<(), Overdrawn> {
        let Some(held) = self.guests.get_mut(&guest) else { return Err(Overdrawn) };
        // Nobody is asked for its own.
        if back > held.extra() || held.out < 1 + back {
            return Err(Overdrawn);
        }
        held.out -= 1 + back;
        held.in_hand += 1;
        match hungry {
            true => self.hungry.insert(guest),
            false => self.hungry.remove(&guest),
        };
        self.free += back;
        Ok(())
    }

    /// The buffer of a guest's frame is posted again. What was of the common ones is everybody's.
    pub(super) fn posted(&mut self, guest: usize) -> u32 {
        let share = self.share();
        let Some(held) = self.guests.get_mut(&guest) else { return 0 };
        if held.in_hand == 0 {
            return 0;
        }
        let keeps = held.extra() == 0 || self.hungry.contains(&guest) && held.extra() <= share;
        held.in_hand -= 1;
        match keeps {
            true => held.out += 1,
            false => self.free += 1,
        }
        u32::from(keeps)
    }

    /// Gives one more slot to a guest that is hungry, the next in turn that has less than its share.
    pub(super) fn grant(&mut self) -> Option<usize> {
        if self.free == 0 {
            return None;
        }
        let share = self.share();
        let wants = |guest: &&usize| self.guests.get(guest).is_some_and(|held| held.extra() < share);
        let behind = self.hungry.range(self.turn + 1..).chain(self.hungry.range(..=self.turn));
        let guest = *behind.into_iter().find(wants)?;
        self.free -= 1;
        self.turn = guest;
        self.guests.get_mut(&guest)?.out += 1;
        Some(guest)
    }

    /// How many slots a guest may keep that has nothing to send.
    pub(super) fn keep(&self, guest: usize) -> u32 {
        if self.hungry.contains(&guest) { OWN + self.share() } else { OWN }
    }

    /// Of the common buffers, an equal part for each who wants more.
    fn share(&self) -> u32 {
        self.common.checked_div(self.hungry.len() as u32).map_or(self.common, |share| share.max(1))
    }
}

#[cfg(test)]
#[path = "guest_slots_tests.rs"]
mod tests;
