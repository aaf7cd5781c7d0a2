//! Faults as alternative outcomes, what they leave behind, and how that is repaired.

use super::super::World;
use super::super::events::Happened;
use super::super::wire::{Cargo, OutOfOrder};
use super::cm_timer_of;
use crate::NodeId;
use crate::choice::EventId;
use crate::cm::Asking;
use crate::explore::identity::{self, object};
use crate::explore::{AccessKind, Enabled, FaultSet, Outcome, Policy};
use crate::hca::{Body, Endpoint, HcaId, Key, Nak, Packet, PortId, Qp, Route, Syndrome, place_of};
use crate::log::Kind as Line;
use weft_verbs::{Nanos, Psn};

/// What is broken until it is repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub what: What,
    repair: EventId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    Link(PortId, PortId),
    Port(PortId),
}

/// The faults after which nothing comes through for a while, or for ever.
const SILENT: FaultSet = OF_NODES.with(Outcome::Cut).with(Outcome::PortDown);

/// Those that hit a node, whatever it is about to do.
const OF_NODES: FaultSet = FaultSet::one(Outcome::Crash).with(Outcome::Restart);

impl World {
    // What may happen.

    /// Whether any link could fail.
    pub(super) fn links_can_fail(&self) -> bool {
        !self.state.driver.untimed().policy.faults.and(SILENT).is_empty()
    }

    /// The ways in which a node may fail, whatever it is about to do.
    pub(super) fn node_faults(&self, node: NodeId) -> FaultSet {
        let Policy { faults, mortal, .. } = self.state.driver.untimed().policy;
        let may = mortal.is_none_or(|mortal| mortal == node);
        if may { faults.and(OF_NODES) } else { FaultSet::NONE }
    }

    /// The ways in which a node's step can fail.
    pub(super) fn step_faults(&self, node: NodeId) -> FaultSet {
        let Policy { faults, drift, .. } = self.state.driver.untimed().policy;
        let slow = if drift.is_some() { FaultSet::one(Outcome::SlowNode) } else { FaultSet::NONE };
        self.node_faults(node).with_all(slow.with(Outcome::NoMemory).and(faults))
    }

    /// The ways in which a step can fail that a deadline brings, or that a slow node takes at last.
    pub(super) fn deadline_faults(&self, node: NodeId) -> FaultSet {
        let faults = self.step_faults(node);
        match self.state.driver.untimed().nodes[node.index()].slow {
            true => faults.without(Outcome::SlowNode),
            false => faults,
        }
    }

    /// The step that a node begins finds no memory.
    pub(super) fn run_short(&mut self, node: NodeId) {
        self.machine(node).has_memory = false;
        self.log.line(self.state.now, node, Line::Fault, format_args!("{}", Outcome::NoMemory));
    }

    /// There is memory again once the step has been taken. Whether nobody asked for any.
    pub fn end_shortage(&mut self, node: NodeId) -> bool {
        let machine = self.machine(node);
        machine.has_memory = true;
        !std::mem::take(&mut machine.gave_none)
    }

    /// A node is slow: what comes to its adapter is handled, and its program does not step.
    pub(super) fn slow_down(&mut self, node: NodeId) {
        let kept = &mut self.state.driver.untimed_mut().nodes[node.index()];
        kept.slow = true;
        let number = kept.steps;
        self.touch(object::node(node), AccessKind::Write);
        self.touch(object::wake(node, number), AccessKind::Cause);
        self.log.line(self.state.now, node, Line::Fault, format_args!("{}", Outcome::SlowNode));
    }

    /// The ways in which a packet's delivery can fail, within its flow's order or outside of it.
    pub(super) fn packet_faults(&self, id: u32, in_order: bool) -> FaultSet {
        let packet = self.state.packets.get(id);
        let offered = self.state.driver.untimed().policy.faults;
        let mut faults = self.node_faults(self.shape.node(packet.to.hca));
        if packet.route.from != packet.route.to {
            faults = faults.with(Outcome::Drop).with(Outcome::Cut).with(Outcome::PortDown);
        }
        if matches!(packet.body, Body::Datagram(_)) {
            return faults.and(offered);
        }
        // That a receiver is not ready yet is no answer.
        let informs = !matches!(packet.body, Body::Ack { syndrome: Syndrome::Rnr(_), .. });
        let asks_again = |(_, _, qp): (HcaId, Key, &Qp)| qp.deadline != Nanos::MAX;
        if !(informs && self.requester_of(packet).is_some_and(asks_again)) {
            // Nobody would notice, or nobody would ever ask again.
            faults = faults.and(SILENT);
        } else if in_order && faults.contains(Outcome::Drop) {
            faults = faults.with(Outcome::Delay);
            faults = faults.with(if packet.body.is_request() {
                Outcome::RequesterGaveUp
            } else {
                Outcome::LoseCompletion
            });
        }
        faults.and(offered)
    }

