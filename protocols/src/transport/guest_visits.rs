//! The guest's end: what it has at its servers, the signs of life that keep it there, and its farewell.

use super::guests::FAREWELL;
use super::link::Event;
use super::mesh::{Mesh, Shared};
use super::peer::{Peer, keep};
use super::{Rank, TransportError};
use crate::rt::sync::{Mailbox, mailbox};
use crate::rt::{Rt, WaitPoint};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use weft_verbs::{Nanos, Verbs};

/// Signs of life in a lease: two may be lost.
const SIGNS: u64 = 3;

/// How long a farewell may take: after that its servers find out by the lease.
const FAREWELL_TAKES: Nanos = Nanos::from_millis(100);

/// As long as it is there, a connection is wanted, and a guest has something at its server; see [`Mesh::wants`] and [`Mesh::hold`].
pub struct Hold<V: Verbs> {
    of: Option<(Rc<Shared<V>>, usize)>,
}

/// What a server has of its guests. At rest nothing is lent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuestAudit {
    /// Guests that it ever admitted, and those of them that it forgot.
    pub admitted: u64,
    /// See [`GuestAudit::admitted`].
    pub forgotten: u64,
    /// Guests that it knows.
    pub known: u64,
    /// Slots that they have beyond their own.
    pub lent: u64,
    /// Receive buffers of the shared queue, posted or in hand. Those of a guest that has gone stay posted until a frame uses them or another
    /// guest comes.
    pub buffers: u64,
    /// How many those are at most: the common ones, and two for each of as many guests as there were at a time.
    pub most_buffers: u64,
}

impl<V: Verbs> Mesh<V> {
    /// Says that this guest has something at a server that is to live on. Until that is dropped, the guest gives signs of life, and asks for a
    /// connection whenever there is none. On a mesh that is no guest's it says nothing.
    pub fn hold(&self, server: Rank) -> Hold<V> {
        match self.shared.config.is_guest {
            true => self.wants(server),
            false => Hold { of: None },
        }
    }

    /// Wants a connection with a peer though there is nothing to say: until what is returned is dropped, one is asked for whenever there is
    /// none.
    pub fn wants(&self, peer: Rank) -> Hold<V> {
        let shared = &self.shared;
        let Some(index) = self.peer(peer).filter(|_| !shared.closed.get()) else { return Hold { of: None } };
        shared.with_peer(index, |peer| {
            peer.holds += 1;
            shared.renew_if_held(index, peer);
            if !peer.link.is_up() {
                shared.event(index, peer.epoch, Event::Wanted);
            }
        });
        Hold { of: Some((Rc::clone(shared), index)) }
    }

