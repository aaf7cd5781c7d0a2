//! The connection managers in their world: what they send, change, and whom they wake.

use super::World;
use super::events::Event;
use crate::NodeId;
use crate::cm::{Address, Manager, Message, Owner, QpRef, Settings, Surroundings};
use crate::hca::{HcaId, Key, News, PortId};
use crate::log::Kind;
use crate::profile::Profile;
use verbs_trait::{Modify, Nanos, Psn, QpNum, Result, VerbsError};

/// A node's connection manager.
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
    pub fn new(node: NodeId, ports: u8, profile: &Profile, incarnation: u32) -> CmHost {
        let me = address_of(node, ports);
        let manager = Some(Manager::new(me, Settings::of(profile), incarnation));
        CmHost { manager, timer_set: Nanos::MAX, incarnation }
    }
}

/// The address of a node's first port, where every node has so many: the one that managers use.
pub(crate) fn address_of(node: NodeId, ports: u8) -> Address {
    Address { node, port: 1, gid: PortId::of(HcaId(node.0), 1, ports).gid() }
}

/// The world as a manager sees it.
pub(crate) struct Around<'a> {
    world: &'a mut World,
    node: NodeId,
}

impl Surroundings for Around<'_> {
    fn send(&mut self, to: Address, message: Message) {
        let (now, name) = (self.world.state.now, message.name());
        self.world.log.line(now, self.node, Kind::Cm, format_args!("{name} to {}", to.node));
        self.world.send_cm(self.node, to.node, message);
    }

    fn modify(&mut self, qp: QpRef, change: &Modify) -> Result<()> {
        let hca = HcaId(self.node.0);
        let found = self.world.state.hcas[hca.0 as usize].find(qp.num);
        let key = found.filter(|key| key.generation == qp.generation).ok_or(VerbsError::DeviceGone)?;
        self.world.modify_qp(self.node, hca, key, change)
    }

    fn starting_psn(&mut self) -> Psn {
        Psn::new(self.world.choice.pick("psn", 1 << 24) as u32)
    }
}

impl World {
    /// Calls a node's manager, and sees to its timer and to the events that it raised.
    pub fn manager<T>(
        &mut self,
        node: NodeId,
        call: impl FnOnce(&mut Manager, Nanos, &mut Around<'_>) -> T,
    ) -> Option<T> {
        let mut manager = self.state.cms[node.index()].manager.take()?;
        let before = manager.pending_events();
        let now = self.local_time(node);
        let answer = call(&mut manager, now, &mut Around { world: self, node });
        let (after, deadline) = (manager.pending_events(), manager.deadline().unwrap_or(Nanos::MAX));
        let host = &mut self.state.cms[node.index()];
        host.manager = Some(manager);
        if deadline < host.timer_set {
            host.timer_set = deadline;
            self.schedule(deadline, Event::CmTimer(node));
        }
        if after > before {
            self.wake(node, News { urgent: true, ..News::default() });
        }
        Some(answer)
    }

    pub(super) fn cm_timer(&mut self, node: NodeId) {
        let now = self.state.now;
        let host = &mut self.state.cms[node.index()];
        if now >= host.timer_set {
            host.timer_set = Nanos::MAX;
        }
        self.manager(node, |manager, _, around| manager.on_timer(now, around));
    }

    pub(super) fn arrive_cm(&mut self, from: NodeId, to: NodeId, message: Message) {
        let port = PortId::of(HcaId(to.0), 1, self.ports);
        let link = from == to || self.state.ports[port.0 as usize].up;
        if link && !self.state.hcas[to.index()].gone {
            self.manager(to, |manager, now, around| manager.on_message(now, message, around));
        }
    }

    /// The first packet has come on a queue pair that cannot send yet.
    pub(super) fn established(&mut self, node: NodeId, qp: QpNum) {
        self.manager(node, |manager, now, around| manager.communication_established(now, qp, around));
    }

    /// An application closed its device.
    pub fn close_context(&mut self, node: NodeId, ctx: u32) {
        self.manager(node, |manager, now, around| manager.close(now, Owner(ctx), around));
    }

    /// A node crashed: its connections are forgotten, and names of its next life differ from those of this.
    pub(super) fn forget_connections(&mut self, node: NodeId) {
        let incarnation = self.state.cms[node.index()].incarnation + 1;
        self.state.cms[node.index()] = CmHost::new(node, self.ports, &self.profile, incarnation);
    }

    /// The queue pair of a handle, as managers name it.
    pub fn qp_ref(&self, hca: HcaId, qp: Key) -> Result<QpRef> {
        let found = self.state.hcas[hca.0 as usize].qps.get(qp).ok_or(VerbsError::DeviceGone)?;
        Ok(QpRef { num: found.num, generation: qp.generation })
    }
}
