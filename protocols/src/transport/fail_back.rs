//! The way back to a better rail, with a hold-off.
//!
//! A connection that stands on a worse rail is left there for [`MeshConfig::hold_off`](super::MeshConfig::hold_off), so
//! that a rail that comes and goes does not drag connections along. Then, and only while the connection is used, the better
//! rail is **tried** before anything is given up for it: a request of the generation [`TRIAL`] goes over it, which the peer
//! turns down as such. If that answer comes, the rail works in both directions and the connection moves. If none comes,
//! nothing has changed, and the next use of the connection begins another hold-off. A user who plans a move tries the rail
//! likewise ([`Mesh::answers`](super::Mesh::answers)).
//!
//! A connection that moves is fenced, drained and resumed as if it had broken. On any rail but that of memory it has no one-sided
//! operations to lose: there they are carried by messages (`carried`). Of one that leaves the rail of memory, since another one is
//! preferred, they end as they do when a connection breaks.

use super::Cause;
use super::driver::Driver;
use super::link::Event;
use super::mesh::Shared;
use super::peer::Peer;
use super::rail::ConnId;
use super::wire::{Refusal, TRIAL};
use crate::rt::sync::OneshotSender;
use crate::rt::{QpHandle, WaitPoint};
use std::rc::Rc;
use weft_verbs::QueuePair;
use weft_verbs::{AccessFlags, CmEvent, Modify, Nanos, QpCaps, ToInit, Verbs};

/// Who wants to know whether a rail works: a user, or the connection, which goes there if it does.
type Asker = Option<OneshotSender<()>>;

/// A trial that is to be made.
pub(super) struct Wanted {
    index: usize,
    rail: u8,
    asker: Asker,
}

/// An attempt that is made only to see whether a rail works.
pub(super) struct Trial<V: Verbs> {
    index: usize,
    asker: Asker,
    /// Of the connection that is to move, by which one that broke meanwhile is told.
    epoch: u32,
    /// The connection manager asks on behalf of a queue pair, and this one is never used.
    queue: Option<QpHandle<V>>,
}

impl<V: Verbs> Shared<V> {
    /// A rail is to be tried.
    pub(super) fn wants_trial(&self, index: usize, rail: u8, asker: Asker) {
        self.to_do.untried.borrow_mut().push(Wanted { index, rail, asker });
        self.to_do.wake_driver();
    }

    /// A connection came to stand, or is used: on a worse rail, a better one is tried some time from now.
    pub(super) fn hold_off(&self, index: usize, peer: &mut Peer<V>) {
        if self.config.rails() == 1 || peer.holds_off || self.config.hold_off == Nanos::MAX {
            return;
        }
        if peer.link.returns_to().is_some() {
            peer.holds_off = true;
            self.to_do.unheld.borrow_mut().push(index);
            self.to_do.wake_driver();
        }
    }
}

impl<V: Verbs> Driver<V> {
    /// Starts the timers of connections that are on a worse rail.
    pub(super) fn begin_hold_offs(&mut self) -> bool {
        let begun = self.shared.to_do.unheld.take();
        for index in &begun {
            let (shared, index) = (Rc::clone(&self.shared), *index);
            let over = shared.rt.sleep(shared.config.hold_off);
            drop(self.shared.rt.spawn(async move {
                over.at(("hold-off", index)).await;
                let better = shared.with_peer(index, |peer| {
                    peer.holds_off = false;
                    peer.link.returns_to()
                });
                if let Some(rail) = better {
                    shared.wants_trial(index, rail, None);
                }
            }));
        }
        !begun.is_empty()
    }

    /// The port of a rail lost its link, or has it again.
    pub(super) fn port_changed(&mut self, rail: u8, is_down: bool) {
        let shared = Rc::clone(&self.shared);
        if shared.config.rails() == 1 {
            return;
        }
        let mut down = shared.down.get();
        down.set(rail, is_down);
        shared.down.set(down);
        for index in 0..shared.loopback() {
            if index == shared.config.me.index() || shared.peers.borrow()[index].is_none() {
                continue;
            }
            self.handle(index, if is_down { Event::RailDown(rail) } else { Event::RailUp(rail) });
            shared.with_peer(index, |peer| {
                shared.hold_off(index, peer);
                shared.wants_standby(index, peer);
            });
        }
    }

    /// Begins the trials that are wanted.
    pub(super) fn begin_trials(&mut self) -> bool {
        let wanted = self.shared.to_do.untried.take();
        let begun = !wanted.is_empty();
        wanted.into_iter().for_each(|wanted| self.try_rail(wanted));
        begun
    }

    /// Asks a peer over a rail, to see whether that works.
    fn try_rail(&mut self, Wanted { index, rail, asker }: Wanted) {
        let shared = Rc::clone(&self.shared);
        let (better, epoch) = shared.with_peer(index, |peer| (peer.link.returns_to(), peer.epoch));
        let own = |trial: &Trial<V>| trial.index == index && trial.asker.is_none();
        if asker.is_none() && (better != Some(rail) || self.trials.values().any(own)) {
            return;
        }
        let (config, rank) = (&shared.config, shared.rank_at(index));
        let connector = &shared.rail(rail).connector;
        if let Ok(id) = connector.resolve_at(config.name(rail, rank), config.service_of(rank)) {
            self.trials.insert(ConnId { rail, id }, Trial { index, asker, epoch, queue: None });
        }
    }

