//! Letting one chosen event happen.

use super::super::World;
use super::super::events::Happened;
use super::super::wire::Cargo;
use super::{place_of_timer, timer_of};
use crate::NodeId;
use crate::choice::EventId;
use crate::explore::identity::{self, Kind, count, object};
use crate::explore::{AccessKind, NotEnabled, Outcome};
use crate::hca::{HcaId, Key};
use weft_verbs::Nanos;

impl World {
    /// Lets an event happen in a way. A step is only begun: the caller runs the program.
    pub fn take(&mut self, event: EventId, outcome: Outcome) -> Result<Happened, NotEnabled> {
        let no = NotEnabled { event, outcome };
        let fault = outcome.is_fault();
        let node = identity::node(event);
        let known = node.index() < self.state.machines.len();
        match Kind::of(event).ok_or(no)? {
            Kind::Deliver => {
                let place = self.flow_at(event).ok_or(no)?;
                if fault {
                    return self.hit_packet(place, outcome).ok_or(no);
                }
                self.take_packet(place);
            }
            Kind::Late | Kind::Datagram | Kind::Cm => {
                let key = self.out_of_order_at(event).ok_or(no)?;
                if fault {
                    return self.hit_out_of_order(key, outcome).ok_or(no);
                }
                self.take_out_of_order(key);
            }
            Kind::Step if known => {
                let kept = &self.state.driver.untimed().nodes[node.index()];
                let due = self.is_awake(node) && !kept.slow && kept.steps == count(event);
                if !due || (fault && !self.step_faults(node).contains(outcome)) {
                    return Err(no);
                }
                if outcome == Outcome::SlowNode {
                    self.slow_down(node);
                    return Ok(Happened::Done);
                }
                if matches!(outcome, Outcome::Crash | Outcome::Restart) {
                    return Ok(self.hit_node(node, outcome));
                }
                return Ok(self.begin_untimed_step(node, false, outcome));
            }
            Kind::NodeTimer if known => return self.wait_until_deadline(event, node, outcome).ok_or(no),
            Kind::QpTimer if !fault => self.run_out(event).ok_or(no)?,
            Kind::CmTimer if !fault => self.ask_again(event).ok_or(no)?,
            Kind::DiskCall if known => return self.take_disk_call(event, outcome).ok_or(no),
            Kind::KeptWrite if known && !fault => self.take_kept_write(event).ok_or(no)?,
            Kind::RepairLink | Kind::RepairPort if !fault => self.repair(event).ok_or(no)?,
            _ => return Err(no),
        }
        Ok(Happened::Done)
    }

    fn flow_at(&self, event: EventId) -> Option<u32> {
        let mut flows = self.state.flows.iter();
        flows.find(|(_, flow)| flow.next() == event && !flow.line.is_empty()).map(|(key, _)| key.index)
    }

    fn out_of_order_at(&self, event: EventId) -> Option<Key> {
        self.state
            .out_of_order
            .iter()
            .find(|(_, out_of_order)| out_of_order.id == event.0)
            .map(|(key, _)| key)
    }

    /// The packet at a flow's head arrives.
    pub(super) fn take_packet(&mut self, place: u32) {
        let Some((_, flow)) = self.state.flows.at_mut(place) else { return };
        let Some(packet) = flow.line.first() else { return };
        let event = flow.next();
        flow.number += 1;
        flow.requester_gave_up = false;
        self.touch(object::sent(event), AccessKind::Cause);
        self.touch_arrival(packet);
        self.note_unaccepted(packet);
        self.deliver(place);
    }

    pub(super) fn take_out_of_order(&mut self, key: Key) {
        let Some(out_of_order) = self.state.out_of_order.get(key) else { return };
        let id = EventId(out_of_order.id);
        let packet = match &out_of_order.cargo {
            Cargo::Packet(packet) => Some(*packet),
            Cargo::Cm { .. } => None,
        };
        self.touch(object::out_of_order(id), AccessKind::Cause);
        match packet {
            Some(packet) => {
                self.touch_arrival(packet);
                self.note_unaccepted(packet);
            }
            None => self.touch_message(key),
        }
        self.deliver_out_of_order(key.index);
    }