    pub(super) fn out_of_order_faults(&self, out_of_order: &OutOfOrder) -> FaultSet {
        match &out_of_order.cargo {
            Cargo::Packet(packet) => self.packet_faults(*packet, false),
            Cargo::Cm { to, message } => {
                let lost = SILENT.without_all(OF_NODES).with(Outcome::Drop);
                let lost = if message.from == *to { FaultSet::NONE } else { lost };
                let lost = lost.and(self.state.driver.untimed().policy.faults);
                lost.with_all(self.node_faults(self.shape.node(to.hca)))
            }
        }
    }

    /// The queue pair that waits for an answer, if a packet asks for one that it still waits for, or brings it, or says that the
    /// receiver is not ready yet.
    fn requester_of(&self, packet: &Packet) -> Option<(HcaId, Key, &Qp)> {
        let end = if packet.body.is_request() { packet.from } else { packet.to };
        let adapter = &self.state.hcas[end.hca.0 as usize];
        let key = adapter.find(end.qp)?;
        let qp = adapter.qps.get(key)?;
        qp.waits_for(qp.last_answer_to(packet)).then_some((end.hca, key, qp))
    }

    // What happens.

    /// Something goes wrong with the delivery of the packet at a flow's head.
    pub(super) fn hit_packet(&mut self, place: u32, outcome: Outcome) -> Option<Happened> {
        let (_, flow) = self.state.flows.at(place)?;
        let id = flow.line.first()?;
        if !self.packet_faults(id, true).contains(outcome) {
            return None;
        }
        let (event, flow_name, number) = (flow.next(), flow.name(), flow.number);
        self.touch(object::sent(event), AccessKind::Cause);
        self.touch_arrival(id);
        match outcome {
            Outcome::RequesterGaveUp => self.requester_gives_up(place, id),
            Outcome::Crash | Outcome::Restart => {
                let node = self.shape.node(self.state.packets.get(id).to.hca);
                return Some(self.hit_node(node, outcome));
            }
            Outcome::Cut => self.cut(self.state.packets.get(id).route),
            Outcome::PortDown => self.port_down(self.state.packets.get(id).route.to),
            _ => {
                self.pop(place);
                match outcome {
                    Outcome::Delay => {
                        self.lost(id);
                        let late = identity::late(flow_name, number);
                        self.touch(object::out_of_order(late), AccessKind::Cause);
                        self.out_of_order_of(Cargo::Packet(id), late);
                    }
                    Outcome::LoseCompletion => {
                        let requester = self.requester_of(self.state.packets.get(id));
                        let requester = requester.map(|(hca, key, _)| (hca, key));
                        self.lose(id);
                        if let Some((hca, key)) = requester {
                            self.give_up(hca, key);
                        }
                    }
                    _ => {
                        self.lost(id);
                        self.lose(id);
                    }
                }
            }
        }
        Some(Happened::Done)
    }

    /// Something goes wrong with what is in no order.
    pub(super) fn hit_out_of_order(&mut self, key: Key, outcome: Outcome) -> Option<Happened> {
        let out_of_order = self.state.out_of_order.get(key)?;
        if !self.out_of_order_faults(out_of_order).contains(outcome) {
            return None;
        }
        let id = EventId(out_of_order.id);
        self.touch(object::out_of_order(id), AccessKind::Cause);
        let (route, packet) = match &self.state.out_of_order.get(key)?.cargo {
            Cargo::Packet(id) => (self.state.packets.get(*id).route, Some(*id)),
            Cargo::Cm { to, message } => (self.message_route(*to, message), None),
        };
        match packet {
            Some(packet) => self.touch_arrival(packet),
            None => self.touch_message(key),
        }
        match outcome {
            Outcome::Crash | Outcome::Restart => return Some(self.hit_node(self.node_at(route.to), outcome)),
            Outcome::Cut => self.cut(route),
            Outcome::PortDown => self.port_down(route.to),
            _ => self.lose_out_of_order(key),
        }
        Some(Happened::Done)
    }

