//! A state as a number: what happened in another order, with the same result, has the same one.

use super::super::World;
use super::super::cpu::Activity;
use super::super::wire::Cargo;
use crate::NodeId;
use crate::explore::mix::Mix;
use crate::hca::{Bytes, Hca, Packet};
use std::hash::{Hash, Hasher};
use verbs_trait::Nanos;

impl World {
    /// Something that a node's program learns, and that what it does next may depend on.
    #[inline]
    pub fn saw(&mut self, node: NodeId, what: &(impl Hash + ?Sized)) {
        if self.untimed {
            self.state.untimed.nodes[node.index()].seen.value(what);
        }
    }

    /// From here on a program depends on this word alone, of all that it has seen.
    pub fn checkpoint(&mut self, node: NodeId, digest: u64) {
        if self.untimed {
            let mut seen = Mix::default();
            seen.word(digest);
            self.state.untimed.nodes[node.index()].seen = seen;
        }
    }

    /// The state, each part with its name.
    pub fn digest(&self, mut part: impl FnMut(&'static str, u32, u128)) {
        for node in self.all_nodes() {
            let mut mix = Mix::default();
            self.digest_node(node, &mut mix);
            part("node", node.0, mix.whole());
        }
        for hca in &self.state.hcas {
            let mut mix = Mix::default();
            self.digest_adapter(hca, &mut mix);
            part("adapter", hca.hw.id.0, mix.whole());
            let mut mix = Mix::default();
            self.state.cms[hca.hw.id.0 as usize].digest(&mut mix);
            mix.value(&self.state.untimed.cms[hca.hw.id.0 as usize].lost);
            part("manager", hca.hw.id.0, mix.whole());
            part("memory", hca.hw.id.0, digest_memory(hca));
        }
        part("fabric", 0, self.digest_under_way());
    }

    fn digest_node(&self, node: NodeId, mix: &mut Mix) {
        let (machine, kept) = (&self.state.machines[node.index()], &self.state.untimed.nodes[node.index()]);
        mix.value(&kept.seen.whole());
        let activity = match machine.activity {
            Activity::Idle => 0,
            Activity::Running => 1,
            Activity::Busy => 2,
            Activity::Parked(style) => 3 + style as u8,
            Activity::Done => 5,
        };
        let awake = machine.step_at < Nanos::MAX;
        (activity, machine.clock, awake, machine.urgent, machine.percent, machine.crashed).hash(mix);
        kept.deadline.hash(mix);
    }

    fn digest_adapter(&self, hca: &Hca, mix: &mut Mix) {
        let id = hca.hw.id.0 as usize;
        (hca.gone, hca.hw.outstanding).hash(mix);
        for (key, qp) in hca.qps.iter() {
            key.hash(mix);
            qp.digest(&self.state.buffers, mix);
            self.state.untimed.pairs[id].get(key.index as usize).and_then(|kept| kept.lost).hash(mix);
        }
        let completions = &hca.hw.completions;
        for (key, cq) in completions.cqs.iter() {
            key.hash(mix);
            cq.digest(mix);
        }
        completions.channels.iter().for_each(|pair| pair.hash(mix));
        completions.events.hash(mix);
        hca.hw.srqs.iter().for_each(|pair| pair.hash(mix));
        for port in 1..=self.shape.ports {
            self.state.ports[self.shape.port(hca.hw.id, port).0 as usize].up.hash(mix);
        }
    }

    /// What is under way, and what is broken: in no order but that within a flow.
    fn digest_under_way(&self) -> u128 {
        let mut sum = 0u128;
        let mut add = |mix: Mix| sum = sum.wrapping_add(mix.whole());
        for (_, flow) in self.state.flows.iter() {
            let mut mix = Mix::default();
            (flow.id, flow.attached, flow.stranded).hash(&mut mix);
            let packets = &self.state.packets;
            packets.in_line(flow.line).for_each(|id| self.digest_packet(packets.get(id), &mut mix));
            add(mix);
        }
        for (_, stray) in self.state.strays.iter() {
            let mut mix = Mix::default();
            match &stray.cargo {
                Cargo::Packet(id) => self.digest_packet(self.state.packets.get(*id), &mut mix),
                Cargo::Cm { to, message } => (to, message).hash(&mut mix),
            }
            add(mix);
        }
        for broken in &self.state.untimed.broken {
            let mut mix = Mix::default();
            broken.what.hash(&mut mix);
            add(mix);
        }
        sum
    }

    fn digest_packet(&self, packet: &Packet, mix: &mut Mix) {
        let Packet { from, to, route, psn, ack_req, solicited, migrated, body, data, op } = packet;
        (from, to, route, psn, ack_req, solicited, migrated).hash(mix);
        (body, op, data.bytes(&self.state.buffers)).hash(mix);
    }
}

fn digest_memory(hca: &Hca) -> u128 {
    let mut mix = Mix::default();
    for (key, region) in hca.hw.memory.iter() {
        (key, region.addr, region.access, region.pd).hash(&mut mix);
        digest_bytes(&region.bytes, &mut mix);
    }
    mix.whole()
}

fn digest_bytes(bytes: &Bytes, mix: &mut Mix) {
    let mut piece = [0; 256];
    for at in (0..bytes.len()).step_by(piece.len()) {
        let piece = &mut piece[..(bytes.len() - at).min(256)];
        bytes.read(at, piece);
        mix.write(piece);
    }
}