    /// Takes an event of a connection manager, if it is one of a trial.
    pub(super) fn of_a_trial(&mut self, rail: u8, event: &CmEvent) -> bool {
        let Some(of) = ConnId::of_own(rail, event) else { return false };
        let Some(mut trial) = self.trials.remove(&of) else { return false };
        match event {
            CmEvent::Resolved { .. } => match self.ask(of, trial.index) {
                Ok(queue) => {
                    trial.queue = Some(queue);
                    self.trials.insert(of, trial);
                }
                Err(why) => {
                    self.shared.is_kept_from(trial.index, why);
                    self.shared.rail(rail).connector.disconnect(of.id);
                }
            },
            CmEvent::Rejected { private, .. } if Refusal::decode(private) == Some(Refusal::Trial) => {
                let Trial { index, asker, epoch, queue } = trial;
                drop(queue);
                if let Some(asker) = asker {
                    // Nobody need wait for it any more.
                    let _ = asker.send(());
                    return true;
                }
                // A connection that was made since is on the rail that was best then.
                if self.shared.with_peer(index, |peer| peer.epoch == epoch) {
                    self.handle(index, Event::FailBack(rail));
                }
            }
            // Nobody accepts a trial but one who does not know what it is.
            CmEvent::Established { .. } => self.shared.rail(rail).connector.disconnect(of.id),
            _ => {}
        }
        true
    }

    fn ask(&self, of: ConnId, index: usize) -> Result<QpHandle<V>, Cause> {
        let shared = &self.shared;
        let queue = shared.trial_queue(of.rail).map_err(Cause::Queue)?;
        let incarnation = shared.with_peer(index, |peer| peer.link.incarnation());
        let hello = shared.hello(index, incarnation, TRIAL, 0);
        let asked =
            shared.rail(of.rail).connector.connect(of.id, queue.qp(), &shared.params(&hello.encode()));
        asked.map_err(Cause::Connect)?;
        Ok(queue)
    }
}

impl<V: Verbs> Shared<V> {
    fn trial_queue(&self, rail: u8) -> weft_verbs::Result<QpHandle<V>> {
        let (port, rail) = (self.config.port, self.rail(rail));
        let caps = QpCaps { max_send_wr: 1, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
        let queue = rail.rt.create_qp(&rail.pd, caps)?;
        let init = ToInit { port, pkey_index: 0, access: AccessFlags::empty(), qkey: 0 };
        queue.qp().modify(&Modify::Init(init))?;
        Ok(queue)
    }
}

#[cfg(test)]
mod tests {
    use crate::rt::fake::{Fake, V};
    use crate::rt::{Rt, RtConfig};
    use crate::transport::carried::MEMORY;
    use crate::transport::on_fakes::{OWN, OnFakes};
    use crate::transport::rail::ConnId;
    use crate::transport::{Channel, Mesh, MeshConfig, Rank};
    use weft_verbs::{AsyncEvent, Node, Park, VerbsError};

    /// Of a node with two rails, the device of one fails: which rails it takes for dead then, and why it has ended, if it has.
    fn when_fails(rail: u8) -> ([bool; 2], Option<VerbsError>) {
        let fakes = [Fake::default(), Fake::default()];
        let rt = Rt::<V>::over(&fakes, RtConfig::default()).expect("the fake devices obey");
        let names = |rail: u8| vec![format!("n0.{rail}"), format!("n1.{rail}")];
        let mut config = MeshConfig::new(Rank::from_index(0), names(0));
        config.other_rails = vec![names(1).into()];
        let mesh = Mesh::start(&rt, config).expect("the fake devices obey");
        let mut program = rt.program();
        fakes[usize::from(rail)].world.borrow_mut().async_events.push_back(AsyncEvent::DeviceFatal);
        while program.step() == Park::Again {}
        let down = mesh.shared.down.get();
        ([0, 1].map(|rail| down.contains(rail)), rt.fatal())
    }

    #[test]
    fn a_rail_whose_device_failed_is_taken_for_one_whose_port_lost_its_link() {
        assert_eq!(when_fails(1), ([false, true], None));
    }

    #[test]
    fn a_node_ends_with_the_device_of_its_memory_and_nobody_waits_for_what_it_would_execute() {
        let (_, ended) = when_fails(MEMORY);
        assert_eq!(ended, Some(VerbsError::DeviceGone));
    }

    /// The adapter obeys, and tells of no completion any more.
    #[test]
    fn a_connection_whose_device_failed_is_asked_for_over_another_rail() {
        let mut node = OnFakes::new();
        node.stands_on(1);
        node.world(1).async_events.push_back(AsyncEvent::DeviceFatal);
        node.settle();
        let asks = Some(ConnId { rail: 0, id: OWN });
        assert_eq!(node.link(|link| (link.is_draining(), link.id())), (false, asks));
    }

    /// The cable is out, and the machine was started anew.
    #[test]
    fn a_node_that_begins_while_a_port_has_no_link_asks_over_another_rail_until_it_has_one() {
        let fakes = [Fake::default(), Fake::default()];
        fakes[0].world.borrow_mut().no_link = true;
        let mut node = OnFakes::on(fakes);
        node.mesh.send(Rank::from_index(1), Channel(3), b"there").expect("there is room for one");
        node.settle();
        assert_eq!(
            node.link(|link| (link.id(), link.returns_to())),
            (Some(ConnId { rail: 1, id: OWN }), None)
        );
        node.world(0).async_events.push_back(AsyncEvent::PortActive(1));
        node.settle();
        assert!(!node.mesh.shared.down.get().contains(0));
    }
}
