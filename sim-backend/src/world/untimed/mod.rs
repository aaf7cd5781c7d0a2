//! The untimed fabric (see [`explore`](crate::explore)): what can happen next is read from the state.

mod arrivals;
mod completions;
mod digest;
mod disks;
mod faults;
mod record;
mod take;

use super::World;
use super::cpu::Activity;
use super::wire::{Cargo, OutOfOrder};
use crate::NodeId;
use crate::choice::EventId;
use crate::cm::{Address, Asking, Message};
use crate::explore::identity::{self, Kind, object};
use crate::explore::state_hash::StateHash;
use crate::explore::{AccessKind, Enabled, FaultSet, Footprint, Object, Policy, Timers, Underway};
use crate::hca::{Endpoint, HcaId, Key, Qp, Route, place_of};
use crate::in_place::clone_in_place;
use arrivals::Arrivals;
pub(crate) use arrivals::Source;
use faults::{Broken, What};
use record::RequesterView;
use std::hash::Hash;
use weft_verbs::{Nanos, Psn};

/// What an untimed driver keeps in the state.
#[derive(Debug, Default)]
pub(crate) struct Untimed {
    pub policy: Policy,
    /// By adapter, by place.
    pairs: Vec<Vec<Pair>>,
    nodes: Vec<Machine>,
    /// By node.
    arrivals: Vec<Arrivals>,
    broken: Vec<Broken>,
    /// How often each was broken of what ever was.
    breakages: Vec<(What, u32)>,
    /// How many messages of connection managers there were about each connection.
    messages: Vec<((HcaId, u32), u32)>,
    /// A queue pair's timer may want to run out; if not, none is looked for.
    timers: bool,
}

clone_in_place! { Untimed { policy, pairs, nodes, arrivals, broken, breakages, messages, timers } }

/// What the present transition has done so far. Empty between transitions.
#[derive(Debug, Default)]
pub(crate) struct Transition {
    /// Queue pairs that have more to send, until the transition ends.
    pub to_serve: Vec<(HcaId, Key)>,
    /// What it touched, if that is recorded.
    footprint: Footprint,
    /// Whether it is.
    pub is_recorded: bool,
    /// The completion or event without which the present step would not be.
    reason: Option<Object>,
}

/// What is kept for a queue pair.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    /// The newest packet that was lost of those that it waits for: its timer may run out until that is answered.
    lost: Option<Psn>,
    /// How often a loss made its timer run.
    losses: u32,
    /// How often its receiver was not ready.
    refusals: u32,
    /// How often its timer ran out.
    fired: u32,
    /// Datagrams sent.
    datagrams: u32,
    /// Receive requests that were posted to it.
    receives: u32,
    shadow: RequesterView,
}

/// What is kept for a node.
#[derive(Clone, Copy, Debug, Default)]
struct Machine {
    /// Steps taken.
    steps: u32,
    /// Everything that its program saw.
    seen: StateHash,
    /// Until when it is parked at most.
    deadline: Option<Nanos>,
    /// Regions registered.
    regions: u32,
    /// How often it has restarted.
    incarnation: u32,
    /// Its step comes only once nothing else can happen ([`Outcome::SlowNode`](crate::explore::Outcome::SlowNode)).
    slow: bool,
}

impl Untimed {
    pub fn new(nodes: u32, hcas: u32) -> Untimed {
        Untimed {
            pairs: vec![Vec::new(); hcas as usize],
            nodes: vec![Machine::default(); nodes as usize],
            arrivals: (0..nodes).map(|_| Arrivals::default()).collect(),
            ..Untimed::default()
        }
    }

    /// All that nodes' programs have seen.
    pub fn seen(&self) -> Vec<StateHash> {
        self.nodes.iter().map(|node| node.seen).collect()
    }

    /// Nodes' programs have seen this, and nothing since.
    pub fn set_seen(&mut self, seen: &[StateHash]) {
        self.nodes.iter_mut().zip(seen).for_each(|(node, seen)| node.seen = *seen);
    }

    /// Something that a node's program learns.
    #[inline]
    pub fn saw(&mut self, node: NodeId, what: &(impl Hash + ?Sized)) {
        self.nodes[node.index()].seen.value(what);
    }

    /// The next region's number, which must not depend on what other nodes register.
    pub fn next_region(&mut self, node: NodeId) -> u32 {
        let nodes = self.nodes.len() as u32;
        let regions = &mut self.nodes[node.index()].regions;
        *regions += 1;
        (*regions - 1) * nodes + node.0
    }

    /// How often a node has restarted.
    pub fn incarnation(&self, node: NodeId) -> u64 {
        u64::from(self.nodes[node.index()].incarnation)
    }

