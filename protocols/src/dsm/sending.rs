//! What a node sends: messages, and minipages with the notice behind them.

use super::DsmError;
use super::memory::Object;
use super::messages::{LONGEST, Message};
use super::reading::Reading;
use super::server::Order;
use super::service::{CHANNEL, STAMP, Service};
use super::shared::PageId;
use crate::rt::BufferGuard;
use crate::transport::{Placed, Rank, SendError};
use std::rc::Rc;
use weft_verbs::{RemoteSlice, Verbs};

impl<V: Verbs, R: Reading> Service<V, R> {
    /// Sends a message now, or as soon as it reaches the node that it is for and the transport has room for it. Messages may overtake
    /// each other then: no two of them depend on their order, since whatever a message follows from has been received.
    pub fn send(&self, to: Rank, message: &Message<'_>) {
        if self.try_send(to, message) {
            return;
        }
        let (reach, frame, epoch) = (self.reach.clone(), self.framed(message), self.epoch());
        drop(self.rt.spawn(async move {
            while reach.room(to, epoch).await
                && matches!(reach.mesh.send(to, CHANNEL, &frame), Err(SendError::Full { .. }))
            {}
        }));
    }

    /// Sends a message, unless it would not [reach](super::reach) the node that it is for, or the transport has no room for it.
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
            Err(_) => self.stats.borrow_mut().out_of_turn += 1,
        }
        true
    }

    fn framed(&self, message: &Message<'_>) -> Vec<u8> {
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
        self.stats.borrow_mut().transfers += 1;
        if !self.mesh.places() {
            return self.send(to, &notice(Some(&object.copied(page.index))));
        }
        // The data may come back before the adapter has let go of them, if this node has asked for them already. Then it sends a
        // copy. Otherwise it asks when the adapter has let go: see `request`.
        let asked = self.requests.borrow().any(page);
        let from = match asked.then(|| self.mesh.copied(&object.copied(page.index))) {
            None => object.bytes(page.index),
            Some(Ok(copy)) => copy,
            Some(Err(why)) => return self.fail(DsmError::Memory(why)),
        };
        if !asked {
            *self.leaving.borrow_mut().entry(page).or_default() += 1;
        }
        let frame = self.framed(&notice(None));
        self.place(page, from, (to, at), frame, !asked);
    }

    /// Writes a minipage straight from this node's memory to the requestor's, and gives notice behind it: now, or as soon as that
    /// reaches it and the transport has room. `leaves`: what it is written from is the minipage itself.
    fn place(
        self: &Rc<Self>,
        page: PageId,
        from: BufferGuard<V>,
        (to, at): (Rank, RemoteSlice),
        frame: Vec<u8>,
        leaves: bool,
    ) {
        let placed = match self.reach.has_met(to) {
            true => self.mesh.place(to, from.share(), at, CHANNEL, &frame),
            false => Err(SendError::PeerGone(to)),
        };
        match placed {
            Ok(placed) if leaves || self.following.is_some() => {
                let flight = self.flight(page, to, placed, leaves);
                drop(self.rt.spawn(flight));
            }
            Ok(placed) => drop(placed),
            Err(why @ (SendError::Full { .. } | SendError::PeerGone(_))) => {
                self.stats.borrow_mut().stalls += u64::from(matches!(why, SendError::Full { .. }));
                let service = Rc::clone(self);
                let epoch = self.epoch();
                drop(self.rt.spawn(async move {
                    while service.reach.room(to, epoch).await {
                        match service.mesh.place(to, from.share(), at, CHANNEL, &frame) {
                            Err(SendError::Full { .. }) => {}
                            Ok(placed) => return service.flight(page, to, placed, leaves).await,
                            Err(_) => break,
                        }
                    }
                    if leaves {
                        service.has_left(page);
                    }
                }));
            }
            Err(why) => {
                match why {
                    SendError::Closed => self.fail(DsmError::Closed),
                    _ => self.stats.borrow_mut().out_of_turn += 1,
                }
                if leaves {
                    self.has_left(page);
                }
            }
        }
    }

    /// Follows a minipage that is on its way: until the adapter has let go of it, and, where nodes may die, until it can land no
    /// more.
    fn flight(
        self: &Rc<Self>,
        page: PageId,
        to: Rank,
        mut placed: Placed<V>,
        leaves: bool,
    ) -> impl Future<Output = ()> + use<V, R> {
        let service = Rc::clone(self);
        let strike = self.following.as_ref().map(|following| following.strike_with(placed.striker()));
        async move {
            let mut leaves = leaves;
            while let Some(executed) = placed.post_ended().await {
                if std::mem::take(&mut leaves) {
                    service.has_left(page);
                }
                if strike.is_none() {
                    return;
                }
                if !executed {
                    // Of a peer that is gone nothing is left to land.
                    let _ = service.mesh.resolve_outcomes(to).await;
                }
                placed.settled();
                service.has_landed();
            }
            if leaves {
                service.has_left(page);
            }
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
