//! The connection managers in their world: what they send, change, and whom they wake.

use super::events::Event;
use super::{Source, World};
use crate::NodeId;
use crate::cm::{Address, Asking, Manager, Message, Owner, Part, QpRef, Settings, Surroundings};
use crate::explore::AccessKind;
use crate::explore::identity::object;
use crate::hca::{HcaId, Key, News};
use crate::log::Kind;
use crate::profile::Profile;
use std::hash::Hasher;
use weft_verbs::{AsyncEvent, CmEvent, Modify, Nanos, Psn, QpNum, Result, VerbsError};

/// An adapter's connection manager.
#[derive(Clone, Debug)]
pub(crate) struct CmHost {
    /// Taken out while it is called.
    manager: Option<Manager>,
    /// When its next entry in the event queue is.
    timer_set: Nanos,
    /// How often the node has restarted.
    incarnation: u32,
}

impl CmHost {
    pub fn new(profile: &Profile, incarnation: u32) -> CmHost {
        let manager = Some(Manager::new(Settings::of(profile), incarnation));
        CmHost { manager, timer_set: Nanos::MAX, incarnation }
    }

    /// Its manager, for comparing states.
    pub fn digest(&self, to: &mut impl Hasher) {
        if let Some(manager) = &self.manager {
            manager.digest(to);
        }
    }

    /// The same without what only names events.
    pub fn digest_canonical(&self, to: &mut impl Hasher) {
        if let Some(manager) = &self.manager {
            manager.digest_canonical(to);
        }
    }

    /// How many events wait to be taken.
    pub fn pending_events(&self) -> usize {
        self.manager.as_ref().map_or(0, Manager::pending_events)
    }

    /// Its connections that wait for an answer.
    pub fn asking(&self) -> impl Iterator<Item = Asking> {
        self.manager.iter().flat_map(Manager::asking)
    }
}

/// The world as a manager sees it.
pub(crate) struct Around<'a> {
    world: &'a mut World,
    hca: HcaId,
}

impl Surroundings for Around<'_> {
    fn send(&mut self, to: Address, message: Message) -> bool {
        let (now, name) = (self.world.state.now, message.name());
        let (node, peer) = (self.world.shape.node(self.hca), self.world.shape.node(to.hca));
        self.world.log.line(now, node, Kind::Cm, format_args!("{name} to {peer}"));
        self.world.transmit_cm(to, message)
    }

    fn modify(&mut self, qp: QpRef, change: &Modify) -> Result<()> {
        let hca = self.hca;
        let found = self.world.state.hcas[hca.0 as usize].find(qp.num);
        let key = found.filter(|key| key.generation == qp.generation).ok_or(VerbsError::DeviceGone)?;
        let node = self.world.shape.node(hca);
        // Where there is no time, a message that comes does nothing to the node's clock.
        if self.world.is_untimed() {
            self.world.change_qp(hca, key, change)
        } else {
            self.world.modify_qp(node, hca, key, change)
        }
    }

    fn starting_psn(&mut self) -> Psn {
        Psn::new(self.world.choice.pick("psn", 1 << 24) as u32)
    }
}

impl World {
    /// The address of an adapter's port.
    fn address_of(&self, hca: HcaId, port: u8) -> Address {
        Address { hca, port, gid: self.shape.port(hca, port).gid() }
    }

    /// The port that a network name stands for, and the port of this adapter to reach it by: its own of the same
    /// number. `n3` is a node's first port, `n3.2` that at its second cable.
    pub fn find_peer(&self, hca: HcaId, name: &str) -> Option<(Address, Address)> {
        let (node, cable) = NodeId::and_cable_from_name(name)?;
        let there = node.0 < self.state.machines.len() as u32 && cable <= self.shape.cables();
        let port = there.then(|| self.shape.at_cable(node, cable))?;
        let local = self.shape.local(port);
        Some((self.address_of(hca, local), self.address_of(self.shape.hca(port), local)))
    }

