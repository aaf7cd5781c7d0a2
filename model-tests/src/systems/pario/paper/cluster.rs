//! The paper's cluster.

use crate::paper::{Cluster, Machine, PaperError, refused};
use weft_protocols::pario::{FsConfig, Pario};
use weft_sim::profile::Profile;
use weft_sim::{Config, Sim};
use weft_verbs::Wait;

/// Nodes whose messages may be so long.
pub(super) fn cluster(profile: &Profile, nodes: u32, max_message: u32) -> Result<Cluster, PaperError> {
    let config = Config { sanitize: false, ..Config::new(nodes, profile.clone()) };
    Cluster::new(config, |_| Wait::Poll, |mesh| mesh.max_message = max_message)
}

/// Starts the file service on every node.
pub(super) fn files(cluster: &Cluster, config: FsConfig) -> Result<Vec<Pario<Sim>>, PaperError> {
    let start = |Machine { rt, mesh }: &Machine| Pario::start(rt, mesh, config).map_err(refused);
    cluster.machines.iter().map(start).collect()
}