    fn pop(&mut self, place: u32) {
        let Some((key, flow)) = self.state.flows.at_mut(place) else { return };
        self.state.packets.leave(&mut flow.line);
        flow.number += 1;
        flow.requester_gave_up = false;
        if flow.line.is_empty() && !flow.attached {
            self.state.flows.remove(key);
        }
    }

    /// The requester gives up; its packet goes on.
    fn requester_gives_up(&mut self, place: u32, id: u32) {
        if let Some((_, flow)) = self.state.flows.at_mut(place) {
            flow.requester_gave_up = true;
        }
        let requester = self.requester_of(self.state.packets.get(id)).map(|(hca, key, _)| (hca, key));
        if let Some((hca, key)) = requester {
            self.touch(object::sends(hca.0, key.index), AccessKind::Write);
            self.give_up(hca, key);
        }
    }

    fn node_at(&self, port: PortId) -> NodeId {
        self.shape.node(self.shape.hca(port))
    }

    fn cut(&mut self, way: Route) {
        let link = (way.from.min(way.to), way.from.max(way.to));
        let what = What::Link(link.0, link.1);
        let repair = identity::repair_link(link, self.count_breakage(what));
        self.break_down(what, repair);
        self.clear(|under_way| under_way == way || under_way.back() == way);
    }

    fn port_down(&mut self, port: PortId) {
        let node = self.node_at(port);
        let repair = identity::repair_port(port, self.count_breakage(What::Port(port)));
        self.break_down(What::Port(port), repair);
        self.set_port(node, self.shape.cable(port), false);
        // What an adapter sends to itself crosses no link.
        self.clear(|under_way| under_way.to == port && under_way.from != port);
    }

    fn count_breakage(&mut self, what: What) -> u32 {
        let breakages = &mut self.state.driver.untimed_mut().breakages;
        let place = breakages.iter().position(|(known, _)| *known == what).unwrap_or_else(|| {
            breakages.push((what, 0));
            breakages.len() - 1
        });
        breakages[place].1 += 1;
        breakages[place].1
    }

    fn break_down(&mut self, what: What, repair: EventId) {
        self.state.driver.untimed_mut().broken.push(Broken { what, repair });
        self.tell_broken(what, "is broken");
        self.touch(object::broken(repair), AccessKind::Cause);
        self.touch_links_of(what);
    }

    #[cold]
    fn tell_broken(&mut self, what: What, how: &str) {
        if !self.log.is_on() {
            return;
        }
        let shape = self.shape;
        let name = |port: PortId| match (shape.node(shape.hca(port)), shape.cable(port)) {
            (node, 1) => node.to_string(),
            (node, cable) => format!("{node}.{cable}"),
        };
        let (port, what) = match what {
            What::Link(a, b) => (a, format!("link {}-{}", name(a), name(b))),
            What::Port(port) => (port, format!("port {}", name(port))),
        };
        self.log.line(self.state.now, self.node_at(port), Line::Fault, format_args!("{what} {how}"));
    }

    fn touch_links_of(&mut self, what: What) {
        match what {
            What::Link(a, b) => self.touch(object::link(a, b), AccessKind::Write),
            What::Port(port) => self.touch_links(port),
        }
    }

    /// All links of a port.
    fn touch_links(&mut self, port: PortId) {
        for other in 0..self.state.ports.len() as u32 {
            if other != port.0 {
                self.touch(object::link(port, PortId(other)), AccessKind::Write);
            }
        }
    }

    /// A node crashes, and is there again if that is how it ends.
    pub(super) fn hit_node(&mut self, node: NodeId, outcome: Outcome) -> Happened {
        self.touch_undecided(node, AccessKind::Write);
        let clock = self.machine(node).clock;
        self.crash_now(node);
        self.log.line(self.state.now, node, Line::Fault, format_args!("{outcome}"));
        if outcome != Outcome::Restart {
            return Happened::Crashed(node);
        }
        self.restart(node);
        if self.state.driver.untimed().policy.drift.is_some() {
            // Time has gone on for it as for all others.
            self.machine(node).clock = clock;
        }
        let kept = &mut self.state.driver.untimed_mut().nodes[node.index()];
        kept.incarnation += 1;
        let (incarnation, steps) = (kept.incarnation, kept.steps);
        self.saw(node, &incarnation);
        self.touch_undecided(node, AccessKind::Cause);
        // The first step of the program that comes is due because of this.
        self.touch(object::wake(node, steps), AccessKind::Cause);
        Happened::Restarted(node)
    }