    /// Calls an adapter's manager, and sees to its timer and to the events that it raised.
    pub fn manager<T>(
        &mut self,
        hca: HcaId,
        call: impl FnOnce(&mut Manager, Nanos, &mut Around<'_>) -> T,
    ) -> Option<T> {
        let node = self.shape.node(hca);
        let mut manager = self.state.cms[hca.0 as usize].manager.take()?;
        let before = manager.pending_events();
        let now = self.cm_time(node);
        let answer = call(&mut manager, now, &mut Around { world: self, hca });
        self.touch_manager(hca, &mut manager);
        let (after, deadline) = (manager.pending_events(), manager.deadline().unwrap_or(Nanos::MAX));
        let host = &mut self.state.cms[hca.0 as usize];
        host.manager = Some(manager);
        if deadline < host.timer_set {
            host.timer_set = deadline;
            self.schedule(deadline, Event::CmTimer(hca));
        }
        if after > before {
            if self.in_order() {
                self.note_arrivals(hca);
            }
            self.wake(node, News { event: true, ..News::default() });
        }
        Some(answer)
    }

    /// Takes an application's oldest event. Where there is one, there was news for the node, which is in order with all
    /// that the node does.
    pub fn manager_event(&mut self, hca: HcaId, owner: Owner) -> Option<CmEvent> {
        if !self.may_take(hca, Source::Connections) {
            return None;
        }
        let event = self.state.cms[hca.0 as usize].manager.as_mut()?.event(owner)?;
        self.note_taken(hca);
        Some(event)
    }

    /// Takes a context's oldest asynchronous event.
    pub fn device_event(&mut self, hca: HcaId, ctx: u32) -> Option<AsyncEvent> {
        if !self.may_take(hca, Source::Device) {
            return None;
        }
        let event = self.state.hcas[hca.0 as usize].async_event(ctx)?;
        self.note_taken(hca);
        Some(event)
    }

    pub(super) fn cm_timer(&mut self, hca: HcaId) {
        let now = self.state.now;
        let host = &mut self.state.cms[hca.0 as usize];
        if now >= host.timer_set {
            host.timer_set = Nanos::MAX;
        }
        self.manager(hca, |manager, _, around| manager.on_timer(now, around));
    }

    pub(super) fn arrive_cm(&mut self, to: Address, message: Message) {
        let port = self.shape.port(to.hca, to.port);
        self.log.came(self.shape.node(to.hca), u64::from(message.from.hca.0) << 32 | 1);
        let link = message.from == to || self.state.ports[port.0 as usize].up;
        if link && !self.state.hcas[to.hca.0 as usize].gone {
            self.manager(to.hca, |manager, now, around| manager.on_message(now, to, message, around));
        }
    }

    /// The first packet has come on a queue pair that cannot send yet.
    pub(super) fn established(&mut self, hca: HcaId, qp: QpNum) {
        self.manager(hca, |manager, now, around| manager.communication_established(now, qp, around));
    }

    /// An application closed its device.
    pub fn close_context(&mut self, hca: HcaId, ctx: u32) {
        self.manager(hca, |manager, now, around| manager.close(now, Owner(ctx), around));
        self.forget_arrivals(hca);
    }

    /// In an untimed world: the time-out of a connection has come. Where nobody would hear the message again, it is the
    /// last.
    pub(super) fn cm_time_out(&mut self, hca: HcaId, asking: Asking) -> Option<()> {
        let (me, peer) = asking.way;
        let last = !self.is_through(self.way_between(me, peer));
        let (now, node, other) = (self.state.now, self.shape.node(hca), self.shape.node(peer.hca));
        self.log.line(now, node, Kind::Timer, format_args!("connection to {other}"));
        self.manager(hca, |manager, now, around| manager.time_out(now, asking.id, last, around))
    }

    /// In an untimed world: a message that was under way is lost. The managers that wait for it, or for its answer, may ask
    /// again. (A manager that is being called is told by its call.)
    pub(super) fn message_lost(&mut self, to: Address, message: &Message) {
        self.manager(message.from.hca, |manager, _, _| manager.sent_in_vain(message));
        self.manager(to.hca, |manager, _, _| manager.not_received(message));
    }

    /// In an untimed world: an adapter has forgotten what it was asked. (Without this it would be asked again when nothing
    /// else can happen, and perhaps never, since of what can happen then any may be next, again and again.)
    pub(super) fn peer_forgot(&mut self, hca: HcaId, peer: HcaId) {
        self.manager(hca, |manager, _, _| manager.peer_forgot(peer));
    }

    /// What a call of a manager has touched.
    fn touch_manager(&mut self, hca: HcaId, manager: &mut Manager) {
        let mut parts = std::mem::take(&mut self.parts);
        manager.take_touched(&mut parts);
        if self.is_recorded() {
            self.touch(object::cm(hca), AccessKind::Read);
            for (part, how) in parts.iter().copied() {
                let object = match part {
                    Part::Everything => object::cm(hca),
                    Part::Names => object::names(hca),
                    Part::Ours(name) => object::connection(hca, hca, name.0),
                    Part::Theirs(peer, name) => object::connection(hca, peer, name.0),
                    Part::Standing(peer, qp) => object::standing(hca, peer, qp.0),
                    Part::Loss(name, number) => object::cm_timer(hca, name.0, number),
                };
                self.touch(object, how);
            }
        }
        parts.clear();
        self.parts = parts;
    }

    /// A node crashed: its connections are forgotten, and names of its next incarnation differ from those of this one.
    pub(super) fn forget_connections(&mut self, hca: HcaId) {
        let incarnation = self.state.cms[hca.0 as usize].incarnation + 1;
        self.state.cms[hca.0 as usize] = CmHost::new(&self.profile, incarnation);
    }

    /// The queue pair of a handle, as managers name it.
    pub fn qp_ref(&self, hca: HcaId, qp: Key) -> Result<QpRef> {
        let found = self.state.hcas[hca.0 as usize].qps.get(qp).ok_or(VerbsError::DeviceGone)?;
        Ok(QpRef { num: found.num, generation: qp.generation })
    }
}
