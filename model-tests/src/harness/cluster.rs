//! Nodes that are connected with each other from the start: the root of a model.
//!
//! Most models are not about making connections (the transport's own tests are), and it would make every execution
//! several times as long. So the meshes adopt connections that stand.

use crate::by_hand::{self, Terms};
use crate::system::Place;
use weft_protocols::rt::{Rt, RtConfig};
use weft_protocols::transport::{GuestConfig, Mesh, MeshConfig, MeshStats, Prepared, Rank};
use weft_sim::{Fabric, NodeId, Sim};
use weft_verbs::{Context, Device, Gid, Mtu, Nanos, QueuePair, RnrTimer, Wait};

/// A node's runtime and connections.
pub struct Member {
    /// Its runtime.
    pub rt: Rt<Sim>,
    /// Its connections.
    pub mesh: Mesh<Sim>,
}

impl Member {
    /// The node's place among so many, where a system starts on it after so many restarts.
    pub fn place(&self, node: usize, nodes: usize, incarnation: u32) -> Place<Sim> {
        let Member { rt, mesh } = self;
        let (rt, mesh) = (rt.clone(), mesh.clone());
        Place { rt, mesh, node: node as u32, nodes: nodes as u32, incarnation, members: None }
    }

    /// What its runtime and its connections keep although nobody asks for anything, by name, and what they have counted that cannot be.
    /// Messages may be unacknowledged: models have no timer that would tell the sender.
    pub fn leftovers(&self) -> [(&'static str, u64); 6] {
        let (audit, rt) = (self.mesh.audit(), self.rt.audit());
        let known = rt.sends + rt.unsignaled + rt.receives;
        let [repeated, moved] = miscounted(&self.mesh.stats());
        [
            ("operations outstanding", audit.outstanding),
            ("operations waiting", audit.waiting),
            ("requests whose end nobody has looked at", rt.slots.abs_diff(known) as u64),
            ("operations posted to a connection that was known to be broken", rt.in_vain),
            repeated,
            moved,
        ]
    }
}

/// What a node's connections have counted that cannot be: what was sent before is repeated on a connection that is made again, and that
/// one alone may be over another rail.
fn miscounted(
    MeshStats { reconnects, failovers, failbacks, messages_repeated, .. }: &MeshStats,
) -> [(&'static str, u64); 2] {
    let repeated = if *reconnects == 0 { *messages_repeated } else { 0 };
    [
        ("messages counted as repeated, and no connection that was made again", repeated),
        (
            "more changes of rails than connections that were made again",
            (failovers + failbacks).saturating_sub(*reconnects),
        ),
    ]
}

/// Whether any node's connections have counted one of these.
pub fn any_counted(members: &[Member], of: fn(&MeshStats) -> u64) -> bool {
    members.iter().any(|member| of(&member.mesh.stats()) > 0)
}

/// What a model's cluster looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many nodes it has.
    pub nodes: u32,
    /// How they learn of completions.
    pub wait: Wait,
    /// The node that needs a connection to itself, for its own atomics on its own words.
    pub home: Option<u32>,
    /// Whether they take completions one by one. Then nothing depends on whether a completion comes before its node has
    /// taken the one before it or after that, which saves nearly all orders of deliveries and steps. What is left out:
    /// that a program learns of two completions at once.
    pub one_by_one: bool,
}

/// How the nodes' connections came to stand before anything happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Meeting {
    /// They were joined from outside.
    #[default]
    Joined,
    /// Nodes were introduced to each other, as they are without a connection manager ([`Mesh::introduce`]). Each has a connection to
    /// itself, too.
    Introduced,
    /// They did not: each is made when it is needed.
    Unmet,
    /// They did not, and nodes but the first are its guests, which it takes so.
    Guests(GuestConfig),
}

/// What all executions of a model have in common: its nodes' configuration.
pub struct Cluster {
    shape: Shape,
    rails: u8,
    meeting: Meeting,
    /// How long its nodes look before they sleep.
    spin: Nanos,
    /// The first node's.
    mesh: MeshConfig,
}

impl Cluster {
    /// How many nodes it has.
    pub fn nodes(&self) -> u32 {
        self.shape.nodes
    }

    /// The configuration of a cluster that looks so, and whose nodes have so many rails. The first connections are over
    /// rail 0. `change` sets what differs from the settings of most worlds.
    pub fn new(
        shape: Shape,
        rails: u8,
        (meeting, spin): (Meeting, Nanos),
        change: impl FnOnce(&mut MeshConfig),
    ) -> Cluster {
        let names = |rail: u8| (0..shape.nodes).map(|node| NodeId(node).cable(rail + 1)).collect::<Vec<_>>();
        let mut mesh = mesh_config(Rank::from_index(0), names(0));
        mesh.other_rails = (1..rails).map(|rail| names(rail).into()).collect();
        // It is made beside everything else, in every order: worlds that are not about it do without.
        mesh.standby = false;
        change(&mut mesh);
        Cluster { shape, rails, meeting, spin, mesh }
    }

    /// Whether its adapters have remote atomics.
    pub fn has_atomics(&self) -> bool {
        self.mesh.atomics
    }

