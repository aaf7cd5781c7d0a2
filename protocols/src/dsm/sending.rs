//! What a node sends: messages, and minipages with the notice behind them.

use super::DsmError;
use super::memory::Object;
use super::messages::{LONGEST, Message};
use super::reach::Moment;
use super::server::Order;
use super::service::{CHANNEL, STAMP, Service};
use super::shared::PageId;
use crate::rt::BufferGuard;
use crate::transport::{BEFORE_MEMORY_IS_ASKED_FOR, Placed, Rank, SendError};
use std::rc::Rc;
use weft_verbs::{RemoteSlice, Verbs};

/// A minipage that is to be written to a requestor, and what its notice says.
struct Flies<V: Verbs> {
    page: PageId,
    to: Rank,
    /// What it is written from.
    from: BufferGuard<V>,
    id: u32,
    notices: u16,
    version: u64,
    /// It is written from the minipage itself, which this node asks for again only when the adapter has let go of it.
    leaves: bool,
    /// When that was ordered.
    when: Moment,
}

impl<V: Verbs> Service<V> {
    /// Sends a message now, or as soon as it reaches the node that it is for and the transport has room for it. Messages may overtake
    /// each other then: no two of them depend on their order, since whatever a message follows from has been received.
    pub fn send(&self, to: Rank, message: &Message<'_>) {
        if self.try_send(to, message) {
            return;
        }
        let (reach, frame, when) = (self.reach.clone(), self.framed(message), self.reach.now(to));
        let rt = self.rt.clone();
        drop(self.rt.spawn(async move { reach.say(&rt, to, &frame, when).await }));
    }

    /// Sends a message, unless it would not [reach](super::reach) the node that it is for, or the transport has no room for it, or no memory.
    pub fn try_send(&self, to: Rank, message: &Message<'_>) -> bool {
        if !self.reach.has_met(to) {
            return false;
        }
        let mut frame = self.frame.take();
        self.frame_to(message, &mut frame);
        let sent = self.mesh.send(to, CHANNEL, &frame);
        self.frame.replace(frame);
        match sent {
            Ok(()) => {}
            Err(SendError::Full { .. }) => {
                self.stats.borrow_mut().stalls += 1;
                return false;
            }
            Err(SendError::Closed) => self.fail(DsmError::Closed),
            Err(why) if why.lacks_memory() => return false,
            Err(_) => self.stats.borrow_mut().out_of_turn += 1,
        }
        true
    }

    /// A message of this epoch, as it is sent.
    pub fn framed(&self, message: &Message<'_>) -> Vec<u8> {
        let mut frame = Vec::with_capacity(LONGEST + STAMP);
        self.frame_to(message, &mut frame);
        frame
    }

    /// A message's bytes, and behind them the epoch's stamp where there are epochs.
    fn frame_to(&self, message: &Message<'_>, frame: &mut Vec<u8>) {
        message.encode(frame);
        if self.following.is_some() {
            frame.extend(self.epoch().to_le_bytes());
        }
    }

    /// Gives notice, behind the data if the requestor needs them.
    pub fn hand_over(self: &Rc<Self>, object: &Object<V>, order: Order) {
        let Order { page, to, id, transfer, notices, version, .. } = order;
        let notice = |data| Message::Notice { page, id, notices, version, data };
        let Some(at) = transfer else { return self.send(to, &notice(None)) };
        {
            let mut stats = self.stats.borrow_mut();
            stats.transfers += 1;
            stats.transferred += object.range(page.index).len() as u64;
        }
        if !self.mesh.places_at(to) {
            return self.send(to, &notice(Some(&object.copied(page.index))));
        }
        // The data may come back before the adapter has let go of them, if this node has asked for them already. Then it sends a
        // copy. Otherwise it asks when the adapter has let go: see `ask`.
        let (leaves, when) = (!self.requests.borrow().any(page), self.reach.now(to));
        let flies = move |from| Flies { page, to, from, notices, id, version, leaves, when };
        let frame = self.framed(&notice(None));
        if leaves {
            *self.leaving.borrow_mut().entry(page).or_default() += 1;
            return self.place(flies(object.bytes(page.index)), at, frame);
        }
        let bytes = object.copied(page.index);
        match self.mesh.copied(&bytes) {
            Ok(copy) => self.place(flies(copy), at, frame),
            // A message waits for memory.
            Err(_) if bytes.len() <= self.longest_carried() as usize => self.send(to, &notice(Some(&bytes))),
            Err(_) => {
                let service = Rc::clone(self);
                drop(self.rt.spawn(async move {
                    while service.reach.room(to, when).await {
                        if let Ok(copy) = service.mesh.copied(&bytes) {
                            return service.place(flies(copy), at, frame);
                        }
                        service.rt.sleep(BEFORE_MEMORY_IS_ASKED_FOR).await;
                    }
                }));
            }
        }
    }

