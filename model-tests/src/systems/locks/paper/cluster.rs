//! The paper's cluster with a lock service on every node.

use crate::paper::{self, Machine, PaperError, refused};
use crate::system::{Place, System};
use crate::systems::locks::Locks;
use crate::systems::locks::workload::LockWork;
use weft_protocols::locks::{Audit, LockClient, LockKey, LockService, LockStats, Scheme};
use weft_protocols::rt::Rt;
use weft_sim::profile::Profile;
use weft_sim::{Config, Sim};
use weft_verbs::{Nanos, Wait};

/// The nodes with the service on each.
pub(super) struct Cluster {
    pub(super) below: paper::Cluster,
    nodes: Vec<(Rt<Sim>, LockService<Sim>)>,
}

impl Cluster {
    pub(super) fn new(
        profile: &Profile,
        scheme: Scheme,
        wait: Wait,
        nodes: u32,
    ) -> Result<Cluster, PaperError> {
        let below = paper::Cluster::new(Config::new(nodes, profile.clone()), |_| wait, |_| {})?;
        let start = |(node, Machine { rt, mesh }): (u32, &Machine)| {
            let place =
                Place { rt: rt.clone(), mesh: mesh.clone(), node, nodes, incarnation: 0, members: None };
            let locks = Locks::start(&place, &LockWork::idle(scheme), &()).map_err(refused)?;
            Ok((place.rt, locks))
        };
        let nodes = (0..).zip(&below.machines).map(start).collect::<Result<_, PaperError>>()?;
        Ok(Cluster { below, nodes })
    }

    /// A node's runtime and an application on it.
    pub(super) fn application(&self, node: u32) -> (Rt<Sim>, LockClient<Sim>) {
        let (rt, locks) = &self.nodes[node as usize];
        (rt.clone(), locks.client())
    }

    /// A lock whose home is this node.
    pub(super) fn key_of(&self, home: u32) -> LockKey {
        let nodes = self.nodes.len() as u32;
        (0..).map(LockKey).find(|key| key.home(nodes).index() == home as usize).expect("a hash reaches all")
    }

    /// What all services did so far.
    pub(super) fn stats(&self) -> LockStats {
        let mut sum = LockStats::default();
        for (_, locks) in &self.nodes {
            sum += locks.stats();
        }
        sum
    }

    /// Runs until everything is over, and makes sure that nothing is left.
    pub(super) fn finish(&self, until: Nanos) -> Result<(), PaperError> {
        self.below.run_until(until);
        match self.nodes.iter().all(|(_, locks)| Audit::is_clean(&locks.audit())) {
            true => Ok(()),
            false => Err(PaperError::Unfinished(format!("locks are still held or wanted at {until}"))),
        }
    }
}

/// The profile with some figures set to zero: what is left of a latency is what the others make up.
pub(super) fn without(profile: &Profile, figures: &[&str]) -> Result<Profile, PaperError> {
    let mut changed = profile.clone();
    for figure in figures {
        changed.set(figure, 0, "left out of this run, to see its share")?;
    }
    Ok(changed)
}

/// What IPC costs.
pub(super) const IPC: [&str; 2] = ["cpu.ipc_send_ns", "cpu.ipc_receive_ns"];

/// What a daemon's bookkeeping costs.
pub(super) const BOOKKEEPING: [&str; 2] = ["cpu.bookkeeping_poll_ns", "cpu.bookkeeping_notify_ns"];