    /// Starts a runtime and a mesh on every node of a new fabric, and connects each with each.
    pub fn connected(&self, fabric: &Fabric) -> Vec<Member> {
        let Shape { nodes, home, .. } = self.shape;
        let (members, gids): (Vec<Member>, Vec<Gid>) =
            (0..nodes).map(|node| self.alone(fabric, NodeId(node))).unzip();
        match self.meeting {
            Meeting::Joined => {}
            Meeting::Introduced => {
                introduce(&members);
                return members;
            }
            Meeting::Unmet | Meeting::Guests(_) => return members,
        }
        for (near, member) in members.iter().enumerate() {
            if home == Some(near as u32) {
                join(member.mesh.prepare_loopback().expect("nothing is connected"), [gids[near]; 2]);
            }
            for (far, other) in members.iter().enumerate().skip(near + 1) {
                let a = member.mesh.prepare(other.mesh.me()).expect("nothing is connected");
                let b = other.mesh.prepare(member.mesh.me()).expect("nothing is connected");
                join([a, b], [gids[near], gids[far]]);
            }
        }
        members
    }

    /// Starts a runtime and a mesh on a node that has restarted. Its connections are its own to make.
    pub fn restarted(&self, fabric: &Fabric, node: NodeId) -> Member {
        self.alone(fabric, node).0
    }

    fn alone(&self, fabric: &Fabric, node: NodeId) -> (Member, Gid) {
        let Shape { wait, one_by_one, .. } = self.shape;
        let devices = fabric.devices(node).into_iter().take(usize::from(self.rails));
        let contexts: Vec<_> = devices.map(|device| device.open().expect("a node's device opens")).collect();
        let config = RtConfig { wait, spin: self.spin, cqe: 1024, one_by_one, ..RtConfig::default() };
        let rt = Rt::over(&contexts, config).expect("sizes are good");
        let config = MeshConfig { me: Rank::from_index(node.0), ..self.mesh.clone() };
        let config = match self.meeting {
            Meeting::Guests(how) if node.0 == 0 => config.with_guests(1, how),
            Meeting::Guests(_) => config.as_guest_of(1),
            _ => config,
        };
        if config.is_guest {
            // A server knows guests by these numbers alone, and in explored worlds all nodes' are the same.
            (1..node.0).for_each(|_| _ = rt.identity());
        }
        let mesh = Mesh::start(&rt, config).expect("sizes are good");
        (Member { rt, mesh }, contexts[0].gid(1, 0).expect("port 1 has a GID"))
    }
}

/// Without the transport's timers: what they are for is tested elsewhere, and every timer is one more event to be
/// ordered. For the same reason send queues are so deep that no message needs to be signaled for the sake of the place
/// that it takes. Receive buffers are the fewest that a mesh takes: every execution posts them, and each that a broken
/// connection flushes is one more completion to be ordered. For the few messages of a world they are enough without a
/// frame for the sake of credits. What a node posts fits into one chunk.
fn mesh_config(me: Rank, names: Vec<String>) -> MeshConfig {
    MeshConfig {
        recv_buffers: 8,
        send_depth: 64,
        max_message: 64,
        chunk: 1600,
        rd_atomic: 4,
        ack_delay: Nanos::MAX,
        probe_after: Nanos::MAX,
        ..MeshConfig::new(me, names)
    }
}

/// By how much clocks differ where connections have [timers](with_timers).
pub const DRIFT: Nanos = Nanos::from_millis(1);

/// Gives connections the timers of acknowledgements and probes, which worlds do without otherwise: an acknowledgement comes before the
/// probe.
pub fn with_timers(config: &mut MeshConfig) {
    (config.ack_delay, config.probe_after) = (Nanos::from_millis(1), Nanos::from_millis(5));
}

/// Every node meets every other one, as without a connection manager.
fn introduce(members: &[Member]) {
    let met: Vec<_> =
        members.iter().map(|node| node.mesh.introduce(0).expect("nothing is connected")).collect();
    let cards: Vec<Vec<Vec<u8>>> = met.iter().map(|node| node.cards()).collect();
    let of = |node: usize| cards.iter().map(|cards| cards[node].clone()).collect::<Vec<_>>();
    let ready = met.into_iter().enumerate().map(|(node, met)| met.receive(&of(node)).expect("good cards"));
    let ready: Vec<_> = ready.collect();
    ready.into_iter().for_each(|node| node.connect().expect("all are ready"));
}

fn join([a, b]: [Prepared<Sim>; 2], [of_a, of_b]: [Gid; 2]) {
    let terms = Terms { mtu: Mtu::B1024, rnr_timer: RnrTimer::new(12).expect("a code"), rd_atomic: 4 };
    for (near, far, at) in [(&a, &b, of_b), (&b, &a, of_a)] {
        by_hand::join(near.qp(), far.qp().num(), at, terms).expect("a new queue pair goes this way");
    }
    let (from_a, from_b) = (a.introduction(), b.introduction());
    a.adopt(&from_b).expect("both are ready");
    b.adopt(&from_a).expect("both are ready");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_repeated_or_moved_without_a_new_connection_is_told() {
        let told = |counted| miscounted(&counted).map(|(_, count)| count);
        let again = MeshStats {
            reconnects: 2,
            failovers: 1,
            failbacks: 1,
            messages_repeated: 3,
            ..MeshStats::default()
        };
        assert_eq!(told(again), [0, 0]);
        assert_eq!(told(MeshStats { reconnects: 0, ..again }), [3, 2]);
        assert_eq!(told(MeshStats { reconnects: 1, ..again }), [0, 1]);
    }
}