    /// In full, or without memory.
    fn begin_untimed_step(&mut self, node: NodeId, due: bool, outcome: Outcome) -> Happened {
        if outcome == Outcome::NoMemory {
            self.run_short(node);
        }
        if self.is_recorded() {
            self.touch_reason(node, due);
        }
        let kept = &mut self.state.driver.untimed_mut().nodes[node.index()];
        let number = kept.steps;
        kept.steps += 1;
        kept.deadline = None;
        self.touch(object::node(node), AccessKind::Write);
        self.touch(object::wake(node, number), AccessKind::Cause);
        let clock = self.state.machines[node.index()].clock;
        self.saw(node, &clock);
        self.state.machines[node.index()].step_at = self.state.now;
        self.begin_step(node)
    }

    /// A parked program's deadline comes, or a slow node takes its step; or its node crashes before that, or is slow then.
    fn wait_until_deadline(&mut self, event: EventId, node: NodeId, outcome: Outcome) -> Option<Happened> {
        let kept = &self.state.driver.untimed().nodes[node.index()];
        let (due, slow) = (kept.steps == count(event), kept.slow);
        let may_end_so = !outcome.is_fault() || self.deadline_faults(node).contains(outcome);
        let deadline = self.deadline(node).filter(|deadline| *deadline <= self.latest_deadline());
        if !due || !may_end_so || !(slow || deadline.is_some()) {
            return None;
        }
        self.touch(object::QUIESCENCE, AccessKind::Write);
        if matches!(outcome, Outcome::Crash | Outcome::Restart) {
            // The deadlines of the others were looked at.
            self.all_nodes().for_each(|other| self.touch(object::node(other), AccessKind::Read));
            return Some(self.hit_node(node, outcome));
        }
        let Some(deadline) = deadline else {
            self.state.driver.untimed_mut().nodes[node.index()].slow = false;
            return Some(self.begin_untimed_step(node, true, outcome));
        };
        self.clocks_reach(node, deadline);
        if outcome == Outcome::SlowNode {
            // What it does at last is another step than the one that it would have taken in time.
            self.state.driver.untimed_mut().nodes[node.index()].steps += 1;
            self.slow_down(node);
            return Some(Happened::Done);
        }
        Some(self.begin_untimed_step(node, true, outcome))
    }

    /// A node's clock reaches its deadline, and those of the others are no further behind than clocks differ.
    fn clocks_reach(&mut self, node: NodeId, deadline: Nanos) {
        if let Some(drift) = self.state.driver.untimed().policy.drift {
            let reached = deadline - drift;
            for other in self.all_nodes() {
                // Its deadline was looked at, and its clock is moved.
                self.touch(object::node(other), AccessKind::Write);
                let machine = &mut self.state.machines[other.index()];
                if !machine.crashed {
                    machine.clock = machine.clock.max(reached);
                }
            }
        }
        let machine = &mut self.state.machines[node.index()];
        machine.clock = machine.clock.max(deadline);
    }

    /// A queue pair's timer runs out: it sends again, or, where nobody would hear it, gives up at once.
    fn run_out(&mut self, event: EventId) -> Option<()> {
        let (hca, place) = place_of_timer(event)?;
        let kept = *self.state.driver.untimed().pairs.get(hca.0 as usize)?.get(place as usize)?;
        let (key, qp) = self.state.hcas[hca.0 as usize].qps.at(place)?;
        if timer_of(hca.0, qp, &kept) != event || qp.deadline == Nanos::MAX {
            return None;
        }
        let (refused, peer, heard, route) = (qp.is_in_rnr_wait(), qp.peer(), self.peer_of(qp), qp.route());
        if !refused && kept.lost.is_none() {
            return None;
        }
        self.touch_mode(hca, key);
        self.touch(object::sends(hca.0, place), AccessKind::Write);
        if refused {
            self.touch(object::refused(hca.0, place, kept.refusals), AccessKind::Cause);
            self.touch_receiver(heard);
        } else {
            self.touch(object::timer(hca.0, place, kept.losses), AccessKind::Cause);
        }
        let linked = self.is_through(route);
        // Over a link that is gone nobody accepts it, whether a peer is there or not.
        if let Some(peer) = peer.filter(|_| refused || linked) {
            self.touch_peer(peer);
        }
        let kept = self.state.driver.untimed_mut().pair(hca, place);
        kept.fired += 1;
        kept.lost = None;
        if refused || (linked && heard.is_some()) {
            self.engine(hca, Some(key), |hca, io| hca.on_timer(key, io));
        } else {
            self.give_up(hca, key);
        }
        Some(())
    }

    /// A requester's retries are all used up at once.
    pub(super) fn give_up(&mut self, hca: HcaId, key: Key) {
        self.engine(hca, Some(key), |hca, io| hca.run_out(key, io));
    }
}
