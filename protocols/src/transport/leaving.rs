//! Leaving the mesh. Who knows of a connection or an attempt of this node's is told of its end, and would wait until the connection
//! manager's limit otherwise.

use super::Mesh;
use super::driver::Driver;
use super::mesh::Shared;
use super::peer::Peer;
use super::rail::ConnId;
use super::stand_in::StandIn;
use super::standby::Standby;
use super::wire::Refusal;
use crate::rt::QpHandle;
use weft_verbs::{CmEvent, Verbs};

impl<V: Verbs> Mesh<V> {
    /// Leaves the mesh: connections end, messages that were not acknowledged are dropped, who asks for a connection is turned down, and
    /// whoever waits is told so.
    pub fn close(&self) {
        if self.shared.closed.replace(true) {
            return;
        }
        let left: Vec<_> = self.shared.peers.borrow_mut().iter_mut().flatten().map(|p| leave(p)).collect();
        for Left { id, waiting, queue, standby } in left {
            // The connection manager first: it still knows the queue pair.
            for id in id.into_iter().chain(standby.as_ref().map(Standby::id)) {
                self.shared.hangs_up(id);
            }
            waiting.into_iter().for_each(|id| self.shared.turns_down(id));
            drop((queue, standby));
        }
        drop(self.shared.to_do.untried.take());
        // Nobody is refused or admitted any more.
        drop((self.shared.refusals.take(), self.shared.admissions.take()));
        self.shared.stand_in.iter().for_each(StandIn::close);
        self.shared.inboxes.borrow_mut().close();
        self.shared.resumed.notify();
        self.shared.outcast_changed.notify();
        self.shared.guests.iter().for_each(|guests| guests.came.notify());
        self.shared.to_do.wake_driver();
    }
}

/// What a peer's part of a mesh that closes leaves to be ended.
struct Left<V: Verbs> {
    id: Option<ConnId>,
    /// A request of the peer's that nobody has answered.
    waiting: Option<ConnId>,
    queue: Option<QpHandle<V>>,
    standby: Option<Standby<V>>,
}

/// Ends a peer's part of a mesh that closes.
fn leave<V: Verbs>(peer: &mut Peer<V>) -> Left<V> {
    let (id, standby) = (peer.link.id(), peer.standby.take());
    // One that came over the connection that stood by ends with that.
    let waiting = peer.link.waits_no_more().filter(|id| standby.as_ref().map(Standby::id) != Some(*id));
    peer.session.disconnected();
    peer.session.reset();
    peer.wake_all();
    Left { id, waiting, queue: peer.discard(), standby }
}

impl<V: Verbs> Shared<V> {
    /// Ends a connection or an attempt, unless nobody is to be told.
    fn hangs_up(&self, ConnId { rail, id }: ConnId) {
        if !self.vanished.get() {
            self.rail(rail).connector.disconnect(id);
        }
    }

    /// Turns a request down, likewise.
    fn turns_down(&self, ConnId { rail, id }: ConnId) {
        if !self.vanished.get() {
            self.rail(rail).connector.reject(id, &Refusal::Unable.encode());
        }
    }
}

impl<V: Verbs> Driver<V> {
    /// The mesh is closed: nobody waits for an answer until the connection manager's limit, neither to a trial nor to a request that has
    /// come and was not looked at.
    pub(super) fn leave(&mut self) {
        let shared = &self.shared;
        self.trials.keys().for_each(|id| shared.hangs_up(*id));
        for (rail, events) in (0..).zip(&mut self.events) {
            while let Some(event) = events.connections.try_recv() {
                if let CmEvent::Request { id, .. } = event {
                    shared.turns_down(ConnId { rail, id });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::link::Link;
    use super::super::on_fakes::{OWN, OnFakes};
    use super::*;
    use crate::rt::fake::V;
    use crate::transport::Rank;
    use weft_verbs::CmId;

    /// Closes it, as a process ends or as one that is killed.
    fn ends(mesh: &Mesh<V>, tells: bool) {
        match tells {
            true => mesh.close(),
            false => mesh.vanish(),
        }
    }

    #[test]
    fn a_request_that_comes_as_the_mesh_closes_is_turned_down() {
        for tells in [true, false] {
            let mut node = OnFakes::new();
            node.settle();
            let mesh = node.mesh.clone();
            // Before the driver's turn, which the request brings.
            drop(node.rt.spawn(async move { ends(&mesh, tells) }));
            node.is_asked(1, 1, 1);
            node.settle();
            let turned_down: &[CmId] = if tells { &[CmId(1)] } else { &[] };
            assert_eq!(node.world(1).rejected, turned_down);
        }
    }

    #[test]
    fn a_request_that_waits_for_a_drain_is_turned_down_when_the_mesh_closes() {
        for tells in [true, false] {
            let mut node = OnFakes::new();
            node.stands_on(0);
            node.is_asked(0, 1, 2);
            node.settle();
            assert!(node.link(Link::is_draining));
            assert!(node.world(0).rejected.is_empty());
            ends(&node.mesh, tells);
            let turned_down: &[CmId] = if tells { &[CmId(1)] } else { &[] };
            assert_eq!(node.world(0).rejected, turned_down);
        }
    }

    #[test]
    fn a_trial_is_given_up_when_the_mesh_closes() {
        for tells in [true, false] {
            let mut node = OnFakes::new();
            let mesh = node.mesh.clone();
            let answers = node.rt.spawn(async move { mesh.answers(Rank::from_index(1), 1).await });
            node.settle();
            assert!(!answers.is_finished());
            ends(&node.mesh, tells);
            node.settle();
            assert!(answers.is_finished());
            let given_up: &[CmId] = if tells { &[OWN] } else { &[] };
            assert_eq!(node.world(1).disconnected, given_up);
        }
    }
}
