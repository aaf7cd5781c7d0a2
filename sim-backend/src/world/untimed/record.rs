//! What a transition touches, as it touches it.

use super::super::World;
use super::super::wire::Cargo;
use crate::NodeId;
use crate::access::What;
use crate::choice::EventId;
use crate::explore::identity::object;
use crate::explore::{AccessKind, Footprint, Object};
use crate::hca::{Body, Endpoint, HcaId, Key, News, PortId, Qp, Route, place_of};
use weft_verbs::QpState;

/// The part of a queue pair that decides how its requester goes on. A post depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequesterView {
    state: Option<QpState>,
    is_in_rnr_wait: bool,
    retries: u8,
    route: Route,
    /// How it accepts requests, if it does: as one that cannot send yet, or as one that can.
    accepting: Option<bool>,
}

impl RequesterView {
    pub fn of(qp: &Qp) -> RequesterView {
        let (state, route) = (qp.state(), qp.route());
        let (is_in_rnr_wait, retries) = (qp.is_in_rnr_wait(), qp.retries_left());
        let accepting = qp.accepts_own_path().then_some(state != QpState::Rtr);
        RequesterView { state: Some(state), is_in_rnr_wait, retries, route, accepting }
    }

    /// Whether what arrives is taken in otherwise now. Where no request is accepted, before and now, it makes no difference
    /// whether the queue pair is in error, reset, or gone.
    pub fn accepts_otherwise(&self, now: &RequesterView) -> bool {
        self.accepting != now.accepting || (self.accepting.is_some() && self.route != now.route)
    }

    /// Whether its receiver was found not to be ready.
    pub fn is_refused_since(&self, before: &RequesterView) -> bool {
        self.is_in_rnr_wait && !before.is_in_rnr_wait
    }

    /// Whether it is in another state now, or sends again what it had sent before. (Retries that are given back
    /// change nothing.)
    pub fn went_back(&self, now: &RequesterView) -> bool {
        let same =
            (self.state, self.is_in_rnr_wait, self.route) == (now.state, now.is_in_rnr_wait, now.route);
        !same || now.retries < self.retries
    }
}

impl World {
    /// From now on everything that is touched is recorded.
    pub fn begin_print(&mut self, print: &mut Footprint) {
        print.clear();
        std::mem::swap(&mut self.scratch.untimed.footprint, print);
        self.state.hcas.iter_mut().for_each(|hca| _ = hca.hw.memory.take_removed());
        self.scratch.untimed.is_recorded = true;
        self.state.access.mark(true);
    }

    /// The record is handed back.
    pub fn end_print(&mut self, print: &mut Footprint) {
        self.touch_removed();
        self.scratch.untimed.is_recorded = false;
        let marks = self.state.access.take_marks();
        for mark in &marks {
            let how = if mark.what == What::Read { AccessKind::Read } else { AccessKind::Write };
            let (first, last) = (mark.start / 8, (mark.start + mark.len - 1) / 8);
            for index in first..=last {
                self.scratch.untimed.footprint.push(object::word(mark.region, index), how);
            }
        }
        self.state.access.give_marks(marks);
        self.state.access.mark(false);
        std::mem::swap(&mut self.scratch.untimed.footprint, print);
    }

    /// Regions may go when the last request ends that held them: keys open nothing any more, and the node's program may register
    /// others in their place.
    fn touch_removed(&mut self) {
        for hca in (0..self.state.hcas.len() as u32).map(HcaId) {
            if self.state.hcas[hca.0 as usize].hw.memory.take_removed() {
                self.touch(object::regions(hca), AccessKind::Write);
                self.touch(object::node(self.shape.node(hca)), AccessKind::Write);
            }
        }
    }

    /// A program gives a region up, or ends its registration. What comes of that depends on which requests that held it have ended.
    pub(in crate::world) fn touch_region_end(&mut self, hca: HcaId, mr: Key) {
        self.touch(object::regions(hca), AccessKind::Write);
        if !self.is_recorded() || !self.state.hcas[hca.0 as usize].hw.memory.was_leased(mr) {
            return;
        }
        let adapter = &self.state.hcas[hca.0 as usize];
        let places: Vec<u32> = adapter.qps.iter().map(|(key, _)| key.index).collect();
        for place in places {
            self.touch(object::mode(hca.0, place), AccessKind::Read);
            self.touch(object::sends(hca.0, place), AccessKind::Read);
            self.touch(object::receives(hca.0, place), AccessKind::Read);
        }
    }