    /// Leaves all servers, whose guest this is: each forgets it at once, or when its lease ends if it cannot be told. The mesh is closed then.
    pub async fn leave(&self) {
        let shared = &*self.shared;
        let servers = || (0..shared.config.peers.len()).filter(|index| *index != self.me().index());
        for index in servers().filter(|_| shared.config.is_guest && !shared.closed.get()) {
            shared.with_peer(index, |peer| {
                peer.link.asks_no_more();
                if peer.standing().is_some() {
                    let _ = shared.keep_message(index, peer, FAREWELL, &[]);
                }
            });
        }
        let told = poll_fn(|cx| {
            let waits = |index| {
                shared.with_peer(index, |peer| {
                    let waits = peer.link.is_up() && peer.session.kept() > 0;
                    if waits {
                        keep(&mut peer.senders, cx);
                    }
                    waits
                })
            };
            match shared.closed.get() || servers().filter(|index| waits(*index)).count() == 0 {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
        let late = shared.rt.now() + FAREWELL_TAKES;
        let _ = shared.rt.deadline(late, told.at("farewell")).await;
        self.close();
    }

    /// Ends as a process does that is killed: nobody is told. For tests.
    pub fn vanish(&self) {
        self.shared.vanished.set(true);
        self.close();
    }

    /// What this node has of its guests.
    pub fn guests(&self) -> GuestAudit {
        let Some(guests) = &self.shared.guests else { return GuestAudit::default() };
        guests.audit(&self.shared.stats.borrow())
    }

    /// Another mesh with the settings of this one, which is closed: another guest on the same node.
    ///
    /// # Errors
    ///
    /// As of [`Mesh::start`].
    pub fn another(&self, rt: &Rt<V>) -> Result<Mesh<V>, TransportError> {
        Mesh::start(rt, self.shared.config.clone())
    }

    /// For how long guests of this node may be silent, if it takes any.
    pub fn guests_lease(&self) -> Option<Nanos> {
        self.shared.config.guests.map(|guests| guests.lease)
    }

    /// Whether this node is a guest of its peers.
    pub fn is_of_guest(&self) -> bool {
        self.shared.config.is_guest
    }

    /// From now on, each guest that is met, by the rank that it has here until it is
    /// [forgotten](super::Incoming::PeerReset). There is none once the mesh is closed.
    pub fn admissions(&self) -> Mailbox<Rank> {
        let (sender, admitted) = mailbox();
        if !self.shared.closed.get() {
            self.shared.admissions.borrow_mut().push(sender);
        }
        admitted
    }

    /// Whether a rank is that of a guest of this node, or of a place in which one was.
    pub fn is_guest(&self, rank: Rank) -> bool {
        self.shared.guests.is_some() && rank.index() > self.shared.loopback()
    }
}

impl<V: Verbs> Drop for Hold<V> {
    fn drop(&mut self) {
        if let Some((shared, index)) = &self.of {
            shared.with_peer(*index, |peer| peer.holds -= 1);
        }
    }
}

impl<V: Verbs> Shared<V> {
    /// A server that told its lease is given signs of life while something is held there.
    pub(super) fn renew_if_held(self: &Rc<Self>, index: usize, peer: &mut Peer<V>) {
        if peer.holds > 0 && peer.lease < Nanos::MAX && !std::mem::replace(&mut peer.renews, true) {
            drop(self.rt.spawn(renew(Rc::clone(self), index)));
        }
    }

    /// A guest of this node is met.
    pub(super) fn tell_admission(&self, index: usize) {
        let rank = self.rank_at(index);
        self.admissions.borrow_mut().retain(|waits| waits.send(rank).is_ok());
    }
}

/// Gives signs of life to a server for as long as something is held there and the mesh is open. It ends with the mesh at once: it keeps the
/// mesh's memory, and a guest that visits again and again would pin that of each visit for a third of a lease.
async fn renew<V: Verbs>(shared: Rc<Shared<V>>, index: usize) {
    loop {
        let (told, lease) = shared.with_peer(index, |peer| (peer.told, peer.lease));
        // The server's next life may have another lease, or none.
        let changed = || shared.closed.get() || shared.with_peer(index, |peer| peer.lease != lease);
        let due = shared.rt.now() + Nanos(lease.0 / SIGNS);
        let is_changed =
            shared.rt.deadline(due, shared.resumed.until(changed)).at((index, told)).await.is_ok();
        if shared.closed.get() {
            return;
        }
        if is_changed && shared.with_peer(index, |peer| peer.lease < Nanos::MAX) {
            continue;
        }
        let goes_on = shared.with_peer(index, |peer| {
            let wants = peer.holds > 0 && peer.lease < Nanos::MAX;
            if !wants || !peer.link.is_up() {
                peer.renews = false;
                if wants {
                    // The next connection is a sign of life, and the signs behind it go on then.
                    shared.event(index, peer.epoch, Event::Wanted);
                }
                return false;
            }
            if peer.told == told && shared.has_room_for_control(index, peer) {
                match peer.session.sign_of_life() {
                    Some(header) => shared.send_control(index, peer, header),
                    // It may send nothing. If its server has forgotten it meanwhile, nothing else would tell it so.
                    None => drop(shared.touch(index, peer)),
                }
            }
            true
        });
        if !goes_on {
            return;
        }
    }
}
