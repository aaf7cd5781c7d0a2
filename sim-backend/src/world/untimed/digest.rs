//! A state as a number: what happened in another order, with the same result, has the same one.
//!
//! It is told in one of two ways. By *history*, a program counts by all that it has seen, and everything has the name that it
//! was given: the strongest, for tests of what commutes. By *content*, programs say what they still know, and names
//! that only history gave are left out: the fewest states.

use super::super::World;
use super::super::cpu::Activity;
use super::super::wire::Cargo;
use crate::NodeId;
use crate::explore::state_hash::StateHash;
use crate::hca::{Body, CanonicalForm, Endpoint, Hca, HcaId, Packet};
use std::hash::Hash;
use weft_verbs::{AccessFlags, Nanos, Psn, QpNum};

/// What each node's program still knows, as numbers: `None` for one that cannot say, and counts by its history.
/// An empty list is a fingerprint by history.
pub type Contents<'a> = &'a [Option<u128>];

impl World {
    /// The state, each part with its name.
    pub fn digest(&self, contents: Contents<'_>, mut part: impl FnMut(&'static str, u32, u128)) {
        for node in self.all_nodes() {
            let mut hash = StateHash::default();
            self.digest_node(node, content_of(contents, node), &mut hash);
            part("node", node.0, hash.whole());
            let mut hash = StateHash::default();
            self.state.disks[node.index()].digest(&mut hash);
            part("disk", node.0, hash.whole());
        }
        let repeats = !contents.is_empty() && self.has_repeats();
        for hca in &self.state.hcas {
            let content = content_of(contents, hca.hw.node);
            let mut hash = StateHash::default();
            if contents.is_empty() {
                self.digest_adapter(hca, &mut hash);
            } else {
                self.digest_canonical(hca, content.is_none(), repeats, &mut hash);
            }
            part("adapter", hca.hw.id.0, hash.whole());
            let mut hash = StateHash::default();
            let manager = &self.state.cms[hca.hw.id.0 as usize];
            match content {
                Some(_) => manager.digest_canonical(&mut hash),
                None => manager.digest(&mut hash),
            }
            part("manager", hca.hw.id.0, hash.whole());
            part("memory", hca.hw.id.0, digest_memory(hca, content.is_none()));
        }
        part("fabric", 0, self.digest_under_way(!contents.is_empty()));
    }

    /// A program that says what it knows is not asked for its history, nor for its clock: nothing in it waits for a
    /// time, or it would not say so. Where clocks go together, it may have looked at its own.
    fn digest_node(&self, node: NodeId, content: Option<u128>, hash: &mut StateHash) {
        let (machine, kept) =
            (&self.state.machines[node.index()], &self.state.driver.untimed().nodes[node.index()]);
        let activity = match machine.activity {
            Activity::Idle => 0,
            Activity::Running => 1,
            Activity::Busy => 2,
            Activity::Parked(style) => 3 + style as u8,
            Activity::Done => 5,
        };
        let awake = machine.step_at < Nanos::MAX;
        match content {
            Some(content) if self.state.driver.untimed().policy.drift.is_some() => {
                hash.value(&(content, machine.clock));
            }
            Some(content) => hash.value(&content),
            None => hash.value(&(kept.seen.whole(), machine.clock)),
        }
        (activity, awake, machine.urgent, machine.percent, machine.crashed).hash(hash);
        (kept.deadline, kept.slow).hash(hash);
    }

    fn digest_adapter(&self, hca: &Hca, hash: &mut StateHash) {
        let id = hca.hw.id.0 as usize;
        for (key, qp) in hca.qps.iter() {
            key.hash(hash);
            qp.digest(&self.state.buffers, hash);
            self.state.driver.untimed().pairs[id]
                .get(key.index as usize)
                .and_then(|kept| kept.lost)
                .hash(hash);
        }
        for (key, cq) in hca.hw.completions.cqs.iter() {
            key.hash(hash);
            cq.digest(hash);
        }
        self.digest_rest(hca, hash);
    }

    fn digest_canonical(&self, hca: &Hca, named: bool, repeats: bool, hash: &mut StateHash) {
        let id = hca.hw.id.0 as usize;
        for (key, qp) in hca.qps.iter() {
            key.hash(hash);
            let me = Endpoint { hca: hca.hw.id, qp: qp.num };
            let peer = qp.peer().map_or(Psn::new(0), |peer| self.base(peer, me));
            let form = CanonicalForm { hw: &hca.hw, buffers: &self.state.buffers, named, peer, repeats };
            qp.digest_canonical(form, hash);
            let lost =
                self.state.driver.untimed().pairs[id].get(key.index as usize).and_then(|kept| kept.lost);
            lost.map(|lost| lost.since(qp.unacked())).hash(hash);
        }
        // What the next one is called.
        hca.qps.next_key().hash(hash);
        for (key, cq) in hca.hw.completions.cqs.iter() {
            key.hash(hash);
            if named { cq.digest(hash) } else { cq.digest_canonical(hash) }
        }
        self.digest_rest(hca, hash);
    }

    fn digest_rest(&self, hca: &Hca, hash: &mut StateHash) {
        (hca.gone, hca.hw.outstanding).hash(hash);
        hca.hw.completions.channels.iter().for_each(|pair| pair.hash(hash));
        hca.hw.completions.events.hash(hash);
        self.digest_arrivals(hca.hw.id, hash);
        hca.hw.srqs.iter().for_each(|pair| pair.hash(hash));
        for port in 1..=self.shape.ports {
            self.state.ports[self.shape.port(hca.hw.id, port).0 as usize].up.hash(hash);
        }
    }

    /// The number by which the sequence numbers of a connection's one direction are told: the oldest that the requester
    /// has no answer to. Zero where it is not there any more, and the numbers are told as they are.
    fn base(&self, requester: Endpoint, responder: Endpoint) -> Psn {
        let hca = &self.state.hcas[requester.hca.0 as usize];
        let qp = hca.find(requester.qp).and_then(|key| hca.qps.get(key));
        qp.filter(|qp| qp.peer() == Some(responder)).map_or(Psn::new(0), |qp| qp.unacked())
    }

    fn base_of(&self, packet: &Packet) -> Psn {
        match packet.body.is_request() {
            true => self.base(packet.from, packet.to),
            false => self.base(packet.to, packet.from),
        }
    }

    fn packets_under_way(&self) -> impl Iterator<Item = &Packet> {
        let packets = &self.state.packets;
        let in_order = self.state.flows.iter().flat_map(|(_, flow)| packets.in_line(flow.line));
        let unordered = self.state.out_of_order.iter().filter_map(|(_, packet)| match &packet.cargo {
            Cargo::Packet(id) => Some(*id),
            Cargo::Cm { .. } => None,
        });
        in_order.chain(unordered).map(|id| packets.get(id))
    }

    /// Whether a request is under way that its requester has the answer to.
    fn has_repeats(&self) -> bool {
        let old = |packet: &Packet| packet.body.is_request() && packet.psn.since(self.base_of(packet)) < 0;
        self.packets_under_way().any(old)
    }

    /// What is under way, and what is broken: in no order but that within a flow.
    fn digest_under_way(&self, meaning: bool) -> u128 {
        let mut sum = 0u128;
        let mut add = |hash: StateHash| sum = sum.wrapping_add(hash.whole());
        for (_, flow) in self.state.flows.iter() {
            let mut hash = StateHash::default();
            (flow.id, flow.attached, flow.requester_gave_up).hash(&mut hash);
            let packets = &self.state.packets;
            packets.in_line(flow.line).for_each(|id| self.digest_packet(packets.get(id), meaning, &mut hash));
            add(hash);
        }
        for (_, out_of_order) in self.state.out_of_order.iter() {
            let mut hash = StateHash::default();
            match &out_of_order.cargo {
                Cargo::Packet(id) => self.digest_packet(self.state.packets.get(*id), meaning, &mut hash),
                Cargo::Cm { to, message } => (to, message).hash(&mut hash),
            }
            add(hash);
        }
        for broken in &self.state.driver.untimed().broken {
            let mut hash = StateHash::default();
            broken.what.hash(&mut hash);
            add(hash);
        }
        sum
    }

    fn digest_packet(&self, packet: &Packet, meaning: bool, hash: &mut StateHash) {
        let Packet { from, to, route, psn, ack_req, solicited, migrated, body, data, op } = packet;
        (from, to, route, ack_req, solicited, migrated).hash(hash);
        (op, data.bytes(&self.state.buffers)).hash(hash);
        if !meaning {
            return (psn, body).hash(hash);
        }
        psn.since(self.base_of(packet)).hash(hash);
        // A message's sequence number is told and never looked at.
        match *body {
            Body::ReadResponse { part, msn: _ } => Body::ReadResponse { part, msn: 0 },
            Body::AtomicResponse { original, msn: _ } => Body::AtomicResponse { original, msn: 0 },
            Body::Ack { syndrome, msn: _ } => Body::Ack { syndrome, msn: 0 },
            other => other,
        }
        .hash(hash);
    }

    /// Send requests of a queue pair that have not ended.
    pub fn unended_sends(&self, node: NodeId, device: u8, qp: QpNum) -> u32 {
        self.pair_of(node, device, qp).map_or(0, |(hca, key)| {
            self.state.hcas[hca.0 as usize].qps.get(key).map_or(0, |qp| qp.sends_queued())
        })
    }

    /// Bytes of the n-th message that a queue pair has received and that was not polled.
    pub fn arrived(&self, node: NodeId, device: u8, qp: QpNum, n: usize) -> Option<u32> {
        let (hca, _) = self.pair_of(node, device, qp)?;
        let cqs = &self.state.hcas[hca.0 as usize].hw.completions.cqs;
        cqs.iter().flat_map(|(_, cq)| cq.arrived(qp)).nth(n)
    }

    fn pair_of(&self, node: NodeId, device: u8, qp: QpNum) -> Option<(HcaId, crate::hca::Key)> {
        let hca = self.shape.hcas(node).nth(usize::from(device))?;
        Some((hca, self.state.hcas[hca.0 as usize].find(qp)?))
    }
}

fn content_of(contents: Contents<'_>, node: NodeId) -> Option<u128> {
    contents.get(node.index()).copied().flatten()
}

/// All memory; or that which a peer may touch, where a program says itself what it keeps in its own. (What of that an
/// adapter is to read is told with the request.)
fn digest_memory(hca: &Hca, all: bool) -> u128 {
    let remote = AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
    let mut hash = StateHash::default();
    for (key, region) in hca.hw.memory.iter() {
        if all || region.access.intersects(remote) {
            (key, region.addr, region.access, region.pd).hash(&mut hash);
            region.bytes.digest(0, region.bytes.len(), &mut hash);
        }
    }
    hca.hw.memory.digest_keys(&mut hash);
    hash.whole()
}