    /// Whether what is touched is recorded.
    #[inline(always)]
    pub(in crate::world) fn is_recorded(&self) -> bool {
        self.scratch.untimed.is_recorded
    }

    #[inline]
    pub(in crate::world) fn touch(&mut self, object: Object, how: AccessKind) {
        if self.is_recorded() {
            self.scratch.untimed.footprint.push(object, how);
        }
    }

    pub(super) fn touch_mode(&mut self, hca: HcaId, key: Key) {
        self.touch(object::mode(hca.0, key.index), AccessKind::Write);
    }

    /// Attributes of a queue pair are about to change that packets and posts look at, though its state stays as it is.
    pub(in crate::world) fn touch_update(&mut self, hca: HcaId, key: Key) {
        self.touch_mode(hca, key);
        self.touch(object::accepts(hca.0, key.index), AccessKind::Write);
    }

    /// A queue pair is about to be gone.
    pub(in crate::world) fn touch_end(&mut self, hca: HcaId, key: Key) {
        self.touch_mode(hca, key);
        if self.state.hcas[hca.0 as usize].qps.get(key).is_some_and(Qp::accepts_own_path) {
            self.touch(object::accepts(hca.0, key.index), AccessKind::Write);
        }
    }

    /// A packet arrives: it is taken in by one half of its queue pair.
    pub(super) fn touch_arrival(&mut self, id: u32) {
        if !self.is_recorded() {
            return;
        }
        let packet = self.state.packets.get(id);
        let (route, to, body) = (packet.route, packet.to, packet.body);
        let Some(place) = place_of(to.qp) else { return };
        let hca = to.hca.0;
        self.touch(object::accepts(hca, place), AccessKind::Read);
        self.touch_link(route);
        let datagram = matches!(body, Body::Datagram(_));
        if !datagram && self.listener(to, route).is_none() {
            // It goes by without a trace, until one is accepted.
            return;
        }
        let is_answer = !datagram && !body.is_request();
        let half = if is_answer { object::sends(hca, place) } else { object::receives(hca, place) };
        let wants = matches!(body, Body::Send { .. } | Body::Write { imm: Some(_), .. } | Body::Datagram(_));
        let looks_up = !matches!(body, Body::Ack { .. } | Body::Send { .. });
        // A responder does not care whether its requester goes forward or back: they share the connection, and nothing
        // else.
        if is_answer || datagram {
            self.touch(object::mode(hca, place), AccessKind::Read);
        }
        self.touch(half, AccessKind::Write);
        if looks_up {
            self.touch(object::regions(to.hca), AccessKind::Read);
        }
        if wants {
            self.touch_receive(to.hca, place);
        }
    }

    /// A message takes the oldest receive request, or finds none.
    fn touch_receive(&mut self, hca: HcaId, place: u32) {
        let Some((_, qp)) = self.state.hcas[hca.0 as usize].qps.at(place) else { return };
        let (queued, shared) = (qp.receives_queued(), qp.shared());
        if let (0, Some(srq)) = (queued, shared) {
            self.touch(object::shared(hca.0, srq.index), AccessKind::Write);
        }
        let posted = self.state.driver.untimed_mut().pair(hca, place).receives;
        self.touch(object::receive(hca.0, place, posted.wrapping_sub(queued)), AccessKind::Write);
    }

    /// A receive request is posted.
    pub(in crate::world) fn touch_post_recv(&mut self, hca: HcaId, key: Key) {
        let Some(qp) = self.state.hcas[hca.0 as usize].qps.get(key) else { return };
        let (depth, empty) = (qp.receive_depth(), qp.receives_queued() == 0);
        let kept = self.state.driver.untimed_mut().pair(hca, key.index);
        let number = kept.receives;
        self.touch(object::mode(hca.0, key.index), AccessKind::Read);
        self.touch(object::receive(hca.0, key.index, number), AccessKind::Write);
        // It has room because of the one that was taken so many before.
        if let Some(taken) = number.checked_sub(depth) {
            self.touch(object::receive(hca.0, key.index, taken), AccessKind::Read);
        }
        if empty {
            self.touch(object::ready(hca.0, key.index, number), AccessKind::Cause);
        }
    }

