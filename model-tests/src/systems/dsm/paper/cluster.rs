//! The paper's cluster: a few nodes, each with its own way to learn of completions.

use crate::paper::{Cluster, Machine, PaperError, refused};
use weft_protocols::dsm::{Charges, Dsm, DsmConfig};
use weft_sim::profile::Profile;
use weft_sim::{Config, Sim};
use weft_verbs::{Nanos, Wait};

/// The longest message, in bytes: notices carry minipages of 4 KiB.
const LONGEST: u32 = 4_096 + 64;

/// A node for each way.
pub(super) fn cluster(profile: &Profile, waits: &[Wait]) -> Result<Cluster, PaperError> {
    let config = Config::new(waits.len() as u32, profile.clone());
    Cluster::new(config, |node| waits[node as usize], |mesh| mesh.max_message = LONGEST)
}

/// A node for each way, with shared memory that is charged as mapped memory is.
pub(super) fn shared(profile: &Profile, waits: &[Wait]) -> Result<(Cluster, Vec<Dsm<Sim>>), PaperError> {
    shared_with(profile, waits, false)
}

/// The same, where readers may take what is read elsewhere by RDMA read.
pub(super) fn shared_with(
    profile: &Profile,
    waits: &[Wait],
    pulls: bool,
) -> Result<(Cluster, Vec<Dsm<Sim>>), PaperError> {
    let cluster = cluster(profile, waits)?;
    let config = DsmConfig { charges: Charges::Mapped, pulls };
    let start = |Machine { rt, mesh }: &Machine| Dsm::start_as(rt, mesh, config).map_err(refused);
    let nodes = cluster.machines.iter().map(start).collect::<Result<_, _>>()?;
    Ok((cluster, nodes))
}

/// Microseconds for each of so many, of what they took in all.
pub(super) fn mean(times: Vec<Nanos>, of: u32) -> f64 {
    times.into_iter().fold(Nanos::ZERO, |sum, time| sum + time).as_micros_f64() / f64::from(of)
}