    fn pair(&mut self, hca: HcaId, place: u32) -> &mut Pair {
        let pairs = &mut self.pairs[hca.0 as usize];
        if place as usize >= pairs.len() {
            pairs.resize(place as usize + 1, Pair::default());
        }
        &mut pairs[place as usize]
    }
}

impl World {
    /// Lists what can happen.
    pub fn enabled(&mut self, out: &mut Vec<Enabled>) {
        out.clear();
        self.serve_queue_pairs();
        self.packets(out);
        self.steps(out);
        self.disk_events(out);
        if self.state.driver.untimed().timers {
            self.qp_timers(out);
        }
        self.lost_messages(out);
        let repairs = self.state.driver.untimed().policy.repairs;
        if repairs == Timers::Any || (repairs == Timers::WhenQuiescent && out.is_empty()) {
            self.repairs(repairs == Timers::WhenQuiescent, out);
        }
        let timers = self.state.driver.untimed().policy.timers;
        if timers == Timers::Any || (timers == Timers::WhenQuiescent && out.is_empty()) {
            let quiescent = timers == Timers::WhenQuiescent;
            self.deadlines(quiescent, out);
            self.unanswered(quiescent, out);
            if out.is_empty() && self.state.driver.untimed().timers {
                self.refused_again(out);
            }
        }
    }

    fn offer(&self, event: EventId, faults: FaultSet, out: &mut Vec<Enabled>) {
        out.push(Enabled { event, actor: identity::actor(event), faults, quiescent: false });
    }

    fn packets(&self, out: &mut Vec<Enabled>) {
        let faulty = !self.state.driver.untimed().policy.faults.is_empty();
        for (_, flow) in self.state.flows.iter() {
            let Some(packet) = flow.line.first() else { continue };
            let faults = if faulty { self.packet_faults(packet, true) } else { FaultSet::NONE };
            self.offer(flow.next(), faults, out);
        }
        for (_, out_of_order) in self.state.out_of_order.iter() {
            let faults = if faulty { self.out_of_order_faults(out_of_order) } else { FaultSet::NONE };
            self.offer(EventId(out_of_order.id), faults, out);
        }
    }

    fn steps(&self, out: &mut Vec<Enabled>) {
        for node in self.all_nodes() {
            let Machine { steps, slow, .. } = self.state.driver.untimed().nodes[node.index()];
            if self.is_awake(node) && !slow {
                self.offer(identity::step(node, steps), self.step_faults(node), out);
            }
        }
    }