    fn crash_now(&mut self, node: NodeId) {
        self.state.driver.untimed_mut().nodes[node.index()].slow = false;
        self.touch(object::node(node), AccessKind::Write);
        for hca in self.shape.hcas(node) {
            self.touch(object::cm(hca), AccessKind::Write);
            self.forget_arrivals(hca);
            self.touch(object::regions(hca), AccessKind::Write);
            let pairs: Vec<Key> = self.state.hcas[hca.0 as usize].qps.iter().map(|(key, _)| key).collect();
            pairs.into_iter().for_each(|key| self.touch_end(hca, key));
        }
        let (cables, adapters) = (1..=self.shape.cables(), self.state.hcas.len() as u32);
        cables.for_each(|cable| self.touch_links(self.shape.at_cable(node, cable)));
        self.crash(node);
        for (dead, other) in
            self.shape.hcas(node).flat_map(|dead| (0..adapters).map(move |other| (dead, HcaId(other))))
        {
            if dead != other {
                self.peer_forgot(other, dead);
            }
        }
        self.state.driver.untimed_mut().nodes[node.index()].deadline = None;
        let shape = self.shape;
        self.clear(|under_way| shape.node(shape.hca(under_way.to)) == node);
    }

    pub(super) fn repairs(&self, quiescent: bool, out: &mut Vec<Enabled>) {
        for broken in &self.state.driver.untimed().broken {
            let event = broken.repair;
            let actor = identity::actor(event);
            out.push(Enabled { event, actor, faults: FaultSet::NONE, quiescent });
        }
    }

    pub(super) fn repair(&mut self, event: EventId) -> Option<()> {
        let broken = &mut self.state.driver.untimed_mut().broken;
        let place = broken.iter().position(|broken| broken.repair == event)?;
        let Broken { what, repair } = broken.remove(place);
        self.tell_broken(what, "is repaired");
        self.touch(object::broken(repair), AccessKind::Cause);
        self.touch_links_of(what);
        if let What::Port(port) = what {
            self.set_port(self.node_at(port), self.shape.cable(port), true);
        }
        Some(())
    }

    // What is lost.

    /// Everything that is under way on these ways is lost.
    fn clear(&mut self, hit: impl Fn(Route) -> bool) {
        for place in 0..self.state.flows.places() {
            while let Some((_, flow)) = self.state.flows.at(place) {
                // A flow has one way: what holds for its head holds for the rest.
                let Some(id) = flow.line.first() else { break };
                if !hit(self.state.packets.get(id).route) {
                    break;
                }
                self.pop(place);
                self.lost(id);
                self.lose(id);
            }
        }
        let keys: Vec<Key> = self.state.out_of_order.iter().map(|(key, _)| key).collect();
        for key in keys {
            let route = match self.state.out_of_order.get(key).map(|out_of_order| &out_of_order.cargo) {
                Some(Cargo::Packet(id)) => self.state.packets.get(*id).route,
                Some(Cargo::Cm { to, message }) => self.message_route(*to, message),
                None => continue,
            };
            if hit(route) {
                self.lose_out_of_order(key);
            }
        }
    }

    fn lose_out_of_order(&mut self, key: Key) {
        match self.state.out_of_order.remove(key).map(|out_of_order| out_of_order.cargo) {
            Some(Cargo::Packet(id)) => {
                self.lost(id);
                self.lose(id);
            }
            Some(Cargo::Cm { to, message }) => {
                self.state.stats.dropped += 1;
                self.message_lost(to, &message);
            }
            None => {}
        }
    }

    /// A packet is lost, or will be late: the requester that waits for it, or for its answer, may ask again.
    pub(in crate::world) fn lost(&mut self, id: u32) {
        let packet = self.state.packets.get(id);
        let end = if packet.body.is_request() { packet.from } else { packet.to };
        if let Some(place) = place_of(end.qp) {
            self.touch(object::accepts(end.hca.0, place), AccessKind::Read);
            if self.is_there(end) {
                self.touch(object::mode(end.hca.0, place), AccessKind::Read);
                self.touch(object::sends(end.hca.0, place), AccessKind::Write);
            }
        }
        let packet = self.state.packets.get(id);
        let Some((hca, key, qp)) = self.requester_of(packet) else { return };
        // What came out of turn was dropped, and this was to say so: for none of it there will be another word.
        let unsaid = matches!(packet.body, Body::Ack { syndrome: Syndrome::Nak(Nak::Sequence), .. });
        let psn = if unsaid { qp.newest() } else { qp.last_answer_to(packet) };
        self.mark_lost(hca, key, psn);
    }

