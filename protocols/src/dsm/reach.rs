//! Whom a message reaches: the boot of a node that has a part in the memory, and no other one.
//!
//! The memory begins with a view of the membership that has all nodes, and that view names their boots. This node may not have met one
//! of them by then: it still knows the boot before, or has expelled that one and heard of no other. What the transport were given then
//! it would keep for the boot before, and drop when the next one connects, or it would refuse it. Nobody would say it again: the
//! epoch goes on. So whatever is said to such a node waits here, until the node has connected or the epoch is over. It
//! does connect: a node that starts asks all others to take it in.
//!
//! Where nodes do not agree on who is alive, the memory has an end as soon as this node hears that another one has begun anew. The transport knows
//! that first, and would take for the next boot what was ordered for the one before. So what is ordered keeps in mind which boot it is for.
//! With the end nothing counts any more that was ordered before, also to a node that was never met, of whose boots the transport knows the last one
//! only: what is said from then on is that the memory has ended.

use super::service::CHANNEL;
use super::views::Views;
use crate::rt::Rt;
use crate::rt::sync::Signal;
use crate::transport::{BEFORE_MEMORY_IS_ASKED_FOR, Inbox, Mesh, Rank, SendError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use weft_verbs::Verbs;

/// How messages reach the others.
pub(super) struct Reach<V: Verbs> {
    pub mesh: Mesh<V>,
    /// Where nodes agree on who is alive.
    epochs: Option<Epochs>,
    /// Where they do not: how often each had begun anew, when this node heard of it last.
    begun: Rc<RefCell<BTreeMap<Rank, u32>>>,
    /// Where they do not: the memory has ended.
    ended: Rc<Cell<bool>>,
}

/// When something was ordered that is for another node, and so for which boot of that node it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// The epoch; where nodes do not agree on who is alive there are two, and the second one is the memory's end.
    epoch: u64,
    /// How often that node had begun anew; always the same where they do.
    begun: u32,
}

/// What ends a wait for a node.
#[derive(Clone)]
pub(super) struct Epochs {
    pub views: Rc<RefCell<Views>>,
    /// The memory has begun, or an epoch of it, or it has ended here.
    pub begun: Signal,
    /// This node has no part in the memory any more.
    pub left_out: Rc<Cell<bool>>,
}

impl Epochs {
    pub fn new<V: Verbs>(mesh: &Mesh<V>) -> Epochs {
        let views = Rc::new(RefCell::new(Views::new(mesh.me(), mesh.size())));
        Epochs { views, begun: Signal::new(), left_out: Rc::default() }
    }
}

impl<V: Verbs> Clone for Reach<V> {
    fn clone(&self) -> Self {
        Reach {
            mesh: self.mesh.clone(),
            epochs: self.epochs.clone(),
            begun: Rc::clone(&self.begun),
            ended: Rc::clone(&self.ended),
        }
    }
}

impl<V: Verbs> Reach<V> {
    /// Of a node that hears the others by this inbox: what waits there may be of boots that have ended since.
    pub fn new(mesh: &Mesh<V>, inbox: &Inbox, epochs: Option<Epochs>) -> Reach<V> {
        let begun = Rc::new(RefCell::new(mesh.resets_before(inbox)));
        Reach { mesh: mesh.clone(), epochs, begun, ended: Rc::default() }
    }

    /// This node hears that another one has begun anew: what is ordered from now on is for that boot.
    pub fn hears_of(&self, node: Rank) {
        self.begun.borrow_mut().insert(node, self.mesh.resets_of(node));
    }

    /// The memory has ended, where nodes do not agree on who is alive: nothing that was ordered before counts any more.
    pub fn ends(&self) {
        self.ended.set(true);
    }

    /// The present moment, for what is ordered now.
    pub fn now(&self, node: Rank) -> Moment {
        Moment { epoch: self.epoch(), begun: self.begun.borrow().get(&node).copied().unwrap_or_default() }
    }

    fn epoch(&self) -> u64 {
        match &self.epochs {
            Some(epochs) => epochs.views.borrow().stamp(),
            None => self.ended.get().into(),
        }
    }

    /// Whether what is sent to a node now is for the boot that has a part in the memory.
    pub fn has_met(&self, node: Rank) -> bool {
        let Some(epochs) = &self.epochs else { return self.is_now(node, self.now(node)) };
        let member = epochs.views.borrow().incarnation(node);
        // One that was never heard of has had no other boot, as far as anybody knows: a message makes the connection.
        let is_it = |known| member.is_none_or(|member| member == known);
        !self.mesh.is_gone(node) && self.mesh.incarnation_of(node).is_none_or(is_it)
    }

    /// Whether what was ordered then counts yet: in its epoch, behind which other things are said, and for the boot that is there.
    pub fn is_now(&self, node: Rank, when: Moment) -> bool {
        let is_there = self.epochs.is_some() || self.mesh.resets_of(node) == when.begun;
        is_there && self.epoch() == when.epoch
    }

    /// Waits until a node of that moment was met. False: its epoch is over, or the memory.
    pub async fn met(&self, node: Rank, when: Moment) -> bool {
        let Some(epochs) = &self.epochs else { return self.is_now(node, when) };
        loop {
            let (mut resumed, mut begun) = (self.mesh.resumed(), epochs.begun.changed());
            if epochs.left_out.get() || self.mesh.is_closed() || !self.is_now(node, when) {
                return false;
            }
            if self.has_met(node) {
                return true;
            }
            poll_fn(|cx| {
                let either = [&mut resumed, &mut begun].map(|change| Pin::new(change).poll(cx).is_ready());
                if either.contains(&true) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
    }

    /// Waits until a message to a node of that moment can be sent, which is to be done at once. False: its epoch is over, or the memory.
    pub async fn room(&self, to: Rank, when: Moment) -> bool {
        while self.met(to, when).await {
            match self.mesh.room(to).await {
                Ok(()) if self.is_now(to, when) && self.has_met(to) => return true,
                Ok(()) => {}
                Err(SendError::PeerGone(_)) if self.epochs.is_some() => {}
                Err(_) => return false,
            }
        }
        false
    }

    /// Sends a message of that moment as soon as it reaches its node, and there is room and memory for it. False: its epoch is over, or
    /// the memory.
    pub async fn say(&self, rt: &Rt<V>, to: Rank, frame: &[u8], when: Moment) -> bool {
        while self.room(to, when).await {
            match self.mesh.send(to, CHANNEL, frame) {
                // Another task took the place.
                Err(SendError::Full { .. }) => {}
                Err(why) if why.lacks_memory() => rt.sleep(BEFORE_MEMORY_IS_ASKED_FOR).await,
                _ => return true,
            }
        }
        false
    }
}