    fn all_nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.state.machines.len() as u32).map(NodeId)
    }

    fn is_awake(&self, node: NodeId) -> bool {
        let machine = &self.state.machines[node.index()];
        machine.step_at < Nanos::MAX && !machine.crashed
    }

    /// Programs whose deadline may come, and those that were slow.
    fn deadlines(&self, quiescent: bool, out: &mut Vec<Enabled>) {
        let latest = self.latest_deadline();
        for node in self.all_nodes() {
            let Machine { steps, slow, .. } = self.state.driver.untimed().nodes[node.index()];
            if slow || self.deadline(node).is_some_and(|deadline| deadline <= latest) {
                let event = identity::node_timer(node, steps);
                let (actor, faults) = (identity::actor(event), self.deadline_faults(node));
                out.push(Enabled { event, actor, faults, quiescent });
            }
        }
    }

    /// Until when a live node is parked at most.
    fn deadline(&self, node: NodeId) -> Option<Nanos> {
        let machine = &self.state.machines[node.index()];
        let parked = matches!(machine.activity, Activity::Parked(_)) && !machine.crashed;
        let kept = &self.state.driver.untimed().nodes[node.index()];
        kept.deadline.filter(|_| parked && !kept.slow)
    }

    /// The latest deadline that may come now ([`Policy::drift`]).
    fn latest_deadline(&self) -> Nanos {
        let Some(drift) = self.state.driver.untimed().policy.drift else { return Nanos::MAX };
        let earliest = self.all_nodes().filter_map(|node| self.deadline(node)).min();
        earliest.map_or(Nanos::MAX, |earliest| earliest + drift)
    }

    /// Timers of queue pairs that something provoked.
    fn qp_timers(&mut self, out: &mut Vec<Enabled>) {
        let mut wanted = false;
        for (hca, pairs) in self.state.driver.untimed().pairs.iter().enumerate() {
            for (place, kept) in pairs.iter().enumerate() {
                let Some((_, qp)) = self.state.hcas[hca].qps.at(place as u32) else { continue };
                if !(kept.lost.is_some() || qp.is_in_rnr_wait()) || qp.deadline == Nanos::MAX {
                    continue;
                }
                wanted = true;
                if !qp.is_in_rnr_wait() || self.will_be_received(qp) {
                    self.offer(timer_of(hca as u32, qp, kept), FaultSet::NONE, out);
                }
            }
        }
        self.state.driver.untimed_mut().timers = wanted;
    }

    /// At rest, a requester whose receiver is not ready asks again in vain, if it does so a limited number of times.
    fn refused_again(&self, out: &mut Vec<Enabled>) {
        for (hca, pairs) in self.state.driver.untimed().pairs.iter().enumerate() {
            for (place, kept) in pairs.iter().enumerate() {
                let Some((_, qp)) = self.state.hcas[hca].qps.at(place as u32) else { continue };
                if qp.is_in_rnr_wait() && qp.deadline != Nanos::MAX && !qp.asks_for_ever() {
                    let event = timer_of(hca as u32, qp, kept);
                    let actor = identity::actor(event);
                    out.push(Enabled { event, actor, faults: FaultSet::NONE, quiescent: true });
                }
            }
        }
    }

    /// Whether a request that was refused for want of a receive request would be taken now, or lost.
    fn will_be_received(&self, qp: &Qp) -> bool {
        self.peer_of(qp).is_none_or(|(hca, key)| {
            let adapter = &self.state.hcas[hca.0 as usize];
            adapter.qps.get(key).is_none_or(|peer| peer.has_receives(&adapter.hw))
        })
    }

    /// The queue pair that a connection leads to, if it accepts requests.
    fn peer_of(&self, qp: &Qp) -> Option<(HcaId, Key)> {
        self.listener(qp.peer()?, qp.route())
    }

    /// A queue pair, if it accepts requests that come by this way.
    fn listener(&self, end: Endpoint, way: Route) -> Option<(HcaId, Key)> {
        let adapter = &self.state.hcas[end.hca.0 as usize];
        let key = adapter.find(end.qp)?;
        let accepting = adapter.qps.get(key).is_some_and(|qp| qp.accepts(way));
        (accepting && !adapter.gone).then_some((end.hca, key))
    }

    /// Connections that are being made or ended, and of whose messages some were lost.
    fn lost_messages(&self, out: &mut Vec<Enabled>) {
        for (hca, cm) in (0..).zip(&self.state.cms) {
            for asking in cm.asking().filter(|asking| asking.lost) {
                self.offer(cm_timer_of(HcaId(hca), &asking), FaultSet::NONE, out);
            }
        }
    }

    /// Connections that are being made or ended, and whose messages nobody answers.
    fn unanswered(&self, quiescent: bool, out: &mut Vec<Enabled>) {
        for (hca, cm) in (0..).zip(&self.state.cms) {
            for asking in cm.asking().filter(|asking| !asking.lost) {
                let event = cm_timer_of(HcaId(hca), &asking);
                let actor = identity::actor(event);
                out.push(Enabled { event, actor, faults: FaultSet::NONE, quiescent });
            }
        }
    }

    /// A packet enters the fabric.
    pub(super) fn transmit_untimed(&mut self, id: u32, flow: Option<Key>) {
        if self.is_swallowed(id) {
            return self.lose(id);
        }
        match flow {
            None => {
                let packet = self.state.packets.get(id);
                let (hca, num) = (packet.from.hca, packet.from.qp);
                let Some(place) = place_of(num) else { return };
                let kept = self.state.driver.untimed_mut().pair(hca, place);
                kept.datagrams += 1;
                let event = identity::datagram(identity::flow(0, hca.0, num.0), kept.datagrams);
                self.out_of_order_of(Cargo::Packet(id), event);
            }
            Some(key) => {
                let Some(open) = self.state.flows.get_mut(key) else { return self.discard(id) };
                let number = open.number + open.line.len();
                let name = open.name();
                self.state.packets.join(&mut open.line, id, Nanos::ZERO);
                self.touch_sent(name, identity::delivery(name, number));
            }
        }
    }

    /// A connection manager's message enters the fabric. False if it is lost at once.
    pub(super) fn transmit_cm_untimed(&mut self, to: Address, message: Message) -> bool {
        let from = message.from;
        if !self.is_through(self.message_route(to, &message)) {
            self.state.stats.dropped += 1;
            self.message_lost(to, &message);
            return false;
        }
        let name = message.local.0;
        let number = self.count_message(from.hca, name);
        let event = identity::message(from.hca, name, number);
        self.out_of_order_of(Cargo::Cm { to, message: Box::new(message) }, event);
        true
    }

    /// The managers' messages that have not arrived.
    pub fn underway(&self) -> impl Iterator<Item = Underway> {
        self.state.out_of_order.iter().filter_map(|(_, out_of_order)| match &out_of_order.cargo {
            Cargo::Cm { to, message } => Some(Underway {
                event: EventId(out_of_order.id),
                from: self.shape.node(message.from.hca),
                to: self.shape.node(to.hca),
                name: message.name(),
            }),
            Cargo::Packet(_) => None,
        })
    }

    fn count_message(&mut self, hca: HcaId, name: u32) -> u32 {
        let messages = &mut self.state.driver.untimed_mut().messages;
        let place = messages.iter().position(|(of, _)| *of == (hca, name)).unwrap_or_else(|| {
            messages.push(((hca, name), 0));
            messages.len() - 1
        });
        messages[place].1 += 1;
        messages[place].1
    }

    /// The way that a connection manager's message takes.
    fn message_route(&self, to: Address, message: &Message) -> Route {
        self.way_between(message.from, to)
    }

    pub(super) fn way_between(&self, from: Address, to: Address) -> Route {
        let port = |address: Address| self.shape.port(address.hca, address.port);
        Route { from: port(from), to: port(to) }
    }

    /// Something is under way that is in no order.
    fn out_of_order_of(&mut self, cargo: Cargo, event: EventId) {
        self.touch(object::out_of_order(event), AccessKind::Cause);
        self.state.out_of_order.insert(OutOfOrder { id: event.0, cargo });
    }

    /// A queue pair is made.
    pub(super) fn begin_pair(&mut self, hca: HcaId, key: Key) {
        *self.state.driver.untimed_mut().pair(hca, key.index) = Pair::default();
        self.touch_mode(hca, key);
    }

    /// A program waits.
    pub(super) fn park_until(&mut self, node: NodeId, deadline: Option<Nanos>) {
        self.state.driver.untimed_mut().nodes[node.index()].deadline = deadline;
    }

    /// Marks a queue pair as one that has more to send: it does when the transition ends.
    pub(super) fn wants_service(&mut self, hca: HcaId, key: Key) {
        let Some(qp) = self.state.hcas[hca.0 as usize].qps.get_mut(key) else { return };
        if qp.service_at < Nanos::MAX && qp.service_set == Nanos::MAX {
            qp.service_set = Nanos::ZERO;
            self.scratch.untimed.to_serve.push((hca, key));
        }
    }

    /// Every queue pair sends what it may.
    pub fn serve_queue_pairs(&mut self) {
        let mut next = 0;
        while let Some(&(hca, key)) = self.scratch.untimed.to_serve.get(next) {
            next += 1;
            if let Some(qp) = self.state.hcas[hca.0 as usize].qps.get_mut(key) {
                qp.service_set = Nanos::MAX;
                if qp.service_at < Nanos::MAX {
                    self.engine(hca, Some(key), |hca, io| hca.serve(key, io));
                    self.touch_held(hca, key);
                }
            }
        }
        self.scratch.untimed.to_serve.clear();
    }

    /// After every call of the engine: what a queue pair's change means for timers, and for the footprint.
    pub(super) fn note_change(&mut self, hca: HcaId, key: Key) {
        let Some(qp) = self.state.hcas[hca.0 as usize].qps.get(key) else { return };
        let now = RequesterView::of(qp);
        let (is_in_rnr_wait, answered) = (qp.is_in_rnr_wait(), qp.unacked());
        let kept = self.state.driver.untimed_mut().pair(hca, key.index);
        if kept.lost.is_some_and(|lost| answered.since(lost) > 0) {
            kept.lost = None;
        }
        let before = std::mem::replace(&mut kept.shadow, now);
        let refused = now.is_refused_since(&before);
        kept.refusals += u32::from(refused);
        let refusals = kept.refusals;
        if refused {
            self.touch(object::refused(hca.0, key.index, refusals), AccessKind::Cause);
        }
        self.state.driver.untimed_mut().timers |= is_in_rnr_wait;
        if before.went_back(&now) {
            self.touch_mode(hca, key);
        }
        if before.accepts_otherwise(&now) {
            self.touch(object::accepts(hca.0, key.index), AccessKind::Write);
        }
    }
}

fn timer_of(hca: u32, qp: &Qp, kept: &Pair) -> EventId {
    identity::qp_timer(identity::flow(0, hca, qp.num.0), kept.fired)
}

fn cm_timer_of(hca: HcaId, asking: &Asking) -> EventId {
    identity::cm_timer(hca, asking.id.0, asking.fired)
}

/// The queue pair of a timer's event.
fn place_of_timer(event: EventId) -> Option<(HcaId, u32)> {
    let place = place_of(weft_verbs::QpNum(identity::num(event)))?;
    (Kind::of(event) == Some(Kind::QpTimer)).then_some((identity::hca(event), place))
}