    /// Whether a queue pair accepts any request: one that does not waits for nothing either.
    fn is_there(&self, end: Endpoint) -> bool {
        let adapter = &self.state.hcas[end.hca.0 as usize];
        let qp = adapter.find(end.qp).and_then(|key| adapter.qps.get(key));
        qp.is_some_and(Qp::accepts_own_path)
    }

    fn mark_lost(&mut self, hca: HcaId, key: Key, psn: Psn) {
        self.state.driver.untimed_mut().timers = true;
        let kept = self.state.driver.untimed_mut().pair(hca, key.index);
        match kept.lost {
            None => {
                kept.lost = Some(psn);
                kept.losses += 1;
                let losses = kept.losses;
                self.touch(object::timer(hca.0, key.index, losses), AccessKind::Cause);
            }
            Some(before) if psn.since(before) > 0 => kept.lost = Some(psn),
            Some(_) => {}
        }
    }

    /// A request arrives where nobody listens to it, or where it is dropped without a word: it is as good as lost.
    pub(super) fn note_unaccepted(&mut self, id: u32) {
        let packet = self.state.packets.get(id);
        if !packet.body.is_request() {
            return self.note_unaccepted_answer(id);
        }
        let heard = self.listener(packet.to, packet.route).and_then(|(hca, key)| {
            let qp = self.state.hcas[hca.0 as usize].qps.get(key)?;
            Some(!qp.drops_unsaid(packet.psn))
        });
        match heard {
            None => self.lost(id),
            // A requester that was told to try again later does so of its own accord; one that something was lost for may
            // have nothing left to tell it.
            Some(false) if self.is_at_a_loss(id) => self.lost(id),
            Some(_) => {}
        }
    }

    /// An answer behind one that is missing is dropped; all has been asked for again. If the missing one is late and fills the gap only now,
    /// nothing is left that would ask for what was dropped: it is as good as lost.
    fn note_unaccepted_answer(&mut self, id: u32) {
        let packet = self.state.packets.get(id);
        let (to, psn) = (packet.to, packet.psn);
        let is_dropped = self.requester_of(packet).is_some_and(|(hca, key, _)| {
            let qp = self.state.hcas[hca.0 as usize].qps.get(key);
            qp.is_some_and(|qp| qp.drops_answer_unsaid(psn))
        });
        let is_late = |cargo: &Cargo| match cargo {
            // What asks for the missing one, or answers it.
            Cargo::Packet(late) => {
                [self.state.packets.get(*late).from, self.state.packets.get(*late).to].contains(&to)
            }
            Cargo::Cm { .. } => false,
        };
        if is_dropped && self.state.out_of_order.iter().any(|(_, late)| is_late(&late.cargo)) {
            self.lost(id);
        }
    }

    /// Whether a packet's requester has lost another one.
    fn is_at_a_loss(&mut self, id: u32) -> bool {
        let from = self.state.packets.get(id).from;
        let Some(place) = place_of(from.qp) else { return false };
        self.touch(object::sends(from.hca.0, place), AccessKind::Read);
        self.state.driver.untimed_mut().pair(from.hca, place).lost.is_some()
    }

    /// Whether anything comes through by a way.
    pub(in crate::world) fn is_through(&mut self, way: Route) -> bool {
        if way.from == way.to {
            return true;
        }
        self.touch_link(way);
        let up = |port: PortId| {
            let there = self.state.ports.get(port.0 as usize).is_some_and(|port| port.up);
            there && !self.state.hcas[self.shape.hca(port).0 as usize].gone
        };
        let link = What::Link(way.from.min(way.to), way.from.max(way.to));
        up(way.from)
            && up(way.to)
            && !self.state.driver.untimed().broken.iter().any(|broken| broken.what == link)
    }

    /// Whether a packet that is being sent is lost at once.
    pub(super) fn is_swallowed(&mut self, id: u32) -> bool {
        let through = self.is_through(self.state.packets.get(id).route);
        if !through {
            self.lost(id);
        }
        !through
    }

    // Connection managers.

    /// A connection's time has run out.
    pub(super) fn ask_again(&mut self, event: EventId) -> Option<()> {
        let hca = identity::hca(event);
        let is_meant = |asking: &Asking| cm_timer_of(hca, asking) == event;
        let asking = self.state.cms.get(hca.0 as usize)?.asking().find(is_meant)?;
        match asking.lost {
            true => self.touch(object::cm_timer(hca, asking.id.0, asking.losses), AccessKind::Cause),
            false => self.touch(object::QUIESCENCE, AccessKind::Write),
        }
        self.cm_time_out(hca, asking)
    }
}
