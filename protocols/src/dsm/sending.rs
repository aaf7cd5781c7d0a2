//! What a node sends: messages, and minipages with the notice behind them.

use super::DsmError;
use super::memory::Object;
use super::messages::{LONGEST, Message};
use super::reading::Reading;
use super::server::Order;
use super::service::{CHANNEL, Service};
use super::shared::PageId;
use crate::rt::BufferGuard;
use crate::transport::{Rank, SendError};
use std::rc::Rc;
use weft_verbs::{RemoteSlice, Verbs};

impl<V: Verbs, R: Reading> Service<V, R> {
    /// Sends a message now, or as soon as the transport has room for it. Messages may overtake each other then: no two of them
    /// depend on their order, since whatever a message follows from has been received.
    pub fn send(&self, to: Rank, message: &Message<'_>) {
        let mut frame = self.frame.take();
        message.encode(&mut frame);
        match self.mesh.send(to, CHANNEL, &frame) {
            Ok(()) => {}
            Err(SendError::Full { .. }) => {
                self.stats.borrow_mut().stalls += 1;
                let (mesh, frame) = (self.mesh.clone(), frame.clone());
                drop(self.rt.spawn(async move {
                    while mesh.room(to).await.is_ok()
                        && matches!(mesh.send(to, CHANNEL, &frame), Err(SendError::Full { .. }))
                    {
                    }
                }));
            }
            Err(SendError::Closed) => self.fail(DsmError::Closed),
            Err(_) => self.stats.borrow_mut().out_of_turn += 1,
        }
        self.frame.replace(frame);
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
        let mut frame = Vec::with_capacity(LONGEST);
        notice(None).encode(&mut frame);
        self.place(page, from, (to, at), frame, !asked);
    }

    /// Writes a minipage straight from this node's memory to the requestor's, and gives notice behind it: now, or as soon as the
    /// transport has room. `leaves`: what it is written from is the minipage itself.
    fn place(
        self: &Rc<Self>,
        page: PageId,
        from: BufferGuard<V>,
        (to, at): (Rank, RemoteSlice),
        frame: Vec<u8>,
        leaves: bool,
    ) {
        let service = Rc::clone(self);
        match self.mesh.place(to, from.share(), at, CHANNEL, &frame) {
            Ok(placed) if leaves => drop(self.rt.spawn(async move {
                placed.ended().await;
                service.has_left(page);
            })),
            Ok(placed) => drop(placed),
            Err(SendError::Full { .. }) => {
                self.stats.borrow_mut().stalls += 1;
                drop(self.rt.spawn(async move {
                    while service.mesh.room(to).await.is_ok() {
                        match service.mesh.place(to, from.share(), at, CHANNEL, &frame) {
                            Err(SendError::Full { .. }) => {}
                            Ok(placed) => {
                                placed.ended().await;
                                break;
                            }
                            Err(_) => break,
                        }
                    }
                    if leaves {
                        service.has_left(page);
                    }
                }));
            }
            Err(SendError::Closed) => self.fail(DsmError::Closed),
            Err(_) => self.stats.borrow_mut().out_of_turn += 1,
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