    /// Writes a minipage straight from this node's memory to the requestor's, and gives notice behind it: now, or as soon as that
    /// reaches it and the transport has room.
    fn place(self: &Rc<Self>, flies: Flies<V>, at: RemoteSlice, frame: Vec<u8>) {
        let to = flies.to;
        let placed = match self.reach.has_met(to) {
            true => self.mesh.place(to, flies.from.share(), at, CHANNEL, &frame),
            false => Err(SendError::PeerGone(to)),
        };
        match placed {
            Ok(placed) if flies.leaves || self.following.is_some() || !self.mesh.always_places() => {
                let flight = self.flight(flies, placed);
                drop(self.rt.spawn(flight));
            }
            Ok(placed) => drop(placed),
            Err(why) if may_be_placed_later(&why) => {
                self.stats.borrow_mut().stalls += u64::from(matches!(why, SendError::Full { .. }));
                let service = Rc::clone(self);
                drop(self.rt.spawn(async move {
                    while service.reach.room(to, flies.when).await {
                        match service.mesh.place(to, flies.from.share(), at, CHANNEL, &frame) {
                            Err(SendError::Full { .. }) => {}
                            Err(why) if why.lacks_memory() => {
                                service.rt.sleep(BEFORE_MEMORY_IS_ASKED_FOR).await;
                            }
                            Ok(placed) => return service.flight(flies, placed).await,
                            Err(why) => return service.is_not_placed(&flies, why),
                        }
                    }
                    service.let_go(&flies);
                }));
            }
            Err(why) => self.is_not_placed(&flies, why),
        }
    }

    /// A minipage cannot be written to the requestor.
    fn is_not_placed(self: &Rc<Self>, flies: &Flies<V>, why: SendError) {
        match why {
            SendError::OtherRail(_) => self.carry(flies),
            SendError::Closed => self.fail(DsmError::Closed),
            SendError::PeerGone(_) if self.following.is_some() => {}
            _ => self.stats.borrow_mut().out_of_turn += 1,
        }
        self.let_go(flies);
    }

    /// A message carries a minipage that was to be written to the requestor. Its bytes are as they were: who asked has not got it, so
    /// nobody else has.
    fn carry(&self, flies: &Flies<V>) {
        let Flies { page, to, id, notices, version, when, .. } = *flies;
        // What was ordered in an epoch that is over, or for a boot that is, counts no more.
        if !self.reach.is_now(to, when) {
            return;
        }
        match flies.from.bytes() {
            Ok(data) => self.send(to, &Message::Notice { page, id, notices, version, data: Some(&data) }),
            Err(why) => self.fail(DsmError::Memory(why)),
        }
    }

    /// The adapter does not read the minipage any more.
    fn let_go(self: &Rc<Self>, flies: &Flies<V>) {
        if flies.leaves {
            self.has_left(flies.page);
        }
    }

    /// Follows a minipage that is on its way: until the adapter has let go of it, and, where nodes may die, until it can land no
    /// more. Where the connection has gone over to a rail that does not know the memory, a message carries it.
    fn flight(self: &Rc<Self>, flies: Flies<V>, mut placed: Placed<V>) -> impl Future<Output = ()> + use<V> {
        let service = Rc::clone(self);
        let strike = self.following.as_ref().map(|following| following.strike_with(placed.striker()));
        async move {
            let mut flies = flies;
            while let Some(executed) = placed.post_ended().await {
                service.let_go(&flies);
                flies.leaves = false;
                if strike.is_none() && service.mesh.always_places() {
                    return;
                }
                if !executed && strike.is_some() {
                    // Of a peer that is gone nothing is left to land.
                    let _ = service.mesh.resolve_outcomes(flies.to).await;
                }
                placed.settled();
                service.has_landed();
            }
            if placed.is_void() {
                service.carry(&flies);
            }
            service.let_go(&flies);
            if let (Some(following), Some(strike)) = (&service.following, strike) {
                following.has_ended(strike);
            }
        }
    }

    /// The adapter does not read a minipage any more that this node has sent. What was to be asked for it is asked now.
    fn has_left(self: &Rc<Self>, page: PageId) {
        let mut leaving = self.leaving.borrow_mut();
        if let Some(left) = leaving.get_mut(&page) {
            *left -= 1;
            if *left > 0 {
                return;
            }
            leaving.remove(&page);
        }
        drop(leaving);
        let unasked = self.unasked.borrow_mut().remove(&page);
        for (manager, request) in unasked.into_iter().flatten() {
            self.send(manager, &request);
        }
        self.close_freed();
    }
}

fn may_be_placed_later(why: &SendError) -> bool {
    matches!(why, SendError::Full { .. } | SendError::PeerGone(_)) || why.lacks_memory()
}