    /// A receive request was accepted.
    pub(in crate::world) fn count_receive(&mut self, hca: HcaId, key: Key) {
        self.state.driver.untimed_mut().pair(hca, key.index).receives += 1;
    }

    /// A requester asks again because a receiver is ready now.
    pub(super) fn touch_receiver(&mut self, heard: Option<(HcaId, Key)>) {
        let Some((hca, key)) = heard else { return };
        let Some(qp) = self.state.hcas[hca.0 as usize].qps.get(key) else { return };
        let (queued, shared) = (qp.receives_queued(), qp.shared());
        let number = self.state.driver.untimed_mut().pair(hca, key.index).receives.wrapping_sub(queued);
        self.touch(object::ready(hca.0, key.index, number), AccessKind::Cause);
        if let Some(srq) = shared {
            self.touch(object::shared(hca.0, srq.index), AccessKind::Read);
        }
    }

    pub(super) fn touch_peer(&mut self, peer: Endpoint) {
        if let Some(place) = place_of(peer.qp) {
            self.touch(object::accepts(peer.hca.0, place), AccessKind::Read);
        }
    }

    /// A message of a connection manager arrives. What it does there the manager says itself.
    pub(super) fn touch_message(&mut self, out_of_order: Key) {
        if !self.is_recorded() {
            return;
        }
        let Some(Cargo::Cm { to, message }) =
            self.state.out_of_order.get(out_of_order).map(|out_of_order| &out_of_order.cargo)
        else {
            return;
        };
        let (route, hca) = (self.message_route(*to, message), to.hca);
        self.touch_link(route);
        self.touch(object::cm(hca), AccessKind::Read);
    }

    /// A packet goes to the end of a flow.
    pub(in crate::world) fn touch_sent(&mut self, flow: u64, delivery: EventId) {
        self.touch(object::tail(flow), AccessKind::Write);
        self.touch(object::sent(delivery), AccessKind::Cause);
    }

    /// News for a node. Completions have objects of their own; what else is news is in order with all that the node does. Where they are
    /// what a waiting node waits for, `wakes` says whether they are the first: its step is because of them then, and might be because of
    /// the others. So which are first is a race. What ends any wait races with what comes to the node's queues, too, however many steps lie
    /// between the two: a step that is because of the one need not look for the other.
    pub(in crate::world) fn touch_news(&mut self, node: NodeId, news: News, wakes: Option<bool>) {
        if !self.is_recorded() {
            return;
        }
        // So have events, where they are in one order with completions.
        let events = !self.in_order() && (news.event || news.established.is_some());
        if events || news.urgent || news.channel {
            self.touch(object::node(node), AccessKind::Write);
        }
        if events || news.urgent {
            self.touch_ends(node);
        }
        if let Some(first) = wakes {
            let step = self.state.driver.untimed().nodes[node.index()].steps;
            self.touch(object::wake(node, step), AccessKind::Write);
            if first {
                self.touch(object::wake(node, step), AccessKind::Cause);
            }
        }
    }

    /// Something was posted: answers decide when it leaves if it does not at once.
    pub(super) fn touch_held(&mut self, hca: HcaId, key: Key) {
        if self.is_recorded() && self.state.hcas[hca.0 as usize].qps.get(key).is_some_and(Qp::is_held) {
            self.touch(object::sends(hca.0, key.index), AccessKind::Read);
        }
    }

    /// Whether a port is up is looked at: what changes that writes all of its links.
    pub(in crate::world) fn touch_port(&mut self, port: PortId) {
        if self.is_recorded()
            && let Some(other) = (0..self.state.ports.len() as u32).map(PortId).find(|other| *other != port)
        {
            self.touch_link(Route { from: port, to: other });
        }
    }

    /// Something goes over a link, or would.
    pub(super) fn touch_link(&mut self, way: Route) {
        if way.from != way.to && (self.links_can_fail() || !self.state.driver.untimed().broken.is_empty()) {
            self.touch(object::link(way.from, way.to), AccessKind::Read);
        }
    }
}
